/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What takes long and needs nothing of the pool, in threads beside the one that turns. What a piece
 * of work touches is its thread's alone from put to done. Without threads it is done at once. There
 * are never more pieces than calls.
 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "pool/pool_impl.h"

#define THREADS_MAX 8
#define STACK_BYTES (512 * KIB) /* the deepest: JSON, and a chunk of a file */

struct work_list {
	struct pool_work *first, **last;
};

struct works {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct work_list todo, over;
	int event; /* readable: something is over */
	bool closing;
	pthread_t threads[THREADS_MAX];
	unsigned n_threads;
};

static void list_add(struct work_list *l, struct pool_work *w)
{
	w->next = NULL;
	*l->last = w;
	l->last = &w->next;
}

static struct pool_work *list_take(struct work_list *l)
{
	struct pool_work *w = l->first;

	if (w) {
		l->first = w->next;
		if (!l->first)
			l->last = &l->first;
	}
	return w;
}

static void *in_thread(void *data)
{
	struct works *ws = data;
	const uint64_t one = 1;

	(void)pthread_mutex_lock(&ws->lock);
	for (;;) {
		struct pool_work *w = list_take(&ws->todo);

		if (!w && ws->closing)
			break;
		if (!w) {
			(void)pthread_cond_wait(&ws->more, &ws->lock);
			continue;
		}
		(void)pthread_mutex_unlock(&ws->lock);
		w->run(w->call);
		(void)pthread_mutex_lock(&ws->lock);
		list_add(&ws->over, w);
		(void)!write(ws->event, &one, sizeof(one));
	}
	(void)pthread_mutex_unlock(&ws->lock);
	return NULL;
}

/* Signals are for the thread that turns. */
static int start_thread(struct works *ws)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int r = pthread_attr_init(&attr);

	if (r)
		return -r;
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&ws->threads[ws->n_threads], &attr, in_thread, ws);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	if (!r)
		ws->n_threads++;
	return -r;
}

int pool_threads(struct pool *p, unsigned n, struct err *err)
{
	struct works *ws = calloc(1, sizeof(*ws));
	int r;

	if (!ws)
		return err_set(err, ERR_INTERNAL, ENOMEM, "threads");
	(void)pthread_mutex_init(&ws->lock, NULL);
	(void)pthread_cond_init(&ws->more, NULL);
	ws->todo.last = &ws->todo.first;
	ws->over.last = &ws->over.first;
	ws->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->works = ws;
	r = ws->event < 0 ? -errno : pool_observe(p, ws->event, EPOLLIN, TAG_WORK, 0);
	for (unsigned i = 0; i < MIN2(n, (unsigned)THREADS_MAX) && r >= 0; i++)
		r = start_thread(ws);
	if (r >= 0)
		return 0;
	pool_end_threads(p);
	return err_set(err, ERR_INTERNAL, -r, "threads");
}

void work_put(struct pool *p, struct pool_work *w)
{
	struct works *ws = p->works;

	if (!ws || !ws->n_threads) {
		w->run(w->call);
		w->done(p, w->call);
		return;
	}
	(void)pthread_mutex_lock(&ws->lock);
	list_add(&ws->todo, w);
	(void)pthread_cond_signal(&ws->more);
	(void)pthread_mutex_unlock(&ws->lock);
}

void works_reap(struct pool *p)
{
	struct works *ws = p->works;
	struct pool_work *w;
	uint64_t n;

	(void)!read(ws->event, &n, sizeof(n));
	do {
		(void)pthread_mutex_lock(&ws->lock);
		w = list_take(&ws->over);
		(void)pthread_mutex_unlock(&ws->lock);
		if (w)
			w->done(p, w->call);
	} while (w);
}

void pool_end_threads(struct pool *p)
{
	struct works *ws = p->works;

	if (!ws)
		return;
	(void)pthread_mutex_lock(&ws->lock);
	ws->closing = true;
	(void)pthread_cond_broadcast(&ws->more);
	(void)pthread_mutex_unlock(&ws->lock);
	for (unsigned i = 0; i < ws->n_threads; i++)
		(void)pthread_join(ws->threads[i], NULL);
	ws->n_threads = 0; /* what is put from here on is done at once */
	works_reap(p);
	p->works = NULL;
	(void)fd_close(ws->event);
	(void)pthread_cond_destroy(&ws->more);
	(void)pthread_mutex_destroy(&ws->lock);
	free(ws);
}
