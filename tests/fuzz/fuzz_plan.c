/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a plan: refused, or within every bound and the same when written and read again. */
#include <stdint.h>
#include <stdio.h>

#include "fuzz.h"
#include "model/plan_wire.h"

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "violated: %s\n", #condition);                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static void check_bounds(const struct plan *p)
{
	size_t bytes = 0;

	MUST(p->n_fs <= PLAN_FS_OPS_MAX && p->n_rules <= PLAN_RULES_MAX);
	MUST(p->n_rlimits <= PLAN_RLIMITS_MAX && p->n_seccomp <= PLAN_SECCOMP_MAX);
	MUST(p->n_argv >= 1 && p->n_argv <= PLAN_ARGS_MAX && p->n_env <= PLAN_ENV_MAX);
	MUST(!p->argv[p->n_argv] && !p->env[p->n_env]);
	MUST(!(p->required & ~p->layers) && !(p->layers & ~LAYERS_ALL));
	MUST(p->memory_bytes && p->pids && p->cpu_milli && p->cpu_ms && p->scratch_bytes);
	MUST(p->init_id && p->code_id && p->host_id_base);
	MUST(p->host_id_base + 2 * (uint64_t)p->host_id_slots <= UINT32_MAX);
	for (size_t i = 0; i < p->n_fs; i++) {
		MUST(p->fs[i].kind > FS_OP_NONE && p->fs[i].kind < FS_OP_COUNT);
		MUST(p->fs[i].path[0] == '/' && strlen(p->fs[i].path) < PLAN_PATH_MAX);
		MUST(p->fs[i].source || p->fs[i].kind != FS_OP_BIND_RO);
		for (size_t k = 0; k < p->fs[i].data.n; k++) /* all of it can be read */
			bytes += (size_t)(p->fs[i].data.p[k] != 0);
	}
	for (size_t i = 0; i < p->n_seccomp * 8; i++)
		bytes += (size_t)(((const char *)p->seccomp)[i] != 0);
	for (size_t i = 0; i < p->n_argv; i++)
		bytes += strlen(p->argv[i]);
	for (size_t i = 0; i < p->n_env; i++)
		bytes += strlen(p->env[i]);
	MUST(bytes <= PLAN_BYTES_MAX);
	for (size_t i = 0; i < p->n_rules; i++)
		MUST(p->rules[i].access > PLAN_ACCESS_NONE &&
		     p->rules[i].access < PLAN_ACCESS_COUNT && p->rules[i].path[0] == '/');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct plan_store store, store2;
	CLEANUP_BUF struct buf b = BUF_INIT(PLAN_BYTES_MAX), b2 = BUF_INIT(PLAN_BYTES_MAX);
	struct err err = { 0 };
	struct plan p, q;

	if (plan_decode(data, size, &store, &p, &err) < 0) {
		MUST(err.code != ERR_NONE && err.msg[0]);
		return 0;
	}
	MUST(err.code == ERR_NONE);
	check_bounds(&p);
	/* There is one way to write a plan, so what was read is what is written. */
	MUST(plan_encode(&p, &b) == 0);
	MUST(b.len == size && memcmp(b.data, data, size) == 0);
	MUST(plan_decode(b.data, b.len, &store2, &q, NULL) == 0);
	MUST(plan_encode(&q, &b2) == 0);
	MUST(b2.len == b.len && memcmp(b2.data, b.data, b.len) == 0);
	return 0;
}
