/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's memory as a guest with a virtual IOMMU maps it: scattered single pages, unmapped in blocks. */
#include "tests/support/level.h"
#include "tests/support/membarrier.h"
#include "tests/support/raw_client.h"
#include "tests/support/raw_model.h"
#include "tests/unit/sim/rig.h"

#include "driver/base/error.h"
#include "driver/sim/dma_space.h"

#include <algorithm>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

using namespace usdma;
using namespace usdma::test;
using namespace usdma::sdma;

static constexpr u64 page = 4096;
static constexpr u32 read_write = vfio::dma_read | vfio::dma_write;

/* A guest's memory: one file, whose pages are mapped in random order. */
struct guest {
	guest(rig &rg, u64 n, u64 stream = 1) : r(rg), pages(n), order(n)
	{
		auto gen = rng(stream);

		fd.reset(memfd_create("guest", MFD_CLOEXEC));
		assert_int_equal(ftruncate(fd.get(), off_t(n * page)), 0);
		map = mapping(mmap(nullptr, n * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), n * page);
		for (u64 i = 0; i < n; i++)
			order[i] = i;
		std::shuffle(order.begin(), order.end(), gen);
	}
	/* Maps the k-th page of the random order at iova. */
	int map_page(u64 iova, u64 k, u32 prot = read_write)
	{
		vfio::dma_area a;

		a.iova = iova;
		a.size = page;
		a.vaddr = at(k);
		a.fd = fd.get();
		a.fd_offset = order[k] * page;
		a.prot = prot;
		return r.dev->dma_map(a);
	}
	void map_pages(u64 iova, u64 k, u64 n)
	{
		for (u64 i = 0; i < n; i++)
			assert_int_equal(map_page(iova + i * page, k + i), 0);
	}
	u8 *at(u64 k) { return map.data() + order[k] * page; }
	/* The address of offset off in pages that were mapped from page k on. */
	u8 *at(u64 k, u64 off) { return at(k + off / page) + off % page; }

	rig &r;
	unique_fd fd;
	mapping map;
	u64 pages;
	std::vector<u64> order;
};

