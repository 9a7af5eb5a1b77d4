/* SPDX-License-Identifier: BSD-3-Clause
 *
 * access.c - the loads, stores and logs that GCC's code calls, for the types that every processor
 * has; vectors.c has those of x86-64.
 */
#include "access.h"

#include <complex.h>
#include <string.h>

void itm_lock_to_load(struct itm_thread *t, const void *from)
{
	if (!itm_in_frames(t, from, __builtin_frame_address(0)))
		itm_need_lock(t, ITM_LOCK_SHARED);
}

void itm_prepare_store(struct itm_thread *t, const void *to, size_t bytes)
{
	const struct itm_mark *mark = t->inner ? t->inner : &t->begin;
	if (itm_in_frames(t, to, __builtin_frame_address(0))) {
		/* A variable of a function that the innermost block has called is gone when the
		 * block is undone. */
		if ((uintptr_t)to >= mark->checkpoint.stack)
			itm_undo_note(t, to, bytes);
		return;
	}
	if (!itm_in_stack(t, to)) {
		if (itm_in_exception(t, to))
			return;
		itm_need_lock(t, ITM_LOCK_EXCLUSIVE);
	}
	itm_undo_note(t, to, bytes);
}

uint64_t itm_ask_word(const struct itm_thread *t, const void *from, unsigned bytes)
{
	uint64_t bits;
	if (t->mode != ITM_OPTIMISTIC)
		return fur_load_bits(t->update, from, bytes);
	fur_load_checked(t->reader, &bits, from, bytes);
	return bits;
}

void itm_ask(const struct itm_thread *t, void *to, const void *from, size_t bytes)
{
	if (t->mode == ITM_OPTIMISTIC)
		fur_load_reader(t->reader, to, from, bytes);
	else
		fur_load_update(t->update, to, from, bytes);
}

void itm_load_bytes(struct itm_thread *t, void *to, const void *from, size_t bytes)
{
	if (itm_in_heap(t, from)) {
		if (t->body->software) {
			itm_ask(t, to, from, bytes);
			return;
		}
	} else {
		itm_prepare_load(t, from);
	}
	memmove(to, from, bytes);
}

void itm_store_bytes(struct itm_thread *t, void *to, const void *from, size_t bytes)
{
	if (!itm_in_heap(t, to)) {
		itm_prepare_store(t, to, bytes);
		memmove(to, from, bytes);
		return;
	}
	itm_prepare_heap(t, to, bytes);
	fur_write(t->update, to, from, bytes);
	itm_check_store(t);
}

/* A table of the functions for one type.  RaR, RaW and RfW are loads after a load, after a store,
 * and before a store; WaR and WaW are stores after a load and after a store.  All that could make
 * one of them cheaper - what the transaction knows of the address - libfur finds out by itself. */
#define ITM_TYPE(type, name)                                                                       \
	ITM_LOAD(type, _ITM_R##name)                                                               \
	ITM_LOAD(type, _ITM_RaR##name)                                                             \
	ITM_LOAD(type, _ITM_RaW##name)                                                             \
	ITM_LOAD(type, _ITM_RfW##name)                                                             \
	ITM_STORE(type, _ITM_W##name)                                                              \
	ITM_STORE(type, _ITM_WaR##name)                                                            \
	ITM_STORE(type, _ITM_WaW##name)                                                            \
	ITM_LOG(type, _ITM_L##name)

ITM_TYPE(uint8_t, U1)
ITM_TYPE(uint16_t, U2)
ITM_TYPE(uint32_t, U4)
ITM_TYPE(uint64_t, U8)
ITM_TYPE(float, F)
ITM_TYPE(double, D)
ITM_TYPE(long double, E)
ITM_TYPE(float complex, CF)
ITM_TYPE(double complex, CD)
ITM_TYPE(long double complex, CE)

ITM_API void _ITM_LB(const void *at, size_t bytes);
ITM_API void _ITM_LB(const void *at, size_t bytes)
{
	itm_undo_note(itm_self, at, bytes);
}
