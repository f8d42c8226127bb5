/* SPDX-License-Identifier: Apache-2.0 */
/* brig policy explain: how a policy takes a piece of code, rule by rule. Nothing is run. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/cmd_policy.h"
#include "cli/flow.h"
#include "risk/risk.h"

#define OUTPUT_MAX   (1 * MIB)
#define FLOOR_POLICY "/etc/brig/policy.yaml" /* holds beside any other on this host */

struct explain {
	const char *policy_name;
	const char *path, *code;
	bool json;
	char caller[ACTOR_SIZE];
	const char *labels[POLICY_LABELS_MAX];
	const char *tools[REQUEST_TOOLS_MAX];
	struct request req;
	struct findings found;
	struct policy_input in;
	struct policy *policy;
	struct decision d;
};

/* ---- options ---- */

static int take_label(struct explain *e, const char *text)
{
	if (e->in.n_labels == POLICY_LABELS_MAX)
		return policy_usage("too many labels", text);
	e->labels[e->in.n_labels++] = text;
	return 0;
}

static int take_tool(struct explain *e, const char *text)
{
	if (e->req.n_tools == REQUEST_TOOLS_MAX)
		return policy_usage("too many tools", text);
	e->tools[e->req.n_tools++] = text;
	return 0;
}

static int take_policy(struct explain *e, const char *text)
{
	e->policy_name = text;
	return 0;
}

static int take_code(struct explain *e, const char *text)
{
	e->code = text;
	return 0;
}

static int take_caller(struct explain *e, const char *text)
{
	e->in.caller = text;
	return 0;
}

static int take_action(struct explain *e, const char *text)
{
	e->in.action = text;
	return 0;
}

static int take_lang(struct explain *e, const char *text)
{
	return language_from_name(text, &e->req.language) < 0
	               ? policy_usage("not python, javascript or shell", text)
	               : 0;
}

static int take_network(struct explain *e, const char *text)
{
	return network_from_name(text, &e->req.network) < 0
	               ? policy_usage("not none or loopback", text)
	               : 0;
}

static int take_level(struct explain *e, const char *text)
{
	return level_from_name(text, &e->req.level) < 0
	               ? policy_usage("not strict, standard or degraded-ok", text)
	               : 0;
}

static int take_tier(struct explain *e, const char *text)
{
	return tier_from_name(text, &e->req.tier) < 0
	               ? policy_usage("not auto, jail, docker or aio", text)
	               : 0;
}

static const struct {
	const char *name;
	int (*take)(struct explain *e, const char *text);
} options[] = {
	{ "--policy", take_policy }, { "-p", take_policy },         { "--lang", take_lang },
	{ "-l", take_lang },         { "--network", take_network }, { "--level", take_level },
	{ "--tier", take_tier },     { "--tool", take_tool },       { "--action", take_action },
	{ "--caller", take_caller }, { "--label", take_label },     { "-c", take_code },
};

/* "--name=value" or "--name value"; 1: it is no option with a value. */
static int take_option(struct explain *e, int argc, char **argv, int *i)
{
	for (size_t k = 0; k < ELEMENTSOF(options); k++) {
		size_t n = strlen(options[k].name);

		if (strncmp(argv[*i], options[k].name, n) != 0)
			continue;
		if (n > 2 && argv[*i][n] == '=')
			return options[k].take(e, argv[*i] + n + 1);
		if (argv[*i][n])
			continue;
		if (*i + 1 >= argc)
			return policy_usage("its value is missing", argv[*i]);
		return options[k].take(e, argv[++*i]);
	}
	return 1;
}

static int take_words(struct explain *e, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int r;

		if (streq(argv[i], "--json")) {
			e->json = true;
			continue;
		}
		r = take_option(e, argc, argv, &i);
		if (r == POLICY_EXIT_USAGE)
			return r;
		if (r == 0)
			continue;
		if ((argv[i][0] == '-' && argv[i][1]) || e->path)
			return policy_usage(e->path ? "one file is enough" : "not an option",
			                    argv[i]);
		e->path = argv[i];
	}
	if (!e->path == !e->code)
		return policy_usage("give a file, - or -c CODE", e->code ? e->code : "explain");
	return 0;
}

/* As `brig run` does it. */
static void set_defaults(struct explain *e)
{
	const char *policy = getenv("BRIG_POLICY");

	request_init(&e->req);
	e->policy_name = policy && *policy ? policy : "permissive";
	e->req.tools = e->tools;
	e->in.request = &e->req;
	e->in.findings = &e->found;
	e->in.labels = e->labels;
	flow_caller(e->caller);
	e->in.caller = e->caller;
}

/* ---- for people ---- */

