/* SPDX-License-Identifier: BSD-3-Clause
 *
 * vector.hpp - fur::vector<T>: an array in the heap that grows at its end.  docs/containers.md says
 * which types elements can have.
 *
 *     fur::update(self, [&](fur_update *tx) { log->push_back(tx, entry); });
 *     fur::read(self, [&](fur_ro *tx) { for (const Entry &e : log->in(tx)) print(e); });
 *
 * A vector that is all zero is empty.  It grows without moving an element, so no push_back() takes
 * long: its parts have 8, 16, 32, ... elements.  So it is not one array, and has no data().
 *
 * Right under snapshot isolation too: an update that removes an element stores to it, or promotes
 * it, and so does every update that changes it.
 *
 * On the medium, in words of 8 bytes:
 *
 *     vector       0 number of elements      1 address of the directory, or 0
 *     directory    0.. 48 addresses of parts, or 0: part k has 2^(k+3) elements
 */
#ifndef FUR_VECTOR_HPP
#define FUR_VECTOR_HPP

#include <fur/iterator.hpp>
#include <fur/owned.hpp>

#include <iterator>

namespace fur
{

template <class T>
class vector
{
	using codec = stored<T>;
	enum : size_t { FIRST_BITS = 3, PARTS = 48 };
	template <class Tx>
	class Iterator;
	template <class Tx>
	class View;

	static constexpr bool LIES = !std::is_base_of_v<detail::InParts, codec>;

public:
	using owns_blocks = void; /* for codecs */
	using value_type = typename codec::value;
	using value_view = typename codec::view; /* as it is passed: const T &, or a string_view */
	using size_type = uint64_t;

	vector() = default;
	vector(const vector &) = delete;
	vector &operator=(const vector &) = delete;

