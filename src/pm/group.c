/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group.c - group commit (group.h).
 */
#include "pm/group.h"
#include "base/arch.h"
#include "base/error.h"
#include "base/event.h"
#include "base/remedy.h"
#include "base/system.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

int group_init(struct group_commit *g, int fd)
{
	memset(g, 0, sizeof *g);
	g->fd = fd;
	g->open = 1;
	g->penalty = 1;
	if (pthread_mutex_init(&g->mutex, NULL))
		return fur_fail(FUR_ENOMEM, "no memory for a mutex: free some memory");
	return 0;
}

void group_fini(struct group_commit *g)
{
	pthread_mutex_destroy(&g->mutex);
}

/* ------------------------------------------------------------ writing, syncing */

enum {
	WAIT_PART = 2, /* wait for members for this part of a sync, at most */
};
enum { PIECES = 64 }; /* that one system call writes; POSIX allows 1,024 on Linux */
_Static_assert((int)PIECES <= IOV_MAX, "");

/* Write the requests, neighbours in the file by one system call. */
static int write_requests(int fd, const struct group_request *r)
{
	struct iovec pieces[PIECES];
	int error = 0;
	while (r && !error) {
		uint64_t offset = r->offset, end = offset;
		int n = 0;
		for (; r && n < PIECES && r->offset == end; r = r->next) {
			pieces[n++] = (struct iovec){(void *)(uintptr_t)r->from, r->bytes};
			end += r->bytes;
		}
		error = system_write_pieces(fd, pieces, n, offset);
	}
	return error;
}

/* Call the process that takes what is written: what it does with it need not wait for the sync. */
static void call_sleeper(const struct group_sleeper *s)
{
	/* Full fence: orders our writes before the look at `asleep`.  The other process sets that,
	 * and looks at the file once more.  Without the fence neither might see the other; but its
	 * members call it as well, after the sync, so it would only be late. */
	arch_fence();
	if (arch_load32(s->asleep)) {
		arch_store32(s->asleep, 0);
		event_wake_all_shared(s->calls);
	}
}

static int write_and_sync(struct group_commit *g, const struct group *group)
{
	int error = write_requests(g->fd, group->first);
	if (!error && g->sleeper.asleep)
		call_sleeper(&g->sleeper);
	return error ? error : system_sync_data(g->fd);
}

/* ------------------------------------------------------------------ members */

/* Insert the request behind those with smaller offsets.  Threads draw their slots in the order in
 * which they come here, nearly, so a group is nearly sorted; but it is short anyway. */
static void add_request(struct group *group, struct group_request *r)
{
	struct group_request **place = &group->first;
	while (*place && (*place)->offset < r->offset)
		place = &(*place)->next;
	r->next = *place;
	*place = r;
}

static struct group *join(struct group_commit *g, struct group_request *r)
{
	struct group *group = &g->groups[g->open & 1];
	if (r->bytes)
		add_request(group, r);
	arch_store32(&group->back, group->back + (r->group && r->group == g->open - 1));
	group->members++;
	r->group = g->open;
	return group;
}

/* May the open group go?  Not while another one syncs.  The members of the group before come back
 * soon if they have nothing else to do; without a wait for them, two groups would take turns, each
 * with half of the threads. */
static bool may_go(const struct group_commit *g, const struct group *group, uint64_t now)
{
	return !g->syncing && (g->skip || group->back >= g->last_members || now >= g->wait_until);
}

/* How long may the first member sleep until it must look again? */
static uint64_t nap(const struct group_commit *g, uint64_t now)
{
	uint64_t until = g->syncing ? g->began + g->sync_ns + g->sync_ns / WAIT_PART
	                            : g->wait_until,
	         least = g->sync_ns / 8 + 1;
	return until > now + least ? until - now : least;
}

/* Was it worth while to wait for members?  If not, let the next groups go without. */
static void learn(struct group_commit *g, const struct group *group)
{
	enum { MOST_PENALTY = 64 };
	if (g->skip) {
		g->skip--;
	} else if (group->back > g->last_members / 2) {
		g->penalty = 1;
	} else {
		g->skip = g->penalty;
		g->penalty = g->penalty < MOST_PENALTY ? 2 * g->penalty : MOST_PENALTY;
	}
}

