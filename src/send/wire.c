/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "send/send.h"

int inbox_fill(struct inbox *in, int sock)
{
	ssize_t got;

	if (in->n == sizeof(in->data))
		return 0;
	got = recv(sock, in->data + in->n, sizeof(in->data) - in->n, MSG_DONTWAIT);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (got == 0)
		return -EPIPE;
	in->n += (size_t)got;
	return 1;
}

/* The texts: each ends in NUL, and there are as many as the head says. */
static int split_texts(const char *p, size_t n, struct send_frame *f)
{
	for (uint32_t i = 0; i < f->head.n_headers + 1; i++) {
		const char *end = n ? memchr(p, '\0', n) : NULL;

		if (!end)
			return -EPROTO;
		if (i == 0)
			f->url = p;
		else
			f->headers[i - 1] = p;
		n -= (size_t)(end + 1 - p);
		p = end + 1;
	}
	return n ? -EPROTO : 1;
}

int inbox_frame(const struct inbox *in, struct send_frame *ret)
{
	struct send_frame f = { 0 };
	size_t texts;
	int r;

	if (in->n < sizeof(f.head))
		return 0;
	memcpy(&f.head, in->data, sizeof(f.head));
	if (f.head.size > SEND_FRAME_MAX || f.head.size < sizeof(f.head) ||
	    f.head.body_n > f.head.size - sizeof(f.head) || f.head.n_headers > SEND_HEADERS_MAX ||
	    f.head.timeout_ms == 0 || f.head.timeout_ms > SEND_TIMEOUT_MAX)
		return -EPROTO;
	if (in->n < f.head.size)
		return 0;
	texts = f.head.size - sizeof(f.head) - f.head.body_n;
	f.body = in->data + sizeof(f.head) + texts;
	r = split_texts(in->data + sizeof(f.head), texts, &f);
	if (r > 0)
		*ret = f;
	return r;
}

void inbox_drop(struct inbox *in, const struct send_frame *frame)
{
	in->n -= frame->head.size;
	memmove(in->data, in->data + frame->head.size, in->n);
}
