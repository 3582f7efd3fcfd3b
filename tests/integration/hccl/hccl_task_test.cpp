/* SPDX-License-Identifier: BSD-3-Clause */
/* Dispatchers and their tasks: the results of each call, and the copied data. */
#include "tests/integration/hccl/support.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

const size_t n_bytes = usdma::test::sized(100003, 8003);

struct bench {
	HcclDispatcher d = nullptr;
	Stream stream{StreamType::STREAM_TYPE_ONLINE}, none;
	DeviceMem a = DeviceMem::alloc(n_bytes), b = DeviceMem::alloc(n_bytes);
	HostMem from = HostMem::alloc(n_bytes), to = HostMem::alloc(n_bytes);

	explicit bench(DispatcherType type = DispatcherType::DISPATCHER_NORMAL)
	{
		auto gen = usdma::test::rng();

		assert_int_equal(HcclDispatcherInit(type, 0, &d), HCCL_SUCCESS);
		usdma::test::fill_random(from.ptr(), n_bytes, gen);
		std::memset(to.ptr(), 0, n_bytes);
		put(a, from);
	}
	~bench() { assert_int_equal(HcclDispatcherDestroy(d), HCCL_SUCCESS); }
	static void put(DeviceMem &m, HostMem &h)
	{
		assert_int_equal(aclrtMemcpy(m.ptr(), m.size(), h.ptr(), h.size(), ACL_MEMCPY_HOST_TO_DEVICE), 0);
	}
	void get(DeviceMem &m)
	{
		assert_int_equal(aclrtMemcpy(to.ptr(), to.size(), m.ptr(), m.size(), ACL_MEMCPY_DEVICE_TO_HOST), 0);
	}
	void sync()
	{
		assert_int_equal(aclrtSynchronizeStreamWithTimeout(stream.ptr(), int(usdma::test::patience_ms(30000))),
				 0);
	}
};

void test_dispatcher(void **)
{
	HcclDispatcher d = nullptr, again = nullptr;

	assert_int_equal(HcclDispatcherInit(DispatcherType::DISPATCHER_NORMAL, 0, nullptr), HCCL_E_PTR);
	assert_int_equal(HcclDispatcherInit(DispatcherType::DISPATCHER_AICPU, 0, &d), HCCL_E_NOT_SUPPORT);
	assert_int_equal(HcclDispatcherInit(DispatcherType(7), 0, &d), HCCL_E_NOT_SUPPORT);
	assert_int_equal(HcclDispatcherInit(DispatcherType::DISPATCHER_NORMAL, 4711, &d), HCCL_E_RUNTIME);
	assert_null(d);
	assert_int_equal(HcclDispatcherDestroy(nullptr), HCCL_SUCCESS);
	assert_int_equal(HcclDispatcherInit(DispatcherType::DISPATCHER_NORMAL, HOST_DEVICE_ID, &d), HCCL_SUCCESS);
	assert_int_equal(HcclDispatcherInit(DispatcherType::DISPATCHER_VIRTURAL, 0, &again), HCCL_SUCCESS);
	assert_ptr_not_equal(d, again);
	assert_int_equal(HcclDispatcherDestroy(d), HCCL_SUCCESS);
	assert_int_equal(HcclDispatcherDestroy(d), HCCL_E_PTR);
	assert_int_equal(HcclDispatcherDestroy(again), HCCL_SUCCESS);
	assert_int_equal(HcclDispatcherDestroy(&d), HCCL_E_PTR);
}

/* The handle of a dispatcher that was destroyed is that of no other one. */
void test_dispatcher_is_no_other(void **)
{
	HcclDispatcher old = nullptr, d = nullptr;

	assert_int_equal(HcclDispatcherInit(DispatcherType::DISPATCHER_NORMAL, HOST_DEVICE_ID, &old), HCCL_SUCCESS);
	assert_int_equal(HcclDispatcherDestroy(old), HCCL_SUCCESS);
	for (int i = 0; i < 10000; i++) {
		assert_int_equal(HcclDispatcherInit(DispatcherType::DISPATCHER_NORMAL, HOST_DEVICE_ID, &d),
				 HCCL_SUCCESS);
		assert_int_equal(HcclSetExecTimeOut(old, 1), HCCL_E_PTR);
		assert_int_equal(HcclDispatcherDestroy(d), HCCL_SUCCESS);
	}
}

