/* SPDX-License-Identifier: Apache-2.0 */
/* What a setting may be. Messages name no place: file, variable and flag add theirs. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/parse.h"
#include "daemon/config_impl.h"
#include "daemon/listen.h"
#include "model/launch_msg.h"
#include "policy/policy.h"

#define SECOND 1000ULL
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

/* ---- the tables ---- */

#define NUMBER(type, group, key, kind, field, def, min, max)                                       \
	{                                                                                          \
		group, key, CONFIG_##kind, offsetof(struct type, field),                           \
			sizeof(((struct type *)0)->field), def, min, max                           \
	}

/* clang-format off */
#define N(...) NUMBER(daemon_config, __VA_ARGS__)
const struct config_number config_numbers[] = {
	N("limits", "running",         COUNT, running_max,            64,          1,         4096),
	N("limits", "queue",           COUNT, queue_max,              1024,        1,         65536),
	N("limits", "acquire",         MS,    acquire_ms,             10 * SECOND, 10,        10 * MINUTE),
	N("limits", "connections",     COUNT, http.connections,       10500,       1,         65536),
	N("limits", "per_peer",        COUNT, http.per_peer,          10300,       1,         65536),
	N("limits", "header",          BYTES, http.header_bytes,      16 * KIB,    KIB,       MIB),
	N("limits", "body",            BYTES, http.body_bytes,        16 * MIB,    KIB,       128 * MIB),
	N("limits", "bodies",          BYTES, http.bodies_bytes,      256 * MIB,   64 * KIB,  64 * GIB),
	N("limits", "idle",            MS,    http.idle_ms,           MINUTE,      100,       HOUR),
	N("limits", "header_timeout",  MS,    http.header_ms,         5 * SECOND,  100,       5 * MINUTE),
	N("limits", "body_rate",       BYTES, http.body_bytes_per_s,  KIB,         1,         GIB),
	N("limits", "write_timeout",   MS,    http.write_ms,          30 * SECOND, 100,       HOUR),
	N("limits", "stream",          BYTES, http.stream_bytes,      MIB,         4 * KIB,   64 * MIB),
	N("limits", "ws_message",      BYTES, http.ws_message_bytes,  MIB,         KIB,       16 * MIB),
	N("limits", "ws_ping",         MS,    http.ws_ping_ms,        30 * SECOND, 100,       HOUR),
	N("keep",   "results",         COUNT, keep_results,           1000,        1,         1000000),
	N("keep",   "bytes",           BYTES, keep_bytes,             128 * MIB,   64 * KIB,  64 * GIB),
	N("keep",   "hours",           COUNT, keep_hours,             24,          1,         720),
	N("",       "drain",           MS,    drain_ms,               30 * SECOND, 1,         HOUR),
	N("quota",  "runs_per_second", COUNT, quota.runs_per_s,       0,           1,         1000000),
	N("quota",  "concurrent",      COUNT, quota.concurrent,       0,           1,         65536),
	N("quota",  "bytes_per_minute", BYTES, quota.bytes_per_min,   0,           KIB,       1024 * GIB),
};
#undef N

#define N(...) NUMBER(config_shape, "", __VA_ARGS__)
const struct config_number shape_numbers[] = {
	N("min",  COUNT, min,     1,          0,      LAUNCH_BOXES_MAX),
	N("max",  COUNT, max,     8,          1,      LAUNCH_BOXES_MAX),
	N("idle", MS,    idle_ms, 5 * MINUTE, SECOND, 24 * HOUR),
};
#undef N

#define N(...) NUMBER(config_webhook, "", __VA_ARGS__)
const struct config_number webhook_numbers[] = {
	N("attempts", COUNT, attempts,   8,           1,   100),
	N("timeout",  MS,    timeout_ms, 10 * SECOND, 100, 5 * MINUTE),
};
#undef N
/* clang-format on */

const size_t config_numbers_n = ELEMENTSOF(config_numbers);
const size_t shape_numbers_n = ELEMENTSOF(shape_numbers);
const size_t webhook_numbers_n = ELEMENTSOF(webhook_numbers);

/* ---- numbers ---- */

uint64_t config_number_get(const void *base, const struct config_number *n)
{
	const char *at = (const char *)base + n->offset;
	uint32_t small;
	uint64_t large;

	if (n->size == sizeof(large)) {
		memcpy(&large, at, sizeof(large));
		return large;
	}
	memcpy(&small, at, sizeof(small));
	return small;
}

