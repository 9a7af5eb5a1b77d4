/* SPDX-License-Identifier: BSD-3-Clause
 *
 * oracle.cpp - oracle.hpp, done.
 */
#include "oracle.hpp"

#include "../../emulator/emulated.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

namespace oracle
{

int (*current_thread)();
uint64_t (*current_ns)();

namespace
{

struct Access {
	uint64_t at, value;
	bool unknown = false; /* a write of an unknown value */
};

/* One attempt; or a whole transaction, if it committed. */
struct Tx {
	int thread;
	bool update;
	/* Updates that had returned when it was invoked: the highest of their numbers in visible
	 * order */
	uint64_t low = 0;
	uint64_t high = 0;  /* updates that were visible at its last access */
	bool fixed = false; /* `high` stays as it is */
	/* Steps; 0: has not.  `began`: its last attempt.  Answered later than it has returned, if
	 * it ended with a ticket */
	uint64_t invoked = 0, began = 0, became_visible = 0, returned = 0, answered = 0;
	uint64_t visible = 0; /* number in visible order, or 0 */
	/* Of the update in its thread, one for each heap that it has written */
	std::vector<Numbered> numbers;
	uint64_t durts = 0;  /* by which it became visible, or 0 */
	uint64_t moment = 0; /* when it became visible: in Run.moments */
	unsigned heap = 0;   /* of a transaction that ends with a ticket */
	size_t to_draw = 0;  /* durTSs that it draws still, since its end was called */
	bool begun = false, aborted = false, committing = false, pending = false, kept = true;
	bool published = false;            /* in software: its hardware transactions publish it */
	bool stored = false;               /* published, and not to be withdrawn any more */
	bool drew = false;                 /* a durTS, since its end was called */
	bool tries_to_store = false;       /* the same, unless its hardware transaction aborts */
	bool by_hardware = false;          /* visible since a hardware transaction has committed */
	std::optional<Access> forgot;      /* a read of a word of its own that had another value */
	std::vector<size_t> from;          /* updates it has read from, not answered then */
	std::vector<Access> reads, writes; /* reads of words that it had not written itself */
	uint64_t explained = 0;            /* the k that explains its reads */
};

enum class Kind {
	INVOKE,
	ATTEMPT,
	READ,
	WRITE,
	COMMITTING,
	VISIBLE,
	ABORT,
	AGAIN,
	SUSPEND,
	RESUME,
	RETURN,
	ANSWER
};

struct Event {
	Kind kind;
	size_t tx;
	uint64_t ns, at, value;
};

/* Memory that is zero without being touched. */
template <class T>
struct Zeros : std::allocator<T> {
	T *allocate(size_t n)
	{
		if (void *p = calloc(n, sizeof(T)))
			return static_cast<T *>(p);
		throw std::bad_alloc();
	}
	void deallocate(T *p, size_t)
	{
		free(p);
	}
	void construct(T *) {}
};

struct Run {
	std::vector<uint8_t, Zeros<uint8_t>> initial;
	std::vector<Tx> txs;
	std::vector<Event> events;
	std::map<int, size_t> open;        /* thread -> its transaction */
	std::map<int, size_t> fenced;      /* the same, of an update that the shipping log lacks */
	std::set<int> in_hardware;         /* threads with a hardware transaction open */
	std::vector<size_t> order;         /* visible updates */
	std::map<uint64_t, size_t> writer; /* of a word: the visible update that wrote it last */
	uint64_t newest_returned = 0;
	/* Of several heaps: their clocks; draws, and other updates that became visible, so far; and
	 * when each thread has drawn last */
	std::vector<const volatile uint64_t *> clocks;
	uint64_t moments = 0;
	std::array<uint64_t, EMU_MAX_THREADS> drew_at = {};
	std::set<size_t> named; /* in the violation found last */
	size_t blamed = 0;
	uint64_t failed_ns = 0;
	Counts counts = {};
} run;

uint64_t word_at(const void *heap, uint64_t at)
{
	uint64_t value;
	memcpy(&value, static_cast<const uint8_t *>(heap) + at, 8);
	return value;
}

uint64_t initial_word(uint64_t at)
{
	return at + 8 <= run.initial.size() ? word_at(run.initial.data(), at) : 0;
}

void event(Kind kind, size_t tx, uint64_t at = 0, uint64_t value = 0)
{
	run.events.push_back({kind, tx, current_ns(), at, value});
}

Tx *open_tx(int thread)
{
	auto found = run.open.find(thread);
	return found == run.open.end() ? nullptr : &run.txs[found->second];
}

size_t index_of(const Tx &tx)
{
	return static_cast<size_t>(&tx - run.txs.data());
}

/* The open transaction has ended. */
Tx &close_tx(bool committed)
{
	Tx &tx = *open_tx(current_thread());
	event(Kind::RETURN, index_of(tx));
	tx.returned = run.events.size();
	tx.aborted = !committed;
	run.open.erase(tx.thread);
	return tx;
}

/* The word's value is that of an update that may be lost still. */
void comes_from(Tx &tx, uint64_t at)
{
	if (auto by = run.writer.find(at); by != run.writer.end() && !run.txs[by->second].answered)
		tx.from.push_back(by->second);
}

bool reads_unanswered(const Tx &tx)
{
	return std::any_of(
	        tx.from.begin(), tx.from.end(), [](size_t by) { return !run.txs[by].answered; });
}

void becomes_visible(Tx &tx)
{
	/* An update may have restored a value that we had read before. */
	for (const Access &r : tx.reads)
		comes_from(tx, r.at);
	run.order.push_back(index_of(tx));
	/* Most writes follow the one before in memory: one that fills a block always does. */
	auto next = run.writer.end();
	for (const Access &w : tx.writes)
		next = std::next(run.writer.insert_or_assign(next, w.at, index_of(tx)));
	tx.visible = run.order.size();
	if (!tx.moment)
		tx.moment = ++run.moments;
	event(Kind::VISIBLE, index_of(tx));
	tx.became_visible = run.events.size();
}

bool comes_after(const Tx &other, const Tx &tx)
{
	return run.clocks.empty() ? other.durts > tx.durts : other.moment > tx.moment;
}

/* The updates from this number on get the next one. */
void make_room_at(uint64_t number)
{
	const auto move = [number](uint64_t &n) { n += n >= number; };
	for (Tx &tx : run.txs) {
		move(tx.visible);
		move(tx.low);
		move(tx.high);
	}
	move(run.newest_returned);
}

/* It has drawn a durTS.  Between that and the report others may have drawn later ones and been
 * reported: it comes before them. */
void becomes_visible_by(Tx &tx, uint64_t durts)
{
	tx.durts = durts;
	if (!run.clocks.empty())
		tx.moment = run.drew_at.at(static_cast<size_t>(tx.thread));
	size_t place = run.order.size();
	while (place > 0 && comes_after(run.txs[run.order[place - 1]], tx))
		place--;
	if (place == run.order.size()) {
		becomes_visible(tx);
		return;
	}
	make_room_at(place + 1);
	run.order.insert(run.order.begin() + static_cast<std::ptrdiff_t>(place), index_of(tx));
	tx.visible = place + 1;
	for (const Access &w : tx.writes) {
		auto by = run.writer.find(w.at);
		if (by == run.writer.end() || run.txs[by->second].visible < tx.visible)
			run.writer[w.at] = index_of(tx);
	}
	event(Kind::VISIBLE, index_of(tx));
}

} // namespace

void start(const void *initial, size_t bytes)
{
	run = {};
	/* A new heap is almost nothing but zeros. */
	static const uint8_t zeros[4096] = {};
	run.initial.resize(bytes);
	for (size_t at = 0; at < bytes; at += sizeof zeros) {
		auto *from = static_cast<const uint8_t *>(initial) + at;
		size_t n = std::min(sizeof zeros, bytes - at);
		if (memcmp(from, zeros, n) != 0)
			memcpy(run.initial.data() + at, from, n);
	}
}

void several(const std::vector<const volatile uint64_t *> &clocks)
{
	run.clocks = clocks;
}

void invoke(bool update, unsigned heap)
{
	Tx tx;
	tx.heap = heap;
	tx.thread = current_thread();
	tx.update = update;
	tx.low = run.newest_returned;
	tx.high = run.order.size();
	run.txs.push_back(tx);
	size_t index = run.txs.size() - 1;
	run.open[tx.thread] = index;
	event(Kind::INVOKE, index);
	run.txs[index].invoked = run.events.size();
}

void attempt()
{
	Tx &tx = *open_tx(current_thread());
	/* The machine reports aborts.  A defeat is not reported: the body runs again. */
	if (tx.begun && !tx.aborted) {
		aborted();
		run.counts.defeated++;
	}
	/* The reads of the last attempt are kept for the check, as those of a separate
	 * transaction. */
	if (tx.aborted) {
		Tx again;
		again.thread = tx.thread;
		again.update = tx.update;
		again.heap = tx.heap;
		again.low = tx.low;
		again.high = run.order.size();
		again.invoked = tx.invoked;
		run.txs.push_back(again);
		run.open[again.thread] = run.txs.size() - 1;
	}
	run.counts.attempts++;
	Tx &now = *open_tx(current_thread());
	now.begun = true;
	event(Kind::ATTEMPT, index_of(now));
	now.began = run.events.size();
}

/* `high`, of a transaction that has just made an access. */
static void move_high(Tx &tx)
{
	if (!tx.fixed)
		tx.high = run.order.size();
}

void fixed()
{
	Tx &tx = *open_tx(current_thread());
	move_high(tx);
	tx.fixed = true;
}

void read(uint64_t at, uint64_t value)
{
	Tx &tx = *open_tx(current_thread());
	run.counts.accesses++;
	move_high(tx);
	event(Kind::READ, index_of(tx), at, value);
	for (auto w = tx.writes.rbegin(); w != tx.writes.rend(); ++w)
		if (w->at == at) {
			if (!w->unknown && w->value != value && !tx.forgot)
				tx.forgot = {at, value};
			return;
		}
	comes_from(tx, at);
	tx.reads.push_back({at, value});
}

void write(uint64_t at, uint64_t value)
{
	Tx &tx = *open_tx(current_thread());
	run.counts.accesses++;
	event(Kind::WRITE, index_of(tx), at, value);
	tx.writes.push_back({at, value});
}

void forget(uint64_t at, size_t bytes)
{
	Tx &tx = *open_tx(current_thread());
	for (uint64_t word = at; word < at + bytes; word += 8)
		tx.writes.push_back({word, 0, true});
}

void committing(Becomes how, uint64_t number)
{
	const Numbered one = {static_cast<size_t>(current_thread()), number};
	committing(how, &one, number != 0);
}

void committing(Becomes how, const Numbered *numbers, size_t n)
{
	Tx &tx = *open_tx(current_thread());
	tx.committing = true;
	tx.drew = false;
	tx.published = how == Becomes::PUBLISHED;
	run.counts.published += tx.published;
	run.counts.in_place += how == Becomes::VISIBLE_NOW;
	tx.numbers.assign(numbers, numbers + n);
	tx.to_draw = n;
	move_high(tx);
	event(Kind::COMMITTING, index_of(tx));
	/* In place: no other thread sees its stores before it lets readers in, and nothing else
	 * becomes visible meanwhile. */
	if (how == Becomes::VISIBLE_NOW && !tx.writes.empty())
		becomes_visible(tx);
}

static Tx &end_tx(bool committed)
{
	Tx &tx = close_tx(committed);
	if (committed && tx.visible > run.newest_returned)
		run.newest_returned = tx.visible;
	if (tx.update)
		run.counts.updates += committed;
	else
		run.counts.read_only++;
	return tx;
}

bool returned(bool committed)
{
	Tx &tx = end_tx(committed);
	tx.answered = tx.returned;
	return reads_unanswered(tx);
}

uint64_t ended()
{
	end_tx(true);
	return run.events.size();
}

static bool answer(Tx &tx)
{
	event(Kind::ANSWER, index_of(tx));
	tx.answered = run.events.size();
	return reads_unanswered(tx);
}

bool answered(int thread, uint64_t mark, unsigned heap)
{
	bool risky = false;
	for (Tx &tx : run.txs) {
		if (tx.thread != thread || tx.heap != heap || tx.answered || !tx.returned ||
		        tx.returned > mark)
			continue;
		risky |= answer(tx);
	}
	return risky;
}

uint64_t before_sync()
{
	return run.events.size();
}

bool synced(uint64_t mark, unsigned heap)
{
	bool risky = false;
	for (Tx &tx : run.txs)
		if (tx.update && tx.heap == heap && !tx.answered && tx.returned &&
		        tx.returned <= mark)
			risky |= answer(tx);
	return risky;
}

void visible()
{
	if (Tx &tx = *open_tx(current_thread()); !tx.writes.empty())
		becomes_visible(tx);
}

bool drawn(uint64_t durts)
{
	Tx *tx = open_tx(current_thread());
	if (tx)
		tx->drew = true;
	if (!tx || !tx->published || tx->visible || tx->writes.empty() ||
	        run.in_hardware.contains(current_thread()))
		return false;
	/* A transaction that was doomed while suspended draws before it resumes, and aborts. */
	if (emu_tcheck())
		return false;
	/* Over several heaps: it holds all its stamps until it has drawn in each, and what others
	 * draw meanwhile shares no word with it. */
	if (tx->to_draw > 1) {
		tx->to_draw--;
		return false;
	}
	becomes_visible_by(*tx, durts);
	return true;
}

void stored()
{
	if (Tx *tx = open_tx(current_thread()))
		(run.in_hardware.contains(tx->thread) ? tx->tries_to_store : tx->stored) = true;
}

/* The update's place is taken by one that did nothing. */
static void withdraw(Tx &tx)
{
	Tx nothing;
	nothing.thread = tx.thread;
	nothing.update = true;
	nothing.visible = tx.visible;
	nothing.durts = tx.durts;
	nothing.moment = tx.moment;
	run.order[tx.visible - 1] = run.txs.size();
	tx.visible = tx.durts = tx.moment = 0;
	run.txs.push_back(nothing);
}

void withdrawn()
{
	if (Tx &tx = *open_tx(current_thread()); tx.visible)
		withdraw(tx);
}

void fenced()
{
	Tx *tx = open_tx(current_thread());
	if (!tx || !tx->update || !tx->committing)
		return;
	if (!tx->numbers.empty())
		run.fenced[tx->thread] = index_of(*tx);
	/* In place: it found no room, and was rolled back. */
	if (tx->visible && !tx->drew)
		withdraw(*tx);
}

void pending()
{
	open_tx(current_thread())->pending = true;
}

void aborted()
{
	Tx &tx = *open_tx(current_thread());
	tx.aborted = true;
	event(Kind::ABORT, index_of(tx));
}

void on_event(int what, int thread, int)
{
	Tx *tx = open_tx(thread);
	if (what == EMU_BEGIN)
		run.in_hardware.insert(thread);
	if (what == EMU_COMMIT || what == EMU_ABORT)
		run.in_hardware.erase(thread);
	if (!tx)
		return;
	switch (what) {
	case EMU_COMMIT:
		tx->stored |= tx->tries_to_store;
		tx->tries_to_store = false;
		if (tx->committing && !tx->visible && !tx->writes.empty()) {
			tx->by_hardware = true;
			becomes_visible(*tx);
		}
		break;
	case EMU_ABORT:
		if (!tx->published)
			tx->aborted = true;
		tx->tries_to_store = false;
		event(tx->published ? Kind::AGAIN : Kind::ABORT, index_of(*tx));
		break;
	case EMU_SUSPEND: event(Kind::SUSPEND, index_of(*tx)); break;
	case EMU_RESUME: event(Kind::RESUME, index_of(*tx)); break;
	default: break;
	}
}

Counts counts()
{
	return run.counts;
}

/* ------------------------------------------------------------------ checks */

namespace
{

std::string hex(uint64_t n)
{
	char text[24];
	snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(n));
	return text;
}

std::string name_of(const Tx &tx)
{
	std::string kind = tx.update ? "update" : "read-only transaction";
	return kind + " " + std::to_string(index_of(tx)) + " of thread " +
	       std::to_string(tx.thread);
}

/* The values of each word, and the update that wrote each. */
class Versions
{
public:
	Versions()
	{
		each_write([this](const Tx &, const Access &w) { place_of(w.at).end++; });
		size_t n = 0;
		for (auto &[number, places] : blocks_)
			for (Place &place : places) {
				size_t count = place.end;
				place = {n, n};
				n += count;
			}
		versions_.resize(n);
		each_write([this](const Tx &tx, const Access &w) {
			versions_[place_of(w.at).end++] = {tx.visible, w.value, w.unknown};
		});
	}
	/* In state(k), and by which update. */
	struct Version {
		uint64_t since, value;
		bool unknown;
	};
	Version at(uint64_t word, uint64_t k) const
	{
		auto [list, after] = split(word, k);
		return after == list.begin() ? Version{0, initial_word(word), false}
		                             : *std::prev(after);
	}
	/* The first read that state(k) does not explain. */
	const Access *unexplained(const Tx &tx, uint64_t k) const
	{
		for (const Access &r : tx.reads)
			if (Version v = at(r.at, k); v.value != r.value && !v.unknown)
				return &r;
		return nullptr;
	}
	/* The first state after state(k) in which the word has been written again. */
	std::optional<uint64_t> changes(uint64_t word, uint64_t k) const
	{
		auto [list, after] = split(word, k);
		return after == list.end() ? std::nullopt : std::optional(after->since);
	}
	/* The update that left the value that was read, the first that is not below the last of
	 * those that were `seen`; 0: the word was as at the start. */
	template <class Seen>
	std::optional<uint64_t> next_with(const Access &read, uint64_t high, Seen seen) const
	{
		auto [list, after] = split(read.at, high);
		auto from = after;
		while (from != list.begin() && !seen(std::prev(from)->since))
			from--;
		if (from == list.begin() && initial_word(read.at) == read.value)
			return 0;
		if (from != list.begin())
			from--;
		auto found = std::find_if(from, after, [&read](const Version &version) {
			return version.unknown || version.value == read.value;
		});
		return found == after ? std::nullopt : std::optional(found->since);
	}
	/* The last update before `tx` that wrote a word that `tx` has written; 0: none has. */
	uint64_t overwritten(const Tx &tx) const
	{
		uint64_t last = 0;
		for (const Access &w : tx.writes)
			last = std::max(last, at(w.at, tx.visible - 1).since);
		return last;
	}
	/* The first word of `heap` that has another value than its last version, and that one. */
	struct Wrong {
		uint64_t word, is;
		Version last;
	};
	std::optional<Wrong> first_wrong(const void *heap) const
	{
		std::optional<Wrong> first;
		for (const auto &[number, places] : blocks_)
			for (uint64_t k = 0; k < WORDS; k++) {
				if (places[k].begin == places[k].end)
					continue;
				const Version &last = versions_[places[k].end - 1];
				uint64_t word = (number * WORDS + k) * 8, is = word_at(heap, word);
				if (is != last.value && !last.unknown &&
				        (!first || word < first->word))
					first = {word, is, last};
			}
		return first;
	}

private:
	struct Place { /* of a word's versions, in versions_ */
		size_t begin, end;
	};
	/* Of words that follow each other: an update that fills a block writes them all. */
	static constexpr size_t WORDS = 64;
	Place &place_of(uint64_t word)
	{
		return blocks_[word / 8 / WORDS][word / 8 % WORDS];
	}
	template <class F>
	static void each_write(F f)
	{
		for (size_t index : run.order)
			if (const Tx &tx = run.txs[index]; tx.kept)
				for (const Access &w : tx.writes)
					f(tx, w);
	}
	/* The word's versions, and the first of them that state(k) does not have yet. */
	std::pair<std::span<const Version>, std::span<const Version>::iterator> split(
	        uint64_t word, uint64_t k) const
	{
		std::span<const Version> list;
		if (auto found = blocks_.find(word / 8 / WORDS); found != blocks_.end()) {
			const Place &place = found->second[word / 8 % WORDS];
			list = std::span(versions_).subspan(place.begin, place.end - place.begin);
		}
		return {list, std::upper_bound(list.begin(), list.end(), k,
		                      [](uint64_t wanted, const Version &v) {
			                      return wanted < v.since;
		                      })};
	}
	std::unordered_map<uint64_t, std::array<Place, WORDS>> blocks_;
	std::vector<Version> versions_;
};

/* The smallest k of [low, high] that explains tx. */
std::optional<uint64_t> explanation(
        const Versions &v, const Tx &tx, uint64_t low, uint64_t high, bool snapshot_update)
{
	if (snapshot_update)
		low = std::max(low, v.overwritten(tx));
	for (std::optional k = low; k && *k <= high;) {
		const Access *wrong = v.unexplained(tx, *k);
		if (!wrong)
			return k;
		k = v.changes(wrong->at, *k);
	}
	return std::nullopt;
}

bool shares_word(const std::vector<Access> &one, const std::vector<Access> &other)
{
	return std::any_of(one.begin(), one.end(), [&other](const Access &a) {
		return std::any_of(
		        other.begin(), other.end(), [&a](const Access &b) { return a.at == b.at; });
	});
}

/* Some updates: all before the first that a transaction may miss, and those that it has seen. */
class Seen
{
public:
	Seen(uint64_t low, uint64_t high) : taken_(high + 1)
	{
		std::fill_n(taken_.begin(), low + 1, true);
	}
	/* With all that come before it in every order that explains the committed updates. */
	void take(uint64_t number)
	{
		if (taken_[number])
			return;
		taken_[number] = true;
		for (uint64_t before = number - 1; before > 0; before--)
			if (!taken_[before] && !may_come_later(before, number))
				take(before);
	}
	bool has(uint64_t number) const
	{
		return taken_[number];
	}

private:
	/* Two that became visible at once, for no transaction that commits can tell them apart: a
	 * hardware update, and one that software published in hardware meanwhile (INV-SW4). */
	static bool may_come_later(uint64_t earlier, uint64_t later)
	{
		const Tx &e = run.txs[run.order[earlier - 1]], &l = run.txs[run.order[later - 1]];
		return l.by_hardware && !l.published && e.by_hardware && e.published &&
		       e.became_visible > l.began && !shares_word(e.writes, l.writes) &&
		       !shares_word(e.writes, l.reads) && !shares_word(e.reads, l.writes);
	}
	std::vector<bool> taken_;
};

bool did_not_commit(const Tx &tx)
{
	return tx.aborted || !tx.returned;
}

/* Has an attempt that did not commit read what a set of updates has left, in an order that explains
 * the committed updates too? */
bool is_explained_by_other_order(const Versions &v, const Tx &tx)
{
	Seen seen(tx.low, tx.high);
	for (bool more = true; more;) {
		more = false;
		for (const Access &r : tx.reads) {
			const auto next = v.next_with(
			        r, tx.high, [&seen](uint64_t k) { return seen.has(k); });
			if (!next)
				return false;
			more |= !seen.has(*next);
			seen.take(*next);
		}
	}
	return true;
}

std::string complain(const Versions &v, const Tx &tx, uint64_t low, uint64_t high)
{
	run.named = {index_of(tx)};
	run.blamed = index_of(tx);
	std::string text = name_of(tx) + (tx.aborted ? " (an attempt that aborted)" : "");
	text += " has read no state of memory: ";
	const Access *worst = nullptr;
	/* Name the read that the latest state does not explain, and the writer of the value that it
	 * should have seen. */
	if (!(worst = v.unexplained(tx, high)))
		worst = v.unexplained(tx, low);
	if (worst) {
		auto [since, value, unknown] = v.at(worst->at, high);
		text += "word " + hex(worst->at) + " was read as " + hex(worst->value) +
		        ", state(" + std::to_string(high) + ") has " + hex(value);
		if (since) {
			run.named.insert(run.order[since - 1]);
			text += ", written by " + name_of(run.txs[run.order[since - 1]]);
		}
		for (const Access &r : tx.reads)
			if (auto now = v.at(r.at, high); now.since && now.value == r.value)
				run.named.insert(run.order[now.since - 1]);
	} else {
		text += "between state(" + std::to_string(low) + ") and state(" +
		        std::to_string(high) + ") another update has written what it wrote";
	}
	return text;
}

/* Every transaction of which `which` is true has read one state, in an order that real time
 * allows. */
template <class Which>
std::string check_reads(Isolation isolation, const Versions &v, Which which)
{
	std::vector<size_t> read_only;
	for (Tx &tx : run.txs) {
		if (!which(tx))
			continue;
		if (tx.visible) {
			uint64_t high = tx.visible - 1, low = isolation == Isolation::OPACITY
			                                              ? high
			                                              : std::min(tx.low, high);
			if (!explanation(v, tx, low, high, isolation == Isolation::SNAPSHOT))
				return complain(v, tx, low, high);
		} else if (tx.update) {
			if (!explanation(v, tx, tx.low, tx.high, false) &&
			        !(did_not_commit(tx) && is_explained_by_other_order(v, tx)))
				return complain(v, tx, tx.low, tx.high);
		} else {
			read_only.push_back(index_of(tx));
		}
	}
	/* Those that ended earlier first.  Taking the smallest k for each leaves the most room for
	 * the rest. */
	auto end_of = [](const Tx &tx) { return tx.returned ? tx.returned : UINT64_MAX; };
	std::stable_sort(read_only.begin(), read_only.end(),
	        [&](size_t a, size_t b) { return end_of(run.txs[a]) < end_of(run.txs[b]); });
	for (size_t i = 0; i < read_only.size(); i++) {
		Tx &tx = run.txs[read_only[i]];
		uint64_t low = tx.low;
		for (size_t j = 0; j < i; j++)
			if (const Tx &earlier = run.txs[read_only[j]];
			        earlier.returned && earlier.returned < tx.invoked)
				low = std::max(low, earlier.explained);
		auto k = explanation(v, tx, low, tx.high, false);
		if (!k)
			return complain(v, tx, low, tx.high);
		tx.explained = *k;
	}
	return "";
}

} // namespace

