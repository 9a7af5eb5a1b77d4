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
 */
#ifndef FUR_GROUP_HPP
#define FUR_GROUP_HPP

#include <fur.hpp>
#include <fur_group.h>

#include <initializer_list>
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
