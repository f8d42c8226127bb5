/* SPDX-License-Identifier: Apache-2.0 */
/* brigd's settings: where they come from, what they may be. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "daemon/config_impl.h"

#define EXAMPLE "dist/brigd.yaml"

static char dir[64], file[96];
static struct daemon_config c;
static struct err err;

static void clean_environment(void)
{
	static const char *const names[] = {
		"BRIGD_CONFIG",     "BRIGD_SOCKET",
		"BRIGD_LISTEN",     "BRIGD_STATE_DIR",
		"BRIGD_POLICY",     "BRIGD_LOG_LEVEL",
		"BRIGD_LOG_FORMAT", "BRIG_STATE_DIR",
		"BRIG_POLICY",      NULL,
	};

	for (size_t i = 0; names[i]; i++)
		(void)unsetenv(names[i]);
}

static void begin(void)
{
	clean_environment();
	(void)snprintf(dir, sizeof(dir), "/tmp/ut-brig-config-XXXXXX");
	cr_assert(mkdtemp(dir) != NULL);
	(void)snprintf(file, sizeof(file), "%s/brigd.yaml", dir);
	memset(&c, 0, sizeof(c));
	memset(&err, 0, sizeof(err));
}

static void end(void)
{
	config_done(&c);
	(void)unlink(file);
	(void)rmdir(dir);
}

TestSuite(config, .init = begin, .fini = end);

static void write_file(const char *text)
{
	FILE *f = fopen(file, "we");

	cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
	cr_assert(chmod(file, 0600) == 0);
}

/* Of the file with this text (NULL: no file), and these words; NULL ends them. */
static int load(const char *text, const char *const *words)
{
	char *argv[24] = { (char *)(uintptr_t) "brigd" };
	int argc = 1;

	if (text) {
		write_file(text);
		argv[argc++] = (char *)(uintptr_t) "--config";
		argv[argc++] = file;
	}
	for (; words && *words; words++)
		argv[argc++] = (char *)(uintptr_t)*words;
	config_done(&c);
	memset(&c, 0, sizeof(c));
	memset(&err, 0, sizeof(err));
	return config_load(argc, argv, &c, &err);
}

#define LOAD(text, ...)    load(text, (const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL })
#define ACCEPT(text, ...)  cr_assert(LOAD(text, __VA_ARGS__) >= 0, "%s", err.msg)
#define REFUSE(part, text) refuse(__LINE__, part, text)

static void refuse(int line, const char *part, const char *text)
{
	cr_assert(load(text, NULL) < 0, "line %d: taken: %s", line, text);
	cr_assert(err.code == ERR_INVALID && strstr(err.msg, part),
	          "line %d: \"%s\" is not in \"%s\"", line, part, err.msg);
}

/* ---- defaults and precedence ---- */

Test(config, without_a_file_the_defaults_hold)
{
	cr_assert(setenv("BRIGD_CONFIG", "", 1) == 0);
	ACCEPT("# nothing\n");
	cr_assert(c.running_max == 64 && c.queue_max == 1024 && c.acquire_ms == 10000);
	cr_assert(c.http.connections == 10500 && c.http.body_bytes == 16 * MIB);
	cr_assert(c.keep_results == 1000 && c.keep_hours == 24 && c.drain_ms == 30000);
	cr_assert(c.socket_mode == 0600 && !c.socket && !c.n_tcp && !c.allow_remote);
	cr_assert(!c.policy && streq(c.confirm, "ask") && streq(c.log_level, "info"));
	cr_assert(c.quota.runs_per_s == 0 && c.n_webhooks == 0 && !c.otlp);
}

Test(config, every_number_starts_at_its_default_and_within_its_bounds)
{
	ACCEPT("# nothing\n");
	for (size_t i = 0; i < config_numbers_n; i++) {
		const struct config_number *n = &config_numbers[i];
		uint64_t got = config_number_get(&c, n);

		cr_expect(got == n->def, "%s.%s", n->group, n->key);
		cr_expect(!n->def || (n->def >= n->min && n->def <= n->max), "%s", n->key);
		cr_expect(n->size == 8 || n->max <= UINT32_MAX, "%s does not fit", n->key);
		cr_expect(n->min > 0, "%s: zero must not be taken", n->key);
	}
}

