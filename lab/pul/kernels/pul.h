/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pul.h - the job that pul.cpp gives to the kernel of pul.c, and the kernel's answers.
 *
 * A tasklet goes through its trace, a row of addresses in memory.  For each address it brings
 * `transfer` bytes into the scratchpad, a record, and lets the operator work on it.  The strategy
 * says when transfers begin.  Results go out through blocks of `flush` bytes.
 */
#ifndef BENCH_PUL_KERNELS_PUL_H
#define BENCH_PUL_KERNELS_PUL_H

#include "near/kernel.h"

enum pul_operator {
	PUL_SUM,         /* adds `values` words of a record up */
	PUL_AGGREGATE,   /* sums of `values` attributes, and the number of records */
	PUL_FILTER,      /* counts the records whose first word is below `threshold` */
	PUL_VISIBLE,     /* counts the records that a snapshot sees */
	PUL_MATERIALISE, /* writes what PUL_FILTER counts: records, or positions */
	PUL_NOTHING,     /* only brings records */
	PUL_UPDATE,      /* reads nothing: changes words of a block, and writes it to the address */
};

enum pul_strategy {
	PUL_NONE,       /* bring a record, wait, compute */
	PUL_SEQUENTIAL, /* preload a record, compute on the one `distance` before */
	PUL_BATCH,      /* preload `distance` records, compute on as many before */
	PUL_MEMCPY,     /* as PUL_NONE, in pieces of PUL_LINE bytes */
};

enum pul_write {
	PUL_WAIT,   /* write a block, wait */
	PUL_UNLOAD, /* unload a block, and fill another meanwhile */
	PUL_LINES,  /* as PUL_WAIT, in pieces of PUL_LINE bytes */
};

enum pul_form { PUL_RECORDS, PUL_POSITIONS };

enum {
	PUL_LINE = 64,
	PUL_MOST_VALUES = 16, /* attributes */
	PUL_RUNNING_WORDS = 8,
	PUL_ROOM = 46 * 1024, /* of the scratchpad, for the buffers of all tasklets */
};

/* What a snapshot sees: records that a transaction made which had ended, and that none had removed.
 * Transactions from `upto` on had not begun; those from `oldest` to `upto` have a bit: running. */
struct pul_snapshot {
	uint32_t oldest, upto, running[PUL_RUNNING_WORDS];
};

struct pul_job {
	uint32_t operation, strategy, write, form;
	uint32_t distance, transfer, flush;
	uint32_t requests; /* of a tasklet */
	uint32_t chunk;    /* addresses of the trace that are read at a time */
	uint32_t values, threshold;
	near_address trace, out, total; /* of tasklet 0; the total, of all tasklets, has 8 bytes */
	uint32_t trace_stride, out_stride;
	uint8_t attribute[PUL_MOST_VALUES]; /* of those that are aggregated: its word */
	struct pul_snapshot snapshot;
};

struct pul_answer {
	uint32_t count, written; /* records; bytes that went to `out` */
	uint64_t sum[PUL_MOST_VALUES];
};

struct pul_shared {
	struct pul_job job;
	struct pul_answer answer[NEAR_MOST_TASKLETS];
	uint64_t room[PUL_ROOM / 8];
};

#endif /* BENCH_PUL_KERNELS_PUL_H */
