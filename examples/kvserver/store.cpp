/* SPDX-License-Identifier: BSD-3-Clause
 *
 * store.cpp - keys, values and deadlines (store.hpp).
 */
#include "store.hpp"

#include <chrono>
#include <cstring>
#include <vector>

namespace kv
{

namespace
{

enum : size_t { INLINE = sizeof(uint64_t) };

void *block_of(const Value &v)
{
	return v.room ? fur::detail::pointer<void>(v.text) : nullptr;
}

/* A value with this text.  `v` has a block or none; if it does for the text, it is used again. */
void put_text(fur_update *tx, Value &v, std::string_view text)
{
	void *block = block_of(v);
	const bool needs_block = text.size() > INLINE, fits = block && needs_block &&
	                                                      text.size() <= v.room &&
	                                                      text.size() * 2 + 64 >= v.room;
	if (block && !fits)
		fur_free(tx, block);
	if (!needs_block) {
		v.text = v.room = 0;
		if (!text.empty())
			memcpy(&v.text, text.data(), text.size());
	} else if (!fits) {
		block = fur_alloc(tx, text.size());
		if (!block)
			fur::detail::no_room(tx);
		v.text = fur::detail::word_of(block);
		v.room = static_cast<uint32_t>(fur_usable_bytes(tx, block));
	}
	if (needs_block)
		fur_write(tx, block, text.data(), text.size());
	v.bytes = static_cast<uint32_t>(text.size());
}

template <class Tx>
Value load(Tx *tx, const Value *at)
{
	Value v;
	fur_read(tx, &v, at, sizeof v);
	return v;
}

bool passed(int64_t deadline, int64_t now)
{
	return deadline != NO_DEADLINE && deadline <= now;
}

} // namespace

int64_t now_ms()
{
	using namespace std::chrono;
	return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

/* ------------------------------------------------------------------- reading */

const Value *Access::find(std::string_view key)
{
	const Value *v =
	        in([&](auto *tx) -> const Value * { return table()->keys.lookup(tx, key); });
	if (!v || !passed(deadline(v), now_))
		return v;
	if (update_)
		erase(key);
	return nullptr;
}

size_t Access::bytes(const Value *v) const
{
	return in([&](auto *tx) { return fur_load(tx, &v->bytes); });
}

int64_t Access::deadline(const Value *v) const
{
	return in([&](auto *tx) { return fur_load(tx, &v->deadline); });
}

void Access::text(const Value *at, std::string &to) const
{
	in([&](auto *tx) {
		const Value v = load(tx, at);
		const size_t before = to.size();
		to.resize(before + v.bytes);
		if (v.room)
			fur_read(tx, &to[before], block_of(v), v.bytes);
		else
			memcpy(&to[before], &v.text, v.bytes);
	});
}

uint64_t Access::size() const
{
	return in([this](auto *tx) { return table()->keys.size(tx); });
}

uint64_t Access::deadlines() const
{
	return in([this](auto *tx) { return fur_load(tx, &db_->deadlines); });
}

/* ------------------------------------------------------------------ changing */

void Access::count_deadlines(bool before, bool after)
{
	if (before != after)
		fur_store(update_, &db_->deadlines,
		        fur_load(update_, &db_->deadlines) + after - before);
}

void Access::overwrite(Value *at, std::string_view text, int64_t deadline)
{
	const Value old = load(update_, at);
	Value v = old;
	count_deadlines(old.deadline != NO_DEADLINE, deadline != NO_DEADLINE);
	v.deadline = deadline;
	put_text(update_, v, text);
	if (memcmp(&v, &old, sizeof v) != 0)
		fur_write(update_, at, &v, sizeof v);
}

void Access::set(std::string_view key, std::string_view text, int64_t deadline)
{
	auto &keys = table()->keys;
	if (Value *v = keys.lookup(update_, key))
		return overwrite(v, text, deadline);
	Value v = {deadline, 0, 0, 0};
	count_deadlines(false, deadline != NO_DEADLINE);
	put_text(update_, v, text);
	keys.insert(update_, key, v);
}

void Access::replace(const Value *v, std::string_view text)
{
	overwrite(const_cast<Value *>(v), text, deadline(v));
}

void Access::set_deadline(const Value *v, int64_t deadline)
{
	count_deadlines(this->deadline(v) != NO_DEADLINE, deadline != NO_DEADLINE);
	fur_store(update_, const_cast<int64_t *>(&v->deadline), deadline);
}

bool Access::erase(std::string_view key)
{
	auto &keys = table()->keys;
	const Value *at = keys.lookup(update_, key);
	if (!at)
		return false;
	const Value v = load(update_, at);
	count_deadlines(v.deadline != NO_DEADLINE, false);
	keys.erase(update_, key);
	fur_free(update_, block_of(v));
	return !passed(v.deadline, now_);
}

void Access::erase_all()
{
	Table *empty = fur::make<Table>(update_), *old = table();
	if (!empty)
		fur::detail::no_room(update_);
	fur_store(update_, &old->next, fur_load(update_, &db_->dropped));
	fur_store(update_, &db_->dropped, old);
	fur_store(update_, &db_->table, empty);
	fur_store(update_, &db_->deadlines, uint64_t(0));
}

/* -------------------------------------------------------------------- sweeps */

bool Sweep::expire(fur_thread *self)
{
	enum : size_t { SAMPLE = 200, WORTH = SAMPLE / 10 };
	const int64_t now = now_ms();
	std::vector<std::string> late;
	/* The sweep waits for nothing: what it has read stays in the process. */
	fur_ticket ticket;
	fur::read(self, ticket, [&](fur_ro *tx) {
		if (fur_load(tx, &db_->deadlines) == 0)
			return;
		at_.advance(tx, fur_load(tx, &db_->table)->keys, SAMPLE, [&](const auto &entry) {
			if (passed(entry.second.deadline, now))
				late.push_back(entry.first);
		});
	});
	if (at_.done())
		at_ = {};
	if (late.empty())
		return false;
	fur::update(self, ticket, [&](fur_update *tx) {
		Access access(db_, tx, now);
		for (const std::string &key : late)
			access.find(key); /* erases it, if it is late still */
	});
	return late.size() >= WORTH;
}

bool Sweep::free_dropped(fur_thread *self)
{
	enum : size_t { PART = 100 };
	Table *table;
	std::vector<std::pair<std::string, Value>> some;
	fur_ticket ticket;
	fur::read(self, ticket, [&](fur_ro *tx) {
		fur::hash_map<fur::string, Value>::cursor first;
		table = fur_load(tx, &db_->dropped);
		if (table)
			first.advance(tx, table->keys, PART,
			        [&](const auto &entry) { some.push_back(entry); });
	});
	if (!table)
		return false;
	fur::update(self, ticket, [&](fur_update *tx) {
		for (const auto &[key, v] : some) {
			table->keys.erase(tx, key);
			fur_free(tx, block_of(v));
		}
		if (some.empty()) {
			table->keys.clear(tx);
			fur_store(tx, &db_->dropped, fur_load(tx, &table->next));
			fur_free(tx, table);
		}
	});
	return true;
}

Database *open_database(fur_thread *self)
{
	auto *db = fur::root<Database>(self, "kvserver", 1);
	fur::update(self, [&](fur_update *tx) {
		if (fur_load(tx, &db->table))
			return;
		Table *table = fur::make<Table>(tx);
		if (!table)
			fur::detail::no_room(tx);
		fur_store(tx, &db->table, table);
	});
	return db;
}

} // namespace kv
