/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server with one thread and one io_uring: requests and replies on 64 sockets, reads of a file, and copies to the
 *device and back, all in flight at the same time. An error of a copy is in the reply to the request that made it.
 *
 *	server [ROUNDS]          requests of each client; default 100
 *	c++ -std=c++20 server.cpp $(pkg-config --cflags --libs usdma liburing) -pthread
 *
 * A client requests a block of the file by its number. Its slot goes through the states of `step`, each ended by a CQE.
 *The copies of all slots are marks of one set, which has one SQE.
 *
 * If the device injects faults (a software device with "faults="), the server lets one copy in 97 fail.
 */
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <liburing.h>
#include <memory>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <usdma/uring.h>
#include <usdma/usdma.h>
#include <vector>

namespace {

constexpr unsigned slots = 64;
constexpr size_t block_size = 4096;
constexpr uint64_t blocks = 256;
constexpr const char *faults = "fail%97/transfer";

/* What a slot waits for; also the kind of a CQE. */
enum class step : uint64_t { request = 1, file, copies, reply };

struct reply {
	uint64_t block;
	int64_t error; /* 0, or a negative errno of this block's copy */
	unsigned char data[block_size];
};

[[noreturn]] void give_up(const char *what, const char *why)
{
	std::fprintf(stderr, "%s: %s\n", what, why);
	std::exit(1);
}

/* A call of usdma. */
int need(int ret, const char *what)
{
	if (ret < 0)
		give_up(what, usdma_error_text());
	return ret;
}

/* A result of the kernel. */
void need_all(int res, size_t size, const char *what)
{
	if (res != int(size))
		give_up(what, res < 0 ? std::strerror(-res) : "less than requested");
}

unsigned char byte_of(uint64_t block, size_t n)
{
	return static_cast<unsigned char>(block * 31 + n * 7 + (n >> 8));
}

/* ---- the server ---------------------------------------------------------------------------------------- */

class server {
public:
	server(usdma_device *dev, int file, const std::vector<int> &sockets) : file_(file)
	{
		void *p;

		if (const int err = io_uring_queue_init(2 * slots, &ring_, 0))
			give_up("io_uring", std::strerror(-err));
		need(usdma_stream_create(dev, nullptr, &stream_), "a stream");
		need(usdma_completion_set_create(stream_, &set_), "a set of completions");
		need(usdma_device_alloc(dev, slots * block_size, &mem_), "device memory");
		need(usdma_host_alloc(dev, 2 * slots * block_size, &p), "pinned memory");
		host_ = static_cast<unsigned char *>(p);
		for (unsigned i = 0; i < slots; i++)
			slots_[i].socket = sockets[i];
	}
	~server()
	{
		io_uring_queue_exit(&ring_);
		need(usdma_completion_set_destroy(set_), "the set of completions");
		need(usdma_stream_destroy(stream_), "the stream");
		need(usdma_host_free(host_), "pinned memory");
		need(usdma_device_free(mem_), "device memory");
	}
	server(const server &) = delete;
	/* Until all clients have closed their sockets. */
	void run()
	{
		wait_for_copies();
		for (unsigned i = 0; i < slots; i++)
			next_request(i);
		while (open_) {
			if (const int err = io_uring_submit_and_wait(&ring_, 1); err < 0 && err != -EINTR)
				give_up("the ring", std::strerror(-err));
			io_uring_cqe *cqe;
			while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
				const io_uring_cqe c = *cqe;

				io_uring_cqe_seen(&ring_, cqe);
				dispatch(step(c.user_data >> 32), unsigned(c.user_data), c.res, c.flags);
			}
		}
	}
	uint64_t failed() const { return failed_; }

private:
	struct slot {
		int socket;
		uint64_t block;
		reply answer;
	};

	io_uring_sqe *sqe(step s, unsigned i)
	{
		io_uring_sqe *const q = io_uring_get_sqe(&ring_);

		if (!q)
			give_up("the ring", "full");
		q->user_data = uint64_t(s) << 32 | i;
		return q;
	}
	/* Keeps the user data that sqe() has set. */
	template <class F, class... A> void submit(step s, unsigned i, F prep, A... a)
	{
		io_uring_sqe *const q = sqe(s, i);
		const uint64_t data = q->user_data;

		prep(q, a...);
		q->user_data = data;
	}
	void wait_for_copies()
	{
		io_uring_sqe *const q = sqe(step::copies, 0);

		need(usdma_prep_completion_set(set_, q, uint64_t(step::copies) << 32), "a set of completions");
	}
	void next_request(unsigned i)
	{
		slot &s = slots_[i];

		open_++;
		submit(step::request, i, io_uring_prep_recv, s.socket, static_cast<void *>(&s.block), sizeof(s.block),
		       int(MSG_WAITALL));
	}
	void read_file(unsigned i)
	{
		submit(step::file, i, io_uring_prep_read, file_, static_cast<void *>(in(i)), unsigned(block_size),
		       uint64_t(slots_[i].block * block_size));
	}
	/* What a request needs of the device. The mark has the slot's number, and gets the errors of these copies. */
	void copy(unsigned i)
	{
		auto *const at = static_cast<unsigned char *>(mem_) + i * block_size;

		need(usdma_copy(stream_, at, in(i), block_size), "a copy");
		need(usdma_copy(stream_, out(i), at, block_size), "a copy");
		need(usdma_completion_mark(set_, i), "a mark");
	}
	void take_copies()
	{
		usdma_completed ended[slots];

		for (int n; (n = usdma_completion_finish_many(set_, ended, slots)) != -EAGAIN;)
			for (int k = 0; k < need(n, "completions"); k++)
				answer(unsigned(ended[k].user_data), ended[k].error);
	}
	void answer(unsigned i, int error)
	{
		slot &s = slots_[i];

		failed_ += error != 0;
		s.answer.block = s.block;
		s.answer.error = error;
		std::memcpy(s.answer.data, out(i), block_size);
		submit(step::reply, i, io_uring_prep_send, s.socket, static_cast<const void *>(&s.answer),
		       sizeof(s.answer), int(MSG_WAITALL | MSG_NOSIGNAL));
	}
	void dispatch(step s, unsigned i, int res, unsigned flags)
	{
		switch (s) {
		case step::request:
			open_--;
			if (!res) /* the client has closed its end */
				return;
			need_all(res, sizeof(slots_[i].block), "a request");
			open_++;
			return read_file(i);
		case step::file:
			need_all(res, block_size, "the file");
			return copy(i);
		case step::copies:
			need_all(res > 0, 1, "the set's poll");
			if (!(flags & IORING_CQE_F_MORE))
				wait_for_copies();
			return take_copies();
		case step::reply:
			need_all(res, sizeof(reply), "a reply");
			open_--;
			return next_request(i);
		}
		give_up("a CQE", "with unknown user data");
	}
	unsigned char *in(unsigned i) { return host_ + i * block_size; }
	unsigned char *out(unsigned i) { return host_ + (slots + i) * block_size; }

