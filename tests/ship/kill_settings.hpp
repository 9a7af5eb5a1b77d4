/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kill_settings.hpp - the command line of tests that kill processes again and again.
 */
#ifndef KILL_SETTINGS_HPP
#define KILL_SETTINGS_HPP

#include <cstdint>
#include <cstdlib>
#include <getopt.h>
#include <string>

namespace ship_test
{

struct Settings {
	uint64_t count = 0, seed = 1;
	std::string log, directory = "/dev/shm", programs;
	bool verbose = false;
};

/* `name` is the option that says how often; without it, `count` times. */
inline Settings settings_of(int argc, char **argv, const char *name, uint64_t count)
{
	const option options[] = {{name, required_argument, nullptr, 'n'},
	        {"seed", required_argument, nullptr, 's'}, {"log", required_argument, nullptr, 'l'},
	        {"directory", required_argument, nullptr, 'd'},
	        {"programs", required_argument, nullptr, 'p'},
	        {"verbose", no_argument, nullptr, 'v'}, {}};
	Settings s;
	s.count = count;
	const std::string self = argv[0];
	s.programs = self.substr(0, self.rfind('/') + 1) + "../..";
	for (int c; (c = getopt_long(argc, argv, "", options, nullptr)) != -1;) {
		if (c == 'n')
			s.count = strtoull(optarg, nullptr, 10);
		else if (c == 's')
			s.seed = strtoull(optarg, nullptr, 10);
		else if (c == 'l')
			s.log = optarg;
		else if (c == 'd')
			s.directory = optarg;
		else if (c == 'p')
			s.programs = optarg;
		else if (c == 'v')
			s.verbose = true;
		else
			exit(2);
	}
	return s;
}

} // namespace ship_test

#endif
