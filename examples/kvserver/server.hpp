/* SPDX-License-Identifier: BSD-3-Clause
 *
 * server.hpp - one thread that serves all clients, in rounds:
 *
 *     1. wait until clients have sent something, and read once from each of those
 *     2. gather: if commands among it change the store, wait for more clients, for a moment
 *     3. run all requests in one transaction
 *     4. --fsync always: wait until it is durable
 *     5. send the replies
 */
#ifndef KVSERVER_SERVER_HPP
#define KVSERVER_SERVER_HPP

#include "gather.hpp"
#include "round.hpp"

#include <memory>
#include <string>
#include <unordered_map>

namespace kv
{

struct Settings {
	std::string address = "127.0.0.1";
	uint16_t port = 6379;
	bool always = true;
};

class Server
{
public:
	/* Listens.   Errors: std::system_error. */
	Server(fur_thread *self, Database *db, const Settings &settings);
	~Server();
	Server(const Server &) = delete;
	Server &operator=(const Server &) = delete;

	uint16_t port() const
	{
		return facts_.port;
	}
	/* run - serve until SIGINT or SIGTERM.   Errors: fur::Error: the heap has failed. */
	void run();

private:
	void listen(const Settings &settings);
	void watch(int fd, int how, uint32_t events, void *what);
	void collect(int timeout_ms);
	void accept_clients();
	void receive(Connection &c);
	void gather();
	void answer();
	void send(Connection &c);
	void drop(Connection &c);
	void sweep();

	fur_thread *self_;
	Sweep sweep_;
	Facts facts_{};
	Requests requests_;
	Round round_;
	Gather gather_;
	int epoll_ = -1, listener_ = -1, signals_ = -1;
	bool stops_ = false, busy_ = false; /* busy_: the sweep has more to do */
	int64_t swept_ = 0;
	size_t most_clients_;
	std::vector<Connection *> answered_; /* in this round; some may be gone */
	std::unordered_map<Connection *, std::unique_ptr<Connection>> clients_;
};

} // namespace kv

#endif /* KVSERVER_SERVER_HPP */
