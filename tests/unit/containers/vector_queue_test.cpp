/* SPDX-License-Identifier: BSD-3-Clause
 *
 * vector_queue_test.cpp - fur::vector against std::vector, and fur::queue against std::deque.
 */
#include "containers.hpp"

#include <atomic>
#include <deque>
#include <numeric>
#include <thread>

namespace
{

struct GaveUp {
};

/* A heap with one container of type C in it. */
template <class C>
class Sequence : public ContainerHeap
{
protected:
	Sequence()
	{
		c_ = fur::root<C>(self_, "container");
		before_ = blocks_of(heap_);
	}
	void reopen()
	{
		ContainerHeap::reopen();
		c_ = fur::find_root<C>(self_, "container");
		ASSERT_NE(c_, nullptr);
	}
	/* A heap with a small log, and memory that is not zero. */
	void start_with_small_log()
	{
		heap_.close();
		unlink(path_.c_str());
		fur::Options o = container_options();
		o.log_bytes = 4096;
		heap_ = create(o);
		self_ = fur::Thread(heap_);
		leave_traces(self_, 8);
		c_ = fur::root<C>(self_, "container");
	}
	void clear()
	{
		update([&](fur_update *tx) { c_->clear(tx); });
		EXPECT_EQ(blocks_of(heap_), before_);
	}
	/* Takes all memory but the smallest blocks. */
	void fill_heap()
	{
		for (size_t bytes : {1 << 16, 1 << 13, 1 << 10, 128}) {
			bool full = false;
			while (!full)
				update([&](fur_update *tx) { full = !fur_alloc(tx, bytes); });
		}
	}

	C *c_;
	uint64_t before_;
};

/* ------------------------------------------------------------------------------------ vector */

template <class T>
class Vectors : public Sequence<fur::vector<T>>
{
protected:
	using Model = std::vector<typename fur::vector<T>::value_type>;
	using Value = Sample<T>;

	void expect_same(const Model &model)
	{
		this->read([&](fur_ro *tx) {
			auto *v = this->c_;
			ASSERT_EQ(v->size(tx), model.size());
			EXPECT_EQ(v->empty(tx), model.empty());
			const auto all = v->in(tx);
			EXPECT_TRUE(std::equal(all.begin(), all.end(), model.begin(), model.end()));
			EXPECT_EQ(all.end() - all.begin(), static_cast<long>(model.size()));
			for (size_t i = 0; i < model.size(); i++) {
				ASSERT_TRUE(v->get(tx, i) == model[i]) << i;
				ASSERT_TRUE(all[i] == model[i]) << i;
			}
			EXPECT_THROW((void)v->at(tx, model.size()), std::out_of_range);
			EXPECT_EQ(v->lookup(tx, model.size()), nullptr);
		});
	}
	void push(Model &model, size_t n)
	{
		while (n > 0)
			this->update([&](fur_update *tx) {
				for (int k = 0; k < 50 && n > 0; k++, n--) {
					const auto value = Value::value(this->below(1000));
					this->c_->push_back(tx, value);
					model.push_back(value);
				}
			});
	}
	void random_operation(fur_update *tx, Model &model)
	{
		const auto value = Value::value(this->below(1000));
		auto *v = this->c_;
		const uint64_t i = this->below(model.size() + 2);
		switch (this->below(6)) {
		case 0:
		case 1:
			v->push_back(tx, value);
			model.push_back(value);
			break;
		case 2:
			if (model.empty()) {
				ASSERT_THROW(v->pop_back(tx), std::out_of_range);
				break;
			}
			ASSERT_TRUE(v->back(tx) == model.back());
			v->pop_back(tx);
			model.pop_back();
			break;
		case 3:
		case 4:
			if (i >= model.size()) {
				ASSERT_THROW(v->set(tx, i, value), std::out_of_range);
				break;
			}
			v->set(tx, i, value);
			model[i] = value;
			break;
		default:
			ASSERT_EQ(v->lookup(tx, i) != nullptr, i < model.size());
			if (i < model.size()) {
				ASSERT_TRUE(v->at(tx, i) == model[i]);
				ASSERT_TRUE(v->front(tx) == model.front());
			}
		}
	}
};

using VectorTypes = ::testing::Types<uint8_t, uint64_t, Wide, fur::string>;
TYPED_TEST_SUITE(Vectors, VectorTypes);

TYPED_TEST(Vectors, RandomOperations_AgreeWithStdVector)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(this->seed_));
	typename TestFixture::Model model;
	for (int round = 0; round < 300 && !this->HasFailure(); round++) {
		auto changed = model;
		const bool gives_up = this->below(8) == 0;
		try {
			this->update([&](fur_update *tx) {
				for (int k = 0; k < 15; k++)
					this->random_operation(tx, changed);
				if (gives_up)
					throw GaveUp();
			});
			model = changed;
		} catch (const GaveUp &) {
		}
		if (round % 20 == 0)
			this->expect_same(model);
	}
	this->reopen();
	this->expect_same(model);
	this->clear();
	this->expect_same({});
}

