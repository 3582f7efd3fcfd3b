/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/tcp.h"

#include "tools/interrupt.h"

#include <algorithm>
#include <cstring>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <vector>

namespace usdma::perf {

static constexpr int patience_s = 10;

bool split_address(const std::string &text, std::string *host, std::string *port)
{
	const size_t end = text.starts_with('[') ? text.find(']') : text.find(':');
	const bool bare = end == text.npos || (text[0] != '[' && text.find(':', end + 1) != text.npos);
	const size_t behind = bare ? text.size() : end + (text[end] == ']');

	*host = bare ? text : text[0] == '[' ? text.substr(1, end - 1) : text.substr(0, end);
	*port = behind < text.size() ? text.substr(behind + 1) : std::to_string(tcp_port);
	return !host->empty() && host->find_first_of("[]") == host->npos &&
	       (behind == text.size() || text[behind] == ':') && !port->empty() && port->size() <= 5 &&
	       port->find_first_not_of("0123456789") == port->npos && std::stoul(*port) <= 65535;
}

static std::runtime_error tcp_error(const std::string &what, int err)
{
	return std::runtime_error(fmt::format("{}: {}", what, strerror(err)));
}

struct address_list {
	address_list(const std::string &text, int flags)
	{
		std::string host, port;
		addrinfo hints = {};

		hints.ai_socktype = SOCK_STREAM;
		hints.ai_flags = flags | AI_NUMERICSERV;
		if (!split_address(text, &host, &port))
			throw std::runtime_error(text + ": not an address");
		if (const int err = getaddrinfo(host.c_str(), port.c_str(), &hints, &first))
			throw std::runtime_error(fmt::format("{}: {}", text, gai_strerror(err)));
	}
	~address_list() { freeaddrinfo(first); }
	address_list(const address_list &) = delete;

	addrinfo *first = nullptr;
};

tcp_link::tcp_link(unique_fd fd) : fd_(std::move(fd))
{
	const timeval patience = {patience_s, 0};
	const int one = 1;

	if (setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) ||
	    setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		throw tcp_error("connection", errno);
}

tcp_link tcp_link::connect(const std::string &address)
{
	const address_list to(address, 0);
	int err = 0;

	for (const addrinfo *a = to.first; a; a = a->ai_next) {
		tcp_link link(unique_fd(socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0)));

		/* SO_SNDTIMEO limits this, too: then EINPROGRESS. */
		if (!::connect(link.fd_.get(), a->ai_addr, a->ai_addrlen))
			return link;
		err = errno == EINPROGRESS ? ETIMEDOUT : errno;
	}
	throw std::runtime_error(fmt::format("{}: {}: does \"usdma-perf --net-listen\" run there, and do firewalls let "
					     "its port through?",
					     address, strerror(err)));
}

void tcp_link::send(const void *data, size_t len)
{
	const char *at = static_cast<const char *>(data);

	while (len) {
		const ssize_t n = ::send(fd_.get(), at, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR && !tool::interrupted())
			continue;
		if (n < 0)
			throw tcp_error("the other machine", errno == EAGAIN ? ETIMEDOUT : errno);
		at += n;
		len -= size_t(n);
	}
}

size_t tcp_link::receive_some(void *data, size_t len)
{
	for (;;) {
		const ssize_t n = recv(fd_.get(), data, len, 0);

		if (n >= 0)
			return size_t(n);
		if (errno != EINTR || tool::interrupted())
			throw tcp_error("the other machine", errno == EAGAIN ? ETIMEDOUT : errno);
	}
}

bool tcp_link::receive_first(void *data, size_t len)
{
	const size_t n = receive_some(data, len);

	if (n && n < len)
		receive(static_cast<char *>(data) + n, len - n);
	return n;
}

void tcp_link::receive(void *data, size_t len)
{
	char *at = static_cast<char *>(data);

	while (len) {
		const size_t n = receive_some(at, len);

		if (!n)
			throw tcp_error("the other machine", ECONNRESET);
		at += n;
		len -= n;
	}
}

static std::vector<char> &buffer()
{
	static std::vector<char> all(MiB);

	return all;
}

void tcp_link::send_bytes(u64 len)
{
	for (u64 n; len; len -= n) {
		n = std::min<u64>(len, buffer().size());
		send(buffer().data(), n);
	}
}

void tcp_link::drop_bytes(u64 len)
{
	for (u64 n; len; len -= n) {
		n = receive_some(buffer().data(), std::min<u64>(len, buffer().size()));
		if (!n)
			throw tcp_error("the other machine", ECONNRESET);
	}
}

tcp_listener::tcp_listener(const std::string &address)
{
	const address_list at(address, AI_PASSIVE);
	const int one = 1;

	fd_.reset(socket(at.first->ai_family, at.first->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (!fd_.valid() || setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd_.get(), at.first->ai_addr, at.first->ai_addrlen) || listen(fd_.get(), 1))
		throw tcp_error(address, errno);
}

unique_fd tcp_listener::accept()
{
	pollfd p = {fd_.get(), POLLIN, 0};

	while (!tool::interrupted()) {
		if (poll(&p, 1, 200) <= 0)
			continue;
		unique_fd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
		if (fd.valid())
			return fd;
	}
	return unique_fd();
}

unsigned tcp_listener::port() const
{
	sockaddr_storage a = {};
	socklen_t len = sizeof(a);
	char port[8] = "";

	if (getsockname(fd_.get(), reinterpret_cast<sockaddr *>(&a), &len) ||
	    getnameinfo(reinterpret_cast<sockaddr *>(&a), len, nullptr, 0, port, sizeof(port), NI_NUMERICSERV))
		throw tcp_error("the port", errno);
	return unsigned(atoi(port));
}

} // namespace usdma::perf
