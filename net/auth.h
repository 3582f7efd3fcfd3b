/* SPDX-License-Identifier: BSD-3-Clause */
/* The job's key, and proofs of it. */
#pragma once

#include "driver/base/types.h"
#include "net/wire.h"

#include <initializer_list>
#include <span>

namespace usdma::net {

inline constexpr size_t key_least = 32, key_most = 4096;

using bytes = std::span<const u8>;

template <class T> bytes bytes_of(const T &t)
{
	return {reinterpret_cast<const u8 *>(&t), sizeof(t)};
}

class job_key {
public:
	job_key() = default;
	~job_key();
	job_key(const job_key &) = delete;
	job_key &operator=(const job_key &) = delete;

	/* All of the file. -EINVAL: too short or too long. -EACCES: others may read it, or it is another user's. */
	int read(const char *path);
	void set(bytes key);
	bool present() const { return size_ != 0; }
	void mac(std::initializer_list<bytes> parts, u8 out[mac_len]) const;

private:
	u8 key_[key_most];
	size_t size_ = 0;
};

/* In a time that does not depend on the content. */
bool equal(bytes a, bytes b);

} // namespace usdma::net
