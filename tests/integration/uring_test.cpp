/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions in the caller's ring, by the device's interrupt and by the library's thread: exact, at any depth, for
 * each kind of ring; with lost interrupts, faults and losses.
 */
#include "driver/base/barrier.h"
#include "tests/integration/faults.h"
#include "tests/support/sanitizer.h"
#include "tests/support/dropping.h"
#include "usdma/uring.h"

#include <liburing.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

TEST_TSAN_SUPPRESSIONS(TEST_UNORDERED_COPIES)

namespace {

constexpr size_t page = 4096, MiB = 1 << 20;

struct ring_kind {
	const char *name;
	unsigned flags;
};
constexpr ring_kind ring_kinds[] = {{"plain", 0},
				    {"deferred", IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN},
				    {"polled by the kernel", IORING_SETUP_SQPOLL},
				    {"SQE128", IORING_SETUP_SQE128},
				    {"CQE32", IORING_SETUP_CQE32}};

class ring {
public:
	explicit ring(unsigned flags = 0) : made_(!io_uring_queue_init(128, &r_, flags)) {}
	~ring()
	{
		if (made_)
			io_uring_queue_exit(&r_);
	}
	ring(const ring &) = delete;
	explicit operator bool() const { return made_; }
	io_uring *get() { return &r_; }
	io_uring_sqe *sqe() { return io_uring_get_sqe(&r_); }
	void submit() { assert_true(io_uring_submit(&r_) >= 0); }
	/* False: none within this time. */
	bool wait(int ms, io_uring_cqe *out)
	{
		__kernel_timespec limit = {ms / 1000, ms % 1000 * 1000000};
		io_uring_cqe *cqe = nullptr;

		if (io_uring_wait_cqe_timeout(&r_, &cqe, &limit))
			return false;
		memcpy(out, cqe, sizeof(*out));
		io_uring_cqe_seen(&r_, cqe);
		return true;
	}
	/* That of a cancel which came too late is left out. */
	io_uring_cqe next()
	{
		io_uring_cqe c;

		do
			assert_true(wait(long_ms, &c));
		while (c.user_data == cancels);
		return c;
	}
	static constexpr uint64_t cancels = ~uint64_t(0);
	int result(uint64_t user_data)
	{
		const io_uring_cqe c = next();

		assert_int_equal(c.user_data, user_data);
		return c.res;
	}

private:
	io_uring r_;
	bool made_;
};

/* Skips the case, before a device is opened: no destructors run. */
void need_rings()
{
	if (const ring r; !r) { /* forbidden by seccomp or by a sysctl */
		print_message("no io_uring\n");
		skip();
	}
}

class completion {
public:
	completion() { WORKS(usdma_completion_create(&c_)); }
	completion(const completion &) = delete;
	~completion() { WORKS(usdma_completion_destroy(c_)); }
	operator usdma_completion *() const { return c_; }

private:
	usdma_completion *c_ = nullptr;
};

/* A stream, and words that it copies to the device and back. */
struct copier {
	stream s;
	block host, mem;
	volatile uint64_t *from, *to;

