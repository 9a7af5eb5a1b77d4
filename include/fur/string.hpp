/* SPDX-License-Identifier: BSD-3-Clause
 *
 * string.hpp - fur::string: text in the heap, in 16 bytes and, beyond 12 characters, a block.
 *
 *     struct User { fur::string name; uint64_t logins; };
 *     fur::update(self, [&](fur_update *tx) { user->name.assign(tx, "Ada"); });
 *     std::string name = fur::read(self, [&](fur_ro *tx) { return user->name.str(tx); });
 *
 * A string that is all zero is empty, so memory that make() has zeroed needs no constructor.  A
 * string is not copied by assignment: the copy would share its block.
 */
#ifndef FUR_STRING_HPP
#define FUR_STRING_HPP

#include <fur/lookups.hpp>

#include <stdexcept>
#include <string>
#include <string_view>

namespace fur
{

namespace detail
{

/* The two words of a string.  Word 0: the size, 32 bits, and the first 4 characters.  Word 1: the
 * next 8, or the address of the block that has all of the text.  Unused characters are 0. */
struct Text {
	enum : size_t { WORDS = 2, INLINE = 12 };

	uint64_t word[WORDS];

	/* Without a block, even if the text needs one. */
	Text(const void *text, size_t text_size) : word{}
	{
		char bytes[16] = {};
		const auto size = static_cast<uint32_t>(text_size);
		memcpy(bytes, &size, 4);
		if (size)
			memcpy(bytes + 4, text, text_size <= INLINE ? text_size : 4);
		memcpy(word, bytes, 16);
	}
	template <class Tx>
	Text(Tx *tx, const uint64_t *at) : word{fur_load(tx, &at[0]), fur_load(tx, &at[1])}
	{
	}
	size_t size() const
	{
		return static_cast<uint32_t>(word[0]);
	}
	/* NULL: the text is in the two words. */
	uint64_t *block() const
	{
		return size() > INLINE ? pointer<uint64_t>(word[1]) : nullptr;
	}
	static size_t block_words(size_t size)
	{
		return (size + 7) / 8;
	}
	/* `bytes` bytes of the text from byte `from` on, a multiple of 8, into a buffer that has
	 * room for whole words. */
	template <class Tx>
	void copy(Tx *tx, char *to, size_t from, size_t bytes) const
	{
		if (const uint64_t *text = block()) {
			for (size_t at = 0; at < bytes; at += 8) {
				uint64_t part = fur_load(tx, &text[(from + at) / 8]);
				memcpy(to + at, &part, 8);
			}
		} else {
			memcpy(to, reinterpret_cast<const char *>(word) + 4 + from, bytes);
		}
	}
};

} // namespace detail

namespace detail
{

/* too_long - a text is longer than fur::string allows; see no_room().  Does not return. */
template <class Tx>
[[noreturn]] void too_long(Tx *)
{
	throw std::length_error("fur::string: at most 4 GiB");
}

/* All of a text's codec but load().  Callers pass a View, which has data() and size(). */
template <class View>
struct TextCodec {
	enum : size_t { WORDS = Text::WORDS, MOST_BLOCKS = 1 };
	using view = View;

