/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/reply.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/parse.h"

void reply_init(struct reply *r, size_t body_max)
{
	*r = (struct reply){ .line = BUF_INIT(REPLY_LINE_MAX), .body = BUF_INIT(body_max) };
}

void reply_free_fields(struct reply *r)
{
	buf_done(&r->line);
	buf_done(&r->body);
}

/* "HTTP/1.1 200 OK" */
static int take_status(struct reply *r, const char *s)
{
	if (!str_has_prefix(s, "HTTP/1.1 ") && !str_has_prefix(s, "HTTP/1.0 "))
		return -EPROTO;
	s += 9;
	for (int i = 0; i < 3; i++)
		if (!isdigit((unsigned char)s[i]))
			return -EPROTO;
	if ((s[3] && s[3] != ' ') || s[0] == '0')
		return -EPROTO;
	r->status = (unsigned)((s[0] - '0') * 100 + (s[1] - '0') * 10 + (s[2] - '0'));
	r->state = REPLY_HEADER;
	return 0;
}

static int take_length(struct reply *r, const char *value)
{
	uint64_t n;

	if (parse_u64(value, &n) < 0 || (r->has_length && n != r->left))
		return -EPROTO;
	r->has_length = true;
	r->left = n;
	return 0;
}

static int take_value(struct reply *r, const char *name, const char *value)
{
	if (strcasecmp(name, "content-length") == 0)
		return take_length(r, value);
	if (strcasecmp(name, "transfer-encoding") == 0) {
		if (r->chunked || strcasecmp(value, "chunked") != 0)
			return -EPROTO;
		r->chunked = true;
	} else if (strcasecmp(name, "content-type") == 0) {
		(void)snprintf(r->type, sizeof(r->type), "%s", value);
	} else if (strcasecmp(name, "retry-after") == 0) {
		(void)parse_u64(value, &r->retry_after_s);
	} else if (strcasecmp(name, "brig-next-offset") == 0) {
		r->has_next_offset = parse_u64(value, &r->next_offset) == 0;
	} else if (strcasecmp(name, "brig-dropped") == 0) {
		(void)parse_u64(value, &r->dropped);
	} else if (strcasecmp(name, "brig-done") == 0) {
		r->output_done = streq(value, "true");
	} else if (strcasecmp(name, "brig-replayed") == 0) {
		r->replayed = streq(value, "true");
	}
	return 0;
}

static int end_head(struct reply *r)
{
	if (r->chunked && r->has_length)
		return -EPROTO; /* two ends: whoever is between us could see another one */
	if (r->status == 101)
		return -EPROTO;
	if (r->status < 200) {
		r->state = REPLY_STATUS;
		r->chunked = r->has_length = false;
	} else if (r->status == 204 || r->status == 304) {
		r->state = REPLY_DONE;
	} else if (r->chunked) {
		r->state = REPLY_CHUNK_SIZE;
	} else if (r->has_length) {
		r->state = r->left ? REPLY_LENGTH : REPLY_DONE;
	} else {
		r->state = REPLY_CLOSE;
	}
	if (r->has_length && r->left > r->body.max)
		return -EFBIG;
	return 0;
}

static bool is_token(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("!#$%&'*+-.^_`|~", s[i]))
			return false;
	return n > 0;
}

