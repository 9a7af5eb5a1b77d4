/* SPDX-License-Identifier: BSD-3-Clause
 *
 * read_log.hpp - let a standby read its log to the end.
 */
#ifndef READ_LOG_HPP
#define READ_LOG_HPP

#include "ship.hpp"

#include <algorithm>
#include <functional>
#include <fur.hpp>
#include <string>
#include <unistd.h>

#define _Static_assert static_assert /* NOLINT */
extern "C" {
#include "ship/engine_open.h"
}
#undef _Static_assert

namespace ship_test
{

/* The calls of a log whose brokers are electing fail, and are tried again. */
template <class Call>
int until_it_answers(Call &&call)
{
	int n = FUR_EBEHIND;
	for (unsigned tries = 0; n == FUR_EBEHIND && tries < 30; tries++)
		n = call();
	return n;
}

/* The standby, which no process has open, reads the log to where it ends now: on a busy machine a
 * writer that goes on may be faster, and the end would never come.  `then` gets the open heap. */
inline void read_log(
        const std::string &log, const std::string &path, const fur::Options &o,
        const std::function<void(fur::Heap &)> &then = [](fur::Heap &) {})
{
	fur::Heap standby = fur::Heap::open(path, o);
	stream_engine *engine;
	follower *f;
	fur::check(until_it_answers(
	        [&] { return engine_open(log.c_str(), ENGINE_READ, nullptr, &engine); }));
	fur::check(follow_begin(engine, standby.get(), &f));
	uint64_t end;
	fur::check(until_it_answers([&] { return engine->ops->end(engine, &end); }));
	follow_view at = {};
	int n = 1;
	while (n > 0 && at.next < end) {
		n = until_it_answers([&] { return follow_step(f, 64); });
		follow_look(f, &at);
	}
	fur::check(std::min(n, 0));
	fur::check(follow_end(f));
	engine->ops->close(engine);
	then(standby);
	standby.close();
}

} // namespace ship_test

#endif
