/* SPDX-License-Identifier: BSD-3-Clause */
/* The vfio-user client with a server that replies correctly. */
#include "driver/base/error.h"
#include "driver/vfio_user/firmware.h"
#include "tests/support/test.h"
#include "tests/unit/vfio/fake_server.h"

#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::vfio;
using usdma::test::fake_server;

using device_ptr = std::unique_ptr<device>;

static bool readable(int fd)
{
	pollfd p = {fd, POLLIN, 0};

	return poll(&p, 1, 0) == 1;
}

static void test_version_negotiation(void **)
{
	fake_server s;
	device_ptr dev;
	address_limits l;

	s.version_reply =
		"{\"capabilities\":{\"max_dma_maps\":3,\"pgsizes\":73728,\"twin_socket\":{\"supported\":false},"
		"\"max_msg_fds\":8,\"max_data_xfer_size\":4096}}";
	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->limits(&l), 0);
	assert_int_equal(l.page_size, 8192);
	assert_int_equal(l.max_mappings, 3);
	assert_string_equal(dev->name(), "fake");
	assert_string_equal(dev->backend(), "vfio-user");
	assert_false(dev->lost());
	assert_false(readable(dev->lost_fd()));
}

static void test_defaults_without_json(void **)
{
	fake_server s;
	device_ptr dev;
	address_limits l;

	s.version_reply = "";
	s.minor = 0;
	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->limits(&l), 0);
	assert_int_equal(l.page_size, 4096);
	assert_int_equal(l.max_mappings, 65535);
}

static void test_refuses_bad_versions(void **)
{
	const char *const bad[] = {
		"nonsense",
		"[]",
		"{\"capabilities\":[]}",
		"{\"capabilities\":{\"max_msg_fds\":\"8\"}}",
		"{",
		"{\"capabilities\":{\"max_data_xfer_size\":0}}",
		"{\"capabilities\":{\"pgsizes\":0}}",
		"{\"capabilities\":{\"max_dma_maps\":-1}}",
		"{\"capabilities\":{\"max_dma_maps\":1.5}}",
		"{\"capabilities\":{\"max_data_xfer_size\":123456789012345678901234567890}}",
	};

	for (const char *json : bad) {
		fake_server s;
		device_ptr dev;

		s.version_reply = json;
		assert_int_equal(s.attach(&dev), -EPROTO);
		assert_null(dev.get());
	}
	fake_server s;
	device_ptr dev;

	s.minor = 7;
	assert_int_equal(s.attach(&dev), -EPROTO);
	assert_non_null(strstr(error_text(), "0.7"));
	user_caps caps;
	assert_int_equal(user_caps_parse({"{}", 3}, &caps), 0);
	assert_int_equal(user_caps_parse({"{} ", 3}, &caps), -EPROTO);
}

static void test_region_info(void **)
{
	fake_server s;
	device_ptr dev;
	region_info r;

	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->region(region_bar0, &r), 0);
	assert_int_equal(r.size, fake_server::bar0_size);
	assert_int_equal(r.flags, region_readable | region_writable);
	assert_int_equal(dev->region(region_bar2, &r), 0);
	assert_int_equal(r.flags, region_readable | region_writable | region_mappable);
	assert_int_equal(r.mappable.size(), 1);
	assert_int_equal(r.mappable[0].start, 4096);
	assert_int_equal(r.mappable[0].last, fake_server::bar2_size - 1);
	assert_int_equal(dev->region(1, &r), 0);
	assert_int_equal(r.size, 0);
	assert_int_equal(dev->region(9, &r), -EINVAL);
	assert_int_equal(dev->region(region_bar2, &r), 0);
	assert_int_equal(s.region_requests, 3);
}

static void test_region_map(void **)
{
	fake_server s;
	device_ptr dev;
	mapping m;
	char c = 0;
	u64 offset = 99;

	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->region_map(region_bar0, 0, 4096, &m), -EOPNOTSUPP);
	assert_int_equal(dev->region_map(region_bar2, 0, 8192, &m), -EOPNOTSUPP);
	assert_int_equal(dev->region_map(region_bar2, 4096, fake_server::bar2_size, &m), -EINVAL);
	assert_int_equal(dev->region_map(region_bar2, 100, 4096, &m), -EINVAL);
	assert_int_equal(dev->region_map(region_bar2, 4096, 0, &m), -EINVAL);
	assert_int_equal(dev->region_map(region_bar2, ~u64(4095), 8192, &m), -EINVAL);
	assert_int_equal(dev->region_map(region_bar2, 8192, 4096, &m), 0);
	m.data()[7] = 'x';
	assert_int_equal(pread(s.memory, &c, 1, 8192 + 7), 1);
	assert_int_equal(c, 'x');
	assert_int_equal(dev->region_fd(region_bar0, &offset), -1);
	assert_true(dev->region_fd(region_bar2, &offset) >= 0);
	assert_int_equal(offset, 0);
}