static size_t mappings()
{
	std::ifstream in("/proc/self/maps");

	return size_t(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
}

/* ---- rings ------------------------------------------------------------------------------------------- */

/* A channel whose ring begins in the middle of a page, in scattered pages; its record crosses a page border. */
struct scattered {
	static constexpr u64 iova = 0x500000000, record = iova + page - 64, ring_iova = iova + 3 * page + 1024;

	scattered(guest &memory, u32 i, u64 k0, u32 ord) : g(memory), index(i), order(ord), k(k0)
	{
		const u64 ctrl = chan_ctrl(index);

		g.map_pages(iova, k, 4 + (size() * sizeof(descriptor)) / page + 1);
		for (u64 n = 0; n < size(); n++)
			*reinterpret_cast<u32 *>(slot(n)) = u32(n ^ 1);
		g.r.write64(ctrl + chan_ring_base, ring_iova);
		g.r.write32(ctrl + chan_ring_order, order);
		g.r.write64(ctrl + chan_record, record);
		g.r.write64(ctrl + chan_first_seq, 0);
		g.r.write32(ctrl + chan_command, chan_cmd_enable);
	}
	u64 size() const { return u64(1) << order; }
	u8 *slot(u64 n) { return g.at(k, ring_iova - iova + (n & (size() - 1)) * sizeof(descriptor)); }
	u32 state() { return g.r.read32(chan_ctrl(index) + chan_state); }
	/* The number is in the first page of the record. */
	u64 completed() { return load_acquire(reinterpret_cast<u64 *>(g.at(k, record - iova))); }
	void run(descriptor d)
	{
		const deadline until = deadline::in_ms(wait_ms);

		d.tag = u32(++posted - size());
		memcpy(slot(posted), &d, sizeof(d));
		store_release(reinterpret_cast<u32 *>(slot(posted)), u32(posted));
		g.r.write64(chan_doorbell(index) + doorbell_tail, posted);
		while (completed() < posted && !until.passed())
			sched_yield();
		assert_int_equal(completed(), posted);
	}

	guest &g;
	u32 index, order;
	u64 k, posted = 0;
};

static descriptor write_word(u64 address, u64 value)
{
	descriptor d = {};

	d.op = u8(opcode::write);
	d.dst = address;
	d.a = value;
	return d;
}

/* Runs through all of the ring and past its wrap, while other pages are mapped and unmapped. */
static void test_scattered_ring(void **)
{
	for (u32 order : {2, 6, 9}) {
		rig r(rig::small(), reach::file);
		guest g(r, 64, order);
		scattered ch(g, 1, 0, order);
		const u64 data = 0x600000000;

		assert_int_equal(ch.state(), chan_state_running);
		assert_int_equal(g.map_page(data, 60), 0);
		for (u64 i = 1; i <= 2 * ch.size() + 5; i++) {
			ch.run(write_word(data + i % 512 * 8, i));
			assert_int_equal(*reinterpret_cast<u64 *>(g.at(60) + i % 512 * 8), i);
			if (i % 7 == 0)
				assert_int_equal(g.map_page(0x700000000, 61), 0);
			if (i % 7 == 3 && i > 7)
				assert_int_equal(r.dev->dma_unmap(0x700000000, page), 0);
		}
		r.write32(chan_ctrl(1) + chan_command, chan_cmd_disable);
	}
}

/*
 * If a page of the ring is unmapped, the channel is in error.  If another page is mapped there before the engine
 * notices, the old page is not read.
 */
static void test_ring_page_replaced(void **)
{
	for (bool other : {false, true}) {
		rig r(rig::small(), reach::file);
		guest g(r, 64), second(r, 8, 9);
		scattered ch(g, 1, 0, 6);
		const u64 middle = scattered::iova + 4 * page, k = (middle - scattered::iova) / page;
		const deadline until = deadline::in_ms(wait_ms);

		assert_int_equal(ch.state(), chan_state_running);
		ch.run(write_word(scattered::iova + 2 * page, 1));
		assert_int_equal(r.dev->dma_unmap(middle, page), 0);
		if (!other) {
			r.write32(chan_ctrl(1) + chan_wake, 1);
			while (ch.state() == chan_state_running && !until.passed())
				sched_yield();
			assert_int_equal(ch.state(), chan_state_error);
			continue;
		}
		/* A page of another file has the same descriptors. */
		memcpy(second.at(0), g.at(k), page);
		assert_int_equal(second.map_page(middle, 0), 0);
		memset(g.at(k), 0xee, page);
		if (ch.state() != chan_state_running)
			continue; /* the engine was awake and noticed it */
		std::swap(g.order[k], g.order[63]);
		u8 *const new_page = second.at(0);
		for (u64 i = 2; i < 60 && ch.state() == chan_state_running; i++) {
			descriptor d = write_word(scattered::iova + 2 * page, i);
			const u64 off = scattered::ring_iova - scattered::iova + i * sizeof(d);

			d.tag = u32(i);
			memcpy(off / page == k ? new_page + off % page : ch.g.at(0, off), &d, sizeof(d));
			r.write64(chan_doorbell(1) + doorbell_tail, i);
			while (ch.completed() < i && ch.state() == chan_state_running && !until.passed())
				sched_yield();
		}
		assert_true(ch.completed() == 59 || ch.state() == chan_state_error);
	}
}

/* The engine that polls a truncated ring puts the channel in error. */
static void test_ring_truncated(void **)
{
	rig r(rig::small(), reach::file);
	guest g(r, 64);
	scattered ch(g, 1, 0, 6);
	const deadline until = deadline::in_ms(wait_ms);

	assert_int_equal(sim::guard_bus_errors(), 0);
	assert_int_equal(ch.state(), chan_state_running);
	ch.run(write_word(scattered::iova + 2 * page, 1));
	assert_int_equal(ftruncate(g.fd.get(), 0), 0);
	r.write32(chan_ctrl(1) + chan_wake, 1);
	while (ch.state() == chan_state_running && !until.passed())
		sched_yield();
	assert_int_equal(ch.state(), chan_state_error);
}

static void test_ring_page_missing(void **)
{
	rig r(rig::small(), reach::file);
	guest g(r, 64);
	const u64 ctrl = chan_ctrl(2), iova = 0x500000000;
	auto state = [&](u64 ring, u32 order) {
		r.write64(ctrl + chan_ring_base, ring);
		r.write32(ctrl + chan_ring_order, order);
		r.write64(ctrl + chan_record, iova);
		r.write32(ctrl + chan_command, chan_cmd_enable);
		const u32 s = r.read32(ctrl + chan_state);
		r.write32(ctrl + chan_command, chan_cmd_disable);
		while (r.read32(ctrl + chan_state) == chan_state_stopping)
			sched_yield();
		return s;
	};
	vfio::dma_area anonymous;

	g.map_pages(iova, 0, 8);
	assert_int_equal(state(iova + page, 6), chan_state_running);
	assert_int_equal(state(iova + 7 * page, 6), chan_state_running);
	assert_int_equal(state(iova + 7 * page + 64, 6), chan_state_error);
	assert_int_equal(g.map_page(iova + 9 * page, 20), 0);
	assert_int_equal(state(iova + 7 * page, 7), chan_state_error); /* page 8 is missing */
	assert_int_equal(g.map_page(iova + 8 * page, 21, vfio::dma_write), 0);
	assert_int_equal(state(iova + 7 * page, 7), chan_state_error); /* it is write-only */
	assert_int_equal(r.dev->dma_unmap(iova + 8 * page, page), 0);
	anonymous.iova = iova + 8 * page;
	anonymous.size = page;
	anonymous.vaddr = g.at(22);
	assert_int_equal(r.dev->dma_map(anonymous), 0);
	assert_int_equal(state(iova + 7 * page, 7),
			 chan_state_running); /* by messages: all of the ring is then read by messages */
}

/* ---- unmapping ----------------------------------------------------------------------------------------- */

/* As a virtual IOMMU: 512 pages are mapped one by one, unmapped at once, and replaced by others. */
struct blocks_of_pages {
	static constexpr u64 n = 512, iova = 0x40000000, ring = 0x30000000;

	blocks_of_pages()
		: model(rig::small()), client(model.connect()), control("ring", 64 * KiB), guest("guest", 3 * n * page),
		  order(3 * n)
	{
		auto gen = rng(5);

		assert_int_equal(client.begin(mem_base), 0);
		assert_int_equal(client.map(ring, 64 * KiB, control.fd.get()), 0);
		channel = std::make_unique<raw_channel>(client, 0, control, ring, 0);
		assert_int_equal(channel->enable(), chan_state_running);
		for (u64 i = 0; i < order.size(); i++)
			order[i] = i;
		std::shuffle(order.begin(), order.end(), gen);
	}
	void map_pages(u64 at, u64 k, u64 count)
	{
		for (u64 i = 0; i < count; i++)
			assert_int_equal(client.map(at + i * page, page, guest.fd.get(), order[k + i] * page), 0);
	}
	u8 *at(u64 k) { return guest.data + order[k] * page; }
	fault_reason fill(u64 dst, u64 len)
	{
		descriptor d = {};

		d.op = u8(opcode::fill);
		d.arg = 1;
		d.a = 0x5a;
		d.dst = dst;
		d.len = len;
		const u64 seq = channel->put(d);
		channel->ring_doorbell();
		assert_true(channel->done(seq));
		if (channel->completed() == seq)
			return fault_reason::none;
		const auto why = fault_reason(load_acquire(&channel->status->record.reason));
		channel->command(chan_cmd_resume);
		return why;
	}

	raw_model model;
	raw_client client;
	raw_memory control, guest;
	std::vector<u64> order;
	std::unique_ptr<raw_channel> channel;
};

static void test_unmap_block(void **)
{
	blocks_of_pages b;
	static constexpr u64 n = b.n, iova = b.iova;

	b.map_pages(iova - page, n - 1, 1);
	b.map_pages(iova, 0, n);
	b.map_pages(iova + n * page, n, 1);
	assert_int_equal(b.fill(iova, n * page), fault_reason::none);
	assert_int_equal(b.client.unmap(iova + page / 2, n * page), EINVAL);
	assert_int_equal(b.client.unmap(iova, n * page - page / 2), EINVAL);
	assert_int_equal(b.fill(iova, n * page), fault_reason::none);
	assert_int_equal(b.client.unmap(iova, n * page), 0);
	/* The unmapped pages are not accessible; the pages before and after them are. */
	memset(b.guest.data, 0x11, 3 * n * page);
	for (u64 i : {u64(0), u64(1), n / 2, n - 1})
		assert_int_equal(b.fill(iova + i * page, page), fault_reason::dst_unmapped);
	assert_int_equal(b.fill(iova - page, page), fault_reason::none);
	assert_int_equal(b.fill(iova + n * page, page), fault_reason::none);
	for (u64 k = 0; k < 3 * n; k++)
		assert_int_equal(b.at(k)[0], k == n - 1 || k == n ? 0x5a : 0x11);
	assert_int_equal(b.client.unmap(iova, n * page), ENOENT);
	/* Mapped again, with other pages. */
	b.map_pages(iova, 2 * n, n);
	assert_int_equal(b.fill(iova, n * page), fault_reason::none);
	for (u64 k = 2 * n; k < 3 * n; k++)
		assert_int_equal(b.at(k)[page - 1], 0x5a);
	assert_int_equal(b.client.unmap(iova - page, (n + 2) * page), 0);
	assert_int_equal(b.fill(iova + n * page, page), fault_reason::dst_unmapped);
}

/* Pages are unmapped in blocks while the device writes them: it writes no byte after unmap has returned. */
static void test_unmap_during_writes(void **)
{
	blocks_of_pages b;
	static constexpr u64 n = b.n, iova = b.iova;
	auto gen = rng(6);

	for (unsigned round = 0; round < 30 * scale(); round++) {
		std::shuffle(b.order.begin(), b.order.end(), gen);
		b.map_pages(iova, 0, n);
		descriptor d = {};
		d.op = u8(opcode::fill);
		d.arg = 1;
		d.a = 0x5a;
		d.dst = iova;
		d.len = n * page;
		for (unsigned i = 0; i < 8; i++)
			b.channel->put(d);
		b.channel->ring_doorbell();
		assert_true(b.channel->begun(b.channel->posted - gen() % 8));
		assert_int_equal(b.client.unmap(iova, n * page), 0);
		memset(b.guest.data, 0x11, 3 * n * page);
		/* The remaining descriptors fail. */
		while (b.channel->completed() < b.channel->posted)
			if (load_acquire(&b.channel->status->record.state) == dma::state_halted)
				b.channel->command(chan_cmd_resume);
		for (u64 i = 0; i < 3 * n * page; i += 64)
			assert_int_equal(b.guest.data[i], 0x11);
	}
}

/* If membarrier is refused after the start, unmap still waits for the engines. */
static void test_membarrier_refused_later(void **)
{
	if (!asym_barrier_ready() || !can_refuse_calls())
		skip();
	const unique_fd fd(memfd_create("guest", MFD_CLOEXEC));
	assert_int_equal(ftruncate(fd.get(), page), 0);
	const pid_t child = fork();
	if (!child) {
		sim::dma_space space{sim::dma_bounds()};
		sim::dma_reader reader(space.needs_fences());
		bool right = !space.add_reader(&reader) && forbid_membarrier();

		right = right && !space.map(0, page, read_write, unique_fd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 3)), 0);
		std::thread engine([&] {
			for (reader.enter(); space.count();)
				reader.pass();
			reader.leave();
		});
		right = right && !space.unmap(0, page);
		engine.join();
		_exit(right ? 0 : 1);
	}
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* ---- limits ---------------------------------------------------------------------------------------------- */

