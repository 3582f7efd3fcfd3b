/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps, from reading a register to everything at once. Each begins with what the one before has proved. */
#include "tools/usdmactl/bringup.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/dma/softop.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <set>

namespace usdma::ctl::trial {

static constexpr u64 slow_ms = 40;

/* ---- before the driver ------------------------------------------------------------------------------- */

static void note_errata(bench &b, u16 device)
{
	for (const dma::erratum &e : b.driver->errata)
		if ((device & e.mask) == e.device)
			b.notes["errata"].push_back(e.text);
}

static surprise identity(bench &b)
{
	vfio::address_limits limits;
	u32 ids = 0, class_revision = 0, subsystem = 0;
	int err = vfio::config_read32(b.device(), 0, &ids);

	if (!err)
		err = vfio::config_read32(b.device(), 8, &class_revision);
	if (!err)
		err = vfio::config_read32(b.device(), 0x2c, &subsystem);
	if (!err)
		err = b.device().limits(&limits);
	if (err < 0)
		return failed("configuration space cannot be read", err);
	b.notes["device"] = fmt::format("{:04x}:{:04x}", ids & 0xffff, ids >> 16);
	b.notes["revision"] = class_revision & 0xff;
	b.notes["class"] = fmt::format("{:06x}", class_revision >> 8);
	b.notes["subsystem"] = fmt::format("{:04x}:{:04x}", subsystem & 0xffff, subsystem >> 16);
	describe_function(b.device(), &b.notes);
	for (const vfio::range &r : limits.usable)
		b.notes["addresses"].push_back(fmt::format("{:#x}-{:#x}", r.start, r.last));
	note_errata(b, u16(ids >> 16));
	return b.notes["regions"].empty() ? "the device has no region: no BAR has an address" : "";
}

/* A device that is off reads as ones. */
static surprise registers(bench &b)
{
	std::set<u64> ones;

	for (const dma::named_register &r : b.driver->registers) {
		u64 value = 0;
		const int err = b.device().region_read(r.region, r.offset, &value, r.width);

		if (err < 0)
			return failed(r.name, err);
		b.notes[r.name] = fmt::format("0x{:0{}x}", value, 2 * r.width);
		ones.insert(~value << (64 - 8 * r.width));
	}
	return ones.size() == 1 && ones.contains(0) ?
		       "all registers read as ones: the device is off, or its memory space is disabled" :
		       "";
}

/* ---- the driver --------------------------------------------------------------------------------------- */

static surprise start(bench &b)
{
	if (surprise s = b.start(); !s.empty())
		return s;
	const dma::engine_limits &l = b.eng->limits();
	b.notes["channels"] = l.channels;
	b.notes["max_copy"] = l.max_len;
	b.notes["ring_size"] = l.ring_size;
	for (u8 op = 0; op < u8(dma::opcode::op_count); op++)
		if (l.ops & dma::op_bit(dma::opcode(op)))
			b.notes["hardware_operations"].push_back(dma::softop::name(dma::opcode(op)));
	return "";
}

static surprise reset(bench &b)
{
	const int err = b.eng->reset();

	return err < 0 ? failed("the device cannot be reset", err) : "";
}

static surprise one_copy(bench &b, u64 *ns)
{
	const u64 from = now_ns();

	if (surprise s = b.copy(b.half, 0, 4096); !s.empty())
		return s;
	if (surprise s = b.await_all(); !s.empty())
		return s;
	*ns = now_ns() - from;
	return b.verify();
}

/* On a busy machine one may take long, of a slow device all do. */
static surprise copy(bench &b)
{
	u64 ns = ~u64(0);

	if (surprise s = b.open_channel(0); !s.empty())
		return s;
	for (unsigned i = 0; i < 4 && ns > slow_ms * ns_per_ms; i++)
		if (surprise s = one_copy(b, &ns); !s.empty())
			return s;
	b.is_slow = ns > slow_ms * ns_per_ms;
	b.notes["microseconds"] = ns / ns_per_us;
	return "";
}

static surprise lengths(bench &b)
{
	const u64 most = b.most_len();

	for (u64 len : {u64(1), u64(2), u64(3), u64(4), u64(5), u64(7), u64(8), u64(9), u64(15), u64(63), u64(64),
			u64(65), u64(511), u64(4095), u64(4096), u64(4097), u64(65535), most - 1, most}) {
		const u64 shift = b.random(64);

		if (len > most)
			continue;
		if (surprise s = b.copy(b.half + shift, b.random(64), len); !s.empty())
			return s;
		if (surprise s = b.await_all(); !s.empty())
			return fmt::format("a copy of {} bytes: {}", len, s);
		if (surprise s = b.verify(); !s.empty())
			return fmt::format("a copy of {} bytes to an address + {}: {}", len, shift, s);
	}
	return "";
}

/* Each copies what the one before has written. */
static surprise order(bench &b)
{
	const u32 n = b.is_slow ? 8 : std::min(b.ch->ring_size, 200u);

	for (u32 i = 0; i < n; i++) {
		const u64 from = i ? b.half + (i - 1) % 8 * 4096 : 0;

		if (surprise s = b.copy(b.half + i % 8 * 4096, from, i % 3 ? 64 : 4096); !s.empty())
			return s;
	}
	if (surprise s = b.await_all(); !s.empty())
		return s;
	return b.verify();
}

/* A full ring, with one doorbell. */
static surprise ring(bench &b)
{
	const u64 len = b.is_slow ? 64 : 1024;
	const u32 n = b.is_slow ? 16 : b.ch->ring_size;
	unsigned posted = 0;

	for (u32 i = 0; i < n; i++) {
		const u64 to = b.half + i * len % (b.half - len), from = b.random(b.half - len);
		const dma::request r = b.request(to, from, len - b.random(len));

		if (!b.ch->ops->post(b.ch, &r, 1))
			break;
		posted++;
		memmove(&b.want[to], &b.want[from], r.len);
	}
	b.announce();
	b.notes["requests"] = posted;
	if (posted + 1 < n)
		return fmt::format("a ring of {} took {} requests", n, posted);
	if (surprise s = b.await_all(); !s.empty())
		return s;
	return b.verify();
}

/* ---- interrupts --------------------------------------------------------------------------------------- */

static surprise post_copies(bench &b, u64 n, u64 len)
{
	for (u64 i = 0; i < n; i++) {
		const u64 to = b.half + i * len % (b.half - len);

		if (surprise s = b.post(b.request(to, 0, len)); !s.empty())
			return s;
		memmove(&b.want[to], b.want.data(), len);
	}
	b.announce();
	return "";
}

/* Waits, for more and longer copies while they end too soon to sleep for. */
static surprise sleep_often(bench &b, u64 *n, u64 *len, std::vector<double> *waits)
{
	const size_t enough = b.is_slow ? 4 : 12;
	double ms = 0;

	for (unsigned i = 0; i < 200 && waits->size() < enough; i++) {
		if (surprise s = post_copies(b, *n, *len); !s.empty())
			return s;
		if (surprise s = b.sleep_until(b.ch->posted, &ms); !s.empty())
			return s;
		if (ms >= 0)
			waits->push_back(ms);
		else if (*n < b.ch->ring_size / 2)
			*n *= 2;
		else
			*len = std::min(*len * 2, b.most_len());
	}
	return waits->empty() ? "no wait has slept: all copies had ended before, however long they were" : "";
}

static bool has_vectors(bench &b)
{
	vfio::irq_info irq;
	u32 n = 0;

	for (unsigned type : {vfio::irq_intx, vfio::irq_msi, vfio::irq_msix})
		n += b.device().irq(type, &irq) < 0 ? 0 : irq.count;
	return n;
}

/*
 * Without interrupts a driver polls its device from time to time, so its waits end all the same. Not each wait needs
 * one of its own: what ended before a rearm has none.
 */
static surprise interrupts(bench &b)
{
	u64 n = 1, len = b.is_slow ? 64 : std::min<u64>(b.most_len(), 64 * KiB);
	std::vector<double> waits;

	if (!has_vectors(b))
		return "the device has no interrupts here: each wait polls, once a millisecond";
	const u64 before = b.interrupts();
	if (surprise s = sleep_often(b, &n, &len, &waits); !s.empty())
		return s;
	const u64 raised = b.interrupts() - before;
	std::sort(waits.begin(), waits.end());
	b.notes = {{"waits", waits.size()},
		   {"interrupts", raised},
		   {"median_ms", waits[waits.size() / 2]},
		   {"longest_ms", waits.back()}};
	if (raised * 4 < waits.size())
		return fmt::format(
			"{} waits have slept for {:.1f} ms (median), and {} interrupts came: the driver's own check "
			"of the device has ended them",
			waits.size(), waits[waits.size() / 2], raised);
	return b.verify();
}

static surprise try_channel(bench &b, u32 i)
{
	double ms;

	if (surprise s = b.open_channel(i); !s.empty())
		return s;
	if (surprise s = b.copy(b.half + i * 64, i * 64, 64); !s.empty())
		return s;
	return b.sleep_until(b.ch->posted, &ms);
}

static surprise channels(bench &b)
{
	const u32 n = std::min(b.eng->limits().channels, b.is_slow ? 4u : 64u);

	for (u32 i = 0; i < n; i++)
		if (surprise s = try_channel(b, i); !s.empty())
			return fmt::format("channel {}: {}", i, s);
	b.notes["channels"] = n;
	if (surprise s = b.verify(); !s.empty())
		return s;
	return b.open_channel(0);
}

/* ---- faults, stop, reset ------------------------------------------------------------------------------- */

/* A copy that must fail between two others; is_source: it reads what is not mapped. */
static surprise fault_between(bench &b, bool is_source)
{
	dma::request bad = b.request(b.half, 0, 64, 5);

	(is_source ? bad.src : bad.dst) = b.hole() + 64;
	if (surprise s = b.copy(b.half + 4096, 4096, 256); !s.empty())
		return s;
	if (surprise s = b.post(bad); !s.empty())
		return s;
	const u64 seq = b.ch->posted;
	if (surprise s = b.copy(b.half + 8192, 8192, 256); !s.empty())
		return s;
	if (surprise s = b.take_fault(seq,
				      is_source ? dma::fault_reason::src_unmapped : dma::fault_reason::dst_unmapped,
				      b.hole() + 64, 64);
	    !s.empty())
		return s;
	if (surprise s = b.await_all(); !s.empty())
		return "after a fault: " + s;
	return b.verify();
}

static surprise faults(bench &b)
{
	for (unsigned i = 0; i < 4; i++)
		if (surprise s = fault_between(b, i % 2 == 0); !s.empty())
			return fmt::format("a copy {} memory that is not mapped: {}", i % 2 ? "to" : "from", s);
	return "";
}

/* Copies that were to be cancelled have not run; that which was in progress, in part perhaps. */
static surprise take_stop(bench &b, u64 first, u32 n, u64 len)
{
	static constexpr u64 cookie = 7;
	dma::fault f = {};

	if (const int err = b.ch->ops->stop(b.ch); err < 0)
		return failed("the channel does not stop", err);
	if (!dma::halted(b.ch) || !dma::read_fault(b.ch, &f) || f.reason != dma::fault_reason::stopped)
		return fmt::format("a stopped channel reports \"{}\"", dma::fault_name(f.reason));
	const u64 done = dma::completed(b.ch) - first;
	b.notes["completed_before_the_stop"] = done;
	b.notes["cancelled"] = b.ch->ops->cancel(b.ch, cookie);
	if (const int err = b.ch->ops->resume(b.ch); err < 0)
		return failed("the channel does not go on after a stop", err);
	if (surprise s = b.await_all(); !s.empty())
		return s;
	for (u64 i = 0; i < n; i++)
		if (i < done)
			memmove(&b.want[b.half + i * len], &b.want[i * len], len);
		else if (i == done)
			b.accept(b.half + i * len, len);
	return b.verify();
}

static surprise stop(bench &b)
{
	const u64 len = b.is_slow ? 64 : std::min<u64>(b.most_len(), 32 * KiB), first = b.ch->posted;
	const u32 n = b.is_slow ? 4 : 32;

	b.randomize();
	for (u64 i = 0; i < n; i++)
		if (surprise s = b.post(b.request(b.half + i * len, i * len, len, 7)); !s.empty())
			return s;
	b.announce();
	return take_stop(b, first, n, len);
}

/* Copies are in flight: what they write is undefined, and nothing is written afterwards. */
static surprise reset_busy(bench &b)
{
	static constexpr timespec moment = {0, 20 * 1000 * 1000};

	for (u64 i = 0; i < (b.is_slow ? 2 : 32); i++)
		if (surprise s = b.copy(b.half + i * 8192, i * 8192, 8192); !s.empty())
			return s;
	if (const int err = b.eng->reset(); err < 0)
		return failed("the device cannot be reset", err);
	b.accept(0, b.size);
	nanosleep(&moment, nullptr);
	if (surprise s = b.verify(); !s.empty())
		return "after the reset: " + s;
	if (surprise s = b.reopen(); !s.empty())
		return s;
	if (surprise s = b.copy(b.half, 0, 4096); !s.empty())
		return s;
	if (surprise s = b.await_all(); !s.empty())
		return "after the reset: " + s;
	return b.verify();
}

static surprise end(bench &b)
{
	static constexpr timespec moment = {0, 20 * 1000 * 1000};

	b.randomize();
	b.close();
	nanosleep(&moment, nullptr);
	return b.verify();
}

/* ---- the table ------------------------------------------------------------------------------------------ */

static constexpr bringup_step table[] = {
	{"identity", "what the device says it is",
	 "whether it is powered, its link, and its BARs: usdmactl doctor, lspci -vv", false, identity},
	{"registers", "a register is read", "the memory space bit of the command register; power states", false,
	 registers},
	{"start", "the driver takes the device over, from any state",
	 "the last accesses in the report, against the device's specification", false, start, true},
	{"reset", "reset, and set-up again", "whether the function has a reset of its own; what its reset state is",
	 false, reset},
	{"copy", "one copy, with the CPU polling",
	 "the descriptor's layout, bus mastering, the IOMMU's messages in dmesg", false, copy, true},
	{"lengths", "lengths and alignments", "limits of a length or an alignment that the capabilities do not say",
	 false, lengths},
	{"order", "copies that depend on each other",
	 "whether a descriptor may begin before the one in front has ended", true, order},
	{"ring", "a full ring, with one doorbell", "how a full ring differs from an empty one", true, ring},
	{"interrupts", "waits that sleep", "the vector's mask, how it is acknowledged, and rearmed: the read behind it",
	 true, interrupts},
	{"channels", "each channel, by its interrupt", "which vector is whose; what a channel shares", true, channels},
	{"faults", "copies that must fail", "whether the device stops at an error, and in which state", true, faults},
	{"stop", "stop, cancel, go on", "when a suspend is complete, and what was done before", true, stop},
	{"reset-busy", "a reset with copies in flight", "whether a reset stops what was begun", true, reset_busy},
	{"soak", "all at once, many times", "the seed: the same run fails again, or it is a matter of time", true,
	 bringup_soak},
	{"end", "nothing is written after the end", "bus mastering; what the device has prefetched", false, end},
};

std::span<const bringup_step> bringup_steps()
{
	return table;
}

} // namespace usdma::ctl::trial
