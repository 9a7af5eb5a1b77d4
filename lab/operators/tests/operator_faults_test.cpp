/* SPDX-License-Identifier: BSD-3-Clause
 *
 * operator_faults_test.cpp - a fur-operators, as a process, whose operator gets a SIGBUS, or whose
 * heap file becomes shorter while an operator works.
 *
 *     FUR_OPERATORS=PATH OPERATORS=PATH operator-faults-test
 */
#include "../../../tests/unit/fixture.hpp"
#include "internals.hpp"
#include "lab_bulk.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fur_bulk.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace
{

constexpr uint64_t COUNT = 60000, BYTES = 64, LEFT = COUNT / 8;

/* As the operators of operators_object.c have it. */
struct Arg {
	uint64_t add, skip, us;
};

/* Add 1 to each byte, and the number, as they do. */
bool add(void *copy, size_t bytes, uint64_t number, void *)
{
	auto *byte = static_cast<uint8_t *>(copy);
	for (size_t k = 0; k < bytes; k++)
		byte[k] = uint8_t(byte[k] + 1 + number % 7);
	return true;
}

/* Written by the program, read by the test after its death. */
struct Told {
	std::atomic<uint64_t> begun; /* the operator works */
	std::atomic<bool> returned_well;
};

class OperatorFaults : public HeapFile, public ::testing::WithParamInterface<fur_bulk_atomic>
{
protected:
	OperatorFaults()
	    : told_(*new (mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE,
	              MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Told{})
	{
	}
	~OperatorFaults() override
	{
		for (pid_t pid : {daemon_, program_})
			if (pid > 0) {
				kill(pid, SIGKILL);
				waitpid(pid, nullptr, 0);
			}
		munmap(&told_, sizeof told_);
		if (says_ >= 0)
			close(says_);
	}
	static fur::Options options()
	{
		fur::Options o = small_options();
		o.heap_bytes = 16 << 20;
		o.log_bytes = 1 << 16;
		return o;
	}
	static uint8_t *make_records(fur::Heap &heap)
	{
		fur::Thread self(heap);
		return fur::update(self, [&](fur_update *tx) {
			auto *at = static_cast<uint8_t *>(fur_alloc(tx, COUNT * BYTES));
			fur_set_root(tx, 0, at);
			return at;
		});
	}
	static void fill(fur::Heap &heap)
	{
		fur::Thread self(heap);
		auto *at = static_cast<uint8_t *>(root_at_rest(heap.get(), 0));
		const std::string three(BYTES * 100, 3);
		for (uint64_t k = 0; k < COUNT; k += 100)
			fur::update(self, [&](fur_update *tx) {
				fur_write(tx, at + k * BYTES, three.data(), three.size());
			});
	}
	/* With standard error in a pipe. */
	void start_daemon()
	{
		int ends[2];
		ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
		daemon_ = fork();
		if (daemon_ == 0) {
			dup2(ends[1], STDERR_FILENO);
			execl(getenv("FUR_OPERATORS"), "fur-operators", "--quiet", "--operators",
			        getenv("OPERATORS"), path_.c_str(), nullptr);
			_exit(127);
		}
		close(ends[1]);
		says_ = ends[0];
	}
	bool daemon_lives() const
	{
		return waitpid(daemon_, nullptr, WNOHANG) == 0;
	}
	/* All that it has said, when it has ended. */
	std::string daemon_said() const
	{
		std::string all;
		char buffer[512];
		for (ssize_t n; (n = read(says_, buffer, sizeof buffer)) > 0;)
			all.append(buffer, static_cast<size_t>(n));
		return all;
	}
	struct Job : fur_bulk {
		lab_operator_call call;
	};
	struct Result : fur_bulk_result {
		uint64_t by_operator;
	};
	/* While fur-operators is about to start: again. */
	static int run(fur_thread *self, Job &job, Result &result)
	{
		enum { PATIENCE_MS = 20000 };
		int error;
		result.size = sizeof(fur_bulk_result);
		for (int k = 0; (error = lab_bulk_run(self, &job, &job.call, &result,
		                         &result.by_operator)) == FUR_ENOENT &&
		                k < PATIENCE_MS;
		        k++)
			usleep(1000);
		return error;
	}
	static Job job_of(const char *name, Arg &arg, const fur_extent &all)
	{
		Job job;
		fur_bulk_init(&job);
		job.map = add;
		job.bytes = BYTES;
		job.extents = &all;
		job.n = 1;
		job.atomic = GetParam();
		job.arg = &arg;
		job.call = {name, &arg, sizeof arg};
		return job;
	}
	/* A bulk update that takes seconds, in a process that the truncated file may kill. */
	void work()
	{
		fur::Heap heap = fur::Heap::open(path_, options());
		fur::Thread self(heap);
		static Told &told = told_;
		struct {
			Arg arg = {1, 0, 30};
		} given;
		const fur_extent all = {root_at_rest(heap.get(), 0), BYTES, COUNT};
		Job job = job_of("add", given.arg, all);
		job.progress = [](uint64_t, uint64_t, void *) {
			told.begun++;
			return true;
		};
		Result result{};
		const int error = run(self, job, result);
		told.returned_well = error == 0;
		_exit(3);
	}

	Told &told_;
	pid_t daemon_ = 0, program_ = 0;
	int says_ = -1;
};

TEST_P(OperatorFaults, AnOperatorThatGetsASIGBUS_OneClearError_AndTheProcessGoesOn)
{
	fur::Heap heap = create(options());
	auto *at = make_records(heap);
	fill(heap);
	start_daemon();
	fur::Thread self(heap);
	const fur_extent all = {at, BYTES, COUNT};
	for (uint64_t bad : {UINT64_C(0), COUNT - 1}) {
		Arg arg = {1, bad, 0};
		Job job = job_of("bus_late", arg, all);
		Result result{};
		EXPECT_EQ(run(self, job, result), FUR_EABORTED);
		const std::string says = fur_errormsg(), number = std::to_string(bad);
		EXPECT_NE(says.find(strsignal(SIGBUS)), std::string::npos) << says;
		EXPECT_NE(says.find("at record " + number), std::string::npos) << says;
		EXPECT_TRUE(daemon_lives());
		EXPECT_LE(result.records, bad);
		EXPECT_TRUE(GetParam() == FUR_BULK_EACH || result.records == 0);
		for (uint64_t k = 0; k < COUNT * BYTES; k++)
			ASSERT_EQ(at[k], k / BYTES < result.records ? 4 + k / BYTES % 7 : 3) << k;
		fill(heap);
	}
	Arg arg = {1, UINT64_MAX, 0};
	Job job = job_of("bus_late", arg, all);
	Result result{};
	EXPECT_EQ(run(self, job, result), 0) << fur_errormsg();
	EXPECT_EQ(result.by_operator, COUNT);
	EXPECT_TRUE(daemon_lives());
}

/* The status with which it ends; -1: it does not. */
static int end_of(pid_t pid)
{
	enum { PATIENCE_MS = 60000 };
	int status = -1;
	for (int k = 0; k < PATIENCE_MS && waitpid(pid, &status, WNOHANG) == 0; k++)
		usleep(1000);
	return status;
}

/* As with abort(): the process is gone, and the program maps all records that are left. */
TEST_P(OperatorFaults, AnOperatorThatEndsItsThread_EndsTheProcess_AndTheProgramMapsTheRecords)
{
	fur::Heap heap = create(options());
	auto *at = make_records(heap);
	fill(heap);
	start_daemon();
	fur::Thread self(heap);
	const fur_extent all = {at, BYTES, COUNT};
	Arg arg = {1, 0, 0};
	Job job = job_of("leave", arg, all);
	Result result{};
	EXPECT_EQ(run(self, job, result), 0) << fur_errormsg();
	EXPECT_EQ(result.by_operator, 0u);
	for (uint64_t k = 0; k < COUNT * BYTES; k++)
		ASSERT_EQ(at[k], 4 + k / BYTES % 7) << k;
	const int status = end_of(std::exchange(daemon_, 0));
	EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
	EXPECT_NE(daemon_said().find("pthread_exit() out of the operator\n"), std::string::npos);
}

/* Of a signal that was sent it dies, whatever it is at. */
TEST_P(OperatorFaults, ACrashSignalThatIsSent_EndsTheProcess)
{
	fur::Heap heap = create(options());
	auto *at = make_records(heap);
	const fur_extent all = {at, BYTES, COUNT};
	for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) {
		start_daemon();
		{
			fur::Thread self(heap);
			Arg arg = {1, UINT64_MAX, 0};
			Job job = job_of("add", arg, all);
			Result result{};
			ASSERT_EQ(run(self, job, result), 0) << fur_errormsg();
		}
		kill(daemon_, number);
		const int status = end_of(daemon_);
		ASSERT_NE(status, -1) << "it lives after " << strsignal(number);
		daemon_ = 0;
		EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << status;
		EXPECT_EQ(daemon_said(), "");
		close(std::exchange(says_, -1));
	}
}

/* Of the records, the file keeps the first ones.  fur-operators ends with one line.  The program
 * has mapped the file, so it dies of SIGBUS where the file has ended, and has not been told that
 * the bulk update is there.  The file is refused until it has its length again; then recovery finds
 * what was committed, in the part that was left. */
TEST_P(OperatorFaults, AFileThatBecomesShorterMeanwhile_EndsTheProcessWithOneLine)
{
	uint64_t offset; /* of the records, in the file */
	{
		fur::Heap heap = create(options());
		const auto *at = make_records(heap);
		fill(heap);
		heap_file file;
		fur::check(heap_open_file(path_.c_str(), HEAP_LOCK_NONE, &file));
		offset = file.geometry.heap_offset +
		         uint64_t(at - static_cast<uint8_t *>(heap_base(heap.get())));
		heap_close_file(&file);
	}
	struct stat st;
	ASSERT_EQ(stat(path_.c_str(), &st), 0);
	start_daemon();
	program_ = fork();
	if (program_ == 0) {
		try {
			work();
		} catch (const std::exception &) {
		}
		_exit(4);
	}
	while (told_.begun < 2) {
		ASSERT_EQ(waitpid(program_, nullptr, WNOHANG), 0) << "the program has ended";
		usleep(1000);
	}
	ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(offset + LEFT * BYTES)), 0);
	int status;
	ASSERT_EQ(waitpid(daemon_, &status, 0), daemon_);
	daemon_ = 0;
	EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
	const std::string said = daemon_said();
	EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
	EXPECT_NE(said.find("truncated"), std::string::npos) << said;
	EXPECT_NE(said.find(": restore it from a copy"), std::string::npos) << said;
	ASSERT_EQ(waitpid(program_, &status, 0), program_);
	program_ = 0;
	EXPECT_TRUE((WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) ||
	            (WIFEXITED(status) && WEXITSTATUS(status) == 3))
	        << status;
	EXPECT_FALSE(told_.returned_well);
	fur_heap *refused;
	const fur::Options o = options();
	ASSERT_NE(fur_open(path_.c_str(), &o, &refused), 0);
	EXPECT_NE(std::string(fur_errormsg()).find("truncated"), std::string::npos)
	        << fur_errormsg();
	ASSERT_EQ(truncate(path_.c_str(), st.st_size), 0);
	fur::Heap heap = open(options());
	const auto *at = static_cast<const uint8_t *>(root_at_rest(heap.get(), 0));
	uint64_t changed = 0;
	while (changed < LEFT && at[changed * BYTES] == 4 + changed % 7)
		changed++;
	EXPECT_TRUE(changed == 0 || GetParam() == FUR_BULK_EACH);
	for (uint64_t k = 0; k < LEFT * BYTES; k++)
		ASSERT_EQ(at[k], k / BYTES < changed ? 4 + k / BYTES % 7 : 3) << k;
}

INSTANTIATE_TEST_SUITE_P(Atomic, OperatorFaults, ::testing::Values(FUR_BULK_WHOLE, FUR_BULK_EACH),
        [](const ::testing::TestParamInfo<fur_bulk_atomic> &of) {
	        return of.param == FUR_BULK_EACH ? "Each" : "Whole";
        });

} // namespace
