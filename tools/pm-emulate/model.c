/* SPDX-License-Identifier: BSD-3-Clause
 *
 * model.c - waits for the time that persistent memory would take (model.h).
 */
#include "model.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The lines that a core can have in flight: L1 fill buffers, 10 to 16 on the machines for which
 * persistent memory was sold. */
enum { IN_FLIGHT = 10 };

static uint64_t write_ticks, read_ticks, gap_ticks;

/* When the device takes its next line.  Each process has its own: two processes on one file are
 * rare, and not worth sharing ticks for. */
static uint64_t device_free;

/* The modelled cache: direct-mapped by a hash, one tag a line.  NULL: reads are not modelled. */
static uint64_t *tags, tags_mask;

void model_init(const struct pme_settings *s)
{
	if (!s->write_ns && !s->read_ns && !s->gap_ns)
		return; /* without a model, do not measure the clock */
	write_ticks = arch_ns_to_ticks(s->write_ns);
	read_ticks = arch_ns_to_ticks(s->read_ns);
	gap_ticks = arch_ns_to_ticks(s->gap_ns);
	if (!s->read_ns)
		return;
	uint64_t n = 1;
	while (n * 2 * ARCH_FLUSH_LINE <= s->cache_bytes)
		n *= 2;
	void *p = (void *)syscall(SYS_mmap, NULL, n * sizeof *tags, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return;
	tags = p;
	tags_mask = n - 1;
}

bool model_miss(uint32_t region, uint64_t offset)
{
	if (!tags)
		return false;
	uint64_t tag = ((uint64_t)region << 48 | offset / ARCH_FLUSH_LINE) + 1; /* 0: empty */
	uint64_t *place = &tags[(tag * UINT64_C(0x9e3779b97f4a7c15) >> 20) & tags_mask];
	/* Relaxed is enough: a lost update means one cached line too many or too few. */
	if (arch_load(place) == tag)
		return false;
	arch_store(place, tag);
	return true;
}

static uint64_t wait_until_ticks(uint64_t ticks)
{
	uint64_t began = arch_ticks(), now = began;
	while ((int64_t)(ticks - now) > 0) {
		arch_pause();
		now = arch_ticks();
	}
	return now == began ? 0 : arch_ticks_to_ns(now - began);
}

uint64_t model_read(uint64_t lines)
{
	return lines && read_ticks ? wait_until_ticks(arch_ticks() + (lines + IN_FLIGHT - 1) /
	                                                                     IN_FLIGHT * read_ticks)
	                           : 0;
}

void model_write(struct model_thread *t, uint64_t lines)
{
	if (!write_ticks && !gap_ticks)
		return;
	uint64_t now = arch_ticks(), begins = now;
	if (gap_ticks) {
		/* Reserve the device for all the lines, one after the other, from when it is
		 * free. */
		uint64_t is_free = arch_load(&device_free);
		do
			begins = is_free > now ? is_free : now;
		while (!__atomic_compare_exchange_n(&device_free, &is_free,
		        begins + lines * gap_ticks, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	}
	t->done = begins + (lines - 1) * gap_ticks + write_ticks;
}

uint64_t model_wait(const struct model_thread *t)
{
	return t->done ? wait_until_ticks(t->done) : 0;
}
