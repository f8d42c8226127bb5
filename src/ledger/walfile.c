/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The WAL's file, for SQLite. It writes each page of a commit in two calls, a head of 24 bytes and
 * the page; here they gather, and the page that ends the commit takes them all to the kernel in
 * one.
 *
 * Nothing is held back but between wal_gather() and wal_gathered(), which stand around one COMMIT;
 * and only what is appended there. So no lock of SQLite's is ever released, and no other
 * process ever reads, while a frame that counts is not in the file.
 *
 * It also keeps note of a sync that failed: see wal_sync().
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "ledger/ledger_impl.h"

#define FRAME_HEAD   24
#define FRAME_PAGE   4096
#define FRAMES_MAX   31 /* SQLite writes less than 128 KiB at once */
#define GATHERED_MAX ((size_t)FRAMES_MAX * (FRAME_HEAD + FRAME_PAGE))

_Static_assert(GATHERED_MAX < 128 * KIB, "too much for one write of SQLite's");

struct wal_file {
	struct sqlite3_file base;
	struct sqlite3_file *real; /* behind this one, in the same memory */
	sqlite3_int64 end;         /* of what was written last; there the next frame is appended */
	bool gathers;
	bool commits; /* the head gathered last is that of a commit's last page */
	enum { SYNCED = 0, UNSYNCED, WRITTEN_AGAIN } state;
	int n;      /* gathered, in front of `end` */
	uint8_t *v; /* NULL: nothing was gathered so far */
};

static struct wal_file *of(struct sqlite3_file *file)
{
	return (struct wal_file *)file;
}

/* What cannot be written is gone, as it is without us: SQLite rolls back. */
static int put_gathered(struct wal_file *w)
{
	int n = w->n;

	w->n = 0;
	return n ? w->real->pMethods->xWrite(w->real, w->v, n, w->end - n) : SQLITE_OK;
}

static int wal_close(struct sqlite3_file *file)
{
	struct wal_file *w = of(file);

	free(w->v);
	w->v = NULL;
	return w->real->pMethods->xClose(w->real);
}

static int wal_read(struct sqlite3_file *file, void *to, int n, sqlite3_int64 at)
{
	int rc = put_gathered(of(file));

	return rc != SQLITE_OK ? rc : of(file)->real->pMethods->xRead(of(file)->real, to, n, at);
}

static bool is_appended(const struct wal_file *w, int n, sqlite3_int64 at)
{
	bool head = w->n % (FRAME_HEAD + FRAME_PAGE) == 0;

	return w->gathers && at == w->end && n == (head ? FRAME_HEAD : FRAME_PAGE);
}

static int gather(struct wal_file *w, const uint8_t *p, int n)
{
	memcpy(w->v + w->n, p, (size_t)n);
	w->n += n;
	w->end += n;
	if (n == FRAME_HEAD) { /* the size of the database is in the last one only */
		w->commits = (p[4] | p[5] | p[6] | p[7]) != 0;
		return SQLITE_OK;
	}
	return w->commits || (size_t)w->n == GATHERED_MAX ? put_gathered(w) : SQLITE_OK;
}

static int wal_write(struct sqlite3_file *file, const void *p, int n, sqlite3_int64 at)
{
	struct wal_file *w = of(file);
	int rc;

	if (is_appended(w, n, at)) {
		if (!w->v)
			w->v = malloc(GATHERED_MAX);
		if (w->v)
			return gather(w, p, n);
	}
	rc = put_gathered(w);
	w->end = at + n;
	return rc != SQLITE_OK ? rc : w->real->pMethods->xWrite(w->real, p, n, at);
}

static int wal_truncate(struct sqlite3_file *file, sqlite3_int64 size)
{
	int rc = put_gathered(of(file));

	return rc != SQLITE_OK ? rc : of(file)->real->pMethods->xTruncate(of(file)->real, size);
}

/*
 * The kernel tells once that it could not write, and takes the pages for clean from then on:
 * another sync would succeed without them, and what follows in the log would hang in the air after
 * a loss of power. So there is no other, until all of it was written again.
 */
static int wal_sync(struct sqlite3_file *file, int flags)
{
	struct wal_file *w = of(file);
	int rc = put_gathered(w);

	if (rc != SQLITE_OK || w->state == UNSYNCED)
		return rc != SQLITE_OK ? rc : SQLITE_IOERR_FSYNC;
	rc = w->real->pMethods->xSync(w->real, flags);
	w->state = rc == SQLITE_OK ? SYNCED : UNSYNCED;
	return rc;
}

static int wal_size(struct sqlite3_file *file, sqlite3_int64 *ret)
{
	int rc = put_gathered(of(file));

	return rc != SQLITE_OK ? rc : of(file)->real->pMethods->xFileSize(of(file)->real, ret);
}

