/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur.hpp - libfur for C++17: handles that close themselves, transactions as lambdas, errors as
 * exceptions.  The layer is thin: fur.h documents each call.
 *
 *     fur::Heap heap = fur::Heap::open_or_create("/mnt/pmem/bank.fur");
 *     fur::Thread self(heap);
 *     long sum = fur::read(self, [&](fur_ro *tx) {
 *             return fur_load(tx, &a->balance) + fur_load(tx, &b->balance);
 *     });
 *     fur::update(self, [&](fur_update *tx) { fur_store(tx, &a->balance, sum); });
 *
 * A thread has one transaction open: read() and update() inside another one throw FUR_ENESTED.  A
 * function that its caller may run inside a transaction takes the fur_update * or fur_ro * as an
 * argument, or calls join_read() or join_update().
 * The body of an update may run several times (see fur_begin_update); only its last run counts.  If
 * an exception leaves the body, update() rolls the update back and the caller gets the exception.
 * If the body may run again without being rewound, say so with fur::rerun: updates then run next
 * to each other even without hardware transactions.
 */
#ifndef FUR_HPP
#define FUR_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "fur.hpp needs C++17: compile with -std=c++17 or later, or include fur.h (C++11, C11)"
#endif

#include <fur.h>
#include <fur/members.hpp>
#include <fur_scan.h>