static u64 resident()
{
	std::ifstream in("/proc/self/statm");
	u64 all = 0, here = 0;

	in >> all >> here;
	return here * page;
}

/*
 * Gigabytes of one file in pages of 4 KiB, from last to first so that no two are adjacent: one mapping for each
 * GiB. (USDMA_TEST_SCALE=8: 8 GiB, 2 Mi areas.)
 */
static void test_gigabytes_of_pages(void **)
{
	const u64 n = (std::min(scale(), 8u) * GiB / page) / (sanitized ? 4 : 1);
	const unique_fd fd(memfd_create("guest", MFD_CLOEXEC));
	sim::dma_space space{sim::dma_bounds()};
	const size_t maps = mappings();
	const u64 memory = resident(), begin = now_ns();
	sim::window w;

	assert_int_equal(ftruncate(fd.get(), off_t(n * page)), 0);
	for (u64 i = 0; i < n; i++) {
		const int err = space.map((u64(1) << 40) + i * page, page, read_write,
					  unique_fd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 3)), (n - 1 - i) * page);

		if (err)
			print_error("area %llu: %s\n", static_cast<unsigned long long>(i), error_text());
		assert_int_equal(err, 0);
	}
	assert_int_equal(space.count(), n);
	/* A sanitizer has mappings for the lists. */
	assert_in_range(mappings(), maps, maps + (test::sanitized ? 512 : 16));
	const u64 mapped = now_ns();
	assert_true(space.find((u64(1) << 40) + 5 * page + 7, &w));
	assert_int_equal(w.size, page);
	assert_int_equal(space.unmap(u64(1) << 40, n * page), 0);
	assert_int_equal(space.count(), 0);
	assert_in_range(mappings(), 0, maps + (test::sanitized ? 512 : 16));
	fprintf(stderr, "# %llu areas: %.2f s to map, %.2f s to unmap, %llu MiB of memory\n",
		static_cast<unsigned long long>(n), double(mapped - begin) / 1e9, double(now_ns() - mapped) / 1e9,
		static_cast<unsigned long long>((resident() - memory) / MiB));
	struct stat st;
	assert_int_equal(fstat(fd.get(), &st), 0);
	assert_int_equal(st.st_blocks, 0);
}

