/* SPDX-License-Identifier: BSD-3-Clause */
/* A client that uses the registers of a model, as foreign drivers do: memory is mapped, nothing else is set up. */
#pragma once

#include "tests/support/raw_client.h"
#include "tests/support/raw_model.h"
#include "tests/support/test.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/unique_fd.h"
#include "driver/dma/registry.h"
#include "driver/sim/models.h"

#include <cstring>
#include <memory>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <vector>

namespace usdma::test {

inline constexpr u64 iova = 0x100000000, size = 4 * MiB, patience = 60000;

struct model_bench {
	static constexpr unsigned most_vectors = 32;

	/* bar: of the registers; irq_type: of the interrupts. */
	explicit model_bench(const char *spec, unsigned bar_ = vfio::region_bar0, unsigned irq_type = vfio::irq_msix)
		: bar(bar_)
	{
		if (dma::open_device(spec, &dev) < 0)
			print_error("%s\n", error_text());
		assert_non_null(dev.get());
		void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(p, MAP_FAILED);
		map = mapping(p, size);
		bytes = map.data();
		assert_int_equal(dev->dma_map({.iova = iova, .size = size, .vaddr = p}), 0);
		assert_int_equal(vfio::config_bus_master(*dev, true), 0);
		vfio::irq_info info;
		assert_int_equal(dev->irq(irq_type, &info), 0);
		vectors = info.count;
		int fds[most_vectors];
		assert_in_range(vectors, 1, most_vectors);
		for (unsigned i = 0; i < vectors; i++) {
			irq[i].reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
			fds[i] = irq[i].get();
		}
		assert_int_equal(dev->irq_set(irq_type, 0, {fds, vectors}), 0);
	}

	template <class T> T get(u32 reg)
	{
		T v = 0;

		assert_int_equal(dev->region_read(bar, reg, &v, sizeof(v)), 0);
		return v;
	}
	template <class T> void put(u32 reg, T v) { assert_int_equal(dev->region_write(bar, reg, &v, sizeof(v)), 0); }
	u64 signals(unsigned i, bool wait)
	{
		pollfd p = {irq[i].get(), POLLIN, 0};
		u64 n = 0;

		if (poll(&p, 1, wait ? int(patience) : 0) == 1)
			assert_int_equal(read(irq[i].get(), &n, 8), 8);
		return n;
	}

	const unsigned bar;
	std::unique_ptr<vfio::device> dev;
	mapping map;
	u8 *bytes;
	unique_fd irq[most_vectors];
	u32 vectors;
};

/*
 * A client of raw messages: the model maps the memory `local`, and accesses the memory `remote`, which has no file, by
 * messages.
 */
struct message_bench {
	static constexpr u64 remote = u64(1) << 40, remote_size = 64 * KiB;
	static constexpr u32 most = 4096; /* bytes of a message */

	explicit message_bench(const char *name) : model(settings(name)), client(model.connect()), local("model", size)
	{
		const std::string hello = "{\"capabilities\":{\"max_data_xfer_size\":" + std::to_string(most) + "}}";

		assert_int_equal(client.hello(hello.c_str()), 0);
		assert_int_equal(client.map(iova, size, local.fd.get()), 0);
		assert_int_equal(client.map(remote, remote_size), 0);
		master(true);
	}
	static sim::config settings(const char *name)
	{
		sim::config c;

		c.model = sim::find_model(name);
		return c;
	}
	void master(bool on)
	{
		const u16 command = on ? 6 : 2;

		assert_int_equal(client.region_write(vfio::region_config, 4, &command, sizeof(command)), 0);
	}
	void send(proto::command cmd, u32 region, u64 at, const void *data, u32 len, u32 flags)
	{
		const proto::region_access_head h = {at, region, len};
		std::vector<u8> body(sizeof(h) + (data ? len : 0));

		memcpy(body.data(), &h, sizeof(h));
		if (data)
			memcpy(body.data() + sizeof(h), data, len);
		assert_true(client.say(cmd, body.data(), body.size(), {}, flags));
	}
	/* A write that starts the model: its requests come before any reply. */
	void start(u32 region, u64 at, const void *data, u32 len)
	{
		send(proto::command::region_write, region, at, data, len, proto::flag_no_reply);
	}
	vfio::user_message receive()
	{
		vfio::user_message m;

		assert_int_equal(vfio::user_recv(client.fd(), deadline::in_ms(patience), raw_wait_ms, &m), 0);
		return m;
	}
	void answer(const vfio::user_message &m)
	{
		const iovec part = {const_cast<u8 *>(m.body.data()), sizeof(proto::dma_access_head)};

		assert_int_equal(vfio::user_send(client.fd(), {m.head.id, m.head.cmd, 0, proto::type_reply, 0},
						 {&part, 1}, {}, deadline::in_ms(patience)),
				 0);
	}
	void set_irqs(const proto::irq_set_head &h, const std::vector<int> &fds = {})
	{
		assert_true(client.say(proto::command::device_set_irqs, &h, sizeof(h), fds));
		assert_int_equal(receive().head.error, 0);
	}
	/* Reads a register; fails if the model accesses memory before the reply. */
	u64 read_without_access(u32 reg, u32 region = vfio::region_bar0)
	{
		u64 value;

		send(proto::command::region_read, region, reg, nullptr, sizeof(value), 0);
		const vfio::user_message m = receive();
		assert_int_equal(m.head.flags & proto::flag_type_mask, proto::type_reply);
		memcpy(&value, m.body.data() + sizeof(proto::region_access_head), sizeof(value));
		return value;
	}
	/* Bus mastering is switched off during a write of many messages: the reply to the first is the last access. */
	void stop_during_write()
	{
		const vfio::user_message first = receive();

		assert_int_equal(first.head.cmd, int(proto::command::dma_write));
		master(false);
		answer(first);
	}

	raw_model model;
	raw_client client;
	raw_memory local;
};

} // namespace usdma::test
