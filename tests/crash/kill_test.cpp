/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kill_test.cpp - SIGKILL at any instant, again and again on one heap: each time every acknowledged update must be there, and the heap
 * exactly what its updates give.
 *
 *     kill-test --replayer PATH [--kills 200] [--seed N] [--pm emulated|sync] [--daemon] [--plant none|ack-early|lose-marker|flip-log]
 *
 * The kill comes 0 to 30 ms after the process was made, so opening and recovery are hit too; every third time recovery is
 * fur-replayer's, and is killed as well, then run again.  With --daemon a fur-replayer serves the heap all the time: it, the working
 * process or both are killed, or it is stopped for a while, and a second one is refused.  --plant puts a bug in, which the check must find.
 * Exit status: 0 as it should be, 1 not, 3 the test itself could not run.
 */
#include "../../tools/common/command_line.hpp"
#include "workload.hpp"

#include <csignal>
#include <fcntl.h>
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
	bool daemon = false;
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
		stop_daemon(SIGKILL);
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
				          << " --kills " << k << " --plant " << s_.plant << " --pm " << s_.pm
				          << (s_.daemon ? " --daemon" : "") << " --replayer " << s_.replayer << "\n";
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
		o.dram_bytes = s_.seed % 2 ? 256 << 10 : 0; /* of 4 MiB: pages come and go */
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

	pid_t start(std::initializer_list<const char *> arguments, bool silent = false)
	{
		std::vector<const char *> argv{"fur-replayer", "--quiet", "--heap", path_.c_str()};
		argv.insert(argv.end(), arguments);
		argv.push_back(nullptr);
		pid_t pid = fork();
		if (pid == 0) {
			if (silent)
				close(STDERR_FILENO);
			execv(s_.replayer.c_str(), const_cast<char **>(argv.data()));
			_exit(127);
		}
		return pid;
	}

	/* What happens to the daemon while a process works: killed and another started, stopped for a while, or nothing. */
	void disturb_daemon()
	{
		if (!daemon_)
			daemon_ = start({});
		usleep(static_cast<useconds_t>(random_() % 15000));
		switch (random_() % 4) {
		case 0: stop_daemon(SIGKILL); break;
		case 1:
			stop_daemon(SIGKILL);
			usleep(static_cast<useconds_t>(random_() % 5000));
			daemon_ = start({});
			break;
		case 2:
			kill(daemon_, SIGSTOP);
			usleep(static_cast<useconds_t>(random_() % 10000));
			kill(daemon_, SIGCONT);
			break;
		default: break;
		}
	}

	/* SIGTERM: it ends by itself, and well. */
	void stop_daemon(int signal)
	{
		int status;
		if (!daemon_)
			return;
		kill(daemon_, signal);
		waitpid(daemon_, &status, 0);
		daemon_ = 0;
		if (signal == SIGTERM && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
			throw std::runtime_error("the daemon failed");
	}

	/* One replayer a heap: only a living one refuses. */
	void try_second_daemon()
	{
		int status;
		while (!heap_has_replayer())
			usleep(1000);
		pid_t second = start({}, true);
		waitpid(second, &status, 0);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 1)
			throw std::runtime_error("two replayers on one heap");
	}
	bool heap_has_replayer() const
	{
		int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
		bool held = heap_lock_held(fd, HEAP_LOCK_REPLAYER);
		close(fd);
		return held;
	}

	/* The daemon finishes what the dead process left, without being asked. */
	void wait_until_closed()
	{
		heap_file file;
		fur::check(heap_open_file(path_.c_str(), HEAP_LOCK_NONE, &file));
		while (__atomic_load_n(&file.super->state, __ATOMIC_ACQUIRE) != MEDIA_CLOSED)
			usleep(1000);
		heap_close_file(&file);
	}

	void kill_once()
	{
		pid_t pid = fork();
		if (pid == 0)
			child();
		if (s_.daemon)
			disturb_daemon();
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
		pid_t pid = start({"--once"});
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
		if (daemon_ && k % 3 == 0) {
			if (k % 2 == 0) { /* both died */
				stop_daemon(SIGKILL);
				daemon_ = start({});
			}
			try_second_daemon();
			wait_until_closed();
			if (k % 4 == 1)
				stop_daemon(SIGTERM);
		} else if (!daemon_ && k % 3 == 0) {
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
	pid_t daemon_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	tools::CommandLine line("kill-test", "SIGKILL at any instant, recovery, and a full check, again and again");
	line.option("--replayer", s.replayer, "the fur-replayer program").required();
	line.option("--kills", s.kills);
	line.option("--seed", s.seed);
	line.option("--directory", s.directory, "where the heap file goes");
	line.flag("--daemon", s.daemon, "a fur-replayer serves the heap, and is killed, too");
	line.option("--pm", s.pm).one_of({"emulated", "sync"});
	line.option("--plant", s.plant, "a bug the check must find").one_of({"none", "ack-early", "lose-marker", "flip-log"});
	if (auto status = tools::parse_or_exit_status(line, "kill-test", argc, argv))
		return *status;
	try {
		return Killer(s).run();
	} catch (const std::exception &e) {
		std::cerr << "kill-test: " << e.what() << "\n";
		return 3;
	}
}
