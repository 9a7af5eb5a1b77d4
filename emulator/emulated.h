/* SPDX-License-Identifier: BSD-3-Clause
 *
 * emulated.h - the emulated machine: simulated hardware threads with transactional memory and
 * persistent memory, in virtual time, deterministic from a seed.  This is the interface of
 * emulator/; docs/emulated-machine.md is its manual.
 *
 * A program runs on the machine unchanged.  It is compiled with -fsanitize=thread: the compiler
 * calls a function before each plain load and store, and in place of each atomic operation.  No
 * sanitizer is linked; the machine defines these functions.  It also stands in for the parts of
 * pthreads and of the system that concern threads and time.  emu_run(f) makes f simulated thread 0;
 * the threads that f starts with pthread_create are the others.  Outside emu_run() the machine does
 * nothing, and the program runs natively.
 *
 *   INV-E1  One thread runs at a time: the one with the smallest virtual clock, ties broken by the
 *           seed.  It gives way only at a memory access, before it makes the access; so the access
 *           and its conflicts are one step.
 *   INV-E2  Conflicts are eager, by line, and the requester wins: the holder's stores are undone
 *           before the access is made.
 *   INV-E3  An abort restores exactly the state that hardware restores: registers, the thread's
 *           stack, and every place that the transaction has stored to, wherever it lies.  Stores
 *           made while suspended remain.
 *   INV-E4  A store is performed (seen by other threads, and in conflict with them) no earlier than
 *           it is made, and no later than the next full fence or atomic read-modify-write of its
 *           thread; on x86 in order, on POWER in order only across a barrier.
 *   INV-E5  A store is durable once its line has been written back after it and a write-back fence
 *           of that thread has returned.  It may be durable sooner, by the write-back alone or by
 *           eviction.  It never becomes durable in pieces smaller than 8 aligned bytes.
 *
 * Not modelled: loads are performed in program order, so a missing load-load barrier of POWER goes
 * unnoticed; there are no interrupts and no page faults, so none aborts a transaction.
 *
 * The files, in the order in which to read them:
 *
 *   emulated.h             this interface
 *   machines/NAME.toml     the machines' descriptions; power9.toml explains each value
 *   description.hpp, .cpp  a description, read and checked
 *   machine.hpp            the state of a run, and the functions that the files below share
 *   scheduler.cpp          threads as coroutines, and which of them runs (INV-E1)
 *   memory.cpp             loads and stores: time, order (INV-E4), caches, fences
 *   agent.cpp              a coherent agent: lines between host and device, atomics at home
 *   order.cpp              an order of points that threads keep
 *   transactions.cpp       conflicts (INV-E2) and aborts (INV-E3)
 *   persistence.cpp        write-backs and power failures (INV-E5)
 *   instrument.cpp         how accesses get here: the functions that the compiler calls, and
 *   memory_functions.h       memcpy, memmove and memset, which it does not instrument
 *   system.cpp             how threads, locks, sleeping and clocks get here
 *   allocator.cpp          malloc() of simulated threads, at addresses that do not vary
 *   arch_emulated.h, .c    libfur's src/base/arch.h on the machine
 */
#ifndef FUR_EMULATED_H
#define FUR_EMULATED_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { EMU_MAX_THREADS = 128, EMU_MAX_CORES = 63 };

/* ---------------------------------------------------------------- a machine */

struct emu_machine; /* a machine description that has been read */

/* Read a description.  `machine` is the name of a file in machines/, without its ending; or, if it
 * contains a / or a ., the path of a file.  Returns NULL on failure and puts one line into `error`:
 * the file, the line, the mistake. */
struct emu_machine *emu_machine_read(const char *machine, char *error, size_t error_bytes);
void emu_machine_free(struct emu_machine *m);

const char *emu_machine_name(const struct emu_machine *m);
unsigned emu_machine_threads(const struct emu_machine *m); /* its hardware threads */
/* Those of its coherent agent, which are not among the former; 0: it has no agent. */
unsigned emu_machine_agent_threads(const struct emu_machine *m);
enum emu_side { EMU_HOST, EMU_AGENT };
/* The side that has the memory, of a machine with an agent.  Until it is set, the description's
 * value holds. */
void emu_machine_set_home(struct emu_machine *m, enum emu_side home);
enum emu_side emu_machine_home(const struct emu_machine *m);
bool emu_machine_has_htm(const struct emu_machine *m);
bool emu_machine_is_power(const struct emu_machine *m);
bool emu_machine_suspends_loads(const struct emu_machine *m); /* x86: TSXLDTRK */
/* Nanoseconds that it takes to read a line of persistent memory that is in no cache.  Until it is
 * set, the description's value holds. */
void emu_machine_set_pm_read_ns(struct emu_machine *m, double ns);
double emu_machine_pm_read_ns(const struct emu_machine *m);
/* Nanoseconds from a line's write-back until it is durable.  Until it is set, the description's
 * value holds. */
