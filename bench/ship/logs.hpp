/* SPDX-License-Identifier: BSD-3-Clause
 *
 * logs.hpp - the logs of this benchmark, and what they cost without libfur.
 */
#ifndef BENCH_SHIP_LOGS_HPP
#define BENCH_SHIP_LOGS_HPP

#include <fur.h>
#include <stddef.h>
#include <stdint.h>

#define _Static_assert static_assert /* NOLINT */
extern "C" {
#include "ship/engine.h"
}
#undef _Static_assert

#include <memory>
#include <string>
#include <vector>

namespace bench_ship
{

/* A log that keeps nothing but its first messages, a writer's claim among them, and answers every
 * append at once: what remains is libfur's own cost. */
stream_engine *null_engine();

/* One message of `bytes` after the other, each when the one before it is acknowledged. */
class Bare
{
public:
	virtual ~Bare() = default;
	virtual void append() = 0;
};

/* By librdkafka alone, with the settings of libfur's engine.  `name`: kafka:HOST:PORT,../TOPIC. */
std::unique_ptr<Bare> bare_kafka(
        const std::string &name, size_t bytes, const std::vector<std::string> &settings);

} // namespace bench_ship

#endif
