/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of risk analysis behind risk.h. The way of a text:
 *
 *   parse (tree-sitter) -> flat tree (tree.c) -> bindings (bind_*.c) -> rules (match.c,
 * predicate.c)
 *
 * A predicate asks for the names an expression may stand for (resolve.c) or for its constant value
 * (fold.c); both are worked out on demand and kept per node.
 */

#include <stdbool.h>
#include <stdint.h>
#include <tree_sitter/api.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "risk/risk.h"

#define NO_NODE       UINT32_MAX
#define NAMES_MAX     8          /* what an expression may stand for */
#define NAME_MAX_LEN  200        /* of a dotted name */
#define VALUE_MAX     (64 * KIB) /* of a folded constant */
#define POOL_MAX      (24 * MIB) /* of one text's names and values */
#define RESOLVE_DEPTH 64         /* expressions inside expressions, bindings included */
#define WORDS_MAX     32768      /* of a shell command; more is too large */
#define VIEWS_MAX     8          /* commands inside a command: sudo env rm */
#define DONE_MAX      32         /* texts inside a text that are remembered */
#define TOKENS_MAX    65000      /* the library's trees break at 65535 children */
#define STARS_MAX     8          /* modules imported with * */
#define FINDINGS_KEPT FINDINGS_MAX

/* What a node is, where languages agree. */
enum kind {
	K_OTHER = 0,
	K_IDENT,
	K_ATTR,       /* object, attribute */
	K_INDEX,      /* object, index */
	K_CALL,       /* function, arguments */
	K_NEW,        /* function, arguments */
	K_ARGS,       /* of a call */
	K_KEYWORD,    /* name, value: an argument */
	K_SPLAT,      /* of unknown many */
	K_WRAP,       /* stands for its first named child */
	K_LAST,       /* stands for its last named child */
	K_EITHER,     /* stands for any of its children */
	K_TERNARY,    /* likewise, but for the condition */
	K_BINARY,     /* left, operator, right */
	K_UNARY,      /* operator, argument */
	K_STRING,     /* a literal */
	K_STRINGS,    /* literals side by side */
	K_TEMPLATE,   /* a literal with expressions inside */
	K_PIECE,      /* of a literal: plain text */
	K_ESCAPE,     /* of a literal: an escape sequence */
	K_INTERP,     /* of a literal: an expression */
	K_NUMBER,     /* an integer */
	K_LITERAL,    /* true, null, 1.5: stands for its own text */
	K_LIST,       /* list, tuple, array */
	K_DICT,       /* of pairs */
	K_PAIR,       /* key, value */
	K_SLICE,      /* [a:b:c] */
	K_COMPREHEND, /* body, then clauses */
	K_FUNCTION,   /* an anonymous one */
	K_ASSIGN,     /* left, right: also defaults, walrus, declarations */
	K_AUGMENT,    /* left += right */
	K_EACH,       /* left runs through right */
	K_AS,         /* value as alias */
	K_DEFINE,     /* name: a function or class */
	K_DELETE,
	K_PARAMS,      /* of a function */
	K_CATCH,       /* parameter */
	K_UPDATE,      /* ++ */
	K_IMPORT,      /* names modules */
	K_IMPORT_FROM, /* a module and names in it */
	K_ALIAS,       /* name, alias */
	K_STAR,        /* all names of a module */
	K_DOTTED,
	K_CLAUSE, /* JavaScript: what an import binds */
	K_NAMESPACE,
	K_PATTERN,  /* a list of targets */
	K_OPATTERN, /* an object of targets */
	K_IMPORT_FN,
	K_THIS,
	K_BLOCK,
	K_COMMENT,
	/* shell */
	K_COMMAND,
	K_COMMAND_NAME,
	K_WORD,
	K_ARITH,
	K_SUBSCRIPT,
	K_RAW,
	K_ANSI,
	K_CONCAT,
	K_EXPAND,
	K_SUBST,
	K_VARIABLE,
	K_SET,
	K_HEREDOC,
	K_HERESTRING,
	K_REDIRECTED,
	K_PIPELINE,
	K_SEQUENCE, /* && and || */
	K_GROUP,
	K_COUNT,
};

