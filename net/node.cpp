/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/node.h"

#include "driver/base/error.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

namespace usdma::net {

static constexpr u64 tend_ms = 100, spin_us = 20, ping_mark = u64(1) << 63;

int node::watch(int fd, u64 what, u32 how, bool change)
{
	epoll_event e = {};

	e.events = how;
	e.data.u64 = what;
	return epoll_ctl(epoll_.get(), change ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e) ? fail_errno("epoll") : 0;
}

int node::open(int end_fd)
{
	epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
	if (!epoll_.valid())
		return fail_errno("epoll");
	int err = ucx_.open();
	if (!err)
		err = watch(ucx_.event_fd(), tag_ucx, EPOLLIN);
	/* A file or /dev/null has no end to wait for. */
	if (!err && end_fd >= 0 && watch(end_fd, tag_end, EPOLLIN) == -EPERM)
		error_clear();
	return err;
}

/* ---- connections ------------------------------------------------------------------------------------- */

int node::start(int fd, const sockaddr_storage &peer, side me, bytes stream, size_t *index)
{
	const auto at = std::find(connections_.begin(), connections_.end(), nullptr);
	std::unique_ptr<connection> c = std::make_unique<connection>();
	identity who = {&key_, {}, ucx_.address(), to_.listens, to_.arg};
	const u8 *token;
	const int one = 1;

	c->fd.reset(fd);
	c->peer = peer;
	c->me = me;
	c->since = now_ns();
	memcpy(who.host, opt_.host, id_len);
	if (const int err = ucx_.slot_take(&c->slot, &token))
		return err;
	failures_[c->slot] = 0;
	c->talk.emplace(me, who, token, stream);
	if (me == side::server && count(&connection::is_peer) >= peers_most)
		c->talk->set_full();
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*index = size_t(at - connections_.begin());
	if (const int err = watch(fd, tag_connection + *index, me == side::client ? EPOLLOUT : EPOLLIN)) {
		ucx_.slot_give(c->slot);
		return err;
	}
	if (at == connections_.end())
		connections_.emplace_back();
	connections_[*index] = std::move(c);
	return 0;
}

size_t node::count(bool (connection::*is)() const) const
{
	return size_t(std::count_if(connections_.begin(), connections_.end(),
				    [=](const auto &c) { return c && (c.get()->*is)(); }));
}

void node::drop(size_t index, int err)
{
	const std::unique_ptr<connection> c = std::move(connections_[index]);

	failures_[c->slot] = err;
	if ((c->is_peer() || c->me == side::client) && to_.gone)
		to_.gone(to_.arg, c->slot, address_text(c->peer), err);
	/* UCX ends what is in flight. */
	ucx_.slot_give(c->slot);
}

void node::drop_oldest_stranger()
{
	size_t oldest = connections_.size();

	for (size_t i = 0; i < connections_.size(); i++)
		if (connections_[i] && connections_[i]->is_stranger() &&
		    (oldest == connections_.size() || connections_[i]->since < connections_[oldest]->since))
			oldest = i;
	if (oldest < connections_.size())
		drop(oldest, fail(ETIMEDOUT, "others came"));
}

/* ---- listening --------------------------------------------------------------------------------------- */

static int bind_to(int fd, sockaddr_storage a, u16 port)
{
	port_set(&a, port);
	return bind(fd, reinterpret_cast<const sockaddr *>(&a), length_of(a)) ? -errno : 0;
}

static unique_fd new_socket(int family)
{
	return unique_fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int node::listen(u16 *port)
{
	const u16 last = *port ? *port : opt_.local.control_last();
	const int one = 1;
	int err = -EADDRINUSE;

	for (u32 p = *port ? *port : opt_.local.first; p <= last && err == -EADDRINUSE; p++) {
		listener_ = new_socket(opt_.local.family());
		if (!listener_.valid())
			return fail_errno("socket");
		setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		err = bind_to(listener_.get(), opt_.local.address, u16(p));
		if (!err && ::listen(listener_.get(), int(strangers_most)))
			err = -errno;
		*port = u16(p);
	}
	if (err)
		return fail(-err, "cannot listen at %s port %u: %s (the setting net has other ports behind a colon)",
			    address_text(opt_.local.address).c_str(), *port, strerror(-err));
	return watch(listener_.get(), tag_listener, EPOLLIN);
}

void node::accept_all()
{
	for (;;) {
		sockaddr_storage peer = {};
		socklen_t length = sizeof(peer);
		size_t index;
		const int fd = accept4(listener_.get(), reinterpret_cast<sockaddr *>(&peer), &length,
				       SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR))
			return;
		/* No descriptor, no memory: as if this one had come later. */
		if (fd < 0) {
			drop_oldest_stranger();
			deaf_ = true;
			epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
			return;
		}
		if (count(&connection::is_stranger) >= strangers_most)
			drop_oldest_stranger();
		start(fd, peer, side::server, {}, &index);
	}
}

/* ---- the handshake ----------------------------------------------------------------------------------- */

int node::connect_begin(const sockaddr_storage &to, u32 *slot, bytes stream)
{
	unique_fd fd = new_socket(to.ss_family);
	size_t index;

	if (!fd.valid())
		return fail_errno("socket");
	if (const int err = bind_to(fd.get(), opt_.local.address, 0))
		return fail(-err, "%s: %s", address_text(opt_.local.address).c_str(), strerror(-err));
	if (::connect(fd.get(), reinterpret_cast<const sockaddr *>(&to), length_of(to)) && errno != EINPROGRESS)
		return fail_errno("no connection");
	if (const int err = start(fd.release(), to, side::client, stream, &index))
		return err;
	connections_[index]->connecting = true;
	*slot = connections_[index]->slot;
	return 0;
}

int node::connect(const sockaddr_storage &to, u32 *slot)
{
	const auto is_it = [=](const auto &c) { return c && c->slot == *slot; };

	if (const int err = connect_begin(to, slot))
		return err;
	const size_t index = size_t(std::find_if(connections_.begin(), connections_.end(), is_it) -
				    connections_.begin());
	while (!lost(*slot) && !connections_[index]->is_peer())
		if (const int err = turn(deadline::in_ms(tend_ms)))
			return err;
	return lost(*slot);
}

int node::set_source(int fd, void (*ready)(void *arg), void *arg)
{
	source_ = ready;
	source_arg_ = arg;
	return watch(fd, tag_source, EPOLLIN);
}

int node::say(connection &c)
{
	while (!c.talk->output().empty()) {
		const bytes out = c.talk->output();
		const ssize_t n = send(c.fd.get(), out.data(), out.size(), MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : fail_errno("the peer has closed the connection");
		c.talk->sent(size_t(n));
	}
	return 0;
}

int node::hear(connection &c)
{
	u8 in[sizeof(offer) + address_most];

	while (!c.talk->done()) {
		const ssize_t n = recv(c.fd.get(), in, std::min(c.talk->needs(), sizeof(in)), 0);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : fail_errno("the peer has closed the connection");
		if (!n)
			return fail(ECONNRESET, "the peer has closed the connection");
		if (const int err = c.talk->take({in, size_t(n)}))
			return err;
	}
	return 0;
}

/* The handshake is over. */
int node::welcome(size_t index)
{
	connection &c = *connections_[index];
	u8 host[id_len];

	if (const int err = ucx_.slot_connect(c.slot, c.talk->peer_address(), c.talk->peer_token()))
		return err;
	memcpy(host, c.talk->peer_host(), id_len);
	c.talk.reset();
	if (to_.come)
		to_.come(to_.arg, c.slot, address_text(c.peer), host);
	return watch(c.fd.get(), tag_connection + index, EPOLLIN, true);
}

/* From here on it is the programs'. */
int node::hand_over(size_t index)
{
	const std::unique_ptr<connection> c = std::move(connections_[index]);

	epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, c->fd.get(), nullptr);
	if (to_.stream)
		to_.stream(to_.arg, c->slot, c->me, c->talk->peer_address(), std::move(c->fd));
	ucx_.slot_give(c->slot);
	return 0;
}

int node::converse(size_t index)
{
	connection &c = *connections_[index];
	const int err = hear(c);

	/* A refusal is said, too, as far as it can be at once. */
	if (const saved_error text; err) {
		say(c);
		return text.again(err);
	}
	if (const int failed = say(c))
		return failed;
	if (!c.talk->output().empty())
		return watch(c.fd.get(), tag_connection + index, EPOLLIN | EPOLLOUT, true);
	if (c.talk->done())
		return c.talk->is_stream() ? hand_over(index) : welcome(index);
	return watch(c.fd.get(), tag_connection + index, EPOLLIN, true);
}

/* Of a connection that connect() began. */
static int connected(int fd)
{
	int err = 0;
	socklen_t length = sizeof(err);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &length))
		err = errno;
	return err ? fail(err, "no connection: %s", strerror(err)) : 0;
}

