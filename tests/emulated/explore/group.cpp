/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group.cpp - libfur with several heaps in a group, and the workload over them: updates and readers
 * of several heaps beside those of each heap alone.  The heaps lie side by side, so that the oracle
 * knows them as one memory.
 */
#include "group.hpp"
#include "copies.hpp"
#include "fur_subject.hpp"
#include "subject.hpp"

#include <array>
#include <fur_group.h>

namespace explore
{

static constexpr unsigned MEMBERS = 3;
static constexpr size_t PLACES = size_t(MEMBERS) * MOST_THREADS;

/* The members that a transaction names, in some order. */
struct Members {
	explicit Members(uint64_t r) : n(2 + (r >> 3) % 2)
	{
		for (unsigned k = 0; k < MEMBERS; k++)
			member[k] = (static_cast<unsigned>(r % 3) + (r & 4 ? k : MEMBERS - k)) %
			            MEMBERS;
	}
	unsigned member[MEMBERS], n;
};

/* The directory of a group, with its file and those of the heaps. */
class Group
{
public:
	Group(const Options &o, const std::string &path, fur_htm htm, uint32_t retries)
	{
		const fur_options f = options(o, htm, 0);
		fur_group_options g = {};
		g.size = sizeof g;
		g.heap = &f;
		if (fur_group_open((path + "/group").c_str(), &g, &group_))
			throw std::runtime_error(fur_errormsg());
		group_->next_update_id = 1; /* not a random one */
		for (unsigned m = 0; m < MEMBERS; m++) {
			engine &e = heap(m)->engine;
			e.retries = retries;
			if (run.snapshot_bytes)
				e.snapshot_bytes = run.snapshot_bytes;
		}
	}
	~Group()
	{
		must(fur_group_close(group_));
	}
	Group(const Group &) = delete;

	class Thread
	{
	public:
		explicit Thread(Group &group)
		{
			must(fur_group_register(group.group_, &self_));
			for (unsigned m = 0; m < MEMBERS; m++) {
				fur_thread *its;
				must(fur_group_thread_of(self_, m, &its));
				alone_[m].emplace(its);
			}
		}
		/* Its transactions of one heap. */
		Fur::Thread &alone(unsigned member)
		{
			return *alone_[member];
		}
		/* body(fur_group_update *): false to abort.  libfur leaves it by an exception, or
		 * by longjmp(). */
		template <class Body>
		bool update_or_abort(
		        const unsigned *members, unsigned n, bool by_exception, Body body)
		{
			const struct fur_run how = {sizeof how, nullptr,
			        by_exception ? fur::detail::leave_body : nullptr};
			const int result = fur_group_run(
			        self_, members, n,
			        [](fur_group_update *u, void *arg) {
				        try {
					        if (!(*static_cast<Body *>(arg))(u))
						        fur_group_abort(u);
				        } catch (const fur::detail::Defeat &) {
				        }
			        },
			        &body, &how);
			if (result == FUR_EABORTED)
				return false;
			must(result);
			return true;
		}
		template <class Body>
		void read(const unsigned *members, unsigned n, bool by_exception, Body body)
		{
			const struct fur_run how = {sizeof how, nullptr,
			        by_exception ? fur::detail::leave_body : nullptr};
			must(fur_group_read_run(
			        self_, members, n,
			        [](fur_group_reader *r, void *arg) {
				        try {
					        (*static_cast<Body *>(arg))(r);
				        } catch (const fur::detail::Defeat &) {
				        }
			        },
			        &body, &how));
		}

		/* read(member, fur_reader *) for each, in snapshots of one instant.  fixed() is
		 * called when they have begun.  False: libfur has revoked one of them. */
		template <class Fixed, class Read>
		bool read_in_snapshots(const Members &of, Fixed fixed, Read read)
		{
			fur_snapshot *snapshots[MEMBERS];
			int result = 0;
			must(fur_group_snapshot(self_, of.member, of.n, snapshots));
			fixed();
			for (unsigned k = 0; k < of.n && !result; k++) {
				auto reads = [&](fur_reader *tx) { read(of.member[k], tx); };
				fur::detail::Run<decltype(reads), fur_reader> call{reads};
				fur_thread *its;
				must(fur_group_thread_of(self_, of.member[k], &its));
				result = fur_snapshot_run(its, snapshots[k],
				        fur::detail::call_reader<decltype(reads)>, &call, nullptr);
			}
			for (unsigned k = 0; k < of.n; k++)
				must(fur_snapshot_end(snapshots[k]));
			if (result != FUR_ETOOOLD)
				must(result);
			return result == 0;
		}

