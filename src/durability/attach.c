/* SPDX-License-Identifier: BSD-3-Clause
 *
 * attach.c - struct durability for an opened file.
 */
#include "base/memory.h"
#include "durability/async.h"
#include "file/heap_file.h"
#include "media/ship_page.h"

#include <stdlib.h>
#include <string.h>

int durability_read_role(struct durability *d)
{
	struct media_ship ship;
	const int error = heap_read_ship_page(d->super, d->words, &ship);
	if (error)
		return error;
	d->ship.on = ship.role == MEDIA_PRIMARY;
	d->ship.follows = ship.role == MEDIA_STANDBY;
	d->log_room = d->super->log_bytes - (d->ship.on ? SHIP_RECORD_EXTRA : 0);
	/* SYNC: the log's round trip and our sync run at the same time. */
	struct control_ship *c = &d->control->ship;
	d->pm.group.sleeper = d->ship.on ? (struct group_sleeper){&c->asleep, &c->calls}
	                                 : (struct group_sleeper){0};
	return 0;
}

static int attach_ship_page(struct durability *d, const struct fur_options *options)
{
	d->ship = (struct shipping){.replicates = options->ack == FUR_ACK_REPLICATED,
	        .patience_ns = UINT64_C(1000000) * options->ack_patience_ms};
	return durability_read_role(d);
}

int durability_attach(struct durability *d, const struct heap_file *file,
        const struct fur_options *options, char *reason, size_t reason_bytes)
{
	struct media_super *s = file->super;
	const struct media_super *g = &file->geometry;
	uint64_t tail = 0;
	memset(d, 0, sizeof *d);
	int error = pm_init(&d->pm, file->fd, file->dax, options->pm, reason, reason_bytes);
	if (!error && (pthread_mutex_init(&d->replaying, NULL) ||
	                      pthread_mutex_init(&d->growing, NULL))) {
		pm_fini(&d->pm);
		error = fur_fail(FUR_ENOMEM, "no memory for a mutex: free some memory");
	}
	if (error)
		return error;
	pthread_mutex_init(&d->async.flushing, NULL); /* cannot fail without attributes */
	d->async.period_ns = UINT64_C(1000000) * options->async_ms;
	d->geometry = file->geometry;
	d->super = &d->geometry;
	d->words = s;
	d->file = file;
	d->heap_bytes = media_heap_bytes(g, s);
	d->head_bytes = media_head_bytes(&d->geometry);
	d->control = (struct control *)((uint8_t *)s + g->control_offset);
	d->ring = (uint8_t *)s + g->ring_offset;
	d->logs = (uint8_t *)s + g->logs_offset;
	d->image = (uint8_t *)s + g->heap_offset;
	d->replay_options = REPLAY_DEFAULTS;
	d->redo = memory_padded(g->max_threads * sizeof *d->redo);
	d->nondurable = memory_padded(g->max_threads * sizeof *d->nondurable);
	if (!d->redo || !d->nondurable)
		error = fur_fail(FUR_ENOMEM,
		        "no memory for %u threads: free some memory, or make max_threads "
		        "smaller, with fur-resize",
		        g->max_threads);
	if (!error)
		error = heap_tail(file, &tail);
	if (!error)
		error = attach_ship_page(d, options);
	ring_restart(d, tail);
	if (error)
		durability_detach(d);
	return error;
}

void durability_detach(struct durability *d)
{
	for (uint64_t i = 0; d->redo && i < d->limit; i++)
		redo_fini(&d->redo[i], d);
	free(d->redo);
	free(d->nondurable);
	async_free(d);
	/* In a child of fork(), do not destroy them: a thread that the child does not have may hold
	 * the mutex, or wait for the condition.  pthread_cond_destroy() waits for all waiters, so
	 * it would never return. */
	if ((int)arch_load(&d->failed) != FUR_EFORK) {
		pthread_mutex_destroy(&d->replaying);
		pthread_mutex_destroy(&d->async.flushing);
		pthread_mutex_destroy(&d->growing);
		pm_fini(&d->pm);
	}
	memset(d, 0, sizeof *d);
}
