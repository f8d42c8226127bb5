/* SPDX-License-Identifier: Apache-2.0 */
/* Browser actions: words that ask for a person's eye. The table is policies/rules/browser.txt. */
#include <stdio.h>
#include <strings.h>

#include "base/clock.h"
#include "risk/risk.h"
#include "risk/rules.h"

#define BROWSER_TEXT_MAX (64 * KIB) /* more is not looked at, and HIGH */

static bool next_field(struct str *line, char *out, size_t size, bool rest)
{
	size_t n = 0;

	while (n < line->n && (rest || line->p[n] != ' '))
		n++;
	if (n == 0 || n >= size)
		return false;
	memcpy(out, line->p, n);
	out[n] = 0;
	n += n < line->n;
	*line = (struct str){ line->p + n, line->n - n };
	return true;
}

/* level category rule word message */
static bool read_line(struct str line, struct finding *f, char word[32])
{
	char level[16];

	return next_field(&line, level, sizeof(level), false) &&
	       risk_level_from_name(level, &f->level) == 0 &&
	       next_field(&line, f->category, sizeof(f->category), false) &&
	       next_field(&line, f->rule, sizeof(f->rule), false) &&
	       next_field(&line, word, 32, false) &&
	       next_field(&line, f->message, sizeof(f->message), true);
}

static bool find_word(struct str text, const char *word, struct finding *f)
{
	size_t n = strlen(word);

	for (size_t i = 0; i + n <= text.n; i++) {
		if (strncasecmp(text.p + i, word, n) == 0) {
			f->start = (uint32_t)i;
			f->end = (uint32_t)(i + n);
			f->line = 1;
			f->column = (uint32_t)i + 1;
			return true;
		}
	}
	return false;
}

static void add(struct findings *out, const struct finding *f)
{
	if (out->n == FINDINGS_MAX)
		out->truncated = true;
	else
		out->v[out->n++] = *f;
	out->level = MAX2(out->level, f->level);
}

static void add_simple(struct findings *out, enum risk_level level, const char *rule,
                       const char *category, const char *message)
{
	struct finding f = { .level = level, .line = 1, .column = 1 };

	(void)snprintf(f.rule, sizeof(f.rule), "%s", rule);
	(void)snprintf(f.category, sizeof(f.category), "%s", category);
	(void)snprintf(f.message, sizeof(f.message), "%s", message);
	add(out, &f);
}

void risk_assess_browser(struct risk *r, struct str action, struct findings *ret)
{
	struct str source = rules_source(RULES_BROWSER);
	uint64_t begin = clock_ns();
	struct finding f;
	char word[32];

	(void)r;
	*ret = (struct findings){ .level = RISK_LOW, .complete = true };
	if (action.n > BROWSER_TEXT_MAX) {
		ret->complete = false;
		(void)snprintf(ret->why, sizeof(ret->why), "larger than %llu bytes",
		               BROWSER_TEXT_MAX);
		add_simple(ret, RISK_HIGH, "source.too-large", "source",
		           "too large to be analysed");
		action.n = BROWSER_TEXT_MAX;
	}
	while (source.n) {
		const char *end = memchr(source.p, '\n', source.n);
		size_t n = end ? (size_t)(end - source.p) : source.n;

		f = (struct finding){ 0 };
		if (n && source.p[0] != '#' && read_line((struct str){ source.p, n }, &f, word) &&
		    find_word(action, word, &f))
			add(ret, &f);
		n += end != NULL;
		source = (struct str){ source.p + n, source.n - n };
	}
	if (ret->n == 0)
		add_simple(ret, RISK_LOW, "browser.ordinary", "browser", "ordinary browser action");
	ret->cost_ns = clock_ns() - begin;
}