static void test_region_access(void **)
{
	auto gen = test::rng(1);
	std::vector<u8> out(5000), in(5000);
	fake_server s;
	device_ptr dev;
	u64 word = 0x1122334455667788;

	s.version_reply = "{\"capabilities\":{\"max_data_xfer_size\":64}}";
	assert_int_equal(s.attach(&dev), 0);
	test::fill_random(out.data(), out.size(), gen);
	assert_int_equal(dev->region_write(region_bar0, 100, out.data(), out.size()), 0);
	assert_int_equal(dev->region_read(region_bar0, 100, in.data(), in.size()), 0);
	assert_memory_equal(in.data(), out.data(), out.size());
	assert_int_equal(s.accesses, 2 * ((5000 + 63) / 64));
	assert_int_equal(dev->region_write(region_bar0, 8, &word, 8), 0);
	assert_memory_equal(s.bar0.data() + 8, &word, 8);
	assert_int_equal(dev->region_read(region_bar0, fake_server::bar0_size - 4, &word, 8), -EINVAL);
	assert_int_equal(dev->region_read(region_bar0, ~u64(0), &word, 8), -EINVAL);
	assert_int_equal(dev->region_read(1, 0, &word, 1), -EINVAL);
	assert_false(dev->lost());
}

static void test_config_space(void **)
{
	fake_server s;
	device_ptr dev;
	u16 v16 = 0;
	u32 v32 = 0;

	s.config[0] = 0x34, s.config[1] = 0x12, s.config[2] = 0xe8, s.config[3] = 0x11;
	s.config[4] = 0x02;
	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(config_read16(*dev, 0, &v16), 0);
	assert_int_equal(v16, 0x1234);
	assert_int_equal(config_read32(*dev, 0, &v32), 0);
	assert_int_equal(v32, 0x11e81234);
	assert_int_equal(config_bus_master(*dev, true), 0);
	assert_int_equal(s.config[4], 0x06);
	assert_int_equal(config_bus_master(*dev, false), 0);
	assert_int_equal(s.config[4], 0x02);
}

static u32 config32(const fake_server &s, unsigned offset)
{
	u32 v;

	memcpy(&v, &s.config[offset], sizeof(v));
	return v;
}

/* A server that models the bus: no register answers before memory space is on and the BARs have addresses. */
static void test_firmware(void **)
{
	fake_server s([](fake_server &f, user_message &m) {
		proto::region_access_head h;

		if (m.head.cmd != u16(proto::command::region_read))
			return false;
		memcpy(&h, m.body.data(), sizeof(h));
		if (h.region == region_config || ((f.config[4] & 2) && config32(f, 0x10) & ~15u))
			return false;
		f.reply(m, nullptr, 0, {}, EINVAL);
		return true;
	});
	device_ptr dev;
	u32 v;

	s.config[0x18] = 0xc; /* BAR2: 64 bits, prefetchable */
	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->region_read(region_bar0, 0, &v, 4), -EINVAL);
	assert_int_equal(config_assign_bars(*dev), 0);
	assert_int_equal(dev->region_read(region_bar0, 0, &v, 4), 0);
	assert_int_equal(s.config[4], 2);
	assert_int_equal(config32(s, 0x10) % fake_server::bar0_size, 0);
	assert_true(config32(s, 0x1c) != 0);
	/* BARs that have addresses are not changed. */
	s.config[0x13] = 0x77;
	assert_int_equal(config_assign_bars(*dev), 0);
	assert_int_equal(s.config[0x13], 0x77);
}

static void test_doorbell(void **)
{
	fake_server s;
	device_ptr dev;
	int fd;

	assert_int_equal(s.attach(&dev), 0);
	fd = dev->region_doorbell_fd(region_bar0, 0x1000);
	assert_true(fd >= 0);
	assert_int_equal(eventfd_write(fd, 1), 0);
	assert_true(readable(s.doorbell));
	assert_int_equal(dev->region_doorbell_fd(region_bar0, 0x1004), -1);
	assert_int_equal(dev->region_doorbell_fd(region_bar0, 0x2000), -1);
	assert_int_equal(dev->region_doorbell_fd(region_bar2, 0), -1);
	assert_int_equal(dev->region_doorbell_fd(77, 0), -1);
	assert_false(dev->lost());
}

