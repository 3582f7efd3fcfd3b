/* SPDX-License-Identifier: BSD-3-Clause */
/* A device in front of another, whose answers a test changes; none of its regions can be mapped. */
#pragma once

#include "tests/support/test.h"

#include "driver/base/error.h"
#include "driver/dma/registry.h"

#include <memory>
#include <pthread.h>

namespace usdma::test {

class forwarding_device : public vfio::device {
public:
	explicit forwarding_device(std::unique_ptr<vfio::device> below) : dev_(std::move(below)) {}
	explicit forwarding_device(const char *spec) { assert_int_equal(dma::open_device(spec, &dev_), 0); }
	int region(unsigned i, vfio::region_info *out) override { return dev_->region(i, out); }
	int region_map(unsigned, u64, u64, mapping *) override { return -EOPNOTSUPP; }
	int region_read(unsigned i, u64 at, void *buf, size_t len) override
	{
		return dev_->region_read(i, at, buf, len);
	}
	int region_write(unsigned i, u64 at, const void *buf, size_t len) override
	{
		return dev_->region_write(i, at, buf, len);
	}
	int region_fd(unsigned, u64 *) override { return -1; }
	int region_doorbell_fd(unsigned, u64) override { return -1; }
	int irq(unsigned i, vfio::irq_info *out) override { return dev_->irq(i, out); }
	int irq_set(unsigned i, unsigned n, std::span<const int> fds) override { return dev_->irq_set(i, n, fds); }
	int limits(vfio::address_limits *out) override { return dev_->limits(out); }
	int dma_map(const vfio::dma_area &area) override
	{
		last_map = area;
		return dev_->dma_map(area);
	}
	int dma_unmap(u64 iova, u64 size) override { return dev_->dma_unmap(iova, size); }
	int reset() override { return dev_->reset(); }
	bool lost() const override { return dev_->lost(); }
	int lost_fd() const override { return dev_->lost_fd(); }
	int numa_node() const override { return dev_->numa_node(); }
	const char *name() const override { return dev_->name(); }
	const char *backend() const override { return dev_->backend(); }
	bool own_connection() const override { return is_own; }
	int inject(std::string_view rules) override { return dev_->inject(rules); }
	int injected(std::string *out) override { return dev_->injected(out); }

	bool is_own = true;
	vfio::dma_area last_map;

protected:
	std::unique_ptr<vfio::device> dev_;
};

/* One call by this thread fails: the n-th. At its end the device goes back to the test. */
class failing_device final : public forwarding_device {
public:
	failing_device(std::unique_ptr<vfio::device> below, std::unique_ptr<vfio::device> *to, unsigned *left)
		: forwarding_device(std::move(below)), to_(to), left_(left)
	{
	}
	~failing_device() override { *to_ = std::move(dev_); }
	int region(unsigned i, vfio::region_info *out) override
	{
		return fails() ? -EIO : forwarding_device::region(i, out);
	}
	int region_read(unsigned i, u64 at, void *buf, size_t len) override
	{
		return fails() ? -EIO : forwarding_device::region_read(i, at, buf, len);
	}
	int region_write(unsigned i, u64 at, const void *buf, size_t len) override
	{
		return fails() ? -EIO : forwarding_device::region_write(i, at, buf, len);
	}
	int irq(unsigned i, vfio::irq_info *out) override { return fails() ? -EIO : forwarding_device::irq(i, out); }
	int irq_set(unsigned i, unsigned n, std::span<const int> fds) override
	{
		return fails() ? -EIO : forwarding_device::irq_set(i, n, fds);
	}
	int limits(vfio::address_limits *out) override { return fails() ? -EIO : forwarding_device::limits(out); }
	int dma_map(const vfio::dma_area &area) override { return fails() ? -EIO : forwarding_device::dma_map(area); }
	int reset() override { return fails() ? -EIO : forwarding_device::reset(); }

private:
	bool fails() const
	{
		return pthread_equal(pthread_self(), thread_) && *left_ && !--*left_ && fail(EIO, "as the test says");
	}
	std::unique_ptr<vfio::device> *to_;
	unsigned *left_;
	const pthread_t thread_ = pthread_self();
};

} // namespace usdma::test
