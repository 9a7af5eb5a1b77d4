/* SPDX-License-Identifier: BSD-3-Clause
 *
 * copies.hpp - the files of a run: copies of a heap's file, or of the directory of a group.
 *
 * A run makes up to four copies of a megabyte, and needs none of them when it has ended.  The
 * kernel takes as long to allocate and free their pages as to fill them, so a copy is made in the
 * file of an earlier run, a spare one, if there is one.
 */
#ifndef EXPLORE_COPIES_HPP
#define EXPLORE_COPIES_HPP

#include <cstdint>
#include <string>

namespace explore
{

/* Where this process finds spare files, and leaves its own: a directory that no other running
 * process has.  Without it, remove_copy() frees them. */
void use_spares(const std::string &directory);

/* Copy a heap's file, or a directory of them.  What lay there is overwritten. */
void copy_heap(const std::string &from, const std::string &to);

/* Copy bytes of one file to the same place in another. */
void copy_part(const std::string &from, const std::string &to, uint64_t at, uint64_t bytes);

/* Remove a copy, if there is one. */
void remove_copy(const std::string &path);

} // namespace explore

#endif /* EXPLORE_COPIES_HPP */