TYPED_TEST(Vectors, GrowthOverTheBoundsOfParts_AndBack)
{
	typename TestFixture::Model model;
	for (size_t part = 8, n = 0; n < 1000; n += part, part *= 2) {
		this->push(model, part - 1);
		this->expect_same(model);
		this->push(model, 1);
		this->expect_same(model);
	}
	while (!model.empty())
		this->update([&](fur_update *tx) {
			for (int k = 0; k < 60 && !model.empty(); k++) {
				EXPECT_TRUE(this->c_->back(tx) == model.back());
				this->c_->pop_back(tx);
				model.pop_back();
			}
		});
	this->expect_same({});
	this->push(model, 20);
	this->expect_same(model);
	this->clear();
}

TYPED_TEST(Vectors, Empty_ThrowsOutOfRange)
{
	this->expect_same({});
	this->update([&](fur_update *tx) {
		EXPECT_THROW((void)this->c_->front(tx), std::out_of_range);
		EXPECT_THROW((void)this->c_->back(tx), std::out_of_range);
		EXPECT_THROW(this->c_->pop_back(tx), std::out_of_range);
		EXPECT_THROW((void)this->c_->at(tx, 0), std::out_of_range);
		EXPECT_THROW((void)this->c_->at(tx, UINT64_MAX), std::out_of_range);
		EXPECT_THROW((void)this->c_->at(tx, UINT64_MAX - 7), std::out_of_range);
		EXPECT_THROW(this->c_->set(tx, 0, TestFixture::Value::value(1)), std::out_of_range);
		EXPECT_EQ(this->c_->lookup(tx, 0), nullptr);
	});
	this->clear();
}

TYPED_TEST(Vectors, AFullHeap_LeavesTheVectorAsItWas)
{
	typename TestFixture::Model model;
	this->push(model, 5);
	this->fill_heap();
	try {
		for (int n = 0; n < 100000; n++)
			this->push(model, 1);
		FAIL() << "the heap is never full";
	} catch (const fur::heap_full &) {
	}
	this->expect_same(model);
}

TYPED_TEST(Vectors, AnUpdateTooLargeForItsLog_LeavesTheVectorAsItWas)
{
	for (uint64_t before = 0; before < 24; before++) {
		this->start_with_small_log();
		auto *words = this->update(
		        [](fur_update *tx) { return fur::make_array<uint64_t>(tx, 64); });
		EXPECT_ANY_THROW(this->update([&](fur_update *tx) {
			for (uint64_t k = 0; k < before; k++)
				fur_store(tx, &words[2 * k], k);
			for (uint64_t n = 0; n < 600; n++) {
				this->c_->push_back(tx, TestFixture::Value::value(n));
				this->c_->set(tx, n / 2, TestFixture::Value::value(n + 1));
				if (n % 100 == 99)
					this->c_->clear(tx);
				(void)this->c_->size(tx);
			}
		}));
		this->expect_same({});
	}
}

