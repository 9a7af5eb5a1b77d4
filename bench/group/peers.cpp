/* SPDX-License-Identifier: BSD-3-Clause
 *
 * peers.cpp - transfers over two files on a disk, durable and atomic, by several threads:
 *
 *   fur        two heaps of a group, fur_group_run()
 *   sqlite     two databases, one attached to the other: a rollback journal for each, and a
 *              super-journal, since SQLite's write-ahead logs do not make a commit over two files
 *              atomic (sqlite.org/lang_attach.html)
 *   rocksdb    two TransactionDBs, two-phase commit: both prepare; the first commits durably, which
 *              is the decision; the second commits without a wait
 *
 * Account k of one file gives to account k of the other.
 */
#include "../../tools/common/command_line.hpp"
#include "../../tools/common/json.hpp"
#include "../../tools/common/random.hpp"
#include "../common/output.hpp"
#include "../common/processor.hpp"
#include "../common/round_trip.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <fur/group.hpp>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#if defined(BENCH_SQLITE3)
#include <sqlite3.h>
#endif
#if defined(BENCH_ROCKSDB)
#include "../common/rocksdb.hpp"
#include <rocksdb/utilities/transaction.h>
#include <rocksdb/utilities/transaction_db.h>
#endif

namespace
{

enum { ACCOUNTS = 10000 };

struct Settings {
	std::string directory = ".", json;
	double seconds = 0.5;
	unsigned threads = 8, rounds = 5;
};

using Transfer = std::function<void(uint64_t account, int64_t cents)>;

/* Two files with accounts. */
class System
{
public:
	virtual ~System() = default;
	/* A thread's connection, for this thread. */
	virtual Transfer connect() = 0;
	/* Of all accounts. */
	virtual int64_t sum() = 0;
};

/* ------------------------------------------------------------------------ libfur */

class Fur final : public System
{
public:
	explicit Fur(const std::string &directory)
	    : group_(fur::Group::create(directory + "/bank.group"))
	{
		fur::Options o;
		o.pm = FUR_PM_SYNC;
		o.max_threads = 256;
		group_.add(directory + "/first", o);
		group_.add(directory + "/second", o);
		const fur::GroupThread self(group_);
		for (unsigned k = 0; k < 2; k++)
			accounts_[k] = fur::update(self.of(k), [&](fur_update *tx) {
				auto *all = static_cast<int64_t *>(
				        fur_alloc(tx, ACCOUNTS * sizeof(int64_t)));
				const std::vector<int64_t> zeros(ACCOUNTS);
				fur_write(tx, all, zeros.data(), ACCOUNTS * sizeof(int64_t));
				return all;
			});
	}
	Transfer connect() override
	{
		auto self = std::make_shared<fur::GroupThread>(group_);
		return [this, self](uint64_t account, int64_t cents) {
			fur::update(*self, fur::rerun, {0, 1}, [&](const fur::GroupUpdate &tx) {
				for (unsigned k = 0; k < 2; k++) {
					int64_t *at = accounts_[k] + account;
					fur_store(tx[k], at,
					        fur_load(tx[k], at) + (k ? cents : -cents));
				}
			});
		};
	}
	int64_t sum() override
	{
		const fur::GroupThread self(group_);
		return fur::read(self, fur::rerun, {0, 1}, [&](const fur::GroupReader &tx) {
			int64_t all = 0;
			for (unsigned k = 0; k < 2; k++)
				for (uint64_t n = 0; n < ACCOUNTS; n++)
					all += fur_load(tx[k], accounts_[k] + n);
			return all;
		});
	}

private:
	fur::Group group_;
	int64_t *accounts_[2];
};

/* ------------------------------------------------------------------------ SQLite */

#if defined(BENCH_SQLITE3)
class Sqlite final : public System
{
public:
	explicit Sqlite(const std::string &directory) : directory_(directory)
	{
		Connection c(directory_);
		c.execute("CREATE TABLE main.t (k INTEGER PRIMARY KEY, v INTEGER);"
		          "CREATE TABLE second.t (k INTEGER PRIMARY KEY, v INTEGER);"
		          "BEGIN");
		for (int k = 0; k < ACCOUNTS; k++)
			for (const char *name : {"main", "second"})
				c.execute(("INSERT INTO " + std::string(name) + ".t VALUES (" +
				           std::to_string(k) + ", 0)")
				                  .c_str());
		c.execute("COMMIT");
	}
	Transfer connect() override
	{
		auto c = std::make_shared<Connection>(directory_);
		c->prepare("UPDATE main.t SET v = v - ?1 WHERE k = ?2",
		        "UPDATE second.t SET v = v + ?1 WHERE k = ?2");
		return [c](uint64_t account, int64_t cents) {
			c->execute("BEGIN IMMEDIATE");
			c->step(0, account, cents);
			c->step(1, account, cents);
			c->execute("COMMIT");
		};
	}
	int64_t sum() override
	{
		Connection c(directory_);
		return c.number("SELECT (SELECT SUM(v) FROM main.t) + "
		                "(SELECT SUM(v) FROM second.t)");
	}

private:
	class Connection
	{
	public:
		explicit Connection(const std::string &directory)
		{
			must(sqlite3_open((directory + "/first.db").c_str(), &db_) == SQLITE_OK,
			        "sqlite3_open");
			sqlite3_busy_timeout(db_, 600000);
			execute(("ATTACH '" + directory + "/second.db' AS second").c_str());
			execute("PRAGMA main.journal_mode=DELETE; PRAGMA "
			        "second.journal_mode=DELETE; "
			        "PRAGMA main.synchronous=FULL; PRAGMA second.synchronous=FULL");
		}
		~Connection()
		{
			for (sqlite3_stmt *s : statements_)
				sqlite3_finalize(s);
			sqlite3_close(db_);
		}
		Connection(const Connection &) = delete;
		void execute(const char *sql)
		{
			must(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK, sql);
		}
		void prepare(const char *first, const char *second)
		{
			for (unsigned k = 0; k < 2; k++)
				must(sqlite3_prepare_v2(db_, k ? second : first, -1,
				             &statements_[k], nullptr) == SQLITE_OK,
				        "sqlite3_prepare_v2");
		}
		void step(unsigned k, uint64_t account, int64_t cents)
		{
			sqlite3_bind_int64(statements_[k], 1, cents);
			sqlite3_bind_int64(statements_[k], 2, static_cast<int64_t>(account));
			must(sqlite3_step(statements_[k]) == SQLITE_DONE, "UPDATE");
			sqlite3_reset(statements_[k]);
		}
		int64_t number(const char *sql)
		{
			must(sqlite3_prepare_v2(db_, sql, -1, &statements_[0], nullptr) ==
			                SQLITE_OK,
			        sql);
			must(sqlite3_step(statements_[0]) == SQLITE_ROW, sql);
			return sqlite3_column_int64(statements_[0], 0);
		}

