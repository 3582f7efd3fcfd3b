/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/pci/sysfs.h"

#include "driver/base/error.h"
#include "driver/base/unique_fd.h"
#include "driver/base/words.h"
#include "driver/pci/sysfs_file.h"

#include <algorithm>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <unistd.h>

namespace usdma::pci {

std::string function_dir(const std::string &root, const address &a)
{
	return root + "/bus/pci/devices/" + address_format(a);
}

int file_read(const std::string &path, size_t most, std::string *out)
{
	const unique_fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
	char buf[4096];

	out->clear();
	if (!fd.valid())
		return fail_errno("open %s", path.c_str());
	while (out->size() < most) {
		const ssize_t n = read(fd.get(), buf, std::min(sizeof(buf), most - out->size()));

		if (n < 0)
			return fail_errno("read %s", path.c_str());
		if (n == 0)
			break;
		out->append(buf, size_t(n));
	}
	return 0;
}

std::string file_line(const std::string &path)
{
	std::string text;

	if (file_read(path, 4096, &text))
		return "";
	return text.substr(0, text.find('\n'));
}

/* The last component of a symbolic link's target; "": none. */
std::string link_name(const std::string &path)
{
	char buf[4096];
	const ssize_t n = readlink(path.c_str(), buf, sizeof(buf));

	if (n <= 0 || size_t(n) == sizeof(buf))
		return "";
	const std::string target(buf, size_t(n));

	return target.substr(target.rfind('/') + 1);
}

std::vector<std::string> dir_names(const std::string &path)
{
	const std::unique_ptr<DIR, int (*)(DIR *)> dir(opendir(path.c_str()), closedir);
	std::vector<std::string> names;

	if (!dir)
		return names;
	while (const dirent *e = readdir(dir.get())) {
		if (e->d_name[0] != '.')
			names.emplace_back(e->d_name);
	}
	std::sort(names.begin(), names.end());
	return names;
}

/* Reads a file that contains a number; `missing` if there is none, or it is malformed. */
static s64 read_number(const std::string &path, s64 missing)
{
	s64 v;

	return number_parse_signed(file_line(path), &v) ? v : missing;
}

static int group_number(const std::string &name)
{
	u64 n;

	return number_parse(name, &n, 0, INT_MAX) ? int(n) : -1;
}

/* VFIO names its noiommu groups like this (drivers/vfio/group.c in the kernel). */
static bool has_iommu(const std::string &root, int group)
{
	return file_line(root + "/kernel/iommu_groups/" + std::to_string(group) + "/name") != "vfio-noiommu";
}

/* "noiommu-vfio0": the device file of a device without IOMMU, and without a group (Linux 7.2 and newer). */
static bool has_bare_cdev(const std::string &dir)
{
	for (const std::string &name : dir_names(dir + "/vfio-dev")) {
		if (name.rfind("noiommu-", 0) == 0)
			return true;
	}
	return false;
}

static void read_bars(const std::string &dir, function *f)
{
	std::string text;
	const char *at;

	if (file_read(dir + "/resource", 8192, &text))
		return;
	at = text.c_str();
	for (resource &r : f->bars) {
		u64 start, end, flags;
		int len = 0;

		if (sscanf(at, "%" SCNx64 " %" SCNx64 " %" SCNx64 " %n", &start, &end, &flags, &len) < 3 || !len)
			return;
		if (end > start)
			r = {start, end - start + 1, flags};
		at += len;
	}
}

int read_function(const std::string &root, const address &a, function *out)
{
	const std::string dir = function_dir(root, a);
	const int group = group_number(link_name(dir + "/iommu_group"));

	if (access(dir.c_str(), F_OK))
		return fail(ENXIO, "no PCI device %s (lspci -D lists them)", address_format(a).c_str());
	*out = {};
	out->addr = a;
	out->vendor = u16(read_number(dir + "/vendor", 0xffff));
	out->device = u16(read_number(dir + "/device", 0xffff));
	out->subsystem_vendor = u16(read_number(dir + "/subsystem_vendor", 0));
	out->subsystem_device = u16(read_number(dir + "/subsystem_device", 0));
	out->class_code = u32(read_number(dir + "/class", 0));
	out->revision = u8(read_number(dir + "/revision", 0));
	out->numa_node = int(read_number(dir + "/numa_node", -1));
	out->driver = link_name(dir + "/driver");
	out->driver_override = file_line(dir + "/driver_override");
	if (out->driver_override == "(null)")
		out->driver_override.clear();
	out->power_state = file_line(dir + "/power_state");
	out->noiommu = (group >= 0 && !has_iommu(root, group)) || has_bare_cdev(dir);
	out->iommu_group = out->noiommu ? -1 : group;
	read_bars(dir, out);
	return 0;
}

static std::vector<address> addresses_in(const std::string &dir)
{
	std::vector<address> found;
	address a;

	for (const std::string &name : dir_names(dir)) {
		if (!address_parse(name, &a))
			found.push_back(a);
	}
	std::sort(found.begin(), found.end());
	return found;
}

int list(const std::string &root, std::vector<function> *out)
{
	const std::string dir = root + "/bus/pci/devices";
	function f;

	out->clear();
	if (access(dir.c_str(), F_OK))
		return fail_errno("no PCI bus in %s", dir.c_str());
	for (const address &a : addresses_in(dir)) {
		/* Skip devices that are unplugged meanwhile. */
		if (!read_function(root, a, &f))
			out->push_back(f);
	}
	return 0;
}

int group_members(const std::string &root, int group, std::vector<address> *out)
{
	const std::string dir = root + "/kernel/iommu_groups/" + std::to_string(group) + "/devices";

	out->clear();
	if (access(dir.c_str(), F_OK))
		return fail_errno("IOMMU group %d", group);
	*out = addresses_in(dir);
	return 0;
}

std::vector<std::string> users(const std::string &root, const address &a)
{
	static const char *const kinds[] = {"net", "block", "nvme", "drm", "sound", "infiniband", "tty"};
	const std::string dir = function_dir(root, a);
	std::vector<std::string> found;

	for (const char *kind : kinds) {
		for (const std::string &name : dir_names(dir + "/" + kind))
			found.push_back(std::string(kind) + " " + name);
	}
	return found;
}

std::string vfio_cdev(const std::string &root, const address &a)
{
	for (const std::string &name : dir_names(function_dir(root, a) + "/vfio-dev")) {
		if (name.rfind("vfio", 0) == 0)
			return name;
	}
	return "";
}

bool driver_loaded(const std::string &root, const std::string &driver)
{
	return access((root + "/bus/pci/drivers/" + driver).c_str(), F_OK) == 0;
}

std::vector<int> iommu_groups(const std::string &root)
{
	std::vector<int> found;

	for (const std::string &name : dir_names(root + "/kernel/iommu_groups")) {
		const int group = group_number(name);

		if (group >= 0 && has_iommu(root, group))
			found.push_back(group);
	}
	return found;
}

bool iommu_present(const std::string &root)
{
	return !iommu_groups(root).empty();
}

bool iommu_group_pending(const std::string &root, const function &f)
{
	return f.iommu_group < 0 && !f.noiommu && f.driver.empty() && iommu_present(root);
}

int read_config(const std::string &root, const address &a, std::vector<u8> *out)
{
	std::string text;
	const int err = file_read(function_dir(root, a) + "/config", 4096, &text);

	if (!err)
		out->assign(text.begin(), text.end());
	return err;
}

} // namespace usdma::pci
