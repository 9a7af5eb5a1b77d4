/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_watch.cpp - look at a heap file in use: who uses it, how far its ring and logs reach.
 */
#include "heap_watch.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tools
{

/* ---------------------------------------------------------------------- file */

/* The open file, and its first regions up to the logs. */
struct HeapWatch::Mapping {
	explicit Mapping(const std::string &path) : view(path, Purpose::LOOK)
	{
		if (heap_check_super(&view.raw(), view.file_bytes))
			throw Refused(path + ": " + fur_errormsg());
		bytes = view.raw().logs_offset;
		at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, view.fd, 0);
		if (at == MAP_FAILED)
			throw Refused(path, CALL_MAP, errno, "cannot map the file");
		file = media_file_of(&view.raw(), static_cast<media_super *>(at));
		control = media_control(&file);
	}
	~Mapping()
	{
		munmap(at, bytes);
	}
	Mapping(const Mapping &) = delete;
	Mapping &operator=(const Mapping &) = delete;

	HeapView view;
	void *at;
	uint64_t bytes;
	media_file file{};
	const struct control *control = nullptr;
};

HeapWatch::HeapWatch(const std::string &path)
    : path_(path), mapping_(std::make_unique<Mapping>(path)), files_(1)
{
}

HeapWatch::~HeapWatch() = default;

HeapWatch::Path HeapWatch::path_now() const
{
	struct stat there, ours;
	if (stat(path_.c_str(), &there)) {
		if (errno == ENOENT)
			return Path::MISSING;
		throw Refused(path_, CALL_OPEN, errno, "cannot stat");
	}
	if (!mapping_ || fstat(mapping_->view.fd, &ours) || there.st_dev != ours.st_dev ||
	        there.st_ino != ours.st_ino)
		return Path::OTHER;
	if (static_cast<uint64_t>(ours.st_size) < mapping_->view.raw().file_bytes)
		throw Refused(path_ + ": truncated while it was watched: restore the file from a "
		                      "copy");
	return Path::SAME;
}

/* ---------------------------------------------------------------------- look */

