/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signals to the caller's file descriptors. An eventfd is written by the thread that detects completion, or, if it is
 * full, by a later pass of the progress thread, which waits for space. Any other file could block there or raise
 * SIGPIPE in a thread of the program: a library thread writes to those without blocking, so that a file without a
 * reader does not delay the others.
 */
#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/base/fd.h"
#include "driver/base/log.h"
#include "driver/base/thread.h"
#include "driver/base/unique_fd.h"
#include "driver/base/grow.h"
#include "lib/core/base/slab.h"
#include "lib/core/stream/task.h"

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace usdma::core {

namespace {

struct file_signal {
	unique_fd fd;
	bool is_socket = false;
	file_signal *next = nullptr;
};

struct writer_state {
	std::mutex lock;
	file_signal *fresh = nullptr;
	file_signal **end = &fresh; /* fresh is in order of completion */
	bool started = false;
	int wake_fd = -1;
};
constinit no_destructor<writer_state> writer;

/* Eventfds without space. */
struct full_eventfds {
	std::mutex lock;
	file_signal *all = nullptr;
	u32 any = 0; /* atomic: a pass with none takes no lock */
};
constinit no_destructor<full_eventfds> full;

/* Files polled at once; the others are retried after poll_ms. */
constexpr unsigned most_polled = 63;
constexpr int poll_ms = 50;

/* ---- the writer ------------------------------------------------------------------------------------- */

file_signal *take_fresh()
{
	std::lock_guard guard(writer->lock);

	file_signal *all = writer->fresh;
	writer->fresh = nullptr;
	writer->end = &writer->fresh;
	return all;
}

/* False: it would block. */
bool try_write(const file_signal &f)
{
	const u64 one = 1;
	pollfd p = {f.fd.get(), POLLOUT, 0};

	if (poll(&p, 1, 0) == 0)
		return false;
	const ssize_t n = f.is_socket ? send(f.fd.get(), &one, sizeof(one), MSG_DONTWAIT | MSG_NOSIGNAL) :
					write(f.fd.get(), &one, sizeof(one));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n != sizeof(one))
		log_warn("signalling a file of stream work failed: %s",
			 n < 0 ? strerrordesc_np(errno) : "it does not accept 8 bytes");
	return true;
}

/* Removes the files that were written. */
void serve(file_signal **all)
{
	for (file_signal **at = all; file_signal *f = *at;) {
		if (!try_write(*f)) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		delete f;
	}
}

void wait_writable(const file_signal *all)
{
	pollfd p[1 + most_polled] = {{writer->wake_fd, POLLIN, 0}};
	nfds_t n = 1;

	for (const file_signal *f = all; f && n <= most_polled; f = f->next)
		p[n++] = {f->fd.get(), POLLOUT, 0};
	poll(p, n, all ? poll_ms : -1);
	eventfd_clear(writer->wake_fd);
}

void *writer_main(void *)
{
	file_signal *waiting = nullptr, **end = &waiting;

	thread_name("usdma-signal");
	for (;;) {
		*end = take_fresh();
		serve(&waiting);
		for (end = &waiting; *end; end = &(*end)->next)
			;
		wait_writable(waiting);
	}
}

/* With the lock held. */
int start_writer()
{
	if (writer->started)
		return 0;
	if (writer->wake_fd < 0)
		writer->wake_fd = eventfd_make();
	if (writer->wake_fd < 0)
		return fail_errno("eventfd for the thread that signals files");
	if (const int err = thread_start_detached("usdma-signal", writer_main, nullptr))
		return err;
	writer->started = true;
	return 0;
}

/* ---- the stream's side ------------------------------------------------------------------------------ */

void to_eventfd(void *arg, call_token *)
{
	auto *f = static_cast<file_signal *>(arg);

	if (likely(eventfd_signal(f->fd.get()))) {
		delete f;
		return;
	}
	{
		std::lock_guard guard(full->lock);

		f->next = std::exchange(full->all, f);
		store_relaxed(&full->any, 1u);
	}
	progress_kick();
}

void to_writer(void *arg, call_token *)
{
	auto *f = static_cast<file_signal *>(arg);

	{
		std::lock_guard guard(writer->lock);

		*writer->end = f;
		writer->end = &f->next;
	}
	eventfd_signal(writer->wake_fd);
}

/* Reopens a FIFO if possible, so that O_NONBLOCK does not affect the caller's file description. */
int take_file(int fd, file_signal *f)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fstat(fd, &st))
		return fail_errno("file descriptor %d", fd);
	f->is_socket = S_ISSOCK(st.st_mode);
	if (S_ISFIFO(st.st_mode))
		f->fd.reset(fd_above_stdio(open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)));
	if (!f->fd.valid())
		f->fd.reset(fcntl(fd, F_DUPFD_CLOEXEC, 3));
	return f->fd.valid() ? 0 : fail_errno("file descriptor %d", fd);
}

int signal_file(stream *s, int fd)
{
	auto *f = new (std::nothrow) file_signal;
	int err = f ? take_file(fd, f) : no_memory("a signal");

	if (!err) {
		std::lock_guard guard(writer->lock);

		err = start_writer();
	}
	if (!err)
		err = stream_call(s, to_writer, f, false);
	if (err)
		delete f;
	return err;
}

} // namespace

/* Not try_write(): a counter that the kernel let overflow (POLLERR) would block it. */
static bool retry(const file_signal &f)
{
	if (!eventfd_ready(f.fd.get(), POLLOUT))
		return false;
	if (!eventfd_signal(f.fd.get()))
		log_warn("signalling an eventfd of stream work failed: %s", strerrordesc_np(errno));
	return true;
}

void signals_retry()
{
	if (likely(!load_relaxed(&full->any)))
		return;
	std::lock_guard guard(full->lock);
	for (file_signal **at = &full->all; file_signal *f = *at;) {
		if (!retry(*f)) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		delete f;
	}
	store_relaxed(&full->any, u32(full->all != nullptr));
}

bool signals_listen(std::vector<pollfd> *fds)
{
	bool all = true;

	if (likely(!load_relaxed(&full->any)))
		return true;
	std::lock_guard guard(full->lock);
	/* POLLERR would end each sleep at once. */
	for (const file_signal *f = full->all; f; f = f->next)
		all &= !eventfd_ready(f->fd.get(), POLLERR) && try_push(*fds, pollfd{f->fd.get(), POLLOUT, 0});
	return all;
}

static int signal_eventfd(stream *s, int fd)
{
	auto *f = new (std::nothrow) file_signal;

	if (!f)
		return no_memory("a signal");
	f->fd.reset(fcntl(fd, F_DUPFD_CLOEXEC, 3));
	const int err = f->fd.valid() ? stream_call(s, to_eventfd, f, false) : fail_errno("file descriptor %d", fd);
	if (err)
		delete f;
	return err;
}

int stream_signal_fd(stream *s, int fd)
{
	return is_eventfd(fd) ? signal_eventfd(s, fd) : signal_file(s, fd);
}

} // namespace usdma::core
