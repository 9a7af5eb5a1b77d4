/* SPDX-License-Identifier: BSD-3-Clause
 *
 * preload.c - the functions of a program for which pm-emulate stands in: those of libpmem that
 * write back, fence, or ask about persistent memory, and those of the C library that map and sync
 * files.  Each calls the real one, where there is one, and tells shadow.c or region.c of it.
 *
 * On x86-64 libfur writes back through libpmem (arch_write_back() in src/base).  On POWER, and
 * where it was built without libpmem, it executes instructions of its own; if it finds
 * pm_emulate_write_back() and pm_emulate_fence() in the process, it calls these instead.
 *
 * The real functions are system calls, not the next definition of the name: programs call them too
 * early, and from too deep inside, to look a name up.
 */
/* With _FILE_OFFSET_BITS mmap() would be another name of mmap64(); this file defines both. */
#undef _FILE_OFFSET_BITS

#include "region.h"
#include "shadow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(FUR_LIBPMEM)
#include <libpmem.h>
#else
/* Programs that use libpmem may run here although libfur was built without it. */
enum { PMEM_F_MEM_NODRAIN = 1 << 0, PMEM_F_MEM_NOFLUSH = 1 << 5 };
void pmem_flush(const void *start, size_t bytes);
void pmem_drain(void);
void pmem_persist(const void *start, size_t bytes);
void pmem_deep_flush(const void *start, size_t bytes);
int pmem_deep_drain(const void *start, size_t bytes);
int pmem_deep_persist(const void *start, size_t bytes);
int pmem_msync(const void *start, size_t bytes);
int pmem_is_pmem(const void *start, size_t bytes);
int pmem_has_auto_flush(void);
int pmem_has_hw_drain(void);
void *pmem_memmove(void *to, const void *from, size_t bytes, unsigned flags);
void *pmem_memcpy(void *to, const void *from, size_t bytes, unsigned flags);
void *pmem_memset(void *to, int c, size_t bytes, unsigned flags);
void *pmem_memmove_persist(void *to, const void *from, size_t bytes);
void *pmem_memcpy_persist(void *to, const void *from, size_t bytes);
void *pmem_memset_persist(void *to, int c, size_t bytes);
void *pmem_memmove_nodrain(void *to, const void *from, size_t bytes);
void *pmem_memcpy_nodrain(void *to, const void *from, size_t bytes);
void *pmem_memset_nodrain(void *to, int c, size_t bytes);
#endif

#ifndef MAP_SYNC
#define MAP_SYNC 0x80000
#endif

#define EXPORT __attribute__((visibility("default")))

/* ----------------------------------------------------------- mapping, syncing */

/* A program may map a file that counts as persistent memory with MAP_SYNC. */
static void *map_file(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	int type = flags & MAP_TYPE;
	bool ours = fd >= 0 && !(flags & MAP_ANONYMOUS) &&
	            (type == MAP_SHARED || type == MAP_SHARED_VALIDATE) && region_active() &&
	            region_wants(fd);
	if (ours)
		flags = (flags & ~(MAP_TYPE | MAP_SYNC)) | MAP_SHARED;
	void *p = (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
	if (p == MAP_FAILED || !region_active())
		return p;
	if (flags & MAP_FIXED)
		region_unmap(p, bytes);
	if (ours)
		region_map(p, bytes, fd, (uint64_t)offset);
	return p;
}

EXPORT void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	return map_file(at, bytes, protection, flags, fd, offset);
}

EXPORT void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off64_t offset)
{
	return map_file(at, bytes, protection, flags, fd, offset);
}

EXPORT int munmap(void *base, size_t bytes)
{
	if (region_active())
		region_unmap(base, bytes);
	return (int)syscall(SYS_munmap, base, bytes);
}

EXPORT void *mremap(void *base, size_t bytes, size_t new_bytes, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	void *to = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
	va_end(more);
	void *p = (void *)syscall(SYS_mremap, base, bytes, new_bytes, flags, to);
	if (p != MAP_FAILED && region_active())
		region_move(base, bytes, p, new_bytes);
	return p;
}

/* The real call makes the data durable first; only after that does the program learn of it. */
EXPORT int msync(void *start, size_t bytes, int flags)
{
	int failed = (int)syscall(SYS_msync, start, bytes, flags);
	if (!failed && region_active() && flags & MS_SYNC && region_is_persistent(start, bytes))
		shadow_sync_range(start, bytes);
	return failed;
}

