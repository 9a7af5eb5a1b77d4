/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itm_test.cpp - transactions of GCC on libfur: what one run does, what a run leaves that does not
 * count, nesting, memory, and actions.
 */
#include "fixture.hpp"

#include <cstring>

namespace
{

long global_a, global_b;

/* ------------------------------------------------------------ one transaction */

TEST_F(Itm, Stores_AreInTheHeap_WhenTheBlockHasEnded)
{
	long seen;
	__transaction_atomic
	{
		pair_->a += 10;
		seen = pair_->a; /* its own store */
		pair_->b = seen + 1;
	}
	EXPECT_EQ(seen, 11);
	EXPECT_EQ(pair_->a, 11);
	EXPECT_EQ(pair_->b, 12);
}

TEST_F(Itm, Stores_SurviveAKilledProcess)
{
	std::string path = path_ + "-killed";
	in_killed_child([&] {
		fur_heap *heap;
		fur::Options o = itm_options();
		fur::check(fur_create(path.c_str(), &o, &heap));
		fur::check(fur_itm_use(heap));
		__transaction_atomic
		{
			Pair *made = static_cast<Pair *>(fur_itm_alloc(sizeof *made));
			made->a = 31;
			made->b = 32;
			fur_itm_set_root(3, made);
		}
		middle = [] { _exit(0); };
		__transaction_atomic
		{
			Pair *made = static_cast<Pair *>(fur_itm_root(3));
			made->a = 99;
			in_the_middle();
			made->b = 99;
		}
	});
	{
		fur::Heap heap = fur::Heap::open(path, itm_options());
		EXPECT_TRUE(heap.info().recovered);
		ASSERT_EQ(fur_itm_use(heap), 0);
		Pair seen;
		__transaction_atomic
		{
			const Pair *made = static_cast<const Pair *>(fur_itm_root(3));
			seen = *made;
		}
		EXPECT_EQ(seen.a, 31);
		EXPECT_EQ(seen.b, 32);
		ASSERT_EQ(fur_itm_use(nullptr), 0);
	}
	unlink(path.c_str());
	ASSERT_EQ(fur_itm_use(heap_), 0);
}

long sum_of(const Pair *pair)
{
	long sum;
	__transaction_atomic
	{
		sum = pair->a + pair->b + global_a;
	}
	return sum;
}

TEST_F(Itm, ABlockThatOnlyReads_IsAReader)
{
	fur_stats before = heap_.stats();
	long seen = sum_of(pair_);
	fur_stats after = heap_.stats();
	EXPECT_EQ(seen, 3 + global_a);
	EXPECT_EQ(after.ro_commits, before.ro_commits + 1);
	EXPECT_EQ(after.update_commits, before.update_commits);
}

/* What GCC takes for a block that only reads becomes an update, if need be. */
PURE void nested_update(Pair *pair)
{
	__transaction_atomic
	{
		pair->b++;
	}
}

long read_and_update(Pair *pair)
{
	long seen;
	__transaction_atomic
	{
		count_run();
		seen = pair->a;
		nested_update(pair);
	}
	return seen;
}

TEST_F(Itm, AReader_BecomesAnUpdate)
{
	EXPECT_EQ(read_and_update(pair_), 1);
	EXPECT_EQ(pair_->b, 3);
	EXPECT_EQ(runs, 2);
}

/* ------------------------------------------------------------ types and copies */

typedef float Vector4 __attribute__((vector_size(16)));
struct Types {
	uint8_t u1;
	uint16_t u2;
	uint32_t u4;
	uint64_t u8;
	float f;
	double d;
	long double e;
	float _Complex cf;
	double _Complex cd;
	long double _Complex ce;
	Vector4 v4;
};

SAFE void set_all(Types *to, int n)
{
	to->u1 = static_cast<uint8_t>(n);
	to->u2 = static_cast<uint16_t>(n + 1000);
	to->u4 = static_cast<uint32_t>(n + 100000);
	to->u8 = static_cast<uint64_t>(n) << 40;
	to->f = static_cast<float>(n) + 0.5F;
	to->d = n + 0.25;
	to->e = n + 0.125L;
	to->cf = static_cast<float>(n);
	to->cd = n + 1.0;
	to->ce = n + 2.0L;
	Vector4 v = {1.0F, 2.0F, 3.0F, static_cast<float>(n)};
	to->v4 = v;
}

/* Each member, as a transaction loads it. */
SAFE bool all_are(const Types *from, int n)
{
	Vector4 v = from->v4;
	return from->u1 == static_cast<uint8_t>(n) && from->u2 == static_cast<uint16_t>(n + 1000) &&
	       from->u4 == static_cast<uint32_t>(n + 100000) &&
	       from->u8 == static_cast<uint64_t>(n) << 40 &&
	       from->f == static_cast<float>(n) + 0.5F && from->d == n + 0.25 &&
	       from->e == n + 0.125L && from->cf == static_cast<float>(n) && from->cd == n + 1.0 &&
	       from->ce == n + 2.0L && v[0] == 1.0F && v[3] == static_cast<float>(n);
}

void set_cancelled(Types *types, int n, bool *own)
{
	__transaction_atomic
	{
		set_all(types, n);
		*own = all_are(types, n);
		__transaction_cancel;
	}
}

TEST_F(Itm, EachType_InTheHeapAndOutside)
{
	static Types global;
	Types *in_heap;
	__transaction_atomic
	{
		in_heap = static_cast<Types *>(fur_itm_alloc_aligned(sizeof *in_heap, 64));
	}
	for (Types *types : {in_heap, &global}) {
		bool own, later;
		__transaction_atomic
		{
			set_all(types, 5);
			own = all_are(types, 5);
		}
		EXPECT_TRUE(own);
		own = true;
		set_cancelled(types, 6, &own);
		EXPECT_TRUE(own); /* it is also undone */
		__transaction_atomic
		{
			later = all_are(types, 5);
		}
		EXPECT_TRUE(later);
		EXPECT_TRUE(all_are(types, 5));
	}
}

enum { COPY_BYTES = 1500 };
struct Buffers {
	char a[COPY_BYTES], b[COPY_BYTES];
};

void fill(char *at, int seed)
{
	for (int k = 0; k < COPY_BYTES; k++)
		at[k] = static_cast<char>(k * 7 + seed);
}

/* memcpy, memmove and memset between the heap, globals and the stack, against the C library's. */
TEST_F(Itm, Copies_BetweenAllKindsOfMemory)
{
	static Buffers global;
	Buffers stack, *in_heap;
	__transaction_atomic
	{
		in_heap = static_cast<Buffers *>(fur_itm_alloc(sizeof *in_heap));
	}
	for (Buffers *from : {in_heap, &global, &stack})
		for (Buffers *to : {in_heap, &global, &stack})
			for (size_t bytes : {size_t(0), size_t(1), size_t(9), size_t(700)}) {
				Buffers model;
				fill(model.a, 1);
				fill(model.b, 2);
				__transaction_atomic
				{
					memcpy(from->a, model.a, COPY_BYTES);
					memcpy(to->b, model.b, COPY_BYTES);
				}
				__transaction_atomic
				{
					memcpy(to->b + 3, from->a + 5, bytes);
					memmove(to->b + 20, to->b + 11, bytes);
					memmove(to->b + 50, to->b + 61, bytes);
					memset(to->b + 800, 77, bytes);
				}
				memcpy(model.b + 3, model.a + 5, bytes);
				memmove(model.b + 20, model.b + 11, bytes);
				memmove(model.b + 50, model.b + 61, bytes);
				memset(model.b + 800, 77, bytes);
				EXPECT_EQ(memcmp(to->b, model.b, COPY_BYTES), 0) << bytes;
			}
}

void copy_cancelled(Buffers *buffers)
{
	__transaction_atomic
	{
		memset(buffers->a, 1, COPY_BYTES);
		memmove(buffers->b, buffers->a + 1, COPY_BYTES - 1);
		__transaction_cancel;
	}
}

TEST_F(Itm, Copies_AreUndone)
{
	static Buffers global;
	Buffers *in_heap, model;
	fill(model.a, 3);
	fill(model.b, 4);
	__transaction_atomic
	{
		in_heap = static_cast<Buffers *>(fur_itm_alloc(sizeof *in_heap));
	}
	for (Buffers *buffers : {in_heap, &global}) {
		__transaction_atomic
		{
			*buffers = model;
		}
		copy_cancelled(buffers);
		EXPECT_EQ(memcmp(buffers, &model, sizeof model), 0);
	}
}

/* ------------------------------------------------------------ cancel, nesting */

/* What each block of a nest of two has left, if one is cancelled. */
long nest(Pair *pair, bool cancel_inner, bool cancel_outer)
{
	long reached = 0;
	__transaction_atomic
	{
		pair->a = 100;
		global_a = 100;
		__transaction_atomic
		{
			pair->a = 200;
			pair->b = pair->a + 1;
			global_a = 200;
			global_b = 201;
			if (cancel_inner)
				__transaction_cancel;
		}
		reached = pair->a + global_a;
		if (cancel_outer)
			__transaction_cancel;
	}
	return reached;
}

TEST_F(Itm, Cancel_UndoesTheInnermostBlock)
{
	auto reset = [&] {
		__transaction_atomic
		{
			pair_->a = pair_->b = global_a = global_b = 1;
		}
	};
	auto values = [&] { return std::vector<long>{pair_->a, pair_->b, global_a, global_b}; };
	using Values = std::vector<long>;
	reset();
	EXPECT_EQ(nest(pair_, false, false), 400);
	EXPECT_EQ(values(), (Values{200, 201, 200, 201}));
	reset();
	EXPECT_EQ(nest(pair_, true, false), 200);
	EXPECT_EQ(values(), (Values{100, 1, 100, 1}));
	reset();
	EXPECT_EQ(nest(pair_, false, true), 0);
	EXPECT_EQ(values(), (Values{1, 1, 1, 1}));
	reset();
	EXPECT_EQ(nest(pair_, true, true), 0);
	EXPECT_EQ(values(), (Values{1, 1, 1, 1}));
}

void add_to_a(Pair *pair)
{
	__transaction_atomic
	{
		pair->a++;
	}
}

long cancel_outer(Pair *pair)
{
	long reached = 0;
	__transaction_atomic [[outer]]
	{
		pair->a = 100;
		global_a = 100;
		__transaction_atomic
		{
			pair->b = 200;
			if (pair->a == 100)
				__transaction_cancel [[outer]];
		}
		reached = 1;
	}
	return reached;
}

TEST_F(Itm, CancelOuter_UndoesAllBlocks)
{
	global_a = 1;
	EXPECT_EQ(cancel_outer(pair_), 0);
	EXPECT_EQ(pair_->a, 1);
	EXPECT_EQ(pair_->b, 2);
	EXPECT_EQ(global_a, 1);
	add_to_a(pair_);
	EXPECT_EQ(pair_->a, 2);
}

/* Local variables, in registers and in memory. */
SAFE __attribute__((noinline)) void set_through(long *at, long value)
{
	*at = value;
}

long locals(Pair *pair, bool cancel)
{
	long in_register = 1, in_memory = 1;
	__transaction_atomic
	{
		in_register = pair->a + 5;
		set_through(&in_memory, 7);
		long inner[4] = {1, 2, 3, 4}; /* of the block's own frame */
		set_through(&inner[2], in_memory);
		in_register += inner[2];
		pair->b = 50;
		if (cancel)
			__transaction_cancel;
	}
	return in_register * 100 + in_memory;
}

TEST_F(Itm, Cancel_UndoesLocalVariables)
{
	EXPECT_EQ(locals(pair_, true), 101);
	EXPECT_EQ(pair_->b, 2);
	EXPECT_EQ(locals(pair_, false), 1307);
}

/* ------------------------------------------------------------ memory */

void allocate_cancelled(Pair *pair, bool outer)
{
	__transaction_atomic
	{
		long *kept = static_cast<long *>(fur_itm_alloc(4096));
		*kept = 1;
		pair->a = 5;
		__transaction_atomic
		{
			long *lost = static_cast<long *>(fur_itm_alloc(4096));
			*lost = 2;
			fur_itm_set_root(1, lost);
			fur_itm_free(pair); /* not after all */
			if (!outer)
				__transaction_cancel;
		}
		fur_itm_free(kept);
		if (outer)
			__transaction_cancel;
	}
}

/* Many times the heap's size. */
TEST_F(Itm, AllocationsInTheHeap_AreUndone)
{
	void *root;
	for (int k = 0; k < 5000; k++)
		allocate_cancelled(pair_, k % 2 != 0);
	__transaction_atomic
	{
		root = fur_itm_root(1);
		pair_->b = 7;
	}
	EXPECT_EQ(root, nullptr);
	EXPECT_EQ(pair_->a + pair_->b, 12);
}

TEST_F(Itm, AFullHeap_GivesNull)
{
	int blocks = 0;
	for (void *got = this; got; blocks++)
		__transaction_atomic
		{
			got = fur_itm_alloc(60000);
		}
	EXPECT_GT(blocks, 10);
	EXPECT_LT(blocks, 40);
}

long *given;
void make_memory(bool cancel, bool release)
{
	__transaction_atomic
	{
		long *made = static_cast<long *>(malloc(64));
		long *zero = static_cast<long *>(calloc(8, 8));
		long *one = new long(1), *many = new long[4];
		made[0] = zero[7] + *one;
		many[1] = made[0];
		delete one;
		delete[] many;
		free(zero);
		if (release)
			free(given);
		given = made;
		if (cancel)
			__transaction_cancel;
	}
}

/* Under valgrind or with a checking malloc() this test also finds leaks and double frees. */
TEST_F(Itm, MemoryOfTheProcess_IsGivenBackAtTheCommit)
{
	given = nullptr;
	make_memory(false, false);
	ASSERT_NE(given, nullptr);
	EXPECT_EQ(given[0], 1);
	long *before = given;
	for (int k = 0; k < 1000; k++) {
		make_memory(true, true);
		ASSERT_EQ(given, before);
		ASSERT_EQ(before[0], 1); /* not given back */
		make_memory(false, true);
		before = given;
	}
	free(given);
}

/* ------------------------------------------------------------ actions */

std::string told;
void tell(void *what)
{
	told += static_cast<const char *>(what);
}
extern "C" SAFE void _ITM_addUserCommitAction(void (*)(void *), uint64_t, void *);
extern "C" SAFE void _ITM_addUserUndoAction(void (*)(void *), void *);
PURE void add_actions(const char *commit, const char *undo)
{
	_ITM_addUserCommitAction(tell, 1, const_cast<char *>(commit));
	_ITM_addUserUndoAction(tell, const_cast<char *>(undo));
}

void act(Pair *pair, bool cancel_inner, bool cancel_outer)
{
	told.clear();
	__transaction_atomic
	{
		pair->a++;
		add_actions("A", "a");
		__transaction_atomic
		{
			pair->b++;
			add_actions("B", "b");
			add_actions("C", "c");
			if (cancel_inner)
				__transaction_cancel;
		}
		add_actions("D", "d");
		if (cancel_outer)
			__transaction_cancel;
	}
}

TEST_F(Itm, Actions_RunInOrder_AndUndoActionsBackwards)
{
	act(pair_, false, false);
	EXPECT_EQ(told, "ABCD");
	act(pair_, true, false);
	EXPECT_EQ(told, "cbAD");
	act(pair_, false, true);
	EXPECT_EQ(told, "dcba");
	act(pair_, true, true);
	EXPECT_EQ(told, "cbda");
}

/* A commit action begins a transaction of its own, with an action of its own. */
Pair *acting;
void act_again(void *)
{
	told += "<";
	__transaction_atomic
	{
		acting->b = 40;
		add_actions(">", "");
	}
}
PURE void add_act_again()
{
	_ITM_addUserCommitAction(act_again, 1, nullptr);
}

TEST_F(Itm, AnAction_MayHaveATransaction)
{
	told.clear();
	acting = pair_;
	__transaction_atomic
	{
		pair_->a = 41;
		add_act_again();
		add_actions("Z", "");
	}
	EXPECT_EQ(told, "<>Z");
	EXPECT_EQ(pair_->a + pair_->b, 81);
}

/* ------------------------------------------------------------ calls through pointers */

SAFE __attribute__((noinline)) void add_one(Pair *pair)
{
	pair->a++;
	pair->b++;
}
typedef void (*SafeFunction)(Pair *) __attribute__((transaction_safe));

struct Shape {
	SAFE virtual long area(const Pair *pair) const
	{
		return pair->a;
	}
	virtual ~Shape() = default;
};
struct Square : Shape {
	SAFE long area(const Pair *pair) const override
	{
		return pair->a * pair->a;
	}
};

TEST_F(Itm, CallsThroughPointers_FindTheClone)
{
	SafeFunction volatile pointer = add_one;
	Square square;
	const Shape *volatile shape = &square;
	SafeFunction call = pointer;
	const Shape *called = shape;
	long area;
	__transaction_atomic
	{
		pair_->a = 6;
		call(pair_); /* instrumented: it finds 6 */
		area = called->area(pair_);
	}
	EXPECT_EQ(pair_->a, 7);
	EXPECT_EQ(pair_->b, 3);
	EXPECT_EQ(area, 49);
}

} // namespace
