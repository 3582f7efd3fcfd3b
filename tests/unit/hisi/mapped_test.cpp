/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of any engine by loads and stores to a mapped BAR. */
#include "tests/unit/dma/acting_bar.h"

#define hisi acting_hisi
#include "driver/engines/hisi/channel.cpp"
#include "driver/engines/hisi/engine.cpp"

using namespace usdma;
using namespace usdma::dma;
using namespace usdma::test;

const ring_kind test::kind = {.plain = "sim:model=hisi-hip09",
			      .faulty = "sim:model=hisi:faults=",
			      .driver = "hisi",
			      .channels = 4,
			      .slow_us = 50000,
			      .long_rounds = 40,
			      .vendor = hisi::pci_vendor,
			      .ops = op_bit(opcode::nop) | op_bit(opcode::copy),
			      .probe = probe_acting<hisi::driver, vfio::region_bar2>};

int main()
{
	return ring_main("hisi-mapped", {});
}
