/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ship_fixture.hpp - frames for tests.
 */
#ifndef SHIP_FIXTURE_HPP
#define SHIP_FIXTURE_HPP

#include "ship.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <vector>

using Bytes = std::vector<uint8_t>;

inline const uint8_t heap_uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

/* `n` bytes, different for each `value`. */
inline Bytes filled(size_t n, unsigned value)
{
	Bytes b(n);
	for (size_t k = 0; k < n; k++)
		b[k] = static_cast<uint8_t>(k * 7 + value * 31);
	return b;
}

/* A frame under construction. */
class Frame
{
public:
	explicit Frame(frame_kind kind, unsigned flags = 0, size_t room = 4096) : bytes_(room)
	{
		frame_begin(&b, bytes_.data(), room, kind, flags);
	}
	Frame &update(uint64_t durts, const Bytes &entries)
	{
		void *to = frame_add_update(&b, durts, static_cast<uint32_t>(entries.size()));
		EXPECT_NE(to, nullptr);
		if (to && !entries.empty())
			memcpy(to, entries.data(), entries.size());
		return *this;
	}
	Frame &side(uint64_t durts, const frame_side &where, const Bytes &data)
	{
		void *to = frame_add_side(&b, durts, &where, static_cast<uint32_t>(data.size()));
		EXPECT_NE(to, nullptr);
		if (to && !data.empty())
			memcpy(to, data.data(), data.size());
		return *this;
	}
	template <class T>
	Frame &payload(const T &value)
	{
		EXPECT_TRUE(frame_add_payload(&b, &value, sizeof value));
		return *this;
	}
	Bytes seal(const frame_place &place, const uint8_t *uuid = heap_uuid)
	{
		const size_t n = frame_seal(&b, uuid, &place, &head);
		return Bytes(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(n));
	}

	frame_builder b;
	frame_head head;

private:
	Bytes bytes_;
};

inline Bytes claim_of(uint64_t node, uint64_t nonce, const frame_place &place, unsigned flags = 0)
{
	return Frame(FRAME_CLAIM, flags).payload(frame_claim{node, nonce}).seal(place);
}

#endif
