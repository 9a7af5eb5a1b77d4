/* SPDX-License-Identifier: BSD-3-Clause
 *
 * schedules.cpp - transactions on few words, and their history.
 */
#include "schedules.hpp"
#include "../../tools/common/random.hpp"
#include "history.hpp"

#include <algorithm>
#include <stdexcept>

namespace tide
{
namespace
{

enum : unsigned { WORDS = 4, MOST_WAIT = 400 };

uint64_t word_of(unsigned module, uint32_t word)
{
	return uint64_t(module) * 1000 + word;
}

/* A wait that is mostly short. */
uint32_t drawn_wait(tools::Random &random)
{
	return static_cast<uint32_t>(random.one_in(3) ? random.below(MOST_WAIT) : random.below(8));
}

Part drawn_part(tools::Random &random, unsigned module, uint32_t value)
{
	const auto word = static_cast<uint32_t>(random.below(WORDS));
	if (random.one_in(3))
		return look(module, word, drawn_wait(random), drawn_wait(random));
	const uint32_t first =
	        random.one_in(2)
	                ? NOTHING
	                : (word + 1 + static_cast<uint32_t>(random.below(WORDS - 1))) % WORDS;
	return touch(module, word, value, drawn_wait(random), drawn_wait(random), first,
	        drawn_wait(random), drawn_wait(random));
}

void note(History &history, size_t transaction, const Part &part, uint32_t value)
{
	const uint32_t *p = part.record.parameter;
	if (part.record.type == TIDE_LOOK)
		return history.saw(transaction, word_of(part.module, p[0]), value);
	history.stored(transaction, word_of(part.module, p[0]), value & 65535, p[1]);
	if (p[4])
		history.saw(transaction, word_of(part.module, p[4] - 1), value >> 16);
}

} // namespace

Part touch(unsigned module, uint32_t word, uint32_t value, uint32_t before, uint32_t after,
        uint32_t first, uint32_t between, uint32_t amid)
{
	Part p;
	p.module = module;
	p.record.type = TIDE_TOUCH;
	const uint32_t parameters[] = {word, value, before, after, first + 1, between, amid};
	std::copy(std::begin(parameters), std::end(parameters), p.record.parameter);
	p.record.bytes = sizeof parameters;
	return p;
}

Part look(unsigned module, uint32_t word, uint32_t before, uint32_t after)
{
	Part p = touch(module, word, 0, before, after);
	p.record.type = TIDE_LOOK;
	return p;
}

std::vector<Transaction> drawn_transactions(uint64_t seed, unsigned modules, unsigned count)
{
	tools::Random random{seed};
	std::vector<Transaction> all(count);
	for (unsigned k = 0; k < count; k++) {
		const uint64_t parts =
		        random.one_in(4) ? 1 : 2 + random.below(std::min(modules, 3u) - 1);
		auto module = static_cast<unsigned>(random.below(modules));
		for (uint64_t part = 0; part < parts; part++) {
			all[k].parts.push_back(drawn_part(random, module, k + 1));
			module = (module + 1) % modules;
		}
	}
	return all;
}

std::string violation_of(const Options &options, const std::vector<Transaction> &transactions)
{
	Tide system(options);
	for (const Transaction &t : transactions)
		system.submit(t);
	try {
		system.run_all();
	} catch (const std::runtime_error &e) {
		return e.what();
	}
	History history;
	for (size_t k = 0; k < transactions.size(); k++)
		for (size_t part = 0; part < transactions[k].parts.size(); part++)
			note(history, k, transactions[k].parts[part],
			        system.outcome(k)[part].result.value);
	return history.violation();
}

} // namespace tide
