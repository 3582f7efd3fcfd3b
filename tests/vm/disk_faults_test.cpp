/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In the virtual machine: files on a disk that fails, fills up or does not answer. The disk is a device mapper
 * target on null_blk; the file system is ext4; the device is that of USDMA_DEVICES.
 */
#include "tests/integration/files.h"
#include "tests/support/until.h"
#include "tests/vm/mapped_disk.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <memory>
#include <sys/mount.h>
#include <sys/statvfs.h>

using namespace usdma::test;

static constexpr size_t page = 4 * KiB, sector = 512, disk_size = 64 * MiB;
static constexpr int soon_ms = 20; /* a timeout for work that does not complete */
static const char *const folder = "/mnt";
static std::unique_ptr<mapped_disk> disk, raw;

static void mount_it()
{
	assert_int_equal(mount(disk->path().c_str(), folder, "ext4", 0, nullptr), 0);
}

/* Waits until late work has closed its file. */
static void unmount_it()
{
	until("unmounted", [] { return umount(folder) == 0; });
}

/* A file with these bytes, which are on the disk and not in the page cache. */
class disk_file {
public:
	explicit disk_file(const bytes &data) : fd_(open((folder + name()).c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600))
	{
		assert_true(fd_ >= 0);
		put(data);
	}
	disk_file(const disk_file &) = delete;
	~disk_file()
	{
		close(fd_);
		unlink((folder + name()).c_str());
	}
	int fd() const { return fd_; }
	void put(const bytes &data) const
	{
		assert_int_equal(pwrite(fd_, data.data(), data.size(), 0), ssize_t(data.size()));
		assert_int_equal(fsync(fd_), 0);
		forget();
	}
	void forget() const { assert_int_equal(posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED), 0); }
	bytes get(size_t size) const
	{
		bytes all(size);

		assert_int_equal(pread(fd_, all.data(), size, 0), ssize_t(size));
		return all;
	}
	/* The disk's sector of page n. */
	size_t sector_of(size_t n) const
	{
		alignas(fiemap) char buf[sizeof(fiemap) + sizeof(fiemap_extent)] = {};
		auto *map = reinterpret_cast<fiemap *>(buf);

		map->fm_start = n * page;
		map->fm_length = page;
		map->fm_extent_count = 1;
		assert_int_equal(ioctl(fd_, FS_IOC_FIEMAP, map), 0);
		assert_int_equal(map->fm_mapped_extents, 1);
		const fiemap_extent &e = map->fm_extents[0];
		return (e.fe_physical + n * page - e.fe_logical) / sector;
	}
	/* Drops data and metadata of the file from the kernel's caches. */
	void remount()
	{
		close(fd_);
		unmount_it();
		mount_it();
		fd_ = open((folder + name()).c_str(), O_RDWR);
		assert_true(fd_ >= 0);
	}

private:
	static std::string name() { return "/file"; }
	int fd_;
};

/* The stream has failed; the error names the offset behind the bytes that have moved. */
static void assert_failed(usdma_stream *s, int err, const char *verb, size_t offset, const size_t &moved)
{
	assert_int_equal(usdma_stream_sync(s, long_ms), err);
	const std::string text = std::string(verb) + " a file failed at offset " + std::to_string(offset + moved);
	if (!strstr(usdma_error_text(), text.c_str()))
		print_error("expected \"%s\": %s\n", text.c_str(), usdma_error_text());
	assert_non_null(strstr(usdma_error_text(), text.c_str()));
}

static void read_all(usdma_device *dev, const file &f, const bytes &want, size_t offset, std::mt19937_64 &gen)
{
	const block dst(dev, all_kinds[gen() % 4], want.size());
	size_t moved = 77;

	wipe(dev, dst);
	WORKS(usdma_file_read_sync(dst.data(), f, offset, dst.size(), &moved, long_ms));
	assert_int_equal(moved, want.size() - offset);
	assert_prefix(get(dev, dst), want, offset, moved);
}

/* ---- EIO at each block --------------------------------------------------------------------------------------- */

static void read_bad(usdma_device *dev, const file &f, const disk_file &t, const bytes &want, size_t n,
		     std::mt19937_64 &gen)
{
	stream s(dev);
	const block dst(dev, all_kinds[gen() % 4], want.size());
	const size_t bad = n * page, offset = gen() % std::min(page, bad + 1);
	size_t moved = 77;

	wipe(dev, dst);
	t.forget();
	disk->bad(t.sector_of(n), page / sector);
	WORKS(usdma_file_read(s, dst.data(), f, offset, want.size() - offset, &moved));
	assert_failed(s, -EIO, "reading", offset, moved);
	assert_int_equal(offset + moved, bad);
	assert_prefix(get(dev, dst), want, offset, moved);
	if (bad + page < want.size())
		read_all(dev, f, want, bad + page, gen);
	disk->good();
	read_all(dev, f, want, 0, gen);
}

