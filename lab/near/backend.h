/* SPDX-License-Identifier: BSD-3-Clause
 *
 * backend.h - what near.c asks of a back end.  near.c has checked all arguments and INV-NM1.
 */
#ifndef FUR_NEAR_BACKEND_H
#define FUR_NEAR_BACKEND_H

#include "near/near.h"

#ifdef __cplusplus
extern "C" {
#endif

struct near_copy {
	enum near_space space;
	uint64_t offset, bytes; /* of a row */
	unsigned rows;
};

struct near_backend {
	const char *name;
	int (*open)(const struct near_options *options, struct near_shape *shape, void **machine);
	int (*load)(void *machine, unsigned rank, const struct near_kernel *kernel);
	void (*push)(void *machine, unsigned rank, const struct near_copy *c, const void *matrix);
	void (*pull)(void *machine, unsigned rank, const struct near_copy *c, void *matrix);
	int (*launch)(void *machine, unsigned rank, unsigned tasklets);
	/* NEAR_RUNNING, NEAR_DONE or NEAR_FAULTED.  Called after a launch until it has ended. */
	enum near_state (*poll)(void *machine, unsigned rank, struct near_fault_report *fault);
	void (*count)(void *machine, unsigned rank, struct near_counters *counters);
	/* NULL where cycles are not counted */
	void (*cycles)(void *machine, unsigned rank, uint64_t *cycles);
	/* NULL if near_shape.channels is 0 */
	void (*count_channel)(void *machine, unsigned channel, struct near_channel *counters);
	void (*close)(void *machine); /* no rank runs */
};

#ifdef __cplusplus
}
#endif

#endif /* FUR_NEAR_BACKEND_H */
