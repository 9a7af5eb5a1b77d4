/* SPDX-License-Identifier: BSD-3-Clause
 *
 * claims.hpp - claims.h for programs in C++.
 */
#ifndef LAB_CLAIMS_HPP
#define LAB_CLAIMS_HPP

#include "internals.hpp"

#define _Static_assert static_assert /* NOLINT */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* C lets a function and a struct share a name */
extern "C" {
#include "claims/claims.h"
}
#pragma GCC diagnostic pop
#undef _Static_assert

#endif /* LAB_CLAIMS_HPP */
