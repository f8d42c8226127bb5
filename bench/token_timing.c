/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Does the time of tokens_match() tell where a wrong text differs? Texts that are wrong in the
 * first byte of the secret and texts that are wrong in the last one, in random turn, and Welch's t
 * of the two. |t| below 4.5 is the usual bound of "cannot be told apart". The control compares the
 * texts themselves and stops at the first difference, to show that the method sees a leak.
 *
 *     token_timing [SAMPLES]
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/auth.h"
#include "base/clock.h"
#include "base/parse.h"

#define SAMPLES 100000
#define TRIES   16 /* calls of one sample: the clock is coarser than a call */
#define OUTLIER 4  /* times the median of the first samples: the scheduler's, not ours */
#define FIRST   1000

struct sums {
	double n, sum, squares;
};

static void put(struct sums *s, double x)
{
	s->n++;
	s->sum += x;
	s->squares += x * x;
}

static double mean(const struct sums *s)
{
	return s->sum / s->n;
}

static double variance(const struct sums *s)
{
	return (s->squares - s->sum * s->sum / s->n) / (s->n - 1);
}

static double welch_t(const struct sums *a, const struct sums *b)
{
	return (mean(a) - mean(b)) / sqrt(variance(a) / a->n + variance(b) / b->n);
}

static struct tokens *tokens;
static char right[TOKEN_SIZE];
static volatile uintptr_t sink;

static void by_tokens(const char *text)
{
	sink += tokens_match(tokens, text) != NULL;
}

/* Byte by byte and out at the first difference. */
static void by_early_exit(const char *text)
{
	const volatile char *a = right, *b = text;
	size_t i = 0;

	while (i < 50 && a[i] == b[i])
		i++;
	sink += i;
}

static double sample(void (*match)(const char *text), const char *text)
{
	uint64_t begin = clock_ns();

	for (int i = 0; i < TRIES; i++)
		match(text);
	return (double)(clock_ns() - begin);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double bound_of(void (*match)(const char *text), const char *text)
{
	static double first[FIRST];

	for (size_t i = 0; i < FIRST; i++)
		first[i] = sample(match, text);
	qsort(first, FIRST, sizeof(first[0]), compare);
	return first[FIRST / 2] * OUTLIER;
}

static void measure(const char *what, void (*match)(const char *text), uint64_t samples)
{
	char wrong[2][TOKEN_SIZE];
	struct sums sums[2] = { 0 };
	unsigned long long seed = 88172645463325252ULL;
	double bound;

	for (int i = 0; i < 2; i++) {
		size_t at = i ? strlen(right) - 1 : strlen(right) - 32;

		memcpy(wrong[i], right, sizeof(right));
		wrong[i][at] = wrong[i][at] == '0' ? '1' : '0';
	}
	bound = bound_of(match, wrong[0]);
	for (uint64_t i = 0; i < 2 * samples; i++) {
		double ns;
		int which;

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		which = (int)(seed >> 40 & 1);
		ns = sample(match, wrong[which]);
		if (ns < bound)
			put(&sums[which], ns / TRIES);
	}
	(void)printf("%-12s first byte %8.2f ns, last byte %8.2f ns, n %.0f + %.0f, t = %.2f\n",
	             what, mean(&sums[0]), mean(&sums[1]), sums[0].n, sums[1].n,
	             welch_t(&sums[0], &sums[1]));
}

int main(int argc, char **argv)
{
	struct token like = { .name = "timing", .scopes = SCOPE_RUN }, made;
	char dir[] = "/tmp/brig-timing-XXXXXX", path[64];
	uint64_t samples = SAMPLES;
	struct err err = { 0 };

	if (argc > 1 && parse_u64(argv[1], &samples) < 0)
		return 2;
	if (!mkdtemp(dir))
		return 1;
	if (tokens_open(dir, &tokens, &err) < 0 ||
	    tokens_add(tokens, &like, right, &made, &err) < 0) {
		(void)fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	measure("tokens_match", by_tokens, samples);
	measure("early exit", by_early_exit, samples);
	tokens_close(tokens);
	(void)snprintf(path, sizeof(path), "%s/" TOKENS_FILE, dir);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s/tokens.lock", dir);
	(void)unlink(path);
	return rmdir(dir) < 0;
}
