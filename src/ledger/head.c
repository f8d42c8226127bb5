/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.head: which row was the newest. A chain alone cannot show that its end was cut off.
 *
 * It is written after the commit, so it may be older than the ledger, when the writer died between
 * the two; never newer, unless rows are gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "ledger/ledger_impl.h"

#define LOCK_TRIES    20
#define LOCK_PAUSE_NS 50000

static const char magic[8] = { 'B', 'R', 'I', 'G', 'H', 'E', 'D', '1' };

void head_encode(const uint8_t key[KEY_SIZE], const struct link *at, uint8_t ret[HEAD_SIZE])
{
	memcpy(ret, magic, sizeof(magic));
	for (unsigned i = 0; i < 8; i++)
		ret[8 + i] = (uint8_t)(at->seq >> (56 - 8 * i));
	memcpy(ret + 16, at->hash, SHA256_SIZE);
	hmac_sha256(key, KEY_SIZE, ret, 16 + SHA256_SIZE, ret + 16 + SHA256_SIZE);
}

static struct link decode(const uint8_t bytes[HEAD_SIZE])
{
	struct link at = { 0 };

	for (unsigned i = 0; i < 8; i++)
		at.seq = at.seq << 8 | bytes[8 + i];
	memcpy(at.hash, bytes + 16, SHA256_SIZE);
	return at;
}

/* Bounded: whoever has the lock is writing a head, too, and an older one is no error. */
static bool lock_head(int fd)
{
	const struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };

	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		if (lock_file(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return false;
		(void)nanosleep(&pause, NULL);
	}
	return false;
}

/* False: what is there was not written with our key, or is being written just now. */
static bool look(struct ledger *l, struct link *ret)
{
	uint8_t bytes[HEAD_SIZE + 1] = { 0 }, right[HEAD_SIZE];
	ssize_t n = pread(l->head_fd, bytes, sizeof(bytes), 0);
	struct link at = decode(bytes);

	if (n != HEAD_SIZE)
		return false;
	if (memcmp(bytes, l->head, HEAD_SIZE) != 0) {
		head_encode(l->key, &at, right);
		if (memcmp(bytes, right, HEAD_SIZE) != 0)
			return false;
		memcpy(l->head, bytes, HEAD_SIZE);
	}
	*ret = at;
	return true;
}

int head_read(struct ledger *l, struct link *ret, struct err *err)
{
	bool right = look(l, ret);
	int r;

	if (!right && lock_head(l->head_fd)) {
		right = look(l, ret);
		(void)lock_file(l->head_fd, LOCK_UN);
	}
	if (right)
		return 0;
	r = err_set(err, ERR_IO, EUCLEAN, "%s/ledger.head is not what brig wrote there", l->dir);
	return err_remedy(err, r,
	                  "restore it, or keep %.60s as evidence and begin with another state "
	                  "directory",
	                  l->dir);
}

void head_write(struct ledger *l)
{
	uint8_t bytes[HEAD_SIZE];
	struct link now;

	if (!lock_head(l->head_fd))
		return;
	if (look(l, &now) && (l->replace_head || now.seq < l->tail.seq)) {
		head_encode(l->key, &l->tail, bytes);
		if (pwrite(l->head_fd, bytes, HEAD_SIZE, 0) == HEAD_SIZE)
			memcpy(l->head, bytes, HEAD_SIZE);
	}
	(void)lock_file(l->head_fd, LOCK_UN);
}