static double seconds(clockid_t clock)
{
	timespec now{};
	clock_gettime(clock, &now);
	return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void HeapWatch::look_at_users(Sample &s)
{
	const Mapping &m = *mapping_;
	const media_super *super = m.file.super;
	s.there = true;
	s.ring_slots = super->ring_slots;
	s.log_bytes = super->log_bytes;
	s.worker = m.view.used_by_worker();
	s.replayer = m.view.used_by_replayer();
	s.worker_pid = s.worker ? arch_load(&m.control->worker_pid) : 0;
	s.replayer_pid = s.replayer ? arch_load(&m.control->replayer_pid) : 0;
	s.session = files_ << 32 | arch_load32_acquire(&m.control->opened);
	s.state = s.worker                                          ? "in use"
	          : arch_load(&m.file.words->state) == MEDIA_CLOSED ? "closed"
	                                                            : "needs recovery";
	if (media_tail(&m.file, &s.tail))
		throw Refused(path_ + ": the log's tail is damaged: see fur-check");
}

/* Is this the first look at a process's work, or has a recovery moved the tail since the last one?
 * A recovery skips slots, so the slot below its tail holds an older marker.  After a live replay it
 * holds the one that was replayed, or a newer one. */
bool HeapWatch::restarted(const Sample &s) const
{
	if (s.session != last_.session || s.tail < last_.tail)
		return true;
	return s.tail != last_.tail &&
	       arch_load_acquire(&log_marker(&mapping_->file, s.tail - 1)->durts) < s.tail - 1;
}

/* Read the markers from the first one not seen on.  No more updates than there are threads are in
 * flight, so behind that many slots in a row without a marker there is none. */
void HeapWatch::look_at_markers(Sample &s)
{
	const media_file &f = mapping_->file;
	const uint64_t from = std::max(resume_, s.tail), to = s.tail + s.ring_slots;
	uint64_t first_hole = 0;
	s.next = std::max(last_.next, s.tail);
	for (uint64_t d = from; d < to && d <= s.next + f.super->max_threads; d++) {
		/* Acquire: pairs with ring_put_marker(). */
		uint64_t durts = arch_load_acquire(&log_marker(&f, d)->durts);
		if (durts < d) {
			first_hole = first_hole ? first_hole : d;
			continue;
		}
		s.next = std::max(s.next, d + 1);
		media_marker marker;
		if (log_read_plausible(&f, d, &marker) &&
		        log_marker_kind(&marker) != MEDIA_COMMIT_IN_SLOT)
			log_ends_[marker.thread] =
			        std::max(log_ends_[marker.thread], log_record_end(&marker));
	}
	resume_ = first_hole ? first_hole : s.next;
}

void HeapWatch::look_at_logs(Sample &s) const
{
	const struct control *c = mapping_->control;
	s.replays = arch_load(&c->replays);
	s.replayed_updates = arch_load(&c->replayed_updates);
	for (uint32_t t = 0; t < log_ends_.size(); t++) {
		uint64_t tail = arch_load(&c->logs[t].tail);
		uint64_t used = log_ends_[t] > tail ? log_ends_[t] - tail : 0;
		/* More than a log holds: a process has just begun its positions anew. */
		if (used > s.fullest_log_bytes && used <= s.log_bytes) {
			s.fullest_log_bytes = used;
			s.fullest_log_thread = t;
		}
	}
}

/* The header is not mapped here. */
void HeapWatch::look_at_standby(Sample &s, const media_ship &page) const
{
	const Mapping &m = *mapping_;
	heap_header header{};
	if (pread(m.view.fd, &header, sizeof header,
	            static_cast<off_t>(m.file.super->heap_offset)) != sizeof header)
		header = {};
	media_standby_read(m.control, &header, &page, s.worker, &s.standby);
	if (s.standby.follows && s.standby.heard_ns)
		s.heard = static_cast<double>(arch_now_ns() - s.standby.heard_ns) * 1e-9;
}

/* A damaged page is fur-check's to report. */
void HeapWatch::look_at_shipping(Sample &s) const
{
	const Mapping &m = *mapping_;
	const control_ship &c = m.control->ship;
	media_ship page;
	const bool sound = media_ship_read(m.file.super, m.file.words, &page) == 0;
	s.primary = sound && page.role == MEDIA_PRIMARY;
	s.follower = sound && page.role == MEDIA_STANDBY;
	if (s.follower)
		look_at_standby(s, page);
	if (!s.primary)
		return;
	s.shipper = m.view.used_by_shipper();
	s.shipper_pid = s.shipper ? arch_load(&c.shipper_pid) : 0;
	if (!s.worker)
		return;
	s.fenced = arch_load32(&c.state) == CONTROL_FENCED;
	s.term = arch_load(&c.term);
	s.lineage = arch_load(&c.lineage);
	s.acked = arch_load(&c.acked);
	s.unacked = s.next > s.acked ? s.next - s.acked : 0;
}

Sample HeapWatch::look()
{
	Sample s;
	s.time = seconds(CLOCK_REALTIME);
	s.monotonic = seconds(CLOCK_MONOTONIC);
	s.updates = last_.updates;
	Path now = path_now();
	if (now != Path::SAME)
		mapping_.reset();
	if (now == Path::MISSING) {
		s.next = 0;
		return last_ = s;
	}
	if (now == Path::OTHER) {
		mapping_ = std::make_unique<Mapping>(path_);
		files_++;
	}
	look_at_users(s);
	bool fresh = restarted(s);
	if (fresh) {
		resume_ = last_.next = 0;
		log_ends_.assign(mapping_->file.super->max_threads, 0);
	}
	look_at_markers(s);
	if (!fresh)
		s.updates += s.next - last_.next;
	if (s.worker)
		look_at_logs(s);
	look_at_shipping(s);
	return last_ = s;
}

} // namespace tools
