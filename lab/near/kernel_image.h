/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kernel_image.h - a kernel as the host has it: native code, and RV32 images if the build had a
 * compiler for them.  NEAR_KERNEL() of kernel.h defines the first, kernel_images.py the second.
 */
#ifndef FUR_NEAR_KERNEL_IMAGE_H
#define FUR_NEAR_KERNEL_IMAGE_H

#include <stddef.h>
#include <stdint.h>

/* An ELF executable for elements of one instruction set. */
struct near_image {
	const char *isa; /* "rv32i", "rv32im" */
	const unsigned char *elf;
	size_t bytes;
};

struct near_images {
	const char *compiler; /* the compiler and its version; NULL: none was found */
	const struct near_image *images;
	unsigned count;
};

struct near_kernel {
	const char *name;
	uint32_t shared_bytes; /* of its shared struct */
	void (*run)(void *shared);
	const struct near_images *images;
};

#endif /* FUR_NEAR_KERNEL_IMAGE_H */
