/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of race_cases that ThreadSanitizer checks: threads and copies. tsan.py runs them. */
#include "race_program.h"
#include "usdma/usdma.h"

#include <atomic>
#include <mutex>
#include <random>
#include <thread>

namespace race {

namespace {

void store(char *p)
{
	*static_cast<volatile char *>(p) = 3;
}

void load(const char *p)
{
	(void)*static_cast<const volatile char *>(p);
}

std::memory_order order(const program &p, std::memory_order fixed)
{
	return p.fixed ? fixed : std::memory_order_relaxed;
}

template <class T> void poll(const std::atomic<T> &word, std::memory_order how)
{
	while (!word.load(how))
		std::this_thread::yield();
}

/* The thread that made the copy signals its end to another thread. */
void thread_handover(program &p)
{
	std::atomic<int> ended = 0;
	std::thread other([&] {
		poll(ended, order(p, std::memory_order_acquire));
		store(p.host + half);
	});

	p.load(p.a, p.cache, p.host);
	p.sync(p.a);
	ended.store(1, order(p, std::memory_order_release));
	other.join();
}

/* A host function uses the result, after the copy or in another stream. */
void thread_function(program &p)
{
	p.load(p.a, p.cache, p.host);
	p.save(p.a, p.out, p.cache);
	WORKS(aclrtLaunchHostFunc(
		p.fixed ? p.a : p.b, [](void *out) { load(static_cast<char *>(out)); }, p.out + half));
}

/* An event is polled that is recorded after the copy, or before it. */
void thread_query(program &p)
{
	aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;

	if (!p.fixed)
		WORKS(aclrtRecordEvent(p.event, p.a));
	p.load(p.a, p.cache, p.host);
	if (p.fixed)
		WORKS(aclrtRecordEvent(p.event, p.a));
	while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE)
		WORKS(aclrtQueryEventStatus(p.event, &status));
	store(p.host + half);
}

/* Another thread waits for an event after the copy, or only for the record call. */
void thread_event(program &p)
{
	std::atomic<int> recorded = 0;
	std::thread other([&] {
		poll(recorded, std::memory_order_acquire);
		WORKS(aclrtSetDevice(0));
		if (p.fixed)
			WORKS(aclrtSynchronizeEvent(p.event));
		store(p.host + half);
	});

	p.load(p.a, p.cache, p.host);
	WORKS(aclrtRecordEvent(p.event, p.a));
	recorded.store(1, std::memory_order_release);
	other.join();
}

/* A stream of the native API, which can write values to host memory. */
struct native {
	usdma_device *dev = nullptr;
	usdma_stream *stream = nullptr;
	char *host = nullptr, *out = nullptr;
	void *cache = nullptr;
	std::atomic<uint64_t> *value;

	native()
	{
		works(usdma_open_index(0, &dev), "usdma_open_index");
		works(usdma_stream_create(dev, nullptr, &stream), "usdma_stream_create");
		works(usdma_device_alloc(dev, size, &cache), "usdma_device_alloc");
		for (char **p : {&host, &out}) {
			works(usdma_host_alloc(dev, 2 * size, reinterpret_cast<void **>(p)), "usdma_host_alloc");
			memset(*p, 0, size);
		}
		value = new (host + size) std::atomic<uint64_t>(0);
	}
	void copy(void *to, const void *from) { works(usdma_copy(stream, to, from, size), "usdma_copy"); }
};

/* The CPU polls a value that the stream writes after the copy. */
void thread_polls(program &p)
{
	native n;

	n.copy(n.cache, n.host);
	n.copy(n.out, n.cache);
	works(usdma_write_value(n.stream, n.value, 1), "usdma_write_value");
	poll(*n.value, order(p, std::memory_order_acquire));
	load(n.out + half);
}

/* The stream waits for a value that the CPU stores when the source is ready. */
void thread_signals(program &p)
{
	native n;

	works(usdma_wait_value(n.stream, n.value, USDMA_EQ, 1), "usdma_wait_value");
	n.copy(n.cache, n.host);
	store(n.host + half);
	n.value->store(1, order(p, std::memory_order_release));
	works(usdma_stream_sync(n.stream, -1), "usdma_stream_sync");
}

/* The engine's own routines for short copies are those of libc, which TSan sees. */
void small_copies(program &p)
{
	for (size_t n = 1; n <= 256; n++) {
		p.load(p.a, p.cache, p.host, n);
		p.save(p.a, p.out, p.cache, n);
		if (p.fixed || n < 256)
			p.sync(p.a);
		store(p.out + n - 1);
	}
}

/* ---- many threads without a race ---------------------------------------------------------------------- */

/* State of all threads, under a lock. */
struct shared {
	std::mutex lock;
	aclrtStream stream;
	aclrtEvent event;
	char *host, *cache;
};

struct worker {
	shared &all;
	std::mt19937_64 rng;
	aclrtStream stream = nullptr;
	std::vector<char> pageable = std::vector<char>(size);
	char *cache = nullptr;

