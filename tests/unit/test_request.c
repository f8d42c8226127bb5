/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>

#include "model/request.h"

static int read_request(const char *json, struct arena *a, struct request *ret, struct err *err)
{
	return request_from_json(json, strlen(json), a, ret, err);
}

static struct request good(void)
{
	struct request r;

	request_init(&r);
	r.language = LANGUAGE_PYTHON;
	r.code = STR("print(1)");
	return r;
}

static void expect_refused(const struct request *r, const char *msg)
{
	struct err e = { 0 };

	cr_expect(request_check(r, &e) < 0, "should be refused: %s", msg);
	cr_expect(e.code == ERR_INVALID);
	cr_expect(strstr(e.msg, msg), "\"%s\" is not in: %s", msg, e.msg);
}

Test(request, the_defaults_are_stated)
{
	struct request r;

	request_init(&r);
	cr_expect(r.level == LEVEL_STANDARD);
	cr_expect(r.network == NETWORK_LOOPBACK);
	cr_expect(r.tier == TIER_AUTO);
	cr_expect(r.limits.timeout_ms == 30000);
	cr_expect(r.language == LANGUAGE_NONE);
	cr_expect(r.n_args == 0 && r.n_env == 0 && r.n_files == 0 && r.n_tools == 0);
	expect_refused(&r, "language: none given");
}

Test(request, the_smallest_good_request_passes)
{
	struct request r = good();
	struct err e = { 0 };

	cr_expect(request_check(&r, &e) == 0, "%s", e.msg);
}

Test(request, names_and_aliases_of_languages)
{
	static const struct {
		const char *name;
		enum language l; /* NONE: refused */
	} cases[] = {
		{ "python", LANGUAGE_PYTHON },  { "py", LANGUAGE_PYTHON },
		{ "python3", LANGUAGE_PYTHON }, { "javascript", LANGUAGE_JAVASCRIPT },
		{ "js", LANGUAGE_JAVASCRIPT },  { "node", LANGUAGE_JAVASCRIPT },
		{ "shell", LANGUAGE_SHELL },    { "sh", LANGUAGE_SHELL },
		{ "bash", LANGUAGE_SHELL },     { "none", LANGUAGE_NONE },
		{ "", LANGUAGE_NONE },          { "Python", LANGUAGE_NONE },
		{ "ruby", LANGUAGE_NONE },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		enum language l = LANGUAGE_NONE;
		int r = language_from_name(cases[i].name, &l);

		cr_expect((r == 0) == (cases[i].l != LANGUAGE_NONE), "%s", cases[i].name);
		cr_expect(l == cases[i].l, "%s", cases[i].name);
	}
	for (unsigned l = LANGUAGE_PYTHON; l < LANGUAGE_COUNT; l++) {
		enum language back = LANGUAGE_NONE;

		cr_expect(language_from_name(language_name((enum language)l), &back) == 0);
		cr_expect(back == (enum language)l);
	}
	cr_expect_str_eq(language_name(LANGUAGE_COUNT), "none");
}

Test(request, languages_by_extension)
{
	static const struct {
		const char *path;
		enum language l;
	} cases[] = {
		{ "a.py", LANGUAGE_PYTHON },
		{ "dir.js/a.py", LANGUAGE_PYTHON },
		{ "a.js", LANGUAGE_JAVASCRIPT },
		{ "a.mjs", LANGUAGE_JAVASCRIPT },
		{ "a.cjs", LANGUAGE_JAVASCRIPT },
		{ "/x/a.b.sh", LANGUAGE_SHELL },
		{ "a.bash", LANGUAGE_SHELL },
		{ "a.rb", LANGUAGE_NONE },
		{ "py", LANGUAGE_NONE },
		{ ".py", LANGUAGE_NONE },
		{ "a.py/b", LANGUAGE_NONE },
		{ "a.", LANGUAGE_NONE },
		{ "", LANGUAGE_NONE },
		{ "dir/", LANGUAGE_NONE },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++)
		cr_expect(language_from_path(cases[i].path) == cases[i].l, "%s", cases[i].path);
}

