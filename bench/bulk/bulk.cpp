/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bulk.cpp - what an update of very many records costs the short updates next to it: none, then
 * fur_bulk_run() as a whole, by an operator in the process of a fur-replayer, record by record, and
 * one ordinary update of all records, in turn in each round; with short updates of the same
 * records, and of others.  In the end it checks that all updates are there.
 */
#include "../../tools/common/command_line.hpp"
#include "../../tools/common/json.hpp"
#include "../common/pin.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
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

struct Settings {
	std::string heap = "/dev/shm/fur-bench-bulk", pm = "emulated", htm = "auto", json;
	std::vector<std::string> by = {"bulk", "replayer", "each", "update"};
	std::string replayer, operators; /* default: as they are built beside this program */
	uint64_t records = 1000000, bytes = 64;
	unsigned threads = 1, rounds = 5;
	double seconds = 1;
};

double now()
{
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
	        .count();
}

/* A fur-replayer with the operators, on the core of the thread that starts it. */
class Replayer
{
public:
	explicit Replayer(const Settings &s)
	{
		const char *const words[] = {s.replayer.c_str(), "--quiet", "--operators",
		        s.operators.c_str(), s.heap.c_str(), nullptr};
		const int failed = posix_spawn(
		        &pid_, words[0], nullptr, nullptr, const_cast<char **>(words), environ);
		if (failed)
			throw std::runtime_error(
			        s.replayer + ": cannot start it: " + strerror(failed));
	}
	~Replayer()
	{
		if (ended_)
			return;
		kill(pid_, SIGTERM);
		waitpid(pid_, nullptr, 0);
	}
	Replayer(const Replayer &) = delete;
	void expect_running()
	{
		ended_ = ended_ || waitpid(pid_, nullptr, WNOHANG) != 0;
		if (ended_)
			throw std::runtime_error("fur-replayer has ended");
	}

private:
	pid_t pid_ = 0;
	bool ended_ = false;
};

/* Two tables of records, and threads that add 1 to all words of a record of one of them. */
class Tables
{
public:
	explicit Tables(const Settings &s) : s_(s), heap_(make(s)), self_(heap_)
	{
		for (auto &table : tables_)
			table = fill();
		store_to(false);
		for (unsigned t = 0; t < s.threads; t++)
			counts_.push_back(std::make_unique<Count>());
		for (unsigned t = 0; t < s.threads; t++)
			threads_.emplace_back([this, t] { work(t); });
		bench::pin(0);
	}
	~Tables()
	{
		end();
		unlink(s_.heap.c_str());
	}
	Tables(const Tables &) = delete;

	void store_to(bool inside)
	{
		target_ = tables_[inside ? 0 : 1];
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
		for (auto &table : tables_) {
			const auto *word = reinterpret_cast<const uint64_t *>(table);
			const uint64_t changes = &table == &tables_[0] ? changes_ : 0;
			for (uint64_t k = 0, n = s_.bytes / 8; k < s_.records; k++, word += n) {
				if (!std::equal(word + 1, word + n, word) ||
				        word[0] / CHANGE != changes)
					return false;
				added += word[0] % CHANGE;
			}
		}
		return added == updates();
	}
	/* Change all records of the first table. */
	fur_bulk_result change(const std::string &by)
	{
		changes_++;
		if (by != "update")
			return change_by_bulk(by);
		change_in_one_update();
		return {};
	}
	/* The heap has a replayer until end_replayer(). */
	void begin_replayer()
	{
		replayer_.emplace(s_);
	}
	void end_replayer()
	{
		replayer_.reset();
	}
	std::string htm() const
	{
		return fur_htm_name(heap_.info().htm);
	}

private:
	fur_bulk_result change_by_bulk(const std::string &by)
	{
		uint64_t change = CHANGE;
		fur_bulk_result r{};
		r.size = sizeof r;
		const fur_extent all = {tables_[0], s_.bytes, s_.records};
		fur_bulk job;
		fur_bulk_init(&job);
		job.map = add;
		job.bytes = s_.bytes;
		job.extents = &all;
		job.n = 1;
		job.atomic = by == "each" ? FUR_BULK_EACH : FUR_BULK_WHOLE;
		if (by == "replayer") {
			job.operator_name = "add";
			job.arg = &change;
			job.arg_bytes = sizeof change;
		}
		int error = fur_bulk_run(self_, &job, &r);
		while (error == FUR_ENOENT && by == "replayer") { /* it is about to start */
			replayer_->expect_running();
			usleep(1000);
			error = fur_bulk_run(self_, &job, &r);
		}
		if (!error && by == "replayer" && r.by_operator != s_.records)
			throw std::runtime_error("the operator has not mapped the records");
		if (error)
			throw std::runtime_error(fur_errormsg());
		return r;
	}
	/* What a bulk update adds to each word.  A short one adds 1. */
	static constexpr uint64_t CHANGE = 1 << 20;

