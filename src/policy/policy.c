/* SPDX-License-Identifier: Apache-2.0 */
/* Where a policy comes from: compiled in, or a file. Reading is all or nothing. */
#include "policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "policy/policy_impl.h"
#include "policy_builtin_gen.h"

static const struct {
	const char *name;
	const unsigned char *text;
	size_t n;
} builtins[] = {
	{ "strict", policy_strict, sizeof(policy_strict) },
	{ "permissive", policy_permissive, sizeof(policy_permissive) },
};

const char *policy_builtin_name(size_t i)
{
	return i < ELEMENTSOF(builtins) ? builtins[i].name : NULL;
}

struct str policy_builtin_text(const char *name)
{
	for (size_t i = 0; i < ELEMENTSOF(builtins); i++)
		if (streq(builtins[i].name, name))
			return (struct str){ (const char *)builtins[i].text, builtins[i].n };
	return (struct str){ 0 };
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	policy_free(p->base); /* a built-in extends nothing: this ends */
	arena_done(&p->arena);
	free(p);
}

static void policy_freep(struct policy **p)
{
	policy_free(*p);
}

/* The file's name without folder and ending; what is left must do as a name. */
static void name_from_file(const char *file, char ret[POLICY_NAME_SIZE])
{
	const char *slash = strrchr(file, '/'), *start = slash ? slash + 1 : file;
	size_t n = 0;

	for (; start[n] && start[n] != '.' && n < POLICY_NAME_SIZE - 1; n++)
		ret[n] = start[n];
	ret[n] = '\0';
	for (size_t i = 0; i < n; i++)
		if (ret[i] < '!' || ret[i] > '~')
			ret[i] = '_';
	if (!n)
		(void)snprintf(ret, POLICY_NAME_SIZE, "unnamed");
}

static void digest_text(struct policy *p, struct str text)
{
	uint8_t digest[SHA256_SIZE];
	struct str below = str_of(p->base ? p->base->digest : "");
	struct sha256 h;

	sha256_init(&h);
	sha256_put_field(&h, below.p, below.n);
	sha256_put_field(&h, text.p, text.n);
	sha256_finish(&h, digest);
	sha256_hex(digest, p->digest);
}

int policy_parse(const char *name, struct str text, struct policy **ret, struct err *err)
{
	CLEANUP(policy_freep) struct policy *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return err_set(err, ERR_INTERNAL, ENOMEM, "read policy \"%.80s\"", name);
	p->arena = ARENA_INIT(POLICY_ARENA_MAX);
	name_from_file(name, p->name);
	r = policy_read(name, text, p, err);
	if (r < 0)
		return r;
	digest_text(p, text);
	*ret = TAKE_PTR(p);
	return 0;
}

int policy_builtin(const char *name, struct policy **ret, struct err *err)
{
	struct str text = policy_builtin_text(name);

	if (!text.p)
		return err_set(err, ERR_NOT_FOUND, ENOENT, "no built-in policy \"%.40s\"", name);
	return policy_parse(name, text, ret, err);
}

/* At most one byte more than a policy may have: then it is seen to be too large. */
static int read_text(int fd, char *text, size_t size, size_t *ret_n)
{
	size_t n = 0;

	while (n < size) {
		ssize_t got = read(fd, text + n, size - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		n += (size_t)got;
	}
	*ret_n = n;
	return 0;
}

static int load_file(const char *path, struct policy **ret, struct err *err)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	CLEANUP_FREE char *text = NULL;
	struct stat st;
	size_t n = 0;
	int r;

	if (fd < 0) {
		r = err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno,
		            "open policy \"%.120s\"", path);
		return err_remedy(err, r, "give a file, or a built-in: strict, permissive");
	}
	if (fstat(fd, &st) < 0)
		return err_set(err, ERR_IO, errno, "fstat policy \"%.120s\"", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, 0, "policy \"%.120s\" is not a regular file",
		               path);
	text = malloc(POLICY_FILE_MAX + 1);
	if (!text)
		return err_set(err, ERR_INTERNAL, ENOMEM, "read policy \"%.120s\"", path);
	r = read_text(fd, text, POLICY_FILE_MAX + 1, &n);
	if (r < 0)
		return err_set(err, ERR_IO, -r, "read policy \"%.120s\"", path);
	return policy_parse(path, (struct str){ text, n }, ret, err);
}

int policy_load(const char *name_or_path, struct policy **ret, struct err *err)
{
	/* A built-in's name is never a file, wherever we are started: "./strict" is one. */
	if (policy_builtin_text(name_or_path).p)
		return policy_builtin(name_or_path, ret, err);
	return load_file(name_or_path, ret, err);
}

const char *policy_name(const struct policy *p)
{
	return p->name;
}

const char *policy_digest(const struct policy *p)
{
	return p->digest;
}
