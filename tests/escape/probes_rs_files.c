/* SPDX-License-Identifier: Apache-2.0 */
/* Resource exhaustion: disk (RS-05 to RS-08) and streams (RS-10 to RS-12). */
#include "probes_rs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct variant {
	const char *name;
	int (*run)(int argc, char **argv, char *detail, size_t n);
};

static int run_variant(const struct variant *v, size_t count, int argc, char **argv, char *detail,
                       size_t n)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(v[i].name, word(argc, argv, 0)) == 0)
			return v[i].run(argc - 1, argv + 1, detail, n);
	snprintf(detail, n, "no variant \"%s\"", word(argc, argv, 0));
	return PROBE_ERROR;
}

/* --- RS-05 to RS-08: disk ------------------------------------------------------------------- */

long fill_fd(int fd, long bytes)
{
	static char block[64 * KB];
	long done = 0;

	memset(block, 'x', sizeof(block));
	while (done < bytes) {
		ssize_t k = write(fd, block, sizeof(block));

		if (k < 0)
			return -errno;
		done += k;
	}
	return done;
}

/* DIRECTORY MIB */
int rs05_fill(int argc, char **argv, char *detail, size_t n)
{
	long bytes = number(argc, argv, 1, 0) * MB, r;
	char path[512];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/fill-%d", word(argc, argv, 0), (int)getpid());
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		return verdict(detail, n, "open", 0, bytes, errno);
	r = fill_fd(fd, bytes);
	(void)fstat(fd, &st);
	(void)unlink(path);
	return verdict(detail, n, "blocks", st.st_blocks * 512L, bytes, r < 0 ? (int)-r : 0);
}

/* files|dirs|symlinks|links|xattrs COUNT */
int rs06_inodes(int argc, char **argv, char *detail, size_t n)
{
	static char value[2000];
	const char *kind = word(argc, argv, 0);
	long bound = number(argc, argv, 1, 0), done = 0, r = 0;
	char path[64];

	(void)try_create("first", 0600, "x");
	memset(value, 'v', sizeof(value));
	while (done < bound && r >= 0) {
		snprintf(path, sizeof(path), "entry-%ld", done);
		if (strcmp(kind, "dirs") == 0)
			r = RAW(SYS_mkdir, path, 0700);
		else if (strcmp(kind, "symlinks") == 0)
			r = RAW(SYS_symlink, "nowhere", path);
		else if (strcmp(kind, "links") == 0)
			r = RAW(SYS_link, "first", path);
		else
			r = try_create(path, 0600, "");
		if (r >= 0 && strcmp(kind, "xattrs") == 0)
			r = RAW(SYS_setxattr, path, "user.brig", value, sizeof(value), 0);
		done += r >= 0;
	}
	return verdict(detail, n, kind, done, bound, r < 0 ? (int)-r : 0);
}

