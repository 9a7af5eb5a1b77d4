/* SPDX-License-Identifier: BSD-3-Clause
 *
 * instrument.cpp - the calls that -fsanitize=thread puts before loads and stores and in place of
 * atomic operations, answered by the machine.  The names and meanings are those of LLVM's and GCC's
 * thread sanitizer (compiler-rt/lib/tsan/rtl/tsan_interface*.h).  memcpy, memmove and memset, which
 * the compiler does not instrument, get here by memory_functions.h.
 */
#include "machine.hpp"

using namespace emu;

/* A plain access: the program makes it itself when we return. */
template <bool write>
static inline void plain(void *p, size_t bytes)
{
	Thread *t = g.self;
	if (!t || own_stack(*t, p) ||
	        static_cast<size_t>(static_cast<uint8_t *>(p) - g.errno_page) < 4096)
		return;
	enter(*t);
	if (write)
		touch_write(*t, p, bytes);
	else
		touch_read(*t, p, bytes);
}

#define PLAIN(bytes)                                                                               \
	void __tsan_read##bytes(void *p)                                                           \
	{                                                                                          \
		plain<false>(p, bytes);                                                            \
	}                                                                                          \
	void __tsan_write##bytes(void *p)                                                          \
	{                                                                                          \
		plain<true>(p, bytes);                                                             \
	}

#define UNALIGNED(bytes)                                                                           \
	void __tsan_unaligned_read##bytes(void *p)                                                 \
	{                                                                                          \
		plain<false>(p, bytes);                                                            \
	}                                                                                          \
	void __tsan_unaligned_write##bytes(void *p)                                                \
	{                                                                                          \
		plain<true>(p, bytes);                                                             \
	}

/* Atomics.  `order` is the C11 order: release and stronger stores, acquire loads.  Loads are
 * performed in order, so acquire costs and does nothing; a sequentially consistent store is
 * followed by a full fence, as compilers do it on x86, or preceded, on POWER. */
enum { RELAXED, CONSUME, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST };

static bool local(const Thread *t, const void *p)
{
	return !t || own_stack(*t, p);
}

static uint64_t load(const void *p, unsigned bytes)
{
	Thread &t = *g.self;
	enter(t);
	return get(t, p, bytes);
}

static void store(void *p, uint64_t value, unsigned bytes, int order)
{
	Thread &t = *g.self;
	enter(t);
	if (order >= RELEASE)
		t.epoch++; /* after everything before */
	put(t, p, value, bytes);
	if (order == SEQ_CST)
		emu_fence();
}

/* A locked instruction on x86: a full fence.  On POWER what the order says: sequentially consistent
 * begins with hwsync, which also waits for write-backs; relaxed orders nothing. */
static void begin_rmw(Thread &t, void *p, unsigned bytes, int order)
{
	if (!g.d->power || order != RELAXED)
		perform_all(t);
	if (g.d->power && order == SEQ_CST)
		complete_write_backs(t);
	/* The line is had exclusively before the word is looked at; and after this nothing comes
	 * between. */
	charge(t, g.d->atomic);
	enter(t);
	touch_read(t, p, bytes, true);
}

#define ATOMIC(bits, type)                                                                         \
	type __tsan_atomic##bits##_load(const volatile type *p, int order)                         \
	{                                                                                          \
		if (local(g.self, const_cast<type *>(p)))                                          \
			return __atomic_load_n(p, __ATOMIC_SEQ_CST);                               \
		(void)order;                                                                       \
		return static_cast<type>(load(const_cast<type *>(p), bits / 8));                   \
	}                                                                                          \
	void __tsan_atomic##bits##_store(volatile type *p, type value, int order)                  \
	{                                                                                          \
		if (local(g.self, const_cast<type *>(p)))                                          \
			__atomic_store_n(p, value, __ATOMIC_SEQ_CST);                              \
		else                                                                               \
			store(const_cast<type *>(p), value, bits / 8, order);                      \
	}                                                                                          \
	int __tsan_atomic##bits##_compare_exchange_strong(                                         \
	        volatile type *p, type *expected, type value, int order, int)                      \
	{                                                                                          \
		bool outside = local(g.self, const_cast<type *>(p));                               \
		if (!outside)                                                                      \
			begin_rmw(*g.self, const_cast<type *>(p), bits / 8, order);                \
		type is = *p;                                                                      \
		if (is != *expected) {                                                             \
			*expected = is;                                                            \
			return 0;                                                                  \
		}                                                                                  \
		if (!outside)                                                                      \
			touch_write(*g.self, const_cast<type *>(p), bits / 8);                     \
		*p = value;                                                                        \
		return 1;                                                                          \
	}                                                                                          \
	int __tsan_atomic##bits##_compare_exchange_weak(                                           \
	        volatile type *p, type *expected, type value, int a, int b)                        \
	{                                                                                          \
		return __tsan_atomic##bits##_compare_exchange_strong(p, expected, value, a, b);    \
	}                                                                                          \
	type __tsan_atomic##bits##_compare_exchange_val(                                           \
	        volatile type *p, type expected, type value, int a, int b)                         \
	{                                                                                          \
		__tsan_atomic##bits##_compare_exchange_strong(p, &expected, value, a, b);          \
		return expected;                                                                   \
	}                                                                                          \
	RMW(bits, type, exchange, operand)                                                         \
	RMW(bits, type, fetch_add, static_cast<type>(is + operand))                                \
	RMW(bits, type, fetch_sub, static_cast<type>(is - operand))                                \
	RMW(bits, type, fetch_and, static_cast<type>(is & operand))                                \
	RMW(bits, type, fetch_or, static_cast<type>(is | operand))                                 \
	RMW(bits, type, fetch_xor, static_cast<type>(is ^ operand))                                \
	RMW(bits, type, fetch_nand, static_cast<type>(~(is & operand)))

