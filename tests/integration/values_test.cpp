/* SPDX-License-Identifier: BSD-3-Clause */
/* Each enumerator, flag and number of the native interface at its limits (tests/support/sweep.h). */
#include "tests/integration/native.h"
#include "tests/support/sweep.h"
#include "usdma/file.h"

#include <cerrno>
#include <sys/mman.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wpedantic" /* a ?: b is: b where a gave 0 */

using namespace usdma::test;

namespace {

constexpr size_t size = 64 << 10;
constexpr int page = 4096;

struct world {
	device dev;
	stream s{dev};
	block mem{dev, kind::device, size}, other{dev, kind::device, size}, pin{dev, kind::pinned, size};
	unsigned char *heap = static_cast<unsigned char *>(aligned_alloc(page, size));
	int fd = memfd_create("values", 0);
	usdma_event *event = nullptr;

	world()
	{
		assert_int_equal(ftruncate(fd, page), 0);
		memset(heap, 0, size);
		WORKS(usdma_event_create(dev, 0, &event));
		WORKS(usdma_fill_sync(dev, mem.data(), 0, 8, size, -1));
		WORKS(usdma_fill_sync(dev, other.data(), 0, 8, size, -1));
	}
	~world()
	{
		usdma_event_destroy(event);
		close(fd);
		free(heap);
	}
	int ended(int err) { return err ?: usdma_stream_sync(s, -1); }
};

#define SWEEP(first, last, want, ...) SWEEP_OF(world, first, last, want, __VA_ARGS__)

void *p;

int with_event(world &w, unsigned flags)
{
	usdma_event *e = nullptr;
	const int err = usdma_event_create(w.dev, flags, &e);

	return err ?: usdma_event_destroy(e);
}

int with_stream(world &w, usdma_stream_options options)
{
	/* Zeros behind it, for sizes of a later version. */
	struct {
		usdma_stream_options options;
		char later[64];
	} given = {options, {}};
	usdma_stream *s = nullptr;
	const int err = usdma_stream_create(w.dev, &given.options, &s);

	return err ?: usdma_stream_destroy(s);
}

int with_file(world &w, unsigned flags)
{
	usdma_file *f = nullptr;
	const int err = usdma_file_import(w.dev, w.fd, flags, &f);

	return err ?: usdma_file_close(f);
}

/* The bytes that were moved. */
long read_at(world &w, uint64_t offset, size_t len)
{
	usdma_file *f = nullptr;
	size_t moved = 0;
	const int err = usdma_file_import(w.dev, w.fd, USDMA_FILE_BUFFERED, &f) ?:
				usdma_file_read_sync(w.mem.data(), f, offset, len, &moved, -1);
	const int end = usdma_file_close(f);

	return err ? err : end ? end : long(moved);
}

int rows(world &w, uint64_t width, uint64_t height, uint64_t to, uint64_t from)
{
	const usdma_copy_rect r = {w.mem.data(), to, w.pin.data(), from, width, height};

	return w.ended(usdma_copy_2d(w.s, &r));
}

const usdma_stream_options usual = {sizeof(usual), 0, 0, 0};

const sweep<world> work[] = {
	SWEEP(0, 9, "-22 0 -22*2 0 -22*3 0 -22", f.ended(usdma_fill(f.s, f.mem.data(), 1, e, 64))),
	SWEEP(0, 17, "0 -22*7 0 -22*7 0 -22", f.ended(usdma_fill(f.s, f.mem.data(), 1, 8, e))),
	SWEEP(0, 9, "0*10", f.ended(usdma_fill(f.s, f.mem.data() + e.v, 1, 8, 64))),
	SWEEP(size - 1, size + 1, "0*2 -14", f.ended(usdma_fill(f.s, f.mem.data(), 1, 1, e))),
	SWEEP(-1, 13, "-22 0*12 -22*2", f.ended(usdma_reduce(f.s, f.mem.data(), f.other.data(), 64, e, USDMA_SUM))),
	SWEEP(-1, 6, "-22 0*5 -22*2", f.ended(usdma_reduce(f.s, f.mem.data(), f.other.data(), 64, USDMA_FLOAT32, e))),
	SWEEP(-1, 6, "-22 0*5 -22*2", f.ended(usdma_reduce(f.s, f.mem.data(), f.other.data(), 64, USDMA_INT64, e))),
	SWEEP(-1, 6, "-22 0*5 -22*2", f.ended(usdma_reduce(f.s, f.mem.data(), f.other.data(), 64, USDMA_BFLOAT16, e))),
	SWEEP(0, 9, "0 -22*7 0 -22",
	      f.ended(usdma_reduce(f.s, f.mem.data(), f.other.data(), e, USDMA_INT64, USDMA_SUM))),
	SWEEP(0, 8, "0 -22*7 0", f.ended(usdma_write_value(f.s, f.mem.data() + e.v, 1))),
	SWEEP(size - 8, size, "0 -14*7 0", f.ended(usdma_write_value(f.s, f.mem.data() + e.v, 1))),
	/* 1 is at least, equal to, has a bit of, and leaves bits beside 1. */
	SWEEP(-1, 4, "-22 0*4 -22",
	      f.ended(usdma_fill(f.s, f.mem.data(), 1, 8, 8) ?: usdma_wait_value(f.s, f.mem.data(), e, 1))),
	SWEEP(0, 1, "0*2", f.ended(usdma_copy(f.s, f.mem.data(), f.pin.data(), e))),
	SWEEP(size - 1, size + 1, "0*2 -14", f.ended(usdma_copy(f.s, f.mem.data(), f.heap, e))),
	SWEEP(size - 1, size + 1, "0*2 -14", f.ended(usdma_copy(f.s, f.mem.data(), f.other.data(), e))),
	SWEEP(size - 1, size + 1, "0*2 -14", usdma_copy_sync(f.dev, f.mem.data(), f.pin.data(), e, -1)),
	SWEEP(-2, 1, "0*4", usdma_copy_sync(f.dev, f.mem.data(), f.pin.data(), 0, e)),
	SWEEP(0, 4, "0*2 -22*3", f.ended(usdma_submit_copy(f.s, f.mem.data(), f.pin.data(), 64, e, nullptr))),
	SWEEP(63, 65, "0*2 -22", rows(f, e, 2, 64, 64)),
	SWEEP(63, 65, "-22 0*2", rows(f, 64, 2, e, 64)),
	SWEEP(63, 65, "-22 0*2", rows(f, 64, 2, 64, e)),
	SWEEP(0, 2, "0*3", rows(f, 64, e, 64, 64)),
	SWEEP(0, 1, "0*2", rows(f, e, 2, 64, 64)),
	SWEEP(1023, 1025, "0*2 -14", rows(f, 64, e, 64, 64)),
	SWEEP(0, 1, "0*2", with_file(f, e)),
	SWEEP(3, 4, "-22*2", with_file(f, e)),
	SWEEP(page - 1, page + 1, "1 0*2", int(read_at(f, e, 8))),
	SWEEP(page - 1, page + 1, "4095 4096*2", int(read_at(f, 0, e))),
	SWEEP(0, 1, "0 1", int(read_at(f, 0, e))),
	SWEEP(size - 1, size + 1, "4096*2 -14", int(read_at(f, 0, e))),
};

const sweep<world> objects[] = {
	SWEEP(0, 4, "0*2 -22*3", with_event(f, e)),
	SWEEP(0, 5, "0*4 -22*2", with_stream(f, {sizeof(usual), e, 0, 0})),
	SWEEP(0, 9, "0 -22*9", with_stream(f, {sizeof(usual), 0, e, 0})),
	SWEEP(0, 1, "0 -22", with_stream(f, {sizeof(usual), 0, 0, e})),
	SWEEP(0, 20, "-22*8 0*13", with_stream(f, {e, 0, 0, 0})),
	SWEEP(-1, 3, "-22 0*2 -22*2", usdma_stream_set_fail_mode(f.s, e)),
	SWEEP(-2, 1, "0*4", usdma_stream_sync(f.s, e)),
	SWEEP(-2, 1, "0*4", usdma_event_sync(f.event, e)),
	SWEEP(-2, 1, "0*4", usdma_device_sync(f.dev, e)),
	SWEEP(0, 3, "0*2 -22*2", usdma_host_register(f.heap, page, e) ?: usdma_host_unregister(f.heap)),
	SWEEP(0, 1, "-22 0", usdma_host_register(f.heap, e, 0) ?: usdma_host_unregister(f.heap)),
	SWEEP(0, 1, "-22 0", usdma_host_alloc(f.dev, e, &p) ?: usdma_host_free(p)),
	SWEEP(0, 1, "-22 0", usdma_device_alloc(f.dev, e, &p) ?: usdma_device_free(p)),
	SWEEP((64 << 20) - 1, (64 << 20) + 1, "-12*3", usdma_device_alloc(f.dev, e, &p) ?: usdma_device_free(p)),
	SWEEP(-1, 6, "-22 0*5 -22*2", usdma_log_set_level(e)),
	SWEEP(0, 6, "-28*7",
	      [](size_t n) {
		      char text[16];
		      return usdma_setting_get("wait", text, n);
	      }(e)),
};

void work_at_its_limits(void **)
{
	world w;

	run_sweeps(w, work);
}

void objects_at_their_limits(void **)
{
	world w;

	run_sweeps(w, objects);
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {cmocka_unit_test(work_at_its_limits), cmocka_unit_test(objects_at_their_limits)};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
