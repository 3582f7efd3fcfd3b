/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of any engine by loads and stores to a mapped BAR. */
#include "tests/unit/dma/acting_bar.h"

#define ptdma acting_ptdma
#include "driver/engines/ptdma/channel.cpp"
#include "driver/engines/ptdma/engine.cpp"

using namespace usdma;
using namespace usdma::dma;
using namespace usdma::test;

const ring_kind test::kind = {.plain = "sim:model=ptdma",
			      .faulty = "sim:model=ptdma:faults=",
			      .driver = "ptdma",
			      .channels = ptdma::queue_count,
			      .slow_us = 50000,
			      .long_rounds = 3,
			      .vendor = ptdma::pci_vendor,
			      .ops = op_bit(opcode::nop) | op_bit(opcode::copy),
			      .probe = probe_acting<ptdma::driver, vfio::region_bar2>};

int main()
{
	return ring_main("ptdma-mapped", {});
}
