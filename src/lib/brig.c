/* SPDX-License-Identifier: Apache-2.0 */

/* The public library: requests and results as JSON, around one pool. */

#include "brig/brig.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "pool/pool.h"

#define WARM_DEFAULT 2
#define PRELOAD_MAX  64

struct brig {
	struct pool *pool;
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

int brig_open(const struct brig_options *options, struct brig **ret, char *error)
{
	struct pool_config config = { .launcher = options ? options->launcher : NULL };
	struct err err = { 0 };
	struct brig *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return -ENOMEM;
	b->warm = options && options->warm ? options->warm : WARM_DEFAULT;
	while (options && options->preload && b->n_preload < PRELOAD_MAX &&
	       options->preload[b->n_preload]) {
		b->preload[b->n_preload] = options->preload[b->n_preload];
		b->n_preload++;
	}
	r = pool_open(&config, &b->pool, &err);
	if (r < 0) {
		free(b);
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
	free(b);
}

static int need_boxes(struct brig *b, const struct request *like, struct err *err)
{
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
		                    &err);
	return r < 0 ? tell(&err, r, error) : 0;
}

char *brig_run(struct brig *b, const char *request_json)
{
	CLEANUP_ARENA struct arena arena = ARENA_INIT(REQUEST_ARENA_MAX);
	CLEANUP_BUF struct buf out = BUF_INIT(RESULT_JSON_MAX);
	CLEANUP(result_done) struct result res;
	struct request req;

	result_init(&res);
	res.receipt.level_required = LEVEL_STANDARD; /* until the request says otherwise */
	if (execution_id_new(res.execution_id) < 0)
		return NULL;
	if (request_from_json(request_json, strlen(request_json), &arena, &req, &res.error) < 0)
		res.state = RUN_REJECTED;
	else if (need_boxes(b, &req, &res.error) >= 0)
		pool_run(b->pool, &req, &res);
	if (result_to_json(&res, &out) < 0)
		return NULL;
	return buf_detach(&out);
}
