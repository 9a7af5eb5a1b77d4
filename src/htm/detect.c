/* SPDX-License-Identifier: BSD-3-Clause
 *
 * detect.c - choose a back end, and record the reason.
 */
#include "base/error.h"
#include "htm/htm.h"
#include "htm/tsx_insn.h"

#include <stdio.h>
#include <string.h>

#if ARCH_HAS_TSX
/* CPUID may list RTM on a machine where every transaction aborts (microcode, hypervisor).  So try
 * it. */
static bool tsx_probe(void)
{
	for (int k = 0; k < 1000; k++)
		if (tsx_begin() == TSX_STARTED) {
			tsx_end();
			return true;
		}
	return false;
}

static const struct htm_ops *choose_tsx(
        struct engine *e, const struct arch_cpu *cpu, char *reason, size_t bytes)
{
	if (!cpu->rtm || !tsx_probe()) {
		const char *why =
		        cpu->rtm
		                ? "TSX is switched off: RTM is listed, but every transaction aborts"
		        : cpu->tsx_off
		                ? "TSX is switched off: the processor has it, but does not list RTM"
		                : "this processor has no RTM (Intel TSX)";
		snprintf(reason, bytes, "%s", why);
		return NULL;
	}
	snprintf(reason, bytes,
	        cpu->tsxldtrk ? "RTM with TSXLDTRK: isolation waits run inside the transaction"
	                      : "RTM without TSXLDTRK: an update that meets an active reader "
	                        "aborts and waits outside");
	e->kind = FUR_HTM_TSX;
	return cpu->tsxldtrk ? &htm_tsx : &htm_tsx_tracked;
}
#endif

#if ARCH_HAS_POWER_HTM
static const struct htm_ops *choose_power(
        struct engine *e, const struct arch_cpu *cpu, bool by_name, char *reason, size_t bytes)
{
	/* If the caller asked for it by name, try it even where the kernel does not announce it:
	 * `tbegin.` then fails, and updates run under the lock. */
	if (!cpu->suspend && !by_name) {
		snprintf(reason, bytes,
		        "this processor has no transactional memory with suspend mode (POWER8, "
		        "POWER9)");
		return NULL;
	}
	snprintf(reason, bytes,
	        cpu->suspend ? "transactional memory with suspend and resume"
	                     : "asked for, though the kernel does not announce it");
	e->kind = FUR_HTM_POWER;
	return &htm_power;
}
#endif

/* Only an emulated machine can have both kinds. */
static const struct htm_ops *choose_ops(struct engine *e, enum fur_htm asked,
        const struct arch_cpu *cpu, char *reason, size_t bytes)
{
	const struct htm_ops *ops = NULL;
	(void)e, (void)cpu; /* unused where libfur has neither back end */
	snprintf(reason, bytes, "this processor has no %s",
	        asked == FUR_HTM_AUTO ? "transactional memory that libfur uses"
	                              : "such transactional memory");
#if ARCH_HAS_POWER_HTM
	if (asked == FUR_HTM_POWER || (asked == FUR_HTM_AUTO && (cpu->suspend || !ARCH_HAS_TSX)))
		ops = choose_power(e, cpu, asked == FUR_HTM_POWER && !ARCH_HAS_TSX, reason, bytes);
#endif
#if ARCH_HAS_TSX
	if (!ops && asked != FUR_HTM_POWER)
		ops = choose_tsx(e, cpu, reason, bytes);
#endif
	return ops;
}

int htm_choose(struct engine *e, enum fur_htm asked, enum fur_isolation isolation, char *reason,
        size_t reason_bytes)
{
	struct arch_cpu cpu = arch_cpu_detect();
	return htm_choose_on(&cpu, e, asked, isolation, reason, reason_bytes);
}

int htm_choose_on(const struct arch_cpu *cpu, struct engine *e, enum fur_htm asked,
        enum fur_isolation isolation, char *reason, size_t reason_bytes)
{
	e->kind = FUR_HTM_NONE;
	e->ops = NULL;
	if (asked == FUR_HTM_NONE)
		snprintf(reason, reason_bytes, "asked for: updates run in software");
	else
		e->ops = choose_ops(e, asked, cpu, reason, reason_bytes);
	if ((asked == FUR_HTM_TSX || asked == FUR_HTM_POWER) && !e->ops)
		return fur_fail(FUR_EINVAL,
		        "transactional memory '%s' was asked for, but %s: use 'auto' or 'none'",
		        fur_name(FUR_NAME_HTM, asked), reason);
	if (!e->ops && asked == FUR_HTM_AUTO)
		snprintf(reason + strlen(reason), reason_bytes - strlen(reason),
		        ": updates run in software");
	/* Only POWER has rollback-only transactions.  Elsewhere hardware tracks the loads, or the
	 * lock excludes conflicts, so snapshot runs as opacity. */
	e->isolation = e->kind == FUR_HTM_POWER ? isolation : FUR_OPACITY;
	e->updates_active = e->kind == FUR_HTM_POWER && isolation == FUR_SNAPSHOT;
	e->lock.updates = e->ops ? HARDWARE : SOFTWARE;
	/* Rollback-only updates do not track the word that moves them (INV-UR1). */
	e->switches = e->ops && asked == FUR_HTM_AUTO && !e->updates_active;
	return 0;
}
