/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log_times.cpp - log_times.hpp.
 */
#include "log_times.hpp"

#include "host/host.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <pthread.h>

namespace tide
{

namespace
{

/* The ranks' threads begin each step of a batch together. */
class Together
{
public:
	explicit Together(unsigned threads) : threads_(threads) {}
	void meet()
	{
		const unsigned round = arrived_.fetch_add(1) / threads_;
		while (arrived_.load() / threads_ == round)
			lab::idle();
	}

private:
	const unsigned threads_;
	std::atomic<unsigned> arrived_{0};
};

struct Shared {
	Shared(const Recorder &r, unsigned threads) : recorded(r), together(threads) {}
	const Recorder &recorded;
	Together together;
};

struct RankThread {
	Shared *shared = nullptr;
	unsigned number = 0;
	fur_heap *heap = nullptr;
	unsigned list = 0;
	uint64_t bytes = 0;
	std::vector<LogTimes> batches;
};

double us_of(const std::function<void()> &f)
{
	const uint64_t from = lab::now_ps();
	f();
	return static_cast<double>(lab::now_ps() - from) * 1e-6;
}

void keep_all(RankThread &t)
{
	Shared &s = *t.shared;
	CommandLog log(t.heap, t.list);
	for (const Recorder::Batch &recorded : s.recorded.batches()) {
		Recorder::Batch own;
		lab::aside([&] { own = recorded; });
		LogTimes &times = t.batches.emplace_back();
		s.together.meet();
		times.parts = us_of([&] { log.keep_parts(own.queues); });
		s.together.meet();
		times.turns = us_of([&] { log.keep_turns(own.queues, own.results); });
	}
	t.bytes = log.bytes();
}

void *run_thread(void *argument)
{
	auto &t = *static_cast<RankThread *>(argument);
	try {
		keep_all(t);
	} catch (const std::exception &e) {
		/* The others would wait for this one for ever. */
		fprintf(stderr, "tide-log: rank %u: %s\n", t.number, e.what());
		_Exit(1);
	}
	return nullptr;
}

void run_threads(Shared &shared, std::vector<RankThread> &threads)
{
	std::vector<pthread_t> running(threads.size());
	for (unsigned k = 0; k < threads.size(); k++) {
		threads[k].shared = &shared;
		threads[k].number = k;
		if (k)
			pthread_create(&running[k], nullptr, run_thread, &threads[k]);
	}
	run_thread(&threads[0]);
	for (unsigned k = 1; k < threads.size(); k++)
		pthread_join(running[k], nullptr);
}

std::string path_of(const LogHost &host, unsigned rank)
{
	std::string path = host.path;
	if (rank)
		path.append(1, '.').append(std::to_string(rank));
	return path;
}

/* With room for all batches, and at an address that does not vary: software updates hash
 * addresses. */
fur::Heap made_heap(const LogHost &host, const Recorder &recorded, unsigned rank)
{
	fur::Options o;
	uint64_t bytes = 0;
	for (const Recorder::Batch &b : recorded.batches())
		bytes += b.queues.size() * sizeof(tide_queue);
	o.heap_bytes = (uint64_t{16} << 20) + bytes * (host.one_heap ? host.ranks : 1);
	o.max_threads = host.one_heap ? host.ranks + 4 : 4;
	o.pm = FUR_PM_EMULATED;
	o.address = UINT64_C(0x300000000000) + (uint64_t{rank} << 33);
	remove(path_of(host, rank).c_str());
	return fur::Heap::create(path_of(host, rank), o);
}

void keep_on_host(const LogHost &host, const Recorder &recorded, std::vector<RankThread> &threads)
{
	std::vector<fur::Heap> heaps;
	for (unsigned k = 0; k < host.ranks; k++) {
		if (k == 0 || !host.one_heap)
			heaps.push_back(made_heap(host, recorded, k));
		threads[k].heap = heaps.back().get();
		threads[k].list = host.one_heap ? k : 0;
	}
	Shared shared(recorded, host.ranks);
	run_threads(shared, threads);
}

} // namespace

LogTimes log_times(const LogHost &host, const Recorder &recorded)
{
	std::vector<RankThread> threads(host.ranks);
	lab::on_host(host.machine, host.ranks, host.seed,
	        [&] { keep_on_host(host, recorded, threads); });
	for (unsigned k = 1; k < host.ranks; k++)
		remove(path_of(host, k).c_str());
	LogTimes mean;
	for (const RankThread &t : threads)
		mean.bytes += static_cast<double>(t.bytes);
	mean.bytes /= static_cast<double>(recorded.batches().size());
	const size_t batches = recorded.batches().size();
	for (size_t k = 0; k < batches; k++) {
		LogTimes most;
		for (const RankThread &t : threads) {
			most.parts = std::max(most.parts, t.batches[k].parts);
			most.turns = std::max(most.turns, t.batches[k].turns);
		}
		mean.parts += most.parts / static_cast<double>(batches);
		mean.turns += most.turns / static_cast<double>(batches);
	}
	return mean;
}

} // namespace tide