/* A dispatcher creates the context of a thread that has none, and destroys it with itself. */
void test_dispatcher_sets_device(void **)
{
	std::thread([] {
		HcclDispatcher d = nullptr;
		aclrtContext c;

		assert_int_equal(aclrtGetCurrentContext(&c), ACL_ERROR_RT_CONTEXT_NULL);
		assert_int_equal(HcclDispatcherInit(DispatcherType::DISPATCHER_NORMAL, HOST_DEVICE_ID, &d),
				 HCCL_SUCCESS);
		assert_int_equal(aclrtGetCurrentContext(&c), ACL_ERROR_RT_CONTEXT_NULL);
		assert_int_equal(HcclDispatcherDestroy(d), HCCL_SUCCESS);
		assert_int_equal(HcclDispatcherInit(DispatcherType::DISPATCHER_NORMAL, 0, &d), HCCL_SUCCESS);
		assert_int_equal(aclrtGetCurrentContext(&c), 0);
		assert_int_equal(HcclDispatcherDestroy(d), HCCL_SUCCESS);
	}).join();
	aclrtStream s;
	assert_int_equal(aclrtCreateStream(&s), 0); /* the main thread's use of the device is untouched */
	assert_int_equal(aclrtDestroyStream(s), 0);
}

void test_d2d_pointers(void **)
{
	bench t;
	DeviceMem empty, outside = t.a.range(1, n_bytes);
	HcclDispatcher dead = nullptr;

	assert_int_equal(HcclDispatcherInit(DispatcherType::DISPATCHER_NORMAL, 0, &dead), HCCL_SUCCESS);
	assert_int_equal(HcclDispatcherDestroy(dead), HCCL_SUCCESS);
	assert_int_equal(HcclD2DMemcpyAsync(nullptr, t.b, t.a, t.stream), HCCL_E_PTR);
	assert_int_equal(HcclD2DMemcpyAsync(dead, t.b, t.a, t.stream), HCCL_E_PTR);
	assert_int_equal(HcclD2DMemcpyAsync(t.d, empty, t.a, t.stream), HCCL_E_PTR);
	assert_int_equal(HcclD2DMemcpyAsync(t.d, t.b, empty, t.stream), HCCL_E_PTR);
	assert_int_equal(HcclD2DMemcpyAsync(t.d, empty, empty, t.stream), HCCL_E_PTR); /* also for 0 bytes */
	assert_int_equal(HcclD2DMemcpyAsync(t.d, t.b, outside, t.stream), HCCL_E_PTR);
	DeviceMem small = t.b.range(0, n_bytes - 1);
	assert_int_equal(HcclD2DMemcpyAsync(t.d, small, t.a, t.stream), HCCL_E_PTR); /* not E_PARA */
	assert_int_equal(HcclD2DMemcpyAsync(t.d, small, t.a, t.none), HCCL_E_PTR);   /* before the stream is checked */
}

void test_d2d_copies(void **)
{
	bench t;
	DeviceMem part = t.a.range(5, 1001), into = t.b.range(77, 5000);
	char *got = static_cast<char *>(t.to.ptr()), *sent = static_cast<char *>(t.from.ptr());

	assert_int_equal(HcclD2DMemcpyAsync(t.d, t.b, t.a, t.stream), HCCL_SUCCESS);
	t.sync();
	t.get(t.b);
	assert_memory_equal(got, sent, n_bytes);
	/* a larger dst: src's size counts */
	assert_int_equal(HcclD2DMemcpyAsync(t.d, into, part, t.stream, 3, hccl::LinkType::LINK_HCCS), HCCL_SUCCESS);
	t.sync();
	t.get(t.b);
	assert_memory_equal(got, sent, 77);
	assert_memory_equal(got + 77, sent + 5, 1001);
	assert_memory_equal(got + 77 + 1001, sent + 77 + 1001, n_bytes - 77 - 1001);
}

