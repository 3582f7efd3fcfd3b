/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of engine drivers, by driver/hw/engines.inc, and of transports. */
#include "driver/dma/transports.h"

#define ENGINE(name)                                                                                                   \
	namespace usdma::name {                                                                                        \
	extern const dma::driver driver;                                                                               \
	}
#include "driver/hw/engines.inc"

namespace usdma::dma {

static constexpr const driver *driver_table[] = {
#define ENGINE(name) &name::driver,
#include "driver/hw/engines.inc"
};

constinit const std::span<const driver *const> drivers = driver_table;
static constexpr const transport *transport_table[] = {
	&sim_transport,
	&vfio_user_transport,
	&pci_transport,
};

constinit const std::span<const transport *const> transports = transport_table;

} // namespace usdma::dma
