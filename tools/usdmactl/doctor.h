/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks of `usdmactl doctor`: what each one found, and the command that fixes it. */
#pragma once

#include "tools/usdmactl/ctl.h"

namespace usdma::ctl {

enum class verdict {
	ok,
	advice, /* works, but slower than possible */
	failed, /* real devices cannot be used */
	skipped /* depends on an earlier check that failed, or does not apply to this machine */
};

struct finding {
	verdict state = verdict::ok;
	std::string text;
	std::string fix;        /* the narrowest command that helps, or an instruction if no command can */
	std::string price = {}; /* cost of the fix: security, memory, power; "": none */
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

/* Quotes text as one shell word. */
std::string shell_word(const std::string &text);

/* doctor_settings.cpp */
finding check_settings(checkup &c);
/* doctor_system.cpp */
finding check_iommu(checkup &c);
finding check_modules(checkup &c);
finding check_denylist(checkup &c);
finding check_memlock(checkup &c);
/* The command that adds the user to the group usdma; limits: also raises the group's memlock limit. */
std::string join_group(const system_paths &at, bool limits);
finding check_huge_pages(checkup &c);
finding check_io_uring(checkup &c);
/* doctor_devices.cpp */
finding check_devices(checkup &c);
finding check_permissions(checkup &c);
finding check_numa(checkup &c);
finding check_power(checkup &c);

} // namespace usdma::ctl
