/* SPDX-License-Identifier: BSD-3-Clause */
/* The sdma driver on a device that the test controls. */
#include "tests/unit/dma/sdma_rig.h"

#include <fcntl.h>
#include <set>
#include <sys/eventfd.h>
#include <sys/resource.h>

using namespace usdma;
using namespace usdma::dma;
using usdma::test::fake_device;
using usdma::test::fake_sdma;
using usdma::test::numbered;
using usdma::test::open_channel;
using usdma::test::open_engine;
using usdma::test::starts;

/* ---- probe ---------------------------------------------------------------------------------------------- */

static void probe_good(void **)
{
	fake_sdma f;

	{
		auto eng = open_engine(f);
		const engine_limits &l = eng->limits();

		assert_string_equal(eng->driver_name(), "sdma");
		assert_int_equal(l.channels, 8);
		assert_int_equal(l.engines, 2);
		assert_int_equal(l.ring_size, 1024);
		assert_int_equal(l.max_len, u64(1) << 30);
		assert_int_equal(l.memory_size, fake_sdma::mem_size);
		assert_int_equal(l.caps, cap_memory);
		assert_int_equal(f.get<u32>(sdma::reg_ctrl), sdma::ctrl_enable);
		assert_int_equal(f.config[4] & 4, 4); /* bus master */
		assert_int_equal(f.irqs.size(), 5);
		/* Blocking eventfds: a read by io_uring must sleep, not return -EAGAIN. */
		for (int fd : f.irqs)
			assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	}
	assert_int_equal(f.freed_devices, 1);
	assert_int_equal(f.config[4] & 4, 0);
	assert_int_equal(f.get<u32>(sdma::reg_ctrl) & sdma::ctrl_enable, 0);
}

struct bad_value {
	u64 reg;
	u64 value;
	unsigned width;
	int err;
};

static void probe_bad_registers(void **)
{
	static const bad_value bad[] = {
		{sdma::reg_id, 0x12345678, 4, -ENODEV},
		{sdma::reg_version, 2u << 16, 4, -EPROTONOSUPPORT},
		{sdma::reg_version, 0, 4, -EPROTONOSUPPORT},
		{sdma::reg_channels, 0, 4, -EPROTO},
		{sdma::reg_channels, 1025, 4, -EPROTO},
		{sdma::reg_channels, ~0u, 4, -EPROTO},
		{sdma::reg_engines, 0, 4, -EPROTO},
		{sdma::reg_engines, 9, 4, -EPROTO},
		{sdma::reg_max_len, 0, 8, -EPROTO},
		{sdma::reg_max_len, 7, 8, -EPROTO},
		{sdma::reg_mem_size, 0, 8, -EPROTO},
		{sdma::reg_mem_size, 4097, 8, -EPROTO},
		{sdma::reg_mem_size, 2 * fake_sdma::mem_size, 8, -EPROTO},
		{sdma::reg_mem_size, ~u64(0) & ~u64(4095), 8, -EPROTO},
		{sdma::reg_ring_order, 12u << 8, 4, -EPROTO},
		{sdma::reg_ring_order, 3u << 8 | 4, 4, -EPROTO},
		{sdma::reg_ring_order, 17u << 8 | 4, 4, -EPROTO},
		{sdma::reg_ring_order, ~0u, 4, -EPROTO},
		{sdma::reg_vectors, 1, 4, -EPROTO},
	};

	for (const bad_value &b : bad) {
		fake_sdma f;
		std::unique_ptr<engine> eng;
		std::unique_ptr<vfio::device> dev = std::make_unique<fake_device>(f);

		memcpy(f.bar0.data() + b.reg, &b.value, b.width);
		error_clear();
		assert_int_equal(find_driver(sdma::pci_vendor, sdma::pci_device)->probe(dev, &eng), b.err);
		assert_null(eng.get());
		assert_non_null(dev.get()); /* returned to the caller */
		assert_true(strlen(error_text()) > 10);
	}
}

