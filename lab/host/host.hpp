/* SPDX-License-Identifier: BSD-3-Clause
 *
 * host.hpp - where the host's threads of a benchmark run: this machine (host_native.cpp), or an
 * emulated one (host_emulated.cpp).
 */
#ifndef LAB_HOST_HPP
#define LAB_HOST_HPP

#include "near/near.h"

#include <cstdint>
#include <functional>
#include <string>

namespace lab
{

/* Run f on the host of that name, or described by that file, with this many threads.  Throws
 * tools::WrongUsage. */
void on_host(
        const std::string &host, unsigned threads, uint64_t seed, const std::function<void()> &f);
/* Prepare data: on an emulated host no time passes. */
void aside(const std::function<void()> &f);
uint64_t now_ps();
void prefetch_lines(const void *p, unsigned lines);
/* Lines that the host has fetched from its memory so far; on a native host 0 */
uint64_t fetched_lines();
/* A turn of a loop with nothing to do */
void idle();
/* Of calls to modules; NULL: their own */
const near_clock *clock_of_modules();
/* Is time real? */
bool is_native();

} // namespace lab

#endif /* LAB_HOST_HPP */
