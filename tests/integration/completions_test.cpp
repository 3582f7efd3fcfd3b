/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A failure belongs to the operation that failed: random operations of which some fail, with completions that are
 * finished in random order; an oracle knows from the memory which of them did. USDMA_TEST_SCALE=N: N times as many.
 */
#include "tests/integration/faults.h"
#include "tests/integration/files.h"
#include "tests/support/preempt.h"
#include "tests/support/sanitizer.h"
#include "tests/support/until.h"
#include "usdma/uring.h"

#include <atomic>
#include <csignal>
#include <liburing.h>
#include <map>
#include <poll.h>
#include <set>
#include <sys/resource.h>
#include <thread>
#include <utility>

using namespace usdma::test;

/* A completion is finished, and its eventfd closed, once the ring has read what was written, which TSan does not see.
 */
TEST_TSAN_SUPPRESSIONS(TEST_UNORDERED_COPIES "race:to_completion\n")

static constexpr uint64_t none = 0;

static uint64_t sequence_of(usdma_stream *s)
{
	usdma_stream_stats st = {};

	st.struct_size = sizeof(st);
	WORKS(usdma_stream_get_stats(s, &st));
	return st.sequence;
}

static uint64_t errors_of(usdma_stream *s)
{
	usdma_stream_stats st = {};

	st.struct_size = sizeof(st);
	WORKS(usdma_stream_get_stats(s, &st));
	return st.errors;
}

static usdma_error_info take(usdma_stream *s)
{
	usdma_error_info e = {};

	e.struct_size = sizeof(e);
	WORKS(usdma_stream_take_error(s, &e));
	return e;
}

static void await_done(usdma_stream *s)
{
	while (WORKS(usdma_stream_query(s)) == 0)
		std::this_thread::yield();
}

/* ---- completions ------------------------------------------------------------------------------------ */

class ring {
public:
	explicit ring(unsigned entries = 64) { assert_int_equal(io_uring_queue_init(entries, &r_, 0), 0); }
	ring(const ring &) = delete;
	~ring() { io_uring_queue_exit(&r_); }
	void prepare(usdma_completion *c, usdma_stream *s, uint64_t data)
	{
		WORKS(usdma_prep_completion(c, s, io_uring_get_sqe(&r_), data));
		assert_int_equal(io_uring_submit(&r_), 1);
	}
	/* The user data of the next one. */
	uint64_t wait()
	{
		io_uring_cqe *cqe;

		__kernel_timespec most = {long_ms / 1000, 0};
		assert_int_equal(io_uring_wait_cqe_timeout(&r_, &cqe, &most), 0);
		assert_int_equal(cqe->res, 8);
		const uint64_t data = cqe->user_data;
		io_uring_cqe_seen(&r_, cqe);
		return data;
	}

private:
	io_uring r_;
};

class completion {
public:
	completion() { WORKS(usdma_completion_create(&c_)); }
	completion(completion &&o) noexcept : c_(std::exchange(o.c_, nullptr)) {}
	completion(const completion &) = delete;
	~completion()
	{
		if (c_)
			WORKS(usdma_completion_destroy(c_));
	}
	operator usdma_completion *() const { return c_; }
	usdma_error_info take() const
	{
		usdma_error_info e = {};

		e.struct_size = sizeof(e);
		WORKS(usdma_completion_take_error(c_, &e));
		return e;
	}

private:
	usdma_completion *c_ = nullptr;
};

/* ---- random operations ------------------------------------------------------------------------------ */

enum class sort { copy, fill, file, wait, bad_file };

/* One operation; its result is seen in a slot of the memory. */
struct operation {
	sort is = sort::wait;
	size_t slot = 0;
	uint64_t batch = none; /* number of a failed file's … */
};

static constexpr size_t slot_size = 128, copied = 64, in_file = 1000; /* items that cannot be joined */
static constexpr size_t most_in_turn = 6, most_items = 8;
static constexpr unsigned char before = 0xee, filled = 0x77;
static constexpr uint64_t file_limit = 1 << 30; /* more than devices need */

struct work {
	device dev;
	stream s{dev};
	size_t slots;
	block src, dst, word;
	char path[32] = "/tmp/usdma-completions-XXXXXX";
	usdma_file *file = nullptr;
	std::mt19937_64 gen = rng();
	std::map<uint64_t, operation> all; /* by number */
	std::set<uint64_t> reported;
	uint64_t reports = 0, gate = 0;
	size_t used = 0;
	ring r;
	std::vector<completion> completions;
	std::vector<std::pair<uint64_t, uint64_t>> owned; /* of each completion: the numbers behind and up to these */
	std::vector<size_t> unused, arrived;
	size_t outstanding = 0;
	uint64_t marked = 0;

