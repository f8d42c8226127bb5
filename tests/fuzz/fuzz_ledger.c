/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger, by the first byte (enum mode): calls in any order (ledger_model.h); or the files of
 * one that somebody changed, who has all of them but the key, byte by byte or by SQL. What was
 * changed may be refused or found unsound; when it is called sound, no row, no body and no answer
 * to a question is another. So a change that is not seen lies where nothing is kept: room that
 * pages do not use, free pages, numbers in SQLite's heads that it does not need, bodies that no row
 * names and tables of other modules.
 */
#include "fuzz.h"

#include "ledger_model.h"

#define EDITS_MAX 24
#define PAGE      4096
#define STEPS_MAX 20000 /* thousands of SQLite's, of one statement */
#define LONG_BODY (66 * KIB)

enum mode {
	MODE_CALLS = 0,
	MODE_EDIT,     /* a ledger with rows in the database and in the log */
	MODE_EDIT_OLD, /* one that was pruned and has a long body; its log is empty */
	MODE_DB,       /* the rest is the database */
	MODE_WAL,      /* the rest is the log */
	MODES,
};

/* A ledger as it was left, and all that it answers. */
struct base {
	struct buf part[PARTS];
	uint8_t answers[SHA256_SIZE];
	uint8_t sum[32][SHA256_SIZE]; /* of rows, by number */
	uint64_t last_seq;
};

static struct base empty, rows, old;
static bool same;

/* ---- answers ---- */

static void sum_row(const struct ledger_row *row, uint8_t ret[SHA256_SIZE])
{
	CLEANUP_BUF struct buf b = BUF_INIT(LINE_MAX_);

	ledger_row_to_json(row, &b);
	sha256(b.data, b.len, ret);
}

static int put_row(void *data, const struct ledger_row *row)
{
	uint8_t sum[SHA256_SIZE];
	struct sha256 *h = data;

	check_export(row);
	sum_row(row, sum);
	sha256_put(h, sum, sizeof(sum));
	for (size_t i = 0; i < row->n_bodies; i++) {
		CLEANUP_BUF struct buf b = BUF_INIT(LEDGER_BODY_MAX);
		uint64_t size = 0;

		if (ledger_get_body(led, row->bodies + i * SHA256_SIZE, &b, &size, &said) < 0)
			return 1;
		sha256_put_u64(h, size);
		sha256_put_field(h, b.data, b.len);
	}
	return 0;
}

/* By number, by both indices, backwards, and as a graph. */
static int ask_all(uint8_t ret[SHA256_SIZE])
{
	static const struct ledger_filter filters[] = {
		{ .limit = 0 },
		{ .job = "j1" },
		{ .job = "j2", .newest_first = true },
		{ .session = "s1" },
		{ .session = "s2" },
		{ .kind = "state", .limit = 3 },
		{ .name = "created" },
		{ .after_seq = 9, .job = "j1", .session = "s1" },
	};
	CLEANUP_BUF struct buf b = BUF_INIT(1 * MIB);
	struct sha256 h;
	int r = 0, graph;

	sha256_init(&h);
	for (size_t i = 0; i < ELEMENTSOF(filters); i++)
		if (told(ledger_each(led, &filters[i], put_row, &h, &said)) < 0)
			r = -1;
	graph = told(ledger_graph(led, "s1", LEDGER_GRAPH_JSON, &b, &said));
	if (graph < 0 && graph != -ENOENT)
		r = -1;
	sha256_put_field(&h, b.data, b.len);
	sha256_finish(&h, ret);
	return r;
}

/* ---- the ledgers ---- */

static void add_rows(unsigned n)
{
	static uint8_t text[LONG_BODY];
	uint8_t digest[SHA256_SIZE];

	for (unsigned i = 0; i < n; i++) {
		char detail[64];
		struct ledger_event e = { i % 2 ? "j1" : "j2",
			                  i % 3 ? "s1" : "s2",
			                  i % 4 ? "state" : "file",
			                  "created",
			                  "fuzz",
			                  { detail, 0 } };

		e.detail.n =
			(size_t)snprintf(detail, sizeof(detail),
		                         "{\"path\":\"f%u\",\"size\":%u,\"sha256\":null}", i, i);
		memset(text, (int)i, sizeof(text));
		if (i % 5 == 0)
			MUST(ledger_body(led, text, i == 10 ? sizeof(text) : (size_t)10 * i, digest,
			                 &said) == 0);
		MUST(ledger_append(led, &e, &said) == 0);
		if (i % 4 == 3)
			MUST(ledger_commit(led, LEDGER_PROCESS, &said) == 0);
	}
	MUST(ledger_commit(led, LEDGER_PROCESS, &said) == 0);
}

