/* SPDX-License-Identifier: Apache-2.0 */
#include "model/approval.h"

#include <stdio.h>
#include <time.h>

#include "base/json.h"

static const char *const state_names[APPROVAL_STATE_COUNT] = {
	[APPROVAL_NONE] = "none",           [APPROVAL_WAITING] = "waiting",
	[APPROVAL_ALLOWED] = "allowed",     [APPROVAL_USED] = "used",
	[APPROVAL_DENIED] = "denied",       [APPROVAL_EXPIRED] = "expired",
	[APPROVAL_WITHDRAWN] = "withdrawn", [APPROVAL_REVOKED] = "revoked",
};

const char *approval_state_name(enum approval_state s)
{
	return (unsigned)s < APPROVAL_STATE_COUNT ? state_names[s] : "none";
}

void time_text(uint64_t time_us, char ret[TIME_TEXT_SIZE])
{
	time_t seconds = (time_t)(time_us / 1000000);
	struct tm tm;

	if (!time_us || !gmtime_r(&seconds, &tm) ||
	    !strftime(ret, TIME_TEXT_SIZE, "%Y-%m-%dT%H:%M:%SZ", &tm))
		(void)snprintf(ret, TIME_TEXT_SIZE, "never");
}

void json_put_time(struct buf *out, uint64_t time_us)
{
	char text[TIME_TEXT_SIZE];

	time_text(time_us, text);
	if (time_us)
		json_put_cstr(out, text);
	else
		buf_puts(out, "null");
}

static void put_text(struct buf *out, const char *key, const char *value)
{
	buf_printf(out, ",\"%s\":", key);
	if (*value)
		json_put_cstr(out, value);
	else
		buf_puts(out, "null");
}

static void put_time(struct buf *out, const char *key, uint64_t time_us)
{
	buf_printf(out, ",\"%s\":", key);
	json_put_time(out, time_us);
}

void approval_to_json(const struct approval *a, struct buf *out)
{
	char hex[SHA256_HEX_SIZE];

	sha256_hex(a->digest, hex);
	buf_puts(out, "{\"id\":");
	json_put_cstr(out, a->id);
	put_text(out, "state", approval_state_name(a->state));
	put_text(out, "digest", hex);
	put_text(out, "job", a->job);
	put_text(out, "session", a->session);
	put_text(out, "asker", a->asker);
	put_time(out, "created", a->created_us);
	put_time(out, "expires", a->expires_us);
	put_text(out, "may_remember", remember_name(a->remember));
	buf_printf(out, ",\"self\":%s,\"edited\":%s", a->self ? "true" : "false",
	           a->edited ? "true" : "false");
	put_text(out, "remembered", remember_name(a->scope));
	put_time(out, "until", a->until_us);
	put_text(out, "answered_by", a->answered_by);
	put_text(out, "reason", a->reason);
	buf_putc(out, '}');
}
