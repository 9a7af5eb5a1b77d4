/* SPDX-License-Identifier: BSD-3-Clause
 *
 * crowd.hpp - many threads that each make one transfer after the other over two members of a group:
 * as updates of their own, or submitted.
 */
#ifndef BENCH_CROWD_HPP
#define BENCH_CROWD_HPP

#include "../../tools/common/random.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <fur/group.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace bench
{

class Crowd
{
public:
	struct Settings {
		std::string directory;
		bool sync;
		uint64_t accounts;
		uint32_t workers;
		unsigned threads;
	};

	explicit Crowd(const Settings &s) : s_(s), group_(make(s))
	{
		const fur::GroupThread self(group_);
		for (unsigned k = 0; k < MEMBERS; k++)
			accounts_[k] = fur::update(self.of(k), [&](fur_update *tx) {
				const std::vector<int64_t> zeros(s.accounts);
				void *at = fur_alloc(tx, s.accounts * sizeof zeros[0]);
				fur_write(tx, at, zeros.data(), s.accounts * sizeof zeros[0]);
				return static_cast<int64_t *>(at);
			});
	}
	/* Transfers a second of all threads, if each makes this many. */
	double run(uint64_t transfers)
	{
		return measure(
		        transfers, [this](Random &random, fur_group_thread *self, uint64_t n) {
			        for (; n; n--)
				        run_one(random, self);
		        });
	}
	/* The same; each thread submits up to `ahead` transfers before it waits for the first. */
	double submit(uint64_t transfers, size_t ahead)
	{
		return measure(
		        transfers, [=, this](Random &random, fur_group_thread *, uint64_t n) {
			        std::deque<fur_submitted *> window;
			        for (; n || !window.empty(); n -= n != 0) {
				        if (n)
					        window.push_back(submit_one(random));
				        if (n > 1 && window.size() < ahead)
					        continue;
				        fur::check(fur_group_wait(window.front()));
				        window.pop_front();
			        }
		        });
	}
	void check()
	{
		const fur::GroupThread self(group_);
		int64_t sum = 0, moved = 0;
		for (unsigned k = 0; k < MEMBERS; k++)
			fur::read(self.of(k), [&](fur_ro *) {
				for (uint64_t n = 0; n < s_.accounts; n++) {
					sum += accounts_[k][n];
					moved += k == SECOND ? accounts_[k][n] : 0;
				}
			});
		if (sum != 0 || moved != made_)
			throw std::runtime_error("the accounts are not as the transfers left them");
	}

private:
	using Random = tools::Random;
	enum Member : unsigned { FIRST, SECOND, MEMBERS };
	struct Add {
		int64_t *account, cents;
		void carry_out(fur_update *tx) const
		{
			fur_store(tx, account, fur_load(tx, account) + cents);
		}
	};
	static bool add(
	        fur_update *tx, fur_heap *, const void *params, size_t, const void *, void *)
	{
		static_cast<const Add *>(params)->carry_out(tx);
		return true;
	}
	void run_one(Random &random, fur_group_thread *self)
	{
		const Add from = draw(FIRST, random, -1), to = draw(SECOND, random, 1);
		fur::update(self, fur::rerun, {FIRST, SECOND}, [&](const fur::GroupUpdate &tx) {
			from.carry_out(tx[FIRST]);
			to.carry_out(tx[SECOND]);
		});
	}
	fur_submitted *submit_one(Random &random)
	{
		const Add from = draw(FIRST, random, -1), to = draw(SECOND, random, 1);
		const fur_part parts[] = {{FIRST, 0, add, &from, sizeof from, 0, nullptr},
		        {SECOND, 0, add, &to, sizeof to, 0, nullptr}};
		fur_submitted *submitted;
		fur::check(fur_group_submit(group_, parts, 2, &submitted));
		return submitted;
	}
	static fur::Group make(const Settings &s)
	{
		fur::GroupOptions o;
		o.workers = s.workers;
		fur::Group g = fur::Group::create(s.directory + "/crowd.group", o);
		fur::Options heap;
		heap.pm = s.sync ? FUR_PM_SYNC : FUR_PM_EMULATED;
		heap.log_bytes = 256 << 10; /* the largest update makes the accounts */
		heap.max_threads = s.threads + s.workers + 2;
		g.add(s.directory + "/crowd-first", heap);
		g.add(s.directory + "/crowd-second", heap);
		return g;
	}
	Add draw(unsigned member, Random &random, int64_t cents) const
	{
		return {accounts_[member] + random.below(s_.accounts), cents};
	}
	double measure(uint64_t transfers,
	        const std::function<void(Random &, fur_group_thread *, uint64_t)> &transfer)
	{
		using Clock = std::chrono::steady_clock;
		std::atomic<unsigned> ready{0};
		std::atomic<bool> go{false}, failed{false};
		std::vector<std::thread> threads;
		for (unsigned k = 0; k < s_.threads; k++)
			threads.emplace_back([&, k] {
				const fur::GroupThread self(group_);
				Random random{k + 1};
				try {
					transfer(random, self, 1); /* registers with the members */
					ready++;
					go.wait(false);
					transfer(random, self, transfers);
				} catch (const std::exception &) {
					failed = true;
					ready++;
				}
			});
		while (ready < s_.threads)
			std::this_thread::yield();
		const Clock::time_point began = Clock::now();
		go = true;
		go.notify_all();
		for (std::thread &t : threads)
			t.join();
		const std::chrono::duration<double> took = Clock::now() - began;
		if (failed)
			throw std::runtime_error("a thread's transfer has failed");
		made_ += static_cast<int64_t>(s_.threads * (transfers + 1));
		return static_cast<double>(s_.threads * transfers) / took.count();
	}

	const Settings s_;
	fur::Group group_;
	int64_t *accounts_[MEMBERS] = {};
	int64_t made_ = 0;
};

} // namespace bench

#endif /* BENCH_CROWD_HPP */
