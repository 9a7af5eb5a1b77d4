/* SPDX-License-Identifier: BSD-3-Clause
 *
 * interleave.hpp - many searches at once in data structures of your own: while one waits for
 * memory, others go on.  Each search is a coroutine of C++20:
 *
 *     fur::read(self, [&](fur_ro *tx) {
 *             fur::interleave(n, [&](size_t i) -> fur::task {
 *                     const Node *node = fur_load(tx, &list->head);
 *                     while (node && fur_load(tx, &node->key) != keys[i]) {
 *                             node = fur_load(tx, &node->next);
 *                             co_await fur::prefetch(tx, node, sizeof *node);
 *                     }
 *                     found[i] = node;
 *             });
 *     });
 *
 * It pays in structures that are larger than the processor's caches; in smaller ones it costs time.
 * The maps have get_many() for it (map.hpp).
 *
 * A search is one coroutine: it calls functions, but it cannot co_await another task.  The searches
 * share the transaction and the thread: a pointer that one has loaded is valid as long as in any
 * other body, and in an update each finds what the others have stored before.  In a template g++ 12
 * crashes on `sizeof *p` of a captured p inside a co_await: write sizeof(Node).
 *
 * Not for a body that libfur may leave by longjmp(), as C's fur_update_run() and fur_read_run()
 * leave theirs without a `leave`, also where fur::join_update() joins one: what its searches own
 * would never be freed.  (After CoroBase: He, Lu, Wang, VLDB 2020.)
 */
#ifndef FUR_INTERLEAVE_HPP
#define FUR_INTERLEAVE_HPP

#if __cplusplus < 202002L || !defined(__cpp_impl_coroutine)
#error "fur/interleave.hpp needs coroutines: compile with -std=c++20, by g++ 11, clang 14, or later"
#else

#include <coroutine>
#include <exception>
#include <fur/lookups.hpp>
#include <new>
#include <type_traits>
#include <utility>

namespace fur
{

namespace detail
{

/* The frames that this thread's coroutines have left, for the next ones: a list for each size, from
 * STEP bytes to LISTS * STEP.  It has no destructor, so threads may use it until their very end. */
struct Frames {
	enum : size_t { STEP = 64, LISTS = 16 };
	struct Frame {
		Frame *next;
	};
	Frame *lists[LISTS];
	bool kept; /* are there lists?  Only with an owner, which frees them. */
};
inline constinit thread_local Frames frames{};

/* Frees the lists when the thread ends. */
struct FramesOwner {
	FramesOwner()
	{
		frames.kept = true;
	}
	FramesOwner(const FramesOwner &) = delete;
	FramesOwner &operator=(const FramesOwner &) = delete;
	~FramesOwner()
	{
		frames.kept = false;
		for (Frames::Frame *&list : frames.lists)
			while (list)
				::operator delete(std::exchange(list, list->next));
	}
};

inline size_t list_of_frames(size_t bytes)
{
	return (bytes - 1) / Frames::STEP;
}
inline void *new_frame(size_t bytes)
{
	const size_t k = list_of_frames(bytes);
	if (k >= Frames::LISTS)
		return ::operator new(bytes);
	if (Frames::Frame *first = frames.lists[k]) {
		frames.lists[k] = first->next;
		return first;
	}
	static thread_local FramesOwner owner;
	return ::operator new((k + 1) * Frames::STEP);
}
inline void delete_frame(void *frame, size_t bytes) noexcept
{
	const size_t k = list_of_frames(bytes);
	if (k >= Frames::LISTS || !frames.kept)
		return ::operator delete(frame);
	frames.lists[k] = ::new (frame) Frames::Frame{frames.lists[k]};
}

/* What prefetch() returns. */
struct [[nodiscard("co_await it: others go on meanwhile")]] Prefetch : std::suspend_always{};

} // namespace detail

/* prefetch - `co_await fur::prefetch(tx, p, bytes)`, in a task of interleave(): ask the processor
 * for `bytes` bytes at p, as fur_prefetch() does, and let the other tasks go on.  Load them
 * afterwards.  `tx` is any of the three; p may be any address, also NULL. */
template <class Tx>
detail::Prefetch prefetch(Tx *tx, const void *p, size_t bytes)
{
	fur_prefetch(tx, p, bytes);
	return {};
}

/* What a search returns that interleave() runs: the coroutine.  It ends with its last statement, or
 * with co_return without a value: it gives its result through a reference.  A co_await of anything
 * but prefetch() does not compile. */
class [[nodiscard]] task
{
public:
	struct promise_type {
		/* Each thread keeps the frames of its tasks for the next ones, and frees them when
		 * it ends. */
		static void *operator new(size_t bytes)
		{
			return detail::new_frame(bytes);
		}
		static void operator delete(void *frame, size_t bytes) noexcept
		{
			detail::delete_frame(frame, bytes);
		}
		task get_return_object() noexcept
		{
			return task(std::coroutine_handle<promise_type>::from_promise(*this));
		}
		std::suspend_always initial_suspend() noexcept
		{
			return {};
		}
		std::suspend_always final_suspend() noexcept
		{
			return {};
		}
		detail::Prefetch await_transform(detail::Prefetch prefetch) noexcept
		{
			return prefetch;
		}
		void return_void() noexcept {}
		void unhandled_exception()
		{
			thrown = std::current_exception();
			/* Not an exception of C++: the thread is cancelled, or calls
			 * pthread_exit(). */
			if (!thrown)
				throw;
		}
		std::exception_ptr thrown;
	};

