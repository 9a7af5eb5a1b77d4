/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ring_check.cpp - what the marker ring and the redo logs lack: updates that are damaged and can be mended, that are lost, or of which
 * nobody can say whether they had returned.
 *
 * A hole by itself is nothing bad: each thread may have had one update in flight when the process ended, and nobody was told that it is
 * done.  What shows that a lost update had returned is that its thread went on: its next record lies behind the lost one.
 */
#include "heap_check.hpp"

#include <algorithm>
#include <cstring>

namespace tools
{
namespace
{

std::string text(uint64_t n)
{
	return std::to_string(n);
}

class RingChecker
{
      public:
	RingChecker(HeapView &heap, uint64_t tail, bool closed, Report &report)
	    : heap_(heap), super_(*heap.super()), tail_(tail), closed_(closed), report_(report), ring_(heap.ring(tail))
	{
	}

	Ring run()
	{
		mend_markers();
		const inspect_window &w = ring_.window;
		report_.to_replay = w.updates;
		report_.holes = w.holes;
		report_.aborted = w.aborts;
		if (closed_ && w.end > w.tail)
			problem("ring", "the heap says that it is closed, and its ring holds update " + text(w.end - 1) +
			                        ", above the tail " + text(w.tail));
		find_lost();
		/* Each thread has one update in flight, at most. */
		uint64_t losses = std::max(w.holes, w.broken);
		report_.too_many = losses > super_.max_threads;
		if (report_.too_many)
			problem("ring", text(losses) + " slots hold no update that checks, and no more than " +
			                        text(super_.max_threads) + " can have been in flight: the others had returned");
		uint64_t certain = static_cast<uint64_t>(
		        std::count_if(report_.lost.begin(), report_.lost.end(), [](const Lost &l) { return l.certain; }));
		if (certain)
			problem("ring", text(certain) + (certain == 1 ? " update that had returned is lost"
			                                              : " updates that had returned are lost"));
		return std::move(ring_);
	}

      private:
	void problem(const char *where, const std::string &what)
	{
		report_.problems.push_back({where, what, "restore the file from a copy", {}, false});
	}
	const media_marker *marker(uint64_t durts) const
	{
		return inspect_marker(heap_.super(), durts);
	}
	uint64_t offset_of(const void *mapped) const
	{
		return static_cast<uint64_t>(static_cast<const uint8_t *>(mapped) - reinterpret_cast<const uint8_t *>(&super_));
	}
	/* May a slot of this durTS hold this number?  Its own, or one of an earlier lap, or nothing yet. */
	bool possible(uint64_t durts, uint64_t number) const
	{
		return number == 0 || (number <= durts && (durts - number) % super_.ring_slots == 0);
	}

	/* ------------------------------------------------------------------- mend */

	/* One byte, changed in the mapping, and the repair that does it in the file. */
	void mend(uint64_t durts, const char *where, uint64_t offset, uint8_t must)
	{
		uint8_t is = *heap_.byte(offset);
		*heap_.byte(offset) = must;
		char what[200];
		snprintf(what, sizeof what,
		        "update %llu of thread %u: byte %llu of the file is 0x%02x; with 0x%02x its checksum holds",
		        static_cast<unsigned long long>(durts), marker(durts)->thread, static_cast<unsigned long long>(offset), is,
		        must);
		report_.problems.push_back({where, what, "mend it with --repair",
		        Repair{offset, {must}, std::string(where) + ": byte " + text(offset) + " set, for update " + text(durts)},
		        true});
	}

	bool holds(uint64_t durts) const
	{
		return inspect_valid(heap_.super(), marker(durts), durts);
	}

	/* The one byte of a marker, or of its record, whose change makes the 64-bit checksum hold.  It is what had been written: to
	 * replay an update that was written whole is right whether it had returned or not.  Costs some ten milliseconds. */
	bool mend_marker_byte(uint64_t durts)
	{
		auto *raw = reinterpret_cast<uint8_t *>(const_cast<media_marker *>(marker(durts)));
		for (uint64_t k = 0; k < sizeof(media_marker); k++)
			if (try_byte(durts, raw + k, "ring", 1))
				return true;
		return false;
	}
	bool mend_log_byte(uint64_t durts)
	{
		enum { ANY_BYTE = 1024, ANY_BIT = 16384 };
		const media_marker m = *marker(durts);
		if (m.durts != durts || !inspect_plausible(heap_.super(), &m) || m.log_bytes > ANY_BIT)
			return false;
		auto *log = const_cast<uint8_t *>(inspect_log(heap_.super(), m.thread));
		for (uint64_t k = 0; k < m.log_bytes; k++)
			if (try_byte(durts, log + ((m.log_start + k) & (super_.log_bytes - 1)), "log",
			            m.log_bytes <= ANY_BYTE ? 1 : 0))
				return true;
		return false;
	}
	bool try_byte(uint64_t durts, uint8_t *byte, const char *where, bool any)
	{
		uint8_t is = *byte;
		for (unsigned change = 1; change < 256; change = any ? change + 1 : change * 2) {
			*byte = static_cast<uint8_t>(is ^ change);
			bool found = holds(durts);
			*byte = is;
			if (!found)
				continue;
			mend(durts, where, offset_of(byte), static_cast<uint8_t>(is ^ change));
			return true;
		}
		return false;
	}

