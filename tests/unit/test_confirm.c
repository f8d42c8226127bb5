/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "confirm/confirm.h"

static char dir[64];
static struct ledger *l;
static struct decision decision;
static struct err err;
static const char *user = "cli:1"; /* whose run it is */

static void open_state(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/ut-brig-confirm-XXXXXX");
	cr_assert(mkdtemp(dir) != NULL);
	cr_assert(ledger_open(dir, &l, &err) >= 0, "%s", err.msg);
	decision = (struct decision){ .verdict = VERDICT_CONFIRM,
		                      .reason = "because",
		                      .expires_ms = 60000,
		                      .remember = REMEMBER_DIGEST,
		                      .remember_ms = 60000,
		                      .self_approve = true,
		                      .pending_max = 3 };
}

static void close_state(void)
{
	char command[128];

	ledger_close(l);
	(void)snprintf(command, sizeof(command), "rm -rf %s", dir);
	cr_assert(execlp != NULL);
	if (fork() == 0) {
		(void)execlp("rm", "rm", "-rf", dir, (char *)NULL);
		_exit(1);
	}
	(void)wait(NULL);
}

TestSuite(confirm, .init = open_state, .fini = close_state);

/* One question about `code`, durable. */
static struct approval ask(const char *code, const char *session)
{
	struct approval a = { 0 };
	uint8_t digest[32], rest[32] = { 7 };
	struct confirm_question q = { .job = "job", .session = session, .asker = "cli:1" };

	request_digest_code(str_of(code), rest, digest);
	q.code = str_of(code);
	q.digest = digest;
	q.rest = rest;
	q.decision = &decision;
	q.summary = STR("{}");
	q.language = LANGUAGE_PYTHON;
	if (confirm_ask(l, &q, &a, &err) < 0) {
		ledger_abort(l);
		a.state = APPROVAL_NONE;
		return a;
	}
	cr_assert(ledger_commit(l, LEDGER_DISK, &err) >= 0, "%s", err.msg);
	return a;
}

static int answer(const struct approval *a, bool allow, enum remember scope, struct approval *ret)
{
	struct confirm_answer x = { .id = a->id,
		                    .actor = "cli:2",
		                    .allow = allow,
		                    .scope = scope,
		                    .remember_ms = scope == REMEMBER_DIGEST ? 50000 : 0 };

	return confirm_answer(l, &x, ret, &err);
}

static int use(const struct approval *a, const char *session)
{
	struct approval used;
	int r = confirm_use(l, a->digest, &decision, user, session, "job2", &used, &err);

	cr_assert(ledger_commit(l, LEDGER_PROCESS, NULL) >= 0);
	return r;
}

static int count(void *data, const struct ledger_row *row)
{
	(void)row;
	++*(int *)data;
	return 0;
}

static int events(const char *name)
{
	int n = 0;

	cr_assert(ledger_each(l, &(struct ledger_filter){ .name = name }, count, &n, &err) >= 0);
	return n;
}

Test(confirm, a_question_waits)
{
	struct approval a = ask("x", NULL), seen;

	cr_assert(confirm_look(l, a.id, &seen, &err) >= 0);
	cr_expect(seen.state == APPROVAL_WAITING);
	cr_expect(use(&a, NULL) == 0, "nobody has said yes");
	cr_expect(events("approval.requested") == 1);
}

Test(confirm, an_allow_once_is_used_once)
{
	struct approval a = ask("x", NULL), after;

	cr_assert(answer(&a, true, REMEMBER_NOTHING, &after) >= 0, "%s", err.msg);
	cr_expect(use(&a, NULL) == 1);
	cr_expect(use(&a, NULL) == 0);
	cr_assert(confirm_look(l, a.id, &after, &err) >= 0);
	cr_expect(after.state == APPROVAL_USED);
}

Test(confirm, an_allow_for_a_session_holds_there_and_only_there)
{
	struct approval a = ask("x", "s1"), after;

	cr_assert(answer(&a, true, REMEMBER_SESSION, &after) >= 0);
	cr_expect(use(&a, "s1") == 1);
	cr_expect(use(&a, "s1") == 1);
	cr_expect(use(&a, "s2") == 0);
	cr_expect(use(&a, NULL) == 0);
}

