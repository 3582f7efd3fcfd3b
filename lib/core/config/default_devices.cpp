/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/config/default_devices.h"

#include "driver/dma/registry.h"

#include <algorithm>
#include <cstdio>
#include <dirent.h>
#include <memory>

namespace usdma::core {

/* The id in a one-line file, "0x1234"; 0: none (never a valid id). */
static u16 read_id(const std::string &path)
{
	const std::unique_ptr<FILE, int (*)(FILE *)> file(fopen(path.c_str(), "re"), fclose);
	unsigned id = 0;

	return file && fscanf(file.get(), "%x", &id) == 1 && id <= 0xffff ? u16(id) : 0;
}

static bool is_supported(const std::string &dir)
{
	const u16 vendor = read_id(dir + "/vendor"), device = read_id(dir + "/device");

	return vendor && dma::find_driver(vendor, device);
}

std::vector<std::string> default_devices(const char *vfio_pci)
{
	const std::unique_ptr<DIR, int (*)(DIR *)> dir(opendir(vfio_pci), closedir);
	std::vector<std::string> found;

	while (const dirent *e = dir ? readdir(dir.get()) : nullptr)
		if (e->d_name[0] != '.' && is_supported(std::string(vfio_pci) + "/" + e->d_name))
			found.emplace_back(e->d_name);
	std::sort(found.begin(), found.end());
	/* What public Ascend programs take for granted: NPU 2 exists, 1 GiB for one buffer. Memory is taken when it is
	 * used. */
	return found.empty() ? std::vector<std::string>(4, "sim:mem=4G") : found;
}

} // namespace usdma::core
