/* SPDX-License-Identifier: BSD-3-Clause */
/* <usdma/file.h>: operations that are aborted, lose their device or their memory, or fail, and the data after it. */
#include "tests/integration/faults.h"
#include "tests/integration/files.h"
#include "tests/support/held_memory.h"
#include "tests/support/silent_file.h"
#include "tests/support/until.h"
#include "usdma/uring.h"

#include <algorithm>
#include <memory>
#include <thread>

using namespace usdma::test;

/* ---- operations that stop early ---------------------------------------------------------------------------- */

static void aborted(void **)
{
	auto gen = rng(9);
	device dev;

	for (const kind k : all_kinds) {
		stream s(dev);
		gate g(dev);
		const temporary t;
		const bytes want = fill_file(t, 2 * MiB, gen);
		const file f(dev, t.fd());
		const block dst(dev, k, want.size());
		size_t moved = 77;

		wipe(dev, dst);
		if (gen() % 2)
			g.close(s);
		WORKS(usdma_file_read(s, dst.data(), f, 0, want.size(), &moved));
		WORKS(usdma_stream_abort(s));
		const bytes at_once = get(dev, dst);
		assert_prefix(at_once, want, 0, moved);
		assert_int_equal(usdma_file_read(s, dst.data(), f, 0, want.size(), nullptr), -ECANCELED);
		assert_int_equal(usdma_file_write(s, f, 0, dst.data(), want.size(), nullptr), -ECANCELED);
		assert_int_equal(usdma_file_sync(s, f), -ECANCELED);
		g.open();
		assert_true(get(dev, dst) == at_once);
		assert_true(t.get() == want);
	}
}

static void memory_is_freed_before(void **)
{
	device dev;
	stream s(dev);
	gate g(dev);
	const temporary t;
	const file f(dev, t.fd());
	size_t moved = 77;

	t.put(bytes(MiB, 1));
	g.close(s);
	{
		const block dst(dev, kind::device, MiB);

		WORKS(usdma_file_read(s, dst.data(), f, 0, MiB, &moved));
	}
	g.open();
	assert_int_equal(usdma_stream_sync(s, long_ms), -EFAULT);
	assert_int_equal(moved, 0);
}

static void the_device_is_lost(void **)
{
	auto gen = rng(10);
	const temporary t;
	const bytes want = fill_file(t, 3 * MiB, gen);

	for (const kind k : {kind::device, kind::pageable}) {
		usdma_device *dev;
		usdma_stream *s;
		usdma_file *f;
		void *mem;
		size_t moved = 77;
		bytes plain(want.size(), untouched);

		WORKS(usdma_open_index(0, &dev));
		WORKS(usdma_stream_create(dev, nullptr, &s));
		WORKS(usdma_file_import(dev, t.fd(), USDMA_FILE_AUTO, &f));
		WORKS(usdma_device_alloc(dev, want.size(), &mem));
		set_faults(dev, 0, "vanish@2");
		for (unsigned i = 0; i < 3; i++) {
			usdma_file_read(s, mem, f, 0, want.size(), &moved);
			usdma_fill(s, mem, 0, 8, 4096); /* requests that count for vanish@2 */
		}
		if (k == kind::pageable)
			usdma_file_read(s, plain.data(), f, 0, want.size(), &moved);
		assert_stays_lost(s);
		assert_true(moved <= want.size());
		const bytes left = plain;
		assert_int_equal(usdma_file_read(s, mem, f, 0, 1, nullptr), -ENODEV);
		assert_int_equal(usdma_file_read_sync(mem, f, 0, 1, nullptr, long_ms), -ENODEV);
		usdma_stream_destroy(s); /* -ENODEV, unless the wait has reported it */
		assert_true(plain == left);
		WORKS(usdma_close(dev));
		/* The file handle stays valid, and works again when its device is back. */
		until("the device is back", [&] { return usdma_open_index(0, &dev) == 0; });
		set_faults(dev, 0, "");
		WORKS(usdma_file_read_sync(plain.data(), f, 0, plain.size(), &moved, long_ms));
		assert_true(plain == want);
		WORKS(usdma_file_close(f));
		WORKS(usdma_close(dev));
	}
}

