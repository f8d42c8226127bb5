/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sender.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "daemon/sender_impl.h"

#define RESTART_MIN_MS 100
#define RESTART_MAX_MS 10000
#define REAP_MS        20
#define LINE_SIZE      256
#define URL_MAX        2048
/* Answers taken in one turn of the loop: others are served in between. */
#define ANSWERS_A_TURN 64

struct order {
	struct order *next;
	uint64_t id;
	struct buf frame;
	size_t off;      /* of it, given to this brig-send */
	unsigned deaths; /* of brig-send, while it had some of it */
	sender_done *done;
	void *data;
};

struct sender {
	uv_loop_t *loop;
	uv_timer_t timer; /* until brig-send is started again */
	uv_poll_t *poll;  /* of the socket; NULL: brig-send does not run */
	int sock;
	pid_t pid; /* 0: there is none that we have not waited for */
	struct order *orders;
	struct order **tail;
	unsigned n_orders;
	uint64_t next_id, answered, starts;
	unsigned failures; /* of brig-send in a row */
	struct send_answer in;
	size_t in_n; /* bytes of it that are there */
	sender_log *log;
	void *log_data;
	char program[PATH_MAX];
};

static void start(struct sender *s);

void sender_say(struct sender *s, const char *fmt, ...)
{
	char line[LINE_SIZE];
	va_list ap;

	if (!s->log)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	s->log(s->log_data, line);
}

static void order_free(struct order *o)
{
	buf_done(&o->frame);
	free(o);
}

static void order_add(struct sender *s, struct order *o)
{
	*s->tail = o;
	s->tail = &o->next;
	s->n_orders++;
}

static struct order *order_take(struct sender *s, struct order **at)
{
	struct order *o = *at;

	*at = o->next;
	if (s->tail == &o->next)
		s->tail = at;
	o->next = NULL;
	s->n_orders--;
	return o;
}

static void order_answer(struct sender *s, struct order *o, const struct send_answer *a)
{
	s->answered++;
	if (o->done)
		o->done(o->data, o->id, a);
	order_free(o);
}

static struct order *order_to_write(struct sender *s)
{
	struct order *o = s->orders;

	while (o && o->off == o->frame.len)
		o = o->next;
	return o;
}

static void on_closed(uv_handle_t *h)
{
	free(h);
}

static void drop_link(struct sender *s)
{
	if (s->poll)
		uv_close((uv_handle_t *)s->poll, on_closed);
	s->poll = NULL;
	s->sock = fd_close(s->sock);
	s->in_n = 0;
	if (s->pid > 0)
		(void)kill(s->pid, SIGKILL); /* our child, not waited for: the number is its own */
}

/* An order that may be the cause must not be tried for ever. */
static struct order *take_hopeless(struct sender *s, bool all_count)
{
	struct order *hopeless = NULL, **end = &hopeless;

	for (struct order **at = &s->orders; *at;) {
		struct order *o = *at;

		if (o->off || all_count)
			o->deaths++;
		o->off = 0;
		if (o->deaths < SENDER_DEATHS_MAX) {
			at = &o->next;
			continue;
		}
		*end = order_take(s, at);
		end = &(*end)->next;
	}
	return hopeless;
}

static void on_restart(uv_timer_t *t)
{
	struct sender *s = t->data;
	pid_t r = s->pid > 0 ? waitpid(s->pid, NULL, WNOHANG) : -1;

	if (r == 0) {
		(void)uv_timer_start(t, on_restart, REAP_MS, 0);
		return;
	}
	s->pid = 0;
	if (s->orders)
		start(s);
}

/* It is gone, or (never_was) could not be started. */
static void lost(struct sender *s, bool never_was)
{
	uint64_t wait = RESTART_MIN_MS;
	struct order *hopeless;

	drop_link(s);
	for (unsigned i = 0; i < s->failures && wait < RESTART_MAX_MS; i++)
		wait *= 2;
	s->failures++;
	hopeless = take_hopeless(s, never_was);
	(void)uv_timer_start(&s->timer, on_restart, MIN2(wait, (uint64_t)RESTART_MAX_MS), 0);
	while (hopeless) {
		struct order *o = hopeless;
		struct send_answer a = { .id = o->id,
			                 .error = "brig-send ended before it answered" };

		hopeless = o->next;
		order_answer(s, o, &a);
	}
}

