/* SPDX-License-Identifier: BSD-3-Clause
 *
 * engine_open.c - see engine_open.h.
 */
#include "ship/engine_open.h"
#include "base/error.h"
#include "ship/engine_file.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

static const char FILE_PREFIX[] = "file:", KAFKA_PREFIX[] = "kafka:";
static const char KAFKA_LIBRARY[] = "libfur-kafka.so.0";

/* What `name` has behind the prefix; NULL: it has another one. */
static const char *behind(const char *name, const char *prefix)
{
	const size_t n = strlen(prefix);
	return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

static int open_file(const char *path, enum engine_use use, const char *const *settings,
        struct stream_engine **engine)
{
	/* Programs that are started elsewhere must find it. */
	if (*path != '/')
		return fur_fail(FUR_EINVAL,
		        "the shipping log file:%s: use an absolute path: file:/PATH", path);
	if (settings && *settings)
		return fur_fail(FUR_EINVAL,
		        "%s: a shipping log in a file has no settings: leave it out", *settings);
	if (use != ENGINE_MAKE && access(path, F_OK))
		return fur_fail(FUR_ENOENT,
		        "there is no shipping log %s: see whether its path is right", path);
	return engine_file_open(path, engine);
}

/* The object stays loaded: threads of its library may run longer than the engine. */
static int open_kafka(const char *place, enum engine_use use, const char *const *settings,
        struct stream_engine **engine)
{
	static const struct engine_host host = {ENGINE_VERSION, fur_fail};
	void *const library = dlopen(KAFKA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	stream_engine_open_fn *begin = NULL;
	if (!library)
		return fur_fail(FUR_ENOENT,
		        "cannot load the engine for Apache Kafka: %s: install the package "
		        "libfur-kafka0",
		        dlerror());
	*(void **)&begin = dlsym(library, STREAM_ENGINE_OPEN);
	if (!begin)
		return fur_fail(FUR_EVERSION,
		        "%s is no stream engine of this library: install the package libfur-kafka0 "
		        "of the same version",
		        KAFKA_LIBRARY);
	return begin(&host, place, use, settings, engine);
}

int engine_open(const char *name, enum engine_use use, const char *const *settings,
        struct stream_engine **engine)
{
	const char *place;
	*engine = NULL;
	if ((place = behind(name, FILE_PREFIX)))
		return open_file(place, use, settings, engine);
	if ((place = behind(name, KAFKA_PREFIX)))
		return open_kafka(place, use, settings, engine);
	return fur_fail(FUR_EINVAL,
	        "the shipping log '%s' is of no kind that libfur knows: use "
	        "kafka:HOST:PORT[,HOST:PORT...]/TOPIC or file:PATH",
	        name);
}

bool engine_error_is_final(int error)
{
	switch (error) {
	case FUR_EINVAL:   /* the log's name, a setting or the topic; or the heap's role */
	case FUR_EVERSION: /* the engine's library, or a frame: of a version not known here */
	case FUR_ENOTHEAP: /* the file is no log */
	case FUR_ECORRUPT: /* the log is not what it was, or the heap is damaged */
	case FUR_ETOOBIG:  /* the standby's logs are too short for an update */
	case FUR_EBUSY:    /* another follower has applied updates to this heap */
	case FUR_EFORK:    /* the caller is a child of fork(), with a copy of the heap */
	case FUR_ETHREADS: /* the heap has no place for the follower's thread */ return true;
	default: return false;
	}
}
