/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that blocks a thread that accesses it (userfaultfd(2)). */
#pragma once

#include "tests/support/test.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace usdma::test {

class held_memory {
public:
	/*
	 * flags: UFFD_USER_MODE_ONLY, or 0 to hold system calls, too, which needs a privilege. Skips the case where
	 * there is no userfaultfd, and runs no destructors then: construct it before a device is opened.
	 */
	explicit held_memory(size_t size, int flags = UFFD_USER_MODE_ONLY)
		: fd_(int(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags))), size_(size)
	{
		uffdio_api api = {UFFD_API, 0, 0};

		if (fd_ < 0 || ioctl(fd_, UFFDIO_API, &api)) {
			print_message("# userfaultfd is not available: %s\n", strerror(errno));
			skip();
		}
		p_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_true(p_ != MAP_FAILED);
	}
	held_memory(const held_memory &) = delete;
	~held_memory()
	{
		close(fd_);
		munmap(p_, size_);
	}
	/* Zeroes the memory, from an offset of whole pages on. From now on an access waits until release(). */
	void hold(size_t from = 0) const
	{
		uffdio_register r = {range(), UFFDIO_REGISTER_MODE_MISSING, 0};

		r.range.start += from;
		r.range.len -= from;
		assert_int_equal(madvise(static_cast<char *>(p_) + from, size_ - from, MADV_DONTNEED), 0);
		assert_int_equal(ioctl(fd_, UFFDIO_REGISTER, &r), 0);
	}
	/* Waits until an access is blocked. */
	void wait_for_access() const
	{
		pollfd p = {fd_, POLLIN, 0};

		assert_true(poll(&p, 1, int(patience_ms(30000))) == 1 && p.revents == POLLIN);
	}
	void release() const
	{
		uffdio_range r = range();

		assert_int_equal(ioctl(fd_, UFFDIO_UNREGISTER, &r), 0);
	}
	void *data() const { return p_; }
	size_t size() const { return size_; }

private:
	uffdio_range range() const { return {reinterpret_cast<__u64>(p_), size_}; }

	int fd_;
	size_t size_;
	void *p_;
};

} // namespace usdma::test
