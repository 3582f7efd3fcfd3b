/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings of a software device, embedded or in usdma-sim. */
#pragma once

#include "driver/base/timing.h"
#include "driver/copy/copy.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace usdma::sim {

/* 2 MiB pages for device memory: if the kernel provides some; never; only reserved ones. */
enum class huge_pages : u8 { advise, off, require };

struct model_info;
const model_info *default_model(); /* models.h */

struct recording;
class backend_client;

struct config {
	const model_info *model = default_model(); /* model=NAME, of driver/sim/models.h */
	u64 mem = GiB;                             /* mem=SIZE: device memory, sparse until touched */
	bool has_mem = true;                       /* nomem=1: a variant without device memory and without BAR2 */
	u64 share = u64(1) << 40;             /* share=SIZE: most bytes of its files that a client may map at a time */
	bool any_file = false;                /* files=any: any file, not only memfds, tmpfs and hugetlbfs */
	huge_pages huge = huge_pages::advise; /* huge=off|advise|require */
	bool stale = false; /* stale=1: memory starts as stale_byte, not 0, and is not reported as zeroed */
	u32 engines = 2;    /* engines=N: one thread each */
	bool engines_set = false;
	u32 channels = 64; /* channels=N of sdma; see channels_of() */
	bool channels_set = false;
	u32 spin_us = 50;                        /* spin=US: how long an idle engine polls before it sleeps */
	u32 latency_us = 0;                      /* latency=US: minimum duration of a descriptor */
	timing_kind timing = timing_kind::plain; /* timing=early|late|shuffle@SEED */
	u64 timing_seed = 0;
	u64 rate = 0;        /* rate=BYTES: bytes per second of each engine; 0: unlimited */
	bool faulty = false; /* faults=RULES (fault_plan.h): fault injection; "faults=" alone: rules may be set later */
	std::string faults;
	usdma::copy_rows copy_rows = usdma::copy_rows::automatic; /* copy_rows=auto|1|2|4 */
	std::shared_ptr<const recording> replay; /* registers read as in this report; not a key: it is a file */
	backend_client *device = nullptr;        /* runs copies and fills (backend.h); not a key */
	std::vector<int> cpus; /* cpus=2+3: engine i runs on the (i mod n)-th of these; empty: on any */
};

inline constexpr u8 stale_byte = 0xa5;
inline constexpr u64 min_mem = 64 * KiB, max_mem = u64(1) << 44;
inline constexpr u32 max_engines = 64, max_spin_us = 10000000, max_latency_us = 10000000;

/* For a report of usdmactl bringup: answers as the device did, by the model of its driver. -errno with a text. */
int set_replay(const std::string &path, config *out);
/* As set, or those of the model. */
u32 channels_of(const config &cfg);

/* "sim[:key=value]…" over the defaults. -EINVAL with a text that names the key and what it takes. */
int parse_config(std::string_view spec, config *out);
/* Of any device, which is not opened: a device string, of a software device with values that it takes. -EINVAL. */
int check_device(std::string_view spec);
/* One "key=value"; also used by the options of usdma-sim. */
int parse_setting(std::string_view setting, config *out);
/*
 * Checks combinations of settings (more engines than channels). Whether a CPU may be used is only known when an
 * engine starts.
 */
int check_config(const config &cfg);

} // namespace usdma::sim
#pragma GCC visibility pop
