/* SPDX-License-Identifier: BSD-3-Clause
 *
 * crowd.hpp - many threads, each with one short operation after the other on shared counters: as
 * updates of libfur, and, in alternate windows, the same increments under a std::mutex.
 */
#ifndef BENCH_PAUSES_CROWD_HPP
#define BENCH_PAUSES_CROWD_HPP

#include "world.hpp"

namespace pauses
{

class Crowd
{
public:
	enum Mode : unsigned { FUR, MUTEX, MODES };
	Crowd(bench::FurTm &tm, const bench::Options &o, const Settings &s)
	    : tm_(tm), seed_(o.seed), n_(s.counters), plain_(n_)
	{
		Self self(tm);
		counters_ = make_words(self, n_, 0);
	}
	Crowd(const Crowd &) = delete;

	void work(unsigned thread, Crew::View &view)
	{
		Self self(tm_);
		Random random(seed_ * 1000003 + thread);
		uint64_t done[MODES] = {};
		while (const Window *window = view.next()) {
			view.repeat(*window, [&] {
				size_t k = random.below(n_);
				if (window->mode == FUR)
					add_in_update(self, &counters_[k]);
				else
					add_under_mutex(&plain_[k]);
				done[window->mode]++;
			});
		}
		for (unsigned m = 0; m < MODES; m++)
			done_[m] += done[m];
	}
	/* After the run: do the counters add up to the operations? */
	bool verify(json &r)
	{
		Self self(tm_);
		uint64_t under_mutex = 0;
		for (uint64_t counter : plain_)
			under_mutex += counter;
		r["counters"] = n_;
		r["updates"] = done_[FUR].load();
		r["updates_found"] = sum_of(self, counters_, n_);
		r["increments"] = done_[MUTEX].load();
		r["increments_found"] = under_mutex;
		return r["updates"] == r["updates_found"] &&
		       r["increments"] == r["increments_found"];
	}

private:
	static void add_in_update(Self &self, uint64_t *counter)
	{
		update(self, [counter](fur_update *tx) {
			fur_store(tx, counter, fur_load(tx, counter) + 1);
		});
	}
	void add_under_mutex(uint64_t *counter)
	{
		std::lock_guard guard(mutex_);
		*counter += 1;
	}

	bench::FurTm &tm_;
	const uint64_t seed_;
	const size_t n_;
	uint64_t *counters_;
	std::vector<uint64_t> plain_;
	alignas(128) std::mutex mutex_;
	alignas(128) std::atomic<uint64_t> done_[MODES] = {};
};

inline json crowd_result(const Measured &m)
{
	json j = m.result();
	j["least_per_thread"] = least(m.fewest);
	j["threads_without"] = greatest(m.idle);
	j["threads_without_median"] = median(m.idle);
	return j;
}

inline int run_crowd(bench::Options &o, const Settings &s)
{
	if (!o.tm_options.log_bytes)
		o.tm_options.log_bytes = 1 << 16; /* a log per thread: 1 MiB each would be 1 GiB */
	bench::FurTm tm(o.tm_options);
	Crowd crowd(tm, o, s);
	Crew crew(false); /* that many files may not be open */
	for (unsigned k = 0; k < o.threads; k++)
		crew.add(0, [&crowd, k](Crew::View &t) { crowd.work(k, t); });
	Measured measured[Crowd::MODES];
	tm.begin_run();
	crew.run(Crowd::MODES, s.rounds, o.warm_up_seconds(), o.seconds,
	        [&](unsigned mode, double took) { measured[mode].add(crew, 0, took); });
	const auto &[fur, mutex] = measured;
	json r = describe(o, s, tm, crew, o.threads);
	r["fur"] = crowd_result(fur);
	r["mutex"] = crowd_result(mutex);
	r["throughput_ratio"] = ratio(fur.per_second, mutex.per_second);
	r["longest_ratio"] = ratio(fur.longest_us, mutex.longest_us);
	bool right = crowd.verify(r);
	tm.results(r);
	r["verified"] = right;
	return bench::report(o, r);
}

} // namespace pauses

#endif /* BENCH_PAUSES_CROWD_HPP */