void test_d2d_nothing_to_do(void **)
{
	bench t;
	aclrtStream destroyed = nullptr;
	DeviceMem zero = t.a.range(10, 0);

	/* a destroyed stream refuses work, so that only calls without work succeed */
	assert_int_equal(aclrtCreateStream(&destroyed), 0);
	Stream dead(destroyed);
	assert_int_equal(aclrtDestroyStream(destroyed), 0);
	assert_int_equal(HcclD2DMemcpyAsync(t.d, t.b, t.a, dead), HCCL_E_RUNTIME);
	assert_int_equal(HcclD2DMemcpyAsync(t.d, t.b, zero, dead), HCCL_SUCCESS);
	assert_int_equal(HcclD2DMemcpyAsync(t.d, t.a, t.a, dead), HCCL_SUCCESS);
}

void test_d2d_runtime_error(void **)
{
	bench t;
	void *nothing;

	assert_int_equal(aclrtReserveMemAddress(&nothing, 64, 0, nullptr, 0), 0);
	DeviceMem wild = DeviceMem::create(nothing, 64);
	assert_int_equal(HcclD2DMemcpyAsync(t.d, wild, t.a.range(0, 64), t.stream), HCCL_E_RUNTIME);
	assert_int_equal(aclrtReleaseMemAddress(nothing), 0);
}

void test_d2d_without_stream(void **)
{
	bench t;
	std::vector<char> x(1000, 'x'), y(2000, 'y');
	DeviceMem vx = DeviceMem::create(x.data(), x.size()), vy = DeviceMem::create(y.data(), y.size());
	DeviceMem nothing = DeviceMem::create(x.data(), 0);

	assert_int_equal(HcclD2DMemcpyAsync(t.d, vy, vx, t.none), HCCL_SUCCESS);
	assert_memory_equal(y.data(), x.data(), 1000); /* copied when the call returns */
	assert_int_equal(y[1000], 'y');
	assert_int_equal(HcclD2DMemcpyAsync(t.d, vx, vx, t.none), HCCL_SUCCESS);
	assert_int_equal(HcclD2DMemcpyAsync(t.d, vy, nothing, t.none), HCCL_SUCCESS);
	assert_int_equal(HcclD2DMemcpyAsync(t.d, nothing, nothing, t.none),
			 HCCL_E_INTERNAL); /* memcpy_s refuses a size of 0 */
	DeviceMem low = vy.range(0, 100), high = vy.range(50, 100);
	assert_int_equal(HcclD2DMemcpyAsync(t.d, high, low, t.none), HCCL_E_INTERNAL);
	assert_int_equal(HcclD2DMemcpyAsync(t.d, t.b, t.a, t.none), HCCL_E_INTERNAL); /* instead of a crash */
}