	template <class Tx>
	static void create(Tx *tx, uint64_t *at, const view &value)
	{
		store_words(tx, at, text_of(tx, value).word, WORDS);
	}
	/* In place of the value that is there. */
	template <class Tx>
	static void assign(Tx *tx, uint64_t *at, const view &value)
	{
		uint64_t *old = Text(tx, at).block();
		const Text text = text_of(tx, value);
		/* Never a size with the other text's block or characters: the log may be full
		 * between the two words, and the body goes on. */
		fur_store(tx, &at[0], 0);
		store_words(tx, at, text.word, WORDS);
		if (old)
			fur_free(tx, old);
	}
	template <class Tx>
	static void destroy(Tx *tx, const uint64_t *at)
	{
		if (uint64_t *block = Text(tx, at).block())
			fur_free(tx, block);
	}
	template <class Tx>
	static uint64_t blocks(Tx *tx, const uint64_t *at)
	{
		return Text(tx, at).block() != nullptr;
	}
	/* For many searches at once (lookups.hpp). */
	template <class Tx>
	static void prefetch(Tx *tx, const uint64_t *at)
	{
		const Text text(tx, at);
		if (text.block())
			detail::prefetch(tx, text.block(), Text::block_words(text.size()));
	}
	template <class Tx>
	static bool equal(Tx *tx, const uint64_t *at, const view &value)
	{
		/* Size and first characters: nearly always this decides. */
		const Text wanted(value.data(), value.size());
		if (fur_load(tx, &at[0]) != wanted.word[0])
			return false;
		if (value.size() <= Text::INLINE)
			return fur_load(tx, &at[1]) == wanted.word[1];
		return compare(tx, at, value) == 0;
	}
	template <class Tx>
	static bool less(Tx *tx, const uint64_t *at, const view &value)
	{
		return compare(tx, at, value) < 0;
	}
	template <class Tx>
	static bool more(Tx *tx, const uint64_t *at, const view &value)
	{
		return compare(tx, at, value) > 0;
	}
	static uint64_t hash_of(const view &value)
	{
		return hash_bytes(value.data(), value.size());
	}
	static constexpr bool is_key(const view &)
	{
		return true;
	}
	static constexpr void check_key(const view &) {}
	static uint64_t secret_hash_of(const uint64_t *secret, const view &value)
	{
		return secret_hash_bytes(secret, value.data(), value.size());
	}
	/* As std::string_view::compare(): the stored text with `value`. */
	template <class Tx>
	static int compare(Tx *tx, const uint64_t *at, const view &value)
	{
		enum : size_t { PART = 64 };
		const Text text(tx, at);
		const size_t common = text.size() < value.size() ? text.size() : value.size();
		char part[PART];
		for (size_t from = 0; from < common; from += PART) {
			const size_t bytes = common - from < PART ? common - from : +PART;
			text.copy(tx, part, from, bytes);
			if (int differs = memcmp(part, value.data() + from, bytes))
				return differs;
		}
		return text.size() < value.size() ? -1 : text.size() > value.size();
	}

private:
	template <class Tx>
	static Text text_of(Tx *tx, const view &value)
	{
		if (value.size() > UINT32_MAX)
			too_long(tx);
		Text text(value.data(), value.size());
		if (value.size() > Text::INLINE)
			text.word[1] = word_of(new_block(tx, value));
		return text;
	}
	template <class Tx>
	static uint64_t *new_block(Tx *tx, const view &value)
	{
		const size_t words = Text::block_words(value.size());
		auto *block = static_cast<uint64_t *>(fur_alloc(tx, 8 * words));
		if (!block)
			no_room(tx);
		if constexpr (std::is_same_v<Tx, fur_update>) {
			fur_write(tx, block, value.data(), value.size());
			return block;
		}
		/* Others may hash the block's words, so there are zeroes behind the text. */
		size_t i = 0;
		if constexpr (is_fur<Tx>)
			if (i = value.size() / 8; i > 0)
				fur_write(tx, block, value.data(), 8 * i);
		for (; i < words; i++)
			fur_store(tx, &block[i], word_in(value.data(), value.size(), i));
		return block;
	}
};

} // namespace detail

template <>
struct stored<string> : detail::TextCodec<std::string_view> {
	using value = std::string;

	template <class Tx>
	static std::string load(Tx *tx, const uint64_t *at)
	{
		const detail::Text text(tx, at);
		std::string result(text.size(), 0);
		if (!text.block()) {
			text.copy(tx, result.data(), 0, text.size());
		} else if constexpr (detail::is_fur<Tx>) {
			fur_read(tx, result.data(), text.block(), text.size());
		} else {
			result.resize(8 * detail::Text::block_words(text.size()));
			text.copy(tx, result.data(), 0, text.size());
			result.resize(text.size());
		}
		return result;
	}
};

/* string - text that lives in the heap.  `tx`: any transaction to read, a fur_update * to write. */
class string
{
	using codec = stored<string>;

public:
	using owns_blocks = void; /* for codecs */

	string() = default;
	string(const string &) = delete;
	string &operator=(const string &) = delete;

	/* assign - replace the text.   Errors: heap_full; std::length_error beyond 4 GiB. */
	void assign(fur_update *tx, std::string_view text)
	{
		codec::assign(tx, word_, text);
	}
	/* clear - make it empty, and free its block.  A string must be cleared before the memory
	 * that it lies in is freed; fur::destroy() does so for a string of its own. */
	void clear(fur_update *tx)
	{
		assign(tx, {});
	}
	/* str - a copy of the text. */
	template <class Tx>
	std::string str(Tx *tx) const
	{
		return codec::load(tx, word_);
	}
	/* view - the text where it lies.  Valid until the transaction ends. */
	std::string_view view(fur_ro *tx) const
	{
		const detail::Text text(tx, word_);
		return {text.block() ? reinterpret_cast<const char *>(text.block())
		                     : reinterpret_cast<const char *>(word_) + 4,
		        text.size()};
	}
	template <class Tx>
	size_t size(Tx *tx) const
	{
		return static_cast<uint32_t>(fur_load(tx, &word_[0]));
	}
	template <class Tx>
	bool empty(Tx *tx) const
	{
		return size(tx) == 0;
	}
	/* compare, equals - as std::string_view's compare() and ==, without a copy. */
	template <class Tx>
	int compare(Tx *tx, std::string_view text) const
	{
		return codec::compare(tx, word_, text);
	}
	template <class Tx>
	bool equals(Tx *tx, std::string_view text) const
	{
		return codec::equal(tx, word_, text);
	}

private:
	uint64_t word_[codec::WORDS] = {};
};

} // namespace fur

#endif /* FUR_STRING_HPP */
