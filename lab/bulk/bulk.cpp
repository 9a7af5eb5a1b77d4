/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bulk.cpp - short updates next to an update of very many records: none, then fur_bulk_run() as a
 * whole and record by record, each of them without and with an operator in the process of
 * fur-operators (lab/operators; not on emulated machines), record locks, and one ordinary update of
 * all records, in turn in each round; with short updates of the same records, and of others.  In
 * the end it checks that all updates are there.
 *
 * `locks` is the way of the paper on ccSLT, with libfur's table (claims/claims.h): the update
 * claims 512 records at a time, changes them in an ordinary update, and releases them.  A short
 * update also claims its record.  So each record is atomic, as with `each`.
 */
#include "../../bench/common/driver.hpp"
#include "../../bench/common/pin.hpp"
#include "../../tools/common/random.hpp"
#include "locks.hpp"

#include "lab_bulk.h"
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fur.hpp>
#include <fur_bulk.h>
#include <memory>
#include <optional>
#include <spawn.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

using bench::json;
using bench::Usage;

struct Workload {
	std::vector<std::string> by = {
	        "bulk", "replayer", "each", "replayer-each", "locks", "update"};
	std::string replayer, fur_operators, operators; /* as they are built beside this program */
	std::string only, where = "both", htm = "auto", on = "host";
	uint64_t records = 1000000, bytes = 64;
	unsigned threads = 1, rounds = 5, share = 100;

	/* Are the short updates those of the bulk update's records? */
	std::vector<bool> places() const
	{
		if (where == "both")
			return {false, true};
		return {where == "inside"};
	}
};

bool by_operator(const std::string &by)
{
	return by == "replayer" || by == "replayer-each";
}

double now()
{
	return static_cast<double>(arch_now_ns()) / 1e9;
}

/* A program beside this one, on the core of the thread that starts it. */
class Beside
{
public:
	explicit Beside(std::vector<std::string> words) : name_(words[0])
	{
		std::vector<char *> argv;
		for (std::string &word : words)
			argv.push_back(word.data());
		argv.push_back(nullptr);
		const int failed =
		        posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environ);
		if (failed)
			throw std::runtime_error(name_ + ": cannot start it: " + strerror(failed));
	}
	~Beside()
	{
		if (ended_)
			return;
		kill(pid_, SIGTERM);
		waitpid(pid_, nullptr, 0);
	}
	Beside(const Beside &) = delete;
	void expect_running()
	{
		ended_ = ended_ || waitpid(pid_, nullptr, WNOHANG) != 0;
		if (ended_)
			throw std::runtime_error(name_ + " has ended");
	}

private:
	std::string name_;
	pid_t pid_ = 0;
	bool ended_ = false;
};

/* Two tables of records, and threads that add 1 to all words of a record of one of them. */
class Tables
{
public:
	Tables(const bench::Options &o, const Workload &w)
	    : w_(w), path_(o.tm_options.path()), heap_(make(o)), self_(heap_)
	{
		bench::aside([this] {
			fur::Thread loader(heap_);
			for (auto &table : tables_)
				table = fill(loader);
		});
		store_to(false);
		for (unsigned t = 0; t < w.threads; t++)
			counts_.push_back(std::make_unique<Count>());
		for (unsigned t = 0; t < w.threads; t++)
			threads_.emplace_back([this, t] { work(t); });
		bench::pin(0);
	}
	~Tables()
	{
		end();
		unlink(path_.c_str());
	}
	Tables(const Tables &) = delete;

