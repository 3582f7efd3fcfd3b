/* SPDX-License-Identifier: BSD-3-Clause */
/* <usdma/file.h>: data, order in the stream, and arguments. */
#include "tests/integration/files.h"
#include "tests/support/refuse_call.h"

#include <algorithm>
#include <fstream>
#include <memory>

using namespace usdma::test;

/* ---- every byte --------------------------------------------------------------------------------------- */

static void read_one(usdma_device *dev, usdma_stream *s, const file &f, const bytes &want, bool sync,
		     std::mt19937_64 &gen)
{
	const block dst(dev, all_kinds[gen() % 4], 3 * MiB);
	const size_t offset = any_size(want.size() + 4 * KiB, gen), at = any_size(4 * KiB, gen);
	const size_t len = any_size(dst.size() - at, gen),
		     due = offset < want.size() ? std::min(len, want.size() - offset) : 0;
	size_t moved = 77;

	wipe(dev, dst);
	if (sync)
		WORKS(usdma_file_read_sync(dst.data() + at, f, offset, len, &moved, long_ms));
	else
		WORKS(usdma_file_read(s, dst.data() + at, f, offset, len, &moved));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(moved, due);
	const bytes got = get(dev, dst);
	assert_true(all_are(got.data(), at, untouched));
	assert_prefix(bytes(got.begin() + long(at), got.end()), want, offset, due);
}

static void write_one(usdma_device *dev, usdma_stream *s, const file &f, bytes *want, bool sync, std::mt19937_64 &gen)
{
	const block src(dev, all_kinds[gen() % 4], 3 * MiB);
	const size_t offset = any_size(want->size(), gen), at = any_size(4 * KiB, gen),
		     len = any_size(src.size() - at, gen);
	const bytes data = random_bytes(src.size(), gen);
	size_t moved = 77;

	put(dev, src, data);
	if (sync)
		WORKS(usdma_file_write_sync(f, offset, src.data() + at, len, &moved, long_ms));
	else
		WORKS(usdma_file_write(s, f, offset, src.data() + at, len, &moved));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(moved, len);
	if (len && want->size() < offset + len)
		want->resize(offset + len);
	std::copy_n(data.begin() + long(at), len, want->begin() + long(offset));
}

static void any_range(const char *dir, std::mt19937_64 &gen)
{
	device dev;
	stream s(dev);
	const temporary t(dir);
	bytes want = fill_file(t, any_size(4 * MiB, gen), gen);

	for (unsigned i = 0; i < 12 * scale(); i++) {
		const file f(dev, t.fd(), any_flags(dev, t.fd(), gen));

		if (gen() % 3)
			read_one(dev, s, f, want, gen() % 2, gen);
		else
			write_one(dev, s, f, &want, gen() % 2, gen);
		if (gen() % 4 == 0) {
			WORKS(usdma_file_sync(s, f));
			WORKS(usdma_stream_sync(s, long_ms));
			/* A part of the file is on disk only. */
			posix_fadvise(t.fd(), off_t(any_size(want.size(), gen)), off_t(any_size(want.size(), gen)),
				      POSIX_FADV_DONTNEED);
		}
	}
	assert_true(t.get() == want);
}

static void every_byte(void **)
{
	auto gen = rng(1);

	for (unsigned i = 0; i < 3; i++) {
		any_range("/tmp", gen);
		any_range("/dev/shm", gen);
	}
}

/* As with the default seccomp filter of a container. */
static void io_uring_is_forbidden(void **)
{
	if (!can_refuse_calls())
		skip();
	in_a_child([] {
		auto gen = rng(2);

		if (!refuse_call(SYS_io_uring_setup, EPERM))
			return 2;
		any_range("/tmp", gen);
		return threads_named("usdma-disk") ? 0 : 3;
	});
}

/* As a program that sandboxes itself once it has opened its files; a write is in flight. */
static void io_uring_is_forbidden_later(void **)
{
	if (!can_refuse_calls())
		skip();
	in_a_child([] {
		auto gen = rng(3);
		const bytes want = random_bytes(8 * MiB, gen);
		const temporary t;
		{
			device dev;
			stream s(dev);
			const file f(dev, t.fd());
			const block src(dev, kind::pinned, want.size());

			put(dev, src, want);
			WORKS(usdma_file_write(s, f, 0, src.data(), 4096, nullptr));
			WORKS(usdma_stream_sync(s, long_ms));
			WORKS(usdma_file_write(s, f, 0, src.data(), want.size(), nullptr));
			if (!refuse_call(SYS_io_uring_enter, EPERM))
				return 2;
			WORKS(usdma_file_sync(s, f));
			WORKS(usdma_stream_sync(s, long_ms));
		}
		assert_true(t.get() == want);
		any_range("/tmp", gen);
		return threads_named("usdma-disk") ? 0 : 3;
	});
}

