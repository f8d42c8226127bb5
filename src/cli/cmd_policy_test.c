/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brig policy test: cases in YAML, each with the verdict it should get. A case gives code, which is
 * assessed as for a run, or the findings themselves.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cmd_policy.h"
#include "policy/yaml.h"
#include "risk/risk.h"

#define CASES_MAX  2000
#define PATH_SIZE  4096
#define OUTPUT_MAX (4 * MIB)

struct tester {
	struct yaml_doc doc;
	struct policy *policy;
	struct risk *risk; /* made when code is first met */
	struct buf out;
	unsigned n, failed;
};

/* One case while it is read. */
struct trial {
	struct request req;
	struct findings found;
	struct policy_input in;
	const char *labels[POLICY_LABELS_MAX];
	const char *tools[REQUEST_TOOLS_MAX];
	enum verdict expected;
	const char *rule; /* NULL: any */
};

static const char *text_of(const struct yaml_node *map, const char *key)
{
	const struct yaml_node *n = yaml_get(map, key);

	return n && n->kind == YAML_TEXT ? n->text.p : NULL;
}

/* Each of these words is optional; the error names the key. */
static int read_words(const struct yaml_doc *doc, const struct yaml_node *map, struct trial *t,
                      struct err *err)
{
	const char *language = text_of(map, "language"), *network = text_of(map, "network");
	const char *level = text_of(map, "level"), *tier = text_of(map, "tier");
	const char *complete = text_of(map, "complete"), *verdict = text_of(map, "expect");
	const char *bad = NULL;

	if (!verdict || verdict_from_name(verdict, &t->expected) < 0)
		bad = "expect: it is one of deny, confirm, allow";
	else if (language && language_from_name(language, &t->req.language) < 0)
		bad = "language: it is one of python, javascript, shell";
	else if (network && network_from_name(network, &t->req.network) < 0)
		bad = "network: it is one of none, loopback";
	else if (level && level_from_name(level, &t->req.level) < 0)
		bad = "level: it is one of strict, standard, degraded-ok";
	else if (tier && tier_from_name(tier, &t->req.tier) < 0)
		bad = "tier: it is one of auto, jail, docker, aio";
	else if (complete && !streq(complete, "true") && !streq(complete, "false"))
		bad = "complete: it is one of true, false";
	t->found.complete = !complete || streq(complete, "true");
	return bad ? yaml_fail(doc, map, err, "%s", bad) : 0;
}

static int read_texts(const struct yaml_doc *doc, const struct yaml_node *map, const char *key,
                      const char **to, size_t max, size_t *ret_n, struct err *err)
{
	const struct yaml_node *list = yaml_get(map, key);
	size_t n = 0;
	int r = list ? yaml_list(doc, list, max, err) : 0;

	for (const struct yaml_node *v = list ? list->first : NULL; r >= 0 && v; v = v->next) {
		r = yaml_line(doc, v, REQUEST_NAME_MAX, err);
		to[n++] = v->text.p;
	}
	if (r >= 0)
		*ret_n = n;
	return r;
}

static int read_findings(const struct yaml_doc *doc, const struct yaml_node *map, struct trial *t,
                         struct err *err)
{
	const char *risk = text_of(map, "risk"), *ids[FINDINGS_MAX];
	size_t n = 0;
	int r = read_texts(doc, map, "findings", ids, FINDINGS_MAX, &n, err);

	if (r < 0)
		return r;
	if (!risk || risk_level_from_name(risk, &t->found.level) < 0)
		return yaml_fail(doc, map, err,
		                 "without code it needs risk: safe, low, medium, high or critical");
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(t->found.v[i].rule, RULE_ID_SIZE, "%s", ids[i]);
		t->found.v[i].level = t->found.level;
	}
	t->found.n = n;
	return 0;
}

static int assess(struct tester *te, const struct yaml_node *map, struct trial *t, struct err *err)
{
	const struct yaml_node *code = yaml_get(map, "code");
	int r = 0;

	if (!code)
		return read_findings(&te->doc, map, t, err);
	if (code->kind != YAML_TEXT || yaml_get(map, "risk") || yaml_get(map, "findings") ||
	    yaml_get(map, "complete"))
		return yaml_fail(&te->doc, map, err,
		                 "give code, or risk, findings and complete; not both");
	if (!te->risk)
		r = risk_open(&te->risk, err);
	if (r < 0)
		return r;
	t->req.code = code->text;
	risk_assess(te->risk, t->req.language, code->text, &t->found);
	return 0;
}

static int read_trial(struct tester *te, const struct yaml_node *map, struct trial *t,
                      struct err *err)
{
	static const char *const keys[] = { "name",   "language", "code",     "findings",
		                            "risk",   "level",    "network",  "tier",
		                            "caller", "labels",   "tools",    "action",
		                            "expect", "rule",     "complete", NULL };
	int r = yaml_map(&te->doc, map, keys, err);

