/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.hpp - the launcher's end of the shared memory (shared.h), and the use that it makes of it
 * when the program has ended: it counts the lines that were never written back, or leaves the files
 * as a power failure would.
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

/* The differences between a region's file and its medium. */
struct Difference {
	std::string path;
	bool found = false; /* the file still exists */
	uint64_t lines = 0; /* lines that are not durable */
	/* Of these: never written back; written back without a fence after it.  The program has
	 * stored to the others since their last write-back. */
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
	/* The path under which the program's library opens it. */
	std::string name() const;

	/* Compare each file with its medium. */
	std::vector<Difference> differences() const;

	/* Write to each file the content that the power failure leaves.  Every process that had it
	 * mapped is dead. */
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
