/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_check.hpp - find every problem of a heap file, and repair the problems that can be repaired.
 *
 *   INV-FC1  Checking changes nothing in the file.
 *   INV-FC2  A repair is made only if one content alone can be right, or if every content that may
 *           be right is harmless: it must not lose an acknowledged update that was not lost before.
 */
#ifndef TOOLS_HEAP_CHECK_HPP
#define TOOLS_HEAP_CHECK_HPP

#include "heap_view.hpp"

#include <optional>

namespace tools
{

/* The bytes that a repair writes at an offset of the file.  Without bytes, the offset is the file's
 * new length. */
struct Repair {
	uint64_t offset = 0;
	std::vector<uint8_t> bytes;
	std::string what; /* the repair in words, once it is made */
};

struct Problem {
	std::string where; /* superblock, file, state, ship page, group page, tail, ring, log,
	                      allocator */
	std::string what;
	std::string remedy;
	std::optional<Repair> repair;
	/* It can be mended, and any power failure may have left it: the heap is sound with it */
	bool note = false;
};

struct Range {
	uint64_t offset, bytes; /* of the heap */
};

/* An update that recovery does not replay. */
struct Lost {
	uint64_t durts = 0, durts_last = 0; /* it is one of these; equal if its durTS is known */
	std::optional<uint32_t> thread;
	/* It had returned to its caller; otherwise it may have been in flight at a failure */
	bool certain = false;
	std::string why;
	std::vector<Range> ranges;   /* that it stored to */
	bool ranges_complete = true; /* otherwise as far as its log can be read */
};

struct Report {
	std::vector<Problem> problems;
	std::vector<Lost> lost;
	std::string state; /* "closed" or "needs recovery"; empty if it is not known */
	std::string role;  /* "primary", "standby", or empty: none, or not known */
	uint64_t to_replay = 0, holes = 0, aborted = 0;
	std::optional<alloc_census> census;
	std::string not_counted; /* why there is no census */
	/* More updates lack a valid marker than can have been in flight: some of them had returned,
	 * and nothing tells which */
	bool too_many = false;
	/* A lost update is in the heap in part: nothing can be given up */
	bool half_done = false;

	/* A note is not a problem. */
	bool sound() const;
	bool all_mendable() const;
	/* The first update that must be given up, if lost updates are the only problem that cannot
	 * be mended. */
	std::optional<uint64_t> first_to_forget() const;
};

/* Report the problems and losses in the ring and the logs of a mapped heap, from `tail` on; correct
 * in the mapping every update that can be corrected.  Returns the ring as it then is. */
Ring check_ring(HeapView &heap, uint64_t tail, bool closed, Report &report);

/* Check a heap that no process works on.  Throws Refused if the file cannot be checked. */
Report check_heap(HeapView &heap);

/* Make the repairs of the report, durably.  Returns them in words.  Throws Refused. */
std::vector<std::string> repair_heap(const HeapView &heap, const Report &report);

/* Give up update `from` and every later one that is not replayed, whether acknowledged or not, so
 * that recovery has nothing to refuse: no update depends on a later one.  Returns in words what was
 * done.  Throws Refused. */
std::vector<std::string> forget(HeapView &heap, uint64_t from);

} // namespace tools

#endif /* TOOLS_HEAP_CHECK_HPP */