/* The power has failed between their draws and the looks that might have defeated them. */
static void withdraw_undecided()
{
	for (auto [thread, index] : run.open)
		if (Tx &tx = run.txs[index]; tx.durts && !tx.stored)
			withdraw(tx);
}

std::string check_isolation(Isolation isolation)
{
	withdraw_undecided();
	for (Tx &tx : run.txs) {
		tx.kept = true;
		if (tx.forgot) {
			run.named = {index_of(tx)};
			return name_of(tx) + " has read word " + hex(tx.forgot->at) + " as " +
			       hex(tx.forgot->value) + ", and had written another value to it";
		}
	}
	return check_reads(isolation, Versions(), [](const Tx &) { return true; });
}

/* Does memory have the update?  Nothing; or it has it in one heap, and lacks it in another. */
static std::optional<bool> survives(const Tx &tx, const uint64_t *newest)
{
	const auto has = [newest](const Numbered &n) { return n.number <= newest[n.place]; };
	const auto kept = std::count_if(tx.numbers.begin(), tx.numbers.end(), has);
	if (kept == 0 || kept == static_cast<std::ptrdiff_t>(tx.numbers.size()))
		return kept != 0;
	return std::nullopt;
}

/* An update that was about to become visible and has survived is the last: no transaction had seen
 * it. */
