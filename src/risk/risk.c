/* SPDX-License-Identifier: Apache-2.0 */
/* The entry: a text, the texts inside it, and what is said of them. */
#include "risk/risk.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "risk/cache.h"
#include "risk/impl.h"
#include "risk/query.h"
#include "risk/rules.h"

const TSLanguage *tree_sitter_python(void);
const TSLanguage *tree_sitter_javascript(void);
const TSLanguage *tree_sitter_typescript(void);
const TSLanguage *tree_sitter_bash(void);

enum grammar_id {
	GRAMMAR_PYTHON = 0,
	GRAMMAR_JAVASCRIPT,
	GRAMMAR_TYPESCRIPT,
	GRAMMAR_SHELL,
	GRAMMAR_COUNT,
};

static const struct {
	const TSLanguage *(*ts)(void);
	const struct lang *lang;
	enum rules_file rules;
} grammar_sources[GRAMMAR_COUNT] = {
	[GRAMMAR_PYTHON] = { tree_sitter_python, &lang_python, RULES_PYTHON },
	[GRAMMAR_JAVASCRIPT] = { tree_sitter_javascript, &lang_javascript, RULES_JAVASCRIPT },
	[GRAMMAR_TYPESCRIPT] = { tree_sitter_typescript, &lang_javascript, RULES_JAVASCRIPT },
	[GRAMMAR_SHELL] = { tree_sitter_bash, &lang_shell, RULES_SHELL },
};

struct risk {
	struct grammar grammars[GRAMMAR_COUNT];
	struct cache cache;
};

/* Findings that need no pattern. */
enum own {
	OWN_UNPARSED = 0,
	OWN_TOO_LARGE,
	OWN_TOO_DEEP,
	OWN_TIMEOUT,
	OWN_NOT_TEXT,
	OWN_HIDDEN,
	OWN_FAILED,
	OWN_NESTED,
	OWN_TANGLED,
};

#define OWN(id, level_, text)                                                                      \
	{                                                                                          \
		.proto = {                                                                         \
			.rule = "source." id,                                                      \
			.category = "source",                                                      \
			.message = text,                                                           \
			.level = level_                                                            \
		}                                                                                  \
	}

static const struct rule own_rules[] = {
	[OWN_UNPARSED] = OWN("unparsed", RISK_MEDIUM, "does not parse here"),
	[OWN_TOO_LARGE] = OWN("too-large", RISK_HIGH, "too large to be analysed"),
	[OWN_TOO_DEEP] = OWN("too-deep", RISK_HIGH, "nested too deeply to be analysed"),
	[OWN_TIMEOUT] = OWN("timeout", RISK_HIGH, "could not be analysed in the time allowed"),
	[OWN_NOT_TEXT] = OWN("not-text", RISK_HIGH, "holds bytes that are not text"),
	[OWN_HIDDEN] =
		OWN("hidden-text", RISK_MEDIUM, "holds characters that a reader does not see"),
	[OWN_FAILED] = OWN("failed", RISK_HIGH, "the analysis itself failed"),
	[OWN_NESTED] = OWN("nested", RISK_HIGH, "code in code in code, too often"),
	[OWN_TANGLED] = OWN("tangled", RISK_MEDIUM, "a name that stands for too many things"),
};

int risk_open(struct risk **ret, struct err *err)
{
	struct risk *r = calloc(1, sizeof(*r));

	if (!r)
		return err_set(err, ERR_INTERNAL, ENOMEM, "risk analysis");
	*ret = r;
	return 0;
}

void risk_close(struct risk *r)
{
	if (!r)
		return;
	for (int i = 0; i < GRAMMAR_COUNT; i++)
		grammar_done(&r->grammars[i]);
	cache_done(&r->cache);
	free(r);
}

static struct grammar *grammar_get(struct risk *r, enum grammar_id id, struct err *err)
{
	struct grammar *g = &r->grammars[id];

	if (g->query)
		return g;
	if (grammar_load(g, grammar_sources[id].ts(), grammar_sources[id].lang,
	                 rules_source(grammar_sources[id].rules), err) < 0) {
		grammar_done(g);
		return NULL;
	}
	return g;
}

