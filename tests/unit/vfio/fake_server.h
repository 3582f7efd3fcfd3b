/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A vfio-user server under a test's control: one thread on the other end of a
 * socketpair.  It answers everything sensibly unless the test's hook takes a
 * command over and answers wrongly, late, or not at all.
 */
#pragma once

#include "driver/vfio/user_client.h"
#include "driver/vfio/user_socket.h"

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace usdma::test {

class fake_server {
public:
	/* True: the hook dealt with the command. */
	using hook_fn = std::function<bool(fake_server &, vfio::user_message &)>;

	static constexpr u64 bar0_size = 16384, bar2_size = 65536;

	explicit fake_server(hook_fn hook = {});
	~fake_server();

	/* The client's end. */
	unique_fd take_client() { return std::move(client_); }
	/* Attaches a client with this deadline. */
	int attach(std::unique_ptr<vfio::device> *dev, u64 timeout_ms = 20000,
		   vfio::server_trust trust = vfio::server_trust::checked);

	void reply(const vfio::user_message &to, const void *body, size_t len, std::span<const int> fds = {},
		   u32 error = 0);
	/* With fd beside its first bytes; and closed before the rest, so that the client has the last one of it. */
	void reply_in_two(const vfio::user_message &to, const void *body, size_t len, int fd, bool closed);
	void command(u16 id, vfio::proto::command cmd, const void *body, size_t len);
	void raw(const void *data, size_t len);
	/* The next message of the client; false at the end. */
	bool next(vfio::user_message *m);
	/* Something of the client's is there to be read. */
	bool pending();
	void hang_up();
	/* Ends the thread. */
	void stop();

	/* What the client asked for; read after the call that caused it, or after stop. */
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
	unsigned region_questions = 0;
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