static void probe_small_bars(void **)
{
	for (u64 size :
	     {u64(0), u64(4096), sdma::chan_ctrl_base, sdma::chan_doorbell_base, sdma::chan_doorbell(8) - 1}) {
		fake_sdma f;
		std::unique_ptr<engine> eng;

		f.bar0_size = size;
		assert_int_equal(dma::probe(std::make_unique<fake_device>(f), &eng), -EPROTO);
	}
	fake_sdma f;
	f.bar0_size = sdma::chan_doorbell(8);
	open_engine(f);
}

static void probe_no_memory(void **)
{
	fake_sdma f;

	f.put(sdma::reg_caps, u64(0));
	f.bar2_size = 0;
	auto eng = open_engine(f);
	u64 off;

	assert_int_equal(eng->limits().caps, 0);
	assert_int_equal(eng->limits().ops, all_ops);
	assert_int_equal(eng->limits().memory_size, 0);
	assert_null(eng->memory());
	assert_int_equal(eng->memory_fd(&off), -1);
}

/* Channels share vectors. */
static void few_vectors(void **)
{
	fake_sdma f;

	f.msix = 3;
	auto eng = open_engine(f);
	assert_int_equal(eng->limits().channels, 8);
	assert_int_equal(f.irqs.size(), 3);
	for (u32 i = 0; i < 8; i++) {
		channel *ch = open_channel(*eng, 64, 0, i);

		assert_int_equal(f.get<u32>(sdma::chan_ctrl(i) + sdma::chan_vectors), 1 + i % 2);
		assert_int_equal(ch->irq_fd[irq_waiter], f.irqs[1 + i % 2]);
		ch->ops->close(ch);
	}
}

static void vectors_limited_to_share(void **)
{
	fake_sdma f;

	f.msix_share = 4;
	auto eng = open_engine(f);
	assert_int_equal(eng->limits().channels, 8);
	assert_int_equal(f.irqs.size(), 4);
}

/* A removed device is reported at once, not after the timeout of a reset. */
static void removed_device(void **)
{
	fake_sdma f;
	std::unique_ptr<dma::engine> eng;
	auto open = open_engine(f);

	f.silent = true;
	assert_int_equal(open->transport().answers(), -ENODEV);
	assert_int_equal(open->reset(), -ENODEV);
	f.silent = false;
	assert_int_equal(open->transport().answers(), 0);
	open.reset();
	f.silent = true;
	assert_int_equal(dma::probe(std::make_unique<fake_device>(f), &eng), -ENODEV);
}

/* The machine has fewer interrupts than the device, or the process fewer descriptors: the channels share them. */
static void too_few_machine_vectors(void **)
{
	for (const u32 left : {8, 5, 3, 2}) {
		fake_sdma f;

		f.msix_left = left;
		auto eng = open_engine(f);

		assert_int_equal(eng->limits().channels, 8);
		assert_int_equal(f.irqs.size(), std::min(left, 5u));
	}
	fake_sdma f;
	std::unique_ptr<dma::engine> eng;

	f.msix_left = 1;
	assert_int_equal(dma::probe(std::make_unique<fake_device>(f), &eng), -ENOSPC);
}

static void too_few_file_descriptors(void **)
{
	std::vector<unique_fd> taken;
	rlimit before, few;
	fake_sdma f;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = usdma::test::open_fds() + 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	/* All but three are used; the limit alone cannot, as valgrind has descriptors that do not count. */
	for (int fd; (fd = eventfd(0, EFD_CLOEXEC)) >= 0;)
		taken.emplace_back(fd);
	assert_true(taken.size() > 3);
	taken.resize(taken.size() - 3);
	auto eng = open_engine(f);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(eng->limits().channels, 8);
	assert_int_equal(f.irqs.size(), 3);
}

