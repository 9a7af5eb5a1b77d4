/* SPDX-License-Identifier: BSD-3-Clause
 *
 * store.hpp - keys, values and their deadlines, in a heap.
 *
 *     Database    the root "kvserver"
 *       table     the keys in use: a fur::hash_map from fur::string to Value
 *       dropped   tables that FLUSHALL has taken out of use, to be freed piece by piece
 */
#ifndef KVSERVER_STORE_HPP
#define KVSERVER_STORE_HPP

#include <fur/root.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace kv
{

/* A value in the heap.  Text of up to 8 bytes lies in `text`; `room` is 0 then.  Other text has a
 * block of `room` bytes, whose address is in `text`: a new text of about that size takes the same
 * block. */
struct Value {
	int64_t deadline; /* in milliseconds since 1970; NO_DEADLINE: none */
	uint32_t bytes, room;
	uint64_t text;
};
enum : int64_t { NO_DEADLINE = 0 };

struct Table {
	fur::hash_map<fur::string, Value> keys;
	Table *next; /* of those that are dropped */
};

struct Database {
	Table *table, *dropped;
	uint64_t deadlines; /* how many keys of the table have one */
};

/* now_ms - the time that deadlines are in. */
int64_t now_ms();

/* The database inside a transaction, at one instant.  A key whose deadline has passed is not there:
 * an update that meets it erases it. */
class Access
{
public:
	Access(Database *db, fur_ro *tx, int64_t now) : db_(db), ro_(tx), now_(now) {}
	Access(Database *db, fur_update *tx, int64_t now) : db_(db), update_(tx), now_(now) {}
	int64_t now() const
	{
		return now_;
	}

	/* find - the value, until the key changes.   Returns: NULL: there is no such key. */
	const Value *find(std::string_view key);
	size_t bytes(const Value *v) const;
	int64_t deadline(const Value *v) const;
	/* Append the text. */
	void text(const Value *v, std::string &to) const;
	uint64_t size() const;
	uint64_t deadlines() const;

	/* Updates only.   Errors: fur::heap_full. */
	void set(std::string_view key, std::string_view text, int64_t deadline);
	/* Of a key that find() has found; the deadline stays. */
	void replace(const Value *v, std::string_view text);
	void set_deadline(const Value *v, int64_t deadline);
	bool erase(std::string_view key);
	void erase_all();

	/* walk - call each(key) for about `most` keys from a place on; 0: the first.
	 * Returns: the place to go on from, which any process may do; 0: there are no more. */
	template <class Each>
	uint64_t walk(uint64_t from, size_t most, Each each) const;

private:
	template <class F>
	auto in(F f) const
	{
		return ro_ ? f(ro_) : f(update_);
	}
	Table *table() const
	{
		return in([this](auto *tx) { return fur_load(tx, &db_->table); });
	}
	void count_deadlines(bool before, bool after);
	void overwrite(Value *v, std::string_view text, int64_t deadline);

	Database *db_;
	fur_ro *ro_ = nullptr;
	fur_update *update_ = nullptr;
	int64_t now_;
};

template <class Each>
uint64_t Access::walk(uint64_t from, size_t most, Each each) const
{
	return in([&](auto *tx) {
		return table()->keys.scan(tx, from, most, [&](const auto &key, const Value &v) {
			if (v.deadline == NO_DEADLINE || v.deadline > now_)
				each(key);
		});
	});
}

/* Work that no command waits for, a little at a time. */
class Sweep
{
public:
	explicit Sweep(Database *db) : db_(db) {}
	/* expire - look at some keys, in turn, and erase those whose deadline has passed.
	 * Returns: whether it was worth while, so that the caller may do so again soon. */
	bool expire(fur_thread *self);
	/* free_dropped - free a piece of a dropped table.   Returns: whether there is more. */
	bool free_dropped(fur_thread *self);

private:
	Database *db_;
	fur::hash_map<fur::string, Value>::cursor at_;
};

/* open_database - find the root, or make it. */
Database *open_database(fur_thread *self);

} // namespace kv

#endif /* KVSERVER_STORE_HPP */