Test(confirm, an_allow_for_a_digest_holds_everywhere_for_that_digest_only)
{
	struct approval a = ask("x", "s1"), b = ask("y", "s1"), after;

	cr_assert(answer(&a, true, REMEMBER_DIGEST, &after) >= 0);
	cr_expect(use(&a, "s2") == 1);
	cr_expect(use(&b, "s1") == 0);
	cr_assert(confirm_revoke(l, a.id, "cli:2", &err) >= 0);
	cr_expect(use(&a, "s2") == 0, "it was taken back");
	cr_expect(confirm_revoke(l, a.id, "cli:2", &err) == -EALREADY);
}

Test(confirm, a_denial_is_final)
{
	struct approval a = ask("x", NULL), after;

	cr_assert(answer(&a, false, REMEMBER_NOTHING, &after) >= 0);
	cr_expect(after.state == APPROVAL_DENIED);
	cr_expect(use(&a, NULL) == 0);
	cr_expect(answer(&a, true, REMEMBER_NOTHING, &after) == -EALREADY);
	cr_expect(err.code == ERR_CONFLICT);
	cr_expect(events("approval.refused") == 1);
}

Test(confirm, an_answer_for_another_digest_is_refused)
{
	struct approval a = ask("x", NULL), after;
	uint8_t other[32] = { 1 };
	struct confirm_answer x = { .id = a.id, .actor = "cli:2", .allow = true, .digest = other };

	cr_expect(confirm_answer(l, &x, &after, &err) == -ESTALE);
	cr_expect(events("approval.refused") == 1);
	cr_expect(answer(&a, true, REMEMBER_NOTHING, &after) >= 0, "the question still stands");
}

Test(confirm, the_asker_may_not_answer_where_the_policy_says_so)
{
	struct approval a, after;
	struct confirm_answer x = { .actor = "cli:1", .allow = true };

	decision.self_approve = false;
	a = ask("x", NULL);
	x.id = a.id;
	cr_expect(confirm_answer(l, &x, &after, &err) == -EPERM);
	x.allow = false;
	cr_expect(confirm_answer(l, &x, &after, &err) >= 0, "he may take it back");
}

Test(confirm, the_same_uid_by_another_way_is_the_same_person)
{
	struct approval a, after;
	struct confirm_answer x = { .allow = true };

	decision.self_approve = false;
	a = ask("x", NULL);
	x.id = a.id;
	x.actor = "lib:1";
	cr_expect(confirm_answer(l, &x, &after, &err) == -EPERM);
	x.actor = "auto-approve";
	cr_expect(confirm_answer(l, &x, &after, &err) == -EPERM);
	x.actor = "cli:2";
	cr_expect(confirm_answer(l, &x, &after, &err) == -EPERM, "it keeps the state directory");
	x.remote = true;
	cr_expect(confirm_answer(l, &x, &after, &err) >= 0);
}

Test(confirm, a_yes_counts_as_far_as_the_policy_of_today_permits)
{
	struct approval a = ask("x", "s"), b = ask("y", "s"), after;
	struct confirm_answer own = { .id = b.id, .actor = "cli:1", .allow = true };

	cr_assert(answer(&a, true, REMEMBER_DIGEST, &after) >= 0);
	cr_assert(confirm_answer(l, &own, &after, &err) >= 0);
	decision.remember = REMEMBER_SESSION;
	cr_expect(use(&a, "s") == 0, "longer than is permitted now");
	decision.self_approve = false;
	cr_expect(use(&b, "s") == 0, "by the asker himself");
	decision.remember = REMEMBER_DIGEST;
	decision.self_approve = true;
	cr_expect(use(&a, "s") == 1 && use(&b, "s") == 1);
}

