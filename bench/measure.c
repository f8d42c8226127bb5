/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/parse.h"
#include "base/str.h"
#include "sys/file.h"

/* ---- samples --------------------------------------------------------------------------- */

void samples_add(struct samples *s, uint64_t ns)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 256;
		double *us = realloc(s->us, cap * sizeof(*us));

		if (!us) {
			struct err err = { 0 };

			(void)err_set(&err, ERR_INTERNAL, ENOMEM, "keep a sample");
			samples_fail(s, &err);
			return;
		}
		s->us = us;
		s->cap = cap;
	}
	s->us[s->n++] = (double)ns / 1000;
}

void samples_fail(struct samples *s, const struct err *err)
{
	if (!s->failed++)
		s->error = *err;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double samples_percentile(struct samples *s, double percent)
{
	double rank = percent / 100 * (double)s->n;
	size_t i = (size_t)rank;

	if (!s->n)
		return 0;
	qsort(s->us, s->n, sizeof(*s->us), by_value);
	if ((double)i == rank && i > 0)
		i--;
	return s->us[MIN2(i, s->n - 1)];
}

void samples_done(struct samples *s)
{
	free(s->us);
	*s = (struct samples){ 0 };
}

void shuffle(size_t *order, size_t n)
{
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	for (size_t i = n; i > 1; i--) {
		size_t j = (size_t)random() % i, other = order[i - 1];

		order[i - 1] = order[j];
		order[j] = other;
	}
}

/* ---- memory ---------------------------------------------------------------------------- */

uint64_t number_in(const char *path, const char *key)
{
	char text[8192];
	const char *at;

	if (file_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return 0;
	at = strstr(text, key);
	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

uint64_t mem_available_kib(void)
{
	return number_in("/proc/meminfo", "MemAvailable:");
}

uint64_t pss_kib(pid_t pid)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	return number_in(path, "\nPss:");
}

uint64_t rss_self_kib(void)
{
	return number_in("/proc/self/status", "VmRSS:");
}

/* ---- signals --------------------------------------------------------------------------- */

static volatile sig_atomic_t stop;

static void note_signal(int sig)
{
	(void)sig;
	stop = 1;
}

/* Not SIG_IGN, which programs that are executed would inherit. */
static void do_nothing(int sig)
{
	(void)sig;
}

void stop_on_signal(void)
{
	const struct sigaction broken = { .sa_handler = do_nothing };
	const struct sigaction action = { .sa_handler = note_signal, .sa_flags = SA_RESTART };

	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	(void)sigaction(SIGPIPE, &broken, NULL);
}

bool stop_asked(void)
{
	return stop != 0;
}

/* ---- options --------------------------------------------------------------------------- */

static const char *launcher;

const char *option_launcher(void)
{
	return launcher;
}

static int usage(const char *program, const struct option_row *rows, size_t n)
{
	(void)fprintf(stderr, "usage: %s [--launcher PATH]", program);
	for (size_t i = 0; i < n; i++)
		(void)fprintf(stderr, " [--%s%s]", rows[i].name, rows[i].max ? " N" : "");
	(void)fprintf(stderr, "\n");
	for (size_t i = 0; i < n; i++)
		(void)fprintf(stderr, "  --%-10s %s (%" PRIu64 ")\n", rows[i].name, rows[i].help,
		              *rows[i].value);
	return -EINVAL;
}

static const struct option_row *find_row(const char *word, const struct option_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_has_prefix(word, "--") && streq(word + 2, rows[i].name))
			return &rows[i];
	return NULL;
}

int options_parse(int argc, char **argv, const struct option_row *rows, size_t n)
{
	srandom(1);
	for (int i = 1; i < argc; i++) {
		const struct option_row *row = find_row(argv[i], rows, n);

		if (streq(argv[i], "--launcher") && i + 1 < argc)
			launcher = argv[++i];
		else if (row && !row->max)
			*row->value = 1;
		else if (!row || ++i >= argc || parse_u64(argv[i], row->value) < 0 ||
		         *row->value > row->max || !*row->value)
			return usage(argv[0], rows, n);
	}
	return 0;
}
