/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap_view.cpp - open a heap file, lock it if no other process may work on it, map it privately;
 * then read its ring, its logs and its allocator through the library's own view (media/log_view.h).
 */
#include "heap_view.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tools
{

Refused::Refused(const std::string &path, system_call call, int error, const char *what)
    : runtime_error(path + ": " + what + ": " + strerror(error) + ": " + remedy_of(call, error))
{
}

static std::string sigbus_message;

void explain_sigbus(const char *program, const std::string &path)
{
	sigbus_message = std::string(program) + ": " + path +
	                 ": the file became shorter, or its disk cannot be read, while it was "
	                 "looked at: try again, or restore it from a copy\n";
	struct sigaction action = {};
	action.sa_handler = [](int) {
		system_print(STDERR_FILENO, sigbus_message.c_str());
		_exit(1);
	};
	sigaction(SIGBUS, &action, nullptr);
}

HeapView::HeapView(const std::string &given, Purpose purpose) : path(given)
{
	/* INV-FC1: read-only, but for a repair. */
	fd = system_open(path.c_str(),
	        /* O_NONBLOCK: a FIFO is refused, and not waited for */
	        (purpose == Purpose::REPAIR ? O_RDWR : O_RDONLY) | O_NONBLOCK, 0);
	if (fd < 0 && errno == ENOENT)
		throw Refused(path + ": no such file: check the path");
	if (fd < 0)
		throw Refused(path, CALL_OPEN, errno, "cannot open");
	try {
		if (heap_read_super(fd, &raw_, &file_bytes))
			throw Refused(path + ": " + fur_errormsg());
		take_lock(purpose);
	} catch (...) {
		close(fd);
		throw;
	}
}

HeapView::~HeapView()
{
	if (mapped_)
		munmap(mapped_, mapped_bytes_);
	close(fd);
}

static int lock_call(int fd, int command, struct flock &lock)
{
	int failed;
	do
		failed = fcntl(fd, command, &lock);
	while (failed && errno == EINTR);
	return failed;
}

void HeapView::take_lock(Purpose purpose)
{
	if (purpose == Purpose::LOOK)
		return;
	/* A check shares the locks with other checks; a process that works on the heap holds them
	 * alone. */
	for (int byte : {HEAP_LOCK_WORKER, HEAP_LOCK_REPLAYER}) {
		struct flock lock = {};
		lock.l_type = purpose == Purpose::REPAIR ? F_WRLCK : F_RDLCK;
		lock.l_whence = SEEK_SET;
		lock.l_start = byte;
		lock.l_len = 1;
		if (lock_call(fd, F_OFD_SETLK, lock) == 0)
			continue;
		if (errno == EAGAIN || errno == EACCES)
			throw Refused(path + ": the heap is in use by another process: end that "
			                     "first (fur-info works alongside it)");
		throw Refused(path, CALL_LOCK, errno, "cannot lock");
	}
}

bool HeapView::locked(int byte) const
{
	struct flock lock = {};
	lock.l_type = F_RDLCK;
	lock.l_whence = SEEK_SET;
	lock.l_start = byte;
	lock.l_len = 1;
	return lock_call(fd, F_OFD_GETLK, lock) == 0 && lock.l_type != F_UNLCK;
}

bool HeapView::used_by_worker() const
{
	return locked(HEAP_LOCK_WORKER);
}

bool HeapView::used_by_replayer() const
{
	return locked(HEAP_LOCK_REPLAYER);
}

bool HeapView::used_by_shipper() const
{
	return locked(HEAP_LOCK_SHIP);
}

media_standby HeapView::standby(const media_ship &page, bool opened) const
{
	const media_file f = file();
	media_standby s;
	media_standby_read(media_control(&f),
	        reinterpret_cast<const heap_header *>(media_at(&f, geometry_.heap_offset)), &page,
	        opened, &s);
	return s;
}

std::optional<media_ship> HeapView::ship_page() const
{
	media_ship page;
	return media_ship_read(&geometry_, mapped_, &page) ? std::nullopt : std::optional(page);
}

void HeapView::map(const media_super &super)
{
	/* Private, so that even a bug in a tool cannot write to the file; unchanged pages show the
	 * file as it is now. */
	if (mapped_)
		munmap(mapped_, mapped_bytes_);
	mapped_ = nullptr;
	/* Without any bytes appended to the file, which may exceed an address space. */
	mapped_bytes_ = std::min(file_bytes, super.file_bytes);
	void *p = mmap(
	        nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
	if (p == MAP_FAILED)
		throw Refused(path, CALL_MAP_HEAP, errno, "cannot map the file");
	mapped_ = static_cast<media_super *>(p);
	geometry_ = super;
	/* Only where it differs: a page written to no longer follows the file. */
	if (memcmp(&super, &raw_, offsetof(media_super, grown)) != 0)
		memcpy(static_cast<void *>(mapped_), &super, offsetof(media_super, grown));
}

/* ---------------------------------------------------------------------- ring */

heap_file HeapView::opened() const
{
	heap_file file = {};
	file.fd = fd;
	file.super = mapped_;
	file.geometry = geometry_;
	file.file_bytes = file_bytes;
	return file;
}

uint64_t HeapView::tail() const
{
	const heap_file file = opened();
	uint64_t tail;
	if (heap_tail(&file, &tail))
		throw Refused(path + ": " + fur_errormsg());
	return tail;
}

static void count_record(const media_super *s, const media_marker *m, LogUse &log)
{
	log.updates++;
	if (log_marker_kind(m) == MEDIA_COMMIT_IN_SLOT)
		return;
	log.from = log.to ? log.from : m->log_start;
	log.to = std::max(log.to, log_record_end(m));
	log.bytes = std::min(log.to - log.from, s->log_bytes);
}

Ring HeapView::ring(uint64_t tail) const
{
	Ring r;
	const media_file f = file();
	r.verdicts.resize(geometry_.ring_slots);
	r.logs.resize(geometry_.max_threads);
	inspect_judge(&f, tail, r.verdicts.data(), &r.range);
	for (uint64_t durts = tail; durts < r.range.end; durts++)
		if (r.verdict(durts) == INSPECT_KEPT) {
			/* A running process may have overwritten it since the verdict. */
			media_marker m;
			if (log_read_plausible(&f, durts, &m))
				count_record(&geometry_, &m, r.logs[m.thread]);
		}
	return r;
}

bool for_entries(const media_file &file, const log_record &record,
        const std::function<void(const log_entry &)> &tell)
{
	log_walk walk = log_walk_record(&file, &record);
	while (log_walk_next(&walk))
		tell(walk.entry);
	return !walk.broken;
}

/* ----------------------------------------------------------------- allocator */

static void store_entry(uint8_t *heap, const media_file &file, const log_entry &entry)
{
	if (entry.payload)
		memcpy(heap + entry.offset, entry.payload, entry.bytes);
	if (!entry.bulk.rows)
		return;
	log_bulk bulk = log_bulk_of(&file, &entry);
	while (log_bulk_next(&bulk))
		memcpy(heap + bulk.piece.offset, bulk.piece.payload, bulk.piece.bytes);
}

int HeapView::check_allocator(
        const Ring *ring, alloc_census &census, const std::function<void(const char *)> &tell) const
{
	heap_file file = opened();
	const media_file whole = this->file();
	if (int error = heap_map(&file))
		return error;
	for (uint64_t durts = ring ? ring->range.tail : 0; ring && durts < ring->range.end; durts++)
		if (ring->verdict(durts) == INSPECT_KEPT) {
			log_walk walk = log_walk_update(&whole, durts);
			while (log_walk_next(&walk))
				store_entry(file.base, whole, walk.entry);
		}
	int error = heap_check_header(
	        file.base, geometry_.heap_bytes, media_grows(&geometry_), media_stocks(&geometry_));
	if (error)
		tell("the header of the heap does not fit this file");
	else
		error = alloc_check_all(
		        file.base, &census,
		        [](void *f, const char *text) { (*static_cast<decltype(&tell)>(f))(text); },
		        const_cast<std::function<void(const char *)> *>(&tell));
	munmap(file.base, geometry_.heap_bytes);
	return error;
}

const char *role_text(uint32_t role)
{
	return role == MEDIA_PRIMARY ? "primary" : role == MEDIA_STANDBY ? "standby" : "none";
}

std::string node_text(uint64_t node)
{
	char text[20];
	snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(node));
	return text;
}

std::string uuid_text(const media_super &super)
{
	static const char digits[] = "0123456789abcdef";
	std::string text;
	for (int k = 0; k < 16; k++) {
		text += digits[super.uuid[k] >> 4];
		text += digits[super.uuid[k] & 15];
		if (k == 3 || k == 5 || k == 7 || k == 9)
			text += '-';
	}
	return text;
}

} // namespace tools
