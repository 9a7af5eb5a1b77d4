/* SPDX-License-Identifier: BSD-3-Clause
 *
 * emulated.h - the emulated machine: N simulated hardware threads with transactional memory and
 * persistent memory, in virtual time, deterministic from a seed.  The contract of
 * emulator; docs/emulated-machine.md is its manual.
 *
 * A program runs on it unchanged.  It is compiled with -fsanitize=thread, whose calls before each
 * load and store the machine answers itself (instrument.cpp; no sanitizer library is linked), and
 * linked with this library, which also stands in for the parts of pthreads and of the system that
 * concern threads and time (system.cpp).  emu_run(f) makes f simulated thread 0; what f starts with
 * pthread_create are the others.  Outside emu_run() all of it does nothing, and the program runs
 * natively.
 *
 *   INV-E1  One thread runs at a time: the one with the smallest virtual clock, ties broken by the
 *           seed.  It gives way only at a memory access, before it is made; so the access and its
 *           conflicts are one step.
 *   INV-E2  Conflicts are eager, by line, and the requester wins: the holder's stores are undone
 *           before the access is made.
 *   INV-E3  What an abort brings back is what hardware brings back: registers, the thread's stack,
 *           every store made in the transaction wherever it went, and none made while suspended.
 *   INV-E4  A store is performed (seen, and in conflict with others) no earlier than it is made and
 *           no later than the next full fence or atomic read-modify-write of its thread; on x86 in
 *           order, on POWER in order only across a barrier.
 *   INV-E5  A store is durable when its line has been written back later, and a write-back fence of
 *           that thread has returned; perhaps sooner, by the write-back alone or by eviction; and
 *           never in pieces smaller than 8 aligned bytes.
 *
 * What it does not have: loads are performed in program order, so a missing load-load barrier of
 * POWER goes unseen; no interrupts and no page faults, so nothing aborts for those.
 */
#ifndef FUR_EMULATED_H
#define FUR_EMULATED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { EMU_MAX_THREADS = 128, EMU_MAX_CORES = 63 };

/* ---------------------------------------------------------------- a machine */

struct emu_machine; /* a description, as read */

/* Read a description: one of those in machines/, by its name, or a file, by a path with a / or a .
 * in it.  NULL, and one line in `error`: the file, the line, what is wrong. */
struct emu_machine *emu_machine_read(const char *machine, char *error, size_t error_bytes);
void emu_machine_free(struct emu_machine *m);

const char *emu_machine_name(const struct emu_machine *m);
unsigned emu_machine_threads(const struct emu_machine *m); /* hardware threads it has */
bool emu_machine_is_power(const struct emu_machine *m);
bool emu_machine_suspends_loads(const struct emu_machine *m); /* on x86: TSXLDTRK */
/* Nanoseconds to read a line of persistent memory that is in no cache; the description's own if
 * never set. */
void emu_machine_set_pm_read_ns(struct emu_machine *m, double ns);
double emu_machine_pm_read_ns(const struct emu_machine *m);
/* Nanoseconds from write-back to durable; the description's own if never set. */
void emu_machine_set_pm_write_ns(struct emu_machine *m, double ns);
double emu_machine_pm_write_ns(const struct emu_machine *m);
/* The same between two lines of one thread. */
void emu_machine_set_pm_gap_ns(struct emu_machine *m, double ns);
double emu_machine_pm_gap_ns(const struct emu_machine *m);

/* ------------------------------------------------------------------- a run */

struct emu_options {
	uint64_t seed;
	/* 0: none.  Else every access is delayed with probability 1/perturb, by up to some
	 * microseconds: more schedules, and a machine that stalls now and then. */
	uint32_t perturb;
	/* Power failure: after this many accesses; 0: none. */
	uint64_t crash_after;
	/* Stop, with EMU_LATE, at this virtual time; 0: never. */
	uint64_t limit_ns;
};

enum emu_end {
	EMU_DONE,     /* thread 0 has returned */
	EMU_CRASHED,  /* power failure: persistent memory is as emu_persistent_image() says */
	EMU_DEADLOCK, /* every thread waits for another */
	EMU_LATE,     /* the limit was reached */
};

/* Run f(arg) as thread 0.  Without EMU_DONE the other threads are never heard of again, and neither
 * is what they held: the process had better end soon. */
enum emu_end emu_run(const struct emu_machine *m, const struct emu_options *options,
        void (*f)(void *), void *arg);

/* Power failure after so many more accesses; by the program itself, or an observer. */
void emu_crash_in(uint64_t accesses);

