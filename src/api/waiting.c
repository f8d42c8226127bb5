/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Requests that wait for a person stay in memory until somebody answers. Their number is bounded by
 * the policy and the state directory; a request may have 16 MiB, so their bytes have a bound, too.
 */

#include "api/impl.h"

static size_t size_of(const struct execution *ex)
{
	return ex->body.cap + ex->arena.used;
}

static bool is_waiting(const struct execution *ex)
{
	return ex->job && ex->job->state == JOB_WAITING;
}

void waiting_count(struct api *api)
{
	struct executions *all = &api->ex;

	all->n_waiting = 0;
	all->waiting_bytes = 0;
	for (const struct execution *ex = all->newest; ex; ex = ex->older) {
		if (!is_waiting(ex))
			continue;
		all->n_waiting++;
		all->waiting_bytes += size_of(ex);
	}
}

void waiting_add(struct api *api, const struct execution *ex)
{
	if (is_waiting(ex))
		api->ex.waiting_bytes += size_of(ex);
}

bool waiting_has_room(struct call *c, struct execution *ex)
{
	struct api *api = c->api;

	if (api->ex.waiting_bytes + size_of(ex) <= WAITING_BYTES_MAX)
		return true;
	pipeline_preview(api->pl, ex->job); /* most runs wait for nobody */
	if (ex->job->decision.verdict != VERDICT_CONFIRM)
		return true;
	answer_busy(c, WAITING_RETRY_MS, "too many bytes wait for answers already");
	return false;
}