/* Closing a device drops the waiting operations of its streams. */
static void the_device_is_closed(void **)
{
	const temporary t;
	usdma_device *dev;
	usdma_stream *s;
	usdma_file *f;
	void *word;
	bytes plain(2 * MiB, untouched);
	size_t moved = 77;

	t.put(bytes(plain.size(), 1));
	WORKS(usdma_open_index(0, &dev));
	WORKS(usdma_stream_create(dev, nullptr, &s));
	WORKS(usdma_file_import(dev, t.fd(), USDMA_FILE_AUTO, &f));
	WORKS(usdma_device_alloc(dev, 64, &word));
	WORKS(usdma_fill_sync(dev, word, 0, 8, 64, long_ms));
	WORKS(usdma_wait_value(s, word, USDMA_EQ, 1));
	WORKS(usdma_file_read(s, plain.data(), f, 0, plain.size(), &moved));
	WORKS(usdma_close(dev));
	assert_true(moved == 0 && all_are(plain.data(), plain.size(), untouched));
	assert_int_equal(usdma_file_read_sync(plain.data(), f, 0, plain.size(), &moved, long_ms), -EBADF);
	assert_int_equal(usdma_file_write_sync(f, 0, plain.data(), plain.size(), &moved, long_ms), -EBADF);
	assert_true(moved == 0 && all_are(plain.data(), plain.size(), untouched));
	WORKS(usdma_file_close(f));
}

/* ---- the file thread is late ---------------------------------------------------------------------------------- */

/* A file thread is blocked in memory of the program: the stream's work does not end before it is released. */
static void assert_waits(usdma_stream *s, const held_memory &mem, int err)
{
	usdma_error_info info = {};

	info.struct_size = sizeof(info);
	until("the work was dropped", [&] { return usdma_stream_take_error(s, &info) != 0 || info.error == err; });
	assert_int_equal(info.error, err);
	mem.wait_for_access();
	assert_int_equal(usdma_stream_query(s), 0);
	assert_int_equal(usdma_stream_sync(s, 50), -ETIMEDOUT);
}

static void aborted_while_it_copies(void **)
{
	const held_memory dst(2 * MiB);
	auto gen = rng(12);
	device dev;
	stream s(dev);
	const temporary t;
	const bytes want = fill_file(t, dst.size(), gen);
	const file f(dev, t.fd());
	size_t moved = 77;

	dst.hold();
	WORKS(usdma_file_read(s, dst.data(), f, 0, want.size(), &moved));
	dst.wait_for_access();
	std::thread other([&] { WORKS(usdma_stream_abort(s)); });
	assert_waits(s, dst, -ECANCELED);
	dst.release();
	assert_int_equal(usdma_stream_sync(s, long_ms), -ECANCELED);
	assert_true(moved <= want.size() && memcmp(dst.data(), want.data(), moved) == 0);
	other.join();
}

/* A closed device is no lost one. */
static void closed_while_it_copies(void **)
{
	const held_memory dst(8 * MiB);
	auto gen = rng(16);
	const temporary t;
	const bytes want = fill_file(t, dst.size(), gen);
	usdma_device *dev;
	usdma_stream *s;
	usdma_file *f;
	size_t moved = 77;
	int error = 1;

	WORKS(usdma_open_index(0, &dev));
	WORKS(usdma_stream_create(dev, nullptr, &s));
	WORKS(usdma_file_import(dev, t.fd(), USDMA_FILE_AUTO, &f));
	const usdma_file_item one = {f, dst.data(), 0, want.size(), &moved, &error, USDMA_FILE_READ, 0};
	dst.hold();
	WORKS(usdma_file_batch(s, &one, 1, nullptr));
	dst.wait_for_access();
	std::thread other([&] { WORKS(usdma_close(dev)); });
	until("the device closes", [&] { return usdma_device_sync(dev, 0) == -EBADF; });
	dst.release();
	other.join();
	assert_true(error == -ECANCELED || (error == 0 && moved == want.size()));
	assert_true(moved <= want.size() && memcmp(dst.data(), want.data(), moved) == 0);
	WORKS(usdma_file_close(f));
}

