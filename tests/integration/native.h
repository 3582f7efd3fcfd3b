/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by tests of the native API: calls that must succeed, and objects that are destroyed with their scope. */
#pragma once

#include "tests/support/test.h"
#include "usdma/usdma.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace usdma::test {

/* Fails the test with the library's error text if the call failed. */
inline int works(int ret, const char *call, const char *file, int line)
{
	if (ret < 0) {
		print_error("%s: %d: %s\n", call, ret, usdma_error_text());
		_fail(file, line);
	}
	return ret;
}
#define WORKS(call) ::usdma::test::works((call), #call, __FILE__, __LINE__)

enum class kind { device, pinned, registered, pageable };
inline constexpr kind all_kinds[] = {kind::device, kind::pinned, kind::registered, kind::pageable};

inline const char *name_of(kind k)
{
	static const char *const names[] = {"device", "pinned", "registered", "pageable"};

	return names[int(k)];
}

/* A block of memory of one kind. */
class block {
public:
	block(usdma_device *dev, kind k, size_t size) : kind_(k), size_(size)
	{
		void *p = nullptr;

		if (k == kind::device)
			WORKS(usdma_device_alloc(dev, size, &p));
		else if (k == kind::pinned)
			WORKS(usdma_host_alloc(dev, size, &p));
		else
			p = malloc(size);
		assert_non_null(p);
		p_ = static_cast<unsigned char *>(p);
		if (k == kind::registered)
			WORKS(usdma_host_register(p, size, 0));
	}
	block(block &&o) noexcept : kind_(o.kind_), size_(o.size_), p_(o.p_) { o.p_ = nullptr; }
	block(const block &) = delete;
	~block()
	{
		if (!p_)
			return;
		if (kind_ == kind::registered)
			WORKS(usdma_host_unregister(p_));
		if (kind_ == kind::device)
			WORKS(usdma_device_free(p_));
		else if (kind_ == kind::pinned)
			WORKS(usdma_host_free(p_));
		else
			free(p_);
	}
	unsigned char *data() const { return p_; }
	size_t size() const { return size_; }
	kind what() const { return kind_; }

private:
	kind kind_;
	size_t size_;
	unsigned char *p_ = nullptr;
};

class device {
public:
	explicit device(unsigned index = 0) { WORKS(usdma_open_index(index, &d_)); }
	device(const device &) = delete;
	~device() { WORKS(usdma_close(d_)); }
	operator usdma_device *() const { return d_; }

private:
	usdma_device *d_ = nullptr;
};

class stream {
public:
	explicit stream(usdma_device *d, uint32_t wait_mode = USDMA_WAIT_DEFAULT)
	{
		usdma_stream_options opt = {};

		opt.struct_size = sizeof(opt);
		opt.wait_mode = wait_mode;
		WORKS(usdma_stream_create(d, &opt, &s_));
	}
	stream(stream &&o) noexcept : s_(o.s_) { o.s_ = nullptr; }
	stream(const stream &) = delete;
	~stream()
	{
		if (s_)
			WORKS(usdma_stream_destroy(s_));
	}
	/* It is not destroyed: its device is lost. */
	void leave() { s_ = nullptr; }
	operator usdma_stream *() const { return s_; }

private:
	usdma_stream *s_ = nullptr;
};

inline bool all_are(const unsigned char *p, size_t len, unsigned char want)
{
	return std::all_of(p, p + len, [=](unsigned char c) { return c == want; });
}

inline const int long_ms = int(patience_ms(60000)); /* longer than any operation of the tests; limits a hang */

class event {
public:
	explicit event(usdma_device *d, unsigned flags = 0) { WORKS(usdma_event_create(d, flags, &e_)); }
	event(const event &) = delete;
	~event() { WORKS(usdma_event_destroy(e_)); }
	operator usdma_event *() const { return e_; }

private:
	usdma_event *e_ = nullptr;
};

inline uint32_t flags_of(usdma_device *dev)
{
	usdma_device_info info = {};

	info.struct_size = sizeof(info);
	WORKS(usdma_device_get_info(dev, &info));
	return info.flags;
}

/* A word in device memory that holds streams until the test opens it. */
struct gate {
	block word;
	stream opener;

	explicit gate(usdma_device *dev) : word(dev, kind::device, 64), opener(dev)
	{
		WORKS(usdma_fill_sync(dev, word.data(), 0, 8, 64, long_ms));
	}
	void close(usdma_stream *s) { WORKS(usdma_wait_value(s, word.data(), USDMA_EQ, 1)); }
	void open()
	{
		WORKS(usdma_write_value(opener, word.data(), 1));
		WORKS(usdma_stream_sync(opener, long_ms));
	}
};

} // namespace usdma::test
