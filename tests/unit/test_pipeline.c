/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "pipeline/pipeline.h"

/* An executor that notes what it was given. */
struct fake {
	struct executor base;
	int starts, refuse;
	struct request seen;
	bool hold; /* does not end by itself */
	struct job *held;
};

static int fake_start(struct executor *base, struct job *job, struct err *err)
{
	struct fake *f = (struct fake *)base;

	if (f->refuse)
		return err_set(err, ERR_SETUP, f->refuse, "no box");
	f->starts++;
	f->seen = job->effective;
	job->call = (struct pool_call *)f;
	f->held = job;
	job->result.state = RUN_FINISHED;
	job->result.has_exit_code = true;
	if (!f->hold)
		pipeline_ended(base->pipeline, job);
	return 0;
}

static void fake_cancel(struct executor *base, struct job *job)
{
	job->result.state = RUN_CANCELLED;
	pipeline_ended(base->pipeline, job);
}

static int fake_fd(const struct executor *base)
{
	(void)base;
	return FD_NONE;
}

static void fake_turn(struct executor *base, int timeout_ms)
{
	(void)base;
	(void)timeout_ms;
}

static const struct executor_ops fake_ops = { "fake",      TIER_JAIL, EXEC_CAP_CODE, fake_start,
	                                      fake_cancel, fake_fd,   fake_turn };

static const char policy_text[] =
	"version: 1\n"
	"name: test\n"
	"default: allow\n"
	"floor: { limits: { timeout: 5s } }\n"
	"approval: { expires: 60s, self: true, remember: session }\n"
	"rules:\n"
	"  - { name: no-eval, match: { risk: critical }, verdict: deny }\n"
	"  - { name: ask, match: { risk: high }, verdict: confirm }\n";

static char dir[64], policy[96];
static struct fake fake;
static struct channel channel;
static struct pipeline *pl;
static struct pipeline_config config;
static struct err err;
static int done;

static void open_all(void)
{
	FILE *f;

	(void)snprintf(dir, sizeof(dir), "/tmp/ut-brig-pipeline-XXXXXX");
	cr_assert(mkdtemp(dir) != NULL);
	(void)snprintf(policy, sizeof(policy), "%s/policy.yaml", dir);
	f = fopen(policy, "w");
	cr_assert(f && fputs(policy_text, f) >= 0 && fclose(f) == 0);
	fake = (struct fake){ .base.ops = &fake_ops };
	config = (struct pipeline_config){ .state_dir = dir,
		                           .policy = policy,
		                           .caller = "cli:1",
		                           .executors = { &fake.base },
		                           .n_executors = 1 };
	done = 0;
	cr_assert(pipeline_open(&config, &pl, &err) >= 0, "%s", err.msg);
}

static void close_all(void)
{
	pipeline_close(pl);
	if (fork() == 0) {
		(void)execlp("rm", "rm", "-rf", dir, (char *)NULL);
		_exit(1);
	}
	(void)wait(NULL);
}

TestSuite(pipeline, .init = open_all, .fini = close_all);

static void reopen(void)
{
	pipeline_close(pl);
	cr_assert(pipeline_open(&config, &pl, &err) >= 0, "%s", err.msg);
}

static void note(void *data, struct job *job)
{
	(void)data;
	(void)job;
	done++;
}

static void submit(struct job *job, const char *code)
{
	job_init(job);
	job->done = note;
	job->request.language = LANGUAGE_PYTHON;
	job->request.code = str_of(code);
	pipeline_submit(pl, job);
	pipeline_turn(pl);
}

#define SAFE     "print(1 + 1)"
#define HIGH     "import os"
#define CRITICAL "eval(x)"

struct trail {
	char text[400];
};

static int follow(void *data, const struct ledger_row *row)
{
	struct trail *t = data;
	size_t n = strlen(t->text);

	(void)snprintf(t->text + n, sizeof(t->text) - n, "%s%s", n ? " " : "", row->name);
	return 0;
}

