/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inject_case.cpp - inject_case.hpp, done: the programs, the checks of their errors, the verdict.
 */
#include "inject_case.hpp"

#include <csignal>
#include <cstdarg>
#include <dirent.h>
#include <fcntl.h>
#include <functional>
#include <random>
#include <regex>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern "C" {
#include "base/error.h"
int fur_replayer_main(int argc, char **argv);
}

namespace
{

constexpr unsigned PARTS = crash::EVERYTHING | crash::LARGE;

/* ---------------------------------------------------------------- findings */

Case *current;

void found(const char *format, ...) __attribute__((format(printf, 1, 2)));
void found(const char *format, ...)
{
	unsigned n = current->findings++;
	if (n >= std::size(current->finding))
		return;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(current->finding[n], sizeof current->finding[n], format, arguments);
	va_end(arguments);
}

/* A remedy is a clause that begins with one of these verbs. */
bool has_remedy(const std::string &message)
{
	static const std::regex remedy(
	        "[:;,] (or |then |first "
	        ")?(check|choose|close|continue|create|end|free|kill|make|mend|mount|open|"
	        "raise|remove|restore|retry|run|see|set|stop|try|unregister|use|wait)\\b");
	return std::regex_search(message, remedy);
}

constexpr const char *STALE = "the message of an earlier failure";

/* Before a call: so that a failure without a message of its own is seen. */
void forget_message()
{
	(void)fur_fail(FUR_EINVAL, "%s", STALE);
}

/* INV-T4 */
void expect_helpful(const char *call, int error, const std::string &message)
{
	static const std::set<int> fit{FUR_ESYS, FUR_EIO, FUR_ENOMEM, FUR_ENOSPC};
	const bool busy = current->faults.plan.mode == faults::BUSY && error == FUR_EBUSY;
	if (current->faults.failed == 0)
		found("%s failed with no fault: %s", call, message.c_str());
	if (!fit.contains(error) && !busy)
		found("%s: the code %d, %s, does not fit: %s", call, error, fur_strerror(error),
		        message.c_str());
	if (message.empty() || message.find(STALE) != message.npos)
		found("%s: no message with the code %d, %s", call, error, fur_strerror(error));
	else if (current->remedies && !has_remedy(message))
		found("%s: no remedy: %s", call, message.c_str());
}

/* The resources of a process that only an open heap needs. */
struct Balance {
	faults::Holdings library;
	long descriptors;
	bool operator==(const Balance &) const = default;
};
Balance balance()
{
	Balance b{faults::holdings(), 0};
	DIR *d = opendir("/proc/self/fd");
	while (d && readdir(d))
		b.descriptors++;
	closedir(d);
	return b;
}
void expect_balance(const char *after, const Balance &before)
{
	Balance is = balance();
	if (!(is == before))
		found("%s keeps %ld blocks, %ld mappings, %ld descriptors", after,
		        is.library.blocks - before.library.blocks,
		        is.library.mappings - before.library.mappings,
		        is.descriptors - before.descriptors);
}

/* ---------------------------------------------------------- the program's part */

fur::Options options()
{
	fur::Options o;
	o.heap_bytes = 1 << 20;
	o.log_bytes = 16384;
	o.ring_slots = 64;
	o.max_threads = 8;
	o.pm = current->domain;
	o.dram_bytes = 128 << 10;
	return o;
}

enum class How { CREATE, OPEN };

/* Null: it has failed, as it should where there is a fault. */
fur_heap *begin(How how)
{
	const fur::Options o = options();
	const char *call = how == How::CREATE ? "fur_create" : "fur_open";
	const Balance before = balance();
	fur_heap *heap;
	forget_message();
	int error = how == How::CREATE ? fur_create(current->path, &o, &heap)
	                               : fur_open(current->path, &o, &heap);
	if (error == 0) {
		current->created = true;
		return heap;
	}
	expect_helpful(call, error, fur_errormsg());
	if (!strstr(fur_errormsg(), current->path))
		found("%s: the message does not name the file: %s", call, fur_errormsg());
	if (heap)
		found("%s has failed and returned a heap", call);
	expect_balance(call, before);
	return nullptr;
}

/* A fault that comes once must not keep the next try from working. */
fur_heap *begin_if_possible(How how)
{
	fur_heap *heap = begin(how);
	if (heap || current->faults.plan.mode != faults::ONCE)
		return heap;
	const bool exists = access(current->path, F_OK) == 0;
	if (how == How::OPEN && !exists)
		return nullptr;
	if (!(heap = begin(how == How::CREATE && exists ? How::OPEN : how)) && !current->findings)
		found("it fails again, with one fault: %s", fur_errormsg());
	return heap;
}

/* Update k of thread t, and a read.  False: one of them has failed. */
bool work_once(fur_thread *self, crash::Data *data, unsigned t)
{
	crash::Acknowledged &mine = current->work.thread[t];
	const uint64_t k = static_cast<uint64_t>(data->counter[t].value) + 1;
	const unsigned other = (t + static_cast<unsigned>(k)) % crash::THREADS;
	const char *call = "an update";
	forget_message();
	mine.intended = k;
	try {
		crash::update_once(self, data, 1, t, k, PARTS);
		mine.acknowledged = k;
		call = "a read";
		mine.seen[other] = static_cast<uint64_t>(fur::read(self,
		        [&](fur_ro *tx) { return fur_load(tx, &data->counter[other].value); }));
		return true;
	} catch (const fur::Error &e) {
		expect_helpful(call, e.code(), e.what());
		if (current->ignore_error)
			mine.acknowledged = k;
		return false;
	}
}

/* A thread works; also on a heap that has failed, which must go on saying so. */
void work(fur_heap *heap, unsigned t, unsigned updates)
{
	enum { FAILURES_ENOUGH = 3 };
	fur_thread *self;
	forget_message();
	if (int error = fur_thread_register(heap, nullptr, &self); error) {
		expect_helpful("fur_thread_register", error, fur_errormsg());
		return;
	}
	auto *data = static_cast<crash::Data *>(root_at_rest(heap, 0));
	for (unsigned failures = 0; updates-- && failures < FAILURES_ENOUGH;)
		failures += !work_once(self, data, t);
	if (fur_thread_unregister(self))
		found("fur_thread_unregister: %s", fur_errormsg());
}

/* Threads one after the other, so that each run makes the same calls; at last two at once. */
void work_on_threads(fur_heap *heap, unsigned updates)
{
	if (!current->set_up)
		return;
	work(heap, 0, updates);
	std::thread([&] { work(heap, 1, updates); }).join();
	std::thread a([&] { work(heap, 2, updates / 2); }), b([&] { work(heap, 3, updates / 2); });
	a.join();
	b.join();
}

void set_up(fur_heap *heap)
{
	fur_thread *self;
	forget_message();
	if (int error = fur_thread_register(heap, nullptr, &self); error) {
		expect_helpful("fur_thread_register", error, fur_errormsg());
		return;
	}
	try {
		crash::set_up_in_pieces(self);
		current->set_up = true;
	} catch (const fur::Error &e) {
		expect_helpful("an update", e.code(), e.what());
	}
}

void close_heap(fur_heap *heap, const Balance &before)
{
	forget_message();
	if (int error = fur_close(heap); error)
		expect_helpful("fur_close", error, fur_errormsg());
	expect_balance("fur_close", before);
}

/* A child of fork() gives its copy back; the heap is its parent's. */
void close_in_child(fur_heap *heap)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		if (fur_close(heap))
			found("fur_close in a child: %s", fur_errormsg());
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status) &&
	        (WTERMSIG(status) != SIGKILL || current->faults.plan.mode != faults::KILL))
		found("fur_close in a child dies of signal %d", WTERMSIG(status));
}