Test(config, pools_have_defaults_by_language)
{
	ACCEPT("# nothing\n");
	cr_assert(c.shapes[LANGUAGE_PYTHON].min == 2 && c.shapes[LANGUAGE_PYTHON].max == 16);
	cr_assert(c.shapes[LANGUAGE_JAVASCRIPT].min == 1 && c.shapes[LANGUAGE_JAVASCRIPT].max == 8);
	cr_assert(c.shapes[LANGUAGE_SHELL].idle_ms == 300000 && !c.shapes[LANGUAGE_SHELL].eager);
	cr_assert(c.shapes[LANGUAGE_SHELL].language == LANGUAGE_SHELL);
	cr_assert(c.shapes[LANGUAGE_NONE].language == LANGUAGE_NONE);
}

Test(config, environment_beats_the_file_and_flags_beat_both)
{
	static const char text[] = "state_dir: /f\npolicy: strict\nlog: {level: error}\n"
				   "listen: {socket: /f.sock, tcp: ['127.0.0.1:1']}\n";

	ACCEPT(text);
	cr_assert(streq(c.state_dir, "/f") && streq(c.policy, "strict"));
	cr_assert(setenv("BRIGD_STATE_DIR", "/e", 1) == 0);
	cr_assert(setenv("BRIGD_SOCKET", "/e.sock", 1) == 0);
	cr_assert(setenv("BRIGD_LISTEN", "127.0.0.1:2,[::1]:2", 1) == 0);
	cr_assert(setenv("BRIGD_LOG_LEVEL", "debug", 1) == 0);
	ACCEPT(text);
	cr_assert(streq(c.state_dir, "/e") && streq(c.socket, "/e.sock") && c.n_tcp == 2);
	cr_assert(streq(c.log_level, "debug") && streq(c.policy, "strict"));
	ACCEPT(text, "--state-dir", "/a", "--socket=/a.sock", "--listen", "127.0.0.1:3",
	       "--log-level", "warning", "--log-format=json", "--confirm", "deny");
	cr_assert(streq(c.state_dir, "/a") && streq(c.socket, "/a.sock") && c.n_tcp == 1);
	cr_assert(streq(c.tcp[0], "127.0.0.1:3") && streq(c.log_level, "warning"));
	cr_assert(streq(c.log_format, "json") && streq(c.confirm, "deny"));
}

Test(config, the_commands_variables_count_only_where_nothing_else_does)
{
	cr_assert(setenv("BRIG_POLICY", "permissive", 1) == 0);
	ACCEPT("policy: strict\n");
	cr_assert(streq(c.policy, "strict"));
	ACCEPT("# nothing\n");
	cr_assert(streq(c.policy, "permissive"));
	cr_assert(setenv("BRIGD_POLICY", "strict", 1) == 0);
	ACCEPT("# nothing\n");
	cr_assert(streq(c.policy, "strict"));
}

Test(config, the_variable_names_the_file)
{
	write_file("drain: 7s\n");
	cr_assert(setenv("BRIGD_CONFIG", file, 1) == 0);
	cr_assert(LOAD(NULL) >= 0, "%s", err.msg);
	cr_assert(c.drain_ms == 7000 && streq(c.file, file));
}

Test(config, a_file_that_was_named_must_be_there)
{
	cr_assert(LOAD(NULL, "--config", "/nonexistent/brigd.yaml") < 0);
	cr_assert(err.code == ERR_NOT_FOUND && *err.remedy);
}

Test(config, a_file_that_others_can_write_is_refused)
{
	write_file("drain: 7s\n");
	cr_assert(chmod(file, 0606) == 0);
	cr_assert(LOAD(NULL, "--config", file) < 0);
	cr_assert(err.code == ERR_DENIED && *err.remedy, "%s", err.msg);
}