/* Names of children; a grammar may spell them in its own way. */
enum field {
	F_NONE = 0,
	F_OBJECT,
	F_ATTR,
	F_INDEX,
	F_FUNCTION,
	F_ARGUMENTS,
	F_LEFT,
	F_RIGHT,
	F_OPERATOR,
	F_KEY,
	F_VALUE,
	F_NAME,
	F_ALIAS,
	F_BODY,
	F_MODULE,
	F_CONDITION,
	F_ARGUMENT,
	F_DESTINATION,
	F_COUNT,
};

struct node {
	uint16_t symbol;
	uint16_t field; /* of the parent, 0: none */
	uint8_t kind;
	bool named;
	uint32_t parent, first, next; /* NO_NODE: none */
	uint32_t start, end;
};

/* In the order of the text, parents first. */
struct tree {
	struct node *v;
	uint32_t n, cap;
};

struct name {
	const char *p;
	uint32_t n;
	uint32_t hash;
};

struct names {
	uint32_t n;
	bool full; /* there were more */
	struct name v[NAMES_MAX];
};

enum value_kind {
	VALUE_NONE = 0, /* not constant */
	VALUE_TEXT,
	VALUE_INT,
};

struct value {
	enum value_kind kind;
	struct str text;
	int64_t number;
};

struct words; /* shell_command.c */

/* What was worked out about a node. */
struct fact {
	struct names *names;
	struct value *value;
	struct words *words;
	bool naming, folding; /* under way: a circle ends there */
};

/* A name and what it was bound to somewhere in the text; scopes and order are not told apart. */
struct binding {
	struct name name;
	uint32_t value;   /* node; NO_NODE: full is the name itself */
	struct name path; /* below the value: {a: x} = value; n == 0: the value itself */
	bool element;     /* of the value, not the value */
	bool shadows;     /* takes the place of a builtin of that name, from `at` on */
	bool append;      /* left += value */
	uint32_t at;
	uint32_t scope; /* the only node inside which it is seen; 0: anywhere */
	uint32_t next;  /* with that name; NO_NODE: none */
};

struct bindings {
	struct binding *v;
	uint32_t n, cap;
	uint32_t *slots; /* hash table of first bindings, a power of two */
	uint32_t n_slots;
	struct name stars[STARS_MAX];
	uint32_t n_stars;
};

struct query; /* query.h */
struct pass;

struct kind_name {
	const char *name;
	enum kind kind;
};

struct field_name {
	const char *name;
	enum field field;
};

/* What differs between languages. */
struct lang {
	enum language language;
	const struct kind_name *kinds;   /* ends with a NULL name */
	const struct field_name *fields; /* likewise */
	/* Adds the bindings that this node makes. */
	void (*bind)(struct pass *p, uint32_t node);
	/* A call that stands for something known: getattr(), require(). False: it does not. */
	bool (*call_names)(struct pass *p, uint32_t call, struct names *ret);
	/* The name under which a.b is known. */
	struct name (*join)(struct pass *p, struct name a, struct str b);
	/* "this" here is the global object, or may be; NULL: the language has none. */
	bool (*is_global_this)(const struct pass *p, uint32_t node);
	/* Literal text of a string, template or word. */
	bool (*literal)(struct pass *p, uint32_t node, struct value *ret);
};

extern const struct lang lang_python, lang_javascript, lang_shell;

/* bind_python.c */
void python_bind(struct pass *p, uint32_t node);
struct str python_first_part(struct str s); /* a of a.b.c */

#define FIELD_IDS_MAX 4

struct grammar {
	const TSLanguage *ts;
	const struct lang *lang;
	TSParser *parser;
	uint8_t *kinds;  /* by symbol */
	uint8_t *fields; /* enum field, by field id */
	uint32_t n_symbols, n_fields;
	struct query *query;
};

/* In processor time, for a busy host is no reason to distrust a text; and in time, for the caller.
 */
struct deadline {
	uint64_t cpu_ns, wall_ns;
	uint64_t early_ns; /* on the wall's clock: until then, so much cannot have been used */
};

struct deadline deadline_in(uint64_t cpu_ms);
bool deadline_passed(const struct deadline *d);

/* risk_assess() within a deadline that several texts share; all zero: it begins now. */
void risk_assess_until(struct risk *r, enum language language, struct str code,
                       struct deadline *deadline, struct findings *ret);

struct rule;

struct hit {
	const struct rule *rule;
	uint32_t start, end;
};

/* Findings under collection, the worst kept. */
struct hits {
	struct hit v[FINDINGS_KEPT];
	size_t n;
	bool truncated;
	bool complete; /* the whole text was understood */
	bool passing;  /* another time it may come out differently */
	enum risk_level level;
};

