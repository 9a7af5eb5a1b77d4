/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shipper.hpp - a shipper for tests: a thread that makes frames of what a primary's updates leave
 * in its log, appends them to a stream engine, and acknowledges them to the primary.
 */
#ifndef SHIPPER_HPP
#define SHIPPER_HPP

#include "internals.hpp"
#include "ship.hpp"

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ship_test
{

[[noreturn]] inline void give_up(const char *what)
{
	fprintf(stderr, "shipper: %s: %s\n", what, fur_errormsg());
	abort();
}

/* Frames of at most `frame_bytes` bytes, so that parts of updates are many or few. */
class Shipper
{
public:
	Shipper(const std::string &primary, const std::string &log, uint64_t node = 1,
	        size_t frame_bytes = FRAME_MOST_BYTES)
	    : frame_bytes_(frame_bytes), message_(FRAME_MOST_BYTES), room_(FRAME_MOST_BYTES)
	{
		if (heap_open_file(primary.c_str(), HEAP_LOCK_NONE, &file_) ||
		        heap_attach_to_replay(&d_, &file_))
			give_up("open");
		d_.replays_for_worker = true;
		if (engine_file_open(log.c_str(), &engine_))
			give_up("log");
		writer_init(&writer_, file_.geometry.uuid, node, nullptr);
		claim();
		next_ = ship_acked(&d_);
		ship_begin(&d_);
		thread_ = std::thread([this] { run(); });
	}
	~Shipper()
	{
		arch_store32_release(&stopping_, 1);
		ship_call_shipper(&d_);
		thread_.join();
		engine_->ops->close(engine_);
		durability_detach(&d_);
		heap_close_file(&file_);
	}
	Shipper(const Shipper &) = delete;

	/* The newest acknowledged position. */
	stream_position position()
	{
		const std::lock_guard<std::mutex> lock(mutex_);
		return position_;
	}

	/* Of all frames so far: those that are parts, those of side data, of bulk updates. */
	std::atomic<unsigned> parts{0}, sides{0}, bulks{0}, updates{0};

private:
	void claim()
	{
		writer_start(&writer_, 17 + writer_.node, WRITER_TAKES_OVER);
		while (writer_.phase != WRITER_SHIPS)
			turn();
	}
	void turn()
	{
		if (drive_turn(&writer_, engine_, room_.data(), 100) < 0 ||
		        writer_.phase == WRITER_RESYNCS || writer_.phase == WRITER_FENCED ||
		        writer_.phase == WRITER_FAILED)
			give_up(writer_.why ? writer_.why : "engine");
	}

	void begin(frame_kind kind, uint32_t flags)
	{
		frame_begin(&frame_, message_.data(), frame_bytes_, kind, flags);
	}
	void submit()
	{
		if (drive_submit(&writer_, engine_, &frame_))
			give_up("submit");
		while (writer_.counted < writer_.submitted)
			turn();
		const std::lock_guard<std::mutex> lock(mutex_);
		position_ = writer_.stream.whole;
	}

	/* The entries of a record, in one piece. */
	std::vector<uint8_t> entries_of(const media_marker &m) const
	{
		const media_file file = durability_file(&d_);
		const log_record r = log_record_of(&file, &m);
		std::vector<uint8_t> all(r.end - r.from);
		if (r.end == r.from)
			return all;
		const log_ranges places = log_ranges_of(d_.super, r.from, r.end);
		memcpy(all.data(), r.log + places.place[0], places.bytes[0]);
		if (places.bytes[1])
			memcpy(all.data() + places.bytes[0], r.log + places.place[1],
			        places.bytes[1]);
		return all;
	}

	/* Bytes of the image that no log has: each piece, and the zeros after it. */
	void ship_side(uint64_t durts, const log_entry &e, uint32_t *flags)
	{
		const uint8_t *image = d_.image + e.offset;
		const uint64_t most = (frame_bytes_ - 256) & ~uint64_t(15);
		/* A block has a multiple of 16 bytes, also if the results have not. */
		const uint64_t bytes = round_up(e.bytes, 16);
		for (uint64_t at = 0, n; at < bytes; at += n) {
			n = std::min(most, bytes - at);
			uint64_t full = n;
			while (full && is_zero(image + at + full - 16, 16))
				full -= 16;
			while (full < n && at + n < bytes && is_zero(image + at + n, 16))
				n += 16;
			const frame_side side = {e.offset + at, n - full};
			begin(FRAME_SIDE, *flags);
			void *to =
			        frame_add_side(&frame_, durts, &side, static_cast<uint32_t>(full));
			if (!to)
				give_up("side");
			memcpy(to, image + at, full);
			submit();
			sides++;
			*flags = FRAME_MORE;
		}
	}
	static bool is_zero(const uint8_t *at, size_t n)
	{
		while (n && *at == 0)
			at++, n--;
		return n == 0;
	}

	void ship_large(uint64_t durts, const std::vector<uint8_t> &entries)
	{
		uint32_t flags = FRAME_FIRST;
		log_walk w = walk(entries);
		while (log_walk_next(&w))
			if (!w.entry.payload) {
				ship_side(durts, w.entry, &flags);
				bulks += w.entry.bulk.rows != 0;
			}
		for (size_t at = 0, n; at < entries.size(); at += n) {
			begin(FRAME_DATA, flags);
			n = std::min<size_t>(frame_room(&frame_), entries.size() - at);
			if (at + n == entries.size()) {
				if (flags == FRAME_FIRST)
					give_up("not large");
				begin(FRAME_DATA, FRAME_LAST);
			}
			void *to = frame_add_update(&frame_, durts, static_cast<uint32_t>(n));
			memcpy(to, entries.data() + at, n);
			submit();
			parts++;
			flags = FRAME_MORE;
		}
	}
	log_walk walk(const std::vector<uint8_t> &entries) const
	{
		const media_file file = durability_file(&d_);
		const log_record record = {0, entries.size(), entries.data()};
		return log_walk_record(&file, &record);
	}
	bool has_others(const std::vector<uint8_t> &entries) const
	{
		log_walk w = walk(entries);
		while (log_walk_next(&w))
			if (!w.entry.payload)
				return true;
		return false;
	}

	/* Ship what is there.  False: nothing is. */
	bool ship_some()
	{
		media_marker m;
		const uint64_t first = next_;
		begin(FRAME_DATA, 0);
		const uint32_t most = frame_room(&frame_);
		for (; ship_read(&d_, next_, &m) == 0; next_++) {
			if (!log_marker_commits(&m))
				continue;
			const std::vector<uint8_t> entries = entries_of(m);
			const auto n = static_cast<uint32_t>(entries.size());
			if (n > most || has_others(entries)) {
				if (frame_.updates == 0) {
					ship_large(next_++, entries);
					updates++;
					begin(FRAME_DATA, 0);
				}
				break;
			}
			void *to = n <= frame_room(&frame_) ? frame_add_update(&frame_, next_, n)
			                                    : nullptr;
			if (!to)
				break;
			memcpy(to, entries.data(), n);
			updates++;
		}
		if (frame_.updates)
			submit();
		if (next_ != first)
			ship_acknowledge(&d_, next_);
		return next_ != first;
	}
	void run()
	{
		while (!arch_load32_acquire(&stopping_))
			if (!ship_some()) {
				EXPECT_EQ(ship_await_updates(&d_, next_, &stopping_, 0), 0);
			}
	}

	heap_file file_;
	durability d_;
	stream_engine *engine_ = nullptr;
	writer writer_;
	frame_builder frame_;
	size_t frame_bytes_;
	std::vector<uint8_t> message_, room_;
	uint64_t next_ = 0;
	uint32_t stopping_ = 0;
	std::mutex mutex_;
	stream_position position_ = {};
	std::thread thread_;
};

/* Give the closed heap a role.  `position`: of a standby that begins where no frame is yet. */
inline int write_role(const std::string &path, media_role role, const media_ship &page = {})
{
	heap_file file;
	media_ship ship = page;
	ship.role = role;
	int error = heap_open_file(path.c_str(), HEAP_LOCK_WORKER, &file);
	if (error)
		return error;
	if (!ship.durts && media_tail_decode(file.super->tail[0][0], &ship.durts))
		abort();
	error = heap_write_ship_page(&file, &ship);
	heap_close_file(&file);
	return error;
}

} // namespace ship_test

#endif
