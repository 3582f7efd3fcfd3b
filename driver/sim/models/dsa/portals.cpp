/* SPDX-License-Identifier: BSD-3-Clause */
/* BAR2 (9.3); dsa_model.h has the rule for descriptors that come in pieces. */
#include "driver/sim/models/dsa/dsa_model.h"

#include "driver/base/error.h"

#include <algorithm>
#include <cstring>

namespace usdma::sim {

/* 5.3. -EAGAIN: retry, of a shared queue. What a dedicated one does not take is dropped. */
int dsa_model::submit(dsa_queue &q, u32 page, const dsa::work &w)
{
	const bool open = q.state == dsa::wq_state::enabled && state_ == dsa::device_state::enabled &&
			  !(page & dsa::portal_ims);
	const u32 threshold = std::min(q.cfg[dsa::wq_word_threshold] & 0xffff, q.size());
	const u32 most = !q.is_dedicated() && page & dsa::portal_limited ? threshold : q.size();

	if (open && q.count < most) {
		q.slots[(q.head + q.count++) % dsa_queue::most] = w;
		q.submitted++;
		kick();
		return 0;
	}
	if (!q.is_dedicated())
		return fail(EAGAIN, "sim: queue %u takes no descriptor now", q.index);
	if (open)
		software_error(dsa::swerr_no_space, &q, nullptr, {});
	return 0;
}

int dsa_model::read_bar(u32, u64, u8 *buf, u32 len)
{
	memset(buf, 0xff, len);
	return 0;
}

int dsa_model::write_bar(u32, u64 offset, const u8 *buf, u32 len)
{
	const u32 index = u32(offset / dsa::portals_step), page = offset / dsa::portal_page % 4;
	const u32 within = offset % sizeof(dsa::work);
	std::lock_guard guard(lock_);
	dsa::work w;

	if (index >= queues_count_ || len > sizeof(w))
		return 0;
	dsa_queue &q = queues_[index];
	auto &p = q.pieces[page];
	const bool is_next = within == p.have && offset - within == p.at;

	if (!is_pow2(len) || len < 4 || within % len || (within && !is_next)) {
		p.have = 0;
		return 0;
	}
	p.at = offset - within;
	memcpy(p.bytes + within, buf, len);
	p.have = within + len;
	if (p.have < sizeof(w))
		return 0;
	p.have = 0;
	memcpy(&w, p.bytes, sizeof(w));
	return submit(q, page, w);
}

} // namespace usdma::sim
