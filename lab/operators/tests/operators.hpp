/* SPDX-License-Identifier: BSD-3-Clause
 *
 * operators.hpp - for tests of bulk updates by operators: fur-operators, and a replayer alongside,
 * as threads of the test with open files of their own, and a job.
 */
#ifndef FUR_TESTS_OPERATORS_HPP
#define FUR_TESTS_OPERATORS_HPP

#include "census.hpp"
#include "fixture.hpp"
#include "internals.hpp"
#include "software.hpp"

#include <atomic>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <fur_operator.h>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#define _Static_assert static_assert /* NOLINT */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in internals.hpp */
extern "C" {
#include "errand.h"
#include "errand_loop.h"
#include "lab_bulk.h"
#include "replayer/serve.h"
}
#pragma GCC diagnostic pop
#undef _Static_assert

constexpr uint64_t MIB = 1 << 20;

struct AddArg {
	uint64_t add, skip, us;
};

/* As the operator does. */
inline bool add_bytes(void *copy, size_t bytes, uint64_t number, const AddArg &a)
{
	auto *byte = static_cast<uint8_t *>(copy);
	if (a.skip && number % a.skip == 0)
		return false;
	for (size_t k = 0; k < bytes; k++)
		byte[k] = uint8_t(byte[k] + a.add + number % 7);
	return true;
}

inline void on_crash(int signal, siginfo_t *info, void *context)
{
	operators_crashed(signal, info, context);
	abort();
}

/* fur-replayer, in a thread. */
class Replayer
{
public:
	explicit Replayer(const std::string &heap)
	{
		const server_events events = {[](void *, const replay_result *) {},
		        [](void *, const char *) {}, [](void *, uint64_t) {}, [](void *) {}, this};
		const replay_options how = REPLAY_DEFAULTS;
		const int fd = ::open(heap.c_str(), O_RDWR | O_CLOEXEC);
		EXPECT_EQ(server_start(fd, heap.c_str(), &how, &events, &server_), 0)
		        << fur_errormsg();
		if (server_)
			thread_ = std::thread([this] { result_ = server_run(server_); });
	}
	~Replayer()
	{
		if (!server_)
			return;
		server_stop(server_);
		thread_.join();
		EXPECT_TRUE(result_ == 0 || result_ == expected_) << result_;
		server_end(server_);
	}
	Replayer(const Replayer &) = delete;
	/* It may also end with this error. */
	void expect_result(int error)
	{
		expected_ = error;
	}

private:
	server *server_ = nullptr;
	std::thread thread_;
	int result_ = 0, expected_ = 0;
};

/* fur-operators, in a thread. */
class Mapper
{
public:
	Mapper(const std::string &heap, const std::vector<const char *> &files)
	{
		struct sigaction action = {};
		action.sa_sigaction = on_crash;
		action.sa_flags = SA_SIGINFO | SA_ONSTACK;
		for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP})
			sigaction(s, &action, nullptr);
		const int fd = ::open(heap.c_str(), O_RDWR | O_CLOEXEC);
		error_ = errand_loop_start(fd, heap.c_str(), files.data(), files.size(), &loop_);
		message_ = error_ ? fur_errormsg() : "";
		if (!error_)
			thread_ = std::thread([this, o = loop_] {
				result_ = errand_loop_run(o);
				ended_ = true;
			});
	}
	~Mapper()
	{
		end();
	}
	Mapper(const Mapper &) = delete;
	/* False: an operator did not return. */
	bool end()
	{
		enum { PATIENCE_MS = 2000 };
		if (!loop_)
			return true;
		errand_loop *o = std::exchange(loop_, nullptr);
		errand_loop_stop(o);
		for (int k = 0; k < PATIENCE_MS && !ended_; k++)
			usleep(1000);
		if (!ended_) {
			errand_loop_withdraw(o);
			thread_.detach();
			return false;
		}
		thread_.join();
		EXPECT_TRUE(result_ == 0 || result_ == expected_) << result_;
		errand_loop_end(o);
		return true;
	}
	/* It may also end with this error. */
	void expect_result(int error)
	{
		expected_ = error;
	}
	int error() const
	{
		return error_;
	}
	const std::string &message() const
	{
		return message_;
	}

private:
	errand_loop *loop_ = nullptr;
	std::thread thread_;
	std::atomic<bool> ended_{false};
	int error_ = 0, result_ = 0, expected_ = 0;
	std::string message_;
};

using Map = std::function<bool(void *, size_t, uint64_t, const AddArg &)>;

/* A bulk update by an operator. */
struct Job : fur_bulk {
	Job(const char *name, size_t each, std::vector<fur_extent> where, AddArg a = {1, 0, 0},
	        Map what = add_bytes)
	    : add{a, this}, map_(std::move(what)), extents_(std::move(where))
	{
		fur_bulk_init(this);
		bytes = each;
		extents = extents_.data();
		n = extents_.size();
		operator_name = name;
		arg = &add;
		arg_bytes = sizeof add.to_operator;
		map = [](void *copy, size_t record, uint64_t number, void *given) {
			Job &job = *static_cast<Arg *>(given)->job;
			job.calls++;
			return job.map_(copy, record, number, job.add.to_operator);
		};
	}
	int run(fur_thread *t)
	{
		const lab_operator_call call = {operator_name, arg, arg_bytes};
		result.size = sizeof(fur_bulk_result);
		calls = 0;
		return lab_bulk_run(
		        t, this, by_program ? nullptr : &call, &result, &result.by_operator);
	}
	/* `f` gets how many records are done. */
	void on_progress(std::function<bool(uint64_t)> f)
	{
		progress_ = std::move(f);
		progress = [](uint64_t done, uint64_t, void *given) {
			return static_cast<Arg *>(given)->job->progress_(done);
		};
	}
	struct Arg {
		AddArg to_operator;
		Job *job;
	} add;
	struct Result : fur_bulk_result {
		uint64_t by_operator;
	} result = {};
	const char *operator_name;
	size_t arg_bytes;
	bool by_program = false; /* without an operator */
	uint64_t calls = 0;      /* of map() in the program */

private:
	Map map_;
	std::vector<fur_extent> extents_;
	std::function<bool(uint64_t)> progress_;
};

