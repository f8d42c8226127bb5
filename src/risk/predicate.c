/* SPDX-License-Identifier: Apache-2.0 */
/* What a rule asks of the nodes its pattern found. */
#include "risk/impl.h"
#include "risk/query.h"
#include "risk/shell.h"

#define DOTS_MAX 8 /* of a name, up to which all of its parts are looked at */

static bool matches(struct pass *p, const struct predicate *pred, struct str text)
{
	int r = regex_match(p->g->query, pred->regex, text);

	if (r < 0)
		p->trouble = r;
	return r > 0;
}

/* ---- names ---- */

static bool ends_with(struct name name, const struct literal *l)
{
	return name.n > l->n && name.p[name.n - l->n - 1] == '.' &&
	       memcmp(name.p + name.n - l->n, l->p, l->n) == 0;
}

static bool has_inside(struct name name, const struct literal *l)
{
	for (uint32_t i = 0; i + l->n + 2 <= name.n; i++)
		if (name.p[i] == '.' && name.p[i + l->n + 1] == '.' &&
		    memcmp(name.p + i + 1, l->p, l->n) == 0)
			return true;
	return false;
}

static bool name_is(struct name name, const struct literal *l)
{
	if (l->any)
		return l->below ? has_inside(name, l) : ends_with(name, l);
	if (l->below)
		return name.n > l->n && name.p[l->n] == '.' && memcmp(name.p, l->p, l->n) == 0;
	return name.hash == l->hash && name.n == l->n && memcmp(name.p, l->p, l->n) == 0;
}

static bool name_in(struct name name, const struct literal *l, const struct predicate *pred)
{
	uint32_t low = 0, high = pred->n_exact;

	while (low < high) { /* the first of that hash */
		uint32_t middle = low + (high - low) / 2;

		if (l[middle].hash < name.hash)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < pred->n_exact && l[low].hash == name.hash; low++)
		if (name_is(name, &l[low]))
			return true;
	for (uint32_t i = pred->n_exact; i < pred->n; i++)
		if (name_is(name, &l[i]))
			return true;
	return false;
}

/* builtins.eval is eval */
static bool strip_builtins(struct name *name)
{
	static const char builtins[] = "builtins.";
	size_t skip = sizeof(builtins) - 1;

	if (name->n <= skip || memcmp(name->p, builtins, skip) != 0)
		return false;
	name->p += skip;
	name->n -= (uint32_t)skip;
	name->hash = hash_bytes(name->p, name->n);
	return true;
}

static bool name_among(struct pass *p, struct name name, const struct predicate *pred)
{
	const struct literal *l = &p->g->query->literals[pred->first];

	return name_in(name, l, pred) || (strip_builtins(&name) && name_in(name, l, pred));
}

/* All that stands between the dot at `from` and a later one. */
static void add_inside(struct name_bits *bits, struct name name, uint32_t from)
{
	for (uint32_t i = from + 1; i < name.n; i++)
		if (name.p[i] == '.')
			name_bit(bits->inside, hash_bytes(name.p + from + 1, i - from - 1));
}

static void add_bits(struct name_bits *bits, struct name name)
{
	uint32_t dots = 0;

	name_bit(bits->exact, name.hash);
	for (uint32_t i = 0; i < name.n; i++) {
		if (name.p[i] != '.')
			continue;
		name_bit(bits->below, hash_bytes(name.p, i));
		name_bit(bits->any, hash_bytes(name.p + i + 1, name.n - i - 1));
		if (++dots <= DOTS_MAX)
			add_inside(bits, name, i);
	}
	if (dots > DOTS_MAX)
		memset(bits->inside, 0xff, sizeof(bits->inside));
}

void name_bits_add(struct name_bits *bits, struct name name)
{
	add_bits(bits, name);
	if (strip_builtins(&name))
		add_bits(bits, name);
}

static bool test_name(struct pass *p, const struct predicate *pred, uint32_t node)
{
	const struct names *names;
	enum kind kind = node_kind(p, node);

	if (kind == K_COMMAND || kind == K_COMMAND_NAME) {
		uint32_t c = kind == K_COMMAND ? node : node_at(p, node)->parent;

		if (name_among(p, shell_name(p, c), pred))
			return true;
		return shell_is_function(p, c) &&
		       name_among(p, name_make(p, STR("<function>")), pred);
	}
	names = resolve(p, node);
	for (uint32_t i = 0; i < names->n; i++)
		if (name_among(p, names->v[i], pred))
			return true;
	return false;
}

/* ---- text and values ---- */