	template <class Tx>
	size_type size(Tx *tx) const
	{
		return fur_load(tx, &size_);
	}
	template <class Tx>
	bool empty(Tx *tx) const
	{
		return size(tx) == 0;
	}
	/* get - element i, which must be there. */
	template <class Tx>
	value_type get(Tx *tx, size_type i) const
	{
		return codec::load(tx, words_of(tx, i));
	}
	/* at - element i.   Errors: std::out_of_range if there is none. */
	template <class Tx>
	value_type at(Tx *tx, size_type i) const
	{
		check_index(tx, i);
		return get(tx, i);
	}
	template <class Tx>
	value_type front(Tx *tx) const
	{
		return at(tx, 0);
	}
	template <class Tx>
	value_type back(Tx *tx) const
	{
		return at(tx, size(tx) - 1);
	}
	/* set - give element i another value.   Errors: std::out_of_range, heap_full. */
	template <class Tx>
	void set(Tx *tx, size_type i, value_view value)
	{
		detail::check_changes<Tx>();
		check_index(tx, i);
		codec::assign(tx, words_of(tx, i), value);
	}
	/* lookup - element i where it lies, for fur_load() and fur_store().  Elements do not move:
	 * the pointer is valid as long as the element is there.
	 * Returns: NULL if there is none. */
	const T *lookup(fur_ro *tx, size_type i) const
	{
		static_assert(LIES,
		        "a std::pair, or the like, does not lie in the heap as it is: use get(tx, "
		        "i) and set(tx, i, value), or a struct as the element");
		return i < size(tx) ? reinterpret_cast<const T *>(words_of(tx, i)) : nullptr;
	}
	T *lookup(fur_update *tx, size_type i)
	{
		static_assert(LIES,
		        "a std::pair, or the like, does not lie in the heap as it is: use get(tx, "
		        "i) and set(tx, i, value), or a struct as the element");
		if (i >= size(tx))
			return nullptr;
		uint64_t *words = words_of(tx, i);
		/* The caller may store to another line of the element than pop_back() promotes. */
		fur_promote(tx, words);
		return reinterpret_cast<T *>(words);
	}
	/* push_back - add an element at the end.
	 * Returns: where it lies, if elements own memory (T *); otherwise nothing.
	 * Errors:  heap_full. */
	template <class Tx>
	detail::place_of<T> push_back(Tx *tx, value_view value)
	{
		detail::check_changes<Tx>();
		const size_type n = size(tx);
		uint64_t *words = make_room(tx, n);
		codec::create(tx, words, value);
		fur_store(tx, &size_, n + 1);
		if constexpr (detail::is_in_place<T>)
			return reinterpret_cast<T *>(words);
	}
	/* pop_back - remove the last element.   Errors: std::out_of_range if there is none. */
	template <class Tx>
	void pop_back(Tx *tx)
	{
		detail::check_changes<Tx>();
		const size_type n = size(tx);
		check_index(tx, n - 1);
		remove_at(tx, n - 1);
		fur_store(tx, &size_, n - 1);
	}
	/* clear - remove all elements, and free their memory.  If the vector has so many that the
	 * log has no room for that, the commit fails with FUR_ETOOBIG: then call fur::clear()
	 * (map.hpp), which takes several updates. */
	template <class Tx>
	void clear(Tx *tx)
	{
		detail::check_changes<Tx>();
		auto *directory = detail::pointer<uint64_t>(fur_load(tx, &directory_));
		for (size_type i = 0, n = size(tx); i < n; i++)
			remove_at(tx, i);
		fur_store(tx, &size_, 0);
		fur_store(tx, &directory_, 0);
		for (size_t k = 0; directory && k < PARTS; k++)
			if (uint64_t part = fur_load(tx, &directory[k]))
				fur_free(tx, detail::pointer<void>(part));
		if (directory)
			fur_free(tx, directory);
	}
	/* clear_some - a part of clear(): remove up to `most` elements from the end, or fewer if a
	 * quarter of the log is full.   Returns: whether there is more to do. */
	template <class Tx>
	bool clear_some(Tx *tx, size_type most)
	{
		detail::check_changes<Tx>();
		size_type n = size(tx);
		bool stops = false;
		while (n > 0 && !stops) {
			if (detail::clear_value_some<T>(tx, words_of(tx, n - 1), most))
				break;
			remove_at(tx, --n);
			stops = most-- <= 1 || !detail::room_for_a_step(tx);
		}
		fur_store(tx, &size_, n);
		if (n > 0 || stops)
			return true;
		clear(tx);
		return false;
	}
	/* verify - as fur::hash_map's.  Only what is in the elements can be wrong. */
	template <class Tx>
	const char *verify(Tx *tx, uint64_t &blocks) const
	{
		const auto *directory = detail::pointer<const uint64_t>(fur_load(tx, &directory_));
		blocks = directory != nullptr;
		for (size_t k = 0; directory && k < PARTS; k++)
			blocks += fur_load(tx, &directory[k]) != 0;
		const char *wrong = nullptr;
		for (size_type i = 0, n = size(tx); i < n && !wrong; i++)
			wrong = detail::verify_value<T>(tx, words_of(tx, i), blocks);
		return wrong;
	}
	/* in - the vector in a transaction, as a range.  Valid until the transaction ends or
	 * removes elements. */
	template <class Tx>
	View<Tx> in(Tx *tx) const
	{
		return {tx, this};
	}
	template <class Index>
	void operator[](const Index &) const
	{
		static_assert(!sizeof(Index),
		        "fur::vector has no operator[], for it cannot take the transaction: use "
		        "get(tx, i), at(tx, i) or set(tx, i, value)");
	}
	template <class Never = void>
	void data() const
	{
		static_assert(!std::is_void_v<Never>,
		        "fur::vector has no data(), for it is not one array: see lookup(tx, i)");
	}

private:
	struct Index {
		size_t part;
		size_type k;
	};
	static Index index_of(size_type i)
	{
		i += size_type(1) << FIRST_BITS;
		const auto bits = static_cast<size_t>(63 - __builtin_clzll(i));
		return {bits - FIRST_BITS, i - (size_type(1) << bits)};
	}
	template <class Tx>
	uint64_t *words_of(Tx *tx, size_type i) const
	{
		const Index at = index_of(i);
		const auto *directory = detail::pointer<const uint64_t>(fur_load(tx, &directory_));
		return detail::pointer<uint64_t>(fur_load(tx, &directory[at.part])) +
		       at.k * codec::WORDS;
	}
	/* The words of element i, which is the next one. */
	template <class Tx>
	uint64_t *make_room(Tx *tx, size_type i)
	{
		const Index at = index_of(i);
		auto *directory = detail::pointer<uint64_t>(fur_load(tx, &directory_));
		uint64_t *part = nullptr;
		if (directory) {
			part = detail::pointer<uint64_t>(fur_load(tx, &directory[at.part]));
		} else {
			directory = detail::new_node(tx, PARTS);
			for (size_t k = 0; k < PARTS; k++)
				fur_store(tx, &directory[k], 0);
			fur_store(tx, &directory_, detail::word_of(directory));
		}
		/* Nothing is loaded that this call stores: an update whose log is full goes on, but
		 * its stores do nothing from then on. */
		if (!part) {
			part = detail::new_node(tx, codec::WORDS << (at.part + FIRST_BITS));
			fur_store(tx, &directory[at.part], detail::word_of(part));
		}
		return part + at.k * codec::WORDS;
	}
	template <class Tx>
	void remove_at(Tx *tx, size_type i)
	{
		uint64_t *words = words_of(tx, i);
		codec::destroy(tx, words);
		fur_promote(tx, words);
	}
	template <class Tx>
	void check_index(Tx *tx, size_type i) const
	{
		if (i >= size(tx))
			throw std::out_of_range("fur::vector: there is no such element");
	}

