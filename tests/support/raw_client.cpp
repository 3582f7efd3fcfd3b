/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/raw_client.h"

#include "tests/support/test.h"

#include "driver/base/barrier.h"

#include <cstdio>
#include <cstring>
#include <sched.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

namespace usdma::test {

using namespace sdma;

raw_client::raw_client(const std::string &path)
{
	sockaddr_un a = {};

	sock_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	a.sun_family = AF_UNIX;
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path.c_str());
	assert_int_equal(connect(sock_.get(), reinterpret_cast<sockaddr *>(&a), sizeof(a)), 0);
}

bool raw_client::say(proto::command cmd, const void *body, size_t len, const std::vector<int> &fds, u32 flags)
{
	const proto::header h = {next_++, u16(cmd), 0, proto::type_command | flags, 0};
	const iovec part = {const_cast<void *>(body), len};

	return !vfio::user_send(sock_.get(), h, {&part, len ? 1u : 0u}, fds, deadline::in_ms(raw_wait_ms));
}

int raw_client::request(proto::command cmd, const void *body, size_t len, const std::vector<int> &fds,
			vfio::user_message *reply)
{
	const u16 id = next_;
	vfio::user_message m;

	if (!say(cmd, body, len, fds))
		return -1;
	do {
		if (vfio::user_recv(sock_.get(), deadline::in_ms(raw_wait_ms), raw_wait_ms, &m))
			return -1;
	} while ((m.head.flags & proto::flag_type_mask) != proto::type_reply || m.head.id != id);
	const int err = m.head.flags & proto::flag_error ? int(m.head.error) : 0;
	if (reply)
		*reply = std::move(m);
	return err;
}

int raw_client::hello(const char *json)
{
	std::string text("\0\0\1\0", 4);

	if (json)
		text.append(json, strlen(json) + 1);
	return request(proto::command::version, text.data(), text.size());
}

int raw_client::map(u64 iova, u64 size, int fd, u64 offset, u32 prot)
{
	const proto::dma_map m = {sizeof(m), prot, offset, iova, size};

	return request(proto::command::dma_map, m, fd < 0 ? std::vector<int>() : std::vector<int>{fd});
}

int raw_client::unmap(u64 iova, u64 size, u32 flags)
{
	const proto::dma_unmap u = {sizeof(u), flags, iova, size};

	return request(proto::command::dma_unmap, u);
}

int raw_client::region_write(u32 region, u64 offset, const void *data, u32 len)
{
	const proto::region_access_head h = {offset, region, len};
	std::vector<u8> body(sizeof(h) + len);

	memcpy(body.data(), &h, sizeof(h));
	memcpy(body.data() + sizeof(h), data, len);
	return request(proto::command::region_write, body.data(), body.size());
}

int raw_client::region_read(u32 region, u64 offset, void *data, u32 len)
{
	const proto::region_access_head h = {offset, region, len};
	vfio::user_message reply;
	const int err = request(proto::command::region_read, &h, sizeof(h), {}, &reply);

	if (!err && reply.body.size() == sizeof(h) + len)
		memcpy(data, reply.body.data() + sizeof(h), len);
	return err;
}

int raw_client::begin(u64 mem_base)
{
	const u16 command = 6; /* memory space and bus master */
	int err = hello();

	if (!err)
		err = region_write(vfio::region_config, 4, &command, sizeof(command));
	if (!err)
		err = put(reg_ctrl, u32(ctrl_enable));
	if (!err)
		err = put(reg_mem_base, mem_base);
	return err;
}

void raw_client::half_close()
{
	shutdown(sock_.get(), SHUT_WR);
}

bool raw_client::wait_closed()
{
	const timeval timeout = {time_t(raw_wait_ms / 1000), 0};
	char buf[65536];
	ssize_t n;

	setsockopt(sock_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	while ((n = recv(sock_.get(), buf, sizeof(buf), 0)) > 0) {
	}
	return n == 0 || errno == ECONNRESET;
}

raw_memory::raw_memory(const char *name, u64 size) : fd(memfd_create(name, MFD_CLOEXEC))
{
	assert_int_equal(ftruncate(fd.get(), off_t(size)), 0);
	void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
	assert_true(p != MAP_FAILED);
	map = mapping(p, size);
	data = map.data();
	memset(data, 0, size);
}

raw_channel::raw_channel(raw_client &client, u32 i, raw_memory &m, u64 iova, u64 at, u32 ord)
	: c(client), index(i), order(ord), record_iova(iova + at), ring_iova(iova + at + 4096),
	  status(reinterpret_cast<status_block *>(m.data + at)),
	  ring(reinterpret_cast<descriptor *>(m.data + at + 4096))
{
	for (u64 k = 0; k < u64(1) << order; k++)
		ring[k].tag = u32(k ^ 1);
}

u32 raw_channel::enable()
{
	const u64 page = chan_ctrl(index);

	c.put(page + chan_ring_base, ring_iova);
	c.put(page + chan_ring_order, order);
	c.put(page + chan_vectors, 2 * index | (2 * index + 1) << 16);
	c.put(page + chan_record, record_iova);
	c.put(page + chan_first_seq, u64(0));
	c.put(page + chan_coalesce, u32(0));
	command(chan_cmd_enable);
	return state();
}

u64 raw_channel::put(descriptor d)
{
	descriptor *slot = &ring[++posted & ((u64(1) << order) - 1)];

	memcpy(reinterpret_cast<u8 *>(slot) + 4, reinterpret_cast<u8 *>(&d) + 4, sizeof(d) - 4);
	store_release(&slot->tag, u32(posted));
	return posted;
}

int raw_channel::ring_doorbell()
{
	return c.put(chan_doorbell(index) + doorbell_tail, posted);
}

u64 raw_channel::completed() const
{
	return load_acquire(&status->record.completed);
}

bool raw_channel::done(u64 seq) const
{
	const deadline until = deadline::in_ms(raw_wait_ms);

	while (completed() < seq && load_acquire(&status->record.state) != dma::state_halted) {
		if (until.passed())
			return false;
		sched_yield();
	}
	return true;
}

bool raw_channel::begun(u64 seq)
{
	const deadline until = deadline::in_ms(raw_wait_ms);

	while (c.get<u64>(chan_ctrl(index) + chan_head) < seq) {
		if (until.passed())
			return false;
		sched_yield();
	}
	return true;
}

descriptor raw_copy(dma::space from, u64 src, dma::space to, u64 dst, u64 len)
{
	descriptor d = {};

	d.op = u8(dma::opcode::copy);
	d.spaces = dma::spaces(from, to);
	d.src = src;
	d.dst = dst;
	d.len = len;
	return d;
}

} // namespace usdma::test
