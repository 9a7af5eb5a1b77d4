/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ring_check.cpp - check the marker ring and the redo logs for updates that are damaged and can be
 * mended, that are lost, or that are missing and may or may not have returned.
 *
 * A hole alone is no problem: each thread may have had one update in flight when the process ended,
 * and no caller was told that it is done.  inspect_find_damage() finds proofs that a lost update
 * had been durable.
 *
 * The check takes these steps: mend markers in the mapping, as recovery will; find proofs of
 * damage; find the record heads of updates without a marker; list each lost update, with the heap
 * bytes that it stored to.
 */
#include "heap_check.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

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
	    : heap_(heap), super_(*heap.super()), file_(heap.file()), tail_(tail), closed_(closed),
	      report_(report), ring_(heap.ring(tail))
	{
	}

	Ring run()
	{
		mend_markers();
		const inspect_range &w = ring_.range;
		report_.to_replay = w.updates;
		report_.holes = w.holes;
		report_.aborted = w.aborts;
		if (closed_ && w.end > w.tail)
			problem("ring", "the heap is marked closed, and its ring holds update " +
			                        text(w.end - 1) + ", above the tail " +
			                        text(w.tail));
		find_lost();
		/* Each thread has at most one update in flight, unless updates were late. */
		uint64_t losses = std::max(w.holes, w.broken);
		report_.too_many =
		        losses > super_.max_threads && heap_.words()->state != MEDIA_OPEN_ASYNC;
		if (report_.too_many)
			problem("ring",
			        text(losses) +
			                " slots hold no update that checks, and no more than " +
			                text(super_.max_threads) +
			                " can have been in flight: the others had returned");
		uint64_t certain = static_cast<uint64_t>(std::count_if(report_.lost.begin(),
		        report_.lost.end(), [](const Lost &l) { return l.certain; }));
		if (certain)
			problem("ring",
			        text(certain) +
			                (certain == 1 ? " update that had returned is lost"
			                              : " updates that had returned are lost"));
		return std::move(ring_);
	}

