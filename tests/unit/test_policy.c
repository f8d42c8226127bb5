/* SPDX-License-Identifier: Apache-2.0 */
/* A policy decides; the tests say what, and that what cannot be judged is denied. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "policy/policy.h"

#define HEAD "version: 1\n"

static struct request req;
static struct findings found;
static struct policy_input in;
static struct policy *policy;
static struct decision d;
static struct err err;

static void setup(void)
{
	request_init(&req);
	req.language = LANGUAGE_PYTHON;
	req.code = STR("print(1)");
	found = (struct findings){ .level = RISK_LOW, .complete = true };
	in = (struct policy_input){ .request = &req, .findings = &found, .caller = "cli:root" };
	err = (struct err){ 0 };
}

static void teardown(void)
{
	policy_free(policy);
	policy = NULL;
}

TestSuite(policy, .init = setup, .fini = teardown, .timeout = 60);

static void use(const char *text)
{
	policy_free(policy);
	policy = NULL;
	cr_assert(policy_parse("test.yaml", str_of(text), &policy, &err) == 0, "%s", err.msg);
}

static void load(const char *name)
{
	policy_free(policy);
	policy = NULL;
	cr_assert(policy_load(name, &policy, &err) == 0, "%s", err.msg);
}

static void expect(enum verdict verdict, const char *rule)
{
	policy_eval(policy, &in, &d);
	cr_expect(d.verdict == verdict && streq(d.rule, rule), "%s by %s (%s), not %s by %s",
	          verdict_name(d.verdict), d.rule, d.reason, verdict_name(verdict), rule);
	cr_expect(*d.reason && *d.policy);
}

static void refused(const char *text, const char *message)
{
	struct policy *p = NULL;

	err = (struct err){ 0 };
	cr_expect(policy_parse("test.yaml", str_of(text), &p, &err) == -EINVAL, "%s", text);
	cr_expect(p == NULL && err.code == ERR_INVALID);
	cr_expect(streq(err.msg, message), "%s\nnot: %s", err.msg, message);
	policy_free(p);
}

static void find(const char *rule, enum risk_level level)
{
	struct finding *f = &found.v[found.n++];

	(void)snprintf(f->rule, sizeof(f->rule), "%s", rule);
	f->level = level;
	found.level = MAX2(found.level, level);
}

/* ---- the built-in ones ---- */

Test(policy, strict_asks_from_high_on_and_allows_below)
{
	static const struct {
		enum risk_level level;
		enum verdict verdict;
		const char *rule;
	} rows[] = {
		{ RISK_SAFE, VERDICT_ALLOW, "allow-the-rest" },
		{ RISK_LOW, VERDICT_ALLOW, "allow-the-rest" },
		{ RISK_MEDIUM, VERDICT_ALLOW, "allow-the-rest" },
		{ RISK_HIGH, VERDICT_CONFIRM, "ask-when-high" },
		{ RISK_CRITICAL, VERDICT_CONFIRM, "ask-when-critical" },
	};

	load("strict");
	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		found.level = rows[i].level;
		expect(rows[i].verdict, rows[i].rule);
	}
}

Test(policy, strict_denies_critical_shell)
{
	load("strict");
	req.language = LANGUAGE_SHELL;
	found.level = RISK_CRITICAL;
	expect(VERDICT_DENY, "no-critical-shell");
	found.level = RISK_HIGH;
	expect(VERDICT_CONFIRM, "ask-when-high");
}

Test(policy, strict_asks_when_the_analysis_is_incomplete)
{
	load("strict");
	found.level = RISK_MEDIUM;
	found.complete = false;
	expect(VERDICT_CONFIRM, "ask-when-unclear");
}

Test(policy, strict_bounds)
{
	load("strict");
	policy_eval(policy, &in, &d);
	cr_expect(d.level == LEVEL_STANDARD && d.network == NETWORK_LOOPBACK);
	cr_expect(!d.self_approve && d.remember == REMEMBER_SESSION && d.expires_ms == 600000);
	cr_expect(d.pending_max == 16 && d.tier == TIER_AUTO);
}

