/* SPDX-License-Identifier: BSD-3-Clause
 *
 * near_host.c - the clock of a host that is an emulated machine.
 */
#include "near_host.h"
#include "../../../emulator/device.h"
#include "../../../emulator/emulated.h"

const struct near_clock near_host_clock = {
        .enter = emu_device_enter,
        .until = emu_device_until,
        .unseen = emu_unseen,
};
