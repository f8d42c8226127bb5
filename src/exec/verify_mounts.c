/* SPDX-License-Identifier: Apache-2.0 */

/* The mounts of a box, as the kernel tells them, against the plan. */

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "exec/verify_impl.h"

struct mount_line {
	const char *point, *options, *type;
};

/* Cuts the next word off *p; NULL at the end of the line. */
static char *next_word(char **p)
{
	char *word = *p + strspn(*p, " "), *end = word + strcspn(word, " ");

	if (!*word)
		return NULL;
	*p = *end ? end + 1 : end;
	*end = '\0';
	return word;
}

/* "id parent dev root point options [tags...] - type source ..."; the line is cut to pieces. */
static bool parse_mount(char *line, struct mount_line *ret)
{
	char *words[6], *word = NULL;

	for (size_t i = 0; i < ELEMENTSOF(words); i++) {
		words[i] = next_word(&line);
		if (!words[i])
			return false;
	}
	ret->point = words[4];
	ret->options = words[5];
	do
		word = next_word(&line);
	while (word && !streq(word, "-"));
	ret->type = word ? next_word(&line) : NULL;
	return ret->type != NULL;
}

static bool option_set(const char *options, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = options; (p = strstr(p, word)); p += n)
		if ((p == options || p[-1] == ',') && (p[n] == ',' || p[n] == '\0'))
			return true;
	return false;
}

static bool below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* Is a mount there by the plan, and as tight as the plan says? */
static bool mount_allowed(const struct plan *plan, const struct mount_line *m)
{
	bool ro = option_set(m->options, "ro");
	bool masks_on = plan->layers & LAYER_BIT(PROC_MASKS);

	if (!option_set(m->options, "nosuid"))
		return false;
	if (streq(m->point, "/"))
		return streq(m->type, "tmpfs") && (ro || !(plan->layers & LAYER_BIT(ROOT_RO)));
	for (size_t i = 0; i < plan->n_fs; i++) {
		const struct fs_op *op = &plan->fs[i];

		switch (op->kind) {
		case FS_OP_BIND_RO:
			if (below(m->point, op->path))
				return ro && option_set(m->options, "nodev");
			break;
		case FS_OP_MASK:
		case FS_OP_READONLY:
			if (streq(m->point, op->path))
				return ro && masks_on;
			break;
		case FS_OP_SCRATCH:
			if (streq(m->point, op->path))
				return streq(m->type, "tmpfs") && option_set(m->options, "nodev") &&
				       option_set(m->options, "noexec") == op->noexec;
			break;
		case FS_OP_PROC: /* on top of the writable tmpfs and, in a shared root, of an
		                            empty one; look_at_mounts() sees that it is the last */
			if (streq(m->point, op->path))
				return streq(m->type, "proc") ||
				       (streq(m->type, "tmpfs") && option_set(m->options, "nodev"));
			break;
		case FS_OP_DEV:
			if (below(m->point, op->path) && strncmp(m->point, "/dev/shm", 8) != 0)
				return option_set(m->options, "noexec");
			break;
		case FS_OP_NONE:
		case FS_OP_DIR:
		case FS_OP_SYMLINK:
		case FS_OP_FILE:
		case FS_OP_COUNT:
			break;
		}
	}
	return false;
}

/* Every mount of the box is one the plan asked for; nothing of the host shows through. */
int look_at_mounts(struct look *k)
{
	unsigned n = 0, masks = 0;
	bool root_ro = false, proc_on_top = false;
	char *line;
	int r = look_read(k, k->code_dir, "mountinfo");

	if (r < 0)
		return r;
	for (line = k->text; *line; n++) {
		struct mount_line m = { "?", "", "" };
		char *end = line + strcspn(line, "\n");
		bool last = *end == '\0';

		*end = '\0';
		if (!parse_mount(line, &m) || !mount_allowed(k->plan, &m)) {
			char what[80];

			(void)snprintf(what, sizeof(what), "mount %.60s", m.point);
			return look_mismatch(k, what);
		}
		if (streq(m.point, "/"))
			root_ro = option_set(m.options, "ro");
		if (streq(m.point, "/proc"))
			proc_on_top = streq(m.type, "proc");
		masks += below(m.point, "/proc") && !streq(m.point, "/proc");
		if (last)
			break;
		line = end + 1;
	}
	if (!proc_on_top)
		return look_mismatch(k, "its /proc is covered");
	r = look_expect(k, LAYER_ROOT_RO, root_ro, "own tmpfs, read-only; host's /usr read-only");
	if (r < 0 || !(k->plan->layers & LAYER_BIT(PROC_MASKS)))
		return r;
	r = look_expect(k, LAYER_PROC_MASKS, masks > 0, "");
	if (r >= 0)
		(void)snprintf(k->receipt->layers[LAYER_PROC_MASKS].detail,
		               sizeof(k->receipt->layers[0].detail), "%u of %u mounts hide /proc",
		               masks, n);
	return r;
}
