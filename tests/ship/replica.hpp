/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replica.hpp - what a log makes of a heap, without a standby.
 */
#ifndef REPLICA_HPP
#define REPLICA_HPP

#include "attached.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <vector>

namespace ship_test
{

/* What a log makes of the heap as it was at first. */
class Replica
{
public:
	Replica(const std::string &heap, const std::string &log)
	{
		heap_file file;
		EXPECT_EQ(heap_open_file(heap.c_str(), HEAP_LOCK_NONE, &file), 0);
		super_ = file.geometry;
		const auto *image = reinterpret_cast<uint8_t *>(file.super) + super_.heap_offset;
		bytes.assign(image, image + super_.heap_bytes);
		heap_close_file(&file);
		log_ = log;
		stream_init(&at_, super_.uuid, nullptr);
	}
	/* Read the log to its end. */
	void follow()
	{
		stream_engine *engine;
		ASSERT_EQ(engine_file_open(log_.c_str(), &engine), 0) << fur_errormsg();
		follow(engine);
		engine->ops->close(engine);
	}
	/* The same from where it has read last. */
	void follow(stream_engine *engine)
	{
		size_t n;
		while (engine->ops->read(engine, at_.next, message_.data(), message_.size(), &n) ==
		        1) {
			struct frame f;
			const auto j = stream_read(&at_, at_.next, message_.data(), n, &f);
			ASSERT_FALSE(stream_is_fatal(j)) << stream_text(j);
			if (j == STREAM_VALID)
				take(f, parts_);
		}
		durts = at_.at.durts;
		voids = 0;
		for (uint64_t v : at_.voids)
			voids += v;
	}
	std::vector<uint8_t> bytes;
	uint64_t most = UINT64_MAX; /* it applies no update above */
	uint64_t durts = 0, voids = 0, updates = 0, sides = 0;

private:
	struct Side {
		uint64_t offset;
		std::vector<uint8_t> data;
	};
	void take(const struct frame &f, std::vector<uint8_t> &parts)
	{
		if (f.head.kind == FRAME_CLAIM || f.head.flags == FRAME_FIRST) {
			parts.clear();
			side_.clear();
		}
		if (f.head.kind == FRAME_SIDE) {
			const frame_side side = frame_get_side(&f);
			std::vector<uint8_t> data(
			        f.payload + sizeof side, f.payload + f.head.bytes);
			data.resize(data.size() + side.zeros);
			side_.push_back({side.offset, data});
		}
		size_t at = 0;
		frame_entries entries;
		while (f.head.kind == FRAME_DATA && frame_next_update(&f, &at, &entries)) {
			parts.insert(parts.end(), entries.bytes, entries.bytes + entries.n);
			if (f.head.flags == FRAME_FIRST || f.head.flags == FRAME_MORE)
				continue;
			if (entries.durts <= most)
				apply(parts);
			parts.clear();
			side_.clear();
		}
	}
	void store(uint64_t at, const uint8_t *from, uint64_t n)
	{
		ASSERT_LE(at + n, bytes.size());
		memcpy(&bytes[at], from, n);
	}
	void apply(const std::vector<uint8_t> &entries)
	{
		const media_file file = {&super_, nullptr, nullptr, nullptr};
		const log_record record = {0, entries.size(), entries.data()};
		updates++;
		for (const Side &side : side_) {
			sides++;
			store(side.offset, side.data.data(), side.data.size());
		}
		log_walk walk = log_walk_record(&file, &record);
		while (log_walk_next(&walk)) {
			if (walk.entry.bulk.rows) {
				log_bulk bulk =
				        log_bulk_at(bytes.data(), bytes.size(), &walk.entry);
				while (log_bulk_next(&bulk)) {
					const std::vector<uint8_t> piece(bulk.piece.payload,
					        bulk.piece.payload + bulk.piece.bytes);
					store(bulk.piece.offset, piece.data(), piece.size());
				}
			} else if (walk.entry.payload) {
				store(walk.entry.offset, walk.entry.payload, walk.entry.bytes);
			}
		}
		EXPECT_FALSE(walk.broken);
	}
	media_super super_;
	std::string log_;
	stream at_;
	std::vector<uint8_t> message_ = std::vector<uint8_t>(FRAME_MOST_BYTES), parts_;
	std::vector<Side> side_;
};

} // namespace ship_test

#endif
