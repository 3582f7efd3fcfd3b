/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a device string to an engine.  A transport makes a vfio::device of a
 * string, an engine driver makes an engine of a vfio::device.  Both tables are
 * filled on a floor above (driver/engines/table.cpp): a new engine is a folder
 * and a line there.
 */
#pragma once

#include "driver/dma/engine.h"

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
	/* Takes the device over on success only. */
	int (*probe)(std::unique_ptr<vfio::device> &dev, std::unique_ptr<engine> *out);
};

struct open_options {
	u64 reply_ms = 0; /* so long a server may take for an answer; 0: as long as is usual for it */
	u64 open_ms = 0;  /* … for all that opening asks, until transport().hurry(0); 0: no such limit */
	vfio::server_trust trust = vfio::server_trust::checked; /* a device string may say otherwise */
	bool isolated = false;                                  /* it shares an address space with no other device */
};

/* What a device string may say behind all else. */
struct device_options {
	std::optional<vfio::server_trust> trust; /* ":trust=no", "…=checked", "…=yes" */
	std::optional<bool> isolated;            /* ":isolated=yes", "…=no" */
};

struct transport {
	const char *scheme; /* "sim", "vfio-user", "pci" */
	/* spec: the device string without its options.  Only called when the string is of this scheme. */
	int (*open)(std::string_view spec, const open_options &opt, std::unique_ptr<vfio::device> *out);
};

extern const std::span<const driver *const> drivers;
extern const std::span<const transport *const> transports;

/* "sim[:…]" → "sim"; "vfio-user:PATH" → "vfio-user"; "DDDD:BB:DD.F" → "pci"; else -EINVAL with a text. */
int parse_scheme(std::string_view spec, std::string *scheme);
/* The string without them, a part of it. -EINVAL. */
int parse_options(std::string_view spec, std::string_view *bare, device_options *out);
/* Splits "a,b,c" (a PATH may not hold a comma); checks each scheme. */
int parse_list(std::string_view list, std::vector<std::string> *out);

/* The driver for a device's ids; nullptr: none. */
const driver *find_driver(u16 vendor, u16 device);

int open_device(std::string_view spec, std::unique_ptr<vfio::device> *out, const open_options &opt = {});
/* The engine behind a device that is already open: its driver is chosen by the ids in config space. */
int probe(std::unique_ptr<vfio::device> dev, std::unique_ptr<engine> *out);
int open(std::string_view spec, std::unique_ptr<engine> *out, const open_options &opt = {});

} // namespace usdma::dma
#pragma GCC visibility pop
