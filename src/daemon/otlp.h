/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Traces of executions, posted as OTLP/HTTP JSON to URL/v1/traces: a span for the whole and one for
 * each step. What cannot be delivered in time is dropped and counted; nobody waits for it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "daemon/config.h"
#include "daemon/sender.h"
#include "pipeline/pipeline.h"

#define OTLP_QUEUE_MAX  4096 /* spans */
#define OTLP_BATCH_MAX  64
#define OTLP_BATCH_MS   1000
#define OTLP_FLYING_MAX 4 /* batches that are sent or wait to be sent again */
#define OTLP_ATTEMPTS   5
#define OTLP_BODY_MAX   (512 * KIB)
#define OTLP_SPANS_MAX  7 /* of one execution */

struct otlp;

struct otlp_counts {
	uint64_t sent, dropped, retried; /* spans, spans, batches */
	unsigned queued;                 /* spans, those of batches under way included */
};

/* NULL in *ret when the configuration names no URL; all calls take that. */
int otlp_open(uv_loop_t *loop, const struct daemon_config *config, struct sender *sender,
              struct otlp **ret, struct err *err);
/* Before sender_close(). */
void otlp_close(struct otlp *o);
/* A job that is over. traceparent: the header as it came, or NULL; a wrong one is ignored. */
void otlp_job(struct otlp *o, const struct job *job, const char *traceparent);
void otlp_flush(struct otlp *o); /* without waiting for more */
bool otlp_is_idle(const struct otlp *o);
void otlp_counts(const struct otlp *o, struct otlp_counts *ret);

/* otlp_span.c */
struct trace_ids {
	uint8_t trace[16];
	uint8_t parent[8];
	bool has_parent;
};

/* W3C trace context, version 00, to the letter. false: ret is untouched. */
bool traceparent_parse(const char *text, struct trace_ids *ret);

struct span {
	uint8_t trace[16], id[8], parent[8];
	bool has_parent;
	const char *name;          /* a literal */
	uint64_t start_ns, end_ns; /* since 1970 */
	bool root;                 /* has what follows */
	bool failed;
	char execution[EXECUTION_ID_SIZE];
	const char *language, *state, *risk, *verdict, *tier; /* literals; NULL: none */
	bool has_exit_code;
	int exit_code;
};

/* Random bytes for ids: the trace's and those of the spans. */
struct span_seed {
	uint8_t trace[16], id[OTLP_SPANS_MAX][8];
};

/* epoch_ns - mono_ns turns the job's times into those of the world. Returns how many. */
size_t spans_of_job(const struct job *job, const char *traceparent, const struct span_seed *seed,
                    uint64_t mono_ns, uint64_t epoch_ns, struct span ret[OTLP_SPANS_MAX]);
/* One ExportTraceServiceRequest. */
void spans_begin(struct buf *out);
void spans_put(struct buf *out, const struct span *s, bool first);
void spans_end(struct buf *out);
