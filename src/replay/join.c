/* SPDX-License-Identifier: BSD-3-Clause
 *
 * join.c - recover the members of a group together.
 *
 *     replay_join()             fur_group_open(); replay_alone() has one member
 *       examine()               1. each by itself: verdicts; then the lists of its kept parts
 *       judge_together()        2. drop parts of which another part is lost, until nothing changes
 *       refuse()                3. refuse members that are damaged, older, or need others
 *       recovery_make_durable() 4. each: persist corrections, markers and records
 *       decide()                5. each: note which parts are kept, durably
 *       replay_recover_end()    6. each: apply the kept updates, move the tail
 *       note_open()             7. each: note that parts may be drawn
 *
 * Nothing is written to any file before all members have been judged (INV-R7, INV-F1).  Steps 1, 4
 * to 6, and the look for damage take several members at a time, each on a thread of its own.
 */
#include "replay/join.h"
#include "base/error.h"
#include "base/probe.h"
#include "durability/ring.h"
#include "file/heap_file.h"
#include "replay/apply.h"
#include "replay/group_notes.h"
#include "replay/recovery.h"

#include <fur_group.h>
#include <stdlib.h>
#include <string.h>

/* A part that its own heap keeps. */
struct found {
	uint64_t durts, id;
	uint64_t first; /* of join_parts.named */
	uint32_t n, mine;
	bool refused; /* another part of the update is lost, in this member: */
	uint32_t lost_in;
};

struct join_parts {
	struct found *found; /* in the order of their durTSs */
	uint64_t n, room;
	struct media_part *named; /* all parts of each */
	uint64_t named_n, named_room;
	struct media_decided decided; /* of the heap, before this recovery */
	uint64_t *kept;               /* a bit for each slot: the decision */
	bool any;
};

enum { NO_MEMBER = -1 };

struct join {
	struct join_member *members;
	unsigned n;
	bool alone;                    /* one member by itself */
	bool complete;                 /* no member is missing */
	int place[MEDIA_MEMBERS_MOST]; /* in `members`, or NO_MEMBER */
	/* One step, taken by several threads */
	int (*step)(struct join *j, struct join_member *m);
	uint64_t next; /* of the members */
};

/* ----------------------------------------------------------------- errors */

/* The message belongs to the thread: keep it. */
static void keep_error(struct join_member *m, int error)
{
	m->error = error;
	m->message = strdup(fur_errormsg());
}

static int say_kept_error(const struct join_member *m)
{
	return fur_fail(m->error, "%s", m->message ? m->message : fur_strerror(m->error));
}

/* Say of which member the last message is. */
static int fail_of(const struct join *j, const struct join_member *m, int error)
{
	return j->alone ? error : heap_name_failure(m->d->file, error);
}

static int fail_memory(void)
{
	return fur_fail(FUR_ENOMEM, "no memory for the parts of updates over several heaps: free "
	                            "some memory");
}

/* `m` has not what `by` knows of. */
static int fail_older(const struct join *j, const struct join_member *m,
        const struct join_member *by, uint64_t lost)
{
	return fail_of(j, m,
	        fur_fail(FUR_EGROUP,
	                "member %u of the group is older than member %u has seen it, or is "
	                "damaged: its update %llu is lost, and perhaps later ones: restore the "
	                "newest file of it",
	                m->member, by->member, (unsigned long long)lost));
}

static int fail_needs(
        const struct join *j, const struct join_member *m, const struct media_part *p, uint64_t x)
{
	char group[MEDIA_ID_TEXT];
	media_id_text(m->d->super->more.group, group);
	return fail_of(j, m,
	        fur_fail(FUR_EGROUP,
	                "the heap is member %u of group %s, and was not closed: its update %llu is "
	                "kept only if member %u has its part %llu: open the group with %s",
	                m->member, group, (unsigned long long)x, p->member,
	                (unsigned long long)p->durts,
	                j->alone ? "fur_group_open" : "that member, which is missing"));
}

static int fail_full(const struct join *j, const struct join_member *m)
{
	return fail_of(j, m,
	        fur_fail(FUR_EGROUP,
	                "member %u of the group was recovered too often without other members, "
	                "which may need to know what it kept: open the group with all of them",
	                m->member));
}

/* ----------------------------------------------------------------- threads */

static void take_steps(void *arg, unsigned thread)
{
	struct join *j = arg;
	uint64_t k;
	(void)thread;
	while ((k = arch_fetch_add(&j->next, 1)) < j->n) {
		struct join_member *m = &j->members[k];
		const int error = m->recover ? j->step(j, m) : 0;
		if (error)
			keep_error(m, error);
	}
}

