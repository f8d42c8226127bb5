/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of a text whose result is known when the text and the arguments are. */
#include "risk/impl.h"

static bool method_same(struct pass *p, uint32_t call, struct value *ret)
{
	struct str s;

	return call_receiver_text(p, call, &s) && value_text(p, s, ret);
}

/* (568).toString(36) is "fs" */
static bool method_digits(struct pass *p, uint32_t call, struct value *ret)
{
	uint32_t radix = call_arg(p, call, 0);
	int64_t v, base = 10;
	char digits[64];
	size_t n = sizeof(digits);
	char *copy;

	if (radix == NO_NODE || !fold_int(p, call_receiver(p, call), &v))
		return radix == NO_NODE && method_same(p, call, ret);
	if (!fold_int(p, radix, &base) || base < 2 || base > 36 || v < 0)
		return false;
	do {
		digits[--n] = "0123456789abcdefghijklmnopqrstuvwxyz"[v % base];
		v /= base;
	} while (v);
	copy = arena_dup(&p->pool, digits + n, sizeof(digits) - n);
	return copy && value_text(p, (struct str){ copy, sizeof(digits) - n }, ret);
}

/* b"...".decode("rot13") and the like */
static bool method_decode(struct pass *p, uint32_t call, struct value *ret)
{
	struct str s, how = STR("utf-8");

	if (!call_receiver_text(p, call, &s))
		return false;
	(void)call_arg_text(p, call, 0, &how);
	return fold_decode(p, s, how, ret);
}

static bool map_case(struct pass *p, uint32_t call, char from, char to, struct value *ret)
{
	struct text t = { .p = p };
	struct str s;

	if (!call_receiver_text(p, call, &s))
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c >= from && c <= to)
			c = (char)(c ^ 0x20);
		text_put(&t, &c, 1);
	}
	return text_value(&t, ret);
}

static bool method_lower(struct pass *p, uint32_t call, struct value *ret)
{
	return map_case(p, call, 'A', 'Z', ret);
}

static bool method_upper(struct pass *p, uint32_t call, struct value *ret)
{
	return map_case(p, call, 'a', 'z', ret);
}

static bool method_swap(struct pass *p, uint32_t call, struct value *ret)
{
	struct text t = { .p = p };
	struct str s;

	if (!call_receiver_text(p, call, &s))
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i], low = (char)(c | 0x20);

		if (low >= 'a' && low <= 'z')
			c = (char)(c ^ 0x20);
		text_put(&t, &c, 1);
	}
	return text_value(&t, ret);
}

static bool method_strip(struct pass *p, uint32_t call, struct value *ret)
{
	struct str s, set = STR(" \t\r\n");

	if (!call_receiver_text(p, call, &s))
		return false;
	(void)call_arg_text(p, call, 0, &set);
	while (s.n && memchr(set.p, s.p[0], set.n)) {
		s.p++;
		s.n--;
	}
	while (s.n && memchr(set.p, s.p[s.n - 1], set.n))
		s.n--;
	return value_text(p, s, ret);
}

static bool method_replace(struct pass *p, uint32_t call, struct value *ret)
{
	struct text t = { .p = p };
	struct str s, from, to;

	if (!call_receiver_text(p, call, &s) || !call_arg_text(p, call, 0, &from) ||
	    !call_arg_text(p, call, 1, &to) || from.n == 0)
		return false;
	for (size_t i = 0; i < s.n;) {
		if (i + from.n <= s.n && memcmp(s.p + i, from.p, from.n) == 0) {
			text_put(&t, to.p, to.n);
			i += from.n;
		} else {
			text_put(&t, s.p + i++, 1);
		}
	}
	return text_value(&t, ret);
}

/* sep.join(list) in Python, list.join(sep) in JavaScript */
static bool method_join(struct pass *p, uint32_t call, struct value *ret)
{
	bool python = p->g->lang->language == LANGUAGE_PYTHON;
	struct text t = { .p = p };
	struct items items = { 0 };
	struct str sep = STR(",");

	if (python ? !call_receiver_text(p, call, &sep)
	           : call_arg(p, call, 0) != NO_NODE && !call_arg_text(p, call, 0, &sep))
		return false;
	if (!fold_list(p, python ? call_arg(p, call, 0) : call_receiver(p, call), &items))
		return false;
	for (uint32_t i = 0; i < items.n; i++) {
		struct str s = value_as_text(p, &items.v[i]);

		if (i)
			text_put(&t, sep.p, sep.n);
		text_put(&t, s.p, s.n);
	}
	return text_value(&t, ret);
}

