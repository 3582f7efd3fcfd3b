/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vfio-user client with a hostile server: descriptors that the server sends, and misuse of those that it
 * receives.
 */
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/vfio/region.h"
#include "driver/vfio_user/link.h"
#include "tests/support/silent_file.h"
#include "tests/support/test.h"
#include "tests/unit/vfio/fake_server.h"

#include <cstring>
#include <fcntl.h>
#include <linux/memfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace usdma;
using namespace usdma::vfio;
using usdma::test::end_silent_file;
using usdma::test::fake_server;
using usdma::test::fds_of;
using usdma::test::lingering_socket;
using usdma::test::silent_file;

using device_ptr = std::unique_ptr<device>;
using proto::command;

static constexpr u64 full = 0xfffffffffffffffe;

static bool is(const user_message &m, command cmd)
{
	return m.head.cmd == u16(cmd);
}

/* ---- doorbells ----------------------------------------------------------------------------------------- */

/* n doorbells, 64 bytes apart, that share one descriptor; entry `odd` has the index of a missing one. */
static fake_server::hook_fn doorbells(u32 n, int fd, u32 odd = ~u32(0))
{
	return [=](fake_server &f, user_message &m) {
		if (!is(m, command::device_get_region_io_fds))
			return false;
		std::vector<u8> body(sizeof(proto::io_fds_head) + n * sizeof(proto::io_fd));
		const proto::io_fds_head head = {u32(body.size()), 0, region_bar0, n};

		memcpy(body.data(), &head, sizeof(head));
		for (u32 i = 0; i < n; i++) {
			const proto::io_fd d = {i * 64 % fake_server::bar0_size,
						4,
						i == odd ? 1u : 0u,
						proto::io_fd_ioeventfd,
						0,
						0,
						0};

			memcpy(body.data() + sizeof(head) + i * sizeof(d), &d, sizeof(d));
		}
		f.reply(m, body.data(), body.size(), {&fd, 1});
		return true;
	};
}

/* They are never written, which could end the program (SIGPIPE) or block a thread. */
static void unusable_doorbell_files(void **)
{
	int pipe_fds[2], pair[2];
	u32 v = 7;

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	close(pipe_fds[0]);
	close(pair[0]);
	const unique_fd some[] = {
		unique_fd(pipe_fds[1]), unique_fd(pair[1]), unique_fd(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
		unique_fd(open("/", O_PATH | O_CLOEXEC)), unique_fd(memfd_create("doorbell", MFD_CLOEXEC))};

	for (const unique_fd &fd : some) {
		fake_server s(doorbells(4, fd.get()));
		device_ptr dev;

		assert_int_equal(s.attach(&dev), 0);
		const unsigned before = fds_of(fd.get());
		assert_int_equal(dev->region_doorbell_fd(region_bar0, 64), -1);
		/* A thread may be closing it (close_foreign). */
		for (const deadline until = deadline::in_ms(20000); fds_of(fd.get()) != before && !until.passed();)
			sched_yield();
		assert_int_equal(fds_of(fd.get()), before);
		/* The register is written instead. */
		assert_int_equal(dev->region_write(region_bar0, 64, &v, 4), 0);
	}
}

/* A descriptor in an unread message is closed with the connection, and does not block that. */
static void unread_descriptors_do_not_block(void **)
{
	const proto::header h = {1, u16(command::device_reset), sizeof(h), proto::type_reply, 0};
	const int fd = lingering_socket();
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(user_send(pair[0], h, {}, {&fd, 1}, deadline::in_ms(20000)), 0);
	close(fd);
	close(pair[0]);
	user_hang_up(unique_fd(pair[1]));
}

/* A descriptor in an invalid reply does not block the client. */
static void invalid_reply_with_descriptor(void **)
{
	static const u8 body[8] = {};
	const int fd = lingering_socket();
	fake_server s([&](fake_server &f, user_message &m) {
		if (!is(m, command::device_reset))
			return false;
		m.head.cmd++;
		f.reply_in_two_parts(m, body, sizeof(body), fd, true);
		return true;
	});
	device_ptr dev;

	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->reset(), -ENODEV);
	assert_true(dev->lost());
}

