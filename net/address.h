/* SPDX-License-Identifier: BSD-3-Clause */
/* The setting net, and addresses of other machines. */
#pragma once

#include "driver/base/types.h"

#include <string>
#include <sys/socket.h>

namespace usdma::net {

inline constexpr u16 first_port = 18600, last_port = 18699;

/* Where this machine can be reached. The lower half of the ports is for control connections, the upper one for UCX. */
struct local_net {
	std::string interface;
	sockaddr_storage address = {}; /* its port is 0 */
	u16 first = first_port, last = last_port;

	u16 control_last() const { return u16(first + (last - first + 1) / 2 - 1); }
	u16 data_first() const { return u16(control_last() + 1); }
	int family() const { return address.ss_family; }
};

/* "eth1", "10.0.0.1", "fd00::1", each with ports behind it: "eth1:18600-18699", "[fd00::1]:18600-18699". -EINVAL. */
int net_parse(const std::string &text, std::string *where, u16 *first, u16 *last);
/* The same, and looks for the interface. -ENODEV: there is none. */
int net_find(const std::string &text, local_net *out);

/* "10.0.0.2", "host2:18600", "[fd00::2]:18600": the first address of the family; port if none is given. */
int peer_find(const std::string &text, int family, u16 port, sockaddr_storage *out);

void port_set(sockaddr_storage *a, u16 port);
u16 port_of(const sockaddr_storage &a);
socklen_t length_of(const sockaddr_storage &a);
/* "10.0.0.2" */
std::string address_text(const sockaddr_storage &a);

} // namespace usdma::net
