/* SPDX-License-Identifier: BSD-3-Clause
 *
 * near_machine.hpp - a near-memory machine (near/near.h) of one rank, by the name that a command
 * line gives: threads, threads:exclusive or threads:coherent for threads of this process; otherwise
 * an emulated machine.
 */
#ifndef BENCH_NEAR_MACHINE_HPP
#define BENCH_NEAR_MACHINE_HPP

#include "../../tools/common/command_line.hpp"

#include "near/near.h"

#include <fur.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace bench
{

class NearMachine
{
public:
	/* `most_instructions`: of near_options; 0: any number */
	NearMachine(const std::string &machine, unsigned elements, unsigned host_threads,
	        const near_kernel *kernel, uint64_t most_instructions = 0)
	{
		near_options o = {};
		const bool native = machine.rfind("threads", 0) == 0;
		const std::string name = native && machine.size() > 8 ? machine.substr(8)
		                         : native                     ? "exclusive"
		                                                      : machine;
		o.backend = native ? &near_threads : emulated();
		o.machine = name.c_str();
		o.ranks = 1;
		o.elements = elements;
		o.host_threads = host_threads;
		o.most_instructions = most_instructions;
		near *opened = nullptr;
		check(near_open(&o, &shape_, &opened));
		near_.reset(opened);
		check(near_load(rank(), kernel));
	}
	const near_shape &shape() const
	{
		return shape_;
	}
	near_rank *rank() const
	{
		return near_rank_of(near_.get(), 0);
	}
	/* Rows of a matrix for its memory */
	unsigned memories(unsigned elements) const
	{
		return shape_.coherent ? 1 : elements;
	}
	void push(near_space space, uint64_t at, const void *rows, uint64_t bytes) const
	{
		check(near_push(rank(), space, at, rows, bytes));
	}
	void pull(near_space space, uint64_t at, void *rows, uint64_t bytes) const
	{
		check(near_pull(rank(), space, at, rows, bytes));
	}
	near_counters counters() const
	{
		near_counters c = {};
		near_count(rank(), &c);
		return c;
	}
	/* Of each element, in the last launch */
	std::vector<uint64_t> cycles() const
	{
		std::vector<uint64_t> all(shape_.elements);
		near_cycles(rank(), all.data());
		return all;
	}
	/* Of the channel that the rank is on */
	near_channel channel() const
	{
		near_channel c = {};
		near_count_channel(near_.get(), 0, &c);
		return c;
	}
	/* Begin to run the kernel. */
	void launch(unsigned tasklets) const
	{
		check(near_launch(rank(), tasklets));
	}
	/* Return when the kernel has ended; throws if it has met a fault. */
	void wait() const
	{
		near_fault_report fault = {};
		near_state state = NEAR_IDLE;
		while ((state = near_poll(rank(), &fault)) == NEAR_RUNNING)
			std::this_thread::yield();
		if (state == NEAR_FAULTED)
			throw std::runtime_error("element " + std::to_string(fault.element) +
			                         ", tasklet " + std::to_string(fault.tasklet) +
			                         ": " + near_fault_text(fault.kind));
	}

private:
	static void check(int error)
	{
		if (error)
			throw std::runtime_error(fur_errormsg());
	}
	struct Close {
		void operator()(near *n) const
		{
			near_close(n);
		}
	};
	static const near_backend *emulated()
	{
#ifdef NEAR_EMULATED
		return &near_emulated;
#else
		throw tools::WrongUsage("--machine: this build has no emulated machine: use "
		                        "threads, or configure with -Demulated=enabled");
#endif
	}
	near_shape shape_ = {};
	std::unique_ptr<near, Close> near_;
};

} // namespace bench

#endif /* BENCH_NEAR_MACHINE_HPP */