/* Take a step with each member that is to be recovered.   Errors: the first member's. */
static int each(struct join *j, uint64_t bytes, int (*step)(struct join *j, struct join_member *m))
{
	j->step = step;
	j->next = 0;
	apply_on_threads(apply_threads_for_heaps(j->n, bytes), take_steps, j);
	for (unsigned k = 0; k < j->n; k++)
		if (j->members[k].error)
			return fail_of(j, &j->members[k], say_kept_error(&j->members[k]));
	return 0;
}

static uint64_t bytes_of_rings(const struct join *j)
{
	uint64_t bytes = 0;
	for (unsigned k = 0; k < j->n; k++)
		bytes += j->members[k].d->super->ring_slots * j->members[k].d->super->slot_bytes;
	return bytes;
}

static uint64_t bytes_of_logs(const struct join *j)
{
	uint64_t bytes = 0;
	for (unsigned k = 0; k < j->n; k++)
		bytes += j->members[k].recovery ? j->members[k].recovery->log_bytes : 0;
	return bytes;
}

/* ----------------------------------------------------------------- 1. look */

static void *more_room(void *at, uint64_t size, uint64_t needed, uint64_t *room)
{
	enum { FIRST = 64 };
	if (needed <= *room)
		return at;
	const uint64_t now = *room ? 2 * *room : FIRST;
	void *more = realloc(at, (now > needed ? now : needed) * size);
	if (more)
		*room = now > needed ? now : needed;
	return more;
}

static int add_part(struct join_parts *p, uint64_t durts, const struct media_parts *list)
{
	struct found *found = more_room(p->found, sizeof *found, p->n + 1, &p->room);
	if (!found)
		return fail_memory();
	p->found = found;
	struct media_part *named =
	        more_room(p->named, sizeof *named, p->named_n + list->n, &p->named_room);
	if (!named)
		return fail_memory();
	p->named = named;
	p->found[p->n++] = (struct found){.durts = durts,
	        .id = list->id,
	        .first = p->named_n,
	        .n = list->n,
	        .mine = list->mine};
	memcpy(&p->named[p->named_n], list->part, list->n * sizeof *named);
	p->named_n += list->n;
	return 0;
}

static int collect_parts(struct join_member *m)
{
	const struct recovery *w = m->recovery;
	const struct media_file file = durability_file(m->d);
	int error = 0;
	for (uint64_t s = w->tail; s < w->end && !error; s++) {
		struct media_marker marker;
		struct media_parts list;
		if (w->verdicts[s - w->tail] != INSPECT_KEPT ||
		        !log_read_plausible(&file, s, &marker) || !(marker.kind & MEDIA_PART))
			continue;
		error = log_read_parts(&file, &marker, &list)
		                ? add_part(m->parts, s, &list)
		                : fur_fail(FUR_ECORRUPT,
		                          "the list of parts of update %llu changes while it is "
		                          "read: end what writes to the file",
		                          (unsigned long long)s);
	}
	return error;
}

/* Each member by itself. */
static int examine(struct join *j, struct join_member *m)
{
	(void)j;
	int error = recovery_new(m->d, &m->result, &m->recovery);
	if (error)
		return error;
	m->parts->kept = calloc(m->d->super->ring_slots / 64, sizeof *m->parts->kept);
	if (!m->parts->kept)
		return fail_memory();
	recovery_examine(m->recovery);
	error = recovery_judge(m->recovery);
	return error ? error : collect_parts(m);
}

/* ---------------------------------------------------------------- 2. judge */

static uint8_t *verdict_of(const struct join_member *m, uint64_t durts)
{
	return &m->recovery->verdicts[durts - m->recovery->tail];
}

static const struct found *part_at(const struct join_parts *p, uint64_t durts)
{
	uint64_t from = 0, to = p->n;
	while (from < to) {
		const uint64_t middle = from + (to - from) / 2;
		if (p->found[middle].durts < durts)
			from = middle + 1;
		else
			to = middle;
	}
	return from < p->n && p->found[from].durts == durts ? &p->found[from] : NULL;
}

/* Are these two parts of one update?  Each names both, and the update has a number: an update that
 * got the durTS after a recovery has another one. */
