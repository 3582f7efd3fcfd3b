/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/measure.h"

#include "driver/base/error.h"

#include <algorithm>
#include <cstdio>

namespace usdma::net {

static constexpr u64 first_answer_ms = 5000, rounds_most = 100000;
static constexpr u64 latency_sizes[] = {8, 64, 512, 4 * KiB}, bandwidth_sizes[] = {64 * KiB, MiB, 16 * MiB, sink_most};

/* As many as ucx_perftest has, or eight where these are all of the memory. */
static constexpr u64 in_flight(u64 size)
{
	return size <= MiB ? 32 : 8;
}

class run final : public receiver {
public:
	run(node &n, u32 slot) : node_(n), slot_(slot) { n.ucx().set_receiver(this); }
	~run() override { node_.ucx().set_receiver(nullptr); }
	run(const run &) = delete;
	run &operator=(const run &) = delete;

	u64 sent = 0, answered = 0;

	int send(u64 length) { return node_.ucx().send(slot_, message::sink, ++sent, length); }
	/* Until no more than this many are without an answer. The node itself notices a peer that is silent. */
	int wait(u64 open, deadline until)
	{
		while (sent - answered > open) {
			if (const int err = node_.turn(until))
				return err;
			if (const int err = node_.lost(slot_))
				return err;
			if (until.passed())
				return fail(ETIMEDOUT, "no answer to a message");
		}
		return 0;
	}
	int latency(u64 length, u64 for_ms);
	int bandwidth(u64 length, u64 for_ms);

private:
	void on_message(const incoming &in) override
	{
		/* Those of pings have another mark, and are above all of these. */
		if (in.kind == message::ack && in.slot == slot_ && in.h.number <= sent)
			answered++;
	}

	node &node_;
	const u32 slot_;
};

static int print(const char *what, u64 a, u64 b, u64 c, u64 d, u64 e)
{
	printf("%s %llu %llu %llu", what, static_cast<unsigned long long>(a), static_cast<unsigned long long>(b),
	       static_cast<unsigned long long>(c));
	if (e)
		printf(" %llu %llu", static_cast<unsigned long long>(d), static_cast<unsigned long long>(e));
	return printf("\n") < 0 || fflush(stdout) ? fail_errno("standard output") : 0;
}

int run::latency(u64 length, u64 for_ms)
{
	const deadline end = deadline::in_ms(for_ms);
	std::vector<u64> took;

	for (u64 then = now_ns(), now; !end.passed() && took.size() < rounds_most; then = now) {
		int err = send(length);

		if (!err)
			err = wait(0, deadline::never());
		if (err)
			return err;
		now = now_ns();
		took.push_back(now - then);
	}
	std::sort(took.begin(), took.end());
	return print("latency", length, took.size(), took.front(), took[took.size() / 2], took[took.size() * 99 / 100]);
}

int run::bandwidth(u64 length, u64 for_ms)
{
	const deadline end = deadline::in_ms(for_ms);
	const u64 begin = now_ns(), before = sent;

	while (!end.passed() || sent - before < in_flight(length)) {
		int err = send(length);

		if (!err)
			err = wait(in_flight(length) - 1, deadline::never());
		if (err)
			return err;
	}
	if (const int err = wait(0, deadline::never()))
		return err;
	return print("bandwidth", length, sent - before, now_ns() - begin, 0, 0);
}

int measure(node &n, u32 slot, const measure_options &opt, bool *answered)
{
	run r(n, slot);
	int err = r.send(1);

	if (!err)
		err = r.wait(0, deadline::in_ms(first_answer_ms));
	*answered = !err;
	for (const u64 size : latency_sizes)
		err = err ? err : r.latency(size, opt.each_ms);
	for (const u64 size : bandwidth_sizes)
		err = err ? err : size <= opt.largest ? r.bandwidth(size, opt.each_ms) : 0;
	return err;
}

} // namespace usdma::net
