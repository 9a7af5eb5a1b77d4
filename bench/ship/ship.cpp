/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ship.cpp - what it costs a heap to ship its updates, how many a shipper ships, and how long a
 * commit of level replicated takes beside the log's own answer.
 */
#include "../../tools/common/command_line.hpp"
#include "../../tools/common/json.hpp"
#include "../common/histogram.hpp"
#include "../common/output.hpp"
#include "../common/round_trip.hpp"
#include "internals.hpp"
#include "logs.hpp"

#define _Static_assert static_assert /* NOLINT */
extern "C" {
#include "ship/engine_open.h"
#include "ship/shipper.h"
}
#undef _Static_assert

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fur.hpp>
#include <iostream>
#include <optional>
#include <thread>
#include <unistd.h>

namespace
{

using bench_ship::Bare;
using tools::Json;
using Clock = std::chrono::steady_clock;

enum : uint64_t { WORDS = 8, COPIES = 64 };

struct Settings {
	std::string engine = "null", log, directory = "/dev/shm", pm = "emulated", json;
	std::vector<std::string> set;
	uint64_t threads = 1, rounds = 5, message_bytes = 200;
	double seconds = 1;
	bool commits = false;
};

double seconds_since(Clock::time_point begun)
{
	return std::chrono::duration<double>(Clock::now() - begun).count();
}

void must(int error)
{
	if (error)
		throw std::runtime_error(fur_errormsg());
}

/* A name that no other round uses. */
std::string unique(const std::string &name)
{
	static unsigned n;
	return name + "." + std::to_string(getpid()) + "." + std::to_string(n++);
}

std::string log_name(const Settings &s)
{
	return s.engine == "file" ? unique("file:" + s.directory + "/fur-ship-log") : unique(s.log);
}

stream_engine *open_engine(const Settings &s, const std::string &name)
{
	if (s.engine == "null")
		return bench_ship::null_engine();
	std::vector<const char *> settings;
	for (const std::string &each : s.set)
		settings.push_back(each.c_str());
	settings.push_back(nullptr);
	stream_engine *e;
	must(engine_open(name.c_str(), ENGINE_MAKE, settings.data(), &e));
	return e;
}

void remove_log(const std::string &name)
{
	if (name.rfind("file:", 0) == 0)
		unlink(name.c_str() + 5);
}

/* ----------------------------------------------------------------- a shipped heap */

/* A shipper in a thread of this process, as fur-ship is in its own. */
class Shipping
{
public:
	Shipping(const Settings &s, const std::string &heap) : log_(log_name(s))
	{
		engine_ = open_engine(s, log_);
		must(heap_open_file(heap.c_str(), HEAP_LOCK_NONE, &file_));
		must(heap_attach_to_replay(&d_, &file_));
		d_.replays_for_worker = true;
		must(shipper_begin(&shipper_, &d_, &file_, engine_));
		thread_ = std::thread([this] { result_ = shipper_run(&shipper_); });
	}
	~Shipping()
	{
		arch_store32_release(&shipper_.stopping, 1);
		ship_call_shipper(&d_);
		thread_.join();
		if (result_)
			std::cerr << "ship: the shipper has failed\n";
		shipper_end(&shipper_);
		engine_->ops->close(engine_);
		durability_detach(&d_);
		heap_close_file(&file_);
		remove_log(log_);
	}
	Shipping(const Shipping &) = delete;

private:
	std::string log_;
	heap_file file_;
	durability d_;
	shipper shipper_;
	stream_engine *engine_;
	std::thread thread_;
	int result_ = 0;
};

struct alignas(128) Cell {
	uint64_t words[WORDS];
};

fur::Options options_of(const Settings &s, fur_ack ack)
{
	fur::Options o;
	o.heap_bytes = 16 << 20;
	o.log_bytes = 4 << 20;
	o.ring_slots = 1 << 16;
	o.max_threads = static_cast<uint32_t>(s.threads + 2);
	o.pm = s.pm == "sync" ? FUR_PM_SYNC : FUR_PM_EMULATED;
	o.ack = ack;
	o.ack_patience_ms = 60000;
	return o;
}

/* A heap with a cell for each thread and number, closed; `ships`: a primary. */
class HeapFile
{
public:
	HeapFile(const Settings &s, bool ships) : path(unique(s.directory + "/fur-ship-heap"))
	{
		fur::Heap heap = fur::Heap::create(path, options_of(s, FUR_ACK_LOCAL));
		std::optional<fur::Thread> self(heap);
		fur::update(*self, [&](fur_update *tx) {
			fur_set_root(tx, 0,
			        fur_alloc_aligned(tx, s.threads * COPIES * sizeof(Cell), 128));
		});
		self.reset();
		heap.close();
		if (!ships)
			return;
		heap_file file;
		media_ship page = {};
		page.role = MEDIA_PRIMARY;
		page.node = 1;
		page.offset = STREAM_NO_OFFSET;
		must(heap_open_file(path.c_str(), HEAP_LOCK_WORKER, &file));
		must(heap_write_ship_page(&file, &page));
		heap_close_file(&file);
	}
	~HeapFile()
	{
		unlink(path.c_str());
	}
	HeapFile(const HeapFile &) = delete;
	const std::string path;
};

/* A small update: the eight words of one cell. */
void update(fur_thread *self, Cell *cell, uint64_t value)
{
	fur::update(self, fur::rerun, [&](fur_update *tx) {
		for (uint64_t &word : cell->words)
			fur_store(tx, &word, value);
	});
}

struct Rate {
	uint64_t updates = 0;
	double per_second = 0, shipped_per_second = 0;
};

/* Every thread updates for `seconds`, but at least once, because one sync of a disk may take
 * longer.  Then all that was updated is shipped. */
Rate run_threads(const Settings &s, fur::Heap &heap, bool ships)
{
	fur::Thread self(heap);
	auto *cells =
	        fur::read(self, [](fur_ro *tx) { return static_cast<Cell *>(fur_root(tx, 0)); });
	update(self, cells, 1); /* when it returns, the shipper ships */
	std::atomic<bool> over{false};
	std::atomic<uint64_t> updates{0};
	std::vector<std::thread> threads;
	const auto begun = Clock::now();
	for (uint64_t t = 0; t < s.threads; t++)
		threads.emplace_back([&, t] {
			fur::Thread mine(heap);
			uint64_t n = 0;
			do {
				update(mine, &cells[t * COPIES + n % COPIES], n);
				n++;
			} while (!over.load(std::memory_order_relaxed));
			updates += n;
		});
	std::this_thread::sleep_for(std::chrono::duration<double>(s.seconds));
	over = true;
	for (std::thread &t : threads)
		t.join();
	Rate r;
	r.updates = updates;
	r.per_second = static_cast<double>(r.updates) / seconds_since(begun);
	durability *d = &heap.get()->durability;
	while (ships && ship_acked(d) < ring_next(d))
		std::this_thread::sleep_for(std::chrono::microseconds(100));
	if (ships)
		r.shipped_per_second = static_cast<double>(r.updates) / seconds_since(begun);
	return r;
}

Rate measure_rate(const Settings &s, bool ships)
{
	const HeapFile file(s, ships);
	fur::Heap heap = fur::Heap::open(file.path, options_of(s, FUR_ACK_LOCAL));
	std::optional<Shipping> shipping;
	if (ships)
		shipping.emplace(s, file.path);
	const Rate r = run_threads(s, heap, ships);
	heap.close();
	return r;
}

/* --------------------------------------------------------------------- latencies */

template <class Body>
bench::Histogram times_of(const Settings &s, Body body)
{
	bench::Histogram h;
	body(); /* connects */
	const auto begun = Clock::now();
	do {
		const auto t = Clock::now();
		body();
		h.add(static_cast<uint64_t>(
		        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - t)
		                .count()));
	} while (seconds_since(begun) < s.seconds);
	return h;
}

