/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_map.hpp - libfur's store: an ordered map in a heap, and the ways to read all of it.
 */
#ifndef BENCH_SNAPSHOT_FUR_MAP_HPP
#define BENCH_SNAPSHOT_FUR_MAP_HPP

#include "phases.hpp"

#include <fur/ordered_map.hpp>
#include <fur/root.hpp>
#include <unistd.h>

namespace snapshot
{

enum class Way { SNAPSHOT, PLAIN, OPTIMISTIC, COPY };

class FurStore : public Store
{
public:
	explicit FurStore(const Settings &s) : s_(s), heap_(make(s)) {}
	~FurStore() override
	{
		unlink(s_.path.c_str());
	}
	fur::Heap &heap()
	{
		return heap_;
	}
	/* Add all keys: once, before all else. */
	virtual void fill() = 0;
	/* Other than reader(): each call reads in a transaction, or a snapshot, of its own. */
	virtual Read reader_by(Way way) = 0;
	/* The sum of all values: in the snapshot, or now. */
	virtual uint64_t sum_in(fur_thread *self, const fur::Snapshot &snapshot) = 0;
	virtual uint64_t sum_now(fur_thread *self) = 0;
	std::string settings() const override
	{
		return std::string(s_.sync ? "FUR_PM_SYNC" : "FUR_PM_EMULATED without latency") +
		       (s_.htm == "none" ? ", FUR_HTM_NONE" : ", FUR_HTM_AUTO") +
		       ", fur::ordered_map";
	}

protected:
	const Settings s_;
	fur::Heap heap_;

private:
	static fur::Heap make(const Settings &s)
	{
		if (access(s.path.c_str(), F_OK) == 0)
			throw std::runtime_error(
			        s.path +
			        ": the file exists: name another one, which the run makes");
		fur::Options o;
		o.heap_bytes = (64 << 20) + s.keys * 2 * (s.value_bytes + sizeof(uint64_t));
		o.pm = s.sync ? FUR_PM_SYNC : FUR_PM_EMULATED;
		o.htm = s.htm == "none"    ? FUR_HTM_NONE
		        : s.htm == "tsx"   ? FUR_HTM_TSX
		        : s.htm == "power" ? FUR_HTM_POWER
		                           : FUR_HTM_AUTO;
		o.address = s.address;
		o.max_threads = std::max(64U, s.writers + s.readers + 2);
		/* By default, for each line of the heap: no snapshot is revoked then. */
		o.snapshot_bytes = s.snapshot_mib ? s.snapshot_mib << 20 : o.heap_bytes / 64 * 80;
		return fur::Heap::create(s.path, o);
	}
};

template <unsigned WORDS>
class FurMap final : public FurStore
{
public:
	explicit FurMap(const Settings &s) : FurStore(s)
	{
		map_ = fur::root<Map>(fur::Thread(heap_), "map");
	}
	void fill() override
	{
		enum : uint64_t { BATCH = 2000 };
		fur::Thread self(heap_);
		for (uint64_t from = 0; from < s_.keys; from += BATCH)
			fur::update(self, fur::rerun, [&](fur_update *tx) {
				for (uint64_t k = from; k < std::min(from + BATCH, s_.keys); k++)
					map_->insert_or_assign(tx, k, Value{{k}});
			});
	}
	Put connect() override
	{
		auto self = std::make_shared<fur::Thread>(heap_);
		return [this, self](uint64_t key, const void *words) {
			Value value;
			memcpy(&value, words, sizeof value);
			fur::update(*self, fur::rerun,
			        [&](fur_update *tx) { map_->insert_or_assign(tx, key, value); });
		};
	}
	Read reader() override
	{
		struct Open {
			explicit Open(const fur::Heap &heap) : self(heap), snapshot(self) {}
			fur::Thread self;
			fur::Snapshot snapshot;
		};
		auto open = std::make_shared<Open>(heap_);
		return [this, open] { return open->snapshot.read(open->self, entries()); };
	}
	Read reader_by(Way way) override
	{
		auto self = std::make_shared<fur::Thread>(heap_);
		switch (way) {
		case Way::SNAPSHOT:
			return [this, self] { return fur::Snapshot(*self).read(*self, entries()); };
		case Way::PLAIN:
			return [this, self] {
				return fur::read(*self, [&](fur_ro *tx) { return walk(tx); });
			};
		case Way::OPTIMISTIC:
			return [this, self] { return fur::read(*self, fur::rerun, entries()); };
		case Way::COPY: break;
		}
		return [this] {
			const int wrong = heap_.scan([&](const fur::Heap &copy) {
				fur::Thread mine(copy);
				return fur::read(mine, [&](fur_ro *tx) {
					return walk(tx);
				}).entries != s_.keys;
			});
			return Seen{wrong ? 0 : s_.keys, 0};
		};
	}
	uint64_t sum_in(fur_thread *self, const fur::Snapshot &snapshot) override
	{
		return snapshot.read(self, entries()).sum;
	}
	uint64_t sum_now(fur_thread *self) override
	{
		return fur::read(self, [&](fur_ro *tx) { return walk(tx); }).sum;
	}

private:
	struct Value {
		uint64_t word[WORDS];
	};
	using Map = fur::ordered_map<uint64_t, Value>;
	template <class Tx>
	Seen walk(Tx *tx) const
	{
		Seen seen;
		for (const auto &[key, value] : map_->in(tx)) {
			seen.entries++;
			seen.sum += value.word[0];
		}
		return seen;
	}
	auto entries() const
	{
		return [this](fur_reader *tx) { return walk(tx); };
	}
	Map *map_ = nullptr;
};

inline std::unique_ptr<FurStore> make_fur_store(const Settings &s)
{
	if (s.value_bytes == sizeof(uint64_t))
		return std::make_unique<FurMap<1>>(s);
	return std::make_unique<FurMap<8>>(s);
}

} // namespace snapshot

#endif /* BENCH_SNAPSHOT_FUR_MAP_HPP */
