/* SPDX-License-Identifier: BSD-3-Clause
 *
 * promote.c - see promote.h.
 */
#include "ship/promote.h"
#include "base/error.h"
#include "durability/ship.h"
#include "media/ship_page.h"
#include "ship/batch.h"
#include "ship/drive.h"
#include "ship/engine_open.h"

#include <stdlib.h>
#include <sys/random.h>

/* Between attempts at a log that fails; and for an answer, before it reads again. */
enum { PAUSE_NS = 20000000, POLL_MS = 10 };
/* A claim or a beat that takes longer is in doubt: the writer reads what the log has. */
static const uint64_t DOUBT_NS = UINT64_C(3000000000);

struct claimant {
	const struct promotion *p;
	struct stream_engine *engine;
	struct writer writer;
	uint64_t doubt_ns;
	uint8_t *read, *built; /* FRAME_MOST_BYTES each */
};

int promote_fail_fenced(void)
{
	return fur_fail(FUR_EFENCED,
	        "another node has claimed the shipping log first, and this heap follows it: take "
	        "over again if that node shall not be the primary");
}

static void pause(void)
{
	uint32_t unchanged = 0;
	(void)arch_futex_wait_for(&unchanged, 0, PAUSE_NS);
}

static int restart(struct claimant *c)
{
	uint64_t nonce;
	if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce)
		return fur_fail(FUR_ESYS, "no random number for a claim: try again");
	c->doubt_ns = arch_now_ns() + DOUBT_NS;
	return drive_restart(&c->writer, c->engine, nonce, WRITER_TAKES_OVER);
}

/* INV-SH84 */
static bool is_fenced(const struct claimant *c)
{
	const struct writer *w = &c->writer;
	return w->phase == WRITER_FENCED ||
	       (w->phase == WRITER_CLAIMS && w->stream.at.node != w->node &&
	               w->stream.at.term > c->p->term);
}

static int check(const struct claimant *c)
{
	if (is_fenced(c))
		return promote_fail_fenced();
	if (c->writer.phase == WRITER_FAILED)
		return fur_fail(FUR_ECORRUPT, "%s", c->writer.why);
	if (arch_load32_acquire(c->p->stopping) || arch_now_ns() > c->p->until_ns)
		return fur_fail(FUR_EBEHIND,
		        "the shipping log has not taken this heap's claim in time: try again; the "
		        "claim may still get there, and fence the primary");
	return 0;
}

/* Failures of the engine are tried again. */
static int turn(struct claimant *c)
{
	const enum writer_phase phase = c->writer.phase;
	int done;
	if (phase == WRITER_IDLE || phase == WRITER_RESYNCS)
		done = restart(c);
	else
		done = drive_turn(&c->writer, c->engine, c->read, POLL_MS);
	if (done < 0)
		pause();
	else if (done > 0)
		c->doubt_ns = arch_now_ns() + DOUBT_NS;
	else if (arch_now_ns() > c->doubt_ns)
		writer_resync(&c->writer, "the log has not answered");
	return check(c);
}

static void submit_beat(struct claimant *c)
{
	struct frame_builder b;
	frame_begin(&b, c->built, FRAME_MOST_BYTES, FRAME_BEAT, 0);
	if (drive_submit(&c->writer, c->engine, &b))
		pause();
}

/* Claim, and see a frame of the claim's term acknowledged.  After a resync, both again. */
static int claim(struct claimant *c)
{
	const struct writer *w = &c->writer;
	int error = 0;
	while (!error &&
	        !(w->phase == WRITER_SHIPS && w->submitted && w->counted == w->submitted)) {
		if (w->phase == WRITER_SHIPS && !w->submitted)
			submit_beat(c);
		error = turn(c);
	}
	return error;
}

static int connect(struct claimant *c)
{
	int error = engine_open(c->p->log, ENGINE_WRITE, c->p->settings, &c->engine);
	while (error && !engine_error_is_final(error)) {
		pause();
		error = check(c);
		if (error)
			return error;
		error = engine_open(c->p->log, ENGINE_WRITE, c->p->settings, &c->engine);
	}
	return error;
}

int promote_claim(const struct promotion *p, struct stream_position *position)
{
	struct claimant c = {
	        .p = p, .read = malloc(FRAME_MOST_BYTES), .built = malloc(FRAME_MOST_BYTES)};
	int error = c.read && c.built
	                    ? 0
	                    : fur_fail(FUR_ENOMEM, "no memory for frames: free some memory");
	writer_init(&c.writer, p->uuid, p->node, &p->from);
	if (!error)
		error = connect(&c);
	if (!error)
		error = claim(&c);
	if (!error)
		*position = c.writer.stream.whole;
	if (c.engine)
		c.engine->ops->close(c.engine);
	free(c.read);
	free(c.built);
	return error;
}

int promote_file(
        struct durability *d, struct heap_file *file, const struct stream_position *position)
{
	struct media_ship page;
	int error = batch_replay_all(d); /* INV-SH82 (plant: ship-promoted-early) */
	if (!error)
		ship_promoted(d);
	if (!error)
		error = heap_read_ship_page(d->super, d->words, &page);
	if (error)
		return error;
	page.role = MEDIA_PRIMARY;
	page.term = position->term;
	page.lineage = position->lineage;
	page.frame = position->frame_no;
	page.offset = position->offset;
	page.chain = position->chain;
	page.durts = position->durts;
	return heap_write_promotion(file, &page);
}
