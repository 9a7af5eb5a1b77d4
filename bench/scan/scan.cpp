/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scan.cpp - what a long scan costs the updates next to it: none, then fur_scan(), then a plain
 * fork() that keeps the heap's pages, in turn in each round.
 */
#include "../../tools/common/command_line.hpp"
#include "../../tools/common/json.hpp"
#include "../../tools/common/random.hpp"
#include "../common/round_trip.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <fur.hpp>
#include <signal.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

struct Settings {
	std::string heap = "/dev/shm/fur-bench-scan", pm = "emulated";
	uint64_t heap_mib = 1024;
	unsigned threads = 2, rounds = 5;
	double seconds = 3;
	bool json = false;
};

double now()
{
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
	        .count();
}

/* The processor time that this process has used. */
double cpu_now()
{
	timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/* What threads and the scan's process share. */
struct Shared {
	std::atomic<int> asleep;
	std::atomic<bool> over, stop, wrong;
};

/* Accounts, all over the heap: an update moves money from one to another. */
class Bank
{
public:
	explicit Bank(const Settings &s) : s_(s), heap_(make(s))
	{
		void *p = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
		        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			throw std::bad_alloc();
		shared = new (p) Shared{};
		fill();
		for (unsigned t = 0; t < s.threads; t++)
			counts_.push_back(std::make_unique<Count>());
		for (unsigned t = 0; t < s.threads; t++)
			threads_.emplace_back([this, t] { work(t); });
	}
	~Bank()
	{
		shared->stop = true;
		for (std::thread &t : threads_)
			t.join();
		unlink(s_.heap.c_str());
	}
	Bank(const Bank &) = delete;
	Bank &operator=(const Bank &) = delete;

	uint64_t updates() const
	{
		uint64_t all = 0;
		for (const auto &c : counts_)
			all += c->updates;
		return all;
	}
	/* The longest update since the last call, in milliseconds. */
	double longest_ms()
	{
		double longest = 0;
		for (const auto &c : counts_)
			longest = std::max(longest, c->longest.exchange(0));
		return longest * 1e3;
	}
	bool sound(const uint64_t *accounts) const
	{
		uint64_t sum = 0;
		for (uint64_t k = 0; k < n_; k++)
			sum += accounts[k];
		return sum == n_ * START;
	}
	const fur::Heap &heap() const
	{
		return heap_;
	}
	std::string htm() const
	{
		return fur_name(FUR_NAME_HTM, heap_.info().htm);
	}

	Shared *shared = nullptr;

private:
	enum { START = 1000, PIECE = 8192 };
	struct alignas(128) Count {
		std::atomic<uint64_t> updates{0};
		std::atomic<double> longest{0};
	};

	static fur::Heap make(const Settings &s)
	{
		fur::Options o;
		o.heap_bytes = s.heap_mib << 20;
		o.pm = s.pm == "sync" ? FUR_PM_SYNC : FUR_PM_EMULATED;
		return fur::Heap::create(s.heap, o);
	}
	void fill()
	{
		fur::Thread self(heap_);
		n_ = ((s_.heap_mib << 20) - (8 << 20)) / sizeof(uint64_t) / PIECE * PIECE;
		auto *accounts = fur::update(self, [&](fur_update *tx) {
			void *p = fur_alloc(tx, n_ * sizeof(uint64_t));
			fur_set_root(tx, 0, p);
			return static_cast<uint64_t *>(p);
		});
		const std::vector<uint64_t> piece(PIECE, START);
		for (uint64_t k = 0; accounts && k < n_; k += PIECE)
			fur::update(self, [&](fur_update *tx) {
				fur_write(tx, accounts + k, piece.data(), PIECE * sizeof(uint64_t));
			});
	}
	void work(unsigned t)
	{
		fur::Thread self(heap_);
		auto *accounts =
		        fur::read(self, [](fur_ro *tx) { return fur::root<uint64_t>(tx, 0); });
		tools::Random random{t + 1};
		for (double last = now(); !shared->stop;) {
			uint64_t *from = accounts + random.below(n_),
			         *to = accounts + random.below(n_);
			fur::update(self, fur::rerun, [&](fur_update *tx) {
				fur_store(tx, from, fur_load(tx, from) - 1);
				fur_store(tx, to, fur_load(tx, to) + 1);
			});
			const double ended = now(), took = ended - last;
			last = ended;
			Count &mine = *counts_[t];
			mine.updates.store(mine.updates + 1, std::memory_order_relaxed);
			if (took > mine.longest)
				mine.longest = took;
		}
	}

	Settings s_;
	fur::Heap heap_;
	uint64_t n_ = 0;
	std::vector<std::unique_ptr<Count>> counts_;
	std::vector<std::thread> threads_;
};

/* Updates a second while something lasts, and the longest of them.  `per_cpu`: in a second of this
 * process's processor time, which tells more where other programs take the processor away. */
struct Measured {
	double seconds, rate, per_cpu, longest_ms;
};

Measured measure(Bank &bank, const std::function<void()> &meanwhile)
{
	bank.longest_ms();
	const double began = now(), cpu_began = cpu_now();
	const uint64_t before = bank.updates();
	meanwhile();
	const double took = now() - began, cpu = cpu_now() - cpu_began,
	             updates = static_cast<double>(bank.updates() - before);
	return {took, updates / took, updates / cpu, bank.longest_ms()};
}

void sleep_for(double seconds)
{
	std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

void sleep_until_over(Shared *shared)
{
	shared->asleep++;
	while (!shared->over)
		usleep(1000);
}

struct Round {
	Measured none, copying, sleeping, forked;
	double fork_ms;
};

/* fur_scan(): the time until its scan runs, and the time in which the scan sleeps. */
void scan_round(Bank &bank, const Settings &s, Round *round)
{
	Shared *shared = bank.shared;
	shared->over = false;
	shared->asleep = 0;
	std::thread scanner;
	round->copying = measure(bank, [&] {
		scanner = std::thread([&] {
			const int wrong = bank.heap().scan([&](const fur::Heap &copy) {
				sleep_until_over(shared);
				fur::Thread self(copy);
				auto *accounts = fur::read(self,
				        [](fur_ro *tx) { return fur::root<uint64_t>(tx, 0); });
				return bank.sound(accounts) ? 0 : 1;
			});
			if (wrong)
				shared->wrong = true;
		});
		while (!shared->asleep)
			usleep(100);
	});
	round->sleeping = measure(bank, [&] { sleep_for(s.seconds); });
	shared->over = true;
	scanner.join();
}

/* A child that shares the heap's pages.  It is no snapshot: nothing holds updates while the kernel
 * copies the page tables.  Its cost is what matters here. */
void fork_round(Bank &bank, const Settings &s, Round *round)
{
	pid_t child = -1;
	round->forked = measure(bank, [&] {
		const double began = now();
		child = fork();
		if (child == 0)
			for (;;)
				pause();
		round->fork_ms = (now() - began) * 1e3;
		sleep_for(s.seconds);
	});
	kill(child, SIGKILL);
	waitpid(child, nullptr, 0);
}

double median(std::vector<double> all)
{
	std::sort(all.begin(), all.end());
	return all.empty() ? 0 : all[all.size() / 2];
}

double median_of(const std::vector<Round> &rounds, const std::function<double(const Round &)> &f)
{
	std::vector<double> all;
	for (const Round &r : rounds)
		all.push_back(f(r));
	return median(all);
}

tools::Json json_of(const Measured &m)
{
	return {{"seconds", m.seconds}, {"updates_per_second", m.rate},
	        {"updates_per_cpu_second", m.per_cpu}, {"longest_ms", m.longest_ms}};
}

void print(const std::vector<Round> &rounds, const bench::RoundTrips &trips, const Settings &s,
        const std::string &htm, bool wrong)
{
	const double gib = static_cast<double>(s.heap_mib) / 1024;
	auto row = [&](const char *name, const Measured Round::*what) {
		printf("%-22s %10.0f %8.3f %8.3f %8.3f %10.2f\n", name,
		        median_of(rounds, [&](const Round &r) { return (r.*what).rate; }),
		        median_of(rounds,
		                [&](const Round &r) { return (r.*what).rate / r.none.rate; }),
		        median_of(rounds,
		                [&](const Round &r) { return (r.*what).per_cpu / r.none.per_cpu; }),
		        median_of(rounds, [&](const Round &r) { return (r.*what).seconds; }),
		        median_of(rounds, [&](const Round &r) { return (r.*what).longest_ms; }));
	};
	if (s.json) {
		tools::Json all = tools::Json::array();
		for (const Round &r : rounds)
			all.push_back({{"none", json_of(r.none)}, {"copying", json_of(r.copying)},
			        {"sleeping", json_of(r.sleeping)}, {"forked", json_of(r.forked)},
			        {"fork_ms", r.fork_ms}});
		tools::Json out = {{"heap_mib", s.heap_mib}, {"threads", s.threads}, {"htm", htm},
		        {"pm", s.pm}, {"round_trip_ns", trips.json()}, {"verified", !wrong},
		        {"rounds", all}};
		puts(out.dump(2).c_str());
		return;
	}
	printf("heap of %llu MiB, %u threads, htm %s, pm %s, medians of %zu rounds, %s\n",
	        static_cast<unsigned long long>(s.heap_mib), s.threads, htm.c_str(), s.pm.c_str(),
	        rounds.size(), trips.text().c_str());
	printf("%-22s %10s %8s %8s %8s %10s\n", "", "updates/s", "ratio", "per CPU", "s",
	        "longest ms");
	row("no scan", &Round::none);
	row("fur_scan copies", &Round::copying);
	row("fur_scan's scan sleeps", &Round::sleeping);
	row("a plain fork sleeps", &Round::forked);
	printf("a GiB: fur_scan copies for %.0f ms; fork() takes %.1f ms\n",
	        median_of(rounds, [](const Round &r) { return r.copying.seconds; }) * 1e3 / gib,
	        median_of(rounds, [](const Round &r) { return r.fork_ms; }) / gib);
}

int run(const Settings &s)
{
	if (access(s.heap.c_str(), F_OK) == 0)
		throw std::runtime_error("the file exists: name another one, which the run makes");
	bench::RoundTrips trips;
	trips.take();
	Bank bank(s);
	std::vector<Round> rounds;
	sleep_for(s.seconds); /* the first stores to each page */
	for (unsigned k = 0; k < s.rounds; k++) {
		Round r{};
		r.none = measure(bank, [&] { sleep_for(s.seconds); });
		scan_round(bank, s, &r);
		fork_round(bank, s, &r);
		sleep_for(s.seconds / 2); /* the pages become the program's own again */
		rounds.push_back(r);
	}
	print(rounds, trips, s, bank.htm(), bank.shared->wrong);
	return bank.shared->wrong ? 1 : 0;
}

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	tools::CommandLine line("scan",
	        "Updates a second without a scan, while fur_scan() copies the heap, while its scan "
	        "sleeps, and beside a plain fork() that keeps the heap's pages.");
	line.option("--heap", s.heap, "the heap file; the run removes it");
	line.option("--heap-mib", s.heap_mib, "size of the heap").range(16, 1 << 20);
	line.option("--threads", s.threads, "threads that update").range(1, 60);
	line.option("--seconds", s.seconds, "length of each measurement");
	line.option("--rounds", s.rounds, "measurements of each").range(1, 1000);
	line.option("--pm", s.pm, "persistence domain").one_of({"emulated", "sync"});
	line.flag("--json", s.json, "print each round as JSON");
	if (auto status = tools::parse_or_exit_status(line, "scan", argc, argv))
		return *status;
	try {
		return run(s);
	} catch (const std::exception &e) {
		fprintf(stderr, "scan: %s: %s\n", s.heap.c_str(), e.what());
		return 1;
	}
}
