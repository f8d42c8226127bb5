/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/text.h"

#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/macro.h"

#define HUGE ((uintptr_t)2 << 20)
#define PAGE ((uintptr_t)4096)

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

/* A copy in huge pages takes the place of the original in one step. */
static void replace(uintptr_t from, size_t size)
{
	char *room =
		mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *copy;

	if (room == MAP_FAILED)
		return;
	copy = room + (HUGE - (uintptr_t)room % HUGE) % HUGE;
	if (madvise(copy, size, MADV_HUGEPAGE) == 0) {
		memcpy(copy, (const void *)from, size);
		/* All or nothing: small pages would only have to be copied by every fork. */
		if (madvise(copy, size, MADV_COLLAPSE) == 0 &&
		    mprotect(copy, size, PROT_READ | PROT_EXEC) == 0)
			(void)mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)from);
	}
	(void)munmap(room, size + HUGE);
}

static int visit(struct dl_phdr_info *info, size_t unused, void *data)
{
	struct range r = constant_part(info);

	(void)unused;
	(void)data;
	r.from = (r.from + HUGE - 1) & ~(HUGE - 1);
	r.to &= ~(HUGE - 1);
	if (r.to > r.from)
		replace(r.from, r.to - r.from);
	return 0;
}

void text_into_huge_pages(void)
{
	(void)dl_iterate_phdr(visit, NULL);
}
