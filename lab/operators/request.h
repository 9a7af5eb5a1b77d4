/* SPDX-License-Identifier: BSD-3-Clause
 *
 * request.h - what a bulk update asks fur-operators for, in the bytes of the heap file's control
 * region that libfur leaves alone (errand.h has the protocol).
 */
#ifndef LAB_REQUEST_H
#define LAB_REQUEST_H

#include "media/control_region.h"

enum { ERRAND_NAME_BYTES = 64, ERRAND_ARG_BYTES = 2048, ERRAND_SAYS_BYTES = 512 };
/* What control_errand.request has next to the number. */
enum errand_state {
	ERRAND_NONE,
	ERRAND_ASKED,
	ERRAND_RUNS,
	ERRAND_DONE,
	/* `code` and `says` tell why; code 0: fur-operators stopped, and the program maps all */
	ERRAND_REFUSED,
	ERRAND_STATES
};

static inline uint64_t errand_request(uint64_t number, enum errand_state state)
{
	return number * ERRAND_STATES + state;
}
static inline uint64_t errand_number(uint64_t request)
{
	return request / ERRAND_STATES;
}
static inline enum errand_state errand_state(uint64_t request)
{
	return (enum errand_state)(request % ERRAND_STATES);
}

struct control_errand {
	/* The number of the request, which only grows, and enum errand_state */
	uint64_t request;
	uint64_t done;  /* records, by fur-operators */
	uint32_t asked; /* the futex of fur-operators: counts requests */
	uint32_t moved; /* the program's futex: counts what fur-operators has done */
	/* fur-operators; its lock, HEAP_LOCK_LAB, tells whether it lives */
	uint64_t operators_pid;
	/* The rest is the request's.  `opened`: control.opened, of the program that asks */
	uint32_t opened, arg_bytes;
	uint64_t block, block_bytes, rows, records; /* where the results go */
	int64_t code;                               /* refused: FUR_E*, and the message */
	char name[ERRAND_NAME_BYTES], says[ERRAND_SAYS_BYTES];
	uint8_t arg[ERRAND_ARG_BYTES] __attribute__((aligned(16)));
};

_Static_assert(sizeof(struct control_errand) <= sizeof(((struct control *)0)->gap), "");
_Static_assert(offsetof(struct control, gap) % 16 == 0, "");

static inline struct control_errand *errand_in(struct control *c)
{
	return (struct control_errand *)(void *)c->gap;
}

#endif /* LAB_REQUEST_H */
