/* SPDX-License-Identifier: BSD-3-Clause
 *
 * arch.h - the processor and the machine: atomics, fences, write-back, ticks, sleeping, and the
 * facts that differ between processors.
 *
 * With error.h, event.h, memory.h, system.h and thread.h it is the contract of src/base: the
 * processor and the operating system; errors, memory, files, threads.
 *
 * Only this header, and the wrappers of the hardware-transaction instructions in src/htm, know the
 * processor.  A word that threads or processes share, and that no mutex protects, is a uint64_t, or
 * a uint32_t if a futex looks at it.  Code touches it only through the functions below.  The heap's
 * own data is the exception: programs access it at its own width (fur_load() in fur.h,
 * redo_append()).
 *
 * The machine is one of four.  Each has a header with the definitions that the section "the
 * machine's" below lists:
 *   arch_x86.h, arch_power.h, arch_arm.h
 *                              a real processor, together with arch_native.h
 *   arch_emulated.h            the emulated machine, in emulator/
 *
 * Orders, strongest first:
 *   arch_fence()          everything before is performed before everything after, stores before
 *                         later loads included (mfence; hwsync; dmb ish)
 *   read-modify-writes    a full fence between the accesses before and those after, and
 *                         sequentially consistent; on POWER their own store may still come after a
 *                         later load: use arch_store_fence() where that matters
 *   arch_fence_light()    as arch_fence(), except that a store may pass a later load (only a
 *                         compiler barrier on x86; lwsync; dmb ishld with dmb ishst)
 *   *_ordered             sequentially consistent: one order that all threads agree on
 *   *_acquire, *_release  as in C11
 *   the rest              relaxed
 */
#ifndef FUR_ARCH_H
#define FUR_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How far apart unrelated words lie.  128 is POWER's line and covers the adjacent-line prefetch of
 * x86.  It is fixed on media.  ARCH_FLUSH_LINE, the machine's, is another fact: how many bytes one
 * write-back writes. */
#define ARCH_PAD    128
#define ARCH_PADDED __attribute__((aligned(ARCH_PAD)))

/* Tell the compiler which way a branch usually goes. */
#define likely(condition)   __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* ------------------------------------------------------------- the machine's
 *
 *   ARCH_FLUSH_LINE              bytes that one write-back writes
 *   ARCH_HAS_TSX                 1: libfur has a back end for this machine's transactions
 *   ARCH_HAS_POWER_HTM           the same
 *   arch_pause()                 a moment in a loop that waits
 *   arch_gap()                   the same, allowed inside a hardware transaction
 *   arch_ticks()                 the clock of the processor
 *   arch_fence()                 see "Orders" above
 *   arch_fence_light()           see there
 *   arch_store_fence(p, value)   store, then a full fence
 *   arch_lend_fences()           true: arch_fence_others() works on the threads of this process
 *   arch_fence_others()          a full fence, in the caller and in every thread of every process
 *                                that lends its fences.  One thread stores x and loads y, another
 *                                stores y and loads x: if the second calls this between the two,
 *                                the first needs only a light fence there.  It costs microseconds.
 *                                False: the system refuses it
 *   arch_fence_after_rmw()       makes the read-modify-write just before it a full fence, on a
 *                                machine where the compiler's is none
 *   arch_prefetch(p)             ask for a line, to read it, and go on; p may be any address
 *   arch_prefetch_to_write(p)    the same, to write it
 *   arch_overlap_begin(), arch_overlap_end()
 *                                no load between the two depends on another one, nor does code
 *                                there wait for a value; a processor sees that by itself, an
 *                                emulated machine lets the loads overlap
 *   arch_instructions(n)         the thread executes n instructions besides those that go with its
 *                                memory accesses; only an emulated machine, which sees accesses
 *                                alone, wants to know
 *   arch_persistent(base, bytes), arch_persistent_gone(base)
 *                                a mapping is a heap file's, or no longer is; only an emulated
 *                                machine wants to know
 *   ARCH_THREAD_LOCAL_DECLARE(type, name)
 *                                name() returns the calling thread's own `type`, zeroed at first
 *   ARCH_THREAD_LOCAL_DEFINE(type, name)
 *                                its definition, in one source file.  A few words only: all the
 *                                libraries that a program loads with dlopen() share about 1.6 KB
 *                                for this. */