/* A descriptor that blocks in fstat(2) or close(2) blocks neither the client nor its end. */
static void check_not_blocked_by(int fd, bool last)
{
	fake_server s([&](fake_server &f, user_message &m) {
		proto::io_fds_head head = {sizeof(head) + sizeof(proto::io_fd), 0, region_bar0, 1};
		const proto::io_fd one = {0x20, 4, 0, proto::io_fd_ioeventfd, 0, 0, 0};
		std::vector<u8> body(head.argsz);

		if (!is(m, command::device_get_region_io_fds))
			return false;
		memcpy(body.data(), &head, sizeof(head));
		memcpy(body.data() + sizeof(head), &one, sizeof(one));
		f.reply_in_two_parts(m, body.data(), body.size(), fd, last);
		return true;
	});
	device_ptr dev;
	u32 v = 7;

	if (!last) {
		close(s.memory);
		s.memory = dup(fd);
	}
	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->region_doorbell_fd(region_bar0, 0x20), -1);
	assert_int_equal(dev->region_write(region_bar0, 64, &v, 4), 0);
	assert_false(dev->lost());
	if (last)
		return;
	region_info r;
	assert_int_equal(dev->region(region_bar2, &r), 0);
	assert_false(r.flags & region_mappable);
	dev.reset();
	end_silent_file(); /* else the fake server's close blocks */
}

static void descriptors_that_block(void **)
{
	const char *why;
	const int silent = silent_file(&why);

	check_not_blocked_by(lingering_socket(), true);
	if (silent < 0) {
		print_message("# SKIP a file that never answers: %s\n", why);
		return;
	}
	check_not_blocked_by(silent, false);
	close(silent);
}

/* A blocking eventfd with a full counter does not block the thread that rings it. */
static void full_doorbell_does_not_block(void **)
{
	const unique_fd doorbell(eventfd(0, EFD_CLOEXEC));
	fake_server s(doorbells(1, doorbell.get()));
	device_ptr dev;

	assert_int_equal(s.attach(&dev), 0);
	const int fd = dev->region_doorbell_fd(region_bar0, 0);
	assert_true(fd >= 0);
	if (!dev->doorbell_ring(fd))
		skip(); /* no aio here: the register is written instead */
	assert_int_equal(eventfd_clear(doorbell.get()), 1);
	assert_int_equal(write(doorbell.get(), &full, sizeof(full)), sizeof(full));
	assert_true(dev->doorbell_ring(fd));
	assert_true(dev->doorbell_ring(fd));
}

/* A descriptor is received once, however many doorbells share it; none is retained from an invalid reply. */
static void doorbells_share_a_descriptor(void **)
{
	const unique_fd doorbell(eventfd(0, EFD_CLOEXEC));
	const struct {
		u32 n, odd;
		unsigned taken;
	} rows[] = {{100, ~u32(0), 1}, {100, 99, 0}, {20000, ~u32(0), 0}, {103, ~u32(0), 0}};

	for (const auto &row : rows) {
		fake_server s(doorbells(row.n, doorbell.get(), row.odd));
		device_ptr dev;

		assert_int_equal(s.attach(&dev), 0);
		const unsigned before = fds_of(doorbell.get());
		assert_int_equal(dev->region_doorbell_fd(region_bar0, 64) >= 0, row.taken);
		assert_int_equal(fds_of(doorbell.get()), before + row.taken);
		/* An optional command: an invalid reply costs the doorbells only. */
		assert_false(dev->lost());
	}
}

/* ---- interrupts ---------------------------------------------------------------------------------------- */

/* The server fills the interrupt eventfds and disconnects: waiting calls return, and the device can be closed. */
static void full_interrupts_then_disconnect(void **)
{
	fake_server s([](fake_server &f, user_message &m) {
		if (!is(m, command::region_read))
			return false;
		for (const unique_fd &fd : f.irq_fds)
			assert_int_equal(write(fd.get(), &full, sizeof(full)), sizeof(full));
		f.hang_up();
		return true;
	});
	const unique_fd irqs[] = {unique_fd(eventfd(0, EFD_CLOEXEC)), unique_fd(eventfd(0, EFD_CLOEXEC))};
	const int raw[] = {irqs[0].get(), irqs[1].get()};
	device_ptr dev;
	u32 v;

	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->irq_set(irq_msix, 0, raw), 0);
	assert_int_equal(dev->region_read(region_bar0, 0, &v, 4), -ENODEV);
	dev.reset();
	s.stop();
}

/* ---- files ---------------------------------------------------------------------------------------------- */

static unique_fd file(u64 bytes, unsigned flags, int seals)
{
	unique_fd fd(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));

	if (!fd.valid())
		return fd; /* no huge pages in this kernel */
	assert_int_equal(ftruncate(fd.get(), off_t(bytes)), 0);
	if (seals)
		assert_int_equal(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
	return fd;
}

/*
 * Files that the server could truncate under a mapping are refused: the region is read and written by
 * messages.
 */
