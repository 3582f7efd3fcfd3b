/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of the driver of a ring engine on its model: the bench, and the cases of any engine
 * (docs/porting.md lists them). A program defines `kind` and adds cases of its own device.
 */
#pragma once

#include "tests/support/test.h"
#include "tests/unit/dma/mapped_device.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/dma/registry.h"

#include <cstring>
#include <initializer_list>
#include <memory>
#include <poll.h>
#include <sched.h>
#include <unistd.h>
#include <vector>

namespace usdma::test {

inline constexpr u64 host = 0x40000000000, host_bytes = 4 * MiB, patience = 60000;

/* What differs between engines. */
struct ring_kind {
	const char *plain, *faulty; /* device strings; the second takes faults */
	const char *driver;
	u32 channels;         /* of `plain`; if there is one, the cases do without a second */
	unsigned slow_us;     /* of a descriptor, so that a stop finds most of 140 requests in the ring */
	unsigned long_rounds; /* of 1024 requests */
	u16 vendor = 0x8086;
	u32 ops = op_bit(dma::opcode::nop) | op_bit(dma::opcode::copy) |
		  op_bit(dma::opcode::fill);               /* of the hardware */
	std::span<const doorbell_register> doorbells = {}; /* of channel 0, which a CPU can store to; none: no test */
	/* The driver; else one that maps its BAR (acting_bar.h). */
	int (*probe)(std::unique_ptr<vfio::device> dev, std::unique_ptr<dma::engine> *out) = dma::probe;
	unsigned stride = 1;   /* of the failures of a recovery that are tried: where each one takes long */
	unsigned harmless = 0; /* calls of the transport that may fail while the device and a channel are opened */
};
extern const ring_kind kind;

/* The driver on its model, and memory that it may access. */
struct ring_bench {
	explicit ring_bench(const char *spec = kind.plain, dma::channel_config cfg = {})
	{
		std::unique_ptr<vfio::device> dev;

		if (dma::open_device(spec, &dev) < 0 || kind.probe(std::move(dev), &eng) < 0)
			print_error("%s\n", error_text());
		begin(cfg);
	}
	explicit ring_bench(std::unique_ptr<vfio::device> dev, dma::channel_config cfg = {})
	{
		assert_int_equal(kind.probe(std::move(dev), &eng), 0);
		begin(cfg);
	}
	ring_bench(std::unique_ptr<dma::engine> opened, dma::channel *channel) : eng(std::move(opened)), ch(channel)
	{
		map_memory();
	}
	void begin(const dma::channel_config &cfg)
	{
		assert_non_null(eng.get());
		map_memory();
		assert_int_equal(eng->channel_open(0, cfg, &ch), 0);
	}
	void map_memory()
	{
		void *p = mmap(nullptr, host_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(p, MAP_FAILED);
		map = mapping(p, host_bytes);
		bytes = map.data();
		assert_int_equal(eng->map({.iova = host, .size = host_bytes, .vaddr = p}), 0);
	}
	~ring_bench()
	{
		if (ch)
			ch->ops->close(ch);
	}
	int inject(const char *rules) { return eng->transport().inject(rules); }
	u64 post(const dma::request &r)
	{
		assert_int_equal(ch->ops->post(ch, &r, 1), 1);
		ch->ops->doorbell(ch);
		return ch->posted;
	}
	/* As the wait of lib/core does: arm, read again, sleep. True: done; false: halted. */
	bool await(u64 seq)
	{
		const deadline until = deadline::in_ms(patience);

		for (;;) {
			ch->ops->arm(ch, dma::irq_waiter, seq);
			if (s64(dma::completed(ch) - seq) >= 0)
				return true;
			if (dma::halted(ch))
				return false;
			pollfd p = {ch->irq_fd[dma::irq_waiter], POLLIN, 0};
			u64 n;
			assert_int_equal(poll(&p, 1, until.left_ms(int(patience))), 1); /* else: no interrupt */
			assert_int_equal(read(p.fd, &n, 8), 8);
		}
	}
	void run(const dma::request &r) { assert_true(await(post(r))); }
	/* Another channel; nullptr: there is one only. */
	dma::channel *open_other()
	{
		dma::channel *other = nullptr;

		if (kind.channels > 1)
			assert_int_equal(eng->channel_open(1, {}, &other), 0);
		return other;
	}
	dma::fault run_fault(const dma::request &r)
	{
		dma::fault f;
		const u64 seq = post(r);

		assert_false(await(seq));
		assert_true(dma::read_fault(ch, &f));
		assert_int_equal(f.seq, seq);
		assert_int_equal(dma::completed(ch), seq - 1);
		assert_int_equal(ch->ops->resume(ch), 0);
		assert_int_equal(dma::completed(ch), seq);
		assert_false(dma::halted(ch));
		return f;
	}
	/* The injected rule has been applied: a reset before would leave it to a later request. */
	void until_struck(const char *what = "struck 1")
	{
		const deadline until = deadline::in_ms(patience);
		std::string hit;

		for (; hit.find(what) == hit.npos; sched_yield()) {
			assert_false(until.passed());
			assert_int_equal(eng->transport().injected(&hit), 0);
		}
	}
	void until_halted()
	{
		const deadline until = deadline::in_ms(patience);

		while (!dma::halted(ch)) {
			assert_false(until.passed());
			sched_yield();
		}
	}

	std::unique_ptr<dma::engine> eng;
	mapping map;
	u8 *bytes;
	dma::channel *ch = nullptr;
};

inline dma::request copy(u64 to, u64 from, u64 len, u64 cookie = 0)
{
	return {.op = dma::opcode::copy, .src = host + from, .dst = host + to, .len = len, .cookie = cookie};
}

inline dma::request fill(u64 to, u64 len, u8 width, u64 pattern, u64 cookie = 0)
{
	return {.op = dma::opcode::fill, .arg = width, .dst = host + to, .len = len, .a = pattern, .cookie = cookie};
}

inline dma::request wait_word(u64 at, u64 value, u64 cookie = 0)
{
	return {.op = dma::opcode::wait, .arg = u8(dma::compare::eq), .src = host + at, .a = value, .cookie = cookie};
}

/* A fault that the device reports for a copy whose addresses are right. */
struct device_error {
	const char *rule;
	dma::fault_reason reason;
	u64 address;
};
void check_device_errors(std::initializer_list<device_error> cases);
/* The limits that all engines have. */
void check_limits(const char *spec, u64 max_len, u32 channels, u32 engines);
/* A request that ran before the stop, but whose number was not stored yet, does not run again. */
void check_stop_inside_a_request(const char *spec);
/* The device has halted, and its report was lost: the stop finds it in the registers. */
void check_stop_of_a_halted_channel(const char *spec);
/* If the number overtook the data, a copy would be reported before it is done. */
void check_relaxed_ordering_is_off();
/* The driver takes the first ids, and no driver the others. */
void check_ids(std::initializer_list<u16> ids, std::initializer_list<u16> others);
/* More of any engine (ring_more_cases.cpp). */
std::span<const CMUnitTest> more_cases();
/* Runs the cases of any engine, and those of this one. */
int ring_main(const char *name, std::span<const CMUnitTest> own);

} // namespace usdma::test
