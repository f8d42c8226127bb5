/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constant values: what a text built of pieces comes to. Only what is cheap and certain; anything
 * else has no value, which a rule can ask for (#dynamic?). Sizes are bounded by VALUE_MAX and the
 * pool, recursion by RESOLVE_DEPTH.
 */
#include <errno.h>
#include <inttypes.h>

#include "risk/impl.h"

static const struct value no_value;

void text_put(struct text *t, const char *p, size_t n)
{
	if (t->failed || n == 0)
		return;
	if (t->n + n > VALUE_MAX) {
		t->failed = true;
		return;
	}
	if (t->n + n > t->cap) {
		size_t cap = MAX2(t->cap * 2, t->n + n + 16);
		char *v = arena_alloc(&t->p->pool, cap);

		if (!v) {
			t->failed = true;
			t->p->trouble = -ENOMEM;
			return;
		}
		if (t->n)
			memcpy(v, t->v, t->n);
		t->v = v;
		t->cap = cap;
	}
	memcpy(t->v + t->n, p, n);
	t->n += n;
}

bool text_value(struct text *t, struct value *ret)
{
	if (t->failed)
		return false;
	*ret = (struct value){ .kind = VALUE_TEXT, .text = { t->v ? t->v : "", t->n } };
	return true;
}

bool value_text(struct pass *p, struct str s, struct value *ret)
{
	(void)p;
	if (s.n > VALUE_MAX)
		return false;
	*ret = (struct value){ .kind = VALUE_TEXT, .text = { s.p ? s.p : "", s.n } };
	return true;
}

bool value_int(int64_t number, struct value *ret)
{
	*ret = (struct value){ .kind = VALUE_INT, .number = number };
	return true;
}

struct str value_as_text(struct pass *p, const struct value *v)
{
	char *s;

	if (v->kind == VALUE_TEXT)
		return v->text;
	s = v->kind == VALUE_INT ? arena_printf(&p->pool, "%" PRId64, v->number) : NULL;
	return s ? str_of(s) : STR("");
}

/* Words that a shell makes of one value (shell.h) read with blanks between them. */
static bool cuts_to_blanks(struct pass *p, struct str *s)
{
	char *copy = arena_dup(&p->pool, s->p, s->n);

	if (!copy) {
		p->trouble = -ENOMEM;
		return false;
	}
	for (size_t i = 0; i < s->n; i++)
		if (copy[i] == 0x1f)
			copy[i] = ' ';
	s->p = copy;
	return true;
}

bool fold_text(struct pass *p, uint32_t node, struct str *ret)
{
	const struct value *v = fold(p, node);

	if (v->kind == VALUE_NONE)
		return false;
	*ret = value_as_text(p, v);
	if (p->g->lang->language == LANGUAGE_SHELL && ret->n && memchr(ret->p, 0x1f, ret->n))
		return cuts_to_blanks(p, ret);
	return true;
}

bool fold_int(struct pass *p, uint32_t node, int64_t *ret)
{
	const struct value *v = fold(p, node);

	if (v->kind != VALUE_INT)
		return false;
	*ret = v->number;
	return true;
}

/* ---- operators ---- */

static bool fold_number(struct pass *p, uint32_t node, struct value *ret)
{
	struct str s = node_text(p, node);
	unsigned base = 10;
	int64_t v = 0;
	size_t i = 0;

	if (s.n > 2 && s.p[0] == '0') {
		char c = (char)(s.p[1] | 0x20);

		base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
		i = base == 10 ? 0 : 2;
	}
	for (; i < s.n; i++) {
		char c = (char)(s.p[i] | 0x20);
		unsigned digit = s.p[i] >= '0' && s.p[i] <= '9'       ? (unsigned)(s.p[i] - '0')
		                 : c >= 'a' && c <= 'f' && base == 16 ? (unsigned)(c - 'a' + 10)
		                                                      : 99;

		if (s.p[i] == '_' || (s.p[i] == 'n' && i + 1 == s.n))
			continue;
		if (digit >= base || v > (INT64_MAX >> 5))
			return value_text(p, s, ret); /* 1.5, 1e3: its own text */
		v = v * base + digit;
	}
	return value_int(v, ret);
}

static bool fold_repeat(struct pass *p, struct str s, int64_t times, struct value *ret)
{
	struct text t = { .p = p };

	if (times > (int64_t)VALUE_MAX || (times > 0 && s.n > VALUE_MAX / (size_t)times))
		return false;
	for (int64_t i = 0; i < times; i++)
		text_put(&t, s.p, s.n);
	return text_value(&t, ret);
}

static bool fold_arithmetic(char op, bool twice, int64_t a, int64_t b, struct value *ret)
{
	int64_t v = 0;

	if (op == '+' && !__builtin_add_overflow(a, b, &v))
		return value_int(v, ret);
	if (op == '-' && !__builtin_sub_overflow(a, b, &v))
		return value_int(v, ret);
	if (op == '*' && !twice && !__builtin_mul_overflow(a, b, &v))
		return value_int(v, ret);
	if ((op == '/' || op == '%') && b > 0 && a >= 0)
		return value_int(op == '/' ? a / b : a % b, ret);
	if (op == '^' || op == '|' || op == '&')
		return value_int(op == '^' ? a ^ b : op == '|' ? a | b : a & b, ret);
	if ((op == '<' || op == '>') && twice && a >= 0 && a < (INT64_C(1) << 32) && b >= 0 &&
	    b < 30)
		return value_int(op == '<' ? a << b : a >> b, ret);
	return false;
}

/* "%s%s" % ("a", "b") */
static bool fold_percent(struct pass *p, struct str format, uint32_t right, struct value *ret)
{
	struct text t = { .p = p };
	struct items items = { 0 };
	uint32_t used = 0;

	if (node_kind(p, right) == K_LIST) {
		if (!fold_list(p, right, &items))
			return false;
	} else if (fold(p, right)->kind == VALUE_NONE || !items_add(p, &items, *fold(p, right))) {
		return false;
	}
	for (size_t i = 0; i < format.n; i++) {
		struct str s;
		char utf8[4];

		if (format.p[i] != '%') {
			text_put(&t, format.p + i, 1);
			continue;
		}
		if (++i == format.n || (format.p[i] != '%' && used == items.n))
			return false;
		s = format.p[i] == '%' ? STR("%") : value_as_text(p, &items.v[used++]);
		if (format.p[i] == 'c' && items.v[used - 1].kind == VALUE_INT)
			s = (struct str){ utf8,
				          utf8_put(utf8, (uint32_t)items.v[used - 1].number) };
		text_put(&t, s.p, s.n);
	}
	return text_value(&t, ret);
}

static bool fold_operator(struct pass *p, struct str op, const struct value *a,
                          const struct value *b, struct value *ret)
{
	struct text t = { .p = p };
	struct str x, y;

	if (a->kind == VALUE_NONE || b->kind == VALUE_NONE || op.n == 0)
		return false;
	if (a->kind == VALUE_INT && b->kind == VALUE_INT)
		return fold_arithmetic(op.p[0], op.n > 1, a->number, b->number, ret);
	if (op.p[0] == '*' && op.n == 1)
		return a->kind == VALUE_INT   ? fold_repeat(p, b->text, a->number, ret)
		       : b->kind == VALUE_INT ? fold_repeat(p, a->text, b->number, ret)
		                              : false;
	if (op.p[0] != '+' || op.n != 1)
		return false;
	x = value_as_text(p, a);
	y = value_as_text(p, b);
	text_put(&t, x.p, x.n);
	text_put(&t, y.p, y.n);
	return text_value(&t, ret);
}

static bool fold_binary(struct pass *p, uint32_t node, struct value *ret)
{
	uint32_t left = node_field(p, node, F_LEFT), right = node_field(p, node, F_RIGHT);
	struct str op = node_text(p, node_field(p, node, F_OPERATOR));
	const struct value *a = fold(p, left);

	if (a->kind == VALUE_TEXT && str_is(op, "%"))
		return fold_percent(p, a->text, right, ret);
	return a->kind != VALUE_NONE && fold_operator(p, op, a, fold(p, right), ret);
}

static bool fold_unary(struct pass *p, uint32_t node, struct value *ret)
{
	struct str op = node_text(p, node_field(p, node, F_OPERATOR));
	int64_t v;

	if (!fold_int(p, node_field(p, node, F_ARGUMENT), &v))
		return false;
	if (str_is(op, "-"))
		return value_int(-v, ret);
	if (str_is(op, "~"))
		return value_int(~v, ret);
	return str_is(op, "+") && value_int(v, ret);
}

/* ---- parts ---- */

struct range {
	int64_t from, to, step;
};

/* Python's a:b:c over n elements. */
static bool fold_slice(struct pass *p, uint32_t slice, int64_t n, struct range *ret)
{
	int64_t part[3] = { 0 };
	bool given[3] = { false };
	int at = 0;

	for (uint32_t c = node_at(p, slice)->first; c != NO_NODE; c = node_at(p, c)->next) {
		if (str_is(node_text(p, c), ":")) {
			if (++at > 2)
				return false;
		} else if (node_at(p, c)->named && node_at(p, c)->kind != K_COMMENT) {
			if (!fold_int(p, c, &part[at]))
				return false;
			given[at] = true;
		}
	}
	ret->step = given[2] ? part[2] : 1;
	if (ret->step == 0 || ret->step > n + 1 || ret->step < -n - 1)
		return false;
	for (int i = 0; i < 2; i++)
		part[i] = part[i] < 0 ? part[i] + n : part[i];
	ret->from = given[0] ? part[0] : ret->step > 0 ? 0 : n - 1;
	ret->to = given[1] ? part[1] : ret->step > 0 ? n : -1;
	if (ret->step > 0 ? ret->from < 0 : ret->from >= n)
		ret->from = ret->step > 0 ? 0 : n - 1;
	if (ret->step > 0 && ret->to > n)
		ret->to = n;
	return true;
}

static bool slice_text(struct pass *p, struct str s, uint32_t slice, struct value *ret)
{
	struct text t = { .p = p };
	struct range r;

	if (!fold_slice(p, slice, (int64_t)s.n, &r))
		return false;
	for (int64_t i = r.from; (r.step > 0 ? i < r.to : i > r.to) && i >= 0 && i < (int64_t)s.n;
	     i += r.step)
		text_put(&t, s.p + i, 1);
	return text_value(&t, ret);
}

static bool fold_index(struct pass *p, uint32_t node, struct value *ret)
{
	uint32_t index = node_field(p, node, F_INDEX), object = node_field(p, node, F_OBJECT);
	uint32_t table;
	const struct value *v;
	struct items items;
	struct str key;
	int64_t i;

	if (object == NO_NODE)
		object = node_field(p, node, F_VALUE);
	table = table_of(p, object);
	if (table != NO_NODE && index != NO_NODE && fold_text(p, index, &key)) {
		uint32_t entry = table_entry(p, table, key);

		if (entry != NO_NODE) {
			*ret = *fold(p, entry);
			return ret->kind != VALUE_NONE;
		}
	}
	v = fold(p, object);
	if (v->kind == VALUE_TEXT && node_kind(p, index) == K_SLICE)
		return slice_text(p, v->text, index, ret);
	if (index == NO_NODE || !fold_int(p, index, &i))
		return false;
	if (v->kind == VALUE_TEXT) {
		i = i < 0 ? i + (int64_t)v->text.n : i;
		return i >= 0 && i < (int64_t)v->text.n &&
		       value_text(p, (struct str){ v->text.p + i, 1 }, ret);
	}
	if (!fold_list(p, object, &items))
		return false;
	i = i < 0 ? i + items.n : i;
	if (i < 0 || i >= items.n)
		return false;
	*ret = items.v[i];
	return true;
}

/* A name that was given one value, and perhaps more behind it. */
static bool fold_ident(struct pass *p, uint32_t node, struct value *ret)
{
	struct name name = name_make(p, text_identifier(p, node_text(p, node)));
	const struct binding *b = binding_first(p, name);
	uint32_t more[16], n = 0;

	if (p->loop.n && p->loop.hash == name.hash && p->loop.n == name.n &&
	    memcmp(p->loop.p, name.p, name.n) == 0) {
		*ret = p->loop_value;
		return true;
	}
	for (; b && b->append && n < ELEMENTSOF(more); b = binding_next(p, b))
		more[n++] = b->value;
	if (!b || b->next != NO_NODE || b->append || b->value == NO_NODE)
		return false;
	if (b->element || b->path.n) {
		uint32_t table = table_of(p, b->value), entry = NO_NODE;

		if (table != NO_NODE && b->path.n)
			entry = table_entry(p, table, (struct str){ b->path.p, b->path.n });
		*ret = *fold(p, entry);
		return ret->kind != VALUE_NONE;
	}
	*ret = *fold(p, b->value);
	while (n-- && ret->kind != VALUE_NONE) {
		struct value left = *ret;

		if (!fold_operator(p, STR("+"), &left, fold(p, more[n]), ret))
			return false;
	}
	return ret->kind != VALUE_NONE;
}

static bool fold_strings(struct pass *p, uint32_t node, struct value *ret)
{
	struct text t = { .p = p };

	for (uint32_t c = node_named(p, node, 0); c != NO_NODE;
	     c = node_skip(p, node_at(p, c)->next)) {
		struct str s;

		if (!fold_text(p, c, &s))
			return false;
		text_put(&t, s.p, s.n);
	}
	return text_value(&t, ret);
}

static bool fold_kind(struct pass *p, uint32_t node, struct value *ret)
{
	uint32_t other;

	switch ((int)node_kind(p, node)) {
	case K_NUMBER:
		return fold_number(p, node, ret);
	case K_LITERAL:
		return value_text(p, node_text(p, node), ret);
	case K_STRINGS:
		return fold_strings(p, node, ret);
	case K_WRAP:
		*ret = *fold(p, node_named(p, node, 0));
		return ret->kind != VALUE_NONE;
	case K_LAST:
		*ret = *fold(p, node_last(p, node));
		return ret->kind != VALUE_NONE;
	case K_ASSIGN:
		other = node_field(p, node, F_RIGHT);
		*ret = *fold(p, other != NO_NODE ? other : node_field(p, node, F_VALUE));
		return ret->kind != VALUE_NONE;
	case K_IDENT:
		return fold_ident(p, node, ret);
	case K_BINARY:
		return fold_binary(p, node, ret);
	case K_UNARY:
		return fold_unary(p, node, ret);
	case K_INDEX:
		return fold_index(p, node, ret);
	case K_CALL:
	case K_NEW:
		return fold_call(p, node, ret);
	default:
		return p->g->lang->literal(p, node, ret);
	}
}

/* A comprehension's body has another value each time and is not kept. */
const struct value *fold(struct pass *p, uint32_t node) // NOLINT(misc-no-recursion)
{
	struct fact *f = node == NO_NODE ? NULL : &p->facts[node];
	struct value v = { 0 };
	struct value *kept;

	if (!f || p->trouble || f->folding)
		return &no_value;
	if (f->value && !p->loop.n)
		return f->value;
	if (p->depth >= RESOLVE_DEPTH)
		return &no_value;
	f->folding = true;
	p->depth++;
	if (!fold_kind(p, node, &v))
		v = (struct value){ 0 };
	p->depth--;
	f->folding = false;
	kept = arena_alloc(&p->pool, sizeof(*kept));
	if (!kept) {
		p->trouble = -ENOMEM;
		return &no_value;
	}
	*kept = v;
	if (!p->loop.n)
		f->value = kept;
	return kept;
}