static void complete_pending(const uint64_t *newest)
{
	for (auto [thread, index] : run.open)
		if (Tx &tx = run.txs[index];
		        tx.pending && !tx.visible && survives(tx, newest).value_or(false))
			becomes_visible(tx);
}

/* Which updates memory has.  Nothing, or what is wrong with them. */
static std::string find_kept(const uint64_t *newest, size_t places)
{
	std::vector<uint64_t> begun(places);
	for (Tx &tx : run.txs) {
		if (!tx.update || static_cast<size_t>(tx.thread) >= places)
			continue;
		run.named = {index_of(tx)};
		const std::optional<bool> kept = survives(tx, newest);
		if (!kept && tx.visible)
			return name_of(tx) + " survives in one heap, and not in another";
		/* Without a number it has only promoted, so memory does not tell. */
		tx.kept = tx.numbers.empty() ? tx.answered && !tx.aborted : kept.value_or(false);
		for (const Numbered &n : tx.numbers)
			if (tx.visible)
				begun[n.place] = std::max(begun[n.place], n.number);
		if (tx.answered && !tx.aborted && tx.visible && !tx.kept)
			return name_of(tx) + " had returned, and is lost";
	}
	run.named.clear();
	for (size_t t = 0; t < places; t++)
		if (newest[t] > begun[t])
			return "update " + std::to_string(newest[t]) + " of thread " +
			       std::to_string(t) +
			       " survives, which had not committed: the last that had is " +
			       std::to_string(begun[t]);
	return "";
}

