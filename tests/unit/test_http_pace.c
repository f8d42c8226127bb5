/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include "http_case.h"

#define HOST      "Host: x\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"

static const struct http_limits hasty = { .idle_ms = 300, .header_ms = 300, .write_ms = 500 };

static void open_hasty(void)
{
	open_with(&hasty);
}

TestSuite(http_pace, .init = open_hasty, .fini = close_server);

Test(http_pace, silent_connection_is_closed)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = dial();

	cr_expect(get(fd, &b, NULL));
	cr_expect_eq(b.len, 0u);
	UNTIL(server->counts.connections == 0);
	(void)close(fd);
}

Test(http_pace, connection_is_closed_when_idle_after_a_request)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = dial();

	puts_to(fd, GET("/x"));
	cr_expect(get(fd, &b, NULL));
	cr_expect(strstr(b.data, "GET /x 0") != NULL);
	(void)close(fd);
}

Test(http_pace, slow_header_is_refused)
{
	static const char text[] = "GET /x HTTP/1.1\r\nHost: x\r\nA: b";

	expect_closed(text, strlen(text), "HTTP/1.1 408 ");
	cr_expect_eq(n_begun, 0);
}

Test(http_pace, slow_body_is_refused)
{
	static const char text[] = "POST /x HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nabc";

	expect_closed(text, strlen(text), "HTTP/1.1 408 ");
	cr_expect_eq(n_begun, 1);
	cr_expect_eq(n_gone, 1);
}

Test(http_pace, answer_that_nobody_takes_is_dropped)
{
	int fd = dial();

	puts_to(fd, GET("/big"));
	UNTIL(n_whole == 1);
	UNTIL(server->counts.connections == 0);
	(void)close(fd);
}

Test(http_pace, answer_that_is_taken_slowly_is_not_dropped)
{
	CLEANUP_BUF struct buf b = BUF_INIT(16 * MIB);
	uint64_t begin = clock_ms();
	int fd = dial();

	puts_to(fd, GET("/big"));
	while (clock_ms() - begin < 1500) {
		char part[4096];
		ssize_t n = recv(fd, part, sizeof(part), MSG_DONTWAIT);

		if (n > 0)
			buf_put(&b, part, (size_t)n);
		turn();
		(void)usleep(10000);
	}
	cr_expect(get(fd, &b, NULL), "the rest");
	cr_expect(b.len > 80000 * 71, "%zu", b.len);
	(void)close(fd);
}

Test(http_pace, waiting_for_the_handler_has_no_end)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	uint64_t begin = clock_ms();
	int fd = dial();

	puts_to(fd, GET("/later"));
	UNTIL(waiting);
	UNTIL(clock_ms() - begin > 900);
	cr_assert(waiting);
	say(waiting, 200, "late");
	cr_expect(get(fd, &b, "late"));
	(void)close(fd);
}

Test(http_pace, clock_stops_when_nobody_is_there)
{
	int fd = dial();

	(void)close(fd);
	UNTIL(!uv_is_active(&server->handles[HANDLE_TICK].handle));
}

static void open_few(void)
{
	open_with(&(struct http_limits){ .connections = 3, .per_peer = 2 });
}

TestSuite(http_limits, .init = open_few, .fini = close_server);

static int try_dial(int *ret_fd)
{
	int pair[2], r;

	cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	r = http_server_adopt(server, pair[1]);
	*ret_fd = pair[0];
	return r;
}

Test(http_limits, one_peer_has_so_many_connections)
{
	int a = dial(), b = dial(), c;

	cr_expect(try_dial(&c) < 0);
	(void)close(c);
	cr_expect_eq(server->counts.refused, 1u);
	(void)close(a);
	UNTIL(server->counts.connections == 1);
	cr_expect(try_dial(&c) == 0);
	(void)close(b);
	(void)close(c);
}

/* A listening socket of TCP, and its address. */
static int listen_tcp(struct sockaddr_in *ret)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert(bind(fd, (struct sockaddr *)&a, n) == 0 && listen(fd, 16) == 0);
	cr_assert(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
	cr_assert(http_server_listen(server, fd, NULL) == 0);
	*ret = a;
	return fd;
}

static int connect_tcp(const struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert(connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0);
	return fd;
}

Test(http_limits, all_together_have_so_many_connections)
{
	struct sockaddr_in at;
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fds[4];

	(void)listen_tcp(&at);
	fds[0] = dial();
	fds[1] = dial();
	fds[2] = connect_tcp(&at);
	UNTIL(server->counts.accepted == 3);
	fds[3] = connect_tcp(&at);
	cr_expect(get(fds[3], &b, NULL), "turned away");
	cr_expect_eq(server->counts.connections, 3u);
	for (size_t i = 0; i < ELEMENTSOF(fds); i++)
		(void)close(fds[i]);
}

/* As many descriptors as are open now. */
static struct rlimit take_descriptors(void)
{
	struct rlimit before, now;
	int lowest = fcntl(0, F_DUPFD_CLOEXEC, 0);

	cr_assert(lowest >= 0 && close(lowest) == 0);
	cr_assert(getrlimit(RLIMIT_NOFILE, &before) == 0);
	now = (struct rlimit){ (rlim_t)lowest, before.rlim_max };
	cr_assert(setrlimit(RLIMIT_NOFILE, &now) == 0);
	return before;
}

