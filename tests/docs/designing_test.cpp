/* SPDX-License-Identifier: BSD-3-Clause
 *
 * designing_test.cpp - the examples of docs/designing.md do what the page says: the right ones
 * work, and the wrong ones go wrong.  Each is a namespace of the header that examples_header.py
 * makes.
 */
#include "../unit/fixture.hpp"
#include "designing_examples.hpp"

#include <thread>

namespace
{

class Designing : public HeapFile
{
protected:
	Designing()
	{
		o_.log_bytes = 64 << 10;
		o_.heap_bytes = 16 << 20;
		o_.max_threads = 8;
	}
	/* The code with which `work` fails; 0 if it does not. */
	template <class Work>
	int code_of(Work work)
	{
		try {
			work();
		} catch (const fur::Error &e) {
			return e.code();
		}
		return 0;
	}
	/* What the heap has after `add`, and then a crash. */
	template <class Counter, class Add>
	uint64_t after_crash(Add add)
	{
		create(o_).close();
		in_killed_child([&] {
			fur::Heap heap = open(o_);
			fur::Thread self(heap);
			add(self, fur::root<Counter>(self, "counter"));
			_exit(0);
		});
		fur::Heap heap = open(o_);
		fur::Thread self(heap);
		auto *counter = fur::find_root<Counter>(self, "counter");
		return fur::read(self, [&](fur_ro *tx) { return fur_load(tx, &counter->n); });
	}
	fur::Options o_ = small_options();
};

TEST_F(Designing, PlainStore_IsLostInACrash)
{
	EXPECT_EQ(after_crash<plain_store::Counter>(plain_store::add), 0u);
}

TEST_F(Designing, LoggedStore_SurvivesACrash)
{
	EXPECT_EQ(after_crash<logged_store::Counter>(logged_store::add), 1u);
}

TEST_F(Designing, RangeRead_FindsBothWords)
{
	using range_read::Range;
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *range = fur::update(
	        self, fur::rerun, [](fur_update *tx) { return fur::make<Range>(tx, 3u, 5u); });
	const Range copy = fur::read(self, [&](fur_ro *tx) { return range_read::get(tx, range); });
	EXPECT_EQ(copy.first, 3u);
	EXPECT_EQ(copy.last, 5u);
}

/* A serial update is open while the body of sell() runs first, and waits for it to commit.  The
 * serial one then changes the stock, which defeats the body. */
TEST_F(Designing, SumInABodyThatRunsTwice_IsWrong)
{
	o_.htm = FUR_HTM_NONE;
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *stock = fur::root<uint64_t>(self, "stock");
	sum_in_body::total = 0;
	fur_update *tx;
	fur::check(fur_begin_update(self, &tx));
	std::thread seller([&] {
		fur::Thread other(heap);
		sum_in_body::sell(other, stock, 1);
	});
	while (__atomic_load_n(&sum_in_body::total, __ATOMIC_RELAXED) == 0)
		usleep(1000);
	fur_store(tx, stock, uint64_t{10});
	fur::check(fur_commit(tx, nullptr));
	seller.join();
	EXPECT_EQ(sum_in_body::total, 2u);
	EXPECT_EQ(fur::read(self, [&](fur_ro *ro) { return fur_load(ro, stock); }), 9u);
}

TEST_F(Designing, UpdateInAnUpdate_IsRefused_AndChangesNothing)
{
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *from = fur::root<uint64_t>(self, "from"), *to = fur::root<uint64_t>(self, "to");
	EXPECT_EQ(code_of([&] { update_in_update::transfer(self, from, to, 5); }), FUR_ENESTED);
	EXPECT_EQ(*from | *to, 0u);
	update_in_update::add(self, from, 7);
	update_as_argument::transfer(self, from, to, 5);
	EXPECT_EQ(*from, 2u);
	EXPECT_EQ(*to, 5u);
}

TEST_F(Designing, SumAfterTheBody_IsRight)
{
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *stock = fur::root<uint64_t>(self, "stock");
	std::thread buyer([&] {
		fur::Thread other(heap);
		for (int i = 0; i < 2000; i++)
			fur::update(other, fur::rerun, [&](fur_update *tx) {
				fur_store(tx, stock, fur_load(tx, stock) + 1);
			});
	});
	sum_after_body::total = 0;
	for (int i = 0; i < 1000; i++)
		sum_after_body::sell(self, stock, 1);
	buyer.join();
	EXPECT_EQ(sum_after_body::total, 1000u);
	EXPECT_EQ(fur::read(self, [&](fur_ro *tx) { return fur_load(tx, stock); }), 1000u);
}

TEST_F(Designing, TextOfTheProgram_LiesOutsideTheHeap)
{
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *wrong = fur::root<text_of_program::User>(self, "wrong");
	auto *right = fur::root<text_in_heap::User>(self, "right");
	const std::string name = "a name that is too long for the words of a fur::string";
	fur::update(self, [&](fur_update *tx) {
		text_of_program::rename(tx, wrong, name);
		text_in_heap::rename(tx, right, name);
	});
	fur::read(self, [&](fur_ro *tx) {
		const auto at = reinterpret_cast<uintptr_t>(fur_load(tx, &wrong->name));
		const auto base = heap.info().address;
		EXPECT_TRUE(at < base || at >= base + heap.info().heap_bytes);
		EXPECT_EQ(right->name.str(tx), name);
	});
}

/* first -> second -> third, with keys 1, 2, 3. */
template <class Node>
std::vector<Node *> make_list(fur_thread *self)
{
	return fur::update(self, fur::rerun, [](fur_update *tx) {
		auto *third = fur::make<Node>(tx, 3u, fur::ptr<Node>());
		auto *second = fur::make<Node>(tx, 2u, fur::ptr<Node>(third));
		auto *first = fur::make<Node>(tx, 1u, fur::ptr<Node>(second));
		return std::vector<Node *>{first, second, third};
	});
}

TEST_F(Designing, PointersInTheHeap_LeadToTheNextNode)
{
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto list = make_list<next_by_get::Node>(self);
	EXPECT_EQ(
	        fur::read(self, [&](fur_ro *tx) { return next_by_get::second(tx, list[0]); }), 2u);
}

TEST_F(Designing, KeyWithNamedPadding_IsFound)
{
	using padded_place::Place;
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *stock = fur::root<fur::hash_map<Place, uint64_t>>(self, "stock");
	fur::update(self, [&](fur_update *tx) { stock->insert(tx, Place{7, 2, {}}, 1); });
	fur::read(self, [&](fur_ro *tx) {
		EXPECT_TRUE(padded_place::has(tx, *stock, Place{7, 2, {}}));
		EXPECT_FALSE(padded_place::has(tx, *stock, Place{7, 3, {}}));
	});
}

TEST_F(Designing, PagesOfASession_SurviveACrash)
{
	create(o_).close();
	in_killed_child([&] {
		fur::Heap heap = open(o_);
		fur::Thread self(heap);
		fur::update(self, fur::rerun, [&](fur_update *tx) {
			auto *session = pages_in_heap::start(tx);
			session->pages.push_back(tx, 42);
			fur_set_root(tx, 0, session);
		});
		_exit(0);
	});
	fur::Heap heap = open(o_);
	fur::Thread self(heap);
	EXPECT_EQ(fur::read(self,
	                  [&](fur_ro *tx) {
		                  return fur::root<pages_in_heap::Session>(tx, 0)->pages.at(tx, 0);
	                  }),
	        42u);
}

TEST_F(Designing, Shops_AreFoundAgain)
{
	{
		fur::Heap heap = create(o_);
		fur::Thread self(heap);
		shop_in_two_updates::open_shop(self);
		shop_by_name::open_shop(self);
		heap.close();
	}
	fur::Heap heap = open(o_);
	fur::Thread self(heap);
	fur::read(self, [](fur_ro *tx) { EXPECT_NE(fur_root(tx, 0), nullptr); });
	EXPECT_EQ(fur::find_root<shop_by_name::Shop>(self, "shop"), shop_by_name::open_shop(self));
}

TEST_F(Designing, NamedPrices_AreRefusedWhenTheyChange)
{
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *shop = fur::root<prices_named::yesterday::Shop>(self, "shop");
	EXPECT_EQ(fur::root<prices_named::yesterday::Shop>(self, "shop"), shop);
	EXPECT_THROW(fur::root<prices_named::today::Shop>(self, "shop"), fur::type_mismatch);
}

/* Each run is killed after some updates; the next one goes on there. */
TEST_F(Designing, Conversion_GoesOnAfterAKill)
{
	using namespace convert_users;
	constexpr uint64_t USERS = 1000;
	const auto name_of = [](uint64_t id) { return "a long user name " + std::to_string(id); };
	{
		fur::Heap heap = create(o_);
		fur::Thread self(heap);
		auto *old = fur::root<OldUsers>(self, "users");
		for (uint64_t id = 0; id < USERS; id++)
			fur::update(self, fur::rerun, [&](fur_update *tx) {
				old->insert(tx, id, {});
				OldUser *user = old->lookup(tx, id);
				user->name.assign(tx, name_of(id));
				fur_store(tx, &user->logins, 3 * id);
			});
	}
	for (int updates = 0; updates < 20; updates += 4)
		in_killed_child([&] {
			fur::Heap heap = open(o_);
			fur::Thread self(heap);
			auto *old = fur::find_root<OldUsers>(self, "users");
			auto *now = fur::root<Users>(self, "users.2");
			for (int n = 0; n < updates; n++)
				fur::update(self, fur::rerun, [&](fur_update *tx) {
					EXPECT_TRUE(move_some(tx, old, now));
				});
			_exit(::testing::Test::HasFailure());
		});
	fur::Heap heap = open(o_);
	fur::Thread self(heap);
	for (int runs = 0; runs < 2; runs++) {
		auto *now = open_users(self);
		EXPECT_EQ(fur::find_root<OldUsers>(self, "users"), nullptr);
		fur::read(self, [&](fur_ro *tx) {
			EXPECT_EQ(now->size(tx), USERS);
			for (auto [id, user] : now->in(tx)) {
				EXPECT_EQ(user->name.view(tx), name_of(id));
				EXPECT_EQ(fur_load(tx, &user->logins), 3 * id);
				EXPECT_EQ(fur_load(tx, &user->failures), 0u);
				EXPECT_TRUE(user->sessions.empty(tx));
			}
		});
	}
}

TEST_F(Designing, CountsApart_HaveLinesOfTheirOwn)
{
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *counts = fur::update(self, fur::rerun, counts_apart::make_counts);
	for (const auto &count : counts->of_thread)
		EXPECT_EQ(reinterpret_cast<uintptr_t>(&count) % FUR_CACHE_LINE, 0u);
	EXPECT_EQ(sizeof *counts, 8u * FUR_CACHE_LINE);
	EXPECT_LT(sizeof(counts_shared::Counts), size_t{FUR_CACHE_LINE});
}

TEST_F(Designing, OrdersOfSeveralThreads_AreAllCounted)
{
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *with = fur::root<one_counter::Orders>(self, "with");
	auto *without = fur::root<no_counter::Orders>(self, "without");
	std::vector<std::thread> threads;
	for (uint64_t t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			fur::Thread thread(heap);
			for (uint64_t i = 0; i < 200; i++)
				fur::update(thread, fur::rerun, [&](fur_update *tx) {
					one_counter::add(tx, with, t * 1000 + i, 1);
					without->by_id.insert(tx, t * 1000 + i, 1);
				});
		});
	for (auto &thread : threads)
		thread.join();
	fur::read(self, [&](fur_ro *tx) {
		EXPECT_EQ(fur_load(tx, &with->number), 800u);
		EXPECT_EQ(no_counter::number(tx, without), 800u);
	});
}

