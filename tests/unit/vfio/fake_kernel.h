/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's VFIO, by group and by iommufd (linux/vfio.h, linux/iommufd.h): in the program with this file, ioctl(2)
 * is answered from here while a fake_kernel exists.  Its device's file is memory: config space at 0, BAR 0 behind it.
 */
#pragma once

#include "driver/base/unique_fd.h"
#include "driver/vfio/kernel.h"
#include "tests/unit/pci/fake_sysfs.h"

#include <map>

namespace usdma::test {

struct fake_kernel {
	static constexpr u64 bar_at = 4096, bar_size = 65536;

	fake_sysfs files;
	vfio::kernel_options opt;
	unique_fd device;
	int type1 = 1;         /* the answer to VFIO_CHECK_EXTENSION */
	int map_errno = 0;     /* the next mapping fails */
	u64 left_by_unmap = 0; /* so many bytes stay mapped at the next one */
	int request_fd = -1;   /* by which the kernel requests the device back */
	unsigned vectors = 0;  /* enabled now */
	unsigned most_vectors = 8;
	std::map<u64, u64> mapped; /* size by IOVA */

	/* A device at 0000:00:04.0, in group 7 and bound to vfio-pci. */
	explicit fake_kernel(vfio::kernel_backend backend);
	~fake_kernel();
	fake_kernel(const fake_kernel &) = delete;
	int answer(unsigned long request, void *arg);
	int open(std::unique_ptr<vfio::device> *out) const { return vfio::kernel_open({0, 0, 4, 0}, opt, out); }
	u16 command() const;
	void set_command(u16 value) const;

private:
	int region(void *arg) const;
	int irqs(const void *arg);
	int map(u64 iova, u64 size);
	int unmap(u64 iova, u64 *size);
};

} // namespace usdma::test
