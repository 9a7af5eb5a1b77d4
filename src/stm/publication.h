/* SPDX-License-Identifier: BSD-3-Clause
 *
 * publication.h - the steps of a publication in one heap (publish.c), which together.c takes in
 * several.  No other file includes this.
 */
#ifndef FUR_PUBLICATION_H
#define FUR_PUBLICATION_H

#include "stm/software.h"

enum made {
	VISIBLE,
	DEFEATED, /* if it has drawn a durTS, it owes an abort marker */
	/* It is to make room in its set of dependencies, while it does not publish, and to try
	 * again */
	NO_ROOM
};

/* Do all words that the update has loaded have versions below its snapshot?  Then they are as they
 * were. */
bool reads_are_old(const struct fur_thread *t);

/* Collect D, and announce the update.  It draws its durTS next. */
void publication_announce(struct fur_thread *t);

/* Store what the record has to the heap. */
void publication_store(struct fur_thread *t);

/* After a publication with the turn: let updates in if others are about to publish too and readers
 * do not come first, else readers.  It waits for no thread. */
void publication_let_in(struct engine *e, bool met);

#endif /* FUR_PUBLICATION_H */
