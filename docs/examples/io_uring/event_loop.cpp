/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One io_uring for device copies, reads of a file and a socket, all in flight
 * at the same time, with all data checked.
 *
 *	event_loop [ROUNDS]      number of operations of each kind; default 2000
 *	c++ -std=c++20 event_loop.cpp $(pkg-config --cflags --libs usdma liburing) -pthread
 *
 * Each completion carries the user data of its request: the kind and the number
 * of the requester.  The loop is a switch over it.
 */
#include <cerrno>
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

constexpr unsigned copiers = 16, readers = 8;
constexpr size_t copy_size = 32 << 10, read_size = 4096, file_size = 4 << 20, message_size = 512;
constexpr unsigned patience_s = 30;

enum kind : uint64_t { copied = 1, was_read, was_sent, received };

[[noreturn]] void give_up(const char *what, const char *why)
{
	std::fprintf(stderr, "%s: %s\n", what, why);
	std::exit(1);
}

void need(int err, const char *what)
{
	if (err < 0)
		give_up(what, usdma_error_text());
}

/* Byte n of the file, of a message or of a buffer. */
unsigned char pattern(uint64_t salt, size_t n)
{
	return static_cast<unsigned char>(salt * 31 + n * 7 + (n >> 8));
}

void fill(unsigned char *at, size_t size, uint64_t salt, size_t from = 0)
{
	for (size_t i = 0; i < size; i++)
		at[i] = pattern(salt, from + i);
}

void compare(const unsigned char *at, size_t size, uint64_t salt, const char *what, size_t from = 0)
{
	for (size_t i = 0; i < size; i++) {
		if (at[i] != pattern(salt, from + i))
			give_up(what, "the data is wrong");
	}
}

/* ---- requesters ------------------------------------------------------------------------------------- */

/* Copies to the device and back, with one completion after both. */
class copier {
public:
	void open(usdma_device *dev)
	{
		void *from, *to;

		need(usdma_stream_create(dev, nullptr, &stream_), "a stream");
		need(usdma_completion_create(&completion_), "a completion");
		need(usdma_host_alloc(dev, copy_size, &from), "pinned memory");
		need(usdma_host_alloc(dev, copy_size, &to), "pinned memory");
		need(usdma_device_alloc(dev, copy_size, &mem_), "device memory");
		from_ = static_cast<unsigned char *>(from);
		to_ = static_cast<unsigned char *>(to);
	}
	void prepare(io_uring_sqe *sqe, uint64_t user_data, uint64_t round)
	{
		round_ = round;
		fill(from_, copy_size, round);
		std::memset(to_, 0, copy_size);
		need(usdma_copy(stream_, mem_, from_, copy_size), "a copy");
		need(usdma_copy(stream_, to_, mem_, copy_size), "a copy");
		need(usdma_prep_completion(completion_, stream_, sqe, user_data), "a completion");
	}
	void done(int res)
	{
		if (res < 0)
			give_up("the completion's read", std::strerror(-res));
		need(usdma_completion_finish(completion_), "a copy");
		compare(to_, copy_size, round_, "a copy");
	}
	void close()
	{
		need(usdma_completion_destroy(completion_), "a completion");
		need(usdma_stream_destroy(stream_), "a stream");
		need(usdma_device_free(mem_), "device memory");
		need(usdma_host_free(from_), "pinned memory");
		need(usdma_host_free(to_), "pinned memory");
	}

private:
	usdma_stream *stream_ = nullptr;
	usdma_completion *completion_ = nullptr;
	unsigned char *from_ = nullptr, *to_ = nullptr;
	void *mem_ = nullptr;
	uint64_t round_ = 0;
};

/* Reads pieces of a file. */
class reader {
public:
	void prepare(io_uring_sqe *sqe, int fd, uint64_t round)
	{
		offset_ = round * 2654435761u % (file_size - read_size);
		io_uring_prep_read(sqe, fd, buf_, read_size, offset_);
	}
	void done(int res)
	{
		if (res != int(read_size))
			give_up("reading the file", res < 0 ? std::strerror(-res) : "less than requested");
		compare(buf_, read_size, 1, "the file", offset_);
	}

private:
	unsigned char buf_[read_size];
	uint64_t offset_ = 0;
};

/* Sends a message and waits for its echo. */
class talker {
public:
	void send(io_uring_sqe *sqe, int fd, uint64_t round)
	{
		round_ = round;
		fill(out_, message_size, round);
		io_uring_prep_send(sqe, fd, out_, message_size, MSG_WAITALL | MSG_NOSIGNAL);
	}
	void receive(io_uring_sqe *sqe, int fd) { io_uring_prep_recv(sqe, fd, in_, message_size, MSG_WAITALL); }
	void sent(int res)
	{
		if (res != int(message_size))
			give_up("sending", res < 0 ? std::strerror(-res) : "less than requested");
	}
	void done(int res)
	{
		if (res != int(message_size))
			give_up("receiving", res < 0 ? std::strerror(-res) : "less than requested");
		compare(in_, message_size, round_, "the echo");
	}

private:
	unsigned char out_[message_size], in_[message_size];
	uint64_t round_ = 0;
};

