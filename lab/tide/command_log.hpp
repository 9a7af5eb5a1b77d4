/* SPDX-License-Identifier: BSD-3-Clause
 *
 * command_log.hpp - the batches of a system in a heap, from which its modules' data can be made
 * again: the memory of modules is volatile.
 *
 *     tide::CommandLog log(heap);
 *     system.keep_with([&](const std::vector<Transaction> &batch) { log.append(batch); });
 *
 *   INV-TD6  A batch is durable in the log before any of its results is released, in the order in
 *            which it has taken effect: distributed transactions by their ranks, then the local
 *            ones of each module by their turns.
 *
 * In recovery the workload is loaded as at first, and replay() executes the batches again.  All
 * transactions keep to the logged order then, local ones as well, so that the data come out the
 * same.
 */
#ifndef LAB_TIDE_COMMAND_LOG_HPP
#define LAB_TIDE_COMMAND_LOG_HPP

#include "log/block_log.hpp"
#include "tide.hpp"

namespace tide
{

class CommandLog
{
public:
	/* The log in the heap's root 0; a new one if there is none.   Errors: fur::Error. */
	explicit CommandLog(fur_heap *heap);
	/* Add a batch; it is durable on return.   Errors: fur::Error, such as a heap that is
	 * full. */
	void append(const std::vector<Transaction> &batch);
	/* Execute all batches on a system that has its workload's first data.  Returns how many. */
	size_t replay(Tide &system);

private:
	lab::BlockLog log_;
};

} // namespace tide

#endif /* LAB_TIDE_COMMAND_LOG_HPP */
