/* SPDX-License-Identifier: BSD-3-Clause
 *
 * version_1.hpp - heap files as libfur 0.1 made them.
 */
#ifndef VERSION_1_HPP
#define VERSION_1_HPP

#include "internals.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

/* Make a heap file that was just created one of version 1: no heads in the records, and no
 * trailer. */
inline void make_version_1(const std::string &path)
{
	media_super s;
	int fd = open(path.c_str(), O_RDWR);
	ASSERT_EQ(pread(fd, &s, sizeof s, 0), static_cast<ssize_t>(sizeof s));
	s.version = 1;
	s.file_bytes = s.heap_offset + s.heap_bytes;
	s.checksum = media_super_checksum(&s);
	ASSERT_EQ(pwrite(fd, &s, offsetof(media_super, more), 0),
	        static_cast<ssize_t>(offsetof(media_super, more)));
	ASSERT_EQ(ftruncate(fd, static_cast<off_t>(s.file_bytes)), 0);
	close(fd);
}

#endif /* VERSION_1_HPP */