Test(policy, permissive_denies_critical_shell_only)
{
	load("permissive");
	found.level = RISK_CRITICAL;
	expect(VERDICT_ALLOW, "allow-the-rest");
	cr_expect(d.self_approve);
	req.language = LANGUAGE_SHELL;
	expect(VERDICT_DENY, "no-critical-shell");
	found.level = RISK_HIGH;
	expect(VERDICT_ALLOW, "allow-the-rest");
}

Test(policy, a_built_in_is_not_looked_for_in_the_folder)
{
	char dir[] = "/tmp/policy-XXXXXX";
	FILE *f;

	cr_assert(mkdtemp(dir) && chdir(dir) == 0);
	f = fopen("strict", "w");
	cr_assert(f && fputs(HEAD "name: mine\ndefault: allow\n", f) > 0 && fclose(f) == 0);
	load("strict");
	cr_expect(streq(policy_name(policy), "strict"));
	load("./strict");
	cr_expect(streq(policy_name(policy), "mine"));
	(void)unlink("strict");
	(void)rmdir(dir);
}

/* ---- what cannot be judged ---- */

Test(policy, what_was_not_assessed_is_denied)
{
	load("permissive");
	found.level = RISK_UNKNOWN;
	expect(VERDICT_DENY, POLICY_RULE_UNJUDGED);
	cr_expect(streq(d.reason, "the code was not assessed"));
	in.findings = NULL;
	expect(VERDICT_DENY, POLICY_RULE_UNJUDGED);
}

Test(policy, nonsense_is_denied)
{
	static const char *labels[POLICY_LABELS_MAX + 1];
	static char name[400];

	load("permissive");
	memset(name, 'x', sizeof(name) - 1);
	for (size_t i = 0; i < ELEMENTSOF(labels); i++)
		labels[i] = "a";
	in.caller = name;
	expect(VERDICT_DENY, POLICY_RULE_UNJUDGED);
	in.caller = NULL;
	expect(VERDICT_ALLOW, "allow-the-rest");
	in.labels = labels;
	in.n_labels = POLICY_LABELS_MAX;
	expect(VERDICT_ALLOW, "allow-the-rest");
	in.n_labels++;
	expect(VERDICT_DENY, POLICY_RULE_UNJUDGED);
	in.n_labels = 0;
	found.level = RISK_LEVEL_COUNT;
	expect(VERDICT_DENY, POLICY_RULE_UNJUDGED);
	found.level = RISK_LOW;
	req.network = NETWORK_COUNT;
	expect(VERDICT_DENY, POLICY_RULE_UNJUDGED);
	req.network = NETWORK_NONE;
	found.n = FINDINGS_MAX + 1;
	expect(VERDICT_DENY, POLICY_RULE_UNJUDGED);
}

Test(policy, without_a_default_it_denies)
{
	use(HEAD);
	expect(VERDICT_DENY, POLICY_RULE_DEFAULT);
	use(HEAD "default: confirm\n");
	expect(VERDICT_CONFIRM, POLICY_RULE_DEFAULT);
}

/* ---- conditions ---- */

/* One rule that asks; the default allows. */
static void use_match(const char *match)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
	               HEAD "default: allow\nrules: [{ name: r, match: %s, verdict: confirm }]\n",
	               match);
	use(text);
}

static void matches(const char *match)
{
	use_match(match);
	expect(VERDICT_CONFIRM, "r");
}

static void differs(const char *match)
{
	use_match(match);
	expect(VERDICT_ALLOW, POLICY_RULE_DEFAULT);
}

Test(policy, an_empty_match_matches_everything)
{
	matches("{}");
	found.level = RISK_CRITICAL;
	matches("{}");
}

