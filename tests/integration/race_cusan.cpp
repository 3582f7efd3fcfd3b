/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cases of CuSan's tests (github.com/ahueck/cusan, test/runtime, by number) about the order of copies, streams and
 * events, translated to ACL calls, with CuSan's labels. A kernel is a fill or a copy; accesses to device memory by the
 * CPU or by MPI are synchronous copies. Not included are cases specific to CUDA or CuSan: the implicit order of CUDA's
 * default stream and of its allocations, kernel arguments, annotations.
 */
#include "race_program.h"

namespace race {
namespace {

void kernel(aclrtStream s, char *to, size_t n = size)
{
	WORKS(aclrtMemsetAsync(to, n, 5, n, s));
}

/* By MPI, or in a loop of the program. */
void use(program &p, const char *from, size_t n = size)
{
	WORKS(aclrtMemcpy(p.out, n, from, n, ACL_MEMCPY_DEVICE_TO_HOST));
}

void event(program &p)
{
	WORKS(aclrtMemset(p.cache, size, 0, size));
	kernel(nullptr, p.cache);
	WORKS(aclrtRecordEvent(p.event, nullptr));
	if (p.fixed)
		WORKS(aclrtSynchronizeEvent(p.event));
	use(p, p.cache);
}

void to_mpi(program &p)
{
	kernel(nullptr, p.cache);
	if (p.fixed)
		WORKS(aclrtSynchronizeDevice());
	use(p, p.cache);
}

/* A receive that the program waits for later is a copy of another stream. */
void from_mpi(program &p)
{
	kernel(nullptr, p.cache);
	WORKS(aclrtSynchronizeDevice());
	p.load(p.a, p.cache, p.host);
	if (p.fixed)
		p.sync(p.a);
	kernel(nullptr, p.cache);
	p.sync(p.a);
	p.sync(nullptr);
	use(p, p.cache);
}

void to_mpi_stream(program &p)
{
	kernel(p.a, p.cache);
	if (p.fixed)
		p.sync(p.a);
	use(p, p.cache);
}

void to_mpi_event(program &p)
{
	kernel(nullptr, p.cache);
	WORKS(aclrtRecordEvent(p.event, nullptr));
	if (p.fixed)
		WORKS(aclrtSynchronizeEvent(p.event));
	use(p, p.cache);
}

/* Both only read. */
void to_mpi_read(program &p)
{
	kernel(nullptr, p.cache);
	WORKS(aclrtSynchronizeDevice());
	p.move(nullptr, p.other, p.cache);
	use(p, p.cache);
}

void memcpy_to_mpi(program &p)
{
	WORKS(aclrtMemset(p.cache, size, 255, size));
	WORKS(aclrtSynchronizeDevice());
	WORKS(aclrtMemcpy(p.cache, size, p.host, size, ACL_MEMCPY_HOST_TO_DEVICE));
	use(p, p.cache);
	p.save(p.b, p.out, p.cache);
	p.sync(p.b);
}

void memcpy_default(program &p)
{
	WORKS(aclrtMemcpy(p.host, size, p.out, size, ACL_MEMCPY_DEFAULT));
	WORKS(aclrtFreeHost(p.out));
}

void host_alloc(program &p)
{
	WORKS(aclrtFreeHost(p.host));
	WORKS(aclrtFreeHost(p.out));
}

void memset_nonblocking(program &p)
{
	WORKS(aclrtMemset(p.cache, size, 0, size));
	WORKS(aclrtMemset(p.other, size, 0, size));
	kernel(p.a, p.cache);
	WORKS(aclrtMemset(p.host, 4, 0, 4));
	if (p.fixed)
		p.sync(p.a);
	kernel(p.b, p.other);
	p.sync(p.b);
	use(p, p.cache);
}

void stream_query(program &p)
{
	aclrtStreamStatus done = ACL_STREAM_STATUS_NOT_READY;

	kernel(p.a, p.cache);
	while (p.fixed && done != ACL_STREAM_STATUS_COMPLETE)
		WORKS(aclrtStreamQuery(p.a, &done));
	use(p, p.cache);
}

void event_query(program &p)
{
	aclrtEventRecordedStatus done = ACL_EVENT_RECORDED_STATUS_NOT_READY;

	kernel(p.a, p.cache);
	WORKS(aclrtRecordEvent(p.event, p.a));
	while (p.fixed && done != ACL_EVENT_RECORDED_STATUS_COMPLETE)
		WORKS(aclrtQueryEventStatus(p.event, &done));
	use(p, p.cache);
}

/* A copy between host buffers does not wait for a stream. */
void host_to_host(program &p)
{
	static char from[4], to[4];

	WORKS(aclrtMemset(p.cache, size, 0, size));
	kernel(p.a, p.cache);
	WORKS(aclrtMemcpy(to, sizeof(to), from, sizeof(from), ACL_MEMCPY_HOST_TO_HOST));
	if (p.fixed)
		p.sync(p.a);
	p.save(p.b, p.out, p.cache);
	p.sync(p.b);
}

void chunked_streams(program &p)
{
	aclrtStream s[4];
	constexpr size_t chunk = size / 4;

	kernel(p.a, p.cache);
	p.sync(p.a);
	for (size_t i = 0; i < 4; i++) {
		WORKS(aclrtCreateStream(&s[i]));
		p.save(s[i], p.out + i * chunk, p.cache + i * chunk, chunk);
	}
	for (size_t i = 0; i < 4; i++) {
		p.sync(s[i]);
		WORKS(aclrtMemcpy(p.host + i * chunk, chunk, p.out + i * chunk, chunk, ACL_MEMCPY_HOST_TO_HOST));
	}
}

/* The half that is sent is not the one that is written. */
void partial_write(program &p)
{
	kernel(p.a, p.cache, half);
	p.sync(p.a);
	kernel(p.a, p.cache + half, half);
	use(p, p.cache, half);
	p.sync(p.a);
	use(p, p.cache + half, half);
}

/* The stream that is waited for has no order after the other one. */
void post_sync_nonblocking(program &p)
{
	WORKS(aclrtMemset(p.cache, size, 0, size));
	kernel(nullptr, p.cache);
	kernel(p.b, p.other);
	p.sync(p.b);
	if (p.fixed)
		WORKS(aclrtSynchronizeDevice());
	use(p, p.cache);
}

/* CuSan's fixed version uses a stream that the default stream's wait includes; ACL has no such stream. */
void sync_default_nonblocking(program &p)
{
	WORKS(aclrtMemset(p.cache, size, 0, size));
	kernel(p.a, p.cache);
	p.sync(p.fixed ? p.a : nullptr);
	use(p, p.cache);
}

/* Rows with a pitch. */
void malloc_pitch(program &p)
{
	constexpr size_t pitch = 512, width = 128, height = 8;

	WORKS(aclrtMemset(p.cache, size, 0, size));
	WORKS(aclrtMemcpy2dAsync(p.cache, pitch, p.host, width, width, height, ACL_MEMCPY_HOST_TO_DEVICE, p.a));
	if (p.fixed)
		WORKS(aclrtSynchronizeDevice());
	use(p, p.cache, pitch * height);
}

/* CuSan's fixed version has a synchronous copy in CUDA's default stream. */
void memcpy_2d(program &p)
{
	constexpr size_t pitch = 512, width = 256, height = 8;

	WORKS(aclrtMemset(p.cache, size, 0, size));
	kernel(p.a, p.cache);
	if (p.fixed)
		p.sync(p.a);
	WORKS(aclrtMemcpy2dAsync(p.out, width, p.cache, pitch, width, height, ACL_MEMCPY_DEVICE_TO_HOST, p.b));
	p.sync(p.b);
}

void event_between_streams(program &p)
{
	kernel(p.a, p.cache);
	WORKS(aclrtRecordEvent(p.event, p.a));
	if (p.fixed)
		WORKS(aclrtSynchronizeEvent(p.event));
	kernel(p.b, p.cache);
}

void async_copy(program &p)
{
	kernel(p.a, p.cache);
	if (p.fixed)
		p.sync(p.a);
	p.save(p.b, p.out, p.cache);
	p.sync(p.b);
}

/* In CuSan's version CUDA's default stream orders the last copy. */
void wait_event(program &p)
{
	WORKS(aclrtMemcpy(p.cache, size, p.host, size, ACL_MEMCPY_HOST_TO_DEVICE));
	WORKS(aclrtSynchronizeDevice());
	kernel(p.a, p.cache);
	WORKS(aclrtRecordEvent(p.event, p.a));
	if (p.fixed)
		WORKS(aclrtStreamWaitEvent(p.b, p.event));
	p.move(p.b, p.other, p.cache);
	p.sync(p.b);
	p.sync(p.a);
	use(p, p.cache);
}

constexpr one all[] = {
	{"cusan_02_event", event},
	{"cusan_03_cuda_to_mpi", to_mpi},
	{"cusan_04_mpi_to_cuda", from_mpi},
	{"cusan_05_cuda_to_mpi_stream", to_mpi_stream},
	{"cusan_06_cuda_to_mpi_event", to_mpi_event},
	{"cusan_07_cuda_to_mpi_read", to_mpi_read},
	{"cusan_08_cudamemcpy_to_mpi", memcpy_to_mpi},
	{"cusan_09_cudamemcpy_default", memcpy_default},
	{"cusan_10_cudahostalloc", host_alloc},
	{"cusan_15_cuda_memset_sync_nonblocking", memset_nonblocking},
	{"cusan_17_cuda_stream_query_busy_loop", stream_query},
	{"cusan_18_cuda_to_mpi_event_query_busy_loop", event_query},
	{"cusan_19_cuda_cudaMemcpyAsyncH2H_implicit_sync_nonblocking", host_to_host},
	{"cusan_21_chunked_streams_example", chunked_streams},
	{"cusan_22_cuda_to_mpi_partial_buff_write", partial_write},
	{"cusan_23_cuda_default_stream_post_sync_nonblocking", post_sync_nonblocking},
	{"cusan_24_cuda_sync_stream_default_nonblocking", sync_default_nonblocking},
	{"cusan_26_malloc_pitch", malloc_pitch},
	{"cusan_27_cuda_memcpy2d_implicit_syn", memcpy_2d},
	{"cusan_31_tsan_cuda_event", event_between_streams},
	{"cusan_32_tsan_async_copy", async_copy},
	{"cusan_33_tsan_wait_event", wait_event},
};

} // namespace

const std::vector<one> cusan_cases(std::begin(all), std::end(all));

} // namespace race
