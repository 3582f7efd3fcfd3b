/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies over several channels, with waits by both means, resets, stops and faults that are meant. */
#include "tools/usdmactl/bringup.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"

#include <cstring>
#include <fmt/format.h>

namespace usdma::ctl::trial {

static constexpr u32 most_slices = 4, burst = 32;
static constexpr u64 long_copy = 64 * KiB, usual_copy = 4096, reported_every_ns = 2 * ns_per_s;

namespace {

/* A channel with a part of the memory of its own. */
struct slice {
	dma::channel *ch = nullptr;
	u64 at = 0, size = 0; /* in each half */
};

class soak {
public:
	explicit soak(bench &b) : b_(b) {}
	~soak();
	soak(const soak &) = delete;
	soak &operator=(const soak &) = delete;

	surprise run();

private:
	surprise open();
	surprise round();
	surprise copies(const slice &l, u64 n);
	surprise fault(const slice &l);
	surprise stop();
	surprise reset();
	surprise await_each();
	void report_progress();

	bench &b_;
	std::vector<slice> slices_;
	u64 copies_ = 0, faults_ = 0, stops_ = 0, resets_ = 0, slept_ = 0;
	u64 reported_ = now_ns();
};

/* The bench closes its own one. */
soak::~soak()
{
	for (const slice &l : slices_)
		if (l.ch && l.ch != slices_[0].ch)
			l.ch->ops->close(l.ch);
	if (!slices_.empty())
		b_.ch = slices_[0].ch;
}

surprise soak::open()
{
	const u32 n = std::min(b_.eng->limits().channels, most_slices);

	slices_.resize(n);
	slices_[0].ch = b_.ch;
	for (u32 i = 0; i < n; i++) {
		slices_[i].size = b_.half / n;
		slices_[i].at = i * slices_[i].size;
		if (const int err = i ? b_.eng->channel_open(i, {}, &slices_[i].ch) : 0; err < 0)
			return failed("the channel cannot be opened", err);
	}
	return "";
}

surprise soak::copies(const slice &l, u64 n)
{
	for (u64 i = 0; i < n; i++) {
		const u64 most = std::min(b_.random(64) || b_.is_slow ? usual_copy : long_copy, b_.most_len());
		const u64 len = 1 + b_.random(most);
		const u64 to = b_.half + l.at + b_.random(l.size - len), from = l.at + b_.random(l.size - len);

		if (surprise s = b_.post(b_.request(to, from, len)); !s.empty())
			return s;
		memmove(&b_.want[to], &b_.want[from], len);
	}
	b_.announce();
	copies_ += n;
	return "";
}

/* Among others, which run. */
surprise soak::fault(const slice &l)
{
	dma::request bad = b_.request(b_.half + l.at, l.at, 64);
	const bool is_source = b_.random(2);

	(is_source ? bad.src : bad.dst) = b_.hole() + 64;
	if (surprise s = copies(l, 3); !s.empty())
		return s;
	if (surprise s = b_.post(bad); !s.empty())
		return s;
	const u64 seq = b_.ch->posted;
	if (surprise s = copies(l, 3); !s.empty())
		return s;
	faults_++;
	if (surprise s = b_.take_fault(seq,
				       is_source ? dma::fault_reason::src_unmapped : dma::fault_reason::dst_unmapped,
				       b_.hole() + 64, 64);
	    !s.empty())
		return "a copy that must fail: " + s;
	return b_.await_all();
}

/* Nothing is cancelled, so all copies run. */
surprise soak::stop()
{
	if (const int err = b_.ch->ops->stop(b_.ch); err < 0)
		return failed("the channel does not stop", err);
	stops_++;
	const int err = b_.ch->ops->resume(b_.ch);
	return err < 0 ? failed("the channel does not go on after a stop", err) : "";
}

surprise soak::await_each()
{
	for (const slice &l : slices_) {
		b_.ch = l.ch;
		if (surprise s = b_.await_all(); !s.empty())
			return s;
	}
	return "";
}

surprise soak::reset()
{
	if (surprise s = await_each(); !s.empty())
		return s;
	if (const int err = b_.eng->reset(); err < 0)
		return failed("the device cannot be reset", err);
	resets_++;
	for (slice &l : slices_) {
		b_.ch = l.ch;
		const surprise s = b_.reopen();
		l.ch = b_.ch;
		if (!s.empty())
			return s;
	}
	return "";
}

/* How often of 256 rounds. */
static constexpr u64 of = 256, faulty = 8, stopped = 8, reset_often = 2, slept = 64, polled = 64;

surprise soak::round()
{
	const slice &l = slices_[b_.random(slices_.size())];
	const u64 what = b_.random(of);
	double ms;

	b_.ch = l.ch;
	if (surprise s = copies(l, 1 + b_.random(b_.is_slow ? 2 : burst)); !s.empty())
		return s;
	if (what < faulty)
		return fault(l);
	if (what < faulty + stopped)
		return stop();
	if (what < faulty + stopped + reset_often)
		return reset();
	slept_ += what >= of - slept;
	return what >= of - slept          ? b_.sleep_until(b_.ch->posted, &ms) :
	       what >= of - slept - polled ? b_.await_all() :
					     "";
}

void soak::report_progress()
{
	if (now_ns() - reported_ < reported_every_ns)
		return;
	reported_ = now_ns();
	print_error(fmt::format("bringup: {} of {} copies", copies_, b_.options.copies));
}

surprise soak::run()
{
	static constexpr u64 verify_every = 64;
	surprise s = open();

	for (u64 i = 0; s.empty() && copies_ < b_.options.copies; i++) {
		s = round();
		if (s.empty() && i % verify_every == verify_every - 1)
			s = await_each();
		if (s.empty() && i % verify_every == verify_every - 1)
			s = b_.verify();
		report_progress();
	}
	/* Each of these once, however few copies there are. */
	if (s.empty())
		s = reset();
	b_.ch = slices_[0].ch;
	if (s.empty())
		s = fault(slices_[0]);
	if (s.empty())
		s = await_each();
	b_.notes = {
		{"copies", copies_}, {"faults", faults_}, {"stops", stops_}, {"resets", resets_}, {"slept", slept_}};
	if (!s.empty())
		return fmt::format("after {} copies: {}", copies_, s);
	return b_.verify();
}

} // namespace

surprise bringup_soak(bench &b)
{
	return soak(b).run();
}

} // namespace usdma::ctl::trial
