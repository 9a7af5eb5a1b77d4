/* SPDX-License-Identifier: BSD-3-Clause
 *
 * detail.h - the mechanics of fur_load(), fur_store() and fur_read(), which fur.h describes, and
 * functions that only bindings and run-time libraries call.  Part of fur.h, which includes it.
 */
#ifndef FUR_DETAIL_H
#define FUR_DETAIL_H

#ifndef FUR_H
#error "include fur.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a thread has open on a heap: see fur_thread_transaction(). */
enum fur_transaction {
	FUR_TRANSACTION_NONE,
	FUR_TRANSACTION_READ_ONLY,
	FUR_TRANSACTION_UPDATE, /* perhaps with a read-only transaction that has joined it */
};

/* fur_thread_transaction - has the calling thread a transaction open on the heap of this
 * registration, and which?  It is for code that must not trust its own records, because a signal or
 * an exception may have interrupted it between a begin or an end and the record: for bindings of
 * other languages, for example.  It also works if the heap has failed.
 * Returns: one of enum fur_transaction: 0 if none is open.
 * Errors:  FUR_EINVAL if the calling thread does not have this registration; FUR_EFORK: in a child
 *          of fork() none is open. */
FUR_API FUR_MUST_USE int fur_thread_transaction(const fur_thread *thread);

/* fur_begin_update_leaving - begin an update whose body may run again without being rewound, as
 * fur_update_run() runs it.  It is for a caller whose body is not a function: the run-time
 * library of a compiler, for example (fur_itm.h).
 * When another update has defeated the body, libfur calls leave() in the middle of any function of
 * this header that gets the update, fur_commit() included.  The update has ended then, and the heap
 * is as if it had not run.  leave() must not return.  It calls this function again, with `again`
 * true, and then the body; after 64 defeats the update is serial, and is not defeated.
 * This function may return several times, as fur_begin_update().
 * Errors: those of fur_begin_update(); FUR_EINVAL if leave is NULL.  *update is NULL then. */
FUR_API FUR_MUST_USE int fur_begin_update_leaving(
        fur_thread *thread, fur_update **update, void (*leave)(void), bool again);

/* fur_begin_reader_leaving - begin an optimistic read-only transaction, as fur_read_run() does, for
 * a caller whose body is not a function.  When an update has changed what the body would load next,
 * libfur calls leave() in the middle of a load.  The transaction has ended then.  leave() must not
 * return.  It calls this function again, with `again` true, and then the body.
 * Errors: those of fur_begin_ro(); FUR_EINVAL if leave is NULL.  *reader is NULL then. */
FUR_API FUR_MUST_USE int fur_begin_reader_leaving(
        fur_thread *thread, fur_reader **reader, void (*leave)(void), bool again);

/* fur_end_reader - end it.
 * Durable: everything it read, before return.
 * Errors:  those of fur_end_ro(). */
FUR_API FUR_MUST_USE int fur_end_reader(fur_reader *reader);

/* fur_read_bytes - fur_read() calls it: copy `bytes` bytes out of the heap.  `from` and `to` may
 * overlap, as with memmove().  With 0 bytes it does nothing, whatever the pointers are. */
FUR_API void fur_read_bytes(void *to, const void *from, size_t bytes);

/* fur_load_update - fur_read() calls it for an update: copy `bytes` bytes out of the heap, as the
 * update sees them.  `from` and `to` may overlap, as with memmove(). */
FUR_API void fur_load_update(fur_update *update, void *to, const void *from, size_t bytes);

/* fur_load_bits - fur_load() calls it for an update that runs in software: load `bytes` bytes, 1 to
 * 8, as the update sees them.
 * Returns: the bytes in the lowest bits; the other bits mean nothing. */
FUR_API uint64_t fur_load_bits(fur_update *update, const void *from, unsigned bytes);

/* fur_store_bits - fur_store() calls it: store the lowest `bytes` bytes of `bits`, 1 to 8.
 * Visible: with fur_commit().  If `bytes` is 1, 2, 4 or 8 and `to` a multiple of it, no thread sees
 *          half of the store.
 * Errors:  for another number of bytes nothing is stored, and the commit fails with FUR_EINVAL;
 *          outside the heap likewise, with FUR_ERANGE. */
