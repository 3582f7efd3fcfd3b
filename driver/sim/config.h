/* SPDX-License-Identifier: BSD-3-Clause */
/* What a software device shall be: the same settings for the embedded one and for usdma-sim. */
#pragma once

#include "driver/base/types.h"
#include "driver/copy/copy.h"

#include <string>
#include <string_view>
#include <vector>

namespace usdma::sim {

/* Device memory in pages of 2 MiB: if the kernel makes some; never; only from those that are reserved. */
enum class huge_pages : u8 { advise, off, require };

struct config {
	u64 mem = GiB;                        /* mem=SIZE: device memory, sparse until touched */
	bool has_mem = true;                  /* nomem=1: a variant without device memory and without BAR2 */
	u64 share = u64(1) << 40;             /* share=SIZE: of its files a client may map so much at a time */
	bool any_file = false;                /* files=any: not only memfds and files of tmpfs and hugetlbfs */
	huge_pages huge = huge_pages::advise; /* huge=off|advise|require */
	bool stale = false;  /* stale=1: it is not zero at first but full of stale_byte, as if another user had left it,
				and does not  say so */
	u32 engines = 2;     /* engines=N: engines, a thread each */
	u32 channels = 64;   /* channels=N */
	u32 spin_us = 50;    /* spin=US: an idle engine polls so long before it sleeps */
	u32 latency_us = 0;  /* latency=US: a descriptor ends no sooner after it began */
	u64 rate = 0;        /* rate=BYTES: a second, of each engine; 0: as fast as it can */
	bool faulty = false; /* faults=RULES (fault_plan.h): faults on demand; "faults=" alone: to be asked for later */
	std::string faults;
	usdma::copy_rows copy_rows = usdma::copy_rows::automatic; /* copy_rows=auto|1|2|4 */
	std::vector<int> cpus; /* cpus=2+3: engine i runs on the (i mod n)-th of these; empty: anywhere */
};

inline constexpr u8 stale_byte = 0xa5;
inline constexpr u64 min_mem = 64 * KiB, max_mem = u64(1) << 44;
inline constexpr u32 max_engines = 64, max_spin_us = 10000000, max_latency_us = 10000000;

/* "sim[:key=value]…" over the defaults. -EINVAL with a text that names the key and what it takes. */
int parse_config(std::string_view spec, config *out);
/* One "key=value"; what usdma-sim's options go through as well. */
int parse_setting(std::string_view setting, config *out);
/*
 * What is only wrong as a whole (more engines than channels).  Whether a CPU may be used shows when an engine
 * starts.
 */
int check_config(const config &cfg);

} // namespace usdma::sim
