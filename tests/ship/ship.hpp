/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ship.hpp - the headers of src/ship, which are C, for tests, which are C++.
 */
#ifndef SHIP_HPP
#define SHIP_HPP

#include <fur.h>
#include <stddef.h>

#define _Static_assert static_assert /* NOLINT */
extern "C" {
#include "ship/drive.h"
#include "ship/engine_file.h"
#include "ship/follow.h"
}
#undef _Static_assert

#endif
