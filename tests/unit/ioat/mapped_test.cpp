/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of any engine by loads and stores to a mapped BAR. */
#include "tests/unit/dma/acting_bar.h"

#define ioat acting_ioat
#include "driver/engines/ioat/channel.cpp"
#include "driver/engines/ioat/engine.cpp"

using namespace usdma;
using namespace usdma::dma;
using namespace usdma::test;

const ring_kind test::kind = {.plain = "sim:model=ioat:channels=4",
			      .faulty = "sim:model=ioat:channels=4:faults=",
			      .driver = "ioat",
			      .channels = 4,
			      .slow_us = 50000,
			      .long_rounds = 70,
			      .probe = probe_acting<ioat::driver, vfio::region_bar0>};

int main()
{
	return ring_main("ioat-mapped", {});
}