/* Called with the mutex locked. */
static void note_error(struct group_commit *g, int error)
{
	if (error && !g->error)
		__atomic_store_n(&g->error, error, __ATOMIC_RELAXED);
}

/* End the sync of a group: wake only its members, and one member of the open group if that may go
 * at once.  Called with the mutex locked; unlocks it. */
static void end_group(struct group_commit *g, struct group *group, uint64_t now, int error)
{
	enum { PART = 8 };
	struct group *next = &g->groups[g->open & 1];
	const uint64_t took = now - g->began;
	note_error(g, error);
	g->sync_ns = g->sync_ns ? g->sync_ns - g->sync_ns / PART + took / PART : took;
	g->wait_until = now + g->sync_ns / WAIT_PART;
	g->last_members = group->members;
	g->syncing = false;
	const bool hand_over = next->members && may_go(g, next, now);
	/* Release: a member that sees `ended` also sees the error. */
	arch_store_release(&g->ended, g->ended + 1);
	pthread_mutex_unlock(&g->mutex);
	if (hand_over)
		event_wake_one(&next->over);
	event_wake_all(&group->over);
}

/* Close the group, write and sync.  Called with the mutex locked; unlocks it. */
static void lead(struct group_commit *g, struct group *group, uint64_t now)
{
	learn(g, group);
	g->syncing = true;
	/* INV-GC1: a thread that joins from now on is in the next group. */
	g->open++;
	struct group *next = &g->groups[g->open & 1];
	next->first = NULL;
	next->members = next->back = 0;
	int error = g->error;
	g->began = now;
	pthread_mutex_unlock(&g->mutex);
	if (!error)
		error = write_and_sync(g, group);
	now = arch_now_ns();
	pthread_mutex_lock(&g->mutex);
	end_group(g, group, now, error);
}

/* Return when the group's sync has ended.  Any member that is awake leads the group when it may go:
 * usually the one that comes last, so no member has to wake a leader.  The first member looks after
 * a while by itself (INV-GC3).  Called with the mutex locked; unlocks it. */
static void await_group(struct group_commit *g, struct group *group, uint64_t mine)
{
	const bool first = group->members == 1;
	/* Acquire pairs with the release in end_group(). */
	while (arch_load_acquire(&g->ended) < mine) {
		const uint64_t now = arch_now_ns();
		if (g->open == mine && may_go(g, group, now)) {
			lead(g, group, now);
			return;
		}
		const uint64_t ns = first && g->open == mine ? nap(g, now) : 0;
		/* INV-EV1: what we have looked at changes under the mutex, so it is as it was. */
		const uint32_t ticket = event_prepare(&group->over);
		pthread_mutex_unlock(&g->mutex);
		event_wait(&group->over, ticket, ns);
		pthread_mutex_lock(&g->mutex);
	}
	pthread_mutex_unlock(&g->mutex);
}

static int fail(int error)
{
	return error ? fail_system(FUR_EIO, CALL_SYNC, error,
	                       "updates can no longer be made durable: close the heap, mend that, "
	                       "open it again",
	                       "cannot write or sync the heap file")
	             : 0;
}

int group_write(struct group_commit *g, uint64_t offset, const void *from, uint64_t bytes)
{
	int cancel, error;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* see group_sync() */
	error = bytes ? system_write(g->fd, from, bytes, offset) : 0;
	if (error) {
		pthread_mutex_lock(&g->mutex);
		note_error(g, error);
		pthread_mutex_unlock(&g->mutex);
	}
	pthread_setcancelstate(cancel, &cancel);
	return fail(error);
}

void group_start(struct group_commit *g, struct group_request *r)
{
	if (group_write(g, r->offset, r->from, r->bytes) == 0)
		system_start_write(g->fd, r->offset, r->bytes);
	r->bytes = 0;
}

int group_sync(struct group_commit *g, struct group_request *r)
{
	int cancel;
	/* Writing and syncing are cancellation points.  If the thread were cancelled here, its
	 * update would never leave nondurable[], and its group would never end. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&g->mutex);
	struct group *group = join(g, r);
	await_group(g, group, g->open);
	int error = __atomic_load_n(&g->error, __ATOMIC_RELAXED);
	pthread_setcancelstate(cancel, &cancel);
	return fail(error);
}
