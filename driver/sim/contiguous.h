/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring or a status block at one address, though the client mapped it in pieces: a
 * guest behind a virtual IOMMU has it in single pages from anywhere.  What lies in
 * several places is mapped a second time, side by side.
 */
#pragma once

#include "driver/sim/dma_space.h"

#include <vector>

namespace usdma::sim {

/* Its engine's own. */
class contiguous {
public:
	contiguous() = default;
	~contiguous() { drop(); }
	contiguous(const contiguous &) = delete;
	contiguous &operator=(const contiguous &) = delete;

	/* Room for what most consist of, one part: settling those takes no memory.  -ENOMEM. */
	int prepare();
	/*
	 * In a pass: looks the range up anew.  False: not all of it is mapped with these rights, has a file (or
	 * belongs to this process), lives, and can be mapped side by side; then nothing of it is kept.
	 */
	bool resolve(const dma_space &space, u64 iova, u64 size, u32 rights);
	u8 *data() const { return data_; }
	void drop();

private:
	/* Where one run of it lies; the serial number tells two that followed each other at one address. */
	struct part {
		u8 *host;
		u64 size, serial;
		bool operator==(const part &) const = default;
	};

	bool look_up(const dma_space &space, u64 iova, u64 size, u32 rights);
	bool put_together(u64 size);
	void take_down();

	std::vector<part> found_, made_of_; /* made_of_: what alias_ shows */
	guarded alias_;                     /* size 0: there is none */
	u8 *data_ = nullptr;
};

} // namespace usdma::sim
