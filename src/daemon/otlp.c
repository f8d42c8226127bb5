/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/otlp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"

#define URL_SIZE   2100
#define TIMEOUT_MS 10000
#define AGAIN_MS   100 /* when the sender has no room */

struct batch {
	struct buf body; /* empty: the place is free */
	size_t n;        /* spans */
	uint64_t order;  /* at the sender; 0: it waits here */
	unsigned attempts;
	uint64_t due_ms;
};

struct otlp {
	uv_timer_t timer;
	struct sender *sender;
	char url[URL_SIZE];
	struct span queue[OTLP_QUEUE_MAX]; /* a ring */
	size_t head, n;
	uint64_t since_ms; /* the oldest of them waits since then */
	bool hurry;        /* no waiting for a full batch */
	struct batch batches[OTLP_FLYING_MAX];
	struct otlp_counts counts;
};

static void pump(struct otlp *o);

static void batch_clear(struct batch *b)
{
	buf_done(&b->body);
	*b = (struct batch){ .body = BUF_INIT(OTLP_BODY_MAX) };
}

static void drop(struct otlp *o, size_t n)
{
	if (!o->counts.dropped)
		sender_say(o->sender, "otlp: spans are dropped");
	o->counts.dropped += n;
}

static void failed(struct otlp *o, struct batch *b, const struct send_answer *a)
{
	bool again = !a->status || a->status == 429 || (a->status >= 502 && a->status <= 504);

	b->attempts++;
	b->order = 0;
	if (again && b->attempts < OTLP_ATTEMPTS) {
		o->counts.retried++;
		b->due_ms = clock_ms() + backoff_after_ms(b->attempts, a->retry_after_s);
		return;
	}
	drop(o, b->n);
	batch_clear(b);
}

static void on_answer(void *data, uint64_t id, const struct send_answer *a)
{
	struct otlp *o = data;
	struct batch *b = o->batches;

	while (b < o->batches + OTLP_FLYING_MAX && b->order != id)
		b++;
	if (b == o->batches + OTLP_FLYING_MAX)
		return;
	if (a->status >= 200 && a->status < 300) {
		o->counts.sent += b->n;
		batch_clear(b);
	} else {
		failed(o, b, a);
	}
	pump(o);
}

static void fill(struct otlp *o, struct batch *b)
{
	b->n = MIN2(o->n, (size_t)OTLP_BATCH_MAX);
	spans_begin(&b->body);
	for (size_t i = 0; i < b->n; i++)
		spans_put(&b->body, &o->queue[(o->head + i) % OTLP_QUEUE_MAX], i == 0);
	spans_end(&b->body);
	o->head = (o->head + b->n) % OTLP_QUEUE_MAX;
	o->n -= b->n;
	o->since_ms = clock_ms();
	if (buf_finish(&b->body) < 0) { /* no memory: it would not be better later */
		drop(o, b->n);
		batch_clear(b);
	}
}

static void send_batch(struct otlp *o, struct batch *b, uint64_t now)
{
	static const char *const headers[] = { "Content-Type: application/json" };
	const struct order_text text = { .url = o->url,
		                         .timeout_ms = TIMEOUT_MS,
		                         .headers = headers,
		                         .n_headers = ELEMENTSOF(headers),
		                         .body = { b->body.data, b->body.len } };

	if (sender_send(o->sender, &text, on_answer, o, &b->order) < 0)
		b->due_ms = now + AGAIN_MS;
}

static bool is_due(const struct otlp *o, uint64_t now)
{
	return o->n >= OTLP_BATCH_MAX || (o->n && (o->hurry || now - o->since_ms >= OTLP_BATCH_MS));
}

static void on_due(uv_timer_t *t)
{
	pump(t->data);
}

static void pump(struct otlp *o)
{
	uint64_t now = clock_ms(), next = UINT64_MAX;
	bool room = false;

	for (struct batch *b = o->batches; b < o->batches + OTLP_FLYING_MAX; b++) {
		if (!b->body.len && is_due(o, now))
			fill(o, b);
		if (b->body.len && !b->order && b->due_ms <= now)
			send_batch(o, b, now);
		if (b->body.len && !b->order)
			next = MIN2(next, b->due_ms);
		room = room || !b->body.len;
	}
	if (!o->n)
		o->hurry = false;
	if (o->n && room) /* without room, an answer pumps again */
		next = MIN2(next, o->since_ms + OTLP_BATCH_MS);
	if (next == UINT64_MAX)
		(void)uv_timer_stop(&o->timer);
	else
		(void)uv_timer_start(&o->timer, on_due, next > now ? next - now : 0, 0);
}

void otlp_job(struct otlp *o, const struct job *job, const char *traceparent)
{
	struct span spans[OTLP_SPANS_MAX];
	struct span_seed seed;
	struct timespec ts;
	size_t n;

	if (!o)
		return;
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed)) {
		drop(o, 1);
		return;
	}
	n = spans_of_job(job, traceparent, &seed, clock_ns(),
	                 (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec, spans);
	if (o->n + n > OTLP_QUEUE_MAX) {
		drop(o, n);
		return;
	}
	if (!o->n)
		o->since_ms = clock_ms();
	for (size_t i = 0; i < n; i++)
		o->queue[(o->head + o->n++) % OTLP_QUEUE_MAX] = spans[i];
	if (o->n >= OTLP_BATCH_MAX || !uv_is_active((uv_handle_t *)&o->timer))
		pump(o);
}

void otlp_flush(struct otlp *o)
{
	if (!o)
		return;
	o->hurry = true;
	pump(o);
}

bool otlp_is_idle(const struct otlp *o)
{
	struct otlp_counts counts = { 0 };

	if (o)
		otlp_counts(o, &counts);
	return !counts.queued;
}

void otlp_counts(const struct otlp *o, struct otlp_counts *ret)
{
	size_t queued = o->n;

	for (size_t i = 0; i < OTLP_FLYING_MAX; i++)
		queued += o->batches[i].n;
	*ret = o->counts;
	ret->queued = (unsigned)queued;
}

static int set_url(struct otlp *o, const char *url, struct err *err)
{
	size_t n = strlen(url);

	while (n && url[n - 1] == '/')
		n--;
	if (!sender_takes_url(url))
		return err_set(err, ERR_INVALID, 0, "otlp: the url must be http:// or https://");
	(void)snprintf(o->url, sizeof(o->url), "%.*s/v1/traces", (int)n, url);
	return 0;
}

int otlp_open(uv_loop_t *loop, const struct daemon_config *config, struct sender *sender,
              struct otlp **ret, struct err *err)
{
	CLEANUP_FREE struct otlp *o = NULL;
	int r;

	if (!config->otlp) {
		*ret = NULL;
		return 0;
	}
	o = calloc(1, sizeof(*o));
	if (!o)
		return err_set(err, ERR_INTERNAL, ENOMEM, "otlp");
	o->sender = sender;
	for (size_t i = 0; i < OTLP_FLYING_MAX; i++)
		batch_clear(&o->batches[i]);
	r = set_url(o, config->otlp, err);
	if (r < 0)
		return r;
	r = uv_timer_init(loop, &o->timer);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "timer");
	o->timer.data = o;
	*ret = TAKE_PTR(o);
	return 0;
}

static void on_closed(uv_handle_t *timer)
{
	free(timer->data);
}

void otlp_close(struct otlp *o)
{
	if (!o)
		return;
	sender_forget(o->sender, o);
	for (size_t i = 0; i < OTLP_FLYING_MAX; i++)
		batch_clear(&o->batches[i]);
	uv_close((uv_handle_t *)&o->timer, on_closed);
}
