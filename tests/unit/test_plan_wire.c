/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <stdio.h>
#include <sys/resource.h>

#include "model/plan_wire.h"

static struct plan_store store, store2; /* too large for a stack */

/* A plan with something in every field; each call gives a fresh one. */
struct sample {
	struct plan plan;
	struct fs_op fs[9];
	struct plan_rule rules[3];
	struct plan_rlimit rlimits[2];
	const char *argv[3];
	const char *env[2];
};

static const struct sock_filter filter[3] = { { 0x20, 0, 0, 4 },
	                                      { 0x15, 1, 0, 7 },
	                                      { 0x06, 0, 0, 0x7fff0000 } };

static struct plan *sample_init(struct sample *s)
{
	static const struct fs_op fs[] = {
		{ .kind = FS_OP_DIR, .path = "/etc", .mode = 0755, .owner = 3 },
		{ .kind = FS_OP_SYMLINK, .path = "/bin", .source = "usr/bin" },
		{ .kind = FS_OP_FILE, .path = "/etc/f", .data = { "a\0b", 3 }, .mode = 0444 },
		{ .kind = FS_OP_BIND_RO, .path = "/usr", .source = "/usr", .optional = true },
		{ .kind = FS_OP_SCRATCH, .path = "/w", .mode = 01777, .owner = 9, .noexec = true },
		{ .kind = FS_OP_PROC, .path = "/proc" },
		{ .kind = FS_OP_DEV, .path = "/dev" },
		{ .kind = FS_OP_MASK, .path = "/proc/kcore" },
		{ .kind = FS_OP_READONLY, .path = "/proc/sys" },
	};

	*s = (struct sample){
		.rules = { { "/", PLAN_ACCESS_LIST },
		           { "/w", PLAN_ACCESS_WRITE_EXEC },
		           { "/dev/null", 6 } },
		.rlimits = { { RLIMIT_CORE, 0 }, { RLIMIT_NOFILE, UINT64_MAX } },
		.argv = { "sh", "", "two words\n" },
		.env = { "A=", "B=\xff=c" },
		.plan = { .layers = LAYERS_ALL,
		          .required = LAYER_BIT(SECCOMP) | LAYER_BIT(PID_NS),
		          .init_id = 1,
		          .code_id = 1000,
		          .host_id_base = 0x70000000,
		          .host_id_slots = 77,
		          .hostname = "brig",
		          .loopback = true,
		          .n_fs = ELEMENTSOF(fs),
		          .scratch_bytes = UINT64_C(0x1122334455667788),
		          .scratch_inodes = 0x99aabb,
		          .n_rules = 3,
		          .n_rlimits = 2,
		          .memory_bytes = 1,
		          .pids = UINT64_MAX,
		          .cpu_milli = 500,
		          .cpu_ms = 2,
		          .seccomp = filter,
		          .n_seccomp = ELEMENTSOF(filter),
		          .exec = "/usr/bin/sh",
		          .cwd = "/w",
		          .n_argv = 3,
		          .n_env = 2 },
	};
	memcpy(s->fs, fs, sizeof(fs));
	s->plan.fs = s->fs;
	s->plan.rules = s->rules;
	s->plan.rlimits = s->rlimits;
	s->plan.argv = s->argv;
	s->plan.env = s->env;
	return &s->plan;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? streq(a, b) : a == b;
}

static void expect_same_fs(const struct plan *a, const struct plan *b)
{
	cr_assert(a->n_fs == b->n_fs);
	for (size_t i = 0; i < a->n_fs; i++) {
		const struct fs_op *x = &a->fs[i], *y = &b->fs[i];

		cr_expect(x->kind == y->kind && same_text(x->path, y->path), "fs[%zu]", i);
		cr_expect(same_text(x->source, y->source), "fs[%zu]", i);
		cr_expect(x->data.n == y->data.n, "fs[%zu]", i);
		cr_expect(!x->data.n || memcmp(x->data.p, y->data.p, x->data.n) == 0);
		cr_expect(x->mode == y->mode && x->owner == y->owner, "fs[%zu]", i);
		cr_expect(x->noexec == y->noexec && x->optional == y->optional, "fs[%zu]", i);
	}
}