#define RMW(bits, type, name, result)                                                              \
	type __tsan_atomic##bits##_##name(volatile type *p, type operand, int order)               \
	{                                                                                          \
		if (!local(g.self, const_cast<type *>(p))) {                                       \
			begin_rmw(*g.self, const_cast<type *>(p), bits / 8, order);                \
			touch_write(*g.self, const_cast<type *>(p), bits / 8);                     \
		}                                                                                  \
		type is = *p;                                                                      \
		*p = result;                                                                       \
		return is;                                                                         \
	}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-declarations"
extern "C" {

void __tsan_init(void) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}

PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)

void __tsan_read_range(void *p, size_t bytes)
{
	plain<false>(p, bytes);
}
void __tsan_write_range(void *p, size_t bytes)
{
	plain<true>(p, bytes);
}
void __tsan_vptr_update(void **p, void *)
{
	plain<true>(p, sizeof *p);
}
void __tsan_vptr_read(void **p)
{
	plain<false>(p, sizeof *p);
}

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int order)
{
	if (order == SEQ_CST)
		emu_fence();
	else if (order > RELAXED)
		emu_fence_light();
}
void __tsan_atomic_signal_fence(int) {}

/* ------------------------------------------------------------ memory functions */

/* Piece by piece, each checked and then copied in one step: an access conflicts when it is made,
 * not before. */
static void copy_pieces(uint8_t *to, const uint8_t *from, size_t bytes)
{
	constexpr size_t PIECE = 32;
	while (bytes) {
		size_t n = bytes < PIECE ? bytes : PIECE;
		plain<false>(const_cast<uint8_t *>(from), n);
		uint8_t piece[PIECE];
		memcpy(piece, from, n);
		plain<true>(to, n);
		memcpy(to, piece, n);
		to += n, from += n, bytes -= n;
	}
}

void *emu_memcpy(void *to, const void *from, size_t bytes)
{
	if (!g.self)
		return memcpy(to, from, bytes);
	copy_pieces(static_cast<uint8_t *>(to), static_cast<const uint8_t *>(from), bytes);
	return to;
}

void *emu_memmove(void *to, const void *from, size_t bytes)
{
	auto distance = static_cast<size_t>(
	        static_cast<uint8_t *>(to) - static_cast<const uint8_t *>(from));
	if (!g.self)
		return memmove(to, from, bytes);
	if (distance >= bytes) {
		copy_pieces(static_cast<uint8_t *>(to), static_cast<const uint8_t *>(from), bytes);
		return to;
	}
	/* Overlapping, upwards: private data in practice. */
	plain<false>(const_cast<void *>(from), bytes);
	plain<true>(to, bytes);
	return memmove(to, from, bytes);
}

void *emu_memset(void *to, int c, size_t bytes)
{
	auto *at = static_cast<uint8_t *>(to);
	if (!g.self)
		return memset(to, c, bytes);
	for (size_t left = bytes; left;) {
		size_t n = left < size_t(MAX_LINE) ? left : size_t(MAX_LINE);
		plain<true>(at, n);
		memset(at, c, n);
		at += n, left -= n;
	}
	return to;
}
}
#pragma GCC diagnostic pop
