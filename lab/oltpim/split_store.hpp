/* SPDX-License-Identifier: BSD-3-Clause
 *
 * split_store.hpp - some trees in the host's memory, the others in modules.  OLTPim has small
 * tables there, which the host's cache holds.
 */
#ifndef LAB_OLTPIM_SPLIT_STORE_HPP
#define LAB_OLTPIM_SPLIT_STORE_HPP

#include "dram_store.hpp"
#include "near_store.hpp"

namespace oltpim
{

class SplitStore : public Store
{
public:
	/* `in_dram`: bit k: tree k is in the host's memory.  The places of `dram` begin behind
	 * those of `near`. */
	SplitStore(NearStore &near, DramStore &dram, uint32_t in_dram)
	    : near_(near), dram_(dram), in_dram_(in_dram)
	{
	}

	unsigned place_of(uint64_t key) const override
	{
		return store_of(key).place_of(key);
	}
	bool keeps_entry(uint64_t key) const override
	{
		return store_of(key).keeps_entry(key);
	}
	/* No entry is in another store than its row. */
	void load(const std::vector<Record> &records) override
	{
		std::vector<Record> parts[2];
		for (const Record &r : records)
			parts[is_in_dram(r.key)].push_back(r);
		near_.load(parts[0]);
		dram_.load(parts[1]);
	}
	void issue(Round &round, unsigned worker) override
	{
		dram_.issue(round, worker);
		near_.issue(round, worker);
	}
	bool help(unsigned worker) override
	{
		const bool helped = dram_.help(worker);
		return near_.help(worker) || helped;
	}
	unsigned parts() const override
	{
		return near_.parts() + dram_.parts();
	}
	bool help_part(unsigned part) override
	{
		return part < near_.parts() ? near_.help_part(part)
		                            : dram_.help_part(part - near_.parts());
	}

private:
	bool is_in_dram(uint64_t key) const
	{
		return in_dram_ >> (key >> OLTPIM_TREE_SHIFT) & 1;
	}
	const Store &store_of(uint64_t key) const
	{
		if (is_in_dram(key))
			return dram_;
		return near_;
	}

	NearStore &near_;
	DramStore &dram_;
	const uint32_t in_dram_;
};

} // namespace oltpim

#endif /* LAB_OLTPIM_SPLIT_STORE_HPP */
