/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_view.hpp - a heap file as fur-info and fur-check see it: opened for reading and mapped
 * privately, so that no store of theirs reaches it.
 */
#ifndef TOOLS_HEAP_VIEW_HPP
#define TOOLS_HEAP_VIEW_HPP

#include "internals.hpp"

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tools
{

/* One clear line: the file, the problem, the remedy.  The program prints it and exits with status
 * 1. */
struct Refused : std::runtime_error {
	using runtime_error::runtime_error;
	/* A call of the system has failed. */
	Refused(const std::string &path, system_call call, int error, const char *what);
};

/* If the file becomes shorter while it is mapped, or cannot be read, an access raises SIGBUS:
 * report that, and exit with status 1. */
void explain_sigbus(const char *program, const std::string &path);

enum class Purpose {
	LOOK,  /* takes no lock: works alongside a running process too */
	CHECK, /* no process works on it meanwhile */
	REPAIR /* the same, and the file may be written to */
};

/* The part of one thread's log that is to be replayed. */
struct LogUse {
	uint64_t updates = 0, bytes = 0;
	/* Positions: where the first update's record begins, and the last one's ends */
	uint64_t from = 0, to = 0;
};

/* The verdicts on the ring from a tail on. */
struct Ring {
	std::vector<uint8_t> verdicts;
	inspect_range range{};
	std::vector<LogUse> logs; /* of every thread */
	enum inspect_verdict verdict(uint64_t durts) const
	{
		return static_cast<enum inspect_verdict>(verdicts[durts - range.tail]);
	}
};

class HeapView
{
public:
	HeapView(const std::string &path, Purpose purpose);
	~HeapView();
	HeapView(const HeapView &) = delete;
	HeapView &operator=(const HeapView &) = delete;

	/* Map the file, with `super` in place of its own superblock.  `super` must describe the
	 * file (heap_check_super). */
	void map(const media_super &super);
	const media_super *super() const
	{
		return &geometry_;
	}
	media_file file() const
	{
		return media_file_of(&geometry_, mapped_);
	}
	/* The words of the superblock that change. */
	const media_super *words() const
	{
		return mapped_;
	}
	/* The superblock as it is in the file. */
	const media_super &raw() const
	{
		return raw_;
	}
	bool used_by_worker() const;
	bool used_by_replayer() const;
	bool used_by_shipper() const; /* fur-ship */

	/* The ship page, all zero in a heap without one; nothing if it is damaged. */
	std::optional<media_ship> ship_page() const;

	/* How far a standby is.  `page` is its ship page; `opened`: a process has it open. */
	media_standby standby(const media_ship &page, bool opened) const;

	/* The tail of the log.  Throws Refused if it is damaged. */
	uint64_t tail() const;

	Ring ring(uint64_t tail) const;

	/* Check the allocator in a private copy of the heap in which the updates that `ring` keeps
	 * are replayed: as recovery would leave it.  Calls tell() for each problem.  Returns 0,
	 * FUR_ECORRUPT after calls of tell(), or FUR_EADDRESS or another code if the heap cannot be
	 * looked at in this process. */
	int check_allocator(const Ring *ring, alloc_census &census,
	        const std::function<void(const char *)> &tell) const;

	const std::string path;
	int fd = -1;
	uint64_t file_bytes = 0;

private:
	void take_lock(Purpose purpose);
	bool locked(int byte) const;
	heap_file opened() const; /* for src/file */

	media_super raw_{}, geometry_{};
	media_super *mapped_ = nullptr;
	uint64_t mapped_bytes_ = 0;
};

/* Call tell() for each entry of the record, up to the first that makes no sense.  Returns true if
 * all do. */
bool for_entries(const media_file &file, const log_record &record,
        const std::function<void(const log_entry &)> &tell);

std::string uuid_text(const media_super &super);
const char *role_text(uint32_t role); /* enum media_role */
/* As fur-ship, fur-standby and their options have it. */
std::string node_text(uint64_t node);

} // namespace tools

#endif /* TOOLS_HEAP_VIEW_HPP */