/* ------------------------------------------------------------------- stages */

/* A process that does the work of a program, or of fur-replayer, with faults injected. */
pid_t start(const std::function<void()> &body, faults::Role role = faults::PROGRAM)
{
	pid_t pid = fork();
	if (pid < 0)
		throw std::runtime_error("cannot fork");
	if (pid > 0)
		return pid;
	try {
		/* The library keeps the block of a thread's messages until the thread ends */
		forget_message();
		faults::arm(&current->faults, role);
		body();
		faults::arm(nullptr, role);
	} catch (const std::exception &e) {
		found("an exception: %s", e.what());
	}
	_exit(0);
}

/* A signal that the test did not send? */
bool crashed(int status, int sent)
{
	if (!WIFSIGNALED(status) || WTERMSIG(status) == sent)
		return false;
	return WTERMSIG(status) != SIGKILL || current->faults.plan.mode != faults::KILL;
}

void expect_end(pid_t pid, const char *stage, int sent = 0)
{
	int status;
	waitpid(pid, &status, 0);
	if (crashed(status, sent))
		found("%s dies of signal %d", stage, WTERMSIG(status));
}

void run_stage(const char *stage, const std::function<void()> &body)
{
	expect_end(start(body), stage);
}

void create_work_close()
{
	run_stage("a program that creates a heap", [] {
		const Balance before = balance();
		if (fur_heap *heap = begin_if_possible(How::CREATE)) {
			set_up(heap);
			work_on_threads(heap, 8);
			close_heap(heap, before);
		}
	});
}