static bool same_update(const struct join_parts *a, const struct found *x,
        const struct join_parts *b, const struct found *y)
{
	return x->id == y->id && x->n == y->n &&
	       memcmp(&a->named[x->first], &b->named[y->first], x->n * sizeof(struct media_part)) ==
	               0;
}

/* Does the other member keep the part that `x` names there? */
static bool named_is_kept(const struct join_member *m, const struct found *x,
        const struct join_member *other, uint64_t durts)
{
	if (durts < ring_tail(other->d)) /* INV-GU8 */
		return media_decided_kept(&other->parts->decided, durts);
	if (!other->recover || durts >= other->recovery->end ||
	        *verdict_of(other, durts) != INSPECT_KEPT)
		return false;
	const struct found *y = part_at(other->parts, durts);
	return y && same_update(m->parts, x, other->parts, y);
}

/* Are all other parts of the update kept, as far as the members are there? */
static bool others_are_kept(const struct join *j, const struct join_member *m, struct found *x)
{
	for (uint32_t k = 0; k < x->n; k++) {
		const struct media_part *named = &m->parts->named[x->first + k];
		const int place = j->place[named->member];
		if (k == x->mine || place == NO_MEMBER ||
		        named_is_kept(m, x, &j->members[place], named->durts))
			continue;
		x->refused = true;
		x->lost_in = named->member;
		return false;
	}
	return true;
}

/* INV-GU5.  Drop the parts of which another part is lost, and what depends on them. */
static int drop_parts(const struct join *j, struct join_member *m, bool *changed)
{
	bool mine = false;
	for (uint64_t k = 0; k < m->parts->n; k++) {
		struct found *x = &m->parts->found[k];
		uint8_t *verdict = verdict_of(m, x->durts);
		if (*verdict != INSPECT_KEPT || others_are_kept(j, m, x))
			continue;
		*verdict = INSPECT_DROPPED;
		mine = true;
	}
	*changed |= mine;
	return mine ? recovery_judge(m->recovery) : 0;
}

/* Verdicts only fall, so this ends. */
static int judge_together(const struct join *j)
{
	bool changed = true;
	int error = 0;
	while (changed && !error) {
		changed = false;
		for (unsigned k = 0; k < j->n && !error; k++)
			if (j->members[k].recover)
				error = fail_of(
				        j, &j->members[k], drop_parts(j, &j->members[k], &changed));
	}
	return error;
}

/* --------------------------------------------------------------- 3. refuse */

/* Does the member have the update that another one has seen? */
static int refuse_older(
        const struct join *j, const struct join_member *m, const struct join_member *by)
{
	const struct media_file file = durability_file(by->d);
	const uint64_t seen = media_seen(&file, m->member), tail = ring_tail(m->d);
	if (seen <= tail)
		return 0;
	if (!m->recover)
		return fail_older(j, m, by, tail);
	if (seen > m->recovery->end)
		return fail_older(j, m, by, m->recovery->end);
	return *verdict_of(m, seen - 1) == INSPECT_KEPT ? 0 : fail_older(j, m, by, seen - 1);
}

/* Does a part need what is not there? */
static int refuse_needy(const struct join *j, const struct join_member *m, const struct found *x)
{
	const struct media_file file = durability_file(m->d);
	for (uint32_t k = 0; k < x->n; k++) {
		const struct media_part *named = &m->parts->named[x->first + k];
		const int place = j->place[named->member];
		const struct join_member *other = place == NO_MEMBER ? NULL : &j->members[place];
		if (k == x->mine)
			continue;
		/* A heap that was closed has all that was ever drawn below its tail. */
		if (other && !other->recover && named->durts >= ring_tail(other->d))
			return fail_older(j, other, m, ring_tail(other->d));
		if (!other && *verdict_of(m, x->durts) == INSPECT_KEPT &&
		        named->durts >= media_seen(&file, named->member))
			return fail_needs(j, m, named, x->durts);
	}
	return 0;
}

static void note_damage(void *first, const struct inspect_damage *damage)
{
	if (*(uint64_t *)first == 0)
		*(uint64_t *)first = damage->durts;
}

/* The durTS of the part that is lost. */
static uint64_t lost_of(const struct join_parts *p, const struct found *x)
{
	const struct media_part *named = &p->named[x->first];
	while (named->member != x->lost_in)
		named++;
	return named->durts;
}

/* Did a part settle that is dropped now?  Then the member that lacks its part is older, or damaged:
 * to its own heap the part is as good as lost. */