static void expect_same_lists(const struct plan *a, const struct plan *b)
{
	cr_assert(a->n_rules == b->n_rules && a->n_rlimits == b->n_rlimits);
	for (size_t i = 0; i < a->n_rules; i++) {
		cr_expect_str_eq(a->rules[i].path, b->rules[i].path);
		cr_expect(a->rules[i].access == b->rules[i].access);
	}
	for (size_t i = 0; i < a->n_rlimits; i++) {
		cr_expect(a->rlimits[i].resource == b->rlimits[i].resource);
		cr_expect(a->rlimits[i].value == b->rlimits[i].value);
	}
	cr_assert(a->n_argv == b->n_argv && a->n_env == b->n_env);
	for (size_t i = 0; i < a->n_argv; i++)
		cr_expect_str_eq(a->argv[i], b->argv[i]);
	for (size_t i = 0; i < a->n_env; i++)
		cr_expect_str_eq(a->env[i], b->env[i]);
	cr_assert(a->n_seccomp == b->n_seccomp);
	cr_expect(!a->n_seccomp || memcmp(a->seccomp, b->seccomp, a->n_seccomp * 8) == 0);
}

static void expect_same(const struct plan *a, const struct plan *b)
{
	cr_expect(a->layers == b->layers && a->required == b->required);
	cr_expect(a->init_id == b->init_id && a->code_id == b->code_id);
	cr_expect(a->host_id_base == b->host_id_base && a->host_id_slots == b->host_id_slots);
	cr_expect_str_eq(a->hostname, b->hostname);
	cr_expect(a->loopback == b->loopback);
	cr_expect(a->scratch_bytes == b->scratch_bytes && a->scratch_inodes == b->scratch_inodes);
	cr_expect(a->memory_bytes == b->memory_bytes && a->pids == b->pids);
	cr_expect(a->cpu_milli == b->cpu_milli && a->cpu_ms == b->cpu_ms);
	cr_expect_str_eq(a->exec, b->exec);
	cr_expect_str_eq(a->cwd, b->cwd);
	expect_same_fs(a, b);
	expect_same_lists(a, b);
}

static void encode(const struct plan *p, struct buf *ret)
{
	*ret = BUF_INIT(PLAN_BYTES_MAX);
	cr_assert(plan_encode(p, ret) == 0);
}

/* In memory of exactly this size, so that a sanitizer sees one byte too many. */
static int decode_exact(const char *bytes, size_t n, struct plan_store *in, struct plan *ret,
                        struct err *err)
{
	char *copy = malloc(n ? n : 1);
	int r;

	cr_assert(copy);
	memcpy(copy, bytes, n);
	r = plan_decode(copy, n, in, ret, err);
	free(copy);
	return r;
}

/* Whatever was accepted keeps every bound that the launcher relies on. */
static void expect_in_bounds(const struct plan *p, const char *bytes, size_t n)
{
	cr_assert(p->n_fs <= PLAN_FS_OPS_MAX && p->n_rules <= PLAN_RULES_MAX);
	cr_assert(p->n_rlimits <= PLAN_RLIMITS_MAX && p->n_seccomp <= PLAN_SECCOMP_MAX);
	cr_assert(p->n_argv >= 1 && p->n_argv <= PLAN_ARGS_MAX && p->n_env <= PLAN_ENV_MAX);
	cr_assert(!p->argv[p->n_argv] && !p->env[p->n_env]);
	cr_assert(!(p->required & ~p->layers) && !(p->layers & ~LAYERS_ALL));
	cr_assert(p->memory_bytes && p->pids && p->cpu_milli && p->cpu_ms);
	cr_assert(p->scratch_bytes && p->scratch_inodes);
	cr_assert(p->init_id && p->code_id && p->host_id_slots && p->host_id_base);
	for (size_t i = 0; i < p->n_fs; i++) {
		const struct fs_op *op = &p->fs[i];

		cr_assert(op->kind > FS_OP_NONE && op->kind < FS_OP_COUNT);
		cr_assert(op->path >= bytes && op->path + strlen(op->path) < bytes + n);
		cr_assert(op->path[0] == '/' && strlen(op->path) < PLAN_PATH_MAX);
		cr_assert(!strstr(op->path, "/../"));
		cr_assert(op->data.p >= bytes && op->data.p + op->data.n <= bytes + n);
	}
	for (size_t i = 0; i < p->n_rules; i++)
		cr_assert(p->rules[i].access > PLAN_ACCESS_NONE &&
		          p->rules[i].access < PLAN_ACCESS_COUNT);
}

