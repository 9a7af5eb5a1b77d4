/* SPDX-License-Identifier: BSD-3-Clause
 *
 * medium.cpp - see medium.hpp.
 */
#include "medium.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace baselines
{

namespace
{

const char MAGIC[8] = {'F', 'U', 'R', 'B', 'A', 'S', 'E', '1'};
const uint64_t ADDRESS = UINT64_C(0x200000000000), PAGE = 4096, LEAST_LOG = 4096;

uint64_t round_up(uint64_t bytes, uint64_t to)
{
	return (bytes + to - 1) / to * to;
}

} // namespace

/* ---------------------------------------------------------- make, open, map */

Medium::Medium(const TmOptions &o, const char *system, Working working, bool durable_counts)
    : path_(o.path())
{
	if (o.reuse && access(path_.c_str(), F_OK) == 0)
		open(system);
	else
		create(o, system);
	/* Without a name it goes when we do, however that is. */
	if (o.heap.empty())
		unlink(path_.c_str());
	map(working);
	if (pm_init(&pm_, fd_, false, o.pm, reason_, sizeof reason_))
		throw Usage(path_ + ": " + fur_errormsg());
	if (!o.machine_has_pm)
		pm_emulate(&pm_, o.pm_latency_ns, o.pm_gap_ns);
	logs_ = std::vector<Log>(header_->threads);
	taken_.resize(header_->threads);
	for (unsigned t = 0; t < header_->threads; t++) {
		Log &log = logs_[t];
		log.base_ = file_ + header_->logs_at + t * header_->log_bytes;
		log.bytes_ = header_->log_bytes;
	}
	recover(durable_counts);
	/* A page fault aborts a hardware transaction: private copies are made now, where there are
	 * real pages. */
	if (private_ && !o.machine_has_pm && bench::machine_htm())
		madvise(heap_, header_->heap_bytes, MADV_POPULATE_WRITE);
}

Medium::~Medium()
{
	pm_fini(&pm_);
	arch_persistent_gone(file_);
	if (private_)
		munmap(heap_, header_->heap_bytes);
	munmap(file_, header_->file_bytes);
	close(fd_);
}

void Medium::create(const TmOptions &o, const char *system)
{
	fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd_ < 0)
		throw Usage(path_ + ": cannot create: " +
		            (errno == EEXIST ? "the file exists: give --reuse to open it, or "
		                               "remove it first"
		                             : strerror(errno)));
	uint64_t room[(sizeof(Header) + 7) / 8] = {};
	auto &h = *reinterpret_cast<Header *>(room);
	memcpy(h.magic, MAGIC, sizeof MAGIC);
	snprintf(h.system, sizeof h.system, "%s", system);
	h.threads = o.threads + 2; /* one that sets up, one for aside() */
	h.log_bytes = o.log_bytes ? o.log_bytes : 1 << 20;
	h.heap_bytes = round_up(o.heap_bytes, PAGE);
	h.logs_at = round_up(sizeof h + h.threads * sizeof h.tail[0], PAGE);
	h.heap_at = round_up(h.logs_at + h.threads * h.log_bytes, 1 << 16);
	h.file_bytes = h.heap_at + h.heap_bytes;
	h.address = ADDRESS;
	int error = h.log_bytes < LEAST_LOG || (h.log_bytes & (h.log_bytes - 1))
	                    ? EINVAL
	                    : posix_fallocate(fd_, 0, static_cast<off_t>(h.file_bytes));
	if (!error && pwrite(fd_, &h, sizeof h, 0) != sizeof h)
		error = errno;
	if (error) {
		close(fd_);
		unlink(path_.c_str());
		throw Usage(path_ + ": cannot create a file of " +
		            std::to_string(h.file_bytes >> 20) + " MiB: " + strerror(error) +
		            ": use a smaller --heap-mib, or another place");
	}
}