/* One thread copies for all calls: a call that has not begun times out. */
static void others_time_out_while_it_copies(void **)
{
	const held_memory dst(MiB);
	auto gen = rng(15);
	device dev;
	stream s(dev);
	const temporary t;
	const bytes want = fill_file(t, dst.size(), gen);
	const file f(dev, t.fd());
	const temporary to;
	const file other(dev, to.fd());
	size_t moved = 77, landed = 77;

	dst.hold();
	WORKS(usdma_file_read(s, dst.data(), f, 0, want.size(), &moved));
	dst.wait_for_access();
	assert_int_equal(usdma_file_write_sync(other, 0, want.data(), want.size(), &landed, 50), -ETIMEDOUT);
	dst.release();
	WORKS(usdma_stream_sync(s, long_ms));
	assert_true(moved == want.size() && memcmp(dst.data(), want.data(), moved) == 0);
	/* After the call that timed out. */
	WORKS(usdma_file_read(s, dst.data(), f, 0, want.size(), &moved));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(landed, 0);
	assert_int_equal(to.get().size(), 0);
}

static void the_device_is_lost_while_it_copies(void **)
{
	const held_memory dst(MiB);
	auto gen = rng(13);
	const temporary t;
	const bytes want = fill_file(t, dst.size(), gen);
	usdma_device *dev;
	usdma_stream *s, *other;
	usdma_file *f;
	void *mem;
	size_t moved = 77;

	WORKS(usdma_open_index(0, &dev));
	WORKS(usdma_stream_create(dev, nullptr, &s));
	WORKS(usdma_stream_create(dev, nullptr, &other));
	WORKS(usdma_file_import(dev, t.fd(), USDMA_FILE_AUTO, &f));
	WORKS(usdma_device_alloc(dev, 4096, &mem));
	dst.hold();
	WORKS(usdma_file_read(s, dst.data(), f, 0, want.size(), &moved));
	dst.wait_for_access();
	set_faults(dev, 0, "vanish@1");
	usdma_fill(other, mem, 0, 8, 4096);
	assert_int_equal(usdma_stream_sync(other, long_ms), -ENODEV);
	assert_waits(s, dst, -ENODEV);
	dst.release();
	assert_stays_lost(s);
	assert_true(moved <= want.size() && memcmp(dst.data(), want.data(), moved) == 0);
	usdma_stream_destroy(s);
	usdma_stream_destroy(other);
	WORKS(usdma_file_close(f));
	WORKS(usdma_close(dev));
	until("the device is back", [&] { return usdma_open_index(0, &dev) == 0; });
	set_faults(dev, 0, "");
	WORKS(usdma_close(dev));
}

/* A completion owns the failure; the stream returns the loss nevertheless. */
static void a_completion_has_the_loss(void **)
{
	const temporary t;
	usdma_completion *c;
	usdma_device *dev;
	usdma_stream *s;
	usdma_file *f;
	void *mem;
	int fd, err;

	t.put(bytes(MiB, 1));
	WORKS(usdma_completion_create(&c));
	WORKS(usdma_open_index(0, &dev));
	WORKS(usdma_stream_create(dev, nullptr, &s));
	WORKS(usdma_file_import(dev, t.fd(), USDMA_FILE_AUTO, &f));
	WORKS(usdma_device_alloc(dev, MiB, &mem));
	set_faults(dev, 0, "slow@1/100000+vanish@2");
	usdma_fill(s, mem, 0, 8, MiB);
	WORKS(usdma_file_read(s, mem, f, 0, MiB, nullptr));
	WORKS(usdma_completion_start(c, s, &fd));
	until("the completion has ended", [&] { return (err = usdma_completion_finish(c)) != -EAGAIN; });
	assert_int_equal(err, -ENODEV);
	assert_stays_lost(s);
	usdma_stream_destroy(s);
	WORKS(usdma_completion_destroy(c));
	WORKS(usdma_file_close(f));
	WORKS(usdma_close(dev));
	until("the device is back", [&] { return usdma_open_index(0, &dev) == 0; });
	set_faults(dev, 0, "");
	WORKS(usdma_close(dev));
}

