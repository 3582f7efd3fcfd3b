/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/grow.h"
#include "driver/dma/registry.h"

#include <cstdio>

namespace usdma::dma {

static constexpr u16 no_vendor = 0xffff; /* what a read gives when no device answers (PCI 3.0 §6.1) */

const driver *find_driver(u16 vendor, u16 device)
{
	for (const driver *d : drivers)
		for (const pci_id &id : d->ids)
			if (id.vendor == vendor && id.device == device)
				return d;
	return nullptr;
}

struct id_list {
	char text[256] = "none";
};

/* A driver of many devices is named with the first. */
static id_list supported_ids()
{
	id_list l;
	size_t at = 0;

	for (const driver *d : drivers)
		if (at < sizeof(l.text))
			at += size_t(snprintf(l.text + at, sizeof(l.text) - at, "%s%04x:%04x (%s%s)", at ? ", " : "",
					      unsigned(d->ids[0].vendor), unsigned(d->ids[0].device), d->name,
					      d->ids.size() > 1 ? " and others" : ""));
	return l;
}

int probe(std::unique_ptr<vfio::device> dev, std::unique_ptr<engine> *out)
{
	char name[128]; /* dev may be freed when an error is reported */
	u16 id[2];      /* vendor and device: the first words of config space */

	snprintf(name, sizeof(name), "%s", dev->name());
	if (const int err = dev->region_read(vfio::region_config, 0, id, sizeof(id)); err < 0)
		return fail_in(err, "%s: cannot read its ids", name);
	if (id[0] == no_vendor)
		return fail(ENODEV, "%s: the device does not answer (vendor ffff)", name);
	const driver *drv = find_driver(id[0], id[1]);
	if (!drv)
		return fail(ENODEV, "%s: no engine driver for device %04x:%04x; there are drivers for: %s", name,
			    unsigned(id[0]), unsigned(id[1]), supported_ids().text);
	if (const int err = drv->probe(dev, out); err < 0)
		return fail_in(err, "%s: %s", name, drv->name);
	return 0;
}

static const transport *find_transport(std::string_view scheme)
{
	for (const transport *t : transports)
		if (scheme == t->scheme)
			return t;
	return nullptr;
}

static int open_by_scheme(std::string_view spec, const open_options &opt, std::unique_ptr<vfio::device> *out)
{
	open_options how = opt;
	std::string_view bare;
	std::string scheme;
	device_options parsed;

	if (const int err = parse_scheme(spec, &scheme); err < 0)
		return err;
	if (const int err = parse_options(spec, &bare, &parsed); err < 0)
		return err;
	how.trust = parsed.trust.value_or(how.trust);
	how.isolated = parsed.isolated.value_or(how.isolated);
	const transport *t = find_transport(scheme);
	if (!t)
		return fail(EOPNOTSUPP, "device \"%.*s\": this build has no \"%s\" transport", int(spec.size()),
			    spec.data(), scheme.c_str());
	return t->open(bare, how, out);
}

int open_device(std::string_view spec, std::unique_ptr<vfio::device> *out, const open_options &opt)
{
	return within_memory("a device", [=] { return open_by_scheme(spec, opt, out); });
}

int open(std::string_view spec, std::unique_ptr<engine> *out, const open_options &opt)
{
	std::unique_ptr<vfio::device> dev;

	if (const int err = open_device(spec, &dev, opt); err < 0)
		return err;
	return probe(std::move(dev), out);
}

} // namespace usdma::dma
