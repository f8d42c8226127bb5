/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brig doctor: what this host can do, what the rest would take, and the level that follows.
 *
 * The level is not the probe's to know: layer_needs says which findings each layer of a box rests
 * on. A layer can be had when none of them is missing.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "exec/launcher.h"
#include "model/layer.h"
#include "sys/probe.h"

#define OUTPUT_MAX (256 * KIB)

#define EXIT_MET     0
#define EXIT_NOT_MET 1
#define EXIT_USAGE   2
#define EXIT_BROKEN  125

/* What the probes find, and behind it what is ours. */
#define ITEM_LAUNCHER PROBE_COUNT
#define ITEM_COUNT    (PROBE_COUNT + 1)

/* Without these there is no box at any level. */
#define ALWAYS                                                                                     \
	(PROBE_BIT(USERNS) | PROBE_BIT(PIDFD) | PROBE_BIT(CLOSE_RANGE) | PROBE_BIT(OPENAT2) |      \
	 PROBE_BIT(MOUNT_API) | UINT64_C(1) << ITEM_LAUNCHER)

static const uint64_t layer_needs[LAYER_COUNT] = {
	[LAYER_USER_NS] = PROBE_BIT(USERNS),
	[LAYER_MOUNT_NS] = PROBE_BIT(NS_MOUNT),
	[LAYER_PID_NS] = PROBE_BIT(NS_PID),
	[LAYER_NET_NS] = PROBE_BIT(NS_NET),
	[LAYER_IPC_NS] = PROBE_BIT(NS_IPC),
	[LAYER_UTS_NS] = PROBE_BIT(NS_UTS),
	[LAYER_CGROUP_NS] = PROBE_BIT(NS_CGROUP),
	[LAYER_TIME_NS] = PROBE_BIT(NS_TIME),
	[LAYER_UID_SPLIT] = PROBE_BIT(ID_MAP),
	[LAYER_ROOT_RO] = PROBE_BIT(ROOT) | PROBE_BIT(MOUNT_API),
	[LAYER_PROC_MASKS] = PROBE_BIT(PROCFS),
	[LAYER_DEV_NODES] = PROBE_BIT(DEV_NODES),
	[LAYER_QUOTA] = PROBE_BIT(TMPFS),
	[LAYER_NETWORK] = PROBE_BIT(NS_NET),
	[LAYER_NS_LOCK] = PROBE_BIT(NS_LOCK),
	[LAYER_KEYRING] = PROBE_BIT(KEYRING),
	[LAYER_RLIMITS] = 0, /* every Linux */
	[LAYER_CAPABILITIES] = PROBE_BIT(USERNS),
	[LAYER_NO_NEW_PRIVS] = PROBE_BIT(SECCOMP), /* tried together */
	[LAYER_LANDLOCK] = PROBE_BIT(LANDLOCK),
	[LAYER_LANDLOCK_SCOPE] = PROBE_BIT(LANDLOCK_SCOPE),
	[LAYER_LAUNCH_FILTER] = PROBE_BIT(SECCOMP),
	[LAYER_SECCOMP] = PROBE_BIT(SECCOMP),
	[LAYER_CG_MEMORY] = PROBE_BIT(CG_MEMORY),
	[LAYER_CG_SWAP] = PROBE_BIT(CG_SWAP),
	[LAYER_CG_PIDS] = PROBE_BIT(CG_PIDS),
	[LAYER_CG_CPU] = PROBE_BIT(CG_CPU),
};

_Static_assert(ITEM_COUNT <= 64, "the bit of an item must fit a uint64_t");

static const char help[] =
	"usage: brig doctor [--json] [--level LEVEL]\n"
	"\n"
	"Tries everything that a box is built from on this host, as the user who calls, and says\n"
	"what is missing, what that costs and what would get it. Nothing is left behind.\n"
	"\n"
	"  --level LEVEL  the level that the exit status answers for: strict, standard (the\n"
	"                 default) or degraded-ok\n"
	"  --json         one JSON object: level, standard, strict, missing_layers, items\n"
	"  --help         this text\n"
	"\n"
	"Exit status: 0 the level can be met, 1 it cannot, 2 wrong usage.\n"
	"NO_COLOR in the environment, or output that is not a terminal, turns colours off.\n";

struct doctor {
	struct probe_item items[ITEM_COUNT];
	uint32_t layers;  /* that this host can give */
	enum level level; /* the best; LEVEL_COUNT when none */
	bool colour;
};

