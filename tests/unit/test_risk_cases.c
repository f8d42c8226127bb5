/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_risk_cases FOLDER: the corpus against the rules. A record begins with
 *
 *     === NAME CLASS OP LEVEL [rule=ID]
 *
 * and its code goes on up to the next one. Every record is a line of TAP; what is missed in class
 * evasion, risky or benign is told but fails only the rates at the end: every seed holds, at least
 * 95 % of evasions are MEDIUM or more, at most 5 % of benign programs are more than LOW.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "risk/risk.h"

#define CORPUS_MAX  (4 * MIB)
#define RECORDS_MAX 4000

#define EVASION_PERCENT 95
#define BENIGN_PERCENT  5

enum class {
	CLASS_SEED = 0,
	CLASS_EVASION,
	CLASS_RISKY,
	CLASS_BENIGN,
	CLASS_COUNT,
};

static const char *const class_names[CLASS_COUNT] = { "seed", "evasion", "risky", "benign" };

struct record {
	char name[64], op[4], level[12], rule[RULE_ID_SIZE], class_name[12];
	enum class class;
	enum risk_level want;
	struct str code;
};

struct tally {
	unsigned n[CLASS_COUNT], good[CLASS_COUNT];
	unsigned true_positive, false_positive, false_negative; /* threshold MEDIUM */
	unsigned wrong;                                         /* records that cannot be read */
	uint64_t slowest_ns;
};

static unsigned tests, failures;

static void report(bool good, const char *language, const char *what)
{
	tests++;
	failures += !good;
	(void)printf("%sok %u - %s %s\n", good ? "" : "not ", tests, language, what);
}

static int read_file(const char *path, struct buf *out)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	char block[65536];
	ssize_t n;

	if (fd < 0)
		return -errno;
	while ((n = read(fd, block, sizeof(block))) > 0)
		buf_put(out, block, (size_t)n);
	return n < 0 ? -errno : buf_finish(out);
}

static bool read_head(struct str line, struct record *r)
{
	char text[256], extra[64] = "";
	int n;

	if (line.n >= sizeof(text))
		return false;
	memcpy(text, line.p, line.n);
	text[line.n] = 0;
	n = sscanf(text, "=== %63s %11s %3s %11s %63s", r->name, r->class_name, r->op, r->level,
	           extra);
	if (n < 4 || risk_level_from_name(r->level, &r->want) < 0)
		return false;
	if (!streq(r->op, ">=") && !streq(r->op, "<=") && !streq(r->op, "=="))
		return false;
	if (str_has_prefix(extra, "rule="))
		(void)snprintf(r->rule, sizeof(r->rule), "%.47s", extra + 5);
	for (int i = 0; i < CLASS_COUNT; i++) {
		if (streq(r->class_name, class_names[i])) {
			r->class = (enum class)i;
			return true;
		}
	}
	return false;
}

static bool is_head(const char *p, const char *end)
{
	return end - p > 4 && memcmp(p, "=== ", 4) == 0;
}

/* The record at *at, and *at moved behind it. */
static bool next_record(const char **at, const char *end, struct record *ret, bool *ret_good)
{
	const char *p = *at, *line, *code;

	while (p < end && !is_head(p, end)) {
		p = memchr(p, '\n', (size_t)(end - p));
		p = p ? p + 1 : end;
	}
	if (p >= end)
		return false;
	line = p;
	code = memchr(p, '\n', (size_t)(end - p));
	code = code ? code + 1 : end;
	for (p = code; p < end && !is_head(p, end);) {
		p = memchr(p, '\n', (size_t)(end - p));
		p = p ? p + 1 : end;
	}
	*ret = (struct record){ 0 };
	*ret_good = read_head((struct str){ line, (size_t)(code - line) }, ret);
	ret->code = (struct str){ code, (size_t)(p - code) };
	if (ret->code.n && code[ret->code.n - 1] == '\n')
		ret->code.n--;
	*at = p;
	return true;
}

static bool holds(const struct record *r, enum risk_level got)
{
	if (streq(r->op, ">="))
		return got >= r->want;
	return streq(r->op, "<=") ? got <= r->want : got == r->want;
}

static bool has_rule(const struct findings *f, const char *rule)
{
	for (size_t i = 0; i < f->n; i++)
		if (streq(f->v[i].rule, rule))
			return true;
	return false;
}

