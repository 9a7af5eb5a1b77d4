/* SPDX-License-Identifier: BSD-3-Clause
 *
 * backup.c - fur_backup: a copy of an open heap.
 */
#include "replay/backup.h"
#include "api/heap.h"
#include "base/error.h"

FUR_API int fur_backup(fur_heap *heap, const char *path)
{
	int cancel;
	if (!heap || !path)
		return fur_fail(FUR_EINVAL, "fur_backup: heap and path must not be NULL");
	FUR_CHECK(heaps_have(heap), "the heap is not open");
	if (engine_forked(&heap->engine))
		return tx_refuse(&heap->engine);
	/* Updates would wait for this thread's transaction as long as the copying takes. */
	if (this_thread()->open)
		return fur_fail(FUR_ENESTED, "fur_backup was called while this thread has a "
		                             "transaction open: end that first");
	/* Creating and syncing are cancellation points.  If the thread were cancelled inside, it
	 * would keep the right to replay. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	int error = backup_heap(&heap->durability, &heap->file, path);
	pthread_setcancelstate(cancel, &cancel);
	return error ? fur_fail_at(error, path) : 0;
}
