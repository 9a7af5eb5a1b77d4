/* SPDX-License-Identifier: BSD-3-Clause
 *
 * engine_file.h - a stream engine whose log is a file on this machine.
 *
 * For tests, and for followers on the same machine; it replicates nothing.  Any number of processes
 * may append to the file and read it: an append holds a lock on the file for a moment.
 *
 *      { head: offset, length, check | message | zeros up to a multiple of 16 } ...
 *
 *   INV-SH19  What read() returns, and what poll() answers, is durable, and so is all that stands
 *             before it: a failure of power takes neither from those who have seen it.
 *   INV-SH20  Messages do not mix.  A message that is not whole, because the process that wrote it
 *             died, or the machine, ends the log; the next append or opening cuts it off.
 */
#ifndef FUR_SHIP_ENGINE_FILE_H
#define FUR_SHIP_ENGINE_FILE_H

#include "ship/engine.h"

/* engine_file_open - open the log at `path`; make it, if it is not there.
 * Durable: the file's name, before return.
 * Errors: FUR_ENOTHEAP if the file is no such log; FUR_ENOMEM; FUR_ENOSPC; FUR_ESYS; FUR_EIO.
 * *engine is NULL then. */
FUR_MUST_USE int engine_file_open(const char *path, struct stream_engine **engine);

/* engine_file_check - is there such a log?  Without its locks, which another file may have, and
 * without a store.  Errors: FUR_ENOENT, FUR_ENOTHEAP, FUR_ESYS. */
FUR_MUST_USE int engine_file_check(const char *path);

/* Errors of its functions: FUR_ENOSPC; FUR_ESYS; FUR_EIO after a failed sync, then and for ever. */

#endif /* FUR_SHIP_ENGINE_FILE_H */