/* One text under analysis. */
struct pass {
	struct risk *risk;
	struct grammar *g;
	struct str text;
	bool plain; /* every identifier in it is what it seems */
	struct tree tree;
	struct arena pool;
	struct fact *facts;
	struct bindings bindings;
	bool tangled; /* a name stands for more than is looked at */
	uint32_t tangled_at;
	struct hits *hits;
	struct deadline deadline;
	uint32_t depth;          /* of resolving and folding */
	uint32_t nested;         /* texts in texts */
	uint32_t view;           /* of shell commands */
	struct name loop;        /* a comprehension's variable while it is folded; n == 0: none */
	struct value loop_value; /* what it is now */
	int trouble;             /* 0, -ETIME, -ENOMEM: what follows is not known */
	uint32_t done[DONE_MAX]; /* hashes of texts inside that were assessed */
	uint32_t n_done;
	bool fixed; /* findings are reported at this place */
	uint32_t start, end;
};

/* ---- tree.c ---- */

int grammar_load(struct grammar *g, const TSLanguage *ts, const struct lang *lang, struct str rules,
                 struct err *err);
void grammar_done(struct grammar *g);
/* -EFBIG: too many nodes; -ELOOP: too deep; -ETIME; -ENOMEM. *ret_error: where it does not parse.
 */
int tree_parse(struct pass *p, uint32_t *ret_error);

static inline const struct node *node_at(const struct pass *p, uint32_t i)
{
	return &p->tree.v[i];
}

static inline enum kind node_kind(const struct pass *p, uint32_t i)
{
	return i == NO_NODE ? K_OTHER : (enum kind)p->tree.v[i].kind;
}

struct str node_text(const struct pass *p, uint32_t i);
uint32_t node_field(const struct pass *p, uint32_t i, enum field f);
uint32_t node_named(const struct pass *p, uint32_t i, uint32_t nth);
uint32_t node_last(const struct pass *p, uint32_t i);
/* The next named sibling that is no comment, from `i` on. */
uint32_t node_skip(const struct pass *p, uint32_t i);

/* ---- text.c ---- */

uint32_t hash_bytes(const char *p, size_t n);
static inline bool str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}
static inline bool str_is(struct str a, const char *b)
{
	return a.n == strlen(b) && memcmp(a.p, b, a.n) == 0;
}
/* UTF-8 without NUL; else where it is not. */
bool text_is_good(struct str s, uint32_t *ret_at);
/* At most so many tokens. */
size_t text_tokens(struct str s, enum language language);
/* A return that ends a line by itself, as the languages have it, made into what the grammars know.
 */
struct str text_lines(struct pass *p, struct str s);
/* The next character from *at on that a reader does not see. */
bool text_next_hidden(struct str s, uint32_t *at);
/* ASCII without backslashes. */
bool text_is_plain(struct str s);
/* An identifier as the language compares it: compatible letters folded, escapes decoded. */
struct str text_identifier(struct pass *p, struct str s);
size_t utf8_put(char *out, uint32_t c); /* at most 4 */

/* ---- letters.c ---- */

#define LETTERS_MAX 4
/* The plain letters that Python takes this character for; 0: it is none of those. */
size_t letters_plain(uint32_t c, char out[LETTERS_MAX]);

/* ---- resolve.c ---- */

struct name name_make(struct pass *p, struct str s);
struct name name_join(struct pass *p, struct name a, struct str b);
void names_add(struct names *n, struct name name);
/* Never NULL. */
const struct names *resolve(struct pass *p, uint32_t node);
void bind_value(struct pass *p, struct str name, uint32_t value, struct binding how);
void bind_name(struct pass *p, struct str name, struct name full, bool shadows, uint32_t at);
/* Given something that is not known: it is no constant then. */
void bind_unknown(struct pass *p, struct str name, uint32_t scope);
void bind_unknown_all(struct pass *p, uint32_t target, uint32_t scope);
/* What is written into, or changed by a method, is no constant. */
void bind_changed(struct pass *p, uint32_t node);
void bind_target(struct pass *p, uint32_t target, uint32_t value, struct binding how);
/* That the text imports this module, or defines this method of a class (predicate_place.c). */
void bind_module(struct pass *p, struct name module);
void bind_method(struct pass *p, uint32_t class, struct str name);
const struct binding *binding_first(const struct pass *p, struct name name);
const struct binding *binding_next(const struct pass *p, const struct binding *b);
void bindings_done(struct bindings *b);
uint32_t call_callee(const struct pass *p, uint32_t call);