Test(policy, risk_as_word_bound_and_list)
{
	found.level = RISK_HIGH;
	matches("{ risk: high }");
	matches("{ risk: '>=high' }");
	matches("{ risk: '>=safe' }");
	matches("{ risk: '<=high' }");
	matches("{ risk: [low, high] }");
	matches("{ risk: ['<=low', high] }");
	differs("{ risk: critical }");
	differs("{ risk: '>=critical' }");
	differs("{ risk: '<=medium' }");
	differs("{ risk: [low, critical] }");
}

Test(policy, words_of_the_request_as_asked_for)
{
	req.tier = TIER_JAIL;
	req.network = NETWORK_NONE;
	req.level = LEVEL_STRICT;
	matches("{ language: py, tier: jail, network: none, level: strict }");
	matches("{ language: [shell, python] }");
	differs("{ language: shell }");
	differs("{ tier: auto }");
	differs("{ network: loopback }");
	differs("{ level: [standard, degraded-ok] }");
}

Test(policy, completeness)
{
	matches("{ complete: true }");
	differs("{ complete: false }");
	found.complete = false;
	matches("{ complete: false }");
}

Test(policy, any_finding_may_have_the_rule)
{
	differs("{ rule: '*' }");
	find("py.exec.eval", RISK_HIGH);
	find("py.net.socket", RISK_MEDIUM);
	matches("{ rule: 'py.net.*' }");
	matches("{ rule: ['sh.*', 'py.exec.eval'] }");
	matches("{ rule: '*.net.*' }");
	matches("{ rule: '*' }");
	differs("{ rule: 'py.net' }");
	differs("{ rule: 'net.*' }");
	differs("{ rule: 'py.*.sockets' }");
}

Test(policy, tools_labels_caller_action)
{
	static const char *tools[] = { "read_file", "web_search" };
	static const char *const labels[] = { "blue", "prod" };

	req.tools = tools;
	req.n_tools = 2;
	in.labels = labels;
	in.n_labels = 2;
	matches("{ tool: 'web_*', label: prod, caller: 'cli:*', action: code_execution }");
	differs("{ tool: 'db_*' }");
	differs("{ label: pro }");
	differs("{ caller: 'token:*' }");
	differs("{ action: browser }");
	in.action = "browser";
	matches("{ action: browser }");
}

Test(policy, labels_of_the_request_count_as_those_of_the_caller)
{
	static const char *const labels[] = { "blue" };
	static const char *own[POLICY_LABELS_MAX] = { "prod" };

	in.labels = labels;
	in.n_labels = 1;
	req.labels = own;
	req.n_labels = 1;
	matches("{ label: prod }");
	matches("{ label: blue }");
	differs("{ label: green }");
	for (size_t i = 0; i < POLICY_LABELS_MAX; i++)
		own[i] = "x";
	req.n_labels = POLICY_LABELS_MAX; /* one too many together */
	use(HEAD "default: allow\n");
	expect(VERDICT_DENY, POLICY_RULE_UNJUDGED);
}

Test(policy, a_token_is_known_by_its_name)
{
	in.caller = "token:ci#0123abcd";
	matches("{ caller: 'token:ci' }");
	differs("{ caller: 'token:c' }");
	differs("{ caller: '*#*' }");
}

Test(policy, a_star_is_any_run_of_bytes)
{
	static const struct {
		const char *pattern, *caller;
		bool match;
	} rows[] = {
		{ "*", "", true },        { "**", "abc", true },      { "*b", "b", true },
		{ "*b", "ab", true },     { "*b", "aab", true },      { "*b", "aaab", true },
		{ "*b", "abc", false },   { "a*", "a", true },        { "a*", "ba", false },
		{ "a*c", "abcbc", true }, { "a*c", "abcb", false },   { "*ab*", "aab", true },
		{ "*ab*", "ba", false },  { "a*b*c", "a-b-c", true }, { "a*b*c", "a-c-b", false },
		{ "a", "ab", false },     { "ab", "a", false },       { "*.x.*", "a.y.x.z", true },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		char match[80];

		(void)snprintf(match, sizeof(match), "{ caller: '%s' }", rows[i].pattern);
		use_match(match);
		in.caller = rows[i].caller;
		policy_eval(policy, &in, &d);
		cr_expect((d.verdict == VERDICT_CONFIRM) == rows[i].match, "%s on %s",
		          rows[i].pattern, rows[i].caller);
	}
}