/* The updates of one thread, in its own cells. */
bench::Histogram commits_of(const Settings &s, fur::Heap &heap, uint64_t t)
{
	fur::Thread self(heap);
	auto *cells =
	        fur::read(self, [](fur_ro *tx) { return static_cast<Cell *>(fur_root(tx, 0)); });
	uint64_t n = 0;
	return times_of(s, [&] {
		update(self, &cells[t * COPIES + n % COPIES], n);
		n++;
	});
}

struct Commits {
	bench::Histogram times;
	double per_second = 0;
};

Commits measure_commits(const Settings &s, uint64_t threads)
{
	const HeapFile file(s, true);
	fur::Heap heap = fur::Heap::open(file.path, options_of(s, FUR_ACK_REPLICATED));
	std::optional<Shipping> shipping(std::in_place, s, file.path);
	std::vector<bench::Histogram> times(threads);
	std::vector<std::thread> others;
	for (uint64_t t = 1; t < threads; t++)
		others.emplace_back([&, t] { times[t] = commits_of(s, heap, t); });
	times[0] = commits_of(s, heap, 0);
	for (std::thread &t : others)
		t.join();
	heap.close();
	Commits c;
	for (const bench::Histogram &each : times) {
		/* A thread's own time is that of its updates, one after the other. */
		c.per_second += 1e9 / each.mean();
		c.times.add(each);
	}
	return c;
}

