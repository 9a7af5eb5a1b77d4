/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kill_test.cpp - SIGKILL at any instant, again and again on one heap: each time every acknowledged
 * update must be there, and the heap must be exactly the result of its updates.  In every other
 * process two threads take snapshots; what these show must be one state, and must survive.
 *
 *     kill-test --replayer PATH [--kills 200] [--seed N] [--pm emulated|sync]
 *               [--isolation opacity|snapshot] [--dram-bytes N] [--small-log] [--large] [--churn]
 *               [--grow] [--copier PATH] [--fur-check PATH] [--recovery own|once|daemon]
 *               [--preload HOW] [--fur-operators PATH --operators FILE.so]
 *               [--plant none|ack-early|lose-marker|flip-log|old-copy|library]
 *     kill-test --replayer PATH --copier PATH --matrix [--kills 10000] [--seed N]
 *               [--fur-check PATH] [--operators FILE.so] [--sync-directory DIR]
 *
 * The kill comes 0 to 30 ms after the process was made, so it hits opening and recovery too; every
 * other time, 0 to 30 ms after it has opened the heap, if that takes no longer than 0.2 s.  After
 * one end of four, processes that recover the heap with fur_open are killed on their way, once or
 * several times.  One process of eight is not killed but closes the heap.
 *   --recovery once    every third time fur-replayer --once recovers; it is killed, and run again.
 *   --recovery daemon  a fur-replayer serves the heap all the time.  It, the working process or
 *                      both are killed, it is stopped for a while, and a second one is refused.
 *                      --daemon means the same.
 *   --preload HOW      passed to the fur-replayers; without it each gets the next of four ways.
 *   --operators FILE   a fur-operators beside the fur-replayer of --recovery daemon has these
 *                      operators, and the bulk updates are theirs, in the middle of all the other
 *                      work.  In builds with -Dlab=true.
 *   --small-log        so little log and so few ring slots that replay never rests.
 *   --large            every third update also replaces a block of 6 KiB, or of 24 KiB, whose
 *                      contents are not logged.
 *   --late             the updates of all processes are late, not of every other one.
 *   --churn            threads end all the time, also inside transactions, and others come.
 *   --grow             the heap grows; after every eight ends a new one begins small again.
 *   --copier           the heap is copied while the process works, by fur_backup or by this
 *                      fur-copy, which may be killed.  A copy must have all that was acknowledged
 *                      before it was begun, and nothing that the heap has lost.
 *   --fur-check        after processes that took snapshots, this program must find the heap sound.
 *   --matrix           all combinations of these, each with its share of the kills on a heap of its
 *                      own, and a line of result each.  Half of them copy.
 * --plant puts a bug in, which the check must find; library: the test is linked with one.
 * Exit status: 0 as it should be, 1 not, 3 the test itself could not run.
 */
#include "../../tools/common/command_line.hpp"
#include "snapshots.hpp"

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
	std::string replayer, copier, fur_check, fur_operators, operators,
	        plant = "none", pm = "emulated", isolation = "opacity", recovery = "once",
	        preload = "each", directory = "/dev/shm";
	unsigned kills = 200;
	uint64_t seed = 1, dram_bytes = 256 << 10; /* of 4 MiB: pages come and go */
	bool small_log = false, large = false, late = false, churn = false, grow = false;

	unsigned parts() const
	{
		/* A table of a hash map does not fit the small log. */
		return crash::EVERYTHING | crash::BULK | (large ? crash::LARGE : 0u) |
		       (grow ? crash::GROWTH : 0u) | (small_log ? 0u : crash::CONTAINERS) |
		       (has_operators() ? crash::OPERATORS : 0u);
	}
	bool has_operators() const
	{
		return recovery == "daemon" && !operators.empty();
	}
	std::string arguments() const
	{
		return "--seed " + std::to_string(seed) + " --kills " + std::to_string(kills) +
		       " --pm " + pm + " --isolation " + isolation + " --dram-bytes " +
		       std::to_string(dram_bytes) + " --recovery " + recovery + " --preload " +
		       preload + (small_log ? " --small-log" : "") + (large ? " --large" : "") +
		       (late ? " --late" : "") + (churn ? " --churn" : "") +
		       (grow ? " --grow" : "") + (copier.empty() ? "" : " --copier " + copier) +
		       (fur_check.empty() ? "" : " --fur-check " + fur_check) +
		       (operators.empty() ? ""
		                          : " --fur-operators " + fur_operators + " --operators " +
		                                    operators) +
		       " --plant " + plant + " --directory " + directory;
	}
};

