/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's bytes for the vfio-user server.  The input is a sequence of records:
 * a control byte, then a message.  Bit 7: raw bytes; else a message with a valid
 * header, of command (bits 0-3), with descriptors (bits 4-6).  The first byte:
 * bit 0 VERSION is sent first, bit 1 a byte for each descriptor has its kind.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/kinds.h"

#include "driver/base/log.h"
#include "driver/sim/models/sdma/sdma_model.h"
#include "driver/sim/server.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>

using namespace usdma;
using namespace usdma::fuzz;
namespace proto = usdma::vfio::proto;

static constexpr size_t max_input = 16 * KiB; /* with headers it fits a socket's buffer */
static constexpr u64 file_size = 64 * KiB;

static sim::config small_device()
{
	sim::config c;

	c.mem = 64 * KiB;
	c.channels = 2;
	c.engines = 1;
	c.spin_us = 0;
	return c;
}

struct files {
	files() : event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), memory(memfd_create("fuzz", MFD_CLOEXEC))
	{
		must_hold(!ftruncate(memory.get(), file_size));
	}
	unique_fd event, memory;
};

static void send_version(int sock)
{
	const proto::version_head v = {0, 1};
	const proto::header h = {1, u16(proto::command::version), 0, proto::type_command, 0};
	const iovec part = {const_cast<proto::version_head *>(&v), sizeof(v)};

	vfio::user_send(sock, h, {&part, 1}, {}, deadline::in_ms(1000));
}

/* A message with descriptors of any kind, which are closed once they are sent. */
static void send_with_kinds(int sock, u8 control, input &in)
{
	const proto::header h = {2, u16(control & 15), 0, proto::type_command, 0};
	const size_t want = in.get<u8>();
	std::vector<unique_fd> own;
	std::vector<int> fds;
	size_t len;

	for (u8 bit = 0x10; bit < 0x80; bit <<= 1)
		if (unique_fd fd(control & bit ? descriptor_of(in.get<u8>()) : -1); fd.valid()) {
			fds.push_back(fd.get());
			own.push_back(std::move(fd));
		}
	const iovec part = {const_cast<u8 *>(in.run(want, &len)), len};
	vfio::user_send(sock, h, {&part, 1}, fds, deadline::in_ms(1000));
}

static void send_message(int sock, u8 control, const u8 *body, size_t len, const files &f)
{
	const proto::header h = {2, u16(control & 15), 0, proto::type_command, 0};
	const iovec part = {const_cast<u8 *>(body), len};
	std::vector<int> fds;

	if (control & 0x10)
		fds.push_back(f.memory.get());
	if (control & 0x20)
		fds.push_back(f.event.get());
	if (control & 0x40)
		fds.push_back(f.event.get());
	vfio::user_send(sock, h, {&part, 1}, fds, deadline::in_ms(1000));
}

static void talk(int sock, input in)
{
	static const files f;

	const u8 first = in.get<u8>();
	if (first & 1)
		send_version(sock);
	while (!in.empty()) {
		const u8 control = in.get<u8>();
		if (first & 2 && !(control & 0x80)) {
			send_with_kinds(sock, control, in);
			continue;
		}
		const size_t want = in.get<u8>();
		size_t len;
		const u8 *body = in.run(want, &len);

		if (!(control & 0x80))
			send_message(sock, control, body, len, f);
		else if (send(sock, body, len, MSG_NOSIGNAL) < 0)
			return;
	}
}

static void drain(int sock)
{
	char buf[4096];

	shutdown(sock, SHUT_WR);
	while (recv(sock, buf, sizeof(buf), 0) > 0) {
	}
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	int pair[2];

	if (size > max_input)
		return 0;
	log_set_level(log_level::none);
	prepare_kinds();
	talk(-1, input(nullptr, 0)); /* creates the static files before descriptors are counted */
	const int before = next_descriptor();
	{
		auto model = std::make_unique<sim::sdma_model>(small_device());
		must_hold(!model->start());
		must_hold(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
		sim::server link(unique_fd{pair[0]}, *model);
		const unique_fd ours{pair[1]};
		std::thread t([&] {
			link.serve(-1);
			model.reset();
		});
		talk(ours.get(), input(data, size));
		drain(ours.get());
		t.join();
	}
	must_hold(descriptors_are_back_at(before));
	return 0;
}
