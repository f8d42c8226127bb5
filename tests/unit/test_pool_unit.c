/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool with the test in the place of the launcher and of the boxes: what it orders, what a
 * request gets when things go wrong, and what it believes of a box. Nothing is started.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "pool/pool_impl.h"
#include "route/route.h"
#include "sys/sock.h"

#define BOXES       6
#define PROGRAM_FDS (LAUNCH_FD_BIT(CONTROL) | LAUNCH_FDS_STDIO | LAUNCH_FD_BIT(REPORT))

static struct pool *pool;
static int launcher = FD_NONE; /* our end: we are the launcher */
static struct request request;
static struct result res;
static struct err err;
static unsigned told; /* how often a result came */

/* The box that the test is. */
static struct {
	char root[64], group[64];
	int control, in, out, errout, report;
	char message[8192];
} box;

static void setup(void)
{
	int pair[2];

	cr_assert(sock_pair(pair) == 0);
	pool = calloc(1, sizeof(*pool));
	cr_assert(pool);
	launcher = pair[1];
	pool->launcher.sock = pair[0];
	cr_assert(fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0);
	pool->epoll = epoll_create1(EPOLL_CLOEXEC);
	pool->starting = NO_BOX;
	pool->arena = ARENA_INIT(16 * MIB);
	pool->boxes_max = BOXES;
	pool->queue_max = 2;
	pool->acquire_ms = 10000;
	cgroup_host_none(&pool->cgroups);
	pool->boxes = calloc(BOXES, sizeof(*pool->boxes));
	pool->free = calloc(BOXES, sizeof(*pool->free));
	for (unsigned i = 0; i < BOXES; i++) {
		pool->boxes[i].id = LAUNCH_BOXES_MAX + i;
		pool->free[pool->n_free++] = i;
	}
	cr_assert(pool_observe(pool, pair[0], EPOLLIN, TAG_LAUNCHER, 0) == 0);
	request_init(&request);
	request.language = LANGUAGE_SHELL;
	request.code = STR("echo\n");
	result_init(&res);
	box.control = box.in = box.out = box.errout = box.report = FD_NONE;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path);
}