/* Number of write system calls of this process; 0: the kernel does not count them. */
static size_t write_calls()
{
	std::ifstream io("/proc/self/io");
	size_t n = 0;

	for (std::string line; std::getline(io, line);)
		sscanf(line.c_str(), "syscw: %zu", &n);
	return n;
}

/* Adjacent short writes are merged. Without io_uring, because only system calls are counted. */
static void short_writes_share_a_request(void **)
{
	if (!can_refuse_calls())
		skip();
	in_a_child([] {
		auto gen = rng(29);

		if (!refuse_call(SYS_io_uring_setup, EPERM))
			return 2;
		device dev;
		stream s(dev);
		const temporary t;
		const file f(dev, t.fd());
		const bytes want = random_bytes(60 * 4 * KiB, gen);
		const block src(dev, kind::pinned, want.size());
		std::vector<usdma_file_item> items;

		for (size_t at = 0; at < want.size(); at += 4 * KiB)
			items.push_back({f, src.data() + at, at, 4 * KiB, nullptr, nullptr, USDMA_FILE_WRITE, 0});
		put(dev, src, want);
		t.put(bytes(1));
		const size_t before = write_calls();
		WORKS(usdma_file_batch(s, items.data(), items.size(), nullptr));
		WORKS(usdma_stream_sync(s, long_ms));
		const size_t after = write_calls();
		assert_true(t.get() == want);
		return !before || after - before < items.size() ? 0 : 3;
	});
}

static void many_files_at_once(void **)
{
	auto gen = rng(3);
	device dev;
	std::vector<stream> streams;
	std::vector<std::unique_ptr<temporary>> files;
	std::vector<bytes> want;
	std::vector<block> dst;
	std::vector<size_t> moved(40);

	for (unsigned i = 0; i < 4; i++)
		streams.emplace_back(dev);
	for (size_t i = 0; i < moved.size(); i++) {
		files.push_back(std::make_unique<temporary>(i % 2 ? "/tmp" : "/dev/shm"));
		want.push_back(fill_file(*files.back(), 1 + any_size(MiB, gen), gen));
		dst.emplace_back(dev, all_kinds[gen() % 4], want.back().size());
	}
	for (size_t i = 0; i < moved.size(); i++) {
		const file f(dev, files[i]->fd()); /* closed while it is read */

		WORKS(usdma_file_read(streams[i % 4], dst[i].data(), f, 0, want[i].size(), &moved[i]));
	}
	for (const stream &s : streams)
		WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(threads_named("usdma-file"), 1);
	for (size_t i = 0; i < moved.size(); i++) {
		assert_int_equal(moved[i], want[i].size());
		assert_true(get(dev, dst[i]) == want[i]);
	}
}

/* ---- order -------------------------------------------------------------------------------------------- */

static void a_read_waits_for_earlier_work(void **)
{
	auto gen = rng(4);
	device dev;
	stream s(dev);
	gate g(dev);
	const temporary t;
	const bytes want = fill_file(t, 2 * MiB + 5, gen);
	const file f(dev, t.fd());
	const block dst(dev, kind::device, want.size()), old(dev, kind::pinned, want.size()),
		later(dev, kind::pinned, want.size());
	size_t moved = 77;

	wipe(dev, dst);
	wipe(dev, later);
	put(dev, old, random_bytes(old.size(), gen));
	g.close(s);
	WORKS(usdma_copy(s, dst.data(), old.data(), old.size()));
	WORKS(usdma_file_read(s, dst.data(), f, 0, want.size(), &moved));
	WORKS(usdma_copy(s, later.data(), dst.data(), later.size()));
	assert_int_equal(usdma_stream_sync(s, 20), -ETIMEDOUT);
	assert_prefix(get(dev, dst), want, 0, 0);
	assert_int_equal(moved, 0);
	g.open();
	WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(moved, want.size());
	assert_true(get(dev, later) == want);
}

