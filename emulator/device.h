/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device.h - what the emulation of a device asks of the emulated machine (emulated.h) on which the
 * device's host runs: the time of the thread that calls the device, and to let that time pass.
 *
 * The device's own code is not simulated (emu_unseen).  It says when a call of the host ends, and
 * the calling thread waits until then; the other threads run meanwhile.
 */
#ifndef FUR_EMULATED_DEVICE_H
#define FUR_EMULATED_DEVICE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The thread reaches its device: all its stores are performed, so that the device reads them, and
 * the threads that are behind in time have run, so that the device meets the threads' calls in the
 * order of their times.  Returns the time in picoseconds, as emu_ticks() does; outside a simulation
 * 0.  Not in a hardware transaction. */
uint64_t emu_device_enter(void);

/* The thread is busy with its device until this time: on a core, which it does not leave, and not
 * slowed down by the core's other threads, for it waits for the device.  Outside a simulation, and
 * for a time that has passed, nothing. */
void emu_device_until(uint64_t ps);

#ifdef __cplusplus
}
#endif

#endif /* FUR_EMULATED_DEVICE_H */
