/* SPDX-License-Identifier: BSD-3-Clause
 *
 * explore_ship.cpp - up to three nodes write a stream, die, come back, and take over from each
 * other, on a log that misbehaves (engine_fake.hpp).  Readers follow.
 *
 *     explore-ship --seeds FIRST..LAST [--must-find SEED] [--verbose]
 *
 * A seed determines everything.  What must hold:
 *
 *   1  An acknowledged frame is in what every later writer has read before it begins.
 *   2  A frame's number is acknowledged for one frame only.
 *   3  A frame that counts, and that a writer had not read when it began, is of that writer or of a
 *      later one.
 *   4  A reader gets each update whole, once, and right behind the one that its author had before
 *      it.
 *   5  No node and no reader takes a log for cut that was not.
 *   6  If committed messages were cut from the log, then someone has noticed, or all agree all the
 *      same.
 *   7  When the faults end, a node becomes the writer, and all that it ships is acknowledged.
 *
 * If committed messages were cut, 1 to 4 hold until then, and 6 is for what follows.  Status: 0 no
 * violation, 1 a violation, 2 wrong usage.  With --must-find SEED there must be a violation: SEED
 * is tried first, then the others; status 0 if one is found, and 1 if not.
 */
#include "engine_fake.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>

namespace
{

bool verbose;

struct Violation : std::runtime_error {
	using std::runtime_error::runtime_error;
};

[[gnu::format(printf, 1, 2)]] std::string text(const char *format, ...)
{
	char line[400];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	return line;
}

void trace(const std::string &line)
{
	if (verbose)
		printf("%s\n", line.c_str());
}

using ull = unsigned long long;
std::vector<uint8_t> room(FRAME_MOST_BYTES); /* of the node that takes a step */
const uint8_t uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

/* What each update, and each part of one, contains. */
struct Content {
	uint64_t id;
	uint64_t before; /* the durTS of the update before it in the lineage, or 0 */
	uint32_t part, parts;
	uint64_t gap;
};
static_assert(sizeof(Content) == 32);

/* ------------------------------------------------------------------ what all know */

/* A node as the writer: from its claim on. */
struct Term {
	uint64_t claim_offset;
	std::vector<uint64_t> chains; /* of the frames that it had read, from number 1 on */
};

/* Knows all that was submitted and acknowledged. */
class Oracle
{
public:
	explicit Oracle(const fake::Log &log) : log_(log) {}

	size_t began(uint64_t claim_offset, const std::vector<uint64_t> &chains)
	{
		terms_.push_back({claim_offset, chains});
		const Term &term = terms_.back();
		for (const auto &[no, chain] : acked_)
			check_read(term, no, chain, "acknowledged");
		return terms_.size() - 1;
	}
	void submitted(uint64_t chain, size_t term)
	{
		author_.emplace(chain, term);
	}
	/* `whole`: no update is open behind it. */
	void acked(uint64_t no, uint64_t chain, bool whole)
	{
		trace(text("frame %llu is acknowledged, %016llx", ull(no), ull(chain)));
		const auto [at, fresh] = acked_.emplace(no, chain);
		if (!fresh && at->second != chain)
			violated(2, text("frame %llu is acknowledged twice, and differs", ull(no)));
		for (const Term &term : terms_)
			check_read(term, no, chain, "acknowledged");
		if (whole)
			acked_whole_[no] = chain;
	}
	/* A reader takes this frame for valid. */
	void read(uint64_t no, uint64_t chain)
	{
		for (const Term &term : terms_)
			check_read(term, no, chain, "valid");
	}
	/* Does the history that these chains tell have all updates that were acknowledged? */
	bool has_acked(const std::vector<uint64_t> &chains) const
	{
		for (const auto &[no, chain] : acked_whole_)
			if (no > chains.size() || chains[no - 1] != chain)
				return false;
		return true;
	}
	void violated(int which, const std::string &what) const
	{
		if (!log_.went_back())
			throw Violation(text("(%d) ", which) + what);
	}

private:
	/* Rules 1 and 3: a writer that claims later than the frame's author has read the frame. */
	void check_read(const Term &term, uint64_t no, uint64_t chain, const char *how) const
	{
		const Term &author = terms_[author_.at(chain)];
		if (author.claim_offset >= term.claim_offset)
			return;
		if (no > term.chains.size() || term.chains[no - 1] != chain)
			violated(*how == 'a' ? 1 : 3,
			        text("frame %llu is %s, and the writer that claimed at offset "
			             "%llu, "
			             "later than the frame's, had not read it when it began",
			                ull(no), how, ull(term.claim_offset)));
	}

