/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's sockets, its lock, its log and what it tells the service manager. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "daemon/listen.h"
#include "daemon/lock.h"
#include "daemon/log.h"
#include "daemon/notify.h"

static char dir[64], path[96];
static struct err err;

static void begin(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/ut-brig-listen-XXXXXX");
	cr_assert(mkdtemp(dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/sub/brigd.sock", dir);
	memset(&err, 0, sizeof(err));
	(void)unsetenv("NOTIFY_SOCKET");
	(void)unsetenv("JOURNAL_STREAM");
}

static void end(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)execlp("rm", "rm", "-rf", dir, (char *)NULL);
		_exit(1);
	}
	(void)waitpid(pid, NULL, 0);
}

TestSuite(listen, .init = begin, .fini = end);

/* In a child: descriptors and variables there are its own. 0: all of it held. */
static int in_child(int (*run)(void))
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		_exit(run());
	cr_assert(pid > 0 && waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define HOLDS(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)dprintf(STDERR_FILENO, "line %d: %s\n", __LINE__, #condition);       \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

static int connect_to(const char *to)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", to);
	return connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ? (fd_close(fd), -errno) : fd;
}

static mode_t mode_of(const char *of)
{
	struct stat st;

	cr_assert(stat(of, &st) == 0, "%s", of);
	return st.st_mode & 07777;
}

/* ---- unix ---- */

Test(listen, a_unix_socket_is_made_with_its_directory_and_mode)
{
	CLEANUP_FD int fd = FD_NONE;
	CLEANUP_FD int client = FD_NONE;
	char parent[80];
	mode_t old = umask(0);

	cr_assert(listen_unix(path, 0600, &fd, &err) >= 0, "%s", err.msg);
	cr_assert(umask(old) == 0, "the umask is as before");
	(void)snprintf(parent, sizeof(parent), "%s/sub", dir);
	cr_assert(mode_of(parent) == 0700 && mode_of(path) == 0600);
	client = connect_to(path);
	cr_assert(client >= 0 && socket_is_loopback(fd));
	cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC && fcntl(fd, F_GETFL) & O_NONBLOCK);
}

Test(listen, a_wider_mode_holds_whatever_the_umask)
{
	CLEANUP_FD int fd = FD_NONE;
	mode_t old = umask(0077);

	cr_assert(listen_unix(path, 0666, &fd, &err) >= 0, "%s", err.msg);
	(void)umask(old);
	cr_assert(mode_of(path) == 0666);
}

Test(listen, a_stale_socket_is_replaced)
{
	CLEANUP_FD int fd = FD_NONE;
	CLEANUP_FD int again = FD_NONE;

	cr_assert(listen_unix(path, 0600, &fd, &err) >= 0, "%s", err.msg);
	fd_closep(&fd);
	cr_assert(listen_unix(path, 0600, &again, &err) >= 0, "%s", err.msg);
}

Test(listen, a_socket_that_answers_is_left_alone)
{
	CLEANUP_FD int fd = FD_NONE;
	CLEANUP_FD int client = FD_NONE;
	int second = FD_NONE;

	cr_assert(listen_unix(path, 0600, &fd, &err) >= 0, "%s", err.msg);
	cr_assert(listen_unix(path, 0600, &second, &err) < 0);
	cr_assert(err.code == ERR_CONFLICT && *err.remedy && second == FD_NONE, "%s", err.msg);
	client = connect_to(path);
	cr_assert(client >= 0);
}