	task(task &&other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
	task &operator=(task &&other) noexcept
	{
		std::swap(coroutine_, other.coroutine_);
		return *this;
	}
	~task()
	{
		if (coroutine_)
			coroutine_.destroy();
	}

private:
	template <class F>
	friend void interleave(size_t n, F &&f);

	task() noexcept = default;
	explicit task(std::coroutine_handle<promise_type> coroutine) noexcept
	    : coroutine_(coroutine)
	{
	}
	/* Go on until the next prefetch(), or to the end, and free the frame there.
	 * Returns: whether there is more to do.   Errors: what the coroutine throws. */
	bool step()
	{
		coroutine_.resume();
		if (!coroutine_.done())
			return true;
		std::exception_ptr thrown = std::move(coroutine_.promise().thrown);
		std::exchange(coroutine_, nullptr).destroy();
		if (thrown)
			std::rethrow_exception(std::move(thrown));
		return false;
	}

	std::coroutine_handle<promise_type> coroutine_ = nullptr;
};

/* interleave - run the searches f(0), f(1) ... f(n - 1), each a coroutine that returns a task, up
 * to 16 of them at a time, in turn: each until its next co_await fur::prefetch().  They begin in
 * this order, and end in any.  f(i) may run further calls of interleave().
 * Returns: when all searches have ended.
 * Errors:  what a search or f throws, also the exception by which libfur leaves a body that is to
 *          run again.  The searches under way are destroyed before, with their variables, and no
 *          other one begins. */
template <class F>
void interleave(size_t n, F &&f)
{
	static_assert(std::is_same_v<std::invoke_result_t<F &, size_t>, task>,
	        "fur::interleave: f(size_t) must be a coroutine that returns a fur::task; a lambda "
	        "says so by `-> fur::task`");
	task tasks[detail::GROUP];
	size_t next = 0, open = 0;
	/* The next search that has to wait; false: there is none. */
	const auto begin = [&](task &place) {
		while (next < n) {
			place = f(next++);
			if (place.step())
				return true;
		}
		return false;
	};
	while (open < detail::GROUP && begin(tasks[open]))
		open++;
	while (open)
		for (size_t k = 0; k < open;)
			if (tasks[k].step() || begin(tasks[k]))
				k++;
			else
				tasks[k] = std::move(tasks[--open]);
}

} // namespace fur

#endif /* coroutines */
#endif /* FUR_INTERLEAVE_HPP */
