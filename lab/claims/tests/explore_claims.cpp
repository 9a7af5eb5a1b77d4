/* SPDX-License-Identifier: BSD-3-Clause
 *
 * explore_claims.cpp - the table of record locks (claims/claims.h) on an emulated machine: threads
 * of two processes claim few buckets, and one process may die at a random instant.  Each seed is
 * another schedule; it also chooses the machine, the threads and the buckets.
 *
 *     explore-claims --seeds FIRST..LAST [--must-find SEED]
 *
 * Checked: one holder at a time, which sees the changes of the last one (INV-CL1); an owner that
 * was in the queue before another began to look is served before it (INV-CL2); no thread waits
 * forever (INV-CL2, INV-CL3, INV-CL4); nothing remains in the table.  Exit status: 0 no violation,
 * 1 a violation, 2 wrong usage.  With --must-find SEED there must be a violation: SEED is tried
 * first, and the exit status is 0 if there is one, or else 1.
 */
#include "../../../emulator/emulated.h"
#include "../../../tools/common/random.hpp"
#include "claims/claims.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace
{

constexpr unsigned MOST_THREADS = 16, BUCKETS_LOG2 = 2, MOST_BUCKETS = 1 << BUCKETS_LOG2;
constexpr uint64_t LIMIT_NS = 50000000; /* of virtual time: a hundred times what a run takes */
constexpr int NOBODY = -1;

/* What a seed chooses. */
struct Plan {
	explicit Plan(uint64_t seed) : random(seed)
	{
		static const char *const machines[] = {"epyc", "power9", "weak", "tsx"};
		machine = machines[below(std::size(machines))];
		threads = unsigned(4 + below(MOST_THREADS - 3));
		buckets = unsigned(1 + below(MOST_BUCKETS));
		rounds = unsigned(2 + below(8));
		perturb = below(2) ? uint32_t(10 + below(100)) : 0;
		longest_hold_ns = below(2) ? 200 : 8000; /* long holds put waiters to sleep */
		dies = below(2);
		dies_at_ns = 1 + below(rounds * (200 + longest_hold_ns) * threads / buckets);
	}
	uint64_t below(uint64_t n)
	{
		return random() % n;
	}

	std::mt19937_64 random;
	const char *machine;
	unsigned threads, buckets, rounds;
	uint32_t perturb;
	uint64_t longest_hold_ns;
	bool dies; /* the replayer, which has the upper half of the threads */
	uint64_t dies_at_ns;
};

/* An owner that was in the queue, and how often it had been served. */
struct Ahead {
	unsigned thread;
	uint64_t times_served;
};

/* What the machine does not see. */
struct Notes {
	std::string wrong;
	int holder[MOST_BUCKETS];
	uint64_t changed[MOST_BUCKETS];        /* as counter must be */
	uint64_t may_be_changed[MOST_BUCKETS]; /* by a thread that died while it held the bucket */
	bool pending[MOST_THREADS];            /* inside claims_take() */
	bool dead[MOST_THREADS];
	uint64_t times_served[MOST_THREADS];
};

/* The state of a run.  The table and the counters, which the claims protect, are simulated. */
const Plan *plan;
Notes notes;
alignas(256) uint64_t counter[MOST_BUCKETS][32];
alignas(256) uint8_t memory[ARCH_PAD + MOST_BUCKETS * ARCH_PAD];
claims *const table = reinterpret_cast<claims *>(memory);

/* Run f within the present step: the machine does not see it. */
template <class F>
void unseen(F f)
{
	emu_unseen([](void *g) { (*static_cast<F *>(g))(); }, &f);
}

void wrong(const std::string &text)
{
	if (notes.wrong.empty())
		notes.wrong = text;
}

bool of_replayer(unsigned thread)
{
	return thread >= plan->threads / 2;
}

const uint64_t *slots(uint64_t bucket)
{
	return reinterpret_cast<const uint64_t *>(
	        memory + sizeof(claims) + (bucket << table->stride_log2));
}

/* ------------------------------------------------------------------- one thread */

class Party
{
public:
	explicit Party(unsigned me)
	    : me_(me), owner_(claims_owner(of_replayer(me) ? CLAIMS_REPLAYER : CLAIMS_WORKER, me)),
	      random_{me * 7919 + plan->rounds}
	{
	}
	void work()
	{
		for (unsigned round = 0; round < plan->rounds; round++) {
			switch (random_.below(8)) {
			case 0: try_one(random_.below(plan->buckets)); break;
			case 1: take_all(); break;
			default: take_one(random_.below(plan->buckets)); break;
			}
			emu_work(random_.below(500));
		}
	}

private:
	void take_one(uint64_t bucket)
	{
		unseen([&] { note_queue(bucket); });
		claims_take(table, bucket, owner_);
		unseen([&] { note_served(bucket); });
		change(bucket);
		claims_release(table, bucket, owner_);
	}
	void try_one(uint64_t bucket)
	{
		if (claims_try(table, bucket, owner_) != CLAIMS_TAKEN)
			return;
		change(bucket);
		claims_release(table, bucket, owner_);
	}
	void take_all()
	{
		uint64_t all[MOST_BUCKETS];
		for (uint64_t k = 0; k < plan->buckets; k++)
			all[k] = k;
		claims_take_batch(table, all, plan->buckets, owner_);
		for (uint64_t k = 0; k < plan->buckets; k++)
			change(k);
		claims_release_batch(table, all, plan->buckets, owner_);
	}
	/* The holder's plain load and store of the record. */
	void change(uint64_t bucket)
	{
		unseen([&] {
			int before = notes.holder[bucket];
			if (before != NOBODY)
				wrong("bucket " + std::to_string(bucket) + " is held by threads " +
				        std::to_string(before) + " and " + std::to_string(me_) +
				        " (INV-CL1)");
			notes.holder[bucket] = int(me_);
		});
		uint64_t was = counter[bucket][0];
		emu_work(random_.below(plan->longest_hold_ns));
		counter[bucket][0] = was + 1;
		unseen([&] {
			notes.changed[bucket]++;
			notes.holder[bucket] = NOBODY;
		});
	}
	/* All slots change by read-modify-writes, so what lies in memory is what threads see. */
	void note_queue(uint64_t bucket)
	{
		ahead_.clear();
		for (unsigned k = 0; k < CLAIMS_SLOTS; k++) {
			auto other = unsigned(slots(bucket)[k] >> 1 & 0xffff);
			if (slots(bucket)[k] && notes.pending[other])
				ahead_.push_back({other, notes.times_served[other]});
		}
		notes.pending[me_] = true;
	}
	void note_served(uint64_t bucket)
	{
		notes.pending[me_] = false;
		notes.times_served[me_]++;
		for (Ahead other : ahead_)
			if (!notes.dead[other.thread] &&
			        notes.times_served[other.thread] == other.times_served)
				wrong("thread " + std::to_string(me_) + " overtook thread " +
				        std::to_string(other.thread) + " in bucket " +
				        std::to_string(bucket) + " (INV-CL2)");
	}

	unsigned me_;
	uint64_t owner_;
	tools::Random random_;
	std::vector<Ahead> ahead_;
};

/* ----------------------------------------------------------------------- one run */

/* The replayer's process dies, and a worker clears its claims. */
void kill_replayer(std::vector<std::thread> &threads)
{
	while (emu_ticks() < plan->dies_at_ns * 1000)
		emu_work(100);
	for (unsigned t = plan->threads / 2; t < plan->threads; t++)
		emu_kill(threads[t].native_handle());
	for (unsigned t = plan->threads / 2; t < plan->threads; t++)
		threads[t].join();
	unseen([] {
		for (unsigned t = plan->threads / 2; t < plan->threads; t++)
			notes.dead[t] = true;
		for (unsigned b = 0; b < MOST_BUCKETS; b++)
			if (notes.holder[b] != NOBODY && of_replayer(unsigned(notes.holder[b]))) {
				notes.may_be_changed[b]++;
				notes.holder[b] = NOBODY;
			}
	});
	claims_clear_owner_of(table, CLAIMS_REPLAYER);
}

/* Simulated: thread 0. */
void simulate(void *)
{
	claims_format(table, BUCKETS_LOG2);
	std::vector<std::thread> threads;
	for (unsigned t = 0; t < plan->threads; t++)
		threads.emplace_back([t] { Party(t).work(); });
	if (plan->dies)
		kill_replayer(threads);
	for (auto &t : threads)
		if (t.joinable())
			t.join();
}

const emu_machine *machine_named(const std::string &name)
{
	static std::map<std::string, emu_machine *> known;
	emu_machine *&m = known[name];
	char error[512];
	if (!m && !(m = emu_machine_read(name.c_str(), error, sizeof error))) {
		fprintf(stderr, "explore-claims: %s\n", error);
		exit(2);
	}
	return m;
}

std::string judge(emu_end end)
{
	if (!notes.wrong.empty())
		return notes.wrong;
	if (end == EMU_DEADLOCK)
		return "every thread sleeps (INV-CL3, INV-CL4)";
	if (end == EMU_LATE)
		return "a thread waits forever (INV-CL2)";
	for (unsigned b = 0; b < MOST_BUCKETS; b++) {
		for (unsigned k = 0; k < CLAIMS_SLOTS; k++)
			if (slots(b)[k])
				return "slot " + std::to_string(k) + " of bucket " +
				       std::to_string(b) + " remains occupied (INV-CL4)";
		uint64_t least = notes.changed[b], most = least + notes.may_be_changed[b];
		if (counter[b][0] < least || counter[b][0] > most)
			return "bucket " + std::to_string(b) + " counts " +
			       std::to_string(counter[b][0]) + " changes of " +
			       std::to_string(least) + " (INV-CL1)";
	}
	return "";
}

std::string run(uint64_t seed)
{
	/* Simulated threads read it.  On the stack it would share lines with other data, and runs
	 * of one seed would differ from process to process. */
	alignas(256) static Plan of_seed(seed);
	of_seed = Plan(seed);
	plan = &of_seed;
	notes = {};
	for (int &holder : notes.holder)
		holder = NOBODY;
	memset(counter, 0, sizeof counter);
	emu_options options = {};
	options.seed = seed;
	options.perturb = of_seed.perturb;
	options.limit_ns = LIMIT_NS;
	std::string found =
	        judge(emu_run(machine_named(of_seed.machine), &options, simulate, nullptr));
	return found.empty() ? found : std::string(of_seed.machine) + ": " + found;
}

/* Does not return from a violation. */
void explore(unsigned long long seed, bool must_find)
{
	std::string found = run(seed);
	if (found.empty())
		return;
	printf("VIOLATION with seed %llu, on %s\n"
	       "repeat with: explore-claims --seeds %llu..%llu\n",
	        seed, found.c_str(), seed, seed);
	if (must_find)
		printf("found with seed %llu\n", seed);
	fflush(stdout);
	_Exit(must_find ? 0 : 1); /* simulated threads may hold anything */
}

} // namespace

int main(int argc, char **argv)
{
	unsigned long long first, last, witness = 0;
	if ((argc != 3 && argc != 5) || std::string(argv[1]) != "--seeds" ||
	        sscanf(argv[2], "%llu..%llu", &first, &last) != 2 || first > last ||
	        (argc == 5 && (std::string(argv[3]) != "--must-find" ||
	                              sscanf(argv[4], "%llu", &witness) != 1 || !witness))) {
		fprintf(stderr, "usage: explore-claims --seeds FIRST..LAST [--must-find SEED]\n");
		return 2;
	}
	if (witness)
		explore(witness, true);
	for (uint64_t seed = first; seed <= last; seed++)
		explore(seed, witness != 0);
	printf("%llu seeds, no violation\n", last - first + 1);
	return witness ? 1 : 0;
}