FUR_API void fur_store_bits(fur_update *update, void *to, uint64_t bits, unsigned bytes);

/* fur_load_reader - fur_load() calls it if a look at the stamp does not tell that the load is good,
 * and fur_read(): copy `bytes` bytes out of the heap, as the run's snapshot has them.  Does not
 * return if there is no such state any more: the body runs again. */
FUR_API void fur_load_reader(fur_reader *reader, void *to, const void *from, size_t bytes);

/* fur_try_begin_ro - begin a read-only transaction if readers are in, for
 * fur::read(thread, fur::rerun, body) with a body that takes either transaction.
 * Returns: false: they are not, or an error, which fur_read_run() will report. */
FUR_API FUR_MUST_USE bool fur_try_begin_ro(fur_thread *thread, fur_ro **ro);

/* fur_root() and fur_usable_bytes() call these. */
FUR_API void *fur_root_ro(const fur_ro *ro, unsigned index);
FUR_API void *fur_root_reader(fur_reader *reader, unsigned index);
FUR_API void *fur_root_update(fur_update *update, unsigned index);
FUR_API size_t fur_usable_bytes_ro(const fur_ro *ro, const void *memory);
FUR_API size_t fur_usable_bytes_update(fur_update *update, const void *memory);

#ifdef __cplusplus
} /* extern "C" */
#endif

/* A pointer as another one, or as a number, and back.  g++ -Wold-style-cast warns of C's casts. */
#ifdef __cplusplus
#define FUR_CAST(type, pointer) reinterpret_cast<type>(pointer)
#else
#define FUR_CAST(type, pointer) ((type)(pointer))
#endif

/* fur_load() calls it: one plain load of 1, 2, 4 or 8 bytes, whatever type they have.  clang would
 * call a function of libatomic to load a struct of 8 bytes that is aligned to 4.  Updates wait for
 * transactions that load this way, so ThreadSanitizer may see a load that is not atomic: it then
 * reports stores for which a wait is missing. */
#if defined(__SANITIZE_THREAD__) && !defined(FUR_EMULATED)
#define FUR_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FUR_TSAN 1
#endif
#endif
typedef uint16_t __attribute__((may_alias)) fur_word_2;
typedef uint32_t __attribute__((may_alias)) fur_word_4;
typedef uint64_t __attribute__((may_alias)) fur_word_8;
#define FUR_LOAD_AS(type, order)                                                                   \
	{                                                                                          \
		type word = __atomic_load_n(FUR_CAST(const type *, from), order);                  \
		memcpy(to, &word, sizeof word);                                                    \
	}
#define FUR_LOAD_WORD(order)                                                                       \
	if (bytes == 1)                                                                            \
		FUR_LOAD_AS(uint8_t, order)                                                        \
	else if (bytes == 2)                                                                       \
		FUR_LOAD_AS(fur_word_2, order)                                                     \
	else if (bytes == 4)                                                                       \
		FUR_LOAD_AS(fur_word_4, order)                                                     \
	else                                                                                       \
		FUR_LOAD_AS(fur_word_8, order)
static inline __attribute__((always_inline)) void fur_load_word(
        void *to, const void *from, size_t bytes)
{
#if defined(FUR_TSAN)
	memcpy(to, from, bytes);
#else
	FUR_LOAD_WORD(__ATOMIC_RELAXED)
#endif
}
/* The same before all later loads.  Aligned, because ldar of aarch64 must be. */
static inline __attribute__((always_inline)) void fur_load_word_acquire(
        void *to, const void *from, size_t bytes)
{
	FUR_LOAD_WORD(__ATOMIC_ACQUIRE)
}

/* The beginning of every fur_update, for fur_load() and fur_read(). */
struct fur_update_mode {
	uint64_t software; /* not 0: the update's stores are not in the heap yet */
};

/* The beginning of every fur_reader, for fur_load(): libfur's stamps, one for each line of 64
 * bytes, and the bound below which a stamp says that its line is good. */
