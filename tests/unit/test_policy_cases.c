/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads every *.yaml of the folder given as argument as a policy and prints one line of TAP for
 * each: it must be refused, and with exactly the message in NAME.error.
 */
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "policy/policy.h"

static bool read_error(const char *name, char *text, size_t size)
{
	char path[300];
	FILE *f;
	bool good;

	(void)snprintf(path, sizeof(path), "%.*s.error", (int)(strlen(name) - strlen(".yaml")),
	               name);
	f = fopen(path, "re");
	if (!f)
		return false;
	good = fgets(text, (int)size, f) != NULL;
	(void)fclose(f);
	text[strcspn(text, "\n")] = '\0';
	return good;
}

/* NULL when it went as it should. */
static const char *try(const char *name, struct err *err)
{
	struct policy *p = NULL;
	char wanted[sizeof(err->msg)] = "";

	if (!read_error(name, wanted, sizeof(wanted)))
		return "there is no .error beside it";
	if (policy_load(name, &p, err) >= 0) {
		policy_free(p);
		return "it was taken";
	}
	return streq(err->msg, wanted) ? NULL : err->msg;
}

int main(int argc, char **argv)
{
	DIR *dir = argc == 2 && chdir(argv[1]) == 0 ? opendir(".") : NULL;
	const struct dirent *entry;
	unsigned n = 0, failed = 0;

	if (!dir) {
		(void)printf("Bail out! give the folder of the cases\n");
		return 1;
	}
	while ((entry = readdir(dir))) {
		const char *dot = strrchr(entry->d_name, '.'), *why;
		struct err err = { 0 };

		if (!dot || !streq(dot, ".yaml"))
			continue;
		why = try(entry->d_name, &err);
		(void)printf("%sok %u - %s\n", why ? "not " : "", ++n, entry->d_name);
		if (why)
			(void)printf("# %s\n", why);
		failed += why != NULL;
	}
	(void)closedir(dir);
	(void)printf("1..%u\n", n);
	return failed || !n ? 1 : 0;
}
