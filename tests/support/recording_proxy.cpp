/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/recording_proxy.h"

#include "tests/support/sim_process.h"
#include "tests/support/test.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace usdma::test {

namespace proto = vfio::proto;

static constexpr uint16_t own_id = 0xbeef; /* usdma-sim counts from 0, and sends fewer messages in these tests */
static constexpr int poll_ms = 20;

proto::header proxy_message::head() const
{
	proto::header h;

	memcpy(&h, bytes.data(), sizeof(h));
	return h;
}

proxy_message::~proxy_message()
{
	for (int fd : fds)
		close(fd);
}

static bool recv_all(int sock, unsigned char *buf, size_t len, std::vector<int> *fds)
{
	alignas(cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))];

	while (len) {
		iovec part = {buf, len};
		msghdr m = {};

		m.msg_iov = &part;
		m.msg_iovlen = 1;
		m.msg_control = control;
		m.msg_controllen = sizeof(control);
		const ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
		if (n <= 0)
			return false;
		for (cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
			for (size_t i = 0; c->cmsg_type == SCM_RIGHTS && i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			     i++) {
				int fd;

				memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
				fds->push_back(fd);
			}
		buf += n;
		len -= size_t(n);
	}
	return true;
}

static bool send_all(int sock, const unsigned char *buf, size_t len, const std::vector<int> &fds)
{
	alignas(cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = {};

	for (bool first = true; len; first = false) {
		iovec part = {const_cast<unsigned char *>(buf), len};
		msghdr m = {};

		m.msg_iov = &part;
		m.msg_iovlen = 1;
		if (first && !fds.empty()) {
			m.msg_control = control;
			m.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
			cmsghdr *c = CMSG_FIRSTHDR(&m);
			c->cmsg_level = SOL_SOCKET;
			c->cmsg_type = SCM_RIGHTS;
			c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
			memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
		}
		const ssize_t n = sendmsg(sock, &m, MSG_NOSIGNAL);
		if (n <= 0)
			return false;
		buf += n;
		len -= size_t(n);
	}
	return true;
}

recording_proxy::recording_proxy(const std::string &path, const std::string &to, change_fn change)
	: path_(path), to_(to), change_(std::move(change))
{
	sockaddr_un addr = {};

	listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	addr.sun_family = AF_UNIX;
	assert_true(path.size() < sizeof(addr.sun_path));
	memcpy(addr.sun_path, path.data(), path.size());
	assert_int_equal(bind(listener_, reinterpret_cast<const sockaddr *>(&addr), sizeof(addr)), 0);
	assert_int_equal(listen(listener_, 4), 0);
	thread_ = std::thread([this] { serve(); });
}

recording_proxy::~recording_proxy()
{
	{
		std::lock_guard guard(lock_);

		quit_ = true;
	}
	thread_.join();
	for (const retained_file &f : files_)
		munmap(f.data, f.size);
	close(listener_);
	unlink(path_.c_str());
}

void recording_proxy::serve()
{
	for (;;) {
		pollfd p = {listener_, POLLIN, 0};
		{
			std::lock_guard guard(lock_);

			if (quit_)
				return;
		}
		if (poll(&p, 1, poll_ms) != 1)
			continue;
		const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC), server = connect_unix(to_);

		relay(client, server);
		close(server);
	}
}

void recording_proxy::relay(int client, int server)
{
	{
		std::lock_guard guard(lock_);

		client_ = client;
		areas_.clear();
	}
	for (bool connected = true; connected;) {
		pollfd p[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};

		poll(p, 2, poll_ms);
		if (p[0].revents)
			connected = forward(client, server, true);
		if (connected && p[1].revents)
			connected = forward(server, client, false);
		std::lock_guard guard(lock_);
		connected &= !quit_;
	}
	std::lock_guard guard(lock_);
	client_ = -1;
	close(client);
}

