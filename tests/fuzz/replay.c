/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays the files of a corpus folder without a fuzzing engine: each file as it is, every prefix
 * of a short one, and a short one with each byte changed. One line of TAP for each file; a crash
 * ends the program before the plan is met.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define INPUT_MAX  (16u << 20)
#define VARIED_MAX 1024u

/* In memory of exactly this size, so that a sanitizer sees one byte too many. */
static int run_one(const uint8_t *data, size_t n)
{
	uint8_t *exact = malloc(n ? n : 1);

	if (!exact)
		return -1;
	memcpy(exact, data, n);
	(void)LLVMFuzzerTestOneInput(exact, n);
	free(exact);
	return 0;
}

static int run_varied(uint8_t *data, size_t n)
{
	static const uint8_t values[] = { 0x00, '"', '\\', '9', '{', 0xff };

	for (size_t cut = 0; cut < n; cut++)
		if (run_one(data, cut) < 0)
			return -1;
	for (size_t at = 0; at < n; at++) {
		uint8_t kept = data[at];

		data[at] = values[at % sizeof(values)];
		if (run_one(data, n) < 0)
			return -1;
		data[at] = kept;
	}
	return 0;
}

static int run_file(const char *dir, const char *name)
{
	uint8_t *data = malloc(INPUT_MAX);
	char path[4096];
	FILE *f;
	size_t n;
	int r = -1;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rbe");
	if (f && data) {
		n = fread(data, 1, INPUT_MAX, f);
		r = ferror(f) ? -1 : run_one(data, n);
		if (r == 0 && n <= VARIED_MAX)
			r = run_varied(data, n);
	}
	if (f)
		(void)fclose(f);
	free(data);
	return r;
}

static int is_input(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

int main(int argc, char **argv)
{
	struct dirent **names = NULL;
	int n, failed = 0;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	n = scandir(argv[1], &names, is_input, alphasort);
	if (n <= 0) {
		(void)fprintf(stderr, "%s: no inputs\n", argv[1]);
		return 1;
	}
	printf("1..%d\n", n);
	for (int i = 0; i < n; i++) {
		int r = run_file(argv[1], names[i]->d_name);

		printf("%sok %d - %s\n", r < 0 ? "not " : "", i + 1, names[i]->d_name);
		(void)fflush(stdout);
		failed += r < 0;
		free(names[i]);
	}
	free(names);
	return failed ? 1 : 0;
}
