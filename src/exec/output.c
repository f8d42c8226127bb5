/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/output.h"

#include <errno.h>
#include <string.h>

void output_init(struct output *o, uint64_t limit)
{
	*o = (struct output){ .limit = limit, .kept = BUF_INIT((size_t)limit) };
}

static void ring_put(struct output *o, const char *p, size_t n)
{
	size_t head = (size_t)o->limit / 2, size = (size_t)o->limit - head;

	if (n > size) { /* only the newest can survive */
		p += n - size;
		n = size;
	}
	while (n) {
		size_t chunk = MIN2(n, size - o->ring_at);

		memcpy(o->kept.data + head + o->ring_at, p, chunk);
		o->ring_at = (o->ring_at + chunk) % size;
		p += chunk;
		n -= chunk;
	}
}

void output_add(struct output *o, const char *p, size_t n)
{
	size_t room = (size_t)o->limit - o->kept.len;
	size_t first = MIN2(n, room);

	o->total += n;
	if (o->kept.error)
		return; /* out of memory: counted as dropped */
	buf_put(&o->kept, p, first);
	if (n > first && !o->kept.error)
		ring_put(o, p + first, n - first);
}

uint64_t output_dropped(const struct output *o)
{
	return o->total - o->kept.len;
}

int output_finish(struct output *o, struct buf *ret)
{
	size_t head = (size_t)o->limit / 2, size = (size_t)o->limit - head;
	struct buf out = BUF_INIT((size_t)o->limit);

	if (o->ring_at == 0) {
		*ret = o->kept;
		o->kept = BUF_INIT(0);
		return 0;
	}
	buf_put(&out, o->kept.data, head);
	buf_put(&out, o->kept.data + head + o->ring_at, size - o->ring_at);
	buf_put(&out, o->kept.data + head, o->ring_at);
	if (out.error) {
		int r = out.error;

		buf_done(&out);
		return r;
	}
	*ret = out;
	return 0;
}

void output_done(struct output *o)
{
	buf_done(&o->kept);
}