struct fur_reader_view {
	const uint64_t *stamps;
	uint64_t bound;
};
enum { FUR_STAMPS_LOG = 20, FUR_STAMP_LINE_SHIFT = 6 };

/* Neighbouring lines have neighbouring stamps: a scan of memory finds eight of them in one line. */
static inline size_t fur_stamp_index(const void *at)
{
	const uintptr_t line = FUR_CAST(uintptr_t, at) >> FUR_STAMP_LINE_SHIFT;
	return (line ^ line >> FUR_STAMPS_LOG) & ((UINT64_C(1) << FUR_STAMPS_LOG) - 1);
}

/* A simulator of processors defines these: the two loads in between overlap. */
#ifndef FUR_OVERLAP_BEGIN
#define FUR_OVERLAP_BEGIN() ((void)0)
#define FUR_OVERLAP_END()   ((void)0)
#endif

/* fur_load() calls it for a fur_reader.  The load is good if the stamp is below the bound
 * afterwards (fur_load_bits() in src/stm/software.c).  Acquire: the word before stamp and bound.
 * Otherwise the body could mix two states of the heap. */
static inline __attribute__((always_inline)) void fur_load_checked(
        fur_reader *reader, void *to, const void *from, size_t bytes)
{
	const struct fur_reader_view *view = FUR_CAST(const struct fur_reader_view *, reader);
	/* It may be of two lines, with a stamp each.  The compiler knows most alignments. */
	if (__builtin_expect((FUR_CAST(uintptr_t, from) & (bytes - 1)) != 0, 0)) {
		fur_load_reader(reader, to, from, bytes);
		return;
	}
	const uint64_t *stamp = &view->stamps[fur_stamp_index(from)];
	FUR_OVERLAP_BEGIN();
	fur_load_word_acquire(to, from, bytes);
	const uint64_t version = __atomic_load_n(stamp, __ATOMIC_RELAXED);
	FUR_OVERLAP_END();
	if (__builtin_expect(version >= __atomic_load_n(&view->bound, __ATOMIC_RELAXED), 0))
		fur_load_reader(reader, to, from, bytes);
}

/* fur_prefetch() calls it.  A fur_reader will look at the lines' stamps as well. */
static inline __attribute__((always_inline)) void fur_prefetch_lines(
        const fur_reader *reader, const void *p, size_t bytes)
{
	const uintptr_t line = UINT64_C(1) << FUR_STAMP_LINE_SHIFT, first = FUR_CAST(uintptr_t, p),
	                end = first + bytes;
	for (uintptr_t at = first & ~(line - 1); at < end; at += line) {
		const void *there = FUR_CAST(const void *, at);
		__builtin_prefetch(there);
		if (reader)
			__builtin_prefetch(&FUR_CAST(const struct fur_reader_view *, reader)
			                            ->stamps[fur_stamp_index(there)]);
	}
}

