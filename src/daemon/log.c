/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"

#define TOKEN_MARK "brig_"
#define TOKEN_MASK "***"

static struct {
	bool json;
	bool journal; /* it stamps the time and wants the priority in front */
	enum log_level level;
	_Atomic uint64_t dropped; /* worker threads log, too */
	_Atomic uint64_t unsaid;  /* of these, not told yet */
} out = { .level = LOG_LEVEL_WARNING };

static const struct {
	const char *name;
	int priority; /* of syslog(3) */
} levels[LOG_LEVEL_COUNT] = {
	[LOG_LEVEL_ERROR] = { "error", 3 },
	[LOG_LEVEL_WARNING] = { "warning", 4 },
	[LOG_LEVEL_INFO] = { "info", 6 },
	[LOG_LEVEL_DEBUG] = { "debug", 7 },
};

const char *log_level_name(enum log_level level)
{
	return (unsigned)level < LOG_LEVEL_COUNT ? levels[level].name : "error";
}

int log_level_from_name(const char *name, enum log_level *ret)
{
	for (size_t i = 0; i < LOG_LEVEL_COUNT; i++) {
		if (streq(name, levels[i].name)) {
			*ret = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* ---- the text ---- */

struct line {
	char *p;
	size_t n, max; /* room for a NUL comes on top */
	bool cut;
};

static void put(struct line *l, const char *text, size_t n)
{
	size_t fits = MIN2(n, l->max - l->n);

	memcpy(l->p + l->n, text, fits);
	l->n += fits;
	l->cut |= fits < n;
}

static bool is_token_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_' || c == '-';
}

/* One character, safe in text and in JSON: an escape is never cut in two. */
static void put_char(struct line *l, char c, bool json)
{
	char escaped[2] = { '\\', c };
	size_t n = json && (c == '"' || c == '\\') ? 2 : 1;

	if (l->max - l->n < n) {
		l->cut = true;
		l->max = l->n;
		return;
	}
	if (n == 1 && (c < ' ' || c > '~'))
		c = '?';
	put(l, n == 1 ? &c : escaped, n);
}

static void put_safe(struct line *l, const char *text, bool json)
{
	while (*text && !l->cut) {
		size_t n = str_has_prefix(text, TOKEN_MARK) ? sizeof(TOKEN_MARK) - 1 : 0;

		if (!n || !is_token_char(text[n])) {
			put_char(l, *text++, json);
			continue;
		}
		while (is_token_char(text[n]))
			n++;
		text += n;
		put(l, TOKEN_MARK TOKEN_MASK, sizeof(TOKEN_MARK TOKEN_MASK) - 1);
	}
}

static void put_time(struct line *l)
{
	struct timespec now = { 0 };
	struct tm tm = { 0 };
	char date[32], text[48];
	int n;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &tm);
	if (!strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm))
		return;
	n = snprintf(text, sizeof(text), "%s.%03ldZ", date, now.tv_nsec / 1000000);
	put(l, text, n > 0 ? (size_t)n : 0);
}

static void put_puts(struct line *l, const char *text)
{
	put(l, text, strlen(text));
}

static void put_head(struct line *l, enum log_level level, const char *code)
{
	if (out.json) {
		put_puts(l, "{");
		if (!out.journal) {
			put_puts(l, "\"time\":\"");
			put_time(l);
			put_puts(l, "\",");
		}
		put_puts(l, "\"level\":\"");
		put_puts(l, log_level_name(level));
		put_puts(l, code ? "\",\"code\":\"" : "");
		put_puts(l, code ? code : "");
		put_puts(l, "\",\"message\":\"");
		return;
	}
	if (out.journal)
		return;
	put_time(l);
	put_puts(l, " ");
	put_puts(l, log_level_name(level));
	put_puts(l, " ");
}

