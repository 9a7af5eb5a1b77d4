/* SPDX-License-Identifier: BSD-3-Clause
 *
 * near_store.hpp - indexes and version chains in the modules of a near-memory machine, and the
 * batcher: each rank has a list of requests, to which workers append those of a round at once.  A
 * worker that gets the rank's latch does the next part of the work, and goes on with its
 * transactions while the rank runs:
 *
 *   idle -> collect the list, push a batch to each module, launch the kernel -> running
 *   running -> when it has ended, pull the replies, hand them to their transactions -> idle
 */
#ifndef LAB_OLTPIM_NEAR_STORE_HPP
#define LAB_OLTPIM_NEAR_STORE_HPP

#include "numbers.hpp"
#include "store.hpp"

#include "near/near.h"

#include <memory>
#include <string>
#include <vector>

namespace oltpim
{

struct NearSetup {
	std::string machine = "threads"; /* of near_threads; otherwise an emulated one */
	unsigned ranks = 2, elements = 4, tasklets = 4, host_threads = 1;
	Shifts shifts = {};                /* R of the paper */
	uint64_t objects = 4096;           /* most, of a module */
	uint64_t versions = 8192;          /* most, of a module */
	uint32_t batch_bytes = 32768;      /* of a module */
	bool collects = true;              /* versions that no transaction sees */
	const near_clock *clock = nullptr; /* of an emulated host */
};

/* What the rank's batches had. */
struct BatchCounts {
	uint64_t batches = 0, requests = 0;
};

class NearRank
{
public:
	NearRank(const NearSetup &setup, const oltpim_layout &layout, near_rank *rank,
	        const Numbers &numbers);
	void append(Round::Part &part);
	/* Give each of the rank's modules the records of its list, in the order of their keys; the
	 * content of an entry is its target. */
	void load(const std::vector<Record> *of_modules);
	/* Wait for the rank's channel. */
	void touch();
	/* Do the next part.  False: there is nothing to do, or another worker does it.
	 * `wait`: for a kernel that runs. */
	bool step(bool wait);
	BatchCounts counts();
	near_counters near_counts() const;

private:
	/* A module's requests of the batch */
	struct Module {
		std::vector<Request *> of[OLTPIM_KINDS];
		uint32_t bytes = 0, reply_bytes = 0;
	};
	bool collect();
	void take_list();
	bool take(Request *r);
	void launch();
	bool finish(bool wait);
	void fetch_ahead(size_t k);
	void distribute();

	static constexpr size_t AHEAD = 8; /* requests */
	const NearSetup &setup_;
	const oltpim_layout layout_;
	near_rank *const rank_;
	const Numbers &numbers_;
	alignas(64) std::atomic<Round::Part *> list_{nullptr}; /* the newest first */
	/* Acquired and released: it orders the members below, and the calls for the rank, which
	 * must not overlap, of one holder before those of the next. */
	alignas(64) std::atomic<bool> latch_{false};
	bool running_ = false;
	std::vector<Request *> waiting_; /* the oldest first: did not fit the last batch */
	uint32_t most_reply_ = 0;
	std::vector<Module> modules_;
	std::vector<Request *> batch_; /* in the order of their replies */
	std::vector<char> rows_;
	BatchCounts counts_;
};

class NearStore : public Store
{
public:
	NearStore(const NearSetup &setup, const Numbers &numbers);
	~NearStore() override;
	NearStore(const NearStore &) = delete;
	NearStore &operator=(const NearStore &) = delete;

	unsigned place_of(uint64_t key) const override;
	bool keeps_entry(uint64_t) const override
	{
		return true;
	}
	void issue(Round &round, unsigned worker) override;
	bool help(unsigned worker) override;
	unsigned parts() const override;
	bool help_part(unsigned part) override;

	void load(const std::vector<Record> &records) override;

	/* On an emulated host, wait until the channels have carried what was loaded. */
	void settle_channels();

	BatchCounts counts() const;
	/* What the memory channels carried, all together */
	near_channel channels() const;
	/* Of all ranks; times: those of the slowest. */
	near_counters near_counts() const;
	const near_shape &shape() const
	{
		return shape_;
	}

private:
	void open();
	const NearSetup setup_;
	near_shape shape_ = {};
	near *near_ = nullptr;
	std::vector<std::unique_ptr<NearRank>> ranks_;
};

} // namespace oltpim

#endif /* LAB_OLTPIM_NEAR_STORE_HPP */
