/* SPDX-License-Identifier: BSD-3-Clause
 *
 * commands.cpp - the commands (commands.hpp).
 */
#include "commands.hpp"
#include "glob.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <unistd.h>
#include <unordered_map>

namespace kv
{

namespace
{

constexpr std::string_view NOT_A_NUMBER = "ERR value is not an integer or out of range",
                           SYNTAX = "ERR syntax error";

/* ------------------------------------------------------------------- strings */

void bulk_of(const Call &call, const Value *v)
{
	if (!v)
		return call.reply().nothing();
	call.store.text(v, call.reply().begin_bulk(call.store.bytes(v)));
	call.out += "\r\n";
}

void get(const Call &call)
{
	bulk_of(call, call.store.find(call.args[1]));
}

void mget(const Call &call)
{
	call.reply().array(call.args.size() - 1);
	for (std::string_view key : call.args.subspan(1))
		bulk_of(call, call.store.find(key));
}

void mset(const Call &call)
{
	if (call.args.size() % 2 == 0)
		return call.reply().error("ERR wrong number of arguments for 'mset' command");
	for (size_t i = 1; i < call.args.size(); i += 2)
		call.store.set(call.args[i], call.args[i + 1], NO_DEADLINE);
	call.reply().status("OK");
}

struct SetOptions {
	bool absent = false, present = false, get = false, keep = false;
	int64_t deadline = NO_DEADLINE;
};

/* The deadline that is `amount` units of `unit` milliseconds away.  False: it is no time. */
bool deadline_after(const Call &call, std::string_view amount, int64_t unit, int64_t &deadline)
{
	int64_t ms;
	if (!parse_int(amount, ms) || __builtin_mul_overflow(ms, unit, &ms)) {
		call.reply().error(NOT_A_NUMBER);
		return false;
	}
	if (ms <= 0 || __builtin_add_overflow(ms, call.store.now(), &deadline)) {
		call.reply().error("ERR invalid expire time in 'set' command");
		return false;
	}
	return true;
}

/* False: the options are wrong, and the reply says so. */
bool take_set_options(const Call &call, SetOptions &o)
{
	for (size_t i = 3; i < call.args.size(); i++) {
		const std::string_view word = call.args[i];
		const bool seconds = same_word(word, "ex");
		if (same_word(word, "nx")) {
			o.absent = true;
		} else if (same_word(word, "xx")) {
			o.present = true;
		} else if (same_word(word, "get")) {
			o.get = true;
		} else if (same_word(word, "keepttl")) {
			o.keep = true;
		} else if ((seconds || same_word(word, "px")) && i + 1 < call.args.size() &&
		           o.deadline == NO_DEADLINE) {
			if (!deadline_after(call, call.args[++i], seconds ? 1000 : 1, o.deadline))
				return false;
		} else {
			call.reply().error(SYNTAX);
			return false;
		}
	}
	if ((o.absent && o.present) || (o.keep && o.deadline != NO_DEADLINE)) {
		call.reply().error(SYNTAX);
		return false;
	}
	return true;
}

void set(const Call &call)
{
	SetOptions o;
	if (!take_set_options(call, o))
		return;
	bool is_there = false;
	if (o.absent || o.present || o.get || o.keep) {
		const Value *v = call.store.find(call.args[1]);
		is_there = v != nullptr;
		if (o.get)
			bulk_of(call, v);
		if (o.keep && v)
			o.deadline = call.store.deadline(v);
	}
	const bool sets = !(o.absent && is_there) && !(o.present && !is_there);
	if (sets)
		call.store.set(call.args[1], call.args[2], o.deadline);
	if (o.get)
		return;
	if (sets)
		call.reply().status("OK");
	else
		call.reply().nothing();
}

void add(const Call &call, int64_t amount)
{
	const Value *v = call.store.find(call.args[1]);
	int64_t number = 0;
	if (v) {
		std::string old;
		call.store.text(v, old);
		if (!parse_int(old, number))
			return call.reply().error(NOT_A_NUMBER);
	}
	if (__builtin_add_overflow(number, amount, &number))
		return call.reply().error("ERR increment or decrement would overflow");
	char digits[24];
	const std::string_view text(digits,
	        static_cast<size_t>(std::to_chars(digits, std::end(digits), number).ptr - digits));
	if (v)
		call.store.replace(v, text);
	else
		call.store.set(call.args[1], text, NO_DEADLINE);
	call.reply().integer(number);
}

void incr(const Call &call)
{
	add(call, 1);
}

void decr(const Call &call)
{
	add(call, -1);
}

void incrby(const Call &call)
{
	int64_t amount;
	if (!parse_int(call.args[2], amount))
		return call.reply().error(NOT_A_NUMBER);
	add(call, amount);
}

/* ---------------------------------------------------------------------- keys */

void del(const Call &call)
{
	int64_t n = 0;
	for (std::string_view key : call.args.subspan(1))
		n += call.store.erase(key);
	call.reply().integer(n);
}

void exists(const Call &call)
{
	int64_t n = 0;
	for (std::string_view key : call.args.subspan(1))
		n += call.store.find(key) != nullptr;
	call.reply().integer(n);
}

void expire_after(const Call &call, int64_t unit)
{
	int64_t ms, deadline;
	if (!parse_int(call.args[2], ms))
		return call.reply().error(NOT_A_NUMBER);
	if (__builtin_mul_overflow(ms, unit, &ms) ||
	        __builtin_add_overflow(ms, call.store.now(), &deadline))
		return call.reply().error("ERR invalid expire time in 'expire' command");
	const Value *v = call.store.find(call.args[1]);
	if (v && deadline <= call.store.now())
		call.store.erase(call.args[1]);
	else if (v)
		call.store.set_deadline(v, deadline);
	call.reply().integer(v != nullptr);
}

void expire(const Call &call)
{
	expire_after(call, 1000);
}

void pexpire(const Call &call)
{
	expire_after(call, 1);
}

/* In milliseconds; -1: the key has no deadline, -2: there is no such key. */
int64_t time_left(const Call &call)
{
	const Value *v = call.store.find(call.args[1]);
	const int64_t deadline = v ? call.store.deadline(v) : +NO_DEADLINE;
	return !v ? -2 : deadline == NO_DEADLINE ? -1 : deadline - call.store.now();
}

void ttl(const Call &call)
{
	const int64_t ms = time_left(call);
	call.reply().integer(ms < 0 ? ms : (ms + 500) / 1000);
}

void pttl(const Call &call)
{
	call.reply().integer(time_left(call));
}

void persist(const Call &call)
{
	const Value *v = call.store.find(call.args[1]);
	const bool had = v && call.store.deadline(v) != NO_DEADLINE;
	if (had)
		call.store.set_deadline(v, NO_DEADLINE);
	call.reply().integer(had);
}

void dbsize(const Call &call)
{
	call.reply().integer(static_cast<int64_t>(call.store.size()));
}

void flushall(const Call &call)
{
	call.store.erase_all();
	call.reply().status("OK");
}

struct ScanOptions {
	std::optional<std::string_view> match;
	int64_t count = 10;
};

bool take_scan_options(const Call &call, ScanOptions &o)
{
	for (size_t i = 2; i < call.args.size(); i += 2) {
		const bool value = i + 1 < call.args.size();
		if (value && same_word(call.args[i], "match")) {
			o.match = call.args[i + 1];
		} else if (value && same_word(call.args[i], "count")) {
			if (!parse_int(call.args[i + 1], o.count)) {
				call.reply().error(NOT_A_NUMBER);
				return false;
			}
		} else {
			o.count = 0;
		}
		if (o.count < 1) {
			call.reply().error(SYNTAX);
			return false;
		}
	}
	return true;
}

void scan(const Call &call)
{
	ScanOptions o;
	uint64_t number;
	const std::string_view from = call.args[1];
	const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), number);
	if (error != std::errc() || end != from.data() + from.size())
		return call.reply().error("ERR invalid cursor");
	if (!take_scan_options(call, o))
		return;
	std::string keys;
	size_t n = 0;
	const auto most = static_cast<size_t>(o.count);
	const uint64_t next = call.store.walk(number, most, [&](const std::string &key) {
		if (o.match && !glob_matches(*o.match, key))
			return;
		Reply(keys).bulk(key);
		n++;
	});
	call.reply().array(2);
	call.reply().bulk(std::to_string(next));
	call.reply().array(n);
	call.reply().raw(keys);
}

