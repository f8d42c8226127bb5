/* SPDX-License-Identifier: Apache-2.0 */
/* What somebody does who has the files of a ledger and knows how it is made, but has not the key.
 */
#include "ledger/ledger_impl.h"
#include "ledger_case.h"

TestSuite(ledger_attack, .init = setup, .fini = teardown, .timeout = 60);

static int take_last(void *data, const struct ledger_row *row)
{
	struct link *last = data;

	last->seq = row->seq;
	memcpy(last->hash, row->hash, SHA256_SIZE);
	return 0;
}

static struct link last_link(void)
{
	struct link last = { 0 };

	cr_assert(ledger_each(led, &(struct ledger_filter){ 0 }, take_last, &last, &err) == 0);
	return last;
}

/* A row with the right hash takes no key. */
static void forge_after(const struct link *at)
{
	const struct ledger_row row = { .seq = at->seq + 1,
		                        .job = "job",
		                        .session = "",
		                        .kind = "approval",
		                        .name = "approval.allowed",
		                        .actor = "cli:0",
		                        .detail = STR("{}") };
	char sql[512], hex[SHA256_HEX_SIZE];
	uint8_t hash[SHA256_SIZE];

	chain_hash(at->hash, &row, hash);
	sha256_hex(hash, hex);
	(void)snprintf(sql, sizeof(sql),
	               "INSERT INTO event VALUES(%llu,0,'job','','approval','approval.allowed',"
	               "'cli:0','{}',x'',x'%s')",
	               (unsigned long long)row.seq, hex);
	meddle(sql);
}

/* The head may be behind, so nothing tells such rows from those of a writer that died before it
 * wrote the head; docs/internals/ledger.md says so. */
Test(ledger_attack, rows_behind_the_head_have_no_signature_to_break)
{
	struct link last;

	fill(4);
	last = last_link();
	forge_after(&last);
	cr_assert(verify().ok);
}

Test(ledger_attack, last_row_forged_anew)
{
	struct link last;

	fill(8);
	meddle("DELETE FROM event WHERE seq=8");
	last = last_link();
	forge_after(&last);
	assert_unsound("not the one that ledger.head knows");
}

Test(ledger_attack, forged_row_is_noticed_by_the_next_group)
{
	struct link last;

	fill(8);
	meddle("DELETE FROM event WHERE seq=8");
	last = last_link();
	forge_after(&last);
	again();
	fill(1);
	assert_unsound("were lost or cut off");
}

/* Whoever signs with a key of his own shows that it is another. */
Test(ledger_attack, stub_signed_with_another_key)
{
	static const uint8_t key[KEY_SIZE] = { 1 };
	char sql[512], hash_hex[SHA256_HEX_SIZE], signature_hex[SHA256_HEX_SIZE];
	uint8_t signature[SHA256_SIZE];
	struct link last;

	fill(8);
	last = last_link();
	chain_cut(key, &last, signature);
	sha256_hex(last.hash, hash_hex);
	sha256_hex(signature, signature_hex);
	(void)snprintf(sql, sizeof(sql),
	               "DELETE FROM event;INSERT INTO cut VALUES(1,8,x'%s',x'%s')", hash_hex,
	               signature_hex);
	meddle(sql);
	assert_unsound("not signed by its key");
}

/* The stub of an earlier prune does not stand for rows that were pruned later. */
Test(ledger_attack, stub_of_an_earlier_prune)
{
	uint64_t rows = 0;

	fill(4);
	cr_assert(ledger_prune(led, UINT64_MAX, "test", &rows, &err) == 0 && rows == 4);
	meddle("CREATE TABLE kept(a,b,c);INSERT INTO kept SELECT last_seq,last_hash,signature FROM "
	       "cut");
	fill(4);
	cr_assert(ledger_prune(led, UINT64_MAX, "test", &rows, &err) == 0 && rows == 5);
	meddle("UPDATE cut SET last_seq=(SELECT a FROM kept),last_hash=(SELECT b FROM kept),"
	       "signature=(SELECT c FROM kept);DROP TABLE kept");
	assert_unsound("rows between are missing");
}

static void load_head(const char *name, uint8_t ret[HEAD_SIZE])
{
	CLEANUP_FD int fd = FD_NONE;
	char path[128];

	path_of(name, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert(read(fd, ret, HEAD_SIZE) == HEAD_SIZE);
}

/* It knows a row that is still the same: as after the death of a writer. The next group mends it.
 */
Test(ledger_attack, older_head_is_sound_and_goes_on)
{
	uint8_t old[HEAD_SIZE], now[HEAD_SIZE];
	CLEANUP_FD int fd = FD_NONE;
	char path[128];

	fill(4);
	load_head("ledger.head", old);
	fill(4);
	path_of("ledger.head", path);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	cr_assert(pwrite(fd, old, HEAD_SIZE, 0) == HEAD_SIZE);
	again();
	assert_sound(8);
	fill(1);
	assert_sound(9);
	load_head("ledger.head", now);
	cr_assert(now[15] == 9);
}
