/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shipper.c - see shipper.h.
 *
 * Way 17, updates are shipped:
 *
 *     shipper_run()                 ships until it is stopped
 *       shipper_become_writer()     reads the stream, claims a term, and reads up to the claim
 *       run_turn()                  takes one turn beside the worker
 *         let_updates_in()          of each process that opens the heap
 *         ship_and_wait()           ships what there is
 *           ship_some()             puts updates from the ring into a frame
 *             ship_large()          ships one that does not fit, or is not in its record, in parts
 *             submit()              appends the frame to the log
 *           take_answers()          moves `acked`
 *         hand_over()               lets another node take over, on request
 *         advance_position()        keeps from where a recovery has to read the stream
 *         send_beat()               says that the writer lives
 *           replay_idle()           replays a heap that rests
 *         ship_await_updates()      sleeps
 *       fence_worker()              tells the worker that another node writes
 */
#include "ship/shipper.h"
#include "base/error.h"
#include "base/event.h"
#include "media/log_view.h"
#include "media/ship_page.h"
#include "replay/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* An answer that takes longer leaves the frame in doubt: the shipper reads what the log has. */
static const uint64_t PATIENCE_NS = UINT64_C(10000000000);
/* Between attempts at a log that fails, and between looks whether the worker lives. */
enum { PAUSE_MS = 100, PAUSE_NS = PAUSE_MS * 1000000, POLL_MS = 1 };
enum { IDLE_FRAMES = 1024 };
/* How long updates gather between two frames if no transaction waits for the log.  Without this the
 * shipper is at their heels: it takes the lines of the newest marker and record away while they are
 * written, makes a frame for each update, and falls asleep after it (bench/ship: 0.6 of the updates
 * without a shipper, and 0.96 with this). */
enum { GATHER_NS = 100000 };
/* Between the frames by which a handover finds the other node's claim. */
enum { HANDOVER_BEAT_NS = 20000000 };

static bool stops(const struct shipper *s)
{
	return arch_load32_acquire(&s->stopping);
}

/* --------------------------------------------------------------------- begin */

static int take_rooms(struct shipper *s)
{
	s->read = malloc(FRAME_MOST_BYTES);
	s->built = malloc(FRAME_MOST_BYTES);
	if (s->read && s->built)
		return 0;
	shipper_end(s);
	return fur_fail(FUR_ENOMEM, "no memory for frames: free some memory");
}

int shipper_begin(struct shipper *s, struct durability *d, struct heap_file *file,
        struct stream_engine *engine)
{
	struct media_ship page;
	const int error = heap_read_ship_page(&file->geometry, file->super, &page);
	if (error)
		return error;
	if (page.role != MEDIA_PRIMARY)
		return fur_fail(FUR_EINVAL, "the heap's updates are not shipped: make it a "
		                            "primary, with fur-ship --init");
	*s = (struct shipper){.d = d,
	        .file = file,
	        .engine = engine,
	        .next = ship_acked(d),
	        .patience_ns = PATIENCE_NS,
	        .idle_frames = IDLE_FRAMES};
	s->position = stream_of_page(&page);
	s->position.node = page.term ? page.node : 0;
	s->mark = s->position;
	writer_init(&s->writer, d->super->uuid, page.node, &s->position);
	return take_rooms(s);
}

int shipper_begin_aside(
        struct shipper *s, struct durability *d, struct stream_engine *engine, uint64_t node)
{
	*s = (struct shipper){.d = d,
	        .engine = engine,
	        .next = ship_acked(d),
	        .patience_ns = PATIENCE_NS,
	        .aside = true};
	writer_init(&s->writer, d->super->uuid, node, NULL);
	return take_rooms(s);
}

int shipper_keep_position(struct shipper *s, const struct stream_position *position)
{
	struct media_ship page;
	int error = heap_read_ship_page(&s->file->geometry, s->file->super, &page);
	if (error)
		return error;
	page.term = position->term;
	page.lineage = position->lineage;
	page.frame = position->frame_no;
	page.chain = position->chain;
	page.offset = position->offset;
	page.durts = position->durts ? position->durts + 1 : 0;
	error = heap_write_ship_page(s->file, &page);
	if (!error)
		s->position = *position;
	return error;
}

