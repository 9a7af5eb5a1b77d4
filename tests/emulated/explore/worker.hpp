/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker.hpp - the workloads: one simulated thread's transactions on the heap.
 */
#ifndef EXPLORE_WORKER_HPP
#define EXPLORE_WORKER_HPP

#include "data.hpp"
#include "recorded.hpp"
#include "run.hpp"

#include <fur_bulk.h>
#include <utility>

namespace explore
{

/* What a simulated thread does when a transaction has ended. */
class Ending
{
protected:
	explicit Ending(unsigned number) : random_{run.seed * 1000003 + number} {}

	/* A transaction has just returned: now a power failure could take its effects back. */
	void perhaps_crash(bool risky)
	{
		point_returned();
		if (!run.crash_near_return || (run.crash_if_risky && !risky) ||
		        emu_count().accesses < run.crash_near_return)
			return;
		run.crash_near_return = 0;
		emu_crash_in(1 + random_.below(30));
	}

	/* It ended with a ticket.  Perhaps this thread waits for it; or it hands it over, and waits
	 * for the ticket that it finds there; or no thread waits.  wait(heap, ticket): of several
	 * heaps, this one. */
	template <class Wait>
	void perhaps_wait(fur_ticket ticket, uint64_t mark, unsigned heap, Wait wait)
	{
		int thread = emu_thread();
		uint64_t r = random_.below(4);
		if (r == 0)
			return;
		if (r == 1) {
			Handed &h = run.handed;
			if (h.busy.exchange(1, std::memory_order_acquire))
				return;
			std::swap(h.thread, thread);
			std::swap(h.mark, mark);
			std::swap(h.heap, heap);
			std::swap(h.ticket, ticket);
			h.busy.store(0, std::memory_order_release);
			if (thread < 0)
				return;
		}
		wait(heap, ticket);
		perhaps_crash(oracle::answered(thread, mark, heap));
	}

	Random random_;
};

template <class Subject>
class Worker : Ending
{
public:
	Worker(Subject &subject, unsigned number)
	    : Ending(number), self_(subject), data_(static_cast<Data *>(subject.root())),
	      base_(subject.base())
	{
		mine_ = &data_->newest[static_cast<unsigned>(emu_thread())].value;
	}

	void work()
	{
		for (unsigned k = 0; k < run.operations; k++) {
			bool is_update = random_.below(100) < run.update_percent;
			uint64_t r = random_.next();
			if (run.work == Work::TPCC)
				is_update ? tpcc_update(r) : tpcc_read(r);
			else if (run.work == Work::BANK)
				is_update ? bank_update(r) : bank_read();
			else if (run.work == Work::FLAGS)
				is_update ? flags_update(r) : flags_read();
			else if (run.work == Work::TABLES)
				is_update ? tables_update(r) : tables_read(r);
			else if (run.work == Work::WORDS)
				is_update ? words_update(r) : words_read(r);
			else if (run.work == Work::CONTAINERS)
				is_update ? containers_update(r) : containers_read(r);
			else if (run.work == Work::COLLECTIONS)
				is_update ? collections_update(r) : collections_read(r);
			else if (run.work == Work::BULK)
				is_update ? bulk_or_short_update(r) : bulk_read();
			else
				is_update ? intset_update(r) : intset_read(r);
		}
	}

private:
	/* ---------------------------------------------------------------- intset */

	static int64_t key(uint64_t r)
	{
		return static_cast<int64_t>((r >> 8) % KEYS);
	}
	void intset_update(uint64_t r)
	{
		update(r, [r](auto *tx, Data *d) {
			(void)(r & 1 ? rbtree::insert(tx, &d->tree, key(r))
			             : rbtree::remove(tx, &d->tree, key(r)));
		});
	}
	void intset_read(uint64_t r)
	{
		read([r](auto *tx, Data *d) {
			rbtree::contains(tx, &d->tree, key(r));
			rbtree::contains(tx, &d->tree, key(r >> 16));
		});
	}

	/* ------------------------------------------------------------------ bank */

