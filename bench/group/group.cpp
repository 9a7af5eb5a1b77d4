/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group.cpp - transfers over two heaps of a group (fur_group_run), next to the same in one heap and
 * to what a program without groups does:
 *
 *   one        both accounts in one heap, one update
 *   group      an account in each of two members, one update over both
 *   in-turn    the same as two updates, each durable before the next: not atomic
 *   two-phase  the same by two-phase commit: a prepared record in both heaps, durable at the same
 *              time; then the decision, with the debit, durable in the first heap; then the credit
 *              in the second, for which no thread waits
 *   member     an update of one member alone: debit and credit there
 *
 * and by many threads at a time (crowd.hpp):
 *
 *   run        each transfer is a fur_group_run
 *   submit     each is submitted, and waited for: it becomes durable with others
 *              (fur_group_submit)
 *   submit-ahead  the same, but a thread submits several before it waits for the first
 *
 * Where updates run alone they store in place, which an update over several heaps cannot.
 * `one-logged` is `one` with updates that publish from their logs.
 */
#include "../../tools/common/command_line.hpp"
#include "../../tools/common/json.hpp"
#include "../../tools/common/random.hpp"
#include "../common/output.hpp"
#include "../common/pin.hpp"
#include "../common/processor.hpp"
#include "crowd.hpp"
#include "internals.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fur/group.hpp>
#include <iomanip>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace
{

struct Settings {
	std::string directory = "/dev/shm", pm = "emulated", json;
	uint64_t accounts = 10000, transfers = 1000;
	unsigned rounds = 201, threads = 64, workers = 2, crowd_rounds = 5;
	uint64_t crowd_transfers = 500, ahead = 16;
};

fur::Options heap_options(const Settings &s)
{
	fur::Options o;
	o.pm = s.pm == "sync" ? FUR_PM_SYNC : FUR_PM_EMULATED;
	o.async_ms = 60000; /* flushes begin when a thread waits */
	o.max_threads = 8;
	return o;
}

/* ------------------------------------------------------------------- one heap */

struct Prepared {
	uint64_t transfer, account, cents, state;
};

/* Accounts in a heap, and what a coordinator writes next to them.  One thread works on them. */
class Bank
{
public:
	Bank(const Settings &s, fur_thread *self) : self_(self), count_(s.accounts)
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
	}
	template <class F>
	void update(F &&body)
	{
		fur::update(self_, fur::rerun, body);
	}
	template <class F>
	fur_ticket update_async(F &&body)
	{
		fur_ticket ticket;
		fur::update(self_, fur::rerun, ticket, body);
		return ticket;
	}
	/* The next update publishes from its log, also if it is alone. */
	void log_next()
	{
		self_->policy.alone = 0;
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
		fur::check(fur_wait(self_, ticket));
	}
	int64_t sum()
	{
		int64_t all = 0;
		fur::read(self_, [&](fur_ro *) {
			for (uint64_t k = 0; k < count_; k++)
				all += accounts_[k];
		});
		return all;
	}
	void sync()
	{
		fur::check(fur_sync(self_->heap));
	}

private:
	fur_thread *self_;
	uint64_t count_;
	int64_t *accounts_ = nullptr;
	Prepared *prepared_ = nullptr;
};

/* ----------------------------------------------------------------------- ways */

struct Transfer {
	uint64_t number, from, to;
	int64_t cents;
};

enum Member : unsigned { FIRST, SECOND };

