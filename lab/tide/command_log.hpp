/* SPDX-License-Identifier: BSD-3-Clause
 *
 * command_log.hpp - the batches of a rank in a heap, from which its modules' data can be made
 * again: the memory of modules is volatile.
 *
 *     tide::CommandLog log(heap);
 *     system.keep_with(log);
 *
 *   INV-TD6  Before any result of a batch is released, the log has, durable, the parts of each of
 *            its modules and the order in which they have taken effect: distributed ones by their
 *            ranks, then the local ones by their turns.
 *
 * The parts are written while the modules execute them, and the turns when they have ended; a batch
 * without its turns has released nothing, and recovery leaves it out.
 *
 * In recovery the workload is loaded as at first, and replay() executes the batches again.  All
 * parts keep to the logged order of their module then, local ones as well, so that the data come
 * out the same.  Parts of one transaction need not meet: no module waits for another one.
 */
#ifndef LAB_TIDE_COMMAND_LOG_HPP
#define LAB_TIDE_COMMAND_LOG_HPP

#include "log/block_log.hpp"
#include "tide.hpp"

namespace tide
{

class CommandLog : public Keeper
{
public:
	/* The log in the heap's root 0; a new one if there is none.  Ranks that share a heap
	 * have lists of their own.   Errors: fur::Error. */
	explicit CommandLog(fur_heap *heap, unsigned list = 0);
	/* Errors: fur::Error; fur::heap_full. */
	void keep_parts(const std::vector<tide_queue> &queues) override;
	void keep_turns(const std::vector<tide_queue> &queues,
	        const std::vector<tide_result> &results) override;
	/* Whole batches in the log.  Of a machine of several ranks, results were released of those
	 * that the logs of all ranks have. */
	size_t batches();
	/* Execute the first `n` of them on a system that has its workload's first data. */
	void replay(Tide &system, size_t n);
	/* That this object has appended */
	uint64_t bytes() const
	{
		return bytes_;
	}

private:
	void append();

	lab::BlockLog log_;
	lab::Bytes block_;
	uint64_t bytes_ = 0;
};

} // namespace tide

#endif /* LAB_TIDE_COMMAND_LOG_HPP */