using LongVector = Vectors<uint64_t>;
TEST_F(LongVector, AnIteratorOfAnyKind_IsAsARandomAccessIterator)
{
	Model model;
	push(model, 100);
	read([&](fur_ro *tx) {
		const auto all = c_->in(tx);
		auto at = all.begin();
		EXPECT_EQ(*(at + 7), model[7]);
		EXPECT_EQ(*(7 + at), model[7]);
		EXPECT_EQ(at[99], model[99]);
		at += 50;
		EXPECT_EQ(*(at - 3), model[47]);
		EXPECT_EQ(*at--, model[50]);
		EXPECT_EQ(*at++, model[49]);
		EXPECT_EQ(*--at, model[49]);
		EXPECT_TRUE(at < all.end() && at <= at && at >= all.begin() && at > all.begin());
		EXPECT_EQ(std::accumulate(all.begin(), all.end(), uint64_t(0)),
		        std::accumulate(model.begin(), model.end(), uint64_t(0)));
		EXPECT_TRUE(std::equal(std::make_reverse_iterator(all.end()),
		        std::make_reverse_iterator(all.begin()), model.rbegin()));
	});
	update([&](fur_update *tx) {
		uint64_t *third = c_->lookup(tx, 3);
		fur_store(tx, third, uint64_t(77));
		EXPECT_EQ(c_->get(tx, 3), 77u);
	});
}

/* ------------------------------------------------------------------------------------- queue */

template <class T>
class Queues : public Sequence<fur::queue<T>>
{
protected:
	using Model = std::deque<typename fur::queue<T>::value_type>;
	using Value = Sample<T>;

	void push_or_pop(fur_update *tx, Model &model, bool push)
	{
		auto *q = this->c_;
		if (push) {
			const auto value = Value::value(this->below(1000));
			q->push(tx, value);
			model.push_back(value);
			return;
		}
		const auto front = q->front(tx), popped = q->pop(tx);
		ASSERT_EQ(popped.has_value(), !model.empty());
		ASSERT_EQ(front.has_value(), !model.empty());
		if (model.empty())
			return;
		ASSERT_TRUE(*popped == model.front() && *front == model.front());
		model.pop_front();
	}
	void expect_size(const Model &model)
	{
		this->read([&](fur_ro *tx) {
			ASSERT_EQ(this->c_->size(tx), model.size());
			ASSERT_EQ(this->c_->empty(tx), model.empty());
			const auto front = this->c_->front(tx);
			ASSERT_EQ(front.has_value(), !model.empty());
			ASSERT_TRUE(!front || *front == model.front());
		});
	}
};

using QueueTypes = ::testing::Types<uint8_t, uint64_t, Wide, fur::string>;
TYPED_TEST_SUITE(Queues, QueueTypes);

TYPED_TEST(Queues, RandomOperations_AgreeWithStdDeque)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(this->seed_));
	typename TestFixture::Model model;
	for (int round = 0; round < 400 && !this->HasFailure(); round++) {
		auto changed = model;
		const bool gives_up = this->below(8) == 0;
		/* Long queues and short ones. */
		const uint64_t pushes = round / 50 % 2 ? 2 : 4;
		try {
			this->update([&](fur_update *tx) {
				for (int k = 0; k < 20; k++)
					this->push_or_pop(tx, changed, this->below(6) < pushes);
				if (gives_up)
					throw GaveUp();
			});
			model = changed;
		} catch (const GaveUp &) {
		}
		this->expect_size(model);
		if (round == 200)
			this->reopen();
	}
	this->clear();
	this->expect_size({});
}

TYPED_TEST(Queues, EverySize_EmptiedAndCleared)
{
	for (size_t n : {0, 1, 31, 32, 33, 63, 64, 65, 100}) {
		for (size_t popped : {size_t(0), size_t(1), n / 2, n}) {
			typename TestFixture::Model model;
			this->update([&](fur_update *tx) {
				for (size_t k = 0; k < n; k++)
					this->push_or_pop(tx, model, true);
			});
			this->update([&](fur_update *tx) {
				for (size_t k = 0; k < popped; k++)
					this->push_or_pop(tx, model, false);
			});
			this->expect_size(model);
			this->clear();
			this->expect_size({});
		}
	}
}

