/* SPDX-License-Identifier: BSD-3-Clause
 *
 * containers.cpp - libfur's maps next to LMDB, the hash map of libpmemobj's examples, and std::map,
 * in memory: the same keys and values, one operation a transaction.  In each round the systems take
 * turns, and the ratios are of one round.
 *
 * --get-many instead: many keys in one call (get_many.cpp).
 *
 * --table instead: a fur::table next to containers that are kept by hand (tables.cpp).
 *
 * --fill instead: how long a heap that grows takes to be filled with pairs of strings, next to one
 * that is large enough from the start.
 */
#include "containers.hpp"
#include "../../tools/common/command_line.hpp"
#include "../common/output.hpp"

#include <fur/root.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#ifdef BENCH_LMDB
#include "lmdb.hpp"
#endif
#ifdef BENCH_PMEMOBJ
#include "pmemobj.h"
#endif

namespace containers
{

namespace
{

struct Value {
	uint64_t word[8];
};

/* A thread's view of a store.  Each call is a transaction. */
struct Session {
	virtual ~Session() = default;
	virtual bool get(uint64_t key, Value &value) = 0;
	virtual void put(uint64_t key, const Value &value) = 0;
	/* All values in one go.  Returns a sum, so that they are read. */
	virtual uint64_t scan()
	{
		return 0;
	}
};
struct Store {
	virtual ~Store() = default;
	virtual std::unique_ptr<Session> session() = 0;
};

/* ---------------------------------------------------------------------- libfur */

template <class Map>
class FurStore : public Store
{
public:
	FurStore(const Settings &s, const char *name)
	    : path_(s.directory + "/fur-bench-containers-" + name), heap_(make(path_, s.keys)),
	      map_(nullptr)
	{
		fur::Thread self(heap_);
		map_ = fur::root<Map>(self, "map");
	}
	~FurStore() override
	{
		heap_.close();
		unlink(path_.c_str());
	}
	std::unique_ptr<Session> session() override
	{
		return std::make_unique<FurSession>(heap_, *map_);
	}

private:
	static fur::Heap make(const std::string &path, uint64_t keys)
	{
		unlink(path.c_str());
		return fur::Heap::create(path, options((64 << 20) + keys * 256, 0));
	}
	struct FurSession : Session {
		FurSession(fur_heap *heap, Map &m) : self(heap), map(m) {}
		bool get(uint64_t key, Value &value) override
		{
			return fur::read(self, [&](fur_ro *tx) {
				const Value *at = map.lookup(tx, key);
				if (at)
					fur_read(tx, &value, at, sizeof value);
				return at != nullptr;
			});
		}
		void put(uint64_t key, const Value &value) override
		{
			fur::update(self, fur::rerun,
			        [&](fur_update *tx) { map.insert_or_assign(tx, key, value); });
		}
		uint64_t scan() override
		{
			uint64_t sum = 0;
			fur::read(self, [&](fur_ro *tx) {
				for (const auto &[key, value] : map.in(tx))
					sum += value.word[0];
			});
			return sum;
		}
		fur::Thread self;
		Map &map;
	};
	std::string path_;
	fur::Heap heap_;
	Map *map_;
};

/* ---------------------------------------------------------------------- others */

class StdMap : public Store
{
public:
	std::unique_ptr<Session> session() override
	{
		return std::make_unique<StdSession>(map_);
	}

private:
	struct StdSession : Session {
		explicit StdSession(std::map<uint64_t, Value> &m) : map(m) {}
		bool get(uint64_t key, Value &value) override
		{
			auto at = map.find(key);
			if (at != map.end())
				value = at->second;
			return at != map.end();
		}
		void put(uint64_t key, const Value &value) override
		{
			map.insert_or_assign(key, value);
		}
		uint64_t scan() override
		{
			uint64_t sum = 0;
			for (const auto &[key, value] : map)
				sum += value.word[0];
			return sum;
		}
		std::map<uint64_t, Value> &map;
	};
	std::map<uint64_t, Value> map_;
};

#ifdef BENCH_LMDB
class Lmdb : public Store
{
public:
	explicit Lmdb(const Settings &s) : file_(s, "lmdb", (256 << 20) + s.keys * 512) {}
	std::unique_ptr<Session> session() override
	{
		return std::make_unique<LmdbSession>(file_);
	}

private:
	struct LmdbSession : Session {
		explicit LmdbSession(const LmdbFile &f) : file(f), reader(f.env) {}
		bool get(uint64_t key, Value &value) override
		{
			MDB_val k{sizeof key, &key}, v;
			lmdb_check(mdb_txn_renew(reader.tx));
			const int error = mdb_get(reader.tx, file.db, &k, &v);
			if (error == 0)
				memcpy(&value, v.mv_data, sizeof value);
			mdb_txn_reset(reader.tx);
			return error == 0;
		}
		void put(uint64_t key, const Value &value) override
		{
			MDB_val k{sizeof key, &key}, v{sizeof value, const_cast<Value *>(&value)};
			MDB_txn *tx;
			lmdb_check(mdb_txn_begin(file.env, nullptr, 0, &tx));
			lmdb_check(mdb_put(tx, file.db, &k, &v, 0));
			lmdb_check(mdb_txn_commit(tx));
		}
		const LmdbFile &file;
		LmdbReader reader;
	};
	LmdbFile file_;
};
#endif

#ifdef BENCH_PMEMOBJ
void pmemobj_check(const char *wrong)
{
	if (wrong)
		die(std::string("libpmemobj: ") + wrong);
}

/* For one thread at a time. */
class Pmemobj : public Store
{
public:
	explicit Pmemobj(const Settings &s) : path_(s.directory + "/fur-bench-containers-pmemobj")
	{
		unlink(path_.c_str());
		pmemobj_check(pmemobj_map_create(path_.c_str(), (256 << 20) + s.keys * 512, &map_));
	}
	~Pmemobj() override
	{
		pmemobj_map_close(map_);
		unlink(path_.c_str());
	}
	std::unique_ptr<Session> session() override
	{
		return std::make_unique<PmemobjSession>(map_);
	}

private:
	struct PmemobjSession : Session {
		explicit PmemobjSession(pmemobj_map *m) : map(m) {}
		bool get(uint64_t key, Value &value) override
		{
			pmemobj_check(pmemobj_map_get(map, key, &value, sizeof value));
			return true;
		}
		void put(uint64_t key, const Value &value) override
		{
			pmemobj_check(pmemobj_map_put(map, key, &value, sizeof value));
		}
		pmemobj_map *map;
	};
	std::string path_;
	pmemobj_map *map_ = nullptr;
};
#endif

/* ------------------------------------------------------------------ measurements */

struct System {
	std::string name;
	std::unique_ptr<Store> store;
};

/* Operations a second of `threads` threads together. */
double measure(Store &store, unsigned threads, double seconds,
        const std::function<void(Session &, Random &, uint64_t &)> &operation)
{
	std::atomic<bool> begin{false}, stop{false};
	std::atomic<uint64_t> operations{0}, ready{0};
	std::vector<std::thread> all;
	for (unsigned t = 0; t < threads; t++)
		all.emplace_back([&, t] {
			auto session = store.session();
			Random random{t + static_cast<uint64_t>(now() * 1e6)};
			uint64_t n = 0;
			for (ready++; !begin;)
				std::this_thread::yield();
			while (!stop)
				operation(*session, random, n);
			operations += n;
		});
	while (ready < threads)
		std::this_thread::yield();
	const double from = now();
	begin = true;
	std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
	stop = true;
	for (std::thread &t : all)
		t.join();
	return static_cast<double>(operations) / (now() - from);
}

struct Line {
	std::string what;
	std::vector<std::string>
	        systems; /* the first is the one that the others are compared with */
	unsigned threads;
	std::function<void(Session &, Random &, uint64_t &)> operation;
};

class Rounds
{
public:
	Rounds(const Settings &s, std::vector<System> &systems) : s_(s), systems_(systems) {}

