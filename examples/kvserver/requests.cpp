/* SPDX-License-Identifier: BSD-3-Clause
 *
 * requests.cpp - from input to commands (requests.hpp).
 */
#include "requests.hpp"

namespace kv
{

namespace
{

std::string error_line(std::string_view text)
{
	std::string line;
	Reply(line).error(text);
	return line;
}

/* As Redis says it. */
std::string unknown(std::span<const std::string_view> args)
{
	enum : size_t { SHOWN = 128 };
	std::string text = "ERR unknown command '";
	text.append(args[0].substr(0, SHOWN)).append("', with args beginning with: ");
	const size_t end = text.size() + SHOWN;
	for (size_t i = 1; i < args.size() && text.size() < end; i++)
		text.append("'").append(args[i].substr(0, end - text.size())).append("' ");
	return text;
}

bool fits_arity(const Command *command, size_t n)
{
	const auto args = static_cast<int>(n);
	return command->arity < 0 ? args >= -command->arity : args == command->arity;
}

} // namespace

std::string_view Requests::keep(std::string text)
{
	return kept_.emplace_back(std::move(text));
}

size_t Requests::bytes_from(size_t first) const
{
	size_t bytes = 0;
	for (size_t i = first; i < args_.size(); i++)
		bytes += args_[i].size();
	return bytes;
}

void Requests::add_unit(Connection &c, bool exec, size_t first_job, size_t bytes)
{
	units_.push_back({&c, first_job, jobs_.size() - first_job, exec, bytes});
	if (!c.in_round)
		clients_.push_back(&c);
	c.in_round = true;
}

void Requests::add(Connection &c, const Command *command, size_t first)
{
	jobs_.push_back({command, first, args_.size() - first});
	write_ |= command->writes;
	add_unit(c, false, jobs_.size() - 1, bytes_from(first));
}

void Requests::answer(Connection &c, std::string reply)
{
	args_.push_back(keep(std::move(reply)));
	add(c, ready_reply(), args_.size() - 1);
}

/* A wrong command: EXEC will fail too. */
void Requests::refuse(Connection &c, std::string_view error)
{
	c.refused |= c.multi;
	answer(c, error_line(error));
}

void Requests::queue(Connection &c, const Command *command, size_t first)
{
	c.queued_bytes += bytes_from(first);
	if (c.queued_bytes > MOST_REQUEST_BYTES || c.queue.size() >= MOST_ARGS)
		return refuse(c, "ERR too many commands since MULTI");
	c.queue.push_back({command, {args_.begin() + static_cast<ptrdiff_t>(first), args_.end()}});
	answer(c, "+QUEUED\r\n");
}

/* The queue becomes one unit. */
void Requests::exec(Connection &c)
{
	const size_t first_job = jobs_.size();
	for (Queued &q : c.queue) {
		const size_t first = args_.size();
		for (std::string &arg : q.args)
			args_.push_back(keep(std::move(arg)));
		jobs_.push_back({q.command, first, args_.size() - first});
		write_ |= q.command->writes;
	}
	add_unit(c, true, first_job, c.queued_bytes);
}

void Requests::take_known(Connection &c, const Command *command, size_t first)
{
	const bool was_multi = c.multi, was_refused = c.refused;
	switch (command->control) {
	case Control::NONE: return c.multi ? queue(c, command, first) : add(c, command, first);
	case Control::QUIT: c.closing = true; return answer(c, "+OK\r\n");
	case Control::MULTI:
		if (c.multi)
			return answer(c, error_line("ERR MULTI calls can not be nested"));
		c.multi = true;
		return answer(c, "+OK\r\n");
	default: break;
	}
	const bool execs = command->control == Control::EXEC;
	if (!was_multi)
		answer(c,
		        error_line(execs ? "ERR EXEC without MULTI" : "ERR DISCARD without MULTI"));
	else if (!execs)
		answer(c, "+OK\r\n");
	else if (was_refused)
		answer(c,
		        error_line("EXECABORT Transaction discarded because of previous errors."));
	else
		exec(c);
	c.multi = c.refused = false;
	c.queue.clear();
	c.queued_bytes = 0;
}

void Requests::take_request(Connection &c, size_t first)
{
	const std::span<const std::string_view> args(args_.data() + first, args_.size() - first);
	if (args.empty())
		return;
	facts_.commands++;
	const Command *command = find_command(args[0]);
	if (!command)
		return refuse(c, unknown(args));
	if (!fits_arity(command, args.size()))
		return refuse(c, "ERR wrong number of arguments for '" +
		                         std::string(command->name) + "' command");
	take_known(c, command, first);
}

/* The parser forgets the text of an inline command at the next one. */
void Requests::keep_inline(size_t first)
{
	for (size_t i = first; i < args_.size(); i++)
		args_[i] = keep(std::string(args_[i]));
}

void Requests::take(Connection &c)
{
	c.wanted = 0;
	while (!c.closing && !c.input.rest().empty()) {
		const size_t first = args_.size();
		const bool is_inline = c.input.rest()[0] != '*';
		const Parser::Result result = c.parser.next(c.input.rest(), args_);
		if (result == Parser::MORE) {
			c.wanted = c.parser.wanted();
			return;
		}
		if (result == Parser::ERROR) {
			c.closing = true;
			return answer(c, error_line("ERR " + c.parser.error()));
		}
		if (is_inline)
			keep_inline(first);
		c.input.use(c.parser.used());
		take_request(c, first);
	}
}

void Requests::clear()
{
	for (Connection *c : clients_)
		c->in_round = false;
	units_.clear();
	jobs_.clear();
	args_.clear();
	kept_.clear();
	clients_.clear();
	write_ = false;
}

} // namespace kv
