/* SPDX-License-Identifier: BSD-3-Clause */
/* usdma._native: files. */
#include "lib/python/usdma/files.h"

#include "driver/base/barrier.h"

namespace pyusdma {
namespace {

template <class T> std::vector<T> snapshot(const std::vector<T> &values)
{
	std::vector<T> now;

	now.reserve(values.size());
	for (const T &v : values)
		now.push_back(usdma::load_relaxed(&v));
	return now;
}

} // namespace

/* ---- file ------------------------------------------------------------------------------------------ */

std::shared_ptr<file> file::make(const device_ref &dev, int fd, unsigned flags)
{
	auto f = std::make_shared<file>();
	usdma_device *h = dev->open_handle();

	check(without_gil([&] { return usdma_file_import(h, fd, flags, f->h_.put()); }));
	f->dev_ = dev;
	return f;
}

file::~file()
{
	if (usdma_file *h = h_.take())
		without_gil([&] { return usdma_file_close(h); });
}

size_t file::read(uintptr_t dst, uint64_t offset, size_t len, int timeout_ms)
{
	size_t moved = 0;

	check(without_gil(
		[&] { return usdma_file_read_sync(address(dst), h_.get(), offset, len, &moved, timeout_ms); }));
	return moved;
}

size_t file::write(uintptr_t src, uint64_t offset, size_t len, int timeout_ms)
{
	size_t moved = 0;

	check(without_gil(
		[&] { return usdma_file_write_sync(h_.get(), offset, address(src), len, &moved, timeout_ms); }));
	return moved;
}

void file::sync(stream &s)
{
	check(without_gil([&] { return usdma_file_sync(s.get(), h_.get()); }));
}

void file::close()
{
	if (usdma_file *h = h_.take())
		check(without_gil([&] { return usdma_file_close(h); }));
}

/* ---- batch ----------------------------------------------------------------------------------------- */

py::object batch::submit(stream &s, const std::vector<batch_item> &list, const py::tuple &memory)
{
	auto b = std::make_shared<batch>();
	py::object object = py::cast(b);
	std::vector<usdma_file_item> items;

	b->moved_.resize(list.size());
	b->errors_.resize(list.size());
	items.reserve(list.size());
	for (const auto &[f, writes, mem, offset, len] : list) {
		const size_t i = items.size();

		items.push_back({f->get(), address(mem), offset, len, &b->moved_[i], &b->errors_[i],
				 uint32_t(writes ? USDMA_FILE_WRITE : USDMA_FILE_READ), 0});
	}
	check(without_gil([&] { return usdma_file_batch(s.get(), items.data(), items.size(), nullptr); }));
	s.retain(py::make_tuple(object, memory));
	return object;
}

std::vector<size_t> batch::moved() const
{
	return snapshot(moved_);
}

std::vector<int> batch::errors() const
{
	return snapshot(errors_);
}

void add_files(py::module_ &m)
{
	py::class_<file, std::shared_ptr<file>>(m, "File")
		.def(py::init(&file::make), py::arg("device"), py::arg("fd"), py::arg("flags"))
		.def("read", &file::read, py::arg("dst"), py::arg("offset"), py::arg("size"),
		     py::arg("timeout_ms") = -1)
		.def("write", &file::write, py::arg("src"), py::arg("offset"), py::arg("size"),
		     py::arg("timeout_ms") = -1)
		.def("sync", &file::sync, py::arg("stream"))
		.def("close", &file::close);
	py::class_<batch, std::shared_ptr<batch>>(m, "FileBatch")
		.def_static("submit", &batch::submit, py::arg("stream"), py::arg("items"), py::arg("memory"))
		.def("moved", &batch::moved)
		.def("errors", &batch::errors);
}

} // namespace pyusdma
