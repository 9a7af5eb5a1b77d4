/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tide_many_locks.c - the kernel with eight times as many locks, which no DPU has room for.  It
 * shows how often words that share a lock conflict.
 */
#define TIDE_LOCK_COUNT          65536
#define TIDE_KERNEL(shared_type) NEAR_KERNEL(tide_many_locks, shared_type)
#include "tide.c"