Test(config, relative_paths_count_from_here_on_the_command_line_only)
{
	cr_assert(chdir("/tmp") == 0);
	ACCEPT("# nothing\n", "--state-dir", "s", "--socket", "x/y.sock", "--policy", "./strict");
	cr_assert(streq(c.state_dir, "/tmp/s") && streq(c.socket, "/tmp/x/y.sock"));
	cr_assert(streq(c.policy, "/tmp/./strict"));
	REFUSE("state_dir: \"s\" is no absolute path", "state_dir: s\n");
	REFUSE("policy: \"team.yaml\" is neither", "policy: team.yaml\n");
}

Test(config, the_socket_can_be_switched_off)
{
	ACCEPT("listen: {socket: none}\n");
	cr_assert(c.socket && !*c.socket);
	ACCEPT("listen: {socket: /x.sock}\n", "--socket", "none");
	cr_assert(c.socket && !*c.socket);
}

/* ---- words ---- */

Test(config, help_and_version_need_no_file)
{
	cr_assert(setenv("BRIGD_CONFIG", "/nonexistent", 1) == 0);
	cr_assert(LOAD(NULL, "--help") >= 0 && c.help);
	cr_assert(LOAD(NULL, "-h") >= 0 && c.help);
	cr_assert(LOAD(NULL, "--version") >= 0 && c.version);
	cr_assert(LOAD(NULL, "--openapi") >= 0 && c.openapi);
	cr_assert(LOAD(NULL, "--check-config") < 0);
}

Test(config, words_that_are_not_options_are_refused)
{
	static const char *const wrong[] = { "--bogus",    "serve",     "--socket", "--socket=",
		                             "--help=yes", "-x",        "",         "--",
		                             "--socke",    "--policy=", "--confirm" };

	for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
		cr_expect(LOAD(NULL, wrong[i]) < 0, "%s", wrong[i]);
		cr_expect(err.code == ERR_INVALID && *err.remedy, "%s: %s", wrong[i], err.msg);
	}
}

Test(config, a_wrong_flag_is_named)
{
	cr_assert(LOAD("# nothing\n", "--confirm", "perhaps") < 0);
	cr_assert(str_has_prefix(err.msg, "--confirm: no such value \"perhaps\""), "%s", err.msg);
	cr_assert(LOAD("# nothing\n", "--listen", "localhost:7070") < 0);
	cr_assert(str_has_prefix(err.msg, "--listen: "), "%s", err.msg);
	cr_assert(LOAD("# nothing\n", "--socket", "/a\nb") < 0 && !strchr(err.msg, '\n'));
	cr_assert(setenv("BRIGD_LOG_LEVEL", "loud", 1) == 0);
	cr_assert(LOAD("# nothing\n") < 0);
	cr_assert(str_has_prefix(err.msg, "BRIGD_LOG_LEVEL: "), "%s", err.msg);
}

Test(config, listen_may_be_given_eight_times)
{
	const char *words[2 * (CONFIG_LISTEN_MAX + 1) + 1] = { NULL };
	char text[CONFIG_LISTEN_MAX + 1][24];

	for (int i = 0; i <= CONFIG_LISTEN_MAX; i++) {
		(void)snprintf(text[i], sizeof(text[i]), "127.0.0.1:%d", 7000 + i);
		words[(size_t)i * 2] = "--listen";
		words[(size_t)i * 2 + 1] = text[i];
	}
	cr_assert(load("# nothing\n", words) < 0);
	cr_assert(strstr(err.msg, "too often"), "%s", err.msg);
	words[(size_t)CONFIG_LISTEN_MAX * 2] = NULL;
	cr_assert(load("# nothing\n", words) >= 0 && c.n_tcp == CONFIG_LISTEN_MAX);
}

Test(config, the_variable_holds_eight_addresses_too)
{
	char text[256] = "";
	size_t n = 0;

	for (int i = 0; i <= CONFIG_LISTEN_MAX; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s127.0.0.1:%d", i ? "," : "",
		                      7000 + i);
	cr_assert(setenv("BRIGD_LISTEN", text, 1) == 0);
	cr_assert(LOAD("# nothing\n") < 0 && strstr(err.msg, "BRIGD_LISTEN: at most 8"), "%s",
	          err.msg);
	*strrchr(text, ',') = '\0';
	cr_assert(setenv("BRIGD_LISTEN", text, 1) == 0);
	ACCEPT("# nothing\n");
	cr_assert(c.n_tcp == CONFIG_LISTEN_MAX);
}

