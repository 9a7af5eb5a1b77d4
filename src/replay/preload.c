/* SPDX-License-Identifier: BSD-3-Clause
 *
 * preload.c - preload markers and records, and measure which distance is best.
 *
 * A measurement goes through probes.  In each probe a walk takes some steps at one distance to get
 * into its stride, and then as many with an eye on the clock.  A round has a probe for each
 * distance, every second round in the opposite order, so that a slow drift (of page faults, which
 * become rarer) cancels out.  A distance is compared with the default of the same round, and the
 * median of the rounds counts, so that a probe in which the thread lost its core has no say.
 */
#include "replay/preload.h"
#include "media/log_view.h"
#include "media/media.h"

#include <stdlib.h>
#include <string.h>

enum {
	/* Preload at most this much of a record; the processor's own prefetcher follows */
	PRELOAD_RECORD_BYTES = 512,
	/* Bytes of log that a step reads, roughly: an entry of one word; an update of eight */
	STEP_BYTES = 16,
	STEPS_OF_UPDATE = 8,
	/* Probes of 1/64 of what is replayed before the first of them */
	PROBE_PART = 64,
	PROBE_LEAST_STEPS = 8,
	/* A distance must be better than the default by this much to replace it, in 1/1024: less
	 * than the noise of a probe is no reason */
	RATIO_ONE = 1024,
	RATIO_BETTER = RATIO_ONE * 97 / 100,
};

/* -------------------------------------------------------------- preloading */

static void preload_record(const struct media_file *f, uint64_t durts)
{
	const struct media_marker m = log_read_marker(f, durts);
	/* The marker may contain anything.  To keep the addresses inside the file it is enough to
	 * check the thread. */
	if (m.thread >= f->super->max_threads)
		return;
	if (log_marker_kind(&m) != MEDIA_COMMIT)
		return;
	const uint8_t *log = log_of_thread(f, m.thread);
	uint64_t bytes = m.log_bytes < PRELOAD_RECORD_BYTES ? m.log_bytes : PRELOAD_RECORD_BYTES;
	for (uint64_t k = 0; k < bytes; k += ARCH_FLUSH_LINE)
		arch_prefetch(log + log_place(f->super, m.log_start + k));
}

void preload_from_durts(struct preload *p, uint64_t from)
{
	p->records = from + p->distance;
	p->markers = p->records + p->distance;
}

/* Preload up to which durTS? */
static uint64_t reach(const struct preload *p, uint64_t *done, uint64_t at, uint64_t distance)
{
	if (*done <= at)
		*done = at + 1; /* the distance has grown from 0 */
	if (!p->batch)
		return at + distance + 1;
	return *done <= at + distance ? at + distance + p->distance : *done;
}

void preload_updates(struct preload *p, uint64_t at, uint64_t end)
{
	const struct media_file file = durability_file(p->d);
	uint64_t to;
	if (p->distance == 0)
		return;
	/* Preload the marker twice as far ahead: it must be in the cache when preload_record()
	 * reads from it where the record lies. */
	to = reach(p, &p->markers, at, 2 * (uint64_t)p->distance);
	for (; p->markers < to && p->markers < end; p->markers++)
		arch_prefetch(log_marker(&file, p->markers));
	to = reach(p, &p->records, at, p->distance);
	for (; p->records < to && p->records < end; p->records++)
		preload_record(&file, p->records);
}

/* --------------------------------------------------------------- measuring */

/* The default first: the others are compared with it. */
static const uint32_t probed[PRELOAD_PROBED] = {REPLAY_PRELOAD_DEFAULT, 0, 4, 8, 32, 64};

static uint64_t first_steps(const struct preload *p)
{
	uint64_t steps = p->d->replay_options.least_bytes / STEP_BYTES;
	return p->tuning == &p->d->tuning[PRELOAD_READS] ? steps / STEPS_OF_UPDATE : steps;
}

static uint64_t probe_steps(const struct preload *p)
{
	uint64_t steps = first_steps(p) / PROBE_PART;
	return steps < PROBE_LEAST_STEPS ? PROBE_LEAST_STEPS : steps;
}

static unsigned round_number(const struct preload_tuning *t)
{
	return t->probes / PRELOAD_PROBED;
}

/* Which distance the next probe takes. */
static unsigned probe_number(const struct preload_tuning *t)
{
	unsigned k = t->probes % PRELOAD_PROBED;
	return round_number(t) % 2 ? PRELOAD_PROBED - 1 - k : k;
}

static uint32_t median(uint32_t *of)
{
	for (unsigned k = 1; k < PRELOAD_ROUNDS; k++)
		for (unsigned n = k; n > 0 && of[n - 1] > of[n]; n--) {
			uint32_t swapped = of[n];
			of[n] = of[n - 1];
			of[n - 1] = swapped;
		}
	return of[PRELOAD_ROUNDS / 2];
}

static uint32_t best_of(const struct preload_tuning *t)
{
	uint32_t best = probed[0], least = RATIO_BETTER;
	for (unsigned k = 1; k < PRELOAD_PROBED; k++) {
		uint32_t ratio[PRELOAD_ROUNDS];
		for (unsigned r = 0; r < PRELOAD_ROUNDS; r++) {
			uint64_t one = t->ticks[r][0] ? t->ticks[r][0] : 1,
			         most = UINT32_MAX / RATIO_ONE * one;
			ratio[r] = t->ticks[r][k] < most
			                   ? (uint32_t)(t->ticks[r][k] * RATIO_ONE / one)
			                   : UINT32_MAX;
		}
		const uint32_t middle = median(ratio);
		if (middle < least) {
			least = middle;
			best = probed[k];
		}
	}
	return best;
}

