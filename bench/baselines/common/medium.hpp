/* SPDX-License-Identifier: BSD-3-Clause
 *
 * medium.hpp - the common part of the durable baselines: a file with a heap and a redo log for each
 * thread, its mapping, and recovery.
 *
 *   file    header | log of each thread | heap
 *   log     a ring of records; a record is a header and (address, value) pairs, each of an aligned
 *           word of 8 bytes
 *   heap    always mapped at the same address: shared, or as a private copy that only recovery and
 *           reclaiming carry over to the file
 *
 * A record is valid if its checksum holds, which covers its place in the log's whole life: a record
 * of an earlier lap is not mistaken for a new one.  A record's stamp orders it among all threads';
 * `reclaimed` and, where a system has one, `durable` bound the stamps that count.
 */
#ifndef BASELINES_MEDIUM_HPP
#define BASELINES_MEDIUM_HPP

#include "../../common/machine.hpp"
#include "../../common/tm.hpp"
#include "internals.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace baselines
{

using bench::TmOptions;
using bench::Usage;

inline const uint64_t NEVER = UINT64_MAX;

/* ----------------------------------------------------------- on the medium */

struct Entry {
	uint64_t address, value;
};

struct Record {
	uint64_t stamp;
	/* How many; how far behind the thread's last record is, 0: there is none */
	uint32_t entries, back;
	/* The next record in stamp order, see Link; 0: not known.  A hint, never relied on */
	uint64_t link;
	uint64_t check;
	Entry entry[];
};

/* Where a record is: a thread's number and a position. */
struct Link {
	static uint64_t to(unsigned thread, uint64_t position)
	{
		return uint64_t(thread + 1) << 48 | position;
	}
	static unsigned thread(uint64_t link)
	{
		return static_cast<unsigned>(link >> 48) - 1;
	}
	static uint64_t position(uint64_t link)
	{
		return link & ((uint64_t(1) << 48) - 1);
	}
};

struct Header {
	char magic[8], system[24];
	uint64_t threads, log_bytes, heap_bytes, logs_at, heap_at, file_bytes, address;
	/* Records up to this stamp count, if the system says so */
	alignas(ARCH_PAD) uint64_t durable;
	alignas(ARCH_PAD) uint64_t reclaimed; /* records up to this stamp do not count any more */
	alignas(ARCH_PAD) uint64_t tail[];    /* of each thread's log: where its records begin */
};

/* ----------------------------------------------------------------- one log */

/* One thread's log.  Positions are bytes since the log was made, and only grow. */
class Log
{
public:
	/* A record begins; not inside a hardware transaction. */
	void begin()
	{
		at_ = head_.load(std::memory_order_relaxed) + sizeof(Record);
		limit_ = tail_.load(std::memory_order_acquire) + bytes_;
	}
	/* False: no room left. */
	bool add(uint64_t *word, uint64_t value)
	{
		if (at_ + sizeof(Entry) > limit_)
			return false;
		Entry *e = place<Entry>(at_);
		__atomic_store_n(&e->address, reinterpret_cast<uint64_t>(word), __ATOMIC_RELAXED);
		__atomic_store_n(&e->value, value, __ATOMIC_RELAXED);
		at_ += sizeof(Entry);
		return true;
	}
	uint64_t entries() const
	{
		return (at_ - start()) / sizeof(Entry);
	}
	Entry &entry(uint64_t n)
	{
		return *place<Entry>(start() + n * sizeof(Entry));
	}
	/* Then a record that does not fit never will. */
	bool empty() const
	{
		return tail_.load(std::memory_order_relaxed) ==
		       head_.load(std::memory_order_relaxed);
	}
	Record *record(uint64_t position)
	{
		return place<Record>(position);
	}
	uint64_t head() const
	{
		return head_.load(std::memory_order_acquire);
	}
	/* Other threads must not read the records below. */
	uint64_t floor() const
	{
		return floor_.load(std::memory_order_acquire);
	}
	uint64_t tail() const
	{
		return tail_.load(std::memory_order_acquire);
	}

private:
	friend class Medium;
	static constexpr uint64_t ALIGN =
	        /* A record has lines of its own: two commits that flush one line wait for each
	         * other */
	        128;
	uint64_t start() const
	{
		return head_.load(std::memory_order_relaxed) + sizeof(Record);
	}
	template <class T>
	T *place(uint64_t position)
	{
		return reinterpret_cast<T *>(base_ + (position & (bytes_ - 1)));
	}

	char *base_ = nullptr;
	uint64_t bytes_ = 0;
	alignas(ARCH_PAD) uint64_t at_ = 0; /* the next entry */
	uint64_t limit_ = 0, last_ = 0;     /* of at_; the last record */
	alignas(ARCH_PAD) std::atomic<uint64_t> head_{0};
	alignas(ARCH_PAD) std::atomic<uint64_t> floor_{0}, tail_{0};
};

/* ------------------------------------------------------------------ medium */

class Medium
{
public:
	enum class Working { PRIVATE, SHARED };

	/* `durable_counts`: at recovery, records above header().durable do not count. */
	Medium(const TmOptions &o, const char *system, Working working, bool durable_counts);
	~Medium();
	Medium(const Medium &) = delete;

	/* A number below threads(), and its log; throws Usage if there are too many. */
	unsigned enter();
	void leave(unsigned number);
	unsigned threads() const
	{
		return static_cast<unsigned>(header_->threads);
	}
	/* All numbers that enter() has returned so far are below this one: a scan of the threads'
	 * states ends here, however many the medium is made for.
	 *
	 * enter() raises it before the thread stores a first state of its own.  So if a scanner
	 * reads it after its fence and misses a newcomer, the newcomer's state was not visible to
	 * that fence either: it is as if the scanner had found the thread idle. */
	unsigned entered() const
	{
		return entered_.load(std::memory_order_relaxed);
	}
	Log &log(unsigned thread)
	{
		return logs_[thread];
	}
	char *heap() const
	{
		return heap_;
	}
	uint64_t heap_bytes() const
	{
		return header_->heap_bytes;
	}
	Header &header()
	{
		return *header_;
	}
	/* Every stamp drawn in this life is above this one. */
	uint64_t first_stamp() const
	{
		return first_stamp_;
	}
	struct Recovered {
		uint64_t records = 0, entries = 0, ns = 0;
	};
	const Recovered &recovered() const
	{
		return recovered_;
	}

	void flush(const void *start, size_t bytes)
	{
		pm_flush(&pm_, start, bytes);
	}
	void drain()
	{
		if (pm_drain(&pm_))
			throw std::runtime_error("the medium refused a write");
	}

	/* Write back the open record's entries: all but its header. */
	void flush_entries(unsigned thread);
	/* Complete the record's header and start its write-back; durable after drain().  Returns
	 * its position. */
	uint64_t seal(unsigned thread, uint64_t stamp);
	/* The record is part of the log: reclaiming may take it. */
	void publish(unsigned thread);

	/* Give the space of records up to this stamp back.  They are complete; REPLAY: carried over
	 * to the file's heap first, in order of stamps; else they are there already, and durable.
	 * `before_reuse` runs when the logs' floors have risen and nothing has been written over
	 * yet. */
	enum class Reclaim { REPLAY, DROP };
	void reclaim(
	        uint64_t upto, Reclaim how, const std::function<void()> &before_reuse = [] {});

	void describe(bench::json &j) const;

	/* Unmap the file after a simulated power failure, which leaves it mapped. */
	static void forget(const TmOptions &o);

private:
	void create(const TmOptions &o, const char *system);
	void open(const char *system);
	void map(Working working);
	void recover(bool durable_counts);
	uint64_t scan(unsigned thread, uint64_t &newest, uint64_t &entries);
	void invalidate(unsigned thread, uint64_t from, uint64_t end);
	void restart_logs(uint64_t newest, const std::vector<uint64_t> &end);
	Record *valid(unsigned thread, uint64_t position);
	uint64_t checksum(unsigned thread, uint64_t position);
	void apply(unsigned thread, uint64_t position);
	void prefetch(unsigned thread, uint64_t position);
	template <class F>
	void in_order(std::vector<uint64_t> &cursor, uint64_t upto, F &&visit);
	void flush_log(unsigned thread, uint64_t from, uint64_t to);

	std::string path_;
	Recovered recovered_;
	int fd_ = -1;
	pm pm_{};
	char reason_[160] = "";
	char *file_ = nullptr, *heap_ = nullptr;
	Header *header_ = nullptr;
	bool private_ = false;
	uint64_t first_stamp_ = 0;
	std::vector<Log> logs_;
	std::vector<bool> taken_;
	/* On a line of its own: scans read it at every commit */
	alignas(ARCH_PAD) std::atomic<unsigned> entered_{0};
	alignas(ARCH_PAD) std::mutex entering_;
	std::mutex reclaiming_;
};

} // namespace baselines

#endif /* BASELINES_MEDIUM_HPP */
