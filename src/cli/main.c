/* SPDX-License-Identifier: Apache-2.0 */

/* brig: the command. */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cmd.h"
#include "cli/load.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{ "run", cmd_run, "run code in a box" },
	{ "batch", cmd_batch, "run many requests, one per line, in warm boxes" },
	{ "approvals", cmd_approvals, "what waits for a person's yes or no, and the answer to it" },
	{ "pool", cmd_pool,
	  "fill a pool of warm boxes, show what it costs and how fast it answers" },
	{ "bench", cmd_pool, "the same with more runs: warm boxes against the bare interpreter" },
	{ "risk", cmd_risk, "say what a program would do, without running it" },
	{ "policy", cmd_policy, "check, explain and test the rules that decide what may run" },
	{ "ledger", cmd_ledger, "the record: list, show, verify, export, prune, graph" },
	{ "serve", cmd_serve, "the daemon: the same over HTTP, with boxes that wait" },
	{ "ps", cmd_ps, "what runs in the daemon, and what ran" },
	{ "logs", cmd_logs, "what an execution in the daemon wrote" },
	{ "wait", cmd_wait, "wait for the end of executions in the daemon" },
	{ "cancel", cmd_cancel, "end executions in the daemon" },
	{ "top", cmd_top, "what the daemon does now" },
	{ "token", cmd_token, "who may use the daemon: make, list and remove tokens" },
	{ "doctor", cmd_doctor, "what this host can do, layer by layer, and how to get the rest" },
	{ "completion", cmd_completion, "words for bash, zsh and fish" },
};

static void help(FILE *to)
{
	(void)fprintf(to,
	              "brig runs code that nobody should trust, and gives back output, files and a "
	              "receipt.\n\nUsage: brig COMMAND [OPTIONS]\n\n");
	for (size_t i = 0; i < ELEMENTSOF(commands); i++)
		(void)fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
	(void)fprintf(to,
	              "\n  --help     this text; \"brig COMMAND --help\" for a command's\n"
	              "  --version  %s\n",
	              BRIG_VERSION);
}

/*
 * Whoever starts us without one of the three must not find a socket of ours there. The end of a
 * pipe reads as empty and cannot be written; the host's /dev/null may be missing.
 */
static int open_stdio(void)
{
	for (;;) {
		int ends[2];

		if (pipe(ends) < 0)
			return -errno;
		(void)close(ends[1]);
		if (ends[0] <= STDERR_FILENO)
			continue;
		(void)close(ends[0]);
		return 0;
	}
}

/* What was printed and did not arrive was not done. */
static int flushed(int status)
{
	bool failed = ferror(stdout);
	int sys = fflush(stdout) != 0 ? errno : 0;

	return failed || sys ? output_lost(sys) : status;
}

static int carry_out(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;

	if (!word) {
		help(stderr);
		return 2;
	}
	if (streq(word, "--help") || streq(word, "-h") || streq(word, "help")) {
		help(stdout);
		return 0;
	}
	if (streq(word, "--version")) {
		(void)printf("brig %s\n", BRIG_VERSION);
		return 0;
	}
	for (size_t i = 0; i < ELEMENTSOF(commands); i++)
		if (streq(word, commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	(void)fprintf(stderr, "brig: no command \"%.40s\"\n      the commands are:", word);
	for (size_t i = 0; i < ELEMENTSOF(commands); i++)
		(void)fprintf(stderr, " %s", commands[i].name);
	(void)fprintf(stderr, "; see \"brig --help\"\n");
	return 2;
}

int main(int argc, char **argv)
{
	if (open_stdio() < 0) {
		(void)fprintf(stderr, "brig: no descriptors: %s\n", strerror(errno));
		return 125;
	}
	return flushed(carry_out(argc, argv));
}