Test(plan_wire, every_field_survives_the_way_there_and_back)
{
	struct sample s;
	CLEANUP_BUF struct buf b, again;
	struct err err = { 0 };
	struct plan got;

	encode(sample_init(&s), &b);
	cr_assert(plan_decode(b.data, b.len, &store, &got, &err) == 0, "%s", err.msg);
	expect_same(&s.plan, &got);
	expect_in_bounds(&got, b.data, b.len);
	cr_expect(err.code == ERR_NONE);
	cr_expect(((uintptr_t)got.seccomp - (uintptr_t)b.data) % 8 == 0);
	encode(&got, &again);
	cr_expect(b.len == again.len && memcmp(b.data, again.data, b.len) == 0);
}

Test(plan_wire, what_stays_with_the_caller_does_not_travel)
{
	struct sample s;
	CLEANUP_BUF struct buf b;
	struct plan got;

	sample_init(&s);
	s.plan.seccomp_id = "0123456789abcdef";
	s.plan.script = "main.py";
	encode(&s.plan, &b);
	cr_assert(plan_decode(b.data, b.len, &store, &got, NULL) == 0);
	cr_expect(got.seccomp_id == NULL && got.script == NULL);
	cr_expect(memmem(b.data, b.len, "0123456789abcdef", 16) == NULL);
}

Test(plan_wire, empty_lists_are_lists)
{
	struct sample s;
	CLEANUP_BUF struct buf b;
	struct plan got;

	sample_init(&s);
	s.plan.n_fs = s.plan.n_rules = s.plan.n_rlimits = s.plan.n_env = s.plan.n_seccomp = 0;
	s.plan.layers = s.plan.required = 0;
	s.plan.seccomp = NULL;
	s.plan.n_argv = 1;
	s.plan.loopback = false;
	encode(&s.plan, &b);
	cr_assert(plan_decode(b.data, b.len, &store, &got, NULL) == 0);
	expect_same(&s.plan, &got);
	cr_expect(got.env[0] == NULL && got.argv[1] == NULL && got.seccomp == NULL);
}

static struct sock_filter many_insns[PLAN_SECCOMP_MAX + 1];

/* All lists with as many elements as they may have, or one more in the list `over`. */
static void make_full(struct sample *s, struct plan_store *lists, int over)
{
	struct plan *p = sample_init(s);

	p->fs = lists->fs;
	p->rules = lists->rules;
	p->rlimits = lists->rlimits;
	p->argv = lists->argv;
	p->env = lists->env;
	p->seccomp = many_insns;
	p->n_fs = PLAN_FS_OPS_MAX + (over == 0);
	p->n_rules = PLAN_RULES_MAX + (over == 1);
	p->n_rlimits = PLAN_RLIMITS_MAX + (over == 2);
	p->n_argv = PLAN_ARGS_MAX + (over == 3);
	p->n_env = PLAN_ENV_MAX + (over == 4);
	p->n_seccomp = PLAN_SECCOMP_MAX + (over == 5);
	for (size_t i = 0; i < PLAN_FS_OPS_MAX; i++)
		p->fs[i] = s->fs[i % ELEMENTSOF(s->fs)];
	for (size_t i = 0; i < PLAN_RULES_MAX; i++)
		p->rules[i] = s->rules[0];
	for (size_t i = 0; i < PLAN_RLIMITS_MAX; i++)
		p->rlimits[i] = (struct plan_rlimit){ (uint32_t)i, 5 };
	for (size_t i = 0; i <= PLAN_ARGS_MAX; i++)
		p->argv[i] = "arg";
	for (size_t i = 0; i <= PLAN_ENV_MAX; i++)
		p->env[i] = "A=b";
}

Test(plan_wire, every_list_can_be_full)
{
	struct sample s;
	CLEANUP_BUF struct buf b;
	struct err err = { 0 };
	struct plan got;

	make_full(&s, &store2, -1);
	encode(&s.plan, &b);
	cr_assert(plan_decode(b.data, b.len, &store, &got, &err) == 0, "%s", err.msg);
	expect_same(&s.plan, &got);
}

