/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group.h - a group of heaps: its members, its threads, and the gate of its updates.  The contract
 * of src/group: updates over several heaps.
 *
 *   INV-GM1  The group's file says that a heap joins, or leaves, before the heap's superblock
 *            changes, and that it has, after that.  So whatever the moment of a failure, the next
 *            open knows what to complete.
 *   INV-GM2  Who has the group open holds a lock on the group's file, also while that is replaced:
 *            the new one is locked before it gets the name.
 *   INV-GM4  Only the thread itself reads and changes its fur_group_thread.of, so it needs no mutex
 *            for that.  An entry is a registration that has not ended, and so no other thread
 *            closes that heap: who ends the registration resets the entry before.
 */
#ifndef FUR_GROUP_GROUP_H
#define FUR_GROUP_GROUP_H

#include "api/heap.h"
#include "base/event.h"
#include "group/batch.h"
#include "update/together.h"
#include <fur_group.h>

/* In the group's file.  INV-GM1 is about JOINING and LEAVING. */
enum group_state { GROUP_NONE, GROUP_MEMBER, GROUP_JOINING, GROUP_LEAVING, GROUP_REMOVED };

struct group_member {
	struct fur_heap *heap; /* open; NULL: none, or missing */
	char *path;            /* as the group's file has it; NULL: there is no such member */
	uint8_t uuid[16];
	enum group_state state;
	bool taken; /* fur_group_remove() has closed it, and goes on, or has failed later */
};

struct fur_group {
	char *path;
	uint8_t id[16]; /* random */
	uint32_t most;  /* members that it can have */
	uint64_t limit; /* one more than the greatest index of a member; set with release */
	/* struct media_parts.id of the next update: random when the group is opened, and then
	 * counted with arch_fetch_add() */
	uint64_t next_update_id;
	struct group_member *members; /* [most] */
	int fd;                       /* the group's file, locked (INV-GM2); or -1 */
	struct fur_options options;   /* for members that are opened */
	pid_t owner;                  /* the process that opened it */
	bool forked;                  /* this process is a child of that one */
	/* Thread-specific: the thread's registration; the key's destructor ends it */
	pthread_key_t self;
	/* One thread at a time changes the members and the file, or copies them; taken before
	 * `mutex` */
	pthread_mutex_t changing;
	pthread_mutex_t mutex;            /* protects `members` and `threads`; held for short */
	struct fur_group_thread *threads; /* registered */
	struct fur_group *next_open;
	/* The gate of group updates: group_gate_enter() */
	uint64_t gate_shut ARCH_PADDED; /* 1: updates over several members wait */
	uint32_t gate_opened;           /* event: gate_shut is 0 */
	/* Who shuts the gate makes the fences of those that enter (arch_lend_fences); set when the
	 * group is opened */
	bool lends;
	struct group_batches batches;
};

/* An update over several members (run.c). */
struct fur_group_update {
	struct together together; /* first: its gate() gets it */
	struct fur_group_thread *thread;
	void (*body)(fur_group_update *, void *);
	void *arg;
};

/* A thread's registration with a group. */
struct fur_group_thread {
	struct fur_group *group;
	const struct this_thread *owner; /* this_thread() of the thread that has registered */
	/* The thread's registrations with members: of those that it has touched, until they
	 * end (INV-GM4) */
	struct fur_thread *of[FUR_GROUP_MOST_MEMBERS];
	struct fur_group_thread *next;
	struct fur_group_update update;
	/* 1 between group_gate_enter() and group_gate_leave() */
	uint64_t inside ARCH_PADDED;
};

/* ----------------------------------------------------- open groups (groups.c) */

/* Add a group to the list of those that this process has open.   Errors: FUR_ENOMEM. */
FUR_MUST_USE int groups_add(struct fur_group *g);
/* Take it off the list, unless a thread is registered with it.
 * Errors, without a message: FUR_EINVAL (it is not open; `g` may be no group at all), FUR_EBUSY. */
int groups_remove(struct fur_group *g);

/* Put a registration on its group's list; take it off that. */
void group_note_thread(struct fur_group_thread *t);
void group_forget_thread(const struct fur_group_thread *t);

/* The calling thread ends, and its registration with it: take that off its group, if the group is
 * still open.  Returns false if not: then `t` may point to freed memory. */
bool groups_forget_thread(const struct fur_group_thread *t);

/* Is the group on the list?  `g` may be no group at all. */
bool groups_has(const struct fur_group *g);

