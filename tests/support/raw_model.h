/* SPDX-License-Identifier: BSD-3-Clause */
/* A device model in this process, served on a socket pair: for raw clients. */
#pragma once

#include "tests/support/test.h"

#include "driver/sim/config.h"
#include "driver/sim/server.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>

namespace usdma::test {

class raw_model {
public:
	explicit raw_model(const sim::config &cfg, sim::faults *faults = nullptr)
		: cfg_(cfg), faults_(faults), stop_(eventfd(0, EFD_CLOEXEC))
	{
	}
	~raw_model() { wait_over(); }
	raw_model(const raw_model &) = delete;
	raw_model &operator=(const raw_model &) = delete;

	/* Call it once: one client.  sndbuf: the server's SO_SNDBUF in bytes (0: the default). */
	unique_fd connect(int sndbuf = 0)
	{
		int pair[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		if (sndbuf)
			assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &sndbuf, sizeof(sndbuf)), 0);
		thread_ = std::thread([this, fd = pair[0]] {
			const std::unique_ptr<sim::device_model> model = sim::make_model(cfg_, faults_);

			if (model && !model->start()) {
				sim::server link(unique_fd(fd), *model);

				link.serve(stop_.get());
			}
		});
		return unique_fd(pair[1]);
	}
	void stop() { eventfd_write(stop_.get(), 1); }
	void wait_over()
	{
		if (thread_.joinable())
			thread_.join();
	}

private:
	sim::config cfg_;
	sim::faults *faults_;
	unique_fd stop_;
	std::thread thread_;
};

} // namespace usdma::test
