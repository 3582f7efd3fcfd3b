/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every failing call on a way through the ACL runtime: init with a file, callbacks of all kinds, device, streams,
 * events, pinned memory, copies, batches, gates, notifies, memory and events under keys, virtual memory, a pool, end.
 */
#include "acl/acl.h"
#include "tests/fault/failing.h"

#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace usdma;
using namespace test::failing;

static constexpr size_t size = 16 << 10, half = size / 2;
static constexpr size_t page = 2 << 20; /* of virtual memory */
static char config[64];
/* What each way copies: made once, for all children, too. */
static std::vector<u8> own_bytes;

/* What a callback's way through the library left behind. */
struct told {
	unsigned inits = 0, ends = 0, devices = 0, streams = 0, reports = 0, calls = 0;
};

static aclError on_init(const char *text, size_t len, void *user)
{
	static_cast<told *>(user)->inits += strlen(text) == len && len > 0;
	return 0;
}

static aclError on_end(void *user)
{
	static_cast<told *>(user)->ends++;
	return 0;
}

static void on_device(int32_t, aclrtDeviceState, void *user)
{
	static_cast<told *>(user)->devices++;
}

static void on_stream(aclrtStream, aclrtStreamState, void *user)
{
	static_cast<told *>(user)->streams++;
}

static void on_report(void *user)
{
	static_cast<told *>(user)->reports++;
}

static void on_call(void *user)
{
	static_cast<told *>(user)->calls++;
}

struct things {
	told heard;
	bool wants_memory = false;
	aclError end = 0; /* the first error of what was undone */
	bool init = false, on_init = false, on_end = false, on_device = false, on_stream = false;
	bool set = false, reports = false, registered = false, mapped = false, exported = false, imported = false;
	aclrtStream s = nullptr, gated = nullptr;
	aclrtEvent e = nullptr, ipc = nullptr, opened = nullptr;
	aclrtNotify notify = nullptr, alias = nullptr;
	aclrtCntNotify count = nullptr;
	aclrtMemPool pool = nullptr;
	void *pinned = nullptr, *dev = nullptr, *pooled = nullptr, *va = nullptr, *foreign = nullptr;
	aclrtDrvMemHandle physical = nullptr;
	char key[65] = "";
	char *own = static_cast<char *>(aligned_alloc(4096, size));
	char *plain = static_cast<char *>(malloc(size));

	~things()
	{
		free(own);
		free(plain);
	}
};

/* Ends the part at the first error. */
#define TRY(call)                                                                                                      \
	do {                                                                                                           \
		if (const aclError err_ = (call))                                                                      \
			return err_;                                                                                   \
	} while (0)

/* The same, and notes what has to be undone. */
#define TRY_AND(done, call)                                                                                            \
	do {                                                                                                           \
		TRY(call);                                                                                             \
		(done) = true;                                                                                         \
	} while (0)

static aclError begin(things *t)
{
	TRY_AND(t->on_init, aclInitCallbackRegister(ACL_REG_TYPE_OTHER, on_init, &t->heard));
	TRY_AND(t->on_end, aclFinalizeCallbackRegister(ACL_REG_TYPE_OTHER, on_end, &t->heard));
	TRY_AND(t->on_device,
		aclrtRegDeviceStateCallback("a name that no text keeps within itself", on_device, &t->heard));
	TRY_AND(t->on_stream,
		aclrtRegStreamStateCallback("another name that is longer than that", on_stream, &t->heard));
	TRY_AND(t->init, aclInit(config));
	TRY_AND(t->set, aclrtSetDevice(0));
	TRY(aclrtCreateStream(&t->s));
	TRY(aclrtCreateStream(&t->gated));
	TRY(aclrtCreateEventWithFlag(&t->e, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
	return aclrtCreateNotify(&t->notify, 0);
}

static aclError memory(things *t)
{
	aclrtPhysicalMemProp prop{};
	aclrtMemPoolProps props{};
	void *devptr;

	prop.handleType = ACL_MEM_HANDLE_TYPE_NONE;
	prop.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
	prop.memAttr = ACL_HBM_MEM_NORMAL;
	prop.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
	props.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
	TRY(aclrtMallocHost(&t->pinned, size));
	TRY_AND(t->registered, aclrtHostRegister(t->own, size, ACL_HOST_REGISTER_MAPPED, &devptr));
	TRY(aclrtMalloc(&t->dev, size, ACL_MEM_MALLOC_NORMAL_ONLY));
	TRY(aclrtReserveMemAddress(&t->va, page, 0, nullptr, 1));
	TRY(aclrtMallocPhysical(&t->physical, page, &prop, 0));
	TRY_AND(t->mapped, aclrtMapMem(t->va, page, 0, t->physical, 0));
	TRY(aclrtMemPoolCreate(&t->pool, &props));
	return aclrtMemPoolMallocAsync(&t->pooled, size, t->pool, t->s);
}

static aclError batch(things *t, char *dst, const char *src)
{
	void *dsts[] = {dst, dst + half}, *srcs[] = {const_cast<char *>(src), const_cast<char *>(src) + half};
	size_t sizes[] = {half, half}, index = 0, failed;
	aclrtMemcpyBatchAttr attr{};

	attr.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
	attr.srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST};
	return aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, 2, &attr, &index, 1, &failed, t->s);
}

