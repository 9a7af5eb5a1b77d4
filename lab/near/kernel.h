/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kernel.h - the calls of a kernel, which runs on the elements of a near-memory machine (near.h).
 *
 * A kernel is one C file.  It includes this header and defines its body:
 *
 *     struct sum { uint32_t from, count; uint64_t result[NEAR_MOST_TASKLETS]; };
 *
 *     NEAR_KERNEL(sum, struct sum)
 *     {
 *             shared->result[near_me()] = ...
 *     }
 *
 * Each tasklet runs the body once per launch.  `shared` points to a struct in the scratchpad, one
 * for each element; the host reads and writes it with NEAR_SHARED, and has the kernel as
 * `const struct near_kernel sum_kernel`.  The same source is compiled for the host and for RV32, so
 * the struct has types of fixed width only: no pointers, no size_t, no long.  A kernel has no other
 * variables with static storage, because on the host all elements would share them; constants are
 * allowed.  No floating point, no C library; a short stack (at most 512 bytes).
 *
 * Memory has addresses of 32 bits, which begin at 0.  A kernel reaches it by transfers only.
 * Where near_shape has transfer_align, addresses in memory, sizes, and the places in the scratchpad
 * are multiples of it (NEAR_ALIGN aligns a member); no transfer is larger than transfer_most.
 * Multiples of 8 up to 2,048 bytes work on every machine.
 *
 *   INV-NM2  A preload's target is read only after near_wait(NEAR_PRELOADS).
 *   INV-NM3  The target of a preload and the source of an unload are not stored to, and not used by
 *            another transfer that writes, before the wait for that transfer.
 *   INV-NM4  A tasklet that has unloaded waits (NEAR_UNLOADS) before it releases a lock, enters
 *            a barrier, or returns: others, and the host, may then read what it unloaded.
 *
 * Both back ends find kernels that break these rules.  Until the wait, near_threads keeps the
 * target of a preload filled with NEAR_POISON, so early readers compute a wrong result, and
 * compares the source of an unload; near_emulated looks at each load and store.
 */
#ifndef FUR_NEAR_KERNEL_H
#define FUR_NEAR_KERNEL_H

#include <stdint.h>

typedef uint32_t near_address;

enum {
	NEAR_MOST_TASKLETS = 24,
	NEAR_POISON = 0xa5,
	NEAR_FIFO = 64, /* transfers of one kind that a tasklet has under way; the next one waits */
};

#define NEAR_ALIGN __attribute__((aligned(8)))

enum near_transfers {
	NEAR_PRELOADS = 1,
	NEAR_UNLOADS = 2,
};

/* The number of the tasklet in its element, and how many were launched. */
static inline unsigned near_me(void);
static inline unsigned near_tasklets(void);

/* The number of the element in its rank, and how many there are. */
static inline unsigned near_element(void);
static inline unsigned near_elements(void);

/* Copy between memory and scratchpad, and wait for the copy.  They wait for no other transfer. */
static inline void near_local_read(void *to, near_address from, uint32_t bytes);
static inline void near_local_write(near_address to, const void *from, uint32_t bytes);

/* Begin a copy (INV-NM2, INV-NM3).  On exclusive machines they are local reads and writes. */
static inline void near_preload(void *to, near_address from, uint32_t bytes);
static inline void near_unload(near_address to, const void *from, uint32_t bytes);

/* Wait for all transfers of these kinds that this tasklet has begun: an engine tells only whether a
 * queue is empty. */
static inline void near_wait(unsigned transfers);

/* Take and give back lock `bit`, below near_shape.locks.  Stores to the scratchpad, and writes to
 * memory that were waited for (INV-NM4), are visible to the next holder. */
static inline void near_acquire(uint32_t bit);
static inline void near_release(uint32_t bit);

/* Wait until all tasklets have come here: those of the element, or of the rank if its memory is
 * coherent.  A tasklet that has returned counts as one that has come. */
static inline void near_barrier(void);

/* Stop the element, or the rank if its memory is coherent, and report `code` to the host. */
static inline void near_fault(uint32_t code) __attribute__((noreturn));

#if defined(__riscv)
#include "near/kernel_rv32.h"
#else
#include "near/kernel_native.h"
#endif

#endif /* FUR_NEAR_KERNEL_H */
