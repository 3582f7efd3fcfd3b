/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every failing call of a scenario in the ACL runtime: init with a file, callbacks of all kinds, device, streams,
 * events, pinned memory, copies, batches, gates, notifies, IPC memory and events, virtual memory, a pool, finalize.
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
/* The data that each run copies; created once, for all children, too. */
static std::vector<u8> own_bytes;

/* How often each kind of callback was called. */
struct callback_counts {
	unsigned inits = 0, finalizes = 0, devices = 0, streams = 0, reports = 0, calls = 0;
};

static aclError on_init(const char *text, size_t len, void *user)
{
	static_cast<callback_counts *>(user)->inits += strlen(text) == len && len > 0;
	return 0;
}

static aclError on_finalize(void *user)
{
	static_cast<callback_counts *>(user)->finalizes++;
	return 0;
}

static void on_device(int32_t, aclrtDeviceState, void *user)
{
	static_cast<callback_counts *>(user)->devices++;
}

static void on_stream(aclrtStream, aclrtStreamState, void *user)
{
	static_cast<callback_counts *>(user)->streams++;
}

static void on_report(void *user)
{
	static_cast<callback_counts *>(user)->reports++;
}

static void on_call(void *user)
{
	static_cast<callback_counts *>(user)->calls++;
}

struct objects {
	callback_counts called;
	bool out_of_memory = false;
	aclError end = 0; /* the first error of a destruction */
	bool init = false, on_init = false, on_finalize = false, on_device = false, on_stream = false;
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

	~objects()
	{
		free(own);
		free(plain);
	}
};

/* Returns the first error. */
#define TRY(call)                                                                                                      \
	do {                                                                                                           \
		if (const aclError err_ = (call))                                                                      \
			return err_;                                                                                   \
	} while (0)

/* The same; done is set if the call has to be undone. */
#define TRY_SET(done, call)                                                                                            \
	do {                                                                                                           \
		TRY(call);                                                                                             \
		(done) = true;                                                                                         \
	} while (0)

static aclError set_up(objects *t)
{
	TRY_SET(t->on_init, aclInitCallbackRegister(ACL_REG_TYPE_OTHER, on_init, &t->called));
	TRY_SET(t->on_finalize, aclFinalizeCallbackRegister(ACL_REG_TYPE_OTHER, on_finalize, &t->called));
	TRY_SET(t->on_device, aclrtRegDeviceStateCallback("a name too long for a short string", on_device, &t->called));
	TRY_SET(t->on_stream,
		aclrtRegStreamStateCallback("another name that is too long for it", on_stream, &t->called));
	TRY_SET(t->init, aclInit(config));
	TRY_SET(t->set, aclrtSetDevice(0));
	TRY(aclrtCreateStream(&t->s));
	TRY(aclrtCreateStream(&t->gated));
	TRY(aclrtCreateEventWithFlag(&t->e, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
	return aclrtCreateNotify(&t->notify, 0);
}

static aclError memory(objects *t)
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
	TRY_SET(t->registered, aclrtHostRegister(t->own, size, ACL_HOST_REGISTER_MAPPED, &devptr));
	TRY(aclrtMalloc(&t->dev, size, ACL_MEM_MALLOC_NORMAL_ONLY));
	TRY(aclrtReserveMemAddress(&t->va, page, 0, nullptr, 1));
	TRY(aclrtMallocPhysical(&t->physical, page, &prop, 0));
	TRY_SET(t->mapped, aclrtMapMem(t->va, page, 0, t->physical, 0));
	TRY(aclrtMemPoolCreate(&t->pool, &props));
	return aclrtMemPoolMallocAsync(&t->pooled, size, t->pool, t->s);
}

static aclError batch(objects *t, char *dst, const char *src)
{
	void *dsts[] = {dst, dst + half}, *srcs[] = {const_cast<char *>(src), const_cast<char *>(src) + half};
	size_t sizes[] = {half, half}, index = 0, failed;
	aclrtMemcpyBatchAttr attr{};

	attr.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
	attr.srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST};
	return aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, 2, &attr, &index, 1, &failed, t->s);
}

/*
 * own → device → virtual memory → pool → pinned, the last copy behind a gate; then a synchronous copy back.
 */
static aclError copies(objects *t)
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

static aclError callbacks(objects *t)
{
	TRY_SET(t->reports, aclrtSubscribeReport(uint64_t(pthread_self()), t->s));
	TRY(aclrtLaunchCallback(on_report, &t->called, ACL_CALLBACK_BLOCK, t->s));
	TRY(aclrtLaunchHostFunc(t->gated, on_call, &t->called));
	TRY(aclrtProcessReport(20000));
	TRY(aclrtSynchronizeStreamWithTimeout(t->s, 20000));
	TRY(aclrtSynchronizeStreamWithTimeout(t->gated, 20000));
	assert_int_equal(t->called.reports, 1);
	assert_int_equal(t->called.calls, 1);
	return ACL_SUCCESS;
}

