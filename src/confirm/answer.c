/* SPDX-License-Identifier: Apache-2.0 */

/* The approver's side: one answer, once, in time, for exactly that digest. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "confirm/impl.h"

/* Also a refused answer is recorded, in a group of its own. */
static int refuse(struct ledger *l, const struct approval_row *row, const char *actor, int r,
                  struct err *err)
{
	struct err lost = { 0 };

	if (approval_row_event(l, row, "approval.refused", actor, err ? err->msg : "", &lost) < 0 ||
	    ledger_commit(l, LEDGER_DISK, &lost) < 0) {
		ledger_abort(l);
		if (err)
			*err = lost;
		return -EIO;
	}
	return r;
}

static int set_expired(struct ledger *l, struct approval_row *row, struct err *err)
{
	int r;

	row->a.state = APPROVAL_EXPIRED;
	r = approval_row_update(l, row, err);
	if (r >= 0)
		r = approval_row_event(l, row, "approval.expired", "brig", NULL, err);
	return r < 0 ? r : 0;
}

static bool is_over(const struct approval_row *row)
{
	struct moment now;

	moment_now(&now);
	return approval_row_has_lapsed(row, &now);
}

static int check_open(struct ledger *l, struct approval_row *row, struct err *err)
{
	int r;

	if (is_over(row)) {
		r = set_expired(l, row, err);
		if (r < 0)
			return r;
	}
	if (row->a.state == APPROVAL_EXPIRED) {
		(void)err_set(err, ERR_EXPIRED, 0, "approval %s expired", row->a.id);
		return -ETIME;
	}
	if (row->a.state == APPROVAL_WAITING)
		return 0;
	(void)err_set(err, ERR_CONFLICT, 0, "approval %s is %s already%s%s", row->a.id,
	              approval_state_name(row->a.state), *row->a.answered_by ? ", by " : "",
	              row->a.answered_by);
	return -EALREADY;
}

static int check_scope(const struct approval *a, const struct confirm_answer *x, struct err *err)
{
	if (!x->allow || x->scope == REMEMBER_NOTHING)
		return 0;
	if (x->scope > a->remember) {
		(void)err_set(err, ERR_DENIED, 0, "the policy does not permit \"%s\"",
		              remember_name(x->scope));
		return err_remedy(err, -EPERM, "allow it once");
	}
	if (x->scope == REMEMBER_SESSION && !*a->session)
		return err_set(err, ERR_INVALID, 0, "the run belongs to no session");
	if (x->scope == REMEMBER_DIGEST && (!x->remember_ms || x->remember_ms > a->remember_ms)) {
		(void)err_set(err, ERR_DENIED, 0, "the policy permits at most %llu s",
		              (unsigned long long)(a->remember_ms / 1000));
		return -EPERM;
	}
	return 0;
}

bool actor_is_same(const char *asker, const char *actor)
{
	const char *a = strchr(asker, ':'), *b = strchr(actor, ':');

	/* "cli:1000" and "lib:1000" are one; "auto-approve" is nobody else than the asker. */
	return !b || streq(asker, actor) || (a && streq(a + 1, b + 1));
}

bool actor_is_own_token(const char *asker, const char *actor)
{
	size_t n = strcspn(asker, "#");

	return str_has_prefix(actor, "token:") && n == strcspn(actor, "#") &&
	       memcmp(asker, actor, n) == 0;
}

/*
 * A process is known by its uid: it must be a real one, and not that of whoever keeps the state
 * (who has asked, or could have asked by any name).
 */
static bool is_somebody_else(struct ledger *l, const struct approval *a,
                             const struct confirm_answer *x)
{
	struct stat st;

	if (actor_is_same(a->asker, x->actor))
		return false;
	return x->remote ||
	       (ids_are_real() && stat(ledger_dir(l), &st) == 0 && st.st_uid != geteuid());
}

bool asker_is_root(const char *asker)
{
	return streq(asker, "cli:0") || streq(asker, "lib:0");
}

static int not_by_the_asker(struct ledger *l, const struct approval *a,
                            const struct confirm_answer *x, struct err *err)
{
	(void)err_set(err, ERR_DENIED, 0, "the policy wants somebody else than the asker");
	if (x->remote)
		return err_remedy(err, -EPERM,
		                  "another user or token with the scope approve answers");
	if (asker_is_root(a->asker))
		return err_remedy(err, -EPERM,
		                  "nobody else can allow it on this machine; a policy with "
		                  "\"self: true\" lets the asker answer");
	return err_remedy(err, -EPERM, "root answers with --state-dir %.80s", ledger_dir(l));
}

static int check_answer(struct ledger *l, struct approval_row *row, const struct confirm_answer *x,
                        struct err *err)
{
	int r = check_open(l, row, err);

	if (r < 0)
		return r;
	if (x->digest && memcmp(x->digest, row->a.digest, SHA256_SIZE) != 0) {
		(void)err_set(err, ERR_CONFLICT, 0,
		              "the answer is for another digest than approval %s", row->a.id);
		return -ESTALE;
	}
	if (x->allow && !row->a.self && !is_somebody_else(l, &row->a, x))
		return not_by_the_asker(l, &row->a, x, err);
	return check_scope(&row->a, x, err);
}

