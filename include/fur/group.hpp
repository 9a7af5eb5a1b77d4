/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group.hpp - fur_group.h for C++: handles that close themselves, transactions over several heaps
 * as lambdas, errors as exceptions.
 *
 *     fur::Group bank = fur::Group::open("bank.group");
 *     fur::GroupThread self(bank);
 *     fur::update(self, fur::rerun, {from, to}, [&](const fur::GroupUpdate &tx) {
 *             long *a = accounts[from], *b = accounts[to];
 *             fur_store(tx[from], a, fur_load(tx[from], a) - cents);
 *             fur_store(tx[to], b, fur_load(tx[to], b) + cents);
 *     });
 *
 * A body may run again, as that of update(thread, rerun, body) does, with the same rules.
 *
 *     fur::Submitted s = bank.submit({{from, [=](fur_update *tx) { return debit(tx, a, cents); }},
 *             {to, [=](fur_update *tx) { credit(tx, b, cents); }, 0}});
 *     bank.wait(s);
 */
#ifndef FUR_GROUP_HPP
#define FUR_GROUP_HPP

#include <fur.hpp>
#include <fur_group.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

namespace fur
{

/* Every option at its default; change what you need, and pass it to Group. */
struct GroupOptions : fur_group_options {
	GroupOptions() noexcept : fur_group_options{}
	{
		size = sizeof(fur_group_options);
	}
};

/* One part of a transaction for Group::submit(): a body in one member.  The body takes a
 * fur_update *, returns nothing, or false to refuse, and keeps the rules of fur_group_procedure.
 * libfur's thread copies nothing of it: what it refers to must live until the wait.  If it throws,
 * the transaction is rolled back, and the wait throws the same. */
class GroupPart
{
public:
	template <class Body>
	GroupPart(unsigned in, Body run, uint32_t after_part = FUR_NO_PART)
	    : member(in), after(after_part), body(accepting(std::move(run)))
	{
	}
	unsigned member;
	uint32_t after;
	std::function<bool(fur_update *)> body;

private:
	template <class Body>
	static std::function<bool(fur_update *)> accepting(Body run)
	{
		if constexpr (std::is_void_v<std::invoke_result_t<Body &, fur_update *>>)
			return [run = std::move(run)](fur_update *tx) mutable {
				run(tx);
				return true;
			};
		else
			return run;
	}
};

/* A transaction that was submitted.  The destructor waits for it, and does not tell of errors: the
 * thread must have no transaction open. */
class Submitted
{
public:
	/* Group::submit() */
	Submitted(fur_group *group, std::vector<GroupPart> parts)
	    : run_(std::make_unique<Run>(Run{std::move(parts), {}}))
	{
		std::vector<Which> which; /* fur_group_submit() copies it */
		std::vector<fur_part> all;
		for (uint32_t k = 0; k < run_->parts.size(); k++)
			which.push_back({run_.get(), k});
		for (uint32_t k = 0; k < run_->parts.size(); k++) {
			const GroupPart &p = run_->parts[k];
			all.push_back(
			        {p.member, p.after, call, &which[k], sizeof which[k], 0, nullptr});
		}
		check(fur_group_submit(
		        group, all.data(), static_cast<unsigned>(all.size()), &submitted_));
	}
	Submitted(Submitted &&other) noexcept
	    : run_(std::move(other.run_)), submitted_(std::exchange(other.submitted_, nullptr))
	{
	}
	Submitted &operator=(Submitted &&other) noexcept
	{
		std::swap(run_, other.run_);
		std::swap(submitted_, other.submitted_);
		return *this;
	}
	~Submitted()
	{
		if (submitted_ && fur_group_wait(submitted_))
			return; /* wait() would have told */
	}
	/* wait - fur_group_wait(), once.   Throws: what a part has thrown; Error: after FUR_ENESTED
	 * it may be called again, and after FUR_EFORK the parent waits. */
	void wait()
	{
		const int error = fur_group_wait(submitted_);
		/* libfur's thread may still run the bodies, so they must stay. */
		if (error == FUR_ENESTED || error == FUR_EFORK)
			check(error);
		submitted_ = nullptr;
		if (error && run_ && run_->thrown)
			std::rethrow_exception(run_->thrown);
		check(error);
	}

private:
	struct Run {
		std::vector<GroupPart> parts;
		std::exception_ptr thrown;
	};
	struct Which {
		Run *run;
		uint32_t part;
	};
	static bool call(
	        fur_update *tx, fur_heap *, const void *params, size_t, const void *, void *)
	{
		const auto *which = static_cast<const Which *>(params);
		which->run->thrown = nullptr;
		try {
			return which->run->parts[which->part].body(tx);
		} catch (...) {
			which->run->thrown = std::current_exception();
			return false;
		}
	}
	std::unique_ptr<Run> run_; /* its parts' bodies run until the wait */
	fur_submitted *submitted_ = nullptr;
};

/* An open group.  The destructor closes it; call close() to learn whether that succeeded. */
class Group
{
public:
	/* create - fur_group_create(): make the file of a group without members, and open it.
	 * Errors: Error. */
	static Group create(
	        const std::string &path, const fur_group_options &options = GroupOptions())
	{
		Group g;
		check(fur_group_create(path.c_str(), &options, &g.group_));
		return g;
	}
	/* open - fur_group_open(): open the group and all its members.   Errors: Error. */
	static Group open(
	        const std::string &path, const fur_group_options &options = GroupOptions())
	{
		Group g;
		check(fur_group_open(path.c_str(), &options, &g.group_));
		return g;
	}
	Group(Group &&other) noexcept : group_(std::exchange(other.group_, nullptr)) {}
	Group &operator=(Group &&other) noexcept
	{
		std::swap(group_, other.group_);
		return *this;
	}
	~Group()
	{
		if (group_)
			(void)fur_group_close(group_);
	}
	/* close - fur_group_close().  The handle is empty afterwards.   Errors: Error. */
	void close()
	{
		if (group_)
			check(fur_group_close(std::exchange(group_, nullptr)));
	}
	/* add - fur_group_add(): make a new heap a member.  Returns: its index.  Errors: Error. */
	unsigned add(const std::string &path, const fur_options &create)
	{
		unsigned member;
		check(fur_group_add(group_, path.c_str(), &create, &member));
		return member;
	}
	/* The same with a heap that is closed. */
	unsigned add(const std::string &path)
	{
		unsigned member;
		check(fur_group_add(group_, path.c_str(), nullptr, &member));
		return member;
	}
	/* remove - fur_group_remove().   Errors: Error. */
	void remove(unsigned member)
	{
		check(fur_group_remove(group_, member));
	}
	/* submit - fur_group_submit(): let libfur run a transaction in a batch.   Errors: Error. */
	Submitted submit(std::vector<GroupPart> parts)
	{
		return Submitted(group_, std::move(parts));
	}
	/* wait - Submitted::wait().   Throws: what a part has thrown; Error. */
	void wait(Submitted &submitted)
	{
		submitted.wait();
	}
	/* backup - fur_group_backup().   Errors: Error. */
	void backup(const std::string &directory)
	{
		check(fur_group_backup(group_, directory.c_str()));
	}
	/* The member, open; NULL: there is none, or it is missing. */
	fur_heap *heap(unsigned member) const
	{
		return fur_group_heap(group_, member);
	}
	/* One more than the greatest index of a member. */
	unsigned members() const
	{
		return fur_group_members(group_);
	}
	fur_group *get() const
	{
		return group_;
	}
	operator fur_group *() const
	{
		return group_;
	}

private:
	Group() = default;
	fur_group *group_ = nullptr;
};

/* A thread's registration with a group, until the end of the scope. */
class GroupThread
{
public:
	explicit GroupThread(fur_group *group)
	{
		check(fur_group_register(group, &thread_));
	}
	GroupThread(const GroupThread &) = delete;
	GroupThread &operator=(const GroupThread &) = delete;
	~GroupThread()
	{
		(void)fur_group_unregister(thread_);
	}
	/* of - fur_group_thread_of(): for transactions of one member alone.   Errors: Error. */
	fur_thread *of(unsigned member) const
	{
		fur_thread *thread;
		check(fur_group_thread_of(thread_, member, &thread));
		return thread;
	}
	fur_group_thread *get() const
	{
		return thread_;
	}
	operator fur_group_thread *() const
	{
		return thread_;
	}

private:
	fur_group_thread *thread_ = nullptr;
};

/* An open update over several members: tx[member] is the update there, or NULL. */
class GroupUpdate
{
public:
	explicit GroupUpdate(fur_group_update *update) : update_(update) {}
	fur_update *operator[](unsigned member) const
	{
		return fur_group_on(update_, member);
	}
	fur_group_update *get() const
	{
		return update_;
	}

private:
	fur_group_update *update_;
};

/* An open reader of several members: tx[member] is the reader there, or NULL. */
class GroupReader
{
public:
	explicit GroupReader(fur_group_reader *reader) : reader_(reader) {}
	fur_reader *operator[](unsigned member) const
	{
		return fur_group_reads(reader_, member);
	}
	fur_group_reader *get() const
	{
		return reader_;
	}

private:
	fur_group_reader *reader_;
};

namespace detail
{

template <class Body, class Tx>
using group_result_t = std::invoke_result_t<Body &, const Tx &>;

template <class Body, class Tx>
struct GroupRun {
	using Result = group_result_t<Body, Tx>;
	Body &body;
	std::optional<std::conditional_t<std::is_void_v<Result>, Nothing, std::decay_t<Result>>>
	        result{};
	std::exception_ptr thrown{};

