/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/config/default_devices.h"

#include "driver/dma/registry.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <memory>

namespace usdma::core {

/* The id in a one-line file, "0x1234"; 0: none (never a valid id). *err: what is lacking. */
static u16 read_id(const std::string &path, int *err)
{
	const std::unique_ptr<FILE, int (*)(FILE *)> file(fopen(path.c_str(), "re"), fclose);
	unsigned id = 0;

	if (!file && errno != ENOENT)
		*err = errno;
	return file && fscanf(file.get(), "%x", &id) == 1 && id <= 0xffff ? u16(id) : 0;
}

static bool is_supported(const std::string &dir, int *err)
{
	const u16 vendor = read_id(dir + "/vendor", err), device = read_id(dir + "/device", err);

	return vendor && dma::find_driver(vendor, device);
}

int default_devices(std::vector<std::string> *out, const char *vfio_pci)
{
	const std::unique_ptr<DIR, int (*)(DIR *)> dir(opendir(vfio_pci), closedir);
	int err = dir ? 0 : errno;

	out->clear();
	while (const dirent *e = dir ? readdir(dir.get()) : nullptr)
		if (e->d_name[0] != '.' && is_supported(std::string(vfio_pci) + "/" + e->d_name, &err))
			out->emplace_back(e->d_name);
	std::sort(out->begin(), out->end());
	/* What public Ascend programs take for granted: NPU 2 exists, 1 GiB for one buffer. Memory is taken when it is
	 * used. */
	if (out->empty())
		out->assign(4, "sim:mem=4G");
	return err;
}

} // namespace usdma::core
