/* SPDX-License-Identifier: BSD-3-Clause
 *
 * failover.cpp - is an update that was acknowledged there after a fail-over, and once?
 *
 *     failover --runs N       prints "N runs, L lost, T twice"; exit status 1 unless both are 0
 *
 * In each run threads of a program update a primary, in a heap with FUR_ACK_REPLICATED, beside
 * fur-ship and two fur-standby.  Program and fur-ship are killed at any instant, fur-ship perhaps
 * before that as well, and a standby.  One standby takes over.  The program's threads have told, in
 * memory that outlives it, which update each has begun, and which has returned: the new primary
 * must have all of the second, and none but of the first.  The old primary becomes a standby.  When
 * both standbys have read the log to its end, they equal the new primary, in every byte that is in
 * use.  Then the next run begins.
 */
#include "../../tools/common/random.hpp"
#include "image.hpp"
#include "ship.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <getopt.h>
#include <iterator>
#include <optional>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#define _Static_assert static_assert /* NOLINT */
extern "C" {
#include "ship/engine_open.h"
}
#undef _Static_assert

namespace
{

enum : uint64_t { THREADS = 4, CELLS = 2048, NODES = 3, RUNS_OF_A_LOG = 50, TAKEOVER_MS = 2000 };
enum { EXIT_PROMOTED = 4, PATIENCE_S = 60 };

/* ------------------------------------------------------------------- the heap */

struct Root {
	uint64_t sum; /* of all updates */
	struct {
		uint64_t newest;
		uint64_t cell[CELLS]; /* update n: in n % CELLS */
	} of[THREADS];
	void *block;
};

/* Of each thread: the number of the newest update before the run; of the newest that it has begun,
 * and that has returned; and what the first other one has returned. */
struct Told {
	struct {
		uint64_t from, begun, returned;
		int64_t error;
	} of[THREADS];
};

fur::Options options()
{
	fur::Options o;
	o.heap_bytes = 8 << 20;
	o.log_bytes = 256 << 10;
	o.ring_slots = 2048;
	o.max_threads = 8;
	o.pm = FUR_PM_EMULATED;
	o.ack = FUR_ACK_REPLICATED;
	return o;
}

Root *root_of(fur_thread *self)
{
	return fur::read(self, [](fur_ro *tx) { return static_cast<Root *>(fur_root(tx, 0)); });
}

void make_heap(const std::string &path)
{
	fur::Heap heap = fur::Heap::create(path, options());
	fur::Thread self(heap);
	fur::update(self, [](fur_update *tx) {
		const std::vector<uint8_t> zero(sizeof(Root));
		void *root = fur_alloc(tx, sizeof(Root));
		fur_write(tx, root, zero.data(), zero.size());
		fur_set_root(tx, 0, root);
	});
}

void write_one(fur_thread *self, Root *root, unsigned t, uint64_t n)
{
	static const std::vector<uint8_t> data(300000, 7);
	fur::update(self, [&](fur_update *tx) {
		fur_store(tx, &root->of[t].newest, n);
		fur_store(tx, &root->of[t].cell[n % CELLS], n);
		fur_store(tx, &root->sum, fur_load(tx, &root->sum) + 1);
		/* Larger than the log: its bytes are shipped from the image. */
		if (t == 0 && n % 64 == 0) {
			fur_free(tx, fur_load(tx, &root->block));
			fur_store<void *>(tx, &root->block, nullptr);
		} else if (t == 0 && n % 64 == 32) {
			void *block = fur_alloc(tx, data.size());
			if (block)
				fur_write(tx, block, data.data(), data.size());
			fur_store(tx, &root->block, block);
		}
	});
}

/* Until the process is killed, or another heap has taken over. */
void work(const std::string &path, Told *told)
{
	fur::Heap heap = fur::Heap::open(path, options());
	std::vector<std::thread> threads;
	for (unsigned t = 0; t < THREADS; t++)
		threads.emplace_back([&, t] {
			fur::Thread self(heap);
			Root *root = root_of(self);
			uint64_t n = told->of[t].returned;
			try {
				for (;;) {
					__atomic_store_n(&told->of[t].begun, ++n, __ATOMIC_RELEASE);
					write_one(self, root, t, n);
					__atomic_store_n(
					        &told->of[t].returned, n, __ATOMIC_RELEASE);
				}
			} catch (const fur::Error &e) {
				told->of[t].error = e.code();
			}
		});
	for (auto &t : threads)
		t.join();
	pause();
}

struct Verdict {
	uint64_t lost = 0, twice = 0;
	/* Updates that had returned in the run; of those that had begun and not returned, how many
	 * are there, and how many are not */
	uint64_t returned = 0, there = 0, gone = 0;
	void add(const Verdict &v)
	{
		lost += v.lost;
		twice += v.twice;
		returned += v.returned;
		there += v.there;
		gone += v.gone;
	}
	void print(uint64_t runs) const
	{
		printf("%" PRIu64 " updates had returned; of those that had not, %" PRIu64
		       " were there, %" PRIu64 " were not\n",
		        returned, there, gone);
		printf("%" PRIu64 " runs, %" PRIu64 " lost, %" PRIu64 " twice\n", runs, lost,
		        twice);
		fflush(stdout);
	}
};

void look_at_thread(fur_ro *tx, const Root *root, unsigned t, const Told *told, Verdict *v)
{
	const auto &of = told->of[t];
	const uint64_t n = fur_load(tx, &root->of[t].newest);
	v->lost += of.returned > n ? of.returned - n : 0;
	v->twice += n > of.begun ? n - of.begun : 0;
	/* FUR_EFENCED says that the log has nothing of it. */
	v->twice += of.error == FUR_EFENCED && n > of.returned;
	v->returned += of.returned - of.from;
	v->there += of.begun > of.returned && n == of.begun;
	v->gone += of.begun > of.returned && n == of.returned;
	for (uint64_t k = n > CELLS ? n - CELLS + 1 : 1; k <= n; k++)
		v->lost += fur_load(tx, &root->of[t].cell[k % CELLS]) != k;
}

/* Is there what has returned?  *told is what the next run begins with. */
Verdict look(const std::string &path, Told *told)
{
	Verdict v;
	fur::Heap heap = fur::Heap::open(path, options());
	{
		fur::Thread self(heap);
		const Root *root = root_of(self);
		std::array<uint64_t, THREADS> newest{};
		uint64_t all = 0, sum = 0;
		fur::read(self, [&](fur_ro *tx) {
			for (unsigned t = 0; t < THREADS; t++) {
				look_at_thread(tx, root, t, told, &v);
				all += newest[t] = fur_load(tx, &root->of[t].newest);
			}
			sum = fur_load(tx, &root->sum);
		});
		v.lost += all > sum ? all - sum : 0;
		v.twice += sum > all ? sum - all : 0;
		for (unsigned t = 0; t < THREADS; t++)
			told->of[t] = {newest[t], newest[t], newest[t], 0};
	}
	heap.close();
	return v;
}

/* ------------------------------------------------------------------ processes */

[[noreturn]] __attribute__((format(printf, 1, 2))) void give_up(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fprintf(stderr, "failover: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	throw fur::Error(FUR_ESYS, "failover");
}

pid_t start(const std::function<void()> &run)
{
	const pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		give_up("fork failed");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	try {
		run();
	} catch (const std::exception &e) {
		fprintf(stderr, "failover: child: %s\n", e.what());
	}
	_exit(1);
}

/* A program whose output goes to a file. */
pid_t start(const std::vector<std::string> &command, const std::string &output)
{
	unlink(output.c_str()); /* what an earlier one said */
	return start([&] {
		const int fd = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
		dup2(fd, STDOUT_FILENO);
		dup2(fd, STDERR_FILENO);
		std::vector<char *> args;
		for (const std::string &word : command)
			args.push_back(const_cast<char *>(word.c_str()));
		args.push_back(nullptr);
		execv(args[0], args.data());
		fprintf(stderr, "cannot run %s\n", args[0]);
	});
}

std::string content_of(const std::string &path)
{
	std::ifstream file(path);
	return {std::istreambuf_iterator<char>(file), {}};
}

/* Its exit status; -1 if a signal has ended it; nothing if it runs. */
std::optional<int> status_of(pid_t pid, int flags = WNOHANG)
{
	int status;
	if (pid <= 0)
		give_up("no such process");
	if (waitpid(pid, &status, flags) != pid)
		return {};
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void end(pid_t *pid, int signal = SIGKILL)
{
	if (*pid <= 0)
		return;
	kill(*pid, signal);
	(void)status_of(*pid, 0);
	*pid = -1;
}

/* Until done(): a second passes at most PATIENCE_S times. */
template <class Done>
void await(const char *what, Done &&done)
{
	for (unsigned k = 0; !done(); k++) {
		if (k > PATIENCE_S * 1000u)
			give_up("%s takes too long", what);
		usleep(1000);
	}
}

/* --------------------------------------------------------------------- a run */

struct Settings {
	uint64_t runs = 10, seed = 1;
	std::string log, directory = "/dev/shm", programs;
	bool verbose = false;
};

class Cluster
{
public:
	Cluster(const Settings &s, uint64_t seed)
	    : settings_(s), random_{seed},
	      name_(s.directory + "/fur-failover-" + std::to_string(getpid())),
	      told_(static_cast<Told *>(mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE,
	              MAP_SHARED | MAP_ANONYMOUS, -1, 0)))
	{
		remove_files();
		log_ = s.log.empty() ? "file:" + name_ + "-log" : s.log + std::to_string(seed);
		make_heap(heap(0));
		must({program("src/fur_ship/fur-ship"), "--init", heap(0), "--log", log_});
		for (unsigned node = 1; node < NODES; node++)
			must({program("tools/fur-copy"), "--for-standby", heap(0), heap(node)});
		for (unsigned node = 1; node < NODES; node++)
			start_standby(node, false);
	}
	~Cluster()
	{
		end(&worker_);
		end(&ship_);
		for (pid_t &pid : standbys_)
			end(&pid);
		munmap(told_, sizeof(Told));
		remove_files();
	}
	Cluster(const Cluster &) = delete;

	Verdict run()
	{
		const bool by_silence = silent_;
		const unsigned old = primary_;
		start_ship();
		worker_ = start([&] { work(heap(primary_), told_); });
		let_work();
		kill_primary();
		primary_ = take_over(by_silence);
		if (by_silence)
			take_over_no_more(old);
		const Verdict v = look(heap(primary_), told_);
		silent_ = random_.one_in(8);
		start_standby(old, false); /* it rejoins */
		await("the old primary", [&] { return follows(old); });
		for (unsigned node = 0; node < NODES; node++)
			if (node != primary_)
				check_standby(node);
		for (unsigned node = 0; node < NODES; node++)
			if (node != primary_)
				start_standby(node, silent_);
		return v;
	}

private:
	std::string heap(unsigned node) const
	{
		return name_ + "-" + std::to_string(node);
	}
	std::string output(unsigned node) const
	{
		return heap(node) + "-says";
	}
	std::string program(const char *path) const
	{
		return settings_.programs + "/" + path;
	}
	void remove_files() const
	{
		for (unsigned node = 0; node < NODES; node++)
			for (const std::string &path : {heap(node), output(node),
			             heap(node) + ".lost", heap(node) + "-ship"})
				unlink(path.c_str());
		for (const char *end : {"-log", "-command"})
			unlink((name_ + end).c_str());
	}
	void must(const std::vector<std::string> &command) const
	{
		const std::string says = name_ + "-command";
		if (status_of(start(command, says), 0) != 0)
			give_up("%s: %s", command[0].c_str(), content_of(says).c_str());
	}
	void start_ship()
	{
		ship_ = start({program("src/fur_ship/fur-ship"), heap(primary_)},
		        heap(primary_) + "-ship");
	}
	void start_standby(unsigned node, bool takes_over)
	{
		std::vector<std::string> command = {
		        program("src/fur_standby/fur-standby"), heap(node)};
		if (takes_over)
			command.insert(command.end(), {"--takeover", std::to_string(TAKEOVER_MS),
			                                      "--rank", std::to_string(node)});
		standbys_[node] = start(command, output(node));
	}
	bool follows(unsigned node) const
	{
		if (const auto status = status_of(standbys_[node]))
			give_up("a standby has ended (%d): %s", *status,
			        content_of(output(node)).c_str());
		return content_of(output(node)).find("follows") != std::string::npos;
	}
	uint64_t returned() const
	{
		uint64_t sum = 0;
		for (const auto &of : told_->of)
			sum += __atomic_load_n(&of.returned, __ATOMIC_ACQUIRE);
		return sum;
	}
	/* Until some updates have returned, so that there is something to lose.  Meanwhile a
	 * standby dies, or fur-ship. */
	void let_work()
	{
		const uint64_t before = returned();
		if (random_.one_in(3)) {
			usleep(static_cast<unsigned>(random_.below(30000)));
			end(&ship_);
			start_ship();
		}
		if (!silent_ && random_.one_in(3)) {
			unsigned node = static_cast<unsigned>(random_.below(NODES));
			node = node == primary_ ? (node + 1) % NODES : node;
			end(&standbys_[node]);
			start_standby(node, false);
		}
		await("the first update",
		        [&] { return returned() > before + random_.below(100) || is_fenced(); });
		usleep(static_cast<unsigned>(random_.below(40000)));
	}
	/* A standby has found the primary silent, for the machine was slow. */
	bool is_fenced() const
	{
		return std::any_of(std::begin(told_->of), std::end(told_->of),
		        [](const auto &of) { return of.error != 0; });
	}
	/* In any order. */
	void kill_primary()
	{
		pid_t *first = &worker_, *second = &ship_;
		if (random_.one_in(2))
			std::swap(first, second);
		end(first);
		if (random_.one_in(2))
			usleep(static_cast<unsigned>(random_.below(5000)));
		end(second);
	}
	/* As often as a slow machine needs. */
	void promote(unsigned node) const
	{
		const std::string says = name_ + "-command";
		for (unsigned tries = 0; !is_primary(node); tries++) {
			const auto status = status_of(start({program("src/fur_standby/fur-standby"),
			                                            "--promote", heap(node)},
			                                      says),
			        0);
			if (status != 0 && tries == 3)
				give_up("%s%s", content_of(says).c_str(),
				        content_of(output(node)).c_str());
		}
	}
	/* Returns the new primary. */
	unsigned take_over(bool by_silence)
	{
		const unsigned chosen =
		        (primary_ + 1 + static_cast<unsigned>(random_.below(NODES - 1))) % NODES;
		unsigned promoted = NODES;
		if (!by_silence) {
			await("a standby", [&] { return follows(chosen); });
			promote(chosen);
		}
		await("the promotion", [&] {
			for (unsigned node = 0; node < NODES; node++)
				if (node != primary_)
					if (const auto status = status_of(standbys_[node])) {
						standbys_[node] = -1;
						if (*status != EXIT_PROMOTED)
							give_up("a standby has ended (%d): %s",
							        *status,
							        content_of(output(node)).c_str());
						promoted = node;
						return true;
					}
			return false;
		});
		return promoted;
	}
	/* The other standby: nothing ships for a while now, and it must not find that silent. */
	void take_over_no_more(unsigned old)
	{
		const unsigned node = 0 + 1 + 2 - old - primary_;
		end(&standbys_[node]);
		if (is_primary(node)) { /* it has: after the first one, which was too slow for it */
			start_standby(primary_, false);
			primary_ = node;
		} else {
			start_standby(node, false);
		}
	}
	bool is_primary(unsigned node) const
	{
		heap_file file;
		media_ship page;
		fur::check(heap_open_file(heap(node).c_str(), HEAP_LOCK_NONE, &file));
		const int error = heap_read_ship_page(&file.geometry, file.super, &page);
		heap_close_file(&file);
		fur::check(error);
		return page.role == MEDIA_PRIMARY;
	}
	/* It ends where it is.  Then it reads the log to its end. */
	void check_standby(unsigned node)
	{
		if (standbys_[node] > 0)
			kill(standbys_[node], SIGTERM);
		const auto status = status_of(standbys_[node], 0);
		standbys_[node] = -1;
		if (status != 0)
			give_up("a standby has ended (%d): %s", status.value_or(-1),
			        content_of(output(node)).c_str());
		follow(heap(node));
		uint64_t first;
		if (const uint64_t n = ship_test::differences(heap(primary_), heap(node), &first))
			give_up("%" PRIu64 " bytes of the heaps differ, the first at %" PRIu64, n,
			        first);
	}
	void follow(const std::string &path) const
	{
		fur::Heap standby = fur::Heap::open(path, options());
		stream_engine *engine;
		follower *f;
		fur::check(engine_open(log_.c_str(), ENGINE_READ, nullptr, &engine));
		fur::check(follow_begin(engine, standby.get(), &f));
		int n;
		while ((n = follow_step(f, 64)) > 0)
			continue;
		fur::check(n);
		fur::check(follow_end(f));
		engine->ops->close(engine);
		standby.close();
	}

	const Settings &settings_;
	tools::Random random_;
	std::string name_, log_;
	Told *told_;
	unsigned primary_ = 0;
	bool silent_ = false; /* a standby takes over when the primary is silent */
	pid_t worker_ = -1, ship_ = -1;
	std::array<pid_t, NODES> standbys_ = {-1, -1, -1};
};

Settings settings_of(int argc, char **argv)
{
	static const option options[] = {{"runs", required_argument, nullptr, 'r'},
	        {"seed", required_argument, nullptr, 's'}, {"log", required_argument, nullptr, 'l'},
	        {"directory", required_argument, nullptr, 'd'},
	        {"programs", required_argument, nullptr, 'p'},
	        {"verbose", no_argument, nullptr, 'v'}, {}};
	Settings s;
	const std::string self = argv[0];
	s.programs = self.substr(0, self.rfind('/') + 1) + "../..";
	for (int c; (c = getopt_long(argc, argv, "", options, nullptr)) != -1;) {
		if (c == 'r')
			s.runs = strtoull(optarg, nullptr, 10);
		else if (c == 's')
			s.seed = strtoull(optarg, nullptr, 10);
		else if (c == 'l')
			s.log = optarg;
		else if (c == 'd')
			s.directory = optarg;
		else if (c == 'p')
			s.programs = optarg;
		else if (c == 'v')
			s.verbose = true;
		else
			exit(2);
	}
	return s;
}

Verdict run_all(const Settings &s)
{
	Verdict all;
	std::optional<Cluster> cluster;
	for (uint64_t run = 0; run < s.runs; run++) {
		if (run % RUNS_OF_A_LOG == 0) {
			cluster.reset();
			cluster.emplace(s, s.seed + run);
		}
		const Verdict v = cluster->run();
		if (s.verbose || v.lost || v.twice)
			v.print(1);
		all.add(v);
	}
	return all;
}

} // namespace

int main(int argc, char **argv)
{
	const Settings s = settings_of(argc, argv);
	try {
		const Verdict v = run_all(s);
		v.print(s.runs);
		return v.lost || v.twice;
	} catch (const std::exception &e) {
		fprintf(stderr, "failover: %s\n", e.what());
		return 3;
	}
}
