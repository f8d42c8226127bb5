/* SPDX-License-Identifier: Apache-2.0 */
#include "disk.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/str.h"

struct disk_fault disk_fault;
struct disk_log disk_log;

struct layer {
	struct sqlite3_file base;
	int file; /* enum disk_file, or -1: not remembered */
	struct sqlite3_file *below;
};

static struct sqlite3_vfs *below_vfs;

const char *disk_op_name(enum disk_op op)
{
	static const char *const names[DISK_OPS] = { "read",     "write",         "sync",
		                                     "truncate", "shared memory", "open" };

	return names[op];
}

const char *disk_how_name(enum disk_how how)
{
	static const char *const names[DISK_HOWS] = { "EIO", "ENOSPC", "short", "late EIO" };

	return names[how];
}

/* ---- the log ---- */

void disk_add(enum disk_kind kind, enum disk_file file, uint64_t at, const void *data, size_t n)
{
	struct disk_event *e = &disk_log.v[disk_log.n];

	if (!disk_log.on)
		return;
	if (disk_log.n == DISK_EVENTS_MAX)
		abort();
	*e = (struct disk_event){ .kind = kind, .file = file, .at = at, .n = n };
	if (n) {
		e->data = malloc(n);
		if (!e->data)
			abort();
		memcpy(e->data, data, n);
	}
	disk_log.n++;
}

void disk_log_clear(void)
{
	for (size_t i = 0; i < disk_log.n; i++)
		free(disk_log.v[i].data);
	disk_log.n = 0;
}

static void remember(const struct layer *f, enum disk_kind kind, uint64_t at, const void *data,
                     size_t n)
{
	if (!disk_log.on || f->file < 0)
		return;
	if (disk_log.observe)
		disk_log.observe();
	disk_add(kind, (enum disk_file)f->file, at, data, n);
}

/* ---- faults ---- */

static bool fails(enum disk_op op)
{
	if (!disk_fault.nth || disk_fault.op != op)
		return false;
	disk_fault.seen++;
	if (disk_fault.lasting ? disk_fault.seen < disk_fault.nth
	                       : disk_fault.seen != disk_fault.nth)
		return false;
	disk_fault.failed++;
	return true;
}

static bool no_room(void)
{
	return disk_fault.how == DISK_FULL || disk_fault.how == DISK_SHORT;
}

/* ---- files ---- */

static int do_close(struct sqlite3_file *base)
{
	struct layer *f = (struct layer *)base;

	return f->below->pMethods ? f->below->pMethods->xClose(f->below) : SQLITE_OK;
}

static int do_read(struct sqlite3_file *base, void *p, int n, sqlite3_int64 at)
{
	struct layer *f = (struct layer *)base;

	return fails(DISK_READ) ? SQLITE_IOERR_READ : f->below->pMethods->xRead(f->below, p, n, at);
}

static int write_below(struct layer *f, const void *p, int n, sqlite3_int64 at)
{
	int rc = f->below->pMethods->xWrite(f->below, p, n, at);

	if (rc == SQLITE_OK)
		remember(f, DISK_WROTE, (uint64_t)at, p, (size_t)n);
	return rc;
}

static int do_write(struct sqlite3_file *base, const void *p, int n, sqlite3_int64 at)
{
	struct layer *f = (struct layer *)base;

	if (!fails(DISK_WRITE))
		return write_below(f, p, n, at);
	if (disk_fault.how == DISK_SHORT)
		(void)write_below(f, p, n / 2, at);
	else if (disk_fault.how == DISK_LATE)
		(void)write_below(f, p, n, at);
	return no_room() ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}

static int cut_below(struct layer *f, sqlite3_int64 n)
{
	int rc = f->below->pMethods->xTruncate(f->below, n);

	if (rc == SQLITE_OK)
		remember(f, DISK_CUT, (uint64_t)n, NULL, 0);
	return rc;
}

static int do_truncate(struct sqlite3_file *base, sqlite3_int64 n)
{
	struct layer *f = (struct layer *)base;

	if (!fails(DISK_TRUNCATE))
		return cut_below(f, n);
	if (disk_fault.how == DISK_LATE)
		(void)cut_below(f, n);
	return SQLITE_IOERR_TRUNCATE;
}

static int do_sync(struct sqlite3_file *base, int flags)
{
	struct layer *f = (struct layer *)base;
	int rc;

	if (fails(DISK_SYNC)) {
		remember(f, DISK_SYNC_FAILED, 0, NULL, 0);
		return SQLITE_IOERR_FSYNC;
	}
	rc = f->below->pMethods->xSync(f->below, flags);
	if (rc == SQLITE_OK)
		remember(f, DISK_SYNCED, 0, NULL, 0);
	return rc;
}

