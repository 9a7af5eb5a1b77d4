/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group_kills.cpp - kill a process at random instants while its threads update several heaps of a
 * group, and members alone.  Then open the group, and look:
 *
 *   - the sum over all accounts of all members is 0;
 *   - a thread's newest update over several members is in each of them;
 *   - all that a thread was told is there: updates over several members, and of one alone.
 *
 * Before the group is opened, one of these happens, drawn at random: nothing; recoveries are killed
 * too; a member is opened alone; a member's file is missing for a while; it is an older copy for a
 * while.
 */
#include "../../tools/common/command_line.hpp"
#include "../../tools/common/random.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <fur/group.hpp>
#include <iostream>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

enum { HEAPS = 3, THREADS = 3, ACCOUNTS = 16 };

struct Settings {
	std::string directory = "/dev/shm", pm = "emulated";
	unsigned kills = 100;
	uint64_t seed = 1;
};

/* In root 0 of each member. */
struct Data {
	int64_t cents[ACCOUNTS];
	/* Of each thread: the number of its newest update over several members that has a part
	 * here, and which members it stored to, as bits. */
	struct {
		uint64_t number, members;
	} newest[THREADS];
	uint64_t local[THREADS]; /* updates of this member alone */
};

/* What the threads of the process that is killed have been told, in memory that the parent
 * shares. */
struct Told {
	std::atomic<uint64_t> running;
	std::atomic<uint64_t> begun[THREADS], told[THREADS];
	std::atomic<uint64_t> local_begun[THREADS][HEAPS], local_told[THREADS][HEAPS];
	char problem[1024];
};

[[noreturn]] void fail(const std::string &what)
{
	throw std::runtime_error(what);
}

class Kills
{
public:
	explicit Kills(const Settings &s) : s_(s), random_(s.seed)
	{
		std::string place = s.directory + "/group-kills-XXXXXX";
		if (!mkdtemp(place.data()))
			throw tools::WrongUsage("--directory " + s.directory +
			                        ": name a directory that you can write to");
		place_ = place;
		void *shared = mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE,
		        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (shared == MAP_FAILED)
			fail("no memory");
		told_ = new (shared) Told();
	}
	~Kills()
	{
		std::filesystem::remove_all(place_);
	}
	Kills(const Kills &) = delete;

	void run()
	{
		in_child([this] { create(); });
		for (unsigned kill = 1; kill <= s_.kills; kill++)
			try {
				one_kill();
			} catch (const std::exception &e) {
				fail("after kill " + std::to_string(kill) + ": " + e.what());
			}
		std::cout << s_.kills << " kills, " << updates_ << " updates over several members "
		          << "and " << locals_ << " of one had returned: nothing is lost or torn; "
		          << alone_refused_ << " of " << alone_ << " members opened alone needed "
		          << "the group, " << older_refused_ << " of " << older_
		          << " older copies were refused, " << partial_refused_ << " of "
		          << partial_ << " groups needed the member that was missing\n";
	}

private:
	std::string group() const
	{
		return place_ + "/bank.group";
	}
	std::string heap(unsigned k) const
	{
		return place_ + "/heap" + std::to_string(k);
	}
	fur::Options heap_options() const
	{
		fur::Options o;
		o.heap_bytes = 2 << 20;
		o.log_bytes = 8192;
		o.ring_slots = 128;
		o.max_threads = THREADS + 1;
		o.async_ms = 1;
		o.pm = s_.pm == "sync" ? FUR_PM_SYNC : FUR_PM_EMULATED;
		return o;
	}
	fur::Group open(bool partial = false) const
	{
		const fur::Options heap = heap_options();
		fur::GroupOptions o;
		o.heap = &heap;
		o.partial = partial;
		return fur::Group::open(group(), o);
	}
	static Data *data_of(fur_thread *t)
	{
		return fur::read(
		        t, [](fur_ro *tx) { return static_cast<Data *>(fur_root(tx, 0)); });
	}

	/* ------------------------------------------------------------ processes */