static int wal_lock(struct sqlite3_file *file, int how)
{
	return of(file)->real->pMethods->xLock(of(file)->real, how);
}

static int wal_unlock(struct sqlite3_file *file, int how)
{
	return of(file)->real->pMethods->xUnlock(of(file)->real, how);
}

static int wal_is_reserved(struct sqlite3_file *file, int *ret)
{
	return of(file)->real->pMethods->xCheckReservedLock(of(file)->real, ret);
}

static int wal_control(struct sqlite3_file *file, int op, void *arg)
{
	return of(file)->real->pMethods->xFileControl(of(file)->real, op, arg);
}

static int wal_sector(struct sqlite3_file *file)
{
	return of(file)->real->pMethods->xSectorSize(of(file)->real);
}

static int wal_traits(struct sqlite3_file *file)
{
	return of(file)->real->pMethods->xDeviceCharacteristics(of(file)->real);
}

static const struct sqlite3_io_methods wal_methods = {
	.iVersion = 1, /* shared memory and maps are the database's own file's */
	.xClose = wal_close,
	.xRead = wal_read,
	.xWrite = wal_write,
	.xTruncate = wal_truncate,
	.xSync = wal_sync,
	.xFileSize = wal_size,
	.xLock = wal_lock,
	.xUnlock = wal_unlock,
	.xCheckReservedLock = wal_is_reserved,
	.xFileControl = wal_control,
	.xSectorSize = wal_sector,
	.xDeviceCharacteristics = wal_traits,
};

/* SQLite's own, which ours is a copy of but for these. */
static struct sqlite3_vfs *system_vfs(struct sqlite3_vfs *vfs)
{
	return vfs->pAppData;
}

static int vfs_open(struct sqlite3_vfs *vfs, const char *name, struct sqlite3_file *file, int flags,
                    int *ret_flags)
{
	struct sqlite3_vfs *sys = system_vfs(vfs);
	struct wal_file *w = of(file);
	int rc;

	if (!(flags & SQLITE_OPEN_WAL))
		return sys->xOpen(sys, name, file, flags, ret_flags);
	*w = (struct wal_file){ .real = (struct sqlite3_file *)(w + 1) };
	rc = sys->xOpen(sys, name, w->real, flags, ret_flags);
	w->base.pMethods =
		w->real->pMethods ? &wal_methods : NULL; /* NULL: it need not be closed */
	return rc;
}

static struct sqlite3_vfs ours;

static void make_vfs(void)
{
	struct sqlite3_vfs *sys = sqlite3_vfs_find(NULL);

	if (!sys)
		return;
	ours = *sys;
	ours.pNext = NULL;
	ours.zName = "brig";
	ours.pAppData = sys;
	ours.szOsFile = sys->szOsFile + (int)sizeof(struct wal_file);
	ours.xOpen = vfs_open;
	if (sqlite3_vfs_register(&ours, 0) != SQLITE_OK)
		ours.zName = NULL;
}

/* Worker threads open ledgers, too. */
const char *wal_vfs(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, make_vfs);
	return ours.zName;
}

static struct wal_file *wal_of(struct sqlite3 *db)
{
	struct sqlite3_file *file = NULL;

	if (sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file) != SQLITE_OK ||
	    !file || file->pMethods != &wal_methods)
		return NULL;
	return of(file);
}

static int write_again(struct sqlite3_file *real, sqlite3_int64 size)
{
	uint8_t page[FRAME_PAGE];
	int rc = SQLITE_OK;

	for (sqlite3_int64 at = 0; at < size && rc == SQLITE_OK; at += FRAME_PAGE) {
		int n = (int)MIN2(size - at, (sqlite3_int64)FRAME_PAGE);

		rc = real->pMethods->xRead(real, page, n, at);
		if (rc == SQLITE_OK)
			rc = real->pMethods->xWrite(real, page, n, at);
	}
	return rc;
}

/* Within a group: nobody else writes to the log. The kernel still has what it did not write. */
int wal_mend(struct sqlite3 *db)
{
	struct wal_file *w = wal_of(db);
	sqlite3_int64 size = 0;

	if (!w || w->state != UNSYNCED)
		return 0;
	if (w->real->pMethods->xFileSize(w->real, &size) != SQLITE_OK ||
	    write_again(w->real, size) != SQLITE_OK)
		return -EIO;
	w->state = WRITTEN_AGAIN;
	return 0;
}

void wal_gather(struct sqlite3 *db)
{
	struct wal_file *w = wal_of(db);

	if (w)
		w->gathers = true;
}

void wal_gathered(struct sqlite3 *db, bool committed)
{
	struct wal_file *w = wal_of(db);

	if (!w)
		return;
	/* Left over is what a failed commit had: it must not be written any more. */
	assert(!committed || w->n == 0);
	w->gathers = false;
	w->n = 0;
}
