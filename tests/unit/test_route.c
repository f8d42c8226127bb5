/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

#include "model/plan_wire.h"
#include "route/route.h"

static int fake_add(struct arena *a, struct plan *p, struct err *err)
{
	(void)a;
	return plan_add_fs(p, (struct fs_op){ .kind = FS_OP_DIR, .path = "/etc", .mode = 0755 },
	                   err);
}

static int fake_find(const char *program, const char **ret_path)
{
	if (streq(program, "python3"))
		*ret_path = "/opt/python3";
	else if (streq(program, "node"))
		*ret_path = "/opt/node";
	else if (streq(program, "bash"))
		*ret_path = "/opt/bash";
	else
		return -ENOENT;
	return 0;
}

static int find_nothing(const char *program, const char **ret_path)
{
	(void)program;
	(void)ret_path;
	return -ENOENT;
}

static int add_nothing(struct arena *a, struct plan *p, struct err *err)
{
	(void)a;
	(void)p;
	return err_set(err, ERR_IO, EIO, "the image is broken");
}

static const struct image fake = { "fake", fake_add, fake_find };
static const struct image empty = { "empty", fake_add, find_nothing };
static const struct image broken = { "broken", add_nothing, fake_find };

static void request_of(struct request *r, enum language l)
{
	request_init(r);
	r->language = l;
	r->code = STR("code\n");
}

static const struct fs_op *fs_of(const struct plan *p, const char *path)
{
	for (size_t i = 0; i < p->n_fs; i++)
		if (streq(p->fs[i].path, path))
			return &p->fs[i];
	return NULL;
}

static bool has_env(const struct plan *p, const char *entry)
{
	for (size_t i = 0; i < p->n_env; i++)
		if (streq(p->env[i], entry))
			return true;
	return false;
}

static enum plan_access access_of(const struct plan *p, const char *path)
{
	for (size_t i = 0; i < p->n_rules; i++)
		if (streq(p->rules[i].path, path))
			return p->rules[i].access;
	return PLAN_ACCESS_NONE;
}

static uint64_t rlimit_of(const struct plan *p, uint32_t resource)
{
	for (size_t i = 0; i < p->n_rlimits; i++)
		if (p->rlimits[i].resource == resource)
			return p->rlimits[i].value;
	return UINT64_MAX;
}

Test(route, each_language_has_its_command)
{
	static const struct {
		enum language language;
		const char *exec, *script;
		const char *argv[6];
	} rows[] = {
		{ LANGUAGE_PYTHON,
		  "/opt/python3",
		  "main.py",
		  { "python3", "-u", "-B", "/workspace/main.py", "x" } },
		{ LANGUAGE_JAVASCRIPT,
		  "/opt/node",
		  "main.js",
		  { "node", "/etc/brig/run.cjs", "/workspace/main.js", "x" } },
		{ LANGUAGE_SHELL, "/opt/bash", "main.sh", { "bash", "/workspace/main.sh", "x" } },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
		const char *args[] = { "x" };
		struct err err = { 0 };
		struct request req;
		struct plan p;
		size_t n = 0;

		request_of(&req, rows[i].language);
		req.args = args;
		req.n_args = 1;
		cr_assert(route_plan(&req, &fake, &a, &p, &err) == 0, "%s", err.msg);
		cr_expect_str_eq(p.exec, rows[i].exec);
		cr_expect_str_eq(p.script, rows[i].script);
		cr_expect_str_eq(p.cwd, "/workspace");
		for (; rows[i].argv[n]; n++)
			cr_assert(n < p.n_argv && streq(p.argv[n], rows[i].argv[n]), "%zu", n);
		cr_expect(p.n_argv == n);
		cr_expect(!fs_of(&p, "/etc/brig/run.cjs") ==
		          (rows[i].language != LANGUAGE_JAVASCRIPT));
	}
}

