/* SPDX-License-Identifier: BSD-3-Clause */
/* The server with clients that send invalid messages, disconnect, or connect one after the other; and the settings. */
#include "tests/unit/sim/rig.h"

#include "driver/base/error.h"
#include "driver/sim/config.h"
#include "driver/sim/listener.h"

#include <cstdlib>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

using namespace usdma;
using namespace usdma::test;
namespace proto = usdma::vfio::proto;
using proto::command;

/* A server in a thread; the test composes each message itself. */
struct raw {
	raw()
	{
		int pair[2];

		model = std::make_unique<sim::sdma_model>(rig::small());
		assert_int_equal(model->start(), 0);
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		link = std::make_unique<sim::server>(unique_fd(pair[0]), *model);
		sock.reset(pair[1]);
		thread = std::thread([this] {
			result = link->serve(-1);
			model.reset();
		});
	}
	~raw()
	{
		sock.reset();
		end();
	}
	int end()
	{
		if (thread.joinable())
			thread.join();
		return result;
	}

	/* Returns the errno in the reply (0: success), or -1: the server closed the connection. */
	int request(command cmd, const void *body, size_t len, std::vector<int> fds = {},
		    vfio::user_message *reply = nullptr)
	{
		proto::header h = {next++, u16(cmd), 0, proto::type_command, 0};
		iovec part = {const_cast<void *>(body), len};
		vfio::user_message m;

		if (vfio::user_send(sock.get(), h, {&part, len ? 1u : 0u}, fds, deadline::in_ms(wait_ms)))
			return -1;
		if (vfio::user_recv(sock.get(), deadline::in_ms(wait_ms), wait_ms, &m))
			return -1;
		assert_int_equal(m.head.id, h.id);
		assert_int_equal(m.head.cmd, h.cmd);
		assert_int_equal(m.head.flags & proto::flag_type_mask, proto::type_reply);
		const int err = m.head.flags & proto::flag_error ? int(m.head.error) : 0;
		if (reply)
			*reply = std::move(m);
		return err;
	}
	template <class T>
	int request(command cmd, const T &body, std::vector<int> fds = {}, vfio::user_message *reply = nullptr)
	{
		return request(cmd, &body, sizeof(body), std::move(fds), reply);
	}
	int hello(const char *json = nullptr)
	{
		std::string text("\0\0\0\0", 4);

		if (json)
			text.append(json, strlen(json) + 1);
		return request(command::version, text.data(), text.size());
	}

	std::unique_ptr<sim::sdma_model> model;
	std::unique_ptr<sim::server> link;
	unique_fd sock;
	std::thread thread;
	int result = 0;
	u16 next = 100;
};

static void test_version(void **)
{
	static constexpr const char *bad[] = {"[]", "{", "{\"capabilities\":5}",
					      "{\"capabilities\":{\"max_msg_fds\":-1}}",
					      "{\"capabilities\":{\"max_data_xfer_size\":\"x\"}}"};
	const proto::version_head other = {1, 0};

	{
		raw r;
		assert_int_equal(r.request(command::device_reset, nullptr, 0), EINVAL);
		assert_int_equal(r.request(command::version, "\0", 2), EINVAL);
		assert_int_equal(r.request(command::version, other), ENOTSUP);
		for (const char *json : bad)
			assert_int_equal(r.hello(json), EINVAL);
		assert_int_equal(r.hello("{\"capabilities\":{\"max_msg_fds\":8}}"), 0);
		assert_int_equal(r.hello(), EINVAL);
		assert_int_equal(r.request(command::device_reset, nullptr, 0), 0);
	}
	raw bare;
	assert_int_equal(bare.hello(), 0);
}

