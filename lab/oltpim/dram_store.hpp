/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dram_store.hpp - the same indexes and version chains in the host's memory, as in MosaicDB: a
 * worker serves many requests at a time, and goes on with another one when it has asked for lines
 * of memory that the first one needs (software interleaving).
 *
 * Keys are hashed to partitions, each with a B+tree of nodes of four lines, as a Masstree's nodes
 * are.  A leaf names objects.  An object is the head of its chain of tuples, which have the commit
 * numbers themselves.
 *
 *   INV-CN8  A lookup that has passed a partition whose tree an insert changed meanwhile begins
 *            again: `changes` is odd during the insert, and has grown after it.
 */
#ifndef LAB_OLTPIM_DRAM_STORE_HPP
#define LAB_OLTPIM_DRAM_STORE_HPP

#include "numbers.hpp"
#include "store.hpp"
#include "tuples.hpp"

#include <memory>
#include <vector>

namespace oltpim
{

struct DramSetup {
	unsigned workers = 1, partitions = 64;
	Shifts shifts = {};       /* R of the paper */
	bool collects = true;     /* versions that no transaction sees */
	unsigned first_place = 0; /* places: this one for the first partition */
};

class DramStore : public Store
{
public:
	/* Asks for the `lines` lines at p. */
	using Prefetch = void (*)(const void *p, unsigned lines);

	DramStore(const DramSetup &setup, const Numbers &numbers, Prefetch prefetch);
	~DramStore() override;

	unsigned place_of(uint64_t key) const override;
	bool keeps_entry(uint64_t) const override
	{
		return false;
	}
	void issue(Round &round, unsigned worker) override;
	bool help(unsigned worker) override;
	unsigned parts() const override;
	bool help_part(unsigned part) override;
	void load(const std::vector<Record> &records) override;

private:
	static constexpr unsigned FANOUT = 15;

	using Object = std::atomic<Tuple *>; /* the newest of its chain */
	struct alignas(64) Node {
		uint32_t count, is_leaf;
		Node *next;
		uint64_t keys[FANOUT];
		uint64_t below[FANOUT]; /* addresses of nodes; of a leaf, numbers of objects */
	};
	/* Objects have numbers from 1 on; block k has FIRST_BLOCK << k of them. */
	static constexpr unsigned FIRST_BLOCK = 64, BLOCKS = 26;
	struct alignas(64) Partition {
		std::atomic<uint64_t> changes{0}; /* odd: an insert holds it */
		Node *roots[OLTPIM_TREES] = {};
		std::unique_ptr<Object[]> objects[BLOCKS];
		uint32_t n_objects = 0;
		std::vector<std::unique_ptr<Node[]>> nodes; /* in blocks */
		unsigned nodes_left = 0;
	};
	enum Stage { BEGIN, NODE, OBJECT, TUPLE };
	/* A request on its way */
	struct Walk {
		Request *request;
		Stage stage;
		const Node *node;
		uint64_t changes;
		uint32_t object;
		Tuple *tuple;
		unsigned at; /* of a scan: entry of the leaf */
	};
	/* Of one worker */
	struct alignas(64) Queue {
		std::vector<Walk> walks;
		uint64_t oldest = 0;
		unsigned writes = 0;
	};

	bool step(Queue &q, Walk &w);
	bool begin(Walk &w);
	bool pass_node(Walk &w);
	bool pass_leaf(Walk &w);
	bool pass_object(Walk &w);
	bool pass_tuple(Queue &q, Walk &w);
	bool next_entry(Walk &w);
	bool look_at(Walk &w, uint32_t object);
	void insert(Queue &q, Walk &w);
	void write(Queue &q, Walk &w);
	uint64_t oldest(Queue &q) const;
	void collect(uint64_t oldest, Tuple *head, Request &r) const;
	void finalise(Request &r);
	uint32_t find_or_add(Partition &p, uint64_t key);
	static Node *make_node(Partition &p, bool leaf);
	static void split(Partition &p, Node *parent, unsigned at, Node *node);
	static Object &object_of(const Partition &p, uint32_t number);
	static bool changed(const Partition &p, const Walk &w);
	Partition &partition_at(unsigned place) const
	{
		return *partitions_[place - setup_.first_place];
	}

	const DramSetup setup_;
	const Numbers &numbers_;
	const Prefetch prefetch_;
	std::vector<std::unique_ptr<Partition>> partitions_;
	std::vector<Queue> queues_;
	Tuples loaded_{0}; /* entries */
};

} // namespace oltpim

#endif /* LAB_OLTPIM_DRAM_STORE_HPP */