Test(route, code_and_files_are_placed_in_order_below_their_directories)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct request_file files[] = { { "a/b/c.txt", STR("one"), false },
		                        { "tool", { "\0\1", 2 }, true } };
	const struct fs_op *op;
	struct request req;
	struct plan p;

	request_of(&req, LANGUAGE_SHELL);
	req.name = "job.sh";
	req.files = files;
	req.n_files = 2;
	cr_assert(route_plan(&req, &fake, &a, &p, NULL) == 0);
	op = fs_of(&p, "/workspace/job.sh");
	cr_assert(op && op->kind == FS_OP_FILE && op->mode == 0644 && op->owner == p.code_id);
	cr_expect(op->data.p == req.code.p, "the code is not copied");
	cr_expect(fs_of(&p, "/workspace") < fs_of(&p, "/workspace/a"));
	cr_expect(fs_of(&p, "/workspace/a") < fs_of(&p, "/workspace/a/b"));
	cr_expect(fs_of(&p, "/workspace/a/b") < fs_of(&p, "/workspace/a/b/c.txt"));
	cr_expect(fs_of(&p, "/workspace/a")->kind == FS_OP_DIR);
	cr_expect(fs_of(&p, "/workspace/a/b/c.txt")->mode == 0644);
	cr_expect(fs_of(&p, "/workspace/tool")->mode == 0755);
	cr_expect(fs_of(&p, "/workspace/tool")->data.n == 2);
	cr_expect_str_eq(p.argv[1], "/workspace/job.sh");
}

Test(route, a_file_over_the_script_is_refused)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct request_file files[] = { { "main.sh", STR("x"), false } };
	struct err err = { 0 };
	struct request req;
	struct plan p;

	request_of(&req, LANGUAGE_SHELL);
	req.files = files;
	req.n_files = 1;
	cr_expect(route_plan(&req, &fake, &a, &p, &err) == -EEXIST);
	cr_expect(err.code == ERR_INVALID);
}

Test(route, the_longest_path_fits_and_a_longer_one_is_blamed)
{
	static char path[REQUEST_PATH_MAX + 1];
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct request_file files[] = { { path, STR("x"), false } };
	struct err err = { 0 };
	struct request req;
	struct plan p;

	request_of(&req, LANGUAGE_SHELL);
	req.files = files;
	req.n_files = 1;
	for (size_t n = 1; n <= REQUEST_PATH_MAX; n++) {
		CLEANUP_BUF struct buf b = BUF_INIT(PLAN_BYTES_MAX);
		int r;

		path[n - 1] = n % 100 == 0 ? '/' : 'x';
		if (n % 100 == 0 || n < 980)
			continue;
		cr_assert(box_path_check(path, NULL) == 0);
		r = route_plan(&req, &fake, &a, &p, &err);
		if (r < 0) {
			cr_expect(n + sizeof("/workspace/") > PLAN_PATH_MAX, "%zu bytes", n);
			cr_expect(r == -ENAMETOOLONG && err.code == ERR_INVALID, "%zu", n);
		} else {
			cr_expect(n + sizeof("/workspace/") <= PLAN_PATH_MAX, "%zu bytes", n);
			cr_expect(plan_encode(&p, &b) == 0, "%zu bytes", n);
		}
	}
}

Test(route, the_environment_is_ours_unless_replaced)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	const char *env[] = { "HOME=/workspace", "HOMER=1", "X=" };
	struct request req;
	struct plan p;

	request_of(&req, LANGUAGE_PYTHON);
	cr_assert(route_plan(&req, &fake, &a, &p, NULL) == 0);
	cr_expect(has_env(&p, "HOME=/tmp") && has_env(&p, "TMPDIR=/tmp"));
	cr_expect(has_env(&p, "PATH=/usr/local/bin:/usr/bin:/bin"));
	cr_expect(has_env(&p, "LANG=C.UTF-8"));
	req.env = env;
	req.n_env = 3;
	cr_assert(route_plan(&req, &fake, &a, &p, NULL) == 0);
	cr_expect(has_env(&p, "HOME=/workspace") && !has_env(&p, "HOME=/tmp"));
	cr_expect(has_env(&p, "HOMER=1") && has_env(&p, "X="));
	cr_expect(has_env(&p, "TMPDIR=/tmp"));
}