size_t log_format(enum log_level level, const char *code, const char *text,
                  char ret[LOG_LINE_MAX + 1])
{
	static const char dots[] = "...", json_end[] = "\"}";
	const char *end = out.json ? json_end : "";
	struct line l = { .p = ret };

	l.max = LOG_LINE_MAX - 1 - strlen(end) - (sizeof(dots) - 1);
	if (out.journal) {
		char prefix[8];

		(void)snprintf(prefix, sizeof(prefix), "<%d>", levels[level].priority);
		put_puts(&l, prefix);
	}
	put_head(&l, level, code);
	put_safe(&l, text, out.json);
	l.max = LOG_LINE_MAX;
	put_puts(&l, l.cut ? dots : "");
	put_puts(&l, end);
	put_puts(&l, "\n");
	ret[l.n] = '\0';
	return l.n;
}

/* ---- on its way ---- */

/* A pipe that polls writable takes a line of this size whole. */
static bool write_now(const char *p, size_t n)
{
	struct pollfd pfd = { .fd = STDERR_FILENO, .events = POLLOUT };
	ssize_t w = send(STDERR_FILENO, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (w < 0 && errno == ENOTSOCK) {
		if (poll(&pfd, 1, 0) != 1 || !(pfd.revents & POLLOUT) || (pfd.revents & POLLERR))
			return false;
		w = write(STDERR_FILENO, p, n);
	}
	return w == (ssize_t)n;
}

static void drop(void)
{
	(void)atomic_fetch_add(&out.dropped, 1);
	(void)atomic_fetch_add(&out.unsaid, 1);
}

static bool tell_dropped(void)
{
	uint64_t n = atomic_exchange(&out.unsaid, 0);
	char text[64], line[LOG_LINE_MAX + 1];

	if (!n)
		return true;
	(void)snprintf(text, sizeof(text), "%llu lines before this one were dropped",
	               (unsigned long long)n);
	if (write_now(line, log_format(LOG_LEVEL_WARNING, NULL, text, line)))
		return true;
	(void)atomic_fetch_add(&out.unsaid, n);
	return false;
}

static void send_line(enum log_level level, const char *code, const char *text)
{
	char line[LOG_LINE_MAX + 1];

	if (!tell_dropped() || !write_now(line, log_format(level, code, text, line)))
		drop();
}

bool log_wants(enum log_level level)
{
	return level <= out.level;
}

void log_line(enum log_level level, const char *fmt, ...)
{
	char text[LOG_LINE_MAX + 1];
	int saved = errno;
	va_list ap;

	if (!log_wants(level))
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	send_line(level, NULL, text);
	errno = saved;
}

void log_err(enum log_level level, const struct err *err, const char *fmt, ...)
{
	char what[LOG_LINE_MAX / 2], text[LOG_LINE_MAX + 1];
	int saved = errno;
	va_list ap;

	if (!log_wants(level))
		return;
	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	(void)snprintf(text, sizeof(text), "%s: %s%s%s%s", what, err->msg, *err->remedy ? " (" : "",
	               err->remedy, *err->remedy ? ")" : "");
	send_line(level, err_code_name(err->code), text);
	errno = saved;
}

uint64_t log_dropped(void)
{
	return atomic_load(&out.dropped);
}

/* ---- opening ---- */

/* JOURNAL_STREAM is "DEVICE:INODE" of what it was set for; standard error may be another by now. */
static bool is_journal(void)
{
	const char *said = getenv("JOURNAL_STREAM");
	char own[48];
	struct stat st;

	if (!said || fstat(STDERR_FILENO, &st) < 0)
		return false;
	(void)snprintf(own, sizeof(own), "%llu:%llu", (unsigned long long)st.st_dev,
	               (unsigned long long)st.st_ino);
	return streq(own, said);
}

static void fill_low_fds(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)open("/dev/null", fd ? O_WRONLY : O_RDONLY); /* the lowest free: fd */
}

void log_open(const char *format, const char *level)
{
	enum log_level wanted = LOG_LEVEL_INFO;

	(void)signal(SIGPIPE, SIG_IGN);
	fill_low_fds();
	if (level)
		(void)log_level_from_name(level, &wanted);
	out.level = wanted;
	out.json = format && streq(format, "json");
	out.journal = is_journal();
}
