/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lmdb.hpp - the IntSet on LMDB: its copy-on-write B+tree, one writer at a time, readers on
 * snapshots that take no lock.
 *
 * Configured to be as fast as possible while it survives the same failures as libfur: with --pm
 * emulated a killed process, so commits write nothing back and the page cache keeps the map; with
 * --pm sync a power failure, so each commit syncs the map before it returns.
 */
#ifndef BENCH_LMDB_HPP
#define BENCH_LMDB_HPP

#include "../../common/tm.hpp"
#include "../../rbtree/intset.hpp"
#include "../peer_file.hpp"

#include <lmdb.h>
#include <memory>

namespace bench
{

class LmdbTm
{
public:
	explicit LmdbTm(const TmOptions &o)
	    : file_(o, "-lock"), durable_(o.pm != FUR_PM_EMULATED), bytes_(o.heap_bytes)
	{
		MDB_env *env;
		check(mdb_env_create(&env), "mdb_env_create");
		env_.reset(env);
		check(mdb_env_set_mapsize(env, bytes_), "mdb_env_set_mapsize");
		/* One for each thread, one for the thread that sets up, one for its aside(). */
		check(mdb_env_set_maxreaders(env, o.threads + 2), "mdb_env_set_maxreaders");
		/* NOTLS: the slot belongs to the read transaction that a Thread keeps, not to the
		 * operating system's thread. */
		unsigned flags =
		        MDB_NOSUBDIR | MDB_WRITEMAP | MDB_NOTLS | (durable_ ? 0 : MDB_NOSYNC);
		if (int error = mdb_env_open(env, file_.path(), flags, 0600))
			throw Usage(std::string(file_.path()) +
			            ": LMDB cannot open it: " + mdb_strerror(error));
		MDB_txn *txn;
		check(mdb_txn_begin(env, nullptr, 0, &txn), "mdb_txn_begin");
		if (int error = mdb_dbi_open(txn, nullptr, MDB_INTEGERKEY, &dbi_)) {
			mdb_txn_abort(txn);
			check(error, "mdb_dbi_open");
		}
		check(mdb_txn_commit(txn), "mdb_txn_commit");
	}

	/* Its read transaction, reset between uses: begun anew it costs a slot and an
	 * allocation. */
	class Thread
	{
	public:
		explicit Thread(LmdbTm &tm)
		{
			MDB_txn *reader;
			check(mdb_txn_begin(tm.env_.get(), nullptr, MDB_RDONLY, &reader),
			        "mdb_txn_begin");
			mdb_txn_reset(reader);
			reader_.reset(reader);
		}
		template <class Body>
		auto read(Body &&body)
		{
			check(mdb_txn_renew(reader_.get()), "mdb_txn_renew");
			auto result = body(reader_.get());
			mdb_txn_reset(reader_.get());
			return result;
		}

	private:
		struct End {
			void operator()(MDB_txn *txn) const
			{
				mdb_txn_abort(txn);
			}
		};
		std::unique_ptr<MDB_txn, End> reader_;
	};

	/* Keys without values, in the file's unnamed database. */
	class Set
	{
	public:
		Set(LmdbTm &tm, Thread &) : tm_(tm) {}
		bool contains(Thread &self, int64_t key)
		{
			Key k(key);
			MDB_val value;
			int result = self.read(
			        [&](MDB_txn *txn) { return mdb_get(txn, tm_.dbi_, k, &value); });
			if (result != MDB_NOTFOUND)
				check(result, "mdb_get");
			return result == 0;
		}
		intset::Result insert(Thread &, int64_t key)
		{
			Key k(key);
			MDB_val nothing = {0, nullptr};
			return update([&](MDB_txn *txn) {
				return mdb_put(txn, tm_.dbi_, k, &nothing, MDB_NOOVERWRITE);
			});
		}
		intset::Result remove(Thread &, int64_t key)
		{
			Key k(key);
			return update(
			        [&](MDB_txn *txn) { return mdb_del(txn, tm_.dbi_, k, nullptr); });
		}
		/* All keys in order, and as many as LMDB has counted. */
		const char *verify(Thread &self, uint64_t &size)
		{
			return self.read([&](MDB_txn *txn) { return walk(txn, size); });
		}

