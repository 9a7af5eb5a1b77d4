/* SPDX-License-Identifier: BSD-3-Clause
 *
 * near.c - the host's calls: checks that hold for every back end, and the state of each rank.
 */
#include "near/near.h"
#include "base/error.h"
#include "near/backend.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct near_rank {
	struct near *near;
	unsigned number;
	enum near_state state;
	struct near_fault_report fault;
	const struct near_kernel *kernel;
};

struct near {
	const struct near_backend *backend;
	void *machine;
	struct near_shape shape;
	struct near_rank ranks[];
};

int near_open(const struct near_options *options, struct near_shape *shape, struct near **near)
{
	const struct near_backend *backend = options->backend ? options->backend : &near_threads;
	void *machine;
	struct near_shape its = {0};
	*near = NULL;
	int error = backend->open(options, &its, &machine);
	if (error)
		return error;
	struct near *n = calloc(1, sizeof(*n) + its.ranks * sizeof(n->ranks[0]));
	if (!n) {
		backend->close(machine);
		return fur_fail(FUR_ENOMEM,
		        "no memory for a near-memory machine of %u ranks: use "
		        "fewer",
		        its.ranks);
	}
	n->backend = backend;
	n->machine = machine;
	n->shape = its;
	for (unsigned k = 0; k < its.ranks; k++)
		n->ranks[k] = (struct near_rank){.near = n, .number = k};
	if (shape)
		*shape = its;
	*near = n;
	return 0;
}

struct near_rank *near_rank_of(struct near *near, unsigned number)
{
	return number < near->shape.ranks ? &near->ranks[number] : NULL;
}

/* INV-NM1 */
static int check_rest(const struct near_rank *rank, const char *call)
{
	if (rank->state != NEAR_RUNNING)
		return 0;
	return fur_fail(FUR_EBUSY, "%s: rank %u runs %s: poll until it has ended", call,
	        rank->number, rank->kernel->name);
}

int near_load(struct near_rank *rank, const struct near_kernel *kernel)
{
	const struct near *n = rank->near;
	int error = check_rest(rank, "near_load");
	if (error)
		return error;
	if (kernel->shared_bytes > n->shape.scratch_bytes)
		return fur_fail(FUR_ETOOBIG,
		        "the shared struct of kernel %s has %u bytes, and a scratchpad has %u: "
		        "make it smaller",
		        kernel->name, kernel->shared_bytes, n->shape.scratch_bytes);
	if ((error = n->backend->load(n->machine, rank->number, kernel)))
		return error;
	rank->kernel = kernel;
	rank->state = NEAR_IDLE;
	return 0;
}

/* May the host copy these rows now? */
static int check_copy(const struct near_rank *rank, struct near_copy *c, const char *call)
{
	const struct near_shape *s = &rank->near->shape;
	const bool shared_memory = s->coherent && c->space == NEAR_MEMORY;
	int error = shared_memory ? 0 : check_rest(rank, call);
	if (error)
		return error;
	uint64_t size = s->memory_bytes;
	if (c->space == NEAR_SHARED) {
		if (!rank->kernel)
			return fur_fail(FUR_EINVAL,
			        "%s: rank %u has no kernel, and so no shared struct: call "
			        "near_load() first",
			        call, rank->number);
		size = rank->kernel->shared_bytes;
	}
	if (c->offset > size || c->bytes > size - c->offset)
		return fur_fail(FUR_EINVAL,
		        "%s: %llu bytes at %llu end outside the %llu bytes of the %s: pass a part "
		        "of it",
		        call, (unsigned long long)c->bytes, (unsigned long long)c->offset,
		        (unsigned long long)size,
		        c->space == NEAR_SHARED ? "shared struct" : "memory");
	c->rows = shared_memory ? 1 : s->elements;
	return 0;
}

int near_push(struct near_rank *rank, enum near_space space, uint64_t offset, const void *matrix,
        uint64_t bytes)
{
	struct near_copy c = {.space = space, .offset = offset, .bytes = bytes};
	int error = check_copy(rank, &c, "near_push");
	if (!error && bytes) /* of no bytes, the matrix may be NULL */
		rank->near->backend->push(rank->near->machine, rank->number, &c, matrix);
	return error;
}