	explicit work(size_t n);
	~work();
	int content_of(const operation &o) const;
	unsigned char *at(size_t slot) const { return dst.data() + slot * slot_size; }
	const unsigned char *from(size_t slot) const { return src.data() + slot * slot_size; }
	void note(uint64_t number, sort is, size_t slot);
	size_t take_slots(size_t n);
	void submit();
	void submit_copies(size_t n);
	void submit_file();
	void submit_gate();
	void open_gate();
	void prepare(size_t depth);
	void finish_one();
	void check_failed(uint64_t number, uint64_t first, uint64_t last);
};

work::work(size_t n)
	: slots(n), src(dev, kind::pinned, n * slot_size), dst(dev, kind::pinned, n * slot_size),
	  word(dev, kind::pinned, 64)
{
	const int fd = mkstemp(path);

	assert_true(fd >= 0);
	for (size_t i = 0; i < n * slot_size; i++)
		src.data()[i] = static_cast<unsigned char>(i / slot_size % 101); /* never that of another state */
	memset(dst.data(), before, n * slot_size);
	memset(word.data(), 0, 64);
	assert_int_equal(pwrite(fd, src.data(), in_file * slot_size, 0), in_file * slot_size);
	WORKS(usdma_file_import(dev, fd, USDMA_FILE_BUFFERED, &file));
	close(fd);
	completions.resize(64);
	owned.resize(64);
	for (size_t i = 0; i < 64; i++)
		unused.push_back(i);
}

work::~work()
{
	WORKS(usdma_file_close(file));
	unlink(path);
}

size_t work::take_slots(size_t n)
{
	assert_true(used + n <= slots);
	return (used += n) - n;
}

void work::note(uint64_t number, sort is, size_t slot)
{
	assert_true(all.empty() || number > all.rbegin()->first);
	all[number] = {is, slot, none};
}

void work::submit_copies(size_t n)
{
	const size_t first = take_slots(n);
	std::vector<usdma_copy_item> items;
	uint64_t number = none;

	for (size_t i = first; i < first + n; i++)
		items.push_back({at(i), from(i), copied});
	if (n == 1)
		WORKS(usdma_submit_copy(s, at(first), from(first), copied, 0, &number));
	else
		WORKS(usdma_submit_batch(s, items.data(), n, 0, nullptr, &number));
	assert_int_not_equal(number, none);
	for (size_t i = 0; i < n; i++)
		note(number + i, sort::copy, first + i);
}

/* Without faults on demand, as behind the kernel's VFIO, only files fail, about one operation in a hundred. */
static bool may_inject()
{
	const std::string device = device_string(0), scheme = "vfio-user:";

	return device.starts_with(scheme) ? !access((device.substr(scheme.size()) + ".control").c_str(), F_OK) :
					    device.find("faults=") != std::string::npos;
}

/* Some write beyond the limit of the file's size. */
void work::submit_file()
{
	const size_t slot = take_slots(1);
	const bool bad = gen() % (may_inject() ? 8 : 3) == 0;

	if (bad)
		WORKS(usdma_file_write(s, file, file_limit, from(slot), copied, nullptr));
	else
		WORKS(usdma_file_read(s, at(slot), file, slot % in_file * slot_size, copied, nullptr));
	note(sequence_of(s), bad ? sort::bad_file : sort::file, slot);
}

/* A WAIT in the ring, or a function that later work waits for. */
void work::submit_gate()
{
	const auto nothing = [](void *) {};

	if (gen() % 2) {
		WORKS(usdma_stream_call(s, nothing, nullptr, 1));
		return;
	}
	WORKS(usdma_wait_value(s, word.data(), USDMA_GEQ, ++gate));
	note(sequence_of(s), sort::wait, 0);
}

void work::open_gate()
{
	__atomic_store_n(reinterpret_cast<uint64_t *>(word.data()), gate, __ATOMIC_RELEASE);
}

void work::submit()
{
	switch (gen() % 16) {
	case 0:
		return submit_gate();
	case 1:
		return submit_file();
	case 2:
	case 3: {
		const size_t slot = take_slots(1);

		WORKS(usdma_fill(s, at(slot), filled, 1, copied));
		return note(sequence_of(s), sort::fill, slot);
	}
	case 4:
	case 5:
		return submit_copies(2 + gen() % (most_items - 1));
	default:
		return submit_copies(1);
	}
}

