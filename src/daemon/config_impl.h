/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tables of the settings: what each is called, where it is kept and what it may be. */

#include "base/str.h"
#include "daemon/config.h"

#define CONFIG_ARENA_MAX (1 * MIB)
#define CONFIG_TEXT_MAX  2048 /* bytes of one value */
#define CONFIG_NONE      "none"
#define CONFIG_SHOW_SIZE 32

enum config_kind {
	CONFIG_COUNT = 0,
	CONFIG_BYTES,
	CONFIG_MS,
};

/* In a struct that the table is for. One with the default 0 takes "none": no bound of its own. */
struct config_number {
	const char *group, *key; /* group "": the top */
	enum config_kind kind;
	size_t offset, size;
	uint64_t def, min, max;
};

/* One text; the setter checks it. */
struct config_text {
	const char *group, *key;
	const char *env, *flag; /* NULL: not there */
	bool path;              /* there, it may be relative to where we are started */
	int (*set)(struct daemon_config *c, const char *text, struct err *err);
};

/* An array of texts and their number. */
struct config_list {
	const char *group, *key;
	size_t offset, n_offset, max;
	int (*check)(const char *text, struct err *err);
};

extern const struct config_number config_numbers[]; /* of struct daemon_config */
extern const struct config_number shape_numbers[];  /* of struct config_shape */
extern const struct config_number webhook_numbers[];
extern const struct config_text config_texts[];
extern const struct config_list config_lists[]; /* of struct daemon_config */
extern const struct config_list shape_preload;
extern const size_t config_numbers_n, shape_numbers_n, webhook_numbers_n, config_texts_n,
	config_lists_n;

uint64_t config_number_get(const void *base, const struct config_number *n);
void config_number_put(void *base, const struct config_number *n, uint64_t value);
int config_number_set(void *base, const struct config_number *n, const char *text, struct err *err);
/* With the largest unit that leaves no rest. */
void config_number_show(const struct config_number *n, uint64_t value, char ret[CONFIG_SHOW_SIZE]);

size_t config_list_n(const void *base, const struct config_list *l);
const char *config_list_at(const void *base, const struct config_list *l, size_t i);
void config_list_clear(void *base, const struct config_list *l);
int config_list_add(struct arena *arena, void *base, const struct config_list *l, const char *text,
                    struct err *err);
/* One of the texts, NULL at the end: *ret is the table's own. */
int config_pick(const char *const *words, const char *text, const char **ret, struct err *err);
int config_bool(const char *text, bool *ret, struct err *err);
int config_keep(struct arena *arena, const char *text, const char **ret, struct err *err);
/* "http://host:port/path" or https; no name and password in it. */
int config_check_url(const char *text, struct err *err);
int config_check_absolute(const char *text, struct err *err);

void config_defaults(struct daemon_config *c);
/* A file's text, onto what is there already. */
int config_read(const char *name, struct str text, struct daemon_config *c, struct err *err);
/* What is wrong only together. */
int config_check(const struct daemon_config *c, struct err *err);

/* The words after the program's name: which are there, not yet what they mean. */
struct config_flags {
	const char *config;
	const char *texts[8]; /* by index in config_texts */
	const char *listen[CONFIG_LISTEN_MAX];
	size_t n_listen;
	bool allow_remote;
};

int config_flags_read(int argc, char **argv, struct daemon_config *c, struct config_flags *ret,
                      struct err *err);
int config_flags_apply(const struct config_flags *f, struct daemon_config *c, struct err *err);
int config_env_apply(struct daemon_config *c, struct err *err);
