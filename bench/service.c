/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "sys/file.h"

#define START_MS   30000
#define STOP_MS    60000
#define LOG_TAIL   2000
#define REMOVE_FDS 16

/* ---- its files ------------------------------------------------------------------------- */

/* The bytes, without a file that lies there already. */
static int put_file(const char *dir, const char *name, const char *text, struct err *err)
{
	char path[96];
	size_t n = strlen(text);
	CLEANUP_FD int fd = FD_NONE;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, text, n) != (ssize_t)n)
		return err_set(err, ERR_IO, errno, "write \"%s\"", path);
	return 0;
}

static int put_files(const struct service *s, const struct service_config *config, struct err *err)
{
	static const char policy[] = "version: 1\nname: allow-all\ndefault: allow\n"
				     "floor:\n  level: degraded-ok\n";
	char text[1024];
	int r = put_file(s->dir, "policy.yaml", policy, err);

	if (r < 0)
		return r;
	(void)snprintf(text, sizeof(text),
	               "state_dir: %s\n"
	               "policy: %s/policy.yaml\n"
	               "listen:\n  socket: %s\n  tcp: [\"127.0.0.1:%u\"]\n"
	               "pool:\n  python: {min: %u, max: %u, eager: %s}\n"
	               "limits:\n  idle: 10m\n" /* clients rest while others have their turn */
	               "log:\n  level: warning\n",
	               s->state, s->dir, s->socket, s->port, config->min, config->max,
	               config->eager && geteuid() == 0 ? "true" : "false");
	return put_file(s->dir, "brigd.yaml", text, err);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* Nobody's at the moment. */
static int free_port(unsigned *ret)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	CLEANUP_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &n) < 0)
		return -errno;
	*ret = ntohs(a.sin_port);
	return 0;
}

/* ---- its processes --------------------------------------------------------------------- */

