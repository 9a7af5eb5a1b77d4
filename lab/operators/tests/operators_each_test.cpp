/* SPDX-License-Identifier: BSD-3-Clause
 *
 * operators_each_test.cpp - FUR_BULK_EACH by operators: windows of records, of which
 * fur-operators maps the next one while the program commits the present one (windows.h).
 */
#include "operators.hpp"

namespace
{

/* Several windows, each of several portions: the log is small. */
constexpr uint64_t COUNT = 12000;

struct EachJob : Job {
	template <class... A>
	EachJob(A &&...a) : Job(std::forward<A>(a)...)
	{
		atomic = FUR_BULK_EACH;
	}
};

class EachOperators : public Operators
{
protected:
	static std::vector<uint8_t> expected(const Job &job, size_t bytes, uint64_t n, uint8_t was)
	{
		std::vector<uint8_t> all(n * bytes, was);
		for (uint64_t k = 0; k < n; k++)
			add_bytes(&all[k * bytes], bytes, k, job.add.to_operator);
		return all;
	}
	/* Records of `bytes` bytes: of those at `at`, the first `records` are as the job makes
	 * them, and all others have bytes `was`. */
	void expect_first(const Job &job, const uint8_t *at, uint64_t records, uint8_t was = 3)
	{
		const std::vector<uint8_t> all = expected(job, job.bytes, COUNT, was);
		EXPECT_EQ(memcmp(at, all.data(), records * job.bytes), 0) << records;
		for (uint64_t k = records * job.bytes; k < COUNT * job.bytes; k++)
			ASSERT_EQ(at[k], was) << k / job.bytes << " of " << records;
	}
};

TEST_P(EachOperators, ChangeRecordsOfEverySizeAndPlace_AndNothingElse)
{
	struct Shape {
		size_t bytes, stride, offset;
		uint64_t count;
	};
	serve();
	for (Shape s : {Shape{1, 1, 0, 5000}, {3, 5, 1, 5000}, {8, 8, 0, COUNT}, {13, 16, 3, 5000},
	             {64, 64, 0, COUNT}, {100, 164, 4, 3000}, {5000, 5008, 8, 50}, {8, 8, 0, 1}}) {
		const size_t all = s.offset + s.count * s.stride;
		uint8_t *at = block(all, 7);
		EachJob job("add", s.bytes,
		        std::vector<fur_extent>{{at + s.offset, s.stride, s.count}},
		        AddArg{3, 5, 0});
		std::vector<uint8_t> expected(all, 7);
		for (uint64_t k = 0; k < s.count; k++)
			add_bytes(&expected[s.offset + k * s.stride], s.bytes, k,
			        job.add.to_operator);
		ASSERT_EQ(job.run(*self_), 0) << fur_errormsg();
		EXPECT_EQ(memcmp(at, expected.data(), all), 0) << s.bytes;
		EXPECT_EQ(job.result.records, s.count);
		EXPECT_EQ(job.result.by_operator, s.count);
		EXPECT_EQ(job.result.changed, s.count - (s.count + 4) / 5);
		EXPECT_EQ(job.calls, 0u) << "the program mapped records itself";
		EXPECT_TRUE(s.count < 1000 || job.result.updates > 2) << job.result.updates;
		ASSERT_EQ(fur_sync(heap_->get()), 0);
		fur::update(*self_, [&](fur_update *tx) { fur_free(tx, fur_root(tx, 0)); });
		EXPECT_EQ(blocks_in_use(), 0u);
	}
}

TEST_P(EachOperators, ExtentsInAnyOrder_AreNumberedAsGiven_ManyInAWindow_AndOverItsEnds)
{
	serve();
	const uint64_t small = 3000, large = 5000;
	auto *at = reinterpret_cast<uint64_t *>(block((small * 2 + large + 1) * 8));
	std::vector<fur_extent> extents;
	for (uint64_t k = small; k-- > 0;) /* against the order of addresses */
		extents.push_back({at + k * 2, 0, 1});
	extents.push_back({at + small * 2, 8, large});
	EachJob job("count", size_t{8}, extents);
	ASSERT_EQ(job.run(*self_), 0) << fur_errormsg();
	for (uint64_t k = 0; k < small; k++) {
		ASSERT_EQ(at[k * 2], small - k);
		ASSERT_EQ(at[k * 2 + 1], 0u);
	}
	for (uint64_t k = 0; k < large; k++)
		ASSERT_EQ(at[small * 2 + k], small + k + 1);
	EXPECT_EQ(at[small * 2 + large], 0u);
	EXPECT_EQ(job.calls, 0u);
}

TEST_P(EachOperators, TheResultIsInTheFile_WhenTheHeapIsOpenedAgain)
{
	serve();
	uint8_t *at = block(COUNT * 64, 1);
	EachJob job("add", size_t{64}, std::vector<fur_extent>{{at, 64, COUNT}}, AddArg{2, 3, 0});
	ASSERT_EQ(job.run(*self_), 0) << fur_errormsg();
	end_serving();
	self_.reset();
	heap_->close();
	heap_.emplace(open(software_options()));
	expect_first(job, static_cast<uint8_t *>(root_at_rest(heap_->get(), 0)), COUNT, 1);
}

/* INV-OP2: what earlier updates have stored is only in the log and in the program's memory. */
TEST_P(EachOperators, TheOperatorSeesAllThatWasCommittedBefore)
{
	serve();
	auto *at = reinterpret_cast<uint64_t *>(block(COUNT * 8));
	for (uint64_t round = 1; round <= 10; round++) {
		for (uint64_t k = 0; k < 10; k++)
			fur::update(*self_, [&](fur_update *tx) {
				fur_store(tx, &at[round * 50 + k], round * 1000 + k);
				fur_store(tx, &at[COUNT - 1 - k], round * 1000 + k);
			});
		std::vector<uint64_t> expected(at, at + COUNT);
		EachJob job("add", size_t{8}, std::vector<fur_extent>{{at, 8, COUNT}});
		for (uint64_t k = 0; k < COUNT; k++)
			add_bytes(&expected[k], 8, k, job.add.to_operator);
		ASSERT_EQ(job.run(*self_), 0) << fur_errormsg();
		ASSERT_EQ(memcmp(at, expected.data(), COUNT * 8), 0) << round;
		EXPECT_EQ(job.calls, 0u);
	}
}

/* Between two portions: of the present window, of the next one, which the replayer has been asked
 * for, and of later ones. */
TEST_P(EachOperators, ARecordThatIsChangedMeanwhile_KeepsTheChange_AndIsMappedOnce)
{
	serve();
	Helper other(heap_->get());
	for (tx_mode mode : {TX_IN_PLACE, TX_SERIAL, TX_CONCURRENT}) {
		auto *at = reinterpret_cast<uint64_t *>(block(COUNT * 8));
		EachJob job(
		        "add", size_t{8}, std::vector<fur_extent>{{at, 8, COUNT}}, AddArg{1, 4, 0});
		std::vector<uint64_t> expected(at, at + COUNT);
		for (uint64_t k = 0; k < COUNT; k++)
			add_bytes(&expected[k], 8, k, job.add.to_operator);
		auto store_77 = [&](fur_thread *t) {
			auto store = [at](fur_update *tx) {
				for (uint64_t k = 0; k < COUNT; k += 37)
					fur_store(tx, &at[k], UINT64_C(77));
			};
			prefer_in_place(t, mode == TX_IN_PLACE);
			if (mode == TX_CONCURRENT)
				fur::update(t, fur::rerun, store);
			else
				fur::update(t, store);
		};
		uint64_t stored = 0;
		job.on_progress([&](uint64_t done) {
			if (done >= 1000 && !stored) {
				stored = done;
				other.run(store_77);
				for (uint64_t k = 0; k < COUNT; k += 37) {
					expected[k] = 77;
					if (k >= done)
						add_bytes(&expected[k], 8, k, job.add.to_operator);
				}
			}
			return true;
		});
		ASSERT_EQ(job.run(*self_), 0) << fur_errormsg();
		EXPECT_GE(stored, 1000u);
		EXPECT_LT(stored, COUNT);
		EXPECT_GE(job.calls, 1u) << "the present window's, at least";
		EXPECT_LE(job.calls, COUNT / 37 + 1) << "only those";
		EXPECT_EQ(job.result.again, job.calls);
		for (uint64_t k = 0; k < COUNT; k++)
			ASSERT_EQ(at[k], expected[k]) << k;
	}
}

TEST_P(EachOperators, NextToThreadsWithUpdates_NoneIsLost)
{
	serve();
	const uint64_t change = 1 << 20;
	auto *at = reinterpret_cast<uint64_t *>(block(COUNT * 8));
	std::atomic<bool> over{false};
	std::atomic<uint64_t> added{0};
	std::vector<std::thread> threads;
	for (unsigned i = 0; i < 3; i++)
		threads.emplace_back([&, i] {
			fur::Thread self(heap_->get());
			for (uint64_t x = i; !over; added++) {
				x = x * 6364136223846793005 + 1442695040888963407;
				uint64_t *word = at + (x >> 40) % COUNT;
				auto add = [&](fur_update *tx) {
					fur_store(tx, word, fur_load(tx, word) + 1);
				};
				if (i == 0)
					fur::update(self, add);
				else
					fur::update(self, fur::rerun, add);
			}
		});
	const int rounds = 6;
	uint64_t by_operator = 0;
	for (int k = 0; k < rounds; k++) {
		EachJob job("plus", size_t{8}, std::vector<fur_extent>{{at, 8, COUNT}},
		        AddArg{change, 0, 0}, [](void *copy, size_t, uint64_t, const AddArg &a) {
			        *static_cast<uint64_t *>(copy) += a.add;
			        return true;
		        });
		ASSERT_EQ(job.run(*self_), 0) << fur_errormsg();
		by_operator += job.result.by_operator;
	}
	over = true;
	for (auto &t : threads)
		t.join();
	uint64_t sum = 0;
	for (uint64_t n = 0; n < COUNT; n++) {
		ASSERT_EQ(at[n] / change, uint64_t(rounds)) << n;
		sum += at[n] % change;
	}
	EXPECT_EQ(sum, added);
	EXPECT_EQ(by_operator, rounds * COUNT);
	EXPECT_EQ(blocks_in_use(), 1u);
}

/* ------------------------------------------------------------ errors */

TEST_P(EachOperators, WithoutFurOperatorsOrAnOperator_OneClearError)
{
	uint8_t *at = block(64 * COUNT, 3);
	EachJob job("add", size_t{64}, std::vector<fur_extent>{{at, 64, COUNT}});
	expect_error(job, FUR_ENOENT, "none serves this heap", at, 64 * COUNT);
	serve();
	EachJob unknown("nobody", size_t{64}, std::vector<fur_extent>{{at, 64, COUNT}});
	expect_error(unknown, FUR_ENOENT, "no operator 'nobody'", at, 64 * COUNT);
	EXPECT_EQ(unknown.result.records, 0u);
	EXPECT_EQ(job.run(*self_), 0) << fur_errormsg();
	EXPECT_EQ(job.result.by_operator, COUNT);
}

/* The windows before it are committed, and no record from it on is changed. */
TEST_P(EachOperators, AnOperatorThatCrashesHalfWay_LeavesTheWindowsBefore)
{
	serve();
	for (const char *name : {"crash_late", "beyond_late", "bus_late"})
		for (uint64_t bad : {0, 100, 7000, 11999}) {
			uint8_t *at = block(64 * COUNT, 3);
			EachJob job(name, size_t{64}, std::vector<fur_extent>{{at, 64, COUNT}},
			        AddArg{1, bad, 0},
			        [](void *copy, size_t bytes, uint64_t number, const AddArg &) {
				        return add_bytes(copy, bytes, number, {1, 0, 0});
			        });
			EXPECT_EQ(job.run(*self_), FUR_EABORTED) << fur_errormsg();
			EXPECT_NE(std::string(fur_errormsg()).find(std::to_string(bad)),
			        std::string::npos)
			        << fur_errormsg();
			EXPECT_LE(job.result.records, bad);
			EXPECT_TRUE(bad < 7000 || job.result.records > 1000) << "no window";
			EXPECT_EQ(job.result.by_operator, job.result.records);
			EXPECT_EQ(job.calls, 0u);
			job.add.to_operator = {1, 0, 0};
			expect_first(job, at, job.result.records);
			EXPECT_EQ(blocks_in_use(), 1u);
			fur::update(*self_, [&](fur_update *tx) { fur_free(tx, fur_root(tx, 0)); });
		}
}

TEST_P(EachOperators, ACancellation_LeavesTheFirstRecordsChanged_AndNoOthers)
{
	uint8_t *at = block(64 * COUNT, 3);
	serve();
	EachJob job("add", size_t{64}, std::vector<fur_extent>{{at, 64, COUNT}});
	uint64_t cancelled_at = 0;
	job.on_progress([&](uint64_t done) {
		if (done < 2000)
			return true;
		cancelled_at = done;
		return false;
	});
	EXPECT_EQ(job.run(*self_), FUR_EABORTED);
	EXPECT_NE(std::string(fur_errormsg()).find("cancelled by"), std::string::npos);
	EXPECT_EQ(job.result.records, cancelled_at);
	EXPECT_LT(job.result.records, COUNT);
	expect_first(job, at, job.result.records);
	EXPECT_EQ(blocks_in_use(), 1u);
	const std::vector<uint8_t> three(64, 3);
	for (uint64_t k = 0; k < job.result.records; k++)
		fur::update(*self_, [&](fur_update *tx) {
			fur_write(tx, at + k * 64, three.data(), three.size());
		});
	EachJob next("add", size_t{64}, std::vector<fur_extent>{{at, 64, COUNT}});
	EXPECT_EQ(next.run(*self_), 0) << fur_errormsg();
	EXPECT_EQ(next.result.by_operator, COUNT);
}

TEST_P(EachOperators, ProgressTellsTheRecordsThatHaveCommitted)
{
	uint8_t *at = block(64 * COUNT, 3);
	serve();
	EachJob job("add", size_t{64}, std::vector<fur_extent>{{at, 64, COUNT}}, AddArg{1, 0, 5});
	uint64_t last = 0, calls = 0;
	job.on_progress([&](uint64_t done) {
		EXPECT_GE(done, last);
		EXPECT_TRUE(done == 0 || at[(done - 1) * 64] != 3);
		EXPECT_TRUE(done == COUNT || at[done * 64] == 3);
		last = done;
		calls++;
		return true;
	});
	EXPECT_EQ(job.run(*self_), 0) << fur_errormsg();
	EXPECT_EQ(last, COUNT);
	EXPECT_GT(calls, job.result.updates) << "none while it waited for the operator";
}

TEST_P(EachOperators, WithoutRoomForAWindow_OneClearError_AndLittleRoomIsEnough)
{
	serve();
	std::vector<uint8_t *> blocks;
	uint8_t *at = block(64 * COUNT, 3);
	/* Fill the heap, down to blocks that are smaller than a window. */
	for (size_t bytes : {size_t{1} << 20, size_t{1} << 16, size_t{1} << 12})
		for (;;) {
			fur_update *tx;
			ASSERT_EQ(fur_begin_update(*self_, &tx), 0);
			auto *p = static_cast<uint8_t *>(fur_alloc(tx, bytes));
			if (fur_commit(tx, nullptr) || !p)
				break;
			blocks.push_back(p);
		}
	EachJob job("add", size_t{64}, std::vector<fur_extent>{{at, 64, COUNT}});
	expect_error(job, FUR_ENOSPC, "", at, 64 * COUNT);
	EXPECT_EQ(header(heap_base(*heap_))->bulk, 0u);
	for (size_t k = 0; k < 2 && k < blocks.size(); k++) /* the large ones are the first */
		fur::update(*self_, [&](fur_update *tx) { fur_free(tx, blocks[k]); });
	EXPECT_EQ(job.run(*self_), 0) << fur_errormsg();
	expect_first(job, at, COUNT);
	EXPECT_EQ(job.result.by_operator, COUNT);
}

TEST_P(EachOperators, ARecordThatDoesNotFitTheLog_IsRefused_AndNothingChanges)
{
	const uint64_t count = 12, bytes = 100000;
	serve();
	auto *at = fur::update(*self_, [&](fur_update *tx) {
		return static_cast<uint8_t *>(fur_alloc(tx, count * bytes));
	});
	EachJob job("add", size_t{bytes}, std::vector<fur_extent>{{at, bytes, count}});
	expect_error(job, FUR_ETOOBIG, "fur-resize --log-bytes", at, count * bytes);
	EXPECT_EQ(job.result.records, 0u);
	EachJob small("add", size_t{64}, std::vector<fur_extent>{{at, 64, 1000}});
	EXPECT_EQ(small.run(*self_), 0) << "the thread goes on: " << fur_errormsg();
	EXPECT_EQ(small.result.by_operator, 1000u);
}

/* ------------------------------------------------------------ deaths */

TEST_P(EachOperators, AReplayerThatEnds_LeavesTheRestToTheProgram)
{
	for (bool at_once : {true, false}) {
		uint8_t *at = block(64 * COUNT, 3);
		serve();
		EachJob job("add", size_t{64}, std::vector<fur_extent>{{at, 64, COUNT}},
		        AddArg{1, 0, 5});
		std::thread ender;
		job.on_progress([&](uint64_t done) {
			if ((at_once || done) && !ender.joinable())
				ender = std::thread([&] { EXPECT_TRUE(mapper_->end()); });
			return true;
		});
		ASSERT_EQ(job.run(*self_), 0) << fur_errormsg();
		ASSERT_TRUE(ender.joinable());
		ender.join();
		EXPECT_EQ(job.calls + job.result.by_operator, COUNT);
		EXPECT_TRUE(at_once || job.result.by_operator > 0);
		EXPECT_LT(job.result.by_operator, COUNT);
		expect_first(job, at, COUNT);
		fur::update(*self_, [&](fur_update *tx) { fur_free(tx, fur_root(tx, 0)); });
	}
}

/* ------------------------------------------------------------ the protocol, step by step */

class EachSteps : public Steps
{
protected:
	void accept()
	{
		while (!errand_serve_accept(&server_))
			std::this_thread::yield();
	}
	/* The replayer's side of a window that it has accepted.  Returns the window's records. */
	uint64_t map_window()
	{
		const uint64_t before = mapped_;
		while (exchange())
			EXPECT_TRUE(errand_serve_map(&server_));
		errand_serve_end(&server_);
		return mapped_ - before;
	}
	/* A part of it, with results that are not stored yet. */
	void map_batches()
	{
		server_.limit = 50;
		for (int k = 0; k < 2; k++) {
			ASSERT_TRUE(exchange());
			ASSERT_TRUE(errand_serve_map(&server_));
		}
	}
	static Map nine()
	{
		return [](void *copy, size_t bytes, uint64_t, const AddArg &) {
			memset(copy, 9, bytes);
			return true;
		};
	}
};

TEST_P(EachSteps, TheNextWindowIsAskedFor_BeforeTheProgramHasCommittedThePresentOne)
{
	uint8_t *at = block(64 * COUNT, 3);
	EachJob job("any", size_t{64}, std::vector<fur_extent>{{at, 64, COUNT}}, AddArg{1, 0, 0},
	        nine());
	std::atomic<bool> go_on{false};
	std::atomic<uint64_t> committed{0};
	job.on_progress([&](uint64_t done) {
		committed = done;
		while (done && !go_on)
			std::this_thread::yield();
		return true;
	});
	begin(job);
	const uint64_t first = map_window();
	while (!committed)
		std::this_thread::yield();
	EXPECT_LT(committed, first) << "a portion is less than a window";
	accept();
	const uint64_t second = map_window();
	EXPECT_GT(second, 0u) << "while the program is in the first one";
	EXPECT_LT(committed, first);
	EXPECT_EQ(at[first * 64], 3) << "not committed yet";
	go_on = true;
	while (mapped_ < COUNT) {
		accept();
		map_window();
	}
	EXPECT_EQ(end(), 0) << fur_errormsg();
	EXPECT_EQ(job.result.by_operator, COUNT);
	for (uint64_t k = 0; k < 64 * COUNT; k++)
		ASSERT_EQ(at[k], 9) << k;
}

/* INV-OP1, with the errand that was asked for ahead. */
TEST_P(EachSteps, AProgramThatHasGivenUp_FindsNothingStoredLater)
{
	uint8_t *at = block(64 * COUNT, 3);
	EachJob job("any", size_t{64}, std::vector<fur_extent>{{at, 64, COUNT}}, AddArg{1, 0, 0},
	        nine());
	std::atomic<bool> stop{false};
	job.on_progress([&](uint64_t done) {
		while (done && !stop)
			std::this_thread::yield();
		return done == 0;
	});
	begin(job);
	map_window();
	accept();
	map_batches();
	const uint64_t offset = server_.block, bytes = server_.block_bytes;
	stop = true;
	EXPECT_EQ(end(), FUR_EABORTED);
	expect_nothing_stored(offset, bytes);
	EXPECT_EQ(blocks_in_use(), 1u);
	for (uint64_t k = 0; k < 64 * COUNT; k++)
		ASSERT_EQ(at[k], k < 64 * job.result.records ? 9 : 3) << k;
}

TEST_P(EachSteps, AReplayerThatDiesInTheSecondWindow_OrIsReplaced_LeavesTheRestToTheProgram)
{
	for (int how = 0; how < 3; how++) {
		uint8_t *at = block(64 * COUNT, 3);
		EachJob job("any", size_t{64}, std::vector<fur_extent>{{at, 64, COUNT}},
		        AddArg{1, 0, 0}, nine());
		begin(job);
		const uint64_t first = map_window();
		accept();
		map_batches();
		const uint64_t offset = server_.block, bytes = server_.block_bytes;
		if (how == 0)
			heap_lock_give_back(durability_.pm.fd, HEAP_LOCK_LAB);
		else if (how == 1)
			request()->operators_pid = 2;
		else
			errand_serve_start(&durability_, 1); /* of one that comes next */
		EXPECT_EQ(end(), 0) << fur_errormsg();
		EXPECT_EQ(job.result.by_operator, first);
		EXPECT_EQ(job.calls, COUNT - first);
		expect_nothing_stored(offset, bytes);
		for (uint64_t k = 0; k < 64 * COUNT; k++)
			ASSERT_EQ(at[k], 9) << k << " " << how;
		if (how == 0) {
			EXPECT_EQ(heap_lock_try(durability_.pm.fd, HEAP_LOCK_LAB), 0);
		}
		request()->operators_pid = 1;
		fur::update(*self_, [&](fur_update *tx) { fur_free(tx, fur_root(tx, 0)); });
	}
}

INSTANTIATE_TEST_SUITE_P(Pm, EachOperators, SETTINGS, name_of);
INSTANTIATE_TEST_SUITE_P(Pm, EachSteps, SETTINGS, name_of);

} // namespace
