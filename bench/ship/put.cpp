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

class Server
{
public:
	explicit Server(uint64_t port) : to_(port) {}
	virtual ~Server() = default;
	Server(const Server &) = delete;
	/* Returns when another node has it. */
	virtual void put(const std::string &key, const std::string &value) = 0;

protected:
	Connection to_;
};

std::string bulk(const std::string &text)
{
	return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

/* SET and WAIT in one packet: WAIT answers when the replica has it. */
class Redis : public Server
{
public:
	using Server::Server;
	void put(const std::string &key, const std::string &value) override
	{
		to_.write("*3\r\n" + bulk("SET") + bulk(key) + bulk(value) + "*3\r\n" +
		          bulk("WAIT") + bulk("1") + bulk("0"));
		const std::string set = to_.line(), wait = to_.line();
		if (set != "+OK" || wait != ":1")
			throw std::runtime_error("Redis answers '" + set + "' and '" + wait + "'");
	}
};

/* KV.Put by gRPC, as etcd's own clients call it: the answer comes when most members have it.  The
 * little of HTTP/2 (RFC 9113) that one call after the other needs. */
class Etcd : public Server
{
public:
	explicit Etcd(uint64_t port) : Server(port)
	{
		/* The answers of a connection, altogether, may have 1 GiB. */
		to_.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, "") +
		          frame(WINDOW_UPDATE, 0, 0, number(1 << 30)));
	}
	void put(const std::string &key, const std::string &value) override
	{
		/* PutRequest: fields 1 and 2, of bytes. */
		const std::string request = "\x0a" + text(key) + "\x12" + text(value);
		stream_ += 2;
		to_.write(
		        frame(HEADERS, END_HEADERS, stream_, headers()) +
		        frame(DATA, END_STREAM, stream_, '\0' + number(request.size()) + request));
		std::string answer;
		while (!receive(answer))
			;
		/* A call that fails has no message.  5 bytes, and PutResponse's header. */
		if (answer.size() < 6 || answer[5] != '\x0a')
			throw std::runtime_error("etcd has refused a put");
	}

private:
	enum : uint8_t {
		DATA = 0,
		HEADERS = 1,
		RST_STREAM = 3,
		SETTINGS = 4,
		PING = 6,
		GOAWAY = 7,
		WINDOW_UPDATE = 8,
		ACK = 1, /* flags */
		END_STREAM = 1,
		END_HEADERS = 4,
	};
	static std::string number(uint64_t n)
	{
		std::string bytes;
		for (int shift = 24; shift >= 0; shift -= 8)
			bytes += static_cast<char>(n >> shift & 255);
		return bytes;
	}
	static uint64_t number_in(const std::string &bytes)
	{
		uint64_t n = 0;
		for (char c : bytes)
			n = n << 8 | static_cast<uint8_t>(c);
		return n;
	}
	/* Of less than 127 bytes: its length is one byte, in protobuf and in HPACK. */
	static std::string text(const std::string &of)
	{
		return static_cast<char>(of.size()) + of;
	}
	/* By HPACK's (RFC 7541) static table, and as they are: POST, http, the path. */
	static const std::string &headers()
	{
		static const std::string all = "\x83\x86\x04" + text("/etcdserverpb.KV/Put") +
		                               "\x01" + text("localhost") + "\x0f\x10" +
		                               text("application/grpc") + '\0' + text("te") +
		                               text("trailers");
		return all;
	}
	static std::string frame(
	        uint8_t type, uint8_t flags, uint64_t stream, const std::string &payload)
	{
		return number(payload.size()).substr(1) + static_cast<char>(type) +
		       static_cast<char>(flags) + number(stream) + payload;
	}
	/* One frame.  Returns whether it ends the call. */
	bool receive(std::string &answer)
	{
		const std::string head = to_.bytes(9);
		const std::string payload = to_.bytes(number_in(head.substr(0, 3)));
		const auto type = static_cast<uint8_t>(head[3]),
		           flags = static_cast<uint8_t>(head[4]);
		if ((type == SETTINGS || type == PING) && !(flags & ACK))
			to_.write(frame(type, ACK, 0, type == PING ? payload : ""));
		if (type == RST_STREAM || type == GOAWAY)
			throw std::runtime_error("etcd has ended the call");
		if (type == DATA)
			answer += payload;
		return (type == DATA || type == HEADERS) && flags & END_STREAM;
	}
	uint64_t stream_ = UINT64_MAX; /* the first call's is 1 */
};

/* ------------------------------------------------------------------------ the clients */

class Client
{
public:
	Client(const Settings &s, uint64_t number) : s_(s), number_(number)
	{
		if (s.server == "redis")
			to_ = std::make_unique<Redis>(s.port);
		else
			to_ = std::make_unique<Etcd>(s.port);
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
		to_->put(key_of(number_, n_), value_of(n_));
		n_++;
	}
	const Settings &s_;
	uint64_t number_, n_ = 0;
	std::unique_ptr<Server> to_;
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
