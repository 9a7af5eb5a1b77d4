/* SPDX-License-Identifier: BSD-3-Clause
 *
 * claims_death_test.cpp - a process dies at any instant of claiming, waiting or releasing; its
 * claims are cleared, and the other process's threads go on (INV-CL4).
 */
#include "claims.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

/* With a sanitizer each call has thousands of instructions. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define STEPPED
#include <sys/ptrace.h>
#endif

namespace
{

const uint64_t MINE = claims_owner(CLAIMS_WORKER, 1);
const uint64_t DOOMED = claims_owner(CLAIMS_REPLAYER, 1);

class ClaimsDeath : public SharedClaims
{
protected:
	static pid_t start(const std::function<void()> &work)
	{
		pid_t child = fork();
		if (child == 0) {
			work();
			_exit(0);
		}
		return child;
	}
	static void end(pid_t child)
	{
		kill(child, SIGKILL);
		int status;
		EXPECT_EQ(waitpid(child, &status, 0), child);
	}
	/* Do all threads of this process but the caller sleep in the kernel? */
	static bool all_asleep()
	{
		for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
			std::string line;
			std::getline(std::ifstream(task.path() / "stat"), line);
			size_t end = line.rfind(')'); /* of the name; the state follows */
			if (task.path().filename() != std::to_string(gettid()) &&
			        end != std::string::npos && line.compare(end, 3, ") S") != 0)
				return false;
		}
		return true;
	}
	/* A thread that takes the bucket, and releases it at once. */
	std::thread waiter(uint64_t bucket, uint64_t number)
	{
		return std::thread([this, bucket, number] {
			uint64_t owner = claims_owner(CLAIMS_WORKER, number);
			EXPECT_EQ(claims_take(table_, bucket, owner), CLAIMS_TAKEN);
			claims_release(table_, bucket, owner);
		});
	}
};

TEST_F(ClaimsDeath, HolderDies_WaitersAreServed)
{
	const uint64_t bucket = 2;
	pid_t child = start([&] {
		claims_take(table_, bucket, DOOMED);
		pause();
	});
	until([&] { return claims_look(table_, bucket) == DOOMED; });
	std::vector<std::thread> waiters;
	for (unsigned k = 0; k < 10; k++) /* some of them outside the full bucket */
		waiters.push_back(waiter(bucket, 10 + k));
	until([&] { return marked(bucket, 0) && marked(bucket, CLAIMS_SLOTS - 1); });
	end(child);
	EXPECT_EQ(claims_clear_owner_of(table_, CLAIMS_REPLAYER), 1u);
	for (auto &w : waiters)
		w.join();
	expect_empty();
	EXPECT_EQ(claims_clear_owner_of(table_, CLAIMS_REPLAYER), 0u);
}

TEST_F(ClaimsDeath, WaiterDies_ThoseBehindItAreServed)
{
	const uint64_t bucket = 2;
	ASSERT_EQ(claims_take(table_, bucket, MINE), CLAIMS_TAKEN);
	pid_t child = start([&] { claims_take(table_, bucket, DOOMED); });
	until([&] { return marked(bucket, 0); }); /* it sleeps in slot 1 */
	std::thread behind = waiter(bucket, 10);
	until([&] { return marked(bucket, 1); });
	end(child);
	claims_release(table_, bucket, MINE);
	EXPECT_EQ(claims_clear_owner_of(table_, CLAIMS_REPLAYER), 1u);
	behind.join();
	expect_empty();
}

/* Clearing removes no other process's claim. */
TEST_F(ClaimsDeath, ClaimsOfTheLivingRemain)
{
	ASSERT_EQ(claims_take(table_, 1, MINE), CLAIMS_TAKEN);
	ASSERT_EQ(claims_take(table_, 2, DOOMED), CLAIMS_TAKEN);
	*slot(1, 1) = DOOMED;
	*slot(2, 1) = claims_owner(CLAIMS_WORKER, 2);
	EXPECT_EQ(claims_clear_owner_of(table_, CLAIMS_REPLAYER), 2u);
	EXPECT_EQ(claims_look(table_, 1), MINE);
	EXPECT_EQ(claims_look(table_, 2), claims_owner(CLAIMS_WORKER, 2));
	EXPECT_EQ(*slot(1, 1), 0u);
}

/* INV-CL4: the dead thread emptied slot 0, and woke no other.  A newcomer that had looked before
 * took slot 0: it has no mark there, and does not know that a thread sleeps. */
TEST_F(ClaimsDeath, SleeperBehindANewcomerIsServed)
{
	const uint64_t bucket = 2;
	ASSERT_EQ(claims_take(table_, bucket, DOOMED), CLAIMS_TAKEN);
	std::thread sleeper = waiter(bucket, 10);
	until([&] { return marked(bucket, 0) && all_asleep(); });
	arch_exchange(slot(bucket, 0), 0);
	ASSERT_TRUE(arch_cas(slot(bucket, 0), 0, MINE));
	claims_clear_owner_of(table_, CLAIMS_REPLAYER);
	until([&] { return marked(bucket, 0); });
	claims_release(table_, bucket, MINE);
	sleeper.join();
	expect_empty();
}