static void count(const struct record *r, const struct findings *f, struct tally *t)
{
	bool risky = r->want >= RISK_MEDIUM;
	bool flagged = f->level >= RISK_MEDIUM;

	t->n[r->class]++;
	t->true_positive += risky && flagged;
	t->false_positive += !risky && flagged;
	t->false_negative += risky && !flagged;
	if (f->cost_ns > t->slowest_ns)
		t->slowest_ns = f->cost_ns;
}

static void run_record(struct risk *risk, enum language language, const char *name,
                       const struct record *r, struct tally *t)
{
	static struct findings f;
	bool good, rule;

	risk_assess(risk, language, r->code, &f);
	count(r, &f, t);
	good = holds(r, f.level);
	t->good[r->class] += r->class == CLASS_EVASION  ? f.level >= RISK_MEDIUM
	                     : r->class == CLASS_BENIGN ? f.level <= RISK_LOW
	                                                : good;
	rule = !*r->rule || has_rule(&f, r->rule);
	if (!good)
		(void)printf("# miss: %s %s %s wanted %s %s got %s%s%s\n", name,
		             class_names[r->class], r->name, r->op, r->level,
		             risk_level_name(f.level), f.n ? " by " : "", f.n ? f.v[0].rule : "");
	if (!rule)
		(void)printf("# rule: %s %s %s wanted %s got %s\n", name, class_names[r->class],
		             r->name, r->rule, f.n ? f.v[0].rule : "nothing");
	report(good || r->class != CLASS_SEED, name, r->name);
}

static void report_rates(const char *name, const struct tally *t)
{
	unsigned flagged = t->true_positive + t->false_positive;
	unsigned risky = t->true_positive + t->false_negative;

	for (int i = 0; i < CLASS_COUNT; i++)
		(void)printf("# %s %s: %u of %u\n", name, class_names[i], t->good[i], t->n[i]);
	(void)printf("# %s at medium: precision %.4f, recall %.4f; slowest %.3f ms\n", name,
	             flagged ? t->true_positive / (double)flagged : 1.0,
	             risky ? t->true_positive / (double)risky : 1.0, (double)t->slowest_ns / 1e6);
	report(t->wrong == 0, name, "every record can be read");
	report(t->good[CLASS_SEED] == t->n[CLASS_SEED], name, "every seed holds");
	report(t->good[CLASS_EVASION] * 100 >= t->n[CLASS_EVASION] * EVASION_PERCENT, name,
	       "95 % of evasions are medium or more");
	report((t->n[CLASS_BENIGN] - t->good[CLASS_BENIGN]) * 100 <=
	               t->n[CLASS_BENIGN] * BENIGN_PERCENT,
	       name, "at most 5 % of benign programs are more than low");
}

static void run_corpus(const char *folder, const char *name, enum language language)
{
	CLEANUP_BUF struct buf text = BUF_INIT(CORPUS_MAX);
	CLEANUP_BUF struct buf path = BUF_INIT(4096);
	struct tally t = { 0 };
	struct risk *risk = NULL;
	struct record r;
	const char *at;
	bool good;
	int n = 0;

	buf_printf(&path, "%s/%s.cases", folder, name);
	if (buf_finish(&path) < 0 || read_file(path.data, &text) < 0 || !text.data ||
	    risk_open(&risk, NULL) < 0) {
		report(false, name, "the corpus can be read");
		return;
	}
	for (at = text.data; n < RECORDS_MAX && next_record(&at, text.data + text.len, &r, &good);
	     n++) {
		if (good) {
			run_record(risk, language, name, &r, &t);
		} else {
			(void)printf("# %s record %d cannot be read: %s\n", name, n + 1, r.name);
			t.wrong++;
		}
	}
	report_rates(name, &t);
	risk_close(risk);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		enum language language;
	} corpora[] = {
		{ "python", LANGUAGE_PYTHON },
		{ "javascript", LANGUAGE_JAVASCRIPT },
		{ "shell", LANGUAGE_SHELL },
	};

	if (argc < 2) {
		(void)fprintf(stderr, "usage: test_risk_cases FOLDER [LANGUAGE]\n");
		return 2;
	}
	for (size_t i = 0; i < ELEMENTSOF(corpora); i++)
		if (argc < 3 || streq(argv[2], corpora[i].name))
			run_corpus(argv[1], corpora[i].name, corpora[i].language);
	(void)printf("1..%u\n", tests);
	return failures ? 1 : 0;
}
