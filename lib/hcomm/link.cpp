/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/hcomm/link.h"

#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/peer_process.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace usdma::hcomm {

struct link::head {
	char magic[8];
	u64 kind, bytes;
};

namespace {

constexpr char magic[8] = "usdmaL1";
constexpr size_t packet = 32 << 10, most = 64 * MiB;
constexpr int retry_ms = 10; /* for a socket that is not there yet */

socklen_t address_of(const std::string &name, sockaddr_un *at)
{
	*at = {};
	at->sun_family = AF_UNIX;
	memcpy(at->sun_path + 1, name.data(), name.size()); /* after a 0: an abstract name */
	return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

unique_fd make_socket()
{
	return unique_fd(fd_above_stdio(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
}

HcclResult no_socket()
{
	return because(HCCL_E_SYSCALL, "no socket: %s", strerrordesc_np(errno));
}

bool try_again()
{
	return errno == EAGAIN || errno == EINTR;
}

} // namespace

void link::set_name(bool accepts, parts name)
{
	name_ = hccl_comm::fixed_root(name).name;
	accepts_ = accepts;
}

void link::begin(u32 kind, std::string out)
{
	kind_ = kind;
	out_ = std::move(out);
	in_.clear();
	sent_ = got_ = 0;
	sent_head_ = got_head_ = false;
}

void link::reset()
{
	fd_.reset();
	process_.reset();
	listening_.reset();
	met_ = false;
}

/* Another program's connection is dropped. */
bool link::take(unique_fd fd)
{
	ucred who{};
	socklen_t len = sizeof(who);

	if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &len) || who.uid != geteuid())
		return false;
	pid_ = who.pid;
	process_.reset(peer_process(fd.get()));
	fd_ = std::move(fd);
	return true;
}

/* The name may still be that of another pair. */
HcclResult link::listen_once()
{
	sockaddr_un at;
	const socklen_t len = address_of(name_, &at);
	unique_fd fd = make_socket();

	if (!fd.valid())
		return no_socket();
	if (bind(fd.get(), reinterpret_cast<sockaddr *>(&at), len))
		return errno == EADDRINUSE ? HCCL_E_AGAIN : no_socket();
	if (listen(fd.get(), 4))
		return no_socket();
	listening_ = std::move(fd);
	return HCCL_SUCCESS;
}

HcclResult link::accept_once()
{
	if (!listening_.valid())
		if (HcclResult ret = listen_once())
			return ret;
	unique_fd fd(fd_above_stdio(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
	return fd.valid() && take(std::move(fd)) ? HCCL_SUCCESS : HCCL_E_AGAIN;
}

HcclResult link::connect_once()
{
	sockaddr_un at;
	const socklen_t len = address_of(name_, &at);
	unique_fd fd = make_socket();

	if (!fd.valid())
		return no_socket();
	if (connect(fd.get(), reinterpret_cast<sockaddr *>(&at), len))
		return errno == ECONNREFUSED || try_again() ? HCCL_E_AGAIN : no_socket();
	return take(std::move(fd)) ? HCCL_SUCCESS : HCCL_E_AGAIN;
}

/* Before the first message it may have been a side that gave up, or another program: the right one may come. */
HcclResult link::broken()
{
	fd_.reset();
	if (met_)
		return because(HCCL_E_REMOTE, "the other side is lost, or failed");
	begin(kind_, std::move(out_));
	return HCCL_E_AGAIN;
}

bool link::send_some()
{
	while (!is_sent()) {
		head h = {{}, kind_, out_.size()};

		memcpy(h.magic, magic, sizeof(magic));
		const void *at = sent_head_ ? static_cast<const void *>(out_.data() + sent_) : &h;
		const size_t len = sent_head_ ? std::min(packet, out_.size() - sent_) : sizeof(h);
		if (send(fd_.get(), at, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			return try_again();
		sent_ += sent_head_ ? len : 0;
		sent_head_ = true;
	}
	return true;
}

HcclResult link::receive_head()
{
	head h;
	const ssize_t n = recv(fd_.get(), &h, sizeof(h), MSG_DONTWAIT);

	if (n < 0 && try_again())
		return HCCL_E_AGAIN;
	if (n != sizeof(h) || memcmp(h.magic, magic, sizeof(magic)) || h.bytes > most)
		return broken();
	met_ = true;
	listening_.reset();
	if (h.kind != kind_)
		return because(HCCL_E_REMOTE, "the other side calls another function");
	if (!try_resize(in_, h.bytes))
		return because(HCCL_E_MEMORY, "no memory for a message");
	got_head_ = true;
	return HCCL_SUCCESS;
}

HcclResult link::receive_some()
{
	if (!got_head_)
		if (HcclResult ret = receive_head())
			return ret;
	while (got_ < in_.size()) {
		const ssize_t n = recv(fd_.get(), in_.data() + got_, in_.size() - got_, MSG_DONTWAIT);

		if (n < 0 && try_again())
			return HCCL_E_AGAIN;
		if (n <= 0)
			return broken();
		got_ += size_t(n);
	}
	return HCCL_SUCCESS;
}

HcclResult link::step()
{
	if (is_complete())
		return HCCL_SUCCESS;
	if (!fd_.valid()) {
		if (met_)
			return broken();
		if (HcclResult ret = accepts_ ? accept_once() : connect_once())
			return ret;
	}
	if (!send_some())
		return broken();
	if (!got_head_ || got_ < in_.size())
		if (HcclResult ret = receive_some())
			return ret;
	return is_complete() ? HCCL_SUCCESS : HCCL_E_AGAIN;
}

bool link::lost() const
{
	pollfd p[] = {{fd_.get(), POLLRDHUP, 0}, {process_.get(), POLLIN, 0}};

	return !fd_.valid() || poll(p, 2, 0) > 0;
}

HcclResult link::copied(HcclResult ret) const
{
	if (ret == HCCL_E_REMOTE)
		(void)shutdown(fd_.get(), SHUT_RDWR);
	return ret;
}

pollfd link::wanted() const
{
	if (is_complete())
		return {-1, 0, 0};
	return {fd_.valid() ? fd_.get() : listening_.get(),
		short(fd_.valid() && !is_sent() ? POLLIN | POLLOUT : POLLIN), 0};
}

HcclResult wait_all(link *const *links, u32 n, deadline until, const std::function<bool()> &stop)
{
	pollfd fds[hccl_comm::max_ranks];

	for (;;) {
		bool complete = true;

		for (u32 i = 0; i < n; i++) {
			const HcclResult ret = links[i]->step();

			if (ret && ret != HCCL_E_AGAIN)
				return ret;
			complete &= !ret;
			fds[i] = links[i]->wanted();
		}
		if (complete)
			return HCCL_SUCCESS;
		if (stop())
			return because(HCCL_E_UNAVAIL, "the communicator is being destroyed");
		if (until.passed())
			return because(HCCL_E_TIMEOUT, "the other side has not made this call in time");
		poll(fds, n, until.left_ms(retry_ms));
	}
}

} // namespace usdma::hcomm