Test(route, nothing_of_the_host_s_environment_comes_along)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct request req;
	struct plan p;

	cr_assert(setenv("BRIG_SECRET", "x", 1) == 0);
	request_of(&req, LANGUAGE_PYTHON);
	cr_assert(route_plan(&req, &fake, &a, &p, NULL) == 0);
	for (size_t i = 0; i < p.n_env; i++)
		cr_expect(!strstr(p.env[i], "SECRET"));
}

Test(route, limits_become_the_plan_s)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct request req;
	struct plan p;

	request_of(&req, LANGUAGE_SHELL);
	req.limits = (struct limits){ .timeout_ms = 1,
		                      .memory_bytes = 2,
		                      .cpu_milli = 3,
		                      .cpu_ms = 4999,
		                      .pids = 5,
		                      .open_files = 6,
		                      .file_bytes = 7,
		                      .disk_bytes = 8,
		                      .inodes = 9,
		                      .output_bytes = 10 };
	cr_assert(route_plan(&req, &fake, &a, &p, NULL) == 0);
	cr_expect(p.memory_bytes == 2 && p.cpu_milli == 3 && p.cpu_ms == 4999 && p.pids == 5);
	cr_expect(p.scratch_bytes == 8 && p.scratch_inodes == 9);
	cr_expect(rlimit_of(&p, RLIMIT_NOFILE) == 6);
	cr_expect(rlimit_of(&p, RLIMIT_FSIZE) == 7);
	cr_expect(rlimit_of(&p, RLIMIT_NPROC) == 6);
	cr_expect(rlimit_of(&p, RLIMIT_CPU) == 5, "rounded up");
	cr_expect(rlimit_of(&p, RLIMIT_CORE) == 1, "0 would start a piped core handler");
	cr_expect(rlimit_of(&p, RLIMIT_RTPRIO) == 0);
}

Test(route, rules_let_the_code_write_in_three_places)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct request req;
	unsigned writable = 0;
	struct plan p;

	request_of(&req, LANGUAGE_SHELL);
	cr_assert(route_plan(&req, &image_host, &a, &p, NULL) == 0);
	cr_expect(access_of(&p, "/") == PLAN_ACCESS_LIST);
	cr_expect(access_of(&p, "/usr") == PLAN_ACCESS_READ_EXEC);
	cr_expect(access_of(&p, "/etc") == PLAN_ACCESS_READ);
	cr_expect(access_of(&p, "/proc") == PLAN_ACCESS_READ);
	cr_expect(access_of(&p, "/workspace") == PLAN_ACCESS_WRITE_EXEC);
	cr_expect(access_of(&p, "/tmp") == PLAN_ACCESS_WRITE_EXEC);
	cr_expect(access_of(&p, "/dev/shm") == PLAN_ACCESS_WRITE);
	for (size_t i = 0; i < p.n_rules; i++)
		writable += p.rules[i].access == PLAN_ACCESS_WRITE ||
		            p.rules[i].access == PLAN_ACCESS_WRITE_EXEC;
	cr_expect(writable == 3);
}

Test(route, the_host_image_shows_nothing_private)
{
	static const char *const hidden[] = { "/root", "/home", "/var", "/run",  "/srv",
		                              "/opt",  "/mnt",  "/sys", "/boot", "/etc/shadow" };
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct request req;
	struct plan p;

	request_of(&req, LANGUAGE_SHELL);
	cr_assert(route_plan(&req, &image_host, &a, &p, NULL) == 0);
	for (size_t i = 0; i < p.n_fs; i++) {
		if (p.fs[i].kind != FS_OP_BIND_RO)
			continue;
		for (size_t k = 0; k < ELEMENTSOF(hidden); k++) {
			cr_expect(!str_has_prefix(p.fs[i].source, hidden[k]), "%s", p.fs[i].path);
			cr_expect(!str_has_prefix(hidden[k], p.fs[i].source), "%s", p.fs[i].path);
		}
	}
	cr_expect(fs_of(&p, "/etc/resolv.conf")->data.n == 0);
	cr_expect(fs_of(&p, "/proc/cmdline")->kind == FS_OP_MASK);
	cr_expect(fs_of(&p, "/proc/sys")->kind == FS_OP_READONLY);
}

