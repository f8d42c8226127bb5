/* SPDX-License-Identifier: Apache-2.0 */

/* --out, when the run was a daemon's: its files come after the result. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/load.h"
#include "cli/remote_run.h"
#include "exec/host_file.h"

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

static int put_file(const char *path, const struct buf *data, struct err *err)
{
	struct host_file f;
	int r = host_file_begin(&f, path, err);

	if (r < 0)
		return r;
	return host_file_end(&f, data->len ? write_all(f.fd, data->data, data->len) : 0, err);
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
		return err_wrap(err, e, "--out \"%.100s\"", out->box);
	e = put_file(out->host, &r.body, err);
	reply_free_fields(&r);
	return e;
}

/* A copy: what the reader made is not jansson's to free. */
static void put_changed(json_t *root, json_t *error, struct buf *out)
{
	json_t *copy = json_copy(root);

	if (copy && json_object_set_new(copy, "error", error) >= 0 &&
	    json_object_set_new(copy, "success", json_false()) >= 0)
		doc_put(copy, out);
	else
		out->error = -ENOMEM;
	json_decref(copy);
}

/* The result says what the command's status says. */
static void put_error(struct buf *json, const struct err *e)
{
	CLEANUP_DOC struct json_reader in = { 0 };
	struct buf out = BUF_INIT(json->max);

	if (doc_parse((struct str){ json->data, json->len }, &in, NULL) < 0)
		return;
	put_changed(in.root,
	            json_pack("{s:s,s:s,s:s}", "code", err_code_name(e->code), "cause", e->msg,
	                      "remedy", e->remedy),
	            &out);
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

		if (fetch(c, id, &o->outs[i], &err) < 0 && result_not_fetched(res, &err))
			put_error(json, &err);
	}
}