	const fake::Log &log_;
	std::deque<Term> terms_;
	std::map<uint64_t, size_t> author_; /* of the frame with this chain: index of terms_ */
	std::map<uint64_t, uint64_t> acked_, acked_whole_; /* number of a frame: its chain */
};

/* -------------------------------------------------------------------------- readers */

class Reader
{
public:
	Reader(fake::Log &log, Oracle &oracle, const char *name)
	    : log_(log), oracle_(oracle), name_(name)
	{
		stream_init(&stream_, uuid, nullptr);
		kept_ = {stream_.whole, {}, 0};
	}

	/* Read a message, if there is one.  Returns whether it has. */
	bool step()
	{
		if (stream_.fatal)
			return false;
		const uint64_t offset = stream_.next;
		if (offset >= log_.end()) {
			judged(stream_end(&stream_, log_.end()));
			return false;
		}
		const fake::Message m = log_.at(offset);
		frame f;
		const stream_judgement j = stream_read(&stream_, offset, m.data(), m.size(), &f);
		trace(text("%s reads %llu: %s", name_, ull(offset), stream_text(j)));
		judged(j);
		if (j == STREAM_VALID)
			valid(f);
		return true;
	}
	void read_all()
	{
		while (step())
			;
	}
	/* It has kept its position together with what it has delivered. */
	void restart()
	{
		stream_init(&stream_, uuid, &kept_.position);
		chains.resize(kept_.position.frame_no);
		delivered_ = kept_.delivered;
		for (; ids_.size() > kept_.ids; ids_.pop_back())
			seen_[ids_.back()] = false;
		parts_ = 0;
	}
	bool noticed() const
	{
		return stream_.fatal;
	}

	std::vector<uint64_t> chains; /* of the frames that were valid, from number 1 on */

private:
	struct Delivered {
		uint64_t lineage, durts;
	};

	void judged(stream_judgement j)
	{
		if (stream_is_fatal(j))
			oracle_.violated(5, text("%s: %s", name_, stream_text(j)));
	}
	void valid(const frame &f)
	{
		if (f.head.kind == FRAME_CLAIM) {
			if (!stream_.open)
				parts_ = 0;
			return;
		}
		chains.push_back(f.head.chain);
		oracle_.read(f.head.frame_no, f.head.chain);
		if (f.head.kind == FRAME_SIDE)
			part(f.payload + sizeof(frame_side), f.head.lineage, f.head.durts_first);
		frame_entries e;
		for (size_t at = 0; f.head.kind == FRAME_DATA && frame_next_update(&f, &at, &e);)
			part(e.bytes, f.head.lineage, e.durts);
		if (!stream_.open)
			kept_ = {stream_.whole, delivered_, ids_.size()};
	}
	/* Rule 4. */
	void part(const uint8_t *bytes, uint64_t lineage, uint64_t durts)
	{
		Content c;
		memcpy(&c, bytes, sizeof c);
		if (c.part != parts_ + 1)
			oracle_.violated(4, text("%s: part %u of update %llu follows part %u",
			                            name_, c.part, ull(c.id), parts_));
		parts_ = c.part;
		if (c.part < c.parts)
			return;
		parts_ = 0;
		if (lineage != delivered_.lineage)
			delivered_ = {lineage, 0};
		if (c.before != delivered_.durts)
			oracle_.violated(4,
			        text("%s: update %llu of lineage %llu follows %llu; behind %llu, "
			             "says its author",
			                name_, ull(durts), ull(lineage), ull(delivered_.durts),
			                ull(c.before)));
		seen_.resize(std::max<size_t>(seen_.size(), c.id + 1));
		if (seen_[c.id])
			oracle_.violated(4, text("%s: update %llu comes twice", name_, ull(c.id)));
		seen_[c.id] = true;
		ids_.push_back(c.id);
		delivered_.durts = durts;
	}

