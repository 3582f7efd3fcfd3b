/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of engine drivers and transports: add new ones here. */
#include "driver/dma/transports.h"
#include "driver/engines/dsa/driver.h"
#include "driver/engines/edu/driver.h"
#include "driver/engines/hisi/driver.h"
#include "driver/engines/ioat/driver.h"
#include "driver/engines/sdma/driver.h"
#include "driver/sim/transport.h"

namespace usdma::dma {

static constexpr const driver *driver_table[] = {
	&sdma::driver, &edu::driver, &ioat::driver, &dsa::driver, &hisi::driver,
};

constinit const std::span<const driver *const> drivers = driver_table;
static constexpr const transport *transport_table[] = {
	&sim::sim_transport,
	&vfio_user_transport,
	&pci_transport,
};

constinit const std::span<const transport *const> transports = transport_table;

} // namespace usdma::dma
