/* SPDX-License-Identifier: BSD-3-Clause
 *
 * persistence.cpp - persistent memory: which stores are durable, and the state that a power failure
 * leaves (INV-E5).
 *
 * A line that a run stores to has in `durable` what the medium has of it.  Of every other line the
 * medium has what memory has, so a heap of gigabytes costs no more than the lines that change.  A
 * write-back carries the line as it was when the thread issued it, and reaches the medium when it
 * completes.  A line that was stored to may be evicted at any time, and so reach the medium without
 * a write-back.  The lines of a running transaction stay in the cache and never reach the medium; a
 * power failure undoes them.
 */
#include "machine.hpp"

namespace emu
{

Region *region_of(uint64_t address)
{
	for (Region *r : g.regions)
		if (address - reinterpret_cast<uintptr_t>(r->base) < r->bytes)
			return r;
	return nullptr;
}

static uint8_t *in_memory(const Line &line)
{
	return reinterpret_cast<uint8_t *>(line.address);
}

void keep_durable(Line &line)
{
	line.durable = static_cast<uint8_t *>(__libc_malloc(g.d->line_bytes));
	if (!line.durable)
		abort();
	memcpy(line.durable, in_memory(line), g.d->line_bytes);
}

void forget_durable(Line &line)
{
	__libc_free(line.durable);
	line.durable = nullptr;
}

static void line_gets_out(Line &line, const uint8_t *content, uint64_t number)
{
	/* INV-E5: the write-backs of one line reach the medium in their order. */
	if (number < line.persisted)
		return;
	line.persisted = number;
	if (!line.durable)
		keep_durable(line);
	memcpy(line.durable, content, g.d->line_bytes);
}

/* A cache evicts a line some time after a store to it.  Here a line is evicted now and then, at the
 * next store to persistent memory. */
void maybe_evict(Line &stored)
{
	enum { SELDOM = 16 };
	uint64_t r = g.random.next();
	g.stored_lately[r % STORED_LATELY] = &stored;
	if (r >> 8 & (SELDOM - 1))
		return;
	Line *line = g.stored_lately[(r >> 16) % STORED_LATELY];
	/* Not the line of this store, which may not be in memory yet (touch_write). */
	/* Nor a line of memory that is not persistent any more: it may be unmapped. */
	if (line && line != &stored && line->writer < 0 && line->region)
		line_gets_out(*line, in_memory(*line), ++g.write_backs);
}

void complete_write_backs(Thread &t)
{
	/* One by one: other threads run, and the power may fail, while this one waits. */
	for (size_t k = 0; k < t.write_backs.n; k++) {
		if (t.clock < t.write_backs[k].done)
			wait_until(t, t.write_backs[k].done);
		WriteBack &w = t.write_backs[k];
		line_gets_out(*w.line, w.content, w.number);
		w.number = 0; /* it is on the medium: a power failure has nothing to decide */
	}
	t.write_backs.n = 0;
}

/* ----------------------------------------------------------- power failure */

/* Copy the 8-byte words that the bits of `r` choose: INV-E5, nothing smaller is torn. */
static void copy_words(uint8_t *to, const uint8_t *from, uint64_t r)
{
	for (unsigned k = 0; k < g.d->line_bytes / 8; k++)
		if (r >> k & 1)
			memcpy(to + k * 8, from + k * 8, 8);
}

/* The power failed while this line was being written: all of it reached the medium, or nothing, or
 * some of its words. */
static void decide_line(uint8_t *to, const uint8_t *from)
{
	uint64_t r = g.random.next();
	switch (r & 3) {
	case 0: break;
	case 1: copy_words(to, from, r >> 8); break;
	default: memcpy(to, from, g.d->line_bytes);
	}
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = (*static_cast<Line *const *>(a))->address,
	         y = (*static_cast<Line *const *>(b))->address;
	return (x > y) - (x < y);
}

/* In the order of their addresses: the seed decides about one after the other. */
static void make_image(const Region &r)
{
	Array<Line *> lines;
	for (size_t i = 0; g.lines.entries && i <= g.lines.mask; i++)
		if (Line *line = g.lines.entries[i].value;
		        line && line->region == &r && line->durable)
			lines.push(line);
	qsort(lines.data, lines.n, sizeof *lines.data, by_address);
	for (Line *line : lines) {
		if (memcmp(line->durable, in_memory(*line), g.d->line_bytes) != 0)
			decide_line(line->durable, in_memory(*line)); /* it lay in a cache */
		memcpy(in_memory(*line), line->durable, g.d->line_bytes);
	}
	__libc_free(lines.data);
}

void make_images()
{
	/* Stores that were not performed are lost, and so are the stores of running
	 * transactions. */
	for (int k = 0; k < g.thread_count; k++)
		doom(*g.threads[k], EMU_DISALLOWED);
	/* A write-back may have failed to complete however long ago it began: its thread has not
	 * fenced since, and so cannot know (INV-E5). */
	for (int k = 0; k < g.thread_count; k++)
		for (WriteBack &w : g.threads[k]->write_backs)
			if (w.number >= w.line->persisted) {
				if (!w.line->durable)
					keep_durable(*w.line);
				decide_line(w.line->durable, w.content);
			}
	for (Region *r : g.regions)
		make_image(*r);
}

} // namespace emu

