/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/dma/request.h"

#include <cerrno>
#include <iterator>

namespace usdma::dma {

struct reason_row {
	const char *name;
	int err;
};

/* Indexed by fault_reason. */
static constexpr reason_row reasons[] = {
	{"none", 0},
	{"bad operation", EINVAL},
	{"bad length", EINVAL},
	{"source not mapped", EFAULT},
	{"destination not mapped", EFAULT},
	{"source not readable", EFAULT},
	{"destination not writable", EFAULT},
	{"unaligned address", EINVAL},
	{"wait timed out", ETIMEDOUT},
	{"damaged descriptor", EIO},
	{"transfer failed", EIO},
	{"stopped", ECANCELED},
	{"injected fault", EIO},
	{"device lost", ENODEV},
	{"ended by a reset", EIO},
};
static_assert(std::size(reasons) == size_t(fault_reason::count));

/* The device may report any number. */
const char *fault_name(fault_reason reason)
{
	return reason < fault_reason::count ? reasons[size_t(reason)].name : "unknown fault";
}

int fault_errno(fault_reason reason)
{
	return reason < fault_reason::count ? reasons[size_t(reason)].err : EIO;
}

} // namespace usdma::dma