	private:
		fur_group_thread *self_ = nullptr;
		std::array<std::optional<Fur::Thread>, MEMBERS> alone_;
	};

	fur_heap *heap(unsigned member) const
	{
		return fur_group_heap(group_, member);
	}
	Data *data(unsigned member) const
	{
		return static_cast<Data *>(root_at_rest(heap(member), 0));
	}
	/* Of the first; the others follow it. */
	char *base() const
	{
		return static_cast<char *>(heap_base(heap(0)));
	}
	uint64_t bytes() const
	{
		return MEMBERS * heap_size(heap(0));
	}
	std::vector<const volatile uint64_t *> clocks() const
	{
		std::vector<const volatile uint64_t *> all;
		for (unsigned m = 0; m < MEMBERS; m++)
			all.push_back(&heap(m)->durability.next_durts);
		return all;
	}
	void replay_with(unsigned threads, unsigned preload, bool batch, unsigned unload_lines)
	{
		for (unsigned m = 0; m < MEMBERS; m++)
			Fur::replay_with(heap(m), threads, preload, batch, unload_lines);
	}
	/* As fur-replayer of each member: it knows nothing of the others. */
	void act_as_replayer(const std::atomic<bool> &over)
	{
		std::vector<std::thread> others;
		for (unsigned m = 1; m < MEMBERS; m++)
			others.emplace_back([this, m, &over] { replay_beside(m, over); });
		replay_beside(0, over);
		for (auto &t : others)
			t.join();
	}
	static fur_options options(const Options &o, fur_htm htm, unsigned member)
	{
		fur_options f = Fur::options(o, htm);
		f.address += member * heap_bytes(o);
		return f;
	}
	static void unmap(const Options &o)
	{
		munmap(reinterpret_cast<void *>(Fur::ADDRESS), MEMBERS * heap_bytes(o));
	}

private:
	void replay_beside(unsigned m, const std::atomic<bool> &over)
	{
		std::string path = run.path;
		path += '/';
		path += std::to_string(m);
		const Fur::Beside beside(heap(m)->durability, path.c_str());
		for (uint64_t turns = m; !over; turns++) {
			Fur::take_turn(beside.d.get(), turns);
			Fur::nap(turns);
		}
	}
	fur_group *group_ = nullptr;
};

/* --------------------------------------------------------------- the workload */

class GroupWorker : Ending
{
public:
	GroupWorker(Group &group, unsigned number)
	    : Ending(number), self_(group), base_(group.base())
	{
		for (unsigned m = 0; m < MEMBERS; m++)
			data_[m] = group.data(m);
	}

	void work()
	{
		for (unsigned k = 0; k < run.operations; k++) {
			const bool is_update = random_.below(100) < run.update_percent;
			const bool is_alone = random_.below(3) == 0;
			const uint64_t r = random_.next();
			perhaps_move();
			if (is_update)
				is_alone ? alone_update(r) : group_update(r);
			else
				is_alone ? alone_read(r) : group_read(r);
		}
	}

private:
	uint64_t *account(unsigned m, uint64_t r) const
	{
		return &data_[m]->account[r % ACCOUNTS][0];
	}
	uint64_t *newest(unsigned m) const
	{
		return &data_[m]->newest[static_cast<unsigned>(emu_thread())].value;
	}
	template <class Tx>
	static void move_money(Recorded<Tx> *from_tx, uint64_t *from, Recorded<Tx> *to_tx,
	        uint64_t *to, uint64_t amount)
	{
		fur_store(from_tx, from, fur_load(from_tx, from) - amount);
		fur_store(to_tx, to, fur_load(to_tx, to) + amount);
	}
	template <class Tx>
	void read_accounts(Recorded<Tx> *tx, unsigned m) const
	{
		for (unsigned k = 0; k < ACCOUNTS; k++)
			fur_load(tx, account(m, k));
	}
	void perhaps_move()
	{
		if (run.moves_percent && random_.below(100) < run.moves_percent)
			self_.alone(static_cast<unsigned>(random_.below(MEMBERS)))
			        .move_updates(random_.below(2) == 0);
	}

	/* ------------------------------------------------------- of one heap alone */

	template <class Tx>
	void change_alone(Recorded<Tx> *tx, unsigned m, uint64_t r) const
	{
		Data *d = data_[m];
		switch (r >> 4 & 7) {
		case 0: /* write skew, where isolation allows it */
			fur_store(tx, &d->pair[r & 1].value,
			        fur_load(tx, &d->pair[~r & 1].value) + 1);
			break;
		case 1: /* without a load */ fur_store(tx, &d->pair[r & 1].value, r >> 8); break;
		case 2: (void)rbtree::insert(tx, &d->tree, key(r)); break;
		case 3: (void)rbtree::remove(tx, &d->tree, key(r)); break;
		default: move_money(tx, account(m, r >> 8), tx, account(m, r >> 16), r >> 24 & 63);
		}
	}
	static int64_t key(uint64_t r)
	{
		return static_cast<int64_t>((r >> 32) % KEYS);
	}

