/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel backends without VFIO: errors, limits, the shared address space, replaced BARs; and on a fake kernel. */
#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/vfio/bar_guard.h"
#include "driver/vfio/capability.h"
#include "driver/vfio/claim.h"
#include "driver/vfio/kernel.h"
#include "driver/vfio/kernel_check.h"
#include "driver/vfio/kernel_space.h"
#include "driver/vfio/region.h"
#include "driver/vfio/type1.h"
#include "tests/support/test.h"
#include "tests/support/until.h"
#include "tests/unit/vfio/fake_kernel.h"

#include <atomic>
#include <cstring>
#include <liburing.h>
#include <linux/vfio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace usdma;
using namespace usdma::vfio;
using usdma::test::fake_sysfs;

static const pci::address addr = {0, 0, 4, 0};

static void expect_open(const kernel_options &opt, int err, const char *text)
{
	std::unique_ptr<device> dev;

	assert_int_equal(kernel_open(addr, opt, &dev), err);
	assert_null(dev.get());
	if (!strstr(error_text(), text))
		print_error("'%s' is not in '%s'\n", text, error_text());
	assert_non_null(strstr(error_text(), text));
}

static kernel_options options(const fake_sysfs &s)
{
	kernel_options opt;

	opt.sys = s.sys();
	opt.dev = s.dev();
	return opt;
}

static void test_open_errors(void **)
{
	{
		fake_sysfs s;

		expect_open(options(s), -ENXIO, "0000:00:04.0");
		s.add("0000:00:04.0", -1, "");
		expect_open(options(s), -EOPNOTSUPP, "intel_iommu=on");
		s.add("0000:00:05.0", 1, "");
		expect_open(options(s), -EOPNOTSUPP, "not behind the machine's IOMMU");
	}
	{
		fake_sysfs s;

		s.add("0000:00:04.0", 7, "e1000e");
		expect_open(options(s), -ENOENT, "modprobe vfio-pci");
		s.add_driver("vfio-pci");
		expect_open(options(s), -ENOTCONN, "bound to driver e1000e");
	}
	{
		fake_sysfs s;

		s.add("0000:00:04.0", 7, "");
		s.add_driver("vfio-pci");
		expect_open(options(s), -ENOTCONN, "usdmactl bind 0000:00:04.0");
	}
}

static void test_device_file_errors(void **)
{
	fake_sysfs s;
	kernel_options opt = options(s);

	s.add("0000:00:04.0", 7, "vfio-pci");
	expect_open(opt, -ENOENT, "/dev/vfio/vfio: load VFIO (modprobe vfio-pci)");
	s.file(s.dev() + "/vfio/vfio", "");
	expect_open(opt, -ENOENT, "/vfio/7");
	errno = EACCES;
	assert_int_equal(open_error(s.dev() + "/vfio/7", opt), -EACCES);
	assert_non_null(strstr(error_text(), "chown"));
	errno = EBUSY;
	assert_int_equal(open_error(s.dev() + "/vfio/7", opt), -EBUSY);
	assert_non_null(strstr(error_text(), "fuser"));
	opt.backend = kernel_backend::iommufd;
	expect_open(opt, -ENOENT, "6.6");
	s.file(s.device("0000:00:04.0") + "/vfio-dev/vfio0/dev", "");
	s.file(s.dev() + "/vfio/devices/vfio0", "");
	expect_open(opt, -ENOENT, "modprobe iommufd");
}

/* A device is opened once in a process, by any backend; a failed open releases the claim. */
static void test_open_once(void **)
{
	fake_sysfs s;
	const kernel_options opt = options(s);

	s.add("0000:00:04.0", 7, "vfio-pci");
	for (int i = 0; i < 2; i++)
		expect_open(opt, -ENOENT, "/vfio/vfio");
	{
		device_claim held, other;

		assert_int_equal(held.take(addr), 0);
		assert_int_equal(other.take({0, 0, 4, 1}), 0);
		expect_open(opt, -EBUSY, "0000:00:04.0 is open in this process already");
		device_claim moved(std::move(held));
		expect_open(opt, -EBUSY, "0000:00:04.0 is open in this process already");
	}
	expect_open(opt, -ENOENT, "/vfio/vfio");
}

