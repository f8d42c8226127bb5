/* SPDX-License-Identifier: Apache-2.0 */
#include "model/findings.h"

#include <errno.h>
#include <inttypes.h>

#include "base/json.h"
#include "base/str.h"

static const char *const level_names[RISK_LEVEL_COUNT] = {
	[RISK_UNKNOWN] = "unknown", [RISK_SAFE] = "safe", [RISK_LOW] = "low",
	[RISK_MEDIUM] = "medium",   [RISK_HIGH] = "high", [RISK_CRITICAL] = "critical",
};

const char *risk_level_name(enum risk_level l)
{
	return (unsigned)l < RISK_LEVEL_COUNT ? level_names[l] : "unknown";
}

int risk_level_from_name(const char *name, enum risk_level *ret)
{
	for (int i = RISK_SAFE; i < RISK_LEVEL_COUNT; i++) {
		if (streq(name, level_names[i])) {
			*ret = (enum risk_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

static void put_finding(const struct finding *f, struct buf *out)
{
	buf_puts(out, "{\"rule\":");
	json_put_cstr(out, f->rule);
	buf_printf(out, ",\"level\":\"%s\",\"category\":", risk_level_name(f->level));
	json_put_cstr(out, f->category);
	buf_puts(out, ",\"message\":");
	json_put_cstr(out, f->message);
	buf_printf(out,
	           ",\"start\":%" PRIu32 ",\"end\":%" PRIu32 ",\"line\":%" PRIu32
	           ",\"column\":%" PRIu32 "}",
	           f->start, f->end, f->line, f->column);
}

void findings_to_json(const struct findings *f, struct buf *out)
{
	if (f->level == RISK_UNKNOWN) {
		buf_puts(out, "null");
		return;
	}
	buf_printf(out, "{\"level\":\"%s\",\"complete\":%s,\"why\":", risk_level_name(f->level),
	           f->complete ? "true" : "false");
	json_put_cstr(out, f->why);
	buf_printf(out, ",\"truncated\":%s,\"findings\":[", f->truncated ? "true" : "false");
	for (size_t i = 0; i < f->n; i++) {
		if (i)
			buf_putc(out, ',');
		put_finding(&f->v[i], out);
	}
	buf_puts(out, "]}");
}