/* Keys of this process, imported again: the library treats them as those of another process. */
static aclError keys(objects *t)
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
	TRY_SET(t->exported, aclrtIpcMemGetExportKey(t->dev, size, t->key, sizeof(t->key),
						     ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	TRY_SET(t->imported, aclrtIpcMemImportByKey(&t->foreign, t->key, 0));
	TRY(aclrtMemcpyAsync(t->pinned, size, t->foreign, size, ACL_MEMCPY_DEVICE_TO_HOST, t->gated));
	TRY(aclrtSynchronizeEventWithTimeout(t->opened, 20000));
	return aclrtSynchronizeStreamWithTimeout(t->gated, 20000);
}

static aclError counts(objects *t)
{
	aclrtCntNotifyRecordInfo more{ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 3};
	aclrtCntNotifyWaitInfo wait{ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 3, 20, 1, {}};

	TRY(aclrtCntNotifyCreate(&t->count, 0));
	TRY(aclrtCntNotifyWaitWithTimeout(t->count, t->gated, &wait));
	TRY(aclrtCntNotifyRecord(t->count, t->s, &more));
	TRY(aclrtSynchronizeStreamWithTimeout(t->s, 20000));
	return aclrtSynchronizeStreamWithTimeout(t->gated, 20000);
}

/* A wait in the device for a value that is not written yet, so that the thread has to sleep. */
static aclError values(objects *t)
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

static aclError run_all(objects *t)
{
	TRY(set_up(t));
	TRY(memory(t));
	TRY(copies(t));
	TRY(callbacks(t));
	TRY(keys(t));
	TRY(counts(t));
	return values(t);
}

/* Destroys an object.  It may return errors of earlier calls, but must not fail for lack of memory. */
#define DESTROY(is, call)                                                                                              \
	do {                                                                                                           \
		if (is)                                                                                                \
			note_error(t, call);                                                                           \
	} while (0)

static void note_error(objects *t, aclError err)
{
	if (err && t->out_of_memory)
		print_error("a destruction fails without memory: %s\n", aclGetRecentErrMsg());
	assert_true(!err || !t->out_of_memory);
	t->end = t->end ? t->end : err;
}

/* Work that waits for an unrecorded event is dropped; an accepted report is delivered in any case. */
static void destroy_streams(objects *t)
{
	DESTROY(t->s, aclrtDestroyStreamForce(t->s));
	DESTROY(t->gated, aclrtDestroyStreamForce(t->gated));
	while (t->reports && !aclrtProcessReport(1))
		;
}

static void destroy_memory(objects *t)
{
	DESTROY(t->imported, aclrtIpcMemClose(t->key));
	DESTROY(t->exported, aclrtIpcMemClose(t->key));
	DESTROY(t->pool, aclrtMemPoolDestroy(t->pool));
	DESTROY(t->mapped, aclrtUnmapMem(t->va));
	DESTROY(t->physical, aclrtFreePhysical(t->physical));
	DESTROY(t->va, aclrtReleaseMemAddress(t->va));
	DESTROY(t->dev, aclrtFree(t->dev));
	DESTROY(t->registered, aclrtHostUnregister(t->own));
	DESTROY(t->pinned, aclrtFreeHost(t->pinned));
}

static void destroy_all(objects *t)
{
	if (t->pooled && t->s)
		aclrtMemPoolFreeAsync(t->pooled, t->s);
	destroy_streams(t);
	DESTROY(t->count, aclrtCntNotifyDestroy(t->count));
	DESTROY(t->alias, aclrtDestroyNotify(t->alias));
	DESTROY(t->notify, aclrtDestroyNotify(t->notify));
	DESTROY(t->opened, aclrtDestroyEvent(t->opened));
	DESTROY(t->ipc, aclrtDestroyEvent(t->ipc));
	DESTROY(t->e, aclrtDestroyEvent(t->e));
	destroy_memory(t);
	DESTROY(t->set, aclrtResetDevice(0));
	DESTROY(t->init, aclFinalize());
	DESTROY(t->on_stream, aclrtRegStreamStateCallback("another name that is too long for it", nullptr, nullptr));
	DESTROY(t->on_device, aclrtRegDeviceStateCallback("a name too long for a short string", nullptr, nullptr));
	DESTROY(t->on_finalize, aclFinalizeCallbackUnRegister(ACL_REG_TYPE_OTHER, on_finalize));
	DESTROY(t->on_init, aclInitCallbackUnRegister(ACL_REG_TYPE_OTHER, on_init));
}

/* An error has a text, and a failed allocation is reported as lack of memory. */
static void check_error(const objects &t, aclError err)
{
	const char *text = aclGetRecentErrMsg();

	if (err && !text)
		print_error("error %d without a text\n", err);
	assert_true(!err || text);
	if (err && t.out_of_memory && err != ACL_ERROR_RT_MEMORY_ALLOCATION && err != ACL_ERROR_BAD_ALLOC) {
		print_error("no memory, reported as: %s\n", text);
		assert_true(false);
	}
}

static int acl_scenario(call c, long n)
{
	objects t;

	t.out_of_memory = c == call::memory || c == call::all_memory;
	memcpy(t.own, own_bytes.data(), size);
	memset(t.plain, 0, size);
	aclGetRecentErrMsg();
	arm(c, n);
	const aclError err = run_all(&t);
	check_error(t, err);
	destroy_all(&t);
	disarm();
	/* Two calls each at the device's open and close, one each at a stream's creation and destruction. */
	assert_int_equal(t.called.inits, t.init);
	assert_int_equal(t.called.finalizes, t.init);
	assert_true(!t.set || t.called.devices == 4);
	assert_int_equal(t.called.streams, 2 * (bool(t.s) + bool(t.gated)));
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
	return main_with("failing calls, ACL", acl_scenario);
}