#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace fur
{

/* Thrown when a function of fur.h has failed.  code() is the function's result, and what() is the
 * message of fur_errormsg(). */
class Error : public std::runtime_error
{
public:
	explicit Error(int code) : std::runtime_error(fur_errormsg()), code_(code) {}
	Error(int code, const char *message) : std::runtime_error(message), code_(code) {}
	/* One of enum fur_error. */
	int code() const noexcept
	{
		return code_;
	}

private:
	int code_;
};

/* check - throw an Error if a call of fur.h has failed.
 * Errors: Error. */
inline void check(int result)
{
	if (__builtin_expect(result != 0, 0))
		throw Error(result);
}

/* Every option at its default; change what you need, and pass it to Heap. */
struct Options : fur_options {
	Options() noexcept
	{
		fur_options_init(this);
	}
};

/* An open heap.  The destructor closes it; call close() to learn whether that succeeded. */
class Heap
{
public:
	/* create - fur_create(): make a heap file and open it.   Errors: Error. */
	static Heap create(const std::string &path, const fur_options &options = Options())
	{
		fur_heap *heap;
		check(fur_create(path.c_str(), &options, &heap));
		return Heap(heap);
	}

	/* open - fur_open(): open a heap file; if it was not closed, replay its log first.
	 * Errors: Error. */
	static Heap open(const std::string &path, const fur_options &options = Options())
	{
		fur_heap *heap;
		check(fur_open(path.c_str(), &options, &heap));
		return Heap(heap);
	}

	/* open_copy - fur_open_copy(): open a copy of the heap as of one instant, for
	 * reading.   Errors: Error. */
	static Heap open_copy(const std::string &path, const fur_options &options = Options())
	{
		fur_heap *heap;
		check(fur_open_copy(path.c_str(), &options, &heap));
		return Heap(heap);
	}

	/* open_or_create - open the heap file; if there is none, create it.   Errors: Error. */
	static Heap open_or_create(const std::string &path, const fur_options &options = Options())
	{
		fur_options how = options;
		how.open = FUR_OPEN_OR_CREATE;
		return open(path, how);
	}

	Heap(Heap &&other) noexcept : heap_(std::exchange(other.heap_, nullptr)) {}
	Heap &operator=(Heap &&other) noexcept
	{
		std::swap(heap_, other.heap_);
		return *this;
	}
	~Heap()
	{
		if (heap_ && fur_close(heap_))
			/* A destructor cannot report it.  The log is kept, and the next open
			 * replays it. */
			return;
	}

	/* close - fur_close(), with its result.  Afterwards the heap is closed, unless the error is
	 * FUR_EBUSY.   Durable: everything.   Errors: Error. */
	void close()
	{
		int result = fur_close(heap_);
		if (result != FUR_EBUSY)
			heap_ = nullptr;
		check(result);
	}
	/* get - the handle, for the functions of fur.h.  This object still owns it. */
	fur_heap *get() const noexcept
	{
		return heap_;
	}
	operator fur_heap *() const noexcept
	{
		return heap_;
	}

	/* info, stats - fur_get_info() and fur_get_stats().   Errors: Error. */
	fur_info info() const
	{
		fur_info i{};
		i.size = sizeof i;
		check(fur_get_info(heap_, &i));
		return i;
	}
	fur_stats stats() const
	{
		fur_stats s{};
		s.size = sizeof s;
		check(fur_get_stats(heap_, &s));
		return s;
	}
	/* backup - fur_backup(): copy the heap, in use, to a new file.   Errors: Error. */
	void backup(const std::string &path) const
	{
		check(fur_backup(heap_, path.c_str()));
	}
	/* scan - fur_scan(): run scan(copy) in a child process, on a copy of the heap as of one
	 * instant.  An exception that leaves `scan` ends the child.
	 * Returns: what `scan` returns, an int.   Errors: Error. */
	template <class Scan>
	int scan(Scan scan) const
	{
		int result = 0;
		check(fur_scan(heap_, run_scan<Scan>, &scan, &result));
		return result;
	}

private:
	explicit Heap(fur_heap *heap) noexcept : heap_(heap) {}
	template <class Scan>
	static int run_scan(fur_heap *copy, void *scan) noexcept
	{
		return (*static_cast<Scan *>(scan))(Heap(copy));
	}
	fur_heap *heap_;
};

/* The calling thread's registration with a heap.  It ends when the thread does, not with this
 * object. */
class Thread
{
public:
	/* fur_thread_register(): registers the calling thread, or finds its registration.
	 * Errors: Error. */
	explicit Thread(fur_heap *heap, const char *name = nullptr)
	{
		check(fur_thread_register(heap, name, &thread_));
	}
	/* get - the handle, for the functions of fur.h. */
	fur_thread *get() const noexcept
	{
		return thread_;
	}
	operator fur_thread *() const noexcept
	{
		return thread_;
	}

private:
	fur_thread *thread_;
};

/* root - fur_root(): the root as a pointer to T.  Tx: any of the three. */
template <class T, class Tx>
T *root(Tx *tx, unsigned index)
{
	return static_cast<T *>(fur_root(tx, index));
}

/* The type that read() and update() return for a body.  It is always a value: through a reference,
 * the caller would read the heap after the transaction. */
template <class Body, class Tx>
using result_t = std::decay_t<std::invoke_result_t<Body, Tx *>>;

namespace detail
{

/* read(), with the function that begins the transaction, and the ticket for its end, or NULL. */
template <class Body, class Begin>
result_t<Body, fur_ro> read(fur_thread *thread, Body &&body, Begin begin, fur_ticket *ticket)
{
	/* Ends the transaction if the body throws. */
	struct Guard {
		fur_ro *tx;
		~Guard()
		{
			if (tx && fur_end_ro(tx, nullptr))
				return;
		}
	} guard{nullptr};
	fur_ro *tx;
	check(begin(thread, &tx));
	guard.tx = tx;
	if constexpr (std::is_void_v<std::invoke_result_t<Body, fur_ro *>>) {
		body(tx);
		guard.tx = nullptr;
		check(fur_end_ro(tx, ticket));
	} else {
		auto result = body(tx);
		guard.tx = nullptr;
		check(fur_end_ro(tx, ticket));
		return result;
	}
}

} // namespace detail

/* read - run body(fur_ro *) as a read-only transaction.
 * Durable: everything the body read, before return.
 * Returns: the body's result.
 * Errors:  Error, and whatever the body throws. */
template <class Body>
result_t<Body, fur_ro> read(fur_thread *thread, Body &&body)
{
	return detail::read(thread, body, fur_begin_ro, nullptr);
}

/* join_read - fur_join_ro(): run body(fur_ro *) in the transaction that the thread has open on this
 * heap, or else as read() does.  For code that its caller may run inside a transaction.
 * Durable: everything the body read, when the outermost transaction has ended.
 * Returns, Errors: as read(thread, body). */
template <class Body>
result_t<Body, fur_ro> join_read(fur_thread *thread, Body &&body)
{
	return detail::read(thread, body, fur_join_ro, nullptr);
}

/* read(thread, ticket, body) - the same without the wait: fur_end_ro() sets the ticket.  If the
 * body throws, read() waits, and leaves the ticket as it was.
 * Durable: everything the body read, with wait().
 * Returns, Errors: as read(thread, body). */
template <class Body>
result_t<Body, fur_ro> read(fur_thread *thread, fur_ticket &ticket, Body &&body)
{
	return detail::read(thread, body, fur_begin_ro, &ticket);
}

/* wait - fur_wait(): wait until everything is durable that the transactions of the ticket have
 * read.   Errors: Error. */
inline void wait(fur_thread *thread, fur_ticket ticket)
{
	check(fur_wait(thread, ticket));
}

namespace detail
{

/* update(), with the function that begins the update, and the ticket for its end, or NULL. */
template <class Body, class Begin>
result_t<Body, fur_update> update(fur_thread *thread, Body &&body, Begin begin, fur_ticket *ticket)
{
	struct Guard {
		fur_update *tx;
		~Guard()
		{
			if (tx)
				fur_abort(tx);
		}
	} guard{nullptr};
	fur_update *tx;
	check(begin(thread, &tx));
	guard.tx = tx;
	if constexpr (std::is_void_v<std::invoke_result_t<Body, fur_update *>>) {
		body(tx);
		guard.tx = nullptr;
		check(fur_commit(tx, ticket));
	} else {
		auto result = body(tx);
		guard.tx = nullptr;
		check(fur_commit(tx, ticket));
		return result;
	}
}

} // namespace detail

/* update - run body(fur_update *) as an update, and commit it.
 * Visible:  atomically, before return.   Durable: before return, with everything it read.
 * Returns:  the body's result.
 * Errors:   Error, as fur_commit() describes.  If the body throws, update() rolls the update back
 *           and passes the exception on. */
template <class Body>
result_t<Body, fur_update> update(fur_thread *thread, Body &&body)
{
	return detail::update(thread, body, fur_begin_update, nullptr);
}

/* join_update - fur_join_update(): run body(fur_update *) in the update that the thread has open on
 * this heap, or else as update() does.  For code that its caller may run inside an update.
 * If it joins and the body throws, the outermost commit fails with FUR_EABORTED, even if the caller
 * catches the exception.  If it joins an update that C code runs with fur_update_run(), libfur may
 * leave the body by longjmp(): no destructor runs.
 * Visible, Durable: when the outermost update has ended.
 * Returns, Errors:  as update(thread, body). */
template <class Body>
result_t<Body, fur_update> join_update(fur_thread *thread, Body &&body)
{
	return detail::update(thread, body, fur_join_update, nullptr);
}

/* update(thread, ticket, body) - the same without the wait: fur_commit() sets the ticket.
 * Visible:  atomically, before return.   Durable: with wait().
 * Returns, Errors: as update(thread, body). */
template <class Body>
result_t<Body, fur_update> update(fur_thread *thread, fur_ticket &ticket, Body &&body)
{
	return detail::update(thread, body, fur_begin_update, &ticket);
}

/* The tag of update(thread, rerun, body). */
struct rerun_t {
	explicit rerun_t() = default;
};
inline constexpr rerun_t rerun{};

namespace detail
{

/* Thrown through a body whose update is defeated, and caught by call_body(). */
struct Defeat {
};
[[noreturn]] inline void leave_body()
{
	throw Defeat{};
}

struct Nothing {
};
template <class Body, class Tx = fur_update>
struct Run {
	using Result = std::invoke_result_t<Body &, Tx *>;
	Body &body;
	std::optional<std::conditional_t<std::is_void_v<Result>, Nothing, std::decay_t<Result>>>
	        result{};
	std::exception_ptr thrown{};
};

template <class Body>
void call_body(fur_update *tx, void *arg)
{
	auto &run = *static_cast<Run<Body> *>(arg);
	run.thrown = nullptr; /* a defeated run may have left one */
	try {
		if constexpr (std::is_void_v<typename Run<Body>::Result>)
			run.body(tx);
		else
			run.result.emplace(run.body(tx));
	} catch (const Defeat &) {
		return; /* fur_update_run() knows */
	} catch (...) {
		run.thrown = std::current_exception();
		fur_abort(tx);
		/* Not an exception of C++: the thread is cancelled, or calls pthread_exit(). */
		if (!run.thrown)
			throw;
	}
}

/* The same for a read-only transaction, which fur_read_run() ends. */
template <class Body>
void call_reader(fur_reader *tx, void *arg)
{
	auto &run = *static_cast<Run<Body, fur_reader> *>(arg);
	run.thrown = nullptr;
	try {
		if constexpr (std::is_void_v<typename Run<Body, fur_reader>::Result>)
			run.body(tx);
		else
			run.result.emplace(run.body(tx));
	} catch (const Defeat &) {
		return; /* fur_read_run() knows */
	} catch (...) {
		run.thrown = std::current_exception();
		if (!run.thrown) /* not an exception of C++, as in call_body() */
			throw;
	}
}

/* run_it(call, arg, how) calls a function of fur.h. */
template <class Body, class RunIt>
result_t<Body &, fur_reader> read_again(
        fur_thread *thread, Body &body, fur_ticket *ticket, RunIt run_it)
{
	Run<Body, fur_reader> run{body};
	fur_ticket given{};
	const struct fur_run how = {sizeof how, ticket ? &given : nullptr, leave_body};
	int result = run_it(call_reader<Body>, &run, &how);
	if (run.thrown) {
		/* As a plain read: the exception may carry what the body has read. */
		if (ticket && !result)
			check(fur_wait(thread, given));
		std::rethrow_exception(run.thrown);
	}
	check(result);
	if (ticket)
		*ticket = given;
	if constexpr (!std::is_void_v<typename Run<Body, fur_reader>::Result>)
		return std::move(*run.result);
}

template <class Body>
result_t<Body &, fur_reader> read_plainly_or_again(
        fur_thread *thread, Body &body, fur_ticket *ticket)
{
	if constexpr (std::is_invocable_v<Body &, fur_ro *>)
		if (fur_ro * tx; fur_try_begin_ro(thread, &tx))
			return read(
			        thread, body,
			        [tx](fur_thread *, fur_ro **begun) {
				        *begun = tx;
				        return 0;
			        },
			        ticket);
	return read_again(thread, body, ticket, [&](auto *call, void *run, auto *how) {
		return fur_read_run(thread, call, run, how);
	});
}

/* update() of a body that may run again; run(call, arg) calls a function of fur.h. */
template <class Body, class RunIt>
result_t<Body &, fur_update> run_again(Body &body, RunIt run_it)
{
	Run<Body> run{body};
	int result = run_it(call_body<Body>, &run);
	if (run.thrown)
		std::rethrow_exception(run.thrown);
	check(result);
	if constexpr (!std::is_void_v<typename Run<Body>::Result>)
		return std::move(*run.result);
}

} // namespace detail

/* read(thread, rerun, body) - run a body that may run again as a read-only transaction:
 * fur_read_run().  `body` takes a fur_reader *; or any transaction, as [](auto *tx) does, and
 * returns the same type for each: then it runs as a plain one, by plain loads, if no updates commit
 * beside each other when it begins, and updates wait for it.  So write fur_reader * for a read that
 * may take long.  libfur leaves a body that is to run again by an exception, as
 * update(thread, rerun, body) does, with the same rules.
 * Durable: everything the body read, before return.
 * Returns, Errors: as read(thread, body). */
template <class Body>
result_t<Body &, fur_reader> read(fur_thread *thread, rerun_t, Body &&body)
{
	return detail::read_plainly_or_again(thread, body, nullptr);
}

/* read(thread, rerun, ticket, body) - the same without the wait.
 * Durable: everything the body read, with wait(). */
template <class Body>
result_t<Body &, fur_reader> read(fur_thread *thread, rerun_t, fur_ticket &ticket, Body &&body)
{
	return detail::read_plainly_or_again(thread, body, &ticket);
}

/* A snapshot, which ends with its scope: fur_snapshot_begin() in fur.h tells what it is for.
 * Destroy it outside transactions, and before the heap. */
class Snapshot
{
public:
	/* Durable: all that it shows, before return.  Throws: Error. */
	explicit Snapshot(fur_thread *thread)
	{
		check(fur_snapshot_begin(thread, &snapshot_));
	}
	Snapshot(Snapshot &&other) noexcept : snapshot_(std::exchange(other.snapshot_, nullptr)) {}
	Snapshot &operator=(Snapshot &&other) noexcept
	{
		std::swap(snapshot_, other.snapshot_);
		return *this;
	}
	~Snapshot()
	{
		if (snapshot_)
			(void)fur_snapshot_end(snapshot_);
	}
	/* read(thread, body) - run body(fur_reader *) once: its loads find what the snapshot shows.
	 * Several threads may read at a time.
	 * Returns: what the body returns.
	 * Throws:  what the body throws; Error, with FUR_ETOOOLD if libfur could not keep what the
	 *          snapshot shows: it leaves the body by an exception then, so destructors run. */
	template <class Body>
	result_t<Body &, fur_reader> read(fur_thread *thread, Body &&body) const
	{
		return detail::read_again(
		        thread, body, nullptr, [&](auto *call, void *run, auto *how) {
			        return fur_snapshot_run(thread, snapshot_, call, run, how);
		        });
	}
	fur_snapshot *get() const
	{
		return snapshot_;
	}

private:
	fur_snapshot *snapshot_ = nullptr;
};

/* update(thread, rerun, body) - the same for a body that may run again without being rewound:
 * fur_update_run().  libfur leaves a defeated body by an exception, so destructors run; the body
 * must let it pass, and calls libfur in no noexcept function.  In exchange, several such updates
 * run at a time on a machine without hardware transactions.
 * Visible, Durable, Returns, Errors: as update(thread, body). */
template <class Body>
result_t<Body &, fur_update> update(fur_thread *thread, rerun_t, Body &&body)
{
	return detail::run_again(body, [&](auto *call, void *run) {
		const struct fur_run how = {sizeof how, nullptr, detail::leave_body};
		return fur_update_run(thread, call, run, &how);
	});
}

/* update(thread, rerun, ticket, body) - the same without the wait.
 * Visible:  atomically, before return.   Durable: with wait().
 * Returns, Errors: as update(thread, body). */
template <class Body>
result_t<Body &, fur_update> update(fur_thread *thread, rerun_t, fur_ticket &ticket, Body &&body)
{
	return detail::run_again(body, [&](auto *call, void *run) {
		const struct fur_run how = {sizeof how, &ticket, detail::leave_body};
		return fur_update_run(thread, call, run, &how);
	});
}

namespace detail
{

template <class T, class = void>
struct has_clear : std::false_type {
};
template <class T>
struct has_clear<T, std::void_t<decltype(std::declval<T &>().clear(std::declval<fur_update *>()))>>
    : std::true_type {
};

template <class T>
constexpr void check_storable()
{
	static_assert(std::is_trivially_destructible_v<T> && !std::is_polymorphic_v<T>,
	        "libfur: this type does not survive a restart: its destructor or its virtual "
	        "functions tie it to this process; use plain structs, fur::string and libfur's "
	        "containers");
	static_assert(alignof(T) <= FUR_MOST_ALIGNMENT,
	        "libfur: the alignment is larger than FUR_MOST_ALIGNMENT");
}

} // namespace detail

/* make - a new T in the heap, T{args...}, at a multiple of alignof(T).  Without arguments it is
 * zero, or has its members' default values; libfur's containers are then empty.  T must be
 * trivially destructible, and have no virtual functions.  If T is alignas(FUR_CACHE_LINE), the
 * object has cache lines of its own: see fur_alloc_aligned().
 * Returns: NULL as fur_alloc() does. */
template <class T, class... Args>
T *make(fur_update *tx, Args &&...args)
{
	detail::check_storable<T>();
	void *place = fur_alloc_aligned(tx, sizeof(T), alignof(T));
	if (!place)
		return nullptr;
	T value{std::forward<Args>(args)...};
	fur_write(tx, place, static_cast<const void *>(&value), sizeof value);
	return static_cast<T *>(place);
}

/* make_array - `n` new objects of type T in a row, each T{}.
 * Returns: NULL as fur_alloc() does, and if the size overflows. */
template <class T>
T *make_array(fur_update *tx, size_t n)
{
	detail::check_storable<T>();
	size_t bytes;
	if (__builtin_mul_overflow(n, sizeof(T), &bytes))
		return nullptr;
	auto *place = static_cast<T *>(fur_alloc_aligned(tx, bytes, alignof(T)));
	T value{};
	for (size_t i = 0; place && i < n; i++)
		fur_write(tx, static_cast<void *>(place + i), static_cast<const void *>(&value),
		        sizeof value);
	return place;
}

/* destroy - free an object that make() has made.  If T has a function clear(fur_update *), as
 * fur::string and the containers have, destroy() calls it first.  A struct that has such members
 * names them by FUR_MEMBERS (fur/members.hpp), and destroy() clears them; or it has a clear() of
 * its own, which must.  NULL is allowed. */
template <class T>
void destroy(fur_update *tx, T *object)
{
	if constexpr (detail::has_clear<T>::value) {
		if (object)
			object->clear(tx);
	} else if (object) {
		detail::each_owner(*object, [&](auto &owner) {
			owner.clear(tx);
			return true;
		});
	}
	fur_free(tx, object);
}

} // namespace fur

#endif /* FUR_HPP */
