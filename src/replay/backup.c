/* SPDX-License-Identifier: BSD-3-Clause
 *
 * backup.c - copy a heap while it is in use (backup.h).
 */
#include "replay/backup.h"
#include "base/error.h"
#include "base/remedy.h"
#include "base/system.h"
#include "durability/ship.h"
#include "media/group_page.h"
#include "media/ship_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Copied under one lock.  A thread that needs room waits for one piece. */
enum { PIECE_BYTES = 128 << 10 };

struct backup {
	struct durability *d;
	const struct heap_file *from;
	struct heap_file to;
	uint64_t last;  /* the copy must contain the updates below this durTS (INV-B2) */
	uint32_t calls; /* of a worker, as last seen: control.h */
	bool begun;     /* backup_together() has called backup_begin() */
};

static int write_failed(int error)
{
	return fail_system(
	        remedy_code(error), CALL_WRITE, error, "there is no copy", "cannot write the copy");
}

/* The end of the updates that may be durable now.  Of another process we see the markers, and the
 * marker of an update that has returned is there. */
static uint64_t drawn_end(const struct durability *d)
{
	const struct media_file file = durability_file(d);
	uint64_t tail = ring_tail(d), end = tail;
	if (!d->replays_for_worker)
		return ring_next_acquire(d);
	for (uint64_t s = tail; s < tail + d->super->ring_slots; s++)
		if (arch_load_acquire(&log_marker(&file, s)->durts) == s)
			end = s + 1;
	return end;
}

/* Does a thread wait for room, or will it soon? */
static bool room_wanted(struct backup *b)
{
	struct durability *d = b->d;
	if (d->replays_for_worker) {
		uint32_t calls = arch_load32_acquire(&d->control->calls), before = b->calls;
		b->calls = calls;
		return calls != before;
	}
	return arch_exchange(&d->room_wanted, 0) ||
	       ring_next(d) - ring_tail(d) > d->super->ring_slots / 4;
}

/* Copy the next piece, without what lies in a hole of the file: the copy's blocks are zero. */
static int copy_piece(struct backup *b)
{
	const struct media_super *s = b->d->super;
	uint64_t bytes = s->heap_bytes - b->d->copied;
	off_t at = (off_t)(s->heap_offset + b->d->copied), data = lseek(b->from->fd, at, SEEK_DATA);
	if (data > at || (data < 0 && errno == ENXIO)) {
		uint64_t hole = data < 0 ? bytes : (uint64_t)(data - at);
		b->d->copied += hole < bytes ? hole : bytes;
		return 0;
	}
	if (bytes > PIECE_BYTES)
		bytes = PIECE_BYTES;
	const int error = system_write(b->to.fd, b->d->image + b->d->copied, bytes, (uint64_t)at);
	if (error)
		return write_failed(error);
	b->d->copied += bytes;
	return 0;
}

/* The replay that met the full disk may have been another thread's. */
static int fail_copy_grow(const struct backup *b)
{
	return fur_fail(b->d->copy_error,
	        "the heap has grown, and the file system has no room for that in the copy: make "
	        "room, or choose another place; there is no copy");
}

/* One step, in which no other thread of this process replays. */
static int backup_step(struct backup *b, int (*step)(struct backup *b))
{
	pthread_mutex_lock(&b->d->replaying);
	int error = durability_check(b->d);
	if (!error && room_wanted(b))
		error = replay_live(b->d);
	if (!error)
		error = step(b);
	if (!error && b->d->copy_error)
		error = fail_copy_grow(b);
	pthread_mutex_unlock(&b->d->replaying);
	return error;
}

/* Beside another process: a process that has ended settles nothing any more. */
static int worker_lives(const struct backup *b)
{
	int held = b->d->replays_for_worker ? heap_lock_held(b->from->fd, HEAP_LOCK_WORKING) : 1;
	return held < 0 ? held
	       : held   ? 0
	                : fur_fail(FUR_EBUSY, "the program that had the heap open has ended: "
	                                        "try again; there is no copy");
}