/* ---- the file ---- */

Test(config, an_unknown_key_is_refused_with_its_place)
{
	REFUSE("brigd.yaml:2:3: limits.runing: no such key", "limits:\n  runing: 4\n");
	REFUSE("brigd.yaml:1:1: listn: no such key", "listn: {}\n");
	REFUSE("pool.ruby: no such key", "pool: {ruby: {min: 1}}\n");
	REFUSE("webhooks[0].uri: no such key", "webhooks: [{uri: 'http://x/'}]\n");
	REFUSE("is there twice", "drain: 1s\ndrain: 2s\n");
}

Test(config, a_number_out_of_range_is_refused_and_the_range_is_told)
{
	REFUSE("limits.running: \"0\" is no whole number from 1 to 4096", "limits: {running: 0}\n");
	REFUSE("from 1KiB to 128MiB", "limits: {body: 1GiB}\n");
	REFUSE("\"-1\" is no time", "drain: -1\n");
	REFUSE("is no time", "limits: {idle: 1d}\n");
	REFUSE("is no whole number", "limits: {queue: 1e3}\n");
	REFUSE("is no whole number", "limits: {queue: 99999999999999999999}\n");
	REFUSE("nor none", "quota: {concurrent: 0}\n");
	REFUSE("must be a text", "limits: {queue: [1]}\n");
	REFUSE("must be a text", "limits: {queue: }\n");
	REFUSE("must be a map", "limits: 3\n");
}

Test(config, every_number_refuses_zero_and_what_is_beyond_its_bounds)
{
	char value[CONFIG_SHOW_SIZE];

	for (size_t i = 0; i < config_numbers_n; i++) {
		const struct config_number *n = &config_numbers[i];
		const char *unit = n->kind == CONFIG_MS ? "ms" : "";
		const uint64_t tries[] = { 0, n->min - 1, n->max + 1, n->min, n->max };

		for (size_t k = 0; k < ELEMENTSOF(tries); k++) {
			(void)snprintf(value, sizeof(value), "%llu%s", (unsigned long long)tries[k],
			               unit);
			memset(&err, 0, sizeof(err));
			cr_expect((config_number_set(&c, n, value, &err) >= 0) == (k >= 3),
			          "%s.%s: %s", n->group, n->key, value);
			cr_expect(k < 3 || config_number_get(&c, n) == tries[k], "%s", n->key);
		}
	}
}

Test(config, sizes_and_times_take_their_units)
{
	ACCEPT("limits: {body: 2MiB, header: 64K, idle: 250ms, acquire: 30s}\n"
	       "drain: 5m\nkeep: {bytes: 1G, hours: 48}\nquota: {bytes_per_minute: 1MiB}\n");
	cr_assert(c.http.body_bytes == 2 * MIB && c.http.header_bytes == 64 * KIB);
	cr_assert(c.http.idle_ms == 250 && c.acquire_ms == 30000 && c.drain_ms == 300000);
	cr_assert(c.keep_bytes == GIB && c.keep_hours == 48 && c.quota.bytes_per_min == MIB);
}

Test(config, bodies_together_are_not_less_than_one)
{
	cr_assert(LOAD("limits: {body: 32MiB, bodies: 16MiB}\n") < 0);
	cr_assert(err.code == ERR_INVALID && strstr(err.msg, "limits.bodies"), "%s", err.msg);
}

Test(config, a_socket_mode_is_octal_and_never_executable)
{
	ACCEPT("listen: {socket_mode: \"0660\"}\n");
	cr_assert(c.socket_mode == 0660);
	ACCEPT("listen: {socket_mode: 666}\n");
	cr_assert(c.socket_mode == 0666);
	REFUSE("is no mode", "listen: {socket_mode: 0777}\n");
	REFUSE("is no mode", "listen: {socket_mode: 0060}\n");
	REFUSE("is no mode", "listen: {socket_mode: 0690}\n");
	REFUSE("is no mode", "listen: {socket_mode: 00000600}\n");
	REFUSE("is no mode", "listen: {socket_mode: rw}\n");
}