	void bank_update(uint64_t r)
	{
		if (r >> 62 == 0)
			return update(r, [r](auto *tx, Data *d) {
				fur_store(tx, &d->pair[r & 1].value,
				        fur_load(tx, &d->pair[~r & 1].value) + 1);
			});
		update(r, [this, r](auto *tx, Data *d) {
			uint64_t *from = &d->account[(r >> 8) % ACCOUNTS][0],
			         *to = &d->account[(r >> 16) % ACCOUNTS][0], amount = r >> 24 & 63,
			         had = fur_load(tx, from);
			perhaps_join(r >> 53);
			fur_store(tx, from, had - amount);
			fur_store(tx, to, fur_load(tx, to) + amount);
		});
	}
	void bank_read()
	{
		read([](auto *tx, Data *d) {
			uint64_t total = 0;
			for (auto &a : d->account) {
				total += fur_load(tx, &a[0]);
				if (&a == &d->account[ACCOUNTS / 2])
					point_read_half();
			}
		});
	}

	/* ----------------------------------------------------------------- flags */

	/* Words that change to and fro: comparing them does not tell that they have changed.  They
	 * are so few that two updates often restore them all.  The number of flags that are set
	 * stays even. */
	void flags_update(uint64_t r)
	{
		update(r, [r](auto *tx, Data *d) {
			for (auto &a : d->account)
				fur_load(tx, &a[1]);
			for (uint64_t which : {(r >> 8) % FLAGS, (r >> 16) % FLAGS}) {
				uint64_t *flag = &d->account[which][1];
				fur_store(tx, flag, fur_load(tx, flag) ^ 1);
			}
		});
	}
	void flags_read()
	{
		read([](auto *tx, Data *d) {
			for (auto &a : d->account)
				fur_load(tx, &a[1]);
		});
	}

	/* ---------------------------------------------------------------- tables */

	/* Large blocks that updates allocate, fill, change and give back; the words of one are
	 * equal. */
	template <class Tx>
	static void fill(Tx *tx, uint64_t *table, uint64_t value)
	{
		for (uint64_t k = 0; k < TABLE_WORDS; k++)
			fur_store(tx, &table[k * TABLE_STEP], value);
	}
	template <class Tx>
	static void look_at_table(Tx *tx, const Data *d, uint64_t t)
	{
		const uint64_t *table = fur_load(tx, &d->table[t % TABLES][0]);
		for (uint64_t k = 0; table && k < TABLE_WORDS; k++)
			fur_load(tx, &table[k * TABLE_STEP]);
	}
	void tables_update(uint64_t r)
	{
		update(r, [r](auto *tx, Data *d) {
			for (uint64_t t = 0; t < (r >> 20) % 4; t++)
				look_at_table(tx, d, t);
			uint64_t **place = &d->table[(r >> 8) % TABLES][0],
			         *old = fur_load(tx, place);
			uint64_t kind = (r >> 16) % 8;
			if (old && kind < 3) {
				/* Under snapshot isolation nothing else would keep an update that
				 * gives the block back from committing beside this one. */
				fur_promote(tx, place);
				for (uint64_t k = 0; k < TABLE_WORDS; k++)
					fur_store(tx, &old[k * TABLE_STEP],
					        fur_load(tx, &old[k * TABLE_STEP]) + 1);
				return;
			}
			uint64_t value = old ? fur_load(tx, &old[0]) + 100 : r >> 32;
			/* Given back before, after, or without a new one. */
			if (old && kind != 3)
				free_sized(tx, old, TABLE_BYTES);
			uint64_t *table = nullptr;
			if (!old || kind != 4)
				table = static_cast<uint64_t *>(fur_alloc(tx, TABLE_BYTES));
			if (table)
				fill(tx, table, value);
			fur_store(tx, place, table);
			if (old && kind == 3)
				free_sized(tx, old, TABLE_BYTES);
		});
	}
	void tables_read(uint64_t r)
	{
		read([r](auto *tx, Data *d) {
			look_at_table(tx, d, r >> 8);
			look_at_table(tx, d, r >> 16);
		});
	}

	/* ----------------------------------------------------------------- words */

	/* Each update stores to one word of a line, often without a load: a line's version tells
	 * of the last of these updates alone. */
	static uint64_t *word_of(Data *d, uint64_t r)
	{
		return &d->account[r % FLAGS][2 + r / FLAGS % 6];
	}
	void words_update(uint64_t r)
	{
		update(r, [r](auto *tx, Data *d) {
			const uint64_t value =
			        r >> 24 & 1 ? r >> 32 : fur_load(tx, word_of(d, r >> 8 & 255)) + 1;
			fur_store(tx, word_of(d, r >> 16 & 255), value);
		});
	}
	void words_read(uint64_t r)
	{
		read([r](auto *tx, Data *d) {
			fur_load(tx, word_of(d, r >> 8 & 255));
			fur_load(tx, word_of(d, r >> 16 & 255));
		});
	}