static void memory_views(void **)
{
	fake_sdma f;
	f.own = true;
	auto eng = open_engine(f);
	u64 off = 1;

	assert_non_null(eng->memory());
	eng->memory()[100] = 42;
	assert_int_equal(f.bar2.data()[100], 42);
	assert_int_equal(eng->memory_fd(&off), f.bar2_fd);
	assert_int_equal(off, 0);
	assert_int_equal(eng->set_memory_base(0x100000000000), 0);
	assert_int_equal(f.get<u64>(sdma::reg_mem_base), 0x100000000000);
	assert_int_equal(eng->set_memory_base(~u64(4095)), -EINVAL); /* wraps */
	assert_int_equal(eng->set_memory_base(1), -EINVAL);
	/* The driver sets the base again after a reset. */
	assert_int_equal(eng->reset(), 0);
	assert_int_equal(f.get<u64>(sdma::reg_mem_base), 0x100000000000);
	assert_int_equal(f.get<u32>(sdma::reg_ctrl), sdma::ctrl_enable);
	assert_int_equal(f.config[4] & 4, 4);

	fake_sdma g;
	g.mappable = false;
	auto other = open_engine(g);
	assert_null(other->memory());
	assert_int_equal(other->memory_fd(&off), -1);
}

/* On arm64, unaligned accesses to a BAR that VFIO maps raise SIGBUS. */
static void memory_through_vfio(void **)
{
	fake_sdma f;
	auto eng = open_engine(f);

#if defined(__aarch64__)
	assert_null(eng->memory());
#else
	assert_non_null(eng->memory());
#endif
}

/* ---- channels ------------------------------------------------------------------------------------------- */

static void channel_set_up(void **)
{
	fake_sdma f;
	auto eng = open_engine(f);
	channel_config cfg;
	channel *ch;
	u64 page = sdma::chan_ctrl(3);

	cfg.ring_size = 256;
	cfg.first_seq = 1000;
	cfg.coalesce_count = 7;
	cfg.coalesce_us = 9;
	f.put(sdma::chan_doorbell(3) + sdma::doorbell_tail, u64(123456)); /* of an earlier user */
	assert_int_equal(eng->channel_open(3, cfg, &ch), 0);
	assert_int_equal(f.areas.size(), 1);
	const auto &[iova, area] = *f.areas.begin();
	assert_true(iova >= GiB && iova + area.size <= 4 * GiB);
	assert_int_equal(iova % 4096, 0);
	assert_true(area.fd >= 0);
	assert_int_equal(area.prot, vfio::dma_read | vfio::dma_write);
	assert_int_equal(f.get<u64>(page + sdma::chan_record), iova);
	assert_int_equal(f.get<u64>(page + sdma::chan_ring_base), iova + 4096);
	assert_true(area.size >= 4096 + 256 * 64);
	assert_int_equal(f.get<u32>(page + sdma::chan_ring_order), 8);
	assert_int_equal(f.get<u32>(page + sdma::chan_vectors), 4);
	assert_int_equal(f.get<u64>(page + sdma::chan_first_seq), 1000);
	assert_int_equal(f.get<u32>(page + sdma::chan_coalesce), 7 | 9 << 16);
	assert_int_equal(f.get<u32>(page + sdma::chan_state), sdma::chan_state_running);
	assert_int_equal(f.get<u64>(sdma::chan_doorbell(3) + sdma::doorbell_tail), 1000);
	assert_int_equal(f.get<u64>(sdma::chan_doorbell(3) + sdma::doorbell_arm), sdma::arm_none);
	assert_int_equal(f.get<u64>(sdma::chan_doorbell(3) + sdma::doorbell_arm_service), sdma::arm_none);
	assert_int_equal(completed(ch), 1000);
	assert_int_equal(ch->posted, 1000);
	assert_int_equal(*ch->asleep, 0);
	assert_false(halted(ch));
	assert_int_equal(ch->irq_fd[irq_waiter], f.irqs[4]);
	assert_int_equal(ch->irq_fd[irq_service], f.irqs[0]);
	assert_ptr_equal(f.at(ch->record_iova), &ch->record->completed);
	ch->ops->close(ch);
	assert_int_equal(f.commands.back(), sdma::chan_cmd_disable);
	assert_int_equal(f.areas.size(), 0);
}

