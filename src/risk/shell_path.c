/* SPDX-License-Identifier: Apache-2.0 */
/* Paths in words: without detours, and the program that one names. */
#include "risk/shell.h"

/* The end of the folder that "..", at `at`, leads back to. */
static size_t parent_end(const char *path, size_t n)
{
	while (n > 0 && path[n - 1] != '/')
		n--;
	return n ? n - 1 : 0;
}

/* An absolute path without ".", ".." and doubled slashes; 0: too long. */
static size_t plain_path(struct str s, char out[NAME_MAX_LEN])
{
	size_t n = 0;

	for (size_t i = 0; i < s.n;) {
		size_t len = 0;

		while (i < s.n && s.p[i] == '/')
			i++;
		while (i + len < s.n && s.p[i + len] != '/')
			len++;
		if (len == 2 && memcmp(s.p + i, "..", 2) == 0) {
			n = parent_end(out, n);
		} else if (len && !(len == 1 && s.p[i] == '.')) {
			if (n + len + 1 > NAME_MAX_LEN)
				return 0;
			out[n++] = '/';
			memcpy(out + n, s.p + i, len);
			n += len;
		}
		i += len;
	}
	return n;
}

/* Where a path begins in a word: /x, -f/x, --file=/x, if=/x, @/x. */
static size_t path_start(struct str s)
{
	size_t i = 0;

	while (i < s.n && s.p[i] != '/')
		i++;
	if (i == s.n || i == 0)
		return i;
	if (s.p[i - 1] == '=' || s.p[i - 1] == '@')
		return i;
	for (size_t k = 1; k < i; k++)
		if ((s.p[k] | 0x20) < 'a' || (s.p[k] | 0x20) > 'z')
			return s.n;
	return s.p[0] == '-' && i > 1 ? i : s.n;
}

bool shell_path(struct str word, char out[NAME_MAX_LEN], struct str *ret)
{
	size_t at = path_start(word);

	if (at == word.n)
		return false;
	*ret = (struct str){ out, plain_path((struct str){ word.p + at, word.n - at }, out) };
	return ret->n && !str_eq(*ret, word);
}

/* A program in a folder of the system is known by its last name; another path is another program.
 */
struct str shell_base_name(struct str s)
{
	static const char *const folders[] = {
		"/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/", "/usr/local/bin/", "/usr/local/sbin/",
	};
	char path[NAME_MAX_LEN];
	size_t n, last = s.n;

	if (s.n == 0 || s.p[0] != '/')
		return s;
	n = plain_path(s, path);
	while (last > 0 && s.p[last - 1] != '/')
		last--;
	for (size_t i = 0; i < ELEMENTSOF(folders); i++) {
		size_t len = strlen(folders[i]);

		if (n > len && memcmp(path, folders[i], len) == 0 &&
		    !memchr(path + len, '/', n - len) && last < s.n)
			return (struct str){ s.p + last, s.n - last };
	}
	return s;
}