int near_pull(struct near_rank *rank, enum near_space space, uint64_t offset, void *matrix,
        uint64_t bytes)
{
	struct near_copy c = {.space = space, .offset = offset, .bytes = bytes};
	int error = check_copy(rank, &c, "near_pull");
	if (!error && bytes)
		rank->near->backend->pull(rank->near->machine, rank->number, &c, matrix);
	return error;
}

int near_launch(struct near_rank *rank, unsigned tasklets)
{
	const struct near *n = rank->near;
	int error = check_rest(rank, "near_launch");
	if (error)
		return error;
	if (!rank->kernel)
		return fur_fail(FUR_EINVAL,
		        "near_launch: rank %u has no kernel: call near_load() first", rank->number);
	if (tasklets == 0 || tasklets > n->shape.tasklets)
		return fur_fail(FUR_EINVAL,
		        "near_launch: %u tasklets an element: the machine has 1 to %u", tasklets,
		        n->shape.tasklets);
	if ((error = n->backend->launch(n->machine, rank->number, tasklets)))
		return error;
	rank->state = NEAR_RUNNING;
	return 0;
}

enum near_state near_poll(struct near_rank *rank, struct near_fault_report *fault)
{
	const struct near *n = rank->near;
	if (rank->state == NEAR_RUNNING) {
		rank->fault = (struct near_fault_report){0};
		rank->state = n->backend->poll(n->machine, rank->number, &rank->fault);
	}
	if (fault)
		*fault = rank->fault;
	return rank->state;
}

void near_count(struct near_rank *rank, struct near_counters *counters)
{
	*counters = (struct near_counters){0};
	rank->near->backend->count(rank->near->machine, rank->number, counters);
}

void near_cycles(struct near_rank *rank, uint64_t *cycles)
{
	const struct near *n = rank->near;
	memset(cycles, 0, n->shape.elements * sizeof *cycles);
	if (n->backend->cycles)
		n->backend->cycles(n->machine, rank->number, cycles);
}

bool near_count_channel(struct near *near, unsigned channel, struct near_channel *counters)
{
	*counters = (struct near_channel){0};
	if (channel >= near->shape.channels)
		return false;
	near->backend->count_channel(near->machine, channel, counters);
	return true;
}

void near_close(struct near *near)
{
	if (!near)
		return;
	for (unsigned k = 0; k < near->shape.ranks; k++)
		while (near_poll(&near->ranks[k], NULL) == NEAR_RUNNING)
			sched_yield();
	near->backend->close(near->machine);
	free(near);
}

const char *near_fault_text(enum near_fault_kind kind)
{
	static const char *const texts[] = {
	        [NEAR_FAULT_NONE] = "no fault",
	        [NEAR_FAULT_KERNEL] = "the kernel reported a fault",
	        [NEAR_FAULT_SCRATCH] = "an access outside the scratchpad",
	        [NEAR_FAULT_MEMORY] = "a transfer outside the memory",
	        [NEAR_FAULT_TRANSFER] = "a transfer of a wrong size or alignment",
	        [NEAR_FAULT_CONSUMED] = "a load of preloaded data before near_wait()",
	        [NEAR_FAULT_OVERWRITTEN] = "scratch changed while a transfer used it",
	        [NEAR_FAULT_RELEASED] = "a release or a barrier before near_wait() for unloads",
	        [NEAR_FAULT_UNFINISHED] = "a return before near_wait() for transfers",
	        [NEAR_FAULT_LOCK] = "a lock that the tasklet does not hold, or that does not exist",
	        [NEAR_FAULT_DEADLOCK] = "every tasklet waits for another one",
	        [NEAR_FAULT_INSTRUCTION] = "an instruction that the machine has not",
	        [NEAR_FAULT_STUCK] = "a tasklet that does not end",
	};
	return (unsigned)kind < sizeof(texts) / sizeof(texts[0]) ? texts[kind] : "unknown fault";
}
