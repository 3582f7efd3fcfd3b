/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the keys and values of an LLM's requests are: blocks of some tokens, in a pool for each layer and part. */
#pragma once

#include "tools/perf/options.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace usdma::perf {

struct kv_model {
	const char *name;
	unsigned layers, heads, head_size;
};
/* Grouped-query models of 8 and 70 billion parameters. */
inline constexpr kv_model kv_models[] = {{"8b", 32, 8, 128}, {"70b", 80, 8, 128}};

struct kv_layout {
	unsigned layers;
	size_t block;    /* bytes: keys or values of some tokens in one layer */
	unsigned blocks; /* of one request */
	unsigned pool;   /* blocks in each pool */
	size_t pool_bytes() const { return size_t(pool) * block; }
	size_t total() const { return 2 * layers * pool_bytes(); }
	/* part: 0 keys, 1 values */
	size_t at(unsigned layer, unsigned part, unsigned b) const
	{
		return (2 * layer + part) * pool_bytes() + b * block;
	}
	size_t copies() const { return size_t(2) * layers * blocks; }
	size_t request_bytes() const { return copies() * block; }
};

inline kv_layout layout_of(const kv_shape &s)
{
	const kv_model &m = s.model == "70b" ? kv_models[1] : kv_models[0];
	kv_layout l;

	l.layers = s.layers ? s.layers : m.layers;
	l.block = size_t(s.block_tokens) * (s.heads ? s.heads : m.heads) * (s.head_size ? s.head_size : m.head_size) *
		  s.element;
	l.blocks = (s.tokens + s.block_tokens - 1) / s.block_tokens;
	l.pool = 2 * l.blocks;
	return l;
}

/* Random pool blocks for the blocks of a request. */
inline std::vector<unsigned> random_table(const kv_layout &l, std::mt19937_64 &gen)
{
	std::vector<unsigned> all(l.pool);

	std::iota(all.begin(), all.end(), 0);
	std::shuffle(all.begin(), all.end(), gen);
	all.resize(l.blocks);
	return all;
}

} // namespace usdma::perf