/* The limits in the reply exceed neither those of the client nor those that QEMU checks (hw/vfio-user/proxy.c). */
static void test_version_limits(void **)
{
	static constexpr struct {
		const char *request;
		vfio::user_caps reply;
	} cases[] = {
		{"{\"capabilities\":"
		 "{\"max_msg_fds\":16,\"max_data_xfer_size\":1048576,\"max_dma_maps\":65535,\"pgsizes\":4096,"
		 "\"write_multiple\":true,\"migration\":{\"pgsize\":4096,\"max_bitmap_size\":65536}}}",
		 {16, 1048576, 65535, 4096}},
		{"{\"capabilities\":{\"max_msg_fds\":8,\"max_data_xfer_size\":4096,\"max_dma_maps\":100}}",
		 {8, 4096, 100, 4096}},
		{"{\"capabilities\":"
		 "{\"max_msg_fds\":4000,\"max_data_xfer_size\":1099511627776,\"max_dma_maps\":1099511627776}}",
		 {16, 1048576, 0, 4096}},
		{nullptr, {1, 1048576, 65535, 4096}},
	};

	for (const auto &c : cases) {
		raw r;
		vfio::user_message m;
		vfio::user_caps caps;
		std::string text("\0\0\1\0", 4);

		if (c.request)
			text.append(c.request, strlen(c.request) + 1);
		assert_int_equal(r.request(command::version, text.data(), text.size(), {}, &m), 0);
		assert_int_equal(
			vfio::user_caps_parse({reinterpret_cast<char *>(m.body.data()) + 4, m.body.size() - 4}, &caps),
			0);
		assert_int_equal(caps.max_msg_fds, c.reply.max_msg_fds);
		assert_int_equal(caps.max_data_xfer, c.reply.max_data_xfer);
		if (c.reply.max_dma_maps)
			assert_int_equal(caps.max_dma_maps, c.reply.max_dma_maps);
		else
			assert_true(caps.max_dma_maps > 65535);
		assert_int_equal(caps.pgsizes, c.reply.pgsizes);
	}
}

/* A client that accepts one descriptor, and two engines: the reply has only the entries of the first engine. */
static void test_doorbells_for_one_descriptor(void **)
{
	vfio::user_message m;
	proto::io_fds_head io = {4096, 0, 0, 0};
	proto::io_fd entry;
	raw r;

	assert_int_equal(r.hello(), 0); /* the default of max_msg_fds is 1 */
	assert_int_equal(r.request(command::device_get_region_io_fds, io, {}, &m), 0);
	memcpy(&io, m.body.data(), sizeof(io));
	assert_int_equal(io.count, 4); /* of eight channels: those of the first engine */
	assert_int_equal((io.argsz - sizeof(io)) / io.count, sizeof(proto::io_fd));
	assert_int_equal(m.body.size(), io.argsz);
	assert_int_equal(m.fds.size(), 1);
	for (u32 i = 0; i < io.count; i++) {
		memcpy(&entry, m.body.data() + sizeof(io) + i * sizeof(entry), sizeof(entry));
		assert_int_equal(entry.offset, sdma::chan_ctrl(2 * i) + sdma::chan_wake);
		assert_int_equal(entry.fd_index, 0);
	}
}

/* The client sends nothing: the server closes the connection. */
static void test_silent_client(void **)
{
	raw r;
	char c;

	assert_int_equal(recv(r.sock.get(), &c, 1, 0), 0);
	assert_int_equal(r.end(), -ETIMEDOUT);
}

