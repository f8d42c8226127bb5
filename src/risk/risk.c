/* SPDX-License-Identifier: Apache-2.0 */
#include "risk/risk.h"