/* With a small environment. */
static pid_t start(const char *const *argv, int out, int log)
{
	static char home[300];
	static char *const env[] = { (char *)"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
		                     home, (char *)"LANG=C.UTF-8", NULL };
	pid_t pid;

	(void)snprintf(home, sizeof(home), "HOME=%.256s", getenv("HOME") ? getenv("HOME") : "/");
	(void)fflush(stdout);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0)
		return pid;
	if (dup2(out, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
		_exit(125);
	(void)execve(argv[0], (char *const *)argv, env);
	_exit(126);
}

static int open_log(const struct service *s, struct err *err)
{
	int fd = open(s->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	return fd < 0 ? err_set(err, ERR_IO, errno, "open \"%s\"", s->log) : fd;
}

/* `brig token new`, by the brig beside this brigd. */
static int make_token(struct service *s, const char *brigd, struct err *err)
{
	char brig[512];
	const char *const argv[] = { brig,       "token",       "new",    "bench", "--scope",
		                     "run,read", "--state-dir", s->state, NULL };
	CLEANUP_FD int log = open_log(s, err);
	int pipe_fds[2], status = 0;
	ssize_t n;
	pid_t pid;

	(void)snprintf(brig, sizeof(brig), "%.*s/brig", (int)(strrchr(brigd, '/') - brigd), brigd);
	if (log < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, ERR_IO, errno, "start %s", brig);
	pid = start(argv, pipe_fds[1], log);
	(void)close(pipe_fds[1]);
	n = pid < 0 ? 0 : read(pipe_fds[0], s->token, sizeof(s->token) - 1);
	(void)close(pipe_fds[0]);
	if (pid > 0)
		(void)waitpid(pid, &status, 0);
	if (n <= 0 || status != 0)
		return err_set(err, ERR_INTERNAL, 0, "%s token new: status %d", brig, status);
	s->token[n] = '\0';
	s->token[strcspn(s->token, "\n")] = '\0';
	return 0;
}

/* Not by PR_SET_PDEATHSIG, which brigd loses when it changes the user for a file. */
static void be_guard(const struct service *s, int brigd, int life)
{
	struct pollfd end = { brigd, POLLIN, 0 };
	char byte;

	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGTERM, SIG_IGN);
	while (read(life, &byte, 1) < 0 && errno == EINTR)
		;
	if (pidfd_send_signal(brigd, SIGTERM, NULL, 0) == 0)
		(void)poll(&end, 1, STOP_MS);
	(void)nftw(s->dir, remove_one, REMOVE_FDS, FTW_DEPTH | FTW_PHYS);
}

/* Ends brigd when we are killed: then the pipe, of which only we have an end, is closed. */
static int start_guard(struct service *s, struct err *err)
{
	CLEANUP_FD int brigd = pidfd_open(s->pid, 0);
	int life[2];

	if (brigd < 0 || pipe2(life, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "a guard");
	s->guard = fork();
	if (s->guard == 0) {
		(void)close(life[1]);
		be_guard(s, brigd, life[0]);
		_exit(0);
	}
	(void)close(life[0]);
	s->life = life[1];
	return s->guard < 0 ? err_set(err, ERR_INTERNAL, errno, "a guard") : 0;
}

static void end_guard(struct service *s)
{
	if (s->guard > 0) {
		(void)kill(s->guard, SIGKILL);
		(void)waitpid(s->guard, NULL, 0);
	}
	s->guard = 0;
	s->life = fd_close(s->life);
}

static void show_log(const struct service *s)
{
	char text[LOG_TAIL + 1];

	if (file_read(AT_FDCWD, s->log, text, sizeof(text)) > 0)
		(void)fprintf(stderr, "brigd said:\n%s\n", text);
}

static int start_brigd(struct service *s, const char *brigd, struct err *err)
{
	char settings[64];
	const char *const argv[] = { brigd, "--config", settings, NULL };
	CLEANUP_FD int log = open_log(s, err);
	pid_t pid;

	if (log < 0)
		return log;
	(void)snprintf(settings, sizeof(settings), "%s/brigd.yaml", s->dir);
	pid = start(argv, log, log);
	if (pid < 0)
		return err_set(err, ERR_INTERNAL, -pid, "start %.200s", brigd);
	s->pid = pid;
	return start_guard(s, err);
}

/* ---- until it is there ----------------------------------------------------------------- */

static bool has_ended(struct service *s)
{
	if (waitpid(s->pid, NULL, WNOHANG) != s->pid)
		return false;
	s->pid = 0;
	return true;
}

static bool is_ready(struct service *s, const struct wire_request *ready)
{
	if (wire_open(&s->by_socket, s->control, NULL) < 0)
		return false;
	if (wire_ask(s->control, ready, NULL) >= 0 && s->control->status == 200)
		return true;
	wire_close(s->control);
	return false;
}

static int wait_ready(struct service *s, struct err *err)
{
	uint64_t deadline = clock_ms() + START_MS;
	struct wire_request ready = { .n = 0 };
	int r = wire_request(&s->by_socket, "/ready", NULL, &ready, err);

	if (r >= 0)
		r = wire_request(&s->by_socket, "/pool", NULL, &s->pool, err);
	if (r < 0)
		return r;
	while (!is_ready(s, &ready)) {
		if (has_ended(s))
			return err_set(err, ERR_INTERNAL, 0, "brigd ended at its start");
		if (clock_ms() >= deadline || stop_asked())
			return err_set(err, ERR_INTERNAL, ETIMEDOUT, "brigd does not get ready");
		(void)usleep(10000);
	}
	return 0;
}

/* The first shape's; UINT64_MAX: it is not told. */
static uint64_t pool_number(const struct service *s, const char *key)
{
	const char *at = strstr(wire_body(s->control), key);

	return at ? strtoull(at + strlen(key), NULL, 10) : UINT64_MAX;
}

int service_settle(struct service *s, struct err *err)
{
	static const char *const texts[] = { "\"shapes\":", NULL };
	uint64_t deadline = clock_ms() + START_MS, ready, target;

	for (;;) {
		int r = wire_ask(s->control, &s->pool, err);

		if (r >= 0)
			r = wire_expect(s->control, texts, err);
		if (r < 0)
			return r;
		ready = pool_number(s, "\"ready\":");
		target = pool_number(s, "\"target\":");
		if (target != UINT64_MAX && ready >= target && !pool_number(s, "\"starting\":") &&
		    !pool_number(s, "\"running\":") && !pool_number(s, "\"ending\":"))
			return 0;
		if (clock_ms() >= deadline || stop_asked())
			return err_set(err, ERR_LIMIT, ETIMEDOUT, "boxes: %.160s",
			               wire_body(s->control));
		(void)usleep(1000);
	}
}

/* Boxes that nobody asked for have the level of root's: a user's come with a request. */
static int fill_pool(struct service *s, struct err *err)
{
	struct wire_request request = { .n = 0 };
	int r = 0;

	if (geteuid() != 0) {
		r = service_hello(&s->by_socket, 0, &request, err);
		if (r >= 0)
			r = wire_ask(s->control, &request, err);
		if (r >= 0)
			r = check_hello(s->control, "", err);
	}
	return r < 0 ? r : service_settle(s, err);
}

static int set_up(struct service *s, const struct service_config *config, struct err *err)
{
	int r = free_port(&s->port);

	if (r < 0)
		return err_set(err, ERR_IO, -r, "a port");
	r = put_files(s, config, err);
	if (r >= 0)
		r = make_token(s, config->brigd, err);
	if (r < 0)
		return r;
	s->by_socket = (struct wire_address){ .path = s->socket };
	s->by_tcp = (struct wire_address){ .port = s->port, .token = s->token };
	r = start_brigd(s, config->brigd, err);
	if (r >= 0)
		r = wait_ready(s, err);
	if (r >= 0 && config->eager)
		r = fill_pool(s, err);
	return r;
}

int service_open(struct service *s, const struct service_config *config, struct err *err)
{
	int r;

	*s = (struct service){ .dir = "/tmp/brig-bench-XXXXXX", .life = FD_NONE };
	s->control = calloc(1, sizeof(*s->control));
	if (!s->control || !mkdtemp(s->dir)) {
		*s->dir = '\0';
		return err_set(err, ERR_IO, errno, "a temporary folder");
	}
	s->control->fd = FD_NONE;
	(void)snprintf(s->socket, sizeof(s->socket), "%s/socket", s->dir);
	(void)snprintf(s->state, sizeof(s->state), "%s/state", s->dir);
	(void)snprintf(s->log, sizeof(s->log), "%s/log", s->dir);
	r = set_up(s, config, err);
	if (r < 0)
		show_log(s);
	return r;
}

/* ---- its end --------------------------------------------------------------------------- */

static int wait_end(pid_t pid, int *ret_status)
{
	uint64_t deadline = clock_ms() + STOP_MS;

	while (clock_ms() < deadline) {
		if (waitpid(pid, ret_status, WNOHANG) == pid)
			return 0;
		(void)usleep(10000);
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, ret_status, 0);
	return -ETIMEDOUT;
}

/* The boxes' processes, which nobody but us would wait for now. */
static int wait_orphans(struct err *err)
{
	uint64_t deadline = clock_ms() + STOP_MS;

	for (;;) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);

		if (pid < 0 && errno == ECHILD)
			return 0;
		if (pid <= 0 && clock_ms() >= deadline)
			return err_set(err, ERR_INTERNAL, 0, "brigd left processes behind");
		if (pid <= 0)
			(void)usleep(10000);
	}
}

