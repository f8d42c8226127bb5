/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a program. The first byte chooses the language (Python, JavaScript, shell) or the
 * browser. There is always an answer, it is in order, and the same text gets the same one again.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "fuzz.h"
#include "risk/risk.h"

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "violated: %s\n", #condition);                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static void check_one(const struct finding *f, struct str code)
{
	MUST(f->rule[0] && f->category[0] && f->message[0]);
	MUST(f->level >= RISK_SAFE && f->level < RISK_LEVEL_COUNT);
	MUST(f->start <= f->end && f->end <= code.n);
	MUST(f->line >= 1 && f->column >= 1);
}

static void check(const struct findings *f, struct str code)
{
	enum risk_level worst = RISK_SAFE;

	MUST(f->level >= RISK_SAFE && f->level < RISK_LEVEL_COUNT);
	MUST(f->n <= FINDINGS_MAX);
	MUST(f->complete || f->level >= RISK_MEDIUM);
	MUST(f->complete == (f->why[0] == 0));
	for (size_t i = 0; i < f->n; i++) {
		check_one(&f->v[i], code);
		worst = MAX2(worst, f->v[i].level);
		MUST(i == 0 || f->v[i - 1].level >= f->v[i].level);
	}
	MUST(f->level == worst || (f->n == 0 && f->level <= RISK_LOW));
}

static void check_json(const struct findings *f)
{
	CLEANUP_BUF struct buf b = BUF_INIT(1 * MIB);
	json_t *root;

	findings_to_json(f, &b);
	MUST(buf_finish(&b) == 0);
	root = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
	MUST(root);
	MUST(json_array_size(json_object_get(root, "findings")) == f->n);
	json_decref(root);
}

static void check_same(const struct findings *a, const struct findings *b)
{
	MUST(a->level == b->level && a->n == b->n && a->complete == b->complete);
	MUST(memcmp(a->v, b->v, a->n * sizeof(a->v[0])) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum language languages[] = { LANGUAGE_PYTHON, LANGUAGE_JAVASCRIPT,
		                                   LANGUAGE_SHELL };
	static struct findings first, again;
	static struct risk *risk;
	struct str code;

	if (size < 1)
		return 0;
	if (!risk)
		MUST(risk_open(&risk, NULL) == 0);
	code = (struct str){ (const char *)data + 1, size - 1 };
	if (data[0] % 4 == 3) {
		risk_assess_browser(risk, code, &first);
		check(&first, code);
		check_json(&first);
		return 0;
	}
	risk_assess(risk, languages[data[0] % 4], code, &first);
	check(&first, code);
	check_json(&first);
	risk_assess(risk, languages[data[0] % 4], code, &again);
	if (again.cached)
		check_same(&first, &again);
	return 0;
}
