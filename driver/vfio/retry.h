/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/base/clock.h"

#include <cerrno>
#include <ctime>

namespace usdma::vfio {

/*
 * A reset and an opening fail with EAGAIN while another holds the PCI device's lock, which readers of its
 * driver_override file take, too, for a moment (Linux: pci_try_reset_function() in drivers/pci/pci.c,
 * vfio_pci_core_enable(), driver_override_show()).
 */
template <class F> int retry_locked(const F &call)
{
	static constexpr unsigned most_ms = 1000;
	const deadline until = deadline::in_ms(most_ms);
	const timespec nap = {0, 1000 * 1000};
	int ret;

	while ((ret = call()) < 0 && errno == EAGAIN && !until.passed())
		nanosleep(&nap, nullptr);
	return ret;
}

} // namespace usdma::vfio
