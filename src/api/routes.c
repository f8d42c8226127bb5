/* SPDX-License-Identifier: Apache-2.0 */

/* All there is. The OpenAPI document is made from this table. */

#include "api/routes.h"

#include "api/impl.h"

#define END                                                                                        \
	{                                                                                          \
		NULL, NULL, NULL                                                                   \
	}
#define PARAMS(...) ((const struct route_param[]){ __VA_ARGS__, END })
#define WAIT_PARAM                                                                                 \
	{                                                                                          \
		"wait", "integer", "milliseconds to wait for its end, at most 300000"              \
	}
#define FILES_PARAM                                                                                \
	{                                                                                          \
		"files", "boolean", "keep what it makes or changes, for GET .../files"             \
	}

/* clang-format off */
const struct route routes[] = {
	{ "POST", "/execute", "execute", SCOPE_RUN, ROUTE_BODY | ROUTE_LARGE | ROUTE_KEY, route_execute,
	  "Run a request and wait for its result", "Request", "Result", 200, PARAMS(FILES_PARAM) },
	{ "POST", "/executions", "createExecution", SCOPE_RUN, ROUTE_BODY | ROUTE_LARGE | ROUTE_KEY, route_create,
	  "Start a request; 200 with its result when it is over in time, else 202", "Request", "Status", 202,
	  PARAMS(WAIT_PARAM, FILES_PARAM) },
	{ "GET", "/executions", "listExecutions", SCOPE_RUN | SCOPE_READ, ROUTE_DRAINING, route_list,
	  "Executions, newest first", NULL, "StatusList", 200,
	  PARAMS({ "state", "string", "only those in this state" }, { "limit", "integer", "1 to 1000, default 100" },
	         { "after", "string", "\"next\" of the page before" }) },
	{ "GET", "/executions/{id}", "getExecution", SCOPE_RUN | SCOPE_READ, ROUTE_DRAINING, route_show,
	  "The result when it is over, else its status", NULL, "ResultOrStatus", 200, PARAMS(WAIT_PARAM) },
	{ "GET", "/executions/{id}/output", "getOutput", SCOPE_RUN | SCOPE_READ, ROUTE_DRAINING, route_output,
	  "Raw bytes of its output from an offset", NULL, "application/octet-stream", 200,
	  PARAMS({ "stream", "string", "stdout or stderr" }, { "offset", "integer", "of the first byte" }) },
	{ "GET", "/executions/{id}/files", "getFile", SCOPE_RUN | SCOPE_READ, ROUTE_DRAINING, route_files,
	  "A file that it made or changed, when it was started with files=true", NULL, "application/octet-stream", 200,
	  PARAMS({ "path", "string", "below /workspace, as in the result" }) },
	{ "GET", "/executions/{id}/events", "watchExecution", SCOPE_RUN | SCOPE_READ, ROUTE_SSE | ROUTE_DRAINING, route_watch,
	  "Its states, its output and its result as they come", NULL, "text/event-stream", 200,
	  PARAMS({ "after", "integer", "the last event that was seen" }) },
	{ "DELETE", "/executions/{id}", "cancelExecution", SCOPE_RUN | SCOPE_ADMIN, ROUTE_DRAINING, route_cancel,
	  "Stop it; nothing when it is over", NULL, "ResultOrStatus", 200, NULL },

	{ "GET", "/approvals", "listApprovals", SCOPE_RUN | SCOPE_READ | SCOPE_APPROVE, ROUTE_DRAINING, route_approvals,
	  "Questions that wait for a person", NULL, "ApprovalList", 200,
	  PARAMS({ "all", "boolean", "also those that are over" }) },
	{ "GET", "/approvals/ws", "approvalSocket", SCOPE_APPROVE, ROUTE_ONLY_WS, route_approvers,
	  "A WebSocket that gets questions and takes answers", NULL, "application/json", 101, NULL },
	{ "GET", "/approvals/{id}", "getApproval", SCOPE_RUN | SCOPE_READ | SCOPE_APPROVE, ROUTE_DRAINING, route_approval,
	  "One question, with the code it is about", NULL, "ApprovalDetail", 200, NULL },
	{ "POST", "/approvals/{id}", "decideApproval", SCOPE_APPROVE, ROUTE_BODY | ROUTE_LARGE | ROUTE_KEY | ROUTE_DRAINING, route_decide,
	  "Allow or deny; the first valid answer counts", "Answer", "Approval", 200, NULL },
	{ "DELETE", "/approvals/{id}", "revokeApproval", SCOPE_APPROVE, ROUTE_DRAINING, route_revoke,
	  "Take back an allow that still stands", NULL, "Approval", 200, NULL },

	{ "POST", "/risk/assess", "assessRisk", SCOPE_RUN, ROUTE_BODY | ROUTE_LARGE, route_risk,
	  "What a program would do, without running it", "RiskInput", "Findings", 200, NULL },
	{ "GET", "/policy", "getPolicy", SCOPE_READ, ROUTE_DRAINING, route_policy,
	  "The policies in force", NULL, "PolicyShow", 200, NULL },
	{ "POST", "/policy/check", "checkPolicy", SCOPE_RUN, ROUTE_BODY | ROUTE_LARGE, route_policy_check,
	  "What the policy says of a request, without running it", "Request", "PolicyCheck", 200, NULL },
	{ "GET", "/pool", "getPool", SCOPE_READ, ROUTE_DRAINING, route_pool,
	  "Warm boxes", NULL, "Pool", 200, NULL },
	{ "GET", "/doctor", "getDoctor", SCOPE_READ, 0, route_doctor,
	  "What this host can do, layer by layer", NULL, "Doctor", 200, NULL },
	{ "GET", "/ledger", "listLedger", SCOPE_READ, ROUTE_DRAINING, route_ledger,
	  "Rows of the record, oldest first", NULL, "LedgerRows", 200,
	  PARAMS({ "job", "string", "of this execution" }, { "session", "string", "of this session" },
	         { "kind", "string", "state, approval, file, ..." }, { "name", "string", "of the event" },
	         { "after", "integer", "rows behind this number" }, { "limit", "integer", "1 to 1000, default 100" }) },
	{ "GET", "/ledger/verify", "verifyLedger", SCOPE_READ, 0, route_ledger_verify,
	  "Check every row and body of the record", NULL, "LedgerReport", 200, NULL },
	{ "GET", "/ledger/export", "exportLedger", SCOPE_READ, 0, route_ledger_export,
	  "The record, one JSON object a line; Brig-Next when there is more", NULL, "application/x-ndjson", 200,
	  PARAMS({ "after", "integer", "rows behind this number" }) },
	{ "GET", "/events", "watchEvents", SCOPE_READ, ROUTE_SSE | ROUTE_WS | ROUTE_DRAINING, route_events,
	  "Everything that happens: rows of the record as they come, also as a WebSocket", NULL, "text/event-stream", 200,
	  PARAMS({ "job", "string", "of this execution" }, { "kind", "string", "state, approval, file, ..." },
	         { "name", "string", "of the event" }, { "after", "integer", "rows behind this number, then what follows" }) },

	{ "GET", "/health", "getHealth", 0, ROUTE_DRAINING, route_health,
	  "Is it alive?", NULL, "Health", 200, NULL },
	{ "GET", "/ready", "getReady", 0, ROUTE_DRAINING, route_ready,
	  "Would it take an execution? 503: not now", NULL, "Health", 200, NULL },
	{ "GET", "/capabilities", "getCapabilities", 0, ROUTE_DRAINING, route_capabilities,
	  "Version, languages, levels, limits", NULL, "Capabilities", 200, NULL },
	{ "GET", "/metrics", "getMetrics", SCOPE_READ, ROUTE_DRAINING, route_metrics,
	  "For Prometheus", NULL, "text/plain", 200, NULL },
	{ "GET", "/openapi.json", "getOpenapi", 0, ROUTE_DRAINING, route_openapi,
	  "This API, for programs", NULL, "application/json", 200, NULL },
};
/* clang-format on */

const size_t routes_n = ELEMENTSOF(routes);