void shipper_end(struct shipper *s)
{
	free(s->read);
	free(s->built);
	s->read = s->built = NULL;
}

/* ------------------------------------------------------------- be the writer */

static void pause_for(struct shipper *s, uint64_t ns)
{
	uint32_t unchanged = 0;
	if (!stops(s))
		(void)arch_futex_wait_for(&unchanged, 0, ns);
}

static void say_trouble(struct shipper *s, const char *why)
{
	if (!s->troubled && s->events.troubled)
		s->events.troubled(s->events.self, why);
	s->troubled = true;
}

static void say_works(struct shipper *s)
{
	if (s->troubled && s->events.works)
		s->events.works(s->events.self);
	s->troubled = false;
}

/* The engine has failed: it may work again. */
static int forgive(struct shipper *s, int error)
{
	if (s->aside)
		return error;
	say_trouble(s, fur_errormsg());
	pause_for(s, PAUSE_NS);
	return 0;
}

/* Start to become the writer.  What was under way is read in the log, or shipped again. */
static int restart(struct shipper *s)
{
	uint64_t nonce;
	if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce)
		return fur_fail(FUR_ESYS, "no random number for a claim: try again");
	s->first = s->flying = 0;
	s->heir_behind = 0; /* its frame may not have come into the log */
	s->next = ship_acked(s->d);
	s->until_ns = arch_now_ns() + s->patience_ns;
	return drive_restart(&s->writer, s->engine, nonce, 0);
}

/* Errors: FUR_EFENCED, FUR_ECORRUPT; 0 if the writer goes on. */
static int check_writer(struct shipper *s)
{
	if (s->writer.phase == WRITER_FENCED)
		return fur_fail(FUR_EFENCED, "%s", s->writer.why);
	if (s->writer.phase == WRITER_FAILED)
		return fur_fail(FUR_ECORRUPT, "%s", s->writer.why);
	return 0;
}

static void give_up_answer(struct shipper *s)
{
	static const char why[] = "the log has not answered";
	say_trouble(s, why);
	writer_resync(&s->writer, why);
}

/* One step of the writer.  Waits for answers, for `patience_ms` at most. */
static int turn(struct shipper *s, int patience_ms)
{
	const enum writer_phase phase = s->writer.phase;
	int done = 0;
	if (phase == WRITER_IDLE || phase == WRITER_RESYNCS)
		done = restart(s);
	else
		done = drive_turn(&s->writer, s->engine, s->read, patience_ms);
	if (done > 0)
		s->until_ns = arch_now_ns() + s->patience_ns;
	else if ((phase == WRITER_CONFIRMS || s->flying) && arch_now_ns() > s->until_ns)
		give_up_answer(s);
	if (done > 0 && s->writer.phase == WRITER_SHIPS)
		say_works(s);
	const int error = done < 0 ? forgive(s, done) : 0;
	return error ? error : check_writer(s);
}

/* For messages, and the lineage for tokens (INV-SH81). */
static void publish_claim(const struct shipper *s)
{
	struct control_ship *c = &s->d->control->ship;
	const struct stream_position *at = &s->writer.stream.at;
	if (arch_load(&c->term) == at->term && arch_load(&c->lineage) == at->lineage)
		return; /* updates read this line */
	arch_store(&c->term, at->term);
	arch_store(&c->lineage, at->lineage);
}

int shipper_become_writer(struct shipper *s)
{
	int error = check_writer(s);
	while (!error && !stops(s) && s->writer.phase != WRITER_SHIPS)
		error = turn(s, POLL_MS);
	if (error || stops(s))
		return error;
	publish_claim(s);
	/* What the log has of our updates need not be shipped again (INV-SH33). */
	if (s->writer.acked_durts >= s->next)
		s->next = s->writer.acked_durts + 1;
	return 0;
}

/* --------------------------------------------------------------- the answers */

static void acknowledge(struct shipper *s, uint64_t durts)
{
	if (s->aside || durts <= ship_acked(s->d))
		return;
	ship_tell(s->d, s->writer.stream.at.durts); /* INV-SH81 */
	ship_acknowledge(s->d, durts);
}