	fake::Log &log_;
	Oracle &oracle_;
	const char *name_;
	stream stream_;
	Delivered delivered_{};     /* the newest update */
	std::vector<bool> seen_;    /* by id: delivered */
	std::vector<uint64_t> ids_; /* delivered, in order */
	unsigned parts_ = 0;        /* of the update that is under way */
	struct {
		stream_position position;
		Delivered delivered;
		size_t ids;
	} kept_; /* what a restart finds */
};

/* ---------------------------------------------------------------------------- nodes */

struct Update {
	uint64_t durts, id;
	unsigned parts; /* more than 1: a large update */
};

/* A program on a heap and its shipper.  A heap that survives a death has lost its newest updates,
 * or not. */
class Node
{
public:
	Node(fake::Log &log, Oracle &oracle, tools::Random &random, uint64_t number, uint64_t &ids)
	    : log_(log), oracle_(oracle), random_(random), number_(number), ids_(ids)
	{
	}

	void live(bool remember)
	{
		engine_ = log_.connect();
		writer_init(&w_, uuid, number_, remember && known_ ? &position_ : nullptr);
		trace(text("node %llu comes back, knows the stream up to frame %llu", ull(number_),
		        ull(w_.stream.at.frame_no)));
		start(0);
	}
	void die()
	{
		position_ = w_.stream.whole;
		trace(text(
		        "node %llu dies, knows frame %llu", ull(number_), ull(position_.frame_no)));
		known_ = position_.frame_no > 0;
		engine_->ops->close(engine_);
		engine_ = nullptr;
		/* INV-M2: recovery goes above all that may have been drawn. */
		local_.resize(random_.below(local_.size() + 1));
		drawn_ += 10;
	}
	bool lives() const
	{
		return engine_;
	}
	bool noticed() const
	{
		return failed_;
	}
	enum writer_phase phase() const
	{
		return w_.phase;
	}

	/* One thing that it may do.  `calm`: without anything that delays it. */
	void step(bool calm)
	{
		if (w_.phase == WRITER_RESYNCS) {
			trace(text("node %llu resyncs: %s", ull(number_), w_.why));
			start(0);
		} else if (w_.phase == WRITER_FENCED) {
			if (calm || random_.one_in(12))
				start(WRITER_TAKES_OVER);
		} else if (w_.phase == WRITER_SHIPS && (!calm || sent_ < local_.size()) &&
		           random_.one_in(2)) {
			while (!calm && random_.one_in(3))
				update();
			ship();
		} else if (!calm && random_.one_in(150)) {
			writer_resync(&w_, "without a reason");
		} else {
			turn(calm);
		}
	}
	/* Has it shipped all, and got all acknowledged? */
	bool is_done()
	{
		if (w_.phase != WRITER_SHIPS || sent_ < local_.size() || w_.counted < w_.submitted)
			return false;
		return w_.submitted > 0 || (ship(), false);
	}