static void continue_with(struct preload *p, enum preload_stage stage, uint64_t steps)
{
	struct preload_tuning *t = p->tuning;
	t->stage = stage;
	if (stage == PRELOAD_WAITS)
		t->distance = REPLAY_PRELOAD_DEFAULT;
	if (stage == PRELOAD_WARMS)
		t->distance = probed[probe_number(t)];
	p->distance = t->distance;
	t->steps = steps;
}

/* The walk resumes a measurement at `step`. */
static void resume(struct preload *p, uint64_t step)
{
	p->next = step + p->tuning->steps;
	p->ticks = p->tuning->stage == PRELOAD_CLOCKS ? arch_ticks() : 0;
}

static void probe_ends(struct preload *p)
{
	struct preload_tuning *t = p->tuning;
	t->ticks[round_number(t)][probe_number(t)] += arch_ticks() - p->ticks;
	if (++t->probes < PRELOAD_ROUNDS * PRELOAD_PROBED) {
		continue_with(p, PRELOAD_WARMS, probe_steps(p));
		return;
	}
	t->distance = best_of(t);
	arch_store(&t->chosen, t->distance + 1);
	continue_with(p, PRELOAD_CHOSEN, UINT64_MAX);
}

void preload_measured(struct preload *p, uint64_t step)
{
	if (!p->tuning) {
		p->next = UINT64_MAX;
		return;
	}
	switch (p->tuning->stage) {
	case PRELOAD_WAITS: continue_with(p, PRELOAD_WARMS, probe_steps(p)); break;
	case PRELOAD_WARMS: continue_with(p, PRELOAD_CLOCKS, probe_steps(p)); break;
	case PRELOAD_CLOCKS: probe_ends(p); break;
	default: break;
	}
	if (p->tuning->stage == PRELOAD_CHOSEN)
		p->tuning = NULL, p->next = UINT64_MAX;
	else
		resume(p, step);
}

static uint32_t fixed_distance(const struct replay_options *o)
{
	return o->preload < REPLAY_PRELOAD_MOST ? o->preload : REPLAY_PRELOAD_MOST;
}

uint32_t preload_distance(const struct durability *d, enum preload_pipeline pipeline)
{
	const struct preload_tuning *t = &d->tuning[pipeline];
	if (d->replay_options.preload != REPLAY_PRELOAD_AUTO)
		return fixed_distance(&d->replay_options);
	/* No fence: the word says it all, and any distance is right (INV-R9). */
	const uint32_t chosen = (uint32_t)arch_load(&t->chosen);
	return chosen ? chosen - 1 : REPLAY_PRELOAD_DEFAULT;
}

void preload_begin(struct preload *p, struct durability *d, enum preload_pipeline pipeline,
        uint64_t step, bool measures)
{
	struct preload_tuning *t = &d->tuning[pipeline];
	*p = (struct preload){.d = d,
	        .distance = preload_distance(d, pipeline),
	        .batch = d->replay_options.strategy == REPLAY_BATCH,
	        .next = UINT64_MAX};
	preload_from_durts(p, step);
	if (!measures || d->replay_options.preload != REPLAY_PRELOAD_AUTO ||
	        t->stage == PRELOAD_CHOSEN)
		return;
	p->tuning = t;
	if (t->stage == PRELOAD_UNUSED)
		continue_with(p, PRELOAD_WAITS, first_steps(p));
	p->distance = t->distance;
	resume(p, step);
}

void preload_end(struct preload *p, uint64_t step)
{
	struct preload_tuning *t = p->tuning;
	if (!t)
		return;
	t->steps = step < p->next ? p->next - step : 0;
	if (t->stage == PRELOAD_CLOCKS)
		t->ticks[round_number(t)][probe_number(t)] += arch_ticks() - p->ticks;
	p->tuning = NULL;
}

/* ------------------------------------------------------- options and status */

bool preload_parse(const char *text, struct replay_options *options)
{
	static const char *const name[] = {"sequential:", "batch:"};
	enum replay_strategy strategy = REPLAY_SEQUENTIAL;
	char *end;
	if (strcmp(text, "auto") == 0) {
		options->preload = REPLAY_PRELOAD_AUTO;
		options->strategy = REPLAY_SEQUENTIAL;
		return true;
	}
	for (unsigned k = 0; k < 2; k++)
		if (strncmp(text, name[k], strlen(name[k])) == 0) {
			strategy = (enum replay_strategy)k;
			text += strlen(name[k]);
		}
	unsigned long distance = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || distance > REPLAY_PRELOAD_MOST)
		return false;
	options->preload = (uint32_t)distance;
	options->strategy = strategy;
	return true;
}

void preload_publish(const struct durability *d)
{
	struct control_preload *c = &d->control->preload;
	const bool automatic = d->replay_options.preload == REPLAY_PRELOAD_AUTO;
	for (unsigned k = 0; k < PRELOAD_PIPELINES; k++) {
		c->distance[k] = preload_distance(d, (enum preload_pipeline)k);
		c->measured[k] = automatic && arch_load(&d->tuning[k].chosen) != 0;
	}
	c->strategy = d->replay_options.strategy;
	c->automatic = automatic;
	/* Release: orders the fields before the sign that they are there.  Otherwise --status could
	 * show a process's first look at them half. */
	arch_store32_release(&c->known, 1);
}
