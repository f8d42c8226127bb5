/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "auth/impl.h"
#include "base/str.h"

static struct err err;

/* ---- scopes ---- */

Test(scopes, are_words_with_commas)
{
	uint32_t got = 0;

	cr_expect(scopes_parse("run", &got, &err) == 0 && got == SCOPE_RUN);
	cr_expect(scopes_parse("read,run", &got, &err) == 0 && got == (SCOPE_RUN | SCOPE_READ));
	cr_expect(scopes_parse("run,read,approve,admin", &got, &err) == 0 && got == SCOPE_ALL);
}

Test(scopes, anything_else_is_refused_and_leaves_the_result)
{
	static const char *const wrong[] = { "",         ",",         "run,",   ",run", "run,,read",
		                             "run read", "run, read", "Run",    "runs", "ru",
		                             "root",     "all",       "admin ", "none" };

	for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
		uint32_t got = 77;

		cr_expect(scopes_parse(wrong[i], &got, &err) < 0, "\"%s\"", wrong[i]);
		cr_expect(got == 77 && *err.remedy, "\"%s\"", wrong[i]);
	}
}

Test(scopes, every_set_is_printed_as_it_is_read)
{
	char text[32];
	uint32_t got;

	for (uint32_t s = 1; s <= SCOPE_ALL; s++) {
		scopes_print(s, text, sizeof(text));
		cr_expect(scopes_parse(text, &got, NULL) == 0 && got == s, "%s", text);
	}
	scopes_print(0, text, sizeof(text));
	cr_expect(streq(text, "none"));
	scopes_print(SCOPE_ALL, text, 6);
	cr_expect(strlen(text) == 5, "bounded");
}

/* ---- Authorization ---- */

#define ID     "0123456789ab"
#define SECRET "abcdefghjkmnpqrstvwxyz0123456789"
#define TEXT   "brig_" ID "_" SECRET

Test(bearer, a_token_is_taken)
{
	char text[TOKEN_SIZE];

	cr_assert(bearer_parse("Bearer " TEXT, text) == 0);
	cr_expect(streq(text, TEXT));
}

Test(bearer, the_scheme_may_be_in_any_case)
{
	char text[TOKEN_SIZE];

	cr_expect(bearer_parse("bearer " TEXT, text) == 0);
	cr_expect(bearer_parse("BEARER " TEXT, text) == 0);
}

Test(bearer, anything_else_is_refused)
{
	static const char *const wrong[] = {
		"",
		" ",
		"Bearer",
		"Bearer ",
		TEXT,
		"Bearer" TEXT,
		"Bearer\t" TEXT,
		"Bearer  " TEXT,
		" Bearer " TEXT,
		"Bearer " TEXT " ",
		"Bearer " TEXT "\n",
		"Bearer " TEXT "0",
		"Bearer " TEXT "," TEXT,
		"Bearer " TEXT ", Bearer " TEXT,
		"Bearer \"" TEXT "\"",
		"Bearer token=" TEXT,
		"Basic " TEXT,
		"Basic YnJpZzpicmln",
		"Token " TEXT,
		"Bearerx " TEXT,
		"Bearer brig_",
		"Bearer brig_" ID,
		"Bearer brig_" ID "_",
		"Bearer brig_" ID "_abc",
		"Bearer brig-" ID "_" SECRET,
		"Bearer BRIG_" ID "_" SECRET,
		"Bearer brig_" ID "-" SECRET,
		"Bearer brig_0123456789a_0" SECRET,
		"Bearer brig_0123456789aI_" SECRET,
		"Bearer brig_" ID "_abcdefghjkmnpqrstvwxyz012345678i",
		"Bearer brig_" ID "_abcdefghjkmnpqrstvwxyz012345678\xc3",
	};

	cr_expect(bearer_parse(NULL, (char[TOKEN_SIZE]){ 0 }) == -EINVAL);
	for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
		char text[TOKEN_SIZE] = "untouched";

		cr_expect(bearer_parse(wrong[i], text) == -EINVAL, "\"%s\"", wrong[i]);
		cr_expect(streq(text, "untouched"), "\"%s\"", wrong[i]);
	}
}