static void channel_bad_arguments(void **)
{
	fake_sdma f;
	auto eng = open_engine(f);
	channel *ch = open_channel(*eng, 2), *other = nullptr;
	channel_config cfg;

	assert_int_equal(eng->channel_open(0, cfg, &other), -EBUSY);
	assert_int_equal(eng->channel_open(8, cfg, &other), -EINVAL);
	for (u32 size : {1u, 3u, 8192u, 0x80000000u}) {
		cfg.ring_size = size;
		assert_int_equal(eng->channel_open(1, cfg, &other), -EINVAL);
	}
	cfg = channel_config();
	cfg.coalesce_count = 0x10000;
	assert_int_equal(eng->channel_open(1, cfg, &other), -EINVAL);
	assert_null(other);
	assert_int_equal(f.areas.size(), 1);
	ch->ops->close(ch);
	ch = open_channel(*eng, 2); /* the channel is free again */
	ch->ops->close(ch);
}

/* While the channel is stopping, its set-up is not written and its memory is not unmapped. */
static void slow_channel_disable(void **)
{
	fake_sdma f;
	auto eng = open_engine(f);

	for (unsigned round = 0; round < 3; round++) {
		f.stopping = 5; /* an earlier user has disabled it */
		channel *ch = open_channel(*eng, 64);

		assert_int_equal(f.stopping, 0);
		assert_int_equal(f.get<u32>(sdma::chan_ctrl(0) + sdma::chan_state), sdma::chan_state_running);
		f.stopping = 7;
		ch->ops->close(ch);
		assert_int_equal(f.stopping, 0);
		assert_int_equal(f.areas.size(), 0);
	}
}

static void channel_start_fails(void **)
{
	fake_sdma f;
	auto eng = open_engine(f);
	channel_config cfg;
	channel *ch = nullptr;

	f.dead_commands = true;
	assert_int_equal(eng->channel_open(0, cfg, &ch), -EIO);
	assert_null(ch);
	assert_int_equal(f.areas.size(), 0);
	f.dead_commands = false;
	/* As if the device's server cannot access the memory: the text says what to check. */
	f.blind = true;
	assert_int_equal(eng->channel_open(0, cfg, &ch), -EIO);
	assert_non_null(strstr(error_text(), "cannot access its ring"));
	assert_non_null(strstr(error_text(), "the server's log"));
	assert_non_null(strstr(error_text(), "log"));
	f.blind = false;
	ch = open_channel(*eng, 0);
	ch->ops->close(ch);
}

static void engine_closes_channels(void **)
{
	fake_sdma f;

	{
		auto eng = open_engine(f);
		open_channel(*eng, 16, 0, 2);
		open_channel(*eng, 16, 0, 5);
		assert_int_equal(f.areas.size(), 2);
	}
	assert_int_equal(f.areas.size(), 0);
}

/* Rings are placed in usable ranges, next to each other, and not on the mapping of another device. */
static void ring_addresses(void **)
{
	fake_sdma f;

	f.usable = {{0, GiB + 0x2fff}, {2 * GiB, 2 * GiB + 0x7fff}, {3 * GiB, ~u64(0)}};
	f.foreign_iova = 2 * GiB;
	f.foreign_size = 4096;
	auto eng = open_engine(f);
	std::vector<channel *> all;
	for (unsigned i = 0; i < 8; i++)
		all.push_back(open_channel(*eng, 64, 0, i)); /* two pages each */
	std::set<u64> at;
	for (const auto &[iova, area] : f.areas) {
		assert_int_equal(area.size, 8192);
		at.insert(iova);
	}
	assert_true(at.count(GiB));
	assert_false(at.count(2 * GiB));
	assert_true(at.count(3 * GiB));
	assert_int_equal(at.size(), 8);
	/* A freed address is used again. */
	all[0]->ops->close(all[0]);
	assert_int_equal(f.areas.size(), 7);
	all[0] = open_channel(*eng, 64);
	assert_true(f.areas.count(GiB));
	for (channel *ch : all)
		ch->ops->close(ch);
}