/* One more element than a block has, all the time, and none: the ends meet at each place. */
TYPED_TEST(Queues, APushAndAPopInTurn)
{
	for (size_t length : {0, 1, 31, 32, 33}) {
		typename TestFixture::Model model;
		for (size_t k = 0; k < length; k++)
			this->update([&](fur_update *tx) { this->push_or_pop(tx, model, true); });
		const uint64_t blocks = blocks_of(this->heap_);
		for (int k = 0; k < 100; k++) {
			this->update([&](fur_update *tx) { this->push_or_pop(tx, model, true); });
			this->update([&](fur_update *tx) { this->push_or_pop(tx, model, false); });
			this->expect_size(model);
		}
		if (!std::is_same_v<TypeParam, fur::string>) {
			EXPECT_LE(blocks_of(this->heap_), blocks + 3);
		}
		this->clear();
	}
}

TYPED_TEST(Queues, AFullHeap_LeavesTheQueueAsItWas)
{
	typename TestFixture::Model model;
	this->fill_heap();
	try {
		for (int n = 0; n < 100000; n++) {
			auto changed = model;
			this->update([&](fur_update *tx) { this->push_or_pop(tx, changed, true); });
			model.push_back(changed.back());
		}
		FAIL() << "the heap is never full";
	} catch (const fur::heap_full &) {
	}
	this->expect_size(model);
	while (!model.empty())
		this->update([&](fur_update *tx) { this->push_or_pop(tx, model, false); });
	this->expect_size({});
}

TYPED_TEST(Queues, AnUpdateTooLargeForItsLog_Ends)
{
	for (uint64_t before = 0; before < 24; before++) {
		this->start_with_small_log();
		typename TestFixture::Model model;
		for (int n = 0; n < 40; n++)
			this->update([&](fur_update *tx) {
				for (int k = 0; k < 8; k++)
					this->push_or_pop(tx, model, true);
			});
		auto *words = this->update(
		        [](fur_update *tx) { return fur::make_array<uint64_t>(tx, 64); });
		EXPECT_ANY_THROW(this->update([&](fur_update *tx) {
			for (uint64_t k = 0; k < 64; k++)
				fur_store(tx, &words[k], k);
			for (uint64_t k = 0; k < before; k++)
				this->c_->push(tx, TestFixture::Value::value(k));
			for (uint64_t k = 0; k < 150; k++)
				fur_store(tx, &words[k % 64], k);
			this->c_->clear(tx);
			for (uint64_t k = 0; k < 200; k++)
				this->c_->push(tx, TestFixture::Value::value(k));
			this->c_->clear(tx);
		}));
		this->expect_size(model);
	}
}

/* ----------------------------------------------------------------------------------- threads */

class SequenceCrowds : public HeapFile, public ::testing::WithParamInterface<Crowd>
{
protected:
	enum : uint64_t { THREADS = 2, EACH = 1200 };

	template <class Body>
	static auto update(fur_thread *me, Body &&body)
	{
		return GetParam().rerun ? fur::update(me, fur::rerun, body) : fur::update(me, body);
	}
	/* Run work(t, thread) on `n` threads. */
	template <class Work>
	static void run(fur_heap *heap, uint64_t n, Work work)
	{
		std::vector<std::thread> threads;
		for (uint64_t t = 0; t < n; t++)
			threads.emplace_back([=] { work(t, fur::Thread(heap)); });
		for (auto &t : threads)
			t.join();
	}
};

