/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The steps. Each reads what the earlier ones wrote, writes its own fields of the job and says
 * which state comes next; none calls another, none changes the state.
 */

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "pipeline/impl.h"

#define HEAD_SHOWN 2048 /* of a file and of standard input */

/* Each kind of action: how it is assessed and what an executor must be able to do. */
static void assess_code(struct pipeline *pl, struct job *job)
{
	risk_assess(pl->risk, job->request.language, job->request.code, &job->findings);
	risk_assess_placed(pl->risk, &job->request, &job->findings);
}

static void assess_browsing(struct pipeline *pl, struct job *job)
{
	risk_assess_browser(pl->risk, job->request.params, &job->findings);
}

/* A file of a session's own workspace: reading and writing there is what it is for. */
static void assess_file(struct pipeline *pl, struct job *job)
{
	(void)pl;
	job->findings = (struct findings){ .level = RISK_LOW, .complete = true };
}

static const struct {
	void (*assess)(struct pipeline *pl, struct job *job);
	uint32_t needs;
	const char *remedy; /* when no executor can */
} actions[ACTION_COUNT] = {
	[ACTION_CODE] = { assess_code, EXEC_CAP_CODE, "use the tier \"jail\" or \"auto\"" },
	[ACTION_BROWSE] = { assess_browsing, EXEC_CAP_BROWSER,
	                    "this version has no browser; fetch the page outside and pass it as a "
	                    "file" },
	[ACTION_FILE] = { assess_file, EXEC_CAP_FILES,
	                  "this version has no sessions; place files with \"files\"" },
};

int step_analyse(struct pipeline *pl, struct job *job)
{
	actions[job->request.action].assess(pl, job);
	job->result.risk = &job->findings;
	return JOB_ANALYSED;
}

int step_decide(struct pipeline *pl, struct job *job)
{
	const struct policy_input in = { .request = &job->request,
		                         .findings = &job->findings,
		                         .action = action_name(job->request.action),
		                         .caller = job_caller(pl, job),
		                         .labels = job->caller ? job->labels : pl->config.labels,
		                         .n_labels = job->caller ? job->n_labels
		                                                 : pl->config.n_labels };
	struct decision other;

	policy_eval(pl->policies[0], &in, &job->decision);
	for (size_t i = 1; i < pl->n_policies; i++) {
		policy_eval(pl->policies[i], &in, &other);
		decision_combine(&job->decision, &other);
	}
	job->effective = job->request;
	if (job->decision.verdict != VERDICT_DENY &&
	    decision_apply(&job->decision, &job->effective, &job->result.error) < 0)
		return JOB_DENIED;
	decision_changes(&job->request, &job->effective, job->lowered);
	job->result.receipt.level_required = job->effective.level;
	return JOB_DECIDED;
}

void pipeline_preview(struct pipeline *pl, struct job *job)
{
	job->effective = job->request;
	(void)step_analyse(pl, job);
	(void)step_decide(pl, job);
}

static int deny(struct job *job)
{
	const struct decision *d = &job->decision;

	(void)err_set(&job->result.error, ERR_DENIED, 0, "policy %s, rule %s: %s", d->policy,
	              d->rule, d->reason);
	(void)err_remedy(&job->result.error, 0, "\"brig policy explain\" shows what decided");
	return JOB_DENIED;
}

static void put_limits(struct buf *out, const struct request *r)
{
	char number[LIMIT_NUMBER_SIZE];

	buf_puts(out, "\"limits\":{");
	for (size_t i = 0; i < limit_infos_n; i++)
		buf_printf(out, "%s\"%s\":%s", i ? "," : "", limit_infos[i].key,
		           limit_number(&limit_infos[i],
		                        *limits_field((struct limits *)&r->limits, &limit_infos[i]),
		                        number));
	buf_putc(out, '}');
}

static void put_names(struct buf *out, const char *key, const char *const *list, size_t n)
{
	buf_printf(out, ",\"%s\":[", key);
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_putc(out, ',');
		json_put_cstr(out, list[i]);
	}
	buf_putc(out, ']');
}

/* Bytes that the code will see: their digest, and their beginning for the eyes. */
static void put_bytes(struct buf *out, struct str bytes)
{
	uint8_t digest[SHA256_SIZE];
	char hex[SHA256_HEX_SIZE];

	sha256(bytes.p, bytes.n, digest);
	sha256_hex(digest, hex);
	buf_printf(out, "\"size\":%zu,\"sha256\":\"%s\",\"head\":", bytes.n, hex);
	json_put_string(out, bytes.p, MIN2(bytes.n, (size_t)HEAD_SHOWN));
}

