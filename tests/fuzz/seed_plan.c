/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the corpus of fuzz_plan: real plans, cut down so that the seeds are small, and some in
 * which a list is empty or a value extreme. Run by hand after a change of the plan's format:
 *     build/tests/fuzz/seed_plan tests/fuzz/corpus/plan
 */
#include <errno.h>
#include <stdio.h>

#include "model/plan_wire.h"
#include "route/route.h"

static int add_little(struct arena *a, struct plan *p, struct err *err)
{
	static const struct fs_op ops[] = {
		{ .kind = FS_OP_DIR, .path = "/etc", .mode = 0755 },
		{ .kind = FS_OP_SYMLINK, .path = "/bin", .source = "usr/bin" },
		{ .kind = FS_OP_BIND_RO, .path = "/usr", .source = "/usr", .optional = true },
	};
	int r = 0;

	(void)a;
	for (size_t i = 0; i < ELEMENTSOF(ops) && r >= 0; i++)
		r = plan_add_fs(p, ops[i], err);
	return r < 0 ? r : plan_add_rule(p, "/usr", PLAN_ACCESS_READ_EXEC, err);
}

static int find_any(const char *program, const char **ret_path)
{
	(void)program;
	*ret_path = "/usr/bin/program";
	return 0;
}

static const struct image little = { "little", add_little, find_any };

/* What makes each seed different from the first. */
static void no_change(struct plan *p)
{
	(void)p;
}

static void few_steps(struct plan *p)
{
	p->n_fs = 3;
	p->n_seccomp = 2;
}

static void no_lists(struct plan *p)
{
	p->n_fs = p->n_rules = p->n_rlimits = p->n_env = 0;
	p->n_argv = 1;
	p->n_seccomp = 1;
}

static void no_layers(struct plan *p)
{
	few_steps(p);
	p->layers = p->required = 0;
	p->n_seccomp = 0;
}

static void all_required(struct plan *p)
{
	few_steps(p);
	p->required = p->layers;
}

static void largest_values(struct plan *p)
{
	few_steps(p);
	p->memory_bytes = p->pids = p->cpu_milli = p->cpu_ms = p->scratch_bytes = UINT64_MAX;
	p->scratch_inodes = UINT32_MAX;
	p->host_id_base = UINT32_MAX - 2;
	p->host_id_slots = 1;
}

static void smallest_values(struct plan *p)
{
	few_steps(p);
	p->memory_bytes = p->pids = p->cpu_milli = p->cpu_ms = p->scratch_bytes = 1;
	p->scratch_inodes = p->host_id_base = p->host_id_slots = p->init_id = p->code_id = 1;
}

static void empty_strings(struct plan *p)
{
	few_steps(p);
	p->hostname = "";
	p->argv[0] = "";
	p->n_argv = p->n_env = 1;
	p->env[0] = "";
}

static void odd_bytes(struct plan *p)
{
	few_steps(p);
	p->hostname = "\xff\x01\n";
	p->argv[0] = "\x1b[0m'\"\\";
}

static void file_with_nuls(struct plan *p)
{
	p->fs[0] = (struct fs_op){ .kind = FS_OP_FILE,
		                   .path = "/f",
		                   .data = { "\0\xff\0", 3 },
		                   .mode = UINT32_MAX,
		                   .owner = UINT32_MAX };
	p->n_fs = 1;
	p->n_seccomp = 1;
}

static void empty_file(struct plan *p)
{
	file_with_nuls(p);
	p->fs[0].data.n = 0;
}

static void each_kind(struct plan *p)
{
	no_lists(p);
	for (unsigned k = FS_OP_NONE + 1; k < FS_OP_COUNT; k++)
		p->fs[p->n_fs++] = (struct fs_op){
			.kind = (enum fs_op_kind)k, .path = "/p", .source = "/s", .noexec = k & 1
		};
}

static void each_access(struct plan *p)
{
	no_lists(p);
	for (unsigned k = PLAN_ACCESS_NONE + 1; k < PLAN_ACCESS_COUNT; k++)
		p->rules[p->n_rules++] = (struct plan_rule){ "/p", (enum plan_access)k };
}

static void each_rlimit(struct plan *p)
{
	no_lists(p);
	for (uint32_t k = 0; k < PLAN_RLIMITS_MAX; k++)
		p->rlimits[p->n_rlimits++] = (struct plan_rlimit){ k, UINT64_C(1) << (4 * k) };
}

static void root_paths(struct plan *p)
{
	each_kind(p);
	p->exec = p->cwd = p->fs[0].path = p->fs[1].path = "/";
	p->fs[2].path = "/..x/.../x..";
}

static void no_loopback(struct plan *p)
{
	few_steps(p);
	p->loopback = false;
	p->n_rlimits = 1;
}

static const struct {
	const char *name;
	enum language language;
	void (*change)(struct plan *p);
} seeds[] = {
	{ "python", LANGUAGE_PYTHON, no_change },
	{ "shell", LANGUAGE_SHELL, no_change },
	{ "javascript-short", LANGUAGE_JAVASCRIPT, few_steps },
	{ "no-lists", LANGUAGE_SHELL, no_lists },
	{ "no-layers", LANGUAGE_SHELL, no_layers },
	{ "all-required", LANGUAGE_PYTHON, all_required },
	{ "largest-values", LANGUAGE_SHELL, largest_values },
	{ "smallest-values", LANGUAGE_SHELL, smallest_values },
	{ "empty-strings", LANGUAGE_SHELL, empty_strings },
	{ "odd-bytes", LANGUAGE_SHELL, odd_bytes },
	{ "file-with-nuls", LANGUAGE_SHELL, file_with_nuls },
	{ "empty-file", LANGUAGE_SHELL, empty_file },
	{ "each-kind", LANGUAGE_SHELL, each_kind },
	{ "each-access", LANGUAGE_SHELL, each_access },
	{ "each-rlimit", LANGUAGE_SHELL, each_rlimit },
	{ "root-paths", LANGUAGE_SHELL, root_paths },
	{ "no-loopback", LANGUAGE_SHELL, no_loopback },
};

static int write_seed(const char *dir, size_t i)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(MIB);
	CLEANUP_BUF struct buf b = BUF_INIT(PLAN_BYTES_MAX);
	const char *env[] = { "A=b" }, *args[] = { "x", "" };
	struct request req;
	struct plan p;
	char path[4096];
	FILE *f;
	int r;

	request_init(&req);
	req.language = seeds[i].language;
	req.code = STR("code");
	req.env = env;
	req.n_env = ELEMENTSOF(env);
	req.args = args;
	req.n_args = ELEMENTSOF(args);
	r = route_plan(&req, &little, &a, &p, NULL);
	if (r < 0)
		return r;
	seeds[i].change(&p);
	r = plan_encode(&p, &b);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "%s/%s", dir, seeds[i].name);
	f = fopen(path, "wbe");
	if (!f)
		return -errno;
	r = fwrite(b.data, 1, b.len, f) == b.len ? 0 : -EIO;
	return fclose(f) == 0 ? r : -EIO;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		(void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	for (size_t i = 0; i < ELEMENTSOF(seeds); i++) {
		int r = write_seed(argv[1], i);

		if (r < 0) {
			(void)fprintf(stderr, "%s: %s\n", seeds[i].name, strerror(-r));
			return 1;
		}
	}
	return 0;
}
