/* SPDX-License-Identifier: BSD-3-Clause
 *
 * get_many.cpp - --get-many: many look-ups in one transaction.  Keys and values have 8 bytes.  Each
 * ratio tells how many times as many look-ups a second the first one makes as the second:
 *
 *     get_many_10, get_many_100        get_many() of the ordered map in a plain read; as many get()
 *     hash_map_...                     the same of the hash map
 *     optimistic_..., update_...       the same in an optimistic read, and in a software update
 *     table_group_10 (100)             in a hash table of the program's own (table.hpp): the
 *                                      searches of a group by hand; one by one
 *     table_interleave_10 (100)        there: coroutines of fur::interleave(); one by one
 *     table_interleave_over_group_10 (100)
 *                                      there: coroutines; the group by hand
 *     get_many_10_next_to_lmdb         get_many() of the ordered map; as many mdb_get()
 *     rocksdb_multiget_10 (100)        get_many() of the ordered map; one MultiGet() of RocksDB
 *     rocksdb_get                      one get() of the ordered map in a transaction; one Get()
 */
#include "containers.hpp"
#include "table.hpp"

#include <fur/root.hpp>

#include <functional>
#ifdef BENCH_LMDB
#include "lmdb.hpp"
#endif
#ifdef BENCH_ROCKSDB
#include "rocksdb.hpp"
#endif

namespace containers
{

namespace
{

/* Look n keys up in one transaction.  Returns the sum of their values. */
using Lookup = std::function<uint64_t(const uint64_t *keys, size_t n)>;

using Hash = fur::hash_map<uint64_t, uint64_t>;
using Ordered = fur::ordered_map<uint64_t, uint64_t>;

/* A map in a heap of its own, which the run removes. */
template <class Map>
class Store
{
public:
	Store(const Settings &s, const char *name)
	    : path_(s.directory + "/fur-bench-containers-get-many-" + name),
	      heap_(make(path_, s.keys)), self(heap_), map(*fur::root<Map>(self, "map"))
	{
		enum : uint64_t { BATCH = 16 };
		if constexpr (std::is_same_v<Map, Table>)
			fur::update(self, [&](fur_update *tx) { map.make_slots(tx, s.keys); });
		for (uint64_t from = 0; from < s.keys; from += BATCH)
			fur::update(self, fur::rerun, [&](fur_update *tx) {
				for (uint64_t k = from; k < s.keys && k < from + BATCH; k++)
					map.insert(tx, key_of(k), k);
			});
	}
	~Store()
	{
		heap_.close();
		unlink(path_.c_str());
	}
	Store(const Store &) = delete;

private:
	static fur::Heap make(const std::string &path, uint64_t keys)
	{
		unlink(path.c_str());
		fur::Options o = options((64 << 20) + keys * 64, 0);
		o.htm = FUR_HTM_NONE; /* its updates run in software */
		return fur::Heap::create(path, o);
	}
	std::string path_;
	fur::Heap heap_;

public:
	fur::Thread self;
	Map &map;
};

/* body(tx, keys, n, sum) in a transaction: a fur_ro, a fur_reader or a fur_update. */
template <class Tx, class Body>
Lookup in_transaction(fur_thread *self, Body body)
{
	return [=](const uint64_t *keys, size_t n) {
		const auto look_up = [&](Tx *tx) {
			uint64_t sum = 0;
			body(tx, keys, n, sum);
			return sum;
		};
		if constexpr (std::is_same_v<Tx, fur_ro>)
			return fur::read(self, look_up);
		else if constexpr (std::is_same_v<Tx, fur_update>)
			return fur::update(self, fur::rerun, look_up);
		else
			return fur::read(self, fur::rerun, look_up);
	};
}

template <class Tx, class Map>
Lookup one_by_one(const Store<Map> &store)
{
	const auto body = [&map = store.map](
	                          Tx *tx, const uint64_t *keys, size_t n, uint64_t &sum) {
		for (size_t i = 0; i < n; i++)
			sum += map.get(tx, keys[i]).value();
	};
	return in_transaction<Tx>(store.self, body);
}

template <class Tx, class Map>
Lookup many(const Store<Map> &store)
{
	const auto body = [&map = store.map](
	                          Tx *tx, const uint64_t *keys, size_t n, uint64_t &sum) {
		map.get_many(tx, keys, n, [&](size_t, uint64_t value) { sum += value; });
	};
	return in_transaction<Tx>(store.self, body);
}

/* The three ways of Table: `way` is a member function of it. */
template <class Way>
Lookup in_table(const Store<Table> &store, Way way)
{
	const auto body = [&table = store.map, way](
	                          fur_ro *tx, const uint64_t *keys, size_t n, uint64_t &sum) {
		way(table, tx, keys, n, [&](uint64_t value) { sum += value; });
	};
	return in_transaction<fur_ro>(store.self, body);
}

#ifdef BENCH_LMDB
struct Lmdb {
	explicit Lmdb(const Settings &s)
	    : file(s, "get-many-lmdb", (256 << 20) + s.keys * 256), reader(file.env)
	{
		MDB_txn *tx;
		lmdb_check(mdb_txn_begin(file.env, nullptr, 0, &tx));
		for (uint64_t k = 0; k < s.keys; k++) {
			uint64_t key = key_of(k);
			MDB_val at{sizeof key, &key}, value{sizeof k, &k};
			lmdb_check(mdb_put(tx, file.db, &at, &value, 0));
		}
		lmdb_check(mdb_txn_commit(tx));
	}
	uint64_t sum(const uint64_t *keys, size_t n) const
	{
		uint64_t all = 0;
		lmdb_check(mdb_txn_renew(reader.tx));
		for (size_t i = 0; i < n; i++) {
			MDB_val at{sizeof *keys, const_cast<uint64_t *>(&keys[i])}, value;
			lmdb_check(mdb_get(reader.tx, file.db, &at, &value));
			uint64_t k;
			memcpy(&k, value.mv_data, sizeof k);
			all += k;
		}
		mdb_txn_reset(reader.tx);
		return all;
	}