static void a_write_waits_for_earlier_work(void **)
{
	auto gen = rng(5);
	device dev;
	stream s(dev);
	gate g(dev);
	const temporary t;
	const file f(dev, t.fd()), same(dev, t.fd());
	const bytes data = random_bytes(2 * MiB + 5, gen);
	const block src(dev, kind::device, data.size()), fresh(dev, kind::pinned, data.size()),
		back(dev, kind::device, data.size());
	size_t written = 77, moved = 77;

	wipe(dev, src);
	put(dev, fresh, data);
	g.close(s);
	WORKS(usdma_copy(s, src.data(), fresh.data(), data.size()));
	WORKS(usdma_file_write(s, f, 3, src.data(), data.size(), &written));
	WORKS(usdma_file_sync(s, f));
	WORKS(usdma_fill(s, src.data(), 0, 1, src.size()));
	/* By another import of the file. */
	WORKS(usdma_file_read(s, back.data(), same, 3, data.size(), &moved));
	assert_int_equal(usdma_stream_sync(s, 20), -ETIMEDOUT);
	assert_int_equal(t.get().size(), 0);
	g.open();
	WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(written, data.size());
	assert_true(moved == data.size() && get(dev, back) == data);
	assert_int_equal(t.get().size(), data.size() + 3);
}

/* More waiting reads than there is staging memory; other streams still work. */
static void others_go_on(void **)
{
	auto gen = rng(6);
	device dev;
	stream waits(dev), goes(dev);
	gate g(dev);
	const temporary t;
	const bytes want = fill_file(t, 3 * MiB, gen);
	const file f(dev, t.fd());
	std::vector<block> dst;
	std::vector<size_t> moved(12);

	g.close(waits);
	for (size_t i = 0; i < moved.size(); i++) {
		dst.emplace_back(dev, kind::device, want.size());
		WORKS(usdma_file_read(i + 1 < moved.size() ? waits : goes, dst[i].data(), f, 0, want.size(),
				      &moved[i]));
	}
	WORKS(usdma_stream_sync(goes, long_ms));
	assert_true(get(dev, dst.back()) == want);
	g.open();
	WORKS(usdma_stream_sync(waits, long_ms));
	for (const block &b : dst)
		assert_true(get(dev, b) == want);
}

/* A file of O_TMPFILE can be opened again for direct access. */
static void a_file_had_no_name(void **)
{
	const int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);

	if (fd < 0) {
		print_message("# no O_TMPFILE in /tmp: %s\n", strerror(errno));
		skip();
	}
	auto gen = rng(14);
	device dev;
	const temporary named;
	const bytes want = random_bytes(MiB, gen);
	const block mem(dev, kind::pinned, want.size());
	assert_int_equal(has_direct(dev, fd), has_direct(dev, named.fd()));
	const file f(dev, fd, has_direct(dev, fd) ? USDMA_FILE_DIRECT : USDMA_FILE_AUTO);
	put(dev, mem, want);
	WORKS(usdma_file_write_sync(f, 0, mem.data(), mem.size(), nullptr, long_ms));
	wipe(dev, mem);
	WORKS(usdma_file_read_sync(mem.data(), f, 0, mem.size(), nullptr, long_ms));
	assert_true(get(dev, mem) == want);
	close(fd);
}

/* ---- batches ------------------------------------------------------------------------------------------- */

struct results {
	std::vector<size_t> moved;
	std::vector<int> error;

	explicit results(size_t n) : moved(n, 77), error(n, 77) {}
	bool untouched() const
	{
		return std::count(moved.begin(), moved.end(), 77u) == long(moved.size()) &&
		       std::count(error.begin(), error.end(), 77) == long(error.size());
	}
};

/* Splits the range [0, size) into items of random length and order; some are empty. */
static std::vector<usdma_file_item> any_items(usdma_file *f, unsigned char *mem, size_t size, std::mt19937_64 &gen)
{
	std::vector<usdma_file_item> items;

	for (size_t at = 0, n; at < size; at += n) {
		n = std::min(size - at, any_size(700 * KiB, gen));
		items.push_back({f, mem + at, at, n, nullptr, nullptr, USDMA_FILE_READ, 0});
	}
	std::shuffle(items.begin(), items.end(), gen);
	return items;
}

