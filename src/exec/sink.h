/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where output goes while it is made: a pipe, a terminal, a socket, a file. Whoever reads there may
 * be slow, stop or leave, and must not stop us: nothing waits but sink_write_all(), and that ends
 * when it is told to. The descriptor's own flags are shared with other programs and stay as they
 * are.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/fd.h"

enum sink_kind {
	SINK_PLAIN = 0, /* takes what it gets: a file, /dev/null */
	SINK_OWN,       /* opened once more, not to block */
	SINK_SOCKET,
	SINK_POLLED, /* that could not be opened once more: asked first, and given little */
};

struct sink {
	int fd; /* FD_NONE: none, or it failed */
	enum sink_kind kind;
	int error;         /* errno of the write that failed; EINTR: we were told to end; 0: none */
	uint64_t until_ms; /* told to end: so long the reader may take more; 0: not told */
};

#define SINK_NONE ((struct sink){ .fd = FD_NONE })

/* `fd` must stay open for as long. */
void sink_open(struct sink *s, int fd);
void sink_close(struct sink *s);
/* As much as is taken without waiting, 0 for nothing; a failure is the last: -s->error for ever. */
ssize_t sink_write(struct sink *s, const char *p, size_t n);
/* All of it. cancel_fd readable (FD_NONE: never) soon ends waiting for a reader, with EINTR. */
int sink_write_all(struct sink *s, const char *p, size_t n, int cancel_fd);
/* After a limit: how much of the stream is missing, then the end of what was kept of it. */
void sink_finish(struct sink *s, const char *name, uint64_t unseen, const struct buf *kept,
                 int cancel_fd);