/* How the heap is made durable, and whether a fur-replayer runs alongside. */
struct Setting {
	fur_pm pm;
	bool replayer;
};

class Operators : public HeapFile, public ::testing::WithParamInterface<Setting>
{
protected:
	Operators()
	{
		fur::Options o = software_options();
		o.heap_bytes = 8 * MIB;
		o.max_threads = 8;
		o.pm = GetParam().pm;
		heap_.emplace(create(o));
		self_.emplace(*heap_);
	}
	void serve(const std::vector<const char *> &files = {OPERATORS_OBJECT})
	{
		end_serving();
		mapper_ = std::make_unique<Mapper>(path_, files);
		ASSERT_EQ(mapper_->error(), 0) << mapper_->message();
		if (GetParam().replayer)
			replayer_ = std::make_unique<Replayer>(path_);
	}
	void end_serving()
	{
		mapper_.reset();
		replayer_.reset();
	}
	uint8_t *block(size_t bytes, uint8_t value = 0)
	{
		return block_in_root(*self_, bytes, value);
	}
	uint64_t blocks_in_use()
	{
		return census_of(*heap_).blocks;
	}
	/* One clear error, nothing changed, and the next one works. */
	void expect_error(Job &job, int code, const char *says, const uint8_t *at, size_t bytes)
	{
		const std::vector<uint8_t> before(at, at + bytes);
		const uint64_t blocks = blocks_in_use();
		EXPECT_EQ(job.run(*self_), code) << says;
		const std::string message = fur_errormsg();
		EXPECT_NE(message.find(says), std::string::npos) << message;
		EXPECT_NE(message.find(": "), std::string::npos) << "no remedy: " << message;
		EXPECT_EQ(memcmp(at, before.data(), bytes), 0) << says;
		EXPECT_EQ(blocks_in_use(), blocks) << says;
	}
	control *region()
	{
		return heap_->get()->durability.control;
	}
	control_errand *request()
	{
		return errand_in(region());
	}

	std::optional<fur::Heap> heap_;
	std::optional<fur::Thread> self_;
	std::unique_ptr<Replayer> replayer_;
	std::unique_ptr<Mapper> mapper_;
};

/* The side of fur-operators by hand. */
class Steps : public Operators
{
protected:
	Steps()
	{
		durability_ = heap_->get()->durability;
		durability_.replays_for_worker = true;
		durability_.pm.fd = ::open(path_.c_str(), O_RDWR);
		EXPECT_EQ(heap_lock_try(durability_.pm.fd, HEAP_LOCK_LAB), 0);
		calls_ = {[](void *, const char *, const void *, size_t) { return 0; },
		        [](void *self, errand_serve_batch *b) {
			        static_cast<Steps *>(self)->mapped_ += b->n;
			        memset(b->records, 9, b->n * b->bytes);
			        memset(b->changed, 1, b->n);
			        return 0;
		        },
		        this};
		server_ = {};
		server_.d = &durability_;
		server_.calls = &calls_;
		errand_serve_start(&durability_, 1);
	}
	~Steps() override
	{
		errand_serve_drop(&server_);
		::close(durability_.pm.fd);
	}
	/* Run the job in another thread, until it waits for fur-operators. */
	void begin(Job &job)
	{
		program_ = std::thread([this, &job] {
			fur::Thread self(heap_->get());
			result_ = job.run(self);
		});
		while (!errand_serve_accept(&server_))
			std::this_thread::yield();
	}
	int end()
	{
		program_.join();
		return result_;
	}
	/* Waits for the right to replay: the program itself may be replaying just now. */
	bool exchange()
	{
		EXPECT_EQ(control_take(&durability_), 0) << fur_errormsg();
		const bool more = errand_serve_exchange(&server_);
		control_give_back(&durability_);
		return more;
	}
	std::vector<uint8_t> in_file(uint64_t offset, uint64_t bytes) const
	{
		const uint8_t *from = durability_.image + offset;
		return {from, from + bytes};
	}
	/* The request is over: an exchange stores nothing. */
	void expect_nothing_stored(uint64_t offset, uint64_t bytes)
	{
		const std::vector<uint8_t> before = in_file(offset, bytes);
		EXPECT_FALSE(exchange());
		EXPECT_TRUE(in_file(offset, bytes) == before);
		errand_serve_end(&server_);
	}
	/* Within a time that is enough for a program that does not wait. */
	bool asks_soon()
	{
		for (int k = 0; k < 100; k++, usleep(1000))
			if (errand_state(arch_load(&request()->request)) == ERRAND_ASKED)
				return true;
		return false;
	}

	durability durability_;
	errand_serve_calls calls_;
	errand_server server_;
	uint64_t mapped_ = 0;
	std::thread program_;
	int result_ = 0;
};

const auto SETTINGS = ::testing::Values(Setting{FUR_PM_EMULATED, true}, Setting{FUR_PM_SYNC, true},
        Setting{FUR_PM_EMULATED, false});

inline std::string name_of(const ::testing::TestParamInfo<Setting> &of)
{
	return std::string(of.param.pm == FUR_PM_SYNC ? "Sync" : "Emulated") +
	       (of.param.replayer ? "" : "Alone");
}

#endif /* FUR_TESTS_OPERATORS_HPP */
