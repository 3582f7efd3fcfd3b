/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "lib/python/usdma/objects.h"

#include <tuple>
#include <usdma/file.h>
#include <vector>

namespace pyusdma {

class file {
public:
	static std::shared_ptr<file> make(const device_ref &dev, int fd, unsigned flags);
	~file();
	/* Without a stream: the number of bytes. */
	size_t read(uintptr_t dst, uint64_t offset, size_t len, int timeout_ms);
	size_t write(uintptr_t src, uint64_t offset, size_t len, int timeout_ms);
	void sync(stream &s);
	void close();
	usdma_file *get() const { return h_.get(); }

private:
	device_ref dev_;
	handle<usdma_file> h_;
};

/* File, whether it is written, address, offset, length. */
using batch_item = std::tuple<std::shared_ptr<file>, bool, uintptr_t, uint64_t, size_t>;

/* Operations of a stream, which references this: they write here until they have ended. */
class batch {
public:
	static py::object submit(stream &s, const std::vector<batch_item> &list, const py::tuple &memory);
	/* Also while it runs: 0 for an item that has not ended. */
	std::vector<size_t> moved() const;
	std::vector<int> errors() const;

private:
	std::vector<size_t> moved_;
	std::vector<int> errors_; /* 0 or -errno */
};

void add_files(py::module_ &m);

} // namespace pyusdma
