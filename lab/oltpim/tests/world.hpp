/* SPDX-License-Identifier: BSD-3-Clause
 *
 * world.hpp - a database in modules, for tests, natively and on an emulated machine.
 */
#ifndef LAB_OLTPIM_TESTS_WORLD_HPP
#define LAB_OLTPIM_TESTS_WORLD_HPP

#include "../bank.hpp"
#include "../near_store.hpp"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

extern "C" const struct near_images oltpim_images;

namespace oltpim_tests
{

using namespace oltpim;

inline std::vector<std::string> machines()
{
#ifdef NEAR_EMULATED
	if (oltpim_images.count)
		return {"threads", "upmem"};
#endif
	return {"threads"};
}

inline NearSetup small_setup(const std::string &machine)
{
	NearSetup s;
	s.machine = machine;
	s.ranks = 2, s.elements = 2, s.tasklets = machine == "threads" ? 2 : 4;
	s.objects = 256, s.versions = 512, s.batch_bytes = 4096;
	return s;
}

struct World {
	static constexpr unsigned SLOTS = 8;

	explicit World(Protocol protocol, const NearSetup &setup)
	    : numbers(protocol, 1, SLOTS), store(setup, numbers), db{store, numbers, {1}, {1}}
	{
	}
	Transaction begun(unsigned slot)
	{
		return Transaction(db, tuples, 0, slot, &history);
	}
	/* Serve everything that was issued. */
	void serve()
	{
		for (bool worked = true; worked;) {
			worked = false;
			for (unsigned part = 0; part < store.parts(); part++)
				worked |= store.help_part(part);
		}
	}
	void serve_part(unsigned part)
	{
		while (store.help_part(part)) {
		}
	}
	unsigned part_of(uint64_t key) const
	{
		return store.place_of(key) / 2;
	}
	std::array<unsigned, static_cast<size_t>(Flaw::FLAWS)> flaws() const
	{
		std::array<unsigned, static_cast<size_t>(Flaw::FLAWS)> n = {};
		for (const Violation &v : check_histories({&history}))
			n[static_cast<size_t>(v.flaw)]++;
		return n;
	}

	Tuples tuples{0};
	Numbers numbers;
	NearStore store;
	Database db;
	History history;
};

constexpr unsigned WORKERS = 3, CLIENTS = 4; /* of each worker */

/* A new client, in a slot of a worker */
using MakeClient = std::function<std::unique_ptr<Client>(
        Tuples &tuples, unsigned worker, unsigned slot, History *history)>;

/* Each worker runs its clients while others run theirs; their histories hold. */
inline void run_on_threads(Store &store, const MakeClient &make)
{
	std::deque<Tuples> tuples;
	std::vector<History> histories(WORKERS);
	for (unsigned k = 0; k < WORKERS; k++)
		tuples.emplace_back(0);
	const auto work = [&](unsigned worker) {
		std::vector<std::unique_ptr<Client>> clients;
		for (unsigned k = 0; k < CLIENTS; k++)
			clients.push_back(make(
			        tuples[worker], worker, worker * CLIENTS + k, &histories[worker]));
		for (bool running = true; running;) {
			running = false;
			for (const auto &c : clients)
				running |= c->step();
			if (!store.help(worker))
				sched_yield();
		}
	};
	std::vector<std::thread> threads;
	for (unsigned k = 0; k < WORKERS; k++)
		threads.emplace_back(work, k);
	for (std::thread &t : threads)
		t.join();
	std::vector<const History *> all;
	for (const History &h : histories)
		all.push_back(&h);
	for (const Violation &v : check_histories(all))
		ADD_FAILURE() << v.text;
}

} // namespace oltpim_tests

#endif /* LAB_OLTPIM_TESTS_WORLD_HPP */
