/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/hooks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define AGAIN_MS 100 /* when the sender has no room, or there is no memory */

struct delivery {
	struct delivery *next;
	unsigned hook;
	bool approval;     /* else the end of a run */
	uint64_t order;    /* at the sender; 0: it waits here */
	unsigned attempts; /* made */
	uint64_t due_ms;   /* clock_ms(): not before */
	const char *event; /* a literal */
	char id[HOOK_ID_SIZE];
	struct buf body;
};

struct hook {
	struct config_webhook config; /* texts are the configuration's */
	char secret[HOOK_SECRET_MAX];
	size_t secret_n; /* 0: not signed */
	unsigned flying;
};

struct hooks {
	uv_timer_t timer; /* until the next one is due */
	struct sender *sender;
	struct hook hooks[CONFIG_WEBHOOKS_MAX];
	unsigned n_hooks;
	struct delivery *queue, **tail; /* oldest first */
	size_t bytes;
	struct hooks_counts counts;
};

static void pump(struct hooks *h);

static void queue_add(struct hooks *h, struct delivery *d)
{
	*h->tail = d;
	h->tail = &d->next;
	h->counts.queued++;
	h->bytes += d->body.len;
}

static void queue_remove(struct hooks *h, struct delivery **at)
{
	struct delivery *d = *at;

	*at = d->next;
	if (h->tail == &d->next)
		h->tail = at;
	h->counts.queued--;
	h->bytes -= d->body.len;
	buf_done(&d->body);
	free(d);
}

/* The oldest one that is not under way; ends of runs go before questions. */
static struct delivery **find_victim(struct hooks *h)
{
	struct delivery **question = NULL;

	for (struct delivery **at = &h->queue; *at; at = &(*at)->next) {
		if ((*at)->order)
			continue;
		if (!(*at)->approval)
			return at;
		if (!question)
			question = at;
	}
	return question;
}

/* False: the new one is the one to drop. */
static bool make_room(struct hooks *h, bool approval, size_t n)
{
	while (h->counts.queued >= HOOKS_QUEUE_MAX || h->bytes + n > HOOKS_BYTES_MAX) {
		struct delivery **victim = find_victim(h);

		if (!h->counts.dropped)
			sender_say(h->sender, "webhooks: the queue is full; notices are dropped");
		h->counts.dropped++;
		if (!victim || ((*victim)->approval && !approval))
			return false;
		queue_remove(h, victim);
	}
	return true;
}

/* Told again while it still waits: once is enough. */
static bool is_queued(const struct hooks *h, unsigned hook, const char *id)
{
	for (const struct delivery *d = h->queue; d; d = d->next)
		if (d->hook == hook && streq(d->id, id))
			return true;
	return false;
}

static void enqueue(struct hooks *h, unsigned hook, const struct delivery *like,
                    const struct buf *body)
{
	struct delivery *d;

	if (is_queued(h, hook, like->id) || !make_room(h, like->approval, body->len))
		return;
	d = calloc(1, sizeof(*d));
	if (d) {
		*d = *like;
		d->hook = hook;
		d->body = BUF_INIT(HOOK_BODY_MAX);
		buf_put(&d->body, body->data, body->len);
	}
	if (d && buf_finish(&d->body) >= 0) {
		queue_add(h, d);
		return;
	}
	h->counts.dropped++;
	if (d)
		buf_done(&d->body);
	free(d);
}

static void tell(struct hooks *h, const struct delivery *like, const struct buf *body)
{
	if (buf_finish(body) < 0) {
		h->counts.dropped++;
		return;
	}
	for (unsigned i = 0; i < h->n_hooks; i++) {
		const struct config_webhook *c = &h->hooks[i].config;

		if (like->approval ? c->approvals : c->executions)
			enqueue(h, i, like, body);
	}
	pump(h);
}

void hooks_approval(struct hooks *h, const char *event, const struct approval *a,
                    struct str summary)
{
	CLEANUP_BUF struct buf body = BUF_INIT(HOOK_BODY_MAX);
	struct delivery like = { .approval = true,
		                 .event = streq(event, "approval.settled") ? "approval.settled"
		                                                           : "approval.requested" };

	if (!h->n_hooks)
		return;
	hook_delivery_id(like.event, a->id, approval_state_name(a->state), like.id);
	hook_approval_body(like.id, like.event, a, summary, &body);
	tell(h, &like, &body);
}

void hooks_execution(struct hooks *h, const struct result *r)
{
	CLEANUP_BUF struct buf body = BUF_INIT(HOOK_BODY_MAX);
	struct delivery like = { .event = HOOK_EXECUTION };

	if (!h->n_hooks)
		return;
	hook_delivery_id(like.event, r->execution_id, run_state_name(r->state), like.id);
	hook_execution_body(like.id, r, &body);
	tell(h, &like, &body);
}

static struct delivery **find_order(struct hooks *h, uint64_t order)
{
	struct delivery **at = &h->queue;

	while (*at && (*at)->order != order)
		at = &(*at)->next;
	return *at ? at : NULL;
}

static void why_not(const struct send_answer *a, char *ret, size_t n)
{
	if (a->status)
		(void)snprintf(ret, n, "HTTP %u", (unsigned)a->status);
	else
		(void)snprintf(ret, n, "%s", a->error);
}