	/* A marker that is right but for its number: overwritten since, or not written before its process was killed, for the number is
	 * written last. */
	bool mend_number(uint64_t durts)
	{
		media_marker *m = const_cast<media_marker *>(marker(durts));
		uint64_t is = m->durts;
		m->durts = durts;
		if (!holds(durts)) {
			m->durts = is;
			return false;
		}
		Repair repair{
		        offset_of(m), std::vector<uint8_t>(sizeof durts), "ring: the number of update " + text(durts) + " set"};
		memcpy(repair.bytes.data(), &durts, sizeof durts);
		report_.problems.push_back({"ring",
		        "update " + text(durts) + " of thread " + text(m->thread) + ": its slot says " + text(is) + "; with " +
		                text(durts) + " its checksum holds",
		        "mend it with --repair", repair, possible(durts, is)});
		return true;
	}

	void mend_markers()
	{
		/* What may have been torn, or not yet have been written, is a problem only if its thread went on.
		 * Enough tries for damage here and there; where whole regions are gone, changing bytes is no use. */
		enum { MOST_TRIED = 64 };
		std::vector<std::pair<uint64_t, size_t>> mended; /* durTS, number of the problem */
		unsigned tried = 0;
		for (uint64_t durts = tail_; durts < tail_ + super_.ring_slots && tried < MOST_TRIED; durts++) {
			bool broken = ring_.verdict(durts) == INSPECT_BROKEN;
			if (!broken && (ring_.verdict(durts) != INSPECT_HOLE || !mend_number(durts)))
				continue;
			tried += broken;
			if (broken && !mend_marker_byte(durts) && !mend_log_byte(durts))
				continue;
			mended.push_back({durts, report_.problems.size() - 1});
		}
		if (mended.empty())
			return;
		ring_ = heap_.ring(tail_);
		for (auto [durts, problem] : mended)
			if (next_of(marker(durts)->thread, durts))
				report_.problems[problem].note = false;
	}

	/* ------------------------------------------------------------------- lost */

	void find_lost()
	{
		int error = inspect_gaps(
		        heap_.super(), tail_, ring_.verdicts.data(),
		        [](void *gaps, const inspect_gap *gap) { static_cast<std::vector<inspect_gap> *>(gaps)->push_back(*gap); },
		        &gaps_);
		if (error)
			throw Refused(heap_.path + ": " + fur_errormsg());
		for (uint64_t durts = tail_; durts < tail_ + super_.ring_slots; durts++)
			switch (ring_.verdict(durts)) {
			case INSPECT_BROKEN: lose_broken(durts); break;
			case INSPECT_DROPPED: lose_dropped(durts); break;
			case INSPECT_KEPT: check_entries(durts); break;
			case INSPECT_HOLE: check_hole(durts); break;
			case INSPECT_ABORTED: break;
			}
		for (const inspect_gap &gap : gaps_)
			if (gap.from < gap.to)
				lose_gap(gap);
	}

	void lose(uint64_t durts, bool certain, const std::string &why)
	{
		const media_marker m = *marker(durts);
		Lost l;
		l.durts = l.durts_last = durts;
		l.certain = certain;
		l.why = why;
		l.ranges_complete = false;
		if (inspect_plausible(heap_.super(), &m)) {
			l.thread = m.thread;
			l.ranges_complete = ranges_of(l, m.thread, m.log_start, m.log_start + m.log_bytes);
		}
		report_.lost.push_back(l);
	}