	void call(const Tx &tx)
	{
		if constexpr (std::is_void_v<Result>)
			body(tx);
		else
			result.emplace(body(tx));
	}
	Result finish(int error)
	{
		if (thrown)
			std::rethrow_exception(thrown);
		check(error);
		if constexpr (!std::is_void_v<Result>)
			return std::move(*result);
	}
};

template <class Body>
void call_group_body(fur_group_update *update, void *arg)
{
	auto &run = *static_cast<GroupRun<Body, GroupUpdate> *>(arg);
	run.thrown = nullptr;
	try {
		run.call(GroupUpdate(update));
	} catch (const Defeat &) {
		return; /* fur_group_run() knows */
	} catch (...) {
		run.thrown = std::current_exception();
		(void)fur_group_abort(update);
		if (!run.thrown) /* not an exception of C++, as in call_body() */
			throw;
	}
}

template <class Body>
void call_group_reader(fur_group_reader *reader, void *arg)
{
	auto &run = *static_cast<GroupRun<Body, GroupReader> *>(arg);
	run.thrown = nullptr;
	try {
		run.call(GroupReader(reader));
	} catch (const Defeat &) {
		return; /* fur_group_read_run() knows */
	} catch (...) {
		run.thrown = std::current_exception();
		if (!run.thrown)
			throw;
	}
}

} // namespace detail

/* update(thread, rerun, members, body) - run body(const GroupUpdate &) as one update over several
 * members: fur_group_run().  If the body throws, update() rolls the update back in all members, and
 * the caller gets the exception.
 * Visible, Durable: as fur_group_run().
 * Returns: what the body returns.   Throws: what the body throws; Error. */
template <class Body>
detail::group_result_t<Body, GroupUpdate> update(
        fur_group_thread *thread, rerun_t, const unsigned *members, unsigned n, Body &&body)
{
	using Plain = std::remove_reference_t<Body>;
	detail::GroupRun<Plain, GroupUpdate> run{body};
	const struct fur_run how = {sizeof how, nullptr, detail::leave_body};
	return run.finish(
	        fur_group_run(thread, members, n, detail::call_group_body<Plain>, &run, &how));
}
template <class Body>
detail::group_result_t<Body, GroupUpdate> update(
        fur_group_thread *thread, rerun_t tag, std::initializer_list<unsigned> members, Body &&body)
{
	return update(thread, tag, members.begin(), static_cast<unsigned>(members.size()), body);
}

/* read(thread, rerun, members, body) - run body(const GroupReader &) as a read-only transaction
 * over several members: fur_group_read_run().
 * Durable: everything the body read, before return.
 * Returns: what the body returns.   Throws: what the body throws; Error. */
template <class Body>
detail::group_result_t<Body, GroupReader> read(
        fur_group_thread *thread, rerun_t, const unsigned *members, unsigned n, Body &&body)
{
	using Plain = std::remove_reference_t<Body>;
	detail::GroupRun<Plain, GroupReader> run{body};
	const struct fur_run how = {sizeof how, nullptr, detail::leave_body};
	return run.finish(fur_group_read_run(
	        thread, members, n, detail::call_group_reader<Plain>, &run, &how));
}
template <class Body>
detail::group_result_t<Body, GroupReader> read(
        fur_group_thread *thread, rerun_t tag, std::initializer_list<unsigned> members, Body &&body)
{
	return read(thread, tag, members.begin(), static_cast<unsigned>(members.size()), body);
}

/* Snapshots of several members, all of one instant, which end with its scope: fur_group_snapshot().
 * Destroy it outside transactions, and before the group. */
class GroupSnapshot
{
public:
	/* Durable: all that it shows, before return.  Throws: Error. */
	GroupSnapshot(fur_group_thread *thread, const std::vector<unsigned> &members)
	    : members_(members), snapshots_(members.size())
	{
		check(fur_group_snapshot(thread, members_.data(),
		        static_cast<unsigned>(members_.size()), snapshots_.data()));
	}
	GroupSnapshot(GroupSnapshot &&other) noexcept
	    : members_(std::exchange(other.members_, {})),
	      snapshots_(std::exchange(other.snapshots_, {}))
	{
	}
	GroupSnapshot &operator=(GroupSnapshot &&other) noexcept
	{
		std::swap(members_, other.members_);
		std::swap(snapshots_, other.snapshots_);
		return *this;
	}
	~GroupSnapshot()
	{
		for (fur_snapshot *s : snapshots_)
			(void)fur_snapshot_end(s);
	}
	/* read(thread, member, body) - as Snapshot::read(), in one member.  `thread` is registered
	 * with it. */
	template <class Body>
	result_t<Body &, fur_reader> read(fur_thread *thread, unsigned member, Body &&body) const
	{
		return detail::read_again(
		        thread, body, nullptr, [&](auto *call, void *run, auto *how) {
			        return fur_snapshot_run(thread, of(member), call, run, how);
		        });
	}
	/* The member's snapshot; NULL: it has none. */
	fur_snapshot *of(unsigned member) const
	{
		for (size_t k = 0; k < members_.size(); k++)
			if (members_[k] == member)
				return snapshots_[k];
		return nullptr;
	}

private:
	std::vector<unsigned> members_;
	std::vector<fur_snapshot *> snapshots_;
};

} // namespace fur

#endif /* FUR_GROUP_HPP */
