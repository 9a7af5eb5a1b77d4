/* SPDX-License-Identifier: BSD-3-Clause
 *
 * usage.hpp - wrong usage: one line, and the exit status of the tools.
 */
#ifndef TOOLS_USAGE_HPP
#define TOOLS_USAGE_HPP

#include <CLI/CLI.hpp>
#include <iostream>

enum { EXIT_WRONG_USAGE = 2 };

/* What the parser could not make sense of; or what it was asked to print. */
inline int end_of_parsing(const CLI::App &app, const CLI::ParseError &e)
{
	if (e.get_exit_code() == 0)
		return app.exit(e);
	std::cerr << app.get_name() << ": " << e.what() << "; see --help\n";
	return EXIT_WRONG_USAGE;
}

#endif /* TOOLS_USAGE_HPP */