Test(request, names_of_networks_and_tiers)
{
	enum network n = NETWORK_NONE;
	enum tier t = TIER_AUTO;

	for (unsigned i = 0; i < NETWORK_COUNT; i++) {
		cr_expect(network_from_name(network_name((enum network)i), &n) == 0);
		cr_expect(n == (enum network)i);
	}
	for (unsigned i = 0; i < TIER_COUNT; i++) {
		cr_expect(tier_from_name(tier_name((enum tier)i), &t) == 0);
		cr_expect(t == (enum tier)i);
	}
	cr_expect(tier_from_name("subprocess", &t) == 0 && t == TIER_JAIL);
	cr_expect(tier_from_name("docker_simple", &t) == 0 && t == TIER_DOCKER);
	cr_expect(tier_from_name("aio_sandbox", &t) == 0 && t == TIER_AIO);
	cr_expect(tier_from_name("vm", &t) == -EINVAL);
	cr_expect(network_from_name("allowlist", &n) == -EINVAL);
	cr_expect_str_eq(network_name(NETWORK_COUNT), "none");
	cr_expect_str_eq(tier_name(TIER_COUNT), "none");
}

Test(request, box_paths)
{
	static const struct {
		const char *path, *msg; /* NULL: taken */
	} cases[] = {
		{ "a", NULL },
		{ "a/b/c.txt", NULL },
		{ ".hidden", NULL },
		{ "..a/...", NULL },
		{ "a b", NULL },
		{ "-rf", NULL },
		{ "\xff\xfe", NULL },
		{ "", "is empty" },
		{ "/", "is absolute" },
		{ "/etc/passwd", "is absolute" },
		{ ".", "part \".\"" },
		{ "./a", "part \".\"" },
		{ "a/.", "part \".\"" },
		{ "..", "part \"..\"" },
		{ "../a", "part \"..\"" },
		{ "a/../b", "part \"..\"" },
		{ "a/..", "part \"..\"" },
		{ "a//b", "empty part" },
		{ "a/", "empty part" },
	};
	char longer[REQUEST_PATH_MAX + 2];
	struct err e = { 0 };

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		int r = box_path_check(cases[i].path, &e);

		cr_expect((r == 0) == !cases[i].msg, "%s: %s", cases[i].path, e.msg);
		cr_expect(!cases[i].msg || strstr(e.msg, cases[i].msg), "%s", e.msg);
		cr_expect(!cases[i].msg || e.remedy[0]);
	}
	for (size_t i = 0; i < sizeof(longer); i++)
		longer[i] = i % 2 ? '/' : 'a';
	longer[REQUEST_PATH_MAX + 1] = '\0';
	cr_expect(box_path_check(longer, &e) < 0);
	cr_expect(strstr(e.msg, "too long"), "%s", e.msg);
	longer[REQUEST_PATH_MAX - 1] = '\0';
	cr_expect(box_path_check(longer, &e) == 0);
	memset(longer, 'a', 256);
	longer[256] = '\0';
	cr_expect(box_path_check(longer, &e) < 0);
	longer[255] = '\0';
	cr_expect(box_path_check(longer, &e) == 0);
}

Test(request, environment_entries)
{
	static const struct {
		const char *entry, *msg; /* NULL: taken */
	} cases[] = {
		{ "A=1", NULL },
		{ "_a9=", NULL },
		{ "PATH=/x", NULL },
		{ "HOME=/workspace", NULL },
		{ "A==", NULL },
		{ "PYTHONHASHSEED=0", NULL },
		{ "NODE_ENV=test", NULL },
		{ "ENVIRONMENT=x", NULL },
		{ "MY_LD_PRELOAD=x", NULL },
		{ "PROXY=x", NULL },
		{ "ld_preload=x", NULL },
		{ "A", "has no value" },
		{ "", "has no value" },
		{ "=x", "is not a name" },
		{ "1A=x", "is not a name" },
		{ "A B=x", "is not a name" },
		{ "A-B=x", "is not a name" },
		{ "\xc3\xa9=x", "is not a name" },
		{ "LD_PRELOAD=x", "dynamic loader" },
		{ "LD_LIBRARY_PATH=x", "dynamic loader" },
		{ "LD_=x", "dynamic loader" },
		{ "PYTHONSTARTUP=x", "reserved" },
		{ "PYTHONHOME=x", "reserved" },
		{ "PYTHONPATH=x", "reserved" },
		{ "NODE_OPTIONS=x", "reserved" },
		{ "BASH_ENV=x", "reserved" },
		{ "ENV=x", "reserved" },
		{ "IFS=x", "reserved" },
		{ "GCONV_PATH=x", "reserved" },
		{ "LOCPATH=x", "reserved" },
		{ "MALLOC_CHECK_=3", "reserved" },
		{ "GLIBC_TUNABLES=x", "reserved" },
		{ "HTTP_PROXY=x", "reserved" },
		{ "https_proxy=x", "reserved" },
		{ "No_Proxy=x", "reserved" },
		{ "PROMPT_COMMAND=x", "reserved" },
		{ "SHELLOPTS=x", "reserved" },
		{ "BASHOPTS=x", "reserved" },
		{ "PS4=x", "reserved" },
		{ "BASH_FUNC_ls%%=() { :; }", "reserved" },
	};
	struct err e = { 0 };

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		int r = env_check(cases[i].entry, &e);

		cr_expect((r == 0) == !cases[i].msg, "%s: %s", cases[i].entry, e.msg);
		cr_expect(!cases[i].msg || strstr(e.msg, cases[i].msg), "%s: %s", cases[i].entry,
		          e.msg);
		cr_expect(!cases[i].msg || e.remedy[0], "%s has no remedy", cases[i].entry);
	}
}

