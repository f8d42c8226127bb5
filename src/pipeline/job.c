/* SPDX-License-Identifier: Apache-2.0 */

/* Jobs as things: made, freed, in a list. */

#include <string.h>

#include "base/fd.h"
#include "pipeline/impl.h"

void job_init(struct job *job)
{
	memset(job, 0, sizeof(*job));
	request_init(&job->request);
	result_init(&job->result);
	job->io = (struct jail_io){ .cancel_fd = FD_NONE };
	job->code = BUF_INIT(REQUEST_CODE_MAX);
}

void job_free_fields(struct job *job)
{
	result_done(&job->result);
	buf_done(&job->code);
	buf_done(&job->json);
}

bool job_is_kept(const struct job *job)
{
	return job->keep || job->request.idempotency_key;
}

void job_list_init(struct job_list *l)
{
	*l = (struct job_list){ .tail = &l->head };
}

void job_list_add(struct job_list *l, struct job *job)
{
	job->next = NULL;
	*l->tail = job;
	l->tail = &job->next;
	l->n++;
}

void job_list_remove(struct job_list *l, struct job *job)
{
	for (struct job **at = &l->head; *at; at = &(*at)->next) {
		if (*at != job)
			continue;
		*at = job->next;
		if (l->tail == &job->next)
			l->tail = at;
		job->next = NULL;
		l->n--;
		return;
	}
}

struct job *job_list_take(struct job_list *l)
{
	struct job *job = l->head;

	if (job)
		job_list_remove(l, job);
	return job;
}