private:
	void problem(const char *where, const std::string &what)
	{
		report_.problems.push_back(
		        {where, what, "restore the file from a copy", {}, false});
	}
	/* The mapping is private and no process works on the file, so markers may be read in
	 * place. */
	const media_marker *marker(uint64_t durts) const
	{
		return log_marker(&file_, durts);
	}

	/* ------------------------------------------------------------------- mend */

	static std::string hex(const uint8_t *bytes, unsigned n)
	{
		std::string all = "0x";
		for (unsigned k = n; k-- > 0;) {
			char two[3];
			snprintf(two, sizeof two, "%02x", bytes[k]);
			all += two;
		}
		return all;
	}

	/* Report a correction that recovery will make too, with the repair that makes it in the
	 * file.  `note`: the update may have been in flight, so the heap is sound. */
	void report_mend(const inspect_mend &m, bool note)
	{
		bool in_log = m.offset >= super_.logs_offset;
		std::string what = "update " + text(m.durts) + " of thread " +
		                   text(marker(m.durts)->thread) + ": ";
		if (m.bytes == 8) {
			uint64_t is;
			memcpy(&is, m.was, sizeof is);
			what += "its slot contains durTS " + text(is) + "; with " + text(m.durts) +
			        " its checksum holds";
		} else {
			what += "byte " + text(m.offset) + " of the file is " +
			        hex(m.was, m.bytes) + "; with " + hex(m.is, m.bytes) +
			        " its checksum holds";
		}
		const char *where = in_log ? "log" : "ring";
		report_.problems.push_back(
		        {where, what, "mend it with --repair; opening the heap also mends it",
		                Repair{m.offset, {m.is, m.is + m.bytes},
		                        std::string(where) + ": byte " + text(m.offset) +
		                                " set, for update " + text(m.durts)},
		                note});
	}

	void mend_markers()
	{
		/* Enough for scattered damage.  Where whole regions are gone, changing bytes is no
		 * use. */
		enum { MOST_TRIED = 64 };
		uint64_t budget = UINT64_C(1) << 34;
		unsigned tried = 0;
		find_damage();
		std::set<uint64_t> certain;
		for (const inspect_damage &d : damage_)
			if (d.proof != INSPECT_GAP)
				certain.insert(d.durts);
		std::vector<std::pair<inspect_mend, size_t>> mended;
		for (uint64_t durts = tail_;
		        durts < media_recovery_end(&file_, tail_) && tried < MOST_TRIED; durts++) {
			inspect_mend m;
			if (ring_.verdict(durts) > INSPECT_BROKEN || marker(durts)->checksum == 0)
				continue;
			tried += ring_.verdict(durts) == INSPECT_BROKEN;
			if (!inspect_find_mend(&file_, durts, &budget, &m))
				continue;
			inspect_apply_mend(&file_, &m, m.is);
			report_mend(m, !certain.count(durts));
			mended.push_back({m, report_.problems.size() - 1});
		}
		if (mended.empty())
			return;
		ring_ = heap_.ring(tail_);
		find_damage();
		for (auto &[m, problem] : mended)
			if (super_.version < 2 && next_of(marker(m.durts)->thread, m.durts))
				report_.problems[problem].note = false;
	}

	/* ----------------------------------------------------------------- damage */

	void find_damage()
	{
		damage_.clear();
		int error = inspect_find_damage(
		        &file_, tail_, ring_.verdicts.data(),
		        [](void *all, const inspect_damage *d) {
			        static_cast<std::vector<inspect_damage> *>(all)->push_back(*d);
		        },
		        &damage_);
		if (error)
			throw Refused(heap_.path + ": " + fur_errormsg());
		/* No program reads the ring of a closed heap.  But the state word of a copy may
		 * contain MEDIA_CLOSED while its ring holds later updates. */
		if (closed_)
			std::erase_if(damage_, [](const inspect_damage &d) {
				return d.proof != INSPECT_OUTRUN && d.proof != INSPECT_REPLAYED;
			});
	}

	/* Find where records begin by their heads, also those of updates without a marker. */
	void find_heads()
	{
		enum { LINE = 64 };
		for (uint32_t t = 0; super_.version >= 2 && t < super_.max_threads; t++)
			for (uint64_t at = 0; at < super_.log_bytes; at += LINE) {
				media_claims claims;
				if (log_read_head(&file_, log_of_thread(&file_, t), t, at, tail_,
				            &claims))
					heads_[claims.durts] = {t, at, false};
			}
		for (uint64_t s = tail_; s < tail_ + super_.ring_slots; s++) {
			media_claims claims;
			uint32_t thread;
			if (log_read_slot_head(&file_, s, tail_, &claims, &thread))
				heads_[s] = {thread, MEDIA_IN_SLOT, true};
		}
	}

	/* ------------------------------------------------------------------- lost */

	void find_lost()
	{
		find_damage();
		find_heads();
		std::set<uint64_t> proven;
		for (const inspect_damage &d : damage_) {
			tell_damage(d);
			if (d.proof != INSPECT_GAP)
				proven.insert(d.durts);
		}
		for (uint64_t durts = tail_; durts < media_recovery_end(&file_, tail_); durts++)
			switch (ring_.verdict(durts)) {
			case INSPECT_BROKEN:
				if (!proven.count(durts))
					lose_broken(durts);
				break;
			case INSPECT_DROPPED: lose_dropped(durts); break;
			case INSPECT_KEPT: check_entries(durts); break;
			case INSPECT_HOLE:
			case INSPECT_ABORTED: break;
			}
		for (const inspect_damage &d : damage_)
			if (d.proof == INSPECT_GAP && d.from < d.to)
				lose_gap(d);
	}

	void tell_damage(const inspect_damage &d)
	{
		switch (d.proof) {
		case INSPECT_CLAIMED:
			lose(d.durts, true,
			        "it was durable when update " + text(d.by) + " of thread " +
			                text(d.thread) +
			                " was made, and its marker or its log is damaged or gone");
			break;
		case INSPECT_REPLAYED:
			report_.half_done = true;
			lose(d.durts, true,
			        "a replay had begun to carry it to the heap, and its marker or its "
			        "log is damaged or gone");
			break;
		case INSPECT_MISPLACED:
			lose(d.durts, true,
			        "its slot contains durTS " + text(d.number) +
			                ", which it never held: damaged");
			break;
		case INSPECT_OUTRUN:
			report_.problems.push_back({"tail",
			        "it is " + text(d.durts) + ", and the file holds durTS " +
			                text(d.number) +
			                ", which came a lap later: copied while a program had it "
			                "open, or damaged",
			        "restore the file from a copy made with the heap closed", {},
			        false});
			break;
		case INSPECT_GAP: break;
		}
	}

	void lose(uint64_t durts, bool certain, const std::string &why)
	{
		media_marker m;
		bool plausible = log_read_plausible(&file_, durts, &m);
		Lost l;
		l.durts = l.durts_last = durts;
		l.certain = certain;
		l.why = why;
		l.ranges_complete = false;
		auto head = heads_.find(durts);
		if (plausible && (head == heads_.end() || head->second.thread == m.thread)) {
			l.thread = m.thread;
			l.ranges_complete = add_ranges(l, log_record_of(&file_, &m));
		} else if (head != heads_.end()) {
			auto [thread, position, in_slot] = head->second;
			l.thread = thread;
			auto *slot = reinterpret_cast<const uint8_t *>(marker(durts));
			uint64_t from = position + sizeof(media_head);
			add_ranges(l, in_slot ? log_record{from, super_.slot_bytes, slot}
			                      : log_record{from, end_of_record(thread, position),
			                                log_of_thread(&file_, thread)});
		}
		report_.lost.push_back(l);
	}

	/* The latest end of the record that begins at a place of the thread's log: the place where
	 * its next one begins. */
	uint64_t end_of_record(uint32_t thread, uint64_t place) const
	{
		uint64_t end = place + super_.log_bytes;
		for (auto &[durts, at] : heads_)
			if (at.thread == thread && !at.in_slot && at.place > place)
				end = std::min(end, at.place);
		return end;
	}

	/* Add the heap bytes that the record stores to.  Returns false if it can be read only in
	 * part. */
	bool add_ranges(Lost &l, const log_record &record) const
	{
		bool all = for_entries(file_, record, [&](const log_entry &e) {
			l.ranges.push_back({e.offset, e.bytes});
		});
		std::sort(l.ranges.begin(), l.ranges.end(),
		        [](Range a, Range b) { return a.offset < b.offset; });
		std::vector<Range> merged;
		for (Range r : l.ranges)
			if (!merged.empty() &&
			        r.offset <= merged.back().offset + merged.back().bytes)
				merged.back().bytes = std::max(merged.back().bytes,
				        r.offset + r.bytes - merged.back().offset);
			else
				merged.push_back(r);
		l.ranges = merged;
		return all;
	}

	/* The next valid marker of the thread, or null. */
	const media_marker *next_of(uint32_t thread, uint64_t durts) const
	{
		for (durts++; durts < ring_.range.end; durts++)
			if (ring_.verdict(durts) > INSPECT_BROKEN &&
			        marker(durts)->thread == thread)
				return marker(durts);
		return nullptr;
	}

	/* In version 1 a broken marker is believed about the place of its record if the thread's
	 * other records confirm it. */
	void lose_broken(uint64_t durts)
	{
		enum { LEAST_LINE = 64, MOST_LINE = 128 };
		const media_marker m = log_read_marker(&file_, durts);
		uint64_t end = log_record_end(&m);
		if (super_.version < 2 && log_marker_plausible(&super_, &m)) {
			for (inspect_damage &gap : damage_)
				if (gap.proof == INSPECT_GAP && gap.thread == m.thread &&
				        gap.durts < durts && durts < gap.by &&
				        m.log_start == gap.from && end <= gap.to) {
					gap.from =
					        (end + LEAST_LINE - 1) & ~uint64_t(LEAST_LINE - 1);
					if (gap.to - gap.from < MOST_LINE)
						gap.from = gap.to;
					return lose(durts, true,
					        "its marker or its log is damaged, and its thread "
					        "went on after it");
				}
			const media_marker *next = next_of(m.thread, durts);
			if (next && next->log_start >= end && next->log_start - end < MOST_LINE &&
			        next->log_start % LEAST_LINE == 0)
				return lose(durts, true,
				        "its marker or its log is damaged, and its thread went on "
				        "after it");
		}
		lose(durts, false,
		        "its marker or its log does not check: in flight when power failed, or "
		        "damaged");
	}

	void lose_dropped(uint64_t durts)
	{
		const media_marker *m = marker(durts);
		std::string names;
		for (uint64_t back = 1; back <= MEDIA_DEPS && durts - back >= tail_; back++)
			if ((m->deps[(back - 1) / 64] >> (back - 1) % 64 & 1) &&
			        ring_.verdict(durts - back) < INSPECT_ABORTED)
				names += (names.empty() ? "" : ", ") + text(durts - back);
		lose(durts, next_of(m->thread, durts) != nullptr,
		        "it has read from " + names + ", which is lost");
	}

	void lose_gap(const inspect_damage &gap)
	{
		Lost l;
		l.thread = gap.thread;
		l.certain = true;
		l.why = "its marker is gone; its record lay between those of updates " +
		        text(gap.durts) + " and " + text(gap.by);
		for (uint64_t durts = std::max(gap.durts + 1, tail_); durts < gap.by; durts++)
			if (ring_.verdict(durts) <= INSPECT_BROKEN) {
				l.durts = l.durts ? l.durts : durts;
				l.durts_last = durts;
			}
		add_ranges(l, {gap.from, gap.to, log_of_thread(&file_, gap.thread)});
		l.ranges_complete = false; /* nothing tells where it ended */
		report_.lost.push_back(l);
	}

	bool results_are_good(const log_entry &entry) const
	{
		return entry.offset + entry.bytes <= media_heap_bytes(&super_, heap_.words()) &&
		       log_bulk_check(
		               static_cast<const uint8_t *>(media_at(&file_, super_.heap_offset)),
		               super_.heap_bytes, &entry) == entry.bulk.check;
	}

	void check_entries(uint64_t durts)
	{
		log_walk walk = log_walk_update(&file_, durts);
		while (log_walk_next(&walk)) {
			if (walk.entry.range && media_range_tail(walk.entry.range, durts) > tail_)
				problem("log",
				        "update " + text(durts) + " of thread " +
				                text(marker(durts)->thread) +
				                " knew a later tail: the file was copied while "
				                "a program used it");
			if (walk.entry.bulk.rows && !results_are_good(walk.entry))
				problem("log", "the results of bulk update " + text(durts) +
				                       " of thread " + text(marker(durts)->thread) +
				                       ", which lie in the heap, are damaged");
		}
		if (walk.broken)
			problem("log", "update " + text(durts) + " of thread " +
			                       text(marker(durts)->thread) +
			                       (walk.parts == LOG_PARTS_BROKEN
			                                       ? " checks, and names parts of an "
			                                         "update over several heaps that "
			                                         "make no sense"
			                                       : " checks, and stores outside the "
			                                         "heap"));
	}

	HeapView &heap_;
	const media_super &super_;
	const media_file file_;
	const uint64_t tail_;
	const bool closed_;
	Report &report_;
	Ring ring_;
	std::vector<inspect_damage> damage_;
	struct Head {
		uint32_t thread;
		uint64_t place; /* in its log, or in the slot */
		bool in_slot;
	};
	std::map<uint64_t, Head> heads_; /* by durTS */
};

} // namespace

Ring check_ring(HeapView &heap, uint64_t tail, bool closed, Report &report)
{
	return RingChecker(heap, tail, closed, report).run();
}

} // namespace tools
