/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_operator.h - operators: functions that fur-operators calls for the records of a bulk update
 * (lab_bulk.h), in its own process.  A shared object has one or more of them:
 *
 *     #include <fur_operator.h>
 *
 *     static bool add_interest(void *copy, size_t bytes, uint64_t number, void *arg) { ... }
 *     static bool expire(void *copy, size_t bytes, uint64_t number, void *arg) { ... }
 *
 *     static const struct fur_operator mine[] = {
 *             {"add_interest", add_interest},
 *             {"expire", expire},
 *     };
 *     FUR_OPERATORS(mine)
 *
 *     cc -shared -fPIC -o accounts.so accounts.c
 *     fur-operators --operators accounts.so /pmem/accounts.heap
 *
 * The rules of fur_bulk_map hold for an operator.  `copy` lies in that process's memory: a pointer
 * into the heap that it contains means nothing there.  `arg` is a copy of what the program gave,
 * aligned to 16 bytes.  An operator that crashes, or accesses memory next to its record, ends the
 * bulk update with an error.  An operator that stores elsewhere harms fur-operators, as any code in
 * that process would.  README.md has the rest.
 *
 * A program may also link its operators, or dlopen() the same file, to use them as fur_bulk.map.
 */
#ifndef FUR_OPERATOR_H
#define FUR_OPERATOR_H

#include <fur_bulk.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fur_operator {
	const char *name; /* 1 to 63 bytes */
	fur_bulk_map *map;
};

/* What fur-operators looks up in the shared object, under the name fur_operators. */
struct fur_operators {
	size_t size;  /* sizeof(struct fur_operators) */
	size_t bytes; /* sizeof(struct fur_operator) */
	size_t n;
	const struct fur_operator *operators;
};

/* Export the operators of an array; once in a shared object, outside functions. */
#define FUR_OPERATORS(array)                                                                       \
	FUR_OPERATORS_DECLARE;                                                                     \
	const struct fur_operators fur_operators = {sizeof(struct fur_operators),                  \
	        sizeof(struct fur_operator), sizeof(array) / sizeof((array)[0]), array};

#ifdef __cplusplus
#define FUR_OPERATORS_DECLARE extern "C" FUR_API const struct fur_operators fur_operators
#else
#define FUR_OPERATORS_DECLARE extern FUR_API const struct fur_operators fur_operators
#endif

#ifdef __cplusplus
}
#endif

#endif /* FUR_OPERATOR_H */
