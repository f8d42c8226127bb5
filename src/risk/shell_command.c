/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands as lists of words, and the commands inside them: what sudo, env, xargs or find -exec
 * start is seen like a command of its own (a view), and what sh -c or eval is given is a text of
 * its own.
 */
#include <errno.h>

#include "risk/shell.h"

struct word {
	struct str text;
	uint32_t node;
	bool known;
};

struct words {
	uint32_t n, cap, n_views;
	uint32_t starts[VIEWS_MAX];
	struct word *v;
};

/* ---- words ---- */

static void add_word(struct pass *p, struct words *w, struct word word)
{
	if (w->n == w->cap) {
		uint32_t cap = w->cap ? w->cap * 2 : 8;
		struct word *v = cap <= WORDS_MAX ? arena_array(&p->pool, cap, sizeof(*v)) : NULL;

		if (!v) {
			p->trouble = cap <= WORDS_MAX ? -ENOMEM : -EFBIG;
			return;
		}
		if (w->n)
			memcpy(v, w->v, w->n * sizeof(*v));
		w->v = v;
		w->cap = cap;
	}
	w->v[w->n++] = word;
}

static void add_node(struct pass *p, struct words *w, uint32_t node)
{
	const struct value *v = fold(p, node);
	struct str s = v->text;

	if (v->kind != VALUE_TEXT) {
		add_word(p, w, (struct word){ node_text(p, node), node, false });
		return;
	}
	while (s.n && p->trouble == 0) {
		const char *cut = memchr(s.p, WORD_CUT, s.n);
		size_t n = cut ? (size_t)(cut - s.p) : s.n;

		if (n)
			add_word(p, w, (struct word){ { s.p, n }, node, true });
		n += cut != NULL;
		s = (struct str){ s.p + n, s.n - n };
	}
	if (v->text.n == 0)
		add_word(p, w, (struct word){ s, node, true });
}

/* ---- commands inside commands ---- */

static const struct wrapper {
	const char *name;
	const char *valued; /* options that take the next word */
	uint32_t operands;  /* words before the command */
	bool assignments;   /* NAME=value may come before it */
} wrappers[] = {
	{ "sudo", "ugpCchrtTUD", 0, true },
	{ "doas", "uC", 0, true },
	{ "env", "uCS", 0, true },
	{ "command", "", 0, false },
	{ "builtin", "", 0, false },
	{ "exec", "a", 0, false },
	{ "nohup", "", 0, false },
	{ "time", "fo", 0, false },
	{ "nice", "n", 0, false },
	{ "ionice", "cnp", 0, false },
	{ "timeout", "ks", 1, false },
	{ "setsid", "", 0, false },
	{ "stdbuf", "ioe", 0, false },
	{ "busybox", "", 0, false },
	{ "toybox", "", 0, false },
	{ "xargs", "InPdLsaER", 0, false },
	{ "parallel", "jSNnaX", 0, false },
	{ "chroot", "", 1, false },
	{ "strace", "eopPsuEaIO", 0, false },
	{ "ltrace", "eoplnsu", 0, false },
	{ "unshare", "", 0, false },
	{ "nsenter", "tSG", 0, false },
	{ "flock", "wE", 1, false },
	{ "taskset", "", 1, false },
	{ "chrt", "", 1, false },
	{ "watch", "nd", 0, false },
	{ "coproc", "", 0, false },
	{ "runuser", "ugG", 0, false },
	{ "setpriv", "", 0, false },
	{ "firejail", "", 0, false },
	{ "proot", "rbw", 0, false },
	{ "fakeroot", "", 0, false },
	{ "script", "c", 0, false },
	{ "catchsegv", "", 0, false },
	{ "unbuffer", "", 0, false },
	{ "dbus-run-session", "", 0, false },
	{ "systemd-run", "pEu", 0, false },
	{ "torsocks", "", 0, false },
	{ "proxychains", "", 0, false },
	{ "proxychains4", "", 0, false },
	{ "linux64", "", 0, false },
	{ "setarch", "", 0, false },
	{ "noglob", "", 0, false },
	{ "eatmydata", "", 0, false },
	/* Reserved words where the grammar takes them for commands. */
	{ "do", "", 0, false },
	{ "then", "", 0, false },
	{ "else", "", 0, false },
	{ "elif", "", 0, false },
	{ "if", "", 0, false },
	{ "while", "", 0, false },
	{ "until", "", 0, false },
	{ "{", "", 0, false },
	{ "!", "", 0, false },
};