void emu_machine_set_pm_write_ns(struct emu_machine *m, double ns);
double emu_machine_pm_write_ns(const struct emu_machine *m);
/* Nanoseconds between the write-backs of two lines by one thread. */
void emu_machine_set_pm_gap_ns(struct emu_machine *m, double ns);
double emu_machine_pm_gap_ns(const struct emu_machine *m);

/* ------------------------------------------------------------------- a run */

struct emu_options {
	uint64_t seed;
	/* 0: none.  Otherwise every access is delayed with probability 1/perturb, by up to some
	 * microseconds: this gives more schedules, and a machine that stalls now and then. */
	uint32_t perturb;
	/* The power fails after this many accesses; 0: never. */
	uint64_t crash_after;
	/* Stop with EMU_LATE at this virtual time, not counting the time for which an order has
	 * held threads; 0: never. */
	uint64_t limit_ns;
	const struct emu_order *order; /* NULL: none */
};

enum emu_end {
	EMU_DONE,     /* thread 0 has returned */
	EMU_CRASHED,  /* the power failed: persistent memory has the durable data */
	EMU_DEADLOCK, /* every thread waits for another one */
	EMU_LATE,     /* the run reached limit_ns */
};

/* Run f(arg) as thread 0.  If the result is not EMU_DONE, the other threads never run again, and
 * the memory that they held is never released: the process should end soon.  The next run finds the
 * locks that they held free. */
enum emu_end emu_run(const struct emu_machine *m, const struct emu_options *options,
        void (*f)(void *), void *arg);

/* Let the power fail after this many more accesses.  The program may call it, and so may an
 * observer. */
void emu_crash_in(uint64_t accesses);

struct emu_counters {
	/* loads and stores; of these, inside hardware transactions */
	uint64_t accesses, transactional;
	uint64_t switches;
	uint64_t begun, committed, aborted; /* hardware transactions */
	uint64_t ns;                        /* virtual time of the last step */
	uint64_t l3_fills;                  /* lines that came to an L3 which did not have them */
};
struct emu_counters emu_count(void);

/* After a run: the line that aborted most transactions (rank 0), the next one, and so on.  Returns
 * false if there are no more.  Shows where a program's threads conflict. */
bool emu_hot_line(unsigned rank, const void **line, unsigned *aborts);

/* -------------------------------------------------------------- an order
 *
 * A schedule that seeds meet rarely can be asked for: an order of named points in the program, for
 * example
 *
 *     a update__body < b publication__begin < a publication__end < crash
 *
 * a and b are variables.  A thread that reaches the point of a variable's first step is bound to
 * the variable; one thread is bound to one variable.  A thread that reaches the point of its next
 * step before the earlier steps have happened is held there, and the other threads run.  After the
 * last step, or when no step has happened for 100 microseconds, the order begins again, with new
 * bindings.  The step `crash` is a power failure at the moment of the step before it; the steps
 * after it only hold their threads.
 *
 * Without an order, points take no time and draw no random number: a seed's run is the same. */

struct emu_order;
/* Returns NULL on failure, and puts one line into `error`. */
struct emu_order *emu_order_read(const char *text, char *error, size_t error_bytes);
bool emu_order_has_crash(const struct emu_order *o);

/* The calling thread reaches a point of this name. */
void emu_point(const char *name);
/* The same in C, or outside inline functions of C++, with the name, a word, in the table of known
 * points. */