	void ship()
	{
		if (!writer_may_submit(&w_))
			return;
		frame_builder b;
		if (sent_ == local_.size()) {
			frame_begin(&b, room.data(), 400, FRAME_BEAT, 0);
		} else if (local_[sent_].parts > 1) {
			ship_part(&b);
		} else {
			frame_begin(&b, room.data(), 400, FRAME_DATA, 0);
			void *to;
			while (sent_ < local_.size() && local_[sent_].parts == 1 &&
			        (to = frame_add_update(&b, local_[sent_].durts, sizeof(Content))))
				fill(to);
		}
		if (drive_submit(&w_, engine_, &b))
			throw Violation("the fake engine failed");
		flying_.push_back(w_.end.chain);
		oracle_.submitted(w_.end.chain, term_);
		trace(text("node %llu submits frame %llu", ull(number_), ull(w_.end.frame_no)));
	}

	std::vector<uint64_t> chains; /* of the frames that it knows to count, from number 1 on */

private:
	void start(unsigned flags)
	{
		if (drive_restart(&w_, engine_, random_.next(), flags))
			throw Violation("the fake engine failed");
		chains.resize(w_.stream.at.frame_no);
		idle_ = 0;
	}

	void turn(bool calm)
	{
		const enum writer_phase before = w_.phase;
		const uint64_t next = w_.stream.next;
		if (before == WRITER_CONFIRMS && random_.one_in(2))
			take_answers();
		else if (drive_turn(&w_, engine_, room.data(), 0) < 0)
			throw Violation("the fake engine failed");
		note_counted(before == WRITER_SHIPS);
		if (w_.phase == WRITER_FAILED && !failed_) {
			failed_ = true;
			trace(text("node %llu: %s", ull(number_), w_.why));
			oracle_.violated(5, text("node %llu: %s", ull(number_), w_.why));
		}
		if (w_.phase == WRITER_SHIPS && before != WRITER_SHIPS)
			begin();
		const bool waits = w_.phase == WRITER_CONFIRMS || w_.counted < w_.submitted;
		idle_ = waits && w_.phase == before && w_.stream.next == next ? idle_ + 1 : 0;
		if (idle_ > (calm ? 1000 : 30))
			writer_resync(&w_, "an answer does not come");
	}

	/* drive_turn() does so only when there is nothing to read. */
	void take_answers()
	{
		engine_ack acks[STREAM_IN_FLIGHT];
		const int n = engine_->ops->poll(engine_, acks, STREAM_IN_FLIGHT, 0);
		for (int k = 0; k < n; k++)
			writer_ack(&w_, acks[k].handle, acks[k].offset);
	}

	/* Frames count that did not before: one that was read, or some that were acknowledged. */
	void note_counted(bool shipped)
	{
		while (chains.size() < w_.stream.at.frame_no) {
			chains.push_back(shipped ? flying_.front() : w_.stream.at.chain);
			if (shipped)
				flying_.pop_front();
			if (w_.stream.at.node == number_)
				oracle_.acked(chains.size(), chains.back(),
				        chains.size() <= w_.stream.whole.frame_no);
		}
	}

	void begin()
	{
		const stream_position &at = w_.stream.at;
		trace(text("node %llu begins term %llu at offset %llu, behind frame %llu",
		        ull(number_), ull(at.term), ull(w_.claim_offset), ull(at.frame_no)));
		if (at.lineage != lineage_) { /* its own unshipped updates are lost */
			local_.clear();
			lineage_ = at.lineage;
			drawn_ = random_.below(5);
		}
		while (!local_.empty() && local_.front().durts <= at.durts)
			local_.pop_front();
		drawn_ = std::max(drawn_, at.durts);
		term_ = oracle_.began(w_.claim_offset, chains);
		before_ = at.durts;
		sent_ = 0;
		part_ = 0;
		flying_.clear();
	}

	void update()
	{
		drawn_ += 1 + (random_.one_in(10) ? random_.below(5) : 0);
		local_.push_back(
		        {drawn_, ids_++, random_.one_in(6) ? 2 + unsigned(random_.below(3)) : 1});
	}

	/* Store the next part.  Returns whether it was the update's last one. */
	bool fill(void *to)
	{
		const Update &u = local_[sent_];
		const Content c = {u.id, before_, ++part_, u.parts, 0};
		memcpy(to, &c, sizeof c);
		if (part_ < u.parts)
			return false;
		before_ = u.durts;
		sent_++;
		part_ = 0;
		return true;
	}

