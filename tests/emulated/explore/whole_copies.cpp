/* SPDX-License-Identifier: BSD-3-Clause
 *
 * whole_copies.cpp - linked into explore-whole-copies.  The machine keeps what the medium has only
 * of lines that a run stores to (persistence.cpp).  Here the image of each power failure is also
 * made the plain way, from a copy of the whole region and a look at each of its lines.  If the two
 * differ, the run dies.
 */
#include "../../../emulator/machine.hpp"

#include <cstdio>
#include <map>
#include <vector>

using namespace emu;

extern "C" {
/* The machine's functions, and what stands in for them: the linker's --wrap. */
void make_images_by_lines() __asm__("__real__ZN3emu11make_imagesEv");
void make_images_both_ways() __asm__("__wrap__ZN3emu11make_imagesEv");
void persistent(void *base, size_t bytes) __asm__("__real_emu_persistent");
void copied_and_persistent(void *base, size_t bytes) __asm__("__wrap_emu_persistent");
}

namespace
{

using Bytes = std::vector<uint8_t>;
std::map<const uint8_t *, Bytes> medium; /* of each region, by its base */

[[noreturn]] void die(const char *what, const void *line)
{
	fprintf(stderr, "whole_copies: line %p: %s\n", line, what);
	abort();
}

/* INV-E5, as in persistence.cpp. */
void decide(Random &random, uint8_t *to, const uint8_t *from)
{
	uint64_t r = random.next();
	for (unsigned at = 0; at < g.d->line_bytes; at += 8)
		if ((r & 2) || ((r & 1) && (r >> 8 >> at / 8 & 1)))
			memcpy(to + at, from + at, 8);
}

uint8_t *on_medium(const Line &line)
{
	const uint8_t *base = line.region->base;
	return medium.at(base).data() + (line.address - reinterpret_cast<uintptr_t>(base));
}

/* What the run has written back and evicted. */
void add_durable_lines()
{
	for (size_t i = 0; g.lines.entries && i <= g.lines.mask; i++) {
		const Line *line = g.lines.entries[i].value;
		if (!line || !line->region || !line->durable)
			continue;
		if (!line->persisted &&
		        memcmp(on_medium(*line), line->durable, g.d->line_bytes) != 0)
			die("kept after it had been stored to",
			        reinterpret_cast<void *>(line->address));
		memcpy(on_medium(*line), line->durable, g.d->line_bytes);
	}
}

void fail_power(Random &random)
{
	for (int k = 0; k < g.thread_count; k++)
		doom(*g.threads[k], EMU_DISALLOWED);
	for (int k = 0; k < g.thread_count; k++)
		for (WriteBack &w : g.threads[k]->write_backs)
			if (w.number >= w.line->persisted)
				decide(random, on_medium(*w.line), w.content);
	for (const Region *r : g.regions)
		for (size_t at = 0; at < r->bytes; at += g.d->line_bytes) {
			uint8_t *to = medium.at(r->base).data() + at;
			if (memcmp(to, r->base + at, g.d->line_bytes) != 0)
				decide(random, to, r->base + at);
		}
}

} // namespace

void copied_and_persistent(void *base, size_t bytes)
{
	{
		const Away away;
		auto *from = static_cast<uint8_t *>(base);
		medium[from] = Bytes(from, from + bytes);
	}
	persistent(base, bytes);
}

void make_images_both_ways()
{
	Random random = g.random;
	add_durable_lines();
	fail_power(random);
	make_images_by_lines();
	for (const Region *r : g.regions)
		for (size_t at = 0; at < r->bytes; at += 8)
			if (memcmp(medium.at(r->base).data() + at, r->base + at, 8) != 0)
				die("another image", r->base + at);
	if (random.next() != Random(g.random).next())
		die("the seed has decided about other lines", nullptr);
}
