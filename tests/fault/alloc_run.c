/* SPDX-License-Identifier: Apache-2.0 */
/* Memory runs out on the way of a run: while it is planned, written down, and its output kept. */
#include <errno.h>
#include <stdio.h>

#include "exec/output.h"
#include "model/plan_wire.h"
#include "route/route.h"
#include "torture.h"

#define FILES 40

static char text[3000], paths[FILES][400];
static struct request_file files[FILES];
static const char *args[REQUEST_ARGS_MAX];
static struct request request;

/* What the host shows, without asking whether node is installed. */
static int find_any(const char *program, const char **ret_path)
{
	(void)program;
	*ret_path = "/usr/bin/program";
	return 0;
}

static struct image image = { "host", NULL, find_any };

static void make_request(void)
{
	memset(text, 'x', sizeof(text));
	request_init(&request);
	request.language = LANGUAGE_JAVASCRIPT;
	request.code = (struct str){ text, sizeof(text) };
	for (unsigned i = 0; i < FILES; i++) {
		(void)snprintf(paths[i], sizeof(paths[i]), "%.200s%u/%.150s", text, i, text);
		files[i] = (struct request_file){ paths[i], { text, sizeof(text) }, i % 2 };
	}
	for (size_t i = 0; i < ELEMENTSOF(args); i++)
		args[i] = "argument";
	request.files = files;
	request.n_files = FILES;
	request.args = args;
	request.n_args = ELEMENTSOF(args);
}

static struct outcome plan_run(void)
{
	CLEANUP_ARENA struct arena arena = ARENA_INIT(REQUEST_ARENA_MAX);
	struct outcome o = { 0 };
	struct plan p;

	o.r = route_plan(&request, &image, &arena, &p, &o.err);
	return o;
}

static struct outcome plan_and_write(void)
{
	static struct plan_store store;
	CLEANUP_ARENA struct arena arena = ARENA_INIT(REQUEST_ARENA_MAX);
	CLEANUP_BUF struct buf b = BUF_INIT(PLAN_BYTES_MAX);
	struct outcome o = { 0 };
	struct plan p, q;

	o.r = route_plan(&request, &image, &arena, &p, &o.err);
	if (o.r == 0)
		o.r = plan_encode(&p, &b);
	if (o.r == 0)
		o.r = plan_decode(b.data, b.len, &store, &q, &o.err);
	return o;
}

/* Lost bytes are no error of the run, but they must be counted, and what is kept be right. */
static struct outcome keep_output(void)
{
	CLEANUP_BUF struct buf got = { 0 };
	struct outcome o = { 0 };
	uint64_t total = 0, dropped;
	struct output out;

	output_init(&out, 10001);
	for (unsigned i = 0; i < 10; i++) {
		output_add(&out, text, sizeof(text));
		total += sizeof(text);
	}
	dropped = output_dropped(&out);
	o.r = output_finish(&out, &got);
	output_done(&out);
	if (o.r == 0 && got.len + dropped != total)
		o.r = -EBADMSG;
	for (size_t i = 0; o.r == 0 && i < got.len; i++)
		o.r = got.data[i] == 'x' ? 0 : -EBADMSG;
	if (o.r == 0 && got.len != 10001)
		o.r = -ENOMEM; /* told by the count */
	return o;
}

int main(void)
{
	static const struct torture_case cases[] = {
		{ "a plan, one failure", plan_run, false },
		{ "a plan, failing from then on", plan_run, true },
		{ "a plan as bytes, one failure", plan_and_write, false },
		{ "a plan as bytes, failing from then on", plan_and_write, true },
		{ "output, one failure", keep_output, false },
		{ "output, failing from then on", keep_output, true },
	};

	image.add = image_host.add;
	make_request();
	return torture(cases, ELEMENTSOF(cases)) ? 1 : 0;
}