/* INV-SH33 */
static void take_answers(struct shipper *s)
{
	uint64_t acked = 0;
	while (s->flying && s->flights[s->first].frame_no <= s->writer.acked_frame) {
		acked = s->flights[s->first].durts;
		s->first = (s->first + 1) % SHIPPER_FLIGHTS;
		s->flying--;
	}
	acknowledge(s, acked);
}

/* INV-SH35: keep the mark when the replayers have passed it, and set another one.  Rarely: it waits
 * for the disk. */
static int advance_position(struct shipper *s)
{
	const struct stream_position *whole = &s->writer.stream.whole;
	int error = 0;
	if (s->writer.phase != WRITER_SHIPS || whole->offset == STREAM_NO_OFFSET)
		return 0;
	if (s->mark.offset != s->position.offset &&
	        arch_load_acquire(&s->d->control->tail) > s->mark.durts)
		error = shipper_keep_position(s, &s->mark);
	if (!error && s->mark.offset == s->position.offset &&
	        whole->durts >= s->mark.durts + s->d->super->ring_slots / 2)
		s->mark = *whole;
	return error;
}

/* Wait until another frame may be under way.  Errors: those of turn(). */
static int await_flight(struct shipper *s)
{
	int error = 0;
	while (!error && s->writer.phase == WRITER_SHIPS &&
	        (s->flying == SHIPPER_FLIGHTS || !writer_may_submit(&s->writer))) {
		error = turn(s, PAUSE_MS);
		take_answers(s);
	}
	return error;
}

/* ----------------------------------------------------------------- the frames */

/* Append the frame.  `durts`: when it is acknowledged, so are all updates below.  If the engine
 * fails, the writer resyncs, and the updates are shipped again. */
static int submit(struct shipper *s, struct frame_builder *b, uint64_t durts)
{
	int error = await_flight(s);
	if (error || s->writer.phase != WRITER_SHIPS)
		return error;
	const unsigned at = (s->first + s->flying) % SHIPPER_FLIGHTS;
	const uint64_t now = arch_now_ns();
	if (!s->flying)
		s->until_ns = now + s->patience_ns;
	s->beat_at = now + s->beat_ns;
	s->flights[at] = (struct shipper_flight){s->writer.end.frame_no + 1, durts};
	s->flying++;
	error = drive_submit(&s->writer, s->engine, b);
	error = error ? forgive(s, error) : 0;
	return error ? error : check_writer(s);
}

static void copy_record(const struct shipper *s, const struct log_record *record, uint64_t from,
        uint8_t *to, uint64_t bytes)
{
	const struct log_ranges r =
	        log_ranges_of(s->d->super, record->from + from, record->from + from + bytes);
	memcpy(to, record->log + r.place[0], r.bytes[0]);
	memcpy(to + r.bytes[0], record->log + r.place[1], r.bytes[1]);
}

/* The parts of a large update. */
struct parts {
	uint64_t durts;
	bool begun;
};

/* The flags of the next part. */
static uint32_t next_part(struct parts *p, bool last)
{
	const uint32_t flags = !p->begun ? FRAME_FIRST : last ? FRAME_LAST : FRAME_MORE;
	p->begun = true;
	return flags;
}

enum { PAGE = 4096, MOST_SIDE = FRAME_MOST_BYTES - PAGE };

/* How many bytes from `at` on, of `bytes`, at most MOST_SIDE, lie in pages that are all zero, or
 * not? */
static uint64_t run_of_pages(const uint8_t *at, uint64_t bytes, bool zero)
{
	static const uint8_t zeros[PAGE];
	uint64_t n = 0;
	while (n < bytes && (zero || n < MOST_SIDE)) {
		const uint64_t page = bytes - n < PAGE ? bytes - n : PAGE;
		if ((memcmp(at + n, zeros, page) == 0) != zero)
			break;
		n += page;
	}
	return n;
}

/* Ship bytes of the image (INV-SH32): the bytes of some pages, and how many zeros follow.  A block
 * of memory is a multiple of FRAME_ALIGN long, so what is rounded up belongs to it. */
