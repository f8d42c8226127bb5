/* SPDX-License-Identifier: Apache-2.0 */
/* From method and path to a route. A path has one form: what is not written in it is no route. */
#include <stdio.h>

#include "api/routes.h"
#include "base/str.h"

#define PATH_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~/-"

static bool is_dots(const char *part, size_t n)
{
	return n <= 2 && strspn(part, ".") >= n;
}

/* Begins with a slash; no part is empty, "." or "..". */
static bool is_canonical(const char *path)
{
	if (path[strspn(path, PATH_CHARS)])
		return false;
	do {
		size_t n;

		if (*path++ != '/')
			return false;
		n = strcspn(path, "/");
		if (is_dots(path, n)) /* or empty */
			return false;
		path += n;
	} while (*path);
	return true;
}

/* The number of arguments, or -1 when the path is another. */
static int match_path(const char *template, const char *path,
                      char ret_args[ROUTE_ARGS_MAX][ROUTE_ARG_SIZE])
{
	int n_args = 0;

	for (;;) {
		size_t nt = strcspn(template, "/"), np = strcspn(path, "/");

		if (*template == '{') {
			if (n_args == ROUTE_ARGS_MAX || np >= ROUTE_ARG_SIZE)
				return -1;
			(void)snprintf(ret_args[n_args++], ROUTE_ARG_SIZE, "%.*s", (int)np, path);
		} else if (nt != np || memcmp(template, path, nt) != 0) {
			return -1;
		}
		template += nt;
		path += np;
		if (!*template || !*path)
			return *template == *path ? n_args : -1;
		template ++;
		path++;
	}
}

/* "/approvals/ws" is not an approval: the template with the fewest arguments counts, alone. */
static const char *find_template(const char *path, struct route_match *ret)
{
	const char *best = NULL;
	int fewest = ROUTE_ARGS_MAX + 1;

	for (size_t i = 0; i < routes_n; i++) {
		char args[ROUTE_ARGS_MAX][ROUTE_ARG_SIZE] = { 0 };
		int n = match_path(routes[i].path, path, args);

		if (n < 0 || n >= fewest)
			continue;
		best = routes[i].path;
		fewest = n;
		memcpy(ret->args, args, sizeof(args));
	}
	return best;
}

static void add_method(char *list, size_t size, const char *method)
{
	size_t n = strlen(list);

	if (n + strlen(method) + 3 <= size)
		(void)snprintf(list + n, size - n, "%s%s", n ? ", " : "", method);
}

void route_find(const char *method, const char *path, struct route_match *ret)
{
	const char *template = NULL;

	*ret = (struct route_match){ 0 };
	if (is_canonical(path) && str_has_prefix(path, API_PREFIX "/"))
		template = find_template(path + strlen(API_PREFIX), ret);
	for (size_t i = 0; template && i < routes_n; i++) {
		if (!streq(routes[i].path, template))
			continue;
		if (streq(routes[i].method, method)) {
			ret->route = &routes[i];
			ret->allow[0] = '\0';
			return;
		}
		add_method(ret->allow, sizeof(ret->allow), routes[i].method);
	}
}