TEST_F(Designing, LastDoctor_StaysOnDuty)
{
	using promoted::Duty;
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *duty = fur::update(
	        self, fur::rerun, [](fur_update *tx) { return fur::make<Duty>(tx, 1u, 0u); });
	auto ada = [&] {
		return fur::read(self, [&](fur_ro *tx) { return fur_load(tx, &duty->ada); });
	};
	fur::update(self, fur::rerun, [&](fur_update *tx) { promoted::ada_leaves(tx, duty); });
	EXPECT_EQ(ada(), 1u);
	fur::update(self, fur::rerun, [&](fur_update *tx) { fur_store(tx, &duty->grace, 1); });
	fur::update(self, fur::rerun, [&](fur_update *tx) { promoted::ada_leaves(tx, duty); });
	EXPECT_EQ(ada(), 0u);
}

/* libfur refuses to free the block that the thread freed last. */
TEST_F(Designing, RemovedNode_IsFree)
{
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto check = [&](auto list, auto remove_next) {
		remove_next(self, list[0]);
		EXPECT_EQ(fur::read(self, [&](fur_ro *tx) { return list[0]->next.get(tx); }),
		        list[2]);
		EXPECT_EQ(code_of([&] {
			fur::update(
			        self, fur::rerun, [&](fur_update *tx) { fur_free(tx, list[1]); });
		}),
		        FUR_EFREE);
	};
	check(make_list<freed_later::Node>(self), freed_later::remove_next);
	check(make_list<freed_at_once::Node>(self), freed_at_once::remove_next);
}