static void no_ring_addresses(void **)
{
	fake_sdma f;
	channel *ch = nullptr;

	f.usable = {{0, GiB - 1}, {4 * GiB, ~u64(0)}};
	auto eng = open_engine(f);
	assert_int_equal(eng->channel_open(0, channel_config(), &ch), -ENOSPC);
	assert_non_null(strstr(error_text(), "1 GiB"));
}

static void big_iommu_pages(void **)
{
	fake_sdma f;

	f.page_size = 64 * KiB;
	auto eng = open_engine(f);
	channel *ch = open_channel(*eng, 64);
	assert_int_equal(f.areas.begin()->first % (64 * KiB), 0);
	assert_int_equal(f.areas.begin()->second.size, 64 * KiB);
	ch->ops->close(ch);
}

/* ---- the ring ------------------------------------------------------------------------------------------- */

static void descriptor_fields(void **)
{
	fake_sdma f;
	auto eng = open_engine(f);
	channel *ch = open_channel(*eng, 4, 0xfffffffe);
	request r[2];

	r[0].op = opcode::copy_2d;
	r[0].flags = flag_fence | flag_complete;
	r[0].spaces = spaces(space::device, space::host);
	r[0].arg = 0x5a;
	r[0].height = 0x11223344;
	r[0].src = 0x0102030405060708;
	r[0].dst = 0x1112131415161718;
	r[0].len = 0x2122232425262728;
	r[0].a = 0x3132333435363738;
	r[0].b = 0x4142434445464748;
	r[0].cookie = 0x5152535455565758;
	r[1] = numbered(9);
	assert_int_equal(ch->ops->post(ch, r, 2), 2);
	const sdma::descriptor &d = *f.slot(0xffffffff);
	assert_int_equal(d.tag, 0xffffffff);
	assert_int_equal(d.op, opcode::copy_2d);
	assert_int_equal(d.flags, r[0].flags);
	assert_int_equal(d.spaces, r[0].spaces);
	assert_int_equal(d.arg, r[0].arg);
	assert_int_equal(d.height, r[0].height);
	assert_int_equal(d.reserved, 0);
	assert_int_equal(d.src, r[0].src);
	assert_int_equal(d.dst, r[0].dst);
	assert_int_equal(d.len, r[0].len);
	assert_int_equal(d.a, r[0].a);
	assert_int_equal(d.b, r[0].b);
	assert_int_equal(d.cookie, r[0].cookie);
	assert_int_equal(f.slot(0x100000000)->tag, 0); /* the tag has wrapped */
	ch->ops->close(ch);
}

/* submit_copy writes the same descriptor as post and rings the doorbell. */
static void submitted_copies(void **)
{
	auto gen = test::rng(5);

	for (u64 first : starts) {
		fake_sdma f;
		auto eng = open_engine(f);
		channel *ch = open_channel(*eng, 8, first);

		for (unsigned i = 0; i < 100; i++) {
			const u64 src = gen(), dst = gen(), len = gen(), cookie = gen();
			const u8 where = u8(gen() & 0x11);
			request r;

			set_copy(&r, where, src, dst, len, cookie);
			assert_int_equal(ch->ops->post(ch, &r, 1), 1);
			assert_true(ch->posted != ch->post_limit);
			ch->ops->submit_copy(ch, where, src, dst, len, cookie);
			assert_int_equal(f.tail(), ch->posted);
			sdma::descriptor one = *f.slot(ch->posted - 1), other = *f.slot(ch->posted);
			assert_int_equal(other.tag, u32(ch->posted));
			assert_int_equal(other.op, opcode::copy);
			one.tag = other.tag;
			assert_memory_equal(&one, &other, sizeof(one));
			assert_int_equal(f.run(2), 2);
		}
		assert_int_equal(ch->posted, first + 200);
		ch->ops->close(ch);
	}
}

