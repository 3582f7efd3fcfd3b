/* SPDX-License-Identifier: BSD-3-Clause */
/* hccl::DeviceMem, hccl::HostMem and hccl::Stream: every documented behaviour. */
#include "tests/integration/hccl/support.h"

#include <cstring>
#include <dlfcn.h>
#include <type_traits>
#include <utility>

namespace {

/* Bytes of free device memory. */
size_t free_bytes()
{
	size_t free = 0, total = 0;

	assert_int_equal(aclrtGetMemInfo(ACL_DDR_MEM, &free, &total), 0);
	return free;
}

bool freed(void *ptr)
{
	aclrtPtrAttributes at;

	return aclrtPointerGetAttributes(ptr, &at) != 0;
}

void test_layout(void **)
{
	static_assert(sizeof(DeviceMem) == 24 && alignof(DeviceMem) == 8 && !std::is_polymorphic_v<DeviceMem>);
	static_assert(std::is_nothrow_move_constructible_v<DeviceMem> && std::has_virtual_destructor_v<Stream>);
	struct {
		void *ptr;
		u64 size;
		bool owner;
	} raw;
	DeviceMem m(reinterpret_cast<void *>(0x1234), 99);

	std::memcpy(&raw, static_cast<const void *>(&m), sizeof(m));
	assert_ptr_equal(raw.ptr, m.ptr_);
	assert_int_equal(raw.size, 99);
	assert_false(raw.owner);
}

void test_construct(void **)
{
	DeviceMem none, null_view = DeviceMem::create(nullptr, 0), sized(nullptr, 7);
	int x = 0;
	DeviceMem empty_view(&x, 0);

	assert_null(none.ptr());
	assert_int_equal(none.size(), 0);
	assert_false(bool(none));
	assert_false(bool(null_view));
	assert_int_equal(sized.size(), 7);
	assert_true(bool(empty_view)); /* a pointer is enough */
	assert_true(none == null_view);
	assert_true(none != sized);
	assert_true(DeviceMem(&x, 4) == DeviceMem::create(&x, 4));
	assert_true(DeviceMem(&x, 4) != DeviceMem(&x, 3));
}

void test_alloc(void **)
{
	size_t before = free_bytes();
	DeviceMem m;

	assert_int_equal(DeviceMem::alloc(m, 1 << 20), HCCL_SUCCESS);
	assert_non_null(m.ptr());
	assert_int_equal(m.size(), 1 << 20);
	assert_true(free_bytes() < before);
	void *ptr = m.ptr();
	assert_int_equal(DeviceMem::alloc(m, 0), HCCL_E_RUNTIME);
	assert_int_equal(DeviceMem::alloc(m, u64(1) << 45), HCCL_E_OOM);
	assert_ptr_equal(m.ptr(), ptr); /* unchanged by an error */
	{
		DeviceMem bad = DeviceMem::alloc(u64(1) << 45);

		assert_null(bad.ptr());
		assert_int_equal(bad.size(), u64(1) << 45);
	}
	m.free();
	assert_null(m.ptr());
	assert_int_equal(m.size(), 1 << 20); /* unchanged */
	assert_true(freed(ptr));
	m.free(); /* already freed: no effect */
}

void test_ownership(void **)
{
	void *ptr;
	{
		DeviceMem owner = DeviceMem::alloc(4096);

		ptr = owner.ptr();
		{
			DeviceMem copy(owner), assigned;

			assigned = owner;
			assert_true(copy == owner && assigned == owner);
		} /* neither was an owner */
		assert_false(freed(ptr));
		DeviceMem moved(std::move(owner));
		assert_null(owner.ptr()); /* empty by promise */
		assert_int_equal(owner.size(), 0);
		assert_false(freed(ptr));
		DeviceMem target;
		DeviceMem result = (target = std::move(moved));
		assert_ptr_equal(result.ptr(), ptr);
		result.free(); /* what move assignment returns owns nothing */
		assert_false(freed(ptr));
		assert_null(moved.ptr());
		assert_ptr_equal(target.ptr(), ptr);
	} /* target frees */
	assert_true(freed(ptr));
}

void test_assign_keeps_the_former(void **)
{
	DeviceMem a = DeviceMem::alloc(4096), b = DeviceMem::alloc(4096);
	void *former = a.ptr();

	a = b; /* a becomes a view of b; the caller must free what a owned */
	assert_false(freed(former));
	assert_int_equal(aclrtFree(former), 0);
	a.free();
	assert_false(freed(b.ptr()));
	DeviceMem c = DeviceMem::alloc(4096);
	void *of_c = c.ptr();
	c = std::move(b);
	assert_false(freed(of_c));
	assert_int_equal(aclrtFree(of_c), 0);
}

void test_wrapping_owner(void **)
{
	void *ptr = nullptr;

	assert_int_equal(aclrtMalloc(&ptr, 4096, ACL_MEM_MALLOC_HUGE_FIRST), 0);
	{
		DeviceMem view(ptr, 4096);
	}
	assert_false(freed(ptr));
	{
		DeviceMem owner(ptr, 4096, true);
	}
	assert_true(freed(ptr));
}

void test_range(void **)
{
	DeviceMem m = DeviceMem::alloc(1000), none;
	char *base = static_cast<char *>(m.ptr());

	assert_true(m.range(0, 1000) == m);
	assert_ptr_equal(m.range(10, 20).ptr(), base + 10);
	assert_int_equal(m.range(10, 20).size(), 20);
	assert_ptr_equal(m.range(990, 0).ptr(), base + 990);
	assert_int_equal(m.range(990, 0).size(), 0);
	assert_ptr_equal(m.range(1000, 0).ptr(), base + 1000);
	for (auto [off, len] : {std::pair<u64, u64>{0, 1001}, {1, 1000}, {1001, 0}, {~u64(0), 2}, {2, ~u64(0)}}) {
		DeviceMem out = m.range(off, len);

		assert_null(out.ptr());
		assert_int_equal(out.size(), 0);
	}
	assert_null(none.range(0, 0).ptr());
	{
		DeviceMem part = m.range(0, 1000);
	}
	assert_false(freed(base)); /* a view owns nothing */
}

void test_host(void **)
{
	HostMem pinned = HostMem::alloc(4096), heap = HostMem::alloc(4096, false), m;
	aclrtPtrAttributes at;

	assert_int_equal(aclrtPointerGetAttributes(pinned.ptr(), &at), 0);
	assert_int_equal(at.location.type, ACL_MEM_LOCATION_TYPE_HOST);
	assert_int_equal(aclrtPointerGetAttributes(heap.ptr(), &at), 0);
	assert_int_equal(at.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
	std::memset(heap.ptr(), 1, 4096);
	std::memset(pinned.ptr(), 2, 4096);
	assert_int_equal(HostMem::alloc(m, 0), HCCL_E_RUNTIME);
	assert_int_equal(HostMem::alloc(m, 0, false), HCCL_E_PARA);
	assert_int_equal(HostMem::alloc(m, 100), HCCL_SUCCESS);
	assert_true(m.range(10, 90) == HostMem::create(static_cast<char *>(m.ptr()) + 10, 90));
	assert_null(m.range(10, 91).ptr());
	HostMem moved(std::move(heap));
	assert_null(heap.ptr());
	HostMem copy(moved);
	assert_true(copy == moved);
	m = std::move(pinned);
	assert_null(pinned.ptr());
}

void test_stream_kinds(void **)
{
	Stream none, online(StreamType::STREAM_TYPE_ONLINE), offline(StreamType::STREAM_TYPE_OFFLINE, true),
		device(StreamType::STREAM_TYPE_DEVICE), bad(StreamType(9));
	uint32_t flags;

	assert_false(bool(none));
	assert_false(bool(bad));
	assert_int_equal(aclrtStreamGetFlags(online.ptr(), &flags), 0);
	assert_int_equal(flags, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC);
	assert_int_equal(aclrtStreamGetFlags(offline.ptr(), &flags), 0);
	assert_int_equal(flags, ACL_STREAM_PERSISTENT);
	assert_int_equal(aclrtStreamGetFlags(device.ptr(), &flags), 0);
	assert_int_equal(flags, ACL_STREAM_DEVICE_USE_ONLY);
	assert_true(offline.IsMainStream());
	assert_false(online.IsMainStream());
	assert_true(online.id() >= 0);
	Stream named(online.ptr());
	assert_int_equal(named.id(), online.id());
	assert_true(named.IsMainStream());
	Stream by_info(HcclComStreamInfo{5, 6, 7, nullptr, 8});
	assert_int_equal(by_info.id(), 5);
	assert_int_equal(by_info.sqId(), 6);
	assert_int_equal(by_info.logicCqId(), 8);
	assert_false(bool(by_info));
}

void test_stream_owner(void **)
{
	aclrtStreamStatus status;
	void *handle;
	Stream copy;
	{
		Stream owner(StreamType::STREAM_TYPE_ONLINE);

		handle = owner.ptr();
		copy = owner;
		Stream moved(std::move(owner));
		assert_null(owner.ptr()); /* empty by promise */
		assert_ptr_equal(moved.ptr(), handle);
		assert_false(copy.IsInvalid());
		assert_int_equal(aclrtStreamQuery(handle, &status), 0);
	}
	assert_true(copy.IsInvalid());
	assert_int_equal(aclrtStreamQuery(handle, &status), ACL_ERROR_RT_INVALID_HANDLE);
}

/* The owner is destroyed in another context, which is still current afterwards. */
void test_stream_context(void **)
{
	aclrtContext mine, other, now;
	void *handle;
	aclrtStreamStatus status;

	assert_int_equal(aclrtGetCurrentContext(&mine), 0);
	{
		Stream owner(StreamType::STREAM_TYPE_ONLINE);

		handle = owner.ptr();
		assert_int_equal(aclrtCreateContext(&other, 0), 0);
	}
	assert_int_equal(aclrtGetCurrentContext(&now), 0);
	assert_ptr_equal(now, other);
	assert_int_equal(aclrtSetCurrentContext(mine), 0);
	assert_int_equal(aclrtStreamQuery(handle, &status), ACL_ERROR_RT_INVALID_HANDLE);
	assert_int_equal(aclrtDestroyContext(other), 0);
}

void test_stream_mode(void **)
{
	Stream s(StreamType::STREAM_TYPE_ONLINE), dead(reinterpret_cast<void *>(0x10));
	uint64_t mode = 99;

	assert_int_equal(s.GetMode(&mode), HCCL_SUCCESS);
	assert_int_equal(mode, ACL_CONTINUE_ON_FAILURE);
	assert_int_equal(s.SetMode(ACL_STOP_ON_FAILURE), HCCL_SUCCESS);
	assert_int_equal(s.GetMode(&mode), HCCL_SUCCESS);
	assert_int_equal(mode, ACL_STOP_ON_FAILURE);
	assert_int_equal(s.GetMode(nullptr), HCCL_E_PTR);
	assert_int_equal(dead.SetMode(0), HCCL_E_INTERNAL);
	assert_int_equal(dead.GetMode(&mode), HCCL_E_INTERNAL);
}

template <typename T> T read_at(const Stream &s, size_t offset)
{
	T value;

	std::memcpy(&value, reinterpret_cast<const char *>(&s) + offset, sizeof(value));
	return value;
}

/* Field offsets and symbol names that code compiled with hcomm's headers uses. */
void test_stream_layout(void **)
{
	Stream owner(StreamType::STREAM_TYPE_ONLINE);
	HcclComStreamInfo numbers = {5, 6, 7, nullptr, 8};
	Stream copy(owner), refs(numbers, true), none;
	const HcclComStreamInfo *info = nullptr;
	const char *const names[] = {
		"hrtMemAsyncCopy",
		"_ZN4hccl6StreamC1Ev",
		"_ZN4hccl6StreamaSEOS0_",
		"_ZN4hccl6Stream7SetModeEm",
		"_ZN4hccl6Stream7GetModeEPm",
		"_ZN4hccl6Stream19InitSqAndCqeContextEjjPNS_12SqCqeContextE",
	};

	for (const char *name : names)
		if (!dlsym(RTLD_DEFAULT, name))
			print_error("%s is not exported\n", name);
	assert_int_equal(sizeof(Stream), 208);
	assert_ptr_equal(read_at<void *>(owner, 8), owner.ptr());
	assert_true(read_at<bool>(owner, 20));
	assert_false(read_at<bool>(copy, 20));
	assert_int_equal(read_at<s32>(owner, 104), owner.id());
	assert_int_not_equal(owner.id(), -1);
	assert_int_equal(read_at<s32>(refs, 104), 5);
	assert_true(read_at<bool>(refs, 108));
	assert_int_equal(read_at<u32>(refs, 120), 6);
	assert_int_equal(read_at<u32>(refs, 136), 8);
	assert_int_equal(read_at<u32>(refs, 140), 8);
	assert_int_equal(read_at<HcclComStreamInfo>(refs, 160).sqDepth, 7);
	assert_int_equal(refs.GetStreamInfo(info), HCCL_SUCCESS);
	assert_int_equal(info->sqId, 6);
	assert_int_equal(none.SetInvalidFlag(), HCCL_E_PTR);
	assert_false(*read_at<const bool *>(copy, 192));
	assert_int_equal(owner.SetInvalidFlag(), HCCL_SUCCESS);
	assert_true(*read_at<const bool *>(copy, 192));
	assert_true(copy.IsInvalid());
	assert_int_equal(owner.ClearLocalBuff(), HCCL_E_NOT_SUPPORT);
	assert_int_equal(owner.InitSqAndCqeContext(0, 0, nullptr), HCCL_E_NOT_SUPPORT);
}

void test_stream_tasks(void **)
{
	Stream s, moved;
	TaskLogicInfo info(3, TaskLogicType::TRANSPORT_TYPE, TaskLogicFuncType::TRANSPORT_TXACK_TYPE), out;

	assert_int_equal(s.PopTaskLogicInfo(out), HCCL_E_NOT_FOUND);
	for (u32 i = 0; i < 3; i++) {
		info.taskLogicCmd.index = i;
		s.PushTaskLogicInfo(info);
	}
	moved = std::move(s);
	assert_int_equal(s.PopTaskLogicInfo(out), HCCL_E_NOT_FOUND);
	for (u32 i = 0; i < 2; i++) {
		assert_int_equal(moved.PopTaskLogicInfo(out), HCCL_SUCCESS);
		assert_int_equal(out.taskLogicCmd.index, i);
		assert_int_equal(out.taskLogicCmd.taskLogicType, TaskLogicType::TRANSPORT_TYPE);
	}
} /* the stream's destructor frees the third one */

} // namespace

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_construct),
		cmocka_unit_test(test_alloc),
		cmocka_unit_test(test_ownership),
		cmocka_unit_test(test_assign_keeps_the_former),
		cmocka_unit_test(test_wrapping_owner),
		cmocka_unit_test(test_range),
		cmocka_unit_test(test_host),
		cmocka_unit_test(test_stream_kinds),
		cmocka_unit_test(test_stream_owner),
		cmocka_unit_test(test_stream_context),
		cmocka_unit_test(test_stream_mode),
		cmocka_unit_test(test_stream_layout),
		cmocka_unit_test(test_stream_tasks),
	};

	return cmocka_run_group_tests(tests, open_device, close_device);
}