static int refuse_unsettled(const struct join *j, const struct join_member *m)
{
	const struct recovery *w = m->recovery;
	const struct media_file file = durability_file(m->d);
	const uint64_t slots = m->d->super->ring_slots;
	uint64_t settled = 0, dropped = 0;
	uint8_t *verdicts = malloc(slots);
	if (!verdicts)
		return fail_memory();
	memcpy(verdicts, w->verdicts, slots);
	for (uint64_t k = 0; k < m->parts->n; k++)
		if (m->parts->found[k].refused) {
			verdicts[m->parts->found[k].durts - w->tail] = INSPECT_BROKEN;
			dropped++;
		}
	int error =
	        dropped ? inspect_find_damage(&file, w->tail, verdicts, note_damage, &settled) : 0;
	free(verdicts);
	if (error || !settled)
		return error;
	const struct found *x = part_at(m->parts, settled);
	return x ? fail_older(j, &j->members[j->place[x->lost_in]], m, lost_of(m->parts, x)) : 0;
}

static int refuse_member(const struct join *j, const struct join_member *m)
{
	int error = 0;
	for (unsigned k = 0; k < j->n && !error; k++)
		if (&j->members[k] != m)
			error = refuse_older(j, m, &j->members[k]);
	for (uint64_t k = 0; m->recover && k < m->parts->n && !error; k++)
		error = refuse_needy(j, m, &m->parts->found[k]);
	return error || !m->recover ? error : refuse_unsettled(j, m);
}

static struct group_decision decision_of(const struct join_member *m)
{
	return (struct group_decision){.tail = m->recovery->tail,
	        .to = m->recovery->tail + 2 * m->d->super->ring_slots,
	        .kept = m->parts->kept,
	        .any = m->parts->any};
}

/* A heap that was open alone since its tail was there has no parts above it. */
static bool decides(const struct join_member *m)
{
	return m->recover && group_opened_in_group(m->d);
}

/* Fill in the decision.  In a group without a member, the next recovery must have room for another
 * one: if it had none, the heap could never be recovered. */
static int plan_decision(const struct join *j, struct join_member *m)
{
	struct group_decision decision = {0};
	for (uint64_t k = 0; m->recover && k < m->parts->n; k++) {
		const uint64_t durts = m->parts->found[k].durts, at = durts - m->recovery->tail;
		if (*verdict_of(m, durts) != INSPECT_KEPT)
			continue;
		m->parts->kept[at / 64] |= UINT64_C(1) << at % 64;
		m->parts->any = true;
	}
	if (decides(m))
		decision = decision_of(m);
	return group_decision_fits(m->d, decides(m) ? &decision : NULL, !j->complete && !j->alone)
	               ? 0
	               : fail_full(j, m);
}

static int refuse_damage(struct join *j, struct join_member *m)
{
	(void)j;
	return recovery_refuse_damage(m->recovery);
}

static int refuse(struct join *j)
{
	int error = each(j, bytes_of_rings(j), refuse_damage);
	for (unsigned k = 0; k < j->n && !error; k++)
		error = refuse_member(j, &j->members[k]);
	for (unsigned k = 0; k < j->n && !error; k++)
		error = plan_decision(j, &j->members[k]);
	return error;
}

/* ---------------------------------------------------------------- 4 to 7 */

static int make_durable(struct join *j, struct join_member *m)
{
	(void)j;
	return recovery_make_durable(m->recovery);
}

/* Before the tail moves: what the kept parts name is settled, and who asks later learns which parts
 * are kept (INV-GU8). */
static int decide(struct join *j, struct join_member *m)
{
	(void)j;
	const struct group_decision decision = decision_of(m);
	for (uint64_t k = 0; k < m->parts->n; k++) {
		const struct found *x = &m->parts->found[k];
		for (uint32_t i = 0; i < x->n && *verdict_of(m, x->durts) == INSPECT_KEPT; i++)
			if (i != x->mine)
				group_note_seen_part(m->d, &m->parts->named[x->first + i]);
	}
	const int error = decides(m) ? group_note_decision(m->d, &decision) : 0;
	/* INV-GU8.  This drain puts the notes before the tail: another thread may take the next
	 * step, and its drains are not about our stores.  Without it, a power failure could keep
	 * the tail alone, and other members would take each part below it for kept. */
	return error ? error : pm_drain(&m->d->pm);
}

static int apply(struct join *j, struct join_member *m)
{
	(void)j;
	struct recovery *w = m->recovery;
	m->recovery = NULL;
	const int error = replay_recover_end(w);
	FUR_PROBE4(recovery, m->result.updates, m->result.holes, m->result.dropped, error);
	return error;
}

