/* SPDX-License-Identifier: BSD-3-Clause
 *
 * submit_test.cpp - batches of transactions: order, refusals, errors, and what a kill leaves.
 */
#include "group.hpp"

#include <atomic>
#include <csignal>
#include <fur/group.hpp>
#include <numeric>
#include <sys/wait.h>
#include <thread>

namespace
{

/* ---------------------------------------------------------------- procedures */

struct Add {
	uint64_t *word;
	int64_t n;
};

/* Refuses if the word is too small.  Result: what it has then. */
bool add(fur_update *tx, fur_heap *, const void *params, size_t, const void *, void *result)
{
	const auto *p = static_cast<const Add *>(params);
	const auto has = static_cast<int64_t>(fur_load(tx, p->word));
	if (has + p->n < 0)
		return false;
	fur_store(tx, p->word, static_cast<uint64_t>(has + p->n));
	*static_cast<int64_t *>(result) = has + p->n;
	return true;
}

/* Stores first, and refuses then. */
bool add_and_refuse(
        fur_update *tx, fur_heap *heap, const void *params, size_t n, const void *b, void *result)
{
	add(tx, heap, params, n, b, result);
	return false;
}

/* Stores what the part before it has returned. */
bool put_before(fur_update *tx, fur_heap *, const void *params, size_t, const void *before, void *)
{
	const auto *p = static_cast<const Add *>(params);
	fur_store(tx, p->word, *static_cast<const uint64_t *>(before));
	return true;
}

bool store_outside(fur_update *tx, fur_heap *, const void *, size_t, const void *, void *)
{
	uint64_t outside = 0;
	fur_store(tx, &outside, uint64_t(1));
	return true;
}

bool free_within(fur_update *tx, fur_heap *, const void *params, size_t, const void *, void *)
{
	fur_free(tx, static_cast<const Add *>(params)->word + 1);
	return true;
}

struct Fill {
	uint64_t *words, n, value;
};

bool fill(fur_update *tx, fur_heap *, const void *params, size_t, const void *, void *)
{
	const auto *p = static_cast<const Fill *>(params);
	for (uint64_t k = 0; k < p->n; k++)
		fur_store(tx, p->words + k % WORDS, p->value);
	return true;
}

/* Appends its number to a list of numbers: words[0] is how many there are. */
struct Append {
	uint64_t *words, number;
};

bool append(fur_update *tx, fur_heap *, const void *params, size_t, const void *, void *)
{
	const auto *p = static_cast<const Append *>(params);
	const uint64_t n = fur_load(tx, p->words);
	fur_store(tx, p->words + 1 + n, p->number);
	fur_store(tx, p->words, n + 1);
	return true;
}

/* Holds the worker, so that what is submitted meanwhile is in one batch. */
bool wait_for(fur_update *, fur_heap *, const void *params, size_t, const void *, void *)
{
	const auto *go = *static_cast<const std::atomic<bool> *const *>(params);
	while (!*go)
		std::this_thread::yield();
	return true;
}

/* The same, and says that it holds it. */
struct Gate {
	std::atomic<bool> inside, go;
};

bool wait_inside(fur_update *, fur_heap *, const void *params, size_t, const void *, void *)
{
	auto *gate = *static_cast<Gate *const *>(params);
	gate->inside = true;
	while (!gate->go)
		std::this_thread::yield();
	return true;
}

template <class Params>
fur_part part(unsigned member, fur_group_procedure *procedure, const Params &params,
        uint32_t after = FUR_NO_PART)
{
	fur_part p = {};
	p.member = member;
	p.after = after;
	p.procedure = procedure;
	p.params = &params;
	p.params_bytes = sizeof params;
	p.result_bytes = 8;
	return p;
}

fur::Options options()
{
	fur::Options o = small_options();
	o.max_threads = 8;
	return o;
}

/* ------------------------------------------------------------------- fixture */

class GroupSubmit : public GroupHeaps
{
protected:
	GroupSubmit() : GroupHeaps(options()) {}