	LmdbFile file;
	LmdbReader reader;
};
#endif

/* Nanoseconds a key, for calls with n keys. */
double measure(const Lookup &lookup, const Settings &s, size_t n)
{
	enum : size_t { AHEAD = 1000 };
	std::vector<uint64_t> keys(n * AHEAD);
	Random random{static_cast<uint64_t>(now() * 1e6)};
	double took = 0;
	uint64_t calls = 0;
	while (took < s.seconds) {
		uint64_t sum = 0;
		for (uint64_t &key : keys) {
			const uint64_t k = random.below(s.keys);
			key = key_of(k);
			sum -= k;
		}
		const double from = now();
		for (size_t at = 0; at < keys.size(); at += n, calls++)
			sum += lookup(&keys[at], n);
		took += now() - from;
		if (sum != 0)
			die("a value is wrong");
	}
	return took / static_cast<double>(calls * n) * 1e9;
}

/* A way to look up n keys, and that to which it is compared. */
struct Way {
	std::string name;
	size_t n;
	Lookup other, many;
	std::vector<double> ns{}, other_ns{}, ratio{};
};

template <class Tx, class Map>
void add_ways(std::vector<Way> &ways, const std::string &name, const Store<Map> &store)
{
	for (const size_t n : {10, 100})
		ways.push_back({name + "get_many_" + std::to_string(n), n, one_by_one<Tx>(store),
		        many<Tx>(store)});
}

void add_table_ways(std::vector<Way> &ways, const Store<Table> &store)
{
	const Lookup each = in_table(
	                     store, [](const Table &table, auto... a) { table.one_by_one(a...); }),
	             group = in_table(
	                     store, [](const Table &table, auto... a) { table.grouped(a...); }),
	             coroutines = in_table(
	                     store, [](const Table &table, auto... a) { table.interleaved(a...); });
	for (const size_t n : {10, 100}) {
		const std::string number = "_" + std::to_string(n);
		ways.push_back({"table_group" + number, n, each, group});
		ways.push_back({"table_interleave" + number, n, each, coroutines});
		ways.push_back({"table_interleave_over_group" + number, n, group, coroutines});
	}
}

void print(const Settings &s, const std::vector<Way> &ways, const bench::RoundTrips &trips)
{
	printf("%lu keys and values of 8 bytes: median of %u rounds of %g s; a ratio is of one "
	       "round\n%s\n",
	        static_cast<unsigned long>(s.keys), s.rounds, s.seconds, trips.text().c_str());
	for (const Way &way : ways)
		printf("%-34s %4.0f ns a key; the other %4.0f ns; ratio %.2f (%.2f to %.2f)\n",
		        way.name.c_str(), median(way.ns), median(way.other_ns), median(way.ratio),
		        *std::min_element(way.ratio.begin(), way.ratio.end()),
		        *std::max_element(way.ratio.begin(), way.ratio.end()));
}

} // namespace

tools::Json measure_get_many(const Settings &s)
{
	const Store<Ordered> ordered(s, "ordered");
	const Store<Hash> hash(s, "hash");
	const Store<Table> table(s, "table");
	std::vector<Way> ways;
	add_ways<fur_ro>(ways, "", ordered);
	add_ways<fur_ro>(ways, "hash_map_", hash);
	add_ways<fur_reader>(ways, "optimistic_", ordered);
	add_ways<fur_reader>(ways, "optimistic_hash_map_", hash);
	add_ways<fur_update>(ways, "update_", ordered);
	add_ways<fur_update>(ways, "update_hash_map_", hash);
	add_table_ways(ways, table);
#ifdef BENCH_LMDB
	const Lmdb lmdb(s);
	ways.push_back({"get_many_10_next_to_lmdb", 10,
	        [&](const uint64_t *keys, size_t n) { return lmdb.sum(keys, n); },
	        many<fur_ro>(ordered)});
#endif
#ifdef BENCH_ROCKSDB
	Rocksdb rocksdb(s);
	for (const size_t n : {10, 100})
		ways.push_back({"rocksdb_multiget_" + std::to_string(n), n,
		        [&](const uint64_t *keys, size_t m) {
			        return rocksdb.sum_of_many(keys, m);
		        },
		        many<fur_ro>(ordered)});
	ways.push_back({"rocksdb_get", 1,
	        [&](const uint64_t *keys, size_t n) { return rocksdb.sum_of_each(keys, n); },
	        one_by_one<fur_ro>(ordered)});
#endif
	bench::RoundTrips trips;
	for (unsigned round = 0; round < s.rounds; round++) {
		trips.take();
		for (Way &way : ways) {
			way.ns.push_back(measure(way.many, s, way.n));
			way.other_ns.push_back(measure(way.other, s, way.n));
			way.ratio.push_back(way.other_ns.back() / way.ns.back());
		}
	}
	tools::Json result{{"keys", s.keys}, {"rounds", s.rounds}, {"round_trip_ns", trips.json()}};
	for (const Way &way : ways) {
		result[way.name] = median(way.ratio);
		result[way.name + "_rounds"] = way.ratio;
		result[way.name + "_ns"] = way.ns;
		result[way.name + "_other_ns"] = way.other_ns;
	}
#ifdef BENCH_ROCKSDB
	result["rocksdb"] = bench::rocksdb_version();
#endif
	if (s.json != "-") {
		print(s, ways, trips);
#ifdef BENCH_ROCKSDB
		printf("%s\n", bench::rocksdb_version().c_str());
#endif
	}
	return result;
}

} // namespace containers
