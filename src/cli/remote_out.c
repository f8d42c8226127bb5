/* SPDX-License-Identifier: Apache-2.0 */

/* --out, when the run was a daemon's: its files come after the result. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/load.h"
#include "cli/remote_run.h"

#define FILE_BYTES_MAX (64 * MIB) /* that a daemon keeps of one execution */

/* A path is any bytes; in a query only some may stand for themselves. */
static void put_encoded(struct buf *out, const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-._~/";

	for (; *text; text++) {
		if (strchr(plain, *text))
			buf_putc(out, *text);
		else
			buf_printf(out, "%%%02X", (unsigned)(unsigned char)*text);
	}
}

/* Replaced as a whole or not at all. */
static int put_file(const char *path, const struct buf *data, struct err *err)
{
	CLEANUP_FD int fd = FD_NONE;
	char temp[PATH_MAX];
	int r;

	if ((size_t)snprintf(temp, sizeof(temp), "%s.brig-XXXXXX", path) >= sizeof(temp))
		return err_set(err, ERR_INVALID, ENAMETOOLONG, "--out");
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return err_set(err, ERR_IO, errno, "create \"%.100s\"", path);
	r = data->len ? write_all(fd, data->data, data->len) : 0;
	if (r >= 0 && (fchmod(fd, 0644) < 0 || rename(temp, path) < 0))
		r = -errno;
	if (r >= 0)
		return 0;
	(void)unlink(temp);
	return err_set(err, ERR_IO, -r, "write \"%.100s\"", path);
}

static int fetch(struct client *c, const char *id, const struct run_pair *out, struct err *err)
{
	CLEANUP_BUF struct buf path = BUF_INIT(8 * KIB);
	struct client_call call = { .method = "GET", .max = FILE_BYTES_MAX };
	struct reply r;
	int e;

	buf_printf(&path, "/executions/%s/files?path=", id);
	put_encoded(&path, out->box);
	if (buf_finish(&path) < 0)
		return err_set(err, ERR_INVALID, ENAMETOOLONG, "--out");
	call.path = path.data;
	e = client_call(c, &call, &r, err);
	if (e < 0)
		return err_wrap(err, e, "--out");
	e = put_file(out->host, &r.body, err);
	reply_free_fields(&r);
	return e;
}

/* The result says what the command's status says. */
static void put_error(struct buf *json, const struct err *e)
{
	CLEANUP_DOC struct json_reader in = { 0 };
	struct buf out = BUF_INIT(json->max);
	json_t *error;

	if (doc_parse((struct str){ json->data, json->len }, &in, NULL) < 0)
		return;
	error = json_pack("{s:s,s:s,s:s}", "code", err_code_name(e->code), "cause", e->msg,
	                  "remedy", e->remedy);
	if (!error || json_object_set_new(in.root, "error", error) < 0 ||
	    json_object_set_new(in.root, "success", json_false()) < 0)
		return;
	doc_put(in.root, &out);
	if (buf_finish(&out) < 0) {
		buf_done(&out);
		return;
	}
	buf_done(json);
	*json = out;
}

void remote_fetch(const struct run_options *o, struct client *c, const char *id, struct result *res,
                  struct buf *json)
{
	for (size_t i = 0; i < o->n_outs; i++) {
		struct err err = { 0 };

		if (fetch(c, id, &o->outs[i], &err) >= 0 || res->error.code != ERR_NONE)
			continue;
		res->error = err;
		put_error(json, &err);
	}
}