	io_uring ring_;
	int file_;
	usdma_stream *stream_ = nullptr;
	usdma_completion_set *set_ = nullptr;
	void *mem_ = nullptr;
	unsigned char *host_ = nullptr;
	slot slots_[slots];
	unsigned open_ = 0; /* slots that are not closed */
	uint64_t failed_ = 0;
};

/* ---- the clients --------------------------------------------------------------------------------------- */

/* All of them send a request, then all take their replies. */
class clients {
public:
	explicit clients(const std::vector<int> &sockets) : sockets_(sockets) {}
	void run(uint64_t rounds)
	{
		for (uint64_t r = 0; r < rounds; r++) {
			for (uint64_t i = 0; i < slots; i++)
				request(sockets_[i], (r * slots + i) % blocks);
			for (uint64_t i = 0; i < slots; i++)
				take(sockets_[i], (r * slots + i) % blocks);
		}
		for (const int s : sockets_)
			shutdown(s, SHUT_WR);
	}
	uint64_t good() const { return good_; }
	uint64_t failed() const { return failed_; }

private:
	static void request(int socket, uint64_t block)
	{
		if (write(socket, &block, sizeof(block)) != ssize_t(sizeof(block)))
			give_up("a client", std::strerror(errno));
	}
	void take(int socket, uint64_t block)
	{
		if (recv(socket, &answer_, sizeof(answer_), MSG_WAITALL) != ssize_t(sizeof(answer_)))
			give_up("a client", "no reply");
		if (answer_.block != block)
			give_up("a client", "the reply is another one's");
		if (answer_.error) {
			failed_++;
			return;
		}
		good_++;
		for (size_t n = 0; n < block_size; n++)
			if (answer_.data[n] != byte_of(block, n))
				give_up("a client", "the data is wrong, and the reply says that it is right");
	}

	const std::vector<int> sockets_;
	reply answer_;
	uint64_t good_ = 0, failed_ = 0;
};

/* A temporary file, removed when it is closed. */
int make_file()
{
	char path[] = "/tmp/usdma-server-XXXXXX";
	std::vector<unsigned char> content(blocks * block_size);
	const int fd = mkstemp(path);

	if (fd < 0)
		give_up("a temporary file", std::strerror(errno));
	unlink(path);
	for (uint64_t i = 0; i < blocks; i++)
		for (size_t n = 0; n < block_size; n++)
			content[i * block_size + n] = byte_of(i, n);
	if (write(fd, content.data(), content.size()) != ssize_t(content.size()))
		give_up("writing the file", std::strerror(errno));
	return fd;
}

} // namespace

int main(int argc, char **argv)
{
	const uint64_t rounds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100;
	std::vector<int> ours, theirs;
	usdma_device *dev = nullptr;
	uint64_t failed = 0;
	int err = 0;

	for (unsigned i = 0; i < slots; i++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
			give_up("a socket", std::strerror(errno));
		ours.push_back(pair[0]);
		theirs.push_back(pair[1]);
	}
	need(usdma_open(nullptr, &dev), "the first device");
	const bool injects = usdma_device_inject(dev, faults) == 0;
	clients all(theirs);
	std::thread other([&] { all.run(rounds); });
	{
		const auto s = std::make_unique<server>(dev, make_file(), ours);

		s->run();
		failed = s->failed();
	}
	other.join();
	/* Failures that no call has returned would be an error of this one. */
	err = usdma_close(dev);
	std::printf("%llu replies with data, %llu with the error of their copy\n",
		    static_cast<unsigned long long>(all.good()), static_cast<unsigned long long>(all.failed()));
	if (err || all.failed() != failed || all.good() + all.failed() != rounds * slots)
		give_up("the server", "replies are missing, or errors");
	return injects == (failed != 0) ? 0 : 1;
}
