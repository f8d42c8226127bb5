/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls whose result on constants is known: the tools of those who spell "system" in pieces. The
 * tables serve both Python and JavaScript; where both have a name, it means the same.
 */
#include "risk/impl.h"

uint32_t call_arg(const struct pass *p, uint32_t call, uint32_t nth)
{
	uint32_t list = node_field(p, call, F_ARGUMENTS), callee = node_field(p, call, F_FUNCTION);

	if (node_kind(p, list) == K_TEMPLATE) /* f`text` */
		return nth == 0 ? list : NO_NODE;
	if (node_kind(p, list) == K_COMPREHEND) /* f(x for x in y) */
		return nth == 0 ? list : NO_NODE;
	if (p->g->lang->language == LANGUAGE_JAVASCRIPT && node_kind(p, callee) == K_ATTR) {
		struct str how = node_text(p, node_field(p, callee, F_ATTR));
		uint32_t second = node_named(p, list, 1);

		if (str_is(how, "call")) /* f.call(this, a) */
			nth++;
		else if (str_is(how, "apply") && node_kind(p, second) == K_LIST)
			list = second; /* f.apply(this, [a]) */
	}
	for (uint32_t a = node_named(p, list, 0); a != NO_NODE;
	     a = node_skip(p, node_at(p, a)->next)) {
		if (node_kind(p, a) == K_KEYWORD)
			continue;
		if (nth-- == 0)
			return a;
		if (node_kind(p, a) == K_SPLAT)
			return a;
	}
	return NO_NODE;
}

bool call_arg_text(struct pass *p, uint32_t call, uint32_t nth, struct str *ret)
{
	uint32_t a = call_arg(p, call, nth);

	return a != NO_NODE && node_kind(p, a) != K_SPLAT && fold_text(p, a, ret);
}

uint32_t call_receiver(const struct pass *p, uint32_t call)
{
	uint32_t callee = node_field(p, call, F_FUNCTION);
	uint32_t object = node_field(p, callee, F_OBJECT);

	return object != NO_NODE ? object : node_field(p, callee, F_VALUE);
}

bool call_receiver_text(struct pass *p, uint32_t call, struct str *ret)
{
	uint32_t object = call_receiver(p, call);

	return object != NO_NODE && fold_text(p, object, ret);
}

/* ---- functions ---- */

static bool call_chr(struct pass *p, uint32_t call, struct value *ret)
{
	struct text t = { .p = p };
	struct items items = { 0 };
	uint32_t first = call_arg(p, call, 0);

	if (first == NO_NODE)
		return false;
	if (node_kind(p, first) == K_SPLAT) {
		if (!fold_list(p, node_named(p, first, 0), &items))
			return false;
	} else {
		for (uint32_t i = 0, a; (a = call_arg(p, call, i)) != NO_NODE && i < 256; i++) {
			const struct value *v = fold(p, a);

			if (v->kind == VALUE_NONE || !items_add(p, &items, *v))
				return false;
		}
	}
	for (uint32_t i = 0; i < items.n; i++) {
		char utf8[4];

		if (items.v[i].kind != VALUE_INT || items.v[i].number < 0 ||
		    items.v[i].number > 0x10ffff)
			return false;
		text_put(&t, utf8, utf8_put(utf8, (uint32_t)items.v[i].number));
	}
	return text_value(&t, ret);
}

/* bytes([101, 118]), bytearray((...)), str("x"), Buffer.from("x") */
static bool call_same(struct pass *p, uint32_t call, struct value *ret)
{
	uint32_t first = call_arg(p, call, 0);
	struct text t = { .p = p };
	struct items items = { 0 };
	struct str s;

	if (first == NO_NODE)
		return false;
	if (fold_text(p, first, &s))
		return value_text(p, s, ret);
	if (!fold_list(p, first, &items))
		return false;
	for (uint32_t i = 0; i < items.n; i++) {
		char c = (char)items.v[i].number;

		if (items.v[i].kind != VALUE_INT || items.v[i].number < 0 ||
		    items.v[i].number > 255)
			return false;
		text_put(&t, &c, 1);
	}
	return text_value(&t, ret);
}

static bool call_base64(struct pass *p, uint32_t call, struct value *ret)
{
	struct text t = { .p = p };
	struct str s;

	return call_arg_text(p, call, 0, &s) && decode_base64(&t, s) && text_value(&t, ret);
}

