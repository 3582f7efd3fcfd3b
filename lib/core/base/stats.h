/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters that other processes can read while this one runs (usdmactl stat): a page in a memfd, which its
 * owner and root find below /proc/PID/fd. The counters are updated in place. The file is freed when the process
 * exits, however that happens.
 */
#pragma once

#include "driver/base/types.h"
#include "driver/base/wakes.h"

namespace usdma::core {

inline constexpr char stats_name[] = "usdma-stats"; /* of the memfd */
inline constexpr char stats_magic[8] = {'u', 's', 'd', 'm', 'a', 's', 't', '1'};
inline constexpr u32 stats_version = 1;
inline constexpr unsigned stats_slots = 16, stats_hw_queues = 1024;

/*
 * Counters of one hardware queue, one cache line: changed under the hardware queue's lock (wakes, sleeps and
 * spins without it).
 */
struct alignas(64) hwq_counters {
	u64 copies = 0, bytes = 0, requests = 0, doorbells = 0, wakes = 0, faults = 0, sleeps = 0, spins = 0;
};
static_assert(sizeof(hwq_counters) == 64);

struct stats_slot {
	char spec[96];   /* the device string, shortened if longer */
	char driver[16]; /* the engine's driver */
	u32 open;        /* 1: the device is open, and the rest is valid; written last */
	u32 hw_queues;   /* number of count entries in use, from the first */
	u64 opened_ns;   /* CLOCK_MONOTONIC */
};
static_assert(sizeof(stats_slot) == 128);

/* Bytes of the device's memory; size: all of it, used: by the process. */
struct stats_memory_use {
	u64 used, size;
};

struct alignas(4096) stats_head {
	char magic[8];
	u32 version, pid;
	u32 slots, hw_queues; /* the arrays' sizes */
	u64 retained_devices; /* devices lost and closed that may still write */
	u64 retained_bytes;   /* host memory retained for them */
	wake_counts wakes;    /* of all threads */
	u64 reserved;
	stats_slot slot[stats_slots];
	stats_memory_use memory[stats_slots];
};

struct stats_page {
	stats_head head;
	alignas(4096) hwq_counters count[stats_slots][stats_hw_queues];
};

/* A device opens: resets its counters. -ENOMEM. */
int stats_open(unsigned slot, const char *spec, const char *driver, u64 opened_ns);
void stats_close(unsigned slot);
/* Publishes the number of retired devices and the bytes retained for them. */
void stats_retain(u64 devices, u64 bytes);
/* Publishes the use of a device's memory. */
void stats_memory(unsigned slot, u64 used, u64 size);
/* The counters of a hardware queue; never unmapped. Call between stats_open() and stats_close() of its slot. */
hwq_counters *stats_hw_queue(unsigned slot, unsigned hw_queue);

} // namespace usdma::core