static void set_results(std::vector<usdma_file_item> *items, results *r)
{
	for (size_t i = 0; i < items->size(); i++)
		(*items)[i].moved = &r->moved[i], (*items)[i].error = &r->error[i];
}

/* Memory behind the end of the file is not changed. */
static void assert_read(const std::vector<usdma_file_item> &items, const results &r, size_t size)
{
	for (size_t i = 0; i < items.size(); i++) {
		const size_t left = size - std::min<size_t>(size, items[i].offset);

		assert_int_equal(r.error[i], 0);
		assert_int_equal(r.moved[i], std::min<size_t>(left, items[i].len));
	}
}

static void batch_of_any(const char *dir, kind k, std::mt19937_64 &gen)
{
	device dev;
	stream s(dev);
	const temporary from(dir), to(dir);
	const bytes want = fill_file(from, 1 + any_size(4 * MiB, gen), gen);
	const file f(dev, from.fd(), any_flags(dev, from.fd(), gen)), t(dev, to.fd(), any_flags(dev, to.fd(), gen));
	const block mem(dev, k, want.size() + 9);
	std::vector<usdma_file_item> items = any_items(f, mem.data(), mem.size(), gen);
	results r(items.size());
	size_t done = 77;

	wipe(dev, mem);
	set_results(&items, &r);
	WORKS(usdma_file_batch(s, items.data(), items.size(), &done));
	/* The library has copied the items. */
	for (usdma_file_item &i : items)
		i = {t, i.mem, i.offset, i.len, nullptr, nullptr, USDMA_FILE_WRITE, 0};
	WORKS(usdma_file_batch(s, items.data(), items.size(), nullptr));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(done, items.size());
	assert_read(items, r, want.size());
	assert_prefix(get(dev, mem), want, 0, want.size());
	assert_true(to.get() == get(dev, mem));
}

static void batches(void **)
{
	auto gen = rng(16);

	for (unsigned i = 0; i < 2 * scale(); i++)
		for (const kind k : all_kinds)
			batch_of_any(i % 2 ? "/tmp" : "/dev/shm", k, gen);
}

/* A batch of more files than staging pieces runs between earlier and later work of the stream. */
static void a_batch_keeps_its_order(void **)
{
	auto gen = rng(17);
	device dev;
	stream s(dev);
	gate g(dev);
	const temporary one("/tmp"), two("/dev/shm");
	const bytes want = fill_file(one, 3 * MiB, gen);
	const file f(dev, one.fd()), t(dev, two.fd());
	const block mem(dev, kind::device, want.size()), later(dev, kind::pinned, want.size());
	std::vector<usdma_file_item> items = any_items(f, mem.data(), mem.size(), gen);
	results r(items.size());
	size_t done = 77;

	two.put(want);
	for (usdma_file_item &i : items)
		if (gen() % 2)
			i.file = t;
	set_results(&items, &r);
	g.close(s);
	WORKS(usdma_fill(s, mem.data(), 0, 1, mem.size()));
	WORKS(usdma_file_batch(s, items.data(), items.size(), &done));
	WORKS(usdma_copy(s, later.data(), mem.data(), later.size()));
	wipe(dev, mem);
	assert_int_equal(usdma_stream_sync(s, 20), -ETIMEDOUT);
	assert_prefix(get(dev, mem), want, 0, 0);
	assert_true(r.untouched() && done == 0);
	g.open();
	WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(done, items.size());
	assert_read(items, r, want.size());
	assert_true(get(dev, later) == want);
}

/* The last item is invalid: no other item has begun. */
static void refuse(usdma_stream *s, std::vector<usdma_file_item> items, const results &r, const usdma_file_item &wrong,
		   int err)
{
	size_t done = 77;

	items.back() = wrong;
	items.back().moved = const_cast<size_t *>(&r.moved.back());
	items.back().error = const_cast<int *>(&r.error.back());
	assert_int_equal(usdma_file_batch(s, items.data(), items.size(), &done), err);
	assert_non_null(strstr(usdma_error_text(), ("item " + std::to_string(items.size() - 1) + ":").c_str()));
	assert_int_equal(done, 0);
	WORKS(usdma_stream_sync(s, long_ms));
	assert_true(r.untouched());
}

