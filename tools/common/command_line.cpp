/* SPDX-License-Identifier: BSD-3-Clause
 *
 * command_line.cpp - build the list of options, parse the words of a command line, print --help and
 * --version.
 */
#include "command_line.hpp"
#include "base/standard_files.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fur.h>

namespace tools
{

using Option = CommandLine::Option;

Option &Option::required()
{
	needed = true;
	return *this;
}

Option &Option::range(long double from, long double to)
{
	least = from, most = to;
	return *this;
}

Option &Option::one_of(std::initializer_list<const char *> values)
{
	choices.assign(values.begin(), values.end());
	return *this;
}

Option &Option::excludes(const char *other)
{
	excluded = other;
	return *this;
}

Option &Option::in_bytes()
{
	value_name = "BYTES";
	return *this;
}

Option &Option::describe(const char *text)
{
	help = text;
	return *this;
}

static std::string text_of(long double number)
{
	char text[64];
	snprintf(text, sizeof text, number == std::floor(number) ? "%.0Lf" : "%Lg", number);
	return text;
}

Option &CommandLine::add_option(const char *name, const char *help, const char *value_name)
{
	Option o;
	o.name = name;
	o.help = help;
	o.value_name = value_name;
	options_.push_back(o);
	return options_.back();
}

Option &CommandLine::option(const char *name, std::string &variable, const char *help)
{
	Option &o = add_option(name, help, "TEXT");
	o.shown_default = variable;
	o.set = [&variable](const std::string &value) { variable = value; };
	return o;
}

Option &CommandLine::option(const char *name, std::vector<std::string> &variable, const char *help)
{
	Option &o = add_option(name, help, "TEXT");
	o.set = [&variable](const std::string &value) { variable.push_back(value); };
	return o;
}

Option &CommandLine::option(const char *name, double &variable, const char *help)
{
	Option &o = add_option(name, help, "NUMBER");
	o.least = -HUGE_VALL, o.most = HUGE_VALL;
	if (variable > 0)
		o.shown_default = text_of(variable);
	o.set = [&variable](
	                const std::string &value) { variable = strtod(value.c_str(), nullptr); };
	return o;
}

Option &CommandLine::integer(const char *name, const char *help, const std::string &shown,
        __int128 least, __int128 most, std::function<void(__int128)> set)
{
	Option &o = add_option(name, help, "N");
	o.shown_default = shown;
	o.least = static_cast<long double>(least), o.most = static_cast<long double>(most);
	o.set = [set = std::move(set)](const std::string &value) {
		set(value[0] == '-' ? static_cast<__int128>(strtoll(value.c_str(), nullptr, 10))
		                    : static_cast<__int128>(strtoull(value.c_str(), nullptr, 10)));
	};
	return o;
}

Option &CommandLine::flag(const char *name, bool &variable, const char *help)
{
	Option &o = add_option(name, help, "");
	o.flag = true;
	o.set = [&variable](const std::string &) { variable = true; };
	return o;
}

Option &CommandLine::argument(const char *name, std::string &variable, const char *help)
{
	Option o;
	o.name = name;
	o.help = help;
	o.set = [&variable](const std::string &value) { variable = value; };
	arguments_.push_back(o);
	return arguments_.back();
}

Option &CommandLine::at(const char *name)
{
	for (Option &o : options_)
		if (o.name == name)
			return o;
	throw std::logic_error(std::string("no option ") + name);
}

bool CommandLine::has(const std::string &name) const
{
	return std::any_of(
	        options_.begin(), options_.end(), [&](const Option &o) { return o.name == name; });
}

std::vector<std::string> CommandLine::names() const
{
	std::vector<std::string> all;
	for (const Option &o : options_)
		all.push_back(o.name);
	return all;
}

void CommandLine::remove(const char *name)
{
	std::erase_if(options_, [&](const Option &o) { return o.name == name; });
}

/* ------------------------------------------------------------------- parsing */

/* Read the number that the whole word is.  Integers must be decimal. */
static bool number_in(const std::string &word, bool integer, long double &number)
{
	char *end;
	errno = 0;
	if (integer && word.find_first_not_of("0123456789", word[0] == '-') != std::string::npos)
		return false;
	number = strtold(word.c_str(), &end);
	return !word.empty() && end != word.c_str() && !*end &&
	       !isspace(static_cast<unsigned char>(word[0])) && errno != ERANGE &&
	       !std::isnan(number);
}

/* A number of bytes with K, M, G or T, for powers of 1024, as a plain number.  What is no such
 * number remains as it is. */
static std::string without_unit(const std::string &word)
{
	static const std::string units = "KMGT";
	const size_t digits = word.find_first_not_of("0123456789");
	const size_t unit = digits == 0 || digits == std::string::npos ? std::string::npos
	                                                               : units.find(word[digits]);
	const std::string rest =
	        unit == std::string::npos ? "?" : word.substr(digits + 1, std::string::npos);
	if (!rest.empty() && rest != "iB")
		return word;
	errno = 0;
	const uint64_t number = strtoull(word.c_str(), nullptr, 10), shift = 10 * (unit + 1);
	return errno || number << shift >> shift != number ? word : std::to_string(number << shift);
}

static std::string joined(const std::vector<std::string> &words)
{
	std::string all;
	for (size_t k = 0; k < words.size(); k++)
		all += (k == 0 ? "" : k + 1 == words.size() ? " or " : ", ") + words[k];
	return all;
}

void CommandLine::set_option(Option &o, const std::string &given)
{
	const bool bytes = o.value_name == "BYTES", whole = bytes || o.value_name == "N";
	const std::string said = o.name + " " + given, value = bytes ? without_unit(given) : given;
	if (!o.choices.empty() &&
	        std::find(o.choices.begin(), o.choices.end(), value) == o.choices.end())
		throw WrongUsage(said + ": use " + joined(o.choices));
	if (whole || o.value_name == "NUMBER") {
		long double number;
		if (!number_in(value, whole, number))
			throw WrongUsage(said + ": use " +
			                 (bytes          ? "a number of bytes, as 16777216 or 16M"
			                         : whole ? "a whole number, in digits"
			                                 : "a number"));
		if (number < o.least || number > o.most)
			throw WrongUsage(
			        said + ": use " + text_of(o.least) + " to " + text_of(o.most));
	}
	o.set(value);
	o.given = true;
}

void CommandLine::set_argument(const std::string &word)
{
	for (Option &a : arguments_)
		if (!a.given) {
			a.set(word);
			a.given = true;
			return;
		}
	throw WrongUsage("unexpected argument '" + word + "'");
}

void CommandLine::check_given() const
{
	for (const Option &a : arguments_)
		if (a.needed && !a.given)
			throw WrongUsage(a.name + " is missing");
	for (const Option &o : options_) {
		if (o.needed && !o.given)
			throw WrongUsage(o.name + " is missing");
		for (const Option &other : options_)
			if (o.given && other.given && other.name == o.excluded)
				throw WrongUsage(o.name + " and " + other.name + ": one at a time");
	}
}

bool CommandLine::parse(int argc, char **argv)
{
	bool only_arguments = false;
	for (int k = 1; k < argc; k++) {
		std::string word = argv[k];
		if (only_arguments || word.size() < 2 || word[0] != '-') {
			set_argument(word);
			continue;
		}
		if (word == "--") {
			only_arguments = true;
			continue;
		}
		size_t equals = word.find('=');
		std::string name = word.substr(0, equals);
		if (name == "--help" || name == "-h") {
			fputs(help().c_str(), stdout);
			return false;
		}
		if (name == "--version") {
			fputs(version().c_str(), stdout);
			return false;
		}
		auto o = std::find_if(options_.begin(), options_.end(),
		        [&](const Option &one) { return one.name == name; });
		if (o == options_.end())
			throw WrongUsage("unknown option " + name);
		if (o->flag && equals != std::string::npos)
			throw WrongUsage(word + ": " + name + " takes no value");
		if (o->flag || equals != std::string::npos) {
			set_option(*o, o->flag ? "" : word.substr(equals + 1));
			continue;
		}
		if (k + 1 == argc || std::string(argv[k + 1]).starts_with("--"))
			throw WrongUsage(name + ": its value is missing");
		set_option(*o, argv[++k]);
	}
	check_given();
	return true;
}

/* ---------------------------------------------------------------------- help */

/* `text` in lines of at most 100 columns; all but the first are indented. */
static std::string wrapped(const std::string &text, size_t column, size_t indent)
{
	std::string out, word;
	for (size_t at = 0; at <= text.size(); at++) {
		if (at < text.size() && text[at] != ' ') {
			word += text[at];
			continue;
		}
		if (word.empty())
			continue;
		if (column + 1 + word.size() > 100) {
			out += "\n" + std::string(indent, ' ');
			column = indent;
		} else if (!out.empty()) {
			out += " ";
			column++;
		}
		out += word;
		column += word.size();
		word.clear();
	}
	return out + "\n";
}

static std::string row(const std::string &left, const std::string &right)
{
	enum { INDENT = 26 };
	std::string text = "  " + left;
	if (right.empty())
		return text + "\n";
	if (text.size() + 2 > INDENT)
		text += "\n" + std::string(INDENT, ' ');
	else
		text.resize(INDENT, ' ');
	return text + wrapped(right, INDENT, INDENT);
}

std::string CommandLine::help() const
{
	std::string usage = "Usage: " + program_ + " [OPTION...]", rows;
	for (const Option &a : arguments_)
		usage += " " + a.name, rows += row(a.name, a.help);
	for (const Option &o : options_) {
		std::string more = o.help;
		if (!o.choices.empty() && o.help.find(o.choices[0]) == std::string::npos)
			more += (more.empty() ? "" : ": ") + joined(o.choices);
		if (!o.shown_default.empty())
			more += std::string(more.empty() ? "" : " ") + "[" + o.shown_default + "]";
		rows += row(o.name + (o.flag ? "" : " " + o.value_name),
		        more + (o.needed ? " (required)" : ""));
	}
	return usage + rest_ + "\n" + (about_.empty() ? "" : wrapped(about_, 0, 0)) + "\n" + rows +
	       row("--help", "print this and exit") +
	       row("--version", "print the version and exit") +
	       (footer_.empty() ? "" : "\n" + wrapped(footer_, 0, 0));
}

std::string CommandLine::version() const
{
	return program_ + " (libfur) " + std::to_string(FUR_VERSION_MAJOR) + "." +
	       std::to_string(FUR_VERSION_MINOR) + "." + std::to_string(FUR_VERSION_PATCH) + "\n";
}

std::optional<int> parse_or_exit_status(
        CommandLine &line, const std::string &program, int argc, char **argv)
{
	open_standard_files();
	try {
		if (line.parse(argc, argv))
			return std::nullopt;
		return 0;
	} catch (const WrongUsage &e) {
		fprintf(stderr, "%s: %s; see --help\n", program.c_str(), e.what());
		return EXIT_WRONG_USAGE;
	}
}

} // namespace tools
