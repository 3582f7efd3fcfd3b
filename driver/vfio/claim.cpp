/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio/claim.h"

#include "driver/base/error.h"

#include <mutex>
#include <set>

namespace usdma::vfio {

namespace {

struct claimed_devices {
	std::mutex lock;
	std::set<pci::address> all;
};

/* Never destroyed: a device may be closed while the process exits. */
claimed_devices &claimed()
{
	static claimed_devices *const c = new claimed_devices;

	return *c;
}

} // namespace

int device_claim::take(const pci::address &addr)
{
	std::lock_guard guard(claimed().lock);

	if (!claimed().all.insert(addr).second)
		return fail(EBUSY, "%s is open in this process already: use that one, or close it first",
			    address_format(addr).c_str());
	addr_ = addr;
	held_ = true;
	return 0;
}

device_claim::~device_claim()
{
	if (!held_)
		return;
	std::lock_guard guard(claimed().lock);
	claimed().all.erase(addr_);
}

} // namespace usdma::vfio
