/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libbrig: run code that nobody should trust, from a C program.
 *
 *     struct brig *b;
 *     char error[BRIG_ERROR_SIZE];
 *
 *     if (brig_open(NULL, &b, error) < 0)
 *             ...
 *     char *result = brig_run(b, "{\"language\":\"python\",\"code\":\"print(6*7)\"}");
 *     puts(result);   // one JSON object: state, stdout, value, files, usage, receipt, ...
 *     free(result);
 *     brig_close(b);
 *
 * Every request goes the whole way: risk analysis, policy, approval where the policy wants one, a
 * box, a record of it all.
 *
 * The boxes come from a pool that the handle owns: the first request of a language starts it, later
 * ones find a box that waits. A handle belongs to one thread at a time.
 */

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BRIG_ERROR_SIZE 512

struct brig;

struct brig_options {
	const char *launcher;       /* path of brig-launch; NULL: beside the running program, in
	                               ../libexec/brig */
	unsigned warm;              /* boxes of each language that wait; 0: 2 */
	const char *const *preload; /* Python modules to load beforehand, ended by NULL; or NULL */
	const char *policy;         /* "permissive", "strict" or a file; NULL: permissive */
	const char *state_dir;      /* of the record and the approvals; NULL: $BRIG_STATE_DIR, or
	                               /var/lib/brig, or ~/.local/state/brig */
	int no_record;              /* non-zero: none is kept; what needs an approval is denied */
	const char *confirm; /* who answers when the policy asks: NULL or "ask" (somebody with
	                        "brig approvals"; the call waits), "approve" or "deny" */
};

/* 0, or a negative errno with the cause in error[BRIG_ERROR_SIZE]. options may be NULL. */
int brig_open(const struct brig_options *options, struct brig **ret, char *error);
/*
 * The result of one request as JSON, to be freed by the caller; what is wrong with the request is
 * in the result, too (state "rejected"). NULL only when memory ran out.
 */
char *brig_run(struct brig *b, const char *request_json);
/* Makes the boxes of a language ("python", "javascript", "shell") and waits until they are there.
 */
int brig_prepare(struct brig *b, const char *language, unsigned timeout_ms, char *error);
/* Ends every box; nothing is left afterwards. */
void brig_close(struct brig *b);

#ifdef __cplusplus
}
#endif