	private:
		void must(bool succeeded, const std::string &call)
		{
			if (!succeeded)
				throw std::runtime_error(call + ": " + sqlite3_errmsg(db_));
		}
		sqlite3 *db_ = nullptr;
		sqlite3_stmt *statements_[2] = {};
	};
	std::string directory_;
};
#endif

/* ----------------------------------------------------------------------- RocksDB */

#if defined(BENCH_ROCKSDB)
class Rocksdb final : public System
{
public:
	explicit Rocksdb(const std::string &directory)
	{
		for (unsigned k = 0; k < 2; k++) {
			rocksdb::Options o;
			o.create_if_missing = o.error_if_exists = true;
			o.allow_2pc = true;
			rocksdb::TransactionDB *db;
			bench::must(rocksdb::TransactionDB::Open(
			                    o, {}, directory + (k ? "/second" : "/first"), &db),
			        "rocksdb::TransactionDB::Open");
			db_[k].reset(db);
			for (uint64_t n = 0; n < ACCOUNTS; n++)
				bench::must(db->Put({}, bench::slice_of(n),
				                    bench::slice_of(int64_t(0))),
				        "rocksdb::TransactionDB::Put");
		}
	}
	Transfer connect() override
	{
		return [this](uint64_t account, int64_t cents) {
			static std::atomic<uint64_t> numbers{0};
			const std::string name = std::to_string(numbers++);
			rocksdb::WriteOptions durable, lazy;
			durable.sync = true;
			std::unique_ptr<rocksdb::Transaction> tx[2];
			for (unsigned k = 0; k < 2; k++) {
				tx[k].reset(db_[k]->BeginTransaction(durable));
				bench::must(tx[k]->SetName(name), "rocksdb::Transaction::SetName");
				add(*db_[k], *tx[k], account, k ? cents : -cents);
			}
			for (auto &t : tx)
				bench::must(t->Prepare(), "rocksdb::Transaction::Prepare");
			bench::must(tx[0]->Commit(), "rocksdb::Transaction::Commit");
			tx[1]->GetWriteOptions()->sync = false;
			bench::must(tx[1]->Commit(), "rocksdb::Transaction::Commit");
		};
	}
	int64_t sum() override
	{
		int64_t all = 0;
		for (auto &db : db_) {
			const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}));
			for (at->SeekToFirst(); at->Valid(); at->Next())
				all += value_of(at->value());
		}
		return all;
	}

private:
	static int64_t value_of(const rocksdb::Slice &s)
	{
		int64_t v;
		memcpy(&v, s.data(), sizeof v);
		return v;
	}
	static void add(rocksdb::TransactionDB &db, rocksdb::Transaction &tx, uint64_t account,
	        int64_t cents)
	{
		rocksdb::PinnableSlice had;
		bench::must(tx.GetForUpdate(
		                    {}, db.DefaultColumnFamily(), bench::slice_of(account), &had),
		        "rocksdb::Transaction::GetForUpdate");
		bench::must(
		        tx.Put(bench::slice_of(account), bench::slice_of(value_of(had) + cents)),
		        "rocksdb::Transaction::Put");
	}
	std::unique_ptr<rocksdb::TransactionDB> db_[2];
};
#endif

/* ---------------------------------------------------------------------- measuring */

using Maker = std::function<std::unique_ptr<System>(const std::string &)>;

