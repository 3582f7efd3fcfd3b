/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/usdmactl/trace.h"

#include "driver/base/error.h"
#include "driver/base/mmio.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace usdma::ctl::trial {

void trace::add(bool is_write, unsigned region, u64 offset, const void *value, size_t len)
{
	register_access a = {is_write, u8(region), u8(len), 1, offset, 0};

	memcpy(&a.value, value, std::min(len, sizeof(a.value)));
	std::lock_guard guard(lock_);

	total_++;
	if (!list_.empty() && !is_write) {
		register_access &last = list_.back();

		a.count = last.count;
		if (a == last) {
			last.count++;
			return;
		}
		a.count = 1;
	}
	if (list_.size() < most_)
		list_.push_back(a);
}

std::vector<register_access> trace::take(u64 *total)
{
	std::lock_guard guard(lock_);

	*total = total_;
	total_ = 0;
	return std::exchange(list_, {});
}

namespace {

class traced_device final : public vfio::device {
public:
	traced_device(std::unique_ptr<vfio::device> dev, u32 regions, trace *t)
		: dev_(std::move(dev)), regions_(regions), trace_(t)
	{
		map_registers();
	}

	int region(unsigned index, vfio::region_info *out) override
	{
		const int err = dev_->region(index, out);

		if (is_traced(index)) {
			out->flags &= ~u32(vfio::region_mappable);
			out->mappable.clear();
		}
		return err;
	}
	int region_map(unsigned index, u64 offset, u64 size, mapping *out) override
	{
		return is_traced(index) ?
			       fail(EOPNOTSUPP, "region %u is not mapped: its accesses are recorded", index) :
			       dev_->region_map(index, offset, size, out);
	}
	int region_read(unsigned index, u64 offset, void *buf, size_t len) override
	{
		const int err = read(index, offset, buf, len);

		if (!err && is_traced(index) && len <= sizeof(u64))
			trace_->add(false, index, offset, buf, len);
		return err;
	}
	int region_write(unsigned index, u64 offset, const void *buf, size_t len) override
	{
		/* Before it has effects, which other threads may record. */
		if (is_traced(index) && len <= sizeof(u64))
			trace_->add(true, index, offset, buf, len);
		return write(index, offset, buf, len);
	}
	int region_fd(unsigned index, u64 *fd_offset) override
	{
		return is_traced(index) ? -1 : dev_->region_fd(index, fd_offset);
	}
	int region_doorbell_fd(unsigned index, u64 offset) override
	{
		return is_traced(index) ? -1 : dev_->region_doorbell_fd(index, offset);
	}
	bool doorbell_ring(int fd) override { return dev_->doorbell_ring(fd); }

	int irq(unsigned index, vfio::irq_info *out) override { return dev_->irq(index, out); }
	int irq_set(unsigned index, unsigned first, std::span<const int> fds) override
	{
		std::vector<int> own;
		const int err = trace_->interrupts.replace(index, first, fds, &own);

		return err ? err : dev_->irq_set(index, first, own);
	}
	int limits(vfio::address_limits *out) override { return dev_->limits(out); }
	int dma_map(const vfio::dma_area &area) override { return dev_->dma_map(area); }
	int dma_unmap(u64 iova, u64 size) override { return dev_->dma_unmap(iova, size); }
	int reset() override { return dev_->reset(); }
	void set_deadline(u64 ms) override { dev_->set_deadline(ms); }
	bool lost() const override { return dev_->lost(); }
	bool is_leaving() const override { return dev_->is_leaving(); }
	int answers() override { return dev_->answers(); }
	int lost_fd() const override { return dev_->lost_fd(); }
	int quiesce() override { return dev_->quiesce(); }
	const char *name() const override { return dev_->name(); }
	const char *backend() const override { return dev_->backend(); }
	int numa_node() const override { return dev_->numa_node(); }
	bool retains_files() const override { return dev_->retains_files(); }
	bool own_connection() const override { return dev_->own_connection(); }
	int inject(std::string_view rules) override { return dev_->inject(rules); }
	int injected(std::string *out) override { return dev_->injected(out); }

private:
	bool is_traced(unsigned index) const { return index < 32 && regions_ >> index & 1; }
	void map_registers();
	u8 *whole_word(unsigned index, u64 offset, size_t len) const;
	int read(unsigned index, u64 offset, void *buf, size_t len);
	int write(unsigned index, u64 offset, const void *buf, size_t len);

	std::unique_ptr<vfio::device> dev_;
	std::array<mapping, vfio::region_bar4 + 2> maps_; /* of BARs, for whole_word() */
	const u32 regions_;                               /* a bit for each that is traced */
	trace *const trace_;
};

/* What cannot be mapped as a whole is accessed by calls. */
void traced_device::map_registers()
{
	for (unsigned i = 0; i < maps_.size(); i++) {
		vfio::region_info bar;

		if (is_traced(i) && !dev_->region(i, &bar) && bar.flags & vfio::region_mappable)
			dev_->region_map(i, 0, bar.size, &maps_[i]);
	}
}

/* Where eight bytes are accessed at once, as the driver would: the kernel's calls split them into two accesses. */
u8 *traced_device::whole_word(unsigned index, u64 offset, size_t len) const
{
	if (len != sizeof(u64) || offset % len || index >= maps_.size() || dev_->lost() ||
	    !range_within(offset, len, maps_[index].size()))
		return nullptr;
	return maps_[index].data() + offset;
}

int traced_device::read(unsigned index, u64 offset, void *buf, size_t len)
{
	const u8 *const at = whole_word(index, offset, len);

	if (!at)
		return dev_->region_read(index, offset, buf, len);
	const u64 value = mmio_read64(at);
	memcpy(buf, &value, sizeof(value));
	return 0;
}

int traced_device::write(unsigned index, u64 offset, const void *buf, size_t len)
{
	u8 *const at = whole_word(index, offset, len);
	u64 value;

	if (!at)
		return dev_->region_write(index, offset, buf, len);
	memcpy(&value, buf, sizeof(value));
	mmio_write64(at, value);
	return 0;
}

} // namespace

std::unique_ptr<vfio::device> traced(std::unique_ptr<vfio::device> dev, std::span<const dma::named_register> registers,
				     trace *t)
{
	u32 regions = 1u << vfio::region_config;

	for (const dma::named_register &r : registers)
		regions |= 1u << r.region;
	return std::make_unique<traced_device>(std::move(dev), regions, t);
}

} // namespace usdma::ctl::trial