Test(bearer, a_huge_header_is_refused)
{
	static char header[65536];

	memset(header, '0', sizeof(header) - 1);
	memcpy(header, "Bearer brig_", 12);
	cr_expect(bearer_parse(header, (char[TOKEN_SIZE]){ 0 }) == -EINVAL);
}

/* ---- Host and Origin ---- */

Test(host, our_own_names_pass)
{
	static const char *const ours[] = { "localhost", "LocalHost", "127.0.0.1",
		                            "[::1]",     "brig",      "BRIG" };
	char host[64];

	for (size_t i = 0; i < ELEMENTSOF(ours); i++) {
		cr_expect(host_is_ours(ours[i], 0, NULL, 0), "%s", ours[i]);
		(void)snprintf(host, sizeof(host), "%s:8080", ours[i]);
		cr_expect(host_is_ours(host, 0, NULL, 0), "%s", host);
		cr_expect(host_is_ours(host, 8080, NULL, 0), "%s", host);
	}
}

Test(host, the_port_must_be_the_one_that_was_asked)
{
	cr_expect(!host_is_ours("localhost:8081", 8080, NULL, 0));
	cr_expect(!host_is_ours("[::1]:80", 8080, NULL, 0));
	cr_expect(!host_is_ours("localhost", 8080, NULL, 0), "that is port 80");
	cr_expect(host_is_ours("localhost", 80, NULL, 0));
	cr_expect(host_is_ours("localhost:80", 80, NULL, 0));
}

Test(host, anybody_elses_name_is_refused)
{
	static const char *const wrong[] = {
		"",
		" ",
		"attacker.com",
		"127.0.0.1.nip.io",
		"localhost.evil.com",
		"evil.localhost",
		"localhost.",
		"localhost.:8080",
		"127.0.0.1.",
		"127.1",
		"127.0.0.2",
		"127.0.0.01",
		"0.0.0.0",
		"2130706433",
		"0x7f000001",
		"user@localhost",
		"localhost@evil.com",
		"localhost:8080@evil.com",
		"http://localhost",
		"localhost/",
		"localhost/evil",
		"localhost?x",
		"localhost#x",
		"localhost ",
		" localhost",
		"local host",
		"localhost\t",
		"localhost\r\n",
		"localhost,evil.com",
		"localhost, localhost",
		"localhost:",
		"localhost:0",
		"localhost:08080",
		"localhost:+8080",
		"localhost:-1",
		"localhost: 8080",
		"localhost:8080 ",
		"localhost:65536",
		"localhost:18446744073709559696",
		"localhost:8080:8080",
		"localhost:http",
		":8080",
		"::1",
		"::1:8080",
		"[::1",
		"[]",
		"[]:8080",
		"::1]",
		"[::1]]",
		"[::1]x",
		"[::1].",
		"[::1%lo]",
		"[::1%25lo]:8080",
		"[0:0:0:0:0:0:0:1]",
		"[::ffff:127.0.0.1]",
		"[localhost]",
		"%6cocalhost",
		"localhost%00",
		("l\xc3\xb6"
		 "calhost"),
		"\xef\xbd\x8cocalhost",
		"brig.local",
		"bri",
		"brigg",
		"*",
	};

	cr_expect(!host_is_ours(NULL, 0, NULL, 0));
	for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
		cr_expect(!host_is_ours(wrong[i], 0, NULL, 0), "\"%s\"", wrong[i]);
}

Test(host, configured_names_pass)
{
	static const char *const extra[] = { "brig.example", "api.example:443", "[fe80::1]",
		                             "not a name", "" };

	cr_expect(host_is_ours("Brig.Example", 8080, extra, 5));
	cr_expect(host_is_ours("brig.example:9", 8080, extra, 5), "any port");
	cr_expect(host_is_ours("api.example:443", 8080, extra, 5));
	cr_expect(!host_is_ours("api.example:444", 8080, extra, 5));
	cr_expect(!host_is_ours("api.example", 8080, extra, 5));
	cr_expect(host_is_ours("[FE80::1]:8080", 8080, extra, 5));
	cr_expect(!host_is_ours("x.brig.example", 8080, extra, 5));
	cr_expect(!host_is_ours("not a name", 8080, extra, 5), "a wrong setting opens nothing");
	cr_expect(!host_is_ours("", 8080, extra, 5));
}

