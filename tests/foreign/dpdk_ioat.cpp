/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DPDK's I/OAT driver on our model, in DPDK's own process: preloaded into dpdk-test (tests/foreign/dpdk). The driver's
 * probe uses nothing of a PCI device but the address of its BAR. So rte_pci_register is defined here, which keeps the
 * driver, and rte_eal_init, which then calls its probe with a device of ours.
 *
 * The BAR is a page that may not be accessed. Each access of the driver faults; it is run as one step on a page that
 * shows the register, and what it wrote goes to the model. So registers act as those of hardware, at once and also for
 * equal values.
 */
#include "driver/base/error.h"
#include "driver/dma/registry.h"
#include "driver/hw/ioat_regs.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <ucontext.h>

using namespace usdma;

/* DPDK 22.11: lib/eal/include/dev_driver.h, drivers/bus/pci/bus_pci_driver.h, lib/eal/include/rte_memory.h. */
struct pci_driver {
	void *next[2];
	struct {
		void *next[2];
		const char *name, *alias;
	} driver;
	int (*probe)(pci_driver *, void *);
};

struct pci_device {
	void *next[2];
	struct {
		void *next[2];
		const char *name, *bus_info;
		const void *driver, *bus;
		int numa_node;
		void *devargs;
	} device;
	struct {
		u32 domain;
		u8 bus, devid, function;
	} addr;
	u32 id[3];
	struct {
		u64 phys_addr, len;
		void *addr;
	} mem_resource[6];
	u64 more[16];
};
static_assert(offsetof(pci_device, mem_resource) == 104);

struct memseg {
	u64 iova;
	void *addr;
	size_t len;
};

struct reg {
	u32 at, size;
};

static pci_driver *ioat_driver;
static std::unique_ptr<vfio::device> model;
static u8 *bar;
static reg pending; /* what a write that is being run writes; size 0: a read */
static constexpr u64 page = 4096;

/* ---- register accesses --------------------------------------------------------------------------------- */

/* The register that has the byte. */
static reg reg_of(u32 byte)
{
	static constexpr reg wide[] = {{0x04, 4}, {0x0c, 2}, {0x0e, 2}, {0x10, 4}, {0x80, 2}, {0x86, 2},
				       {0x88, 8}, {0x90, 8}, {0x98, 8}, {0xa8, 4}, {0xac, 4}};

	for (const reg &w : wide)
		if (byte - w.at < w.size)
			return w;
	return {byte, 1};
}

/* The bytes that a MOV to memory writes (Intel's manual, volume 2); 0: another instruction. */
static u32 width_of(const u8 *code)
{
	bool narrow = false, wide = false;

	for (; *code == 0x66 || (*code & 0xf0) == 0x40; code++) {
		narrow |= *code == 0x66;
		wide |= *code != 0x66 && *code & 8;
	}
	if (*code == 0x88 || *code == 0xc6)
		return 1;
	if (*code == 0x89 || *code == 0xc7)
		return wide ? 8 : narrow ? 2 : 4;
	return 0;
}

[[noreturn]] static void give_up(const char *what)
{
	fprintf(stderr, "dpdk_ioat: %s: %s\n", what, error_text());
	_exit(99);
}

static void on_fault(int, siginfo_t *info, void *context)
{
	auto &regs = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
	const u64 at = u64(static_cast<u8 *>(info->si_addr) - bar);
	const bool writes = regs[REG_ERR] & 2;

	if (at >= page) {
		signal(SIGSEGV, SIG_DFL); /* not ours: it faults again */
		return;
	}
	mprotect(bar, page, PROT_READ | PROT_WRITE);
	const reg r = reg_of(u32(at));
	const u32 width = width_of(reinterpret_cast<const u8 *>(regs[REG_RIP]));
	if (!writes && model->region_read(vfio::region_bar0, r.at, bar + r.at, r.size))
		give_up("a register is not read");
	if (writes && !width)
		give_up("a register is written by another instruction than MOV");
	pending = {u32(at), writes ? width : 0};
	regs[REG_EFL] |= 0x100; /* one instruction, then SIGTRAP */
}

static void on_step(int, siginfo_t *, void *context)
{
	auto &regs = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;

	regs[REG_EFL] &= ~0x100;
	if (pending.size && model->region_write(vfio::region_bar0, pending.at, bar + pending.at, pending.size))
		give_up("a register is not written");
	mprotect(bar, page, PROT_NONE);
}

/* ---- set-up -------------------------------------------------------------------------------------------- */

/* DPDK's addresses are IOVAs. */
static int map_segment(const void *, const memseg *ms, size_t len, void *)
{
	if (model->dma_map({.iova = ms->iova, .size = len, .vaddr = ms->addr}))
		give_up("memory of DPDK is not mapped");
	return 0;
}

static void handle(int signal, void (*how)(int, siginfo_t *, void *))
{
	struct sigaction act = {};

	act.sa_sigaction = how;
	act.sa_flags = SA_SIGINFO;
	sigaction(signal, &act, nullptr);
}

/* Whether the injected faults happened. */
static void report()
{
	std::string rules;

	if (!model->injected(&rules))
		printf("dpdk_ioat: rules: %s", rules.c_str());
}

static void attach()
{
	using walk = int (*)(int (*)(const void *, const memseg *, size_t, void *), void *);
	static pci_device dev;
	const char *spec = getenv("USDMA_TEST_DEVICE");

	if (dma::open_device(spec ? spec : "sim:model=ioat", &model) || vfio::config_bus_master(*model, true))
		give_up("no model");
	bar = static_cast<u8 *>(mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	handle(SIGSEGV, on_fault);
	handle(SIGTRAP, on_step);
	reinterpret_cast<walk>(dlsym(RTLD_DEFAULT, "rte_memseg_contig_walk"))(map_segment, nullptr);
	dev.addr.bus = 1;
	dev.device.name = "0000:01:00.0";
	dev.mem_resource[0] = {0, page, bar};
	const int err = ioat_driver->probe(ioat_driver, &dev);
	printf("dpdk_ioat: probe: %d\n", err);
	atexit(report);
	if (err)
		_exit(98);
}

extern "C" __attribute__((visibility("default"))) void rte_pci_register(pci_driver *d)
{
	using function = void (*)(pci_driver *);

	if (strstr(d->driver.name, "dmadev_ioat"))
		ioat_driver = d;
	else
		reinterpret_cast<function>(dlsym(RTLD_NEXT, "rte_pci_register"))(d);
}

extern "C" __attribute__((visibility("default"))) int rte_eal_init(int argc, char **argv)
{
	using function = int (*)(int, char **);
	const int used = reinterpret_cast<function>(dlsym(RTLD_NEXT, "rte_eal_init"))(argc, argv);

	if (used >= 0 && ioat_driver)
		attach();
	return used;
}
