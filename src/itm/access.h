/* SPDX-License-Identifier: BSD-3-Clause
 *
 * access.h - how a load and a store of one type are made; access.c and vectors.c make tables of
 * them.
 */
#ifndef FUR_ITM_ACCESS_H
#define FUR_ITM_ACCESS_H

#include "itm.h"

#define ITM_API    FUR_API
#define ITM_INLINE static inline __attribute__((always_inline))

/* Make ready for a store to the heap. */
ITM_INLINE void itm_prepare_heap(struct itm_thread *t, const void *to, size_t bytes)
{
	if (unlikely(t->mode != ITM_UPDATE))
		itm_become_update(t);
	if (unlikely(t->inner != NULL))
		itm_undo_heap(t, to, bytes);
}

/* `bytes` is a constant.  The usual case first: a load from the heap. */
ITM_INLINE void itm_load(void *to, const void *from, size_t bytes)
{
	struct itm_thread *t = itm_self;
	if (bytes > sizeof(uint64_t)) {
		itm_load_bytes(t, to, from, bytes);
		return;
	}
	if (likely(itm_in_heap(t, from))) {
		if (t->body->software) {
			uint64_t bits = itm_ask_word(t, from, (unsigned)bytes);
			__builtin_memcpy(to, &bits, bytes);
			return;
		}
	} else {
		itm_prepare_load(t, from);
	}
	fur_load_word(to, from, bytes);
}

ITM_INLINE void itm_store(void *to, const void *from, size_t bytes)
{
	struct itm_thread *t = itm_self;
	if (bytes > sizeof(uint64_t)) {
		itm_store_bytes(t, to, from, bytes);
		return;
	}
	if (likely(itm_in_heap(t, to))) {
		uint64_t bits = 0;
		__builtin_memcpy(&bits, from, bytes);
		itm_prepare_heap(t, to, bytes);
		fur_store_bits(t->update, to, bits, (unsigned)bytes);
		itm_check_store(t);
		return;
	}
	itm_prepare_store(t, to, bytes);
	__builtin_memcpy(to, from, bytes);
}

#define ITM_LOAD(type, name)                                                                       \
	ITM_API type name(const type *from);                                                       \
	type name(const type *from)                                                                \
	{                                                                                          \
		type value;                                                                        \
		itm_load(&value, from, sizeof value);                                              \
		return value;                                                                      \
	}
#define ITM_STORE(type, name)                                                                      \
	ITM_API void name(type *to, type value);                                                   \
	void name(type *to, type value)                                                            \
	{                                                                                          \
		itm_store(to, &value, sizeof value);                                               \
	}
/* The compiler has found out that no other thread knows the variable, and stores to it without a
 * call. */
#define ITM_LOG(type, name)                                                                        \
	ITM_API void name(const type *at);                                                         \
	void name(const type *at)                                                                  \
	{                                                                                          \
		itm_undo_note(itm_self, at, sizeof *at);                                           \
	}

#endif /* FUR_ITM_ACCESS_H */