static void a_stream_stops_while_moved_is_written(void **)
{
	const held_memory late(4096);
	device dev;
	usdma_stream *s;
	gate g(dev);
	const temporary t;
	const file f(dev, t.fd());
	auto *const moved = static_cast<size_t *>(late.data());
	bytes plain(MiB);

	t.put(bytes(MiB, 1));
	WORKS(usdma_stream_create(dev, nullptr, &s));
	WORKS(usdma_stream_set_fail_mode(s, USDMA_FAIL_STOP));
	g.close(s);
	{
		const block freed(dev, kind::device, MiB);

		WORKS(usdma_file_read(s, freed.data(), f, 0, MiB, nullptr));
	}
	WORKS(usdma_file_read(s, plain.data(), f, 0, MiB, moved));
	late.hold();
	g.open();
	assert_waits(s, late, -EFAULT);
	late.release();
	assert_int_equal(usdma_stream_sync(s, long_ms), -EFAULT);
	assert_int_equal(*moved, 0);
	usdma_stream_destroy(s);
}

/* ---- failures ---------------------------------------------------------------------------------------------- */

static int faulty = -1; /* created before there are threads */
static const char *why_not;

static void require_faulty_file()
{
	if (faulty < 0) {
		print_message("# %s\n", why_not);
		skip();
	}
}

static bytes faulty_bytes()
{
	bytes all(faulty_at);

	for (size_t i = 0; i < all.size(); i++)
		all[i] = faulty_byte(i);
	return all;
}

static void a_read_fails(void **)
{
	require_faulty_file();
	device dev;
	const file f(dev, faulty);

	for (const kind k : all_kinds) {
		stream s(dev);
		const block dst(dev, k, MiB + 4096);
		usdma_error_info info = {};
		size_t moved = 77;

		wipe(dev, dst);
		WORKS(usdma_file_read(s, dst.data(), f, 100000, dst.size(), &moved));
		assert_int_equal(usdma_stream_sync(s, long_ms), -EIO);
		assert_non_null(strstr(usdma_error_text(),
				       ("reading a file failed at offset " + std::to_string(100000 + moved)).c_str()));
		assert_true(moved > 0 && moved <= faulty_at - 100000);
		assert_prefix(get(dev, dst), faulty_bytes(), 100000, moved);
		/* The stream still works. */
		WORKS(usdma_file_read(s, dst.data(), f, 0, 4096, &moved));
		WORKS(usdma_stream_sync(s, long_ms));
		assert_int_equal(usdma_file_read_sync(dst.data(), f, faulty_at, 4096, &moved, long_ms), -EIO);
		assert_int_equal(moved, 0);
		info.struct_size = sizeof(info);
		WORKS(usdma_file_read(s, dst.data(), f, faulty_at + 5, 1, &moved));
		while (WORKS(usdma_stream_query(s)) == 0)
			std::this_thread::yield();
		WORKS(usdma_stream_take_error(s, &info));
		assert_true(info.error == -EIO && info.address == faulty_at + 5);
	}
}

static void a_write_fails(void **)
{
	require_faulty_file();
	device dev;
	stream s(dev);
	const file f(dev, faulty);
	const block src(dev, kind::device, MiB);
	size_t moved = 77;

	WORKS(usdma_file_write(s, f, 100000, src.data(), src.size(), &moved));
	assert_int_equal(usdma_stream_sync(s, long_ms), -ENOSPC);
	assert_non_null(strstr(usdma_error_text(), "writing a file failed at offset"));
	assert_true(moved > 0 && moved <= faulty_at - 100000);
	/* Takes longer than USDMA_HANG_MS. */
	WORKS(usdma_file_sync(s, f));
	assert_int_equal(usdma_stream_sync(s, long_ms), -EIO);
	assert_non_null(strstr(usdma_error_text(), "syncing a file failed"));
	/* As when a disk fills up: a copy that fails stops after the written prefix. */
	WORKS(usdma_file_write(s, f, 0, src.data(), 4096, &moved));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(moved, 4096);
}