void work::prepare(size_t depth)
{
	while (outstanding >= depth)
		finish_one();
	const size_t i = unused.back();

	unused.pop_back();
	owned[i] = {marked, sequence_of(s)};
	marked = owned[i].second;
	r.prepare(completions[i], s, i);
	outstanding++;
}

void work::check_failed(uint64_t number, uint64_t first, uint64_t last)
{
	assert_true(number > first && number <= last);
	assert_int_equal(all.count(number), 1);
	reports++;
	assert_true(reported.insert(number).second); /* once */
}

/* Any of those that have arrived. */
void work::finish_one()
{
	usdma_error_info e;

	open_gate();
	arrived.push_back(r.wait());
	const size_t k = gen() % arrived.size(), i = arrived[k];
	arrived.erase(arrived.begin() + long(k));
	const auto [first, last] = owned[i];
	while ((e = completions[i].take()).error) {
		check_failed(e.sequence, first, last);
		assert_int_equal(e.more, 0);
	}
	assert_int_equal(usdma_completion_finish(completions[i]), 0);
	unused.push_back(i);
	outstanding--;
}

/* 1: made; 0: not. */
int work::content_of(const operation &o) const
{
	const unsigned char want = o.is == sort::fill ? filled :
				   o.is == sort::file ? static_cast<unsigned char>(o.slot % in_file % 101) :
							*from(o.slot);

	if (all_are(at(o.slot), copied, want))
		return 1;
	const bool untouched = all_are(at(o.slot), copied, before);

	if (!untouched)
		print_error("slot %zu, sort %d: %02x … %02x, not %02x nor %02x\n", o.slot, int(o.is), at(o.slot)[0],
			    at(o.slot)[copied - 1], want, before);
	assert_true(untouched);
	return 0;
}

static void check_all(const work &w)
{
	for (const auto &[number, o] : w.all) {
		const bool failed = w.reported.count(number);

		if (o.is == sort::bad_file)
			assert_true(failed);
		else if (o.is != sort::wait)
			assert_int_equal(w.content_of(o), !failed);
	}
	assert_int_equal(errors_of(w.s), w.reports);
	print_message("# %zu operations, %zu failed\n", w.all.size(), w.reported.size());
}

static void run_random(size_t n)
{
	work w(n + most_in_turn * most_items); /* the last turn begins with n - 1 */

	if (may_inject())
		set_faults(w.dev, 0, "fail~10000");
	while (w.used < n) {
		for (size_t k = 1 + w.gen() % most_in_turn; k; k--)
			w.submit();
		w.prepare(1 + w.gen() % 64);
		if (w.gen() % 4 == 0)
			w.open_gate();
	}
	while (w.outstanding)
		w.finish_one();
	if (may_inject())
		set_faults(w.dev, 0, "");
	assert_int_equal(usdma_stream_sync(w.s, long_ms), 0);
	check_all(w);
}

static void random_operations(void **)
{
	run_random(4000 * scale());
}

/* ---- two at a time ---------------------------------------------------------------------------------- */

struct bench {
	device dev;
	stream s{dev};
	block host{dev, kind::pinned, 4096}, mem{dev, kind::device, 4096};
	ring r;

	uint64_t copy(size_t len = 4096)
	{
		uint64_t number;

		WORKS(usdma_submit_copy(s, mem.data(), host.data(), len, 0, &number));
		return number;
	}
	/* A copy that fails. */
	uint64_t fail()
	{
		await_done(s);
		set_faults(dev, 0, "fail@1");
		const uint64_t number = copy();
		await_done(s);
		set_faults(dev, 0, "");
		return number;
	}
};

static void each_order(void **)
{
	bench b;
	completion c[3];

	for (int order = 0; order < 6; order++) {
		int turn[] = {0, 1, 2};

		for (int i = 0; i < 3; i++) {
			i == 1 ? b.fail() : b.copy();
			b.r.prepare(c[i], b.s, uint64_t(i));
		}
		for (int i = 0; i < order; i++)
			std::next_permutation(turn, turn + 3);
		for (int i = 0; i < 3; i++)
			b.r.wait();
		for (const int i : turn)
			assert_int_equal(usdma_completion_finish(c[i]), i == 1 ? -EIO : 0);
	}
	WORKS(usdma_stream_sync(b.s, long_ms));
}

