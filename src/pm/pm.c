/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pm.c - the persistence domains: how each of them flushes, and how it drains.
 */
#include "pm/pm.h"
#include "base/error.h"

#include <errno.h>
#if defined(FUR_LIBPMEM)
#include <libpmem.h>
#endif
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

/* Does the platform keep its caches over a power failure?  Only libpmem can tell. */
static bool caches_survive(void)
{
#if defined(FUR_LIBPMEM)
	return pmem_has_auto_flush() == 1;
#else
	return false;
#endif
}

/* Choose the domain.  AUTO depends on the file's medium. */
static int choose_domain(struct pm *pm, enum fur_pm asked, bool dax)
{
	bool eadr = dax && caches_survive();
	if ((asked == FUR_PM_PMEM || asked == FUR_PM_EADR) && !dax)
		return fur_fail(FUR_EINVAL,
		        "the file is not on persistent memory (no DAX mapping): "
		        "use the domain 'auto', 'sync' or 'emulated'");
	if (asked == FUR_PM_EADR && !eadr)
		return fur_fail(FUR_EINVAL,
#if defined(FUR_LIBPMEM)
		        "this platform does not keep its caches over a power failure: "
		        "use 'pmem' or 'auto'");
#else
		        "this libfur was built without libpmem, and cannot tell whether the "
		        "caches survive a power failure: use 'pmem' or 'auto', or build it with "
		        "-Dpmem=enabled");
#endif
	pm->domain = asked != FUR_PM_AUTO ? asked
	             : eadr               ? FUR_PM_EADR
	             : dax                ? FUR_PM_PMEM
	                                  : FUR_PM_SYNC;
	return 0;
}

/* Then a sync succeeds, and makes nothing durable. */
static bool in_memory(int fd)
{
	enum { TMPFS = 0x01021994, RAMFS = 0x858458f6 };
	struct statfs fs;
	return fstatfs(fd, &fs) == 0 &&
	       ((uint32_t)fs.f_type == (uint32_t)TMPFS || (uint32_t)fs.f_type == (uint32_t)RAMFS);
}

static void tell_reason(const struct pm *pm, enum fur_pm asked, char *reason, size_t reason_bytes)
{
	const char *why = "asked for: durable by fdatasync";
	if (pm->domain == FUR_PM_EADR)
		why = "DAX mapping, and the platform flushes its caches on power failure";
	else if (pm->domain == FUR_PM_PMEM)
		why = "DAX mapping: cache lines are written back";
	else if (pm->domain == FUR_PM_EMULATED)
		why = "a file taken for persistent memory: "
		      "survives a killed process, NOT a power failure";
	else if (in_memory(pm->fd))
		why = "a file in memory (tmpfs): "
		      "survives a killed process, NOT a power failure or a restart";
	else if (asked == FUR_PM_AUTO)
		why = "an ordinary file, not persistent memory: durable by fdatasync";
	snprintf(reason, reason_bytes, "%s", why);
}

int pm_init(struct pm *pm, int fd, bool dax, enum fur_pm asked, char *reason, size_t reason_bytes)
{
	memset(pm, 0, sizeof *pm);
	pm->fd = fd;
	int error = choose_domain(pm, asked, dax);
	if (error)
		return error;
	tell_reason(pm, asked, reason, reason_bytes);
	return group_init(&pm->group, fd);
}

void pm_emulate(struct pm *pm, uint32_t latency_ns, uint32_t gap_ns)
{
	if (pm->domain != FUR_PM_EMULATED)
		return;
	pm->latency_ticks = arch_ns_to_ticks(latency_ns);
	pm->gap_ticks = arch_ns_to_ticks(gap_ns);
}

void pm_fini(struct pm *pm)
{
	group_fini(&pm->group);
}

bool pm_stores_in_transactions(const struct pm *pm)
{
	return pm->domain != FUR_PM_SYNC;
}

/* EMULATED: when this thread's next write-back may start, and when the last of its write-backs is
 * done, in ticks. */
struct write_backs {
	uint64_t next, done;
	uint64_t most; /* how far away both were when they were set, at most */
};
ARCH_THREAD_LOCAL_DECLARE(struct write_backs, write_backs)
ARCH_THREAD_LOCAL_DEFINE(struct write_backs, write_backs)

static void delay_drain(const struct pm *pm, const void *start, size_t bytes)
{
	uintptr_t first = (uintptr_t)start / ARCH_FLUSH_LINE,
	          last = ((uintptr_t)start + bytes - 1) / ARCH_FLUSH_LINE;
	uint64_t lines = last - first + 1, now = arch_ticks();
	struct write_backs *mine = write_backs();
	uint64_t begins = arch_ticks_pending(now, mine->next, mine->most) ? mine->next : now;
	mine->done = begins + (lines - 1) * pm->gap_ticks + pm->latency_ticks;
	mine->next = begins + lines * pm->gap_ticks;
	mine->most = (mine->next > mine->done ? mine->next : mine->done) - now;
}

void pm_flush(struct pm *pm, const void *start, size_t bytes)
{
	if (bytes == 0 || pm->domain == FUR_PM_EADR || pm->domain == FUR_PM_SYNC)
		return;
	arch_write_back(start, bytes);
	if (pm->latency_ticks)
		delay_drain(pm, start, bytes);
}

void pm_flush_again(struct pm *pm, void *start, size_t bytes)
{
	enum { PAGE = 4096 }; /* the smallest page size there is */
	const uintptr_t end = (uintptr_t)start + bytes;
	FUR_ASSERT((uintptr_t)start % sizeof(uint64_t) == 0); /* so are ring, log and tail */
	for (uintptr_t at = (uintptr_t)start; pm->domain == FUR_PM_SYNC && at < end;
	        at = (at | (PAGE - 1)) + 1)
		arch_store((uint64_t *)at, arch_load((uint64_t *)at));
	pm_flush(pm, start, bytes);
}

int pm_write(struct pm *pm, uint64_t offset, const void *from, uint64_t bytes)
{
	FUR_ASSERT(pm_writes(pm));
	return group_write(&pm->group, offset, from, bytes);
}

int pm_commit(struct pm *pm, struct group_request *request)
{
	FUR_ASSERT(pm_writes(pm));
	return group_sync(&pm->group, request);
}

int pm_drain(struct pm *pm)
{
	FUR_ASSERT(pm->domain != FUR_PM_AUTO); /* pm_init() has chosen */
	if (pm->domain == FUR_PM_SYNC)
		return group_sync(&pm->group, &(struct group_request){.bytes = 0});
	/* Orders this thread's earlier write-backs before its later stores: this is the fence of
	 * INV-D2 and INV-R1.  Without it an update could return, or the tail move, before the data
	 * is durable. eADR needs the fence too: it moves the stores out of the store buffer, which
	 * eADR does not save. */
	arch_write_back_fence();
	if (pm->latency_ticks)
		while (arch_ticks_pending(arch_ticks(), write_backs()->done, write_backs()->most))
			arch_pause();
	return 0;
}
