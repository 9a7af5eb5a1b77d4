/* SPDX-License-Identifier: BSD-3-Clause
 *
 * published.cpp - tells the oracle when libfur publishes software updates: they come in the order
 * of their durTSs.  The linker puts these functions in the places of ring_draw(),
 * redo_store_record() and durability_abort() (--wrap, meson.build).
 */
#include "../../../emulator/emulated.h"
#include "../oracle.hpp"
#include "internals.hpp"
#include "run.hpp"

#include <array>
#include <utility>

extern "C" {
void __real_ring_draw(durability *d, commit *c);
void __wrap_ring_draw(durability *d, commit *c);
void __real_redo_store_record(redo_log *log, const durability *d, uint8_t *heap, bool keep_undo);
void __wrap_redo_store_record(redo_log *log, const durability *d, uint8_t *heap, bool keep_undo);
int __real_durability_abort(durability *d, commit *c);
int __wrap_durability_abort(durability *d, commit *c);
}

/* Is it the bulk update that runs?  No other update of its thread draws between its first call of
 * map() and its publication. */
static bool publishes_bulk(const commit *c)
{
	return explore::run.bulk && explore::run.thread_of[c->me] == explore::run.bulk_thread;
}

/* Of each simulated thread: the durTS by which its update has become visible, in the last heap if
 * it is over several, or 0.  Updates draw inside hardware transactions, whose abort undoes
 * allocations, so this needs none. */
static std::array<uint64_t, EMU_MAX_THREADS> visible_by;

static uint64_t &visible_by_mine()
{
	return visible_by.at(static_cast<size_t>(emu_thread()));
}

/* No other thread sees the update's stores before it frees its stamps, or lets readers in; and what
 * it has read is what the updates of lower durTSs have left.  In a hardware transaction the machine
 * reports when they are visible. */
void __wrap_ring_draw(durability *d, commit *c)
{
	if (emu_thread() >= 0 && publishes_bulk(c))
		explore::run.bulk_publishes(std::exchange(explore::run.bulk, nullptr));
	__real_ring_draw(d, c);
	if (emu_thread() >= 0)
		visible_by_mine() = oracle::drawn(c->durts) ? c->durts : 0;
}

/* An update stores when nothing can defeat it any more. */
void __wrap_redo_store_record(redo_log *log, const durability *d, uint8_t *heap, bool keep_undo)
{
	if (emu_thread() >= 0)
		oracle::stored();
	__real_redo_store_record(log, d, heap, keep_undo);
}

/* The update has drawn a durTS, and found itself defeated.  Or a hardware transaction that had
 * drawn one has aborted: that of the update, or of another one that makes or frees the block of a
 * bulk update, which the oracle does not know. */
int __wrap_durability_abort(durability *d, commit *c)
{
	if (emu_thread() >= 0 && visible_by_mine() == c->durts)
		oracle::withdrawn();
	return __real_durability_abort(d, c);
}