void test_memcpy(void **)
{
	bench t;
	void *a = t.a.ptr(), *b = t.b.ptr();
	const auto link = hccl::LinkType::LINK_ONCHIP;
	const auto h2d = HCCL_RT_MEMCPY_KIND_HOST_TO_DEVICE, d2h = HCCL_RT_MEMCPY_KIND_DEVICE_TO_HOST;

	assert_int_equal(HcclMemcpyAsync(nullptr, a, 8, b, 8, d2h, t.stream, 0, link), HCCL_E_PTR);
	assert_int_equal(HcclMemcpyAsync(t.d, nullptr, 8, b, 8, d2h, t.stream, 0, link), HCCL_E_PTR);
	assert_int_equal(HcclMemcpyAsync(t.d, a, 8, nullptr, 8, d2h, t.stream, 0, link), HCCL_E_PTR);
	assert_int_equal(HcclMemcpyAsync(t.d, a, 7, b, 8, d2h, t.stream, 0, link), HCCL_E_PARA);
	assert_int_equal(HcclMemcpyAsync(t.d, a, 8, b, 8, d2h, t.none, 0, link), HCCL_E_INTERNAL); /* for a crash */
	assert_int_equal(HcclMemcpyAsync(t.d, a, 8, b, 8, HCCL_RT_MEMCPY_KIND_RESERVED, t.stream, 0, link),
			 HCCL_E_PARA);
	assert_int_equal(HcclMemcpyAsync(t.d, t.to.ptr(), 7, t.from.ptr(), 8, d2h, t.none, 0, link), HCCL_E_INTERNAL);
	assert_int_equal(HcclMemcpyAsync(t.d, t.to.ptr(), 8, t.from.ptr(), 8, d2h, t.none, 0, link), HCCL_SUCCESS);
	assert_memory_equal(t.to.ptr(), t.from.ptr(), 8);
	assert_int_equal(HcclMemcpyAsync(t.d, a, 8, b, 0, d2h, t.stream, 0, link), HCCL_SUCCESS);
	assert_int_equal(HcclMemcpyAsync(t.d, a, 7, a, 8, d2h, t.stream, 0, link), HCCL_SUCCESS);
	assert_int_equal(hrtMemAsyncCopy(a, 8, b, 8, d2h, nullptr), HCCL_E_PTR);
	assert_int_equal(hrtMemAsyncCopy(a, 8, b, 0, d2h, t.stream.ptr()), HCCL_SUCCESS);
	assert_int_equal(HcclMemcpyAsync(t.d, b, n_bytes, t.from.ptr(), n_bytes, h2d, t.stream, 0, link), HCCL_SUCCESS);
	assert_int_equal(HcclMemcpyAsync(t.d, t.to.ptr(), n_bytes, b, n_bytes, d2h, t.stream, 0, link), HCCL_SUCCESS);
	t.sync();
	assert_memory_equal(t.to.ptr(), t.from.ptr(), n_bytes);
}

HcclResult reduce(bench &t, HcclDataType type, HcclReduceOp op, u64 count)
{
	return HcclReduceAsync(t.d, t.a.ptr(), count, type, op, t.stream, t.b.ptr(), INVALID_VALUE_RANKID,
			       hccl::LinkType::LINK_ONCHIP, INLINE_REDUCE_BIT);
}

/* By the engine (a product) and by aclrtReduceAsync (a sum). */
void test_reduce_without_peers(void **)
{
	bench t;
	uint32_t devices;

	assert_int_equal(aclrtGetDeviceCount(&devices), 0);
	assert_true(devices >= 2);
	assert_int_equal(aclrtSetDevice(1), 0);
	DeviceMem other = DeviceMem::alloc(64);
	assert_int_equal(aclrtSetDevice(0), 0);
	for (HcclReduceOp op : {HCCL_REDUCE_PROD, HCCL_REDUCE_SUM})
		assert_int_equal(HcclReduceAsync(t.d, other.ptr(), 4, HCCL_DATA_TYPE_INT32, op, t.stream, t.b.ptr(),
						 INVALID_VALUE_RANKID, hccl::LinkType::LINK_ONCHIP, INLINE_REDUCE_BIT),
				 HCCL_E_RUNTIME);
}

void test_reduce_checks(void **)
{
	bench t;
	const auto link = hccl::LinkType::LINK_ONCHIP;
	void *a = t.a.ptr(), *b = t.b.ptr();

	assert_int_equal(HcclReduceAsync(nullptr, a, 1, HCCL_DATA_TYPE_INT8, HCCL_REDUCE_SUM, t.stream, b, 0, link, 0),
			 HCCL_E_PTR);
	assert_int_equal(
		HcclReduceAsync(t.d, nullptr, 1, HCCL_DATA_TYPE_INT8, HCCL_REDUCE_SUM, t.stream, b, 0, link, 0),
		HCCL_E_PTR);
	assert_int_equal(
		HcclReduceAsync(t.d, a, 1, HCCL_DATA_TYPE_INT8, HCCL_REDUCE_SUM, t.stream, nullptr, 0, link, 0),
		HCCL_E_PTR);
	assert_int_equal(HcclReduceAsync(t.d, a, 1, HCCL_DATA_TYPE_INT8, HCCL_REDUCE_SUM, t.none, b, 0, link, 0),
			 HCCL_E_PTR);
	assert_int_equal(reduce(t, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, 0), HCCL_SUCCESS);
	assert_int_equal(reduce(t, HCCL_DATA_TYPE_INT128, HCCL_REDUCE_SUM, 1), HCCL_E_NOT_SUPPORT);
	assert_int_equal(reduce(t, HCCL_DATA_TYPE_FP8E8M0, HCCL_REDUCE_SUM, 1), HCCL_E_NOT_SUPPORT);
	assert_int_equal(reduce(t, HcclDataType(13), HCCL_REDUCE_SUM, 1), HCCL_E_PARA);
	assert_int_equal(reduce(t, HCCL_DATA_TYPE_RESERVED, HCCL_REDUCE_SUM, 1), HCCL_E_PARA);
	assert_int_equal(reduce(t, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_RESERVED, 1), HCCL_E_PARA);
	assert_int_equal(reduce(t, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, ~u64(0) / 3), HCCL_E_PARA);
	assert_int_equal(reduce(t, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, n_bytes),
			 HCCL_E_RUNTIME); /* beyond the memory */
	assert_int_equal(reduce(t, HCCL_DATA_TYPE_INT64, HCCL_REDUCE_PROD, n_bytes), HCCL_E_RUNTIME);
}