/* Refuse a group that a child of fork() has from its parent.   Errors: FUR_EFORK. */
FUR_MUST_USE int group_check_fork(struct fur_group *g);

/* -------------------------------------------------------------- threads (thread.c) */

void group_thread_ended(void *thread); /* the destructor of `self` */

/* May the calling thread use this registration?
 * Errors: FUR_EINVAL (NULL, or another thread's), FUR_EFORK. */
FUR_MUST_USE int group_check_thread(const fur_group_thread *t, const char *function);

/* The thread's registration with a member; registers it when it touches the member first.  The
 * caller has checked `t`.
 * Errors: FUR_EINVAL: there is no such member; FUR_ENOENT: it is missing; those of
 * fur_thread_register(). */
FUR_MUST_USE int group_touch(
        struct fur_group_thread *t, unsigned member, struct fur_thread **thread);

static inline bool group_update_is_open(const struct fur_group_update *u)
{
	/* INV-GM4: the heap of a registration that has ended may be closed. */
	return u->together.n &&
	       u->thread->of[u->together.parts[0].member] == u->together.parts[0].thread &&
	       u->together.parts[0].thread->together == &u->together;
}

/* ------------------------------------------------------------------ run.c */

/* Run body(update, arg) as a serial update over the members, in a thread of libfur's.  visible():
 * see struct together.   Errors: those of fur_group_run(). */
FUR_MUST_USE int group_run_serial(struct fur_group_thread *t, const unsigned *members, unsigned n,
        void (*body)(struct fur_group_update *update, void *arg), void *arg,
        void (*visible)(struct together *g));

/* ------------------------------------------------------------------ group.c */

/* The path of a file that may not exist, through the real path of its directory: it leads there
 * also when the program has changed its directory.  The caller frees *whole.
 * Errors: FUR_EINVAL, FUR_ENOMEM, FUR_ESYS. */
FUR_MUST_USE int group_whole_path(const char *path, char **whole);

/* The end of the path, relative to the group's file, if the heap lies in its directory or below;
 * else all of it.  Both are whole paths. */
const char *group_relative_path(const struct fur_group *g, const char *whole);

/* ------------------------------------------------------------ members (members.c) */

/* Where a member's file is; the caller frees it.  NULL: no memory, with a message. */
char *group_member_path(const struct fur_group *g, unsigned member);

/* Is this heap the member?   Errors: FUR_EGROUP. */
FUR_MUST_USE int group_check_member(
        const struct fur_group *g, unsigned member, const struct heap_file *file);

/* There is no such member any more, or there never was.  Keeps nothing of it but the state. */
void group_forget_member(struct fur_group *g, unsigned member, enum group_state state);

/* Complete what a crash has interrupted (INV-GM1); open all members, recover them together, and let
 * updates begin.   Errors: those of fur_group_open(); then none is open. */
FUR_MUST_USE int group_open_members(struct fur_group *g, bool partial);

/* Recover a heap that joins, if it was not closed, as part of a group. */
FUR_MUST_USE int group_recover(struct fur_heap *heap, struct replay_result *replayed);

/* ------------------------------------------------------------------ gate (gate.c) */

/* A group update is inside from before its first draw until it is settled in all members; inside,
 * it does not call group_touch().  fur_group_backup() shuts the gate: then no part is unsettled in
 * any member, and none is drawn.
 *
 *   INV-GM3  When group_gate_shut() has returned, every group update whose group_gate_enter() has
 *            returned has left. */
void group_gate_wait(struct fur_group_thread *t);

static inline void group_gate_enter(struct fur_group_thread *t)
{
	struct fur_group *g = t->group;
	/* A full fence orders the store before the load.  Otherwise this thread might not see the
	 * gate shut, and the thread that shuts it not see this one inside.  It costs 5 % of a small
	 * update, for a gate that is hardly ever shut: so who shuts it makes the fence. */
	if (likely(g->lends)) {
		arch_store(&t->inside, 1);
		arch_fence_light();
	} else {
		arch_store_fence(&t->inside, 1);
	}
	if (unlikely(arch_load(&g->gate_shut)))
		group_gate_wait(t);
}

static inline void group_gate_leave(struct fur_group_thread *t)
{
	/* Release: who finds this thread outside sees what its update has settled. */
	arch_store_release(&t->inside, 0);
}

/* The caller holds `changing`.
 * Errors:  FUR_ESYS: the system refuses the fence; the gate is open. */
FUR_MUST_USE int group_gate_shut(struct fur_group *g);
void group_gate_open(struct fur_group *g);

#endif /* FUR_GROUP_GROUP_H */
