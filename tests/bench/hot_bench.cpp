/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of the driver's hot functions for one thread: posting requests to a ring that
 * no engine reads, ringing the doorbell, arming, and finding the range of an address among
 * one and among many.  Prints nanoseconds per operation; checks nothing.
 */
#include "driver/base/clock.h"
#include "driver/base/range_map.h"
#include "driver/dma/registry.h"
#include "tests/unit/dma/fake_sdma.h"

#include <cstdio>
#include <memory>
#include <random>

using namespace usdma;

static constexpr unsigned rounds = 4000;

template <class F> static void report(const char *what, u64 ops, F run)
{
	u64 best = ~u64(0);

	for (int i = 0; i < 5; i++) {
		const u64 start = now_ns();

		run();
		best = std::min(best, now_ns() - start);
	}
	printf("%-40s %7.2f ns\n", what, double(best) / double(ops));
}

static void bench_ring()
{
	test::fake_sdma f;
	std::unique_ptr<dma::engine> eng;
	dma::channel_config cfg;
	dma::channel *ch;
	dma::request r[256];

	cfg.ring_size = 1024;
	if (dma::probe(std::make_unique<test::fake_device>(f), &eng) < 0 || eng->channel_open(0, cfg, &ch) < 0) {
		fprintf(stderr, "%s\n", error_text());
		return;
	}
	dma::completion_record *record = f.record();
	auto post_all = [&](unsigned step, bool ring_doorbell) {
		for (unsigned i = 0; i < rounds; i++) {
			for (unsigned k = 0; k < 256; k += step) {
				ch->ops->post(ch, &r[k], step);
				if (ring_doorbell)
					ch->ops->doorbell(ch);
			}
			record->completed = ch->posted;
		}
	};
	report("post, 256 at a time, per request", rounds * 256, [&] { post_all(256, false); });
	report("post, 1 at a time", rounds * 256, [&] { post_all(1, false); });
	report("post 1 and doorbell", rounds * 256, [&] { post_all(1, true); });
	report("arm", rounds * 256, [&] {
		for (u64 i = 0; i < rounds * 256; i++)
			ch->ops->arm(ch, dma::irq_waiter, i);
	});
	ch->ops->close(ch);
}

static void bench_find(size_t n)
{
	constexpr u64 base = 0x100000000000, step = 16 * KiB;
	std::unique_ptr<range_entry[]> e(new range_entry[n]);
	std::mt19937_64 gen(1);
	std::unique_ptr<u64[]> addr(new u64[4096]);
	range_map m;
	char what[64];
	u64 b, size, found = 0;

	for (size_t i = 0; i < n; i++) {
		e[i].base = base + i * step;
		e[i].size = step;
		if (m.insert(&e[i]) < 0)
			return;
	}
	for (size_t i = 0; i < 4096; i++)
		addr[i] = base + gen() % (n * step);
	snprintf(what, sizeof(what), "find among %zu, in one of them", n);
	report(what, rounds * 256, [&] {
		for (unsigned i = 0; i < rounds * 256; i++)
			found += m.find(addr[0] + (i & 4095), &b, &size) != nullptr;
	});
	snprintf(what, sizeof(what), "find among %zu, anywhere", n);
	report(what, rounds * 256, [&] {
		for (unsigned i = 0; i < rounds * 256; i++)
			found += m.find(addr[i & 4095], &b, &size) != nullptr;
	});
	if (!found)
		printf("nothing found\n");
}

int main()
{
	bench_ring();
	bench_find(1);
	bench_find(1000);
	bench_find(100000);
}
