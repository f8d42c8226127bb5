/* SPDX-License-Identifier: Apache-2.0 */

/* What the flow needs before the first job, and what is let go after the last. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "pipeline/impl.h"

#define DEFAULT_POLICY "permissive"
#define FLOOR_POLICY   "/etc/brig/policy.yaml"

static int load_policies(struct pipeline *pl, struct err *err)
{
	const char *policy = pl->config.policy, *floor = pl->config.floor_policy;
	int r = policy_load(policy ? policy : DEFAULT_POLICY, &pl->policies[0], err);

	if (r < 0)
		return r;
	pl->n_policies = 1;
	if (!floor && access(FLOOR_POLICY, F_OK) < 0 && errno == ENOENT)
		return 0;
	r = policy_load(floor ? floor : FLOOR_POLICY, &pl->policies[1], err);
	if (r >= 0)
		pl->n_policies = 2;
	return r;
}

static int open_record(struct pipeline *pl, struct err *err)
{
	char dir[4096];
	int r = 0;

	if (pl->config.no_record)
		return 0;
	owner_self(pl->owner);
	if (!pl->config.state_dir)
		r = ledger_default_dir(dir, sizeof(dir), err);
	if (r >= 0)
		r = ledger_open(pl->config.state_dir ? pl->config.state_dir : dir, &pl->ledger,
		                err);
	if (r >= 0)
		r = pipeline_recover(pl, err);
	if (r >= 0 && pl->config.stays)
		ledger_set_patience(pl->ledger, PIPELINE_PATIENCE_MS);
	return r;
}

static int add_fd(struct pipeline *pl, int fd, struct err *err)
{
	struct epoll_event e = { .events = EPOLLIN };

	if (fd >= 0 && epoll_ctl(pl->epoll, EPOLL_CTL_ADD, fd, &e) < 0)
		return err_set(err, ERR_INTERNAL, errno, "epoll");
	return 0;
}

static int open_events(struct pipeline *pl, struct err *err)
{
	int r = 0;

	pl->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (pl->epoll < 0)
		return err_set(err, ERR_INTERNAL, errno, "epoll");
	for (size_t i = 0; r >= 0 && i < pl->config.n_channels; i++)
		r = add_fd(pl, pl->config.channels[i]->ops->fd(pl->config.channels[i]), err);
	for (size_t i = 0; r >= 0 && i < pl->config.n_executors; i++) {
		pl->config.executors[i]->pipeline = pl;
		r = add_fd(pl, pl->config.executors[i]->ops->fd(pl->config.executors[i]), err);
	}
	return r;
}

int pipeline_need_bell(struct pipeline *pl, struct err *err)
{
	int r;

	if (pl->bell >= 0)
		return 0;
	r = bell_watch(ledger_dir(pl->ledger), &pl->bell, err);
	return r < 0 ? r : add_fd(pl, pl->bell, err);
}

int pipeline_open(const struct pipeline_config *config, struct pipeline **ret, struct err *err)
{
	struct pipeline *pl = calloc(1, sizeof(*pl));
	int r;

	if (!pl)
		return err_set(err, ERR_INTERNAL, ENOMEM, "pipeline");
	pl->config = *config;
	pl->bell = pl->epoll = FD_NONE;
	job_list_init(&pl->to_run);
	job_list_init(&pl->held);
	job_list_init(&pl->asking);
	job_list_init(&pl->over);
	job_list_init(&pl->late);
	if (config->caller)
		(void)snprintf(pl->caller, sizeof(pl->caller), "%s", config->caller);
	else
		(void)snprintf(pl->caller, sizeof(pl->caller), "lib:%u", (unsigned)geteuid());
	r = load_policies(pl, err);
	if (r >= 0)
		r = risk_open(&pl->risk, err);
	if (r >= 0)
		r = open_record(pl, err);
	if (r >= 0)
		r = open_events(pl, err);
	if (r < 0) {
		pipeline_close(pl);
		return r;
	}
	*ret = pl;
	return 0;
}

void pipeline_close(struct pipeline *pl)
{
	if (!pl)
		return;
	(void)fd_close(pl->bell);
	(void)fd_close(pl->epoll);
	for (size_t i = 0; i < pl->n_policies; i++)
		policy_free(pl->policies[i]);
	risk_close(pl->risk);
	late_done(pl);
	pipeline_recover_done(pl);
	kept_done(pl);
	ledger_close(pl->ledger);
	free(pl);
}

int pipeline_fd(const struct pipeline *pl)
{
	return pl->epoll;
}

const struct policy *pipeline_policy(const struct pipeline *pl, size_t i)
{
	return i < pl->n_policies ? pl->policies[i] : NULL;
}

int pipeline_watch(struct pipeline *pl, struct executor *ex, struct err *err)
{
	return add_fd(pl, ex->ops->fd(ex), err);
}

int pipeline_reload(struct pipeline *pl, const char *policy, struct err *err)
{
	struct policy *old[PIPELINE_POLICIES_MAX];
	const char *old_name = pl->config.policy;
	size_t n_old = pl->n_policies;
	int r;

	memcpy(old, pl->policies, sizeof(old));
	memset(pl->policies, 0, sizeof(pl->policies));
	pl->n_policies = 0;
	pl->config.policy = policy;
	r = load_policies(pl, err);
	if (r < 0) {
		for (size_t i = 0; i < pl->n_policies; i++)
			policy_free(pl->policies[i]);
		memcpy(pl->policies, old, sizeof(old));
		pl->n_policies = n_old;
		pl->config.policy = old_name;
		return r;
	}
	for (size_t i = 0; i < n_old; i++)
		policy_free(old[i]);
	return 0;
}

struct ledger *pipeline_ledger(struct pipeline *pl)
{
	return pl->ledger;
}
