/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/auth.h"

#include "driver/base/error.h"
#include "driver/base/unique_fd.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/version.h>
#include <sys/stat.h>

namespace usdma::net {

job_key::~job_key()
{
	explicit_bzero(key_, sizeof(key_));
}

void job_key::set(bytes key)
{
	size_ = std::min(key.size(), sizeof(key_));
	memcpy(key_, key.data(), size_);
}

static int check_file(const char *path, const struct stat &st)
{
	if (!S_ISREG(st.st_mode))
		return fail(EINVAL, "%s (net_key_file) is no file", path);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return fail(EACCES, "%s (net_key_file) belongs to user %u: it must be this user's or root's", path,
			    st.st_uid);
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return fail(EACCES, "%s (net_key_file) may be used by others: chmod 600 %s", path, path);
	if (st.st_size < off_t(key_least) || st.st_size > off_t(key_most))
		return fail(EINVAL,
			    "%s (net_key_file) has %lld bytes: a key has %zu to %zu (head -c 32 /dev/urandom > FILE)",
			    path, static_cast<long long>(st.st_size), key_least, key_most);
	return 0;
}

int job_key::read(const char *path)
{
	/* Not to wait for a FIFO. */
	const unique_fd file(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
	struct stat st;

	if (!file.valid() || fstat(file.get(), &st))
		return fail_errno("%s (net_key_file)", path);
	if (const int err = check_file(path, st))
		return err;
	const ssize_t n = ::read(file.get(), key_, sizeof(key_));
	if (n < 0)
		return fail_errno("%s (net_key_file)", path);
	if (n != st.st_size)
		return fail(EIO, "%s (net_key_file) is being changed", path);
	size_ = size_t(n);
	return 0;
}

void job_key::mac(std::initializer_list<bytes> parts, u8 out[mac_len]) const
{
	hmac_sha256_ctx h;

	hmac_sha256_set_key(&h, size_, key_);
	for (const bytes part : parts)
		hmac_sha256_update(&h, part.size(), part.data());
	static_assert(SHA256_DIGEST_SIZE == mac_len);
#if NETTLE_VERSION_MAJOR >= 4
	hmac_sha256_digest(&h, out);
#else
	hmac_sha256_digest(&h, mac_len, out);
#endif
	explicit_bzero(&h, sizeof(h));
}

bool equal(bytes a, bytes b)
{
	return a.size() == b.size() && memeql_sec(a.data(), b.data(), a.size());
}

} // namespace usdma::net