static void put_files(struct buf *out, const struct request *r)
{
	buf_puts(out, ",\"files\":[");
	for (size_t i = 0; i < r->n_files; i++) {
		buf_puts(out, i ? ",{\"path\":" : "{\"path\":");
		json_put_cstr(out, r->files[i].path);
		buf_printf(out, ",\"executable\":%s,", r->files[i].executable ? "true" : "false");
		put_bytes(out, r->files[i].data);
		buf_putc(out, '}');
	}
	buf_putc(out, ']');
}

/* All that is bound by the digest, for the eyes of whoever answers. */
static int summarise(const struct job *job, struct buf *out)
{
	const struct request *r = &job->effective;

	buf_printf(out,
	           "{\"action\":\"%s\",\"language\":\"%s\",\"tier\":\"%s\",\"level\":\"%s\","
	           "\"network\":\"%s\",\"name\":",
	           action_name(r->action), language_name(r->language), tier_name(r->tier),
	           level_name(r->level), network_name(r->network));
	json_put_cstr(out, r->name ? r->name : "");
	buf_puts(out, ",\"params\":");
	json_put_string(out, r->params.p, r->params.n);
	buf_puts(out, ",\"stdin\":{");
	put_bytes(out, r->stdin_data);
	buf_puts(out, "},");
	put_limits(out, r);
	put_names(out, "args", r->args, r->n_args);
	put_names(out, "env", r->env, r->n_env);
	put_names(out, "tools", r->tools, r->n_tools);
	put_files(out, r);
	buf_puts(out, ",\"decision\":");
	decision_to_json(&job->decision, out);
	buf_puts(out, ",\"risk\":");
	findings_to_json(&job->findings, out);
	buf_putc(out, '}');
	return buf_finish(out);
}

static int ask(struct pipeline *pl, struct job *job)
{
	CLEANUP_BUF struct buf summary = BUF_INIT(APPROVAL_SUMMARY_MAX);
	struct confirm_question q = { .job = job->id,
		                      .session = job->request.session_id,
		                      .asker = job_caller(pl, job),
		                      .language = job->effective.language,
		                      .code = job->effective.code,
		                      .digest = job->digest,
		                      .rest = job->rest,
		                      .decision = &job->decision };
	int r = summarise(job, &summary);

	if (r < 0)
		return err_set(&job->result.error, ERR_LIMIT, -r, "summary of the request");
	if (pl->held.n + pl->asking.n >= PIPELINE_HELD_MAX)
		return err_set(&job->result.error, ERR_LIMIT, EBUSY, "%d jobs wait for an answer",
		               PIPELINE_HELD_MAX);
	q.summary = (struct str){ summary.data, summary.len };
	r = pipeline_need_bell(pl, &job->result.error); /* before anybody can answer */
	if (r >= 0)
		r = confirm_ask(pl->ledger, &q, &job->approval, &job->result.error);
	if (r == -EBUSY)
		return JOB_DENIED;
	return r < 0 ? r : JOB_WAITING;
}

/* 1: there is a standing "yes", and it is used now. */
static int use_standing(struct pipeline *pl, struct job *job)
{
	int r;

	request_digest(&job->effective, job->digest, job->rest);
	r = confirm_use(pl->ledger, job->digest, &job->decision, job_caller(pl, job),
	                job->request.session_id, job->id, &job->approval, &job->result.error);
	if (r == 1) {
		memcpy(job->result.approval_id, job->approval.id, sizeof(job->approval.id));
		pl->durable = true;
	}
	return r;
}

int step_confirm(struct pipeline *pl, struct job *job)
{
	int r;

	switch (job->decision.verdict) {
	case VERDICT_ALLOW:
		return JOB_CONFIRMED;
	case VERDICT_CONFIRM:
		break;
	case VERDICT_DENY:
	case VERDICT_COUNT:
		return deny(job);
	}
	if (!pl->ledger) {
		(void)err_set(&job->result.error, ERR_DENIED, 0,
		              "it needs an approval, and there is no record to hold one");
		return JOB_DENIED;
	}
	r = use_standing(pl, job);
	if (r != 0)
		return r < 0 ? r : JOB_CONFIRMED;
	return ask(pl, job);
}