/* Processes are killed while several threads of both take the same few buckets. */
TEST_F(ClaimsDeath, KilledUnderLoad_TheOthersGoOn)
{
	for (unsigned round = 0; round < 60; round++) {
		auto load = [this](uint16_t process, unsigned rounds) {
			std::vector<std::thread> threads;
			for (unsigned t = 0; t < 3; t++)
				threads.emplace_back([=, this] {
					uint64_t owner = claims_owner(process, t + 1);
					for (unsigned k = 0; k < rounds; k++) {
						uint64_t bucket = (t + k) % 2;
						claims_take(table_, bucket, owner);
						arch_fetch_add(&shared_->done, 1);
						claims_release(table_, bucket, owner);
					}
				});
			for (auto &t : threads)
				t.join();
		};
		arch_store(&shared_->done, 0);
		pid_t child = start([&] { load(CLAIMS_REPLAYER, UINT32_MAX); });
		until([&] { return arch_load(&shared_->done) > round; });
		std::thread living([&] { load(CLAIMS_WORKER, 300); });
		until([&] { return arch_load(&shared_->done) > 3 * round; });
		end(child);
		claims_clear_owner_of(table_, CLAIMS_REPLAYER);
		living.join();
		expect_empty();
	}
}

/* ------------------------------------------------- death after each single instruction */

#if defined(STEPPED)

/* Runs a child instruction by instruction, up to a point, and kills it there. */
class ClaimsStepped : public ClaimsDeath
{
protected:
	/* The child stops before `work`.  False: this system allows no tracing. */
	bool start_stopped(const std::function<void()> &before, const std::function<void()> &work)
	{
		child_ = start([&] {
			if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr))
				_exit(1);
			before();
			raise(SIGSTOP);
			work();
		});
		return wait_for_stop();
	}
	/* Executes one instruction.  False: the child has ended. */
	bool step()
	{
		return ptrace(PTRACE_SINGLESTEP, child_, nullptr, nullptr) == 0 && wait_for_stop();
	}
	bool steps(unsigned n)
	{
		for (unsigned k = 0; k < n; k++)
			if (!step())
				return false;
		return true;
	}
	void end()
	{
		ClaimsDeath::end(child_);
	}
	bool ended() const
	{
		return ended_;
	}

private:
	bool wait_for_stop()
	{
		int status;
		ended_ = waitpid(child_, &status, 0) == child_ && !WIFSTOPPED(status);
		return !ended_;
	}

	pid_t child_ = 0;
	bool ended_ = false;
};

constexpr uint64_t BUCKET = 7;

/* No thread waits: it dies before, in, between or after take and release. */
TEST_F(ClaimsStepped, TakeAndReleaseAlone)
{
	bool over = false;
	for (unsigned n = 0; !over; n++) {
		if (!start_stopped([] {},
		            [&] {
			            claims_take(table_, BUCKET, DOOMED);
			            claims_release(table_, BUCKET, DOOMED);
			            arch_store(&shared_->done, 1);
		            }))
			GTEST_SKIP() << "this system allows no ptrace()";
		steps(n);
		over = arch_load(&shared_->done);
		if (!ended())
			end();
		claims_clear_owner_of(table_, CLAIMS_REPLAYER);
		expect_empty();
		ASSERT_EQ(claims_try(table_, BUCKET, MINE), CLAIMS_TAKEN) << n << " instructions";
		claims_release(table_, BUCKET, MINE);
		ASSERT_LT(n, 10000u);
	}
}

/* A living thread sleeps until the doomed one releases. */
TEST_F(ClaimsStepped, ReleaseWithASleeper)
{
	bool over = false;
	for (unsigned n = 0; !over; n++) {
		arch_store(&shared_->done, 0);
		if (!start_stopped([&] { claims_take(table_, BUCKET, DOOMED); },
		            [&] {
			            claims_release(table_, BUCKET, DOOMED);
			            arch_store(&shared_->done, 1);
		            }))
			GTEST_SKIP() << "this system allows no ptrace()";
		std::thread sleeper = waiter(BUCKET, 10);
		until([&] { return marked(BUCKET, 0); });
		steps(n);
		over = arch_load(&shared_->done);
		if (!ended())
			end();
		claims_clear_owner_of(table_, CLAIMS_REPLAYER);
		sleeper.join();
		expect_empty();
		ASSERT_LT(n, 10000u);
	}
}

/* The doomed thread moves from slot 2 to slot 0, while a living one sleeps behind it. */
TEST_F(ClaimsStepped, MoveWithASleeperBehind)
{
	bool over = false;
	for (unsigned n = 0; !over; n++) {
		arch_store(&shared_->done, 0);
		*slot(BUCKET, 1) = claims_owner(CLAIMS_WORKER, 2); /* the last of the queue */
		if (!start_stopped([] {},
		            [&] {
			            claims_take(table_, BUCKET, DOOMED);
			            arch_store(&shared_->done, 1);
		            }))
			GTEST_SKIP() << "this system allows no ptrace()";
		while (!arch_load(slot(BUCKET, 2)))
			ASSERT_TRUE(step());
		std::thread sleeper = waiter(BUCKET, 10);
		until([&] { return marked(BUCKET, 2); });
		arch_exchange(slot(BUCKET, 1), 0);
		steps(n);
		over = arch_load(&shared_->done);
		if (!ended())
			end();
		claims_clear_owner_of(table_, CLAIMS_REPLAYER);
		sleeper.join();
		expect_empty();
		ASSERT_LT(n, 10000u);
	}
}

#endif

} // namespace