TEST_P(SequenceCrowds, AQueue_GivesEachElementOnce_InItsProducersOrder)
{
	fur::Heap heap = create(container_options(GetParam().isolation));
	fur::Thread self(heap);
	auto *queue = fur::root<fur::queue<fur::string>>(self, "queue");
	const uint64_t blocks = blocks_of(heap);
	std::vector<std::string> popped[THREADS];
	std::atomic<uint64_t> taken{0};
	run(heap, 2 * THREADS, [&](uint64_t t, fur_thread *me) {
		for (uint64_t n = 0; t < THREADS && n < EACH; n++)
			update(me, [&](fur_update *tx) {
				/* Inline strings and long ones. */
				queue->push(tx, std::to_string(t) + ":" + std::to_string(n) +
				                        std::string(n % 20, '.'));
			});
		while (t >= THREADS && taken < THREADS * EACH) {
			const auto got = update(me, [&](fur_update *tx) { return queue->pop(tx); });
			if (!got)
				continue;
			popped[t - THREADS].push_back(*got);
			taken++;
		}
	});
	std::set<std::string> all;
	for (const auto &mine : popped) {
		uint64_t next[THREADS] = {};
		for (const std::string &element : mine) {
			EXPECT_TRUE(all.insert(element).second) << element;
			const size_t producer = std::stoul(element);
			const uint64_t n = std::stoul(element.substr(element.find(':') + 1));
			ASSERT_LT(producer, +THREADS);
			EXPECT_GE(n, next[producer]);
			EXPECT_EQ(element.size(), element.find_first_not_of(".", 0) == 0
			                                  ? 2 + std::to_string(n).size() + n % 20
			                                  : 0);
			next[producer] = n + 1;
		}
	}
	EXPECT_EQ(all.size(), THREADS * EACH);
	update(self, [&](fur_update *tx) { queue->clear(tx); });
	EXPECT_EQ(blocks_of(heap), blocks);
}

TEST_P(SequenceCrowds, AQueue_ThatIsMostlyEmpty)
{
	fur::Heap heap = create(container_options(GetParam().isolation));
	fur::Thread self(heap);
	auto *queue = fur::root<fur::queue<uint64_t>>(self, "queue");
	std::atomic<uint64_t> pushed{0}, popped{0};
	run(heap, 4, [&](uint64_t t, fur_thread *me) {
		std::mt19937_64 random(t);
		for (uint64_t n = 0; n < EACH; n++) {
			const uint64_t what = random() % 40;
			const auto done = update(me, [&](fur_update *tx) {
				std::pair<uint64_t, uint64_t> sum{0, 0};
				if (what == 0) {
					while (auto got = queue->pop(tx))
						sum.second += *got;
					queue->clear(tx);
				} else if (what % 2) {
					queue->push(tx, n);
					sum.first = n;
				} else {
					sum.second = queue->pop(tx).value_or(0);
				}
				return sum;
			});
			pushed += done.first;
			popped += done.second;
		}
	});
	uint64_t rest = 0;
	while (auto got = update(self, [&](fur_update *tx) { return queue->pop(tx); }))
		rest += *got;
	EXPECT_EQ(pushed, popped + rest);
}

/* Each thread pushes, changes and pops: of each value as many are there as were pushed. */
TEST_P(SequenceCrowds, AVector_LosesNoElement)
{
	fur::Heap heap = create(container_options(GetParam().isolation));
	fur::Thread self(heap);
	auto *vector = fur::root<fur::vector<Wide>>(self, "vector");
	std::atomic<uint64_t> sum{0}, size{0};
	run(heap, 4, [&](uint64_t t, fur_thread *me) {
		std::mt19937_64 random(t);
		for (uint64_t n = 0; n < 600; n++) {
			const uint64_t what = random() % 8;
			const auto done = update(me, [&](fur_update *tx) {
				std::pair<uint64_t, uint64_t> change{0, 0};
				const uint64_t old = vector->size(tx);
				if (what < 4 || old == 0) {
					vector->push_back(tx, Sample<Wide>::value(n));
					change = {8 * n, 1};
				} else if (what < 6) {
					change = {0 - vector->back(tx).word[7], UINT64_MAX};
					vector->pop_back(tx);
				} else {
					Wide *last = vector->lookup(tx, old - 1);
					fur_store(tx, &last->word[7],
					        fur_load(tx, &last->word[7]) + 3);
					change.first = 3;
				}
				return change;
			});
			sum += done.first;
			size += done.second;
		}
	});
	fur::read(self, [&](fur_ro *tx) {
		EXPECT_EQ(vector->size(tx), size.load());
		uint64_t there = 0;
		for (const Wide &element : vector->in(tx))
			there += element.word[7];
		EXPECT_EQ(there, sum.load());
	});
}

INSTANTIATE_TEST_SUITE_P(Modes, SequenceCrowds, ::testing::ValuesIn(CROWDS), crowd_name);

} // namespace
