/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings as used by the library; the table of names is in lib/core/config/setting.h. Only config_get() reads
 * the environment and the configuration files, once, at first use.
 *
 * Precedence: the program (setting_set()), the environment (USDMA_SPIN_US), the user's file, the system's file,
 * the default. USDMA_CONFIG names a file that replaces both files.
 */
#pragma once

#include "driver/base/log.h"
#include "driver/base/types.h"
#include "lib/core/config/check_words.h"

#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace usdma::core {

/* Number of slots: most devices in USDMA_DEVICES. */
inline constexpr unsigned max_devices = 16;
/* Device addresses of one slot: memory beyond that is not used. */
inline constexpr u64 window_slot = 128 * GiB;

enum class wait_mode : u8 { poll, interrupt, hybrid };
/* Huge pages of 2 MiB: reserved ones if available, else transparent ones; none; transparent only; reserved only. */
enum class huge_mode : u8 { automatic, off, advise, require };

/* Pageable copies: by the CPU where it can access the device memory; always through staging buffers. */
enum class pageable_mode : u8 { automatic, staging };

/* When device memory that may hold another user's data is cleared. */
enum class clear_mode : u8 { never, alloc, open, close };

/* Whose ACL calls answer 207000 as they do there: Ascend products, some with an older driver (25.5). */
enum class product : u8 { none, ascend_910b, ascend_910c, ascend_910b_25, ascend_910c_25 };

inline constexpr const char *config_system_file = "/etc/usdma/usdma.conf";

/* Source of a setting's value. */
enum class setting_from : u8 { standard, file, environment, program };

struct setting_origin {
	setting_from from = setting_from::standard;
	std::string where; /* "FILE:LINE", "USDMA_WAIT"; "" for the rest */
};

struct race_hooks;

struct config {
	std::vector<std::string> devices;         /* see config_device() */
	std::string device_list, sim_cpus, check; /* as configured */
	check_words checks;                       /* what check says */
	const race_hooks *hooks = nullptr;        /* lib/core/config/race.h; by race and strict */
	wait_mode wait = wait_mode::hybrid;
	u32 spin_us = 50;
	u32 coalesce_count = 1;
	u32 coalesce_us = 0;
	pageable_mode pageable = pageable_mode::automatic;
	u64 direct_store_max = 4 * KiB;
	u64 host_arena = 32 * MiB;
	huge_mode huge_pages = huge_mode::automatic;
	int numa_node = -1; /* -1: the device's */
	u32 hang_ms = 30000;
	u32 reply_ms = 5000;
	std::string net, net_key_file, net_tls = "tcp"; /* docs/hosts.md */
	u32 net_lost_ms = 30000;
	std::string host_id; /* 32 hexadecimal digits; "": the boot id */
	u64 pool_size = 256 * MiB;
	bool provide_memory = false;
	bool dump_memory = false;
	clear_mode clear_memory = clear_mode::close;
	u64 pin_limit = 0; /* 0: none */
	product profile = product::none;
	std::string refuse; /* names of ACL calls */
	u64 first_seq = 0;
	u32 wake_late_ms = 0; /* see driver/base/wakes.h */
	bool io_uring = true;
	log_level log = log_level::warn;
	std::string error;                   /* bad values, reported by the first call that opens a device */
	std::string warning;                 /* ignored settings; logged when the settings are published */
	std::vector<setting_origin> origins; /* by row of the table */
	int lacks = 0; /* EMFILE …: something could not be read for lack of descriptors or memory; see error */
};

/* The settings in use, fixed by the first call that can read them; until then the defaults. */
const config &config_get();
/* Reads the settings; called before devices are counted or opened. -ENOMEM, -EMFILE, -ENFILE: the next call tries
 * again. */
int config_ready();

/*
 * A device's string as it is opened: that of an embedded software device has the settings sim_cpus and huge_pages and
 * the timing of check, unless it sets them itself.
 */
std::string config_device(const config &c, std::string spec);

/* Value of an environment variable, for variables of front ends (ASCEND_RT_VISIBLE_DEVICES). */
const char *config_env(const char *name);

/* Input of config_get(), replaceable in tests. */
using config_lookup = const char *(*)(const char *name, void *arg);
struct config_source {
	config_lookup lookup = [](const char *name, void *) { return config_env(name); };
	void *arg = nullptr;
	const char *system_file = config_system_file;
};
config config_parse(const config_source &from);

/* Parses text as a file named path; errors are in the result's error. */
config config_parse_text(const std::string &path, const std::string &text);

/* The user's file, $XDG_CONFIG_HOME/usdma/usdma.conf or ~/.config/…; "" without a home directory. */
std::string config_user_file(const config_source &from);

} // namespace usdma::core
#pragma GCC visibility pop