void Medium::open(const char *system)
{
	uint64_t room[(sizeof(Header) + 7) / 8] = {};
	auto &h = *reinterpret_cast<Header *>(room);
	struct stat st;
	fd_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
	if (fd_ < 0)
		throw Usage(path_ + ": cannot open: " + strerror(errno));
	bool read = pread(fd_, &h, sizeof h, 0) == sizeof h;
	std::string wrong;
	if (!read || memcmp(h.magic, MAGIC, sizeof MAGIC))
		wrong = "not a heap of this system: check the path";
	else if (strncmp(h.system, system, sizeof h.system))
		wrong = "a heap of " + std::string(h.system, strnlen(h.system, sizeof h.system)) +
		        ", not of " + system + ": use that --tm, or another file";
	else if (fstat(fd_, &st) || static_cast<uint64_t>(st.st_size) < h.file_bytes)
		wrong = "truncated: restore the file from a copy";
	if (!wrong.empty()) {
		close(fd_);
		throw Usage(path_ + ": " + wrong);
	}
}

void Medium::map(Working working)
{
	uint64_t room[(sizeof(Header) + 7) / 8] = {};
	auto &h = *reinterpret_cast<Header *>(room);
	if (pread(fd_, &h, sizeof h, 0) != sizeof h)
		throw std::runtime_error(path_ + ": cannot read: " + strerror(errno));
	private_ = working == Working::PRIVATE;
	auto *want = reinterpret_cast<char *>(h.address);
	int fixed = private_ ? 0 : MAP_FIXED_NOREPLACE;
	void *file = mmap(private_ ? nullptr : want, h.file_bytes, PROT_READ | PROT_WRITE,
	        MAP_SHARED | fixed, fd_, 0);
	if (file == MAP_FAILED)
		throw std::runtime_error(path_ + ": cannot map the file: " + strerror(errno));
	file_ = static_cast<char *>(file);
	header_ = reinterpret_cast<Header *>(file_);
	arch_persistent(file_, h.file_bytes);
	heap_ = want + h.heap_at;
	if (private_ && mmap(heap_, h.heap_bytes, PROT_READ | PROT_WRITE,
	                        MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_NORESERVE, fd_,
	                        static_cast<off_t>(h.heap_at)) == MAP_FAILED)
		throw std::runtime_error(
		        path_ + ": cannot map the heap where it belongs: " + strerror(errno));
}

void Medium::forget(const TmOptions &o)
{
	/* More than any heap has. */
	munmap(reinterpret_cast<void *>(ADDRESS), o.heap_bytes + (UINT64_C(1) << 30));
}

unsigned Medium::enter()
{
	std::lock_guard guard(entering_);
	for (unsigned t = 0; t < threads(); t++)
		if (!taken_[t]) {
			taken_[t] = true;
			/* Before the thread's first state: that store comes later in this thread,
			 * and a full fence after it (entered()). */
			if (t >= entered())
				entered_.store(t + 1, std::memory_order_relaxed);
			return t;
		}
	throw Usage(path_ + ": made for " + std::to_string(threads() - 2) +
	            " threads: use as many, or another file");
}

void Medium::leave(unsigned number)
{
	std::lock_guard guard(entering_);
	taken_[number] = false;
}

void Medium::describe(bench::json &j) const
{
	j["pm"] = fur_name(FUR_NAME_PM, pm_.domain);
	j["pm_reason"] = reason_;
	j["heap_bytes"] = header_->heap_bytes;
}

/* ----------------------------------------------------------------- records */

uint64_t Medium::checksum(unsigned thread, uint64_t position)
{
	Log &log = logs_[thread];
	Record *r = log.record(position);
	uint64_t about[] = {r->stamp, r->entries, position, thread};
	uint64_t sum = XXH3_64bits(about, sizeof about), bytes = r->entries * sizeof(Entry);
	uint64_t at = (position + sizeof(Record)) & (log.bytes_ - 1),
	         first = std::min(log.bytes_ - at, bytes);
	sum = XXH3_64bits_withSeed(log.base_ + at, first, sum);
	return bytes > first ? XXH3_64bits_withSeed(log.base_, bytes - first, sum) : sum;
}

void Medium::flush_log(unsigned thread, uint64_t from, uint64_t to)
{
	Log &log = logs_[thread];
	uint64_t at = from & (log.bytes_ - 1), first = std::min(log.bytes_ - at, to - from);
	flush(log.base_ + at, first);
	if (to - from > first)
		flush(log.base_, to - from - first);
}

void Medium::flush_entries(unsigned thread)
{
	flush_log(thread, logs_[thread].start(), logs_[thread].at_);
}

