/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group_tm.hpp - libfur with several heaps, the members of a group, as a system of the benchmarks:
 * transactions of one heap alone, which cost what they cost in any heap, and updates over several.
 */
#ifndef BENCH_GROUP_TM_HPP
#define BENCH_GROUP_TM_HPP

#include "fur_tm.hpp"
#include "systems.hpp"

#include <fur/group.hpp>
#include <span>
#include <vector>

namespace bench
{

class FurGroupTm
{
public:
	enum : unsigned { MOST = FUR_GROUP_MOST_PARTS };
	static constexpr bool rolls_back = true;

	explicit FurGroupTm(const TmOptions &o) : o_(o), group_(make())
	{
		for (unsigned k = 0; k < o.heaps; k++)
			fur_emulate_pm(heap(k), o);
		if (!o.heap.empty())
			return;
		::unlink(o.path().c_str());
		for (unsigned k = 0; k < o.heaps; k++)
			::unlink(path_of(k).c_str());
	}
	FurGroupTm(const FurGroupTm &) = delete;

	class Thread
	{
	public:
		explicit Thread(FurGroupTm &tm) : self_(tm.group_)
		{
			for (unsigned k = 0; k < tm.o_.heaps; k++)
				of_.emplace_back(self_.of(k));
		}
		FurThread &of(unsigned heap)
		{
			return of_[heap];
		}
		/* body(tx) as one update over these heaps, with tx[heap] for each; it is rolled
		 * back in all if the body returns false.  Has it committed? */
		template <class Body>
		bool update_over(std::span<const unsigned> heaps, Body &&body)
		{
			/* fur::update() would throw for fur_group_abort(). */
			auto aborting = [&](const fur::GroupUpdate &tx) {
				if (!body(tx))
					fur_group_abort(tx.get());
			};
			using Run = fur::detail::GroupRun<decltype(aborting), fur::GroupUpdate>;
			Run run{aborting};
			const struct fur_run how = {sizeof how, nullptr, fur::detail::leave_body};
			int result = fur_group_run(self_, heaps.data(),
			        static_cast<unsigned>(heaps.size()),
			        fur::detail::call_group_body<decltype(aborting)>, &run, &how);
			if (result == FUR_EABORTED && !run.thrown)
				return false;
			run.finish(result);
			committed_++;
			return true;
		}
		/* By update_over() */
		uint64_t committed_over() const
		{
			return committed_;
		}

	private:
		fur::GroupThread self_;
		std::vector<FurThread> of_;
		uint64_t committed_ = 0;
	};

	fur_group *group() const
	{
		return group_;
	}
	/* As FurTm::adopt() */
	void adopt()
	{
		group_.get()->owner = getpid();
		for (unsigned k = 0; k < o_.heaps; k++)
			heap(k)->owner = getpid();
	}
	void *root(unsigned heap_number)
	{
		return root_at_rest(heap(heap_number), 0);
	}
	void set_root(fur_update *tx, void *p)
	{
		fur_set_root(tx, 0, p);
	}
	void begin_run()
	{
		before_ = sum();
	}
	/* Of the first heap; the others are alike. */
	void describe(json &j)
	{
		fur_info i{};
		i.size = sizeof i;
		fur::check(fur_get_info(heap(0), &i));
		describe_fur(j, i);
	}
	/* Sums over the heaps: an update over two counts in both. */
	void results(json &j)
	{
		count_fur(j, sum(), before_);
	}

protected:
	fur_heap *heap(unsigned k) const
	{
		return group_.heap(k);
	}

private:
	std::string path_of(unsigned k) const
	{
		return o_.path() + "." + std::to_string(k);
	}
	fur_stats sum() const
	{
		fur_stats all{};
		for (unsigned k = 0; k < o_.heaps; k++)
			add(all, fur_counters(heap(k)));
		return all;
	}
	static void add(fur_stats &all, const fur_stats &s)
	{
		for (int c = 0; c < FUR_ABORT_CAUSES; c++)
			all.aborts[c] += s.aborts[c];
		for (int p = 0; p < FUR_PHASES; p++)
			all.phase_ns[p] += s.phase_ns[p];
		for (auto count : {&fur_stats::lock_commits, &fur_stats::update_commits,
		             &fur_stats::software_commits, &fur_stats::serial_commits,
		             &fur_stats::defeats, &fur_stats::ro_commits, &fur_stats::replays,
		             &fur_stats::bytes_handed_back, &fur_stats::times_handed_back,
		             &fur_stats::long_readers})
			all.*count += s.*count;
	}
	fur::Group make() const
	{
		fur::Options heaps = fur_heap_options(o_);
		heaps.max_threads += o_.workers;
		try {
			if (o_.reuse && access(o_.path().c_str(), F_OK) == 0)
				return open(heaps);
			fur::GroupOptions o;
			o.workers = o_.workers;
			fur::Group group = fur::Group::create(o_.path(), o);
			for (unsigned k = 0; k < o_.heaps; k++) {
				group.add(path_of(k), heaps);
				if (heaps.address)
					heaps.address += APART;
			}
			return group;
		} catch (const fur::Error &e) {
			throw Usage(e.what());
		}
	}
	fur::Group open(const fur::Options &heaps) const
	{
		fur::GroupOptions o;
		o.heap = &heaps;
		o.workers = o_.workers;
		fur::Group group = fur::Group::open(o_.path(), o);
		if (group.members() != o_.heaps)
			throw Usage("--heap " + o_.path() + ": it is a group of " +
			            std::to_string(group.members()) + " heaps, not " +
			            std::to_string(o_.heaps) +
			            ": ask for as many with --heaps, or use another file");
		return group;
	}

