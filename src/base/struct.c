/* SPDX-License-Identifier: BSD-3-Clause
 *
 * struct.c - copy between the caller's structs and the library's, which may be longer or shorter.
 */
#include "base/struct.h"
#include "base/error.h"

/* No release will have a longer struct, so a larger number cannot be a size. */
enum { MOST_BYTES = 4096 };

static int check_size(const struct fur_struct *s, size_t *bytes)
{
	FUR_ASSERT(s->least_bytes >= sizeof(size_t) && s->least_bytes <= MOST_BYTES);
	if (!s->given)
		return fur_fail(FUR_EINVAL, "struct %s must not be NULL", s->name);
	memcpy(bytes, s->given, sizeof *bytes);
	if (*bytes >= s->least_bytes && *bytes <= MOST_BYTES)
		return 0;
	return fur_fail(FUR_EINVAL, "%s.size is %zu: set it to sizeof(struct %s)%s", s->name,
	        *bytes, s->name,
	        strcmp(s->name, "fur_options") ? "" : ", as fur_options_init() does");
}

/* INV-G2, as in fur_struct_give(). */
int fur_struct_take(const struct fur_struct *s, void *ours, size_t our_bytes)
{
	size_t bytes = 0;
	int error = check_size(s, &bytes);
	if (error)
		return error;
	const uint8_t *given = s->given;
	for (size_t k = our_bytes; k < bytes; k++)
		if (given[k])
			return fur_fail(FUR_EINVAL,
			        "%s has an option at byte %zu that this library does not know: "
			        "leave it at zero, "
			        "or run with the library the program was built for",
			        s->name, k);
	memcpy(ours, given, bytes < our_bytes ? bytes : our_bytes);
	memcpy(ours, &our_bytes, sizeof our_bytes);
	return 0;
}

int fur_run_take_other(const struct fur_run *given, struct fur_run *ours)
{
	const struct fur_struct theirs = {"fur_run", (void *)(uintptr_t)given, FUR_RUN_LEAST_BYTES};
	return fur_struct_take(&theirs, ours, sizeof *ours);
}

int fur_struct_give(const struct fur_struct *s, const void *ours, size_t our_bytes)
{
	size_t bytes = 0;
	int error = check_size(s, &bytes);
	if (error)
		return error;
	size_t told = bytes < our_bytes ? bytes : our_bytes;
	memset(s->given, 0, bytes);
	memcpy(s->given, ours, told);
	memcpy(s->given, &told, sizeof told);
	return 0;
}