	void alone_update(uint64_t r)
	{
		const unsigned m = static_cast<unsigned>(r % MEMBERS);
		Fur::Thread &self = self_.alone(m);
		self.choose(r >> 44);
		fur_ticket ticket;
		const bool async = (r >> 34) % 100 < run.async_percent;
		point_begin();
		oracle::invoke(true, m);
		auto changes = [&](auto *tx) {
			oracle::attempt();
			Recorded recorded{tx, base_};
			change_alone(&recorded, m, r);
			if (recorded.writes && !(r >> 40 & 15))
				return false;
			const oracle::Numbered number = numbered(&recorded, m);
			oracle::committing(Fur::becomes(tx), &number, recorded.writes != 0);
			point_body_end();
			return true;
		};
		const bool committed = self.update_or_abort(changes, async ? &ticket : nullptr);
		if (async && committed) {
			ended_with(ticket, m);
			if (!(r >> 45 & 15))
				sync(m);
		} else {
			const bool risky = oracle::returned(committed);
			if (committed)
				perhaps_crash(risky);
		}
	}
	/* Note in the heap, if the update has written there, that it is this thread's last. */
	template <class Tx>
	oracle::Numbered numbered(Recorded<Tx> *tx, unsigned m) const
	{
		const auto thread = static_cast<size_t>(emu_thread());
		uint64_t number = 0;
		if (tx->writes)
			fur_store(tx, newest(m), number = fur_load(tx, newest(m)) + 1);
		return {m * MOST_THREADS + thread, number};
	}
	void ended_with(fur_ticket ticket, unsigned m)
	{
		perhaps_wait(ticket, oracle::ended(), m,
		        [this](unsigned heap, fur_ticket it) { self_.alone(heap).wait(it); });
	}
	void sync(unsigned m)
	{
		point_sync();
		const uint64_t mark = oracle::before_sync();
		self_.alone(m).sync();
		perhaps_crash(oracle::synced(mark, m));
	}

	void alone_read(uint64_t r)
	{
		const unsigned m = static_cast<unsigned>(r % MEMBERS);
		Fur::Thread &self = self_.alone(m);
		point_begin();
		oracle::invoke(false, m);
		auto reads = [&](auto *tx) {
			Recorded recorded{tx, base_};
			read_accounts(&recorded, m);
			for (auto &p : data_[m]->pair)
				fur_load(&recorded, &p.value);
		};
		if (run.snapshot_percent && random_.below(100) < run.snapshot_percent &&
		        self.has_snapshots() && read_in_snapshot(self, reads))
			return perhaps_crash(oracle::returned(true));
		auto attempt = [&](auto *tx) {
			oracle::attempt();
			reads(tx);
			oracle::committing(oracle::Becomes::VISIBLE_LATER, 0);
		};
		if (run.tickets)
			return ended_with(self.read_later(attempt), m);
		self.read(attempt);
		perhaps_crash(oracle::returned(true));
	}
	/* False: the snapshot was revoked. */
	template <class Reads>
	bool read_in_snapshot(Fur::Thread &self, Reads reads)
	{
		oracle::attempt();
		const bool all = self.read_in_snapshot(
		        1 + static_cast<unsigned>(random_.below(4)), oracle::fixed, reads);
		if (all)
			oracle::committing(oracle::Becomes::VISIBLE_LATER, 0);
		return all;
	}

	/* ------------------------------------------------------ over several heaps */

	/* By member; `tx` is NULL for one that is not named. */
	using Parts = std::array<Recorded<fur_update>, MEMBERS>;

