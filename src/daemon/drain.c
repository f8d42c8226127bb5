/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Stopping: what runs ends by itself if it does so in time; what waits for a person is left to the
 * next daemon; nobody gets half an answer.
 */

#include "base/clock.h"
#include "daemon/log.h"
#include "daemon/notify.h"
#include "daemon/serve.h"

#define CANCEL_MS 10000 /* for boxes that are killed */
#define FLUSH_MS  300   /* for the last bytes of the last answers */

static void enter(struct brigd *d, enum drain_stage stage, uint64_t ms)
{
	d->drain = stage;
	d->drain_until_ms = clock_ms() + ms;
}

void brigd_stop(struct brigd *d)
{
	if (d->drain == DRAIN_NO) {
		log_line(LOG_LEVEL_INFO, "stopping: %u executions are under way",
		         api_under_way(d->api));
		notify_stopping();
		api_drain(d->api);
		enter(d, DRAIN_RUNS, d->config.drain_ms);
	} else if (d->drain == DRAIN_RUNS) {
		log_line(LOG_LEVEL_INFO, "told again: what runs is stopped");
		d->drain_until_ms = 0;
	}
	brigd_drain_step(d);
}

void brigd_drain_step(struct brigd *d)
{
	bool late = clock_ms() >= d->drain_until_ms, idle = api_under_way(d->api) == 0;

	switch (d->drain) {
	case DRAIN_NO:
	case DRAIN_OVER:
		break;
	case DRAIN_RUNS:
		if (!late && !idle)
			break;
		api_leave_waiting(d->api);
		if (!idle)
			api_cancel_all(d->api);
		enter(d, DRAIN_CANCEL, CANCEL_MS);
		break;
	case DRAIN_CANCEL:
		if (!late && !idle) {
			api_cancel_all(d->api); /* somebody said yes just before */
			break;
		}
		http_server_drain(api_http(d->api));
		http_server_end_streams(api_http(d->api));
		enter(d, DRAIN_FLUSH, FLUSH_MS);
		break;
	case DRAIN_FLUSH:
		if (late) {
			d->drain = DRAIN_OVER;
			uv_stop(&d->loop);
		}
		break;
	}
}
