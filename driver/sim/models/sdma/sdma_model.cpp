/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/models/sdma/sdma_model.h"

#include "driver/base/error.h"
#include "driver/base/grow.h"
#include "driver/base/huge_pages.h"
#include "driver/base/log.h"
#include "driver/base/memfd.h"
#include "driver/base/memory_limit.h"
#include "driver/sim/backend.h"
#include "driver/sim/fault_plan.h"
#include "driver/sim/models.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <linux/memfd.h>
#include <new>

namespace usdma::sim {

using namespace sdma;

static constexpr u32 max_vectors = 2048; /* PCI 3.0 §6.8.2.3 */
static const char *const software_device = "the software device";
static constexpr u64 bar4_size = 64 * KiB, pba_offset = 32 * KiB;

static u32 most_areas(const config &cfg)
{
	return std::min(cfg.device ? cfg.device->most_areas() : ~u32(0), dma_bounds().areas);
}

/* The device behind it brings the pages of its mappings into memory. */
static file_bounds files_of(const config &cfg)
{
	file_bounds most;

	most.any_file = cfg.any_file;
	most.populate = cfg.device ? 0 : most.populate;
	return most;
}

sdma_model::sdma_model(const config &cfg, faults *wrong)
	: cfg_(cfg),
	  m_(cfg_, {.areas = most_areas(cfg), .file_bytes = cfg.share, .files = files_of(cfg), .device = cfg.device},
	     std::min(u32(dma::irq_slots) * cfg.channels, max_vectors))
{
	m_.wrong = wrong;
	m_.channels = cfg_.channels;
	m_.mem_size = cfg_.has_mem ? cfg_.mem : 0;
}

sdma_model::~sdma_model()
{
	quiesce();
}

/* Engines first: this ends their operations, and nothing else accesses what is released next. */
void sdma_model::quiesce()
{
	for (auto &u : engines_)
		u->stop();
	for (u32 i = 0; channels_ && i < cfg_.channels; i++)
		channels_[i].forget_memory();
	if (m_.space.unmap_all())
		log_warn_limited("%s", error_text());
	is_accessed_ = m_.device && m_.space.release_retained();
	if (m_.mem_device && !m_.device->unmap(m_.mem_device, mem_->whole.size()))
		m_.mem_device = 0;
	is_accessed_ |= m_.mem_device != 0;
	m_.irqs.clear(0, m_.irqs.count());
	error_.reset();
}

static void keep_private(const mapping &mem)
{
	madvise(mem.data(), mem.size(), MADV_DONTFORK);
	madvise(mem.data(), mem.size(), MADV_DONTDUMP);
}

static int map_file(int fd, u64 offset, u64 size, mapping *out)
{
	void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, off_t(offset));

	if (p == MAP_FAILED)
		return fail_map(size, false, software_device);
	*out = mapping(p, size);
	keep_private(*out);
	return 0;
}

