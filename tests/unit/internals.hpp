/* SPDX-License-Identifier: BSD-3-Clause
 *
 * internals.hpp - the library's internal headers, C, for tests in C++.
 */
#ifndef INTERNALS_HPP
#define INTERNALS_HPP

#include <pthread.h>

#define _Static_assert static_assert
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* C lets a function and a struct share a name */
extern "C" {
#include "../../src/fur_heap.h"
#include "../../src/fur_struct.h"
#include "../../src/heap/layout.h"
#include "../../src/replayer/apply.h"
}
#pragma GCC diagnostic pop
#undef _Static_assert

#endif /* INTERNALS_HPP */
