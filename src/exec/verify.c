/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "exec/verify_impl.h"
#include "sys/file.h"

static void note(struct look *k, enum layer_id id, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void note(struct look *k, enum layer_id id, const char *fmt, ...)
{
	struct receipt_layer *l;
	va_list ap;

	if ((unsigned)id >= LAYER_COUNT)
		return;
	l = &k->receipt->layers[id];
	k->seen |= UINT32_C(1) << id;
	va_start(ap, fmt);
	(void)vsnprintf(l->detail, sizeof(l->detail), fmt, ap);
	va_end(ap);
}

int look_mismatch(struct look *k, const char *what)
{
	(void)err_set(k->err, ERR_SETUP, 0, "the box is not what was planned: %s", what);
	(void)snprintf(k->err->step, sizeof(k->err->step), "verify");
	return -EPERM;
}

int look_read(struct look *k, int dir, const char *file)
{
	CLEANUP_FD int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	if (fd < 0)
		return err_set(k->err, ERR_SETUP, errno, "look at the box's %s", file);
	for (;;) {
		ssize_t n = read(fd, k->text + len, PROC_TEXT_MAX - 1 - len);

		if (n < 0)
			return err_set(k->err, ERR_SETUP, errno, "read the box's %s", file);
		if (n == 0)
			break;
		len += (size_t)n;
		if (len == PROC_TEXT_MAX - 1)
			return err_set(k->err, ERR_SETUP, EFBIG, "the box's %s", file);
	}
	k->text[len] = '\0';
	return 0;
}

/* The rest of the line that starts with "key:", blanks skipped; NULL when there is none. */
static const char *status_value(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, key, n) == 0 && p[n] == ':')
			return p + n + 1 + strspn(p + n + 1, " \t");
	}
	return NULL;
}

static bool value_is(const char *text, const char *key, const char *want)
{
	const char *v = status_value(text, key);
	size_t n = strlen(want);

	return v && strncmp(v, want, n) == 0 && (v[n] == '\n' || v[n] == '\0');
}

static bool ids_are(const char *text, const char *key, uint32_t id)
{
	char want[64];

	(void)snprintf(want, sizeof(want), "%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32, id,
	               id, id, id);
	return value_is(text, key, want);
}

static bool no_capabilities(const char *text)
{
	static const char *const sets[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };

	for (size_t i = 0; i < ELEMENTSOF(sets); i++)
		if (!value_is(text, sets[i], "0000000000000000"))
			return false;
	return true;
}

/* The layer must be in force when it was planned and required; noted when it is. */
int look_expect(struct look *k, enum layer_id id, bool holds, const char *detail)
{
	uint32_t bit = UINT32_C(1) << id;

	if (holds) {
		note(k, id, "%s", detail);
		return 0;
	}
	return k->plan->required & bit ? look_mismatch(k, layer_name(id)) : 0;
}

/*
 * Root's boxes have a gid of their own and no other group. An ordinary user's keep the user's gid
 * and groups: the kernel lets nobody drop groups in a user namespace of one id.
 */
static bool groups_are_own(const struct look *k)
{
	const struct launch_reply *st = &k->facts->started;

	if (st->host_init_uid == st->host_code_uid)
		return ids_are(k->text, "Gid", (uint32_t)getegid());
	return ids_are(k->text, "Gid", st->host_code_uid) && value_is(k->text, "Groups", "");
}

/* That we have ourselves, so our launcher and its boxes do. -2: not looked at, and like none. */
static long own_filters = -2;

/* How many filters a process has; -1 where the kernel does not tell (before 5.9). */
static long filters_in(const char *status)
{
	const char *v = status_value(status, "Seccomp_filters");

	return v ? strtol(v, NULL, 10) : -1;
}

/* The code's own filter comes on top of what init has, and init has one of the launcher's. */
static int look_at_filters(struct look *k, long of_init)
{
	bool filtered = value_is(k->text, "Seccomp", "2");
	long n = filters_in(k->text);
	int r = look_expect(k, LAYER_LAUNCH_FILTER, filtered && of_init == own_filters + (n >= 0),
	                    "of the launcher and all that it makes, init too");

	if (r < 0)
		return r;
	return look_expect(k, LAYER_SECCOMP, filtered && (n < 0 || n == of_init + 1),
	                   "filter, allow-list, default ENOSYS");
}

