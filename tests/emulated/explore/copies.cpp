/* SPDX-License-Identifier: BSD-3-Clause
 *
 * copies.cpp - see copies.hpp.
 */
#include "copies.hpp"

#include "options.hpp"

#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/sendfile.h>
#include <unistd.h>

namespace explore
{

namespace fs = std::filesystem;

static std::string spares; /* empty: none */

void use_spares(const std::string &directory)
{
	fs::create_directories(directory);
	spares = directory;
}

/* Of those that this process has left: it may still have them open, and locked. */
static std::string own_spares()
{
	return std::to_string(getpid()) + ".";
}

static void take_spare(const std::string &to)
{
	if (spares.empty())
		return;
	for (const fs::directory_entry &spare : fs::directory_iterator(spares)) {
		if (spare.path().filename().string().rfind(own_spares(), 0) == 0)
			continue;
		fs::rename(spare, to);
		return;
	}
}

void copy_part(const std::string &from, const std::string &to, uint64_t at, uint64_t bytes)
{
	const int in = open(from.c_str(), O_RDONLY | O_CLOEXEC),
	          out = open(to.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	auto place = static_cast<off_t>(at);
	const off_t end = place + static_cast<off_t>(bytes);
	bool copied = in >= 0 && out >= 0 && lseek(out, place, SEEK_SET) == place;
	while (copied && place < end)
		copied = sendfile(out, in, &place, static_cast<size_t>(end - place)) > 0;
	if (!copied)
		die("explore: cannot copy " + from + " to " + to + ": " + strerror(errno));
	close(in);
	close(out);
}

/* Not truncated first: that would free the pages. */
static void copy_file(const std::string &from, const std::string &to)
{
	if (!fs::exists(to))
		take_spare(to);
	copy_part(from, to, 0, fs::file_size(from));
	fs::resize_file(to, fs::file_size(from));
}

void copy_heap(const std::string &from, const std::string &to)
{
	if (!fs::is_directory(from)) {
		copy_file(from, to);
		return;
	}
	remove_copy(to); /* it may have files that this one has not */
	fs::create_directory(to);
	for (const fs::directory_entry &file : fs::directory_iterator(from))
		copy_heap(file.path(), fs::path(to) / file.path().filename());
}

void remove_copy(const std::string &path)
{
	static unsigned number = 0;
	if (fs::is_directory(path))
		for (const fs::directory_entry &file : fs::directory_iterator(path))
			remove_copy(file.path());
	if (spares.empty() || !fs::is_regular_file(path))
		fs::remove(path);
	else
		fs::rename(path, spares + "/" + own_spares() + std::to_string(number++));
}

} // namespace explore
