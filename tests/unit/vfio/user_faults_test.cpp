/* SPDX-License-Identifier: BSD-3-Clause */
/* The vfio-user client with servers that are faulty, slow, hostile or dead. */
#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/base/log.h"
#include "tests/support/test.h"
#include "tests/unit/vfio/fake_server.h"

#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::vfio;
using usdma::test::fake_server;

using device_ptr = std::unique_ptr<device>;
using proto::command;

static bool readable(int fd, int ms = 0)
{
	pollfd p = {fd, POLLIN, 0};

	return poll(&p, 1, ms) == 1;
}

static bool is(const user_message &m, command cmd)
{
	return m.head.cmd == u16(cmd);
}

/* A server that replies to one command with `body`. */
static fake_server::hook_fn reply_with(command cmd, std::vector<u8> body)
{
	return [=](fake_server &f, user_message &m) {
		if (!is(m, cmd))
			return false;
		f.reply(m, body.data(), body.size());
		return true;
	};
}

template <class T> static std::vector<u8> bytes(const T &t, size_t len = sizeof(T))
{
	const u8 *p = reinterpret_cast<const u8 *>(&t);
	std::vector<u8> v(p, p + std::min(len, sizeof(T)));

	v.resize(len);
	return v;
}

static void check_broken(device &dev)
{
	region_info r;
	u32 v;

	assert_true(dev.lost());
	/* The thread that detects the loss signals it later. */
	assert_true(readable(dev.lost_fd(), 20000));
	assert_int_equal(dev.region(region_bar0, &r), -ENODEV);
	assert_int_equal(dev.region_read(region_bar0, 0, &v, 4), -ENODEV);
	assert_int_equal(dev.reset(), -ENODEV);
}

/* Each of these replies to the command makes the call fail with err, and ends the connection. */
template <class C>
static void replies_break(command cmd, const std::vector<std::vector<u8>> &replies, int err, const C &call)
{
	for (const auto &body : replies) {
		fake_server s(reply_with(cmd, body));
		device_ptr dev;

		assert_int_equal(s.attach(&dev), 0);
		assert_int_equal(call(*dev), err);
		check_broken(*dev);
	}
}

static void test_bad_greetings(void **)
{
	const proto::device_info not_pci = {16, 0, 9, 5}, few = {16, proto::device_flag_pci, 3, 5},
				 many = {16, proto::device_flag_pci, 100000, 5};
	const proto::version_head old = {1, 0};
	const struct {
		command cmd;
		std::vector<u8> body;
		int err;
	} cases[] = {
		{command::version, {}, -EPROTO},
		{command::version, {0, 0, 0}, -EPROTO},
		{command::version, {0, 0, 0, 0, '{', '}'}, -EPROTO}, /* no NUL */
		{command::version, bytes(old), -EPROTO},
		{command::device_get_info, bytes(few, 12), -EPROTO},
		{command::device_get_info, bytes(few, 20), -EPROTO},
		{command::device_get_info, bytes(not_pci), -ENOTSUP},
		{command::device_get_info, bytes(few), -EPROTO},
		{command::device_get_info, bytes(many), -EPROTO},
	};

	for (const auto &c : cases) {
		fake_server s(reply_with(c.cmd, c.body));
		device_ptr dev;

		assert_int_equal(s.attach(&dev), c.err);
		assert_null(dev.get());
	}
}

static void test_bad_region_info(void **)
{
	struct layout {
		proto::region_info info;
		proto::cap_head cap;
		proto::sparse_head sparse;
		proto::sparse_area area;
	} good = {{sizeof(layout), 15, region_bar2, 32, 65536, 0}, {1, 1, 0}, {1, 0}, {0, 4096}}, l[8];
	const std::vector<u8> short_reply = bytes(good, 31), long_reply(8192);
	std::vector<std::vector<u8>> cases = {short_reply, long_reply};

	for (layout &x : l)
		x = good;
	l[0].info.index = 5;
	l[1].info.offset = ~u64(0);
	l[2].info.cap_offset = 8;
	l[3].info.cap_offset = sizeof(layout) - 4;
	l[4].cap.next = 32; /* a loop */
	l[5].sparse.nr_areas = 2;
	l[6].area.offset = 65536;
	l[7].sparse.nr_areas = 0xffffffff;
	for (const layout &x : l)
		cases.push_back(bytes(x));
	replies_break(command::device_get_region_info, cases, -EPROTO, [](device &dev) {
		region_info r;

		return dev.region(region_bar2, &r);
	});
}

