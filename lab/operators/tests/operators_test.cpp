/* SPDX-License-Identifier: BSD-3-Clause
 *
 * operators_test.cpp - bulk updates whose first pass an operator makes (INV-OP1 to
 * INV-OP6).
 */
#include "operators.hpp"

namespace
{

/* ------------------------------------------------------------ results */

TEST_P(Operators, AnOperatorChangesRecordsOfEverySizeAndPlace_AndNothingElse)
{
	struct Shape {
		size_t bytes, stride, offset;
	};
	serve();
	for (Shape s : {Shape{1, 1, 0}, {3, 5, 1}, {8, 8, 0}, {13, 16, 3}, {64, 64, 0},
	             {100, 164, 4}, {5000, 5008, 8}}) {
		const uint64_t count = 130;
		const size_t all = s.offset + count * s.stride;
		uint8_t *at = block(all, 7);
		Job job("add", s.bytes, {{at + s.offset, s.stride, count}}, {3, 5, 0});
		std::vector<uint8_t> expected(all, 7);
		for (uint64_t k = 0; k < count; k++)
			add_bytes(&expected[s.offset + k * s.stride], s.bytes, k,
			        job.add.to_operator);
		ASSERT_EQ(job.run(*self_), 0) << fur_errormsg();
		EXPECT_EQ(memcmp(at, expected.data(), all), 0) << s.bytes;
		EXPECT_EQ(job.result.by_operator, count);
		EXPECT_EQ(job.result.changed, count - count / 5);
		EXPECT_EQ(job.calls, 0u) << "the program mapped records itself";
		/* From the log, as a replay makes it. */
		ASSERT_EQ(fur_sync(heap_->get()), 0);
		fur::update(*self_, [&](fur_update *tx) { fur_free(tx, fur_root(tx, 0)); });
		EXPECT_EQ(blocks_in_use(), 0u);
	}
}

TEST_P(Operators, TheResultIsInTheFile_WhenTheHeapIsOpenedAgain)
{
	serve();
	const uint64_t count = 20000;
	uint8_t *at = block(count * 64, 1);
	Job job("add", 64, {{at, 64, count}}, {2, 3, 0});
	ASSERT_EQ(job.run(*self_), 0) << fur_errormsg();
	std::vector<uint8_t> expected(at, at + count * 64);
	end_serving();
	self_.reset();
	heap_->close();
	heap_.emplace(open(software_options()));
	EXPECT_EQ(memcmp(root_at_rest(heap_->get(), 0), expected.data(), count * 64), 0);
	for (uint64_t k = 0; k < count; k++)
		ASSERT_EQ(expected[k * 64], k % 3 ? 3 + k % 7 : 1) << k;
}

TEST_P(Operators, ExtentsInAnyOrder_AreNumberedAsGiven_ManyInABatch)
{
	serve();
	auto *at = reinterpret_cast<uint64_t *>(block(64 * 1024));
	std::vector<fur_extent> extents = {{at + 256, 16, 4}, {at, 8, 3}};
	for (uint64_t k = 999; k >= 500; k--) /* against the order of addresses */
		extents.push_back({at + k * 2, 0, 1});
	Job job("count", 8, extents);
	ASSERT_EQ(job.run(*self_), 0) << fur_errormsg();
	EXPECT_EQ(at[256], 1u);
	EXPECT_EQ(at[262], 4u);
	EXPECT_EQ(at[0], 5u);
	EXPECT_EQ(at[2], 7u);
	EXPECT_EQ(at[3], 0u);
	for (uint64_t k = 999, number = 7; k >= 500; k--)
		ASSERT_EQ(at[k * 2], ++number);
}

/* INV-OP2: what earlier updates have stored is only in the log and in the program's memory. */
TEST_P(Operators, TheOperatorSeesAllThatWasCommittedBefore)
{
	serve();
	const uint64_t count = 2000;
	auto *at = reinterpret_cast<uint64_t *>(block(count * 8));
	for (uint64_t round = 1; round <= 20; round++) {
		/* The last ones are not replayed yet: too few to wake the replayer. */
		for (uint64_t k = 0; k < 10; k++)
			fur::update(*self_, [&](fur_update *tx) {
				fur_store(tx, &at[round * 50 + k], round * 1000 + k);
			});
		std::vector<uint64_t> expected(at, at + count);
		Job job("add", 8, {{at, 8, count}});
		for (uint64_t k = 0; k < count; k++)
			add_bytes(&expected[k], 8, k, job.add.to_operator);
		ASSERT_EQ(job.run(*self_), 0) << fur_errormsg();
		ASSERT_EQ(memcmp(at, expected.data(), count * 8), 0) << round;
		EXPECT_EQ(job.calls, 0u);
	}
}

/* In the middle of the errand, in the thread that waits for it: another one stores. */
TEST_P(Operators, ARecordThatIsChangedMeanwhile_IsMappedAgainByTheProgram)
{
	serve();
	Helper other(heap_->get());
	const uint64_t count = 5000;
	auto store_77 = [](fur_thread *t, tx_mode mode, uint64_t *at) {
		auto store = [at](fur_update *tx) {
			for (unsigned k : {10u, 4999u, 4996u})
				fur_store(tx, &at[k], UINT64_C(77));
		};
		prefer_in_place(t, mode == TX_IN_PLACE);
		if (mode == TX_CONCURRENT)
			fur::update(t, fur::rerun, store);
		else
			fur::update(t, store);
	};
	for (tx_mode mode : {TX_IN_PLACE, TX_SERIAL, TX_CONCURRENT}) {
		auto *at = reinterpret_cast<uint64_t *>(block(count * 8));
		Job job("add", 8, {{at, 8, count}}, {1, 4, 20});
		std::vector<uint64_t> expected(at, at + count);
		expected[10] = expected[4999] = expected[4996] = 77;
		for (uint64_t k = 0; k < count; k++)
			add_bytes(&expected[k], 8, k, job.add.to_operator);
		bool stored = false;
		job.on_progress([&](uint64_t done) {
			if (done >= 4096 && !std::exchange(stored, true))
				other.run([&](fur_thread *t) { store_77(t, mode, at); });
			return true;
		});
		ASSERT_EQ(job.run(*self_), 0) << fur_errormsg();
		EXPECT_TRUE(stored);
		EXPECT_GE(job.result.again, 3u);
		EXPECT_GE(job.calls, 3u);
		EXPECT_LT(job.calls, 100u);
		for (uint64_t k = 0; k < count; k++)
			ASSERT_EQ(at[k], expected[k]) << k;
	}
}

TEST_P(Operators, NextToThreadsWithUpdates_NoneIsLost)
{
	serve();
	const uint64_t count = 20000;
	auto *at = reinterpret_cast<uint64_t *>(block(count * 8));
	std::atomic<bool> over{false};
	std::atomic<uint64_t> added{0};
	std::vector<std::thread> threads;
	for (unsigned i = 0; i < 2; i++)
		threads.emplace_back([&, i] {
			fur::Thread self(heap_->get());
			for (uint64_t x = i; !over; added++) {
				x = x * 6364136223846793005 + 1442695040888963407;
				uint64_t *word = at + (x >> 40) % count;
				auto add = [&](fur_update *tx) {
					fur_store(tx, word, fur_load(tx, word) + 1000);
				};
				if (i)
					fur::update(self, fur::rerun, add);
				else
					fur::update(self, add);
			}
		});
	/* An operator's addition to the first byte only would carry: so keep the sum small. */
	uint64_t expected = 0;
	for (int k = 0; k < 6; k++) {
		Job job("count", 8, {{at, 8, count}}, {},
		        [](void *copy, size_t, uint64_t number, const AddArg &) {
			        const uint64_t value = number + 1;
			        memcpy(copy, &value, 8);
			        return true;
		        });
		ASSERT_EQ(job.run(*self_), 0) << fur_errormsg();
		fur::read(*self_, [&](fur_ro *) {
			for (uint64_t n = 0; n < count; n++)
				expected += (at[n] - n - 1) % 1000;
		});
	}
	over = true;
	for (auto &t : threads)
		t.join();
	EXPECT_EQ(expected, 0u) << "a result that is neither the operator's nor an update's";
	EXPECT_EQ(blocks_in_use(), 1u);
	EXPECT_GT(added, 0u);
}

/* ------------------------------------------------------------ errors */

TEST_P(Operators, WithoutFurOperatorsOrAnOperator_OneClearError)
{
	uint8_t *at = block(64 * 200, 3);
	Job job("add", 64, {{at, 64, 200}});
	expect_error(job, FUR_ENOENT, "none serves this heap", at, 64 * 200);
	{
		const Replayer alone(path_);
		expect_error(job, FUR_ENOENT, "none serves this heap", at, 64 * 200);
	}
	serve();
	Job unknown("nobody", 64, {{at, 64, 200}});
	expect_error(unknown, FUR_ENOENT, "no operator 'nobody'", at, 64 * 200);
	EXPECT_EQ(job.run(*self_), 0) << fur_errormsg();
	EXPECT_EQ(job.result.by_operator, 200u);
}

TEST_P(Operators, WrongArguments_OneClearError)
{
	uint8_t *at = block(64 * 200, 3);
	serve();
	const std::string longest(63, 'n'), longer(64, 'n');
	std::vector<uint8_t> arg(2049);
	Job job("add", 64, {{at, 64, 200}});
	job.operator_name = "";
	expect_error(job, FUR_EINVAL, "1 to 63 bytes", at, 64 * 200);
	job.operator_name = longer.c_str();
	expect_error(job, FUR_EINVAL, "1 to 63 bytes", at, 64 * 200);
	job.operator_name = longest.c_str();
	expect_error(job, FUR_ENOENT, "no operator 'nnn", at, 64 * 200);
	job.operator_name = "add";
	job.arg_bytes = 2049;
	expect_error(job, FUR_EINVAL, "at most 2048 bytes", at, 64 * 200);
	job.arg_bytes = 8;
	job.arg = nullptr;
	expect_error(job, FUR_EINVAL, "arg is NULL", at, 64 * 200);
	job.arg = &job.add;
	job.map = nullptr;
	expect_error(job, FUR_EINVAL, "map", at, 64 * 200);
	Job none("add", 64, {{at, 0, 2}});
	expect_error(none, FUR_EINVAL, "stride", at, 64 * 200);
	Job overlap("add", 64, {{at, 64, 2}, {at + 64, 64, 2}});
	expect_error(overlap, FUR_EINVAL, "overlap", at, 64 * 200);
	Job outside("add", 64, {{&at, 64, 2}});
	expect_error(outside, FUR_ERANGE, "memory for blocks", at, 64 * 200);
}

TEST_P(Operators, ABulkUpdateWithoutACall_IsMappedByTheProgram)
{
	uint8_t *at = block(64 * 200, 3);
	serve();
	Job job("nobody", 64, {{at, 64, 200}});
	job.by_program = true;
	ASSERT_EQ(job.run(*self_), 0) << fur_errormsg();
	EXPECT_EQ(job.calls, 200u);
	EXPECT_EQ(job.result.by_operator, 0u);
	EXPECT_EQ(at[0], 4u);
}

/* INV-OP6 */
TEST_P(Operators, ASecondProcess_IsRefused_WhileTheFirstOneLives)
{
	serve();
	Mapper second(path_, {OPERATORS_OBJECT});
	EXPECT_EQ(second.error(), FUR_EBUSY);
	EXPECT_NE(second.message().find("one is enough"), std::string::npos) << second.message();
	end_serving();
	Mapper third(path_, {OPERATORS_OBJECT});
	EXPECT_EQ(third.error(), 0) << third.message();
}

TEST_P(Operators, AnOperatorThatCrashesOrLeavesItsRecord_OneClearError_AndTheReplayerGoesOn)
{
	uint8_t *at = block(64 * 200, 3);
	serve();
	struct Bad {
		const char *name;
		size_t bytes;
		const char *says;
	};
	for (const Bad &bad :
	        {Bad{"crash", 64, "crashed"}, {"trap", 64, "crashed"}, {"deep", 64, "crashed"},
	                {"bus", 64, "crashed"}, {"beyond", 64, "beyond its record, number 100"},
	                {"beyond", 61, "beyond its record, number 100"},
	                {"before", 64, "beyond its record, number 100"},
	                {"before", 61, "beyond its record, number 100"}}) {
		Job job(bad.name, bad.bytes, {{at, 64, 200}});
		expect_error(job, FUR_EABORTED, bad.says, at, 64 * 200);
		EXPECT_EQ(job.calls, 0u);
	}
	Job job("add", 64, {{at, 64, 200}});
	EXPECT_EQ(job.run(*self_), 0) << fur_errormsg();
	EXPECT_EQ(job.result.by_operator, 200u);
	for (size_t k = 0; k < 64 * 200; k++)
		ASSERT_EQ(at[k], 4 + k / 64 % 7) << k;
}

TEST_P(Operators, ACancellation_ChangesNothing)
{
	const uint64_t count = 20000;
	uint8_t *at = block(64 * count, 3);
	serve();
	Job job("add", 64, {{at, 64, count}}, {1, 0, 50});
	job.on_progress([](uint64_t done) { return done == 0; });
	expect_error(job, FUR_EABORTED, "cancelled by the program's progress()", at, 64 * count);
	job.add.to_operator.us = 0;
	job.progress = nullptr;
	EXPECT_EQ(job.run(*self_), 0) << fur_errormsg();
	EXPECT_EQ(at[64 * count - 1], 4 + (count - 1) % 7);
}

/* ------------------------------------------------------------ deaths */

TEST_P(Operators, AReplayerThatEnds_LeavesTheRecordsToTheProgram)
{
	const uint64_t count = 20000;
	uint8_t *at = block(64 * count, 3);
	serve();
	Job job("add", 64, {{at, 64, count}}, {1, 0, 20});
	std::thread ender;
	job.on_progress([&](uint64_t done) {
		if (done && !ender.joinable())
			ender = std::thread([&] { EXPECT_TRUE(mapper_->end()); });
		return true;
	});
	ASSERT_EQ(job.run(*self_), 0) << fur_errormsg();
	ASSERT_TRUE(ender.joinable());
	ender.join();
	EXPECT_EQ(job.calls, count);
	EXPECT_EQ(job.result.by_operator, 0u);
	for (size_t k = 0; k < 64 * count; k++)
		ASSERT_EQ(at[k], 4 + k / 64 % 7) << k;
}

/* In a child: the thread that hangs stays. */
class HangingOperator : public HeapFile
{
};

TEST_F(HangingOperator, IsLeftByACancellation_AndTheReplayerCanEnd)
{
	in_killed_child([&] {
		fur::Heap heap = create(software_options());
		fur::Thread self(heap);
		auto *at =
		        fur::update(self, [](fur_update *tx) { return fur_alloc(tx, 200 * 64); });
		Mapper mapper(path_, {OPERATORS_OBJECT});
		void *object = dlopen(OPERATORS_OBJECT, RTLD_NOW);
		const auto *hanging = static_cast<const int *>(dlsym(object, "operators_hanging"));
		ASSERT_NE(hanging, nullptr);
		Job job("hang", 64, {{at, 64, 200}});
		job.on_progress(
		        [&](uint64_t) { return !__atomic_load_n(hanging, __ATOMIC_ACQUIRE); });
		EXPECT_EQ(job.run(self), FUR_EABORTED) << fur_errormsg();
		EXPECT_FALSE(mapper.end());
		EXPECT_EQ(job.run(self), FUR_ENOENT) << "it has no operators any more";
		_exit(::testing::Test::HasFailure() ? 1 : 0);
	});
}

/* ------------------------------------------------------------ the protocol, step by step */

constexpr uint64_t STEPS = 5000; /* records: two batches */

TEST_P(Steps, AllRecords_InBatches)
{
	uint8_t *at = block(64 * STEPS, 3);
	Job job("any", 64, {{at, 64, STEPS}});
	begin(job);
	while (exchange())
		ASSERT_TRUE(errand_serve_map(&server_));
	errand_serve_end(&server_);
	EXPECT_EQ(end(), 0);
	EXPECT_EQ(mapped_, STEPS);
	EXPECT_EQ(job.calls, 0u);
	for (uint64_t k = 0; k < 64 * STEPS; k++)
		ASSERT_EQ(at[k], 9) << k;
}

/* INV-OP1: a program that gives up after the operator has returned may give the block to others. */
TEST_P(Steps, Results_AreStoredWithTheRightToReplay_NotBefore)
{
	uint8_t *at = block(64 * STEPS, 3);
	Job job("any", 64, {{at, 64, STEPS}});
	begin(job);
	ASSERT_TRUE(exchange());
	const std::vector<uint8_t> before = in_file(server_.block, server_.block_bytes);
	ASSERT_TRUE(errand_serve_map(&server_));
	EXPECT_TRUE(in_file(server_.block, server_.block_bytes) == before);
	EXPECT_TRUE(exchange());
	EXPECT_FALSE(in_file(server_.block, server_.block_bytes) == before);
	ASSERT_TRUE(errand_serve_map(&server_));
	EXPECT_FALSE(exchange());
	errand_serve_end(&server_);
	EXPECT_EQ(end(), 0);
}

/* INV-OP2: the update of a thread that has announced it, and no more, as on TSX one that is visible
 * and has drawn no durTS yet. */
TEST_P(Steps, AProgramAsks_WhenAnUpdateThatIsVisibleHasDrawn_AndIsReplayed)
{
	uint8_t *at = block(64 * STEPS, 3);
	durability &d = heap_->get()->durability;
	Helper thread(heap_->get());
	commit update{};
	update.id = 9;
	thread.run([&](fur_thread *t) { update.me = t->index; });
	Job job("any", 64, {{at, 64, STEPS}});
	/* While nothing is replayed, the bulk update waits with its block, which comes before the
	 * marks. */
	pthread_mutex_lock(&d.replaying);
	program_ = std::thread([&] {
		fur::Thread self(heap_->get());
		result_ = job.run(self);
	});
	while (!__atomic_load_n(&header(heap_base(*heap_))->bulk, __ATOMIC_ACQUIRE))
		std::this_thread::yield();
	nondurable_wait_all(&d);
	nondurable_announce(&d, &update);
	pthread_mutex_unlock(&d.replaying);
	EXPECT_FALSE(asks_soon()) << "the update's stores may be in no record's copy";
	ring_draw(&d, &update);
	nondurable_publish(&d, &update);
	EXPECT_FALSE(asks_soon()) << "it has no marker yet";
	EXPECT_EQ(durability_abort(&d, &update), 0);
	while (!errand_serve_accept(&server_))
		std::this_thread::yield();
	EXPECT_TRUE(ring_replayed(&d, update.durts));
	while (exchange())
		ASSERT_TRUE(errand_serve_map(&server_));
	errand_serve_end(&server_);
	EXPECT_EQ(end(), 0);
	EXPECT_EQ(at[0], 9);
}

/* INV-OP1 */
TEST_P(Steps, AProgramThatHasGivenUp_FindsNothingStoredLater)
{
	uint8_t *at = block(64 * STEPS, 3);
	Job job("any", 64, {{at, 64, STEPS}});
	std::atomic<bool> cancelled;
	job.on_progress([&](uint64_t) { return !cancelled; });
	for (bool asks_again : {false, true}) {
		cancelled = false;
		begin(job);
		ASSERT_TRUE(exchange());
		ASSERT_TRUE(errand_serve_map(&server_));
		const uint64_t offset = server_.block, bytes = server_.block_bytes;
		cancelled = true;
		EXPECT_EQ(end(), FUR_EABORTED);
		if (!asks_again) {
			expect_nothing_stored(offset, bytes);
			continue;
		}
		/* With the block in use again, by a request of another number. */
		cancelled = false;
		std::thread next([this, &job] {
			fur::Thread self(heap_->get());
			EXPECT_EQ(job.run(self), FUR_EABORTED);
		});
		while (errand_state(arch_load(&request()->request)) != ERRAND_ASKED)
			std::this_thread::yield();
		EXPECT_EQ(request()->block, offset) << "the same block";
		expect_nothing_stored(offset, bytes);
		cancelled = true;
		next.join();
	}
	for (uint64_t k = 0; k < 64 * STEPS; k++)
		ASSERT_EQ(at[k], 3) << k;
}

/* It is stopped between two batches, or its operator hangs in a record. */
TEST_P(Steps, AReplayerThatMapsNothingMore_IsLeft_AndStoresNothingLater)
{
	uint8_t *at = block(64 * STEPS, 3);
	Job job("any", 64, {{at, 64, STEPS}});
	const uint64_t usual = std::exchange(errand_silence_ns, MIB);
	for (unsigned batches : {0u, 1u}) {
		begin(job);
		ASSERT_TRUE(exchange());
		for (unsigned k = 0; k < batches; k++) {
			ASSERT_TRUE(errand_serve_map(&server_));
			ASSERT_TRUE(exchange());
		}
		const uint64_t offset = server_.block, bytes = server_.block_bytes;
		const std::vector<uint8_t> before(at, at + 64 * STEPS);
		EXPECT_EQ(end(), FUR_EBUSY);
		EXPECT_TRUE(std::equal(before.begin(), before.end(), at));
		expect_nothing_stored(offset, bytes);
	}
	errand_silence_ns = usual;
}

/* All are mapped: to make the results durable may take as long as the disk needs. */
TEST_P(Steps, AReplayerThatHasMappedAll_IsNotLeft)
{
	uint8_t *at = block(64 * STEPS, 3);
	Job job("any", 64, {{at, 64, STEPS}});
	std::atomic<unsigned> looks{0};
	job.on_progress([&](uint64_t done) {
		looks += done == STEPS;
		return true;
	});
	begin(job);
	while (exchange())
		ASSERT_TRUE(errand_serve_map(&server_));
	const uint64_t usual = std::exchange(errand_silence_ns, 1);
	while (looks < 3)
		std::this_thread::yield();
	errand_serve_end(&server_);
	EXPECT_EQ(end(), 0) << fur_errormsg();
	errand_silence_ns = usual;
}

TEST_P(Steps, AReplayerThatDies_OrIsReplaced_OrFindsAnotherProgram_LeavesAllToTheProgram)
{
	for (int how = 0; how < 4; how++) {
		uint8_t *at = block(64 * STEPS, 3);
		Job job("any", 64, {{at, 64, STEPS}});
		begin(job);
		ASSERT_TRUE(exchange());
		ASSERT_TRUE(errand_serve_map(&server_));
		ASSERT_TRUE(exchange());
		const uint64_t offset = server_.block, bytes = server_.block_bytes;
		if (how == 0)
			heap_lock_give_back(durability_.pm.fd, HEAP_LOCK_LAB);
		else if (how == 1)
			request()->operators_pid = 2;
		else if (how == 2)
			errand_serve_start(&durability_, 1); /* of one that comes next */
		else {
			region()->opened++;
			EXPECT_FALSE(exchange());
		}
		EXPECT_EQ(end(), 0) << fur_errormsg();
		EXPECT_EQ(job.calls, STEPS);
		EXPECT_EQ(job.result.by_operator, 0u);
		EXPECT_EQ(job.result.changed, STEPS);
		expect_nothing_stored(offset, bytes);
		for (uint64_t k = 0; k < 64 * STEPS; k++)
			ASSERT_EQ(at[k], 4 + k / 64 % 7) << k << " " << how;
		if (how == 0) {
			EXPECT_EQ(heap_lock_try(durability_.pm.fd, HEAP_LOCK_LAB), 0);
		}
		request()->operators_pid = 1;
	}
}

/* A program that dies leaves its request, in any state: nothing is stored for it, and it gives way
 * to the next one's (INV-OP1). */
TEST_P(Steps, AProgramThatOpensTheHeap_EndsAnEarlierRequest)
{
	const uint64_t opened = region()->opened;
	for (enum errand_state left : {ERRAND_ASKED, ERRAND_RUNS}) {
		uint8_t *at = block(64 * STEPS, 3);
		const uint64_t offset = uint64_t(at - static_cast<uint8_t *>(heap_base(*heap_)));
		/* Its fields would lead into the living program's records. */
		const uint64_t number = errand_number(request()->request) + 1;
		request()->opened = uint32_t(opened - 1);
		request()->block = offset;
		request()->block_bytes = 64 * STEPS;
		request()->rows = 1;
		arch_store(&request()->request, errand_request(number, ERRAND_ASKED));
		if (left == ERRAND_RUNS) {
			ASSERT_TRUE(errand_serve_accept(&server_));
			expect_nothing_stored(offset, 64 * STEPS);
			EXPECT_EQ(errand_state(request()->request), ERRAND_REFUSED);
		}
		Job job("any", 64, {{at, 64, STEPS}});
		begin(job);
		/* What is taken up first may be the dead program's. */
		if (server_.number == number) {
			expect_nothing_stored(offset, 64 * STEPS);
			while (!errand_serve_accept(&server_))
				std::this_thread::yield();
		}
		EXPECT_GT(server_.number, number);
		while (exchange())
			ASSERT_TRUE(errand_serve_map(&server_));
		errand_serve_end(&server_);
		EXPECT_EQ(end(), 0) << fur_errormsg();
		EXPECT_EQ(job.result.by_operator, STEPS);
		for (uint64_t k = 0; k < 64 * STEPS; k++)
			ASSERT_EQ(at[k], 9) << k;
	}
}

/* Before the fields: fur-operators must not find them under the number of a dead program. */
TEST_P(Steps, ARequest_IsWithdrawn_BeforeTheNextOneIsWritten)
{
	uint8_t *at = block(64 * STEPS, 3);
	const uint64_t number = errand_number(request()->request) + 1;
	request()->opened = region()->opened - 1;
	arch_store(&request()->request, errand_request(number, ERRAND_ASKED));
	ASSERT_TRUE(errand_serve_accept(&server_));
	Job job("any", 64, {{at, 64, STEPS}});
	program_ = std::thread([&] {
		fur::Thread self(heap_->get());
		result_ = job.run(self);
	});
	while (errand_number(arch_load(&request()->request)) == number)
		std::this_thread::yield();
	EXPECT_FALSE(errand_serve_is_wanted(&server_));
	EXPECT_FALSE(exchange());
	errand_serve_end(&server_);
	while (!errand_serve_accept(&server_))
		std::this_thread::yield();
	while (exchange())
		ASSERT_TRUE(errand_serve_map(&server_));
	errand_serve_end(&server_);
	EXPECT_EQ(end(), 0) << fur_errormsg();
}

/* Rows that another program has damaged. */
TEST_P(Steps, RowsThatMakeNoSense_AreRefused)
{
	uint8_t *at = block(64 * STEPS, 3);
	for (int field = 0; field < 6; field++) {
		Job job("any", 64, {{at, 64, STEPS}});
		begin(job);
		auto *row = reinterpret_cast<uint64_t *>(durability_.image + server_.block);
		row[field] = field == 1 ? 1 : UINT64_MAX / 3;
		EXPECT_FALSE(exchange());
		errand_serve_end(&server_);
		EXPECT_EQ(end(), FUR_EINVAL) << field;
		EXPECT_EQ(at[0], 3);
	}
}

INSTANTIATE_TEST_SUITE_P(Pm, Steps, SETTINGS, name_of);

/* ------------------------------------------------------------ files */

class OperatorFiles : public OpenHeap
{
protected:
	void expect_refused_file(const std::vector<const char *> &files, const char *says)
	{
		Mapper mapper(path_, files);
		EXPECT_NE(mapper.error(), 0) << says;
		EXPECT_NE(mapper.message().find(says), std::string::npos) << mapper.message();
		EXPECT_NE(mapper.message().find(files.back()), std::string::npos);
	}
	/* A copy of the operators, which the test may change. */
	std::string copy()
	{
		const std::string to = path_ + ".so";
		std::ifstream in(OPERATORS_OBJECT, std::ios::binary);
		std::ofstream out(to, std::ios::binary | std::ios::trunc);
		out << in.rdbuf();
		out.close();
		chmod(to.c_str(), 0755);
		return to;
	}
	~OperatorFiles() override
	{
		unlink((path_ + ".so").c_str());
	}
};

/* INV-OP4 */
TEST_F(OperatorFiles, OnlyASharedObjectOfTheOwner_ThatNobodyElseMayWrite_IsLoaded)
{
	const std::string object = copy();
	const char *file = object.c_str();
	{
		Mapper good(path_, {file});
		EXPECT_EQ(good.error(), 0) << good.message();
	}
	for (mode_t mode : {0775, 0757, 0622}) {
		chmod(file, mode);
		expect_refused_file({file}, "chmod go-w");
	}
	chmod(file, 0644);
	expect_refused_file({file, OPERATORS_OBJECT}, "another operator 'add'");
	expect_refused_file({"/nonexistent/operators.so"}, "cannot open it");
	expect_refused_file({"/dev/null"}, "not a regular file");
	std::ofstream(object, std::ios::trunc) << "not an object";
	expect_refused_file({file}, "cannot be loaded");
	if (geteuid() == 0) {
		copy();
		EXPECT_EQ(chown(file, 12345, 12345), 0);
		expect_refused_file({file}, "belongs to user 12345");
		/* This process is not that user, and would run the user's code with its rights. */
		EXPECT_EQ(chown(path_.c_str(), 12345, 12345), 0);
		expect_refused_file(
		        {file}, "belongs to user 12345, and fur-operators runs as user 0");
		EXPECT_EQ(chown(file, 0, 0), 0);
		Mapper of_root(path_, {file});
		EXPECT_EQ(of_root.error(), 0) << of_root.message();
	}
}

/* It may be next to the object: the loader has the open file, and no directory for $ORIGIN. */
TEST_F(OperatorFiles, AnObjectWhoseLibraryIsNotFound_IsRefusedForThatReason)
{
	expect_refused_file({NEEDING_OBJECT},
	        "a library that it needs cannot be loaded: libthat-is-nowhere.so");
	expect_refused_file({NEEDING_OBJECT}, "$ORIGIN");
}

TEST_F(OperatorFiles, AnObjectWithoutATable_IsRefused)
{
	expect_refused_file({NO_OPERATORS_OBJECT}, "no table of operators");
}

INSTANTIATE_TEST_SUITE_P(Pm, Operators, SETTINGS, name_of);

} // namespace
