/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shadow.h - what the program's calls do to the media (shared.h), what they cost, and when the
 * power fails.  The library's inside; the names the program calls are in preload.c.
 */
#ifndef PM_EMULATE_SHADOW_H
#define PM_EMULATE_SHADOW_H

#include <stddef.h>
#include <stdint.h>

/* Write-backs of the range begin; they are durable when a fence of this thread has returned. */
void shadow_flush(const void *start, size_t bytes);
void shadow_fence(void);
/* The range, or all of the file, is durable now. */
void shadow_sync_range(const void *start, size_t bytes);
void shadow_sync_file(int fd);

/* A call has read the range: charge what of it the modelled cache does not have. */
void shadow_read(const void *start, size_t bytes);

#endif /* PM_EMULATE_SHADOW_H */