class Killer
{
public:
	Killer(const Settings &s)
	    : s_(s), random_(s.seed), expected_(s.seed, s.parts()),
	      shared_(crash::make_shared_memory()), copied_(crash::make_shared_memory()),
	      path_(s.directory + "/fur-kill-" + std::to_string(getpid()))
	{
	}
	~Killer()
	{
		stop_mapper();
		stop_daemon(SIGKILL);
		unlink(path_.c_str());
		unlink(copy_path().c_str());
		munmap(shared_, sizeof *shared_);
		munmap(copied_, sizeof *copied_);
	}

	/* Until it has served its purpose: after `most` ends at the latest, and not before those
	 * that were asked for. */
	int run(unsigned most)
	{
		for (unsigned k = 1; k <= s_.kills || (k <= most && !worked()); k++) {
			ends_ = k;
			if (k == 1 || (s_.grow && k % 8 == 1))
				begin_heap();
			end_once();
			damage();
			std::string wrong = recover_and_check_planted(k);
			if (!wrong.empty() && s_.plant != "none") {
				std::cout << "found, after kill " << k << ": " << wrong << "\n";
				return 0;
			}
			if (!wrong.empty()) {
				std::cout << "after kill " << k << ": " << wrong
				          << "\nrepeat with: kill-test " << s_.arguments()
				          << " --replayer " << s_.replayer << "\n";
				return 1;
			}
		}
		if (s_.plant != "none") {
			std::cout << "the planted bug " << s_.plant << " was not found\n";
			return 1;
		}
		std::cout << ends_ << " ends, " << ends_ - closed_ << " by a kill, "
		          << killed_recoveries_ << " more killed in recovery, " << recovered_
		          << " recoveries with something to replay, "
		          << updates_ + expected_.updates() << " updates, " << snapshots_
		          << " snapshots, " << beside_ << " updates beside them, " << revoked_
		          << " revoked, " << killed_snapshots_ << " ends with one open, "
		          << (s_.grow ? std::to_string(grown_) + " times grown, " : "")
		          << (s_.copier.empty() ? "" : std::to_string(copies_) + " copies, ")
		          << (s_.has_operators() ? std::to_string(by_operator()) +
		                                           " records by an operator, "
		                                 : "")
		          << "all as acknowledged (seed " << s_.seed << ")\n";
		return 0;
	}
	unsigned long kills() const
	{
		return ends_ - closed_ + killed_recoveries_;
	}
	unsigned long snapshots() const
	{
		return snapshots_;
	}
	unsigned long ends_in_snapshots() const
	{
		return killed_snapshots_;
	}
	/* Did it serve its purpose? */
	bool worked() const
	{
		return updates_ + expected_.updates() > 0 && recovered_ > 0 &&
		       (!has_snapshots_ || snapshots_ > 0) && (!s_.grow || grown_ > 0) &&
		       (s_.copier.empty() || copies_ > 0) &&
		       (!s_.has_operators() || by_operator() > 0);
	}

private:
	uint64_t by_operator() const
	{
		return by_operator_ + shared_->by_operator;
	}
	fur::Options options() const
	{
		fur::Options o;
		o.heap_bytes = s_.grow ? 1 << 20 : 4 << 20;
		o.max_bytes = s_.grow ? 160 << 20 : 0;
		o.log_bytes = s_.small_log ? s_.large ? 16384 : 4096 : 65536;
		o.ring_slots = s_.small_log ? 64 : 1024;
		o.max_threads = 8;
		o.isolation = s_.isolation == "snapshot" ? FUR_SNAPSHOT : FUR_OPACITY;
		o.pm = s_.pm == "sync" ? FUR_PM_SYNC : FUR_PM_EMULATED;
		o.dram_bytes = s_.dram_bytes;
		return o;
	}