static int ship_side(struct shipper *s, struct parts *p, uint64_t offset, uint64_t bytes)
{
	const uint8_t *const image = s->d->image + offset;
	int error = 0;
	bytes = round_up(bytes, FRAME_ALIGN);
	for (uint64_t at = 0; at < bytes && !error && s->writer.phase == WRITER_SHIPS;) {
		const uint64_t n = run_of_pages(image + at, bytes - at, false),
		               zeros = run_of_pages(image + at + n, bytes - at - n, true);
		const struct frame_side side = {.offset = offset + at, .zeros = zeros};
		struct frame_builder b;
		frame_begin(&b, s->built, FRAME_MOST_BYTES, FRAME_SIDE, next_part(p, false));
		uint8_t *to = frame_add_side(&b, p->durts, &side, (uint32_t)n);
		FUR_ASSERT(to != NULL);
		memcpy(to, image + at, n);
		error = submit(s, &b, p->durts);
		at += n + zeros;
	}
	return error;
}

/* Ship what the record names.  Sets *sides if there is any; without `ship` only that. */
static int ship_sides(
        struct shipper *s, struct parts *p, const struct log_record *record, bool ship, bool *sides)
{
	const struct media_file file = durability_file(s->d);
	struct log_walk walk = log_walk_record(&file, record);
	int error = 0;
	*sides = false;
	while (!error && log_walk_next(&walk))
		if (!walk.entry.payload) {
			*sides = true;
			if (ship)
				error = ship_side(s, p, walk.entry.offset, walk.entry.bytes);
		}
	return error;
}

/* Ship an update that has side data, or does not fit one frame. */
static int ship_large(struct shipper *s, uint64_t durts, const struct log_record *record)
{
	const uint64_t bytes = record->end - record->from;
	struct parts p = {.durts = durts};
	bool sides;
	int error = ship_sides(s, &p, record, true, &sides);
	for (uint64_t at = 0; !error && s->writer.phase == WRITER_SHIPS && at < bytes;) {
		struct frame_builder b;
		frame_begin(&b, s->built, FRAME_MOST_BYTES, FRAME_DATA, 0);
		const uint64_t room = frame_room(&b), n = bytes - at < room ? bytes - at : room;
		const bool last = at + n == bytes;
		b.flags = next_part(&p, last);
		copy_record(s, record, at, frame_add_update(&b, durts, (uint32_t)n), n);
		error = submit(s, &b, last ? durts + 1 : durts);
		at += n;
	}
	return error;
}

/* ----------------------------------------------------------------- the updates */

/* What is there to be shipped: the ring of a working process, or what a recovery keeps. */
struct source {
	uint64_t end; /* the durTS where it ends, or UINT64_MAX */
	bool (*keep)(void *arg, uint64_t durts);
	void *arg;
};

/* Get the next update that is to be shipped, s->next.  False: there is none yet. */
static bool next_update(struct shipper *s, const struct source *from, struct log_record *record)
{
	const struct media_file file = durability_file(s->d);
	struct media_marker marker;
	for (; s->next < from->end; s->next++) {
		if (from->keep && !from->keep(from->arg, s->next))
			continue;
		if (ship_read(s->d, s->next, &marker))
			return false;
		if (log_marker_commits(&marker)) {
			*record = log_record_of(&file, &marker);
			return true;
		}
	}
	return false;
}

/* Put updates into one frame, as many as there are and fit, or ship one that needs several. */
static int ship_some(struct shipper *s, const struct source *from, bool *shipped)
{
	struct frame_builder b;
	struct log_record record;
	struct parts p = {0};
	frame_begin(&b, s->built, FRAME_MOST_BYTES, FRAME_DATA, 0);
	*shipped = false;
	while (next_update(s, from, &record)) {
		const uint64_t bytes = record.end - record.from;
		bool sides = false;
		int error = ship_sides(s, &p, &record, false, &sides);
		uint8_t *to = sides || bytes > frame_room(&b)
		                      ? NULL
		                      : frame_add_update(&b, s->next, (uint32_t)bytes);
		if (!error && !to && !b.updates) {
			*shipped = true;
			return ship_large(s, s->next++, &record);
		}
		if (error || !to)
			break;
		copy_record(s, &record, 0, to, bytes);
		s->next++;
	}
	*shipped = b.updates != 0;
	return b.updates ? submit(s, &b, s->next) : 0;
}