static bool call_hex(struct pass *p, uint32_t call, struct value *ret)
{
	struct text t = { .p = p };
	struct str s;

	return call_arg_text(p, call, 0, &s) && decode_hex(&t, s) && text_value(&t, ret);
}

bool fold_decode(struct pass *p, struct str s, struct str how, struct value *ret)
{
	struct text t = { .p = p };

	if (str_is(how, "rot13") || str_is(how, "rot_13") || str_is(how, "rot-13"))
		decode_rot13(&t, s);
	else if (str_is(how, "hex") || str_is(how, "hex_codec")) {
		if (!decode_hex(&t, s))
			return false;
	} else if (str_is(how, "base64") || str_is(how, "base64_codec") ||
	           str_is(how, "base64url")) {
		if (!decode_base64(&t, s))
			return false;
	} else {
		return value_text(p, s, ret);
	}
	return text_value(&t, ret);
}

/* codecs.decode(text, "rot13"), Buffer.from(text, "base64") */
static bool call_decode(struct pass *p, uint32_t call, struct value *ret)
{
	struct str s, how = STR("utf-8");

	if (!call_arg_text(p, call, 0, &s))
		return call_same(p, call, ret);
	if (call_arg(p, call, 1) != NO_NODE && !call_arg_text(p, call, 1, &how))
		return false;
	return fold_decode(p, s, how, ret);
}

/* decodeURIComponent("%65"), unescape(...) */
static bool call_percent(struct pass *p, uint32_t call, struct value *ret)
{
	struct text t = { .p = p };
	struct str s;

	if (!call_arg_text(p, call, 0, &s))
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '%' && i + 2 < s.n && decode_hex(&t, (struct str){ s.p + i + 1, 2 }))
			i += 2;
		else
			text_put(&t, s.p + i, 1);
	}
	return text_value(&t, ret);
}

static bool call_ord(struct pass *p, uint32_t call, struct value *ret)
{
	struct str s;

	return call_arg_text(p, call, 0, &s) && s.n == 1 && value_int((uint8_t)s.p[0], ret);
}

static bool call_len(struct pass *p, uint32_t call, struct value *ret)
{
	struct str s;

	return call_arg_text(p, call, 0, &s) && value_int((int64_t)s.n, ret);
}

static bool call_int(struct pass *p, uint32_t call, struct value *ret)
{
	int64_t base = 10, v = 0;
	uint32_t second = call_arg(p, call, 1);
	struct str s;

	if (!call_arg_text(p, call, 0, &s) || s.n > 12 || s.n == 0)
		return false;
	if (second != NO_NODE && (!fold_int(p, second, &base) || base < 2 || base > 16))
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = (char)(s.p[i] | 0x20);
		int d = s.p[i] >= '0' && s.p[i] <= '9' ? s.p[i] - '0'
		        : c >= 'a' && c <= 'f'         ? c - 'a' + 10
		                                       : 99;

		if (d >= base)
			return false;
		v = v * base + d;
	}
	return value_int(v, ret);
}

static const struct fold_row functions[] = {
	{ "chr", call_chr },
	{ "String.fromCharCode", call_chr },
	{ "String.fromCodePoint", call_chr },
	{ "bytes", call_same },
	{ "bytearray", call_same },
	{ "str", call_decode },
	{ "String", call_same },
	{ "base64.b64decode", call_base64 },
	{ "base64.urlsafe_b64decode", call_base64 },
	{ "base64.standard_b64decode", call_base64 },
	{ "base64.decodebytes", call_base64 },
	{ "base64.b16decode", call_hex },
	{ "binascii.a2b_base64", call_base64 },
	{ "binascii.unhexlify", call_hex },
	{ "binascii.a2b_hex", call_hex },
	{ "bytes.fromhex", call_hex },
	{ "bytearray.fromhex", call_hex },
	{ "codecs.decode", call_decode },
	{ "codecs.encode", call_decode },
	{ "Buffer.from", call_decode },
	{ "buffer.Buffer.from", call_decode },
	{ "atob", call_base64 },
	{ "decodeURIComponent", call_percent },
	{ "decodeURI", call_percent },
	{ "unescape", call_percent },
	{ "urllib.parse.unquote", call_percent },
	{ "ord", call_ord },
	{ "len", call_len },
	{ "int", call_int },
	{ "parseInt", call_int },
};