	private:
		class Key
		{
		public:
			explicit Key(int64_t key) : word_(static_cast<size_t>(key)) {}
			Key(const Key &) = delete;
			operator MDB_val *()
			{
				return &val_;
			}

		private:
			size_t word_; /* MDB_INTEGERKEY compares this */
			MDB_val val_ = {sizeof word_, &word_};
		};

		template <class Body>
		intset::Result update(Body &&body)
		{
			int result = once(body);
			/* LMDB does not reuse a page that a reader may still read.  A reader that
			 * is not running can hold back a whole map of pages until it runs, so the
			 * map counts as full only if it stays full. */
			enum { NAPS = 1000, NAP_US = 1000 };
			for (int k = 0; result == MDB_MAP_FULL && k < NAPS; k++) {
				tm_.map_full_++;
				usleep(NAP_US);
				result = once(body);
			}
			if (result == MDB_KEYEXIST || result == MDB_NOTFOUND)
				return intset::Result::UNCHANGED;
			if (result == MDB_MAP_FULL)
				return intset::Result::NO_MEMORY;
			check(result, "an LMDB update");
			return intset::Result::CHANGED;
		}
		template <class Body>
		int once(Body &&body)
		{
			MDB_txn *txn;
			check(mdb_txn_begin(tm_.env_.get(), nullptr, 0, &txn), "mdb_txn_begin");
			int result = body(txn);
			if (result == 0)
				return mdb_txn_commit(txn);
			mdb_txn_abort(txn);
			return result;
		}
		const char *walk(MDB_txn *txn, uint64_t &size)
		{
			MDB_stat stat;
			MDB_cursor *cursor;
			MDB_val key, value;
			check(mdb_stat(txn, tm_.dbi_, &stat), "mdb_stat");
			check(mdb_cursor_open(txn, tm_.dbi_, &cursor), "mdb_cursor_open");
			size = 0;
			const char *wrong = nullptr;
			size_t last = 0;
			int result;
			while (!wrong &&
			        (result = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
				size_t word;
				if (key.mv_size != sizeof word) {
					wrong = "a key has the wrong length";
					break;
				}
				memcpy(&word, key.mv_data, sizeof word);
				if (size > 0 && word <= last)
					wrong = "keys are out of order";
				last = word;
				size++;
			}
			mdb_cursor_close(cursor);
			if (!wrong && result != MDB_NOTFOUND)
				wrong = "not all keys can be read";
			if (!wrong && size != stat.ms_entries)
				wrong = "the database counts other keys than it has";
			return wrong;
		}
		LmdbTm &tm_;
	};

	void begin_run()
	{
		map_full_ = 0;
	}
	void describe(json &j)
	{
		j["library"] = mdb_version(nullptr, nullptr, nullptr);
		j["htm"] = "none";
		j["isolation"] = "opacity"; /* one writer; a reader keeps to one state */
		j["pm"] = fur_name(FUR_NAME_PM, durable_ ? FUR_PM_SYNC : FUR_PM_EMULATED);
		j["pm_reason"] =
		        durable_ ? "msync of the map, and of the meta page, at each commit"
		                 : "no write-backs: survives a killed process, NOT a power failure";
		j["settings"] = std::string("MDB_WRITEMAP, MDB_NOTLS, ") +
		                (durable_ ? "" : "MDB_NOSYNC, ") +
		                "MDB_INTEGERKEY; read transactions reset and renewed";
		j["heap_bytes"] = bytes_;
	}
	void results(json &j)
	{
		no_counts(j);
		/* Times an update found no page that it could use */
		j["map_full"] = map_full_.load();
	}

private:
	static void check(int error, const char *what)
	{
		if (error)
			throw std::runtime_error(std::string(what) + ": " + mdb_strerror(error));
	}
	struct Close {
		void operator()(MDB_env *env) const
		{
			mdb_env_close(env);
		}
	};
	PeerFile file_; /* goes after the environment */
	bool durable_;
	uint64_t bytes_;
	std::unique_ptr<MDB_env, Close> env_;
	MDB_dbi dbi_ = 0;
	std::atomic<uint64_t> map_full_{0};
};

} // namespace bench

#endif /* BENCH_LMDB_HPP */
