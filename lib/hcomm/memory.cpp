/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/hcomm/memory.h"

#include "runtime/rt.h"
#include "driver/base/error.h"
#include "driver/base/grow.h"
#include "lib/acl/bridge.h"
#include "lib/core/copy/copy.h"
#include "lib/core/memory/memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/uio.h>
#include <unistd.h>

namespace usdma::hcomm {
namespace {

constexpr char magic[8] = "usdmaM1";
constexpr size_t piece = 1 * MiB; /* of what is copied through the kernel */

u64 number(const void *at)
{
	return reinterpret_cast<u64>(at);
}

bool is_device(const void *at)
{
	return core::translate(at).cls == core::mem_class::device;
}

bool is_description(const description &d)
{
	return !memcmp(d.magic, magic, sizeof(magic)) && d.process && d.size && d.at + d.size > d.at &&
	       memchr(d.key, 0, sizeof(d.key));
}

HcclResult kernel_failed(const mapping &p)
{
	return because(errno == ESRCH ? HCCL_E_REMOTE : HCCL_E_RUNTIME, "copying host memory of process %d: %s", p.pid,
		       strerrordesc_np(errno));
}

HcclResult move_piece(bool put, const mapping &p, u64 at, char *part, size_t len)
{
	const iovec own = {part, len}, other = {reinterpret_cast<void *>(p.there + at), len};
	const ssize_t n = put ? process_vm_writev(p.pid, &own, 1, &other, 1, 0) :
				process_vm_readv(p.pid, &own, 1, &other, 1, 0);

	if (n == ssize_t(len))
		return HCCL_SUCCESS;
	errno = n < 0 ? errno : EFAULT;
	return kernel_failed(p);
}

HcclResult move_local(char *to, const char *from, size_t len)
{
	if (aclError code = aclrtMemcpy(to, len, from, len, ACL_MEMCPY_DEFAULT))
		return acl_failed("aclrtMemcpy", code);
	return HCCL_SUCCESS;
}

/* Through a buffer: the local memory may be a device's. */
HcclResult copy_by_kernel(bool put, const mapping &p, char *local, u64 bytes, aclrtStream stream)
{
	std::vector<char> part;

	if (!try_resize(part, std::min<u64>(bytes, piece)))
		return because(HCCL_E_MEMORY, "no memory for a copy");
	if (aclError code = aclrtSynchronizeStream(stream))
		return acl_failed("aclrtSynchronizeStream", code);
	for (u64 at = 0; at < bytes; at += piece) {
		const size_t len = std::min<u64>(bytes - at, piece);

		if (put)
			if (HcclResult ret = move_local(part.data(), local + at, len))
				return ret;
		if (HcclResult ret = move_piece(put, p, at, part.data(), len))
			return ret;
		if (!put)
			if (HcclResult ret = move_local(local + at, part.data(), len))
				return ret;
	}
	return HCCL_SUCCESS;
}

} // namespace

HcclResult check_mem(const CommMem *mem)
{
	if (!mem || !mem->addr)
		return because(HCCL_E_PTR, "%s is NULL", mem ? "the memory's address" : "mem");
	if (!mem->size || (mem->type != COMM_MEM_TYPE_DEVICE && mem->type != COMM_MEM_TYPE_HOST))
		return because(HCCL_E_PARA, "size is %llu, type %d: device (0) or host (1)",
			       static_cast<unsigned long long>(mem->size), int(mem->type));
	if (number(mem->addr) + mem->size < number(mem->addr))
		return because(HCCL_E_PARA, "the memory exceeds the address space");
	const core::translation p = core::translate(mem->addr);
	const bool device = p.cls == core::mem_class::device;
	if (device ? !p.size || number(mem->addr) - p.base + mem->size > p.size :
		     mem->type == COMM_MEM_TYPE_DEVICE && p.cls == core::mem_class::unregistered)
		return because(HCCL_E_PARA, "%p and %llu bytes from there are not one block of device memory",
			       mem->addr, static_cast<unsigned long long>(mem->size));
	return HCCL_SUCCESS;
}

bool same_range(const CommMem &a, const CommMem &b)
{
	return a.type == b.type && a.addr == b.addr && a.size == b.size;
}

bool overlap(const CommMem &a, const CommMem &b)
{
	return a.type == b.type && number(a.addr) < number(b.addr) + b.size && number(b.addr) < number(a.addr) + a.size;
}

memory::~memory()
{
	if (*said_.key)
		(void)aclrtIpcMemClose(said_.key);
}

HcclResult memory::describe(bool open, description **out)
{
	const std::lock_guard hold(lock_);

	*out = &said_;
	if (described_)
		return HCCL_SUCCESS;
	if (!hccl_comm::process_id(&said_.process))
		return because(HCCL_E_SYSCALL, "no random number for this process: %s", strerrordesc_np(errno));
	memcpy(said_.magic, magic, sizeof(magic));
	said_.at = number(is.addr);
	said_.size = is.size;
	said_.pid = getpid();
	said_.type = is.type;
	if (is_device(is.addr))
		if (const aclError code = usdma_acl_export_memory(is.addr, is.size, open, said_.key))
			return code == ACL_ERROR_RT_FEATURE_NOT_SUPPORT ?
				       because(HCCL_E_NOT_SUPPORT, "%.200s", error_text()) :
				       acl_failed("aclrtIpcMemGetExportKey", code);
	described_ = true;
	return HCCL_SUCCESS;
}

HcclResult memory::allow(s32 pid)
{
	const std::lock_guard hold(lock_);

	if (*said_.key)
		if (const aclError code = aclrtIpcMemSetImportPid(said_.key, &pid, 1))
			return acl_failed("aclrtIpcMemSetImportPid", code);
	return HCCL_SUCCESS;
}

std::vector<imports::import>::iterator imports::at(const description &d)
{
	return std::find_if(all_.begin(), all_.end(), [&](const import &i) { return i.is == d; });
}

HcclResult imports::add(const description &d)
{
	const auto have = at(d);
	void *here = nullptr;
	u64 own;

	if (have != all_.end()) {
		have->uses++;
		return HCCL_SUCCESS;
	}
	if (!is_description(d) || !hccl_comm::process_id(&own))
		return because(HCCL_E_PARA, "this is no description of memory of this library");
	if (!try_reserve(all_, all_.size() + 1))
		return because(HCCL_E_MEMORY, "no memory for a list");
	const bool map = d.process != own && *d.key;
	if (d.process == own)
		here = reinterpret_cast<void *>(d.at);
	if (aclError code = map ? aclrtIpcMemImportByKey(&here, d.key, ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS) :
				  0)
		return acl_failed("aclrtIpcMemImportByKey", code);
	push_reserved(all_, import{d, static_cast<char *>(here), map, 1});
	return HCCL_SUCCESS;
}

bool imports::drop(const description &d)
{
	const auto have = at(d);

	if (have == all_.end())
		return false;
	if (!--have->uses) {
		if (have->mapped)
			(void)rtIpcCloseMemory(have->here);
		all_.erase(have);
	}
	return true;
}

void imports::clear()
{
	for (const import &i : all_)
		if (i.mapped)
			(void)rtIpcCloseMemory(i.here);
	all_.clear();
}

bool imports::find(u64 process, u64 start, u64 size, mapping *out) const
{
	for (const import &i : all_) {
		const u64 skip = start - i.is.at;

		if ((process && i.is.process != process) || start < i.is.at || skip > i.is.size ||
		    size > i.is.size - skip)
			continue;
		*out = {i.here ? i.here + skip : nullptr, start, -1};
		return true;
	}
	return false;
}

void *imports::mapped(const description &d) const
{
	for (const import &i : all_)
		if (i.is == d)
			return i.here;
	return nullptr;
}

static bool is_there(const void *at)
{
	char byte;
	const iovec to = {&byte, 1}, from = {const_cast<void *>(at), 1};

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1 || errno != EFAULT;
}

HcclResult check_local(const void *at, u64 bytes)
{
	const auto *const first = static_cast<const char *>(at);

	if (!bytes)
		return HCCL_SUCCESS;
	if (core::translate(at).cls != core::mem_class::unregistered)
		return core::check_access(at, bytes, "localAddr") ? because(HCCL_E_PARA, "%.220s", error_text()) :
								    HCCL_SUCCESS;
	return is_there(first) && is_there(first + bytes - 1) ?
		       HCCL_SUCCESS :
		       because(HCCL_E_PARA, "localAddr %p: %llu bytes from there are not mapped", at,
			       static_cast<unsigned long long>(bytes));
}

/* Devices copy neither what is mapped elsewhere only, nor between two ranges of the host. */
bool needs_kernel(const mapping &remote, const void *local)
{
	return !remote.here || (!is_device(remote.here) && !is_device(local));
}

HcclResult copy(bool put, const mapping &remote, void *local, u64 bytes, aclrtStream stream)
{
	if (!bytes)
		return HCCL_SUCCESS;
	if (needs_kernel(remote, local))
		return copy_by_kernel(put, remote.here ? mapping{nullptr, number(remote.here), getpid()} : remote,
				      static_cast<char *>(local), bytes, stream);
	void *const to = put ? remote.here : local, *const from = put ? local : remote.here;
	if (aclError code = aclrtMemcpyAsync(to, bytes, from, bytes, ACL_MEMCPY_DEFAULT, stream))
		return acl_failed("aclrtMemcpyAsync", code);
	return HCCL_SUCCESS;
}

} // namespace usdma::hcomm
