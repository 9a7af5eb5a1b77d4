/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lmdb.hpp - an LMDB database of 8-byte keys for the parts of this benchmark.
 */
#ifndef BENCH_CONTAINERS_LMDB_HPP
#define BENCH_CONTAINERS_LMDB_HPP

#include "containers.hpp"

#include <lmdb.h>

namespace containers
{

inline void lmdb_check(int error)
{
	if (error)
		die(std::string("LMDB: ") + mdb_strerror(error));
}

/* A database that the run removes. */
class LmdbFile
{
public:
	/* `bytes`: room for all. */
	LmdbFile(const Settings &s, const char *name, uint64_t bytes)
	    : path_(s.directory + "/fur-bench-containers-" + name)
	{
		remove();
		lmdb_check(mdb_env_create(&env));
		lmdb_check(mdb_env_set_mapsize(env, bytes));
		lmdb_check(mdb_env_open(
		        env, path_.c_str(), MDB_NOSUBDIR | MDB_NOSYNC | MDB_WRITEMAP, 0600));
		MDB_txn *tx;
		lmdb_check(mdb_txn_begin(env, nullptr, 0, &tx));
		lmdb_check(mdb_dbi_open(tx, nullptr, MDB_INTEGERKEY, &db));
		lmdb_check(mdb_txn_commit(tx));
	}
	~LmdbFile()
	{
		mdb_env_close(env);
		remove();
	}
	LmdbFile(const LmdbFile &) = delete;

	MDB_env *env = nullptr;
	MDB_dbi db = 0;

private:
	void remove() const
	{
		unlink(path_.c_str());
		unlink((path_ + "-lock").c_str());
	}
	std::string path_;
};

/* A thread's read-only transaction, for mdb_txn_renew() and mdb_txn_reset(). */
class LmdbReader
{
public:
	explicit LmdbReader(MDB_env *env)
	{
		lmdb_check(mdb_txn_begin(env, nullptr, MDB_RDONLY, &tx));
		mdb_txn_reset(tx);
	}
	~LmdbReader()
	{
		mdb_txn_abort(tx);
	}
	LmdbReader(const LmdbReader &) = delete;

	MDB_txn *tx = nullptr;
};

} // namespace containers

#endif /* BENCH_CONTAINERS_LMDB_HPP */
