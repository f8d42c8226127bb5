/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The bare program and other people's sandboxes. Each shows the host's /usr read-only, has no
 * network, and needs no image; the options are those that come nearest to a brig box without
 * making the peer slower than its documentation would.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "bundle.h"
#include "contest.h"

#define ARGV_MAX 48

struct peer {
	const char *argv[ARGV_MAX];
	size_t n;
	char program[256];
	struct bundle bundle; /* a folder with a root file system; not all have one */
	char rootfs[64], volume[32];
	int mount_ns;
	unsigned runs; /* names of containers */
	char id[48];
};

/* ---- all ------------------------------------------------------------------------------- */

static void add(struct peer *p, const char *word)
{
	if (p->n < ARGV_MAX - 1)
		p->argv[p->n++] = word;
}

static void add_workload(struct peer *p, const struct entry *e)
{
	add(p, e->program);
	for (size_t i = 1; i < ELEMENTSOF(e->what->argv) && e->what->argv[i]; i++)
		add(p, e->what->argv[i]);
}

static struct peer *new_peer(struct entry *e, struct err *err)
{
	struct peer *p = calloc(1, sizeof(*p));

	if (!p) {
		(void)err_set(err, ERR_INTERNAL, ENOMEM, "a contestant");
		return NULL;
	}
	p->mount_ns = FD_NONE;
	if (e->who->needs)
		(void)find_program(e->who->needs, p->program, sizeof(p->program));
	e->state = p;
	return p;
}

static void peer_teardown(struct entry *e)
{
	struct peer *p = e->state;

	if (!p)
		return;
	bundle_remove(&p->bundle);
	(void)fd_close(p->mount_ns);
	free(p);
	e->state = NULL;
}

/* The words of the table, then the workload's. */
static int plain_setup(struct entry *e, struct err *err)
{
	struct peer *p = new_peer(e, err);

	if (!p)
		return -ENOMEM;
	if (e->who->needs)
		add(p, p->program);
	for (const char *const *word = e->who->argv; word && *word; word++)
		add(p, *word);
	add_workload(p, e);
	return 0;
}

static int plain_run(struct entry *e, struct err *err)
{
	struct peer *p = e->state;
	const struct spawn s = { .argv = p->argv, .mount_ns = p->mount_ns };

	return spawn_check(&s, e->what->output, err);
}

static int run_tool(const char *const *argv, const char *input, struct err *err)
{
	const struct spawn s = { .argv = argv, .mount_ns = FD_NONE, .input = input };

	return spawn_check(&s, NULL, err);
}

/* ---- bash, since brig's shell is bash ---------------------------------------------------- */

static int bash_setup(struct entry *e, struct err *err)
{
	struct peer *p = new_peer(e, err);

	if (!p)
		return -ENOMEM;
	add(p, p->program);
	for (size_t i = 1; i < ELEMENTSOF(e->what->argv) && e->what->argv[i]; i++)
		add(p, e->what->argv[i]);
	return 0;
}

/* ---- OCI runtimes ---------------------------------------------------------------------- */

static int oci_setup(struct entry *e, struct err *err)
{
	struct peer *p = new_peer(e, err);
	const char *command[ELEMENTSOF(e->what->argv) + 1] = { e->program };
	int r;

	if (!p)
		return -ENOMEM;
	for (size_t i = 1; i < ELEMENTSOF(e->what->argv) && e->what->argv[i]; i++)
		command[i] = e->what->argv[i];
	r = bundle_make(&p->bundle, command, err);
	if (r >= 0 && strcmp(e->who->needs, "crun") == 0)
		r = bundle_mount_ns(&p->mount_ns, err);
	if (r < 0)
		return r;
	add(p, p->program);
	add(p, "run");
	add(p, "--bundle");
	add(p, p->bundle.path);
	add(p, p->id);
	return 0;
}

static int oci_run(struct entry *e, struct err *err)
{
	struct peer *p = e->state;

	(void)snprintf(p->id, sizeof(p->id), "brig-bench-%d-%u", (int)getpid(), p->runs++);
	return plain_run(e, err);
}

/* ---- podman, docker -------------------------------------------------------------------- */

static void add_engine(struct peer *p)
{
	static const char *const words[] = { "run",         "--rm",
		                             "--network",   "none",
		                             "--ulimit",    "nofile=1024:1024",
		                             "--ulimit",    "nproc=4096:4096",
		                             "--read-only", "--volume" };

	add(p, p->program);
	for (size_t i = 0; i < ELEMENTSOF(words); i++)
		add(p, words[i]);
	(void)snprintf(p->volume, sizeof(p->volume), "/usr:/usr:ro");
	add(p, p->volume);
}

static int podman_setup(struct entry *e, struct err *err)
{
	struct peer *p = new_peer(e, err);
	static const char *const none[] = { NULL };
	int r = p ? bundle_make(&p->bundle, none, err) : -ENOMEM;

	if (r < 0)
		return r;
	(void)snprintf(p->rootfs, sizeof(p->rootfs), "%s/rootfs", p->bundle.path);
	add_engine(p);
	add(p, "--rootfs");
	add(p, p->rootfs);
	add_workload(p, e);
	return 0;
}

