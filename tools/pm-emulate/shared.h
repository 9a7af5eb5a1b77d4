/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shared.h - the memory that the launcher and the library in the program share: one sparse memory
 * file, made by the launcher, which outlives the program.
 *
 *      control | write-backs under way of thread 0, 1, ... | region 0: medium, lines | region 1 ...
 *
 * A region is a file that the program has mapped.  Its `medium` is the content that the file would
 * have if the power failed now and every line that is not known to be durable were lost.
 *
 *   INV-PE1  The medium holds a line as a write-back numbered lines[].number or lower carried it,
 *            and changes only in aligned words of 8 bytes: a program killed at any instant leaves
 *            something that persistent memory could have left.
 *   INV-PE2  A fence returns only when the medium has every line that its thread has written back
 *            before.
 *   INV-PE3  A write-back, fence or sync that begins after `failed` is set does not return.
 *
 * The launcher: main.cpp (options, exploration), process.cpp, memory.cpp, report.cpp.  The library:
 * preload.c (the functions that the program calls), shadow.c (their effect on the media), region.c
 * (files and mappings), model.c (time).
 */
#ifndef PM_EMULATE_SHARED_H
#define PM_EMULATE_SHARED_H

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* in C a function and a struct may share a name */
extern "C" {
#endif
#include "base/arch.h"
#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#include <assert.h>
#include <pthread.h>
#include <stdint.h>

/* The environment variable that names the memory file. */
#define PME_ENVIRONMENT "PM_EMULATE_MEMORY"

enum {
	PME_REGIONS = 64,
	PME_THREADS = 1024,
	/* Write-backs of one thread.  Beyond these the oldest complete without a fence, as they do
	 * in a memory controller. */
	PME_UNDER_WAY = 16384,
	PME_SAMPLES = 8,
	PME_PATH_BYTES = 4096,
	PME_ONLY_BYTES = 4096,
};

enum pme_fail { PME_NEVER, PME_AT_FLUSH, PME_AT_FENCE, PME_AT_TIME, PME_AT_END };

/* Spreads the bits of x (splitmix64's last step). */
static inline uint64_t pme_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* The launcher's orders. */
struct pme_settings {
	/* enum pme_fail: the library handles FLUSH and FENCE, the launcher the others */
	uint32_t fail;
	uint32_t perturb;
	uint64_t fail_at; /* the number of the flush or fence, counted from 1 */
	uint64_t seed;
	uint64_t write_ns, read_ns, gap_ns;
	uint64_t cache_bytes;
	char only[PME_ONLY_BYTES]; /* patterns, each ended by a 0; none: every file */
};

/* The place of a finding. */
struct pme_sample {
	uint32_t region;
	uint64_t offset;
};

/* A count, and the first places. */
struct pme_finding {
	uint64_t n;
	struct pme_sample sample[PME_SAMPLES];
};

struct pme_counters {
	uint64_t flushes, fences, syncs; /* calls */
	uint64_t lines;                  /* lines written back */
	uint64_t idle_fences;            /* while nothing was under way */
	uint64_t outside;                /* flushes of memory that maps no file */
	uint64_t fetched;                /* lines that the model fetched from the medium */
	uint64_t write_wait_ns, read_wait_ns;
	struct pme_finding again;     /* written back a second time before the fence */
	struct pme_finding unchanged; /* written back although the medium has them */
	struct pme_finding unfenced;  /* written back, but their thread ended without a fence */
};

struct pme_region {
	uint64_t device, inode, born_ns;
	uint64_t bytes;            /* the medium is valid up to here */
	char path[PME_PATH_BYTES]; /* as last mapped */
};

struct pme_thread {
	uint32_t process; /* 0: free */
	uint32_t n;       /* write-backs under way */
	uint32_t fence;   /* of a free slot: the number of its next fence */
};

struct pme_control {
	struct pme_settings settings;
	struct pme_counters counters;
	uint32_t attached; /* programs that have loaded the library */
	uint32_t failed;   /* the power is off */
	uint32_t regions;
	uint64_t number;       /* of the newest write-back */
	pthread_mutex_t mutex; /* robust; for regions and for changes of media */
	struct pme_region region[PME_REGIONS];
	struct pme_thread thread[PME_THREADS];
};

/* A write-back under way: the line as it was when the thread issued it. */
struct pme_write_back {
	uint64_t number, offset;
	uint32_t region, unused;
	uint64_t content[ARCH_FLUSH_LINE / 8];
};

struct pme_line {
	uint64_t number; /* of the write-back that the medium has; 0: the line is as first mapped */
	uint32_t thread; /* of the newest write-back, from 1; and the number of its next fence */
	uint32_t fence;  /* PME_UNFENCED: its thread ended without one */
};

#define PME_UNFENCED UINT32_MAX

#define PME_UNDER_WAY_AT (UINT64_C(1) << 24)
#define PME_UNDER_WAY_BYTES                                                                        \
	(((uint64_t)PME_UNDER_WAY * sizeof(struct pme_write_back) + 65535) & ~UINT64_C(65535))
#define PME_REGION_AT    (UINT64_C(1) << 36)
#define PME_REGION_BYTES (UINT64_C(1) << 42)
#define PME_MOST_BYTES   (UINT64_C(1) << 41) /* of a file */
#define PME_LINES_AT     PME_MOST_BYTES      /* in its region */
#define PME_MEMORY_BYTES (PME_REGION_AT + PME_REGIONS * PME_REGION_BYTES)
static_assert(sizeof(struct pme_control) <= PME_UNDER_WAY_AT, "the control block has its place");
static_assert(PME_UNDER_WAY_AT + PME_THREADS * PME_UNDER_WAY_BYTES <= PME_REGION_AT,
        "so have the write-backs");
static_assert(PME_MOST_BYTES / ARCH_FLUSH_LINE * sizeof(struct pme_line) <=
                      PME_REGION_BYTES - PME_LINES_AT,
        "and the lines");

#endif /* PM_EMULATE_SHARED_H */
