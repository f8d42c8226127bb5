/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * STEP 3: a person confirms. A question is durable before anybody sees it; it is bound to the
 * digest of exactly what will run, is answered once, and expires to a denial. All of it is in the
 * ledger's file and part of the ledger's groups, so any process with the state directory can
 * answer, and a restart forgets nothing.
 *
 * Time: within one boot the clock that counts is CLOCK_BOOTTIME; a step of the date changes
 * nothing. After a reboot the date has to do.
 */

#include "base/err.h"
#include "base/str.h"
#include "ledger/ledger.h"
#include "model/approval.h"

/* Arguments, environment and the beginnings of files, all of them escaped. */
#define APPROVAL_SUMMARY_MAX  (8 * MIB)
#define APPROVALS_LISTED_MAX  1000
#define APPROVALS_WAITING_MAX 500 /* questions in one state directory */

struct confirm_question {
	const char *job;
	const char *session; /* NULL: none */
	const char *asker;
	enum language language;
	struct str code;
	const uint8_t *digest, *rest; /* SHA256_SIZE each */
	const struct decision *decision;
	struct str summary; /* JSON for people: findings, decision, limits, files, ... */
};

struct confirm_answer {
	const char *id;
	const char *actor;
	bool remote; /* known by more than the uid of this process: a token, a session */
	bool allow;
	enum remember scope;    /* of an allow */
	uint64_t remember_ms;   /* of REMEMBER_DIGEST */
	const char *reason;     /* NULL: none */
	const uint8_t *digest;  /* what the approver saw; NULL: whatever it is bound to */
	const struct str *code; /* NULL: as asked; else to run in its place */
	/* What an answer that counts brings about besides, in its group; NULL: nothing. */
	int (*with)(void *data, struct err *err);
	void *data;
};

/*
 * A standing "yes" for this digest, if there is one: an allow once that nobody used, one for the
 * session, one until a time. It counts only as far as the policy of today permits and the record
 * knows of it, and not for whoever gave it where he may not answer himself. Uses it within the
 * ledger's group: 1 and *ret, 0 when there is none.
 */
int confirm_use(struct ledger *l, const uint8_t digest[SHA256_SIZE], const struct decision *d,
                const char *asker, const char *session, const char *job, struct approval *ret,
                struct err *err);
/*
 * Whatever the policy says of people: an agent is not its own supervisor. Also of two tokens of one
 * name, of which one was made when the other was gone.
 */
bool actor_is_own_token(const char *asker, const char *actor);
/*
 * Records the question in the ledger's group; the caller commits before he shows it to anybody. A
 * waiting question for the same thing whose asker died is taken over. -EBUSY with ERR_LIMIT when
 * too many of the session wait.
 */
int confirm_ask(struct ledger *l, const struct confirm_question *q, struct approval *ret,
                struct err *err);
/*
 * Decides, durably, and wakes whoever waits. A second answer (-EALREADY, ERR_CONFLICT), one that
 * comes too late (-ETIME, ERR_EXPIRED), for another digest (-ESTALE, ERR_CONFLICT), by one who may
 * not (-EPERM, ERR_DENIED) or for more than the policy permits are refused, and recorded.
 */
int confirm_answer(struct ledger *l, const struct confirm_answer *x, struct approval *ret,
                   struct err *err);
/* Without a daemon only root can answer for others, so root has nobody. */
bool asker_is_root(const char *asker);
/* The asker's next incarnation waits for it from now on; in the ledger's group. */
int confirm_adopt(struct ledger *l, const char *id, struct err *err);
/* How it stands; one that is over its time expires by this. */
int confirm_look(struct ledger *l, const char *id, struct approval *ret, struct err *err);
/* The asker goes away: a question that still waits is withdrawn; in the ledger's group. */
int confirm_withdraw(struct ledger *l, const char *id, const char *actor, struct err *err);
/* An allow that still stands is taken back. */
int confirm_revoke(struct ledger *l, const char *id, const char *actor, struct err *err);

typedef int approval_fn(void *data, const struct approval *a); /* non-zero ends it */
/* Newest first; `all`: also those that are over. */
int confirm_each(struct ledger *l, bool all, approval_fn *fn, void *data, struct err *err);
/* Oldest first; those that nobody has answered, and no yes that stands. */
int confirm_each_waiting(struct ledger *l, approval_fn *fn, void *data, struct err *err);
/* The id itself, or the one that begins with `prefix`. */
int confirm_find(struct ledger *l, const char *prefix, char ret[EXECUTION_ID_SIZE],
                 struct err *err);
/* Code (as it is to run) and summary of one; either may be NULL. */
int confirm_texts(struct ledger *l, const char *id, struct buf *code, struct buf *summary,
                  struct err *err);
/*
 * Before the ledger's rows from before `before_us` go: what still waits or stands is said once
 * more, so that the record goes on to know of it. Gives the time to prune by: rows of now stay.
 */
int confirm_keep(struct ledger *l, uint64_t *before_us, struct err *err);
/* Removes questions from before `before_us` that are over; in a group of its own. */
int confirm_prune(struct ledger *l, uint64_t before_us, struct err *err);
/*
 * Does every approval say what the ledger's events say of it? 0, or why not (a static text). The
 * ledger itself was found sound.
 */
const char *confirm_verify(struct ledger *l, char ret_id[EXECUTION_ID_SIZE]);

/* A file that is written to when something was answered; *ret_fd is readable then. */
int bell_watch(const char *dir, int *ret_fd, struct err *err);
void bell_drain(int fd);
void bell_ring(const char *dir);

/* Ways to reach somebody who answers. All members are mandatory. */
struct channel;
struct channel_ops {
	const char *name;
	/* Shows a durable question. An answer may come at any time from now on. */
	int (*ask)(struct channel *c, struct ledger *l, const struct approval *a, struct err *err);
	/* Called when fd is readable; answers by confirm_answer(). */
	int (*turn)(struct channel *c, struct ledger *l, struct err *err);
	/* FD_NONE: never readable. */
	int (*fd)(const struct channel *c);
	/* The question is settled, by whomever. */
	void (*settled)(struct channel *c, const struct approval *a);
};

struct channel {
	const struct channel_ops *ops;
	const char *actor;
};

/* Services for development and for tests; what they do is in the ledger under their names. */
extern const struct channel_ops channel_auto_approve, channel_auto_deny;