/* As libvfio-user sends them: longer entries, a descriptor that is shared, and one entry that has none. */
/* More doorbells than fit the first answer: libvfio-user sends the header alone, and gets a second request. */
static void test_many_doorbells(void **)
{
	static constexpr u32 n = 200;
	u32 requests = 0;
	fake_server s([&](fake_server &f, user_message &m) {
		std::vector<u8> body(sizeof(proto::io_fds_head) + n * sizeof(proto::io_fd));
		proto::io_fds_head head;

		if (m.head.cmd != u16(proto::command::device_get_region_io_fds))
			return false;
		memcpy(&head, m.body.data(), sizeof(head));
		requests++;
		const bool fits = head.argsz >= body.size();
		head.argsz = u32(body.size());
		head.count = n;
		memcpy(body.data(), &head, sizeof(head));
		for (u32 i = 0; i < n; i++) {
			const proto::io_fd d = {i * 8, 4, 0, proto::io_fd_ioeventfd, 0, 0, 0};

			memcpy(body.data() + sizeof(head) + i * sizeof(d), &d, sizeof(d));
		}
		if (fits)
			f.reply(m, body.data(), body.size(), {&f.doorbell, 1});
		else
			f.reply(m, body.data(), sizeof(head));
		return true;
	});
	device_ptr dev;

	assert_int_equal(s.attach(&dev), 0);
	const int fd = dev->region_doorbell_fd(region_bar0, (n - 1) * 8);
	assert_true(fd >= 0);
	dev->doorbell_ring(fd);
	assert_true(readable(s.doorbell));
	assert_int_equal(requests, 2);
	assert_false(dev->lost());
}

static void test_doorbells_with_longer_entries(void **)
{
	struct entry {
		proto::io_fd fd;
		u64 more;
	};
	struct {
		proto::io_fds_head head;
		entry at[3];
	} bells = {{sizeof(bells), 0, region_bar0, 3},
		   {{{0, 4, ~u32(0), 0, 0, 0, 0}, ~u64(0)},
		    {{64, 4, 0, 0, 0, 0, 0}, ~u64(0)},
		    {{128, 0, 0, 0, 0, 0, 0}, ~u64(0)}}};
	fake_server s([&](fake_server &f, user_message &m) {
		if (m.head.cmd != u16(proto::command::device_get_region_io_fds))
			return false;
		f.reply(m, &bells, sizeof(bells), {&f.doorbell, 1});
		return true;
	});
	device_ptr dev;

	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->region_doorbell_fd(region_bar0, 0), -1);
	for (const u64 offset : {64, 128}) {
		const int fd = dev->region_doorbell_fd(region_bar0, offset);

		assert_true(fd >= 0);
		assert_int_equal(eventfd_write(fd, 1), 0);
		assert_true(readable(s.doorbell));
	}
	assert_false(dev->lost());
}

static void check_irq_set(const proto::irq_set_head &h, u32 data, u32 start, u32 count)
{
	assert_int_equal(h.index, irq_msix);
	assert_int_equal(h.flags, data | proto::irq_set_action_trigger);
	assert_int_equal(h.start, start);
	assert_int_equal(h.count, count);
}

