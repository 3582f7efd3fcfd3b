/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio/claim.h"

#include "driver/base/grow.h"
#include "driver/base/no_destructor.h"

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
	static no_destructor<claimed_devices> c;

	return *c;
}

} // namespace

int device_claim::take(const pci::address &addr)
{
	std::lock_guard guard(claimed().lock);

	if (claimed().all.contains(addr))
		return fail(EBUSY, "%s is open in this process already: use that device, or close it first",
			    address_format(addr).c_str());
	if (!try_insert(claimed().all, claimed().all.end(), addr))
		return no_memory("the list of open devices");
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