	void begin_heap()
	{
		stop_mapper(); /* it serves the old file */
		stop_daemon(SIGKILL);
		unlink(path_.c_str());
		updates_ += expected_.updates();
		expected_ = crash::Expected(s_.seed, s_.parts());
		by_operator_ += shared_->by_operator;
		new (shared_) crash::Shared{};
		fur::Heap heap = fur::Heap::create(path_, options());
		has_snapshots_ = !(heap.info().htm == FUR_HTM_POWER && s_.isolation == "snapshot");
		fur::Thread self(heap);
		crash::set_up_in_pieces(self);
		size_ = heap_size(heap.get());
	}

	/* A thread of the child: works until it is killed or told to stop.  With --churn many
	 * threads do so, one after the other. */
	void work(fur_heap *heap, unsigned t, unsigned parts)
	{
		const std::atomic<bool> &stop = shared_->stop;
		const bool early = s_.plant == "ack-early";
		std::mt19937_64 random(s_.seed + t + static_cast<uint64_t>(getpid()));
		do {
			std::thread([&, steps = s_.churn ? random() % 200 : UINT64_MAX,
			                    end = random() % 3] {
				crash::work(heap, shared_, s_.seed, t, crash::THREADS, 60, early,
				        stop, parts, steps);
				if (s_.churn && end)
					crash::leave_transaction_open(heap, t, end == 1);
			}).join();
		} while (!stop);
	}

	/* A thread of the child. */
	void watch(fur_heap *heap, unsigned w)
	{
		const uint64_t seed = s_.seed + w + static_cast<uint64_t>(getpid());
		crash::Watcher(heap, shared_, w, expected_, seed).run(shared_->stop);
	}

	[[noreturn]] void child()
	{
		int status = 9;
		try {
			/* In every other process updates are late, and mostly wait for a flush. */
			const bool late = s_.late || random_() % 2;
			/* Of the processes that take snapshots, a quarter have little memory. */
			const uint64_t snapshots = has_snapshots_ ? random_() % 8 : 0;
			fur::Options o = options();
			o.async_ms = late ? 1000 : 0;
			o.snapshot_bytes = snapshots == 7 ? 64 << 10 : 0;
			fur::Heap heap = fur::Heap::open(path_, o);
			shared_->running = true;
			std::vector<std::thread> threads;
			for (unsigned t = 0; t < crash::THREADS; t++)
				threads.emplace_back([&, t] {
					work(heap, t, s_.parts() | (late ? crash::LATE : 0u));
				});
			for (unsigned w = 0; w < (snapshots < 4 ? 0u : unsigned(crash::WATCHERS));
			        w++)
				threads.emplace_back([&, w] { watch(heap, w); });
			if (copies_itself_)
				threads.emplace_back([&] { back_up(heap); });
			for (auto &t : threads)
				t.join();
			heap.close();
			status = 0;
		} catch (const std::exception &e) {
			std::cerr << "child: " << e.what() << "\n";
		}
		_exit(status);
	}

	static pid_t run(std::string program, std::vector<std::string> arguments, bool silent)
	{
		std::vector<char *> argv{program.data()};
		for (std::string &a : arguments)
			argv.push_back(a.data());
		argv.push_back(nullptr);
		pid_t pid = fork();
		if (pid == 0) {
			if (silent) {
				close(STDOUT_FILENO);
				close(STDERR_FILENO);
			}
			execv(argv[0], argv.data());
			_exit(127);
		}
		return pid;
	}
	pid_t start(std::vector<std::string> arguments, bool silent = false)
	{
		static const char *const ways[] = {"auto", "batch:16", "0", "sequential:4"};
		const std::string how =
		        s_.preload == "each" ? ways[started_++ % std::size(ways)] : s_.preload;
		arguments.insert(arguments.begin(), {"--quiet", "--heap", path_, "--preload", how});
		return run(s_.replayer, arguments, silent);
	}