static void teardown(void)
{
	launcher = fd_close(launcher);
	pool_close(pool);
	result_done(&res);
	if (*box.group)
		(void)nftw(box.group, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	if (*box.root)
		(void)nftw(box.root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(pool_unit, .init = setup, .fini = teardown, .timeout = 30);

static void on_done(void *data, struct result *r)
{
	cr_expect(data == &told && r == &res);
	told++;
}

static int submit(const struct request *req, struct pool_call **ret)
{
	return pool_submit(pool, req, &res, on_done, &told, ret, &err);
}

static void turn(void)
{
	pool->tick_ns = 0; /* every turn looks at the time */
	cr_expect(pool_turn(pool, 0) == 0);
}

static void answer(enum launch_kind kind, uint64_t id)
{
	struct launch_reply reply = { .kind = kind, .id = id };

	if (kind == LAUNCH_FAILED)
		(void)err_set(&reply.err, ERR_SETUP, EPERM, "clone");
	cr_assert(sock_send(launcher, &reply, sizeof(reply), NULL, 0) == 0);
	turn();
}

/* What the launcher is told next; false: nothing. */
static bool told_launcher(struct launch_call *ret)
{
	struct sock_msg m;
	int r = sock_recv(launcher, ret, sizeof(*ret), MSG_DONTWAIT, &m);

	if (r < 0)
		return false;
	sock_msg_close(&m);
	return true;
}

/* A kind of box that the launcher knows. */
static void add_shape(enum language language, unsigned min)
{
	struct pool_shape shape = { .like = request, .min = min, .max = min };
	struct launch_call call;
	size_t index = 99;

	shape.like.language = language;
	cr_assert(pool_add_shape(pool, &shape, &index, &err) == 0, "%s", err.msg);
	cr_assert(index == 0);
	cr_assert(told_launcher(&call) && call.kind == LAUNCH_KEEP && call.plan == 0);
	cr_expect(call.zygote == (language == LANGUAGE_PYTHON));
	answer(LAUNCH_KEPT, 0);
}

/* ---- orders ------------------------------------------------------------------------------ */

Test(pool_unit, a_language_without_boxes_is_refused)
{
	add_shape(LANGUAGE_SHELL, 0);
	request.language = LANGUAGE_JAVASCRIPT;
	cr_expect(submit(&request, NULL) == -EOPNOTSUPP);
	cr_expect(err.code == ERR_UNSUPPORTED && strstr(err.msg, "javascript"), "%s", err.msg);
	turn();
	cr_expect(told == 0);
}

Test(pool_unit, there_is_an_end_to_the_kinds_of_boxes)
{
	struct pool_shape shape = { .like = request };
	size_t index;

	for (size_t i = 0; i < POOL_SHAPES_MAX; i++)
		cr_assert(pool_add_shape(pool, &shape, &index, &err) == 0 && index == i);
	cr_expect(pool_add_shape(pool, &shape, &index, &err) == -E2BIG);
	cr_expect(err.code == ERR_LIMIT);
}

Test(pool_unit, nothing_is_ordered_before_the_launcher_knows_the_plan)
{
	struct pool_shape shape = { .like = request, .min = 2 };
	struct launch_call call;
	size_t index;

	cr_assert(pool_add_shape(pool, &shape, &index, &err) == 0);
	cr_expect(told_launcher(&call) && call.kind == LAUNCH_KEEP);
	turn();
	cr_expect(!told_launcher(&call));
	answer(LAUNCH_KEPT, 0);
	for (unsigned i = 0; i < 2; i++) {
		cr_assert(told_launcher(&call) && call.kind == LAUNCH_START);
		cr_expect(call.plan == 1 && call.zygote == 0 && call.once == 0 && call.watch == 0);
		cr_expect(call.fds == PROGRAM_FDS);
	}
	cr_expect(!told_launcher(&call), "more than the minimum");
}

/* The launcher finds a box by its id modulo a constant. */
Test(pool_unit, no_two_boxes_have_one_id)
{
	uint64_t seen[4] = { 0 };
	struct launch_call call;

	add_shape(LANGUAGE_SHELL, 4);
	for (unsigned i = 0; i < 4; i++) {
		cr_assert(told_launcher(&call) && call.kind == LAUNCH_START);
		seen[i] = call.id;
		for (unsigned k = 0; k < i; k++)
			cr_expect(seen[k] % LAUNCH_BOXES_MAX != call.id % LAUNCH_BOXES_MAX);
	}
	answer(LAUNCH_FAILED, seen[0]);
	cr_expect(!box_of(pool, seen[0]), "a box that is gone has no name");
	cr_expect(box_of(pool, seen[1]) && !box_of(pool, seen[1] + LAUNCH_BOXES_MAX));
}

Test(pool_unit, answers_about_nobody_are_ignored)
{
	static const uint64_t ids[] = {
		0, 3, LAUNCH_BOXES_MAX - 1, LAUNCH_BOXES_MAX + BOXES, LAUNCH_BOXES_MAX, UINT64_MAX
	};

	add_shape(LANGUAGE_SHELL, 0);
	for (size_t i = 0; i < ELEMENTSOF(ids); i++) {
		answer(LAUNCH_STARTED, ids[i]);
		answer(LAUNCH_ENDED, ids[i]);
		answer(LAUNCH_NONE, ids[i]);
		answer((enum launch_kind)77, ids[i]);
	}
	cr_expect(pool->n_free == BOXES && pool->shapes[0].n_starting == 0);
}

/* ---- requests that wait ------------------------------------------------------------------ */

Test(pool_unit, whoever_waits_hears_that_the_box_failed)
{
	struct launch_call call;

	add_shape(LANGUAGE_SHELL, 0);
	cr_assert(submit(&request, NULL) == 0);
	cr_assert(told_launcher(&call) && call.kind == LAUNCH_START);
	cr_expect(told == 0);
	answer(LAUNCH_FAILED, call.id);
	cr_expect(told == 1 && res.state == RUN_SETUP_FAILED);
	cr_expect(res.error.code == ERR_SETUP && strstr(res.error.msg, "clone"));
	cr_expect(pool->n_free == BOXES && !pool->queued.n && strlen(res.execution_id) == 26);
}

Test(pool_unit, a_box_that_ends_before_it_is_ready_failed)
{
	struct box_report rep = { .kind = BOX_FAILED, .err.code = ERR_UNSUPPORTED };
	struct launch_call call;
	struct sock_msg m;

	add_shape(LANGUAGE_SHELL, 0);
	for (int said_why = 0; said_why < 2; said_why++) {
		pool->shapes[0].retry_ns = 0;
		res.error.code = ERR_NONE;
		cr_assert(submit(&request, NULL) == 0);
		cr_assert(sock_recv(launcher, &call, sizeof(call), MSG_DONTWAIT, &m) == 0);
		for (size_t i = 0; i < m.n_fds && said_why; i++) /* one is control's */
			(void)send(m.fds[i], &rep, sizeof(rep), MSG_NOSIGNAL);
		box_ended(pool, &(struct launch_reply){ .kind = LAUNCH_ENDED, .id = call.id });
		turn();
		cr_expect(res.error.code == (said_why ? ERR_UNSUPPORTED : ERR_SETUP));
		sock_msg_close(&m);
	}
	cr_expect(told == 2 && res.state == RUN_SETUP_FAILED);
}

Test(pool_unit, the_queue_has_an_end)
{
	struct result other;

	result_init(&other);
	add_shape(LANGUAGE_SHELL, 0);
	cr_assert(submit(&request, NULL) == 0);
	cr_assert(pool_submit(pool, &request, &res, on_done, &told, NULL, &err) == 0);
	cr_expect(pool_submit(pool, &request, &other, on_done, &told, NULL, &err) == -EAGAIN);
	cr_expect(err.code == ERR_LIMIT && err.remedy[0]);
	cr_expect(pool->queued.n == 2);
	result_done(&other);
}

Test(pool_unit, nobody_waits_for_ever)
{
	add_shape(LANGUAGE_SHELL, 0);
	cr_assert(submit(&request, NULL) == 0);
	turn();
	cr_expect(told == 0);
	pool->acquire_ms = 0;
	turn();
	cr_expect(told == 1 && res.state == RUN_SETUP_FAILED);
	cr_expect(res.error.code == ERR_LIMIT && res.error.sys == ETIMEDOUT);
}

Test(pool_unit, a_waiting_request_can_be_cancelled)
{
	struct pool_call *call;

	add_shape(LANGUAGE_SHELL, 0);
	cr_assert(submit(&request, &call) == 0);
	pool_cancel(pool, call);
	cr_expect(told == 0, "not from inside the call");
	turn();
	cr_expect(told == 1 && res.state == RUN_CANCELLED && res.error.code == ERR_NONE);
	turn();
	cr_expect(told == 1 && pool->queued.n == 0);
}

Test(pool_unit, a_request_that_fits_no_box_gets_one_of_its_own)
{
	struct request other = request;
	struct launch_call call;

	add_shape(LANGUAGE_SHELL, 0);
	other.limits.memory_bytes /= 2;
	cr_assert(submit(&other, NULL) == 0);
	cr_assert(told_launcher(&call) && call.kind == LAUNCH_START);
	cr_expect(call.plan == 0, "not the plan that is kept");
	cr_expect(call.fds == (LAUNCH_FD_BIT(PLAN) | PROGRAM_FDS));
	cr_expect(pool->boxes[call.id % LAUNCH_BOXES_MAX].plan->memory_bytes ==
	          other.limits.memory_bytes);
	answer(LAUNCH_FAILED, call.id);
	cr_expect(told == 1 && res.state == RUN_SETUP_FAILED);
}

/* Wall time and the kept output are not the box's. */
Test(pool_unit, what_is_not_the_box_s_needs_no_other_box)
{
	struct request other = request;
	struct launch_call call;

	add_shape(LANGUAGE_SHELL, 0);
	other.limits.timeout_ms /= 2;
	other.limits.output_bytes /= 2;
	cr_assert(submit(&other, NULL) == 0);
	cr_expect(told_launcher(&call) && call.plan == 1);
}

Test(pool_unit, a_pool_without_its_launcher_takes_nothing)
{
	add_shape(LANGUAGE_SHELL, 2);
	launcher = fd_close(launcher);
	for (unsigned i = 0; i < 3; i++)
		(void)pool_turn(pool, 0);
	cr_expect(pool->lost && pool->n_free == BOXES && pool->starting == NO_BOX);
	cr_expect(submit(&request, NULL) == -EPIPE && err.code == ERR_INTERNAL);
	cr_expect(pool_turn(pool, 0) == -EPIPE);
}

/* ---- a run ------------------------------------------------------------------------------- */

/* A program that waits has its streams from the beginning. */
static void give_streams(struct box *b)
{
	int in[2], out[2], errout[2], report[2];

	cr_assert(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC | O_NONBLOCK) == 0 &&
	          pipe2(errout, O_CLOEXEC | O_NONBLOCK) == 0);
	cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, report) == 0);
	box.in = in[0];
	b->in = in[1];
	b->out = out[0];
	box.out = out[1];
	b->errout = errout[0];
	box.errout = errout[1];
	b->report = report[0];
	box.report = report[1];
	cr_assert(pool_observe(pool, b->report, EPOLLIN, TAG_REPORT, (uint32_t)(b - pool->boxes)) ==
	          0);
}

