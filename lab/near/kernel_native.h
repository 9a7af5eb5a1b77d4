/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kernel_native.h - kernel.h for the host: calls of threads.c.
 */
#ifndef FUR_NEAR_KERNEL_NATIVE_H
#define FUR_NEAR_KERNEL_NATIVE_H

#include "near/kernel_image.h"

#ifdef __cplusplus
extern "C" {
#endif

struct near_place {
	unsigned me, tasklets, element, elements;
};

const struct near_place *near_native_place(void);
void near_native_read(void *to, uint32_t from, uint32_t bytes);
void near_native_write(uint32_t to, const void *from, uint32_t bytes);
void near_native_preload(void *to, uint32_t from, uint32_t bytes);
void near_native_unload(uint32_t to, const void *from, uint32_t bytes);
void near_native_wait(unsigned transfers);
void near_native_acquire(uint32_t bit);
void near_native_release(uint32_t bit);
void near_native_barrier(void);
void near_native_fault(uint32_t code) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif

#define NEAR_KERNEL(name, shared_type)                                                             \
	static void name##_body(shared_type *shared);                                              \
	static void name##_run(void *shared)                                                       \
	{                                                                                          \
		name##_body(shared);                                                               \
	}                                                                                          \
	extern const struct near_images name##_images;                                             \
	extern const struct near_kernel name##_kernel;                                             \
	const struct near_kernel name##_kernel = {                                                 \
	        #name, sizeof(shared_type), name##_run, &name##_images};                           \
	static void name##_body(shared_type *shared)

static inline unsigned near_me(void)
{
	return near_native_place()->me;
}

static inline unsigned near_tasklets(void)
{
	return near_native_place()->tasklets;
}

static inline unsigned near_element(void)
{
	return near_native_place()->element;
}

static inline unsigned near_elements(void)
{
	return near_native_place()->elements;
}

static inline void near_local_read(void *to, uint32_t from, uint32_t bytes)
{
	near_native_read(to, from, bytes);
}

static inline void near_local_write(uint32_t to, const void *from, uint32_t bytes)
{
	near_native_write(to, from, bytes);
}

static inline void near_preload(void *to, uint32_t from, uint32_t bytes)
{
	near_native_preload(to, from, bytes);
}

static inline void near_unload(uint32_t to, const void *from, uint32_t bytes)
{
	near_native_unload(to, from, bytes);
}

static inline void near_wait(unsigned transfers)
{
	near_native_wait(transfers);
}

static inline void near_acquire(uint32_t bit)
{
	near_native_acquire(bit);
}

static inline void near_release(uint32_t bit)
{
	near_native_release(bit);
}

static inline void near_barrier(void)
{
	near_native_barrier();
}

static inline __attribute__((noreturn)) void near_fault(uint32_t code)
{
	near_native_fault(code);
}

#endif /* FUR_NEAR_KERNEL_NATIVE_H */