/* ------------------------------------------------------------------------ run */

static int worker_lives(const struct shipper *s)
{
	return heap_lock_held(s->d->pm.fd, HEAP_LOCK_WORKING);
}

/* The log has updates of this node above `acked`.  Are they in the ring, shipped by a shipper that
 * has died since?  If not, the file is an older copy of the heap. */
static int check_age(const struct shipper *s)
{
	const uint64_t newest = s->writer.acked_durts;
	struct media_marker marker;
	if (newest < ship_acked(s->d) || ship_read(s->d, newest, &marker) == 0)
		return 0;
	return fur_fail(FUR_ECORRUPT,
	        "the shipping log has updates that this heap lacks: it is an older copy: end its "
	        "program, let a standby take over, with fur-standby --promote, and make this heap "
	        "again from a copy of that one, with fur-copy --for-standby");
}

static void forget_heir(struct shipper *s)
{
	s->heir = 0;
	arch_store_release(&s->d->control->ship.heir, 0);
	event_wake_all_shared(&s->d->control->ship.moved);
}

/* A process has opened the heap: it may update it. */
static int let_updates_in(struct shipper *s)
{
	const uint32_t opened = arch_load32_acquire(&s->d->control->opened);
	const uint32_t state = arch_load32_acquire(&s->d->control->ship.state);
	if ((state == CONTROL_SHIPS || s->heir) && opened == s->opened)
		return 0;
	int error = check_age(s);
	if (!error)
		error = ship_fence_updates(s->d);
	if (error)
		return error;
	/* A handover ends with its process, at either side. */
	forget_heir(s);
	s->opened = opened;
	/* A heap that is opened has replayed all that it had: durTSs may have been left out. */
	if (ship_acked(s->d) > s->next)
		s->next = ship_acked(s->d);
	ship_tell(s->d, s->writer.stream.at.durts);
	ship_begin(s->d);
	return 0;
}

/* Ship what there is, and take the answers that are there. */
static int ship_and_wait(struct shipper *s, const struct source *from, bool *shipped)
{
	int error = ship_some(s, from, shipped);
	if (!error && s->flying)
		error = turn(s, *shipped ? 0 : POLL_MS);
	take_answers(s);
	/* Aborted updates at the end have no frame.  Not while a frame is being filled: the updates
	 * in it lie below s->next, and are not on the way. */
	if (!s->flying && s->writer.phase == WRITER_SHIPS)
		acknowledge(s, s->next);
	return error;
}

/* Another node writes the stream: tell the worker, after it has been told of all that the log has
 * of it. */
static void fence_worker(struct shipper *s)
{
	acknowledge(s, s->writer.acked_durts + 1);
	ship_fence(s->d);
}

/* Is everything acknowledged, and may a frame without updates follow? */
static bool rests(const struct shipper *s)
{
	return !s->flying && s->writer.phase == WRITER_SHIPS;
}

/* Append a frame that has no updates. */
static int submit_word(struct shipper *s, enum frame_kind kind, const void *payload, uint32_t bytes)
{
	struct frame_builder b;
	frame_begin(&b, s->built, FRAME_MOST_BYTES, kind, 0);
	const bool fits = !bytes || frame_add_payload(&b, payload, bytes);
	FUR_ASSERT(fits);
	return fits ? submit(s, &b, s->next) : 0;
}

/* Replay what is acknowledged, as fur-replayer would, so that the position can move over the beats
 * (INV-SH35): while a heap rests, its replayers do too. */
static int replay_idle(struct shipper *s)
{
	int error = control_try_take(s->d);
	if (error)
		return error == FUR_EBUSY ? 0 : error; /* a replayer is at it */
	error = replay_live(s->d);
	if (control_give_back(s->d) && !error)
		error = heap_lock_failed(errno);
	s->mark = s->writer.stream.whole;
	return error;
}

/* Nothing was shipped for a while. */
static int send_beat(struct shipper *s)
{
	const struct stream_position *whole = &s->writer.stream.whole;
	int error = 0;
	if (!s->beat_ns || !rests(s) || arch_now_ns() < s->beat_at)
		return 0;
	if (whole->offset != STREAM_NO_OFFSET &&
	        whole->frame_no >= s->position.frame_no + s->idle_frames)
		error = replay_idle(s);
	return error ? error : submit_word(s, FRAME_BEAT, NULL, 0);
}

