/* SPDX-License-Identifier: BSD-3-Clause
 *
 * map_ordered_test.cpp - fur::ordered_map against std::map, in what every map can.
 */
#include "map_cases.hpp"

namespace
{

/* The widest nodes and the narrowest, values of part of a word and of several, keys that own
 * blocks.  Others: widths between, and blocks of the value. */
using OrderedTypes = TypesHere<
        ::testing::Types<fur::ordered_map<uint64_t, uint64_t>,
                fur::ordered_map<int64_t, uint8_t, 3>, fur::ordered_map<fur::string, Wide, 3>>,
        ::testing::Types<fur::ordered_map<uint64_t, Wide, 3>,
                fur::ordered_map<fur::string, fur::string>,
                fur::ordered_map<fur::string, uint64_t, 5>,
                fur::ordered_map<int64_t, fur::string, 4>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Ordered, Maps, OrderedTypes);

} // namespace
