/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API: devices. */
#include "lib/native/handles.h"
#include "lib/core/memory/memory.h"

using namespace usdma;
using native::give;

int usdma_device_count(void)
{
	return core::device_count();
}

static int give_handle(int err, const core::device *dev, usdma_device **out)
{
	*out = err ? nullptr : static_cast<usdma_device *>(core::device_handle(dev));
	return err;
}

int usdma_open_index(unsigned index, usdma_device **out)
{
	core::device *dev = nullptr;

	need_pointer(out);
	const int err = core::device_get(index, &dev);
	return give_handle(err, dev, out);
}

int usdma_open(const char *name, usdma_device **out)
{
	core::device *dev = nullptr;

	need_pointer(out);
	const int err = core::device_open_name(name, &dev);
	return give_handle(err, dev, out);
}

int usdma_close(usdma_device *dev)
{
	const int err = core::device_close_handle(dev);

	return err == -EBADF ? native::fail_guard(__func__, "device", err) : err;
}

template <size_t n> static void set_text(char (&to)[n], std::string_view from)
{
	const size_t len = std::min(from.size(), n - 1);

	memcpy(to, from.data(), len);
	to[len] = 0;
}

static u32 flags_of(core::device *d)
{
	u32 flags = 0;

	if (d->eng->limits().caps & dma::cap_memory)
		flags |= USDMA_DEVICE_OWN_MEMORY;
	if (core::device_memory(d).cpu)
		flags |= USDMA_DEVICE_CPU_VISIBLE;
	if (d->lost())
		flags |= USDMA_DEVICE_LOST;
	if (d->lost() && !d->stopped())
		flags |= USDMA_DEVICE_MAY_WRITE;
	return flags;
}

int usdma_device_get_info(usdma_device *dev, struct usdma_device_info *info)
{
	struct usdma_device_info v = {};

	guard_device(d, dev);
	need_pointer(info);
	const dma::engine_limits &lim = d->eng->limits();
	const core::heap_info heap = core::device_heap_info(d);

	v.index = d->slot;
	set_text(v.name, d->spec);
	set_text(v.driver, d->eng->driver_name());
	set_text(v.transport, d->eng->transport().backend());
	v.memory_size = heap.total;
	v.memory_free = heap.free;
	v.max_copy = lim.max_len;
	v.engines = lim.engines;
	v.channels = lim.channels;
	v.ring_size = lim.ring_size;
	v.flags = flags_of(d);
	v.numa_node = lim.numa_node;
	return give(__func__, info, v);
}

int usdma_device_get_stats(usdma_device *dev, struct usdma_device_stats *stats)
{
	struct usdma_device_stats v = {};

	guard_device(d, dev);
	need_pointer(stats);
	const core::device_stats st = core::device_stats_get(d);
	const core::heap_info heap = core::device_heap_info(d);

	v.streams = st.streams;
	v.copies = st.copies;
	v.bytes = st.bytes;
	v.requests = st.requests;
	v.doorbells = st.doorbells;
	v.wakes = st.wakes;
	v.faults = st.faults;
	v.sleeps = st.sleeps;
	v.spins = st.spins;
	v.memory_peak = heap.peak;
	v.memory_blocks = heap.blocks;
	return give(__func__, stats, v);
}

int usdma_device_sync(usdma_device *dev, int timeout_ms)
{
	guard_device(d, dev);
	return core::device_sync(d, native::until_ms(timeout_ms));
}

int usdma_device_inject(usdma_device *dev, const char *rules)
{
	guard_device(d, dev);
	need_pointer(rules);
	if (std::string_view(d->eng->transport().backend()) != "sim")
		return fail(EOPNOTSUPP,
			    "device %u (%s) is not a software device of this process; for a usdma-sim use its option "
			    "--control",
			    d->slot, d->spec.c_str());
	return d->eng->transport().inject(rules);
}
