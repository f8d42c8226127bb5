/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML -> policy. Each key is read by its own function into the policy that is being made; what a
 * policy extends is there first, so that a looser value is seen where it is written.
 */
#include <errno.h>
#include <stdio.h>

#include "base/parse.h"
#include "policy/read.h"

#define EXPIRES_MIN_MS 1000ULL
#define DAY_MS         86400000ULL
#define WEEK_MS        (7 * DAY_MS)
#define PENDING_MAX    4096

/* ---- values ---- */

int read_no_memory(const struct reader *rd)
{
	return err_set(rd->err, ERR_LIMIT, ENOMEM, "policy \"%.80s\"", rd->doc.name);
}

static int refuse_looser(const struct reader *rd, const struct yaml_node *n)
{
	return yaml_fail(&rd->doc, n, rd->err,
	                 "\"%.40s\" is looser than in \"%s\"; a file may only tighten what it "
	                 "extends",
	                 n->text.p, rd->p->base->name);
}

int read_refuse_word(const struct reader *rd, const struct yaml_node *n, enum vocab v)
{
	char known[VOCAB_LIST_SIZE];

	vocab_list(v, ~0u, known);
	return yaml_fail(&rd->doc, n, rd->err, "no such value \"%.40s\"; it is one of %s",
	                 n->text.p, known);
}

int read_word(const struct reader *rd, const struct yaml_node *n, enum vocab v, unsigned *ret)
{
	int r = yaml_line(&rd->doc, n, POLICY_PATTERN_MAX, rd->err);

	if (r < 0)
		return r;
	if (vocab_find(v, n->text.p, ret) < 0)
		return read_refuse_word(rd, n, v);
	return 0;
}

/* A word whose order is strictness, not looser than the base's. */
static int read_bound(const struct reader *rd, const struct yaml_node *map, const char *key,
                      enum vocab v, unsigned *value)
{
	const struct yaml_node *n = yaml_get(map, key);
	unsigned got;
	int r;

	if (!n)
		return 0;
	r = read_word(rd, n, v, &got);
	if (r < 0)
		return r;
	if (rd->p->base && got > *value)
		return refuse_looser(rd, n);
	*value = got;
	return 0;
}

/* Days are for policies only: no run lasts that long. */
static int parse_span_ms(const char *text, uint64_t *ret)
{
	size_t n = strlen(text);
	char digits[16];
	uint64_t days;

	if (n < 2 || n > sizeof(digits) || text[n - 1] != 'd')
		return parse_duration_ms(text, ret);
	(void)snprintf(digits, sizeof(digits), "%.*s", (int)n - 1, text);
	if (parse_u64(digits, &days) < 0 || days > WEEK_MS / DAY_MS)
		return -ERANGE;
	*ret = days * DAY_MS;
	return 0;
}

static int read_span(const struct reader *rd, const struct yaml_node *map, const char *key,
                     uint64_t *value)
{
	const struct yaml_node *n = yaml_get(map, key);
	uint64_t got;
	int r;

	if (!n)
		return 0;
	r = yaml_line(&rd->doc, n, POLICY_PATTERN_MAX, rd->err);
	if (r < 0)
		return r;
	if (parse_span_ms(n->text.p, &got) < 0 || got < EXPIRES_MIN_MS || got > WEEK_MS)
		return yaml_fail(
			&rd->doc, n, rd->err,
			"\"%.40s\" is no time from 1s to 7d; write it like 90s, 10m, 8h, 2d",
			n->text.p);
	if (rd->p->base && got > *value)
		return refuse_looser(rd, n);
	*value = got;
	return 0;
}

static int read_pending(const struct reader *rd, const struct yaml_node *map, uint32_t *value)
{
	const struct yaml_node *n = yaml_get(map, "pending");
	uint64_t got;
	int r;

	if (!n)
		return 0;
	r = yaml_line(&rd->doc, n, POLICY_PATTERN_MAX, rd->err);
	if (r < 0)
		return r;
	if (parse_u64(n->text.p, &got) < 0 || got < 1 || got > PENDING_MAX)
		return yaml_fail(&rd->doc, n, rd->err, "\"%.40s\" is no whole number from 1 to %d",
		                 n->text.p, PENDING_MAX);
	if (rd->p->base && got > *value)
		return refuse_looser(rd, n);
	*value = (uint32_t)got;
	return 0;
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_' || c == '.';
}

