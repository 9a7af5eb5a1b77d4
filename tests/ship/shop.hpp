/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shop.hpp - what the heaps of the standby's tests contain, what they do, and whether two of them
 * are equal.
 */
#ifndef SHOP_HPP
#define SHOP_HPP

#include "../../tools/common/random.hpp"
#include "../unit/fixture.hpp"
#include "image.hpp"
#include "shipper.hpp"

#include <cstring>
#include <fur/bulk.hpp>
#include <fur/hash_map.hpp>
#include <sys/mman.h>

namespace ship_test
{

using tools::Random;

enum : uint64_t { WORDS = 256 };

/* What the heaps have at root 0. */
struct Shop {
	uint64_t updates;     /* one more for each update of the workload */
	uint64_t copy;        /* the same number */
	uint64_t cell[WORDS]; /* their sum is 0 */
	fur::hash_map<uint64_t, uint64_t> stock;
	void *blocks[8];
	uint64_t *records; /* of bulk updates */
};
enum : uint64_t { RECORDS = 1001 };

inline fur::Options options_of_test()
{
	fur::Options o = small_options();
	o.heap_bytes = 4 << 20;
	o.log_bytes = 64 << 10;
	o.ring_slots = 1024;
	return o;
}

inline Shop *shop_of(fur_thread *self)
{
	return fur::read(self, [](fur_ro *tx) { return static_cast<Shop *>(fur_root(tx, 0)); });
}

inline void make_shop(fur_thread *self)
{
	fur::update(self, [&](fur_update *tx) {
		auto *shop = static_cast<Shop *>(fur_alloc(tx, sizeof(Shop)));
		const std::vector<uint8_t> zero(sizeof(Shop));
		fur_write(tx, shop, zero.data(), sizeof(Shop));
		fur_set_root(tx, 0, shop);
	});
	Shop *shop = shop_of(self);
	const std::vector<uint64_t> zero(RECORDS);
	fur::update(self, [&](fur_update *tx) {
		void *records = fur_alloc(tx, RECORDS * 8);
		fur_write(tx, records, zero.data(), RECORDS * 8);
		fur_store(tx, &shop->records, static_cast<uint64_t *>(records));
	});
}

/* A small update: moves something from a cell to another, and changes the map. */
inline void small_update(fur_thread *self, Shop *shop, Random &random)
{
	const uint64_t from = random.below(WORDS), to = random.below(WORDS), n = random.below(9),
	               key = random.below(500);
	fur::update(self, [&](fur_update *tx) {
		const uint64_t number = fur_load(tx, &shop->updates) + 1;
		fur_store(tx, &shop->updates, number);
		fur_store(tx, &shop->copy, number);
		fur_store(tx, &shop->cell[from], fur_load(tx, &shop->cell[from]) - n);
		fur_store(tx, &shop->cell[to], fur_load(tx, &shop->cell[to]) + n);
		if (key % 3)
			shop->stock.insert_or_assign(tx, key, number);
		else
			shop->stock.erase(tx, key);
	});
}

/* A block in place of another one, to which an update has stored.  Every byte is stored. */
inline void block_update(fur_thread *self, Shop *shop, unsigned slot, size_t bytes, uint8_t value)
{
	const std::vector<uint8_t> data(bytes, value);
	fur::update(self, [&](fur_update *tx) {
		if (auto *old = static_cast<uint8_t *>(fur_load(tx, &shop->blocks[slot])))
			fur_write(tx, old + 400, data.data(), 100);
	});
	fur::update(self, [&](fur_update *tx) {
		if (void *old = fur_load(tx, &shop->blocks[slot]))
			fur_free(tx, old);
		fur_store(tx, &shop->blocks[slot], static_cast<void *>(nullptr));
	});
	fur::update(self, [&](fur_update *tx) {
		void *block = fur_alloc(tx, bytes);
		fur_write(tx, block, data.data(), bytes);
		fur_store(tx, &shop->blocks[slot], block);
	});
}

inline void bulk_update(fur_thread *self, Shop *shop)
{
	const fur_extent all = {shop->records, 8, RECORDS};
	fur_bulk job;
	fur_bulk_init(&job);
	job.map = [](void *copy, size_t, uint64_t number, void *) {
		uint64_t value;
		memcpy(&value, copy, sizeof value);
		value += number;
		memcpy(copy, &value, sizeof value);
		return number % 3 != 0;
	};
	job.bytes = 8;
	job.extents = &all;
	job.n = 1;
	fur::check(fur_bulk_run(self, &job, nullptr));
}

inline void expect_equal(const std::string &primary, const std::string &standby)
{
	uint64_t first;
	EXPECT_EQ(differences(primary, standby, &first), 0u)
	        << "bytes of the heaps differ, the first at " << first << ", in chunk "
	        << first / CHUNK_BYTES;
}

/* The whole workload: small updates, fresh blocks, bulk updates, parts. */
inline void mixed_work(fur_thread *self, Shop *shop, uint64_t seed)
{
	Random random{seed};
	for (unsigned k = 0; k < 40; k++) {
		for (unsigned i = random.below(60); i > 0; i--)
			small_update(self, shop, random);
		block_update(self, shop, static_cast<unsigned>(random.below(8)),
		        1000 + random.below(3) * 90000, static_cast<uint8_t>(k));
		if (random.one_in(3)) {
			bulk_update(self, shop);
			/* Where the results have been. */
			block_update(self, shop, static_cast<unsigned>(random.below(8)), 8200, 5);
		}
	}
}

/* What two processes share. */
struct Shared {
	uint64_t updates, stop;
};
class SharedMemory
{
public:
	SharedMemory()
	    : at_(static_cast<Shared *>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
	              MAP_SHARED | MAP_ANONYMOUS, -1, 0)))
	{
	}
	~SharedMemory()
	{
		munmap(at_, sizeof(Shared));
	}
	SharedMemory(const SharedMemory &) = delete;
	Shared *operator->() const
	{
		return at_;
	}
	Shared *get() const
	{
		return at_;
	}

private:
	Shared *at_;
};

} // namespace ship_test

#endif