static int look_at_status(struct look *k)
{
	const struct launch_reply *started = &k->facts->started;
	int r = look_read(k, k->init_dir, "status");
	long of_init;

	if (r < 0)
		return r;
	of_init = filters_in(k->text);
	if (!ids_are(k->text, "Uid", started->host_init_uid) || !no_capabilities(k->text) ||
	    !value_is(k->text, "NoNewPrivs", "1"))
		return look_mismatch(k, "init's ids or capabilities");
	r = look_read(k, k->code_dir, "status");
	if (r < 0)
		return r;
	if (!ids_are(k->text, "Uid", started->host_code_uid) || !groups_are_own(k))
		return look_mismatch(k, "the code's ids");
	r = look_expect(k, LAYER_CAPABILITIES, no_capabilities(k->text), "all five sets empty");
	if (r >= 0)
		r = look_expect(k, LAYER_NO_NEW_PRIVS, value_is(k->text, "NoNewPrivs", "1"), "set");
	if (r >= 0)
		r = look_at_filters(k, of_init);
	if (r >= 0)
		r = look_expect(k, LAYER_UID_SPLIT,
		                started->host_init_uid != started->host_code_uid,
		                "init and code have different uids");
	return r;
}

static const struct {
	enum layer_id layer;
	const char *name;
} ns_files[] = {
	{ LAYER_USER_NS, "ns/user" }, { LAYER_MOUNT_NS, "ns/mnt" },     { LAYER_PID_NS, "ns/pid" },
	{ LAYER_NET_NS, "ns/net" },   { LAYER_IPC_NS, "ns/ipc" },       { LAYER_UTS_NS, "ns/uts" },
	{ LAYER_TIME_NS, "ns/time" }, { LAYER_CGROUP_NS, "ns/cgroup" },
};

static uint64_t own_ns[ELEMENTSOF(ns_files)]; /* 0: not looked at, or not there */

/* The inode of a namespace, as its link names it: "net:[4026531840]". 0: it cannot be told. */
static uint64_t ns_inode(int dir, const char *file)
{
	char text[64], *end;
	const char *number;
	ssize_t n = readlinkat(dir, file, text, sizeof(text) - 1);
	uint64_t inode;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	number = strstr(text, ":[");
	if (!number)
		return 0;
	inode = strtoull(number + 2, &end, 10);
	return streq(end, "]") ? inode : 0;
}

void verify_prepare(void)
{
	static _Thread_local char text[PROC_TEXT_MAX];

	if (!own_ns[0] && file_read(AT_FDCWD, "/proc/self/status", text, sizeof(text)) > 0)
		own_filters = filters_in(text);
	for (size_t i = 0; i < ELEMENTSOF(ns_files) && !own_ns[i]; i++) {
		struct stat st;
		char path[32];

		(void)snprintf(path, sizeof(path), "/proc/self/%s", ns_files[i].name);
		if (stat(path, &st) == 0)
			own_ns[i] = st.st_ino;
	}
}

/* A launcher that stays has left our network, and enters a box's only to clone it. */
static int look_at_launcher(struct look *k, uint64_t code_net)
{
	char path[64];
	uint64_t inode;

	if (!k->facts->launcher_pid)
		return 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)k->facts->launcher_pid);
	inode = ns_inode(AT_FDCWD, path);
	return inode && inode != code_net ? 0
	                                  : look_mismatch(k, "the launcher's network namespace");
}

/* Different from ours. */
static int look_at_namespaces(struct look *k)
{
	uint64_t init_net, code_net = 0;

	for (size_t i = 0; i < ELEMENTSOF(ns_files); i++) {
		uint64_t inode = own_ns[i] ? ns_inode(k->code_dir, ns_files[i].name) : 0;
		char detail[64];
		int r;

		if (own_ns[i] && !inode) /* we have one: so has the box */
			return look_mismatch(k, ns_files[i].name);
		(void)snprintf(detail, sizeof(detail), "inode %" PRIu64, inode);
		r = look_expect(k, ns_files[i].layer, inode && inode != own_ns[i], detail);
		if (r < 0)
			return r;
		if (ns_files[i].layer == LAYER_NET_NS)
			code_net = inode;
	}
	/* Init joined the code's; it must not have stayed with the host. */
	init_net = ns_inode(k->init_dir, "ns/net");
	if (!init_net || init_net != code_net)
		return look_mismatch(k, "init's network namespace");
	return look_at_launcher(k, code_net);
}

