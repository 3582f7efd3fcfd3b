/* SPDX-License-Identifier: BSD-3-Clause */
/* A plain TCP connection between usdma-perf on two machines: for the handle, and as the link's limit. */
#pragma once

#include "driver/base/types.h"
#include "driver/base/unique_fd.h"

#include <string>

namespace usdma::perf {

/* Connections of usdma-perf --net; beside the ports of usdma-net (docs/hosts.md). */
inline constexpr unsigned tcp_port = 18599;

/* "10.0.0.2", "host2:18599", "[fd00::2]:18599". False: not of this form. */
bool split_address(const std::string &text, std::string *host, std::string *port);

/* A connection. All calls throw std::runtime_error; one that moves no byte for 10 s fails. */
class tcp_link {
public:
	explicit tcp_link(unique_fd fd);

	static tcp_link connect(const std::string &address);

	void send(const void *data, size_t len);
	void receive(void *data, size_t len);
	/* False: the other side has closed the connection, and nothing of this was received. */
	bool receive_first(void *data, size_t len);
	/* Of no meaning. */
	void send_bytes(u64 len);
	void drop_bytes(u64 len);

private:
	size_t receive_some(void *data, size_t len);

	unique_fd fd_;
};

class tcp_listener {
public:
	explicit tcp_listener(const std::string &address);

	/* One that is not valid: the tool was interrupted. */
	unique_fd accept();
	unsigned port() const;

private:
	unique_fd fd_;
};

} // namespace usdma::perf