static void unsealed_regions_are_not_mapped(void **)
{
	static constexpr u64 size = 2 * MiB;
	int pipe_fds[2];

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	close(pipe_fds[0]);
	const unique_fd some[] = {file(size, 0, 0),
				  file(size, 0, F_SEAL_GROW | F_SEAL_SEAL),
				  file(size, MFD_HUGETLB | MFD_HUGE_2MB, F_SEAL_SHRINK),
				  unique_fd(open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)),
				  unique_fd(open("/", O_PATH | O_CLOEXEC)),
				  unique_fd(pipe_fds[1])};

	for (const unique_fd &fd : some) {
		fake_server s;
		device_ptr dev;
		region_info r;
		mapping m;
		u64 offset;

		if (!fd.valid())
			continue;
		close(s.memory);
		s.memory = dup(fd.get());
		assert_int_equal(s.attach(&dev), 0);
		assert_int_equal(dev->region(region_bar2, &r), 0);
		assert_false(r.flags & region_mappable);
		assert_int_equal(dev->region_map(region_bar2, 4096, 4096, &m), -EOPNOTSUPP);
		assert_int_equal(dev->region_fd(region_bar2, &offset), -1);
		assert_false(dev->lost());
	}
	fake_server sealed;
	device_ptr dev;
	mapping m;

	assert_int_equal(sealed.attach(&dev), 0);
	assert_int_equal(dev->region_map(region_bar2, 4096, 4096, &m), 0);
}

/* A trusted server may share such files. */
static void trusted_server_may_share_unsealed_files(void **)
{
	static u8 page[4096] __attribute__((aligned(4096)));
	const unique_fd open_end = file(2 * MiB, 0, 0), huge = file(2 * MiB, MFD_HUGETLB | MFD_HUGE_2MB, 0);
	fake_server s;
	device_ptr dev;
	mapping m;
	dma_area a = {0x1000, sizeof(page), page};

	close(s.memory);
	s.memory = dup(open_end.get());
	assert_int_equal(s.attach(&dev, 20000, server_trust::yes), 0);
	assert_int_equal(dev->region_map(region_bar2, 4096, 4096, &m), 0);
	if (!huge.valid())
		skip();
	a.fd = huge.get();
	assert_int_equal(dev->dma_map(a), 0);
	assert_int_equal(s.map_fds.size(), 1);
}

/* Otherwise its registers would not be aligned. */
static void region_offset_is_page_aligned(void **)
{
	fake_server s;
	device_ptr dev;
	mapping m;

	close(s.memory);
	s.memory = file(4 * MiB, 0, F_SEAL_SHRINK).release();
	s.memory_offset = 2;
	assert_int_equal(s.attach(&dev), 0);
	assert_int_equal(dev->region_map(region_bar2, 4096, 4096, &m), -EINVAL);
	assert_false(dev->lost());
}

/* A server could free huge pages by punching holes: it gets no descriptor of them, only messages. */
static void huge_pages_are_not_shared(void **)
{
	static u8 page[4096] __attribute__((aligned(4096)));
	const unique_fd small = file(2 * MiB, 0, 0), huge = file(2 * MiB, MFD_HUGETLB | MFD_HUGE_2MB, 0);
	fake_server s;
	device_ptr dev;

	if (!huge.valid())
		skip();
	assert_int_equal(s.attach(&dev), 0);
	for (const unique_fd *fd : {&small, &huge}) {
		dma_area a = {u64(fd == &huge ? 0x2000 : 0x1000), sizeof(page), page};

		a.fd = fd->get();
		assert_int_equal(dev->dma_map(a), 0);
	}
	assert_int_equal(s.maps.size(), 2);
	assert_int_equal(s.map_fds.size(), 1);
}

/* ---- capabilities -------------------------------------------------------------------------------------- */

struct cap_list {
	proto::region_info info;
	proto::cap_head head;
	proto::sparse_head sparse;
	proto::sparse_area area[300];
	proto::cap_head second;
	proto::sparse_head second_sparse;
};

static constexpr u32 first_at = offsetof(cap_list, head), second_at = offsetof(cap_list, second);

static cap_list good_list(u32 areas)
{
	cap_list l = {};

	l.head = {proto::cap_sparse_mmap, 1, second_at};
	l.sparse.nr_areas = areas;
	for (u32 i = 0; i < areas; i++)
		l.area[i] = {i * u64(8192), 4096};
	l.second = {77, 1, 0};
	return l;
}

static int parse(const cap_list &l, size_t *areas = nullptr)
{
	std::vector<range> found;
	const int err = region_parse_caps({reinterpret_cast<const u8 *>(&l), sizeof(l)}, first_at, 300 * 8192, &found);

	if (areas)
		*areas = found.size();
	return err;
}