/* A disk that does not answer: each wait returns, and other files still work. */
static void a_disk_is_silent(void **)
{
	require_faulty_file();
	auto gen = rng(11);
	device dev;
	stream aborted(dev), hangs(dev), goes(dev);
	const file f(dev, faulty);
	const temporary t;
	const bytes want = fill_file(t, MiB, gen);
	const file well(dev, t.fd());
	const block dst(dev, kind::device, MiB), other(dev, kind::device, MiB);
	size_t moved = 77;
	int err;

	wipe(dev, dst);
	assert_int_equal(usdma_file_read_sync(dst.data(), f, silent_at, 4096, &moved, 50), -ETIMEDOUT);
	WORKS(usdma_file_read(aborted, dst.data(), f, silent_at, dst.size(), &moved));
	WORKS(usdma_stream_abort(aborted));
	WORKS(usdma_file_read(hangs, dst.data(), f, silent_at, dst.size(), &moved));
	WORKS(usdma_file_read(goes, other.data(), well, 0, want.size(), &moved));
	WORKS(usdma_stream_sync(goes, long_ms));
	assert_true(get(dev, other) == want);
	/* "Not yet" has an errno of its own: a program that polls does not take the failure for it. */
	do
		err = usdma_stream_sync(hangs, 1);
	while (err == -ETIMEDOUT);
	assert_int_equal(err, -ETIME);
	assert_non_null(strstr(usdma_error_text(), "reading a file failed at offset"));
	assert_non_null(strstr(usdma_error_text(), "USDMA_HANG_MS"));
	assert_int_equal(usdma_file_read_sync(dst.data(), f, silent_at, 4096, &moved, -1), -ETIME);
	assert_prefix(get(dev, dst), want, 0, 0);
}

/* ---- batches ------------------------------------------------------------------------------------------------- */

/* Reads (or writes) of len bytes each, adjacent in memory and file. */
struct batch {
	std::vector<usdma_file_item> items;
	std::vector<size_t> moved;
	std::vector<int> error;
	size_t len, done = 77;

	batch(usdma_file *f, unsigned char *mem, size_t n, size_t each)
		: items(n), moved(n, 77), error(n, 77), len(each)
	{
		for (size_t i = 0; i < n; i++)
			items[i] = {f, mem + i * each, i * each, each, &moved[i], &error[i], USDMA_FILE_READ, 0};
	}
	/* Each item has succeeded, or has this error and moved the reported prefix. */
	void assert_ended(const bytes &got, const bytes &want, int err) const
	{
		size_t n = 0;

		for (size_t i = 0; i < items.size(); i++) {
			const auto at = got.begin() + long(i * len);

			n += error[i] == 0;
			assert_true(error[i] == err || (error[i] == 0 && moved[i] == len));
			assert_prefix(bytes(at, at + long(len)), want, i * len, moved[i]);
		}
		assert_int_equal(done, n);
	}
};

static void a_batch_is_aborted(void **)
{
	auto gen = rng(18);
	device dev;

	for (const kind k : all_kinds) {
		stream s(dev);
		gate g(dev);
		const temporary t;
		const bytes want = fill_file(t, 6 * MiB, gen);
		const file f(dev, t.fd(), gen() % 2 ? USDMA_FILE_BUFFERED : USDMA_FILE_AUTO);
		const block dst(dev, k, want.size());
		batch b(f, dst.data(), 48, 128 * KiB);

		wipe(dev, dst);
		if (gen() % 2)
			g.close(s);
		WORKS(usdma_file_batch(s, b.items.data(), b.items.size(), &b.done));
		WORKS(usdma_stream_abort(s));
		const bytes at_once = get(dev, dst);
		b.assert_ended(at_once, want, -ECANCELED);
		g.open();
		assert_true(get(dev, dst) == at_once);
	}
}

static void a_batch_loses_its_device(void **)
{
	auto gen = rng(19);
	const temporary t;
	const bytes want = fill_file(t, 4 * MiB, gen);
	usdma_device *dev;
	usdma_stream *s;
	usdma_file *f;
	void *mem;
	bytes plain(want.size(), untouched);

	WORKS(usdma_open_index(0, &dev));
	WORKS(usdma_stream_create(dev, nullptr, &s));
	WORKS(usdma_file_import(dev, t.fd(), USDMA_FILE_AUTO, &f));
	WORKS(usdma_device_alloc(dev, 4096, &mem));
	batch b(f, plain.data(), 64, 64 * KiB);
	set_faults(dev, 0, "vanish@1");
	usdma_fill(s, mem, 0, 8, 4096);
	const int err = usdma_file_batch(s, b.items.data(), b.items.size(), &b.done);
	assert_stays_lost(s);
	const bytes left = plain;
	if (err == 0)
		b.assert_ended(left, want, -ENODEV);
	else
		assert_int_equal(err, -ENODEV);
	usdma_stream_destroy(s); /* -ENODEV, unless the wait has reported it */
	assert_true(plain == left);
	WORKS(usdma_file_close(f));
	WORKS(usdma_close(dev));
	until("the device is back", [&] { return usdma_open_index(0, &dev) == 0; });
	set_faults(dev, 0, "");
	WORKS(usdma_close(dev));
}

