/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A VFIO device, independent of the backend: the kernel (group + type1 container, or cdev + iommufd) or a
 * vfio-user server. One file per backend.
 *
 * All calls are slow-path, may block up to the transport's deadline, and are thread-safe. They return 0 or
 * -errno and set error_text(). -ENODEV: the device (or its server) is lost.
 */
#pragma once

#include "driver/base/barrier.h"
#include "driver/base/mapping.h"
#include "driver/base/types.h"

#include <cerrno>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace usdma::vfio {

/* Region and interrupt indexes of a PCI device (linux/vfio.h: VFIO_PCI_*_REGION_INDEX, VFIO_PCI_*_IRQ_INDEX). */
enum : unsigned { region_bar0 = 0, region_bar2 = 2, region_bar4 = 4, region_config = 7, region_count = 9 };
enum : unsigned { irq_intx = 0, irq_msi = 1, irq_msix = 2, irq_err = 3, irq_req = 4 };

enum : u32 { region_readable = 1, region_writable = 2, region_mappable = 4 };
enum : u32 { dma_read = 1, dma_write = 2 }; /* as the device sees it */

struct range {
	u64 start, last; /* inclusive */
};

struct region_info {
	u64 size = 0;
	u32 flags = 0;
	std::vector<range> mappable; /* offsets that region_map accepts; empty with region_mappable: all of it */
};

struct irq_info {
	u32 count = 0;
	u32 share = ~u32(0); /* use at most so many, to leave some to the machine's other devices */
};

/*
 * Incremented before lost() of any device of this process becomes true: one load shows whether one may be lost. And
 * once more after that, since a search in between finds nothing.
 */
extern u32 losses; /* atomic */

/* What is shared with a server in another process. */
enum class server_trust : u8 {
	no,      /* no memory in either direction: all accesses are messages */
	checked, /* memory that neither side can revoke from the other */
	yes,     /* any memory: the server can kill this process by truncating a mapped file */
};

/* Host memory that the device may access. vaddr, iova and size are page multiples. */
struct dma_area {
	u64 iova = 0;
	u64 size = 0;
	void *vaddr = nullptr;
	u32 prot = dma_read | dma_write;
	int fd = -1;       /* the file that backs vaddr, -1: none (ordinary anonymous memory) */
	u64 fd_offset = 0; /* of vaddr in fd */
	/*
	 * The bytes that the device may access, where each access is checked; used 0: all. Otherwise access is by
	 * page.
	 */
	u64 skip = 0, used = 0;
};

struct address_limits {
	std::vector<range> usable; /* IOVAs that may be mapped, sorted, disjoint */
	u64 page_size = 4096;      /* smallest mapping */
	u64 max_mappings = 0;      /* 0: unknown */
};

class device;
/* Whether the command register reads as that of an absent function. */
bool command_is_unknown(u16 command);
#pragma GCC visibility push(default) /* for libusdma-sim, too */
/* The default of answers(). */
int config_answers(device &dev);
/* Config space reads, for all backends and the tools. */
int config_read16(device &dev, unsigned offset, u16 *out);
int config_read32(device &dev, unsigned offset, u32 *out);
/* False: it was set before. */
bool set_lost(bool *lost);
#pragma GCC visibility pop

class device {
public:
	virtual ~device() = default;

