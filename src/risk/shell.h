/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What lang_shell.c and shell_command.c share. */

#include "risk/impl.h"

#define WORD_CUT '\x1f'

/* What a sed command's script does. */
#define SED_RUNS   1u
#define SED_WRITES 2u

/* The key under which a function of the script is bound. */
struct str shell_function(struct pass *p, struct str name);
/* rm for /bin/rm; another path is another program. */
struct str shell_base_name(struct str s);
