/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vfio-user wire protocol, version 0.x as in QEMU's docs/interop/vfio-user.rst. All in host byte order;
 * each payload follows the header. Payloads whose name ends in _head are followed by more bytes.
 */
#pragma once

#include "driver/base/types.h"

namespace usdma::vfio::proto {

enum class command : u16 {
	version = 1,
	dma_map = 2,
	dma_unmap = 3,
	device_get_info = 4,
	device_get_region_info = 5,
	device_get_region_io_fds = 6,
	device_get_irq_info = 7,
	device_set_irqs = 8,
	region_read = 9,
	region_write = 10,
	dma_read = 11,  /* server → client */
	dma_write = 12, /* server → client */
	device_reset = 13,
	region_write_multi = 15,
};

enum : u32 {
	flag_type_mask = 0xf,
	type_command = 0,
	type_reply = 1,
	flag_no_reply = 1u << 4,
	flag_error = 1u << 5,
};

struct header {
	u16 id; /* chosen by the sender; returned in the reply */
	u16 cmd;
	u32 size; /* of the whole message, header included */
	u32 flags;
	u32 error; /* an errno (may be 0) where flag_error is set */
};
static_assert(sizeof(header) == 16 && offsetof(header, size) == 4 && offsetof(header, error) == 12);

inline constexpr u16 version_major = 0;
inline constexpr u16 version_minor = 1;

/* Followed by JSON with its terminating NUL; both may be absent. */
struct version_head {
	u16 major;
	u16 minor;
};
static_assert(sizeof(version_head) == 4);

/* Defaults if the peer's JSON does not set them. */
inline constexpr u32 default_max_msg_fds = 1;
inline constexpr u64 default_max_data_xfer = 1048576;
inline constexpr u32 default_max_dma_maps = 65535;
inline constexpr u64 default_pgsizes = 4096;

/* Limits of this implementation for messages and descriptors received from any peer. */
inline constexpr u32 our_max_msg_fds = 64;
/* Proposed by our client: a server may lower it, and assumes 65535 if none is proposed. */
inline constexpr u64 our_max_dma_maps = 4194304;
inline constexpr u64 our_max_data_xfer = 1048576;
inline constexpr u32 our_max_message = u32(our_max_data_xfer) + 4096;

enum : u32 { dma_readable = 1, dma_writable = 2 };

/* With a descriptor: the server may map it at offset. Without: the server uses dma_read and dma_write. */
struct dma_map {
	u32 argsz;
	u32 flags; /* dma_readable | dma_writable */
	u64 offset;
	u64 address;
	u64 size;
};
static_assert(sizeof(dma_map) == 32 && offsetof(dma_map, address) == 16);

/* The reply carries the same structure. */
struct dma_unmap {
	u32 argsz;
	u32 flags;
	u64 address;
	u64 size;
};
static_assert(sizeof(dma_unmap) == 24 && offsetof(dma_unmap, address) == 8);

enum : u32 { device_flag_reset = 1, device_flag_pci = 2 };

struct device_info {
	u32 argsz;
	u32 flags;
	u32 num_regions;
	u32 num_irqs;
};
static_assert(sizeof(device_info) == 16);

enum : u32 { region_flag_read = 1, region_flag_write = 2, region_flag_mmap = 4, region_flag_caps = 8 };

/* As struct vfio_region_info; capabilities follow. With region_flag_mmap the reply carries a descriptor. */
struct region_info {
	u32 argsz;
	u32 flags;
	u32 index;
	u32 cap_offset; /* from the start of this structure */
	u64 size;
	u64 offset; /* of the region in the descriptor */
};
static_assert(sizeof(region_info) == 32 && offsetof(region_info, size) == 16);

struct cap_head {
	u16 id;
	u16 version;
	u32 next; /* from the start of region_info; 0: the last */
};
static_assert(sizeof(cap_head) == 8);

inline constexpr u16 cap_sparse_mmap = 1;

/* Follows cap_head; nr_areas sparse_area follow. */
struct sparse_head {
	u32 nr_areas;
	u32 reserved;
};
struct sparse_area {
	u64 offset;
	u64 size;
};
static_assert(sizeof(sparse_head) == 8 && sizeof(sparse_area) == 16);

/* Followed by count io_fd in the reply; descriptors are passed alongside. */
struct io_fds_head {
	u32 argsz;
	u32 flags;
	u32 index;
	u32 count;
};
static_assert(sizeof(io_fds_head) == 16);

enum : u32 { io_fd_ioeventfd = 0, io_fd_ioregionfd = 1 };
enum : u32 { ioeventfd_flag_datamatch = 1 }; /* KVM_IOEVENTFD_FLAG_DATAMATCH */

struct io_fd {
	u64 offset; /* in the region */
	u64 size;   /* 0: of any size */
	u32 fd_index;
	u32 type;
	u32 flags;
	u32 padding;
	u64 datamatch;
};
static_assert(sizeof(io_fd) == 40 && offsetof(io_fd, datamatch) == 32);

enum : u32 { irq_flag_eventfd = 1, irq_flag_maskable = 2, irq_flag_automasked = 4, irq_flag_noresize = 8 };

struct irq_info {
	u32 argsz;
	u32 flags;
	u32 index;
	u32 count;
};
static_assert(sizeof(irq_info) == 16);

enum : u32 {
	irq_set_data_none = 1,
	irq_set_data_bool = 2,
	irq_set_data_eventfd = 4,
	irq_set_action_mask = 8,
	irq_set_action_unmask = 16,
	irq_set_action_trigger = 32,
};

/*
 * Data follows for irq_set_data_bool only; eventfds are passed as descriptors: either count of them, or none to
 * disable the vectors.
 */
struct irq_set_head {
	u32 argsz;
	u32 flags;
	u32 index;
	u32 start;
	u32 count;
};
static_assert(sizeof(irq_set_head) == 20);

/* Read: data in the reply; write: data in the command. */
struct region_access_head {
	u64 offset;
	u32 region;
	u32 count;
};
static_assert(sizeof(region_access_head) == 16);

struct dma_access_head {
	u64 address;
	u64 count;
};
static_assert(sizeof(dma_access_head) == 16);

/* region_write_multi is not offered (its capability is never set), so it has no structure here. */

} // namespace usdma::vfio::proto
