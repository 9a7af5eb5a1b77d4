/* SPDX-License-Identifier: BSD-3-Clause
 *
 * room.c - room in the open update's log, and whether the update has failed.
 */
#include "htm/htm.h"
#include "update/update.h"

FUR_API int fur_update_error(const fur_update *tx)
{
	return tx && tx->depth ? tx->error : tx_not_mine(tx, "fur_update_error");
}

FUR_API uint64_t fur_update_room(const fur_update *tx, uint64_t *log_bytes)
{
	const uint64_t all = tx ? tx->thread->durability->log_room : 0,
	               used = tx ? tx->log->write_at - tx->log->open_at : 0;
	if (log_bytes)
		*log_bytes = all;
	return used < all ? all - used : 0;
}

/* In hardware: abort, and make room outside.  Otherwise make room here, because the updates in
 * flight need nothing of ours to finish. */
bool store_make_room(struct fur_update *tx)
{
	if (tx->mode == TX_HARDWARE)
		tx->thread->engine->ops->abort(FUR_ABORT_FULL);
	int error = redo_make_room(tx->log, tx->thread->durability);
	if (error)
		tx_fail(tx, error);
	return !error;
}