/* In the largest unit that leaves no rest. */
static void put_amount(struct buf *b, const struct limit_info *info, uint64_t v)
{
	static const struct {
		enum limit_kind kind;
		uint64_t factor;
		const char *unit;
	} units[] = {
		{ LIMIT_BYTES, GIB, "G" },  { LIMIT_BYTES, MIB, "M" }, { LIMIT_BYTES, KIB, "K" },
		{ LIMIT_MS, 3600000, "h" }, { LIMIT_MS, 60000, "m" },  { LIMIT_MS, 1000, "s" },
		{ LIMIT_MS, 1, "ms" },
	};

	if (info->kind == LIMIT_MILLI) {
		buf_printf(b, "%g", (double)v / 1000);
		return;
	}
	for (size_t i = 0; i < ELEMENTSOF(units); i++) {
		if (units[i].kind == info->kind && v % units[i].factor == 0) {
			buf_printf(b, "%" PRIu64 "%s", v / units[i].factor, units[i].unit);
			return;
		}
	}
	buf_printf(b, "%" PRIu64, v);
}

static void put_span(struct buf *b, uint64_t ms)
{
	static const struct limit_info time = { .kind = LIMIT_MS };

	put_amount(b, &time, ms);
}

static void put_risk(struct buf *b, const struct explain *e)
{
	const struct findings *f = &e->found;

	buf_printf(b, "risk: %s (%s)\n", risk_level_name(f->level), language_name(e->req.language));
	for (size_t i = 0; i < f->n; i++)
		buf_printf(b, "  %-8s  %u:%u  %s: %s\n", risk_level_name(f->v[i].level),
		           f->v[i].line, f->v[i].column, f->v[i].rule, f->v[i].message);
	if (f->truncated)
		buf_puts(b, "  and more that are not listed\n");
	if (!f->complete)
		buf_printf(b, "  not understood in full: %s\n", f->why);
}

static bool decides(const struct explain *e, const struct policy_step *s)
{
	return s->matched && streq(s->rule, e->d.rule);
}

static void put_rules(struct buf *b, const struct explain *e)
{
	struct policy_step s;

	buf_printf(b, "\npolicy: %s (sha256 %.12s)\n", policy_name(e->policy),
	           policy_digest(e->policy));
	for (size_t i = 0; i < policy_n_rules(e->policy); i++) {
		if (policy_try(e->policy, i, &e->in, &s) < 0)
			break;
		buf_printf(b, "  %s %-7s  %s: %s", decides(e, &s) ? "=>" : "  ",
		           s.matched ? verdict_name(s.verdict) : "no", s.rule, s.why);
		if (!streq(s.policy, policy_name(e->policy)))
			buf_printf(b, "  [%s]", s.policy);
		buf_putc(b, '\n');
	}
	buf_printf(b, "\ndecision: %s by %s: %s\n", verdict_name(e->d.verdict), e->d.rule,
	           e->d.reason);
}

static void put_bounds(struct buf *b, const struct explain *e)
{
	struct limits limits = e->d.limits;

	buf_printf(b, "bounds: level %s, tier %s, network %s", level_name(e->d.level),
	           e->d.tier == TIER_AUTO ? "any" : tier_name(e->d.tier),
	           network_name(e->d.network));
	for (size_t i = 0; i < limit_infos_n; i++) {
		uint64_t v = *limits_field(&limits, &limit_infos[i]);

		if (v == limit_infos[i].max)
			continue;
		buf_printf(b, ", %s ", limit_infos[i].option);
		put_amount(b, &limit_infos[i], v);
	}
	buf_puts(b, "\napproval: expires ");
	put_span(b, e->d.expires_ms);
	buf_printf(b, ", remember %s", remember_name(e->d.remember));
	if (e->d.remember == REMEMBER_DIGEST) {
		buf_puts(b, " for ");
		put_span(b, e->d.remember_ms);
	}
	buf_printf(b, ", self %s, pending %u\n", e->d.self_approve ? "yes" : "no",
	           e->d.pending_max);
}

/* What the bounds do to a request with these options. */
static void put_request(struct buf *b, const struct explain *e)
{
	struct request applied = e->req;
	struct err err = { 0 };
	char changes[DECISION_CHANGES_SIZE];

	if (e->d.verdict == VERDICT_DENY)
		return;
	if (decision_apply(&e->d, &applied, &err) < 0) {
		buf_printf(b, "request: refused: %s; %s\n", err.msg, err.remedy);
		return;
	}
	decision_changes(&e->req, &applied, changes);
	buf_printf(b, "request: %s%s\n", *changes ? "tightened: " : "as asked for", changes);
}

/* ---- for programs ---- */