	void reopen_with(uint32_t workers, uint32_t parts, uint32_t us = 0)
	{
		fur_group_options o = {};
		o.size = sizeof o;
		o.heap = &options_;
		o.workers = workers;
		o.batch_parts = parts;
		o.batch_us = us;
		leave();
		close();
		ASSERT_EQ(fur_group_open(group_path().c_str(), &o, &group_), 0) << fur_errormsg();
		ASSERT_EQ(fur_group_register(group_, &self_), 0);
	}
	fur_submitted *submit(const std::vector<fur_part> &parts)
	{
		fur_submitted *s;
		EXPECT_EQ(fur_group_submit(
		                  group_, parts.data(), static_cast<unsigned>(parts.size()), &s),
		        0)
		        << fur_errormsg();
		return s;
	}
	int refused(const std::vector<fur_part> &parts)
	{
		fur_submitted *s = reinterpret_cast<fur_submitted *>(this);
		const int error = fur_group_submit(
		        group_, parts.data(), static_cast<unsigned>(parts.size()), &s);
		EXPECT_EQ(s, nullptr);
		return error;
	}
	fur_submitted *submit_transfer(unsigned from, unsigned to, int64_t n)
	{
		return submit(
		        {part(from, add, Add{word(from), -n}), part(to, add, Add{word(to), n}, 0)});
	}
	/* All that is submitted until let_go() is in one batch. */
	void hold()
	{
		go_ = false;
		const std::atomic<bool> *go = &go_;
		held_ = submit({part(2, wait_for, go)});
	}
	void let_go()
	{
		go_ = true;
		EXPECT_EQ(fur_group_wait(held_), 0) << fur_errormsg();
	}
	std::vector<uint64_t> words_of(unsigned k)
	{
		std::vector<uint64_t> all(WORDS);
		for (unsigned n = 0; n < WORDS; n++)
			all[n] = value(k, n);
		return all;
	}

