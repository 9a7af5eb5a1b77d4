/* SPDX-License-Identifier: BSD-3-Clause
 *
 * glob.hpp - the patterns of SCAN: * ? [a-z] [^a] \x, over any bytes.
 */
#ifndef KVSERVER_GLOB_HPP
#define KVSERVER_GLOB_HPP

#include <string_view>

namespace kv
{

/* glob_matches - does all of the text match?  Takes at most the product of their sizes in time. */
bool glob_matches(std::string_view pattern, std::string_view text);

} // namespace kv

#endif /* KVSERVER_GLOB_HPP */