/* docker runs images only: the empty root file system becomes one. */
static int docker_setup(struct entry *e, struct err *err)
{
	struct peer *p = new_peer(e, err);
	static const char *const none[] = { NULL };
	char tar[80];
	int r = p ? bundle_make(&p->bundle, none, err) : -ENOMEM;

	if (r < 0)
		return r;
	(void)snprintf(p->rootfs, sizeof(p->rootfs), "%s/rootfs", p->bundle.path);
	(void)snprintf(tar, sizeof(tar), "%s/root.tar", p->bundle.path);
	(void)snprintf(p->id, sizeof(p->id), "brig-bench:%d", (int)getpid());
	r = run_tool((const char *[]){ "/bin/tar", "-C", p->rootfs, "-cf", tar, ".", NULL }, NULL,
	             err);
	if (r >= 0)
		r = run_tool((const char *[]){ p->program, "import", "-", p->id, NULL }, tar, err);
	if (r < 0) {
		*p->id = '\0';
		return r;
	}
	add_engine(p);
	add(p, p->id);
	add_workload(p, e);
	return 0;
}

static void docker_teardown(struct entry *e)
{
	struct peer *p = e->state;

	if (p && *p->id)
		(void)run_tool((const char *[]){ p->program, "rmi", p->id, NULL }, NULL, NULL);
	peer_teardown(e);
}

/* ---- isolate --------------------------------------------------------------------------- */

static int isolate_setup(struct entry *e, struct err *err)
{
	int r = plain_setup(e, err);
	struct peer *p = e->state;

	if (r < 0)
		return r;
	return run_tool((const char *[]){ p->program, "--init", NULL }, NULL, err);
}

static void isolate_teardown(struct entry *e)
{
	struct peer *p = e->state;

	if (p)
		(void)run_tool((const char *[]){ p->program, "--cleanup", NULL }, NULL, NULL);
	peer_teardown(e);
}

/* ---- the table ------------------------------------------------------------------------- */

static void sleep_ms(struct entry *e, unsigned ms)
{
	(void)e;
	(void)usleep(ms * 1000);
}

static const char *const bwrap_words[] = {
	"--unshare-all",     "--ro-bind", "/usr",      "/usr",          "--symlink",
	"usr/bin",           "/bin",      "--symlink", "usr/lib",       "/lib",
	"--symlink",         "usr/lib64", "/lib64",    "--ro-bind-try", "/etc/alternatives",
	"/etc/alternatives", "--dev",     "/dev",      "--proc",        "/proc",
	"--tmpfs",           "/tmp",      "--chdir",   "/tmp",          NULL
};
static const char *const firejail_words[] = { "--quiet",       "--noprofile", "--net=none",
	                                      "--private-tmp", "--",          NULL };
static const char *const nsjail_words[] = { "-Mo", "-Q", "--chroot", "/", "--", NULL };
static const char *const isolate_words[] = { "--silent", "--processes=64", "--run", "--", NULL };

#define PEER(label, program, words)                                                                \
	.name = (label), .needs = (program), .argv = (words), .setup = plain_setup,                \
	.run = plain_run, .idle = sleep_ms, .teardown = peer_teardown

const struct contestant peer_contestants[] = {
	{ PEER("bare posix_spawn", NULL, NULL), .full = true },
	{ PEER("bare posix_spawn, 50 ms idle", NULL, NULL), .idle_ms = 50, .full = true },
	{ .name = "bare posix_spawn of bash -c",
	  .needs = "bash",
	  .full = true,
	  .shell_only = true,
	  .setup = bash_setup,
	  .run = plain_run,
	  .teardown = peer_teardown },
	{ PEER("bwrap --unshare-all", "bwrap", bwrap_words), .killed = true },
	{ PEER("firejail --noprofile --net=none", "firejail", firejail_words), .killed = true },
	{ .name = "crun run",
	  .needs = "crun",
	  .setup = oci_setup,
	  .run = oci_run,
	  .teardown = peer_teardown },
	{ .name = "runc run",
	  .needs = "runc",
	  .setup = oci_setup,
	  .run = oci_run,
	  .teardown = peer_teardown },
	{ PEER("nsjail -Mo --chroot /", "nsjail", nsjail_words), .killed = true },
	{ .name = "isolate --run (without init, cleanup)",
	  .needs = "isolate",
	  .argv = isolate_words,
	  .setup = isolate_setup,
	  .run = plain_run,
	  .teardown = isolate_teardown },
	{ .name = "podman run --rm",
	  .needs = "podman",
	  .cpu_hidden = true,
	  .setup = podman_setup,
	  .run = plain_run,
	  .teardown = peer_teardown },
	{ .name = "docker run --rm",
	  .needs = "docker",
	  .cpu_hidden = true,
	  .setup = docker_setup,
	  .run = plain_run,
	  .teardown = docker_teardown },
};

const size_t peer_contestants_n = ELEMENTSOF(peer_contestants);
