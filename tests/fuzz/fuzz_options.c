/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes cut at NULs into the words of `brig run`. */
#include <stdint.h>
#include <stdio.h>

#include "cli/run_options.h"
#include "fuzz.h"

#define WORDS_MAX 1200 /* more than any list of the options takes */

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "violated: %s\n", #condition);                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* argv[0] is "run"; each word ends in a NUL, the last one in that of `text`. */
static int cut(char *text, size_t n, char **argv)
{
	int argc = 0;

	argv[argc++] = (char *)"run";
	for (size_t at = 0; at < n && argc < WORDS_MAX; at += strlen(text + at) + 1)
		argv[argc++] = text + at;
	argv[argc] = NULL;
	return argc;
}

static void check(struct run_options *o)
{
	struct request *r = &o->req;
	struct err err = { 0 };

	MUST(r->language > LANGUAGE_NONE && r->language < LANGUAGE_COUNT);
	MUST(!o->code != !o->path);
	MUST(limits_check(&r->limits, NULL) == 0);
	MUST(r->level < LEVEL_COUNT && r->network < NETWORK_COUNT);
	MUST(r->n_args <= REQUEST_ARGS_MAX && r->n_env <= REQUEST_ENV_MAX);
	MUST(o->n_files <= RUN_PAIRS_MAX && o->n_outs <= RUN_PAIRS_MAX);
	for (size_t i = 0; i < r->n_env; i++)
		MUST(env_check(r->env[i], NULL) == 0);
	for (size_t i = 0; i < o->n_files; i++)
		MUST(box_path_check(o->files[i].box, NULL) == 0 && o->files[i].host[0]);
	for (size_t i = 0; i < o->n_outs; i++)
		MUST(box_path_check(o->outs[i].box, NULL) == 0 && o->outs[i].host[0]);
	r->code = str_of(o->code ? o->code : "x");
	MUST(request_check(r, &err) == 0 || (err.code != ERR_NONE && err.msg[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct run_options options;
	static char *argv[WORDS_MAX + 1];
	CLEANUP_ARENA struct arena arena = ARENA_INIT(4 * MIB);
	char *text = malloc(size + 1);
	struct err err = { 0 };

	MUST(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	if (run_options_parse(cut(text, size, argv), argv, &arena, &options, &err) < 0)
		MUST(err.code != ERR_NONE && err.msg[0]);
	else if (!options.help)
		check(&options);
	free(text);
	return 0;
}
