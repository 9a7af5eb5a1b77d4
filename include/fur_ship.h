/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_ship.h - heaps whose updates are shipped to other machines: read at a standby, read one's own
 * writes there, and let a standby take over.  docs/shipping.md has the whole.
 *
 * The *primary* is the heap that programs update, and fur-ship beside it ships its updates to a
 * log.  A *standby* is a copy of it, made by fur-copy --for-standby.  The process that has the
 * standby open follows the log: its threads read the heap as it was at the primary between two
 * updates, a little later.  They begin read-only transactions, snapshots and copies as in any heap;
 * the begin of an update fails with FUR_EREADONLY.
 *
 * A *lineage* is one uninterrupted series of updates, which one file has counted.  A fail-over
 * begins the next one.
 */
#ifndef FUR_SHIP_API_H
#define FUR_SHIP_API_H

#include <fur.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------- follow */

struct fur_follower;
typedef struct fur_follower fur_follower; /* a thread of libfur that follows the log */

/* Options for fur_follow().  Zero means the default. */
struct fur_follow_options {
	size_t size; /* sizeof(struct fur_follow_options): "Structs that grow" in fur.h */
	/* Settings for the client of the log: "KEY=VALUE" texts, up to a NULL; default none.
	 * libfur copies them */
	const char *const *settings;
	/* Report rare events: that the log cannot be reached, and that it can again; why the
	 * follower has ended; a promotion.  The follower's thread calls it, under the rules of
	 * fur_options.reader_report; `message` is one line, valid during the call */
	void (*log)(enum fur_log_level level, const char *message, void *arg);
	void *log_arg;
	/* In milliseconds: how long fur_take_over() waits for the log.  Default 10,000 */
	uint32_t patience_ms;
};

/* fur_follow - start a thread of libfur that follows the log whose name the standby has, from where
 * the heap is.  `options` may be NULL: all defaults.  The thread registers with the heap.
 * It tries again while the log cannot be reached, is not there, or refuses this client, and while
 * memory or the disk is short.  It ends when a setting is wrong (FUR_EINVAL), when the log is not
 * what it was (FUR_ECORRUPT), has frames of a newer libfur (FUR_EVERSION), or an update
 * that the standby's logs are too short for (FUR_ETOOBIG); when another thread follows for this
 * heap (FUR_EBUSY); and when the heap has failed.  fur_get_follow_state() tells.
 * Durable: each update before readers can find it, together with how far the heap is.  So after a
 *          crash it follows on from there, and applies each update once.
 * Errors:  FUR_EINVAL: the heap is no standby, or it follows already; FUR_ECORRUPT (the ship page);
 *          FUR_ENOMEM; FUR_ESYS; FUR_EFORK.  *follower is NULL then. */
FUR_API FUR_MUST_USE int fur_follow(
        fur_heap *heap, const struct fur_follow_options *options, fur_follower **follower);

/* fur_unfollow - end the thread, and free the follower.  Call it before fur_close().  Other threads
 * may wait in fur_wait_token(), but not use the follower.
 * Errors:  FUR_EINVAL for NULL; FUR_EFORK. */
FUR_API int fur_unfollow(fur_follower *follower);

/* How far a follower is.  The times are CLOCK_MONOTONIC in nanoseconds; 0: not yet.
 * A standby is as fresh as `caught_up_ns` says, and no fresher: the log may have had more a moment
 * later.  The log knows messages and not what is in them, so there is no lag in updates. */
struct fur_follow_state {
	size_t size; /* sizeof(struct fur_follow_state): "Structs that grow" in fur.h */
	/* The newest update that readers find, as its primary counts them; durts 0: none of this
	 * lineage */
	uint64_t lineage, durts;
	uint64_t term, frame; /* of the stream, as far as it has been read */
	uint64_t node;        /* the node that wrote it: the newest claim's; 0: none has claimed */
	uint64_t own_node;    /* this heap's own */
	/* Messages that the log had and the follower had not read, when it last looked; UINT64_MAX:
	 * it has not been able to look */
	uint64_t unread;
	uint64_t caught_up_ns; /* when it last had read everything that the log had */
	uint64_t heard_ns;     /* when it last read a message of the stream's writer */
	/* Since when the log has answered and had no message of the writer; 0: it has one, or does
	 * not answer.  A writer that lives writes one every 500 ms (fur-ship --beat) */
	uint64_t silent_ns;
	uint64_t heir;     /* the node that the writer has asked to take over, or 0 */
	bool follows;      /* the thread goes on */
	bool promoted;     /* fur_take_over() has succeeded */
	int error;         /* why it has ended, or what it tries again after; 0: nothing */
	char message[256]; /* the same in words */
};

