/* SPDX-License-Identifier: BSD-3-Clause
 *
 * engine_fake.hpp - a stream engine in this process that misbehaves as a seed decides, in the ways
 * in which a replicated log may: answers that are late, lost, out of order, repeated or without an
 * offset; messages that are lost, repeated or out of order; messages of dead writers that land at
 * any later time; a leader that falls with messages that were not replicated (clean) or were
 * (unclean).  Nothing happens by itself: each call of Log::step() is one event.
 */
#ifndef ENGINE_FAKE_HPP
#define ENGINE_FAKE_HPP

#include "../../tools/common/random.hpp"
#include "ship.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fake
{

using Message = std::vector<uint8_t>;

/* Each happens once in this many events that could have it; 0: never. */
struct Faults {
	unsigned reorder = 0; /* a message or an answer overtakes another */
	unsigned lose = 0;
	unsigned repeat = 0;
	unsigned lose_answer = 0;
	unsigned no_offset = 0;
	unsigned fall = 0;    /* a leader falls: messages that are not committed are gone */
	unsigned unclean = 0; /* a leader falls: committed ones also */
	unsigned garbage = 0; /* another program writes to the log */
	unsigned late = 0;    /* a dead writer's message, instead of being held up, lands */
};

class Engine;

class Log
{
public:
	Log(uint64_t seed, const Faults &faults);
	~Log();

	/* A node's engine, which is closed by its ops.  It must not outlive the log. */
	stream_engine *connect();

	/* Let one thing happen.  Returns false if there was nothing to happen. */
	bool step();
	/* The same without any fault, until nothing is left to happen. */
	void settle();

	uint64_t end() const
	{
		return committed_;
	}
	const Message &at(uint64_t offset) const
	{
		return messages_[offset].bytes;
	}
	/* Has a leader fallen with messages that were committed? */
	bool went_back() const
	{
		return went_back_;
	}

	Faults faults;
	/* What another program writes to the log, besides bytes of its own. */
	std::vector<Message> foreign;

private:
	friend class Engine;
	struct Request {
		Engine *of; /* nullptr: of a writer that has died, or has given up this request */
		uint64_t handle;
		Message bytes;
	};
	struct Landed {
		Message bytes;
		Engine *of; /* who waits for an answer */
		uint64_t handle;
	};
	struct Answer {
		Engine *of;
		engine_ack ack;
	};

	bool rarely(unsigned one_in);
	void land();
	void commit();
	void answer(const Landed &landed, uint64_t offset);
	void deliver();
	void fall(bool unclean);
	void forget(const Engine *engine);

	tools::Random random_;
	std::vector<std::unique_ptr<Engine>> engines_;
	std::vector<Request> requests_; /* under way to the log */
	std::vector<Landed> messages_;
	uint64_t committed_ = 0;      /* messages: replicated, so that they can be read */
	std::vector<Answer> answers_; /* under way to the nodes */
	bool went_back_ = false;
};

} // namespace fake

#endif