/* ---- the loop ---------------------------------------------------------------------------------------- */

class loop {
public:
	loop(usdma_device *dev, int file, int sock, uint64_t rounds) : file_(file), sock_(sock), rounds_(rounds)
	{
		if (int err = io_uring_queue_init(64, &ring_, 0))
			give_up("io_uring", std::strerror(-err));
		for (copier &c : copiers_)
			c.open(dev);
	}
	~loop()
	{
		for (copier &c : copiers_)
			c.close();
		io_uring_queue_exit(&ring_);
	}
	void run()
	{
		for (unsigned i = 0; i < copiers; i++)
			next_copy(i);
		for (unsigned i = 0; i < readers; i++)
			next_read(i);
		next_message();
		while (open_) {
			wait();
			io_uring_cqe *cqe;
			while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
				uint64_t data = io_uring_cqe_get_data64(cqe);
				int res = cqe->res;

				io_uring_cqe_seen(&ring_, cqe);
				open_--;
				dispatch(kind(data >> 32), unsigned(data), res);
			}
		}
	}
	void report() const
	{
		std::printf("%llu copies, %llu file reads, %llu echoes through one ring; each completion had its own "
			    "user data\n",
			    static_cast<unsigned long long>(copies_), static_cast<unsigned long long>(reads_),
			    static_cast<unsigned long long>(echoes_));
	}

private:
	void wait()
	{
		__kernel_timespec patience = {patience_s, 0};
		io_uring_cqe *cqe;
		int err = io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &patience, nullptr);

		if (err < 0 && err != -EINTR)
			give_up("the ring", std::strerror(-err));
	}
	io_uring_sqe *get_sqe()
	{
		io_uring_sqe *sqe = io_uring_get_sqe(&ring_);

		if (!sqe)
			give_up("the ring", "full");
		open_++;
		return sqe;
	}
	static void mark(io_uring_sqe *sqe, kind k, unsigned index)
	{
		io_uring_sqe_set_data64(sqe, uint64_t(k) << 32 | index);
	}
	void dispatch(kind k, unsigned index, int res)
	{
		switch (k) {
		case copied:
			copiers_[index].done(res);
			copies_++;
			return next_copy(index);
		case was_read:
			readers_[index].done(res);
			reads_++;
			return next_read(index);
		case was_sent:
			return talker_.sent(res);
		case received:
			talker_.done(res);
			echoes_++;
			return next_message();
		}
		give_up("a completion", "with unknown user data");
	}
	void next_copy(unsigned index)
	{
		if (started_copies_ < rounds_)
			copiers_[index].prepare(get_sqe(), uint64_t(copied) << 32 | index, started_copies_++);
	}
	void next_read(unsigned index)
	{
		if (started_reads_ == rounds_)
			return;
		io_uring_sqe *sqe = get_sqe();
		readers_[index].prepare(sqe, file_, started_reads_++);
		mark(sqe, was_read, index);
	}
	void next_message()
	{
		if (echoes_ == rounds_)
			return;
		io_uring_sqe *out = get_sqe();
		talker_.send(out, sock_, echoes_);
		mark(out, was_sent, 0);
		io_uring_sqe *in = get_sqe();
		talker_.receive(in, sock_);
		mark(in, received, 0);
	}

	io_uring ring_;
	int file_, sock_;
	uint64_t rounds_, open_ = 0;
	uint64_t started_copies_ = 0, started_reads_ = 0;
	uint64_t copies_ = 0, reads_ = 0, echoes_ = 0;
	copier copiers_[copiers];
	reader readers_[readers];
	talker talker_;
};

/* A temporary file, removed when it is closed. */
int make_file()
{
	char path[] = "/tmp/usdma-event-loop-XXXXXX";
	std::vector<unsigned char> content(file_size);
	int fd = mkstemp(path);

	if (fd < 0)
		give_up("a temporary file", std::strerror(errno));
	unlink(path);
	fill(content.data(), file_size, 1);
	if (write(fd, content.data(), file_size) != ssize_t(file_size))
		give_up("writing the file", std::strerror(errno));
	return fd;
}

/* The peer of the socket: sends back all data. */
void echo(int fd)
{
	char buf[4096];

	for (;;) {
		ssize_t n = read(fd, buf, sizeof(buf));
		if (n <= 0)
			break;
		for (ssize_t at = 0; at < n;) {
			ssize_t m = write(fd, buf + at, size_t(n - at));
			if (m <= 0)
				return;
			at += m;
		}
	}
}

} // namespace

int main(int argc, char **argv)
{
	const uint64_t rounds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 2000;
	usdma_device *dev = nullptr;
	int pair[2], file = make_file();

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		give_up("a socket", std::strerror(errno));
	std::thread other(echo, pair[1]);
	need(usdma_open(nullptr, &dev), "the first device");
	{
		auto all = std::make_unique<loop>(dev, file, pair[0], rounds);

		all->run();
		all->report();
	}
	need(usdma_close(dev), "closing");
	shutdown(pair[0], SHUT_RDWR);
	other.join();
	close(pair[0]);
	close(pair[1]);
	close(file);
	return 0;
}
