/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifies, words that streams write and wait for, cache hints. */
#include "lib/python/acl/args.h"

#include <acl/acl.h>

namespace pyacl {
namespace {

constexpr size_t key_space = 1024;

void add_shared(py::module_ &rt)
{
	def(rt, "notify_get_export_key", "key, ret = notify_get_export_key(notify, length, flag)",
	    [](void *notify, size_t len, uint64_t flag) {
		    char key[key_space] = "";

		    if (len >= key_space)
			    throw bad_args();
		    int ret = without_gil([&] { return aclrtNotifyGetExportKey(notify, key, len, flag); });
		    return std::tuple(std::string(key), ret);
	    });
	def(rt, "notify_set_import_pid", "ret = notify_set_import_pid(notify, pids)",
	    [](void *notify, std::vector<int32_t> pids) {
		    return without_gil([&] { return aclrtNotifySetImportPid(notify, pids.data(), pids.size()); });
	    });
	def(rt, "notify_import_by_key", "notify, ret = notify_import_by_key(key, flag)",
	    [](const std::string &key, uint64_t flag) {
		    aclrtNotify notify = nullptr;
		    int ret = without_gil([&] { return aclrtNotifyImportByKey(&notify, key.c_str(), flag); });

		    return std::tuple(number(notify), ret);
	    });
}

void add_words(py::module_ &rt)
{
	def(rt, "value_write", "ret = value_write(addr, value, flag, stream)",
	    [](void *addr, uint64_t value, uint32_t flag, void *stream) {
		    return without_gil([&] { return aclrtValueWrite(addr, value, flag, stream); });
	    });
	def(rt, "value_wait", "ret = value_wait(addr, value, flag, stream)",
	    [](void *addr, uint64_t value, uint32_t flag, void *stream) {
		    return without_gil([&] { return aclrtValueWait(addr, value, flag, stream); });
	    });
	def(rt, "cmo_async", "ret = cmo_async(ptr, size, type, stream)",
	    [](void *ptr, size_t size, int32_t type, void *stream) {
		    return without_gil([&] { return aclrtCmoAsync(ptr, size, aclrtCmoType(type), stream); });
	    });
}

} // namespace

void add_notify(py::module_ &rt)
{
	def(rt, "create_notify", "notify, ret = create_notify(flag)", [](uint64_t flag) {
		aclrtNotify notify = nullptr;
		int ret = without_gil([&] { return aclrtCreateNotify(&notify, flag); });

		return std::tuple(number(notify), ret);
	});
	def(rt, "destroy_notify", "ret = destroy_notify(notify)",
	    [](void *notify) { return without_gil([&] { return aclrtDestroyNotify(notify); }); });
	def(rt, "record_notify", "ret = record_notify(notify, stream)",
	    [](void *notify, void *stream) { return without_gil([&] { return aclrtRecordNotify(notify, stream); }); });
	def(rt, "wait_and_reset_notify", "ret = wait_and_reset_notify(notify, stream, timeout_seconds)",
	    [](void *notify, void *stream, uint32_t seconds) {
		    return without_gil([&] { return aclrtWaitAndResetNotify(notify, stream, seconds); });
	    });
	def(rt, "get_notify_id", "notify_id, ret = get_notify_id(notify)", [](void *notify) {
		uint32_t id = 0;
		int ret = aclrtGetNotifyId(notify, &id);

		return std::tuple(id, ret);
	});
	def(rt, "notify_batch_reset", "ret = notify_batch_reset(notifies)", [](std::vector<void *> notifies) {
		return without_gil([&] { return aclrtNotifyBatchReset(notifies.data(), notifies.size()); });
	});
	add_shared(rt);
	add_words(rt);
}

} // namespace pyacl