uint64_t Medium::seal(unsigned thread, uint64_t stamp)
{
	Log &log = logs_[thread];
	uint64_t position = log.head_.load(std::memory_order_relaxed);
	Record *r = log.record(position);
	r->stamp = stamp;
	r->entries = static_cast<uint32_t>(log.entries());
	r->back = static_cast<uint32_t>(position - log.last_);
	__atomic_store_n(&r->link, 0, __ATOMIC_RELAXED);
	r->check = checksum(thread, position);
	flush(r, sizeof *r);
	return position;
}

void Medium::publish(unsigned thread)
{
	Log &log = logs_[thread];
	log.last_ = log.head_.load(std::memory_order_relaxed);
	log.head_.store(round_up(log.at_, Log::ALIGN), std::memory_order_release);
}

Record *Medium::valid(unsigned thread, uint64_t position)
{
	Log &log = logs_[thread];
	Record *r = log.record(position);
	if (sizeof(Record) + r->entries * sizeof(Entry) > log.bytes_ ||
	        r->check != checksum(thread, position))
		return nullptr;
	return r;
}

static uint64_t end_of(uint64_t position, const Record *r)
{
	return round_up(position + sizeof(Record) + r->entries * sizeof(Entry), 128);
}

/* Visit records from the cursors on, in order of stamps, as long as these are not above `upto`;
 * cursor[t] == NEVER: none left of thread t.  Where a record has a link, the link names the next;
 * otherwise the heads of all logs are compared.  The checksum does not cover the link, which is
 * written later: after a power failure it may hold anything that an earlier lap left there, an
 * entry's address for example. */
template <class F>
void Medium::in_order(std::vector<uint64_t> &cursor, uint64_t upto, F &&visit)
{
	uint64_t link = 0;
	for (;;) {
		unsigned next = threads();
		if (Link::thread(link) < threads() &&
		        cursor[Link::thread(link)] == Link::position(link)) {
			next = Link::thread(link);
		} else {
			uint64_t least = NEVER;
			for (unsigned t = 0; t < threads(); t++)
				if (cursor[t] != NEVER)
					if (Record *r = logs_[t].record(cursor[t]);
					        r->stamp < least)
						least = r->stamp, next = t;
		}
		if (next == threads() || logs_[next].record(cursor[next])->stamp > upto)
			return;
		link = __atomic_load_n(&logs_[next].record(cursor[next])->link, __ATOMIC_ACQUIRE);
		visit(next, cursor[next]);
	}
}

void Medium::apply(unsigned thread, uint64_t position)
{
	Log &log = logs_[thread];
	uint64_t n = log.record(position)->entries;
	for (uint64_t k = 0; k < n; k++) {
		const Entry *e = log.place<Entry>(position + sizeof(Record) + k * sizeof(Entry));
		auto *word = reinterpret_cast<uint64_t *>(
		        file_ + header_->heap_at +
		        (e->address - reinterpret_cast<uint64_t>(heap_)));
		__atomic_store_n(word, e->value, __ATOMIC_RELAXED);
		flush(word, sizeof *word);
	}
}

/* The heads of the logs come next: ask for the heap lines they go to. */
void Medium::prefetch(unsigned thread, uint64_t position)
{
	Log &log = logs_[thread];
	uint64_t n = log.record(position)->entries;
	for (uint64_t k = 0; k < n; k++)
		arch_prefetch_to_write(
		        file_ + header_->heap_at +
		        (log.place<Entry>(position + sizeof(Record) + k * sizeof(Entry))->address -
		                reinterpret_cast<uint64_t>(heap_)));
}