	request_init(&t->req);
	t->req.language = LANGUAGE_PYTHON;
	t->req.tools = t->tools;
	t->in = (struct policy_input){ .request = &t->req, .findings = &t->found };
	t->in.labels = t->labels;
	if (r >= 0 && !text_of(map, "name"))
		r = yaml_fail(&te->doc, map, err, "name is missing");
	if (r >= 0)
		r = read_words(&te->doc, map, t, err);
	if (r >= 0)
		r = read_texts(&te->doc, map, "labels", t->labels, POLICY_LABELS_MAX,
		               &t->in.n_labels, err);
	if (r >= 0)
		r = read_texts(&te->doc, map, "tools", t->tools, REQUEST_TOOLS_MAX, &t->req.n_tools,
		               err);
	t->in.caller = text_of(map, "caller");
	t->in.action = text_of(map, "action");
	t->rule = text_of(map, "rule");
	return r < 0 ? r : assess(te, map, t, err);
}

static void judge(struct tester *te, const char *name, const struct trial *t)
{
	struct decision d;
	bool good;

	policy_eval(te->policy, &t->in, &d);
	good = d.verdict == t->expected && (!t->rule || streq(t->rule, d.rule));
	te->failed += !good;
	buf_printf(&te->out, "%sok %u - %s\n", good ? "" : "not ", ++te->n, name);
	if (good)
		return;
	buf_printf(&te->out, "# %s:%s %s by %s, not %s%s%s (risk %s: %s)\n", te->doc.name, name,
	           verdict_name(d.verdict), d.rule, verdict_name(t->expected),
	           t->rule ? " by " : "", t->rule ? t->rule : "", risk_level_name(t->found.level),
	           d.reason);
}

static int try_cases(struct tester *te, const struct yaml_node *list, struct err *err)
{
	CLEANUP_FREE struct trial *t = malloc(sizeof(*t));
	int r = yaml_list(&te->doc, list, CASES_MAX, err);

	if (!t)
		return err_set(err, ERR_INTERNAL, ENOMEM, "%.80s", te->doc.name);
	for (const struct yaml_node *n = list->first; r >= 0 && n; n = n->next) {
		memset(t, 0, sizeof(*t));
		r = read_trial(te, n, t, err);
		if (r >= 0)
			judge(te, text_of(n, "name"), t);
	}
	return r;
}

/* A path is meant from the folder of the file of cases. */
static int load_policy(struct tester *te, const struct yaml_node *n, struct err *err)
{
	const char *slash = strrchr(te->doc.name, '/');
	char path[PATH_SIZE];
	int r = yaml_line(&te->doc, n, PATH_SIZE / 2, err);

	if (r < 0)
		return r;
	if (n->text.p[0] == '/' || policy_builtin_text(n->text.p).p || !slash)
		return policy_load(n->text.p, &te->policy, err);
	if (snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - te->doc.name), te->doc.name,
	             n->text.p) >= (int)sizeof(path))
		return yaml_fail(&te->doc, n, err, "the path is too long");
	return policy_load(path, &te->policy, err);
}

static int try_document(struct tester *te, struct err *err)
{
	static const char *const keys[] = { "policy", "cases", NULL };
	const struct yaml_node *root = te->doc.root, *policy, *cases;
	int r = yaml_map(&te->doc, root, keys, err);

	if (r < 0)
		return r;
	policy = yaml_get(root, "policy");
	cases = yaml_get(root, "cases");
	if (!policy || !cases)
		return yaml_fail(&te->doc, root, err, "%s is missing", policy ? "cases" : "policy");
	r = load_policy(te, policy, err);
	if (r >= 0)
		r = try_cases(te, cases, err);
	policy_free(te->policy);
	te->policy = NULL;
	return r;
}

static int try_file(struct tester *te, const char *path, struct err *err)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(2 * YAML_BYTES_MAX);
	struct str text = { 0 };
	int r = policy_read_input(path, YAML_BYTES_MAX, &a, &text, err);

	if (r >= 0)
		r = yaml_read(path, text, &te->doc, err);
	if (r < 0)
		return r;
	r = try_document(te, err);
	yaml_done(&te->doc);
	return r;
}

int policy_test_main(int argc, char **argv)
{
	struct tester te = { .out = BUF_INIT(OUTPUT_MAX) };
	struct err err = { 0 };
	int status = POLICY_EXIT_OK;

	if (argc < 2 || argv[1][0] == '-')
		return policy_usage(argc < 2 ? "give a file of cases" : "not an option",
		                    argv[argc < 2 ? 0 : 1]);
	for (int i = 1; i < argc; i++)
		if (try_file(&te, argv[i], &err) < 0)
			status = policy_complain(&err);
	buf_printf(&te.out, "1..%u\n# %u passed, %u failed\n", te.n, te.n - te.failed, te.failed);
	if (te.failed || !te.n)
		status = POLICY_EXIT_WRONG;
	status = policy_write(&te.out, status);
	buf_done(&te.out);
	risk_close(te.risk);
	return status;
}