static int sparse(int argc, char **argv, char *detail, size_t n)
{
	long bytes = number(argc, argv, 0, 0);
	int fd = open("sparse", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	long r = RAW(SYS_ftruncate, fd, bytes);

	return verdict(detail, n, "bytes", r < 0 ? 0 : bytes, bytes, r < 0 ? (int)-r : 0);
}

static int allocate(int argc, char **argv, char *detail, size_t n)
{
	long bytes = number(argc, argv, 0, 0);
	int fd = open("allocated", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	long r = RAW(SYS_fallocate, fd, 0, 0, bytes);

	return verdict(detail, n, "bytes", r < 0 ? 0 : bytes, bytes, r < 0 ? (int)-r : 0);
}

/* Writes MIB times one MiB and punches it out again: what is gone must not count. */
static int punch(int argc, char **argv, char *detail, size_t n)
{
	long rounds = number(argc, argv, 0, 0), r = 0, done = 0;
	int fd = open("punched", O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	while (done < rounds && r >= 0) {
		(void)lseek(fd, 0, SEEK_SET);
		r = fill_fd(fd, MB);
		if (r >= 0)
			r = RAW(SYS_fallocate, fd, 3 /* PUNCH_HOLE | KEEP_SIZE */, 0, MB);
		done += r >= 0;
	}
	return verdict(detail, n, "rounds", done, rounds, r < 0 ? (int)-r : 0);
}

static int write_past(int argc, char **argv, char *detail, size_t n)
{
	long bytes = number(argc, argv, 0, 0), r;
	int fd = open("past", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	struct stat st;

	r = fill_fd(fd, bytes);
	(void)fstat(fd, &st);
	return verdict(detail, n, "bytes", st.st_size, bytes, r < 0 ? (int)-r : 0);
}

static int past_with_signal(int argc, char **argv, char *detail, size_t n)
{
	(void)signal(SIGXFSZ, SIG_DFL);
	return write_past(argc, argv, detail, n);
}

int rs07_sizes(int argc, char **argv, char *detail, size_t n)
{
	static const struct variant variants[] = {
		{ "sparse", sparse },    { "allocate", allocate },       { "punch", punch },
		{ "write", write_past }, { "signal", past_with_signal },
	};

	(void)signal(SIGXFSZ, SIG_IGN);
	return run_variant(variants, COUNT(variants), argc, argv, detail, n);
}

/* MS: sync and write-through as fast as possible. Escaped when bytes went to a disk. */
int rs08_storm(int argc, char **argv, char *detail, size_t n)
{
	long end = now_ms() + number(argc, argv, 0, 0), rounds = 0, written;
	char text[512], *at;
	int fd = open("storm", O_CREAT | O_RDWR | O_SYNC | O_CLOEXEC, 0600);
	int direct = open("direct", O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
	char *page = map_pages(PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	if (fd < 0 || !page)
		return PROBE_ERROR;
	for (; now_ms() < end; rounds++) {
		(void)pwrite(fd, "x", 1, rounds % 65536);
		(void)fsync(fd);
		if (direct >= 0)
			(void)pwrite(direct, page, PAGE, 0);
		(void)rename(rounds & 1 ? "b" : "a", rounds & 1 ? "a" : "b");
		if (in_box())
			sync();
	}
	if (try_read("/proc/self/io", text, sizeof(text)) < 0)
		return PROBE_ERROR;
	at = strstr(text, "\nwrite_bytes: ");
	written = at ? strtol(at + 14, NULL, 10) : -1;
	snprintf(detail, n, "%ld rounds, %ld bytes to disk", rounds, written);
	return written < 0 ? PROBE_ERROR : written > 0 ? PROBE_ESCAPED : PROBE_BLOCKED;
}

/* --- RS-10 to RS-12: streams ---------------------------------------------------------------- */

/* VARIANT MIB: as much on stdout and on stderr. */
int rs10_flood(int argc, char **argv, char *detail, size_t n)
{
	static char block[64 * KB];
	const char *kind = word(argc, argv, 0);
	long bytes = number(argc, argv, 1, 0) * MB;
	static const char ansi[] = "\033[2J\033]0;x\007\033[31mred\r\n";

	for (size_t i = 0; i < sizeof(block); i++) {
		if (strcmp(kind, "nul") == 0)
			block[i] = 0;
		else if (strcmp(kind, "invalid") == 0)
			block[i] = (char)(0x80 + i % 0x80);
		else if (strcmp(kind, "ansi") == 0)
			block[i] = ansi[i % (sizeof(ansi) - 1)];
		else
			block[i] = strcmp(kind, "lines") == 0 && i % 64 == 63 ? '\n' : 'x';
	}
	for (long done = 0; done < bytes; done += (long)sizeof(block)) {
		if (write(1, block, sizeof(block)) != (ssize_t)sizeof(block) ||
		    write(2, block, sizeof(block)) != (ssize_t)sizeof(block))
			return verdict(detail, n, "bytes", done, bytes, errno);
	}
	(void)write(1, "\n", 1);
	return verdict(detail, n, "bytes", bytes, bytes, 0);
}

int rs12_stdin(int argc, char **argv, char *detail, size_t n)
{
	static char block[64 * KB];
	const char *kind = word(argc, argv, 0);
	long done = 0;
	ssize_t k;

	if (strcmp(kind, "close") == 0)
		(void)close(0);
	else if (strcmp(kind, "ignore") == 0)
		sleep_ms(200);
	else if (strcmp(kind, "byte") == 0)
		done = read(0, block, 1);
	else
		while ((k = read(0, block, sizeof(block))) > 0)
			done += k;
	snprintf(detail, n, "read %ld", done);
	return PROBE_BLOCKED;
}
