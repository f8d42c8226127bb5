/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of approvals says how things stand, and the chain does not cover it: what it says
 * counts only as far as the events in the record say the same.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "confirm/impl.h"

#define VALUE_MAX 256

/* Where the value of `key` begins in a detail that approval_row_event() wrote; NULL: it has none.
 */
static const char *find_value(struct str detail, const char *key)
{
	char mark[32];
	const char *at;

	(void)snprintf(mark, sizeof(mark), "\"%s\":", key);
	at = memmem(detail.p, detail.n, mark, strlen(mark));
	return at ? at + strlen(mark) : NULL;
}

static bool text_of(struct str detail, const char *key, char *ret, size_t n)
{
	const char *at = find_value(detail, key), *end;

	if (!at || at >= detail.p + detail.n || *at++ != '"')
		return false;
	end = memchr(at, '"', (size_t)(detail.p + detail.n - at));
	if (!end || (size_t)(end - at) >= n)
		return false;
	memcpy(ret, at, (size_t)(end - at));
	ret[end - at] = '\0';
	return true;
}

/* Is the value of `key` this JSON? One that the event does not have is not compared. */
static bool agrees(struct str detail, const char *key, const struct buf *json)
{
	const char *at = find_value(detail, key);

	return !at || ((size_t)(detail.p + detail.n - at) > json->len &&
	               memcmp(at, json->data, json->len) == 0 &&
	               (at[json->len] == ',' || at[json->len] == '}'));
}

static bool text_agrees(struct str detail, const char *key, const char *text)
{
	CLEANUP_BUF struct buf json = BUF_INIT((size_t)8 * VALUE_MAX);

	json_put_cstr(&json, text);
	return buf_finish(&json) >= 0 && agrees(detail, key, &json);
}

static bool time_agrees(struct str detail, const char *key, uint64_t time_us)
{
	CLEANUP_BUF struct buf json = BUF_INIT(VALUE_MAX);

	if (!time_us)
		return !find_value(detail, key);
	json_put_time(&json, time_us);
	return buf_finish(&json) >= 0 && find_value(detail, key) && agrees(detail, key, &json);
}

static bool event_agrees(const struct approval *a, const struct ledger_row *row)
{
	char hex[SHA256_HEX_SIZE], text[SHA256_HEX_SIZE];

	sha256_hex(a->digest, hex);
	return text_of(row->detail, "digest", text, sizeof(text)) && streq(text, hex) &&
	       text_agrees(row->detail, "scope", remember_name(a->scope)) &&
	       time_agrees(row->detail, "until", a->until_us) && streq(row->session, a->session) &&
	       text_agrees(row->detail, "asker", a->asker) &&
	       text_agrees(row->detail, "by", a->answered_by) &&
	       (!streq(row->name, "approval.allowed") || streq(row->actor, a->answered_by));
}

struct search {
	const struct approval *a;
	struct approval_known known;
};

/* The last event counts. */
static int hear(void *data, const struct ledger_row *row)
{
	struct search *s = data;
	char text[EXECUTION_ID_SIZE];
	const char *at = find_value(row->detail, "answered_us");

	if (!text_of(row->detail, "approval", text, sizeof(text)) || !streq(text, s->a->id))
		return 0;
	if (streq(row->name, "approval.allowed"))
		s->known.answered_us = row->time_us;
	else if (at)
		s->known.answered_us = strtoull(at, NULL, 10);
	s->known.time_us = row->time_us;
	s->known.agrees = text_of(row->detail, "state", text, sizeof(text)) &&
	                  streq(text, approval_state_name(s->a->state)) && event_agrees(s->a, row);
	return 0;
}

int approval_known(struct ledger *l, const struct approval *a, struct approval_known *ret,
                   struct err *err)
{
	struct search s = { .a = a };
	int r = *a->job ? ledger_each(l,
	                              &(struct ledger_filter){ .job = a->job, .kind = "approval" },
	                              hear, &s, err)
	                : 0;

	if (r < 0)
		return r;
	*ret = s.known;
	return 0;
}

/* ---- all of them ---- */

/* One approval, and what the ledger's last event of it says. */
struct pair {
	struct approval a;
	char state[16];
	bool found, same;
};

struct pairs {
	struct pair *v;
	size_t n;
	uint64_t first_us; /* the oldest row that is left */
	bool cut;          /* rows before it were removed, rightly */
};

static int gather(void *data, const struct approval *a)
{
	struct pairs *p = data;

	if (p->n < APPROVALS_LISTED_MAX)
		p->v[p->n++].a = *a;
	return 0;
}

static int hear_all(void *data, const struct ledger_row *row)
{
	struct pairs *p = data;
	char id[EXECUTION_ID_SIZE];

	if (!text_of(row->detail, "approval", id, sizeof(id)))
		return 0;
	for (size_t i = 0; i < p->n; i++) {
		struct pair *k = &p->v[i];

		if (!streq(id, k->a.id))
			continue;
		k->found = text_of(row->detail, "state", k->state, sizeof(k->state));
		k->same = event_agrees(&k->a, row);
	}
	return 0;
}

/* A sound ledger that does not begin with row 1 has a signed stub. */
static int note_first(void *data, const struct ledger_row *row)
{
	struct pairs *p = data;

	p->first_us = row->time_us;
	p->cut = row->seq > 1;
	return 1;
}

static const char *compare(const struct pair *k, const struct pairs *p)
{
	const struct approval *a = &k->a;
	/* Its time is over, and nobody has come by since. */
	bool overdue = a->state == APPROVAL_EXPIRED &&
	               (streq(k->state, "waiting") || streq(k->state, "allowed"));
	/* Its events were removed; what waits or stands is told again before that. */
	bool gone = p->cut && a->created_us < p->first_us && a->state != APPROVAL_ALLOWED &&
	            a->state != APPROVAL_WAITING;

	if (!k->found)
		return gone ? NULL : "an approval that the ledger does not know";
	if (!overdue && !streq(k->state, approval_state_name(a->state)))
		return "an approval in another state than the ledger says";
	return k->same ? NULL
	               : "an approval for another digest, scope, time or person than the ledger "
	                 "says";
}

const char *confirm_verify(struct ledger *l, char ret_id[EXECUTION_ID_SIZE])
{
	CLEANUP_FREE struct pair *v = calloc(APPROVALS_LISTED_MAX, sizeof(*v));
	struct pairs p = { .v = v };
	const char *why = NULL;

	*ret_id = '\0';
	if (!v)
		return "no memory to compare the approvals";
	if (confirm_each(l, true, gather, &p, NULL) < 0)
		return "the approvals could not be read";
	if (ledger_each(l, &(struct ledger_filter){ .limit = 1 }, note_first, &p, NULL) < 0 ||
	    ledger_each(l, &(struct ledger_filter){ .kind = "approval" }, hear_all, &p, NULL) < 0)
		return "the ledger could not be read";
	for (size_t i = 0; i < p.n && !why; i++) {
		why = compare(&v[i], &p);
		if (why)
			(void)snprintf(ret_id, EXECUTION_ID_SIZE, "%s", v[i].a.id);
	}
	return why;
}
