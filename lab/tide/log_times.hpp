/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log_times.hpp - the time of the command log on the host: append, write-back of persistent memory,
 * and the wait until it is durable.
 */
#ifndef LAB_TIDE_LOG_TIMES_HPP
#define LAB_TIDE_LOG_TIMES_HPP

#include "command_log.hpp"

#include <string>
#include <vector>

namespace tide
{

/* What a log gets of each batch, to be given to others. */
class Recorder : public Keeper
{
public:
	struct Batch {
		std::vector<tide_queue> queues;
		std::vector<tide_result> results;
	};
	void keep_parts(const std::vector<tide_queue> &queues) override
	{
		batches_.push_back({queues, {}});
	}
	void keep_turns(
	        const std::vector<tide_queue> &, const std::vector<tide_result> &results) override
	{
		batches_.back().results = results;
	}
	const std::vector<Batch> &batches() const
	{
		return batches_;
	}

private:
	std::vector<Batch> batches_;
};

/* Means of all batches */
struct LogTimes {
	double parts = 0, turns = 0; /* of the thread that takes longest, in microseconds */
	double bytes = 0;            /* of all ranks */
};

struct LogHost {
	std::string machine = "xeon-5320";
	unsigned ranks = 1; /* each has a thread, and a log */
	/* All logs are lists of one heap.  A block is larger than a redo log, so updates of one
	 * heap append one after the other. */
	bool one_heap = false;
	uint64_t seed = 1;
	std::string path; /* of the first rank's heap, which is made anew */
};

/* Keep the batches on an emulated host, for all ranks at once: each has what the recorded one has,
 * in memory of its own.  List 0 of the heap is the log of the recorded rank then. */
LogTimes log_times(const LogHost &host, const Recorder &recorded);

} // namespace tide

#endif /* LAB_TIDE_LOG_TIMES_HPP */
