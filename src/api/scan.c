/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scan.c - fur_scan: run a function in a child process, on a copy of the heap as of one instant.
 *
 * Pointers into the heap are absolute, so a copy must lie at the heap's own address, and this
 * process has the heap there.  The child gets the copy there.  Why a copy, and not the pages that
 * fork() would share: docs/decisions/0011-copies-for-long-reads.md.
 *
 * The child takes the memory of the copy, and this process then fills it, because only this process
 * can replay into the copy meanwhile.  So where memory is short, as in a container with a limit,
 * the kernel ends the child and not the program; and the copy's memory is free again at once.
 */
#include "api/heap.h"
#include "base/error.h"
#include "base/event.h"
#include "base/remedy.h"
#include "base/system.h"
#include "replay/backup.h"

#include <fur_scan.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the child reports.  In memory that both processes share; the parent reads it when the child
 * has ended. */
struct report {
	uint32_t stage;  /* enum stage */
	uint32_t staged; /* shared event: `stage` */
	bool ended;      /* the child has come to its end: the rest means something */
	int error, result;
	char message[512];
};

enum stage { TAKES_MEMORY, HAS_MEMORY, IS_FILLED, GIVEN_UP };

struct scan {
	fur_heap *heap;
	int (*run)(fur_heap *copy, void *arg);
	void *arg;
	struct report *report;
	struct heap_file copy;
	pid_t parent;
};

/* ------------------------------------------------------------------ child */

/* Of all processes, the kernel shall end this one if memory is short. */
static void offer_to_die(void)
{
	const int fd = system_open("/proc/self/oom_score_adj", O_WRONLY, 0);
	if (fd < 0)
		return; /* /proc is not mounted: then the kernel chooses */
	system_print(fd, "1000");
	close(fd);
}

static void set_stage(struct report *report, enum stage stage)
{
	/* Release: orders what this process has written before the stage that tells of it. */
	arch_store32_release(&report->stage, stage);
	event_wake_all_shared(&report->staged);
}

/* Is this still the stage?  If so, sleep until it changes, for `ns` at most; 0: without limit. */
static bool stage_lasts(struct report *report, enum stage stage, uint64_t ns)
{
	const uint32_t ticket = event_prepare_shared(&report->staged);
	if (arch_load32_acquire(&report->stage) != stage) /* INV-EV1 */
		return false;
	event_wait_shared(&report->staged, ticket, ns);
	return true;
}

/* Take the memory, and wait until it is filled. */
static void take_memory(struct scan *scan)
{
	struct report *report = scan->report;
	offer_to_die();
	report->error = heap_fill_memory_copy(&scan->heap->file, &scan->copy);
	if (report->error) {
		snprintf(report->message, sizeof report->message, "%s", fur_errormsg());
		report->ended = true;
	}
	set_stage(report, HAS_MEMORY);
	if (report->error)
		_exit(0);
	while (stage_lasts(report, HAS_MEMORY, 0))
		continue;
	if (arch_load32_acquire(&report->stage) == GIVEN_UP)
		_exit(0);
}

static _Noreturn void child_main(struct scan *scan)
{
	struct report *report = scan->report;
	struct fur_options o;
	fur_heap *copy;
	/* Without this, the scan of a program that was killed would go on, and keep the other heaps
	 * of the program open.  The calling thread waits for us, so its end is the program's. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != scan->parent)
		_exit(1);
	take_memory(scan);
	/* The copy of the heap's handle.  From now on the heap can be opened again when the parent
	 * has ended. */
	report->error = fur_close(scan->heap);
	fur_options_init(&o);
	read_only_options(&o);
	o.reader_report_ns = UINT64_MAX;
	if (!report->error)
		report->error = read_only_open(&scan->copy, &o, &copy);
	if (report->error)
		snprintf(report->message, sizeof report->message, "%s", fur_errormsg());
	else
		report->result = scan->run(copy, scan->arg);
	report->ended = true;
	_exit(0); /* not exit(): what the program has registered for its end is the parent's */
}

/* ------------------------------------------------------------------ parent */

