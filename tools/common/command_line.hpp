/* SPDX-License-Identifier: BSD-3-Clause
 *
 * command_line.hpp - options, --help and --version of every C++ program in this project: tools,
 * benchmarks, tests.  The C library's argp reads the words and prints the help.
 *
 * A program names its options and the variables they set; parse() sets them, or throws WrongUsage
 * with one line that names the option, the value and the remedy.  Options are exact: no
 * abbreviations, so that a new option never changes the meaning of an old command. `--name value`
 * and `--name=value` are the same; `--` ends the options.
 *
 * An installed tool takes its heap as an argument named HEAP, not as an option.
 */
#ifndef TOOLS_COMMAND_LINE_HPP
#define TOOLS_COMMAND_LINE_HPP

#include <argp.h>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
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
	/* An option that sets a vector may be repeated. */
	using Variable = std::variant<bool *, int *, unsigned *, int64_t *, uint64_t *, double *,
	        std::optional<uint64_t> *, std::string *, std::vector<std::string> *>;

	/* One option, flag or argument.  Each function restricts or describes it. */
	struct Option {
		Variable variable;
		std::string name, help, value_name, shown_default, excluded, text;
		std::vector<std::string> choices;
		long double least, most; /* of a number */
		bool needed = false, given = false;

		Option(const char *name_is, Variable sets, const char *what);
		Option &required()
		{
			return needed = true, *this;
		}
		Option &range(long double from, long double to)
		{
			return least = from, most = to, *this;
		}
		Option &one_of(const std::vector<std::string> &values)
		{
			return choices = values, *this;
		}
		/* It cannot be given with the other. */
		Option &excludes(const char *other)
		{
			return excluded = other, *this;
		}
		/* Of an integer: it may end in K, M, G or T. */
		Option &in_bytes()
		{
			return value_name = "BYTES", *this;
		}
		Option &describe(const char *what)
		{
			return help = what, *this;
		}
		void set(const std::string &word);
	};

	CommandLine(const std::string &name, const std::string &what) : program_(name), about_(what)
	{
	}

	/* --name VALUE, or --name alone for a flag.  --help shows the variable's present value as
	 * the default, unless that is empty, 0 or negative. */
	template <class T>
	Option &option(const char *name, T &variable, const char *help = "")
	{
		return options.emplace_back(name, &variable, help);
	}
	Option &flag(const char *name, bool &variable, const char *help = "")
	{
		return option(name, variable, help);
	}
	/* A word without an option's name.  Arguments are set in the order in which they were
	 * added. */
	Option &argument(const char *name, std::string &variable, const char *help = "")
	{
		return arguments_.emplace_back(name, &variable, help);
	}
	/* All words that follow: the last one. */
	Option &arguments(
	        const char *name, std::vector<std::string> &variable, const char *help = "")
	{
		return arguments_.emplace_back(name, &variable, help);
	}
	Option &at(const std::string &name);
	void remove(const std::string &name);

	/* Returns false if --help or --version was given, and has been printed. */
	[[nodiscard]] bool parse(int argc, char **argv);
	std::string help();
	std::string version() const;

	std::vector<Option> options;
	std::string rest, footer; /* the ends of the first and of the last line of --help */

private:
	argp for_argp();
	static error_t take(int key, char *value, argp_state *state);
	void take_option(const std::string &word, const std::string &value, bool refused);
	void check_given();

	std::string program_, about_, words_, text_, wrong_;
	std::vector<Option> arguments_;
	std::vector<argp_option> rows_;
	bool printed_ = false;
};

/* Parse for main(), after open_standard_files().  Returns the exit status, or nothing if the
 * program is to go on.  Wrong usage is one line on standard error. */
std::optional<int> parse_or_exit_status(
        CommandLine &line, const std::string &program, int argc, char **argv);

} // namespace tools

#endif /* TOOLS_COMMAND_LINE_HPP */
