/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands of the client; every message is checked here before the model sees it. */
#include "driver/base/error.h"
#include "driver/sim/server.h"

#include <algorithm>
#include <cstring>
#include <sys/eventfd.h>

namespace usdma::sim {

namespace proto = vfio::proto;
using proto::command;

/* The limit of QEMU (hw/vfio-user: VFIO_USER_MAX_MAX_FDS); more are accepted. */
static constexpr u64 most_msg_fds = 16;

/* The body's first structure. */
template <class T> static int take(const vfio::user_message &m, T *out)
{
	if (m.body.size() < sizeof(T))
		return fail(EINVAL, "command %u has %zu bytes and needs %zu", m.head.cmd, m.body.size(), sizeof(T));
	memcpy(out, m.body.data(), sizeof(T));
	return 0;
}

/* The body is exactly this structure. */
template <class T> static int take_only(const vfio::user_message &m, T *out)
{
	if (m.body.size() != sizeof(T))
		return fail(EINVAL, "command %u has %zu bytes and takes %zu", m.head.cmd, m.body.size(), sizeof(T));
	return take(m, out);
}

template <class T> static void put(vfio::message_body *body, const T &v)
{
	body->append(&v, sizeof(v));
}

/* Unexpected descriptors are closed with the message, and the command fails. */
static int check_fds(const vfio::user_message &m, bool any_file)
{
	const command c = command(m.head.cmd);

	if (m.fds.empty())
		return 0;
	if (c != command::dma_map && c != command::device_set_irqs)
		return fail(EINVAL, "command %u takes no descriptors, and %zu came", m.head.cmd, m.fds.size());
	/* Such a file is neither queried nor closed: both may block on the client. */
	if (m.fds.any_slow() && !(c == command::dma_map && any_file))
		return fail(EINVAL, "command %u with a descriptor of a kind that is not accepted", m.head.cmd);
	return 0;
}

int server::handle(vfio::user_message &m, answer *out)
{
	if (const int err = check_fds(m, model_.takes_any_file()))
		return err;
	if (!negotiated_ && command(m.head.cmd) != command::version)
		return fail(EINVAL, "command %u before VERSION", m.head.cmd);
	switch (command(m.head.cmd)) {
	case command::version:
		return do_version(m, out);
	case command::dma_map:
		return do_dma_map(m);
	case command::dma_unmap:
		return do_dma_unmap(m, out);
	case command::device_get_info:
		return do_device_info(m, out);
	case command::device_get_region_info:
		return do_region_info(m, out);
	case command::device_get_region_io_fds:
		return do_io_fds(m, out);
	case command::device_get_irq_info:
		return do_irq_info(m, out);
	case command::device_set_irqs:
		return do_set_irqs(m);
	case command::region_read:
		return do_region_read(m, out);
	case command::region_write:
		return do_region_write(m, out);
	case command::device_reset:
		return m.body.empty() ? model_.reset() : fail(EINVAL, "DEVICE_RESET with %zu bytes", m.body.size());
	default:
		return fail(ENOTSUP, "command %u is not supported by this server", m.head.cmd);
	}
}

int server::do_version(vfio::user_message &m, answer *out)
{
	proto::version_head v;
	vfio::user_caps ours;

	if (negotiated_)
		return fail(EINVAL, "a second VERSION");
	if (const int err = take(m, &v))
		return err;
	if (v.major != proto::version_major)
		return fail(ENOTSUP, "client speaks vfio-user %u.%u, this server %u.%u", v.major, v.minor,
			    proto::version_major, proto::version_minor);
	const std::string_view json(reinterpret_cast<const char *>(m.body.data()) + sizeof(v),
				    m.body.size() - sizeof(v));
	if (const int err = vfio::user_caps_parse(json, &client_))
		return err == -ENOMEM ? err : -EINVAL;
	/*
	 * A server may only lower what the client proposed; QEMU ends the connection otherwise, and above its
	 * own limits.
	 */
	ours.max_msg_fds = std::min(client_.max_msg_fds, most_msg_fds);
	ours.max_data_xfer = std::min(client_.max_data_xfer, proto::our_max_data_xfer);
	ours.max_dma_maps = std::min<u64>(client_.max_dma_maps, model_.max_areas());
	max_len_ = u32(ours.max_data_xfer);
	put(&out->body, proto::version_head{proto::version_major, std::min(v.minor, proto::version_minor)});
	const vfio::caps_text json_of_ours = vfio::user_caps_json(ours);
	out->body.append(json_of_ours.text, strlen(json_of_ours.text) + 1);
	negotiated_ = true;
	hello_ = deadline::never();
	return 0;
}

int server::do_dma_map(vfio::user_message &m)
{
	proto::dma_map d;

	if (const int err = take_only(m, &d))
		return err;
	if (d.argsz < sizeof(d) || (d.flags & ~u32(proto::dma_readable | proto::dma_writable)) || !d.flags)
		return fail(EINVAL, "DMA_MAP with flags 0x%x, argsz %u", d.flags, d.argsz);
	if (m.fds.size() > 1)
		return fail(EINVAL, "DMA_MAP with %zu descriptors", m.fds.size());
	return model_.dma_map(d.address, d.size, d.flags, m.fds.empty() ? unique_fd() : std::move(m.fds[0]), d.offset);
}

int server::do_dma_unmap(vfio::user_message &m, answer *out)
{
	static constexpr u32 flag_bitmap = 1, flag_all = 2;
	proto::dma_unmap d;

	if (const int err = take(m, &d))
		return err;
	if (d.argsz < sizeof(d) || (d.flags & ~flag_all))
		return fail(d.flags & flag_bitmap ? ENOTSUP : EINVAL, "DMA_UNMAP with flags 0x%x, argsz %u", d.flags,
			    d.argsz);
	if (m.body.size() != sizeof(d) || ((d.flags & flag_all) && (d.address || d.size)))
		return fail(EINVAL, "DMA_UNMAP with %zu bytes", m.body.size());
	const int err = d.flags & flag_all ? model_.dma_unmap_all() : model_.dma_unmap(d.address, d.size);
	if (!err)
		put(&out->body, d);
	return err;
}

int server::do_device_info(vfio::user_message &m, answer *out)
{
	proto::device_info d;

	if (const int err = take(m, &d))
		return err;
	if (d.argsz < sizeof(d))
		return fail(EINVAL, "DEVICE_GET_INFO with argsz %u", d.argsz);
	put(&out->body, proto::device_info{sizeof(d), proto::device_flag_reset | proto::device_flag_pci,
					   model_.region_count(), model_.irq_types()});
	return 0;
}

static u32 wire_flags(const region_desc &r)
{
	return (r.flags & vfio::region_readable ? u32(proto::region_flag_read) : 0) |
	       (r.flags & vfio::region_writable ? u32(proto::region_flag_write) : 0);
}

int server::do_region_info(vfio::user_message &m, answer *out)
{
	proto::region_info d, reply = {};

	if (const int err = take(m, &d))
		return err;
	if (d.argsz < sizeof(d) || d.index >= model_.region_count())
		return fail(EINVAL, "DEVICE_GET_REGION_INFO of region %u of %u, argsz %u", d.index,
			    model_.region_count(), d.argsz);
	const region_desc &r = model_.region(d.index);
	const bool maps = r.flags & vfio::region_mappable && client_.max_msg_fds && r.size;
	const u32 areas = maps ? u32(r.mappable.size()) : 0;
	const u32 full = u32(sizeof(d)) + (areas ? u32(sizeof(proto::cap_head) + sizeof(proto::sparse_head)) +
							   areas * u32(sizeof(proto::sparse_area)) :
						   0);
	/* Buffer too small: argsz in the reply is the size needed, and the client retries (linux/vfio.h). */
	const bool fits = d.argsz >= full;
	reply.argsz = full;
	reply.index = d.index;
	reply.size = r.size;
	reply.flags = wire_flags(r) | (maps && fits ? u32(proto::region_flag_mmap) : 0) |
		      (areas && fits ? u32(proto::region_flag_caps) : 0);
	if (maps && fits)
		out->fds[out->n_fds++] = r.fd;
	reply.cap_offset = areas && fits ? u32(sizeof(reply)) : 0;
	put(&out->body, reply);
	if (!reply.cap_offset)
		return 0;
	put(&out->body, proto::cap_head{proto::cap_sparse_mmap, 1, 0});
	put(&out->body, proto::sparse_head{areas, 0});
	for (const vfio::range &a : r.mappable)
		put(&out->body, proto::sparse_area{a.start, a.last - a.start + 1});
	return 0;
}

/*
 * Returns as many as fit the client's buffer and its limit of descriptors; the other doorbells are written by
 * REGION_WRITE. argsz and count are those of what is sent: a client computes the length of an entry from them.
 */
int server::do_io_fds(vfio::user_message &m, answer *out)
{
	const u64 max_fds = std::min<u64>(client_.max_msg_fds, proto::our_max_msg_fds);
	proto::io_fds_head d;

	if (const int err = take(m, &d))
		return err;
	if (d.argsz < sizeof(d) || d.flags || d.index >= model_.region_count())
		return fail(EINVAL, "DEVICE_GET_REGION_IO_FDS of region %u, argsz %u, flags 0x%x", d.index, d.argsz,
			    d.flags);
	const size_t most_entries = (std::min(d.argsz, proto::our_max_message / 2) - sizeof(d)) / sizeof(proto::io_fd);
	proto::io_fds_head head = {sizeof(d), 0, d.index, 0};
	put(&out->body, head);
	for (const doorbell_desc &b : model_.doorbells(d.index)) {
		const u32 at = u32(std::find(out->fds, out->fds + out->n_fds, b.fd) - out->fds);

		if (head.count >= most_entries)
			break;
		if (at == out->n_fds) {
			if (out->n_fds >= max_fds)
				continue;
			out->fds[out->n_fds++] = b.fd;
		}
		put(&out->body, proto::io_fd{b.offset, b.size, at, proto::io_fd_ioeventfd, 0, 0, 0});
		head.count++;
		head.argsz += u32(sizeof(proto::io_fd));
	}
	memcpy(out->body.data(), &head, sizeof(head));
	return 0;
}

int server::do_irq_info(vfio::user_message &m, answer *out)
{
	proto::irq_info d;

	if (const int err = take(m, &d))
		return err;
	if (d.argsz < sizeof(d) || d.index >= model_.irq_types())
		return fail(EINVAL, "DEVICE_GET_IRQ_INFO of type %u, argsz %u", d.index, d.argsz);
	const u32 count = model_.irq_count(d.index);
	put(&out->body, proto::irq_info{sizeof(d), count ? u32(proto::irq_flag_eventfd) : 0, d.index, count});
	return 0;
}

int server::do_set_irqs(vfio::user_message &m)
{
	static constexpr u32 data = proto::irq_set_data_none | proto::irq_set_data_bool | proto::irq_set_data_eventfd;
	static constexpr u32 action = proto::irq_set_action_mask | proto::irq_set_action_unmask |
				      proto::irq_set_action_trigger;
	proto::irq_set_head h;

	if (const int err = take(m, &h))
		return err;
	if (h.argsz < sizeof(h) || (h.flags & ~(data | action)) || !is_pow2(h.flags & data) ||
	    !is_pow2(h.flags & action))
		return fail(EINVAL, "DEVICE_SET_IRQS with flags 0x%x, argsz %u", h.flags, h.argsz);
	if (h.index >= model_.irq_types() || !range_within(h.start, h.count, model_.irq_count(h.index)))
		return fail(EINVAL, "DEVICE_SET_IRQS: vectors %u and %u more of type %u do not exist", h.start, h.count,
			    h.index);
	if (!(h.flags & proto::irq_set_action_trigger))
		return fail(ENOTSUP, "DEVICE_SET_IRQS: MSI-X vectors are masked in their table, not here");
	if (h.flags & proto::irq_set_data_eventfd)
		return do_set_eventfds(m, h);
	return do_trigger(m, h);
}

/*
 * Engines write to it, so it must not be a file or device, nor anything that could block or terminate them. All
 * plain eventfds share the kernel's one anonymous inode (with a few other objects, which refuse a write or accept
 * it at once), so that there is no need to read /proc, which the sandbox denies.
 */
static bool is_anonymous(int fd, const struct statx &own)
{
	struct statx st;

	return !stat_file(fd, &st) && st.stx_dev_major == own.stx_dev_major && st.stx_dev_minor == own.stx_dev_minor &&
	       st.stx_ino == own.stx_ino;
}

static int check_eventfds(const vfio::message_fds &fds)
{
	const unique_fd sample(eventfd(0, EFD_CLOEXEC));
	struct statx own;

	if (!sample.valid() || stat_file(sample.get(), &own))
		return fail_errno("DEVICE_SET_IRQS: cannot make an eventfd");
	for (const unique_fd &fd : std::span(fds.data(), fds.size()))
		if (!is_anonymous(fd.get(), own))
			return fail(EINVAL, "DEVICE_SET_IRQS with a descriptor that is no eventfd");
	return 0;
}

int server::do_set_eventfds(vfio::user_message &m, const proto::irq_set_head &h)
{
	if (m.body.size() != sizeof(h))
		return fail(EINVAL, "DEVICE_SET_IRQS with %zu bytes", m.body.size());
	if (m.fds.empty())
		return model_.irq_clear(h.index, h.start, h.count);
	if (m.fds.size() != h.count)
		return fail(EINVAL, "DEVICE_SET_IRQS for %u vectors with %zu descriptors", h.count, m.fds.size());
	if (const int err = check_eventfds(m.fds))
		return err;
	return model_.irq_set(h.index, h.start, {m.fds.data(), m.fds.size()});
}

/* Without eventfds: raises the vectors as the device would; no data and count 0 disable all (linux/vfio.h). */
int server::do_trigger(const vfio::user_message &m, const proto::irq_set_head &h)
{
	const bool bools = h.flags & proto::irq_set_data_bool;
	const u8 *on = m.body.data() + sizeof(h);

	if (!m.fds.empty() || m.body.size() != sizeof(h) + (bools ? h.count : 0))
		return fail(EINVAL, "DEVICE_SET_IRQS with %zu bytes and %zu descriptors", m.body.size(), m.fds.size());
	if (!h.count)
		return bools ? 0 : model_.irq_clear(h.index, 0, model_.irq_count(h.index));
	for (u32 i = 0; i < h.count; i++)
		if (!bools || on[i])
			if (const int err = model_.irq_trigger(h.index, h.start + i))
				return err;
	return 0;
}

int server::check_access(const proto::region_access_head &h, u32 right) const
{
	if (h.region >= model_.region_count())
		return fail(EINVAL, "access to region %u of %u", h.region, model_.region_count());
	const region_desc &r = model_.region(h.region);
	if (!(r.flags & right) || !h.count || h.count > proto::our_max_data_xfer ||
	    !range_within(h.offset, h.count, r.size))
		return fail(EINVAL, "access to region %u at 0x%llx, %u bytes", h.region,
			    static_cast<unsigned long long>(h.offset), h.count);
	return 0;
}

int server::do_region_read(vfio::user_message &m, answer *out)
{
	proto::region_access_head h;

	int err = take_only(m, &h);
	if (!err)
		err = check_access(h, vfio::region_readable);
	if (err)
		return err;
	put(&out->body, h);
	if (!out->body.resize(sizeof(h) + h.count))
		return no_memory("an answer to the vfio-user client");
	return model_.region_read(h.region, h.offset, out->body.data() + sizeof(h), h.count);
}

int server::do_region_write(vfio::user_message &m, answer *out)
{
	proto::region_access_head h;

	int err = take(m, &h);
	if (!err)
		err = check_access(h, vfio::region_writable);
	if (err)
		return err;
	if (m.body.size() != sizeof(h) + h.count)
		return fail(EINVAL, "REGION_WRITE of %u bytes brings %zu", h.count, m.body.size() - sizeof(h));
	put(&out->body, h);
	return model_.region_write(h.region, h.offset, m.body.data() + sizeof(h), h.count);
}

} // namespace usdma::sim