Test(policy, all_conditions_must_hold)
{
	find("py.net.socket", RISK_MEDIUM);
	matches("{ rule: 'py.net.*', risk: medium }");
	differs("{ rule: 'py.net.*', risk: high }");
	differs("{ rule: 'sh.net.*', risk: medium }");
}

Test(policy, the_first_rule_that_matches_decides)
{
	use(HEAD "rules:\n"
	         "  - { name: a, match: { risk: high }, verdict: deny }\n"
	         "  - { name: b, match: { language: python }, verdict: allow, reason: it is }\n"
	         "  - { name: c, match: {}, verdict: confirm }\n");
	expect(VERDICT_ALLOW, "b");
	cr_expect(streq(d.reason, "it is") && streq(d.policy, "test"));
	found.level = RISK_HIGH;
	expect(VERDICT_DENY, "a");
	found.level = RISK_LOW;
	req.language = LANGUAGE_SHELL;
	expect(VERDICT_CONFIRM, "c");
}

Test(policy, a_finding_cannot_hide_behind_many)
{
	static const char both[] =
		HEAD "rules:\n"
		     "  - { name: no, match: { rule: 'sh.net.*' }, verdict: deny }\n"
		     "  - { name: yes, match: { rule: 'sh.ok.*' }, verdict: allow }\n";

	for (size_t i = 0; i < FINDINGS_MAX; i++)
		find("py.other", RISK_MEDIUM);
	use(both);
	expect(VERDICT_DENY, POLICY_RULE_DEFAULT);
	found.truncated = true;
	expect(VERDICT_DENY, "no");
}

Test(policy, what_is_not_listed_allows_nothing)
{
	found.truncated = true;
	use(HEAD "rules: [{ name: yes, match: { rule: '*' }, verdict: allow }]\n");
	expect(VERDICT_DENY, POLICY_RULE_DEFAULT);
}

/* ---- extending ---- */

Test(policy, own_rules_come_before_those_of_the_base)
{
	use(HEAD "extends: strict\nrules:\n"
	         "  - { name: mine, match: { risk: high, caller: 'cli:*' }, verdict: allow }\n");
	found.level = RISK_HIGH;
	expect(VERDICT_ALLOW, "mine");
	in.caller = "token:x";
	expect(VERDICT_CONFIRM, "ask-when-high");
	cr_expect(d.level == LEVEL_STANDARD && !d.self_approve);
}

Test(policy, what_the_base_denies_stays_denied)
{
	use(HEAD "extends: strict\nrules: [{ name: all, match: {}, verdict: allow }]\n");
	req.language = LANGUAGE_SHELL;
	found.level = RISK_CRITICAL;
	expect(VERDICT_DENY, "no-critical-shell");
	found.level = RISK_HIGH;
	expect(VERDICT_ALLOW, "all");
	use(HEAD "extends: strict\nrules: [{ name: none, match: {}, verdict: deny }]\n");
	found.level = RISK_CRITICAL;
	expect(VERDICT_DENY, "none");
}

