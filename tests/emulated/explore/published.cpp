/* SPDX-License-Identifier: BSD-3-Clause
 *
 * published.cpp - tells the oracle when libfur publishes software updates.  The linker puts these
 * functions in the places of redo_store_record(), by which libfur publishes, and readers_let_in()
 * (--wrap, meson.build).
 */
#include "../../../emulator/emulated.h"
#include "../oracle.hpp"
#include "internals.hpp"
#include "run.hpp"

#include <utility>

extern "C" {
void __real_redo_store_record(redo_log *log, const durability *d, uint8_t *heap, bool keep_undo);
void __wrap_redo_store_record(redo_log *log, const durability *d, uint8_t *heap, bool keep_undo);
void __real_readers_let_in(engine *e);
void __wrap_readers_let_in(engine *e);
}

/* Is it the record of the bulk update that runs?  No other update of its thread publishes between
 * its first call of map() and its publication. */
static bool publishes_bulk(const redo_log *log, const durability *d)
{
	return explore::run.bulk &&
	       explore::run.thread_of[log - d->redo] == explore::run.bulk_thread;
}

/* In place, no other thread sees the stores before this function returns: readers are shut out, and
 * a software body that loads a stored word waits until the publication is over.  In a hardware
 * transaction the machine reports when they are visible.  With keep_undo the update goes on, in
 * place. */
void __wrap_redo_store_record(redo_log *log, const durability *d, uint8_t *heap, bool keep_undo)
{
	if (!keep_undo && emu_thread() >= 0 && publishes_bulk(log, d))
		explore::run.bulk_publishes(std::exchange(explore::run.bulk, nullptr));
	__real_redo_store_record(log, d, heap, keep_undo);
	if (!keep_undo && emu_thread() >= 0)
		oracle::stored(explore::run.thread_of[log - d->redo]);
}

/* The thread that lets readers in may have published for others, and others beside it. */
void __wrap_readers_let_in(engine *e)
{
	if (emu_thread() >= 0)
		oracle::batch_over();
	__real_readers_let_in(e);
}