static void a_batch_with_a_wrong_item(void **)
{
	device dev, second(1);
	stream s(dev), other(second);
	const temporary t, reads("/tmp", O_RDONLY);
	const file f(dev, t.fd()), only(dev, reads.fd()), on_other(second, t.fd());
	const block mem(dev, kind::device, 4096), written(dev, kind::device, 4096);
	const usdma_file_item good = {f, mem.data(), 0, 4096, nullptr, nullptr, USDMA_FILE_READ, 0};
	std::vector<usdma_file_item> items(5, good);
	results r(items.size());
	usdma_file_item wrong = good;
	size_t done = 77;

	t.put(bytes(4096, 1));
	wipe(dev, mem);
	put(dev, written, bytes(4096, 2));
	items[1].mem = written.data();
	items[1].kind = USDMA_FILE_WRITE;
	set_results(&items, &r);
	wrong.kind = 2, refuse(s, items, r, wrong, -EINVAL), wrong = good;
	wrong.reserved = 1, refuse(s, items, r, wrong, -EINVAL), wrong = good;
	wrong.mem = nullptr, refuse(s, items, r, wrong, -EINVAL), wrong = good;
	wrong.file = nullptr, refuse(s, items, r, wrong, -EBADF), wrong = good;
	wrong.file = on_other, refuse(s, items, r, wrong, -EXDEV), wrong = good;
	wrong.file = only, wrong.kind = USDMA_FILE_WRITE, refuse(s, items, r, wrong, -EACCES), wrong = good;
	wrong.len++, refuse(s, items, r, wrong, -EFAULT), wrong = good;
	wrong.offset = uint64_t(1) << 63, refuse(s, items, r, wrong, -EOVERFLOW);
	assert_prefix(get(dev, mem), {}, 0, 0);
	assert_true(t.get() == bytes(4096, 1));
	assert_int_equal(usdma_file_batch(s, nullptr, 1, &done), -EINVAL);
	assert_int_equal(usdma_file_batch(s, items.data(), SIZE_MAX / 2, &done), -ENOMEM);
	WORKS(usdma_file_batch(s, nullptr, 0, &done));
	assert_int_equal(done, 0);
	assert_int_equal(usdma_file_batch(nullptr, items.data(), 1, &done), -EBADF);
	/* A refused batch does not block reads of the file. */
	WORKS(usdma_file_read_sync(mem.data(), f, 0, 4096, &done, long_ms));
	assert_true(get(dev, mem) == bytes(4096, 1));
	WORKS(usdma_stream_abort(s));
	assert_int_equal(usdma_file_batch(s, items.data(), items.size(), &done), -ECANCELED);
	assert_true(r.untouched());
}

/* ---- files that change --------------------------------------------------------------------------------- */

static void the_descriptor_stays_the_callers(void **)
{
	auto gen = rng(7);
	device dev;
	std::unique_ptr<temporary> t = std::make_unique<temporary>();
	const bytes want = fill_file(*t, MiB, gen);
	const unsigned before = open_fds();
	const file f(dev, t->fd());
	const block dst(dev, kind::device, want.size());
	size_t moved;

	assert_true(open_fds() > before && lseek(t->fd(), 0, SEEK_CUR) == 0);
	t.reset();
	WORKS(usdma_file_read_sync(dst.data(), f, 0, want.size(), &moved, long_ms));
	assert_true(moved == want.size() && get(dev, dst) == want);
}

/* Checks the lock through another descriptor. */
static bool is_locked(int fd)
{
	struct flock l = {};

	l.l_type = F_WRLCK;
	l.l_whence = SEEK_SET;
	assert_int_equal(fcntl(fd, F_OFD_GETLK, &l), 0);
	return l.l_type != F_UNLCK;
}

static void record_locks_end(void **)
{
	device dev;
	const temporary t;

	for (const int kind : {F_SETLK, F_OFD_SETLK}) {
		struct flock l = {};
		const int other = open(("/proc/self/fd/" + std::to_string(t.fd())).c_str(), O_RDWR);

		l.l_type = F_WRLCK;
		l.l_whence = SEEK_SET;
		assert_int_equal(fcntl(t.fd(), kind, &l), 0);
		{
			const file f(dev, t.fd(), USDMA_FILE_BUFFERED);

			assert_true(is_locked(other));
		}
		assert_int_equal(is_locked(other), kind == F_OFD_SETLK);
		close(other);
	}
}