/* The names of a job's rows. */
static const char *trail_of(const struct job *job)
{
	static struct trail t;

	t = (struct trail){ 0 };
	cr_assert(ledger_each(pipeline_ledger(pl), &(struct ledger_filter){ .job = job->id },
	                      follow, &t, &err) >= 0);
	return t.text;
}

Test(pipeline, safe_code_runs)
{
	static struct job job;

	submit(&job, SAFE);
	cr_expect(done == 1 && fake.starts == 1);
	cr_expect(job.state == JOB_FINISHED && job.result.state == RUN_FINISHED);
	cr_expect(job.result.risk && job.result.risk->level == RISK_SAFE);
	cr_expect_str_eq(trail_of(&job),
	                 "received analysed decided confirmed routed running finished");
	job_free_fields(&job);
}

Test(pipeline, what_runs_is_within_the_bounds_of_the_policy)
{
	static struct job job;

	submit(&job, SAFE);
	cr_expect(fake.seen.limits.timeout_ms == 5000);
	cr_expect_str_eq(job.lowered, "timeout");
	job_free_fields(&job);
}

Test(pipeline, critical_code_is_denied)
{
	static struct job job;

	submit(&job, CRITICAL);
	cr_expect(done == 1 && fake.starts == 0);
	cr_expect(job.state == JOB_DENIED && job.result.state == RUN_DENIED);
	cr_expect(job.result.error.code == ERR_DENIED);
	cr_expect_str_eq(trail_of(&job), "received analysed decided denied");
	job_free_fields(&job);
}

Test(pipeline, code_of_high_risk_waits)
{
	static struct job job;

	submit(&job, HIGH);
	for (int i = 0; i < 3; i++)
		pipeline_turn(pl);
	cr_expect(done == 0 && fake.starts == 0 && job.state == JOB_WAITING);
	pipeline_cancel(pl, &job);
	pipeline_turn(pl);
	cr_expect(done == 1 && job.state == JOB_CANCELLED && fake.starts == 0);
	cr_expect_str_eq(trail_of(&job), "received analysed decided approval.requested waiting "
	                                 "approval.withdrawn cancelled");
	job_free_fields(&job);
}

static void answer(const struct job *job, bool allow, const struct str *code)
{
	const struct confirm_answer x = {
		.id = job->approval.id, .actor = "cli:2", .allow = allow, .code = code
	};
	struct approval after;

	cr_assert(confirm_answer(pipeline_ledger(pl), &x, &after, &err) >= 0, "%s", err.msg);
	pipeline_turn(pl);
}

Test(pipeline, an_allowed_job_runs)
{
	static struct job job;

	submit(&job, HIGH);
	answer(&job, true, NULL);
	cr_expect(done == 1 && fake.starts == 1 && job.state == JOB_FINISHED);
	cr_expect_str_eq(job.result.approval_id, job.approval.id);
	job_free_fields(&job);
}

/* Another policy while a job waits. */
static void judge_by(const char *text)
{
	FILE *f = fopen(policy, "w");

	cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
	cr_assert(pipeline_reload(pl, policy, &err) >= 0, "%s", err.msg);
}

#define ASKED "received analysed decided approval.requested waiting approval.allowed "

Test(pipeline, a_yes_does_not_outweigh_a_policy_that_denies_by_now)
{
	static struct job job;

	submit(&job, HIGH);
	judge_by("version: 1\nname: late\ndefault: deny\nfloor: { limits: { timeout: 5s } }\n");
	answer(&job, true, NULL);
	cr_expect(done == 1 && fake.starts == 0 && job.state == JOB_DENIED);
	cr_expect(strstr(job.result.error.msg, "late") != NULL, "%s", job.result.error.msg);
	cr_expect_str_eq(trail_of(&job), ASKED "decided denied");
	job_free_fields(&job);
}

