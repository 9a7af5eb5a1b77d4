/* SPDX-License-Identifier: BSD-3-Clause
 *
 * claims.hpp - a table of claims in shared memory, and a look at its slots, for the tests of
 * claims/claims.h.
 */
#ifndef CLAIMS_HPP
#define CLAIMS_HPP

#include "claims/claims.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* A table and some counters, in memory that a child of fork() shares. */
class SharedClaims : public testing::Test
{
protected:
	static constexpr unsigned LOG2 = 4;
	static constexpr unsigned COUNTERS = 16;

	struct Shared {
		uint64_t counter[COUNTERS]; /* plain words: the claims alone protect them */
		uint64_t done;              /* counts what the test wants to count */
	};

	SharedClaims() : memory_(memfd_create("claims", 0))
	{
		if (memory_ < 0 || ftruncate(memory_, off_t(bytes())))
			throw std::runtime_error("no shared memory");
		map();
		claims_format(table_, LOG2);
	}
	~SharedClaims() override
	{
		munmap(shared_, bytes());
		close(memory_);
	}
	SharedClaims(const SharedClaims &) = delete;
	SharedClaims &operator=(const SharedClaims &) = delete;

	/* Map the same memory once more, at another address: what a second process does. */
	void map()
	{
		void *at = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory_, 0);
		if (at == MAP_FAILED)
			throw std::runtime_error("no address for the shared memory");
		shared_ = static_cast<Shared *>(at);
		table_ = reinterpret_cast<claims *>(static_cast<char *>(at) + ARCH_PAD * 2);
	}

	uint64_t *slot(uint64_t bucket, unsigned k) const
	{
		return reinterpret_cast<uint64_t *>(reinterpret_cast<char *>(table_ + 1) +
		                                    (bucket << table_->stride_log2)) +
		       k;
	}
	bool marked(uint64_t bucket, unsigned k) const
	{
		return arch_load(slot(bucket, k)) & 1;
	}
	/* Give the other threads the processor until the condition holds. */
	template <class Condition>
	static void until(const Condition &holds)
	{
		while (!holds())
			sched_yield();
	}
	/* Wait until this many threads, of all processes, are here. */
	void meet(uint64_t threads)
	{
		arch_fetch_add(&shared_->done, 1);
		until([&] { return arch_load(&shared_->done) >= threads; });
	}
	void expect_empty() const
	{
		for (uint64_t bucket = 0; bucket >> LOG2 == 0; bucket++)
			for (unsigned k = 0; k < CLAIMS_SLOTS; k++)
				EXPECT_EQ(*slot(bucket, k), 0u)
				        << "bucket " << bucket << ", slot " << k;
	}

	claims *table_ = nullptr;
	Shared *shared_ = nullptr;

private:
	static size_t bytes()
	{
		static_assert(sizeof(Shared) <= ARCH_PAD * 2);
		return ARCH_PAD * 2 + claims_bytes(LOG2);
	}

	int memory_;
};

#endif /* CLAIMS_HPP */
