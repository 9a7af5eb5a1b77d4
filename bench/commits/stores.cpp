/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stores.cpp - the databases of the benchmarks of commits and of snapshots.  Each but `fur-async`
 * and `fur-emulated` makes every commit durable by itself before it returns, and has the fastest
 * settings that allow that.
 */
#include "store.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fur.hpp>
#include <unistd.h>

#if defined(BENCH_LMDB)
#include <lmdb.h>
#endif
#if defined(BENCH_SQLITE3)
#include <sqlite3.h>
#endif
#if defined(BENCH_ROCKSDB)
#include <rocksdb/c.h>
#endif

namespace commits
{

namespace
{

/* Load the first and the last word of a value, as a program that uses it would. */
[[maybe_unused]] void touch(const void *value, uint64_t bytes)
{
	const auto *at = static_cast<const volatile char *>(value);
	if (bytes)
		(void)at[0], (void)at[bytes - 1];
}

/* The least that a durable commit costs: one pwrite() of a record and one fdatasync(), by each
 * thread for itself. */
class Bare final : public Store
{
public:
	explicit Bare(const Shape &s) : bytes_(s.bytes)
	{
		const std::string path = s.directory + "/bare";
		fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		must(fd_ >= 0, path, strerror(errno));
		const std::vector<char> zeros(FILE_BYTES);
		must(pwrite(fd_, zeros.data(), FILE_BYTES, 0) == FILE_BYTES && fsync(fd_) == 0,
		        path, "cannot write it");
	}
	~Bare() override
	{
		close(fd_);
	}
	Put connect() override
	{
		return [this](uint64_t, const void *value) {
			uint64_t at = next_.fetch_add(1) * SLOT % FILE_BYTES;
			must(pwrite(fd_, value, bytes_, static_cast<off_t>(at)) ==
			                        static_cast<ssize_t>(bytes_) &&
			                fdatasync(fd_) == 0,
			        "fdatasync", strerror(errno));
		};
	}
	std::string settings() const override
	{
		return "pwrite and fdatasync by each thread";
	}

private:
	enum { FILE_BYTES = 8 << 20, SLOT = 256 };
	int fd_;
	uint64_t bytes_;
	std::atomic<uint64_t> next_{0};
};

class Fur : public Store
{
public:
	explicit Fur(const Shape &s) : Fur(s, s.directory + "/fur", FUR_PM_SYNC) {}
	Put connect() override
	{
		auto self = std::make_shared<fur::Thread>(heap_);
		return [this, self](uint64_t key, const void *value) {
			fur::update(
			        *self, fur::rerun, [&](fur_update *tx) { set(tx, key, value); });
		};
	}
	std::string settings() const override
	{
		return "FUR_PM_SYNC" + ring();
	}

protected:
	Fur(const Shape &s, const std::string &path, enum fur_pm pm)
	    : heap_(make(s, path, pm)), bytes_(s.bytes)
	{
		fur::Thread self(heap_);
		fur::update(self, [&](fur_update *tx) {
			values_ = static_cast<char *>(fur_alloc(tx, s.keys * s.bytes));
			fur_set_root(tx, 0, values_);
		});
	}
	void set(fur_update *tx, uint64_t key, const void *value)
	{
		fur_write(tx, values_ + key * bytes_, value, bytes_);
	}
	std::string ring() const
	{
		return ", ring_slots=" + std::to_string(heap_.info().ring_slots);
	}
	fur::Heap heap_;

private:
	static fur::Heap make(const Shape &s, const std::string &path, enum fur_pm pm)
	{
		fur::Options o;
		o.pm = pm;
		o.async_ms = s.async_ms;
		o.ring_slots = s.ring_slots;
		o.max_threads = s.threads + 8;
		return fur::Heap::create(path, o);
	}
	uint64_t bytes_;
	char *values_ = nullptr;
};

/* Commits return without a wait; sync() waits for all of them. */
class FurAsync final : public Fur
{
public:
	explicit FurAsync(const Shape &s)
	    : Fur(s, s.directory + "/fur-async", FUR_PM_SYNC), async_ms_(s.async_ms)
	{
	}
	Put connect() override
	{
		auto self = std::make_shared<fur::Thread>(heap_);
		return [this, self](uint64_t key, const void *value) {
			fur_ticket ticket;
			fur::update(*self, fur::rerun, ticket,
			        [&](fur_update *tx) { set(tx, key, value); });
		};
	}
	void sync() override
	{
		must(fur_sync(heap_.get()) == 0, "fur_sync", fur_errormsg());
	}
	std::string settings() const override
	{
		return "FUR_PM_SYNC, tickets, async_ms=" + std::to_string(async_ms_) + ring();
	}

private:
	unsigned async_ms_;
};

/* What FurAsync could reach at most: the same update where durable costs a write-back. */
class FurEmulated final : public Fur
{
public:
	explicit FurEmulated(const Shape &s) : Fur(s, s.memory + "/fur-emulated", FUR_PM_EMULATED)
	{
	}
	std::string settings() const override
	{
		return "FUR_PM_EMULATED without latency, in memory" + ring();
	}
};

#if defined(BENCH_SQLITE3)
class Sqlite final : public Store
{
public:
	explicit Sqlite(const Shape &s) : bytes_(s.bytes), path_(s.directory + "/sqlite")
	{
		Connection c(path_);
		c.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)");
		c.execute("BEGIN");
		const std::string value(s.bytes, 'x');
		for (uint64_t k = 0; k < s.keys; k++)
			c.put("INSERT INTO t (v, k) VALUES (?, ?)", k, value.data(), s.bytes);
		c.execute("COMMIT");
	}
	Put connect() override
	{
		auto c = std::make_shared<Connection>(path_);
		return [this, c](uint64_t key, const void *value) {
			c->put("UPDATE t SET v = ? WHERE k = ?", key, value, bytes_);
		};
	}
	Read reader() override
	{
		auto c = std::make_shared<Connection>(path_);
		return [c] { return c->read_all("SELECT k, v FROM t ORDER BY k"); };
	}
	std::string settings() const override
	{
		return std::string("SQLite ") + sqlite3_libversion() +
		       ", journal_mode=WAL, synchronous=FULL";
	}

private:
	class Connection
	{
	public:
		explicit Connection(const std::string &path)
		{
			must(sqlite3_open(path.c_str(), &db_) == SQLITE_OK, "sqlite3_open",
			        sqlite3_errmsg(db_));
			sqlite3_busy_timeout(db_, 60000);
			execute("PRAGMA journal_mode=WAL");
			execute("PRAGMA synchronous=FULL");
		}
		~Connection()
		{
			sqlite3_finalize(statement_);
			sqlite3_close(db_);
		}
		void execute(const char *sql)
		{
			must(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK, sql,
			        sqlite3_errmsg(db_));
		}
		void put(const char *sql, uint64_t key, const void *value, uint64_t bytes)
		{
			prepare(sql);
			sqlite3_bind_blob(
			        statement_, 1, value, static_cast<int>(bytes), SQLITE_STATIC);
			sqlite3_bind_int64(statement_, 2, static_cast<int64_t>(key));
			must(sqlite3_step(statement_) == SQLITE_DONE, sql, sqlite3_errmsg(db_));
			sqlite3_reset(statement_);
		}
		/* The statement is a read transaction. */
		uint64_t read_all(const char *sql)
		{
			prepare(sql);
			uint64_t rows = 0;
			int result;
			for (; (result = sqlite3_step(statement_)) == SQLITE_ROW; rows++)
				touch(sqlite3_column_blob(statement_, 1),
				        static_cast<uint64_t>(sqlite3_column_bytes(statement_, 1)));
			must(result == SQLITE_DONE, sql, sqlite3_errmsg(db_));
			sqlite3_reset(statement_);
			return rows;
		}