static const struct wrapper *wrapper_named(struct str name)
{
	for (size_t i = 0; i < ELEMENTSOF(wrappers); i++)
		if (str_is(name, wrappers[i].name))
			return &wrappers[i];
	return NULL;
}

static bool is_assignment(struct str s)
{
	const char *equals = s.n ? memchr(s.p, '=', s.n) : NULL;

	return equals && equals > s.p && s.p[0] != '-' && s.p[0] != '/';
}

/* Where the command begins that this one starts; 0: it starts none. */
static uint32_t inner_command(const struct words *c, uint32_t from, const struct wrapper *w)
{
	uint32_t operands = w->operands;

	for (uint32_t i = from + 1; i < c->n; i++) {
		struct str s = c->v[i].text;

		if (s.n > 1 && s.p[0] == '-') {
			if (str_is((struct str){ s.p, s.n }, "--"))
				continue;
			if (streq(w->name, "command") && (s.p[1] == 'v' || s.p[1] == 'V'))
				return 0;
			if (s.n == 2 && strchr(w->valued, s.p[1]))
				i++;
			continue;
		}
		if (w->assignments && is_assignment(s))
			continue;
		if (operands == 0)
			return i;
		operands--;
	}
	return 0;
}

static bool is_exec(struct str s)
{
	return str_is(s, "-exec") || str_is(s, "-execdir") || str_is(s, "-ok") ||
	       str_is(s, "-okdir");
}

static void add_view(struct words *w, uint32_t start)
{
	if (w->n_views < VIEWS_MAX && start && start < w->n)
		w->starts[w->n_views++] = start;
}

static void find_views(struct words *w)
{
	w->starts[w->n_views++] = 0;
	for (uint32_t i = 0; i < w->n_views; i++) { /* grows while it runs, up to VIEWS_MAX */
		uint32_t at = w->starts[i];
		struct str name = shell_base_name(w->v[at].text);
		const struct wrapper *wrapper = wrapper_named(name);

		if (wrapper)
			add_view(w, inner_command(w, at, wrapper));
		if (str_is(name, "find") || str_is(name, "fd") || str_is(name, "fdfind"))
			for (uint32_t k = at + 1; k + 1 < w->n; k++)
				if (is_exec(w->v[k].text) ||
				    (name.p[1] == 'd' && name.n < 7 &&
				     (str_is(w->v[k].text, "-x") || str_is(w->v[k].text, "-X"))))
					add_view(w, k + 1);
	}
}

static struct words *words_of(struct pass *p, uint32_t command)
{
	struct fact *f = &p->facts[command];
	struct words *w;

	if (f->words)
		return f->words;
	w = arena_alloc(&p->pool, sizeof(*w));
	if (!w) {
		p->trouble = -ENOMEM;
		return NULL;
	}
	for (uint32_t i = node_at(p, command)->first; i != NO_NODE; i = node_at(p, i)->next) {
		uint8_t field = p->g->fields[node_at(p, i)->field];

		if (field == F_NAME || field == F_ARGUMENT)
			add_node(p, w, i);
		if (p->trouble)
			return NULL;
	}
	if (w->n)
		find_views(w);
	f->words = w;
	return w;
}

uint32_t shell_views(struct pass *p, uint32_t command)
{
	const struct words *w = words_of(p, command);

	return w && w->n_views ? w->n_views : 1;
}