/* With any first number, no slot has the expected tag before it is filled. */
static void no_stale_slot(void **)
{
	fake_sdma f;
	auto eng = open_engine(f);
	auto gen = test::rng(1);
	std::vector<u64> all(std::begin(starts), std::end(starts));

	for (int i = 0; i < 20; i++)
		all.push_back(gen());
	for (u64 first : all) {
		for (u32 size : {2u, 4u, 64u}) {
			channel *ch = open_channel(*eng, size, first);
			const request r = numbered(1);

			for (u64 n = 1; n <= 3 * u64(size); n++) {
				for (u64 ahead = 0; ahead < size; ahead++)
					assert_int_not_equal(f.slot(first + n + ahead)->tag, u32(first + n + ahead));
				assert_int_equal(ch->ops->post(ch, &r, 1), 1);
				assert_int_equal(f.run(2), 1);
			}
			ch->ops->close(ch);
		}
	}
}

static void full_ring(void **)
{
	for (u64 first : starts) {
		fake_sdma f;
		auto eng = open_engine(f);
		channel *ch = open_channel(*eng, 8, first);
		std::vector<request> r(20, numbered(1));

		assert_int_equal(ch->ops->post(ch, r.data(), 20), 8);
		assert_int_equal(ch->posted, first + 8);
		assert_int_equal(ch->ops->post(ch, r.data(), 1), 0);
		assert_int_equal(f.run(3), 3);
		assert_int_equal(ch->ops->post(ch, r.data(), 20), 3);
		assert_int_equal(ch->ops->post(ch, r.data(), 20), 0);
		assert_int_equal(f.run(100), 8);
		assert_int_equal(completed(ch), ch->posted);
		assert_int_equal(ch->ops->post(ch, r.data(), 8), 8);
		ch->ops->close(ch);
	}
}

/* Invalid numbers in the record make the ring full; it is not overrun. */
static void invalid_completion_numbers(void **)
{
	fake_sdma f;
	auto eng = open_engine(f);
	channel *ch = open_channel(*eng, 8, 1000);
	std::vector<request> r(8, numbered(1));

	assert_int_equal(ch->ops->post(ch, r.data(), 8), 8);
	for (u64 wrong : {u64(0), u64(999), u64(1009), ~u64(0)}) {
		f.record()->completed = wrong;
		assert_int_equal(ch->ops->post(ch, r.data(), 8), 0);
		assert_int_equal(ch->posted, 1008);
	}
	f.record()->completed = 1004;
	assert_int_equal(ch->ops->post(ch, r.data(), 8), 4);
	ch->ops->close(ch);
}

static void random_traffic(void **)
{
	auto gen = test::rng(2);

	for (u64 first : starts) {
		const u32 size = 2u << gen() % 6;
		fake_sdma f;
		auto eng = open_engine(f);
		channel *ch = open_channel(*eng, size, first);
		u64 sent = 0;

		for (unsigned i = 0; i < 100; i++) {
			request r[40];
			const unsigned n = unsigned(gen() % 40),
				       free_slots = unsigned(size - (ch->posted - completed(ch)));

			for (unsigned k = 0; k < n; k++)
				r[k] = numbered(sent + k);
			const unsigned accepted = ch->ops->post(ch, r, n);
			assert_int_equal(accepted, std::min(n, free_slots));
			sent += accepted;
			ch->ops->doorbell(ch);
			assert_int_equal(f.tail(), ch->posted);
			f.run(unsigned(gen() % 40));
		}
		f.run(~0u);
		assert_int_equal(ch->posted, first + sent);
		assert_int_equal(completed(ch), ch->posted);
		assert_int_equal(f.ran.size(), sent);
		for (u64 k = 0; k < sent; k++) {
			assert_int_equal(f.ran[k].tag, u32(first + 1 + k));
			assert_int_equal(f.ran[k].cookie, k);
			assert_int_equal(f.ran[k].src, k + 1);
		}
		ch->ops->close(ch);
	}
}