/* Otherwise a reply of 64 KiB could need 400 MB. */
static void capabilities_do_not_overlap(void **)
{
	size_t areas;
	cap_list l = good_list(256);

	assert_int_equal(parse(l, &areas), 0);
	assert_int_equal(areas, 256);
	assert_int_equal(parse(good_list(257)), -EPROTO);
	l = good_list(200);
	l.second = {proto::cap_sparse_mmap, 1, 0};
	assert_int_equal(parse(l), -EPROTO);
	for (const u32 next : {first_at + 8, first_at + 16, first_at + 16 + 199 * 16, first_at, 8u}) {
		l = good_list(200);
		l.head.next = next;
		assert_int_equal(parse(l), -EPROTO);
	}
	l.head.next = first_at + 16 + 200 * 16; /* directly after it */
	assert_int_equal(parse(l), 0);
	for (const proto::sparse_area odd : {proto::sparse_area{0, 4096}, {4095, 2}, {0, 300 * 8192}, {8 * 8192, 1}}) {
		l = good_list(200);
		l.area[199] = odd;
		assert_int_equal(parse(l), -EPROTO);
	}
}

/* ---- time ---------------------------------------------------------------------------------------------- */

/* Each reply comes in time, but not all of them before the deadline: the connection ends, which revokes all. */
static void slow_replies_miss_the_deadline(void **)
{
	static constexpr u64 each_ms = 100, all_ms = 1000;
	bool slow = false;
	fake_server s([&](fake_server &, user_message &) {
		if (slow)
			poll(nullptr, 0, each_ms); /* a slow server */
		return false;
	});
	const deadline until = deadline::in_ms(20000);
	device_ptr dev;
	int err = 0;
	u32 v;

	assert_int_equal(s.attach(&dev), 0);
	/* Fast replies meet the deadline. */
	dev->set_deadline(20000);
	assert_int_equal(dev->region_read(region_bar0, 0, &v, 4), 0);
	dev->set_deadline(0);
	slow = true;
	const u64 began = now_ns();
	while (now_ns() < began + (all_ms + 3 * each_ms) * ns_per_ms)
		assert_int_equal(dev->region_read(region_bar0, 0, &v, 4), 0);
	dev->set_deadline(all_ms);
	while (!err && !until.passed())
		err = dev->region_read(region_bar0, 0, &v, 4);
	assert_int_equal(err, -ETIMEDOUT);
	assert_true(dev->lost());
	assert_int_equal(dev->region_read(region_bar0, 0, &v, 4), -ENODEV);
}

/* A server that does not read: each call fails at its own deadline, not by that of the one whose message is stuck. */
static void stuck_messages_hold_up_no_others(void **)
{
	static constexpr user_link_ops ops = {[](void *, const user_message &, message_body *) { return 0; },
					      [](void *) {}};
	static constexpr u64 long_ms = 20000;
	const std::vector<u8> much(proto::our_max_data_xfer);
	const iovec part = {const_cast<u8 *>(much.data()), much.size()};
	int pair[2];
	user_message reply;
	user_link link;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	unique_fd server(pair[1]);
	assert_int_equal(link.start(unique_fd(pair[0]), long_ms, &ops, nullptr), 0);
	const deadline until = deadline::in_ms(long_ms);
	std::thread first([&] {
		user_message unused;

		link.call(command::region_write, {&part, 1}, {}, &unused);
	});
	for (pollfd p = {pair[0], POLLOUT, 0}; poll(&p, 1, 0) == 1; sched_yield())
		assert_false(until.passed());
	link.set_deadline(100);
	assert_int_equal(link.call(command::device_get_info, {}, {}, &reply), -ETIMEDOUT);
	assert_false(until.passed());
	server.reset();
	first.join();
	link.stop();
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(descriptors_that_block), /* forks: before there are threads */
		cmocka_unit_test(unread_descriptors_do_not_block),
		cmocka_unit_test(invalid_reply_with_descriptor),
		cmocka_unit_test(unusable_doorbell_files),
		cmocka_unit_test(full_doorbell_does_not_block),
		cmocka_unit_test(doorbells_share_a_descriptor),
		cmocka_unit_test(full_interrupts_then_disconnect),
		cmocka_unit_test(unsealed_regions_are_not_mapped),
		cmocka_unit_test(region_offset_is_page_aligned),
		cmocka_unit_test(trusted_server_may_share_unsealed_files),
		cmocka_unit_test(huge_pages_are_not_shared),
		cmocka_unit_test(capabilities_do_not_overlap),
		cmocka_unit_test(slow_replies_miss_the_deadline),
		cmocka_unit_test(stuck_messages_hold_up_no_others),
	};

	alarm(100);
	return cmocka_run_group_tests_name("hostile vfio-user server", tests, nullptr, nullptr);
}
