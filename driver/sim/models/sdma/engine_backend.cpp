/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that the device behind the model runs: copies and fills of memory that it reaches. All others, and those
 * that fail, are run here, each when all before it have ended.
 */
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/sim/models/sdma/engine.h"
#include "driver/vfio/device.h"

#include <algorithm>

namespace usdma::sim {

using dma::fault_reason;
using dma::opcode;
using sdma::descriptor;

/* Descriptors that a channel may begin before the next one's turn. */
static constexpr unsigned turn = 32;
static constexpr u32 polls_per_beat = 16;

/* ---- addresses ------------------------------------------------------------------------------------- */

/* How many of the bytes are contiguous for the device, from *out on; 0: it does not reach them. */
u64 engine::on_device(const end &e, u64 left, u64 *out)
{
	window &w = *e.cached;

	if (e.space == dma::space::device) {
		const u64 at = e.addr - mem_base_;

		*out = m_.mem_device + at;
		return m_.mem_device && at < m_.mem_size ? std::min(left, m_.mem_size - at) : 0;
	}
	/* A cached window has the right: others copy by it, too. */
	if (e.addr - w.base >= w.size && (!m_.space.find(e.addr, &w) || (w.prot & e.right) != e.right))
		w = window();
	if (!w.device || is_dead(w.piece))
		return 0;
	const u64 off = e.addr - w.base;

	*out = w.device + off;
	return std::min(left, w.size - off);
}

bool engine::is_on_device(end e, u64 len)
{
	u64 at;

	for (u64 n; len; e.addr += n, len -= n) {
		n = on_device(e, len, &at);
		if (!n)
			return false;
	}
	return true;
}

static bool is_fill(const descriptor &d)
{
	return d.op == u8(opcode::fill);
}

/* Where the device's address is in the range that the end begins. */
bool engine::find_in(end e, u64 len, u64 device, u64 *out)
{
	u64 at;

	for (u64 n; len; e.addr += n, len -= n) {
		n = on_device(e, len, &at);
		if (!n)
			return false;
		if (device - at < n) {
			*out = e.addr + (device - at);
			return true;
		}
	}
	return false;
}

engine::end engine::source_of(hw_channel &ch, const descriptor &d)
{
	return {dma::src_space(d.spaces), d.src, vfio::dma_read, &ch.src};
}

engine::end engine::target_of(hw_channel &ch, const descriptor &d)
{
	return {dma::dst_space(d.spaces), d.dst, vfio::dma_write, &ch.dst};
}

/* The address of a fault as the client has it; what is in neither range is reported as the destination. */
u64 engine::client_address(hw_channel &ch, const descriptor &d, u64 device)
{
	u64 at;

	if (find_in(target_of(ch, d), d.len, device, &at) ||
	    (!is_fill(d) && find_in(source_of(ch, d), d.len, device, &at)))
		return at;
	return d.dst;
}

/* ---- to the device --------------------------------------------------------------------------------- */

/* A pattern begins at each request of its own: these must not divide it. */
static bool is_whole_fill(const descriptor &d)
{
	return (d.arg == 1 || d.arg == 4 || d.arg == 8) && !(d.len % d.arg) && !(d.dst % d.arg);
}

bool engine::may_offload(hw_channel &ch, const descriptor &d)
{
	if (d.reserved || (d.spaces & ~valid_spaces) || (d.flags & ~valid_flags) || d.len - 1 >= model_max_len ||
	    (d.op != u8(opcode::copy) && !is_fill(d)) || !m_.device->runs(opcode(d.op)))
		return false;
	return is_on_device(target_of(ch, d), d.len) &&
	       (is_fill(d) ? is_whole_fill(d) : is_on_device(source_of(ch, d), d.len));
}

/* Why the device does not reach it: mapped again meanwhile, it may have no address of the device. */
void engine::fault_of(const end &e, u64 len)
{
	if (check_mapping(e, len))
		fault(fault_reason::transfer, e.addr);
}

/* The next request of the last descriptor. False: the memory is no longer mapped. */
bool engine::next_request(hw_channel &ch, u64 most, dma::request *out, u64 *bytes)
{
	static constexpr u8 passed_on = dma::flag_fence | dma::flag_cache;
	const offload::item &i = ch.device->back();
	const u64 left = std::min(i.of.len - i.done, align_down(m_.device->max_len(), u64(8)));
	end src = source_of(ch, i.of), dst = target_of(ch, i.of);

	src.addr += i.done;
	dst.addr += i.done;
	mem_base_ = i.mem_base;
	*out = {.op = opcode(i.of.op), .flags = u8((i.of.flags & passed_on) | dma::flag_complete)};
	*bytes = on_device(dst, std::min(left, most), &out->dst);
	if (!*bytes)
		fault_of(dst, left);
	if (is_fill(i.of)) {
		out->arg = i.of.arg;
		out->a = i.of.a;
	} else if (*bytes) {
		*bytes = on_device(src, *bytes, &out->src);
		if (!*bytes)
			fault_of(src, left);
	}
	out->len = *bytes;
	return *bytes;
}

/* Posts what is left of the last descriptor. False: the ring is full, or the oldest one has failed. */
bool engine::post_rest(hw_channel &ch)
{
	offload &o = *ch.device;
	offload::item *const i = o.count ? &o.back() : nullptr;

	while (i && i->open && o.front().reason == fault_reason::none) {
		const u64 most = o.next_bytes();
		dma::request r;
		u64 number, bytes;

		if (!most)
			return false;
		if (!next_request(ch, most, &r, &bytes)) {
			i->reason = fault_reason_;
			i->address = fault_address_;
			i->open = false;
			return false;
		}
		if (!o.to->post(r, &number))
			return false;
		o.note_request(number, bytes);
		i->done += bytes;
		i->open = i->done < i->of.len;
		moved_ += bytes;
	}
	return !i || (!i->open && i->reason == fault_reason::none);
}

/* False: it has not ended. */
bool engine::run_here(hw_channel &ch, const descriptor &d)
{
	store_relaxed(&ch.head, ch.next);
	result r = execute(ch, d, load_relaxed(&m_.mem_base));
	if (unlikely(load_relaxed(&bus_deaths) != deaths_))
		r = after_death(ch, r, d);
	if (r == result::done)
		end_one(ch, d.flags);
	else if (r == result::fault)
		halt(ch, fault_reason_, fault_address_, d.cookie);
	store_relaxed(&ch.waiting, r == result::blocked);
	return r == result::done;
}

/* The descriptor behind those that the device has. False: not posted yet. */
bool engine::take_descriptor(hw_channel &ch, descriptor *out)
{
	const u64 number = ch.next + ch.device->count;
	const descriptor *const slot = ch.slot(number);

	if (load_acquire(&slot->tag) != u32(number))
		return false;
	read_descriptor(slot, out);
	return true;
}

/* How many descriptors were begun; dry: the next one is not posted yet. */
unsigned engine::begin_more(hw_channel &ch, bool *dry)
{
	offload &o = *ch.device;
	unsigned n = 0;

	for (moved_ = 0; n < turn && post_rest(ch) && o.takes_descriptor(); n++) {
		descriptor d;

		if (!take_descriptor(ch, &d)) {
			*dry = !o.count;
			break;
		}
		mem_base_ = load_relaxed(&m_.mem_base);
		if (may_offload(ch, d)) {
			o.push(d, mem_base_);
			continue;
		}
		o.held_back = ch.next + o.count;
		if (o.count)
			break;
		/* A command that came meanwhile may have switched the channel off: then it has no device any more. */
		if (!run_here(ch, d))
			return n;
	}
	if (o.count)
		store_relaxed(&ch.head, ch.next);
	o.to->announce();
	return n;
}

/* ---- from the device ------------------------------------------------------------------------------- */

/* A request of the oldest descriptor has failed, or its memory was unmapped before all of it was posted. */
void engine::fail_oldest(hw_channel &ch, const dma::fault *f)
{
	offload &o = *ch.device;
	const offload::item i = o.front();

	o.clear();
	o.client->note_failed();
	mem_base_ = i.mem_base;
	if (f)
		halt(ch, f->reason, f->address ? client_address(ch, i.of, f->address) : 0, i.of.cookie);
	else
		halt(ch, i.reason, i.address, i.of.cookie);
}

/* Number of the last request that has ended well, and the fault of the one behind it. */
u64 engine::ended_on_device(offload &o, dma::fault *f)
{
	/* In this order: a number behind a failed one is reported after the failure. */
	const u64 ended = o.to->ended();

	*f = o.to->has_failed() ? o.to->take_fault() : dma::fault();
	const u64 good = f->reason == fault_reason::none ? ended : f->seq - 1;

	o.note_ended(good);
	return good;
}

/*
 * The client has truncated a file that the oldest descriptor accessed: a device in this process has got zeros. It then
 * fails, as without a device.
 */
bool engine::met_truncated(hw_channel &ch)
{
	offload::item &i = ch.device->front();

	if (likely(i.deaths == load_acquire(&bus_deaths)))
		return false;
	mem_base_ = i.mem_base;
	if (may_offload(ch, i.of))
		return false;
	i.reason = fault_reason::transfer;
	i.address = i.of.dst;
	return true;
}

/* Completes what the device has run: how many descriptors. */
unsigned engine::collect(hw_channel &ch)
{
	offload &o = *ch.device;
	dma::fault f;
	const u64 ended = ended_on_device(o, &f);
	unsigned n = 0;

	for (; o.count && ch.state == sdma::chan_state_running; n++) {
		if (o.front_has_ended(ended) && !met_truncated(ch))
			end_oldest(ch);
		else if (f.reason != fault_reason::none)
			fail_oldest(ch, &f);
		else if (o.front().reason != fault_reason::none && !o.requests)
			fail_oldest(ch, nullptr);
		else
			break;
	}
	store_relaxed(&ch.head, ch.next - (o.count || ch.state != sdma::chan_state_running ? 0 : 1));
	return n;
}

void engine::end_oldest(hw_channel &ch)
{
	offload &o = *ch.device;
	const u8 flags = o.front().of.flags;

	o.client->note_made(o.front().of.len);
	o.pop();
	end_one(ch, flags);
}

/* For an engine that is about to sleep: something has ended, or the next descriptor may begin. */
bool engine::has_news(const hw_channel &ch)
{
	offload &o = *ch.device;
	const u64 next = ch.next + o.count;

	/* What failed behind a halt is dropped with the next descriptor. */
	if (((o.count || ch.runs()) && o.to->has_failed()) || o.has_ended(o.to->ended()))
		return true;
	return o.count && ch.runs() && !ch.stop_due && o.takes_descriptor() && next != o.held_back &&
	       load_acquire(&ch.slot(next)->tag) == u32(next);
}

/* When the device has ended all that was posted. What was posted in part runs again, from its beginning. */
void engine::stop_between(hw_channel &ch)
{
	offload &o = *ch.device;

	if (o.count && !(o.front().open && !o.requests))
		return;
	o.clear();
	halt(ch, fault_reason::stopped, 0, 0);
}

/* As run_ring(). */
unsigned engine::run_on_device(hw_channel &ch, bool *dry)
{
	offload &o = *ch.device;
	unsigned n = o.count || o.to->has_failed() ? collect(ch) : 0;

	if (ch.state != sdma::chan_state_running)
		return n;
	if (!ch.stop_due)
		n += begin_more(ch, dry);
	else
		stop_between(ch);
	if (!ch.device)
		return n;
	/* As for a WAIT: after a nap, and of an engine that others wake all the time, by polls. */
	if (!n && o.count && (beat_due_ || !(++o.polls % polls_per_beat)))
		beat_on_device(ch);
	return n;
}

/* A request that waits for its turn does not hang, even if the one of another client does before it. */
void engine::beat_on_device(hw_channel &ch)
{
	offload &o = *ch.device;
	const u64 progress = o.to->progress();

	if (progress != o.progress || !o.requests || o.to->is_queued(o.oldest().number))
		store_relaxed(&ch.record->heartbeat, ++ch.heartbeat);
	o.progress = progress;
}

/* ---- a channel that is switched off ---------------------------------------------------------------- */

bool engine::attach_device(hw_channel &ch)
{
	ch.device = try_unique<offload>(m_.device);
	if (ch.device)
		ch.device->to = m_.device->attach();
	if (ch.device && ch.device->to)
		return true;
	log_warn_limited("sim: channel %u: %s has no channel for it", ch.index, m_.device->name());
	ch.device.reset();
	return false;
}

/* Its record is no longer mapped. */
void engine::drop_record(hw_channel &ch)
{
	u8 *const spare = reinterpret_cast<u8 *>(&ch.device->spare);

	set_status(ch, spare, spare + cache_line);
}

/*
 * The client finds what has run in the record and in head, and runs the rest again. True: the device has ended all of
 * it.
 */
bool engine::drain(hw_channel &ch)
{
	offload &o = *ch.device;
	dma::fault f;
	const u64 ended = ended_on_device(o, &f);

	for (; o.count && o.front_has_ended(ended); ch.next++)
		o.pop();
	store_relaxed(&ch.head, ch.next - (o.count ? 0 : 1));
	if (ch.next - 1 != ch.written)
		publish(ch);
	if (f.reason != fault_reason::none || !o.requests)
		o.clear();
	return !o.count;
}

} // namespace usdma::sim