/* The file's and the null log's own answer. */
class BareEngine : public Bare
{
public:
	BareEngine(const Settings &s, const std::string &name)
	    : e_(open_engine(s, name)), message_(s.message_bytes, 'x')
	{
	}
	~BareEngine() override
	{
		e_->ops->close(e_);
	}
	BareEngine(const BareEngine &) = delete;
	void append() override
	{
		engine_ack ack;
		must(e_->ops->append(e_, 1, message_.data(), message_.size()));
		while (e_->ops->poll(e_, &ack, 1, 1000) != 1)
			;
	}

private:
	stream_engine *e_;
	std::string message_;
};

std::unique_ptr<Bare> bare_of(const Settings &s, const std::string &name)
{
#if defined(BENCH_RDKAFKA)
	if (s.engine == "kafka") {
		stream_engine *e = open_engine(s, name); /* makes the topic */
		e->ops->close(e);
		return bench_ship::bare_kafka(name, s.message_bytes, s.set);
	}
#endif
	return std::make_unique<BareEngine>(s, name);
}

bench::Histogram measure_bare(const Settings &s)
{
	const std::string name = log_name(s);
	bench::Histogram h;
	{
		const std::unique_ptr<Bare> bare = bare_of(s, name);
		h = times_of(s, [&] { bare->append(); });
	}
	remove_log(name);
	return h;
}

/* --------------------------------------------------------------------- the rounds */

Json spread(std::vector<double> values)
{
	std::sort(values.begin(), values.end());
	return {{"median", values[values.size() / 2]}, {"min", values.front()},
	        {"max", values.back()}};
}

double us(uint64_t ns)
{
	return static_cast<double>(ns) / 1000;
}

Json run(const Settings &s)
{
	std::vector<double> with, without, ratio, shipped, commit, commit_99, bare, bare_99, over;
	uint64_t updates = 0;
	for (uint64_t round = 0; round < s.rounds; round++) {
		/* In turns, so that what else the machine does affects both. */
		Rate a, b;
		for (unsigned k = 0; k < 2; k++)
			if ((k + round) % 2)
				a = measure_rate(s, true);
			else
				b = measure_rate(s, false);
		with.push_back(a.per_second);
		without.push_back(b.per_second);
		ratio.push_back(a.per_second / b.per_second);
		shipped.push_back(a.shipped_per_second);
		updates += a.updates;
		const bench::Histogram log = measure_bare(s), commits = measure_commits(s, 1).times;
		bare.push_back(us(log.quantile(0.5)));
		bare_99.push_back(us(log.quantile(0.99)));
		commit.push_back(us(commits.quantile(0.5)));
		commit_99.push_back(us(commits.quantile(0.99)));
		over.push_back(commit.back() / bare.back());
	}
	return {{"workload", "ship"}, {"engine", s.engine}, {"log", s.log}, {"pm", s.pm},
	        {"threads", s.threads}, {"rounds", s.rounds}, {"seconds", s.seconds},
	        {"update_bytes", sizeof(Cell::words)}, {"message_bytes", s.message_bytes},
	        {"cores", std::thread::hardware_concurrency()}, {"updates", updates},
	        {"local_with_shipper_per_second", spread(with)},
	        {"local_without_per_second", spread(without)},
	        {"local_with_shipper_over_without", spread(ratio)},
	        {"shipped_updates_per_second", spread(shipped)},
	        {"bare_produce_p50_us", spread(bare)}, {"bare_produce_p99_us", spread(bare_99)},
	        {"commit_p50_us", spread(commit)}, {"commit_p99_us", spread(commit_99)},
	        {"commit_p50_over_bare_produce", spread(over)}};
}