static bool method_concat(struct pass *p, uint32_t call, struct value *ret)
{
	struct text t = { .p = p };
	struct str s;

	if (!call_receiver_text(p, call, &s))
		return false;
	text_put(&t, s.p, s.n);
	for (uint32_t i = 0; i < 64 && call_arg(p, call, i) != NO_NODE; i++) {
		if (!call_arg_text(p, call, i, &s))
			return false;
		text_put(&t, s.p, s.n);
	}
	return text_value(&t, ret);
}

/* "{}{1}{}".format(a, b) */
static bool method_format(struct pass *p, uint32_t call, struct value *ret)
{
	struct text t = { .p = p };
	uint32_t next = 0;
	struct str s, part;

	if (!call_receiver_text(p, call, &s))
		return false;
	for (size_t i = 0; i < s.n; i++) {
		uint32_t nth = 0;

		if (s.p[i] != '{' || (i + 1 < s.n && s.p[i + 1] == '{')) {
			i += s.p[i] == '{' || (s.p[i] == '}' && i + 1 < s.n && s.p[i + 1] == '}');
			text_put(&t, s.p + i, 1);
			continue;
		}
		for (i++; i < s.n && s.p[i] >= '0' && s.p[i] <= '9' && nth < 100; i++)
			nth = nth * 10 + (uint32_t)(s.p[i] - '0');
		if (i == s.n || s.p[i] != '}')
			return false;
		if (!call_arg_text(p, call, s.p[i - 1] == '{' ? next++ : nth, &part))
			return false;
		text_put(&t, part.p, part.n);
	}
	return text_value(&t, ret);
}

static bool take_part(struct pass *p, uint32_t call, bool length, struct value *ret)
{
	uint32_t second = call_arg(p, call, 1);
	int64_t from, to;
	struct str s;

	if (!call_receiver_text(p, call, &s) || !fold_int(p, call_arg(p, call, 0), &from))
		return false;
	to = (int64_t)s.n;
	if (second != NO_NODE && !fold_int(p, second, &to))
		return false;
	from = from < 0 ? from + (int64_t)s.n : from;
	to = length && second != NO_NODE ? from + to : to < 0 ? to + (int64_t)s.n : to;
	to = MIN2(to, (int64_t)s.n);
	if (from < 0 || from > to)
		return false;
	return value_text(p, (struct str){ s.p + from, (size_t)(to - from) }, ret);
}

static bool method_slice(struct pass *p, uint32_t call, struct value *ret)
{
	return take_part(p, call, false, ret);
}

static bool method_substr(struct pass *p, uint32_t call, struct value *ret)
{
	return take_part(p, call, true, ret);
}

static bool method_at(struct pass *p, uint32_t call, struct value *ret)
{
	struct str s;
	int64_t i;

	return call_receiver_text(p, call, &s) && fold_int(p, call_arg(p, call, 0), &i) && i >= 0 &&
	       i < (int64_t)s.n && value_text(p, (struct str){ s.p + i, 1 }, ret);
}

static const struct fold_row methods[] = {
	{ "join", method_join },
	{ "replace", method_replace },
	{ "replaceAll", method_replace },
	{ "lower", method_lower },
	{ "toLowerCase", method_lower },
	{ "casefold", method_lower },
	{ "upper", method_upper },
	{ "toUpperCase", method_upper },
	{ "swapcase", method_swap },
	{ "strip", method_strip },
	{ "trim", method_strip },
	{ "decode", method_decode },
	{ "encode", method_decode },
	{ "toString", method_digits },
	{ "concat", method_concat },
	{ "format", method_format },
	{ "slice", method_slice },
	{ "substring", method_slice },
	{ "substr", method_substr },
	{ "charAt", method_at },
	{ "at", method_at },
	{ "normalize", method_same },
};

bool fold_method(struct pass *p, uint32_t call, struct str name, struct value *ret)
{
	for (size_t i = 0; i < ELEMENTSOF(methods); i++)
		if (str_is(name, methods[i].name) && methods[i].run(p, call, ret))
			return true;
	return false;
}
