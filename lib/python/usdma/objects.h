/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "lib/python/gil.h"

#include <pybind11/stl.h>
#include <usdma/usdma.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace pyusdma {

namespace py = pybind11;

/* Creates usdma.Error, an OSError with errno and the library's text. */
void make_error(py::module_ &m);
[[noreturn]] void raise(int err);

/* Returns err, or raises usdma.Error if it is negative. Must run in the thread that made the call. */
inline int check(int err)
{
	if (err < 0)
		raise(err);
	return err;
}

using usdma::python::without_gil;

inline void *address(uintptr_t at)
{
	return reinterpret_cast<void *>(at);
}

/* A library handle that close() takes; later calls return -EBADF. */
template <class H> class handle {
public:
	handle() = default;
	handle(const handle &) = delete;
	handle &operator=(const handle &) = delete;
	H *get() const { return h_; }
	H **put() { return &h_; }
	H *take() { return std::exchange(h_, nullptr); }

private:
	H *h_ = nullptr;
};

class device {
public:
	static std::shared_ptr<device> open(const char *name);
	~device();
	usdma_device *get() const { return h_.get(); }
	usdma_device_info info() const;
	/* Closes it for the user; objects that depend on the device stay usable. */
	void close() { closed_ = true; }
	/* Raises ValueError if it was closed. */
	usdma_device *open_handle() const;

private:
	handle<usdma_device> h_;
	bool closed_ = false;
};

using device_ref = std::shared_ptr<device>;

/* Pinned memory with the buffer protocol. After close() there are no new views; it lives as long as the others do. */
class host_block {
public:
	static std::shared_ptr<host_block> make(const device_ref &dev, size_t size);
	~host_block();
	/* Raises ValueError if it was closed. */
	void *ptr() const;
	size_t size() const { return size_; }
	bool closed() const { return closed_; }
	void close();
	void view_made() { views_++; }
	void view_dropped();

private:
	void free();

	device_ref dev_;
	void *ptr_ = nullptr;
	size_t size_ = 0;
	size_t views_ = 0;
	bool closed_ = false;
};

class device_block {
public:
	static std::shared_ptr<device_block> make(const device_ref &dev, size_t size);
	~device_block();
	void *ptr() const { return ptr_; }
	size_t size() const { return size_; }
	void free();

private:
	device_ref dev_;
	void *ptr_ = nullptr;
	size_t size_ = 0;
};

class event;

class stream {
public:
	static std::shared_ptr<stream> make(const device_ref &dev);
	~stream();
	void copy(uintptr_t dst, uintptr_t src, size_t size);
	void fill(uintptr_t dst, uint64_t pattern, unsigned pattern_size, size_t size);
	void reduce(uintptr_t dst, uintptr_t src, size_t size, int element, int op);
	void sync(int timeout_ms);
	bool query();
	void abort();
	void signal_fd(int fd);
	/* None, or (errno, reason's name, address). */
	py::object take_error();
	void wait_event(event &e);
	/* Waits for its work; raises the pending error, if any. */
	void close();
	usdma_stream *get() const { return h_.get(); }

private:
	device_ref dev_;
	handle<usdma_stream> h_;
};

class event {
public:
	static std::shared_ptr<event> make(const device_ref &dev, bool timing);
	~event();
	void record(stream &s);
	bool query();
	void sync(int timeout_ms);
	int64_t elapsed(event &end);
	void close();
	usdma_event *get() const { return h_.get(); }

private:
	device_ref dev_;
	handle<usdma_event> h_;
};

} // namespace pyusdma
