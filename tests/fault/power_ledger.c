/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power is lost. A ledger is written for a while, on a disk that remembers each write and each
 * sync; then, for many moments and in several ways, the files are built as they may be found: what
 * was synced is there; of what was not, anything may be, down to single sectors. The ledger must
 * open, be sound, or miss its newest rows and say so; it must hold each row that was acknowledged
 * as durable; and it must go on.
 *
 * Not assumed: any order between writes that are not synced, in one file or among several. Assumed:
 * a sector of 512 bytes is old or new, never mixed, and a write changes no byte beside it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "disk.h"
#include "disk_dir.h"
#include "ledger/ledger_impl.h"

#define SEED     20240607u
#define ROUNDS   8  /* workloads */
#define GROUPS   30 /* of one */
#define CRASHES  40 /* moments of one; each in every way */
#define ROWS_MAX 1024
#define SECTOR   512
#define BODY_MAX 9000

#if !defined(__has_feature)
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SLOWER 4
#else
#define SLOWER 1
#endif

/* Of what was not synced is there: */
enum way {
	NONE = 0,
	ALL,
	PREFIX,  /* what was written first */
	SOME,    /* any of the writes */
	TORN,    /* any of the sectors */
	GARBLED, /* the same, and a new sector that was not written holds what it held before */
	WAYS,
};

static const char *const way_names[WAYS] = { "none", "all", "a prefix", "some", "torn", "garbled" };

static char dir[] = "/dev/shm/power-ledger-XXXXXX", after[sizeof(dir) + 6];
static struct buf base[2], key, first_head, last_head; /* as they were when it began */
static uint8_t hashes[ROWS_MAX][SHA256_SIZE];          /* of the rows that were committed */
static uint64_t last_seq, last_cut;
static uint64_t rng;
static char why[600];

/* ---- chance ---- */

