/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rocksdb.hpp - a new RocksDB database, for the benchmarks that have it as a peer.
 */
#ifndef BENCH_ROCKSDB_HPP
#define BENCH_ROCKSDB_HPP

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/version.h>

#include <cstdint>
#include <dlfcn.h>
#include <memory>
#include <stdexcept>
#include <string>

namespace bench
{

/* Throws std::runtime_error if a call of RocksDB has failed. */
inline void must(const rocksdb::Status &status, const char *call)
{
	if (!status.ok())
		throw std::runtime_error(std::string(call) + ": " + status.ToString());
}

/* "RocksDB 7.8.3".  Debian builds its library with RocksDB's assertions and points for tests, which
 * cost time: the text says so. */
inline std::string rocksdb_version()
{
	const bool tests = dlsym(RTLD_DEFAULT, "_ZN7rocksdb9SyncPoint11GetInstanceEv");
	return "RocksDB " + rocksdb::GetRocksVersionAsString() +
	       (tests ? " (built with its assertions)" : "");
}

/* The bytes of an object, as a key or a value. */
template <class T>
rocksdb::Slice slice_of(const T &object)
{
	return {reinterpret_cast<const char *>(&object), sizeof object};
}

/* Open a new database, in a directory that is not there yet. */
inline std::unique_ptr<rocksdb::DB> create_rocksdb(
        const std::string &directory, rocksdb::Options options)
{
	options.create_if_missing = options.error_if_exists = true;
	rocksdb::DB *db = nullptr;
	must(rocksdb::DB::Open(options, directory, &db), "rocksdb::DB::Open");
	return std::unique_ptr<rocksdb::DB>(db);
}

} // namespace bench

#endif /* BENCH_ROCKSDB_HPP */