static void test_interrupts(void **)
{
	const unique_fd a(eventfd(0, EFD_NONBLOCK)), b(eventfd(0, EFD_NONBLOCK));
	const int mixed[] = {a.get(), b.get(), a.get(), -1, -1, b.get()};
	const int off[] = {-1, -1, -1, -1, -1, -1, -1, -1};
	fake_server s;
	device_ptr dev;
	irq_info info;

	s.version_reply = "{\"capabilities\":{\"max_msg_fds\":2}}";
	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->irq(irq_msix, &info), 0);
	assert_int_equal(info.count, 8);
	assert_int_equal(dev->irq(77, &info), 0);
	assert_int_equal(info.count, 0);
	assert_int_equal(dev->irq_set(irq_msix, 1, mixed), 0);
	assert_int_equal(s.irq_sets.size(), 4);
	check_irq_set(s.irq_sets[0], proto::irq_set_data_eventfd, 1, 2);
	check_irq_set(s.irq_sets[1], proto::irq_set_data_eventfd, 3, 1);
	check_irq_set(s.irq_sets[2], proto::irq_set_data_eventfd, 4, 2);
	check_irq_set(s.irq_sets[3], proto::irq_set_data_eventfd, 6, 1);
	assert_int_equal(s.irq_fds.size(), 4);
	eventfd_write(s.irq_fds[1].get(), 1);
	assert_true(readable(b.get()));
	assert_int_equal(dev->irq_set(irq_msix, 0, off), 0);
	check_irq_set(s.irq_sets[4], proto::irq_set_data_none, 0, 0);
	/* All vectors, not all of them off. */
	const int most[] = {a.get(), b.get(), -1, -1, -1, -1, -1, -1};
	assert_int_equal(dev->irq_set(irq_msix, 0, most), 0);
	assert_int_equal(s.irq_sets.size(), 7);
	check_irq_set(s.irq_sets[5], proto::irq_set_data_eventfd, 0, 2);
	check_irq_set(s.irq_sets[6], proto::irq_set_data_eventfd, 2, 6);
	assert_int_equal(dev->irq_set(irq_msix, 3, mixed), -EINVAL);
	assert_int_equal(dev->irq_set(irq_msix, ~0u, mixed), -EINVAL);
	assert_int_equal(dev->irq_set(irq_msi, 0, off), -EINVAL);
	assert_int_equal(dev->irq_set(irq_msix, 0, {}), -EINVAL);
}

static void test_dma_map(void **)
{
	fake_server s;
	device_ptr dev;
	dma_area a = {0x100000, 8192, nullptr, dma_read, s.memory, 4096};
	u8 *const plain = static_cast<u8 *>(
		mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

	s.version_reply = "{\"capabilities\":{\"max_dma_maps\":2}}";
	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->dma_map(a), 0);
	assert_int_equal(s.map_fds.size(), 1);
	assert_int_equal(s.maps[0].address, 0x100000);
	assert_int_equal(s.maps[0].size, 8192);
	assert_int_equal(s.maps[0].offset, 4096);
	assert_int_equal(s.maps[0].flags, proto::dma_readable);
	assert_int_equal(dev->dma_map(a), -EEXIST);
	a = {0x101000, 4096, plain};
	assert_int_equal(dev->dma_map(a), -EEXIST);
	a = {0xff000, 8192, plain};
	assert_int_equal(dev->dma_map(a), -EEXIST);
	a = {0x102000, 8192, plain};
	assert_int_equal(dev->dma_map(a), 0);
	assert_int_equal(s.map_fds.size(), 1);
	assert_int_equal(s.maps[1].flags, proto::dma_readable | proto::dma_writable);
	a.iova = 0x200000;
	assert_int_equal(dev->dma_map(a), -ENOSPC);
	assert_int_equal(dev->dma_unmap(0x102000, 4096), -ENOENT);
	assert_int_equal(dev->dma_unmap(0x103000, 4096), -ENOENT);
	assert_int_equal(dev->dma_unmap(0x102000, 8192), 0);
	assert_int_equal(s.unmaps.size(), 1);
	assert_int_equal(dev->dma_map(a), 0);
	/* Areas that are still mapped are unmapped at the end. */
	dev.reset();
	s.stop();
	assert_int_equal(s.unmaps.size(), 3);
	munmap(plain, 8192);
}

static void test_dma_map_bad(void **)
{
	static u8 page[8192] __attribute__((aligned(4096)));
	const dma_area bad[] = {
		{0x1000, 0, page},        {0x1001, 4096, page},     {0x1000, 100, page},
		{0x1000, 4096, page + 1}, {~u64(4095), 8192, page}, {0x1000, 4096, nullptr},
		{0x1000, 4096, page, 0},  {0x1000, 4096, page, 8},  {0x1000, 4096, page, dma_read, 0, 77},
	};
	fake_server s;
	device_ptr dev;

	assert_int_equal(s.attach(&dev), 0);
	for (const dma_area &a : bad)
		assert_int_equal(dev->dma_map(a), -EINVAL);
	assert_int_equal(s.maps.size(), 0);
	/* The last page of the address space can be mapped. */
	assert_int_equal(dev->dma_map({~u64(4095), 4096, page}), 0);
	assert_int_equal(dev->dma_unmap(~u64(4095), 4096), 0);
}

struct shared_area {
	u64 iova = 0, size = 0;
	void *vaddr = nullptr;
	int answer = 0;
};

static int share(void *arg, u64 iova, void *vaddr, u64 size)
{
	auto *a = static_cast<shared_area *>(arg);

	a->iova = iova, a->vaddr = vaddr, a->size = size;
	return a->answer;
}