int risk_check_rules(struct risk *r, struct err *err)
{
	for (int i = 0; i < GRAMMAR_COUNT; i++)
		if (!grammar_get(r, (enum grammar_id)i, err))
			return -EINVAL;
	return 0;
}

/* ---- one text ---- */

static void own_hit(struct pass *p, enum own which, uint32_t at)
{
	hits_add(p, &own_rules[which], at, at);
	p->hits->complete = p->hits->complete && which == OWN_HIDDEN;
}

static void trouble_hit(struct pass *p, int r)
{
	own_hit(p,
	        r == -ELOOP   ? OWN_TOO_DEEP
	        : r == -EFBIG ? OWN_TOO_LARGE
	        : r == -ETIME ? OWN_TIMEOUT
	                      : OWN_FAILED,
	        0);
	p->hits->passing = p->hits->passing || r == -ETIME || r == -ENOMEM;
}

/* What a language's text may be: JavaScript is tried before TypeScript. */
static const enum grammar_id first_grammar[LANGUAGE_COUNT] = {
	[LANGUAGE_PYTHON] = GRAMMAR_PYTHON,
	[LANGUAGE_JAVASCRIPT] = GRAMMAR_JAVASCRIPT,
	[LANGUAGE_SHELL] = GRAMMAR_SHELL,
};

static int parse(struct pass *p, enum language language, uint32_t *ret_error)
{
	uint32_t error = NO_NODE;
	struct grammar *js;
	int r;

	p->g = grammar_get(p->risk, first_grammar[language], NULL);
	if (!p->g)
		return -EPROTO;
	r = tree_parse(p, ret_error);
	if (r < 0 || *ret_error == NO_NODE || language != LANGUAGE_JAVASCRIPT)
		return r;
	js = p->g;
	p->g = grammar_get(p->risk, GRAMMAR_TYPESCRIPT, NULL);
	if (!p->g)
		return -EPROTO;
	r = tree_parse(p, &error);
	if (r < 0 || error == NO_NODE) {
		*ret_error = error;
		return r;
	}
	p->g = js; /* neither: the tree of the language that was named */
	return tree_parse(p, ret_error);
}

/* Hidden characters in a comment do nothing. */
static void check_hidden(struct pass *p)
{
	uint32_t at = 0, node = 0;

	while (text_next_hidden(p->text, &at)) {
		while (node < p->tree.n &&
		       (p->tree.v[node].kind != K_COMMENT || p->tree.v[node].end <= at))
			node++;
		if (node == p->tree.n || p->tree.v[node].start > at) {
			own_hit(p, OWN_HIDDEN, at);
			return;
		}
		at++;
	}
}

static int analyse(struct pass *p, enum language language)
{
	uint32_t error = NO_NODE;
	int r = parse(p, language, &error);

	if (r < 0)
		return r;
	if (error != NO_NODE)
		own_hit(p, OWN_UNPARSED, error);
	check_hidden(p);
	r = match_all(p);
	if (p->tangled)
		own_hit(p, OWN_TANGLED, p->tangled_at);
	return r;
}

static void assess_text(struct pass *p, enum language language)
{
	uint32_t at = 0;
	int r;

	p->pool = ARENA_INIT(POOL_MAX);
	if (p->text.n > RISK_SOURCE_MAX || text_tokens(p->text, language) > TOKENS_MAX) {
		own_hit(p, OWN_TOO_LARGE, 0);
		return;
	}
	if (language <= LANGUAGE_NONE || language >= LANGUAGE_COUNT) {
		own_hit(p, OWN_FAILED, 0);
		return;
	}
	if (!text_is_good(p->text, &at))
		own_hit(p, OWN_NOT_TEXT, at);
	p->text = language == LANGUAGE_SHELL ? shell_rewrite(p, p->text) : text_lines(p, p->text);
	p->plain = text_is_plain(p->text);
	r = analyse(p, language);
	if (r < 0)
		trouble_hit(p, r);
	pass_done(p);
}

