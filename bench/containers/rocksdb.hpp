/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rocksdb.hpp - a RocksDB database of 8-byte keys and values that only answers look-ups, set up as
 * RocksDB's documentation recommends for them: files in order that it takes in as its last level;
 * blocks that are not compressed and have hash indexes; a block cache that has room for all, and
 * has all; the batched MultiGet(), whose values are not copied.
 */
#ifndef BENCH_CONTAINERS_ROCKSDB_HPP
#define BENCH_CONTAINERS_ROCKSDB_HPP

#include "../common/output.hpp"
#include "../common/rocksdb.hpp"
#include "containers.hpp"

#include <rocksdb/cache.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

namespace containers
{

class Rocksdb
{
public:
	explicit Rocksdb(const Settings &s)
	    : directory_(s.directory + "/fur-bench-containers-rocksdb"), db_(make(s))
	{
		rocksdb::IngestExternalFileOptions how;
		how.move_files = true;
		bench::must(db_->IngestExternalFile(write_files(s.keys), how),
		        "rocksdb::DB::IngestExternalFile");
		/* It also fills the cache. */
		uint64_t found = 0;
		const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator({}));
		for (at->SeekToFirst(); at->Valid(); at->Next())
			found++;
		bench::must(at->status(), "rocksdb::Iterator::Next");
		if (found != s.keys)
			die("RocksDB: a key is missing");
	}
	/* The sum of n keys' values: by one MultiGet(), or by n calls of Get(). */
	uint64_t sum_of_many(const uint64_t *keys, size_t n)
	{
		slices_.resize(n), values_.resize(n), statuses_.resize(n);
		for (size_t i = 0; i < n; i++)
			slices_[i] = bench::slice_of(keys[i]);
		db_->MultiGet(read_, family(), n, slices_.data(), values_.data(), statuses_.data());
		uint64_t sum = 0;
		for (size_t i = 0; i < n; i++)
			sum += value_of(statuses_[i], values_[i]);
		return sum;
	}
	uint64_t sum_of_each(const uint64_t *keys, size_t n)
	{
		uint64_t sum = 0;
		for (size_t i = 0; i < n; i++)
			sum += value_of(
			        db_->Get(read_, family(), bench::slice_of(keys[i]), &value_),
			        value_);
		return sum;
	}

private:
	/* The entries in RocksDB's order, which is that of the keys' bytes.  It writes files that
	 * it is given so in an eighth of the time in which it would sort them. */
	std::vector<std::string> write_files(uint64_t keys) const
	{
		enum : uint64_t { IN_A_FILE = 2000000 };
		std::vector<std::pair<uint64_t, uint64_t>> entries(keys);
		for (uint64_t k = 0; k < keys; k++)
			entries[k] = {key_of(k), k};
		std::sort(entries.begin(), entries.end(), [](const auto &a, const auto &b) {
			return bench::slice_of(a.first).compare(bench::slice_of(b.first)) < 0;
		});
		std::vector<std::string> files;
		rocksdb::SstFileWriter writer({}, db_->GetOptions());
		for (uint64_t k = 0; k < keys; k++) {
			if (k % IN_A_FILE == 0) {
				files.push_back(directory_.path() + "/in-" +
				                std::to_string(files.size()) + ".sst");
				bench::must(
				        writer.Open(files.back()), "rocksdb::SstFileWriter::Open");
			}
			bench::must(writer.Put(bench::slice_of(entries[k].first),
			                    bench::slice_of(entries[k].second)),
			        "rocksdb::SstFileWriter::Put");
			if ((k + 1) % IN_A_FILE == 0 || k + 1 == keys)
				bench::must(writer.Finish(), "rocksdb::SstFileWriter::Finish");
		}
		return files;
	}
	std::unique_ptr<rocksdb::DB> make(const Settings &s) const
	{
		std::filesystem::remove_all(directory_.path());
		rocksdb::BlockBasedTableOptions table;
		table.block_cache = rocksdb::NewLRUCache((256 << 20) + s.keys * 64);
		table.data_block_index_type =
		        rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
		rocksdb::Options options;
		options.compression = rocksdb::kNoCompression;
		options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
		return bench::create_rocksdb(directory_.path(), options);
	}
	rocksdb::ColumnFamilyHandle *family() const
	{
		return db_->DefaultColumnFamily();
	}
	static uint64_t value_of(const rocksdb::Status &status, rocksdb::PinnableSlice &slice)
	{
		bench::must(status, "rocksdb::DB: a look-up");
		uint64_t value;
		if (slice.size() != sizeof value)
			die("RocksDB: a value has another size");
		memcpy(&value, slice.data(), sizeof value);
		slice.Reset();
		return value;
	}

	bench::Directory directory_;
	std::unique_ptr<rocksdb::DB> db_;
	const rocksdb::ReadOptions read_;
	std::vector<rocksdb::Slice> slices_;
	std::vector<rocksdb::PinnableSlice> values_;
	std::vector<rocksdb::Status> statuses_;
	rocksdb::PinnableSlice value_;
};

} // namespace containers

#endif /* BENCH_CONTAINERS_ROCKSDB_HPP */
