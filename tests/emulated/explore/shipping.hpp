/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shipping.hpp - the shipping log of an explored heap, and a heap that follows it: what a fail-over
 * would use.  None of it is simulated.  After a power failure two heaps are made of it, and the
 * oracle judges each as it judges a recovered one:
 *
 *     the standby    what the heap contained at first, and the updates that the log has
 *     the old heap   its image as the failure has left it, and those updates again from its tail
 *                    on: what the log lacks is given up.  The image must not have been ahead
 *                    (INV-SH1)
 */
#ifndef EXPLORE_SHIPPING_HPP
#define EXPLORE_SHIPPING_HPP

#include "copies.hpp"
#include "internals.hpp"
#include "run.hpp"

#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace explore
{

class ShippingLog
{
public:
	/* Nothing has run. */
	void start()
	{
		frames_.clear();
	}
	/* The updates [from, to), whole in the ring that `d` sees. */
	void append(const durability &d, uint64_t from, uint64_t to)
	{
		const media_file file = durability_file(&d);
		for (uint64_t durts = from; durts < to; durts++) {
			frames_.push_back({durts, {}});
			if (!log_marker_commits(durability_marker(&d, durts)))
				continue;
			log_walk walk = log_walk_update(&file, durts);
			while (log_walk_next(&walk))
				add(d, walk.entry);
			if (walk.broken)
				abort();
		}
	}
	/* `initial`: the file of the heap as it was at first, closed; `failed`: as the power
	 * failure has left it.  Make `path` of them: a closed heap without a role. */
	void make_standby(const std::string &initial, const std::string &path) const
	{
		copy_heap(initial, path);
		apply(path, 0);
	}
	void make_old_heap(const std::string &initial, const std::string &failed,
	        const std::string &path) const
	{
		const media_super super = super_of(failed);
		const media_file view = {
		        &super, const_cast<media_super *>(&super), nullptr, nullptr};
		uint64_t tail = 0;
		if (media_tail(&view, &tail))
			abort();
		copy_heap(initial, path);
		copy_part(failed, path, super.heap_offset, super.heap_bytes);
		apply(path, tail);
	}

	/* Whether the file of a closed heap is that of a primary. */
	static void make_primary(const std::string &path)
	{
		heap_file file;
		media_ship ship = {};
		ship.role = MEDIA_PRIMARY;
		if (heap_open_file(path.c_str(), HEAP_LOCK_WORKER, &file) ||
		        heap_write_ship_page(&file, &ship))
			abort();
		heap_close_file(&file);
	}
	/* As a person would who gives up the shipping log: libfur then recovers the heap alone. */
	static void drop_role(const std::string &path)
	{
		media_super super = super_of(path);
		super.more.features &= ~MEDIA_SHIPS;
		super.more.checksum = super.more.features ? media_more_checksum(&super) : 0;
		std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
		file.seekp(offsetof(media_super, more));
		file.write(reinterpret_cast<const char *>(&super.more), sizeof super.more);
	}

private:
	struct Change {
		uint64_t at;
		std::vector<uint8_t> bytes;
	};
	struct Frame {
		uint64_t durts;
		std::vector<Change> changes;
	};

	/* What a record names and does not contain lies in the image, until the update is replayed
	 * (INV-FM4, INV-BU4). */
	void add(const durability &d, const log_entry &entry)
	{
		if (entry.bulk.rows) {
			log_bulk bulk = log_bulk_at(d.image, d.super->heap_bytes, &entry);
			while (log_bulk_next(&bulk))
				add(d, bulk.piece);
			return;
		}
		const uint8_t *from = entry.payload ? entry.payload : d.image + entry.offset;
		frames_.back().changes.push_back({entry.offset, {from, from + entry.bytes}});
	}
	static media_super super_of(const std::string &path)
	{
		media_super super;
		std::ifstream file(path, std::ios::binary);
		file.read(reinterpret_cast<char *>(&super), sizeof super);
		return super;
	}
	/* Store in the heap of this file what the updates from `tail` on have stored. */
	void apply(const std::string &path, uint64_t tail) const
	{
		const media_super super = super_of(path);
		const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
		for (const Frame &frame : frames_)
			for (const Change &change : frame.changes) {
				const size_t n = change.bytes.size();
				if (frame.durts < tail)
					continue;
				if (change.at + n > super.heap_bytes ||
				        pwrite(file, change.bytes.data(), n,
				                static_cast<off_t>(
				                        super.heap_offset + change.at)) !=
				                static_cast<ssize_t>(n))
					abort();
			}
		close(file);
	}

	std::vector<Frame> frames_;
};

inline ShippingLog shipping_log;

} // namespace explore

#endif /* EXPLORE_SHIPPING_HPP */