#ifdef __cplusplus
#include <type_traits>
extern "C++" {
namespace fur_detail
{
/* C++11 has neither variable templates nor std::type_identity. */
template <class Tx>
struct is_transaction : std::integral_constant<bool, std::is_same<Tx, fur_ro>::value ||
                                                             std::is_same<Tx, fur_reader>::value ||
                                                             std::is_same<Tx, fur_update>::value> {
};
template <class T>
struct is_word : std::integral_constant<bool, std::is_trivially_copyable<T>::value &&
                                                      (sizeof(T) == 1 || sizeof(T) == 2 ||
                                                              sizeof(T) == 4 || sizeof(T) == 8)> {
};
template <class T>
struct identity {
	typedef T type;
};
} // namespace fur_detail
inline bool fur_in_software(const fur_ro *)
{
	return false;
}
inline bool fur_in_software(const fur_reader *)
{
	return false;
}
inline bool fur_in_software(const fur_update *update)
{
	return reinterpret_cast<const fur_update_mode *>(update)->software != 0;
}
inline void *fur_root(const fur_ro *ro, unsigned index)
{
	return fur_root_ro(ro, index);
}
inline void *fur_root(fur_reader *reader, unsigned index)
{
	return fur_root_reader(reader, index);
}
inline void *fur_root(fur_update *update, unsigned index)
{
	return fur_root_update(update, index);
}
inline size_t fur_usable_bytes(const fur_ro *ro, const void *memory)
{
	return fur_usable_bytes_ro(ro, memory);
}
inline size_t fur_usable_bytes(fur_update *update, const void *memory)
{
	return fur_usable_bytes_update(update, memory);
}
template <class Tx, class T>
inline T fur_load(Tx *tx, const T *p)
{
	static_assert(fur_detail::is_transaction<Tx>::value,
	        "fur_load: the first argument is a fur_ro *, a fur_reader * or a fur_update *");
	static_assert(fur_detail::is_word<T>::value,
	        "fur_load: 1, 2, 4 or 8 bytes; use fur_read for more");
	T value;
	if (std::is_same<Tx, fur_reader>::value) {
		fur_load_checked(reinterpret_cast<fur_reader *>(tx), static_cast<void *>(&value), p,
		        sizeof value);
		return value;
	}
	if (std::is_same<Tx, fur_update>::value && __builtin_expect(fur_in_software(tx), 0)) {
		uint64_t bits = fur_load_bits(
		        reinterpret_cast<fur_update *>(tx), p, static_cast<unsigned>(sizeof value));
		memcpy(static_cast<void *>(&value), &bits, sizeof value);
		return value;
	}
	fur_load_word(static_cast<void *>(&value), p, sizeof value);
	return value;
}
template <class T>
inline void fur_store(fur_update *update, T *p, typename fur_detail::identity<T>::type value)
{
	static_assert(fur_detail::is_word<T>::value,
	        "fur_store: 1, 2, 4 or 8 bytes; use fur_write for more");
	uint64_t bits = 0;
	memcpy(&bits, &value, sizeof value);
	fur_store_bits(update, p, bits, sizeof value);
}
template <class Tx>
inline void fur_prefetch(Tx *tx, const void *p, size_t bytes)
{
	static_assert(fur_detail::is_transaction<Tx>::value,
	        "fur_prefetch: the first argument is a fur_ro *, a fur_reader * or a fur_update *");
	fur_prefetch_lines(
	        std::is_same<Tx, fur_reader>::value ? reinterpret_cast<fur_reader *>(tx) : nullptr,
	        p, bytes);
}
template <class Tx>
inline void fur_read(Tx *tx, void *to, const void *from, size_t bytes)
{
	static_assert(fur_detail::is_transaction<Tx>::value,
	        "fur_read: the first argument is a fur_ro *, a fur_reader * or a fur_update *");
	if (std::is_same<Tx, fur_reader>::value)
		fur_load_reader(reinterpret_cast<fur_reader *>(tx), to, from, bytes);
	else if (std::is_same<Tx, fur_update>::value && __builtin_expect(fur_in_software(tx), 0))
		fur_load_update(reinterpret_cast<fur_update *>(tx), to, from, bytes);
	else
		fur_read_bytes(to, from, bytes);
}
}
#else
#define FUR_IS_WORD(p)                                                                             \
	(sizeof(*(p)) == 1 || sizeof(*(p)) == 2 || sizeof(*(p)) == 4 || sizeof(*(p)) == 8)
