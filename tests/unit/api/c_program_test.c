/* SPDX-License-Identifier: BSD-3-Clause
 *
 * c_program_test.c - fur_load(), fur_read() and fur_update_run() as a C program uses them: values
 * of each width and type, through pointers to const; a body that libfur leaves by longjmp(), and
 * runs again.
 */
#include "nameless_heap.h"

#include <pthread.h>

struct pair {
	uint32_t a, b;
};
struct text {
	char at[8];
};
struct all {
	int8_t i8;
	uint16_t u16;
	int32_t i32;
	uint64_t u64;
	float real;
	double wide;
	bool flag;
	struct pair pair;
	struct text text;
	const struct all *pointer;
};

static fur_heap *heap;
static struct all *all;
static int failures;

#define EXPECT(what)                                                                               \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			failures++;                                                                \
			printf("line %d: %s\n", __LINE__, #what);                                  \
		}                                                                                  \
	} while (0)

/* Every member has the value that store_all() gave it. */
#define EXPECT_ALL(tx, p, n)                                                                       \
	do {                                                                                       \
		const struct all *from = (p);                                                      \
		EXPECT(fur_load(tx, &from->i8) == (int8_t) - (n));                                 \
		EXPECT(fur_load(tx, &from->u16) == 65000 + (n));                                   \
		EXPECT(fur_load(tx, &from->i32) == -70000 - (n));                                  \
		EXPECT(fur_load(tx, &from->u64) == UINT64_C(0x123456789abcdef0) + (n));            \
		EXPECT(fur_load(tx, &from->real) == 0.5f + (float)(n));                            \
		EXPECT(fur_load(tx, &from->wide) == 0.25 + (n));                                   \
		EXPECT(fur_load(tx, &from->flag) == true);                                         \
		struct pair pair = fur_load(tx, &from->pair);                                      \
		EXPECT(pair.a == 1u + (n) && pair.b == 2u + (n));                                  \
		EXPECT(memcmp(fur_load(tx, &from->text).at, "eight by", 8) == 0);                  \
		const struct all *pointer = fur_load(tx, &from->pointer);                          \
		EXPECT(pointer == from);                                                           \
		struct all copy;                                                                   \
		fur_read(tx, &copy, from, sizeof copy);                                            \
		EXPECT(copy.i32 == -70000 - (n) && copy.pointer == from);                          \
	} while (0)

static void store_all(fur_update *tx, struct all *to, int n)
{
	struct pair pair = {1u + (unsigned)n, 2u + (unsigned)n};
	struct text text;
	memcpy(text.at, "eight by", 8);
	fur_store(tx, &to->i8, (int8_t)-n);
	fur_store(tx, &to->u16, (uint16_t)(65000 + n));
	fur_store(tx, &to->i32, -70000 - n);
	fur_store(tx, &to->u64, UINT64_C(0x123456789abcdef0) + (uint64_t)n);
	fur_store(tx, &to->real, 0.5f + (float)n);
	fur_store(tx, &to->wide, 0.25 + n);
	fur_store(tx, &to->flag, true);
	fur_store(tx, &to->pair, pair);
	fur_store(tx, &to->text, text);
	fur_store(tx, &to->pointer, to);
}

static void make_all(fur_update *tx, void *arg)
{
	(void)arg;
	struct all *fresh = fur_alloc(tx, sizeof *fresh);
	store_all(tx, fresh, 1);
	EXPECT_ALL(tx, fresh, 1);
	fur_set_root(tx, 0, fresh);
	all = fur_root(tx, 0);
	EXPECT(all == fresh);
	EXPECT((uintptr_t)fur_alloc_aligned(tx, 40, FUR_CACHE_LINE) % FUR_CACHE_LINE == 0);
}

static void *store_on_another_thread(void *arg)
{
	fur_thread *self;
	fur_update *tx;
	(void)arg;
	must(fur_thread_register(heap, NULL, &self));
	must(fur_begin_update(self, &tx));
	store_all(tx, all, 2);
	must(fur_commit(tx, NULL));
	return NULL;
}

static int runs, ends;

static void load_twice(fur_update *tx, void *arg)
{
	const struct all *p = arg;
	pthread_t other;
	int32_t before = fur_load(tx, &p->i32);
	if (++runs == 1) {
		EXPECT(before == -70001);
		must(pthread_create(&other, NULL, store_on_another_thread, NULL));
		must(pthread_join(other, NULL));
	}
	EXPECT(fur_load(tx, &p->u16) == 65002);
	EXPECT(before == -70002);
	store_all(tx, all, 3);
	EXPECT_ALL(tx, p, 3);
	ends++;
}

int main(void)
{
	struct fur_options o;
	fur_thread *self;
	fur_ro *ro;
	fur_options_init(&o);
	o.pm = FUR_PM_EMULATED;
	o.htm = FUR_HTM_NONE;
	o.heap_bytes = 4 << 20;
	heap = nameless_heap(&o);
	must(fur_thread_register(heap, NULL, &self));
	must(fur_update_run(self, make_all, NULL, NULL));
	must(fur_begin_ro(self, &ro));
	EXPECT_ALL(ro, all, 1);
	must(fur_end_ro(ro, NULL));
	must(fur_update_run(self, load_twice, all, NULL));
	EXPECT(runs == 2 && ends == 1);
	must(fur_begin_ro(self, &ro));
	EXPECT_ALL(ro, all, 3);
	must(fur_end_ro(ro, NULL));
	must(fur_close(heap));
	printf("%d failures\n", failures);
	return failures != 0;
}