/* A peer has nothing more to say here. */
static int still_there(int fd)
{
	u8 c;
	const ssize_t n = recv(fd, &c, sizeof(c), 0);

	if (n > 0)
		return fail(EPROTO, "the peer says more than it may");
	if (!n || (errno != EAGAIN && errno != EINTR))
		return fail(ECONNRESET, "the peer has ended");
	return 0;
}

void node::on_connection(size_t index, u32 how)
{
	connection &c = *connections_[index];
	int err = 0;

	if (c.connecting && how & (EPOLLOUT | EPOLLERR | EPOLLHUP)) {
		err = connected(c.fd.get());
		c.connecting = false;
	}
	if (!err)
		err = c.is_peer() ? still_there(c.fd.get()) : converse(index);
	if (err)
		drop(index, err);
}

/* ---- time -------------------------------------------------------------------------------------------- */

int node::tend_one(connection &c, u64 now)
{
	const u64 lost = opt_.lost_ms * ns_per_ms;

	if (!c.is_peer()) {
		const char *const what = c.connecting ? "no answer to the connection" : "no answer of usdma-net";

		return now - c.since < handshake_ms * ns_per_ms ? 0 :
								  fail(ETIMEDOUT, "%s within %llu ms", what,
								       static_cast<unsigned long long>(handshake_ms));
	}
	if (const int err = ucx_.slot_error(c.slot))
		return err;
	const u64 heard = ucx_.slot_heard(c.slot), silent = now > heard ? now - heard : 0;
	if (silent > lost)
		return fail(ETIMEDOUT, "the peer has not answered for %u ms (net_lost_ms)", opt_.lost_ms);
	if (silent < lost / 3 || now - c.pinged < lost / 3)
		return 0;
	c.pinged = now;
	return ucx_.send(c.slot, message::ping, ping_mark);
}