static void test_dma_map_checks(void **)
{
	const unique_fd file(memfd_create("x", MFD_CLOEXEC));
	const proto::dma_map good = {sizeof(good), 3, 0, 0x10000, 0x4000};
	raw r;
	auto with = [&](auto change) {
		proto::dma_map m = good;
		change(m);
		return m;
	};

	assert_int_equal(ftruncate(file.get(), 0x4000), 0);
	assert_int_equal(r.hello(), 0);
	const int fd = file.get();
	assert_int_equal(r.request(command::dma_map, with([](auto &m) { m.argsz = 8; })), EINVAL);
	assert_int_equal(r.request(command::dma_map, with([](auto &m) { m.flags = 0; })), EINVAL);
	assert_int_equal(r.request(command::dma_map, with([](auto &m) { m.flags = 4; })), EINVAL);
	assert_int_equal(r.request(command::dma_map, with([](auto &m) { m.size = 0; })), EINVAL);
	assert_int_equal(r.request(command::dma_map, with([](auto &m) { m.size = 100; })), EINVAL);
	assert_int_equal(r.request(command::dma_map, with([](auto &m) { m.address = 100; })), EINVAL);
	assert_int_equal(r.request(command::dma_map, with([](auto &m) { m.address = ~u64(0) & ~u64(4095); })), EINVAL);
	assert_int_equal(r.request(command::dma_map, with([](auto &m) { m.size = ~u64(0) & ~u64(4095); })), EINVAL);
	assert_int_equal(r.request(command::dma_map, with([](auto &m) { m.offset = 0x1000; }), {fd}), EINVAL);
	assert_int_equal(r.request(command::dma_map, with([](auto &m) { m.offset = ~u64(4095); }), {fd}), EINVAL);
	assert_int_equal(r.request(command::dma_map, good, {fd, fd}), EINVAL);
	assert_int_equal(r.request(command::dma_map, &good, sizeof(good) - 1), EINVAL);
	/* A device file, which could be mapped, is refused. */
	const unique_fd zero(open("/dev/zero", O_RDWR | O_CLOEXEC));
	assert_int_equal(r.request(command::dma_map, good, {zero.get()}), EINVAL);
	assert_int_equal(r.request(command::dma_map, good, {fd}), 0);
	assert_int_equal(r.request(command::dma_map, good, {fd}), EEXIST);
	assert_int_equal(r.request(command::dma_map, with([](auto &m) { m.address += 0x3000; })), EEXIST);
	assert_int_equal(r.request(command::dma_map, with([](auto &m) { m.address += 0x4000; })), 0);
}

static void test_dma_unmap_checks(void **)
{
	const proto::dma_map map = {sizeof(map), 3, 0, 0x10000, 0x4000};
	proto::dma_unmap u = {sizeof(u), 0, 0x10000, 0x4000};
	raw r;

	assert_int_equal(r.hello(), 0);
	assert_int_equal(r.request(command::dma_unmap, u), ENOENT);
	assert_int_equal(r.request(command::dma_map, map), 0);
	/* A range that contains only a part of an area is refused, and nothing is unmapped. */
	for (auto [address, size] : {std::pair<u64, u64>{0x10000, 0x2000},
				     {0x12000, 0x2000},
				     {0x11000, 0x1000},
				     {0xf000, 0x2000},
				     {0x13000, 0x8000},
				     {0x10000, 0},
				     {~u64(4095), 0x2000}}) {
		u.address = address;
		u.size = size;
		assert_int_equal(r.request(command::dma_unmap, u), EINVAL);
		assert_int_equal(r.request(command::dma_map, map), EEXIST);
	}
	u = {sizeof(u), 1, 0x10000, 0x4000};
	assert_int_equal(r.request(command::dma_unmap, u), ENOTSUP);
	u.flags = 2;
	assert_int_equal(r.request(command::dma_unmap, u), EINVAL);
	u.address = u.size = 0;
	assert_int_equal(r.request(command::dma_unmap, u), 0);
	assert_int_equal(r.request(command::dma_map, map), 0);
	u = {sizeof(u), 0, 0, u64(1) << 40};
	assert_int_equal(r.request(command::dma_unmap, u), 0);
	assert_int_equal(r.request(command::dma_unmap, u), ENOENT);
}

