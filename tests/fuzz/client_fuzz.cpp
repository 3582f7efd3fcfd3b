/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server's bytes for the vfio-user client: each message of the client is
 * answered from the input (control byte, length, body).  At the end of the input
 * the server hangs up.  Control: bit 0 a valid header of a reply, else raw bytes;
 * bit 1 error; bits 2, 3 descriptors; bit 4 a DMA_READ or DMA_WRITE before it;
 * bit 5 a byte for each descriptor, before the body, has its kind.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/kinds.h"

#include "driver/base/log.h"
#include "driver/vfio_user/client.h"
#include "driver/vfio_user/socket.h"

#include <atomic>
#include <poll.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>

using namespace usdma;
using namespace usdma::fuzz;
namespace proto = usdma::vfio::proto;

static constexpr u64 patience_ms = 2000, page = 4096, iova = 0x100000;

struct files {
	files()
		: event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
		  memory(memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING))
	{
		must_hold(!ftruncate(memory.get(), 16 * page) && !fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK));
		area = static_cast<u8 *>(mmap(nullptr, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		must_hold(area != MAP_FAILED && !mprotect(area + page, page, PROT_READ | PROT_WRITE));
	}
	unique_fd event, memory;
	u8 *area; /* a page between two that must not be accessed */
};

static files &common()
{
	static files f;

	return f;
}

/* Sends a DMA_READ or DMA_WRITE, inside or outside of the client's memory. */
static void access_memory(int sock, input &in)
{
	const bool write = in.get<u8>() & 1;
	const proto::dma_access_head h = {iova - 64 + in.get<u16>(), in.get<u16>()};
	const proto::header head = {9, u16(write ? proto::command::dma_write : proto::command::dma_read), 0,
				    proto::type_command, 0};
	const std::vector<u8> data(write ? h.count : 0, 0xd7);
	const iovec parts[] = {{const_cast<proto::dma_access_head *>(&h), sizeof(h)},
			       {const_cast<u8 *>(data.data()), data.size()}};

	vfio::user_send(sock, head, {parts, write ? 2u : 1u}, {}, deadline::in_ms(patience_ms));
}

static bool answer(int sock, const vfio::user_message &m, input &in)
{
	const u8 control = in.get<u8>();
	const size_t want = in.get<u8>();
	std::vector<unique_fd> own;
	std::vector<int> fds;
	size_t len;

	if (control & 0x10)
		access_memory(sock, in);
	for (u8 bit = 4; control & 0x20 && bit <= 8; bit *= 2)
		if (unique_fd fd(control & bit ? descriptor_of(in.get<u8>()) : -1); fd.valid()) {
			fds.push_back(fd.get());
			own.push_back(std::move(fd));
		}
	const u8 *body = in.run(want, &len);
	if (!(control & 1))
		return send(sock, body, len, MSG_NOSIGNAL) >= 0;
	if (control & 4 && !(control & 0x20))
		fds.push_back(common().memory.get());
	if (control & 8 && !(control & 0x20))
		fds.push_back(common().event.get());
	const proto::header h = {m.head.id, m.head.cmd, 0,
				 proto::type_reply | (control & 2 ? u32(proto::flag_error) : 0),
				 control & 2 ? u32(control) : 0};
	const iovec part = {const_cast<u8 *>(body), len};
	return !vfio::user_send(sock, h, {&part, 1}, fds, deadline::in_ms(patience_ms));
}

static void serve(unique_fd sock, input in)
{
	vfio::user_message m;

	while (!in.empty() && !vfio::user_recv(sock.get(), deadline::in_ms(patience_ms), patience_ms, &m)) {
		if ((m.head.flags & proto::flag_type_mask) == proto::type_command && !answer(sock.get(), m, in))
			break;
	}
	shutdown(sock.get(), SHUT_RDWR);
}

/* The driver's calls for a device, with any answers. */
static void use(vfio::device &dev)
{
	vfio::region_info r;
	vfio::irq_info irq;
	vfio::dma_area area;
	mapping m;
	u64 v = 0, at;
	const int event = common().event.get();

	for (unsigned i : {0u, 2u, 7u}) {
		if (!dev.region(i, &r))
			for (const vfio::range &part : r.mappable)
				must_hold(part.start <= part.last && part.last < r.size);
		dev.region_read(i, 0, &v, 4);
		dev.region_write(i, 8, &v, 8);
		dev.region_map(i, 0, page, &m);
		dev.region_fd(i, &at);
		dev.region_doorbell_fd(i, 0x20);
	}
	dev.irq(vfio::irq_msix, &irq);
	dev.irq_set(vfio::irq_msix, 0, {&event, 1});
	area.iova = iova;
	area.size = page;
	area.vaddr = common().area + page;
	dev.dma_map(area);
	dev.reset();
	dev.dma_unmap(iova, page);
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	vfio::user_options opt;
	int pair[2];

	if (size > 16 * KiB)
		return 0;
	log_set_level(log_level::none);
	common();
	prepare_kinds();
	const int before = next_descriptor();
	{
		std::unique_ptr<vfio::device> dev;

		must_hold(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
		std::thread t([&] { serve(unique_fd(pair[0]), input(data, size)); });
		/* A missing answer must not slow down the search. */
		opt.timeout_ms = 10;
		if (!vfio::user_attach(unique_fd(pair[1]), opt, &dev))
			use(*dev);
		dev.reset();
		t.join();
	}
	must_hold(descriptors_are_back_at(before));
	return 0;
}
