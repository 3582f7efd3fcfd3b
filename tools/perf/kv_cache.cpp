/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Swaps requests of an LLM's key/value cache between host and device, as
 * inference engines do: both sides have a pool of blocks for each layer's keys
 * and values, a request's blocks are scattered, and each block of each layer is
 * a separate copy.
 */
#include "tools/perf/api.h"
#include "tools/perf/clock.h"
#include "tools/perf/cpu_use.h"
#include "tools/perf/kv_layout.h"
#include "tools/perf/options.h"
#include "tools/perf/report.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <cstring>
#include <fmt/core.h>
#include <random>

namespace usdma::perf {

namespace {

struct pools {
	pools(usdma_device *d, const kv_layout &l)
	{
		void *h, *v;

		must(usdma_host_alloc(d, l.total(), &h), "host pool (reduce --tokens)");
		host = static_cast<u8 *>(h);
		must(usdma_device_alloc(d, l.total(), &v), "device pool (reduce --tokens)");
		device = static_cast<u8 *>(v);
	}
	~pools()
	{
		usdma_host_free(host);
		usdma_device_free(device);
	}
	pools(const pools &) = delete;

	u8 *host = nullptr, *device = nullptr;
};

struct request {
	std::vector<unsigned> on_host, on_device;
};

template <class Api> typename Api::batch batch_of(const kv_layout &l, const pools &p, const request &r, copy_kind kind)
{
	typename Api::batch b;

	for (unsigned layer = 0; layer < l.layers; layer++)
		for (unsigned part = 0; part < 2; part++)
			for (unsigned i = 0; i < l.blocks; i++) {
				u8 *h = p.host + l.at(layer, part, r.on_host[i]),
				   *d = p.device + l.at(layer, part, r.on_device[i]);

				b.add(kind == copy_kind::h2d ? d : h, kind == copy_kind::h2d ? h : d, l.block, kind);
			}
	return b;
}

struct swap_result {
	std::vector<double> ns, cpu_ns, call_ns;
};

/* Copies a request by one call a block, or by one batch call. */
template <class Api>
void swap_one(Api &a, typename Api::stream s, const kv_layout &l, const pools &p, const request &r, copy_kind kind,
	      bool batched, swap_result &out)
{
	auto b = batch_of<Api>(l, p, r, kind);
	const u64 cpu = thread_cpu_ns(), start = now_ns();
	int err = 0;

	if (batched) {
		err = a.many(s, b);
	} else {
		for (unsigned layer = 0; layer < l.layers; layer++)
			for (unsigned part = 0; part < 2; part++)
				for (unsigned i = 0; i < l.blocks && !err; i++) {
					u8 *h = p.host + l.at(layer, part, r.on_host[i]),
					   *d = p.device + l.at(layer, part, r.on_device[i]);

					err = kind == copy_kind::h2d ? a.copy(s, d, h, l.block, kind) :
								       a.copy(s, h, d, l.block, kind);
				}
	}
	const u64 submitted = now_ns();
	must(err, "swap");
	must(a.sync(s), "wait for a swap");
	out.ns.push_back(double(now_ns() - start));
	out.call_ns.push_back(double(submitted - start));
	out.cpu_ns.push_back(double(thread_cpu_ns() - cpu));
}

void check_blocks(usdma_device *dev, const kv_layout &l, const pools &p, const request &r)
{
	std::vector<u8> back(l.block);

	for (unsigned layer = 0; layer < l.layers; layer++)
		for (unsigned part = 0; part < 2; part++)
			for (unsigned i = 0; i < l.blocks; i++) {
				must(usdma_copy_sync(dev, back.data(), p.device + l.at(layer, part, r.on_device[i]),
						     l.block, -1),
				     "reading back");
				if (memcmp(back.data(), p.host + l.at(layer, part, r.on_host[i]), l.block))
					throw std::runtime_error(fmt::format(
						"layer {}, block {} differs between host and device", layer, i));
			}
}

struct line {
	const char *what, *how;
	double ms, tokens, gbps, call_ms, cpu;
};

template <class Api> std::vector<line> run(Api &a, usdma_device *dev, const options &o, const kv_layout &l)
{
	std::mt19937_64 gen(std::random_device{}());
	const pools p(dev, l);
	std::vector<line> out;
	const auto s = a.open(o.waits[0]);

	for (size_t i = 0; i + sizeof(u64) <= l.total(); i += sizeof(u64)) {
		const u64 v = gen();

		memcpy(p.host + i, &v, sizeof(v));
	}
	must(usdma_copy_sync(dev, p.device, p.host, l.total(), -1), "filling the device's pool");
	for (bool batched : {false, true})
		for (copy_kind kind : {copy_kind::h2d, copy_kind::d2h}) {
			swap_result got;
			request r;

			for (unsigned i = 0; i <= o.kv.requests && !stopped(); i++) {
				progress(o, fmt::format("{} {}", kind == copy_kind::h2d ? "swap in" : "swap out", i));
				r = {random_table(l, gen), random_table(l, gen)};
				swap_one(a, s, l, p, r, kind, batched, got);
				if (!i)
					got = {}; /* warm-up */
			}
			if (got.ns.empty())
				continue; /* interrupted */
			check_blocks(dev, l, p, r);
			const double ns = median(got.ns);
			out.push_back({kind == copy_kind::h2d ? "swap in" : "swap out",
				       batched ? "one batch call" : "a call a block", ns / 1e6,
				       double(o.kv.tokens) / ns * 1e9, double(l.request_bytes()) / ns,
				       median(got.call_ns) / 1e6, median(got.cpu_ns) / ns * 100});
		}
	progress(o, "");
	a.close(s);
	return out;
}

void print_lines(const std::vector<line> &all)
{
	say(fmt::format("{:9} {:15} {:>12} {:>12} {:>8} {:>9} {:>7}\n", "", "", "ms a request", "tokens/s", "GB/s",
			"ms calls", "CPU %"));
	for (const line &r : all)
		say(fmt::format("{:9} {:15} {:12.2f} {:12.0f} {:8.2f} {:9.2f} {:7.0f}\n", r.what, r.how, r.ms, r.tokens,
				r.gbps, r.call_ms, r.cpu));
}

nlohmann::json json_of(const std::vector<line> &all)
{
	nlohmann::json out = nlohmann::json::array();

	for (const line &r : all)
		out.push_back({{"way", r.what},
			       {"calls", r.how},
			       {"ms_per_request", r.ms},
			       {"tokens_per_s", r.tokens},
			       {"gbps", r.gbps},
			       {"ms_in_calls", r.call_ms},
			       {"client_cpu_percent", r.cpu}});
	return out;
}

} // namespace

int run_kv_cache(const options &o, const machine &m)
{
	const kv_layout l = layout_of(o.kv);
	const bool table = o.json != "-";
	std::vector<line> all;

	if (table) {
		say(describe(m));
		say(fmt::format(
			"kv-cache {}: {} layers, blocks of {} tokens and {} bytes; a request of {} tokens\n         "
			"is {} copies, {} MiB; "
			"last request of each row compared\n\n",
			o.kv.model, l.layers, o.kv.block_tokens, l.block, o.kv.tokens, l.copies(),
			l.request_bytes() >> 20));
	}
	bench_device dev(0, 4 * MiB);
	pin(m.client);
#if USDMA_PERF_ACL
	if (o.through == api::acl) {
		acl_api a(0);

		all = run(a, dev.dev, o, l);
	} else
#endif
	{
		native_api a(dev.dev);

		all = run(a, dev.dev, o, l);
	}
	if (table)
		print_lines(all);
	write_json(o.json, {{"machine", to_json(m)}, {"interrupted", stopped()}, {"kv_cache", json_of(all)}});
	return 0;
}

} // namespace usdma::perf
