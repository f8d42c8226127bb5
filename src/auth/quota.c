/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Who used how much. Everything that is metered is a bucket that leaks: what was used fills it,
 * time empties it, and what would make it overflow has to wait. An empty bucket is all zeros, so to
 * forget somebody who was idle for a minute is to forget nothing. Whoever has runs under way is
 * never forgotten.
 *
 * For one thread.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "auth/impl.h"
#include "base/str.h"

#define KEY_SIZE    48 /* an IPv6 address in text, or a principal's key */
#define BUCKETS     1024
#define SECOND_MS   1000u
#define MINUTE_MS   60000u
#define RATE_MAX    (UINT64_C(1) << 45) /* times two minutes in ms is still a number */
#define BURST_TIMES 2

struct bucket {
	uint64_t level; /* in units times the period's ms, so that a ms empties a whole number */
	uint64_t at_ms; /* when that was true */
};

struct entry {
	char key[KEY_SIZE]; /* "": free */
	uint32_t next;      /* with the same hash: index + 1; 0: none */
	uint32_t concurrent;
	uint64_t used_ms;
	struct bucket runs, bytes; /* failures count in `runs` */
};

struct table {
	struct entry *v;
	size_t n, max;
	uint32_t heads[BUCKETS]; /* index + 1 */
};

struct quotas {
	struct table principals, peers;
};

/* ---- the table ---- */

static uint32_t *head_of(struct table *t, const char *key)
{
	uint32_t h = 2166136261u;

	for (; *key; key++)
		h = (h ^ (unsigned char)*key) * 16777619u;
	return &t->heads[h % BUCKETS];
}

static struct entry *find(struct table *t, const char *key)
{
	for (uint32_t i = *head_of(t, key); i; i = t->v[i - 1].next)
		if (streq(t->v[i - 1].key, key))
			return &t->v[i - 1];
	return NULL;
}

static void unlink_entry(struct table *t, const struct entry *e)
{
	uint32_t *at = head_of(t, e->key), me = (uint32_t)(e - t->v) + 1;

	while (*at && *at != me)
		at = &t->v[*at - 1].next;
	if (*at)
		*at = e->next;
}

/* A free entry, or that of whoever was idle longest; NULL: all are busy. */
static struct entry *make_room(struct table *t)
{
	struct entry *oldest = NULL;

	if (t->n < t->max)
		return &t->v[t->n++];
	for (size_t i = 0; i < t->n; i++)
		if (!t->v[i].concurrent && (!oldest || t->v[i].used_ms < oldest->used_ms))
			oldest = &t->v[i];
	if (oldest)
		unlink_entry(t, oldest);
	return oldest;
}

static struct entry *use(struct table *t, const char *name, uint64_t now_ms)
{
	char key[KEY_SIZE];
	struct entry *e;
	uint32_t *head;

	(void)snprintf(key, sizeof(key), "%s", name);
	e = find(t, key);
	if (!e) {
		e = make_room(t);
		if (!e)
			return NULL;
		*e = (struct entry){ .next = 0 };
		memcpy(e->key, key, sizeof(key));
		head = head_of(t, key);
		e->next = *head;
		*head = (uint32_t)(e - t->v) + 1;
	}
	e->used_ms = MAX2(e->used_ms, now_ms);
	return e;
}

/* ---- the bucket ---- */

struct rate {
	uint64_t units;     /* per period */
	uint32_t period_ms; /* at most a minute */
	uint32_t burst;     /* how many periods' worth at once */
};

static void leak(struct bucket *b, const struct rate *r, uint64_t now_ms)
{
	uint64_t gone = now_ms > b->at_ms ? now_ms - b->at_ms : 0;

	b->at_ms = MAX2(b->at_ms, now_ms);
	if (gone >= (uint64_t)r->period_ms * r->burst || gone * r->units >= b->level)
		b->level = 0;
	else
		b->level -= gone * r->units;
}

/* 0, -EAGAIN, or -EFBIG when not even an empty bucket has room for it. */
static int take(struct bucket *b, const struct rate *r, uint64_t amount, uint64_t now_ms,
                uint32_t *ret_retry_ms)
{
	uint64_t room = r->units * r->period_ms * r->burst, add, over;

	leak(b, r, now_ms);
	b->level = MIN2(b->level, room); /* the rate may have been higher */
	if (amount > r->units * r->burst) {
		*ret_retry_ms = r->period_ms;
		return -EFBIG;
	}
	add = amount * r->period_ms;
	if (b->level + add > room) {
		over = b->level + add - room;
		*ret_retry_ms = (uint32_t)((over + r->units - 1) / r->units);
		return -EAGAIN;
	}
	b->level += add;
	return 0;
}

/* ---- what is metered ---- */

int quotas_new(struct quotas **ret)
{
	struct quotas *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->principals.max = QUOTA_KEYS_MAX;
	q->peers.max = QUOTA_PEERS_MAX;
	q->principals.v = calloc(QUOTA_KEYS_MAX, sizeof(*q->principals.v));
	q->peers.v = calloc(QUOTA_PEERS_MAX, sizeof(*q->peers.v));
	if (!q->principals.v || !q->peers.v) {
		quotas_free(q);
		return -ENOMEM;
	}
	*ret = q;
	return 0;
}

void quotas_free(struct quotas *q)
{
	if (!q)
		return;
	free(q->principals.v);
	free(q->peers.v);
	free(q);
}

int quota_take_run(struct quotas *q, const struct principal *p, uint64_t now_ms,
                   uint32_t *ret_retry_ms)
{
	struct entry *e = use(&q->principals, p->key, now_ms);
	const struct rate rate = { p->quota.runs_per_s, SECOND_MS, BURST_TIMES };
	int r = 0;

	/* Runs are counted also when nothing bounds them: a quota may come while they run. */
	if (!e || (p->quota.concurrent && e->concurrent >= p->quota.concurrent)) {
		*ret_retry_ms = QUOTA_RETRY_MS;
		return -EAGAIN;
	}
	if (rate.units)
		r = take(&e->runs, &rate, 1, now_ms, ret_retry_ms);
	if (r >= 0)
		e->concurrent++;
	return r;
}

void quota_give_run(struct quotas *q, const char *key)
{
	struct entry *e = find(&q->principals, key);

	if (e && e->concurrent)
		e->concurrent--;
}

int quota_take_bytes(struct quotas *q, const struct principal *p, uint64_t bytes, uint64_t now_ms,
                     uint32_t *ret_retry_ms)
{
	const struct rate rate = { MIN2(p->quota.bytes_per_min, RATE_MAX), MINUTE_MS, 1 };
	struct entry *e;

	if (!rate.units)
		return 0;
	e = use(&q->principals, p->key, now_ms);
	if (!e) {
		*ret_retry_ms = QUOTA_RETRY_MS;
		return -EAGAIN;
	}
	return take(&e->bytes, &rate, bytes, now_ms, ret_retry_ms);
}

int quota_take_failure(struct quotas *q, const char *peer, uint64_t now_ms, uint32_t *ret_retry_ms)
{
	static const struct rate rate = { QUOTA_FAILURES, MINUTE_MS, 1 };
	struct entry *e = use(&q->peers, peer, now_ms);

	if (!e) {
		*ret_retry_ms = QUOTA_RETRY_MS;
		return -EAGAIN;
	}
	return take(&e->runs, &rate, 1, now_ms, ret_retry_ms);
}