	/* ------------------------------------------------------------ containers */

	void containers_update(uint64_t r)
	{
		update(r, [r](auto *tx, Data *d) {
			update_containers(
			        tx, *fur_load(tx, &d->containers), run.seed % CONTAINERS, r);
		});
	}
	void containers_read(uint64_t r)
	{
		read([r](auto *tx, Data *d) {
			read_containers(
			        tx, *fur_load(tx, &d->containers), run.seed % CONTAINERS, r);
		});
	}

	void collections_update(uint64_t r)
	{
		if constexpr (requires { self_.bulk(fur_bulk(), true); }) /* libfur's */
			update(r, [r](auto *tx, Data *d) {
				update_collections(tx, *fur_load(tx, &d->collections),
				        run.seed % COLLECTIONS, r);
			});
	}
	void collections_read(uint64_t r)
	{
		if constexpr (requires { self_.bulk(fur_bulk(), true); })
			read([r](auto *tx, Data *d) {
				read_collections(tx, *fur_load(tx, &d->collections),
				        run.seed % COLLECTIONS, r);
			});
	}

	/* ------------------------------------------------------------------ bulk */

	/* Short updates of some records, next to bulk updates of all, by any of the threads. */
	void bulk_or_short_update(uint64_t r)
	{
		if constexpr (requires { self_.bulk(fur_bulk(), true); })
			if (r % 8 == 0)
				return bulk_update((r >> 3 & 3) == 0, run.o->replayer ? r >> 5 : 0);
		update(r, [r](auto *tx, Data *d) {
			auto *all = fur_load(tx, &d->bulk);
			BulkRecord *from = &all[(r >> 8) % BULK_RECORDS],
			           *to = &all[(r >> 24) % BULK_RECORDS];
			/* Some store elsewhere than where they have loaded. */
			if (r >> 60 < 2)
				return fur_store(
				        tx, &d->pair[r & 1].value, fur_load(tx, &from->last));
			if (r >> 60 < 6) {
				uint64_t value = fur_load(tx, &from->first);
				fur_store(tx, &to->first, value);
				return fur_store(tx, &to->last, value);
			}
			for (uint64_t which : {r >> 8, r >> 16}) {
				BulkRecord *record = &all[which % BULK_RECORDS];
				uint64_t value = fur_load(tx, &record->first) + 1;
				fur_store(tx, &record->first, value);
				fur_store(tx, &record->last, value);
			}
		});
	}
	void bulk_read()
	{
		read([](auto *tx, Data *d) {
			auto *all = fur_load(tx, &d->bulk);
			for (int k = 0; k < BULK_RECORDS; k++) {
				fur_load(tx, &all[k].first);
				fur_load(tx, &all[k].last);
			}
		});
	}

