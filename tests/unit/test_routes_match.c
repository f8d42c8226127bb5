/* SPDX-License-Identifier: Apache-2.0 */
/* A path has one form; everything else is no route, whoever asks. The table here is the test's own.
 */
#include <criterion/criterion.h>

#include "api/routes.h"
#include "base/str.h"

#define ROUTE(m, p)                                                                                \
	{                                                                                          \
		.method = (m), .path = (p), .id = (m " " p)                                        \
	}

/* {id} stands between "new" and "ws": the order of the table must not matter. */
const struct route routes[] = {
	ROUTE("POST", "/execute"),
	ROUTE("GET", "/things"),
	ROUTE("GET", "/things/new"),
	ROUTE("GET", "/things/{id}"),
	ROUTE("POST", "/things/{id}"),
	ROUTE("DELETE", "/things/{id}"),
	ROUTE("GET", "/things/ws"),
	ROUTE("GET", "/things/{id}/output"),
	ROUTE("GET", "/things/{id}/parts/{part}"),
	ROUTE("GET", "/things/{id}/parts/{part}/{piece}"),
	ROUTE("GET", "/openapi.json"),
};
const size_t routes_n = ELEMENTSOF(routes);

static const char *found(const char *method, const char *path)
{
	struct route_match m;

	route_find(method, path, &m);
	return m.route ? m.route->id : "none";
}

static void expect_none(const char *path)
{
	static const char *const methods[] = { "GET", "POST", "DELETE", "HEAD" };
	struct route_match m;

	for (size_t i = 0; i < ELEMENTSOF(methods); i++) {
		route_find(methods[i], path, &m);
		cr_expect(m.route == NULL, "%s %s is %s", methods[i], path,
		          m.route ? m.route->id : "");
		cr_expect_str_eq(m.allow, "", "%s", path);
	}
}

Test(routes_match, a_plain_path_is_found)
{
	cr_expect_str_eq(found("POST", "/api/v1/execute"), "POST /execute");
	cr_expect_str_eq(found("GET", "/api/v1/things"), "GET /things");
	cr_expect_str_eq(found("GET", "/api/v1/openapi.json"), "GET /openapi.json");
}

Test(routes_match, the_method_chooses_among_routes_of_a_path)
{
	cr_expect_str_eq(found("GET", "/api/v1/things/a"), "GET /things/{id}");
	cr_expect_str_eq(found("POST", "/api/v1/things/a"), "POST /things/{id}");
	cr_expect_str_eq(found("DELETE", "/api/v1/things/a"), "DELETE /things/{id}");
}

Test(routes_match, arguments_are_handed_over_in_order)
{
	struct route_match m;

	route_find("GET", "/api/v1/things/a.b_c~d-E9/parts/x", &m);
	cr_assert(m.route != NULL);
	cr_expect_str_eq(m.args[0], "a.b_c~d-E9");
	cr_expect_str_eq(m.args[1], "x");
}

Test(routes_match, a_route_without_arguments_leaves_none)
{
	struct route_match m;

	memset(&m, 'x', sizeof(m));
	route_find("POST", "/api/v1/execute", &m);
	cr_expect_str_eq(m.args[0], "");
	cr_expect_str_eq(m.args[1], "");
	cr_expect_str_eq(m.allow, "");
}

Test(routes_match, a_written_word_comes_before_an_argument)
{
	struct route_match m;

	route_find("GET", "/api/v1/things/ws", &m);
	cr_assert(m.route != NULL);
	cr_expect_str_eq(m.route->id, "GET /things/ws");
	cr_expect_str_eq(m.args[0], "");
	cr_expect_str_eq(found("GET", "/api/v1/things/new"), "GET /things/new");
}

Test(routes_match, a_written_word_is_no_argument_for_other_methods_either)
{
	struct route_match m;

	route_find("DELETE", "/api/v1/things/ws", &m);
	cr_expect(m.route == NULL);
	cr_expect_str_eq(m.allow, "GET");
}

Test(routes_match, a_wrong_method_is_told_the_right_ones)
{
	struct route_match m;

	route_find("PUT", "/api/v1/things/a", &m);
	cr_expect(m.route == NULL);
	cr_expect_str_eq(m.allow, "GET, POST, DELETE");
}

Test(routes_match, a_right_method_is_told_no_others)
{
	struct route_match m;

	route_find("DELETE", "/api/v1/things/a", &m);
	cr_expect(m.route != NULL);
	cr_expect_str_eq(m.allow, "");
}

Test(routes_match, methods_that_no_route_has_are_refused)
{
	static const char *const methods[] = { "HEAD",  "OPTIONS", "TRACE", "CONNECT",
		                               "PATCH", "get",     "Get",   "GET ",
		                               "",      "GETGET",  "GE" };

	for (size_t i = 0; i < ELEMENTSOF(methods); i++) {
		struct route_match m;

		route_find(methods[i], "/api/v1/things", &m);
		cr_expect(m.route == NULL, "%s", methods[i]);
		cr_expect_str_eq(m.allow, "GET", "%s", methods[i]);
	}
}