Test(request, one_megabyte_of_environment_value_is_refused)
{
	char *entry = malloc(MIB + 3);
	struct err e = { 0 };

	cr_assert(entry);
	memset(entry, 'x', MIB + 2);
	entry[1] = '=';
	entry[MIB + 2] = '\0';
	cr_expect(env_check(entry, &e) < 0);
	cr_expect(strstr(e.msg, "more than 65536 bytes"), "%s", e.msg);
	entry[REQUEST_ARG_LEN_MAX] = '\0';
	cr_expect(env_check(entry, &e) == 0);
	free(entry);
}

Test(request, code_is_bounded_and_holds_no_nul)
{
	struct request r = good();
	char *code = malloc(REQUEST_CODE_MAX + 1);

	cr_assert(code);
	memset(code, '#', REQUEST_CODE_MAX + 1);
	r.code = (struct str){ code, REQUEST_CODE_MAX };
	cr_expect(request_check(&r, NULL) == 0);
	r.code.n++;
	expect_refused(&r, "code: 1048577 bytes, at most 1048576");
	r.code = (struct str){ "a\0b", 3 };
	expect_refused(&r, "code: must not hold a NUL");
	r.code = (struct str){ 0 };
	expect_refused(&r, "code: none given");
	free(code);
}

Test(request, script_names_are_plain_file_names)
{
	static const char *const bad[] = { "a/b.py", "../x", "/x", "", ".", "..", "-c" };
	struct request r = good();

	r.name = "job.py";
	cr_expect(request_check(&r, NULL) == 0);
	for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
		r.name = bad[i];
		expect_refused(&r, "name: ");
	}
}

Test(request, corrupt_choices_are_refused)
{
	struct request r = good();

	r.language = (enum language)77;
	expect_refused(&r, "language");
	r = good();
	r.level = LEVEL_COUNT;
	expect_refused(&r, "level");
	r = good();
	r.tier = TIER_COUNT;
	expect_refused(&r, "tier");
	r = good();
	r.network = NETWORK_COUNT;
	expect_refused(&r, "network");
	r = good();
	r.limits.pids = 0;
	expect_refused(&r, "pids: 0 is out of range");
}

Test(request, arguments_and_environment_are_bounded_together)
{
	static char big[REQUEST_ARG_LEN_MAX + 2];
	const char *list[REQUEST_ARGS_MAX + 1];
	struct request r = good();

	for (size_t i = 0; i < ELEMENTSOF(list); i++)
		list[i] = "";
	r.args = list;
	r.n_args = REQUEST_ARGS_MAX;
	cr_expect(request_check(&r, NULL) == 0);
	r.n_args++;
	expect_refused(&r, "args: 513 elements, at most 512");

	memset(big, 'x', REQUEST_ARG_LEN_MAX + 1);
	list[0] = big;
	r.n_args = 1;
	expect_refused(&r, "args[0]: more than 65536 bytes");
	big[REQUEST_ARG_LEN_MAX] = '\0';
	cr_expect(request_check(&r, NULL) == 0);
	for (size_t i = 0; i < 8; i++)
		list[i] = big;
	r.n_args = 8;
	expect_refused(&r, "args and env: 524296 bytes, at most 524288");
}

Test(request, an_environment_name_is_given_once)
{
	const char *env[] = { "A=1", "AB=2", "A=3" };
	struct request r = good();

	r.env = env;
	r.n_env = 2;
	cr_expect(request_check(&r, NULL) == 0);
	r.n_env = 3;
	expect_refused(&r, "env.A: given twice");
}

