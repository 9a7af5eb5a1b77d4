/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_heap.c - opening and closing heaps: the parts, put together in the order that keeps a refused
 * file untouched (INV-F1).
 */
#include "fur_heap.h"
#include "fur_error.h"
#include "fur_struct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------- environment */

static int from_environment(const char *name, const char *const *words, int n, int *value)
{
	const char *word = getenv(name);
	if (!word || !*word)
		return 0;
	for (int k = 0; k < n; k++)
		if (!strcmp(word, words[k])) {
			*value = k;
			return 0;
		}
	return fur_fail(FUR_EINVAL, "%s=%s in the environment: use %s, %s, %s, %s%s%s", name, word,
	        words[0], words[1], words[2], words[3], n > 4 ? ", " : "", n > 4 ? words[4] : "");
}

static const char *const htm_names[] = {"auto", "none", "tsx", "power"};
static const char *const pm_names[] = {"auto", "pmem", "eadr", "emulated", "sync"};

/* All that the environment can change. */
static int read_environment(struct fur_options *o)
{
	int htm = (int)o->htm, pm = (int)o->pm;
	int error = from_environment("FUR_HTM", htm_names, 4, &htm);
	if (!error)
		error = from_environment("FUR_PM", pm_names, 5, &pm);
	o->htm = (enum fur_htm)htm;
	o->pm = (enum fur_pm)pm;
	return error;
}

/* ----------------------------------------------------------------- options */

static int complete_options(const struct fur_options *given, struct fur_options *o)
{
	const struct fur_struct theirs = {
	        "fur_options", (void *)(uintptr_t)given, FUR_OPTIONS_LEAST_BYTES};
	fur_options_init(o);
	int error = given ? fur_struct_take(&theirs, o, sizeof *o) : 0;
	if (error)
		return error;
	if ((unsigned)o->isolation > FUR_SNAPSHOT || (unsigned)o->htm > FUR_HTM_POWER ||
	        (unsigned)o->pm > FUR_PM_SYNC)
		return fur_fail(FUR_EINVAL,
		        "isolation, htm or pm in fur_options is none of its enum's values");
	if (!o->retries)
		o->retries = 20;
	if (!o->reader_report_ns)
		o->reader_report_ns = 100000000;
	return read_environment(o);
}

/* -------------------------------------------------------------- durability */

static void *padded(size_t bytes)
{
	bytes = (bytes + ARCH_PAD - 1) & ~(size_t)(ARCH_PAD - 1);
	void *p = aligned_alloc(ARCH_PAD, bytes);
	if (p)
		memset(p, 0, bytes);
	return p;
}

int durability_attach(struct durability *d, const struct heap_file *file,
        const struct fur_options *options, char *reason, size_t reason_bytes)
{
	struct media_super *s = file->super;
	const struct media_super *g = &file->geometry;
	memset(d, 0, sizeof *d);
	int error = pm_init(&d->pm, file->fd, file->dax, options, reason, reason_bytes);
	if (!error && pthread_mutex_init(&d->replaying, NULL)) {
		pm_fini(&d->pm);
		error = fur_fail(FUR_ENOMEM, "no memory for a mutex: free some memory");
	}
	if (error)
		return error;
	d->geometry = file->geometry;
	d->super = &d->geometry;
	d->words = s;
	d->head_bytes = media_head_bytes(&d->geometry);
	d->control = (struct control *)((uint8_t *)s + g->control_offset);
	d->ring = (uint8_t *)s + g->ring_offset;
	d->logs = (uint8_t *)s + g->logs_offset;
	d->image = (uint8_t *)s + g->heap_offset;
	d->ops = &replay_ops;
	d->replay_options = REPLAY_DEFAULTS;
	d->redo = padded(g->max_threads * sizeof *d->redo);
	d->nondurable = padded(g->max_threads * sizeof *d->nondurable);
	if (!d->redo || !d->nondurable)
		error = fur_fail(FUR_ENOMEM,
		        "no memory for %u threads: free some memory, or make the heap with a "
		        "smaller max_threads",
		        g->max_threads);
	if (!error)
		error = heap_tail(file, &d->tail);
	/* The same from the heap's creation on, in the file and in every log, so it may be checked
	 * before recovery: fur_open() and each way of replaying refuse the same files, before they
	 * write. */
	if (!error)
		error = alloc_check_header(d->image, g->heap_bytes, g->max_threads);
	d->next_durts = d->tail;
	if (error)
		durability_detach(d);
	return error;
}

