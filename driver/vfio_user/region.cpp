/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions of the vfio-user client: properties, mapping, messages, doorbells. */
#include "driver/base/eventfd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/vfio/region.h"
#include "driver/vfio_user/device.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>

namespace usdma::vfio {

/* Initial size: the region's structure and some 250 mappable areas. */
static constexpr u32 region_argsz = 4096, region_argsz_max = 65536;

int user_device::query_region(unsigned index, u32 argsz, user_message *reply, proto::region_info *info)
{
	proto::region_info query = {};
	const iovec part = {&query, sizeof(query)};
	int err;

	query.argsz = argsz;
	query.index = index;
	err = link_.call(proto::command::device_get_region_info, {&part, 1}, {}, reply);
	if (err)
		return err;
	if (reply->body.size() < sizeof(*info) || reply->body.size() > argsz)
		return broken(fail(EPROTO, "vfio-user reply about region %u of %zu bytes", index, reply->body.size()));
	memcpy(info, reply->body.data(), sizeof(*info));
	if (info->index != index || info->offset + info->size < info->offset)
		return broken(fail(EPROTO, "vfio-user reply about region %u: index %u, offset %#llx, size %#llx", index,
				   info->index, static_cast<unsigned long long>(info->offset),
				   static_cast<unsigned long long>(info->size)));
	return 0;
}

/*
 * Whether the file can be mapped without risk of SIGBUS: it cannot be truncated; its pages cannot be lost, as
 * those of a hugetlb file can by hole punching; and it is in memory, not on a file system that the server runs.
 * Only memory has seals, so these are checked first.
 */
static bool is_safe_to_map(int fd)
{
	const int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & F_SEAL_SHRINK) && !is_hugetlb(fd);
}

void user_device::take_file(unsigned index, unique_fd *fd, u64 offset, region_state *r)
{
	if (!own_server() && opt_.trust != server_trust::yes && !is_safe_to_map(fd->get())) {
		log_warn("%s: region %u is accessed by messages, not mapped: its file is not a memfd of small "
			 "pages that "
			 "the server has sealed against shrinking; trust=yes maps it anyway",
			 opt_.name.c_str(), index);
		return;
	}
	r->info.flags |= region_mappable;
	r->fd = std::move(*fd);
	r->fd_offset = offset;
}

int user_device::take_region(unsigned index, user_message *reply, const proto::region_info &info, region_state *r)
{
	region_state fresh;
	int err;

	fresh.info.size = info.size;
	fresh.info.flags = info.flags & (region_readable | region_writable);
	if (opt_.trust != server_trust::no && (info.flags & proto::region_flag_mmap) && info.size &&
	    !reply->fds.empty())
		take_file(index, &reply->fds[0], info.offset, &fresh);
	if (info.flags & proto::region_flag_caps) {
		err = region_parse_caps({reply->body.data(), reply->body.size()}, info.cap_offset, info.size,
					&fresh.info.mappable);
		if (err == -ENOMEM)
			return err;
		if (err)
			return broken(fail_in(err, "vfio-user region %u", index));
	}
	fresh.queried = true;
	*r = std::move(fresh);
	return 0;
}

/* Called with region_lock_ held. */
int user_device::get_region(unsigned index, region_state **out)
{
	proto::region_info info;
	user_message reply;
	int err;

	if (lost())
		return lost_error();
	if (index >= regions_.size())
		return fail(EINVAL, "region %u, the device has %zu", index, regions_.size());
	*out = &regions_[index];
	if ((*out)->queried)
		return 0;
	err = query_region(index, region_argsz, &reply, &info);
	if (!err && info.argsz > region_argsz && info.argsz <= region_argsz_max)
		err = query_region(index, info.argsz, &reply, &info);
	return err ? err : take_region(index, &reply, info, *out);
}

int user_device::region(unsigned index, region_info *out)
{
	std::lock_guard guard(region_lock_);
	region_state *r;
	const int err = get_region(index, &r);

	if (err)
		return err;
	return try_assign(out, r->info) ? 0 : no_memory("a region's description");
}

int user_device::region_fd(unsigned index, u64 *fd_offset)
{
	std::lock_guard guard(region_lock_);
	region_state *r;

	*fd_offset = 0;
	if (get_region(index, &r) || !r->fd.valid())
		return -1;
	*fd_offset = r->fd_offset;
	return r->fd.get();
}