static void test_short_region_file(void **)
{
	fake_server s;
	device_ptr dev;
	mapping m;

	close(s.memory);
	s.memory = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(s.memory, 8192), 0);
	assert_int_equal(fcntl(s.memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->region_map(region_bar2, 4096, 4096, &m), 0);
	assert_int_equal(dev->region_map(region_bar2, 4096, 8192, &m), -EPROTO);
	check_broken(*dev);
}

static void test_bad_access_replies(void **)
{
	const proto::region_access_head right = {0, region_bar0, 4}, other = {4, region_bar0, 4},
					more = {0, region_bar0, 8};
	u32 v = 0;

	replies_break(command::region_read,
		      {{}, bytes(right, 16), bytes(right, 19), bytes(right, 21), bytes(other, 20), bytes(more, 20)},
		      -EPROTO, [&](device &dev) { return dev.region_read(region_bar0, 0, &v, 4); });
	replies_break(command::region_write, {{}, bytes(right, 15), bytes(right, 20), bytes(other), bytes(more)},
		      -EPROTO, [&](device &dev) { return dev.region_write(region_bar0, 0, &v, 4); });
}

static void test_bad_irq_and_doorbell_replies(void **)
{
	const proto::irq_info other = {16, 1, irq_msi, 8}, many = {16, 1, irq_msix, 5000};
	struct {
		proto::io_fds_head h;
		proto::io_fd fd;
	} bell = {{56, 0, region_bar0, 1}, {0x1000, 4, 0, 0, 0, 0, 0}}, beyond = bell;
	irq_info info;

	replies_break(command::device_get_irq_info, {bytes(other), bytes(many), bytes(many, 8)}, -EPROTO,
		      [&](device &dev) { return dev.irq(irq_msix, &info); });
	beyond.h.count = 2;
	/* Without a descriptor; more entries than bytes; truncated. The command is optional: doorbells are messages. */
	for (const auto &body : {bytes(bell), bytes(beyond), bytes(bell, 10)}) {
		fake_server s(reply_with(command::device_get_region_io_fds, body));
		device_ptr dev;
		u32 v = 7;

		assert_int_equal(s.attach(&dev), 0);
		assert_int_equal(dev->region_doorbell_fd(region_bar0, 0x1000), -1);
		assert_int_equal(dev->region_write(region_bar0, 0x1000, &v, sizeof(v)), 0);
		assert_false(dev->lost());
	}
}

static void test_unexpected_payload(void **)
{
	static u8 page[4096] __attribute__((aligned(4096)));
	const std::vector<u8> one_more(sizeof(proto::dma_unmap) + 1);
	const unique_fd irq(eventfd(0, EFD_NONBLOCK));
	const int fd = irq.get();

	for (const command cmd :
	     {command::device_reset, command::device_set_irqs, command::dma_map, command::dma_unmap}) {
		fake_server s(reply_with(cmd, one_more));
		device_ptr dev;

		assert_int_equal(s.attach(&dev), 0);
		int err = dev->irq_set(irq_msix, 0, {&fd, 1});
		if (!err)
			err = dev->dma_map({0x1000, 4096, page});
		if (!err)
			err = dev->dma_unmap(0x1000, 4096);
		if (!err)
			err = dev->reset();
		assert_true(err == -EPROTO || (cmd == command::dma_unmap && err == -ENODEV));
		check_broken(*dev);
	}
}

static void test_unknown_ids_are_dropped(void **)
{
	fake_server s([](fake_server &f, user_message &m) {
		user_message other;

		other.head = m.head;
		other.head.id = u16(m.head.id + 77);
		f.reply(other, "junk", 4);
		return false;
	});
	device_ptr dev;

	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->reset(), 0);
	assert_false(dev->lost());
}

static void test_wrong_command_in_reply(void **)
{
	fake_server s([](fake_server &f, user_message &m) {
		if (!is(m, command::device_reset))
			return false;
		m.head.cmd = u16(command::region_write);
		f.reply(m, nullptr, 0);
		return true;
	});
	device_ptr dev;

	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->reset(), -ENODEV);
	check_broken(*dev);
}