Test(pipeline, a_yes_is_for_the_bounds_that_were_seen)
{
	static struct job job;

	submit(&job, HIGH);
	judge_by("version: 1\nname: late\ndefault: confirm\n"
	         "approval: { self: true }\nfloor: { limits: { timeout: 4s } }\n");
	answer(&job, true, NULL);
	cr_expect(done == 1 && fake.starts == 0 && job.state == JOB_DENIED);
	cr_expect(strstr(job.result.error.msg, "changed") != NULL, "%s", job.result.error.msg);
	cr_expect_str_eq(trail_of(&job), ASKED "denied");
	job_free_fields(&job);
}

Test(pipeline, a_policy_that_allows_by_now_needs_no_yes)
{
	static struct job job;

	submit(&job, HIGH);
	judge_by("version: 1\nname: late\ndefault: allow\nfloor: { limits: { timeout: 4s } }\n");
	answer(&job, true, NULL);
	cr_expect(done == 1 && fake.starts == 1 && job.state == JOB_FINISHED);
	cr_expect(fake.seen.limits.timeout_ms == 4000);
	cr_expect_str_eq(trail_of(&job), ASKED "decided confirmed routed running finished");
	job_free_fields(&job);
}

Test(pipeline, a_refused_job_does_not_run)
{
	static struct job job;

	submit(&job, HIGH);
	answer(&job, false, NULL);
	cr_expect(done == 1 && fake.starts == 0 && job.state == JOB_DENIED);
	job_free_fields(&job);
}

Test(pipeline, edited_code_is_analysed_again_and_is_what_runs)
{
	static const struct str safer = STR("import os, sys");
	static struct job job;

	submit(&job, HIGH);
	answer(&job, true, &safer);
	cr_expect(done == 1 && fake.starts == 1);
	cr_expect(fake.seen.code.n == safer.n && memcmp(fake.seen.code.p, safer.p, safer.n) == 0);
	cr_expect_str_eq(
		trail_of(&job),
		"received analysed decided approval.requested waiting approval.allowed "
		"received analysed decided approval.used confirmed routed running finished");
	job_free_fields(&job);
}

Test(pipeline, edited_code_that_the_policy_denies_is_denied)
{
	static const struct str worse = STR(CRITICAL);
	static struct job job;

	submit(&job, HIGH);
	answer(&job, true, &worse);
	cr_expect(done == 1 && fake.starts == 0 && job.state == JOB_DENIED);
	job_free_fields(&job);
}

Test(pipeline, automatic_answers_say_who_they_are)
{
	static struct job job;

	channel = (struct channel){ &channel_auto_approve, "cli:1" };
	config.channels[0] = &channel;
	config.n_channels = 1;
	reopen();
	submit(&job, HIGH);
	cr_expect(fake.starts == 1 && job.state == JOB_FINISHED);
	cr_expect_str_eq(job.approval.answered_by, "auto-approve");
	job_free_fields(&job);
	channel.ops = &channel_auto_deny;
	submit(&job, HIGH);
	cr_expect(fake.starts == 1 && job.state == JOB_DENIED);
	job_free_fields(&job);
}

Test(pipeline, an_executor_that_fails_ran_nothing)
{
	static struct job job;

	fake.refuse = ENOMEM;
	submit(&job, SAFE);
	cr_expect(done == 1 && job.state == JOB_FAILED && job.result.state == RUN_SETUP_FAILED);
	cr_expect(job.result.error.code == ERR_SETUP);
	job_free_fields(&job);
}

Test(pipeline, a_running_job_can_be_stopped)
{
	static struct job job;

	fake.hold = true;
	submit(&job, SAFE);
	cr_expect(done == 0 && job.state == JOB_RUNNING);
	pipeline_cancel(pl, &job);
	pipeline_turn(pl);
	cr_expect(done == 1 && job.result.state == RUN_CANCELLED);
	job_free_fields(&job);
}

