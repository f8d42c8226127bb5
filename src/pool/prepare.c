/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a claim would have to make and can be made while the box waits: pipes, the report's pair,
 * the script's empty file, and the files that tell what a run used. Descriptors are scarce, so only
 * the boxes that are claimed next have it; the others do without until they are.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "exec/workspace.h"
#include "pool/pool_impl.h"
#include "route/route.h"
#include "sys/file.h"

/* Before the box's ids are known the pipes are left to the launcher. */
int prepare_streams(struct box *b, int theirs[LAUNCH_FDS])
{
	struct box_fds ours;
	int pair[2], r;

	box_fds_init(&ours);
	r = launcher_pipes(&ours, theirs);
	b->in = ours.in;
	b->out = ours.out;
	b->errout = ours.errout;
	if (r < 0)
		return r;
	for (int i = LAUNCH_FD_STDIN; i <= LAUNCH_FD_STDERR && b->code_uid; i++)
		if (fchown(theirs[i], b->code_uid, b->code_uid) < 0) /* /dev/stdout can be opened */
			return -errno;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	b->report = pair[0];
	theirs[LAUNCH_FD_REPORT] = pair[1];
	return fcntl(pair[1], F_SETFL, 0) < 0 ? -errno : 0;
}

void prepare_drop(struct pool *p, struct box *b)
{
	struct prepared *m = b->prepared;

	if (!m)
		return;
	launcher_close(m->theirs);
	for (size_t i = 0; i < CGROUP_USAGE_FDS; i++)
		(void)fd_close(m->usage[i]);
	(void)fd_close(m->io);
	(void)fd_close(m->script);
	free(m);
	b->prepared = NULL;
	p->n_prepared--;
}

static void open_usage(struct pool *p, struct box *b, struct prepared *m)
{
	struct cgroup cg = { .host = &p->cgroups, .parked = true };
	char path[64];

	(void)snprintf(cg.name, sizeof(cg.name), "%s", b->cgroup);
	for (size_t i = 0; i < CGROUP_USAGE_FDS; i++)
		m->usage[i] = FD_NONE;
	if (*b->cgroup)
		cgroup_usage_open(&cg, m->usage);
	(void)snprintf(path, sizeof(path), "/proc/%d/io", (int)b->code_pid);
	m->io = open(path, O_RDONLY | O_CLOEXEC);
}

/* The newest is claimed first, so the oldest can do without. */
static void drop_oldest(struct pool *p, struct shape *s)
{
	for (unsigned i = 0; i < s->n_ready; i++) {
		struct box *old = &p->boxes[s->ready[i]];

		if (!old->prepared)
			continue;
		if (s->zygote)
			box_close_streams(old);
		(void)unlinkat(old->workspace, route_script(&s->config.like), 0);
		prepare_drop(p, old);
		return;
	}
}

/* Failing here costs nothing but time later. */
void prepare_box(struct pool *p, struct box *b)
{
	const struct request *like = &p->shapes[b->shape].config.like;
	struct prepared *m;

	if (p->n_prepared >= PREPARED_MAX)
		drop_oldest(p, &p->shapes[b->shape]);
	if (p->n_prepared >= PREPARED_MAX)
		return;
	m = calloc(1, sizeof(*m));
	if (!m)
		return;
	b->prepared = m;
	p->n_prepared++;
	for (int i = 0; i < LAUNCH_FDS; i++)
		m->theirs[i] = FD_NONE;
	open_usage(p, b, m);
	m->script = workspace_create(b->workspace, route_script(like), b->code_uid);
	m->streams = b->report < 0 && prepare_streams(b, m->theirs) >= 0 &&
	             pool_observe(p, b->report, EPOLLIN, TAG_REPORT, (uint32_t)(b - p->boxes)) >= 0;
	if (m->streams || !p->shapes[b->shape].zygote)
		return;
	launcher_close(m->theirs);
	box_close_streams(b);
}

/* The script's file is there already, unless the request wants another name. */
int prepare_script(struct pool *p, struct box *b, const struct request *req)
{
	const char *usual = route_script(&p->shapes[b->shape].config.like);
	struct prepared *m = b->prepared;
	ssize_t n;

	if (!m || m->script < 0)
		return -ENOENT;
	if (!streq(usual, route_script(req)))
		return unlinkat(b->workspace, usual, 0) < 0 ? -errno : -ENOENT;
	n = write(m->script, req->code.p, req->code.n);
	m->script = fd_close(m->script);
	if (n == (ssize_t)req->code.n)
		return 0;
	(void)unlinkat(b->workspace, usual, 0); /* who tries again says what is wrong */
	return -EIO;
}
