/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shadow.h - what the program's calls do to the media (shared.h), what they cost, and when the power fails.  The library's inside; the
 * names the program calls are in preload.c.
 */
#ifndef PM_EMULATE_SHADOW_H
#define PM_EMULATE_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Is the library at work, that is, was the program started by pm-emulate? */
bool shadow_active(void);

/* A file has been mapped shared, for writing: from now on it is persistent memory.  Its content at the first mapping is durable. */
void shadow_map(void *base, size_t bytes, int fd, uint64_t offset);
/* [base, base + bytes) is mapped no more, or moved. */
void shadow_unmap(const void *base, size_t bytes);
void shadow_move(const void *from, size_t bytes, void *to, size_t new_bytes);

/* Is a file like this one persistent memory? */
bool shadow_wants(int fd);
bool shadow_is_persistent(const void *base, size_t bytes);

/* Write-backs of the range begin; they are durable when a fence of this thread has returned. */
void shadow_flush(const void *start, size_t bytes);
void shadow_fence(void);
/* The range, or all of the file, is durable now. */
void shadow_sync_range(const void *start, size_t bytes);
void shadow_sync_file(int fd);

/* A call has read the range: charge what of it the modelled cache does not have. */
void shadow_read(const void *start, size_t bytes);

#endif /* PM_EMULATE_SHADOW_H */