Test(request, file_paths_do_not_clash)
{
	static const struct {
		const char *a, *b, *msg;
	} cases[] = {
		{ "a", "b", NULL },
		{ "a/b", "a/c", NULL },
		{ "ab", "a/c", NULL },
		{ "a", "a", "clashes with files[0]" },
		{ "a", "a/b", "clashes with files[0]" },
		{ "a/b/c", "a/b", "clashes with files[0]" },
		{ "x", "main.py", "place of the code" },
		{ "main.py/x", "y", "place of the code" },
		{ "x", "main.js", NULL },
		{ "x", "../y", "files[1].path: " },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		struct request_file files[] = { { .path = cases[i].a }, { .path = cases[i].b } };
		struct request r = good();

		r.files = files;
		r.n_files = 2;
		if (cases[i].msg)
			expect_refused(&r, cases[i].msg);
		else
			cr_expect(request_check(&r, NULL) == 0, "%s %s", cases[i].a, cases[i].b);
	}
}

Test(request, a_named_script_frees_the_usual_name)
{
	struct request_file file = { .path = "main.py" };
	struct request r = good();

	r.files = &file;
	r.n_files = 1;
	r.name = "other.py";
	cr_expect(request_check(&r, NULL) == 0);
	file.path = "other.py";
	expect_refused(&r, "place of the code");
}

Test(request, files_are_bounded_together)
{
	struct request_file files[] = {
		{ .path = "a", .data = { "", REQUEST_FILE_SUM_MAX } },
		{ .path = "b", .data = { "", 1 } },
	};
	struct request r = good();

	r.files = files;
	r.n_files = 1;
	cr_expect(request_check(&r, NULL) == 0);
	r.n_files = 2;
	expect_refused(&r, "files: 67108865 bytes together");
}

Test(request, names_follow_their_grammar)
{
	static const char *const bad[] = { "", "a b", "a/b", "\xc3\xa9", "a\n", "a;b" };
	char longer[REQUEST_NAME_MAX + 2];
	struct request r = good();

	memset(longer, 'a', sizeof(longer));
	longer[REQUEST_NAME_MAX] = '\0';
	r.session_id = longer;
	r.idempotency_key = "Az09_.:-";
	cr_expect(request_check(&r, NULL) == 0);
	longer[REQUEST_NAME_MAX] = 'a';
	longer[REQUEST_NAME_MAX + 1] = '\0';
	expect_refused(&r, "session_id");
	for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
		r = good();
		r.session_id = bad[i];
		expect_refused(&r, "session_id: ");
		r = good();
		r.idempotency_key = bad[i];
		expect_refused(&r, "idempotency_key: ");
		r = good();
		r.tools = (const char *[]){ "ok", bad[i] };
		r.n_tools = 2;
		expect_refused(&r, "tools[1]: ");
	}
}

Test(request, labels_are_few_and_of_text)
{
	static const char *const bad[] = { "", "a\nb", "\x7f", "\x01" };
	const char *labels[REQUEST_LABELS_MAX + 1];
	struct request r = good();

	for (size_t i = 0; i < ELEMENTSOF(labels); i++)
		labels[i] = "a b/\xc3\xa9";
	r.labels = labels;
	r.n_labels = REQUEST_LABELS_MAX;
	cr_expect(request_check(&r, NULL) == 0);
	r.n_labels++;
	expect_refused(&r, "labels");
	r.n_labels = 2;
	for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
		labels[1] = bad[i];
		expect_refused(&r, "labels[1]: ");
	}
}