bool fold_call(struct pass *p, uint32_t call, struct value *ret)
{
	uint32_t callee = node_field(p, call, F_FUNCTION);
	const struct names *names;

	if (node_kind(p, callee) == K_ATTR || node_kind(p, callee) == K_INDEX) {
		struct str method = node_text(p, node_field(p, callee, F_ATTR));

		if (node_kind(p, callee) == K_INDEX &&
		    !fold_text(p, node_field(p, callee, F_INDEX), &method))
			method = STR("");
		if (fold_method(p, call, method, ret))
			return true;
	}
	names = callee == NO_NODE ? NULL : resolve(p, callee);
	for (uint32_t n = 0; names && n < names->n; n++)
		for (size_t i = 0; i < ELEMENTSOF(functions); i++)
			if (str_is((struct str){ names->v[n].p, names->v[n].n }, functions[i].name))
				return functions[i].run(p, call, ret);
	return false;
}

/* ---- lists ---- */

static bool list_reversed(struct pass *p, uint32_t of, struct items *ret)
{
	struct items in = { 0 };

	if (!fold_list(p, of, &in))
		return false;
	for (uint32_t i = in.n; i > 0; i--)
		if (!items_add(p, ret, in.v[i - 1]))
			return false;
	return true;
}

static bool list_split(struct pass *p, uint32_t call, struct items *ret)
{
	struct str s, sep = STR(" ");
	size_t from = 0;

	if (!call_receiver_text(p, call, &s) ||
	    (call_arg(p, call, 0) != NO_NODE && !call_arg_text(p, call, 0, &sep)))
		return false;
	if (sep.n == 0)
		return fold_list(p, call_receiver(p, call), ret);
	for (size_t i = 0; i <= s.n; i++) {
		bool end = i == s.n, cut = i + sep.n <= s.n && memcmp(s.p + i, sep.p, sep.n) == 0;
		struct value v;

		if (!end && !cut)
			continue;
		if (!value_text(p, (struct str){ s.p + from, i - from }, &v) ||
		    !items_add(p, ret, v))
			return false;
		i += cut ? sep.n - 1 : 0;
		from = i + 1;
	}
	return true;
}

/* map(chr, list) and list.map(x => ...) */
static bool list_map(struct pass *p, uint32_t fn, uint32_t over, struct items *ret)
{
	const struct names *names = resolve(p, fn);
	struct items in = { 0 };

	if (!fold_list(p, over, &in))
		return false;
	if (node_kind(p, fn) == K_FUNCTION) {
		uint32_t variable = node_field(p, fn, F_ARGUMENT);
		uint32_t body = node_field(p, fn, F_BODY);

		if (node_kind(p, variable) != K_IDENT)
			variable = node_named(p, variable, 0);
		return fold_with(p, variable, body, &in, ret);
	}
	if (names->n == 0 ||
	    (!str_is((struct str){ names->v[0].p, names->v[0].n }, "chr") &&
	     !str_is((struct str){ names->v[0].p, names->v[0].n }, "String.fromCharCode")))
		return false;
	for (uint32_t i = 0; i < in.n; i++) {
		char *utf8 = arena_alloc(&p->pool, 8);
		struct value v;

		if (!utf8 || in.v[i].kind != VALUE_INT || in.v[i].number < 0 ||
		    in.v[i].number > 0x10ffff ||
		    !value_text(p, (struct str){ utf8, utf8_put(utf8, (uint32_t)in.v[i].number) },
		                &v) ||
		    !items_add(p, ret, v))
			return false;
	}
	return true;
}

bool fold_call_list(struct pass *p, uint32_t call, struct items *ret)
{
	uint32_t callee = node_field(p, call, F_FUNCTION), first = call_arg(p, call, 0);
	struct str name = node_text(p, callee);

	if (node_kind(p, callee) == K_ATTR) {
		name = node_text(p, node_field(p, callee, F_ATTR));
		if (str_is(name, "split"))
			return list_split(p, call, ret);
		if (str_is(name, "reverse") || str_is(name, "toReversed"))
			return list_reversed(p, call_receiver(p, call), ret);
		if (str_is(name, "map") && first != NO_NODE)
			return list_map(p, first, call_receiver(p, call), ret);
		if (str_is(name, "from") && first != NO_NODE)
			return fold_list(p, first, ret);
		return false;
	}
	if (first == NO_NODE)
		return false;
	if (str_is(name, "reversed"))
		return list_reversed(p, first, ret);
	if (str_is(name, "list") || str_is(name, "tuple") || str_is(name, "iter"))
		return fold_list(p, first, ret);
	if (str_is(name, "map"))
		return list_map(p, first, call_arg(p, call, 1), ret);
	return false;
}
