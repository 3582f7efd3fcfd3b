/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/share/remote.h"

#include "driver/base/error.h"
#include "lib/share/helper.h"
#include "lib/share/remote_copy.h"
#include "lib/share/vmm_internal.h"

#include <arpa/inet.h>

namespace usdma::core {

static int run_work(device *dev, const remote_work &w, deadline until)
{
	transfer t(dev, w, until);
	const int err = transfer_begin(&t);

	return err ? err : transfer_run(&t);
}

static constexpr remote_ops ops = {run_work, remote_submit_work};

/* ---- importing ----------------------------------------------------------------------------------------------- */

remote_memory::~remote_memory()
{
	if (!by)
		return;
	helper_close(by, id);
	helper_put(by);
}

/* Whatever keeps the exporter from answering: the memory is not there. */
static int fail_open(const net_address &at, int err)
{
	char text[INET6_ADDRSTRLEN] = "?";

	inet_ntop(at.family == 6 ? AF_INET6 : AF_INET, at.address, text, sizeof(text));
	fail_in(err, "FABRIC handle of the machine at %s port %u", text, at.port);
	switch (-err) {
	case ENOENT:
	case ECONNREFUSED:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EADDRNOTAVAIL:
	case ETIMEDOUT:
	case ECONNRESET:
	case ENOTCONN:
	case ENOLINK:
	case EIO:
		return -ENOENT;
	case EPROTO:
	case EPROTONOSUPPORT:
		return -EOPNOTSUPP;
	default:
		return err;
	}
}

static int make_physical(helper *by, u64 id, u64 size, device *dev, physical **out)
{
	physical *p;
	const int err = size && size <= vmm_limit && size % device_page == 0 ?
				physical_new(dev, size, &p) :
				fail(EINVAL, "the exporter's memory is not whole pages");

	if (err)
		return err;
	p->remote.by = by;
	p->remote.id = id;
	copy_set_remote(&ops);
	physical_ready(p);
	*out = p;
	return 0;
}

int remote_import(const fabric_handle *h, const char *key, device *dev, physical **out)
{
	const net_address at = fabric_address(h);
	helper *by;
	u64 id, size;

	if (!net_is_on())
		return fail(EOPNOTSUPP,
			    "the FABRIC handle is from another machine, or from before this one was "
			    "restarted: the setting net (USDMA_NET) reaches other machines, here and there");
	if (!at.family)
		return fail(EOPNOTSUPP, "the FABRIC handle is from another machine, where it was exported without the "
					"setting net (USDMA_NET), or from before this one was restarted");
	int err = helper_get(&by);
	if (err)
		return err;
	err = helper_open(by, h->boot_id, at, key, &id, &size);
	if (err) {
		helper_put(by);
		return fail_open(at, err);
	}
	err = make_physical(by, id, size, dev, out);
	if (err) {
		helper_close(by, id);
		helper_put(by);
	}
	return err;
}

} // namespace usdma::core
