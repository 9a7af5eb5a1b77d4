/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bulk_operators.c - the operator of bench/bulk --by replayer and replayer-each.
 */
#include <fur_operator.h>

/* Add *arg to all words. */
static bool add(void *copy, size_t bytes, uint64_t number, void *arg)
{
	uint64_t *word = copy;
	(void)number;
	for (size_t k = 0; k < bytes / 8; k++)
		word[k] += *(const uint64_t *)arg;
	return true;
}

static const struct fur_operator all[] = {{"add", add}};
FUR_OPERATORS(all)