Test(config, a_socket_path_is_absolute_and_fits_the_kernel)
{
	char text[256], path[128];

	REFUSE("is no absolute path", "listen: {socket: brigd.sock}\n");
	REFUSE("is no absolute path", "listen: {socket: /run/brig/}\n");
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[108] = '\0';
	(void)snprintf(text, sizeof(text), "listen: {socket: %s}\n", path);
	REFUSE("at most 107", text);
	cr_assert(*err.remedy);
	path[107] = '\0';
	(void)snprintf(text, sizeof(text), "listen: {socket: %s}\n", path);
	ACCEPT(text);
}

Test(config, addresses_are_numbers_with_a_port)
{
	static const char *const wrong[] = {
		"localhost:7070",  ":7070",           "*:7070",    "127.0.0.1",
		"127.0.0.1:0",     "127.0.0.1:",      "127.1:80",  "::1:7070",
		"[::1]",           "[::1:7070",       "[::1]7070", "[127.0.0.1]:1",
		"127.0.0.1:65536", "127.0.0.1:+1",    "[]:80",     "[::ffff:127.0.0.1]:80",
		"127.0.0.1:80 ",   "[fe80::1%lo]:80",
	};
	char text[128];

	ACCEPT("listen: {tcp: ['127.0.0.1:7070', '[::1]:7070', '127.8.8.8:1']}\n");
	cr_assert(c.n_tcp == 3);
	for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
		(void)snprintf(text, sizeof(text), "listen: {tcp: ['%s']}\n", wrong[i]);
		REFUSE("listen.tcp[0]: ", text);
	}
	REFUSE("is there twice", "listen: {tcp: ['127.0.0.1:1', '127.0.0.1:1']}\n");
}

Test(config, an_address_that_others_reach_must_be_meant)
{
	static const char *const wide[] = { "0.0.0.0:80", "[::]:80", "192.168.1.2:80",
		                            "128.0.0.1:1" };

	for (size_t i = 0; i < ELEMENTSOF(wide); i++) {
		cr_expect(LOAD("# nothing\n", "--listen", wide[i]) < 0, "%s", wide[i]);
		cr_expect(err.code == ERR_INVALID && strstr(err.remedy, "--allow-remote"));
		ACCEPT("# nothing\n", "--listen", wide[i], "--allow-remote");
	}
	ACCEPT("listen: {tcp: ['0.0.0.0:80'], allow_remote: true}\n");
	cr_assert(c.allow_remote);
}

Test(config, names_and_origins_are_held_to_their_form)
{
	ACCEPT("hosts: [brig.example, 'brig.example:8443', '[::2]:1']\n"
	       "origins: ['https://console.example', 'http://a.example:8080']\n");
	cr_assert(c.n_hosts == 3 && c.n_origins == 2);
	REFUSE("hosts[0]", "hosts: ['*']\n");
	REFUSE("hosts[0]", "hosts: ['a b']\n");
	REFUSE("hosts[0]", "hosts: ['a@b']\n");
	REFUSE("hosts[0]", "hosts: ['a:0']\n");
	REFUSE("hosts[0]", "hosts: ['a/b']\n");
	REFUSE("origins[0]", "origins: ['null']\n");
	REFUSE("origins[0]", "origins: ['*']\n");
	REFUSE("origins[0]", "origins: ['console.example']\n");
	REFUSE("origins[0]", "origins: ['https://console.example/']\n");
	REFUSE("has 17 elements", "hosts: [a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q]\n");
}

Test(config, a_pool_is_read_language_by_language)
{
	ACCEPT("pool:\n  python: {min: 0, max: 4, idle: 10s, eager: true, preload: [numpy, "
	       "a.b_1]}\n"
	       "  javascript: none\n");
	cr_assert(c.shapes[LANGUAGE_PYTHON].min == 0 && c.shapes[LANGUAGE_PYTHON].max == 4);
	cr_assert(c.shapes[LANGUAGE_PYTHON].eager && c.shapes[LANGUAGE_PYTHON].idle_ms == 10000);
	cr_assert(c.shapes[LANGUAGE_PYTHON].n_preload == 2);
	cr_assert(streq(c.shapes[LANGUAGE_PYTHON].preload[1], "a.b_1"));
	cr_assert(c.shapes[LANGUAGE_JAVASCRIPT].language == LANGUAGE_NONE);
	cr_assert(c.shapes[LANGUAGE_SHELL].max == 8);
}