static const struct word *word_at(struct pass *p, uint32_t command, uint32_t nth)
{
	const struct words *w = words_of(p, command);
	uint32_t start;

	if (!w || w->n_views == 0)
		return NULL;
	start = w->starts[MIN2(p->view, w->n_views - 1)];
	return start + nth < w->n ? &w->v[start + nth] : NULL;
}

bool shell_word(struct pass *p, uint32_t command, uint32_t nth, struct str *ret, bool *ret_exists)
{
	const struct word *w = word_at(p, command, nth);

	*ret_exists = w != NULL;
	if (!w)
		return false;
	*ret = w->text;
	return w->known;
}

struct name shell_name(struct pass *p, uint32_t command)
{
	const struct word *w = word_at(p, command, 0);

	if (!w || !w->known)
		return name_make(p, STR("?"));
	return name_make(p, shell_base_name(w->text));
}

struct str shell_line(struct pass *p, uint32_t command)
{
	struct text t = { .p = p };
	const struct word *w;

	for (uint32_t i = 0; (w = word_at(p, command, i)); i++) {
		struct str s = i || !w->known ? w->text : shell_base_name(w->text);

		if (i)
			text_put(&t, " ", 1);
		text_put(&t, s.p, s.n);
	}
	return (struct str){ t.v ? t.v : "", t.n };
}

bool shell_is_function(struct pass *p, uint32_t command)
{
	const struct word *w = word_at(p, command, 0);

	uint32_t at = node_at(p, command)->start, up = node_at(p, command)->parent;

	if (!w || !w->known || p->bindings.n == 0)
		return false;
	while (up != NO_NODE && node_kind(p, up) != K_DEFINE)
		up = node_at(p, up)->parent;
	for (const struct binding *b = binding_first(p, name_make(p, shell_function(p, w->text)));
	     b; b = binding_next(p, b))
		if (b->at <= at || up != NO_NODE) /* a body runs later */
			return true;
	return false;
}

/* ---- texts inside commands ---- */

static const struct interpreter {
	const char *name;
	enum language language;
	char option; /* -c TEXT; 0: all words are the text */
} interpreters[] = {
	{ "sh", LANGUAGE_SHELL, 'c' },        { "bash", LANGUAGE_SHELL, 'c' },
	{ "dash", LANGUAGE_SHELL, 'c' },      { "zsh", LANGUAGE_SHELL, 'c' },
	{ "ksh", LANGUAGE_SHELL, 'c' },       { "ash", LANGUAGE_SHELL, 'c' },
	{ "mksh", LANGUAGE_SHELL, 'c' },      { "rbash", LANGUAGE_SHELL, 'c' },
	{ "su", LANGUAGE_SHELL, 'c' },        { "script", LANGUAGE_SHELL, 'c' },
	{ "python", LANGUAGE_PYTHON, 'c' },   { "python2", LANGUAGE_PYTHON, 'c' },
	{ "python3", LANGUAGE_PYTHON, 'c' },  { "pypy3", LANGUAGE_PYTHON, 'c' },
	{ "node", LANGUAGE_JAVASCRIPT, 'e' }, { "nodejs", LANGUAGE_JAVASCRIPT, 'e' },
	{ "bun", LANGUAGE_JAVASCRIPT, 'e' },  { "deno", LANGUAGE_JAVASCRIPT, 'e' },
	{ "eval", LANGUAGE_SHELL, 0 },        { "watch", LANGUAGE_SHELL, 0 },
	{ "trap", LANGUAGE_SHELL, 1 },
};

static const struct interpreter *interpreter_named(struct str name)
{
	/* python3.11 is python3 */
	if (name.n > 7 && memcmp(name.p, "python", 6) == 0 &&
	    (name.p[6] == '2' || name.p[6] == '3'))
		name.n = 7;
	for (size_t i = 0; i < ELEMENTSOF(interpreters); i++)
		if (str_is(name, interpreters[i].name))
			return &interpreters[i];
	return NULL;
}

