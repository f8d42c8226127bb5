/* SPDX-License-Identifier: Apache-2.0 */
#include "route/route.h"

#include <errno.h>
#include <linux/filter.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runners_gen.h"
#include "seccomp_default.h"

#define INIT_ID     1
#define CODE_ID     1000
#define ID_BASE     0x70000000u /* above what distributions hand out to users and containers */
#define ID_SLOTS    (1u << 20)
#define NODE_RUNNER "/etc/brig/run.cjs"
#define NODE_WARM   "/etc/brig/warm.cjs"
#define ZYGOTE      "/etc/brig/zygote.py"
#define ZYGOTE_SO   "/etc/brig/zygote.so"
#define SHELL_WAIT  "/etc/brig/wait.sh"

int plan_add_fs(struct plan *p, struct fs_op op, struct err *err)
{
	if (p->n_fs == PLAN_FS_OPS_MAX)
		return err_set(err, ERR_LIMIT, E2BIG, "more than %d files and mounts",
		               PLAN_FS_OPS_MAX);
	p->fs[p->n_fs++] = op;
	return 0;
}

int plan_add_rule(struct plan *p, const char *path, enum plan_access access, struct err *err)
{
	if (p->n_rules == PLAN_RULES_MAX)
		return err_set(err, ERR_LIMIT, E2BIG, "more than %d access rules", PLAN_RULES_MAX);
	p->rules[p->n_rules++] = (struct plan_rule){ path, access };
	return 0;
}

static const struct {
	const char *program;
	const char *package; /* of the distribution, for the error */
	const char *flags[3];
} runtimes[LANGUAGE_COUNT] = {
	/* unbuffered: what was printed before a kill is not lost; no .pyc files in the workspace */
	[LANGUAGE_PYTHON] = { "python3", "python3", { "-u", "-B" } },
	[LANGUAGE_JAVASCRIPT] = { "node", "nodejs", { NODE_RUNNER } },
	[LANGUAGE_SHELL] = { "bash", "bash", { NULL } },
};

/*
 * What of procfs tells about the host's hardware, kernel or keys. Each costs a mount, so only what
 * an unprivileged reader would learn something from; nothing there can be written by a box.
 */
static const char *const proc_masks[] = {
	"/proc/acpi",          "/proc/asound",        "/proc/bus",         "/proc/cmdline",
	"/proc/config.gz",     "/proc/driver",        "/proc/fs",          "/proc/interrupts",
	"/proc/iomem",         "/proc/ioports",       "/proc/irq",         "/proc/kallsyms",
	"/proc/kcore",         "/proc/key-users",     "/proc/keys",        "/proc/kmsg",
	"/proc/latency_stats", "/proc/modules",       "/proc/sched_debug", "/proc/scsi",
	"/proc/slabinfo",      "/proc/sysrq-trigger", "/proc/sysvipc",     "/proc/timer_list",
	"/proc/timer_stats",   "/proc/tty",           "/proc/vmallocinfo",
};

/*
 * Adds a mask where there is something to hide: the box's procfs is of this same kernel. Files that
 * only root may read need none: no uid of a box is root, inside or outside, and no capability of it
 * counts for a file whose owner is not in its user namespace.
 */
static int add_mask(struct plan *p, const char *path, struct err *err)
{
	struct stat st = { 0 };

	if (stat(path, &st) < 0 && errno == ENOENT)
		return 0;
	if (S_ISREG(st.st_mode) && (st.st_mode & 0077) == 0)
		return 0;
	return plan_add_fs(
		p, (struct fs_op){ .kind = FS_OP_MASK, .path = path, .mode = st.st_mode & S_IFMT },
		err);
}

static int add_masks(struct plan *p, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < ELEMENTSOF(proc_masks) && r >= 0; i++)
		r = add_mask(p, proc_masks[i], err);
	if (r >= 0)
		r = plan_add_fs(p, (struct fs_op){ .kind = FS_OP_READONLY, .path = "/proc/sys" },
		                err);
	return r;
}

