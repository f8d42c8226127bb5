/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger_fill DIR: appends to a ledger what standard input says, one line each:
 *     job TAB session TAB kind TAB name TAB actor TAB detail
 *     body TAB text            a body, for the row that follows
 *     (empty)                  commit; there is one at the end, too
 */
#include <stdio.h>
#include <string.h>

#include "ledger/ledger.h"

#define FIELDS 6
#define LINE   (128 * 1024)

static int append(struct ledger *l, char *line, struct err *err)
{
	const char *f[FIELDS] = { 0 };
	size_t n = 0;

	for (char *at = line; at && n < FIELDS; n++)
		f[n] = strsep(&at, "\t");
	if (n != FIELDS)
		return err_set(err, ERR_INVALID, 0, "a line of %zu fields", n);
	return ledger_append(l,
	                     &(struct ledger_event){ .job = f[0],
	                                             .session = f[1],
	                                             .kind = f[2],
	                                             .name = f[3],
	                                             .actor = f[4],
	                                             .detail = str_of(f[5]) },
	                     err);
}

static int take(struct ledger *l, char *line, struct err *err)
{
	uint8_t digest[SHA256_SIZE];

	line[strcspn(line, "\n")] = 0;
	if (!*line)
		return ledger_commit(l, LEDGER_PROCESS, err);
	if (str_has_prefix(line, "body\t"))
		return ledger_body(l, line + 5, strlen(line + 5), digest, err);
	return append(l, line, err);
}

int main(int argc, char **argv)
{
	static char line[LINE];
	struct ledger *l = NULL;
	struct err err = { 0 };
	int r = argc == 2 ? ledger_open(argv[1], &l, &err) : -1;

	while (r == 0 && fgets(line, sizeof(line), stdin))
		r = take(l, line, &err);
	if (r == 0)
		r = ledger_commit(l, LEDGER_PROCESS, &err);
	ledger_close(l);
	if (r < 0)
		(void)fprintf(stderr, "ledger_fill: %s\n", err.msg);
	return r < 0 ? 1 : 0;
}
