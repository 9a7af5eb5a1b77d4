/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.cpp - compares files with their media, and lets the power fail (memory.hpp).  It relies on
 * INV-PE1: a killed program leaves the media in a state that persistent memory could be in.
 */
#include "memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pme
{

enum { LINE = ARCH_FLUSH_LINE, WORDS = LINE / 8, PAGE = 4096, SHOWN = 8 };

[[noreturn]] static void throw_errno(const std::string &what)
{
	throw std::runtime_error(what + ": " + strerror(errno));
}

Memory::Memory(const pme_settings &settings) : fd_(memfd_create("pm-emulate", MFD_CLOEXEC))
{
	if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(PME_MEMORY_BYTES)))
		throw_errno("cannot make the memory to share with the program");
	control_ = static_cast<pme_control *>(map(0, sizeof(pme_control)));
	control_->settings = settings;
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&control_->mutex, &a);
}

Memory::~Memory()
{
	munmap(control_, sizeof(pme_control));
	close(fd_);
}

std::string Memory::name() const
{
	return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd_);
}

void *Memory::map(uint64_t at, uint64_t bytes) const
{
	void *p = mmap(
	        nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(at));
	if (p == MAP_FAILED)
		throw_errno("cannot map " + std::to_string(bytes) + " bytes");
	return p;
}

/* A region with its file.  If the file is gone, or another one has its name, it is not `open`. */
class Memory::Region
{
public:
	Region(const Memory &memory, uint32_t number)
	    : memory_(memory), region_(memory.control_->region[number]),
	      at_(PME_REGION_AT + number * PME_REGION_BYTES),
	      fd_(::open(region_.path, O_RDWR | O_CLOEXEC))
	{
		struct stat st;
		if (fd_ >= 0 && (fstat(fd_, &st) || st.st_ino != region_.inode)) {
			close(fd_);
			fd_ = -1;
		}
		bytes_ = fd_ < 0 ? 0
		                 : std::min(region_.bytes, static_cast<uint64_t>(st.st_size)) /
		                           LINE * LINE;
		if (!bytes_)
			return;
		lines_ = static_cast<pme_line *>(
		        memory.map(at_ + PME_LINES_AT, bytes_ / LINE * sizeof(pme_line)));
		medium_ = static_cast<uint64_t *>(memory.map(at_, bytes_));
		void *p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
		if (p == MAP_FAILED)
			throw_errno(std::string(region_.path) + ": cannot map");
		file_ = static_cast<uint64_t *>(p);
	}
	~Region()
	{
		if (bytes_) {
			munmap(lines_, bytes_ / LINE * sizeof(pme_line));
			munmap(medium_, bytes_);
			munmap(file_, bytes_);
		}
		if (fd_ >= 0)
			close(fd_);
	}
	Region(const Region &) = delete;

	bool open() const
	{
		return fd_ >= 0;
	}
	uint64_t bytes() const
	{
		return bytes_;
	}
	const char *path() const
	{
		return region_.path;
	}
	uint64_t *file(uint64_t offset) const
	{
		return file_ + offset / 8;
	}
	const uint64_t *medium(uint64_t offset) const
	{
		return medium_ + offset / 8;
	}
	const pme_line &line(uint64_t offset) const
	{
		return lines_[offset / LINE];
	}
	bool differs(uint64_t offset) const
	{
		return memcmp(file(offset), medium(offset), LINE) != 0;
	}
	/* Call f for each line in which file and medium differ, upwards.  Skips holes that both
	 * have. */
	void each_difference(const std::function<void(uint64_t)> &f) const
	{
		for (uint64_t page = next(0); page < bytes_; page = next(page + PAGE)) {
			uint64_t end = std::min(page + PAGE, bytes_);
			if (memcmp(file(page), medium(page), end - page) == 0)
				continue;
			for (uint64_t at = page; at < end; at += LINE)
				if (differs(at))
					f(at);
		}
	}

private:
	/* The page of the next data in either. */
	uint64_t next(uint64_t at) const
	{
		off_t a = lseek(fd_, static_cast<off_t>(at), SEEK_DATA),
		      b = lseek(memory_.fd_, static_cast<off_t>(at_ + at), SEEK_DATA);
		uint64_t file_data =
		        a < 0 ? (errno == ENXIO ? UINT64_MAX : at) : static_cast<uint64_t>(a);
		uint64_t medium_data = b < 0 ? UINT64_MAX : static_cast<uint64_t>(b) - at_;
		return std::min(file_data, medium_data) / PAGE * PAGE;
	}

	const Memory &memory_;
	const pme_region &region_;
	uint64_t at_, bytes_ = 0;
	int fd_;
	uint64_t *medium_ = nullptr, *file_ = nullptr;
	pme_line *lines_ = nullptr;
};

