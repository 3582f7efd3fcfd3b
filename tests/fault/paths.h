/* SPDX-License-Identifier: BSD-3-Clause */
/* The copy paths of the fault table: each copies from the host to the device and back. */
#pragma once

#include "lib/core/copy/copy.h"

#include <vector>

namespace usdma::test {

inline constexpr u64 path_size = 256 * KiB;

/* What a path works with. */
struct setting {
	core::device *dev = nullptr, *peer = nullptr;
	core::stream *s = nullptr;
	core::wait_mode mode = core::wait_mode::hybrid;
	u8 *in = nullptr, *out = nullptr;
	std::vector<u8> pageable;
	u64 d = 0, d2 = 0, desc = 0;
	u64 p = 0; /* memory of the peer, which has no faults */
};

/* The devices are slots of USDMA_DEVICES. */
void set_up(setting *t, unsigned slot, unsigned peer, core::wait_mode mode);
void tear_down(setting *t);
/* True: out equals in. */
bool is_whole(const setting *t);

struct path {
	const char *name;
	/* Moves in → device → out; the first error. */
	int (*run)(setting *t);
	/* The caller's memory is mapped for the device. */
	bool maps;
};
inline constexpr unsigned path_count = 5;
extern const path paths[path_count];

/* Runs the path with a new stream and, if it maps memory, new memory. */
int run_anew(setting *t, const path &p);

} // namespace usdma::test
