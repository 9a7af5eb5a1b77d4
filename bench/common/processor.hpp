/* SPDX-License-Identifier: BSD-3-Clause
 *
 * processor.hpp - the name of this machine's processor, for results.
 */
#ifndef BENCH_PROCESSOR_HPP
#define BENCH_PROCESSOR_HPP

#include <fstream>
#include <string>
#include <sys/utsname.h>

namespace bench
{

/* The model where the kernel tells it, otherwise the kind of processor. */
inline std::string processor()
{
	struct utsname system;
	std::string model = uname(&system) ? "" : system.machine;
	std::ifstream cpuinfo("/proc/cpuinfo");
	for (std::string line; std::getline(cpuinfo, line);)
		if (line.compare(0, 10, "model name") == 0 && line.find(": ") != std::string::npos)
			model = line.substr(line.find(": ") + 2);
	return model;
}

} // namespace bench

#endif /* BENCH_PROCESSOR_HPP */
