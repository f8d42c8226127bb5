/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a connection may take. A list for each thing that is waited for, in the order of its
 * start: of those with a fixed time only the first is looked at, so that ten thousand idle
 * connections cost nothing. Of the others there are few.
 */
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "net/impl.h"

static void list_remove(struct conn_list *list, struct conn *c)
{
	if (c->prev)
		c->prev->next = c->next;
	else
		list->first = c->next;
	if (c->next)
		c->next->prev = c->prev;
	else
		list->last = c->prev;
	c->prev = c->next = NULL;
}

static void list_append(struct conn_list *list, struct conn *c)
{
	c->prev = list->last;
	c->next = NULL;
	if (list->last)
		list->last->next = c;
	else
		list->first = c;
	list->last = c;
}

void conn_set_pace(struct conn *c, enum pace pace)
{
	struct http_server *s = c->s;

	if (c->pace != PACE_NONE)
		list_remove(&s->paces[c->pace], c);
	c->pace = pace;
	c->since_ms = server_now(s);
	c->unsent = 0;
	if (pace != PACE_NONE)
		list_append(&s->paces[pace], c);
	s->moves++;
}

/* MHD finds the socket at its end, and cleans up; also where that is no news to the kernel. */
void conn_kill(struct conn *c)
{
	conn_set_pace(c, PACE_NONE);
	(void)shutdown(c->fd, SHUT_RDWR);
	server_dirty(c->s);
}

static void kill_refusing(struct conn *c)
{
	c->s->counts.refused++;
	answer_refuse_raw(c, MHD_HTTP_REQUEST_TIMEOUT);
	conn_kill(c);
}

static void tick_fixed(struct http_server *s, enum pace pace, unsigned limit_ms, uint64_t now)
{
	struct conn *c;

	while ((c = s->paces[pace].first) && now - c->since_ms > limit_ms) {
		if (pace == PACE_HEADER)
			kill_refusing(c);
		else
			conn_kill(c);
	}
}

static void tick_bodies(struct http_server *s, uint64_t now)
{
	struct conn *next;

	for (struct conn *c = s->paces[PACE_BODY].first; c; c = next) {
		uint64_t took = now - c->since_ms;

		next = c->next;
		if (took > BODY_GRACE_MS &&
		    c->request->body.len < took * s->limits.body_bytes_per_s / 1000)
			kill_refusing(c);
	}
}

/* The client takes something as long as the kernel's queue changes. */
static void tick_answers(struct http_server *s, uint64_t now)
{
	struct conn *next;

	for (struct conn *c = s->paces[PACE_ANSWER].first; c; c = next) {
		int unsent = 0;

		next = c->next;
		(void)ioctl(c->fd, SIOCOUTQ, &unsent);
		if (unsent != c->unsent) {
			c->unsent = unsent;
			c->since_ms = now;
		} else if (now - c->since_ms > s->limits.write_ms) {
			conn_kill(c);
		}
	}
}

void pace_tick(struct http_server *s)
{
	uint64_t now = server_now(s);

	tick_fixed(s, PACE_IDLE, s->limits.idle_ms, now);
	tick_fixed(s, PACE_HEADER, s->limits.header_ms, now);
	tick_bodies(s, now);
	tick_answers(s, now);
	for (struct line *l = s->lines; l; l = l->next)
		line_tick(l, now);
}
