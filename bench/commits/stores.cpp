/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stores.cpp - the databases of the benchmarks of commits and of snapshots.  Each but `fur-async`
 * and `fur-emulated` makes every commit durable by itself before it returns, and has the fastest
 * settings that allow that.  Without Shape::sync, SQLite, LMDB and RocksDB leave it to the kernel
 * when they are durable: then a killed process loses nothing, but a failure of the power does.
 */
#include "store.hpp"

#include <algorithm>
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
#include "../common/rocksdb.hpp"
#include <rocksdb/snapshot.h>
#include <rocksdb/write_batch.h>
#endif

namespace commits
{

namespace
{

/* Load the first word and the last byte of a value, as a program that uses it would. */
[[maybe_unused]] void add(Seen &seen, const void *value, uint64_t bytes)
{
	uint64_t word = 0;
	memcpy(&word, value, std::min(bytes, sizeof word));
	if (bytes)
		(void)static_cast<const volatile char *>(value)[bytes - 1];
	seen.entries++;
	seen.sum += word;
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
	explicit Sqlite(const Shape &s)
	    : bytes_(s.bytes), path_(s.directory + "/sqlite"),
	      synchronous_(s.sync ? "synchronous=FULL" : "synchronous=OFF")
	{
		Connection c(*this);
		c.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)");
		c.execute("BEGIN");
		const std::string value(s.bytes, 'x');
		for (uint64_t k = 0; k < s.keys; k++)
			c.put("INSERT INTO t (v, k) VALUES (?, ?)", k, value.data(), s.bytes);
		c.execute("COMMIT");
	}
	Put connect() override
	{
		auto c = std::make_shared<Connection>(*this);
		return [this, c](uint64_t key, const void *value) {
			c->put("UPDATE t SET v = ? WHERE k = ?", key, value, bytes_);
		};
	}
	Read reader() override
	{
		auto c = std::make_shared<Connection>(*this);
		c->execute("BEGIN"); /* its first statement begins the transaction */
		return [c] { return c->read_all("SELECT k, v FROM t ORDER BY k"); };
	}
	std::string settings() const override
	{
		return std::string("SQLite ") + sqlite3_libversion() + ", journal_mode=WAL, " +
		       synchronous_;
	}

private:
	class Connection
	{
	public:
		explicit Connection(const Sqlite &s)
		{
			must(sqlite3_open(s.path_.c_str(), &db_) == SQLITE_OK, "sqlite3_open",
			        sqlite3_errmsg(db_));
			sqlite3_busy_timeout(db_, 60000);
			execute("PRAGMA journal_mode=WAL");
			execute(("PRAGMA " + s.synchronous_).c_str());
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
		Seen read_all(const char *sql)
		{
			prepare(sql);
			Seen seen;
			int result;
			while ((result = sqlite3_step(statement_)) == SQLITE_ROW)
				add(seen, sqlite3_column_blob(statement_, 1),
				        static_cast<uint64_t>(sqlite3_column_bytes(statement_, 1)));
			must(result == SQLITE_DONE, sql, sqlite3_errmsg(db_));
			sqlite3_reset(statement_);
			return seen;
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
	std::string path_, synchronous_;
};
#endif

#if defined(BENCH_LMDB)
class Lmdb final : public Store
{
public:
	explicit Lmdb(const Shape &s) : bytes_(s.bytes), sync_(s.sync)
	{
		const std::string path = s.directory + "/lmdb";
		must(mdb_env_create(&env_) == 0, "mdb_env_create", "no memory");
		mdb_env_set_mapsize(env_, s.most_bytes);
		const unsigned how = MDB_NOSUBDIR | (s.sync ? 0 : MDB_NOSYNC | MDB_WRITEMAP);
		check(mdb_env_open(env_, path.c_str(), how, 0600), "mdb_env_open");
		MDB_txn *txn;
		check(mdb_txn_begin(env_, nullptr, 0, &txn), "mdb_txn_begin");
		check(mdb_dbi_open(txn, nullptr, MDB_INTEGERKEY, &dbi_), "mdb_dbi_open");
		const std::string value(s.bytes, 'x');
		for (uint64_t k = 0; k < s.keys; k++)
			check(put(txn, k, value.data()), "mdb_put");
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
			int error = put(txn, key, value);
			if (error)
				mdb_txn_abort(txn);
			else
				error = mdb_txn_commit(txn);
			if (error == MDB_MAP_FULL)
				throw Full("mdb_put: the file has its largest size");
			check(error, "mdb_put, mdb_txn_commit");
		};
	}
	Read reader() override
	{
		MDB_txn *begun;
		check(mdb_txn_begin(env_, nullptr, MDB_RDONLY, &begun), "mdb_txn_begin");
		const std::shared_ptr<MDB_txn> txn(begun, mdb_txn_abort);
		return [this, txn] {
			MDB_cursor *cursor;
			check(mdb_cursor_open(txn.get(), dbi_, &cursor), "mdb_cursor_open");
			Seen seen;
			MDB_val k, v;
			int error;
			while ((error = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) == 0)
				add(seen, v.mv_data, v.mv_size);
			mdb_cursor_close(cursor);
			check(error == MDB_NOTFOUND ? 0 : error, "mdb_cursor_get");
			return seen;
		};
	}
	std::string settings() const override
	{
		return std::string(mdb_version(nullptr, nullptr, nullptr)) +
		       (sync_ ? "" : ", MDB_NOSYNC, MDB_WRITEMAP");
	}

private:
	static void check(int error, const char *call)
	{
		must(error == 0, call, mdb_strerror(error));
	}
	/* Returns: 0, or an error of LMDB. */
	int put(MDB_txn *txn, uint64_t key, const void *value)
	{
		MDB_val k{sizeof key, &key}, v{bytes_, const_cast<void *>(value)};
		return mdb_put(txn, dbi_, &k, &v, 0);
	}
	uint64_t bytes_;
	bool sync_;
	MDB_env *env_ = nullptr;
	MDB_dbi dbi_ = 0;
};
#endif

#if defined(BENCH_ROCKSDB)
class Rocksdb final : public Store
{
public:
	explicit Rocksdb(const Shape &s)
	    : bytes_(s.bytes), db_(bench::create_rocksdb(s.directory + "/rocksdb", {}))
	{
		write_.sync = s.sync;
		enum : uint64_t { BATCH = 4096 };
		const std::string value(s.bytes, 'x');
		rocksdb::WriteBatch batch;
		for (uint64_t k = 0; k < s.keys; k++) {
			batch.Put(bench::slice_of(k), value);
			if ((k + 1) % BATCH && k + 1 < s.keys)
				continue;
			bench::must(db_->Write(write_, &batch), "rocksdb::DB::Write");
			batch.Clear();
		}
	}
	Put connect() override
	{
		return [this](uint64_t key, const void *value) {
			bench::must(db_->Put(write_, bench::slice_of(key),
			                    {static_cast<const char *>(value), bytes_}),
			        "rocksdb::DB::Put");
		};
	}
	Read reader() override
	{
		const auto snapshot = std::make_shared<rocksdb::ManagedSnapshot>(db_.get());
		return [this, snapshot] {
			rocksdb::ReadOptions then;
			then.snapshot = snapshot->snapshot();
			const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(then));
			Seen seen;
			for (at->SeekToFirst(); at->Valid(); at->Next())
				add(seen, at->value().data(), at->value().size());
			bench::must(at->status(), "rocksdb::Iterator::Next");
			return seen;
		};
	}
	std::string settings() const override
	{
		return bench::rocksdb_version() +
		       (write_.sync ? ", WriteOptions::sync" : ", without sync");
	}

private:
	uint64_t bytes_;
	std::unique_ptr<rocksdb::DB> db_;
	rocksdb::WriteOptions write_;
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