static void test_invalid_frames(void **)
{
	const proto::header tiny = {1, 13, 15, 1, 0}, huge = {1, 13, 0xffffffff, 1, 0}, type = {1, 13, 16, 7, 0},
			    stalls = {1, 13, 1000, 1, 0};
	std::vector<std::vector<u8>> cases = {bytes(tiny), bytes(huge), bytes(type), bytes(stalls), bytes(stalls, 9)};
	auto gen = test::rng(2);

	cases.emplace_back(64);
	test::fill_random(cases.back().data(), 64, gen);
	cases.back()[7] = 0x80; /* the size is invalid whatever the random bytes */
	for (const auto &body : cases) {
		fake_server s([&](fake_server &f, user_message &m) {
			if (!is(m, command::device_reset))
				return false;
			f.raw(body.data(), body.size());
			return true;
		});
		device_ptr dev;

		assert_int_equal(s.attach(&dev, 1000), 0);
		const int err = dev->reset();

		/* The message and its call have the same deadline. */
		assert_true(err == -ENODEV || err == -ETIMEDOUT);
		assert_true(readable(dev->lost_fd(), 20000));
		check_broken(*dev);
	}
}

static void test_late_reply(void **)
{
	user_message delayed;
	fake_server s([&](fake_server &f, user_message &m) {
		if (!is(m, command::region_read))
			return false;
		if (delayed.body.empty()) {
			delayed = std::move(m);
			return true;
		}
		f.serve(delayed);
		return false;
	});
	device_ptr dev;
	u32 v = 0;

	s.bar0[4] = 0x44;
	assert_int_equal(s.attach(&dev, 1000), 0);
	assert_int_equal(dev->region_read(region_bar0, 0, &v, 4), -ETIMEDOUT);
	assert_non_null(strstr(error_text(), "REGION_READ"));
	assert_false(dev->lost());
	assert_int_equal(dev->region_read(region_bar0, 4, &v, 4), 0);
	assert_int_equal(v, 0x44);
}

/* The limit of this thread is shorter than that of the connection, which stays; so do later requests. */
static void test_limited_wait(void **)
{
	static constexpr u64 most_ms = 60000;
	bool silent = true;
	fake_server s([&](fake_server &, user_message &m) {
		return is(m, command::device_set_irqs) && std::exchange(silent, false);
	});
	const unique_fd irq(eventfd(0, EFD_NONBLOCK));
	const int fd = irq.get();
	device_ptr dev;

	assert_int_equal(s.attach(&dev, most_ms), 0);
	const u64 begin = now_ns();
	dev->limit_wait(100);
	assert_int_equal(dev->irq_set(irq_msix, 2, {&fd, 1}), -ETIMEDOUT);
	assert_true(now_ns() - begin < most_ms * ns_per_ms);
	assert_non_null(strstr(error_text(), "within 100 ms"));
	dev->limit_wait(0);
	assert_false(dev->lost());
	assert_int_equal(dev->irq_set(irq_msix, 2, {&fd, 1}), 0);
}

/*
 * After an unmap without a reply the server may still access the memory: the connection must end.  That revokes memory
 * that it accessed by messages; a shared file is revoked only when the server has ended.
 */
static void test_unanswered_map_and_unmap(void **)
{
	static u8 page[4096] __attribute__((aligned(4096)));
	const unique_fd file(memfd_create("page", 0));

	assert_int_equal(ftruncate(file.get(), 4096), 0);

	for (const command silent : {command::dma_map, command::dma_unmap}) {
		fake_server s([&](fake_server &, user_message &m) { return is(m, silent); });
		device_ptr dev;
		const bool map = silent == command::dma_map;

		assert_int_equal(s.attach(&dev, 1000), 0);
		dma_area shared = {0x2000, 4096, page};
		shared.fd = file.get();

		assert_int_equal(dev->dma_map({0x1000, 4096, page}), map ? -ETIMEDOUT : 0);
		assert_int_equal(dev->dma_map(shared), map ? -ENODEV : 0);
		if (!map) {
			assert_int_equal(dev->dma_unmap(0x2000, 4096), -ETIMEDOUT);
			assert_int_equal(dev->dma_unmap(0x1000, 4096), 0);
		}
		check_broken(*dev);
		assert_int_equal(dev->dma_map({0x1000, 4096, page}), -ENODEV);
		/* It may have been mapped, and is treated as mapped. */
		assert_int_equal(dev->dma_unmap(0x1000, 4096), map ? 0 : -ENODEV);
		/* The server hangs, and may still access the file. */
		assert_int_equal(dev->quiesce(), -EAGAIN);
		s.hang_up();
		for (u64 until = now_ns() + 20 * ns_per_s; dev->quiesce() && now_ns() < until;)
			sched_yield();
		assert_int_equal(dev->quiesce(), 0);
	}
}