	void start_daemon()
	{
		daemon_ = start({});
		start_mapper();
	}
	void start_mapper()
	{
		if (s_.has_operators() && !mapper_)
			mapper_ = run(s_.fur_operators,
			        {"--quiet", "--operators", s_.operators, path_}, false);
	}
	/* fur-operators beside the daemon fares as badly, and holds the right to replay as well. */
	void disturb_mapper()
	{
		start_mapper();
		if (!mapper_)
			return;
		switch (random_() % 4) {
		case 0: stop_mapper(); break;
		case 1:
			stop_mapper();
			start_mapper();
			break;
		case 2:
			kill(mapper_, SIGSTOP);
			usleep(static_cast<useconds_t>(random_() % 10000));
			kill(mapper_, SIGCONT);
			break;
		default: break;
		}
	}
	void stop_mapper()
	{
		if (!mapper_)
			return;
		kill(mapper_, SIGKILL);
		waitpid(mapper_, nullptr, 0);
		mapper_ = 0;
	}

	std::string copy_path() const
	{
		return path_ + ".copy";
	}
	/* A thread of the child. */
	void back_up(const fur::Heap &heap)
	{
		usleep(static_cast<useconds_t>(random_() % 10000));
		crash::note(copied_, shared_);
		/* FUR_EBUSY: a replayer that is stopped keeps others from replaying. */
		if (int error = fur_backup(heap.get(), copy_path().c_str());
		        error && error != FUR_EBUSY)
			fur::check(error);
	}
	/* fur-copy copies, while the child works. */
	void start_copier()
	{
		usleep(static_cast<useconds_t>(random_() % 10000));
		crash::note(copied_, shared_);
		copier_ = run(s_.copier, {path_, copy_path()}, true);
	}
	/* It is killed, or ends: with a copy, or without one if the program was just opening or
	 * closing the heap. */
	void end_copier()
	{
		int status;
		if (!copier_)
			return;
		if (random_() % 2)
			kill(copier_, SIGKILL);
		waitpid(copier_, &status, 0);
		copier_ = 0;
		bool there = access(copy_path().c_str(), F_OK) == 0;
		if (WIFEXITED(status) && WEXITSTATUS(status) != !there)
			throw std::runtime_error("fur-copy ended with status " +
			                         std::to_string(WEXITSTATUS(status)) + " and " +
			                         (there ? "a copy" : "no copy"));
	}
	/* The copy, if there is one.  `expected`: as the heap was before the process that has ended
	 * now; expected_: as it is. */
	std::string check_copy(crash::Expected expected)
	{
		if (access(copy_path().c_str(), F_OK))
			return "";
		if (s_.plant == "old-copy")
			crash::note(copied_, shared_);
		for (unsigned t = 0; t < crash::THREADS; t++)
			copied_->thread[t].intended.store(shared_->thread[t].intended);
		copied_->bulk_intended.store(shared_->bulk_intended);
		fur::Heap copy = fur::Heap::open(copy_path(), options());
		std::string wrong = expected.check(copy, copied_);
		if (wrong.empty() && copy.info().recovered)
			wrong = "it was not closed";
		if (wrong.empty() && !expected.before(expected_))
			wrong = "it has what the heap has lost";
		copy.close();
		unlink(copy_path().c_str());
		copies_++;
		return wrong.empty() ? "" : "the copy: " + wrong;
	}

	/* While a process works the daemon is killed and perhaps replaced, or stopped for a while.
	 * It may still be stopped when the process dies; go_on() ends that. */
	void disturb_daemon()
	{
		if (!daemon_)
			start_daemon();
		for (uint64_t times = random_() % 3; times > 0 && daemon_; times--) {
			usleep(static_cast<useconds_t>(random_() % 10000));
			disturb_mapper();
			switch (random_() % 4) {
			case 0: stop_daemon(SIGKILL); break;
			case 1:
				stop_daemon(SIGKILL);
				usleep(static_cast<useconds_t>(random_() % 5000));
				start_daemon();
				break;
			case 2:
				kill(daemon_, SIGSTOP);
				usleep(static_cast<useconds_t>(random_() % 10000));
				kill(daemon_, SIGCONT);
				break;
			default: kill(daemon_, SIGSTOP);
			}
		}
	}
	/* A daemon that is stopped while it replays keeps others from replaying: fur_open waits for
	 * it ten seconds, and then refuses. */
	void go_on()
	{
		if (daemon_ && random_() % 2)
			stop_daemon(SIGKILL);
		else if (daemon_)
			kill(daemon_, SIGCONT);
	}