Test(plan_wire, one_element_more_is_refused_when_writing)
{
	for (int list = 0; list < 6; list++) {
		struct sample s;
		CLEANUP_BUF struct buf b = BUF_INIT(PLAN_BYTES_MAX);

		make_full(&s, &store2, list);
		cr_expect(plan_encode(&s.plan, &b) == -EINVAL, "list %d", list);
	}
}

/* Where the n-th 32-bit count of `value` stands in the bytes is found by its neighbours. */
static void patch(struct buf *b, const void *find, size_t n, size_t at, uint32_t value)
{
	char *p = memmem(b->data, b->len, find, n);

	cr_assert(p);
	memcpy(p + at, &value, sizeof(value));
}

Test(plan_wire, a_count_beyond_the_bound_is_refused_when_reading)
{
	static const uint32_t counts[] = { PLAN_ARGS_MAX + 1, 0x7fffffff, UINT32_MAX };

	for (size_t i = 0; i < ELEMENTSOF(counts); i++) {
		struct sample s;
		CLEANUP_BUF struct buf b;
		struct plan got;

		encode(sample_init(&s), &b);
		/* argv's count follows cwd */
		patch(&b, "/w\0\x03\0\0\0\x03\0\0\0\0\0\0\0sh", 17, 3, counts[i]);
		cr_expect(plan_decode(b.data, b.len, &store, &got, NULL) == -EPROTO);
	}
}

Test(plan_wire, every_truncation_is_refused)
{
	struct sample s;
	CLEANUP_BUF struct buf b;

	encode(sample_init(&s), &b);
	for (size_t n = 0; n < b.len; n++) {
		struct plan got = { .pids = 4711 };
		struct err err = { 0 };

		cr_assert(decode_exact(b.data, n, &store, &got, &err) == -EPROTO, "%zu bytes", n);
		cr_assert(err.code == ERR_INVALID && err.msg[0]);
		cr_assert(got.pids == 4711, "*ret was touched");
	}
}

Test(plan_wire, bytes_after_the_end_are_refused)
{
	struct sample s;
	CLEANUP_BUF struct buf b;
	struct err err = { 0 };
	struct plan got;

	encode(sample_init(&s), &b);
	buf_putc(&b, '\0');
	cr_expect(plan_decode(b.data, b.len, &store, &got, &err) == -EPROTO);
	cr_expect(strstr(err.msg, "\"end\"") != NULL, "%s", err.msg);
}

Test(plan_wire, a_changed_byte_is_refused_or_stays_in_bounds, .timeout = 60)
{
	static const unsigned char masks[] = { 0x01, 0x80, 0xff };
	struct sample s;
	CLEANUP_BUF struct buf b;
	size_t accepted = 0;

	encode(sample_init(&s), &b);
	for (size_t at = 0; at < b.len; at++) {
		for (size_t m = 0; m < ELEMENTSOF(masks); m++) {
			CLEANUP_BUF struct buf again = BUF_INIT(PLAN_BYTES_MAX);
			struct plan got;

			b.data[at] = (char)(b.data[at] ^ masks[m]);
			if (plan_decode(b.data, b.len, &store, &got, NULL) == 0) {
				expect_in_bounds(&got, b.data, b.len);
				cr_assert(plan_encode(&got, &again) == 0, "byte %zu", at);
				cr_assert(again.len == b.len, "byte %zu", at);
				cr_assert(memcmp(again.data, b.data, b.len) == 0, "byte %zu", at);
				accepted++;
			}
			b.data[at] = (char)(b.data[at] ^ masks[m]);
		}
	}
	cr_expect(accepted > 100, "the test changed nothing that is free: %zu", accepted);
}

Test(plan_wire, too_many_bytes_are_refused_before_they_are_read)
{
	struct plan got;
	struct err err = { 0 };
	static const char one[1];

	cr_expect(plan_decode(one, PLAN_BYTES_MAX + 1, &store, &got, &err) == -EFBIG);
	cr_expect(err.code == ERR_LIMIT);
}

Test(plan_wire, another_version_is_refused)
{
	struct sample s;
	CLEANUP_BUF struct buf b;
	struct err err = { 0 };
	struct plan got;

	encode(sample_init(&s), &b);
	b.data[7]++;
	cr_expect(plan_decode(b.data, b.len, &store, &got, &err) == -EPROTO);
	cr_expect(strstr(err.msg, "version") != NULL);
}

