/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the ids that the drivers of engines take, a line each: NAME VENDOR:DEVICE. */
#include "driver/dma/registry.h"

#include <cstdio>

int main()
{
	for (const usdma::dma::driver *d : usdma::dma::drivers)
		for (const usdma::dma::pci_id &id : d->ids)
			printf("%s %04x:%04x\n", d->name, id.vendor, id.device);
	return 0;
}
