/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/sha256.h"
#include "daemon/hooks.h"

#define SUMMARY_VALUES_MAX 20000

/* The state belongs to it: an allow and its revocation are two events. */
void hook_delivery_id(const char *event, const char *id, const char *state, char ret[HOOK_ID_SIZE])
{
	char hex[SHA256_HEX_SIZE];
	uint8_t digest[SHA256_SIZE];
	struct sha256 h;

	sha256_init(&h);
	sha256_put_field(&h, event, strlen(event));
	sha256_put_field(&h, id, strlen(id));
	sha256_put_field(&h, state, strlen(state));
	sha256_finish(&h, digest);
	sha256_hex(digest, hex);
	(void)snprintf(ret, HOOK_ID_SIZE, "%.*s", HOOK_ID_SIZE - 1, hex);
}

static void put_head(struct buf *out, const char *delivery, const char *event)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	buf_puts(out, "{\"id\":");
	json_put_cstr(out, delivery);
	buf_puts(out, ",\"event\":");
	json_put_cstr(out, event);
	buf_puts(out, ",\"time\":");
	json_put_time(out, (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u);
}

/* It is put into the body as it is: so it must be JSON, and must fit. */
static bool summary_is_good(struct str summary)
{
	const struct json_bounds bounds = { HOOK_BODY_MAX / 2, JSON_DEPTH_MAX, SUMMARY_VALUES_MAX };
	struct json_reader in;

	if (!summary.n || summary.n > bounds.bytes ||
	    json_reader_init(&in, "summary", summary.p, summary.n, &bounds, NULL) < 0)
		return false;
	json_reader_done(&in);
	return true;
}

void hook_approval_body(const char *delivery, const char *event, const struct approval *a,
                        struct str summary, struct buf *out)
{
	put_head(out, delivery, event);
	buf_puts(out, ",\"approval\":");
	approval_to_json(a, out);
	buf_puts(out, ",\"summary\":");
	if (summary_is_good(summary))
		buf_put(out, summary.p, summary.n);
	else
		buf_puts(out, "null");
	buf_putc(out, '}');
}

static void put_text(struct buf *out, const char *key, const char *value)
{
	buf_printf(out, ",\"%s\":", key);
	if (value && *value)
		json_put_cstr(out, value);
	else
		buf_puts(out, "null");
}

static void put_number(struct buf *out, const char *key, bool has, int v)
{
	if (has)
		buf_printf(out, ",\"%s\":%d", key, v);
	else
		buf_printf(out, ",\"%s\":null", key);
}

static void put_usage(struct buf *out, const struct usage *u)
{
	buf_printf(out,
	           ",\"usage\":{\"wall_ms\":%" PRIu64 ",\"cpu_ms\":%" PRIu64
	           ",\"peak_memory_bytes\":%" PRIu64 ",\"pids_peak\":%" PRIu64
	           ",\"read_bytes\":%" PRIu64 ",\"written_bytes\":%" PRIu64 "}",
	           u->wall_ms, u->cpu_ms, u->peak_memory_bytes, u->pids_peak, u->read_bytes,
	           u->written_bytes);
}

void hook_execution_body(const char *delivery, const struct result *r, struct buf *out)
{
	bool ours = r->error.code != ERR_NONE;

	put_head(out, delivery, HOOK_EXECUTION);
	buf_puts(out, ",\"execution\":{\"execution_id\":");
	json_put_cstr(out, r->execution_id);
	put_text(out, "state", run_state_name(r->state));
	buf_printf(out, ",\"success\":%s",
	           run_state_is_success(r->state) && !ours ? "true" : "false");
	put_number(out, "exit_code", r->has_exit_code, r->exit_code);
	put_number(out, "signal", r->signal != 0, r->signal);
	put_text(out, "error", ours ? err_code_name(r->error.code) : NULL);
	put_text(out, "risk", r->risk ? risk_level_name(r->risk->level) : NULL);
	put_text(out, "tier", r->tier);
	put_text(out, "approval_id", r->approval_id);
	put_usage(out, &r->usage);
	buf_puts(out, "}}");
}

int hook_sign(struct str secret, uint64_t unix_s, struct str body, char ret[HOOK_SIGNED_SIZE])
{
	CLEANUP_BUF struct buf text = BUF_INIT(HOOK_BODY_MAX + 32);
	uint8_t mac[SHA256_SIZE];
	char hex[SHA256_HEX_SIZE];

	buf_printf(&text, "%" PRIu64 ".", unix_s);
	buf_put(&text, body.p, body.n);
	if (buf_finish(&text) < 0)
		return buf_finish(&text);
	hmac_sha256(secret.p, secret.n, text.data, text.len, mac);
	sha256_hex(mac, hex);
	(void)snprintf(ret, HOOK_SIGNED_SIZE, "t=%" PRIu64 ",v1=%s", unix_s, hex);
	return 0;
}

static int secret_check(int fd, const char *path, struct err *err)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return err_set(err, ERR_IO, errno, "secret file %.120s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, 0, "secret file %.120s: not a regular file", path);
	if (st.st_uid == geteuid() && !(st.st_mode & 077))
		return 0;
	r = err_set(err, ERR_INVALID, EPERM, "secret file %.120s: others could know it", path);
	return err_remedy(err, r, "give it to the user that brigd runs as, mode 0600");
}

/* One byte more than a secret with "\r\n" may have, so that a longer one shows. */
static int read_whole(int fd, char *p, size_t size)
{
	size_t n = 0;

	while (n < size) {
		ssize_t got = read(fd, p + n, size - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		n += (size_t)got;
	}
	return (int)n;
}

int hook_secret_read(const char *path, char ret[HOOK_SECRET_MAX], size_t *ret_n, struct err *err)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char text[HOOK_SECRET_MAX + 3];
	int r, n;

	if (fd < 0)
		return err_set(err, ERR_INVALID, errno, "secret file %.120s", path);
	r = secret_check(fd, path, err);
	if (r < 0)
		return r;
	n = read_whole(fd, text, sizeof(text));
	if (n < 0)
		return err_set(err, ERR_IO, -n, "secret file %.120s", path);
	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	if (n < HOOK_SECRET_MIN || n > HOOK_SECRET_MAX) {
		r = err_set(err, ERR_INVALID, 0, "secret file %.120s: %d to %d bytes are needed",
		            path, HOOK_SECRET_MIN, HOOK_SECRET_MAX);
	} else {
		memcpy(ret, text, (size_t)n);
		*ret_n = (size_t)n;
	}
	explicit_bzero(text, sizeof(text));
	return r;
}

bool hook_is_retried(unsigned status)
{
	if (status >= 200 && status < 300)
		return false;
	return status < 400 || status >= 500 || status == 408 || status == 429;
}
