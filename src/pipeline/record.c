/* SPDX-License-Identifier: Apache-2.0 */

/* What each move leaves in the ledger. Code and output are there by digest, their bodies beside the
 * chain; nothing of the guest's bytes is in a row. */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "pipeline/impl.h"

#define DETAIL_MAX     (16 * KIB)
#define RULES_RECORDED 16 /* of a job's findings; the count tells of the rest */

static void put_digest(struct buf *out, const char *key, const uint8_t digest[SHA256_SIZE])
{
	char hex[SHA256_HEX_SIZE];

	sha256_hex(digest, hex);
	buf_printf(out, "\"%s\":\"%s\"", key, hex);
}

/* The digest under this name, the size beside it, and the body beside the chain. */
static int put_body(struct pipeline *pl, struct buf *out, const char *key, struct str bytes,
                    const uint8_t *known, struct err *err)
{
	uint8_t digest[SHA256_SIZE];
	int r = 0;

	if (bytes.n && known)
		memcpy(digest, known, sizeof(digest));
	else if (bytes.n)
		sha256(bytes.p, bytes.n, digest);
	if (bytes.n)
		r = ledger_body_of(pl->ledger, bytes.p, bytes.n, digest, err);
	if (r < 0)
		return r;
	if (bytes.n)
		put_digest(out, key, digest);
	else
		buf_printf(out, "\"%s\":null", key);
	buf_printf(out, ",\"%s_bytes\":%zu", key, bytes.n);
	return 0;
}

static int received(struct pipeline *pl, struct job *job, struct buf *out, struct err *err)
{
	const struct request *r = &job->request;

	buf_printf(out, "\"action\":\"%s\",\"language\":\"%s\",\"args\":%zu,\"files\":%zu,",
	           action_name(r->action), language_name(r->language), r->n_args, r->n_files);
	if (job->code.len)
		buf_puts(out, "\"edited\":true,");
	if (kept_add(pl, job, err) < 0)
		return -EIO;
	return put_body(pl, out, "code", r->action == ACTION_CODE ? r->code : r->params, NULL, err);
}

static int analysed(struct pipeline *pl, struct job *job, struct buf *out, struct err *err)
{
	const struct findings *f = &job->findings;

	(void)pl;
	(void)err;
	buf_printf(out, "\"level\":\"%s\",\"complete\":%s,\"findings\":%zu,\"rules\":[",
	           risk_level_name(f->level), f->complete ? "true" : "false", f->n);
	for (size_t i = 0; i < f->n && i < RULES_RECORDED; i++) {
		if (i)
			buf_putc(out, ',');
		json_put_cstr(out, f->v[i].rule);
	}
	buf_printf(out, "],\"rules_id\":\"%.16s\"", risk_rules_id());
	return 0;
}

static int decided(struct pipeline *pl, struct job *job, struct buf *out, struct err *err)
{
	const struct decision *d = &job->decision;

	(void)err;
	buf_printf(out, "\"verdict\":\"%s\",\"policy\":", verdict_name(d->verdict));
	json_put_cstr(out, d->policy);
	buf_puts(out, ",\"rule\":");
	json_put_cstr(out, d->rule);
	buf_printf(out, ",\"policy_id\":\"%.16s\"", policy_digest(pl->policies[0]));
	if (*job->lowered) {
		buf_puts(out, ",\"lowered\":");
		json_put_cstr(out, job->lowered);
	}
	return 0;
}

static int confirmed(struct pipeline *pl, struct job *job, struct buf *out, struct err *err)
{
	const struct approval *a = &job->approval;

	(void)pl;
	(void)err;
	/* A policy that came while it waited may let it through without the answer. */
	if (!*a->id || job->decision.verdict == VERDICT_ALLOW) {
		buf_puts(out, "\"by\":\"policy\"");
		return 0;
	}
	buf_printf(out, "\"approval\":\"%s\",\"by\":", a->id);
	json_put_cstr(out, a->answered_by);
	buf_putc(out, ',');
	put_digest(out, "digest", a->digest);
	return 0;
}

static int waiting(struct pipeline *pl, struct job *job, struct buf *out, struct err *err)
{
	buf_printf(out, "\"approval\":\"%s\",", job->approval.id);
	put_digest(out, "digest", job->approval.digest);
	if (kept_wait(pl, job, err) < 0)
		return -EIO;
	return open_job_add(pl, job, JOB_WAITING, err);
}

static int routed(struct pipeline *pl, struct job *job, struct buf *out, struct err *err)
{
	const struct request *r = &job->effective;
	char number[LIMIT_NUMBER_SIZE];

	(void)pl;
	(void)err;
	buf_printf(out, "\"tier\":\"%s\",\"executor\":\"%s\",\"level\":\"%s\",\"network\":\"%s\"",
	           tier_name(job->executor->ops->tier), job->executor->ops->name,
	           level_name(r->level), network_name(r->network));
	for (size_t i = 0; i < limit_infos_n; i++)
		buf_printf(out, ",\"%s\":%s", limit_infos[i].key,
		           limit_number(&limit_infos[i],
		                        *limits_field((struct limits *)&r->limits, &limit_infos[i]),
		                        number));
	return 0;
}

static int running(struct pipeline *pl, struct job *job, struct buf *out, struct err *err)
{
	(void)out;
	return open_job_add(pl, job, JOB_RUNNING, err);
}