	/* What map() was last called with for each record, and what it made of it.  The record with
	 * the last number is the thread's own word. */
	struct BulkHistory {
		Worker *worker;
		uint64_t before[BULK_RECORDS + 1], after[BULK_RECORDS + 1];
		bool mapped[BULK_RECORDS + 1]; /* here, and not by an operator */
		uint64_t looks;                /* left until it is cancelled; 0: it is not */
		bool each;
	};
	/* Called at last when the operator's results are there: the publication comes next.  Of
	 * EACH, records are done when they are published: it is too late to cancel then. */
	static bool bulk_progress(uint64_t done, uint64_t records, void *history)
	{
		auto &h = *static_cast<BulkHistory *>(history);
		if (h.each && done == records)
			return true;
		const bool goes_on = h.looks == 0 || --h.looks != 0;
		run.bulk_thread = emu_thread();
		run.bulk = goes_on ? history : nullptr; /* the block's free is published next */
		return goes_on;
	}
	static bool bulk_map(void *copy, size_t bytes, uint64_t number, void *history)
	{
		auto &h = *static_cast<BulkHistory *>(history);
		/* One bulk update runs at a time, so the run needs one place for this.  The thread
		 * first: that of the last bulk update may be about to publish another update. */
		run.bulk_thread = emu_thread();
		run.bulk = history;
		auto *word = static_cast<uint64_t *>(copy);
		uint64_t *last = &word[bytes / 8 - 1];
		h.mapped[number] = true;
		h.before[number] = *word;
		h.after[number] = bulk_result(number, *word);
		run.bulk_torn |= number != BULK_RECORDS && *word != *last;
		if (number != BULK_RECORDS)
			*last = h.after[number];
		*word = h.after[number];
		return h.before[number] != h.after[number]; /* some stay as they are */
	}
	/* Its reads and writes are those of the last calls; no other thread stores meanwhile. */
	void bulk_publishes(BulkHistory &h)
	{
		for (int k = 0; k <= BULK_RECORDS; k++)
			if (!h.mapped[k]) {
				h.before[k] = k < BULK_RECORDS ? data_->bulk[k].first : *mine_;
				h.after[k] = bulk_result(uint64_t(k), h.before[k]);
			}
		auto offset = [this](const void *at) {
			return uint64_t(static_cast<const char *>(at) - base_);
		};
		oracle::attempt();
		for (int k = 0; k < BULK_RECORDS; k++)
			for (auto *at : {&data_->bulk[k].first, &data_->bulk[k].last}) {
				oracle::read(offset(at), h.before[k]);
				if (h.before[k] != h.after[k])
					oracle::write(offset(at), h.after[k]);
			}
		oracle::read(offset(mine_), h.before[BULK_RECORDS]);
		oracle::write(offset(mine_), h.after[BULK_RECORDS]);
		oracle::committing(oracle::Becomes::PUBLISHED, h.after[BULK_RECORDS]);
	}
	/* `by_operator`: random, or 0: by none. */
	void bulk_update(bool each, uint64_t by_operator)
	{
		BulkHistory history = {this, {}, {}, {}, 0, each};
		const fur_extent extents[] = {
		        {&data_->bulk[0].first, sizeof(BulkRecord), BULK_RECORDS}, {mine_, 0, 1}};
		fur_bulk job;
		fur_bulk_init(&job);
		job.map = bulk_map;
		job.arg = &history;
		job.bytes = BULK_BYTES;
		job.extents = extents;
		job.n = 2;
		/* So few records are one portion, so that EACH also changes them in one update. */
		job.atomic = each ? FUR_BULK_EACH : FUR_BULK_WHOLE;
		if (by_operator % 4) {
			/* A third is cancelled, if it takes so long. */
			history.looks = by_operator % 4 == 1 ? 2 + by_operator / 4 % 4 : 0;
			job.progress = bulk_progress;
		}
		run.bulk_publishes = [](void *now) {
			auto *h = static_cast<BulkHistory *>(now);
			h->worker->bulk_publishes(*h);
		};
		oracle::invoke(true);
		bool committed = self_.bulk(job, by_operator % 4);
		if (run.bulk == &history) /* it has failed before its publication */
			run.bulk = nullptr;
		if (!committed)
			oracle::attempt();
		bool risky = oracle::returned(committed);
		if (committed) {
			point_bulk_returned();
			perhaps_crash(risky);
		}
	}

	/* ------------------------------------------------------------------ tpcc */

	/* Two districts of the ten, so that threads meet more often */
	static uint64_t district(uint64_t r)
	{
		return 1 + (r >> 8) % 2;
	}
	static uint64_t customer(uint64_t r)
	{
		return 1 + (r >> 12) % MICRO.customers;
	}
	void tpcc_read(uint64_t r)
	{
		uint64_t d = district(r), c = customer(r);
		if (r & 1)
			return read([=](auto *tx, Data *data) {
				tpcc::order_status(
				        tx, data->database, {1, d, c, c - 1, (r >> 20 & 1) != 0});
			});
		read([=](auto *tx, Data *data) {
			uint64_t seen[64];
			tpcc::stock_level(
			        tx, data->database, {1, d, MICRO.stock_orders, 15}, seen, 64);
		});
	}
	void tpcc_update(uint64_t r)
	{
		uint64_t d = district(r), c = customer(r);
		if (r % 8 == 0)
			return update(r, [=](auto *tx, Data *data) {
				tpcc::delivery(
				        tx, data->database, {1, 1 + (r >> 30) % 10, r >> 32});
			});
		if (r & 1)
			return update(r, [=](auto *tx, Data *data) {
				tpcc::payment(tx, data->database,
				        {1, d, 1, d, c, c - 1, r >> 32, (r >> 20 & 1) != 0,
				                static_cast<int64_t>(1 + (r >> 40))});
			});
		tpcc::NewOrder in = {1, d, c, 1 + (r >> 21) % 3, r >> 32, {}};
		for (uint64_t n = 0; n < in.lines; n++) {
			in.line[n].item = 1 + (r >> (24 + 5 * n)) % MICRO.items;
			in.line[n].supplier = 1;
			in.line[n].quantity = 1 + n;
		}
		update(r, [in](auto *tx, Data *data) { tpcc::new_order(tx, data->database, in); });
	}

