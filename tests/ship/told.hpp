/* SPDX-License-Identifier: BSD-3-Clause
 *
 * told.hpp - a program for tests that kill: its threads update a shipped heap, and tell, in memory
 * that outlives it, which update each has begun, and which has returned.
 */
#ifndef TOLD_HPP
#define TOLD_HPP

#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fur.hpp>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace ship_test
{

enum : uint64_t { THREADS = 4, CELLS = 2048 };

struct Root {
	uint64_t sum; /* of all updates */
	struct {
		uint64_t newest;
		uint64_t cell[CELLS]; /* update n: in n % CELLS */
	} of[THREADS];
	void *block;
};

/* Of each thread: the number of the newest update before the run; of the newest that it has begun,
 * and that has returned; and what the first other one has returned. */
struct Told {
	struct {
		uint64_t from, begun, returned;
		int64_t error;
	} of[THREADS];
	uint32_t stop; /* the program closes its heap */

	uint64_t returned() const
	{
		uint64_t sum = 0;
		for (const auto &each : of)
			sum += __atomic_load_n(&each.returned, __ATOMIC_ACQUIRE);
		return sum;
	}
};

/* In memory that processes share. */
inline Told *make_told()
{
	return static_cast<Told *>(mmap(
	        nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

inline fur::Options options(fur_ack ack = FUR_ACK_REPLICATED)
{
	fur::Options o;
	o.heap_bytes = 8 << 20;
	o.log_bytes = 256 << 10;
	o.ring_slots = 2048;
	o.max_threads = 8;
	o.pm = FUR_PM_EMULATED;
	o.ack = ack;
	return o;
}

inline Root *root_of(fur_thread *self)
{
	return fur::read(self, [](fur_ro *tx) { return static_cast<Root *>(fur_root(tx, 0)); });
}

inline void make_heap(const std::string &path)
{
	fur::Heap heap = fur::Heap::create(path, options());
	fur::Thread self(heap);
	fur::update(self, [](fur_update *tx) {
		const std::vector<uint8_t> zero(sizeof(Root));
		void *root = fur_alloc(tx, sizeof(Root));
		fur_write(tx, root, zero.data(), zero.size());
		fur_set_root(tx, 0, root);
	});
}

inline void write_one(fur_thread *self, Root *root, unsigned t, uint64_t n)
{
	static const std::vector<uint8_t> data(300000, 7);
	fur::update(self, [&](fur_update *tx) {
		fur_store(tx, &root->of[t].newest, n);
		fur_store(tx, &root->of[t].cell[n % CELLS], n);
		fur_store(tx, &root->sum, fur_load(tx, &root->sum) + 1);
		/* Larger than the log: its bytes are shipped from the image. */
		if (t == 0 && n % 64 == 0) {
			fur_free(tx, fur_load(tx, &root->block));
			fur_store<void *>(tx, &root->block, nullptr);
		} else if (t == 0 && n % 64 == 32) {
			void *block = fur_alloc(tx, data.size());
			if (block)
				fur_write(tx, block, data.data(), data.size());
			fur_store(tx, &root->block, block);
		}
	});
}

/* Until the process is killed, another heap has taken over, or told->stop. */
inline void work(const std::string &path, Told *told, const fur::Options &o = options())
{
	fur::Heap heap = fur::Heap::open(path, o);
	std::vector<std::thread> threads;
	for (unsigned t = 0; t < THREADS; t++)
		threads.emplace_back([&, t] {
			fur::Thread self(heap);
			Root *root = root_of(self);
			uint64_t n = told->of[t].returned;
			try {
				while (!__atomic_load_n(&told->stop, __ATOMIC_RELAXED)) {
					__atomic_store_n(&told->of[t].begun, ++n, __ATOMIC_RELEASE);
					write_one(self, root, t, n);
					__atomic_store_n(
					        &told->of[t].returned, n, __ATOMIC_RELEASE);
				}
			} catch (const fur::Error &e) {
				told->of[t].error = e.code();
			}
		});
	for (auto &t : threads)
		t.join();
	if (!told->stop)
		pause();
	heap.close();
}

struct Verdict {
	uint64_t lost = 0, twice = 0;
	/* Updates that had returned in the run; of those that had begun and not returned, how many
	 * are there, and how many are not */
	uint64_t returned = 0, there = 0, gone = 0;
	void add(const Verdict &v)
	{
		lost += v.lost;
		twice += v.twice;
		returned += v.returned;
		there += v.there;
		gone += v.gone;
	}
	void print(const char *what, uint64_t n) const
	{
		printf("%" PRIu64 " updates had returned; of those that had not, %" PRIu64
		       " were there, %" PRIu64 " were not\n",
		        returned, there, gone);
		printf("%" PRIu64 " %s, %" PRIu64 " lost, %" PRIu64 " twice\n", n, what, lost,
		        twice);
		fflush(stdout);
	}
};

inline void look_at_thread(fur_ro *tx, const Root *root, unsigned t, const Told *told, Verdict *v)
{
	const auto &of = told->of[t];
	const uint64_t n = fur_load(tx, &root->of[t].newest);
	v->lost += of.returned > n ? of.returned - n : 0;
	v->twice += n > of.begun ? n - of.begun : 0;
	/* FUR_EFENCED says that the log has nothing of it. */
	v->twice += of.error == FUR_EFENCED && n > of.returned;
	v->returned += of.returned - of.from;
	v->there += of.begun > of.returned && n == of.begun;
	v->gone += of.begun > of.returned && n == of.returned;
	for (uint64_t k = n > CELLS ? n - CELLS + 1 : 1; k <= n; k++)
		v->lost += fur_load(tx, &root->of[t].cell[k % CELLS]) != k;
}

/* Is there what has returned?  newest: of each thread, the newest update that is there. */
inline Verdict judge(fur::Heap &heap, const Told &told, std::array<uint64_t, THREADS> *newest)
{
	Verdict v;
	fur::Thread self(heap);
	const Root *root = root_of(self);
	uint64_t all = 0, sum = 0;
	fur::read(self, [&](fur_ro *tx) {
		for (unsigned t = 0; t < THREADS; t++) {
			look_at_thread(tx, root, t, &told, &v);
			all += (*newest)[t] = fur_load(tx, &root->of[t].newest);
		}
		sum = fur_load(tx, &root->sum);
	});
	v.lost += all > sum ? all - sum : 0;
	v.twice += sum > all ? sum - all : 0;
	return v;
}

/* The same of a heap that is closed.  *told is what the next run begins with. */
inline Verdict look(const std::string &path, Told *told, const fur::Options &o = options())
{
	std::array<uint64_t, THREADS> newest{};
	fur::Heap heap = fur::Heap::open(path, o);
	const Verdict v = judge(heap, *told, &newest);
	for (unsigned t = 0; t < THREADS; t++)
		told->of[t] = {newest[t], newest[t], newest[t], 0};
	heap.close();
	return v;
}

} // namespace ship_test

#endif
