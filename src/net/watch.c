/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "net/impl.h"

int watch_start(struct http_server *s, struct watch *w, int fd, uint32_t events,
                void (*ready)(struct watch *w, uint32_t events))
{
	struct epoll_event event = { .events = events, .data.ptr = w };

	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return -errno;
	*w = (struct watch){ .fd = fd, .events = events, .ready = ready };
	return 0;
}

void watch_change(struct http_server *s, struct watch *w, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = w };

	if (w->fd < 0 || w->events == events)
		return;
	w->events = events;
	(void)epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, w->fd, &event);
}

/* Also forgets what was already fetched for it. */
void watch_stop(struct http_server *s, struct watch *w)
{
	if (w->fd < 0)
		return;
	(void)epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
	w->fd = FD_NONE;
	for (int i = s->batch_at; i < s->batch_n; i++)
		if (s->batch[i].data.ptr == w)
			s->batch[i].data.ptr = NULL;
}

void watch_dispatch(struct http_server *s)
{
	int n = epoll_wait(s->epoll_fd, s->batch, BATCH, 0);

	s->batch_n = n > 0 ? n : 0;
	s->busy++;
	for (s->batch_at = 0; s->batch_at < s->batch_n;) {
		const struct epoll_event *event = &s->batch[s->batch_at++];
		struct watch *w = event->data.ptr;

		if (w)
			w->ready(w, event->events);
	}
	s->batch_n = 0;
	s->busy--;
}
