/* SPDX-License-Identifier: Apache-2.0 */
/* The record: what was committed is there, whoever dies, and old rows go only with a stub. */
#include "base/clock.h"
#include "ledger_case.h"

TestSuite(ledger, .init = setup, .fini = teardown, .timeout = 60);

/* ---- writing and reading ---- */

Test(ledger, new_one_is_sound_and_empty)
{
	assert_sound(0);
	cr_assert(count_all() == 0);
}

Test(ledger, committed_rows_are_there_after_reopening)
{
	fill(10);
	again();
	cr_assert(count_all() == 10);
	assert_sound(10);
}

Test(ledger, aborted_group_leaves_nothing)
{
	uint8_t digest[SHA256_SIZE];
	CLEANUP_BUF struct buf b = BUF_INIT(100);
	uint64_t size;

	fill(4);
	cr_assert(ledger_body(led, "gone", 4, digest, &err) == 0);
	cr_assert(add("job", "x", "{}") == 0 && ledger_in_group(led));
	ledger_abort(led);
	cr_assert(!ledger_in_group(led));
	cr_assert(ledger_get_body(led, digest, &b, &size, &err) == -ENOENT);
	fill(4);
	assert_sound(8);
}

Test(ledger, group_that_was_rolled_back_takes_no_more_rows)
{
	cr_assert(add("job", "x", "{}") == 0);
	cr_assert(sqlite3_exec(ledger_db(led), "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK);
	cr_assert(add("job", "x", "{}") == -EIO && !ledger_in_group(led));
	cr_assert(ledger_begin(led, &err) == 0);
	cr_assert(sqlite3_exec(ledger_db(led), "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK);
	cr_assert(ledger_commit(led, LEDGER_PROCESS, &err) == -EIO);
	fill(3);
	assert_sound(3);
}

Test(ledger, closing_within_a_group_drops_it)
{
	cr_assert(add("job", "x", "{}") == 0);
	again();
	assert_sound(0);
}

Test(ledger, control_or_broken_byte_is_found_wherever_it_stands)
{
	static const char bad[] = { 0x01, 0x1f, (char)0x80, (char)0xff };
	char detail[40];

	for (size_t i = 2; i < 30; i++) {
		for (size_t k = 0; k < ELEMENTSOF(bad); k++) {
			(void)snprintf(detail, sizeof(detail), "{\"%028u\":0}", 0u);
			detail[i] = bad[k];
			cr_assert(add("j", "x", detail) == -EINVAL, "%zu: %zu", i, k);
		}
		detail[i] = 0x7f;
		cr_assert(add("j", "x", detail) == 0, "%zu", i);
	}
}

static int check_row(void *data, const struct ledger_row *row)
{
	(void)data;
	cr_assert(row->seq == 1 && row->time_us > 1600000000000000);
	cr_assert_str_eq(row->job, "j1");
	cr_assert_str_eq(row->session, "");
	cr_assert_str_eq(row->kind, "approval");
	cr_assert_str_eq(row->name, "approval.allowed");
	cr_assert_str_eq(row->actor, "cli:root");
	cr_assert_str_eq(row->detail.p, "{\"why\":\"\303\244\"}");
	cr_assert(row->detail.n == strlen(row->detail.p) && row->n_bodies == 0);
	return 0;
}

Test(ledger, row_has_what_was_appended)
{
	const struct ledger_event e = { .job = "j1",
		                        .kind = "approval",
		                        .name = "approval.allowed",
		                        .actor = "cli:root",
		                        .detail = STR("{\"why\":\"\303\244\"}") };

	cr_assert(ledger_append(led, &e, &err) == 0);
	commit();
	cr_assert(ledger_each(led, &(struct ledger_filter){ 0 }, check_row, NULL, &err) == 0);
	cr_assert(count_all() == 1);
}

Test(ledger, filters)
{
	static const struct {
		struct ledger_filter f;
		unsigned n;
	} cases[] = {
		{ { .job = "a" }, 3 },
		{ { .job = "b" }, 2 },
		{ { .job = "" }, 0 },
		{ { .session = "s" }, 5 },
		{ { .session = "t" }, 0 },
		{ { .kind = "state" }, 5 },
		{ { .kind = "file" }, 0 },
		{ { .name = "two" }, 2 },
		{ { .job = "a", .name = "two" }, 1 },
		{ { .after_seq = 3 }, 2 },
		{ { .limit = 2 }, 2 },
		{ { .after_seq = 5 }, 0 },
		{ { .limit = 9, .newest_first = true }, 5 },
		{ { .after_seq = UINT64_MAX }, 0 },
	};

	cr_assert(add("a", "one", "{}") == 0 && add("a", "two", "{}") == 0);
	cr_assert(add("b", "one", "{}") == 0 && add("b", "two", "{}") == 0);
	cr_assert(add("a", "three", "{}") == 0);
	commit();
	for (size_t i = 0; i < ELEMENTSOF(cases); i++)
		cr_assert(count(&cases[i].f) == cases[i].n, "case %zu: %u", i, count(&cases[i].f));
}

static int first_seq(void *data, const struct ledger_row *row)
{
	*(uint64_t *)data = row->seq;
	return 1;
}

Test(ledger, newest_first_begins_at_the_end)
{
	uint64_t seq = 0;

	fill(9);
	cr_assert(ledger_each(led, &(struct ledger_filter){ .newest_first = true }, first_seq, &seq,
	                      &err) == 0);
	cr_assert(seq == 9);
}

Test(ledger, words_and_details_that_are_refused)
{
	static char longest[LEDGER_DETAIL_MAX + 1], word[LEDGER_WORD_MAX + 2];
	static const char *const details[] = { "",
		                               "{",
		                               "[]",
		                               "x{}",
		                               "{}\n",
		                               "{\"a\":\"\x01\"}",
		                               "{\"a\":\"\xff\"}",
		                               "{\"a\":\"\xc0\x80\"}",
		                               "{\"a\":\"\xed\xa0\x80\"}",
		                               "{\"a\":\"\xf5\x80\x80\x80\"}",
		                               "{\"a\":\"\xe2\x82\"}" };

	for (size_t i = 0; i < ELEMENTSOF(details); i++) {
		cr_assert(add("j", "x", details[i]) == -EINVAL, "case %zu", i);
		cr_assert(err.code == ERR_INVALID && !ledger_in_group(led));
	}
	memset(word, 'w', sizeof(word) - 1);
	cr_assert(add(word, "x", "{}") == -EINVAL);
	cr_assert(add("a\nb", "x", "{}") == -EINVAL);
	word[LEDGER_WORD_MAX] = 0;
	cr_assert(add(word, "x", "{}") == 0);
	memset(longest, ' ', sizeof(longest));
	longest[0] = '{';
	longest[LEDGER_DETAIL_MAX] = '}';
	cr_assert(ledger_append(led,
	                        &(struct ledger_event){ .kind = "k",
	                                                .detail = { longest, sizeof(longest) } },
	                        &err) == -EFBIG);
	longest[LEDGER_DETAIL_MAX - 1] = '}';
	cr_assert(ledger_append(led,
	                        &(struct ledger_event){ .kind = "k",
	                                                .detail = { longest, LEDGER_DETAIL_MAX } },
	                        &err) == 0);
	commit();
	assert_sound(1);
}

/* ---- bodies ---- */

static void assert_body(size_t n, size_t kept)
{
	CLEANUP_BUF struct buf b = BUF_INIT(LEDGER_BODY_MAX);
	CLEANUP_FREE char *text = malloc(n + 1);
	uint8_t digest[SHA256_SIZE], right[SHA256_SIZE];
	uint64_t size = 0;

	for (size_t i = 0; i < n; i++)
		text[i] = (char)(i * 31 + n);
	cr_assert(ledger_body(led, text, n, digest, &err) == 0, "%s", err.msg);
	commit();
	sha256(text, n, right);
	cr_assert(memcmp(digest, right, sizeof(digest)) == 0);
	cr_assert(ledger_get_body(led, digest, &b, &size, &err) == 0, "%s", err.msg);
	cr_assert(size == n && b.len == kept, "%zu", b.len);
	cr_assert(kept == 0 || memcmp(b.data, text, kept) == 0);
}

Test(ledger, bodies_of_many_sizes)
{
	static const size_t sizes[] = {
		0, 1, 63, 4096, LEDGER_BODY_MAX - 1, LEDGER_BODY_MAX, LEDGER_BODY_MAX + 1, 300000
	};

	for (size_t i = 0; i < ELEMENTSOF(sizes); i++)
		assert_body(sizes[i], MIN2(sizes[i], LEDGER_BODY_MAX));
	assert_sound(ELEMENTSOF(sizes)); /* a row names each */
}

Test(ledger, same_body_is_kept_once)
{
	uint8_t digest[SHA256_SIZE];

	for (unsigned i = 0; i < 3; i++) {
		cr_assert(ledger_body(led, "same", 4, digest, &err) == 0);
		cr_assert(add("j", "x", "{}") == 0);
	}
	commit();
	cr_assert(verify().bodies == 1);
	assert_sound(3);
}

static int count_bodies(void *data, const struct ledger_row *row)
{
	*(size_t *)data += row->n_bodies;
	return 0;
}

Test(ledger, many_bodies_in_one_group_are_all_named)
{
	uint8_t digest[SHA256_SIZE];
	size_t named = 0;

	for (unsigned i = 0; i < 150; i++)
		cr_assert(ledger_body(led, &i, sizeof(i), digest, &err) == 0);
	commit();
	cr_assert(ledger_each(led, &(struct ledger_filter){ .kind = "body" }, count_bodies, &named,
	                      &err) == 0);
	cr_assert(named == 150 && verify().bodies == 150);
}

/* ---- durability ---- */

Test(ledger, disk_commit_is_in_the_log_file)
{
	cr_assert(add("j", "x", "{}") == 0);
	cr_assert(ledger_commit(led, LEDGER_DISK, &err) == 0, "%s", err.msg);
	assert_sound(1);
}

Test(ledger, commit_without_a_group_does_nothing)
{
	cr_assert(ledger_commit(led, LEDGER_DISK, &err) == 0);
}

/* Each acknowledged row writes a byte to the pipe. */
static void append_for_ever(int to)
{
	struct ledger *mine = NULL;

	if (ledger_open(dir, &mine, NULL) < 0)
		_exit(3);
	for (unsigned i = 0;; i++) {
		uint8_t digest[SHA256_SIZE];

		if ((i % 5 == 0 && ledger_body(mine, &i, sizeof(i), digest, NULL) < 0) ||
		    ledger_append(
			    mine,
			    &(struct ledger_event){ .job = "k", .kind = "state", .name = "x" },
			    NULL) < 0 ||
		    ledger_commit(mine, i % 16 ? LEDGER_PROCESS : LEDGER_DISK, NULL) < 0 ||
		    write(to, "", 1) != 1)
			_exit(2);
	}
}

static size_t drain(int fd)
{
	char bytes[4096];
	size_t n = 0;
	ssize_t got;

	while ((got = read(fd, bytes, sizeof(bytes))) > 0)
		n += (size_t)got;
	return n;
}

Test(ledger, killed_writer_loses_nothing_that_it_had_committed)
{
	size_t acknowledged = 0, most = 0;

	ledger_close(led); /* no connection may cross the fork */
	led = NULL;
	for (unsigned round = 0; round < 50; round++) {
		int ends[2], status;
		pid_t child;

		cr_assert(pipe2(ends, O_CLOEXEC) == 0);
		child = fork();
		if (child == 0)
			append_for_ever(ends[1]);
		(void)close(ends[1]);
		(void)usleep(500 + round * 397 % 4000);
		cr_assert(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
		cr_assert(WIFSIGNALED(status));
		acknowledged += drain(ends[0]);
		(void)close(ends[0]);
		most++;
	}
	again();
	cr_assert(acknowledged > 50, "%zu", acknowledged);
	cr_assert(count_all() >= acknowledged && count_all() <= acknowledged + most, "%u of %zu",
	          count_all(), acknowledged);
	assert_sound(count_all());
}

Test(ledger, four_writers_at_once)
{
	ledger_close(led);
	led = NULL;
	for (unsigned i = 0; i < 4; i++)
		if (fork() == 0) {
			if (ledger_open(dir, &led, NULL) < 0)
				_exit(1);
			for (unsigned k = 0; k < 100; k++)
				if (add("j", "x", "{}") < 0 ||
				    ledger_commit(led, LEDGER_PROCESS, &err) < 0)
					_exit(2);
			_exit(0);
		}
	for (unsigned i = 0; i < 4; i++) {
		int status;

		cr_assert(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	again();
	assert_sound(400);
}

Test(ledger, four_processes_make_one_ledger)
{
	teardown();
	cr_assert(mkdir(dir, 0700) == 0);
	for (unsigned i = 0; i < 4; i++)
		if (fork() == 0) {
			if (ledger_open(dir, &led, NULL) < 0 || add("j", "x", "{}") < 0 ||
			    ledger_commit(led, LEDGER_PROCESS, &err) < 0)
				_exit(1);
			_exit(0);
		}
	for (unsigned i = 0; i < 4; i++) {
		int status;

		cr_assert(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	again();
	assert_sound(4);
}

Test(ledger, lock_of_another_is_waited_for_but_not_for_ever)
{
	struct ledger *other = NULL;

	cr_assert(ledger_open(dir, &other, &err) == 0);
	cr_assert(ledger_begin(other, &err) == 0);
	cr_assert(add("j", "x", "{}") == -EBUSY);
	cr_assert(err.code == ERR_UNAVAILABLE && err.remedy[0]);
	ledger_close(other);
	cr_assert(add("j", "x", "{}") == 0);
}

Test(ledger, whoever_must_not_be_held_up_waits_once_and_then_not_for_a_while)
{
	struct ledger *other = NULL;
	uint64_t start;

	cr_assert(ledger_open(dir, &other, &err) == 0);
	cr_assert(ledger_begin(other, &err) == 0);
	ledger_set_patience(led, 50);
	start = clock_ms();
	cr_assert(add("j", "x", "{}") == -EBUSY && err.code == ERR_UNAVAILABLE);
	cr_assert(clock_ms() - start >= 50);
	for (int i = 0; i < 100; i++)
		cr_assert(add("j", "x", "{}") == -EBUSY);
	cr_assert(clock_ms() - start < 2500, "%d ms", (int)(clock_ms() - start));
	ledger_close(other);
	cr_assert(add("j", "x", "{}") == 0);
}

/* ---- pruning ---- */

static int time_of(void *data, const struct ledger_row *row)
{
	*(uint64_t *)data = row->time_us;
	return 1;
}

/* Prunes all rows before the numbered one. */
static uint64_t prune_before(uint64_t seq)
{
	const struct ledger_filter f = { .after_seq = seq - 1 };
	uint64_t time_us = 0, rows = 0;

	cr_assert(ledger_each(led, &f, time_of, &time_us, &err) == 0);
	cr_assert(ledger_prune(led, time_us, "test", &rows, &err) == 0, "%s", err.msg);
	return rows;
}

static void fill_slowly(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		fill(1);
		(void)usleep(10); /* rows of one microsecond would go together */
	}
}

Test(ledger, pruned_rows_are_gone_and_the_rest_is_sound)
{
	fill_slowly(20);
	cr_assert(prune_before(11) == 10);
	cr_assert(count_all() == 11); /* 10 and the row that says so */
	assert_sound(11);
	cr_assert(verify().pruned == 10 && verify().first_seq == 11);
	fill(5);
	again();
	assert_sound(16);
}

Test(ledger, prunes_merge)
{
	fill_slowly(20);
	cr_assert(prune_before(6) == 5 && prune_before(16) == 10 && prune_before(16) == 0);
	assert_sound(7);
	cr_assert(verify().pruned == 15);
	cr_assert(count(&(struct ledger_filter){ .kind = "prune" }) == 2);
}

Test(ledger, prune_of_everything_leaves_its_own_row)
{
	uint64_t rows = 0;

	fill(10);
	cr_assert(ledger_prune(led, UINT64_MAX, "test", &rows, &err) == 0 && rows == 10);
	assert_sound(1);
	cr_assert(verify().first_seq == 11);
}

Test(ledger, prune_of_nothing_changes_nothing)
{
	uint64_t rows = 9;

	fill(10);
	cr_assert(ledger_prune(led, 1, "test", &rows, &err) == 0 && rows == 0);
	assert_sound(10);
}

Test(ledger, prune_removes_bodies_that_only_old_rows_name)
{
	uint8_t old[SHA256_SIZE], both[SHA256_SIZE];
	CLEANUP_BUF struct buf b = BUF_INIT(100);
	uint64_t size;

	cr_assert(ledger_body(led, "old", 3, old, &err) == 0);
	cr_assert(ledger_body(led, "both", 4, both, &err) == 0);
	cr_assert(add("j", "one", "{}") == 0);
	commit();
	(void)usleep(10);
	cr_assert(ledger_body(led, "both", 4, both, &err) == 0);
	cr_assert(add("j", "two", "{}") == 0);
	commit();
	cr_assert(prune_before(2) == 1);
	cr_assert(ledger_get_body(led, old, &b, &size, &err) == -ENOENT);
	cr_assert(ledger_get_body(led, both, &b, &size, &err) == 0);
	assert_sound(2);
}

Test(ledger, pruned_text_is_no_longer_in_the_files)
{
	static const char secret[] = "{\"k\":\"not-for-ever-5c1d\"}";
	CLEANUP_FREE char *bytes = calloc(1, 8 * MIB);
	static const char *const names[] = { "ledger.db", "ledger.db-wal" };
	uint64_t rows;

	cr_assert(add("j", "x", secret) == 0);
	fill(60); /* else its page would be written again at once */
	cr_assert(ledger_prune(led, UINT64_MAX, "test", &rows, &err) == 0);
	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		char path[128];
		CLEANUP_FD int fd = FD_NONE;
		ssize_t n;

		path_of(names[i], path);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = read(fd, bytes, 8 * MIB);
		cr_assert(n >= 0 && !memmem(bytes, (size_t)n, "not-for-ever", 12), "%s", names[i]);
	}
}

/* ---- for others ---- */

static int first_json(void *data, const struct ledger_row *row)
{
	ledger_row_to_json(row, data);
	return 1;
}

Test(ledger, json_ends_with_the_detail_as_recorded)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);

	cr_assert(add("j\",\"detail\":", "x", "{ \"a\" :1}") == 0);
	commit();
	cr_assert(ledger_each(led, &(struct ledger_filter){ 0 }, first_json, &b, &err) == 0);
	cr_assert_str_eq(strstr(b.data, ",\"detail\":"), ",\"detail\":{ \"a\" :1}}", "%s", b.data);
}

static void add_file(const char *job, const char *change, const char *detail)
{
	const struct ledger_event e = {
		.job = job, .session = "s", .kind = "file", .name = change, .detail = str_of(detail)
	};

	cr_assert(ledger_append(led, &e, &err) == 0, "%s", err.msg);
}

Test(ledger, graph_of_a_session)
{
	CLEANUP_BUF struct buf json = BUF_INIT(8192), dot = BUF_INIT(8192);

	add_file("a", "created", "{\"path\":\"x\",\"size\":1,\"sha256\":null}");
	add_file("b", "modified", "{\"path\":\"x\",\"size\":2,\"sha256\":\"ab\"}");
	add_file("b", "created", "{\"path\":\"q\\\"\\n\\\\\",\"size\":0,\"sha256\":null}");
	add_file("a", "deleted", "{\"path\":\"x\",\"size\":0,\"sha256\":null}");
	commit();
	cr_assert(ledger_graph(led, "s", LEDGER_GRAPH_JSON, &json, &err) == 0, "%s", err.msg);
	cr_assert(strstr(json.data, "{\"path\":\"x\",\"exists\":false,\"changed_by\":\"a\""), "%s",
	          json.data);
	cr_assert(strstr(json.data,
	                 "\"change\":\"modified\",\"path\":\"x\",\"size\":2,\"sha256\":\"ab\""));
	cr_assert(ledger_graph(led, "s", LEDGER_GRAPH_DOT, &dot, &err) == 0);
	cr_assert(strstr(dot.data, "\"run:b\" -> \"file:q\\\"\\\\x0a\\\\\""), "%s", dot.data);
	cr_assert(ledger_graph(led, "none", LEDGER_GRAPH_JSON, &json, &err) == -ENOENT);
}