static void look_for_launcher(struct probe_item *ret)
{
	char path[PATH_MAX];
	struct err err = { 0 };

	*ret = (struct probe_item){ .id = "launcher",
		                    .group = "brig",
		                    .title = "brig-launch",
		                    .cost = "no box can be built: it is the program that does" };
	if (launcher_find(path, sizeof(path), &err) >= 0) {
		ret->state = PROBE_OK;
		(void)snprintf(ret->found, sizeof(ret->found), "%.119s", path);
		return;
	}
	(void)snprintf(ret->found, sizeof(ret->found), "%.119s", err.msg);
	(void)snprintf(ret->remedy, sizeof(ret->remedy), "%s", err.remedy);
}

static int look(struct probe_item ret[ITEM_COUNT])
{
	struct probe_report report;
	int r = probe_host(&report);

	if (r < 0)
		return r;
	memcpy(ret, report.items, sizeof(report.items));
	look_for_launcher(&ret[ITEM_LAUNCHER]);
	return 0;
}

/* ---- levels ---- */

static uint32_t layers_given(const struct probe_item items[ITEM_COUNT])
{
	uint64_t missing = 0;
	uint32_t given = 0;

	for (unsigned i = 0; i < ITEM_COUNT; i++)
		if (items[i].state == PROBE_MISSING)
			missing |= UINT64_C(1) << i;
	if (missing & ALWAYS)
		return 0;
	for (unsigned i = 0; i < LAYER_COUNT; i++)
		if (!(layer_needs[i] & missing))
			given |= UINT32_C(1) << i;
	return given;
}

static bool meets(const struct doctor *d, enum level level)
{
	return (layers_required(level) & ~d->layers) == 0;
}

/* ---- for people ---- */

static const char *paint(const struct doctor *d, enum probe_state state)
{
	if (!d->colour)
		return "";
	switch (state) {
	case PROBE_MISSING:
		return "\033[31m";
	case PROBE_WARN:
		return "\033[33m";
	case PROBE_OK:
		return "\033[32m";
	}
	return "";
}

static const char *plain(const struct doctor *d)
{
	return d->colour ? "\033[0m" : "";
}

static void put_item(struct buf *b, const struct doctor *d, const struct probe_item *item,
                     int width)
{
	buf_printf(b, "  %s%-7s%s  %-*s  %s\n", paint(d, item->state),
	           probe_state_name(item->state), plain(d), width, item->title, item->found);
	if (item->state == PROBE_OK)
		return;
	buf_printf(b, "%11scost:   %s\n", "", item->cost);
	if (*item->remedy)
		buf_printf(b, "%11sget it: %s\n", "", item->remedy);
}

static void put_layers(struct buf *b, uint32_t layers)
{
	const char *comma = "";

	for (unsigned i = 0; i < LAYER_COUNT; i++) {
		if (layers & (UINT32_C(1) << i)) {
			buf_printf(b, "%s%s", comma, layer_name((enum layer_id)i));
			comma = ", ";
		}
	}
}

static void put_level(struct buf *b, const struct doctor *d, enum level level)
{
	uint32_t lacking = layers_required(level) & ~d->layers;

	buf_printf(b, "  %s%-7s%s  %s", paint(d, lacking ? PROBE_MISSING : PROBE_OK),
	           lacking ? "no" : "yes", plain(d), level_name(level));
	if (lacking && d->layers) {
		buf_puts(b, ": lacks ");
		put_layers(b, lacking);
	}
	buf_putc(b, '\n');
}

static void put_table(struct buf *b, const struct doctor *d)
{
	const char *group = "";
	struct utsname host;
	int width = 0;

	for (unsigned i = 0; i < ITEM_COUNT; i++) {
		int n = (int)strlen(d->items[i].title);

		width = n > width ? n : width;
	}
	if (uname(&host) == 0)
		buf_printf(b, "%.60s %.60s on %.60s, as uid %u\n", host.sysname, host.release,
		           host.machine, (unsigned)geteuid());
	for (unsigned i = 0; i < ITEM_COUNT; i++) {
		const struct probe_item *item = &d->items[i];

		if (!streq(group, item->group)) {
			group = item->group;
			buf_printf(b, "\n%s\n", group);
		}
		put_item(b, d, item, width);
	}
	buf_puts(b, "\nlevels\n");
	for (unsigned l = 0; l < LEVEL_COUNT; l++)
		put_level(b, d, (enum level)l);
	if (d->level == LEVEL_COUNT)
		buf_puts(b, "\nbrig cannot run code on this host: see what is missing above.\n");
	else
		buf_printf(b, "\nThe best level here is %s.\n", level_name(d->level));
}

/* ---- for programs ---- */