void durability_detach(struct durability *d)
{
	for (uint64_t i = 0; d->redo && i < d->limit; i++)
		redo_fini(&d->redo[i], d);
	free(d->redo);
	free(d->nondurable);
	/* In a child of fork() a thread that is not there may hold or wait for one of them, and
	 * destroying a condition waits for those who wait for it: pthread_cond_destroy() would
	 * never return. */
	if ((int)arch_load(&d->failed) != FUR_EFORK) {
		pthread_mutex_destroy(&d->replaying);
		pm_fini(&d->pm);
	}
	memset(d, 0, sizeof *d);
}

int heap_recover(struct durability *d, struct replay_result *result, bool *recovered)
{
	memset(result, 0, sizeof *result);
	*recovered = d->words->state != MEDIA_CLOSED;
	return *recovered ? replay_recover(d, result) : replay_check_closed(d);
}

int heap_set_state(struct durability *d, uint64_t state)
{
	arch_store(&d->words->state, state);
	pm_flush(&d->pm, &d->words->state, sizeof d->words->state);
	/* Open: INV-F4.  Closed: after all is replayed. */
	return pm_drain(&d->pm);
}

/* -------------------------------------------------------------------- open */

/* All is replayed and no update runs: the file has the whole heap, and no page of the mapping at
 * base is a copy yet.  Durable with the state, before the first update. */
static void upgrade_heap(struct durability *d)
{
	uint64_t *magic = (uint64_t *)(void *)d->image, word = alloc_new_magic(d->image);
	if (!word)
		return;
	arch_store(magic, word);
	pm_flush(&d->pm, magic, sizeof *magic);
}

static int init_htm(struct fur_heap *heap, const struct fur_options *o)
{
	struct htm *h = &heap->htm;
	uint32_t threads = heap->file.super->max_threads;
	h->durability = &heap->durability;
	h->retries = o->retries;
	h->phase_times = o->phase_times;
	h->reader_report_ns = o->reader_report_ns;
	h->reader_report = o->reader_report;
	h->reader_report_arg = o->reader_report_arg;
	h->active = padded(threads * sizeof *h->active);
	heap->threads = h->threads = padded(threads * sizeof *heap->threads);
	if (!h->active || !heap->threads)
		return fur_fail(FUR_ENOMEM,
		        "no memory for %u threads: free some memory, or make the heap with a "
		        "smaller max_threads",
		        threads);
	return htm_choose(
	        h, o->htm, o->isolation, heap->info.htm_reason, sizeof heap->info.htm_reason);
}

static void fill_info(struct fur_heap *heap, const struct replay_result *r)
{
	struct fur_info *i = &heap->info;
	const struct media_super *s = heap->file.super;
	i->htm = heap->htm.kind;
	i->isolation = heap->htm.isolation;
	i->pm = heap->durability.pm.domain;
	i->heap_bytes = s->heap_bytes;
	i->log_bytes = s->log_bytes;
	i->ring_slots = s->ring_slots;
	i->address = s->address;
	i->max_threads = s->max_threads;
	i->replayed_updates = r->updates;
	i->replayed_entries = r->entries;
	i->replay_ns = r->ns;
	i->corrected_updates = r->mended;
}

static void take_apart(struct fur_heap *heap)
{
	for (uint64_t i = 0; heap->threads && i < heap->durability.limit; i++)
		thread_free_memory(&heap->threads[i]);
	page_limit_end(heap);
	free(heap->htm.active);
	free(heap->threads);
	if (heap->durability.super)
		durability_detach(&heap->durability);
	heap_close_file(&heap->file);
	free(heap);
}