/* A rule and the engine may both find the same text. */
static bool is_done(struct pass *p, enum language language, struct str text, uint32_t at)
{
	uint32_t hash = hash_bytes(text.p, text.n) ^ (at * 31 + (uint32_t)language);

	for (uint32_t i = 0; i < MIN2(p->n_done, DONE_MAX); i++)
		if (p->done[i] == hash)
			return true;
	p->done[p->n_done++ % DONE_MAX] = hash;
	return false;
}

void assess_embedded(struct pass *p, enum language language, struct str text, uint32_t node)
{
	struct pass inner = {
		.risk = p->risk,
		.text = text,
		.hits = p->hits,
		.deadline = p->deadline,
		.nested = p->nested + 1,
		.fixed = true,
		.start = p->fixed ? p->start : node_at(p, node)->start,
		.end = p->fixed ? p->end : node_at(p, node)->end,
	};

	if (is_done(p, language, text, inner.start))
		return;
	if (inner.nested > RISK_EMBEDDED_MAX)
		own_hit(&inner, OWN_NESTED, 0);
	else
		assess_text(&inner, language);
}

/* ---- findings ---- */

static void set_place(struct str code, struct finding *f)
{
	const char *p = code.p, *at = code.p + f->start, *line = code.p;

	f->line = 1;
	while (p < at && (p = memchr(p, '\n', (size_t)(at - p)))) {
		p++;
		line = p;
		f->line++;
	}
	f->column = (uint32_t)(at - line) + 1;
}

static void set_why(struct findings *out)
{
	for (size_t i = 0; i < out->n; i++) {
		if (!str_has_prefix(out->v[i].rule, "source."))
			continue;
		if (streq(out->v[i].rule, "source.unparsed"))
			(void)snprintf(out->why, sizeof(out->why), "does not parse at line %u",
			               out->v[i].line);
		else
			(void)snprintf(out->why, sizeof(out->why), "%s", out->v[i].message);
		return;
	}
	(void)snprintf(out->why, sizeof(out->why), "%s", "not analysed in full");
}

static void put_findings(const struct hits *h, struct str code, struct findings *out)
{
	memset(out, 0,
	       offsetof(struct findings, v)); /* what follows is written as far as it counts */
	out->level = MAX2(h->level, RISK_SAFE);
	out->n = h->n;
	out->truncated = h->truncated;
	out->complete = h->complete;
	for (size_t i = 0; i < h->n; i++) {
		out->v[i] = h->v[i].rule->proto;
		out->v[i].start = h->v[i].start;
		out->v[i].end = h->v[i].end;
		set_place(code, &out->v[i]);
	}
	if (!out->complete)
		set_why(out);
}

/* The time to read the rules is not the text's. */
static void load_first(struct risk *r, enum language language)
{
	if (language > LANGUAGE_NONE && language < LANGUAGE_COUNT)
		(void)grammar_get(r, first_grammar[language], NULL);
}

void risk_assess(struct risk *r, enum language language, struct str code, struct findings *ret)
{
	struct deadline deadline = { 0 };

	risk_assess_until(r, language, code, &deadline, ret);
}

void risk_assess_until(struct risk *r, enum language language, struct str code,
                       struct deadline *deadline, struct findings *ret)
{
	uint64_t begin = clock_ns();
	struct hits hits = { .complete = true };
	struct pass p = { .risk = r, .text = code, .hits = &hits };
	struct cache_key key;

	if (!code.p)
		p.text = code = STR("");
	key = cache_key(language, code);
	if (cache_get(&r->cache, &key, ret)) {
		ret->cached = true;
		ret->cost_ns = clock_ns() - begin;
		return;
	}
	load_first(r, language);
	if (!deadline->wall_ns)
		*deadline = deadline_in(RISK_DEADLINE_MS);
	p.deadline = *deadline;
	assess_text(&p, language);
	put_findings(&hits, code, ret);
	if (!hits.passing)
		cache_put(&r->cache, &key, ret);
	ret->cost_ns = clock_ns() - begin;
}