void Medium::reclaim(uint64_t upto, Reclaim how, const std::function<void()> &before_reuse)
{
	std::lock_guard guard(reclaiming_);
	std::vector<uint64_t> cursor(threads()), head(threads());
	for (unsigned t = 0; t < threads(); t++) {
		cursor[t] = logs_[t].tail();
		head[t] = logs_[t].head();
		if (cursor[t] == head[t])
			cursor[t] = NEVER;
	}
	std::vector<uint64_t> tail(threads());
	for (unsigned t = 0; t < threads(); t++)
		tail[t] = logs_[t].tail();
	in_order(cursor, upto, [&](unsigned t, uint64_t position) {
		if (how == Reclaim::REPLAY)
			apply(t, position);
		tail[t] = end_of(position, logs_[t].record(position));
		cursor[t] = tail[t] < head[t] ? tail[t] : NEVER;
	});
	/* The heap is durable before the bound that says so, the bound before any record may be
	 * written over. */
	drain();
	if (upto != NEVER && upto > header_->reclaimed)
		header_->reclaimed = upto;
	for (unsigned t = 0; t < threads(); t++)
		header_->tail[t] = tail[t];
	flush(&header_->reclaimed, sizeof header_->reclaimed);
	flush(header_->tail, threads() * sizeof header_->tail[0]);
	drain();
	for (unsigned t = 0; t < threads(); t++)
		logs_[t].floor_.store(tail[t], std::memory_order_release);
	arch_fence();
	before_reuse();
	for (unsigned t = 0; t < threads(); t++)
		logs_[t].tail_.store(tail[t], std::memory_order_release);
}

/* ---------------------------------------------------------------- recovery */

/* The end of a log: the first place from its tail where no valid record is, within one lap. */
uint64_t Medium::scan(unsigned thread, uint64_t &newest, uint64_t &entries)
{
	uint64_t tail = header_->tail[thread], end = tail;
	while (end - tail < header_->log_bytes) {
		Record *r = valid(thread, end);
		if (!r)
			break;
		end = end_of(end, r);
		newest = std::max(newest, r->stamp);
		entries += r->entries;
	}
	return end;
}

/* Records that were not durable are made invalid permanently; flushed, not drained. */
void Medium::invalidate(unsigned thread, uint64_t from, uint64_t end)
{
	for (uint64_t at = from; at < end;) {
		Record *r = logs_[thread].record(at);
		at = end_of(at, r);
		r->check = ~r->check;
		flush(r, sizeof *r);
	}
}

/* The logs begin anew, after everything that was recovered. */
void Medium::restart_logs(uint64_t newest, const std::vector<uint64_t> &end)
{
	header_->reclaimed = newest;
	for (unsigned t = 0; t < threads(); t++) {
		header_->tail[t] = end[t];
		logs_[t].head_.store(end[t], std::memory_order_relaxed);
		logs_[t].floor_.store(end[t], std::memory_order_relaxed);
		logs_[t].tail_.store(end[t], std::memory_order_relaxed);
		logs_[t].last_ = end[t];
	}
	flush(&header_->reclaimed, sizeof header_->reclaimed);
	flush(header_->tail, threads() * sizeof header_->tail[0]);
	drain();
	first_stamp_ = newest;
}

void Medium::recover(bool durable_counts)
{
	uint64_t started = arch_now_ns(), entries = 0;
	std::vector<uint64_t> cursor(threads()), end(threads());
	uint64_t upto = durable_counts ? header_->durable : NEVER - 1,
	         newest = std::max(header_->reclaimed, header_->durable);
	for (unsigned t = 0; t < threads(); t++) {
		cursor[t] = header_->tail[t];
		end[t] = scan(t, newest, entries);
		if (cursor[t] == end[t])
			cursor[t] = NEVER;
		else
			prefetch(t, cursor[t]);
	}
	/* Where most pages of the heap will be written, map them all at once: one fault for each
	 * costs more than the replay itself. */
	if (entries >= header_->heap_bytes / PAGE / 2)
		madvise(file_ + header_->heap_at, header_->heap_bytes, MADV_POPULATE_WRITE);
	in_order(cursor, upto, [&](unsigned t, uint64_t position) {
		Record *r = logs_[t].record(position);
		if (r->stamp > header_->reclaimed) {
			apply(t, position);
			recovered_.records++;
			recovered_.entries += r->entries;
		}
		uint64_t next = end_of(position, r);
		cursor[t] = next < end[t] ? next : NEVER;
		if (next < end[t])
			prefetch(t, next);
	});
	/* The heap is durable before any record becomes invalid; and records that were not durable
	 * are invalid, durably, before a bound can grow past them. */
	drain();
	for (unsigned t = 0; t < threads(); t++)
		if (cursor[t] != NEVER) {
			invalidate(t, cursor[t], end[t]);
			end[t] = cursor[t];
		}
	drain();
	restart_logs(newest, end);
	recovered_.ns = arch_now_ns() - started;
}

} // namespace baselines