/* All that may refuse, before anything is written to the file. */
static int prepare(struct fur_heap *heap, const struct fur_options *o)
{
	struct fur_info *info = &heap->info;
	int error = durability_attach(
	        &heap->durability, &heap->file, o, info->pm_reason, sizeof info->pm_reason);
	if (!error)
		error = init_htm(heap, o);
	if (!error)
		error = heap_map(&heap->file);
	if (!error)
		error = page_limit_start(heap, o->dram_bytes);
	return error;
}

/* Recover, and say that the heap is open; under the right to replay. */
static int start(struct fur_heap *heap, struct replay_result *replayed)
{
	struct durability *d = &heap->durability;
	/* With the right to replay ours until the last owner's log is replayed: see turn() in
	 * serve.c. */
	int error = heap_lock_file(heap->file.fd, HEAP_LOCK_WORKING);
	if (error)
		return error;
	error = heap_recover(d, replayed, &heap->info.recovered);
	if (!error && !heap->info.recovered && heap->file.geometry.version < 2)
		error = replay_begin_lap(d);
	if (!error)
		upgrade_heap(d);
	if (error)
		return error;
	/* After recovery: a file that it refuses is not written to (INV-F1).  If we die before
	 * this, the state is that of the last process, whose end the replayer's watch has seen, or
	 * it waits for ours: see after_worker() in serve.c. */
	control_opened(d);
	error = heap_set_state(d, MEDIA_OPEN);
	if (error)
		return error;
	d->next_durts = d->tail; /* a replayer may have moved it since the file was opened */
	control_reset(d);
	return 0;
}

/* `name` is given to a new file, as the last that may fail; NULL: it has one. */
static int put_together(struct fur_heap *heap, const struct fur_options *o, const char *name)
{
	struct durability *d = &heap->durability;
	struct replay_result replayed;
	int error = prepare(heap, o);
	if (!error)
		error = control_take(d);
	if (error)
		return error;
	error = start(heap, &replayed);
	/* After a failure all locks go at once, when the file is closed: a replayer that got the
	 * right to replay before WORKING has gone would take a log that recovery has refused for
	 * one that this process writes. */
	if (error)
		return error;
	control_give_back(d); /* if that fails, the next replay does it: see control.h */
	if (name)
		error = heap_name_file(&heap->file, name);
	if (error)
		return error;
	d->populate = heap->htm.ops && !o->no_populate && !o->dram_bytes;
	/* On POWER a slot is drawn in the window, before the update announces itself. */
	d->draws_announced = heap->htm.kind != FUR_HTM_POWER;
	d->mirror = !pm_stores_in_transactions(&d->pm) || heap->htm.kind == FUR_HTM_POWER;
	if (d->populate)
		heap_populate(&heap->file);
	fill_info(heap, &replayed);
	return 0;
}

/* What the handle itself needs of the system. */
static int make_handle(struct fur_heap *heap)
{
	if (pthread_mutex_init(&heap->registering, NULL))
		return fur_fail(FUR_ENOMEM, "no memory for a mutex: free some memory");
	if (pthread_key_create(&heap->self, thread_ended) == 0)
		return 0;
	pthread_mutex_destroy(&heap->registering);
	return fur_fail(FUR_ESYS, "no thread-specific key left: close other heaps");
}

/* Takes the file over, also if it fails. */
static int open_heap(
        struct heap_file *file, const struct fur_options *o, const char *name, fur_heap **out)
{
	struct fur_heap *heap = padded(sizeof *heap);
	if (!heap) {
		heap_close_file(file);
		return fur_fail(FUR_ENOMEM, "no memory for the heap handle: free some memory");
	}
	heap->file = *file;
	heap->owner = getpid();
	int error = heaps_add(heap);
	if (!error && !(error = make_handle(heap)) && (error = put_together(heap, o, name))) {
		pthread_key_delete(heap->self);
		pthread_mutex_destroy(&heap->registering);
	}
	if (error) {
		heaps_remove(heap, NULL);
		take_apart(heap);
		return error;
	}
	*out = heap;
	return 0;
}

