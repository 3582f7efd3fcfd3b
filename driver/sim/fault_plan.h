/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fault injection: rules as text, joined by "+".
 *
 *   fail@N[/REASON]   the N-th descriptor from now fails (REASON: of dma::fault_reason, with -; default injected)
 *   hang@N[/UNTIL]    the N-th descriptor's channel hangs until it is reset (UNTIL: channel, the default),
 *                     until the device is reset (device), or for ever (for-good)
 *   slow@N/US         the N-th descriptor takes at least US microseconds
 *   vanish@N          the device closes the connection to its client at the N-th descriptor
 *   die@N             the process is killed (SIGKILL) at the N-th descriptor; usdma-sim only
 *   drop-record@N     the N-th write of a completion record is skipped; a later one covers it
 *   drop-irq@N        the N-th interrupt is not raised
 *   wrong@N/WHAT      a mistake, of the N-th event of its kind: length, early, completion, error, vector (faults.h);
 *                     all models but sdma's
 *   refuse-map@N      the N-th DMA_MAP is refused
 *   reply@N/HOW       the N-th reply to the client: drop, close, short, long, wrong-id, garbage
 *
 * %N instead of @N: every N-th.  ~P: with a probability of P in a million.
 */
#pragma once

#include "driver/sim/faults.h"

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace usdma::sim {

/*
 * Memory shared by two processes: the rules of one, which the other applies, and their counts. The first reads
 * only numbers from it.
 */
struct fault_page {
	static constexpr size_t most_rules = 64, most_text = 4096;
	struct counts {
		u64 seen, struck;
	};

	u32 version; /* even; odd while the text changes. version / 2 % 2 selects the valid counts */
	u32 size;
	char text[most_text];
	counts of[2][most_rules];
	u64 random;
};

class fault_plan final : public faults {
public:
	/* In usdma-sim a plan may kill the process; embedded it may not. */
	explicit fault_plan(bool may_die) : may_die_(may_die) {}
	/* The device's model makes mistakes; unless this is called, as if it did. Before set(). */
	void makes_mistakes(bool on) { makes_mistakes_ = on; }

	/* Replaces all rules and resets the counts; "": none. -EINVAL names the rule; then nothing changes. */
	int set(std::string_view text);
	/* A new client: active faults end; anew: the rules count from their beginning. */
	void new_client(bool anew);
	/* A line for each rule: "RULE seen N struck M". */
	std::string report();
	/* A rule may kill the process. */
	bool has_die();
	/* The rules set here are applied in another process, which counts there. */
	void publish(fault_page *b);
	/* Called in that other process: applies the published rules. */
	void follow(fault_page *b);

	dma::fault_reason descriptor(u32 channel, u64 seq, u64 dst, u64 *address) override;
	bool hang(u32 channel, u64 seq) override;
	bool vanish(u32 channel, u64 seq) override;
	void channel_off(u32 channel) override;
	void device_reset() override;
	u64 delay_ns(u32 channel, u64 seq) override;
	bool drop_interrupt(u32 vector) override;
	bool drop_record(u32 channel, u64 completed) override;
	bool wrong(mistake what) override;
	int refuse_map(u64 iova, u64 size) override;
	reply_fault reply() override;

private:
	enum class action : u8 { fail, hang, slow, die, vanish, drop_record, drop_irq, wrong, refuse_map, reply };
	enum class until : u8 { channel, device, for_good, count };
	enum class when : u8 { once, every, chance };
	struct rule {
		action what;
		when how;
		u64 n;
		u64 arg; /* reason, microseconds, mistake, reply_fault, until */
		std::string text;
		u64 seen = 0, struck = 0;
		bool holds = false; /* hang: active, on `channel` */
		u32 channel = 0;
	};

	int parse(std::string_view text, std::vector<rule> *out) const;
	int take(std::string_view text);
	void show(std::string_view text);
	void refresh();
	fault_page::counts *counts_of(const rule &r);
	void note(const rule &r);
	static int parse_rule(std::string_view text, rule *out);
	static int parse_argument(std::string_view text, rule *out);
	static constexpr u64 any_arg = ~u64(0);
	bool turn(rule &r);
	rule *hit(action what, u64 arg = any_arg);

	const bool may_die_;
	bool makes_mistakes_ = true;
	std::mutex lock_;
	std::vector<rule> rules_;
	fault_page *page_ = nullptr;
	bool follows_ = false;
	u32 version_ = 0;       /* of the page's text that rules_ holds; a private copy */
	bool vanished_ = false; /* nothing runs any more */
	u64 random_ = 0x9e3779b97f4a7c15;
};

} // namespace usdma::sim
#pragma GCC visibility pop
