/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/vfio/fake_server.h"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace usdma::test {

using namespace usdma::vfio;

/* Ends a test that hangs. */
static constexpr u64 server_limit_ms = 30000;

template <class T> static T body_as(const user_message &m)
{
	T t{};

	memcpy(&t, m.body.data(), std::min(sizeof(t), m.body.size()));
	return t;
}

fake_server::fake_server(hook_fn hook) : hook_(std::move(hook))
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		abort();
	sock_.reset(pair[0]);
	client_.reset(pair[1]);
	memory = memfd_create("bar2", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ftruncate(memory, bar2_size) || fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK))
		abort();
}

fake_server::~fake_server()
{
	stop();
	close(memory);
	close(doorbell);
}

void fake_server::stop()
{
	hang_up();
	if (thread_.joinable())
		thread_.join();
}

int fake_server::attach(std::unique_ptr<device> *dev, u64 timeout_ms, server_trust trust)
{
	user_options opt;

	opt.timeout_ms = timeout_ms;
	opt.trust = trust;
	opt.name = "fake";
	thread_ = std::thread([this] { run(); });
	return user_attach(take_client(), opt, dev);
}

void fake_server::hang_up()
{
	shutdown(sock_.get(), SHUT_RDWR);
}

bool fake_server::next(user_message *m)
{
	return user_recv(sock_.get(), deadline::in_ms(server_limit_ms), server_limit_ms, m) == 0;
}

bool fake_server::pending()
{
	pollfd p = {sock_.get(), POLLIN, 0};

	return poll(&p, 1, 0) == 1 && !(p.revents & POLLHUP);
}

void fake_server::run()
{
	user_message m;

	while (next(&m)) {
		if (!hook_ || !hook_(*this, m))
			serve(m);
	}
}

void fake_server::reply(const user_message &to, const void *body, size_t len, std::span<const int> fds, u32 error)
{
	proto::header h = {to.head.id, to.head.cmd, 0, proto::type_reply, error};
	const iovec part = {const_cast<void *>(body), len};

	if (error)
		h.flags |= proto::flag_error;
	user_send(sock_.get(), h, {&part, 1}, fds, deadline::in_ms(server_limit_ms));
}

void fake_server::reply_in_two_parts(const user_message &to, const void *body, size_t len, int fd, bool closed)
{
	const proto::header h = {to.head.id, to.head.cmd, u32(sizeof(h) + len), proto::type_reply, 0};
	alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
	iovec part = {const_cast<proto::header *>(&h), sizeof(h)};
	msghdr m = {};

	m.msg_iov = &part;
	m.msg_iovlen = 1;
	m.msg_control = control;
	m.msg_controllen = sizeof(control);
	cmsghdr *const c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	if (sendmsg(sock_.get(), &m, MSG_NOSIGNAL) != ssize_t(sizeof(h)))
		hang_up();
	if (closed)
		close(fd);
	raw(body, len);
}

void fake_server::command(u16 id, proto::command cmd, const void *body, size_t len)
{
	const iovec part = {const_cast<void *>(body), len};

	user_send(sock_.get(), {id, u16(cmd), 0, proto::type_command, 0}, {&part, 1}, {},
		  deadline::in_ms(server_limit_ms));
}

void fake_server::raw(const void *data, size_t len)
{
	if (send(sock_.get(), data, len, MSG_NOSIGNAL) != ssize_t(len))
		hang_up();
}

void fake_server::serve_region_info(user_message &m)
{
	struct {
		proto::region_info info;
		proto::cap_head cap;
		proto::sparse_head sparse;
		proto::sparse_area area;
	} r{};

	r.info = body_as<proto::region_info>(m);
	region_requests++;
	r.info.argsz = sizeof(r.info);
	r.info.flags = 0;
	if (r.info.index == region_bar2) {
		r.info.argsz = sizeof(r);
		r.info.flags = proto::region_flag_read | proto::region_flag_write | proto::region_flag_mmap |
			       proto::region_flag_caps;
		r.info.cap_offset = offsetof(decltype(r), cap);
		r.info.size = bar2_size;
		r.info.offset = memory_offset;
		r.cap = {proto::cap_sparse_mmap, 1, 0};
		r.sparse.nr_areas = 1;
		r.area = {4096, bar2_size - 4096};
		return reply(m, &r, sizeof(r), {&memory, 1});
	}
	if (r.info.index == region_bar0 || r.info.index == region_config) {
		r.info.flags = proto::region_flag_read | proto::region_flag_write;
		r.info.size = r.info.index == region_bar0 ? bar0_size : config.size();
	}
	reply(m, &r.info, sizeof(r.info));
}