	void own_memory(size_t n, bool registers);
	void shared_memory(size_t n);
	void run(unsigned rounds);
};

/* Memory of the block is allocated again by other threads. */
void worker::own_memory(size_t n, bool registers)
{
	char *p;
	void *at;

	if (registers) {
		p = static_cast<char *>(aligned_alloc(4096, size));
		WORKS(aclrtHostRegister(p, size, ACL_HOST_REGISTER_MAPPED, &at));
	} else {
		WORKS(aclrtMallocHost(reinterpret_cast<void **>(&p), size));
	}
	memset(p, 1, n);
	WORKS(aclrtMemcpyAsync(cache, n, p, n, ACL_MEMCPY_HOST_TO_DEVICE, stream));
	WORKS(aclrtMemcpyAsync(p, n, cache, n, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	WORKS(aclrtSynchronizeStream(stream));
	store(p + n / 2);
	WORKS(aclrtMemcpy(pageable.data(), n, cache, n, ACL_MEMCPY_DEVICE_TO_HOST));
	if (pageable[n - 1] != 1)
		exit(3);
	WORKS(registers ? aclrtHostUnregister(p) : aclrtFreeHost(p));
	if (registers)
		free(p);
}

/* A copy of another thread's stream is waited for by an event. */
void worker::shared_memory(size_t n)
{
	std::lock_guard guard(all.lock);

	WORKS(aclrtStreamWaitEvent(stream, all.event));
	WORKS(aclrtMemcpyAsync(all.host, n, cache, n, ACL_MEMCPY_DEVICE_TO_HOST, stream));
	WORKS(aclrtRecordEvent(all.event, stream));
	if (n % 2)
		return;
	WORKS(aclrtStreamWaitEvent(all.stream, all.event));
	WORKS(aclrtMemcpyAsync(all.cache, n, all.host, n, ACL_MEMCPY_HOST_TO_DEVICE, all.stream));
	WORKS(aclrtRecordEvent(all.event, all.stream));
	if (n % 4)
		return;
	WORKS(aclrtSynchronizeEvent(all.event));
	store(all.host + n / 2);
}

void worker::run(unsigned rounds)
{
	WORKS(aclrtSetDevice(0));
	WORKS(aclrtCreateStream(&stream));
	WORKS(aclrtMalloc(reinterpret_cast<void **>(&cache), size, ACL_MEM_MALLOC_HUGE_FIRST));
	WORKS(aclrtMemset(cache, size, 1, size));
	for (unsigned i = 0; i < rounds; i++) {
		const size_t n = 1 + rng() % (rng() % 2 ? 64 : size);

		if (rng() % 2)
			shared_memory(n);
		else
			own_memory(n, rng() % 2);
	}
	WORKS(aclrtSynchronizeStream(stream));
	WORKS(aclrtDestroyStream(stream));
	WORKS(aclrtFree(cache));
}

/* The racy version loads data that the last copy may still write. */
void threads_many(program &p)
{
	shared all = {{}, p.a, p.event, p.host, p.other};
	std::vector<std::thread> threads;
	const char *const seed = getenv("USDMA_TEST_SEED");
	const unsigned long first = seed ? strtoul(seed, nullptr, 0) : 1;

	WORKS(aclrtRecordEvent(p.event, p.a));
	for (unsigned long i = 0; i < 4; i++)
		threads.emplace_back([&all, own = 4 * first + i] { worker{all, std::mt19937_64(own)}.run(60); });
	for (std::thread &t : threads)
		t.join();
	p.load(p.a, p.cache, p.host);
	p.save(p.a, p.out, p.cache);
	if (p.fixed)
		WORKS(aclrtSynchronizeDevice());
	load(p.out + half);
}

} // namespace

const std::vector<one> thread_cases = {
	{"thread_handover", thread_handover}, {"thread_function", thread_function}, {"thread_query", thread_query},
	{"thread_event", thread_event},       {"thread_polls", thread_polls},       {"thread_signals", thread_signals},
	{"small_copies", small_copies},       {"threads_many", threads_many},
};

} // namespace race
