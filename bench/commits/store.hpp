/* SPDX-License-Identifier: BSD-3-Clause
 *
 * store.hpp - one database of the benchmarks of commits and of snapshots: libfur or another one.
 */
#ifndef COMMITS_STORE_HPP
#define COMMITS_STORE_HPP

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace commits
{

struct Shape {
	std::string directory, memory; /* the second one is for systems that need no disk */
	uint64_t keys = 10000;
	uint64_t bytes = 64; /* of a value */
	unsigned threads = 1, async_ms = 10;
	uint64_t ring_slots = 0;         /* of libfur; 0: its default */
	uint64_t most_bytes = 256 << 20; /* to which LMDB's file may grow */
	bool sync = true;                /* each put() of SQLite, LMDB and RocksDB is durable */
};

/* Thrown by put(): the database has no room for another update.  It has not changed. */
struct Full : std::runtime_error {
	using std::runtime_error::runtime_error;
};

/* What a read of all entries has found: how many, and the sum of their values' first words. */
struct Seen {
	uint64_t entries = 0, sum = 0;
};

/* A database that maps the keys [0, keys) to values, in files of its own in the directory. */
class Store
{
public:
	virtual ~Store() = default;
	/* A thread's connection.  put() sets the value of a key, and returns when a failure of the
	 * power cannot lose it, or could not lose it once sync() has returned. */
	using Put = std::function<void(uint64_t key, const void *value)>;
	virtual Put connect() = 0;
	/* A thread's long read: one transaction, or one snapshot, from here until the object goes.
	 * Each call reads all keys in the database's order, and their values, as of one and the
	 * same instant.  It stays in the thread that has called reader(). */
	using Read = std::function<Seen()>;
	virtual Read reader()
	{
		throw std::logic_error("this store has no long read");
	}
	/* Make all that was put before durable. */
	virtual void sync() {}
	/* How it is configured, for the result. */
	virtual std::string settings() const = 0;
};

using Maker = std::unique_ptr<Store> (*)(const Shape &);
struct System {
	std::string name;
	Maker make;
	bool in_memory = false; /* in Shape::memory */
};

/* Those that this program was built with; `bare` and those of libfur always. */
std::vector<System> systems();

/* For a call of a library that must not fail. */
inline void must(bool succeeded, const std::string &call, const std::string &why)
{
	if (!succeeded)
		throw std::runtime_error(call + ": " + why);
}

} // namespace commits

#endif /* COMMITS_STORE_HPP */
