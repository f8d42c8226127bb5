/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a caller asks for: plain data, owned by an arena. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "model/layer.h"
#include "model/limits.h"

#define REQUEST_CODE_MAX     (1 * MIB)
#define REQUEST_STDIN_MAX    (16 * MIB)
#define REQUEST_FILES_MAX    256        /* files to place */
#define REQUEST_FILE_SUM_MAX (64 * MIB) /* their bytes together */
#define REQUEST_ARGS_MAX     512
#define REQUEST_ENV_MAX      256
#define REQUEST_ARG_LEN_MAX  (64 * KIB)  /* one argument, or NAME=VALUE */
#define REQUEST_ARG_SUM_MAX  (512 * KIB) /* arguments and environment together */
#define REQUEST_PATH_MAX     1024
#define REQUEST_NAME_MAX     128 /* session_id, idempotency_key, tool names */
#define REQUEST_TOOLS_MAX    64
#define REQUEST_LABELS_MAX   16
#define REQUEST_PARAMS_MAX   64         /* of an action that is not code */
#define REQUEST_PARAM_SUM    (64 * KIB) /* their bytes together */
#define REQUEST_JSON_MAX     (128 * MIB)
#define REQUEST_ARENA_MAX    (192 * MIB)

/* What is asked for; each kind has its own analysis and needs an executor that can do it. */
enum action {
	ACTION_CODE = 0, /* "code_execution" */
	ACTION_BROWSE,   /* "web_browsing": no executor yet, refused by route */
	ACTION_FILE,     /* "file_operation": likewise */
	ACTION_COUNT,
};

enum language {
	LANGUAGE_NONE = 0,
	LANGUAGE_PYTHON,
	LANGUAGE_JAVASCRIPT,
	LANGUAGE_SHELL,
	LANGUAGE_COUNT,
};

enum network {
	NETWORK_NONE = 0, /* nothing at all: loopback stays down, TCP is denied */
	NETWORK_LOOPBACK, /* the box's own loopback; the default of requests */
	NETWORK_COUNT,
};

enum tier {
	TIER_AUTO = 0, /* "auto" */
	TIER_JAIL,     /* "jail", "subprocess" */
	TIER_DOCKER,   /* "docker", "docker_simple": no executor yet, refused by route */
	TIER_AIO,      /* "aio", "aio_sandbox": likewise */
	TIER_COUNT,
};

/* A file to place in the box before the code starts. Path is relative to /workspace. */
struct request_file {
	const char *path;
	struct str data;
	bool executable;
};

struct request {
	enum action action;
	struct str params; /* of other actions than code, "name=value" lines */
	enum language language;
	struct str code;
	const char *name; /* of the script, for tracebacks; NULL: by language */
	struct limits limits;
	enum level level;
	enum tier tier;
	enum network network;
	const char **args; /* n_args, each a C string */
	size_t n_args;
	const char **env; /* "NAME=VALUE" */
	size_t n_env;
	struct str stdin_data; /* p == NULL: empty */
	struct request_file *files;
	size_t n_files;
	const char **tools;
	size_t n_tools;
	const char **labels; /* for policies, beside those of the caller; in no digest */
	size_t n_labels;
	const char *session_id;      /* NULL: none */
	const char *idempotency_key; /* NULL: none */
};

/* Defaults: level standard, limits of the table, network loopback, tier auto. */
void request_init(struct request *r);
/*
 * Everything that can be said about a request without looking at the host: language, sizes, NULs,
 * environment names, box paths, limits. The error names the field.
 */
int request_check(const struct request *r, struct err *err);
/*
 * Strict: unknown and duplicate fields, wrong types, over-long strings are refused with the
 * field's path. Everything is copied into the arena. Runs request_check().
 */
int request_from_json(const char *json, size_t n, struct arena *arena, struct request *ret,
                      struct err *err);

/*
 * SHA-256 of exactly what will run: `rest` of everything but the code, `digest` of the code and
 * `rest`, so that the digest of the same request with other code needs only `rest`.
 */
void request_digest(const struct request *r, uint8_t ret_digest[32], uint8_t ret_rest[32]);
void request_digest_code(struct str code, const uint8_t rest[32], uint8_t ret_digest[32]);
/* What an idempotency key stands for: the same request, also in session and labels. */
void request_digest_key(const struct request *r, uint8_t ret[32]);

const char *action_name(enum action a);
int action_from_name(const char *name, enum action *ret);
#define LANGUAGES_KNOWN "python, javascript, shell"
const char *language_name(enum language l);
/* The script's name when the request gives none; NULL for LANGUAGE_NONE. */
const char *language_script(enum language l);
/* Accepts the usual aliases: py, python3, js, node, sh, bash. */
int language_from_name(const char *name, enum language *ret);
/* By file extension; LANGUAGE_NONE when unknown. */
enum language language_from_path(const char *path);
const char *network_name(enum network n);
int network_from_name(const char *name, enum network *ret);
const char *tier_name(enum tier t);
int tier_from_name(const char *name, enum tier *ret);
/* A relative path below /workspace: no "..", no ".", no empty part, no NUL, bounded. */
int box_path_check(const char *path, struct err *err);
/* NAME of NAME=VALUE: [A-Za-z_][A-Za-z0-9_]*, and not one that would reach brig's own programs. */
int env_check(const char *entry, struct err *err);