static void test_region_checks(void **)
{
	struct {
		proto::region_access_head h;
		u8 data[16];
	} w = {{0, 0, 8}, {}};
	raw r;
	auto read = [&](u32 region, u64 off, u32 n) {
		return r.request(command::region_read, proto::region_access_head{off, region, n});
	};

	assert_int_equal(r.hello(), 0);
	assert_int_equal(read(0, 0, 4), 0);
	assert_int_equal(read(0, 2, 4), EINVAL);
	assert_int_equal(read(0, 0, 3), EINVAL);
	assert_int_equal(read(0, sdma::bar0_size - 4, 8), EINVAL);
	assert_int_equal(read(0, ~u64(0) - 3, 8), EINVAL);
	assert_int_equal(read(0, sdma::chan_doorbell_base + 4, 8), EINVAL);
	assert_int_equal(read(1, 0, 4), EINVAL);
	assert_int_equal(read(99, 0, 4), EINVAL);
	assert_int_equal(read(2, 0, ~u32(0)), EINVAL);
	assert_int_equal(read(2, 0, 1 << 20), 0);
	assert_int_equal(read(7, 0, 4096), 0);
	assert_int_equal(read(7, 4095, 2), EINVAL);
	assert_int_equal(read(4, 65536, 1), EINVAL);
	/* Count and length differ. */
	assert_int_equal(r.request(command::region_write, w), EINVAL);
	w.h.count = 16;
	w.h.region = 2;
	assert_int_equal(r.request(command::region_write, w), 0);
	assert_int_equal(r.request(command::region_write, &w, 10), EINVAL);
}

static void test_irq_checks(void **)
{
	const unique_fd ev(eventfd(0, EFD_CLOEXEC)), file(memfd_create("x", MFD_CLOEXEC));
	const proto::irq_set_head good = {sizeof(good), proto::irq_set_data_eventfd | proto::irq_set_action_trigger, 2,
					  0, 1};
	proto::irq_set_head h = good;
	raw r;

	assert_int_equal(r.hello(), 0);
	assert_int_equal(r.request(command::device_set_irqs, good, {ev.get()}), 0);
	assert_int_equal(r.request(command::device_set_irqs, good, {ev.get(), ev.get()}), EINVAL);
	assert_int_equal(r.request(command::device_set_irqs, good, {file.get()}), EINVAL);
	h.start = 24;
	assert_int_equal(r.request(command::device_set_irqs, h, {ev.get()}), EINVAL);
	h.start = ~u32(0);
	assert_int_equal(r.request(command::device_set_irqs, h, {ev.get()}), EINVAL);
	h = good;
	h.index = 77;
	assert_int_equal(r.request(command::device_set_irqs, h, {ev.get()}), EINVAL);
	h = good;
	h.flags |= proto::irq_set_data_none;
	assert_int_equal(r.request(command::device_set_irqs, h, {ev.get()}), EINVAL);
	h.flags = proto::irq_set_data_none | proto::irq_set_action_mask;
	assert_int_equal(r.request(command::device_set_irqs, h), ENOTSUP);
	h.flags = proto::irq_set_data_none | proto::irq_set_action_trigger;
	assert_int_equal(r.request(command::device_set_irqs, h), 0);
	assert_int_equal(take_irq(ev.get(), wait_ms), 1);
	h.flags = proto::irq_set_data_bool | proto::irq_set_action_trigger;
	assert_int_equal(r.request(command::device_set_irqs, h), EINVAL);
	assert_int_equal(r.request(command::device_set_irqs, good), 0);
	h.flags = proto::irq_set_data_none | proto::irq_set_action_trigger;
	assert_int_equal(r.request(command::device_set_irqs, h), 0);
	assert_int_equal(take_irq(ev.get(), 0), 0);
	/* Errors have an eventfd and are never raised. */
	h = good;
	h.index = vfio::irq_err;
	assert_int_equal(r.request(command::device_set_irqs, h, {ev.get()}), 0);
	h.flags = proto::irq_set_data_none | proto::irq_set_action_trigger;
	assert_int_equal(r.request(command::device_set_irqs, h), ENOTSUP);
	h.count = 0;
	assert_int_equal(r.request(command::device_set_irqs, h), 0);
}

