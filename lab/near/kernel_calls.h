/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kernel_calls.h - the numbers of a kernel's calls in its RV32 instructions.
 */
#ifndef FUR_NEAR_KERNEL_CALLS_H
#define FUR_NEAR_KERNEL_CALLS_H

/* funct3 of the calls.  NEAR_CALL_PLACE stores a number to rd; funct2 (bits 25 and 26) says
 * which. */
#define NEAR_CALL_PLACE   0
#define NEAR_CALL_READ    1
#define NEAR_CALL_WRITE   2
#define NEAR_CALL_PRELOAD 3
#define NEAR_CALL_UNLOAD  4
#define NEAR_CALL_WAIT    5 /* funct2: 1 for preloads, 2 for unloads */
#define NEAR_CALL_SYNC    6 /* funct2: 0 acquire, 1 release, 2 barrier */
#define NEAR_CALL_END     7 /* funct2: 0 the tasklet returns, 1 it reports a fault */

#endif /* FUR_NEAR_KERNEL_CALLS_H */
