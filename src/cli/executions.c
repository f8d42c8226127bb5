/* SPDX-License-Identifier: Apache-2.0 */

/* The daemon's list of executions. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/follow.h"

#define PAGE      1000
#define PAGES_MAX 64
#define ID_CHARS  "0123456789abcdefghijklmnopqrstuvwxyz"

/* One page; *after is the place of the next, "" when this was the last. 1: fn ended it. */
static int each_of_page(struct client *c, char after[EXECUTION_ID_SIZE], status_fn *fn, void *data,
                        struct err *err)
{
	CLEANUP_DOC struct json_reader in = { 0 };
	char path[96];
	const struct client_call call = { .method = "GET", .path = path };
	struct reply reply;
	json_t *item;
	size_t i;
	int r;

	(void)snprintf(path, sizeof(path), "/executions?limit=%d%s%s", PAGE,
	               *after ? "&after=" : "", after);
	r = client_call(c, &call, &reply, err);
	if (r < 0)
		return r;
	r = doc_parse((struct str){ reply.body.data, reply.body.len }, &in, err);
	reply_free_fields(&reply);
	if (r < 0)
		return r;
	(void)snprintf(after, EXECUTION_ID_SIZE, "%s", doc_text(in.root, "next"));
	if (after[strspn(after, ID_CHARS)])
		return err_set(err, ERR_IO, EPROTO, "the daemon's answer is no list");
	json_array_foreach(json_object_get(in.root, "executions"), i,
	                   item) if (fn(data, item)) return 1;
	return 0;
}

int execution_each(struct client *c, status_fn *fn, void *data, struct err *err)
{
	char after[EXECUTION_ID_SIZE] = "";
	int r = 0;

	for (int i = 0; i < PAGES_MAX; i++) {
		r = each_of_page(c, after, fn, data, err);
		if (r != 0 || !*after)
			break;
	}
	return r < 0 ? r : 0;
}

struct search {
	const char *prefix;
	char id[EXECUTION_ID_SIZE];
	size_t n;
};

static int match_one(void *data, json_t *status)
{
	const char *id = doc_text(status, "execution_id");
	struct search *s = data;

	if (str_has_prefix(id, s->prefix) && strlen(id) == EXECUTION_ID_SIZE - 1 &&
	    !id[strspn(id, ID_CHARS)]) {
		(void)snprintf(s->id, sizeof(s->id), "%s", id);
		s->n++;
	}
	return 0;
}

int execution_find(struct client *c, const char *prefix, char ret[EXECUTION_ID_SIZE],
                   struct err *err)
{
	struct search s = { .prefix = prefix };
	bool proper =
		*prefix && !prefix[strspn(prefix, ID_CHARS)] && strlen(prefix) < EXECUTION_ID_SIZE;
	int r = 0;

	/* A whole one need not be in the list: what is over may be on disk only. */
	if (proper && strlen(prefix) == EXECUTION_ID_SIZE - 1) {
		(void)snprintf(ret, EXECUTION_ID_SIZE, "%s", prefix);
		return 0;
	}
	if (proper)
		r = execution_each(c, match_one, &s, err);
	if (r < 0)
		return r;
	if (s.n == 0) {
		(void)err_set(err, ERR_NOT_FOUND, 0, "no execution \"%.40s\"", prefix);
		return err_remedy(err, -ENOENT, "see \"brig ps -a\"");
	}
	if (s.n > 1) {
		(void)err_set(err, ERR_INVALID, 0, "\"%.40s\" is the beginning of %zu executions",
		              prefix, s.n);
		return err_remedy(err, -EINVAL, "give more of it");
	}
	(void)snprintf(ret, EXECUTION_ID_SIZE, "%s", s.id);
	return 0;
}