pid_t start_work_and_die()
{
	return start([] {
		if (fur_heap *heap = begin_if_possible(How::OPEN)) {
			work_on_threads(heap, 10);
			close_in_child(heap);
		}
		kill(getpid(), SIGKILL);
	});
}

void work_and_die()
{
	expect_end(start_work_and_die(), "a program that works", SIGKILL);
}

/* fur-replayer's recovery, with several threads however little there is to replay. */
int recover(heap_file *file)
{
	durability d;
	fur::Options o;
	char reason[160];
	replay_result result;
	bool recovered;
	int error = heap_attach(&d, file, &o, reason, sizeof reason);
	if (error)
		return error;
	d.replay_options = replay_soon(3, REPLAY_PRELOAD_AUTO);
	if (!(error = control_take(&d))) {
		if (!(error = replay_unless_closed(&d, &result, &recovered)))
			error = durability_set_state(&d, MEDIA_CLOSED);
		control_give_back(&d);
	}
	durability_detach(&d);
	return error;
}

void recover_with_threads()
{
	run_stage("a recovery with several threads", [] {
		const Balance before = balance();
		heap_file file;
		forget_message();
		int error = heap_open_file(current->path, HEAP_LOCK_WORKER, &file);
		if (!error) {
			error = recover(&file);
			heap_close_file(&file);
		}
		if (error)
			expect_helpful("recovery", error, fur_errormsg());
		expect_balance("recovery", before);
	});
}

/* The program itself, in a process of ours; its output goes to `text`. */
struct Replayer {
	pid_t pid;
	int text;
};
Replayer start_replayer(const char *option, faults::Role role)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC))
		throw std::runtime_error("cannot make a pipe");
	pid_t pid = start(
	        [&] {
		        const char *argv[] = {"fur-replayer", "--quiet", "--heap", current->path,
		                option, nullptr};
		        dup2(ends[1], STDERR_FILENO);
		        _exit(fur_replayer_main(option ? 5 : 4, const_cast<char **>(argv)));
	        },
	        role);
	close(ends[1]);
	return {pid, ends[0]};
}

void expect_end(const Replayer &replayer, const char *stage, int sent = 0)
{
	char text[1024] = "";
	int status;
	waitpid(replayer.pid, &status, 0);
	ssize_t n = read(replayer.text, text, sizeof text - 1);
	text[n > 0 ? n : 0] = '\0';
	close(replayer.text);
	if (WIFSIGNALED(status)) {
		if (crashed(status, sent))
			found("%s dies of signal %d", stage, WTERMSIG(status));
	} else if (WEXITSTATUS(status) && current->faults.failed == 0)
		found("%s failed with no fault: %s", stage, text);
	else if (WEXITSTATUS(status) && (!*text || strstr(text, ": \n")))
		found("%s: no message with exit status %d", stage, WEXITSTATUS(status));
	else if (WEXITSTATUS(status) && current->remedies && !has_remedy(text))
		found("%s: no remedy: %s", stage, text);
}

void replay_once()
{
	expect_end(start_replayer("--once", faults::PROGRAM), "fur-replayer --once");
}

bool ended(pid_t pid)
{
	siginfo_t info{};
	return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == pid;
}

/* Wait until there(file), or until the process has ended.  False: neither happens in ten seconds,
 * time enough for a hundred recoveries. */