/* From now on parts may be drawn.  Durable before the first of them: otherwise the next recovery of
 * a heap that was open alone before would note no decision about them. */
static int note_open(const struct join *j)
{
	int error = 0;
	for (unsigned k = 0; k < j->n && !error && !j->alone; k++) {
		const struct join_member *m = &j->members[k];
		if (j->complete)
			group_free_decisions(m->d);
		error = fail_of(j, m, group_note_opened(m->d, MEDIA_OPENED_IN_GROUP));
	}
	return error;
}

/* ------------------------------------------------------------------- all */

static int decide_all(struct join *j)
{
	int error = 0;
	for (unsigned k = 0; k < j->n && !error; k++)
		if (!j->members[k].recover)
			error = fail_of(j, &j->members[k], replay_check_closed(j->members[k].d));
	if (!error)
		error = each(j, bytes_of_rings(j), examine);
	if (!error)
		error = judge_together(j);
	return error ? error : refuse(j);
}

static int join_steps(struct join *j)
{
	int error = decide_all(j);
	for (unsigned k = 0; k < j->n && error; k++)
		if (j->members[k].recovery)
			recovery_take_mends_back(j->members[k].recovery);
	/* INV-GU8.  All of them, before the first decision: a decision is about the others' parts
	 * as well.  If one of these could still be lost, one heap would have kept an update that
	 * another gives up. */
	if (!error)
		error = each(j, bytes_of_logs(j), make_durable);
	if (!error)
		error = each(j, bytes_of_logs(j), decide);
	if (!error)
		error = each(j, bytes_of_logs(j), apply);
	return error ? error : note_open(j);
}

static void member_end(struct join_member *m)
{
	if (m->recovery)
		replay_recover_give_up(m->recovery);
	if (m->parts) {
		free(m->parts->found);
		free(m->parts->named);
		free(m->parts->kept);
		free(m->parts);
	}
	free(m->message);
	m->recovery = NULL;
	m->parts = NULL;
	m->message = NULL;
}

static int member_begin(struct join *j, unsigned k)
{
	struct join_member *m = &j->members[k];
	const struct media_file file = durability_file(m->d);
	FUR_ASSERT(media_is_member(m->d->super) && m->member < MEDIA_MEMBERS_MOST);
	FUR_ASSERT(m->d->super->more.group_member == m->member && j->place[m->member] == NO_MEMBER);
	m->parts = calloc(1, sizeof *m->parts);
	m->recovery = NULL;
	m->message = NULL;
	m->error = 0;
	memset(&m->result, 0, sizeof m->result);
	if (!m->parts)
		return fail_memory();
	media_read_decisions(&file, &m->parts->decided);
	j->place[m->member] = (int)k;
	return 0;
}

static int join_all(struct join *j)
{
	int error = 0;
	unsigned begun = 0;
	for (unsigned k = 0; k < MEDIA_MEMBERS_MOST; k++)
		j->place[k] = NO_MEMBER;
	while (begun < j->n && !error)
		error = member_begin(j, begun++);
	if (!error)
		error = join_steps(j);
	for (unsigned k = 0; k < begun; k++)
		member_end(&j->members[k]);
	return error;
}

int replay_join(struct join_member *members, unsigned n, bool complete)
{
	struct join j = {.members = members, .n = n, .complete = complete};
	FUR_ASSERT(n > 0);
	return join_all(&j);
}

int replay_alone(struct durability *d, struct replay_result *result)
{
	struct join_member m = {.d = d, .member = d->super->more.group_member, .recover = true};
	struct join j = {.members = &m, .n = 1, .alone = true};
	const int error = join_all(&j);
	*result = m.result;
	return error;
}

/* A member of a group, by itself. */
static int unless_closed_alone(struct durability *d, struct replay_result *result, bool recover)
{
	const int error = recover ? replay_alone(d, result) : replay_check_closed(d);
	return error ? error : group_note_opened(d, MEDIA_OPENED_ALONE);
}

int replay_unless_closed(struct durability *d, struct replay_result *result, bool *recovered)
{
	memset(result, 0, sizeof *result);
	*recovered = d->words->state != MEDIA_CLOSED;
	const int error = replay_may_recover(d);
	if (error)
		return error;
	if (media_is_member(d->super))
		return unless_closed_alone(d, result, *recovered);
	return *recovered ? replay_recover(d, result) : replay_check_closed(d);
}
