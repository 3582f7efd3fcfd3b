/* SPDX-License-Identifier: BSD-3-Clause */
/* Bugs of public reports, translated to ACL calls: kernels are replaced by fills and copies. */
#include "race_program.h"

namespace race {
namespace {

/* The save of a block is not ordered after the stream that computes it (vllm#45704). */
void store_unordered(program &p)
{
	WORKS(aclrtMemsetAsync(p.cache, size, 7, size, p.a));
	if (p.fixed)
		p.edge();
	p.save(p.b, p.out, p.cache);
}

/* All batches share one table of block numbers, while the copy stream is delayed (TensorRT-LLM#15546). */
void one_table(program &p)
{
	for (int batch = 0; batch < 2; batch++) {
		char *const table = p.fixed && batch ? p.out : p.host;

		memset(table, batch, size);
		WORKS(aclrtRecordEvent(p.event, p.b));
		WORKS(aclrtStreamWaitEvent(p.a, p.event));
		p.load(p.a, p.cache, table);
	}
	p.sync(p.a);
}

/* The staging buffer is filled for the second peer while it is sent to the first one (sglang#38099). */
void staging_two_peers(program &p)
{
	p.load(p.a, p.cache, p.host);
	p.move(p.a, p.other, p.cache);
	p.edge();
	p.save(p.b, p.out, p.other);
	if (p.fixed)
		p.sync(p.b);
	p.move(p.a, p.other, p.cache);
}

/* The stream of the saves is waited for only if they went to host memory (LMCache#2181). */
void store_not_waited(program &p)
{
	p.load(p.a, p.cache, p.host);
	p.move(p.a, p.other, p.cache);
	if (p.fixed)
		p.sync(p.a);
	WORKS(aclrtMemcpy(p.out, size, p.other, size, ACL_MEMCPY_DEVICE_TO_HOST));
}

/* The arrays of a function are freed when it returns, and their copies are asynchronous (vllm-ascend#10220). */
void local_freed(program &p)
{
	char *local;

	WORKS(aclrtMallocHost(reinterpret_cast<void **>(&local), size));
	memset(local, 1, size);
	if (p.fixed)
		WORKS(aclrtMemcpy(p.cache, size, local, size, ACL_MEMCPY_HOST_TO_DEVICE));
	else
		p.load(p.a, p.cache, local);
	WORKS(aclrtFreeHost(local));
}

/* The same; in the fixed version an event shows when the data may be freed (Paddle#32563). */
void freed_before_event(program &p)
{
	p.load(p.a, p.cache, p.host);
	WORKS(aclrtRecordEvent(p.event, p.a));
	if (p.fixed)
		WORKS(aclrtSynchronizeEvent(p.event));
	WORKS(aclrtFreeHost(p.host));
}

/* The prefetch reuses its buffer when the copy of the last batch was submitted, but not done (caffe#2998). */
void prefetch_overtakes(program &p)
{
	for (int batch = 0; batch < 2; batch++) {
		p.load(p.b, p.cache, p.host);
		p.sync(p.b);
		p.move(p.a, p.other, p.cache);
		if (p.fixed)
			p.sync(p.a);
	}
}

/* The allocator does not know that another stream still saves the block that it reuses (torchrec#4231). */
void not_recorded(program &p)
{
	p.load(p.a, p.cache, p.host);
	p.edge();
	p.save(p.b, p.out, p.cache);
	if (p.fixed) {
		WORKS(aclrtRecordEvent(p.event, p.b));
		WORKS(aclrtStreamWaitEvent(p.a, p.event));
	}
	WORKS(aclrtMemsetAsync(p.cache, size, 0, size, p.a));
}

/* A request is cancelled, and its pages are reused while its transfer still writes them (sglang#31357). */
void pages_released(program &p)
{
	p.load(p.a, p.cache, p.host);
	if (p.fixed)
		WORKS(aclrtStreamAbort(p.a));
	p.load(p.b, p.cache, p.out);
	WORKS(aclrtDestroyStreamForce(p.a));
}

/* The event of the stream that reads the pages comes with the request, and is not used (rtx6kpro#47). */
void event_ignored(program &p)
{
	p.load(p.a, p.cache, p.host);
	p.sync(p.a);
	p.move(p.a, p.other, p.cache);
	WORKS(aclrtRecordEvent(p.event, p.a));
	if (p.fixed)
		WORKS(aclrtStreamWaitEvent(p.b, p.event));
	p.load(p.b, p.cache, p.host);
}

/* Two input buffers are used in turns, without a wait for the earlier user of the buffer (ik_llama.cpp#2083). */
void wait_elided(program &p)
{
	for (int i = 0; i < 3; i++) {
		char *const input = p.cache + size_t(i % 2) * half;

		if (!i || p.fixed) {
			WORKS(aclrtRecordEvent(p.event, p.b));
			WORKS(aclrtStreamWaitEvent(p.a, p.event));
		}
		p.load(p.a, input, p.host, half);
		p.edge();
		p.move(p.b, p.other, input, half);
	}
}

/* A pinned tensor is changed after copy_(non_blocking=True) of it (pytorch#127612). */
void non_blocking_source(program &p)
{
	p.load(p.a, p.cache, p.host);
	if (p.fixed) {
		WORKS(aclrtRecordEvent(p.event, p.a));
		WORKS(aclrtSynchronizeEvent(p.event));
	}
	p.host[size - 1] = -1;
	p.sync(p.a);
}

/* Only the default stream is waited for before the host buffer is freed (rmm#2521). */
void default_only(program &p)
{
	p.load(p.a, p.cache, p.host);
	p.sync(p.fixed ? p.a : nullptr);
	WORKS(aclrtFreeHost(p.host));
}

/* The result is used without a wait for its copy (xtp#391). */
void result_too_early(program &p)
{
	char sum[64];

	p.load(p.a, p.cache, p.host);
	p.save(p.a, p.out, p.cache);
	if (p.fixed)
		p.sync(p.a);
	WORKS(aclrtMemcpy(sum, sizeof(sum), p.out, sizeof(sum), ACL_MEMCPY_HOST_TO_HOST));
}

constexpr one all[] = {
	{"store_unordered", store_unordered},
	{"one_table", one_table},
	{"staging_two_peers", staging_two_peers},
	{"store_not_waited", store_not_waited},
	{"local_freed", local_freed},
	{"freed_before_event", freed_before_event},
	{"prefetch_overtakes", prefetch_overtakes},
	{"not_recorded", not_recorded},
	{"pages_released", pages_released},
	{"event_ignored", event_ignored},
	{"wait_elided", wait_elided},
	{"non_blocking_source", non_blocking_source},
	{"default_only", default_only},
	{"result_too_early", result_too_early},
};

} // namespace

const std::vector<one> report_cases(std::begin(all), std::end(all));

} // namespace race
