/* SPDX-License-Identifier: BSD-3-Clause
 *
 * engine_open.h - open a shipping log by its name.
 */
#ifndef FUR_SHIP_ENGINE_OPEN_H
#define FUR_SHIP_ENGINE_OPEN_H

#include "ship/engine.h"

#include <stdbool.h>

/* engine_open - open the log `name`:
 *
 *     file:PATH                        a file on this machine, for tests (engine_file.h)
 *     kafka:HOST:PORT[,...]/TOPIC      a topic of Apache Kafka (libfur-kafka.so.0)
 *
 * The other arguments are as in stream_engine_open_fn.
 * Errors:  FUR_EINVAL: no such name, or a setting that the engine does not have; FUR_ENOENT: the
 *          log, or the engine's shared object, is not there; the engine's own.  *engine is NULL
 *          then. */
FUR_MUST_USE int engine_open(const char *name, enum engine_use use, const char *const *settings,
        struct stream_engine **engine);

/* engine_error_is_final - does an error end those who ship to a log, follow it, or claim it?  All
 * others are tried again without end: a log that is away, refuses this client, or is not made yet
 * comes without a restart here, and so do memory and room on the disk.  See the list. */
bool engine_error_is_final(int error);

#endif /* FUR_SHIP_ENGINE_OPEN_H */
