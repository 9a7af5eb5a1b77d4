/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kill_test.cpp - SIGKILL at any instant, again and again on one heap: each time every acknowledged update must be there, and the heap
 * exactly what its updates give.
 *
 *     kill-test --replayer PATH [--kills 200] [--seed N] [--pm emulated|sync] [--plant none|ack-early|lose-marker|flip-log]
 *
 * The kill comes 0 to 30 ms after the process was made, so opening and recovery are hit too; every third time recovery is
 * fur-replayer's, and is killed as well, then run again.  --plant puts a bug in, which the check must find.
 * Exit status: 0 as it should be, 1 not, 3 the test itself could not run.
 */
#include "workload.hpp"

#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <random>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace
{

struct Settings {
	std::string replayer, plant = "none", pm = "emulated", directory = "/dev/shm";
	unsigned kills = 200;
	uint64_t seed = 1;
};

class Killer
{
      public:
	Killer(const Settings &s)
	    : s_(s), random_(s.seed), expected_(s.seed), shared_(crash::make_shared_memory()),
	      path_(s.directory + "/fur-kill-" + std::to_string(getpid()))
	{
	}
	~Killer()
	{
		unlink(path_.c_str());
	}

	int run()
	{
		fur::Options o = options();
		unlink(path_.c_str());
		{
			fur::Heap heap = fur::Heap::create(path_, o);
			fur::Thread self(heap);
			crash::set_up(self);
		}
		for (unsigned k = 1; k <= s_.kills; k++) {
			kill_once();
			damage();
			std::string wrong = recover_and_check_planted(k);
			if (!wrong.empty() && s_.plant != "none") {
				std::cout << "found, after kill " << k << ": " << wrong << "\n";
				return 0;
			}
			if (!wrong.empty()) {
				std::cout << "after kill " << k << ": " << wrong << "\nrepeat with: kill-test --seed " << s_.seed
				          << " --kills " << k << " --plant " << s_.plant << " --pm " << s_.pm << " --replayer "
				          << s_.replayer << "\n";
				return 1;
			}
		}
		if (s_.plant != "none") {
			std::cout << "the planted bug " << s_.plant << " was not found\n";
			return 1;
		}
		std::cout << s_.kills << " kills, " << recovered_ << " recoveries with something to replay, " << expected_.updates()
		          << " updates, all as acknowledged (seed " << s_.seed << ")\n";
		return expected_.updates() > 0 && recovered_ > 0 ? 0 : 1;
	}

      private:
	fur::Options options() const
	{
		fur::Options o;
		o.heap_bytes = 4 << 20;
		o.log_bytes = 16384;
		o.ring_slots = 128;
		o.max_threads = 8;
		o.pm = s_.pm == "sync" ? FUR_PM_SYNC : FUR_PM_EMULATED;
		o.pm_latency_ns = FUR_NO_LATENCY;
		return o;
	}

	[[noreturn]] void child()
	{
		try {
			fur::Heap heap = fur::Heap::open(path_, options());
			std::atomic<bool> never{false};
			std::vector<std::thread> threads;
			for (unsigned t = 0; t < crash::THREADS; t++)
				threads.emplace_back([&, t] {
					crash::work(heap, shared_, s_.seed, t, crash::THREADS, 60, s_.plant == "ack-early", never);
				});
			for (auto &t : threads)
				t.join();
		} catch (const std::exception &e) {
			std::cerr << "child: " << e.what() << "\n";
		}
		_exit(9);
	}

	void kill_once()
	{
		pid_t pid = fork();
		if (pid == 0)
			child();
		usleep(static_cast<useconds_t>(random_() % 30000));
		kill(pid, SIGKILL);
		int status;
		waitpid(pid, &status, 0);
		if (!WIFSIGNALED(status))
			throw std::runtime_error("the child ended by itself");
	}

	/* The planted bugs that lie in the file. */
	void damage()
	{
		if (s_.plant == "none" || s_.plant == "ack-early")
			return;
		heap_file file;
		durability d;
		char reason[160];
		fur::Options o = options();
		fur::check(heap_open_file(path_.c_str(), HEAP_LOCK_WORKER, &file));
		fur::check(durability_attach(&d, &file, &o, reason, sizeof reason));
		for (uint64_t s = d.tail; s < d.tail + d.super->ring_slots; s++) {
			media_marker *m = durability_marker(&d, s);
			if (m->durts != s)
				continue;
			if (s_.plant == "lose-marker")
				m->durts = 0;
			else
				d.logs[m->thread * d.super->log_bytes + ((m->log_start + 8) & (d.super->log_bytes - 1))] ^= 1;
			break;
		}
		durability_detach(&d);
		heap_close_file(&file);
	}

	void run_replayer(bool killed)
	{
		pid_t pid = fork();
		if (pid == 0) {
			execl(s_.replayer.c_str(), "fur-replayer", "--quiet", "--once", "--heap", path_.c_str(), nullptr);
			_exit(127);
		}
		if (killed) {
			usleep(static_cast<useconds_t>(random_() % 3000));
			kill(pid, SIGKILL);
		}
		int status;
		waitpid(pid, &status, 0);
		if (!killed && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
			throw std::runtime_error("fur-replayer failed");
	}

	/* A planted bug may also be found by recovery, which refuses the heap. */
	std::string recover_and_check_planted(unsigned k)
	{
		try {
			return recover_and_check(k);
		} catch (const std::exception &e) {
			if (s_.plant == "none")
				throw;
			return e.what();
		}
	}

	std::string recover_and_check(unsigned k)
	{
		if (k % 3 == 0) {
			run_replayer(true);
			run_replayer(false);
		}
		fur::Heap heap = fur::Heap::open(path_, options());
		recovered_ += heap.info().replayed_updates > 0 || k % 3 == 0;
		std::string wrong = expected_.check(heap, shared_);
		heap.close();
		return wrong;
	}

	Settings s_;
	std::mt19937_64 random_;
	crash::Expected expected_;
	crash::Shared *shared_;
	std::string path_;
	unsigned recovered_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	CLI::App app("SIGKILL at any instant, recovery, and a full check, again and again");
	app.add_option("--replayer", s.replayer, "the fur-replayer program")->required();
	app.add_option("--kills", s.kills)->capture_default_str();
	app.add_option("--seed", s.seed)->capture_default_str();
	app.add_option("--directory", s.directory, "where the heap file goes")->capture_default_str();
	app.add_option("--pm", s.pm)->check(CLI::IsMember({"emulated", "sync"}))->capture_default_str();
	app.add_option("--plant", s.plant, "a bug the check must find")
	        ->check(CLI::IsMember({"none", "ack-early", "lose-marker", "flip-log"}))
	        ->capture_default_str();
	CLI11_PARSE(app, argc, argv);
	try {
		return Killer(s).run();
	} catch (const std::exception &e) {
		std::cerr << "kill-test: " << e.what() << "\n";
		return 3;
	}
}