#if defined(FUR_EMULATED)
#include "arch_emulated.h"
#elif defined(__x86_64__)
#include "base/arch_native.h"
#include "base/arch_x86.h"
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#include "base/arch_native.h"
#include "base/arch_power.h"
#elif defined(__aarch64__) && defined(__AARCH64EL__)
#include "base/arch_arm.h"
#include "base/arch_native.h"
#else
#error "libfur knows x86-64, ppc64le and aarch64: write this processor's fences and flushes"
#endif

/* ------------------------------------------------------------ shared words */

static inline uint64_t arch_load(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline uint64_t arch_load_acquire(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/* For a store that comes after a light fence, which makes it a release.  ThreadSanitizer sees the
 * order of an access, and sees no fence: in a build that it checks, the store is a release by
 * itself. */
#if defined(__SANITIZE_THREAD__) && !defined(FUR_EMULATED)
#define ARCH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ARCH_TSAN 1
#endif
#endif
#if !defined(ARCH_TSAN)
#define ARCH_TSAN 0
#endif
static inline void arch_store_fenced(uint64_t *p, uint64_t value)
{
	__atomic_store_n(p, value, ARCH_TSAN ? __ATOMIC_RELEASE : __ATOMIC_RELAXED);
}

/* All threads agree on one order of these loads and the read-modify-writes below.  So if one thread
 * changes a word and then loads another word this way, and a second thread does the same with the
 * two words swapped, at least one of them sees the other's change. */
static inline uint64_t arch_load_ordered(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static inline void arch_store(uint64_t *p, uint64_t value)
{
	__atomic_store_n(p, value, __ATOMIC_RELAXED);
}

static inline void arch_store_release(uint64_t *p, uint64_t value)
{
	__atomic_store_n(p, value, __ATOMIC_RELEASE);
}

/* Each is a full fence, on every machine: the emulated machine takes them for that, so only then
 * does its evidence hold for the others. */

static inline uint64_t arch_fetch_add(uint64_t *p, uint64_t value)
{
	uint64_t was = __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);
	arch_fence_after_rmw();
	return was;
}

static inline uint64_t arch_exchange(uint64_t *p, uint64_t value)
{
	uint64_t was = __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);
	arch_fence_after_rmw();
	return was;
}

static inline bool arch_cas(uint64_t *p, uint64_t expected, uint64_t desired)
{
	bool done = __atomic_compare_exchange_n(
	        p, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	arch_fence_after_rmw();
	return done;
}

/* The same for 32 bits: words that a futex looks at, and their neighbours. */

static inline uint32_t arch_load32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline uint32_t arch_load32_acquire(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline uint32_t arch_load32_ordered(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static inline void arch_store32(uint32_t *p, uint32_t value)
{
	__atomic_store_n(p, value, __ATOMIC_RELAXED);
}

static inline void arch_store32_release(uint32_t *p, uint32_t value)
{
	__atomic_store_n(p, value, __ATOMIC_RELEASE);
}

static inline void arch_store32_ordered(uint32_t *p, uint32_t value)
{
	__atomic_store_n(p, value, __ATOMIC_SEQ_CST);
}

static inline uint32_t arch_fetch_add32(uint32_t *p, uint32_t value)
{
	uint32_t was = __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);
	arch_fence_after_rmw();
	return was;
}

static inline uint32_t arch_fetch_or32(uint32_t *p, uint32_t bits)
{
	uint32_t was = __atomic_fetch_or(p, bits, __ATOMIC_SEQ_CST);
	arch_fence_after_rmw();
	return was;
}

static inline bool arch_cas32(uint32_t *p, uint32_t expected, uint32_t desired)
{
	bool done = __atomic_compare_exchange_n(
	        p, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	arch_fence_after_rmw();
	return done;
}

/* -------------------------------------------------------------- write-back
 *
 * arch_write_back() starts writing back every line of [start, start + bytes).  On x86 libpmem
 * chooses the best instruction, such as clwb; on POWER it is dcbf, on aarch64 dc cvap or dc cvac.
 * arch_write_back_fence() orders all these write-backs before everything later: by sfence on x86;
 * by hwsync on POWER, because lwsync does not order dcbf; by dsb sy on aarch64, because no dmb
 * waits for a write-back. */
void arch_write_back(const void *start, size_t bytes);
void arch_write_back_fence(void);

/* ----------------------------------------------------------- time and sleep */

/* Ticks of arch_ticks() in a nanosecond, measured once against CLOCK_MONOTONIC.  The first call
 * must not be inside a hardware transaction. */
double arch_ticks_per_ns(void);
uint64_t arch_ticks_to_ns(uint64_t ticks);
uint64_t arch_ns_to_ticks(uint64_t ns);
uint64_t arch_now_ns(void);

/* The clock of the processor may go back when a virtual machine is resumed or migrated.  So no
 * thread compares arch_ticks() with a moment by itself: it would wait, or not act, for as long as
 * the clock has lost. */

/* Is `until` still to come?  It was at most `most` ticks away when it was chosen.  If it is farther
 * away at `now`, the clock has gone back, and it is taken for past. */
static inline bool arch_ticks_pending(uint64_t now, uint64_t until, uint64_t most)
{
	return until - now - 1 < most;
}
/* The ticks from `began` to `now`; 0 if the clock has gone back. */
static inline uint64_t arch_ticks_between(uint64_t began, uint64_t now)
{
	return now > began ? now - began : 0;
}

/* Sleep until *word may have changed from `expected`; spurious returns are allowed.  Never inside a
 * hardware transaction. */
void arch_futex_wait(uint32_t *word, uint32_t expected);
/* The same, for `timeout_ns` at most.  False: the time is over. */
bool arch_futex_wait_for(uint32_t *word, uint32_t expected, uint64_t timeout_ns);
/* Wake one sleeper: among threads of the same priority, the one that has slept longest. */
void arch_futex_wake_one(uint32_t *word);
void arch_futex_wake_all(uint32_t *word);

/* The half of a shared word that a futex looks at: the low half, which comes first in memory on
 * every processor above. */
static inline uint32_t *arch_futex_of(uint64_t *word)
{
	return (uint32_t *)(void *)word;
}

/* The same for a word that processes share.  `timeout_ns` 0: no timeout. */
void arch_futex_wait_shared(uint32_t *word, uint32_t expected, uint64_t timeout_ns);
void arch_futex_wake_all_shared(uint32_t *word);

/* A wait outside hardware transactions: spin, then yield, then sleep a little, so that no thread
 * burns a core while the thread that it waits for is descheduled.  Start from {0}, and call
 * arch_backoff() each time the awaited condition does not hold yet. */
struct arch_backoff {
	uint32_t turns;
	uint32_t spins; /* pauses before the thread yields and sleeps; 0: few */
};
void arch_backoff(struct arch_backoff *b);

/* --------------------------------------------------------------- processor */

struct arch_cpu {
	bool rtm;      /* x86: CPUID lists RTM */
	bool tsxldtrk; /* x86: CPUID lists TSXLDTRK */
	/* x86: the processor has TSX, but it is switched off: CPUID lists TSXLDTRK or
	 * RTM_ALWAYS_ABORT, and RTM cannot be used */
	bool tsx_off;
	bool power_htm; /* ppc64le: AT_HWCAP2 has HTM */
	bool suspend;   /* ppc64le: also, suspend mode works */
};
struct arch_cpu arch_cpu_detect(void);

/* How many threads of this process can run at a time. */
uint32_t arch_cores(void);
/* The core on which the calling thread runs now, or ran a moment ago: almost never a number from
 * arch_all_cores() on, which also counts those on which the process may not run. */
uint32_t arch_core(void);
uint32_t arch_all_cores(void);

#endif /* FUR_ARCH_H */
