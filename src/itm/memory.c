/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.c - memory of the process and of the heap, allocated and given back by transactions.
 * Memory is given back at the commit, so that a run that does not count has given none back.
 */
#include "itm.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------ the heap */

/* GCC calls the transactional clone of a function of fur_itm.h by its mangled name. */
#define CLONE(length, name) _ZGTt##length##name

FUR_API void *CLONE(13, fur_itm_alloc)(size_t bytes);
FUR_API void *CLONE(21, fur_itm_alloc_aligned)(size_t bytes, size_t alignment);
FUR_API void CLONE(12, fur_itm_free)(void *memory);
FUR_API void *CLONE(12, fur_itm_root)(unsigned index);
FUR_API void CLONE(16, fur_itm_set_root)(unsigned index, const void *value);

static void *allocated(struct itm_thread *t, void *memory)
{
	if (!memory)
		itm_check_store(t); /* or the heap is full */
	if (memory && t->inner)
		itm_action_add(t, (struct itm_action){.when = ITM_HEAP_ALLOCATED, .arg = memory});
	return memory;
}

static struct itm_thread *updating(const char *function)
{
	struct itm_thread *t = itm_inside(function);
	if (t->mode != ITM_UPDATE)
		itm_become_update(t);
	return t;
}

void *CLONE(13, fur_itm_alloc)(size_t bytes)
{
	struct itm_thread *t = updating("fur_itm_alloc");
	return allocated(t, fur_alloc(t->update, bytes));
}

void *CLONE(21, fur_itm_alloc_aligned)(size_t bytes, size_t alignment)
{
	struct itm_thread *t = updating("fur_itm_alloc_aligned");
	return allocated(t, fur_alloc_aligned(t->update, bytes, alignment));
}

void CLONE(12, fur_itm_free)(void *memory)
{
	struct itm_thread *t = updating("fur_itm_free");
	if (memory)
		itm_action_add(t, (struct itm_action){.when = ITM_HEAP_FREE, .arg = memory});
}

void *CLONE(12, fur_itm_root)(unsigned index)
{
	const struct itm_thread *t = itm_inside("fur_itm_root");
	if (t->mode == ITM_OPTIMISTIC)
		return fur_root(t->reader, index);
	return t->mode == ITM_READER ? fur_root(t->ro, index) : fur_root(t->update, index);
}

void CLONE(16, fur_itm_set_root)(unsigned index, const void *value)
{
	struct itm_thread *t = updating("fur_itm_set_root");
	if (index < FUR_ROOTS && t->inner) {
		void *old = fur_root(t->update, index);
		itm_action_add(
		        t, (struct itm_action){.when = ITM_HEAP_ROOT, .root = index, .arg = old});
	}
	fur_set_root(t->update, index, value);
	itm_check_store(t);
}

/* The functions themselves, which code calls that is not transactional: outside transactions, where
 * each fails, and in irrevocable ones. */
FUR_ITM_SAFE void *fur_itm_alloc(size_t bytes)
{
	return CLONE(13, fur_itm_alloc)(bytes);
}

FUR_ITM_SAFE void *fur_itm_alloc_aligned(size_t bytes, size_t alignment)
{
	return CLONE(21, fur_itm_alloc_aligned)(bytes, alignment);
}

FUR_ITM_SAFE void fur_itm_free(void *memory)
{
	CLONE(12, fur_itm_free)(memory);
}

FUR_ITM_SAFE void *fur_itm_root(unsigned index)
{
	return CLONE(12, fur_itm_root)(index);
}

FUR_ITM_SAFE void fur_itm_set_root(unsigned index, const void *value)
{
	CLONE(16, fur_itm_set_root)(index, value);
}

/* ------------------------------------------------------------ the process */

FUR_API void *_ITM_malloc(size_t bytes);
FUR_API void *_ITM_calloc(size_t n, size_t bytes);
FUR_API void _ITM_free(void *memory);