Test(policy, a_file_may_tighten_what_it_extends)
{
	use(HEAD "extends: permissive\ndefault: deny\n"
	         "floor: { level: strict, tier: jail, network: none,\n"
	         "  limits: { timeout: 2s, memory: 64M, cpus: 0.5 } }\n"
	         "approval: { expires: 1s, remember: nothing, remember_for: 1m, self: false,\n"
	         "  pending: 1 }\n");
	policy_eval(policy, &in, &d);
	cr_expect(d.level == LEVEL_STRICT && d.tier == TIER_JAIL && d.network == NETWORK_NONE);
	cr_expect(d.limits.timeout_ms == 2000 && d.limits.memory_bytes == 64 * MIB);
	cr_expect(d.limits.cpu_milli == 500 && d.limits.pids == 4096);
	cr_expect(d.expires_ms == 1000 && d.remember == REMEMBER_NOTHING);
	cr_expect(d.remember_ms == 60000 && !d.self_approve && d.pending_max == 1);
}

Test(policy, a_file_cannot_loosen_what_it_extends)
{
	static const struct {
		const char *line, *message;
	} rows[] = {
		{ "default: allow", "test.yaml:3:10: default: \"allow\" is looser" },
		{ "floor: { level: degraded-ok }",
		  "test.yaml:3:17: floor.level: \"degraded-ok\" is looser" },
		{ "approval: { expires: 11m }",
		  "test.yaml:3:22: approval.expires: \"11m\" is looser" },
		{ "approval: { remember: digest }",
		  "test.yaml:3:23: approval.remember: \"digest\" is looser" },
		{ "approval: { self: true }", "test.yaml:3:19: approval.self: \"true\" is looser" },
		{ "approval: { pending: 17 }",
		  "test.yaml:3:22: approval.pending: \"17\" is looser" },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		char text[200], message[240];

		(void)snprintf(text, sizeof(text), HEAD "extends: strict\n%s\n", rows[i].line);
		(void)snprintf(message, sizeof(message),
		               "%s than in \"strict\"; a file may only tighten what it extends",
		               rows[i].message);
		refused(text, message);
	}
}

Test(policy, a_file_that_extends_nothing_may_say_what_it_likes)
{
	use(HEAD "default: allow\nfloor: { level: degraded-ok }\n"
	         "approval: { expires: 7d, remember: digest, remember_for: 7d, self: true,\n"
	         "  pending: 4096 }\n");
	expect(VERDICT_ALLOW, POLICY_RULE_DEFAULT);
	cr_expect(d.level == LEVEL_DEGRADED_OK && d.expires_ms == 604800000 && d.self_approve);
	cr_expect(d.remember_ms == 604800000 && d.remember == REMEMBER_DIGEST);
}

/* ---- reading ---- */

Test(policy, the_digest_is_of_the_text_and_of_what_it_extends)
{
	char first[80];

	use(HEAD "rules: []\n");
	(void)snprintf(first, sizeof(first), "%s", policy_digest(policy));
	cr_expect(strlen(first) == 64);
	use(HEAD "rules: []\n");
	cr_expect(streq(first, policy_digest(policy)));
	use(HEAD "rules:  []\n");
	cr_expect(!streq(first, policy_digest(policy)));
}

Test(policy, another_base_is_another_digest)
{
	static const char text[] = HEAD "extends: strict\n";
	uint8_t digest[SHA256_SIZE];
	char hex[SHA256_HEX_SIZE];
	struct sha256 h;

	load("strict");
	sha256_init(&h);
	sha256_put_field(&h, policy_digest(policy), strlen(policy_digest(policy)));
	sha256_put_field(&h, text, strlen(text));
	sha256_finish(&h, digest);
	sha256_hex(digest, hex);
	use(text);
	cr_expect(streq(policy_digest(policy), hex));
}

Test(policy, a_failed_reload_leaves_the_old_policy)
{
	struct policy *next = NULL;

	load("strict");
	cr_expect(policy_parse("new", STR("version: 2\n"), &next, &err) == -EINVAL);
	cr_expect(next == NULL);
	if (next) {
		policy_free(policy);
		policy = next;
	}
	expect(VERDICT_ALLOW, "allow-the-rest");
	cr_expect(streq(d.policy, "strict"));
}

