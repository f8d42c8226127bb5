/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions of the rules: made at first use, with bounds on what a match may cost. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>

#include "risk/query.h"

#define REGEX_STEPS    400000 /* a text of 256 KiB tried from each of its bytes */
#define REGEX_DEPTH    5000
#define REGEX_HEAP_KIB 1024

static pcre2_code *regex_code(struct regex *r)
{
	PCRE2_SIZE offset;
	int error;

	if (r->code)
		return r->code;
	r->code = pcre2_compile((PCRE2_SPTR)r->source, PCRE2_ZERO_TERMINATED, 0, &error, &offset,
	                        NULL);
	if (r->code && pcre2_pattern_info(r->code, PCRE2_INFO_FIRSTBITMAP, (void *)&r->starts) != 0)
		r->starts = NULL;
	return r->code;
}

/* The library looks for the same, but to call it costs more than most texts here are long. */
static bool may_start(const uint8_t *starts, struct str text)
{
	for (size_t i = 0; i < text.n; i++) {
		uint8_t c = (uint8_t)text.p[i];

		if (starts[c / 8] & 1u << c % 8)
			return true;
	}
	return false;
}

static bool prepare(struct query *q)
{
	if (!q->match_data)
		q->match_data = pcre2_match_data_create(1, NULL);
	if (q->match_limits)
		return q->match_data != NULL;
	q->match_limits = pcre2_match_context_create(NULL);
	if (!q->match_limits || !q->match_data)
		return false;
	(void)pcre2_set_match_limit(q->match_limits, REGEX_STEPS);
	(void)pcre2_set_depth_limit(q->match_limits, REGEX_DEPTH);
	(void)pcre2_set_heap_limit(q->match_limits, REGEX_HEAP_KIB);
	return true;
}

int regex_match(struct query *q, uint32_t regex, struct str text)
{
	pcre2_code *code = regex_code(&q->regexes[regex]);
	int r;

	if (!code || !prepare(q))
		return -ENOMEM;
	if (q->regexes[regex].starts && !may_start(q->regexes[regex].starts, text))
		return 0;
	r = pcre2_match(code, (PCRE2_SPTR)(text.p ? text.p : ""), text.n, 0, 0, q->match_data,
	                q->match_limits);
	return r >= 0 ? 1 : r == PCRE2_ERROR_NOMATCH ? 0 : -ETIME;
}

void regexes_free(struct query *q)
{
	for (uint32_t i = 0; i < q->n_regexes; i++)
		pcre2_code_free(q->regexes[i].code);
	pcre2_match_data_free(q->match_data);
	pcre2_match_context_free(q->match_limits);
}