	/* SIGTERM: it shuts down in order, or dies of it where it has the heap's lock and does not
	 * handle signals yet. */
	void stop_daemon(int signal)
	{
		int status;
		if (!daemon_)
			return;
		kill(daemon_, signal);
		waitpid(daemon_, &status, 0);
		daemon_ = 0;
		const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == signal;
		if (signal == SIGTERM && status != 0 && !killed)
			throw std::runtime_error(
			        "the daemon failed, wait status " + std::to_string(status));
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
		bool held = heap_lock_held(fd, HEAP_LOCK_REPLAYER) == 1;
		close(fd);
		return held;
	}

	/* The daemon recovers the heap of a dead process without being asked.  False: it does not,
	 * in time enough for a hundred recoveries. */
	bool wait_until_closed()
	{
		enum { PATIENCE_MS = 20000 };
		heap_file file;
		int waited = 0;
		fur::check(heap_open_file(path_.c_str(), HEAP_LOCK_NONE, &file));
		while (__atomic_load_n(&file.super->state, __ATOMIC_ACQUIRE) != MEDIA_CLOSED &&
		        waited++ < PATIENCE_MS)
			usleep(1000);
		heap_close_file(&file);
		return waited < PATIENCE_MS;
	}

	/* What the threads that take snapshots have told.  Empty, or what is wrong. */
	std::string account_snapshots()
	{
		bool open = false;
		looked_ = false;
		for (crash::Shown &shown : shared_->shown) {
			looked_ |= shown.snapshots > 0;
			open |= shown.open.exchange(false);
			snapshots_ += shown.snapshots.exchange(0);
			beside_ += shown.beside.exchange(0);
			revoked_ += shown.revoked.exchange(0);
		}
		killed_snapshots_ += open;
		return crash::wrong_snapshot(shared_);
	}
	std::string run_fur_check()
	{
		int status;
		pid_t pid = run(s_.fur_check, {path_}, true);
		waitpid(pid, &status, 0);
		return status ? "fur-check finds the heap damaged" : "";
	}

	void wait_until_open() const
	{
		for (int ms = 0; ms < 200 && !shared_->running; ms++)
			usleep(1000);
	}

