/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/config_impl.h"
#include "daemon/listen.h"
#include "daemon/ours.h"
#include "ledger/ledger.h"
#include "policy/yaml.h"
#include "sys/socket_path.h"

/* ---- the file ---- */

static const char *env_path(const char *name)
{
	const char *value = getenv(name);

	return value && *value == '/' ? value : NULL;
}

/* -ENOENT: there is no place for one. */
static int default_file(char *ret, size_t n)
{
	const char *xdg = env_path("XDG_CONFIG_HOME"), *home = env_path("HOME");
	int len = -1;

	if (geteuid() == 0)
		len = snprintf(ret, n, "/etc/brig/brigd.yaml");
	else if (xdg)
		len = snprintf(ret, n, "%s/brig/brigd.yaml", xdg);
	else if (home)
		len = snprintf(ret, n, "%s/.config/brig/brigd.yaml", home);
	return len < 0 || (size_t)len >= n ? -ENOENT : 0;
}

static int check_file(int fd, const char *path, struct err *err)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return err_set(err, ERR_IO, errno, "fstat \"%.140s\"", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, 0, "\"%.140s\" is not a regular file", path);
	if (stat_is_ours(&st))
		return 0;
	r = err_set(err, ERR_DENIED, EPERM, "others can write \"%.140s\"", path);
	return err_remedy(err, r, "chown and chmod it so that only root or uid %u can write it",
	                  (unsigned)geteuid());
}

/* At most one byte more than a file may have: then it is seen to be too large. */
static int read_all(int fd, char *text, size_t size, size_t *ret_n)
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

static int load_file(const char *path, bool must_exist, struct daemon_config *c, struct err *err)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	CLEANUP_FREE char *text = NULL;
	size_t n = 0;
	int r;

	if (fd < 0 && errno == ENOENT && !must_exist)
		return 0;
	if (fd < 0) {
		r = err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "open \"%.140s\"",
		            path);
		return err_remedy(err, r, "--config and BRIGD_CONFIG name the settings");
	}
	r = check_file(fd, path, err);
	if (r < 0)
		return r;
	text = malloc(YAML_BYTES_MAX + 1);
	if (!text)
		return err_set(err, ERR_INTERNAL, ENOMEM, "read \"%.140s\"", path);
	r = read_all(fd, text, YAML_BYTES_MAX + 1, &n);
	if (r < 0)
		return err_set(err, ERR_IO, -r, "read \"%.140s\"", path);
	r = config_keep(&c->arena, path, &c->file, err);
	return r < 0 ? r : config_read(path, (struct str){ text, n }, c, err);
}

static int load_files(const struct config_flags *f, struct daemon_config *c, struct err *err)
{
	const char *env = getenv("BRIGD_CONFIG");
	char path[PATH_MAX];

	if (f->config)
		return load_file(f->config, true, c, err);
	if (env && *env)
		return load_file(env, true, c, err);
	return default_file(path, sizeof(path)) < 0 ? 0 : load_file(path, false, c, err);
}

/* ---- the whole ---- */

int config_check(const struct daemon_config *c, struct err *err)
{
	struct listen_address a;
	int r;

	if (c->http.bodies_bytes < c->http.body_bytes)
		return err_set(err, ERR_INVALID, 0,
		               "limits.bodies is smaller than limits.body: no such body would fit");
	for (size_t i = 0; i < c->n_tcp; i++) {
		r = listen_parse(c->tcp[i], &a, err);
		if (r < 0)
			return err_wrap(err, r, "listen.tcp");
		if (a.loopback || c->allow_remote)
			continue;
		r = err_set(err, ERR_INVALID, 0,
		            "listen.tcp: %.60s can be reached from other machines", c->tcp[i]);
		return err_remedy(err, r,
		                  "if that is meant, say allow_remote: true or "
		                  "--allow-remote; the wire is not encrypted");
	}
	return 0;
}

/* The command's variable counts only where nobody said anything to the daemon. */
static int fall_back(struct daemon_config *c, struct err *err)
{
	const char *policy = getenv("BRIG_POLICY");

	if (c->policy || !policy || !*policy)
		return 0;
	return config_keep(&c->arena, policy, &c->policy, err);
}

int config_load(int argc, char **argv, struct daemon_config *ret, struct err *err)
{
	CLEANUP(config_done) struct daemon_config c;
	struct config_flags flags = { 0 };
	int r;

	config_defaults(&c);
	r = config_flags_read(argc, argv, &c, &flags, err);
	if (r >= 0 && !c.help && !c.version && !c.openapi) {
		r = load_files(&flags, &c, err);
		if (r >= 0)
			r = config_env_apply(&c, err);
		if (r >= 0)
			r = config_flags_apply(&flags, &c, err);
		if (r >= 0)
			r = fall_back(&c, err);
		if (r >= 0)
			r = config_check(&c, err);
	}
	if (r < 0)
		return r;
	*ret = c;
	c.arena = ARENA_INIT(0); /* handed over */
	return 0;
}

void config_done(struct daemon_config *c)
{
	arena_done(&c->arena);
}

int config_default_socket(char *ret, size_t n, struct err *err)
{
	char dir[PATH_MAX], path[SOCKET_PATH_SIZE];
	int r = ledger_default_dir(dir, sizeof(dir), err);

	if (r >= 0)
		r = socket_path_default(dir, path, err);
	if (r >= 0 && (size_t)snprintf(ret, n, "%s", path) >= n)
		return err_set(err, ERR_INVALID, ENAMETOOLONG, "the path of the socket");
	return r;
}