Test(origin, only_configured_ones_pass)
{
	static const char *const allowed[] = { "https://console.example", "null", "*", "" };
	static const char *const wrong[] = {
		"",
		"null",
		"*",
		"https://evil.example",
		"http://console.example",
		"https://console.example:8443",
		"https://console.example.evil.com",
		"https://console.example/",
		"https://console.example ",
		"http://localhost",
		"http://localhost.evil.com",
		"http://127.0.0.1:9999",
		"file://",
		"chrome-extension://abcdefgh",
	};

	cr_expect(origin_is_allowed("https://console.example", allowed, 4));
	cr_expect(!origin_is_allowed("https://console.example", NULL, 0), "by default none");
	cr_expect(!origin_is_allowed(NULL, allowed, 4));
	for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
		cr_expect(!origin_is_allowed(wrong[i], allowed, 4), "\"%s\"", wrong[i]);
}

/* ---- quotas ---- */

static struct quotas *q;
static uint32_t retry_ms;

static void open_quotas(void)
{
	cr_assert(quotas_new(&q) == 0);
	retry_ms = 0;
}

static void close_quotas(void)
{
	quotas_free(q);
}

TestSuite(quota, .init = open_quotas, .fini = close_quotas);

static struct principal who(const char *key, struct quota quota)
{
	struct principal p = { .quota = quota };

	(void)snprintf(p.key, sizeof(p.key), "%s", key);
	return p;
}

/* Asks and, when it was given, gives back. */
static int brief_run(const struct principal *p, uint64_t now_ms)
{
	int r = quota_take_run(q, p, now_ms, &retry_ms);

	if (r >= 0)
		quota_give_run(q, p->key);
	return r;
}

Test(quota, a_burst_of_twice_the_rate_passes_and_no_more)
{
	struct principal p = who("a", (struct quota){ .runs_per_s = 5 });

	for (int i = 0; i < 10; i++)
		cr_expect(brief_run(&p, 1000000) == 0, "%d", i);
	cr_expect(brief_run(&p, 1000000) == -EAGAIN);
	cr_expect(retry_ms == 200, "%u", retry_ms);
}

Test(quota, the_time_to_wait_is_exact)
{
	struct principal p = who("a", (struct quota){ .runs_per_s = 3 });

	for (int i = 0; i < 6; i++)
		cr_expect(brief_run(&p, 5) == 0);
	cr_expect(brief_run(&p, 5) == -EAGAIN && retry_ms == 334);
	cr_expect(brief_run(&p, 5 + 333) == -EAGAIN && retry_ms == 1);
	cr_expect(brief_run(&p, 5 + 334) == 0);
	cr_expect(brief_run(&p, 5 + 334) == -EAGAIN);
}

Test(quota, the_mean_over_a_long_time_is_the_rate)
{
	struct principal p = who("a", (struct quota){ .runs_per_s = 7 });
	int passed = 0;

	for (uint64_t now = 0; now < 100000; now += 3)
		passed += brief_run(&p, now) == 0;
	cr_expect(passed >= 700 && passed <= 714, "%d", passed);
}

Test(quota, what_was_refused_costs_nothing)
{
	struct principal p = who("a", (struct quota){ .runs_per_s = 1 });

	cr_expect(brief_run(&p, 0) == 0 && brief_run(&p, 0) == 0);
	for (int i = 0; i < 1000; i++)
		cr_expect(brief_run(&p, 999) == -EAGAIN);
	cr_expect(brief_run(&p, 1000) == 0);
}

Test(quota, a_clock_that_goes_back_gives_nothing)
{
	struct principal p = who("a", (struct quota){ .runs_per_s = 1 });

	cr_expect(brief_run(&p, 10000) == 0 && brief_run(&p, 10000) == 0);
	cr_expect(brief_run(&p, 0) == -EAGAIN);
	cr_expect(brief_run(&p, 10999) == -EAGAIN);
	cr_expect(brief_run(&p, 11000) == 0);
}

Test(quota, concurrent_runs_are_bounded_until_one_ends)
{
	struct principal p = who("a", (struct quota){ .concurrent = 2 });

	cr_expect(quota_take_run(q, &p, 0, &retry_ms) == 0);
	cr_expect(quota_take_run(q, &p, 0, &retry_ms) == 0);
	cr_expect(quota_take_run(q, &p, 9999999, &retry_ms) == -EAGAIN && retry_ms > 0);
	quota_give_run(q, "a");
	cr_expect(quota_take_run(q, &p, 0, &retry_ms) == 0);
}

