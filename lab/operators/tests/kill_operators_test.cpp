/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kill_operators_test.cpp - bulk updates by an operator, next to short updates, while the program,
 * fur-operators, or both are killed at any instant, with a fur-replayer alongside or without.
 * Every other bulk update is one of EACH.  One of WHOLE must be there as a whole or not at all, one
 * of EACH in the first records, and each that was acknowledged must be there.
 *
 *     kill-operators FUR_OPERATORS FUR_REPLAYER OPERATORS.so [KILLS [SEED]]
 */
#include "../../../tools/common/random.hpp"
#include "internals.hpp"
#include "lab_bulk.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fur.hpp>
#include <fur_bulk.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace
{

using tools::Random;

constexpr uint64_t RECORDS = 6000, WORDS = 8, BYTES = WORDS * 8, CHANGE = 1 << 20,
                   NOBODY = UINT64_MAX;

/* Written by the program, read by the parent after its death. */
struct Shared {
	std::atomic<uint64_t> bulk_begun, bulk_done; /* numbers of bulk updates */
	std::atomic<uint64_t> by_operator, in_part, by_program;
	std::atomic<uint64_t> short_begun, short_done;
	std::atomic<uint64_t> dies_at; /* the record at which the operator aborts its process */
	char error[512];
};

[[noreturn]] void fail(const std::string &what)
{
	throw std::runtime_error(what);
}

/* ------------------------------------------------------------ the program */

bool add_words(void *copy, size_t bytes, uint64_t, void *arg)
{
	auto *word = static_cast<uint64_t *>(copy);
	for (size_t k = 0; k < bytes / 8; k++)
		word[k] += *static_cast<uint64_t *>(arg);
	return true;
}

/* Of the bulk update with this number, from 0. */
fur_bulk_atomic kind_of(uint64_t number)
{
	return number % 2 ? FUR_BULK_EACH : FUR_BULK_WHOLE;
}

void run_bulk(fur_thread *self, uint64_t *records, Shared &shared)
{
	uint64_t arg[2] = {CHANGE, shared.dies_at};
	const fur_extent all = {records, BYTES, RECORDS};
	fur_bulk_result result{};
	fur_bulk job;
	fur_bulk_init(&job);
	result.size = sizeof result;
	job.map = add_words;
	job.arg = arg;
	job.bytes = BYTES;
	job.extents = &all;
	job.n = 1;
	const lab_operator_call call = {"add_words", arg, sizeof arg};
	uint64_t by_operator;
	job.atomic = kind_of(shared.bulk_begun++);
	int error = lab_bulk_run(self, &job, &call, &result, &by_operator);
	if (error == FUR_ENOENT) /* no fur-operators at this moment */
		error = lab_bulk_run(self, &job, nullptr, &result, &by_operator);
	if (error)
		fail(fur_errormsg());
	shared.bulk_done++;
	(by_operator == RECORDS ? shared.by_operator
	        : by_operator   ? shared.in_part
	                        : shared.by_program)++;
}

void run_short(fur_heap *heap, uint64_t *records, Shared &shared, uint64_t seed)
{
	fur::Thread self(heap);
	for (Random random{seed};;) {
		uint64_t *word = records + random.below(RECORDS) * WORDS;
		shared.short_begun++;
		fur::update(self, fur::rerun, [&](fur_update *tx) {
			for (uint64_t k = 0; k < WORDS; k++)
				fur_store(tx, &word[k], fur_load(tx, &word[k]) + 1);
		});
		shared.short_done++;
	}
}

fur::Options options()
{
	fur::Options o;
	o.heap_bytes = 8 << 20;
	o.log_bytes = 1 << 16;
	o.ring_slots = 256;
	o.max_threads = 4;
	o.pm = FUR_PM_EMULATED;
	return o;
}

/* Until it is killed. */
void work(const std::string &path, Shared &shared, uint64_t seed)
{
	try {
		fur::Heap heap = fur::Heap::open(path, options());
		fur::Thread self(heap);
		auto *records = static_cast<uint64_t *>(root_at_rest(heap.get(), 0));
		std::thread([&] { run_short(heap.get(), records, shared, seed); }).detach();
		for (;;)
			run_bulk(self, records, shared);
	} catch (const std::exception &e) {
		snprintf(shared.error, sizeof shared.error, "%s", e.what());
	}
	_exit(1);
}

void make(const std::string &path)
{
	unlink(path.c_str());
	fur::Heap heap = fur::Heap::create(path, options());
	fur::Thread self(heap);
	fur::update(self, [](fur_update *tx) {
		const std::string zero(BYTES * RECORDS, '\0');
		void *records = fur_alloc(tx, zero.size());
		fur_write(tx, records, zero.data(), zero.size() / 2);
		fur_write(tx, static_cast<char *>(records) + zero.size() / 2, zero.data(),
		        zero.size() / 2);
		fur_set_root(tx, 0, records);
	});
}

/* What recovery has made of the heap. */
void check(const std::string &path, const Shared &shared)
{
	fur::Heap heap = fur::Heap::open(path, options());
	fur::Thread self(heap);
	const auto *word = static_cast<const uint64_t *>(root_at_rest(heap.get(), 0));
	const uint64_t most = word[0] / CHANGE;
	uint64_t added = 0, changes = most;
	for (uint64_t k = 0; k < RECORDS; k++, word += WORDS) {
		for (uint64_t n = 1; n < WORDS; n++)
			if (word[n] != word[0])
				fail("record " + std::to_string(k) + " is torn");
		if (word[0] / CHANGE == most - 1 && kind_of(most - 1) == FUR_BULK_EACH)
			changes = most - 1; /* from here on */
		if (word[0] / CHANGE != changes)
			fail("record " + std::to_string(k) + " has " +
			        std::to_string(word[0] / CHANGE) + " bulk updates, the first one " +
			        std::to_string(changes));
		added += word[0] % CHANGE;
	}
	if (changes < shared.bulk_done || most > shared.bulk_begun)
		fail("there are " + std::to_string(changes) + " bulk updates, and " +
		        std::to_string(shared.bulk_done) + " were acknowledged of " +
		        std::to_string(shared.bulk_begun));
	if (added < shared.short_done || added > shared.short_begun)
		fail("there are " + std::to_string(added) + " short updates, and " +
		        std::to_string(shared.short_done) + " were acknowledged");
	alloc_census census;
	if (alloc_check(heap_base(heap.get()), &census))
		fail(fur_errormsg());
	if (census.blocks != 1)
		fail(std::to_string(census.blocks) + " blocks instead of one");
}

/* After a death the counts of what had begun are those of what is there.  One of EACH that has
 * changed some records is brought to its end. */
void settle(const std::string &path, Shared &shared)
{
	fur::Heap heap = fur::Heap::open(path, options());
	fur::Thread self(heap);
	auto *word = static_cast<uint64_t *>(root_at_rest(heap.get(), 0));
	uint64_t added = 0;
	for (uint64_t k = 0; k < RECORDS; k++) {
		uint64_t *record = word + k * WORDS;
		added += *record % CHANGE;
		if (*record / CHANGE == word[0] / CHANGE)
			continue;
		fur::update(self, [&](fur_update *tx) {
			for (uint64_t n = 0; n < WORDS; n++)
				fur_store(tx, &record[n], fur_load(tx, &record[n]) + CHANGE);
		});
	}
	shared.bulk_begun = shared.bulk_done = word[0] / CHANGE;
	shared.short_begun = shared.short_done = added;
}

/* ------------------------------------------------------------ the parent */

class Test
{
public:
	Test(const char *mapper, const char *replayer, const char *operators, uint64_t seed)
	    : mapper_(mapper), replayer_(replayer), operators_(operators), random_{seed},
	      path_("/dev/shm/fur-kill-operators-" + std::to_string(getpid())),
	      shared_(*new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
	              MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared)
	{
		shared_.dies_at = NOBODY;
		make(path_);
		start_mapper();
		start_program();
	}
	~Test()
	{
		end(program_);
		end(daemon_);
		end(beside_);
		unlink(path_.c_str());
	}
	Test(const Test &) = delete;

	/* Let them work, then let one of them die, or both. */
	void one_kill()
	{
		enum Who { PROGRAM, MAPPER, BOTH, OPERATOR, STOPPED, KINDS };
		const auto who = static_cast<Who>(random_.below(KINDS));
		usleep(static_cast<unsigned>(random_.below(40000)));
		switch (who) {
		case PROGRAM:
			end(program_);
			restart_program();
			break;
		case MAPPER:
			end(daemon_);
			goes_on("fur-operators was killed");
			change_replayer();
			start_mapper();
			break;
		case BOTH:
			kill(random_.below(2) ? program_ : daemon_, SIGKILL);
			end(program_);
			end(daemon_);
			start_mapper();
			restart_program();
			break;
		case OPERATOR:
			shared_.dies_at = random_.below(RECORDS);
			await(std::exchange(daemon_, 0));
			shared_.dies_at = NOBODY;
			goes_on("the operator aborted fur-operators");
			start_mapper();
			break;
		case STOPPED: /* in the middle of an errand: it goes on with a dead program's */
			kill(daemon_, SIGSTOP);
			end(program_);
			kill(daemon_, SIGCONT);
			restart_program();
			break;
		default: break;
		}
	}
	/* The program, which lives, works on. */
	void goes_on(const char *after)
	{
		const uint64_t before = shared_.bulk_done;
		for (int k = 0; shared_.bulk_done < before + 2; k++) {
			if (k > 30000)
				fail(std::string("no bulk update ends after ") + after);
			if (shared_.error[0])
				fail(shared_.error);
			usleep(1000);
		}
	}
	/* Both ways of mapping must have been used. */
	void report(uint64_t kills)
	{
		goes_on("all kills");
		printf("%llu kills; %llu bulk updates by the operator, %llu in part, %llu by the "
		       "program, %llu short ones: all is there\n",
		        static_cast<unsigned long long>(kills),
		        static_cast<unsigned long long>(shared_.by_operator),
		        static_cast<unsigned long long>(shared_.in_part),
		        static_cast<unsigned long long>(shared_.by_program),
		        static_cast<unsigned long long>(shared_.short_done));
		if (shared_.by_operator == 0)
			fail("no operator has mapped anything");
	}

private:
	static void await(pid_t pid)
	{
		waitpid(pid, nullptr, 0);
	}
	static void end(pid_t &pid)
	{
		if (pid) {
			kill(pid, SIGKILL);
			await(std::exchange(pid, 0));
		}
	}
	/* From now on with a replayer alongside, or without one. */
	void change_replayer()
	{
		if (beside_) {
			end(beside_);
			return;
		}
		beside_ = fork();
		if (beside_ == 0) {
			execl(replayer_, replayer_, "--quiet", path_.c_str(), nullptr);
			_exit(127);
		}
	}
	void start_mapper()
	{
		daemon_ = fork();
		if (daemon_ == 0) {
			execl(mapper_, mapper_, "--quiet", "--operators", operators_, path_.c_str(),
			        nullptr);
			_exit(127);
		}
	}
	void start_program()
	{
		program_ = fork();
		if (program_ == 0)
			work(path_, shared_, random_.state);
	}
	void restart_program()
	{
		check(path_, shared_);
		settle(path_, shared_);
		start_program();
	}

	const char *mapper_, *replayer_, *operators_;
	Random random_;
	std::string path_;
	Shared &shared_;
	pid_t program_ = 0, daemon_ = 0, beside_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: kill-operators FUR_OPERATORS FUR_REPLAYER OPERATORS.so "
		                "[KILLS [SEED]]\n");
		return 2;
	}
	const uint64_t kills = argc > 4 ? strtoull(argv[4], nullptr, 10) : 100,
	               seed = argc > 5 ? strtoull(argv[5], nullptr, 10) : 1;
	uint64_t k = 0;
	try {
		Test test(argv[1], argv[2], argv[3], seed);
		for (; k < kills; k++)
			test.one_kill();
		test.report(kills);
		return 0;
	} catch (const std::exception &e) {
		fprintf(stderr, "kill-operators: seed %llu, after %llu kills: %s\n",
		        static_cast<unsigned long long>(seed), static_cast<unsigned long long>(k),
		        e.what());
		return 1;
	}
}
