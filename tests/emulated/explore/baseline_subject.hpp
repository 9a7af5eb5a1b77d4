/* SPDX-License-Identifier: BSD-3-Clause
 *
 * baseline_subject.hpp - a system of bench/baselines as a subject of the exploration (subject.hpp).
 */
#ifndef EXPLORE_BASELINE_SUBJECT_HPP
#define EXPLORE_BASELINE_SUBJECT_HPP

#include "../../../bench/common/systems.hpp"
#include "recorded.hpp"
#include "run.hpp"

namespace explore
{

/* The machine cannot see what these systems do in software, so they tell the oracle. */
struct Watch {
	static void visible()
	{
		tell(oracle::visible);
	}
	static void withdrawn()
	{
		tell(oracle::withdrawn);
	}
	static void pending()
	{
		tell(oracle::pending);
	}
	static void aborted()
	{
		tell(oracle::aborted);
	}

private:
	/* Only of simulated threads: making the heap and checking it are not part of the run. */
	static void tell(void (*event)())
	{
		if (emu_thread() >= 0)
			event();
	}
};

template <template <class> class Tm>
class Baseline
{
	static_assert(bench::TransactionalMemory<Tm<Watch>>);

public:
	static void make(const Options &o, const std::string &path)
	{
		Tm<Watch> tm(options(o, path.c_str(), 0, false));
	}
	Baseline(const Options &o, const char *path, fur_htm htm, uint32_t retries)
	    : tm_(options(o, path, htm == FUR_HTM_NONE ? 0 : retries, true))
	{
	}
	class Thread : public Tm<Watch>::Thread
	{
	public:
		explicit Thread(Baseline &b) : Tm<Watch>::Thread(b.tm_) {}
	};
	void *root()
	{
		return tm_.root();
	}
	template <class Tx>
	void set_root(Tx *tx, void *p)
	{
		tm_.set_root(tx, p);
	}
	char *base() const
	{
		return tm_.medium.heap();
	}
	void replay_with(unsigned, unsigned, bool, unsigned) {}
	uint64_t bytes() const
	{
		return tm_.medium.heap_bytes();
	}
	uint64_t blocks(std::string &) const
	{
		return baselines::blocks_in_use(tm_.medium);
	}
	template <class Tx>
	static oracle::Becomes becomes(const Tx *)
	{
		return oracle::Becomes::VISIBLE_LATER; /* Watch tells the oracle */
	}
	static void unmap(const Options &o)
	{
		baselines::Medium::forget(options(o, "", 0, true));
	}

private:
	static bench::TmOptions options(
	        const Options &o, const char *path, unsigned retries, bool reuse)
	{
		bench::TmOptions t;
		t.threads = o.threads;
		t.heap = path;
		t.reuse = reuse;
		t.heap_bytes = 2 * heap_bytes(o); /* these systems allocate in coarse pieces */
		t.log_bytes = log_bytes(o);
		t.machine_has_pm = true;
		t.retries = retries;
		return t;
	}
	Tm<Watch> tm_;
};

template <baselines::WordTx Tx>
struct Facts<Tx> {
	static size_t usable_bytes(const Tx *, void *block)
	{
		return unseen([=] { return baselines::usable_bytes(block); });
	}
	static bool promotes(const baselines::spht_tx *tx)
	{
		return tx->promotes;
	}
	static bool promotes(const baselines::pisces_tx *)
	{
		return true;
	}
	static bool promotes(const baselines::specpmt_tx *)
	{
		return false;
	}
};

} // namespace explore

#endif /* EXPLORE_BASELINE_SUBJECT_HPP */
