/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_check.cpp - check a heap file, and repair it.
 *
 * The check takes these steps, each of which relies on the ones before it: superblock, length,
 * state, tail, ring and logs (ring_check.cpp), allocator.  A step that fails for good ends the
 * check.
 */
#include "heap_check.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace tools
{

static const char *const RESTORE = "restore the file from a copy";

static std::string text(uint64_t n)
{
	return std::to_string(n);
}

static std::string hex(uint64_t n)
{
	char s[32];
	snprintf(s, sizeof s, "0x%llx", static_cast<unsigned long long>(n));
	return s;
}

bool Report::sound() const
{
	return std::all_of(
	        problems.begin(), problems.end(), [](const Problem &p) { return p.note; });
}

bool Report::all_mendable() const
{
	return std::all_of(problems.begin(), problems.end(),
	        [](const Problem &p) { return p.repair.has_value(); });
}

std::optional<uint64_t> Report::first_to_forget() const
{
	uint64_t first = UINT64_MAX;
	for (const Lost &l : lost)
		if (l.certain || too_many)
			first = std::min(first, l.durts);
	bool else_fine = std::all_of(problems.begin(), problems.end(), [](const Problem &p) {
		return p.note || p.repair || p.where == "ring" || p.where == "allocator";
	});
	return first != UINT64_MAX && else_fine && !half_done ? std::optional<uint64_t>(first)
	                                                      : std::nullopt;
}

namespace
{

class Checker
{
public:
	explicit Checker(HeapView &heap) : heap_(heap), super_(heap.raw()) {}

	Report run()
	{
		if (check_superblock() && check_length()) {
			heap_.map(super_);
			check_state();
			check_role();
			check_group();
			check_size();
			if (std::optional<uint64_t> tail = check_tail()) {
				Ring ring = check_ring(heap_, *tail, closed_, report_);
				check_allocator(closed_ ? nullptr : &ring);
			} else {
				report_.not_counted = "the tail is lost";
			}
		}
		return std::move(report_);
	}

private:
	void problem(const char *where, const std::string &what, const std::string &remedy,
	        std::optional<Repair> repair = {})
	{
		report_.problems.push_back({where, what, remedy, std::move(repair), false});
	}
	void mendable(const char *where, const std::string &what, Repair repair)
	{
		problem(where, what, "mend it with --repair", std::move(repair));
	}

	/* ------------------------------------------------------------ superblock */

	/* Without the length, which check_length() looks at. */
	static int super_error(const media_super &s)
	{
		return heap_check_super(&s, UINT64_MAX);
	}

	/* Find the one byte whose change makes the checksum hold and the numbers fit.  The checksum
	 * has 64 bits and 32,640 changes are tried, so one fits by chance, while something else is
	 * wrong, with a probability of 2^-49. */
	std::optional<uint64_t> mend_byte()
	{
		constexpr uint64_t BYTES = offsetof(media_super, grown);
		media_super s = super_;
		auto *raw = reinterpret_cast<uint8_t *>(&s);
		for (uint64_t at = 0; at < BYTES; at++) {
			uint8_t was = raw[at];
			for (unsigned value = 0; value < 256; value++) {
				raw[at] = static_cast<uint8_t>(value);
				if (s.checksum == media_super_checksum(&s) && super_error(s) == 0) {
					super_ = s;
					return at;
				}
			}
			raw[at] = was;
		}
		return {};
	}

	bool check_superblock()
	{
		int error = super_error(super_);
		if (error == 0)
			return true;
		std::string message = fur_errormsg();
		if (std::optional<uint64_t> at = mend_byte()) {
			uint8_t is = reinterpret_cast<const uint8_t *>(&heap_.raw())[*at],
			        must = reinterpret_cast<const uint8_t *>(&super_)[*at];
			mendable("superblock",
			        "byte " + text(*at) + " is " + hex(is) + "; with " + hex(must) +
			                " the checksum holds",
			        {*at, {must},
			                "superblock: byte " + text(*at) + " set to " + hex(must)});
			return true;
		}
		/* Not a heap, or of an unknown version: we cannot call that damage. */
		if (error != FUR_ECORRUPT && !looks_like_ours())
			throw Refused(heap_.path + ": " + message);
		list_superblock_problems();
		report_.not_counted = "the superblock is damaged";
		return false;
	}

	/* Most of the fields that are the same in every heap are right. */
	bool looks_like_ours() const
	{
		int right = (memcmp(super_.magic, MEDIA_MAGIC, 8) == 0) +
		            (super_.version >= MEDIA_OLDEST && super_.version <= MEDIA_VERSION) +
		            (super_.endian == MEDIA_ENDIAN) +
		            (media_slot_bytes_known(super_.slot_bytes) != 0);
		return right >= 3 && super_.checksum != media_super_checksum(&super_);
	}

	void list_superblock_problems()
	{
		auto bad = [&](bool is, const std::string &what) {
			if (is)
				problem("superblock", what, RESTORE);
		};
		bad(memcmp(super_.magic, MEDIA_MAGIC, 8) != 0,
		        "it does not begin as a heap file does");
		bool version = super_.version >= MEDIA_OLDEST && super_.version <= MEDIA_VERSION;
		bad(!version, "version " + text(super_.version) + ", not " + text(MEDIA_OLDEST) +
		                      " to " + text(MEDIA_VERSION));
		bad(super_.endian != MEDIA_ENDIAN,
		        "its mark of the byte order is " + hex(super_.endian));
		bad(!media_slot_bytes_known(super_.slot_bytes),
		        "ring slots of " + text(super_.slot_bytes) + " bytes");
		bool sums = super_.checksum == media_super_checksum(&super_);
		bad(!sums, "its checksum does not hold, and no change of one byte makes it hold: "
		           "nothing in the file can be told from it");
		media_super s = super_;
		memcpy(s.magic, MEDIA_MAGIC, sizeof s.magic);
		s.version = version ? s.version : MEDIA_VERSION, s.endian = MEDIA_ENDIAN;
		if (!media_slot_bytes_known(s.slot_bytes))
			s.slot_bytes = MEDIA_SLOT_BYTES;
		s.checksum = media_super_checksum(&s);
		bool size_lost =
		        sums && media_grows(&super_) && media_heap_bytes(&super_, &super_) == 0;
		bad(size_lost, "both copies of the heap's size now are damaged");
		bad(!size_lost && super_error(s) != 0,
		        "its sizes and offsets do not fit each other");
	}

	/* ----------------------------------------------------------------- length */

	bool check_length()
	{
		uint64_t is = heap_.file_bytes, must = super_.file_bytes;
		if (is > must)
			mendable("file",
			        text(is - must) +
			                " bytes too long: nothing reads the file beyond byte " +
			                text(must),
			        {must, {}, "file: cut to " + text(must) + " bytes"});
		if (is >= must)
			return true;
		if (nothing_used_from(is)) {
			mendable("file",
			        text(must - is) +
			                " bytes too short: the heap has not grown so far, and "
			                "nothing was there",
			        {must, {}, "file: extended to " + text(must) + " bytes"});
			report_.not_counted = "the file is too short";
			return false;
		}
		problem("file",
		        "truncated: " + text(is) + " bytes of " + text(must) +
		                " are there; missing: " + missing_from(is),
		        RESTORE);
		report_.not_counted = "the file is truncated";
		return false;
	}

	/* Does the file of a closed heap have nothing from here on but a hole, for the heap to grow
	 * into, and the trailer?  The trailer means nothing once the heap is closed. */
	bool nothing_used_from(uint64_t end) const
	{
		return media_grows(&super_) && heap_.raw().state == MEDIA_CLOSED &&
		       end >= super_.heap_offset + media_heap_bytes(&super_, &heap_.raw());
	}

	std::string missing_from(uint64_t end) const
	{
		struct Region {
			const char *name;
			uint64_t offset, bytes;
		} const regions[] = {
		        {"control region", super_.control_offset, super_.control_bytes},
		        {"ring", super_.ring_offset, super_.ring_slots * super_.slot_bytes},
		        {"logs", super_.logs_offset, super_.max_threads * super_.log_bytes}};
		std::string all;
		for (const Region &r : regions)
			if (end < r.offset + r.bytes)
				all += std::string(r.name) + (end > r.offset ? " in part, " : ", ");
		uint64_t from = end > super_.heap_offset ? end - super_.heap_offset : 0;
		return all + "heap bytes " + text(from) + " to " + text(super_.heap_bytes);
	}

	/* ------------------------------------------------------------ state, tail */

	static std::vector<uint8_t> word(uint64_t value)
	{
		std::vector<uint8_t> bytes(sizeof value);
		memcpy(bytes.data(), &value, sizeof value);
		return bytes;
	}

	void check_role()
	{
		const std::optional<media_ship> page = heap_.ship_page();
		if (!page)
			problem("ship page",
			        "both copies are damaged: whether the heap is shipped, and where "
			        "to, is lost",
			        RESTORE);
		else if (page->role != MEDIA_NO_ROLE)
			report_.role = role_text(page->role);
	}

	void check_group_word(uint64_t offset, const std::string &what)
	{
		uint64_t value, now;
		memcpy(&now, reinterpret_cast<const uint8_t *>(heap_.words()) + offset, sizeof now);
		if (now && media_tail_decode(now, &value))
			mendable("group page", what + " is damaged",
			        {offset, word(0), "group page: " + what + " set to unknown"});
	}

	/* A decision that does not check may have been torn by a power failure, and then counts for
	 * nothing.  Each word is stored whole. */
	void check_group()
	{
		if (!media_is_member(&super_))
			return;
		check_group_word(MEDIA_GROUP_OFFSET + offsetof(media_group, opened),
		        "whether it was opened alone");
		check_group_word(MEDIA_GROUP_OFFSET + offsetof(media_group, free_below),
		        "which decisions are of use");
		for (uint32_t k = 0; k < super_.more.group_members; k++)
			check_group_word(MEDIA_GROUP_OFFSET + offsetof(media_group, seen) +
			                         k * sizeof(uint64_t),
			        "what is seen of member " + text(k));
	}

	void check_state()
	{
		uint64_t state = heap_.words()->state;
		closed_ = state == MEDIA_CLOSED;
		report_.state = closed_ ? "closed" : "needs recovery";
		/* Of the two values it may have had, "open" is the harmless one: a closed heap has
		 * nothing to replay from its tail on. */
		if (!closed_ && state != MEDIA_OPEN && state != MEDIA_OPEN_ASYNC)
			mendable("state",
			        "the word is " + hex(state) +
			                ", neither closed nor open; it counts as open",
			        {offsetof(media_super, state), word(MEDIA_OPEN),
			                "state: set to open, so that the next open replays"});
	}

	/* Each copy is written and durable before the other is touched, and only when everything
	 * below is durable in the heap (INV-R1).  So if one is damaged the other is right: the
	 * first can only be newer and the second only older, and replaying again is harmless. */
	std::optional<uint64_t> check_tail()
	{
		uint64_t tail[2];
		bool bad[2];
		for (int k = 0; k < 2; k++)
			bad[k] = media_tail_decode(heap_.words()->tail[k][0], &tail[k]) != 0;
		if (bad[0] && bad[1]) {
			problem("tail", "both copies are damaged", RESTORE);
			return {};
		}
		if (bad[0] || bad[1]) {
			int broken = bad[0] ? 0 : 1;
			uint64_t good = tail[1 - broken];
			const char *which = broken ? "second" : "first";
			mendable("tail",
			        std::string("the ") + which + " copy is damaged; the other is " +
			                text(good),
			        {offsetof(media_super, tail) + static_cast<uint64_t>(broken) *
			                                               sizeof(media_super::tail[0]),
			                word(media_tail_encode(good)),
			                std::string("tail: ") + which + " copy set to " +
			                        text(good)});
			return good;
		}
		if (tail[0] < tail[1] || tail[0] - tail[1] > 2 * super_.ring_slots) {
			problem("tail",
			        "its copies, " + text(tail[0]) + " and " + text(tail[1]) +
			                ", cannot both be right, and nothing tells which is",
			        RESTORE);
			return {};
		}
		return tail[1];
	}

	/* ------------------------------------------------------------- heap's size */

	/* Two copies that differ are those of a growth that was cut off: the blocks are there.  A
	 * copy that does not decode is damaged.  super_error() has refused two of them. */
	void check_size()
	{
		const uint64_t bytes = media_heap_bytes(&super_, heap_.words()),
		               right = media_tail_encode(bytes / MEDIA_PAGE_BYTES);
		for (unsigned k = 0; k < 2 && media_grows(&super_); k++) {
			uint64_t chunks;
			if (media_tail_decode(heap_.words()->grown[k][0], &chunks) == 0)
				continue;
			const std::string which = k ? "second" : "first";
			mendable("size",
			        "the " + which + " copy is damaged; the other is " + text(bytes) +
			                " bytes",
			        {offsetof(media_super, grown) + k * sizeof(media_super::grown[0]),
			                word(right),
			                "size: " + which + " copy set to " + text(bytes) +
			                        " bytes"});
		}
	}

	/* The allocator is sound, and has `chunks`: so the heap must have as many (INV-F5).  The
	 * next open allocates what has no blocks. */
	void check_size_holds(uint64_t chunks)
	{
		const uint64_t bytes = media_heap_bytes(&super_, heap_.words()),
		               must = chunks * CHUNK_BYTES;
		for (unsigned k = 0; k < 2 && must > bytes; k++) {
			const std::string which = k ? "second" : "first";
			mendable("size",
			        "the " + which + " copy is too small: the heap has " + text(bytes) +
			                " bytes, and its allocator " + text(must),
			        {offsetof(media_super, grown) + k * sizeof(media_super::grown[0]),
			                word(media_tail_encode(must / MEDIA_PAGE_BYTES)),
			                "size: " + which + " copy set to " + text(must) +
			                        " bytes"});
		}
	}

	/* -------------------------------------------------------------- allocator */

	void check_allocator(const Ring *ring)
	{
		alloc_census census;
		int error = heap_.check_allocator(ring, census,
		        [&](const char *what) { problem("allocator", what, RESTORE); });
		if (error == 0) {
			report_.census = census;
			if (media_grows(&super_))
				check_size_holds(census.chunks);
		} else
			report_.not_counted =
			        error == FUR_ECORRUPT ? "the allocator is damaged" : fur_errormsg();
		/* An allocator that could not be checked must not pass for a sound one. */
		if (error && error != FUR_ECORRUPT)
			problem("allocator", std::string("not checked: ") + fur_errormsg(),
			        "try again");
	}

	HeapView &heap_;
	media_super super_; /* as it is, or as it must be */
	bool closed_ = false;
	Report report_;
};

void write_all(int fd, const Repair &r, const std::string &path)
{
	int error = r.bytes.empty() ? system_set_length(fd, r.offset)
	                            : system_write(fd, r.bytes.data(), r.bytes.size(), r.offset);
	if (error)
		throw Refused(path, CALL_WRITE, error, "cannot write");
}

void sync(const HeapView &heap)
{
	if (int error = system_sync(heap.fd))
		throw Refused(heap.path, CALL_SYNC, error, "cannot write");
}

} // namespace

/* Giving up is one word, stored whole: from then on recovery ends below it (media_recovery_end).  A
 * process that is killed here has given up nothing, or everything. */
std::vector<std::string> forget(HeapView &heap, uint64_t from)
{
	if (heap_check_super(&heap.raw(), heap.file_bytes))
		throw Refused(heap.path + ": " + fur_errormsg());
	heap.map(heap.raw());
	const media_file file = heap.file();
	const uint64_t tail = heap.tail(), end = media_recovery_end(&file, tail);
	uint64_t upto = from, forgotten = 0;
	if (heap.words()->state == MEDIA_CLOSED || from < tail || from >= end)
		throw Refused(
		        heap.path + ": update " + text(from) +
		        " is not among those to be replayed: name one that fur-check says is lost");
	for (uint64_t durts = from; durts < end; durts++)
		if (log_marker(&file, durts)->durts == durts)
			upto = durts, forgotten++;
	std::vector<uint8_t> word(8);
	uint64_t encoded = media_tail_encode(from);
	memcpy(word.data(), &encoded, sizeof encoded);
	write_all(heap.fd, {offsetof(media_super, forget), word, {}}, heap.path);
	sync(heap);
	return {"updates " + text(from) + " to " + text(upto) + " given up, " + text(forgotten) +
	        " markers"};
}

Report check_heap(HeapView &heap)
{
	return Checker(heap).run();
}

/* INV-FC2 */
std::vector<std::string> repair_heap(const HeapView &heap, const Report &report)
{
	std::vector<std::string> done;
	for (const Problem &p : report.problems)
		if (p.repair) {
			write_all(heap.fd, *p.repair, heap.path);
			done.push_back(p.repair->what);
		}
	sync(heap);
	return done;
}

} // namespace tools