	tools::Json run(const Line &line)
	{
		std::map<std::string, std::vector<double>> rate, ratio;
		bench::RoundTrips trips;
		for (unsigned r = 0; r < s_.rounds; r++) {
			trips.take();
			for (size_t k = 0; k < line.systems.size(); k++) {
				const auto &name = line.systems[(k + r) % line.systems.size()];
				if (Store *store = find(name))
					rate[name].push_back(measure(
					        *store, line.threads, s_.seconds, line.operation));
			}
			for (const auto &[name, rates] : rate)
				if (name != line.systems[0])
					ratio[name].push_back(
					        rate[line.systems[0]].back() / rates.back());
		}
		return report(line, trips, rate, ratio);
	}

private:
	Store *find(const std::string &name)
	{
		for (System &s : systems_)
			if (s.name == name)
				return s.store.get();
		return nullptr;
	}
	tools::Json report(const Line &line, const bench::RoundTrips &trips,
	        std::map<std::string, std::vector<double>> &rate,
	        std::map<std::string, std::vector<double>> &ratio) const
	{
		tools::Json result{{"what", line.what}, {"threads", line.threads},
		        {"round_trip_ns", trips.json()}};
		for (const auto &[name, rates] : rate)
			result[name] = rates;
		if (s_.json == "-")
			return result;
		printf("%-14s %u thread%s", line.what.c_str(), line.threads,
		        line.threads > 1 ? "s" : " ");
		for (const auto &name : line.systems) {
			if (rate.count(name) == 0)
				continue;
			printf("   %s %.2f M/s", name.c_str(), median(rate[name]) / 1e6);
			auto &of = ratio[name];
			if (of.empty())
				continue;
			printf(", ratio %.2f (%.2f to %.2f)", median(of),
			        *std::min_element(of.begin(), of.end()),
			        *std::max_element(of.begin(), of.end()));
		}
		printf("   %s\n", trips.text().c_str());
		fflush(stdout);
		return result;
	}
	const Settings &s_;
	std::vector<System> &systems_;
};

tools::Json compare(const Settings &s)
{
	using Hash = fur::hash_map<uint64_t, Value>;
	using Ordered = fur::ordered_map<uint64_t, Value>;
	std::vector<System> systems;
	systems.push_back({"hash_map", std::make_unique<FurStore<Hash>>(s, "hash")});
	systems.push_back({"ordered_map", std::make_unique<FurStore<Ordered>>(s, "ordered")});
	systems.push_back({"std::map", std::make_unique<StdMap>()});
#ifdef BENCH_LMDB
	systems.push_back({"lmdb", std::make_unique<Lmdb>(s)});
#endif
#ifdef BENCH_PMEMOBJ
	systems.push_back({"libpmemobj", std::make_unique<Pmemobj>(s)});
#endif
	for (System &system : systems) {
		auto session = system.store->session();
		for (uint64_t k = 0; k < s.keys; k++)
			session->put(key_of(k), {{k}});
	}
	auto get = [&](Session &session, Random &random, uint64_t &n) {
		Value value;
		for (int k = 0; k < 64; k++, n++)
			if (!session.get(key_of(random.below(s.keys)), value))
				die("a key is missing");
	};
	auto put = [&](Session &session, Random &random, uint64_t &n) {
		for (int k = 0; k < 16; k++, n++)
			session.put(key_of(random.below(s.keys)), {{n}});
	};
	auto scan = [&](Session &session, Random &, uint64_t &n) {
		session.scan();
		n += s.keys;
	};
	Rounds rounds(s, systems);
	tools::Json results = tools::Json::array();
	results.push_back(rounds.run({"get", {"hash_map", "lmdb", "libpmemobj"}, 1, get}));
	results.push_back(rounds.run({"get", {"hash_map", "lmdb"}, 2, get}));
	results.push_back(rounds.run({"put", {"hash_map", "lmdb", "libpmemobj"}, 1, put}));
	results.push_back(
	        rounds.run({"get, in order", {"ordered_map", "std::map", "lmdb"}, 1, get}));
	results.push_back(rounds.run({"scan", {"ordered_map", "std::map"}, 1, scan}));
	results.push_back(rounds.run({"put, in order", {"ordered_map", "lmdb"}, 1, put}));
	return results;
}

/* ------------------------------------------------------------------------- fill */

/* Seconds to insert all pairs, and the longest insertion. */
std::pair<double, double> fill_once(const Settings &s, bool grows)
{
	using Map = fur::hash_map<fur::string, fur::string>;
	const std::string path = s.directory + "/fur-bench-containers-fill";
	const uint64_t bytes = (64 << 20) + s.keys * 512;
	unlink(path.c_str());
	double longest = 0, took;
	{
		fur::Heap heap = fur::Heap::create(
		        path, grows ? options(64 << 20, bytes) : options(bytes, 0));
		fur::Thread self(heap);
		auto *map = fur::root<Map>(self, "map");
		const double from = now();
		for (uint64_t k = 0; k < s.keys; k++) {
			const std::string key = "user-" + std::to_string(key_of(k)), value(40, 'v');
			const double began = now();
			fur::update(self, fur::rerun,
			        [&](fur_update *tx) { map->insert(tx, key, value); });
			longest = std::max(longest, now() - began);
		}
		took = now() - from;
		heap.close();
	}
	unlink(path.c_str());
	return {took, longest};
}

tools::Json fill(const Settings &s)
{
	std::vector<double> growing, fixed, ratio;
	double longest = 0;
	for (unsigned r = 0; r < s.rounds; r++) {
		const auto [fixed_s, ignored] = fill_once(s, false);
		const auto [growing_s, pause] = fill_once(s, true);
		growing.push_back(growing_s);
		fixed.push_back(fixed_s);
		ratio.push_back(growing_s / fixed_s);
		longest = std::max(longest, pause);
	}
	if (s.json != "-")
		printf("fill with %lu pairs: grows %.2f s, fixed %.2f s, ratio %.2f (%.2f to "
		       "%.2f); "
		       "longest insertion while it grows %.1f ms\n",
		        static_cast<unsigned long>(s.keys), median(growing), median(fixed),
		        median(ratio), *std::min_element(ratio.begin(), ratio.end()),
		        *std::max_element(ratio.begin(), ratio.end()), longest * 1e3);
	return {{"what", "fill"}, {"grows_s", growing}, {"fixed_s", fixed},
	        {"longest_ms", longest * 1e3}};
}

} // namespace

} // namespace containers

