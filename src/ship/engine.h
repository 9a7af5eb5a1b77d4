/* SPDX-License-Identifier: BSD-3-Clause
 *
 * engine.h - what a stream needs of the log that keeps it: a *stream engine*.  docs/stream.md
 * lists what an engine must guarantee.
 *
 * A stream engine is one node's connection to one log.  One thread at a time uses it.
 */
#ifndef FUR_SHIP_ENGINE_H
#define FUR_SHIP_ENGINE_H

#include <fur.h>
#include <stddef.h>
#include <stdint.h>

#define ENGINE_NO_OFFSET UINT64_MAX

struct engine_ack {
	uint64_t handle;
	uint64_t offset; /* ENGINE_NO_OFFSET: the message is in the log, and the engine cannot say
	                  * where */
};

struct stream_engine;
struct stream_engine_ops {
	/* Append a message, which the engine copies, and return without waiting.  Messages of one
	 * engine come into the log in the order of the calls, unless something fails.
	 * Errors: FUR_EBUSY (too much is under way: poll), or the engine's own.  The message may
	 * have been appended all the same. */
	int (*append)(struct stream_engine *e, uint64_t handle, const void *message, size_t bytes);
	/* Get answers to append(), at most `most`: each such message is in the log, as durably as
	 * the engine promises.  Waits up to `patience_ms` for the first.  An answer may never come.
	 * Returns: how many.  Errors: the engine's own. */
	int (*poll)(
	        struct stream_engine *e, struct engine_ack *acks, unsigned most, int patience_ms);
	/* Read the message at `offset`, at most `most` bytes of it; *bytes is its length.  It is as
	 * durable as an answered append.
	 * Returns: 1, or 0 if the log ends there.  Errors: FUR_ERANGE if the log ends below the
	 * offset, or no longer has it; or the engine's own. */
	int (*read)(struct stream_engine *e, uint64_t offset, void *message, size_t most,
	        size_t *bytes);
	/* Get the offset that the next message to be read has.  Errors: the engine's own. */
	int (*end)(struct stream_engine *e, uint64_t *end);
	/* Forget what was appended: poll() does not answer it any more.  It may still come into the
	 * log, at any time.  Errors: the engine's own. */
	int (*restart)(struct stream_engine *e);
	/* The same, and free the engine. */
	void (*close)(struct stream_engine *e);
};

struct stream_engine {
	const struct stream_engine_ops *ops;
};

/* ----------------------------------------------------- engines of other files */

/* An engine that needs another library is a shared object of its own, which libfur loads when a
 * log's name asks for it (engine_open.h).  It exports one function: */
struct engine_host {
	uint32_t version; /* ENGINE_VERSION */
	/* fur_fail(), for the engine's messages. */
	int (*fail)(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
};
enum { ENGINE_VERSION = 1 };

/* What a log is opened for: an engine makes and checks nothing that the caller will not use. */
enum engine_use {
	ENGINE_READ,  /* read() and end() */
	ENGINE_WRITE, /* all */
	ENGINE_MAKE   /* the same, and the log is made, if it is not there */
};

/* stream_engine_open - open the log that `place` names, the part of its name behind "kafka:".
 * `settings`: "KEY=VALUE" texts for the engine's client, up to a NULL.  `host` stays valid.
 * Errors: FUR_EINVAL: the place, a setting, or the log is not as a stream needs it; FUR_ENOENT:
 *         there is no such log; the engine's own.  *engine is NULL then. */
typedef int stream_engine_open_fn(const struct engine_host *host, const char *place,
        enum engine_use use, const char *const *settings, struct stream_engine **engine);
#define STREAM_ENGINE_OPEN "fur_stream_engine_open"

#endif /* FUR_SHIP_ENGINE_H */
