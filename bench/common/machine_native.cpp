/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine_native.cpp - machine.hpp for this processor: another machine is another program.
 */
#include "driver.hpp"

#include <filesystem>
#include <unistd.h>

namespace bench
{

int on_machine(Options &o, char **argv, const std::function<int(Options &)> &run)
{
	if (o.machine == "native" && (o.tm == "fur-paper" || o.tm == "spht-sihtm"))
		throw Usage("--tm " + o.tm + " is POWER's: use --machine power9");
	if (o.machine == "native")
		return run(o);
	std::error_code none;
	std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", none);
	std::string other = self.string() + (o.tm == "fur-paper" ? "-fur-paper" : "-emulated");
	execv(other.c_str(), argv);
	throw Usage("--machine " + o.machine + ": " + other +
	            " is not there: build with -Demulated=enabled (needs Boost.Context and "
	            "toml++), or use native");
}

const char *machine_htm()
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("rtm") ? "tsx" : nullptr;
#else
	return nullptr;
#endif
}

bool to_agent()
{
	return false;
}

unsigned agent_threads()
{
	return 0;
}

const char *home_side()
{
	return "host";
}

void spin()
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

void aside(const std::function<void()> &f)
{
	f();
}

} // namespace bench
