/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads every *.json of the folder given as argument and prints one line of TAP for each.
 *
 *   ok-NAME.json   a request that must be taken
 *   bad-NAME.json  { "error": text, "request": what } - must be refused as invalid with a message
 *                  or remedy that holds the text
 *
 * A request is the JSON itself or, where it is broken on purpose, a string with its text. "@A9@" in
 * it stands for nine letters A, and so on, so that a case of a megabyte is a short file.
 */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/str.h"
#include "model/request.h"

#define CASE_MAX (4 * MIB)

struct test_case {
	bool must_pass;
	const char *error; /* in `file` */
	char *text;
	json_t *file;
};

static void case_done(struct test_case *c)
{
	free(c->text);
	json_decref(c->file);
}

static char *expand(const char *text)
{
	CLEANUP_BUF struct buf b = BUF_INIT(CASE_MAX);

	while (*text) {
		unsigned long n;
		int used = 0;
		char c;

		if (sscanf(text, "@%c%lu@%n", &c, &n, &used) == 2 && used) {
			text += used;
			for (; n && !b.error; n--)
				buf_putc(&b, c);
		} else {
			buf_putc(&b, *text++);
		}
	}
	return buf_detach(&b);
}

static int case_load(const char *dir, const char *name, struct test_case *c, char *why, size_t cap)
{
	char path[4096];
	json_error_t error;
	json_t *request;
	char *text;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	c->must_pass = str_has_prefix(name, "ok-");
	c->file = json_load_file(path, JSON_ALLOW_NUL, &error);
	if (!c->file) {
		(void)snprintf(why, cap, "line %d: %s", error.line, error.text);
		return -EINVAL;
	}
	request = c->must_pass ? c->file : json_object_get(c->file, "request");
	c->error = json_string_value(json_object_get(c->file, "error"));
	if (!request || (!c->must_pass && (!c->error || !*c->error))) {
		(void)snprintf(why, cap, "needs \"error\" and \"request\"");
		return -EINVAL;
	}
	text = json_is_string(request) ? strdup(json_string_value(request))
	                               : json_dumps(request, JSON_COMPACT | JSON_ENCODE_ANY);
	c->text = text ? expand(text) : NULL;
	free(text);
	if (!c->text) {
		(void)snprintf(why, cap, "out of memory");
		return -ENOMEM;
	}
	return 0;
}

static bool case_run(const char *dir, const char *name, char *why, size_t cap)
{
	CLEANUP_ARENA struct arena arena = ARENA_INIT(REQUEST_ARENA_MAX);
	CLEANUP(case_done) struct test_case c = { 0 };
	struct request r;
	struct err err = { 0 };
	int e;

	if (case_load(dir, name, &c, why, cap) < 0)
		return false;
	e = request_from_json(c.text, strlen(c.text), &arena, &r, &err);
	if (c.must_pass) {
		(void)snprintf(why, cap, "refused: %s", err.msg);
		return e == 0;
	}
	if (e == 0) {
		(void)snprintf(why, cap, "was taken");
		return false;
	}
	(void)snprintf(why, cap, "\"%s\" is not in: %s (%s)", c.error, err.msg, err.remedy);
	return err.code == ERR_INVALID && (strstr(err.msg, c.error) || strstr(err.remedy, c.error));
}

static int is_case(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return n > 5 && streq(d->d_name + n - 5, ".json");
}

int main(int argc, char **argv)
{
	struct dirent **names = NULL;
	int n, failed = 0;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	n = scandir(argv[1], &names, is_case, alphasort);
	if (n <= 0) {
		(void)fprintf(stderr, "%s: no cases\n", argv[1]);
		return 1;
	}
	printf("1..%d\n", n);
	for (int i = 0; i < n; i++) {
		char why[600] = "";
		bool ok = case_run(argv[1], names[i]->d_name, why, sizeof(why));

		printf("%sok %d - %s\n", ok ? "" : "not ", i + 1, names[i]->d_name);
		if (!ok) {
			printf("# %s\n", why);
			failed++;
		}
		free(names[i]);
	}
	free(names);
	return failed ? 1 : 0;
}
