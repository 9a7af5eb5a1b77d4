/* SPDX-License-Identifier: BSD-3-Clause
 *
 * region.h - the files that are persistent memory, and the places where the program has mapped
 * them.
 */
#ifndef PM_EMULATE_REGION_H
#define PM_EMULATE_REGION_H

#include "shared.h"

#include <stdbool.h>
#include <stddef.h>

/* NULL: pm-emulate did not start the program, and nothing is emulated. */
extern struct pme_control *region_control;

/* Find the launcher's memory.  Returns false if there is none. */
bool region_begin(void);

static inline bool region_active(void)
{
	return region_control != NULL;
}

/* Map a part of the launcher's memory.  Returns NULL if there is no memory. */
void *region_map_memory(uint64_t at, uint64_t bytes);
_Noreturn void region_give_up(const char *what);

/* A caller that changes regions or media holds this lock. */
void region_lock(void);
void region_unlock(void);

/* A region as this process sees it.  It may grow, under the lock; pointers into it stay valid. */
struct region_view {
	uint8_t *medium;
	struct pme_line *lines;
	uint64_t bytes;
};
/* A view of at least this many bytes.  The caller holds the lock. */
struct region_view *region_view(uint32_t region, uint64_t bytes);
/* The view of a region that the program has mapped. */
struct region_view *region_view_mapped(uint32_t region);

/* The region of a file, or -1; `make`: create it if need be.  The caller holds the lock. */
int region_of_file(int fd, bool make);
bool region_is_known(int fd);

/* The first place at or after `at` where the file or the medium may have something other than
 * zeros. */
uint64_t region_next_data(int fd, uint32_t region, uint64_t at);

/* A range of the program's memory that maps a file. */
struct region_mapping {
	uintptr_t base;
	uint64_t bytes, offset;
	uint32_t region;
};
const struct region_mapping *region_mapping_at(uintptr_t address);

/* The program has mapped a file, shared and writable.  From now on the file is persistent memory;
 * its content at the first mapping is durable. */
void region_map(void *base, size_t bytes, int fd, uint64_t offset);
/* The program has unmapped [base, base + bytes), or moved it. */
void region_unmap(const void *base, size_t bytes);
void region_move(const void *from, size_t bytes, void *to, size_t new_bytes);

/* Does such a file count as persistent memory?  Is the range persistent memory? */
bool region_wants(int fd);
bool region_is_persistent(const void *base, size_t bytes);

#endif /* PM_EMULATE_REGION_H */
