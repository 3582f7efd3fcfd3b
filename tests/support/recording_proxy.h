/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A vfio-user proxy between a client and a usdma-sim: it forwards each message,
 * and retains a mapping of every file that is sent.
 */
#pragma once

#include "driver/vfio_user/proto.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace usdma::test {

struct retained_file {
	std::string name; /* "/memfd:usdma (deleted)" */
	unsigned long ino;
	unsigned char *data; /* mapped until the server is destroyed */
	size_t size;
	bool from_client;
};

struct mapped_area {
	uint64_t iova, size;
	bool with_file;
};

/* A complete message; the destructor closes its descriptors. */
struct proxy_message {
	std::vector<unsigned char> bytes;
	std::vector<int> fds;

	proxy_message() = default;
	proxy_message(const proxy_message &) = delete;
	~proxy_message();
	vfio::proto::header head() const;
};

class recording_proxy {
public:
	/* Called for each message before it is forwarded. */
	using change_fn = std::function<void(proxy_message &, bool from_client)>;

	/* Listens on path; each client gets a connection to the device at to. */
	recording_proxy(const std::string &path, const std::string &to, change_fn change = {});
	~recording_proxy();
	recording_proxy(const recording_proxy &) = delete;

	std::vector<retained_file> retained_files();
	std::vector<mapped_area> areas();
	/* Shuts down the current client's connection. */
	void hang_up();
	/* Calls f while no message is being changed. */
	void with_forwarding_paused(const std::function<void()> &f);
	/* Accesses the client's memory by a message, as a server does; 0, or the client's errno. */
	int read_client(uint64_t iova, void *buf, uint32_t len);
	int write_client(uint64_t iova, const void *buf, uint32_t len);

private:
	void serve();
	void relay(int client, int server);
	bool forward(int from, int to, bool from_client);
	void record(const proxy_message &m, bool from_client);
	bool send_own(const std::vector<unsigned char> &message);
	bool await_answer();
	int access_client(uint16_t cmd, uint64_t iova, void *buf, uint32_t len);

	std::string path_, to_;
	change_fn change_;
	std::mutex change_lock_;
	int listener_ = -1, client_ = -1;
	std::mutex lock_;      /* for the members below */
	std::mutex send_lock_; /* for messages to the client */
	std::vector<retained_file> files_;
	std::vector<mapped_area> areas_;
	std::vector<unsigned char> answer_; /* to a command of the proxy's own; empty: none yet */
	std::condition_variable answered_;
	bool quit_ = false;
	std::thread thread_;
};

} // namespace usdma::test
