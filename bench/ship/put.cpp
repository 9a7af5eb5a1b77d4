/* SPDX-License-Identifier: BSD-3-Clause
 *
 * put.cpp - one small value after the other to Redis or etcd, by clients that each wait until it is
 * on another node as well: for peers.py.
 */
#include "../../tools/common/command_line.hpp"
#include "../../tools/common/json.hpp"
#include "../common/histogram.hpp"
#include "../common/output.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdexcept>
#include <string>
#include <strings.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

using Clock = std::chrono::steady_clock;

enum : uint64_t { KEYS = 64, BYTES = 64 }; /* of each client; of a value */

struct Settings {
	std::string server = "redis", json;
	uint64_t port = 0, clients = 1;
	double seconds = 1;
};

std::runtime_error failed(const char *what)
{
	return std::runtime_error(std::string(what) + ": " + strerror(errno));
}

/* A connection to a port of this machine. */
class Connection
{
public:
	explicit Connection(uint64_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0))
	{
		sockaddr_in to = {};
		to.sin_family = AF_INET;
		to.sin_port = htons(static_cast<uint16_t>(port));
		to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		const int on = 1;
		if (fd_ < 0 || connect(fd_, reinterpret_cast<sockaddr *>(&to), sizeof to) ||
		        setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)) {
			const auto error = failed("cannot connect");
			if (fd_ >= 0)
				close(fd_);
			throw error;
		}
	}
	~Connection()
	{
		close(fd_);
	}
	Connection(const Connection &) = delete;
	void write(const std::string &text)
	{
		for (size_t sent = 0; sent < text.size();) {
			const ssize_t n =
			        send(fd_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
			if (n < 0)
				throw failed("cannot send");
			sent += static_cast<size_t>(n);
		}
	}
	/* Without its end. */
	std::string line()
	{
		size_t end;
		while ((end = got_.find("\r\n")) == std::string::npos)
			receive();
		return take(end, 2);
	}
	std::string bytes(size_t n)
	{
		while (got_.size() < n)
			receive();
		return take(n, 0);
	}

private:
	void receive()
	{
		char some[4096];
		const ssize_t n = recv(fd_, some, sizeof some, 0);
		if (n < 0)
			throw failed("cannot receive");
		if (n == 0)
			throw std::runtime_error("the server has closed the connection");
		got_.append(some, static_cast<size_t>(n));
	}
	std::string take(size_t n, size_t more)
	{
		std::string text = got_.substr(0, n);
		got_.erase(0, n + more);
		return text;
	}
	int fd_;
	std::string got_;
};

/* ------------------------------------------------------------------ the two servers */

std::string key_of(uint64_t client, uint64_t n)
{
	return "c" + std::to_string(client) + "." + std::to_string(n % KEYS);
}

std::string value_of(uint64_t n)
{
	std::string text = std::to_string(n);
	return std::string(BYTES - text.size(), '0') + text;
}

std::string base64(const std::string &text)
{
	static const char digits[] =
	        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	std::string out;
	for (size_t k = 0; k < text.size(); k += 3) {
		unsigned three = 0;
		for (size_t n = k; n < k + 3; n++)
			three = three << 8 | (n < text.size() ? static_cast<uint8_t>(text[n]) : 0);
		for (unsigned n = 0; n < 4; n++)
			out += k + n > text.size() ? '=' : digits[three >> (18 - 6 * n) & 63];
	}
	return out;
}

/* SET and WAIT in one packet: WAIT answers when the replica has it. */
void put_redis(Connection &to, uint64_t client, uint64_t n)
{
	const std::string key = key_of(client, n);
	to.write("*3\r\n$3\r\nSET\r\n$" + std::to_string(key.size()) + "\r\n" + key + "\r\n$" +
	         std::to_string(BYTES) + "\r\n" + value_of(n) +
	         "\r\n*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$1\r\n0\r\n");
	const std::string set = to.line(), wait = to.line();
	if (set != "+OK" || wait != ":1")
		throw std::runtime_error("Redis answers '" + set + "' and '" + wait + "'");
}

