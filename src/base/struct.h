/* SPDX-License-Identifier: BSD-3-Clause
 *
 * struct.h - structs of the caller's, such as fur_options and fur_stats, which later releases may
 * make longer.  The rule is in fur.h, "Structs that grow".
 *
 *   INV-G1  New fields are added at the end.  In each of them, zero means that the library behaves
 *           as it did before it had the field.
 *   INV-G2  The library reads and writes no byte of the caller's struct beyond its `size`.
 */
#ifndef FUR_STRUCT_H
#define FUR_STRUCT_H

#include <fur.h>
#include <fur_group.h>
#include <fur_ship.h>

/* Their sizes in the first release, the shortest that a program can have.  They never change. */
enum {
	FUR_OPTIONS_LEAST_BYTES = 104,
	FUR_INFO_LEAST_BYTES = 408,
	FUR_STATS_LEAST_BYTES = 248,
	FUR_RUN_LEAST_BYTES = 24,
	FUR_FOLLOW_OPTIONS_LEAST_BYTES = 40,
	FUR_FOLLOW_STATE_LEAST_BYTES = 360,
	FUR_GROUP_OPTIONS_LEAST_BYTES = 24
};
_Static_assert(
        FUR_OPTIONS_LEAST_BYTES == offsetof(struct fur_options, dram_bytes) + sizeof(uint64_t),
        "INV-G1");
_Static_assert(
        FUR_INFO_LEAST_BYTES == offsetof(struct fur_info, replay_ns) + sizeof(uint64_t), "INV-G1");
_Static_assert(
        FUR_STATS_LEAST_BYTES == offsetof(struct fur_stats, bytes_handed_back) + sizeof(uint64_t),
        "INV-G1");

_Static_assert(FUR_RUN_LEAST_BYTES == sizeof(struct fur_run), "INV-G1");
_Static_assert(FUR_FOLLOW_OPTIONS_LEAST_BYTES == sizeof(struct fur_follow_options), "INV-G1");
_Static_assert(
        FUR_GROUP_OPTIONS_LEAST_BYTES == offsetof(struct fur_group_options, workers), "INV-G1");
_Static_assert(FUR_FOLLOW_STATE_LEAST_BYTES == sizeof(struct fur_follow_state), "INV-G1");

/* A caller's struct: its name, for messages; its address; the shortest size it may have. */
struct fur_struct {
	const char *name;
	void *given;
	size_t least_bytes;
};

/* Copy the caller's struct over `ours`, which contains the defaults.   Errors: FUR_EINVAL. */
FUR_MUST_USE int fur_struct_take(const struct fur_struct *s, void *ours, size_t our_bytes);

/* fur_run_take - the same for a fur_run, which may be NULL.  Programs store one just before each
 * transaction.  So a struct of this release's size is read member by member: a load of several
 * members would wait until the stores are in the cache, and so for all stores before them.
 * bench/containers has the price: 100 ns a put. */
FUR_MUST_USE int fur_run_take_other(const struct fur_run *given, struct fur_run *ours);
FUR_MUST_USE static inline int fur_run_take(const struct fur_run *given, struct fur_run *ours)
{
	if (given && given->size == sizeof *given) {
		/* Volatile: compilers would join the two loads. */
		ours->ticket = *(fur_ticket *const volatile *)&given->ticket;
		ours->leave = *(void (*const volatile *)(void)) & given->leave;
		return 0;
	}
	return given ? fur_run_take_other(given, ours) : 0;
}

/* Copy `ours` to the caller's struct, and set its `size` to the number of bytes copied.
 * Errors: FUR_EINVAL. */
FUR_MUST_USE int fur_struct_give(const struct fur_struct *s, const void *ours, size_t our_bytes);

#endif /* FUR_STRUCT_H */
