/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A vfio-user server for tests: a thread that serves the other socket of a
 * socketpair.  It replies correctly, unless the test's hook handles a command:
 * that may reply wrongly, late, or not at all.
 */
#pragma once

#include "driver/vfio_user/client.h"
#include "driver/vfio_user/socket.h"

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace usdma::test {

class fake_server {
public:
	/* Returns true if the hook handled the command. */
	using hook_fn = std::function<bool(fake_server &, vfio::user_message &)>;

	static constexpr u64 bar0_size = 16384, bar2_size = 65536;

	explicit fake_server(hook_fn hook = {});
	~fake_server();

	/* The client's socket. */
	unique_fd take_client() { return std::move(client_); }
	/* Attaches a client with this deadline. */
	int attach(std::unique_ptr<vfio::device> *dev, u64 timeout_ms = 20000,
		   vfio::server_trust trust = vfio::server_trust::checked);

	void reply(const vfio::user_message &to, const void *body, size_t len, std::span<const int> fds = {},
		   u32 error = 0);
	/* In two parts, fd with the first; closed: closes fd before the second, so that only the client has it. */
	void reply_in_two_parts(const vfio::user_message &to, const void *body, size_t len, int fd, bool closed);
	void command(u16 id, vfio::proto::command cmd, const void *body, size_t len);
	void raw(const void *data, size_t len);
	/* The next message of the client; false at the end. */
	bool next(vfio::user_message *m);
	/* A message of the client can be read. */
	bool pending();
	void hang_up();
	/* Ends the thread. */
	void stop();

	/* Settings, and the requests received: read them after the call that sent one, or after stop. */
	std::string version_reply = "{\"capabilities\":{}}";
	u16 minor = 1;
	int memory = -1;       /* BAR2's file */
	u64 memory_offset = 0; /* of BAR 2 */
	int doorbell = -1;
	std::vector<u8> bar0 = std::vector<u8>(bar0_size);
	std::vector<u8> config = std::vector<u8>(256);
	std::vector<vfio::proto::irq_set_head> irq_sets;
	std::vector<unique_fd> irq_fds;
	std::vector<vfio::proto::dma_map> maps;
	std::vector<unique_fd> map_fds;
	std::vector<vfio::proto::dma_unmap> unmaps;
	unsigned resets = 0;
	unsigned region_requests = 0;
	unsigned accesses = 0;
	void serve(vfio::user_message &m);

private:
	void run();
	void serve_region_info(vfio::user_message &m);
	void serve_io_fds(vfio::user_message &m);
	void serve_access(vfio::user_message &m, bool write);
	void serve_irqs(vfio::user_message &m);

	hook_fn hook_;
	unique_fd sock_, client_;
	std::thread thread_;
};

} // namespace usdma::test
