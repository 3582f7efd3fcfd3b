/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A BAR that a driver maps, and whose registers act on each load and store, as those of a device do: each is an access
 * to the model's register. So a driver runs by its stores, with all that it acknowledges and polls (mapped_device.h has
 * memory, which knows doorbells only).
 *
 * The driver's sources are compiled once more, in a namespace of their own and with these accesses:
 *
 *	#include "tests/unit/dma/acting_bar.h"
 *	#define NAME acting_NAME
 *	#include "driver/engines/NAME/channel.cpp"
 *	#include "driver/engines/NAME/engine.cpp"
 *
 * and kind.probe is probe_acting<acting_NAME::driver, REGION>. Without RTTI, as the library is compiled.
 */
#pragma once

#include "tests/unit/dma/ring_cases.h"

#include "driver/base/mmio.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace usdma::test {

class acting_bar final : public forwarding_device {
public:
	acting_bar(std::unique_ptr<vfio::device> below, unsigned i) : forwarding_device(std::move(below)), region_(i) {}
	~acting_bar() override
	{
		const std::lock_guard holding(lock());

		std::erase(all(), this);
	}
	int region(unsigned i, vfio::region_info *out) override
	{
		const int err = dev_->region(i, out);

		if (i == region_)
			out->flags |= vfio::region_mappable;
		return err;
	}
	/* Addresses that nothing else has; a load or store that passes by the functions below is killed. */
	int region_map(unsigned i, u64, u64 size, mapping *out) override
	{
		void *const at = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		assert_int_equal(i, region_);
		assert_ptr_not_equal(at, MAP_FAILED);
		*out = mapping(at, size);
		base_ = reinterpret_cast<uintptr_t>(at);
		size_ = size;
		const std::lock_guard holding(lock());
		all().push_back(this);
		return 0;
	}

	static acting_bar *at(uintptr_t reg)
	{
		const std::lock_guard holding(lock());
		const auto found = std::find_if(all().begin(), all().end(),
						[reg](const acting_bar *b) { return reg - b->base_ < b->size_; });

		assert_true(found != all().end());
		return *found;
	}
	template <class T> static T load(const volatile void *reg)
	{
		const auto to = reinterpret_cast<uintptr_t>(reg);
		acting_bar *const b = at(to);
		T value;

		return b->region_read(b->region_, to - b->base_, &value, sizeof(value)) < 0 ? T(~T(0)) : value;
	}
	/* A store to a device that has left does nothing. */
	template <class T> static void store(volatile void *reg, T value)
	{
		const auto to = reinterpret_cast<uintptr_t>(reg);
		acting_bar *const b = at(to);

		b->region_write(b->region_, to - b->base_, &value, sizeof(value));
	}

private:
	static std::mutex &lock()
	{
		static std::mutex m;

		return m;
	}
	static std::vector<acting_bar *> &all()
	{
		static std::vector<acting_bar *> v;

		return v;
	}

	const unsigned region_;
	uintptr_t base_ = 0;
	u64 size_ = 0;
};

template <const dma::driver &driver, unsigned region>
int probe_acting(std::unique_ptr<vfio::device> dev, std::unique_ptr<dma::engine> *out)
{
	std::unique_ptr<vfio::device> own = std::make_unique<acting_bar>(std::move(dev), region);

	return driver.probe(own, out);
}

} // namespace usdma::test

/* cmocka's: drivers have functions of that name. */
#undef skip
#define mmio_read32 usdma::test::acting_bar::load<u32>
#define mmio_write16 usdma::test::acting_bar::store<u16>
#define mmio_write32 usdma::test::acting_bar::store<u32>
