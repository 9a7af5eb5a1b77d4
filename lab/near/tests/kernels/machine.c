/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine.c - exercise one part of the machine: its pipeline, its engine, its locks, its faults.
 */
#include "machine.h"

static void compute(struct machine *shared)
{
	uint32_t x = near_me() + 1;
	for (uint32_t k = 0; k < shared->rounds; k++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
	}
	shared->result[near_me()] = x;
}

static void transfer(struct machine *shared)
{
	uint8_t *buffer = shared->buffer[near_me()];
	const uint32_t bytes = shared->bytes, rounds = shared->rounds;
	for (uint32_t k = 0; k < rounds; k++)
		if (shared->work == MACHINE_READ)
			near_local_read(buffer, shared->address, bytes);
		else
			near_local_write(shared->address, buffer, bytes);
}

/* Another rank's element may have the lock's memory: read it, add, and unload it. */
static void add_in_memory(struct machine *shared)
{
	NEAR_ALIGN uint64_t word;
	for (uint32_t k = 0; k < shared->rounds; k++) {
		near_acquire(3);
		near_local_read(&word, shared->address, 8);
		word++;
		near_unload(shared->address, &word, 8);
		if (shared->work == MACHINE_RACE)
			near_wait(NEAR_UNLOADS);
		near_release(3);
		near_wait(NEAR_UNLOADS);
	}
}

static void add_locked(struct machine *shared)
{
	for (uint32_t k = 0; k < shared->rounds; k++) {
		near_acquire(3);
		shared->counter++;
		near_release(3);
	}
}

static void cross(const struct machine *shared)
{
	const uint32_t first = (near_me() + near_element()) % 2;
	near_acquire(first);
	near_barrier();
	near_acquire(1 - first);
	near_release(shared->rounds);
}

static void use_address(struct machine *shared)
{
	volatile uint32_t *word = (volatile uint32_t *)(uintptr_t)shared->address;
	if (shared->work == MACHINE_LOAD)
		shared->result[0] = *word;
	else
		*word = 1;
}

NEAR_KERNEL(machine, struct machine)
{
	volatile uint32_t *work = &shared->work;
	switch (*work) {
	case MACHINE_COMPUTE: compute(shared); break;
	case MACHINE_READ:
	case MACHINE_WRITE: transfer(shared); break;
	case MACHINE_LOCKED: add_locked(shared); break;
	case MACHINE_RACE:
	case MACHINE_RELEASE: add_in_memory(shared); break;
	case MACHINE_CHANGE:
		near_unload(shared->address, shared->buffer[0], 8);
		shared->buffer[0][0]++;
		near_wait(NEAR_UNLOADS);
		break;
	case MACHINE_LEAVE: near_unload(shared->address, shared->buffer[0], 8); break;
	case MACHINE_CROSS: cross(shared); break;
	case MACHINE_FOREIGN:
		if (near_me() == 0 && near_element() == 0)
			near_acquire(2);
		near_barrier();
		if (near_me() == 1)
			near_release(2);
		break;
	case MACHINE_SPIN:
		while (*work == MACHINE_SPIN)
			;
		break;
	default: use_address(shared); break;
	}
}
