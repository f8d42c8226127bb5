/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives its process: keys, results, questions that go on. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "pipeline/kept.h"
#include "pipeline/pipeline.h"

/* An executor that ends at once, or holds. */
struct fake {
	struct executor base;
	int starts;
	bool hold;
	size_t output;
};

static int fake_start(struct executor *base, struct job *job, struct err *e)
{
	struct fake *f = (struct fake *)base;

	(void)e;
	f->starts++;
	job->call = (struct pool_call *)f;
	job->result.state = RUN_FINISHED;
	job->result.has_exit_code = true;
	job->result.out = BUF_INIT(f->output);
	for (size_t i = 0; i < f->output; i++)
		buf_putc(&job->result.out, 'x');
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

static const char policy_text[] = "version: 1\n"
				  "name: test\n"
				  "default: allow\n"
				  "approval: { expires: 60s, self: true }\n"
				  "rules:\n"
				  "  - { name: ask, match: { risk: high }, verdict: confirm }\n";

#define SAFE "print(1 + 1)"
#define HIGH "import os"
#define BODY "{\"language\":\"python\",\"code\":\"" HIGH "\"}"

static char dir[64], policy[96];
static struct fake fake;
static struct pipeline *pl;
static struct pipeline_config config;
static struct err err;

static void write_policy(const char *text)
{
	FILE *f = fopen(policy, "w");

	cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void open_all(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/ut-brig-kept-XXXXXX");
	cr_assert(mkdtemp(dir) != NULL);
	(void)snprintf(policy, sizeof(policy), "%s/policy.yaml", dir);
	write_policy(policy_text);
	fake = (struct fake){ .base.ops = &fake_ops, .output = 2 };
	config = (struct pipeline_config){ .state_dir = dir,
		                           .policy = policy,
		                           .caller = "uid:1",
		                           .executors = { &fake.base },
		                           .n_executors = 1 };
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

TestSuite(kept, .init = open_all, .fini = close_all);

static void reopen(void)
{
	pipeline_close(pl);
	cr_assert(pipeline_open(&config, &pl, &err) >= 0, "%s", err.msg);
}

static void ignore(void *data, struct job *job)
{
	(void)data;
	(void)job;
}

static void prepare(struct job *job, const char *code, const char *key)
{
	job_init(job);
	job->done = ignore;
	job->request.language = LANGUAGE_PYTHON;
	job->request.code = str_of(code);
	job->request.idempotency_key = key;
}

static void submit(struct job *job, const char *code, const char *key)
{
	prepare(job, code, key);
	pipeline_submit(pl, job);
	pipeline_turn(pl);
}

static int look(const char *caller, const char *code, const char *key, char id[EXECUTION_ID_SIZE])
{
	uint8_t digest[SHA256_SIZE];
	struct request req;

	request_init(&req);
	req.language = LANGUAGE_PYTHON;
	req.code = str_of(code);
	req.idempotency_key = key;
	request_digest_key(&req, digest);
	err = (struct err){ 0 };
	return kept_find_key(pl, caller, key, digest, id, &err);
}

struct seen {
	char state[32], result[512], key[32], caller[32];
	size_t n, result_n;
};

static int see(void *data, const struct kept *k)
{
	struct seen *s = data;

	(void)snprintf(s->state, sizeof(s->state), "%s", k->state);
	(void)snprintf(s->key, sizeof(s->key), "%s", k->key);
	(void)snprintf(s->caller, sizeof(s->caller), "%s", k->caller);
	(void)snprintf(s->result, sizeof(s->result), "%.*s", (int)k->result.n, k->result.p);
	s->result_n = k->result.n;
	s->n++;
	return 0;
}

Test(kept, a_key_stands_for_its_execution)
{
	static struct job job;
	char id[EXECUTION_ID_SIZE] = "";

	cr_expect(look("uid:1", SAFE, "k", id) == 0);
	submit(&job, SAFE, "k");
	cr_expect(job.result.state == RUN_FINISHED);
	cr_expect(look("uid:1", SAFE, "k", id) == 1);
	cr_expect_str_eq(id, job.id);
	cr_expect(look("uid:2", SAFE, "k", id) == 0, "another caller's keys are others");
	cr_expect(look("uid:1", SAFE, "l", id) == 0);
	job_free_fields(&job);
}

Test(kept, a_key_of_another_request_is_a_conflict)
{
	static struct job job;
	char id[EXECUTION_ID_SIZE] = "";

	submit(&job, SAFE, "k");
	cr_expect(look("uid:1", "print(3)", "k", id) == -EEXIST);
	cr_expect(err.code == ERR_CONFLICT);
	job_free_fields(&job);
}

Test(kept, the_same_key_never_runs_twice)
{
	static struct job job, again, other;

	submit(&job, SAFE, "k");
	submit(&again, SAFE, "k");
	submit(&other, "print(3)", "k");
	cr_expect(fake.starts == 1);
	cr_expect(again.state == JOB_FAILED && again.result.error.code == ERR_CONFLICT);
	cr_expect(other.state == JOB_FAILED && other.result.error.code == ERR_CONFLICT);
	job_free_fields(&job);
	job_free_fields(&again);
	job_free_fields(&other);
}

Test(kept, a_conflict_does_not_take_others_along)
{
	static struct job job, again, other;

	submit(&job, SAFE, "k");
	prepare(&again, SAFE, "k");
	prepare(&other, SAFE, NULL);
	pipeline_submit(pl, &other);
	pipeline_submit(pl, &again); /* in one group with it */
	pipeline_turn(pl);
	cr_expect(again.state == JOB_FAILED);
	cr_expect(other.state == JOB_FINISHED && other.result.state == RUN_FINISHED);
	job_free_fields(&job);
	job_free_fields(&again);
	job_free_fields(&other);
}

Test(kept, a_key_holds_after_a_restart)
{
	static struct job job, again;
	char id[EXECUTION_ID_SIZE] = "";

	submit(&job, SAFE, "k");
	reopen();
	cr_expect(look("uid:1", SAFE, "k", id) == 1);
	submit(&again, SAFE, "k");
	cr_expect(fake.starts == 1);
	job_free_fields(&job);
	job_free_fields(&again);
}

Test(kept, the_result_is_there_after_a_restart)
{
	static struct job job;
	struct seen s = { 0 };

	prepare(&job, SAFE, NULL);
	job.keep = true;
	pipeline_submit(pl, &job);
	pipeline_turn(pl);
	reopen();
	cr_expect(kept_get(pl, job.id, see, &s, &err) == 1);
	cr_expect_str_eq(s.state, "finished");
	cr_expect(strstr(s.result, "\"stdout\":\"xx\"") != NULL, "%s", s.result);
	cr_expect(strstr(s.result, job.id) != NULL);
	job_free_fields(&job);
}

Test(kept, what_nobody_wants_kept_is_not)
{
	static struct job job;
	struct seen s = { 0 };

	submit(&job, SAFE, NULL);
	cr_expect(kept_get(pl, job.id, see, &s, &err) == 0);
	job_free_fields(&job);
}

Test(kept, a_denial_is_kept_with_its_reason)
{
	static struct job job;
	struct seen s = { 0 };

	write_policy("version: 1\nname: no\ndefault: deny\n");
	cr_assert(pipeline_reload(pl, policy, &err) >= 0);
	submit(&job, SAFE, "k");
	cr_expect(kept_get(pl, job.id, see, &s, &err) == 1);
	cr_expect_str_eq(s.state, "denied");
	cr_expect(strstr(s.result, "\"code\":\"denied\"") != NULL, "%s", s.result);
	job_free_fields(&job);
}

Test(kept, a_result_that_is_too_large_is_kept_without_its_output)
{
	static struct job job;
	struct seen s = { 0 };

	fake.output = KEPT_RESULT_MAX + 1;
	submit(&job, SAFE, "k");
	cr_expect(kept_get(pl, job.id, see, &s, &err) == 1);
	cr_expect_str_eq(s.state, "finished");
	cr_expect(s.result_n > 0 && s.result_n < 64 * KIB);
	cr_expect(job.result.out.len == KEPT_RESULT_MAX + 1, "the caller gets all of it");
	job_free_fields(&job);
}

/* In a process that dies: the job is where it is then. */
static void die_with(const char *code, bool hold, const char *key, char id[EXECUTION_ID_SIZE],
                     enum job_state state)
{
	int ends[2], status;
	pid_t child;

	cr_assert(pipe(ends) == 0);
	child = fork();
	if (child == 0) {
		static struct job job;
		static const char body[] = BODY;

		if (pipeline_open(&config, &pl, &err) < 0)
			_exit(1);
		fake.hold = hold;
		prepare(&job, code, key);
		job.keep = true;
		job.body = (struct str){ body, sizeof(body) - 1 };
		pipeline_submit(pl, &job);
		pipeline_turn(pl);
		if (write(ends[1], job.id, sizeof(job.id)) != sizeof(job.id))
			_exit(1);
		_exit(job.state == state ? 0 : 2);
	}
	cr_assert(read(ends[0], id, EXECUTION_ID_SIZE) == EXECUTION_ID_SIZE);
	(void)close(ends[0]);
	(void)close(ends[1]);
	(void)waitpid(child, &status, 0);
	cr_assert(status == 0);
}

Test(kept, what_a_dead_process_left_running_is_lost_and_its_key_taken)
{
	static struct job again;
	char id[EXECUTION_ID_SIZE], found[EXECUTION_ID_SIZE] = "";
	struct seen s = { 0 };

	die_with(SAFE, true, "k", id, JOB_RUNNING);
	reopen();
	cr_expect(kept_get(pl, id, see, &s, &err) == 1);
	cr_expect_str_eq(s.state, "lost");
	cr_expect(s.result_n == 0);
	cr_expect(look("uid:1", SAFE, "k", found) == 1);
	cr_expect_str_eq(found, id);
	submit(&again, SAFE, "k");
	cr_expect(fake.starts == 0, "nothing runs twice");
	job_free_fields(&again);
}

static int note_waiting(void *data, const struct kept *k)
{
	struct kept *to = data;
	static char approval[EXECUTION_ID_SIZE];

	(void)snprintf(approval, sizeof(approval), "%s", k->approval);
	to->approval = approval;
	to->time_us++;
	return 0;
}

/* The job that `id` was, ready to go on. */
static int resume(struct job *job, const char *id, struct kept *found)
{
	*found = (struct kept){ 0 };
	cr_assert(kept_each_waiting(pl, note_waiting, found, &err) >= 0);
	cr_assert(found->time_us == 1, "%d waiting", (int)found->time_us);
	prepare(job, HIGH, NULL);
	job->keep = true;
	job->body = STR(BODY);
	return pipeline_resume(pl, job, id, found->approval, &err);
}

Test(kept, a_question_goes_on_after_a_restart)
{
	static struct job job;
	char id[EXECUTION_ID_SIZE];
	struct approval after;
	struct kept found;
	struct seen s = { 0 };

	die_with(HIGH, false, NULL, id, JOB_WAITING);
	reopen();
	cr_assert(resume(&job, id, &found) >= 0, "%s", err.msg);
	cr_expect_str_eq(job.id, id);
	pipeline_turn(pl);
	cr_expect(fake.starts == 0 && job.state == JOB_WAITING);
	cr_assert(confirm_answer(pipeline_ledger(pl),
	                         &(struct confirm_answer){
					 .id = found.approval, .actor = "cli:1", .allow = true },
	                         &after, &err) >= 0,
	          "%s", err.msg);
	for (int i = 0; i < 100 && !job_is_final(&job); i++) {
		pipeline_turn(pl);
		(void)usleep(10000);
	}
	cr_expect(fake.starts == 1 && job.state == JOB_FINISHED);
	cr_expect(kept_get(pl, id, see, &s, &err) == 1);
	cr_expect_str_eq(s.state, "finished");
	job_free_fields(&job);
}

Test(kept, an_answer_given_meanwhile_counts)
{
	static struct job job;
	char id[EXECUTION_ID_SIZE];
	struct approval after;
	struct kept found = { 0 };

	die_with(HIGH, false, NULL, id, JOB_WAITING);
	cr_assert(kept_each_waiting(pl, note_waiting, &found, &err) >= 0 && found.time_us == 1);
	cr_assert(confirm_answer(pipeline_ledger(pl),
	                         &(struct confirm_answer){
					 .id = found.approval, .actor = "cli:1", .allow = true },
	                         &after, &err) >= 0);
	reopen();
	cr_assert(resume(&job, id, &found) >= 0, "%s", err.msg);
	for (int i = 0; i < 100 && !job_is_final(&job); i++)
		pipeline_turn(pl);
	cr_expect(fake.starts == 1 && job.state == JOB_FINISHED);
	job_free_fields(&job);
}

Test(kept, an_answer_does_not_outweigh_the_policy_of_after_the_restart)
{
	static struct job job;
	char id[EXECUTION_ID_SIZE];
	struct approval after;
	struct kept found = { 0 };

	write_policy("version: 1\nname: test\ndefault: confirm\napproval: { self: true }\n");
	reopen();
	die_with(HIGH, false, NULL, id, JOB_WAITING);
	write_policy("version: 1\nname: late\ndefault: deny\n");
	reopen();
	cr_assert(resume(&job, id, &found) >= 0, "%s", err.msg);
	cr_assert(confirm_answer(pipeline_ledger(pl),
	                         &(struct confirm_answer){
					 .id = found.approval, .actor = "cli:1", .allow = true },
	                         &after, &err) >= 0);
	for (int i = 0; i < 100 && !job_is_final(&job); i++) {
		pipeline_turn(pl);
		(void)usleep(10000);
	}
	cr_expect(fake.starts == 0 && job.state == JOB_DENIED);
	cr_expect(strstr(job.result.error.msg, "late") != NULL, "%s", job.result.error.msg);
	job_free_fields(&job);
}

Test(kept, a_question_whose_bounds_the_policy_changed_does_not_go_on)
{
	static struct job job;
	char id[EXECUTION_ID_SIZE];
	struct kept found;
	struct seen s = { 0 };

	die_with(HIGH, false, NULL, id, JOB_WAITING);
	write_policy("version: 1\nname: test\ndefault: confirm\n"
	             "floor: { limits: { timeout: 1s } }\n");
	reopen();
	cr_expect(resume(&job, id, &found) < 0);
	cr_expect(err.code == ERR_CONFLICT);
	cr_expect(fake.starts == 0);
	cr_expect(pipeline_abandon(pl, id, found.approval, "changed", &err) >= 0, "%s", err.msg);
	cr_expect(kept_get(pl, id, see, &s, &err) == 1);
	cr_expect_str_eq(s.state, "lost");
	cr_expect(kept_each_waiting(pl, note_waiting, &found, &err) >= 0 && found.time_us == 1);
	job_free_fields(&job);
}

Test(kept, old_rows_go_and_open_ones_stay)
{
	static struct job job;
	char id[EXECUTION_ID_SIZE];
	struct seen s = { 0 };

	submit(&job, SAFE, "k");
	die_with(HIGH, false, "q", id, JOB_WAITING);
	cr_expect(kept_prune(pl, UINT64_C(1) << 62, &err) >= 0);
	cr_expect(kept_get(pl, job.id, see, &s, &err) == 0);
	cr_expect(kept_get(pl, id, see, &s, &err) == 1);
	job_free_fields(&job);
}

Test(kept, a_claim_is_new_once)
{
	uint8_t a[SHA256_SIZE] = { 1 }, b[SHA256_SIZE] = { 2 };

	struct ledger *l = pipeline_ledger(pl);

	cr_assert(ledger_begin(l, &err) >= 0);
	cr_expect(kept_claim(pl, "uid:1", "k", a, &err) == 1);
	ledger_abort(l);
	cr_assert(ledger_begin(l, &err) >= 0);
	cr_expect(kept_claim(pl, "uid:1", "k", a, &err) == 1, "it went with its group");
	cr_assert(ledger_commit(l, LEDGER_PROCESS, &err) >= 0);
	cr_expect(kept_claim(pl, "uid:1", "k", a, &err) == 0);
	cr_expect(kept_claim(pl, "uid:1", "k", b, &err) == -EEXIST);
	cr_expect(kept_claim(pl, "uid:2", "k", b, &err) == 1);
}

Test(kept, lists_are_newest_first_and_bounded)
{
	static struct job jobs[5];
	struct seen s = { 0 };

	for (int i = 0; i < 5; i++) {
		char key[8];

		(void)snprintf(key, sizeof(key), "k%d", i);
		submit(&jobs[i], SAFE, key);
		(void)usleep(2000);
	}
	cr_expect(kept_each(pl, 0, 3, see, &s, &err) == 3);
	cr_expect_str_eq(s.key, "k2", "the third newest comes last");
	for (int i = 0; i < 5; i++)
		job_free_fields(&jobs[i]);
}