	struct alignas(128) Count {
		std::atomic<uint64_t> updates{0};
		std::atomic<double> longest{0};
	};

	static fur::Heap make(const Settings &s)
	{
		fur::Options o;
		const uint64_t table = s.records * s.bytes;
		o.heap_bytes = (64 << 20) + 4 * table;
		/* As large as an update of all records needs it. */
		for (o.log_bytes = 1 << 20; o.log_bytes < s.records * (s.bytes + 16) * 2;)
			o.log_bytes *= 2;
		o.max_threads = s.threads + 2;
		o.pm = s.pm == "sync" ? FUR_PM_SYNC : FUR_PM_EMULATED;
		o.htm = s.htm == "none" ? FUR_HTM_NONE : FUR_HTM_AUTO;
		unlink(s.heap.c_str());
		return fur::Heap::create(s.heap, o);
	}
	uint8_t *fill()
	{
		const std::vector<uint8_t> zero(s_.bytes * 1024);
		return fur::update(self_, [&](fur_update *tx) {
			auto *p = static_cast<uint8_t *>(fur_alloc(tx, s_.records * s_.bytes));
			for (uint64_t at = 0, all = s_.records * s_.bytes; p && at < all;
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
	void change_in_one_update()
	{
		fur::update(self_, [&](fur_update *tx) {
			auto *word = reinterpret_cast<uint64_t *>(tables_[0]);
			for (uint64_t k = 0; k < s_.records * s_.bytes / 8; k++)
				fur_store(tx, &word[k], fur_load(tx, &word[k]) + CHANGE);
		});
	}
	void end()
	{
		stop_ = true;
		for (std::thread &t : threads_)
			if (t.joinable())
				t.join();
	}
	void work(unsigned t)
	{
		bench::pin(t + 1); /* the first core is the bulk update's */
		fur::Thread self(heap_);
		uint64_t random = t + 1;
		for (double last = now(); !stop_;) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			auto *word = reinterpret_cast<uint64_t *>(
			        target_ + random % s_.records * s_.bytes);
			fur::update(self, fur::rerun, [&](fur_update *tx) {
				for (uint64_t k = 0; k < s_.bytes / 8; k++)
					fur_store(tx, &word[k], fur_load(tx, &word[k]) + 1);
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
	fur::Thread self_;
	uint8_t *tables_[2] = {};
	std::atomic<uint8_t *> target_{nullptr};
	std::atomic<bool> stop_{false};
	uint64_t changes_ = 0; /* bulk updates so far */
	std::optional<Replayer> replayer_;
	std::vector<std::unique_ptr<Count>> counts_;
	std::vector<std::thread> threads_;
};

/* Short updates a second while a bulk update runs again and again. */
struct Measured {
	std::string by;
	bool inside;
	double rate = 0, longest_ms = 0, seconds = 0; /* of one bulk update */
	double pause_ms = 0, store_ms = 0, again = 0;
	double ratio = 0; /* of `rate` to that without a bulk update, in this round */
};

Measured measure(Tables &tables, const Settings &s, const std::string &by, bool inside)
{
	Measured m{by, inside};
	tables.store_to(inside);
	tables.longest_ms();
	if (by == "replayer") {
		tables.begin_replayer();
		(void)tables.change(by); /* it has started when this returns */
	}
	const uint64_t before = tables.updates();
	const double began = now();
	double runs = 0;
	do {
		if (by == "none") {
			std::this_thread::sleep_for(std::chrono::duration<double>(s.seconds));
			continue;
		}
		const fur_bulk_result r = tables.change(by);
		runs++;
		m.pause_ms = std::max(m.pause_ms, static_cast<double>(r.pause_ns) / 1e6);
		m.store_ms = std::max(m.store_ms, static_cast<double>(r.store_ns) / 1e6);
		m.again += static_cast<double>(r.again);
	} while (now() - began < s.seconds);
	const double took = now() - began;
	tables.end_replayer();
	m.rate = static_cast<double>(tables.updates() - before) / took;
	m.longest_ms = tables.longest_ms();
	m.seconds = runs > 0 ? took / runs : 0;
	m.again /= runs > 0 ? runs : 1;
	return m;
}

double median(std::vector<double> all)
{
	std::sort(all.begin(), all.end());
	return all.empty() ? 0 : all[all.size() / 2];
}

void print(const std::vector<Measured> &all, const Settings &s, const std::string &htm)
{
	printf("%llu records of %llu bytes, %u threads with short updates, htm %s, pm %s, medians "
	       "of %u rounds\n",
	        static_cast<unsigned long long>(s.records),
	        static_cast<unsigned long long>(s.bytes), s.threads, htm.c_str(), s.pm.c_str(),
	        s.rounds);
	printf("%-9s %-9s %12s %6s %11s %9s %9s %9s %10s\n", "short", "by", "short/s", "ratio",
	        "longest ms", "bulk ms", "pause ms", "store ms", "again");
	for (bool inside : {false, true})
		for (std::string by : {"none", "bulk", "replayer", "each", "update"}) {
			auto of = [&](double Measured::*what) {
				std::vector<double> found;
				for (const Measured &m : all)
					if (m.by == by && m.inside == inside)
						found.push_back(m.*what);
				return median(found);
			};
			if (of(&Measured::rate) == 0 && of(&Measured::seconds) == 0)
				continue;
			printf("%-9s %-9s %12.0f %6.2f %11.2f %9.1f %9.2f %9.2f %10.0f\n",
			        inside ? "inside" : "outside", by.c_str(), of(&Measured::rate),
			        of(&Measured::ratio), of(&Measured::longest_ms),
			        of(&Measured::seconds) * 1e3, of(&Measured::pause_ms),
			        of(&Measured::store_ms), of(&Measured::again));
		}
}

void write_json(
        const std::vector<Measured> &all, const Settings &s, const std::string &htm, bool verified)
{
	tools::Json rounds = tools::Json::array();
	for (const Measured &m : all)
		rounds.push_back({{"by", m.by}, {"inside", m.inside}, {"throughput", m.rate},
		        {"ratio", m.ratio}, {"longest_ms", m.longest_ms},
		        {"bulk_seconds", m.seconds}, {"pause_ms", m.pause_ms},
		        {"store_ms", m.store_ms}, {"again", m.again}});
	tools::Json out = {{"records", s.records}, {"record_bytes", s.bytes},
	        {"short_threads", s.threads}, {"htm", htm}, {"pm", s.pm}, {"verified", verified},
	        {"measured", rounds}};
	std::ofstream file(s.json);
	file << out.dump(2) << '\n';
	if (!file.flush())
		throw std::runtime_error(s.json + ": cannot write");
}

int run(const Settings &s)
{
	Tables tables(s);
	std::vector<Measured> all;
	measure(tables, s, "none", true); /* the first stores to each page */
	measure(tables, s, "none", false);
	for (unsigned k = 0; k < s.rounds; k++)
		for (bool inside : {false, true}) {
			all.push_back(measure(tables, s, "none", inside));
			const double alone = all.back().rate;
			all.back().ratio = 1;
			for (const std::string &by : s.by) {
				all.push_back(measure(tables, s, by, inside));
				all.back().ratio = alone > 0 ? all.back().rate / alone : 0;
			}
		}
	print(all, s, tables.htm());
	const bool verified = tables.verified();
	if (!s.json.empty())
		write_json(all, s, tables.htm(), verified);
	if (verified)
		return 0;
	fprintf(stderr, "bulk: %s: the tables do not have what the updates stored\n",
	        s.heap.c_str());
	return 1;
}

} // namespace

int main(int argc, char **argv)
{
	const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
	Settings s;
	std::string by;
	s.replayer = here / "../../src/replayer/fur-replayer";
	s.operators = here / "bulk-operators.so";
	tools::CommandLine line("bulk",
	        "Short updates a second next to an update of very many records: fur_bulk_run(), as "
	        "a whole, by an operator in a fur-replayer, and record by record, and one ordinary "
	        "update.");
	line.option("--heap", s.heap, "the heap file; the run removes it");
	line.option("--records", s.records, "records of the bulk update").range(64, 1 << 28);
	line.option("--record-bytes", s.bytes, "of each record, a multiple of 8").range(8, 1 << 16);
	line.option("--by", by, "only this one").one_of({"bulk", "replayer", "each", "update"});
	line.option("--replayer", s.replayer,
	            "the fur-replayer of --by replayer; default: that of this build")
	        .shown_default = "";
	line.option("--short-threads", s.threads, "threads with short updates").range(0, 60);
	line.option("--seconds", s.seconds, "length of each measurement");
	line.option("--rounds", s.rounds, "measurements of each").range(1, 1000);
	line.option("--pm", s.pm, "persistence domain").one_of({"emulated", "sync"});
	line.option("--htm", s.htm, "hardware transactions").one_of({"auto", "none"});
	line.option("--json", s.json, "write each round to this file");
	if (auto status = tools::parse_or_exit_status(line, "bulk", argc, argv))
		return *status;
	if (!by.empty())
		s.by = {by};
	s.bytes -= s.bytes % 8;
	try {
		return run(s);
	} catch (const std::exception &e) {
		fprintf(stderr, "bulk: %s: %s\n", s.heap.c_str(), e.what());
		return 1;
	}
}