	void ship_part(frame_builder *b)
	{
		const Update &u = local_[sent_];
		const unsigned flag = part_ == 0             ? FRAME_FIRST
		                      : part_ + 1 == u.parts ? FRAME_LAST
		                                             : FRAME_MORE;
		const bool side = flag != FRAME_LAST && random_.one_in(2);
		const frame_side head = {4096, 16};
		frame_begin(b, room.data(), 400, side ? FRAME_SIDE : FRAME_DATA, flag);
		fill(side ? frame_add_side(b, u.durts, &head, sizeof(Content))
		          : frame_add_update(b, u.durts, sizeof(Content)));
	}

	fake::Log &log_;
	Oracle &oracle_;
	tools::Random &random_;
	const uint64_t number_;
	uint64_t &ids_; /* of updates, of all nodes */
	stream_engine *engine_ = nullptr;
	writer w_{};
	unsigned idle_ = 0; /* turns that it has waited */
	bool failed_ = false;
	/* What it keeps. */
	bool known_ = false;
	stream_position position_{};
	/* Its heap as the primary of a lineage: updates not acknowledged at its last begin
	 * or since, and the last durTS drawn. */
	uint64_t lineage_ = 0, drawn_ = 0;
	std::deque<Update> local_;
	/* As the writer. */
	size_t term_ = 0;
	size_t sent_ = 0;             /* of local_: submitted whole */
	unsigned part_ = 0;           /* of the next one: parts submitted */
	uint64_t before_ = 0;         /* the last durTS submitted */
	std::deque<uint64_t> flying_; /* chains of the frames in flight */
};

/* ----------------------------------------------------------------------------- a run */

class Run
{
public:
	explicit Run(uint64_t seed)
	    : random_{seed}, log_(random_.next(), faults()), oracle_(log_),
	      one_(log_, oracle_, "reader 1"), two_(log_, oracle_, "reader 2"),
	      remember_(log_.faults.unclean || random_.one_in(2))
	{
		const uint64_t n = 1 + random_.below(3);
		for (uint64_t k = 1; k <= n; k++)
			nodes_.emplace_back(log_, oracle_, random_, k, ids_);
		frame_builder b;
		frame_head head;
		fake::Message m(sizeof(frame_head) + FRAME_ALIGN);
		const uint8_t other[16] = {9};
		frame_begin(&b, m.data(), m.size(), FRAME_BEAT, 0);
		const frame_place place = {1, 0, 1, 0};
		m.resize(frame_seal(&b, other, &place, &head));
		log_.foreign.push_back(m);
	}

	void run()
	{
		const uint64_t steps = 200 + random_.below(600);
		for (uint64_t k = 0; k < steps; k++)
			step();
		calm_down();
		agree();
	}

private:
	fake::Faults faults()
	{
		auto some = [&](unsigned one_in) {
			return random_.one_in(2) ? one_in + unsigned(random_.below(one_in)) : 0;
		};
		fake::Faults f;
		f.reorder = some(6);
		f.lose = some(20);
		f.repeat = some(15);
		f.lose_answer = some(15);
		f.no_offset = some(40);
		f.fall = some(60);
		f.garbage = some(60);
		f.late = some(8);
		f.unclean = random_.one_in(4) ? 100 + unsigned(random_.below(100)) : 0;
		return f;
	}

	Node &a_node()
	{
		return nodes_[random_.below(nodes_.size())];
	}
	void step()
	{
		const uint64_t what = random_.below(100);
		Node &node = a_node();
		const uint64_t end = log_.end();
		if (what < 40)
			log_.step();
		else if (what < 88)
			node.lives() ? node.step(false) : void();
		else if (what < 96)
			(random_.one_in(2) ? one_ : two_).step();
		else if (what < 97)
			(random_.one_in(2) ? one_ : two_).restart();
		else if (!node.lives())
			node.noticed() ? void() : node.live(remember_);
		else if (random_.one_in(3))
			node.die();
		if (log_.end() < end)
			trace(text(
			        "the log goes back from %llu to %llu", ull(end), ull(log_.end())));
	}