static bool among(struct pass *p, struct str s, const struct predicate *pred)
{
	const struct literal *l = &p->g->query->literals[pred->first];

	for (uint32_t i = 0; i < pred->n; i++)
		if (l[i].n == s.n && memcmp(l[i].p, s.p, s.n) == 0)
			return true;
	return false;
}

/* An identifier by what it means, anything else as it is written. */
struct str plain_text(struct pass *p, uint32_t node)
{
	struct str s = node_text(p, node);

	return node_kind(p, node) == K_IDENT ? text_identifier(p, s) : s;
}

/* The command that a captured command or command's name is; else the node itself. */
static uint32_t command_of(const struct pass *p, uint32_t node)
{
	return node_kind(p, node) == K_COMMAND_NAME ? node_at(p, node)->parent : node;
}

/* ---- arguments ---- */

/* A question about arguments, while they pass by. */
struct asked {
	struct pass *p;
	const struct predicate *pred;
	uint32_t n; /* seen so far */
	bool held;
};

/* A path is also looked at without detours, but only to find more. */
static bool matches_word(struct pass *p, const struct predicate *pred, struct str text)
{
	char out[NAME_MAX_LEN];
	struct str path;

	if (matches(p, pred, text))
		return true;
	return p->g->lang->language == LANGUAGE_SHELL && !pred->negate &&
	       shell_path(text, out, &path) && matches(p, pred, path);
}

static void see(struct asked *a, bool known, struct str text)
{
	a->n++;
	if (a->held)
		return;
	if (a->pred->op == PRED_DYNAMIC_ARG)
		a->held = !known;
	else if (a->pred->op == PRED_ARG)
		a->held = known && matches_word(a->p, a->pred, text);
}

static void see_node(struct asked *a, uint32_t value)
{
	struct str text = STR("");
	bool known = value != NO_NODE && fold_text(a->p, value, &text);

	see(a, known, text);
}

static bool name_of_key(struct pass *p, uint32_t key, struct str *ret)
{
	if (key == NO_NODE)
		return false;
	if (node_kind(p, key) == K_IDENT) {
		*ret = text_identifier(p, node_text(p, key));
		return true;
	}
	return fold_text(p, key, ret);
}

/* {name: value} as an argument */
static void see_entries(struct asked *a, uint32_t table, struct str name)
{
	struct pass *p = a->p;
	struct str key;

	for (uint32_t c = node_named(p, table, 0); c != NO_NODE;
	     c = node_skip(p, node_at(p, c)->next))
		if (node_kind(p, c) == K_PAIR && name_of_key(p, node_field(p, c, F_KEY), &key) &&
		    str_eq(key, name))
			see_node(a, node_field(p, c, F_VALUE));
}

static void see_keywords(struct asked *a, uint32_t call, struct str name)
{
	struct pass *p = a->p;
	uint32_t list = node_field(p, call, F_ARGUMENTS);

	for (uint32_t c = node_named(p, list, 0); c != NO_NODE;
	     c = node_skip(p, node_at(p, c)->next)) {
		struct str key;

		if (node_kind(p, c) == K_KEYWORD &&
		    name_of_key(p, node_field(p, c, F_NAME), &key) && str_eq(key, name))
			see_node(a, node_field(p, c, F_VALUE));
		if (node_kind(p, c) == K_DICT)
			see_entries(a, c, name);
	}
}

static uint32_t number_of(struct str s)
{
	uint32_t n = 0;

	for (size_t i = 0; i < s.n && i < 4; i++)
		n = n * 10 + (uint32_t)(s.p[i] - '0') % 10;
	return n;
}

static void see_words(struct asked *a, uint32_t command, struct str which)
{
	bool all = str_is(which, "*"), exists = true;
	uint32_t i = all ? 1 : number_of(which) + 1;

	do {
		struct str text = STR("");
		bool known = shell_word(a->p, command, i++, &text, &exists);

		if (exists)
			see(a, known, text);
	} while (all && exists && !a->held && a->p->trouble == 0);
}

static void see_arguments(struct asked *a, uint32_t call, struct str which)
{
	struct pass *p = a->p;
	uint32_t list = node_field(p, call, F_ARGUMENTS);

	if (which.n > 2 && memcmp(which.p, "k=", 2) == 0) {
		see_keywords(a, call, (struct str){ which.p + 2, which.n - 2 });
	} else if (!str_is(which, "*")) {
		uint32_t arg = call_arg(p, call, number_of(which));

		if (arg != NO_NODE)
			see_node(a, arg);
	} else if (node_kind(p, list) == K_TEMPLATE || node_kind(p, list) == K_COMPREHEND) {
		see_node(a, list);
	} else {
		for (uint32_t c = node_named(p, list, 0); c != NO_NODE && !a->held;
		     c = node_skip(p, node_at(p, c)->next))
			see_node(a, node_kind(p, c) == K_KEYWORD ? node_field(p, c, F_VALUE) : c);
	}
}

