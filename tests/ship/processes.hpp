/* SPDX-License-Identifier: BSD-3-Clause
 *
 * processes.hpp - processes that a test starts, waits for and kills; all die with it.
 */
#ifndef PROCESSES_HPP
#define PROCESSES_HPP

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <fur.hpp>
#include <iterator>
#include <optional>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace ship_test
{

enum { PATIENCE_S = 60 };

[[noreturn]] __attribute__((format(printf, 1, 2))) inline void give_up(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	throw fur::Error(FUR_ESYS, "it gives up");
}

inline pid_t start(const std::function<void()> &run)
{
	const pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		give_up("fork failed");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	try {
		run();
	} catch (const std::exception &e) {
		fprintf(stderr, "%s: child: %s\n", program_invocation_short_name, e.what());
	}
	_exit(1);
}

/* A program whose output goes to a file. */
inline pid_t start(const std::vector<std::string> &command, const std::string &output)
{
	unlink(output.c_str()); /* what an earlier one said */
	return start([&] {
		const int fd = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
		dup2(fd, STDOUT_FILENO);
		dup2(fd, STDERR_FILENO);
		std::vector<char *> args;
		for (const std::string &word : command)
			args.push_back(const_cast<char *>(word.c_str()));
		args.push_back(nullptr);
		execv(args[0], args.data());
		fprintf(stderr, "cannot run %s\n", args[0]);
	});
}

inline std::string content_of(const std::string &path)
{
	std::ifstream file(path);
	return {std::istreambuf_iterator<char>(file), {}};
}

/* Its exit status; -1 if a signal has ended it; nothing if it runs. */
inline std::optional<int> status_of(pid_t pid, int flags = WNOHANG)
{
	int status;
	if (pid <= 0)
		give_up("no such process");
	if (waitpid(pid, &status, flags) != pid)
		return {};
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

inline void end(pid_t *pid, int signal = SIGKILL)
{
	if (*pid <= 0)
		return;
	kill(*pid, signal);
	(void)status_of(*pid, 0);
	*pid = -1;
}

/* Until done(): a second passes at most PATIENCE_S times. */
template <class Done>
void await(const char *what, Done &&done)
{
	for (unsigned k = 0; !done(); k++) {
		if (k > PATIENCE_S * 1000u)
			give_up("%s takes too long", what);
		usleep(1000);
	}
}

} // namespace ship_test

#endif
