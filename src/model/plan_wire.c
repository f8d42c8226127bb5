/* SPDX-License-Identifier: Apache-2.0 */
#include "model/plan_wire.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#define PLAN_MAGIC "BRIGPLN1"
#define ALIGNMENT  8 /* of seccomp's instructions inside the bytes */

/* Either writes to `out` or reads from `p`; errors are sticky, the first place is kept. */
struct wire {
	struct buf *out; /* NULL: reading */
	const char *p, *end, *start;
	const char *bad; /* the field that was wrong */
};

static bool fail(struct wire *w, const char *field)
{
	if (!w->bad)
		w->bad = field;
	return false;
}

static bool wire_raw(struct wire *w, void *v, size_t n, const char *field)
{
	if (w->bad)
		return false;
	if (w->out) {
		buf_put(w->out, v, n);
		return true;
	}
	if ((size_t)(w->end - w->p) < n)
		return fail(w, field);
	memcpy(v, w->p, n);
	w->p += n;
	return true;
}

static void wire_u32(struct wire *w, uint32_t *v, const char *field)
{
	(void)wire_raw(w, v, sizeof(*v), field);
}

static void wire_u64(struct wire *w, uint64_t *v, const char *field)
{
	(void)wire_raw(w, v, sizeof(*v), field);
}

static void wire_bool(struct wire *w, bool *v, const char *field)
{
	uint32_t u = *v;

	wire_u32(w, &u, field);
	if (u > 1)
		(void)fail(w, field);
	*v = u == 1;
}

static void wire_enum(struct wire *w, unsigned *v, unsigned count, const char *field)
{
	uint32_t u = *v;

	wire_u32(w, &u, field);
	if (u == 0 || u >= count)
		(void)fail(w, field);
	*v = u;
}

static void wire_count(struct wire *w, size_t *v, size_t max, const char *field)
{
	uint32_t u = (uint32_t)*v;

	if (w->out && *v > max)
		(void)fail(w, field);
	wire_u32(w, &u, field);
	if (u > max)
		(void)fail(w, field);
	*v = w->bad ? 0 : u;
}

static void wire_bytes(struct wire *w, struct str *v, const char *field)
{
	uint64_t n = v->n;

	wire_u64(w, &n, field);
	if (w->bad)
		return;
	if (w->out) {
		buf_put(w->out, v->p, v->n);
		return;
	}
	if ((uint64_t)(w->end - w->p) < n) {
		(void)fail(w, field);
		return;
	}
	*v = (struct str){ w->p, (size_t)n };
	w->p += n;
}

/* A C string travels with its NUL; the reader checks that it is the only one. */
static void wire_string(struct wire *w, const char **v, const char *field)
{
	struct str s = { *v, *v ? strlen(*v) + 1 : 0 };

	wire_bytes(w, &s, field);
	if (w->bad || w->out)
		return;
	if (s.n && memchr(s.p, '\0', s.n) != s.p + s.n - 1)
		(void)fail(w, field);
	else
		*v = s.n ? s.p : NULL;
}

static void wire_path(struct wire *w, const char **v, const char *field)
{
	wire_string(w, v, field);
	if (w->bad)
		return;
	if (!*v || **v != '/' || strlen(*v) >= PLAN_PATH_MAX || strstr(*v, "/../") ||
	    (strlen(*v) >= 3 && streq(*v + strlen(*v) - 3, "/..")))
		(void)fail(w, field);
}

static void wire_align(struct wire *w)
{
	static const char zeros[ALIGNMENT];

	if (w->out) {
		buf_put(w->out, zeros, (ALIGNMENT - w->out->len % ALIGNMENT) % ALIGNMENT);
		return;
	}
	while (!w->bad && (size_t)(w->p - w->start) % ALIGNMENT) {
		if (w->p == w->end || *w->p)
			(void)fail(w, "padding");
		else
			w->p++;
	}
}

static void wire_fs_op(struct wire *w, struct fs_op *op)
{
	unsigned kind = op->kind;

	wire_enum(w, &kind, FS_OP_COUNT, "fs.kind");
	op->kind = (enum fs_op_kind)kind;
	wire_path(w, &op->path, "fs.path");
	wire_string(w, &op->source, "fs.source");
	wire_bytes(w, &op->data, "fs.data");
	wire_u32(w, &op->mode, "fs.mode");
	wire_u32(w, &op->owner, "fs.owner");
	wire_bool(w, &op->noexec, "fs.noexec");
	wire_bool(w, &op->optional, "fs.optional");
	if (!w->bad && (kind == FS_OP_BIND_RO || kind == FS_OP_SYMLINK) && !op->source)
		(void)fail(w, "fs.source");
}

static void wire_rule(struct wire *w, struct plan_rule *rule)
{
	unsigned access = rule->access;

	wire_path(w, &rule->path, "rules.path");
	wire_enum(w, &access, PLAN_ACCESS_COUNT, "rules.access");
	rule->access = (enum plan_access)access;
}

static void wire_strings(struct wire *w, const char **v, size_t n, const char *field)
{
	for (size_t i = 0; i < n && !w->bad; i++) {
		wire_string(w, &v[i], field);
		if (!w->bad && !v[i])
			(void)fail(w, field);
	}
	if (!w->out)
		v[n] = NULL;
}

static void wire_seccomp(struct wire *w, struct plan *p)
{
	enum { INSN = 8 }; /* sizeof(struct sock_filter) */
	struct str s = { p->seccomp, p->n_seccomp * INSN };

	if (w->out && p->n_seccomp > PLAN_SECCOMP_MAX)
		(void)fail(w, "seccomp");
	wire_bytes(w, &s, "seccomp");
	if (w->bad || w->out)
		return;
	if (s.n % INSN || s.n / INSN > PLAN_SECCOMP_MAX || (size_t)(s.p - w->start) % ALIGNMENT) {
		(void)fail(w, "seccomp");
		return;
	}
	p->seccomp = s.n ? s.p : NULL;
	p->n_seccomp = s.n / INSN;
}

