/* SPDX-License-Identifier: BSD-3-Clause */
/* A device mapper disk on a part of another disk: its sectors fail, or it stops, on demand. Needs root. */
#pragma once

#include "tests/support/test.h"

#include <cstring>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

namespace usdma::test {

class mapped_disk {
public:
	mapped_disk(const char *name, const char *below, size_t first, size_t sectors)
		: name_(name), below_(below), first_(first), sectors_(sectors),
		  fd_(open("/dev/mapper/control", O_RDWR | O_CLOEXEC))
	{
		assert_true(fd_ >= 0);
		control(DM_DEV_CREATE, 0);
		good();
	}
	mapped_disk(const mapped_disk &) = delete;
	~mapped_disk()
	{
		control(DM_DEV_REMOVE, 0);
		close(fd_);
	}
	std::string path() const { return "/dev/dm-" + std::to_string(minor_); }
	void good() { set({target(0, sectors_, "linear")}); }
	/* Reads and writes of these sectors give EIO. */
	void bad(size_t at, size_t n)
	{
		set({target(0, at, "linear"), target(at, n, "error"), target(at + n, sectors_ - at - n, "linear")});
	}
	/* All writes give EIO; reads succeed. */
	void no_writes() { set({target(0, sectors_, "flakey", " 0 1 1 error_writes")}); }
	/* Requests wait until resume(). */
	void suspend() { control(DM_DEV_SUSPEND, DM_SUSPEND_FLAG | DM_SKIP_LOCKFS_FLAG | DM_NOFLUSH_FLAG); }
	void resume() { control(DM_DEV_SUSPEND, 0); }

private:
	/* A target in the kernel's format; empty for no sectors. */
	std::string target(size_t at, size_t n, const char *type, const std::string &more = "") const
	{
		const std::string args = strcmp(type, "error") ? below_ + " " + std::to_string(first_ + at) + more : "";
		dm_target_spec spec = {};

		if (!n)
			return "";
		spec.sector_start = at;
		spec.length = n;
		strcpy(spec.target_type, type);
		spec.next = __u32((sizeof(spec) + args.size() + 8) & ~size_t(7));
		std::string all(reinterpret_cast<const char *>(&spec), sizeof(spec));
		all += args;
		all.resize(spec.next);
		return all;
	}
	void set(const std::vector<std::string> &targets)
	{
		std::string all;
		unsigned n = 0;

		for (const std::string &t : targets) {
			all += t;
			n += !t.empty();
		}
		control(DM_TABLE_LOAD, 0, all, n);
		suspend();
		resume();
	}
	void control(unsigned long what, unsigned flags, const std::string &targets = "", unsigned n = 0)
	{
		alignas(8) char buf[4096] = {};
		auto *d = reinterpret_cast<dm_ioctl *>(buf);

		assert_true(sizeof(*d) + targets.size() <= sizeof(buf));
		d->version[0] = DM_VERSION_MAJOR;
		d->data_size = sizeof(buf);
		d->data_start = sizeof(*d);
		d->target_count = n;
		d->flags = flags;
		strcpy(d->name, name_.c_str());
		memcpy(buf + sizeof(*d), targets.data(), targets.size());
		if (ioctl(fd_, what, buf))
			print_error("device mapper, request %lx: %s\n", what, strerror(errno));
		else if (what == DM_DEV_CREATE)
			minor_ = unsigned(d->dev & 0xff);
		else
			return;
		assert_int_equal(what, DM_DEV_CREATE);
	}

	const std::string name_, below_;
	const size_t first_, sectors_;
	const int fd_;
	unsigned minor_ = 0;
};

} // namespace usdma::test
