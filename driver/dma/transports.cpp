/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/dma/transports.h"

#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/vfio/firmware.h"
#include "driver/vfio/kernel.h"
#include "driver/vfio/user_client.h"

namespace usdma::dma {

static int open_pci(std::string_view spec, const open_options &opt, std::unique_ptr<vfio::device> *out)
{
	vfio::kernel_options kernel;
	pci::address a;
	const int err = pci::address_parse(spec, &a);

	kernel.isolated = opt.isolated;
	return err ? err : vfio::kernel_open(a, kernel, out);
}

static int open_vfio_user(std::string_view spec, const open_options &opt, std::unique_ptr<vfio::device> *out)
{
	constexpr std::string_view scheme = "vfio-user:";
	vfio::user_options user;

	if (!spec.starts_with(scheme))
		return fail(EINVAL, "'%.*s' is not vfio-user:PATH", int(spec.size()), spec.data());
	if (opt.reply_ms)
		user.timeout_ms = opt.reply_ms;
	user.open_ms = opt.open_ms;
	user.trust = opt.trust;
	const int err = vfio::user_connect(std::string(spec.substr(scheme.size())), user, out);

	/* Not fatal: most servers do not need it. */
	if (!err && vfio::config_assign_bars(**out))
		log_info("%s: no addresses assigned to its BARs: %s", (*out)->name(), error_text());
	return err;
}

const transport pci_transport = {"pci", open_pci};
const transport vfio_user_transport = {"vfio-user", open_vfio_user};

} // namespace usdma::dma
