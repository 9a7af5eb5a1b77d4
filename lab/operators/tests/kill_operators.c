/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kill_operators.c - the operators of kill_operators_test.cpp, and of kill_test.cpp.
 */
#include <fur_operator.h>

#include <stdlib.h>

/* Add to all words; abort the process at the record `arg->dies_at`. */
static bool add_words(void *copy, size_t bytes, uint64_t number, void *arg)
{
	const uint64_t *add_and_dies_at = arg;
	uint64_t *word = copy;
	if (number == add_and_dies_at[1])
		abort();
	for (size_t k = 0; k < bytes / 8; k++)
		word[k] += add_and_dies_at[0];
	return true;
}

/* As crash::set_round() of workload.hpp. */
static bool set_round(void *copy, size_t bytes, uint64_t number, void *arg)
{
	uint64_t *word = copy;
	(void)bytes, (void)number;
	*word = *(const uint64_t *)arg << 32 | (*word & UINT32_MAX);
	return true;
}

static const struct fur_operator all[] = {{"add_words", add_words}, {"set_round", set_round}};
FUR_OPERATORS(all)