Test(confirm, a_yes_is_not_for_whoever_gave_it)
{
	struct approval a = ask("x", "s"), b = ask("y", "s"), after;

	cr_assert(answer(&a, true, REMEMBER_DIGEST, &after) >= 0);
	cr_assert(answer(&b, true, REMEMBER_SESSION, &after) >= 0);
	user = "lib:2"; /* the same person by another way */
	cr_expect(use(&a, "s") == 1, "the policy lets him answer himself");
	decision.self_approve = false;
	cr_expect(use(&a, "s") == 0 && use(&b, "s") == 0);
	user = "cli:3";
	cr_expect(use(&a, "s") == 1);
	user = "cli:1";
	cr_expect(use(&b, "s") == 1);
}

Test(confirm, a_token_never_uses_its_own_yes)
{
	struct approval a = ask("x", NULL), after;
	struct confirm_answer x = { .id = a.id,
		                    .actor = "token:t#1",
		                    .remote = true,
		                    .allow = true,
		                    .scope = REMEMBER_DIGEST,
		                    .remember_ms = 50000 };

	cr_assert(confirm_answer(l, &x, &after, &err) >= 0);
	user = "token:t#1";
	cr_expect(use(&a, NULL) == 0);
	user = "token:t#2";
	cr_expect(use(&a, NULL) == 0, "nor one that was made anew");
	user = "token:tt#1";
	cr_expect(use(&a, NULL) == 1);
}

static int refuse_with(void *data, struct err *e)
{
	++*(int *)data;
	return err_set(e, ERR_CONFLICT, 0, "no");
}

Test(confirm, what_comes_with_an_answer_is_one_with_it)
{
	struct approval a = ask("x", NULL), after;
	int n = 0;
	struct confirm_answer x = {
		.id = a.id, .actor = "cli:2", .allow = true, .with = refuse_with, .data = &n
	};

	cr_expect(confirm_answer(l, &x, &after, &err) < 0 && n == 1);
	cr_assert(confirm_look(l, a.id, &after, &err) >= 0);
	cr_expect(after.state == APPROVAL_WAITING && events("approval.allowed") == 0);
	cr_assert(answer(&a, false, REMEMBER_NOTHING, &after) >= 0);
	cr_expect(confirm_answer(l, &x, &after, &err) == -EALREADY && n == 1, "it did not count");
}

static int count_one(void *data, const struct approval *a)
{
	cr_expect(a->state == APPROVAL_WAITING);
	++*(int *)data;
	return 0;
}

Test(confirm, a_yes_that_stands_does_not_wait)
{
	struct approval a = ask("x", NULL), after;
	int n = 0;

	(void)ask("y", NULL);
	cr_assert(answer(&a, true, REMEMBER_DIGEST, &after) >= 0);
	cr_expect(confirm_each_waiting(l, count_one, &n, &err) == 0 && n == 1);
}

Test(confirm, more_than_the_policy_permits_is_refused)
{
	struct approval a, after;

	decision.remember = REMEMBER_NOTHING;
	a = ask("x", "s1");
	cr_expect(answer(&a, true, REMEMBER_SESSION, &after) == -EPERM);
	cr_expect(answer(&a, true, REMEMBER_DIGEST, &after) == -EPERM);
	decision.remember = REMEMBER_DIGEST;
	decision.remember_ms = 1000;
	a = ask("y", NULL);
	cr_expect(answer(&a, true, REMEMBER_DIGEST, &after) == -EPERM, "50 s are too long");
}

/* As if its time had passed, by the clock that counts within a boot. */
static void age(const char *id, const char *column)
{
	char sql[200];

	(void)snprintf(sql, sizeof(sql), "UPDATE approval SET %s = 1 WHERE id = '%s'", column, id);
	cr_assert(sqlite3_exec(ledger_db(l), sql, NULL, NULL, NULL) == SQLITE_OK);
}

Test(confirm, what_nobody_answers_expires)
{
	struct approval a = ask("x", NULL), after;

	age(a.id, "expires_boot");
	cr_expect(answer(&a, true, REMEMBER_NOTHING, &after) == -ETIME);
	cr_expect(err.code == ERR_EXPIRED);
	cr_assert(confirm_look(l, a.id, &after, &err) >= 0);
	cr_expect(after.state == APPROVAL_EXPIRED);
	cr_expect(events("approval.expired") == 1);
}

