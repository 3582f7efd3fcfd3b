/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory shared by processes under a key. */
#include "lib/acl/bridge.h"
#include "lib/acl/state.h"
#include "lib/share/vmm.h"
#include "lib/core/memory/memory.h"

namespace usdma::acl {

static aclError export_key(const char *call, const void *ptr, size_t size, char *key, size_t len, u64 flags)
{
	if (!ptr || !key)
		return bad_arg(call, "devPtr or key is NULL");
	if (!size || len <= core::share_key_len || (flags & ~u64(ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION)))
		return fault(call, ACL_ERROR_RT_PARAM_INVALID,
			     "size is %zu, len is %zu (65 at least), flags are 0x%llx", size, len,
			     static_cast<unsigned long long>(flags));
	/* Of a block within a page of others (FAQ "inter_process_IPC_page_table_align_requirements"). */
	if (reinterpret_cast<u64>(ptr) % core::device_page)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "devPtr %p is not aligned to pages of %u bytes", ptr,
			     core::device_page);
	const context_guard c;
	return c ? check(call, core::ipc_memory_export(ptr, size, flags != 0, key), at::memory) : no_context(call);
}

static aclError allow(const char *call, const char *key, const s32 *pids, size_t num)
{
	if (!key || !pids)
		return bad_arg(call, "key or pid is NULL");
	if (!num)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "num is 0");
	return has_context() ? check(call, core::ipc_memory_allow(key, pids, num), at::memory) : no_context(call);
}

static aclError import_key(const char *call, void **out, const char *key, u64 flags)
{
	if (!out || !key)
		return bad_arg(call, "devPtr or key is NULL");
	if (flags & ~u64(ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS))
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "flags 0x%llx are unknown",
			     static_cast<unsigned long long>(flags));
	const context_guard c;
	return c ? check(call, core::ipc_memory_import(c->dev, key, out), at::memory) : no_context(call);
}

static aclError close_key(const char *call, const char *key)
{
	if (!key)
		return bad_arg(call, "key is NULL");
	const context_guard c;
	return c ? check(call, core::ipc_memory_close(key, c->dev->slot), at::memory) : no_context(call);
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError usdma_acl_export_memory(const void *ptr, size_t size, bool open, char *key)
{
	return check("aclrtIpcMemGetExportKey", core::ipc_memory_export(ptr, size, open, key), at::memory);
}

aclError aclrtIpcMemImportPidInterServer(const char *key, aclrtServerPid *serverPids, size_t num)
{
	if (!key || !serverPids)
		return bad_arg(__func__, "key or serverPids is NULL");
	if (!num)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "num is 0");
	for (size_t i = 0; i < num; i++) {
		const aclError err = allow(__func__, key, serverPids[i].pid, serverPids[i].num);

		if (err)
			return err;
	}
	return ACL_SUCCESS;
}

} // extern "C"

#include "lib/acl/calls_ipc.h"