static int note_hash(void *data, const struct ledger_row *row)
{
	struct base *b = data;

	sum_row(row, b->sum[row->seq % ELEMENTSOF(b->sum)]);
	b->last_seq = row->seq;
	return 0;
}

static void keep(struct base *b)
{
	MUST(ask_all(b->answers) == 0);
	MUST(ledger_each(led, &(struct ledger_filter){ 0 }, note_hash, b, &said) == 0);
	close_it();
	for (int i = 0; i < PARTS; i++)
		load_part((enum part)i, &b->part[i]);
}

static void checkpoint(void)
{
	MUST(sqlite3_wal_checkpoint_v2(ledger_db(led), NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL,
	                               NULL) == SQLITE_OK);
}

static int nth_time(void *data, const struct ledger_row *row)
{
	*(uint64_t *)data = row->time_us;
	return 0;
}

/* A key that is always the same, so that inputs mean the same in every run. */
static void begin(void)
{
	static const uint8_t key[32] = "a key that is always the same..";

	new_dir();
	store_part(PART_KEY, key, sizeof(key));
	MUST(open_it() == 0);
}

static void forget(void)
{
	for (int i = 0; i < PARTS; i++) {
		buf_done(&empty.part[i]);
		buf_done(&rows.part[i]);
		buf_done(&old.part[i]);
	}
	remove_files();
}

static void make_all(void)
{
	uint64_t before_us = 0, pruned = 0;

	(void)snprintf(dir, sizeof(dir), "/dev/shm/fuzz-ledger-%d", (int)getpid());
	(void)atexit(forget);
	begin();
	keep(&empty);
	begin();
	add_rows(8);
	checkpoint();
	add_rows(8);
	keep(&rows);
	begin();
	add_rows(16);
	MUST(ledger_each(led, &(struct ledger_filter){ .limit = 5 }, nth_time, &before_us, &said) ==
	     0);
	MUST(ledger_prune(led, before_us, "fuzz", &pruned, &said) == 0);
	checkpoint();
	keep(&old);
}

static void put_back(const struct base *b)
{
	new_dir();
	for (int i = 0; i < PARTS; i++)
		if (b->part[i].len)
			store_part((enum part)i, b->part[i].data, b->part[i].len);
}

/* ---- changes ---- */

static struct buf changed[PARTS];

static void change_bytes(struct input *in, bool flip)
{
	struct buf *b = &changed[take(in) % PART_KEY]; /* not the key */
	size_t at = take_size(in, 3);
	char text[256];
	size_t n = flip ? 1 : take_text(in, text);

	if (!b->len)
		return;
	at %= b->len;
	if (flip)
		b->data[at] = (char)(b->data[at] ^ take(in));
	else
		memcpy(b->data + at, text, MIN2(n, b->len - at));
}

static void change_length(struct input *in)
{
	struct buf *b = &changed[take(in) % PART_KEY];

	if (b->len)
		b->len = take_size(in, 3) % b->len;
}

static void change_page(struct input *in)
{
	struct buf *b = &changed[PART_DB];
	size_t from = take(in) * (size_t)PAGE, to = take(in) * (size_t)PAGE;

	if (from + PAGE <= b->len && to + PAGE <= b->len)
		memmove(b->data + to, b->data + from, PAGE);
}

/* Nothing outside of the ledger is in reach. */
static int allow(void *data, int what, const char *a, const char *b, const char *c, const char *d)
{
	(void)data;
	(void)b;
	(void)c;
	(void)d;
	if (what == SQLITE_PRAGMA && a && (strstr(a, "directory") || strstr(a, "heap")))
		return SQLITE_DENY;
	return what == SQLITE_ATTACH ? SQLITE_DENY : SQLITE_OK;
}

static int too_long(void *data)
{
	return ++*(int *)data > STEPS_MAX / 1000;
}

