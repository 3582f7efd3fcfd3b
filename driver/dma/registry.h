/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens an engine by a device string. A transport creates a vfio::device from the string, an engine driver
 * creates an engine from the vfio::device. Both tables are defined in a higher layer
 * (driver/engines/table.cpp): a new engine is a folder and a line in driver/hw/engines.inc.
 */
#pragma once

#include "driver/base/error.h"
#include "driver/dma/engine.h"

#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace usdma::dma {

struct pci_id {
	u16 vendor, device;
};

/*
 * A register of 1 to 8 bytes that says what the device is, or in what state. A region that has one has nothing but
 * registers: usdmactl bringup does not map it, and records each access to it.
 */
struct named_register {
	const char *name;
	u8 region, width;
	u32 offset;
};

/* A rule that this driver depends on and no public one has proved (docs/engines.md, "Bring-up checklist"). */
struct checklist_item {
	const char *step; /* of usdmactl bringup, which tries it */
	const char *rule, *check;
};

/* Devices whose id & mask is `device` have it. */
struct erratum {
	u16 device, mask;
	const char *text;
};

/* Takes ownership of the device only on success. */
using probe_fn = int (*)(std::unique_ptr<vfio::device> &dev, std::unique_ptr<engine> *out);

struct driver {
	const char *name;
	std::span<const pci_id> ids;
	probe_fn probe;

	/* For usdmactl bringup; empty: it has less to say. */
	std::span<const named_register> registers = {};
	std::span<const checklist_item> checklist = {};
	std::span<const erratum> errata = {};
	/* Linux' own driver of the device, and what is lost while it is at usdma; nullptr: there is none. */
	const char *kernel_driver = nullptr, *kernel_loss = nullptr;
};

struct open_options {
	u64 reply_ms = 0; /* timeout of a server's reply; 0: the transport's default */
	u64 open_ms = 0;  /* … of all requests of opening together, until transport().set_deadline(0); 0: none */
	vfio::server_trust trust = vfio::server_trust::checked; /* a device string may override it */
	bool isolated = false;                                  /* shares an address space with no other device */
};

/* Options at the end of a device string. */
struct device_options {
	std::optional<vfio::server_trust> trust; /* ":trust=no", "…=checked", "…=yes" */
	std::optional<bool> isolated;            /* ":isolated=yes", "…=no" */
};

struct transport {
	const char *scheme; /* "sim", "vfio-user", "pci" */
	/* spec: the device string without its options; its scheme is this one. */
	int (*open)(std::string_view spec, const open_options &opt, std::unique_ptr<vfio::device> *out);
};

/* A driver's probe, for an engine that has start(), and release() for when that fails. */
template <class E> int probe_as(std::unique_ptr<vfio::device> &dev, std::unique_ptr<engine> *out)
{
	std::unique_ptr<E> e(new (std::nothrow) E(std::move(dev)));

	if (!e)
		return no_memory("an engine");
	if (int err = e->start(); err < 0) {
		dev = e->release();
		return err;
	}
	*out = std::move(e);
	return 0;
}

/* What is not for hardware: the transports of software devices, and the drivers of engines that only models have. */
struct software_parts {
	const transport *sim, *vfio_user;
	probe_fn sdma, edu;
};
/*
 * A part of the program, or a library that is loaded by the first call (lib/native/libraries.cpp). -ENOPKG with a
 * text: there is none of this build.
 */
int simulator(const software_parts **out);

/* For the row of a driver that is one of these. */
template <probe_fn software_parts::*which>
int probe_software(std::unique_ptr<vfio::device> &dev, std::unique_ptr<engine> *out)
{
	const software_parts *parts;
	const int err = simulator(&parts);

	return err ? err : (parts->*which)(dev, out);
}

extern const std::span<const driver *const> drivers;
extern const std::span<const transport *const> transports;

/* "sim[:…]" → "sim"; "vfio-user:PATH" → "vfio-user"; "DDDD:BB:DD.F" → "pci"; else -EINVAL with a text. */
int parse_scheme(std::string_view spec, std::string *scheme);
/* *bare: the part of spec before the options. -EINVAL. */
int parse_options(std::string_view spec, std::string_view *bare, device_options *out);
/* Splits "a,b,c" (a PATH must not contain a comma); checks each scheme. */
int parse_list(std::string_view list, std::vector<std::string> *out);

/* The driver for a device's ids; nullptr: none. */
const driver *find_driver(u16 vendor, u16 device);

int open_device(std::string_view spec, std::unique_ptr<vfio::device> *out, const open_options &opt = {});
/* Creates the engine of an open device; its driver is selected by the IDs in config space. */
int probe(std::unique_ptr<vfio::device> dev, std::unique_ptr<engine> *out);
int open(std::string_view spec, std::unique_ptr<engine> *out, const open_options &opt = {});

} // namespace usdma::dma
#pragma GCC visibility pop