/* What peers.py compares with other systems. */
Json run_commits(const Settings &s)
{
	bench::RoundTrips trips;
	trips.take();
	const Commits c = measure_commits(s, s.threads);
	trips.take();
	return {{"workload", "ship-commits"}, {"engine", s.engine}, {"pm", s.pm},
	        {"clients", s.threads}, {"seconds", s.seconds}, {"commits", c.times.count()},
	        {"commits_per_second", c.per_second}, {"p50_us", us(c.times.quantile(0.5))},
	        {"p99_us", us(c.times.quantile(0.99))}, {"round_trip_ns", trips.json()}};
}

void print_commits(const Json &r)
{
	printf("%.6g commits of level replicated per second, p50 %.6g us, p99 %.6g us\n",
	        r["commits_per_second"].get<double>(), r["p50_us"].get<double>(),
	        r["p99_us"].get<double>());
}

void print_table(const Json &r)
{
	const auto line = [&](const char *name, const char *what) {
		printf("%-34s %12.6g %12.6g %12.6g  %s\n", name, r[name]["median"].get<double>(),
		        r[name]["min"].get<double>(), r[name]["max"].get<double>(), what);
	};
	printf("%-34s %12s %12s %12s\n", r["engine"].get<std::string>().c_str(), "median", "min",
	        "max");
	line("local_without_per_second", "updates of a heap that does not ship");
	line("local_with_shipper_per_second", "updates of one that does");
	line("local_with_shipper_over_without", "of one round");
	line("shipped_updates_per_second", "until the log has all");
	line("bare_produce_p50_us", "the log's own answer to a small message");
	line("commit_p50_us", "an update of level replicated");
	line("commit_p50_over_bare_produce", "of one round");
	line("bare_produce_p99_us", "");
	line("commit_p99_us", "");
}

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	tools::CommandLine line("ship", "What it costs to ship a heap's updates to a log.");
	line.option("--engine", s.engine, "the log: null answers at once, and keeps nothing")
	        .one_of({"null", "file", "kafka"});
	line.option("--log", s.log,
	        "of --engine kafka: kafka:HOST:PORT,.../TOPIC; each run makes "
	        "topics of its own, whose names begin so");
	line.option("--set", s.set, "KEY=VALUE for the log's client; may be repeated");
	line.option("--directory", s.directory, "for the heaps, and the log of --engine file");
	line.option("--pm", s.pm, "the heap's persistence domain").one_of({"emulated", "sync"});
	line.option("--threads", s.threads, "threads that update").range(1, 64);
	line.option("--rounds", s.rounds, "of all measurements").range(1, 1000);
	line.flag("--commits", s.commits,
	            "measure nothing but commits of level replicated, by --threads, in one round")
	        .excludes("--rounds");
	line.option("--seconds", s.seconds, "length of each measurement").range(0.01L, 600);
	line.option("--message-bytes", s.message_bytes, "of a message without libfur")
	        .range(1, 500000);
	line.option("--json", s.json, "write the result there; - is standard output");
	if (auto status = tools::parse_or_exit_status(line, "ship", argc, argv))
		return *status;
	if ((s.engine == "kafka") == s.log.empty()) {
		std::cerr << "ship: --log NAME and --engine kafka belong together\n";
		return 2;
	}
	try {
		const Json r = s.commits ? run_commits(s) : run(s);
		if (s.json != "-")
			s.commits ? print_commits(r) : print_table(r);
		if (!s.json.empty())
			bench::write_json(s.json, r);
	} catch (const std::exception &e) {
		std::cerr << "ship: " << e.what() << "\n";
		return 1;
	}
	return 0;
}