template <class T> T apply(HcclReduceOp op, T x, T y)
{
	using wide =
		typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

	switch (op) {
	case HCCL_REDUCE_SUM:
		return T(wide(x) + wide(y));
	case HCCL_REDUCE_PROD:
		return T(wide(wide(x) * u64(1)) * wide(y));
	case HCCL_REDUCE_MAX:
		return x > y ? x : y;
	default:
		return x < y ? x : y;
	}
}
template <> double apply(HcclReduceOp op, double x, double y)
{
	return op == HCCL_REDUCE_SUM  ? x + y :
	       op == HCCL_REDUCE_PROD ? x * y :
	       op == HCCL_REDUCE_MAX  ? std::fmax(x, y) :
					std::fmin(x, y);
}
template <> float apply(HcclReduceOp op, float x, float y)
{
	return op == HCCL_REDUCE_SUM  ? x + y :
	       op == HCCL_REDUCE_PROD ? x * y :
	       op == HCCL_REDUCE_MAX  ? std::fmax(x, y) :
					std::fmin(x, y);
}

template <class T> void reduce_as(HcclDataType type)
{
	const size_t n = n_bytes / sizeof(T);
	bench t;
	std::vector<T> x(n), y(n), got(n);
	auto gen = usdma::test::rng(type);

	for (HcclReduceOp op : {HCCL_REDUCE_SUM, HCCL_REDUCE_PROD, HCCL_REDUCE_MAX, HCCL_REDUCE_MIN}) {
		for (size_t i = 0; i < n; i++) {
			x[i] = T(gen() % 2000000) / T(3);
			y[i] = T(gen() % 2000000) / T(7);
		}
		assert_int_equal(aclrtMemcpy(t.a.ptr(), n_bytes, x.data(), n * sizeof(T), ACL_MEMCPY_HOST_TO_DEVICE),
				 0);
		assert_int_equal(aclrtMemcpy(t.b.ptr(), n_bytes, y.data(), n * sizeof(T), ACL_MEMCPY_HOST_TO_DEVICE),
				 0);
		assert_int_equal(reduce(t, type, op, n), HCCL_SUCCESS);
		t.sync();
		assert_int_equal(
			aclrtMemcpy(got.data(), n * sizeof(T), t.b.ptr(), n * sizeof(T), ACL_MEMCPY_DEVICE_TO_HOST), 0);
		for (size_t i = 0; i < n; i++)
			y[i] = apply(op, y[i], x[i]);
		assert_memory_equal(got.data(), y.data(), n * sizeof(T));
	}
}

void test_reduce(void **)
{
	reduce_as<int8_t>(HCCL_DATA_TYPE_INT8);
	reduce_as<int16_t>(HCCL_DATA_TYPE_INT16);
	reduce_as<int32_t>(HCCL_DATA_TYPE_INT32);
	reduce_as<int64_t>(HCCL_DATA_TYPE_INT64);
	reduce_as<uint8_t>(HCCL_DATA_TYPE_UINT8);
	reduce_as<uint16_t>(HCCL_DATA_TYPE_UINT16);
	reduce_as<uint32_t>(HCCL_DATA_TYPE_UINT32);
	reduce_as<uint64_t>(HCCL_DATA_TYPE_UINT64);
	reduce_as<float>(HCCL_DATA_TYPE_FP32);
	reduce_as<double>(HCCL_DATA_TYPE_FP64);
}