/* The server dies while threads wait for it. */
static void test_server_dies_during_calls(void **)
{
	const unique_fd irq(eventfd(0, EFD_NONBLOCK));
	static u8 page[4096] __attribute__((aligned(4096)));
	const bool raises = eventfd_raise(irq.get()); /* not without aio */
	constexpr unsigned callers = 6;
	std::vector<std::thread> threads;
	std::atomic<unsigned> ended{0};
	unsigned waiting = 0;
	fake_server s([&](fake_server &f, user_message &m) {
		if (!is(m, command::region_read))
			return false;
		if (++waiting == callers)
			f.hang_up();
		return true;
	});
	device_ptr dev;
	region_info r;

	eventfd_clear(irq.get());
	assert_int_equal(s.attach(&dev), 0);
	const int fd = irq.get();

	assert_int_equal(dev->irq_set(irq_msix, 2, {&fd, 1}), 0);
	assert_int_equal(dev->dma_map({0x1000, 4096, page}), 0);
	assert_int_equal(dev->region(region_bar0, &r), 0);
	for (unsigned i = 0; i < callers; i++)
		threads.emplace_back([&] {
			u32 v;

			ended += dev->region_read(region_bar0, 0, &v, 4) == -ENODEV;
		});
	for (std::thread &t : threads)
		t.join();
	assert_int_equal(ended.load(), callers);
	assert_true(!raises || readable(irq.get(), 20000));
	check_broken(*dev);
	assert_int_equal(dev->irq_set(irq_msix, 2, {&fd, 1}), -ENODEV);
	assert_int_equal(dev->dma_unmap(0x1000, 4096), 0);
	assert_int_equal(dev->dma_unmap(0x1000, 4096), -ENODEV);
}

/* Sends a DMA command during the client's call; returns the client's reply. */
static user_message dma(fake_server &f, command cmd, u64 address, u64 count, const std::vector<u8> &data = {})
{
	const proto::dma_access_head h = {address, count};
	std::vector<u8> body = bytes(h);
	user_message m;

	body.insert(body.end(), data.begin(), data.end());
	f.command(4711, cmd, body.data(), body.size());
	if (!f.next(&m))
		m.head.error = 9999;
	return m;
}

struct dma_case {
	command cmd;
	u64 address, count;
	u32 error;
};

static void test_dma_service(void **)
{
	u8 *const mem = static_cast<u8 *>(
		mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	auto gen = test::rng(3);
	/*
	 * [0x1000, 0x3000): read and write, in two areas; [0x3000, 0x4000): read-only for the device;
	 * [0x8000, 0x9000): write-only.
	 */
	const dma_area areas[] = {{0x1000, 4096, mem},
				  {0x2000, 4096, mem + 4096},
				  {0x3000, 4096, mem + 8192, dma_read},
				  {0x8000, 4096, mem + 12288, dma_write}};
	const dma_case cases[] = {
		{command::dma_read, 0x1000, 12288, 0},      {command::dma_write, 0x1003, 8189, 0},
		{command::dma_read, 0x2ffc, 8, 0},          {command::dma_write, 0x2ffc, 8, EACCES},
		{command::dma_write, 0x1ffd, 6, 0},         {command::dma_write, 0x3000, 1, EACCES},
		{command::dma_read, 0x8000, 1, EACCES},     {command::dma_write, 0x8fff, 1, 0},
		{command::dma_write, 0x8fff, 2, EFAULT},    {command::dma_read, 0xfff, 1, EFAULT},
		{command::dma_read, 0x3fff, 2, EFAULT},     {command::dma_read, ~u64(0), 2, EFAULT},
		{command::dma_read, 0x1000, 0, EINVAL},     {command::dma_read, 0x1000, ~u64(0), EINVAL},
		{command::region_read, 0x1000, 4, ENOTSUP},
	};
	std::vector<std::string> wrong;
	fake_server s([&](fake_server &f, user_message &m) {
		if (!is(m, command::device_reset))
			return false;
		for (const dma_case &c : cases) {
			const bool write = c.cmd == command::dma_write;
			std::vector<u8> data(write ? c.count : 0), before(mem, mem + 16384);
			user_message r;

			test::fill_random(data.data(), data.size(), gen);
			r = dma(f, c.cmd, c.address, c.count, data);
			const u64 at = c.address >= 0x8000 ? c.address - 0x8000 + 12288 : c.address - 0x1000;
			bool good = r.head.id == 4711 && r.head.error == c.error &&
				    !!(r.head.flags & proto::flag_error) == !!c.error;

			if (c.error)
				good &= r.body.empty() && !memcmp(mem, before.data(), 16384);
			else if (write)
				good &= r.body.size() == 16 && !memcmp(mem + at, data.data(), data.size());
			else
				good &= r.body.size() == 16 + c.count && !memcmp(r.body.data() + 16, mem + at, c.count);
			if (!good)
				wrong.push_back(std::to_string(&c - cases));
		}
		return false;
	});
	device_ptr dev;

	test::fill_random(mem, 16384, gen);
	assert_int_equal(s.attach(&dev), 0);
	for (const dma_area &a : areas)
		assert_int_equal(dev->dma_map(a), 0);
	assert_int_equal(dev->reset(), 0);
	assert_string_equal(wrong.empty() ? "" : wrong[0].c_str(), "");
	assert_int_equal(dev->dma_unmap(0x2000, 4096), 0);
	/* The second case accesses it. */
	wrong.clear();
	assert_int_equal(dev->reset(), 0);
	assert_true(!wrong.empty());
	dev.reset();
	s.stop();
	munmap(mem, 16384);
}

static void test_dma_with_wrong_length(void **)
{
	for (const size_t extra : {size_t(0), size_t(2)}) {
		fake_server s([&](fake_server &f, user_message &m) {
			if (!is(m, command::device_reset))
				return false;
			dma(f, command::dma_write, 0x1000, 1, std::vector<u8>(extra));
			return true;
		});
		device_ptr dev;

		assert_int_equal(s.attach(&dev), 0);
		assert_int_equal(dev->reset(), -ENODEV);
		check_broken(*dev);
	}
}

/* A thread that polls a word never reads a partial write of the server. */
static void test_dma_write_is_atomic(void **)
{
	static u64 page[512] __attribute__((aligned(4096)));
	constexpr u64 rounds = 2000;
	fake_server s([&](fake_server &f, user_message &m) {
		if (!is(m, command::device_reset))
			return false;
		for (u64 i = 1; i <= rounds; i++) {
			const u64 word = i << 32 | i;

			dma(f, command::dma_write, 0x1008, 8, bytes(word));
		}
		return false;
	});
	device_ptr dev;
	bool torn = false;

	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->dma_map({0x1000, 4096, page}), 0);
	std::thread poller([&] {
		u64 v;

		do {
			v = load_acquire(&page[1]);
			torn |= (v >> 32) != (v & 0xffffffff);
		} while ((v & 0xffffffff) != rounds);
	});

	assert_int_equal(dev->reset(), 0);
	poller.join();
	assert_false(torn);
}

