/* SPDX-License-Identifier: BSD-3-Clause
 *
 * commands.hpp - what the server does for each command.
 */
#ifndef KVSERVER_COMMANDS_HPP
#define KVSERVER_COMMANDS_HPP

#include "resp.hpp"
#include "store.hpp"

#include <span>

namespace kv
{

/* What INFO and CONFIG tell about the server. */
struct Facts {
	bool always; /* --fsync always */
	uint16_t port;
	size_t clients;
	uint64_t commands, rounds;
	int64_t started; /* now_ms() */
};

/* One call of a command.  The function only reads and changes the store, and appends to the reply:
 * if the transaction is rolled back, it runs again. */
struct Call {
	std::span<const std::string_view> args;
	Access &store;
	const Facts &facts;
	std::string &out;

	Reply reply() const
	{
		return Reply(out);
	}
};

/* What the connection does with a command, before or in place of the transaction. */
enum class Control { NONE, MULTI, EXEC, DISCARD, QUIT };

struct Command {
	const char *name; /* in lower case */
	int arity;        /* arguments with the name; negative: at least as many */
	bool writes;
	Control control;
	void (*run)(const Call &call);
};

/* find_command - NULL if there is none of this name. */
const Command *find_command(std::string_view name);

/* ready_reply - the "command" whose first argument is the reply. */
const Command *ready_reply();

} // namespace kv

#endif /* KVSERVER_COMMANDS_HPP */