	void store_to(bool inside)
	{
		target_ = inside ? 0 : 1;
	}
	/* Do short updates claim their records?  Returns when all of them know. */
	void lock_records(bool lock)
	{
		if (locking_ == lock)
			return;
		locking_ = lock;
		for (const auto &c : counts_)
			for (const uint64_t before = c->updates; c->updates < before + 2 && !stop_;)
				bench::spin();
	}
	uint64_t updates() const
	{
		uint64_t all = 0;
		for (const auto &c : counts_)
			all += c->updates;
		return all;
	}
	double longest_ms()
	{
		double longest = 0;
		for (const auto &c : counts_)
			longest = std::max(longest, c->longest.exchange(0));
		return longest * 1e3;
	}
	/* End the threads.  Is each update there, short or bulk, and are all records whole? */
	bool verified()
	{
		end();
		uint64_t added = 0;
		bool whole = true;
		bench::aside([&] {
			for (auto &table : tables_) {
				const auto *word = reinterpret_cast<const uint64_t *>(table);
				const uint64_t changes = &table == &tables_[0] ? changes_ : 0;
				for (uint64_t k = 0, n = w_.bytes / 8; k < w_.records;
				        k++, word += n) {
					whole = whole && word[0] / CHANGE == changes &&
					        std::equal(word + 1, word + n, word);
					added += word[0] % CHANGE;
				}
			}
		});
		return whole && added == updates() && !failed_;
	}
	/* Change all records of the first table. */
	fur_bulk_result change(const std::string &by)
	{
		changes_++;
		if (by == "update")
			change_records(0, w_.records);
		else if (by == "locks")
			for (uint64_t k = 0; k < w_.records; k += BATCH)
				change_claimed(k, std::min(w_.records, k + BATCH));
		else
			return change_by_bulk(by);
		return {};
	}
	/* The heap has a replayer and fur-operators until end_replayer(). */
	void begin_replayer()
	{
		replayer_.emplace(std::vector{w_.replayer, std::string("--quiet"), path_});
		operators_.emplace(std::vector{w_.fur_operators, std::string("--quiet"),
		        std::string("--operators"), w_.operators, path_});
	}
	void end_replayer()
	{
		operators_.reset();
		replayer_.reset();
	}
	json description() const
	{
		const fur_info i = heap_.info();
		return {{"htm", fur_name(FUR_NAME_HTM, i.htm)},
		        {"pm", fur_name(FUR_NAME_PM, i.pm)}};
	}

private:
	enum : uint64_t {
		CHANGE = 1 << 20, /* a bulk update adds it to each word; a short one adds 1 */
		BATCH = 512,      /* records that are claimed at once */
	};

	struct alignas(128) Count {
		std::atomic<uint64_t> updates{0};
		std::atomic<double> longest{0};
	};

