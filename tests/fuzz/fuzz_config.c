/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as settings; what is taken keeps its bounds and, printed, says the same again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config_impl.h"
#include "daemon/listen.h"
#include "fuzz.h"

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "violated: %s\n", #condition);                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* libfyaml 0.7.12 loses a buffer for a text with a dozen '' in it. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:fy_atom_iter_grow_chunk";
}

static void check_numbers(const void *base, const struct config_number *infos, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t v = config_number_get(base, &infos[i]);

		MUST((v >= infos[i].min && v <= infos[i].max) || (!v && !infos[i].def));
	}
}

static void check_values(const struct daemon_config *c)
{
	struct listen_address a;

	check_numbers(c, config_numbers, config_numbers_n);
	for (unsigned i = LANGUAGE_NONE + 1; i < LANGUAGE_COUNT; i++) {
		check_numbers(&c->shapes[i], shape_numbers, shape_numbers_n);
		MUST(c->shapes[i].language == LANGUAGE_NONE ||
		     c->shapes[i].min <= c->shapes[i].max);
	}
	MUST(c->n_webhooks <= CONFIG_WEBHOOKS_MAX && c->n_tcp <= CONFIG_LISTEN_MAX);
	for (size_t i = 0; i < c->n_webhooks; i++) {
		check_numbers(&c->webhooks[i], webhook_numbers, webhook_numbers_n);
		MUST(config_check_url(c->webhooks[i].url, NULL) == 0);
		MUST(c->webhooks[i].approvals || c->webhooks[i].executions);
	}
	for (size_t i = 0; i < c->n_tcp; i++)
		MUST(listen_parse(c->tcp[i], &a, NULL) == 0);
	MUST((c->socket_mode & 0600) == 0600 && !(c->socket_mode & ~0666u));
	MUST(!c->socket || !*c->socket || *c->socket == '/');
}

static char *printed(const struct daemon_config *c)
{
	struct buf out = BUF_INIT(4 * MIB);
	char *text;

	config_print(c, &out);
	text = buf_detach(&out);
	MUST(text != NULL);
	return text;
}

static void check_again(const struct daemon_config *c)
{
	char *first = printed(c), *second;
	struct daemon_config again;
	struct err err = { 0 };
	int r;

	config_defaults(&again);
	r = config_read("again", str_of(first), &again, &err);
	if (r < 0)
		(void)fprintf(stderr, "%s\n%s\n", err.msg, first);
	MUST(r >= 0);
	second = printed(&again);
	MUST(strcmp(first, second) == 0);
	config_done(&again);
	free(first);
	free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct daemon_config c;
	struct err err = { 0 };

	config_defaults(&c);
	if (config_read("fuzz", (struct str){ (const char *)data, size }, &c, &err) < 0) {
		MUST(err.code != ERR_NONE && *err.msg);
	} else {
		check_values(&c);
		(void)config_check(&c, NULL);
		check_again(&c);
	}
	config_done(&c);
	return 0;
}
