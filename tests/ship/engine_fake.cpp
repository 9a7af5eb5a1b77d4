/* SPDX-License-Identifier: BSD-3-Clause
 *
 * engine_fake.cpp - see engine_fake.hpp.
 */
#include "engine_fake.hpp"

#include <algorithm>
#include <cstring>

namespace fake
{

/* A stream_engine whose ops find the object behind it. */
class Engine : public stream_engine
{
public:
	explicit Engine(Log &log) : stream_engine{&table}, log_(log) {}

	std::vector<engine_ack> answers; /* that poll() returns */

private:
	static Engine &self(stream_engine *e)
	{
		return *static_cast<Engine *>(e);
	}
	static int append(stream_engine *e, uint64_t handle, const void *message, size_t bytes)
	{
		const auto *from = static_cast<const uint8_t *>(message);
		self(e).log_.requests_.push_back({&self(e), handle, {from, from + bytes}});
		return 0;
	}
	static int poll(stream_engine *e, engine_ack *acks, unsigned most, int)
	{
		auto &answers = self(e).answers;
		const size_t n = std::min<size_t>(most, answers.size());
		std::copy_n(answers.begin(), n, acks);
		answers.erase(answers.begin(), answers.begin() + static_cast<ptrdiff_t>(n));
		return static_cast<int>(n);
	}
	static int read(
	        stream_engine *e, uint64_t offset, void *message, size_t most, size_t *bytes)
	{
		const Log &log = self(e).log_;
		if (offset > log.end())
			return FUR_ERANGE;
		if (offset == log.end())
			return 0;
		const Message &m = log.at(offset);
		*bytes = m.size();
		if (!m.empty())
			memcpy(message, m.data(), std::min(most, m.size()));
		return 1;
	}
	static int end(stream_engine *e, uint64_t *end)
	{
		*end = self(e).log_.end();
		return 0;
	}
	static int restart(stream_engine *e)
	{
		self(e).log_.forget(&self(e));
		self(e).answers.clear();
		return 0;
	}
	static void close(stream_engine *e)
	{
		Log &log = self(e).log_;
		log.forget(&self(e));
		auto is_it = [e](const auto &owner) { return owner.get() == e; };
		auto &engines = log.engines_;
		engines.erase(std::find_if(engines.begin(), engines.end(), is_it));
	}

	static constexpr stream_engine_ops table{append, poll, read, end, restart, close};
	Log &log_;
};

Log::Log(uint64_t seed, const Faults &f) : faults(f), random_{seed} {}

Log::~Log() = default;

stream_engine *Log::connect()
{
	engines_.push_back(std::make_unique<Engine>(*this));
	return engines_.back().get();
}

bool Log::rarely(unsigned one_in)
{
	return one_in && random_.one_in(one_in);
}

/* What is under way lands as that of a dead writer; it is not answered. */
void Log::forget(const Engine *engine)
{
	for (Request &r : requests_)
		r.of = r.of == engine ? nullptr : r.of;
	for (Landed &m : messages_)
		m.of = m.of == engine ? nullptr : m.of;
	auto is_its = [engine](const Answer &a) { return a.of == engine; };
	answers_.erase(std::remove_if(answers_.begin(), answers_.end(), is_its), answers_.end());
}

/* A request comes to the log.  Those of one living writer come in order, as long as none
 * overtakes. */
void Log::land()
{
	size_t k = random_.below(requests_.size());
	if (requests_[k].of && !rarely(faults.reorder)) {
		auto same = [&](const Request &r) { return r.of == requests_[k].of; };
		k = static_cast<size_t>(
		        std::find_if(requests_.begin(), requests_.end(), same) - requests_.begin());
	}
	if (!requests_[k].of && faults.late && !rarely(faults.late))
		return;
	const Request r = requests_[k];
	if (!rarely(faults.repeat))
		requests_.erase(requests_.begin() + static_cast<ptrdiff_t>(k));
	if (!rarely(faults.lose))
		messages_.push_back({r.bytes, r.of, r.handle});
}

void Log::answer(const Landed &landed, uint64_t offset)
{
	if (landed.of && !rarely(faults.lose_answer))
		answers_.push_back({landed.of,
		        {landed.handle, rarely(faults.no_offset) ? ENGINE_NO_OFFSET : offset}});
}

/* Some messages are replicated, and answered. */
void Log::commit()
{
	const uint64_t to = committed_ + 1 + random_.below(messages_.size() - committed_);
	for (; committed_ < to; committed_++)
		answer(messages_[committed_], committed_);
}

/* An answer comes to its node. */
void Log::deliver()
{
	const size_t k = rarely(faults.reorder) ? random_.below(answers_.size()) : 0;
	answers_[k].of->answers.push_back(answers_[k].ack);
	answers_.erase(answers_.begin() + static_cast<ptrdiff_t>(k));
}

/* The new leader lacks the newest messages.  Their writers may send them once more. */
void Log::fall(bool unclean)
{
	uint64_t keep = committed_;
	if (unclean) {
		keep -= std::min<uint64_t>(keep, random_.below(6));
		went_back_ = went_back_ || keep < committed_;
	} else {
		keep += random_.below(messages_.size() - committed_ + 1);
	}
	committed_ = std::min(committed_, keep);
	for (; messages_.size() > keep; messages_.pop_back()) {
		Landed &m = messages_.back();
		if (random_.one_in(2))
			requests_.insert(requests_.begin(), {m.of, m.handle, m.bytes});
	}
}

bool Log::step()
{
	if (rarely(faults.fall))
		fall(false);
	if (rarely(faults.unclean))
		fall(true);
	if (rarely(faults.garbage)) {
		const bool own = foreign.empty() || random_.one_in(2);
		messages_.push_back({own ? Message(random_.below(200), 0x66)
		                         : foreign[random_.below(foreign.size())],
		        nullptr, 0});
	}
	const size_t uncommitted = messages_.size() - committed_;
	switch (random_.below(3)) {
	case 0:
		if (!requests_.empty())
			return land(), true;
		[[fallthrough]];
	case 1:
		if (uncommitted)
			return commit(), true;
		[[fallthrough]];
	default:
		if (!answers_.empty())
			return deliver(), true;
	}
	return uncommitted || !requests_.empty();
}

void Log::settle()
{
	faults = {};
	while (step())
		;
}

} // namespace fake
