/* SPDX-License-Identifier: BSD-3-Clause
 *
 * standby.c - fur_follow(): a thread of libfur that follows the log of a standby's primary, and
 * promotes the standby (fur_ship.h).
 *
 * Way 21, a thread follows:
 *
 *     follower_main()       until it is stopped, or fails for good, or has promoted the heap
 *       serve()             one connection to the log
 *         connect()         opens the log, and begins at the heap's position
 *         turn()            follow_step(), and tells the others: publish()
 *         take_over()       if it is asked to
 *           promote_claim() becomes the stream's writer
 *           catch_up()      applies what came before the claim
 *           promote_file()  makes the file a primary
 *       pause_for()         before it tries again
 *
 * fur_heap.standby.mutex protects what the thread shares with its callers: the state, and the
 * question whether to take over.
 */
#include "api/heap.h"
#include "base/error.h"
#include "base/event.h"
#include "base/remedy.h"
#include "base/struct.h"
#include "base/thread.h"
#include "media/applied.h"
#include "ship/engine_open.h"
#include "ship/promote.h"

#include <fur_ship.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	STEP = 16, /* messages between two looks at what callers want */
	DEFAULT_PATIENCE_MS = 10000,
	MOST_SETTINGS = 256,
	/* At the log's end, it looks again after this time, which doubles */
	REST_LEAST_NS = 500000,
	REST_MOST_NS = 8000000,
	RETRY_NS = 100000000, /* after an error */
	LOOK_NS = 100000000   /* between two questions where the log ends, while there is more */
};

/* A caller's question, and the answer. */
enum question { NONE, ASKED, ANSWERED };

struct fur_follower {
	struct fur_heap *heap;
	pthread_t thread;
	uint32_t calls; /* event: `stopping`, or a question */
	uint32_t stopping;
	/* Of the thread alone, after its start */
	struct media_ship page;
	char **settings; /* up to a NULL, or NULL */
	void (*log)(enum fur_log_level level, const char *message, void *arg);
	void *log_arg;
	struct stream_engine *engine; /* or NULL */
	struct follower *follower;    /* or NULL */
	uint64_t rest_ns, look_ns;
	/* Under the mutex */
	enum question question;
	uint64_t until_ns; /* of the question */
	uint64_t term;     /* of the writer to be replaced; 0: the one that writes */
	uint64_t patience_ns;
	int answer;
	char answer_text[256];
	uint64_t valid; /* messages that count, as last seen */
	struct fur_follow_state state;
};

static void lock(const struct fur_follower *x)
{
	pthread_mutex_lock(&x->heap->standby.mutex);
}

/* The shared state has changed. */
static void unlock_and_tell(const struct fur_follower *x)
{
	pthread_mutex_unlock(&x->heap->standby.mutex);
	event_wake_all(&x->heap->standby.moved);
}

static void unlock(const struct fur_follower *x)
{
	pthread_mutex_unlock(&x->heap->standby.mutex);
}

static bool stops(const struct fur_follower *x)
{
	return arch_load32_acquire(&x->stopping);
}

static bool is_asked(const struct fur_follower *x)
{
	lock(x);
	const bool asked = x->question == ASKED;
	unlock(x);
	return asked;
}

/* Until then, or until a caller wants something. */
static void pause_for(struct fur_follower *x, uint64_t ns)
{
	const uint32_t ticket = event_prepare(&x->calls);
	if (!stops(x) && !is_asked(x)) /* INV-EV1 */
		event_wait(&x->calls, ticket, ns);
}

static void say(const struct fur_follower *x, enum fur_log_level level, const char *text)
{
	if (x->log)
		x->log(level, text, x->log_arg);
}

/* ------------------------------------------------------------------- state */

/* The log's end is known: `unread` messages are behind what is read. */
static void note_end(struct fur_follow_state *s, uint64_t unread, uint64_t now)
{
	s->unread = unread;
	if (unread)
		return;
	s->caught_up_ns = now;
	if (!s->silent_ns)
		s->silent_ns = now;
}

