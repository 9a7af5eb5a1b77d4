/* SPDX-License-Identifier: BSD-3-Clause
 *
 * near.h - a near-memory machine, as its host sees it.
 *
 * The machine has ranks, which the host controls independently.  A rank has elements: small
 * processors, each with tasklets (threads of hardware), a scratchpad, and memory next to it.  The
 * host loads a kernel (near/kernel.h) into a rank, pushes data, launches the kernel on all elements
 * of the rank, polls until it has ended, and pulls results.
 *
 * Back ends: near_threads runs the kernels' native code on threads of this process; it does
 * everything but speed.  near_emulated (folder emulated) interprets the kernels' RV32 code in
 * virtual time, on a machine that a file describes.
 *
 * The memory of a machine is either exclusive or coherent:
 *   exclusive  each element has memory of its own.  An element's transfers wait for their data; its
 *              tasklets are the overlap.  Locks and barriers are those of one element.
 *   coherent   the elements of a rank share one memory.  Transfers of an element's engine overlap
 *              with its computation.  Locks and barriers are those of the whole rank.
 *
 *   INV-NM1  The host touches no memory of a rank that runs: while a kernel runs on the rank,
 *            load, push, pull and launch fail with FUR_EBUSY and change nothing.  A rank runs from
 *            near_launch() until near_poll() has reported its end.  Coherent memory is excepted:
 *            its NEAR_MEMORY may be pushed and pulled at any time.
 *
 * Calls for one rank must not overlap; for different ranks they may.  Functions return 0 or a
 * negative FUR_E* code, with a message for fur_errormsg().
 */
#ifndef FUR_NEAR_H
#define FUR_NEAR_H

#include "near/kernel_image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct near;
struct near_rank;
struct near_backend;

extern const struct near_backend near_threads;  /* machines: "exclusive", "coherent" */
extern const struct near_backend near_emulated; /* machines: see emulator/machines; or a path.
                                                 * "NAME:MEMORY" chooses one of its memories */

/* The time of a host that is simulated too (emulated/near_host.h).  A call then takes the time of
 * the thread that makes it; without a clock, each rank has a host of its own, whose time only the
 * rank's calls take. */
struct near_clock {
	uint64_t (*enter)(void);                      /* the caller's time, in picoseconds */
	void (*until)(uint64_t ps);                   /* the caller is busy until then */
	void (*unseen)(void (*f)(void *), void *arg); /* f(arg) takes no time */
};

/* A value of 0 stands for the machine's own. */
struct near_options {
	const struct near_backend *backend; /* NULL: near_threads */
	const char *machine;                /* NULL: the back end's first */
	unsigned ranks, elements;           /* at most the machine's own; elements of a rank */
	uint64_t memory_bytes;              /* at most the machine's own */
	unsigned host_threads;      /* of this process, to run elements; no result depends on it */
	uint64_t most_instructions; /* a tasklet that runs more is faulty; emulated only */
	const struct near_clock *clock; /* NULL: the ranks' own; emulated only */
};

struct near_shape {
	unsigned ranks, elements, tasklets; /* elements of a rank; most tasklets of an element */
	bool coherent;
	uint64_t memory_bytes; /* of an element; coherent: of a rank */
	uint32_t scratch_bytes;
	uint32_t transfer_align, transfer_most; /* of addresses and sizes; bytes of a transfer */
	uint32_t locks;                         /* bits for near_acquire() */
	unsigned channels; /* of memory, to the host; rank k is on channel k % channels.  0: none */
	double mhz;
};

/* Where the host pushes to and pulls from. */
enum near_space {
	NEAR_MEMORY, /* the memory that near_local_read() reads */
	NEAR_SHARED, /* the kernel's shared struct, in each element's scratchpad */
};

enum near_state {
	NEAR_IDLE, /* nothing was launched since the kernel was loaded */
	NEAR_RUNNING,
	NEAR_DONE,    /* all tasklets have returned */
	NEAR_FAULTED, /* one broke a rule; the others were stopped */
};

enum near_fault_kind {
	NEAR_FAULT_NONE,
	NEAR_FAULT_KERNEL,      /* near_fault(); `address` is its code */
	NEAR_FAULT_SCRATCH,     /* a load or store outside the scratchpad */
	NEAR_FAULT_MEMORY,      /* a transfer outside the memory */
	NEAR_FAULT_TRANSFER,    /* a transfer of a size or an alignment that the engine lacks */
	NEAR_FAULT_CONSUMED,    /* a load from a preload's target before near_wait() */
	NEAR_FAULT_OVERWRITTEN, /* scratch that a transfer uses was changed before near_wait() */
	NEAR_FAULT_RELEASED,   /* near_release() or near_barrier() before near_wait() for unloads */
	NEAR_FAULT_UNFINISHED, /* a return before near_wait() for transfers */
	NEAR_FAULT_LOCK,     /* a lock that the machine lacks, or that the tasklet does not hold */
	NEAR_FAULT_DEADLOCK, /* every tasklet waits for another one */
	NEAR_FAULT_INSTRUCTION, /* the machine has no such instruction */
	NEAR_FAULT_STUCK,       /* more instructions than near_options.most_instructions */
};