static void without_a_ring(void **)
{
	bench b;
	completion c, d;
	int fd[2];

	b.copy();
	WORKS(usdma_completion_start(c, b.s, &fd[0]));
	assert_int_equal(usdma_completion_start(c, b.s, &fd[1]), -EBUSY);
	b.fail();
	WORKS(usdma_completion_start(d, b.s, &fd[1]));
	for (const int one : fd) {
		pollfd p = {one, POLLIN, 0};

		assert_int_equal(poll(&p, 1, long_ms), 1);
	}
	assert_int_equal(usdma_completion_finish(d), -EIO);
	WORKS(usdma_completion_finish(c));
	/* Used again: its signal was taken. */
	block word(b.dev, kind::pinned, 64);
	memset(word.data(), 0, 64);
	WORKS(usdma_wait_value(b.s, word.data(), USDMA_EQ, 1));
	WORKS(usdma_completion_start(c, b.s, &fd[0]));
	assert_int_equal(usdma_completion_finish(c), -EAGAIN);
	__atomic_store_n(reinterpret_cast<uint64_t *>(word.data()), 1, __ATOMIC_RELEASE);
	WORKS(usdma_stream_sync(b.s, long_ms));
	pollfd p = {fd[0], POLLIN, 0};
	assert_int_equal(poll(&p, 1, long_ms), 1);
	WORKS(usdma_completion_finish(c));
}

/* ---- functions with a status ------------------------------------------------------------------------ */

struct calls {
	std::atomic<unsigned> n{0};
	int status[8] = {};

	static void note(void *arg, int status)
	{
		auto *c = static_cast<calls *>(arg);

		c->status[c->n.load()] = status;
		c->n++;
	}
	void await(unsigned all) const
	{
		while (n < all)
			std::this_thread::yield();
	}
};

static void functions(void **)
{
	bench b;
	completion c;
	calls got;

	for (int i = 0; i < 4; i++) {
		i == 1 || i == 2 ? b.fail() : b.copy();
		if (i == 2)
			b.r.prepare(c, b.s, 1);
		WORKS(usdma_stream_call_status(b.s, calls::note, &got, i % 2));
	}
	b.r.wait();
	got.await(4);
	static constexpr int want[] = {0, -EIO, 0, 0};
	assert_memory_equal(got.status, want, sizeof(want));
	assert_int_equal(usdma_completion_finish(c), -EIO);
	WORKS(usdma_stream_sync(b.s, long_ms));
	assert_int_equal(usdma_stream_call_status(b.s, nullptr, nullptr, 0), -EINVAL);
}

