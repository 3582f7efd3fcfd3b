/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens an engine by a device string. A transport creates a vfio::device from the string, an engine driver
 * creates an engine from the vfio::device. Both tables are defined in a higher layer
 * (driver/engines/table.cpp): a new engine is a folder and a line there.
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

struct driver {
	const char *name;
	std::span<const pci_id> ids;
	/* Takes ownership of the device only on success. */
	int (*probe)(std::unique_ptr<vfio::device> &dev, std::unique_ptr<engine> *out);
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