Test(quota, giving_back_too_often_gives_nothing)
{
	struct principal p = who("a", (struct quota){ .concurrent = 1 });

	quota_give_run(q, "a");
	cr_expect(quota_take_run(q, &p, 0, &retry_ms) == 0);
	quota_give_run(q, "a");
	quota_give_run(q, "a");
	quota_give_run(q, "nobody");
	cr_expect(quota_take_run(q, &p, 0, &retry_ms) == 0);
	cr_expect(quota_take_run(q, &p, 0, &retry_ms) == -EAGAIN);
}

Test(quota, a_run_refused_by_the_rate_does_not_count_as_running)
{
	struct principal p = who("a", (struct quota){ .runs_per_s = 1, .concurrent = 3 });

	cr_expect(brief_run(&p, 0) == 0 && brief_run(&p, 0) == 0);
	for (int i = 0; i < 5; i++)
		cr_expect(quota_take_run(q, &p, 0, &retry_ms) == -EAGAIN);
	for (uint64_t s = 1; s <= 3; s++)
		cr_expect(quota_take_run(q, &p, s * 1000, &retry_ms) == 0);
	cr_expect(quota_take_run(q, &p, 60000, &retry_ms) == -EAGAIN);
}

Test(quota, principals_do_not_share)
{
	struct principal a = who("a", (struct quota){ .runs_per_s = 1, .concurrent = 1 });
	struct principal b = who("b", (struct quota){ .runs_per_s = 1, .concurrent = 1 });

	cr_expect(quota_take_run(q, &a, 0, &retry_ms) == 0);
	cr_expect(quota_take_run(q, &b, 0, &retry_ms) == 0);
	cr_expect(quota_take_run(q, &a, 0, &retry_ms) == -EAGAIN);
}

Test(quota, no_bound_is_no_bound)
{
	struct principal p = who("a", (struct quota){ 0 });

	for (int i = 0; i < 10000; i++)
		cr_expect(quota_take_run(q, &p, 0, &retry_ms) == 0);
	cr_expect(quota_take_bytes(q, &p, UINT64_MAX, 0, &retry_ms) == 0);
}

Test(quota, bytes_are_bounded_by_the_minute)
{
	struct principal p = who("a", (struct quota){ .bytes_per_min = 6000 });

	cr_expect(quota_take_bytes(q, &p, 6000, 0, &retry_ms) == 0);
	cr_expect(quota_take_bytes(q, &p, 100, 0, &retry_ms) == -EAGAIN && retry_ms == 1000);
	cr_expect(quota_take_bytes(q, &p, 100, 1000, &retry_ms) == 0);
	cr_expect(quota_take_bytes(q, &p, 1, 1000, &retry_ms) == -EAGAIN && retry_ms == 10);
	cr_expect(quota_take_bytes(q, &p, 0, 1000, &retry_ms) == 0);
}

Test(quota, a_body_larger_than_a_minutes_worth_never_passes)
{
	struct principal p = who("a", (struct quota){ .bytes_per_min = 6000 });

	cr_expect(quota_take_bytes(q, &p, 6001, 0, &retry_ms) == -EFBIG && retry_ms == 60000);
	cr_expect(quota_take_bytes(q, &p, UINT64_MAX, 0, &retry_ms) == -EFBIG);
	cr_expect(quota_take_bytes(q, &p, 6000, 0, &retry_ms) == 0, "and cost nothing");
}

Test(quota, the_largest_numbers_do_not_overflow)
{
	struct principal p = who("a", (struct quota){ .runs_per_s = UINT32_MAX,
	                                              .concurrent = UINT32_MAX,
	                                              .bytes_per_min = UINT64_MAX });

	cr_expect(brief_run(&p, 0) == 0 && brief_run(&p, UINT64_MAX) == 0);
	cr_expect(quota_take_bytes(q, &p, UINT64_C(1) << 45, 0, &retry_ms) == 0);
	cr_expect(quota_take_bytes(q, &p, UINT64_C(1) << 45, 1, &retry_ms) == -EAGAIN);
	cr_expect(retry_ms == 59999, "%u", retry_ms);
	cr_expect(quota_take_bytes(q, &p, UINT64_C(1) << 45, 60000, &retry_ms) == 0);
}