std::string check_durable(
        Isolation isolation, const void *heap, const uint64_t *newest, size_t places)
{
	run.failed_ns = current_ns();
	complete_pending(newest);
	std::string wrong = find_kept(newest, places);
	if (!wrong.empty())
		return wrong;
	Versions v;
	wrong = check_reads(isolation, v,
	        [](const Tx &tx) { return tx.visible ? tx.kept : tx.answered && !tx.aborted; });
	if (!wrong.empty()) {
		/* To blame: transactions that have read lost data, and those that wrote it. */
		run.named = {run.blamed};
		for (const Access &r : run.txs[run.blamed].reads)
			for (size_t index : run.order)
				for (const Access &w : run.txs[index].writes)
					if (!run.txs[index].kept && w.at == r.at)
						run.named.insert(index);
		return "without what the power failure took, " + wrong;
	}
	if (auto wrong_word = v.first_wrong(heap)) {
		auto [word, is, last] = *wrong_word;
		run.named = {run.order[last.since - 1]};
		return "word " + hex(word) + " is " + hex(is) + " after recovery; " +
		       name_of(run.txs[run.order[last.since - 1]]) +
		       ", the last that survives to write it, wrote " + hex(last.value);
	}
	return "";
}

std::string check_fenced(const uint64_t *newest, size_t threads)
{
	for (auto [thread, index] : run.fenced) {
		const Tx &tx = run.txs[index];
		auto t = static_cast<size_t>(thread);
		if (t < threads && survives(tx, newest).value_or(true)) {
			run.named = {index};
			return name_of(tx) + " had returned FUR_EFENCED, and the log has it";
		}
	}
	return "";
}

