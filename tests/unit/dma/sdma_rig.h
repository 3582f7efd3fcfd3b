/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of the sdma driver: an engine and a channel on a device that the test controls. */
#pragma once

#include "tests/support/test.h"

#include "driver/dma/registry.h"
#include "driver/engines/sdma/sdma.h"
#include "tests/unit/dma/fake_sdma.h"

#include <memory>

namespace usdma::test {

/* First sequence numbers of a ring; some of them wrap. */
inline constexpr u64 starts[] = {0, 5, (u64(1) << 32) - 3, (u64(1) << 32) - 17, (u64(1) << 63) - 5, ~u64(0) - 200};

inline std::unique_ptr<dma::engine> open_engine(fake_sdma &f)
{
	std::unique_ptr<dma::engine> eng;

	assert_int_equal(dma::probe(std::make_unique<fake_device>(f), &eng), 0);
	return eng;
}

inline dma::channel *open_channel(dma::engine &eng, u32 ring_size, u64 first_seq = 0, unsigned index = 0)
{
	dma::channel_config cfg;
	dma::channel *ch = nullptr;

	cfg.ring_size = ring_size;
	cfg.first_seq = first_seq;
	assert_int_equal(eng.channel_open(index, cfg, &ch), 0);
	assert_non_null(ch);
	return ch;
}

inline dma::request numbered(u64 cookie, u8 flags = 0)
{
	dma::request r;

	r.op = dma::opcode::copy;
	r.flags = flags;
	r.src = cookie + 1;
	r.dst = cookie + 2;
	r.len = 64;
	r.cookie = cookie;
	return r;
}

} // namespace usdma::test
