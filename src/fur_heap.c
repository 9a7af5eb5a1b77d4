/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_heap.c - opening and closing heaps: the parts, put together in the order that keeps a refused file untouched (INV-F1).
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
	return fur_fail(FUR_EINVAL, "%s=%s in the environment: use %s, %s, %s, %s%s%s", name, word, words[0], words[1], words[2],
	        words[3], n > 4 ? ", " : "", n > 4 ? words[4] : "");
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
	const struct fur_struct theirs = {"fur_options", (void *)(uintptr_t)given, FUR_OPTIONS_LEAST_BYTES};
	fur_options_init(o);
	int error = given ? fur_struct_take(&theirs, o, sizeof *o) : 0;
	if (error)
		return error;
	if ((unsigned)o->isolation > FUR_SNAPSHOT || (unsigned)o->htm > FUR_HTM_POWER || (unsigned)o->pm > FUR_PM_SYNC)
		return fur_fail(FUR_EINVAL, "isolation, htm or pm in fur_options is none of its enum's values");
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

int durability_attach(
        struct durability *d, const struct heap_file *file, const struct fur_options *options, char *reason, size_t reason_bytes)
{
	struct media_super *s = file->super;
	memset(d, 0, sizeof *d);
	int error = pm_init(&d->pm, file->fd, file->dax, options, reason, reason_bytes);
	if (error)
		return error;
	d->super = s;
	d->control = (struct control *)((uint8_t *)s + s->control_offset);
	d->ring = (uint8_t *)s + s->ring_offset;
	d->logs = (uint8_t *)s + s->logs_offset;
	d->image = (uint8_t *)s + s->heap_offset;
	d->ops = &replay_ops;
	d->replay_options = REPLAY_DEFAULTS;
	pthread_mutex_init(&d->replaying, NULL);
	d->redo = padded(s->max_threads * sizeof *d->redo);
	d->nondurable = padded(s->max_threads * sizeof *d->nondurable);
	if (!d->redo || !d->nondurable)
		error = fur_fail(FUR_ENOMEM, "no memory for %u threads", s->max_threads);
	if (!error)
		error = heap_tail(file, &d->tail);
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
	*recovered = d->super->state != MEDIA_CLOSED;
	return *recovered ? replay_recover(d, result) : 0;
}

int heap_set_state(struct durability *d, uint64_t state)
{
	arch_store(&d->super->state, state);
	pm_flush(&d->pm, &d->super->state, sizeof d->super->state);
	/* Open: durable before the first commit, else a failure would be taken for a clean close.  Closed: after all is replayed. */
	return pm_drain(&d->pm);
}

/* -------------------------------------------------------------------- open */

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
		return fur_fail(FUR_ENOMEM, "no memory for %u threads", threads);
	return htm_choose(h, o->htm, o->isolation, heap->info.htm_reason, sizeof heap->info.htm_reason);
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

/* Everything that may refuse comes before the first write to the file: recovery. */
static int put_together(struct fur_heap *heap, const struct fur_options *o)
{
	struct replay_result replayed;
	int error = durability_attach(&heap->durability, &heap->file, o, heap->info.pm_reason, sizeof heap->info.pm_reason);
	if (!error)
		error = init_htm(heap, o);
	if (!error)
		error = heap_map(&heap->file);
	if (!error)
		error = alloc_check_header(heap->durability.image, heap->file.super->heap_bytes, heap->file.super->max_threads);
	if (!error)
		error = control_take(&heap->durability);
	if (error)
		return error;
	error = heap_recover(&heap->durability, &replayed, &heap->info.recovered);
	if (!error)
		error = heap_set_state(&heap->durability, MEDIA_OPEN);
	if (!error) {
		heap->durability.next_durts = heap->durability.tail; /* a replayer may have moved it since the file was opened */
		control_reset(&heap->durability);
		/* After the last owner's log is replayed, with the right to replay still ours: see turn() in serve.c. */
		if (heap_lock_try(heap->file.fd, HEAP_LOCK_WORKING))
			error = fur_fail(FUR_EBUSY, "the heap is open in another process: close it there first");
	}
	control_give_back(&heap->durability);
	if (error)
		return error;
	error = page_limit_start(heap, o->dram_bytes);
	if (error)
		return error;
	control_opened(&heap->durability);
	bool populate = heap->htm.ops && !o->no_populate && !o->dram_bytes;
	heap->durability.populate = populate;
	heap->durability.mirror = !pm_stores_in_transactions(&heap->durability.pm) || heap->htm.kind == FUR_HTM_POWER;
	if (populate)
		heap_populate(&heap->file);
	fill_info(heap, &replayed);
	return 0;
}