std::string check_final(const void *heap)
{
	for (Tx &tx : run.txs)
		tx.kept = true;
	Versions v;
	if (auto wrong = v.first_wrong(heap)) {
		auto [word, is, last] = *wrong;
		return "word " + hex(word) + " is " + hex(is) + " at the end; " +
		       name_of(run.txs[run.order[last.since - 1]]) + " was the last to write it, " +
		       hex(last.value);
	}
	return "";
}

/* ---------------------------------------------------------------- printing */

void print(std::ostream &out, bool only_named)
{
	static const char *const names[] = {"invoke", "begin", "read", "write", "commit", "VISIBLE",
	        "abort", "publication aborts", "suspend", "resume", "RETURN", "ANSWER"};
	std::set<int> threads;
	std::set<size_t> shown;
	for (size_t index : run.named)
		shown.insert(index);
	for (const Event &e : run.events)
		if (!only_named || shown.count(e.tx))
			threads.insert(run.txs[e.tx].thread);
	std::map<int, size_t> column;
	out << std::setw(10) << "ns";
	for (int t : threads) {
		size_t place = column.size();
		column[t] = place;
		out << "  " << std::left << std::setw(38) << ("thread " + std::to_string(t))
		    << std::right;
	}
	out << "\n";
	for (const Event &e : run.events) {
		if (only_named && !shown.count(e.tx))
			continue;
		const Tx &tx = run.txs[e.tx];
		std::string text = names[static_cast<int>(e.kind)];
		if (e.kind == Kind::INVOKE)
			text += tx.update ? " update" : " read-only";
		if (e.kind == Kind::READ || e.kind == Kind::WRITE)
			text += " [" + hex(e.at) + "] " + (e.kind == Kind::READ ? "-> " : "<- ") +
			        hex(e.value);
		if (e.kind == Kind::VISIBLE)
			text += ": update " + std::to_string(tx.visible);
		out << std::setw(10) << e.ns << "  " << std::string(column[tx.thread] * 40, ' ')
		    << text << "\n";
	}
	if (run.failed_ns)
		out << std::setw(10) << run.failed_ns << "  POWER FAILURE\n";
}

} // namespace oracle

/* The linker puts this in the place of the machine's function (--wrap): no other thread runs
 * between the draw and this note of it. */
extern "C" {
uint64_t __real___tsan_atomic64_fetch_add(volatile uint64_t *p, uint64_t operand, int order);
uint64_t __wrap___tsan_atomic64_fetch_add(volatile uint64_t *p, uint64_t operand, int order);
}

uint64_t __wrap___tsan_atomic64_fetch_add(volatile uint64_t *p, uint64_t operand, int order)
{
	using oracle::run;
	const uint64_t was = __real___tsan_atomic64_fetch_add(p, operand, order);
	for (const volatile uint64_t *clock : run.clocks)
		if (const int thread = oracle::current_thread(); clock == p && thread >= 0)
			run.drew_at[static_cast<size_t>(thread)] = ++run.moments;
	return was;
}