/* 10,000 entries are more than the log holds. */
TEST_F(Designing, LargeUpdate_DoesNotFitTheLog)
{
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *scores = fur::root<reset_in_parts::Scores>(self, "scores");
	auto size = [&] { return fur::read(self, [&](fur_ro *tx) { return scores->size(tx); }); };
	EXPECT_ANY_THROW(reset_at_once::reset(self, scores, 10000));
	EXPECT_EQ(size(), 0u);
	reset_in_parts::reset(self, scores, 10000);
	EXPECT_EQ(size(), 10000u);
}

/* A table of 256 KiB is more than the log holds, but fresh memory is not logged. */
TEST_F(Designing, FreshTable_MayBeLargerThanTheLog)
{
	constexpr uint64_t N = 32768;
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *wrong = fur::root<filled_later::Index>(self, "wrong");
	EXPECT_EQ(code_of([&] { filled_later::build(self, wrong, N); }), FUR_ETOOBIG);
	auto *right = fur::root<filled_at_once::Index>(self, "right");
	filled_at_once::build(self, right, N);
	fur::read(self,
	        [&](fur_ro *tx) { EXPECT_EQ(fur_load(tx, &right->table.get(tx)[N - 1]), N - 1); });
}

TEST_F(Designing, Lists_PrintTheSame)
{
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *users = fur::root<list_after::Users>(self, "users");
	fur::update(self, fur::rerun, [&](fur_update *tx) {
		users->insert(tx, "grace", 2);
		users->insert(tx, "ada", 1);
	});
	::testing::internal::CaptureStdout();
	list_inside::list(self, *users);
	list_after::list(self, *users);
	EXPECT_EQ(::testing::internal::GetCapturedStdout(), "ada 1\ngrace 2\nada 1\ngrace 2\n");
	EXPECT_EQ(code_of([&] {
		fur::scan(self, *users, [&](const std::string &name, uint64_t) {
			fur::update(self, [&](fur_update *tx) { users->erase(tx, name); });
		});
	}),
	        FUR_ENESTED);
}

