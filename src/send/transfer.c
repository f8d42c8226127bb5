/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "send/send.h"

#define ANSWER_BODY_MAX    4096  /* nobody reads it: more than this ends the transfer */
#define ANSWER_HEADERS_MAX 65536 /* likewise */
#define CONNECTIONS_KEPT   16

struct transfer {
	CURL *easy; /* NULL: free */
	struct curl_slist *headers;
	uint64_t id;
	size_t body_n, headers_n; /* of the answer, so far */
	bool enough;              /* we ended it: all that counts was there */
	char error[CURL_ERROR_SIZE];
};

static CURLM *multi;
static struct transfer transfers[SEND_TRANSFERS_MAX];
static unsigned n_transfers;

int transfers_open(void)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return -ENOMEM;
	multi = curl_multi_init();
	if (!multi)
		return -ENOMEM;
	if (curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT) != CURLM_OK)
		return -EINVAL;
	return 0;
}

bool transfers_full(void)
{
	return n_transfers == SEND_TRANSFERS_MAX;
}

static size_t on_body(char *p, size_t size, size_t n, void *data)
{
	struct transfer *t = data;

	(void)p;
	t->body_n += size * n;
	if (t->body_n <= ANSWER_BODY_MAX)
		return size * n;
	t->enough = true;
	return 0;
}

static size_t on_header(char *p, size_t size, size_t n, void *data)
{
	struct transfer *t = data;

	(void)p;
	t->headers_n += size * n;
	return t->headers_n <= ANSWER_HEADERS_MAX ? size * n : 0;
}

/* Where it goes, and where it does not: no other protocol, no redirect, no proxy of anybody's. */
static bool set_way(CURL *e, const struct send_frame *f)
{
	bool ok = curl_easy_setopt(e, CURLOPT_URL, f->url) == CURLE_OK;

	ok = ok && curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
	ok = ok && curl_easy_setopt(e, CURLOPT_REDIR_PROTOCOLS_STR, "https") == CURLE_OK;
	ok = ok && curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK;
	ok = ok && curl_easy_setopt(e, CURLOPT_PROXY, "") == CURLE_OK;
	ok = ok && curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK;
	ok = ok && curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK;
	ok = ok &&
	     curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK;
	ok = ok &&
	     curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK;
	return ok;
}

/* QUICK_EXIT: a resolver that hangs would keep everybody waiting when its transfer is over. */
static bool set_pace(CURL *e, const struct send_frame *f)
{
	long ms = (long)f->head.timeout_ms;

	return curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
	       curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, ms) == CURLE_OK &&
	       curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, ms) == CURLE_OK &&
	       curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK;
}

static bool add_header(struct transfer *t, const char *line)
{
	struct curl_slist *longer = curl_slist_append(t->headers, line);

	if (longer)
		t->headers = longer;
	return longer != NULL;
}

static bool set_content(struct transfer *t, const struct send_frame *f)
{
	CURL *e = t->easy;
	bool ok = add_header(t, "Expect:"); /* none: it costs a second where nobody answers it */

	for (uint32_t i = 0; ok && i < f->head.n_headers; i++)
		ok = add_header(t, f->headers[i]);
	ok = ok && curl_easy_setopt(e, CURLOPT_USERAGENT, "brig/" BRIG_VERSION) == CURLE_OK;
	ok = ok && curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers) == CURLE_OK;
	ok = ok && curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE, (long)f->head.body_n) == CURLE_OK;
	ok = ok && curl_easy_setopt(e, CURLOPT_COPYPOSTFIELDS, f->body) == CURLE_OK;
	return ok;
}

static bool set_ears(struct transfer *t)
{
	CURL *e = t->easy;

	return curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
	       curl_easy_setopt(e, CURLOPT_WRITEDATA, t) == CURLE_OK &&
	       curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
	       curl_easy_setopt(e, CURLOPT_HEADERDATA, t) == CURLE_OK &&
	       curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->error) == CURLE_OK &&
	       curl_easy_setopt(e, CURLOPT_PRIVATE, t) == CURLE_OK;
}

static void transfer_free(struct transfer *t)
{
	if (t->easy)
		curl_easy_cleanup(t->easy);
	curl_slist_free_all(t->headers);
	memset(t, 0, sizeof(*t));
}

/* Some of the text may be the other side's. */
static void put_error(struct send_answer *a, const char *text)
{
	(void)snprintf(a->error, sizeof(a->error), "%.*s", (int)sizeof(a->error) - 1,
	               text[0] ? text : "it failed");
	for (char *p = a->error; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
}

static struct transfer *free_transfer(void)
{
	for (size_t i = 0; i < ELEMENTSOF(transfers); i++)
		if (!transfers[i].easy)
			return &transfers[i];
	return NULL;
}

void transfer_start(const struct send_frame *frame, struct send_answer *ret, bool *ret_failed)
{
	struct transfer *t = free_transfer();

	*ret_failed = false;
	if (t) {
		t->id = frame->head.id;
		t->easy = curl_easy_init();
		if (t->easy && set_way(t->easy, frame) && set_pace(t->easy, frame) && set_ears(t) &&
		    set_content(t, frame) && curl_multi_add_handle(multi, t->easy) == CURLM_OK) {
			n_transfers++;
			return;
		}
		transfer_free(t);
	}
	*ret = (struct send_answer){ .id = frame->head.id };
	put_error(ret, "the request could not be made");
	*ret_failed = true;
}

void transfers_perform(void)
{
	int running;

	(void)curl_multi_perform(multi, &running);
}

static void answer_of(struct transfer *t, CURLcode code, struct send_answer *ret)
{
	curl_off_t after = 0;
	long status = 0;

	*ret = (struct send_answer){ .id = t->id };
	if (code == CURLE_OK || t->enough)
		(void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status < 100 || status > 999) {
		put_error(ret, t->error[0] ? t->error : curl_easy_strerror(code));
		return;
	}
	ret->status = (uint32_t)status;
	if (curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &after) == CURLE_OK && after > 0)
		ret->retry_after_s = (uint32_t)MIN2(after, (curl_off_t)UINT32_MAX);
}

bool transfers_next(struct send_answer *ret)
{
	struct CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(multi, &left))) {
		struct transfer *t = NULL;
		CURLcode code = m->data.result;

		if (m->msg != CURLMSG_DONE ||
		    curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t) != CURLE_OK)
			continue;
		answer_of(t, code, ret);
		(void)curl_multi_remove_handle(multi, t->easy);
		transfer_free(t);
		n_transfers--;
		return true;
	}
	return false;
}

void transfers_wait(int sock, bool listen, int timeout_ms)
{
	struct curl_waitfd fd = { .fd = sock, .events = listen ? CURL_WAIT_POLLIN : 0 };

	(void)curl_multi_poll(multi, &fd, 1, timeout_ms, NULL);
}
