/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of devices: opened on first use, closed with the last reference. */
#include "lib/core/device/device.h"

#include "driver/base/cancel.h"
#include "driver/base/grow.h"
#include "driver/dma/registry.h"
#include "lib/core/base/slab.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace usdma::core {

/* Including closed devices that may still write. */
static constexpr size_t max_device_objects = 1024;
static constinit no_destructor<slab<device, max_device_objects, handle_kind::device>> all_devices;

struct device_table {
	std::mutex slot_lock[max_devices]; /* its device is opened or closed, which may take long */
	std::mutex add_lock;               /* the added ones */
	std::mutex lock;                   /* dev, refs; held briefly, never while calling out */
	device *dev[max_devices] = {};
	int refs[max_devices] = {};
	/* After the configured ones. Their names stay once they were open; else the last ones go, and others are
	 * replaced. */
	char *added[max_devices] = {};
	u32 opening[max_devices] = {}; /* calls that open it */
	bool was_open[max_devices] = {};
	unsigned n_added = 0; /* atomic, as the next one */
	u32 n_open = 0;
};

static constinit no_destructor<device_table> table;
int device_count()
{
	if (const int err = config_ready())
		return err;
	const config &cfg = config_get();
	if (!cfg.error.empty())
		return fail(EINVAL, "%s", cfg.error.c_str());
	return int(std::min<size_t>(cfg.devices.size(), max_devices) + load_acquire(&table->n_added));
}

const char *device_spec(unsigned slot)
{
	const config &cfg = config_get();
	const size_t configured = std::min<size_t>(cfg.devices.size(), max_devices);

	if (slot < configured)
		return cfg.devices[slot].c_str();
	return slot - configured < load_acquire(&table->n_added) ? table->added[slot - configured] : nullptr;
}

static unsigned configured_count()
{
	return unsigned(std::min<size_t>(config_get().devices.size(), max_devices));
}

bool device_spec_copy(unsigned slot, char *to, size_t size)
{
	const bool is_added = slot >= configured_count();
	std::unique_lock adding(table->add_lock, std::defer_lock);

	/* In a child the lock may be held by a thread of the parent. */
	if (is_added && is_other_process())
		return false;
	if (is_added)
		adding.lock();
	const char *const spec = device_spec(slot);

	snprintf(to, size, "%s", spec ? spec : "");
	return spec;
}

/* The next two with add_lock held. */

static bool is_unused(unsigned at)
{
	return !table->was_open[at] && !table->opening[at];
}

/* The first that is unused gets this name, else a new one behind the others. Returns its slot. */
static int add_name(const char *spec, const char *whole)
{
	const unsigned n = load_relaxed(&table->n_added);
	unsigned at = 0;

	while (at < n && !is_unused(at))
		at++;
	const unsigned slot = configured_count() + at;
	if (slot >= max_devices)
		return fail(ENOSPC, "'%s' would be one device too many: there can be %u", spec, max_devices);
	char *const name = strdup(whole);
	if (!name)
		return fail(ENOMEM, "no memory for a device's name");
	free(std::exchange(table->added[at], name));
	/* Release: the name is stored before the count. */
	store_release(&table->n_added, std::max(n, at + 1));
	return int(slot);
}

/* The slot of a name, which is added if it is new. With add_lock held. */
static int slot_of_name(const char *spec)
{
	return within_memory("a device's name", [=] {
		const std::string whole = config_device(config_get(), spec);
		std::string scheme;

		for (unsigned i = 0; const char *listed = device_spec(i); i++)
			if (whole == listed)
				return int(i);
		int wrong = dma::parse_scheme(spec, &scheme);
		if (!wrong)
			wrong = check_allows(config_get().checks, spec);
		return wrong ? wrong : add_name(spec, whole.c_str());
	});
}

/* A name that was added stays until attempt_end(). With add_lock held. */
static void attempt(unsigned slot)
{
	if (const unsigned n = configured_count(); slot >= n)
		table->opening[slot - n]++;
}

static void attempt_end(unsigned slot, bool is_open)
{
	std::lock_guard adding(table->add_lock);
	unsigned n = load_relaxed(&table->n_added);

	if (slot < configured_count())
		return;
	table->opening[slot - configured_count()]--;
	table->was_open[slot - configured_count()] |= is_open;
	while (n && is_unused(n - 1))
		n--;
	store_release(&table->n_added, n);
}

/* False: there is no such slot. */
static bool attempt_by_number(unsigned slot)
{
	std::lock_guard adding(table->add_lock);

	if (slot >= configured_count() + load_relaxed(&table->n_added))
		return false;
	attempt(slot);
	return true;
}

