/* SPDX-License-Identifier: BSD-3-Clause
 *
 * store.hpp - indexes and version chains as a transaction sees them: something that serves
 * requests, many at a time.  NearStore has them in modules, DramStore in the host's memory.
 */
#ifndef LAB_OLTPIM_STORE_HPP
#define LAB_OLTPIM_STORE_HPP

#include "kernels/oltpim.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace oltpim
{

/* A line of memory: who serves one takes no other one's line. */
struct alignas(64) Request {
	oltpim_kind kind : 16;
	unsigned number : 16; /* in its round */
	unsigned place;       /* module, or partition, that has the object */
	union {
		oltpim_write write;
		oltpim_commit commit;
		oltpim_abort abort;
		oltpim_get get;
		oltpim_scan scan;
		oltpim_read read;
	};
	union {
		uint64_t tuple;
		oltpim_written written;
		oltpim_scanned *scanned; /* where the reply goes */
	} reply;
};
static_assert(sizeof(Request) == 64);

/* What a transaction asks for at once. */
struct Round {
	static constexpr unsigned MOST = 300;
	Request requests[MOST]; /* the first member: see round_of() */
	unsigned n = 0;
	/* Requests that are not served.  The worker that serves one decrements it with release, and
	 * the transaction reads 0 with acquire: it sees all replies then. */
	std::atomic<uint32_t> pending{0};
	/* Of the store, until all are served: numbers of requests, one rank's after the other's,
	 * and which of them are a rank's */
	struct Part {
		Round *round;
		Part *next; /* of a list */
		unsigned first, n;
	};
	std::vector<Part> parts = {};
	uint16_t by_rank[MOST];
};
static_assert(std::is_standard_layout_v<Round> && Round::MOST <= 1 << 16);

inline Round &round_of(Request &r)
{
	return *reinterpret_cast<Round *>(&r - r.number);
}

/* To be loaded.  `content`: of an entry, the key of its row; of a row, the address of its tuple. */
struct Record {
	uint64_t key, content;
};

class Store
{
public:
	virtual ~Store() = default;
	/* The module of a key. */
	virtual unsigned place_of(uint64_t key) const = 0;
	/* Does it keep what a version of this entry, of a secondary index, names?  Else a version
	 * is a tuple of the host, whose value is that. */
	virtual bool keeps_entry(uint64_t key) const = 0;
	/* Have these records, as transaction 0 with number 0; keys rise.  Before any request. */
	virtual void load(const std::vector<Record> &records) = 0;
	/* Take the requests for places of this store.  Round and requests stay where they are until
	 * all are served. */
	virtual void issue(Round &round, unsigned worker) = 0;
	/* Do a part of the work on requests that were issued.  False: nothing to do right now. */
	virtual bool help(unsigned worker) = 0;
	/* The same with one of several parts of it, to its end: for runs whose order a seed
	 * gives. */
	virtual unsigned parts() const = 0;
	virtual bool help_part(unsigned part) = 0;
};

/* Of each tree, `shift` of hash_of(). */
using Shifts = std::array<uint8_t, OLTPIM_TREES>;

/* A key's upper byte is its tree; `shift`: as many low bits do not matter, so that neighbours which
 * a scan reads share a module. */
inline uint64_t hash_of(uint64_t key, unsigned shift)
{
	uint64_t z = (key >> shift) * 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 32) * 0xd6e8feb86659fd93u;
	return z ^ z >> 32;
}

inline uint64_t hash_of(uint64_t key, const Shifts &shifts)
{
	return hash_of(key, shifts[(key >> OLTPIM_TREE_SHIFT) % OLTPIM_TREES]);
}

} // namespace oltpim

#endif /* LAB_OLTPIM_STORE_HPP */