template <class S>
std::unique_ptr<System> make(const std::string &directory)
{
	return std::make_unique<S>(directory);
}

const std::vector<std::pair<std::string, Maker>> SYSTEMS = {
        {"fur", make<Fur>},
#if defined(BENCH_SQLITE3)
        {"sqlite", make<Sqlite>},
#endif
#if defined(BENCH_ROCKSDB)
        {"rocksdb", make<Rocksdb>},
#endif
};

/* Transfers a second. */
double measure(System &system, uint64_t threads, double seconds)
{
	using Clock = std::chrono::steady_clock;
	std::atomic<bool> stop{false};
	std::atomic<uint64_t> ready{0}, done{0};
	std::exception_ptr failed;
	std::atomic<bool> one_failed{false};
	std::vector<std::thread> all;
	for (uint64_t k = 0; k < threads; k++)
		all.emplace_back([&, k] {
			try {
				tools::Random random{k + 1};
				const Transfer transfer = system.connect();
				uint64_t mine = 0;
				for (ready++; !stop; mine++)
					transfer(random.below(ACCOUNTS),
					        static_cast<int64_t>(random.below(100)));
				done += mine;
			} catch (...) {
				if (!one_failed.exchange(true))
					failed = std::current_exception();
				ready++;
			}
		});
	while (ready < threads)
		std::this_thread::yield();
	const Clock::time_point began = Clock::now();
	std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
	stop = true;
	for (std::thread &t : all)
		t.join();
	const double took = std::chrono::duration<double>(Clock::now() - began).count();
	if (failed)
		std::rethrow_exception(failed);
	if (system.sum() != 0)
		throw std::runtime_error("the accounts' sum has changed");
	return static_cast<double>(done) / took;
}

double median(std::vector<double> values)
{
	std::sort(values.begin(), values.end());
	return values[values.size() / 2];
}

void report(const Settings &s, const std::map<std::string, std::vector<double>> &rates,
        const bench::RoundTrips &trips)
{
	tools::Json out = {{"processor", bench::processor()}, {"threads", s.threads},
	        {"seconds", s.seconds}, {"rounds", s.rounds}, {"round_trip_ns", trips.json()}};
	if (s.json != "-")
		std::cout << "transfers a second over two files, " << s.threads
		          << " threads, medians of " << s.rounds << " rounds; " << trips.text()
		          << "\n";
	for (const auto &[name, values] : rates) {
		std::vector<double> ratios; /* of one round each */
		for (size_t k = 0; k < values.size(); k++)
			ratios.push_back(rates.at("fur")[k] / values[k]);
		out["transfers"][name] = median(values);
		out["fur_over"][name] = median(ratios);
		if (s.json != "-")
			std::cout << "  " << std::left << std::setw(8) << name << std::right
			          << std::fixed << std::setprecision(0) << std::setw(10)
			          << median(values) << "   fur over it " << std::setprecision(2)
			          << median(ratios) << "\n";
	}
	if (!s.json.empty())
		bench::write_json(s.json, out);
}

void run(const Settings &s)
{
	std::string path = s.directory + "/group-peers-XXXXXX";
	if (!mkdtemp(path.data()))
		throw tools::WrongUsage("--dir " + s.directory + ": " + strerror(errno) +
		                        ": name a directory that you can write to");
	const bench::Directory directory(path);
	std::map<std::string, std::vector<double>> rates;
	bench::RoundTrips trips;
	std::vector<std::pair<std::string, std::unique_ptr<System>>> systems;
	for (const auto &[name, maker] : SYSTEMS) {
		const std::string place = directory.path() + "/" + name;
		std::filesystem::create_directory(place);
		systems.emplace_back(name, maker(place));
	}
	/* Each round begins with another system. */
	for (unsigned round = 0; round < s.rounds; round++) {
		trips.take();
		for (size_t k = 0; k < systems.size(); k++) {
			auto &[name, system] = systems[(k + round) % systems.size()];
			rates[name].push_back(measure(*system, s.threads, s.seconds));
		}
	}
	report(s, rates, trips);
}

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	tools::CommandLine line("peers", "Transfers over two files on a disk, durable and atomic: "
	                                 "a group of heaps, SQLite with "
	                                 "an attached database, RocksDB with two-phase commit.");
	line.option("--dir", s.directory, "directory on the disk; the run removes its files");
	line.option("--threads", s.threads, "that transfer").range(1, 200);
	line.option("--seconds", s.seconds, "of a measurement").range(0.01, 3600);
	line.option("--rounds", s.rounds, "measurements of each").range(1, 1000);
	line.option("--json", s.json,
	        "write the result to this file; -: to standard output in place of the table");
	if (auto status = tools::parse_or_exit_status(line, "peers", argc, argv))
		return *status;
	try {
		run(s);
	} catch (const tools::WrongUsage &e) {
		std::cerr << "peers: " << e.what() << "\n";
		return tools::EXIT_WRONG_USAGE;
	} catch (const std::exception &e) {
		std::cerr << "peers: " << e.what() << "\n";
		return 1;
	}
	return 0;
}