static int fail_ended(int status)
{
	if (WIFSIGNALED(status))
		return fur_fail(FUR_ESYS,
		        "the process of the scan was ended by signal %d before the scan returned: "
		        "mend the scan, or see who sent the signal (out of memory?); the heap is "
		        "as it was",
		        WTERMSIG(status));
	return fur_fail(FUR_ESYS, "the process of the scan ended before the scan returned: let the "
	                          "scan return, and not exit; the heap is as it was");
}

static int wait_for_child(pid_t child, const struct report *report, int *result)
{
	int status = 0;
	/* ECHILD: the program ignores SIGCHLD, or has waited for the child itself.  Either way the
	 * child has ended. */
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	if (!report->ended)
		return fail_ended(status);
	if (report->error)
		return fur_fail(report->error, "%s", report->message);
	*result = report->result;
	return 0;
}

/* Wait until the child has taken the memory.  False: it has ended before. */
static bool child_has_memory(pid_t child, struct report *report, int *status)
{
	enum { LOOK_NS = 20000000 };
	while (stage_lasts(report, TAKES_MEMORY, LOOK_NS)) {
		/* As in wait_for_child(). */
		const pid_t ended = waitpid(child, status, WNOHANG);
		if (ended == child || (ended < 0 && errno == ECHILD))
			return arch_load32_acquire(&report->stage) != TAKES_MEMORY;
	}
	return true;
}

/* Fill the copy, and let the child go on with it, or end. */
static int fill_copy(struct scan *scan, pid_t child, int *status)
{
	fur_heap *heap = scan->heap;
	struct report *report = scan->report;
	if (!child_has_memory(child, report, status)) {
		heap_close_file(&scan->copy);
		return fail_ended(*status);
	}
	int error = report->error;
	if (!error)
		error = read_only_copied(backup_copy(&heap->durability, &heap->file, &scan->copy));
	/* From now on the copy is the child's alone, and the kernel frees it at the child's end. */
	heap_close_file(&scan->copy);
	set_stage(report, error ? GIVEN_UP : IS_FILLED);
	return error;
}

static int fork_scan(struct scan *scan, int *result)
{
	int status = 0;
	scan->parent = getpid();
	pid_t child = heap_fork(scan->heap);
	if (child == 0)
		child_main(scan);
	int error = errno;
	if (child < 0) {
		heap_close_file(&scan->copy);
		return fail_system(error == ENOMEM ? FUR_ENOMEM : FUR_ESYS, CALL_PROCESS, error,
		        NULL, "cannot start a process for the scan");
	}
	error = fill_copy(scan, child, &status);
	if (error && !scan->report->error) {
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			continue;
		return error;
	}
	return wait_for_child(child, scan->report, result);
}

static int run_scan(struct scan *scan, int *result)
{
	fur_heap *heap = scan->heap;
	int error = heap_create_memory_copy(&heap->file, &scan->copy);
	if (error)
		return error;
	scan->report = mmap(NULL, sizeof *scan->report, PROT_READ | PROT_WRITE,
	        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (scan->report == MAP_FAILED) {
		heap_close_file(&scan->copy);
		return fur_fail(FUR_ENOMEM, "no memory for the result of a scan: free some memory");
	}
	error = fork_scan(scan, result);
	munmap(scan->report, sizeof *scan->report);
	return error;
}

FUR_API int fur_scan(fur_heap *heap, int (*scan)(fur_heap *copy, void *arg), void *arg, int *result)
{
	struct scan s = {.heap = heap, .run = scan, .arg = arg};
	int cancel;
	if (!heap || !scan || !result)
		return fur_fail(FUR_EINVAL, "fur_scan: heap, scan and result must not be NULL");
	FUR_CHECK(heaps_have(heap), "the heap is not open");
	if (engine_forked(&heap->engine))
		return tx_refuse(&heap->engine);
	/* The copy waits for updates that are under way, and these may wait for our transaction. */
	if (this_thread()->open)
		return fur_fail(FUR_ENESTED, "fur_scan was called while this thread has a "
		                             "transaction open: end that first");
	/* As in fur_backup(). */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	int error = run_scan(&s, result);
	pthread_setcancelstate(cancel, &cancel);
	return error;
}