	std::atomic<bool> go_{true};
	fur_submitted *held_ = nullptr;
};

/* ------------------------------------------------------------------- results */

TEST_F(GroupSubmit, Transaction_IsDone_GivesItsResults_AndSurvivesAReopen)
{
	int64_t debit = 0, credit = 0;
	ASSERT_EQ(fur_group_wait(submit({part(0, add, Add{word(0), 100})})), 0) << fur_errormsg();
	const Add to[] = {{word(0), -30}, {word(1), 30}, {word(2), 0}};
	std::vector<fur_part> parts = {
	        part(0, add, to[0]), part(1, add, to[1], 0), part(2, put_before, to[2], 0)};
	parts[0].result = &debit;
	parts[1].result = &credit;
	fur_submitted *s = submit(parts);
	ASSERT_EQ(fur_group_wait(s), 0) << fur_errormsg();
	EXPECT_EQ(debit, 70);
	EXPECT_EQ(credit, 30);
	EXPECT_EQ(value(2), 70u) << "the result of the part before";
	reopen();
	EXPECT_EQ(value(0), 70u);
	EXPECT_EQ(value(1), 30u);
}

TEST_F(GroupSubmit, Refusal_DoesNothing_AlsoIfThePartHasStored_AndTheBatchGoesOn)
{
	for (fur_group_procedure *refuses : {add, add_and_refuse}) {
		hold();
		fur_submitted *first = submit({part(0, add, Add{word(0), 10})});
		const Add a = {word(0), refuses == add ? -1000 : 5}, b = {word(1), 5};
		int64_t result = 77;
		std::vector<fur_part> parts = {part(0, refuses, a), part(1, add, b, 0)};
		parts[0].result = &result;
		fur_submitted *no = submit(parts);
		fur_submitted *last = submit_transfer(0, 1, 10);
		let_go();
		EXPECT_EQ(fur_group_wait(first), 0) << fur_errormsg();
		EXPECT_EQ(fur_group_wait(no), FUR_EABORTED);
		EXPECT_TRUE(message_has("refused"));
		EXPECT_EQ(fur_group_wait(last), 0) << fur_errormsg();
		EXPECT_EQ(result, 77) << "no results of what was not done";
	}
	EXPECT_EQ(value(0), 0u);
	EXPECT_EQ(value(1), 20u);
}

TEST_F(GroupSubmit, Refusal_OfAPartThatMayNot_IsAnError_AndDoesNothing)
{
	const Add none = {word(1), -1}, some = {word(0), 4};
	hold();
	fur_submitted *before = submit({part(0, add, some)});
	/* A part that the other does not wait for; and one that is not the first. */
	fur_submitted *wrong[] = {submit({part(1, add, none), part(0, add, some)}),
	        submit({part(0, add, some), part(1, add, none, 0)})};
	fur_submitted *after = submit({part(0, add, some)});
	let_go();
	EXPECT_EQ(fur_group_wait(before), 0);
	for (fur_submitted *s : wrong) {
		EXPECT_EQ(fur_group_wait(s), FUR_EINVAL);
		EXPECT_TRUE(message_has("only the first part may refuse")) << fur_errormsg();
	}
	EXPECT_EQ(fur_group_wait(after), 0);
	EXPECT_EQ(value(0), 8u);
}

TEST_F(GroupSubmit, Error_IsThatOfItsTransactionAlone)
{
	const Add one = {word(0), 1}, other = {word(1), 1};
	hold();
	fur_submitted *good[3], *outside, *freed;
	good[0] = submit({part(0, add, one), part(1, add, other)});
	outside = submit({part(0, add, one), part(1, store_outside, other)});
	good[1] = submit({part(0, add, one), part(1, add, other)});
	freed = submit({part(1, add, other), part(0, free_within, one)});
	good[2] = submit({part(0, add, one), part(1, add, other)});
	let_go();
	for (fur_submitted *s : good)
		EXPECT_EQ(fur_group_wait(s), 0) << fur_errormsg();
	EXPECT_EQ(fur_group_wait(outside), FUR_ERANGE);
	EXPECT_TRUE(message_has("outside the heap")) << fur_errormsg();
	EXPECT_EQ(fur_group_wait(freed), FUR_EFREE);
	EXPECT_TRUE(message_has("where no block in use begins")) << fur_errormsg();
	EXPECT_EQ(value(0), 3u);
	EXPECT_EQ(value(1), 3u);
}

/* ------------------------------------------------------------------ log room */

TEST_F(GroupSubmit, TransactionThatFillsALog_Fails_AndTheOthersGoOn)
{
	hold();
	fur_submitted *before = submit({part(0, add, Add{word(0), 1})});
	fur_submitted *large = submit({part(0, add, Add{word(0), 1}),
	        part(1, fill, Fill{word(1), options_.log_bytes / 8, 9})});
	fur_submitted *after = submit({part(0, add, Add{word(0), 1})});
	let_go();
	EXPECT_EQ(fur_group_wait(before), 0) << fur_errormsg();
	EXPECT_EQ(fur_group_wait(large), FUR_ETOOBIG);
	EXPECT_EQ(fur_group_wait(after), 0) << fur_errormsg();
	EXPECT_EQ(value(0), 2u);
	EXPECT_EQ(value(1), 0u);
}

TEST_F(GroupSubmit, TransactionsThatFillALogTogether_AreDoneInOrder)
{
	/* Each has a ninth to a third of the log; sizes vary, so the guess is wrong at times. */
	std::vector<fur_submitted *> all;
	const uint64_t entry = 16, most = options_.log_bytes / entry;
	hold();
	for (uint64_t n = 1; n <= 60; n++)
		all.push_back(submit({part(0, fill, Fill{word(0), n % 5 ? most / 9 : most / 3, n}),
		        part(1, add, Add{word(1), 1}), part(0, append, Append{word(0, 1), n})}));
	let_go();
	for (fur_submitted *s : all)
		EXPECT_EQ(fur_group_wait(s), 0) << fur_errormsg();
	EXPECT_EQ(value(0), 60u);
	EXPECT_EQ(value(1), 60u);
}

/* --------------------------------------------------------------------- order */

TEST_F(GroupSubmit, Order_IsThatOfTheCalls_AndTheSameInAllMembers)
{
	enum { THREADS = 4, EACH = 15 };
	for (uint32_t workers : {1u, 3u}) {
		reopen_with(workers, 8);
		group_run(self_, {0, 1}, [&](fur_group_update *u) {
			fur_store(fur_group_on(u, 0), word(0), uint64_t(0));
			fur_store(fur_group_on(u, 1), word(1), uint64_t(0));
		});
		std::vector<std::thread> threads;
		for (uint64_t t = 0; t < THREADS; t++)
			threads.emplace_back([this, t] {
				std::vector<fur_submitted *> mine;
				for (uint64_t n = 0; n < EACH; n++)
					mine.push_back(submit(
					        {part(0, append, Append{word(0), t * 100 + n}),
					                part(1, append,
					                        Append{word(1), t * 100 + n})}));
				for (fur_submitted *s : mine)
					EXPECT_EQ(fur_group_wait(s), 0) << fur_errormsg();
			});
		for (std::thread &t : threads)
			t.join();
		ASSERT_EQ(value(0), uint64_t(THREADS * EACH));
		EXPECT_EQ(words_of(0), words_of(1));
		uint64_t next[THREADS] = {};
		for (unsigned k = 1; k <= THREADS * EACH; k++) {
			const uint64_t number = value(0, k);
			EXPECT_EQ(number % 100, next[number / 100]++);
		}
	}
}

/* INV-GB1 */
TEST_F(GroupSubmit, Order_NoBatchIsCutBeforeTheOneBeforeIsVisible)
{
	reopen_with(2, 0);
	Gate gate = {{false}, {false}};
	fur_submitted *s = submit({part(0, wait_inside, &gate)});
	while (!gate.inside)
		std::this_thread::yield();
	EXPECT_EQ(pthread_mutex_trylock(&group_->batches.cutting), EBUSY);
	gate.go = true;
	EXPECT_EQ(fur_group_wait(s), 0) << fur_errormsg();
}

TEST_F(GroupSubmit, Order_IsKept_WhenABatchRunsAgain)
{
	enum { ALL = 20 };
	reopen_with(2, 4);
	std::vector<fur_submitted *> all;
	const Add one = {word(1), 1};
	hold();
	/* The first of its batch fails, then the second, the third, and so on. */
	for (uint64_t n = 0; n < ALL; n++)
		all.push_back(submit({n % 5 == 0 ? part(0, store_outside, one)
		                                 : part(0, append, Append{word(0), n})}));
	let_go();
	uint64_t k = 0;
	for (uint64_t n = 0; n < ALL; n++) {
		EXPECT_EQ(fur_group_wait(all[n]), n % 5 ? 0 : FUR_ERANGE) << fur_errormsg();
		if (n % 5) {
			EXPECT_EQ(value(0, ++k), n);
		}
	}
	EXPECT_EQ(value(0), k);
}

TEST_F(GroupSubmit, SameStart_AndSameList_GiveTheSameHeaps_WithAnyWorkersAndBatches)
{
	std::vector<uint64_t> first[HEAPS];
	const std::pair<uint32_t, uint32_t> ways[] = {{1, 0}, {1, 2}, {2, 3}, {4, 16}, {4, 0}};
	for (const auto &[workers, parts] : ways) {
		reopen_with(workers, parts, parts == 16 ? 2000 : 0);
		group_run(self_, {0, 1, 2}, [&](fur_group_update *u) {
			for (unsigned k = 0; k < HEAPS; k++)
				for (unsigned n = 0; n < WORDS; n++)
					fur_store(fur_group_on(u, k), word(k, n), uint64_t(n));
		});
		uint64_t random = 1;
		std::vector<fur_submitted *> all;
		for (unsigned n = 0; n < rounds(400u); n++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			const auto a = static_cast<unsigned>(random >> 40) % HEAPS,
			           b = (a + 1 + static_cast<unsigned>(random >> 50) % 2) % HEAPS;
			const auto from = static_cast<unsigned>(random >> 33) % WORDS,
			           to = static_cast<unsigned>(random >> 21) % WORDS;
			const auto cents = static_cast<int64_t>(random >> 58);
			all.push_back(submit(
			        {part(a, n % 7 ? add : add_and_refuse, Add{word(a, from), -cents}),
			                part(b, add, Add{word(b, to), cents}, 0)}));
		}
		for (fur_submitted *s : all) {
			const int error = fur_group_wait(s);
			EXPECT_TRUE(error == 0 || error == FUR_EABORTED) << fur_errormsg();
		}
		for (unsigned k = 0; k < HEAPS; k++) {
			if (first[k].empty())
				first[k] = words_of(k);
			EXPECT_EQ(words_of(k), first[k]) << workers << " workers, " << parts;
		}
	}
}

TEST_F(GroupSubmit, OtherUpdates_GoOnBesideBatches)
{
	reopen_with(2, 0);
	enum { CENTS = 1000000 };
	ASSERT_EQ(fur_group_wait(submit(
	                  {part(0, add, Add{word(0), CENTS}), part(1, add, Add{word(1), CENTS})})),
	        0);
	std::thread submitter([this] {
		for (unsigned n = 0; n < rounds(300u); n++)
			EXPECT_EQ(fur_group_wait(submit_transfer(0, 1, 3)), 0) << fur_errormsg();
	});
	for (unsigned n = 0; n < rounds(300u); n++) {
		EXPECT_EQ(transfer(1, 0, 1), 0) << fur_errormsg();
		fur::update(thread(0), fur::rerun, [&](fur_update *tx) {
			fur_store(tx, word(0, 1), fur_load(tx, word(0, 1)) + 1);
		});
	}
	submitter.join();
	EXPECT_EQ(value(0) + value(1), uint64_t(2 * CENTS));
	EXPECT_EQ(value(0, 1), rounds(300u));
}

/* ---------------------------------------------------------------------- life */

TEST_F(GroupSubmit, Close_CompletesWhatWasSubmitted_AndTheWaitMayComeAfterIt)
{
	const Add a = {word(0), 1}, b = {word(1), 1};
	std::vector<fur_part> parts = {part(0, add, a), part(1, add, b)};
	for (unsigned n = 0; n < 50; n++)
		ASSERT_EQ(fur_group_submit(group_, parts.data(), 2, nullptr), 0) << fur_errormsg();
	int64_t result = 0;
	parts[1].result = &result;
	fur_submitted *last = submit(parts);
	reopen();
	EXPECT_EQ(fur_group_wait(last), 0) << fur_errormsg();
	EXPECT_EQ(result, 51);
	EXPECT_EQ(value(0), 51u);
	EXPECT_EQ(value(1), 51u);
}

TEST_F(GroupSubmit, Close_CompletesWhatWasSubmitted_InsideATransactionOfAnotherHeap)
{
	const Add one = {word(0), 1};
	fur::Heap other = fur::Heap::create(in_dir("other"), options());
	fur::Thread t(other);
	/* No worker is registered with the group yet: they wait for more. */
	reopen_with(2, 0, 1000000);
	fur_submitted *s = submit({part(0, add, one)});
	leave();
	fur_ro *ro;
	ASSERT_EQ(fur_begin_ro(t, &ro), 0) << fur_errormsg();
	close();
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0) << fur_errormsg();
	EXPECT_EQ(fur_group_wait(s), 0) << fur_errormsg();
	open();
	EXPECT_EQ(get(0u), 1u);
}

