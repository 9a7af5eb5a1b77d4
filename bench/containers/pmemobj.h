/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmemobj.h - the hash map of libpmemobj's examples (hashmap_tx), with values of `bytes` bytes.
 * For one thread: the example has no locks.  Functions return NULL, or a message.
 */
#ifndef CONTAINERS_PMEMOBJ_H
#define CONTAINERS_PMEMOBJ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pmemobj_map;

const char *pmemobj_map_create(const char *path, size_t pool_bytes, struct pmemobj_map **map);
void pmemobj_map_close(struct pmemobj_map *map);
/* In one transaction; durable afterwards. */
const char *pmemobj_map_put(struct pmemobj_map *map, uint64_t key, const void *value, size_t bytes);
const char *pmemobj_map_get(struct pmemobj_map *map, uint64_t key, void *value, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* CONTAINERS_PMEMOBJ_H */