static int open_heap(const char *path, const struct fur_options *o, fur_heap **out)
{
	struct heap_file file;
	int error = heap_open_file(path, HEAP_LOCK_WORKER, &file);
	if (error)
		return error;
	struct fur_heap *heap = padded(sizeof *heap);
	if (!heap) {
		heap_close_file(&file);
		return fur_fail(FUR_ENOMEM, "no memory for the heap handle");
	}
	heap->file = file;
	heap->owner = getpid();
	error = heaps_add(heap);
	if (!error)
		error = put_together(heap, o);
	if (!error && pthread_key_create(&heap->self, thread_ended))
		error = fur_fail(FUR_ESYS, "no thread-specific key left: close other heaps");
	if (error) {
		heaps_remove(heap, NULL);
		take_apart(heap);
		return error;
	}
	pthread_mutex_init(&heap->registering, NULL);
	*out = heap;
	return 0;
}

static int open_path(const char *path, const struct fur_options *options, fur_heap **heap)
{
	struct fur_options o;
	if (!path || !heap)
		return fur_fail(FUR_EINVAL, "fur_open: path and heap must not be NULL");
	*heap = NULL;
	int error = complete_options(options, &o);
	if (!error)
		error = open_heap(path, &o, heap);
	return error ? fur_fail_at(error, path) : 0;
}

static int create_path(const char *path, const struct fur_options *options, fur_heap **heap)
{
	struct fur_options o;
	if (!path || !heap)
		return fur_fail(FUR_EINVAL, "fur_create: path and heap must not be NULL");
	*heap = NULL;
	int error = complete_options(options, &o);
	/* The address is chosen at random; where it is taken, another will not be. */
	for (int tries = 0; !error && tries < 16; tries++) {
		if ((error = heap_create_file(path, &o)))
			break;
		error = open_heap(path, &o, heap);
		if (!error)
			return 0;
		/* Busy: somebody has opened it as soon as it had its name; it is theirs. */
		if (error != FUR_EBUSY)
			unlink(path);
		if (error == FUR_EADDRESS && !o.address)
			error = tries < 15 ? 0 : error;
	}
	return fur_fail_at(error, path);
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
	int error = (int)(int64_t)d->failed;
	while (!error && d->tail < d->next_durts)
		error = durability_replay(d, &backoff);
	if (!error)
		error = heap_set_state(d, MEDIA_CLOSED);
	d->control->worker_pid = 0;
	return error;
}

static int close_heap(struct fur_heap *heap)
{
	int error = heaps_remove(heap, in_use);
	if (error == FUR_EINVAL)
		return fur_fail(error, "fur_close: this heap is not open: it was closed before, or is no heap");
	if (error)
		return fur_fail(error,
		        "a thread has a transaction open on this heap, which it may have left by return or longjmp: end "
		        "it, then close");
	bool copy = htm_forked(&heap->htm);
	if (!copy)
		error = replay_rest(&heap->durability);
	if (error)
		fur_fail(error, "the heap could not be brought up to date: %s; its log is kept, and replayed at the next open",
		        fur_strerror(error));
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
	static const char *const names[] = {"conflict", "plain", "capacity", "lock", "reader", "full", "fault", "user"};
	_Static_assert(sizeof names / sizeof *names == FUR_ABORT_CAUSES, "a name for each cause");
	return (unsigned)cause < FUR_ABORT_CAUSES ? names[cause] : "?";
}

FUR_API const char *fur_phase_name(enum fur_phase phase)
{
	static const char *const names[] = {
	        "body", "isolation_wait", "log", "flush", "durability_wait", "ro_body", "ro_wait", "lock_wait", "room"};
	_Static_assert(sizeof names / sizeof *names == FUR_PHASES, "a name for each phase");
	return (unsigned)phase < FUR_PHASES ? names[phase] : "?";
}