TEST_F(GroupSubmit, Close_InsideATransactionOfAMember_IsRefused_AndWhatWasSubmittedGoesOn)
{
	const Add one = {word(0), 1};
	reopen_with(2, 0, 1000000);
	fur_submitted *s = submit({part(0, add, one)});
	fur::Thread t(heap(1));
	leave();
	fur_ro *ro;
	ASSERT_EQ(fur_begin_ro(t, &ro), 0) << fur_errormsg();
	EXPECT_EQ(fur_group_close(group_), FUR_EBUSY);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0) << fur_errormsg();
	EXPECT_EQ(fur_group_wait(s), 0) << fur_errormsg();
	EXPECT_EQ(get(0u), 1u);
	EXPECT_EQ(fur_thread_unregister(t), 0) << fur_errormsg();
}

TEST_F(GroupSubmit, Remove_CompletesWhatWasSubmitted_AndSubmissionsGoOn)
{
	const Add one = {word(2), 1};
	const fur_part gone = part(2, add, one);
	ASSERT_EQ(fur_group_submit(group_, &gone, 1, nullptr), 0);
	leave();
	ASSERT_EQ(fur_group_remove(group_, 2), 0) << fur_errormsg();
	EXPECT_EQ(refused({gone}), FUR_EINVAL);
	EXPECT_TRUE(message_has("no member 2"));
	EXPECT_EQ(fur_group_wait(submit({part(0, add, Add{word(0), 1})})), 0) << fur_errormsg();
	fur::Heap heap = fur::Heap::open(heap_name(2), options_);
	fur::Thread t(heap);
	EXPECT_EQ(fur::read(t,
	                  [&](fur_ro *tx) {
		                  return fur_load(tx, static_cast<uint64_t *>(fur_root(tx, 0)));
	                  }),
	        1u);
}

