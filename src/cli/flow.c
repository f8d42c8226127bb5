/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/flow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"

static int set_confirm(struct flow_options *o, const char *value, struct err *err)
{
	static const char *const names[] = {
		[CONFIRM_ASK] = "ask", [CONFIRM_APPROVE] = "approve", [CONFIRM_DENY] = "deny"
	};

	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		if (streq(value, names[i])) {
			o->confirm = (enum confirm_mode)i;
			return 1;
		}
	}
	(void)err_set(err, ERR_INVALID, 0, "--confirm: \"%.40s\" is not known", value);
	return err_remedy(err, -EINVAL, "it is one of ask, approve or deny");
}

static int add_label(struct flow_options *o, const char *value, struct err *err)
{
	if (o->n_labels == FLOW_LABELS_MAX)
		return err_set(err, ERR_INVALID, 0, "--label: given too often");
	o->labels[o->n_labels++] = value;
	return 1;
}

int flow_option(struct flow_options *o, const char *name, const char *value, bool *ret_used_value,
                struct err *err)
{
	bool valued = streq(name, "--policy") || streq(name, "--confirm") ||
	              streq(name, "--label") || streq(name, "--state-dir");

	*ret_used_value = valued;
	if (streq(name, "--no-record"))
		return o->no_record = true, 1;
	if (!valued)
		return 0;
	if (!value || !*value)
		return err_set(err, ERR_INVALID, 0, "%s: needs a value", name);
	if (streq(name, "--confirm"))
		return set_confirm(o, value, err);
	if (streq(name, "--label"))
		return add_label(o, value, err);
	if (streq(name, "--policy"))
		o->policy = value;
	else
		o->state_dir = value;
	return 1;
}

void flow_caller(char ret[ACTOR_SIZE])
{
	(void)snprintf(ret, ACTOR_SIZE, "cli:%u", (unsigned)geteuid());
}

/* A policy may want somebody else than the asker: then it is said where to answer. */
static int approve_or_tell(struct channel *c, struct ledger *l, const struct approval *a,
                           struct err *err)
{
	int r = channel_auto_approve.ask(c, l, a, err);

	if (r < 0)
		(void)fprintf(stderr, "brig: --confirm approve: %s\n", err->msg);
	return r < 0 ? channel_notice.ask(c, l, a, err) : r;
}

static void add_channels(struct flow *f, const struct flow_options *o, bool interactive,
                         struct pipeline_config *config)
{
	switch (o->confirm) {
	case CONFIRM_ASK:
		f->terminal = interactive ? prompt_open(f->caller) : NULL;
		f->automatic = (struct channel){ &channel_notice, f->caller };
		config->channels[config->n_channels++] = f->terminal ? f->terminal : &f->automatic;
		return;
	case CONFIRM_APPROVE:
		f->approve = channel_auto_approve;
		f->approve.ask = approve_or_tell;
		f->automatic = (struct channel){ &f->approve, f->caller };
		break;
	case CONFIRM_DENY:
		f->automatic = (struct channel){ &channel_auto_deny, f->caller };
		break;
	}
	config->channels[config->n_channels++] = &f->automatic;
}

int flow_open(struct flow *f, const struct flow_options *o, bool interactive, struct executor *ex,
              struct err *err)
{
	const char *policy = o->policy ? o->policy : getenv("BRIG_POLICY");
	struct pipeline_config config = { .state_dir = o->state_dir,
		                          .no_record = o->no_record,
		                          .policy = policy && *policy ? policy : NULL,
		                          .caller = f->caller,
		                          .labels = o->labels,
		                          .n_labels = o->n_labels,
		                          .executors = { ex },
		                          .n_executors = 1 };
	int r;

	flow_caller(f->caller);
	add_channels(f, o, interactive, &config);
	r = pipeline_open(&config, &f->pipeline, err);
	if (r < 0)
		flow_close(f);
	return r;
}

void flow_close(struct flow *f)
{
	pipeline_close(f->pipeline);
	prompt_close(f->terminal);
	f->pipeline = NULL;
	f->terminal = NULL;
}
