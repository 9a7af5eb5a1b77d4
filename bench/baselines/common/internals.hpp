/* SPDX-License-Identifier: BSD-3-Clause
 *
 * internals.hpp - the parts of libfur the baselines share with it: the processor, the persistence
 * domain with its emulated latencies, and what to do after a hardware abort.
 */
#ifndef BASELINES_INTERNALS_HPP
#define BASELINES_INTERNALS_HPP

#include <fur.h>
#include <pthread.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* C lets a function and a struct share a name */
extern "C" {
#include "htm/policy.h"
#include "pm/pm.h"
}
#pragma GCC diagnostic pop

#endif /* BASELINES_INTERNALS_HPP */