Test(request, json_fills_in_every_field)
{
	static const char json[] =
		"{\"code\":\"print(1)\",\"language\":\"py\",\"name\":\"job.py\",\"timeout_ms\":"
		"1500,"
		"\"limits\":{\"memory_bytes\":67108864,\"cpus\":0.5,\"cpu_ms\":2000,\"pids\":7,"
		"\"open_files\":32,\"file_bytes\":8192,\"disk_bytes\":131072,\"inodes\":100,"
		"\"output_bytes\":2048},\"env\":{\"A\":\"1\",\"B\":\"\"},\"stdin\":\"x\\u0000y\","
		"\"args\":[\"-v\",\"\"],\"files\":[{\"path\":\"d/a\",\"content\":\"hi\"},"
		"{\"path\":\"b\",\"content_base64\":\"AP8=\",\"executable\":true}],"
		"\"network\":\"none\",\"tier\":\"subprocess\",\"level\":\"strict\","
		"\"session_id\":\"s:1\",\"tools\":[\"search\",\"fs.read\"],"
		"\"idempotency_key\":\"k-1\"}";
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct request r;
	struct err e = { 0 };

	cr_assert(read_request(json, &a, &r, &e) == 0, "%s", e.msg);
	cr_expect(r.language == LANGUAGE_PYTHON);
	cr_expect(r.code.n == 8 && memcmp(r.code.p, "print(1)", 9) == 0);
	cr_expect_str_eq(r.name, "job.py");
	cr_expect(r.limits.timeout_ms == 1500);
	cr_expect(r.limits.memory_bytes == 64 * MIB);
	cr_expect(r.limits.cpu_milli == 500);
	cr_expect(r.limits.cpu_ms == 2000);
	cr_expect(r.limits.pids == 7);
	cr_expect(r.limits.open_files == 32);
	cr_expect(r.limits.file_bytes == 8192);
	cr_expect(r.limits.disk_bytes == 131072);
	cr_expect(r.limits.inodes == 100);
	cr_expect(r.limits.output_bytes == 2048);
	cr_assert(r.n_env == 2);
	cr_expect_str_eq(r.env[0], "A=1");
	cr_expect_str_eq(r.env[1], "B=");
	cr_expect(r.stdin_data.n == 3 && memcmp(r.stdin_data.p, "x\0y", 3) == 0);
	cr_assert(r.n_args == 2);
	cr_expect_str_eq(r.args[0], "-v");
	cr_expect_str_eq(r.args[1], "");
	cr_assert(r.n_files == 2);
	cr_expect_str_eq(r.files[0].path, "d/a");
	cr_expect(r.files[0].data.n == 2 && !r.files[0].executable);
	cr_expect(r.files[1].data.n == 2 && r.files[1].executable);
	cr_expect(memcmp(r.files[1].data.p, "\0\xff", 2) == 0);
	cr_expect(r.network == NETWORK_NONE);
	cr_expect(r.tier == TIER_JAIL);
	cr_expect(r.level == LEVEL_STRICT);
	cr_expect_str_eq(r.session_id, "s:1");
	cr_expect_str_eq(r.idempotency_key, "k-1");
	cr_assert(r.n_tools == 2);
	cr_expect_str_eq(r.tools[1], "fs.read");
}

Test(request, json_keeps_nothing_of_the_text)
{
	char json[] = "{\"code\":\"print(1)\",\"language\":\"py\",\"args\":[\"abc\"]}";
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct request r;

	cr_assert(read_request(json, &a, &r, NULL) == 0);
	memset(json, 'Z', sizeof(json) - 1);
	cr_expect_str_eq(r.args[0], "abc");
	cr_expect_str_eq(r.code.p, "print(1)");
}

Test(request, a_refused_json_leaves_the_output_alone)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct request r = { .n_args = 77 };
	struct err e = { 0 };

	cr_expect(read_request("{\"code\":\"x\",\"language\":\"cobol\"}", &a, &r, &e) < 0);
	cr_expect(r.n_args == 77);
	cr_expect(strstr(e.msg, "language: \"cobol\" is not known"), "%s", e.msg);
	cr_expect(strstr(e.remedy, "python, javascript, shell"), "%s", e.remedy);
}

Test(request, a_small_arena_is_a_limit)
{
	static const char json[] = "{\"code\":\"print(1)\",\"language\":\"py\",\"stdin\":\"x\","
				   "\"env\":{\"A\":\"1\"},\"args\":[\"a\"],"
				   "\"files\":[{\"path\":\"a\",\"content\":\"\"}]}";
	size_t n = 0;

	for (;; n++) {
		CLEANUP_ARENA struct arena a = ARENA_INIT(n);
		struct request r;
		struct err e = { 0 };

		if (read_request(json, &a, &r, &e) == 0)
			break;
		cr_assert(e.code == ERR_LIMIT, "arena of %zu bytes: %s", n, e.msg);
		cr_assert(n < 10000);
	}
	cr_expect(n > 50);
}

Test(request, json_of_many_small_values_is_refused_before_it_is_built)
{
	size_t n = 4 * MIB;
	char *json = malloc(n);
	CLEANUP_ARENA struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	struct request r;
	struct err e = { 0 };

	cr_assert(json);
	json[0] = '[';
	for (size_t i = 1; i + 2 < n; i += 3)
		memcpy(json + i, "[],", 3);
	cr_expect(request_from_json(json, n - 3, &a, &r, &e) < 0);
	cr_expect(strstr(e.msg, "more than 16384 values"), "%s", e.msg);
	free(json);
}