static int stop(struct service *s, struct err *err)
{
	int status = 0, r;

	(void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* what it leaves comes to us, and is seen */
	if (kill(s->pid, SIGTERM) < 0)
		return err_set(err, ERR_INTERNAL, errno, "brigd is gone");
	r = wait_end(s->pid, &status);
	s->pid = 0;
	end_guard(s);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "brigd does not end");
	if (status != 0)
		return err_set(err, ERR_INTERNAL, 0, "brigd ended with status %#x", status);
	if (access(s->socket, F_OK) == 0)
		return err_set(err, ERR_INTERNAL, 0, "brigd left its socket behind");
	return wait_orphans(err);
}

int service_close(struct service *s, struct err *err)
{
	int r = 0;

	if (s->control)
		wire_close(s->control);
	free(TAKE_PTR(s->control));
	if (s->pid > 0)
		r = stop(s, err);
	end_guard(s);
	if (r < 0)
		show_log(s);
	if (*s->dir && nftw(s->dir, remove_one, REMOVE_FDS, FTW_DEPTH | FTW_PHYS) != 0 && r >= 0)
		r = err_set(err, ERR_IO, errno, "remove \"%s\"", s->dir);
	*s->dir = '\0';
	return r;
}

/* ---- what is asked --------------------------------------------------------------------- */

int service_hello(const struct wire_address *to, unsigned n, struct wire_request *ret,
                  struct err *err)
{
	const char *level = geteuid() == 0 ? "standard" : "degraded-ok";
	char body[256], comment[32] = "";

	if (n)
		(void)snprintf(comment, sizeof(comment), " # %08u", n);
	(void)snprintf(body, sizeof(body),
	               "{\"language\":\"python\",\"code\":\"print(\\\"hello\\\")%s\","
	               "\"level\":\"%s\"}",
	               comment, level);
	return wire_request(to, "/execute", body, ret, err);
}

int check_hello(const struct wire *w, const char *stdout_text, struct err *err)
{
	const char *const texts[] = { "\"state\":\"finished\"", "\"exit_code\":0,", stdout_text,
		                      "\"verified\":true", NULL };

	return wire_expect(w, texts, err);
}