struct emu_counters {
	/* Loads and stores made; and those inside hardware transactions */
	uint64_t accesses, transactional;
	uint64_t switches;
	uint64_t begun, committed, aborted; /* hardware transactions */
	uint64_t ns;                        /* virtual time of the last step */
};
struct emu_counters emu_count(void);

/* After a run: the line that most transactions were aborted for, then the next, ...; false: no
 * more.  What a program fights over. */
bool emu_hot_line(unsigned rank, const void **line, unsigned *aborts);

/* The machine of the run under way, or of the last. */
const struct emu_machine *emu_current_machine(void);

/* Is the caller on a simulated thread?  Its number, or -1. */
int emu_thread(void);

/* Told of transactions as they end, in the step in which they do.  Not simulated itself: it costs
 * nothing and nothing of it is undone.  `cause` of an abort: enum emu_cause. */
enum emu_event { EMU_COMMIT, EMU_ABORT, EMU_BEGIN, EMU_SUSPEND, EMU_RESUME };
void emu_on_event(void (*f)(enum emu_event event, int thread, int cause, void *arg), void *arg);

/* Run f(arg) on the calling simulated thread with the machine looking away: no access counts,
 * nothing is undone, no time passes. */
void emu_unseen(void (*f)(void *), void *arg);

/* -------------------------------------------------------- time and ordering */

uint64_t emu_time(void);    /* of the step under way, read by an observer: it takes no time */
uint64_t emu_ticks(void);   /* picoseconds of virtual time; of real time outside */
void emu_work(uint64_t ns); /* the thread computes for so long */
void emu_pause(void);       /* of a spinning thread */
void emu_fence(void);       /* mfence; hwsync */
void emu_fence_light(void); /* orders all but stores with later loads: nothing on x86; lwsync */

/* Ask for a line, to read or to write it, and go on; unless as many as a thread may ask for are
 * still on their way. */
void emu_prefetch(const void *p, bool to_write);

/* ------------------------------------------------------------- transactions
 *
 * POWER: Power ISA 3.0B, Book II, chapter 5.  TSX: Intel SDM volume 1, chapter 16. */

enum emu_tx {
	EMU_TX,            /* tbegin. 0; xbegin */
	EMU_ROLLBACK_ONLY, /* tbegin. 1: loads untracked */
};

enum emu_cause {
	EMU_CONFLICT,       /* with another transaction */
	EMU_CONFLICT_PLAIN, /* with a plain access, or a suspended one */
	EMU_SELF_CONFLICT,  /* a suspended store to a line of the transaction */
	EMU_CAPACITY_READ,
	EMU_CAPACITY_WRITE,
	EMU_EXPLICIT,
	EMU_NESTED,     /* a begin, a suspend or an end where there may be none */
	EMU_DISALLOWED, /* a system call */
};

#define EMU_STARTED 0

/* EMU_STARTED; or, any number of times later, (code of emu_tabort) << 8 | 1 + cause, with
 * registers, stack and memory as they were.  The function that called it may have returned
 * meanwhile. */
uint64_t emu_tbegin(enum emu_tx kind);
void emu_tend(void);
/* POWER: why the last transaction failed, as TEXASR says it (Power ISA 3.0B, Book II, 5.3.2). */
uint64_t emu_texasr(void);
/* Abort, `code` 0..255.  Returns only if suspended; or outside a transaction, where it does
 * nothing. */
void emu_tabort(uint8_t code);
/* All tracking: loads and stores are immediate and stay.  A doomed transaction runs on until it
 * resumes. */
void emu_tsuspend(void);
void emu_tresume(void);
bool emu_tcheck(void); /* doomed? */
/* TSXLDTRK: load tracking alone. */
void emu_suspend_loads(void);
void emu_resume_loads(void);

/* -------------------------------------------------------- persistent memory */

/* [base, base + bytes) is persistent memory, with all that is in it now durable. */
void emu_persistent(void *base, size_t bytes);
void emu_persistent_gone(void *base);

/* The line's write-back begins. */
void emu_write_back(const void *start, size_t bytes);
/* Returns when this thread's write-backs have completed. */
void emu_write_back_fence(void);

/* After EMU_CRASHED: what is in persistent memory at `base`; NULL: wherever the first is mapped.
 * What was under way, or waiting in a cache, got out or not by the seed. */
const void *emu_persistent_image(const void *base);

unsigned emu_line_bytes(void);

/* ---------------------------------------------------------- thread-local data */

/* A variable each simulated thread has its own of, zero at first.  Define one static per
 * variable. */
struct emu_key {
	uint32_t index; /* 1 + place, once used */
};
void *emu_local(struct emu_key *key, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* FUR_EMULATED_H */