Test(route, every_plan_can_be_written_and_read)
{
	static struct plan_store store;

	for (unsigned l = LANGUAGE_NONE + 1; l < LANGUAGE_COUNT; l++) {
		for (unsigned level = 0; level < LEVEL_COUNT; level++) {
			CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
			CLEANUP_BUF struct buf b = BUF_INIT(PLAN_BYTES_MAX);
			struct err err = { 0 };
			struct request req;
			struct plan p, q;

			request_of(&req, (enum language)l);
			req.level = (enum level)level;
			cr_assert(route_plan(&req, &fake, &a, &p, &err) == 0, "%s", err.msg);
			cr_expect(p.required == layers_required((enum level)level));
			/* a second mount namespace is for those who ask for everything */
			cr_expect((p.layers | LAYER_BIT(LOCKED_MOUNTS)) == LAYERS_ALL);
			cr_expect((p.layers == LAYERS_ALL) == (level == LEVEL_STRICT));
			cr_assert(plan_encode(&p, &b) == 0);
			cr_expect(plan_decode(b.data, b.len, &store, &q, &err) == 0, "%s", err.msg);
			cr_expect(q.n_fs == p.n_fs && q.n_rules == p.n_rules);
		}
	}
}

Test(route, the_network_is_loopback_or_nothing)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct request req;
	struct plan p;

	request_of(&req, LANGUAGE_SHELL);
	cr_assert(route_plan(&req, &fake, &a, &p, NULL) == 0);
	cr_expect(p.loopback);
	req.network = NETWORK_NONE;
	cr_assert(route_plan(&req, &fake, &a, &p, NULL) == 0);
	cr_expect(!p.loopback);
}

Test(route, a_tier_without_executor_is_refused)
{
	static const struct {
		enum tier tier;
		bool ok;
	} rows[] = { { TIER_AUTO, true },
		     { TIER_JAIL, true },
		     { TIER_DOCKER, false },
		     { TIER_AIO, false } };

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
		struct err err = { 0 };
		struct request req;
		struct plan p;
		int r;

		request_of(&req, LANGUAGE_SHELL);
		req.tier = rows[i].tier;
		r = route_plan(&req, &fake, &a, &p, &err);
		cr_expect(r == (rows[i].ok ? 0 : -EOPNOTSUPP), "%s", tier_name(rows[i].tier));
		cr_expect(err.code == (rows[i].ok ? ERR_NONE : ERR_UNSUPPORTED));
		cr_expect(rows[i].ok || strstr(err.msg, tier_name(rows[i].tier)));
		cr_expect(rows[i].ok || err.remedy[0]);
	}
}

Test(route, a_missing_interpreter_is_named_with_its_package)
{
	static const char *const packages[] = { NULL, "python3", "nodejs", "bash" };

	for (unsigned l = LANGUAGE_NONE + 1; l < LANGUAGE_COUNT; l++) {
		CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
		struct err err = { 0 };
		struct request req;
		struct plan p = { .pids = 4711 };

		request_of(&req, (enum language)l);
		cr_expect(route_plan(&req, &empty, &a, &p, &err) == -ENOENT);
		cr_expect(err.code == ERR_NOT_FOUND);
		cr_expect(strstr(err.msg, "\"empty\"") != NULL, "%s", err.msg);
		cr_expect(strstr(err.remedy, packages[l]) != NULL, "%s", err.remedy);
		cr_expect(p.pids == 4711, "*ret was touched");
	}
}

