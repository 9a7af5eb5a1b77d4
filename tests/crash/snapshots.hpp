/* SPDX-License-Identifier: BSD-3-Clause
 *
 * snapshots.hpp - snapshots next to the work of workload.hpp: a thread that begins one, writes down
 * what it shows, keeps it while others update, and checks that it shows one state.
 */
#ifndef CRASH_SNAPSHOTS_HPP
#define CRASH_SNAPSHOTS_HPP

#include "workload.hpp"

#include <cstring>
#include <memory>
#include <random>
#include <unistd.h>

namespace crash
{

class Watcher
{
public:
	/* `expected`: the heap, at this time or earlier.  `seed`: of how long snapshots last. */
	Watcher(fur_heap *heap, Shared *shared, unsigned w, Expected expected, uint64_t seed)
	    : heap_(heap), data_(static_cast<const Data *>(root_at_rest(heap, 0))), shared_(shared),
	      mine_(shared->shown[w]), before_(new Shared{}), expected_(std::move(expected)),
	      random_(seed)
	{
	}
	/* Until `stop`, or until a snapshot is wrong. */
	void run(const std::atomic<bool> &stop)
	{
		while (!stop && !mine_.is_wrong) {
			std::string wrong;
			try {
				wrong = watch(stop);
			} catch (const fur::Error &e) {
				if (e.code() == FUR_ETOOOLD)
					mine_.revoked++;
				else
					wrong = e.what();
			}
			mine_.open = false;
			if (wrong.empty())
				continue;
			strncpy(mine_.wrong, wrong.c_str(), sizeof mine_.wrong - 1);
			mine_.is_wrong = true;
		}
	}

private:
	/* What else a snapshot shows follows from it. */
	struct State {
		uint64_t counter[THREADS], bulk, each;
	};

	/* One snapshot.  Empty, or what is wrong with it. */
	std::string watch(const std::atomic<bool> &stop)
	{
		note(before_.get(), shared_);
		const uint64_t updates = acknowledged();
		State shown;
		fur::Snapshot snapshot = begin(shown);
		note_intended(before_.get(), shared_);
		std::string wrong = look(snapshot, shown, [&](fur_reader *tx) {
			return expected_.check_words(tx, data_, before_.get());
		});
		if (wrong.empty()) {
			keep_open(stop);
			wrong = look(snapshot, shown, [&](fur_reader *tx) {
				uint64_t blocks = 0;
				return expected_.check_blocks(tx, data_, blocks);
			});
		}
		mine_.beside += acknowledged() - updates;
		mine_.open = false; /* before it ends, so that it is open if this says so */
		return wrong.empty() ? "" : "a snapshot: " + wrong;
	}
	/* Writes down at once what the snapshot shows: from then on it must survive.  The thread's
	 * registration ends before the snapshot does. */
	fur::Snapshot begin(State &state)
	{
		fur::Thread self(heap_);
		fur::Snapshot snapshot(self);
		mine_.open = true;
		mine_.snapshots++;
		snapshot.read(self, [&](fur_reader *tx) {
			for (unsigned t = 0; t < THREADS; t++)
				mine_.counter[t].store(
				        counter_in(tx, t), std::memory_order_relaxed);
			state = state_in(tx);
			mine_.bulk.store(state.bulk, std::memory_order_relaxed);
			mine_.each.store(state.each, std::memory_order_relaxed);
		});
		return snapshot;
	}
	/* Does it show the same as at its begin, and what does `check` find in it? */
	template <class Check>
	std::string look(const fur::Snapshot &snapshot, const State &shown, Check &&check)
	{
		fur::Thread self(heap_);
		return snapshot.read(self, [&](fur_reader *tx) -> std::string {
			const State now = state_in(tx);
			if (memcmp(&now, &shown, sizeof now) != 0)
				return "it shows another state than at first";
			return check(tx);
		});
	}
	uint64_t counter_in(fur_reader *tx, unsigned t) const
	{
		return static_cast<uint64_t>(fur_load(tx, &data_->counter[t].value));
	}
	State state_in(fur_reader *tx) const
	{
		State state;
		for (unsigned t = 0; t < THREADS; t++)
			state.counter[t] = counter_in(tx, t);
		state.bulk = fur_load(tx, &data_->bulk[0]) / BULK_ONE;
		state.each = sum_of_rounds(tx, data_);
		return state;
	}
	/* Half of the snapshots are short, half last for up to 8 ms. */
	void keep_open(const std::atomic<bool> &stop)
	{
		const uint64_t r = random_();
		for (uint64_t us = r >> 1 & 1 ? r % 8000 : r % 500; us && !stop;) {
			const uint64_t slice = std::min<uint64_t>(us, 500);
			usleep(static_cast<useconds_t>(slice));
			us -= slice;
		}
	}
	uint64_t acknowledged() const
	{
		uint64_t n = 0;
		for (const Acknowledged &thread : shared_->thread)
			n += thread.acknowledged;
		return n;
	}

	fur_heap *heap_;
	const Data *data_;
	Shared *shared_;
	Shown &mine_;
	std::unique_ptr<Shared> before_; /* what a snapshot must show */
	Expected expected_;
	std::mt19937_64 random_;
};

/* Empty, or what is wrong with a snapshot of the process that has ended. */
inline std::string wrong_snapshot(const Shared *shared)
{
	for (const Shown &shown : shared->shown)
		if (shown.is_wrong)
			return shown.wrong;
	return "";
}

} // namespace crash

#endif /* CRASH_SNAPSHOTS_HPP */
