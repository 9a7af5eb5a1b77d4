/* SPDX-License-Identifier: BSD-3-Clause
 *
 * operators_object.c - operators for tests, good and bad ones.
 */
#include <fur_operator.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct add_arg {
	uint64_t add;
	uint64_t skip; /* one record in `skip` stays as it is; 0: none */
	uint64_t us;   /* how long each call takes */
};

/* Add to each byte, so that records may have any size. */
static bool add(void *copy, size_t bytes, uint64_t number, void *arg)
{
	const struct add_arg *a = arg;
	uint8_t *byte = copy;
	if (a->us)
		usleep((unsigned)a->us);
	if (a->skip && number % a->skip == 0)
		return false;
	for (size_t k = 0; k < bytes; k++)
		byte[k] = (uint8_t)(byte[k] + a->add + number % 7);
	return true;
}

/* The first 8 bytes become the number, plus one. */
static bool count(void *copy, size_t bytes, uint64_t number, void *arg)
{
	const uint64_t value = number + 1;
	(void)bytes, (void)arg;
	memcpy(copy, &value, 8);
	return true;
}

/* Records from 100 on are bad. */
static bool crash(void *copy, size_t bytes, uint64_t number, void *arg)
{
	(void)bytes, (void)arg;
	if (number == 100)
		*(volatile int *)8 = 1; /* NOLINT */
	memset(copy, 1, 1);
	return true;
}
static bool trap(void *copy, size_t bytes, uint64_t number, void *arg)
{
	(void)copy, (void)bytes, (void)arg;
	if (number == 100)
		__builtin_trap();
	return true;
}
static bool beyond(void *copy, size_t bytes, uint64_t number, void *arg)
{
	((volatile uint8_t *)copy)[number == 100 ? bytes : 0] = 9;
	(void)arg;
	return true;
}
/* Each adds to all bytes, but a record `arg->skip` is bad. */
static bool add_late(void *copy, size_t bytes, uint64_t number, const struct add_arg *a)
{
	struct add_arg all = {.add = a->add};
	return add(copy, bytes, number, &all);
}
static bool crash_late(void *copy, size_t bytes, uint64_t number, void *arg)
{
	if (number == ((struct add_arg *)arg)->skip)
		*(volatile int *)8 = 1; /* NOLINT */
	return add_late(copy, bytes, number, arg);
}
static bool beyond_late(void *copy, size_t bytes, uint64_t number, void *arg)
{
	if (number == ((struct add_arg *)arg)->skip)
		((volatile uint8_t *)copy)[bytes] = 9;
	return add_late(copy, bytes, number, arg);
}
/* Read beyond the end of a file that is mapped: SIGBUS. */
static bool bus_late(void *copy, size_t bytes, uint64_t number, void *arg)
{
	if (number == ((struct add_arg *)arg)->skip) {
		const int fd = memfd_create("empty", MFD_CLOEXEC);
		volatile uint8_t *at = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
		*(uint8_t *)copy = *at;
	}
	return add_late(copy, bytes, number, arg);
}
static bool bus(void *copy, size_t bytes, uint64_t number, void *arg)
{
	struct add_arg at_100 = {.add = 1, .skip = 100};
	(void)arg;
	return bus_late(copy, bytes, number, &at_100);
}
static bool plus(void *copy, size_t bytes, uint64_t number, void *arg)
{
	(void)bytes, (void)number;
	*(uint64_t *)copy += ((struct add_arg *)arg)->add;
	return true;
}
static bool before(void *copy, size_t bytes, uint64_t number, void *arg)
{
	uint8_t *at = copy;
	(void)bytes, (void)arg;
	*(volatile uint8_t *)(number == 100 ? at - 1 : at) = 9;
	return true;
}
static bool deep(void *copy, size_t bytes, uint64_t number, void *arg)
{
	volatile uint8_t room[4096];
	room[number % sizeof room] = 1;
	/* Without an end for record 100. */
	return number < 100 || (deep(copy, bytes, number, arg) && room[0]);
}
static bool die(void *copy, size_t bytes, uint64_t number, void *arg)
{
	(void)copy, (void)bytes, (void)arg;
	if (number == 100)
		abort();
	memset(copy, 9, bytes);
	return true;
}
static bool leave(void *copy, size_t bytes, uint64_t number, void *arg)
{
	(void)copy, (void)bytes, (void)arg;
	if (number == 100)
		pthread_exit(NULL);
	memset(copy, 9, bytes);
	return true;
}
extern FUR_API int operators_hanging;
int operators_hanging;
static bool hang(void *copy, size_t bytes, uint64_t number, void *arg)
{
	(void)copy, (void)bytes, (void)arg;
	__atomic_store_n(&operators_hanging, 1, __ATOMIC_RELEASE);
	while (number < UINT64_MAX)
		pause();
	return false;
}

static const struct fur_operator all[] = {{"add", add}, {"count", count}, {"crash", crash},
        {"trap", trap}, {"beyond", beyond}, {"before", before}, {"deep", deep}, {"die", die},
        {"leave", leave}, {"hang", hang}, {"crash_late", crash_late}, {"beyond_late", beyond_late},
        {"bus_late", bus_late}, {"bus", bus}, {"plus", plus}};
FUR_OPERATORS(all)
