/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections to ranks of other machines: usdma-net makes them, after a proof of the job's key on both sides. */
#include "driver/base/error.h"
#include "lib/core/config/config.h"
#include "lib/hccl_comm/comm.h"
#include "lib/hccl_comm/remote.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace usdma::hccl_comm {
namespace {

/* The name of a connection, by the root info's cookie. */
struct stream_name {
	char text[core::helper_key] = "usdma-hccl-";

	explicit stream_name(const root_info &root)
	{
		for (size_t i = 0; i < sizeof(root.cookie); i++)
			snprintf(text + 11 + 2 * i, 3, "%02x", root.cookie[i]);
	}
};

/* A machine that cannot be reached does not close its connections. */
void set_limits(int fd)
{
	const int one = 1, lost_ms = int(std::min(core::config_get().net_lost_ms, 0x7fffffffu));
	const int idle_s = std::clamp(lost_ms / 3000, 1, 3600);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost_ms, sizeof(lost_ms));
}

HcclResult net_failed(HcclResult code)
{
	return because(code, "%.220s", error_text());
}

} // namespace

HcclResult remote_here(core::net_address *out)
{
	core::helper *h;

	if (core::helper_get(&h))
		return net_failed(HCCL_E_NETWORK);
	*out = core::helper_address(h);
	core::helper_put(h);
	return HCCL_SUCCESS;
}

HcclResult remote_listen(const root_info &root, unique_fd *out)
{
	const stream_name name(root);
	core::helper *h;
	int err = core::helper_get(&h);

	if (err)
		return net_failed(HCCL_E_NETWORK);
	err = core::helper_listen(h, name.text, out);
	core::helper_put(h);
	return err ? net_failed(HCCL_E_NETWORK) : HCCL_SUCCESS;
}

HcclResult remote_possible(const root_info &root)
{
	if (!root.at.family)
		return because(HCCL_E_NOT_SUPPORT,
			       "the root info is of another host, and was made without the setting net (USDMA_NET)");
	if (!core::net_is_on())
		return because(
			HCCL_E_NOT_SUPPORT,
			"the root info is of another host: the setting net (USDMA_NET) reaches it, here and there");
	return HCCL_SUCCESS;
}

HcclResult remote_connect(const root_info &root, unique_fd *out, bool *later)
{
	const stream_name name(root);
	core::helper *h;
	int err;

	*later = false;
	if (core::helper_get(&h))
		return net_failed(HCCL_E_NETWORK);
	err = core::helper_dial(h, root.at, name.text, out);
	core::helper_put(h);
	*later = err == -ENOENT || err == -ECONNREFUSED;
	if (*later)
		return HCCL_E_TCP_CONNECT;
	if (err)
		return because(HCCL_E_TCP_CONNECT, "the root info's process at %s: %.150s",
			       remote_address(root.at).text, error_text());
	set_limits(out->get());
	return HCCL_SUCCESS;
}

HcclResult remote_accept(int listening, unique_fd *out)
{
	const int err = core::helper_accept(listening, out);

	if (err && err != -EAGAIN)
		return net_failed(HCCL_E_NETWORK);
	if (!err)
		set_limits(out->get());
	return HCCL_SUCCESS;
}

} // namespace usdma::hccl_comm