/* All pages of a short file; of a long one the first and last ones of requests. */
static std::vector<size_t> bad_pages(size_t size)
{
	std::vector<size_t> pages;

	for (size_t n = 0; n * page < size; n++)
		if (size < MiB || n == 0 || n == 255 || n == 256 || (n + 1) * page > size)
			pages.push_back(n);
	return pages;
}

static const size_t sizes[] = {9 * page + 1000, 2 * MiB + 5};

static void each_block_of_a_read(void **)
{
	auto gen = rng(1);
	device dev;

	for (const unsigned flags : {USDMA_FILE_BUFFERED, USDMA_FILE_DIRECT})
		for (const size_t size : sizes) {
			const bytes want = random_bytes(size, gen);
			const disk_file t(want);
			const file f(dev, t.fd(), flags);

			for (const size_t n : bad_pages(size))
				read_bad(dev, f, t, want, n, gen);
		}
}

static bool is_one_of(const bytes &got, const bytes &old, const bytes &fresh, size_t from)
{
	for (size_t i = from; i < got.size(); i++)
		if (got[i] != old[i] && got[i] != fresh[i])
			return false;
	return true;
}

/* The write fails or, through the page cache, the sync, which writes all but the bad block. */
static void write_bad(usdma_device *dev, const file &f, const disk_file &t, bytes old, size_t n, std::mt19937_64 &gen)
{
	stream s(dev);
	const block src(dev, all_kinds[gen() % 4], old.size());
	const size_t bad = n * page, offset = gen() % std::min(page, bad + 1);
	bytes fresh = random_bytes(old.size(), gen);
	size_t moved = 77;

	put(dev, src, fresh);
	t.put(old);
	disk->bad(t.sector_of(n), page / sector);
	WORKS(usdma_file_write(s, f, offset, src.data() + offset, old.size() - offset, &moved));
	const int err = usdma_stream_sync(s, long_ms);
	WORKS(usdma_file_sync(s, f));
	const int late = usdma_stream_sync(s, long_ms);
	assert_true(err == -EIO || (err == 0 && late == -EIO));
	assert_true(late == -EIO || late == 0);
	disk->good();
	WORKS(usdma_file_sync(s, f));
	WORKS(usdma_stream_sync(s, long_ms));
	t.forget();
	const bytes got = t.get(old.size());
	std::copy_n(old.begin(), offset, fresh.begin());
	if (err) {
		assert_true(offset + moved <= bad);
		assert_memory_equal(got.data(), fresh.data(), offset + moved);
		assert_true(is_one_of(got, old, fresh, 0));
		return;
	}
	assert_int_equal(moved, old.size() - offset);
	assert_memory_equal(got.data(), fresh.data(), bad);
	assert_true(is_one_of(got, old, fresh, bad));
	if (bad + page < got.size())
		assert_memory_equal(got.data() + bad + page, fresh.data() + bad + page, got.size() - bad - page);
}

static void each_block_of_a_write(void **)
{
	auto gen = rng(2);
	device dev;

	for (const unsigned flags : {USDMA_FILE_BUFFERED, USDMA_FILE_DIRECT})
		for (const size_t size : sizes) {
			const bytes old = random_bytes(size, gen);
			const disk_file t(old);
			const file f(dev, t.fd(), flags);

			for (const size_t n : bad_pages(size))
				write_bad(dev, f, t, old, n, gen);
		}
}

/* A sync reports an error of an earlier write, also if another descriptor has reported it. */
static void a_late_error(void **)
{
	auto gen = rng(3);
	device dev;
	stream s(dev);
	const bytes old = random_bytes(MiB, gen);
	const disk_file t(old);
	const int other = dup(t.fd()), apart = open("/mnt/file", O_RDWR);
	const file f(dev, apart, USDMA_FILE_BUFFERED);

	disk->bad(t.sector_of(100), page / sector);
	WORKS(usdma_file_write_sync(f, 0, random_bytes(MiB, gen).data(), MiB, nullptr, long_ms));
	assert_int_equal(fsync(other), -1);
	assert_int_equal(errno, EIO);
	disk->good();
	WORKS(usdma_file_sync(s, f));
	assert_int_equal(usdma_stream_sync(s, long_ms), -EIO);
	assert_non_null(strstr(usdma_error_text(), "syncing a file failed"));
	/* It is reported once. */
	WORKS(usdma_file_sync(s, f));
	WORKS(usdma_stream_sync(s, long_ms));
	close(other);
	close(apart);
}

