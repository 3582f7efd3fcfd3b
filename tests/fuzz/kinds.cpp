/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fuzz/kinds.h"

#include "tests/fuzz/fuzz.h"
#include "tests/support/silent_file.h"

#include "driver/base/unique_fd.h"

#include <fcntl.h>
#include <string>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace usdma::fuzz {

static constexpr size_t page = 4096;
static constexpr int good_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static int memory(size_t size, int seals, unsigned flags = 0)
{
	const int fd = memfd_create("fuzz-kinds", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd >= 0 && (ftruncate(fd, off_t(size)) || (seals && fcntl(fd, F_ADD_SEALS, seals))))
		must_hold(flags);
	return fd;
}

static int reopen(int fd, int flags)
{
	const unique_fd from(fd);

	return open(("/proc/self/fd/" + std::to_string(fd)).c_str(), flags | O_CLOEXEC);
}

/* A pipe whose other descriptor is closed. */
static int half_pipe(unsigned which)
{
	int fds[2];

	must_hold(!pipe2(fds, O_CLOEXEC));
	close(fds[1 - which]);
	return fds[which];
}

static int peerless_socket(int type)
{
	int fds[2];

	must_hold(!socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds));
	close(fds[1]);
	return fds[0];
}

static int full_event()
{
	const u64 full = 0xfffffffffffffffe;
	const int fd = eventfd(0, EFD_CLOEXEC);

	must_hold(write(fd, &full, sizeof(full)) == sizeof(full));
	return fd;
}

/* A file that answers only a close.  Served by another process, which exits with this one. */
static int silent()
{
	static const int fd = [] {
		const char *why;
		const int made = test::silent_file(&why, true);

		if (made < 0)
			fprintf(stderr, "# SKIP a file that never answers: %s\n", why);
		else
			atexit(test::end_silent_file);
		return made;
	}();

	return fd;
}

static int lingering()
{
	static const int fd = test::lingering_socket();

	return fd;
}

static int memory_of(u8 kind)
{
	switch (kind) {
	case 0:
		return memory(page, good_seals);
	case 1:
		return memory(page, 0);
	case 2:
		return memory(16 * page, good_seals);
	case 3:
		return memory(page, good_seals | F_SEAL_WRITE);
	case 4:
		return reopen(memory(page, good_seals), O_RDONLY);
	case 5:
		return reopen(memory(page, good_seals), O_PATH);
	default:
		return memory(2 * MiB, good_seals, MFD_HUGETLB);
	}
}

static int stream_of(u8 kind)
{
	switch (kind) {
	case 7:
		return half_pipe(0);
	case 8:
		return half_pipe(1);
	case 9:
		return peerless_socket(SOCK_STREAM);
	case 10:
		return peerless_socket(SOCK_SEQPACKET);
	case 11:
		return socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	case 12:
		return eventfd(0, EFD_CLOEXEC);
	case 13:
		return full_event();
	default:
		return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	}
}

static int other_of(u8 kind)
{
	switch (kind) {
	case 15:
		return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	case 16:
		return open("/", O_PATH | O_CLOEXEC);
	case 17:
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	case 18:
		return open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	case 19:
		return epoll_create1(EPOLL_CLOEXEC);
	case 20:
		return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	default:
		return -1;
	}
}

int descriptor_of(u8 kind)
{
	kind %= kinds;
	if (kind == silent_kind || kind == silent_kind + 1)
		return fcntl(kind == silent_kind ? silent() : lingering(), F_DUPFD_CLOEXEC, 3);
	return kind < 7 ? memory_of(kind) : kind < 15 ? stream_of(kind) : other_of(kind);
}

void prepare_kinds()
{
	silent();
	lingering();
}

} // namespace usdma::fuzz
