/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A vfio-user server that keeps what it gets: it stands between a client and a
 * usdma-sim, passes each message on, and keeps every file that goes by.
 */
#pragma once

#include "driver/vfio/user_proto.h"

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace usdma::test {

struct kept_file {
	std::string name; /* "/memfd:usdma (deleted)" */
	unsigned long ino;
	unsigned char *data; /* mapped, for good */
	size_t size;
	bool from_client;
};

struct mapped_area {
	uint64_t iova, size;
	bool with_file;
};

/* On its way, whole; its descriptors are closed when it is gone. */
struct nosy_message {
	std::vector<unsigned char> bytes;
	std::vector<int> fds;

	nosy_message() = default;
	nosy_message(const nosy_message &) = delete;
	~nosy_message();
	vfio::proto::header head() const;
};

class nosy_server {
public:
	/* Called for each message before it is passed on. */
	using change_fn = std::function<void(nosy_message &, bool from_client)>;

	/* Listens on path; each client gets a connection to the device at to. */
	nosy_server(const std::string &path, const std::string &to, change_fn change = {});
	~nosy_server();
	nosy_server(const nosy_server &) = delete;

	std::vector<kept_file> kept();
	std::vector<mapped_area> areas();
	/* Hangs up on the client that is there. */
	void hang_up();
	/* Calls f while no message is being changed. */
	void while_nothing_passes(const std::function<void()> &f);
	/* Reaches for the client's memory by a message, as a server does: 0 and the bytes, or the client's errno. */
	int read_client(uint64_t iova, void *buf, uint32_t len);
	int write_client(uint64_t iova, const void *buf, uint32_t len);

private:
	void serve();
	void relay(int client, int server);
	bool pass(int from, int to, bool from_client);
	void note(const nosy_message &m, bool from_client);
	int reach(uint16_t cmd, uint64_t iova, void *buf, uint32_t len);

	std::string path_, to_;
	change_fn change_;
	std::mutex change_lock_;
	int listener_ = -1, client_ = -1;
	std::mutex lock_;      /* what is below */
	std::mutex send_lock_; /* towards the client */
	std::vector<kept_file> kept_;
	std::vector<mapped_area> areas_;
	std::vector<unsigned char> answer_; /* to our own command */
	bool answered_ = false;
	bool quit_ = false;
	std::thread thread_;
};

} // namespace usdma::test