/* Of a file of its own. */
static int map_one(sim::dma_space &space, u64 at)
{
	unique_fd fd(memfd_create("one of many", MFD_CLOEXEC));

	assert_int_equal(ftruncate(fd.get(), page), 0);
	return space.map(at * page, page, read_write, std::move(fd), 0);
}

/* What is exactly at a limit is mapped; one more is refused and takes nothing; what is unmapped counts no more. */
static void test_limits(void **)
{
	static constexpr u32 most = 1500;
	sim::dma_bounds bounds[3];

	bounds[0].areas = bounds[1].files.pieces = most;
	bounds[2].file_bytes = most * page;
	for (const sim::dma_bounds &b : bounds) {
		sim::dma_space space(b);

		for (unsigned round = 0; round < 3; round++) {
			for (u64 i = 0; i < most; i++)
				assert_int_equal(map_one(space, i), 0);
			for (unsigned again = 0; again < 2; again++) {
				assert_int_equal(map_one(space, most), -ENOSPC);
				assert_int_equal(map_one(space, most + 1), -ENOSPC);
				assert_int_equal(space.unmap(0, page), 0);
				assert_int_equal(map_one(space, most + again), 0);
				assert_int_equal(space.unmap((most + again) * page, page), 0);
				assert_int_equal(map_one(space, 0), 0);
			}
			assert_int_equal(space.unmap(0, most * page), 0);
			assert_int_equal(space.count(), 0);
		}
	}
	assert_in_range(open_fds(), 0, 64); /* all are closed */
}