/* fur_get_follow_state - how far the follower is.  Any thread may call it, at any time.
 * Errors:  FUR_EINVAL for NULL, or for state->size; FUR_EFORK. */
FUR_API FUR_MUST_USE int fur_get_follow_state(
        const fur_follower *follower, struct fur_follow_state *state);

/* fur_take_over - promote the standby: let it take the primary's place.
 * It claims the log, which fences the primary: nothing that the old one ships from then on counts.
 * It applies everything in the log before the claim.  Then it writes to the file that the heap is a
 * primary.  After return the heap can be read as before, and the follower has ended.  End it by
 * fur_unfollow(), and close and open the heap: then it is a primary, which fur-ship ships, and
 * which programs update.
 * `term` is that of the writer to be replaced, as fur_follow_state.term was when the caller
 * decided.  So of several standbys that find the primary silent, one takes over.  0: that of the
 * writer now.
 * Lost:    of the old primary, what it had not shipped.  No update that returned in a heap with
 *          FUR_ACK_REPLICATED, no token for which fur_wait_token() has returned 0.
 * Crash:   before the claim is in the log, nothing has happened.  After it the old primary is
 *          fenced, and the heap is a standby still, until it is durably a primary: call
 *          fur_take_over() again (fur-standby does).  fur-ship recovers a primary that was not
 *          closed.
 * Durable: the claim, all updates before it, and the role, before return.
 * Waits:   for the log, as long as options->patience_ms says.
 * Errors:  FUR_EFENCED: another node has claimed the log since: follow that one; FUR_EBEHIND: the
 *          log does not answer in time; the claim may be in it, or get there; those of the
 *          follower, and of the disk for the ship page.  The heap is a standby then, and follows
 *          on.  FUR_EINVAL: NULL, or promoted already; FUR_ENESTED; FUR_EFORK. */
FUR_API FUR_MUST_USE int fur_take_over(fur_follower *follower, uint64_t term);

/* ------------------------------------------------------------------- tokens */

/* A token stands for all updates up to one.  A program hands it from the machine where it has
 * written to the one where it reads, as the 16 bytes that it is, or as two numbers.  All zero: the
 * state before any update. */
typedef struct fur_token {
	uint64_t lineage;
	uint64_t durts;
} fur_token;

/* fur_get_token - a token for all that the calling thread's transactions on this heap have stored
 * or read, and ended.  It waits until that is durable here, as fur_sync() does.  A program that
 * waits for the token at a standby finds all of it there.  At a standby itself, the token is for
 * what readers find there now: with it, a program that goes on to another standby reads nothing
 * older.
 * Errors:  FUR_EINVAL: NULL, or the heap is not shipped; FUR_EBEHIND: no fur-ship has worked for
 *          this heap since it was opened, and that tells the lineage; FUR_EFENCED; FUR_ENESTED;
 *          FUR_EFORK; the code for which the heap has failed. */
FUR_API FUR_MUST_USE int fur_get_token(fur_thread *thread, fur_token *token);

/* fur_wait_token - wait until what the token stands for is there.
 * At a standby: until read-only transactions that begin after the return find it.
 * At the primary: until the log has acknowledged it.  So a program with FUR_ACK_LOCAL can wait for
 * the updates that need it: get a token, and wait for it.  Then no fail-over loses them.
 * Any thread may call it, registered or not.
 * It waits for `timeout_ms` milliseconds at most; with 0 it looks, and returns at once.
 * Errors:  FUR_EBEHIND: not there yet; FUR_ELOST: the token's lineage has ended, and what it stands
 *          for was not all in the log; or the heap cannot tell where that lineage ended, because it
 *          has not followed the log at that time; FUR_EINVAL: NULL, the heap is not shipped, or it
 *          is a standby that has no follower; FUR_ENESTED; FUR_EFORK; the code for which the heap
 *          has failed. */
FUR_API FUR_MUST_USE int fur_wait_token(
        fur_heap *heap, const fur_token *token, uint32_t timeout_ms);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* FUR_SHIP_API_H */