static void a_file_is_truncated(void **)
{
	auto gen = rng(8);
	device dev;

	for (const unsigned flags : {USDMA_FILE_BUFFERED, USDMA_FILE_AUTO}) {
		stream s(dev);
		gate g(dev);
		const temporary t;
		const bytes want = fill_file(t, 9 * MiB, gen);
		const file f(dev, t.fd(), flags);
		const block dst(dev, kind::device, want.size());
		size_t moved;

		wipe(dev, dst);
		g.close(s);
		WORKS(usdma_file_read(s, dst.data(), f, 0, want.size(), &moved));
		/* More than the read-ahead. */
		assert_int_equal(ftruncate(t.fd(), MiB + 7), 0);
		g.open();
		WORKS(usdma_stream_sync(s, long_ms));
		assert_true(moved >= MiB + 7 && moved < want.size());
		assert_prefix(get(dev, dst), want, 0, moved);
	}
}

/* By rename, as editors and package managers do it. */
static void a_file_is_replaced(void **)
{
	auto gen = rng(22);
	device dev;
	const bytes before = random_bytes(MiB, gen), after = random_bytes(MiB, gen);

	for (const unsigned flags : {USDMA_FILE_BUFFERED, USDMA_FILE_AUTO}) {
		stream s(dev);
		gate g(dev);
		std::string path = "/tmp/usdma-files-XXXXXX", other = path;
		const int fd = mkstemp(path.data()), other_fd = mkstemp(other.data());
		const block dst(dev, kind::device, MiB);
		size_t moved = 77;

		assert_int_equal(pwrite(fd, before.data(), MiB, 0), MiB);
		assert_int_equal(pwrite(other_fd, after.data(), MiB, 0), MiB);
		const file f(dev, fd, flags);
		g.close(s);
		WORKS(usdma_file_read(s, dst.data(), f, 0, MiB, &moved));
		assert_int_equal(rename(other.c_str(), path.c_str()), 0);
		g.open();
		WORKS(usdma_stream_sync(s, long_ms));
		assert_true(moved == MiB && get(dev, dst) == before);
		WORKS(usdma_file_write_sync(f, 0, bytes(10, 7).data(), 10, nullptr, long_ms));
		bytes now(10);
		assert_int_equal(pread(fd, now.data(), 10, 0), 10);
		assert_true(now == bytes(10, 7));
		assert_int_equal(pread(other_fd, now.data(), 10, 0), 10);
		assert_memory_equal(now.data(), after.data(), 10);
		unlink(path.c_str());
		close(fd);
		close(other_fd);
	}
}

/* ---- arguments --------------------------------------------------------------------------------------------- */

static void descriptors_that_are_refused(void **)
{
	device dev;
	const temporary t;
	usdma_file *f = nullptr;
	int pipe_fds[2];

	assert_int_equal(pipe(pipe_fds), 0);
	const int closed = dup(t.fd()), dir = open("/tmp", O_RDONLY), path = open("/proc/self/exe", O_PATH);
	close(closed);
	assert_int_equal(usdma_file_import(dev, -1, 0, &f), -EBADF);
	assert_int_equal(usdma_file_import(dev, closed, 0, &f), -EBADF);
	assert_int_equal(usdma_file_import(dev, path, 0, &f), -EBADF);
	assert_int_equal(usdma_file_import(dev, dir, 0, &f), -EISDIR);
	assert_int_equal(usdma_file_import(dev, pipe_fds[0], 0, &f), -ESPIPE);
	assert_int_equal(usdma_file_import(dev, t.fd(), 3, &f), -EINVAL);
	assert_null(f);
	assert_int_equal(usdma_file_import(dev, t.fd(), 0, nullptr), -EINVAL);
	assert_int_equal(usdma_file_import(nullptr, t.fd(), 0, &f), -EBADF);
	const int none = open("/proc/self/maps", O_RDONLY);
	assert_int_equal(usdma_file_import(dev, none, USDMA_FILE_DIRECT, &f), -EOPNOTSUPP);
	for (const int fd : {pipe_fds[0], pipe_fds[1], dir, path, none})
		close(fd);
}