/* ---- fold.c ---- */

/* Never NULL. */
const struct value *fold(struct pass *p, uint32_t node);
bool fold_text(struct pass *p, uint32_t node, struct str *ret);
bool fold_int(struct pass *p, uint32_t node, int64_t *ret);
bool value_text(struct pass *p, struct str s, struct value *ret);
bool value_int(int64_t number, struct value *ret);
/* Elements of a constant list, tuple, string (its characters) or comprehension. */
struct items {
	struct value *v;
	uint32_t n;
};
#define ITEMS_MAX 4096
bool fold_list(struct pass *p, uint32_t node, struct items *ret);
bool items_add(struct pass *p, struct items *items, struct value v);
struct str value_as_text(struct pass *p, const struct value *v);
/* fold_call.c: calls with a known constant result. */
bool fold_call(struct pass *p, uint32_t call, struct value *ret);
bool fold_call_list(struct pass *p, uint32_t call, struct items *ret);
bool fold_with(struct pass *p, uint32_t variable, uint32_t body, const struct items *over,
               struct items *ret);
uint32_t table_of(struct pass *p, uint32_t node);
/* The value under a key of a table; NO_NODE: none. */
uint32_t table_entry(struct pass *p, uint32_t table, struct str key);
/* The nth positional argument of a call; NO_NODE: none. */
uint32_t call_arg(const struct pass *p, uint32_t call, uint32_t nth);
bool call_arg_text(struct pass *p, uint32_t call, uint32_t nth, struct str *ret);
/* What a method is called on; NO_NODE: it is no method. */
uint32_t call_receiver(const struct pass *p, uint32_t call);
bool call_receiver_text(struct pass *p, uint32_t call, struct str *ret);
/* Bytes in the encoding of that name. */
bool fold_decode(struct pass *p, struct str s, struct str how, struct value *ret);
/* fold_method.c */
struct fold_row {
	const char *name;
	bool (*run)(struct pass *p, uint32_t call, struct value *ret);
};
bool fold_method(struct pass *p, uint32_t call, struct str name, struct value *ret);

/* A growing text in the pool. */
struct text {
	struct pass *p;
	char *v;
	size_t n, cap;
	bool failed;
};
void text_put(struct text *t, const char *p, size_t n);
bool text_value(struct text *t, struct value *ret);

/* ---- codec.c ---- */

bool decode_base64(struct text *out, struct str s);
bool decode_hex(struct text *out, struct str s);
void decode_rot13(struct text *out, struct str s);
/* One escape sequence, the backslash included. */
void decode_escape(struct text *out, struct str s, enum language language);

/* ---- shell_command.c ---- */

uint32_t shell_views(struct pass *p, uint32_t command);
/* The nth word of the command as seen by p->view; false: there is none, or it is not constant and
 * given as it is written. */
bool shell_word(struct pass *p, uint32_t command, uint32_t nth, struct str *ret, bool *ret_exists);
struct name shell_name(struct pass *p, uint32_t command);
/* The command is a function of the text itself. */
bool shell_is_function(struct pass *p, uint32_t command);
/* A text that the grammar reads as a shell does; of the same length. */
struct str shell_rewrite(struct pass *p, struct str text);
/* All words of the command as seen by p->view, with blanks between them. */
struct str shell_line(struct pass *p, uint32_t command);
void shell_embedded(struct pass *p, uint32_t command);
/* The path that a word is, or that its option or setting names, without detours; false: none, or
 * it is the word itself. */
bool shell_path(struct str word, char out[NAME_MAX_LEN], struct str *ret);
unsigned shell_sed(struct pass *p, uint32_t command);
/* shell_inner.c: commands in here-documents and backquotes; a function that starts itself. */
void shell_inner(struct pass *p, uint32_t node);
bool shell_is_bomb(struct pass *p, uint32_t function);

/* ---- match.c, predicate.c ---- */

struct str plain_text(struct pass *p, uint32_t node);

/* All rules on p->tree: 0, or why it was given up. */
int match_all(struct pass *p);
void pass_done(struct pass *p);
void hits_add(struct pass *p, const struct rule *rule, uint32_t start, uint32_t end);

/* ---- risk.c ---- */

/* A text inside a text, its findings reported at `node`. */
void assess_embedded(struct pass *p, enum language language, struct str text, uint32_t node);
