/* SPDX-License-Identifier: BSD-3-Clause
 *
 * near_host.h - the clock of a host that is an emulated machine (emulator/emulated.h): calls of
 * near.h take the time of the simulated threads that make them.
 *
 *     struct near_options o = {.backend = &near_emulated, .clock = &near_host_clock};
 *
 * A thread that calls is busy until the call ends, on its core; the other threads run meanwhile.
 * Ranks whose memory is on one channel wait for each other's copies.  Only the bytes that a copy
 * moves take time, not the caches of the host's cores: a matrix is as far away after a pull as
 * before it.
 */
#ifndef FUR_NEAR_HOST_H
#define FUR_NEAR_HOST_H

#include "near/near.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct near_clock near_host_clock;

#ifdef __cplusplus
}
#endif

#endif /* FUR_NEAR_HOST_H */