Test(plan_wire, no_memory_is_told_as_such)
{
	struct sample s;
	struct buf small = BUF_INIT(100);

	cr_expect(plan_encode(sample_init(&s), &small) == -EFBIG);
	buf_done(&small);
}

static char long_path[PLAN_PATH_MAX + 1];

/* What no plan may say: each row spoils the sample in one place. */
#define SPOILS(X)                                                                                  \
	X(layer_unknown, s->plan.layers |= UINT32_C(1) << 31)                                      \
	X(required_not_in_layers, s->plan.layers &= ~LAYER_BIT(PID_NS))                            \
	X(seccomp_layer_without_filter, s->plan.n_seccomp = 0)                                     \
	X(init_id_zero, s->plan.init_id = 0)                                                       \
	X(code_id_zero, s->plan.code_id = 0)                                                       \
	X(host_ids_start_at_root, s->plan.host_id_base = 0)                                        \
	X(host_ids_wrap, s->plan.host_id_base = UINT32_MAX - 2)                                    \
	X(host_ids_slots_wrap, s->plan.host_id_slots = UINT32_MAX)                                 \
	X(no_host_slots, s->plan.host_id_slots = 0)                                                \
	X(no_hostname, s->plan.hostname = NULL)                                                    \
	X(scratch_bytes_zero, s->plan.scratch_bytes = 0)                                           \
	X(scratch_inodes_zero, s->plan.scratch_inodes = 0)                                         \
	X(memory_zero, s->plan.memory_bytes = 0)                                                   \
	X(pids_zero, s->plan.pids = 0)                                                             \
	X(cpu_milli_zero, s->plan.cpu_milli = 0)                                                   \
	X(cpu_ms_zero, s->plan.cpu_ms = 0)                                                         \
	X(fs_kind_none, s->fs[1].kind = FS_OP_NONE)                                                \
	X(fs_kind_unknown, s->fs[1].kind = FS_OP_COUNT)                                            \
	X(fs_kind_negative, s->fs[1].kind = (enum fs_op_kind)(-1))                                 \
	X(fs_path_missing, s->fs[2].path = NULL)                                                   \
	X(fs_path_empty, s->fs[2].path = "")                                                       \
	X(fs_path_relative, s->fs[2].path = "etc/f")                                               \
	X(fs_path_up, s->fs[2].path = "/..")                                                       \
	X(fs_path_up_inside, s->fs[2].path = "/etc/../x")                                          \
	X(fs_path_up_first, s->fs[2].path = "/../x")                                               \
	X(fs_path_up_last, s->fs[2].path = "/etc/..")                                              \
	X(fs_path_too_long, s->fs[2].path = long_path)                                             \
	X(link_without_text, s->fs[1].source = NULL)                                               \
	X(bind_without_source, s->fs[3].source = NULL)                                             \
	X(rule_path_relative, s->rules[1].path = "w")                                              \
	X(rule_path_up, s->rules[1].path = "/w/../etc")                                            \
	X(rule_access_none, s->rules[1].access = PLAN_ACCESS_NONE)                                 \
	X(rule_access_unknown, s->rules[1].access = PLAN_ACCESS_COUNT)                             \
	X(rlimit_twice, s->rlimits[1].resource = s->rlimits[0].resource)                           \
	X(rlimit_unknown, s->rlimits[1].resource = RLIM_NLIMITS)                                   \
	X(rlimit_negative, s->rlimits[1].resource = UINT32_MAX)                                    \
	X(exec_missing, s->plan.exec = NULL)                                                       \
	X(exec_relative, s->plan.exec = "sh")                                                      \
	X(exec_up, s->plan.exec = "/usr/bin/../../sh")                                             \
	X(cwd_missing, s->plan.cwd = NULL)                                                         \
	X(cwd_relative, s->plan.cwd = ".")                                                         \
	X(no_argv, s->plan.n_argv = 0)                                                             \
	X(argv_missing, s->argv[2] = NULL)                                                         \
	X(env_missing, s->env[0] = NULL)