static int attempt_by_name(const char *spec)
{
	std::lock_guard adding(table->add_lock);

	if (const int n = device_count(); n < 0)
		return n;
	const int slot = slot_of_name(spec);
	if (slot >= 0)
		attempt(unsigned(slot));
	return slot;
}

int device_get_by_name(const char *spec, device **out)
{
	/* In a child the lock may be held by a thread of the parent. */
	if (is_other_process())
		return fail_forked();
	const int slot = attempt_by_name(spec);
	if (slot < 0)
		return slot;
	const int err = device_get(unsigned(slot), out);
	attempt_end(unsigned(slot), !err);
	return err;
}

device *device_peek(unsigned slot)
{
	std::lock_guard guard(table->lock);

	return slot < max_devices ? table->dev[slot] : nullptr;
}

device *device_enter(unsigned slot)
{
	/* After fork the lock may be held for ever by a thread of the parent. */
	if (forked())
		return nullptr;
	std::lock_guard guard(table->lock);
	device *dev = slot < max_devices ? table->dev[slot] : nullptr;

	if (dev)
		dev->calls.enter();
	return dev;
}

void device_leave(device *dev)
{
	dev->calls.leave();
}

int device_ref(device *dev)
{
	std::lock_guard guard(table->lock);

	if (table->dev[dev->slot] != dev)
		return fail(ENODEV, "device %u is being closed", dev->slot);
	table->refs[dev->slot]++;
	return 0;
}

device *device_find(const void *handle)
{
	return all_devices->find(handle);
}

void device_each(void (*fn)(device *dev, void *arg), void *arg)
{
	for (unsigned slot = 0; slot < max_devices; slot++)
		if (device *dev = device_enter(slot)) {
			fn(dev, arg);
			device_leave(dev);
		}
}

/* ---- references ------------------------------------------------------------------------------------- */

/* Of the device that was opened last in the slot; those that were not configured may be replaced. */
static u32 reaches_of[max_devices];

u32 slot_reaches(unsigned slot)
{
	return load_relaxed(&reaches_of[slot]);
}

void slot_set_reaches(unsigned slot, u32 reaches)
{
	store_relaxed(&reaches_of[slot], reaches);
}

u32 device_open_count()
{
	return load_seq_cst(&table->n_open);
}

device *device_new()
{
	return all_devices->get();
}

void device_start(device *dev)
{
	all_devices->publish(dev);
}

static int get(unsigned slot, device **out)
{
	std::lock_guard opening(table->slot_lock[slot]);
	device *dev = device_peek(slot);
	if (!dev) {
		const int err = device_up.open(slot, &dev);

		if (err)
			return err;
	}
	std::lock_guard guard(table->lock);
	/* A loss before the device was listed may have been missed: force a check. */
	if (std::exchange(table->dev[slot], dev) != dev) {
		fetch_add_seq_cst(&vfio::losses, 1);
		fetch_add_seq_cst(&table->n_open, 1);
	}
	table->refs[slot]++;
	*out = dev;
	return 0;
}

int device_get(unsigned slot, device **out)
{
	const no_cancel scope;
	const int n = device_count();

	install_fork_handlers();
	if (is_other_process())
		return fail_forked();
	if (n < 0)
		return n;
	if (!attempt_by_number(slot))
		return fail(ENODEV, "no device %u: USDMA_DEVICES names %d", slot, n);
	const int err = get(slot, out);
	attempt_end(slot, !err);
	return err;
}

void device_delete(device *dev)
{
	all_devices->put(dev);
}

/* With the slot's lock and the table's held. True: the last reference. */
static bool drop_ref(device *dev)
{
	if (--table->refs[dev->slot])
		return false;
	table->dev[dev->slot] = nullptr;
	fetch_sub_relaxed(&table->n_open, 1);
	store_release(&dev->alive, u64(0));
	return true;
}

/* The slot of a live device. -EBADF. */
static int slot_of(const void *handle)
{
	std::lock_guard guard(table->lock);
	const device *dev = device_find(handle);

	return dev ? int(dev->slot) : -EBADF;
}

int device_close_handle(const void *handle)
{
	const no_cancel scope;

	if (is_other_process())
		return fail_forked();
	const int slot = slot_of(handle);
	if (slot < 0)
		return slot;
	std::lock_guard closing(table->slot_lock[slot]);
	table->lock.lock();
	/* Again: another thread may have closed it meanwhile. */
	device *dev = device_find(handle);
	const bool last = dev && drop_ref(dev);
	table->lock.unlock();
	return last ? device_up.close(dev) : dev ? 0 : -EBADF;
}

void device_put(device *dev)
{
	const saved_error why;

	device_close_handle(device_handle(dev));
	why.again(0);
}

} // namespace usdma::core
