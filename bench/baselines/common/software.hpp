/* SPDX-License-Identifier: BSD-3-Clause
 *
 * software.hpp - the common part of the software transactional memories: running a body again and
 * again, until it commits.
 */
#ifndef BASELINES_SOFTWARE_HPP
#define BASELINES_SOFTWARE_HPP

#include "session.hpp"

#include <sys/mman.h>

namespace baselines
{

/* An array that costs nothing where it is not touched.  Zeros at first. */
template <class T>
class Table
{
public:
	Table() = default;
	explicit Table(uint64_t size)
	{
		make(size);
	}
	~Table()
	{
		if (at_)
			munmap(at_, size_ * sizeof(T));
	}
	Table(const Table &) = delete;
	void make(uint64_t size)
	{
		void *at = mmap(nullptr, size * sizeof(T), PROT_READ | PROT_WRITE,
		        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (at == MAP_FAILED)
			throw Usage("no memory for a table of " + std::to_string(size * sizeof(T)) +
			            " bytes");
		at_ = static_cast<T *>(at);
		size_ = size;
	}
	T &operator[](uint64_t n) const
	{
		return at_[n];
	}
	uint64_t size() const
	{
		return size_;
	}

private:
	T *at_ = nullptr;
	uint64_t size_ = 0;
};

/* Ownership is by lines of 64 bytes: the words of a block share one, as in hardware. */
inline uint64_t line_hash(const uint64_t *p, uint64_t slots)
{
	return (reinterpret_cast<uintptr_t>(p) >> 6) & (slots - 1);
}

/* The way out of a body that cannot go on. */
struct Restart {
	jmp_buf to;
	[[noreturn]] void now(fur_abort_cause cause)
	{
		longjmp(to, 1 + cause);
	}
};

/* A thread of a software system.  `System` has begin(update), commit_read(), commit_update()
 * (false: it was not valid, and is rolled back), roll_back(), reclaim(); `Tx` has place, log,
 * restart. */
template <class System, class Tx, class Watch>
class SoftwareSession : public Session, public Transacts<SoftwareSession<System, Tx, Watch>>
{
	friend class Transacts<SoftwareSession>;

public:
	explicit SoftwareSession(DurableTm &tm) : Session(tm)
	{
		tx_.place = Place::of(medium_, number_);
		tx_.log = &log_;
	}

protected:
	Tx tx_;

private:
	template <class Body, class Keep>
	auto transact(bool update, Body &body, Keep keep) -> Result<Body, Tx>
	{
		auto &system = static_cast<System &>(*this);
		attempts_ = 0;
		mark();
		for (;;) {
			if (int cause = setjmp(tx_.restart.to)) {
				failed(static_cast<fur_abort_cause>(cause - 1));
				continue;
			}
			log_.begin();
			system.begin(update);
			auto result = [&] {
				try {
					return body(&tx_);
				} catch (...) {
					system.roll_back();
					Watch::aborted();
					throw;
				}
			}();
			if (!keep(result)) {
				system.roll_back();
				Watch::aborted();
				counters_.aborts[FUR_ABORT_USER]++;
				return result;
			}
			spent(update ? FUR_PHASE_BODY : FUR_PHASE_RO_BODY);
			if (log_.entries() == 0 ? system.commit_read() : system.commit_update())
				return result;
			failed(FUR_ABORT_CONFLICT);
		}
	}
	void failed(fur_abort_cause cause)
	{
		auto &system = static_cast<System &>(*this);
		bool empty = log_.empty();
		system.roll_back();
		Watch::aborted();
		counters_.aborts[cause]++;
		if (cause == FUR_ABORT_FULL) {
			if (empty)
				too_big();
			system.reclaim();
			counters_.reclaims++;
		} else {
			back_off();
		}
	}
	/* Longer each time, and not the same for all. */
	void back_off()
	{
		attempts_ += attempts_ < 10;
		random_ = random_ * 6364136223846793005u + number_ * 2 + 1;
		struct arch_backoff backoff = {};
		for (uint64_t turns = (random_ >> 33) & ((uint64_t(4) << attempts_) - 1); turns;
		        turns--)
			arch_pause();
		if (attempts_ >= 8)
			arch_backoff(&backoff);
	}

	unsigned attempts_ = 0;
	uint64_t random_ = 88172645463325252u;
};

} // namespace baselines

#endif /* BASELINES_SOFTWARE_HPP */
