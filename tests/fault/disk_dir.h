/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A directory in memory for the programs about disks, and what it holds as bytes. */

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "ledger/ledger.h"

#define IMAGE_MAX (16 * MIB)

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static inline void remove_dir(const char *dir)
{
	(void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* False: there is no such file. */
static inline bool load_file(const char *dir, const char *name, struct buf *ret)
{
	char path[256], chunk[4096];
	CLEANUP_FD int fd = FD_NONE;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	*ret = BUF_INIT(IMAGE_MAX);
	while (fd >= 0 && (n = read(fd, chunk, sizeof(chunk))) > 0)
		buf_put(ret, chunk, (size_t)n);
	return fd >= 0;
}

static inline bool store_file(const char *dir, const char *name, const void *p, size_t n)
{
	CLEANUP_FD int fd = FD_NONE;
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return fd >= 0 && write(fd, p, n) == (ssize_t)n;
}
