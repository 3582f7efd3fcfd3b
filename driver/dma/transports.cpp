/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/dma/transports.h"

#include "driver/base/error.h"
#include "driver/vfio/kernel.h"

namespace usdma::dma {

static int open_pci(std::string_view spec, const open_options &opt, std::unique_ptr<vfio::device> *out)
{
	vfio::kernel_options kernel;
	pci::address a;
	const int err = pci::address_parse(spec, &a);

	kernel.isolated = opt.isolated;
	return err ? err : vfio::kernel_open(a, kernel, out);
}

template <const transport *software_parts::*which>
static int open_software(std::string_view spec, const open_options &opt, std::unique_ptr<vfio::device> *out)
{
	const software_parts *t;
	const int err = simulator(&t);

	return err ? err : (t->*which)->open(spec, opt, out);
}

const transport sim_transport = {"sim", open_software<&software_parts::sim>};
const transport pci_transport = {"pci", open_pci};
const transport vfio_user_transport = {"vfio-user", open_software<&software_parts::vfio_user>};

} // namespace usdma::dma
