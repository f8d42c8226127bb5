/* SPDX-License-Identifier: Apache-2.0 */

/* The terminal as a channel: shows a question, takes one letter. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "cli/flow.h"
#include "cli/question.h"

/* More than the terminal's longest line: a read is never the rest of one. */
#define LINE_SIZE  8192
#define PLACE_SIZE 4200 /* an option and a path */

struct prompt {
	struct channel base;
	int tty;
	struct approval asked; /* id "": nothing is asked */
};

static void say(int tty, const char *p, size_t n)
{
	while (n) {
		ssize_t w = write(tty, p, n);

		if (w < 0 && errno != EINTR)
			return;
		if (w > 0) {
			p += w;
			n -= (size_t)w;
		}
	}
}

static void put_choices(struct prompt *p)
{
	const struct approval *a = &p->asked;

	(void)dprintf(
		p->tty, "Run it? [y]es, once%s%s, [n]o, [v]iew all: ",
		a->remember >= REMEMBER_SESSION && *a->session ? ", [s] yes, in this session" : "",
		a->remember >= REMEMBER_DIGEST ? ", [d] yes, as long as the policy permits" : "");
}

static int show(struct prompt *p, const struct desk *d, bool all, struct err *err)
{
	CLEANUP_BUF struct buf b = BUF_INIT(QUESTION_MAX);
	int r = question_show(d, &p->asked, all, &b, err);

	if (r < 0)
		return r;
	say(p->tty, "\n", 1);
	say(p->tty, b.data, b.len);
	put_choices(p);
	return 0;
}

/* Where somebody else than the asker answers, if there is one. */
static void tell_of_others(int fd, const struct desk *d, const struct approval *a)
{
	char options[PLACE_SIZE];

	desk_options(d, options, sizeof(options));
	if (d->ledger && asker_is_root(a->asker))
		(void)dprintf(fd,
		              "brig: the policy wants somebody else to answer, and for root nobody "
		              "else can allow it on this machine\n"
		              "      a policy with \"self: true\" lets the asker answer\n");
	else
		(void)dprintf(fd, "brig: the policy wants somebody else to answer, %s %s\n",
		              d->ledger ? "as root with" : "who may, with", options);
}

static void tell_where(int fd, const struct desk *d, const struct approval *a)
{
	char time[TIME_TEXT_SIZE];

	time_text(a->expires_us, time);
	if (!a->self)
		tell_of_others(fd, d, a);
	(void)dprintf(fd,
	              "brig: approval %s waits for an answer until %s\n"
	              "      brig approvals show %s; brig approvals allow|deny %s\n",
	              a->id, time, a->id, a->id);
}

int prompt_ask_at(struct channel *c, const struct desk *d, const struct approval *a,
                  struct err *err)
{
	struct prompt *p = (struct prompt *)c;

	if (*p->asked.id)
		return -EBUSY; /* one at a time; others are answered elsewhere */
	if (!a->self) {
		tell_where(p->tty, d, a);
		return 0;
	}
	p->asked = *a;
	(void)tcflush(p->tty, TCIFLUSH); /* keys pressed before the question are no answer */
	return show(p, d, false, err);
}

static int prompt_ask(struct channel *c, struct ledger *l, const struct approval *a,
                      struct err *err)
{
	return prompt_ask_at(c, &(struct desk){ .ledger = l }, a, err);
}

/* What a key means; false: nothing. */
static bool read_key(const struct prompt *p, char key, struct confirm_answer *ret)
{
	*ret = (struct confirm_answer){ .id = p->asked.id,
		                        .actor = p->base.actor,
		                        .digest = p->asked.digest,
		                        .reason = "at the terminal" };
	switch (key) {
	case 'n':
		return true;
	case 'y':
		break;
	case 's':
		ret->scope = REMEMBER_SESSION;
		break;
	case 'd':
		ret->scope = REMEMBER_DIGEST;
		ret->remember_ms = p->asked.remember_ms;
		break;
	default:
		return false;
	}
	ret->allow = true;
	return true;
}

static int answer(struct prompt *p, const struct desk *d, const struct confirm_answer *x)
{
	struct approval after;
	struct err err = { 0 };
	int r = desk_answer(d, x, &after, &err);

	if (r < 0) {
		(void)dprintf(p->tty, "brig: %s\n", err.msg);
		put_choices(p);
	}
	return r;
}

int prompt_turn_at(struct channel *c, const struct desk *d, struct err *err)
{
	struct prompt *p = (struct prompt *)c;
	struct confirm_answer x;
	char line[LINE_SIZE];
	ssize_t n = read(p->tty, line, sizeof(line));

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (!*p->asked.id)
		return 0;
	if (n == 0 && read_key(p, 'n', &x))
		return answer(p, d, &x);
	/* One letter and the end of the line; anything else is no answer. */
	if (n == 2 && line[1] == '\n' && line[0] == 'v')
		return show(p, d, true, err);
	if (n == 2 && line[1] == '\n' && read_key(p, line[0], &x))
		return answer(p, d, &x);
	put_choices(p);
	return 0;
}

static int prompt_turn(struct channel *c, struct ledger *l, struct err *err)
{
	return prompt_turn_at(c, &(struct desk){ .ledger = l }, err);
}

static int prompt_fd(const struct channel *c)
{
	return ((const struct prompt *)c)->tty;
}

/* For whoever was asked: a yes that was used is a yes, a question that nobody answered is over. */
static const char *outcome(const struct approval *a)
{
	return a->state == APPROVAL_USED      ? approval_state_name(APPROVAL_ALLOWED)
	       : a->state == APPROVAL_WAITING ? "not answered"
	                                      : approval_state_name(a->state);
}

static void prompt_settled(struct channel *c, const struct approval *a)
{
	struct prompt *p = (struct prompt *)c;

	if (!streq(p->asked.id, a->id))
		return;
	p->asked = (struct approval){ 0 };
	if (*a->answered_by)
		(void)dprintf(p->tty, "\nbrig: %s by %s\n", outcome(a), a->answered_by);
	else
		(void)dprintf(p->tty, "\nbrig: %s\n", outcome(a));
}

static const struct channel_ops ops = { "terminal", prompt_ask, prompt_turn, prompt_fd,
	                                prompt_settled };

/* Without a terminal: where to answer is said once, on standard error. */
void notice_at(const struct desk *d, const struct approval *a)
{
	tell_where(STDERR_FILENO, d, a);
}

static int notice_ask(struct channel *c, struct ledger *l, const struct approval *a,
                      struct err *err)
{
	(void)c;
	(void)err;
	notice_at(&(struct desk){ .ledger = l }, a);
	return 0;
}

static int notice_turn(struct channel *c, struct ledger *l, struct err *err)
{
	(void)c;
	(void)l;
	(void)err;
	return 0;
}

static int notice_fd(const struct channel *c)
{
	(void)c;
	return FD_NONE;
}

static void notice_settled(struct channel *c, const struct approval *a)
{
	(void)c;
	(void)a;
}

const struct channel_ops channel_notice = { "notice", notice_ask, notice_turn, notice_fd,
	                                    notice_settled };

struct channel *prompt_open(const char *actor)
{
	CLEANUP_FD int tty = open("/dev/tty", O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct prompt *p;

	/* A terminal that nobody looks at is none. */
	if (tty < 0 || !isatty(STDERR_FILENO))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->base = (struct channel){ &ops, actor };
	p->tty = fd_take(&tty);
	return &p->base;
}

void prompt_close(struct channel *c)
{
	struct prompt *p = (struct prompt *)c;

	if (!p)
		return;
	(void)fd_close(p->tty);
	free(p);
}