Test(quota, a_lowered_rate_holds_at_once)
{
	struct principal p = who("a", (struct quota){ .runs_per_s = 1000 });

	for (int i = 0; i < 2000; i++)
		cr_expect(brief_run(&p, 0) == 0);
	p.quota.runs_per_s = 1;
	cr_expect(brief_run(&p, 1) == -EAGAIN);
	cr_expect(retry_ms <= 1000, "%u: what was fair then is no debt now", retry_ms);
}

static struct principal numbered(unsigned i, struct quota quota)
{
	char key[16];

	(void)snprintf(key, sizeof(key), "t%u", i);
	return who(key, quota);
}

Test(quota, the_table_is_bounded_and_forgets_who_was_idle_longest)
{
	struct quota bound = { .runs_per_s = 1 };

	for (unsigned i = 0; i <= QUOTA_KEYS_MAX; i++) {
		struct principal p = numbered(i, bound);

		cr_expect(brief_run(&p, 1000 + (i == 0)) == 0 &&
		          brief_run(&p, 1000 + (i == 0)) == 0);
	}
	cr_expect(brief_run(&(struct principal){ .quota = bound, .key = "t0" }, 1001) == -EAGAIN,
	          "used last, so remembered");
	cr_expect(brief_run(&(struct principal){ .quota = bound, .key = "t1" }, 1001) == 0);
}

Test(quota, whoever_runs_something_is_never_forgotten)
{
	struct quota bound = { .concurrent = 1 };
	struct principal late = numbered(QUOTA_KEYS_MAX, bound), p;

	for (unsigned i = 0; i < QUOTA_KEYS_MAX; i++) {
		p = numbered(i, bound);
		cr_expect(quota_take_run(q, &p, i, &retry_ms) == 0);
	}
	cr_expect(quota_take_run(q, &late, 1, &retry_ms) == -EAGAIN, "no room: refused, not free");
	for (unsigned i = 0; i < QUOTA_KEYS_MAX; i++) {
		p = numbered(i, bound);
		cr_expect(quota_take_run(q, &p, 99999, &retry_ms) == -EAGAIN);
	}
	quota_give_run(q, "t17");
	cr_expect(quota_take_run(q, &late, 1, &retry_ms) == 0);
	quota_give_run(q, "t17");
	cr_expect(quota_take_run(q, &late, 1, &retry_ms) == -EAGAIN, "t17 is not there any more");
}

Test(quota, twenty_failures_in_a_minute_are_answered_at_once)
{
	for (int i = 0; i < 20; i++)
		cr_expect(quota_take_failure(q, "192.0.2.1", 0, &retry_ms) == 0, "%d", i);
	cr_expect(quota_take_failure(q, "192.0.2.1", 0, &retry_ms) == -EAGAIN && retry_ms == 3000);
	cr_expect(quota_take_failure(q, "192.0.2.2", 0, &retry_ms) == 0, "only that address");
	cr_expect(quota_take_failure(q, "192.0.2.1", 3000, &retry_ms) == 0);
	cr_expect(quota_take_failure(q, "192.0.2.1", 3000, &retry_ms) == -EAGAIN);
}

Test(quota, failures_of_an_address_are_nothing_to_a_principal)
{
	struct principal p = who("192.0.2.1", (struct quota){ .runs_per_s = 1, .concurrent = 1 });

	for (int i = 0; i < 50; i++)
		(void)quota_take_failure(q, "192.0.2.1", 0, &retry_ms);
	cr_expect(quota_take_run(q, &p, 0, &retry_ms) == 0);
}

Test(quota, addresses_without_number_stay_bounded)
{
	char peer[64];

	for (int i = 0; i < 5 * QUOTA_PEERS_MAX; i++) {
		(void)snprintf(peer, sizeof(peer), "2001:db8:%x:%x::%x-and-a-very-long-name-of-it",
		               i, i, i);
		cr_expect(quota_take_failure(q, peer, (uint64_t)i, &retry_ms) == 0);
	}
}