static void functions_of_dropped_work(void **)
{
	bench b;
	block word(b.dev, kind::pinned, 64);
	calls got;

	memset(word.data(), 0, 64);
	WORKS(usdma_wait_value(b.s, word.data(), USDMA_EQ, 1));
	for (const int hold : {0, 1, 0, 1})
		WORKS(usdma_stream_call_status(b.s, calls::note, &got, hold));
	WORKS(usdma_stream_abort(b.s));
	got.await(4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(got.status[i], -ECANCELED);
	assert_int_equal(usdma_stream_call_status(b.s, calls::note, &got, 0), -ECANCELED);
}

/* Each is called, behind the failure with that. */
static void functions_of_a_stopped_stream(void **)
{
	for (const int hold : {0, 1}) {
		bench b;
		std::atomic<bool> open{false};
		std::atomic<unsigned> plain{0};
		calls got;

		WORKS(usdma_stream_set_fail_mode(b.s, USDMA_FAIL_STOP));
		set_faults(b.dev, 0, "fail@2");
		WORKS(usdma_stream_call(
			b.s,
			[](void *o) {
				until("the gate is open", [=] { return static_cast<std::atomic<bool> *>(o)->load(); });
			},
			&open, 1));
		for (int i = 0; i < 3; i++) {
			b.copy();
			WORKS(usdma_stream_call_status(b.s, calls::note, &got, hold));
			WORKS(usdma_stream_call(
				b.s, [](void *n) { ++*static_cast<std::atomic<unsigned> *>(n); }, &plain, hold));
		}
		open = true;
		got.await(3);
		until("all functions were called", [&] { return plain == 3; });
		static constexpr int want[] = {0, -EIO, -EIO};
		assert_memory_equal(got.status, want, sizeof(want));
		assert_int_equal(usdma_stream_sync(b.s, long_ms), -EIO);
		set_faults(b.dev, 0, "");
	}
}

/* ---- calls that do not wait ------------------------------------------------------------------------- */

static void a_full_ring(void **)
{
	bench b;
	usdma_device_info info = {};
	block word(b.dev, kind::pinned, 64);
	usdma_stream *other;
	uint64_t number = none, last = none;
	size_t n = 0, done = 0;
	int err = 0;

	/* A ring that is not in a WAIT. The engine is slow, but may be quicker than this thread on a busy machine. */
	info.struct_size = sizeof(info);
	WORKS(usdma_device_get_info(b.dev, &info));
	for (; !err; n++) {
		if (n % info.ring_size == 0)
			set_faults(b.dev, 0, "slow@1/200000");
		err = usdma_submit_copy(b.s, b.mem.data(), b.host.data(), 64, USDMA_NOWAIT, &number);
		last = err ? last : number;
	}
	assert_int_equal(err, -EAGAIN);
	assert_int_equal(last, n - 1);
	assert_int_equal(sequence_of(b.s), last);
	std::vector<usdma_copy_item> items(4, {b.mem.data(), b.host.data(), 64});
	assert_int_equal(usdma_submit_batch(b.s, items.data(), 4, USDMA_NOWAIT, &done, &number), -EAGAIN);
	assert_int_equal(done, 0);
	assert_int_equal(sequence_of(b.s), last);
	/* Others are not affected. */
	WORKS(usdma_stream_create(b.dev, nullptr, &other));
	WORKS(usdma_submit_copy(other, b.mem.data(), b.host.data(), 64, USDMA_NOWAIT, nullptr));
	set_faults(b.dev, 0, "");
	WORKS(usdma_stream_sync(b.s, long_ms));
	WORKS(usdma_submit_batch(b.s, items.data(), 4, USDMA_NOWAIT, &done, &number));
	assert_int_equal(done, 4);
	WORKS(usdma_stream_destroy(other));
}

/* A thread that submits, stopped where it waits for a slot of the ring. */
class late_submit {
public:
	late_submit(const bench &b, size_t n) : thread_([this, &b, n] { run(b, n); }) {}
	/* False: it had not to wait. */
	bool await()
	{
		while (!at_)
			std::this_thread::yield();
		return at_ == waits;
	}
	/* Its first number. */
	uint64_t go_on()
	{
		at_ = goes_on;
		thread_.join();
		assert_int_equal(err_, 0);
		return number_;
	}

private:
	enum { waits = 1, goes_on };

	/* The first lock of the call: the wait's. */
	void run(const bench &b, size_t n)
	{
		const std::vector<usdma_copy_item> items(n, {b.mem.data(), b.host.data(), 64});
		const lock_hooks hooks = {[this](const void *) {
						  if (at_)
							  return;
						  for (at_ = waits; at_ == waits;)
							  std::this_thread::yield();
					  },
					  {}};

		/* The library knows the thread then. */
		sequence_of(b.s);
		hook_locks(&hooks);
		err_ = usdma_submit_batch(b.s, items.data(), n, 0, nullptr, &number_);
		hook_locks(nullptr);
		at_ = goes_on;
	}

	std::atomic<int> at_{0};
	int err_ = 0;
	uint64_t number_ = none;
	std::thread thread_;
};

/* What is not in the ring yet is behind a completion that another thread prepares, whatever its number is. */
static void behind_a_full_ring(void **)
{
	bench b;
	usdma_device_info info = {};
	completion c, d;

	info.struct_size = sizeof(info);
	WORKS(usdma_device_get_info(b.dev, &info));
	for (const size_t n : {size_t(1), size_t(3 * info.ring_size)}) {
		bool waits = false;

		/* The engine may be quicker than this thread. */
		while (!waits) {
			WORKS(usdma_stream_sync(b.s, long_ms));
			set_faults(b.dev, 0, "slow@1/100000");
			while (n == 1 &&
			       usdma_submit_copy(b.s, b.mem.data(), b.host.data(), 64, USDMA_NOWAIT, nullptr) == 0)
				;
			late_submit other(b, n);
			waits = other.await();
			const uint64_t last = sequence_of(b.s);
			b.r.prepare(c, b.s, 1);
			b.r.wait();
			set_faults(b.dev, 0, "fail@1");
			const uint64_t number = other.go_on();
			b.r.prepare(d, b.s, 2);
			b.r.wait();
			set_faults(b.dev, 0, "");
			if (waits) {
				const uint64_t failed = d.take().sequence;

				assert_true(failed >= number && failed < number + n);
				assert_true(n > 1 || number == last + 1);
				assert_int_equal(c.take().error, 0);
			}
			WORKS(usdma_completion_finish(d));
			WORKS(usdma_completion_finish(c));
		}
	}
}

static void unregistered_memory(void **)
{
	bench b;
	bytes pageable(4096, 7);
	block word(b.dev, kind::pinned, 64);
	size_t done = 0;

	memset(word.data(), 0, 64);
	WORKS(usdma_wait_value(b.s, word.data(), USDMA_EQ, 1));
	assert_int_equal(usdma_submit_copy(b.s, b.mem.data(), pageable.data(), 4096, USDMA_NOWAIT, nullptr), -EAGAIN);
	assert_int_equal(usdma_submit_copy(b.s, pageable.data(), b.mem.data(), 4096, USDMA_NOWAIT, nullptr), -EAGAIN);
	const usdma_copy_item items[] = {{b.mem.data(), b.host.data(), 64},
					 {b.mem.data() + 1024, b.host.data(), 64},
					 {b.mem.data(), pageable.data(), 64},
					 {b.mem.data(), b.host.data(), 64}};
	assert_int_equal(usdma_submit_batch(b.s, items, 4, USDMA_NOWAIT, &done, nullptr), -EAGAIN);
	assert_int_equal(done, 2);
	/* The wait, and the two. */
	assert_int_equal(sequence_of(b.s), 3);
	__atomic_store_n(reinterpret_cast<uint64_t *>(word.data()), 1, __ATOMIC_RELEASE);
	WORKS(usdma_stream_sync(b.s, long_ms));
	WORKS(usdma_submit_copy(b.s, b.mem.data(), pageable.data(), 4096, 0, nullptr));
}

/* ---- two at a time, and waits ----------------------------------------------------------------------- */

/* A wait of the stream returns what no completion owns. */
static void beside_a_wait(void **)
{
	bench b;
	completion c, d;

	b.fail();
	b.r.prepare(c, b.s, 1);
	WORKS(usdma_stream_sync(b.s, long_ms));
	assert_int_equal(take(b.s).error, 0);
	const uint64_t own = b.fail();
	b.r.wait();
	usdma_error_info e = take(b.s);
	assert_int_equal(e.error, -EIO);
	assert_int_equal(e.sequence, own);
	assert_int_equal(usdma_completion_finish(c), -EIO);
	assert_int_equal(usdma_completion_finish(c), -EINVAL);
	b.fail();
	assert_int_equal(usdma_stream_sync(b.s, long_ms), -EIO);
	b.r.prepare(d, b.s, 2);
	b.r.wait();
	WORKS(usdma_completion_finish(d));
}

/* What a stream has not returned, the next completion does. */
static void earlier_failures(void **)
{
	bench b;
	completion c;
	const uint64_t first = b.fail(), second = b.fail();

	b.r.prepare(c, b.s, 1);
	b.r.wait();
	assert_int_equal(c.take().sequence, first);
	assert_int_equal(c.take().sequence, second);
	assert_int_equal(c.take().error, 0);
	WORKS(usdma_completion_finish(c));
}

static void after_the_stream(void **)
{
	device dev;
	block host(dev, kind::pinned, 4096), mem(dev, kind::device, 4096);
	completion c[2];
	usdma_stream *s;
	ring r;

	WORKS(usdma_stream_create(dev, nullptr, &s));
	set_faults(dev, 0, "fail@2");
	for (int i = 0; i < 2; i++) {
		WORKS(usdma_copy(s, mem.data(), host.data(), 4096));
		r.prepare(c[i], s, uint64_t(i));
	}
	WORKS(usdma_stream_destroy(s));
	set_faults(dev, 0, "");
	{
		stream next(dev);

		WORKS(usdma_copy(next, mem.data(), host.data(), 4096));
		r.wait();
		r.wait();
		assert_int_equal(usdma_completion_finish(c[1]), -EIO);
		assert_int_equal(usdma_completion_finish(c[0]), 0);
		WORKS(usdma_stream_sync(next, long_ms));
	}
}

static void after_the_device(void **)
{
	completion c[2];
	usdma_device *dev;
	usdma_stream *s;
	void *word, *mem;
	ring r;

	WORKS(usdma_open_index(0, &dev));
	WORKS(usdma_stream_create(dev, nullptr, &s));
	WORKS(usdma_host_alloc(nullptr, 4096, &word));
	WORKS(usdma_device_alloc(dev, 4096, &mem));
	memset(word, 0, 4096);
	WORKS(usdma_copy(s, mem, word, 64));
	r.prepare(c[0], s, 0);
	WORKS(usdma_stream_call(
		s, [](void *) {}, nullptr, 1));
	WORKS(usdma_wait_value(s, word, USDMA_EQ, 1));
	WORKS(usdma_copy(s, mem, word, 64));
	r.prepare(c[1], s, 1);
	WORKS(usdma_close(dev));
	r.wait();
	r.wait();
	WORKS(usdma_completion_finish(c[0]));
	assert_int_equal(usdma_completion_finish(c[1]), -ECANCELED);
	WORKS(usdma_host_free(word));
	device again;
	stream t(again);
	WORKS(usdma_device_sync(again, long_ms));
}

static void failure_mode_stop(void **)
{
	bench b;
	completion c[4];

	WORKS(usdma_stream_set_fail_mode(b.s, USDMA_FAIL_STOP));
	set_faults(b.dev, 0, "slow@1/20000+fail@2");
	for (int i = 0; i < 4; i++) {
		b.copy();
		if (i == 2)
			WORKS(usdma_stream_call(
				b.s, [](void *) {}, nullptr, 1));
		b.r.prepare(c[i], b.s, uint64_t(i));
	}
	for (int i = 0; i < 4; i++)
		b.r.wait();
	set_faults(b.dev, 0, "");
	for (int i = 3; i >= 0; i--)
		assert_int_equal(usdma_completion_finish(c[i]), i ? -EIO : 0);
	assert_int_equal(usdma_stream_sync(b.s, long_ms), -EIO);
	assert_int_equal(usdma_copy(b.s, b.mem.data(), b.host.data(), 64), -EIO);
}

/* What had ended before an abort stays done. */
static void aborted(void **)
{
	bench b;
	block word(b.dev, kind::pinned, 64);
	completion c[3];

	memset(word.data(), 0, 64);
	b.copy();
	b.r.prepare(c[0], b.s, 0);
	assert_int_equal(b.r.wait(), 0);
	WORKS(usdma_wait_value(b.s, word.data(), USDMA_EQ, 1));
	b.copy();
	b.r.prepare(c[1], b.s, 1);
	WORKS(usdma_stream_call(
		b.s, [](void *) {}, nullptr, 1));
	b.copy();
	b.r.prepare(c[2], b.s, 2);
	WORKS(usdma_stream_abort(b.s));
	b.r.wait();
	b.r.wait();
	WORKS(usdma_completion_finish(c[0]));
	assert_int_equal(usdma_completion_finish(c[2]), -ECANCELED);
	assert_int_equal(usdma_completion_finish(c[1]), -ECANCELED);
	assert_int_equal(usdma_stream_sync(b.s, long_ms), -ECANCELED);
}

/* More failures than a stream lists: each completion has its own, the others are counted. */
static void more_than_are_listed(void **)
{
	static constexpr uint64_t listed = 1024, n = listed + 100;
	bench b;
	completion c;
	uint64_t first = 0, counted = 0;

	set_faults(b.dev, 0, "fail%1");
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t number = b.copy(64);

		first = first ? first : number;
	}
	await_done(b.s);
	for (uint64_t i = 0; i < listed; i++) {
		const usdma_error_info e = take(b.s);

		assert_int_equal(e.error, -EIO);
		assert_int_equal(e.sequence, first + i);
		counted += 1 + e.more;
	}
	assert_int_equal(counted, n);
	assert_int_equal(take(b.s).error, 0);
	for (uint64_t i = 0; i < n; i++)
		b.copy(64);
	await_done(b.s);
	/* The list is full. */
	b.r.prepare(c, b.s, 1);
	completion d;
	b.copy(64);
	b.r.prepare(d, b.s, 2);
	b.r.wait();
	b.r.wait();
	set_faults(b.dev, 0, "");
	assert_int_equal(usdma_completion_finish(d), -EIO);
	assert_int_equal(usdma_completion_finish(c), -EIO);
	WORKS(usdma_stream_sync(b.s, long_ms));
}