/* A batch that reads a file into device memory; one file fails. */
struct faulty_batch {
	std::mt19937_64 gen;
	const device dev;
	const stream s{dev};
	const temporary t;
	const bytes want = fill_file(t, 2 * MiB, gen);
	const file f{dev, t.fd()}, bad{dev, faulty};
	const block dst{dev, kind::device, want.size()};
	batch b{f, dst.data(), 32, 64 * KiB};

	explicit faulty_batch(std::uint64_t stream_of_numbers) : gen(rng(stream_of_numbers)) { wipe(dev, dst); }
	int run()
	{
		WORKS(usdma_file_batch(s, b.items.data(), b.items.size(), &b.done));
		return usdma_stream_sync(s, long_ms);
	}
};

static void a_batch_fails_in_part(void **)
{
	require_faulty_file();
	faulty_batch w(20);
	batch &b = w.b;

	for (const size_t i : {9u, 5u, 20u}) {
		b.items[i].file = w.bad;
		b.items[i].offset = faulty_at + i;
	}
	b.items[20].kind = USDMA_FILE_WRITE;
	assert_int_equal(w.run(), -EIO);
	assert_non_null(strstr(usdma_error_text(),
			       ("reading a file failed at offset " + std::to_string(faulty_at + 5)).c_str()));
	assert_true(b.error[5] == -EIO && b.error[9] == -EIO && b.error[20] == -ENOSPC);
	assert_true(b.moved[5] == 0 && b.moved[9] == 0 && b.moved[20] == 0);
	assert_int_equal(std::count(b.error.begin(), b.error.end(), 0), 29);
	b.error[9] = b.error[5] = b.error[20] = -EIO;
	b.assert_ended(get(w.dev, w.dst), w.want, -EIO);
	/* The stream still works. */
	WORKS(usdma_file_read(w.s, w.dst.data(), w.f, 0, 4096, &b.done));
	WORKS(usdma_stream_sync(w.s, long_ms));
}

static void require_direct()
{
	bool has;
	{
		const device dev;
		const temporary t;

		has = has_direct(dev, t.fd());
	}
	if (!has) {
		print_message("# no O_DIRECT in /tmp\n");
		skip();
	}
}

/* The read uses all staging memory of the batch; the write before it must still get some. */
static void a_batch_does_not_starve_itself(void **)
{
	require_direct();
	auto gen = rng(22);
	device dev;
	stream s(dev);
	gate g(dev);
	const temporary from, to, other;
	const bytes want = fill_file(from, 8 * MiB, gen), data = random_bytes(4096, gen);
	const file reads(dev, from.fd(), USDMA_FILE_DIRECT), writes(dev, to.fd()), behind(dev, other.fd());
	const block dst(dev, kind::device, want.size()), src(dev, kind::pinned, data.size());
	batch b(reads, dst.data(), 2, want.size());

	put(dev, src, data);
	b.items[1] = b.items[0];
	b.items[0] = {writes, src.data(), 0, data.size(), nullptr, nullptr, USDMA_FILE_WRITE, 0};
	g.close(s);
	WORKS(usdma_file_batch(s, b.items.data(), b.items.size(), &b.done));
	/* The thread takes items in order, and has begun to read ahead. */
	WORKS(usdma_file_write_sync(behind, 0, data.data(), data.size(), nullptr, long_ms));
	g.open();
	WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(b.done, 2);
	assert_true(get(dev, dst) == want && to.get() == data);
}

/* An item without an answer fails; the other items complete. */
static void a_batch_waits_for_a_silent_disk(void **)
{
	require_faulty_file();
	faulty_batch w(21);
	batch &b = w.b;

	b.items[3].file = w.bad;
	b.items[3].offset = silent_at;
	assert_int_equal(w.run(), -ETIME);
	assert_int_equal(b.error[3], -ETIME);
	assert_int_equal(b.done, 31);
	b.assert_ended(get(w.dev, w.dst), w.want, -ETIME);
}

