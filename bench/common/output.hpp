/* SPDX-License-Identifier: BSD-3-Clause
 *
 * output.hpp - where a benchmark writes: a directory of its own, and the file of its result.
 */
#ifndef BENCH_OUTPUT_HPP
#define BENCH_OUTPUT_HPP

#include "../../tools/common/json.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>

namespace bench
{

/* A directory that the run has made.  At its end it is removed, with all that is in it. */
class Directory
{
public:
	explicit Directory(std::string path) : path_(std::move(path)) {}
	~Directory()
	{
		std::error_code ignored;
		std::filesystem::remove_all(path_, ignored);
	}
	Directory(const Directory &) = delete;
	const std::string &path() const
	{
		return path_;
	}

private:
	std::string path_;
};

/* To the file; "-" is standard output.  Throws std::runtime_error. */
inline void write_json(const std::string &file, const tools::Json &out)
{
	if (file == "-") {
		std::cout << out.dump(2) << "\n";
		return;
	}
	std::ofstream to(file);
	to << out.dump(2) << "\n" << std::flush;
	if (!to)
		throw std::runtime_error("cannot write " + file + ": " + strerror(errno) +
		                         ": name a file that can be written");
}

} // namespace bench

#endif /* BENCH_OUTPUT_HPP */