Test(config, a_pool_that_makes_no_sense_is_refused)
{
	REFUSE("min is 9, and max only 8", "pool: {shell: {min: 9}}\n");
	REFUSE("only python", "pool: {shell: {preload: [a]}}\n");
	REFUSE("is no name of a module", "pool: {python: {preload: [../a]}}\n");
	REFUSE("is no name of a module", "pool: {python: {preload: ['a;b']}}\n");
	REFUSE("is no name of a module", "pool: {python: {preload: ['.a']}}\n");
	REFUSE("is no name of a module", "pool: {python: {preload: ['a.']}}\n");
	REFUSE("is no name of a module", "pool: {python: {preload: ['1a']}}\n");
	REFUSE("pool.python.max", "pool: {python: {max: 0}}\n");
	REFUSE("one of false, true", "pool: {python: {eager: yes}}\n");
}

Test(config, a_webhook_has_defaults)
{
	ACCEPT("webhooks:\n  - url: https://hooks.example/x?y=1\n"
	       "  - {url: 'http://127.0.0.1:9', secret_file: /s, events: [approvals], attempts: "
	       "2,\n"
	       "     timeout: 250ms}\n");
	cr_assert(c.n_webhooks == 2 && c.webhooks[0].attempts == 8);
	cr_assert(c.webhooks[0].timeout_ms == 10000 && !c.webhooks[0].secret_file);
	cr_assert(c.webhooks[0].approvals && c.webhooks[0].executions);
	cr_assert(c.webhooks[1].approvals && !c.webhooks[1].executions);
	cr_assert(c.webhooks[1].timeout_ms == 250 && streq(c.webhooks[1].secret_file, "/s"));
}

Test(config, a_webhook_that_cannot_work_is_refused)
{
	REFUSE("url is missing", "webhooks: [{attempts: 1}]\n");
	REFUSE("is no URL", "webhooks: [{url: 'ftp://x'}]\n");
	REFUSE("is no URL", "webhooks: [{url: 'http://'}]\n");
	REFUSE("is no URL", "webhooks: [{url: 'http://a:b/'}]\n");
	REFUSE("is no URL", "webhooks: [{url: 'http://x/a b'}]\n");
	REFUSE("is empty", "webhooks: [{url: 'http://x/', events: []}]\n");
	REFUSE("one of approvals, executions", "webhooks: [{url: 'http://x/', events: [all]}]\n");
	REFUSE("webhooks[0].secret_file", "webhooks: [{url: 'http://x/', secret_file: s}]\n");
	REFUSE("has 9 elements",
	       "webhooks: [{url: a},{url: a},{url: a},{url: a},{url: a},{url: a},{url: a},{url: a},"
	       "{url: a}]\n");
}

Test(config, a_password_in_a_url_is_refused_and_not_shown)
{
	REFUSE("do not belong in a URL", "webhooks: [{url: 'http://me:hunter2@x/'}]\n");
	cr_assert(!strstr(err.msg, "hunter2") && !strstr(err.remedy, "hunter2"));
	REFUSE("do not belong in a URL", "otlp: http://hunter2@x\n");
	cr_assert(!strstr(err.msg, "hunter2"));
}

Test(config, a_failed_load_leaves_the_result_alone)
{
	static struct daemon_config got, before;
	char *argv[] = { (char *)(uintptr_t) "brigd", (char *)(uintptr_t) "--bogus", NULL };

	memset(&got, 0x5a, sizeof(got));
	memset(&before, 0x5a, sizeof(before));
	cr_assert(config_load(2, argv, &got, NULL) < 0);
	cr_assert(memcmp(&got, &before, sizeof(got)) == 0);
}

/* ---- printing ---- */

static void print(char **ret)
{
	struct buf out = BUF_INIT(1 * MIB);

	config_print(&c, &out);
	*ret = buf_detach(&out);
	cr_assert(*ret != NULL);
}

