/* SPDX-License-Identifier: BSD-3-Clause */
/* Initialisation, the log, devices, attributes of streams, copies by descriptor. */
#include "lib/python/acl/own.h"

namespace pyacl {

py::object text_or_none(const char *text)
{
	if (!text)
		return py::none();
	return py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(text, Py_ssize_t(strlen(text)), "replace"));
}

int init(std::optional<std::string> path)
{
	return without_gil([&] { return aclInit(path ? path->c_str() : nullptr); });
}

/* As ACL_APP_LOG in C: with the place of the caller, here a Python function. */
py::object app_log(int32_t level, std::string text)
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

and_ret<py::dict> utilization(int32_t id)
{
	aclrtUtilizationInfo info = {};
	int ret = without_gil([&] { return aclrtGetDeviceUtilizationRate(id, &info); });
	py::dict d;

	d["cube_utilization"] = info.cubeUtilization;
	d["vector_utilization"] = info.vectorUtilization;
	d["aicpu_utilization"] = info.aicpuUtilization;
	d["memory_utilization"] = info.memoryUtilization;
	d["utilization_extend"] = number(info.utilizationExtend);
	return {d, ret};
}

std::tuple<int32_t, uint32_t, int> primary_state(int32_t id)
{
	int32_t active = 0;
	int ret = without_gil([&] { return aclrtGetPrimaryCtxState(id, nullptr, &active); });

	return {active, 0u, ret};
}

int set_attribute(void *stream, int32_t attr, py::dict d)
{
	aclrtStreamAttrValue value = {};

	field(d, "failureMode", value.failureMode);
	field(d, "overflowSwitch", value.overflowSwitch);
	field(d, "userCustomTag", value.userCustomTag);
	field(d, "cacheOpInfoSwitch", value.cacheOpInfoSwitch);
	field(d, "streamPriority", value.streamPriority);
	return without_gil([&] { return aclrtSetStreamAttribute(stream, aclrtStreamAttr(attr), &value); });
}

and_ret<py::dict> get_attribute(void *stream, int32_t attr)
{
	aclrtStreamAttrValue value = {};
	int ret = without_gil([&] { return aclrtGetStreamAttribute(stream, aclrtStreamAttr(attr), &value); });
	py::dict d;

	d["failureMode"] = value.failureMode;
	d["overflowSwitch"] = value.overflowSwitch;
	d["userCustomTag"] = value.userCustomTag;
	d["cacheOpInfoSwitch"] = value.cacheOpInfoSwitch;
	d["streamPriority"] = value.streamPriority;
	return {d, ret};
}

and_ret<uint64_t> set_desc(void *desc, int32_t kind, void *src, void *dst, size_t count, std::optional<void *> config)
{
	int ret = without_gil([&] {
		return aclrtSetMemcpyDesc(desc, aclrtMemcpyKind(kind), src, dst, count, config.value_or(nullptr));
	});

	return {number(desc), ret};
}

} // namespace pyacl