	explicit copier(usdma_device *dev, size_t size = page)
		: s(dev), host(dev, kind::pinned, 2 * size), mem(dev, kind::device, size),
		  from(reinterpret_cast<uint64_t *>(host.data() + size) - 1),
		  to(reinterpret_cast<uint64_t *>(host.data() + 2 * size) - 1)
	{
	}
	/* The last word of each copy is the number. */
	void copy(uint64_t n)
	{
		*from = n;
		*to = 0;
		WORKS(usdma_copy(s, mem.data(), host.data(), mem.size()));
		WORKS(usdma_copy(s, host.data() + mem.size(), mem.data(), mem.size()));
	}
};

/* The work has ended when the CQE comes: nothing else waits for it. */
void copy_by_ring(ring &r, copier &c, usdma_completion *done, uint64_t n)
{
	c.copy(n);
	WORKS(usdma_prep_completion(done, c.s, r.sqe(), n));
	r.submit();
	assert_int_equal(r.result(n), 8);
	assert_int_equal(*c.to, n);
	assert_int_equal(usdma_completion_finish(done), 0);
}

/* ---- exact ------------------------------------------------------------------------------------------- */

void each_kind_of_ring(void **)
{
	need_rings();
	device dev;

	for (const ring_kind &k : ring_kinds) {
		ring r(k.flags);
		const completion done;

		if (!r) {
			print_message("no ring of kind %s\n", k.name);
			continue;
		}
		for (const size_t size : {size_t(64), page, MiB}) {
			copier c(dev, size);

			for (uint64_t n = 1; n <= sized(size < MiB ? 300 : 30, 10); n++)
				copy_by_ring(r, c, done, n);
		}
	}
}

/* Several of one stream, in any order of finish, beside one by the interrupt. */
void many_of_one_stream(void **)
{
	static constexpr uint64_t depth = 16;
	need_rings();
	device dev;
	ring r;
	copier c(dev);
	const completion done[depth];

	for (unsigned round = 0; round < sized(50, 10); round++) {
		for (uint64_t i = 0; i < depth; i++) {
			c.copy(i + 1);
			WORKS(usdma_prep_completion(done[i], c.s, r.sqe(), i));
		}
		r.submit();
		for (uint64_t i = 0; i < depth; i++) {
			const io_uring_cqe cqe = r.next();

			assert_int_equal(cqe.res, 8);
			assert_int_equal(usdma_completion_finish(done[cqe.user_data]), 0);
		}
	}
}

/* A linked write takes the data from where the copy puts it: an early CQE would write old data. */
void linked_behind_a_copy(void **)
{
	need_rings();
	device dev;
	ring r;
	copier c(dev, MiB);
	const completion done;
	const int fd = memfd_create("linked", MFD_CLOEXEC);

	assert_int_equal(io_uring_register_files(r.get(), &fd, 1), 0);
	for (uint64_t n = 1; n <= sized(60, 10); n++) {
		uint64_t seen = 0;

		c.copy(n);
		io_uring_sqe *sqe = r.sqe();
		WORKS(usdma_prep_completion(done, c.s, sqe, n));
		sqe->flags |= IOSQE_IO_LINK;
		io_uring_prep_write(sqe = r.sqe(), 0, const_cast<uint64_t *>(c.to), sizeof(n), 0);
		sqe->flags |= IOSQE_FIXED_FILE;
		sqe->user_data = 1000 + n;
		r.submit();
		assert_int_equal(r.result(n), 8);
		assert_int_equal(r.result(1000 + n), 8);
		assert_int_equal(pread(fd, &seen, sizeof(seen), 0), sizeof(seen));
		assert_int_equal(seen, n);
		assert_int_equal(usdma_completion_finish(done), 0);
	}
	close(fd);
}

void several_rings_and_threads(void **)
{
	need_rings();
	device dev;
	std::vector<std::thread> all;

	for (unsigned t = 0; t < 6; t++)
		all.emplace_back([&] {
			ring r;
			const completion done[2];
			copier a(dev), b(dev, 64);

			for (uint64_t n = 1; n <= sized(500, 10); n++) {
				copy_by_ring(r, a, done[0], n);
				copy_by_ring(r, b, done[1], n);
			}
		});
	for (std::thread &t : all)
		t.join();
}

/* The streams of a device with more streams than channels share them, and the interrupt. */
void streams_share_a_channel(void **)
{
	static constexpr unsigned streams = 24;
	need_rings();
	device dev;
	ring r;
	std::vector<copier> all;
	const completion done[streams];

	all.reserve(streams);
	for (unsigned i = 0; i < streams; i++)
		all.emplace_back(dev);
	for (unsigned round = 1; round <= sized(40, 10); round++) {
		for (unsigned i = 0; i < streams; i++) {
			all[i].copy(round);
			WORKS(usdma_prep_completion(done[i], all[i].s, r.sqe(), i));
		}
		r.submit();
		for (unsigned i = 0; i < streams; i++) {
			const io_uring_cqe cqe = r.next();

			assert_int_equal(*all[cqe.user_data].to, round);
			assert_int_equal(usdma_completion_finish(done[cqe.user_data]), 0);
		}
	}
}

void cancel(ring &r, uint64_t user_data)
{
	io_uring_sqe *const sqe = r.sqe();

	io_uring_prep_cancel64(sqe, user_data, 0);
	sqe->user_data = ring::cancels;
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	r.submit();
}

int finish_in_time(usdma_completion *c)
{
	int err;

	for (unsigned i = 0; (err = usdma_completion_finish(c)) == -EAGAIN && i < 60000; i++)
		poll_pause(i);
	return err;
}

/* The signal of a completion whose read was cancelled does not reach the next one. */
void cancelled_and_reused(void **)
{
	need_rings();
	device dev;
	ring r;
	copier c(dev, MiB);
	const completion done;

	for (uint64_t n = 1; n <= sized(100, 10); n++) {
		c.copy(n);
		WORKS(usdma_prep_completion(done, c.s, r.sqe(), n));
		r.submit();
		cancel(r, n);
		const int res = r.result(n);
		assert_true(res == 8 || res == -ECANCELED || res == -EINTR);
		assert_int_equal(finish_in_time(done), 0);
		assert_int_equal(*c.to, n);
		copy_by_ring(r, c, done, n + 1000);
	}
}

/* One that is never submitted takes nothing from the next. */
void prepared_and_not_submitted(void **)
{
	need_rings();
	device dev;
	ring r;
	copier c(dev);
	const completion done;
	io_uring_sqe unused;

	for (uint64_t n = 1; n <= sized(200, 10); n++) {
		c.copy(n);
		WORKS(usdma_prep_completion(done, c.s, &unused, n));
		assert_int_equal(finish_in_time(done), 0);
		copy_by_ring(r, c, done, n + 1000);
	}
}

/*
 * A program that finishes a completion before its CQE: the read that its ring still has stores at any later time, into
 * memory that stays, and is no other completion's.
 */
void finished_before_the_cqe(void **)
{
	need_rings();
	ring r(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
	const uint64_t one = 1;
	uint64_t at = 0;
	int fd = -1;

	if (!r) {
		print_message("no ring that takes signals when the program waits only\n");
		skip();
	}
	{
		const completion done;

		for (unsigned i = 0; i < 2; i++) {
			device dev;
			copier first(dev), second(dev);
			copier &c = i ? second : first;

			set_faults(dev, 0, "slow@1/20000");
			c.copy(i + 1);
			/* The second one is not submitted. */
			io_uring_sqe unused, *const sqe = i ? &unused : r.sqe();
			WORKS(usdma_prep_completion(done, c.s, sqe, i));
			assert_true(!i || sqe->addr == at);
			at = sqe->addr;
			if (fd < 0)
				fd = dup(sqe->fd);
			r.submit();
			WORKS(usdma_stream_sync(c.s, long_ms));
			assert_int_equal(finish_in_time(done), 0);
			set_faults(dev, 0, "");
		}
	}
	/* As if the device were late. */
	assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
	assert_int_equal(r.result(0), 8);
	assert_int_equal(*reinterpret_cast<const volatile uint64_t *>(at), 1);
	close(fd);
}

/* ---- what the interrupt does not report ---------------------------------------------------------------- */

/* It comes by a recheck, and a late interrupt makes no later one early. */
void lost_interrupts(void **)
{
	need_rings();
	device dev;
	ring r;
	copier c(dev, MiB);
	const completion done;

	for (unsigned round = 0; round < 3; round++) {
		set_faults(dev, 0, "drop-irq%1");
		for (uint64_t n = 1; n <= 3; n++)
			copy_by_ring(r, c, done, n);
		set_faults(dev, 0, "");
		for (uint64_t n = 1; n <= 20; n++)
			copy_by_ring(r, c, done, n);
	}
}

/* A halt raises interrupts of other kinds. This one comes when the work behind the failure has ended. */
void a_failure_makes_none_early(void **)
{
	need_rings();
	device dev;
	ring r;
	copier c(dev, MiB);
	const completion done;
	/* Else the fault may strike a descriptor that the engine's driver adds. */
	const bool exact = device_string(0).find("model=") == std::string::npos;

	for (uint64_t n = 1; n <= sized(40, 5); n++) {
		block bad(dev, kind::device, page);

		set_faults(dev, 0, "fail@1/transfer");
		WORKS(usdma_copy(c.s, bad.data(), c.host.data(), page));
		c.copy(n);
		WORKS(usdma_prep_completion(done, c.s, r.sqe(), n));
		r.submit();
		assert_int_equal(r.result(n), 8);
		assert_int_equal(*c.to, n);
		const int err = usdma_completion_finish(done);
		assert_true(err == -EIO || (!exact && !err));
		set_faults(dev, 0, "");
		copy_by_ring(r, c, done, n);
	}
}

void behind_a_gate(void **)
{
	need_rings();
	device dev;
	ring r;
	gate g(dev);
	copier c(dev);
	const completion done;
	io_uring_cqe cqe;

	g.close(c.s);
	c.copy(7);
	WORKS(usdma_prep_completion(done, c.s, r.sqe(), 7));
	r.submit();
	assert_false(r.wait(20, &cqe));
	assert_int_equal(usdma_completion_finish(done), -EAGAIN);
	g.open();
	assert_int_equal(r.result(7), 8);
	assert_int_equal(*c.to, 7);
	assert_int_equal(usdma_completion_finish(done), 0);
	copy_by_ring(r, c, done, 8);
}

void a_lost_device(void **)
{
	need_rings();
	for (const bool set : {false, true}) {
		usdma_device *dev;
		usdma_stream *s;
		usdma_completion_set *all = nullptr;
		void *mem;
		ring r;
		const completion done;

		WORKS(usdma_open("sim:mem=16M:engines=1:channels=4:faults=", &dev));
		WORKS(usdma_stream_create(dev, nullptr, &s));
		WORKS(usdma_device_alloc(dev, page, &mem));
		if (set) {
			WORKS(usdma_completion_set_create(s, &all));
			WORKS(usdma_prep_completion_set(all, r.sqe(), 5));
		}
		WORKS(usdma_device_inject(dev, "slow@1/100000+vanish@2"));
		WORKS(usdma_fill(s, mem, 0, 8, page));
		WORKS(usdma_fill(s, mem, 0, 8, page));
		if (set)
			WORKS(usdma_completion_mark(all, 1));
		else
			WORKS(usdma_prep_completion(done, s, r.sqe(), 5));
		r.submit();
		assert_true(r.result(5) > 0);
		if (set) {
			usdma_completed ended;
			int n;

			while ((n = usdma_completion_finish_many(all, &ended, 1)) == -EAGAIN)
				r.next();
			assert_int_equal(n, 1);
			assert_int_equal(ended.error, -ENODEV);
			WORKS(usdma_completion_set_destroy(all));
		} else {
			assert_int_equal(usdma_completion_finish(done), -ENODEV);
		}
		usdma_close(dev);
	}
}

/* The device is closed between the CQE's preparation and its arrival. */
void a_closed_device(void **)
{
	need_rings();
	for (unsigned i = 0; i < sized(20, 5); i++) {
		usdma_device *dev;
		usdma_stream *s;
		void *mem;
		ring r;
		const completion done;

		WORKS(usdma_open("sim:mem=16M:engines=1:channels=4", &dev));
		WORKS(usdma_stream_create(dev, nullptr, &s));
		WORKS(usdma_device_alloc(dev, MiB, &mem));
		WORKS(usdma_fill(s, mem, 0, 8, MiB));
		WORKS(usdma_prep_completion(done, s, r.sqe(), 5));
		if (i % 2)
			r.submit();
		WORKS(usdma_close(dev));
		if (!(i % 2))
			r.submit();
		assert_int_equal(r.result(5), 8);
		WORKS(usdma_completion_finish(done));
	}
}

/* ---- sets ---------------------------------------------------------------------------------------------- */

constexpr uint64_t on_marks = 77;

class marks {
public:
	explicit marks(usdma_stream *s) { WORKS(usdma_completion_set_create(s, &set_)); }
	marks(const marks &) = delete;
	~marks() { WORKS(usdma_completion_set_destroy(set_)); }
	operator usdma_completion_set *() const { return set_; }
	void arm(ring &r)
	{
		WORKS(usdma_prep_completion_set(set_, r.sqe(), on_marks));
		r.submit();
	}

private:
	usdma_completion_set *set_ = nullptr;
};

/* Takes what has ended, after the next CQE. */
unsigned take_after_cqe(ring &r, const marks &all, std::vector<usdma_completed> *out)
{
	const io_uring_cqe cqe = r.next();
	usdma_completed ended[8];
	unsigned total = 0;
	int n;

	assert_int_equal(cqe.user_data, on_marks);
	assert_true(cqe.flags & IORING_CQE_F_MORE);
	while ((n = usdma_completion_finish_many(all, ended, 8)) > 0) {
		out->insert(out->end(), ended, ended + n);
		total += unsigned(n);
	}
	assert_int_equal(n, -EAGAIN);
	return total;
}

/* 64 in flight: each is returned once, in order, with its own data. */
void keep_in_flight(ring &r, usdma_device *dev, uint64_t count)
{
	static constexpr uint64_t depth = 64;
	block host(dev, kind::pinned, 2 * depth * 64), mem(dev, kind::device, depth * 64);
	auto *const words = reinterpret_cast<volatile uint64_t *>(host.data());
	std::vector<usdma_completed> ended;
	stream s(dev);
	marks all(s);
	uint64_t sent = 0;

	all.arm(r);
	while (ended.size() < count) {
		for (; sent < count && sent - ended.size() < depth; sent++) {
			unsigned char *const at = host.data() + sent % depth * 64;

			words[sent % depth * 8] = sent + 1;
			words[(depth + sent % depth) * 8] = 0;
			WORKS(usdma_copy(s, mem.data() + sent % depth * 64, at, 64));
			WORKS(usdma_copy(s, at + depth * 64, mem.data() + sent % depth * 64, 64));
			WORKS(usdma_completion_mark(all, sent));
		}
		const size_t before = ended.size();
		take_after_cqe(r, all, &ended);
		for (size_t i = before; i < ended.size(); i++) {
			assert_int_equal(ended[i].user_data, i);
			assert_int_equal(ended[i].error, 0);
			assert_int_equal(words[(depth + i % depth) * 8], i + 1);
		}
	}
	cancel(r, on_marks);
	for (io_uring_cqe last = r.next(); last.flags & IORING_CQE_F_MORE; last = r.next())
		;
}

void a_set_in_each_kind_of_ring(void **)
{
	need_rings();
	device dev;

	for (const ring_kind &k : ring_kinds) {
		ring r(k.flags);

		if (r)
			keep_in_flight(r, dev, sized(5000, 10));
	}
}

/* The second set of a channel, and one of a gated stream, are signalled by the library's thread. */
void sets_side_by_side(void **)
{
	static constexpr unsigned threads = 4;
	need_rings();
	device dev;
	std::vector<std::thread> all;

	for (unsigned t = 0; t < threads; t++)
		all.emplace_back([&] {
			ring r;

			keep_in_flight(r, dev, sized(3000, 10));
		});
	for (std::thread &t : all)
		t.join();
}

void two_sets_of_a_stream(void **)
{
	need_rings();
	device dev;
	ring r[2];
	copier c(dev);
	std::vector<usdma_completed> ended[2];
	marks a(c.s), b(c.s);
	const marks *const both[] = {&a, &b};

	a.arm(r[0]);
	b.arm(r[1]);
	for (uint64_t n = 1; n <= sized(500, 10); n++) {
		for (unsigned i = 0; i < 2; i++) {
			c.copy(n);
			WORKS(usdma_completion_mark(*both[i], n));
		}
		for (unsigned i = 0; i < 2; i++)
			while (ended[i].size() < n)
				take_after_cqe(r[i], *both[i], &ended[i]);
	}
}

void a_set_behind_a_gate(void **)
{
	need_rings();
	device dev;
	ring r;
	gate g(dev);
	copier c(dev);
	std::vector<usdma_completed> ended;
	usdma_completed one;
	marks all(c.s);

	all.arm(r);
	c.copy(1);
	WORKS(usdma_completion_mark(all, 1));
	g.close(c.s);
	c.copy(2);
	WORKS(usdma_completion_mark(all, 2));
	while (ended.empty())
		take_after_cqe(r, all, &ended);
	assert_int_equal(usdma_completion_finish_many(all, &one, 1), -EAGAIN);
	assert_int_equal(usdma_completion_set_destroy(all), -EBUSY);
	g.open();
	while (ended.size() < 2)
		take_after_cqe(r, all, &ended);
	assert_int_equal(ended[1].user_data, 2);
}

/* Each failure at its mark. Where a copy takes several descriptors, the faults strike others than these. */
void failures_of_a_set(void **)
{
	static constexpr unsigned n = 40;
	need_rings();
	device dev;
	ring r;
	stream s(dev);
	block host(dev, kind::pinned, page), mem(dev, kind::device, page);
	const bool exact = device_string(0).find("model=") == std::string::npos;
	std::vector<usdma_completed> ended;
	unsigned failed = 0;
	marks all(s);

	set_faults(dev, 0, "fail@7/transfer+fail@23/transfer");
	all.arm(r);
	for (unsigned i = 1; i <= n; i++) {
		WORKS(usdma_copy(s, mem.data(), host.data(), page));
		WORKS(usdma_completion_mark(all, i));
	}
	while (ended.size() < n)
		take_after_cqe(r, all, &ended);
	for (unsigned i = 1; i <= n; i++) {
		assert_int_equal(ended[i - 1].user_data, i);
		assert_true(ended[i - 1].error == 0 || ended[i - 1].error == -EIO);
		assert_true(!exact || (ended[i - 1].error != 0) == (i == 7 || i == 23));
		failed += ended[i - 1].error != 0;
	}
	assert_int_equal(failed, 2);
	set_faults(dev, 0, "");
}

void lost_interrupts_of_a_set(void **)
{
	need_rings();
	device dev;
	ring r;
	copier c(dev);
	std::vector<usdma_completed> ended;
	marks all(c.s);

	all.arm(r);
	set_faults(dev, 0, "drop-irq%1");
	for (uint64_t n = 1; n <= 3; n++) {
		c.copy(n);
		WORKS(usdma_completion_mark(all, n));
		while (ended.size() < n)
			take_after_cqe(r, all, &ended);
	}
	set_faults(dev, 0, "");
}

/* Without a ring. */
void a_polled_set(void **)
{
	need_rings();
	device dev;
	copier c(dev);
	usdma_completed ended;
	marks all(c.s);

	assert_int_equal(usdma_completion_finish_many(all, &ended, 1), -EAGAIN);
	assert_int_equal(usdma_completion_finish_many(all, &ended, 0), -EINVAL);
	for (uint64_t n = 1; n <= sized(2000, 10); n++) {
		int got;

		c.copy(n);
		WORKS(usdma_completion_mark(all, n));
		for (unsigned i = 0; (got = usdma_completion_finish_many(all, &ended, 1)) == -EAGAIN; i++)
			poll_pause(i);
		assert_int_equal(got, 1);
		assert_int_equal(ended.user_data, n);
		assert_int_equal(*c.to, n);
	}
}

void finish_two(copier &c, const completion (&two)[2])
{
	io_uring_sqe unused;

	for (const completion &one : two)
		WORKS(usdma_prep_completion(one, c.s, &unused, 1));
	WORKS(usdma_stream_sync(c.s, long_ms));
	for (const completion &one : two)
		assert_int_equal(usdma_completion_finish(one), 0);
}

void finish_each(copier &c, usdma_completion *by_fd, const completion (&two)[2], const marks &a, const marks &b)
{
	usdma_completed ended[2];
	io_uring_sqe unused;
	int fd;

	WORKS(usdma_completion_start(by_fd, c.s, &fd));
	for (const completion &one : two)
		WORKS(usdma_prep_completion(one, c.s, &unused, 1));
	for (const marks *set : {&a, &b, &a, &b})
		WORKS(usdma_completion_mark(*set, 7));
	WORKS(usdma_stream_sync(c.s, long_ms));
	for (const marks *set : {&a, &b})
		assert_int_equal(usdma_completion_finish_many(*set, ended, 2), 2);
	assert_int_equal(usdma_completion_finish(by_fd), 0);
	for (const completion &one : two)
		assert_int_equal(usdma_completion_finish(one), 0);
}

/* What a sync has waited for has ended, also if the signal of the device, or of the library's thread, has yet to come.
 */
void finished_behind_a_sync(void **)
{
	need_rings();
	device dev;
	copier c(dev), other(dev, MiB);
	const completion by_fd, two[2];
	const event gate(dev);

	for (uint64_t n = 1; n <= sized(60, 10); n++) {
		c.copy(n);
		finish_two(c, two);
	}
	set_faults(dev, 0, "drop-irq%1");
	c.copy(1);
	finish_two(c, two);
	set_faults(dev, 0, "");
	const marks by_device(c.s), by_thread(c.s);
	for (uint64_t n = 1; n <= sized(60, 10); n++) {
		other.copy(n);
		WORKS(usdma_event_record(gate, other.s));
		if (n % 4 == 1)
			WORKS(usdma_stream_wait_event(c.s, gate));
		c.copy(n);
		finish_each(c, by_fd, two, by_device, by_thread);
	}
}

void a_set_outlives_its_stream(void **)
{
	need_rings();
	device dev;
	usdma_stream *s;
	usdma_completion_set *all;
	usdma_completed ended;
	block mem(dev, kind::device, MiB);
	int n;

	WORKS(usdma_stream_create(dev, nullptr, &s));
	WORKS(usdma_completion_set_create(s, &all));
	WORKS(usdma_fill(s, mem.data(), 1, 8, MiB));
	WORKS(usdma_completion_mark(all, 3));
	WORKS(usdma_stream_destroy(s));
	assert_int_equal(usdma_completion_mark(all, 4), -EBADF);
	while ((n = usdma_completion_finish_many(all, &ended, 1)) == -EAGAIN)
		std::this_thread::yield();
	assert_int_equal(n, 1);
	assert_int_equal(ended.user_data, 3);
	WORKS(usdma_completion_set_destroy(all));
	assert_int_equal(usdma_completion_set_destroy(all), -EBADF);
}

} // namespace

int main()
{
	const usdma::test::dropping_interrupts scope;
	const CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_of_ring),
		cmocka_unit_test(many_of_one_stream),
		cmocka_unit_test(linked_behind_a_copy),
		cmocka_unit_test(several_rings_and_threads),
		cmocka_unit_test(streams_share_a_channel),
		cmocka_unit_test(cancelled_and_reused),
		cmocka_unit_test(prepared_and_not_submitted),
		cmocka_unit_test(finished_before_the_cqe),
		cmocka_unit_test(lost_interrupts),
		cmocka_unit_test(a_failure_makes_none_early),
		cmocka_unit_test(behind_a_gate),
		cmocka_unit_test(a_lost_device),
		cmocka_unit_test(a_closed_device),
		cmocka_unit_test(a_set_in_each_kind_of_ring),
		cmocka_unit_test(sets_side_by_side),
		cmocka_unit_test(two_sets_of_a_stream),
		cmocka_unit_test(a_set_behind_a_gate),
		cmocka_unit_test(failures_of_a_set),
		cmocka_unit_test(lost_interrupts_of_a_set),
		cmocka_unit_test(a_polled_set),
		cmocka_unit_test(finished_behind_a_sync),
		cmocka_unit_test(a_set_outlives_its_stream),
	};

	return cmocka_run_group_tests_name("uring", tests, nullptr, nullptr);
}