bool wait_for(pid_t pid, const std::function<bool(const heap_file &)> &there)
{
	enum { PATIENCE_NS = 1000000000 };
	const uint64_t until = arch_now_ns() + 10 * uint64_t{PATIENCE_NS};
	heap_file file;
	if (heap_open_file(current->path, HEAP_LOCK_NONE, &file))
		return true;
	bool yes;
	while (!(yes = ended(pid) || there(file)) && arch_now_ns() < until)
		usleep(200);
	heap_close_file(&file);
	return yes;
}

/* Two programs work and die, the second right after the first, while fur-replayer serves the heap;
 * then fur-replayer brings the heap up to date. */
void serve()
{
	const auto closed = [](const heap_file &f) {
		return __atomic_load_n(&f.super->state, __ATOMIC_ACQUIRE) == MEDIA_CLOSED;
	};
	Replayer replayer = start_replayer(nullptr, faults::SERVER);
	wait_for(replayer.pid,
	        [](const heap_file &f) { return heap_lock_held(f.fd, HEAP_LOCK_REPLAYER) == 1; });
	work_and_die();
	work_and_die();
	if (!wait_for(replayer.pid, closed))
		found("fur-replayer sleeps, though the programs are dead, and the heap is not "
		      "closed");
	/* Its handler for SIGTERM may not be there yet; then it just dies. */
	if (!ended(replayer.pid))
		kill(replayer.pid, SIGTERM);
	expect_end(replayer, "fur-replayer", SIGTERM);
}

void recover_and_close()
{
	run_stage("a program that recovers a heap", [] {
		const Balance before = balance();
		if (fur_heap *heap = begin_if_possible(How::OPEN)) {
			work_on_threads(heap, 4);
			close_heap(heap, before);
		}
	});
}

void run_scenario()
{
	create_work_close();
	if (access(current->path, F_OK))
		return; /* fur_create has failed */
	work_and_die();
	recover_with_threads();
	work_and_die();
	replay_once();
	serve();
	work_and_die();
	recover_and_close();
}

/* ------------------------------------------------------------------ verdict */

/* INV-T5, of the file at `path`. */
void check_heap(const char *path)
{
	try {
		fur::Heap heap = fur::Heap::open(path, options());
		alloc_census census;
		std::string wrong;
		if (alloc_check(heap_base(heap), &census))
			wrong = fur_errormsg();
		if (current->set_up && wrong.empty())
			wrong = crash::Expected(1, PARTS).check(heap, &current->work);
		heap.close();
		if (!wrong.empty())
			found("%s", wrong.c_str());
		else if (fur::Heap::open(path, options()).info().recovered)
			found("the heap had been closed, and is taken for one that had not");
	} catch (const std::exception &e) {
		found("afterwards: %s", e.what());
	}
}

/* TORN: the kernel has written some of the pages that the last fdatasync did not. */
void write_some_pages(const char *from, const char *to, uint64_t seed)
{
	char page[4096];
	int source = ::open(from, O_RDONLY | O_CLOEXEC), target = ::open(to, O_RDWR | O_CLOEXEC);
	std::mt19937_64 random(seed);
	for (off_t at = 0; pread(source, page, sizeof page, at) == sizeof page;
	        at += static_cast<off_t>(sizeof page))
		if (random() % 2 && pwrite(target, page, sizeof page, at) != sizeof page)
			found("the test cannot write %s", to);
	close(source);
	close(target);
}

void check_afterwards()
{
	const faults::State &f = current->faults;
	/* Where call n never came there is no failure, and the image is old. */
	const bool power =
	        f.failed > 0 && (f.plan.mode == faults::POWER || f.plan.mode == faults::TORN);
	if (access(current->path, F_OK)) {
		if (current->created)
			found("the heap file is gone");
		return;
	}
	if (power && f.plan.mode == faults::TORN)
		write_some_pages(current->path, f.image, f.plan.n);
	check_heap(power ? f.image : current->path);
}

} // namespace

void run_case(Case *c)
{
	current = c;
	setpgid(0, 0);
	try {
		run_scenario();
		pid_t verdict = fork();
		if (verdict == 0) {
			check_afterwards();
			_exit(0);
		}
		expect_end(verdict, "an open with no fault");
	} catch (const std::exception &e) {
		found("the test: %s", e.what());
	}
	_exit(0);
}