	template <class Tx>
	class Iterator : public detail::base::Steps<Iterator<Tx>>
	{
	public:
		using iterator_category = std::random_access_iterator_tag;
		using value_type = vector::value_type;
		using difference_type = ptrdiff_t;
		using pointer = const value_type *;
		using reference = value_type;

		Iterator() = default;
		Iterator(Tx *tx, const vector *v, size_type i) : tx_(tx), v_(v), i_(i) {}
		value_type operator*() const
		{
			return v_->get(tx_, i_);
		}
		value_type operator[](difference_type n) const
		{
			return *(*this + n);
		}
		Iterator &operator+=(difference_type n)
		{
			i_ += static_cast<size_type>(n);
			return *this;
		}
		Iterator &operator-=(difference_type n)
		{
			return *this += -n;
		}
		Iterator &operator++()
		{
			return *this += 1;
		}
		Iterator &operator--()
		{
			return *this += -1;
		}
		friend Iterator operator+(Iterator it, difference_type n)
		{
			return it += n;
		}
		friend Iterator operator+(difference_type n, Iterator it)
		{
			return it += n;
		}
		friend Iterator operator-(Iterator it, difference_type n)
		{
			return it -= n;
		}
		friend difference_type operator-(const Iterator &a, const Iterator &b)
		{
			return static_cast<difference_type>(a.i_ - b.i_);
		}
		friend bool operator==(const Iterator &a, const Iterator &b)
		{
			return a.i_ == b.i_;
		}
		friend bool operator<(const Iterator &a, const Iterator &b)
		{
			return a.i_ < b.i_;
		}
		friend bool operator>(const Iterator &a, const Iterator &b)
		{
			return b < a;
		}
		friend bool operator<=(const Iterator &a, const Iterator &b)
		{
			return !(b < a);
		}
		friend bool operator>=(const Iterator &a, const Iterator &b)
		{
			return !(a < b);
		}

	private:
		Tx *tx_ = nullptr;
		const vector *v_ = nullptr;
		size_type i_ = 0;
	};

	template <class Tx>
	class View
	{
	public:
		View(Tx *tx, const vector *v) : tx_(tx), v_(v) {}
		Iterator<Tx> begin() const
		{
			return {tx_, v_, 0};
		}
		Iterator<Tx> end() const
		{
			return {tx_, v_, size()};
		}
		size_type size() const
		{
			return v_->size(tx_);
		}
		value_type operator[](size_type i) const
		{
			return v_->get(tx_, i);
		}

	private:
		Tx *tx_;
		const vector *v_;
	};

	uint64_t size_ = 0, directory_ = 0;
};

} // namespace fur

#endif /* FUR_VECTOR_HPP */