/* Writes to a block device fail. */
static void a_disk_is_read_only(void **)
{
	auto gen = rng(4);
	device dev;

	for (const unsigned flags : {USDMA_FILE_BUFFERED, USDMA_FILE_DIRECT}) {
		stream s(dev);
		const int fd = open(raw->path().c_str(), O_RDWR);
		const bytes old = random_bytes(2 * MiB, gen), fresh = random_bytes(2 * MiB, gen);
		const file f(dev, fd, flags);
		size_t moved = 77;

		WORKS(usdma_file_write(s, f, 0, old.data(), old.size(), nullptr));
		WORKS(usdma_file_sync(s, f));
		WORKS(usdma_stream_sync(s, long_ms));
		raw->no_writes();
		WORKS(usdma_file_write(s, f, 0, fresh.data(), fresh.size(), &moved));
		if (flags == USDMA_FILE_BUFFERED)
			WORKS(usdma_file_sync(s, f));
		assert_int_equal(usdma_stream_sync(s, long_ms), -EIO);
		assert_int_equal(moved, flags == USDMA_FILE_BUFFERED ? fresh.size() : 0);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		raw->good();
		read_all(dev, f, old, 0, gen);
		close(fd);
	}
}

/* ---- a disk that does not answer ------------------------------------------------------------------------------- */

struct stopped {
	std::mt19937_64 gen;
	device dev;
	stream s{dev}, other{dev};
	const bytes want = random_bytes(2 * MiB + 5, gen);
	disk_file t{want};
	const temporary well{"/dev/shm"};
	const file good{dev, well.fd()};
	const block dst{dev, kind::device, want.size()};

	explicit stopped(unsigned n) : gen(rng(n))
	{
		well.put(want);
		wipe(dev, dst);
	}
	/* Copies of another file complete. */
	void assert_other_file_works()
	{
		const block mem(dev, kind::device, want.size());
		size_t moved = 77;

		WORKS(usdma_file_read(other, mem.data(), good, 0, mem.size(), &moved));
		WORKS(usdma_stream_sync(other, long_ms));
		assert_int_equal(moved, mem.size());
		assert_true(get(dev, mem) == want);
	}
};

static void a_disk_comes_back(void **)
{
	stopped w(5);

	for (const unsigned flags : {USDMA_FILE_BUFFERED, USDMA_FILE_DIRECT}) {
		const file f(w.dev, w.t.fd(), flags);
		size_t moved = 77, written = 77;

		w.t.forget();
		disk->suspend();
		WORKS(usdma_file_read(w.s, w.dst.data(), f, 0, w.want.size(), &moved));
		WORKS(usdma_file_write(w.s, f, 0, w.dst.data(), w.want.size(), &written));
		WORKS(usdma_file_sync(w.s, f));
		assert_int_equal(usdma_stream_sync(w.s, soon_ms), -ETIMEDOUT);
		assert_int_equal(moved, 0);
		w.assert_other_file_works();
		disk->resume();
		WORKS(usdma_stream_sync(w.s, long_ms));
		assert_true(moved == w.want.size() && written == w.want.size());
		assert_true(get(w.dev, w.dst) == w.want);
		w.t.forget();
		assert_true(w.t.get(w.want.size()) == w.want);
	}
}

static void a_disk_comes_back_too_late(void **)
{
	stopped w(6);

	for (const unsigned flags : {USDMA_FILE_BUFFERED, USDMA_FILE_DIRECT}) {
		const file f(w.dev, w.t.fd(), flags);
		size_t moved = 77;

		wipe(w.dev, w.dst);
		w.t.forget();
		disk->suspend();
		WORKS(usdma_file_read(w.s, w.dst.data(), f, 7, w.want.size(), &moved));
		assert_failed(w.s, -ETIME, "reading", 7, moved);
		assert_int_equal(moved, 0);
		assert_int_equal(usdma_file_read_sync(w.dst.data(), f, 0, w.want.size(), &moved, soon_ms), -ETIMEDOUT);
		w.assert_other_file_works();
		disk->resume();
		read_all(w.dev, f, w.want, 0, w.gen);
		assert_prefix(get(w.dev, w.dst), w.want, 0, 0);
	}
}