#define EMU_POINT(name)                                                                            \
	do {                                                                                       \
		static const char *const emu_point_known                                           \
		        __attribute__((section("emu_points"), used)) = #name;                      \
		emu_point(#name);                                                                  \
	} while (0)

/* What schedules a process has met: bit a * EMU_POINTS + b for a thread that reached point b right
 * after another thread had reached point a, in all runs of this process.  Points are numbered by
 * a hash of their names. */
#define EMU_POINTS 128
const uint64_t *emu_point_pairs(void); /* EMU_POINTS * EMU_POINTS bits */

/* The machine of the current run, or of the last one. */
const struct emu_machine *emu_current_machine(void);

/* A simulated thread ends between two of its accesses, now, whatever it is doing: as if it belonged
 * to another process, which SIGKILL ends.  Its stores are performed; it releases nothing.  To
 * pthread_join() it has ended.  `thread`: not the caller. */
void emu_kill(pthread_t thread);

/* The number of the simulated thread that calls, or -1 outside a simulation. */
int emu_thread(void);

/* Move the calling thread to a core of this side; threads start on the host.  On the agent it gets
 * the core with the fewest threads.  Like a system call, a move aborts a transaction, and the
 * thread waits as long as for a wake-up.  Returns false, and does nothing, if the machine has no
 * agent, and outside a simulation.  An agent has no hardware transactions. */
bool emu_move(enum emu_side side);
/* The side on which the calling thread runs; EMU_HOST outside a simulation. */
enum emu_side emu_where(void);

/* From now on the machine calls f, the observer, when a transaction begins, is suspended, resumes,
 * commits or aborts, within the step in which it does. f is not simulated: it takes no time, and
 * nothing that it does is undone.  `cause`, of an abort: enum emu_cause. */
enum emu_event { EMU_COMMIT, EMU_ABORT, EMU_BEGIN, EMU_SUSPEND, EMU_RESUME };
void emu_on_event(void (*f)(enum emu_event event, int thread, int cause, void *arg), void *arg);

/* Run f(arg) on the calling simulated thread, unseen by the machine: it counts no access, undoes
 * nothing, and no time passes. */
void emu_unseen(void (*f)(void *), void *arg);

/* -------------------------------------------------------- time and ordering */

uint64_t emu_time(void);    /* of the current step; reading it takes no time.  For observers */
uint64_t emu_ticks(void);   /* picoseconds: virtual in a run, real outside */
void emu_work(uint64_t ns); /* the thread computes for so long */
/* The thread executes `n` instructions that access no memory; the description states how long they
 * take. */
void emu_instructions(unsigned n);
/* The thread takes a branch that no processor predicts better than half the time. */
void emu_unpredictable_branch(void);
void emu_pause(void);        /* for a thread that spins: leaves the core to its siblings */
void emu_fence(void);        /* mfence; hwsync */
void emu_fence_others(void); /* emu_fence() in every thread, as membarrier(2) does it */
void emu_fence_light(void);  /* orders all but stores with later loads: nothing on x86; lwsync */

/* Request a line, for reading or for writing, without waiting for it.  If the thread already has as
 * many requests under way as the description allows, it waits for the first of them. */
void emu_prefetch(const void *p, bool to_write);

/* No load from emu_overlap_begin() to emu_overlap_end() depends on another, so the thread's loads
 * overlap, as an out-of-order processor executes them.  Each is issued, and its value read, in
 * program order, and it conflicts and is tracked as always; only the thread does not wait for its
 * line.  emu_overlap_end() waits for the last line.  As many lines may be under way as the
 * description allows, prefetches included; a load that misses while that many are waits for the
 * first of them.  Overlaps do not nest.  An overlap also ends at whatever else waits for loads: a
 * full fence (on POWER a light one too), an atomic read-modify-write, emu_pause(), a system call,
 * and the begin, suspend, resume, end and abort of a transaction. */
void emu_overlap_begin(void);
void emu_overlap_end(void);

/* The same for loads whose order counts, because the first is an acquire load.  An x86 looks ahead
 * over them and keeps their order; on POWER they do not overlap, for isync waits. */
void emu_overlap_begin_in_order(void);

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
	EMU_SELF_CONFLICT,  /* its own suspended store to one of its lines */
	EMU_CAPACITY_READ,
	EMU_CAPACITY_WRITE,
	EMU_EXPLICIT,
	EMU_NESTED,     /* a begin, a suspend or an end where none may be */
	EMU_DISALLOWED, /* a system call */
};

#define EMU_STARTED 0

/* Returns EMU_STARTED; on a machine without transactions, 1 + EMU_DISALLOWED.  After an abort it
 * returns again, as often as that happens: (code of emu_tabort) << 8 | 1 + cause, with registers,
 * stack and memory as they were, even if the function that called it has returned meanwhile
 * (INV-E3). */
uint64_t emu_tbegin(enum emu_tx kind);
void emu_tend(void);
/* POWER: why the last transaction failed, in the bits of TEXASR (Power ISA 3.0B, Book II,
 * 5.3.2). */
uint64_t emu_texasr(void);
/* Abort with `code`, 0..255.  It returns only while suspended, and outside a transaction, where it
 * does nothing. */
void emu_tabort(uint8_t code);
/* Suspend all tracking: loads and stores take effect immediately, and no abort undoes them.  A
 * transaction that is doomed meanwhile runs on until it resumes. */
void emu_tsuspend(void);
void emu_tresume(void);
bool emu_tcheck(void); /* is the transaction doomed? */
/* TSXLDTRK: suspend only the tracking of loads. */
void emu_suspend_loads(void);
void emu_resume_loads(void);

/* -------------------------------------------------------- persistent memory */

/* From now on [base, base + bytes) is persistent memory; its present content is durable, and so is
 * at once what is stored there outside a run.  After EMU_CRASHED it holds what the power failure
 * has left: the seed decides whether a line that was being written back, or lay in a cache, reached
 * the medium (INV-E5). */
void emu_persistent(void *base, size_t bytes);
void emu_persistent_gone(void *base);

/* Begin to write the range's lines back. */
void emu_write_back(const void *start, size_t bytes);
/* Wait until this thread's write-backs have completed. */
void emu_write_back_fence(void);

unsigned emu_line_bytes(void);

/* ---------------------------------------------------------- thread-local data */

/* A variable of which each simulated thread has its own copy, zero at first.  Define one static
 * emu_key for each variable. */
struct emu_key {
	uint32_t index; /* 1 + its place, once it has been used */
};
void *emu_local(struct emu_key *key, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* FUR_EMULATED_H */
