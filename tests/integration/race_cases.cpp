/* SPDX-License-Identifier: BSD-3-Clause */
/* Short programs with ordering bugs. */
#include "race_program.h"

#include <thread>

using namespace race;

namespace {

/* The load stream overwrites blocks that the compute stream still reads (vllm#47282). */
void write_after_read(program &p)
{
	p.load(p.a, p.cache, p.host);
	p.sync(p.a);
	p.move(p.a, p.other, p.cache);
	if (p.fixed)
		p.edge();
	p.load(p.b, p.cache, p.host);
}

/* The layer is used before its load has ended: another stream's event is missing. */
void read_before_load(program &p)
{
	p.load(p.a, p.cache, p.host);
	if (p.fixed)
		p.edge();
	p.move(p.b, p.other, p.cache);
}

/* The event is recorded before the copy that it represents. */
void early_record(program &p)
{
	if (!p.fixed)
		WORKS(aclrtRecordEvent(p.event, p.a));
	p.load(p.a, p.cache, p.host);
	if (p.fixed)
		WORKS(aclrtRecordEvent(p.event, p.a));
	WORKS(aclrtStreamWaitEvent(p.b, p.event));
	p.move(p.b, p.other, p.cache);
}

/* Two layers: the wait for the event of the first load does not cover the second load. */
void stale_wait(program &p)
{
	p.load(p.a, p.cache, p.host, half);
	p.edge();
	p.load(p.a, p.cache + half, p.host, half);
	if (p.fixed)
		p.edge();
	p.move(p.b, p.other, p.cache);
}

/* Two streams store into one staging buffer at once. */
void shared_staging(program &p)
{
	p.load(p.a, p.cache, p.host);
	p.load(p.a, p.other, p.host);
	p.sync(p.a);
	p.save(p.a, p.out, p.cache);
	if (p.fixed)
		p.edge();
	p.save(p.b, p.out + half, p.other, half);
}

/* A pinned buffer is reused for the next load while the last save fills it. */
void reused_buffer(program &p)
{
	p.load(p.a, p.cache, p.host);
	p.save(p.a, p.out, p.cache);
	if (p.fixed)
		p.edge();
	p.load(p.b, p.other, p.out);
}

/* A synchronous copy of data that another stream still writes. */
void synchronous_copy(program &p)
{
	p.load(p.a, p.cache, p.host);
	if (p.fixed)
		p.sync(p.a);
	WORKS(aclrtMemcpy(p.out, size, p.cache, size, ACL_MEMCPY_DEVICE_TO_HOST));
}

/* The wrong stream is waited for. */
void wrong_stream(program &p)
{
	p.load(p.a, p.cache, p.host);
	p.sync(p.fixed ? p.a : p.b);
	WORKS(aclrtMemset(p.cache, size, 0, size));
}

/* A block of the cache is given to the next request while its save still runs. */
void block_reused(program &p)
{
	p.load(p.a, p.cache, p.host);
	p.sync(p.a);
	p.save(p.a, p.out, p.cache);
	if (p.fixed)
		WORKS(aclrtSynchronizeDevice());
	WORKS(aclrtMemsetAsync(p.cache, size, 0, size, p.b));
}

/* The host frees a buffer that a copy reads. */
void free_in_flight(program &p)
{
	p.load(p.a, p.cache, p.host);
	if (p.fixed)
		p.sync(p.a);
	WORKS(aclrtFreeHost(p.host));
}

/* The same, after an abort. */
void free_after_abort(program &p)
{
	p.load(p.a, p.cache, p.host);
	if (p.fixed)
		WORKS(aclrtStreamAbort(p.a));
	WORKS(aclrtFreeHost(p.host));
	WORKS(aclrtDestroyStreamForce(p.a));
}

/* Pinned memory is cleared by the CPU while a copy is still to read it. */
void cleared_early(program &p)
{
	p.load(p.a, p.cache, p.host);
	if (p.fixed)
		p.sync(p.a);
	WORKS(aclrtMemset(p.host, size, 0, size));
}

/* A reset or destroy drops the record of a notify: a later wait is for the next record. */
void notify_again(program &p)
{
	p.load(p.a, p.cache, p.host);
	for (const bool reset : {true, false}) {
		aclrtNotify n;

		WORKS(aclrtCreateNotify(&n, 0));
		WORKS(aclrtRecordNotify(n, p.a));
		WORKS(aclrtSynchronizeDevice());
		if (reset) {
			WORKS(aclrtNotifyBatchReset(&n, 1));
		} else {
			WORKS(aclrtDestroyNotify(n));
			WORKS(aclrtCreateNotify(&n, 0));
		}
		if (p.fixed)
			WORKS(aclrtWaitAndResetNotify(n, p.b, 10000));
		p.move(p.b, p.other, p.cache);
		p.load(p.a, p.cache, p.host);
		WORKS(aclrtRecordNotify(n, p.a));
		WORKS(aclrtSynchronizeDevice());
		WORKS(aclrtDestroyNotify(n));
	}
}

/* A notify is waited for by the wrong stream. */
void notify_missed(program &p)
{
	aclrtNotify n;

	WORKS(aclrtCreateNotify(&n, 0));
	p.load(p.a, p.cache, p.host);
	WORKS(aclrtRecordNotify(n, p.a));
	WORKS(aclrtWaitAndResetNotify(n, p.fixed ? p.b : p.a, 10000));
	p.move(p.b, p.other, p.cache);
}

/* Two counters: loaded blocks and read blocks. The wait for the second block is missing. */
void credits(program &p)
{
	uint64_t *words;
	void *loaded, *read;

	WORKS(aclrtMalloc(reinterpret_cast<void **>(&words), size, ACL_MEM_MALLOC_HUGE_FIRST));
	WORKS(aclrtMemset(words, size, 0, size));
	loaded = words;
	read = words + 8;
	p.load(p.a, p.cache, p.host);
	WORKS(aclrtValueWrite(loaded, 1, 0, p.a));
	WORKS(aclrtValueWait(read, 1, ACL_STREAM_WAIT_VALUE_GEQ, p.a));
	p.load(p.a, p.cache, p.host);
	WORKS(aclrtValueWrite(loaded, 2, 0, p.a));
	for (uint64_t i = 1; i <= 2; i++) {
		if (i == 1 || p.fixed)
			WORKS(aclrtValueWait(loaded, i, ACL_STREAM_WAIT_VALUE_GEQ, p.b));
		p.move(p.b, p.other, p.cache);
		WORKS(aclrtValueWrite(read, i, 0, p.b));
	}
	p.sync(p.b);
}

/* Rows of a 2D copy reach into the next block, whose gaps are free. */
void rows_overlap(program &p)
{
	WORKS(aclrtMemcpy2dAsync(p.cache, 1024, p.host, 1024, 512, 32, ACL_MEMCPY_HOST_TO_DEVICE, p.a));
	WORKS(aclrtMemcpy2dAsync(p.cache + (p.fixed ? 512 : 511), 1024, p.host, 1024, 512, 32,
				 ACL_MEMCPY_HOST_TO_DEVICE, p.b));
}

/* Two items of one batch write the same range: the items of a batch are not ordered. */
void batch_overlap(program &p)
{
	void *to[] = {p.cache, p.fixed ? p.cache + half : p.cache}, *from[] = {p.host, p.host + half};
	size_t sizes[] = {half, half}, first = 0, fail;
	aclrtMemcpyBatchAttr attr = {};

	attr.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
	attr.srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
	WORKS(aclrtMemcpyBatchAsync(to, sizes, from, sizes, 2, &attr, &first, 1, &fail, p.a));
}

/* The cache is allocated without clearing, and parts that no request has filled are read (vllm#31928). */
void cache_unwritten(program &p)
{
	if (p.fixed)
		WORKS(aclrtMemset(p.cache, size, 0, size));
	p.load(p.a, p.cache, p.host, half);
	p.save(p.a, p.out, p.cache);
}

/* The array of block numbers is filled for the next batch while the copy of the last one waits (vllm-ascend#16428). */
void source_reused(program &p)
{
	p.load(p.a, p.cache, p.host);
	if (p.fixed)
		p.sync(p.a);
	p.host[half] = 2;
	p.sync(p.a);
}

constexpr one all[] = {
	{"write_after_read", write_after_read}, {"read_before_load", read_before_load},
	{"early_record", early_record},         {"stale_wait", stale_wait},
	{"shared_staging", shared_staging},     {"reused_buffer", reused_buffer},
	{"synchronous_copy", synchronous_copy}, {"wrong_stream", wrong_stream},
	{"block_reused", block_reused},         {"source_reused", source_reused},
	{"free_in_flight", free_in_flight},     {"free_after_abort", free_after_abort},
	{"cleared_early", cleared_early},       {"notify_missed", notify_missed},
	{"notify_again", notify_again},         {"credits", credits},
	{"rows_overlap", rows_overlap},         {"batch_overlap", batch_overlap},
	{"cache_unwritten", cache_unwritten},
};

} // namespace

/* ThreadSanitizer does not check device memory. */
#ifdef BESIDE_TSAN
static const std::vector<one> *const more_cases[] = {&report_cases, &guard_cases, &thread_cases};
#else
static const std::vector<one> *const more_cases[] = {&report_cases, &guard_cases, &file_cases, &cusan_cases};
#endif

static int run(const one &o, char **words)
{
	lost = !strcmp(words[0], "lost");
	if (words[1])
		std::thread([] { getchar(); }).detach();
	program p(strcmp(words[0], "racy") != 0);

	o.run(p);
	WORKS(aclrtSynchronizeDevice());
	return 0;
}

int main(int argc, char **argv)
{
	std::vector<one> each(std::begin(all), std::end(all));

	for (const std::vector<one> *some : more_cases)
		each.insert(each.end(), some->begin(), some->end());
	for (const one &o : each) {
		if (argc < 3)
			printf("%s\n", o.name);
		else if (!strcmp(o.name, argv[1]))
			return run(o, argv + 2);
	}
	return argc < 3 ? 0 : 2;
}