/*
 * own → device → virtual memory → the pool's → pinned, the last of it behind a gate; then back by a synchronous
 * copy.
 */
static aclError copies(things *t)
{
	TRY(batch(t, static_cast<char *>(t->dev), t->own));
	TRY(aclrtMemcpyAsync(t->va, page, t->dev, size, ACL_MEMCPY_DEVICE_TO_DEVICE, t->s));
	TRY(aclrtMemcpyAsync(t->pooled, size, t->va, size, ACL_MEMCPY_DEVICE_TO_DEVICE, t->s));
	TRY(aclrtWaitAndResetNotify(t->notify, t->gated, 20));
	TRY(aclrtMemcpyAsync(t->pinned, size, t->pooled, size, ACL_MEMCPY_DEVICE_TO_HOST, t->gated));
	TRY(aclrtRecordEvent(t->e, t->gated));
	TRY(aclrtRecordNotify(t->notify, t->s));
	TRY(aclrtStreamWaitEvent(t->s, t->e));
	TRY(aclrtSynchronizeStreamWithTimeout(t->s, 20000));
	TRY(aclrtSynchronizeStreamWithTimeout(t->gated, 20000));
	assert_memory_equal(t->pinned, t->own, size);
	TRY(aclrtMemcpy(t->plain, size, t->dev, size, ACL_MEMCPY_DEVICE_TO_HOST));
	assert_memory_equal(t->plain, t->own, size);
	return ACL_SUCCESS;
}

static aclError callbacks(things *t)
{
	TRY_AND(t->reports, aclrtSubscribeReport(uint64_t(pthread_self()), t->s));
	TRY(aclrtLaunchCallback(on_report, &t->heard, ACL_CALLBACK_BLOCK, t->s));
	TRY(aclrtLaunchHostFunc(t->gated, on_call, &t->heard));
	TRY(aclrtProcessReport(20000));
	TRY(aclrtSynchronizeStreamWithTimeout(t->s, 20000));
	TRY(aclrtSynchronizeStreamWithTimeout(t->gated, 20000));
	assert_int_equal(t->heard.reports, 1);
	assert_int_equal(t->heard.calls, 1);
	return ACL_SUCCESS;
}