static void *given(void *memory, void (*give_back)(void *))
{
	if (memory)
		itm_action_add(itm_self,
		        (struct itm_action){
		                .when = ITM_AT_ROLLBACK, .call = give_back, .arg = memory});
	return memory;
}

static void free_later(void *memory, void (*give_back)(void *))
{
	struct itm_thread *t = itm_self;
	if (!memory)
		return;
	if (itm_in_heap(t, memory))
		itm_fail(FUR_EFREE, "a transaction passed memory of the heap to free() or delete: "
		                    "call fur_itm_free()");
	itm_action_add(
	        t, (struct itm_action){.when = ITM_AT_COMMIT, .call = give_back, .arg = memory});
}

void *_ITM_malloc(size_t bytes)
{
	return given(malloc(bytes), free);
}

void *_ITM_calloc(size_t n, size_t bytes)
{
	return given(calloc(n, bytes), free);
}

void _ITM_free(void *memory)
{
	free_later(memory, free);
}

/* ------------------------------------------------------------ operators new and delete */

extern void *_Znwm(size_t) __attribute__((weak));
extern void *_Znam(size_t) __attribute__((weak));
extern void *_ZnwmRKSt9nothrow_t(size_t, const void *) __attribute__((weak));
extern void *_ZnamRKSt9nothrow_t(size_t, const void *) __attribute__((weak));
extern void _ZdlPv(void *) __attribute__((weak));
extern void _ZdaPv(void *) __attribute__((weak));

FUR_API void *_ZGTtnwm(size_t bytes);
FUR_API void *_ZGTtnam(size_t bytes);
FUR_API void *_ZGTtnwmRKSt9nothrow_t(size_t bytes, const void *nothrow);
FUR_API void *_ZGTtnamRKSt9nothrow_t(size_t bytes, const void *nothrow);
FUR_API void _ZGTtdlPv(void *memory);
FUR_API void _ZGTtdaPv(void *memory);
FUR_API void _ZGTtdlPvm(void *memory, size_t bytes);
FUR_API void _ZGTtdaPvm(void *memory, size_t bytes);
FUR_API void _ZGTtdlPvRKSt9nothrow_t(void *memory, const void *nothrow);
FUR_API void _ZGTtdaPvRKSt9nothrow_t(void *memory, const void *nothrow);
FUR_API void _ZGTtdlPvmRKSt9nothrow_t(void *memory, size_t bytes, const void *nothrow);

void *_ZGTtnwm(size_t bytes)
{
	return given(_Znwm(bytes), _ZdlPv);
}

void *_ZGTtnam(size_t bytes)
{
	return given(_Znam(bytes), _ZdaPv);
}

void *_ZGTtnwmRKSt9nothrow_t(size_t bytes, const void *nothrow)
{
	return given(_ZnwmRKSt9nothrow_t(bytes, nothrow), _ZdlPv);
}

void *_ZGTtnamRKSt9nothrow_t(size_t bytes, const void *nothrow)
{
	return given(_ZnamRKSt9nothrow_t(bytes, nothrow), _ZdaPv);
}

void _ZGTtdlPv(void *memory)
{
	free_later(memory, _ZdlPv);
}

void _ZGTtdaPv(void *memory)
{
	free_later(memory, _ZdaPv);
}

void _ZGTtdlPvm(void *memory, size_t bytes)
{
	(void)bytes;
	free_later(memory, _ZdlPv);
}

void _ZGTtdaPvm(void *memory, size_t bytes)
{
	(void)bytes;
	free_later(memory, _ZdaPv);
}

void _ZGTtdlPvRKSt9nothrow_t(void *memory, const void *nothrow)
{
	(void)nothrow;
	free_later(memory, _ZdlPv);
}

void _ZGTtdaPvRKSt9nothrow_t(void *memory, const void *nothrow)
{
	(void)nothrow;
	free_later(memory, _ZdaPv);
}

void _ZGTtdlPvmRKSt9nothrow_t(void *memory, size_t bytes, const void *nothrow)
{
	(void)bytes;
	(void)nothrow;
	free_later(memory, _ZdlPv);
}
