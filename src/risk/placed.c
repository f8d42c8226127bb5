/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands beside the code: files that it may load or start, also under the name of something
 * harmless, and variables that say where modules and commands are looked for.
 */
#include <stdio.h>

#include "base/clock.h"
#include "risk/impl.h"

#define NAME_SHOWN 28 /* of a path: its end */

/* As which languages a file is assessed: its name may say one and its first line another. */
struct kind_of_file {
	enum language by_name, by_content; /* LANGUAGE_NONE: it does not say */
	bool opaque;                       /* a program, and not in a language that is read here */
};

struct placed {
	struct risk *risk;
	struct findings *out;
	struct deadline deadline; /* of all files together */
	uint64_t bytes;           /* assessed so far */
	bool loads_any;           /* Node.js may take a file of any name for a module */
	bool all_cached;
};

/* ---- findings ---- */

static void add(struct findings *out, const struct finding *f)
{
	size_t at = out->n;

	out->level = MAX2(out->level, f->level);
	while (at > 0 && out->v[at - 1].level < f->level)
		at--;
	if (out->n == FINDINGS_MAX)
		out->truncated = true;
	if (at == FINDINGS_MAX)
		return;
	out->n = MIN2(out->n + 1, (size_t)FINDINGS_MAX);
	memmove(&out->v[at + 1], &out->v[at], (out->n - 1 - at) * sizeof(*f));
	out->v[at] = *f;
}

/* The end of a name from outside, without what a terminal might take for a command. */
static void show_name(const char *name, size_t n, char ret[NAME_SHOWN + 4])
{
	size_t from = n > NAME_SHOWN ? n - NAME_SHOWN : 0, at = 0;

	if (from)
		at = (size_t)snprintf(ret, NAME_SHOWN + 4, "...");
	for (size_t i = from; i < n; i++)
		ret[at++] = (char)(name[i] >= ' ' && name[i] <= '~' ? name[i] : '?');
	ret[at] = '\0';
}

static void not_complete(struct findings *out, const char *name, const char *why)
{
	if (out->complete)
		(void)snprintf(out->why, sizeof(out->why), "%s: %.50s", name, why);
	out->complete = false;
}

static void add_own(struct findings *out, enum risk_level level, const char *rule, const char *name,
                    const char *message)
{
	struct finding f = { .level = level, .line = 1, .column = 1 };

	(void)snprintf(f.rule, sizeof(f.rule), "%s", rule);
	(void)snprintf(f.category, sizeof(f.category), "source");
	(void)snprintf(f.message, sizeof(f.message), "%s: %s", name, message);
	add(out, &f);
}

/* Places are those of the code, everywhere: that of a file is told in the text. */
static void merge(struct findings *out, const char *name, const struct findings *one)
{
	for (size_t i = 0; i < one->n; i++) {
		struct finding f = one->v[i];

		(void)snprintf(f.message, sizeof(f.message), "%s:%u: %.50s", name, one->v[i].line,
		               one->v[i].message);
		f.start = f.end = 0;
		f.line = f.column = 1;
		add(out, &f);
	}
	out->level = MAX2(out->level, one->level);
	out->truncated = out->truncated || one->truncated;
	if (!one->complete)
		not_complete(out, name, one->why);
}

/* ---- what a file is ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static enum language language_of_name(const char *path)
{
	static const struct {
		const char *ending;
		enum language language;
	} endings[] = {
		{ "py", LANGUAGE_PYTHON },      { "js", LANGUAGE_JAVASCRIPT },
		{ "mjs", LANGUAGE_JAVASCRIPT }, { "cjs", LANGUAGE_JAVASCRIPT },
		{ "ts", LANGUAGE_JAVASCRIPT },  { "mts", LANGUAGE_JAVASCRIPT },
		{ "cts", LANGUAGE_JAVASCRIPT }, { "sh", LANGUAGE_SHELL },
		{ "bash", LANGUAGE_SHELL },
	};
	const char *dot = strrchr(base_name(path), '.');

	for (size_t i = 0; dot && i < ELEMENTSOF(endings); i++)
		if (streq(dot + 1, endings[i].ending))
			return endings[i].language;
	return LANGUAGE_NONE;
}

/* What is loaded without anybody looking into it: bytecode, libraries, lists of what to import. */
static bool is_opaque_name(const char *path)
{
	static const char *const endings[] = { ".pyc", ".pyo", ".so", ".node", ".pth" };
	const char *base = base_name(path);
	size_t n = strlen(base);

	for (size_t i = 0; i < ELEMENTSOF(endings); i++) {
		size_t k = strlen(endings[i]);

		if (n >= k && streq(base + n - k, endings[i]))
			return true;
	}
	return strstr(base, ".so.") != NULL;
}