static void test_info_checks(void **)
{
	vfio::user_message m;
	proto::region_info info = {};
	proto::io_fds_head io = {4096, 0, 0, 0};
	raw r;

	assert_int_equal(r.hello("{\"capabilities\":{\"max_msg_fds\":8}}"), 0);
	assert_int_equal(r.request(command::device_get_info, "abc", 3), EINVAL);
	assert_int_equal(r.request(command::device_get_region_info, info), EINVAL);
	info.argsz = sizeof(info);
	assert_int_equal(r.request(command::device_get_region_info, info, {}, &m), 0);
	memcpy(&info, m.body.data(), sizeof(info));
	/* Too small for the list of mappable areas: the reply has the size needed, and no list or descriptor. */
	assert_int_equal(info.cap_offset, 0);
	assert_int_equal(info.flags & proto::region_flag_caps, 0);
	assert_int_equal(info.argsz, sizeof(info) + 16 + 16);
	assert_int_equal(m.fds.size(), 0);
	assert_int_equal(r.request(command::device_get_region_info, info, {}, &m), 0);
	memcpy(&info, m.body.data(), sizeof(info));
	assert_int_equal(info.cap_offset, sizeof(info));
	assert_int_equal(info.flags & proto::region_flag_caps, proto::region_flag_caps);
	assert_int_equal(m.body.size(), info.argsz);
	assert_int_equal(m.fds.size(), 1);
	/* All of the region is mappable: no list, and the descriptor comes with the plain structure. */
	info = {sizeof(info), 0, 2, 0, 0, 0};
	assert_int_equal(r.request(command::device_get_region_info, info, {}, &m), 0);
	assert_int_equal(m.body.size(), sizeof(info));
	assert_int_equal(m.fds.size(), 1);
	info.index = 9;
	assert_int_equal(r.request(command::device_get_region_info, info), EINVAL);
	assert_int_equal(r.request(command::device_get_region_io_fds, io, {}, &m), 0);
	memcpy(&io, m.body.data(), sizeof(io));
	assert_int_equal(io.count, 8);
	assert_int_equal(m.fds.size(), 2); /* one for each engine */
	assert_int_equal(io.argsz, sizeof(io) + 8 * sizeof(proto::io_fd));
	assert_int_equal(m.body.size(), io.argsz);
	io = {sizeof(io) + 40, 0, 0, 0};
	assert_int_equal(r.request(command::device_get_region_io_fds, io, {}, &m), 0);
	memcpy(&io, m.body.data(), sizeof(io));
	assert_int_equal(io.count, 1);
	assert_int_equal(io.argsz, sizeof(io) + 40);
	assert_int_equal(r.request(command(14), nullptr, 0), ENOTSUP);
	assert_int_equal(r.request(command::dma_read, nullptr, 0), ENOTSUP);
}

/* Unexpected descriptors are closed; the connection stays open. */
static void test_stray_fds(void **)
{
	const unique_fd ev(eventfd(0, EFD_CLOEXEC));
	const size_t before = open_fds();
	{
		raw r;
		assert_int_equal(r.hello(), 0);
		const size_t connected = open_fds();

		for (unsigned i = 0; i < 20; i++)
			assert_int_equal(r.request(command::device_reset, nullptr, 0, {ev.get(), ev.get(), ev.get()}),
					 EINVAL);
		assert_int_equal(open_fds(), connected);
	}
	assert_int_equal(open_fds(), before);
}