/* Two streams use a buffer in turns; each step waits for the other stream. */
void test_signals(void **)
{
	bench t;
	Stream other(StreamType::STREAM_TYPE_ONLINE);
	aclrtNotify there = nullptr, back = nullptr;

	assert_int_equal(aclrtCreateNotify(&there, 0), 0);
	assert_int_equal(aclrtCreateNotify(&back, 0), 0);
	assert_int_equal(HcclSignalRecord(nullptr, there, t.stream, 0, 0, 0, true, 0), HCCL_E_PTR);
	assert_int_equal(HcclSignalRecord(t.d, nullptr, t.stream, 0, 0, 0, true, 0), HCCL_E_PTR);
	assert_int_equal(HcclSignalRecord(t.d, there, t.none, 0, 0, 0, true, 0), HCCL_E_PTR);
	assert_int_equal(HcclSignalWait(nullptr, there, t.stream, 0, 1, 0, true), HCCL_E_PTR);
	assert_int_equal(HcclSignalWait(t.d, nullptr, t.stream, 0, 1, 0, true), HCCL_E_PTR);
	assert_int_equal(HcclSignalWait(t.d, there, t.none, 0, 1, 0, true), HCCL_E_PTR);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(HcclSignalWait(t.d, there, other, 1, 0, i, true), HCCL_SUCCESS);
		assert_int_equal(HcclReduceAsync(t.d, t.a.ptr(), 1000, HCCL_DATA_TYPE_UINT8, HCCL_REDUCE_SUM, other,
						 t.b.ptr(), 0, hccl::LinkType::LINK_ONCHIP, 0),
				 HCCL_SUCCESS);
		assert_int_equal(HcclSignalRecord(t.d, back, other, 1, 0, i, true, 0), HCCL_SUCCESS);
		assert_int_equal(HcclD2DMemcpyAsync(t.d, t.b, t.a, t.stream), HCCL_SUCCESS);
		assert_int_equal(HcclSignalRecord(t.d, there, t.stream, 0, 0, i, true, 0), HCCL_SUCCESS);
		assert_int_equal(HcclSignalWait(t.d, back, t.stream, 0, 1, i, true), HCCL_SUCCESS);
	}
	t.sync();
	assert_int_equal(aclrtSynchronizeStreamWithTimeout(other.ptr(), int(usdma::test::patience_ms(30000))), 0);
	t.get(t.b);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(static_cast<u8 *>(t.to.ptr())[i], u8(2 * static_cast<u8 *>(t.from.ptr())[i]));
	assert_int_equal(aclrtDestroyNotify(there), 0);
	assert_int_equal(HcclSignalRecord(t.d, there, t.stream, 0, 0, 0, true, 0), HCCL_E_RUNTIME);
	assert_int_equal(HcclSignalWait(t.d, there, t.stream, 0, 1, 0, true), HCCL_E_RUNTIME);
	assert_int_equal(aclrtDestroyNotify(back), 0);
}

void test_wait_timeout(void **)
{
	bench t;
	aclrtNotify never = nullptr;

	assert_int_equal(aclrtCreateNotify(&never, 0), 0);
	assert_int_equal(HcclSetExecTimeOut(nullptr, 1), HCCL_E_PTR);
	assert_int_equal(HcclSetExecTimeOut(t.d, -1), HCCL_E_PARA);
	assert_int_equal(HcclSetExecTimeOut(t.d, 1), HCCL_SUCCESS);
	assert_int_equal(HcclSignalWait(t.d, never, t.stream, 0, 1, 0, true), HCCL_SUCCESS);
	assert_int_not_equal(aclrtSynchronizeStreamWithTimeout(t.stream.ptr(), int(usdma::test::patience_ms(30000))),
			     0);
	assert_int_equal(aclrtDestroyNotify(never), 0);
}

