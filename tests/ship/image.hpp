/* SPDX-License-Identifier: BSD-3-Clause
 *
 * image.hpp - are two closed heaps equal in what is in use?
 */
#ifndef IMAGE_HPP
#define IMAGE_HPP

#include "internals.hpp"

#include <cstring>
#include <fur.hpp>
#include <string>

namespace ship_test
{

/* A heap's image in its closed file. */
class Image
{
public:
	explicit Image(const std::string &path)
	{
		if (heap_open_file(path.c_str(), HEAP_LOCK_WORKER, &file_))
			throw fur::Error(FUR_EINVAL, fur_errormsg());
		if (file_.super->state != MEDIA_CLOSED)
			throw fur::Error(FUR_EBUSY, (path + ": not closed").c_str());
		at_ = reinterpret_cast<const uint8_t *>(file_.super) + file_.geometry.heap_offset;
	}
	~Image()
	{
		heap_close_file(&file_);
	}
	Image(const Image &) = delete;
	const uint8_t *at(uint64_t offset) const
	{
		return at_ + offset;
	}
	const heap_header *head() const
	{
		return header(at_);
	}

private:
	heap_file file_;
	const uint8_t *at_;
};

inline bool is_position(uint64_t offset)
{
	const uint64_t position = offsetof(heap_header, position),
	               applied = offsetof(heap_header, applied);
	return (offset >= position && offset < position + sizeof(heap_position)) ||
	       (offset >= applied && offset < applied + sizeof(heap_applied));
}

/* In how many bytes of the allocator's structures, and of all chunks in use, do the heaps differ?
 * *first: the first of them. */
inline uint64_t differences(const std::string &primary, const std::string &standby, uint64_t *first)
{
	const Image a(primary), b(standby);
	const heap_header *h = a.head();
	const uint64_t chunks = h->grown ? h->grown : h->chunks;
	uint64_t differ = 0;
	*first = 0;
	auto compare = [&](uint64_t from, uint64_t to) {
		if (memcmp(a.at(from), b.at(from), to - from) == 0)
			return;
		for (uint64_t k = from; k < to; k++)
			if (*a.at(k) != *b.at(k) && !is_position(k) && differ++ == 0)
				*first = k;
	};
	compare(0, h->first_chunk * CHUNK_BYTES);
	for (uint64_t c = h->first_chunk; c < chunks; c++) {
		const struct chunk *table = chunk(h, c);
		const uint64_t kind = table->kind & 0xff,
		               n = kind == CHUNK_LARGE || kind == CHUNK_FREE ? table->run : 1;
		if (kind != CHUNK_FREE)
			compare(c * CHUNK_BYTES, (c + n) * CHUNK_BYTES);
		c += n - 1;
	}
	return differ;
}

} // namespace ship_test

#endif
