/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The rule files, compiled in. */

#include "base/str.h"

enum rules_file {
	RULES_PYTHON = 0,
	RULES_JAVASCRIPT,
	RULES_SHELL,
	RULES_BROWSER,
	RULES_COUNT,
};

struct str rules_source(enum rules_file file);
