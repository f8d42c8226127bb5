/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Statements on the ledger's file, for those who have tables of their own in it. */

#include <sqlite3.h>

#include "base/macro.h"

#define CLEANUP_STMT CLEANUP(stmt_finalizep)

static inline void stmt_finalizep(sqlite3_stmt **stmt)
{
	(void)sqlite3_finalize(*stmt);
	*stmt = NULL;
}