static void put_json_rules(struct buf *b, const struct explain *e)
{
	struct policy_step s;

	for (size_t i = 0; i < policy_n_rules(e->policy); i++) {
		if (policy_try(e->policy, i, &e->in, &s) < 0)
			break;
		buf_puts(b, i ? ",{\"policy\":" : "{\"policy\":");
		json_put_cstr(b, s.policy);
		buf_puts(b, ",\"rule\":");
		json_put_cstr(b, s.rule);
		buf_printf(b, ",\"line\":%u,\"verdict\":\"%s\",\"matched\":%s,\"decides\":%s",
		           s.line, verdict_name(s.verdict), s.matched ? "true" : "false",
		           decides(e, &s) ? "true" : "false");
		buf_puts(b, ",\"why\":");
		json_put_cstr(b, s.why);
		buf_putc(b, '}');
	}
}

static void put_json_bounds(struct buf *b, const struct decision *d)
{
	struct limits limits = d->limits;

	buf_printf(b, "{\"level\":\"%s\",\"tier\":\"%s\",\"network\":\"%s\",\"limits\":{",
	           level_name(d->level), tier_name(d->tier), network_name(d->network));
	for (size_t i = 0; i < limit_infos_n; i++) {
		uint64_t v = *limits_field(&limits, &limit_infos[i]);
		char number[LIMIT_NUMBER_SIZE];

		buf_printf(b, "%s\"%s\":%s", i ? "," : "", limit_infos[i].key,
		           limit_number(&limit_infos[i], v, number));
	}
	buf_puts(b, "}}");
}

static void put_json(struct buf *b, const struct explain *e)
{
	const struct decision *d = &e->d;

	buf_puts(b, "{\"risk\":");
	findings_to_json(&e->found, b);
	buf_puts(b, ",\"policy\":");
	json_put_cstr(b, policy_name(e->policy));
	buf_printf(b, ",\"policy_sha256\":\"%s\",\"rules\":[", policy_digest(e->policy));
	put_json_rules(b, e);
	buf_puts(b, "],\"decision\":");
	decision_to_json(d, b);
	buf_puts(b, ",\"bounds\":");
	put_json_bounds(b, d);
	buf_printf(b,
	           ",\"approval\":{\"expires_ms\":%" PRIu64 ",\"remember\":\"%s\""
	           ",\"remember_ms\":%" PRIu64 ",\"self\":%s,\"pending\":%u}}\n",
	           d->expires_ms, remember_name(d->remember), d->remember_ms,
	           d->self_approve ? "true" : "false", d->pending_max);
}

/* ---- */

static int assess(struct explain *e, struct err *err)
{
	struct risk *risk = NULL;
	int r = risk_open(&risk, err);

	if (r < 0)
		return r;
	risk_assess(risk, e->req.language, e->req.code, &e->found);
	risk_close(risk);
	return 0;
}

static int load_code(struct explain *e, struct arena *a, struct err *err)
{
	int r = 0;

	if (e->code)
		e->req.code = str_of(e->code);
	else
		r = policy_read_input(e->path, REQUEST_CODE_MAX, a, &e->req.code, err);
	if (r < 0)
		return r;
	if (e->req.language == LANGUAGE_NONE && e->path)
		e->req.language = language_from_path(e->path);
	if (e->req.language != LANGUAGE_NONE)
		return 0;
	(void)err_set(err, ERR_INVALID, 0, "which language is it?");
	return err_remedy(err, -EINVAL, "say --lang python, javascript or shell");
}

static int answer(struct explain *e)
{
	CLEANUP_BUF struct buf out = BUF_INIT(OUTPUT_MAX);

	policy_eval(e->policy, &e->in, &e->d);
	if (e->json) {
		put_json(&out, e);
	} else {
		put_risk(&out, e);
		put_rules(&out, e);
		put_bounds(&out, e);
		put_request(&out, e);
		if (access(FLOOR_POLICY, F_OK) == 0 && !streq(e->policy_name, FLOOR_POLICY))
			buf_puts(&out, "note: " FLOOR_POLICY " has its say, too\n");
	}
	return policy_write(&out, POLICY_EXIT_OK);
}

static int explain(struct explain *e)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(2 * REQUEST_CODE_MAX);
	struct err err = { 0 };
	int status;

	if (policy_load(e->policy_name, &e->policy, &err) < 0)
		return policy_complain(&err);
	if (load_code(e, &a, &err) < 0 || assess(e, &err) < 0)
		status = policy_complain(&err);
	else
		status = answer(e);
	policy_free(e->policy);
	return status;
}

int policy_explain_main(int argc, char **argv)
{
	CLEANUP_FREE struct explain *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return POLICY_EXIT_BROKEN;
	set_defaults(e);
	r = take_words(e, argc, argv);
	return r ? r : explain(e);
}
