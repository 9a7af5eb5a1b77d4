/* SPDX-License-Identifier: BSD-3-Clause
 *
 * attached.hpp - the shipper, for tests.
 */
#ifndef ATTACHED_HPP
#define ATTACHED_HPP

#include "internals.hpp"
#include "ship.hpp"

#include <fur.hpp>
#include <string>

#define _Static_assert static_assert /* NOLINT */
extern "C" {
#include "ship/recover.h"
#include "ship/rejoin.h"
}
#undef _Static_assert

namespace ship_test
{

/* Attached to a heap's file and its log, as fur-ship is. */
class Attached
{
public:
	Attached(const std::string &heap, const std::string &log, heap_lock lock = HEAP_LOCK_NONE)
	    : Attached(heap, open_log(log), lock)
	{
	}
	/* To a log that is open, and that the destructor closes. */
	Attached(const std::string &heap, stream_engine *log, heap_lock lock = HEAP_LOCK_NONE)
	    : engine_(log)
	{
		if (heap_open_file(heap.c_str(), lock, &file_) ||
		        heap_attach_to_replay(&d_, &file_))
			throw fur::Error(FUR_EINVAL, fur_errormsg());
		d_.replays_for_worker = lock == HEAP_LOCK_NONE;
		if (shipper_begin(&shipper, &d_, &file_, engine_))
			throw fur::Error(FUR_ENOMEM, fur_errormsg());
	}
	~Attached()
	{
		shipper_end(&shipper);
		engine_->ops->close(engine_);
		durability_detach(&d_);
		heap_close_file(&file_);
	}
	Attached(const Attached &) = delete;
	void stop()
	{
		arch_store32_release(&shipper.stopping, 1);
		ship_call_shipper(&d_);
	}
	int recover()
	{
		replay_result result;
		return ship_recover(&shipper, &result);
	}
	int rejoin(const char *lost, rejoin_result *result)
	{
		return ship_rejoin(&file_, &d_, engine_, lost, result);
	}
	struct shipper shipper;

private:
	static stream_engine *open_log(const std::string &path)
	{
		stream_engine *engine;
		if (engine_file_open(path.c_str(), &engine))
			throw fur::Error(FUR_EINVAL, fur_errormsg());
		return engine;
	}
	heap_file file_;
	durability d_;
	stream_engine *engine_;
};

} // namespace ship_test

#endif