static int set_code(struct ledger *l, struct approval_row *row, struct str code, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	int r;

	if (!code.n || code.n > REQUEST_CODE_MAX || memchr(code.p, 0, code.n))
		return err_set(err, ERR_INVALID, 0,
		               "the edited code is empty, too large or has a NUL");
	r = approvals_prepare(l, "UPDATE approval SET code = ?2 WHERE id = ?1", &s, err);
	if (r < 0)
		return r;
	(void)sqlite3_bind_text(s, 1, row->a.id, -1, SQLITE_STATIC);
	(void)sqlite3_bind_blob(s, 2, code.p, (int)code.n, SQLITE_STATIC);
	r = approvals_step(l, s, err);
	if (r < 0)
		return r;
	row->a.edited = true;
	request_digest_code(code, row->a.rest, row->a.digest);
	return 0;
}

static int apply(struct ledger *l, struct approval_row *row, const struct confirm_answer *x,
                 struct err *err)
{
	struct approval *a = &row->a;
	struct moment now;
	int r = 0;

	moment_now(&now);
	a->state = x->allow ? APPROVAL_ALLOWED : APPROVAL_DENIED;
	(void)snprintf(a->answered_by, sizeof(a->answered_by), "%s", x->actor);
	(void)snprintf(a->reason, sizeof(a->reason), "%s", x->reason ? x->reason : "");
	if (x->allow)
		a->scope = x->scope;
	if (x->allow && x->scope == REMEMBER_DIGEST) {
		a->until_us = now.real_us + x->remember_ms * 1000;
		row->until_boot_ms = now.boot_ms + x->remember_ms;
	}
	if (x->allow && x->code)
		r = set_code(l, row, *x->code, err);
	if (r >= 0)
		r = approval_row_update(l, row, err);
	if (r >= 0)
		r = approval_row_event(l, row, x->allow ? "approval.allowed" : "approval.denied",
		                       x->actor, a->reason, err);
	return r;
}

int confirm_answer(struct ledger *l, const struct confirm_answer *x, struct approval *ret,
                   struct err *err)
{
	struct err none = { 0 };
	struct approval_row row;
	int r;

	err = err ? err : &none;
	r = approvals_ready(l, err);
	if (r >= 0)
		r = ledger_begin(l, err); /* from here on nobody else decides */
	if (r >= 0)
		r = approval_row_get(l, x->id, &row, err);
	if (r < 0) {
		ledger_abort(l);
		return r;
	}
	r = check_answer(l, &row, x, err);
	if (r < 0)
		return refuse(l, &row, x->actor, r, err);
	r = apply(l, &row, x, err);
	if (r >= 0 && x->with)
		r = x->with(x->data, err);
	if (r >= 0)
		r = ledger_commit(l, LEDGER_DISK, err);
	if (r < 0) {
		ledger_abort(l);
		return r;
	}
	bell_ring(ledger_dir(l));
	*ret = row.a;
	return 0;
}

int confirm_look(struct ledger *l, const char *id, struct approval *ret, struct err *err)
{
	struct approval_row row;
	bool own_group = !ledger_in_group(l);
	int r = approval_row_get(l, id, &row, err);

	if (r >= 0 && is_over(&row)) {
		r = ledger_begin(l, err);
		if (r >= 0)
			r = approval_row_get(l, id, &row,
			                     err); /* it may have been answered meanwhile */
		if (r >= 0 && is_over(&row))
			r = set_expired(l, &row, err);
		if (r >= 0 && own_group)
			r = ledger_commit(l, LEDGER_DISK, err);
		if (r < 0 && own_group)
			ledger_abort(l);
	}
	if (r < 0)
		return r;
	*ret = row.a;
	return 0;
}

/* From one state to another, or nothing. */
static int end_if(struct ledger *l, const char *id, enum approval_state from,
                  enum approval_state to, const char *event, const char *actor, struct err *err)
{
	struct approval_row row;
	int r = approvals_ready(l, err);

	if (r >= 0)
		r = ledger_begin(l, err);
	if (r >= 0)
		r = approval_row_get(l, id, &row, err);
	if (r < 0 || row.a.state != from)
		return r < 0 ? r : 0;
	row.a.state = to;
	r = approval_row_update(l, &row, err);
	if (r >= 0)
		r = approval_row_event(l, &row, event, actor, NULL, err);
	return r < 0 ? r : 1;
}

int confirm_withdraw(struct ledger *l, const char *id, const char *actor, struct err *err)
{
	int r = end_if(l, id, APPROVAL_WAITING, APPROVAL_WITHDRAWN, "approval.withdrawn", actor,
	               err);

	return r < 0 ? r : 0;
}

int confirm_revoke(struct ledger *l, const char *id, const char *actor, struct err *err)
{
	int r = end_if(l, id, APPROVAL_ALLOWED, APPROVAL_REVOKED, "approval.revoked", actor, err);

	if (r == 0) {
		ledger_abort(l);
		(void)err_set(err, ERR_CONFLICT, 0, "approval %.26s does not stand", id);
		return -EALREADY;
	}
	if (r > 0)
		r = ledger_commit(l, LEDGER_DISK, err);
	if (r < 0)
		ledger_abort(l);
	return r < 0 ? r : 0;
}
