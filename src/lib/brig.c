/* SPDX-License-Identifier: Apache-2.0 */

/* The public library: requests and results as JSON, around one pipeline and its pool. */

#include "brig/brig.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "pipeline/pipeline.h"

#define WARM_DEFAULT 2
#define PRELOAD_MAX  64

struct brig {
	struct pool *pool;
	struct pipeline *pipeline;
	struct executor_pool executor;
	struct channel channel;
	unsigned warm;
	const char *preload[PRELOAD_MAX];
	size_t n_preload;
	size_t shapes[LANGUAGE_COUNT]; /* 1 + index; 0: none yet */
};

static int tell(const struct err *err, int r, char *error)
{
	if (error)
		(void)snprintf(error, BRIG_ERROR_SIZE, "%s%s%s%s%s", err->step,
		               *err->step ? ": " : "", err->msg, *err->remedy ? "; " : "",
		               err->remedy);
	return r;
}

static int need_boxes(void *data, const struct request *like, struct err *err);

static int set_channel(struct brig *b, const char *confirm, struct pipeline_config *config,
                       struct err *err)
{
	if (!confirm || streq(confirm, "ask"))
		return 0; /* whoever has the state directory may answer */
	if (!streq(confirm, "approve") && !streq(confirm, "deny"))
		return err_set(err, ERR_INVALID, 0, "confirm: \"%.40s\" is not known", confirm);
	b->channel.ops = streq(confirm, "approve") ? &channel_auto_approve : &channel_auto_deny;
	config->channels[config->n_channels++] = &b->channel;
	return 0;
}

static int open_pipeline(struct brig *b, const struct brig_options *o, struct err *err)
{
	struct pipeline_config config = { .policy = o->policy,
		                          .state_dir = o->state_dir,
		                          .no_record = o->no_record,
		                          .executors = { &b->executor.base },
		                          .n_executors = 1 };
	int r = set_channel(b, o->confirm, &config, err);

	b->executor = (struct executor_pool){
		.base.ops = &executor_pool_ops, .pool = b->pool, .need = need_boxes, .data = b
	};
	return r < 0 ? r : pipeline_open(&config, &b->pipeline, err);
}

int brig_open(const struct brig_options *options, struct brig **ret, char *error)
{
	const struct brig_options o = options ? *options : (struct brig_options){ 0 };
	struct pool_config config = { .launcher = o.launcher };
	struct err err = { 0 };
	struct brig *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return -ENOMEM;
	b->warm = o.warm ? o.warm : WARM_DEFAULT;
	while (o.preload && b->n_preload < PRELOAD_MAX && o.preload[b->n_preload]) {
		b->preload[b->n_preload] = o.preload[b->n_preload];
		b->n_preload++;
	}
	r = pool_open(&config, &b->pool, &err);
	if (r >= 0)
		r = open_pipeline(b, &o, &err);
	if (r < 0) {
		brig_close(b);
		return tell(&err, r, error);
	}
	*ret = b;
	return 0;
}

void brig_close(struct brig *b)
{
	if (!b)
		return;
	pool_close(b->pool);
	pipeline_close(b->pipeline);
	free(b);
}

static int need_boxes(void *data, const struct request *like, struct err *err)
{
	struct brig *b = data;
	struct pool_shape shape = { .like = *like, .min = b->warm, .max = b->warm };
	size_t index;
	int r;

	if (b->shapes[like->language])
		return 0;
	shape.like.args = b->preload;
	shape.like.n_args = like->language == LANGUAGE_PYTHON ? b->n_preload : 0;
	shape.like.n_env = 0;
	r = pool_add_shape(b->pool, &shape, &index, err);
	if (r >= 0)
		b->shapes[like->language] = index + 1;
	return r;
}

int brig_prepare(struct brig *b, const char *language, unsigned timeout_ms, char *error)
{
	struct err err = { 0 };
	struct request like;
	int r;

	request_init(&like);
	r = language_from_name(language, &like.language);
	if (r < 0)
		return tell(&err, err_set(&err, ERR_INVALID, 0, "no language \"%s\"", language),
		            error);
	r = need_boxes(b, &like, &err);
	if (r >= 0)
		r = pool_wait_ready(b->pool, b->shapes[like.language] - 1, b->warm, timeout_ms,
		                    FD_NONE, &err);
	return r < 0 ? tell(&err, r, error) : 0;
}

static void ignore(void *data, struct job *job)
{
	(void)data;
	(void)job;
}

char *brig_run(struct brig *b, const char *request_json)
{
	CLEANUP_ARENA struct arena arena = ARENA_INIT(REQUEST_ARENA_MAX);
	CLEANUP_BUF struct buf out = BUF_INIT(RESULT_JSON_MAX);
	CLEANUP(job_free_fields) struct job job;
	struct result *res = &job.result;

	job_init(&job);
	job.done = ignore;
	res->receipt.level_required = LEVEL_STANDARD; /* until the request says otherwise */
	if (execution_id_new(res->execution_id) < 0)
		return NULL;
	if (request_from_json(request_json, strlen(request_json), &arena, &job.request,
	                      &res->error) < 0) {
		res->state = RUN_REJECTED;
	} else {
		pipeline_submit(b->pipeline, &job);
		pipeline_wait(b->pipeline, &job, FD_NONE);
	}
	if (result_to_json(res, &out) < 0)
		return NULL;
	return buf_detach(&out);
}
