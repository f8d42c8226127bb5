/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What every command that runs code has in common: policy, approvals, record. */

#include "base/err.h"
#include "pipeline/pipeline.h"

#define FLOW_LABELS_MAX 16

enum confirm_mode {
	CONFIRM_ASK = 0, /* the terminal when there is one, and whoever answers elsewhere */
	CONFIRM_APPROVE, /* without a person */
	CONFIRM_DENY,
};

struct flow_options {
	const char *policy;    /* NULL: $BRIG_POLICY, else the built-in default */
	const char *state_dir; /* NULL: the default */
	enum confirm_mode confirm;
	bool no_record;
	const char *labels[FLOW_LABELS_MAX];
	size_t n_labels;
};

/* For the help texts. */
/* clang-format off */
#define FLOW_HELP                                                                                  \
	"      --policy WHAT    permissive, strict or a file               (permissive)\n"         \
	"      --confirm HOW    who answers when the policy asks:\n"                                \
	"                       ask, approve or deny                       (ask)\n"                \
	"      --label TEXT     a label that policies can match (repeatable)\n"                     \
	"      --state-dir DIR  where the record and the approvals are\n"                           \
	"      --no-record      keep no record; what needs an approval is denied then\n"
/* clang-format on */

/*
 * Takes the option if it is one of these: 1, 0 if it is not, -EINVAL with err if its value is
 * wrong. *ret_used_value tells whether `value` (which may be NULL) was taken.
 */
int flow_option(struct flow_options *o, const char *name, const char *value, bool *ret_used_value,
                struct err *err);

struct flow {
	struct pipeline *pipeline;
	struct channel *terminal; /* NULL: none */
	struct channel automatic;
	struct channel_ops approve;
	char caller[ACTOR_SIZE];
};

/* `interactive`: a question may be put to the terminal. */
int flow_open(struct flow *f, const struct flow_options *o, bool interactive, struct executor *ex,
              struct err *err);
void flow_close(struct flow *f);
/* "cli:UID" */
void flow_caller(char ret[ACTOR_SIZE]);

/* The terminal as a channel; NULL when there is none. */
struct channel *prompt_open(const char *actor);
void prompt_close(struct channel *c);
/* What the channel does, for questions that are elsewhere than in a ledger of ours. */
struct desk;
int prompt_ask_at(struct channel *c, const struct desk *d, const struct approval *a,
                  struct err *err);
int prompt_turn_at(struct channel *c, const struct desk *d, struct err *err);
/* Says on standard error where to answer. */
extern const struct channel_ops channel_notice;
void notice_at(const struct desk *d, const struct approval *a);