/* A file that is shorter than the server reports would fault on access. */
static int check_length(int fd, u64 end)
{
	struct stat st;

	if (fstat(fd, &st))
		return fail_errno("fstat on the region's file");
	if (S_ISREG(st.st_mode) && u64(st.st_size) < end)
		return fail(EPROTO, "the vfio-user server's region ends at %llu of a file of %llu bytes",
			    static_cast<unsigned long long>(end), static_cast<unsigned long long>(st.st_size));
	return 0;
}

int user_device::region_map(unsigned index, u64 offset, u64 size, mapping *out)
{
	std::lock_guard guard(region_lock_);
	region_state *r;
	int err = get_region(index, &r);

	if (!err)
		err = region_check_map(r->info, offset, size);
	if (err)
		return err;
	err = check_length(r->fd.get(), r->fd_offset + offset + size);
	if (err)
		return broken(err);
	return region_mmap(r->fd.get(), r->info.flags, r->fd_offset + offset, size, out);
}

int user_device::check_access(unsigned index, u64 offset, u64 len, u32 right)
{
	std::lock_guard guard(region_lock_);
	region_state *r;
	const int err = get_region(index, &r);

	return err ? err : region_check_access(r->info, index, offset, len, right);
}

int user_device::read_part(unsigned index, u64 offset, u8 *buf, u32 len)
{
	proto::region_access_head h = {offset, index, len};
	const iovec part = {&h, sizeof(h)};
	user_message reply;
	const int err = link_.call(proto::command::region_read, {&part, 1}, {}, &reply);

	if (err)
		return err;
	if (reply.body.size() != sizeof(h) + len || memcmp(reply.body.data(), &h, sizeof(h)))
		return broken(
			fail(EPROTO, "vfio-user reply of %zu bytes to a read of %u bytes", reply.body.size(), len));
	memcpy(buf, reply.body.data() + sizeof(h), len);
	return 0;
}

int user_device::write_part(unsigned index, u64 offset, const u8 *buf, u32 len)
{
	proto::region_access_head h = {offset, index, len};
	const iovec parts[] = {{&h, sizeof(h)}, {const_cast<u8 *>(buf), len}};
	user_message reply;
	const int err = link_.call(proto::command::region_write, parts, {}, &reply);

	if (err)
		return err;
	if (reply.body.size() != sizeof(h) || memcmp(reply.body.data(), &h, sizeof(h)))
		return broken(
			fail(EPROTO, "vfio-user reply of %zu bytes to a write of %u bytes", reply.body.size(), len));
	return 0;
}

int user_device::region_read(unsigned index, u64 offset, void *buf, size_t len)
{
	u8 *p = static_cast<u8 *>(buf);
	int err = check_access(index, offset, len, region_readable);

	while (!err && len) {
		const u32 part = u32(std::min(u64(len), caps_.max_data_xfer));

		err = read_part(index, offset, p, part);
		offset += part;
		p += part;
		len -= part;
	}
	return err;
}

int user_device::region_write(unsigned index, u64 offset, const void *buf, size_t len)
{
	const u8 *p = static_cast<const u8 *>(buf);
	int err = check_access(index, offset, len, region_writable);

	while (!err && len) {
		const u32 part = u32(std::min(u64(len), caps_.max_data_xfer));

		err = write_part(index, offset, p, part);
		offset += part;
		p += part;
		len -= part;
	}
	return err;
}

/* A server that is busy with others' requests delays no doorbell's caller, who may hold locks. */
int user_device::region_post(unsigned index, u64 offset, const void *buf, size_t len)
{
	const proto::region_access_head h = {offset, index, u32(len)};
	const iovec parts[] = {{const_cast<proto::region_access_head *>(&h), sizeof(h)},
			       {const_cast<void *>(buf), len}};
	const int err = check_access(index, offset, len, region_writable);

	return err ? err : link_.post(proto::command::region_write, parts);
}

/*
 * Entries may be longer than the ones defined here (libvfio-user's have 48 bytes): the stride is the array's
 * size divided by count. argsz is the array's full size, even if the reply holds only a part of it.
 */
static int io_fd_stride(const proto::io_fds_head &h, size_t body, size_t *stride)
{
	const size_t array = std::min(size_t(h.argsz), body) - sizeof(h);

	if (h.argsz < sizeof(h) || array / h.count < sizeof(proto::io_fd) || array % h.count)
		return fail(EPROTO, "vfio-user reply of %zu bytes (argsz %u) about %u doorbells of region %u", body,
			    h.argsz, h.count, h.index);
	*stride = array / h.count;
	return 0;
}