	void run_by_operator(const fur_bulk &job, uint64_t change, fur_bulk_result &r)
	{
		const lab_operator_call call = {"add", &change, sizeof change};
		uint64_t mapped;
		int error;
		while ((error = lab_bulk_run(self_, &job, &call, &r, &mapped)) == FUR_ENOENT) {
			replayer_->expect_running(); /* they are about to start */
			operators_->expect_running();
			usleep(1000);
		}
		if (error)
			throw std::runtime_error(fur_errormsg());
		if (mapped != w_.records)
			throw std::runtime_error("the operator has not mapped the records");
	}
	fur_bulk_result change_by_bulk(const std::string &by)
	{
		uint64_t change = CHANGE;
		fur_bulk_result r{};
		r.size = sizeof r;
		const fur_extent all = {tables_[0], w_.bytes, w_.records};
		fur_bulk job;
		fur_bulk_init(&job);
		job.map = add;
		job.bytes = w_.bytes;
		job.extents = &all;
		job.n = 1;
		job.atomic = by.ends_with("each") ? FUR_BULK_EACH : FUR_BULK_WHOLE;
		if (by_operator(by))
			run_by_operator(job, change, r);
		else if (fur_bulk_run(self_, &job, &r))
			throw std::runtime_error(fur_errormsg());
		return r;
	}
	fur::Heap make(const bench::Options &o) const
	{
		fur::Options f;
		const uint64_t table = w_.records * w_.bytes;
		f.heap_bytes = (64 << 20) + 4 * table;
		/* As large as an update of all records needs it. */
		for (f.log_bytes = 1 << 20; f.log_bytes < w_.records * (w_.bytes + 16) * 2;)
			f.log_bytes *= 2;
		f.max_threads = w_.threads + 4; /* aside() also has one */
		f.pm = o.tm_options.pm;
		f.htm = w_.htm == "none" ? FUR_HTM_NONE : FUR_HTM_AUTO;
		if (o.tm_options.machine_has_pm) {
			f.address = UINT64_C(0x300000000000);
		}
		return fur::Heap::create(path_, f);
	}
	uint8_t *fill(fur::Thread &loader) const
	{
		const std::vector<uint8_t> zero(w_.bytes * 1024);
		return fur::update(loader, [&](fur_update *tx) {
			auto *p = static_cast<uint8_t *>(fur_alloc(tx, w_.records * w_.bytes));
			for (uint64_t at = 0, all = w_.records * w_.bytes; p && at < all;
			        at += zero.size())
				fur_write(tx, p + at, zero.data(),
				        std::min<uint64_t>(zero.size(), all - at));
			return p;
		});
	}
	static bool add(void *copy, size_t bytes, uint64_t, void *)
	{
		auto *word = static_cast<uint64_t *>(copy);
		for (size_t k = 0; k < bytes / 8; k++)
			word[k] += CHANGE;
		return true;
	}
	uint64_t *record(unsigned table, uint64_t number) const
	{
		return reinterpret_cast<uint64_t *>(tables_[table] + number * w_.bytes);
	}
	void change_records(uint64_t from, uint64_t to)
	{
		fur::update(self_, fur::rerun, [&](fur_update *tx) {
			uint64_t *word = record(0, from);
			for (const uint64_t *past = record(0, to); word < past; word++)
				fur_store(tx, word, fur_load(tx, word) + CHANGE);
		});
	}
	/* The locks of the second table's records have numbers above the first one's. */
	uint64_t bucket_of(unsigned table, uint64_t number) const
	{
		return claims_hash(locks_.get(), table * w_.records + number);
	}
	void change_claimed(uint64_t from, uint64_t to)
	{
		const uint64_t owner = claims_owner(CLAIMS_WORKER, w_.threads + 1);
		std::vector<uint64_t> buckets;
		for (uint64_t k = from; k < to; k++)
			buckets.push_back(bucket_of(0, k));
		std::sort(buckets.begin(), buckets.end());
		buckets.erase(std::unique(buckets.begin(), buckets.end()), buckets.end());
		claims_take_batch(locks_.get(), buckets.data(), buckets.size(), owner);
		change_records(from, to);
		claims_release_batch(locks_.get(), buckets.data(), buckets.size(), owner);
	}
	void end()
	{
		stop_ = true;
		for (std::thread &t : threads_)
			if (t.joinable())
				t.join();
	}
	void change_one(fur::Thread &self, unsigned table, uint64_t number)
	{
		uint64_t *word = record(table, number);
		fur::update(self, fur::rerun, [&](fur_update *tx) {
			for (uint64_t k = 0; k < w_.bytes / 8; k++)
				fur_store(tx, &word[k], fur_load(tx, &word[k]) + 1);
		});
	}
	void work_until_stopped(unsigned t)
	{
		const uint64_t owner = claims_owner(CLAIMS_WORKER, t + 1);
		fur::Thread self(heap_);
		tools::Random random{t + 1};
		for (double last = now(); !stop_;) {
			const uint64_t number = random.below(w_.records);
			const unsigned table = target_;
			const bool locking = locking_;
			const uint64_t bucket = bucket_of(table, number);
			if (locking)
				claims_take(locks_.get(), bucket, owner);
			change_one(self, table, number);
			if (locking)
				claims_release(locks_.get(), bucket, owner);
			const double ended = now(), took = ended - last;
			last = ended;
			Count &mine = *counts_[t];
			mine.updates.store(mine.updates + 1, std::memory_order_relaxed);
			if (took > mine.longest)
				mine.longest = took;
		}
	}
	void work(unsigned t)
	{
		bench::pin(t + 1); /* the first core is the bulk update's */
		try {
			work_until_stopped(t);
		} catch (const std::exception &e) {
			fprintf(stderr, "bulk: %s\n", e.what());
			failed_ = true;
		}
	}

	Workload w_;
	std::string path_;
	fur::Heap heap_;
	fur::Thread self_;
	bench::Locks locks_;
	std::optional<Beside> replayer_, operators_;
	uint8_t *tables_[2] = {};
	std::atomic<unsigned> target_{1};
	std::atomic<bool> stop_{false}, locking_{false}, failed_{false};
	uint64_t changes_ = 0; /* bulk updates so far */
	std::vector<std::unique_ptr<Count>> counts_;
	std::vector<std::thread> threads_;
};

/* Short updates a second while a bulk update runs again and again. */
struct Measured {
	std::string by;
	bool inside;
	double rate = 0, longest_ms = 0, seconds = 0; /* of one bulk update */
	double pause_ms = 0, store_ms = 0, again = 0;
	double share = 0; /* of the time: a bulk update was running */
	double ratio = 0; /* of `rate` to that without a bulk update, in this round */
};