Test(listen, what_is_no_socket_is_never_removed)
{
	CLEANUP_FD int file = FD_NONE;
	int fd = FD_NONE;
	char plain[96];

	(void)snprintf(plain, sizeof(plain), "%s/file", dir);
	file = open(plain, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	cr_assert(file >= 0 && listen_unix(plain, 0600, &fd, &err) < 0);
	cr_assert(err.code == ERR_CONFLICT, "%s", err.msg);
	cr_assert(access(plain, F_OK) == 0);
	(void)snprintf(path, sizeof(path), "%s/link", dir);
	cr_assert(symlink(plain, path) == 0 && listen_unix(path, 0600, &fd, &err) < 0);
	cr_assert(err.code == ERR_CONFLICT && access(plain, F_OK) == 0);
}

Test(listen, a_directory_where_others_can_replace_it_is_refused)
{
	int fd = FD_NONE;

	cr_assert(chmod(dir, 0777) == 0);
	(void)snprintf(path, sizeof(path), "%s/x.sock", dir);
	cr_assert(listen_unix(path, 0600, &fd, &err) < 0 && err.code == ERR_DENIED, "%s", err.msg);
	cr_assert(chmod(dir, 01777) == 0);
	cr_assert(listen_unix(path, 0600, &fd, &err) >= 0, "%s", err.msg);
	fd_close(fd);
}

Test(listen, a_path_that_cannot_work_is_refused_with_a_remedy)
{
	char text[128];
	int fd = FD_NONE;

	memset(text, 'x', sizeof(text));
	text[0] = '/';
	text[108] = '\0';
	cr_assert(listen_unix(text, 0600, &fd, &err) < 0 && err.code == ERR_INVALID && *err.remedy);
	cr_assert(listen_unix("relative", 0600, &fd, &err) < 0 && err.code == ERR_INVALID);
	cr_assert(listen_unix("", 0600, &fd, &err) < 0 && err.code == ERR_INVALID);
	cr_assert(listen_unix("/nonexistent/a/b", 0600, &fd, &err) < 0 && *err.remedy);
	cr_assert(fd == FD_NONE);
}

/* ---- TCP ---- */

/* A port that was free a moment ago. */
static void free_port(char *ret, size_t n)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	CLEANUP_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	cr_assert(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
	(void)snprintf(ret, n, "127.0.0.1:%u", ntohs(at.sin_port));
}

Test(listen, tcp_on_loopback_needs_nothing_more)
{
	CLEANUP_FD int fd = FD_NONE;
	int second = FD_NONE;
	char at[32];

	free_port(at, sizeof(at));
	cr_assert(listen_tcp(at, false, false, &fd, &err) >= 0, "%s", err.msg);
	cr_assert(socket_is_loopback(fd) && fcntl(fd, F_GETFD) & FD_CLOEXEC);
	cr_assert(listen_tcp(at, false, false, &second, &err) < 0);
	cr_assert(err.code == ERR_CONFLICT && *err.remedy && second == FD_NONE, "%s", err.msg);
}

Test(listen, an_address_that_others_reach_needs_both_the_word_and_a_token)
{
	CLEANUP_FD int fd = FD_NONE;
	char at[40], wide[48];

	free_port(at, sizeof(at));
	(void)snprintf(wide, sizeof(wide), "0.0.0.0%s", strchr(at, ':'));
	cr_assert(listen_tcp(wide, false, true, &fd, &err) < 0 && err.code == ERR_INVALID);
	cr_assert(strstr(err.remedy, "--allow-remote"));
	cr_assert(listen_tcp(wide, true, false, &fd, &err) < 0 && err.code == ERR_INVALID);
	cr_assert(strstr(err.remedy, "brig token new") && fd == FD_NONE);
	cr_assert(listen_tcp(wide, true, true, &fd, &err) >= 0, "%s", err.msg);
	cr_assert(!socket_is_loopback(fd));
}

Test(listen, what_is_no_socket_is_not_loopback)
{
	CLEANUP_FD int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	cr_assert(!socket_is_loopback(fd) && !socket_is_loopback(-1));
}

/* ---- inherited ---- */

static void say_inherited(const char *pid, const char *count)
{
	char own[24];

	(void)snprintf(own, sizeof(own), "%ld", (long)getpid());
	(void)setenv("LISTEN_PID", pid ? pid : own, 1);
	(void)setenv("LISTEN_FDS", count, 1);
	(void)setenv("LISTEN_FDNAMES", "x", 1);
}

static int take_two(void)
{
	int fds[LISTEN_INHERITED_MAX], fd = FD_NONE;

	HOLDS(listen_unix(path, 0600, &fd, &err) >= 0);
	HOLDS(dup2(fd, 3) == 3 && dup2(fd, 4) == 4);
	say_inherited(NULL, "2");
	HOLDS(listen_inherited(false, false, fds, LISTEN_INHERITED_MAX, &err) == 2);
	HOLDS(fds[0] == 3 && fds[1] == 4 && fcntl(3, F_GETFD) & FD_CLOEXEC);
	HOLDS(!getenv("LISTEN_FDS") && !getenv("LISTEN_PID") && !getenv("LISTEN_FDNAMES"));
	HOLDS(listen_inherited(false, false, fds, LISTEN_INHERITED_MAX, &err) == 0);
	say_inherited(NULL, "2");
	HOLDS(listen_inherited(false, false, fds, 1, &err) < 0 && err.code == ERR_LIMIT);
	return 0;
}

Test(listen, inherited_sockets_are_taken_once)
{
	cr_assert(in_child(take_two) == 0);
}

static int for_another(void)
{
	int fds[4];

	say_inherited("1", "1");
	HOLDS(listen_inherited(false, false, fds, 4, &err) == 0 && !getenv("LISTEN_FDS"));
	say_inherited(NULL, "-1");
	HOLDS(listen_inherited(false, false, fds, 4, &err) == 0);
	say_inherited("x", "1");
	HOLDS(listen_inherited(false, false, fds, 4, &err) == 0);
	return 0;
}

Test(listen, sockets_meant_for_another_process_are_left)
{
	cr_assert(in_child(for_another) == 0);
}

static int refused_ones(void)
{
	int fds[4], pair[2], fd;

	HOLDS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && dup2(pair[0], 3) == 3);
	say_inherited(NULL, "1");
	HOLDS(listen_inherited(true, true, fds, 4, &err) < 0 && err.code == ERR_INVALID);
	fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	HOLDS(dup2(fd, 3) == 3);
	say_inherited(NULL, "1");
	HOLDS(listen_inherited(true, true, fds, 4, &err) < 0 && err.code == ERR_INVALID);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	HOLDS(dup2(fd, 3) == 3);
	say_inherited(NULL, "1");
	HOLDS(listen_inherited(true, true, fds, 4, &err) < 0 && err.code == ERR_INVALID);
	return 0;
}