/* The memory for the records of areas is limited, too. */
static void test_area_records_limited(void **)
{
	sim::dma_bounds most;
	int err = 0;
	u64 n = 0;

	most.book_keeping = MiB;
	sim::dma_space space(most);
	for (; !err && n < 100000; n++)
		err = map_one(space, n << 18);
	assert_int_equal(err, -ENOSPC);
	assert_true(n > 100);
	/* An unmapped area makes space for a new one. */
	assert_int_equal(space.unmap(0, page), 0);
	assert_int_equal(map_one(space, 0), 0);
	assert_int_equal(map_one(space, 1), -ENOSPC);
}

/* ---- kinds of files ------------------------------------------------------------------------------------------ */

static int try_map(sim::dma_space &space, int fd, u32 prot = read_write, u64 size = page)
{
	const int err = space.map(u64(1) << 30, size, prot, unique_fd(fcntl(fd, F_DUPFD_CLOEXEC, 3)), 0);

	return err ? err : space.unmap(u64(1) << 30, size);
}

static void test_kinds_of_files(void **)
{
	char name[] = "/var/tmp/usdma-memory-XXXXXX"; /* on a disk; /tmp may be in memory */
	const unique_fd disk(mkstemp(name)), readable(open(name, O_RDONLY | O_CLOEXEC)),
		path(open(name, O_PATH | O_CLOEXEC));
	const unique_fd folder(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
		zero(open("/dev/zero", O_RDWR | O_CLOEXEC));
	const unique_fd event(eventfd(0, EFD_CLOEXEC)), memory(memfd_create("x", MFD_CLOEXEC));
	const std::string again = "/proc/self/fd/" + std::to_string(memory.get());
	const unique_fd memory_ro(open(again.c_str(), O_RDONLY | O_CLOEXEC)),
		memory_path(open(again.c_str(), O_PATH | O_CLOEXEC));
	const unique_fd memory_wo(open(again.c_str(), O_WRONLY | O_CLOEXEC));
	sim::dma_bounds any;
	int pipe_fds[2];

	any.files.any_file = true;
	assert_int_equal(ftruncate(disk.get(), page), 0);
	assert_int_equal(ftruncate(memory.get(), page), 0);
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	const unique_fd in(pipe_fds[0]), out(pipe_fds[1]);
	sim::dma_space strict{sim::dma_bounds()}, lenient(any);

	for (sim::dma_space *s : {&strict, &lenient}) {
		for (int fd :
		     {path.get(), folder.get(), zero.get(), event.get(), in.get(), out.get(), memory_path.get()})
			assert_true(try_map(*s, fd) < 0);
		assert_int_equal(try_map(*s, memory.get()), 0);
		assert_int_equal(try_map(*s, memory_ro.get()), -EACCES);
		assert_int_equal(try_map(*s, memory_wo.get()), -EACCES);
		assert_int_equal(try_map(*s, memory_ro.get(), vfio::dma_read), 0);
		assert_int_equal(try_map(*s, memory.get(), read_write, 2 * page), -EINVAL);
	}
	if (fcntl(disk.get(), F_GET_SEALS) < 0) /* else /var/tmp is in memory */
		assert_int_equal(try_map(strict, disk.get()), -EINVAL);
	assert_int_equal(try_map(lenient, disk.get()), 0);
	/* After a writable descriptor was mapped, a read-only one of the same file is still refused for writing. */
	assert_int_equal(strict.map(0, page, read_write, unique_fd(fcntl(memory.get(), F_DUPFD_CLOEXEC, 3)), 0), 0);
	assert_int_equal(try_map(strict, memory_ro.get()), -EACCES);
	assert_int_equal(try_map(strict, memory_ro.get(), vfio::dma_read), 0);
	unlink(name);
}

static u64 blocks(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return u64(st.st_blocks);
}

/* Mapping a sparse file allocates no pages; its data can be read at once. */
static void test_sparse_file_stays_sparse(void **)
{
	static constexpr u64 size = 64 * MiB;
	rig r(rig::small(), reach::file);
	const unique_fd fd(memfd_create("holes", MFD_CLOEXEC));
	vfio::dma_area a;

	assert_int_equal(ftruncate(fd.get(), size), 0);
	mapping m(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), size);
	for (u64 at = 0; at < size; at += 16 * MiB)
		m.data()[at + 5 * page] = 1;
	const u64 before = blocks(fd.get());
	assert_true(before > 0);
	a.iova = 0x10000000;
	a.size = size;
	a.vaddr = m.data();
	a.fd = fd.get();
	assert_int_equal(r.dev->dma_map(a), 0);
	assert_int_equal(blocks(fd.get()), before);
	chan ch(r, 0);
	assert_int_equal(ch.run(make_copy(space::host, a.iova + 5 * page, space::device, mem_base, 1)),
			 fault_reason::none);
	assert_int_equal(r.mem()[0], 1);
	assert_int_equal(blocks(fd.get()), before);
}