/* ---------------------------------------------------------------- the server */

void ping(const Call &call)
{
	if (call.args.size() > 2)
		return call.reply().error("ERR wrong number of arguments for 'ping' command");
	if (call.args.size() == 2)
		call.reply().bulk(call.args[1]);
	else
		call.reply().status("PONG");
}

void echo(const Call &call)
{
	call.reply().bulk(call.args[1]);
}

/* redis-cli asks for the documentation of the commands, and does without. */
void command(const Call &call)
{
	call.reply().array(0);
}

void config(const Call &call)
{
	if (call.args.size() < 3 || !same_word(call.args[1], "get"))
		return call.reply().error("ERR only CONFIG GET is supported");
	const std::pair<std::string_view, std::string> settings[] = {
	        {"appendfsync", call.facts.always ? "always" : "everysec"}, {"appendonly", "yes"},
	        {"databases", "1"}, {"maxmemory", "0"}, {"port", std::to_string(call.facts.port)},
	        {"save", ""}};
	std::string found;
	size_t n = 0;
	for (const auto &[name, value] : settings) {
		const auto asked = [&](std::string_view pattern) {
			return glob_matches(pattern, name);
		};
		if (std::ranges::none_of(call.args.subspan(2), asked))
			continue;
		Reply(found).bulk(name);
		Reply(found).bulk(value);
		n += 2;
	}
	call.reply().array(n);
	call.reply().raw(found);
}