	virtual int region(unsigned index, region_info *out) = 0;
	/* Maps [offset, offset+size) of a region; -EOPNOTSUPP: not mappable. */
	virtual int region_map(unsigned index, u64 offset, u64 size, mapping *out) = 0;
	/* One access of 1, 2, 4 or 8 bytes, or a longer copy (config space, device memory). */
	virtual int region_read(unsigned index, u64 offset, void *buf, size_t len) = 0;
	virtual int region_write(unsigned index, u64 offset, const void *buf, size_t len) = 0;
	/* One access, posted as on the bus: it takes effect before later requests, maybe after the return. */
	virtual int region_post(unsigned index, u64 offset, const void *buf, size_t len)
	{
		return region_write(index, offset, buf, len);
	}
	/* The file that backs a mappable region, to share it with others; borrowed; -1: none. */
	virtual int region_fd(unsigned index, u64 *fd_offset) = 0;
	/*
	 * An eventfd whose signal is a write to the register at this offset (an "ioeventfd"); borrowed; -1: none, use
	 * region_write.
	 */
	virtual int region_doorbell_fd(unsigned index, u64 offset) = 0;
	/* Signals it, without blocking whatever its peer does with it. False: use region_write. */
	virtual bool doorbell_ring(int fd)
	{
		const u64 one = 1;

		/* Full counter (-EAGAIN): the device is already being woken. */
		return syscall(SYS_write, fd, &one, sizeof(one)) == long(sizeof(one)) || errno == EAGAIN;
	}

	virtual int irq(unsigned index, irq_info *out) = 0;
	/* Vectors [first, first+fds.size()) signal these eventfds; -1 disables a vector. */
	virtual int irq_set(unsigned index, unsigned first, std::span<const int> fds) = 0;

	virtual int limits(address_limits *out) = 0;
	/* Maps; on return the device can access it. -EEXIST: overlaps; -ENOSPC: too many mappings; -ENOMEM: memlock. */
	virtual int dma_map(const dma_area &area) = 0;
	/* On return the device can no longer access it. iova and size exactly as mapped. */
	virtual int dma_unmap(u64 iova, u64 size) = 0;

	/*
	 * Function-level reset; mappings and interrupt configuration are unchanged for vfio-user, as with the
	 * kernel's VFIO.
	 */
	virtual int reset() = 0;

	/*
	 * Sets one deadline for all following requests together, after which the connection is closed: opening and
	 * closing a device are many requests. 0: back to a timeout for each.
	 */
	virtual void set_deadline(u64 ms) { (void)ms; }
	/*
	 * Of the calling thread: each request waits for at most this long, then -ETIMEDOUT. 0: as the others' do. One
	 * thread at a time.
	 */
	virtual void limit_wait(u64 ms) { (void)ms; }
	/* Permanently lost: unplugged, or its server died. Any thread, no system call. */
	virtual bool lost() const = 0;
	/* It is being removed: bus mastering is off, or about to be, for good. Any thread. */
	virtual bool is_leaving() const { return lost(); }
	/* Probes the device: 0; -ENODEV: it is lost, and marked so. A bus access: not for the hot path. */
	virtual int answers() { return config_answers(*this); }
	/* Becomes readable (and stays) when the device is lost; borrowed; -1: none. */
	virtual int lost_fd() const = 0;
	/*
	 * For a device that is no longer used. 0: it is certain not to access this process's memory any more.
	 * -EAGAIN: not certain (yet); call again. A lost device may only hang (a stopped server, a paused machine)
	 * and later continue its work. Never blocks. The first call closes the connection.
	 */
	virtual int quiesce() { return -EAGAIN; }

	virtual const char *name() const = 0;    /* "0000:00:04.0", "vfio-user:PATH", "sim" */
	virtual const char *backend() const = 0; /* "vfio-user", "type1", "iommufd" */
	virtual int numa_node() const { return -1; }
	/*
	 * Memory mapped with a file stays accessible to the device after unmap and close: the file was sent to
	 * another process, which may have kept it.
	 */
	virtual bool retains_files() const { return false; }
	/* The device is reset by each opening (vfio-user), since no other party is between it and this process. */
	virtual bool own_connection() const { return false; }

	/* For a software device in this process: injects faults (rules: driver/sim/fault_plan.h). */
	virtual int inject(std::string_view) { return -EOPNOTSUPP; }
	/* A line for each rule: how often it was checked, how often it applied. */
	virtual int injected(std::string *) { return -EOPNOTSUPP; }
};

/* Sets or clears bits of the PCI command register (PCI 3.0 §6.2.2). */
[[gnu::visibility("default")]] int config_bus_master(device &dev, bool on);

} // namespace usdma::vfio
