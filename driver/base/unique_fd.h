/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <unistd.h>
#include <utility>

namespace usdma {

/* Owns a file descriptor; -1: none. */
class unique_fd {
public:
	unique_fd() = default;
	explicit unique_fd(int fd) : fd_(fd) {}
	unique_fd(unique_fd &&o) noexcept : fd_(o.release()) {}
	unique_fd &operator=(unique_fd &&o) noexcept
	{
		reset(o.release());
		return *this;
	}
	~unique_fd() { reset(); }

	int get() const { return fd_; }
	bool valid() const { return fd_ >= 0; }
	int release() { return std::exchange(fd_, -1); }
	void reset(int fd = -1)
	{
		const int old = std::exchange(fd_, fd);

		if (old >= 0)
			close(old);
	}

private:
	int fd_ = -1;
};

} // namespace usdma
