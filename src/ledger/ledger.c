/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/ledger.h"
