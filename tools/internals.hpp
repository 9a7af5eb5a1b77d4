/* SPDX-License-Identifier: BSD-3-Clause
 *
 * internals.hpp - the library's internal headers, C, for tools in C++.
 */
#ifndef TOOLS_INTERNALS_HPP
#define TOOLS_INTERNALS_HPP

#include <fur.h>
#include <pthread.h>
#include <stddef.h>

#define _Static_assert static_assert /* NOLINT */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* C lets a function and a struct share a name */
extern "C" {
#include "alloc/alloc.h"
#include "base/error.h"
#include "file/heap_file.h"
#include "media/heap_layout.h"
#include "replay/inspect.h"
}
#pragma GCC diagnostic pop
#undef _Static_assert

#endif /* TOOLS_INTERNALS_HPP */