/* After the line that names the file. */
static const char *body(const char *text)
{
	const char *line = strchr(text, '\n');

	cr_assert(line && *text == '#');
	return line + 1;
}

Test(config, what_is_printed_says_the_same_when_read)
{
	static const char text[] =
		"listen: {socket: '/tmp/a \"b\".sock', socket_mode: 0640, tcp: ['[::1]:9'], "
		"allow_remote: true}\n"
		"hosts: [h]\norigins: ['http://o']\npolicy: strict\nconfirm: approve\n"
		"state_dir: /s\nlimits: {running: 3, body: 1025, idle: 1500ms}\n"
		"keep: {results: 5, bytes: 65537, hours: 2}\ndrain: 90s\n"
		"quota: {runs_per_second: 7, concurrent: 8, bytes_per_minute: 1025}\n"
		"pool: {python: {min: 1, max: 2, idle: 1001ms, eager: true, preload: [a, b]},\n"
		"       javascript: none, shell: {min: 0}}\n"
		"webhooks: [{url: 'http://w/', secret_file: /k, events: [executions]}]\n"
		"otlp: http://127.0.0.1:4318\nlog: {format: json, level: debug}\n";
	CLEANUP_FREE char *first = NULL, *second = NULL, *plain = NULL;

	ACCEPT("# nothing\n");
	print(&plain);
	ACCEPT(text);
	print(&first);
	ACCEPT(first);
	print(&second);
	cr_assert(strcmp(body(first), body(second)) == 0, "%s\n---\n%s", first, second);
	cr_assert(strstr(first, "idle: 1500ms") && strstr(first, "body: 1025\n"));
	cr_assert(strcmp(body(plain), body(first)) != 0);
	cr_assert(streq(c.socket, "/tmp/a \"b\".sock") && c.socket_mode == 0640 && c.allow_remote);
	cr_assert(streq(c.tcp[0], "[::1]:9") && streq(c.hosts[0], "h"));
	cr_assert(streq(c.origins[0], "http://o") && streq(c.policy, "strict"));
	cr_assert(streq(c.confirm, "approve") && streq(c.state_dir, "/s"));
	cr_assert(c.drain_ms == 90000 && c.quota.concurrent == 8 && c.keep_hours == 2);
	cr_assert(c.shapes[LANGUAGE_PYTHON].n_preload == 2 && c.shapes[LANGUAGE_PYTHON].eager);
	cr_assert(streq(c.webhooks[0].secret_file, "/k") && !c.webhooks[0].approvals);
	cr_assert(streq(c.otlp, "http://127.0.0.1:4318") && streq(c.log_format, "json"));
}

/* Of the source tree. */
static char *read_source(const char *name)
{
	const char *root = getenv("BRIG_SOURCE");
	char path[512], *text = calloc(1, 64 * KIB);
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", root ? root : ".", name);
	f = fopen(path, "re");
	cr_assert(f && text, "open %s", path);
	cr_assert(fread(text, 1, 64 * KIB - 1, f) > 0);
	(void)fclose(f);
	return text;
}

Test(config, the_example_is_the_defaults)
{
	CLEANUP_FREE char *text = read_source(EXAMPLE), *plain = NULL, *shown = NULL;

	ACCEPT("# nothing\n");
	print(&plain);
	ACCEPT(text);
	print(&shown);
	cr_assert(strcmp(body(plain), body(shown)) == 0, "%s\n---\n%s", plain, shown);
}

/* "1 to 4096", as the documents write it. */
static void range_of(const struct config_number *n, char *ret, size_t size)
{
	char min[CONFIG_SHOW_SIZE], max[CONFIG_SHOW_SIZE];

	config_number_show(n, n->min, min);
	config_number_show(n, n->max, max);
	(void)snprintf(ret, size, "%s to %s", min, max);
}