/* Own keys, opened again: the library goes the same way as for another process's. */
static aclError keys(things *t)
{
	aclrtIpcEventHandle handle;
	char key[65];

	TRY(aclrtCreateEventExWithFlag(&t->ipc, ACL_EVENT_IPC));
	TRY(aclrtIpcGetEventHandle(t->ipc, &handle));
	TRY(aclrtIpcOpenEventHandle(handle, &t->opened));
	TRY(aclrtRecordEvent(t->ipc, t->s));
	TRY(aclrtStreamWaitEvent(t->gated, t->opened));
	TRY(aclrtNotifyGetExportKey(t->notify, key, sizeof(key), ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	TRY(aclrtNotifyImportByKey(&t->alias, key, 0));
	TRY(aclrtWaitAndResetNotify(t->notify, t->gated, 20));
	TRY(aclrtRecordNotify(t->alias, t->s));
	TRY_AND(t->exported, aclrtIpcMemGetExportKey(t->dev, size, t->key, sizeof(t->key),
						     ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	TRY_AND(t->imported, aclrtIpcMemImportByKey(&t->foreign, t->key, 0));
	TRY(aclrtMemcpyAsync(t->pinned, size, t->foreign, size, ACL_MEMCPY_DEVICE_TO_HOST, t->gated));
	TRY(aclrtSynchronizeEventWithTimeout(t->opened, 20000));
	return aclrtSynchronizeStreamWithTimeout(t->gated, 20000);
}

static aclError counts(things *t)
{
	aclrtCntNotifyRecordInfo more{ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 3};
	aclrtCntNotifyWaitInfo wait{ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 3, 20, 1, {}};

	TRY(aclrtCntNotifyCreate(&t->count, 0));
	TRY(aclrtCntNotifyWaitWithTimeout(t->count, t->gated, &wait));
	TRY(aclrtCntNotifyRecord(t->count, t->s, &more));
	TRY(aclrtSynchronizeStreamWithTimeout(t->s, 20000));
	return aclrtSynchronizeStreamWithTimeout(t->gated, 20000);
}

/* A wait in the device for what nobody has written yet: the thread sleeps for certain. */
static aclError values(things *t)
{
	TRY(aclrtMemset(t->dev, size, 0, sizeof(uint64_t)));
	TRY(aclrtValueWait(t->dev, 1, ACL_STREAM_WAIT_VALUE_EQ, t->gated));
	const aclError late = aclrtSynchronizeStreamWithTimeout(t->gated, 1);
	if (late != ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
		return late;
	aclGetRecentErrMsg();
	TRY(aclrtValueWrite(t->dev, 1, 0, t->s));
	TRY(aclrtSynchronizeStreamWithTimeout(t->s, 20000));
	return aclrtSynchronizeStreamWithTimeout(t->gated, 20000);
}

static aclError go(things *t)
{
	TRY(begin(t));
	TRY(memory(t));
	TRY(copies(t));
	TRY(callbacks(t));
	TRY(keys(t));
	TRY(counts(t));
	return values(t);
}

/* What is undone is gone, whatever it says of calls that failed meanwhile; want of memory is none of that. */
#define END(is, call)                                                                                                  \
	do {                                                                                                           \
		if (is)                                                                                                \
			note_end(t, call);                                                                             \
	} while (0)

static void note_end(things *t, aclError err)
{
	if (err && t->wants_memory)
		print_error("an end that wants memory: %s\n", aclGetRecentErrMsg());
	assert_true(!err || !t->wants_memory);
	t->end = t->end ? t->end : err;
}

/* Work that waits for what was never recorded is dropped; a report that was accepted comes in any case. */
static void end_streams(things *t)
{
	END(t->s, aclrtDestroyStreamForce(t->s));
	END(t->gated, aclrtDestroyStreamForce(t->gated));
	while (t->reports && !aclrtProcessReport(1))
		;
}

static void end_memory(things *t)
{
	END(t->imported, aclrtIpcMemClose(t->key));
	END(t->exported, aclrtIpcMemClose(t->key));
	END(t->pool, aclrtMemPoolDestroy(t->pool));
	END(t->mapped, aclrtUnmapMem(t->va));
	END(t->physical, aclrtFreePhysical(t->physical));
	END(t->va, aclrtReleaseMemAddress(t->va));
	END(t->dev, aclrtFree(t->dev));
	END(t->registered, aclrtHostUnregister(t->own));
	END(t->pinned, aclrtFreeHost(t->pinned));
}

static void take_down(things *t)
{
	if (t->pooled && t->s)
		aclrtMemPoolFreeAsync(t->pooled, t->s);
	end_streams(t);
	END(t->count, aclrtCntNotifyDestroy(t->count));
	END(t->alias, aclrtDestroyNotify(t->alias));
	END(t->notify, aclrtDestroyNotify(t->notify));
	END(t->opened, aclrtDestroyEvent(t->opened));
	END(t->ipc, aclrtDestroyEvent(t->ipc));
	END(t->e, aclrtDestroyEvent(t->e));
	end_memory(t);
	END(t->set, aclrtResetDevice(0));
	END(t->init, aclFinalize());
	END(t->on_stream, aclrtRegStreamStateCallback("another name that is longer than that", nullptr, nullptr));
	END(t->on_device, aclrtRegDeviceStateCallback("a name that no text keeps within itself", nullptr, nullptr));
	END(t->on_end, aclFinalizeCallbackUnRegister(ACL_REG_TYPE_OTHER, on_end));
	END(t->on_init, aclInitCallbackUnRegister(ACL_REG_TYPE_OTHER, on_init));
}

/* Memory that was not there is told as that. */
static void check_told(const things &t, aclError err)
{
	const char *text = aclGetRecentErrMsg();

	if (err && !text)
		print_error("error %d without a text\n", err);
	assert_true(!err || text);
	if (err && t.wants_memory && err != ACL_ERROR_RT_MEMORY_ALLOCATION && err != ACL_ERROR_BAD_ALLOC) {
		print_error("no memory, told as: %s\n", text);
		assert_true(false);
	}
}

static int acl_way(call c, long n)
{
	things t;

	t.wants_memory = c == call::memory || c == call::all_memory;
	memcpy(t.own, own_bytes.data(), size);
	memset(t.plain, 0, size);
	aclGetRecentErrMsg();
	arm(c, n);
	const aclError err = go(&t);
	check_told(t, err);
	take_down(&t);
	disarm();
	/*
	 * Whoever asked to be told, was: twice at the opening of the device and at its end, at each stream's
	 * making and end.
	 */
	assert_int_equal(t.heard.inits, t.init);
	assert_int_equal(t.heard.ends, t.init);
	assert_true(!t.set || t.heard.devices == 4);
	assert_int_equal(t.heard.streams, 2 * (bool(t.s) + bool(t.gated)));
	return err ? err : t.end;
}

int main()
{
	static constexpr char text[] =
		"{\"defaultDevice\": {\"default_device\": \"0\"}, \"other things\": [{}, [1, \"a text of some "
		"length\"]]}";
	const int fd = memfd_create("acl.json", MFD_CLOEXEC);

	if (fd < 0 || write(fd, text, sizeof(text) - 1) != sizeof(text) - 1)
		return 1;
	snprintf(config, sizeof(config), "/proc/self/fd/%d", fd);
	own_bytes = random_bytes(size, 5);
	return main_with("failing calls, ACL", acl_way);
}