Test(http_limits, without_descriptors_clients_are_turned_away_not_left_hanging)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	struct sockaddr_in at;
	struct rlimit before;
	int fd;

	(void)listen_tcp(&at);
	fd = connect_tcp(&at);
	before = take_descriptors();
	cr_expect(get(fd, &b, NULL));
	cr_expect_eq(server->counts.accepted, 0u);
	cr_expect_eq(server->counts.refused, 1u);
	cr_assert(setrlimit(RLIMIT_NOFILE, &before) == 0);
	(void)close(fd);
	fd = connect_tcp(&at);
	UNTIL(server->counts.accepted == 1);
	(void)close(fd);
}

Test(http_limits, peer_of_tcp_has_an_address)
{
	struct sockaddr_in at;
	int fd;

	(void)listen_tcp(&at);
	fd = connect_tcp(&at);
	puts_to(fd, GET("/later"));
	UNTIL(waiting);
	cr_expect(str_has_prefix(http_peer(waiting)->text, "127.0.0.1:"));
	cr_expect_not(http_peer(waiting)->local);
	(void)close(fd);
}

Test(http_limits, peer_of_a_unix_socket_has_a_uid)
{
	char text[64];
	int fd = dial();

	(void)snprintf(text, sizeof(text), "unix:%u", getuid());
	puts_to(fd, GET("/later"));
	UNTIL(waiting);
	cr_expect(http_peer(waiting)->local);
	cr_expect_eq(http_peer(waiting)->uid, getuid());
	cr_expect_eq(http_peer(waiting)->pid, getpid());
	cr_expect_str_eq(http_peer(waiting)->text, text);
	(void)close(fd);
}

Test(http_limits, draining_server_takes_nobody_and_says_close)
{
	struct sockaddr_in at;
	int fd = dial(), other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CLEANUP_BUF struct buf b = BUF_INIT(4096);

	(void)listen_tcp(&at);
	http_server_drain(server);
	cr_expect(connect(other, (struct sockaddr *)&at, sizeof(at)) < 0);
	puts_to(fd, GET("/x"));
	cr_expect(get(fd, &b, NULL));
	cr_expect(strstr(b.data, "Connection: close\r\n") != NULL);
	(void)close(fd);
	(void)close(other);
}

Test(http_limits, closing_ends_all_and_tells_of_it)
{
	int a = dial(), b = dial();

	puts_to(a, GET("/later"));
	puts_to(b, "POST /x HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nabc");
	UNTIL(waiting && n_begun == 2);
	shut_server();
	cr_expect_eq(n_gone, 2);
	(void)close(a);
	(void)close(b);
}

/* The request waits, so that it can be asked. */
static int ask(const char *text)
{
	int fd = dial();

	puts_to(fd, text);
	UNTIL(waiting);
	return fd;
}

Test(http_limits, query_is_decoded)
{
	int fd = ask(GET("/later?a=b%20c+d&&e&f=&g=1=2&h%69=%C3%a9"));
	char v[16];

	cr_expect_str_eq(http_path(waiting), "/later");
	cr_expect_eq(http_query(waiting, "a", v, sizeof(v)), 1);
	cr_expect_str_eq(v, "b c d");
	cr_expect_eq(http_query(waiting, "e", v, sizeof(v)), 1);
	cr_expect_str_eq(v, "");
	cr_expect_eq(http_query(waiting, "f", v, sizeof(v)), 1);
	cr_expect_str_eq(v, "");
	cr_expect_eq(http_query(waiting, "g", v, sizeof(v)), 1);
	cr_expect_str_eq(v, "1=2");
	cr_expect_eq(http_query(waiting, "hi", v, sizeof(v)), 1);
	cr_expect_str_eq(v, "\xc3\xa9");
	cr_expect_eq(http_query(waiting, "z", v, sizeof(v)), 0);
	(void)close(fd);
}

Test(http_limits, wrong_parameter_is_an_error)
{
	int fd = ask(GET("/later?two=1&two=2&nul=%00&cut=%a&bad=%zz&long=12345678&end=%"));
	static const char *const names[] = { "two", "nul", "cut", "bad", "long", "end" };
	char v[8];

	for (size_t i = 0; i < ELEMENTSOF(names); i++)
		cr_expect_eq(http_query(waiting, names[i], v, sizeof(v)), -EINVAL, "%s", names[i]);
	(void)close(fd);
}

Test(http_limits, parameters_have_names)
{
	int fd = ask(GET("/later?&a=1&%62&c%zz=3&"));
	char v[8];

	cr_expect_eq(http_query_name(waiting, 0, v, sizeof(v)), 0);
	cr_expect_str_eq(v, "a");
	cr_expect_eq(http_query_name(waiting, 1, v, sizeof(v)), 0);
	cr_expect_str_eq(v, "b");
	cr_expect_eq(http_query_name(waiting, 2, v, sizeof(v)), -EINVAL);
	cr_expect_eq(http_query_name(waiting, 3, v, sizeof(v)), -ENOENT);
	(void)close(fd);
}

Test(http_limits, headers_are_found_whatever_their_case)
{
	int fd = ask("GET /later HTTP/1.1\r\n" HOST "X-a: 1\r\nx-A: 2\r\n\r\n");

	cr_expect_str_eq(http_header(waiting, "x-a"), "1");
	cr_expect_eq(http_header_count(waiting, "X-A"), 2u);
	cr_expect_null(http_header(waiting, "X-B"));
	cr_expect_eq(http_header_count(waiting, "X-B"), 0u);
	(void)close(fd);
}
