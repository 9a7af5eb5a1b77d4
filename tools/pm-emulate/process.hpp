/* SPDX-License-Identifier: BSD-3-Clause
 *
 * process.hpp - programs that are started, waited for, and stopped with all they have started.
 */
#ifndef PM_EMULATE_PROCESS_HPP
#define PM_EMULATE_PROCESS_HPP

#include "memory.hpp"

#include <stdexcept>
#include <string>
#include <vector>

namespace pme
{

/* Wrong usage, in one line. */
struct Usage : std::runtime_error {
	using std::runtime_error::runtime_error;
};

/* How a program ended. */
struct End {
	int status = 0;         /* as waitpid() says */
	bool timed_out = false; /* and was killed for it */
	bool well() const;
	std::string text() const; /* "exit status 3" */
	int exit_status() const;  /* as a shell says */
};

/* What programs that are tried again and again print goes here, and is looked at when something is
 * wrong. */
class Output
{
public:
	Output();
	~Output();
	Output(const Output &) = delete;
	int fd() const
	{
		return fd_;
	}
	void clear() const;
	std::string text() const;

private:
	int fd_;
};

/* Adopt the orphans of what we start, so that we know when all are dead. */
void adopt_orphans();

/* Run the program under emulation, until it and all it has started have ended; or the power fails,
 * and they are dead.  `output`: where its output goes; null: ours. */
End run_program(const std::vector<std::string> &command, const Memory &memory,
        const std::string &library, double timeout_s, const Output *output);

/* Run a command of the shell, as it is. */
End run_shell(const std::string &command, double timeout_s, const Output *output);

/* The word as the shell reads it. */
std::string quoted(const std::string &word);

} // namespace pme

#endif /* PM_EMULATE_PROCESS_HPP */