EXPORT int fsync(int fd)
{
	int failed = (int)syscall(SYS_fsync, fd);
	if (!failed && region_active())
		shadow_sync_file(fd);
	return failed;
}

EXPORT int fdatasync(int fd)
{
	int failed = (int)syscall(SYS_fdatasync, fd);
	if (!failed && region_active())
		shadow_sync_file(fd);
	return failed;
}

/* ------------------------------------------------------------------ libpmem */

EXPORT void pmem_flush(const void *start, size_t bytes)
{
	if (region_active())
		shadow_flush(start, bytes);
}

EXPORT void pmem_drain(void)
{
	if (region_active())
		shadow_fence();
}

EXPORT void pmem_persist(const void *start, size_t bytes)
{
	pmem_flush(start, bytes);
	pmem_drain();
}

EXPORT void pmem_deep_flush(const void *start, size_t bytes)
{
	pmem_flush(start, bytes);
}

EXPORT int pmem_deep_drain(const void *start, size_t bytes)
{
	(void)start, (void)bytes;
	pmem_drain();
	return 0;
}

EXPORT int pmem_deep_persist(const void *start, size_t bytes)
{
	pmem_persist(start, bytes);
	return 0;
}

EXPORT int pmem_msync(const void *start, size_t bytes)
{
	/* msync(2) takes the start of a page. */
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)start & ~(page - 1);
	return msync((void *)from, (uintptr_t)start + bytes - from, MS_SYNC);
}

EXPORT int pmem_is_pmem(const void *start, size_t bytes)
{
	return region_active() && bytes && region_is_persistent(start, bytes);
}

EXPORT int pmem_has_auto_flush(void)
{
	return 0;
}

EXPORT int pmem_has_hw_drain(void)
{
	return 0;
}

/* libpmem's copies write back and fence after the copy, unless the caller asks for less. */
static void *after_copy(void *to, size_t bytes, unsigned flags)
{
	if (!(flags & PMEM_F_MEM_NOFLUSH))
		pmem_flush(to, bytes);
	if (!(flags & (PMEM_F_MEM_NOFLUSH | PMEM_F_MEM_NODRAIN)))
		pmem_drain();
	return to;
}

EXPORT void *pmem_memmove(void *to, const void *from, size_t bytes, unsigned flags)
{
	if (region_active())
		shadow_read(from, bytes);
	memmove(to, from, bytes);
	return after_copy(to, bytes, flags);
}

EXPORT void *pmem_memcpy(void *to, const void *from, size_t bytes, unsigned flags)
{
	return pmem_memmove(to, from, bytes, flags);
}

EXPORT void *pmem_memset(void *to, int c, size_t bytes, unsigned flags)
{
	memset(to, c, bytes);
	return after_copy(to, bytes, flags);
}

EXPORT void *pmem_memmove_persist(void *to, const void *from, size_t bytes)
{
	return pmem_memmove(to, from, bytes, 0);
}

EXPORT void *pmem_memcpy_persist(void *to, const void *from, size_t bytes)
{
	return pmem_memmove(to, from, bytes, 0);
}

EXPORT void *pmem_memset_persist(void *to, int c, size_t bytes)
{
	return pmem_memset(to, c, bytes, 0);
}

EXPORT void *pmem_memmove_nodrain(void *to, const void *from, size_t bytes)
{
	return pmem_memmove(to, from, bytes, PMEM_F_MEM_NODRAIN);
}

EXPORT void *pmem_memcpy_nodrain(void *to, const void *from, size_t bytes)
{
	return pmem_memmove(to, from, bytes, PMEM_F_MEM_NODRAIN);
}

EXPORT void *pmem_memset_nodrain(void *to, int c, size_t bytes)
{
	return pmem_memset(to, c, bytes, PMEM_F_MEM_NODRAIN);
}

/* ------------------------------------------------- programs without libpmem */

EXPORT void pm_emulate_write_back(const void *start, size_t bytes);
EXPORT void pm_emulate_fence(void);

void pm_emulate_write_back(const void *start, size_t bytes)
{
	pmem_flush(start, bytes);
}

void pm_emulate_fence(void)
{
	pmem_drain();
}