/* How many messages follow, if that is worth a question. */
static uint64_t count_unread(struct fur_follower *x, int n, uint64_t next, uint64_t now)
{
	uint64_t end;
	if (n < STEP) /* it has met the end */
		return 0;
	if (now - x->look_ns < LOOK_NS)
		return x->state.unread;
	x->look_ns = now;
	if (x->engine->ops->end(x->engine, &end))
		return UINT64_MAX;
	return end > next ? end - next : 0;
}

/* For messages of other processes. */
static void tell_others(const struct fur_follower *x, const struct media_standby *at)
{
	struct control *c = x->heap->durability.control;
	struct control_follow *to = &c->ship.follow;
	arch_store(&to->term, at->term);
	arch_store(&to->lineage, at->lineage);
	arch_store(&to->frame, at->frame);
	arch_store(&to->offset, at->offset);
	arch_store(&to->durts, at->durts);
	arch_store(&to->unread, at->unread);
	arch_store(&to->heard_ns, at->heard_ns);
	/* Release: orders the words above before this one, for media_standby_read().  Without it an
	 * earlier follower's would be shown as this one's. */
	arch_store32_release(&to->session, arch_load32(&c->opened));
}

/* Before the log is reached: what the heap has. */
static void tell_begin(const struct fur_follower *x)
{
	const struct fur_heap *heap = x->heap;
	struct media_standby at;
	media_standby_read(heap->durability.control, header(heap->file.base), &x->page, false, &at);
	at.unread = UINT64_MAX;
	tell_others(x, &at);
}

static void tell_unread(const struct fur_follower *x)
{
	arch_store(&x->heap->durability.control->ship.follow.unread, x->state.unread);
}

static void tell_end(const struct fur_follower *x)
{
	arch_store32_release(&x->heap->durability.control->ship.follow.session, 0);
}

/* All messages that were read are applied; the last step read `n`. */
static void publish(struct fur_follower *x, int n)
{
	struct standby *to = &x->heap->standby;
	struct fur_follow_state *s = &x->state;
	struct follow_view view;
	const uint64_t now = arch_now_ns();
	follow_look(x->follower, &view);
	const uint64_t unread = count_unread(x, n, view.next, now);
	lock(x);
	if (view.valid != x->valid) {
		x->valid = view.valid;
		s->heard_ns = now;
		s->silent_ns = 0;
	}
	note_end(s, unread, now);
	s->lineage = to->lineage = view.lineage;
	s->durts = to->durts = view.durts;
	memcpy(to->ended, view.ended, sizeof to->ended);
	to->known = true;
	s->term = view.term;
	s->frame = view.frame;
	s->node = view.node;
	s->heir = view.heir;
	unlock_and_tell(x);
	const struct media_standby at = {.term = view.term,
	        .lineage = view.lineage,
	        .frame = view.frame,
	        .offset = view.next ? view.next - 1 : STREAM_NO_OFFSET,
	        .durts = view.durts,
	        .unread = unread,
	        .heard_ns = s->heard_ns};
	tell_others(x, &at);
}

/* The log works, perhaps again. */
static void forget_error(struct fur_follower *x)
{
	if (!x->state.error) /* no other thread stores to it */
		return;
	lock(x);
	x->state.error = 0;
	x->state.message[0] = 0;
	unlock_and_tell(x);
	say(x, FUR_LOG_INFO, "the shipping log works again");
}

/* Keep the thread's last error, and report it, if it is another one. */
static void note_error(struct fur_follower *x, int error, bool final)
{
	struct fur_follow_state *s = &x->state;
	lock(x);
	const bool again = s->error == error;
	s->error = error;
	snprintf(s->message, sizeof s->message, "%s", fur_errormsg());
	s->silent_ns = 0;
	s->unread = UINT64_MAX;
	unlock_and_tell(x);
	tell_unread(x);
	if (final)
		say(x, FUR_LOG_ERROR, s->message);
	else if (!again)
		say(x, FUR_LOG_WARNING, s->message);
}

