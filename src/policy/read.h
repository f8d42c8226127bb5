/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the readers of a policy's parts share. */

#include "policy/policy_impl.h"
#include "policy/yaml.h"

struct reader {
	struct yaml_doc doc;
	struct policy *p; /* that is being made */
	struct err *err;
};

int read_no_memory(const struct reader *rd);
/* "no such value; it is one of ..." */
int read_refuse_word(const struct reader *rd, const struct yaml_node *n, enum vocab v);
int read_word(const struct reader *rd, const struct yaml_node *n, enum vocab v, unsigned *ret);
int read_name(const struct reader *rd, const struct yaml_node *n, char ret[POLICY_NAME_SIZE]);
/* NULL, with an error that says how to write it, when the map has no such key. */
const struct yaml_node *read_need(const struct reader *rd, const struct yaml_node *map,
                                  const char *key, const char *how);

int read_rules(const struct reader *rd, const struct yaml_node *list);