void sleep_for(double seconds)
{
	std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

Measured measure(
        Tables &tables, const bench::Options &o, const Workload &w, const char *by, bool inside)
{
	Measured m{by, inside};
	const bool none = m.by == "none";
	tables.store_to(inside);
	tables.lock_records(m.by == "locks");
	if (by_operator(m.by)) {
		tables.begin_replayer();
		(void)tables.change(m.by); /* it has started when this returns */
	}
	tables.longest_ms();
	const uint64_t before = tables.updates();
	const double began = now();
	double runs = 0, running = 0;
	do {
		if (none) {
			sleep_for(o.seconds);
			continue;
		}
		const double start = now();
		const fur_bulk_result r = tables.change(m.by);
		const double took = now() - start;
		runs++, running += took;
		m.pause_ms = std::max(m.pause_ms, static_cast<double>(r.pause_ns) / 1e6);
		m.store_ms = std::max(m.store_ms, static_cast<double>(r.store_ns) / 1e6);
		m.again += static_cast<double>(r.again);
		if (w.share < 100)
			sleep_for(took * (100.0 / w.share - 1));
	} while (now() - began < o.seconds);
	const double took = now() - began;
	m.rate = static_cast<double>(tables.updates() - before) / took;
	m.longest_ms = tables.longest_ms();
	tables.end_replayer();
	m.seconds = runs > 0 ? running / runs : 0;
	m.share = running / took;
	m.again /= runs > 0 ? runs : 1;
	return m;
}

double median(std::vector<double> all)
{
	std::sort(all.begin(), all.end());
	return all.empty() ? 0 : all[all.size() / 2];
}

double median_of(const std::vector<Measured> &all, const std::string &by, bool inside,
        double Measured::*what)
{
	std::vector<double> found;
	for (const Measured &m : all)
		if (m.by == by && m.inside == inside)
			found.push_back(m.*what);
	return median(found);
}

void print(const std::vector<Measured> &all, const Workload &w, const json &r)
{
	printf("machine %s: %llu records of %llu bytes, %u threads with short updates, htm %s, pm "
	       "%s, medians of %u rounds\n",
	        r["machine"].get<std::string>().c_str(), static_cast<unsigned long long>(w.records),
	        static_cast<unsigned long long>(w.bytes), w.threads,
	        r["htm"].get<std::string>().c_str(), r["pm"].get<std::string>().c_str(), w.rounds);
	printf("%-9s %-13s %12s %6s %11s %9s %9s %9s %10s\n", "short", "by", "short/s", "ratio",
	        "longest ms", "bulk ms", "pause ms", "store ms", "again");
	std::vector<std::string> rows = {"none"};
	rows.insert(rows.end(), w.by.begin(), w.by.end());
	for (bool inside : w.places())
		for (const std::string &by : rows) {
			auto of = [&](double Measured::*what) {
				return median_of(all, by, inside, what);
			};
			printf("%-9s %-13s %12.0f %6.2f %11.2f %9.1f %9.2f %9.2f %10.0f\n",
			        inside ? "inside" : "outside", by.c_str(), of(&Measured::rate),
			        of(&Measured::ratio), of(&Measured::longest_ms),
			        of(&Measured::seconds) * 1e3, of(&Measured::pause_ms),
			        of(&Measured::store_ms), of(&Measured::again));
		}
}

/* `throughput`: of the short updates next to the first kind of bulk update. */
void add_measured(json &r, const std::vector<Measured> &all, const Workload &w)
{
	json rounds = json::array();
	for (const Measured &m : all)
		rounds.push_back({{"by", m.by}, {"inside", m.inside}, {"throughput", m.rate},
		        {"ratio", m.ratio}, {"longest_ms", m.longest_ms},
		        {"bulk_seconds", m.seconds}, {"pause_ms", m.pause_ms},
		        {"store_ms", m.store_ms}, {"again", m.again}, {"share", m.share}});
	r["throughput"] = median_of(all, w.by[0], w.places()[0], &Measured::rate);
	r["measured"] = rounds;
}

std::vector<Measured> measure_rounds(Tables &tables, const bench::Options &o, const Workload &w)
{
	std::vector<Measured> all;
	measure(tables, o, w, "none", true); /* the first stores to each page */
	measure(tables, o, w, "none", false);
	for (unsigned k = 0; k < w.rounds; k++)
		for (bool inside : w.places()) {
			all.push_back(measure(tables, o, w, "none", inside));
			const double alone = all.back().rate;
			all.back().ratio = 1;
			for (const std::string &by : w.by) {
				all.push_back(measure(tables, o, w, by.c_str(), inside));
				all.back().ratio = alone > 0 ? all.back().rate / alone : 0;
			}
		}
	return all;
}

/* On the thread that makes the bulk updates. */
int run_here(const bench::Options &o, const Workload &w)
{
	json r;
	bench::aside([&] {
		r["workload"] = "bulk";
		r["machine"] = o.machine;
		r["records"] = w.records;
		r["record_bytes"] = w.bytes;
		r["short_threads"] = w.threads;
		r["bulk_on"] = w.on;
		r["seed"] = o.seed;
	});
	Tables tables(o, w);
	const std::vector<Measured> all = measure_rounds(tables, o, w);
	const bool verified = tables.verified();
	bench::aside([&] {
		r.update(tables.description());
		r["verified"] = verified;
		add_measured(r, all, w);
		if (o.json_path != "-")
			print(all, w, r);
	});
	if (!verified)
		fprintf(stderr, "bulk: the tables do not have what the updates stored\n");
	return o.json_path.empty() ? !verified : bench::report(o, r);
}

int run(const bench::Options &o, const Workload &w)
{
	if (w.on == "host")
		return run_here(o, w);
	if (!bench::agent_threads())
		throw Usage("--bulk-on device: --machine " + o.machine +
		            " has no coherent agent: use ccix-ndp, or leave the option out");
	int status = 1;
	std::exception_ptr failure;
	std::thread([&] {
		bench::to_agent();
		try {
			status = run_here(o, w);
		} catch (...) {
			failure = std::current_exception();
		}
	}).join();
	if (failure)
		std::rethrow_exception(failure);
	return status;
}

void add_options(tools::CommandLine &line, bench::Options &o, Workload &w)
{
	for (const char *other : {"--tm", "--threads", "--most-threads", "--reuse", "--heap-mib",
	             "--log-mib", "--ring-slots", "--dram-mib", "--runs", "--phases"})
		line.remove(other);
	o.seconds = 1;
	line.at("--seconds").describe("length of each measurement").shown_default = "1";
	line.option("--records", w.records, "records of the bulk update").range(64, 1 << 28);
	line.option("--record-bytes", w.bytes, "of each record, a multiple of 8").range(8, 1 << 16);
	line.option("--by", w.only, "only this one: the others are left out")
	        .one_of({"bulk", "replayer", "each", "replayer-each", "locks", "update"});
	line.option("--replayer", w.replayer,
	            "the fur-replayer of --by replayer and replayer-each; default: that of this "
	            "build")
	        .shown_default = "";
	line.option("--where", w.where,
	            "short updates of the bulk update's records, of others, or both in turn")
	        .one_of({"inside", "outside", "both"});
	line.option("--short-threads", w.threads, "threads with short updates").range(0, 60);
	line.option("--share", w.share,
	            "percentage of the time in which a bulk update runs; between two of them its "
	            "thread sleeps")
	        .range(1, 100);
	line.option("--rounds", w.rounds, "measurements of each").range(1, 1000);
	line.option("--htm", w.htm, "hardware transactions").one_of({"auto", "none"});
	line.option("--bulk-on", w.on,
	            "the side of a machine with a coherent agent whose core makes the bulk updates")
	        .one_of({"host", "device"});
	line.option("--home", o.home,
	            "the side that has the memory, host or device; default: from the machine's "
	            "description")
	        .one_of({"host", "device"});
}

} // namespace

int main(int argc, char **argv)
{
	const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
	Workload w;
	w.replayer = here / "../../src/replayer/fur-replayer";
	w.fur_operators = here / "../../lab/operators/fur-operators";
	w.operators = here / "bulk-operators.so";
	return bench::main_of(
	        "bulk", argc, argv,
	        [&](tools::CommandLine &line, bench::Options &o) { add_options(line, o, w); },
	        [&](bench::Options &o) {
		        if (!w.only.empty())
			        w.by = {w.only};
		        else if (o.machine != "native")
			        std::erase_if(w.by, by_operator);
		        if (by_operator(w.only) && o.machine != "native")
			        throw Usage("--by " + w.only +
			                    ": another process is not emulated: leave out "
			                    "--machine");
		        w.bytes -= w.bytes % 8;
		        return run(o, w);
	        });
}
