/* SPDX-License-Identifier: BSD-3-Clause */
/* The checklist of `usdmactl doctor`: what each point found, and the one command that fixes it. */
#pragma once

#include "tools/usdmactl/ctl.h"

namespace usdma::ctl {

enum class verdict {
	ok,
	advice, /* works, but not as well as it could */
	failed, /* real devices do not work */
	skipped /* cannot be told before an earlier point is fixed, or not asked of this machine */
};

struct finding {
	verdict state = verdict::ok;
	std::string text;
	std::string fix;        /* a command, or what to do where no command can: the narrowest that helps */
	std::string price = {}; /* what the fix gives away: safety of the machine, memory, power; "": nothing */
};

struct checkup {
	const context &ctx;
	std::vector<candidate> devices;
	bool iommu = false, module = false;
};

struct check {
	const char *id, *title;
	finding (*run)(checkup &c);
};

/* As one word of a shell, whatever is in it. */
std::string shell_word(const std::string &text);

/* doctor_settings.cpp */
finding check_settings(checkup &c);
/* doctor_system.cpp */
finding check_iommu(checkup &c);
finding check_modules(checkup &c);
finding check_denylist(checkup &c);
finding check_memlock(checkup &c);
/* The command that makes the user a member of the group usdma; limits: with the limits that it is to have. */
std::string join_group(const system_paths &at, bool limits);
finding check_huge_pages(checkup &c);
finding check_io_uring(checkup &c);
/* doctor_devices.cpp */
finding check_devices(checkup &c);
finding check_permissions(checkup &c);
finding check_numa(checkup &c);
finding check_power(checkup &c);

} // namespace usdma::ctl