static void put_key(struct buf *b, const char *key, const char *value)
{
	json_put_cstr(b, key);
	buf_putc(b, ':');
	json_put_string(b, value, strlen(value));
}

static void put_json_layers(struct buf *b, uint32_t layers)
{
	const char *comma = "";

	buf_putc(b, '[');
	for (unsigned i = 0; i < LAYER_COUNT; i++) {
		if (!(layers & (UINT32_C(1) << i)))
			continue;
		buf_puts(b, comma);
		json_put_cstr(b, layer_name((enum layer_id)i));
		comma = ",";
	}
	buf_putc(b, ']');
}

/* The layers that rest on one finding. */
static uint32_t layers_on(unsigned probe)
{
	uint64_t bit = UINT64_C(1) << probe;
	uint32_t layers = 0;

	if (ALWAYS & bit)
		return LAYERS_ALL;
	for (unsigned i = 0; i < LAYER_COUNT; i++)
		if (layer_needs[i] & bit)
			layers |= UINT32_C(1) << i;
	return layers;
}

static void put_json(struct buf *b, const struct doctor *d)
{
	buf_putc(b, '{');
	put_key(b, "level", level_name(d->level));
	buf_printf(b, ",\"standard\":%s,\"strict\":%s,\"missing_layers\":",
	           meets(d, LEVEL_STANDARD) ? "true" : "false",
	           meets(d, LEVEL_STRICT) ? "true" : "false");
	put_json_layers(b, LAYERS_ALL & ~d->layers);
	buf_puts(b, ",\"items\":[");
	for (unsigned i = 0; i < ITEM_COUNT; i++) {
		const struct probe_item *item = &d->items[i];

		buf_puts(b, i ? ",{" : "{");
		put_key(b, "id", item->id);
		buf_putc(b, ',');
		put_key(b, "group", item->group);
		buf_putc(b, ',');
		put_key(b, "title", item->title);
		buf_putc(b, ',');
		put_key(b, "state", probe_state_name(item->state));
		buf_putc(b, ',');
		put_key(b, "found", item->found);
		buf_putc(b, ',');
		put_key(b, "cost", item->cost);
		buf_putc(b, ',');
		put_key(b, "remedy", item->remedy);
		buf_puts(b, ",\"layers\":");
		put_json_layers(b, layers_on(i));
		buf_putc(b, '}');
	}
	buf_puts(b, "]}\n");
}

/* ---- */

static bool wants_colour(void)
{
	const char *no = getenv("NO_COLOR");

	return isatty(STDOUT_FILENO) && !(no && *no);
}

static int write_all(const struct buf *b)
{
	size_t done = 0;

	if (buf_finish(b) < 0)
		return buf_finish(b);
	while (done < b->len) {
		ssize_t n = write(STDOUT_FILENO, b->data + done, b->len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return 0;
}

static int broken(const char *what, int r)
{
	(void)fprintf(stderr, "brig doctor: %s: %s\n", what, strerror(-r));
	return EXIT_BROKEN;
}

static int usage(const char *what, const char *arg)
{
	(void)fprintf(stderr, "brig doctor: %s: %s\ntry: brig doctor --help\n", what, arg);
	return EXIT_USAGE;
}

int cmd_doctor(int argc, char **argv)
{
	CLEANUP_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	enum level wanted = LEVEL_STANDARD;
	struct doctor d = { .level = LEVEL_COUNT };
	bool json = false;
	int r;

	for (int i = 1; i < argc; i++) {
		const char *name = NULL;

		if (streq(argv[i], "--help") || streq(argv[i], "-h")) {
			(void)fputs(help, stdout);
			return EXIT_MET;
		}
		if (streq(argv[i], "--json")) {
			json = true;
			continue;
		}
		if (str_has_prefix(argv[i], "--level="))
			name = argv[i] + strlen("--level=");
		else if (streq(argv[i], "--level") && i + 1 < argc)
			name = argv[++i];
		else
			return usage("not an option, or its value is missing", argv[i]);
		if (level_from_name(name, &wanted) < 0)
			return usage("not a level", name);
	}

	r = look(d.items);
	if (r < 0)
		return broken("cannot start a process to look with", r);
	d.layers = layers_given(d.items);
	d.level = layers_level(d.layers);
	d.colour = !json && wants_colour();
	if (json)
		put_json(&out, &d);
	else
		put_table(&out, &d);
	r = write_all(&out);
	if (r < 0)
		return broken("cannot write the report", r);
	return meets(&d, wanted) ? EXIT_MET : EXIT_NOT_MET;
}