void node::tend()
{
	const u64 now = now_ns();

	if (now - tended_ < tend_ms * ns_per_ms)
		return;
	tended_ = now;
	for (size_t i = 0; i < connections_.size(); i++)
		if (connections_[i])
			if (const int err = tend_one(*connections_[i], now))
				drop(i, err);
	if (deaf_ && !watch(listener_.get(), tag_listener, EPOLLIN))
		deaf_ = false;
}

/* ---- the loop ---------------------------------------------------------------------------------------- */

void node::on_event(u64 what, u32 how)
{
	if (what == tag_listener)
		accept_all();
	else if (what == tag_end)
		ended_ = true;
	else if (what == tag_source)
		source_(source_arg_);
	else if (what >= tag_connection && what - tag_connection < connections_.size() &&
		 connections_[what - tag_connection])
		on_connection(what - tag_connection, how);
}

/* True: there was some. It does not sleep within spin_us of the last: the next is likely near. */
bool node::work()
{
	static constexpr unsigned at_a_time = 256;
	unsigned n = 0;

	while (n < at_a_time && ucx_.progress())
		n++;
	if (n)
		worked_ = now_ns();
	return n || now_ns() - worked_ < spin_us * ns_per_us;
}

int node::turn(deadline until)
{
	epoll_event found[16];
	const bool busy = work() || !ucx_.arm();
	const int n = epoll_wait(epoll_.get(), found, std::size(found), busy ? 0 : until.left_ms(int(tend_ms)));

	for (int i = 0; i < n; i++)
		on_event(found[i].data.u64, found[i].events);
	tend();
	return ended_ ? fail(ECANCELED, "the program that wanted this has ended") : 0;
}

} // namespace usdma::net
