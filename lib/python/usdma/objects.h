/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "lib/python/gil.h"

#include <pybind11/stl.h>
#include <usdma/uring.h>
#include <usdma/usdma.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
	void sync(int timeout_ms);
	bool lost() const;
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
class stream;

/* A position in the work of a stream. It does not reference the stream. */
struct mark {
	std::weak_ptr<stream> of;
	uint64_t at = 0;
};

/*
 * These positions were passed: releases what lies before them, and before the marks that their streams waited for. With
 * the GIL.
 */
void release_before(std::vector<mark> passed);

/*
 * A stream references the memory of its work in the order of submission. A wait takes the stream's end() when it
 * begins, and releases what lies before that when it has returned: a wait for the stream, for its device, for an event
 * that was recorded in it, or for another stream that waited for such an event. The GIL is the lock.
 */
class stream : public std::enable_shared_from_this<stream> {
public:
	static std::shared_ptr<stream> make(const device_ref &dev);
	/* Of all streams of a device. */
	static std::vector<mark> marks_of(const usdma_device *dev);
	stream() = default;
	stream(const stream &) = delete;
	~stream();
	/* Returns the number of the operation; 0: it is done. */
	uint64_t copy(uintptr_t dst, uintptr_t src, size_t size, py::tuple memory, bool wait);
	/* fn(errno) by a thread of the library. */
	void call(py::function fn, bool hold);
	void fill(uintptr_t dst, uint64_t pattern, unsigned pattern_size, size_t size, py::tuple memory);
	void reduce(uintptr_t dst, uintptr_t src, size_t size, int element, int op, py::tuple memory);
	void sync(int timeout_ms);
	bool query();
	void abort();
	void wait_event(event &e);
	/* Waits for its work; raises the pending error, if any. */
	void close();
	usdma_stream *get() const { return h_.get(); }
	/* After the submission of work: its memory. */
	void retain(py::tuple memory);
	/* Behind the work submitted so far. */
	mark end() { return {weak_from_this(), first_ + retained_.size()}; }

private:
	friend void release_before(std::vector<mark> passed);

	/* Memory of work, or the mark that later work waits for. */
	struct entry {
		py::object memory;
		mark waits_for;
	};

	int destroy();
	void release_ended();
	void push(entry e);
	void poll_own();
	void take_before(uint64_t at, std::vector<mark> *passed, usdma::python::references *released);

	device_ref dev_;
	handle<usdma_stream> h_;
	std::shared_ptr<event> own_; /* for programs that never wait */
	uint64_t next_poll_ = 0;
	std::deque<entry> retained_;
	uint64_t first_ = 0; /* position of the first in retained_ */
	bool destroyed_ = false;
	bool dropped_ = false; /* what it waited for was perhaps not reached: aborted, or destroyed with an error */
};

/* One at a time of the positions in streams' work. */
class completion {
public:
	static std::shared_ptr<completion> make();
	completion() = default;
	completion(const completion &) = delete;
	~completion();
	/* Returns the descriptor that becomes readable when the stream's work so far has ended. */
	int start(stream &s);
	/* Raises the work's first error, or EAGAIN: it has not ended. */
	void finish();

private:
	handle<usdma_completion> h_;
	mark at_;
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
	friend class stream;

	/* The mark before a call, which knows whether it is still that of the event afterwards. */
	struct view {
		mark at;
		uint64_t records;
	};
	view now() const { return {mark_, records_}; }
	bool unchanged(const view &v) const { return v.records == records_; }
	void reached(const view &v);

	device_ref dev_;
	handle<usdma_event> h_;
	mark mark_;            /* of no stream: unknown, or never recorded */
	uint64_t records_ = 0; /* begun */
	unsigned recording_ = 0;
};

} // namespace pyusdma
