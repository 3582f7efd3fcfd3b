/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a driver of DPDK on one of our models in the process of dpdk-test, into which this is preloaded
 * (tests/foreign/dpdk). Of a PCI device the driver's probe uses only the addresses of its BARs. So this file defines
 * rte_pci_register, which stores the driver, and rte_eal_init, which then calls its probe with our device.
 *
 * A BAR is mapped without access permissions. Each access of the driver faults. The handler copies the register's value
 * into the page and single-steps the instruction; a written value is then passed to the model. So registers act at once
 * as those of hardware, also for a write of an unchanged value.
 *
 * Each engine's source defines the_target.
 */
#pragma once

#include "driver/base/error.h"
#include "driver/dma/registry.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <ucontext.h>

namespace usdma::preload {

struct reg {
	u64 at;
	u32 size; /* 0: none */
};

/* The parameters of an engine. */
struct target {
	const char *driver, *device;
	struct {
		unsigned region;
		u64 size; /* 0: none */
	} bars[2];
	reg (*reg_of)(unsigned region, u64 at); /* the register that contains this byte */
};
extern const target the_target;

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

static pci_driver *probed_driver;
static std::unique_ptr<vfio::device> model;

struct window {
	unsigned region;
	u64 size;
	u8 *base;
};
static window windows[2];
static window *stepping; /* the window of the access that is single-stepped */
static reg pending;      /* the bytes that it writes; size 0: a read */

/* ---- register accesses --------------------------------------------------------------------------------- */

[[noreturn]] static void give_up(const char *what)
{
	fprintf(stderr, "dpdk_preload: %s: %s\n", what, error_text());
	_exit(99);
}

static void write_register(window &w, const reg &r)
{
	if (model->region_write(w.region, r.at, w.base + r.at, r.size))
		give_up("writing a register failed");
}

/* From memory at rdx to the address in rax, as DPDK encodes it. */
static constexpr u8 movdir64b[] = {0x66, 0x0f, 0x38, 0xf8, 0x02};
static constexpr u32 movdir64b_bytes = 64;

/* The bytes that a MOV to memory writes (Intel's manual, volume 2); 0: another instruction. */
static u32 width_of(const u8 *code)
{
	bool narrow = false, wide = false;

	if (!memcmp(code, movdir64b, sizeof(movdir64b)))
		return movdir64b_bytes;
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

static void on_fault(int, siginfo_t *info, void *context)
{
	auto &regs = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
	const bool writes = regs[REG_ERR] & 2;
	u64 at = 0;

	stepping = nullptr;
	for (window &w : windows)
		if (u64(static_cast<u8 *>(info->si_addr) - w.base) < w.size) {
			stepping = &w;
			at = u64(static_cast<u8 *>(info->si_addr) - w.base);
		}
	if (!stepping) {
		signal(SIGSEGV, SIG_DFL); /* not ours: it faults again */
		return;
	}
	mprotect(stepping->base, stepping->size, PROT_READ | PROT_WRITE);
	const reg r = the_target.reg_of(stepping->region, at);
	pending = {at, writes ? width_of(reinterpret_cast<const u8 *>(regs[REG_RIP])) : 0};
	if (writes && !pending.size)
		give_up("a register was written by another instruction than MOV");
	if (!writes && model->region_read(stepping->region, r.at, stepping->base + r.at, r.size))
		give_up("reading a register failed");
	regs[REG_EFL] |= 0x100; /* one instruction, then SIGTRAP */
}

static void on_step(int, siginfo_t *, void *context)
{
	auto &regs = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;

	regs[REG_EFL] &= ~0x100;
	if (pending.size)
		write_register(*stepping, pending);
	mprotect(stepping->base, stepping->size, PROT_NONE);
}

/* Emulates MOVDIR64B on a CPU without it. */
static void on_illegal(int, siginfo_t *, void *context)
{
	auto &regs = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
	const u64 to = u64(regs[REG_RAX]);

	for (window &w : windows)
		if (!memcmp(reinterpret_cast<void *>(regs[REG_RIP]), movdir64b, sizeof(movdir64b)) &&
		    to - u64(w.base) < w.size) {
			mprotect(w.base, w.size, PROT_READ | PROT_WRITE);
			memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(regs[REG_RDX]), movdir64b_bytes);
			write_register(w, {to - u64(w.base), movdir64b_bytes});
			mprotect(w.base, w.size, PROT_NONE);
			regs[REG_RIP] += sizeof(movdir64b);
			return;
		}
	signal(SIGILL, SIG_DFL); /* not ours */
}

/* ---- set-up -------------------------------------------------------------------------------------------- */

/* DPDK uses these addresses as IOVAs. */
static int map_segment(const void *, const memseg *ms, size_t len, void *)
{
	if (model->dma_map({.iova = ms->iova, .size = len, .vaddr = ms->addr}))
		give_up("mapping DPDK's memory failed");
	return 0;
}

static void handle(int signal, void (*how)(int, siginfo_t *, void *))
{
	struct sigaction act = {};

	act.sa_sigaction = how;
	act.sa_flags = SA_SIGINFO;
	sigaction(signal, &act, nullptr);
}

/* Prints how often each fault rule struck. */
static void report()
{
	std::string rules;

	if (!model->injected(&rules))
		printf("dpdk_preload: rules: %s", rules.c_str());
}

static void attach()
{
	using walk = int (*)(int (*)(const void *, const memseg *, size_t, void *), void *);
	static pci_device dev;
	const char *spec = getenv("USDMA_TEST_DEVICE");

	if (dma::open_device(spec ? spec : the_target.device, &model) || vfio::config_bus_master(*model, true))
		give_up("opening the model failed");
	for (unsigned i = 0; i < 2 && the_target.bars[i].size; i++) {
		const auto &bar = the_target.bars[i];
		void *p = mmap(nullptr, bar.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		windows[i] = {bar.region, bar.size, static_cast<u8 *>(p)};
		dev.mem_resource[bar.region] = {0, bar.size, p};
	}
	handle(SIGSEGV, on_fault);
	handle(SIGTRAP, on_step);
	handle(SIGILL, on_illegal);
	reinterpret_cast<walk>(dlsym(RTLD_DEFAULT, "rte_memseg_contig_walk"))(map_segment, nullptr);
	dev.addr.bus = 1;
	dev.device.name = "0000:01:00.0";
	const int err = probed_driver->probe(probed_driver, &dev);
	printf("dpdk_preload: probe: %d\n", err);
	atexit(report);
	if (err)
		_exit(98);
}

} // namespace usdma::preload

extern "C" __attribute__((visibility("default"))) void rte_pci_register(usdma::preload::pci_driver *d)
{
	using function = void (*)(usdma::preload::pci_driver *);

	if (strstr(d->driver.name, usdma::preload::the_target.driver))
		usdma::preload::probed_driver = d;
	else
		reinterpret_cast<function>(dlsym(RTLD_NEXT, "rte_pci_register"))(d);
}

extern "C" __attribute__((visibility("default"))) int rte_eal_init(int argc, char **argv)
{
	using function = int (*)(int, char **);
	const int used = reinterpret_cast<function>(dlsym(RTLD_NEXT, "rte_eal_init"))(argc, argv);

	if (used >= 0 && usdma::preload::probed_driver)
		usdma::preload::attach();
	return used;
}
