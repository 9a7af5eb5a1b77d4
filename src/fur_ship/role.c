/* SPDX-License-Identifier: BSD-3-Clause
 *
 * role.c - see role.h.
 */
#include "fur_ship/role.h"
#include "api/attach.h"
#include "base/error.h"
#include "ship/drive.h"
#include "ship/engine_open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

const char *role_name(uint32_t role)
{
	return role == MEDIA_PRIMARY ? "primary" : role == MEDIA_STANDBY ? "standby" : "no role";
}

/* Take the file for a change of its role: no program works on it, and none that keeps the role in
 * its memory serves it. */
static int take_file(int fd, const char *path, struct heap_file *file, struct media_ship *page)
{
	int error = heap_take_file(fd, path, HEAP_LOCK_WORKER, file);
	if (error)
		return error;
	error = heap_lock_file(file->fd, HEAP_LOCK_REPLAYER);
	if (!error)
		error = heap_lock_file(file->fd, HEAP_LOCK_SHIP);
	if (!error)
		error = heap_read_ship_page(&file->geometry, file->super, page);
	if (error)
		heap_close_file(file);
	return error;
}

static struct control *control_of(const struct heap_file *file)
{
	const struct media_file view = media_file_of(&file->geometry, file->super);
	return media_control(&view);
}

/* A file that was copied while a program opened the heap may say that it is closed. */
static int check_closed(const struct heap_file *file)
{
	struct durability d;
	int error = heap_attach_to_replay(&d, file);
	if (error)
		return error;
	error = replay_check_closed(&d);
	durability_detach(&d);
	return error;
}

/* --------------------------------------------------------------------- init */

/* Another stream of this heap, older than it, would be taken for the heap's own. */
static int check_log(const struct heap_file *file, struct stream_engine *engine, const char *log)
{
	struct stream stream;
	struct frame frame;
	enum stream_judgement judgement = STREAM_FOREIGN;
	uint8_t *room = malloc(FRAME_MOST_BYTES);
	int n = 1;
	if (!room)
		return fur_fail(FUR_ENOMEM, "no memory for a frame: free some memory");
	stream_init(&stream, file->geometry.uuid, NULL);
	while (n == 1 && stream_is_void(judgement))
		n = drive_read(engine, &stream, room, &frame, &judgement);
	free(room);
	if (n == 1)
		return fur_fail(FUR_EEXIST,
		        "the shipping log %s has a stream of this heap already, or an end of one: "
		        "use a new log, or let the heap follow that stream, with fur-standby",
		        log);
	return n;
}

/* An engine would wait for the heap's locks. */
static int check_place(const struct heap_file *file, const char *log)
{
	static const char prefix[] = "file:";
	struct stat heap, other;
	if (strncmp(log, prefix, strlen(prefix)) || stat(log + strlen(prefix), &other) ||
	        fstat(file->fd, &heap))
		return 0;
	return heap.st_dev != other.st_dev || heap.st_ino != other.st_ino
	               ? 0
	               : fur_fail(FUR_EINVAL,
	                         "%s is the heap itself: name another file for the log", log);
}

static int open_new_log(const struct heap_file *file, const char *log, const char *const *settings)
{
	struct stream_engine *engine;
	int error = check_place(file, log);
	if (!error)
		error = engine_open(log, ENGINE_MAKE, settings, &engine);
	if (error)
		return error;
	error = check_log(file, engine, log);
	engine->ops->close(engine);
	return error;
}

/* The beginning of the log, before the first frame. */
static int beginning(const char *log, struct media_ship *page)
{
	*page = (struct media_ship){.role = MEDIA_PRIMARY, .offset = STREAM_NO_OFFSET};
	if (strlen(log) >= sizeof page->log)
		return fur_fail(FUR_EINVAL, "the log's name has %zu bytes: %zu at most",
		        strlen(log), sizeof page->log - 1);
	snprintf(page->log, sizeof page->log, "%s", log);
	while (!page->node)
		if (getrandom(&page->node, sizeof page->node, 0) != sizeof page->node)
			return fur_fail(FUR_ESYS, "no random number for the node: try again");
	return 0;
}

static int init_file(struct heap_file *file, const char *log, const char *const *settings,
        struct media_ship *page)
{
	if (page->role != MEDIA_NO_ROLE)
		return fur_fail(FUR_EEXIST, "the heap is a %s already, with the log %s: %s",
		        role_name(page->role), page->log,
		        page->role == MEDIA_PRIMARY
		                ? "start fur-ship HEAP, or take its role away, with --detach"
		                : "promote it, with fur-standby, or take its role away, with "
		                  "--detach");
	int error = heap_check_role(file, MEDIA_PRIMARY);
	if (!error)
		error = check_closed(file);
	if (!error)
		error = beginning(log, page);
	if (!error)
		error = open_new_log(file, log, settings);
	if (error)
		return error;
	/* A fence of an earlier life as a primary is over. */
	arch_store32(&control_of(file)->ship.state, CONTROL_SHIPS_NOT);
	return heap_write_ship_page(file, page);
}

int role_init(int fd, const char *path, const char *log, const char *const *settings,
        struct media_ship *page)
{
	struct heap_file file;
	int error = take_file(fd, path, &file, page);
	if (error)
		return error;
	error = init_file(&file, log, settings, page);
	heap_close_file(&file);
	return error;
}

/* ------------------------------------------------------------------- detach */

static int detach_file(struct heap_file *file, const struct media_ship *page)
{
	struct media_ship none = {.offset = STREAM_NO_OFFSET};
	if (page->role == MEDIA_NO_ROLE)
		return fur_fail(FUR_EINVAL, "the heap has no role: there is nothing to detach");
	if (file->super->state != MEDIA_CLOSED)
		return fur_fail(FUR_EBUSY, "the heap was not closed: recover it first, with %s",
		        page->role == MEDIA_STANDBY ? "fur-replayer --once HEAP"
		        : control_fenced(control_of(file))
		                ? "fur-standby HEAP: another node has taken its place"
		                : "fur-ship HEAP");
	const int error = check_closed(file);
	return error ? error : heap_write_ship_page(file, &none);
}

int role_detach(int fd, const char *path, struct media_ship *page)
{
	struct heap_file file;
	int error = take_file(fd, path, &file, page);
	if (error)
		return error;
	error = detach_file(&file, page);
	heap_close_file(&file);
	return error;
}