/* What held, without the texts of each layer: the limits are in the row before. */
static void put_receipt(const struct receipt *receipt, struct buf *out)
{
	bool first = true;

	buf_printf(out,
	           "\"receipt\":{\"verified\":%s,\"level_required\":\"%s\","
	           "\"level_achieved\":\"%s\",\"image\":",
	           receipt->verified ? "true" : "false", level_name(receipt->level_required),
	           level_name(receipt->level_achieved));
	json_put_cstr(out, receipt->image);
	buf_puts(out, ",\"launcher\":");
	json_put_cstr(out, receipt->launcher);
	buf_printf(out, ",\"seccomp\":\"%.16s\",\"not_enforced\":[", receipt->seccomp_profile);
	for (unsigned i = 0; i < LAYER_COUNT; i++) {
		if (receipt->layers[i].enforced)
			continue;
		buf_printf(out, "%s\"%s\"", first ? "" : ",", layer_name((enum layer_id)i));
		first = false;
	}
	buf_puts(out, "]}");
}

static void put_usage(const struct usage *u, struct buf *out)
{
	buf_printf(out,
	           "\"usage\":{\"wall_ms\":%" PRIu64 ",\"cpu_ms\":%" PRIu64
	           ",\"peak_memory_bytes\":%" PRIu64 ",\"pids_peak\":%" PRIu64 "}",
	           u->wall_ms, u->cpu_ms, u->peak_memory_bytes, u->pids_peak);
}

static int record_files(struct pipeline *pl, const struct job *job, struct err *err)
{
	static const char *const names[] = {
		[FILE_CREATED] = "created", [FILE_MODIFIED] = "modified", [FILE_DELETED] = "deleted"
	};

	for (size_t i = 0; i < job->result.n_files; i++) {
		const struct result_file *f = &job->result.files[i];
		CLEANUP_BUF struct buf b = BUF_INIT(DETAIL_MAX);
		int r;

		buf_puts(&b, "{\"path\":");
		json_put_cstr(&b, f->path);
		buf_printf(&b, ",\"size\":%" PRIu64 ",\"sha256\":null}", f->size);
		if (buf_finish(&b) < 0)
			return err_set(err, ERR_LIMIT, -b.error, "file event");
		r = ledger_append(pl->ledger,
		                  &(struct ledger_event){ .job = job->id,
		                                          .session = job->request.session_id,
		                                          .kind = "file",
		                                          .name = names[f->change],
		                                          .actor = "brig",
		                                          .detail = { b.data, b.len } },
		                  err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int finished(struct pipeline *pl, struct job *job, struct buf *out, struct err *err)
{
	const struct result *res = &job->result;
	int r;

	buf_printf(out, "\"state\":\"%s\",", run_state_name(res->state));
	if (res->has_exit_code)
		buf_printf(out, "\"exit_code\":%d,", res->exit_code);
	if (res->signal)
		buf_printf(out, "\"signal\":%d,", res->signal);
	put_usage(&res->usage, out);
	buf_putc(out, ',');
	r = put_body(pl, out, "stdout", (struct str){ res->out.data, res->out.len },
	             job->digested ? job->out_digest : NULL, err);
	buf_putc(out, ',');
	if (r >= 0)
		r = put_body(pl, out, "stderr", (struct str){ res->errout.data, res->errout.len },
		             job->digested ? job->err_digest : NULL, err);
	buf_printf(out, ",\"dropped\":%" PRIu64 ",", res->out_dropped + res->err_dropped);
	put_receipt(&res->receipt, out);
	if (r >= 0)
		r = record_files(pl, job, err);
	if (r >= 0)
		r = kept_end(pl, job, JOB_FINISHED, err);
	return r < 0 ? r : open_job_remove(pl, job, err);
}

/* It did not run: why. */
static int ended(struct pipeline *pl, struct job *job, struct buf *out, struct err *err)
{
	const struct err *why = &job->result.error;
	int r = 0;

	buf_printf(out, "\"code\":\"%s\",\"cause\":",
	           why->code == ERR_NONE ? "cancelled" : err_code_name(why->code));
	json_put_cstr(out, why->code == ERR_NONE ? "by whoever asked" : why->msg);
	if (job->state == JOB_WAITING)
		r = confirm_withdraw(pl->ledger, job->approval.id,
		                     job->cancelled ? job_caller(pl, job) : "pipeline", err);
	return r < 0 ? r : open_job_remove(pl, job, err);
}

static int (*const details[JOB_STATE_COUNT])(struct pipeline *, struct job *, struct buf *,
                                             struct err *) = {
	[JOB_RECEIVED] = received, [JOB_ANALYSED] = analysed,   [JOB_DECIDED] = decided,
	[JOB_WAITING] = waiting,   [JOB_CONFIRMED] = confirmed, [JOB_ROUTED] = routed,
	[JOB_RUNNING] = running,   [JOB_FINISHED] = finished,   [JOB_DENIED] = ended,
	[JOB_EXPIRED] = ended,     [JOB_CANCELLED] = ended,     [JOB_FAILED] = ended,
};

int job_record(struct pipeline *pl, struct job *job, enum job_state next, struct err *err)
{
	CLEANUP_BUF struct buf b = BUF_INIT(DETAIL_MAX);
	int r;

	if (!pl->ledger)
		return 0;
	r = ledger_begin(pl->ledger, err); /* what is kept beside the row is of its group */
	if (r < 0)
		return r;
	buf_putc(&b, '{');
	r = details[next](pl, job, &b, err);
	buf_putc(&b, '}');
	if (r >= 0 && details[next] == ended)
		r = kept_end(pl, job, next, err);
	if (r < 0)
		return r;
	if (buf_finish(&b) < 0)
		return err_set(err, ERR_LIMIT, -b.error, "detail of %s", job_state_name(next));
	return ledger_append(pl->ledger,
	                     &(struct ledger_event){
				     .job = job->id,
				     .session = job->request.session_id,
				     .kind = "state",
				     .name = job_state_name(next),
				     .actor = next == JOB_RECEIVED ? job_caller(pl, job) : "brig",
				     .detail = { b.data, b.len } },
	                     err);
}
