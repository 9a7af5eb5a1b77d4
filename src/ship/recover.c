/* SPDX-License-Identifier: BSD-3-Clause
 *
 * recover.c - see recover.h.
 *
 * Way 18, a heap that is shipped is recovered:
 *
 *     ship_recover()                 takes the right to replay
 *       shipper_become_writer()      learns where the stream ends; or that another node writes it
 *       ship_take()                  reads the stream once more, and writes its updates from the
 *                                    tail on to the image
 *       replay_skip()                moves the tail behind them
 *       replay_recover_begin()       decides which of the file's later updates are kept
 *       shipper_ship()               ships these
 *       replay_recover_end()         writes them to the image
 */
#include "ship/recover.h"
#include "base/error.h"
#include "ship/take.h"

/* Everything that the stream has is in the image, and the tail behind it. */
static int take_stream(struct shipper *s)
{
	const struct take take = {.d = s->d,
	        .engine = s->engine,
	        .from = s->position,
	        .until = s->writer.stream.next,
	        .lineage = s->writer.stream.at.lineage,
	        .room = s->read};
	const int error = ship_take(&take);
	return !error && s->next > ring_tail(s->d) ? replay_skip(s->d, s->next) : error;
}

static bool keeps(void *recovery, uint64_t durts)
{
	return replay_recover_keeps(recovery, durts);
}

static int recover_rest(struct shipper *s, struct replay_result *result)
{
	struct recovery *recovery;
	int error = replay_recover_begin(s->d, result, &recovery);
	if (error)
		return error;
	error = shipper_ship(s, replay_recover_reach(recovery), keeps, recovery);
	if (error)
		replay_recover_give_up(recovery);
	else
		error = replay_recover_end(recovery);
	if (!error)
		error = durability_set_state(s->d, MEDIA_CLOSED);
	/* Everything is in the image. */
	return error ? error : shipper_keep_position(s, &s->writer.stream.whole);
}

int ship_recover(struct shipper *s, struct replay_result *result)
{
	int error = control_take(s->d);
	if (error)
		return error;
	/* Nothing that the stream has is in the image from here on, as far as we know. */
	s->d->control->ship.acked = ring_tail(s->d);
	s->next = ring_tail(s->d);
	error = shipper_become_writer(s);
	if (!error && arch_load32_acquire(&s->stopping))
		error = fur_fail(FUR_EBUSY, "the recovery was stopped: start fur-ship again");
	if (!error)
		error = take_stream(s);
	if (!error)
		error = recover_rest(s, result);
	control_give_back(s->d);
	return error;
}