static void test_share_local(void **)
{
	static u8 page[4096] __attribute__((aligned(4096)));
	shared_area seen;
	user_options opt;
	device_ptr dev;
	fake_server s;

	opt.share_local = share;
	opt.share_arg = &seen;
	opt.backend = "sim";
	std::thread server([&] {
		user_message m;

		while (s.next(&m))
			s.serve(m);
	});

	assert_int_equal(user_attach(s.take_client(), opt, &dev), 0);
	assert_string_equal(dev->backend(), "sim");
	assert_int_equal(dev->dma_map({0x4000, 4096, page}), 0);
	assert_ptr_equal(seen.vaddr, page);
	assert_int_equal(seen.iova, 0x4000);
	assert_int_equal(seen.size, 4096);
	seen.answer = -ENOMEM;
	assert_int_equal(dev->dma_map({0x8000, 4096, page}), -ENOMEM);
	assert_int_equal(s.maps.size(), 1);
	assert_int_equal(dev->dma_unmap(0x8000, 4096), -ENOENT);
	dev.reset();
	s.hang_up();
	server.join();
}

static void test_reset(void **)
{
	fake_server s;
	device_ptr dev;

	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->reset(), 0);
	assert_int_equal(s.resets, 1);
}

static void test_refusal_is_reported(void **)
{
	fake_server s([](fake_server &f, user_message &m) {
		if (m.head.cmd != u16(proto::command::device_reset))
			return false;
		f.reply(m, nullptr, 0, {}, EBUSY);
		return true;
	});
	device_ptr dev;

	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->reset(), -EBUSY);
	assert_non_null(strstr(error_text(), "DEVICE_RESET"));
	assert_false(dev->lost());
}

static void test_connect(void **)
{
	char dir[] = "/tmp/usdma-vfio-XXXXXX";
	sockaddr_un addr{};
	device_ptr dev;
	user_options opt;

	assert_non_null(mkdtemp(dir));
	const std::string path = std::string(dir) + "/sock";

	assert_int_equal(user_connect(path, opt, &dev), -ENOENT);
	assert_non_null(strstr(error_text(), path.c_str()));
	assert_int_equal(user_connect(std::string(200, 'x'), opt, &dev), -EINVAL);
	assert_int_equal(user_connect("", opt, &dev), -EINVAL);
	unique_fd lis(socket(AF_UNIX, SOCK_STREAM, 0));

	addr.sun_family = AF_UNIX;
	strcpy(addr.sun_path, path.c_str());
	assert_int_equal(bind(lis.get(), reinterpret_cast<sockaddr *>(&addr), sizeof(addr)), 0);
	assert_int_equal(user_connect(path, opt, &dev), -ECONNREFUSED);
	assert_int_equal(listen(lis.get(), 1), 0);
	std::thread server([&] {
		const unique_fd conn(accept(lis.get(), nullptr, nullptr));
		user_message m;

		while (user_recv(conn.get(), deadline::in_ms(30000), 30000, &m) == 0) {
			proto::version_head v = {0, 0};
			proto::device_info i = {sizeof(i), proto::device_flag_pci, 9, 5};
			const bool first = m.head.cmd == u16(proto::command::version);
			const iovec part = {first ? static_cast<void *>(&v) : &i, first ? sizeof(v) : sizeof(i)};

			user_send(conn.get(), {m.head.id, m.head.cmd, 0, proto::type_reply, 0}, {&part, 1}, {},
				  deadline::in_ms(30000));
		}
	});

	assert_int_equal(user_connect(path, opt, &dev), 0);
	assert_string_equal(dev->name(), ("vfio-user:" + path).c_str());
	assert_int_equal(dev->reset(), -EOPNOTSUPP);
	dev.reset();
	server.join();
	unlink(path.c_str());
	rmdir(dir);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_version_negotiation),
		cmocka_unit_test(test_defaults_without_json),
		cmocka_unit_test(test_refuses_bad_versions),
		cmocka_unit_test(test_region_info),
		cmocka_unit_test(test_region_map),
		cmocka_unit_test(test_region_access),
		cmocka_unit_test(test_config_space),
		cmocka_unit_test(test_firmware),
		cmocka_unit_test(test_doorbell),
		cmocka_unit_test(test_many_doorbells),
		cmocka_unit_test(test_doorbells_with_longer_entries),
		cmocka_unit_test(test_interrupts),
		cmocka_unit_test(test_dma_map),
		cmocka_unit_test(test_dma_map_bad),
		cmocka_unit_test(test_share_local),
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_refusal_is_reported),
		cmocka_unit_test(test_connect),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
