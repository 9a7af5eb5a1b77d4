/* SPDX-License-Identifier: BSD-3-Clause
 *
 * numbers.cpp - numbers.hpp.
 *
 * The tests compile plants into this file: PLANT_UNORDERED breaks INV-CN3, PLANT_UNSEEN INV-CN4.
 */
#include "numbers.hpp"

namespace oltpim
{

void Numbers::settle(uint64_t number)
{
	uint64_t s = settled_.load();
#ifdef PLANT_UNORDERED
	while (s < number && !settled_.compare_exchange_weak(s, number)) {
	}
#else
	/* Two writers with neighbouring numbers each store here and then look at the other's:
	 * sequential consistency lets one of them see both.  Without it none might go on, and
	 * `settled` would stay until another writer comes. */
	over_[number % over_.size()].store(number);
	while (over_[(s + 1) % over_.size()].load() == s + 1)
		if (settled_.compare_exchange_weak(s, s + 1))
			s++;                                               /* INV-CN3 */
#endif
}

bool Numbers::may_return(uint64_t number) const
{
#ifdef PLANT_UNSEEN
	(void)number;
	return true;
#else
	return protocol_ != Protocol::MENDED || settled_.load() >= number; /* INV-CN4 */
#endif
}

} // namespace oltpim
