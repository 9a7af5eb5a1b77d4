/* SPDX-License-Identifier: BSD-3-Clause
 *
 * htm.h - hardware transactions: what a back end does, and which one a heap gets.  This file and
 * policy.h are the contract of src/htm.
 *
 * Way 4, an update becomes visible in hardware:
 *
 *     commit_visible()                  calls the back end
 *       tsx_commit()                    suspends load tracking, and fences
 *         active_wait_inside()          waits for readers; if one stays, the update aborts
 *         nondurable_collect_settled()  collects D
 *         nondurable_announce()         makes the last store of the transaction
 *       tsx_commit_tracked()            the same without suspending: aborts if a reader is active
 *       power_commit()                  suspends, and resumes after the window
 *         power_commit_window()         collects D before it leaves active[]
 *           ring_draw()                 draws the durTS: from here on an abort owes a marker
 *           power_leave()               leaves active[]
 *           power_copy_log()            completes the record, and copies it to the file's log
 *           active_wait_inside()        waits for readers
 *           power_flush_log()           starts the log's write-back, so that a wait hides it
 *           nondurable_announce()       announces the update; a fence follows
 *       power_commit_empty()            without stores: needs no window
 */
#ifndef FUR_HTM_H
#define FUR_HTM_H

#include "tx/tx.h"

#define HTM_STARTED UINT64_MAX

/* A back end.  begin() returns HTM_STARTED inside a hardware transaction.  If that transaction
 * aborts later, begin() returns a second time, with the status of the abort. */
struct htm_ops {
	uint64_t (*begin)(struct fur_thread *t);
	/* The same for the transaction that publishes a software update: the thread holds the turn,
	 * and its own entry in active[] stays. */
	uint64_t (*begin_publication)(struct fur_thread *t);
	enum fur_abort_cause (*classify)(uint64_t status);
	/* From the last access until the update is visible; collects D.  Does not return if the
	 * transaction aborts. */
	void (*commit)(struct fur_thread *t);
	/* End a transaction that made no stores in the heap; collects D.  Does not return if the
	 * transaction aborts. */
	void (*commit_empty)(struct fur_thread *t);
	/* Abort with a cause that classify() will return.  Does not return. */
	void (*abort)(enum fur_abort_cause cause);
	/* After an abort, outside the transaction: if the attempt drew a durTS, write the abort
	 * marker that it owes.  Errors: those of durability_abort(). */
	int (*aborted)(struct fur_thread *t);
};
extern const struct htm_ops htm_tsx, htm_tsx_tracked, htm_power;

/* A stack for the window on POWER: its upper end, or NULL (window_stack.c). */
void *window_stack_new(void);
void window_stack_delete(void *stack);

/* Choose a back end that the caller asked for and the processor supports.  `reason` tells why. */
FUR_MUST_USE int htm_choose_on(const struct arch_cpu *cpu, struct engine *e, enum fur_htm asked,
        enum fur_isolation isolation, char *reason, size_t reason_bytes);
FUR_MUST_USE int htm_choose(struct engine *e, enum fur_htm asked, enum fur_isolation isolation,
        char *reason, size_t reason_bytes);

#endif /* FUR_HTM_H */