static void test_broken_frames(void **)
{
	static constexpr proto::header bad[] = {
		{1, 1, 8, 0, 0}, {1, 1, 0xffffffff, 0, 0}, {1, 1, 0, 0, 0}, {1, 1, 16, 7, 0}, {1, 1, 100, 0, 0},
	};
	const size_t before = open_fds();

	for (const auto &h : bad) {
		raw r;

		assert_int_equal(send(r.sock.get(), &h, sizeof(h), MSG_NOSIGNAL), sizeof(h));
		shutdown(r.sock.get(), SHUT_WR);
		assert_int_equal(r.end(), -EPROTO);
	}
	assert_int_equal(open_fds(), before);
}

static void test_random_messages(void **)
{
	auto gen = rng(9);

	for (unsigned round = 0; round < 40 * scale(); round++) {
		raw r;

		r.hello();
		for (unsigned i = 0; i < 100; i++) {
			u8 body[64];

			fill_random(body, sizeof(body), gen);
			for (u8 &b : body)
				if (gen() % 4)
					b = u8(gen() % 3 ? 0 : 32);
			r.request(command(gen() % 17), body, gen() % sizeof(body));
		}
	}
}

/* A reply without a request is ignored, as if it were late. */
static void test_stray_reply(void **)
{
	const proto::header h = {7, u16(command::dma_read), sizeof(h), proto::type_reply, 0};
	raw r;

	assert_int_equal(r.hello(), 0);
	assert_int_equal(send(r.sock.get(), &h, sizeof(h), MSG_NOSIGNAL), sizeof(h));
	assert_int_equal(r.request(command::device_reset, nullptr, 0), 0);
}

/* ---- one client after the other, on a socket path ------------------------------------------------ */

struct listening_server {
	listening_server()
	{
		cfg = rig::small();
		assert_non_null(mkdtemp(dir));
		path = std::string(dir) + "/socket";
		assert_int_equal(socket.open(path), 0);
		stop.reset(eventfd(0, EFD_CLOEXEC));
		thread = std::thread([this] { result = serve_all(); });
	}
	~listening_server()
	{
		eventfd_write(stop.get(), 1);
		thread.join();
		assert_int_equal(result, -ECANCELED);
		rmdir(dir);
	}

	int serve_all()
	{
		unique_fd client;
		int err;

		while (!(err = socket.wait_client(stop.get(), nullptr, &client)))
			assert_int_equal(sim::listener::serve(std::move(client), cfg, stop.get(), nullptr), 0);
		return err;
	}

	char dir[32] = "/tmp/usdma-sim-XXXXXX";
	std::string path;
	sim::config cfg;
	sim::listener socket;
	unique_fd stop;
	std::thread thread;
	int result = 1;
};

static void test_consecutive_clients(void **)
{
	listening_server s;
	struct stat st;
	sim::listener second;

	assert_int_equal(stat(s.path.c_str(), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	for (unsigned round = 0; round < 5; round++) {
		std::unique_ptr<vfio::device> dev;
		mapping mem;
		u64 v = 0;

		assert_int_equal(vfio::user_connect(s.path, {}, &dev), 0);
		/* Memory, registers and mappings of the previous client are cleared. */
		assert_int_equal(dev->region_map(vfio::region_bar2, 0, MiB, &mem), 0);
		assert_int_equal(mem.data()[5], 0);
		mem.data()[5] = 1;
		assert_int_equal(dev->region_read(vfio::region_bar0, sdma::reg_mem_base, &v, 8), 0);
		assert_int_equal(v, 0);
		v = 0x77000;
		assert_int_equal(dev->region_write(vfio::region_bar0, sdma::reg_mem_base, &v, 8), 0);
		vfio::dma_area a;
		a.iova = 0x10000;
		a.size = 4096;
		a.vaddr = mem.data();
		assert_int_equal(dev->dma_map(a), 0);
	}
	assert_int_equal(second.open(s.path), -EADDRINUSE);
}

static void test_paths(void **)
{
	char dir[] = "/tmp/usdma-sim-XXXXXX";
	sim::listener l;

	assert_non_null(mkdtemp(dir));
	const std::string d = dir, file = d + "/file", old = d + "/old";
	assert_true(unique_fd(open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)).valid());
	assert_int_equal(l.open(file), -EEXIST);
	assert_int_equal(l.open(""), -EINVAL);
	assert_int_equal(l.open(std::string(200, 'x')), -EINVAL);
	assert_int_equal(l.open(d + "/none/x"), -ENOENT);
	/* A stale socket, as after a server was killed. */
	{
		sockaddr_un a = {};
		const unique_fd s(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));

		a.sun_family = AF_UNIX;
		memcpy(a.sun_path, old.c_str(), old.size());
		assert_int_equal(bind(s.get(), reinterpret_cast<sockaddr *>(&a), sizeof(a)), 0);
	}
	{
		sim::listener again;

		assert_int_equal(again.open(old), 0);
	}
	assert_int_not_equal(access(old.c_str(), F_OK), 0);
	unlink(file.c_str());
	rmdir(dir);
}