/* The bounds of the table fit into the field. */
void config_number_put(void *base, const struct config_number *n, uint64_t value)
{
	char *at = (char *)base + n->offset;
	uint32_t small = (uint32_t)value;

	if (n->size == sizeof(value))
		memcpy(at, &value, sizeof(value));
	else
		memcpy(at, &small, sizeof(small));
}

void config_number_show(const struct config_number *n, uint64_t value, char ret[CONFIG_SHOW_SIZE])
{
	static const struct {
		enum config_kind kind;
		uint64_t factor;
		const char *unit;
	} units[] = {
		{ CONFIG_BYTES, GIB, "GiB" }, { CONFIG_BYTES, MIB, "MiB" },
		{ CONFIG_BYTES, KIB, "KiB" }, { CONFIG_MS, HOUR, "h" },
		{ CONFIG_MS, MINUTE, "m" },   { CONFIG_MS, SECOND, "s" },
		{ CONFIG_MS, 1, "ms" },
	};

	for (size_t i = 0; i < ELEMENTSOF(units); i++) {
		if (units[i].kind == n->kind && value && value % units[i].factor == 0) {
			(void)snprintf(ret, CONFIG_SHOW_SIZE, "%" PRIu64 "%s",
			               value / units[i].factor, units[i].unit);
			return;
		}
	}
	if (!value && !n->def && n->min)
		(void)snprintf(ret, CONFIG_SHOW_SIZE, CONFIG_NONE);
	else
		(void)snprintf(ret, CONFIG_SHOW_SIZE, "%" PRIu64, value);
}

static int parse_number(const struct config_number *n, const char *text, uint64_t *ret)
{
	switch (n->kind) {
	case CONFIG_COUNT:
		return parse_u64(text, ret);
	case CONFIG_BYTES:
		return parse_size(text, ret);
	case CONFIG_MS:
		return parse_duration_ms(text, ret);
	}
	return -EINVAL;
}

int config_number_set(void *base, const struct config_number *n, const char *text, struct err *err)
{
	static const char *const what[] = {
		[CONFIG_COUNT] = "whole number", [CONFIG_BYTES] = "size", [CONFIG_MS] = "time"
	};
	bool optional = n->def == 0 && n->min > 0;
	char min[CONFIG_SHOW_SIZE], max[CONFIG_SHOW_SIZE];
	uint64_t value;

	if (optional && streq(text, CONFIG_NONE)) {
		config_number_put(base, n, 0);
		return 0;
	}
	if (parse_number(n, text, &value) < 0 || value < n->min || value > n->max) {
		config_number_show(n, n->min, min);
		config_number_show(n, n->max, max);
		return err_set(err, ERR_INVALID, 0, "\"%.40s\" is no %s from %s to %s%s", text,
		               what[n->kind], min, max, optional ? ", nor none" : "");
	}
	config_number_put(base, n, value);
	return 0;
}

/* ---- texts ---- */

int config_keep(struct arena *arena, const char *text, const char **ret, struct err *err)
{
	const char *copy;

	if (!*text || strlen(text) > CONFIG_TEXT_MAX)
		return err_set(err, ERR_INVALID, 0, "must have 1 to %d bytes", CONFIG_TEXT_MAX);
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return err_set(err, ERR_INVALID, 0, "must be one line of text");
	copy = arena_strdup(arena, text);
	if (!copy)
		return err_set(err, ERR_LIMIT, ENOMEM, "memory for the settings");
	*ret = copy;
	return 0;
}

int config_pick(const char *const *words, const char *text, const char **ret, struct err *err)
{
	char known[120] = "";
	size_t n = 0;

	for (size_t i = 0; words[i]; i++) {
		int w;

		if (streq(words[i], text)) {
			*ret = words[i];
			return 0;
		}
		w = n < sizeof(known) ? snprintf(known + n, sizeof(known) - n, "%s%s",
		                                 n ? ", " : "", words[i])
		                      : 0;
		n += w > 0 ? (size_t)w : 0;
	}
	return err_set(err, ERR_INVALID, 0, "no such value \"%.40s\"; it is one of %s", text,
	               known);
}

int config_bool(const char *text, bool *ret, struct err *err)
{
	static const char *const words[] = { "false", "true", NULL };
	const char *word = NULL;
	int r = config_pick(words, text, &word, err);

	if (r >= 0)
		*ret = word == words[1];
	return r;
}

int config_check_absolute(const char *text, struct err *err)
{
	return *text == '/' ? 0
	                    : err_set(err, ERR_INVALID, 0, "\"%.60s\" is no absolute path", text);
}