int user_device::take_doorbell(const proto::io_fd &d, const message_fds &fds, region_state *r)
{
	/* fd_index -1: the server has no descriptor for it. */
	if (d.type != proto::io_fd_ioeventfd || (d.flags & proto::ioeventfd_flag_datamatch) || d.fd_index == ~u32(0))
		return 0;
	if (d.fd_index >= fds.size() || !range_within(d.offset, d.size, r->info.size))
		return fail(EPROTO, "vfio-user doorbell at %#llx with descriptor %u of %zu",
			    static_cast<unsigned long long>(d.offset), d.fd_index, fds.size());
	return try_push(r->doorbells, doorbell{d.offset, d.fd_index}) ? 0 : no_memory("the list of doorbells");
}

/*
 * Closes files other than eventfds: a pipe without a reader would raise SIGPIPE, and a write to a file system
 * that the server runs might never return.
 */
static void drop_other_files(message_fds *fds)
{
	for (unique_fd &fd : *fds) {
		if (is_eventfd(fd.get()))
			continue;
		log_warn("a vfio-user server's doorbell is not an eventfd: not used");
		close_foreign(std::move(fd));
	}
}

int user_device::take_doorbells(user_message *reply, const proto::io_fds_head &h, region_state *r)
{
	size_t stride = 0;
	int err = h.count ? io_fd_stride(h, reply->body.size(), &stride) : 0;

	for (u32 i = 0; !err && i < h.count; i++) {
		proto::io_fd d;

		memcpy(&d, reply->body.data() + sizeof(h) + i * stride, sizeof(d));
		err = take_doorbell(d, reply->fds, r);
	}
	if (err)
		return err;
	r->doorbell_fds = std::move(reply->fds);
	drop_other_files(&r->doorbell_fds);
	return 0;
}

int user_device::request_doorbells(unsigned index, u32 argsz, user_message *reply, proto::io_fds_head *h)
{
	proto::io_fds_head query = {argsz, 0, index, 0};
	const iovec part = {&query, sizeof(query)};

	/* An error of the server means that there are none. */
	if (int err = link_.call(proto::command::device_get_region_io_fds, {&part, 1}, {}, reply); err < 0)
		return err;
	const size_t body = reply->body.size();
	if (body < sizeof(*h) || body > argsz)
		return fail(EPROTO, "vfio-user reply about doorbells of %zu bytes, not %zu to %u", body, sizeof(*h),
			    argsz);
	memcpy(h, reply->body.data(), sizeof(*h));
	if (h->index != index)
		return fail(EPROTO, "vfio-user reply about doorbells of region %u, not of %u", h->index, index);
	return 0;
}

/*
 * An optional command: whatever is wrong costs the doorbells only. libvfio-user
 * (handle_device_get_region_io_fds) answers an argsz that is too small by the header alone, with the one that suffices.
 */
int user_device::query_doorbells(unsigned index, region_state *r)
{
	proto::io_fds_head h;
	user_message reply;
	int err = request_doorbells(index, region_argsz, &reply, &h);

	r->doorbells_queried = true;
	if (!err && h.argsz > region_argsz && h.argsz <= region_argsz_max)
		err = request_doorbells(index, h.argsz, &reply, &h);
	if (!err)
		err = take_doorbells(&reply, h, r);
	if (!err)
		return 0;
	if (err == -EPROTO)
		log_warn("%s: region %u has no doorbells: %s", opt_.name.c_str(), index, error_text());
	r->doorbells.clear();
	/* Lack of memory here: query again the next time. */
	r->doorbells_queried = err != -ENOMEM;
	return err;
}

int user_device::region_doorbell_fd(unsigned index, u64 offset)
{
	std::lock_guard guard(region_lock_);
	region_state *r;

	if (opt_.trust == server_trust::no || get_region(index, &r))
		return -1;
	if (!r->doorbells_queried && query_doorbells(index, r))
		return -1;
	for (const doorbell &d : r->doorbells) {
		if (d.offset == offset)
			return r->doorbell_fds[d.fd_index].get();
	}
	return -1;
}

bool user_device::doorbell_ring(int fd)
{
	return own_server() ? device::doorbell_ring(fd) : eventfd_raise(fd);
}

} // namespace usdma::vfio
