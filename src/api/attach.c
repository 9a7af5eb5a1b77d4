/* SPDX-License-Identifier: BSD-3-Clause
 *
 * attach.c - set up the log, replay and heap of an opened file.
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
	/* The heap's first words never change after its creation, and no log changes them, so they
	 * can be checked before recovery.  Thus fur_open() and all programs that replay refuse the
	 * same files, before they write to them. */
	error = heap_check_header(d->image, g->heap_bytes, media_grows(g), g->max_threads);
	if (error)
		durability_detach(d);
	return error;
}
