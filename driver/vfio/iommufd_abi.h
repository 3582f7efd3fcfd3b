/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The subset of iommufd's ABI that is used here, under our own names, since the build machine's kernel headers
 * may be older (linux/iommufd.h since 6.2, the VFIO device ioctls since 6.6).
 */
#pragma once

#include "driver/base/types.h"

#include <linux/vfio.h>

namespace usdma::vfio::abi {

/* Each structure begins with its size; fields unknown to the kernel must be zero. */
struct ioas_alloc {
	u32 size;
	u32 flags;
	u32 out_ioas_id;
};
struct iova_range {
	u64 start;
	u64 last;
};
struct ioas_iova_ranges {
	u32 size;
	u32 ioas_id;
	u32 num_iovas;
	u32 reserved;
	u64 allowed_iovas; /* pointer to iova_range */
	u64 out_iova_alignment;
};
struct ioas_map {
	u32 size;
	u32 flags;
	u32 ioas_id;
	u32 reserved;
	u64 user_va;
	u64 length;
	u64 iova;
};
struct ioas_unmap {
	u32 size;
	u32 ioas_id;
	u64 iova;
	u64 length;
};
static_assert(sizeof(ioas_alloc) == 12 && sizeof(ioas_iova_ranges) == 32);
static_assert(sizeof(ioas_map) == 40 && sizeof(ioas_unmap) == 24);

enum : u32 { map_fixed = 1, map_writeable = 2, map_readable = 4 };

inline constexpr unsigned long ioctl_ioas_alloc = _IO(';', 0x81), ioctl_ioas_iova_ranges = _IO(';', 0x84),
			       ioctl_ioas_map = _IO(';', 0x85), ioctl_ioas_unmap = _IO(';', 0x86);

struct device_bind {
	u32 argsz;
	u32 flags;
	s32 iommufd;
	u32 out_devid;
};
struct device_attach {
	u32 argsz;
	u32 flags;
	u32 pt_id;
};
static_assert(sizeof(device_bind) == 16 && sizeof(device_attach) == 12);

inline constexpr unsigned long ioctl_device_bind = _IO(VFIO_TYPE, VFIO_BASE + 18),
			       ioctl_device_attach = _IO(VFIO_TYPE, VFIO_BASE + 19);

#ifdef VFIO_DEVICE_BIND_IOMMUFD
static_assert(ioctl_device_bind == VFIO_DEVICE_BIND_IOMMUFD && ioctl_device_attach == VFIO_DEVICE_ATTACH_IOMMUFD_PT);
static_assert(sizeof(device_bind) <= sizeof(vfio_device_bind_iommufd));
#endif

} // namespace usdma::vfio::abi