/* Names are shown, recorded and compared: no blanks, nothing a terminal obeys. */
int read_name(const struct reader *rd, const struct yaml_node *n, char ret[POLICY_NAME_SIZE])
{
	int r = yaml_line(&rd->doc, n, POLICY_NAME_SIZE - 1, rd->err);

	for (size_t i = 0; r >= 0 && i < n->text.n; i++)
		if (!is_name_char(n->text.p[i]))
			return yaml_fail(
				&rd->doc, n, rd->err,
				"\"%.40s\" is no name; letters, digits, - _ and . make one",
				n->text.p);
	if (r >= 0)
		(void)snprintf(ret, POLICY_NAME_SIZE, "%s", n->text.p);
	return r;
}

const struct yaml_node *read_need(const struct reader *rd, const struct yaml_node *map,
                                  const char *key, const char *how)
{
	const struct yaml_node *n = yaml_get(map, key);

	if (!n)
		(void)yaml_fail(&rd->doc, map, rd->err, "%s is missing; %s", key, how);
	return n;
}

/* ---- floor ---- */

static int read_limit(const struct reader *rd, const struct yaml_node *n,
                      const struct limit_info *info)
{
	struct limits *ceilings = &rd->p->bounds.limits, got = *ceilings;
	struct err inner = { 0 };
	const char *what;
	int r = yaml_line(&rd->doc, n, POLICY_PATTERN_MAX, rd->err);

	if (r < 0)
		return r;
	if (limits_set_text(&got, info->option, n->text.p, &inner) < 0) {
		what = strstr(inner.msg, ": "); /* after the option's name */
		r = yaml_fail(&rd->doc, n, rd->err, "%s", what ? what + 2 : inner.msg);
		return err_remedy(rd->err, r, "%s", inner.remedy);
	}
	if (rd->p->base && *limits_field(&got, info) > *limits_field(ceilings, info))
		return refuse_looser(rd, n);
	*ceilings = got;
	return 0;
}

static int read_limits(const struct reader *rd, const struct yaml_node *map)
{
	static const char *const keys[] = {
#define X(field, key, option, ...) option,
		LIMITS_TABLE(X)
#undef X
			NULL,
	};
	int r = yaml_map(&rd->doc, map, keys, rd->err);

	for (size_t i = 0; r >= 0 && i < limit_infos_n; i++) {
		const struct yaml_node *n = yaml_get(map, limit_infos[i].option);

		if (n)
			r = read_limit(rd, n, &limit_infos[i]);
	}
	return r;
}

static int read_tier(const struct reader *rd, const struct yaml_node *n)
{
	struct decision *d = &rd->p->bounds;
	unsigned got;
	int r = read_word(rd, n, VOCAB_TIER, &got);

	if (r < 0)
		return r;
	if (rd->p->base && d->tier != TIER_AUTO && got != d->tier)
		return refuse_looser(rd, n);
	d->tier = (enum tier)got;
	return 0;
}

static int read_floor(const struct reader *rd, const struct yaml_node *map)
{
	static const char *const keys[] = { "level", "tier", "network", "limits", NULL };
	struct decision *d = &rd->p->bounds;
	unsigned level = d->level, network = d->network;
	const struct yaml_node *n;
	int r = yaml_map(&rd->doc, map, keys, rd->err);

	if (r >= 0)
		r = read_bound(rd, map, "level", VOCAB_LEVEL, &level);
	if (r >= 0)
		r = read_bound(rd, map, "network", VOCAB_NETWORK, &network);
	if (r >= 0 && (n = yaml_get(map, "tier")))
		r = read_tier(rd, n);
	if (r >= 0 && (n = yaml_get(map, "limits")))
		r = read_limits(rd, n);
	d->level = (enum level)level;
	d->network = (enum network)network;
	return r;
}

/* ---- approval ---- */

