/* SPDX-License-Identifier: Apache-2.0 */
#include "risk/rules.h"

#include <threads.h>

#include "base/sha256.h"
#include "risk/risk.h"
#include "risk_rules_gen.h"

struct str rules_source(enum rules_file file)
{
	switch (file) {
	case RULES_PYTHON:
		return (struct str){ (const char *)rules_python, sizeof(rules_python) };
	case RULES_JAVASCRIPT:
		return (struct str){ (const char *)rules_javascript, sizeof(rules_javascript) };
	case RULES_SHELL:
		return (struct str){ (const char *)rules_shell, sizeof(rules_shell) };
	case RULES_BROWSER:
		return (struct str){ (const char *)rules_browser, sizeof(rules_browser) };
	case RULES_COUNT:
		break;
	}
	return (struct str){ 0 };
}

static char rules_id[SHA256_HEX_SIZE];
static once_flag rules_id_once = ONCE_FLAG_INIT;

static void make_rules_id(void)
{
	uint8_t digest[SHA256_SIZE];
	struct sha256 h;

	sha256_init(&h);
	for (int i = 0; i < RULES_COUNT; i++) {
		struct str s = rules_source((enum rules_file)i);

		sha256_put_field(&h, s.p, s.n);
	}
	sha256_finish(&h, digest);
	sha256_hex(digest, rules_id);
}

const char *risk_rules_id(void)
{
	call_once(&rules_id_once, make_rules_id);
	return rules_id;
}
