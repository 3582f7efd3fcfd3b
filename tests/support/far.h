/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace usdma::test {

/*
 * A size or a count: an eighth where no memory is shared and each byte is sent through a socket (":trust=no"), or
 * copied through staging memory (":isolated=yes").
 */
inline std::size_t by_messages(std::size_t usual)
{
	const char *const devices = std::getenv("USDMA_DEVICES");

	return devices && (std::strstr(devices, "trust=no") || std::strstr(devices, "isolated=yes")) ? usual / 8 :
												       usual;
}

} // namespace usdma::test