Test(listen, an_inherited_descriptor_that_does_not_listen_is_refused)
{
	cr_assert(in_child(refused_ones) == 0);
}

static int remote_one(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int fds[4], fd = socket(AF_INET, SOCK_STREAM, 0);

	HOLDS(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 1) == 0);
	HOLDS(dup2(fd, 3) == 3);
	say_inherited(NULL, "1");
	HOLDS(listen_inherited(false, true, fds, 4, &err) < 0 && err.code == ERR_INVALID);
	say_inherited(NULL, "1");
	HOLDS(listen_inherited(true, false, fds, 4, &err) < 0 && err.code == ERR_INVALID);
	say_inherited(NULL, "1");
	HOLDS(listen_inherited(true, true, fds, 4, &err) == 1);
	return 0;
}

Test(listen, an_inherited_socket_that_others_reach_needs_both_too)
{
	cr_assert(in_child(remote_one) == 0);
}

/* ---- lock ---- */

Test(listen, a_second_daemon_of_a_state_directory_is_refused_with_the_first_ones_pid)
{
	CLEANUP_FD int fd = FD_NONE;
	int second = FD_NONE;
	char state[96], pid[32];

	(void)snprintf(state, sizeof(state), "%s/a/state", dir);
	(void)snprintf(pid, sizeof(pid), "(pid %ld)", (long)getpid());
	cr_assert(lock_state_dir(state, &fd, &err) >= 0, "%s", err.msg);
	cr_assert(mode_of(state) == 0700 && fcntl(fd, F_GETFD) & FD_CLOEXEC);
	cr_assert(lock_state_dir(state, &second, &err) < 0 && second == FD_NONE);
	cr_assert(err.code == ERR_CONFLICT && strstr(err.msg, pid) && *err.remedy, "%s", err.msg);
	fd_closep(&fd);
	cr_assert(lock_state_dir(state, &fd, &err) >= 0, "%s", err.msg);
}

Test(listen, a_lock_file_that_is_a_link_is_refused)
{
	char lock[96], target[96];
	int fd = FD_NONE;

	(void)snprintf(lock, sizeof(lock), "%s/" LOCK_FILE, dir);
	(void)snprintf(target, sizeof(target), "%s/target", dir);
	cr_assert(symlink(target, lock) == 0);
	cr_assert(lock_state_dir(dir, &fd, &err) < 0 && access(target, F_OK) < 0);
}

/* ---- log ---- */

static char line[LOG_LINE_MAX + 1];

Test(listen, a_line_of_text_has_time_level_and_message)
{
	log_open("text", "info");
	cr_assert(log_format(LOG_LEVEL_WARNING, NULL, "all is well", line) == strlen(line));
	cr_assert(strstr(line, "Z warning all is well\n") && line[4] == '-' && line[10] == 'T',
	          "%s", line);
}

Test(listen, a_line_of_json_is_escaped)
{
	log_open("json", "info");
	(void)log_format(LOG_LEVEL_ERROR, "io", "a \"b\" \\ c", line);
	cr_assert(str_has_prefix(line, "{\"time\":\""), "%s", line);
	cr_assert(
		strstr(line,
	               "\"level\":\"error\",\"code\":\"io\",\"message\":\"a \\\"b\\\" \\\\ c\"}\n"),
		"%s", line);
}

