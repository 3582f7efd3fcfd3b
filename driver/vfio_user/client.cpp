/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio_user/client.h"

#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/vfio/region.h"
#include "driver/vfio_user/device.h"

#include <algorithm>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <new>
#include <unistd.h>

namespace usdma::vfio {

static const user_link_ops link_ops = {
	[](void *arg, const user_message &cmd, message_body *reply) {
		return static_cast<user_device *>(arg)->serve(cmd, reply);
	},
	[](void *arg) { static_cast<user_device *>(arg)->signal_lost(); },
};

user_device::user_device(const user_options &opt) : opt_(opt) {}

/* Unmap everything first: the server must not access this process's memory once the owner may free it. */
user_device::~user_device()
{
	dma_area a;

	while (!lost() && dma_.first(&a)) {
		if (dma_unmap(a.iova, a.size))
			break;
	}
	link_.stop();
}

int user_device::start(unique_fd sock)
{
	int err = link_.start(std::move(sock), opt_.timeout_ms, &link_ops, this);

	link_.set_deadline(opt_.open_ms);
	if (!err)
		err = negotiate();
	if (!err)
		err = get_info();
	return err;
}

/* The server violated the protocol: nothing from it is trusted any more. */
int user_device::broken(int err)
{
	link_.give_up();
	return err;
}

int user_device::accept_version(const user_message &reply)
{
	proto::version_head v;
	int err;

	if (reply.body.size() < sizeof(v))
		return fail(EPROTO, "vfio-user VERSION reply of %zu bytes", reply.body.size());
	memcpy(&v, reply.body.data(), sizeof(v));
	if (v.major != proto::version_major || v.minor > proto::version_minor)
		return fail(EPROTO, "the vfio-user server has protocol version %u.%u, this client %u.%u", v.major,
			    v.minor, proto::version_major, proto::version_minor);
	err = user_caps_parse(
		{reinterpret_cast<const char *>(reply.body.data()) + sizeof(v), reply.body.size() - sizeof(v)}, &caps_);
	if (err)
		return err;
	caps_.max_data_xfer = std::min(caps_.max_data_xfer, proto::our_max_data_xfer);
	caps_.max_msg_fds = std::min(caps_.max_msg_fds, u64(proto::our_max_msg_fds));
	page_size_ = caps_.pgsizes & -caps_.pgsizes;
	return 0;
}

/* The server replied with an error: it is alive, and may serve others. */
static int rejected(int err)
{
	switch (err) {
	case -EACCES:
	case -EPERM:
		return fail(
			-err,
			"the vfio-user server rejected this client: the server runs as another user, this process as "
			"user %u",
			geteuid());
	case -EBUSY:
		return fail(
			EBUSY,
			"the vfio-user server rejected this client: it already serves its maximum number of clients");
	case -ENOMEM:
	case -EMFILE:
	case -ENFILE:
	case -EAGAIN:
		return fail(-err, "the vfio-user server rejected this client: it has no more %s for a client",
			    err == -ENOMEM ? "memory" :
			    err == -EAGAIN ? "processes" :
					     "descriptors");
	case -ENOTSUP:
	case -EPROTO:
		return fail(EPROTO,
			    "the vfio-user server rejected this client: it does not support protocol %u.%u, which this "
			    "client uses",
			    proto::version_major, proto::version_minor);
	}
	return err;
}

int user_device::negotiate()
{
	caps_text text = user_caps_json(
		{proto::our_max_msg_fds, proto::our_max_data_xfer, proto::our_max_dma_maps, proto::default_pgsizes});
	proto::version_head v = {proto::version_major, proto::version_minor};
	const iovec parts[] = {{&v, sizeof(v)}, {text.text, strlen(text.text) + 1}};
	user_message reply;
	int err = link_.call(proto::command::version, parts, {}, &reply);

	if (err)
		return reply.head.flags & proto::flag_error ? rejected(err) : err;
	err = accept_version(reply);
	return err ? broken(err) : 0;
}

int user_device::get_info()
{
	proto::device_info info = {sizeof(info), 0, 0, 0};
	int err = exchange(proto::command::device_get_info, &info, sizeof(info));

	if (err)
		return err;
	if (!(info.flags & proto::device_flag_pci))
		return fail(ENOTSUP, "the vfio-user server offers a device that is not a PCI device");
	if (info.num_regions <= region_config || info.num_regions > 1024 || info.num_irqs > 1024)
		return broken(fail(EPROTO, "the vfio-user server reports %u regions and %u interrupt types",
				   info.num_regions, info.num_irqs));
	can_reset_ = info.flags & proto::device_flag_reset;
	num_irqs_ = info.num_irqs;
	return try_resize(regions_, info.num_regions) ? 0 : no_memory("the list of regions");
}

/* Sends a command whose reply must have exactly the structure of the command. */
int user_device::exchange(proto::command cmd, void *io, size_t size)
{
	const iovec part = {io, size};
	user_message reply;
	const int err = link_.call(cmd, {&part, 1}, {}, &reply);

	if (err)
		return err;
	if (reply.body.size() != size)
		return broken(fail(EPROTO, "vfio-user reply to command %u of %zu bytes, not %zu", unsigned(cmd),
				   reply.body.size(), size));
	memcpy(io, reply.body.data(), size);
	return 0;
}

/* Sends a command whose reply has no payload. */
int user_device::send_command(proto::command cmd, std::span<const iovec> parts, std::span<const int> fds)
{
	user_message reply;
	const int err = link_.call(cmd, parts, fds, &reply);

	if (err)
		return err;
	if (!reply.body.empty())
		return broken(fail(EPROTO, "vfio-user reply to command %u has %zu bytes, should have none",
				   unsigned(cmd), reply.body.size()));
	return 0;
}

int user_device::limits(address_limits *out)
{
	if (lost())
		return lost_error();
	*out = {};
	if (!try_push(out->usable, range{0, ~u64(0)}))
		return no_memory("a device's limits");
	out->page_size = page_size_;
	out->max_mappings = caps_.max_dma_maps;
	return 0;
}

/*
 * After a map or unmap without a reply it is unknown what the server can access. Only closing the connection
 * resolves that: the server then unmaps everything.
 */
int user_device::close_on_timeout(int err)
{
	if (err == -ETIMEDOUT)
		link_.give_up();
	return err;
}

/* Not hugetlb, unless trusted: the server could punch holes, and the pool may have no other pages. */
bool user_device::may_share_file(const dma_area &area) const
{
	if (opt_.trust == server_trust::no)
		return false;
	return opt_.trust == server_trust::yes || !is_hugetlb(area.fd);
}

int user_device::dma_map(const dma_area &area)
{
	proto::dma_map m = {sizeof(m), 0, area.fd_offset, area.iova, area.size};
	const bool local = opt_.share_local && area.vaddr;
	const bool with_fd = !local && area.fd >= 0 && caps_.max_msg_fds > 0 && may_share_file(area);
	const iovec part = {&m, sizeof(m)};
	int err;

	static_assert(u32(dma_read) == u32(proto::dma_readable) && u32(dma_write) == u32(proto::dma_writable));
	m.flags = area.prot;
	if (!with_fd)
		m.offset = 0;
	if (lost())
		return lost_error();
	err = dma_.add(area, local || with_fd, page_size_, caps_.max_dma_maps);
	if (err)
		return err;
	if (local)
		err = opt_.share_local(opt_.share_arg, area.iova, area.vaddr, area.size);
	if (!err)
		err = close_on_timeout(
			send_command(proto::command::dma_map, {&part, 1}, {&area.fd, with_fd ? size_t(1) : 0}));
	/* A server that was lost before it replied may have access. */
	if (err && !lost())
		dma_.remove(area.iova);
	return err;
}

int user_device::dma_unmap(u64 iova, u64 size)
{
	proto::dma_unmap m = {sizeof(m), 0, iova, size};
	int err = dma_.check(iova, size);

	if (err)
		return lost() ? lost_error() : err;
	err = close_on_timeout(exchange(proto::command::dma_unmap, &m, sizeof(m)));
	if (!err && (m.address != iova || m.size != size))
		err = broken(fail(EPROTO, "vfio-user DMA_UNMAP reply names another area"));
	/* If the server refuses, the area stays mapped. */
	if (err && !lost())
		return err;
	/* A lost server retains shared memory until it has closed its end; messages are not served any more. */
	const bool shared = dma_.remove(iova);
	return shared && !link_.ended() ? err : 0;
}

int user_device::quiesce()
{
	if (!lost()) {
		fail(ENODEV, "the device was closed permanently");
		link_.give_up();
	}
	return link_.ended() ? 0 : -EAGAIN;
}

int user_device::reset()
{
	if (!can_reset_)
		return fail(EOPNOTSUPP, "the vfio-user server's device cannot be reset");
	return send_command(proto::command::device_reset, {}, {});
}

static int attach(unique_fd socket, const user_options &opt, std::unique_ptr<device> *out)
{
	user_options named = opt;

	if (named.name.empty())
		named.name = "vfio-user";
	std::unique_ptr<user_device> dev(new (std::nothrow) user_device(named));

	if (!dev)
		return fail(ENOMEM, "%s: no memory", named.name.c_str());
	const int err = dev->start(std::move(socket));

	if (err)
		return fail_in(err, "%s", named.name.c_str());
	*out = std::move(dev);
	return 0;
}

int user_attach(unique_fd socket, const user_options &opt, std::unique_ptr<device> *out)
{
	return within_memory("a vfio-user device", [&] { return attach(std::move(socket), opt, out); });
}

static int connect_error(const std::string &path)
{
	const int err = errno == EAGAIN ? ETIMEDOUT : errno;

	switch (err) {
	case ENOENT:
		return fail(err, "no vfio-user socket %s: is the server running? (usdma-sim --socket %s)", path.c_str(),
			    path.c_str());
	case ECONNREFUSED:
		return fail(err, "no server listens on vfio-user socket %s: restart the server", path.c_str());
	case EACCES:
	case EPERM:
		return fail(err, "no permission on vfio-user socket %s: see ls -l; its owner can chmod or chgrp it",
			    path.c_str());
	case ETIMEDOUT:
		return fail(err, "vfio-user socket %s: the server does not accept (busy with other clients?)",
			    path.c_str());
	}
	errno = err;
	return fail_errno("connect to vfio-user socket %s", path.c_str());
}

static int connect_to(const std::string &path, const user_options &opt, std::unique_ptr<device> *out)
{
	unique_fd sock(fd_above_stdio(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
	const timeval limit = {time_t(opt.timeout_ms / 1000), suseconds_t(opt.timeout_ms % 1000 * 1000)};
	user_options named = opt;
	sockaddr_un addr{};

	if (!sock.valid())
		return fail_errno("socket");
	if (path.empty() || path.size() >= sizeof(addr.sun_path) || path.find('\0') != path.npos)
		return fail(EINVAL, "vfio-user socket path of %zu bytes, 1 to %zu are valid", path.size(),
			    sizeof(addr.sun_path) - 1);
	addr.sun_family = AF_UNIX;
	memcpy(addr.sun_path, path.data(), path.size());
	/* unix(7): connect() waits for space in the backlog up to the send timeout. */
	setsockopt(sock.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(sock.get(), reinterpret_cast<const sockaddr *>(&addr), sizeof(addr)))
		return connect_error(path);
	if (named.name.empty())
		named.name = "vfio-user:" + path;
	return user_attach(std::move(sock), named, out);
}

int user_connect(const std::string &path, const user_options &opt, std::unique_ptr<device> *out)
{
	return within_memory("a vfio-user device", [&] { return connect_to(path, opt, out); });
}

} // namespace usdma::vfio