Test(routes_match, empty_parts_are_no_route)
{
	expect_none("//api/v1/things");
	expect_none("/api//v1/things");
	expect_none("/api/v1//things");
	expect_none("/api/v1/things//a");
	expect_none("/api/v1/things/a//output");
	expect_none("/api/v1/things//");
}

Test(routes_match, a_trailing_slash_is_no_route)
{
	expect_none("/api/v1/things/");
	expect_none("/api/v1/things/a/");
	expect_none("/api/v1/execute/");
	expect_none("/api/v1/");
}

Test(routes_match, dot_parts_are_no_route)
{
	expect_none("/api/v1/./things");
	expect_none("/api/v1/things/.");
	expect_none("/api/v1/things/..");
	expect_none("/api/v1/things/../execute");
	expect_none("/api/v1/x/../things");
	expect_none("/./api/v1/things");
	expect_none("/../api/v1/things");
	expect_none("/api/v1/things/./output");
	expect_none("/api/v1/things/../output");
}

Test(routes_match, dots_inside_a_part_are_letters)
{
	cr_expect_str_eq(found("GET", "/api/v1/things/..."), "GET /things/{id}");
	cr_expect_str_eq(found("GET", "/api/v1/things/.a"), "GET /things/{id}");
	cr_expect_str_eq(found("GET", "/api/v1/things/a..b"), "GET /things/{id}");
}

Test(routes_match, nothing_is_decoded)
{
	expect_none("/api/v1/%74hings");
	expect_none("/api/v1/things%2fa");
	expect_none("/api/v1%2Fthings");
	expect_none("/api/v1/things/%2e%2e");
	expect_none("/api/v1/things/a%00");
	expect_none("/api/v1/things/%");
}

Test(routes_match, other_characters_are_no_route)
{
	char path[] = "/api/v1/things/a?";

	for (int c = 1; c < 256; c++) {
		bool fine = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
		            (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '~' || c == '-';

		if (c == '/')
			continue;
		path[sizeof(path) - 2] = (char)c;
		cr_expect_eq(streq(found("GET", path), "GET /things/{id}"), fine, "byte %d", c);
	}
}

Test(routes_match, a_semicolon_a_query_and_a_fragment_are_no_route)
{
	expect_none("/api/v1/things;a=b");
	expect_none("/api/v1/things/a;/output");
	expect_none("/api/v1/things?x");
	expect_none("/api/v1/things#x");
	expect_none("/api/v1\\things");
	expect_none("http://localhost/api/v1/things");
	expect_none("*");
}

Test(routes_match, case_matters)
{
	expect_none("/API/v1/things");
	expect_none("/api/V1/things");
	expect_none("/api/v1/Things");
}

Test(routes_match, the_prefix_is_whole)
{
	expect_none("");
	expect_none("/");
	expect_none("/things");
	expect_none("/api/v1");
	expect_none("/api/v1things");
	expect_none("/api/v11/things");
	expect_none("/api/things");
	expect_none("api/v1/things");
}

Test(routes_match, more_or_fewer_parts_are_no_route)
{
	expect_none("/api/v1/execute/a");
	expect_none("/api/v1/things/a/b");
	expect_none("/api/v1/things/a/output/b");
	expect_none("/api/v1/things/a/parts");
	expect_none("/api/v1/thing");
	expect_none("/api/v1/thingss");
}

Test(routes_match, an_argument_has_a_bound)
{
	char path[sizeof("/api/v1/things/") + ROUTE_ARG_SIZE] = "/api/v1/things/";
	size_t n = strlen(path);
	struct route_match m;

	memset(path + n, 'a', ROUTE_ARG_SIZE - 1);
	route_find("GET", path, &m);
	cr_assert(m.route != NULL);
	cr_expect_eq(strlen(m.args[0]), ROUTE_ARG_SIZE - 1);
	path[n + ROUTE_ARG_SIZE - 1] = 'a';
	expect_none(path);
}

Test(routes_match, more_arguments_than_there_is_room_for_are_no_route)
{
	expect_none("/api/v1/things/a/parts/b/c");
}

Test(routes_match, braces_of_the_table_are_not_a_path)
{
	expect_none("/api/v1/things/{id}");
}

Test(routes_match, a_long_path_is_no_route)
{
	static char path[100000];

	memset(path, 'a', sizeof(path) - 1);
	memcpy(path, "/api/v1/", 8);
	expect_none(path);
	for (size_t i = 8; i < sizeof(path) - 2; i += 2)
		path[i] = '/', path[i + 1] = 'a';
	expect_none(path);
}
