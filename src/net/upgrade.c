/* SPDX-License-Identifier: Apache-2.0 */
/* From a request to a WebSocket: RFC 6455, section 4.2. */
#include <errno.h>
#include <fcntl.h>
#include <strings.h>

#include "net/impl.h"

#define KEY_LEN     24 /* 16 bytes in base64 */
#define ACCEPT_SIZE 29
#define PROTOCOL    "brig.v1"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Is the token in the comma-separated list? */
static bool has_token(const char *list, const char *token)
{
	size_t want = strlen(token);

	while (list && *list) {
		size_t n;

		list += strspn(list, " \t,");
		n = strcspn(list, " \t,");
		if (n == want && strncasecmp(list, token, n) == 0)
			return true;
		list += n;
	}
	return false;
}

static bool asks(const struct http_request *r)
{
	return has_token(http_header(r, "Upgrade"), "websocket");
}

static bool is_key(const char *key)
{
	const char *last;

	if (!key || strlen(key) != KEY_LEN || !streq(key + KEY_LEN - 2, "=="))
		return false;
	if (strspn(key, alphabet) != KEY_LEN - 2)
		return false;
	last = strchr(alphabet, key[KEY_LEN - 3]);
	return (last - alphabet) % 16 == 0; /* the bits beyond 16 bytes */
}

unsigned upgrade_check_version(const struct http_request *r)
{
	const char *version = http_header(r, "Sec-WebSocket-Version");

	return asks(r) && version && !streq(version, "13") ? MHD_HTTP_UPGRADE_REQUIRED : 0;
}

int http_wants_ws(const struct http_request *r)
{
	static const char *const once[] = { "Upgrade", "Sec-WebSocket-Version",
		                            "Sec-WebSocket-Key" };

	if (!asks(r))
		return 0;
	for (size_t i = 0; i < ELEMENTSOF(once); i++)
		if (http_header_count(r, once[i]) != 1)
			return -EINVAL;
	if (!streq(r->method, "GET") || r->http10 || r->has_body)
		return -EINVAL;
	if (strcasecmp(http_header(r, "Upgrade"), "websocket") != 0 ||
	    !has_token(http_header(r, "Connection"), "upgrade"))
		return -EINVAL;
	return is_key(http_header(r, "Sec-WebSocket-Key")) ? 1 : -EINVAL;
}

static void encode(const uint8_t digest[SHA1_SIZE], char ret[ACCEPT_SIZE])
{
	size_t out = 0;

	for (size_t i = 0; i < SHA1_SIZE; i += 3) {
		uint32_t v = (uint32_t)digest[i] << 16 | (uint32_t)digest[i + 1] << 8 |
		             (i + 2 < SHA1_SIZE ? digest[i + 2] : 0);

		for (unsigned k = 0; k < 4; k++)
			ret[out++] = alphabet[v >> (18 - 6 * k) & 63];
	}
	ret[out - 1] = '='; /* 20 bytes leave one place */
	ret[out] = '\0';
}

static void accept_of(const char *key, char ret[ACCEPT_SIZE])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	char text[KEY_LEN + sizeof(guid)];
	uint8_t digest[SHA1_SIZE];

	(void)snprintf(text, sizeof(text), "%s%s", key, guid);
	sha1(text, strlen(text), digest);
	encode(digest, ret);
}

/* The answer is out. MHD is told that we have done, and goes; the socket lives on as our copy. */
static void on_upgraded(void *cls, struct MHD_Connection *mhd, void *context, const char *extra,
                        size_t extra_n, MHD_socket fd, struct MHD_UpgradeResponseHandle *handle)
{
	struct conn *c = conn_of(mhd);
	struct http_request *r = context;
	struct ws *w = r ? TAKE_PTR(r->ws) : NULL;

	(void)cls;
	if (w) {
		struct peer_use *use = TAKE_PTR(c->use);

		ws_opened(w, fcntl(fd, F_DUPFD_CLOEXEC, 0), use, extra, extra_n);
	}
	(void)MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
	server_dirty(c->s);
}

static struct MHD_Response *make_response(const struct http_request *r)
{
	struct MHD_Response *response = MHD_create_response_for_upgrade(on_upgraded, NULL);
	char accept[ACCEPT_SIZE];
	bool ok;

	if (!response)
		return NULL;
	accept_of(http_header(r, "Sec-WebSocket-Key"), accept);
	ok = MHD_add_response_header(response, "Upgrade", "websocket") == MHD_YES &&
	     MHD_add_response_header(response, "Sec-WebSocket-Accept", accept) == MHD_YES;
	if (ok && has_token(http_header(r, "Sec-WebSocket-Protocol"), PROTOCOL))
		ok = MHD_add_response_header(response, "Sec-WebSocket-Protocol", PROTOCOL) ==
		     MHD_YES;
	if (ok)
		return response;
	MHD_destroy_response(response);
	return NULL;
}

int http_upgrade(struct http_request *r, const struct ws_handler *h, void *data, struct ws **ret)
{
	struct MHD_Response *response;
	struct ws *w;

	if (r->answered || http_wants_ws(r) != 1)
		return -EINVAL;
	response = make_response(r);
	if (!response)
		return -ENOMEM;
	w = ws_new(r->s, h, data);
	if (!w) {
		MHD_destroy_response(response);
		return -ENOMEM;
	}
	r->response = response;
	r->status = MHD_HTTP_SWITCHING_PROTOCOLS;
	r->ws = w;
	r->answered = true;
	r->s->counts.answered++;
	request_resume(r);
	*ret = w;
	return 0;
}