Test(listen, a_message_cannot_begin_another_line_or_move_a_cursor)
{
	log_open("text", "info");
	(void)log_format(LOG_LEVEL_INFO, NULL, "a\nb\x1b[2Jc\xc2\x9bx\x7f", line);
	cr_assert(strstr(line, "info a?b?[2Jc??x?\n"), "%s", line);
}

Test(listen, a_token_is_never_in_a_line)
{
	static const char *const formats[] = { "text", "json" };

	for (size_t i = 0; i < ELEMENTSOF(formats); i++) {
		log_open(formats[i], "info");
		(void)log_format(
			LOG_LEVEL_INFO, NULL,
			"of brig_0123456789ab_SECRET-secret, brig_x and brig_; brig-launch", line);
		cr_assert(strstr(line, "of brig_***, brig_*** and brig_; brig-launch"), "%s", line);
		cr_assert(!strstr(line, "SECRET") && !strstr(line, "0123456789ab"));
	}
}

Test(listen, a_long_message_is_cut_and_says_so)
{
	char text[3 * LOG_LINE_MAX];

	memset(text, '"', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	for (size_t shift = 0; shift < 4; shift++) {
		text[0] = 'a';
		log_open("json", "info");
		cr_assert(log_format(LOG_LEVEL_INFO, NULL, text + shift, line) <= LOG_LINE_MAX);
		cr_assert(streq(line + strlen(line) - 8, "\\\"...\"}\n"), "%s", line);
		log_open("text", "info");
		cr_assert(log_format(LOG_LEVEL_INFO, NULL, text + shift, line) == LOG_LINE_MAX);
		cr_assert(streq(line + LOG_LINE_MAX - 4, "...\n"), "%s", line);
	}
}

/* Standard error becomes the write end; the read end is returned. */
static int catch_stderr(bool as_socket)
{
	int ends[2];

	if (as_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe2(ends, 0))
		return -1;
	(void)dup2(ends[1], STDERR_FILENO);
	(void)close(ends[1]);
	return ends[0];
}

static int level_filters(void)
{
	const struct err e = { .code = ERR_IO, .msg = "it broke", .remedy = "mend it" };
	char text[4096] = "";
	int fd = catch_stderr(false);

	log_open("text", "warning");
	HOLDS(log_wants(LOG_LEVEL_ERROR) && !log_wants(LOG_LEVEL_INFO));
	errno = 77;
	log_line(LOG_LEVEL_INFO, "quiet %d", 1);
	log_line(LOG_LEVEL_WARNING, "loud %d", 2);
	log_err(LOG_LEVEL_ERROR, &e, "open %s", "x");
	HOLDS(errno == 77);
	HOLDS(read(fd, text, sizeof(text) - 1) > 0);
	HOLDS(!strstr(text, "quiet") && strstr(text, "warning loud 2\n"));
	HOLDS(strstr(text, "error open x: it broke (mend it)\n"));
	return 0;
}

Test(listen, only_levels_that_were_asked_for_go_out)
{
	cr_assert(in_child(level_filters) == 0);
}

static int journal_lines(void)
{
	char text[4096] = "", id[64];
	struct stat st;
	int fd = catch_stderr(true);

	HOLDS(fstat(STDERR_FILENO, &st) == 0);
	(void)snprintf(id, sizeof(id), "%llu:%llu", (unsigned long long)st.st_dev,
	               (unsigned long long)st.st_ino);
	(void)setenv("JOURNAL_STREAM", id, 1);
	log_open("text", "info");
	log_line(LOG_LEVEL_WARNING, "hello");
	HOLDS(read(fd, text, sizeof(text) - 1) > 0 && streq(text, "<4>hello\n"));
	(void)setenv("JOURNAL_STREAM", "1:1", 1);
	log_open("text", "info");
	(void)log_format(LOG_LEVEL_INFO, NULL, "x", line);
	HOLDS(*line != '<');
	return 0;
}

Test(listen, the_journal_gets_a_priority_and_no_time)
{
	cr_assert(in_child(journal_lines) == 0);
}

/* Fills what nobody reads, then reads it; lines are lost, nothing waits. */
static int full_stderr(bool as_socket)
{
	static char text[1 << 20];
	int fd = catch_stderr(as_socket);
	size_t got = 0;
	ssize_t n;

	(void)alarm(30);
	log_open("text", "info");
	for (int i = 0; i < 20000 && log_dropped() < 10; i++)
		log_line(LOG_LEVEL_INFO, "line %d of many that nobody reads", i);
	HOLDS(log_dropped() == 10);
	HOLDS(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	while (got < sizeof(text) && (n = read(fd, text + got, sizeof(text) - got)) > 0)
		got += (size_t)n;
	log_line(LOG_LEVEL_INFO, "again");
	n = read(fd, text, sizeof(text) - 1);
	HOLDS(n > 0);
	text[n] = '\0';
	HOLDS(strstr(text, "10 lines before this one were dropped\n") && strstr(text, "again\n"));
	return 0;
}

static int full_pipe(void)
{
	return full_stderr(false);
}

static int full_socket(void)
{
	return full_stderr(true);
}

Test(listen, a_full_pipe_drops_lines_and_tells_later)
{
	cr_assert(in_child(full_pipe) == 0);
}

Test(listen, a_full_socket_drops_lines_and_tells_later)
{
	cr_assert(in_child(full_socket) == 0);
}

static int broken_stderr(void)
{
	(void)close(catch_stderr(false));
	log_open("text", "info");
	log_line(LOG_LEVEL_ERROR, "to nobody");
	if (log_dropped() != 1)
		return 1;
	(void)close(catch_stderr(true));
	log_line(LOG_LEVEL_ERROR, "to nobody");
	return log_dropped() >= 2 ? 0 : 2;
}

Test(listen, a_broken_stderr_does_not_kill)
{
	cr_assert(in_child(broken_stderr) == 0);
}

static int closed_stderr(void)
{
	int fd;

	(void)close(STDERR_FILENO);
	log_open("text", "info");
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return fd > STDERR_FILENO ? 0 : 1;
}

Test(listen, a_file_of_ours_never_becomes_stderr)
{
	cr_assert(in_child(closed_stderr) == 0);
}

/* ---- notify ---- */

/* A manager at this address; '@' is abstract. */
static int manager(const char *at)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(un.sun_path, at, strlen(at));
	if (*at == '@')
		un.sun_path[0] = '\0';
	cr_assert(bind(fd, (struct sockaddr *)&un,
	               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(at))) == 0);
	cr_assert(setenv("NOTIFY_SOCKET", at, 1) == 0);
	return fd;
}