static int take_header(struct reply *r, char *line)
{
	char *colon = strchr(line, ':'), *value, *end;

	if (!*line)
		return end_head(r);
	if (!colon || !is_token(line, (size_t)(colon - line)))
		return -EPROTO;
	*colon = '\0';
	value = colon + 1 + strspn(colon + 1, " \t");
	end = value + strlen(value);
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		*--end = '\0';
	return take_value(r, line, value);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int take_chunk_size(struct reply *r, const char *line)
{
	uint64_t n = 0;
	size_t i = 0;

	for (; hex_digit(line[i]) >= 0; i++) {
		if (i == 15)
			return -EPROTO;
		n = n << 4 | (uint64_t)hex_digit(line[i]);
	}
	if (i == 0 || (line[i] && !strchr("; \t", line[i])))
		return -EPROTO;
	if (n > r->body.max)
		return -EFBIG;
	r->left = n;
	r->line_bytes = 0; /* the bound is of one head; chunks may be many */
	r->state = n ? REPLY_CHUNK : REPLY_TRAILER;
	return 0;
}

static int take_line(struct reply *r, char *line)
{
	switch (r->state) {
	case REPLY_STATUS:
		return take_status(r, line);
	case REPLY_HEADER:
		return take_header(r, line);
	case REPLY_CHUNK_SIZE:
		return take_chunk_size(r, line);
	case REPLY_CHUNK_END:
		r->state = REPLY_CHUNK_SIZE;
		return *line ? -EPROTO : 0;
	case REPLY_TRAILER:
		if (!*line)
			r->state = REPLY_DONE;
		return 0;
	case REPLY_LENGTH:
	case REPLY_CLOSE:
	case REPLY_CHUNK:
	case REPLY_DONE:
		break;
	}
	return -EPROTO;
}

static int feed_line(struct reply *r, const char *p, size_t n, size_t *ret_used)
{
	const char *end = memchr(p, '\n', n);
	size_t used = end ? (size_t)(end - p) + 1 : n;
	int e;

	r->line_bytes += used;
	buf_put(&r->line, p, used - (end != NULL));
	if (r->line.error == -ENOMEM)
		return -ENOMEM;
	if (r->line.error || r->line_bytes > REPLY_HEAD_MAX)
		return -EFBIG;
	*ret_used = used;
	if (!end)
		return 0;
	if (r->line.len && r->line.data[r->line.len - 1] == '\r')
		r->line.data[--r->line.len] = '\0';
	if (r->line.len && memchr(r->line.data, 0, r->line.len))
		return -EPROTO;
	e = take_line(r, r->line.data ? r->line.data : (char[]){ "" });
	r->line.len = 0;
	return e;
}

static int feed_body(struct reply *r, const char *p, size_t n, size_t *ret_used)
{
	size_t take = r->state == REPLY_CLOSE ? n : MIN2(n, (size_t)r->left);

	buf_put(&r->body, p, take);
	if (r->body.error)
		return r->body.error;
	*ret_used = take;
	if (r->state == REPLY_CLOSE)
		return 0;
	r->left -= take;
	if (!r->left)
		r->state = r->state == REPLY_CHUNK ? REPLY_CHUNK_END : REPLY_DONE;
	return 0;
}

int reply_feed(struct reply *r, const char *p, size_t n)
{
	while (n && r->state != REPLY_DONE) {
		bool body = r->state == REPLY_LENGTH || r->state == REPLY_CLOSE ||
		            r->state == REPLY_CHUNK;
		size_t used = 0;
		int e = body ? feed_body(r, p, n, &used) : feed_line(r, p, n, &used);

		if (e < 0)
			return e;
		p += used;
		n -= used;
	}
	return 0;
}

int reply_eof(struct reply *r)
{
	if (r->state == REPLY_CLOSE)
		r->state = REPLY_DONE;
	return r->state == REPLY_DONE ? 0 : -EPROTO;
}

void event_reader_init(struct event_reader *e, size_t data_max)
{
	*e = (struct event_reader){ .data = BUF_INIT(data_max) };
}

void event_reader_free_fields(struct event_reader *e)
{
	buf_done(&e->data);
}

static void take_field(struct event_reader *e, const char *line, size_t n)
{
	const char *colon = memchr(line, ':', n);
	size_t n_name = colon ? (size_t)(colon - line) : n;
	const char *value = colon ? colon + 1 : line + n;
	size_t n_value = n - (size_t)(value - line);
	char number[24];

	if (n_value && *value == ' ') {
		value++;
		n_value--;
	}
	if (n_name == 4 && memcmp(line, "data", 4) == 0) {
		buf_put(&e->data, value, n_value);
		buf_putc(&e->data, '\n');
	} else if (n_name == 5 && memcmp(line, "event", 5) == 0) {
		(void)snprintf(e->name, sizeof(e->name), "%.*s",
		               (int)MIN2(n_value, sizeof(e->name) - 1), value);
	} else if (n_name == 2 && memcmp(line, "id", 2) == 0 && n_value < sizeof(number)) {
		(void)snprintf(number, sizeof(number), "%.*s", (int)n_value, value);
		(void)parse_u64(number, &e->id);
	}
}

/* Takes one line; true when it ends an event that says something. */
static bool take_event_line(struct event_reader *e, const char *line, size_t n)
{
	if (n && line[n - 1] == '\r')
		n--;
	if (n) {
		take_field(e, line, n);
		return false;
	}
	e->given = e->data.len > 0 || e->data.error;
	if (!e->given)
		e->name[0] = '\0';
	return e->given;
}

static void drop_taken(struct event_reader *e, struct buf *body)
{
	if (!e->taken)
		return;
	memmove(body->data, body->data + e->taken, body->len - e->taken);
	body->len -= e->taken;
	e->at -= e->taken;
	e->taken = 0;
}

int event_next(struct event_reader *e, struct buf *body, struct event *ret)
{
	if (e->given) {
		e->given = false;
		e->name[0] = '\0';
		e->data.len = 0;
	}
	while (e->at < body->len) {
		const char *end = memchr(body->data + e->at, '\n', body->len - e->at);
		const char *line = body->data + e->taken;

		if (!end) {
			e->at = body->len;
			break;
		}
		e->at = e->taken = (size_t)(end - body->data) + 1;
		if (!take_event_line(e, line, (size_t)(end - line)))
			continue;
		if (e->data.error)
			return e->data.error;
		*ret = (struct event){ .id = e->id, .data = { e->data.data, e->data.len - 1 } };
		memcpy(ret->name, e->name, sizeof(ret->name));
		return 1;
	}
	drop_taken(e, body);
	return 0;
}
