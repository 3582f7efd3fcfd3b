/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nothing grows: each pair of calls that makes something and gives it back, a round after the other, in the native API,
 * ACL and HCCL. Counts descriptors, mappings, threads, allocated memory of the process and free memory of the device.
 */
#include "acl/acl.h"
#include "hccl/hccl.h"
#include "tests/support/level.h"
#include "tests/support/sanitizer.h"
#include "tests/support/test.h"
#include "usdma/file.h"
#include "usdma/uring.h"
#include "usdma/usdma.h"

#include <fstream>
#include <liburing.h>
#include <malloc.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

/* Version 14 cannot format a ?: b, which is b where a gave 0. */
/* clang-format off */
#pragma GCC diagnostic ignored "-Wpedantic"

using usdma::test::fds_without_rings;

TEST_TSAN_SUPPRESSIONS(TEST_UNORDERED_COPIES)

static constexpr size_t page = 4096, MiB = 1 << 20;
static constexpr int wait_ms = 60000;

namespace {

usdma_device *dev;
usdma_stream *idle;
aclrtStream stream;
void *host;

/* What one round made, or -1 of it. Each returns 0, or the code of the call that failed. */
struct pair {
	const char *name;
	int (*round)();
};

/* ---- native ----------------------------------------------------------------------------------------- */

int open_close()
{
	usdma_device *d;

	return usdma_open_index(1, &d) ?: usdma_close(d);
}

int open_nothing()
{
	usdma_device *d;

	return usdma_open("vfio-user:/nonexistent/socket", &d) == -ENOENT ? 0 : -1;
}

int stream_round()
{
	usdma_stream *s;
	void *m;

	return usdma_device_alloc(dev, MiB, &m) ?: usdma_stream_create(dev, nullptr, &s) ?:
	       usdma_copy(s, m, host, page) ?: usdma_stream_destroy(s) ?: usdma_device_free(m);
}

int stream_gated()
{
	usdma_stream *s;
	auto *word = static_cast<uint64_t *>(host);

	return usdma_stream_create(dev, nullptr, &s) ?: usdma_wait_value(s, word + 8, USDMA_EQ, 1) ?:
	       usdma_fill(s, word, 0, 8, 8) ?: usdma_stream_abort(s) ?:
	       usdma_stream_destroy(s);
}

int event_round()
{
	usdma_event *e;

	return usdma_event_create(dev, 0, &e) ?: usdma_event_record(e, idle) ?: usdma_event_sync(e, wait_ms) ?:
	       usdma_event_destroy(e);
}

int host_round()
{
	void *p;

	return usdma_host_alloc(dev, MiB, &p) ?: usdma_host_free(p);
}

int register_round()
{
	void *p = mmap(nullptr, MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const int err = usdma_host_register(p, MiB, 0) ?: usdma_host_unregister(p);

	munmap(p, MiB);
	return err;
}

int file_round()
{
	const int fd = memfd_create("rounds", 0);
	usdma_file *f;
	size_t moved;
	int err = ftruncate(fd, page) ?: usdma_file_import(dev, fd, 0, &f);

	close(fd);
	return err ?: usdma_file_read_sync(host, f, 0, page, &moved, wait_ms) ?: usdma_file_close(f);
}

int completion_round()
{
	io_uring ring;
	io_uring_cqe *cqe;
	usdma_completion *c;
	int err = io_uring_queue_init(4, &ring, 0) ?: usdma_completion_create(&c);

	if (err)
		return err;
	err = usdma_prep_completion(c, idle, io_uring_get_sqe(&ring), 1);
	if (!err)
		err = io_uring_submit_and_wait(&ring, 1) < 0 || io_uring_peek_cqe(&ring, &cqe);
	err = err ?: usdma_completion_finish(c) ?: usdma_completion_destroy(c);
	io_uring_queue_exit(&ring);
	return err;
}

int signal_round()
{
	const int fd = eventfd(0, 0);
	uint64_t value;
	const int err = usdma_stream_signal_fd(idle, fd);
	const bool signalled = !err && read(fd, &value, sizeof(value)) == sizeof(value);

	close(fd);
	return signalled ? 0 : err ?: -1;
}

/* ---- ACL --------------------------------------------------------------------------------------------- */

int acl_context()
{
	aclrtContext c, was;
	aclrtStream s;

	return aclrtGetCurrentContext(&was) ?: aclrtCreateContext(&c, 0) ?: aclrtCreateStream(&s) ?:
	       aclrtDestroyStreamForce(s) ?: aclrtDestroyContext(c) ?: aclrtSetCurrentContext(was);
}

int acl_device()
{
	return aclrtSetDevice(1) ?: aclrtResetDevice(1) ?: aclrtSetDevice(0) ?: aclrtResetDevice(0);
}

int acl_stream()
{
	aclrtStream s;
	aclrtEvent e;

	return aclrtCreateStream(&s) ?: aclrtCreateEvent(&e) ?: aclrtRecordEvent(e, s) ?:
	       aclrtSynchronizeEvent(e) ?: aclrtDestroyEvent(e) ?: aclrtDestroyStream(s);
}

int acl_event_ipc()
{
	aclrtEvent e, again;
	aclrtIpcEventHandle h;

	return aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC) ?: aclrtIpcGetEventHandle(e, &h) ?:
	       aclrtIpcOpenEventHandle(h, &again) ?: aclrtRecordEvent(again, stream) ?:
	       aclrtStreamWaitEvent(stream, e) ?: aclrtSynchronizeStream(stream) ?: aclrtSynchronizeEvent(e) ?:
	       aclrtDestroyEvent(again) ?: aclrtDestroyEvent(e);
}

int acl_notify()
{
	aclrtNotify n, again;
	char key[65];

	return aclrtCreateNotify(&n, 0) ?: aclrtRecordNotify(n, stream) ?: aclrtWaitAndResetNotify(n, stream, 0) ?:
	       aclrtNotifyGetExportKey(n, key, sizeof(key), ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION) ?:
	       aclrtNotifyImportByKey(&again, key, 0) ?: aclrtRecordNotify(again, stream) ?:
	       aclrtWaitAndResetNotify(n, stream, 0) ?: aclrtSynchronizeStream(stream) ?:
	       aclrtDestroyNotify(again) ?: aclrtDestroyNotify(n);
}

int acl_memory()
{
	void *m, *h;

	return aclrtMalloc(&m, MiB, ACL_MEM_MALLOC_HUGE_FIRST) ?: aclrtMallocHost(&h, MiB) ?: aclrtFree(m) ?:
	       aclrtFreeHost(h);
}

/* Exported in four parts, and freed. */
int acl_key_freed()
{
	char key[65], *m;
	int err = aclrtMalloc(reinterpret_cast<void **>(&m), MiB, ACL_MEM_MALLOC_HUGE_FIRST);

	for (int i = 0; i < 4 && !err; i++)
		err = aclrtIpcMemGetExportKey(m + i * page, page, key, sizeof(key), 1);
	return err ?: aclrtFree(m) ?: aclrtIpcMemClose(key) ?: aclrtIpcMemClose(key) == 107000 ? 0 : -1;
}

/* Exported, and its device reset. */
int acl_key_reset()
{
	char key[65];
	void *m;

	return aclrtSetDevice(1) ?: aclrtMalloc(&m, MiB, ACL_MEM_MALLOC_HUGE_FIRST) ?:
	       aclrtIpcMemGetExportKey(m, MiB, key, sizeof(key), 1) ?: aclrtResetDevice(1) ?: aclrtSetDevice(0) ?:
	       aclrtResetDevice(0);
}

/* An import is the last user of a device that exports memory. */
int acl_key_last()
{
	char key[65], other[65];
	void *m, *again;

	/* The key's export is closed first, then its import. */
	return aclrtSetDevice(1) ?: aclrtMalloc(&m, MiB, ACL_MEM_MALLOC_HUGE_FIRST) ?:
	       aclrtIpcMemGetExportKey(m, MiB, key, sizeof(key), 1) ?:
	       aclrtIpcMemGetExportKey(m, page, other, sizeof(other), 1) ?: aclrtIpcMemImportByKey(&again, key, 0) ?:
	       aclrtResetDevice(1) ?: aclrtSetDevice(0) ?: aclrtIpcMemClose(key) ?: aclrtIpcMemClose(key) ?:
	       aclrtResetDevice(0);
}

int acl_key_imported()
{
	char key[65];
	void *m, *again;

	return aclrtMalloc(&m, MiB, ACL_MEM_MALLOC_HUGE_FIRST) ?:
	       aclrtIpcMemGetExportKey(m, MiB, key, sizeof(key), 1) ?: aclrtIpcMemImportByKey(&again, key, 0) ?:
	       aclrtIpcMemClose(key) ?: aclrtIpcMemClose(key) ?: aclrtFree(m);
}

int acl_register()
{
	void *p = mmap(nullptr, MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at;
	const int err = aclrtHostRegister(p, MiB, ACL_HOST_REGISTER_MAPPED, &at) ?: aclrtHostUnregister(p);

	munmap(p, MiB);
	return err;
}

int acl_physical(int (*share)(aclrtDrvMemHandle h))
{
	aclrtPhysicalMemProp prop = {};
	aclrtDrvMemHandle h;
	void *at;

	prop.memAttr = ACL_HBM_MEM_HUGE;
	prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
	return aclrtMallocPhysical(&h, 2 * MiB, &prop, 0) ?: aclrtReserveMemAddress(&at, 2 * MiB, 0, nullptr, 1) ?:
	       aclrtMapMem(at, 2 * MiB, 0, h, 0) ?: share(h) ?: aclrtUnmapMem(at) ?: aclrtReleaseMemAddress(at) ?:
	       aclrtFreePhysical(h);
}

int acl_physical_number()
{
	return acl_physical([](aclrtDrvMemHandle h) {
		uint64_t number;

		return int(aclrtMemExportToShareableHandle(h, ACL_MEM_HANDLE_TYPE_NONE, 1, &number));
	});
}

int share_fabric(aclrtDrvMemHandle h)
{
	static constexpr auto kind = ACL_MEM_SHARE_HANDLE_TYPE_FABRIC;
	aclrtMemFabricHandle fabric;
	aclrtDrvMemHandle again;

	return aclrtMemExportToShareableHandleV2(h, 1, kind, &fabric) ?:
	       aclrtMemImportFromShareableHandleV2(&fabric, kind, 0, &again) ?: aclrtFreePhysical(again);
}

int acl_physical_fabric()
{
	return acl_physical(share_fabric);
}

int acl_capture()
{
	aclmdlRI made;
	void *m;

	return aclrtMalloc(&m, page, ACL_MEM_MALLOC_HUGE_FIRST) ?:
	       aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL) ?:
	       aclrtMemcpyAsync(m, page, host, page, ACL_MEMCPY_HOST_TO_DEVICE, stream) ?:
	       aclmdlRICaptureEnd(stream, &made) ?: aclmdlRIExecuteAsync(made, stream) ?:
	       aclrtSynchronizeStream(stream) ?: aclmdlRIDestroy(made) ?: aclrtFree(m);
}

/* ---- HCCL -------------------------------------------------------------------------------------------- */

int hccl_group()
{
	int32_t devices[] = {0, 1};
	HcclComm c[2];

	return HcclCommInitAll(2, devices, c) ?: HcclCommDestroy(c[0]) ?: HcclCommDestroy(c[1]);
}

constexpr pair native_pairs[] = {{"usdma_open, usdma_close", open_close},
				 {"usdma_open that fails", open_nothing},
				 {"usdma_stream_create, destroy", stream_round},
				 {"usdma_stream_abort", stream_gated},
				 {"usdma_event_create, destroy", event_round},
				 {"usdma_host_alloc, free", host_round},
				 {"usdma_host_register, unregister", register_round},
				 {"usdma_file_import, close", file_round},
				 {"usdma_completion_create, destroy", completion_round},
				 {"usdma_stream_signal_fd", signal_round}};

constexpr pair acl_pairs[] = {{"aclrtCreateContext, Destroy", acl_context},
			      {"aclrtSetDevice, ResetDevice", acl_device},
			      {"aclrtCreateStream, CreateEvent, Destroy", acl_stream},
			      {"aclrtIpcGetEventHandle, Open, Destroy", acl_event_ipc},
			      {"aclrtNotifyGetExportKey, Import, Destroy", acl_notify},
			      {"aclrtMalloc, MallocHost, Free", acl_memory},
			      {"aclrtIpcMemGetExportKey, Free", acl_key_freed},
			      {"aclrtIpcMemGetExportKey, ResetDevice", acl_key_reset},
			      {"aclrtIpcMemImportByKey, ResetDevice, Close", acl_key_last},
			      {"aclrtIpcMemImportByKey, Close", acl_key_imported},
			      {"aclrtHostRegister, Unregister", acl_register},
			      {"aclrtMemExportToShareableHandle, FreePhysical", acl_physical_number},
			      {"the same, FABRIC, imported", acl_physical_fabric},
			      {"aclmdlRICaptureBegin, End, Destroy", acl_capture}};

constexpr pair hccl_pairs[] = {{"HcclCommInitAll, HcclCommDestroy", hccl_group}};

/* ---- what may grow ------------------------------------------------------------------------------------ */

struct usage {
	long descriptors, mappings, threads, heap_kib, device_kib;
};

/* With a sanitizer those of files and shared memory: its allocator has others, and makes more at any time. */
long mappings_now()
{
	std::ifstream in("/proc/self/maps");
	long n = 0;

	for (std::string line; std::getline(in, line);)
		n += !usdma::test::sanitized || line.find('/') != line.npos;
	return n;
}

long threads_now()
{
	std::ifstream in("/proc/self/status");
	std::string word;
	long n = 0;

	while (in >> word && word != "Threads:")
		;
	in >> n;
	return n;
}

usage use_now()
{
	usdma_device_info info = {};
	const struct mallinfo2 heap = mallinfo2();

	info.struct_size = sizeof(info);
	usdma_device_get_info(dev, &info);
	return {fds_without_rings(), mappings_now(), threads_now(), long(heap.uordblks >> 10),
		long((info.memory_size - info.memory_free) >> 10)};
}

/* A thread exits a moment after what it served was closed; the library closes its copy of a file behind the signal. */
usage settled(const usage &before)
{
	usage u = use_now();

	for (unsigned i = 0; i < 20000 && (u.threads > before.threads || u.device_kib > before.device_kib ||
					   u.descriptors > before.descriptors);
	     i++) {
		usdma::test::poll_pause(i);
		u = use_now();
	}
	return u;
}

void run(const pair &p, unsigned rounds)
{
	static constexpr unsigned warm_up = 10;
	static constexpr long few_mappings = 4, heap_kib = 64;
	usage before{};

	for (unsigned i = 0; i < warm_up + rounds; i++) {
		if (const int err = p.round()) {
			print_error("%s: round %u: %d %s, %s\n", p.name, i, err, usdma_error_text(),
				    aclGetRecentErrMsg());
			assert_int_equal(err, 0);
		}
		if (i == warm_up - 1)
			before = use_now();
	}
	const usage after = settled(before);
	print_message("%s, %u rounds: descriptors %+ld, mappings %+ld, threads %+ld, heap %+ld KiB, device %+ld KiB\n",
		      p.name, rounds, after.descriptors - before.descriptors, after.mappings - before.mappings,
		      after.threads - before.threads, after.heap_kib - before.heap_kib,
		      after.device_kib - before.device_kib);
	assert_true(after.descriptors <= before.descriptors && after.threads <= before.threads);
	assert_true(after.device_kib <= before.device_kib && after.mappings <= before.mappings + few_mappings);
	assert_true(after.heap_kib <= before.heap_kib + heap_kib);
}

template <size_t n> void run_all(const pair (&pairs)[n])
{
	for (const pair &p : pairs)
		run(p, 20 * usdma::test::scale());
}

void native(void **)
{
	run_all(native_pairs);
}

void acl(void **)
{
	run_all(acl_pairs);
}

void hccl(void **)
{
	run_all(hccl_pairs);
}

int set_up(void **)
{
	return usdma_open_index(0, &dev) ?: usdma_stream_create(dev, nullptr, &idle) ?:
	       usdma_host_alloc(dev, MiB, &host) ?: aclInit(nullptr) ?: aclrtSetDevice(0) ?:
	       aclrtCreateStream(&stream);
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {cmocka_unit_test(native), cmocka_unit_test(acl), cmocka_unit_test(hccl)};

	return cmocka_run_group_tests(tests, set_up, nullptr);
}
