/* SPDX-License-Identifier: BSD-3-Clause
 *
 * copies.c - memcpy(), memmove() and memset() in transactions.  The letters of a name tell how the
 * source is read (R) and the destination is written (W): n, memory that no other thread knows and
 * that is not undone; t, transactionally; taR and taW, so and after a load or a store.
 */
#include "access.h"

#include <string.h>

/* GCC also takes `n` for memory in the heap, if only its values do not matter.  The heap is always
 * accessed through libfur. */
static void copy(void *to, const void *from, size_t bytes, bool reads, bool writes)
{
	struct itm_thread *t = itm_self;
	if (bytes == 0)
		return;
	bool to_heap = itm_in_heap(t, to), from_heap = itm_in_heap(t, from);
	if (reads && !from_heap)
		itm_prepare_load(t, from);
	if (to_heap) {
		itm_prepare_heap(t, to, bytes);
		fur_write(t->update, to, from, bytes);
		itm_check_store(t);
		return;
	}
	if (writes)
		itm_prepare_store(t, to, bytes);
	if (from_heap && t->body->software)
		itm_ask(t, to, from, bytes);
	else
		memmove(to, from, bytes);
}

static void fill(void *to, int value, size_t bytes)
{
	struct itm_thread *t = itm_self;
	if (bytes == 0)
		return;
	if (!itm_in_heap(t, to)) {
		itm_prepare_store(t, to, bytes);
		memset(to, value, bytes);
		return;
	}
	enum { PIECE = 512 };
	uint8_t piece[PIECE], *at = to;
	itm_prepare_heap(t, to, bytes);
	memset(piece, value, bytes < PIECE ? bytes : PIECE);
	for (size_t part; bytes; bytes -= part, at += part) {
		part = bytes < PIECE ? bytes : PIECE;
		fur_write(t->update, at, piece, part);
	}
	itm_check_store(t);
}

/* fur_write() and memmove() are right if the two overlap, so the two functions are one. */
#define ITM_COPY(how, reads, writes)                                                               \
	ITM_API void *_ITM_memcpy##how(void *to, const void *from, size_t bytes);                  \
	ITM_API void *_ITM_memmove##how(void *to, const void *from, size_t bytes);                 \
	void *_ITM_memcpy##how(void *to, const void *from, size_t bytes)                           \
	{                                                                                          \
		copy(to, from, bytes, reads, writes);                                              \
		return to;                                                                         \
	}                                                                                          \
	void *_ITM_memmove##how(void *to, const void *from, size_t bytes)                          \
	{                                                                                          \
		copy(to, from, bytes, reads, writes);                                              \
		return to;                                                                         \
	}
ITM_COPY(RnWt, false, true)
ITM_COPY(RnWtaR, false, true)
ITM_COPY(RnWtaW, false, true)
ITM_COPY(RtWn, true, false)
ITM_COPY(RtWt, true, true)
ITM_COPY(RtWtaR, true, true)
ITM_COPY(RtWtaW, true, true)
ITM_COPY(RtaRWn, true, false)
ITM_COPY(RtaRWt, true, true)
ITM_COPY(RtaRWtaR, true, true)
ITM_COPY(RtaRWtaW, true, true)
ITM_COPY(RtaWWn, true, false)
ITM_COPY(RtaWWt, true, true)
ITM_COPY(RtaWWtaR, true, true)
ITM_COPY(RtaWWtaW, true, true)

#define ITM_FILL(name)                                                                             \
	ITM_API void *name(void *to, int value, size_t bytes);                                     \
	void *name(void *to, int value, size_t bytes)                                              \
	{                                                                                          \
		fill(to, value, bytes);                                                            \
		return to;                                                                         \
	}
ITM_FILL(_ITM_memsetW)
ITM_FILL(_ITM_memsetWaR)
ITM_FILL(_ITM_memsetWaW)