Test(route, an_image_s_error_is_passed_on)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct err err = { 0 };
	struct request req;
	struct plan p;

	request_of(&req, LANGUAGE_SHELL);
	cr_expect(route_plan(&req, &broken, &a, &p, &err) == -EIO);
	cr_expect(err.code == ERR_IO);
}

Test(route, the_bounds_of_a_plan_are_kept)
{
	static char paths[REQUEST_FILES_MAX][64];
	static struct request_file files[REQUEST_FILES_MAX];
	static const char *args[REQUEST_ARGS_MAX], *env[REQUEST_ENV_MAX];
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	CLEANUP_BUF struct buf b = BUF_INIT(PLAN_BYTES_MAX);
	struct image host = { "host", image_host.add, fake_find }; /* node may be missing */
	struct err err = { 0 };
	struct request req;
	struct plan p;

	request_of(&req, LANGUAGE_JAVASCRIPT);
	for (size_t i = 0; i < REQUEST_FILES_MAX; i++) {
		(void)snprintf(paths[i], sizeof(paths[i]), "f%zu", i);
		files[i] = (struct request_file){ paths[i], STR("x"), false };
	}
	for (size_t i = 0; i < REQUEST_ARGS_MAX; i++)
		args[i] = "x";
	for (size_t i = 0; i < REQUEST_ENV_MAX; i++)
		env[i] = "X=y";
	req.files = files;
	req.n_files = REQUEST_FILES_MAX;
	req.args = args;
	req.n_args = REQUEST_ARGS_MAX;
	req.env = env;
	req.n_env = REQUEST_ENV_MAX;
	cr_assert(route_plan(&req, &host, &a, &p, &err) == 0, "%s", err.msg);
	cr_expect(plan_encode(&p, &b) == 0, "what a request may have, a plan can say");
	for (size_t i = 0; i < REQUEST_FILES_MAX; i++) /* now each has directories of its own */
		(void)snprintf(paths[i], sizeof(paths[i]), "d%zu/e/f/g", i);
	cr_expect(route_plan(&req, &fake, &a, &p, &err) == -E2BIG);
	cr_expect(err.code == ERR_LIMIT);
}

Test(route, an_exhausted_arena_is_not_blamed_on_the_request)
{
	struct request_file files[] = { { "a/b/c.txt", STR("one"), false } };
	struct image host = { "host", image_host.add, fake_find };
	struct request req;
	bool ok = false;

	request_of(&req, LANGUAGE_JAVASCRIPT);
	req.files = files;
	req.n_files = 1;
	for (size_t max = 0; !ok && max < MIB; max += 16) {
		CLEANUP_ARENA struct arena a = ARENA_INIT(max);
		struct err err = { 0 };
		struct plan p;
		int r = route_plan(&req, &host, &a, &p, &err);

		ok = r == 0;
		cr_assert(ok || (r == -ENOMEM && err.code == ERR_LIMIT), "%zu: %d %s", max, r,
		          err.msg);
		for (size_t i = 0; ok && i < p.n_fs; i++)
			cr_assert(p.fs[i].kind != FS_OP_SYMLINK || p.fs[i].source);
	}
	cr_expect(ok);
}

/* ---- boxes that wait --------------------------------------------------------------------- */

Test(route, each_language_waits_in_its_own_way)
{
	static const struct {
		enum language language;
		const char *exec, *argv[10];
	} rows[] = {
		{ LANGUAGE_PYTHON,
		  "/opt/python3",
		  { "python3", "-I", "-B", "-u", "/etc/brig/zygote.py", "serve",
		    "/etc/brig/zygote.so", "3", "json" } },
		{ LANGUAGE_JAVASCRIPT, "/opt/node", { "node", "/etc/brig/warm.cjs", "5", "json" } },
		{ LANGUAGE_SHELL, "/opt/bash", { "bash", "/workspace/main.sh", "json" } },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
		const char *modules[] = { "json" };
		struct err err = { 0 };
		struct request req;
		struct plan p;
		size_t n = 0;

		request_of(&req, rows[i].language);
		req.args = modules;
		req.n_args = 1;
		cr_assert(route_warm(&req, &fake, &a, &p, &err) == 0, "%s", err.msg);
		cr_expect_str_eq(p.exec, rows[i].exec);
		cr_expect_str_eq(p.cwd, "/workspace");
		for (; rows[i].argv[n]; n++)
			cr_assert(n < p.n_argv && streq(p.argv[n], rows[i].argv[n]), "%zu", n);
		cr_expect(p.n_argv == n);
		n = 0;
		for (size_t k = 0; k < p.n_env; k++)
			n += streq(p.env[k], "BASH_ENV=/etc/brig/wait.sh");
		cr_expect(n == (rows[i].language == LANGUAGE_SHELL), "%zu", i);
	}
}

