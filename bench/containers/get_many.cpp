/* SPDX-License-Identifier: BSD-3-Clause
 *
 * get_many.cpp - get_many() next to as many calls of get(), in one transaction either way: of both
 * maps, in plain and in optimistic transactions; and LMDB's gets.  Keys and values have 8 bytes.
 */
#include "containers.hpp"

#include <fur/root.hpp>

#include <map>
#include <memory>
#ifdef BENCH_LMDB
#include <lmdb.h>
#endif

namespace containers
{

namespace
{

/* n keys in one transaction.  Returns the sum of their values. */
struct Lookup {
	virtual ~Lookup() = default;
	virtual uint64_t sum(const uint64_t *keys, size_t n) = 0;
};

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
		return fur::Heap::create(path, options((64 << 20) + keys * 64, 0));
	}
	std::string path_;
	fur::Heap heap_;

public:
	fur::Thread self;
	Map &map;
};

/* Tx: fur_ro or fur_reader.  Body: a body of both. */
template <class Tx, class Body>
uint64_t read_in(fur_thread *self, Body body)
{
	if constexpr (std::is_same_v<Tx, fur_ro>)
		return fur::read(self, body);
	else
		return fur::read(self, fur::rerun, body);
}

template <class Tx, class Map>
struct OneByOne : Lookup {
	explicit OneByOne(const Store<Map> &s) : store(s) {}
	uint64_t sum(const uint64_t *keys, size_t n) override
	{
		return read_in<Tx>(store.self, [&](Tx *tx) {
			uint64_t all = 0;
			for (size_t i = 0; i < n; i++)
				all += store.map.get(tx, keys[i]).value();
			return all;
		});
	}
	const Store<Map> &store;
};

template <class Tx, class Map>
struct Many : Lookup {
	explicit Many(const Store<Map> &s) : store(s) {}
	uint64_t sum(const uint64_t *keys, size_t n) override
	{
		return read_in<Tx>(store.self, [&](Tx *tx) {
			uint64_t all = 0;
			store.map.get_many(
			        tx, keys, n, [&](size_t, uint64_t value) { all += value; });
			return all;
		});
	}
	const Store<Map> &store;
};

#ifdef BENCH_LMDB
void lmdb_check(int error)
{
	if (error)
		die(std::string("LMDB: ") + mdb_strerror(error));
}

class Lmdb : public Lookup
{
public:
	explicit Lmdb(const Settings &s)
	    : path_(s.directory + "/fur-bench-containers-get-many-lmdb")
	{
		remove();
		lmdb_check(mdb_env_create(&env_));
		lmdb_check(mdb_env_set_mapsize(env_, (256 << 20) + s.keys * 256));
		lmdb_check(mdb_env_open(
		        env_, path_.c_str(), MDB_NOSUBDIR | MDB_NOSYNC | MDB_WRITEMAP, 0600));
		MDB_txn *tx;
		lmdb_check(mdb_txn_begin(env_, nullptr, 0, &tx));
		lmdb_check(mdb_dbi_open(tx, nullptr, MDB_INTEGERKEY, &db_));
		for (uint64_t k = 0; k < s.keys; k++) {
			uint64_t key = key_of(k);
			MDB_val at{sizeof key, &key}, value{sizeof k, &k};
			lmdb_check(mdb_put(tx, db_, &at, &value, 0));
		}
		lmdb_check(mdb_txn_commit(tx));
		lmdb_check(mdb_txn_begin(env_, nullptr, MDB_RDONLY, &reader_));
		mdb_txn_reset(reader_);
	}
	~Lmdb() override
	{
		mdb_txn_abort(reader_);
		mdb_env_close(env_);
		remove();
	}
	uint64_t sum(const uint64_t *keys, size_t n) override
	{
		uint64_t all = 0;
		lmdb_check(mdb_txn_renew(reader_));
		for (size_t i = 0; i < n; i++) {
			MDB_val at{sizeof *keys, const_cast<uint64_t *>(&keys[i])}, value;
			lmdb_check(mdb_get(reader_, db_, &at, &value));
			uint64_t k;
			memcpy(&k, value.mv_data, sizeof k);
			all += k;
		}
		mdb_txn_reset(reader_);
		return all;
	}

private:
	void remove() const
	{
		unlink(path_.c_str());
		unlink((path_ + "-lock").c_str());
	}
	std::string path_;
	MDB_env *env_ = nullptr;
	MDB_dbi db_ = 0;
	MDB_txn *reader_ = nullptr;
};
#endif

/* Nanoseconds a key, for calls with n keys. */
double measure(Lookup &lookup, const Settings &s, size_t n)
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
			sum += lookup.sum(&keys[at], n);
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
	std::unique_ptr<Lookup> single, many;
	std::vector<double> ns{}, single_ns{}, ratio{};
};

template <class Tx, class Map>
void add_ways(std::vector<Way> &ways, const std::string &name, const Store<Map> &store)
{
	for (const size_t n : {10, 100})
		ways.push_back({name + "get_many_" + std::to_string(n), n,
		        std::make_unique<OneByOne<Tx, Map>>(store),
		        std::make_unique<Many<Tx, Map>>(store)});
}

void print(const Settings &s, const std::vector<Way> &ways, const bench::RoundTrips &trips)
{
	printf("%lu keys and values of 8 bytes: median of %u rounds of %g s; a ratio is of one "
	       "round\n%s\n",
	        static_cast<unsigned long>(s.keys), s.rounds, s.seconds, trips.text().c_str());
	for (const Way &way : ways)
		printf("%-34s %4.0f ns a key; one by one %4.0f ns; ratio %.2f (%.2f to %.2f)\n",
		        way.name.c_str(), median(way.ns), median(way.single_ns), median(way.ratio),
		        *std::min_element(way.ratio.begin(), way.ratio.end()),
		        *std::max_element(way.ratio.begin(), way.ratio.end()));
}

} // namespace

tools::Json measure_get_many(const Settings &s)
{
	const Store<Ordered> ordered(s, "ordered");
	const Store<Hash> hash(s, "hash");
	std::vector<Way> ways;
	add_ways<fur_ro>(ways, "", ordered);
	add_ways<fur_ro>(ways, "hash_map_", hash);
	add_ways<fur_reader>(ways, "optimistic_", ordered);
	add_ways<fur_reader>(ways, "optimistic_hash_map_", hash);
#ifdef BENCH_LMDB
	ways.push_back({"get_many_10_next_to_lmdb", 10, std::make_unique<Lmdb>(s),
	        std::make_unique<Many<fur_ro, Ordered>>(ordered)});
#endif
	bench::RoundTrips trips;
	for (unsigned round = 0; round < s.rounds; round++) {
		trips.take();
		for (Way &way : ways) {
			way.ns.push_back(measure(*way.many, s, way.n));
			way.single_ns.push_back(measure(*way.single, s, way.n));
			way.ratio.push_back(way.single_ns.back() / way.ns.back());
		}
	}
	tools::Json result{{"keys", s.keys}, {"rounds", s.rounds}, {"round_trip_ns", trips.json()}};
	for (const Way &way : ways) {
		result[way.name] = median(way.ratio);
		result[way.name + "_rounds"] = way.ratio;
		result[way.name + "_ns"] = way.ns;
	}
	if (s.json != "-")
		print(s, ways, trips);
	return result;
}

} // namespace containers
