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
#include "api/attach.h"
#include "api/heap.h"
#include "api/struct.h"
#include "htm/active.h"
#include "media/heap_layout.h"
#include "replay/apply.h"
}
#pragma GCC diagnostic pop
#undef _Static_assert

#endif /* INTERNALS_HPP */