Test(confirm, the_date_decides_nothing_within_a_boot)
{
	struct approval a = ask("x", NULL), after;

	age(a.id, "expires_us"); /* the date was set back years: it is over, and yet it is not */
	cr_expect(answer(&a, true, REMEMBER_NOTHING, &after) >= 0, "%s", err.msg);
}

Test(confirm, after_a_reboot_the_date_decides)
{
	struct approval a = ask("x", NULL), after;
	char sql[200];

	(void)snprintf(sql, sizeof(sql),
	               "UPDATE approval SET boot = 'other', expires_us = 1 WHERE id = '%s'", a.id);
	cr_assert(sqlite3_exec(ledger_db(l), sql, NULL, NULL, NULL) == SQLITE_OK);
	cr_expect(answer(&a, true, REMEMBER_NOTHING, &after) == -ETIME);
}

Test(confirm, too_many_questions_are_refused)
{
	struct approval last;

	for (int i = 0; i < 3; i++)
		cr_assert(ask((const char *[]){ "a", "b", "c" }[i], "s").state == APPROVAL_WAITING);
	last = ask("d", "s");
	cr_expect(last.state == APPROVAL_NONE);
	cr_expect(err.code == ERR_LIMIT);
	cr_expect(ask("d", "other").state == APPROVAL_WAITING, "each session has its own count");
}

Test(confirm, many_sessions_cannot_ask_without_end)
{
	char session[16];
	int waiting = 0;

	for (int i = 0; i < APPROVALS_WAITING_MAX + 5; i++) {
		(void)snprintf(session, sizeof(session), "s%d", i);
		waiting += ask("x", session).state == APPROVAL_WAITING;
	}
	cr_expect(waiting == APPROVALS_WAITING_MAX, "%d", waiting);
	cr_expect(err.code == ERR_LIMIT);
}

Test(confirm, edited_code_has_its_own_digest)
{
	struct approval a = ask("x", NULL), after;
	const struct str code = STR("y");
	struct confirm_answer x = { .id = a.id, .actor = "cli:2", .allow = true, .code = &code };
	CLEANUP_BUF struct buf shown = BUF_INIT(100);
	struct approval edited = a;

	cr_assert(confirm_answer(l, &x, &after, &err) >= 0, "%s", err.msg);
	cr_expect(after.edited);
	cr_expect(use(&a, NULL) == 0, "what was asked for is not what was allowed");
	request_digest_code(code, a.rest, edited.digest);
	cr_expect(use(&edited, NULL) == 1);
	cr_assert(confirm_texts(l, a.id, &shown, NULL, &err) >= 0);
	cr_expect(shown.len == 1 && shown.data[0] == 'y');
}

Test(confirm, the_question_of_a_dead_process_is_taken_over)
{
	struct approval first, again;
	pid_t child = fork();

	if (child == 0) {
		struct ledger *theirs;

		/* Its own connection: SQLite's must not cross a fork. */
		l = NULL;
		if (ledger_open(dir, &theirs, NULL) < 0)
			_exit(1);
		l = theirs;
		_exit(ask("x", "s").state == APPROVAL_WAITING ? 0 : 1);
	}
	int status;
	(void)waitpid(child, &status, 0);
	cr_assert(status == 0);
	again = ask("x", "s");
	cr_expect(events("approval.requested") == 1);
	cr_expect(events("approval.taken_over") == 1);
	first = ask("x", "s"); /* this one lives: no two processes wait for one answer */
	cr_expect(!streq(first.id, again.id));
}

Test(confirm, the_bell_wakes_whoever_waits)
{
	struct approval a = ask("x", NULL), after;
	CLEANUP_FD int fd = FD_NONE;
	struct pollfd p;

	cr_assert(bell_watch(dir, &fd, &err) >= 0, "%s", err.msg);
	p = (struct pollfd){ fd, POLLIN, 0 };
	cr_expect(poll(&p, 1, 0) == 0);
	cr_assert(answer(&a, true, REMEMBER_NOTHING, &after) >= 0);
	cr_expect(poll(&p, 1, 1000) == 1);
	bell_drain(fd);
	cr_expect(poll(&p, 1, 0) == 0);
}