/* Other code was approved than was asked for: it goes the whole way again, and is used up there. */
static int take_edited(struct pipeline *pl, struct job *job)
{
	job->code.len = 0;
	if (confirm_texts(pl->ledger, job->approval.id, &job->code, NULL, &job->result.error) < 0)
		return -EIO;
	if (buf_finish(&job->code) < 0)
		return err_set(&job->result.error, ERR_LIMIT, EFBIG, "the edited code");
	job->request.code = (struct str){ job->code.data, job->code.len };
	return JOB_RECEIVED;
}

/*
 * The yes counts under the policies of now: they may be others than when it was asked for, by a
 * restart or a reload. JOB_WAITING: they still want it, for what was seen.
 */
static int judge_again(struct pipeline *pl, struct job *job)
{
	int r = step_decide(pl, job);

	if (r < 0 || r == JOB_DENIED)
		return r;
	if (job->decision.verdict != VERDICT_CONFIRM)
		return JOB_DECIDED; /* on record, and then denied or let through by policy */
	request_digest(&job->effective, job->digest, job->rest);
	if (memcmp(job->rest, job->approval.rest, sizeof(job->rest)) == 0)
		return JOB_WAITING;
	(void)err_set(
		&job->result.error, ERR_DENIED, 0,
		"the policy has changed since the question was asked, and with it the bounds");
	(void)err_remedy(&job->result.error, 0, "run it again: what will run is asked anew");
	return JOB_DENIED;
}

static int take_yes(struct pipeline *pl, struct job *job)
{
	int r;

	if (job->approval.edited)
		return take_edited(pl, job);
	r = judge_again(pl, job);
	if (r != JOB_WAITING)
		return r;
	r = use_standing(pl, job);
	if (r != 0)
		return r < 0 ? r : JOB_CONFIRMED;
	(void)err_set(&job->result.error, ERR_DENIED, 0,
	              "another run has used the approval, or the policy does not take it any more");
	return JOB_DENIED;
}

int step_answered(struct pipeline *pl, struct job *job)
{
	const struct approval *a = &job->approval;
	int r = confirm_look(pl->ledger, a->id, &job->approval, &job->result.error);

	if (r < 0)
		return r;
	memcpy(job->result.approval_id, a->id, sizeof(a->id));
	switch (a->state) {
	case APPROVAL_WAITING:
		return JOB_WAITING;
	case APPROVAL_ALLOWED:
		return take_yes(pl, job);
	case APPROVAL_EXPIRED:
		(void)err_set(&job->result.error, ERR_EXPIRED, 0, "nobody answered in time");
		return JOB_EXPIRED;
	case APPROVAL_DENIED:
		(void)err_set(&job->result.error, ERR_DENIED, 0, "denied by %s%s%s", a->answered_by,
		              *a->reason ? ": " : "", a->reason);
		return JOB_DENIED;
	case APPROVAL_NONE:
	case APPROVAL_USED:
	case APPROVAL_WITHDRAWN:
	case APPROVAL_REVOKED:
	case APPROVAL_STATE_COUNT:
		break;
	}
	(void)err_set(&job->result.error, ERR_DENIED, 0, "the approval is %s",
	              approval_state_name(a->state));
	return JOB_DENIED;
}

int step_route(struct pipeline *pl, struct job *job)
{
	uint32_t need = actions[job->request.action].needs;
	enum tier tier = job->effective.tier;

	for (size_t i = 0; i < pl->config.n_executors; i++) {
		struct executor *ex = pl->config.executors[i];

		if ((ex->ops->caps & need) != need || (tier != TIER_AUTO && tier != ex->ops->tier))
			continue;
		job->executor = ex;
		job->result.tier = tier_name(ex->ops->tier);
		return JOB_ROUTED;
	}
	(void)err_set(&job->result.error, ERR_UNSUPPORTED, 0,
	              "no executor for \"%s\" in the tier \"%s\" is built in",
	              action_name(job->request.action), tier_name(tier));
	return err_remedy(&job->result.error, -EOPNOTSUPP, "%s",
	                  actions[job->request.action].remedy);
}

/* The intent is durable before anything starts: pipeline.c commits, then starts it. */
int step_execute(struct pipeline *pl, struct job *job)
{
	(void)pl;
	(void)job;
	return JOB_RUNNING;
}