/* A box that waits, and that is this test. */
static struct box *wait_in_box(void)
{
	uint32_t index = pool->free[--pool->n_free];
	struct box *b = &pool->boxes[index];
	struct shape *s = &pool->shapes[0];
	int pair[2];

	cr_assert(sock_pair(pair) == 0);
	(void)snprintf(box.root, sizeof(box.root), "/tmp/unit-pool-XXXXXX");
	cr_assert(mkdtemp(box.root));
	box.control = pair[1];
	b->control = pair[0];
	b->workspace = open(box.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	b->in = b->out = b->errout = b->report = FD_NONE;
	if (!s->zygote)
		give_streams(b);
	b->plan = &s->plan;
	b->code_pid = getpid();
	b->code_uid = geteuid();
	b->kill_sent = false;
	b->state = WARM_READY;
	s->ready[s->n_ready++] = index;
	cr_assert(pool_observe(pool, b->control, EPOLLIN, TAG_CONTROL, index) == 0);
	return b;
}

static void put_file(int dir, const char *name, const char *text)
{
	CLEANUP_FD int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

/* A group in which so many tasks are. */
static void give_group(struct box *b, const char *tasks)
{
	CLEANUP_FD int dir = FD_NONE;
	int parent;

	(void)snprintf(box.group, sizeof(box.group), "/tmp/unit-pool-XXXXXX");
	cr_assert(mkdtemp(box.group));
	parent = open(box.group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert(mkdirat(parent, "box-1", 0755) == 0);
	dir = openat(parent, "box-1", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put_file(dir, "pids.current", tasks);
	put_file(dir, "cpuacct.usage", "5000000\n");
	pool->cgroups.mode = CGROUP_V1;
	pool->cgroups.parents[CGROUP_PIDS] = parent;
	pool->cgroups.parents[CGROUP_CPUACCT] = fcntl(parent, F_DUPFD_CLOEXEC, 0);
	(void)snprintf(b->cgroup, sizeof(b->cgroup), "box-1");
}

/* Takes the run as the box does; returns the length of its message. */
static size_t take_run(size_t n_fds)
{
	struct sock_msg m;

	cr_assert(sock_recv(box.control, box.message, sizeof(box.message), MSG_DONTWAIT, &m) == 0);
	cr_assert(m.len > 1 && box.message[0] == BOX_RUN);
	cr_assert(m.n_fds == n_fds, "%zu descriptors", m.n_fds);
	box.in = fd_take(&m.fds[0]);
	box.out = fd_take(&m.fds[1]);
	box.errout = fd_take(&m.fds[2]);
	box.report = n_fds > 3 ? fd_take(&m.fds[3]) : FD_NONE;
	return m.len;
}

/* The same of a shell that waits. */
static const char *take_text(void)
{
	ssize_t n = read(box.report, box.message, sizeof(box.message));

	cr_assert(n > 0 && box.message[n - 1] == '\0' && strlen(box.message) == (size_t)n - 1);
	return box.message;
}

/* Strings with NUL between them. */
static void expect_message(size_t len, const char *const *strings, size_t n)
{
	size_t at = 1;

	for (size_t i = 0; i < n; i++) {
		cr_assert(at + strlen(strings[i]) <= len, "string %zu is missing", i);
		cr_expect(memcmp(box.message + at, strings[i], strlen(strings[i])) == 0, "%zu: %s",
		          i, box.message + at);
		at += strlen(strings[i]);
		cr_expect(at == len || !box.message[at], "%zu is longer", i);
		at++;
	}
	cr_expect(at == len + 1, "%zu of %zu bytes", at - 1, len);
}

static void say(const char *json)
{
	CLEANUP_BUF struct buf b = BUF_INIT(MIB);

	cr_assert(report_frame(&b, json, strlen(json)) == 0);
	cr_assert(write(box.report, b.data, b.len) == (ssize_t)b.len);
}

static void exit_with(int status)
{
	struct box_report rep = { .kind = BOX_EXITED, .wait_status = status };

	cr_assert(sock_send(box.control, &rep, sizeof(rep), NULL, 0) == 0);
}

static bool kill_ordered(uint64_t id)
{
	struct launch_call call;

	while (told_launcher(&call))
		if (call.kind == LAUNCH_KILL && call.id == id)
			return true;
	return false;
}

Test(pool_unit, a_program_that_says_done_has_its_result_before_its_box_is_gone)
{
	const char *args[] = { "a\"b" }, *env[] = { "K=v" };
	struct box *b;
	uint64_t id;
	size_t n;

	add_shape(LANGUAGE_PYTHON, 0);
	b = wait_in_box();
	give_group(b, "2\n");
	id = b->id;
	request.language = LANGUAGE_PYTHON;
	request.args = args;
	request.env = env;
	request.n_args = request.n_env = 1;
	cr_assert(submit(&request, NULL) == 0, "%s", err.msg);
	n = take_run(4);
	expect_message(
		n, (const char *[]){ "/workspace/main.py", request.code.p, "1", "a\"b", "K=v" }, 5);
	cr_expect(faccessat(b->workspace, "main.py", R_OK, 0) == 0, "the script is there");
	cr_assert(write(box.out, "hello", 5) == 5 && write(box.errout, "oops", 4) == 4);
	say("{\"output\":{\"text/plain\":\"42\"}}");
	say("{\"done\":{\"exit\":0,\"value\":\"42\"}}");
	turn();
	turn();
	cr_expect(told == 1 && res.state == RUN_FINISHED && res.exit_code == 0);
	cr_expect(res.out.len == 5 && memcmp(res.out.data, "hello", 5) == 0);
	cr_expect(res.errout.len == 4 && res.value && streq(res.value, "42"));
	cr_expect(res.outputs.len > 0 && kill_ordered(id));
	cr_expect(pool->n_free == BOXES - 1, "its place is not free yet");
	answer(LAUNCH_ENDED, id);
	cr_expect(pool->n_free == BOXES && told == 1);
	cr_expect(b->id != id && b->id % LAUNCH_BOXES_MAX == id % LAUNCH_BOXES_MAX);
}

/* What others in the box still write belongs to the run, and must be at rest when it is looked at.
 */
Test(pool_unit, a_program_that_leaves_others_behind_has_its_result_when_they_are_gone)
{
	static const char *const tasks[] = { "3\n", NULL }; /* NULL: nobody can tell */

	add_shape(LANGUAGE_PYTHON, 0);
	request.language = LANGUAGE_PYTHON;
	for (size_t i = 0; i < ELEMENTSOF(tasks); i++) {
		struct box *b = wait_in_box();
		uint64_t id = b->id;

		b->cgroup[0] = '\0';
		if (tasks[i])
			give_group(b, tasks[i]);
		told = 0;
		cr_assert(submit(&request, NULL) == 0, "%s", err.msg);
		(void)take_run(4);
		say("{\"done\":{\"exit\":4}}");
		turn();
		cr_expect(told == 0 && kill_ordered(id), "%zu", i);
		cr_assert(write(box.out, "late", 4) == 4);
		answer(LAUNCH_ENDED, id);
		cr_expect(told == 1 && res.state == RUN_FAILED && res.exit_code == 4, "%zu", i);
		cr_expect(res.out.len == 4, "%zu: what was written until the end", i);
		result_done(&res);
		result_init(&res);
		(void)nftw(box.root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	}
}

/* User code can say what it likes; init cannot be made to lie. */
Test(pool_unit, how_a_program_ended_counts_more_than_what_it_said)
{
	add_shape(LANGUAGE_PYTHON, 0);
	(void)wait_in_box();
	request.language = LANGUAGE_PYTHON;
	cr_assert(submit(&request, NULL) == 0);
	(void)take_run(4);
	exit_with(3 << 8);
	say("{\"done\":{\"exit\":0,\"value\":\"said\"}}");
	turn();
	cr_expect(res.value && streq(res.value, "said"), "what it said is still heard");
	cr_expect(told == 1 && res.state == RUN_FAILED && res.has_exit_code && res.exit_code == 3);
}

Test(pool_unit, rubbish_in_the_report_only_spoils_itself)
{
	add_shape(LANGUAGE_PYTHON, 0);
	(void)wait_in_box();
	request.language = LANGUAGE_PYTHON;
	cr_assert(submit(&request, NULL) == 0);
	(void)take_run(4);
	say("rubbish");
	say("{\"done\":{\"exit\":0,\"value\":\"late\"}}");
	turn();
	turn();
	cr_expect(told == 0, "the run goes on");
	exit_with(SIGSEGV);
	turn();
	cr_expect(told == 1 && res.state == RUN_KILLED && res.signal == SIGSEGV);
	cr_expect(!res.value && !res.has_exit_code);
}

Test(pool_unit, a_shell_is_told_what_it_lacks_and_has_no_report_then)
{
	const char *args[] = { "a b", "it's" }, *env[] = { "K=v\n\"$(x)\"", "_2=" };
	char byte;

	add_shape(LANGUAGE_SHELL, 0);
	(void)wait_in_box();
	request.args = args;
	request.env = env;
	request.n_args = request.n_env = 2;
	cr_assert(submit(&request, NULL) == 0, "%s", err.msg);
	cr_expect_str_eq(take_text(), "set -- 'a b' 'it'\\''s';export K='v\n\"$(x)\"';"
	                              "export _2='';");
	cr_expect(read(box.report, &byte, 1) == 0, "the other end is closed");
	exit_with(0);
	turn();
	cr_expect(told == 1 && res.state == RUN_FINISHED);
}

/* It reads byte by byte; nobody else waits for that. */
Test(pool_unit, a_shell_takes_its_time_to_be_told)
{
	static char value[300000] = "K=", got[sizeof(value) + 100];
	const char *env[] = { value };
	size_t n = 0, quotes = 0;
	ssize_t r = 1;

	memset(value + 2, 'v', sizeof(value) - 3);
	add_shape(LANGUAGE_SHELL, 0);
	(void)wait_in_box();
	request.env = env;
	request.n_env = 1;
	cr_assert(submit(&request, NULL) == 0, "%s", err.msg);
	for (int i = 0; i < 1000 && r > 0; i++) {
		r = read(box.report, got + n, sizeof(got) - n);
		n += r > 0 ? (size_t)r : 0;
		turn();
	}
	cr_assert(r == 0 && n > sizeof(value) && got[n - 1] == '\0', "%zu bytes", n);
	for (size_t i = 0; i < n; i++)
		quotes += got[i] == '\'';
	cr_expect(quotes == 2 && strncmp(got, "export K='vvv", 13) == 0);
	exit_with(0);
	turn();
	cr_expect(told == 1 && res.state == RUN_FINISHED);
}

/* What bash looks at only when it starts needs one that starts. */
Test(pool_unit, another_shell_is_started_where_the_waiting_one_would_not_do)
{
	static const struct {
		const char *name, *env;
	} cases[] = { { "other.sh", NULL }, { NULL, "BASH_ENV=x" }, { NULL, "IFS=:" },
		      { NULL, "a.b=c" },    { NULL, "SHELLOPTS=" }, { NULL, "1a=" } };

	add_shape(LANGUAGE_SHELL, 0);
	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		CLEANUP_BUF struct buf text = BUF_INIT(MIB);
		const char *env[] = { cases[i].env };

		request.name = cases[i].name;
		request.env = env;
		request.n_env = cases[i].env ? 1 : 0;
		cr_assert(route_shell(&request, &pool->shapes[0].plan, &text) == 0);
		cr_expect(strncmp(text.data, "exec /usr/bin/env -i 'PATH=", 27) == 0, "%s",
		          text.data);
		cr_expect(!cases[i].env || strstr(text.data, cases[i].env));
	}
}

Test(pool_unit, a_box_that_cannot_start_the_program_is_told_apart)
{
	struct box_report rep = { .kind = BOX_FAILED };
	struct box *b;

	add_shape(LANGUAGE_SHELL, 0);
	b = wait_in_box();
	cr_assert(submit(&request, NULL) == 0);
	(void)take_text();
	(void)err_set(&rep.err, ERR_SETUP, ENOEXEC, "execute");
	cr_assert(sock_send(box.control, &rep, sizeof(rep), NULL, 0) == 0);
	turn();
	cr_expect(told == 1 && res.state == RUN_SETUP_FAILED && res.error.sys == ENOEXEC);
	cr_expect(kill_ordered(b->id));
}

Test(pool_unit, a_half_message_from_a_box_is_none)
{
	struct box_report rep = { .kind = BOX_EXITED };

	add_shape(LANGUAGE_SHELL, 0);
	(void)wait_in_box();
	cr_assert(submit(&request, NULL) == 0);
	(void)take_text();
	cr_assert(sock_send(box.control, &rep, 8, NULL, 0) == 0);
	turn();
	cr_expect(told == 0);
}

Test(pool_unit, a_run_that_is_stopped_is_over_when_everything_is_gone)
{
	struct pool_call *call;
	struct box *b;
	uint64_t id;

	add_shape(LANGUAGE_SHELL, 0);
	b = wait_in_box();
	id = b->id;
	cr_assert(submit(&request, &call) == 0);
	(void)take_text();
	pool_cancel(pool, call);
	turn();
	cr_expect(told == 0 && kill_ordered(id));
	answer(LAUNCH_ENDED, id);
	cr_expect(told == 1 && res.state == RUN_CANCELLED);
}

Test(pool_unit, the_wall_time_is_the_request_s)
{
	struct box *b;

	add_shape(LANGUAGE_SHELL, 0);
	b = wait_in_box();
	request.limits.timeout_ms = 1;
	cr_assert(submit(&request, NULL) == 0);
	(void)take_text();
	(void)usleep(3000);
	turn();
	cr_expect(kill_ordered(b->id));
	answer(LAUNCH_ENDED, b->id);
	cr_expect(told == 1 && res.state == RUN_TIMED_OUT && res.error.code == ERR_LIMIT);
}

Test(pool_unit, the_launcher_s_death_is_the_run_s)
{
	add_shape(LANGUAGE_SHELL, 0);
	(void)wait_in_box();
	cr_assert(submit(&request, NULL) == 0);
	(void)take_text();
	launcher = fd_close(launcher);
	(void)pool_turn(pool, 0);
	cr_expect(told == 1 && res.state == RUN_LOST && res.error.code == ERR_INTERNAL);
}

/* The files of a run that cannot be placed are not run without them. */
Test(pool_unit, a_workspace_that_is_not_empty_is_not_used)
{
	struct box *b;

	add_shape(LANGUAGE_SHELL, 0);
	b = wait_in_box();
	cr_assert(symlinkat("/etc/passwd", b->workspace, "main.sh") == 0);
	cr_assert(submit(&request, NULL) == 0);
	turn();
	cr_expect(told == 1 && res.state == RUN_SETUP_FAILED && res.error.sys == EEXIST);
	cr_expect(recv(box.report, box.message, 1, MSG_DONTWAIT) <= 0, "nothing was run");
	cr_expect(kill_ordered(b->id));
}

Test(pool_unit, cancelled_private_call_is_forgotten_by_its_box)
{
	struct request other = request;
	struct launch_call call;
	struct pool_call *c;

	add_shape(LANGUAGE_SHELL, 0);
	other.limits.memory_bytes /= 2;
	cr_assert(submit(&other, &c) == 0);
	cr_assert(told_launcher(&call));
	pool_cancel(pool, c);
	turn();
	cr_expect(told == 1);
	cr_expect(pool->boxes[call.id % LAUNCH_BOXES_MAX].call == NULL);
	answer(LAUNCH_FAILED, call.id); /* ASan: use after free */
}

Test(pool_unit, private_call_hit_by_a_strangers_failure)
{
	struct request other = request;
	struct launch_call a, b;

	add_shape(LANGUAGE_SHELL, 1);
	cr_assert(told_launcher(&a));
	other.limits.memory_bytes /= 2;
	cr_assert(submit(&other, NULL) == 0);
	cr_assert(told_launcher(&b));
	answer(LAUNCH_FAILED, a.id);
	cr_expect(told == 0, "its own box is still on its way");
	cr_expect(told == 0 || pool->boxes[b.id % LAUNCH_BOXES_MAX].call == NULL, "dangling");
}

Test(pool_unit, late_failure_kills_the_shape)
{
	add_shape(LANGUAGE_SHELL, 0);
	answer(LAUNCH_FAILED, LAUNCH_BOXES_MAX + 3);
	cr_expect(pool->shapes[0].kept, "and no shell box is ever ordered again");
}

Test(pool_unit, long_code_is_left_to_its_file)
{
	static char code[20000];

	memset(code, '#', sizeof(code) - 1);
	add_shape(LANGUAGE_PYTHON, 0);
	(void)wait_in_box();
	request.language = LANGUAGE_PYTHON;
	request.code = (struct str){ code, sizeof(code) - 1 };
	cr_assert(submit(&request, NULL) == 0);
	expect_message(take_run(4), (const char *[]){ "/workspace/main.py", "", "0" }, 3);
}

Test(pool_unit, name_with_quote)
{
	add_shape(LANGUAGE_PYTHON, 0);
	(void)wait_in_box();
	request.language = LANGUAGE_PYTHON;
	request.name = "a\"b.py";
	cr_assert(request_check(&request, &err) == 0, "%s", err.msg);
	cr_assert(submit(&request, NULL) == 0);
	(void)take_run(4);
	cr_expect_str_eq(box.message + 1, "/workspace/a\"b.py");
}
