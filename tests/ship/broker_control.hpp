/* SPDX-License-Identifier: BSD-3-Clause
 *
 * broker_control.hpp - ask brokers.py to do something to its nodes.
 */
#ifndef BROKER_CONTROL_HPP
#define BROKER_CONTROL_HPP

#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace kafka_test
{

/* "kill 2", "wait"; returns the answer: "ok", or "failed: ...". */
inline std::string ask_brokers(const std::string &what)
{
	const char *const path = getenv("FUR_KAFKA_CONTROL");
	if (!path)
		return "failed: run it by brokers.py";
	sockaddr_un to = {};
	to.sun_family = AF_UNIX;
	strncpy(to.sun_path, path, sizeof to.sun_path - 1);
	const int s = socket(AF_UNIX, SOCK_STREAM, 0);
	const std::string line = what + "\n";
	std::string answer;
	char c;
	if (connect(s, reinterpret_cast<sockaddr *>(&to), sizeof to) == 0 &&
	        write(s, line.data(), line.size()) == static_cast<ssize_t>(line.size()))
		while (read(s, &c, 1) == 1 && c != '\n')
			answer += c;
	close(s);
	return answer;
}

} // namespace kafka_test

#endif