static void test_not_viable(void **)
{
	fake_sysfs s;

	s.add("0000:00:04.0", 7, "vfio-pci");
	s.add("0000:00:04.1", 7, "snd_hda_intel");
	s.add("0000:00:04.2", 7, "pcieport");
	s.add("0000:00:04.3", 7, "");
	assert_string_equal(foreign_members(7, options(s)).c_str(), "0000:00:04.1 (snd_hda_intel)");
	assert_int_equal(not_viable_error(addr, 7, options(s)), -EXDEV);
	assert_non_null(strstr(error_text(), "0000:00:04.1 (snd_hda_intel)"));
}

/* A device bound in noiommu mode, with a group that VFIO has created or without a group. */
static void test_noiommu_is_refused(void **)
{
	fake_sysfs s, bare;

	s.add("0000:00:04.0", 7, "vfio-pci");
	s.file(s.sys() + "/kernel/iommu_groups/7/name", "vfio-noiommu\n");
	s.file(s.dev() + "/vfio/vfio", "");
	s.file(s.dev() + "/vfio/noiommu-7", "");
	expect_open(options(s), -EOPNOTSUPP, "noiommu mode");
	bare.add("0000:00:04.0", -1, "vfio-pci");
	bare.file(bare.device("0000:00:04.0") + "/vfio-dev/noiommu-vfio0/dev", "");
	expect_open(options(bare), -EOPNOTSUPP, "noiommu mode");
}

static void check_choice(const fake_sysfs &s, kernel_backend backend, const char *common, const char *own)
{
	std::vector<std::string> files;
	pci::function f;

	assert_int_equal(pci::read_function(s.sys(), addr, &f), 0);
	assert_true(kernel_choose(f, options(s), &files) == backend);
	assert_int_equal(files.size(), 2);
	assert_string_equal(files[0].c_str(), (s.dev() + common).c_str());
	assert_string_equal(files[1].c_str(), (s.dev() + own).c_str());
}

/* The backend whose files can be opened; if none can, the one whose files exist in part. */
static void test_choice_of_backend(void **)
{
	fake_sysfs s;

	s.add("0000:00:04.0", 7, "vfio-pci");
	check_choice(s, kernel_backend::group, "/vfio/vfio", "/vfio/7");
	s.file(s.device("0000:00:04.0") + "/vfio-dev/vfio3/dev", "");
	/* A kernel without groups. */
	check_choice(s, kernel_backend::iommufd, "/iommu", "/vfio/devices/vfio3");
	s.file(s.dev() + "/iommu", "");
	expect_open(options(s), -ENOENT, "/vfio/devices/vfio3");
	s.file(s.dev() + "/vfio/7", "");
	/* Some files of both, but not all of either. */
	check_choice(s, kernel_backend::iommufd, "/iommu", "/vfio/devices/vfio3");
	s.file(s.dev() + "/vfio/vfio", "");
	check_choice(s, kernel_backend::group, "/vfio/vfio", "/vfio/7");
	s.file(s.dev() + "/vfio/devices/vfio3", "");
	check_choice(s, kernel_backend::iommufd, "/iommu", "/vfio/devices/vfio3");
}

/* The layout of VFIO_IOMMU_GET_INFO. */
struct info_layout {
	u32 argsz = sizeof(info_layout), flags = VFIO_IOMMU_INFO_PGSIZES | VFIO_IOMMU_INFO_CAPS;
	u64 pgsizes = 0x40201000;
	u32 cap_offset = 24, pad = 0;
	vfio_info_cap_header ranges = {VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE, 1, 80};
	u32 nr = 2, reserved = 0;
	u64 r[4] = {0xfef00000, 0x7fffffffff, 0, 0xfedfffff};
	u64 r_more = 0;
	vfio_info_cap_header avail = {VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL, 1, 0};
	u32 available = 65535, pad2 = 0;
};

static int parse(info_layout l, size_t size, address_limits *out, u64 *available)
{
	std::vector<u8> raw(sizeof(l));

	static_assert(offsetof(info_layout, ranges) == 24 && offsetof(info_layout, avail) == 80);
	memcpy(raw.data(), &l, sizeof(l));
	raw.resize(size);
	return type1_parse_info(raw, out, available);
}

