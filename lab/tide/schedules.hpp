/* SPDX-License-Identifier: BSD-3-Clause
 *
 * schedules.hpp - transactions on few words, with waits that a seed draws: their history, and what
 * is wrong with it.
 */
#ifndef LAB_TIDE_SCHEDULES_HPP
#define LAB_TIDE_SCHEDULES_HPP

#include "tide.hpp"

#include <string>
#include <vector>

namespace tide
{

/* A part that loads the word and stores `value` to it, waits before, after and amid that, and reads
 * `first` at its begin unless that is NOTHING. */
enum : uint32_t { NOTHING = UINT32_MAX };
Part touch(unsigned module, uint32_t word, uint32_t value, uint32_t before = 0, uint32_t after = 0,
        uint32_t first = NOTHING, uint32_t between = 0, uint32_t amid = 0);
/* One that reads the word. */
Part look(unsigned module, uint32_t word, uint32_t before = 0, uint32_t after = 0);

/* The transactions of a seed: local ones, and ones over two or three modules. */
std::vector<Transaction> drawn_transactions(uint64_t seed, unsigned modules, unsigned count);

/* Execute them.  Returns what is wrong: why no serial order gives what they have read and left, or
 * that a tasklet waits for ever; empty if nothing is. */
std::string violation_of(const Options &options, const std::vector<Transaction> &transactions);

} // namespace tide

#endif /* LAB_TIDE_SCHEDULES_HPP */