Test(config, the_example_tells_every_number_and_its_range)
{
	CLEANUP_FREE char *text = read_source(EXAMPLE);
	char key[64], range[80];

	for (size_t i = 0; i < config_numbers_n; i++) {
		const char *indent = *config_numbers[i].group ? "  " : "", *at, *said;

		(void)snprintf(key, sizeof(key), "\n%s%s: ", indent, config_numbers[i].key);
		range_of(&config_numbers[i], range, sizeof(range));
		at = strstr(text, key);
		cr_assert(at != NULL, "%s is not there", config_numbers[i].key);
		/* on its line, or in the comment above */
		said = strstr(*indent ? at : at - 160, range);
		cr_expect(said && said < at + 120, "%s: %s", config_numbers[i].key, range);
	}
}

static void check_manual(const char *text, const char *group, const struct config_number *n)
{
	char key[64], tail[160], range[80], def[CONFIG_SHOW_SIZE];
	const char *at, *said;

	(void)snprintf(key, sizeof(key), "\n.SS %s\n", group);
	at = strstr(text, key);
	(void)snprintf(key, sizeof(key), "\n.B %s\n", n->key);
	at = at ? strstr(at, key) : NULL;
	range_of(n, range, sizeof(range));
	config_number_show(n, n->def, def);
	(void)snprintf(tail, sizeof(tail), "\n%s.\nDefault: %s.\n", range, def);
	said = at ? strstr(at, tail) : NULL;
	cr_expect(said && said < at + 160, "%s.%s: %s", group, n->key, tail);
}

Test(config, the_manual_tells_every_number_its_range_and_default)
{
	CLEANUP_FREE char *text = read_source("man/brigd.yaml.5");

	for (size_t i = 0; i < config_numbers_n; i++)
		check_manual(text,
		             *config_numbers[i].group ? config_numbers[i].group : "At the top",
		             &config_numbers[i]);
	for (size_t i = 0; i < webhook_numbers_n; i++)
		check_manual(text, "webhooks", &webhook_numbers[i]);
}

Test(config, help_and_manual_name_every_flag_and_variable)
{
	CLEANUP_FREE char *text = read_source("man/brigd.8");

	for (size_t i = 0; i < config_texts_n; i++) {
		const struct config_text *t = &config_texts[i];

		cr_expect(!t->env || strstr(text, t->env), "%s", t->env);
		cr_expect(!t->flag || strstr(config_help, t->flag), "%s", t->flag);
	}
	cr_expect(strstr(text, "BRIGD_CONFIG") && strstr(text, "BRIGD_LISTEN"));
}

#define LINES_MAX 400

/* "#key:" and "#  key:" are settings that are commented out, "# text" is prose. */
static bool is_setting(const char *line)
{
	return line[0] == '#' && line[1] && (line[1] != ' ' || line[2] == ' ');
}

/* One with a default stands above it, and goes. */
static void enable(char **lines, size_t at)
{
	size_t n;

	lines[at]++;
	n = strcspn(lines[at], ":") + 1;
	for (size_t i = 0; i < at; i++)
		if (strncmp(lines[i], lines[at], n) == 0)
			lines[i][0] = '\0';
}

Test(config, what_the_example_has_commented_out_is_right_too)
{
	CLEANUP_FREE char *text = read_source(EXAMPLE);
	struct buf whole = BUF_INIT(64 * KIB);
	char *lines[LINES_MAX], *save = NULL;
	size_t n = 0, enabled = 0;

	for (char *l = strtok_r(text, "\n", &save); l && n < LINES_MAX;
	     l = strtok_r(NULL, "\n", &save))
		lines[n++] = l;
	for (size_t i = 0; i < n; i++) {
		if (!is_setting(lines[i]))
			continue;
		enable(lines, i);
		enabled++;
	}
	for (size_t i = 0; i < n; i++)
		buf_printf(&whole, "%s\n", lines[i]);
	ACCEPT(whole.data);
	buf_done(&whole);
	cr_assert(enabled == 17, "%zu", enabled);
	cr_assert(c.n_tcp == 2 && c.n_hosts == 2 && c.n_origins == 1 && c.n_webhooks == 1);
	cr_assert(c.socket && c.state_dir && c.otlp && c.quota.concurrent == 16);
	cr_assert(c.shapes[LANGUAGE_PYTHON].n_preload == 2);
	cr_assert(c.shapes[LANGUAGE_SHELL].language == LANGUAGE_NONE);
}
