/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A VFIO device, whatever carries it: the kernel (group + type1 container, or
 * cdev + iommufd) or a vfio-user server.  One file a backend.
 *
 * All calls are slow-path, may block up to the transport's deadline, and are
 * thread-safe against each other.  They return 0 or -errno and leave a text in
 * error_text().  -ENODEV: the device (or its server) is gone.
 */
#pragma once

#include "driver/base/mapping.h"
#include "driver/base/types.h"

#include <atomic>
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
	std::vector<range> mappable; /* offsets that region_map takes; all of it where flags say so and this is empty */
};

struct irq_info {
	u32 count = 0;
	u32 share = ~u32(0); /* no more than so many leave the other devices of the machine some */
};

/* Grows before lost() of any device of this process turns true: whether one is gone, by a look at one word. */
inline std::atomic<u32> losses{0};

/* What is shared with a server of another process. */
enum class server_trust : u8 {
	no, /* no memory, either way: it reaches the client's by messages, and the client its registers and memory */
	checked, /* memory that neither side can take away from under the other */
	yes,     /* any: such a server can end this process, by cutting short what it has mapped */
};

/* Host memory that the device may reach.  vaddr, iova and size are page multiples. */
struct dma_area {
	u64 iova = 0;
	u64 size = 0;
	void *vaddr = nullptr;
	u32 prot = dma_read | dma_write;
	int fd = -1;       /* the file that backs vaddr, -1: none (ordinary anonymous memory) */
	u64 fd_offset = 0; /* of vaddr in fd */
	/*
	 * Of it the bytes that the device shall reach, where each access is checked; used 0: all.  Else the
	 * page is the unit.
	 */
	u64 skip = 0, used = 0;
};

struct address_limits {
	std::vector<range> usable; /* IOVAs that may be mapped, sorted, disjoint */
	u64 page_size = 4096;      /* smallest mapping */
	u64 max_mappings = 0;      /* 0: not known */
};

class device;
/* What is read of the command register of a function that is gone. */
bool command_of_nobody(u16 command);
/* What answers() is where a device knows no better. */
int config_answers(device &dev);

class device {
public:
	virtual ~device() = default;

	virtual int region(unsigned index, region_info *out) = 0;
	/* Maps [offset, offset+size) of a region; -EOPNOTSUPP where it cannot be mapped. */
	virtual int region_map(unsigned index, u64 offset, u64 size, mapping *out) = 0;
	/* One access of 1, 2, 4 or 8 bytes, or a longer run of bytes (config space, device memory). */
	virtual int region_read(unsigned index, u64 offset, void *buf, size_t len) = 0;
	virtual int region_write(unsigned index, u64 offset, const void *buf, size_t len) = 0;
	/* A file that backs a mappable region, for sharing it with others; borrowed; -1: none. */
	virtual int region_fd(unsigned index, u64 *fd_offset) = 0;
	/*
	 * An eventfd whose write acts as a write to the register at this offset
	 * (an "ioeventfd"); borrowed; -1: none, use region_write.
	 */
	virtual int region_doorbell_fd(unsigned index, u64 offset) = 0;
	/* Writes such a one, without blocking whatever its other end does with it.  False: use region_write. */
	virtual bool doorbell_ring(int fd)
	{
		const u64 one = 1;

		/* A full counter (-EAGAIN) means that the device is being woken already. */
		return syscall(SYS_write, fd, &one, sizeof(one)) == long(sizeof(one)) || errno == EAGAIN;
	}

	virtual int irq(unsigned index, irq_info *out) = 0;
	/* Vectors [first, first+fds.size()) signal these eventfds; -1 switches a vector off. */
	virtual int irq_set(unsigned index, unsigned first, std::span<const int> fds) = 0;

	virtual int limits(address_limits *out) = 0;
	/* Maps; on return the device can reach it.  -EEXIST: overlaps; -ENOSPC: too many mappings; -ENOMEM: memlock. */
	virtual int dma_map(const dma_area &area) = 0;
	/* On return the device no longer reaches it.  iova and size exactly as mapped. */
	virtual int dma_unmap(u64 iova, u64 size) = 0;

	/*
	 * Function-level reset; mappings and interrupt set-up stay as they were for vfio-user, as the kernel
	 * does for VFIO.
	 */
	virtual int reset() = 0;

	/*
	 * What is asked from now on is answered within this time, all together, or the connection ends: opening and
	 * closing a device are many questions.  0: each has its own time again.
	 */
	virtual void hurry(u64 ms) { (void)ms; }
	/* Gone for good: unplugged, or its server died.  Any thread, no system call. */
	virtual bool lost() const = 0;
	/* Asks it: 0; -ENODEV: it is gone, and lost from now on.  A bus access: not for the path of a copy. */
	virtual int answers() { return config_answers(*this); }
	/* Becomes readable (and stays) when the device is lost; borrowed; -1: none. */
	virtual int lost_fd() const = 0;
	/*
	 * For a device that is not used any more.  0: proven that it touches no memory of this process from now on.
	 * -EAGAIN: not proven (yet); ask again.  One that is lost may only hang (a server that was stopped, a
	 * machine that was paused) and go on with what it was told.  Never waits.  The first call ends the connection.
	 */
	virtual int quiesce() { return -EAGAIN; }

	virtual const char *name() const = 0;    /* "0000:00:04.0", "vfio-user:PATH", "sim" */
	virtual const char *backend() const = 0; /* "vfio-user", "type1", "iommufd" */
	virtual int numa_node() const { return -1; }
	/*
	 * What was mapped with a file stays within its reach after its end, and after the device's: the file was sent
	 * to another process, which may have kept it.
	 */
	virtual bool keeps_files() const { return false; }
	/* The device begins anew with this opening (vfio-user), for there is nobody between it and this process. */
	virtual bool own_connection() const { return false; }

	/* A software device in this process: faults on demand (driver/sim/fault_plan.h has the rules). */
	virtual int inject(std::string_view) { return -EOPNOTSUPP; }
	/* A line for each rule: how often it was asked, how often it struck. */
	virtual int injected(std::string *) { return -EOPNOTSUPP; }
};

/* What every backend and the tools share: reads from config space. */
int config_read16(device &dev, unsigned offset, u16 *out);
int config_read32(device &dev, unsigned offset, u32 *out);
/* Sets or clears bits of the PCI command register (PCI 3.0 §6.2.2). */
int config_bus_master(device &dev, bool on);

} // namespace usdma::vfio
