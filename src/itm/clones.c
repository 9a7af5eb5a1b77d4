/* SPDX-License-Identifier: BSD-3-Clause
 *
 * clones.c - from a function to its transactional clone, for calls through pointers.  Each object
 * file of the program brings a table, in the order of its functions.
 */
#include "itm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct clone {
	void *function, *clone;
};
struct table {
	struct table *next;
	const void *key; /* the object's own table */
	size_t n;
	struct clone clones[]; /* sorted by function */
};

static struct table *tables;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

FUR_API void _ITM_registerTMCloneTable(void *table, size_t n);
FUR_API void _ITM_deregisterTMCloneTable(void *table);
FUR_API void *_ITM_getTMCloneSafe(void *function);
FUR_API void *_ITM_getTMCloneOrIrrevocable(void *function);

static int compare(const void *a, const void *b)
{
	uintptr_t f = (uintptr_t)((const struct clone *)a)->function,
	          g = (uintptr_t)((const struct clone *)b)->function;
	return (f > g) - (f < g);
}

/* The dynamic linker calls it, when it loads an object. */
void _ITM_registerTMCloneTable(void *table, size_t n)
{
	struct table *added = malloc(sizeof *added + n * sizeof(struct clone));
	if (!added)
		itm_fail(FUR_ENOMEM, "no memory for a table of transactional functions");
	added->key = table;
	added->n = n;
	memcpy(added->clones, table, n * sizeof(struct clone));
	qsort(added->clones, n, sizeof(struct clone), compare);
	pthread_rwlock_wrlock(&lock);
	added->next = tables;
	tables = added;
	pthread_rwlock_unlock(&lock);
}

void _ITM_deregisterTMCloneTable(void *table)
{
	pthread_rwlock_wrlock(&lock);
	struct table **at = &tables;
	while (*at && (*at)->key != table)
		at = &(*at)->next;
	struct table *gone = *at;
	if (gone)
		*at = gone->next;
	pthread_rwlock_unlock(&lock);
	free(gone);
}

/* Returns: NULL if there is none. */
static void *find_clone(void *function)
{
	struct clone key = {.function = function}, *found = NULL;
	pthread_rwlock_rdlock(&lock);
	for (const struct table *t = tables; t && !found; t = t->next)
		found = bsearch(&key, t->clones, t->n, sizeof key, compare);
	void *clone = found ? found->clone : NULL;
	pthread_rwlock_unlock(&lock);
	return clone;
}

void *_ITM_getTMCloneSafe(void *function)
{
	void *clone = find_clone(function);
	if (!clone)
		itm_fail(FUR_EINVAL,
		        "an atomic transaction called a function through a pointer, and the "
		        "function has no transactional clone: declare it transaction_safe where it "
		        "is defined, and compile it with -fgnu-tm");
	return clone;
}

void *_ITM_getTMCloneOrIrrevocable(void *function)
{
	void *clone = find_clone(function);
	if (clone)
		return clone;
	itm_become_irrevocable(itm_inside("_ITM_getTMCloneOrIrrevocable"));
	return function;
}