static int replay_to_last(struct backup *b)
{
	if (ring_tail(b->d) >= b->last)
		return 0;
	int error = worker_lives(b);
	return error ? error : replay_live(b->d);
}

/* The copy's superblock: that of a closed heap. */
static int write_super(struct backup *b)
{
	struct media_super *s = b->to.super;
	const uint64_t tail = media_tail_encode(ring_tail(b->d));
	/* Copied pieces and replays have filled the copy up to this size at most. */
	replay_copy_grow(b->d);
	if (b->d->copy_error)
		return fail_copy_grow(b);
	memcpy(s, b->d->super, offsetof(struct media_super, grown));
	/* A copy has no role, and its ship page is empty. */
	s->more.features &= ~MEDIA_SHIPS;
	s->more.checksum = s->more.features ? media_more_checksum(s) : 0;
	for (int k = 0; k < 2 && media_grows(b->d->super); k++)
		s->grown[k][0] = media_tail_encode(b->d->copy_bytes / MEDIA_PAGE_BYTES);
	s->logs = media_tail_encode(0);
	s->state = MEDIA_CLOSED;
	s->tail[0][0] = s->tail[1][0] = tail;
	/* What a member has noted of the others: no replay writes to it meanwhile. */
	if (media_is_member(s))
		memcpy((uint8_t *)s + MEDIA_GROUP_OFFSET,
		        (const uint8_t *)b->d->words + MEDIA_GROUP_OFFSET,
		        MEDIA_PAGE_BYTES - MEDIA_GROUP_OFFSET);
	/* From now on replays leave the copy alone. */
	b->d->copy = NULL;
	return 0;
}

static int copy_pieces(struct backup *b)
{
	int error = 0;
	while (!error && b->d->copied < b->d->super->heap_bytes)
		error = backup_step(b, copy_piece);
	return error;
}

/* INV-B2 */
static int replay_all(struct backup *b)
{
	struct arch_backoff backoff = {0};
	struct ship_patience patience = {0};
	int error = 0;
	while (!error && ring_tail(b->d) < b->last) {
		uint64_t before = ring_tail(b->d);
		error = ship_patience(b->d, &patience);
		if (!error)
			error = backup_step(b, replay_to_last);
		if (ship_leashed(b->d))
			ship_rest(b->d);
		else if (ring_tail(b->d) == before)
			arch_backoff(&backoff);
	}
	return error;
}

static int copy_all(struct backup *b)
{
	int error = copy_pieces(b);
	if (!error)
		error = replay_all(b);
	return error ? error : backup_step(b, write_super);
}

/* Take the right to replay for as long as the backup takes: a replay by another process would not
 * write to the copy. */
static int backup_begin(struct backup *b)
{
	struct durability *d = b->d;
	pthread_mutex_lock(&d->replaying);
	int error = d->copy ? fur_fail(FUR_EBUSY, "another thread is making a copy of this heap: "
	                                          "wait for it")
	                    : control_take(d);
	if (!error) {
		const struct media_file to = media_file_of(d->super, b->to.super);
		d->copy = media_at(&to, d->super->heap_offset);
		d->copied = 0;
		d->copy_fd = b->to.in_memory ? -1 : b->to.fd;
		d->copy_error = 0;
		d->copy_bytes = media_heap_bytes(d->super, &b->to.geometry);
		b->last = drawn_end(d);
		b->calls = arch_load32_acquire(&d->control->calls);
	}
	pthread_mutex_unlock(&d->replaying);
	return error;
}

static void backup_end(struct backup *b)
{
	pthread_mutex_lock(&b->d->replaying);
	b->d->copy = NULL;
	control_give_back(b->d);
	pthread_mutex_unlock(&b->d->replaying);
}

int backup_copy(struct durability *d, const struct heap_file *from, struct heap_file *to)
{
	struct backup b = {.d = d, .from = from, .to = *to};
	int error = backup_begin(&b);
	if (error)
		return error;
	error = copy_all(&b);
	backup_end(&b);
	to->geometry.more = to->super->more;
	return error;
}