static void answer(struct fur_follower *x, int error)
{
	lock(x);
	if (x->question == ASKED) {
		x->question = ANSWERED;
		x->answer = error;
		snprintf(x->answer_text, sizeof x->answer_text, "%s", error ? fur_errormsg() : "");
	}
	unlock_and_tell(x);
}

/* --------------------------------------------------------------- connection */

static int connect(struct fur_follower *x)
{
	int error =
	        engine_open(x->page.log, ENGINE_READ, (const char *const *)x->settings, &x->engine);
	if (!error)
		error = follow_begin(x->engine, x->heap, &x->follower);
	if (error)
		return error;
	lock(x);
	x->valid = 0;
	unlock(x);
	publish(x, STEP); /* what the heap has */
	return 0;
}

static int disconnect(struct fur_follower *x)
{
	const int error = x->follower ? follow_end(x->follower) : 0;
	if (x->engine)
		x->engine->ops->close(x->engine);
	x->follower = NULL;
	x->engine = NULL;
	return error;
}

static int turn(struct fur_follower *x)
{
	const int n = follow_step(x->follower, STEP);
	if (n < 0)
		return n;
	publish(x, n);
	forget_error(x);
	if (n > 0) {
		x->rest_ns = REST_LEAST_NS;
		return 0;
	}
	pause_for(x, x->rest_ns);
	if (x->rest_ns < REST_MOST_NS)
		x->rest_ns *= 2;
	return 0;
}

/* --------------------------------------------------------------- promotion */

/* Step 3 of promote.h. */
static int catch_up(struct fur_follower *x, const struct stream_position *position)
{
	struct follow_view view;
	int n;
	while ((n = follow_step(x->follower, STEP)) > 0)
		publish(x, n);
	if (n < 0)
		return n;
	publish(x, 0);
	follow_look(x->follower, &view);
	if (view.term != position->term || view.node != x->page.node)
		return promote_fail_fenced();
	return disconnect(x); /* with its position */
}

/* Before the claim, so that the time without a writer is short; as long as the log lets us. */
static int come_near(struct fur_follower *x)
{
	const uint64_t until_ns = arch_now_ns() + x->patience_ns;
	int n;
	while ((n = follow_step(x->follower, STEP)) == STEP && arch_now_ns() < until_ns)
		publish(x, n);
	if (n >= 0)
		publish(x, n);
	return n < 0 ? n : 0;
}

static int promote(struct fur_follower *x)
{
	struct stream_position position;
	struct follow_view view;
	struct fur_heap *heap = x->heap;
	int error = come_near(x);
	if (error)
		return error;
	follow_look(x->follower, &view);
	if (x->term && x->term != view.term) /* INV-SH84 (plant: ship-term-ignored) */
		return promote_fail_fenced();
	const struct promotion p = {.log = x->page.log,
	        .settings = (const char *const *)x->settings,
	        .uuid = heap->file.geometry.uuid,
	        .node = x->page.node,
	        .from = follow_position(x->follower).position,
	        .term = view.term,
	        .until_ns = arch_now_ns() + x->patience_ns,
	        .stopping = &x->stopping};
	error = promote_claim(&p, &position);
	if (!error)
		error = catch_up(x, &position);
	if (!error)
		error = promote_file(&heap->durability, &heap->file, &position);
	return error;
}

static void take_over(struct fur_follower *x)
{
	const int error = promote(x);
	if (!error) {
		lock(x);
		x->state.promoted = true;
		x->state.follows = false; /* before the answer, which fur_take_over() awaits */
		unlock(x);
		tell_end(x);
		say(x, FUR_LOG_INFO, "the heap is a primary now");
	}
	answer(x, error);
}

/* ------------------------------------------------------------------- thread */

/* Does the follower end with this error?  A heap that has failed takes no more updates. */
static bool is_final(const struct fur_follower *x, int error)
{
	return engine_error_is_final(error) || arch_load(&x->heap->durability.failed) != 0;
}

