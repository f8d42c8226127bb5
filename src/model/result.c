/* SPDX-License-Identifier: Apache-2.0 */
#include "model/result.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/random.h>

#include "base/json.h"

/* The largest output_bytes, and room for the mark between head and tail. */
#define OUTPUT_KEPT_MAX (256 * MIB + 4 * KIB)

static const char *const state_names[RUN_STATE_COUNT] = {
#define X(id, name) [RUN_##id] = name,
	RUN_STATE_TABLE(X)
#undef X
};

void result_init(struct result *r)
{
	*r = (struct result){
		.state = RUN_SETUP_FAILED,
		.out = BUF_INIT(OUTPUT_KEPT_MAX),
		.errout = BUF_INIT(OUTPUT_KEPT_MAX),
		.outputs = BUF_INIT(RESULT_OUTPUTS_MAX),
		.receipt.level_achieved = LEVEL_COUNT, /* zero would claim the best level */
	};
}

bool result_not_fetched(struct result *r, const struct err *err)
{
	/* That output was dropped is said by the state, too. */
	bool taken = !r->not_fetched && (r->error.code == ERR_NONE || r->state == RUN_OUTPUT_LIMIT);

	if (taken)
		r->error = *err;
	r->not_fetched = true;
	return taken;
}

void result_done(struct result *r)
{
	buf_done(&r->out);
	buf_done(&r->errout);
	buf_done(&r->outputs);
	free(r->value);
	free(r->exception.type);
	free(r->exception.message);
	free(r->exception.traceback);
	r->value = NULL;
	r->exception = (struct exception){ 0 };
	for (size_t i = 0; i < r->n_files; i++)
		free(r->files[i].path);
	free(r->files);
	r->files = NULL;
	r->n_files = 0;
}

bool run_state_is_success(enum run_state s)
{
	return s == RUN_FINISHED;
}

const char *run_state_name(enum run_state s)
{
	return (unsigned)s < RUN_STATE_COUNT ? state_names[s] : "lost";
}

static const char *bool_text(bool b)
{
	return b ? "true" : "false";
}

/* One ",\"key\":" per call keeps the order of the keys readable below. Keys need no escapes. */
static void put_key(struct buf *out, const char *key)
{
	bool first = out->len && out->data[out->len - 1] == '{';

	buf_puts(out, first || !out->len ? "\"" : ",\"");
	buf_puts(out, key);
	buf_put(out, "\":", 2);
}

static void put_u64(struct buf *out, const char *key, uint64_t v)
{
	put_key(out, key);
	buf_printf(out, "%" PRIu64, v);
}

static void put_text(struct buf *out, const char *key, const char *s)
{
	put_key(out, key);
	json_put_cstr(out, s);
}

static void put_bool(struct buf *out, const char *key, bool b)
{
	put_key(out, key);
	buf_puts(out, bool_text(b));
}

static void put_int_or_null(struct buf *out, const char *key, bool has, int v)
{
	put_key(out, key);
	if (has)
		buf_printf(out, "%d", v);
	else
		buf_puts(out, "null");
}

static void put_null(struct buf *out, const char *key)
{
	put_key(out, key);
	buf_puts(out, "null");
}

static void put_output(struct buf *out, const char *key, const struct buf *bytes)
{
	put_key(out, key);
	json_put_string(out, bytes->data, bytes->len);
}

static void put_exception(struct buf *out, const struct exception *e)
{
	char cause[256];

	(void)snprintf(cause, sizeof(cause), "%s: %s", e->type, e->message);
	put_text(out, "code", "exception");
	put_text(out, "cause", cause);
	put_text(out, "remedy", "");
	put_text(out, "type", e->type);
	put_text(out, "message", e->message);
	put_text(out, "traceback", e->traceback);
	put_int_or_null(out, "line", e->line > 0, e->line);
}

/* brig's own error comes before the program's. */
static void put_error(struct buf *out, const char *key, const struct result *r)
{
	const struct err *err = &r->error;
	char cause[sizeof(err->step) + sizeof(err->msg) + 2];

	if (err->code == ERR_NONE && !r->exception.type) {
		put_null(out, key);
		return;
	}
	put_key(out, key);
	buf_putc(out, '{');
	if (err->code == ERR_NONE) {
		put_exception(out, &r->exception);
	} else {
		(void)snprintf(cause, sizeof(cause), "%s%s%s", err->step, err->step[0] ? ": " : "",
		               err->msg);
		put_text(out, "code", err_code_name(err->code));
		put_text(out, "cause", cause);
		put_text(out, "remedy", err->remedy);
	}
	buf_putc(out, '}');
}

static void put_files_of(struct buf *out, const char *key, const struct result *r,
                         enum file_change change)
{
	bool first = true;