void test_virtual(void **)
{
	bench t(DispatcherType::DISPATCHER_VIRTURAL);
	DeviceMem empty, part = t.a.range(8, 100);
	TaskLogicInfo info;
	void *signal = &t;

	assert_int_equal(HcclD2DMemcpyAsync(t.d, empty, t.a, t.none), HCCL_E_PTR);
	assert_int_equal(HcclD2DMemcpyAsync(t.d, part, t.a, t.none), HCCL_E_PTR);
	assert_int_equal(HcclD2DMemcpyAsync(t.d, t.b, part, t.none), HCCL_SUCCESS);
	assert_int_equal(HcclSignalRecord(t.d, signal, t.none, 4, 5, 6, true, 0), HCCL_SUCCESS);
	assert_int_equal(HcclSignalWait(t.d, signal, t.none, 7, 8, 9, true), HCCL_SUCCESS);
	assert_int_equal(HcclReduceAsync(t.d, t.a.ptr(), 1, HCCL_DATA_TYPE_INT8, HCCL_REDUCE_SUM, t.none, t.b.ptr(), 0,
					 hccl::LinkType::LINK_ONCHIP, 0),
			 HCCL_E_NOT_SUPPORT);

	const auto &para = info.taskLogicPara.dispatcherTaskLogicPara;
	assert_int_equal(t.none.PopTaskLogicInfo(info), HCCL_SUCCESS);
	assert_int_equal(info.taskFuncType, TaskLogicFuncType::DISPATCHER_MEMCPYASYNC_TYPE);
	assert_int_equal(info.taskLogicCmd.taskLogicType, TaskLogicType::DISPATCHER_TYPE);
	assert_ptr_equal(para.memAsync.dst, t.b.ptr());
	assert_int_equal(para.memAsync.destMax, n_bytes);
	assert_ptr_equal(para.memAsync.src, part.ptr());
	assert_int_equal(para.memAsync.count, 100);
	assert_int_equal(para.memAsync.kind, HCCL_RT_MEMCPY_KIND_DEVICE_TO_DEVICE);
	assert_int_equal(t.none.PopTaskLogicInfo(info), HCCL_SUCCESS);
	assert_int_equal(info.taskFuncType, TaskLogicFuncType::DISPATCHER_SIGNALRECORD_TYPE);
	assert_ptr_equal(para.signalRecord.signal, signal);
	assert_int_equal(para.signalRecord.userRank, 4);
	assert_int_equal(para.signalRecord.offset, 5);
	assert_int_equal(para.signalRecord.stage, 6);
	assert_int_equal(t.none.PopTaskLogicInfo(info), HCCL_SUCCESS);
	assert_int_equal(info.taskFuncType, TaskLogicFuncType::DISPATCHER_SIGNALWAIT_TYPE);
	assert_int_equal(para.signalWait.userRank, 7);
	assert_int_equal(para.signalWait.remoteRank, 8);
	assert_int_equal(para.signalWait.stage, 9);
	assert_int_equal(t.none.PopTaskLogicInfo(info), HCCL_E_NOT_FOUND);
	t.get(t.b); /* nothing was run */
	assert_memory_not_equal(t.to.ptr(), t.from.ptr(), n_bytes);
}

} // namespace

int main()
{
	const std::string devices = getenv("USDMA_DEVICES");
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_dispatcher),
		cmocka_unit_test(test_dispatcher_is_no_other),
		cmocka_unit_test(test_dispatcher_sets_device),
		cmocka_unit_test(test_d2d_pointers),
		cmocka_unit_test(test_d2d_copies),
		cmocka_unit_test(test_d2d_nothing_to_do),
		cmocka_unit_test(test_d2d_runtime_error),
		cmocka_unit_test(test_d2d_without_stream),
		cmocka_unit_test(test_memcpy),
		cmocka_unit_test(test_reduce_without_peers),
		cmocka_unit_test(test_reduce_checks),
		cmocka_unit_test(test_reduce),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_wait_timeout),
		cmocka_unit_test(test_virtual),
	};

	setenv("USDMA_DEVICES", (devices + ",sim:mem=16M").c_str(), 1);
	return cmocka_run_group_tests(tests, open_device, close_device);
}
