/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/usdmactl/bringup.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/dma/own_memory.h"

#include <cstring>
#include <fmt/format.h>
#include <poll.h>

namespace usdma::ctl::trial {

/* A slow device on a busy machine completes a request within this. */
static constexpr u64 patience_ms = 20000;
static constexpr u64 area_bytes = 4 * MiB;
/* Beside the driver's own memory, which is between 1 GiB and 4 GiB; the last ones for devices of 32 bits. */
static constexpr u64 addresses[] = {64 * GiB, 8 * GiB, 3 * GiB, 512 * MiB};
static constexpr u64 poll_pause_ns = 20000;

surprise failed(const char *what, int err)
{
	return fmt::format("{}: {}", what, *error_text() ? error_text() : strerror(-err));
}

bench::~bench()
{
	close();
}

/* A software device has none of its own. */
static std::vector<std::string> names_of(const std::string &spec, const char *name)
{
	constexpr std::string_view user = "vfio-user:";
	std::string_view bare;
	dma::device_options parsed;

	dma::parse_options(spec, &bare, &parsed);
	std::vector<std::string> all = {spec, name, std::string(bare)};
	if (bare.starts_with(user))
		all.emplace_back(bare.substr(user.size()));
	std::erase_if(all, [](const std::string &s) { return s.empty() || s == "sim"; });
	return all;
}

surprise bench::open()
{
	std::unique_ptr<vfio::device> dev;
	u16 id[2];
	int err = dma::open_device(options.device, &dev);

	if (!err)
		err = dev->region_read(vfio::region_config, 0, id, sizeof(id));
	if (err < 0)
		return failed("the device cannot be opened", err);
	if (id[0] == 0xffff)
		return "the device does not answer: its vendor id reads as ffff";
	driver = dma::find_driver(id[0], id[1]);
	if (!driver)
		return fmt::format("there is no driver for the device {:04x}:{:04x}", id[0], id[1]);
	names = names_of(options.device, dev->name());
	dev_ = traced(std::move(dev), driver->registers, trace_);
	return "";
}

surprise bench::mark()
{
	u16 words[4] = {};
	const int err = device().region_read(vfio::region_config, 0, words, sizeof(words));

	if (err < 0)
		return failed("configuration space cannot be read", err);
	return words[0] == 0xffff ? "the device does not answer any more: its vendor id reads as ffff" : "";
}

surprise bench::map_memory()
{
	vfio::address_limits limits;
	int err = eng->transport().limits(&limits);

	size = align_up(area_bytes, limits.page_size);
	half = size / 2;
	if (!err)
		err = dma::own_memory_make("usdma-bringup", size, -1, &file_, &memory_);
	if (err < 0)
		return failed("no memory for the test", err);
	bytes = memory_.data();
	err = -ENOSPC;
	for (u64 at : addresses)
		/* And what follows, which is not mapped. */
		if (err && dma::is_usable(limits, at, 2 * size)) {
			iova = at;
			err = eng->map({.iova = at, .size = size, .vaddr = bytes, .fd = file_.get()});
		}
	is_mapped_ = !err;
	randomize();
	return err < 0 ? failed("memory cannot be mapped for the device", err) : "";
}

surprise bench::start()
{
	const int err = driver->probe(dev_, &eng);

	return err < 0 ? failed("the driver refuses the device", err) : map_memory();
}

void bench::close()
{
	close_channel();
	if (is_mapped_ && !eng->lost())
		eng->unmap(iova, size);
	is_mapped_ = false;
	eng.reset();
	dev_.reset();
}

surprise bench::open_channel(u32 index)
{
	close_channel();
	const int err = eng->channel_open(index, {}, &ch);

	return err < 0 ? failed("the channel cannot be opened", err) : "";
}

void bench::close_channel()
{
	if (ch)
		ch->ops->close(ch);
	ch = nullptr;
}

surprise bench::reopen()
{
	const int err = ch->ops->restart ? ch->ops->restart(ch) : 0;

	if (err < 0)
		return failed("the channel does not start after the reset", err);
	return ch->ops->restart ? "" : open_channel(ch->index);
}

/* ---- memory ------------------------------------------------------------------------------------------ */

void bench::randomize()
{
	want.resize(size);
	for (u64 at = 0; at < size; at += sizeof(u64)) {
		const u64 word = gen();

		memcpy(&want[at], &word, sizeof(word));
	}
	memcpy(bytes, want.data(), size);
}

void bench::accept(u64 at, u64 len)
{
	memcpy(&want[at], bytes + at, len);
}

surprise bench::verify()
{
	u64 wrong = 0, first = 0;

	if (!memcmp(bytes, want.data(), size))
		return "";
	for (u64 at = size; at--;)
		if (bytes[at] != want[at]) {
			wrong++;
			first = at;
		}
	return fmt::format("the data are wrong: {} bytes differ, the first at 0x{:x} of the {} (0x{:02x}, and 0x{:02x} "
			   "was expected)",
			   wrong, first % half, first < half ? "sources" : "destinations", bytes[first], want[first]);
}

u64 bench::most_len() const
{
	return std::min(eng->limits().max_len, is_slow ? u64(4096) : MiB);
}

/* ---- requests ---------------------------------------------------------------------------------------- */

dma::request bench::request(u64 to, u64 from, u64 len, u64 cookie) const
{
	return {.op = dma::opcode::copy, .src = iova + from, .dst = iova + to, .len = len, .cookie = cookie};
}

void bench::announce()
{
	ch->ops->doorbell(ch);
	barrier_full();
	if (load_relaxed(ch->asleep) && dma::claim_wake(ch))
		ch->ops->wake(ch);
}

static void pause()
{
	const timespec t = {0, poll_pause_ns};

	nanosleep(&t, nullptr);
}

surprise bench::post(const dma::request &r)
{
	const deadline until = deadline::in_ms(patience_ms);

	while (!ch->ops->post(ch, &r, 1)) {
		announce();
		if (dma::halted(ch))
			return halted_at(ch->posted);
		if (eng->lost())
			return "the device is lost";
		if (until.passed())
			return "the ring stays full: " + hangs(ch->posted);
		pause();
	}
	return "";
}

surprise bench::copy(u64 to, u64 from, u64 len, u64 cookie)
{
	const surprise wrong = post(request(to, from, len, cookie));

	announce();
	memmove(&want[to], &want[from], len);
	return wrong;
}

/* ---- waits ------------------------------------------------------------------------------------------- */

surprise bench::halted_at(u64 seq)
{
	dma::fault f;

	if (!dma::read_fault(ch, &f))
		return fmt::format("channel {} has halted without a reason before request {}", ch->index, seq);
	return fmt::format("channel {} has halted at request {}, and {} was to complete: {}, address 0x{:x}", ch->index,
			   f.seq, seq, dma::fault_name(f.reason), f.address);
}

surprise bench::hangs(u64 seq)
{
	char state[256] = "unknown";

	if (ch->ops->describe)
		ch->ops->describe(ch, state, sizeof(state));
	return fmt::format("channel {} has completed {} requests, and not {} within {} s; its state: {}", ch->index,
			   dma::completed(ch), seq, patience_ms / 1000, state);
}

surprise bench::await(u64 seq)
{
	const deadline until = deadline::in_ms(patience_ms);

	for (; s64(dma::completed(ch) - seq) < 0; pause()) {
		if (eng->lost())
			return "the device is lost";
		if (dma::halted(ch))
			return halted_at(seq);
		if (until.passed())
			return hangs(seq);
	}
	return "";
}

surprise bench::sleep_until(u64 seq, double *ms)
{
	const deadline until = deadline::in_ms(patience_ms);
	const u64 from = now_ns();
	u64 n;

	for (*ms = -1;; *ms = double(now_ns() - from) / double(ns_per_ms)) {
		ch->ops->arm(ch, dma::irq_waiter, seq);
		if (s64(dma::completed(ch) - seq) >= 0)
			return "";
		if (dma::halted(ch))
			return halted_at(seq);
		/* Whatever interrupts come. */
		if (until.passed())
			return hangs(seq);
		pollfd p[] = {{ch->irq_fd[dma::irq_waiter], POLLIN, 0}, {eng->transport().lost_fd(), POLLIN, 0}};
		if (poll(p, 2, until.left_ms(int(patience_ms))) > 0 && p[0].revents &&
		    read(p[0].fd, &n, sizeof(n)) == sizeof(n))
			continue;
		if (eng->lost())
			return "the device is lost";
		if (s64(dma::completed(ch) - seq) >= 0)
			return fmt::format("request {} has completed, and its interrupt has not come", seq);
		return hangs(seq);
	}
}

surprise bench::await_halt()
{
	const deadline until = deadline::in_ms(patience_ms);

	for (; !dma::halted(ch); pause()) {
		if (eng->lost())
			return "the device is lost";
		/* Of a device with a record of its own. */
		if (dma::completed(ch) == ch->posted)
			return "a request that must fail was reported as done";
		if (until.passed())
			return hangs(ch->posted);
	}
	return "";
}

surprise bench::take_fault(u64 seq, dma::fault_reason why, u64 at, u64 len)
{
	dma::fault f = {};

	if (surprise s = await_halt(); !s.empty())
		return s;
	if (!dma::read_fault(ch, &f))
		return "the channel has halted without a reason";
	if (f.seq != seq || dma::completed(ch) != seq - 1)
		return fmt::format("request {} must fail, and {} was reported, with {} completed", seq, f.seq,
				   dma::completed(ch));
	if (f.reason != why || f.address - at >= len)
		return fmt::format("\"{}\" at 0x{:x} was reported, and it is \"{}\" at 0x{:x}",
				   dma::fault_name(f.reason), f.address, dma::fault_name(why), at);
	const int err = ch->ops->resume(ch);
	return err < 0 ? failed("the channel does not go on after a fault", err) : "";
}

} // namespace usdma::ctl::trial
