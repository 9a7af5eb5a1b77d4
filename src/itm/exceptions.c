/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exceptions.c - C++ exceptions that a transaction throws and catches.  When a run does not count,
 * the C++ run-time library must forget those that the run has thrown: their memory goes back, and
 * the thread's counts of exceptions become what they were.  No destructor runs: the objects are as
 * they were before their constructors ran.
 *
 * The C++ run-time library is there only if the program has it.
 */
#include "itm.h"

#include <string.h>
#include <unwind.h>

extern struct itm_cxa_globals *__cxa_get_globals(void) __attribute__((weak));
extern void *__cxa_allocate_exception(size_t) __attribute__((weak));
extern void __cxa_free_exception(void *) __attribute__((weak));
extern void __cxa_throw(void *, void *, void (*)(void *)) __attribute__((weak, noreturn));
extern void *__cxa_begin_catch(void *) __attribute__((weak));
extern void __cxa_end_catch(void) __attribute__((weak));

static struct itm_exception *exception_at(const struct itm_thread *t, size_t place)
{
	return (struct itm_exception *)(void *)(t->exceptions.list.at + place);
}

static void mark_dead(struct itm_thread *t, const void *object)
{
	for (size_t at = 0; at < t->exceptions.list.used; at += sizeof(struct itm_exception))
		if (exception_at(t, at)->object == object)
			exception_at(t, at)->dead = true;
}

bool itm_in_exception(const struct itm_thread *t, const void *at)
{
	for (size_t i = 0; i < t->exceptions.list.used; i += sizeof(struct itm_exception)) {
		const struct itm_exception *e = exception_at(t, i);
		if ((uint64_t)((const uint8_t *)at - (const uint8_t *)e->object) < e->bytes)
			return true;
	}
	return false;
}

/* ------------------------------------------------------------ marks */

void itm_exceptions_mark(struct itm_thread *t, struct itm_mark *mark)
{
	mark->exceptions = t->exceptions.list.used;
	mark->catches = t->exceptions.catches.used;
	if (__cxa_get_globals)
		mark->cxa = *__cxa_get_globals();
}

void itm_exceptions_back(struct itm_thread *t, const struct itm_mark *mark)
{
	while (t->exceptions.list.used > mark->exceptions) {
		t->exceptions.list.used -= sizeof(struct itm_exception);
		const struct itm_exception *e = exception_at(t, t->exceptions.list.used);
		if (!e->dead)
			__cxa_free_exception(e->object);
	}
	t->exceptions.catches.used = mark->catches;
	if (__cxa_get_globals)
		*__cxa_get_globals() = mark->cxa;
}

void itm_exceptions_clear(struct itm_thread *t)
{
	t->exceptions.list.used = t->exceptions.catches.used = 0;
}

/* ------------------------------------------------------------ what GCC's code calls */

FUR_API void *_ITM_cxa_allocate_exception(size_t bytes);
FUR_API void _ITM_cxa_free_exception(void *object);
FUR_API void _ITM_cxa_throw(void *object, void *type, void (*destructor)(void *));
FUR_API void *_ITM_cxa_begin_catch(void *header);
FUR_API void _ITM_cxa_end_catch(void);

void *_ITM_cxa_allocate_exception(size_t bytes)
{
	struct itm_exception *added = itm_bytes_add(&itm_self->exceptions.list, sizeof *added);
	*added = (struct itm_exception){.dead = true};
	void *object = __cxa_allocate_exception(bytes);
	*added = (struct itm_exception){object, bytes, false};
	return object;
}

void _ITM_cxa_free_exception(void *object)
{
	mark_dead(itm_self, object);
	__cxa_free_exception(object);
}

void _ITM_cxa_throw(void *object, void *type, void (*destructor)(void *))
{
	__cxa_throw(object, type, destructor);
}

void *_ITM_cxa_begin_catch(void *header)
{
	/* The object follows the unwinder's header (Itanium C++ ABI). */
	void *object = (struct _Unwind_Exception *)header + 1;
	void **added = itm_bytes_add(&itm_self->exceptions.catches, sizeof *added);
	*added = object;
	return __cxa_begin_catch(header);
}

void _ITM_cxa_end_catch(void)
{
	struct itm_thread *t = itm_self;
	struct itm_bytes *catches = &t->exceptions.catches;
	void *object = NULL, **all = (void **)(void *)catches->at;
	bool last = true;
	if (catches->used) {
		catches->used -= sizeof object;
		size_t n = catches->used / sizeof object;
		object = all[n];
		while (n-- > 0)
			last = last && all[n] != object;
	}
	/* Its last handler has ended, so the C++ run-time library destroys it. */
	if (object && last)
		mark_dead(t, object);
	__cxa_end_catch();
}