Test(policy, the_name_is_the_files_without_one)
{
	cr_assert(policy_parse("/a/b/team.v1.yaml", STR(HEAD), &policy, &err) == 0);
	cr_expect(streq(policy_name(policy), "team"));
	policy_free(policy);
	policy = NULL;
	cr_assert(policy_parse("/a/b/", STR(HEAD), &policy, &err) == 0);
	cr_expect(streq(policy_name(policy), "unnamed"));
}

Test(policy, what_is_no_policy_file)
{
	cr_expect(policy_load("/nowhere/at/all", &policy, &err) == -ENOENT);
	cr_expect(err.code == ERR_NOT_FOUND && *err.remedy);
	cr_expect(policy_load("/tmp", &policy, &err) == -EINVAL);
	cr_expect(policy == NULL);
}

Test(policy, a_file_that_is_too_large_is_refused)
{
	CLEANUP_FREE char *text = malloc(POLICY_FILE_MAX + 1);

	cr_assert(text);
	memset(text, ' ', POLICY_FILE_MAX + 1);
	memcpy(text, HEAD "#", sizeof(HEAD));
	cr_expect(policy_parse("p", (struct str){ text, POLICY_FILE_MAX + 1 }, &policy, &err) ==
	          -EFBIG);
	cr_expect(policy_parse("p", (struct str){ text, POLICY_FILE_MAX }, &policy, &err) == 0,
	          "%s", err.msg);
}

Test(policy, bounds_on_rules_and_patterns)
{
	CLEANUP_BUF struct buf b = BUF_INIT(POLICY_FILE_MAX);

	buf_puts(&b, HEAD "rules:\n");
	for (size_t i = 0; i < POLICY_RULES_MAX; i++)
		buf_printf(&b, "- { name: r%zu, match: { rule: [a, b] }, verdict: deny }\n", i);
	use(b.data);
	buf_puts(&b, "- { name: more, match: {}, verdict: deny }\n");
	refused(b.data, "test.yaml:3:1: rules: has 513 elements, at most 512");
	b.len = 0;
	buf_puts(&b, HEAD "rules:\n");
	for (size_t i = 0; i < 500; i++)
		buf_printf(&b, "- { name: r%zu, match: { rule: [a, b, c] }, verdict: deny }\n", i);
	refused(b.data, "test.yaml:344:36: rules[341].match.rule[1]: more than 1024 patterns in "
	                "one file");
}

/* ---- decisions together and on a request ---- */

static struct decision decided(const char *text)
{
	struct decision got;

	use(text);
	policy_eval(policy, &in, &got);
	return got;
}

Test(policy, of_two_decisions_the_stricter_counts)
{
	struct decision a = decided(HEAD "name: a\ndefault: allow\n"
	                                 "floor: { limits: { timeout: 5s, memory: 1G } }\n"
	                                 "approval: { self: true, expires: 1m }\n");
	struct decision b = decided(HEAD "name: b\ndefault: confirm\n"
	                                 "floor: { level: strict, network: none, tier: jail,\n"
	                                 "  limits: { timeout: 9s, memory: 64M } }\n"
	                                 "approval: { remember: digest, pending: 2 }\n");
	struct decision ab = a, ba = b;

	decision_combine(&ab, &b);
	decision_combine(&ba, &a);
	cr_expect(ab.verdict == VERDICT_CONFIRM && streq(ab.policy, "b"));
	cr_expect(ab.limits.timeout_ms == 5000 && ab.limits.memory_bytes == 64 * MIB);
	cr_expect(ab.level == LEVEL_STRICT && ab.network == NETWORK_NONE && ab.tier == TIER_JAIL);
	cr_expect(!ab.self_approve && ab.expires_ms == 60000 && ab.pending_max == 2);
	cr_expect(ab.remember == REMEMBER_NOTHING);
	cr_expect(ba.verdict == ab.verdict && streq(ba.policy, "b") && ba.tier == ab.tier);
	cr_expect(memcmp(&ab.limits, &ba.limits, sizeof(ab.limits)) == 0);
	cr_expect(ba.level == ab.level && ba.network == ab.network && !ba.self_approve);
	cr_expect(ba.remember == ab.remember && ba.expires_ms == 60000 && ba.pending_max == 2);
}

