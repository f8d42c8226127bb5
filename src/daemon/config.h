/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* brigd's settings: built-in, then the file, then the environment, then the flags. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "auth/auth.h"
#include "base/arena.h"
#include "base/err.h"
#include "net/http.h"
#include "pool/pool.h"

#define CONFIG_LISTEN_MAX   8
#define CONFIG_NAMES_MAX    16
#define CONFIG_WEBHOOKS_MAX 8
#define CONFIG_PRELOAD_MAX  64

struct config_webhook {
	const char *url;            /* http:// or https:// */
	const char *secret_file;    /* NULL: not signed; its content signs (HMAC-SHA256) */
	bool approvals, executions; /* what is told: questions and their answers; ends of runs */
	unsigned attempts;          /* 8 */
	unsigned timeout_ms;        /* of one attempt, 10 s */
};

struct config_shape {
	enum language language; /* LANGUAGE_NONE: not configured */
	unsigned min, max;      /* boxes that wait */
	unsigned idle_ms;
	bool eager; /* made at the start, not at the first request */
	const char *preload[CONFIG_PRELOAD_MAX];
	size_t n_preload;
};

struct daemon_config {
	struct arena arena;                 /* all texts below */
	const char *file;                   /* that was read; NULL: none */
	const char *state_dir;              /* NULL: the default */
	const char *socket;                 /* of the unix listener; "": none; NULL: the default */
	mode_t socket_mode;                 /* 0600 */
	const char *tcp[CONFIG_LISTEN_MAX]; /* "127.0.0.1:7070", "[::1]:7070", ":0" is refused */
	size_t n_tcp;
	bool allow_remote;                   /* a non-loopback address was really meant */
	const char *hosts[CONFIG_NAMES_MAX]; /* further names in Host */
	size_t n_hosts;
	const char *origins[CONFIG_NAMES_MAX];
	size_t n_origins;
	const char *policy;  /* NULL: "permissive" */
	const char *confirm; /* "ask", "approve", "deny" */
	struct http_limits http;
	unsigned running_max;                       /* runs under way: 64 */
	unsigned queue_max;                         /* accepted and waiting: 1024; above: 429 */
	unsigned acquire_ms;                        /* for a box: 10 s */
	unsigned keep_results;                      /* finished ones in memory: 1000 */
	size_t keep_bytes;                          /* and their bytes: 128 MiB */
	unsigned keep_hours;                        /* on disk, with idempotency keys: 24 */
	unsigned drain_ms;                          /* for what runs, at SIGTERM: 30 s */
	struct quota quota;                         /* of whoever has none of his own */
	struct config_shape shapes[LANGUAGE_COUNT]; /* by language */
	struct config_webhook webhooks[CONFIG_WEBHOOKS_MAX];
	size_t n_webhooks;
	const char *otlp;                        /* "http://host:4318"; NULL: no export */
	const char *log_format;                  /* "text", "json" */
	const char *log_level;                   /* "error", "warning", "info", "debug" */
	bool check_only, help, version, openapi; /* flags */
};

/* argv as of main(); environ: BRIGD_*; the file: --config, $BRIGD_CONFIG, /etc/brig/brigd.yaml for
 * root or ~/.config/brig/brigd.yaml when it exists. On success config_done() frees it. */
int config_load(int argc, char **argv, struct daemon_config *ret, struct err *err);
void config_done(struct daemon_config *c);
/* As YAML, every setting with its value: what --check-config prints. */
void config_print(const struct daemon_config *c, struct buf *out);
/* The socket a client tries: root's /run/brig/brigd.sock, else $XDG_RUNTIME_DIR/brig/brigd.sock,
 * else STATE_DIR/brigd.sock. */
int config_default_socket(char *ret, size_t n, struct err *err);
extern const char config_help[];