static bool test_argument(struct pass *p, const struct predicate *pred, uint32_t node)
{
	const struct literal *l = &p->g->query->literals[pred->first];
	struct asked a = { .p = p, .pred = pred };

	if (pred->n == 0)
		return false;
	node = command_of(p, node);
	if (node_kind(p, node) == K_COMMAND)
		see_words(&a, node, (struct str){ l->p, l->n });
	else
		see_arguments(&a, node, (struct str){ l->p, l->n });
	return pred->op == PRED_NO_ARG ? a.n == 0 : a.held;
}

/* sed's script does what the rule asks for: "runs" or "writes". */
static bool test_sed(struct pass *p, const struct predicate *pred, uint32_t node)
{
	const struct literal *l = &p->g->query->literals[pred->first];
	bool runs = pred->n && str_is((struct str){ l->p, l->n }, "runs");

	return node_kind(p, command_of(p, node)) == K_COMMAND &&
	       (shell_sed(p, command_of(p, node)) & (runs ? SED_RUNS : SED_WRITES)) != 0;
}

/* ---- all ---- */

static bool test(struct pass *p, const struct predicate *pred, uint32_t node)
{
	struct str text;

	switch (pred->op) {
	case PRED_EQ:
		return among(p, plain_text(p, node), pred);
	case PRED_IN:
		return place_in(p, pred, node);
	case PRED_READ:
		return place_read(p, node);
	case PRED_FOLDED:
		return place_folded(p, node);
	case PRED_MODULE:
		return place_module(p, node);
	case PRED_OWN:
		return place_own(p, node);
	case PRED_SED:
		return test_sed(p, pred, node);
	case PRED_BOMB:
		return shell_is_bomb(p, node);
	case PRED_LINE:
		return node_kind(p, command_of(p, node)) == K_COMMAND &&
		       matches(p, pred, shell_line(p, command_of(p, node)));
	case PRED_MATCH:
		return matches(p, pred, node_text(p, node));
	case PRED_NAME:
		return test_name(p, pred, node);
	case PRED_STRING:
		return fold_text(p, node, &text) && among(p, text, pred);
	case PRED_STRING_MATCH:
		return fold_text(p, node, &text) && matches_word(p, pred, text);
	case PRED_DYNAMIC:
		return !fold_text(p, node, &text);
	case PRED_ARG:
	case PRED_NO_ARG:
	case PRED_DYNAMIC_ARG:
		return test_argument(p, pred, node);
	case PRED_EMBEDDED:
	case PRED_COMMAND:
		return true;
	}
	return false;
}

/* A capture that this alternative of the pattern does not have is not asked about. */
bool predicates_hold(struct pass *p, const struct rule *rule, const uint32_t *captures)
{
	const struct predicate *pred = rule->n ? &p->g->query->predicates[rule->first] : NULL;

	for (uint32_t i = 0; i < rule->n; i++) {
		uint32_t node = captures[pred[i].capture];

		if (pred[i].op >= PRED_EMBEDDED)
			break;
		if (pred[i].other != NO_GOAL) {
			uint32_t other = captures[pred[i].other];

			if (node != NO_NODE && other != NO_NODE &&
			    str_eq(plain_text(p, node), plain_text(p, other)) == pred[i].negate)
				return false;
			continue;
		}
		if (node != NO_NODE && test(p, &pred[i], node) == pred[i].negate)
			return false;
		if (p->trouble)
			return false;
	}
	return true;
}

static enum language language_named(const struct literal *l)
{
	struct str s = { l->p, l->n };

	if (str_is(s, "shell") || str_is(s, "bash") || str_is(s, "sh"))
		return LANGUAGE_SHELL;
	if (str_is(s, "python"))
		return LANGUAGE_PYTHON;
	if (str_is(s, "javascript") || str_is(s, "typescript"))
		return LANGUAGE_JAVASCRIPT;
	return LANGUAGE_NONE;
}

void directives_run(struct pass *p, const struct rule *rule, const uint32_t *captures)
{
	const struct predicate *pred = rule->n ? &p->g->query->predicates[rule->first] : NULL;

	for (uint32_t i = 0; i < rule->n; i++) {
		uint32_t node = captures[pred[i].capture];
		struct str text;

		if (pred[i].op != PRED_EMBEDDED || node == NO_NODE || pred[i].n == 0)
			continue;
		if (fold_text(p, node, &text))
			assess_embedded(p, language_named(&p->g->query->literals[pred[i].first]),
			                text, node);
	}
}