Test(policy, two_tiers_at_once_are_denied)
{
	struct decision a = decided(HEAD "name: a\ndefault: allow\nfloor: { tier: jail }\n");
	struct decision b = decided(HEAD "name: b\ndefault: allow\nfloor: { tier: docker }\n");

	decision_combine(&a, &b);
	cr_expect(a.verdict == VERDICT_DENY);
	cr_expect(streq(a.reason, "policy a wants tier jail, policy b tier docker"), "%s",
	          a.reason);
}

Test(policy, a_decision_lowers_limits_and_says_which)
{
	struct decision got = decided(HEAD "default: allow\nfloor: { level: strict, tier: jail,\n"
	                                   "  limits: { timeout: 5s, pids: 4000 } }\n");
	struct request asked = req;
	char changes[DECISION_CHANGES_SIZE];

	cr_assert(decision_apply(&got, &req, &err) == 0, "%s", err.msg);
	cr_expect(req.limits.timeout_ms == 5000 && req.limits.pids == asked.limits.pids);
	cr_expect(req.level == LEVEL_STRICT && req.tier == TIER_JAIL);
	decision_changes(&asked, &req, changes);
	cr_expect(streq(changes, "timeout, level, tier"), "%s", changes);
	asked = req;
	cr_assert(decision_apply(&got, &req, &err) == 0);
	decision_changes(&asked, &req, changes);
	cr_expect(streq(changes, ""), "%s", changes);
}

Test(policy, a_caller_may_ask_for_less)
{
	struct decision got = decided(HEAD "default: allow\nfloor: { limits: { timeout: 5s } }\n");

	req.limits.timeout_ms = 1000;
	req.level = LEVEL_STRICT;
	req.network = NETWORK_NONE;
	cr_assert(decision_apply(&got, &req, &err) == 0);
	cr_expect(req.limits.timeout_ms == 1000 && req.level == LEVEL_STRICT);
	cr_expect(req.network == NETWORK_NONE);
}

static void not_applied(const struct decision *got, const char *message)
{
	struct request before = req;

	err = (struct err){ 0 };
	cr_expect(decision_apply(got, &req, &err) == -EPERM);
	cr_expect(err.code == ERR_DENIED && str_has_prefix(err.msg, message), "%s", err.msg);
	cr_expect(memcmp(&before.limits, &req.limits, sizeof(req.limits)) == 0);
	cr_expect(before.level == req.level && before.tier == req.tier);
	cr_expect(before.network == req.network);
}

Test(policy, a_request_that_insists_on_more_is_refused)
{
	struct decision got =
		decided(HEAD "default: allow\nfloor: { tier: jail, network: none }\n");

	not_applied(&got, "policy test: network loopback is not permitted");
	req.network = NETWORK_NONE;
	req.tier = TIER_DOCKER;
	not_applied(&got, "policy test: tier docker is not permitted");
	req.tier = TIER_JAIL;
	cr_expect(decision_apply(&got, &req, &err) == 0);
}

Test(policy, a_denial_is_never_applied)
{
	struct decision got = decided(HEAD), zero = { 0 };

	not_applied(&got, "policy test: rule default: no rule matches");
	not_applied(&zero, "policy");
}

/* ---- for people ---- */