/* The new part of a file that has grown can be mapped. */
static void test_growing_file(void **)
{
	const u64 step = os_page_size(); /* the test maps single pages */
	rig r(rig::small(), reach::file);
	const unique_fd fd(memfd_create("growing", MFD_CLOEXEC));
	chan ch(r, 0);
	vfio::dma_area a;

	for (u64 n = 1; n <= 8; n++) {
		assert_int_equal(ftruncate(fd.get(), off_t(n * step)), 0);
		mapping m(mmap(nullptr, step, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), off_t((n - 1) * step)),
			  step);
		a.iova = 0x10000000 + n * step;
		a.size = step;
		a.vaddr = m.data();
		a.fd = fd.get();
		a.fd_offset = (n - 1) * step;
		m.data()[3] = u8(n);
		assert_int_equal(r.dev->dma_map(a), 0);
		assert_int_equal(ch.run(make_copy(space::host, a.iova + 3, space::device, mem_base, 1)),
				 fault_reason::none);
		assert_int_equal(r.mem()[0], n);
	}
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_scattered_ring),
		cmocka_unit_test(test_ring_page_replaced),
		cmocka_unit_test(test_ring_truncated),
		cmocka_unit_test(test_ring_page_missing),
		cmocka_unit_test(test_unmap_block),
		cmocka_unit_test(test_unmap_during_writes),
		cmocka_unit_test(test_membarrier_refused_later),
		cmocka_unit_test(test_gigabytes_of_pages),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_area_records_limited),
		cmocka_unit_test(test_kinds_of_files),
		cmocka_unit_test(test_sparse_file_stays_sparse),
		cmocka_unit_test(test_growing_file),
	};

	return cmocka_run_group_tests_name("sim_memory", tests, nullptr, nullptr);
}
