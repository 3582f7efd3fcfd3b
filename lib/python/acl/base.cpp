/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/python/acl/args.h"

#include <acl/acl.h>

namespace pyacl {
namespace {

py::object text_or_none(const char *text)
{
	if (!text)
		return py::none();
	return py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(text, Py_ssize_t(strlen(text)), "replace"));
}

void add_buffers(py::module_ &acl)
{
	def(acl, "create_data_buffer", "buffer = create_data_buffer(ptr, size)",
	    [](void *ptr, size_t size) { return number(aclCreateDataBuffer(ptr, size)); });
	def(acl, "destroy_data_buffer", "ret = destroy_data_buffer(buffer)",
	    [](void *buffer) { return aclDestroyDataBuffer(static_cast<aclDataBuffer *>(buffer)); });
	def(acl, "update_data_buffer", "ret = update_data_buffer(buffer, ptr, size)",
	    [](void *buffer, void *ptr, size_t size) {
		    return aclUpdateDataBuffer(static_cast<aclDataBuffer *>(buffer), ptr, size);
	    });
	def(acl, "get_data_buffer_addr", "ptr = get_data_buffer_addr(buffer)",
	    [](void *buffer) { return number(aclGetDataBufferAddr(static_cast<aclDataBuffer *>(buffer))); });
	def(acl, "get_data_buffer_size", "size = get_data_buffer_size(buffer)",
	    [](void *buffer) { return aclGetDataBufferSizeV2(static_cast<aclDataBuffer *>(buffer)); });
	def(acl, "get_data_buffer_size_v2", "size = get_data_buffer_size_v2(buffer)",
	    [](void *buffer) { return aclGetDataBufferSizeV2(static_cast<aclDataBuffer *>(buffer)); });
}

std::tuple<int32_t, int32_t, int32_t, int> version()
{
	int32_t major = 0, minor = 0, patch = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* pyACL's only version call */
	int ret = aclrtGetVersion(&major, &minor, &patch);
#pragma GCC diagnostic pop

	return {major, minor, patch, ret};
}

/* As ACL_APP_LOG in C: with the place of the caller, here a Python function. */
py::object app_log(int32_t level, const std::string &text)
{
	const auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject *>(PyEval_GetFrame()));
	std::string file = "?", function = "?";
	int line = 0;

	if (frame) {
		const py::object code = frame.attr("f_code");

		file = py::cast<std::string>(code.attr("co_filename"));
		function = py::cast<std::string>(code.attr("co_name"));
		line = PyFrame_GetLineNumber(reinterpret_cast<PyFrameObject *>(frame.ptr()));
	}
	aclAppLog(aclLogLevel(level), function.c_str(), file.c_str(), uint32_t(line), "%s", text.c_str());
	return py::none();
}

} // namespace

void add_base(py::module_ &acl)
{
	def(acl, "init", "ret = init([config_path])", [](std::optional<std::string> path) {
		return without_gil([&] { return aclInit(path ? path->c_str() : nullptr); });
	});
	def(acl, "finalize", "ret = finalize()", [] { return without_gil(aclFinalize); });
	def(acl, "finalize_reference", "ref_count, ret = finalize_reference()", [] {
		uint64_t left = 0;
		int ret = without_gil([&] { return aclFinalizeReference(&left); });

		return std::tuple(left, ret);
	});
	def(acl, "get_version", "major, minor, patch, ret = get_version()", [] { return version(); });
	def(acl, "get_soc_name", "name = get_soc_name()", [] { return text_or_none(aclrtGetSocName()); });
	def(acl, "get_recent_err_msg", "text or None = get_recent_err_msg()",
	    [] { return text_or_none(aclGetRecentErrMsg()); });
	def(acl, "data_type_size", "size = data_type_size(data_type)",
	    [](int32_t type) { return aclDataTypeSize(aclDataType(type)); });
	def(acl, "float16_to_float", "value = float16_to_float(bits)",
	    [](uint16_t value) { return double(aclFloat16ToFloat(value)); });
	def(acl, "float_to_float16", "bits = float_to_float16(value)",
	    [](double value) { return aclFloatToFloat16(float(value)); });
	def(acl, "app_log", "app_log(level, message)",
	    [](int32_t level, const std::string &text) { return app_log(level, text); });
	add_buffers(acl);
}

} // namespace pyacl