Test(policy, each_rule_says_why)
{
	struct policy_step s;

	use(HEAD "extends: strict\nrules:\n"
	         "  - { name: a, match: { rule: ['sh.*', 'js.*'] }, verdict: deny }\n"
	         "  - { name: b, match: { rule: 'py.*', caller: 'cli:*' }, verdict: allow }\n");
	find("py.net.socket", RISK_MEDIUM);
	cr_assert(policy_n_rules(policy) == 7);
	cr_assert(policy_try(policy, 0, &in, &s) == 0);
	cr_expect(!s.matched && streq(s.why, "no finding is like sh.*, js.*") && s.line == 4,
	          "%s %u", s.why, s.line);
	cr_assert(policy_try(policy, 1, &in, &s) == 0);
	cr_expect(s.matched && streq(s.why, "rule py.net.socket, caller cli:root"), "%s", s.why);
	cr_assert(policy_try(policy, 2, &in, &s) == 0);
	cr_expect(!s.matched && streq(s.why, "language is python, not shell"), "%s", s.why);
	cr_expect(streq(s.policy, "strict") && streq(s.rule, "no-critical-shell"));
	cr_expect(policy_try(policy, 7, &in, &s) == -EINVAL);
}

static void count_warning(void *data, uint32_t line, const char *rule, const char *what)
{
	char *text = data;
	size_t n = strlen(text);

	(void)snprintf(text + n, 500 - n, "%u %s %.12s|", line, rule, what);
}

static void expect_lint(const char *text, const char *wanted)
{
	char got[500] = "";

	use(text);
	policy_lint(policy, count_warning, got);
	cr_expect(streq(got, wanted), "%s, not %s, in %s", got, wanted, text);
}

Test(policy, lint_finds_rules_that_never_decide)
{
	expect_lint(HEAD "rules:\n"
	                 "  - { name: a, match: { risk: '>=high', rule: 'py.*' }, verdict: deny }\n"
	                 "  - { name: b, match: { risk: high, rule: 'py.net.*' }, verdict: deny }\n"
	                 "  - { name: c, match: { risk: high }, verdict: deny }\n"
	                 "  - { name: d, match: { rule: 'py.net.*' }, verdict: deny }\n"
	                 "  - { name: e, match: { risk: low, complete: false }, verdict: deny }\n"
	                 "  - { name: f, match: {}, verdict: deny }\n"
	                 "  - { name: g, match: { tool: x }, verdict: deny }\n",
	            "4 b never decide|7 e never matche|9 g never decide|");
}

Test(policy, lint_does_not_mind_rules_that_overlap)
{
	expect_lint(
		HEAD
		"rules:\n"
		"  - { name: a, match: { risk: '>=high', rule: 'py.*' }, verdict: deny }\n"
		"  - { name: b, match: { risk: [medium, high], rule: 'py.*' }, verdict: deny }\n"
		"  - { name: c, match: { risk: high, rule: ['py.a', 'sh.a'] }, verdict: deny }\n"
		"  - { name: d, match: { risk: high, rule: '*' }, verdict: deny }\n",
		"");
}

Test(policy, lint_finds_critical_code_that_is_allowed)
{
	expect_lint(HEAD "rules: [{ name: a, match: {}, verdict: allow }]\n", "2 a allows criti|");
	expect_lint(HEAD "default: allow\nrules: []\n", "1 default allows criti|1 default decides "
	                                                "ever|");
	expect_lint(HEAD "rules: [{ name: a, match: { risk: critical }, verdict: deny },\n"
	                 "  { name: b, match: {}, verdict: allow }]\n",
	            "");
	expect_lint(HEAD "floor: { tier: jail }\nrules: [{ name: a, match: {}, verdict: allow }]\n",
	            "");
	expect_lint(HEAD "extends: strict\nrules: [{ name: a, match: {}, verdict: allow }]\n",
	            "3 a allows every|");
}

Test(policy, strict_has_nothing_to_warn_of)
{
	char got[500] = "";

	load("strict");
	policy_lint(policy, count_warning, got);
	cr_expect(streq(got, ""), "%s", got);
}
