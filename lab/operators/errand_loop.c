/* SPDX-License-Identifier: BSD-3-Clause
 *
 * errand_loop.c - carry out errands: sleep until a program asks, and exchange batches with the
 * heap's file.
 */
#include "errand_loop.h"
#include "api/attach.h"
#include "base/error.h"
#include "base/remedy.h"
#include "base/system.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct errand_loop {
	struct heap_file file;
	struct durability d;
	struct operators *operators;
	struct errand_serve_calls calls;
	struct errand_server errand;
	uint32_t stopping;
	bool serves; /* programs were told */
};

static bool stops(const struct errand_loop *o)
{
	return arch_load32_acquire(&o->stopping) != 0;
}

/* Exchange a batch with the right to replay.  A replayer that has the right gives it back when its
 * replay ends; errand_loop_stop() comes with a signal, which ends the wait.  False: the errand is
 * over, or `*error` is set. */
static bool exchange(struct errand_loop *o, int *error)
{
	*error = control_take_unless(&o->d, &o->stopping);
	if (*error == FUR_EBUSY) {
		*error = 0;
		return false;
	}
	if (*error)
		return false;
	const bool more = errand_serve_exchange(&o->errand);
	if (control_give_back(&o->d))
		*error = heap_lock_failed(errno);
	return more && !*error;
}

static int carry_out(struct errand_loop *o)
{
	int error = 0;
	while (!stops(o) && exchange(o, &error) && errand_serve_map(&o->errand))
		;
	if (error || stops(o))
		errand_serve_drop(&o->errand);
	else
		errand_serve_end(&o->errand);
	return error;
}

static int file_still_there(const struct errand_loop *o)
{
	struct stat st;
	if (fstat(o->file.fd, &st))
		return fail_system(FUR_ESYS, CALL_STAT, errno, NULL, "cannot stat the heap file");
	if (st.st_nlink == 0)
		return fur_fail(FUR_ENOENT,
		        "the heap file has been removed: nothing is left to map records for");
	if ((uint64_t)st.st_size < o->file.file_bytes)
		return fur_fail(FUR_ECORRUPT,
		        "the heap file has been truncated to %lld bytes: restore it from a copy",
		        (long long)st.st_size);
	return 0;
}

static int work(struct errand_loop *o)
{
	/* The removal of a file wakes no thread. */
	enum { LOOK_NS = 1000000000 };
	struct control_errand *e = errand_in(o->d.control);
	int error = 0;
	while (!error && !stops(o)) {
		/* Before the look: if a program asks in between, the wait returns at once. */
		const uint32_t asked = arch_load32_acquire(&e->asked);
		if (errand_serve_accept(&o->errand)) {
			error = carry_out(o);
		} else if (!stops(o)) {
			arch_futex_wait_shared(&e->asked, asked, LOOK_NS);
			error = file_still_there(o);
		}
	}
	return error;
}

/* An operator has called pthread_exit().  Only this thread answers the program, so the process ends
 * as with abort(): the program sees that it has died, and maps the records. */
static void thread_left(void *unused)
{
	static const char text[] = "fur-operators: an operator has ended its thread: take the "
	                           "pthread_exit() out of the operator\n";
	(void)unused;
	system_print(STDERR_FILENO, text);
	_exit(EXIT_FAILURE);
}

int errand_loop_run(struct errand_loop *o)
{
	int error = operators_on_this_thread(o->operators);
	if (error)
		return error;
	pthread_cleanup_push(thread_left, NULL);
	error = work(o);
	pthread_cleanup_pop(0);
	return error;
}

void errand_loop_stop(struct errand_loop *o)
{
	struct control_errand *e = errand_in(o->d.control);
	arch_store32_release(&o->stopping, 1);
	arch_fetch_add32(&e->asked, 1);
	arch_futex_wake_all_shared(&e->asked);
}

void errand_loop_withdraw(struct errand_loop *o)
{
	errand_serve_start(&o->d, 0);
}

/* ------------------------------------------------------------- start and end */

/* INV-OP6 */
static int take_heap(struct errand_loop *o, int fd, const char *path)
{
	int error = heap_take_file(fd, path, HEAP_LOCK_NONE, &o->file);
	if (error)
		return error;
	error = heap_lock_try(o->file.fd, HEAP_LOCK_LAB);
	if (error == FUR_EBUSY)
		fur_fail(error, "fur-operators serves this heap already: one is enough, stop that "
		                "first");
	if (!error)
		error = heap_attach_to_replay(&o->d, &o->file);
	if (error)
		heap_close_file(&o->file);
	return error;
}

int errand_loop_start(
        int fd, const char *path, const char *const *files, size_t n, struct errand_loop **out)
{
	struct errand_loop *o = calloc(1, sizeof *o);
	*out = NULL;
	if (!o) {
		close(fd);
		return fur_fail(FUR_ENOMEM, "no memory for fur-operators: free some memory");
	}
	int error = take_heap(o, fd, path);
	if (error) {
		free(o);
		return error;
	}
	o->d.replays_for_worker = true;
	error = operators_load(files, n, &o->operators);
	if (error) {
		errand_loop_end(o);
		return error;
	}
	o->calls = operators_calls(o->operators);
	o->errand = (struct errand_server){.d = &o->d, .calls = &o->calls};
	errand_serve_start(&o->d, (uint64_t)getpid());
	o->serves = true;
	*out = o;
	return 0;
}

void errand_loop_end(struct errand_loop *o)
{
	if (o->serves)
		errand_loop_withdraw(o);
	operators_unload(o->operators);
	durability_detach(&o->d);
	heap_close_file(&o->file);
	free(o);
}

bool errand_loop_maps(const struct errand_loop *o, const void *address)
{
	const uintptr_t at = (uintptr_t)address, from = (uintptr_t)o->file.super;
	return at >= from && at - from < o->file.file_bytes;
}

/* ------------------------------------------------------------------ status */

static void print_request(const char *path, const struct control_errand *e, bool served)
{
	char name[sizeof e->name];
	const enum errand_state state = errand_state(arch_load_acquire(&e->request));
	memcpy(name, e->name, sizeof name);
	name[sizeof name - 1] = 0;
	if (!served)
		printf("%s: no fur-operators\n", path);
	else
		printf("%s: served by process %" PRIu64 "\n", path, arch_load(&e->operators_pid));
	if (state == ERRAND_ASKED)
		printf("operator '%s' is asked for, and has not begun\n", name);
	else if (state == ERRAND_RUNS)
		printf("operator '%s' has mapped %" PRIu64 " of %" PRIu64 " records\n", name,
		        arch_load(&e->done), arch_load(&e->records));
}

int errand_loop_print(int fd, const char *path)
{
	struct heap_file file;
	int error = heap_take_file(fd, path, HEAP_LOCK_NONE, &file);
	if (error)
		return error;
	const struct media_file view = media_file_of(&file.geometry, file.super);
	struct control *c = (struct control *)media_at(&view, file.geometry.control_offset);
	const int served = heap_lock_held(file.fd, HEAP_LOCK_LAB);
	if (served >= 0)
		print_request(path, errand_in(c), served > 0);
	heap_close_file(&file);
	return served < 0 ? served : 0;
}