void fake_server::serve_io_fds(user_message &m)
{
	struct {
		proto::io_fds_head head;
		proto::io_fd fd[2];
	} r{};

	r.head = body_as<proto::io_fds_head>(m);
	if (r.head.index != region_bar0)
		return reply(m, nullptr, 0, {}, ENOTSUP);
	r.head.argsz = sizeof(r);
	r.head.count = 2;
	r.fd[0].offset = 0x1000;
	r.fd[0].size = 4;
	r.fd[1] = r.fd[0];
	r.fd[1].offset = 0x2000;
	r.fd[1].flags = proto::ioeventfd_flag_datamatch;
	reply(m, &r, sizeof(r), {&doorbell, 1});
}

void fake_server::serve_access(user_message &m, bool write)
{
	const auto h = body_as<proto::region_access_head>(m);
	std::vector<u8> &mem = h.region == region_config ? config : bar0;
	std::vector<u8> out(sizeof(h) + (write ? 0 : h.count));

	accesses++;
	if (!range_within(h.offset, h.count, mem.size()))
		return reply(m, nullptr, 0, {}, EINVAL);
	memcpy(out.data(), &h, sizeof(h));
	if (write)
		memcpy(mem.data() + h.offset, m.body.data() + sizeof(h), h.count);
	else
		memcpy(out.data() + sizeof(h), mem.data() + h.offset, h.count);
	reply(m, out.data(), out.size());
}

void fake_server::serve_irqs(user_message &m)
{
	irq_sets.push_back(body_as<proto::irq_set_head>(m));
	for (unique_fd &fd : m.fds)
		irq_fds.push_back(std::move(fd));
	reply(m, nullptr, 0);
}

void fake_server::serve(user_message &m)
{
	switch (proto::command(m.head.cmd)) {
	case proto::command::version: {
		const proto::version_head v = {0, minor};
		const char *const json = version_reply.c_str();
		std::vector<u8> out(sizeof(v));

		memcpy(out.data(), &v, sizeof(v));
		out.insert(out.end(), json, json + version_reply.size() + 1);
		return reply(m, out.data(), version_reply.empty() ? sizeof(v) : out.size());
	}
	case proto::command::device_get_info: {
		const proto::device_info i = {sizeof(i), proto::device_flag_reset | proto::device_flag_pci, 9, 5};

		return reply(m, &i, sizeof(i));
	}
	case proto::command::device_get_region_info:
		return serve_region_info(m);
	case proto::command::device_get_region_io_fds:
		return serve_io_fds(m);
	case proto::command::device_get_irq_info: {
		auto i = body_as<proto::irq_info>(m);

		i.flags = proto::irq_flag_eventfd;
		i.count = i.index == irq_msix ? 8 : 0;
		return reply(m, &i, sizeof(i));
	}
	case proto::command::device_set_irqs:
		return serve_irqs(m);
	case proto::command::region_read:
		return serve_access(m, false);
	case proto::command::region_write:
		return serve_access(m, true);
	case proto::command::dma_map:
		maps.push_back(body_as<proto::dma_map>(m));
		for (unique_fd &fd : m.fds)
			map_fds.push_back(std::move(fd));
		return reply(m, nullptr, 0);
	case proto::command::dma_unmap: {
		const auto u = body_as<proto::dma_unmap>(m);

		unmaps.push_back(u);
		return reply(m, &u, sizeof(u));
	}
	case proto::command::device_reset:
		resets++;
		return reply(m, nullptr, 0);
	default:
		return reply(m, nullptr, 0, {}, ENOTSUP);
	}
}

} // namespace usdma::test
