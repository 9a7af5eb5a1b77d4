/* SPDX-License-Identifier: BSD-3-Clause
 *
 * workload.hpp - what the benchmark runs: the records that are loaded, and clients.
 */
#ifndef LAB_OLTPIM_WORKLOAD_HPP
#define LAB_OLTPIM_WORKLOAD_HPP

#include "../../tools/common/json.hpp"
#include "tpcc.hpp"
#include "ycsb.hpp"

#include <memory>

namespace oltpim
{

class Workload
{
public:
	virtual ~Workload() = default;
	virtual Shifts shifts() const = 0;
	/* Trees that OLTPim has in the host's memory: bit k for tree k */
	virtual uint32_t small_tables() const
	{
		return 0;
	}
	virtual uint64_t (*entry_of() const)(const Tuple &)
	{
		return nullptr;
	}
	virtual std::vector<Record> records(Tuples &tuples) = 0;
	/* `clients`: of all workers; this one is number `slot`. */
	virtual std::unique_ptr<MeasuredClient> client(Database &db, Tuples &tuples,
	        unsigned worker, unsigned slot, unsigned clients, History *history,
	        MeasuredClient::Clock clock, uint64_t seed) = 0;
	/* What characterises it */
	virtual void describe(tools::Json &j) const = 0;
	/* Empty: what must hold in a state in which nothing goes on does; else what does not. */
	virtual std::string wrong(Database &, Tuples &) const
	{
		return {};
	}
};

class YcsbWorkload : public Workload
{
public:
	YcsbWorkload(const Mix &mix, uint64_t records, double zipf)
	    : mix_(mix), records_(records), keys_(records, zipf)
	{
	}
	Shifts shifts() const override
	{
		Shifts s = {};
		s[0] = static_cast<uint8_t>(mix_.shift);
		return s;
	}
	std::vector<Record> records(Tuples &tuples) override
	{
		std::vector<Record> all;
		all.reserve(records_);
		for (uint64_t key = 0; key < records_; key++)
			all.push_back({key, reinterpret_cast<uint64_t>(tuples.make(key, 0, key))});
		return all;
	}
	std::unique_ptr<MeasuredClient> client(Database &db, Tuples &tuples, unsigned worker,
	        unsigned slot, unsigned clients, History *history, MeasuredClient::Clock clock,
	        uint64_t seed) override
	{
		return std::make_unique<YcsbClient>(db, tuples, worker, slot, history, mix_, keys_,
		        records_ + slot, clients, clock, seed);
	}
	void describe(tools::Json &j) const override
	{
		j["records"] = records_;
		j["percent"] = mix_.percent, j["scan"] = mix_.scan;
		j["at_once"] = mix_.at_once;
	}

private:
	const Mix mix_;
	const uint64_t records_;
	const Keys keys_;
};

class TpccWorkload : public Workload
{
public:
	TpccWorkload(const tpcc::Size &size, unsigned writes) : shared_(size, writes) {}
	Shifts shifts() const override
	{
		return tpcc::shifts();
	}
	uint32_t small_tables() const override
	{
		return tpcc::SMALL_TABLES;
	}
	uint64_t (*entry_of() const)(const Tuple &) override
	{
		return tpcc::entry_of;
	}
	std::vector<Record> records(Tuples &tuples) override
	{
		return tpcc::records(shared_.size, tuples);
	}
	std::unique_ptr<MeasuredClient> client(Database &db, Tuples &tuples, unsigned worker,
	        unsigned slot, unsigned clients, History *history, MeasuredClient::Clock clock,
	        uint64_t seed) override
	{
		return std::make_unique<tpcc::TpccClient>(
		        db, tuples, worker, slot, history, shared_, clients, clock, seed);
	}
	void describe(tools::Json &j) const override
	{
		j["warehouses"] = shared_.size.warehouses;
		j["customers"] = shared_.size.customers, j["items"] = shared_.size.items;
		j["percent"] = shared_.percent_writes;
	}
	std::string wrong(Database &db, Tuples &tuples) const override
	{
		return tpcc::wrong(db, tuples, shared_.size);
	}

private:
	tpcc::Shared shared_;
};

} // namespace oltpim

#endif /* LAB_OLTPIM_WORKLOAD_HPP */