/* Not delivered: later, or never. */
static void failed(struct hooks *h, struct delivery **at, const struct send_answer *a)
{
	struct delivery *d = *at;
	bool retried = hook_is_retried(a->status);
	char why[sizeof(a->error)];

	d->attempts++;
	if (retried && d->attempts < h->hooks[d->hook].config.attempts) {
		h->counts.retried++;
		d->order = 0;
		d->due_ms = clock_ms() + backoff_after_ms(d->attempts, a->retry_after_s);
		return;
	}
	why_not(a, why, sizeof(why));
	sender_say(h->sender, "webhook %u: %s %s given up after %u attempt%s: %s", d->hook + 1,
	           d->event, d->id, d->attempts, d->attempts == 1 ? "" : "s", why);
	if (retried)
		h->counts.given_up++;
	else
		h->counts.refused++;
	queue_remove(h, at);
}

static void on_answer(void *data, uint64_t id, const struct send_answer *a)
{
	struct hooks *h = data;
	struct delivery **at = find_order(h, id);

	if (!at)
		return;
	h->hooks[(*at)->hook].flying--;
	if (a->status >= 200 && a->status < 300) {
		h->counts.delivered++;
		queue_remove(h, at);
	} else {
		failed(h, at, a);
	}
	pump(h);
}

static int send_one(struct hooks *h, struct delivery *d)
{
	const struct hook *hook = &h->hooks[d->hook];
	char event[64], delivery[64], header[HOOK_SIGNED_SIZE + 32], value[HOOK_SIGNED_SIZE];
	const char *headers[] = { "Content-Type: application/json", event, delivery, header };
	struct order_text text = { .url = hook->config.url,
		                   .timeout_ms = hook->config.timeout_ms,
		                   .headers = headers,
		                   .n_headers = ELEMENTSOF(headers) - 1,
		                   .body = { d->body.data, d->body.len } };
	int r;

	(void)snprintf(event, sizeof(event), "Brig-Event: %s", d->event);
	(void)snprintf(delivery, sizeof(delivery), "Brig-Delivery: %s", d->id);
	if (hook->secret_n) {
		r = hook_sign((struct str){ hook->secret, hook->secret_n }, (uint64_t)time(NULL),
		              text.body, value);
		if (r < 0)
			return r;
		(void)snprintf(header, sizeof(header), "Brig-Signature: %s", value);
		text.n_headers++;
	}
	return sender_send(h->sender, &text, on_answer, h, &d->order);
}

static void on_due(uv_timer_t *t)
{
	pump(t->data);
}

/* Sends what is due and has room, and sleeps until the next one is. */
static void pump(struct hooks *h)
{
	uint64_t now = clock_ms(), next = UINT64_MAX;

	for (struct delivery *d = h->queue; d; d = d->next) {
		struct hook *hook = &h->hooks[d->hook];

		/* With all its places taken, an answer pumps again. */
		if (d->order || hook->flying >= HOOK_FLYING_MAX)
			continue;
		if (d->due_ms <= now && send_one(h, d) >= 0) {
			hook->flying++;
			continue;
		}
		if (d->due_ms <= now)
			d->due_ms = now + AGAIN_MS;
		next = MIN2(next, d->due_ms);
	}
	if (next == UINT64_MAX)
		(void)uv_timer_stop(&h->timer);
	else
		(void)uv_timer_start(&h->timer, on_due, next - now, 0);
}

static int hook_open(struct hook *hook, const struct config_webhook *c, struct err *err)
{
	if (!sender_takes_url(c->url))
		return err_set(err, ERR_INVALID, 0,
		               "the url must be http:// or https://, in one line");
	hook->config = *c;
	if (!c->attempts)
		hook->config.attempts = 8;
	if (!c->timeout_ms)
		hook->config.timeout_ms = 10000;
	if (!c->secret_file)
		return 0;
	return hook_secret_read(c->secret_file, hook->secret, &hook->secret_n, err);
}

static void hooks_wipe(struct hooks *h)
{
	explicit_bzero(h->hooks, sizeof(h->hooks));
	free(h);
}

static int open_all(struct hooks *h, const struct daemon_config *config, struct err *err)
{
	for (size_t i = 0; i < config->n_webhooks; i++) {
		int r = hook_open(&h->hooks[i], &config->webhooks[i], err);

		if (r < 0)
			return err_wrap(err, r, "webhook %zu", i + 1);
		h->n_hooks++;
	}
	return 0;
}

int hooks_open(uv_loop_t *loop, const struct daemon_config *config, struct sender *sender,
               struct hooks **ret, struct err *err)
{
	struct hooks *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return err_set(err, ERR_INTERNAL, ENOMEM, "webhooks");
	h->sender = sender;
	h->tail = &h->queue;
	r = open_all(h, config, err);
	if (r >= 0) {
		r = uv_timer_init(loop, &h->timer);
		if (r < 0)
			(void)err_set(err, ERR_INTERNAL, -r, "timer");
	}
	if (r < 0) {
		hooks_wipe(h);
		return r;
	}
	h->timer.data = h;
	*ret = h;
	return 0;
}

static void on_closed(uv_handle_t *timer)
{
	hooks_wipe(timer->data);
}

void hooks_close(struct hooks *h)
{
	if (!h)
		return;
	if (h->sender)
		sender_forget(h->sender, h);
	while (h->queue)
		queue_remove(h, &h->queue);
	uv_close((uv_handle_t *)&h->timer, on_closed);
}

void hooks_counts(const struct hooks *h, struct hooks_counts *ret)
{
	*ret = h->counts;
}

bool hooks_is_idle(const struct hooks *h)
{
	return !h->queue;
}