/* No host uid 0 in the map, and exactly the ids that the launcher said. */
static int look_at_maps(struct look *k)
{
	const struct launch_reply *st = &k->facts->started;
	unsigned long in, out, n;
	const char *p = k->text;
	int used, lines = 0, r;

	if (!(k->plan->layers & LAYER_BIT(USER_NS)))
		return 0;
	r = look_read(k, k->code_dir, "uid_map");
	if (r < 0)
		return r;
	for (; sscanf(p, "%lu %lu %lu%n", &in, &out, &n, &used) == 3; p += used, lines++) {
		bool init = in == k->plan->init_id && out == st->host_init_uid;
		bool code = in == k->plan->code_id && out == st->host_code_uid;

		if (n != 1 || in == 0 || out == 0 || !(init || code))
			return look_mismatch(k, "uid map");
	}
	if (lines < 1 || lines > 2)
		return look_mismatch(k, "uid map");
	return 0;
}

static bool word_in(const char *list, const char *end, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; p < end; p += strcspn(p, ",:") + 1)
		if ((size_t)(end - p) >= n && strncmp(p, word, n) == 0 && strchr(",:", p[n]))
			return true;
	return false;
}

/* Is the box's group named in the line of this controller, or in v2's only line? */
static bool in_group(const char *text, const char *controller, const char *name)
{
	size_t n = strlen(name);

	for (const char *line = text; *line; line += *line == '\n') {
		const char *end = line + strcspn(line, "\n");
		const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

		if (path && path < end && (size_t)(end - path) > n + 1 &&
		    end[-(ptrdiff_t)n - 1] == '/' && strncmp(end - n, name, n) == 0 &&
		    (path == list + 1 || word_in(list + 1, path, controller)))
			return true;
		line = end;
	}
	return false;
}

static int look_at_cgroup(struct look *k)
{
	static const struct {
		enum layer_id layer;
		const char *controller, *unit;
	} limits[] = { { LAYER_CG_MEMORY, "memory", "bytes" },
		       { LAYER_CG_PIDS, "pids", "tasks and init" },
		       { LAYER_CG_CPU, "cpu", "thousandths of a processor" } };
	const uint64_t values[] = { k->plan->memory_bytes, k->plan->pids, k->plan->cpu_milli };
	const struct launch_reply *st = &k->facts->started;
	int r = look_read(k, k->code_dir, "cgroup");

	for (size_t i = 0; i < ELEMENTSOF(limits) && r >= 0; i++) {
		bool held = *st->cgroup_name && st->layers & (UINT32_C(1) << limits[i].layer) &&
		            in_group(k->text, limits[i].controller, st->cgroup_name);
		char detail[96];

		(void)snprintf(detail, sizeof(detail), "cgroup %.2s %.24s: %" PRIu64 " %s",
		               st->cgroup, st->cgroup_name, values[i], limits[i].unit);
		r = look_expect(k, limits[i].layer, held, detail);
	}
	return r < 0 ? r
	             : look_expect(k, LAYER_CG_SWAP, st->layers & LAYER_BIT(CG_SWAP),
	                           "none for the box");
}

/* By its number, which is still its own if the directory below /proc is: that is read after this.
 */
static int look_at_rlimits(struct look *k)
{
	struct rlimit core;

	if (prlimit(k->facts->code_pid, RLIMIT_CORE, NULL, &core) < 0)
		return err_set(k->err, ERR_SETUP, errno, "look at the box's limits");
	return look_expect(k, LAYER_RLIMITS, core.rlim_cur == 1 && core.rlim_max == 1,
	                   "no core dumps; files, processes, file size, memlock, queues set");
}

/* What only the box can tell. */
static int take_reported(struct look *k)
{
	static const struct {
		enum layer_id id;
		const char *detail;
	} reported[] = {
		{ LAYER_KEYRING, "reported by the launcher" },
		{ LAYER_LOCKED_MOUNTS, "second user and mount namespace" },
		{ LAYER_NS_LOCK, "max_*_namespaces are 0; reported by the launcher" },
		{ LAYER_QUOTA, "one tmpfs for all writable places" },
		{ LAYER_LANDLOCK_SCOPE, "signals and abstract sockets; reported by the launcher" },
	};
	uint32_t said = k->facts->code_ready.layers | k->facts->init_ready.layers |
	                k->facts->started.layers;
	int r = 0;

	/* Init has one of its own; a zygote's child must have said so itself. */
	said &= k->facts->code_ready.layers | ~LAYER_BIT(KEYRING);
	for (size_t i = 0; i < ELEMENTSOF(reported) && r >= 0; i++)
		r = look_expect(k, reported[i].id, said & (UINT32_C(1) << reported[i].id),
		                reported[i].detail);
	if (r >= 0)
		r = look_expect(k, LAYER_DEV_NODES, said & LAYER_BIT(DEV_NODES),
		                "own nodes, made for this box");
	if (r >= 0)
		r = look_expect(k, LAYER_LANDLOCK, said & LAYER_BIT(LANDLOCK), "");
	if (r >= 0 && said & LAYER_BIT(LANDLOCK))
		note(k, LAYER_LANDLOCK, "ABI %d; reported by the launcher",
		     k->facts->code_ready.landlock_abi);
	if (r >= 0)
		r = look_expect(k, LAYER_NETWORK, said & LAYER_BIT(NETWORK),
		                k->plan->loopback ? "own loopback only" : "none, loopback down");
	return r;
}

