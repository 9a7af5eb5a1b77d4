/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_check.hpp - what is wrong with a heap file, all of it, and what of that can be mended.
 *
 *   INV-FC1  Checking changes nothing in the file.
 *   INV-FC2  A repair is made only where there is one possible right content, or where every
 *           possible one is harmless: nothing that was acknowledged may be lost by it that was not
 *           lost before.
 */
#ifndef TOOLS_HEAP_CHECK_HPP
#define TOOLS_HEAP_CHECK_HPP

#include "heap_view.hpp"

#include <optional>

namespace tools
{

/* Bytes that a repair writes at an offset; or, with none, the length the file gets. */
struct Repair {
	uint64_t offset = 0;
	std::vector<uint8_t> bytes;
	std::string what; /* done, in words */
};

struct Problem {
	std::string where; /* superblock, file, state, tail, ring, log, allocator */
	std::string what;
	std::string remedy;
	std::optional<Repair> repair;
	/* Can be mended, and may be what any power failure leaves: the heap is sound all the
	 * same */
	bool note = false;
};

struct Range {
	uint64_t offset, bytes; /* of the heap */
};

/* An update that recovery does not replay. */
struct Lost {
	uint64_t durts = 0, durts_last = 0; /* it is one of these; the same number if known */
	std::optional<uint32_t> thread;
	/* It had returned to its caller; else it may as well have been in flight at a failure */
	bool certain = false;
	std::string why;
	std::vector<Range> ranges;   /* what it stored to */
	bool ranges_complete = true; /* else as far as its log can be read */
};

struct Report {
	std::vector<Problem> problems;
	std::vector<Lost> lost;
	std::string state; /* closed, needs recovery; empty if it is not known */
	uint64_t to_replay = 0, holes = 0, aborted = 0;
	std::optional<alloc_census> census;
	std::string not_counted; /* why there is no census */

	/* Notes are no problems. */
	bool sound() const;
	bool all_mendable() const;
	/* The first update that must be given up, if what is lost is the only problem that cannot
	 * be mended. */
	/* Without a marker or log that checks: some of them had returned, nothing says which */
	bool too_many = false;
	/* One that is lost is in the heap in part: nothing can be given up */
	bool half_done = false;
	std::optional<uint64_t> first_to_forget() const;
};

/* What the ring and the logs of a mapped heap lack, from `tail` on; mends, in the mapping, what can
 * be mended.  Returns the ring as it then is. */
Ring check_ring(HeapView &heap, uint64_t tail, bool closed, Report &report);

/* Check a heap that nobody works on.   Throws Refused where the file is not one that can be
 * checked. */
Report check_heap(HeapView &heap);

/* Do what the report says can be done, durably; what was done.   Throws Refused. */
std::vector<std::string> repair_heap(const HeapView &heap, const Report &report);

/* Give up update `from` and every later one that is not replayed, whether acknowledged or not, so
 * that recovery has nothing to refuse: what comes before an update never depends on it.  What was
 * done.   Throws Refused. */
std::vector<std::string> forget(HeapView &heap, uint64_t from);

} // namespace tools

#endif /* TOOLS_HEAP_CHECK_HPP */
