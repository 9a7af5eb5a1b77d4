/* SPDX-License-Identifier: BSD-3-Clause
 *
 * command_line.hpp - options, --help and --version of every C++ program in this project: tools,
 * benchmarks, tests.
 *
 * A program names its options and the variables they set; parse() sets them, or throws WrongUsage
 * with one line that names the option, the value and the remedy.  Options are exact: no
 * abbreviations, so that a new option never changes the meaning of an old command. `--name value`
 * and `--name=value` are the same; `--` ends the options.
 *
 * An installed tool takes its heap as an argument named HEAP, not as an option.
 *
 * This header is small on purpose: a template library for the same job took ten times as long to
 * compile as the programs themselves.
 */
#ifndef TOOLS_COMMAND_LINE_HPP
#define TOOLS_COMMAND_LINE_HPP

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace tools
{

enum { EXIT_WRONG_USAGE = 2 };

struct WrongUsage : std::runtime_error {
	using runtime_error::runtime_error;
};

class CommandLine
{
public:
	/* One option, flag or argument.  Each function below restricts or describes it. */
	struct Option {
		std::string name, help, value_name, shown_default;
		std::function<void(const std::string &)> set;
		bool flag = false, needed = false, given = false;
		long double least = 0, most = 0; /* of a number */
		std::vector<std::string> choices;
		std::string excluded; /* an option that cannot be given with this one */

		Option &required();
		Option &range(long double from, long double to);
		Option &one_of(std::initializer_list<const char *> values);
		Option &excludes(const char *other);
		/* Of an integer: it may end in K, M, G or T. */
		Option &in_bytes();
		Option &describe(const char *text);
	};

	CommandLine(const std::string &program, const std::string &about)
	    : program_(program), about_(about)
	{
	}

	/* --name VALUE.  --help shows the variable's present value as the default, unless that is
	 * empty, 0 or negative. */
	Option &option(const char *name, std::string &variable, const char *help = "");
	Option &option(const char *name, double &variable, const char *help = "");
	/* May be repeated */
	Option &option(const char *name, std::vector<std::string> &variable, const char *help = "");
	template <class Integer>
	requires std::is_integral_v<Integer> Option &option(
	        const char *name, Integer &variable, const char *help = "")
	{
		using Limits = std::numeric_limits<Integer>;
		return integer(name, help, variable > 0 ? std::to_string(variable) : "",
		        Limits::min(), Limits::max(),
		        [&variable](__int128 n) { variable = static_cast<Integer>(n); });
	}
	template <class Integer>
	Option &option(const char *name, std::optional<Integer> &variable, const char *help = "")
	{
		using Limits = std::numeric_limits<Integer>;
		return integer(name, help, "", Limits::min(), Limits::max(),
		        [&variable](__int128 n) { variable = static_cast<Integer>(n); });
	}
	Option &flag(const char *name, bool &variable, const char *help = "");
	/* A word without an option's name.  Arguments are set in the order in which they were
	 * added. */
	Option &argument(const char *name, std::string &variable, const char *help = "");
	Option &at(const char *name);
	void remove(const char *name);
	bool has(const std::string &name) const;
	std::vector<std::string> names() const; /* of the options */
	/* The last lines of --help. */
	void footer(const std::string &text)
	{
		footer_ = text;
	}

	/* The rest of the first line of --help. */
	void rest(const std::string &text)
	{
		rest_ = " " + text;
	}

	/* Returns false if --help or --version was given, and has been printed. */
	[[nodiscard]] bool parse(int argc, char **argv);
	std::string help() const;
	std::string version() const;

private:
	Option &add_option(const char *name, const char *help, const char *value_name);
	Option &integer(const char *name, const char *help, const std::string &shown,
	        __int128 least, __int128 most, std::function<void(__int128)> set);
	void set_option(Option &o, const std::string &given);
	void set_argument(const std::string &word);
	void check_given() const;

	std::string program_, about_, rest_, footer_;
	std::vector<Option> options_, arguments_;
};

/* Parse for main(), after open_standard_files().  Returns the exit status, or nothing if the
 * program is to go on.  Wrong usage is one line on standard error. */
std::optional<int> parse_or_exit_status(
        CommandLine &line, const std::string &program, int argc, char **argv);

} // namespace tools

#endif /* TOOLS_COMMAND_LINE_HPP */
