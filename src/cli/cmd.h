/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * The commands. argv[0] is the command's own name; each returns the exit status of the program
 * and has said on stderr what went wrong.
 */
int cmd_run(int argc, char **argv);
int cmd_approvals(int argc, char **argv);
int cmd_batch(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_ledger(int argc, char **argv);
int cmd_risk(int argc, char **argv);
int cmd_pool(int argc, char **argv);
int cmd_policy(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_wait(int argc, char **argv);
int cmd_cancel(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_completion(int argc, char **argv);
int cmd_token(int argc, char **argv);

/* What the ablation tests change; the product always passes zeros. */
struct run_variant {
	const char *launcher; /* NULL: the installed one */
	uint32_t without;     /* LAYER_BITs to leave out */
};

int run_main(int argc, char **argv, const struct run_variant *v);

/* The exit status that a result stands for. */
struct result;
int run_status(const struct result *res);
