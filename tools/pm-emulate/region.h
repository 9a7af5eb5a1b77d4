/* SPDX-License-Identifier: BSD-3-Clause
 *
 * region.h - files that are persistent memory, and where the program has them mapped.
 */
#ifndef PM_EMULATE_REGION_H
#define PM_EMULATE_REGION_H

#include "shared.h"

#include <stdbool.h>
#include <stddef.h>

/* Null: the program was not started by pm-emulate, and nothing is emulated. */
extern struct pme_control *region_control;

/* Find the launcher's memory; false if there is none. */
bool region_begin(void);

static inline bool region_active(void)
{
	return region_control != NULL;
}

/* A part of the launcher's memory; null: no memory. */
void *region_map_memory(uint64_t at, uint64_t bytes);
_Noreturn void region_give_up(const char *what);

/* Around changes of regions and media. */
void region_lock(void);
void region_unlock(void);

/* A region as this process sees it.  It may become longer, under the lock; pointers into it stay
 * valid. */
struct region_view {
	uint8_t *medium;
	struct pme_line *lines;
	uint64_t bytes;
};
/* At least so much of it; under the lock */
struct region_view *region_view(uint32_t region, uint64_t bytes);
/* Of what the program has mapped */
struct region_view *region_view_mapped(uint32_t region);

/* The region of a file, made if need be, or -1; under the lock. */
int region_of_file(int fd, bool make);
bool region_is_known(int fd);

/* Where file or medium may have something other than zeroes, at or after `at`. */
uint64_t region_next_data(int fd, uint32_t region, uint64_t at);

/* A range of the program's memory that is a file's. */
struct region_mapping {
	uintptr_t base;
	uint64_t bytes, offset;
	uint32_t region;
};
const struct region_mapping *region_mapping_at(uintptr_t address);

/* A file has been mapped shared, for writing: from now on it is persistent memory.  Its content at
 * the first mapping is durable. */
void region_map(void *base, size_t bytes, int fd, uint64_t offset);
/* [base, base + bytes) is mapped no more, or moved. */
void region_unmap(const void *base, size_t bytes);
void region_move(const void *from, size_t bytes, void *to, size_t new_bytes);

/* Is a file like this one persistent memory?  Is the range? */
bool region_wants(int fd);
bool region_is_persistent(const void *base, size_t bytes);

#endif /* PM_EMULATE_REGION_H */
