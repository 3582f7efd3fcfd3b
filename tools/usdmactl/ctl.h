/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations shared by the commands of usdmactl. */
#pragma once

#include "driver/pci/sysfs.h"
#include "driver/vfio/device.h"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace usdma::ctl {

using json = nlohmann::ordered_json;

/* Root of the file system to inspect: "/", or a fake tree of a test. */
struct system_paths {
	std::string root; /* "" for the real system; no trailing slash */

	bool real() const { return root.empty(); }
	std::string sys() const { return root + "/sys"; }
	std::string proc() const { return root + "/proc"; }
	std::string dev() const { return root + "/dev"; }
	std::string run() const { return root + "/run/usdma"; }
	std::string shm() const { return root + "/dev/shm"; }
	std::string etc() const { return root + "/etc"; }
};

struct context {
	system_paths at;
	bool json = false;
};

/* Exit codes, the same for every command. */
enum exit_code : int { exit_ok = 0, exit_failed = 1, exit_usage = 2 };

struct bind_options {
	std::string device, driver = "vfio-pci";
	bool dry_run = false;
};
struct selftest_options {
	std::string device, file, out;
	u64 size = 0; /* bytes of one copy; 0: chosen by the device's memory */
};
struct stat_options {
	unsigned pid = 0, count = 0; /* pid 0: all processes; count 0: until interrupted */
	double interval = 1;
};
struct sim_options {
	std::string socket, command, argument;
};
struct share_options {
	std::string socket;
	std::vector<std::string> words;
};

struct bringup_options {
	std::string device, file = "usdma-bringup.json"; /* of the report */
	u64 copies = 1000000, seed = 1;
	u32 accesses = 1024; /* saved of each step */
	std::vector<std::string> skip;
};
struct check_options {
	std::vector<std::string> program;
	bool unwritten = false, guard = false;
	std::string timing, report, suppressions; /* "": late; a temporary file; none */
};

struct net_options {
	std::string address; /* "": listen */
	bool listen = false;
	unsigned port = 0; /* 0: the first of the setting net */
	double seconds = 0.3;
	u64 largest = 64 * MiB;
};

struct tune_options {
	bool write = false;
	std::string file, from, device; /* "": the library's own file; measure now; a software device */
};

int run_list(const context &ctx, bool all);
int run_bind(const context &ctx, const bind_options &opt);
int run_unbind(const context &ctx, const bind_options &opt);
int run_info(const context &ctx, const std::string &device);
int run_settings(const context &ctx);
int run_tune(const context &ctx, const tune_options &opt);
int run_doctor(const context &ctx);
int run_reset(const context &ctx, const std::string &device);
int run_selftest(const context &ctx, const selftest_options &opt);
int run_bringup(const context &ctx, const bringup_options &opt);
/* Its names of steps: those that others need, or those that --skip may leave out. */
std::vector<std::string> bringup_step_names(bool needed);
int run_stat(const context &ctx, const stat_options &opt);
int run_sim(const context &ctx, const sim_options &opt);
int run_share(const context &ctx, const share_options &opt);
int run_check(const context &ctx, const check_options &opt);
int run_net(const context &ctx, const net_options &opt);
int run_npu_smi(const context &ctx);
int run_ascend_home(const context &ctx, const std::string &folder);

/* ---- helpers --------------------------------------------------------------------------------------- */

/*
 * All output of the commands goes through these functions: it may contain names chosen by other processes, files and
 * devices, so control characters are filtered for the terminal (driver/base/printable.h).
 */
void print_line(const std::string &text);
void print_lines(const std::string &text); /* text may contain newlines */
void print_error(const std::string &text); /* "usdmactl: TEXT", to standard error */
/* Prints "usdmactl: TEXT" to standard error, or {"error": TEXT} with --json; returns exit_failed. */
int report(const context &ctx, const std::string &text);
/* The same with the library's error text. */
int report_error(const context &ctx, int err);
void print_json(const json &j);
/* One paragraph, wrapped at 80 columns: its first line indented by `first`, the others by `rest`. */
void print_folded(const std::string &text, unsigned first, unsigned rest);
std::string human_size(u64 bytes);

/* The first line of a file; "" if the file does not exist. */
std::string read_line(const std::string &path);
/* All of a file; "" if the file does not exist. */
std::string read_all(const std::string &path);
bool exists(const std::string &path);
std::vector<std::string> dir_entries(const std::string &path);

/* Its regions, interrupts and capabilities. */
void describe_function(vfio::device &dev, json *j);

/* ---- thresholds ------------------------------------------------------------------------------------ */

/* Lengths at which the library switches its copy routine, on this CPU and with the settings in force. */
json thresholds_json();
void print_thresholds(const json &j);

/* ---- devices --------------------------------------------------------------------------------------- */

struct candidate {
	pci::function fn;
	std::string name;                 /* from the PCI ids */
	std::string engine;               /* the engine driver that supports it; "": none */
	std::vector<pci::address> group;  /* members of its IOMMU group, including itself */
	std::vector<std::string> sharers; /* "0000:00:1f.3 (snd_hda_intel)": the other members except bridges */
	bool foreign = false;             /* a sharer is bound to a host driver: VFIO refuses the group */
};

/* All functions, or those that an engine driver supports or that are bound to vfio-pci. */
int find_candidates(const context &ctx, bool all, std::vector<candidate> *out);
int read_candidate(const context &ctx, const pci::address &a, candidate *out);
bool is_bridge(const pci::function &f);
/* Processes that have the device's VFIO file open: "pid 123 (name)". */
std::vector<std::string> vfio_users(const context &ctx, const pci::function &f);
/* "VENDOR DEVICE [1234:11e8]" */
std::string device_name(u16 vendor, u16 device);
json to_json(const candidate &c);

} // namespace usdma::ctl
