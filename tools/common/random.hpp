/* SPDX-License-Identifier: BSD-3-Clause
 *
 * random.hpp - random numbers whose sequence depends on one word alone, on every machine
 * (splitmix64).
 */
#ifndef TOOLS_RANDOM_HPP
#define TOOLS_RANDOM_HPP

#include <cstdint>

namespace tools
{

/* Every member is inlined, so that no object file has code of it.  The compiler instruments the
 * accesses of code that runs on the emulated machine, but not those of the machine itself.  Of a
 * function that both have, the linker would keep one copy for both. */
struct Random {
	uint64_t state;

	[[gnu::always_inline]] uint64_t next()
	{
		uint64_t z = state += 0x9e3779b97f4a7c15u;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		return z ^ z >> 31;
	}
	[[gnu::always_inline]] uint64_t below(uint64_t n)
	{
		return static_cast<uint64_t>(static_cast<unsigned __int128>(next()) * n >> 64);
	}
	[[gnu::always_inline]] bool one_in(uint64_t n)
	{
		return below(n) == 0;
	}
};

} // namespace tools

#endif