static const char *told(int fd)
{
	static char text[512];
	ssize_t n = recv(fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

Test(listen, the_manager_is_told)
{
	CLEANUP_FD int fd = FD_NONE;

	(void)snprintf(path, sizeof(path), "%s/notify", dir);
	fd = manager(path);
	notify_ready();
	cr_assert(streq(told(fd), "READY=1"));
	notify_reloading();
	cr_assert(str_has_prefix(told(fd), "RELOADING=1\nMONOTONIC_USEC="));
	notify_alive();
	cr_assert(streq(told(fd), "WATCHDOG=1"));
	notify_stopping();
	cr_assert(streq(told(fd), "STOPPING=1"));
}

Test(listen, an_abstract_address_works_too)
{
	CLEANUP_FD int fd = FD_NONE;

	(void)snprintf(path, sizeof(path), "@%s", dir);
	fd = manager(path);
	notify_ready();
	cr_assert(streq(told(fd), "READY=1"));
}

Test(listen, a_status_cannot_hold_another_assignment)
{
	CLEANUP_FD int fd = FD_NONE;
	char text[600];

	(void)snprintf(path, sizeof(path), "%s/notify", dir);
	fd = manager(path);
	notify_status("fine\nREADY=1");
	cr_assert(streq(told(fd), "STATUS=fine?READY=1"));
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	notify_status(text);
	cr_assert(strlen(told(fd)) == 207);
}

Test(listen, without_a_manager_nothing_happens)
{
	notify_ready();
	cr_assert(setenv("NOTIFY_SOCKET", "relative", 1) == 0);
	notify_ready();
	cr_assert(setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1) == 0);
	notify_ready();
	notify_status("x");
}

Test(listen, the_watchdog_is_ours_only_when_it_names_us)
{
	char pid[24];

	(void)unsetenv("WATCHDOG_PID");
	(void)unsetenv("WATCHDOG_USEC");
	cr_assert(notify_watchdog_usec() == 0);
	cr_assert(setenv("WATCHDOG_USEC", "60000000", 1) == 0);
	cr_assert(notify_watchdog_usec() == 60000000);
	cr_assert(setenv("WATCHDOG_PID", "1", 1) == 0 && notify_watchdog_usec() == 0);
	(void)snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	cr_assert(setenv("WATCHDOG_PID", pid, 1) == 0 && notify_watchdog_usec() == 60000000);
}