Test(confirm, a_changed_approval_is_found)
{
	struct approval a = ask("x", NULL), b = ask("y", NULL), after;
	char id[EXECUTION_ID_SIZE], sql[200];

	cr_assert(answer(&b, false, REMEMBER_NOTHING, &after) >= 0);
	cr_expect(confirm_verify(l, id) == NULL, "%s", id);
	(void)snprintf(sql, sizeof(sql), "UPDATE approval SET state = %d WHERE id = '%s'",
	               APPROVAL_ALLOWED, a.id);
	cr_assert(sqlite3_exec(ledger_db(l), sql, NULL, NULL, NULL) == SQLITE_OK);
	cr_expect(confirm_verify(l, id) != NULL);
	cr_expect_str_eq(id, a.id);
}

/* ?1 is the approval. */
static void change(const char *sql, const char *id)
{
	sqlite3_stmt *stmt;

	cr_assert(sqlite3_prepare_v2(ledger_db(l), sql, -1, &stmt, NULL) == SQLITE_OK, "%s",
	          sqlite3_errmsg(ledger_db(l)));
	(void)sqlite3_bind_text(stmt, 1, id, -1, SQLITE_STATIC);
	cr_assert(sqlite3_step(stmt) == SQLITE_DONE && sqlite3_finalize(stmt) == SQLITE_OK);
}

/* Whoever can write the database but not the chain. */
Test(confirm, a_yes_that_the_record_does_not_know_is_none)
{
	struct approval a = ask("x", NULL), after;
	char id[EXECUTION_ID_SIZE];

	cr_assert(answer(&a, false, REMEMBER_NOTHING, &after) >= 0);
	change("INSERT INTO approval SELECT 'forged', 'job9', session, asker, owner, boot, digest, "
	       "rest, 2, 1, 9000000000000000000, 9000000000000000000, 2, 9000000000, 1, 2, "
	       "9000000000000000000, 9000000000000000000, 0, 'cli:2', '', language, summary, code "
	       "FROM approval WHERE id = ?1",
	       a.id);
	cr_expect(confirm_verify(l, id) != NULL);
	cr_expect_str_eq(id, "forged");
	cr_expect(use(&a, NULL) == 0);
}

Test(confirm, a_yes_that_was_made_to_say_more_is_none)
{
	static const char *const changes[] = {
		("UPDATE approval SET scope = 2, until_us = 9000000000000000000, "
		 "until_boot = 9000000000000000000 WHERE id = ?1"),
		"UPDATE approval SET scope = 1 WHERE id = ?1",
		"UPDATE approval SET session = 's2' WHERE id = ?1",
		"UPDATE approval SET asker = 'cli:7' WHERE id = ?1",
		"UPDATE approval SET answered_by = 'cli:7' WHERE id = ?1",
	};

	for (size_t i = 0; i < ELEMENTSOF(changes); i++) {
		char code[8], id[EXECUTION_ID_SIZE];
		struct approval a, after;

		(void)snprintf(code, sizeof(code), "x%zu", i);
		a = ask(code, "s1");
		cr_assert(answer(&a, true, REMEMBER_NOTHING, &after) >= 0);
		cr_expect(confirm_verify(l, id) == NULL, "row %zu", i);
		change(changes[i], a.id);
		cr_expect(use(&a, "s1") == 0 && use(&a, "s2") == 0, "row %zu", i);
		cr_expect(confirm_verify(l, id) != NULL, "row %zu", i);
		cr_expect_str_eq(id, a.id);
		change("DELETE FROM approval WHERE id = ?1", a.id);
	}
}

Test(confirm, a_yes_that_was_taken_back_cannot_be_put_back)
{
	struct approval a = ask("x", NULL), after;

	cr_assert(answer(&a, true, REMEMBER_DIGEST, &after) >= 0);
	cr_expect(use(&a, NULL) == 1);
	cr_assert(confirm_revoke(l, a.id, "cli:2", &err) >= 0);
	change("UPDATE approval SET state = 2 WHERE id = ?1", a.id);
	cr_expect(use(&a, NULL) == 0);
}