using namespace emu;

void emu_persistent(void *base, size_t bytes)
{
	emu_persistent_gone(base);
	auto *r = static_cast<Region *>(__libc_calloc(1, sizeof(Region)));
	if (!r)
		abort();
	*r = {static_cast<uint8_t *>(base), bytes};
	g.regions.push(r);
	for (size_t i = 0; g.lines.entries && i <= g.lines.mask; i++)
		if (g.lines.entries[i].key)
			g.lines.entries[i].value->region = region_of(g.lines.entries[i].key);
}

void emu_persistent_gone(void *base)
{
	for (size_t i = 0; i < g.regions.n; i++) {
		Region *r = g.regions[i];
		if (r->base != base)
			continue;
		for (int k = 0; k < g.thread_count; k++)
			for (size_t w = g.threads[k]->write_backs.n; w--;)
				if (g.threads[k]->write_backs[w].line->region == r)
					g.threads[k]->write_backs.remove(w);
		g.regions.remove(i);
		for (size_t l = 0; g.lines.entries && l <= g.lines.mask; l++)
			if (Line *line = g.lines.entries[l].value; line && line->region == r) {
				line->region = nullptr;
				forget_durable(*line);
			}
		__libc_free(r);
		return;
	}
}

void emu_write_back(const void *start, size_t bytes)
{
	Thread *t = g.self;
	if (!t || bytes == 0)
		return;
	uint64_t first = reinterpret_cast<uintptr_t>(start) & g.line_mask,
	         last = (reinterpret_cast<uintptr_t>(start) + bytes - 1) & g.line_mask;
	for (uint64_t at = first; at <= last; at += g.d->line_bytes) {
		begin_access(*t);
		Line *line = find_line(*t, at);
		perform_early(*t, *line);
		charge(*t, step_time(*t, g.d->instruction + g.d->l1));
		if (tracking(*t)) {
			/* clwb in a transaction; dcbf of a line that it wrote */
			abort_self(*t, EMU_DISALLOWED);
			return;
		}
		if (!line->region)
			continue;
		if (line->writer >= 0)
			doom(*g.threads[line->writer], EMU_CONFLICT_PLAIN);
		Time begin = t->clock > t->next_write_back ? t->clock : t->next_write_back;
		t->next_write_back = begin + g.d->pm_write_gap;
		WriteBack w;
		/* From the side that requests, the line travels to its home first. */
		w.done = begin + (t->core->requests ? g.d->agent.miss / 2 : 0) + g.d->pm_write;
		w.number = ++g.write_backs;
		w.line = line;
		memcpy(w.content, reinterpret_cast<const void *>(at), g.d->line_bytes);
		t->write_backs.push(w);
	}
}

void emu_write_back_fence(void)
{
	full_fence(true);
}