#define X(name, statement)                                                                         \
	static void spoil_##name(struct sample *s)                                                 \
	{                                                                                          \
		statement;                                                                         \
	}
SPOILS(X)
#undef X

static const struct {
	const char *what;
	void (*spoil)(struct sample *s);
} wrong[] = {
#define X(name, statement) { #name, spoil_##name },
	SPOILS(X)
#undef X
};

Test(plan_wire, what_no_plan_may_say_is_not_written)
{
	memset(long_path, '/', PLAN_PATH_MAX);
	for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
		struct sample s;
		CLEANUP_BUF struct buf b = BUF_INIT(PLAN_BYTES_MAX);

		sample_init(&s);
		wrong[i].spoil(&s);
		cr_expect(plan_encode(&s.plan, &b) == -EINVAL, "%s", wrong[i].what);
	}
}

/* The fixed part of the sample's bytes, up to the first list. */
enum {
	AT_LAYERS = 8,
	AT_REQUIRED = 12,
	AT_SECCOMP_LEN = 16,
	AT_INIT_ID = 48,
	AT_CODE_ID = 52,
	AT_BASE = 56,
	AT_SLOTS = 60,
	AT_HOSTNAME_LEN = 64,
	AT_HOSTNAME = 72,
	AT_LOOPBACK = 77,
	AT_SCRATCH_BYTES = 81,
	AT_SCRATCH_INODES = 89,
	AT_MEMORY = 93,
	AT_PIDS = 101,
	AT_CPU_MILLI = 109,
	AT_CPU_MS = 117,
	AT_N_FS = 125,
};

#define ZERO8    "\0\0\0\0\0\0\0\0"
#define BYTES(b) b, sizeof(b) - 1