static int do_size(struct sqlite3_file *base, sqlite3_int64 *ret)
{
	struct layer *f = (struct layer *)base;

	return f->below->pMethods->xFileSize(f->below, ret);
}

static int do_lock(struct sqlite3_file *base, int level)
{
	struct layer *f = (struct layer *)base;

	return f->below->pMethods->xLock(f->below, level);
}

static int do_unlock(struct sqlite3_file *base, int level)
{
	struct layer *f = (struct layer *)base;

	return f->below->pMethods->xUnlock(f->below, level);
}

static int do_reserved(struct sqlite3_file *base, int *ret)
{
	struct layer *f = (struct layer *)base;

	return f->below->pMethods->xCheckReservedLock(f->below, ret);
}

static int do_control(struct sqlite3_file *base, int op, void *arg)
{
	struct layer *f = (struct layer *)base;

	return f->below->pMethods->xFileControl(f->below, op, arg);
}

static int do_sector(struct sqlite3_file *base)
{
	struct layer *f = (struct layer *)base;

	return f->below->pMethods->xSectorSize(f->below);
}

static int do_traits(struct sqlite3_file *base)
{
	struct layer *f = (struct layer *)base;

	return f->below->pMethods->xDeviceCharacteristics(f->below);
}

static int do_shm_map(struct sqlite3_file *base, int piece, int size, int extend,
                      void volatile **ret)
{
	struct layer *f = (struct layer *)base;

	if (fails(DISK_SHM))
		return no_room() ? SQLITE_IOERR_SHMSIZE : SQLITE_IOERR_SHMMAP;
	return f->below->pMethods->xShmMap(f->below, piece, size, extend, ret);
}

static int do_shm_lock(struct sqlite3_file *base, int offset, int n, int flags)
{
	struct layer *f = (struct layer *)base;

	return f->below->pMethods->xShmLock(f->below, offset, n, flags);
}

static void do_shm_barrier(struct sqlite3_file *base)
{
	struct layer *f = (struct layer *)base;

	f->below->pMethods->xShmBarrier(f->below);
}

static int do_shm_unmap(struct sqlite3_file *base, int remove)
{
	struct layer *f = (struct layer *)base;

	return f->below->pMethods->xShmUnmap(f->below, remove);
}

static const struct sqlite3_io_methods methods = {
	.iVersion = 2, /* nothing of the files themselves is mapped */
	.xClose = do_close,
	.xRead = do_read,
	.xWrite = do_write,
	.xTruncate = do_truncate,
	.xSync = do_sync,
	.xFileSize = do_size,
	.xLock = do_lock,
	.xUnlock = do_unlock,
	.xCheckReservedLock = do_reserved,
	.xFileControl = do_control,
	.xSectorSize = do_sector,
	.xDeviceCharacteristics = do_traits,
	.xShmMap = do_shm_map,
	.xShmLock = do_shm_lock,
	.xShmBarrier = do_shm_barrier,
	.xShmUnmap = do_shm_unmap,
};

/* ---- the disk ---- */

static bool ends_with(const char *s, const char *end)
{
	size_t n = s ? strlen(s) : 0, end_n = strlen(end);

	return n >= end_n && streq(s + n - end_n, end);
}

static int do_open(struct sqlite3_vfs *vfs, const char *name, struct sqlite3_file *base, int flags,
                   int *ret_flags)
{
	struct layer *f = (struct layer *)base;
	int rc;

	(void)vfs;
	memset(f, 0, sizeof(*f));
	f->below = (struct sqlite3_file *)(f + 1);
	f->file = ends_with(name, "/ledger.db-wal") ? DISK_WAL
	          : ends_with(name, "/ledger.db")   ? DISK_DB
	                                            : -1;
	if (fails(DISK_OPEN))
		return SQLITE_CANTOPEN;
	rc = below_vfs->xOpen(below_vfs, name, f->below, flags, ret_flags);
	if (rc == SQLITE_OK)
		f->base.pMethods = &methods;
	return rc;
}

/* All others ask the disk below; it does not look at which one it is called by. */
static int last_error(struct sqlite3_vfs *vfs, int n, char *text)
{
	(void)vfs;
	if (disk_fault.failed)
		return no_room() ? ENOSPC : EIO;
	return below_vfs->xGetLastError(below_vfs, n, text);
}

int disk_register(void)
{
	static struct sqlite3_vfs vfs;

	below_vfs = sqlite3_vfs_find(NULL);
	if (!below_vfs)
		return -ENOENT;
	vfs = *below_vfs;
	vfs.zName = "disk";
	vfs.pNext = NULL;
	vfs.szOsFile = (int)sizeof(struct layer) + below_vfs->szOsFile;
	vfs.xOpen = do_open;
	vfs.xGetLastError = last_error;
	return sqlite3_vfs_register(&vfs, 1) == SQLITE_OK ? 0 : -EIO;
}