/* Many callers; if two requests are pending, the server replies in the wrong order. */
static void test_many_threads(void **)
{
	constexpr unsigned callers = 8;
	const unsigned rounds = 300 * test::scale();
	std::vector<std::thread> threads;
	std::atomic<unsigned> wrong{0};
	fake_server s([&](fake_server &f, user_message &m) {
		user_message second;

		if (!is(m, command::region_write) || f.accesses % 3 || !f.pending())
			return false;
		if (!f.next(&second))
			return false;
		f.serve(second);
		f.serve(m);
		return true;
	});
	device_ptr dev;

	assert_int_equal(s.attach(&dev), 0);
	for (unsigned t = 0; t < callers; t++)
		threads.emplace_back([&, t] {
			auto gen = test::rng(100 + t);

			for (unsigned i = 0; i < rounds; i++) {
				u8 out[512], in[512];
				const size_t len = 1 + gen() % sizeof(out);
				const u64 at = t * 1024 + gen() % 512;

				test::fill_random(out, len, gen);
				wrong += dev->region_write(region_bar0, at, out, len) != 0;
				wrong += dev->region_read(region_bar0, at, in, len) != 0;
				wrong += memcmp(in, out, len) != 0;
			}
		});
	for (std::thread &t : threads)
		t.join();
	assert_int_equal(wrong.load(), 0);
	assert_false(dev->lost());
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_greetings),
		cmocka_unit_test(test_bad_region_info),
		cmocka_unit_test(test_short_region_file),
		cmocka_unit_test(test_bad_access_replies),
		cmocka_unit_test(test_bad_irq_and_doorbell_replies),
		cmocka_unit_test(test_unexpected_payload),
		cmocka_unit_test(test_unknown_ids_are_dropped),
		cmocka_unit_test(test_wrong_command_in_reply),
		cmocka_unit_test(test_invalid_frames),
		cmocka_unit_test(test_late_reply),
		cmocka_unit_test(test_limited_wait),
		cmocka_unit_test(test_unanswered_map_and_unmap),
		cmocka_unit_test(test_server_dies_during_calls),
		cmocka_unit_test(test_dma_service),
		cmocka_unit_test(test_dma_with_wrong_length),
		cmocka_unit_test(test_dma_write_is_atomic),
		cmocka_unit_test(test_many_threads),
	};

	/* Errors about these servers are expected. */
	log_set_level(log_level::none);
	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