Test(route, a_launcher_that_has_the_image_is_not_told_the_runners_again)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct request req;
	struct plan first, again;
	size_t k = 0;

	request_of(&req, LANGUAGE_PYTHON);
	cr_assert(route_warm(&req, &fake, &a, &first, NULL) == 0);
	cr_assert(route_warm_again(&req, &fake, &a, &again, NULL) == 0);
	for (size_t i = 0; i < first.n_fs; i++) {
		if (str_has_prefix(first.fs[i].path, "/etc/brig"))
			continue;
		cr_assert(k < again.n_fs, "all else is the same");
		cr_expect(again.fs[k].kind == first.fs[i].kind);
		cr_expect_str_eq(again.fs[k++].path, first.fs[i].path);
	}
	cr_expect(k == again.n_fs && k < first.n_fs);
	cr_expect(again.n_rules == first.n_rules && again.n_argv == first.n_argv);
	cr_expect(again.layers == first.layers && again.required == first.required);
}

Test(route, a_waiting_box_has_the_runners_and_nothing_of_a_request)
{
	static const char *const runners[] = { "/etc/brig/run.cjs", "/etc/brig/warm.cjs",
		                               "/etc/brig/zygote.py", "/etc/brig/zygote.so",
		                               "/etc/brig/wait.sh" };
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct request_file files[] = { { "secret", STR("secret"), false } };
	struct request req;
	struct plan p;

	request_of(&req, LANGUAGE_PYTHON);
	req.files = files;
	req.n_files = 1;
	cr_assert(route_warm(&req, &fake, &a, &p, NULL) == 0);
	for (size_t i = 0; i < ELEMENTSOF(runners); i++) {
		const struct fs_op *op = fs_of(&p, runners[i]);

		cr_assert(op && op->kind == FS_OP_FILE, "%s", runners[i]);
		cr_expect(op->mode == 0444 && op->owner == 0 && op->data.n > 100);
		cr_expect(fs_of(&p, "/etc/brig") < op, "its folder comes first");
	}
	for (size_t i = 0; i < p.n_fs; i++) {
		cr_expect(!str_has_prefix(p.fs[i].path, "/workspace/"), "%s", p.fs[i].path);
		cr_expect(p.fs[i].data.p != req.code.p && p.fs[i].data.p != files[0].data.p);
	}
}

static bool same_op(const struct fs_op *a, const struct fs_op *b)
{
	return a && b && a->kind == b->kind && a->mode == b->mode && a->owner == b->owner &&
	       a->noexec == b->noexec && a->optional == b->optional && !a->source == !b->source &&
	       (!a->source || streq(a->source, b->source));
}

/* Every step of `a` that is no runner, script or file of a request is one of `b` too. */
static void expect_same_fs(const struct plan *a, const struct plan *b)
{
	for (size_t i = 0; i < a->n_fs; i++) {
		const char *path = a->fs[i].path;

		if (!str_has_prefix(path, "/etc/brig") && !str_has_prefix(path, "/workspace/"))
			cr_expect(same_op(&a->fs[i], fs_of(b, path)), "%s", path);
	}
}

