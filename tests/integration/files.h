/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by tests of <usdma/file.h>: temporary files, imported files, and contents of memory. */
#pragma once

#include "tests/integration/native.h"
#include "usdma/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace usdma::test {

using bytes = std::vector<unsigned char>;

inline constexpr size_t KiB = 1024, MiB = 1024 * KiB;
inline constexpr unsigned char untouched = 0xa5;

/* An unlinked file. */
class temporary {
public:
	explicit temporary(const char *dir = "/tmp", int flags = O_RDWR)
	{
		std::string path = std::string(dir) + "/usdma-files-XXXXXX";

		fd_ = mkstemp(path.data());
		assert_true(fd_ >= 0);
		if (flags != O_RDWR) {
			close(fd_);
			fd_ = open(path.c_str(), flags);
			assert_true(fd_ >= 0);
		}
		unlink(path.c_str());
	}
	temporary(const temporary &) = delete;
	~temporary() { close(fd_); }
	int fd() const { return fd_; }
	void put(const bytes &data, size_t offset = 0) const
	{
		assert_int_equal(pwrite(fd_, data.data(), data.size(), off_t(offset)), ssize_t(data.size()));
	}
	bytes get() const
	{
		struct stat st;

		assert_int_equal(fstat(fd_, &st), 0);
		bytes all(size_t(st.st_size));
		assert_int_equal(pread(fd_, all.data(), all.size(), 0), ssize_t(all.size()));
		return all;
	}

private:
	int fd_;
};

class file {
public:
	file(usdma_device *dev, int fd, unsigned flags = USDMA_FILE_AUTO)
	{
		WORKS(usdma_file_import(dev, fd, flags, &f_));
	}
	file(file &&o) noexcept : f_(o.f_) { o.f_ = nullptr; }
	file(const file &) = delete;
	~file()
	{
		if (f_)
			WORKS(usdma_file_close(f_));
	}
	operator usdma_file *() const { return f_; }

private:
	usdma_file *f_ = nullptr;
};

inline bytes random_bytes(size_t n, std::mt19937_64 &gen)
{
	bytes b(n);

	if (n)
		fill_random(b.data(), n, gen);
	return b;
}

inline void put(usdma_device *dev, const block &to, const bytes &data)
{
	WORKS(usdma_copy_sync(dev, to.data(), data.data(), data.size(), long_ms));
}

inline bytes get(usdma_device *dev, const block &from)
{
	bytes data(from.size());

	WORKS(usdma_copy_sync(dev, data.data(), from.data(), data.size(), long_ms));
	return data;
}

inline void wipe(usdma_device *dev, const block &b)
{
	put(dev, b, bytes(b.size(), untouched));
}

/* got starts with n bytes of the file from offset on, and the rest is untouched. */
inline void assert_prefix(const bytes &got, const bytes &want, size_t offset, size_t n)
{
	assert_true(n <= got.size() && (!n || offset + n <= want.size()));
	if (n)
		assert_memory_equal(got.data(), want.data() + offset, n);
	assert_true(all_are(got.data() + n, got.size() - n, untouched));
}

/* Sizes of all orders of magnitude. */
inline size_t any_size(size_t most, std::mt19937_64 &gen)
{
	return gen() % (std::min(most, size_t(1) << gen() % 23) + 1);
}

inline bool has_direct(usdma_device *dev, int fd)
{
	usdma_file *f;
	const int err = usdma_file_import(dev, fd, USDMA_FILE_DIRECT, &f);

	if (!err)
		WORKS(usdma_file_close(f));
	return !err;
}

inline unsigned any_flags(usdma_device *dev, int fd, std::mt19937_64 &gen)
{
	return unsigned(gen() % (has_direct(dev, fd) ? 3 : 2));
}

/* Runs work() in a new process; it returns the exit status, which must be 0. */
template <class Work> void in_a_child(Work work)
{
	int status = -1;
	const pid_t child = fork();

	if (!child) {
		for (const int sig : {SIGSEGV, SIGBUS, SIGABRT})
			signal(sig, SIG_DFL);
		alarm(unsigned(long_ms / 1000));
		_exit(work());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Random data with a hole. */
inline bytes fill_file(const temporary &t, size_t size, std::mt19937_64 &gen)
{
	t.put(random_bytes(size, gen));
	if (size > 64 * KiB)
		fallocate(t.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(gen() % size), off_t(gen() % size));
	return t.get();
}

} // namespace usdma::test
