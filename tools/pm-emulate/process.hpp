/* SPDX-License-Identifier: BSD-3-Clause
 *
 * process.hpp - starts programs, waits for them, and stops them with all that they have started.
 */
#ifndef PM_EMULATE_PROCESS_HPP
#define PM_EMULATE_PROCESS_HPP

#include "memory.hpp"

#include <stdexcept>
#include <string>
#include <vector>

namespace pme
{

/* Wrong usage; the text is one line. */
struct Usage : std::runtime_error {
	using std::runtime_error::runtime_error;
};

/* How a program ended. */
struct End {
	int status = 0;         /* of waitpid() */
	bool timed_out = false; /* it was killed because its time was up */
	bool well() const;
	std::string text() const; /* for example "exit status 3" */
	int exit_status() const;  /* as a shell reports it */
};

/* Takes the output of programs that run again and again; shown when something is wrong. */
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

/* Adopt the orphans of the programs that we start, so that we know when all are dead. */
void adopt_orphans();

/* Run the program under emulation until it and all programs that it started have ended, or until
 * the power has failed and they are dead.  `output` takes their output; NULL: they share ours. */
End run_program(const std::vector<std::string> &command, const Memory &memory,
        const std::string &library, double timeout_s, const Output *output);

/* Run a command of the shell, without emulation. */
End run_shell(const std::string &command, double timeout_s, const Output *output);

/* Quote the word for the shell. */
std::string quoted(const std::string &word);

} // namespace pme

#endif /* PM_EMULATE_PROCESS_HPP */