/* Follow until an error, the end, or a promotion. */
static int serve(struct fur_follower *x)
{
	int error = connect(x);
	while (!error && !stops(x) && !x->state.promoted) {
		error = turn(x);
		if (!error && is_asked(x)) {
			take_over(x);
			/* After a failure in its last steps it begins again. */
			if (!x->follower)
				break;
		}
	}
	if (error)
		note_error(x, error, is_final(x, error));
	const int later = disconnect(x);
	if (later && !error)
		note_error(x, later, is_final(x, later));
	return error ? error : later;
}

/* The log cannot be reached: a question must not wait for it longer than its time. */
static void answer_late(struct fur_follower *x)
{
	if (is_asked(x) && arch_now_ns() > x->until_ns)
		answer(x, fur_fail(FUR_EBEHIND, "the shipping log cannot be reached: try again: %s",
		                  x->state.message));
}

static void *follower_main(void *argument)
{
	struct fur_follower *x = argument;
	bool final = false;
	tell_begin(x);
	while (!stops(x) && !final && !x->state.promoted) {
		const int error = serve(x);
		final = error && is_final(x, error);
		if (!error || final)
			continue;
		answer_late(x);
		uint32_t unchanged = 0; /* a question does not make it shorter */
		if (!stops(x))
			(void)arch_futex_wait_for(&unchanged, 0, RETRY_NS);
	}
	/* Before the answer: no question comes after it. */
	lock(x);
	x->state.follows = false;
	unlock(x);
	tell_end(x);
	answer(x, fur_fail(final ? x->state.error : FUR_EBEHIND, "the follower has ended%s%s",
	                  final ? ": " : "", final ? x->state.message : ": follow again"));
	return NULL;
}

/* ---------------------------------------------------------------- start, end */

static void free_follower(struct fur_follower *x)
{
	for (char **s = x->settings; s && *s; s++)
		free(*s);
	free(x->settings);
	free(x);
}

static int no_memory(void)
{
	return fur_fail(FUR_ENOMEM, "no memory to follow a stream: free some memory");
}

static int copy_settings(struct fur_follower *x, const char *const *settings)
{
	unsigned n = 0;
	while (settings && settings[n])
		n++;
	if (n > MOST_SETTINGS)
		return fur_fail(
		        FUR_EINVAL, "fur_follow: %u settings: %d at most", n, MOST_SETTINGS);
	x->settings = calloc(n + 1, sizeof *x->settings);
	for (unsigned k = 0; x->settings && k < n; k++)
		if (!(x->settings[k] = strdup(settings[k])))
			return no_memory();
	return x->settings ? 0 : no_memory();
}

static int set_up(struct fur_follower *x, const struct fur_follow_options *given)
{
	const struct fur_struct theirs = {
	        "fur_follow_options", (void *)(uintptr_t)given, FUR_FOLLOW_OPTIONS_LEAST_BYTES};
	const struct durability *d = &x->heap->durability;
	struct fur_follow_options o = {.size = sizeof o};
	int error = given ? fur_struct_take(&theirs, &o, sizeof o) : 0;
	if (!error && !d->ship.follows)
		error = fur_fail(FUR_EINVAL,
		        "%s: fur_follow: this heap is no standby: fur-copy --for-standby makes one",
		        heap_path(&x->heap->file));
	if (!error)
		error = heap_read_ship_page(d->super, d->words, &x->page);
	if (!error && !x->page.node)
		error = fur_fail(FUR_ECORRUPT,
		        "%s: this standby has no node: make a new copy, with "
		        "fur-copy --for-standby",
		        heap_path(&x->heap->file));
	if (!error)
		error = copy_settings(x, o.settings);
	x->log = o.log;
	x->log_arg = o.log_arg;
	x->patience_ns = UINT64_C(1000000) * (o.patience_ms ? o.patience_ms : DEFAULT_PATIENCE_MS);
	x->rest_ns = REST_LEAST_NS;
	x->state.own_node = x->page.node;
	x->state.unread = UINT64_MAX;
	x->state.follows = true;
	return error;
}

