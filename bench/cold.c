/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Cold start, side by side: a bare posix_spawn of /usr/bin/true, the same in a brig box with
 * nothing prepared (brig-launch is started for it, output collected, everything removed), and in
 * bubblewrap. The contestants take turns in random order in one run, so that what the machine does
 * meanwhile hits them alike; compare ratios, not times of different runs.
 *
 *     cold LAUNCHER [SAMPLES]
 */

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "exec/jail.h"
#include "route/route.h"

#define SAMPLES_MAX 20000
#define WARM_UP     20

static const char *launcher_path;

static int spawn_and_wait(char *const argv[])
{
	static char *const env[] = { (char *)"PATH=/usr/bin:/bin", NULL };
	int status;
	pid_t pid;

	if (posix_spawn(&pid, argv[0], NULL, NULL, argv, env) != 0)
		return -1;
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int run_bare(void)
{
	static char *const argv[] = { (char *)"/usr/bin/true", NULL };

	return spawn_and_wait(argv);
}

static int run_bwrap(void)
{
	static const char *const argv[] = {
		"/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/",     "/",
		"--dev",          "/dev",          "--proc",    "/proc", "--tmpfs",
		"/tmp",           "/usr/bin/true", NULL
	};

	return spawn_and_wait((char *const *)argv);
}

#define CGROUP_LAYERS                                                                              \
	(LAYER_BIT(CG_MEMORY) | LAYER_BIT(CG_SWAP) | LAYER_BIT(CG_PIDS) | LAYER_BIT(CG_CPU))

static int run_box(enum level level, uint32_t without)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(1 * MIB);
	CLEANUP(result_done) struct result res;
	struct launcher l = { .sock = FD_NONE, .once = true };
	const struct jail_io io = { .out_fd = FD_NONE, .err_fd = FD_NONE, .cancel_fd = FD_NONE };
	static const char *argv[] = { "true", NULL };
	struct request req;
	struct plan plan;

	result_init(&res);
	request_init(&req);
	req.language = LANGUAGE_SHELL;
	req.level = level;
	req.code = STR("true");
	if (launcher_start(&l, launcher_path, &res.error) < 0 ||
	    route_plan(&req, &image_host, &a, &plan, &res.error) < 0)
		return -1;
	plan.layers &= ~without;
	plan.required &= ~without;
	plan.exec = "/usr/bin/true";
	plan.argv = argv;
	plan.n_argv = 1;
	jail_run(&l, &req, &plan, &io, &res);
	launcher_stop(&l);
	if (res.state != RUN_FINISHED)
		(void)fprintf(stderr, "cold: %s: %s\n", run_state_name(res.state), res.error.msg);
	return res.state == RUN_FINISHED ? 0 : -1;
}

static int run_brig(void)
{
	return run_box(geteuid() == 0 ? LEVEL_STANDARD : LEVEL_DEGRADED_OK, 0);
}

/* Shows what the host's cgroups cost: see "time to enter a cgroup" of brig doctor. */
static int run_brig_no_cgroup(void)
{
	return run_box(LEVEL_DEGRADED_OK, CGROUP_LAYERS);
}

static struct contestant {
	const char *name;
	int (*run)(void);
	const char *needs; /* a program that must be there */
	double us[SAMPLES_MAX];
	double cpu_us; /* of all kept runs, ours and our descendants' */
	size_t n, failed;
} contestants[] = {
	{ .name = "bare posix_spawn", .run = run_bare, .needs = "/usr/bin/true" },
	{ .name = "brig, cold", .run = run_brig, .needs = "/usr/bin/true" },
	{ .name = "brig, cold, without cgroups",
	  .run = run_brig_no_cgroup,
	  .needs = "/usr/bin/true" },
	{ .name = "bwrap --unshare-all", .run = run_bwrap, .needs = "/usr/bin/bwrap" },
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double percentile(const struct contestant *c, unsigned p)
{
	return c->n ? c->us[(c->n - 1) * p / 100] : 0;
}

static double cpu_us(void)
{
	static const int who[] = { RUSAGE_SELF, RUSAGE_CHILDREN };
	double sum = 0;

	for (size_t i = 0; i < ELEMENTSOF(who); i++) {
		struct rusage ru = { 0 };

		(void)getrusage(who[i], &ru);
		sum += (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1e6 +
		       (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
	}
	return sum;
}

static void measure(struct contestant *c, bool keep)
{
	double cpu = cpu_us();
	uint64_t start = clock_ns();
	int r = c->run();
	uint64_t end = clock_ns();

	if (!keep)
		return;
	c->cpu_us += cpu_us() - cpu;
	if (r < 0)
		c->failed++;
	else
		c->us[c->n++] = (double)(end - start) / 1000;
}

static void print(void)
{
	double bare;

	for (size_t i = 0; i < ELEMENTSOF(contestants); i++)
		qsort(contestants[i].us, contestants[i].n, sizeof(double), by_value);
	bare = percentile(&contestants[0], 50);
	(void)printf("| /usr/bin/true | n | failed | p50 ms | p95 ms | p99 ms | x bare | CPU ms |\n"
	             "|---|---|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < ELEMENTSOF(contestants); i++) {
		const struct contestant *c = &contestants[i];

		if (c->n)
			(void)printf("| %s | %zu | %zu | %.2f | %.2f | %.2f | %.2f | %.2f |\n",
			             c->name, c->n, c->failed, percentile(c, 50) / 1000,
			             percentile(c, 95) / 1000, percentile(c, 99) / 1000,
			             percentile(c, 50) / bare, c->cpu_us / 1000 / (double)c->n);
		else
			(void)printf("| %s | 0 | %zu | not installed or failed | | | | |\n",
			             c->name, c->failed);
	}
}

int main(int argc, char **argv)
{
	uint64_t samples = 500;

	if (argc < 2 || argc > 3 || (argc == 3 && parse_u64(argv[2], &samples) < 0) ||
	    samples < 1 || samples > SAMPLES_MAX) {
		(void)fprintf(stderr, "usage: cold LAUNCHER [SAMPLES]\n");
		return 2;
	}
	launcher_path = argv[1];
	srand(1);
	for (uint64_t i = 0; i < samples + WARM_UP; i++) {
		size_t first = (size_t)rand() % ELEMENTSOF(contestants);

		for (size_t j = 0; j < ELEMENTSOF(contestants); j++) {
			struct contestant *c = &contestants[(first + j) % ELEMENTSOF(contestants)];

			if (access(c->needs, X_OK) == 0)
				measure(c, i >= WARM_UP);
		}
	}
	print();
	return contestants[1].failed ? 1 : 0;
}
