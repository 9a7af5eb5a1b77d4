/* SPDX-License-Identifier: BSD-3-Clause
 *
 * attach.c - set up the log, replay and heap of an opened file.
 */
#include "api/attach.h"
#include "media/heap_layout.h"

/* The allocator has nothing above the heap's size now (INV-F5).  What the log does not have yet, a
 * replay checks: apply_check(). */
static int check_size(const struct durability *d)
{
	/* Acquire: orders the load before that of the size, which a process that works on the heap
	 * may be changing: it makes the heap larger before the allocator has more. */
	const uint64_t grown = arch_load_acquire(&header(d->image)->grown),
	               now = media_heap_bytes(d->super, d->words);
	const unsigned long long has = grown * CHUNK_BYTES;
	if (!media_grows(d->super) || grown <= now / CHUNK_BYTES)
		return 0;
	return fur_fail(FUR_ECORRUPT,
	        "the allocator has %llu bytes of the heap, and the file says that the heap has "
	        "%llu: mend that with fur-check --repair",
	        has, (unsigned long long)now);
}

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
	error = heap_check_header(d->image, g->heap_bytes, media_grows(g), media_stocks(g));
	if (!error)
		error = check_size(d);
	if (error)
		durability_detach(d);
	return error;
}

int heap_attach_to_replay(struct durability *d, const struct heap_file *file)
{
	struct fur_options options;
	char reason[160];
	fur_options_init(&options);
	options.ack_patience_ms = ATTACH_PATIENCE_MS;
	return heap_attach(d, file, &options, reason, sizeof reason);
}
