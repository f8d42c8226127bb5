/* SPDX-License-Identifier: Apache-2.0 */
/* What recording costs: opening, one row, one commit, and the rows of a run. The best of many. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/macro.h"
#include "ledger/ledger.h"

#define ROUNDS     200
#define ROWS       100
#define BATCH      100
#define BATCHES    10
#define RUN_ROWS   8
#define RUN_BODIES 3

static const char *const details[RUN_ROWS] = {
	"{\"language\":\"python\",\"bytes\":120}",
	"{\"risk\":\"low\",\"score\":3,\"findings\":[{\"rule\":\"py.print\",\"line\":1}]}",
	"{\"verdict\":\"allow\",\"rule\":\"default\",\"policy\":\"standard\"}",
	"{\"approval\":null}",
	"{\"tier\":\"namespaces\",\"memory\":536870912,\"pids\":64,\"cpu_ms\":10000,\"network\":"
	"\"none\","
	"\"layers\":[\"user_namespace\",\"mount_namespace\",\"pid_namespace\",\"network_"
	"namespace\"]}",
	"{\"box\":17}",
	"{\"exit\":0,\"signal\":null,\"stdout\":"
	"\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\",\"stderr\":null,"
	"\"cpu_us\":15000,\"wall_us\":21000,\"memory\":9437184,\"verified\":true,\"layers\":22}",
	"{\"path\":\"out.txt\",\"size\":12,\"sha256\":null}",
};

struct times {
	uint64_t open_ns, append_ns, commit_ns, disk_ns;
	uint64_t run_ns[2], grouped_ns[2]; /* by the clock, of the processor */
};

static void keep(uint64_t *best, uint64_t ns)
{
	if (!*best || ns < *best)
		*best = ns;
}

static int append(struct ledger *l, unsigned i, const char *job, struct err *err)
{
	const struct ledger_event e = { .job = job,
		                        .session = "s1",
		                        .kind = "state",
		                        .name = "decided",
		                        .actor = "brig",
		                        .detail = str_of(details[i % RUN_ROWS]) };

	return ledger_append(l, &e, err);
}

static int measure_rows(struct ledger *l, struct times *t, struct err *err)
{
	uint64_t begin, end;
	int r = ledger_begin(l, err);

	begin = clock_ns();
	for (unsigned i = 0; r == 0 && i < ROWS; i++)
		r = append(l, i, "01890000-0000-7000-8000-000000000001", err);
	end = clock_ns();
	keep(&t->append_ns, (end - begin) / ROWS);
	return r < 0 ? r : ledger_commit(l, LEDGER_PROCESS, err);
}

static int measure_commit(struct ledger *l, enum ledger_durability how, uint64_t *best,
                          struct err *err)
{
	uint64_t begin;
	int r = append(l, 0, "01890000-0000-7000-8000-000000000001", err);

	begin = clock_ns();
	if (r == 0)
		r = ledger_commit(l, how, err);
	keep(best, clock_ns() - begin);
	return r;
}

/* One run: rows and bodies, a commit before the code starts and one after it, or none. */
static int one_run(struct ledger *l, unsigned n, bool commits, struct err *err)
{
	char job[40], body[400];
	uint8_t digest[SHA256_SIZE];
	int r = 0;

	(void)snprintf(job, sizeof(job), "01890000-0000-7000-8000-%012u", n);
	memset(body, 'x', sizeof(body));
	for (unsigned i = 0; r == 0 && i < RUN_ROWS; i++) {
		if (i < RUN_BODIES) {
			(void)snprintf(body, sizeof(body), "body %u of run %u", i, n);
			r = ledger_body(l, body, sizeof(body), digest, err);
		}
		if (r == 0)
			r = append(l, i, job, err);
		if (r == 0 && commits && (i == RUN_ROWS / 2 || i == RUN_ROWS - 1))
			r = ledger_commit(l, LEDGER_PROCESS, err);
	}
	return r;
}

static int batch(struct ledger *l, unsigned group, struct err *err)
{
	static unsigned n;
	int r = 0;

	for (unsigned i = 1; r == 0 && i <= BATCH; i++) {
		r = one_run(l, n++, group == 0, err);
		if (r == 0 && group && (i % group == 0 || i == BATCH))
			r = ledger_commit(l, LEDGER_PROCESS, err);
	}
	return r;
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The best batch; each is long enough to have checkpoints in it. */
static int measure_runs(struct ledger *l, unsigned group, uint64_t best[2], struct err *err)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < BATCHES; i++) {
		uint64_t begin = clock_ns(), cpu = cpu_ns();

		r = batch(l, group, err);
		keep(&best[0], (clock_ns() - begin) / BATCH);
		keep(&best[1], (cpu_ns() - cpu) / BATCH);
	}
	return r;
}

static int measure_all(const char *dir, struct times *t, struct err *err)
{
	struct ledger *l = NULL;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < ROUNDS; i++) {
		uint64_t begin = clock_ns();

		r = ledger_open(dir, &l, err);
		if (r < 0)
			return r;
		if (i)
			keep(&t->open_ns, clock_ns() - begin);
		r = measure_rows(l, t, err);
		if (r == 0)
			r = measure_commit(l, LEDGER_PROCESS, &t->commit_ns, err);
		if (r == 0)
			r = measure_commit(l, LEDGER_DISK, &t->disk_ns, err);
		if (r == 0 && i == ROUNDS - 1)
			r = measure_runs(l, 0, t->run_ns, err);
		if (r == 0 && i == ROUNDS - 1)
			r = measure_runs(l, 8, t->grouped_ns, err);
		ledger_close(l);
	}
	return r;
}

int main(int argc, char **argv)
{
	struct times t = { 0 };
	struct err err = { 0 };

	if (argc != 2) {
		(void)fprintf(stderr, "usage: ledger NEW-DIRECTORY\n");
		return 2;
	}
	if (measure_all(argv[1], &t, &err) < 0) {
		(void)fprintf(stderr, "ledger: %s\n", err.msg);
		return 1;
	}
	printf("open an existing ledger  %8.1f us\n", (double)t.open_ns / 1e3);
	printf("append a row             %8.1f us\n", (double)t.append_ns / 1e3);
	printf("commit, process          %8.1f us\n", (double)t.commit_ns / 1e3);
	printf("commit, disk             %8.1f us\n", (double)t.disk_ns / 1e3);
	printf("a run, 2 commits         %8.1f us, processor %.1f us (checkpoints included)\n",
	       (double)t.run_ns[0] / 1e3, (double)t.run_ns[1] / 1e3);
	printf("a run, 8 in a group      %8.1f us, processor %.1f us (checkpoints included)\n",
	       (double)t.grouped_ns[0] / 1e3, (double)t.grouped_ns[1] / 1e3);
	return 0;
}