Test(pipeline, a_tier_without_an_executor_is_refused)
{
	static struct job job;

	job_init(&job);
	job.done = note;
	job.request.language = LANGUAGE_PYTHON;
	job.request.code = str_of(SAFE);
	job.request.tier = TIER_DOCKER;
	pipeline_submit(pl, &job);
	pipeline_turn(pl);
	cr_expect(done == 1 && fake.starts == 0 && job.result.error.code == ERR_UNSUPPORTED);
	cr_expect(*job.result.error.remedy);
	job_free_fields(&job);
}

Test(pipeline, browsing_and_files_are_refused_with_a_remedy)
{
	static struct job job;

	for (int action = ACTION_BROWSE; action < ACTION_COUNT; action++) {
		job_init(&job);
		job.done = note;
		job.request.action = (enum action)action;
		job.request.params = STR("url=http://example.org/\n");
		pipeline_submit(pl, &job);
		pipeline_turn(pl);
		cr_expect(fake.starts == 0 && job.result.error.code == ERR_UNSUPPORTED);
		cr_expect(*job.result.error.remedy);
		job_free_fields(&job);
	}
}

Test(pipeline, nothing_runs_when_the_record_fails)
{
	static struct job job;

	/* No row can be written any more. */
	cr_assert(sqlite3_exec(ledger_db(pipeline_ledger(pl)), "PRAGMA query_only = ON", NULL, NULL,
	                       NULL) == SQLITE_OK);
	submit(&job, SAFE);
	cr_expect(done == 1 && fake.starts == 0);
	cr_expect(job.result.state == RUN_SETUP_FAILED && job.result.error.code != ERR_NONE);
	job_free_fields(&job);
	cr_assert(sqlite3_exec(ledger_db(pipeline_ledger(pl)), "PRAGMA query_only = OFF", NULL,
	                       NULL, NULL) == SQLITE_OK);
	submit(&job, SAFE);
	cr_expect(fake.starts == 1, "it works again");
	job_free_fields(&job);
}

Test(pipeline, a_result_that_cannot_be_recorded_says_so)
{
	static struct job job;

	fake.hold = true;
	submit(&job, SAFE);
	cr_assert(sqlite3_exec(ledger_db(pipeline_ledger(pl)), "PRAGMA query_only = ON", NULL, NULL,
	                       NULL) == SQLITE_OK);
	pipeline_ended(pl, &job);
	pipeline_turn(pl);
	cr_expect(done == 1 && job.result.state == RUN_FINISHED);
	cr_expect(job.result.error.code != ERR_NONE);
	job_free_fields(&job);
}

Test(pipeline, one_that_cannot_be_recorded_takes_its_group_along)
{
	static struct job a, b;

	fake.hold = true;
	job_init(&a);
	a.done = note;
	a.request.language = LANGUAGE_PYTHON;
	a.request.code = str_of(SAFE);
	pipeline_submit(pl, &a); /* its rows wait for the commit */
	cr_assert(sqlite3_exec(ledger_db(pipeline_ledger(pl)), "PRAGMA query_only = ON", NULL, NULL,
	                       NULL) == SQLITE_OK);
	submit(&b, SAFE);
	cr_expect(fake.starts == 0 && done == 2);
	cr_expect(a.result.state == RUN_SETUP_FAILED && b.result.state == RUN_SETUP_FAILED);
	job_free_fields(&a);
	job_free_fields(&b);
}

/* Interrupts the first row that is written after a question was. */
static int interrupt_event(void *data)
{
	sqlite3 *db = ledger_db(pipeline_ledger(pl));
	bool *asked = data, *fired = asked + 1;

	for (sqlite3_stmt *stmt = NULL; (stmt = sqlite3_next_stmt(db, stmt));) {
		const char *sql = sqlite3_sql(stmt);

		if (!sql || !sqlite3_stmt_busy(stmt) || !strstr(sql, "INSERT"))
			continue;
		*asked = *asked || strstr(sql, "INTO approval");
		if (*asked && !*fired && strstr(sql, "event"))
			return *fired = true;
	}
	return 0;
}