static void expect_same_confinement(const struct plan *a, const struct plan *b, uint64_t more_files)
{
	cr_expect(a->layers == b->layers && a->required == b->required);
	cr_expect(a->init_id == b->init_id && a->code_id == b->code_id);
	cr_expect(a->host_id_base == b->host_id_base && a->host_id_slots == b->host_id_slots);
	cr_expect(a->loopback == b->loopback && streq(a->hostname, b->hostname));
	cr_expect(a->seccomp == b->seccomp && a->n_seccomp == b->n_seccomp);
	cr_expect(streq(a->seccomp_id, b->seccomp_id));
	cr_expect(a->memory_bytes == b->memory_bytes && a->pids == b->pids);
	cr_expect(a->cpu_milli == b->cpu_milli && a->cpu_ms == b->cpu_ms);
	cr_expect(a->scratch_bytes == b->scratch_bytes && a->scratch_inodes == b->scratch_inodes);
	cr_assert(a->n_rules == b->n_rules && a->n_rlimits == b->n_rlimits);
	for (size_t i = 0; i < a->n_rules; i++)
		cr_expect(access_of(b, a->rules[i].path) == a->rules[i].access, "%s",
		          a->rules[i].path);
	for (size_t i = 0; i < a->n_rlimits; i++)
		cr_expect(rlimit_of(b, a->rlimits[i].resource) ==
		                  a->rlimits[i].value + (a->rlimits[i].resource == RLIMIT_NOFILE
		                                                 ? more_files
		                                                 : 0),
		          "%u", a->rlimits[i].resource);
}

/* A box that waited is no weaker than one that was made for the request. */
Test(route, a_waiting_box_is_confined_like_any_other)
{
	static struct plan_store store;
	struct image host = { "host", image_host.add, fake_find };

	for (unsigned l = LANGUAGE_NONE + 1; l < LANGUAGE_COUNT; l++) {
		for (unsigned level = 0; level < LEVEL_COUNT; level++) {
			CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
			CLEANUP_BUF struct buf b = BUF_INIT(PLAN_BYTES_MAX);
			struct err err = { 0 };
			struct plan cold, warm, read;
			struct request req;

			request_of(&req, (enum language)l);
			req.level = (enum level)level;
			req.network = level ? NETWORK_NONE : NETWORK_LOOPBACK;
			req.limits.pids = 7 + level;
			cr_assert(route_plan(&req, &host, &a, &cold, &err) == 0, "%s", err.msg);
			cr_assert(route_warm(&req, &host, &a, &warm, &err) == 0, "%s", err.msg);
			/* where the program reports is one more open file of its own */
			expect_same_confinement(&cold, &warm, l != LANGUAGE_SHELL);
			expect_same_fs(&cold, &warm);
			expect_same_fs(&warm, &cold);
			cr_assert(plan_encode(&warm, &b) == 0);
			cr_expect(plan_decode(b.data, b.len, &store, &read, &err) == 0, "%s",
			          err.msg);
		}
	}
}

Test(route, a_waiting_box_takes_all_the_modules_and_environment_of_a_request)
{
	static const char *args[REQUEST_ARGS_MAX], *env[REQUEST_ENV_MAX];
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct err err = { 0 };
	struct request req;
	struct plan p;

	for (size_t i = 0; i < REQUEST_ARGS_MAX; i++)
		args[i] = "module";
	for (size_t i = 0; i < REQUEST_ENV_MAX; i++)
		env[i] = "X=y";
	for (unsigned l = LANGUAGE_NONE + 1; l < LANGUAGE_COUNT; l++) {
		CLEANUP_BUF struct buf b = BUF_INIT(PLAN_BYTES_MAX);

		request_of(&req, (enum language)l);
		req.args = args;
		req.n_args = REQUEST_ARGS_MAX;
		req.env = env;
		req.n_env = REQUEST_ENV_MAX;
		cr_assert(route_warm(&req, &fake, &a, &p, &err) == 0, "%s", err.msg);
		cr_expect_str_eq(p.argv[p.n_argv - 1], "module");
		cr_expect(has_env(&p, "HOME=/tmp") && has_env(&p, "X=y"));
		cr_expect(plan_encode(&p, &b) == 0);
	}
}