/* Adjacent short writes, which share a request to the disk. */
static batch short_writes(usdma_file *f, unsigned char *mem, size_t offset)
{
	batch b(f, mem, 40, 16 * KiB);

	for (usdma_file_item &i : b.items) {
		i.kind = USDMA_FILE_WRITE;
		i.offset += offset;
	}
	return b;
}

static void each_short_write_has_its_result(void **)
{
	require_faulty_file();
	device dev;
	stream s(dev);
	const file f(dev, faulty);
	const block src(dev, kind::device, MiB);
	batch full = short_writes(f, src.data(), faulty_at - 20 * 16 * KiB - 5),
	      silent = short_writes(f, src.data(), silent_at);

	WORKS(usdma_file_batch(s, full.items.data(), full.items.size(), &full.done));
	assert_int_equal(usdma_stream_sync(s, long_ms), -ENOSPC);
	assert_non_null(
		strstr(usdma_error_text(),
		       ("writing a file failed at offset " + std::to_string(faulty_at - 5 + full.moved[20])).c_str()));
	for (size_t i = 0; i < full.items.size(); i++) {
		assert_int_equal(full.error[i], i < 20 ? 0 : -ENOSPC);
		assert_in_range(full.moved[i], i < 20 ? full.len : 0, i < 20 ? full.len : i == 20 ? 5 : 0);
	}
	assert_int_equal(full.done, 20);
	WORKS(usdma_file_batch(s, silent.items.data(), silent.items.size(), &silent.done));
	assert_int_equal(usdma_stream_sync(s, long_ms), -ETIME);
	assert_int_equal(std::count(silent.error.begin(), silent.error.end(), -ETIME), silent.items.size());
	assert_int_equal(std::count(silent.moved.begin(), silent.moved.end(), 0), silent.items.size());
	assert_int_equal(silent.done, 0);
}

static void a_short_write_loses_its_memory(void **)
{
	auto gen = rng(28);
	device dev;

	for (unsigned round = 0; round < 4; round++) {
		stream s(dev);
		gate g(dev);
		const temporary t;
		const file f(dev, t.fd(), any_flags(dev, t.fd(), gen));
		const block src(dev, all_kinds[round], 40 * 16 * KiB);
		auto freed = std::make_unique<block>(dev, kind::device, 16 * KiB);
		batch b = short_writes(f, src.data(), 0);
		const size_t k = gen() % 39;
		bytes want = random_bytes(src.size(), gen);

		put(dev, src, want);
		b.items[k].mem = freed->data();
		g.close(s);
		WORKS(usdma_file_batch(s, b.items.data(), b.items.size(), &b.done));
		freed.reset();
		g.open();
		assert_int_equal(usdma_stream_sync(s, long_ms), -EFAULT);
		for (size_t i = 0; i < b.items.size(); i++)
			assert_true(b.error[i] == (i == k ? -EFAULT : 0) && b.moved[i] == (i == k ? 0 : b.len));
		assert_int_equal(b.done, 39);
		std::fill_n(want.begin() + long(k * b.len), b.len, 0);
		assert_true(t.get() == want);
	}
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(aborted),
		cmocka_unit_test(memory_is_freed_before),
		cmocka_unit_test(the_device_is_lost),
		cmocka_unit_test(the_device_is_closed),
		cmocka_unit_test(aborted_while_it_copies),
		cmocka_unit_test(closed_while_it_copies),
		cmocka_unit_test(others_time_out_while_it_copies),
		cmocka_unit_test(the_device_is_lost_while_it_copies),
		cmocka_unit_test(a_completion_has_the_loss),
		cmocka_unit_test(a_stream_stops_while_moved_is_written),
		cmocka_unit_test(a_read_fails),
		cmocka_unit_test(a_write_fails),
		cmocka_unit_test(a_batch_is_aborted),
		cmocka_unit_test(a_batch_loses_its_device),
		cmocka_unit_test(a_batch_fails_in_part),
		cmocka_unit_test(a_batch_does_not_starve_itself),
		cmocka_unit_test(a_batch_waits_for_a_silent_disk),
		cmocka_unit_test(each_short_write_has_its_result),
		cmocka_unit_test(a_short_write_loses_its_memory),
		cmocka_unit_test(a_disk_is_silent),
	};

	faulty = faulty_file(&why_not);
	const int failed = cmocka_run_group_tests_name("files-faults", tests, nullptr, nullptr);
	end_silent_file();
	return failed;
}
