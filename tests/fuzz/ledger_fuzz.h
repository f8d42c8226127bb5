/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A ledger in memory, its files as bytes, and what must hold of every answer. */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "ledger/ledger.h"

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "violated: %s (line %d): %s\n", #condition,          \
			              __LINE__, said.msg);                                         \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#define IMAGE_MAX (4 * MIB)
#define LINE_MAX_ (8 * LEDGER_DETAIL_MAX)

enum part {
	PART_DB = 0,
	PART_WAL,
	PART_HEAD,
	PART_KEY,
	PARTS,
};

static const char *const part_names[PARTS] = { "ledger.db", "ledger.db-wal", "ledger.head",
	                                       "ledger.key" };

static char dir[64];
static struct ledger *led;
static struct err said; /* the last error */

/* ---- input ---- */

struct input {
	const uint8_t *p;
	size_t n;
};

static inline uint8_t take(struct input *in)
{
	if (!in->n)
		return 0;
	in->n--;
	return *in->p++;
}

static inline size_t take_size(struct input *in, unsigned bytes)
{
	size_t v = 0;

	while (bytes--)
		v = v << 8 | take(in);
	return v;
}

/* A length, then as many bytes; a NUL ends it. */
static inline size_t take_text(struct input *in, char ret[256])
{
	size_t n = take(in);

	n = MIN2(n, in->n);
	memcpy(ret, in->p, n);
	ret[n] = 0;
	in->p += n;
	in->n -= n;
	return n;
}

/* ---- files ---- */

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static inline void remove_files(void)
{
	if (*dir)
		(void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline void load_part(enum part part, struct buf *ret)
{
	char path[128], chunk[4096];
	CLEANUP_FD int fd = FD_NONE;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, part_names[part]);
	*ret = BUF_INIT(IMAGE_MAX);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (n = read(fd, chunk, sizeof(chunk))) > 0)
		buf_put(ret, chunk, (size_t)n);
}

static inline void store_part(enum part part, const void *p, size_t n)
{
	CLEANUP_FD int fd = FD_NONE;
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, part_names[part]);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	MUST(fd >= 0 && write(fd, p, n) == (ssize_t)n);
}

static inline void new_dir(void)
{
	remove_files();
	MUST(mkdir(dir, 0700) == 0);
}

static inline void close_it(void)
{
	ledger_close(led);
	led = NULL;
}

/* ---- answers ---- */

/* An error has a code and a text, and its number is the returned one. */
static inline int told(int r)
{
	MUST(r >= 0 || (said.code != ERR_NONE && said.code < ERR_CODE_COUNT && *said.msg));
	MUST(r >= 0 || -r == said.sys || (said.sys == 0 && r == -EINVAL) || r == LEDGER_UNSYNCED);
	return r;
}

static inline int open_it(void)
{
	said = (struct err){ 0 };
	return told(ledger_open(dir, &led, &said));
}

/* What is exported is one line, and holds the detail as it was recorded. */
static inline void check_export(const struct ledger_row *row)
{
	CLEANUP_BUF struct buf b = BUF_INIT(LINE_MAX_);
	const char *detail;

	ledger_row_to_json(row, &b);
	MUST(buf_finish(&b) == 0 && b.len > 2);
	MUST(b.data != NULL);
	for (size_t i = 0; i < b.len - row->detail.n - 1; i++)
		MUST((unsigned char)b.data[i] >= 0x20);
	detail = strstr(b.data, ",\"detail\":");
	MUST(detail && b.data[b.len - 1] == '}');
	detail += strlen(",\"detail\":");
	MUST((size_t)(b.data + b.len - 1 - detail) == row->detail.n);
	MUST(memcmp(detail, row->detail.p, row->detail.n) == 0);
}
