/* SPDX-License-Identifier: BSD-3-Clause
 *
 * host_native.cpp - host.hpp on this machine.
 */
#include "host.hpp"

#include "../../tools/common/command_line.hpp"

#include <chrono>
#include <sched.h>

namespace lab
{

void on_host(const std::string &host, unsigned, uint64_t, const std::function<void()> &f)
{
	if (host != "native")
		throw tools::WrongUsage(
		        "--host " + host + ": this program runs on native: use oltpim-emulated");
	f();
}

void aside(const std::function<void()> &f)
{
	f();
}

uint64_t now_ps()
{
	using std::chrono::duration_cast, std::chrono::nanoseconds, std::chrono::steady_clock;
	const auto now = steady_clock::now().time_since_epoch();
	return static_cast<uint64_t>(duration_cast<nanoseconds>(now).count()) * 1000;
}

void prefetch_lines(const void *p, unsigned lines)
{
	for (unsigned k = 0; k < lines; k++)
		__builtin_prefetch(static_cast<const char *>(p) + k * 64);
}

uint64_t fetched_lines()
{
	return 0;
}

void idle()
{
	sched_yield();
}

const near_clock *clock_of_modules()
{
	return nullptr;
}

bool is_native()
{
	return true;
}

} // namespace lab