static bool is_word_end(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The program that the words after "#!" start; env's options are no program. */
static struct str interpreter(struct str line)
{
	struct str word = { line.p, 0 };
	size_t at = 0;

	while (at < line.n) {
		while (at < line.n && is_word_end(line.p[at]))
			at++;
		word = (struct str){ line.p + at, 0 };
		while (at < line.n && !is_word_end(line.p[at]))
			if (line.p[at++] == '/')
				word.p = line.p + at;
		word.n = (size_t)(line.p + at - word.p);
		if (word.n && word.p[0] != '-' && !(word.n == 3 && memcmp(word.p, "env", 3) == 0))
			break;
	}
	return word;
}

/* LANGUAGE_NONE: another program reads it. */
static enum language language_of_shebang(struct str text)
{
	const char *end = memchr(text.p, '\n', MIN2(text.n, (size_t)256));
	struct str name = interpreter(
		(struct str){ text.p + 2, (end ? (size_t)(end - text.p) : text.n) - 2 });

	if (name.n >= 6 && memcmp(name.p, "python", 6) == 0)
		return LANGUAGE_PYTHON;
	if (name.n >= 4 && memcmp(name.p, "node", 4) == 0)
		return LANGUAGE_JAVASCRIPT;
	if (name.n >= 2 && memcmp(name.p + name.n - 2, "sh", 2) == 0)
		return LANGUAGE_SHELL;
	return LANGUAGE_NONE;
}

static bool is_json(const char *path)
{
	const char *dot = strrchr(base_name(path), '.');

	return dot && streq(dot, ".json");
}

static struct kind_of_file look_at(const struct request_file *f)
{
	struct kind_of_file k = { .by_name = language_of_name(f->path),
		                  .opaque = is_opaque_name(f->path) };

	if (f->data.n >= 4 && memcmp(f->data.p, "\177ELF", 4) == 0) {
		k.opaque = true;
	} else if (f->data.n >= 2 && memcmp(f->data.p, "#!", 2) == 0) {
		k.by_content = language_of_shebang(f->data);
		k.opaque = k.opaque || k.by_content == LANGUAGE_NONE;
	} else if (f->executable && k.by_name == LANGUAGE_NONE) {
		k.by_content = LANGUAGE_SHELL; /* as a shell takes it */
	}
	if (k.by_name == LANGUAGE_NONE && strstr(f->path, "node_modules/") && !is_json(f->path))
		k.by_name = LANGUAGE_JAVASCRIPT;
	return k;
}

/* ---- assessing ---- */

static void assess_as(struct placed *p, const struct request_file *f, enum language language)
{
	struct findings one;
	char name[NAME_SHOWN + 4];

	show_name(f->path, strlen(f->path), name);
	if (f->data.n > RISK_PLACED_MAX - MIN2(p->bytes, (uint64_t)RISK_PLACED_MAX)) {
		add_own(p->out, RISK_HIGH, "source.too-large", name,
		        "too large, with the others, to be analysed");
		not_complete(p->out, name, "too large, with the others");
		return;
	}
	p->bytes += f->data.n;
	risk_assess_until(p->risk, language, f->data, &p->deadline, &one);
	p->all_cached = p->all_cached && one.cached;
	merge(p->out, name, &one);
}

static void assess_file(struct placed *p, const struct request_file *f)
{
	struct kind_of_file k = look_at(f);
	char name[NAME_SHOWN + 4];

	if (k.opaque) {
		show_name(f->path, strlen(f->path), name);
		add_own(p->out, RISK_HIGH, "source.opaque-file", name,
		        "a program or module that cannot be analysed");
		not_complete(p->out, name, "cannot be analysed");
	}
	if (k.by_name != LANGUAGE_NONE)
		assess_as(p, f, k.by_name);
	if (k.by_content != LANGUAGE_NONE && k.by_content != k.by_name)
		assess_as(p, f, k.by_content);
	/* it can name any file as the module */
	p->loads_any = p->loads_any || streq(base_name(f->path), "package.json");
}

/* Node.js reads a file whose name says nothing as JavaScript, if the code asks for it. */
static void assess_others(struct placed *p, const struct request *req)
{
	for (size_t i = 0; i < p->out->n; i++)
		p->loads_any = p->loads_any || str_has_prefix(p->out->v[i].rule, "js.module.") ||
		               p->out->truncated;
	for (size_t i = 0; p->loads_any && i < req->n_files; i++) {
		const struct request_file *f = &req->files[i];
		struct kind_of_file k = look_at(f);

		if (k.by_name == LANGUAGE_NONE && !is_json(f->path) && !k.opaque)
			assess_as(p, f, LANGUAGE_JAVASCRIPT);
	}
}

static void look_at_env(struct placed *p, const char *entry)
{
	static const char *const places[] = {
		"PATH",     "HOME",     "NODE_PATH", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX",
		"PERL5LIB", "PERL5OPT", "RUBYLIB",   "RUBYOPT",        "PYTHONBREAKPOINT",
	};
	size_t n = strcspn(entry, "=");

	for (size_t i = 0; i < ELEMENTSOF(places); i++) {
		if (strlen(places[i]) != n || memcmp(entry, places[i], n) != 0)
			continue;
		add_own(p->out, RISK_MEDIUM, "source.env-places", places[i],
		        "decides which programs or modules are found");
		p->loads_any = p->loads_any || streq(places[i], "NODE_PATH");
	}
}

void risk_assess_placed(struct risk *r, const struct request *req, struct findings *inout)
{
	struct placed p = { .risk = r, .out = inout, .all_cached = true };
	uint64_t begin;

	if (!req->n_files && !req->n_env)
		return;
	begin = clock_ns();
	for (size_t i = 0; i < req->n_env; i++)
		look_at_env(&p, req->env[i]);
	for (size_t i = 0; i < req->n_files; i++)
		assess_file(&p, &req->files[i]);
	assess_others(&p, req);
	inout->cached = inout->cached && p.all_cached;
	inout->cost_ns += clock_ns() - begin;
}