	void change_several(Parts &tx, const unsigned *named, unsigned n, uint64_t r) const
	{
		const unsigned a = named[0], b = named[1], last = named[n - 1];
		switch (r >> 4 & 7) {
		case 0: /* loads from one, and stores to another: two of them cross */
			fur_store(&tx[b], &data_[b]->pair[0].value,
			        fur_load(&tx[a], &data_[a]->pair[0].value) + 1);
			break;
		case 1: /* of all, and stores to one, or to two */
			for (unsigned k = 0; k < n; k++)
				read_accounts(&tx[named[k]], named[k]);
			fur_store(&tx[a], &data_[a]->pair[1].value, r >> 8);
			if (r >> 7 & 1)
				fur_store(&tx[b], &data_[b]->pair[1].value, r >> 8);
			break;
		case 2: /* only loads */
			for (unsigned k = 0; k < n; k++)
				read_accounts(&tx[named[k]], named[k]);
			break;
		case 3: /* a key moves, and with it a block */
			if (rbtree::remove(&tx[a], &data_[a]->tree, key(r)) ==
			        intset::Result::CHANGED)
				(void)rbtree::insert(&tx[b], &data_[b]->tree, key(r));
			break;
		case 4: /* it does not touch all that it names */
			fur_load(&tx[last], &data_[last]->pair[0].value);
			move_money(&tx[a], account(a, r >> 8), &tx[a], account(a, r >> 16),
			        r >> 24 & 63);
			break;
		case 5: /* a third part */
			move_money(&tx[a], account(a, r >> 8), &tx[last], account(last, r >> 18),
			        r >> 26 & 63);
			[[fallthrough]];
		default:
			move_money(&tx[a], account(a, r >> 8), &tx[b], account(b, r >> 16),
			        r >> 24 & 63);
		}
	}

	/* It is perhaps to be serial when it is defeated. */
	static void perhaps_hurry(fur_group_update *u, const Members &named, uint64_t r)
	{
		if ((r >> 57 & 7) != 0)
			return;
		for (unsigned k = 0; k < named.n; k++)
			fur_group_on(u, named.member[k])->thread->software.defeats = SOFTWARE_TRIES;
	}

	void group_update(uint64_t r)
	{
		const Members named(r >> 50);
		point_begin();
		oracle::invoke(true);
		auto changes = [&](fur_group_update *u) {
			oracle::attempt();
			perhaps_hurry(u, named, r);
			Parts tx = {};
			for (unsigned k = 0; k < named.n; k++)
				tx[named.member[k]] = {fur_group_on(u, named.member[k]), base_};
			change_several(tx, named.member, named.n, r);
			oracle::Numbered numbers[MEMBERS];
			size_t n = 0;
			for (unsigned m = 0; m < MEMBERS; m++)
				if (tx[m].writes)
					numbers[n++] = numbered(&tx[m], m);
			if (n && !(r >> 40 & 15))
				return false;
			oracle::committing(oracle::Becomes::PUBLISHED, numbers, n);
			point_body_end();
			return true;
		};
		const bool committed =
		        self_.update_or_abort(named.member, named.n, r >> 49 & 1, changes);
		const bool risky = oracle::returned(committed);
		if (committed)
			perhaps_crash(risky);
	}

	void group_read(uint64_t r)
	{
		const Members named(r >> 50);
		point_begin();
		oracle::invoke(false);
		auto reads = [&](unsigned m, fur_reader *reader) {
			Recorded<fur_reader> tx{reader, base_};
			read_accounts(&tx, m);
			for (auto &p : data_[m]->pair)
				fur_load(&tx, &p.value);
		};
		if (!perhaps_read_in_snapshots(named, reads))
			self_.read(named.member, named.n, r >> 49 & 1, [&](fur_group_reader *tx) {
				oracle::attempt();
				for (unsigned k = 0; k < named.n; k++)
					reads(named.member[k],
					        fur_group_reads(tx, named.member[k]));
				oracle::committing(oracle::Becomes::VISIBLE_LATER, 0);
			});
		perhaps_crash(oracle::returned(true));
	}
	/* False: it has not, or libfur has revoked one of them. */
	template <class Reads>
	bool perhaps_read_in_snapshots(const Members &named, Reads reads)
	{
		if (!run.snapshot_percent || random_.below(100) >= run.snapshot_percent ||
		        !self_.alone(0).has_snapshots())
			return false;
		oracle::attempt();
		const bool all = self_.read_in_snapshots(named, oracle::fixed, reads);
		if (all)
			oracle::committing(oracle::Becomes::VISIBLE_LATER, 0);
		return all;
	}