	pid_t start(const std::function<void()> &work) const
	{
		std::cout.flush();
		const pid_t child = fork();
		if (child)
			return child;
		try {
			work();
		} catch (const std::exception &e) {
			snprintf(told_->problem, sizeof told_->problem, "%s", e.what());
			_exit(1);
		}
		_exit(0);
	}
	void in_child(const std::function<void()> &work) const
	{
		const pid_t child = start(work);
		int status;
		waitpid(child, &status, 0);
		if (WIFSIGNALED(status))
			fail("a child died of signal " + std::to_string(WTERMSIG(status)));
		if (WEXITSTATUS(status))
			fail(told_->problem);
	}
	/* Kill the child after a random time, or let it end. */
	void kill_soon(pid_t child, unsigned most_us)
	{
		int status;
		usleep(static_cast<useconds_t>(random_.below(most_us)));
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status))
			fail(told_->problem);
		if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
			fail("the child died of signal " + std::to_string(WTERMSIG(status)));
	}

	/* ------------------------------------------------------------ the work */

	void create()
	{
		fur::Group g = fur::Group::create(group());
		for (unsigned k = 0; k < HEAPS; k++)
			g.add(heap(k), heap_options());
		fur::GroupThread self(g);
		for (unsigned k = 0; k < HEAPS; k++)
			fur::update(self.of(k), [&](fur_update *tx) {
				fur_set_root(tx, 0, fur_alloc(tx, sizeof(Data)));
			});
	}
	static void add(fur_update *tx, int64_t *to, int64_t n)
	{
		fur_store(tx, to, fur_load(tx, to) + n);
	}
	void update_several(
	        fur_group_thread *t, Data *const *data, unsigned me, tools::Random &random)
	{
		const unsigned from = static_cast<unsigned>(random.below(HEAPS)),
		               to = static_cast<unsigned>((from + 1 + random.below(2)) % HEAPS);
		const uint64_t number = told_->begun[me].load() + 1,
		               members = 1u << from | 1u << to;
		const int64_t cents = static_cast<int64_t>(random.below(100));
		const uint64_t a = random.below(ACCOUNTS), b = random.below(ACCOUNTS);
		told_->begun[me] = number;
		fur::update(t, fur::rerun, {to, from}, [&](const fur::GroupUpdate &tx) {
			add(tx[from], &data[from]->cents[a], -cents);
			add(tx[to], &data[to]->cents[b], cents);
			for (unsigned k : {from, to}) {
				fur_store(tx[k], &data[k]->newest[me].number, number);
				fur_store(tx[k], &data[k]->newest[me].members, members);
			}
		});
		told_->told[me] = number;
	}
	void update_one(
	        fur::GroupThread &self, Data *const *data, unsigned me, tools::Random &random)
	{
		const unsigned k = static_cast<unsigned>(random.below(HEAPS));
		const uint64_t number = told_->local_begun[me][k] + 1, a = random.below(ACCOUNTS),
		               b = random.below(ACCOUNTS);
		const auto body = [&](fur_update *tx) {
			add(tx, &data[k]->cents[a], -1);
			add(tx, &data[k]->cents[b], 1);
			fur_store(tx, &data[k]->local[me], number);
		};
		fur_thread *t = self.of(k);
		told_->local_begun[me][k] = number;
		if (random.below(4)) {
			fur::update(t, fur::rerun, body);
		} else { /* late */
			fur_ticket ticket;
			fur::update(t, fur::rerun, ticket, body);
			if (random.below(8))
				return;
			fur::check(fur_wait(t, ticket));
		}
		told_->local_told[me][k] = number;
	}
	void work_of_thread(fur_group *g, unsigned me, uint64_t seed)
	try {
		tools::Random random{seed};
		fur::GroupThread self(g);
		Data *data[HEAPS];
		for (unsigned k = 0; k < HEAPS; k++)
			data[k] = data_of(self.of(k));
		for (;;) {
			told_->running++;
			for (unsigned n = 0; n < 4; n++)
				update_several(self, data, me, random);
			for (unsigned n = 0; n < 3; n++)
				update_one(self, data, me, random);
			if (random.below(4) == 0 && sum(self, data) != 0)
				fail("a reader has found another sum");
		}
	} catch (const std::exception &e) {
		snprintf(told_->problem, sizeof told_->problem, "%s", e.what());
		_exit(1);
	}
	void work(uint64_t seed)
	{
		const fur::Group g = open();
		std::vector<std::thread> threads;
		for (unsigned k = 0; k < THREADS; k++)
			threads.emplace_back([&, k] { work_of_thread(g, k, seed * THREADS + k); });
		for (auto &t : threads)
			t.join();
	}
	static int64_t sum(fur_group_thread *t, Data *const *data)
	{
		return fur::read(t, fur::rerun, {0, 1, 2}, [&](const fur::GroupReader &tx) {
			int64_t all = 0;
			for (unsigned k = 0; k < HEAPS; k++)
				for (unsigned n = 0; n < ACCOUNTS; n++)
					all += fur_load(tx[k], &data[k]->cents[n]);
			return all;
		});
	}

	/* ------------------------------------------------------------ the look */

	/* `whole`: nothing that a thread was told may be missing. */
	void check_thread(const Data *const *data, unsigned me, bool whole)
	{
		unsigned newest = 0;
		for (unsigned k = 1; k < HEAPS; k++)
			if (data[k]->newest[me].number > data[newest]->newest[me].number)
				newest = k;
		const auto last = data[newest]->newest[me];
		for (unsigned k = 0; k < HEAPS; k++)
			if ((last.members >> k & 1) && data[k]->newest[me].number != last.number)
				fail("update " + std::to_string(last.number) + " of thread " +
				        std::to_string(me) + " is in heap " +
				        std::to_string(newest) + ", and not in heap " +
				        std::to_string(k));
		if ((whole && last.number < told_->told[me]) || last.number > told_->begun[me])
			fail("thread " + std::to_string(me) + " was told of update " +
			        std::to_string(told_->told[me]) + ", had begun " +
			        std::to_string(told_->begun[me]) + ", and update " +
			        std::to_string(last.number) + " is there");
		told_->begun[me] = told_->told[me] = last.number;
		for (unsigned k = 0; k < HEAPS; k++) {
			const uint64_t number = data[k]->local[me];
			if ((whole && number < told_->local_told[me][k]) ||
			        number > told_->local_begun[me][k])
				fail("thread " + std::to_string(me) + " was told of update " +
				        std::to_string(told_->local_told[me][k]) + " of heap " +
				        std::to_string(k) + " alone, and update " +
				        std::to_string(number) + " is there");
			told_->local_begun[me][k] = told_->local_told[me][k] = number;
		}
	}
	void look(bool whole, bool closes)
	{
		fur::Group g = open();
		{
			fur::GroupThread self(g);
			Data *data[HEAPS];
			for (unsigned k = 0; k < HEAPS; k++)
				data[k] = data_of(self.of(k));
			if (const int64_t all = sum(self, data))
				fail("the sum of all accounts is " + std::to_string(all));
			for (unsigned k = 0; k < THREADS; k++)
				check_thread(data, k, whole);
		}
		if (closes)
			g.close();
		else
			_exit(0);
	}

	/* ---------------------------------------------------- before the look */

	void kill_recoveries()
	{
		for (uint64_t n = random_.below(4); n > 0; n--)
			kill_soon(start([this] { open(); }), 3000);
	}
	void open_alone()
	{
		const unsigned k = static_cast<unsigned>(random_.below(HEAPS));
		alone_++;
		int status;
		const pid_t child = start([&] {
			const fur::Options o = heap_options();
			try {
				fur::Heap::open(heap(k), o).close();
			} catch (const fur::Error &e) {
				if (e.code() != FUR_EGROUP)
					throw;
				_exit(2);
			}
		});
		waitpid(child, &status, 0);
		if (!WIFEXITED(status) || WEXITSTATUS(status) == 1)
			fail(told_->problem);
		alone_refused_ += WEXITSTATUS(status) == 2;
	}
	/* The code of the error with which the group opens, or 0; it is closed then. */
	int try_open(bool partial)
	{
		const pid_t child = start([&] {
			try {
				open(partial).close();
			} catch (const fur::Error &e) {
				if (e.code() != FUR_EGROUP && e.code() != FUR_ENOENT)
					throw;
				_exit(-e.code());
			}
		});
		int status;
		waitpid(child, &status, 0);
		if (!WIFEXITED(status) || WEXITSTATUS(status) == 1)
			fail(told_->problem);
		return -WEXITSTATUS(status);
	}
	void miss_one()
	{
		const unsigned k = static_cast<unsigned>(random_.below(HEAPS));
		std::filesystem::rename(heap(k), heap(k) + ".away");
		if (try_open(false) != FUR_ENOENT)
			fail("the group has opened without a member");
		partial_++;
		const int error = try_open(true);
		if (error && error != FUR_EGROUP)
			fail("a partial open has failed with " + std::to_string(error));
		partial_refused_ += error != 0;
		std::filesystem::rename(heap(k) + ".away", heap(k));
	}
	/* Returns: nothing may be missing. */
	bool use_older()
	{
		const unsigned k = static_cast<unsigned>(random_.below(HEAPS));
		if (!std::filesystem::exists(heap(k) + ".older"))
			return true;
		std::filesystem::rename(heap(k), heap(k) + ".newer");
		std::filesystem::copy_file(heap(k) + ".older", heap(k));
		older_++;
		/* Where no other member has replayed an update that the copy lacks, the group
		 * opens, and its updates are lost with the newer file. */
		if (try_open(false) == 0)
			return false;
		older_refused_++;
		std::filesystem::rename(heap(k) + ".newer", heap(k));
		return true;
	}
	void one_kill()
	{
		const uint64_t seed = random_.next();
		told_->running = 0;
		const pid_t worker = start([&] { work(seed); });
		while (told_->running < THREADS && kill(worker, 0) == 0 &&
		        waitpid(worker, nullptr, WNOHANG) == 0)
			usleep(100);
		kill_soon(worker, 10000);
		for (unsigned k = 0; k < THREADS; k++) {
			updates_ = updates_ + told_->told[k] - counted_[k];
			counted_[k] = told_->told[k];
			for (unsigned h = 0; h < HEAPS; h++)
				locals_ += told_->local_told[k][h] - counted_local_[k][h];
		}
		bool whole = true;
		switch (random_.below(6)) {
		case 0: kill_recoveries(); break;
		case 1: open_alone(); break;
		case 2: miss_one(); break;
		case 3: whole = use_older(); break;
		default: break;
		}
		const bool closes = random_.below(2);
		in_child([&] { look(whole, closes); });
		for (unsigned k = 0; k < THREADS; k++) {
			counted_[k] = told_->told[k];
			for (unsigned h = 0; h < HEAPS; h++)
				counted_local_[k][h] = told_->local_told[k][h];
		}
		if (closes && random_.below(3) == 0)
			for (unsigned k = 0; k < HEAPS; k++)
				std::filesystem::copy_file(heap(k), heap(k) + ".older",
				        std::filesystem::copy_options::overwrite_existing);
	}

	const Settings &s_;
	tools::Random random_;
	std::string place_;
	Told *told_;
	uint64_t updates_ = 0, locals_ = 0, counted_[THREADS] = {},
	         counted_local_[THREADS][HEAPS] = {};
	unsigned alone_ = 0, alone_refused_ = 0, older_ = 0, older_refused_ = 0, partial_ = 0,
	         partial_refused_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	tools::CommandLine line("group-kills", "Kill a process that updates several heaps of a "
	                                       "group, and look whether anything is "
	                                       "lost or torn.");
	line.option("--directory", s.directory, "where the heaps are");
	line.option("--pm", s.pm, "of the heaps").one_of({"emulated", "sync"});
	line.option("--kills", s.kills, "how often").range(1, 1000000);
	line.option("--seed", s.seed, "of all that is random");
	if (auto status = tools::parse_or_exit_status(line, "group-kills", argc, argv))
		return *status;
	try {
		Kills(s).run();
	} catch (const tools::WrongUsage &e) {
		std::cerr << "group-kills: " << e.what() << "\n";
		return tools::EXIT_WRONG_USAGE;
	} catch (const std::exception &e) {
		std::cerr << "group-kills: found, with seed " << s.seed << ": " << e.what() << "\n";
		return 1;
	}
	return 0;
}