static void change_by_sql(struct input *in)
{
	struct sqlite3 *db = NULL;
	char path[128], sql[256];
	int steps = 0;

	for (int i = 0; i < PARTS; i++)
		store_part((enum part)i, changed[i].data, changed[i].len);
	(void)take_text(in, sql);
	(void)snprintf(path, sizeof(path), "%s/ledger.db", dir);
	if (sqlite3_open(path, &db) == SQLITE_OK) {
		(void)sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 100000);
		(void)sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
		(void)sqlite3_set_authorizer(db, allow, NULL);
		(void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
		sqlite3_progress_handler(db, 1000, too_long, &steps);
		(void)sqlite3_exec(db, "PRAGMA writable_schema=ON", NULL, NULL, NULL);
		(void)sqlite3_exec(db, sql, NULL, NULL, NULL);
	}
	(void)sqlite3_close(db);
	for (int i = 0; i < PARTS; i++) {
		buf_done(&changed[i]);
		load_part((enum part)i, &changed[i]);
	}
}

static void change(struct input *in)
{
	switch (take(in) % 5) {
	case 0:
		change_bytes(in, true);
		break;
	case 1:
		change_bytes(in, false);
		break;
	case 2:
		change_length(in);
		break;
	case 3:
		change_page(in);
		break;
	default:
		change_by_sql(in);
		break;
	}
}

/* ---- what must hold ---- */

static bool is_sound(void)
{
	struct ledger_report report = { 0 };

	return told(ledger_verify(led, &report, &said)) == 0 && report.ok;
}

static int compare_row_of(void *data, const struct ledger_row *row)
{
	const struct base *b = data;
	uint8_t sum[SHA256_SIZE];

	if (row->seq > b->last_seq)
		return 0;
	sum_row(row, sum);
	same = same && memcmp(b->sum[row->seq % ELEMENTSOF(b->sum)], sum, SHA256_SIZE) == 0;
	return 0;
}

/* Is each row that is there as it was? */
static bool rows_are_same(struct base *b)
{
	same = true;
	return told(ledger_each(led, &(struct ledger_filter){ 0 }, compare_row_of, b, &said)) ==
	               0 &&
	       same;
}

/* Damage is not written over, nor pruned away; lost rows are told by one that can be pruned. */
static void go_on(struct base *b)
{
	const struct ledger_event e = { .job = "j1", .kind = "state" };
	bool were_same = rows_are_same(b);
	uint64_t pruned = 0;

	if (told(ledger_append(led, &e, &said)) == 0)
		(void)told(ledger_commit(led, LEDGER_PROCESS, &said));
	if (is_sound())
		MUST(rows_are_same(b));
	if (told(ledger_prune(led, UINT64_MAX, "fuzz", &pruned, &said)) == 0 && is_sound())
		MUST(were_same);
}

/* Reading comes twice: what is damaged must not only be survived once. */
static void look(struct base *b)
{
	uint8_t answers[SHA256_SIZE];
	bool sound;
	int r;

	if (open_it() < 0)
		return;
	(void)ask_all(answers);
	sound = is_sound();
	r = ask_all(answers);
	said = (struct err){ .msg = "called sound" };
	MUST(!sound || (r == 0 && memcmp(answers, b->answers, SHA256_SIZE) == 0));
	go_on(b);
	close_it();
}

static void run_edits(struct base *b, struct input in)
{
	for (int i = 0; i < PARTS; i++) {
		changed[i] = BUF_INIT(IMAGE_MAX);
		buf_put(&changed[i], b->part[i].data, b->part[i].len);
	}
	for (int i = 0; in.n && i < EDITS_MAX; i++)
		change(&in);
	new_dir();
	for (int i = 0; i < PARTS; i++) {
		/* cut to nothing, but not removed: without all of its files it is a new one */
		if (changed[i].len || i != PART_WAL)
			store_part((enum part)i, changed[i].data, changed[i].len);
		buf_done(&changed[i]);
	}
	look(b);
}

static void run_file(enum part part, struct input in)
{
	put_back(&rows);
	store_part(part, in.p, in.n);
	look(&rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data + 1, size - 1 };

	if (size < 1 || size > 64 * KIB)
		return 0;
	if (!*dir)
		make_all();
	switch (data[0] % MODES) {
	case MODE_CALLS:
		put_back(&empty);
		run_calls(in);
		break;
	case MODE_EDIT:
		run_edits(&rows, in);
		break;
	case MODE_EDIT_OLD:
		run_edits(&old, in);
		break;
	case MODE_DB:
		run_file(PART_DB, in);
		break;
	default:
		run_file(PART_WAL, in);
		break;
	}
	return 0;
}