static int write_orders(struct sender *s)
{
	struct order *o;

	while ((o = order_to_write(s))) {
		ssize_t n = send(s->sock, o->frame.data + o->off, o->frame.len - o->off,
		                 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		o->off += (size_t)n;
	}
	return 0;
}

static void take_answer(struct sender *s)
{
	struct send_answer a = s->in;

	a.error[sizeof(a.error) - 1] = '\0';
	s->in_n = 0;
	s->failures = 0;
	for (struct order **at = &s->orders; *at; at = &(*at)->next)
		if ((*at)->id == a.id && (*at)->off == (*at)->frame.len) {
			order_answer(s, order_take(s, at), &a);
			return;
		}
}

static int read_answers(struct sender *s)
{
	for (int i = 0; i < ANSWERS_A_TURN;) {
		ssize_t n = recv(s->sock, (char *)&s->in + s->in_n, sizeof(s->in) - s->in_n,
		                 MSG_DONTWAIT);

		if (n == 0)
			return -EPIPE;
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		s->in_n += (size_t)n;
		if (s->in_n == sizeof(s->in)) {
			take_answer(s);
			i++;
		}
	}
	return 0;
}

static void on_socket(uv_poll_t *p, int status, int events);

static int watch(struct sender *s)
{
	return uv_poll_start(s->poll, UV_READABLE | (order_to_write(s) ? UV_WRITABLE : 0),
	                     on_socket);
}

static void on_socket(uv_poll_t *p, int status, int events)
{
	struct sender *s = p->data;
	int r = status;

	if (r >= 0 && events & UV_READABLE)
		r = read_answers(s);
	if (r >= 0 && events & UV_WRITABLE)
		r = write_orders(s);
	if (r >= 0)
		r = watch(s);
	if (r >= 0)
		return;
	sender_say(s, "brig-send ended; it is started again");
	lost(s, false);
}

static int link_up(struct sender *s, int ours)
{
	uv_poll_t *p = calloc(1, sizeof(*p));
	int r = p ? uv_poll_init(s->loop, p, ours) : -ENOMEM;

	if (r < 0) {
		free(p);
		return r;
	}
	p->data = s;
	s->poll = p;
	return watch(s);
}

static int start_program(struct sender *s)
{
	CLEANUP_FD int theirs = FD_NONE;
	pid_t pid = 0;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	s->sock = pair[0];
	/* Above every number that the child is about to fill. */
	theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, 10);
	r = theirs < 0 ? -errno : 0;
	(void)close(pair[1]);
	if (r >= 0)
		r = sender_spawn(s->program, theirs, &pid);
	if (r < 0)
		return r;
	s->pid = pid;
	return link_up(s, s->sock);
}

static void start(struct sender *s)
{
	int r = start_program(s);

	s->starts++;
	if (r >= 0)
		return;
	sender_say(s, "brig-send cannot be started: %s", strerror(-r));
	lost(s, true);
}

static void on_sender_closed(uv_handle_t *timer)
{
	free(timer->data);
}

int sender_open(uv_loop_t *loop, const char *program, sender_log *log, void *log_data,
                struct sender **ret, struct err *err)
{
	CLEANUP_FREE struct sender *s = calloc(1, sizeof(*s));
	int r = 0;

	if (!s)
		return err_set(err, ERR_INTERNAL, ENOMEM, "sender");
	s->loop = loop;
	s->sock = FD_NONE;
	s->tail = &s->orders;
	s->log = log;
	s->log_data = log_data;
	if (program)
		(void)snprintf(s->program, sizeof(s->program), "%s", program);
	else
		r = sender_find(s->program, sizeof(s->program), err);
	if (r < 0)
		return r;
	if (access(s->program, X_OK) < 0) {
		r = err_set(err, ERR_INTERNAL, errno, "no brig-send at %.160s", s->program);
		return err_remedy(err, r, "install brig again: make install");
	}
	r = uv_timer_init(loop, &s->timer);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "timer");
	s->timer.data = s;
	*ret = TAKE_PTR(s);
	return 0;
}

void sender_close(struct sender *s)
{
	if (!s)
		return;
	drop_link(s);
	if (s->pid > 0)
		while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
			;
	while (s->orders)
		order_free(order_take(s, &s->orders));
	uv_close((uv_handle_t *)&s->timer, on_sender_closed);
}

static bool is_one_line(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	return true;
}

bool sender_takes_url(const char *url)
{
	return (str_has_prefix(url, "http://") || str_has_prefix(url, "https://")) &&
	       strlen(url) <= URL_MAX && is_one_line(url);
}

static int put_frame(const struct order_text *text, uint64_t id, struct buf *frame)
{
	struct send_head head = { .id = id,
		                  .timeout_ms = MIN2(text->timeout_ms, SEND_TIMEOUT_MAX),
		                  .n_headers = (uint32_t)text->n_headers,
		                  .body_n = (uint32_t)text->body.n };

	if (text->n_headers > SEND_HEADERS_MAX || !text->timeout_ms || !sender_takes_url(text->url))
		return -EINVAL;
	if (text->body.n > SEND_FRAME_MAX)
		return -EFBIG;
	buf_put(frame, &head, sizeof(head));
	buf_put(frame, text->url, strlen(text->url) + 1);
	for (size_t i = 0; i < text->n_headers; i++) {
		if (!is_one_line(text->headers[i]))
			return -EINVAL;
		buf_put(frame, text->headers[i], strlen(text->headers[i]) + 1);
	}
	buf_put(frame, text->body.p, text->body.n);
	if (buf_finish(frame) < 0)
		return buf_finish(frame);
	head.size = (uint32_t)frame->len;
	memcpy(frame->data, &head, sizeof(head));
	return 0;
}

int sender_send(struct sender *s, const struct order_text *text, sender_done *done, void *data,
                uint64_t *ret_id)
{
	struct order *o;
	int r;

	if (s->n_orders >= SEND_TRANSFERS_MAX)
		return -ENOBUFS;
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	o->id = s->next_id + 1;
	o->frame = BUF_INIT(SEND_FRAME_MAX);
	o->done = done;
	o->data = data;
	r = put_frame(text, o->id, &o->frame);
	if (r < 0) {
		order_free(o);
		return r;
	}
	s->next_id++;
	order_add(s, o);
	*ret_id = o->id;
	/* Not from here: what fails at once would be answered before the caller knows the id. */
	if (s->poll)
		(void)watch(s);
	else if (!uv_is_active((uv_handle_t *)&s->timer))
		(void)uv_timer_start(&s->timer, on_restart, 0, 0);
	return 0;
}

void sender_forget(struct sender *s, const void *data)
{
	for (struct order *o = s->orders; o; o = o->next)
		if (o->data == data)
			o->done = NULL;
}

void sender_counts(const struct sender *s, struct sender_counts *ret)
{
	*ret = (struct sender_counts){ .answered = s->answered,
		                       .starts = s->starts,
		                       .waiting = s->n_orders };
}