static bool gives_text(struct str s, char option)
{
	if (option == 'e' && (str_is(s, "--eval") || str_is(s, "-p") || str_is(s, "--print") ||
	                      str_is(s, "-pe") || str_is(s, "eval")))
		return true;
	if (s.n >= 6 && str_is(s, "--command"))
		return true;
	return s.n >= 2 && s.p[0] == '-' && s.p[1] != '-' && memchr(s.p, option, s.n);
}

static void assess_rest(struct pass *p, uint32_t command, enum language language)
{
	struct text t = { .p = p };
	struct str word;
	bool exists = true;

	for (uint32_t i = 1; i < WORDS_MAX; i++) {
		if (!shell_word(p, command, i, &word, &exists))
			break;
		if (i > 1)
			text_put(&t, " ", 1);
		text_put(&t, word.p, word.n);
	}
	if (!exists && t.n && !t.failed)
		assess_embedded(p, language, (struct str){ t.v, t.n }, command);
}

/* What is fed to the interpreter's input: a here-document or a here-string. */
static void assess_input(struct pass *p, uint32_t command, enum language language)
{
	uint32_t up = node_at(p, command)->parent, from = command;

	if (node_kind(p, up) == K_REDIRECTED)
		from = up;
	for (int pass = 0; pass < 2; pass++, from = command) {
		for (uint32_t c = node_at(p, from)->first; c != NO_NODE; c = node_at(p, c)->next) {
			uint32_t text = NO_NODE;
			struct str s;

			if (node_kind(p, c) == K_HERESTRING)
				text = node_last(p, c);
			if (node_kind(p, c) == K_HEREDOC)
				for (uint32_t k = node_named(p, c, 0); k != NO_NODE;
				     k = node_skip(p, node_at(p, k)->next))
					text = node_kind(p, k) == K_TEMPLATE ? k : text;
			if (text == NO_NODE)
				continue;
			if (!fold_text(p, text, &s)) /* its constant lines still tell something */
				s = node_text(p, text);
			assess_embedded(p, language, s, text);
		}
		if (from == command)
			break;
	}
}

/* echo TEXT | sh */
static void assess_piped(struct pass *p, uint32_t command, enum language language)
{
	uint32_t up = node_at(p, command)->parent, before = NO_NODE, view = p->view;
	struct str name;

	if (node_kind(p, up) == K_REDIRECTED) {
		command = up;
		up = node_at(p, up)->parent;
	}
	if (node_kind(p, up) != K_PIPELINE)
		return;
	for (uint32_t c = node_named(p, up, 0); c != NO_NODE && c != command;
	     c = node_skip(p, node_at(p, c)->next))
		before = c;
	if (node_kind(p, before) != K_COMMAND)
		return;
	p->view = 0;
	name = (struct str){ shell_name(p, before).p, shell_name(p, before).n };
	if (str_is(name, "echo") || str_is(name, "printf"))
		assess_rest(p, before, language);
	p->view = view;
}

static void assess_view(struct pass *p, uint32_t command)
{
	const struct word *first = word_at(p, command, 0);
	const struct interpreter *in;
	bool exists = true, given = false;
	struct str word;

	in = first && first->known ? interpreter_named(shell_base_name(first->text)) : NULL;
	if (!in)
		return;
	if (in->option == 0) {
		assess_rest(p, command, in->language);
		return;
	}
	if (in->option == 1) {
		if (shell_word(p, command, 1, &word, &exists))
			assess_embedded(p, in->language, word, word_at(p, command, 1)->node);
		return;
	}
	for (uint32_t i = 1; exists && i < WORDS_MAX; i++) {
		bool known = shell_word(p, command, i, &word, &exists);

		if (!known)
			continue;
		if (given) {
			assess_embedded(p, in->language, word, word_at(p, command, i)->node);
			return;
		}
		given = gives_text(word, in->option);
	}
	if (!given) {
		assess_input(p, command, in->language);
		assess_piped(p, command, in->language);
	}
}

void shell_embedded(struct pass *p, uint32_t command)
{
	uint32_t views = shell_views(p, command);

	for (p->view = 0; p->view < views && p->trouble == 0; p->view++)
		assess_view(p, command);
	p->view = 0;
}