	/* ---------------------------------------------------------- transactions */

	void perhaps_move()
	{
		if constexpr (requires { self_.move_updates(true); })
			if (run.moves_percent && random_.below(100) < run.moves_percent)
				self_.move_updates(random_.below(2) == 0);
	}

	template <class Body>
	void read(Body body)
	{
		perhaps_move();
		point_begin();
		oracle::invoke(false);
		if constexpr (requires { self_.has_snapshots(); })
			if (run.snapshot_percent && random_.below(100) < run.snapshot_percent &&
			        self_.has_snapshots() && read_in_snapshot(body))
				return perhaps_crash(oracle::returned(true));
		auto reads = [&](auto *tx) {
			oracle::attempt();
			Recorded recorded{tx, base_};
			body(&recorded, data_);
			oracle::committing(oracle::Becomes::VISIBLE_LATER, 0);
			return 0;
		};
		if constexpr (requires { self_.read_later(reads); })
			if (run.tickets)
				return read_later(reads);
		self_.read(reads);
		perhaps_crash(oracle::returned(true));
	}

	/* False: the snapshot was revoked. */
	template <class Body>
	bool read_in_snapshot(Body body)
	{
		oracle::attempt();
		const bool all = self_.read_in_snapshot(
		        1 + static_cast<unsigned>(random_.below(4)), oracle::fixed, [&](auto *tx) {
			        Recorded recorded{tx, base_};
			        body(&recorded, data_);
		        });
		if (all)
			oracle::committing(oracle::Becomes::VISIBLE_LATER, 0);
		return all;
	}

	/* A transaction that ends with a ticket. */
	template <class Reads>
	void read_later(Reads reads)
	{
		fur_ticket ticket = self_.read_later(reads);
		perhaps_wait(ticket, oracle::ended());
	}

	void perhaps_wait(fur_ticket ticket, uint64_t mark)
	{
		Ending::perhaps_wait(
		        ticket, mark, 0, [this](unsigned, fur_ticket it) { self_.wait(it); });
	}

	template <class Body>
	void update(uint64_t r, Body body)
	{
		if constexpr (requires { self_.choose(r); })
			self_.choose(r >> 44);
		fur_ticket ticket;
		bool async = (r >> 34) % 100 < run.async_percent;
		perhaps_move();
		point_begin();
		oracle::invoke(true);
		auto changes = [&](auto *tx) {
			oracle::attempt();
			Recorded recorded{tx, base_};
			body(&recorded, data_);
			perhaps_join(r >> 50);
			/* One update in 16 aborts, if it wrote something.  An update that wrote
			 * nothing gets no number, and so writes nothing. */
			if (recorded.writes && !(r >> 40 & 15))
				return false;
			uint64_t number = 0;
			if (recorded.writes)
				fur_store(
				        &recorded, mine_, number = fur_load(&recorded, mine_) + 1);
			oracle::committing(Subject::becomes(tx), number);
			point_body_end();
			return true;
		};
		bool committed;
		if constexpr (requires { self_.update_or_abort(changes, &ticket); })
			committed = self_.update_or_abort(changes, async ? &ticket : nullptr);
		else
			committed = self_.update_or_abort(changes);
		if constexpr (requires { self_.sync(); }) {
			if (async && committed) {
				perhaps_wait(ticket, oracle::ended());
				if (!(r >> 45 & 15))
					sync();
				return;
			}
		}
		bool risky = oracle::returned(committed);
		if (committed)
			perhaps_crash(risky);
	}

	void sync()
	{
		point_sync();
		uint64_t mark = oracle::before_sync();
		self_.sync();
		perhaps_crash(oracle::synced(mark));
	}

	/* In an update: perhaps a read-only transaction joins it.  That reads the update's stores,
	 * and other words, by plain loads. */
	void perhaps_join(uint64_t random)
	{
		if constexpr (requires { self_.join([](auto) {}); })
			if (run.joins && !(random & 7))
				self_.join([&](auto *tx) {
					Recorded recorded{tx, base_};
					for (auto &a : data_->account) {
						fur_load(&recorded, &a[0]);
						fur_load(&recorded, &a[1]);
					}
					rbtree::contains(&recorded, &data_->tree, 0);
				});
	}

	typename Subject::Thread self_;
	Data *data_;
	const char *base_;
	uint64_t *mine_ = nullptr;
};

} // namespace explore

#endif /* EXPLORE_WORKER_HPP */