/* The named node has not claimed. */
static void keep_heap(struct shipper *s)
{
	if (s->events.keeps)
		s->events.keeps(s->events.self, s->heir);
	s->beat_ns = s->usual_beat_ns;
	forget_heir(s);
	ship_begin(s->d);
}

static int close_gate(struct shipper *s, uint64_t node)
{
	s->heir = node;
	s->heir_behind = 0;
	s->heir_until = arch_now_ns() + SHIPPER_HANDOVER_MS * UINT64_C(1000000);
	/* The first frame behind the node's claim shows us the claim (INV-SH17). */
	s->usual_beat_ns = s->beat_ns;
	if (!s->beat_ns || s->beat_ns > HANDOVER_BEAT_NS)
		s->beat_ns = HANDOVER_BEAT_NS;
	const int error = ship_close_gate(s->d);
	if (!error && s->events.hands_over)
		s->events.hands_over(s->events.self, node);
	return error;
}

/* Let another node take over, if that was asked for. */
static int hand_over(struct shipper *s)
{
	const uint64_t node = arch_load_acquire(&s->d->control->ship.heir);
	const int error = !s->heir && node ? close_gate(s, node) : 0;
	if (error || !s->heir)
		return error;
	if (arch_now_ns() > s->heir_until)
		keep_heap(s);
	else if (s->heir_behind != s->next && rests(s) && ship_drained(s->d, s->next)) {
		/* INV-SH36: again behind an update that had drawn its durTS, and had no marker yet
		 * when we looked at the ring (plant: ship-asks-once). */
		const struct frame_handover to = {.node = s->heir};
		s->heir_behind = s->next;
		return submit_word(s, FRAME_HANDOVER, &to, sizeof to);
	}
	return 0;
}

int shipper_hand_over(struct durability *d, uint64_t node)
{
	if (!arch_cas(&d->control->ship.heir, 0, node))
		return fur_fail(
		        FUR_EBUSY, "the heap is being handed over already: wait for that to end");
	ship_call_shipper(d);
	return 0;
}

static uint64_t time_to_sleep(const struct shipper *s)
{
	const uint64_t now = arch_now_ns();
	if (!s->beat_ns || s->beat_at > now + PAUSE_NS)
		return PAUSE_NS;
	return s->beat_at > now ? s->beat_at - now : 1; /* 0 would be without limit */
}

/* One turn, beside a worker. */
static int run_turn(struct shipper *s)
{
	const struct source ring = {.end = UINT64_MAX};
	bool shipped = false;
	int error = let_updates_in(s);
	if (!error)
		error = ship_and_wait(s, &ring, &shipped);
	if (!error)
		error = hand_over(s);
	if (!error)
		error = advance_position(s);
	if (!error)
		error = send_beat(s);
	if (!error && shipped && ship_lent(s->d) && !s->heir)
		pause_for(s, GATHER_NS);
	else if (!error && rests(s))
		error = ship_await_updates(s->d, s->next, &s->stopping, time_to_sleep(s));
	return error;
}

int shipper_run(struct shipper *s)
{
	int error = 0, lives = 1;
	while (!error && lives > 0 && !stops(s)) {
		error = shipper_become_writer(s);
		lives = worker_lives(s);
		if (!error && lives > 0 && !stops(s))
			error = run_turn(s);
	}
	if (error == FUR_EFENCED && lives > 0)
		fence_worker(s);
	return error ? error : lives < 0 ? lives : 0;
}

int shipper_ship(
        struct shipper *s, uint64_t end, bool (*keep)(void *arg, uint64_t durts), void *arg)
{
	const struct source kept = {.end = end, .keep = keep, .arg = arg};
	bool shipped;
	int error = 0;
	while (!error && !stops(s)) {
		error = shipper_become_writer(s);
		if (!error && !stops(s))
			error = ship_and_wait(s, &kept, &shipped);
		if (!error && s->next >= end && !s->flying && s->writer.phase == WRITER_SHIPS)
			return 0;
	}
	return error ? error : FUR_EBUSY;
}
