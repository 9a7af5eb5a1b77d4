/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fresh.h - fresh memory: the stores of an update to a large block that it allocated itself go to
 * the heap at once, and are not logged.  At its commit the update writes the block to the heap in
 * the file, and only then becomes visible.  So neither its log nor a replay bounds its size.
 *
 *   INV-FM1  An update has fresh blocks only while it has the publication turn, so no other
 *            software update can have allocated the same chunks.  No reader and no hardware update
 *            can still see them: the update that gave them back has waited for those.  A software
 *            body may, if its snapshot is older.  So the update sweeps before it stores there
 *            (INV-ST2): such a body then finds that what it has loaded has changed.
 *   INV-FM2  A block is fresh only if every update is replayed that has given back a run of chunks,
 *            and the update itself has given back none.  Otherwise a replay could store an older
 *            entry over the block; or a failure could lose the update that gave the chunks back,
 *            and the block would lie over one that is in use.
 *   INV-FM3  What the update has stored in its fresh blocks is durable in the heap in the file
 *            before the update becomes visible, and so before its marker is written.  Later the
 *            block may contain stores of other updates, which a failure may lose.
 *   INV-FM4  The update's record names each fresh block.  A replay that also writes to a copy takes
 *            the block from the file's heap: the copy may have passed it before the update wrote
 *            there.
 *   INV-FM5  The record also tells how far the tail had moved when the block became fresh.  A file
 *            with an older tail is a copy that was made while the heap was in use: recovery would
 *            replay older entries over the block, so it refuses the file.
 */
#ifndef FUR_FRESH_H
#define FUR_FRESH_H

#include "tx/tx.h"

/* The update has allocated the run of chunks at `block`: make it fresh if it may be.  Otherwise
 * stores there are logged.  May defeat a concurrent update, which then runs serially.
 * Errors: sets tx->error. */
void fresh_note(struct fur_update *tx, void *block, uint64_t bytes);

/* Do the bytes from `to` on lie in a fresh block?  Shortens *bytes to the part that has one
 * answer. */
bool fresh_reach(struct fur_update *tx, const void *to, uint64_t *bytes);

/* Store in a fresh block; fresh_reach() has said yes. */
void fresh_store(struct fur_update *tx, void *to, const void *from, uint64_t bytes);

/* INV-FM3: make the fresh blocks durable in the file.  For an update that is about to commit.
 * Errors: sets tx->error, and the heap has failed. */
void fresh_persist(struct fur_update *tx);

/* The pages that the thread's newest update wrote to the file. */
static inline uint64_t fresh_pages(const struct fur_thread *t)
{
	return t->update.flags & TX_FRESH ? t->fresh.pages : 0;
}

#endif /* FUR_FRESH_H */
