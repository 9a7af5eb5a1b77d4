/* SPDX-License-Identifier: BSD-3-Clause
 *
 * command_line.cpp - see command_line.hpp.
 */
#include "command_line.hpp"
#include "base/standard_files.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fur.h>
#include <limits>

namespace tools
{

using Option = CommandLine::Option;

static std::string text_of(long double number)
{
	char text[64];
	snprintf(text, sizeof text, number == std::floor(number) ? "%.0Lf" : "%Lg", number);
	return text;
}

static std::string joined(const std::vector<std::string> &words)
{
	std::string all;
	for (size_t k = 0; k < words.size(); k++)
		all += (k == 0 ? "" : k + 1 == words.size() ? " or " : ", ") + words[k];
	return all;
}

/* ------------------------------------------------------------------- options */

Option::Option(const char *name_is, Variable sets, const char *what)
    : variable(sets), name(name_is), help(what), value_name("TEXT")
{
	auto number = [this]<class T>(T now) {
		value_name = std::is_integral_v<T> ? "N" : "NUMBER";
		least = std::numeric_limits<T>::lowest(), most = std::numeric_limits<T>::max();
		shown_default = now > 0 ? text_of(now) : "";
	};
	std::visit(
	        [&]<class T>(T *now) {
		        if constexpr (std::is_same_v<T, bool>)
			        value_name.clear();
		        else if constexpr (std::is_arithmetic_v<T>)
			        number(*now);
		        else if constexpr (std::is_same_v<T, std::string>)
			        shown_default = *now;
		        else if constexpr (std::is_same_v<T, std::optional<uint64_t>>)
			        number(uint64_t{0});
	        },
	        variable);
}

/* The number that the whole word is.  A long double holds any integer of 64 bits. */
static long double number_in(const Option &o, const std::string &word)
{
	const bool bytes = o.value_name == "BYTES", whole = bytes || o.value_name == "N";
	const char *const start = word.c_str();
	char *end;
	long double number = whole ? strtold(start, &end) : strtod(start, &end);
	bool wrong = end == start || isspace(static_cast<unsigned char>(*start)) ||
	             !std::isfinite(number) ||
	             (whole && word.find_first_not_of("0123456789", *start == '-') <
	                               static_cast<size_t>(end - start));
	static const char units[] = "KMGT";
	if (const char *unit = strchr(units, *end); bytes && *end && unit) {
		number = std::ldexp(number, 10 * static_cast<int>(unit - units + 1));
		end += strcmp(end + 1, "iB") == 0 ? 3 : 1;
		wrong = wrong || number < 0 || number > UINT64_MAX;
	}
	const std::string use = o.name + " " + word + ": use ";
	if (wrong || *end)
		throw WrongUsage(use + (bytes          ? "a number of bytes, as 16777216 or 16M"
		                               : whole ? "a whole number, in digits"
		                                       : "a number"));
	if (number < o.least || number > o.most)
		throw WrongUsage(use + text_of(o.least) + " to " + text_of(o.most));
	return number;
}

void Option::set(const std::string &word)
{
	if (!choices.empty() && std::ranges::count(choices, word) == 0)
		throw WrongUsage(name + " " + word + ": use " + joined(choices));
	std::visit(
	        [&]<class T>(T *to) {
		        if constexpr (std::is_same_v<T, bool>)
			        *to = true;
		        else if constexpr (std::is_arithmetic_v<T>)
			        *to = static_cast<T>(number_in(*this, word));
		        else if constexpr (std::is_same_v<T, std::string>)
			        *to = word;
		        else if constexpr (std::is_same_v<T, std::optional<uint64_t>>)
			        *to = static_cast<uint64_t>(number_in(*this, word));
		        else
			        to->push_back(word);
	        },
	        variable);
	given = true;
}

Option &CommandLine::at(const std::string &name)
{
	auto o = std::ranges::find(options, name, &Option::name);
	if (o == options.end())
		throw WrongUsage("unknown option " + name);
	return *o;
}

void CommandLine::remove(const std::string &name)
{
	std::erase_if(options, [&](const Option &o) { return o.name == name; });
}

/* ---------------------------------------------------------------------- argp */

static const int OPTION = 256; /* the key of all options: their names tell them apart */

argp CommandLine::for_argp()
{
	int place = 0; /* without one, argp sorts the options */
	words_.clear(), rows_.clear();
	for (const Option &a : arguments_) {
		const bool all = std::holds_alternative<std::vector<std::string> *>(a.variable);
		words_ += (words_.empty() ? "" : " ") + (all ? "[" + a.name + "...]" : a.name);
		rows_.push_back({a.name.c_str(), 0, nullptr, OPTION_DOC, a.help.c_str(), ++place});
	}
	for (Option &o : options) {
		o.text = o.help;
		if (!o.choices.empty() && o.text.find(o.choices[0]) == std::string::npos)
			o.text += (o.text.empty() ? "" : ": ") + joined(o.choices);
		if (!o.shown_default.empty())
			o.text += (o.text.empty() ? "[" : " [") + o.shown_default + "]";
		o.text += o.needed ? " (required)" : "";
		rows_.push_back({o.name.c_str() + 2, OPTION,
		        o.value_name.empty() ? nullptr : o.value_name.c_str(), 0, o.text.c_str(),
		        ++place});
	}
	rows_.push_back({"help", OPTION, nullptr, 0, "print this and exit", ++place});
	rows_.push_back({"version", OPTION, nullptr, 0, "print the version and exit", ++place});
	rows_.push_back({});
	words_ += (words_.empty() || rest.empty() ? "" : " ") + rest;
	text_ = about_ + (footer.empty() ? "" : "\v" + footer);
	return {rows_.data(), take, words_.empty() ? nullptr : words_.c_str(), text_.c_str(),
	        nullptr, nullptr, nullptr};
}

/* argp takes abbreviations too: the word itself tells which option it is. */
void CommandLine::take_option(const std::string &word, const std::string &value, bool refused)
{
	const std::string name = word.substr(0, word.find('='));
	printed_ = name == "--help" || name == "-h" || name == "--version";
	if (printed_) {
		fputs((name == "--version" ? version() : help()).c_str(), stdout);
		return;
	}
	Option &o = at(name);
	if (refused && o.value_name.empty())
		throw WrongUsage(word + ": " + name + " takes no value");
	if (refused)
		throw WrongUsage(name + ": its value is missing");
	o.set(value);
}

void CommandLine::check_given()
{
	for (const auto *all : {&arguments_, &options})
		for (const Option &o : *all) {
			if (o.needed && !o.given)
				throw WrongUsage(o.name + " is missing");
			if (o.given && !o.excluded.empty() && at(o.excluded).given)
				throw WrongUsage(o.name + " and " + o.excluded + ": one at a time");
		}
}

/* argp calls this for each option and argument, and at the end. */
error_t CommandLine::take(int key, char *value, argp_state *state)
{
	auto &line = *static_cast<CommandLine *>(state->input);
	const std::string word = value ? value : "";
	try {
		if (line.printed_ || !line.wrong_.empty())
			return 0;
		if (key == OPTION || key == ARGP_KEY_ERROR) {
			char **last = &state->argv[state->next - 1];
			const bool apart = value == *last;
			line.take_option(last[apart ? -1 : 0], word,
			        key == ARGP_KEY_ERROR || (apart && word.starts_with("--")));
		} else if (key == ARGP_KEY_ARG) {
			auto a = std::ranges::find_if(line.arguments_, [](const Option &o) {
				return !o.given ||
				       std::holds_alternative<std::vector<std::string> *>(
				               o.variable);
			});
			if (a == line.arguments_.end())
				throw WrongUsage("unexpected argument '" + word + "'");
			a->set(word);
		} else if (key == ARGP_KEY_END) {
			line.check_given();
		} else {
			return ARGP_ERR_UNKNOWN;
		}
	} catch (const WrongUsage &e) {
		line.wrong_ = e.what();
	}
	return line.printed_ || !line.wrong_.empty() ? ECANCELED : 0;
}

bool CommandLine::parse(int argc, char **argv)
{
	argp all = for_argp();
	wrong_.clear();
	/* ARGP_LONG_ONLY: -xy is one name. */
	argp_parse(&all, argc, argv, ARGP_NO_ERRS | ARGP_NO_EXIT | ARGP_NO_HELP | ARGP_LONG_ONLY,
	        nullptr, this);
	if (!wrong_.empty())
		throw WrongUsage(wrong_);
	return !printed_;
}

std::string CommandLine::help()
{
	char *text;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	argp all = for_argp();
	argp_help(&all, out, ARGP_HELP_STD_HELP, program_.data());
	fclose(out);
	std::string copy(text, bytes);
	free(text);
	return copy;
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
		return line.parse(argc, argv) ? std::nullopt : std::optional(0);
	} catch (const WrongUsage &e) {
		fprintf(stderr, "%s: %s; see --help\n", program.c_str(), e.what());
		return EXIT_WRONG_USAGE;
	}
}

} // namespace tools
