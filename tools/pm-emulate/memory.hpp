/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.hpp - the launcher's end of shared.h, and what it makes of it when the program is gone: a
 * count of what was never written back, or the files as a power failure leaves them.
 */
#ifndef PM_EMULATE_MEMORY_HPP
#define PM_EMULATE_MEMORY_HPP

#include "shared.h"

#include <map>
#include <string>
#include <vector>

namespace pme
{

/* Which of the lines that are not durable survive. */
enum class Lines { RANDOM, DROPPED, KEPT };

/* What a region's file and its medium do not agree on. */
struct Difference {
	std::string path;
	bool found = false; /* the file is still there */
	uint64_t lines = 0; /* that are not durable */
	/* Of these: never written back; without a fence after it; the others: stored to since */
	uint64_t never = 0, unfenced = 0;
	uint64_t kept = 0, dropped = 0, torn = 0;
	std::vector<uint64_t> where; /* the first few, as offsets */
};

class Memory
{
public:
	explicit Memory(const pme_settings &settings);
	~Memory();
	Memory(const Memory &) = delete;

	pme_control *control() const
	{
		return control_;
	}
	/* How the program's library finds it. */
	std::string name() const;

	/* Compare each file with its medium. */
	std::vector<Difference> differences() const;

	/* Write to each file what the medium would hold.  Everybody who had it mapped is dead. */
	std::vector<Difference> fail_power(uint64_t seed, Lines lines) const;

private:
	class Region;
	using UnderWay = std::map<uint64_t, std::vector<pme_write_back>>; /* by offset */
	std::vector<UnderWay> under_way() const;
	void *map(uint64_t at, uint64_t bytes) const;

	int fd_;
	pme_control *control_;
};

} // namespace pme

#endif /* PM_EMULATE_MEMORY_HPP */