	/* False: its log can be read in part only. */
	bool ranges_of(Lost &l, uint32_t thread, uint64_t from, uint64_t to) const
	{
		bool all = for_entries(heap_.super(), thread, from, to, [&](const inspect_entry &e) {
			l.ranges.push_back({e.offset, e.bytes});
		});
		std::sort(l.ranges.begin(), l.ranges.end(), [](Range a, Range b) { return a.offset < b.offset; });
		std::vector<Range> merged;
		for (Range r : l.ranges)
			if (!merged.empty() && r.offset <= merged.back().offset + merged.back().bytes)
				merged.back().bytes = std::max(merged.back().bytes, r.offset + r.bytes - merged.back().offset);
			else
				merged.push_back(r);
		l.ranges = merged;
		return all;
	}

	/* The next marker of the thread that checks, or null. */
	const media_marker *next_of(uint32_t thread, uint64_t durts) const
	{
		for (durts++; durts < ring_.window.end; durts++)
			if (ring_.verdict(durts) > INSPECT_BROKEN && marker(durts)->thread == thread)
				return marker(durts);
		return nullptr;
	}

	/* A broken marker's own word for where its record lies, believed where the thread's other records confirm it. */
	void lose_broken(uint64_t durts)
	{
		enum { LEAST_LINE = 64, MOST_LINE = 128 };
		const media_marker m = *marker(durts);
		uint64_t end = m.log_start + m.log_bytes;
		if (inspect_plausible(heap_.super(), &m)) {
			for (inspect_gap &gap : gaps_)
				if (gap.thread == m.thread && gap.after < durts && durts < gap.before && m.log_start == gap.from &&
				        end <= gap.to) {
					gap.from = (end + LEAST_LINE - 1) & ~uint64_t(LEAST_LINE - 1);
					if (gap.to - gap.from < MOST_LINE)
						gap.from = gap.to;
					return lose(
					        durts, true, "its marker or its log is damaged, and its thread went on after it");
				}
			const media_marker *next = next_of(m.thread, durts);
			if (next && next->log_start >= end && next->log_start - end < MOST_LINE &&
			        next->log_start % LEAST_LINE == 0)
				return lose(durts, true, "its marker or its log is damaged, and its thread went on after it");
		}
		lose(durts, false, "its marker or its log does not check: in flight when power failed, or damaged");
	}

	void lose_dropped(uint64_t durts)
	{
		const media_marker *m = marker(durts);
		std::string names;
		for (uint64_t back = 1; back <= MEDIA_DEPS && durts - back >= tail_; back++)
			if ((m->deps[(back - 1) / 64] >> (back - 1) % 64 & 1) && ring_.verdict(durts - back) < INSPECT_ABORTED)
				names += (names.empty() ? "" : ", ") + text(durts - back);
		lose(durts, next_of(m->thread, durts) != nullptr, "it has read from " + names + ", which is lost");
	}

	void lose_gap(const inspect_gap &gap)
	{
		Lost l;
		l.thread = gap.thread;
		l.certain = true;
		l.why = "its marker is gone; its record lay between those of updates " + text(gap.after) + " and " +
		        text(gap.before);
		for (uint64_t durts = std::max(gap.after + 1, tail_); durts < gap.before; durts++)
			if (ring_.verdict(durts) <= INSPECT_BROKEN) {
				l.durts = l.durts ? l.durts : durts;
				l.durts_last = durts;
			}
		ranges_of(l, gap.thread, gap.from, gap.to);
		l.ranges_complete = false; /* nothing says where it ended */
		report_.lost.push_back(l);
	}

	void check_hole(uint64_t durts)
	{
		uint64_t number = marker(durts)->durts;
		if (possible(durts, number) || durts >= ring_.window.end)
			return;
		Lost l;
		l.durts = l.durts_last = durts;
		l.why = "its slot says " + text(number) + ", which no slot here can: damaged";
		l.ranges_complete = false;
		report_.lost.push_back(l);
	}

	void check_entries(uint64_t durts)
	{
		const media_marker *m = marker(durts);
		if (!for_entries(heap_.super(), m->thread, m->log_start, m->log_start + m->log_bytes, [](const inspect_entry &) {}))
			problem("log",
			        "update " + text(durts) + " of thread " + text(m->thread) + " checks, and stores outside the heap");
	}

	HeapView &heap_;
	const media_super &super_;
	const uint64_t tail_;
	const bool closed_;
	Report &report_;
	Ring ring_;
	std::vector<inspect_gap> gaps_;
};

} // namespace

Ring check_ring(HeapView &heap, uint64_t tail, bool closed, Report &report)
{
	return RingChecker(heap, tail, closed, report).run();
}

} // namespace tools