TEST_F(GroupSubmit, FailedMember_FailsWhatIsSubmittedLater)
{
	const Add a = {word(0), 1}, b = {word(1), 1};
	const fur_part good = part(0, add, a), bad = part(1, add, b);
	hold();
	fur_submitted *waits[] = {submit({good}), submit({bad}), submit({good})};
	durability_fail(&heap(1)->durability, FUR_EIO);
	EXPECT_EQ(refused({good, bad}), FUR_EIO);
	let_go();
	EXPECT_EQ(fur_group_wait(waits[0]), 0) << fur_errormsg();
	EXPECT_EQ(fur_group_wait(waits[1]), FUR_EIO);
	EXPECT_EQ(fur_group_wait(waits[2]), 0) << fur_errormsg();
	EXPECT_EQ(fur_group_wait(submit({good})), 0) << fur_errormsg();
	EXPECT_EQ(value(0), 3u);
	leave();
	EXPECT_EQ(fur_group_close(std::exchange(group_, nullptr)), FUR_EIO);
}

TEST_F(GroupSubmit, Misuse_IsRefused)
{
	const Add one = {word(0), 1};
	const fur_part good = part(0, add, one);
	fur_part p = good;
	fur_submitted *s;
	EXPECT_EQ(fur_group_submit(nullptr, &good, 1, &s), FUR_EINVAL);
	EXPECT_EQ(fur_group_submit(group_, nullptr, 1, &s), FUR_EINVAL);
	EXPECT_EQ(fur_group_submit(group_, &good, 0, &s), FUR_EINVAL);
	EXPECT_EQ(refused(std::vector<fur_part>(1025, good)), FUR_EINVAL);
	EXPECT_TRUE(message_has("batch_parts"));
	p.procedure = nullptr;
	EXPECT_EQ(refused({p}), FUR_EINVAL);
	p = good;
	p.params = nullptr;
	EXPECT_EQ(refused({p}), FUR_EINVAL);
	EXPECT_EQ(refused({good, part(1, add, one, 1)}), FUR_EINVAL);
	EXPECT_TRUE(message_has("part 1 comes after part 1"));
	EXPECT_EQ(refused({part(0, add, one, 1), good}), FUR_EINVAL);
	EXPECT_EQ(refused({part(HEAPS, add, one)}), FUR_EINVAL);
	EXPECT_TRUE(message_has("no member 3"));
	EXPECT_EQ(fur_group_wait(nullptr), FUR_EINVAL);

	s = submit({good});
	fur::update(thread(1), [&](fur_update *) {
		EXPECT_EQ(refused({good}), FUR_ENESTED);
		EXPECT_EQ(fur_group_wait(s), FUR_ENESTED);
	});
	EXPECT_EQ(fur_group_wait(s), 0) << fur_errormsg();
	EXPECT_EQ(value(0), 1u);

	fur_group_options o = {};
	fur_group *g;
	o.size = sizeof o;
	o.workers = 17;
	EXPECT_EQ(fur_group_create(in_dir("other").c_str(), &o, &g), FUR_EINVAL);
	EXPECT_TRUE(message_has("workers is 17"));
	EXPECT_TRUE(message_has(in_dir("other").c_str()));
}