/* The write-backs that were issued and not fenced, by region and line, the oldest first. */
std::vector<Memory::UnderWay> Memory::under_way() const
{
	std::vector<UnderWay> all(control_->regions);
	for (uint32_t t = 0; t < PME_THREADS; t++) {
		uint32_t n = control_->thread[t].n;
		if (!n)
			continue;
		void *slot = map(PME_UNDER_WAY_AT + t * PME_UNDER_WAY_BYTES, PME_UNDER_WAY_BYTES);
		auto *w = static_cast<const pme_write_back *>(slot);
		for (uint32_t k = 0; k < n; k++)
			if (w[k].region < all.size())
				all[w[k].region][w[k].offset].push_back(w[k]);
		munmap(slot, PME_UNDER_WAY_BYTES);
	}
	for (UnderWay &region : all)
		for (auto &[offset, list] : region)
			std::sort(list.begin(), list.end(),
			        [](auto &a, auto &b) { return a.number < b.number; });
	return all;
}

static void note_line(Difference &d, uint64_t offset, const pme_line &line)
{
	d.lines++;
	d.never += line.thread == 0;
	d.unfenced += line.thread != 0 && line.fence == PME_UNFENCED;
	if (d.where.size() < SHOWN)
		d.where.push_back(offset);
}

std::vector<Difference> Memory::differences() const
{
	std::vector<Difference> all;
	for (uint32_t k = 0; k < control_->regions; k++) {
		Region region(*this, k);
		Difference d;
		d.path = region.path();
		d.found = region.open();
		region.each_difference([&](uint64_t at) { note_line(d, at, region.line(at)); });
		all.push_back(d);
	}
	return all;
}

/* ------------------------------------------------------------ power failure */

namespace
{

/* Decides the fate of each line, by nothing but the seed, the line's region and its place. */
class Dice
{
public:
	Dice(uint64_t seed, Lines lines) : seed_(pme_mix(seed + 0x9e3779b97f4a7c15u)), lines_(lines)
	{
		/* Some bugs show when nearly all is lost, some when nearly all is kept, so each
		 * seed has an inclination. */
		static const unsigned of_16[] = {0, 2, 8, 14};
		keep_ = of_16[seed_ >> 60 & 3];
	}
	void line(uint32_t region, uint64_t offset)
	{
		random_ = pme_mix(seed_ ^ pme_mix(uint64_t(region) << 48 ^ offset));
	}

	/* One step of a line from its content to one that it may have received: not at all, whole,
	 * or in some of its words. */
	enum Step { NOT, WHOLE, WORDS_OF_IT };
	Step step()
	{
		uint64_t r = next();
		if (lines_ != Lines::RANDOM)
			return lines_ == Lines::KEPT ? WHOLE : NOT;
		if (keep_ && (r & 7) == 0)
			return WORDS_OF_IT;
		return (r >> 8 & 15) < keep_ ? WHOLE : NOT;
	}
	uint64_t next()
	{
		return random_ = pme_mix(random_ + 0x9e3779b97f4a7c15u);
	}

private:
	uint64_t seed_, random_ = 0;
	Lines lines_;
	unsigned keep_;
};

void apply_step(Dice &dice, uint64_t *to, const uint64_t *from)
{
	Dice::Step step = dice.step();
	uint64_t which = step == Dice::WHOLE ? UINT64_MAX : step == Dice::NOT ? 0 : dice.next();
	for (int k = 0; k < WORDS; k++)
		if (which >> k & 1)
			to[k] = from[k];
}

} // namespace

std::vector<Difference> Memory::fail_power(uint64_t seed, Lines lines) const
{
	std::vector<Difference> all;
	std::vector<UnderWay> pending = under_way();
	Dice dice(seed, lines);
	for (uint32_t k = 0; k < control_->regions; k++) {
		Region region(*this, k);
		Difference d;
		d.path = region.path();
		d.found = region.open();
		auto decide = [&](uint64_t at) {
			uint64_t image[WORDS];
			memcpy(image, region.medium(at), LINE);
			dice.line(k, at);
			/* Write-backs that were under way may have reached the medium, in their
			 * order; after them the content of the cache may have. */
			if (auto list = pending[k].find(at); list != pending[k].end())
				for (const pme_write_back &w : list->second)
					if (w.number > region.line(at).number)
						apply_step(dice, image, w.content);
			apply_step(dice, image, region.file(at));
			note_line(d, at, region.line(at));
			bool is_new = memcmp(image, region.file(at), LINE) == 0,
			     is_old = memcmp(image, region.medium(at), LINE) == 0;
			(is_new ? d.kept : is_old ? d.dropped : d.torn)++;
			memcpy(region.file(at), image, LINE);
		};
		/* A line may equal its medium while a write-back of other content is under way. */
		std::vector<uint64_t> hidden;
		for (auto &[at, list] : pending[k])
			if (at < region.bytes() && !region.differs(at))
				hidden.push_back(at);
		region.each_difference(decide);
		for (uint64_t at : hidden)
			decide(at);
		all.push_back(d);
	}
	return all;
}

} // namespace pme
