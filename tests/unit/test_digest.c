/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/sha256.h"
#include "model/request.h"

static const char *one_arg[] = { "a" }, *other_arg[] = { "b" }, *two_args[] = { "a", "b" };
static const char *joined_args[] = { "ab" };
static struct request_file one_file[] = { { "f", { "data", 4 }, false } };
static struct request_file other_name[] = { { "g", { "data", 4 }, false } };
static struct request_file other_data[] = { { "f", { "datb", 4 }, false } };
static struct request_file executable[] = { { "f", { "data", 4 }, true } };

static void plain(struct request *r)
{
	request_init(r);
	r->language = LANGUAGE_PYTHON;
	r->code = STR("print(1)");
	r->args = one_arg;
	r->n_args = 1;
	r->files = one_file;
	r->n_files = 1;
}

/* clang-format off */
static void set_code(struct request *r) { r->code = STR("print(2)"); }
static void set_language(struct request *r) { r->language = LANGUAGE_SHELL; }
static void set_action(struct request *r) { r->action = ACTION_BROWSE; }
static void set_params(struct request *r) { r->params = STR("url=x\n"); }
static void set_name(struct request *r) { r->name = "x.py"; }
static void set_empty_name(struct request *r) { r->name = ""; }
static void set_level(struct request *r) { r->level = LEVEL_STRICT; }
static void set_tier(struct request *r) { r->tier = TIER_JAIL; }
static void set_network(struct request *r) { r->network = NETWORK_NONE; }
static void set_arg(struct request *r) { r->args = other_arg; }
static void set_args(struct request *r) { r->args = two_args; r->n_args = 2; }
static void set_joined(struct request *r) { r->args = joined_args; }
static void set_env(struct request *r) { r->env = one_arg; r->n_env = 1; }
static void set_tools(struct request *r) { r->tools = one_arg; r->n_tools = 1; }
static void set_stdin(struct request *r) { r->stdin_data = STR("in"); }
static void set_file_name(struct request *r) { r->files = other_name; }
static void set_file_data(struct request *r) { r->files = other_data; }
static void set_file_mode(struct request *r) { r->files = executable; }
static void set_no_file(struct request *r) { r->n_files = 0; }
/* clang-format on */

static void (*const changes[])(struct request *) = {
	set_code,       set_language,  set_action,    set_params,  set_name,
	set_empty_name, set_level,     set_tier,      set_network, set_arg,
	set_args,       set_joined,    set_env,       set_tools,   set_stdin,
	set_file_name,  set_file_data, set_file_mode, set_no_file,
};

Test(digest, the_same_request_has_the_same_digest)
{
	uint8_t a[32], b[32], rest[32];
	struct request r;

	plain(&r);
	request_digest(&r, a, rest);
	plain(&r);
	r.session_id = "elsewhere"; /* not part of what runs */
	request_digest(&r, b, rest);
	cr_expect(memcmp(a, b, 32) == 0);
}

Test(digest, every_field_that_can_change_what_runs_counts)
{
	uint8_t digests[ELEMENTSOF(changes) + 1][32], rest[32];
	struct request r;

	plain(&r);
	request_digest(&r, digests[0], rest);
	for (size_t i = 0; i < ELEMENTSOF(changes); i++) {
		plain(&r);
		changes[i](&r);
		request_digest(&r, digests[i + 1], rest);
		for (size_t k = 0; k <= i; k++)
			cr_expect(memcmp(digests[i + 1], digests[k], 32) != 0, "change %zu, %zu", i,
			          k);
	}
}

Test(digest, every_limit_counts)
{
	uint8_t before[32], after[32], rest[32];
	struct request r;

	plain(&r);
	request_digest(&r, before, rest);
	for (size_t i = 0; i < limit_infos_n; i++) {
		plain(&r);
		(*limits_field(&r.limits, &limit_infos[i]))++;
		request_digest(&r, after, rest);
		cr_expect(memcmp(before, after, 32) != 0, "%s", limit_infos[i].key);
	}
}

Test(digest, of_other_code_needs_only_the_rest)
{
	uint8_t a[32], b[32], rest[32], other_rest[32];
	struct request r;

	plain(&r);
	request_digest(&r, a, rest);
	set_code(&r);
	request_digest(&r, a, other_rest);
	request_digest_code(r.code, rest, b);
	cr_expect(memcmp(rest, other_rest, 32) == 0);
	cr_expect(memcmp(a, b, 32) == 0);
}

Test(digest, a_key_is_for_session_and_labels_too)
{
	static const char *one[] = { "a" }, *two[] = { "a", "b" };
	uint8_t digests[4][32], again[32], rest[32];
	struct request r;

	plain(&r);
	request_digest_key(&r, digests[0]);
	r.session_id = "s";
	request_digest_key(&r, digests[1]);
	r.labels = one;
	r.n_labels = 1;
	request_digest_key(&r, digests[2]);
	r.labels = two;
	r.n_labels = 2;
	request_digest_key(&r, digests[3]);
	request_digest_key(&r, again);
	cr_expect(memcmp(digests[3], again, 32) == 0);
	for (size_t i = 0; i < 4; i++)
		for (size_t j = 0; j < i; j++)
			cr_expect(memcmp(digests[i], digests[j], 32) != 0, "%zu %zu", i, j);
	request_digest(&r, again, rest);
	plain(&r);
	request_digest(&r, digests[0], rest);
	cr_expect(memcmp(digests[0], again, 32) == 0, "an approval is for neither");
}