TEST_F(GroupSubmit, Child_OfFork_IsRefused)
{
	const Add one = {word(0), 1};
	const fur_part good = part(0, add, one);
	fur_submitted *s = submit({good});
	const pid_t child = fork();
	if (child == 0) {
		fur_submitted *mine;
		_exit(fur_group_wait(s) == FUR_EFORK &&
		                        fur_group_submit(group_, &good, 1, &mine) == FUR_EFORK &&
		                        fur_group_close(group_) == 0
		                ? 0
		                : 1);
	}
	int status = 0;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(fur_group_wait(s), 0) << fur_errormsg();
	EXPECT_EQ(value(0), 1u);
}

/* ------------------------------------------------------------------------ C++ */

TEST(GroupSubmitCpp, Bodies_AreLambdas_AndWhatTheyThrowReachesTheWait)
{
	const std::string dir = "/tmp/fur-group-submit-" + std::to_string(getpid());
	std::filesystem::create_directory(dir);
	{
		fur::Group bank = fur::Group::create(dir + "/bank.group");
		uint64_t *word[2];
		for (unsigned k = 0; k < 2; k++) {
			ASSERT_EQ(bank.add(dir + "/heap" + std::to_string(k), options()), k);
			const fur::GroupThread self(bank);
			word[k] = reinterpret_cast<uint64_t *>(block_in_root(self.of(k), 8, 0));
		}
		const auto put = [&](unsigned k, uint64_t n) {
			return fur::GroupPart(
			        k, [=](fur_update *tx) { fur_store(tx, word[k], n); },
			        k ? 0 : FUR_NO_PART);
		};
		fur::Submitted done = bank.submit({put(0, 1), put(1, 2)});
		fur::Submitted refuses = bank.submit(
		        {{0, [&](fur_update *tx) { return fur_load(tx, word[0]) == 9; }},
		                put(1, 9)});
		fur::Submitted throws = bank.submit(
		        {put(0, 9), {1, [](fur_update *) { throw std::out_of_range("mine"); }, 0}});
		bank.wait(done);
		try {
			bank.wait(refuses);
			ADD_FAILURE() << "the refusal is lost";
		} catch (const fur::Error &e) {
			EXPECT_EQ(e.code(), FUR_EABORTED);
		}
		EXPECT_THROW(bank.wait(throws), std::out_of_range);
		fur::Submitted nested = bank.submit({put(0, 1)});
		{
			const fur::GroupThread self(bank);
			fur::read(self.of(1),
			        [&](fur_ro *) { EXPECT_THROW(bank.wait(nested), fur::Error); });
		}
		bank.wait(nested); /* which has its bodies still */
		fur::Submitted forgotten = bank.submit({put(1, 3)});
		forgotten = bank.submit({put(1, 4)});
		EXPECT_THROW(bank.submit({put(2, 1)}), fur::Error);
		bank.wait(forgotten);
		const fur::GroupThread self(bank);
		EXPECT_EQ(fur::read(self.of(0), [&](fur_ro *) { return *word[0]; }), 1u);
		EXPECT_EQ(fur::read(self.of(1), [&](fur_ro *) { return *word[1]; }), 4u);
	}
	std::filesystem::remove_all(dir);
}

