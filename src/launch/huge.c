/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/huge.h"

#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/macro.h"
#include "sys/file.h"

#define HUGE       ((uintptr_t)2 << 20)
#define PAGE       ((uintptr_t)4096)
#define DATA_LEAST (HUGE / 4) /* smaller pieces are not worth a huge page each */
#define MAPS_MAX   (1 << 20)

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

struct range {
	uintptr_t from, to;
};

/* What an object has before its first writable byte, when it is in one piece. */
static struct range constant_part(const struct dl_phdr_info *info)
{
	struct range all = { 0, 0 };

	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t from = (info->dlpi_addr + p->p_vaddr) & ~(PAGE - 1);
		uintptr_t to = (info->dlpi_addr + p->p_vaddr + p->p_memsz + PAGE - 1) & ~(PAGE - 1);

		if (p->p_type != PT_LOAD)
			continue;
		if (p->p_flags & PF_W || !(p->p_flags & PF_R))
			break;
		if (all.to && all.to != from)
			break;
		if (!all.to)
			all.from = from;
		all.to = to;
	}
	return all;
}

/*
 * A copy in huge pages takes the place of the original in one step. It lies there as it did before,
 * so that whatever is aligned stays one entry of the page table.
 */
static void replace(struct range r, int protection)
{
	size_t size = r.to - r.from, shift = r.from % HUGE;
	size_t whole = (shift + size + HUGE - 1) & ~(HUGE - 1);
	char *room = mmap(NULL, whole + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	                  -1, 0);
	char *copy;

	if (room == MAP_FAILED)
		return;
	copy = room + (HUGE - (uintptr_t)room % HUGE) % HUGE;
	if (madvise(copy, whole, MADV_HUGEPAGE) == 0) {
		memcpy(copy + shift, (const void *)r.from, size);
		/* All or nothing: small pages would only have to be copied by every fork. */
		if (madvise(copy, whole, MADV_COLLAPSE) == 0 &&
		    mprotect(copy + shift, size, protection) == 0)
			(void)mremap(copy + shift, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
			             (void *)r.from);
	}
	(void)munmap(room, whole + HUGE);
}

static int visit(struct dl_phdr_info *info, size_t unused, void *data)
{
	struct range r = constant_part(info);

	(void)unused;
	(void)data;
	r.from = (r.from + HUGE - 1) & ~(HUGE - 1);
	r.to &= ~(HUGE - 1);
	if (r.to > r.from)
		replace(r, PROT_READ | PROT_EXEC);
	return 0;
}

/* Most of it: a copy takes up all. */
static bool is_used(struct range r)
{
	unsigned char in[512];
	size_t used = 0;

	for (uintptr_t at = r.from; at < r.to; at += sizeof(in) * PAGE) {
		size_t n = MIN2(sizeof(in), (r.to - at) / PAGE);

		if (mincore((void *)at, n * PAGE, in) < 0)
			return false;
		for (size_t i = 0; i < n; i++)
			used += in[i] & 1;
	}
	return used > (r.to - r.from) / PAGE / 2;
}

/* "FROM-TO rw-p OFFSET DEVICE INODE NAME". The stack we stand on is no data. */
static bool is_data(char *line, struct range *ret)
{
	char *p;

	ret->from = strtoull(line, &p, 16);
	ret->to = *p == '-' ? strtoull(p + 1, &p, 16) : 0;
	return strncmp(p, " rw-p ", 6) == 0 && !strstr(p, "[stack") && ret->to > ret->from &&
	       ret->to - ret->from >= DATA_LEAST && is_used(*ret);
}

static void replace_data(char *maps)
{
	for (char *line = maps, *end; *line; line = end) {
		struct range r;

		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = '\0';
		if (is_data(line, &r))
			replace(r, PROT_READ | PROT_WRITE);
	}
}

/* Not in the heap: that is about to be moved. */
static void move_data(int own_proc)
{
	char *maps =
		mmap(NULL, MAPS_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (maps == MAP_FAILED)
		return;
	if (file_read(own_proc, "maps", maps, MAPS_MAX) > 0)
		replace_data(maps);
	(void)munmap(maps, MAPS_MAX);
}

void huge_pages(int own_proc)
{
	(void)dl_iterate_phdr(visit, NULL);
	if (own_proc >= 0)
		move_data(own_proc);
}