void info(const Call &call)
{
	const Facts &f = call.facts;
	const std::string keys = std::to_string(call.store.size()),
	                  deadlines = std::to_string(call.store.deadlines()),
	                  up = std::to_string((call.store.now() - f.started) / 1000);
	std::string text =
	        "# Server\r\nserver_name:libfur kvserver\r\nprocess_id:" +
	        std::to_string(getpid()) + "\r\ntcp_port:" + std::to_string(f.port) +
	        "\r\nuptime_in_seconds:" + up + "\r\n\r\n# Clients\r\n" +
	        "connected_clients:" + std::to_string(f.clients) +
	        "\r\n\r\n# Persistence\r\nappendfsync:" + (f.always ? "always" : "everysec") +
	        "\r\n\r\n# Stats\r\n" + "total_commands_processed:" + std::to_string(f.commands) +
	        "\r\nrounds:" + std::to_string(f.rounds) + "\r\n\r\n# Keyspace\r\n";
	if (keys != "0")
		text += "db0:keys=" + keys + ",expires=" + deadlines + "\r\n";
	call.reply().bulk(text);
}

void ok(const Call &call)
{
	call.reply().status("OK");
}

void select(const Call &call)
{
	if (call.args[1] == "0")
		call.reply().status("OK");
	else
		call.reply().error("ERR DB index is out of range");
}

void ready(const Call &call)
{
	call.reply().raw(call.args[0]);
}

/* ----------------------------------------------------------------- the table */

constexpr Command COMMANDS[] = {
        {"command", -1, false, Control::NONE, command},
        {"config", -2, false, Control::NONE, config},
        {"dbsize", 1, false, Control::NONE, dbsize},
        {"decr", 2, true, Control::NONE, decr},
        {"del", -2, true, Control::NONE, del},
        {"discard", 1, false, Control::DISCARD, ok},
        {"echo", 2, false, Control::NONE, echo},
        {"exec", 1, false, Control::EXEC, ok},
        {"exists", -2, false, Control::NONE, exists},
        {"expire", 3, true, Control::NONE, expire},
        {"flushall", -1, true, Control::NONE, flushall},
        {"get", 2, false, Control::NONE, get},
        {"incr", 2, true, Control::NONE, incr},
        {"incrby", 3, true, Control::NONE, incrby},
        {"info", -1, false, Control::NONE, info},
        {"mget", -2, false, Control::NONE, mget},
        {"mset", -3, true, Control::NONE, mset},
        {"multi", 1, false, Control::MULTI, ok},
        {"persist", 2, true, Control::NONE, persist},
        {"pexpire", 3, true, Control::NONE, pexpire},
        {"ping", -1, false, Control::NONE, ping},
        {"pttl", 2, false, Control::NONE, pttl},
        {"quit", -1, false, Control::QUIT, ok},
        {"scan", -2, false, Control::NONE, scan},
        {"select", 2, false, Control::NONE, select},
        {"set", -3, true, Control::NONE, set},
        {"ttl", 2, false, Control::NONE, ttl},
};

using Names = std::unordered_map<std::string_view, const Command *>;

Names by_name()
{
	Names names;
	for (const Command &c : COMMANDS)
		names.emplace(c.name, &c);
	return names;
}

} // namespace

const Command *find_command(std::string_view name)
{
	static const Names names = by_name();
	char lower[16];
	if (name.size() > sizeof lower)
		return nullptr;
	std::ranges::transform(name, lower, [](char c) {
		return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
	});
	const auto at = names.find({lower, name.size()});
	return at == names.end() ? nullptr : at->second;
}

const Command *ready_reply()
{
	static constexpr Command READY = {"", 1, false, Control::NONE, ready};
	return &READY;
}

} // namespace kv