static int read_approval(const struct reader *rd, const struct yaml_node *map)
{
	static const char *const keys[] = { "expires", "remember", "remember_for",
		                            "self",    "pending",  NULL };
	struct decision *d = &rd->p->bounds;
	unsigned remember = d->remember, self = d->self_approve;
	int r = yaml_map(&rd->doc, map, keys, rd->err);

	if (r >= 0)
		r = read_span(rd, map, "expires", &d->expires_ms);
	if (r >= 0)
		r = read_bound(rd, map, "remember", VOCAB_REMEMBER, &remember);
	if (r >= 0)
		r = read_span(rd, map, "remember_for", &d->remember_ms);
	if (r >= 0)
		r = read_bound(rd, map, "self", VOCAB_BOOL, &self);
	if (r >= 0)
		r = read_pending(rd, map, &d->pending_max);
	d->remember = (enum remember)remember;
	d->self_approve = self == 1;
	return r;
}

/* ---- the whole ---- */

/* Of a file that extends nothing and leaves a key out. */
static void default_bounds(struct decision *d)
{
	*d = (struct decision){
		.verdict = VERDICT_DENY,
		.level = LEVEL_STANDARD,
		.tier = TIER_AUTO,
		.network = NETWORK_LOOPBACK,
		.expires_ms = 600000,
		.remember = REMEMBER_NOTHING,
		.remember_ms = 3600000,
		.self_approve = false,
		.pending_max = 16,
	};
	for (size_t i = 0; i < limit_infos_n; i++)
		*limits_field(&d->limits, &limit_infos[i]) = limit_infos[i].max;
}

static int read_extends(const struct reader *rd, const struct yaml_node *n)
{
	char known[80] = "";
	int r = yaml_line(&rd->doc, n, POLICY_NAME_SIZE - 1, rd->err);

	if (r < 0)
		return r;
	if (!policy_builtin_text(n->text.p).p) {
		(void)snprintf(known, sizeof(known), "%s, %s", policy_builtin_name(0),
		               policy_builtin_name(1));
		return yaml_fail(&rd->doc, n, rd->err, "no built-in \"%.40s\"; it is one of %s",
		                 n->text.p, known);
	}
	r = policy_builtin(n->text.p, &rd->p->base, rd->err);
	if (r >= 0)
		rd->p->bounds = rd->p->base->bounds;
	return r;
}

static int read_head(const struct reader *rd, const struct yaml_node *root)
{
	const struct yaml_node *n = read_need(rd, root, "version", "write version: 1");
	unsigned verdict;
	int r = 0;

	if (!n)
		return -EINVAL;
	if (n->kind != YAML_TEXT || !streq(n->text.p, "1"))
		return yaml_fail(&rd->doc, n, rd->err, "this brig reads version 1 only");
	if ((n = yaml_get(root, "name")))
		r = read_name(rd, n, rd->p->name);
	if (r >= 0 && (n = yaml_get(root, "extends")))
		r = read_extends(rd, n);
	verdict = rd->p->bounds.verdict;
	if (r >= 0)
		r = read_bound(rd, root, "default", VOCAB_VERDICT, &verdict);
	rd->p->bounds.verdict = (enum verdict)verdict;
	return r;
}

static int read_root(const struct reader *rd)
{
	static const char *const keys[] = { "version", "name",     "extends", "default",
		                            "floor",   "approval", "rules",   NULL };
	const struct yaml_node *root = rd->doc.root, *n;
	int r = yaml_map(&rd->doc, root, keys, rd->err);

	default_bounds(&rd->p->bounds);
	if (r >= 0)
		r = read_head(rd, root);
	if (r >= 0 && (n = yaml_get(root, "floor")))
		r = read_floor(rd, n);
	if (r >= 0 && (n = yaml_get(root, "approval")))
		r = read_approval(rd, n);
	if (r >= 0 && (n = yaml_get(root, "rules")))
		r = read_rules(rd, n);
	return r;
}

int policy_read(const char *file, struct str text, struct policy *p, struct err *err)
{
	struct reader rd = { .p = p, .err = err };
	int r = yaml_read(file, text, &rd.doc, err);

	if (r < 0)
		return r;
	r = read_root(&rd);
	yaml_done(&rd.doc);
	return r;
}