static void wire_plan(struct wire *w, struct plan *p)
{
	wire_u32(w, &p->layers, "layers");
	wire_u32(w, &p->required, "required");
	wire_align(w);
	wire_seccomp(w, p);
	wire_u32(w, &p->init_id, "init_id");
	wire_u32(w, &p->code_id, "code_id");
	wire_u32(w, &p->host_id_base, "host_id_base");
	wire_u32(w, &p->host_id_slots, "host_id_slots");
	wire_string(w, &p->hostname, "hostname");
	wire_bool(w, &p->loopback, "loopback");
	wire_u64(w, &p->scratch_bytes, "scratch_bytes");
	wire_u32(w, &p->scratch_inodes, "scratch_inodes");
	wire_u64(w, &p->memory_bytes, "memory_bytes");
	wire_u64(w, &p->pids, "pids");
	wire_u64(w, &p->cpu_milli, "cpu_milli");
	wire_u64(w, &p->cpu_ms, "cpu_ms");
	wire_count(w, &p->n_fs, PLAN_FS_OPS_MAX, "fs");
	for (size_t i = 0; i < p->n_fs && !w->bad; i++)
		wire_fs_op(w, &p->fs[i]);
	wire_count(w, &p->n_rules, PLAN_RULES_MAX, "rules");
	for (size_t i = 0; i < p->n_rules && !w->bad; i++)
		wire_rule(w, &p->rules[i]);
	wire_count(w, &p->n_rlimits, PLAN_RLIMITS_MAX, "rlimits");
	for (size_t i = 0; i < p->n_rlimits && !w->bad; i++) {
		wire_u32(w, &p->rlimits[i].resource, "rlimits.resource");
		wire_u64(w, &p->rlimits[i].value, "rlimits.value");
	}
	wire_path(w, &p->exec, "exec");
	wire_path(w, &p->cwd, "cwd");
	wire_count(w, &p->n_argv, PLAN_ARGS_MAX, "argv");
	wire_strings(w, p->argv, p->n_argv, "argv");
	wire_count(w, &p->n_env, PLAN_ENV_MAX, "env");
	wire_strings(w, p->env, p->n_env, "env");
}

/* A second value for the same resource would silently be the one that holds. */
static bool rlimits_clash(const struct plan *p)
{
	uint32_t seen = 0;

	for (size_t i = 0; i < p->n_rlimits; i++) {
		uint32_t resource = p->rlimits[i].resource;

		if (resource >= RLIM_NLIMITS || seen & (UINT32_C(1) << resource))
			return true;
		seen |= UINT32_C(1) << resource;
	}
	return false;
}

/* Every slot's two ids on the host: above 0, and without wrapping around to it. */
static bool host_ids_fit(const struct plan *p)
{
	return p->host_id_base && p->host_id_slots &&
	       p->host_id_slots <= (UINT32_MAX - p->host_id_base) / 2;
}

/* What must hold between fields, and zeros that would mean "no limit". */
static const char *plan_contradiction(const struct plan *p)
{
	if (p->required & ~p->layers || p->layers & ~LAYERS_ALL)
		return "required";
	if (!p->hostname)
		return "hostname";
	if (!p->n_argv)
		return "argv";
	if (!p->scratch_bytes || !p->scratch_inodes || !p->memory_bytes || !p->pids ||
	    !p->cpu_milli || !p->cpu_ms)
		return "limits";
	if (p->layers & LAYER_BIT(SECCOMP) && !p->n_seccomp)
		return "seccomp";
	if (rlimits_clash(p))
		return "rlimits";
	if (!p->init_id || !p->code_id || !host_ids_fit(p))
		return "ids"; /* uid 0 never exists in a box */
	return NULL;
}

int plan_encode(const struct plan *plan, struct buf *out)
{
	struct plan copy = *plan;
	struct wire w = { .out = out };

	buf_put(out, PLAN_MAGIC, sizeof(PLAN_MAGIC) - 1);
	wire_plan(&w, &copy);
	if (w.bad || plan_contradiction(plan))
		return -EINVAL;
	return buf_finish(out);
}

int plan_decode(const void *bytes, size_t n, struct plan_store *store, struct plan *ret,
                struct err *err)
{
	struct wire w = { .p = bytes, .start = bytes, .end = (const char *)bytes + n };
	struct plan p = { .fs = store->fs, .rules = store->rules, .rlimits = store->rlimits };
	char magic[sizeof(PLAN_MAGIC) - 1];

	p.argv = store->argv;
	p.env = store->env;
	memset(store, 0, sizeof(*store));
	if (n > PLAN_BYTES_MAX)
		return err_set(err, ERR_LIMIT, EFBIG, "plan of %zu bytes", n);
	if (!wire_raw(&w, magic, sizeof(magic), "magic") ||
	    memcmp(magic, PLAN_MAGIC, sizeof(magic)) != 0)
		return err_set(err, ERR_INVALID, EPROTO, "plan of another version");
	wire_plan(&w, &p);
	if (!w.bad && w.p != w.end)
		w.bad = "end";
	if (!w.bad)
		w.bad = plan_contradiction(&p);
	if (w.bad)
		return err_set(err, ERR_INVALID, EPROTO, "plan: bad \"%s\"", w.bad);
	*ret = p;
	return 0;
}