/* The copy is closed, and has no ship page yet. */
static int write_standby(struct heap_file *to, struct media_ship *page)
{
	if (page->role == MEDIA_PRIMARY &&
	        media_tail_decode(to->super->tail[0][0], &page->durts)) /* INV-SH85 */
		return fur_fail(FUR_ECORRUPT, "the copy has no tail: report this as a bug");
	page->role = MEDIA_STANDBY;
	return heap_write_ship_page(to, page);
}

/* INV-B3 */
static int finish_copy(struct heap_file *to, const char *path)
{
	const int unsynced = system_sync(to->fd);
	return unsynced ? write_failed(unsynced) : heap_name_copy(to, path);
}

/* `page`: the copy's, or NULL. */
static int make_copy(struct durability *d, const struct heap_file *from, const char *path,
        struct media_ship *page)
{
	struct heap_file to;
	int error = heap_create_copy(path, from, &to);
	if (error)
		return error;
	error = backup_copy(d, from, &to);
	if (!error && page)
		error = write_standby(&to, page);
	if (!error)
		error = finish_copy(&to, path);
	heap_close_file(&to);
	return error;
}

int backup_heap(struct durability *d, const struct heap_file *from, const char *path)
{
	return make_copy(d, from, path, NULL);
}

/* ------------------------------------------------------------- several heaps */

/* All pieces, and most of what is to be replayed. */
static int copy_most(struct backup *b, const struct backup_member *m)
{
	int error = heap_create_copy(m->path, m->from, &b->to);
	if (error)
		return error;
	error = backup_begin(b);
	b->begun = !error;
	if (!error)
		error = copy_pieces(b);
	return error ? error : replay_all(b);
}

/* No update over several heaps is in flight. */
static int copy_rest(struct backup *b)
{
	b->last = drawn_end(b->d);
	const int error = replay_all(b);
	return error ? error : backup_step(b, write_super);
}

static int copy_together(const struct backup_set *set, struct backup *all)
{
	int error = 0;
	unsigned k = 0;
	for (; !error && k < set->n; k++)
		error = copy_most(&all[k], &set->members[k]);
	if (!error) {
		set->shut(set->arg);
		for (k = 0; !error && k < set->n; k++)
			error = copy_rest(&all[k]);
		set->open(set->arg);
	}
	if (!error)
		for (k = 0; !error && k < set->n; k++)
			error = finish_copy(&all[k].to, set->members[k].path);
	return error ? fur_fail_at(error, set->members[k - 1].path) : 0;
}

int backup_together(const struct backup_set *set)
{
	struct backup *all = calloc(set->n + 1, sizeof *all);
	if (!all)
		return fur_fail(FUR_ENOMEM, "no memory to copy a group: free some memory");
	for (unsigned k = 0; k < set->n; k++)
		all[k] = (struct backup){
		        .d = set->members[k].d, .from = set->members[k].from, .to.fd = -1};
	const int error = copy_together(set, all);
	for (unsigned k = 0; k < set->n; k++) {
		if (all[k].begun)
			backup_end(&all[k]);
		heap_close_file(&all[k].to);
	}
	free(all);
	return error;
}

/* ---------------------------------------------------------------- other copies */

int backup_for_standby(struct durability *d, const struct heap_file *from, const char *path,
        struct media_ship *page)
{
	return make_copy(d, from, path, page);
}

int backup_at_rest(const struct heap_file *from, const struct heap_file *to)
{
	const off_t end = (off_t)from->file_bytes;
	for (off_t at = 0; at < end;) {
		/* A hole is zero, and so is the copy. */
		const off_t data = lseek(from->fd, at, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break;
		if (data > at)
			at = data;
		const off_t bytes = end - at < PIECE_BYTES ? end - at : PIECE_BYTES;
		const int error = bytes > 0
		                          ? system_write(to->fd, (const uint8_t *)from->super + at,
		                                    (size_t)bytes, (uint64_t)at)
		                          : 0;
		if (error)
			return write_failed(error);
		at += bytes;
	}
	return 0;
}