Test(confirm, a_yes_for_a_time_cannot_be_drawn_out)
{
	struct approval a = ask("x", NULL), after;

	cr_assert(answer(&a, true, REMEMBER_DIGEST, &after) >= 0);
	change("UPDATE approval SET until_boot = until_boot + 3600000 WHERE id = ?1", a.id);
	cr_expect(use(&a, NULL) == 0);
}

Test(confirm, a_shorter_remember_for_counts_from_the_answer)
{
	struct approval a = ask("x", NULL), after;

	cr_assert(answer(&a, true, REMEMBER_DIGEST, &after) >= 0);
	decision.remember_ms = 30000;
	cr_expect(use(&a, NULL) == 1);
	decision.remember_ms = 20;
	(void)usleep(40000);
	cr_expect(use(&a, NULL) == 0);
	decision.remember_ms = 60000;
	cr_expect(use(&a, NULL) == 1);
}

Test(confirm, a_session_of_the_same_name_is_not_the_same_session)
{
	struct approval a = ask("x", "s1"), after;

	cr_assert(answer(&a, true, REMEMBER_SESSION, &after) >= 0);
	user = "cli:3";
	cr_expect(use(&a, "s1") == 0);
	user = "lib:1";
	cr_expect(use(&a, "s1") == 1, "the same person by another way");
}

/* Also what was answered long ago stands, and the record goes on to know of it. */
Test(confirm, what_stands_survives_a_cut)
{
	struct approval waits = ask("w", NULL), once = ask("o", NULL), session = ask("s", "s1"),
			over = { 0 }, after;
	char id[EXECUTION_ID_SIZE];
	uint64_t before_us = UINT64_MAX, rows;

	cr_assert(answer(&session, true, REMEMBER_SESSION, &after) >= 0);
	cr_assert(answer(&once, true, REMEMBER_DIGEST, &after) >= 0);
	over = ask("n", NULL);
	cr_assert(answer(&over, false, REMEMBER_NOTHING, &after) >= 0);
	change("UPDATE approval SET expires_us = 1 WHERE id = ?1", session.id);
	for (int i = 0; i < 2; i++) {
		(void)usleep(2000);
		before_us = UINT64_MAX;
		cr_assert(confirm_keep(l, &before_us, &err) >= 0, "%s", err.msg);
		cr_assert(ledger_prune(l, before_us, "test", &rows, &err) >= 0 && rows > 0);
		cr_assert(confirm_prune(l, before_us, &err) >= 0);
		cr_expect(confirm_verify(l, id) == NULL, "%s", id);
		cr_expect(use(&session, "s1") == 1 && use(&once, NULL) == 1);
	}
	decision.remember_ms = 1;
	cr_expect(use(&once, NULL) == 0, "it counts from the answer still");
	cr_expect(confirm_look(l, over.id, &after, &err) == -ENOENT);
	cr_expect(confirm_look(l, waits.id, &after, &err) >= 0 && after.state == APPROVAL_WAITING);
	change("UPDATE approval SET state = 2 WHERE id = ?1", waits.id);
	cr_expect(confirm_verify(l, id) != NULL);
}

/* After a cut an approval without events is one of those that went, unless it still stands. */
Test(confirm, a_cut_excuses_only_what_is_over)
{
	struct approval a = ask("x", NULL), after;
	char id[EXECUTION_ID_SIZE];
	uint64_t before_us = UINT64_MAX, rows;

	cr_assert(answer(&a, false, REMEMBER_NOTHING, &after) >= 0);
	(void)usleep(2000);
	cr_assert(confirm_keep(l, &before_us, &err) >= 0);
	cr_assert(ledger_prune(l, before_us, "test", &rows, &err) >= 0);
	cr_expect(confirm_verify(l, id) == NULL, "%s", id);
	change("UPDATE approval SET state = 2, expires_boot = 9000000000000000000 WHERE id = ?1",
	       a.id);
	cr_expect(confirm_verify(l, id) != NULL);
	cr_expect(use(&a, NULL) == 0);
}
