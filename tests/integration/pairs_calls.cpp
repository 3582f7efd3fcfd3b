/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that are disturbed. */
#include "tests/integration/pairs.h"

#include <sys/eventfd.h>
#include <sys/mman.h>

namespace usdma::test::pairs {

static constexpr size_t small = 64, apart = 128; /* items that cannot be joined */

/* ---- memory for them -------------------------------------------------------------------------------- */

static bytes random_content(size_t n)
{
	static auto gen = rng(1);

	return random_bytes(n, gen);
}

/* The items of dst will hold what is in src at the same offset. */
static void expect_copies(world &w)
{
	w.dst.after = w.dst.before;
	for (const item &i : w.items)
		std::copy_n(w.src.before.begin() + long(i.at), i.len, w.dst.after.begin() + long(i.at));
}

static void make_memory(world &w, kind src, kind dst, size_t size, usdma_device *src_dev = nullptr)
{
	w.src = make_area(src_dev ? src_dev : w.dev, src, size, random_content(size));
	w.dst = make_area(w.dev, dst, size, bytes(size, untouched));
}

template <kind src, kind dst> void one_range(world &w)
{
	make_memory(w, src, dst, len + 2 * guard);
	w.items = {{guard, len}};
	expect_copies(w);
	w.late_at = (src == kind::pageable ? w.src.p : w.dst.p) + guard + (4 << 10);
}

/* More short copies than the ring has slots. */
static void many_items(world &w, kind dst)
{
	usdma_device_info info = {};

	info.struct_size = sizeof(info);
	WORKS(usdma_device_get_info(w.dev, &info));
	const size_t n = info.ring_size + 64;
	make_memory(w, kind::pinned, dst, 2 * guard + n * apart);
	for (size_t i = 0; i < n; i++)
		w.items.push_back({guard + i * apart, small});
	expect_copies(w);
	w.counts = true;
}

static void list_of_items(world &w, kind dst)
{
	many_items(w, dst);
	const size_t size = (w.items.size() * sizeof(usdma_copy_item) + guard - 1) / guard * guard;
	void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	w.list = static_cast<usdma_copy_item *>(p);
	for (size_t i = 0; i < w.items.size(); i++)
		w.list[i] = {w.dst.p + w.items[i].at, w.src.p + w.items[i].at, small};
	w.late_at = static_cast<unsigned char *>(p) + guard;
}

static int copy_them_all(world &w)
{
	for (w.done = 0; w.done < w.items.size(); w.done++) {
		const item &i = w.items[w.done];

		if (const int err = usdma_copy(w.s, w.dst.p + i.at, w.src.p + i.at, i.len))
			return err;
	}
	return 0;
}

static int copy_batch(world &w)
{
	return usdma_copy_batch(w.s, w.list, w.items.size(), &w.done);
}

static int copy_it(world &w)
{
	return usdma_copy(w.s, w.dst.p + guard, w.src.p + guard, len);
}

/* ---- other shapes ----------------------------------------------------------------------------------- */

static constexpr size_t width = 1000, pitch = 2048, rows = 16;

static void rectangle(world &w)
{
	make_memory(w, kind::pinned, kind::device, len + 2 * guard);
	for (size_t i = 0; i < rows; i++)
		w.items.push_back({guard + i * pitch, width});
	expect_copies(w);
}

static int copy_rectangle(world &w)
{
	const usdma_copy_rect r = {w.dst.p + guard, pitch, w.src.p + guard, pitch, width, rows};

	return usdma_copy_2d(w.s, &r);
}

static void filled(world &w)
{
	one_range<kind::pinned, kind::device>(w);
	std::fill_n(w.dst.after.begin() + long(guard), len, 0x77);
}

static int fill_it(world &w)
{
	return usdma_fill(w.s, w.dst.p + guard, 0x77, 1, len);
}

static void reduced(world &w)
{
	one_range<kind::pinned, kind::device>(w);
	for (size_t i = guard; i < guard + len; i++)
		w.dst.after[i] = static_cast<unsigned char>(w.dst.before[i] + w.src.before[i]);
}

static int reduce_it(world &w)
{
	return usdma_reduce(w.s, w.dst.p + guard, w.src.p + guard, len, USDMA_UINT8, USDMA_SUM);
}

static void one_word(world &w)
{
	one_range<kind::pinned, kind::pinned>(w);
	w.items = {{guard, 8}};
	w.dst.after = w.dst.before;
	std::fill_n(w.dst.after.begin() + long(guard), 8, 0x77);
}

static int write_word(world &w)
{
	return usdma_write_value(w.s, w.dst.p + guard, 0x7777777777777777);
}

static void from_peer(world &w)
{
	make_memory(w, kind::device, kind::pinned, len + 2 * guard, w.peer);
	w.items = {{guard, len}};
	expect_copies(w);
	/* From the second copy on the peer's memory is mapped. */
	WORKS(copy_it(w));
	WORKS(usdma_stream_sync(w.s, long_ms));
	fill_area(w.dev, w.dst, w.dst.before);
}

static int copy_sync(world &w)
{
	return usdma_copy_sync(w.dev, w.dst.p + guard, w.src.p + guard, len, long_ms);
}

/* ---- files ------------------------------------------------------------------------------------------ */

static area file_area(size_t size, const bytes &content)
{
	area a;
	char path[] = "/tmp/usdma-pairs-XXXXXX";

	a.fd = mkstemp(path);
	assert_true(a.fd >= 0);
	unlink(path);
	a.size = size;
	a.before = content;
	fill_area(nullptr, a, content);
	return a;
}

template <kind dst> void file_to(world &w)
{
	const size_t size = len + 2 * guard;

	w.src = file_area(size, random_content(size));
	w.dst = make_area(w.dev, dst, size, bytes(size, untouched));
	w.items = {{guard, len}};
	expect_copies(w);
	w.late_at = w.dst.p + guard + (4 << 10);
	WORKS(usdma_file_import(w.dev, w.src.fd, USDMA_FILE_BUFFERED, &w.file));
}

static void to_file(world &w)
{
	const size_t size = len + 2 * guard;

	w.src = make_area(w.dev, kind::pageable, size, random_content(size));
	w.dst = file_area(size, bytes(size, untouched));
	w.items = {{guard, len}};
	expect_copies(w);
	w.late_at = w.src.p + guard + (4 << 10);
	WORKS(usdma_file_import(w.dev, w.dst.fd, USDMA_FILE_BUFFERED, &w.file));
}

static int read_file(world &w)
{
	return usdma_file_read(w.s, w.dst.p + guard, w.file, guard, len, nullptr);
}

static int write_file(world &w)
{
	return usdma_file_write(w.s, w.file, guard, w.src.p + guard, len, nullptr);
}

static int read_file_sync(world &w)
{
	size_t moved = 0;
	const int err = usdma_file_read_sync(w.dst.p + guard, w.file, guard, len, &moved, long_ms);

	return err || moved == len ? err : -EPROTO;
}

/* ---- waits ------------------------------------------------------------------------------------------ */

static void for_event(world &w)
{
	one_range<kind::pinned, kind::pinned>(w);
	WORKS(usdma_event_create(w.dev, 0, &w.event));
}

static int wait_stream(world &w)
{
	const int err = copy_it(w);

	return err ? err : usdma_stream_sync(w.s, -1);
}

static int wait_device(world &w)
{
	const int err = copy_it(w);

	return err ? err : usdma_device_sync(w.dev, -1);
}

static int wait_event(world &w)
{
	int err = copy_it(w);

	if (!err)
		err = usdma_event_record(w.event, w.s);
	return err ? err : usdma_event_sync(w.event, -1);
}

/* ---- signals ---------------------------------------------------------------------------------------- */

/* The function reads a page that may be late. */
static void for_function(world &w)
{
	make_memory(w, kind::pageable, kind::pageable, 2 * guard);
	w.items = {{0, 1}};
	expect_copies(w);
	w.late_at = w.src.p;
}

static int call_function(world &w)
{
	const auto fn = [](void *arg) {
		const auto *in = static_cast<const world *>(arg);

		in->dst.p[0] = in->src.p[0];
	};

	return usdma_stream_call(w.s, fn, &w, 1);
}

static void for_eventfd(world &w)
{
	w.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(w.fd >= 0);
}

static int signal_it(world &w)
{
	return usdma_stream_signal_fd(w.s, w.fd);
}

/* Written later, as soon as there is space. */
static char is_signalled(world &w)
{
	uint64_t value = 0;
	actor reader;

	reader.start([&] {
		while (read(w.fd, &value, sizeof(value)) != sizeof(value))
			usleep(100);
		return 0;
	});
	if (!reader.over_within(w.closed || w.lost ? 200 : 10000)) {
		pthread_cancel(reader.thread());
		reader.result();
		return 'n';
	}
	reader.result();
	return value == 1 ? 'd' : 'p';
}

static void for_completion(world &w)
{
	one_range<kind::pinned, kind::pinned>(w);
	assert_int_equal(io_uring_queue_init(4, &w.ring, 0), 0);
	WORKS(usdma_completion_create(&w.completion));
}

static int submit_completion(world &w)
{
	io_uring_sqe *sqe = io_uring_get_sqe(&w.ring);
	int err = copy_it(w);

	if (!err)
		err = usdma_prep_completion(w.completion, w.s, sqe, 7);
	if (err)
		return err;
	assert_int_equal(io_uring_submit(&w.ring), 1);
	return 0;
}

static int finish_completion(world &w)
{
	__kernel_timespec limit = {10, 0};
	io_uring_cqe *cqe;

	if (io_uring_wait_cqe_timeout(&w.ring, &cqe, &limit))
		return -ETIME;
	assert_int_equal(cqe->user_data, 7);
	io_uring_cqe_seen(&w.ring, cqe);
	return usdma_completion_finish(w.completion);
}

/* ---- memory and objects ----------------------------------------------------------------------------- */

/* The call's result goes to a page that may be late. */
static void for_result(world &w)
{
	w.stays = make_area(w.dev, kind::pageable, 2 * guard, bytes(2 * guard, untouched));
	w.out = reinterpret_cast<void **>(w.stays.p);
	w.late_at = w.stays.p;
}

static int alloc_host(world &w)
{
	return usdma_host_alloc(w.dev, len, w.out);
}

static int alloc_device(world &w)
{
	return usdma_device_alloc(w.dev, len, w.out);
}

static int create_stream(world &w)
{
	return usdma_stream_create(w.dev, nullptr, reinterpret_cast<usdma_stream **>(w.out));
}

static int create_event(world &w)
{
	return usdma_event_create(w.dev, 0, reinterpret_cast<usdma_event **>(w.out));
}

static int open_again(world &w)
{
	const int err = usdma_open("sim:mem=16M:engines=1", reinterpret_cast<usdma_device **>(w.out));

	return err ? err : usdma_close(static_cast<usdma_device *>(*w.out));
}

static void for_register(world &w)
{
	one_range<kind::pinned, kind::pageable>(w);
	w.items.clear();
}

static int register_it(world &w)
{
	const int err = usdma_host_register(w.dst.p, w.dst.size, 0);

	return err ? err : usdma_host_unregister(w.dst.p);
}

/* A copy of the memory is in the stream. */
static int unregister_it(world &w)
{
	int err = copy_it(w);

	if (!err)
		err = usdma_host_unregister(w.dst.p);
	w.dst.removed = !err;
	return err;
}

static int free_it(world &w)
{
	int err = copy_it(w);

	if (!err)
		err = w.dst.what == kind::device ? usdma_device_free(w.dst.p) : usdma_host_free(w.dst.p);
	w.dst.removed = !err;
	return err;
}

static int destroy_stream(world &w)
{
	const int err = copy_it(w), end = usdma_stream_destroy(w.s);

	w.stream_ended = true;
	return err ? err : end;
}

static int close_device(world &w)
{
	w.closed = true;
	return usdma_close(w.dev);
}

static int no_later(world &)
{
	return 0;
}

static char not_seen(world &)
{
	return '?';
}

/* ---- all of them ------------------------------------------------------------------------------------ */

using enum point;
static constexpr kind pinned = kind::pinned, registered = kind::registered, on_device = kind::device,
		      pageable = kind::pageable;

const std::vector<call> calls = {
	{"usdma_copy", sort::work, {gate, engine, none}, one_range<pinned, pinned>, copy_it},
	{"usdma_copy, many", sort::slots, {full}, [](world &w) { many_items(w, pinned); }, copy_them_all},
	{"usdma_copy, memory of a peer", sort::work, {gate, engine, none}, from_peer, copy_it},
	{"usdma_copy_batch",
	 sort::batch,
	 {gate, full, page},
	 [](world &w) { list_of_items(w, registered); },
	 copy_batch},
	{"usdma_copy_batch, device memory",
	 sort::batch,
	 {gate, full, page, none},
	 [](world &w) { list_of_items(w, on_device); },
	 copy_batch},
	{"usdma_copy_2d", sort::work, {gate, engine, none}, rectangle, copy_rectangle},
	{"usdma_fill", sort::work, {gate, engine, none}, filled, fill_it},
	{"usdma_reduce", sort::work, {gate, engine, none}, reduced, reduce_it},
	{"usdma_write_value", sort::work, {gate, engine, none}, one_word, write_word},
	{"usdma_copy, pageable source", sort::in, {gate, engine, page, none}, one_range<pageable, on_device>, copy_it},
	{"usdma_copy, pageable destination",
	 sort::out,
	 {gate, engine, page, none},
	 one_range<on_device, pageable>,
	 copy_it},
	{"usdma_copy_sync", sort::sync, {engine, page, none}, one_range<pageable, on_device>, copy_sync, no_later},
	{"usdma_file_read", sort::file, {gate, none}, file_to<pinned>, read_file},
	{"usdma_file_read, pageable", sort::file, {gate, page, none}, file_to<pageable>, read_file},
	{"usdma_file_write, pageable", sort::file, {gate, page, none}, to_file, write_file},
	{"usdma_file_read_sync", sort::file_sync, {page, none}, file_to<pageable>, read_file_sync, no_later},
	{"usdma_stream_sync", sort::wait, {gate, engine, none}, one_range<pinned, pinned>, wait_stream},
	{"usdma_device_sync", sort::wait_device, {gate, engine}, one_range<pinned, pinned>, wait_device},
	{"usdma_event_sync", sort::wait_event, {gate, engine, none}, for_event, wait_event},
	{"usdma_stream_call", sort::host_func, {gate, page, none}, for_function, call_function},
	{"usdma_stream_signal_fd", sort::signal, {gate, engine, none}, for_eventfd, signal_it, nullptr, is_signalled},
	{"usdma_prep_completion",
	 sort::completion,
	 {gate, engine, none},
	 for_completion,
	 submit_completion,
	 finish_completion},
	{"usdma_host_alloc", sort::memory, {engine, page, none}, for_result, alloc_host, no_later, not_seen},
	{"usdma_device_alloc", sort::memory, {page, none}, for_result, alloc_device, no_later, not_seen},
	{"usdma_stream_create", sort::memory, {page, none}, for_result, create_stream, no_later, not_seen},
	{"usdma_event_create", sort::memory, {page, none}, for_result, create_event, no_later, not_seen},
	{"usdma_open", sort::memory, {page, none}, for_result, open_again, no_later, not_seen},
	{"usdma_host_register", sort::memory, {engine, page, none}, for_register, register_it, no_later, not_seen},
	{"usdma_host_unregister", sort::unpin, {gate, engine, none}, one_range<pinned, registered>, unregister_it},
	{"usdma_host_free", sort::unpin, {gate, engine, none}, one_range<pinned, pinned>, free_it},
	{"usdma_device_free", sort::unpin, {gate, engine, none}, one_range<pinned, on_device>, free_it},
	{"usdma_stream_destroy",
	 sort::destroy,
	 {gate, engine, none},
	 one_range<pinned, pinned>,
	 destroy_stream,
	 no_later},
	{"usdma_close", sort::close, {engine, none}, one_range<pinned, pinned>, close_device, no_later, not_seen},
};

} // namespace usdma::test::pairs