	put_key(out, key);
	buf_putc(out, '[');
	for (size_t i = 0; i < r->n_files; i++) {
		if (r->files[i].change != change)
			continue;
		buf_puts(out, first ? "{" : ",{");
		first = false;
		put_text(out, "path", r->files[i].path);
		put_u64(out, "size", r->files[i].size);
		buf_putc(out, '}');
	}
	buf_putc(out, ']');
}

static void put_files(struct buf *out, const char *key, const struct result *r)
{
	put_key(out, key);
	buf_putc(out, '{');
	put_files_of(out, "created", r, FILE_CREATED);
	put_files_of(out, "modified", r, FILE_MODIFIED);
	put_files_of(out, "deleted", r, FILE_DELETED);
	put_bool(out, "truncated", r->files_truncated);
	buf_putc(out, '}');
}

static void put_usage(struct buf *out, const char *key, const struct usage *u)
{
	put_key(out, key);
	buf_putc(out, '{');
	put_u64(out, "wall_ms", u->wall_ms);
	put_u64(out, "cpu_ms", u->cpu_ms);
	put_u64(out, "peak_memory_bytes", u->peak_memory_bytes);
	put_u64(out, "pids_peak", u->pids_peak);
	put_u64(out, "read_bytes", u->read_bytes);
	put_u64(out, "written_bytes", u->written_bytes);
	buf_putc(out, '}');
}

/* Most of a small result are these, so they are put in few pieces. */
static void put_layer(struct buf *out, enum layer_id id, const struct receipt_layer *l)
{
	buf_puts(out, "{\"name\":\"");
	buf_puts(out, layer_name(id));
	buf_puts(out, l->required ? "\",\"required\":true" : "\",\"required\":false");
	buf_puts(out, l->enforced ? ",\"enforced\":true,\"detail\":"
	                          : ",\"enforced\":false,\"detail\":");
	json_put_cstr(out, l->detail);
	buf_putc(out, '}');
}

int receipt_to_json(const struct receipt *r, struct buf *out)
{
	buf_putc(out, '{');
	put_text(out, "level_required", level_name(r->level_required));
	put_text(out, "level_achieved", level_name(r->level_achieved));
	put_bool(out, "verified", r->verified);
	put_text(out, "image", r->image);
	put_text(out, "launcher", r->launcher);
	put_text(out, "seccomp_profile", r->seccomp_profile);
	put_key(out, "layers");
	buf_putc(out, '[');
	for (unsigned i = 0; i < LAYER_COUNT; i++) {
		if (i)
			buf_putc(out, ',');
		put_layer(out, (enum layer_id)i, &r->layers[i]);
	}
	buf_puts(out, "]}");
	return buf_finish(out);
}

int result_to_json(const struct result *r, struct buf *out)
{
	buf_putc(out, '{');
	put_text(out, "execution_id", r->execution_id);
	put_text(out, "state", run_state_name(r->state));
	put_bool(out, "success", run_state_is_success(r->state) && r->error.code == ERR_NONE);
	put_int_or_null(out, "exit_code", r->has_exit_code, r->exit_code);
	put_int_or_null(out, "signal", r->signal != 0, r->signal);
	put_output(out, "stdout", &r->out);
	put_output(out, "stderr", &r->errout);
	put_key(out, "outputs");
	buf_putc(out, '[');
	buf_put(out, r->outputs.data, r->outputs.len);
	buf_putc(out, ']');
	if (r->value)
		put_text(out, "value", r->value);
	else
		put_null(out, "value");
	put_error(out, "error", r);
	put_files(out, "files", r);
	put_usage(out, "usage", &r->usage);
	put_key(out, "truncated");
	buf_putc(out, '{');
	put_u64(out, "stdout", r->out_dropped);
	put_u64(out, "stderr", r->err_dropped);
	buf_putc(out, '}');
	put_text(out, "tier", r->tier ? r->tier : "jail");
	put_key(out, "risk");
	if (r->risk)
		findings_to_json(r->risk, out);
	else
		buf_puts(out, "null");
	if (r->approval_id[0])
		put_text(out, "approval_id", r->approval_id);
	else
		put_null(out, "approval_id");
	put_key(out, "receipt");
	(void)receipt_to_json(&r->receipt, out);
	buf_putc(out, '}');
	return buf_finish(out);
}

int execution_id_new(char ret[EXECUTION_ID_SIZE])
{
	static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
	unsigned char random[EXECUTION_ID_SIZE - 1];
	ssize_t n;

	_Static_assert(sizeof(alphabet) - 1 == 32, "five bits of a byte choose a character");
	do
		n = getrandom(random, sizeof(random), 0); /* up to 256 bytes come at once */
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(random))
		return n < 0 ? -errno : -EIO;
	for (size_t i = 0; i < sizeof(random); i++)
		ret[i] = alphabet[random[i] & 31];
	ret[sizeof(random)] = '\0';
	return 0;
}