static void arguments_that_are_refused(void **)
{
	device dev, second(1);
	stream s(dev), other(second);
	const temporary reads("/tmp", O_RDONLY), writes("/tmp", O_WRONLY), appends("/tmp", O_RDWR | O_APPEND);
	const file r(dev, reads.fd()), w(dev, writes.fd()), a(dev, appends.fd());
	const block mem(dev, kind::device, 4096);
	size_t moved = 77;
	usdma_file *closed = nullptr;

	assert_int_equal(usdma_file_read(s, mem.data(), w, 0, 1, &moved), -EACCES);
	assert_int_equal(moved, 0);
	assert_int_equal(usdma_file_write(s, r, 0, mem.data(), 1, nullptr), -EACCES);
	assert_int_equal(usdma_file_write(s, a, 0, mem.data(), 1, nullptr), -EACCES);
	assert_int_equal(usdma_file_read(s, mem.data(), r, uint64_t(1) << 63, 1, nullptr), -EOVERFLOW);
	assert_int_equal(usdma_file_read(s, mem.data(), r, (uint64_t(1) << 63) - 2, 2, nullptr), -EOVERFLOW);
	assert_int_equal(usdma_file_read(s, mem.data(), r, 1, SIZE_MAX, nullptr), -EOVERFLOW);
	assert_int_equal(usdma_file_read(s, mem.data(), r, 0, mem.size() + 1, nullptr), -EFAULT);
	assert_int_equal(usdma_file_write(s, w, 0, mem.data() + mem.size(), 1, nullptr), -EFAULT);
	assert_int_equal(usdma_file_read(s, nullptr, r, 0, 1, nullptr), -EINVAL);
	assert_int_equal(usdma_file_read_sync(nullptr, r, 0, 1, nullptr, 1), -EINVAL);
	assert_int_equal(usdma_file_write_sync(w, 0, nullptr, 1, nullptr, 1), -EINVAL);
	assert_int_equal(usdma_file_read(other, mem.data(), r, 0, 1, nullptr), -EXDEV);
	assert_int_equal(usdma_file_write(other, w, 0, mem.data(), 1, nullptr), -EXDEV);
	assert_int_equal(usdma_file_sync(other, w), -EXDEV);
	WORKS(usdma_file_read(s, nullptr, r, 0, 0, &moved));
	WORKS(usdma_file_read_sync(nullptr, r, 0, 0, &moved, 0));
	WORKS(usdma_file_import(dev, reads.fd(), 0, &closed));
	WORKS(usdma_file_close(closed));
	for (usdma_file *no : {closed, static_cast<usdma_file *>(nullptr)}) {
		assert_int_equal(usdma_file_close(no), -EBADF);
		assert_int_equal(usdma_file_read(s, mem.data(), no, 0, 1, nullptr), -EBADF);
		assert_int_equal(usdma_file_write(s, no, 0, mem.data(), 1, nullptr), -EBADF);
		assert_int_equal(usdma_file_sync(s, no), -EBADF);
		assert_int_equal(usdma_file_read_sync(mem.data(), no, 0, 1, nullptr, 1), -EBADF);
		assert_int_equal(usdma_file_write_sync(no, 0, mem.data(), 1, nullptr, 1), -EBADF);
	}
	assert_int_equal(usdma_file_read(nullptr, mem.data(), r, 0, 1, nullptr), -EBADF);
	WORKS(usdma_stream_sync(s, long_ms));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(io_uring_is_forbidden),
		cmocka_unit_test(io_uring_is_forbidden_later),
		cmocka_unit_test(short_writes_share_a_request),
		cmocka_unit_test(every_byte),
		cmocka_unit_test(many_files_at_once),
		cmocka_unit_test(a_read_waits_for_earlier_work),
		cmocka_unit_test(a_write_waits_for_earlier_work),
		cmocka_unit_test(others_go_on),
		cmocka_unit_test(a_file_had_no_name),
		cmocka_unit_test(batches),
		cmocka_unit_test(a_batch_keeps_its_order),
		cmocka_unit_test(a_batch_with_a_wrong_item),
		cmocka_unit_test(the_descriptor_stays_the_callers),
		cmocka_unit_test(record_locks_end),
		cmocka_unit_test(a_file_is_truncated),
		cmocka_unit_test(a_file_is_replaced),
		cmocka_unit_test(descriptors_that_are_refused),
		cmocka_unit_test(arguments_that_are_refused),
	};

	return cmocka_run_group_tests_name("files", tests, nullptr, nullptr);
}
