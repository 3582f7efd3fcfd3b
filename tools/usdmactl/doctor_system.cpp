/* SPDX-License-Identifier: BSD-3-Clause */
/* Points that concern the machine and the process. */
#include "driver/base/types.h"
#include "tools/usdmactl/doctor.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sstream>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/io_uring.h>

namespace usdma::ctl {

/* Below this not even one arena of pinned memory and the rings fit (USDMA_HOST_ARENA is 32 MiB). */
static constexpr u64 memlock_needed = 64 * MiB;

/* ---- IOMMU ------------------------------------------------------------------------------------------- */

static bool has_word(const std::string &line, const std::string &word)
{
	std::istringstream in(line);

	for (std::string w; in >> w;)
		if (w == word)
			return true;
	return false;
}

static std::string grub_command(const std::string &what)
{
	return "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&" + what +
	       " /' /etc/default/grub && sudo update-grub && sudo reboot";
}

finding check_iommu(checkup &c)
{
	const system_paths &at = c.ctx.at;
	const std::string line = read_all(at.proc() + "/cmdline"), acpi = at.sys() + "/firmware/acpi/tables/";
	const bool intel = exists(acpi + "DMAR"), amd = exists(acpi + "IVRS");
	const size_t groups = pci::iommu_groups(at.sys()).size();

	c.iommu = groups != 0;
	if (c.iommu)
		return {verdict::ok, fmt::format("on, with {} group{} of devices", groups, groups == 1 ? "" : "s"), ""};
	if (intel && !has_word(line, "intel_iommu=on"))
		return {verdict::failed,
			"the machine has VT-d, but the kernel was not told to use it (no intel_iommu=on in "
			"/proc/cmdline)",
			grub_command("intel_iommu=on"),
			"every device's transfers are translated then, which costs fast cards some speed (iommu=pt "
			"beside it spares "
			"them that, and confines only devices of VFIO)"};
	if (amd && has_word(line, "amd_iommu=off"))
		return {verdict::failed, "AMD-Vi is switched off on the kernel's command line (amd_iommu=off)",
			"sudo sed -i 's/amd_iommu=off//' /etc/default/grub && sudo update-grub && sudo reboot"};
	if (intel || amd)
		return {verdict::failed,
			"the machine has one and the kernel's command line allows it, but the kernel uses none: "
			"it says why",
			"sudo dmesg | grep -i -e DMAR -e IOMMU -e AMD-Vi"};
	return {verdict::failed,
		"the firmware shows none (no DMAR or IVRS table): it is switched off in the firmware's setup "
		"(VT-d, AMD-Vi), or this is a virtual machine or container that was given none",
		"sudo systemctl reboot --firmware-setup"};
}

/* ---- modules ----------------------------------------------------------------------------------------- */

static std::string kernel_release(const system_paths &at)
{
	return read_line(at.proc() + "/sys/kernel/osrelease");
}

static bool module_there(const system_paths &at, const std::string &file)
{
	const std::string dep = read_all(at.root + "/lib/modules/" + kernel_release(at) + "/modules.dep");

	return dep.find("/" + file + ".ko") != dep.npos;
}

finding check_modules(checkup &c)
{
	const system_paths &at = c.ctx.at;
	const bool pci = pci::driver_loaded(at.sys(), "vfio-pci");
	const bool type1 = exists(at.sys() + "/module/vfio_iommu_type1"), iommufd = exists(at.dev() + "/iommu");

	c.module = pci && (type1 || iommufd);
	if (c.module)
		return {verdict::ok,
			fmt::format("vfio-pci is loaded, with {}{}{}", type1 ? "type1 containers" : "",
				    type1 && iommufd ? " and " : "", iommufd ? "iommufd" : ""),
			""};
	const std::string missing = !pci ? "vfio-pci" : "vfio_iommu_type1";
	if (module_there(at, missing))
		return {verdict::failed, missing + " is not loaded", "sudo modprobe -a vfio-pci vfio_iommu_type1"};
	return {verdict::failed,
		fmt::format("{} is not loaded, and there is no such module for the running kernel ({})", missing,
			    kernel_release(at)),
		"sudo apt-get install linux-image-amd64 && sudo reboot"};
}

/* ---- what forbids ------------------------------------------------------------------------------------ */

/* Devices that vfio-pci refuses by itself: Intel's QuickAssist functions (drivers/vfio/pci/vfio_pci.c). */
static bool on_kernel_denylist(const pci::function &f)
{
	static constexpr u16 ids[] = {0x0435, 0x0442, 0x0443, 0x18a0, 0x18a1, 0x19e2,
				      0x19e3, 0x37c8, 0x37c9, 0x6f54, 0x6f55};

	for (u16 id : ids)
		if (f.vendor == 0x8086 && f.device == id)
			return true;
	return false;
}

static std::string with_underscores(std::string name)
{
	for (char &ch : name)
		ch = ch == '-' ? '_' : ch;
	return name;
}

/* "blacklist vfio-pci", "install vfio-pci /bin/false". */
static bool line_denies(const std::string &line)
{
	std::istringstream in(line);
	std::string verb, module, command;

	in >> verb >> module >> command;
	module = with_underscores(module);
	if (module != "vfio_pci" && module != "vfio" && module != "vfio_iommu_type1" && module != "vfio_pci_core")
		return false;
	return verb == "blacklist" || (verb == "install" && (command == "/bin/false" || command == "/bin/true"));
}

finding check_denylist(checkup &c)
{
	const std::string dir = c.ctx.at.etc() + "/modprobe.d";
	const std::string off = read_line(c.ctx.at.sys() + "/module/vfio_pci/parameters/disable_denylist");

	for (const std::string &file : dir_entries(dir)) {
		std::istringstream text(read_all(dir + "/" + file));

		for (std::string line; std::getline(text, line);)
			if (line_denies(line))
				return {verdict::failed,
					fmt::format("/etc/modprobe.d/{} forbids a module of VFIO: {}", file, line),
					"sudo sed -i -E 's/^(blacklist|install) +vfio/# &/' " +
						shell_word("/etc/modprobe.d/" + file),
					"somebody wanted no VFIO on this machine: ask why first"};
	}
	for (const candidate &d : c.devices)
		if (on_kernel_denylist(d.fn) && off != "Y")
			return {verdict::failed,
				address_format(d.fn.addr) +
					" is on vfio-pci's own denylist: it has known faults, which its "
					"users can turn against the machine. Better leave it to its driver and take "
					"another device",
				"echo 'options vfio-pci disable_denylist=1' | sudo tee "
				"/etc/modprobe.d/usdma-denylist.conf && sudo modprobe "
				"-r vfio-pci && sudo modprobe vfio-pci",
				"whoever may use such a device can exploit its faults against the stability and "
				"security of the machine, and "
				"the list is off for all devices: only where every user is trusted as root is"};
	return {verdict::ok, "nothing forbids VFIO or a device here", ""};
}

/* ---- limits of the process --------------------------------------------------------------------------- */

static constexpr u64 unlimited = ~u64(0);

/* "Max locked memory         65536                65536                bytes" */
static bool read_memlock(const std::string &limits, u64 *soft, u64 *hard)
{
	std::istringstream text(limits);

	for (std::string line; std::getline(text, line);) {
		if (line.rfind("Max locked memory", 0))
			continue;
		std::istringstream in(line.substr(strlen("Max locked memory")));
		std::string a, b;
		in >> a >> b;
		try {
			*soft = a == "unlimited" ? unlimited : std::stoull(a);
			*hard = b == "unlimited" ? unlimited : std::stoull(b);
			return true;
		} catch (const std::exception &) {
			return false;
		}
	}
	return false;
}

/* CAP_IPC_LOCK, bit 14 of the effective set: the limit does not bind then. */
static bool may_lock_all(const std::string &status)
{
	const size_t at = status.find("CapEff:");

	return at != status.npos && (strtoull(status.c_str() + at + 7, nullptr, 16) >> 14 & 1);
}

/* Into the group that the package's limits, or a file of this name, are for. */
std::string join_group(const system_paths &at, bool limits)
{
	static constexpr const char *join = "sudo usermod -aG usdma \"$USER\" # then log in again";

	if (!limits || exists(at.etc() + "/security/limits.d/usdma.conf"))
		return join;
	/* Not the package's own file: it would be asked about at each upgrade. */
	return std::string("sudo groupadd -f -r usdma && echo '@usdma - memlock unlimited' | sudo tee "
			   "/etc/security/limits.d/usdma-local.conf && ") +
	       join;
}

finding check_memlock(checkup &c)
{
	const std::string self = c.ctx.at.proc() + "/self/";
	u64 soft = 0, hard = 0;

	if (may_lock_all(read_all(self + "status")))
		return {verdict::ok, "this process may lock any amount (CAP_IPC_LOCK)", ""};
	if (!read_memlock(read_all(self + "limits"), &soft, &hard))
		return {verdict::skipped, "the limit cannot be read from /proc/self/limits", ""};
	if (soft == unlimited)
		return {verdict::ok, "no limit", ""};
	if (soft >= memlock_needed)
		return {verdict::ok, "up to " + human_size(soft), ""};
	const std::string text = fmt::format(
		"only {} may be locked; memory that a device reaches is locked, and {} is the least "
		"to start with",
		human_size(soft), human_size(memlock_needed));
	if (hard >= memlock_needed)
		return {verdict::failed, text,
			fmt::format("ulimit -l {}", hard == unlimited ? "unlimited" : std::to_string(hard / KiB))};
	return {verdict::failed, text, join_group(c.ctx.at, true),
		"members of the group usdma may lock all memory of the machine, and use "
		"its devices: make it those whom you trust with that"};
}

finding check_huge_pages(checkup &c)
{
	const std::string dir = c.ctx.at.sys() + "/kernel/mm/hugepages/hugepages-2048kB";
	const std::string total = read_line(dir + "/nr_hugepages"), free = read_line(dir + "/free_hugepages");

	if (total.empty())
		return {verdict::skipped, "the kernel has no huge pages of 2 MiB", ""};
	if (total == "0")
		return {verdict::advice,
			"none set aside: pinned memory comes in pages of 4 KiB, which costs mappings and IOMMU "
			"look-ups",
			"sudo sysctl vm.nr_hugepages=128", "256 MiB that are kept for such pages alone"};
	if (free == "0")
		return {verdict::advice, fmt::format("all {} pages of 2 MiB are taken", total),
			fmt::format("sudo sysctl vm.nr_hugepages={}", atoll(total.c_str()) + 128),
			"256 MiB more that are kept for such pages alone"};
	return {verdict::ok, fmt::format("{} of {} pages of 2 MiB are free", free, total), ""};
}

/* 0, or the errno with which the kernel refuses this process a ring. */
static int try_io_uring()
{
	io_uring_params p = {};
	const long fd = syscall(__NR_io_uring_setup, 1, &p);

	if (fd < 0)
		return errno;
	close(int(fd));
	return 0;
}

finding check_io_uring(checkup &c)
{
	const std::string off = read_line(c.ctx.at.proc() + "/sys/kernel/io_uring_disabled");

	if (off == "1" || off == "2")
		return {verdict::advice,
			fmt::format("switched off (kernel.io_uring_disabled={}): waits use ppoll, which is slower",
				    off),
			"sudo sysctl kernel.io_uring_group=$(getent group usdma | cut -d: -f3) "
			"kernel.io_uring_disabled=1",
			"the kernel's io_uring, which has had faults that made users root, is open to the group usdma"};
	const int err = c.ctx.at.real() ? try_io_uring() : 0;
	if (err == EPERM || err == EACCES)
		return {verdict::advice,
			"forbidden to this process (seccomp, as in many containers): waits use ppoll, which is slower",
			"jq '.syscalls += [{names: [\"io_uring_setup\", \"io_uring_enter\", \"io_uring_register\"], "
			"action: \"SCMP_ACT_ALLOW\"}]' "
			"default.json >usdma.json # the runtime's default profile; then: docker run --security-opt "
			"seccomp=usdma.json …",
			"the kernel's io_uring, which has had faults by which programs left their container, is open "
			"to this one"};
	if (err)
		return {verdict::advice,
			fmt::format("does not work here ({}): waits use ppoll, which is slower", strerror(err)),
			"sudo apt-get install linux-image-amd64 && sudo reboot"};
	return {verdict::ok, "works", ""};
}

} // namespace usdma::ctl