/* A line of HTTP's that tells the length of what follows; else `length` as it is. */
size_t length_in(const std::string &line, size_t length)
{
	static const char name[] = "content-length:";
	return strncasecmp(line.c_str(), name, sizeof name - 1)
	               ? length
	               : std::stoul(line.substr(sizeof name - 1));
}

/* By etcd's gateway from JSON to its own protocol: it answers when most members have it. */
void put_etcd(Connection &to, uint64_t client, uint64_t n)
{
	const std::string body = R"({"key":")" + base64(key_of(client, n)) + R"(","value":")" +
	                         base64(value_of(n)) + R"("})";
	to.write("POST /v3/kv/put HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	         "Content-Length: " +
	         std::to_string(body.size()) + "\r\n\r\n" + body);
	const std::string status = to.line();
	size_t length = 0;
	for (std::string line = to.line(); !line.empty(); line = to.line())
		length = length_in(line, length);
	const std::string answer = to.bytes(length);
	if (status != "HTTP/1.1 200 OK" || answer.find("\"revision\"") == std::string::npos)
		throw std::runtime_error("etcd answers '" + status + "' " + answer);
}

/* ------------------------------------------------------------------------ the clients */

class Client
{
public:
	Client(const Settings &s, uint64_t number) : s_(s), number_(number), to_(s.port)
	{
		put();
	}
	void run()
	{
		const auto begun = Clock::now();
		const std::chrono::duration<double> length(s_.seconds);
		auto ended = begun;
		try {
			do {
				const auto t = ended;
				put();
				ended = Clock::now();
				times.add(static_cast<uint64_t>((ended - t).count()));
			} while (ended - begun < length);
		} catch (...) {
			error = std::current_exception();
		}
	}
	bench::Histogram times;
	std::exception_ptr error;

private:
	void put()
	{
		s_.server == "redis" ? put_redis(to_, number_, n_) : put_etcd(to_, number_, n_);
		n_++;
	}
	const Settings &s_;
	uint64_t number_, n_ = 0;
	Connection to_;
};

tools::Json run(const Settings &s)
{
	std::vector<std::unique_ptr<Client>> clients;
	for (uint64_t k = 0; k < s.clients; k++)
		clients.push_back(std::make_unique<Client>(s, k));
	std::vector<std::thread> threads;
	for (auto &client : clients)
		threads.emplace_back([&client] { client->run(); });
	for (std::thread &t : threads)
		t.join();
	bench::Histogram times;
	double per_second = 0;
	for (const auto &client : clients) {
		if (client->error)
			std::rethrow_exception(client->error);
		/* A client's own time is that of its puts, one after the other. */
		per_second += 1e9 / client->times.mean();
		times.add(client->times);
	}
	const auto us = [&](double share) {
		return static_cast<double>(times.quantile(share)) / 1000;
	};
	return {{"workload", "put"}, {"server", s.server}, {"clients", s.clients},
	        {"seconds", s.seconds}, {"commits", times.count()},
	        {"commits_per_second", per_second}, {"p50_us", us(0.5)}, {"p99_us", us(0.99)}};
}

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	tools::CommandLine line(
	        "put", "Small values to Redis or etcd, each on another node before the next.");
	line.option("--server", s.server, "what serves at the port").one_of({"redis", "etcd"});
	line.option("--port", s.port, "of this machine").required().range(1, 65535);
	line.option("--clients", s.clients, "each with a connection and a thread").range(1, 64);
	line.option("--seconds", s.seconds, "length of the run").range(0.01L, 600);
	line.option("--json", s.json, "write the result there; - is standard output");
	if (auto status = tools::parse_or_exit_status(line, "put", argc, argv))
		return *status;
	try {
		const tools::Json r = run(s);
		if (s.json != "-")
			printf("%.6g puts per second, p50 %.6g us, p99 %.6g us\n",
			        r["commits_per_second"].get<double>(), r["p50_us"].get<double>(),
			        r["p99_us"].get<double>());
		if (!s.json.empty())
			bench::write_json(s.json, r);
	} catch (const std::exception &e) {
		std::cerr << "put: " << e.what() << "\n";
		return 1;
	}
	return 0;
}
