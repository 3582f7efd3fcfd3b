/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/python/usdma/objects.h"

#include <cerrno>

namespace pyusdma {
namespace {

PyObject *error_type; /* lives as long as the interpreter */

} // namespace

void make_error(py::module_ &m)
{
	error_type = PyErr_NewExceptionWithDoc(
		"usdma.Error", "A call of usdma failed: errno, and a text with the reason.", PyExc_OSError, nullptr);
	if (!error_type)
		throw py::error_already_set();
	m.attr("Error") = py::reinterpret_borrow<py::object>(error_type);
}

void raise(int err)
{
	const char *text = usdma_error_text();
	/* OSError's arguments: errno, text */
	py::tuple args = py::make_tuple(-err, *text ? text : "failed");

	PyErr_SetObject(error_type, args.ptr());
	throw py::error_already_set();
}

/* ---- device ---------------------------------------------------------------------------------------- */

std::shared_ptr<device> device::open(const char *name)
{
	auto d = std::make_shared<device>();

	check(without_gil([&] { return usdma_open(name, d->h_.put()); }));
	return d;
}

device::~device()
{
	if (usdma_device *h = h_.take())
		without_gil([&] { return usdma_close(h); });
}

usdma_device *device::open_handle() const
{
	if (closed_)
		throw py::value_error("the device is closed");
	return h_.get();
}

usdma_device_info device::info() const
{
	usdma_device_info i = {};

	i.struct_size = sizeof(i);
	check(usdma_device_get_info(open_handle(), &i));
	return i;
}

/* ---- memory ---------------------------------------------------------------------------------------- */

std::shared_ptr<host_block> host_block::make(const device_ref &dev, size_t size)
{
	auto b = std::make_shared<host_block>();
	usdma_device *h = dev->open_handle();

	check(without_gil([&] { return usdma_host_alloc(h, size, &b->ptr_); }));
	b->dev_ = dev;
	b->size_ = size;
	return b;
}

host_block::~host_block()
{
	free();
}

void *host_block::ptr() const
{
	if (closed_)
		throw py::value_error("the buffer is closed");
	return ptr_;
}

void host_block::free()
{
	if (void *p = std::exchange(ptr_, nullptr))
		without_gil([&] { return usdma_host_free(p); });
}

void host_block::close()
{
	closed_ = true;
	if (!views_)
		free();
}

void host_block::view_dropped()
{
	if (!--views_ && closed_)
		free();
}

std::shared_ptr<device_block> device_block::make(const device_ref &dev, size_t size)
{
	auto b = std::make_shared<device_block>();
	usdma_device *h = dev->open_handle();

	check(without_gil([&] { return usdma_device_alloc(h, size, &b->ptr_); }));
	b->dev_ = dev;
	b->size_ = size;
	return b;
}

device_block::~device_block()
{
	free();
}

void device_block::free()
{
	if (void *p = std::exchange(ptr_, nullptr))
		without_gil([&] { return usdma_device_free(p); });
}

/* ---- stream ---------------------------------------------------------------------------------------- */

std::shared_ptr<stream> stream::make(const device_ref &dev)
{
	auto s = std::make_shared<stream>();
	usdma_device *h = dev->open_handle();

	check(without_gil([&] { return usdma_stream_create(h, nullptr, s->h_.put()); }));
	s->dev_ = dev;
	return s;
}

stream::~stream()
{
	if (usdma_stream *h = h_.take())
		without_gil([&] { return usdma_stream_destroy(h); });
}

void stream::copy(uintptr_t dst, uintptr_t src, size_t size)
{
	check(without_gil([&] { return usdma_copy(h_.get(), address(dst), address(src), size); }));
}

void stream::fill(uintptr_t dst, uint64_t pattern, unsigned pattern_size, size_t size)
{
	check(without_gil([&] { return usdma_fill(h_.get(), address(dst), pattern, pattern_size, size); }));
}

void stream::reduce(uintptr_t dst, uintptr_t src, size_t size, int element, int op)
{
	check(without_gil([&] { return usdma_reduce(h_.get(), address(dst), address(src), size, element, op); }));
}

void stream::sync(int timeout_ms)
{
	check(without_gil([&] { return usdma_stream_sync(h_.get(), timeout_ms); }));
}

bool stream::query()
{
	return check(usdma_stream_query(h_.get())) == 1;
}

void stream::abort()
{
	check(without_gil([&] { return usdma_stream_abort(h_.get()); }));
}

void stream::signal_fd(int fd)
{
	check(without_gil([&] { return usdma_stream_signal_fd(h_.get(), fd); }));
}

py::object stream::take_error()
{
	usdma_error_info info = {};

	info.struct_size = sizeof(info);
	check(usdma_stream_take_error(h_.get(), &info));
	if (!info.error)
		return py::none();
	return py::make_tuple(-info.error, info.reason_name, info.address);
}

void stream::wait_event(event &e)
{
	check(without_gil([&] { return usdma_stream_wait_event(h_.get(), e.get()); }));
}

void stream::close()
{
	if (usdma_stream *h = h_.take())
		check(without_gil([&] { return usdma_stream_destroy(h); }));
}

/* ---- event ----------------------------------------------------------------------------------------- */

std::shared_ptr<event> event::make(const device_ref &dev, bool timing)
{
	auto e = std::make_shared<event>();
	usdma_device *h = dev->open_handle();

	check(without_gil([&] { return usdma_event_create(h, timing ? USDMA_EVENT_TIMING : 0, e->h_.put()); }));
	e->dev_ = dev;
	return e;
}

event::~event()
{
	if (usdma_event *h = h_.take())
		without_gil([&] { return usdma_event_destroy(h); });
}

void event::record(stream &s)
{
	check(without_gil([&] { return usdma_event_record(h_.get(), s.get()); }));
}

bool event::query()
{
	return check(usdma_event_query(h_.get())) == 1;
}

void event::sync(int timeout_ms)
{
	check(without_gil([&] { return usdma_event_sync(h_.get(), timeout_ms); }));
}

int64_t event::elapsed(event &end)
{
	int64_t ns = 0;

	check(usdma_event_elapsed(h_.get(), end.get(), &ns));
	return ns;
}

void event::close()
{
	if (usdma_event *h = h_.take())
		check(without_gil([&] { return usdma_event_destroy(h); }));
}

} // namespace pyusdma
