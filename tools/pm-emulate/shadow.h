/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shadow.h - how the program's calls change the media (shared.h), the time that they take, and the
 * instant at which the power fails.  The functions that the program calls are in preload.c; they
 * call these.
 */
#ifndef PM_EMULATE_SHADOW_H
#define PM_EMULATE_SHADOW_H

#include <stddef.h>
#include <stdint.h>

/* Begin the write-backs of the range. They are durable when a fence of this thread has returned. */
void shadow_flush(const void *start, size_t bytes);
void shadow_fence(void);
/* Make the range, or the whole file, durable now. */
void shadow_sync_range(const void *start, size_t bytes);
void shadow_sync_file(int fd);

/* A call has read the range: charge it for the lines that the modelled cache does not have. */
void shadow_read(const void *start, size_t bytes);

#endif /* PM_EMULATE_SHADOW_H */
