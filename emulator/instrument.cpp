/* SPDX-License-Identifier: BSD-3-Clause
 *
 * instrument.cpp - the functions that the compiler calls, under -fsanitize=thread, before plain
 * loads and stores and in place of atomic operations.  Their names and meanings are those of GCC's
 * and LLVM's thread sanitizer (tsan_interface.h and tsan_interface_atomic.h in compiler-rt).  The
 * compiler does not instrument memcpy, memmove and memset; memory_functions.h sends calls of these
 * here.
 */
#include "machine.hpp"

using namespace emu;

/* A plain access, which the program itself makes as soon as this returns. */
template <bool write>
static inline void plain_access(void *p, size_t bytes)
{
	Thread *t = g.self;
	if (!t || own_stack(*t, p) ||
	        static_cast<size_t>(static_cast<uint8_t *>(p) - g.errno_page) < 4096)
		return;
	begin_access(*t);
	if (write)
		touch_write(*t, p, bytes);
	else
		touch_read(*t, p, bytes);
}

#define PLAIN(read, write, bytes)                                                                  \
	void __tsan_##read(void *p)                                                                \
	{                                                                                          \
		plain_access<false>(p, bytes);                                                     \
	}                                                                                          \
	void __tsan_##write(void *p)                                                               \
	{                                                                                          \
		plain_access<true>(p, bytes);                                                      \
	}

/* Atomic operations.  `order` is the C11 order: RELEASE and stronger for stores, ACQUIRE for loads.
 * The machine performs loads in order, so an acquire load costs nothing and needs nothing.  A
 * sequentially consistent store is followed by a full fence, as compilers emit it for x86; for
 * POWER they put the fence before it, and the machine puts it after the store there as well. */
enum { RELAXED, CONSUME, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST };

/* Outside a simulation, and on its own stack, a thread accesses memory natively. */
static bool is_private(const Thread *t, const void *p)
{
	return !t || own_stack(*t, p);
}

static uint64_t load_atomic(const void *p, unsigned bytes)
{
	Thread &t = *g.self;
	begin_access(t);
	return load_value(t, p, bytes);
}

static void store_atomic(void *p, uint64_t value, unsigned bytes, int order)
{
	Thread &t = *g.self;
	begin_access(t);
	if (order >= RELEASE)
		t.epoch++; /* ordered after all earlier stores */
	buffer_store(t, p, value, bytes);
	if (order == SEQ_CST)
		emu_fence();
}

/* On x86 a locked instruction is a full fence.  On POWER the order decides: a sequentially
 * consistent operation begins with hwsync, which also waits for write-backs; a relaxed one orders
 * nothing (INV-E4). */
static void begin_rmw(Thread &t, void *p, unsigned bytes, int order)
{
	end_overlap(t);
	if (!g.d->power || order != RELAXED)
		perform_all(t);
	if (g.d->power && order == SEQ_CST)
		complete_write_backs(t);
	if (goes_home(t)) {
		request_at_home(t, p, bytes);
		return;
	}
	/* The core has the line exclusively before the operation reads the word, and no other
	 * thread runs between that and the operation's store (INV-E1). */
	charge(t, step_time(t, g.d->atomic));
	begin_access(t);
	touch_read(t, p, bytes, true);
}

static void write_rmw(Thread &t, void *p, unsigned bytes)
{
	touch_write(t, p, bytes, goes_home(t));
}

#define ATOMIC(bits, type)                                                                         \
	type __tsan_atomic##bits##_load(const volatile type *p, int order)                         \
	{                                                                                          \
		if (is_private(g.self, const_cast<type *>(p)))                                     \
			return __atomic_load_n(p, __ATOMIC_SEQ_CST);                               \
		(void)order;                                                                       \
		return static_cast<type>(load_atomic(const_cast<type *>(p), bits / 8));            \
	}                                                                                          \
	void __tsan_atomic##bits##_store(volatile type *p, type value, int order)                  \
	{                                                                                          \
		if (is_private(g.self, const_cast<type *>(p)))                                     \
			__atomic_store_n(p, value, __ATOMIC_SEQ_CST);                              \
		else                                                                               \
			store_atomic(const_cast<type *>(p), value, bits / 8, order);               \
	}                                                                                          \
	int __tsan_atomic##bits##_compare_exchange_strong(                                         \
	        volatile type *p, type *expected, type value, int order, int)                      \
	{                                                                                          \
		bool outside = is_private(g.self, const_cast<type *>(p));                          \
		if (!outside)                                                                      \
			begin_rmw(*g.self, const_cast<type *>(p), bits / 8, order);                \
		type is = *p;                                                                      \
		if (is != *expected) {                                                             \
			*expected = is;                                                            \
			return 0;                                                                  \
		}                                                                                  \
		if (!outside)                                                                      \
			write_rmw(*g.self, const_cast<type *>(p), bits / 8);                       \
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
		if (!is_private(g.self, const_cast<type *>(p))) {                                  \
			begin_rmw(*g.self, const_cast<type *>(p), bits / 8, order);                \
			write_rmw(*g.self, const_cast<type *>(p), bits / 8);                       \
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

PLAIN(read1, write1, 1)
PLAIN(read2, write2, 2)
PLAIN(read4, write4, 4)
PLAIN(read8, write8, 8)
PLAIN(read16, write16, 16)
PLAIN(unaligned_read2, unaligned_write2, 2)
PLAIN(unaligned_read4, unaligned_write4, 4)
PLAIN(unaligned_read8, unaligned_write8, 8)
PLAIN(unaligned_read16, unaligned_write16, 16)

void __tsan_read_range(void *p, size_t bytes)
{
	plain_access<false>(p, bytes);
}
void __tsan_write_range(void *p, size_t bytes)
{
	plain_access<true>(p, bytes);
}
void __tsan_vptr_update(void **p, void *)
{
	plain_access<true>(p, sizeof *p);
}
void __tsan_vptr_read(void **p)
{
	plain_access<false>(p, sizeof *p);
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

/* Copy piece by piece.  Each piece is checked and then copied in one step (INV-E1): an access
 * conflicts when it is made, not earlier. */
static void copy_pieces(uint8_t *to, const uint8_t *from, size_t bytes)
{
	constexpr size_t PIECE = 32;
	while (bytes) {
		size_t n = bytes < PIECE ? bytes : PIECE;
		plain_access<false>(const_cast<uint8_t *>(from), n);
		uint8_t piece[PIECE];
		memcpy(piece, from, n);
		plain_access<true>(to, n);
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
	/* The ranges overlap, and the copy goes upwards: in practice only private data are copied
	 * so. */
	plain_access<false>(const_cast<void *>(from), bytes);
	plain_access<true>(to, bytes);
	return memmove(to, from, bytes);
}

void *emu_memset(void *to, int c, size_t bytes)
{
	auto *at = static_cast<uint8_t *>(to);
	if (!g.self)
		return memset(to, c, bytes);
	for (size_t left = bytes; left;) {
		size_t n = left < size_t(MAX_LINE) ? left : size_t(MAX_LINE);
		plain_access<true>(at, n);
		memset(at, c, n);
		at += n, left -= n;
	}
	return to;
}
}
#pragma GCC diagnostic pop
