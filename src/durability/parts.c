/* SPDX-License-Identifier: BSD-3-Clause
 *
 * parts.c - how an update over several heaps becomes durable (parts.h).
 *
 * Way 13, an update over several heaps becomes durable:
 *
 *     parts_persist()           carries out the steps, each in all heaps before the next
 *       await_reads()           waits for what it has read in heaps without a part (INV-GU7)
 *       name_parts()            completes each record with the names of all parts
 *       write_all()             writes records and markers
 *         ring_wait()           waits for a free slot
 *         commit_write()        completes the record, names D in the marker, and writes it
 *       flush_all()             starts all write-backs, and then waits for each
 *       settle_all()            waits for D of all heaps
 *       leave_all()             leaves nondurable[] of all
 */
#include "durability/parts.h"
#include "durability/async.h"
#include "durability/dset.h"
#include "durability/nondurable.h"
#include "durability/ship.h"
#include "durability/steps.h"
#include "file/heap_file.h"

#include <stdio.h>
#include <string.h>

#define FOR_EACH_PART(p, parts, n)                                                                 \
	for (const struct commit_part *p = (parts); p < (parts) + (n); p++)

/* Append the names to the open record.  This entry may wrap around the end of the log. */
static void put_names(struct redo_log *log, struct durability *d, const struct media_parts *names)
{
	uint8_t entry[MEDIA_ENTRY_ALIGN + sizeof *names];
	const uint64_t bytes = media_parts_bytes(names->n);
	FUR_ASSERT(bytes <= sizeof entry && bytes <= log->reserved);
	media_parts_encode(entry, names);
	const struct log_ranges r = log_ranges_of(d->super, log->write_at, log->write_at + bytes);
	memcpy(log->written + r.place[0], entry, r.bytes[0]);
	memcpy(log->written + r.place[1], entry + r.bytes[0], r.bytes[1]);
	log->write_at += bytes;
}

/* INV-GU5: each record names all parts.  Recovery keeps a part only if it keeps all that this one
 * names (plant: group-no-names). */
static void name_parts(const struct commit_part *parts, unsigned n, uint64_t id)
{
	struct media_parts names = {.id = id, .n = 0};
	FOR_EACH_PART(p, parts, n)
		if (p->writes)
			names.part[names.n++] =
			        (struct media_part){.durts = p->c->durts, .member = p->member};
	FOR_EACH_PART(p, parts, n) {
		/* It waits, so it is never late, not even with a single part (decide_if_late). */
		p->c->after_all = p->writes;
		p->c->part = p->writes && names.n > 1;
		if (!p->c->part)
			continue;
		put_names(&p->d->redo[p->c->me], p->d, &names);
		names.mine++;
	}
}

/* ------------------------------------------------------------------- the steps */

/* What it may have read from is below this.  Late updates that had left nondurable[] before the
 * draw: those alone (model: BOUNDLATE).  Others were members of D then, and may have become late
 * since. */
static uint64_t read_below(const struct commit_part *p)
{
	const struct dset *set = &p->c->dset;
	uint64_t below = p->late_below, read = 0;
	if (set->by_version)
		read = set->n ? set->newest + 1 : 0;
	for (uint32_t k = 0; k < set->n && !set->by_version; k++)
		if (set->members[k].durts >= read)
			read = set->members[k].durts + 1;
	return read > below ? read : below;
}

/* INV-GU7 (plant: group-read-unsettled). */
static int await_reads(const struct commit_part *parts, unsigned n)
{
	int error = 0;
	FOR_EACH_PART(p, parts, n) {
		if (p->writes || error)
			continue;
		const uint64_t below = read_below(p);
		dset_wait(p->d, p->c);
		/* INV-AS2.  A member of D that has left late has raised `newest` before. */
		if (below > async_durable(p->d) && async_pending(p->d))
			error = async_wait(p->d, below);
		/* The waits' last loads are acquire, so this one comes after them. */
		if (!error)
			error = durability_check_read(p->d);
		error = heap_name_failure(p->d->file, error);
	}
	return error;
}

static int write_all(const struct commit_part *parts, unsigned n)
{
	struct media_marker marker;
	int error = 0;
	FOR_EACH_PART(p, parts, n) {
		if (!p->writes || error)
			continue;
		commit_begin(p->d, p->c, &marker);
		if (p->c->part)
			marker.kind |= MEDIA_PART;
		error = ring_wait(p->d, p->c->durts);
		FUR_POINT(marker__write);
		if (!error)
			error = commit_write(p->d, p->c, &marker);
		error = heap_name_failure(p->d->file, error);
	}
	return error;
}

/* All write-backs at the same time, and so one wait in place of n. */
static int flush_all(const struct commit_part *parts, unsigned n)
{
	int error = 0;
	FOR_EACH_PART(p, parts, n)
		if (p->writes)
			commit_flush_begin(p->d, p->c);
	FOR_EACH_PART(p, parts, n)
		if (p->writes && !error)
			error = heap_name_failure(p->d->file, commit_flush_end(p->d, p->c));
	FUR_POINT(parts__durable);
	return error;
}

/* INV-GU6 (plant: group-leaves-first). */
static int settle_all(const struct commit_part *parts, unsigned n)
{
	int error = 0;
	FOR_EACH_PART(p, parts, n) {
		if (!p->writes || error)
			continue;
		commit_wait_for_unseen(p->d, &p->c->dset);
		dset_wait(p->d, p->c);
		/* Members of D may have left late, also after we had looked for late updates
		 * (INV-AS2).  All below our own is durable then. */
		if (p->c->after_all || (p->c->dset.n && async_pending(p->d)))
			error = async_wait(p->d, p->c->durts);
		/* A replay takes a single part that depends on all below for a late update
		 * (INV-AS5), so `newest` must have it: the next flush passes it. */
		if (p->c->after_all && !p->c->part)
			async_note(p->d, p->c->durts);
		if (!error && arch_load(&p->d->failed))
			error = durability_say_failed(p->d,
			        "an update that this one has read from could not be made durable");
		error = heap_name_failure(p->d->file, error);
	}
	return error;
}

/* One of its heaps has failed.  The others fail too: what has read from the update there must not
 * return (INV-D5), and the update never settles. */
static void fail_all(const struct commit_part *parts, unsigned n, int error)
{
	FOR_EACH_PART(p, parts, n)
		if (p->writes && !arch_load(&p->d->failed))
			durability_fail(p->d, error);
}

static void leave_all(const struct commit_part *parts, unsigned n)
{
	FOR_EACH_PART(p, parts, n) {
		if (!p->writes)
			continue;
		if (unlikely(p->d->redo[p->c->me].frees_a_run))
			durability_note_run_freed(p->d, p->c->durts);
		nondurable_leave(p->d, p->c);
	}
}

int parts_persist(const struct commit_part *parts, unsigned n, uint64_t id)
{
	FUR_POINT(update__persist);
	int error = await_reads(parts, n);
	name_parts(parts, n, id);
	if (!error)
		error = write_all(parts, n);
	if (!error)
		error = flush_all(parts, n);
	if (!error)
		error = settle_all(parts, n);
	if (error)
		fail_all(parts, n, error);
	leave_all(parts, n);
	FOR_EACH_PART(p, parts, n) {
		if (!p->writes)
			continue;
		if (!error && p->d->control->replayer_pid)
			nondurable_tell_parts(p->d);
		(void)commit_await_over(p->d, p->c, error);
		p->c->part = p->c->after_all = false;
	}
	return error;
}
