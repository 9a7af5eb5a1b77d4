/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur.hpp - libfur for C++17: handles that close themselves, transactions as lambdas, errors as
 * exceptions.  A thin layer: what each call means is said in fur.h.
 *
 *     fur::Heap heap = fur::Heap::open_or_create("/mnt/pmem/bank.fur"); fur::Thread self(heap);
 *     long sum = fur::read(self, [&](fur_ro *tx) { return fur_load(tx, &a->balance) + fur_load(tx,
 *     &b->balance); }); fur::update(self, [&](fur_update *tx) { fur_store(tx, &a->balance, sum);
 *     });
 *
 * A body may run several times (fur_begin_update); only its last run counts.  An exception that
 * leaves the body of an update rolls it back and is thrown on.
 */
#ifndef FUR_HPP
#define FUR_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "fur.hpp needs C++17: compile with -std=c++17 or later, or include fur.h (C++11, C11)"
#endif

#include <fur.h>

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace fur
{

/* What a call of fur.h that failed said. */
class Error : public std::runtime_error
{
public:
	explicit Error(int code) : std::runtime_error(fur_errormsg()), code_(code) {}
	/* One of enum fur_error. */
	int code() const noexcept
	{
		return code_;
	}

private:
	int code_;
};

inline void check(int result)
{
	if (__builtin_expect(result != 0, 0))
		throw Error(result);
}

/* The default options, to be changed before use. */
struct Options : fur_options {
	Options() noexcept
	{
		fur_options_init(this);
	}
};

/* An open heap.  Closed when it goes; call close() yourself to learn whether that went well. */
class Heap
{
public:
	static Heap create(const std::string &path, const fur_options &options = Options())
	{
		fur_heap *heap;
		check(fur_create(path.c_str(), &options, &heap));
		return Heap(heap);
	}

	static Heap open(const std::string &path, const fur_options &options = Options())
	{
		fur_heap *heap;
		check(fur_open(path.c_str(), &options, &heap));
		return Heap(heap);
	}

	/* Open it; where there is no file, create it. */
	static Heap open_or_create(const std::string &path, const fur_options &options = Options())
	{
		fur_heap *heap;
		int result = fur_open(path.c_str(), &options, &heap);
		if (result == FUR_ENOENT)
			result = fur_create(path.c_str(), &options, &heap);
		if (result == FUR_EEXIST) /* somebody was quicker */
			result = fur_open(path.c_str(), &options, &heap);
		check(result);
		return Heap(heap);
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
			/* Nothing to do about it here; the log is kept and replayed at the next
			 * open */
			return;
	}

	void close()
	{
		int result = fur_close(heap_);
		if (result != FUR_EBUSY)
			heap_ = nullptr;
		check(result);
	}
	fur_heap *get() const noexcept
	{
		return heap_;
	}
	operator fur_heap *() const noexcept
	{
		return heap_;
	}

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
	template <class T>
	T *root(unsigned index) const
	{
		return static_cast<T *>(fur_root(heap_, index));
	}

private:
	explicit Heap(fur_heap *heap) noexcept : heap_(heap) {}
	fur_heap *heap_;
};

/* The calling thread's registration with a heap; given back when the thread ends. */
class Thread
{
public:
	explicit Thread(fur_heap *heap)
	{
		check(fur_thread_register(heap, &thread_));
	}
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

/* What read() and update() return for a body: a value.  A reference into the heap would be read
 * after the transaction. */
template <class Body, class Tx>
using result_t = std::decay_t<std::invoke_result_t<Body, Tx *>>;

/* Run body(fur_ro *) as a read-only transaction; returns what it returns, when that is durable. */
template <class Body>
result_t<Body, fur_ro> read(fur_thread *thread, Body &&body)
{
	/* Ends the transaction also when the body throws. */
	struct Guard {
		fur_ro *tx;
		~Guard()
		{
			if (tx && fur_end_ro(tx))
				return;
		}
	} guard{nullptr};
	fur_ro *tx;
	check(fur_begin_ro(thread, &tx));
	guard.tx = tx;
	if constexpr (std::is_void_v<std::invoke_result_t<Body, fur_ro *>>) {
		body(tx);
		guard.tx = nullptr;
		check(fur_end_ro(tx));
	} else {
		auto result = body(tx);
		guard.tx = nullptr;
		check(fur_end_ro(tx));
		return result;
	}
}

/* Run body(fur_update *) as an update and commit it; returns what it returns, when the update is
 * durable.  If the body throws, the update is rolled back. */
template <class Body>
result_t<Body, fur_update> update(fur_thread *thread, Body &&body)
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
	check(fur_begin_update(thread, &tx));
	guard.tx = tx;
	if constexpr (std::is_void_v<std::invoke_result_t<Body, fur_update *>>) {
		body(tx);
		guard.tx = nullptr;
		check(fur_commit(tx));
	} else {
		auto result = body(tx);
		guard.tx = nullptr;
		check(fur_commit(tx));
		return result;
	}
}

/* A new T in the heap, value-initialised.  T must need no constructor but that, and no
 * destructor. */
template <class T>
T *make(fur_update *tx)
{
	static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
	void *place = fur_alloc(tx, sizeof(T));
	if (!place)
		return nullptr;
	T value{};
	fur_write(tx, place, &value, sizeof value);
	return static_cast<T *>(place);
}

} // namespace fur

#endif /* FUR_HPP */
