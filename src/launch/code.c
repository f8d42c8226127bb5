/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The code's process: the steps in which it gives up everything, the report that it is ready, the
 * word to go. Forked by init it then executes a program; forked by a zygote it returns to the
 * interpreter. What it gives up is one list for both.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "launch/box.h"
#include "sys/sock.h"

/* Forked by init: beside its mounting. */
static const struct step first_steps[] = {
	{ "stdio", confine_stdio, 0 },
	{ "network", confine_network, LAYER_BIT(NET_NS) },
	{ "loopback", confine_loopback, LAYER_BIT(NETWORK) },
};

/* Forked by a zygote: still in the launcher's namespaces, and nobody's cgroup. */
static const struct step join_steps[] = {
	{ "cgroup", confine_cgroup, 0 },
	{ "join", confine_join, 0 },
	{ "loopback", confine_loopback, LAYER_BIT(NETWORK) },
	{ "stdio", confine_stdio, 0 },
	{ "keyring", confine_keyring, LAYER_BIT(KEYRING) },
	{ "bounding_set", confine_bounding, LAYER_BIT(CAPABILITIES) },
};

/* The file system is there from "wait_mounts" on. */
static const struct step code_steps[] = {
	{ "wait_mounts", confine_wait, 0 },
	{ "code_ids", confine_ids, 0 },
	{ "locked_mounts", confine_mounts, LAYER_BIT(LOCKED_MOUNTS) },
	{ "code_maps", confine_maps, 0 },
	{ "workspace", confine_workspace, 0 },
	{ "rlimits", confine_rlimits, LAYER_BIT(RLIMITS) },
	{ "capabilities", confine_caps, LAYER_BIT(CAPABILITIES) },
	{ "descriptors", confine_fds, 0 },
	{ "no_new_privs", confine_no_new_privs, LAYER_BIT(NO_NEW_PRIVS) },
	{ "landlock", confine_landlock, LAYER_BIT(LANDLOCK) },
	{ "seccomp", confine_seccomp, LAYER_BIT(SECCOMP) },
};

int run_steps(struct box_setup *s, const struct step *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct step *step = &list[i];
		uint32_t wanted = step->layers & s->plan->layers;
		int r;

		if (step->layers && !wanted)
			continue;
		r = step->run(s);
		if (r < 0 && (!step->layers || wanted & s->plan->required)) {
			(void)snprintf(s->err.step, sizeof(s->err.step), "%s", step->name);
			return r;
		}
		if (r >= 0)
			s->layers |= wanted;
	}
	return 0;
}

_Noreturn void report_failure(struct box_setup *s)
{
	struct box_report rep = { .kind = BOX_FAILED, .err = s->err };

	(void)sock_send(s->fds[LAUNCH_FD_CONTROL], &rep, sizeof(rep), NULL, 0);
	_exit(126);
}

int code_say_ready(struct box_setup *s)
{
	struct box_report rep = { .kind = BOX_CODE_READY,
		                  .layers = s->layers,
		                  .landlock_abi = s->landlock_abi };
	int r = sock_send(s->fds[LAUNCH_FD_CONTROL], &rep, sizeof(rep), &s->workspace_fd, 1);

	(void)close(s->workspace_fd);
	return r < 0 ? err_set(&s->err, ERR_SETUP, -r, "say that it is ready") : confine_files(s);
}

static int read_memfd(int fd, char *buf, size_t size, size_t *ret_len)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = pread(fd, buf + len, size - len, (off_t)len);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	*ret_len = len;
	return len < size ? 0 : -EFBIG;
}

/* Stdio into place; the report's descriptor, if there is one, where exec leaves it alone. */
static int take_fds(struct sock_msg *msg, int *ret_report)
{
	*ret_report = FD_NONE;
	for (int i = 0; i < 3; i++)
		if (dup2(msg->fds[i], i) < 0)
			return -errno;
	if (msg->n_fds > 3)
		*ret_report = fd_take(&msg->fds[3]);
	return 0;
}

static int take_run(struct sock_msg *msg, char *buf, size_t size, size_t *ret_len, int *ret_report)
{
	int r = 0;

	*ret_len = msg->len - 1;
	memmove(buf, buf + 1, *ret_len);
	if (msg->n_fds < 3)
		return -EPROTO;
	if (msg->len == 1)
		r = read_memfd(msg->fds[msg->n_fds - 1], buf, size, ret_len);
	if (msg->len == 1)
		(void)close(msg->fds[--msg->n_fds]);
	return r < 0 || msg->n_fds < 3 ? -EPROTO : take_fds(msg, ret_report);
}

int code_wait(struct box_setup *s, char *buf, size_t size, size_t *ret_len, int *ret_report)
{
	int control = s->fds[LAUNCH_FD_CONTROL];
	struct sock_msg msg;
	int word, r;

	*ret_len = 0;
	r = sock_recv(control, buf, size, 0, &msg);
	if (r < 0)
		return err_set(&s->err, ERR_SETUP, -r, "wait for the release");
	word = msg.len ? buf[0] : 0;
	if (word == BOX_RUN)
		r = take_run(&msg, buf, size, ret_len, ret_report);
	sock_msg_close(&msg);
	if (r < 0 || (word != BOX_GO && word != BOX_RUN))
		return err_set(&s->err, ERR_SETUP, r < 0 ? -r : EPIPE, "wait for the release");
	return word;
}

int code_join(struct box_setup *s)
{
	int r = run_steps(s, join_steps, ELEMENTSOF(join_steps));

	return r < 0 ? r : run_steps(s, code_steps, ELEMENTSOF(code_steps));
}

static _Noreturn void fail_at(struct box_setup *s, const char *step)
{
	(void)snprintf(s->err.step, sizeof(s->err.step), "%s", step);
	report_failure(s);
}

_Noreturn void code_main(struct box_setup *s)
{
	char message[1];
	int report;
	size_t len;

	if (run_steps(s, first_steps, ELEMENTSOF(first_steps)) < 0 ||
	    run_steps(s, code_steps, ELEMENTSOF(code_steps)) < 0)
		report_failure(s);
	if (code_say_ready(s) < 0 ||
	    code_wait(s, message, sizeof(message), &len, &report) != BOX_GO)
		fail_at(s, "go");
	(void)execve(s->plan->exec, (char *const *)s->plan->argv, (char *const *)s->plan->env);
	(void)err_set(&s->err, ERR_SETUP, errno, "execute \"%.200s\"", s->plan->exec);
	fail_at(s, "exec");
}