/* ---------------------------------------------------------------------- kill */

/* In a child: threads that submit transfers, and say what they were told is durable. */
[[noreturn]] void submit_until_killed(const std::string &path, uint64_t *const *words, int told)
{
	enum { THREADS = 6 };
	fur_group_options o = {};
	fur::Options heap = options();
	heap.pm = FUR_PM_SYNC;
	o.size = sizeof o;
	o.heap = &heap;
	o.workers = 2;
	fur_group *g;
	if (fur_group_open(path.c_str(), &o, &g))
		_exit(2);
	std::vector<std::thread> threads;
	for (uint8_t t = 0; t < THREADS; t++)
		threads.emplace_back([=] {
			for (;;) {
				/* Also one that refuses after it has stored. */
				const Add a = {words[0] + t, 1}, b = {words[1] + t, 1},
				          c = {b.word, 9};
				const fur_part parts[] = {part(0, add, a), part(1, add, b, 0)},
				               no = part(1, add_and_refuse, c);
				fur_submitted *s;
				if (fur_group_submit(g, &no, 1, nullptr) ||
				        fur_group_submit(g, parts, 2, &s) || fur_group_wait(s) ||
				        write(told, &t, 1) != 1)
					_exit(3);
			}
		});
	for (;;)
		pause();
}

TEST_F(GroupSubmit, Kill_LosesNothingThatWasToldDurable_AndHalvesNothing)
{
	uint64_t told[WORDS] = {};
	for (unsigned kill_after = 1; kill_after < rounds(160u); kill_after *= 3) {
		int ends[2];
		leave();
		close();
		ASSERT_EQ(pipe(ends), 0);
		const pid_t child = fork();
		if (child == 0)
			submit_until_killed(group_path(), words_, ends[1]);
		::close(ends[1]);
		uint8_t t;
		unsigned n = 0;
		while (read(ends[0], &t, 1) == 1) {
			told[t]++;
			if (++n == kill_after)
				kill(child, SIGKILL);
		}
		::close(ends[0]);
		int status = 0;
		ASSERT_EQ(waitpid(child, &status, 0), child);
		ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
		open();
		ASSERT_EQ(fur_group_register(group_, &self_), 0);
		EXPECT_EQ(words_of(0), words_of(1));
		for (unsigned k = 0; k < WORDS; k++)
			EXPECT_GE(value(0, k), told[k]);
	}
}

} // namespace
