/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bound.cpp - what one update over two heaps could reach at best
 * (docs/decisions/0018-one-update-over-several-heaps.md): transfers between two accounts.
 *
 *   one        both accounts in one heap, one update
 *   in-turn    an account in each of two heaps: two updates, each durable before the next
 *   overlapped  the same, but both waits for durability go on at the same time.  It is not atomic:
 *              a failure may keep one of the two.  What would make it so costs more, so this is the
 *              bound
 *   two-phase  the same by two-phase commit: a prepared record in both heaps, durable at the same
 *              time; then the decision, with the debit, durable in the first heap; then the credit
 *              in the second, for which no thread waits
 *
 * With --pm sync also what of that is the disk's: `bare-` are the same with one pwrite() and one
 * fdatasync() in place of an update; bare-started, by one thread, has the kernel begin to write the
 * second file before it syncs the first.
 *
 * Where updates run alone they store in place, which an update over two heaps cannot.  `-logged`
 * are the same ways with updates that publish from their logs.
 */
#include "../../tools/common/command_line.hpp"
#include "../../tools/common/json.hpp"
#include "../../tools/common/random.hpp"
#include "../common/output.hpp"
#include "../common/pin.hpp"
#include "../common/processor.hpp"
#include "internals.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <fur.hpp>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace
{

struct Settings {
	std::string directory = "/dev/shm", pm = "emulated", json;
	uint64_t accounts = 10000, transfers = 1000;
	unsigned rounds = 201;
	bool spin = false;
};

void must(int error, const char *call)
{
	if (error)
		throw std::runtime_error(std::string(call) + ": " + fur_errormsg());
}

/* ------------------------------------------------------------------- one heap */

struct Prepared {
	uint64_t transfer, account, cents, state;
};

/* A heap with accounts, and what a coordinator writes next to them.  One thread works on it, and
 * a helper may wait for its tickets. */
class Bank
{
public:
	Bank(const Settings &s, const std::string &path) : heap_(make(s, path)), self_(heap_)
	{
		fur::update(self_, [&](fur_update *tx) {
			accounts_ = static_cast<int64_t *>(
			        fur_alloc(tx, s.accounts * sizeof *accounts_));
			prepared_ = static_cast<Prepared *>(fur_alloc(tx, sizeof *prepared_));
			const std::vector<int64_t> zeros(std::min<uint64_t>(s.accounts, 4096));
			for (uint64_t at = 0; at < s.accounts; at += zeros.size())
				fur_write(tx, accounts_ + at, zeros.data(),
				        std::min<uint64_t>(zeros.size(), s.accounts - at) *
				                sizeof zeros[0]);
		});
		accounts_count_ = s.accounts;
	}
	/* An update: it returns when it is durable, or with a ticket. */
	template <class F>
	void update(F &&body)
	{
		stay_logged();
		fur::update(self_, fur::rerun, body);
	}
	template <class F>
	fur_ticket update_async(F &&body)
	{
		fur_ticket ticket;
		stay_logged();
		fur::update(self_, fur::rerun, ticket, body);
		return ticket;
	}
	void add(fur_update *tx, uint64_t account, int64_t cents)
	{
		int64_t *at = accounts_ + account;
		fur_store(tx, at, fur_load(tx, at) + cents);
	}
	void prepare(fur_update *tx, const Prepared &p)
	{
		fur_write(tx, prepared_, &p, sizeof p);
	}
	void wait(fur_ticket ticket)
	{
		must(fur_wait(self_.get(), ticket), "fur_wait");
	}
	/* In a second thread: it registers at the first call. */
	int wait_from_helper(fur_ticket ticket)
	{
		thread_local fur::Thread helper(heap_);
		return fur_wait(helper.get(), ticket);
	}
	int64_t sum()
	{
		int64_t all = 0;
		fur::read(self_, [&](fur_ro *) {
			for (uint64_t k = 0; k < accounts_count_; k++)
				all += accounts_[k];
		});
		return all;
	}
	void sync()
	{
		must(fur_sync(heap_.get()), "fur_sync");
	}
	bool logged = false; /* updates publish from their logs, also if they are alone */

private:
	static fur::Heap make(const Settings &s, const std::string &path)
	{
		fur::Options o;
		o.pm = s.pm == "sync" ? FUR_PM_SYNC : FUR_PM_EMULATED;
		o.async_ms = 60000; /* flushes begin when a thread waits */
		o.max_threads = 8;
		return fur::Heap::create(path, o);
	}
	void stay_logged()
	{
		if (logged)
			self_.get()->policy.alone = 0;
	}
	fur::Heap heap_;
	fur::Thread self_;
	int64_t *accounts_ = nullptr;
	Prepared *prepared_ = nullptr;
	uint64_t accounts_count_ = 0;
};

/* A thread that waits for the second heap or file, while its owner waits for the first.  Before it
 * has something to wait for it spins, or sleeps. */
class Helper
{
public:
	explicit Helper(bool spin) : spin_(spin), thread_([this] { work(); }) {}
	~Helper()
	{
		asked_ = STOP;
		asked_.notify_all();
		thread_.join();
	}
	Helper(const Helper &) = delete;
	/* The job returns 0, or an error. */
	void ask(std::function<int()> job)
	{
		job_ = std::move(job);
		asked_++;
		if (!spin_)
			asked_.notify_one();
	}
	void join()
	{
		while (done_ != asked_)
			arch_pause();
		if (error_)
			throw std::runtime_error("the second wait has failed");
	}

private:
	static constexpr uint64_t STOP = UINT64_MAX;
	void work()
	{
		bench::pin(1);
		for (uint64_t had = 0;; had++) {
			while (spin_ && asked_ == had)
				arch_pause();
			asked_.wait(had);
			if (asked_ == STOP)
				return;
			error_ = job_();
			done_ = had + 1;
		}
	}
	const bool spin_;
	std::function<int()> job_;
	int error_ = 0;
	std::atomic<uint64_t> asked_{0}, done_{0};
	std::thread thread_;
};

/* Two files without libfur: what of a transfer is the disk's. */
class BareFiles
{
public:
	explicit BareFiles(const std::string &directory)
	{
		for (int &file : files_) {
			const std::string path =
			        directory + "/bare-" + std::to_string(&file - files_);
			file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
			const std::vector<char> zeros(BYTES);
			if (file < 0 || pwrite(file, zeros.data(), BYTES, 0) != BYTES ||
			        fsync(file))
				throw std::runtime_error(path + ": " + strerror(errno));
		}
	}
	~BareFiles()
	{
		for (int file : files_)
			close(file);
	}
	BareFiles(const BareFiles &) = delete;
	/* Write a record of 256 bytes, the number of which is `number`. */
	int write(unsigned file, uint64_t number) const
	{
		const char record[SLOT] = {1};
		return pwrite(files_[file], record, SLOT, at(number)) == SLOT ? 0 : errno;
	}
	/* Have the kernel begin to write it. */
	int start(unsigned file, uint64_t number) const
	{
		return sync_file_range(files_[file], at(number), SLOT, SYNC_FILE_RANGE_WRITE);
	}
	int sync(unsigned file) const
	{
		return fdatasync(files_[file]);
	}

private:
	enum { BYTES = 8 << 20, SLOT = 256 };
	static off_t at(uint64_t number)
	{
		return static_cast<off_t>(number * SLOT % BYTES);
	}
	int files_[2];
};

/* ----------------------------------------------------------------------- ways */

struct Transfer {
	uint64_t number, from, to;
	int64_t cents;
};

class Banks
{
public:
	Banks(const Settings &s, const std::string &directory)
	    : one_(s, directory + "/one"), first_(s, directory + "/first"),
	      second_(s, directory + "/second"), bare_(directory)
	{
		/* Where durable costs no wait, a thread loses more than it gains by a helper. */
		if (s.pm == "sync")
			helper_ = std::make_unique<Helper>(s.spin);
	}
	void one(const Transfer &t)
	{
		one_.update([&](fur_update *tx) {
			one_.add(tx, t.from, -t.cents);
			one_.add(tx, t.to, t.cents);
		});
	}
	void in_turn(const Transfer &t)
	{
		first_.update([&](fur_update *tx) { first_.add(tx, t.from, -t.cents); });
		second_.update([&](fur_update *tx) { second_.add(tx, t.to, t.cents); });
	}
	void overlapped(const Transfer &t)
	{
		wait_both(first_.update_async(
		                  [&](fur_update *tx) { first_.add(tx, t.from, -t.cents); }),
		        second_.update_async(
		                [&](fur_update *tx) { second_.add(tx, t.to, t.cents); }));
	}
	void two_phase(const Transfer &t)
	{
		enum State : uint64_t { PREPARED = 1, COMMITTED };
		Prepared a{t.number, t.from, static_cast<uint64_t>(t.cents), PREPARED}, b = a;
		b.account = t.to;
		wait_both(first_.update_async([&](fur_update *tx) { first_.prepare(tx, a); }),
		        second_.update_async([&](fur_update *tx) { second_.prepare(tx, b); }));
		a.state = b.state = COMMITTED;
		first_.update([&](fur_update *tx) {
			first_.prepare(tx, a);
			first_.add(tx, t.from, -t.cents);
		});
		second_.update_async([&](fur_update *tx) {
			second_.prepare(tx, b);
			second_.add(tx, t.to, t.cents);
		});
	}
	void bare_one(const Transfer &t)
	{
		must_sync(bare_.write(0, t.number) || bare_.sync(0));
	}
	void bare_in_turn(const Transfer &t)
	{
		must_sync(bare_.write(0, t.number) || bare_.sync(0) || bare_.write(1, t.number) ||
		          bare_.sync(1));
	}
	/* By one thread: the kernel writes the second file during the sync of the first. */
	void bare_started(const Transfer &t)
	{
		must_sync(bare_.write(0, t.number) || bare_.write(1, t.number) ||
		          bare_.start(1, t.number) || bare_.sync(0) || bare_.sync(1));
	}
	void bare_overlapped(const Transfer &t)
	{
		helper_->ask([&] { return bare_.write(1, t.number) || bare_.sync(1); });
		must_sync(bare_.write(0, t.number) || bare_.sync(0));
		helper_->join();
	}
	void sync()
	{
		first_.sync();
		second_.sync();
	}
	void log_all(bool logged)
	{
		one_.logged = first_.logged = second_.logged = logged;
	}
	void check()
	{
		if (one_.sum() != 0 || first_.sum() + second_.sum() != 0)
			throw std::runtime_error("the accounts' sum has changed");
	}

private:
	void wait_both(fur_ticket first, fur_ticket second)
	{
		if (helper_)
			helper_->ask([&] { return second_.wait_from_helper(second); });
		first_.wait(first);
		if (helper_)
			helper_->join();
		else
			second_.wait(second);
	}
	static void must_sync(bool failed)
	{
		if (failed)
			throw std::runtime_error(std::string("fdatasync: ") + strerror(errno));
	}
	Bank one_, first_, second_;
	BareFiles bare_;
	std::unique_ptr<Helper> helper_;
};

struct Way {
	std::string name;
	void (Banks::*transfer)(const Transfer &);
	bool logged;
};

std::vector<Way> ways(const Settings &s)
{
	std::vector<Way> all;
	if (s.pm == "sync")
		all = {{"bare-one", &Banks::bare_one, false},
		        {"bare-in-turn", &Banks::bare_in_turn, false},
		        {"bare-started", &Banks::bare_started, false},
		        {"bare-overlapped", &Banks::bare_overlapped, false}};
	for (bool logged : {false, true}) {
		const std::string end = logged ? "-logged" : "";
		all.push_back({"one" + end, &Banks::one, logged});
		all.push_back({"in-turn" + end, &Banks::in_turn, logged});
		all.push_back({"overlapped" + end, &Banks::overlapped, logged});
		all.push_back({"two-phase" + end, &Banks::two_phase, logged});
	}
	return all;
}

/* -------------------------------------------------------------------- results */

using Times = std::map<std::string, std::vector<double>>; /* ns of a transfer, of each round */

/* The value below which this part of them lies. */
double quantile(std::vector<double> values, double part)
{
	std::sort(values.begin(), values.end());
	return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
}

double measure(Banks &banks, const Way &way, const Settings &s, tools::Random &random)
{
	using Clock = std::chrono::steady_clock;
	Clock::time_point began;
	banks.log_all(way.logged);
	const uint64_t warm = s.transfers / 8 + 1;
	for (uint64_t k = 0; k < warm + s.transfers; k++) {
		if (k == warm)
			began = Clock::now();
		(banks.*way.transfer)({k, random.below(s.accounts), random.below(s.accounts),
		        static_cast<int64_t>(random.below(100))});
	}
	const Clock::time_point ended = Clock::now();
	banks.sync(); /* what two-phase commit leaves behind */
	return std::chrono::duration<double, std::nano>(ended - began).count() /
	       static_cast<double>(s.transfers);
}

enum { LEAST, LOWER_QUARTILE, MEDIAN, UPPER_QUARTILE, POINTS };
const double POINT[POINTS] = {0, 0.25, 0.5, 0.75};

/* Other work on the machine only adds to a time, so the lower points tell more. */
std::vector<double> points_of(const std::vector<double> &values)
{
	std::vector<double> points;
	for (double part : POINT)
		points.push_back(quantile(values, part));
	return points;
}

std::vector<double> over(const std::vector<double> &way, const std::vector<double> &base)
{
	std::vector<double> ratios;
	for (size_t k = 0; k < POINTS; k++)
		ratios.push_back(way[k] / base[k]);
	return ratios;
}

tools::Json summary(const std::vector<double> &points)
{
	return {{"least", points[LEAST]}, {"lower_quartile", points[LOWER_QUARTILE]},
	        {"median", points[MEDIAN]}, {"upper_quartile", points[UPPER_QUARTILE]}};
}

void print(const std::string &name, const std::vector<double> &points, int digits)
{
	std::cout << std::left << std::setw(38) << name << std::right << std::fixed
	          << std::setprecision(digits);
	for (double value : points)
		std::cout << std::setw(12) << value;
	std::cout << "\n";
}

const std::pair<const char *, const char *> RATIOS[] = {{"in-turn", "one"},
        {"in-turn-logged", "one"}, {"in-turn-logged", "one-logged"}, {"overlapped", "one"},
        {"overlapped-logged", "one"}, {"overlapped", "in-turn"}, {"two-phase", "one"},
        {"overlapped", "two-phase"}, {"overlapped-logged", "two-phase-logged"},
        {"bare-in-turn", "bare-one"}, {"bare-started", "bare-one"},
        {"bare-overlapped", "bare-one"}};

void report(const Settings &s, const Times &times)
{
	tools::Json out = {{"processor", bench::processor()}, {"pm", s.pm}, {"spin", s.spin},
	        {"transfers", s.transfers}, {"rounds", s.rounds}};
	std::map<std::string, std::vector<double>> points;
	if (s.json != "-")
		std::cout << "one thread, pm=" << s.pm
		          << ": ns of a transfer, and ratios: least, quartile, median, quartile\n";
	for (const auto &[name, values] : times) {
		points[name] = points_of(values);
		out["ns"][name] = summary(points[name]);
		if (s.json != "-")
			print(name, points[name], 0);
	}
	for (const auto &[way, base] : RATIOS) {
		if (!points.count(way))
			continue;
		const std::string name = std::string(way) + " / " + base;
		const std::vector<double> ratios = over(points[way], points[base]);
		out["time_over"][name] = summary(ratios);
		if (s.json != "-")
			print(name, ratios, 3);
	}
	if (!s.json.empty())
		bench::write_json(s.json, out);
}

void run(const Settings &s)
{
	std::string path = s.directory + "/group-bound-XXXXXX";
	if (!mkdtemp(path.data()))
		throw tools::WrongUsage("--dir " + s.directory + ": " + strerror(errno) +
		                        ": name a directory that you can write to");
	const bench::Directory directory(path);
	Banks banks(s, directory.path());
	bench::pin(0);
	tools::Random random{1};
	Times times;
	const std::vector<Way> all = ways(s);
	/* Each round begins with another way: what else the machine does meets all alike. */
	for (unsigned round = 0; round < s.rounds; round++)
		for (size_t k = 0; k < all.size(); k++) {
			const Way &way = all[(k + round) % all.size()];
			times[way.name].push_back(measure(banks, way, s, random));
		}
	banks.check();
	report(s, times);
}

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	tools::CommandLine line("bound",
	        "What one update over two heaps could reach at best: transfers in one heap, over "
	        "two "
	        "heaps as two updates, and over two heaps by two-phase commit.");
	line.option("--dir", s.directory, "directory of the heaps; the run removes its files");
	line.option("--pm", s.pm, "emulated: memory taken for persistent; sync: fdatasync")
	        .one_of({"emulated", "sync"});
	line.option("--accounts", s.accounts, "accounts of each heap").range(1, 1000000);
	line.option("--transfers", s.transfers,
	            "transfers of each measurement, after one in eight and one more to warm up")
	        .range(1, 100000000);
	line.option("--rounds", s.rounds, "measurements of each way").range(1, 1000);
	line.flag("--spin", s.spin, "sync: the thread that waits for the second heap spins before");
	line.option("--json", s.json,
	        "write the result to this file; -: to standard output in place of the table");
	if (auto status = tools::parse_or_exit_status(line, "bound", argc, argv))
		return *status;
	try {
		run(s);
	} catch (const tools::WrongUsage &e) {
		std::cerr << "bound: " << e.what() << "\n";
		return tools::EXIT_WRONG_USAGE;
	} catch (const std::exception &e) {
		std::cerr << "bound: " << e.what() << "\n";
		return 1;
	}
	return 0;
}
