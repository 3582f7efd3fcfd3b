/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream creation. */
#include "driver/base/error.h"
#include "lib/core/queue/hw_queues.h"
#include "lib/core/stream/listen.h"
#include "lib/core/stream/stopped.h"
#include "lib/core/stream/task.h"

namespace usdma::core {

constinit no_destructor<slab<stream, max_streams, handle_kind::stream>> all_streams;
static u32 next_id;

wait_mode stream_wait_mode(const stream *s)
{
	return s->opt.wait >= 0 ? wait_mode(s->opt.wait) : config_get().wait;
}

int stream_create(device *dev, const stream_options &opt, stream **out)
{
	stream *s;
	int err;

	if (is_other_process())
		return fail_forked();
	if (dev->lost())
		return fail_lost(dev);
	s = all_streams->get();
	if (!s)
		return all_streams->fail_full(ENOSPC, "streams");
	err = hwq_get(dev, opt.internal, &s->ln);
	if (err) {
		all_streams->put(s);
		return err;
	}
	s->dev = dev;
	s->opt = opt;
	s->max_len = dev->eng->limits().max_len;
	s->plain_len = u32(std::min<u64>({s->max_len, s->ln->ch->submit_max, ~u32(0)}));
	s->cookie = all_streams->index_of(s) + 1;
	s->id = fetch_add_relaxed(&next_id, 1) + 1;
	s->last = dma::completed(s->ln->ch);
	s->order = race_on() ? race().stream_add(s->id, opt.internal) : 0;
	s->gated = s->order || dev->timing == check_timing::early ? gate_checked : 0;
	all_streams->publish(s);
	rings_note_open();
	if (opt.owner)
		stream_follow_owner(s);
	*out = s;
	return 0;
}

void stream_set_captured(stream *s, bool on)
{
	std::lock_guard guard(s->ln->lock);

	store_release(&s->gated, u16(on ? s->gated | gate_captured : s->gated & ~gate_captured));
}

size_t stream_live()
{
	return all_streams->live();
}

} // namespace usdma::core
