/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmemobj.c - see pmemobj.h.  The example's files come from the package libpmemobj-dev.
 */
#include "pmemobj.h"

#include <hashmap_tx.h>
#include <libpmemobj.h>
#include <stdlib.h>
#include <string.h>

POBJ_LAYOUT_BEGIN(containers);
POBJ_LAYOUT_ROOT(containers, struct root);
POBJ_LAYOUT_END(containers);
struct root {
	TOID(struct hashmap_tx) map;
};

struct pmemobj_map {
	PMEMobjpool *pool;
	TOID(struct hashmap_tx) map;
};

const char *pmemobj_map_create(const char *path, size_t pool_bytes, struct pmemobj_map **map)
{
	/* As libfur's domain `emulated`: cache lines are written back, nothing is synced. */
	setenv("PMEM_IS_PMEM_FORCE", "1", 1);
	PMEMobjpool *pool = pmemobj_create(path, POBJ_LAYOUT_NAME(containers), pool_bytes, 0600);
	if (!pool)
		return pmemobj_errormsg();
	TOID(struct root) root = POBJ_ROOT(pool, struct root);
	if (hm_tx_create(pool, &D_RW(root)->map, NULL)) {
		pmemobj_close(pool);
		return pmemobj_errormsg();
	}
	struct pmemobj_map *made = malloc(sizeof *made);
	if (!made)
		abort();
	*made = (struct pmemobj_map){pool, D_RO(root)->map};
	*map = made;
	return NULL;
}

void pmemobj_map_close(struct pmemobj_map *map)
{
	pmemobj_close(map->pool);
	free(map);
}

const char *pmemobj_map_put(struct pmemobj_map *map, uint64_t key, const void *value, size_t bytes)
{
	const char *volatile wrong = NULL;
	PMEMoid there = hm_tx_get(map->pool, map->map, key);
	TX_BEGIN(map->pool)
	{
		if (OID_IS_NULL(there)) {
			PMEMoid made = pmemobj_tx_alloc(bytes, 1);
			memcpy(pmemobj_direct(made), value, bytes);
			if (hm_tx_insert(map->pool, map->map, key, made))
				pmemobj_tx_abort(-1);
		} else {
			pmemobj_tx_add_range(there, 0, bytes);
			memcpy(pmemobj_direct(there), value, bytes);
		}
	}
	TX_ONABORT
	{
		wrong = pmemobj_errormsg();
	}
	TX_END
	return wrong;
}

const char *pmemobj_map_get(struct pmemobj_map *map, uint64_t key, void *value, size_t bytes)
{
	PMEMoid there = hm_tx_get(map->pool, map->map, key);
	if (OID_IS_NULL(there))
		return "there is no such key";
	memcpy(value, pmemobj_direct(there), bytes);
	return NULL;
}