/* Bytes put over those of a good plan: `at` after `find`, or at a fixed place without it. */
static const struct {
	const char *what, *field;
	const char *find;
	size_t find_n, at;
	const char *put;
	size_t n;
} forged[] = {
	{ "an unknown layer", "required", NULL, 0, AT_LAYERS + 3, BYTES("\xff") },
	{ "required without the layer", "required", NULL, 0, AT_LAYERS, BYTES("\0\0\0\0") },
	{ "half an instruction", "", NULL, 0, AT_SECCOMP_LEN, BYTES("\x17") },
	{ "more instructions than bytes", "seccomp", NULL, 0, AT_SECCOMP_LEN, BYTES("\0\0\1\0") },
	{ "uid 0 for init", "ids", NULL, 0, AT_INIT_ID, BYTES("\0\0\0\0") },
	{ "uid 0 for the code", "ids", NULL, 0, AT_CODE_ID, BYTES("\0\0\0\0") },
	{ "the host's root", "ids", NULL, 0, AT_BASE, BYTES("\0\0\0\0") },
	{ "ids that wrap", "ids", NULL, 0, AT_BASE, BYTES("\xff\xff\xff\xff") },
	{ "no slots", "ids", NULL, 0, AT_SLOTS, BYTES("\0\0\0\0") },
	{ "the longest string", "hostname", NULL, 0, AT_HOSTNAME_LEN,
	  BYTES("\xff\xff\xff\xff\xff\xff\xff\xff") },
	{ "a string of half the memory", "hostname", NULL, 0, AT_HOSTNAME_LEN + 7, BYTES("\x7f") },
	{ "a string without end", "hostname", NULL, 0, AT_HOSTNAME + 4, BYTES("x") },
	{ "a NUL inside a string", "hostname", NULL, 0, AT_HOSTNAME + 1, BYTES("\0") },
	{ "a bool of 2", "loopback", NULL, 0, AT_LOOPBACK, BYTES("\2") },
	{ "a bool of 256", "loopback", NULL, 0, AT_LOOPBACK, BYTES("\0\1") },
	{ "no room", "limits", NULL, 0, AT_SCRATCH_BYTES, BYTES(ZERO8) },
	{ "no inodes", "limits", NULL, 0, AT_SCRATCH_INODES, BYTES("\0\0\0\0") },
	{ "no memory", "limits", NULL, 0, AT_MEMORY, BYTES(ZERO8) },
	{ "no processes", "limits", NULL, 0, AT_PIDS, BYTES(ZERO8) },
	{ "no processor", "limits", NULL, 0, AT_CPU_MILLI, BYTES(ZERO8) },
	{ "no processor time", "limits", NULL, 0, AT_CPU_MS, BYTES(ZERO8) },
	{ "too many steps", "fs", NULL, 0, AT_N_FS, BYTES("\1\2\0\0") },
	{ "steps without end", "fs", NULL, 0, AT_N_FS, BYTES("\xff\xff\xff\xff") },
	{ "fewer steps than there are", "", NULL, 0, AT_N_FS, BYTES("\5") },
	{ "a step of kind 0", "fs.kind", NULL, 0, AT_N_FS + 4, BYTES("\0") },
	{ "a step of unknown kind", "fs.kind", NULL, 0, AT_N_FS + 4, BYTES("\x0a") },
	{ "a step of kind 257", "fs.kind", NULL, 0, AT_N_FS + 5, BYTES("\1") },
	{ "a relative path", "fs.path", BYTES("/proc/kcore"), 0, BYTES("x") },
	{ "a path with ..", "fs.path", BYTES("/proc/kcore"), 0, BYTES("/../../core") },
	{ "a path that ends in ..", "fs.path", BYTES("/proc/sys"), 0, BYTES("/abcde/..") },
	{ "a path with a NUL", "fs.path", BYTES("/proc/kcore"), 5, BYTES("\0") },
	{ "a link's text with a NUL", "fs.source", BYTES("usr/bin"), 3, BYTES("\0") },
	{ "a noexec of 7", "fs.noexec", BYTES("a\0b\x24\1"), 11, BYTES("\7") },
	{ "an optional of 7", "fs.optional", BYTES("a\0b\x24\1"), 15, BYTES("\7") },
	{ "a rule of access 0", "rules.access", BYTES("/dev/null"), 10, BYTES("\0") },
	{ "a rule of unknown access", "rules.access", BYTES("/dev/null"), 10, BYTES("\7") },
	{ "a rule's path with ..", "rules.path", BYTES("/dev/null"), 0, BYTES("/../../x/") },
	{ "the same rlimit twice", "rlimits", BYTES("/dev/null"), 18, BYTES("\7\0\0\0") },
	{ "an unknown rlimit", "rlimits", BYTES("/dev/null"), 18, BYTES("\x10\0\0\0") },
	{ "a relative program", "exec", BYTES("/usr/bin/sh"), 0, BYTES("x") },
	{ "a program above the root", "exec", BYTES("/usr/bin/sh"), 0, BYTES("/../bin") },
	{ "an argument with a NUL", "argv", BYTES("two words"), 3, BYTES("\0") },
	{ "an argument without end", "argv", BYTES("two words\n"), 10, BYTES("x") },
	{ "an entry with a NUL", "env", BYTES("B=\xff="), 1, BYTES("\0") },
};

Test(plan_wire, what_no_plan_may_say_is_not_read)
{
	for (size_t i = 0; i < ELEMENTSOF(forged); i++) {
		struct sample s;
		CLEANUP_BUF struct buf b;
		struct plan got = { .pids = 4711 };
		struct err err = { 0 };
		char *at;
		int r;

		encode(sample_init(&s), &b);
		at = forged[i].find ? memmem(b.data, b.len, forged[i].find, forged[i].find_n)
		                    : b.data;
		cr_assert(at, "%s: the sample has no such bytes", forged[i].what);
		memcpy(at + forged[i].at, forged[i].put, forged[i].n);
		r = decode_exact(b.data, b.len, &store, &got, &err);
		cr_expect(r == -EPROTO, "%s: %d", forged[i].what, r);
		cr_expect(err.code == ERR_INVALID, "%s", forged[i].what);
		cr_expect(strstr(err.msg, forged[i].field), "%s: %s", forged[i].what, err.msg);
		cr_expect(got.pids == 4711, "%s: *ret was touched", forged[i].what);
	}
}

Test(plan_wire, the_longest_path_is_taken)
{
	struct sample s;
	CLEANUP_BUF struct buf b;
	struct plan got;

	sample_init(&s);
	memset(long_path, '/', PLAN_PATH_MAX - 1);
	s.fs[0].path = s.plan.exec = long_path;
	encode(&s.plan, &b);
	cr_expect(plan_decode(b.data, b.len, &store, &got, NULL) == 0);
}
