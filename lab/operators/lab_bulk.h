/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lab_bulk.h - fur_bulk_run() with an operator: fur-operators, another process, maps most of the
 * records (README.md).
 */
#ifndef LAB_BULK_H
#define LAB_BULK_H

#include <fur_bulk.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The operator that maps the records in the file (fur_operator.h). */
struct lab_operator_call {
	const char *name; /* 1 to 63 bytes */
	/* It gets a copy of these, at most 2,048 */
	const void *arg;
	size_t arg_bytes;
};

/* lab_bulk_run - as fur_bulk_run(), and an operator maps the records.  fur_bulk.map and the
 * operator must compute the same result from a record: map() gets the records that were changed
 * meanwhile, and, if fur-operators dies, all of them (EACH: all that no update has committed, and
 * that the operator has not mapped by then).
 *
 * `call`: NULL: map() gets all records.  *by_operator: how many the operator has mapped, those that
 * map() got again included; EACH: of fur_bulk_result.records.  `by_operator` and `result` may be
 * NULL.
 *
 * EACH needs room in the heap for a few thousand records.
 *
 * Errors: those of fur_bulk_run(); FUR_EINVAL (a heap file of version 1; a name or arguments that
 *         are too long); FUR_ENOENT (no fur-operators, or no such operator in it); FUR_EBUSY (it
 *         does not answer); FUR_EABORTED (the operator crashed, or left its record).  What is
 *         changed then: as with fur_bulk_run(), and nothing with FUR_ENOENT.  EACH, with an
 *         operator that crashed: the windows before the one that has the record at which it
 *         crashed, so no record after that one. */
FUR_MUST_USE int lab_bulk_run(fur_thread *thread, const struct fur_bulk *bulk,
        const struct lab_operator_call *call, struct fur_bulk_result *result,
        uint64_t *by_operator);

#ifdef __cplusplus
}
#endif

#endif /* LAB_BULK_H */