static void test_type1_info(void **)
{
	address_limits out;
	info_layout l;
	u64 available;

	assert_int_equal(parse(l, sizeof(l), &out, &available), 0);
	assert_int_equal(out.page_size, 4096);
	assert_int_equal(available, 65535);
	assert_int_equal(out.usable.size(), 2);
	assert_int_equal(out.usable[0].start, 0);
	assert_int_equal(out.usable[1].last, 0x7fffffffff);
	l.flags = 0;
	assert_int_equal(parse(l, 16, &out, &available), 0);
	assert_int_equal(out.usable.size(), 1);
	assert_true(out.usable[0].last == (u64(1) << 39) - 1);
	assert_true(available == ~u64(0));
	assert_int_equal(parse(l, 15, &out, &available), -EPROTO);
	l = {};
	l.nr = 0x10000000;
	assert_int_equal(parse(l, sizeof(l), &out, &available), -EPROTO);
	l = {};
	l.ranges.next = 24;
	assert_int_equal(parse(l, sizeof(l), &out, &available), -EPROTO);
	l = {};
	l.cap_offset = 8;
	assert_int_equal(parse(l, sizeof(l), &out, &available), -EPROTO);
	l.cap_offset = sizeof(l) - 4;
	assert_int_equal(parse(l, sizeof(l), &out, &available), -EPROTO);
	l = {};
	assert_int_equal(parse(l, 88, &out, &available), -EPROTO);
}

/* An address space that counts its calls, and refuses what the kernel refuses. */
class counting_space : public dma_space {
public:
	int limits(address_limits *out) override
	{
		queries++;
		*out = {};
		out->usable = {{0, 0xfedfffff}, {0xfef00000, 0x7fffffffff}};
		return 0;
	}
	const char *backend() const override { return "test"; }

	unsigned maps = 0, unmaps = 0, queries = 0;
	int answer = 0;

protected:
	int kernel_map(const dma_area &area) override
	{
		const u64 last = area.iova + area.size - 1;

		if (area.iova & 4095 || last > 0x7fffffffff || (area.iova < 0xfef00000 && last > 0xfedfffff))
			return dma_map_error(EINVAL, area, mapped(), "");
		maps += !answer;
		return answer ? dma_map_error(answer, area, mapped(), "") : 0;
	}
	int kernel_unmap(u64, u64) override
	{
		unmaps++;
		return 0;
	}
};

static void test_space(void **)
{
	static u8 mem[32768] __attribute__((aligned(4096)));
	counting_space s;
	const dma_area a = {0x10000, 8192, mem};

	assert_int_equal(s.map(a), 0);
	assert_int_equal(s.map(a), 0);
	assert_int_equal(s.maps, 1);
	assert_int_equal(s.map({0x10000, 4096, mem}), -EEXIST);
	assert_int_equal(s.map({0x10000, 8192, mem, dma_read}), -EEXIST);
	assert_int_equal(s.map({0x11000, 8192, mem}), -EEXIST);
	assert_int_equal(s.map({0xf000, 32768, mem}), -EEXIST);
	assert_int_equal(s.map({0x12000, 4096, mem}), 0);
	assert_int_equal(s.unmap(0x10000, 4096), -ENOENT);
	assert_int_equal(s.unmap(0x10000, 8192), 0);
	assert_int_equal(s.unmaps, 0);
	assert_int_equal(s.unmap(0x10000, 8192), 0);
	assert_int_equal(s.unmaps, 1);
	assert_int_equal(s.unmap(0x10000, 8192), -ENOENT);
	assert_int_equal(s.map({0xfedfe000, 4096, mem}), 0);
	/* One system call each: the limits are queried only for an area that the kernel refuses. */
	assert_int_equal(s.queries, 0);
	assert_int_equal(s.map({0xfee00000, 4096, mem}), -ERANGE);
	assert_non_null(strstr(error_text(), "0xfef00000-0x7fffffffff"));
	assert_int_equal(s.map({0xfedff000, 16384, mem}), -ERANGE);
	assert_int_equal(s.map({0x8000000000, 4096, mem}), -ERANGE);
	assert_int_equal(s.map({0x20000, 0, mem}), -EINVAL);
	assert_int_equal(s.map({0x20001, 4096, mem}), -EINVAL);
	assert_int_equal(s.map({0x20000, 4096, nullptr}), -EINVAL);
	assert_int_equal(s.map({0x20000, 4096, mem, 0}), -EINVAL);
	assert_int_equal(s.map({~u64(4095), 8192, mem}), -EINVAL);
}