Test(pipeline, a_question_that_cannot_be_recorded_takes_its_group_along)
{
	static struct job a, b;
	bool once[2] = { false, false }; /* asked, interrupted */

	sqlite3_progress_handler(ledger_db(pipeline_ledger(pl)), 1, interrupt_event, once);
	job_init(&a);
	a.done = note;
	a.request.language = LANGUAGE_PYTHON;
	a.request.code = str_of(SAFE);
	pipeline_submit(pl, &a); /* its rows wait for the commit, and go with the question's */
	job_init(&b);
	b.done = note;
	b.request.language = LANGUAGE_PYTHON;
	b.request.code = str_of(HIGH);
	pipeline_submit(pl, &b);
	sqlite3_progress_handler(ledger_db(pipeline_ledger(pl)), 0, NULL, NULL);
	pipeline_turn(pl);
	cr_expect(once[1], "it got so far");
	cr_expect(fake.starts == 0 && done == 2, "%d starts without a row", fake.starts);
	cr_expect(a.result.state == RUN_SETUP_FAILED && b.result.state == RUN_SETUP_FAILED);
	job_free_fields(&a);
	job_free_fields(&b);
}

Test(pipeline, without_a_record_what_needs_a_person_is_denied)
{
	static struct job job;

	config.no_record = true;
	reopen();
	submit(&job, HIGH);
	cr_expect(fake.starts == 0 && job.state == JOB_DENIED);
	job_free_fields(&job);
	submit(&job, SAFE);
	cr_expect(fake.starts == 1);
	job_free_fields(&job);
}

Test(pipeline, what_a_dead_process_left_running_is_lost)
{
	struct trail t = { 0 };
	int status;
	pid_t child = fork();

	if (child == 0) {
		static struct job job;

		if (pipeline_open(&config, &pl, &err) < 0)
			_exit(1);
		fake.hold = true;
		submit(&job, SAFE);
		_exit(job.state == JOB_RUNNING ? 0 : 1);
	}
	(void)waitpid(child, &status, 0);
	cr_assert(status == 0);
	reopen();
	cr_assert(ledger_each(pipeline_ledger(pl), &(struct ledger_filter){ .kind = "state" },
	                      follow, &t, &err) >= 0);
	cr_expect_str_eq(t.text, "received analysed decided confirmed routed running lost");
	reopen();
	t = (struct trail){ 0 };
	(void)ledger_each(pipeline_ledger(pl), &(struct ledger_filter){ .name = "lost" }, follow,
	                  &t, &err);
	cr_expect_str_eq(t.text, "lost", "once");
}

Test(pipeline, the_policy_that_holds_for_all_wins)
{
	static struct job job;
	char floor[96];
	FILE *f;

	(void)snprintf(floor, sizeof(floor), "%s/floor.yaml", dir);
	f = fopen(floor, "w");
	cr_assert(f && fputs("version: 1\nname: floor\ndefault: deny\n", f) >= 0 && fclose(f) == 0);
	config.floor_policy = floor;
	reopen();
	submit(&job, SAFE);
	cr_expect(fake.starts == 0 && job.state == JOB_DENIED);
	job_free_fields(&job);
}

Test(pipeline, a_thousand_jobs_in_one_turn)
{
	struct job *jobs = calloc(1000, sizeof(*jobs));

	cr_assert(jobs != NULL);
	for (int i = 0; i < 1000; i++) {
		job_init(&jobs[i]);
		jobs[i].done = note;
		jobs[i].request.language = LANGUAGE_PYTHON;
		jobs[i].request.code = str_of(SAFE);
		pipeline_submit(pl, &jobs[i]);
	}
	pipeline_turn(pl);
	cr_expect(done == 1000 && fake.starts == 1000);
	for (int i = 0; i < 1000; i++)
		job_free_fields(&jobs[i]);
	free(jobs);
}