	/* The working process: killed, or told to stop and to close the heap. */
	void end_once()
	{
		int status;
		closes_ = s_.plant == "none" && random_() % 8 == 0;
		copies_itself_ = !s_.copier.empty() && random_() % 2;
		shared_->stop = false;
		shared_->running = false;
		pid_t pid = fork();
		if (pid == 0)
			child();
		if (!s_.copier.empty() && !copies_itself_)
			start_copier();
		if (s_.recovery == "daemon")
			disturb_daemon();
		if (random_() % 2)
			wait_until_open();
		usleep(static_cast<useconds_t>(random_() % 30000));
		if (closes_) {
			go_on(); /* the process may be waiting for it */
			shared_->stop = true;
		} else {
			kill(pid, SIGKILL);
		}
		waitpid(pid, &status, 0);
		go_on();
		end_copier();
		closed_ += closes_;
		if (closes_ && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
			throw std::runtime_error("the process that should close the heap failed");
		if (!closes_ && !WIFSIGNALED(status))
			throw std::runtime_error("the child ended by itself");
	}

	/* Kill processes that recover the heap, on their way or just after. */
	void kill_in_recovery()
	{
		for (uint64_t times = 1 + random_() % 3; times > 0; times--) {
			pid_t pid = fork();
			int status;
			if (pid == 0) {
				fur_heap *heap;
				fur::Options o = options();
				if (fur_open(path_.c_str(), &o, &heap)) {
					std::cerr << "child: " << fur_errormsg() << "\n";
					_exit(9);
				}
				pause();
			}
			usleep(static_cast<useconds_t>(random_() % 4000));
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			if (!WIFSIGNALED(status))
				throw std::runtime_error("recovery failed");
			killed_recoveries_++;
		}
	}

	/* The planted bugs that lie in the file. */
	void damage()
	{
		if (s_.plant != "lose-marker" && s_.plant != "flip-log")
			return;
		heap_file file;
		durability d;
		char reason[160];
		fur::Options o = options();
		fur::check(heap_open_file(path_.c_str(), HEAP_LOCK_WORKER, &file));
		fur::check(heap_attach(&d, &file, &o, reason, sizeof reason));
		for (uint64_t s = d.tail; s < d.tail + d.super->ring_slots; s++) {
			media_marker *m = durability_marker(&d, s);
			if (m->durts != s)
				continue;
			if (s_.plant == "lose-marker")
				*m = {}; /* with its number alone gone its checksum would tell */
			else
				/* Two bytes: one would be corrected by the checksum. */
				for (uint64_t at : {m->log_start + 24, m->log_start + 25})
					d.logs[m->thread * d.super->log_bytes +
					        (at & (d.super->log_bytes - 1))] ^= 1;
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
		if (std::string wrong = account_snapshots(); !wrong.empty())
			return wrong;
		if (random_() % 4 == 0 && s_.plant == "none")
			kill_in_recovery(), closes_ = false;
		if (daemon_ && k % 3 == 0) {
			if (k % 2 == 0) { /* both died */
				stop_daemon(SIGKILL);
				start_daemon();
			}
			try_second_daemon();
			if (!wait_until_closed())
				return "the daemon sleeps, though the process that had the heap "
				       "open is dead";
			if (k % 4 == 1)
				stop_daemon(SIGTERM);
		} else if (s_.recovery == "once" && k % 3 == 0) {
			run_replayer(true);
			run_replayer(false);
		}
		fur::Heap heap = fur::Heap::open(path_, options());
		recovered_ +=
		        heap.info().replayed_updates > 0 || (s_.recovery != "own" && k % 3 == 0);
		if (closes_ && heap.info().recovered)
			return "the heap had been closed, and is taken for one that had not";
		const crash::Expected earlier = expected_;
		std::string wrong = expected_.check(heap, shared_);
		grown_ += heap_size(heap.get()) > size_;
		size_ = heap_size(heap.get());
		heap.close();
		if (wrong.empty())
			wrong = check_copy(earlier);
		if (wrong.empty() && looked_ && !daemon_ && !s_.fur_check.empty())
			wrong = run_fur_check();
		return wrong;
	}

	Settings s_;
	std::mt19937_64 random_;
	crash::Expected expected_;
	crash::Shared *shared_, *copied_; /* copied_: as it was when the copy was begun */
	std::string path_;
	unsigned ends_ = 0, recovered_ = 0, closed_ = 0, killed_recoveries_ = 0, copies_ = 0;
	unsigned killed_snapshots_ = 0;                     /* ends while a snapshot was open */
	uint64_t snapshots_ = 0, beside_ = 0, revoked_ = 0; /* beside_: updates beside them */
	unsigned grown_ = 0;   /* how often the heap was larger after an end than before */
	unsigned started_ = 0; /* fur-replayers */
	uint64_t size_ = 0, updates_ = 0, by_operator_ = 0; /* of the heap; of earlier heaps */
	bool closes_ = false;        /* the last process has closed the heap */
	bool copies_itself_ = false; /* not by fur-copy */
	bool has_snapshots_ = false; /* FUR_SNAPSHOT on POWER has none */
	bool looked_ = false;        /* the last process has taken snapshots */
	pid_t daemon_ = 0, mapper_ = 0, copier_ = 0;
};

/* ------------------------------------------------------------------ matrix */

template <class Each>
void each_combination(const Settings &base, const std::string &sync_directory, Each &&each)
{
	for (const char *pm : {"emulated", "sync"})
		for (const char *recovery : {"own", "once", "daemon"})
			for (unsigned bits = 0; bits < 64; bits++) {
				Settings s = base;
				s.pm = pm;
				s.recovery = recovery;
				s.directory = s.pm == "sync" ? sync_directory : base.directory;
				s.isolation = bits & 1 ? "snapshot" : "opacity";
				s.dram_bytes = bits & 2 ? 256 << 10 : 0;
				s.small_log = bits & 4;
				s.large = bits & 8;
				s.churn = bits & 16;
				s.grow = bits & 32;
				if (__builtin_parity(bits) == 0)
					s.copier.clear();
				each(s);
			}
}

int matrix(const Settings &base, const std::string &sync_directory)
{
	unsigned combinations = 0, n = 0, wrong = 0;
	unsigned long kills = 0, snapshots = 0, open = 0;
	each_combination(base, sync_directory, [&](const Settings &) { combinations++; });
	each_combination(base, sync_directory, [&](Settings s) {
		s.seed = base.seed + n;
		s.kills = base.kills * (n + 1) / combinations - base.kills * n / combinations;
		n++;
		if (s.kills == 0)
			return;
		std::cout << s.pm << ' ' << s.isolation << (s.dram_bytes ? " dram-bytes" : "")
		          << (s.small_log ? " small-log" : "") << (s.large ? " large" : "")
		          << (s.churn ? " churn" : "") << (s.grow ? " grow" : "")
		          << (s.copier.empty() ? "" : " copy")
		          << (s.has_operators() ? " operators" : "") << " recovery-" << s.recovery
		          << ": " << std::flush;
		try {
			Killer killer(s);
			wrong += killer.run(s.kills) != 0;
			kills += killer.kills();
			snapshots += killer.snapshots();
			open += killer.ends_in_snapshots();
		} catch (const std::exception &e) {
			wrong++;
			std::cout << e.what() << "\nrepeat with: kill-test " << s.arguments()
			          << " --replayer " << s.replayer << "\n";
		}
	});
	std::cout << base.kills << " ends, " << kills << " kills, " << snapshots << " snapshots, "
	          << open << " ends with one open, " << combinations << " combinations, " << wrong
	          << " of them wrong (seed " << base.seed << ")\n";
	return wrong != 0;
}

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	std::string sync_directory = ".";
	bool all = false, daemon = false;
	tools::CommandLine line(
	        "kill-test", "SIGKILL at any instant, recovery, and a full check, again and again");
	line.option("--replayer", s.replayer, "the fur-replayer program").required();
	line.option("--copier", s.copier, "copy the heap in use, also by this fur-copy program");
	line.option("--fur-check", s.fur_check,
	        "after processes that took snapshots, this program must find the heap sound");
	line.option("--kills", s.kills, "how many processes work and end");
	line.option("--seed", s.seed);
	line.option("--directory", s.directory, "where the heap file goes");
	line.option("--pm", s.pm).one_of({"emulated", "sync"});
	line.option("--isolation", s.isolation).one_of({"opacity", "snapshot"});
	line.option("--dram-bytes", s.dram_bytes, "fur_options.dram_bytes; 0: no limit");
	line.option("--recovery", s.recovery, "who recovers: fur_open, or also fur-replayer")
	        .one_of({"own", "once", "daemon"});
	line.option(
	        "--preload", s.preload, "how the fur-replayers preload; each: in turns every way");
	line.option("--fur-operators", s.fur_operators, "the fur-operators that loads --operators");
	line.option("--operators", s.operators,
	        "--recovery daemon: a shared object with the operator of the bulk updates");
	line.flag("--daemon", daemon, "--recovery daemon");
	line.flag("--small-log", s.small_log, "so little log that replay never rests");
	line.flag("--large", s.large, "also large updates");
	line.flag("--late", s.late, "all updates end with tickets");
	line.flag("--churn", s.churn, "threads end all the time, also inside transactions");
	line.flag("--grow", s.grow, "the heap grows");
	line.flag("--matrix", all, "all combinations of these, each with its share of the kills");
	line.option("--sync-directory", sync_directory,
	        "--matrix: where the heap file goes with --pm sync");
	line.option("--plant", s.plant, "a bug the check must find")
	        .one_of({"none", "ack-early", "lose-marker", "flip-log", "old-copy", "library"});
	if (auto status = tools::parse_or_exit_status(line, "kill-test", argc, argv))
		return *status;
	if (daemon)
		s.recovery = "daemon";
	try {
		if (all)
			return matrix(s, sync_directory);
		Killer killer(s);
		/* On a busy machine a process may be killed before it has done much. */
		const int wrong = killer.run(s.plant == "none" ? 10 * s.kills : s.kills);
		if (wrong || s.plant != "none" || killer.worked())
			return wrong;
		std::cerr << "kill-test: the processes did too little before they were killed\n";
		return 1;
	} catch (const std::exception &e) {
		std::cerr << "kill-test: " << e.what() << "\n";
		return 3;
	}
}
