/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The table that routes, and that the OpenAPI document is made from. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define API_PREFIX     "/api/v1"
#define ROUTE_ARGS_MAX 2 /* {names} in a path */
#define ROUTE_ARG_SIZE 64

struct api;
struct call;

enum route_flag {
	ROUTE_BODY = 1 << 0,  /* takes a JSON body, and must have one */
	ROUTE_LARGE = 1 << 1, /* of up to the configured bound, not 256 KiB */
	ROUTE_WS = 1 << 2,    /* may be, or (with ROUTE_ONLY_WS) must be, asked as a WebSocket */
	ROUTE_ONLY_WS = 1 << 3,
	ROUTE_KEY = 1 << 4,      /* takes an Idempotency-Key */
	ROUTE_SSE = 1 << 5,      /* answers with server-sent events */
	ROUTE_DRAINING = 1 << 6, /* answered also while draining */
};

struct route_param {
	const char *name, *type, *text; /* type: "integer", "string", "boolean" */
};

struct route {
	const char *method, *path; /* "/executions/{id}" below API_PREFIX */
	const char *id;            /* operationId */
	uint32_t scopes;           /* one of these is needed; 0: any principal */
	unsigned flags;
	void (*run)(struct api *api, struct call *c);
	const char *summary;
	const char *request;              /* name of a schema; NULL: no body */
	const char *response;             /* name of a schema, or a media type when it has a '/' */
	unsigned status;                  /* of success */
	const struct route_param *params; /* of the query; ends with a NULL name */
};

extern const struct route routes[];
extern const size_t routes_n;

struct route_match {
	const struct route *route; /* NULL: there is none */
	char args[ROUTE_ARGS_MAX][ROUTE_ARG_SIZE];
	char allow[64]; /* the methods of that path, when only the method is wrong */
};
/* By the path as it was sent: anything but [A-Za-z0-9._~/-] in it is no route at all. */
void route_find(const char *method, const char *path, struct route_match *ret);

/* OpenAPI 3.1, from the table and the schemas. */
int openapi_write(struct buf *out, struct err *err);