static int open_path(const char *path, const struct fur_options *options, fur_heap **heap)
{
	struct fur_options o;
	struct heap_file file;
	if (!path || !heap)
		return fur_fail(FUR_EINVAL, "fur_open: path and heap must not be NULL");
	*heap = NULL;
	int error = complete_options(options, &o);
	if (!error)
		error = heap_open_file(path, HEAP_LOCK_WORKER, &file);
	if (!error)
		error = open_heap(&file, &o, NULL, heap);
	return error ? fur_fail_at(error, path) : 0;
}

/* The file has no name until the heap is open: whatever refuses, nobody else has opened it, and
 * nothing is left of it. */
static int create_path(const char *path, const struct fur_options *options, fur_heap **heap)
{
	struct fur_options o;
	struct heap_file file;
	if (!path || !heap)
		return fur_fail(FUR_EINVAL, "fur_create: path and heap must not be NULL");
	*heap = NULL;
	int error = complete_options(options, &o);
	if (!error)
		error = heap_create_file(path, &o, &file);
	if (!error)
		error = open_heap(&file, &o, path, heap);
	return error ? fur_fail_at(error, path) : 0;
}

/* Both call functions that are cancellation points.  A thread cancelled there would leave file,
 * lock and mappings behind. */

FUR_API int fur_open(const char *path, const struct fur_options *options, fur_heap **heap)
{
	int cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	int error = open_path(path, options, heap);
	pthread_setcancelstate(cancel, &cancel);
	return error;
}

FUR_API int fur_create(const char *path, const struct fur_options *options, fur_heap **heap)
{
	int cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	int error = create_path(path, options, heap);
	pthread_setcancelstate(cancel, &cancel);
	return error;
}

/* ------------------------------------------------------------------- close */

static bool in_use(struct fur_heap *heap)
{
	/* A child's copy is used by nobody (INV-K1), and the mutex may stay locked for ever
	 * (INV-K2).  The C library runs no handlers for a child of _Fork() or clone(). */
	if (heap->owner != getpid())
		heap_disown(heap);
	if (htm_forked(&heap->htm))
		return false;
	bool used = false;
	pthread_mutex_lock(&heap->registering);
	for (uint64_t i = 0; !used && i < heap->durability.limit; i++)
		used = heap->threads[i].ro.depth || heap->threads[i].update.depth;
	pthread_mutex_unlock(&heap->registering);
	return used;
}

/* Nothing is in flight: one turn of replay empties the log. */
static int replay_rest(struct durability *d)
{
	struct arch_backoff backoff = {0};
	int error = durability_check(d);
	while (!error && d->tail < d->next_durts)
		error = durability_replay(d, &backoff);
	if (!error)
		error = heap_set_state(d, MEDIA_CLOSED);
	d->control->worker_pid = 0;
	return error;
}

/* The thread's message, which says why, becomes a part of the new one. */
static void say_not_replayed(int error)
{
	char cause[512];
	snprintf(cause, sizeof cause, "%s", fur_errormsg());
	fur_fail(error,
	        "the heap could not be brought up to date, and its log is kept: open it again, "
	        "which replays the log; the cause: "
	        "%s",
	        cause);
}

static int close_heap(struct fur_heap *heap)
{
	int error = heaps_remove(heap, in_use);
	if (error == FUR_EINVAL)
		return fur_fail(error,
		        "fur_close: this heap is not open: it was closed before, or is no heap");
	if (error)
		return fur_fail(error, "a thread has a transaction open on this heap, which it may "
		                       "have left by return or longjmp: end "
		                       "it, then close");
	bool copy = htm_forked(&heap->htm);
	if (!copy)
		error = replay_rest(&heap->durability);
	if (error)
		say_not_replayed(error);
	pthread_key_delete(heap->self);
	if (!copy)
		pthread_mutex_destroy(&heap->registering);
	take_apart(heap);
	return error;
}

FUR_API int fur_close(fur_heap *heap)
{
	int cancel;
	if (!heap)
		return fur_fail(FUR_EINVAL, "fur_close: heap must not be NULL");
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* as in fur_open() */
	int error = close_heap(heap);
	pthread_setcancelstate(cancel, &cancel);
	return error;
}