static int add_places(struct plan *p, struct err *err)
{
	static const struct fs_op places[] = {
		{ .kind = FS_OP_PROC, .path = "/proc" },
		{ .kind = FS_OP_DEV, .path = "/dev" },
		{ .kind = FS_OP_SCRATCH,
		  .path = "/dev/shm",
		  .mode = 01777,
		  .owner = CODE_ID,
		  .noexec = true },
		{ .kind = FS_OP_SCRATCH, .path = "/tmp", .mode = 01777, .owner = CODE_ID },
		{ .kind = FS_OP_SCRATCH, .path = WORKSPACE, .mode = 0755, .owner = CODE_ID },
	};
	static const struct plan_rule rules[] = {
		{ "/", PLAN_ACCESS_LIST },
		{ "/proc", PLAN_ACCESS_READ },
		{ "/dev", PLAN_ACCESS_DEVICE }, /* holds only what we put there */
		{ "/dev/shm", PLAN_ACCESS_WRITE },
		{ "/tmp", PLAN_ACCESS_WRITE_EXEC },
		{ WORKSPACE, PLAN_ACCESS_WRITE_EXEC },
	};
	int r = 0;

	for (size_t i = 0; i < ELEMENTSOF(places) && r >= 0; i++)
		r = plan_add_fs(p, places[i], err);
	for (size_t i = 0; i < ELEMENTSOF(rules) && r >= 0; i++)
		r = plan_add_rule(p, rules[i].path, rules[i].access, err);
	return r;
}

