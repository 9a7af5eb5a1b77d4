/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory_functions.h - included before everything else in what runs on the machine: memcpy, memmove
 * and memset, which the compiler does not instrument, also where it makes the calls itself, are the
 * machine's (instrument.cpp).
 */
#ifndef FUR_EMULATED_MEMORY_FUNCTIONS_H
#define FUR_EMULATED_MEMORY_FUNCTIONS_H

#ifdef __cplusplus
extern "C" {
#define EMU_THROWS_NOTHING noexcept(true)
#else
#define EMU_THROWS_NOTHING
#endif

void *memcpy(void *to, const void *from, __SIZE_TYPE__ bytes) EMU_THROWS_NOTHING
        __asm__("emu_memcpy");
void *memmove(void *to, const void *from, __SIZE_TYPE__ bytes) EMU_THROWS_NOTHING
        __asm__("emu_memmove");
void *memset(void *to, int c, __SIZE_TYPE__ bytes) EMU_THROWS_NOTHING __asm__("emu_memset");

#ifdef __cplusplus
}
#endif

#endif /* FUR_EMULATED_MEMORY_FUNCTIONS_H */
