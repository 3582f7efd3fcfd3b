/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring or a status block at one host address, though the client mapped it in pieces: a guest behind a virtual
 * IOMMU maps scattered single pages. Separate parts are mapped a second time, side by side.
 */
#pragma once

#include "driver/sim/dma_space.h"

#include <vector>

namespace usdma::sim {

/* Used by its engine only. */
class contiguous {
public:
	contiguous() = default;
	~contiguous() { drop(); }
	contiguous(const contiguous &) = delete;
	contiguous &operator=(const contiguous &) = delete;

	/* Reserves the list of one part, the common case, for which resolve() then allocates nothing. -ENOMEM. */
	int prepare();
	/*
	 * In a pass: looks up the range again. False: not all of it is mapped with these rights, by a file or as memory
	 * of this process, a part is dead, or the parts cannot be mapped side by side; then nothing is retained.
	 */
	bool resolve(const dma_space &space, u64 iova, u64 size, u32 rights);
	u8 *data() const { return data_; }
	void drop();

private:
	/* A contiguous part; the serial number distinguishes mappings that reused an address. */
	struct part {
		u8 *host;
		u64 size, serial;
		bool operator==(const part &) const = default;
	};

	bool find_parts(const dma_space &space, u64 iova, u64 size, u32 rights);
	bool map_alias(u64 size);
	void unmap_alias();

	std::vector<part> found_, alias_parts_; /* alias_parts_: the parts that alias_ maps */
	guarded alias_;                         /* size 0: there is none */
	u8 *data_ = nullptr;
};

} // namespace usdma::sim