static uint64_t next(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

static uint64_t below(uint64_t n)
{
	return (next() >> 11) % n;
}

static void must(bool ok, const char *what, const struct err *err)
{
	if (ok)
		return;
	printf("Bail out! %s: %s\n", what, err->msg);
	remove_dir(dir);
	remove_dir(after);
	exit(1);
}

/* ---- the workload ---- */

/* However the head is written: when it has changed since the last look, it was written. */
static void observe(void)
{
	CLEANUP_BUF struct buf now = { 0 };
	struct buf old;

	if (!load_file(dir, "ledger.head", &now) || now.len != HEAD_SIZE ||
	    memcmp(now.data, last_head.data, HEAD_SIZE) == 0)
		return;
	disk_add(DISK_WROTE, DISK_HEAD, 0, now.data, now.len);
	old = last_head;
	last_head = now;
	now = old;
}

static int note_row(void *data, const struct ledger_row *row)
{
	(void)data;
	if (row->seq >= ROWS_MAX)
		return 1;
	memcpy(hashes[row->seq], row->hash, SHA256_SIZE);
	last_seq = row->seq;
	return 0;
}

/* Notes: which row is durable, in the high half the last that was pruned. */
static void acknowledge(struct ledger *l, bool durable)
{
	const struct ledger_filter f = { .after_seq = last_seq };
	struct err err = { 0 };

	observe();
	must(ledger_each(l, &f, note_row, NULL, &err) == 0 && last_seq < ROWS_MAX - 8, "read",
	     &err);
	if (durable)
		disk_add(DISK_NOTE, DISK_DB, last_cut << 32 | last_seq, NULL, 0);
}

static void add_rows(struct ledger *l)
{
	static uint8_t text[BODY_MAX];
	uint8_t digest[SHA256_SIZE];
	struct err err = { 0 };
	uint64_t rows = 1 + below(4);

	for (uint64_t i = 0; i < rows; i++) {
		size_t n = below(3) ? below(200) : below(BODY_MAX);

		for (size_t k = 0; k < n; k++)
			text[k] = (uint8_t)next();
		if (below(2))
			must(ledger_body(l, text, n, digest, &err) == 0, "body", &err);
		must(ledger_append(l, &(struct ledger_event){ .job = "j", .kind = "state" },
		                   &err) == 0,
		     "append", &err);
	}
}

/* What was not acknowledged is no less a part of the chain. */
static void add_group(struct ledger *l)
{
	enum ledger_durability how = below(3) ? LEDGER_PROCESS : LEDGER_DISK;
	struct err err = { 0 };
	int r;

	add_rows(l);
	r = ledger_commit(l, how, &err);
	must(r == 0 || disk_fault.failed, "commit", &err);
	acknowledge(l, r == 0 && how == LEDGER_DISK);
}

static int time_of_row(void *data, const struct ledger_row *row)
{
	*(uint64_t *)data = row->time_us;
	return 0;
}

static void prune(struct ledger *l)
{
	struct ledger_filter f = { .after_seq = last_cut + below(last_seq - last_cut + 1) / 2,
		                   .limit = 1 };
	uint64_t before_us = 0, rows = 0;
	struct err err = { 0 };

	must(ledger_each(l, &f, time_of_row, &before_us, &err) == 0, "read", &err);
	must(ledger_prune(l, before_us, "test", &rows, &err) == 0, "prune", &err);
	last_cut += rows;
	acknowledge(l, true);
}

static struct ledger *open_one(const char *where)
{
	struct ledger *l = NULL;
	struct err err = { 0 };

	must(ledger_open(where, &l, &err) == 0, "open", &err);
	return l;
}

/* A log that is short is restarted often; a small cache spills into it before the commit. */
static struct ledger *open_writer(void)
{
	struct ledger *l = open_one(dir);

	(void)sqlite3_wal_autocheckpoint(ledger_db(l), (int)(2 + below(40)));
	if (below(3) == 0)
		(void)sqlite3_exec(ledger_db(l), "PRAGMA cache_size=2", NULL, NULL, NULL);
	return l;
}

static void turn(struct ledger **l, struct ledger *other)
{
	uint64_t what = below(20);

	if (what == 0) {
		ledger_close(*l);
		*l = open_writer();
	} else if (what == 1 && !disk_fault.nth) {
		(void)sqlite3_exec(ledger_db(other), "ROLLBACK", NULL, NULL, NULL);
		prune(*l);
	} else if (what < 4) { /* who reads keeps the log from being restarted */
		(void)sqlite3_exec(ledger_db(other), "BEGIN;SELECT max(seq) FROM event", NULL, NULL,
		                   NULL);
	} else if (what < 7) { /* and writes, now and then */
		(void)sqlite3_exec(ledger_db(other), "ROLLBACK", NULL, NULL, NULL);
		add_group(what < 6 ? *l : other);
	} else {
		add_group(*l);
	}
}

static void begin(void)
{
	remove_dir(dir);
	must(mkdir(dir, 0700) == 0, "a directory", &(struct err){ 0 });
	ledger_close(open_one(dir));
	for (int i = 0; i < 2; i++)
		buf_done(&base[i]);
	buf_done(&key);
	buf_done(&first_head);
	buf_done(&last_head);
	(void)load_file(dir, "ledger.db", &base[DISK_DB]);
	base[DISK_WAL] = BUF_INIT(IMAGE_MAX);
	(void)load_file(dir, "ledger.key", &key);
	(void)load_file(dir, "ledger.head", &first_head);
	(void)load_file(dir, "ledger.head", &last_head);
	last_seq = last_cut = 0;
	disk_log_clear();
}

static void work(const struct disk_fault *fault)
{
	struct ledger *l, *other;

	begin();
	disk_fault = *fault;
	disk_log.on = true;
	disk_log.observe = observe;
	l = open_writer();
	other = open_one(dir);
	for (int i = 0; i < GROUPS; i++)
		turn(&l, other);
	disk_log.on = false;
	ledger_close(other);
	ledger_close(l);
	disk_fault = (struct disk_fault){ 0 };
}

/* ---- what the disk holds ---- */

/* A sync that failed says that nobody knows, and what it was about is not synced again later. */
static bool is_synced(size_t i, size_t end)
{
	for (size_t k = i + 1; k < end; k++)
		if (disk_log.v[k].file == disk_log.v[i].file) {
			if (disk_log.v[k].kind == DISK_SYNCED)
				return true;
			if (disk_log.v[k].kind == DISK_SYNC_FAILED)
				return false;
		}
	return false;
}

struct image {
	uint8_t *p;
	size_t n;
};

static void put_at(struct image *im, size_t at, const uint8_t *p, size_t n, bool garbled)
{
	if (at + n > IMAGE_MAX)
		abort();
	for (; im->n < at + n; im->n++)
		im->p[im->n] = garbled ? (uint8_t)next() : 0;
	if (p)
		memcpy(im->p + at, p, n);
}

/* Each sector for itself; those that are left out make the file longer all the same, or not. */
static void put_torn(struct image *im, const struct disk_event *e, bool garbled)
{
	for (size_t at = 0; at < e->n;) {
		size_t n = MIN2(SECTOR - (e->at + at) % SECTOR, e->n - at);

		if (below(2))
			put_at(im, e->at + at, e->data + at, n, garbled);
		else if (garbled && e->at + at + n > im->n)
			put_at(im, e->at + at, NULL, n, garbled);
		at += n;
	}
}

static void put_event(struct image *im, const struct disk_event *e, enum way way)
{
	bool whole = way == ALL || way == PREFIX || (way == SOME && below(2));

	if (e->kind == DISK_CUT && (whole || (way > SOME && below(2))))
		im->n = MIN2(im->n, e->at);
	else if (e->kind == DISK_WROTE && whole)
		put_at(im, e->at, e->data, e->n, false);
	else if (e->kind == DISK_WROTE && way > SOME)
		put_torn(im, e, way == GARBLED);
}

static size_t build_file(enum disk_file file, size_t end, enum way way, struct image *im)
{
	size_t prefix = way == PREFIX ? below(end + 1) : end;

	memcpy(im->p, base[file].len ? base[file].data : "", base[file].len);
	im->n = base[file].len;
	for (size_t i = 0; i < end; i++) {
		const struct disk_event *e = &disk_log.v[i];

		if (e->file != file || e->kind > DISK_CUT)
			continue;
		if (is_synced(i, end))
			put_event(im, e, ALL);
		else
			put_event(im, e, i < prefix ? way : NONE);
	}
	return im->n;
}

/* It is never synced after it was made: any that was written may be there. */
static const void *choose_head(size_t end, enum way way)
{
	const void *head = first_head.data;

	for (size_t i = 0; i < end; i++)
		if (disk_log.v[i].file == DISK_HEAD && (way == ALL || (way != NONE && below(8))))
			head = disk_log.v[i].data;
	return head;
}

static void build(size_t end, enum way way)
{
	static uint8_t bytes[IMAGE_MAX];
	struct image im = { bytes, 0 };
	CLEANUP_BUF struct buf shm = { 0 };
	bool ok;

	remove_dir(after);
	ok = mkdir(after, 0700) == 0 && store_file(after, "ledger.key", key.data, key.len) &&
	     store_file(after, "ledger.head", choose_head(end, way), HEAD_SIZE);
	(void)build_file(DISK_DB, end, way, &im);
	ok = ok && store_file(after, "ledger.db", im.p, im.n);
	if (build_file(DISK_WAL, end, way, &im) || below(2))
		ok = ok && store_file(after, "ledger.db-wal", im.p, im.n);
	/* shared memory was a file, too */
	if (below(2) && load_file(dir, "ledger.db-shm", &shm))
		ok = ok && store_file(after, "ledger.db-shm", shm.data, shm.len);
	must(ok, "build the files", &(struct err){ 0 });
}

/* ---- what must hold ---- */

static uint64_t durable_at(size_t end)
{
	uint64_t note = 0;

	for (size_t i = 0; i < end; i++)
		if (disk_log.v[i].kind == DISK_NOTE)
			note = disk_log.v[i].at;
	return note;
}

struct walk {
	uint64_t seq;
	bool same;
};

static int check_row(void *data, const struct ledger_row *row)
{
	struct walk *w = data;

	w->same = w->same && row->seq == w->seq + 1 && row->seq <= last_seq &&
	          memcmp(row->hash, hashes[row->seq], SHA256_SIZE) == 0;
	w->seq = row->seq;
	return 0;
}

static bool wrong(const char *what, uint64_t a, uint64_t b, const char *text)
{
	(void)snprintf(why, sizeof(why), "%s (%llu, %llu): %s", what, (unsigned long long)a,
	               (unsigned long long)b, text);
	return false;
}

static bool has_all(struct ledger *l, const struct ledger_report *report, uint64_t note)
{
	uint64_t durable = note & UINT32_MAX, cut = note >> 32;
	struct walk w = { .seq = report->pruned, .same = true };
	struct err err = { 0 };

	if (ledger_each(l, &(struct ledger_filter){ 0 }, check_row, &w, &err) < 0)
		return wrong("not readable", 0, 0, err.msg);
	if (!w.same)
		return wrong("other rows than were written", w.seq, last_seq, "");
	if (w.seq < durable)
		return wrong("durable rows are gone", w.seq, durable, report->why);
	if (report->pruned < cut)
		return wrong("pruned rows are back", report->pruned, cut, "");
	return true;
}

static int count_loss(void *data, const struct ledger_row *row)
{
	(void)row;
	++*(unsigned *)data;
	return 0;
}

/* A loss is told by one row, and by no second one in the group after. */
static bool goes_on(struct ledger *l, bool was_sound)
{
	const struct ledger_event e = { .kind = "state", .name = "afterwards" };
	const struct ledger_filter told = { .kind = "ledger", .name = "tail_lost" };
	struct ledger_report report = { 0 };
	struct err err = { 0 };
	unsigned losses = 0;

	for (int i = 0; i < 2; i++)
		if (ledger_append(l, &e, &err) < 0 || ledger_commit(l, LEDGER_DISK, &err) < 0)
			return wrong("does not go on", 0, 0, err.msg);
	if (ledger_verify(l, &report, &err) < 0 ||
	    ledger_each(l, &told, count_loss, &losses, &err) < 0)
		return wrong("cannot be read", 0, 0, err.msg);
	if (report.ok == was_sound && losses == (was_sound ? 0 : 1) &&
	    (report.ok || strstr(report.why, "lost or cut off")))
		return true;
	return wrong("is otherwise afterwards", losses, was_sound, report.why);
}

static bool check_ledger(struct ledger *l, uint64_t note)
{
	struct ledger_report report = { 0 };
	struct err err = { 0 };

	if (ledger_verify(l, &report, &err) < 0)
		return wrong("cannot be verified", 0, 0, err.msg);
	if (!report.ok && !strstr(report.why, "the newest rows are gone"))
		return wrong("unsound", report.bad_seq, report.rows, report.why);
	return has_all(l, &report, note) && goes_on(l, report.ok);
}

static bool lose_power(size_t end, enum way way)
{
	struct ledger *l = NULL;
	struct err err = { 0 };
	bool ok;

	build(end, way);
	if (ledger_open(after, &l, &err) < 0)
		return wrong("does not open", 0, 0, err.msg);
	ok = check_ledger(l, durable_at(end));
	ledger_close(l);
	return ok;
}

/* ---- all of it ---- */

static bool run_round(uint64_t seed, unsigned *tried)
{
	for (size_t i = 0; i < CRASHES / SLOWER; i++) {
		size_t end = 1 + below(disk_log.n);

		for (int way = 0; way < WAYS; way++) {
			++*tried;
			if (lose_power(end, (enum way)way))
				continue;
			printf("# seed %llu, after %zu of %zu events, %s: %s\n",
			       (unsigned long long)seed, end, disk_log.n, way_names[way], why);
			return false;
		}
	}
	return true;
}

static bool try_rounds(const char *name, bool faulty)
{
	unsigned tried = 0;
	bool ok = true;

	for (unsigned round = 0; ok && round < ROUNDS; round++) {
		struct disk_fault fault = { .op = DISK_SYNC };
		uint64_t seed = SEED + round;

		rng = seed * 0x9e3779b97f4a7c15u | 1;
		fault.nth = faulty ? 1 + (unsigned)below(20) : 0;
		work(&fault);
		ok = run_round(seed, &tried);
	}
	printf("# %s: %u losses, seeds %u to %u\n", name, tried, SEED, SEED + ROUNDS - 1);
	return ok;
}

int main(void)
{
	bool ok, after_failed_sync;

	must(mkdtemp(dir) && disk_register() == 0, "begin", &(struct err){ 0 });
	(void)snprintf(after, sizeof(after), "%s-after", dir);
	printf("1..2\n");
	ok = try_rounds("power is lost", false);
	printf("%sok 1 - power is lost\n", ok ? "" : "not ");
	after_failed_sync = try_rounds("power is lost after a sync that failed", true);
	printf("%sok 2 - power is lost after a sync that failed\n",
	       after_failed_sync ? "" : "not ");
	disk_log_clear();
	for (int i = 0; i < 2; i++)
		buf_done(&base[i]);
	buf_done(&key);
	buf_done(&first_head);
	buf_done(&last_head);
	remove_dir(dir);
	remove_dir(after);
	return ok ? 0 : 1;
}