/* One follower for a heap. */
static int enter_follower(struct fur_follower *x)
{
	struct standby *to = &x->heap->standby;
	lock(x);
	const bool other = to->follower;
	if (!other)
		to->follower = x;
	unlock(x);
	return other ? fur_fail(FUR_EINVAL, "%s: this heap has a follower already: one is enough",
	                       heap_path(&x->heap->file))
	             : 0;
}

static void leave(struct fur_follower *x)
{
	lock(x);
	x->heap->standby.follower = NULL;
	unlock_and_tell(x);
}

FUR_API int fur_follow(
        fur_heap *heap, const struct fur_follow_options *options, fur_follower **follower)
{
	if (follower)
		*follower = NULL;
	int error = heap_check_handle(heap, "fur_follow");
	if (!error && !follower)
		error = fur_fail(FUR_EINVAL, "fur_follow: follower must not be NULL");
	if (error)
		return error;
	struct fur_follower *x = calloc(1, sizeof *x);
	if (!x)
		return no_memory();
	x->heap = heap;
	error = set_up(x, options);
	if (!error)
		error = enter_follower(x);
	if (error) {
		free_follower(x);
		return error;
	}
	const int failed = thread_start(&x->thread, follower_main, x);
	if (failed) {
		leave(x);
		free_follower(x);
		return fail_system(FUR_ESYS, CALL_THREAD, failed, NULL,
		        "cannot start the thread that follows the shipping log");
	}
	*follower = x;
	return 0;
}

static int check_follower(const fur_follower *x, const char *function)
{
	if (!x)
		return fur_fail(FUR_EINVAL, "%s: follower must not be NULL", function);
	return heap_check_handle(x->heap, function);
}

FUR_API int fur_unfollow(fur_follower *x)
{
	int cancel, error = check_follower(x, "fur_unfollow");
	if (error)
		return error;
	arch_store32_release(&x->stopping, 1);
	event_wake_all(&x->calls);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_join(x->thread, NULL);
	pthread_setcancelstate(cancel, &cancel);
	leave(x);
	free_follower(x);
	return 0;
}

FUR_API int fur_get_follow_state(const fur_follower *x, struct fur_follow_state *state)
{
	const struct fur_struct theirs = {"fur_follow_state", state, FUR_FOLLOW_STATE_LEAST_BYTES};
	const int error = check_follower(x, "fur_get_follow_state");
	if (error)
		return error;
	lock(x);
	struct fur_follow_state now = x->state;
	unlock(x);
	return fur_struct_give(&theirs, &now, sizeof now);
}

/* ---------------------------------------------------------------- promotion */

static int ask(fur_follower *x, uint64_t term)
{
	int error = 0;
	lock(x);
	if (x->state.promoted)
		error = fur_fail(FUR_EINVAL,
		        "fur_take_over: this heap has been promoted: close it, "
		        "and open it again");
	else if (!x->state.follows)
		error = fur_fail(x->state.error ? x->state.error : FUR_EBEHIND,
		        "the follower has ended: %s", x->state.message);
	else if (x->question == ASKED)
		error = fur_fail(FUR_EINVAL,
		        "fur_take_over: another thread has called it: wait for "
		        "that");
	else {
		x->question = ASKED;
		x->term = term;
		x->until_ns = arch_now_ns() + x->patience_ns;
	}
	unlock(x);
	event_wake_all(&x->calls);
	return error;
}

static bool is_answered(const fur_follower *x)
{
	lock(x);
	const bool answered = x->question == ANSWERED;
	unlock(x);
	return answered;
}

FUR_API int fur_take_over(fur_follower *x, uint64_t term)
{
	int error = check_follower(x, "fur_take_over");
	if (!error && this_thread()->open)
		error = fur_fail(FUR_ENESTED, "fur_take_over was called while this thread has a "
		                              "transaction open: end that first");
	if (!error)
		error = ask(x, term);
	if (error)
		return error;
	uint32_t *moved = &x->heap->standby.moved;
	event_await(moved, is_answered(x));
	return x->answer ? fur_fail(x->answer, "%s", x->answer_text) : 0;
}