void recording_proxy::record(const proxy_message &m, bool from_client)
{
	const proto::header h = m.head();
	std::lock_guard guard(lock_);

	for (int fd : m.fds) {
		char name[256] = "";
		struct stat st;

		if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
		    readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, 255) < 0)
			continue;
		void *p = mmap(nullptr, size_t(st.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED)
			files_.push_back(
				{name, st.st_ino, static_cast<unsigned char *>(p), size_t(st.st_size), from_client});
	}
	if (from_client && h.cmd == uint16_t(proto::command::dma_map) &&
	    (h.flags & proto::flag_type_mask) == proto::type_command) {
		proto::dma_map d;

		memcpy(&d, m.bytes.data() + sizeof(h), sizeof(d));
		areas_.push_back({d.address, d.size, !m.fds.empty()});
	}
}

bool recording_proxy::forward(int from, int to, bool from_client)
{
	proxy_message m;

	m.bytes.resize(sizeof(proto::header));
	if (!recv_all(from, m.bytes.data(), sizeof(proto::header), &m.fds))
		return false;
	const size_t size = m.head().size;
	m.bytes.resize(size);
	if (!recv_all(from, m.bytes.data() + sizeof(proto::header), size - sizeof(proto::header), &m.fds))
		return false;
	record(m, from_client);
	if (change_) {
		std::lock_guard guard(change_lock_);

		change_(m, from_client);
	}
	if (from_client && m.head().id == own_id && (m.head().flags & proto::flag_type_mask) == proto::type_reply) {
		std::lock_guard guard(lock_);

		answer_ = m.bytes;
		answered_.notify_all();
		return true;
	}
	std::unique_lock sending(send_lock_, std::defer_lock);
	if (!from_client)
		sending.lock();
	return send_all(to, m.bytes.data(), size, m.fds);
}

std::vector<retained_file> recording_proxy::retained_files()
{
	std::lock_guard guard(lock_);

	return files_;
}

std::vector<mapped_area> recording_proxy::areas()
{
	std::lock_guard guard(lock_);

	return areas_;
}

void recording_proxy::hang_up()
{
	std::lock_guard guard(lock_);

	shutdown(client_, SHUT_RDWR);
}

void recording_proxy::with_forwarding_paused(const std::function<void()> &f)
{
	std::lock_guard guard(change_lock_);

	f();
}

bool recording_proxy::send_own(const std::vector<unsigned char> &message)
{
	std::scoped_lock guard(send_lock_, lock_);

	answer_.clear();
	return send_all(client_, message.data(), message.size(), {});
}

bool recording_proxy::await_answer()
{
	std::unique_lock guard(lock_);

	return answered_.wait_for(guard, std::chrono::seconds(20), [this] { return !answer_.empty(); });
}

int recording_proxy::access_client(uint16_t cmd, uint64_t iova, void *buf, uint32_t len)
{
	const bool write = cmd == uint16_t(proto::command::dma_write);
	const proto::dma_access_head at = {iova, len};
	std::vector<unsigned char> bytes(sizeof(proto::header) + sizeof(at) + (write ? len : 0));
	proto::header h = {};

	h.id = own_id;
	h.cmd = cmd;
	h.size = uint32_t(bytes.size());
	memcpy(bytes.data(), &h, sizeof(h));
	memcpy(bytes.data() + sizeof(h), &at, sizeof(at));
	if (write)
		memcpy(bytes.data() + sizeof(h) + sizeof(at), buf, len);
	/* Nothing is asserted with a lock held: the destructor, which runs nevertheless, takes it. */
	assert_true(send_own(bytes));
	assert_true(await_answer());
	memcpy(&h, answer_.data(), sizeof(h));
	if (h.flags & proto::flag_error)
		return int(h.error);
	if (!write)
		memcpy(buf, answer_.data() + sizeof(h) + sizeof(at), len);
	return 0;
}

int recording_proxy::read_client(uint64_t iova, void *buf, uint32_t len)
{
	return access_client(uint16_t(proto::command::dma_read), iova, buf, len);
}

int recording_proxy::write_client(uint64_t iova, const void *buf, uint32_t len)
{
	return access_client(uint16_t(proto::command::dma_write), iova, const_cast<void *>(buf), len);
}

} // namespace usdma::test
