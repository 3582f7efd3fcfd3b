/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/pci/fake_sysfs.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace usdma::test {

namespace fs = std::filesystem;

/* As long as an address, so that every write to a pipe has one length. */
static constexpr char quit[] = "end of test.";
static constexpr size_t address_length = sizeof(quit) - 1;

fake_sysfs::fake_sysfs()
{
	char dir[] = "/tmp/usdma-sysfs-XXXXXX";

	if (!mkdtemp(dir))
		abort();
	root_ = dir;
	fs::create_directories(sys() + "/bus/pci/devices");
	fs::create_directories(sys() + "/bus/pci/drivers");
	fs::create_directories(sys() + "/kernel/iommu_groups");
	fs::create_directories(dev());
}

fake_sysfs::~fake_sysfs()
{
	if (probe_.joinable()) {
		std::ofstream(sys() + "/bus/pci/drivers_probe") << quit;
		std::ofstream(release_path_) << quit;
		probe_.join();
		release_.join();
	}
	fs::remove_all(root_);
}

void fake_sysfs::file(const std::string &path, const std::string &text)
{
	fs::create_directories(fs::path(path).parent_path());
	std::ofstream(path) << text;
}

void fake_sysfs::link(const std::string &path, const std::string &target)
{
	fs::create_directories(fs::path(path).parent_path());
	fs::create_symlink(target, path);
}

void fake_sysfs::add_driver(const std::string &name)
{
	fs::create_directories(sys() + "/bus/pci/drivers/" + name);
}

void fake_sysfs::add(const std::string &addr, int group, const std::string &driver)
{
	const std::string dir = device(addr);

	file(dir + "/vendor", "0x1234\n");
	file(dir + "/device", "0x11e8\n");
	file(dir + "/class", "0x00ff00\n");
	file(dir + "/revision", "0x10\n");
	file(dir + "/numa_node", "1\n");
	file(dir + "/driver_override", "(null)\n");
	file(dir + "/power_state", "D0\n");
	file(dir + "/resource", "0x00000000fea00000 0x00000000feafffff 0x0000000000040200\n"
				"0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
				"0x0000000800000000 0x00000008ffffffff 0x000000000014220c\n");
	if (!driver.empty()) {
		add_driver(driver);
		link(dir + "/driver", sys() + "/bus/pci/drivers/" + driver);
	}
	if (group >= 0) {
		const std::string g = sys() + "/kernel/iommu_groups/" + std::to_string(group);

		link(g + "/devices/" + addr, dir);
		link(dir + "/iommu_group", g);
	}
}

static std::string line_of(const std::string &path)
{
	std::ifstream f(path);
	std::string text;

	std::getline(f, text);
	return text;
}

/* fd: a pipe, open in both directions, so that reads never return end of file. */
void fake_sysfs::serve(int fd, bool probe)
{
	char buf[address_length];

	while (read(fd, buf, sizeof(buf)) == ssize_t(sizeof(buf))) {
		const std::string addr(buf, sizeof(buf));
		std::error_code ignored;

		if (addr == quit)
			break;
		const std::string driver = line_of(device(addr) + "/driver_override");

		if (!probe)
			fs::remove(device(addr) + "/driver", ignored);
		else if (!driver.empty())
			fs::create_symlink(sys() + "/bus/pci/drivers/" + driver, device(addr) + "/driver", ignored);
	}
	close(fd);
}

void fake_sysfs::run_kernel()
{
	const std::string probe = sys() + "/bus/pci/drivers_probe";

	/* One pipe for the unbind files of all drivers. */
	release_path_ = root_ + "/release";
	if (mkfifo(probe.c_str(), 0600) || mkfifo(release_path_.c_str(), 0600))
		abort();
	for (const auto &d : fs::directory_iterator(sys() + "/bus/pci/drivers"))
		fs::create_symlink(release_path_, d.path() / "unbind");
	const int probe_fd = open(probe.c_str(), O_RDWR | O_CLOEXEC),
		  release_fd = open(release_path_.c_str(), O_RDWR | O_CLOEXEC);

	probe_ = std::thread([=, this] { serve(probe_fd, true); });
	release_ = std::thread([=, this] { serve(release_fd, false); });
}

} // namespace usdma::test
