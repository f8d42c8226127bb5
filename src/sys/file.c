/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

int file_write(int dir, const char *path, const char *text)
{
	CLEANUP_FD int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);
	ssize_t w;

	if (fd < 0)
		return -errno;
	w = write(fd, text, n);
	if (w < 0)
		return -errno;
	return (size_t)w == n ? 0 : -EIO;
}

int file_read(int dir, const char *path, char *text, size_t size)
{
	CLEANUP_FD int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	text[0] = '\0';
	if (fd < 0)
		return -errno;
	while (len < size) {
		ssize_t n = read(fd, text + len, size - len);

		if (n < 0)
			return -errno;
		if (n == 0) {
			text[len] = '\0';
			return (int)len;
		}
		len += (size_t)n;
	}
	text[size - 1] = '\0';
	return -EFBIG;
}