	Group::Thread self_;
	std::array<Data *, MEMBERS> data_;
	const char *base_;
};

template <>
struct WorkerOf<Group> {
	using type = GroupWorker;
};

/* ------------------------------------------------------------- before and after */

static void make_group(const Options &o, const std::string &path)
{
	fur_group *group;
	fur_group_thread *self;
	std::filesystem::create_directories(path);
	must(fur_group_create((path + "/group").c_str(), nullptr, &group));
	must(fur_group_register(group, &self));
	for (unsigned m = 0; m < MEMBERS; m++) {
		const fur_options f = Group::options(o, FUR_HTM_NONE, m);
		unsigned member;
		fur_thread *its;
		must(fur_group_add(group, (path + "/" + std::to_string(m)).c_str(), &f, &member));
		must(fur_group_thread_of(self, member, &its));
		Fur::Thread thread(its);
		struct {
			void set_root(fur_update *tx, void *p)
			{
				fur_set_root(tx, 0, p);
			}
		} subject;
		fill_heap(o, subject, thread);
	}
	must(fur_group_unregister(self));
	must(fur_group_close(group));
}

/* Whether the data holds together.  Nothing, or what is wrong. */
static std::string check_members(const Group &group)
{
	auto *tx = static_cast<fur_ro *>(nullptr); /* no other thread runs */
	uint64_t money = 0;
	for (unsigned m = 0; m < MEMBERS; m++) {
		const Data *d = group.data(m);
		uint64_t size;
		if (const char *wrong = rbtree::verify(tx, &d->tree, size))
			return "the tree of heap " + std::to_string(m) + ": " + wrong;
		for (auto &a : d->account)
			money += a[0];
		alloc_census census;
		if (alloc_check(heap_base(group.heap(m)), &census))
			return std::string("the allocator: ") + fur_errormsg();
		if (census.blocks != 1 + size)
			return "heap " + std::to_string(m) + " has " +
			       std::to_string(census.blocks) + " blocks, " +
			       std::to_string(1 + size) + " are reachable";
	}
	return money == uint64_t(MEMBERS) * ACCOUNTS * OPENING
	               ? ""
	               : "the accounts of all heaps hold " + std::to_string(money);
}

/* What recover_simulated() works on, and what it finds. */
struct alignas(256) Recovery {
	const Options *o;
	char path[256];
	bool refused;
	char why[512];
};
static Recovery recovery;

/* Simulated: thread 0. */
static void recover_simulated(void *)
{
	try {
		Group group(*recovery.o, recovery.path, FUR_HTM_NONE, 0);
	} catch (const std::exception &e) {
		recovery.refused = true;
		snprintf(recovery.why, sizeof recovery.why, "%s", e.what());
	}
}

/* Recover the group on the machine that failed, whose power may fail again meanwhile.  Nothing, or
 * what is wrong; *path: the copy that is left.  `in_order`: it keeps --recovery-order. */
static std::string fail_again(const Options &o, bool in_order, Random &random, std::string &path)
{
	char error[512];
	emu_options options = {};
	options.seed = random.next();
	/* How long a recovery takes varies; most of the work comes at the end. */
	options.crash_after = 1 + random.below(UINT64_C(1) << (8 + random.below(10)));
	if (in_order) {
		options.order = emu_order_read(o.recovery_order.c_str(), error, sizeof error);
		options.crash_after = 0;
	}
	recovery = {&o, {}, false, {}};
	snprintf(recovery.path, sizeof recovery.path, "%s", path.c_str());
	emu_on_event([](emu_event, int, int, void *) {}, nullptr);
	const emu_end end = emu_run(emu_current_machine(), &options, recover_simulated, nullptr);
	if (recovery.refused)
		return std::string("a recovery failed: ") + recovery.why;
	if (end == EMU_DONE)
		return "";
	if (end != EMU_CRASHED)
		return "a recovery does not end";
	Group::unmap(o);
	const std::string next = path + "+";
	copy_heap(path, next);
	remove_copy(path);
	path = next;
	return "";
}

static std::string check_group(const Options &o, const std::string &image, bool crashed)
{
	Random random{run.seed * 97 + 5};
	std::string path = image, wrong;
	if (crashed && !o.recovery_order.empty())
		wrong = fail_again(o, true, random, path);
	for (uint64_t more = crashed ? random.below(3) : 0; more && wrong.empty(); more--)
		wrong = fail_again(o, false, random, path);
	if (wrong.empty()) {
		try {
			Group group(o, path, FUR_HTM_NONE, 0);
			uint64_t newest[PLACES];
			for (unsigned k = 0; k < PLACES; k++)
				newest[k] = group.data(k / MOST_THREADS)
				                    ->newest[k % MOST_THREADS]
				                    .value;
			wrong = crashed ? oracle::check_durable(
			                          o.asked, group.base(), newest, PLACES)
			                : oracle::check_final(group.base());
			if (wrong.empty())
				wrong = check_members(group);
		} catch (const std::exception &e) {
			wrong = std::string("recovery failed: ") + e.what();
		}
	}
	remove_copy(path);
	return wrong;
}

const System group_system = {
        make_group, simulate<Group>, Group::unmap, check_group, nullptr, nullptr};

} // namespace explore
