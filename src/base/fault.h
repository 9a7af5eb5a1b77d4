/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fault.h - the place in the program where a signal was raised, for messages of its handler.
 */
#ifndef FUR_FAULT_H
#define FUR_FAULT_H

#include <stddef.h>
#include <stdint.h>

/* The address of the instruction that raised the signal; `context`: the third argument of a handler
 * with SA_SIGINFO. */
uintptr_t fault_code(const void *context);

/* Get an address inside each call that was under way at the fault, innermost first.  Returns: how
 * many, at most `most`; 0 where the C library cannot tell.
 * The first call in a process may call malloc(), so make it outside any handler. */
unsigned fault_callers(uintptr_t code, uintptr_t *callers, unsigned most);

/* Append to the text in `text`, which has room for `bytes` bytes. */
void fault_append(char *text, size_t bytes, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* Append "FILE+OFFSET (FUNCTION+OFFSET)" to the text in `text`: the first offset is the one that
 * addr2line takes.  FUNCTION is left out if the dynamic symbols do not name it. */
void fault_describe(uintptr_t code, char *text, size_t bytes);

#endif /* FUR_FAULT_H */
