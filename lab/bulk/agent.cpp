/* SPDX-License-Identifier: BSD-3-Clause
 *
 * agent.cpp - a lock table that a host and a coherent device share (the paper on ccSLT, Figures 4
 * and 5), on an emulated machine with such a device.
 *
 * A bucket is a line of eight slots: an owner's number in slot 0 is the lock, in the others a place
 * in its queue.  There are three measurements, for one share of parallel requests (--parallel):
 *
 *   latency      Each side in turn requests one lock after the other, each in a bucket that no
 *                cache has.  In a share of these rounds the other side has a request for the same
 *                lock under way.  `first` is the first compare-and-swap of a request, which the
 *                paper reports; `placed` is the request until its owner is in a slot.
 *   reads        The device reads lines of the home: from there, and again from its cache.
 *   throughput   Both sides at once take a lock, update a record of a line, and release the lock,
 *                one after the other, with libfur's table (claims/claims.h).  A share of their
 *                requests goes to a few locks of both.
 */
#include "../../bench/common/driver.hpp"
#include "../../tools/common/random.hpp"

#include "locks.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>

namespace
{

using bench::json;
using bench::Usage;
using tools::Random;

enum : unsigned { BUCKETS = 1 << 16, SLOTS = 8, HOT = 8, LINE = 64, PAGE = 8192 };
enum : uint64_t { ROUND_NS = 5000, HEAD_START_NS = 250 };

struct alignas(LINE) Bucket {
	uint64_t slot[SLOTS];
};
struct alignas(LINE) Record {
	uint64_t updates, gap[LINE / 8 - 1];
};
struct Table {
	Bucket bucket[BUCKETS];
	Record record[BUCKETS];
};

enum class Side { HOST, DEVICE };

struct Workload {
	unsigned parallel = 0, requests = 2000, devices = 1;
};

/* libfur's table of record locks has a lock for each record. */
static_assert(BUCKETS == 1u << CLAIMS_BUCKETS_LOG2);

/* Cleared while no time passes, so that no cache has a line of it. */
std::unique_ptr<Table> new_table()
{
	std::unique_ptr<Table> table(new Table);
	bench::aside([&] { memset(table.get(), 0, sizeof *table); });
	return table;
}

/* In virtual time; to a turn of spin(). */
void wait_until(uint64_t ns)
{
	while (arch_now_ns() < ns)
		bench::spin();
}

/* Picoseconds that f() takes. */
template <class F>
uint64_t time_of(F f)
{
	uint64_t before = arch_ticks(), look = arch_ticks() - before;
	before = arch_ticks();
	f();
	return arch_ticks() - before - look;
}

void go(Side side)
{
	if (side == Side::DEVICE)
		bench::to_agent();
}

/* Run each body on a thread of its own. */
void run_all(const std::vector<std::function<void()>> &bodies)
{
	std::vector<std::thread> threads;
	for (const auto &body : bodies)
		threads.emplace_back(body);
	for (auto &t : threads)
		t.join();
}

/* ------------------------------------------------------------------ one lock */

bool place(uint64_t &slot, uint64_t owner)
{
	uint64_t free = 0;
	return std::atomic_ref(slot).compare_exchange_strong(free, owner);
}

/* By an atomic operation: the store of a side that requests lines would move the line. */
void withdraw(uint64_t &slot)
{
	std::atomic_ref(slot).exchange(0, std::memory_order_release);
}

struct Request {
	uint64_t first_ps, placed_ps;
};

/* The other side has at most one request in the bucket, so the second slot is free. */
Request request(Bucket &b, uint64_t owner)
{
	bool got = false;
	unsigned in = 0;
	uint64_t first = time_of([&] { got = place(b.slot[0], owner); }), second = 0;
	if (!got) {
		in = 1;
		second = time_of([&] { place(b.slot[1], owner); });
	}
	withdraw(b.slot[in]);
	return {first, first + second};
}

/* ------------------------------------------------------------------- latency */

/* The buckets in an order without neighbours; each once. */
Bucket &bucket_of(Table &table, unsigned round)
{
	return table.bucket[round * 40503u % BUCKETS];
}

void request_all(Table &table, unsigned requests, uint64_t start, std::vector<Request> &all)
{
	for (unsigned k = 0; k < requests; k++) {
		wait_until(start + k * ROUND_NS + HEAD_START_NS);
		all[k] = request(bucket_of(table, k), 1);
	}
}

void request_some(Table &table, unsigned requests, uint64_t start, unsigned percent, uint64_t seed)
{
	Random random{seed};
	for (unsigned k = 0; k < requests; k++) {
		bool takes_part = random.below(100) < percent;
		/* Both sides' operations overlap, in all ways in which they can. */
		wait_until(start + k * ROUND_NS + random.below(HEAD_START_NS));
		if (takes_part)
			request(bucket_of(table, k), 2);
	}
}

json summary(std::vector<uint64_t> ps)
{
	std::sort(ps.begin(), ps.end());
	auto ns = [](uint64_t x) { return static_cast<double>(x) / 1000; };
	uint64_t sum = std::accumulate(ps.begin(), ps.end(), UINT64_C(0));
	json r;
	r["mean_ns"] = ns(sum) / static_cast<double>(ps.size());
	r["least_ns"] = ns(ps.front());
	r["median_ns"] = ns(ps[ps.size() / 2]);
	r["p99_ns"] = ns(ps[ps.size() * 99 / 100]);
	r["most_ns"] = ns(ps.back());
	return r;
}

json latency(Table &table, const Workload &w, Side side, uint64_t seed)
{
	std::vector<Request> all(w.requests);
	uint64_t start = arch_now_ns() + 100000; /* when both threads are in place */
	run_all({[&] {
		         go(side);
		         request_all(table, w.requests, start, all);
	         },
	        [&] {
		        go(side == Side::HOST ? Side::DEVICE : Side::HOST);
		        request_some(table, w.requests, start, w.parallel, seed);
	        }});
	json r;
	bench::aside([&] {
		std::vector<uint64_t> first, placed;
		for (const Request &one : all) {
			first.push_back(one.first_ps);
			placed.push_back(one.placed_ps);
		}
		r["first"] = summary(first);
		r["placed"] = summary(placed);
	});
	return r;
}

/* --------------------------------------------------------------------- reads */

/* Line by line. */
void read(Bucket *from, unsigned bytes)
{
	for (unsigned k = 0; k < bytes / LINE; k++)
		std::atomic_ref(from[k].slot[0]).load(std::memory_order_relaxed);
}

json reads(Table &table)
{
	std::array<uint64_t, 4> ps = {};
	run_all({[&] {
		go(Side::DEVICE);
		Bucket *line = table.bucket, *page = line + PAGE / LINE;
		ps[0] = time_of([line] { read(line, LINE); });
		ps[1] = time_of([line] { read(line, LINE); });
		ps[2] = time_of([page] { read(page, PAGE); });
		ps[3] = time_of([page] { read(page, PAGE); });
	}});
	json r;
	static const char *const names[] = {
	        "line_ns", "cached_line_ns", "page_ns", "cached_page_ns"};
	for (unsigned k = 0; k < ps.size(); k++)
		r[names[k]] = static_cast<double>(ps[k]) / 1000;
	return r;
}

/* ---------------------------------------------------------------- throughput */

/* A thread's counts, on a line of its own. */
struct alignas(128) Counts {
	uint64_t taken, waited;
};

void take(claims *locks, uint64_t bucket, uint64_t owner, Counts &mine)
{
	if (claims_try(locks, bucket, owner) != CLAIMS_BUSY)
		return;
	mine.waited++;
	claims_take(locks, bucket, owner);
}

/* The record's accesses are plain: the lock orders them, or the sum at the end is wrong. */
void update_records(Table &table, claims *locks, const Workload &w, uint64_t owner, uint64_t until,
        Counts &mine)
{
	Random random{owner};
	while (arch_now_ns() < until) {
		uint64_t r = random.next();
		bool hot = r % 100 < w.parallel;
		uint64_t k = hot ? r / 128 % HOT : HOT + r / 128 % (BUCKETS - HOT),
		         bucket = claims_hash(locks, k);
		take(locks, bucket, owner, mine);
		table.record[k].updates++;
		claims_release(locks, bucket, owner);
		mine.taken++;
	}
}

json side_result(const std::vector<Counts> &counts, size_t from, size_t to, double seconds)
{
	Counts all = {};
	for (size_t k = from; k < to; k++) {
		all.taken += counts[k].taken;
		all.waited += counts[k].waited;
	}
	json r;
	r["threads"] = to - from;
	r["updates_per_second"] = static_cast<double>(all.taken) / seconds;
	r["waits"] = all.waited;
	return r;
}

/* Sets `verified`: no update of a record got lost, and no lock is left. */
json throughput(
        Table &table, claims *locks, const bench::Options &o, const Workload &w, bool &verified)
{
	std::vector<Counts> counts(o.threads + w.devices);
	uint64_t start = arch_now_ns() + 100000,
	         until = start + static_cast<uint64_t>(o.seconds * 1e9);
	std::vector<std::function<void()>> bodies;
	for (unsigned k = 0; k < counts.size(); k++)
		bodies.emplace_back([&, k] {
			bool device = k >= o.threads;
			uint64_t owner =
			        claims_owner(device ? CLAIMS_REPLAYER : CLAIMS_WORKER, k + 1);
			go(device ? Side::DEVICE : Side::HOST);
			wait_until(start);
			update_records(table, locks, w, owner, until, counts[k]);
		});
	run_all(bodies);
	json r;
	bench::aside([&] {
		uint64_t taken = 0, updated = 0;
		for (const Counts &c : counts)
			taken += c.taken;
		for (const Record &record : table.record)
			updated += record.updates;
		struct claims_count left = claims_count(locks);
		verified = taken == updated && !left.held && !left.waiting;
		r["host"] = side_result(counts, 0, o.threads, o.seconds);
		r["device"] = side_result(counts, o.threads, counts.size(), o.seconds);
	});
	return r;
}

/* ---------------------------------------------------------------------- main */

bool has_agent()
{
	bool has = false;
	std::thread([&] { has = bench::to_agent(); }).join();
	return has;
}

int run(const bench::Options &o, const Workload &w)
{
	if (!has_agent())
		throw Usage("--machine " + o.machine +
		            ": it has no coherent agent: use ccix-ndp, or a description with a "
		            "table [agent]");
	if (w.devices > bench::agent_threads())
		throw Usage("--device-threads " + std::to_string(w.devices) + ": the agent has " +
		            std::to_string(bench::agent_threads()));
	/* A table for each measurement: the caches keep what another one has used. */
	std::array<std::unique_ptr<Table>, 4> table;
	for (auto &t : table)
		t = new_table();
	bench::Locks locks;
	bool verified = false;
	json host = latency(*table[0], w, Side::HOST, o.seed),
	     device = latency(*table[1], w, Side::DEVICE, o.seed), read = reads(*table[2]),
	     updates = throughput(*table[3], locks.get(), o, w, verified), result;
	bench::aside([&] {
		result["workload"] = "agent";
		result["machine"] = o.machine;
		result["home"] = bench::home_side();
		result["parallel"] = w.parallel;
		result["requests"] = w.requests;
		result["seed"] = o.seed;
		result["latency"]["host"] = host;
		result["latency"]["device"] = device;
		result["reads"] = read;
		result["throughput"] = updates;
		result["verified"] = verified;
	});
	return bench::report(o, result);
}

void add_options(tools::CommandLine &line, bench::Options &o, Workload &w)
{
	for (const char *other : {"--tm", "--most-threads", "--heap", "--reuse", "--heap-mib",
	             "--log-mib", "--ring-slots", "--pm", "--pm-latency-ns", "--pm-gap-ns",
	             "--pm-read-ns", "--dram-mib", "--runs", "--phases"})
		line.remove(other);
	o.machine = "ccix-ndp";
	o.seconds = 0.001;
	line.at("--machine")
	        .describe("emulated machine with a coherent agent: ccix-ndp, or a file that "
	                  "describes one")
	        .shown_default = "ccix-ndp";
	line.option("--home", o.home,
	            "the side that has the memory, host or device; default: from the machine's "
	            "description")
	        .one_of({"host", "device"});
	line.at("--threads").describe("threads of the host that measure throughput");
	line.at("--seconds")
	        .describe("virtual time in which throughput is measured")
	        .shown_default = "0.001";
	line.option("--device-threads", w.devices, "threads of the device that measure throughput")
	        .range(1, 100);
	line.option("--parallel", w.parallel,
	            "percentage of requests that contend: in the rounds of latency, with one "
	            "request of the other side; of throughput, for a few locks of all")
	        .range(0, 100);
	line.option("--requests", w.requests, "lock requests of which a latency is the mean")
	        .range(1, BUCKETS);
}

} // namespace

int main(int argc, char **argv)
{
	Workload w;
	return bench::main_of(
	        "agent", argc, argv,
	        [&](tools::CommandLine &line, bench::Options &o) { add_options(line, o, w); },
	        [&](bench::Options &o) { return run(o, w); });
}