#define FUR_IS_TX(tx)      _Generic((tx), fur_ro * : 1, fur_reader * : 1, fur_update * : 1)
#define FUR_IS_READER(tx)  _Generic((tx), fur_reader * : 1, default : 0)
/* Each use has its own names, so that one use may be an argument of another. */
#define FUR_PASTE(name, n) name##n
#define FUR_NAME(name, n)  FUR_PASTE(name, n)
static inline bool fur_in_software(bool update, const void *tx)
{
	return update && __builtin_expect(((const struct fur_update_mode *)tx)->software != 0, 0);
}
#define FUR_IS_UPDATE(tx)  _Generic((tx), fur_update * : 1, default : 0)
/* The type of *p without const and volatile: a comma operator's result has none. */
#define FUR_TYPE(p)        __typeof__(((void)0, *(p)))
#define FUR_LOAD(tx, p, handle, from, value, bits)                                                 \
	__extension__({                                                                            \
		_Static_assert(FUR_IS_TX(tx) && FUR_IS_WORD(p),                                    \
		        "fur_load: 1, 2, 4 or 8 bytes; use fur_read for more");                    \
		void *handle = (void *)(tx);                                                       \
		const __typeof__(*(p)) *from = (p);                                                \
		FUR_TYPE(p) value;                                                                 \
		if (FUR_IS_READER(tx)) {                                                           \
			fur_load_checked((fur_reader *)handle, (void *)&value, (const void *)from, \
			        sizeof value);                                                     \
		} else if (fur_in_software(FUR_IS_UPDATE(tx), handle)) {                           \
			uint64_t bits = fur_load_bits(                                             \
			        (fur_update *)handle, (const void *)from, sizeof value);           \
			memcpy((void *)&value, &bits, sizeof value);                               \
		} else {                                                                           \
			fur_load_word((void *)&value, (const void *)from, sizeof value);           \
		}                                                                                  \
		value;                                                                             \
	})
static inline void fur_read_tx(
        bool reader, bool update, void *tx, void *to, const void *from, size_t bytes)
{
	if (reader)
		fur_load_reader((fur_reader *)tx, to, from, bytes);
	else if (fur_in_software(update, tx))
		fur_load_update((fur_update *)tx, to, from, bytes);
	else
		fur_read_bytes(to, from, bytes);
}
#define FUR_STORE(tx, p, v, update, value, bits)                                                   \
	__extension__({                                                                            \
		_Static_assert(_Generic((tx), fur_update * : 1, default : 0),                      \
		        "fur_store: needs an update transaction");                                 \
		_Static_assert(                                                                    \
		        FUR_IS_WORD(p), "fur_store: 1, 2, 4 or 8 bytes; use fur_write for more");  \
		fur_update *update = (tx);                                                         \
		__typeof__(*(p)) value = (v);                                                      \
		uint64_t bits = 0;                                                                 \
		memcpy(&bits, &value, sizeof value);                                               \
		fur_store_bits(update, (p), bits, sizeof value);                                   \
	})
#define FUR_CALL(tx, ro, reader, update)                                                           \
	_Generic((tx), fur_ro * : ro, fur_reader * : reader, fur_update * : update)
#define fur_root(tx, index) FUR_CALL(tx, fur_root_ro, fur_root_reader, fur_root_update)(tx, index)
#define fur_usable_bytes(tx, memory)                                                               \
	_Generic((tx), fur_ro *                                                                    \
	         : fur_usable_bytes_ro, fur_update *                                               \
	         : fur_usable_bytes_update)(tx, memory)
#define fur_load(tx, p)                                                                            \
	FUR_LOAD(tx, p, FUR_NAME(fur_handle_, __COUNTER__), FUR_NAME(fur_from_, __COUNTER__),      \
	        FUR_NAME(fur_value_, __COUNTER__), FUR_NAME(fur_bits_, __COUNTER__))
#define fur_store(tx, p, value)                                                                    \
	FUR_STORE(tx, p, value, FUR_NAME(fur_update_, __COUNTER__),                                \
	        FUR_NAME(fur_value_, __COUNTER__), FUR_NAME(fur_bits_, __COUNTER__))
#define fur_prefetch(tx, p, bytes)                                                                 \
	((void)sizeof(FUR_IS_TX(tx)),                                                              \
	        fur_prefetch_lines(FUR_IS_READER(tx) ? (const fur_reader *)(void *)(tx) : NULL,    \
	                (p), (bytes)))
#define fur_read(tx, to, from, bytes)                                                              \
	((void)sizeof(FUR_IS_TX(tx)), fur_read_tx(FUR_IS_READER(tx), FUR_IS_UPDATE(tx),            \
	                                      (void *)(tx), (to), (from), (bytes)))
#endif

#endif /* FUR_DETAIL_H */