TEST_F(Designing, PartsInText_AreInTheOrderOfText)
{
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *samples = fur::root<parts_in_text::Samples>(self, "samples");
	fur::update(self, [&](fur_update *tx) {
		for (int64_t time : {9, 10})
			parts_in_text::add(tx, samples, "cpu", time, 1);
		parts_in_text::add(tx, samples, "cpu1", 5, 1);
	});
	std::vector<std::string> keys;
	fur::scan(self, *samples, [&](const std::string &key, double) { keys.push_back(key); });
	EXPECT_EQ(keys, (std::vector<std::string>{"cpu10", "cpu15", "cpu9"}));
}

TEST_F(Designing, PartsInAPair_AreRanges)
{
	using namespace parts_in_pair;
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *samples = fur::root<Samples>(self, "samples");
	fur::update(self, [&](fur_update *tx) {
		for (const char *sensor : {"cpu1", "cpu", "ram"})
			for (int64_t time = -20; time < 20; time++)
				add(tx, samples, sensor, time, 1);
	});
	const auto in = [&](const char *sensor, int64_t from, int64_t to) {
		return fur::read(
		        self, [&](fur_ro *tx) { return sum(tx, samples, sensor, from, to); });
	};
	EXPECT_EQ(in("cpu", -100, 100), 40);
	EXPECT_EQ(in("cpu", -5, 11), 16);
	forget(self, samples, "cpu", 9);
	EXPECT_EQ(in("cpu", -100, 100), 11);
	EXPECT_EQ(in("cpu1", -100, 100), 40);
	EXPECT_EQ(in("cpu", -100, 9), 0);
}

TEST_F(Designing, EntriesExpire)
{
	using namespace expiring;
	fur::Heap heap = create(o_);
	fur::Thread self(heap);
	auto *all = fur::root<Sessions>(self, "sessions");
	const auto token = [](int64_t n) { return "token " + std::to_string(n); };
	for (int64_t n = 0; n < 300; n++)
		fur::update(self, [&](fur_update *tx) {
			start(tx, all, token(n), {static_cast<uint64_t>(n), n});
			if (n % 10 == 0) /* extended */
				start(tx, all, token(n), {static_cast<uint64_t>(n), n + 1000});
			if (n % 10 == 1)
				stop(tx, all, token(n));
		});
	const auto user = [&](int64_t n, int64_t now) {
		const auto session =
		        fur::read(self, [&](fur_ro *tx) { return find(tx, all, token(n), now); });
		return session ? static_cast<int64_t>(session->user) : -1;
	};
	for (bool swept : {false, true}) {
		EXPECT_EQ(user(5, 250), -1);
		EXPECT_EQ(user(250, 250), 250);
		EXPECT_EQ(user(10, 250), 10);
		EXPECT_EQ(user(261, 250), -1) << "stopped";
		EXPECT_EQ(user(262, 250), 262);
		fur::read(self, [&](fur_ro *tx) {
			EXPECT_EQ(all->by_token.size(tx), swept ? 70u : 270u);
			EXPECT_EQ(all->by_deadline.size(tx), all->by_token.size(tx));
		});
		sweep(self, all, 250);
	}
}

} // namespace
