/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mapper.h - the mapper of a bulk update with an operator (src/bulk/job.h, run.c).
 */
#ifndef LAB_MAPPER_H
#define LAB_MAPPER_H

#include "lab_bulk.h"
#include "windows.h"

struct operator_mapper {
	struct bulk_mapper calls; /* first: run.c converts */
	const struct lab_operator_call *call;
	struct fur_thread *t;
	struct bulk_job *job;
	struct windows windows; /* EACH */
	uint64_t mapped;        /* records, by the operator */
};

/* The operator that the job's mapper calls. */
static inline const struct lab_operator_call *operator_of(const struct bulk_job *job)
{
	return ((const struct operator_mapper *)(const void *)job->mapper)->call;
}

#endif /* LAB_MAPPER_H */
