/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_view.hpp - a heap file as fur-info and fur-check see it: opened for reading, mapped
 * privately, so that nothing they do reaches it.
 */
#ifndef TOOLS_HEAP_VIEW_HPP
#define TOOLS_HEAP_VIEW_HPP

#include "internals.hpp"

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tools
{

/* One clear line: the file, the problem, the remedy.  Ends the program with status 1. */
struct Refused : std::runtime_error {
	using runtime_error::runtime_error;
};

/* A file that becomes shorter, or cannot be read, under a mapping raises SIGBUS: say so and exit
 * with status 1. */
void explain_sigbus(const char *program, const std::string &path);

enum class Purpose {
	LOOK,  /* no lock: beside a running process too */
	CHECK, /* nobody works on it meanwhile */
	REPAIR /* the same, and it may be written to */
};

/* Replaced redo positions of one thread. */
struct LogUse {
	/* To be replayed; from the first one's record to the last one's end */
	uint64_t updates = 0, bytes = 0;
	uint64_t from = 0, to = 0;
};

/* What the ring says from a tail on. */
struct Ring {
	std::vector<uint8_t> verdicts;
	inspect_window window{};
	std::vector<LogUse> logs; /* of every thread */
	enum inspect_verdict verdict(uint64_t durts) const
	{
		return static_cast<enum inspect_verdict>(verdicts[durts - window.tail]);
	}
};

class HeapView
{
public:
	HeapView(const std::string &path, Purpose purpose);
	~HeapView();
	HeapView(const HeapView &) = delete;
	HeapView &operator=(const HeapView &) = delete;

	/* Map the file, with `super` in place of what it has for a superblock.  It must describe
	 * the file (heap_check_super). */
	void map(const media_super &super);
	const media_super *super() const
	{
		return &geometry_;
	}
	media_file file() const
	{
		return {&geometry_, mapped_};
	}
	/* The words of the superblock that change. */
	const media_super *words() const
	{
		return mapped_;
	}
	/* A byte of the mapping: changed there, not in the file. */
	uint8_t *byte(uint64_t offset)
	{
		return reinterpret_cast<uint8_t *>(mapped_) + offset;
	}
	/* The superblock as it is in the file. */
	const media_super &raw() const
	{
		return raw_;
	}
	bool used_by_worker() const;
	bool used_by_replayer() const;

	Ring ring(uint64_t tail) const;

	/* The allocator, on a private copy of the heap with the updates that `ring` keeps replayed:
	 * as recovery would leave it.  Tells each problem.  A code of fur.h: 0, FUR_ECORRUPT with
	 * problems told, FUR_EADDRESS or another if it cannot be looked at here. */
	int check_allocator(const Ring *ring, alloc_census &census,
	        const std::function<void(const char *)> &tell) const;

	const std::string path;
	int fd = -1;
	uint64_t file_bytes = 0;

private:
	void take_lock(Purpose purpose);
	bool locked(int byte) const;

	media_super raw_{}, geometry_{};
	media_super *mapped_ = nullptr;
	uint64_t mapped_bytes_ = 0;
};

/* Redo-log entries of the record at [from, to) of a thread's log, as far as they make sense.  True:
 * all of it does. */
bool for_entries(const media_file &file, uint32_t thread, uint64_t from, uint64_t to,
        const std::function<void(const inspect_entry &)> &tell);

std::string uuid_text(const media_super &super);

} // namespace tools

#endif /* TOOLS_HEAP_VIEW_HPP */