/* iommufd counts what it pins as io_uring does (mm->pinned_vm). */
static void test_pinned_memory_counts(void **)
{
	static constexpr u64 size = 512 * KiB;
	static u8 mem[size] __attribute__((aligned(4096)));
	const iovec buffer = {mem, size};
	io_uring ring;

	if (io_uring_queue_init(1, &ring, 0) < 0) {
		print_message("# SKIP no io_uring\n");
		return skip();
	}
	const u64 before = pinned_kib();
	assert_int_equal(io_uring_register_buffers(&ring, &buffer, 1), 0);
	assert_int_equal(pinned_kib(), before + size / KiB);
	io_uring_queue_exit(&ring);
}

static void test_map_errors(void **)
{
	static u8 mem[4096] __attribute__((aligned(4096)));
	rlimit before, small;
	counting_space s;

	getrlimit(RLIMIT_MEMLOCK, &before);
	small = before;
	small.rlim_cur = 64 * KiB;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &small), 0);
	s.answer = ENOMEM;
	assert_int_equal(s.map({0x1000, 4096, mem}), -ENOMEM);
	assert_non_null(strstr(error_text(), "the limit is 64 KiB"));
	assert_non_null(strstr(error_text(), "ulimit -l"));
	setrlimit(RLIMIT_MEMLOCK, &before);
	s.answer = ENOSPC;
	assert_int_equal(s.map({0x1000, 4096, mem}), -ENOSPC);
	s.answer = EFAULT;
	assert_int_equal(s.map({0x1000, 4096, mem}), -EFAULT);
	s.answer = 0;
	assert_int_equal(s.map({0x1000, 4096, mem}), 0);
}

static void test_replaced_bar(void **)
{
	const auto guard = std::make_shared<bar_guard>();
	const unique_fd bar(memfd_create("bar", MFD_CLOEXEC));
	constexpr u64 size = 5 * MiB + 4096;
	mapping a, b, early;
	std::atomic<bool> stop{false}, odd{false};

	assert_int_equal(ftruncate(bar.get(), size), 0);
	const u32 flags = region_readable | region_writable | region_mappable;

	assert_int_equal(bar_guard::map(guard, bar.get(), flags, 0, size, &a), 0);
	assert_int_equal(bar_guard::map(guard, bar.get(), flags, 4096, 4096, &b), 0);
	assert_int_equal(bar_guard::map(guard, bar.get(), flags, 0, 4096, &early), 0);
	early = mapping();
	volatile u32 *const reg = reinterpret_cast<u32 *>(a.data() + size - 4);
	std::thread driver([&] {
		while (!stop.load()) {
			const u32 v = __atomic_load_n(reg, __ATOMIC_RELAXED);

			if (v != 0 && v != ~0u)
				odd = true;
		}
	});

	guard->replace_all();
	assert_int_equal(ftruncate(bar.get(), 0), 0); /* an access to the BAR itself would now fault */
	stop = true;
	driver.join();
	assert_false(odd.load());
	for (u64 at = 0; at < size; at += 4096)
		assert_int_equal(a.data()[at], 0xff);
	assert_int_equal(*reinterpret_cast<u32 *>(b.data()), 0xffffffff);
	b.data()[0] = 1;
	assert_int_equal(a.data()[4096], 0xff);
	assert_int_equal(bar_guard::map(guard, bar.get(), flags, 0, 4096, &early), -ENODEV);
}

/* ---- a fake kernel --------------------------------------------------------------------------------------- */

static constexpr kernel_backend both_backends[] = {kernel_backend::group, kernel_backend::iommufd};

/* After each failure the same area is mapped, and unmapped, as if nothing had happened. */
static void test_kernel_maps(void **)
{
	static u8 mem[16384] __attribute__((aligned(4096)));
	const dma_area a = {0x10000, sizeof(mem), mem};
	std::unique_ptr<device> dev;

	for (kernel_backend backend : both_backends) {
		usdma::test::fake_kernel k(backend);

		assert_int_equal(k.open(&dev), 0);
		for (int err : {ENOSPC, EFAULT}) {
			k.map_errno = err;
			assert_int_equal(dev->dma_map(a), -err);
			assert_true(k.mapped.empty());
			assert_int_equal(dev->dma_unmap(a.iova, a.size), -ENOENT);
			assert_int_equal(dev->dma_map(a), 0);
			assert_int_equal(k.mapped.at(a.iova), a.size);
			assert_int_equal(dev->dma_unmap(a.iova, a.size), 0);
			assert_true(k.mapped.empty());
		}
		assert_int_equal(dev->dma_map(a), 0);
		if (backend == kernel_backend::group) {
			k.left_by_unmap = 4096;
			assert_int_equal(dev->dma_unmap(a.iova, a.size), -EIO);
			assert_non_null(strstr(error_text(), "12288 of 16384"));
			assert_int_equal(dev->dma_map(a), -EEXIST);
		}
		assert_int_equal(dev->dma_unmap(a.iova, a.size), 0);
		dev.reset();
		assert_int_equal(k.request_fd, -1);
	}
}

