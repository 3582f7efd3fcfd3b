/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings.  config_get() is the one place in the libraries that reads the
 * environment (and the configuration file); it does so once, at first use.
 * Everything else asks here.
 *
 * The file is the one that USDMA_CONFIG names, else /etc/usdma/usdma.conf if it
 * is there: lines `key = value` with the variables' names in small letters and
 * without USDMA_ (`wait = hybrid`), # begins a comment.  The environment wins.
 */
#pragma once

#include "driver/base/log.h"
#include "driver/base/types.h"

#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace usdma::core {

enum class wait_mode : u8 { poll, interrupt, hybrid };

struct config {
	std::vector<std::string> devices;    /* USDMA_DEVICES; USDMA_SIM_CPUS=2,3 adds ":cpus=2+3" to each sim without */
	wait_mode wait = wait_mode::hybrid;  /* USDMA_WAIT=poll|interrupt|hybrid */
	u32 spin_us = 50;                    /* USDMA_SPIN_US: most that a hybrid wait spins */
	u64 bounce_chunk = 512 * KiB;        /* USDMA_BOUNCE_CHUNK: bytes of one staging buffer */
	u32 bounce_count = 4;                /* USDMA_BOUNCE_COUNT: staging buffers of one pageable copy */
	u64 direct_store_max = 4 * KiB;      /* USDMA_DIRECT_STORE: pageable copies up to this go through the BAR; 0: none */
	u64 host_arena = 32 * MiB;           /* USDMA_HOST_ARENA: grain of pinned memory */
	int huge_pages = -1;                 /* USDMA_HUGE_PAGES=0|1: never, always; default: where there are some */
	int numa_node = -1;                  /* USDMA_NUMA_NODE: of pinned memory; -1: the device's */
	u32 hang_ms = 30000;                 /* USDMA_HANG_MS: no progress for so long while work is pending: device lost */
	u64 pool_size = 256 * MiB;           /* USDMA_POOL_SIZE: memory lent to a device that has none of its own */
	bool lend_memory = false;            /* USDMA_LEND_MEMORY=1: also to devices that have some (a small one, a slow one) */
	u64 first_seq = 0;                   /* USDMA_FIRST_SEQ: channels count from here (tests) */
	bool io_uring = true;                /* USDMA_IO_URING=0: wait with ppoll */
	u64 stripe_min = 0;                  /* USDMA_STRIPE_MIN: copies from this size are striped over units; 0: chosen by the library */
	log_level log = log_level::warn;     /* USDMA_LOG=none|error|warn|info|debug */
	std::string error;                   /* a bad value: named here, reported by the first call that opens a device */
};

const config &config_get();

/* The word of a variable of the environment, for front ends that have their own (ASCEND_RT_VISIBLE_DEVICES). */
const char *config_env(const char *name);

/* What config_get does, with the environment that lookup says. */
using config_lookup = const char *(*)(const char *name, void *arg);
config config_parse(config_lookup lookup, void *arg);

} // namespace usdma::core
#pragma GCC visibility pop
