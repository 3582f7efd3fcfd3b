/* SPDX-License-Identifier: BSD-3-Clause */
/* The software device of another process. */
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/sim/transport.h"
#include "driver/vfio_user/client.h"
#include "driver/vfio_user/firmware.h"

namespace usdma::sim {

static int client_open(std::string_view spec, const dma::open_options &opt, std::unique_ptr<vfio::device> *out)
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

const dma::transport client_transport = {"vfio-user", client_open};

} // namespace usdma::sim