	static constexpr uint64_t APART = UINT64_C(1) << 36; /* no heap is as large */
	const TmOptions o_;
	fur::Group group_;
	fur_stats before_{};
};

/* One heap, the first of two members of a group; the other one stays empty.  All transactions are
 * of that heap alone.  Everything else is as FurTm has it, so the two compare a member with a heap
 * that is in no group. */
class FurMemberTm : public FurGroupTm
{
public:
	explicit FurMemberTm(const TmOptions &o) : FurGroupTm(with_another(o)) {}
	~FurMemberTm()
	{
		/* A group cannot be closed while a thread is registered with it, as this one is
		 * that has loaded the data aside. */
		aside([this] {
			fur_group_thread *self;
			if (fur_group_register(group(), &self) == 0)
				(void)fur_group_unregister(self);
		});
	}

	/* Registered until the thread ends, as that of FurTm is. */
	class Thread : public FurThread
	{
	public:
		explicit Thread(FurMemberTm &tm) : FurThread(register_with(tm.group())) {}

	private:
		static fur_thread *register_with(fur_group *group)
		{
			fur_group_thread *self;
			fur_thread *of_first;
			fur::check(fur_group_register(group, &self));
			fur::check(fur_group_thread_of(self, 0, &of_first));
			return of_first;
		}
	};
	void *root()
	{
		return FurGroupTm::root(0);
	}
	/* With the index and the number of members that the heap's file says. */
	void describe(json &j)
	{
		FurGroupTm::describe(j);
		const struct media_super *s = heap(0)->durability.super;
		if (media_is_member(s))
			j["member"] = s->more.group_member;
		j["members"] = fur_group_members(group());
	}

private:
	static TmOptions with_another(TmOptions o)
	{
		o.heaps = 2;
		return o;
	}
};

inline void add_member(tools::CommandLine &line, TmOptions &o)
{
	line.flag("--member", o.member,
	        "libfur: the heap is a member of a group of two, whose other one stays empty.  "
	        "With --heap, its file is the group's, and that of the heap is FILE.0");
}

/* f.operator()<Tm>(), for a system that only libfur has; `why`: what to tell of others. */
template <class Tm, class F>
int on_libfur(const Options &o, const char *why, F &&f)
{
	if (o.tm != "fur-opacity" && o.tm != "fur-snapshot")
		throw Usage("--tm " + o.tm + ": " + why);
	return f.template operator()<Tm>();
}

/* For --member. */
template <class F>
int on_member(const Options &o, F &&f)
{
	require_transactional_memory<FurMemberTm>();
	return on_libfur<FurMemberTm>(o, "knows no groups: use fur-opacity with --member", f);
}

} // namespace bench

#endif /* BENCH_GROUP_TM_HPP */