/* Directories above the file; making one that is there already does nothing. */
static int add_parents(struct arena *a, struct plan *p, const char *path, struct err *err)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		const char *dir = arena_printf(a, WORKSPACE "/%.*s", (int)(slash - path), path);
		int r;

		if (!dir)
			return err_set(err, ERR_LIMIT, ENOMEM, "memory of the request");
		r = plan_add_fs(
			p,
			(struct fs_op){
				.kind = FS_OP_DIR, .path = dir, .mode = 0755, .owner = CODE_ID },
			err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_file(struct arena *a, struct plan *p, const char *path, struct str data,
                    uint32_t mode, struct err *err)
{
	const char *full;
	int r;

	if (sizeof(WORKSPACE "/") + strlen(path) > PLAN_PATH_MAX)
		return err_set(err, ERR_INVALID, ENAMETOOLONG, "files: path is too long");
	full = arena_printf(a, WORKSPACE "/%s", path);
	if (!full)
		return err_set(err, ERR_LIMIT, ENOMEM, "memory of the request");
	r = add_parents(a, p, path, err);
	if (r < 0)
		return r;
	return plan_add_fs(p,
	                   (struct fs_op){ .kind = FS_OP_FILE,
	                                   .path = full,
	                                   .data = data,
	                                   .mode = mode,
	                                   .owner = CODE_ID },
	                   err);
}

static const char *script_name(const struct request *req)
{
	return req->name ? req->name : language_script(req->language);
}

static int add_request_files(const struct request *req, struct arena *a, struct plan *p,
                             struct err *err)
{
	int r = add_file(a, p, script_name(req), req->code, 0644, err);

	for (size_t i = 0; i < req->n_files && r >= 0; i++) {
		const struct request_file *f = &req->files[i];

		if (streq(f->path, script_name(req)))
			return err_set(err, ERR_INVALID, EEXIST,
			               "files[%zu].path: \"%s\" is the script", i, f->path);
		r = add_file(a, p, f->path, f->data, f->executable ? 0755 : 0644, err);
	}
	return r;
}

static int add_command(const struct request *req, const struct image *image, struct arena *a,
                       struct plan *p, struct err *err)
{
	const char *script = arena_printf(a, WORKSPACE "/%s", script_name(req));

	if (image->find(runtimes[req->language].program, &p->exec) < 0) {
		(void)err_set(err, ERR_NOT_FOUND, 0, "no %s in the image \"%s\"",
		              runtimes[req->language].program, image->id);
		return err_remedy(err, -ENOENT, "install it on this machine: apt-get install %s",
		                  runtimes[req->language].package);
	}
	p->argv = arena_array(a, req->n_args + 8, sizeof(*p->argv));
	if (!p->argv || !script)
		return err_set(err, ERR_LIMIT, ENOMEM, "memory of the request");
	p->argv[p->n_argv++] = runtimes[req->language].program;
	for (size_t i = 0; i < ELEMENTSOF(runtimes->flags) && runtimes[req->language].flags[i]; i++)
		p->argv[p->n_argv++] = runtimes[req->language].flags[i];
	p->argv[p->n_argv++] = script;
	for (size_t i = 0; i < req->n_args; i++)
		p->argv[p->n_argv++] = req->args[i];
	return 0;
}

/* The caller's entries come last and replace ours of the same name. */
static int add_environment(const struct request *req, struct arena *a, struct plan *p,
                           struct err *err)
{
	static const char *const defaults[] = { "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp",
		                                "TMPDIR=/tmp", "LANG=C.UTF-8", "USER=sandbox" };

	p->env = arena_array(a, req->n_env + ELEMENTSOF(defaults) + 2, sizeof(*p->env));
	if (!p->env)
		return err_set(err, ERR_LIMIT, ENOMEM, "memory of the request");
	for (size_t i = 0; i < ELEMENTSOF(defaults); i++) {
		size_t name = strcspn(defaults[i], "=") + 1;
		bool replaced = false;

		for (size_t j = 0; j < req->n_env; j++)
			replaced |= strncmp(req->env[j], defaults[i], name) == 0;
		if (!replaced)
			p->env[p->n_env++] = defaults[i];
	}
	for (size_t i = 0; i < req->n_env; i++)
		p->env[p->n_env++] = req->env[i];
	return 0;
}

static void add_limits(const struct limits *l, struct plan *p)
{
	const struct plan_rlimit rlimits[] = {
		{ RLIMIT_CORE, 1 }, /* 0 would still start a piped core handler of the host */
		{ RLIMIT_NOFILE, l->open_files },
		{ RLIMIT_NPROC, l->pids + 1 }, /* init counts */
		{ RLIMIT_FSIZE, l->file_bytes },
		{ RLIMIT_STACK, 8 * MIB },
		{ RLIMIT_MEMLOCK, 64 * KIB },
		{ RLIMIT_MSGQUEUE, 0 },
		{ RLIMIT_RTPRIO, 0 },
		{ RLIMIT_NICE, 0 },
		{ RLIMIT_SIGPENDING, 1024 },
		{ RLIMIT_CPU,
		  l->cpu_ms / 1000 + 1 }, /* of one process; the launcher watches the sum */
	};

	memcpy(p->rlimits, rlimits, sizeof(rlimits));
	p->n_rlimits = ELEMENTSOF(rlimits);
	p->memory_bytes = l->memory_bytes;
	p->pids = l->pids;
	p->cpu_milli = l->cpu_milli;
	p->cpu_ms = l->cpu_ms;
	p->scratch_bytes = l->disk_bytes;
	p->scratch_inodes = (uint32_t)l->inodes;
}

static int check_tier(enum tier tier, struct err *err)
{
	if (tier == TIER_AUTO || tier == TIER_JAIL)
		return 0;
	(void)err_set(err, ERR_UNSUPPORTED, 0, "no executor for the tier \"%s\" is built in",
	              tier_name(tier));
	return err_remedy(err, -EOPNOTSUPP, "use the tier \"jail\" or \"auto\"");
}

static int alloc_lists(struct arena *a, struct plan *p, struct err *err)
{
	p->fs = arena_array(a, PLAN_FS_OPS_MAX, sizeof(*p->fs));
	p->rules = arena_array(a, PLAN_RULES_MAX, sizeof(*p->rules));
	p->rlimits = arena_array(a, PLAN_RLIMITS_MAX, sizeof(*p->rlimits));
	if (!p->fs || !p->rules || !p->rlimits)
		return err_set(err, ERR_LIMIT, ENOMEM, "memory of the request");
	return 0;
}

/* What runs code in a box beside the interpreter itself: files of ours, read-only. */
static int add_runners(struct plan *p, struct err *err)
{
	static const struct {
		const char *path;
		struct str data;
	} files[] = {
		{ NODE_RUNNER, { (const char *)node_run, sizeof(node_run) } },
		{ NODE_WARM, { (const char *)node_warm, sizeof(node_warm) } },
		{ ZYGOTE, { (const char *)python_zygote, sizeof(python_zygote) } },
		{ ZYGOTE_SO, { (const char *)zygote_so, sizeof(zygote_so) } },
		{ SHELL_WAIT, { (const char *)shell_wait, sizeof(shell_wait) } },
	};
	int r = plan_add_fs(
		p, (struct fs_op){ .kind = FS_OP_DIR, .path = "/etc/brig", .mode = 0755 }, err);

	for (size_t i = 0; i < ELEMENTSOF(files) && r >= 0; i++)
		r = plan_add_fs(p,
		                (struct fs_op){ .kind = FS_OP_FILE,
		                                .path = files[i].path,
		                                .data = files[i].data,
		                                .mode = 0444 },
		                err);
	return r;
}

/* A one-shot box has only what its language needs: every file costs. */
static int add_node_runner(struct plan *p, struct err *err)
{
	int r = plan_add_fs(
		p, (struct fs_op){ .kind = FS_OP_DIR, .path = "/etc/brig", .mode = 0755 }, err);

	if (r < 0)
		return r;
	return plan_add_fs(p,
	                   (struct fs_op){ .kind = FS_OP_FILE,
	                                   .path = NODE_RUNNER,
	                                   .data = { (const char *)node_run, sizeof(node_run) },
	                                   .mode = 0444 },
	                   err);
}

/* Locking the code's mounts costs a second mount namespace: only where it is asked for. */
static uint32_t layers_planned(enum level level)
{
	return level == LEVEL_STRICT ? LAYERS_ALL : LAYERS_ALL & ~LAYER_BIT(LOCKED_MOUNTS);
}

static struct plan plan_start(const struct request *req)
{
	return (struct plan){
		.layers = layers_planned(req->level),
		.required = layers_required(req->level),
		.init_id = INIT_ID,
		.code_id = CODE_ID,
		.host_id_base = ID_BASE,
		.host_id_slots = ID_SLOTS,
		.hostname = "brig",
		.loopback = req->network == NETWORK_LOOPBACK,
		.seccomp = seccomp_default,
		.n_seccomp = seccomp_default_len,
		.seccomp_id = seccomp_default_sha256,
		.script = script_name(req),
		.cwd = WORKSPACE,
	};
}

int route_plan(const struct request *req, const struct image *image, struct arena *a,
               struct plan *ret, struct err *err)
{
	struct plan p = plan_start(req);
	int r = check_tier(req->tier, err);

	if (r >= 0)
		r = alloc_lists(a, &p, err);
	if (r >= 0)
		r = image->add(a, &p, err);
	if (r >= 0 && req->language == LANGUAGE_JAVASCRIPT)
		r = add_node_runner(&p, err);
	if (r >= 0)
		r = add_places(&p, err);
	if (r >= 0)
		r = add_masks(&p, err);
	if (r >= 0)
		r = add_request_files(req, a, &p, err);
	if (r >= 0)
		r = add_command(req, image, a, &p, err);
	if (r >= 0)
		r = add_environment(req, a, &p, err);
	if (r < 0)
		return r;
	add_limits(&req->limits, &p);
	*ret = p;
	return 0;
}

/* What waits in a warm box: a zygote's child, a warmed node, or a shell before its script. */
static int add_waiting_command(const struct request *req, const struct image *image,
                               struct arena *a, struct plan *p, struct err *err)
{
	static const char *const commands[LANGUAGE_COUNT][8] = {
		[LANGUAGE_PYTHON] = { "-I", "-B", "-u", ZYGOTE, "serve", ZYGOTE_SO, "3" },
		[LANGUAGE_JAVASCRIPT] = { NODE_WARM, "5" },
		[LANGUAGE_SHELL] = { NULL }, /* the script */
	};
	const char *const *command = commands[req->language];
	const char *script = arena_printf(a, WORKSPACE "/%s", script_name(req));

	if (image->find(runtimes[req->language].program, &p->exec) < 0) {
		(void)err_set(err, ERR_NOT_FOUND, 0, "no %s in the image \"%s\"",
		              runtimes[req->language].program, image->id);
		return err_remedy(err, -ENOENT, "install it on this machine: apt-get install %s",
		                  runtimes[req->language].package);
	}
	p->argv = arena_array(a, req->n_args + 10, sizeof(*p->argv));
	if (!p->argv || !script)
		return err_set(err, ERR_LIMIT, ENOMEM, "memory of the plan");
	p->argv[p->n_argv++] = runtimes[req->language].program;
	for (; *command; command++)
		p->argv[p->n_argv++] = *command;
	if (req->language == LANGUAGE_SHELL)
		p->argv[p->n_argv++] = script;
	for (size_t i = 0; i < req->n_args; i++) /* modules to load before anybody asks */
		p->argv[p->n_argv++] = req->args[i];
	return 0;
}

static int plan_waiting(const struct request *req, const struct image *image, bool runners,
                        struct arena *a, struct plan *ret, struct err *err)
{
	struct plan p = plan_start(req);
	int r = check_tier(req->tier, err);

	if (r >= 0)
		r = alloc_lists(a, &p, err);
	if (r >= 0)
		r = image->add(a, &p, err);
	if (r >= 0 && runners)
		r = add_runners(&p, err);
	if (r >= 0)
		r = add_places(&p, err);
	if (r >= 0)
		r = add_masks(&p, err);
	if (r >= 0)
		r = add_waiting_command(req, image, a, &p, err);
	if (r >= 0)
		r = add_environment(req, a, &p, err);
	if (r < 0)
		return r;
	/* What a box's process would look up, it would look up in pages of its own. */
	if (req->language == LANGUAGE_PYTHON)
		p.env[p.n_env++] = "LD_BIND_NOW=1";
	if (req->language == LANGUAGE_SHELL)
		p.env[p.n_env++] = "BASH_ENV=" SHELL_WAIT;
	add_limits(&req->limits, &p);
	for (size_t i = 0; i < p.n_rlimits && req->language != LANGUAGE_SHELL; i++)
		p.rlimits[i].value += p.rlimits[i].resource == RLIMIT_NOFILE; /* the report's */
	*ret = p;
	return 0;
}

int route_warm(const struct request *req, const struct image *image, struct arena *a,
               struct plan *ret, struct err *err)
{
	return plan_waiting(req, image, true, a, ret, err);
}

int route_warm_again(const struct request *req, const struct image *image, struct arena *a,
                     struct plan *ret, struct err *err)
{
	return plan_waiting(req, image, false, a, ret, err);
}

const char *route_script(const struct request *req)
{
	return script_name(req);
}

int route_command(const struct request *req, const struct plan *warm, struct arena *a,
                  struct plan *ret, struct err *err)
{
	const char *script = arena_printf(a, WORKSPACE "/%s", script_name(req));
	struct plan p = { .exec = warm->exec };
	int r;

	p.argv = arena_array(a, req->n_args + 8, sizeof(*p.argv));
	if (!p.argv || !script)
		return err_set(err, ERR_LIMIT, ENOMEM, "memory of the request");
	p.argv[p.n_argv++] = runtimes[req->language].program;
	p.argv[p.n_argv++] = script;
	for (size_t i = 0; i < req->n_args; i++)
		p.argv[p.n_argv++] = req->args[i];
	r = add_environment(req, a, &p, err);
	*ret = p;
	return r;
}