static void test_kernel_without_type1(void **)
{
	usdma::test::fake_kernel k(kernel_backend::group);

	k.type1 = 0;
	expect_open(k.opt, -EOPNOTSUPP, "modprobe vfio_iommu_type1");
}

static void test_kernel_regions(void **)
{
	for (kernel_backend backend : both_backends) {
		usdma::test::fake_kernel k(backend);
		std::unique_ptr<device> dev;
		region_info r;
		mapping m;

		assert_int_equal(k.open(&dev), 0);
		assert_int_equal(dev->region(region_bar0, &r), 0);
		assert_int_equal(r.size, k.bar_size);
		assert_int_equal(r.mappable.size(), 2);
		assert_int_equal(r.mappable[0].start, 0);
		assert_int_equal(r.mappable[0].last, 4095);
		assert_int_equal(r.mappable[1].start, 8192);
		assert_int_equal(r.mappable[1].last, k.bar_size - 1);
		assert_int_equal(dev->region_map(region_bar0, 4096, 4096, &m), -EOPNOTSUPP);
		assert_int_equal(dev->region_map(region_bar0, 8192, k.bar_size - 8192, &m), 0);
		m.data()[5] = 0x77;
		u8 got = 0;
		assert_int_equal(dev->region_read(region_bar0, 8192 + 5, &got, 1), 0);
		assert_int_equal(got, 0x77);
		assert_int_equal(dev->answers(), 0);
		m = mapping();
		unsigned at = 1;
		assert_int_equal(ftruncate(k.device.get(), 0), 0);
		assert_int_equal(dev->answers(), -EIO);
		assert_int_equal(config_capability(*dev, 0x11, &at), -EIO);
		assert_int_equal(at, 0);
	}
}

/* The device is not lost before it masters the bus no more; those who wait for it are woken. */
static void test_kernel_requests_the_device(void **)
{
	for (kernel_backend backend : both_backends) {
		usdma::test::fake_kernel k(backend);
		std::unique_ptr<device> dev;
		const unique_fd fd(eventfd_make());
		const int vector = fd.get();

		assert_int_equal(k.open(&dev), 0);
		k.set_command(0x106);
		assert_int_equal(dev->irq_set(irq_msix, 1, {&vector, 1}), 0);
		assert_int_equal(k.vectors, 2);
		/* There are no more. To try that, those in use were off for a while. */
		k.most_vectors = 2;
		assert_int_equal(dev->irq_set(irq_msix, 2, {&vector, 1}), -ENOSPC);
		assert_int_equal(k.vectors, 2);
		assert_int_equal(eventfd_clear(vector), 1);
		assert_false(dev->lost());
		eventfd_write(k.request_fd, 1);
		usdma::test::until("the device is lost", [&] { return dev->lost(); });
		assert_int_equal(k.command(), 0x102);
		usdma::test::until("its interrupts are raised", [&] { return eventfd_ready(vector, POLLIN); });
		assert_int_equal(dev->quiesce(), 0);
		assert_int_equal(dev->reset(), -ENODEV);
	}
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_open_errors),
		cmocka_unit_test(test_device_file_errors),
		cmocka_unit_test(test_open_once),
		cmocka_unit_test(test_not_viable),
		cmocka_unit_test(test_noiommu_is_refused),
		cmocka_unit_test(test_choice_of_backend),
		cmocka_unit_test(test_type1_info),
		cmocka_unit_test(test_space),
		cmocka_unit_test(test_map_errors),
		cmocka_unit_test(test_pinned_memory_counts),
		cmocka_unit_test(test_replaced_bar),
		cmocka_unit_test(test_kernel_maps),
		cmocka_unit_test(test_kernel_regions),
		cmocka_unit_test(test_kernel_requests_the_device),
		cmocka_unit_test(test_kernel_without_type1),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
