/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/sender.h"
#include "daemon/sender_impl.h"

uint64_t backoff_ms(unsigned failures, uint32_t random)
{
	uint64_t ms = 1000;

	for (unsigned i = 1; i < failures && ms < BACKOFF_MAX_MS; i++)
		ms *= 2;
	ms += ms / 4 * (random % 1024) / 1024;
	return MIN2(ms, (uint64_t)BACKOFF_MAX_MS);
}

uint64_t backoff_after_ms(unsigned failures, uint32_t retry_after_s)
{
	uint64_t asked = MIN2((uint64_t)retry_after_s * 1000, (uint64_t)BACKOFF_MAX_MS), own;
	uint32_t random = 0;

	(void)!getrandom(&random, sizeof(random), GRND_NONBLOCK); /* without it: no jitter */
	own = backoff_ms(failures, random);
	return MAX2(own, asked);
}

/* ../libexec/brig/brig-send of our own binary, as with the launcher. */
int sender_find(char *path, size_t size, struct err *err)
{
	char self[PATH_MAX - 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return err_set(err, ERR_INTERNAL, errno, "find this program");
	self[n] = '\0';
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(self, '/');

		if (slash)
			*slash = '\0';
	}
	(void)snprintf(path, size, "%s/libexec/brig/brig-send", self);
	return 0;
}

static int add_actions(posix_spawn_file_actions_t *fa, int sock)
{
	int r = posix_spawn_file_actions_addopen(fa, 0, "/dev/null", O_RDWR, 0);

	if (!r)
		r = posix_spawn_file_actions_adddup2(fa, 0, 1);
	if (!r)
		r = posix_spawn_file_actions_adddup2(fa, sock, SEND_SOCKET_FD);
	if (!r)
		r = posix_spawn_file_actions_addclosefrom_np(fa, SEND_SOCKET_FD + 1);
	return r;
}

static int set_attributes(posix_spawnattr_t *attr)
{
	sigset_t none, all;
	int r;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	r = posix_spawnattr_setsigmask(attr, &none);
	if (!r)
		r = posix_spawnattr_setsigdefault(attr, &all);
	if (!r)
		r = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	return r;
}

/* Nothing but the socket and stderr is inherited, and no environment: no proxy comes from there. */
int sender_spawn(const char *program, int sock, pid_t *ret_pid)
{
	char *const argv[] = { (char *)"brig-send", NULL };
	char *const env[] = { NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	int r = posix_spawn_file_actions_init(&fa);

	if (r)
		return -r;
	r = posix_spawnattr_init(&attr);
	if (!r) {
		r = add_actions(&fa, sock);
		if (!r)
			r = set_attributes(&attr);
		if (!r)
			r = posix_spawn(ret_pid, program, &fa, &attr, argv, env);
		(void)posix_spawnattr_destroy(&attr);
	}
	(void)posix_spawn_file_actions_destroy(&fa);
	return -r;
}
