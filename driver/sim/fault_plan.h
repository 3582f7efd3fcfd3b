/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults on demand, as text: rules joined by "+".
 *
 *   fail@N[/REASON]   the N-th descriptor from now fails (REASON as dma::fault_name says it, with -; default injected)
 *   hang@N[/UNTIL]    the N-th descriptor's channel stands still until it is reset (UNTIL: channel, the default),
 *                     until the device is reset (device), or whatever is reset (for-good)
 *   slow@N/US         the N-th descriptor takes so many microseconds at least
 *   vanish@N          the device leaves its client (closes the connection) at the N-th descriptor
 *   die@N             the process is killed (SIGKILL) when it comes to the N-th descriptor; usdma-sim only
 *   drop-record@N     the N-th write of a completion record does not happen; a later one tells of it
 *   drop-irq@N        the N-th interrupt is not raised
 *   refuse-map@N      the N-th DMA_MAP is refused
 *   reply@N/HOW       the N-th answer to the client: drop, close, short, long, wrong-id, garbage
 *
 * %N instead of @N: every N-th.  ~P: with a chance of P in a million.
 */
#pragma once

#include "driver/sim/faults.h"

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace usdma::sim {

class fault_plan final : public faults {
public:
	/* In usdma-sim a plan may kill the process; embedded it may not. */
	explicit fault_plan(bool may_die) : may_die_(may_die) {}

	/* Replaces all rules and begins to count anew; "": none. -EINVAL names the rule; then nothing changes. */
	int set(std::string_view text);
	/* A new client: what struck the last one is over; anew: the rules count from their beginning. */
	void new_client(bool anew);
	/* A line for each rule: "RULE seen N struck M". */
	std::string report();

	dma::fault_reason descriptor(u32 channel, u64 seq, const sdma::descriptor &d, u64 *address) override;
	bool hang(u32 channel, u64 seq) override;
	bool vanish(u32 channel, u64 seq) override;
	void channel_off(u32 channel) override;
	void device_reset() override;
	u64 delay_ns(u32 channel, u64 seq) override;
	bool drop_interrupt(u32 vector) override;
	bool drop_record(u32 channel, u64 completed) override;
	int refuse_map(u64 iova, u64 size) override;
	reply_fault reply() override;

private:
	enum class action : u8 { fail, hang, slow, die, vanish, drop_record, drop_irq, refuse_map, reply };
	enum class until : u8 { channel, device, for_good, count };
	enum class when : u8 { once, every, chance };
	struct rule {
		action what;
		when how;
		u64 n;
		u64 arg; /* reason, microseconds, reply_fault, until */
		std::string text;
		u64 seen = 0, struck = 0;
		bool holds = false; /* hang: on … */
		u32 channel = 0;
	};

	int take(std::string_view text);
	static int parse_rule(std::string_view text, rule *out);
	static int parse_argument(std::string_view text, rule *out);
	bool turn(rule &r);
	rule *hit(action what);

	const bool may_die_;
	std::mutex lock_;
	std::vector<rule> rules_;
	bool gone_ = false; /* vanished: nothing runs any more */
	u64 random_ = 0x9e3779b97f4a7c15;
};

} // namespace usdma::sim
