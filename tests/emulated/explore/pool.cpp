/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pool.cpp - see pool.hpp.
 */
#include "pool.hpp"
#include "../../../emulator/emulated.h"
#include "copies.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace explore
{

namespace
{

/* ------------------------------------------------------------------- a child */

/* A child's report, a pipe full or more: a line of numbers, of which the last are the pairs of
 * points that it has met, then its violation. */
enum { READ_ONLY, UPDATES, ATTEMPTS, PUBLISHED, IN_PLACE, DEFEATED, ACCESSES, NUMBERS };
enum { PAIR_WORDS = EMU_POINTS * EMU_POINTS / 64 };

void write_all(int fd, const std::string &text)
{
	for (size_t at = 0; at < text.size();) {
		ssize_t n = ::write(fd, text.data() + at, text.size() - at);
		if (n <= 0)
			_exit(3);
		at += static_cast<size_t>(n);
	}
}

std::string read_all(int fd)
{
	std::string text;
	char buffer[4096];
	ssize_t n;
	while ((n = ::read(fd, buffer, sizeof buffer)) > 0)
		text.append(buffer, static_cast<size_t>(n));
	close(fd);
	return text;
}

std::string repeat_with(const Options &o, uint64_t seed, uint64_t crash_at)
{
	return "\nrepeat with: " + repeat_command(o, seed, crash_at) + "\n";
}

/* The copy of the heap on which a seed runs. */
std::string path_of(const std::string &heap, uint64_t seed)
{
	return heap + "." + std::to_string(seed);
}

/* The child's part: run, report, exit status. */
[[noreturn]] void run_child(const Options &given, const System &system, uint64_t seed,
        uint64_t longest, const std::string &heap, const std::string &spares, int report)
{
	/* Simulated threads read it.  Static and aligned: on the stack it would share lines with
	 * other data, and the cost of a miss would differ from process to process. */
	alignas(256) static Options o;
	o = given;
	use_spares(spares);
	std::string path = path_of(heap, seed);
	Plan plan = plan_of(o, seed, longest);
	Outcome outcome = run_seed(o, system, plan, seed, heap, path);
	remove_copy(path);
	remove_copy(path + ".image");
	if (!o.history.empty()) {
		std::ofstream file(o.history);
		oracle::print(file, false);
	}
	oracle::Counts c = oracle::counts();
	std::ostringstream text;
	for (uint64_t n : {c.read_only, c.updates, c.attempts, c.published, c.in_place, c.defeated,
	             outcome.accesses})
		text << n << " ";
	text << std::hex;
	for (unsigned k = 0; k < PAIR_WORDS; k++)
		text << emu_point_pairs()[k] << " ";
	text << std::dec << "\n";
	if (!outcome.wrong.empty()) {
		text << "VIOLATION, seed " << seed << ", machine " << plan.machine;
		if (plan.crash_after)
			text << ", power failure after " << plan.crash_after << " accesses";
		text << ": " << outcome.wrong << "\n\n";
		oracle::print(text, true);
		text << repeat_with(o, seed, plan.crash_after);
	}
	write_all(report, text.str());
	_exit(outcome.wrong.empty() ? 0 : 1);
}

/* ------------------------------------------------------------------ the pool */

class Pool
{
public:
	Pool(const Options &o, const System &system)
	    : o_(o), system_(system), place_("/dev/shm/fur-explore-" + own_number())
	{
	}
	~Pool()
	{
		for (const auto &[workload, heap] : heaps_)
			std::filesystem::remove_all(heap.file);
		for (unsigned slot = 0; slot < slots_; slot++)
			std::filesystem::remove_all(spares_of(slot));
	}
	Pool(const Pool &) = delete;

	int explore()
	{
		if (o_.must_find) {
			begin(o_.must_find);
			reap();
		}
		for (uint64_t seed = o_.first; seed <= o_.last && going_on(); seed++) {
			while (children_.size() >= o_.jobs)
				reap();
			if (going_on())
				begin(seed);
		}
		while (!children_.empty())
			reap();
		std::cout << runs_ << " seeds, " << violations_ << " violations; "
		          << sums_[READ_ONLY] << " read-only transactions, " << sums_[UPDATES]
		          << " updates in " << sums_[ATTEMPTS] - sums_[READ_ONLY] << " attempts ("
		          << sums_[PUBLISHED] << " published, " << sums_[IN_PLACE] << " in place, "
		          << sums_[DEFEATED] << " defeated), " << sums_[ACCESSES] << " accesses, "
		          << learnt_ << " pairs of points\n";
		if (!o_.must_find)
			return violations_ ? 1 : 0;
		if (violations_)
			std::cout << "found with seed " << found_with_ << "\n";
		else
			std::cout << "no violation, and there must be one\n";
		return violations_ ? 0 : 1;
	}

private:
	/* The same length in each process: a run copies the path, which takes the more accesses the
	 * longer it is. */
	static std::string own_number()
	{
		std::string number = std::to_string(getpid());
		return std::string(number.size() < 7 ? 7 - number.size() : 0, '0') + number;
	}

	struct Child {
		uint64_t seed;
		int report;
		unsigned slot; /* its spare files */
	};
	std::string spares_of(unsigned slot) const
	{
		return place_ + "-spares-" + std::to_string(slot);
	}
	/* One that no child has. */
	unsigned free_slot()
	{
		unsigned slot = 0;
		while (std::any_of(children_.begin(), children_.end(),
		        [slot](const auto &child) { return child.second.slot == slot; }))
			slot++;
		slots_ = std::max(slots_, slot + 1);
		return slot;
	}

	void begin(uint64_t seed)
	{
		Options one = options_of(o_, seed);
		const Heap &heap = heap_for(one);
		const unsigned slot = free_slot();
		auto [pid, report] = start(one, seed, heap, slot);
		children_[pid] = {seed, report, slot};
	}
	bool going_on() const
	{
		return (violations_ == 0 || o_.keep_going) &&
		       (!o_.until_idle || idle_ < o_.until_idle);
	}

	/* The heap from which runs of a workload start. */
	struct Heap {
		std::string file;
		/* The number of accesses of a run without a crash: crashes are spread over that
		 * many. */
		uint64_t longest = 0;
	};

	const Heap &heap_for(const Options &o)
	{
		auto found = heaps_.find(o.workload);
		if (found != heaps_.end())
			return found->second;
		Heap &heap = heaps_[o.workload];
		heap.file = place_ + "-" + o.workload;
		system_.make_heap(o, heap.file);
		if (o.crash && !o.crash_at)
			heap.longest = measure(o, heap);
		return heap;
	}
	uint64_t measure(const Options &o, const Heap &heap)
	{
		Options whole = o;
		whole.crash = false;
		whole.history.clear();
		auto [pid, report] = start(whole, 1, heap, free_slot());
		std::string text = read_all(report);
		int status;
		waitpid(pid, &status, 0);
		remove_copies(heap, 1); /* with a planted bug, it may have died */
		std::istringstream in(text);
		uint64_t n[NUMBERS] = {};
		for (auto &x : n)
			in >> x;
		return n[ACCESSES] ? n[ACCESSES] : 10000;
	}
	std::pair<pid_t, int> start(
	        const Options &o, uint64_t seed, const Heap &heap, unsigned slot)
	{
		int ends[2];
		if (pipe(ends))
			die("explore: no pipe");
		std::cout.flush();
		pid_t child = fork();
		if (child == 0) {
			close(ends[0]);
			run_child(o, system_, seed, heap.longest, heap.file, spares_of(slot),
			        ends[1]);
		}
		close(ends[1]);
		return {child, ends[0]};
	}
	void reap()
	{
		/* Read before waitpid(): a child whose report is larger than the pipe waits for
		 * the reader. */
		auto [pid, child] = *children_.begin();
		std::string text = read_all(child.report);
		int status;
		waitpid(pid, &status, 0);
		children_.erase(pid);
		runs_++;
		std::istringstream in(text);
		for (auto &sum : sums_) {
			uint64_t n = 0;
			in >> n;
			sum += n;
		}
		learn(in);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			return;
		violations_++;
		found_with_ = child.seed;
		std::string violation;
		std::getline(in, violation); /* the rest of the numbers' line */
		std::getline(in, violation, '\0');
		if (WIFSIGNALED(status))
			violation = without_report(
			        child.seed, std::string("the program died of signal ") +
			                            strsignal(WTERMSIG(status)));
		else if (violation.empty())
			violation =
			        without_report(child.seed, "a call failed that must not (above)");
		std::cout << violation << std::flush;
		remove_copies(heap_for(options_of(o_, child.seed)), child.seed);
	}
	/* Of a child that has died. */
	static void remove_copies(const Heap &heap, uint64_t seed)
	{
		for (const std::string end : {"", ".image"})
			std::filesystem::remove_all(path_of(heap.file, seed) + end);
	}
	/* Read the pairs of points in a child's report. */
	void learn(std::istream &in)
	{
		const unsigned before = learnt_;
		in >> std::hex;
		for (uint64_t &known : pairs_) {
			uint64_t met = 0;
			in >> met;
			learnt_ += static_cast<unsigned>(__builtin_popcountll(met & ~known));
			known |= met;
		}
		in >> std::dec;
		idle_ = learnt_ > before ? 0 : idle_ + 1;
	}
	std::string without_report(uint64_t seed, const std::string &wrong)
	{
		Options one = options_of(o_, seed);
		return "VIOLATION, seed " + std::to_string(seed) + ": " + wrong +
		       repeat_with(
		               one, seed, plan_of(one, seed, heap_for(one).longest).crash_after);
	}

	const Options &o_;
	const System &system_;
	const std::string place_;
	std::map<std::string, Heap> heaps_; /* by workload */
	uint64_t runs_ = 0, violations_ = 0, found_with_ = 0, sums_[NUMBERS] = {};
	uint64_t pairs_[PAIR_WORDS] = {};
	unsigned learnt_ = 0, idle_ = 0; /* pairs; runs since the last new one */
	unsigned slots_ = 0;             /* that children have had */
	std::map<pid_t, Child> children_;
};

} // namespace

int explore_seeds(const Options &o, const System &system)
{
	return Pool(o, system).explore();
}

} // namespace explore