struct near_fault_report {
	enum near_fault_kind kind;
	unsigned element, tasklet;
	uint32_t address; /* of the kernel's memory or scratchpad; or a code */
	uint32_t pc;      /* of the instruction; 0 where the kernel is native code */
};

/* What a rank has counted since its kernel was loaded.  Only the emulated back end has times and
 * instructions; elsewhere they are 0. */
struct near_counters {
	uint64_t launches;
	uint64_t instructions;                 /* of all elements */
	uint64_t transfers, transferred_bytes; /* between memory and scratchpads */
	uint64_t cycles;                       /* of the slowest element, added up over launches */
	uint64_t kernel_ps;                    /* the same, as time */
	uint64_t pushed_bytes, pulled_bytes;
	uint64_t push_ps, pull_ps, switch_ps, poll_ps; /* the host's time for calls */
	uint64_t channel_ps; /* of that, waits for other ranks' copies on the rank's channel */
	uint64_t host_ps;    /* the virtual time of the rank's host */
	uint32_t program_instructions; /* of the loaded kernel */
	uint32_t static_bytes;         /* of the scratchpad, without stacks */
};

/* What a memory channel has carried since near_open(). */
struct near_channel {
	uint64_t written_bytes, read_bytes; /* pushed and pulled */
	uint64_t control_bytes;             /* launches, polls, and handing memory over */
	uint64_t busy_ps;                   /* carrying them */
};

/* near_open - make a machine.
 * Errors: FUR_EINVAL (no such machine, a bad description, too many of something), FUR_ENOMEM. */
int near_open(const struct near_options *options, struct near_shape *shape, struct near **near);

/* near_rank_of - the rank of that number, or NULL if the machine has fewer. */
struct near_rank *near_rank_of(struct near *near, unsigned number);

/* near_load - load a kernel into all elements of the rank.  Zeroes the shared structs and counters,
 * and leaves the memory as it is.
 * Errors: FUR_EBUSY (INV-NM1), FUR_ETOOBIG (the kernel does not fit the program memory or the
 * scratchpad), FUR_ENOENT (it was built without a compiler for the machine). */
int near_load(struct near_rank *rank, const struct near_kernel *kernel);

/* near_push - store `bytes` of a matrix to each element, at `offset` of the space.  Row k, at
 * matrix + k * bytes, belongs to element k.  Coherent memory has one row.
 * Errors: FUR_EBUSY (INV-NM1), FUR_EINVAL (no kernel is loaded, or outside the space). */
int near_push(struct near_rank *rank, enum near_space space, uint64_t offset, const void *matrix,
        uint64_t bytes);

/* near_launch - run the kernel on all elements of the rank, with this many tasklets each.  Does not
 * wait.
 * Errors: FUR_EBUSY (INV-NM1), FUR_EINVAL (no kernel, or too many tasklets), FUR_ETOOBIG (no room
 * for their stacks), FUR_ENOMEM. */
int near_launch(struct near_rank *rank, unsigned tasklets);

/* near_poll - the rank's state, and if that is NEAR_FAULTED, what went wrong: the first fault of
 * the element of the lowest number that has one.  Does not wait: on near_emulated each call takes
 * virtual time. */
enum near_state near_poll(struct near_rank *rank, struct near_fault_report *fault);

/* near_pull - the reverse of near_push(), with its errors. */
int near_pull(struct near_rank *rank, enum near_space space, uint64_t offset, void *matrix,
        uint64_t bytes);

/* near_count - read the counters.  Of a rank that runs they are those of before the launch. */
void near_count(struct near_rank *rank, struct near_counters *counters);

/* near_cycles - the cycles that each element took in the last launch that has ended: one number for
 * each, 0 without a launch, and on near_threads. */
void near_cycles(struct near_rank *rank, uint64_t *cycles);

/* near_count_channel - read the counters of a memory channel.  False, and all 0, if the machine has
 * no such channel. */
bool near_count_channel(struct near *near, unsigned channel, struct near_channel *counters);

/* near_close - wait for kernels that run, and free everything.  NULL is allowed. */
void near_close(struct near *near);

/* The fault in words, for messages: a constant string. */
const char *near_fault_text(enum near_fault_kind kind);

#ifdef __cplusplus
}
#endif

#endif /* FUR_NEAR_H */
