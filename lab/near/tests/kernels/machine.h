/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine.h - what the host and the kernel `machine` share.
 */
#ifndef FUR_TESTS_NEAR_MACHINE_H
#define FUR_TESTS_NEAR_MACHINE_H

#include "near/kernel.h"

enum machine_work {
	MACHINE_COMPUTE, /* `rounds` of an xorshift */
	MACHINE_READ,    /* `rounds` local reads of `bytes` */
	MACHINE_WRITE,   /* ... writes */
	MACHINE_LOCKED,  /* add 1 to `counter` under a lock, `rounds` times */
	MACHINE_RACE,    /* ... in memory, by unloads */
	MACHINE_RELEASE, /* ... but the wait for the unload follows the release */
	MACHINE_CHANGE,  /* change the source of an unload before the wait */
	MACHINE_LEAVE,   /* return before the wait */
	MACHINE_LOAD,    /* load from `address` */
	MACHINE_STORE,   /* store to `address` */
	MACHINE_CROSS,   /* take two locks crosswise */
	MACHINE_SPIN,    /* for ever */
	MACHINE_FOREIGN, /* release a lock that another tasklet has */
};

struct machine {
	uint32_t work, rounds, bytes, address;
	uint64_t counter;
	uint32_t result[NEAR_MOST_TASKLETS];
	NEAR_ALIGN uint8_t buffer[NEAR_MOST_TASKLETS][2048];
};

#endif /* FUR_TESTS_NEAR_MACHINE_H */
