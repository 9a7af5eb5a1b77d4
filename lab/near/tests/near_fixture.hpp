/* SPDX-License-Identifier: BSD-3-Clause
 *
 * near_fixture.hpp - a near-memory machine with one rank, for tests.
 */
#ifndef FUR_TESTS_NEAR_FIXTURE_HPP
#define FUR_TESTS_NEAR_FIXTURE_HPP

#include "kernels/machine.h"
#include "kernels/totals.h"
#include "near/near.h"
#include <fur.h>

#include <gtest/gtest.h>

#include <cstring>
#include <sched.h>
#include <stdexcept>
#include <vector>

extern "C" const struct near_kernel totals_kernel, machine_kernel, large_kernel;

/* A machine to run the same tests on. */
struct MachineCase {
	const near_backend *backend;
	const char *machine;
	unsigned tasklets; /* to launch */
	bool delays;       /* transfers that a kernel begins end at its wait */
};

/* Those of this program. */
std::vector<MachineCase> machine_cases();

inline near_options options_of(
        const near_backend &backend, const char *machine, unsigned elements = 1)
{
	near_options o = {};
	o.backend = &backend, o.machine = machine, o.elements = elements;
	o.memory_bytes = 1 << 20;
	return o;
}

class Near
{
public:
	explicit Near(const near_options &options)
	{
		int error = near_open(&options, &shape, &near_);
		if (error)
			throw std::runtime_error(fur_errormsg());
		rank = near_rank_of(near_, 0);
	}
	~Near()
	{
		near_close(near_);
	}
	Near(const Near &) = delete;
	Near &operator=(const Near &) = delete;

	void load(const near_kernel &kernel)
	{
		ASSERT_EQ(near_load(rank, &kernel), 0) << fur_errormsg();
	}

	/* Fill the memory of each element with `blocks` of 64 bytes.  Returns their words' sum. */
	uint64_t fill(uint32_t blocks)
	{
		std::vector<uint32_t> row(blocks * 16);
		uint64_t sum = 0;
		uint32_t x = 12345;
		for (uint32_t &word : row)
			sum += word = x = x * 1664525 + 1013904223;
		push_rows(0, row.data(), row.size() * 4);
		return sum;
	}

	/* The same row to each element. */
	void push_rows(uint64_t offset, const void *row, uint64_t bytes)
	{
		const unsigned rows = shape.coherent ? 1 : shape.elements;
		std::vector<char> matrix(rows * bytes);
		for (unsigned k = 0; k < rows && bytes; k++)
			memcpy(&matrix[k * bytes], row, bytes);
		ASSERT_EQ(near_push(rank, NEAR_MEMORY, offset, matrix.data(), bytes), 0)
		        << fur_errormsg();
	}

	template <class Shared>
	void push_to_all(const Shared &shared)
	{
		std::vector<Shared> matrix(shape.elements, shared);
		ASSERT_EQ(near_push(rank, NEAR_SHARED, 0, matrix.data(), sizeof(shared)), 0)
		        << fur_errormsg();
	}

	template <class Shared>
	std::vector<Shared> pull_shared()
	{
		std::vector<Shared> matrix(shape.elements);
		EXPECT_EQ(near_pull(rank, NEAR_SHARED, 0, matrix.data(), sizeof(Shared)), 0)
		        << fur_errormsg();
		return matrix;
	}

	/* Fill the memory, and ask `totals` to add it up. */
	uint64_t ask_for_totals(uint32_t blocks, uint32_t mode)
	{
		const uint64_t want = fill(blocks);
		totals shared = {};
		shared.blocks = blocks, shared.mode = mode;
		push_to_all(shared);
		return want;
	}

	/* Run `machine` on `work`. */
	near_fault_report work(const machine &what, unsigned tasklets)
	{
		push_to_all(what);
		return run(tasklets);
	}

	/* Of the last element's memory. */
	int pull_row(uint64_t offset, void *row, uint64_t bytes)
	{
		const unsigned rows = shape.coherent ? 1 : shape.elements;
		std::vector<char> matrix(rows * bytes);
		int error = near_pull(rank, NEAR_MEMORY, offset, matrix.data(), bytes);
		memcpy(row, &matrix[(rows - 1) * bytes], bytes);
		return error;
	}

	/* Launch, wait, and return the fault, of kind NEAR_FAULT_NONE if there was none. */
	near_fault_report run(unsigned tasklets)
	{
		near_fault_report fault = {};
		EXPECT_EQ(near_launch(rank, tasklets), 0) << fur_errormsg();
		near_state state;
		while ((state = near_poll(rank, &fault)) == NEAR_RUNNING)
			sched_yield();
		EXPECT_EQ(state == NEAR_DONE, fault.kind == NEAR_FAULT_NONE);
		return fault;
	}

	struct near_rank *other_rank(unsigned number)
	{
		return near_rank_of(near_, number);
	}

	near_counters count()
	{
		near_counters c;
		near_count(rank, &c);
		return c;
	}

	near_shape shape = {};
	struct near_rank *rank = nullptr;

private:
	struct near *near_ = nullptr;
};

#endif /* FUR_TESTS_NEAR_FIXTURE_HPP */