static int set_socket(struct daemon_config *c, const char *text, struct err *err)
{
	int r;

	if (streq(text, CONFIG_NONE)) {
		c->socket = "";
		return 0;
	}
	r = listen_check_path(text, err);
	return r < 0 ? r : config_keep(&c->arena, text, &c->socket, err);
}

static int set_socket_mode(struct daemon_config *c, const char *text, struct err *err)
{
	mode_t mode = 0;
	size_t n = strlen(text);

	for (size_t i = 0; i < n && n <= 4; i++)
		mode = text[i] >= '0' && text[i] <= '7' ? mode << 3 | (mode_t)(text[i] - '0')
		                                        : 07777;
	if (n < 3 || n > 4 || (mode & ~0666u) || (mode & 0600) != 0600)
		return err_set(err, ERR_INVALID, 0,
		               "\"%.40s\" is no mode of a socket from 0600 to 0666", text);
	c->socket_mode = mode;
	return 0;
}

static int set_allow_remote(struct daemon_config *c, const char *text, struct err *err)
{
	return config_bool(text, &c->allow_remote, err);
}

static int set_state_dir(struct daemon_config *c, const char *text, struct err *err)
{
	int r = config_check_absolute(text, err);

	return r < 0 ? r : config_keep(&c->arena, text, &c->state_dir, err);
}

/* Whether it can be read is seen when it is. */
static int set_policy(struct daemon_config *c, const char *text, struct err *err)
{
	if (!policy_builtin_text(text).p && *text != '/')
		return err_set(err, ERR_INVALID, 0,
		               "\"%.60s\" is neither strict nor permissive nor an absolute path",
		               text);
	return config_keep(&c->arena, text, &c->policy, err);
}

static int set_confirm(struct daemon_config *c, const char *text, struct err *err)
{
	static const char *const words[] = { "ask", "approve", "deny", NULL };

	return config_pick(words, text, &c->confirm, err);
}

static int set_log_level(struct daemon_config *c, const char *text, struct err *err)
{
	static const char *const words[] = { "error", "warning", "info", "debug", NULL };

	return config_pick(words, text, &c->log_level, err);
}

static int set_log_format(struct daemon_config *c, const char *text, struct err *err)
{
	static const char *const words[] = { "text", "json", NULL };

	return config_pick(words, text, &c->log_format, err);
}

static int set_otlp(struct daemon_config *c, const char *text, struct err *err)
{
	int r;

	if (streq(text, CONFIG_NONE)) {
		c->otlp = NULL;
		return 0;
	}
	r = config_check_url(text, err);
	return r < 0 ? r : config_keep(&c->arena, text, &c->otlp, err);
}

const struct config_text config_texts[] = {
	{ "listen", "socket", "BRIGD_SOCKET", "--socket", true, set_socket },
	{ "", "state_dir", "BRIGD_STATE_DIR", "--state-dir", true, set_state_dir },
	{ "", "policy", "BRIGD_POLICY", "--policy", true, set_policy },
	{ "", "confirm", NULL, "--confirm", false, set_confirm },
	{ "log", "level", "BRIGD_LOG_LEVEL", "--log-level", false, set_log_level },
	{ "log", "format", "BRIGD_LOG_FORMAT", "--log-format", false, set_log_format },
	{ "listen", "socket_mode", NULL, NULL, false, set_socket_mode },
	{ "listen", "allow_remote", NULL, NULL, false, set_allow_remote },
	{ "", "otlp", NULL, NULL, false, set_otlp },
};
const size_t config_texts_n = ELEMENTSOF(config_texts);

void config_defaults(struct daemon_config *c)
{
	static const unsigned boxes[LANGUAGE_COUNT][2] = { [LANGUAGE_PYTHON] = { 2, 16 },
		                                           [LANGUAGE_JAVASCRIPT] = { 1, 8 },
		                                           [LANGUAGE_SHELL] = { 1, 8 } };

	*c = (struct daemon_config){
		.arena = ARENA_INIT(CONFIG_ARENA_MAX),
		.socket_mode = 0600,
		.confirm = "ask",
		.log_format = "text",
		.log_level = "info",
	};
	for (size_t i = 0; i < config_numbers_n; i++)
		config_number_put(c, &config_numbers[i], config_numbers[i].def);
	for (unsigned i = LANGUAGE_NONE + 1; i < LANGUAGE_COUNT; i++) {
		for (size_t k = 0; k < shape_numbers_n; k++)
			config_number_put(&c->shapes[i], &shape_numbers[k], shape_numbers[k].def);
		c->shapes[i].language = (enum language)i;
		c->shapes[i].min = boxes[i][0];
		c->shapes[i].max = boxes[i][1];
	}
}
