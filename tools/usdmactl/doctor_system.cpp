/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the machine and the process. */
#include "driver/base/page.h"
#include "driver/base/words.h"
#include "tools/usdmactl/doctor.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sstream>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/io_uring.h>

namespace usdma::ctl {

/* Space for one arena of pinned memory (USDMA_TEST_HOST_ARENA is 32 MiB) and the rings. */
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
			"the machine has VT-d, but it is not enabled in the kernel (no intel_iommu=on in "
			"/proc/cmdline)",
			grub_command("intel_iommu=on"),
			"all DMA is translated then, which costs fast devices some speed (with iommu=pt as well "
			"only devices bound to VFIO are translated)"};
	if (amd && has_word(line, "amd_iommu=off"))
		return {verdict::failed, "AMD-Vi is disabled on the kernel's command line (amd_iommu=off)",
			"sudo sed -i 's/amd_iommu=off//' /etc/default/grub && sudo update-grub && sudo reboot"};
	if (intel || amd)
		return {verdict::failed,
			"the machine has one and the kernel's command line allows it, but the kernel uses none: "
			"see its log",
			"sudo dmesg | grep -i -e DMAR -e IOMMU -e AMD-Vi"};
	return {verdict::failed,
		"the firmware reports none (no DMAR or IVRS table): it is disabled in the firmware's setup "
		"(VT-d, AMD-Vi), or this is a virtual machine or container without one",
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

/* ---- denylists --------------------------------------------------------------------------------------- */

/*
 * The kernel's denylist of vfio-pci (drivers/vfio/pci/vfio_pci.c): Intel's QuickAssist functions, and DSA of Sapphire
 * Rapids since Linux 6.9 and the stable releases of that time. One that is bound is not denied by this kernel.
 */
static bool on_kernel_denylist(const pci::function &f)
{
	static constexpr u16 dsa = 0x0b25;
	static constexpr u16 ids[] = {0x0435, 0x0442, 0x0443, 0x18a0, 0x18a1, 0x19e2,
				      0x19e3, 0x37c8, 0x37c9, 0x6f54, 0x6f55};

	if (f.vendor != 0x8086)
		return false;
	return std::find(std::begin(ids), std::end(ids), f.device) != std::end(ids) ||
	       (f.device == dsa && f.driver != "vfio-pci");
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
					"VFIO was disabled on this machine on purpose: find out why first"};
	}
	for (const candidate &d : c.devices)
		if (on_kernel_denylist(d.fn) && off != "Y")
			return {verdict::failed,
				address_format(d.fn.addr) +
					" is on vfio-pci's own denylist: its users can exploit its faults "
					"against the machine. Better leave it to its driver and use another "
					"device",
				"echo 'options vfio-pci disable_denylist=1' | sudo tee "
				"/etc/modprobe.d/usdma-denylist.conf && sudo modprobe "
				"-r vfio-pci && sudo modprobe vfio-pci",
				"users of such a device can exploit its faults against the stability and security of "
				"the machine, and the list is disabled for all devices: only where every user is "
				"trusted as root is"};
	return {verdict::ok, "neither VFIO nor a device is denied", ""};
}

/* ---- limits of the process --------------------------------------------------------------------------- */

static constexpr u64 unlimited = ~u64(0);

static bool read_limit(const std::string &text, u64 *out)
{
	if (text != "unlimited")
		return number_parse(text, out);
	*out = unlimited;
	return true;
}

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
		return read_limit(a, soft) && read_limit(b, hard);
	}
	return false;
}

/* With CAP_IPC_LOCK, bit 14 of the effective set, the limit does not apply. */
static bool may_lock_all(const std::string &status)
{
	const size_t at = status.find("CapEff:\t");
	std::string_view digits = std::string_view(status).substr(std::min(at, status.size()));
	u64 caps;

	digits.remove_prefix(std::min(digits.size(), strlen("CapEff:\t")));
	return number_take(&digits, &caps, 16) && (caps >> 14 & 1);
}

/* The group's limits come from the package's file, or from one created here. */
std::string join_group(const system_paths &at, bool limits)
{
	static constexpr const char *join = "sudo usermod -aG usdma \"$USER\" # then log in again";

	if (!limits || exists(at.etc() + "/security/limits.d/usdma.conf"))
		return join;
	/* Not the package's own file: dpkg would prompt about it at each upgrade. */
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
		"only {} may be locked; memory that a device accesses is locked, and at least {} is "
		"needed",
		human_size(soft), human_size(memlock_needed));
	if (hard >= memlock_needed)
		return {verdict::failed, text,
			fmt::format("ulimit -l {}", hard == unlimited ? "unlimited" : std::to_string(hard / KiB))};
	return {verdict::failed, text, join_group(c.ctx.at, true),
		"members of the group usdma may lock all memory of the machine and use its "
		"devices: add trusted users only"};
}

finding check_huge_pages(checkup &c)
{
	const std::string dir = c.ctx.at.sys() + "/kernel/mm/hugepages/hugepages-2048kB";
	const std::string total = read_line(dir + "/nr_hugepages"), free = read_line(dir + "/free_hugepages");

	if (total.empty())
		return {verdict::skipped, "the kernel has no huge pages of 2 MiB", ""};
	if (total == "0")
		return {verdict::advice,
			fmt::format("none reserved: pinned memory is in pages of {} KiB, which costs mappings and "
				    "IOMMU lookups",
				    os_page_size() / KiB),
			"sudo sysctl vm.nr_hugepages=128", "256 MiB are reserved for such pages"};
	if (free == "0")
		return {verdict::advice, fmt::format("all {} pages of 2 MiB are in use", total),
			fmt::format("sudo sysctl vm.nr_hugepages={}", atoll(total.c_str()) + 128),
			"256 MiB more are reserved for such pages"};
	return {verdict::ok, fmt::format("{} of {} pages of 2 MiB are free", free, total), ""};
}

/* 0, or the errno of io_uring_setup. */
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
			fmt::format("disabled (kernel.io_uring_disabled={}): waits use ppoll, which is slower", off),
			"sudo sysctl kernel.io_uring_group=$(getent group usdma | cut -d: -f3) "
			"kernel.io_uring_disabled=1",
			"the group usdma may use io_uring, whose past kernel bugs let users become root"};
	const int err = c.ctx.at.real() ? try_io_uring() : 0;
	if (err == EPERM || err == EACCES)
		return {verdict::advice,
			"forbidden to this process (seccomp, as in many containers): waits use ppoll, which is slower",
			"jq '.syscalls += [{names: [\"io_uring_setup\", \"io_uring_enter\", \"io_uring_register\"], "
			"action: \"SCMP_ACT_ALLOW\"}]' "
			"default.json >usdma.json # the runtime's default profile; then: docker run --security-opt "
			"seccomp=usdma.json …",
			"the container may use io_uring, whose past kernel bugs let programs escape from "
			"containers"};
	if (err)
		return {verdict::advice,
			fmt::format("does not work here ({}): waits use ppoll, which is slower", strerror(err)),
			"sudo apt-get install linux-image-amd64 && sudo reboot"};
	return {verdict::ok, "works", ""};
}

} // namespace usdma::ctl
