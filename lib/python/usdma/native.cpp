/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * usdma._native: the native API's devices, streams, events and memory as Python
 * objects.  An object references what it depends on (a buffer its device), so that
 * Python may release them in any order.
 */
#include "lib/python/main_only.h"
#include "lib/python/usdma/files.h"
#include "lib/python/usdma/objects.h"

using namespace pyusdma;

namespace {

py::dict info_dict(const usdma_device_info &i)
{
	py::dict d;

	d["index"] = i.index;
	d["name"] = i.name;
	d["driver"] = i.driver;
	d["transport"] = i.transport;
	d["memory_size"] = i.memory_size;
	d["memory_free"] = i.memory_free;
	d["max_copy"] = i.max_copy;
	d["engines"] = i.engines;
	d["channels"] = i.channels;
	d["ring_size"] = i.ring_size;
	d["numa_node"] = i.numa_node;
	d["lost"] = bool(i.flags & USDMA_DEVICE_LOST);
	return d;
}

void add_device(py::module_ &m)
{
	py::class_<device, std::shared_ptr<device>>(m, "Device")
		.def(py::init([](std::optional<std::string> name) {
			     if (name && name->find('\0') != std::string::npos)
				     throw py::value_error("embedded null character");
			     return device::open(name ? name->c_str() : nullptr);
		     }),
		     py::arg("name") = py::none())
		.def(
			"info", [](device &d) { return info_dict(d.info()); }, "What the device is, as a dict.")
		.def("synchronize", &device::sync, py::arg("timeout_ms") = -1)
		.def("close", &device::close);
}

/* nullptr: a subclass has not called __init__() yet. */
host_block *block_of(PyObject *self)
{
	auto *const i = reinterpret_cast<py::detail::instance *>(self);
	const py::detail::value_and_holder v = i->get_value_and_holder();

	return v.holder_constructed() ? v.value_ptr<host_block>() : nullptr;
}

int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
	host_block *const b = block_of(self);

	view->obj = nullptr;
	if (!b || b->closed()) {
		PyErr_SetString(PyExc_ValueError, "the buffer is closed");
		return -1;
	}
	const int err = PyBuffer_FillInfo(view, self, b->ptr(), Py_ssize_t(b->size()), 0, flags);
	if (!err)
		b->view_made();
	return err;
}

void release_buffer(PyObject *self, Py_buffer *)
{
	block_of(self)->view_dropped();
}

/* The protocol itself: pybind11's has no call when a view is dropped. */
void export_buffers(PyHeapTypeObject *type)
{
	type->as_buffer.bf_getbuffer = get_buffer;
	type->as_buffer.bf_releasebuffer = release_buffer;
	type->ht_type.tp_as_buffer = &type->as_buffer;
}

void add_memory(py::module_ &m)
{
	py::class_<host_block, std::shared_ptr<host_block>>(m, "HostBlock", py::custom_type_setup(export_buffers))
		.def(py::init(&host_block::make), py::arg("device"), py::arg("size"))
		.def_property_readonly("ptr", [](host_block &b) { return uintptr_t(b.ptr()); })
		.def_property_readonly("size", &host_block::size)
		.def_property_readonly("closed", &host_block::closed)
		.def("close", &host_block::close);
	py::class_<device_block, std::shared_ptr<device_block>>(m, "DeviceBlock")
		.def(py::init(&device_block::make), py::arg("device"), py::arg("size"))
		.def_property_readonly("ptr", [](device_block &b) { return uintptr_t(b.ptr()); })
		.def_property_readonly("size", &device_block::size)
		.def("free", &device_block::free);
	m.def("view_address", [](py::memoryview v) { return uintptr_t(PyMemoryView_GET_BUFFER(v.ptr())->buf); });
	m.def("host_register", [](uintptr_t ptr, size_t size, unsigned flags) {
		check(without_gil([&] { return usdma_host_register(reinterpret_cast<void *>(ptr), size, flags); }));
	});
	m.def("host_unregister", [](uintptr_t ptr) {
		check(without_gil([&] { return usdma_host_unregister(reinterpret_cast<void *>(ptr)); }));
	});
}

void add_stream(py::module_ &m)
{
	py::class_<stream, std::shared_ptr<stream>>(m, "Stream")
		.def(py::init(&stream::make), py::arg("device"))
		.def("copy", &stream::copy, py::arg("dst"), py::arg("src"), py::arg("size"),
		     py::arg("memory") = py::tuple(), py::arg("wait") = true)
		.def("call", &stream::call, py::arg("fn"), py::arg("hold") = false)
		.def("fill", &stream::fill, py::arg("dst"), py::arg("pattern"), py::arg("pattern_size"),
		     py::arg("size"), py::arg("memory") = py::tuple())
		.def("reduce", &stream::reduce, py::arg("dst"), py::arg("src"), py::arg("size"), py::arg("element"),
		     py::arg("op"), py::arg("memory") = py::tuple())
		.def("synchronize", &stream::sync, py::arg("timeout_ms") = -1)
		.def("query", &stream::query)
		.def("abort", &stream::abort)
		.def("wait_event", &stream::wait_event, py::arg("event"))
		.def("close", &stream::close);
	py::class_<completion, std::shared_ptr<completion>>(m, "Completion")
		.def(py::init(&completion::make))
		.def("start", &completion::start, py::arg("stream"))
		.def("finish", &completion::finish);
	py::class_<event, std::shared_ptr<event>>(m, "Event")
		.def(py::init(&event::make), py::arg("device"), py::arg("timing"))
		.def("record", &event::record, py::arg("stream"))
		.def("query", &event::query)
		.def("synchronize", &event::sync, py::arg("timeout_ms") = -1)
		.def("elapsed_ns", &event::elapsed, py::arg("end"))
		.def("close", &event::close);
}

} // namespace

#define PyInit__native init_native
PYBIND11_MODULE(_native, m)
{
	m.doc() = "usdma's native API; use the package usdma.";
	make_error(m);
	add_device(m);
	add_memory(m);
	add_stream(m);
	add_files(m);
	m.def("version", usdma_version);
	m.def("device_count", [] { return check(without_gil(usdma_device_count)); });
}
#undef PyInit__native

USDMA_MAIN_ONLY(_native, init_native)
