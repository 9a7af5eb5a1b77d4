/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bulk_run.h - fur_bulk_run() with a mapper.
 */
#ifndef FUR_BULK_RUN_H
#define FUR_BULK_RUN_H

#include "bulk/job.h"

/* As fur_bulk_run(), but `mapper` maps records in place of the calling thread (bulk/job.h); NULL:
 * it maps them all itself.  Errors: those of fur_bulk_run(), and the mapper's. */
FUR_MUST_USE int bulk_run(struct fur_thread *t, const struct fur_bulk *bulk,
        struct fur_bulk_result *result, struct bulk_mapper *mapper);

#endif /* FUR_BULK_RUN_H */
