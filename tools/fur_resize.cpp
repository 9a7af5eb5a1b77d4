/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_resize.cpp - fur-resize: change the sizes of a heap that no process has open.
 *
 * It writes a new file, and gives it the heap's name as the last step, in one system call.  So a
 * kill at any point leaves the old heap or the new one, each whole.
 */
#include "common/command_line.hpp"
#include "internals.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace
{

/* The old heap, mapped so that changes do not reach the file. */
class PrivateImage
{
public:
	explicit PrivateImage(const heap_file &file) : bytes_(file.geometry.heap_bytes)
	{
		void *p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
		        file.fd, static_cast<off_t>(file.geometry.heap_offset));
		at_ = p == MAP_FAILED ? nullptr : static_cast<uint8_t *>(p);
	}
	~PrivateImage()
	{
		if (at_)
			munmap(at_, bytes_);
	}
	PrivateImage(const PrivateImage &) = delete;
	PrivateImage &operator=(const PrivateImage &) = delete;
	uint8_t *get() const
	{
		return at_;
	}

private:
	uint64_t bytes_;
	uint8_t *at_;
};

/* A larger largest size: the allocator's tables must have room for it. */
int widen(uint8_t *image, const media_super &s, uint64_t to)
{
	const uint64_t most = heap_most_bytes(&s);
	if (to < s.heap_bytes || to > most)
		return fur_fail(FUR_EINVAL,
		        "max_bytes is %llu: the heap lies at %#llx, and can have %llu to %llu: use "
		        "a size in between",
		        static_cast<unsigned long long>(to),
		        static_cast<unsigned long long>(s.address),
		        static_cast<unsigned long long>(s.heap_bytes),
		        static_cast<unsigned long long>(most));
	if (uint64_t room = heap_widen(image, (to + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES))
		return fur_fail(FUR_EINVAL,
		        "max_bytes is %llu: the allocator's tables would need room where memory is "
		        "in use: use %llu at most, or copy the data, in a program, to a heap with "
		        "a larger max_bytes",
		        static_cast<unsigned long long>(to), static_cast<unsigned long long>(room));
	return 0;
}

int trim(uint8_t *image, uint64_t to)
{
	if (uint64_t least = heap_trim(image, to))
		return fur_fail(FUR_EINVAL,
		        "heap_bytes is %llu: memory is in use up to byte %llu of the heap: use at "
		        "least that, or free what lies there",
		        static_cast<unsigned long long>(to),
		        static_cast<unsigned long long>(least));
	return 0;
}

/* Copy the parts that both heaps have. */
void copy_heap(const uint8_t *from, const heap_file &old, const heap_file &file)
{
	const media_super &s = file.geometry;
	uint8_t *to = reinterpret_cast<uint8_t *>(file.super) + s.heap_offset;
	uint64_t now =
	        std::min(media_heap_bytes(&s, &s), media_heap_bytes(&old.geometry, old.super));
	if (!media_grows(&s)) {
		memcpy(to, from, now);
		return;
	}
	heap_part parts[HEAP_PARTS];
	heap_parts(s.heap_bytes, media_stocks(&s), now, parts);
	for (const heap_part &p : parts)
		memcpy(to + p.from, from + p.from, p.to - p.from);
}

int write_new(const heap_file &old, const char *path, const heap_sizes &sizes)
{
	PrivateImage image(old);
	if (!image.get())
		return fail_system(FUR_ESYS, CALL_MAP_HEAP, errno, "the heap is as it was",
		        "cannot map the heap");
	heap_file file;
	int error = 0;
	if ((sizes.heap_bytes || sizes.max_bytes) && !header(image.get())->lists)
		error = fur_fail(FUR_EINVAL, "a heap that an early libfur made cannot change its "
		                             "size: copy the data to a new heap");
	else if (sizes.heap_bytes || sizes.max_bytes)
		error = heap_check_ends(image.get());
	if (!error && sizes.max_bytes)
		error = widen(image.get(), old.geometry, sizes.max_bytes);
	if (!error && sizes.heap_bytes)
		error = trim(image.get(), sizes.heap_bytes);
	if (!error)
		error = heap_create_resized(path, &old, &sizes, &file);
	if (error)
		return error;
	copy_heap(image.get(), old, file);
	error = heap_finish_resized(&file);
	if (!error)
		error = heap_replace(&file, &old, path);
	heap_close_file(&file);
	return error;
}

/* The new file's durTSs begin anew: the log, and the position in it, are the old one's. */
int check_role(const heap_file &file)
{
	media_ship page;
	if (media_is_member(&file.geometry))
		return fur_fail(FUR_EINVAL,
		        "the heap is a member of a group, and the others know its updates by their "
		        "numbers, which a new file counts anew: take it out first, with fur-group "
		        "remove, and add it again afterwards");
	const int error = heap_read_ship_page(&file.geometry, file.super, &page);
	if (error || page.role == MEDIA_NO_ROLE)
		return error;
	if (page.role == MEDIA_STANDBY)
		return fur_fail(FUR_EINVAL,
		        "the heap is a standby, and has the sizes of its primary: resize that one, "
		        "and make this one again, with fur-copy --for-standby");
	return fur_fail(FUR_EINVAL,
	        "the heap is a primary, and its place in the log is this file's: take its role "
	        "away first, with fur-ship --detach; then give it a new log, with fur-ship --init, "
	        "and make its standbys again, with fur-copy --for-standby");
}

/* Refuse a heap that is in use, was not closed, or is damaged. */
int check_closed(const heap_file &file)
{
	durability d;
	int error = heap_lock_file(file.fd, HEAP_LOCK_REPLAYER);
	if (!error)
		error = heap_attach_to_replay(&d, &file);
	if (error)
		return error;
	error = file.super->state == MEDIA_CLOSED
	                ? replay_check_closed(&d)
	                : fur_fail(FUR_EBUSY, "the heap was not closed: recover it first, with "
	                                      "fur-replayer --once; it is as it was");
	durability_detach(&d);
	return error;
}

/* The heap, found once: the directory stays the same, whatever its path leads to later, and all
 * else is done to names in it. */
class Place
{
public:
	explicit Place(const char *path)
	{
		char *real = realpath(path, nullptr); /* through symbolic links */
		const std::string found = real ? real : path;
		free(real);
		const size_t slash = found.rfind('/');
		const std::string directory =
		        slash == std::string::npos ? "." : found.substr(0, slash + 1);
		fd_ = open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
		error_ = fd_ < 0 ? errno : 0;
		heap_ = "/proc/self/fd/" + std::to_string(fd_) + "/" + found.substr(slash + 1);
	}
	~Place()
	{
		if (fd_ >= 0)
			close(fd_);
	}
	Place(const Place &) = delete;
	Place &operator=(const Place &) = delete;
	/* A path of the heap, which leads through the open directory. */
	const char *heap() const
	{
		return heap_.c_str();
	}
	int open_heap() const
	{
		if (fd_ >= 0 && access("/proc/self/fd", F_OK) != 0)
			return fur_fail(FUR_ESYS, "/proc is not mounted: mount it");
		/* O_NONBLOCK: a FIFO is refused, and not waited for */
		const int fd =
		        fd_ < 0 ? -1 : open(heap(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		return fd < 0 ? heap_open_failed(fd_ < 0 ? error_ : errno) : fd;
	}

private:
	int fd_, error_;
	std::string heap_;
};

/* A new file gets one name.  The others would keep the old heap, which is out of date from then
 * on. */
int check_names(const heap_file &file)
{
	struct stat st = {};
	if (fstat(file.fd, &st))
		return fur_fail(FUR_ESYS, "cannot stat the heap: %s: check the disk and the mount",
		        strerror(errno));
	if (st.st_nlink <= 1) /* 0: heap_replace() finds that */
		return 0;
	return fur_fail(FUR_EINVAL,
	        "the file has %llu names (hard links), and the new one would have one: remove the "
	        "other names (find -samefile), and link them again afterwards",
	        static_cast<unsigned long long>(st.st_nlink));
}

int resize(const char *path, const heap_sizes &sizes)
{
	heap_file old;
	const Place place(path);
	const int fd = place.open_heap();
	if (fd < 0)
		return fd;
	int error = heap_take_file(fd, path, HEAP_LOCK_WORKER, &old);
	if (error)
		return error;
	error = check_names(old);
	if (!error)
		error = check_role(old);
	if (!error)
		error = check_closed(old);
	if (!error)
		error = write_new(old, place.heap(), sizes);
	heap_close_file(&old);
	return error;
}

} // namespace

int main(int argc, char **argv)
{
	std::string path;
	heap_sizes sizes = {};
	tools::CommandLine line("fur-resize",
	        "Change the sizes of a heap that no process has open.  fur-resize writes a new "
	        "file, which needs room next to the old one, and then replaces the old one.");
	line.footer = "BYTES may end in K, M, G or T, for powers of 1024.  Exit status: 0 done, 1 "
	              "the heap is "
	              "as it was, 2 wrong usage.";
	line.argument("HEAP", path, "the heap file").required();
	line.option("--heap-bytes", sizes.heap_bytes,
	            "the size that the heap has now: it may shrink down to the last memory in use; "
	            "it "
	            "can grow again; 0: as it is")
	        .in_bytes();
	line.option("--max-bytes", sizes.max_bytes,
	            "the size up to which the heap may grow: it may become larger, as far as the "
	            "allocator's tables have room; 0: as it is")
	        .in_bytes();
	line.option("--log-bytes", sizes.log_bytes,
	            "of each thread's redo log, a power of two; 0: as they are")
	        .in_bytes();
	line.option("--ring-slots", sizes.ring_slots, "a power of two; 0: as they are");
	line.option("--max-threads", sizes.max_threads,
	        "threads that can be registered at one time; 0: as it is");
	if (auto status = tools::parse_or_exit_status(line, "fur-resize", argc, argv))
		return *status;
	if (resize(path.c_str(), sizes)) {
		std::cerr << "fur-resize: " << path << ": " << fur_errormsg() << "\n";
		return 1;
	}
	return 0;
}