/* ------------------------------------------------------------- information */

FUR_API void *fur_base(const fur_heap *heap)
{
	return heap ? heap->file.base : NULL;
}

FUR_API uint64_t fur_bytes(const fur_heap *heap)
{
	return heap ? heap->file.super->heap_bytes : 0;
}

static int check_heap(const struct fur_heap *heap, const char *function)
{
	if (!heap)
		return fur_fail(FUR_EINVAL, "%s: heap must not be NULL", function);
	FUR_CHECK(heaps_have(heap), "the heap is not open");
	return htm_forked(&heap->htm) ? tx_refuse(&heap->htm) : 0;
}

FUR_API int fur_get_info(const fur_heap *heap, struct fur_info *info)
{
	const struct fur_struct theirs = {"fur_info", info, FUR_INFO_LEAST_BYTES};
	int error = check_heap(heap, "fur_get_info");
	return error ? error : fur_struct_give(&theirs, &heap->info, sizeof heap->info);
}

static void add_thread(struct fur_stats *s, const struct fur_thread *t)
{
	const struct thread_stats *from = &t->stats;
	s->ro_commits += arch_load(&from->ro_commits);
	s->update_commits += arch_load(&from->update_commits);
	s->lock_commits += arch_load(&from->lock_commits);
	s->empty_commits += arch_load(&from->empty_commits);
	s->log_entries += arch_load(&from->log_entries);
	for (int c = 0; c < FUR_ABORT_CAUSES; c++)
		s->aborts[c] += arch_load(&from->aborts[c]);
	for (int p = 0; p < FUR_PHASES; p++)
		s->phase_ns[p] += arch_ticks_to_ns(arch_load(&from->phase_ticks[p]));
	s->threads += t->state == THREAD_REGISTERED;
}

FUR_API int fur_get_stats(const fur_heap *heap, struct fur_stats *stats)
{
	const struct fur_struct theirs = {"fur_stats", stats, FUR_STATS_LEAST_BYTES};
	struct fur_stats s = {0};
	int error = check_heap(heap, "fur_get_stats");
	if (error)
		return error;
	const struct durability *d = &heap->durability;
	for (uint64_t i = 0; i < arch_load(&d->limit); i++)
		add_thread(&s, &heap->threads[i]);
	s.replays = arch_load(&d->control->replays);
	s.replayed_updates = arch_load(&d->control->replayed_updates);
	s.times_handed_back = arch_load(&heap->page_limit.times);
	s.bytes_handed_back = arch_load(&heap->page_limit.bytes_handed_back);
	s.long_readers = arch_load(&heap->htm.long_readers);
	s.longest_reader_ns = arch_load(&heap->htm.longest_reader_ns);
	return fur_struct_give(&theirs, &s, sizeof s);
}

FUR_API const char *fur_htm_name(enum fur_htm htm)
{
	return (unsigned)htm < 4 ? htm_names[htm] : "?";
}

FUR_API const char *fur_pm_name(enum fur_pm pm)
{
	return (unsigned)pm < 5 ? pm_names[pm] : "?";
}

FUR_API const char *fur_isolation_name(enum fur_isolation isolation)
{
	return isolation == FUR_OPACITY ? "opacity" : isolation == FUR_SNAPSHOT ? "snapshot" : "?";
}

FUR_API const char *fur_abort_name(enum fur_abort_cause cause)
{
	static const char *const names[] = {
	        "conflict", "plain", "capacity", "lock", "reader", "full", "fault", "user"};
	_Static_assert(sizeof names / sizeof *names == FUR_ABORT_CAUSES, "a name for each cause");
	return (unsigned)cause < FUR_ABORT_CAUSES ? names[cause] : "?";
}

FUR_API const char *fur_phase_name(enum fur_phase phase)
{
	static const char *const names[] = {"body", "isolation_wait", "log", "flush",
	        "durability_wait", "ro_body", "ro_wait", "lock_wait", "room"};
	_Static_assert(sizeof names / sizeof *names == FUR_PHASES, "a name for each phase");
	return (unsigned)phase < FUR_PHASES ? names[phase] : "?";
}