/* The file's extents are not cached, either: the kernel has to read them first. */
static void a_disk_stops_before_the_map_is_read(void **)
{
	stopped w(7);

	for (const unsigned flags : {USDMA_FILE_BUFFERED, USDMA_FILE_DIRECT}) {
		for (size_t at = 0; at < w.want.size(); at += 2 * page)
			fallocate(w.t.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(at), page);
		w.t.remount();
		const file f(w.dev, w.t.fd(), flags);
		size_t moved = 77;

		wipe(w.dev, w.dst);
		disk->suspend();
		WORKS(usdma_file_read(w.s, w.dst.data(), f, 0, w.want.size(), &moved));
		assert_failed(w.s, -ETIME, "reading", 0, moved);
		w.assert_other_file_works();
		disk->resume();
		read_all(w.dev, f, w.t.get(w.want.size()), 0, w.gen);
	}
}

/* A read or a sync that waits for the disk can be aborted. */
static void work_on_a_stopped_disk_is_aborted(void **)
{
	stopped w(8);
	const file f(w.dev, w.t.fd(), USDMA_FILE_BUFFERED);

	for (const bool sync : {false, true}) {
		stream s(w.dev);

		WORKS(usdma_file_write_sync(f, 0, w.want.data(), 2 * page, nullptr, long_ms));
		disk->suspend();
		if (sync)
			WORKS(usdma_file_sync(s, f));
		else
			WORKS(usdma_file_read(s, w.dst.data(), f, MiB, MiB, nullptr));
		assert_int_equal(usdma_stream_sync(s, soon_ms), -ETIMEDOUT);
		WORKS(usdma_stream_abort(s));
		assert_int_equal(usdma_stream_sync(s, long_ms), -ECANCELED);
		w.assert_other_file_works();
		disk->resume();
	}
	WORKS(usdma_file_sync(w.s, f));
	WORKS(usdma_stream_sync(w.s, long_ms));
}

/* ---- a full file system ------------------------------------------------------------------------------------------ */

static void a_file_system_is_full(void **)
{
	auto gen = rng(10);
	device dev;
	const bytes data = random_bytes(8 * MiB, gen);
	const block src(dev, kind::device, data.size());

	put(dev, src, data);
	for (const unsigned flags : {USDMA_FILE_BUFFERED, USDMA_FILE_DIRECT}) {
		const disk_file t(bytes(1, 1));
		const temporary filler(folder);
		const file f(dev, t.fd(), flags);
		stream s(dev);
		struct statvfs st;
		size_t moved = 77;

		assert_int_equal(statvfs(folder, &st), 0);
		assert_int_equal(fallocate(filler.fd(), 0, 0, off_t(st.f_bavail * st.f_bsize - 3 * MiB)), 0);
		WORKS(usdma_file_write(s, f, 5, src.data(), src.size(), &moved));
		assert_failed(s, -ENOSPC, "writing", 5, moved);
		assert_true(moved > 0 && moved < data.size());
		const bytes got = t.get(5 + moved);
		assert_memory_equal(got.data() + 5, data.data(), moved);
		/* After space was freed, the write succeeds. */
		assert_int_equal(ftruncate(filler.fd(), 0), 0);
		WORKS(usdma_file_write(s, f, 5, src.data(), src.size(), &moved));
		WORKS(usdma_file_sync(s, f));
		WORKS(usdma_stream_sync(s, long_ms));
		t.forget();
		const bytes all = t.get(5 + data.size());
		assert_memory_equal(all.data() + 5, data.data(), data.size());
	}
}

static int make_disks(void **)
{
	disk = std::make_unique<mapped_disk>("usdma-disk", "/dev/nullb0", 0, disk_size / sector);
	raw = std::make_unique<mapped_disk>("usdma-raw", "/dev/nullb0", disk_size / sector, 4 * MiB / sector);
	mkdir(folder, 0700);
	assert_int_equal(system(("mkfs.ext4 -q -b 4096 -m 0 " + disk->path()).c_str()), 0);
	mount_it();
	return 0;
}

/* Runs also after a failure: work would wait for the disk forever. */
static int heal(void **)
{
	disk->good();
	raw->good();
	return 0;
}

static int remove_disks(void **)
{
	unmount_it();
	disk.reset();
	raw.reset();
	return 0;
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test_teardown(each_block_of_a_read, heal),
		cmocka_unit_test_teardown(each_block_of_a_write, heal),
		cmocka_unit_test_teardown(a_late_error, heal),
		cmocka_unit_test_teardown(a_disk_is_read_only, heal),
		cmocka_unit_test_teardown(a_disk_comes_back, heal),
		cmocka_unit_test_teardown(a_disk_comes_back_too_late, heal),
		cmocka_unit_test_teardown(a_disk_stops_before_the_map_is_read, heal),
		cmocka_unit_test_teardown(work_on_a_stopped_disk_is_aborted, heal),
		cmocka_unit_test_teardown(a_file_system_is_full, heal),
	};

	return cmocka_run_group_tests_name("vm-disk", tests, make_disks, remove_disks);
}
