/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A vfio-user message in memory. Short bodies and all descriptors are stored inline: commands that change or
 * release state in the peer need no allocation for their reply.
 */
#pragma once

#include "driver/base/foreign_fd.h"
#include "driver/vfio_user/proto.h"

#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace usdma::vfio {

class message_body {
public:
	message_body() = default;
	message_body(message_body &&o) noexcept { *this = std::move(o); }
	message_body &operator=(message_body &&o) noexcept
	{
		large_ = std::move(o.large_);
		capacity_ = std::exchange(o.capacity_, sizeof(small_));
		size_ = std::exchange(o.size_, 0);
		truncated_ = std::exchange(o.truncated_, false);
		if (!large_)
			memcpy(small_, o.small_, size_);
		return *this;
	}

	u8 *data() { return large_ ? large_.get() : small_; }
	const u8 *data() const { return large_ ? large_.get() : small_; }
	size_t size() const { return size_; }
	bool empty() const { return !size_; }
	void clear()
	{
		size_ = 0;
		truncated_ = false;
	}
	/* New bytes are undefined; false: no memory, unchanged. */
	[[nodiscard]] bool resize(size_t n)
	{
		if (n > capacity_) {
			std::unique_ptr<u8[]> more(new (std::nothrow) u8[n]);

			if (!more)
				return false;
			memcpy(more.get(), data(), size_);
			large_ = std::move(more);
			capacity_ = n;
		}
		size_ = n;
		return true;
	}
	/* Out of memory: the body is truncated; the sender checks truncated(). */
	void append(const void *p, size_t n)
	{
		const size_t at = size_;

		if (truncated_ || !resize(size_ + n))
			truncated_ = true;
		else
			memcpy(data() + at, p, n);
	}
	bool truncated() const { return truncated_; }

private:
	u8 small_[512];
	std::unique_ptr<u8[]> large_; /* replaces small_ */
	size_t size_ = 0, capacity_ = sizeof(small_);
	bool truncated_ = false;
};

/* Descriptors are closed without blocking. */
class message_fds {
public:
	message_fds() = default;
	message_fds(message_fds &&o) noexcept { *this = std::move(o); }
	~message_fds() { clear(); }
	message_fds &operator=(message_fds &&o) noexcept
	{
		clear();
		for (unique_fd &fd : o)
			push(std::move(fd));
		lost_ = o.lost_;
		o.clear();
		return *this;
	}

	/* Excess descriptors are closed, and counted. */
	void push(unique_fd fd)
	{
		if (n_ < proto::our_max_msg_fds)
			fd_[n_] = std::move(fd);
		else
			close_foreign(std::move(fd));
		n_++;
	}
	void clear()
	{
		for (unique_fd &fd : *this)
			close_foreign(std::move(fd));
		n_ = 0;
		lost_ = 0;
	}
	/* Descriptors were dropped: the process's limit is reached. */
	void mark_lost() { lost_ = 1; }
	bool any_lost() const { return lost_; }
	bool any_slow() const
	{
		for (size_t i = 0; i < size(); i++)
			if (!closes_at_once(fd_[i].get()))
				return true;
		return false;
	}
	/* More than our_max_msg_fds were received. */
	bool too_many() const { return n_ > proto::our_max_msg_fds; }
	size_t size() const { return too_many() ? proto::our_max_msg_fds : n_; }
	bool empty() const { return !n_; }
	unique_fd *data() { return fd_; }
	const unique_fd *data() const { return fd_; }
	unique_fd *begin() { return fd_; }
	unique_fd *end() { return fd_ + size(); }
	unique_fd &operator[](size_t i) { return fd_[i]; }

private:
	unique_fd fd_[proto::our_max_msg_fds];
	u32 n_ = 0, lost_ = 0;
};
/* With -ftrivial-auto-var-init, g++ 12 clears padding behind an array of structures at wrong addresses. */
static_assert(sizeof(message_fds) == (proto::our_max_msg_fds + 2) * sizeof(u32));

struct user_message {
	proto::header head{};
	message_body body;
	message_fds fds;
};

} // namespace usdma::vfio
