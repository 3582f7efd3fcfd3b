/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/address.h"

#include "driver/base/error.h"
#include "driver/base/words.h"

#include <arpa/inet.h>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>

namespace usdma::net {

/* ---- text -------------------------------------------------------------------------------------------- */

/* "HOST", "HOST:REST" or "[HOST]:REST"; an address with several colons has no rest. */
static bool split(std::string_view text, std::string *host, std::string_view *rest)
{
	const bool bracket = text.starts_with('[');
	const size_t end = bracket ? text.find(']') : text.find(':');

	*rest = {};
	if (!bracket && (end == text.npos || text.find(':', end + 1) != text.npos)) {
		*host = text;
		return !text.empty();
	}
	if (end == text.npos)
		return false;
	*host = text.substr(bracket, end - bracket);
	*rest = text.substr(end + bracket);
	if (rest->empty())
		return !host->empty();
	if (!rest->starts_with(':') || rest->size() == 1)
		return false;
	rest->remove_prefix(1);
	return !host->empty();
}

static bool take_port(std::string_view *text, u16 *out)
{
	u64 v;

	if (!number_take(text, &v) || !v || v > 0xffff)
		return false;
	*out = u16(v);
	return true;
}

static bool parse_ports(std::string_view text, u16 *first, u16 *last)
{
	if (text.empty())
		return true;
	if (!take_port(&text, first) || !text.starts_with('-'))
		return false;
	text.remove_prefix(1);
	return take_port(&text, last) && text.empty() && *first < *last;
}

int net_parse(const std::string &text, std::string *where, u16 *first, u16 *last)
{
	std::string_view ports;

	*first = first_port;
	*last = last_port;
	if (!split(text, where, &ports) || !parse_ports(ports, first, last))
		return fail(EINVAL,
			    "net = \"%.80s\": it takes an interface or an address of this machine, and behind a colon "
			    "the ports, as in eth1, 10.0.0.1, eth1:18600-18699 or [fd00::1]:18600-18699",
			    text.c_str());
	return 0;
}

/* ---- addresses --------------------------------------------------------------------------------------- */

void port_set(sockaddr_storage *a, u16 port)
{
	if (a->ss_family == AF_INET6)
		reinterpret_cast<sockaddr_in6 *>(a)->sin6_port = htons(port);
	else
		reinterpret_cast<sockaddr_in *>(a)->sin_port = htons(port);
}

u16 port_of(const sockaddr_storage &a)
{
	return ntohs(a.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6 &>(a).sin6_port :
					       reinterpret_cast<const sockaddr_in &>(a).sin_port);
}

socklen_t length_of(const sockaddr_storage &a)
{
	return a.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

static const void *number_of(const sockaddr_storage &a)
{
	return a.ss_family == AF_INET6 ?
		       static_cast<const void *>(&reinterpret_cast<const sockaddr_in6 &>(a).sin6_addr) :
		       &reinterpret_cast<const sockaddr_in &>(a).sin_addr;
}

std::string address_text(const sockaddr_storage &a)
{
	char text[INET6_ADDRSTRLEN] = "?";

	inet_ntop(a.ss_family, number_of(a), text, sizeof(text));
	return text;
}

static bool is_link_local(const sockaddr_storage &a)
{
	return a.ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(static_cast<const in6_addr *>(number_of(a)));
}

/* The better one of an interface: IPv4, then IPv6; 0: of no use. */
static int worth(const ifaddrs &i, const std::string &where, sockaddr_storage *out)
{
	const int family = i.ifa_addr ? i.ifa_addr->sa_family : 0;

	if (family != AF_INET && family != AF_INET6)
		return 0;
	*out = {};
	memcpy(out, i.ifa_addr, family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
	if (is_link_local(*out))
		return 0;
	if (address_text(*out) == where)
		return 3;
	return where != i.ifa_name ? 0 : family == AF_INET ? 2 : 1;
}

static std::string canonical(const std::string &where)
{
	sockaddr_storage a = {};

	for (const int family : {AF_INET, AF_INET6}) {
		a.ss_family = sa_family_t(family);
		if (inet_pton(family, where.c_str(), const_cast<void *>(number_of(a))) == 1)
			return address_text(a);
	}
	return where;
}

int net_find(const std::string &text, local_net *out)
{
	std::string where, there;
	ifaddrs *all = nullptr;
	int best = 0;

	if (const int err = net_parse(text, &where, &out->first, &out->last))
		return err;
	where = canonical(where);
	if (getifaddrs(&all))
		return fail_errno("interfaces");
	const std::unique_ptr<ifaddrs, void (*)(ifaddrs *)> list(all, freeifaddrs);
	for (const ifaddrs *i = all; i; i = i->ifa_next) {
		sockaddr_storage a;
		const int w = worth(*i, where, &a);

		if (there.find(i->ifa_name) == std::string::npos)
			there += std::string(there.empty() ? "" : ", ") + i->ifa_name;
		if (w <= best)
			continue;
		best = w;
		out->interface = i->ifa_name;
		out->address = a;
		port_set(&out->address, 0);
	}
	return best ? 0 :
		      fail(ENODEV, "net: there is no interface or address \"%.60s\" here that has an address (%.120s)",
			   where.c_str(), there.c_str());
}

int peer_find(const std::string &text, int family, u16 port, sockaddr_storage *out)
{
	addrinfo hints = {}, *found = nullptr;
	std::string host;
	std::string_view rest;
	u16 given = port;

	if (!split(text, &host, &rest) || (!rest.empty() && (!take_port(&rest, &given) || !rest.empty())))
		return fail(EINVAL, "\"%.80s\" is no address: it takes HOST, HOST:PORT or [ADDRESS]:PORT",
			    text.c_str());
	hints.ai_family = family;
	hints.ai_socktype = SOCK_STREAM;
	const int err = getaddrinfo(host.c_str(), nullptr, &hints, &found);
	if (err)
		return fail(ENOENT, "%.80s has no %s address, as this machine has by the setting net: %s", host.c_str(),
			    family == AF_INET6 ? "IPv6" : "IPv4", gai_strerror(err));
	*out = {};
	memcpy(out, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	port_set(out, given);
	return 0;
}

} // namespace usdma::net
