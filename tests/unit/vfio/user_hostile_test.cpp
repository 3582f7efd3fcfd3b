/* SPDX-License-Identifier: BSD-3-Clause */
/* The vfio-user client against what comes beside a server's messages: descriptors, and what the server does with ours. */
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "tests/support/test.h"
#include "tests/unit/vfio/fake_server.h"

#include <cstring>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::vfio;
using usdma::test::fake_server;
using usdma::test::open_fds;

using device_ptr = std::unique_ptr<device>;
using proto::command;

static constexpr u64 full = 0xfffffffffffffffe;

static bool is(const user_message &m, command cmd)
{
	return m.head.cmd == u16(cmd);
}

/* ---- doorbells ----------------------------------------------------------------------------------------- */

/* So many doorbells, 64 bytes apart, one descriptor for all; the entry at odd names one that is not there. */
static fake_server::hook_fn doorbells(u32 n, int fd, u32 odd = ~u32(0))
{
	return [=](fake_server &f, user_message &m) {
		if (!is(m, command::device_get_region_io_fds))
			return false;
		std::vector<u8> body(sizeof(proto::io_fds_head) + n * sizeof(proto::io_fd));
		const proto::io_fds_head head = {u32(body.size()), 0, region_bar0, n};

		memcpy(body.data(), &head, sizeof(head));
		for (u32 i = 0; i < n; i++) {
			const proto::io_fd d = {i * 64 % fake_server::bar0_size, 4, i == odd ? 1u : 0u, proto::io_fd_ioeventfd, 0, 0, 0};

			memcpy(body.data() + sizeof(head) + i * sizeof(d), &d, sizeof(d));
		}
		f.reply(m, body.data(), body.size(), {&fd, 1});
		return true;
	};
}

/* None of them is written, so that none can end the program (SIGPIPE) or hold a thread. */
static void doorbells_that_are_none(void **)
{
	int pipe_ends[2], pair[2];
	u32 v = 7;

	assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	close(pipe_ends[0]);
	close(pair[0]);
	const unique_fd some[] = {unique_fd(pipe_ends[1]), unique_fd(pair[1]), unique_fd(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
				  unique_fd(open("/", O_PATH | O_CLOEXEC)), unique_fd(memfd_create("bell", MFD_CLOEXEC))};

	for (const unique_fd &fd : some) {
		fake_server s(doorbells(4, fd.get()));
		device_ptr dev;

		assert_int_equal(s.attach(&dev), 0);
		const unsigned before = open_fds();
		assert_int_equal(dev->region_doorbell_fd(region_bar0, 64), -1);
		assert_int_equal(open_fds(), before);
		/* What a doorbell does otherwise. */
		assert_int_equal(dev->region_write(region_bar0, 64, &v, 4), 0);
	}
}

/* Blocking, and its counter is full: whoever rings it goes on. */
static void a_full_doorbell(void **)
{
	const unique_fd bell(eventfd(0, EFD_CLOEXEC));
	fake_server s(doorbells(1, bell.get()));
	device_ptr dev;

	assert_int_equal(s.attach(&dev), 0);
	const int fd = dev->region_doorbell_fd(region_bar0, 0);
	assert_true(fd >= 0);
	if (!dev->doorbell_ring(fd))
		skip(); /* no aio here: the register is written instead */
	assert_int_equal(eventfd_clear(bell.get()), 1);
	assert_int_equal(write(bell.get(), &full, sizeof(full)), sizeof(full));
	assert_true(dev->doorbell_ring(fd));
	assert_true(dev->doorbell_ring(fd));
}

/* A descriptor is taken once, however many doorbells name it; and none of an answer that is wrong. */
static void doorbells_take_few_descriptors(void **)
{
	const unique_fd bell(eventfd(0, EFD_CLOEXEC));
	const struct {
		u32 n, odd;
		unsigned taken;
	} rows[] = {{100, ~u32(0), 1}, {100, 99, 0}, {20000, ~u32(0), 0}, {103, ~u32(0), 0}};

	for (const auto &row : rows) {
		fake_server s(doorbells(row.n, bell.get(), row.odd));
		device_ptr dev;

		assert_int_equal(s.attach(&dev), 0);
		const unsigned before = open_fds();
		assert_int_equal(dev->region_doorbell_fd(region_bar0, 64) >= 0, row.taken);
		assert_int_equal(open_fds(), before + row.taken);
		/* Wrong answers end the connection. */
		assert_int_equal(dev->lost(), !row.taken);
	}
}

/* ---- interrupts ---------------------------------------------------------------------------------------- */

/* The server fills the eventfds of our interrupts and leaves: calls that wait end, and so does the device. */
static void full_interrupts_and_gone(void **)
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

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(doorbells_that_are_none),
		cmocka_unit_test(a_full_doorbell),
		cmocka_unit_test(doorbells_take_few_descriptors),
		cmocka_unit_test(full_interrupts_and_gone),
	};

	alarm(100);
	return cmocka_run_group_tests_name("hostile vfio-user server", tests, nullptr, nullptr);
}