static void test_settings(void **)
{
	static constexpr const char *bad[] = {
		"sim:mem=",
		"sim:mem=0",
		"sim:mem=63K",
		"sim:mem=1X",
		"sim:mem=99999999T",
		"sim:mem=100001",
		"sim:engines=0",
		"sim:engines=65",
		"sim:channels=1025",
		"sim:channels=-1",
		"sim:channels=1 ",
		"sim:what=1",
		"sim:",
		"sim::mem=1M",
		"sim:nomem=2",
		"sim:cpus=",
		"sim:cpus=1+",
		"sim:cpus=9999",
		"sim:engines=3:channels=2",
		"simulator",
		"sim:mem",
		"sim:spin=x",
		"sim:latency=99999999",
		"sim:rate=1Q",
		"sim:files=",
		"sim:files=all",
		"sim:timing=",
		"sim:timing=shuffle",
		"sim:timing=shuffle@",
		"sim:timing=shuffle@1x",
		"sim:model=ioat:timing=late",
	};
	sim::config c;

	for (const char *spec : bad) {
		error_clear();
		assert_int_equal(sim::parse_config(spec, &c), -EINVAL);
		assert_true(strlen(error_text()) > 10);
	}
	assert_int_equal(sim::parse_config("sim", &c), 0);
	assert_int_equal(c.mem, GiB);
	assert_int_equal(c.engines, 2);
	assert_int_equal(c.channels, 64);
	assert_int_equal(
		sim::parse_config("sim:mem=2M:engines=3:channels=7:spin=1:latency=2:rate=3K:nomem=1:cpus=0", &c), 0);
	assert_int_equal(c.mem, 2 * MiB);
	assert_int_equal(c.engines, 3);
	assert_int_equal(c.channels, 7);
	assert_int_equal(c.spin_us, 1);
	assert_int_equal(c.latency_us, 2);
	assert_int_equal(c.rate, 3 * KiB);
	assert_false(c.has_mem);
	assert_int_equal(c.cpus.size(), 1);
	assert_int_equal(sim::parse_config("sim:timing=shuffle@18446744073709551615", &c), 0);
	assert_true(c.timing == timing_kind::shuffle && c.timing_seed == ~u64(0));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_version),
		cmocka_unit_test(test_version_limits),
		cmocka_unit_test(test_doorbells_for_one_descriptor),
		cmocka_unit_test(test_silent_client),
		cmocka_unit_test(test_dma_map_checks),
		cmocka_unit_test(test_dma_unmap_checks),
		cmocka_unit_test(test_region_checks),
		cmocka_unit_test(test_irq_checks),
		cmocka_unit_test(test_info_checks),
		cmocka_unit_test(test_stray_fds),
		cmocka_unit_test(test_broken_frames),
		cmocka_unit_test(test_random_messages),
		cmocka_unit_test(test_stray_reply),
		cmocka_unit_test(test_consecutive_clients),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_settings),
	};

	return cmocka_run_group_tests_name("sim_server", tests, nullptr, nullptr);
}
