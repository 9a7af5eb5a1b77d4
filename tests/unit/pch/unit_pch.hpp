/* SPDX-License-Identifier: BSD-3-Clause
 *
 * unit_pch.hpp - what nearly every unit test includes, compiled once for all of them.  A test still
 * includes what it needs.
 */
#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fur/root.hpp>
