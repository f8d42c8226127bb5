/* SPDX-License-Identifier: Apache-2.0 */
/* A socket of our own: what waits to be sent on it, in order and with a bound. */
#include <errno.h>
#include <sys/uio.h>

#include "net/impl.h"

#define PIECES_AT_ONCE 16
#define PIECE_COST     64 /* counted for each, so that empty ones are not free */

void line_init(struct line *l, struct http_server *s)
{
	*l = (struct line){ .s = s, .watch.fd = FD_NONE, .next = s->lines };
	l->last = &l->first;
	if (s->lines)
		s->lines->prev = l;
	s->lines = l;
}

void line_due(struct line *l)
{
	if (l->due)
		return;
	l->due = true;
	l->due_next = l->s->due;
	l->s->due = l;
}

void line_over(struct line *l)
{
	l->over = true;
	line_due(l);
}

static void on_line(struct watch *w, uint32_t events)
{
	struct line *l = CONTAINER(w, struct line, watch);

	if (events & EPOLLIN && l->readable)
		l->readable(l);
	else if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
		line_over(l);
	if (events & EPOLLOUT)
		line_due(l);
}

static uint32_t line_interest(const struct line *l)
{
	return (l->readable ? EPOLLIN : 0u) | EPOLLRDHUP | (l->blocked_ms ? EPOLLOUT : 0u);
}

/* Takes the socket and the use, on success. */
int line_open(struct line *l, int fd, struct peer_use *use)
{
	int r = watch_start(l->s, &l->watch, fd, line_interest(l), on_line);

	if (r < 0) {
		(void)fd_close(fd);
		return r;
	}
	l->use = use;
	server_watch_tick(l->s);
	line_due(l);
	return 0;
}

static size_t piece_size(const struct piece *p)
{
	return p->head_n + (p->blob ? p->blob->n : 0) + p->tail_n;
}

/* The blob is referred to, not taken. head_n is at most sizeof(piece.head). No bound: for framing.
 */
int line_add(struct line *l, const char *head, size_t head_n, struct blob *b, size_t tail_n)
{
	struct piece *p;

	if (l->over)
		return -EPIPE;
	p = malloc(sizeof(*p));
	if (!p)
		return -ENOMEM;
	*p = (struct piece){ .head_n = (uint8_t)head_n, .tail_n = (uint8_t)tail_n };
	if (head_n)
		memcpy(p->head, head, head_n);
	p->blob = b ? blob_ref(b) : NULL;
	*l->last = p;
	l->last = &p->next;
	l->queued += piece_size(p) + PIECE_COST;
	line_due(l);
	return 0;
}

/* One piece of any size: whoever made it has bounded it, and this reader is not behind. */
int line_put(struct line *l, const char *head, size_t head_n, struct blob *b, size_t tail_n)
{
	size_t n = head_n + b->n + tail_n + PIECE_COST, bound = l->s->limits.stream_bytes;

	if (l->queued && (n > bound || l->queued > bound - n))
		return l->over ? -EPIPE : -ENOBUFS;
	return line_add(l, head, head_n, b, tail_n);
}

static void drop_first(struct line *l)
{
	struct piece *p = l->first;

	l->first = p->next;
	if (!l->first)
		l->last = &l->first;
	l->queued -= piece_size(p) + PIECE_COST;
	l->pongs -= p->pong;
	l->sent = 0;
	blob_unref(p->blob);
	free(p);
}

/* All that has not begun to go out. */
void line_drop_unsent(struct line *l)
{
	struct piece *begun = l->sent ? l->first : NULL;
	size_t sent = l->sent;

	if (begun)
		l->first = begun->next;
	while (l->first) {
		if (!l->first->next)
			l->last = &l->first;
		drop_first(l);
	}
	if (!begun)
		return;
	begun->next = NULL;
	l->first = begun;
	l->last = &begun->next;
	l->sent = sent;
}

static size_t add_part(struct iovec *iov, size_t n, const char *p, size_t len, size_t *skip)
{
	if (*skip >= len) {
		*skip -= len;
		return n;
	}
	iov[n].iov_base = (char *)(uintptr_t)p + *skip;
	iov[n].iov_len = len - *skip;
	*skip = 0;
	return n + 1;
}

static size_t gather(const struct line *l, struct iovec *iov)
{
	size_t n = 0, skip = l->sent;
	int left = PIECES_AT_ONCE;

	for (const struct piece *p = l->first; p && left-- > 0; p = p->next) {
		n = add_part(iov, n, p->head, p->head_n, &skip);
		if (p->blob)
			n = add_part(iov, n, p->blob->data, p->blob->n, &skip);
		n = add_part(iov, n, "\r\n", p->tail_n, &skip);
	}
	return n;
}

static void account(struct line *l, size_t n)
{
	l->s->counts.bytes_out += n;
	l->sent += n;
	while (l->first && l->sent >= piece_size(l->first)) {
		size_t rest = l->sent - piece_size(l->first);

		drop_first(l);
		l->sent = rest;
	}
}

/* False: the peer takes no more now, or never. */
static bool send_some(struct line *l)
{
	struct iovec iov[3 * PIECES_AT_ONCE];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = gather(l, iov) };
	ssize_t n = sendmsg(l->watch.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n > 0) {
		account(l, (size_t)n);
		l->blocked_ms = 0;
		return true;
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		l->over = true;
	else if (!l->blocked_ms)
		l->blocked_ms = server_now(l->s) + !server_now(l->s);
	return false;
}

void line_flush(struct line *l)
{
	if (l->watch.fd < 0)
		return; /* not open yet */
	while (l->first && send_some(l))
		;
	if (l->over)
		return;
	watch_change(l->s, &l->watch, line_interest(l));
	if (!l->first && l->flushed)
		l->flushed(l);
}

void line_tick(struct line *l, uint64_t now_ms)
{
	if (l->blocked_ms && now_ms - l->blocked_ms > l->s->limits.write_ms)
		line_over(l);
	if (l->tick)
		l->tick(l, now_ms);
}

static void forget_due(struct line *l)
{
	struct line **at = &l->s->due;

	while (*at && *at != l)
		at = &(*at)->due_next;
	if (*at)
		*at = l->due_next;
}

void line_done(struct line *l)
{
	int fd = l->watch.fd;

	if (l->due)
		forget_due(l);
	watch_stop(l->s, &l->watch);
	(void)fd_close(fd);
	while (l->first)
		drop_first(l);
	peer_release(l->s, l->use);
	if (l->prev)
		l->prev->next = l->next;
	else
		l->s->lines = l->next;
	if (l->next)
		l->next->prev = l->prev;
}
