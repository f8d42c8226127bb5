/* SPDX-License-Identifier: Apache-2.0 */

/* Results as JSON: written once, kept, and sent from where they are. */

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/impl.h"
#include "exec/workspace.h"

#define RESULT_TEXT_MAX (4 * JSON_ANSWER_MAX)
#define TRASH_BYTES     (1 * MIB)

struct trash {
	uv_work_t req;
	void *p;
};

static void in_thread(uv_work_t *req)
{
	free(((struct trash *)req->data)->p);
}

static void after(uv_work_t *req, int status)
{
	struct trash *t = req->data;

	if (status < 0)
		free(t->p); /* it was never begun */
	free(t);
}

void trash_buf(struct api *api, struct buf *b)
{
	struct trash *t = b->cap > TRASH_BYTES ? malloc(sizeof(*t)) : NULL;

	if (t) {
		*t = (struct trash){ .req.data = t, .p = b->data };
		if (uv_queue_work(api->config.loop, &t->req, in_thread, after) >= 0)
			b->data = NULL;
		else
			free(t);
	}
	buf_done(b);
}

struct shared_json *shared_new(struct api *api, struct buf *text)
{
	struct shared_json *s = malloc(sizeof(*s));

	if (!s) {
		buf_done(text);
		return NULL;
	}
	*s = (struct shared_json){ .api = api, .refs = 1, .text = *text };
	*text = BUF_INIT(0);
	return s;
}

void shared_unref(struct shared_json *s)
{
	if (!s || --s->refs)
		return;
	trash_buf(s->api, &s->text);
	free(s);
}

/* One that is too large goes without its output, and says so. */
static int write_json(const struct result *res, struct buf *out)
{
	struct result small = *res;
	int r;

	buf_done(out);
	*out = BUF_INIT(RESULT_TEXT_MAX);
	r = result_to_json(res, out);
	if (r >= 0)
		return r;
	small.out_dropped += small.out.len;
	small.err_dropped += small.errout.len;
	small.out = small.errout = small.outputs = BUF_INIT(0);
	small.value = NULL;
	buf_done(out);
	*out = BUF_INIT(RESULT_TEXT_MAX);
	r = result_to_json(&small, out);
	if (r < 0)
		buf_done(out);
	return r;
}

/* ---- files ---- */

static void keep_file(struct execution *ex, int workspace, const char *path, size_t *left)
{
	struct kept_file *f = &ex->files[ex->n_files];
	struct buf data = BUF_INIT(*left);
	struct err err = { 0 };

	f->path = strdup(path);
	if (!f->path)
		return;
	ex->n_files++;
	if (workspace_read(workspace, path, &data, &err) >= 0) {
		*left -= data.len;
		f->data = shared_new(ex->api, &data);
		return;
	}
	buf_done(&data);
	f->why = malloc(sizeof(*f->why));
	if (f->why)
		*f->why = err;
}

static void keep_files(struct execution *ex, const struct result *res, int workspace)
{
	size_t left = FILES_KEPT_BYTES;

	ex->files = calloc(FILES_KEPT_MAX, sizeof(*ex->files));
	for (size_t i = 0; ex->files && i < res->n_files && ex->n_files < FILES_KEPT_MAX; i++)
		if (res->files[i].change != FILE_DELETED)
			keep_file(ex, workspace, res->files[i].path, &left);
}

void files_free(struct execution *ex)
{
	for (size_t i = 0; i < ex->n_files; i++) {
		free(ex->files[i].path);
		shared_unref(ex->files[i].data);
		free(ex->files[i].why);
	}
	free(ex->files);
	ex->files = NULL;
	ex->n_files = 0;
}

size_t files_bytes(const struct execution *ex)
{
	size_t n = FILES_KEPT_MAX * sizeof(*ex->files);

	if (!ex->files)
		return 0;
	for (size_t i = 0; i < ex->n_files; i++)
		n += ex->files[i].data ? ex->files[i].data->text.cap : 0;
	return n;
}

/* Bytes, and an attachment: nothing that a browser would take for a page of ours. */
static void answer_file(struct call *c, const struct kept_file *f)
{
	static const struct http_header h = { "Content-Disposition", "attachment" };
	struct err err = { 0 };

	if (f->data) {
		answer_shared(c, "application/octet-stream", &h, 1, f->data);
		return;
	}
	if (f->why)
		(void)err_set(&err, f->why->code == ERR_LIMIT ? ERR_LIMIT : ERR_NOT_FOUND, 0, "%s",
		              f->why->msg);
	answer_err(c, &err);
}

static const struct kept_file *find_file(const struct execution *ex, const char *path)
{
	for (size_t i = 0; ex && i < ex->n_files; i++)
		if (streq(ex->files[i].path, path))
			return &ex->files[i];
	return NULL;
}

void route_files(struct api *api, struct call *c)
{
	struct execution *ex = ex_visible(c, c->match.args[0]);
	const struct kept_file *f = NULL;
	char path[REQUEST_PATH_MAX + 1];

	(void)api;
	if (!query_text(c, "path", path, sizeof(path)))
		return;
	if (ex && !ex->job) /* else a thread may be at it */
		f = find_file(ex, path);
	if (!*path)
		answer_error(c, ERR_INVALID, NULL, "path: is needed");
	else if (ex && ex->job)
		answer_error(c, ERR_CONFLICT, "wait for its end", "it is not over");
	else if (f)
		answer_file(c, f);
	else if (ex && !ex->keep_files)
		answer_error(c, ERR_NOT_FOUND, "start it with files=true",
		             "its files were not kept");
	else
		answer_error(c, ERR_NOT_FOUND, NULL, "no such execution, or no such file of it");
}

/* ---- at the end of a run, in a thread of the pool's ---- */

static void complete(void *data, struct result *res, int workspace)
{
	struct job *job = data;
	struct execution *ex = job->data;

	if (ex->keep_files && workspace >= 0)
		keep_files(ex, res, workspace);
	(void)write_json(res, &job->json); /* else it is tried again */
	if (res->out.len)
		sha256(res->out.data, res->out.len, job->out_digest);
	if (res->errout.len)
		sha256(res->errout.data, res->errout.len, job->err_digest);
	job->digested = true;
}

void api_started(struct job *job)
{
	const struct execution *ex = job->data;

	pool_prepare(job->call, complete, job, ex->keep_files);
}

struct shared_json *result_shared(struct api *api, struct job *job)
{
	if (!job->json.len && write_json(&job->result, &job->json) < 0)
		return NULL;
	return shared_new(api, &job->json);
}
