/* SPDX-License-Identifier: BSD-3-Clause */
/* Binding by driver_override (Documentation/ABI/testing/sysfs-bus-pci). */
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/unique_fd.h"
#include "driver/pci/sysfs.h"
#include "driver/pci/sysfs_file.h"

#include <fcntl.h>

namespace usdma::pci {

/* Timeout of a driver's bind or unbind. */
static constexpr u64 driver_wait_ms = 5000;

static int file_write(const std::string &path, const std::string &text)
{
	const unique_fd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));

	if (!fd.valid() && (errno == EACCES || errno == EPERM))
		return fail(EACCES, "no permission to write %s: run this as root (sudo)", path.c_str());
	if (!fd.valid())
		return fail_errno("open %s", path.c_str());
	if (write(fd.get(), text.data(), text.size()) != ssize_t(text.size()))
		return fail_errno("write '%s' to %s", text.c_str(), path.c_str());
	return 0;
}

/* Waits until the function's driver is `want`, or with "!NAME" until it is not NAME. */
static bool await_driver(const std::string &dir, const std::string &want)
{
	const deadline until = deadline::in_ms(driver_wait_ms);
	const bool negate = want[0] == '!';

	while (true) {
		const std::string now = link_name(dir + "/driver");

		if (negate ? now != want.substr(1) : now == want)
			return true;
		if (until.passed())
			return false;
		usleep(1000);
	}
}

static int release(const std::string &dir, const address &a)
{
	const std::string now = link_name(dir + "/driver");
	int err;

	if (now.empty())
		return 0;
	err = file_write(dir + "/driver/unbind", address_format(a));
	if (err)
		return err;
	if (!await_driver(dir, "!" + now))
		return fail(ETIMEDOUT, "driver %s does not release %s: is it in use? (fuser -v /dev/vfio/*)",
			    now.c_str(), address_format(a).c_str());
	return 0;
}

static int check_function(const std::string &root, const address &a, const std::string &driver)
{
	function f;
	const int err = read_function(root, a, &f);

	if (err)
		return err;
	if (driver.find_first_of("/\n!") != driver.npos)
		return fail(EINVAL, "'%s' is not a driver's name", driver.c_str());
	if (!driver.empty() && !driver_loaded(root, driver))
		return fail(ENOENT, "driver %s is not loaded: modprobe %s", driver.c_str(), driver.c_str());
	return 0;
}

int bind(const std::string &root, const address &a, const std::string &driver)
{
	const std::string dir = function_dir(root, a);
	int err = driver.empty() ? fail(EINVAL, "no driver to bind to") : check_function(root, a, driver);

	if (err)
		return err;
	/* Set the override first: a concurrent probe must not bind the former driver again. */
	err = file_write(dir + "/driver_override", driver + "\n");
	if (err || link_name(dir + "/driver") == driver)
		return err;
	err = release(dir, a);
	if (!err)
		err = file_write(root + "/bus/pci/drivers_probe", address_format(a));
	if (err)
		return err;
	if (!await_driver(dir, driver))
		return fail(ETIMEDOUT, "driver %s did not bind to %s: see dmesg", driver.c_str(),
			    address_format(a).c_str());
	return 0;
}

int unbind(const std::string &root, const address &a, const std::string &driver)
{
	const std::string dir = function_dir(root, a);
	int err;

	if (!driver.empty()) {
		err = bind(root, a, driver);
		/* The override is no longer needed; the driver stays bound. */
		return err ? err : file_write(dir + "/driver_override", "\n");
	}
	err = check_function(root, a, driver);
	if (!err)
		err = file_write(dir + "/driver_override", "\n");
	if (!err)
		err = release(dir, a);
	return err ? err : file_write(root + "/bus/pci/drivers_probe", address_format(a));
}

} // namespace usdma::pci
