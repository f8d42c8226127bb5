/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Network namespaces of a launcher that stays. One takes longer to make than all the rest of a box,
 * so some are made ahead, while nobody waits. Each is taken out of the store by one box and by no
 * other; none comes back. The launcher itself lives in one of its own, without an interface that is
 * up, and is in a box's only while it clones that box's init.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "base/fd.h"
#include "launch/box.h"
#include "sys/netns.h"

static int open_own(const struct box_host *host)
{
	int fd = openat(host->proc_fd, "self/ns/net", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Whoever cannot leave a box's network must make no other box. */
static void go_home(const struct box_host *host)
{
	if (setns(host->net_home, CLONE_NEWNET) < 0)
		_exit(1);
}

/* A new one that nobody is in; we are at home again. */
static int make(const struct box_host *host, bool loopback)
{
	int fd, r;

	if (unshare(CLONE_NEWNET) < 0)
		return -errno;
	r = loopback ? netns_loopback_up() : 0;
	fd = r < 0 ? r : open_own(host);
	go_home(host);
	return fd;
}

void net_settle(struct box_host *host)
{
	int r = unshare(CLONE_NEWNET) < 0 ? -errno : open_own(host);

	host->net_home = r < 0 ? FD_NONE : r;
}

static int take(struct box_host *host, bool loopback)
{
	int *other = NULL;

	for (size_t i = 0; i < NET_STORE; i++) {
		if (host->net_store[i] >= 0 && host->net_loopback[i] == loopback)
			return fd_take(&host->net_store[i]);
		if (host->net_store[i] >= 0)
			other = &host->net_store[i];
	}
	if (other) /* room for one of the kind that is wanted now */
		*other = fd_close(*other);
	return make(host, loopback);
}

int net_enter(struct box_host *host, bool loopback, struct err *err)
{
	CLEANUP_FD int fd = take(host, loopback);

	host->net_last = loopback;
	host->net_failed = fd < 0;
	if (fd < 0)
		return err_set(err, ERR_SETUP, -fd, "make a network namespace");
	if (setns(fd, CLONE_NEWNET) < 0)
		return err_set(err, ERR_SETUP, errno, "enter the box's network namespace");
	return 0;
}

void net_leave(const struct box_host *host)
{
	go_home(host);
}

bool net_wanted(const struct box_host *host)
{
	if (host->net_home < 0 || host->net_failed)
		return false;
	for (size_t i = 0; i < NET_STORE; i++)
		if (host->net_store[i] < 0)
			return true;
	return false;
}

void net_store_one(struct box_host *host)
{
	for (size_t i = 0; i < NET_STORE; i++) {
		if (host->net_store[i] >= 0)
			continue;
		host->net_loopback[i] = host->net_last;
		host->net_store[i] = make(host, host->net_last);
		host->net_failed = host->net_store[i] < 0;
		return;
	}
}