/* mmap reserves huge pages: a shortage fails here, not later by SIGBUS. */
static int make_device_memory(u64 size, huge_pages huge, unique_fd *fd, mapping *out)
{
	const bool reserved = huge == huge_pages::require;
	int err = memfd_make("sdma-memory", size, reserved ? MFD_HUGETLB | MFD_HUGE_2MB : 0, fd);

	if (!err)
		err = memory_before_map(fd->get(), size, software_device);
	if (!err)
		err = map_file_aligned(fd->get(), size, software_device, out);
	if (err && reserved)
		return fail_in(err,
			       "sim: huge=require (huge_pages = require) needs %llu free reserved pages of 2 MiB: "
			       "sudo sysctl vm.nr_hugepages=%llu, less mem, or huge=advise",
			       static_cast<unsigned long long>(size / (2 * MiB)),
			       static_cast<unsigned long long>(size / (2 * MiB) + 64));
	if (err)
		return err;
	keep_private(*out);
	if (!reserved)
		madvise(out->data(), size, huge == huge_pages::off ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	return 0;
}

int sdma_model::make_memory()
{
	const u64 bar2_size = m_.mem_size ? std::bit_ceil(m_.mem_size) : 0;
	int err = memfd_make("sdma-bar0", bar0_size, 0, &bar0_fd_);

	if (!err)
		err = map_file(bar0_fd_.get(), chan_doorbell_base, cfg_.channels * chan_stride, &doorbell_pages_);
	if (!err && bar2_size)
		mem_ = try_shared<shared_mapping>();
	if (!err && bar2_size)
		err = mem_ ? make_device_memory(bar2_size, cfg_.huge, &mem_fd_, &mem_->whole) :
			     no_memory("the device's memory");
	if (err)
		return err;
	if (bar2_size && cfg_.huge == huge_pages::advise)
		m_.collapsed.reset(new (std::nothrow) u64[bar2_size / (64 * page_huge) + 1]());
	m_.doorbell_pages = doorbell_pages_.data();
	m_.mem = mem_ ? mem_->whole.data() : nullptr;
	if (m_.device && m_.mem)
		err = m_.device->map({.size = bar2_size, .vaddr = m_.mem, .fd = mem_fd_.get()}, &m_.mem_device);
	if (err)
		return err;
	if (cfg_.stale && m_.mem_size)
		err = memory_available(m_.mem_size, "the memory of a software device (stale=1)");
	if (err)
		return err;
	if (cfg_.stale && m_.mem)
		memset(m_.mem, stale_byte, m_.mem_size);
	return try_resize(msix_, bar4_size) ? 0 : no_memory("the MSI-X table");
}

int sdma_model::describe_regions()
{
	static constexpr u32 rw = vfio::region_readable | vfio::region_writable;
	const u64 mem_size = mem_ ? mem_->whole.size() : 0;

	pci_.init({.vendor = pci_vendor,
		   .device = pci_device,
		   .class_code = pci_class,
		   .revision = pci_revision,
		   .bar = {{bar0_size, 0}, {}, {mem_size, bar_64 | bar_prefetch}, {}, {bar4_size, 0}, {}},
		   .vectors = m_.irqs.count(),
		   .msix_bar = 4,
		   .msix_table = 0,
		   .msix_pba = pba_offset});
	if (!try_reserve(regions_[vfio::region_bar0].mappable, 1) || !try_reserve(doorbells_, cfg_.channels))
		return no_memory("the list of doorbells");
	/* Only the doorbell pages: other registers act on access, which must be trapped. */
	regions_[vfio::region_bar0].size = bar0_size;
	regions_[vfio::region_bar0].flags = rw | vfio::region_mappable;
	regions_[vfio::region_bar0].fd = bar0_fd_.get();
	push_reserved(regions_[vfio::region_bar0].mappable,
		      vfio::range{chan_doorbell_base, chan_doorbell(cfg_.channels) - 1});
	if (mem_size)
		regions_[vfio::region_bar2] = {mem_size, rw | vfio::region_mappable, mem_fd_.get(), {}};
	regions_[vfio::region_bar4] = {bar4_size, rw, -1, {}};
	regions_[vfio::region_config] = {pci_config::size, rw, -1, {}};
	for (u32 i = 0; i < cfg_.channels; i++)
		push_reserved(doorbells_, doorbell_desc{chan_ctrl(i) + chan_wake, 4, engine_of(i).bell_fd()});
	return 0;
}

int sdma_model::start()
{
	if (const int err = make_memory())
		return err;
	channels_.reset(new (std::nothrow) hw_channel[cfg_.channels]);
	ring_pages_.reset(new (std::nothrow) u8 *[cfg_.channels * ring_pages_max]);
	if (!channels_ || !ring_pages_)
		return fail(ENOMEM, "sim: no memory for %u channels", cfg_.channels);
	for (u32 i = 0; i < cfg_.channels; i++) {
		channels_[i].index = i;
		channels_[i].doorbell = m_.doorbell_pages + i * chan_stride;
		channels_[i].ring_pages = &ring_pages_[i * ring_pages_max];
	}
	if (cfg_.timing == timing_kind::late || cfg_.timing == timing_kind::shuffle) {
		order_ = try_unique<timing>(cfg_);
		if (!order_)
			return no_memory("the order of descriptors");
		order_->set_channels(channels_.get(), cfg_.channels);
		m_.order = order_.get();
	}
	if (!try_reserve(engines_, cfg_.engines))
		return no_memory("the list of engines");
	for (u32 i = 0; i < cfg_.engines; i++) {
		auto u = try_unique<engine>(m_, i);
		if (!u)
			return fail(ENOMEM, "sim: no memory for engine %u", i);
		push_reserved(engines_, std::move(u));
		if (const int err = engines_.back()->ready())
			return err;
	}
	m_.engines = engines_;
	for (auto &u : engines_)
		if (const int err = u->start())
			return err;
	start_values();
	return describe_regions();
}

/* ---- regions ------------------------------------------------------------------------------------- */

int sdma_model::region_read(u32 index, u64 offset, u8 *buf, u32 len)
{
	switch (index) {
	case vfio::region_bar0:
		return read_bar0(offset, buf, len);
	case vfio::region_bar2:
		memcpy(buf, m_.mem + offset, len);
		return 0;
	case vfio::region_bar4:
		memcpy(buf, msix_.data() + offset, len);
		return 0;
	case vfio::region_config:
		pci_.read(u32(offset), buf, len, is_stopping());
		return 0;
	}
	return fail(EINVAL, "sim: region %u cannot be read", index);
}

int sdma_model::region_write(u32 index, u64 offset, const u8 *buf, u32 len)
{
	switch (index) {
	case vfio::region_bar0:
		return write_bar0(offset, buf, len);
	case vfio::region_bar2:
		memcpy(m_.mem + offset, buf, len);
		return 0;
	case vfio::region_bar4:
		memcpy(msix_.data() + offset, buf, len);
		return 0;
	case vfio::region_config:
		if (pci_.write(u32(offset), buf, len) == pci_config::effect::reset)
			return reset();
		/* Without bus mastering or power no channel may reach memory. */
		return pci_.may_reach_memory() ? 0 : all_off();
	}
	return fail(EINVAL, "sim: region %u cannot be written", index);
}

std::span<const doorbell_desc> sdma_model::doorbells(u32 region) const
{
	if (region != vfio::region_bar0)
		return {};
	return doorbells_;
}

/* ---- interrupts, memory, reset ------------------------------------------------------------------- */

/* The error interrupt is never raised, but without its eventfd QEMU offers its guest no error recovery. */
u32 sdma_model::irq_count(u32 index) const
{
	return index == vfio::irq_msix ? m_.irqs.count() : index == vfio::irq_err ? 1 : 0;
}

int sdma_model::irq_set(u32 index, u32 first, std::span<unique_fd> fds)
{
	if (index == vfio::irq_msix)
		m_.irqs.set(first, fds);
	else
		error_ = std::move(fds[0]);
	return 0;
}

int sdma_model::irq_clear(u32 index, u32 first, u32 count)
{
	if (index == vfio::irq_msix)
		m_.irqs.clear(first, count);
	else
		error_.reset();
	return 0;
}

int sdma_model::irq_trigger(u32 index, u32 vector)
{
	if (index != vfio::irq_msix)
		return fail(ENOTSUP, "sim: interrupt type %u is not raised", index);
	return engines_[0]->raise_for(vector);
}

u32 sdma_model::max_areas() const
{
	return most_areas(cfg_);
}

int sdma_model::dma_map(u64 iova, u64 size, u32 prot, unique_fd fd, u64 offset)
{
	if (m_.wrong)
		if (const int err = m_.wrong->refuse_map(iova, size))
			return fail(err, "sim: DMA_MAP refused by an injected fault");
	return m_.space.map(iova, size, prot, std::move(fd), offset);
}

int sdma_model::dma_unmap_all()
{
	return m_.space.unmap_all();
}

int sdma_model::all_off()
{
	int err = 0;

	for (u32 i = 0; i < cfg_.channels; i++) {
		hw_channel &ch = channels_[i];

		if (const u32 state = load_acquire(&ch.state); state == chan_state_off || state == chan_state_stopping)
			continue;
		if (const int e = engine_of(i).command(&ch, chan_cmd_disable))
			err = e;
	}
	return err;
}

/* True: a channel waits for the client's reply to an access. */
bool sdma_model::is_stopping() const
{
	return std::any_of(channels_.get(), channels_.get() + cfg_.channels,
			   [](const hw_channel &ch) { return load_acquire(&ch.state) == chan_state_stopping; });
}

/* docs/hardware.md, "Reset". */
void sdma_model::start_values()
{
	ctrl_ = 0;
	store_relaxed(&m_.mem_base, u64(0));
	for (u32 i = 0; i < cfg_.channels; i++) {
		hw_channel &ch = channels_[i];

		ch.regs = channel_regs();
		store_relaxed(reinterpret_cast<u64 *>(ch.doorbell + doorbell_tail), u64(0));
		for (unsigned slot = 0; slot < dma::irq_slots; slot++)
			store_relaxed(reinterpret_cast<u64 *>(ch.doorbell + doorbell_arm + slot * cache_line),
				      arm_none);
	}
}

int sdma_model::reset()
{
	if (const int err = all_off())
		return err;
	if (m_.wrong)
		m_.wrong->device_reset();
	start_values();
	return 0;
}

static int check(const config &cfg)
{
	fault_plan plan(true);

	plan.makes_mistakes(false);
	if (const int err = plan.set(cfg.faults))
		return err;
	if (cfg.huge == huge_pages::require && cfg.mem % (2 * MiB))
		return fail(EINVAL, "sim: huge=require needs mem in whole pages of 2 MiB");
	if (cfg.engines > cfg.channels)
		return fail(EINVAL, "sim: %u engines need at least as many channels, and there are %u", cfg.engines,
			    cfg.channels);
	return 0;
}

static constexpr model_info rows[] = {{"sdma", "sdma", 0, 64, max_channels, make_as<sdma_model>, check, false}};
extern const std::span<const model_info> sdma_models;
constinit const std::span<const model_info> sdma_models = rows;

} // namespace usdma::sim