static int open_proc(pid_t pid)
{
	char path[32];
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* What a box has where a layer is missing. */
static const struct {
	enum layer_id id;
	const char *detail;
} instead[] = {
	{ LAYER_UID_SPLIT, "init and code share one uid, and the user's groups stay; init cannot "
	                   "be traced or read" },
	{ LAYER_DEV_NODES, "the host's nodes are bound: boxes share their inodes" },
	{ LAYER_CG_MEMORY, "no memory cgroup: resident memory is sampled every 50 ms; memfd pages "
	                   "that nobody maps and data in sockets are not seen" },
	{ LAYER_CG_SWAP, "no memory cgroup" },
	{ LAYER_LOCKED_MOUNTS, "made at level strict only" },
	{ LAYER_CG_PIDS, "no pids cgroup: RLIMIT_NPROC of the box's user namespace holds" },
	{ LAYER_CG_CPU, "no cpu cgroup: the share of the processors is not limited; the time of "
	                "children that nobody waits for is not counted" },
};

static void fill_missing(struct look *k)
{
	for (unsigned i = 0; i < LAYER_COUNT; i++) {
		struct receipt_layer *l = &k->receipt->layers[i];

		l->required = k->plan->required & (UINT32_C(1) << i);
		l->enforced = k->seen & (UINT32_C(1) << i);
		if (!l->enforced)
			(void)snprintf(l->detail, sizeof(l->detail), "missing");
	}
	for (size_t i = 0; i < ELEMENTSOF(instead); i++)
		if (!(k->seen & (UINT32_C(1) << instead[i].id)))
			(void)snprintf(k->receipt->layers[instead[i].id].detail,
			               sizeof(k->receipt->layers[0].detail), "%s",
			               instead[i].detail);
	k->receipt->level_achieved = layers_level(k->seen);
}

void receipt_start(const struct plan *plan, enum level required, struct receipt *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->level_required = required;
	ret->level_achieved = LEVEL_COUNT;
	(void)snprintf(ret->image, sizeof(ret->image), "host");
	(void)snprintf(ret->launcher, sizeof(ret->launcher), "brig-launch %s", BRIG_VERSION);
	(void)snprintf(ret->seccomp_profile, sizeof(ret->seccomp_profile), "%s", plan->seccomp_id);
	for (unsigned i = 0; i < LAYER_COUNT; i++) {
		ret->layers[i].required = plan->required & (UINT32_C(1) << i);
		(void)snprintf(ret->layers[i].detail, sizeof(ret->layers[i].detail),
		               "not verified");
	}
}

int verify_box(const struct plan *plan, const struct box_facts *facts, struct receipt *ret,
               struct err *err)
{
	static const struct {
		int (*run)(struct look *k);
	} looks[] = { { look_at_status }, { look_at_namespaces }, { look_at_maps },
		      { look_at_cgroup }, { look_at_rlimits },    { look_at_mounts },
		      { take_reported } };
	CLEANUP_FD int code_dir = open_proc(facts->code_pid), init_dir = open_proc(facts->init_pid);
	static _Thread_local char text[PROC_TEXT_MAX]; /* not cleared every time */
	struct look k = { .plan = plan, .facts = facts, .receipt = ret, .err = err, .text = text };
	int r = 0;

	if (code_dir < 0 || init_dir < 0)
		return err_set(err, ERR_SETUP, ESRCH, "find the box's processes");
	k.code_dir = code_dir;
	k.init_dir = init_dir;
	for (size_t i = 0; i < ELEMENTSOF(looks) && r >= 0; i++)
		r = looks[i].run(&k);
	if (r < 0)
		return r;
	fill_missing(&k);
	ret->verified = true;
	return 0;
}
