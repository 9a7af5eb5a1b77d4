/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory_functions.h - included before everything else in code that runs on the machine.  The
 * compiler instruments neither calls of memcpy, memmove and memset nor those that it adds itself;
 * these names send them all to the machine (instrument.cpp), and prefetches too.  So do the marks
 * of loads that overlap (emulated.h) in inline functions of libfur's headers.
 */
#ifndef FUR_EMULATED_MEMORY_FUNCTIONS_H
#define FUR_EMULATED_MEMORY_FUNCTIONS_H

#ifdef __cplusplus
extern "C" {
#define EMU_THROWS_NOTHING noexcept(true)
#define EMU_BOOL           bool
#else
#define EMU_THROWS_NOTHING
#define EMU_BOOL _Bool
#endif

void *memcpy(void *to, const void *from, __SIZE_TYPE__ bytes) EMU_THROWS_NOTHING
        __asm__("emu_memcpy");
void *memmove(void *to, const void *from, __SIZE_TYPE__ bytes) EMU_THROWS_NOTHING
        __asm__("emu_memmove");
void *memset(void *to, int c, __SIZE_TYPE__ bytes) EMU_THROWS_NOTHING __asm__("emu_memset");
void emu_prefetch(const void *p, EMU_BOOL to_write);
void emu_overlap_begin_in_order(void);
void emu_overlap_end(void);
#define FUR_OVERLAP_BEGIN()            emu_overlap_begin_in_order()
#define FUR_OVERLAP_END()              emu_overlap_end()
#define EMU_PREFETCH(p, to_write, ...) emu_prefetch(p, to_write)
#define __builtin_prefetch(...)        EMU_PREFETCH(__VA_ARGS__, 0, 0)

#ifdef __cplusplus
}
#endif

#endif /* FUR_EMULATED_MEMORY_FUNCTIONS_H */
