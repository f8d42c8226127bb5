/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"
