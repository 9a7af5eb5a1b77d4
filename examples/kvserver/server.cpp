/* SPDX-License-Identifier: BSD-3-Clause
 *
 * server.cpp - the rounds (server.hpp).
 */
#include "server.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <system_error>
#include <time.h>
#include <unistd.h>

namespace kv
{

namespace
{

enum { SWEEP_MS = 100 };

int64_t now_ns()
{
	using namespace std::chrono;
	return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

int checked(int result, const char *what)
{
	if (result < 0)
		throw std::system_error(errno, std::generic_category(), what);
	return result;
}

/* Clients, so that descriptors are left for other files. */
size_t most_clients()
{
	enum : size_t { MOST = 10000, SPARE = 32 };
	rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur <= SPARE)
		return 1;
	return std::min<size_t>(MOST, limit.rlim_cur - SPARE);
}

int stop_signals()
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, nullptr);
	return checked(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC), "signalfd");
}

} // namespace

Server::Server(fur_thread *self, Database *db, const Settings &settings)
    : self_(self), sweep_(db), requests_(facts_), round_(self, db, requests_, facts_),
      most_clients_(most_clients())
{
	facts_.always = settings.always;
	facts_.started = now_ms();
	/* By default, a sleep may take 50 microseconds longer than gather() asks. */
	prctl(PR_SET_TIMERSLACK, 1000UL);
	epoll_ = checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
	signals_ = stop_signals();
	watch(signals_, EPOLL_CTL_ADD, EPOLLIN, &signals_);
	listen(settings);
	watch(listener_, EPOLL_CTL_ADD, EPOLLIN, &listener_);
}

Server::~Server()
{
	for (int fd : {epoll_, listener_, signals_})
		if (fd >= 0)
			close(fd);
}

void Server::listen(const Settings &settings)
{
	sockaddr_in address{};
	address.sin_family = AF_INET;
	address.sin_port = htons(settings.port);
	if (inet_pton(AF_INET, settings.address.c_str(), &address.sin_addr) != 1)
		throw std::system_error(EINVAL, std::generic_category(), settings.address);
	const int on = 1;
	socklen_t bytes = sizeof address;
	auto *any = reinterpret_cast<sockaddr *>(&address);
	listener_ =
	        checked(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
	setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	checked(bind(listener_, any, bytes), "bind");
	checked(::listen(listener_, 511), "listen");
	checked(getsockname(listener_, any, &bytes), "getsockname");
	facts_.port = ntohs(address.sin_port);
}

void Server::watch(int fd, int how, uint32_t events, void *what)
{
	epoll_event event{};
	event.events = events;
	event.data.ptr = what;
	checked(epoll_ctl(epoll_, how, fd, &event), "epoll_ctl");
}

/* --------------------------------------------------------------------- input */

void Server::accept_clients()
{
	for (;;) {
		const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		auto client = std::make_unique<Connection>(fd);
		if (clients_.size() >= most_clients_) {
			Reply(client->out).error("ERR max number of clients reached");
			client->send();
			continue;
		}
		const int on = 1;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		watch(fd, EPOLL_CTL_ADD, EPOLLIN, client.get());
		clients_.emplace(client.get(), std::move(client));
		facts_.clients = clients_.size();
	}
}

void Server::receive(Connection &c)
{
	if (!c.receive())
		return drop(c);
	requests_.take(c);
}

/* Read once from each client that has sent something. */
void Server::collect(int timeout_ms)
{
	enum { EVENTS = 1024 };
	epoll_event events[EVENTS];
	const int n = epoll_wait(epoll_, events, EVENTS, timeout_ms);
	for (int k = 0; k < n; k++) {
		void *what = events[k].data.ptr;
		auto *client = static_cast<Connection *>(what);
		if (what == &listener_)
			accept_clients();
		else if (what == &signals_)
			stops_ = true;
		else if (client->in_round)
			continue; /* its requests are views of its input */
		else if (events[k].events & EPOLLOUT)
			send(*client);
		else
			receive(*client);
	}
}

void Server::gather()
{
	int64_t now = now_ns();
	gather_.begin(now);
	while (const int64_t ns = gather_.nap(now, requests_.clients().size())) {
		const timespec time = {0, ns};
		nanosleep(&time, nullptr);
		collect(0);
		now = now_ns();
	}
}

/* -------------------------------------------------------------------- output */

void Server::drop(Connection &c)
{
	clients_.erase(&c);
	facts_.clients = clients_.size();
}

/* A client whose replies the socket does not take is not read until it does. */
void Server::send(Connection &c)
{
	if (!c.send() || (c.closing && c.has_sent()))
		return drop(c);
	if (c.has_sent() == c.waits_to_send) {
		c.waits_to_send = !c.waits_to_send;
		watch(c.fd, EPOLL_CTL_MOD, c.waits_to_send ? EPOLLOUT : EPOLLIN, &c);
	}
}

void Server::answer()
{
	const bool waits = requests_.write() && facts_.always;
	if (waits)
		gather();
	fur_ticket ticket = {0, 0};
	round_.run(ticket);
	facts_.rounds++;
	if (facts_.always && ticket.source) {
		const int64_t began = now_ns();
		fur::wait(self_, ticket);
		if (waits)
			gather_.end(requests_.clients().size(), now_ns() - began);
	}
	answered_ = requests_.clients();
	requests_.clear();
	for (Connection *c : answered_)
		send(*c);
}

/* --------------------------------------------------------------------- rounds */

void Server::sweep()
{
	const int64_t now = now_ms();
	if (!busy_ && now < swept_ + SWEEP_MS)
		return;
	swept_ = now;
	const bool expires = sweep_.expire(self_), frees = sweep_.free_dropped(self_);
	busy_ = expires || frees;
}

void Server::run()
{
	while (!stops_) {
		collect(busy_ ? 0 : SWEEP_MS);
		if (!requests_.units().empty())
			answer();
		sweep();
	}
}

} // namespace kv