Test(route, a_waiting_box_is_refused_like_any_other)
{
	static const struct {
		const struct image *image;
		enum tier tier;
		int r;
		enum err_code code;
	} rows[] = {
		{ &fake, TIER_DOCKER, -EOPNOTSUPP, ERR_UNSUPPORTED },
		{ &fake, TIER_AIO, -EOPNOTSUPP, ERR_UNSUPPORTED },
		{ &empty, TIER_AUTO, -ENOENT, ERR_NOT_FOUND },
		{ &broken, TIER_AUTO, -EIO, ERR_IO },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
		struct err err = { 0 };
		struct request req;
		struct plan p = { .pids = 4711 };

		request_of(&req, LANGUAGE_JAVASCRIPT);
		req.tier = rows[i].tier;
		cr_expect(route_warm(&req, rows[i].image, &a, &p, &err) == rows[i].r, "%zu", i);
		cr_expect(err.code == rows[i].code, "%zu: %s", i, err.msg);
		cr_expect(rows[i].code != ERR_NOT_FOUND || strstr(err.remedy, "nodejs"));
		cr_expect(p.pids == 4711, "*ret was touched");
	}
}

Test(route, the_script_s_name_is_the_request_s_or_the_language_s)
{
	static const char *const names[] = { NULL, "main.py", "main.js", "main.sh" };
	struct request req;

	for (unsigned l = LANGUAGE_NONE + 1; l < LANGUAGE_COUNT; l++) {
		request_of(&req, (enum language)l);
		cr_expect_str_eq(route_script(&req), names[l]);
		req.name = "job.txt";
		cr_expect_str_eq(route_script(&req), "job.txt");
	}
}

Test(route, a_command_is_program_script_arguments_and_environment_only)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	const char *args[] = { "-x", "", "two words" }, *env[] = { "HOME=/workspace", "A=1" };
	const char *argv[] = { "bash", "/workspace/job.sh", "-x", "", "two words" };
	struct plan warm = { .exec = "/opt/other/bash", .pids = 1, .layers = LAYERS_ALL };
	struct request req;
	struct plan p;

	request_of(&req, LANGUAGE_SHELL);
	req.name = "job.sh";
	req.args = args;
	req.n_args = 3;
	req.env = env;
	req.n_env = 2;
	cr_assert(route_command(&req, &warm, &a, &p, NULL) == 0);
	cr_expect_str_eq(p.exec, "/opt/other/bash");
	cr_assert(p.n_argv == ELEMENTSOF(argv));
	for (size_t i = 0; i < ELEMENTSOF(argv); i++)
		cr_expect_str_eq(p.argv[i], argv[i]);
	cr_expect(has_env(&p, "HOME=/workspace") && has_env(&p, "A=1") &&
	          has_env(&p, "LANG=C.UTF-8"));
	cr_expect(!has_env(&p, "HOME=/tmp"));
	cr_expect(!p.n_fs && !p.n_rules && !p.n_rlimits && !p.layers && !p.pids && !p.n_seccomp);
}

Test(route, an_exhausted_arena_stops_a_command_and_a_waiting_box)
{
	struct plan warm = { .exec = "/opt/bash" };
	struct image host = { "host", image_host.add, fake_find };
	unsigned done = 0;
	struct request req;

	request_of(&req, LANGUAGE_SHELL);
	for (size_t max = 0; done != 3 && max < MIB; max += 16) {
		for (unsigned which = 1; which <= 2; which++) {
			CLEANUP_ARENA struct arena a = ARENA_INIT(max);
			struct err err = { 0 };
			struct plan p;
			int r = which == 1 ? route_command(&req, &warm, &a, &p, &err)
			                   : route_warm(&req, &host, &a, &p, &err);

			done |= r == 0 ? which : 0;
			cr_assert(r == 0 || (r == -ENOMEM && err.code == ERR_LIMIT), "%zu: %d %s",
			          max, r, err.msg);
		}
	}
	cr_expect(done == 3);
}
