/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/dma/engine.h"

namespace usdma::dma {

/* Either suffices: a function that is not bus master writes nothing, nor does one that was reset. */
int engine::give_up()
{
	const int off = vfio::config_bus_master(*dev_, false);

	/* If the server did not answer the first request, it will not answer the second. */
	if (off == -ETIMEDOUT)
		return off;
	const int err = dev_->reset();
	store_seq_cst(&given_up_, !off || !err);
	return off ? err : 0;
}

} // namespace usdma::dma