/* A copy of several requests is one operation. */
static void a_long_copy(void **)
{
	device dev;
	stream s(dev);
	usdma_device_info info = {};
	uint64_t number, next;

	info.struct_size = sizeof(info);
	WORKS(usdma_device_get_info(dev, &info));
	block a(dev, kind::pinned, 8192), z(dev, kind::device, 8192);
	const usdma_copy_rect rows = {z.data(), 128, a.data(), 128, 64, 32};
	WORKS(usdma_submit_copy(s, z.data(), a.data(), 8192, 0, &number));
	WORKS(usdma_copy_2d(s, &rows));
	WORKS(usdma_submit_copy(s, z.data(), a.data(), 8192, 0, &next));
	assert_int_equal(next, number + 2);
	WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(usdma_submit_copy(s, z.data(), a.data(), 64, 1u << 31, &next), -EINVAL);
	std::vector<unsigned char> pageable(8192);
	WORKS(usdma_submit_copy(s, z.data(), pageable.data(), 8192, 0, &next));
	assert_int_equal(next, none);
}

/* Two threads on one stream learn their own numbers. */
static void two_threads(void **)
{
	static constexpr size_t n = 2000;
	device dev;
	stream s(dev);
	block a(dev, kind::pinned, 64), z(dev, kind::device, 64);
	std::vector<uint64_t> got[2];
	std::set<uint64_t> both;

	const auto run = [&](std::vector<uint64_t> *out) {
		for (size_t i = 0; i < n; i++) {
			uint64_t number = none;

			if (usdma_submit_copy(s, z.data(), a.data(), 64, 0, &number))
				return;
			out->push_back(number);
		}
	};
	std::thread other(run, &got[1]);
	run(&got[0]);
	other.join();
	for (const auto &one : got) {
		assert_int_equal(one.size(), n);
		assert_true(std::is_sorted(one.begin(), one.end()));
		both.insert(one.begin(), one.end());
	}
	assert_int_equal(both.size(), 2 * n);
	assert_int_equal(*both.begin(), 1);
	assert_int_equal(*both.rbegin(), 2 * n);
	WORKS(usdma_stream_sync(s, long_ms));
}