class Banks
{
public:
	Banks(const Settings &s, const std::string &directory)
	    : heap_(fur::Heap::create(directory + "/one", heap_options(s))), thread_(heap_),
	      group_(make_group(s, directory)), group_thread_(group_), one_(s, thread_),
	      first_(s, group_thread_.of(FIRST)), second_(s, group_thread_.of(SECOND))
	{
	}
	void one(const Transfer &t)
	{
		both(one_, t);
	}
	void one_logged(const Transfer &t)
	{
		one_.log_next();
		both(one_, t);
	}
	void member(const Transfer &t)
	{
		both(first_, t);
	}
	void group(const Transfer &t)
	{
		fur::update(group_thread_, fur::rerun, {FIRST, SECOND},
		        [&](const fur::GroupUpdate &tx) {
			        first_.add(tx[FIRST], t.from, -t.cents);
			        second_.add(tx[SECOND], t.to, t.cents);
		        });
	}
	void in_turn(const Transfer &t)
	{
		first_.update([&](fur_update *tx) { first_.add(tx, t.from, -t.cents); });
		second_.update([&](fur_update *tx) { second_.add(tx, t.to, t.cents); });
	}
	void two_phase(const Transfer &t)
	{
		enum State : uint64_t { PREPARED = 1, COMMITTED };
		Prepared a{t.number, t.from, static_cast<uint64_t>(t.cents), PREPARED}, b = a;
		b.account = t.to;
		const fur_ticket first = first_.update_async(
		                         [&](fur_update *tx) { first_.prepare(tx, a); }),
		                 second = second_.update_async(
		                         [&](fur_update *tx) { second_.prepare(tx, b); });
		first_.wait(first);
		second_.wait(second);
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
	void sync()
	{
		first_.sync();
		second_.sync();
	}
	void check()
	{
		if (one_.sum() != 0 || first_.sum() + second_.sum() != 0)
			throw std::runtime_error("the accounts' sum has changed");
	}

private:
	static fur::Group make_group(const Settings &s, const std::string &directory)
	{
		fur::Group g = fur::Group::create(directory + "/bank.group");
		g.add(directory + "/first", heap_options(s));
		g.add(directory + "/second", heap_options(s));
		return g;
	}
	static void both(Bank &bank, const Transfer &t)
	{
		bank.update([&](fur_update *tx) {
			bank.add(tx, t.from, -t.cents);
			bank.add(tx, t.to, t.cents);
		});
	}
	fur::Heap heap_;
	fur::Thread thread_;
	fur::Group group_;
	fur::GroupThread group_thread_;
	Bank one_, first_, second_;
};

const std::pair<const char *, void (Banks::*)(const Transfer &)> WAYS[] = {{"one", &Banks::one},
        {"one-logged", &Banks::one_logged}, {"member", &Banks::member}, {"group", &Banks::group},
        {"in-turn", &Banks::in_turn}, {"two-phase", &Banks::two_phase}};

/* -------------------------------------------------------------------- results */

using Times = std::map<std::string, std::vector<double>>; /* ns of a transfer, of each round */

double measure(Banks &banks, void (Banks::*transfer)(const Transfer &), const Settings &s,
        tools::Random &random)
{
	using Clock = std::chrono::steady_clock;
	Clock::time_point began;
	const uint64_t warm = s.transfers / 8 + 1;
	for (uint64_t k = 0; k < warm + s.transfers; k++) {
		if (k == warm)
			began = Clock::now();
		(banks.*transfer)({k, random.below(s.accounts), random.below(s.accounts),
		        static_cast<int64_t>(random.below(100))});
	}
	const Clock::time_point ended = Clock::now();
	banks.sync(); /* what two-phase commit leaves behind */
	return std::chrono::duration<double, std::nano>(ended - began).count() /
	       static_cast<double>(s.transfers);
}

double median(std::vector<double> values)
{
	const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
	std::nth_element(values.begin(), middle, values.end());
	return *middle;
}

/* The median of the rounds' ratios, each of two measurements in one round. */
double over(const Times &times, const std::string &way, const std::string &base)
{
	std::vector<double> ratios;
	for (size_t k = 0; k < times.at(way).size(); k++)
		ratios.push_back(times.at(way)[k] / times.at(base)[k]);
	return median(ratios);
}

/* The same of rates: `run` and `submit` by many threads. */
std::vector<std::pair<std::string, double>> crowd(const Settings &s, const std::string &directory)
{
	if (!s.crowd_rounds)
		return {};
	bench::Crowd crowd({directory, s.pm == "sync", s.accounts, s.workers, s.threads});
	std::vector<double> run, submit, ahead, ratio, ahead_ratio;
	for (unsigned round = 0; round < s.crowd_rounds; round++) {
		run.push_back(crowd.run(s.crowd_transfers));
		submit.push_back(crowd.submit(s.crowd_transfers, 1));
		ahead.push_back(crowd.submit(s.crowd_transfers, s.ahead));
		ratio.push_back(submit.back() / run.back());
		ahead_ratio.push_back(ahead.back() / run.back());
	}
	crowd.check();
	return {{"run_per_second", median(run)}, {"submit_per_second", median(submit)},
	        {"submit_ahead_per_second", median(ahead)}, {"submit_over_run", median(ratio)},
	        {"submit_ahead_over_run", median(ahead_ratio)}};
}

void report(const Settings &s, const Times &times,
        const std::vector<std::pair<std::string, double>> &crowd)
{
	tools::Json out = {{"processor", bench::processor()}, {"pm", s.pm},
	        {"transfers", s.transfers}, {"rounds", s.rounds}, {"threads", s.threads},
	        {"workers", s.workers}, {"crowd_transfers", s.crowd_transfers},
	        {"crowd_rounds", s.crowd_rounds}, {"ahead", s.ahead}};
	std::vector<std::pair<std::string, double>> ratios = {
	        {"members_local_over_single", 1 / over(times, "member", "one")}};
	if (s.pm == "sync") { /* latencies */
		ratios.emplace_back("sync_over_one_heap", over(times, "group", "one"));
		ratios.emplace_back("sync_over_two_phase", over(times, "group", "two-phase"));
	} else { /* transfers a second */
		ratios.emplace_back("transfer_over_one_heap", 1 / over(times, "group", "one"));
		ratios.emplace_back(
		        "transfer_over_one_logged", 1 / over(times, "group", "one-logged"));
		ratios.emplace_back(
		        "transfer_over_two_phase", 1 / over(times, "group", "two-phase"));
	}
	ratios.insert(ratios.end(), crowd.begin(), crowd.end());
	for (const auto &[name, values] : times)
		out["ns"][name] = median(values);
	for (const auto &[name, value] : ratios)
		out[name] = value;
	if (s.json != "-") {
		std::cout << "one thread, pm=" << s.pm << ": ns of a transfer, medians of "
		          << s.rounds << " rounds\n"
		          << std::fixed << std::setprecision(0);
		for (const auto &[name, values] : times)
			std::cout << "  " << std::left << std::setw(28) << name << std::right
			          << std::setw(10) << median(values) << "\n";
		std::cout << std::setprecision(3);
		for (const auto &[name, value] : ratios)
			std::cout << "  " << std::left << std::setw(28) << name << std::right
			          << std::setw(10) << value << "\n";
	}
	if (!s.json.empty())
		bench::write_json(s.json, out);
}

void run(const Settings &s)
{
	std::string path = s.directory + "/bench-group-XXXXXX";
	if (!mkdtemp(path.data()))
		throw tools::WrongUsage("--dir " + s.directory + ": " + strerror(errno) +
		                        ": name a directory that you can write to");
	const bench::Directory directory(path);
	/* Before this thread is pinned to a core, as those of the crowd would be. */
	const auto together = crowd(s, directory.path());
	Banks banks(s, directory.path());
	bench::pin(0);
	tools::Random random{1};
	Times times;
	/* Each round begins with another way: what else the machine does meets all alike. */
	for (unsigned round = 0; round < s.rounds; round++)
		for (size_t k = 0; k < std::size(WAYS); k++) {
			const auto &[name, transfer] = WAYS[(k + round) % std::size(WAYS)];
			times[name].push_back(measure(banks, transfer, s, random));
		}
	banks.check();
	report(s, times, together);
}

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	tools::CommandLine line("group", "Transfers over two heaps of a group, next to the same in "
	                                 "one heap, as two updates, "
	                                 "and by two-phase commit.");
	line.option("--dir", s.directory, "directory of the heaps; the run removes its files");
	line.option("--pm", s.pm, "emulated: memory taken for persistent; sync: fdatasync")
	        .one_of({"emulated", "sync"});
	line.option("--accounts", s.accounts, "accounts of each heap").range(1, 1000000);
	line.option("--transfers", s.transfers,
	            "transfers of each measurement, after one in eight and one more to warm up")
	        .range(1, 100000000);
	line.option("--rounds", s.rounds, "measurements of each way").range(1, 1000);
	line.option("--threads", s.threads, "threads of `run` and `submit`").range(1, 256);
	line.option("--workers", s.workers, "fur_group_options.workers of `submit`").range(1, 16);
	line.option("--crowd-transfers", s.crowd_transfers, "transfers of each of these threads")
	        .range(1, 1000000);
	line.option("--ahead", s.ahead, "transfers that a thread of `submit-ahead` has submitted")
	        .range(1, 1000000);
	line.option("--crowd-rounds", s.crowd_rounds, "measurements of `run` and `submit`")
	        .range(0, 1000);
	line.option("--json", s.json,
	        "write the result to this file; -: to standard output in place of the table");
	if (auto status = tools::parse_or_exit_status(line, "group", argc, argv))
		return *status;
	try {
		run(s);
	} catch (const tools::WrongUsage &e) {
		std::cerr << "group: " << e.what() << "\n";
		return tools::EXIT_WRONG_USAGE;
	} catch (const std::exception &e) {
		std::cerr << "group: " << e.what() << "\n";
		return 1;
	}
	return 0;
}