	private:
		/* A connection has one statement. */
		void prepare(const char *sql)
		{
			if (!statement_)
				must(sqlite3_prepare_v2(db_, sql, -1, &statement_, nullptr) ==
				                SQLITE_OK,
				        sql, sqlite3_errmsg(db_));
		}
		sqlite3 *db_ = nullptr;
		sqlite3_stmt *statement_ = nullptr;
	};
	uint64_t bytes_;
	std::string path_;
};
#endif

#if defined(BENCH_LMDB)
class Lmdb final : public Store
{
public:
	explicit Lmdb(const Shape &s) : bytes_(s.bytes)
	{
		const std::string path = s.directory + "/lmdb";
		must(mdb_env_create(&env_) == 0, "mdb_env_create", "no memory");
		mdb_env_set_mapsize(env_, s.most_bytes);
		check(mdb_env_open(env_, path.c_str(), MDB_NOSUBDIR, 0600), "mdb_env_open");
		MDB_txn *txn;
		check(mdb_txn_begin(env_, nullptr, 0, &txn), "mdb_txn_begin");
		check(mdb_dbi_open(txn, nullptr, MDB_INTEGERKEY, &dbi_), "mdb_dbi_open");
		const std::string value(s.bytes, 'x');
		for (uint64_t k = 0; k < s.keys; k++)
			put(txn, k, value.data());
		check(mdb_txn_commit(txn), "mdb_txn_commit");
	}
	~Lmdb() override
	{
		mdb_env_close(env_);
	}
	Put connect() override
	{
		return [this](uint64_t key, const void *value) {
			MDB_txn *txn;
			check(mdb_txn_begin(env_, nullptr, 0, &txn), "mdb_txn_begin");
			put(txn, key, value);
			check(mdb_txn_commit(txn), "mdb_txn_commit");
		};
	}
	Read reader() override
	{
		return [this] {
			MDB_txn *txn;
			MDB_cursor *cursor;
			check(mdb_txn_begin(env_, nullptr, MDB_RDONLY, &txn), "mdb_txn_begin");
			check(mdb_cursor_open(txn, dbi_, &cursor), "mdb_cursor_open");
			uint64_t entries = 0;
			MDB_val k, v;
			int error;
			for (; (error = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) == 0; entries++)
				touch(v.mv_data, v.mv_size);
			mdb_cursor_close(cursor);
			mdb_txn_abort(txn);
			check(error == MDB_NOTFOUND ? 0 : error, "mdb_cursor_get");
			return entries;
		};
	}
	std::string settings() const override
	{
		return mdb_version(nullptr, nullptr, nullptr);
	}

private:
	static void check(int error, const char *call)
	{
		must(error == 0, call, mdb_strerror(error));
	}
	void put(MDB_txn *txn, uint64_t key, const void *value)
	{
		MDB_val k{sizeof key, &key}, v{bytes_, const_cast<void *>(value)};
		check(mdb_put(txn, dbi_, &k, &v, 0), "mdb_put");
	}
	uint64_t bytes_;
	MDB_env *env_ = nullptr;
	MDB_dbi dbi_ = 0;
};
#endif

#if defined(BENCH_ROCKSDB)
class Rocksdb final : public Store
{
public:
	explicit Rocksdb(const Shape &s)
	    : bytes_(s.bytes), options_(rocksdb_options_create()),
	      durable_(rocksdb_writeoptions_create())
	{
		rocksdb_options_set_create_if_missing(options_, 1);
		rocksdb_writeoptions_set_sync(durable_, 1);
		char *error = nullptr;
		db_ = rocksdb_open(options_, (s.directory + "/rocksdb").c_str(), &error);
		must(!error, "rocksdb_open", error ? error : "");
		fill(s.keys);
	}
	~Rocksdb() override
	{
		rocksdb_close(db_);
		rocksdb_writeoptions_destroy(durable_);
		rocksdb_options_destroy(options_);
	}
	Put connect() override
	{
		return [this](uint64_t key, const void *value) {
			char *error = nullptr;
			rocksdb_put(db_, durable_, reinterpret_cast<const char *>(&key), sizeof key,
			        static_cast<const char *>(value), bytes_, &error);
			must(!error, "rocksdb_put", error ? error : "");
		};
	}
	Read reader() override
	{
		return [this] {
			rocksdb_readoptions_t *all = rocksdb_readoptions_create();
			/* It shows the state of this instant. */
			rocksdb_iterator_t *at = rocksdb_create_iterator(db_, all);
			uint64_t entries = 0;
			for (rocksdb_iter_seek_to_first(at); rocksdb_iter_valid(at); entries++) {
				size_t bytes;
				const char *value = rocksdb_iter_value(at, &bytes);
				touch(value, bytes);
				rocksdb_iter_next(at);
			}
			char *error = nullptr;
			rocksdb_iter_get_error(at, &error);
			rocksdb_iter_destroy(at);
			rocksdb_readoptions_destroy(all);
			must(!error, "rocksdb_iter_next", error ? error : "");
			return entries;
		};
	}
	std::string settings() const override
	{
		return "WriteOptions::sync";
	}

private:
	void fill(uint64_t keys)
	{
		enum : uint64_t { BATCH = 4096 };
		const std::string value(bytes_, 'x');
		rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
		for (uint64_t k = 0; k < keys; k++) {
			rocksdb_writebatch_put(batch, reinterpret_cast<const char *>(&k), sizeof k,
			        value.data(), value.size());
			if ((k + 1) % BATCH && k + 1 < keys)
				continue;
			char *error = nullptr;
			rocksdb_write(db_, durable_, batch, &error);
			must(!error, "rocksdb_write", error ? error : "");
			rocksdb_writebatch_clear(batch);
		}
		rocksdb_writebatch_destroy(batch);
	}
	uint64_t bytes_;
	rocksdb_options_t *options_;
	rocksdb_writeoptions_t *durable_;
	rocksdb_t *db_ = nullptr;
};
#endif

template <class S>
std::unique_ptr<Store> make(const Shape &s)
{
	return std::make_unique<S>(s);
}

} // namespace

std::vector<System> systems()
{
	return
	{
		{"bare", make<Bare>}, {"fur", make<Fur>}, {"fur-async", make<FurAsync>},
		        {"fur-emulated", make<FurEmulated>, true},
#if defined(BENCH_SQLITE3)
		        {"sqlite", make<Sqlite>},
#endif
#if defined(BENCH_LMDB)
		        {"lmdb", make<Lmdb>},
#endif
#if defined(BENCH_ROCKSDB)
		        {"rocksdb", make<Rocksdb>},
#endif
	};
}

} // namespace commits