static void the_device_is_lost(void **)
{
	completion c[3];
	{
		usdma_device *dev;
		usdma_stream *s;
		void *host, *mem;
		ring r;

		WORKS(usdma_open_index(0, &dev));
		WORKS(usdma_stream_create(dev, nullptr, &s));
		WORKS(usdma_host_alloc(nullptr, 4096, &host));
		WORKS(usdma_device_alloc(dev, 4096, &mem));
		WORKS(usdma_copy(s, mem, host, 64));
		r.prepare(c[0], s, 0);
		await_done(s);
		set_faults(dev, 0, "slow@1/20000+vanish@2");
		WORKS(usdma_copy(s, mem, host, 64));
		WORKS(usdma_copy(s, mem, host, 64));
		r.prepare(c[1], s, 1);
		WORKS(usdma_stream_call(
			s, [](void *) {}, nullptr, 1));
		usdma_copy(s, mem, host, 64);
		r.prepare(c[2], s, 2);
		for (int i = 0; i < 3; i++)
			r.wait();
		assert_int_equal(usdma_completion_finish(c[2]), -ENODEV);
		assert_int_equal(usdma_completion_finish(c[1]), -ENODEV);
		assert_int_equal(usdma_completion_finish(c[0]), 0);
		assert_int_equal(take(s).error, -ENODEV);
		usdma_stream_destroy(s);
		usdma_close(dev);
		WORKS(usdma_host_free(host));
	}
}