int main(int argc, char **argv)
{
	containers::Settings s;
	tools::CommandLine line("containers",
	        "libfur's maps next to others, in memory, one operation a transaction");
	line.option("--directory", s.directory, "where the heaps go; the run removes them");
	line.option("--keys", s.keys, "number of keys, with values of 64 bytes");
	line.option("--rounds", s.rounds, "measurements of each");
	line.option("--seconds", s.seconds, "length of each measurement");
	line.flag("--fill", s.fill, "fill a heap that grows, and one that does not, with strings");
	line.flag("--get-many", s.get_many,
	        "get_many() of 10 and 100 keys next to as many calls of get()");
	line.flag("--table", s.table,
	        "a table with three indexes next to the same containers, kept by hand");
	line.option("--json", s.json,
	        "write each round to this file; -: to standard output in place of the table");
	if (auto status = tools::parse_or_exit_status(line, "containers", argc, argv))
		return *status;
	if (s.keys == 0 || s.rounds == 0) {
		fprintf(stderr, "containers: --keys and --rounds: use 1 or more\n");
		return 2;
	}
	try {
		const tools::Json results = s.fill       ? containers::fill(s)
		                            : s.get_many ? containers::measure_get_many(s)
		                            : s.table    ? containers::measure_table(s)
		                                         : containers::compare(s);
		if (!s.json.empty())
			bench::write_json(s.json, results);
	} catch (const std::exception &e) {
		containers::die(e.what());
	}
	return 0;
}
