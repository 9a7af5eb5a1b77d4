/* SPDX-License-Identifier: BSD-3-Clause
 *
 * attach.c - log, replay and heap of an opened file, put together.
 */
#include "api/attach.h"
#include "media/heap_layout.h"

int heap_attach(struct durability *d, const struct heap_file *file,
        const struct fur_options *options, char *reason, size_t reason_bytes)
{
	const struct media_super *g = &file->geometry;
	int error = durability_attach(d, file, options, reason, reason_bytes);
	if (error)
		return error;
	d->ops = &replay_ops;
	/* The same from the heap's creation on, in the file and in every log, so it may be checked
	 * before recovery: fur_open() and each way of replaying refuse the same files, before they
	 * write. */
	error = heap_check_header(d->image, g->heap_bytes, g->max_threads);
	if (error)
		durability_detach(d);
	return error;
}
