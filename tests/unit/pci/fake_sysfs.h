/* SPDX-License-Identifier: BSD-3-Clause */
/* A small /sys and /dev in a temporary directory. */
#pragma once

#include <string>
#include <thread>

namespace usdma::test {

class fake_sysfs {
public:
	fake_sysfs();
	~fake_sysfs();

	std::string sys() const { return root_ + "/sys"; }
	std::string dev() const { return root_ + "/dev"; }
	std::string device(const std::string &addr) const { return sys() + "/bus/pci/devices/" + addr; }

	void file(const std::string &path, const std::string &text);
	void link(const std::string &path, const std::string &target);
	/* Adds a function with ids, an IOMMU group (-1: none) and a driver ("": none). */
	void add(const std::string &addr, int group, const std::string &driver);
	void add_driver(const std::string &name);
	/* Acts as the kernel: serves drivers_probe and unbind until the end of the test. */
	void run_kernel();

private:
	void serve(int fd, bool probe);

	std::string root_;
	std::thread probe_, release_;
	std::string release_path_;
};

} // namespace usdma::test
