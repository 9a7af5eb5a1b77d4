/* SPDX-License-Identifier: BSD-3-Clause
 *
 * role.c - see role.h.
 */
#include "fur_standby/role.h"
#include "api/attach.h"
#include "base/error.h"
#include "base/system.h"
#include "ship/engine_open.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------- prepare */

/* Leaves *rejoined false if no other node has replaced the primary. */
static int rejoin(struct heap_file *file, const char *const *settings, const char *lost,
        struct media_ship *page, bool *rejoined, struct rejoin_result *result)
{
	struct stream_engine *engine;
	struct durability d;
	int error = engine_open(page->log, ENGINE_READ, settings, &engine);
	if (error)
		return error;
	error = heap_attach_to_replay(&d, file);
	if (!error) {
		error = ship_rejoin(file, &d, engine, lost, result);
		*rejoined = !error;
		if (error == FUR_EINVAL)
			error = 0;
		durability_detach(&d);
	}
	engine->ops->close(engine);
	return error ? error : heap_read_ship_page(&file->geometry, file->super, page);
}

/* No program that serves the heap takes it for a primary still. */
static int lock_role(const struct heap_file *file)
{
	const int error = heap_lock_file(file->fd, HEAP_LOCK_REPLAYER);
	return error ? error : heap_lock_file(file->fd, HEAP_LOCK_SHIP);
}

static int prepare(struct heap_file *file, const char *const *settings, const char *lost,
        struct media_ship *page, bool *rejoined, struct rejoin_result *result)
{
	int error = heap_read_ship_page(&file->geometry, file->super, page);
	if (error || page->role == MEDIA_STANDBY)
		return error;
	if (page->role != MEDIA_PRIMARY && media_is_member(&file->geometry))
		return heap_check_role(file, MEDIA_STANDBY);
	if (page->role != MEDIA_PRIMARY)
		return fur_fail(FUR_EINVAL,
		        "the heap has no role: a standby begins as a copy of its "
		        "primary, made by fur-copy --for-standby");
	error = lock_role(file);
	return error ? error : rejoin(file, settings, lost, page, rejoined, result);
}

int role_prepare(const char *path, const char *const *settings, const char *lost,
        struct media_ship *page, bool *rejoined, struct rejoin_result *result)
{
	struct heap_file file;
	*rejoined = false;
	int error = heap_open_file(path, HEAP_LOCK_WORKER, &file);
	if (error)
		return error;
	error = prepare(&file, settings, lost, page, rejoined, result);
	heap_close_file(&file);
	return error;
}

/* ------------------------------------------------------------------- promote */

enum { LOOK_US = 20000 };

static int read_role(const struct heap_file *file, struct media_ship *page)
{
	const int error = heap_read_ship_page(&file->geometry, file->super, page);
	if (!error && page->role == MEDIA_NO_ROLE)
		return fur_fail(FUR_EINVAL, "the heap is no standby, so it cannot be promoted");
	return error;
}

/* The signal would end another program. */
static bool is_standby_program(pid_t pid)
{
	char path[64], name[32] = "";
	snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
	const int fd = system_open(path, O_RDONLY, 0);
	if (fd < 0)
		return false;
	const ssize_t n = system_read(fd, name, sizeof name - 1, 0);
	close(fd);
	return n > 0 && strcmp(name, "fur-standby\n") == 0;
}

static int signal_program(const struct heap_file *file)
{
	const struct media_file view = media_file_of(&file->geometry, file->super);
	const struct control *c = media_control(&view);
	const int held = heap_lock_held(file->fd, HEAP_LOCK_WORKING);
	const pid_t pid = (pid_t)arch_load(&c->worker_pid);
	if (held < 0)
		return held;
	if (!held || !pid || !is_standby_program(pid) || kill(pid, SIGUSR1))
		return fur_fail(FUR_EBUSY,
		        "no fur-standby of this machine has the heap open, and can "
		        "be asked: start fur-standby HEAP first");
	return 0;
}

static int await_promotion(const struct heap_file *file, unsigned patience_ms)
{
	struct media_ship page;
	for (uint64_t us = 0; us < UINT64_C(1000) * patience_ms; us += LOOK_US) {
		int error = read_role(file, &page);
		if (error || page.role == MEDIA_PRIMARY)
			return error;
		error = heap_lock_held(file->fd, HEAP_LOCK_WORKING);
		if (error < 0)
			return error;
		if (error == 0) {
			/* It has ended: perhaps as the primary, since we looked. */
			error = read_role(file, &page);
			if (error || page.role == MEDIA_PRIMARY)
				return error;
			break;
		}
		usleep(LOOK_US);
	}
	return fur_fail(FUR_EBEHIND,
	        "the heap has not taken over: see what its fur-standby says, and "
	        "try again");
}

static int promote(const struct heap_file *file, unsigned patience_ms)
{
	struct media_ship page;
	int error = read_role(file, &page);
	if (error)
		return error;
	if (page.role == MEDIA_PRIMARY)
		return fur_fail(FUR_EINVAL, "the heap is a primary already");
	error = signal_program(file);
	return error ? error : await_promotion(file, patience_ms);
}

int role_promote(const char *path, unsigned patience_ms)
{
	struct heap_file file;
	int error = heap_open_file(path, HEAP_LOCK_NONE, &file);
	if (error)
		return error;
	error = promote(&file, patience_ms);
	heap_close_file(&file);
	return error;
}
