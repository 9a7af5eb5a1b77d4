/* SPDX-License-Identifier: BSD-3-Clause
 *
 * main_job.cpp - the quickstart's job: run transactions on a heap, kill the process, recover the
 * heap, and check that every acknowledged update is present.
 *
 *     quickstart-job --replayer PATH [--heap PATH] [--seconds 4]
 */
#include "../../tools/common/command_line.hpp"
#include "workload.hpp"

#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <iostream>
#include <random>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace
{

enum { WORKERS = 2, UPDATE_PERCENT = 20, SEED = 1 };

using Clock = std::chrono::steady_clock;
double since(Clock::time_point t)
{
	return std::chrono::duration<double>(Clock::now() - t).count();
}

/* The messages of the child before it dies. */
struct Told {
	crash::Shared work;
	fur_stats stats;
	double ro_share; /* of the unsynchronised speed, from before the work */
	std::atomic<bool> ready;
};

/* Lookups a second on the tree, one thread, run as `one` says. */
template <class One>
double lookups(One &&one)
{
	std::mt19937_64 random(1);
	uint64_t n = 0, found = 0;
	auto started = Clock::now();
	while (since(started) < 0.2)
		for (int k = 0; k < 1000; k++, n++)
			found += one(static_cast<int64_t>(
			        random() % (crash::THREADS * crash::KEYS_PER_THREAD)));
	__asm__ volatile("" ::"r"(found)); /* so that the lookups are not optimised away */
	return static_cast<double>(n) / since(started);
}

/* RO transactions against the same loads with nothing around them; in turns, the better of each. */
double measure_ro_share(fur_heap *heap)
{
	fur::Thread self(heap);
	auto *data = static_cast<crash::Data *>(root_at_rest(heap, 0));
	double with = 0, without = 0;
	for (int round = 0; round < 3; round++) {
		without = std::max(without, lookups([&](int64_t key) {
			return rbtree::contains(static_cast<fur_ro *>(nullptr), &data->tree, key);
		}));
		with = std::max(with, lookups([&](int64_t key) {
			return fur::read(self,
			        [&](fur_ro *tx) { return rbtree::contains(tx, &data->tree, key); });
		}));
	}
	return with / without;
}

fur::Options options()
{
	fur::Options o;
	o.pm = FUR_PM_EMULATED;
	o.heap_bytes = 32 << 20;
	o.max_threads = 8;
	return o;
}

void fill(fur_thread *self, crash::Data *data, crash::Shared *shared)
{
	/* Through ordinary updates, so that the check knows them. */
	for (unsigned t = 0; t < crash::THREADS; t++) {
		for (uint64_t k = 1; k <= 4000; k++)
			crash::update_once(self, data, SEED, t, k);
		shared->thread[t].intended = shared->thread[t].acknowledged = 4000;
	}
}

[[noreturn]] void child(const std::string &path, Told *told)
{
	try {
		fur::Heap heap = fur::Heap::open(path, options());
		told->ro_share = measure_ro_share(heap);
		told->ready = true;
		std::atomic<bool> never{false};
		std::vector<std::thread> threads;
		for (unsigned t = 0; t < WORKERS; t++)
			threads.emplace_back([&, t] {
				crash::work(heap, &told->work, SEED, t, WORKERS, UPDATE_PERCENT,
				        false, never);
			});
		for (;;) {
			told->stats = heap.stats();
			usleep(20000);
		}
	} catch (const std::exception &e) {
		std::cerr << "quickstart-job: the working process: " << e.what() << "\n";
	}
	_exit(1);
}

uint64_t total(const Told *told, bool updates)
{
	uint64_t n = 0;
	for (unsigned t = 0; t < WORKERS; t++)
		n += updates ? told->work.thread[t].acknowledged - 4000
		             : told->work.thread[t].reads.load();
	return n;
}

/* Let it work, with a line of progress; then SIGKILL.  How long it worked. */
double work_and_kill(pid_t pid, const Told *told, double seconds)
{
	while (!told->ready) {
		usleep(10000);
		if (waitpid(pid, nullptr, WNOHANG) == pid)
			throw std::runtime_error("the working process ended before it was killed");
	}
	auto started = Clock::now();
	while (since(started) < seconds) {
		usleep(200000);
		if (!isatty(1))
			continue;
		printf("\r  working: %.1f of %.0f s, %.1f M transactions ", since(started), seconds,
		        static_cast<double>(total(told, true) + total(told, false)) / 1e6);
		fflush(stdout);
	}
	double worked = since(started);
	kill(pid, SIGKILL);
	waitpid(pid, nullptr, 0);
	if (isatty(1))
		printf("\r%60s\r", "");
	return worked;
}

std::string printable(const char *format, ...) __attribute__((format(printf, 1, 2)));
std::string printable(const char *format, ...)
{
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	return text;
}

/* The report of fur_get_info on the machine: taken while the heap is open, printed at the end. */
struct Machine {
	std::string back_end, persistence;
	explicit Machine(fur_heap *heap)
	{
		fur_info i{};
		i.size = sizeof i;
		fur::check(fur_get_info(heap, &i));
		back_end = printable("%s: %s", fur_name(FUR_NAME_HTM, i.htm), i.htm_reason);
		persistence = printable("%s: %s", fur_name(FUR_NAME_PM, i.pm), i.pm_reason);
	}
};

std::string aborts_of(const fur_stats &s)
{
	std::string text;
	for (int c = 0; c < FUR_ABORT_CAUSES; c++)
		if (s.aborts[c])
			text += printable("%s%s %llu", text.empty() ? "" : ", ",
			        fur_name(FUR_NAME_ABORT, static_cast<fur_abort_cause>(c)),
			        static_cast<unsigned long long>(s.aborts[c]));
	return text.empty() ? "none" : text;
}

void print_work(const Told *told, double seconds)
{
	const fur_stats &s = told->stats;
	printf("  lookup speed     %6.0f %%     of the same lookup without a transaction\n",
	        told->ro_share * 100);
	printf("  shut readers out %6.1f %%     of updates, while they stored; hardware "
	       "transactions do not\n",
	        100.0 * static_cast<double>(s.lock_commits) /
	                static_cast<double>(s.update_commits ? s.update_commits : 1));
	printf("  hardware aborts  %s\n", aborts_of(s).c_str());
	printf("  reads            %6.2f M/s   plain loads, outside hardware transactions\n",
	        static_cast<double>(total(told, false)) / seconds / 1e6);
	printf("  durable updates  %6.2f M/s   each durable before it returned\n",
	        static_cast<double>(total(told, true)) / seconds / 1e6);
}

/* Run the program that recovers the heap; the milliseconds it took from start to end. */
double replay(const std::string &replayer, const std::string &path)
{
	auto started = Clock::now();
	pid_t pid = fork();
	if (pid == 0) {
		execl(replayer.c_str(), "fur-replayer", "--once", "--heap", path.c_str(), nullptr);
		_exit(127);
	}
	int status;
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		throw std::runtime_error("fork or waitpid failed");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		throw std::runtime_error(replayer + " failed: see above");
	return since(started) * 1e3;
}

int run(const std::string &path, const std::string &replayer, double seconds)
{
	auto *told = new (mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE,
	        MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Told{};
	crash::Expected expected(SEED);
	unlink(path.c_str());
	{
		fur::Heap heap = fur::Heap::create(path, options());
		fur::Thread self(heap);
		fill(self, crash::set_up(self), &told->work);
	}
	printf("%d threads work on %s: %d %% of their transactions update a bank, a search tree "
	       "and memory blocks\n",
	        WORKERS, path.c_str(), UPDATE_PERCENT);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		child(path, told);
	double worked = work_and_kill(pid, told, seconds);
	printf("killed with SIGKILL while they worked; fur-replayer reports:\n  ");
	fflush(stdout);
	double took = replay(replayer, path);

	fur::Heap heap = fur::Heap::open(path, options());
	Machine machine(heap);
	std::string wrong = expected.check(heap, &told->work);
	heap.close();
	unlink(path.c_str());
	printf("\n  back end         %s\n  persistence      %s\n", machine.back_end.c_str(),
	        machine.persistence.c_str());
	print_work(told, worked);
	if (!wrong.empty()) {
		printf("  recovery         WRONG: %s\n", wrong.c_str());
		return 1;
	}
	printf("  recovery         OK in %.1f ms: all %llu acknowledged updates are present; "
	       "balances, tree and memory are correct\n",
	        took, static_cast<unsigned long long>(expected.updates()));
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	std::string replayer, heap = "/dev/shm/fur-quickstart";
	double seconds = 4;
	tools::CommandLine line("quickstart-job",
	        "Run transactions on a heap, kill the process, recover the heap, and check that "
	        "every acknowledged update is present.");
	line.option("--replayer", replayer, "the fur-replayer program").required();
	line.option("--heap", heap, "the heap file; an existing one is replaced");
	line.option("--seconds", seconds, "how long the threads work").range(0.01L, 3600);
	if (auto status = tools::parse_or_exit_status(line, "quickstart-job", argc, argv))
		return *status;
	try {
		return run(heap, replayer, seconds);
	} catch (const std::exception &e) {
		std::cerr << "quickstart-job: " << e.what() << "\n";
		return 1;
	}
}
