/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_watch.hpp - a heap file as fur-stat sees it, again and again, while other processes use it.
 *
 * It maps superblock, control region and ring with PROT_READ, and takes no lock, so it can neither
 * change the file nor delay its users.  It reads the markers that are new since it last looked, and
 * none of the logs.
 */
#ifndef TOOLS_HEAP_WATCH_HPP
#define TOOLS_HEAP_WATCH_HPP

#include "heap_view.hpp"

#include <memory>
#include <optional>

namespace tools
{

/* The heap at one moment. */
struct Sample {
	double time = 0;               /* in seconds since 1970 */
	double monotonic = 0;          /* in seconds */
	const char *state = "missing"; /* or "closed", "in use", "needs recovery" */
	bool there = false;            /* not missing: the rest means something */
	bool worker = false, replayer = false;
	uint64_t worker_pid = 0, replayer_pid = 0; /* 0: none, or not known */
	/* Changes when a process opens the heap, or the file is another one. */
	uint64_t session = 0;
	uint64_t tail = 0, next = 0; /* the first durTS not replayed; the one after the newest */
	uint64_t ring_slots = 0, log_bytes = 0;
	uint64_t updates = 0; /* that the watch has seen so far */
	/* While a process works.  Bytes that are not replayed in the log that has the most, and its
	 * thread; since the heap was opened, replays, and updates replayed */
	uint64_t fullest_log_bytes = 0, fullest_log_thread = 0;
	uint64_t replays = 0, replayed_updates = 0;
	/* Of a primary: does a fur-ship serve it?  Then, while a process works: has another heap
	 * taken over; the shipper's claim; and how many durTSs up to the newest marker the log has
	 * not acknowledged */
	bool primary = false, shipper = false, fenced = false;
	uint64_t shipper_pid = 0, term = 0, lineage = 0, acked = 0, unacked = 0;
	/* Of a standby */
	bool follower = false;
	media_standby standby{};
	double heard = -1; /* how many seconds ago the newest frame was read; below 0: not known */
};

class HeapWatch
{
public:
	/* Throws Refused if there is no heap at the path. */
	explicit HeapWatch(const std::string &path);
	~HeapWatch();

	/* Look.  If the file at the path is another one than before, opens that.  Throws Refused if
	 * it is no heap, or damaged. */
	Sample look();

private:
	struct Mapping;
	enum class Path { SAME, MISSING, OTHER };

	Path path_now() const;
	void look_at_users(Sample &s);
	void look_at_markers(Sample &s);
	void look_at_logs(Sample &s) const;
	void look_at_shipping(Sample &s) const;
	void look_at_standby(Sample &s, const media_ship &page) const;
	bool restarted(const Sample &s) const;

	const std::string path_;
	std::unique_ptr<Mapping> mapping_;
	uint64_t files_ = 0; /* opened so far */
	/* Of the session of last_: the first slot whose marker it has not seen, and for each thread
	 * the end of its newest record. */
	uint64_t resume_ = 0;
	std::vector<uint64_t> log_ends_;
	Sample last_;
};

} // namespace tools

#endif /* TOOLS_HEAP_WATCH_HPP */
