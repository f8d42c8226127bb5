/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk below the ledger fails while a job goes its way: the nth write or sync, for every n.
 * What cannot be recorded is not run; what has run and cannot be recorded is told with the error
 * beside it; what is told without an error is in the ledger. Afterwards the same pipeline goes on.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "disk.h"
#include "disk_dir.h"
#include "pipeline/pipeline.h"

#define NTH_MAX 200

#define POLICY "version: 1\nname: test\ndefault: %s\napproval: { expires: 60s, self: true }\n"

static char dir[] = "/dev/shm/io-run-XXXXXX", policy[64];
static struct pipeline *pl;
static struct pipeline_config config;
static unsigned starts, done;
static char why[600];

/* ---- the pipeline ---- */

static int fake_start(struct executor *base, struct job *job, struct err *err)
{
	(void)err;
	starts++;
	job->result.state = RUN_FINISHED;
	job->result.has_exit_code = true;
	pipeline_ended(base->pipeline, job);
	return 0;
}

static void fake_cancel(struct executor *base, struct job *job)
{
	(void)base;
	(void)job;
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
static struct executor fake = { .ops = &fake_ops };

static void note(void *data, struct job *job)
{
	(void)data;
	(void)job;
	done++;
}

static void run_job(struct job *job)
{
	starts = done = 0;
	job_init(job);
	job->done = note;
	job->keep = true;
	job->request.language = LANGUAGE_PYTHON;
	job->request.code = STR("print(1 + 1)");
	pipeline_submit(pl, job);
	for (int i = 0; i < 10 && !done; i++)
		pipeline_turn(pl);
}

/* ---- what must hold ---- */

static bool wrong(const char *what, const struct job *job)
{
	(void)snprintf(why, sizeof(why), "%s: %s, %u starts, told %u times: %s", what,
	               job_state_name(job->state), starts, done, job->result.error.msg);
	return false;
}

static int find_name(void *data, const struct ledger_row *row)
{
	const char **name = data;

	if (!streq(row->name, *name))
		return 0;
	*name = NULL;
	return 1;
}

/* By somebody else, who has no faults. */
static bool is_recorded(const struct job *job, const char *name, struct ledger_report *ret)
{
	const struct ledger_filter f = { .job = job->id, .kind = "state" };
	const char *wanted = name;
	struct ledger *l = NULL;
	int r = ledger_open(dir, &l, NULL);

	if (r == 0)
		r = ledger_verify(l, ret, NULL);
	if (r == 0)
		r = ledger_each(l, &f, find_name, &wanted, NULL);
	ledger_close(l);
	return r == 0 && !wanted;
}

static bool is_right(const struct job *job)
{
	const struct result *res = &job->result;
	struct ledger_report report = { 0 };
	bool running = is_recorded(job, "running", &report);
	bool finished = is_recorded(job, "finished", &report), failed = res->error.code != ERR_NONE;

	if (!report.ok)
		return wrong("unsound", job);
	if (done != 1 || starts > 1)
		return wrong("not told once", job);
	if (!starts && (res->state != RUN_SETUP_FAILED || job->state != JOB_FAILED || !failed))
		return wrong("not run, but told otherwise", job);
	if (starts && !running)
		return wrong("run and not recorded before", job);
	if (starts && res->state != RUN_FINISHED)
		return wrong("run, but told otherwise", job);
	if (starts && !finished && !failed)
		return wrong("the result is not recorded, and that is not told", job);
	if (failed && res->error.code != ERR_IO)
		return wrong("another error", job);
	return true;
}

/* Told that it failed, so nobody may be asked; told nothing yet, so the question stands. */
static bool is_asked_rightly(const struct job *job)
{
	const char *const sql = "SELECT count(*) FROM approval WHERE state=1";
	struct ledger_report report = { 0 };
	struct sqlite3_stmt *stmt = NULL;
	bool waits = is_recorded(job, "waiting", &report) && !is_recorded(job, "failed", &report);
	int open = 0; /* its table is made with the first question */

	if (sqlite3_prepare_v2(ledger_db(pipeline_ledger(pl)), sql, -1, &stmt, NULL) == SQLITE_OK &&
	    sqlite3_step(stmt) == SQLITE_ROW)
		open = sqlite3_column_int(stmt, 0);
	(void)sqlite3_finalize(stmt);
	if (!report.ok)
		return wrong("unsound", job);
	if (done && (open || waits))
		return wrong("told as failed, but the question stands", job);
	if (!done && (open != 1 || !waits))
		return wrong("not told, but there is no question", job);
	return true;
}

static bool open_it(const char *verdict)
{
	struct err err = { 0 };
	char text[128];
	int n = snprintf(text, sizeof(text), POLICY, verdict);

	remove_dir(dir);
	if (mkdir(dir, 0700) == 0 && store_file(dir, "policy.yaml", text, (size_t)n) &&
	    pipeline_open(&config, &pl, &err) >= 0)
		return true;
	(void)snprintf(why, sizeof(why), "open: %s", err.msg);
	return false;
}

static const struct scenario {
	const char *name, *verdict;
	int checkpoint; /* after so many pages */
} scenarios[] = {
	{ "a run", "allow", 1000 },
	{ "a run with checkpoints", "allow", 1 },
	{ "a question", "confirm", 1000 },
};

static bool run_another(void)
{
	struct job job;
	bool ok;

	run_job(&job);
	ok = is_right(&job);
	if (ok && (starts != 1 || job.result.error.code != ERR_NONE))
		ok = wrong("does not go on", &job);
	job_free_fields(&job);
	return ok;
}

/* A job that waits is left to the pipeline, which forgets it. */
static bool ask_one(struct disk_fault *fault)
{
	struct job job;
	bool ok;

	run_job(&job);
	*fault = disk_fault;
	disk_fault = (struct disk_fault){ 0 };
	ok = is_asked_rightly(&job);
	pipeline_close(pl);
	job_free_fields(&job);
	return ok;
}

static bool try_one(const struct scenario *s, struct disk_fault *fault)
{
	struct job job;
	bool ok;

	if (!open_it(s->verdict))
		return false;
	(void)sqlite3_wal_autocheckpoint(ledger_db(pipeline_ledger(pl)), s->checkpoint);
	disk_fault = *fault;
	if (streq(s->verdict, "confirm"))
		return ask_one(fault);
	run_job(&job);
	*fault = disk_fault;
	disk_fault = (struct disk_fault){ 0 };
	ok = is_right(&job);
	if (ok && !fault->failed && !starts)
		ok = wrong("without a fault", &job);
	job_free_fields(&job);
	ok = ok && run_another();
	pipeline_close(pl);
	return ok;
}

static bool try_all(const struct scenario *s, enum disk_op op, enum disk_how how, bool lasting,
                    unsigned *tried)
{
	for (unsigned n = 1; n < NTH_MAX; n++) {
		struct disk_fault fault = { .op = op, .how = how, .nth = n, .lasting = lasting };

		if (!try_one(s, &fault)) {
			printf("# %s %u%s: %s: %s\n", disk_op_name(op), n,
			       lasting ? " and after" : "", disk_how_name(how), why);
			return false;
		}
		if (!fault.failed)
			return true;
		++*tried;
	}
	return false;
}

static bool run_scenario(const struct scenario *s)
{
	unsigned tried = 0;
	bool ok = true;

	for (int lasting = 0; lasting < 2; lasting++) {
		for (int how = 0; how < DISK_HOWS; how++)
			ok &= try_all(s, DISK_WRITE, (enum disk_how)how, lasting, &tried);
		ok &= try_all(s, DISK_READ, DISK_EIO, lasting, &tried);
		ok &= try_all(s, DISK_SYNC, DISK_EIO, lasting, &tried);
		ok &= try_all(s, DISK_TRUNCATE, DISK_EIO, lasting, &tried);
	}
	printf("# %s: %u faults\n", s->name, tried);
	return ok && tried;
}

int main(void)
{
	unsigned failures = 0;

	if (!mkdtemp(dir) || disk_register() < 0) {
		printf("Bail out! begin\n");
		return 1;
	}
	(void)snprintf(policy, sizeof(policy), "%s/policy.yaml", dir);
	config = (struct pipeline_config){ .state_dir = dir,
		                           .policy = policy,
		                           .caller = "cli:1",
		                           .executors = { &fake },
		                           .n_executors = 1 };
	printf("1..%zu\n", ELEMENTSOF(scenarios));
	for (size_t i = 0; i < ELEMENTSOF(scenarios); i++) {
		const struct scenario *s = &scenarios[i];
		bool ok = run_scenario(s);

		printf("%sok %zu - %s\n", ok ? "" : "not ", i + 1, s->name);
		failures += !ok;
	}
	remove_dir(dir);
	return failures ? 1 : 0;
}
