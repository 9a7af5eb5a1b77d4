/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bank.cpp - two threads move money between accounts while a third repeatedly adds up all of them:
 * every sum is correct.
 *
 *     c++ -std=c++17 bank.cpp $(pkg-config --cflags --libs libfur) -o bank && ./bank /tmp/bank.fur
 */
#include <atomic>
#include <cstdio>
#include <fur.hpp>
#include <thread>

struct Bank {
	long account[100];
};

static long sum(fur_ro *tx, const Bank *bank)
{
	long total = 0;
	for (const long &a : bank->account)
		total += fur_load(tx, &a);
	return total;
}

static void move_money(fur_heap *heap, Bank *bank, unsigned seed)
{
	fur::Thread self(heap);
	for (int i = 0; i < 10000; i++) {
		seed = seed * 1103515245 + 12345;
		long *from = &bank->account[seed / 65536 % 100],
		     *to = &bank->account[seed / 256 % 100];
		/* rerun: the body may run again, because it changes nothing but the heap.  So the
		 * two threads' updates run next to each other, with or without hardware
		 * transactions. */
		fur::update(self, fur::rerun, [&](fur_update *tx) {
			fur_store(tx, from, fur_load(tx, from) - 1);
			fur_store(tx, to, fur_load(tx, to) + 1);
		});
	}
}

int main(int argc, char **argv)
try {
	if (argc != 2) {
		fprintf(stderr, "usage: bank HEAP\n");
		return 2;
	}
	fur::Heap heap = fur::Heap::open_or_create(argv[1]);
	fur::Thread self(heap);
	auto *bank = fur::update(self, [](fur_update *tx) {
		auto *there = fur::root<Bank>(tx, 0);
		if (!there) {
			there = fur::make<Bank>(tx);
			fur_set_root(tx, 0, there);
		}
		return there;
	});

	std::thread one(move_money, heap.get(), bank, 1), two(move_money, heap.get(), bank, 2);
	long wrong = 0, looks = 0;
	for (; looks < 1000; looks++)
		wrong += fur::read(self, [&](fur_ro *tx) { return sum(tx, bank); }) != 0;
	one.join();
	two.join();
	fur_stats stats = heap.stats();
	printf("%ld sums, %ld of them wrong; %llu updates, all durable; %llu bodies ran again\n",
	        looks, wrong, static_cast<unsigned long long>(stats.update_commits),
	        static_cast<unsigned long long>(stats.defeats));
	heap.close();
	return wrong != 0;
} catch (const fur::Error &e) {
	fprintf(stderr, "bank: %s\n", e.what());
	return 1;
}