/* Doorbell and arm, through mapped pages and by register writes. */
static void doorbells(void **)
{
	for (bool mappable : {true, false}) {
		fake_sdma f;

		f.mappable = mappable;
		auto eng = open_engine(f);
		channel *ch = open_channel(*eng, 8, 100, 6);
		const request r = numbered(1);
		const u64 doorbell = sdma::chan_doorbell(6);

		assert_int_equal(f.tail(), 100);
		assert_int_equal(ch->ops->post(ch, &r, 1), 1);
		assert_int_equal(f.tail(), 100);
		ch->ops->doorbell(ch);
		assert_int_equal(f.tail(), 101);
		ch->ops->arm(ch, irq_waiter, 101);
		assert_int_equal(f.get<u64>(doorbell + sdma::doorbell_arm), 101);
		assert_int_equal(f.get<u64>(doorbell + sdma::doorbell_arm_service), sdma::arm_none);
		ch->ops->arm(ch, irq_service, 105);
		assert_int_equal(f.get<u64>(doorbell + sdma::doorbell_arm), 101);
		assert_int_equal(f.get<u64>(doorbell + sdma::doorbell_arm_service), 105);
		ch->ops->close(ch);
	}
}

static void wake_sleeping_channel(void **)
{
	fake_sdma f;
	auto eng = open_engine(f);
	channel *ch = open_channel(*eng, 8, 0, 2);
	const u64 reg = sdma::chan_ctrl(2) + sdma::chan_wake;
	u64 count = 0;

	ch->ops->wake(ch);
	assert_int_not_equal(f.get<u32>(reg), 0);
	ch->ops->close(ch);
	f.put(reg, 0u);
	f.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ch = open_channel(*eng, 8, 0, 2);
	ch->ops->wake(ch);
	assert_int_equal(f.get<u32>(reg), 0);
	assert_int_equal(read(f.wake_fd, &count, sizeof(count)), sizeof(count));
	assert_int_equal(count, 1);
	ch->ops->close(ch);
	close(f.wake_fd);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(probe_good),
		cmocka_unit_test(probe_bad_registers),
		cmocka_unit_test(probe_small_bars),
		cmocka_unit_test(probe_no_memory),
		cmocka_unit_test(few_vectors),
		cmocka_unit_test(vectors_limited_to_share),
		cmocka_unit_test(removed_device),
		cmocka_unit_test(too_few_machine_vectors),
		cmocka_unit_test(too_few_file_descriptors),
		cmocka_unit_test(memory_views),
		cmocka_unit_test(memory_through_vfio),
		cmocka_unit_test(channel_set_up),
		cmocka_unit_test(channel_bad_arguments),
		cmocka_unit_test(slow_channel_disable),
		cmocka_unit_test(channel_start_fails),
		cmocka_unit_test(engine_closes_channels),
		cmocka_unit_test(ring_addresses),
		cmocka_unit_test(no_ring_addresses),
		cmocka_unit_test(big_iommu_pages),
		cmocka_unit_test(descriptor_fields),
		cmocka_unit_test(submitted_copies),
		cmocka_unit_test(no_stale_slot),
		cmocka_unit_test(full_ring),
		cmocka_unit_test(invalid_completion_numbers),
		cmocka_unit_test(random_traffic),
		cmocka_unit_test(doorbells),
		cmocka_unit_test(wake_sleeping_channel),
	};

	return cmocka_run_group_tests_name("sdma_driver", tests, nullptr, nullptr);
}
