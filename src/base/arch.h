/* SPDX-License-Identifier: BSD-3-Clause
 *
 * arch.h - what differs between processors and machines: ticks, fences, atomics' extras, line
 * sizes, sleeping.
 *
 * The only header, with the hardware-transaction wrappers beside it, that knows the processor.
 * Every word two threads share is a uint64_t touched through the functions below and nothing else,
 * so that a machine can be slid under libfur by replacing this file.
 *
 * Orders, strongest first:
 *   arch_fence()          everything before, performed before everything after; stores before later
 *                         loads included (mfence; hwsync)
 *   arch_fence_light()    all but store-to-load (nothing but a compiler barrier on x86; lwsync)
 *   *_acquire, *_release  as in C11
 *   the rest              relaxed
 */
#ifndef FUR_ARCH_H
#define FUR_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two facts that are not the same: what a write-back writes back, and how far apart unrelated words
 * stay.  128 is POWER's line and covers the adjacent-line prefetch of x86; it is fixed on media. */
#define ARCH_PAD 128

#if defined(FUR_EMULATED)
#include "arch_emulated.h"
#elif defined(__x86_64__)
#include "base/arch_x86.h"
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#include "base/arch_power.h"
#else
#error "libfur knows x86-64 and ppc64le: write the fences and flushes of this processor"
#endif

#define ARCH_PADDED __attribute__((aligned(ARCH_PAD)))

/* ------------------------------------------------------------ shared words */

static inline uint64_t arch_load(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline uint64_t arch_load_acquire(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/* In one order, that all threads agree on, with the read-modify-writes below: a thread that changes
 * one word and then looks at another this way, and a thread that does the two the other way round,
 * cannot miss each other. */
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

static inline uint64_t arch_fetch_add(uint64_t *p, uint64_t value)
{
	return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);
}

static inline uint64_t arch_exchange(uint64_t *p, uint64_t value)
{
	return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);
}

static inline bool arch_cas(uint64_t *p, uint64_t expected, uint64_t desired)
{
	return __atomic_compare_exchange_n(
	        p, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* -------------------------------------------------------------- write-back
 *
 * Start writing back every line of [start, start + bytes): clwb or the best there is (libpmem
 * chooses) on x86, dcbf on POWER.  The fence orders all write-backs before everything later:
 * sfence; hwsync, since lwsync does not cover dcbf. */
void arch_write_back(const void *start, size_t bytes);
void arch_write_back_fence(void);

/* ---------------------------------------------------------------- prefetch
 *
 * Ask for a line, to read it or to write it, and go on.  Any address may be given. */
#if defined(FUR_EMULATED)
#define arch_prefetch(p)          emu_prefetch(p, false)
#define arch_prefetch_to_write(p) emu_prefetch(p, true)
#else
#define arch_prefetch(p)          __builtin_prefetch(p)
#define arch_prefetch_to_write(p) __builtin_prefetch(p, 1)
#endif

/* ----------------------------------------------------------- time and sleep */

/* Ticks a nanosecond, measured once against CLOCK_MONOTONIC.  Not for use inside a hardware
 * transaction before the first call. */
double arch_ticks_per_ns(void);
uint64_t arch_ticks_to_ns(uint64_t ticks);
uint64_t arch_ns_to_ticks(uint64_t ns);
uint64_t arch_now_ns(void);

/* Sleep until *word may have changed from `expected`; spurious returns allowed.  Never inside a
 * hardware transaction. */
void arch_futex_wait(uint32_t *word, uint32_t expected);
/* Wake one sleeper: of threads with the same priority, the one that has slept longest. */
void arch_futex_wake_one(uint32_t *word);
void arch_futex_wake_all(uint32_t *word);

/* The half of a shared word that a futex looks at: the low one, which lies first on every processor
 * above. */
static inline uint32_t *arch_futex_of(uint64_t *word)
{
	return (uint32_t *)(void *)word;
}

/* The same for a word that processes share; `timeout_ns` 0: no timeout. */
void arch_futex_wait_shared(uint32_t *word, uint32_t expected, uint64_t timeout_ns);
void arch_futex_wake_all_shared(uint32_t *word);

/* A wait outside hardware transactions: spins, then yields, then sleeps a little, so that nobody
 * burns a core on a descheduled thread.  Start from {0}; call once per look. */
struct arch_backoff {
	uint32_t turns;
};
void arch_backoff(struct arch_backoff *b);

/* ------------------------------------------------------- persistent memory
 *
 * Tell the machine that a mapping is a heap file's, or is no more.  Only an emulated one wants to
 * know. */
#if defined(FUR_EMULATED)
#define arch_persistent(base, bytes) emu_persistent(base, bytes)
#define arch_persistent_gone(base)   emu_persistent_gone(base)
#else
#define arch_persistent(base, bytes) ((void)(base), (void)(bytes))
#define arch_persistent_gone(base)   ((void)(base))
#endif

/* ------------------------------------------------------ thread-local data
 *
 * DECLARE(type, name) makes name() the calling thread's own, zeroed at first; DEFINE(type, name)
 * goes into one source file.  Some words only: a program that loads libfur with dlopen() has about
 * 1.6 KB for this, for all its libraries together. */
#if defined(FUR_EMULATED)
#define ARCH_THREAD_LOCAL_DECLARE(type, name)                                                      \
	extern struct emu_key name##_key;                                                          \
	static inline type *name(void)                                                             \
	{                                                                                          \
		return (type *)emu_local(&name##_key, sizeof(type));                               \
	}
#define ARCH_THREAD_LOCAL_DEFINE(type, name) struct emu_key name##_key;
#else
#define ARCH_THREAD_LOCAL_DECLARE(type, name)                                                      \
	extern __thread type name##_variable __attribute__((tls_model("initial-exec")));           \
	static inline type *name(void)                                                             \
	{                                                                                          \
		return &name##_variable;                                                           \
	}
#define ARCH_THREAD_LOCAL_DEFINE(type, name) __thread type name##_variable;
#endif

/* --------------------------------------------------------------- processor */

struct arch_cpu {
	bool rtm;      /* x86: CPUID lists RTM */
	bool tsxldtrk; /* x86: CPUID lists TSXLDTRK */
	/* x86: TSX is there and switched off: TSXLDTRK or RTM_ALWAYS_ABORT listed, RTM not
	 * usable */
	bool tsx_off;
	bool power_htm; /* ppc64le: AT_HWCAP2 has HTM */
	bool suspend;   /* ppc64le: and suspend mode works */
};
struct arch_cpu arch_cpu_detect(void);

#endif /* FUR_ARCH_H */