int main()
{
	const rlimit limit = {file_limit, RLIM_INFINITY};
	const CMUnitTest tests[] = {
		cmocka_unit_test(random_operations),
		cmocka_unit_test(each_order),
		cmocka_unit_test(without_a_ring),
		cmocka_unit_test(functions),
		cmocka_unit_test(functions_of_dropped_work),
		cmocka_unit_test(functions_of_a_stopped_stream),
		cmocka_unit_test(a_full_ring),
		cmocka_unit_test(behind_a_full_ring),
		cmocka_unit_test(unregistered_memory),
		cmocka_unit_test(beside_a_wait),
		cmocka_unit_test(earlier_failures),
		cmocka_unit_test(after_the_stream),
		cmocka_unit_test(after_the_device),
		cmocka_unit_test(failure_mode_stop),
		cmocka_unit_test(aborted),
		cmocka_unit_test(more_than_are_listed),
		cmocka_unit_test(a_long_copy),
		cmocka_unit_test(two_threads),
		cmocka_unit_test(the_device_is_lost),
	};

	/* Writes beyond it fail with EFBIG. */
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	/* The others know which locks and faults the reference engine has. */
	if (may_inject() && device_string(0).find("model=") == std::string::npos)
		return cmocka_run_group_tests(tests, nullptr, nullptr);
	const CMUnitTest one[] = {cmocka_unit_test(random_operations)};
	return cmocka_run_group_tests(one, nullptr, nullptr);
}