	void finish(Node &writer)
	{
		for (int k = 0; k < 20000 && !writer.noticed() && !writer.is_done(); k++) {
			log_.step();
			writer.step(true);
		}
		if (!writer.noticed() && !writer.is_done())
			throw Violation("(7) no node becomes the writer after the faults");
	}
	/* The faults end.  All die; one comes back, and becomes the writer (rule 7). */
	void calm_down()
	{
		for (Node &node : nodes_)
			if (node.lives())
				node.die();
		log_.faults = {};
		Node &writer = a_node();
		if (writer.noticed())
			return;
		writer.live(true);
		finish(writer);
		/* A reader whose place the log has reached with other messages notices that at the
		 * next frames. */
		one_.read_all();
		two_.read_all();
		for (int k = 0; k <= STREAM_IN_FLIGHT && !writer.noticed(); k++) {
			writer.ship();
			finish(writer);
		}
		log_.settle();
		for (Node &node : nodes_) {
			if (node.lives() || node.noticed())
				continue;
			node.live(true);
			while (!node.noticed() && node.phase() == WRITER_READS)
				node.step(true);
		}
	}

	/* All have read the same, or someone has noticed (rules 6 and 4). */
	void agree()
	{
		Reader last(log_, oracle_, "a new reader");
		last.read_all();
		one_.read_all();
		two_.read_all();
		bool noticed = last.noticed() || one_.noticed() || two_.noticed();
		for (const Node &node : nodes_)
			noticed = noticed || node.noticed();
		if (noticed)
			return;
		if (!oracle_.has_acked(last.chains))
			throw Violation("(6) acknowledged frames are gone, and all are content");
		bool same = last.chains == one_.chains && last.chains == two_.chains;
		for (const Node &node : nodes_)
			same = same && node.chains == last.chains;
		if (!same)
			throw Violation("(6) nodes and readers differ, and all are content");
	}

	tools::Random random_;
	fake::Log log_;
	Oracle oracle_;
	Reader one_, two_;
	const bool remember_; /* a node that comes back knows its position */
	uint64_t ids_ = 1;
	std::deque<Node> nodes_;
};

/* Does not return from a violation that was asked for. */
bool violates(ull seed, bool must_find)
{
	try {
		Run(seed).run();
		return false;
	} catch (const Violation &v) {
		printf("VIOLATION with seed %llu: %s\nrepeat with: explore-ship --seeds "
		       "%llu..%llu\n",
		        seed, v.what(), seed, seed);
	}
	if (must_find)
		printf("found with seed %llu\n", seed);
	return true;
}

} // namespace

int main(int argc, char **argv)
{
	ull first = 0, last = 0, witness = 0;
	bool right = argc >= 3;
	for (int k = 1; k < argc; k++) {
		const std::string option = argv[k];
		const char *value = k + 1 < argc ? argv[k + 1] : "";
		if (option == "--verbose")
			verbose = true;
		else if (option == "--seeds" && sscanf(value, "%llu..%llu", &first, &last) == 2)
			k++;
		else if (option == "--must-find" && sscanf(value, "%llu", &witness) == 1 && witness)
			k++;
		else
			right = false;
	}
	if (!right || first > last) {
		fprintf(stderr, "usage: explore-ship --seeds FIRST..LAST [--must-find SEED] "
		                "[--verbose]\n");
		return 2;
	}
	if (witness && violates(witness, true))
		return 0;
	for (ull seed = first; seed <= last; seed++)
		if (violates(seed, witness))
			return witness ? 0 : 1;
	printf("%llu seeds, no violation\n", last - first + 1);
	return witness ? 1 : 0;
}
