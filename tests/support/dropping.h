/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <cstdint>

namespace usdma::test {

/*
 * As long as it exists interrupts are dropped, so that waits of the library end late.  Else none may: test.cpp checks
 * that at the end of each program.  One that links the library makes it before the first call.
 */
class dropping_interrupts {
public:
	dropping_interrupts();
	~dropping_interrupts();
};

/* Devices that this process has open: none, if nothing refers to one any more. */
unsigned open_devices();
/* Failed requests that the library has found, of all devices. */
std::uint64_t failures_seen();

} // namespace usdma::test
