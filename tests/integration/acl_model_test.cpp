/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random programs, compared with a sequential model in plain memory.  Each operation
 * goes to a random stream; if another stream accessed the same buffer before, an event
 * (of a random kind) or a notify orders the two.  At each synchronisation all memory
 * must equal the model.  Several threads run programs at the same time, each in its
 * own context or in the primary one.
 */
#include "acl/acl.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr size_t size = 4096; /* of a buffer */
constexpr int buffers = 9, streams = 4;
constexpr int ops_in_program = 40;
const unsigned programs = unsigned(usdma::test::sized(200, 1)); /* per thread, at scale 1 */

enum memory_kind { device, pinned, pageable };

constexpr memory_kind kind_of(int b)
{
	return b < 4 ? device : b < 7 ? pinned : pageable;
}

#define GOOD(call)                                                                                                     \
	do {                                                                                                           \
		const aclError err_ = (call);                                                                          \
		if (err_) {                                                                                            \
			const char *text_ = aclGetRecentErrMsg();                                                      \
			print_error("%s: %d %s\n", #call, err_, text_ ? text_ : "");                                   \
			ok = false;                                                                                    \
		}                                                                                                      \
	} while (0)

/* The last accesses to a buffer, which later accesses must wait for. */
struct access {
	int writer = -1;
	bool reader[streams] = {};
};

struct machine {
	std::mt19937_64 gen;
	char *mem[buffers] = {};
	std::vector<unsigned char> model[buffers];
	access seen[buffers];
	aclrtStream stream[streams] = {};
	aclrtNotify notify = nullptr;
	std::vector<aclrtEvent> events; /* destroyed at the next synchronisation, or at once */
	void *desc = nullptr;
	std::vector<std::vector<char>> staged;
	bool ok = true;

	explicit machine(std::uint64_t n) : gen(usdma::test::rng(n)) {}
	size_t pick(size_t n) { return gen() % n; }
	void open();
	void close();
	void order(int before, int after);
	void reads(int s, int b);
	void writes(int s, int b);
	void sync_for_host(int b, bool write);
	void copy(int s);
	void copy_sync();
	void copy_buffered(int s);
	void batch(int s);
	void rectangle(int s);
	void copy_by_descriptor(int s);
	void set(int s);
	void word(int s);
	void callback(int s);
	void step();
	void compare();
	bool program();
};

void machine::open()
{
	for (int b = 0; b < buffers; b++) {
		void *p = nullptr;

		if (kind_of(b) == device)
			GOOD(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
		else if (kind_of(b) == pinned)
			GOOD(aclrtMallocHost(&p, size));
		else
			p = malloc(size);
		mem[b] = static_cast<char *>(p);
		model[b].assign(size, 0);
		GOOD(aclrtMemset(p, size, 0, size));
	}
	for (auto &s : stream)
		GOOD(aclrtCreateStream(&s));
	GOOD(aclrtCreateNotify(&notify, 0));
	GOOD(aclrtMalloc(&desc, 64, ACL_MEM_MALLOC_NORMAL_ONLY));
}

void machine::close()
{
	for (auto &s : stream)
		GOOD(aclrtDestroyStream(s));
	GOOD(aclrtDestroyNotify(notify));
	GOOD(aclrtFree(desc));
	for (int b = 0; b < buffers; b++)
		if (kind_of(b) == device)
			GOOD(aclrtFree(mem[b]));
		else if (kind_of(b) == pinned)
			GOOD(aclrtFreeHost(mem[b]));
		else
			free(mem[b]);
}

/* Later work of stream `after` starts when the present work of stream `before` has ended. */
void machine::order(int before, int after)
{
	aclrtEvent e = nullptr;

	if (before == after)
		return;
	switch (pick(4)) {
	case 0:
		GOOD(aclrtRecordNotify(notify, stream[before]));
		GOOD(aclrtWaitAndResetNotify(notify, stream[after], 0));
		/* There is one notify only: finish this wait before it is used again. */
		GOOD(aclrtSynchronizeStream(stream[after]));
		return;
	case 1:
		GOOD(aclrtCreateEvent(&e));
		break;
	case 2:
		GOOD(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
		break;
	default:
		GOOD(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
	}
	GOOD(aclrtRecordEvent(e, stream[before]));
	GOOD(aclrtStreamWaitEvent(stream[after], e));
	if (pick(2))
		GOOD(aclrtDestroyEvent(e)); /* while it is in use */
	else
		events.push_back(e);
}

void machine::reads(int s, int b)
{
	access &a = seen[b];

	if (a.writer >= 0 && a.writer != s)
		order(a.writer, s);
	a.reader[s] = true;
}

void machine::writes(int s, int b)
{
	access &a = seen[b];

	if (a.writer >= 0 && a.writer != s)
		order(a.writer, s);
	for (int r = 0; r < streams; r++)
		if (a.reader[r] && r != s)
			order(r, s);
	a = access();
	a.writer = s;
}

/* Waits for all streams that conflict with an access by the host. */
void machine::sync_for_host(int b, bool write)
{
	access &a = seen[b];

	if (a.writer >= 0)
		GOOD(aclrtSynchronizeStream(stream[a.writer]));
	for (int r = 0; write && r < streams; r++)
		if (a.reader[r])
			GOOD(aclrtSynchronizeStream(stream[r]));
}

/* Two ranges of n bytes in two different buffers. */
struct ranges {
	int dst, src;
	size_t to, from, n;
};

ranges random_ranges(machine &m)
{
	ranges r;

	r.dst = int(m.pick(buffers));
	do
		r.src = int(m.pick(buffers));
	while (r.src == r.dst);
	r.n = m.pick(4) ? m.pick(300) : m.pick(size + 1);
	r.to = m.pick(size - r.n + 1);
	r.from = m.pick(size - r.n + 1);
	return r;
}

void machine::copy(int s)
{
	const ranges r = random_ranges(*this);

	/* Asynchronous copies between host buffers are not supported. */
	if (kind_of(r.dst) != device && kind_of(r.src) != device)
		return;
	reads(s, r.src);
	writes(s, r.dst);
	GOOD(aclrtMemcpyAsync(mem[r.dst] + r.to, size - r.to, mem[r.src] + r.from, r.n, ACL_MEMCPY_DEFAULT, stream[s]));
	memcpy(&model[r.dst][r.to], &model[r.src][r.from], r.n);
}

void machine::copy_sync()
{
	const ranges r = random_ranges(*this);

	sync_for_host(r.src, false);
	sync_for_host(r.dst, true);
	GOOD(aclrtMemcpy(mem[r.dst] + r.to, r.n, mem[r.src] + r.from, r.n, ACL_MEMCPY_DEFAULT));
	memcpy(&model[r.dst][r.to], &model[r.src][r.from], r.n);
}

/* The source is overwritten when the call returns. */
void machine::copy_buffered(int s)
{
	const size_t n = 1 + pick(500), to = pick(size - n);
	const int b = int(pick(4));
	std::vector<char> from(n);

	usdma::test::fill_random(from.data(), n, gen);
	writes(s, b);
	memcpy(&model[b][to], from.data(), n);
	GOOD(aclrtMemcpyAsync(mem[b] + to, n, from.data(), n, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream[s]));
	memset(from.data(), 0xee, n);
}

void machine::batch(int s)
{
	const int d = int(pick(4)), h = 4 + int(pick(5));
	const size_t n = 1 + pick(40), piece = 1 + pick(size / 40);
	const bool up = pick(2);
	std::vector<void *> dst, src;
	std::vector<size_t> sizes(n, piece);
	aclrtMemcpyBatchAttr attr{};
	size_t index = 0, fail = 0;

	(up ? reads(s, h) : reads(s, d));
	(up ? writes(s, d) : writes(s, h));
	for (size_t i = 0; i < n; i++) {
		const size_t from = pick(size - piece),
			     to = i * piece; /* destinations do not overlap: order is not fixed */

		dst.push_back(mem[up ? d : h] + to);
		src.push_back(mem[up ? h : d] + from);
		memcpy(&model[up ? d : h][to], &model[up ? h : d][from], piece);
	}
	attr.dstLoc.type = up ? ACL_MEM_LOCATION_TYPE_DEVICE : ACL_MEM_LOCATION_TYPE_HOST;
	attr.srcLoc.type = up ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE;
	GOOD(aclrtMemcpyBatchAsync(dst.data(), sizes.data(), src.data(), sizes.data(), n, &attr, &index, 1, &fail,
				   stream[s]));
}

void machine::rectangle(int s)
{
	const ranges r = random_ranges(*this);
	const size_t width = 1 + pick(60), height = 1 + pick(15), dp = width + pick(100), sp = width + pick(100);

	if (kind_of(r.dst) != device && kind_of(r.src) != device)
		return;
	reads(s, r.src);
	writes(s, r.dst);
	GOOD(aclrtMemcpy2dAsync(mem[r.dst], dp, mem[r.src], sp, width, height, ACL_MEMCPY_DEFAULT, stream[s]));
	for (size_t i = 0; i < height; i++)
		memcpy(&model[r.dst][i * dp], &model[r.src][i * sp], width);
}

void machine::copy_by_descriptor(int s)
{
	const int d = int(pick(4)), f = (d + 1 + int(pick(3))) % 4;
	const size_t n = 1 + pick(size - 1);

	/* An earlier copy may still use the descriptor. */
	for (auto &t : stream)
		GOOD(aclrtSynchronizeStream(t));
	reads(s, f);
	writes(s, d);
	GOOD(aclrtSetMemcpyDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, mem[f], mem[d], n, nullptr));
	GOOD(aclrtMemcpyAsyncWithDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream[s]));
	memcpy(model[d].data(), model[f].data(), n);
}

void machine::set(int s)
{
	const int b = int(pick(4));
	const size_t n = pick(size) & ~size_t(3), at = pick(size - n + 1) & ~size_t(3);
	const std::uint32_t value = std::uint32_t(gen());

	writes(s, b);
	if (pick(2)) {
		GOOD(aclrtMemsetAsync(mem[b] + at, n, int(value), n, stream[s]));
		memset(&model[b][0] + at, int(value & 0xff), n);
		return;
	}
	GOOD(aclrtMemsetD32Async(mem[b] + at, n, value, n / 4, stream[s]));
	for (size_t i = 0; i < n; i += 4)
		memcpy(&model[b][at + i], &value, 4);
}

void machine::word(int s)
{
	const int b = int(pick(4));
	const size_t at = pick(size / 8) * 8;
	const std::uint64_t value = gen();

	writes(s, b);
	GOOD(aclrtValueWrite(mem[b] + at, value, 0, stream[s]));
	GOOD(aclrtValueWait(mem[b] + at, value, ACL_STREAM_WAIT_VALUE_EQ, stream[s]));
	memcpy(&model[b][at], &value, 8);
}

struct flip {
	char *at;
	size_t n;
};

void run_flip(void *arg)
{
	auto *f = static_cast<flip *>(arg);

	for (size_t i = 0; i < f->n; i++)
		f->at[i] = char(~f->at[i]);
	delete f;
}

/* A host function of the stream changes pinned memory. */
void machine::callback(int s)
{
	const int b = 4 + int(pick(3));
	const size_t n = pick(size), at = pick(size - n);

	writes(s, b);
	GOOD(aclrtLaunchHostFunc(stream[s], run_flip, new flip{mem[b] + at, n}));
	for (size_t i = 0; i < n; i++)
		model[b][at + i] = static_cast<unsigned char>(~model[b][at + i]);
}

void machine::compare()
{
	std::vector<unsigned char> got(size);

	if (pick(2))
		for (auto &s : stream)
			GOOD(aclrtSynchronizeStream(s));
	else
		GOOD(aclrtSynchronizeDevice());
	for (int b = 0; b < buffers; b++) {
		GOOD(aclrtMemcpy(got.data(), size, mem[b], size, ACL_MEMCPY_DEFAULT));
		if (memcmp(got.data(), model[b].data(), size)) {
			print_error("buffer %d differs\n", b);
			ok = false;
		}
		seen[b] = access();
	}
	for (aclrtEvent e : events)
		GOOD(aclrtDestroyEvent(e));
	events.clear();
}

void machine::step()
{
	const int s = int(pick(streams));

	switch (pick(16)) {
	case 0:
		return copy_sync();
	case 1:
		return copy_buffered(s);
	case 2:
		return batch(s);
	case 3:
		return rectangle(s);
	case 4:
		return copy_by_descriptor(s);
	case 5:
	case 6:
		return set(s);
	case 7:
		return word(s);
	case 8:
		return callback(s);
	default:
		return copy(s);
	}
}

bool machine::program()
{
	for (int i = 0; i < ops_in_program && ok; i++)
		step();
	compare();
	return ok;
}

/* Runs programs one after the other; 25 of them use the same set of objects. */
bool run(std::uint64_t thread, unsigned count, bool own_context)
{
	aclrtContext c = nullptr;
	bool ok = true;

	GOOD(own_context ? aclrtCreateContext(&c, 0) : aclrtSetDevice(0));
	for (unsigned i = 0; i < count && ok;) {
		machine m(thread << 32 | i);

		m.open();
		for (unsigned k = 0; k < 25 && i < count && m.ok; k++, i++)
			if (!m.program())
				print_error("thread %u, program %u\n", unsigned(thread), i);
		m.close();
		ok = m.ok;
	}
	GOOD(own_context ? aclrtDestroyContext(c) : aclrtResetDevice(0));
	return ok;
}

} // namespace

static void test_one_thread(void **)
{
	assert_true(run(0, programs * usdma::test::scale(), false));
}

static constexpr unsigned threads = 4;

static void in_threads(std::uint64_t first, unsigned count)
{
	std::atomic<int> bad{0};
	std::vector<std::thread> all;

	for (unsigned t = 0; t < threads; t++)
		all.emplace_back([&bad, t, first, count] { bad += !run(first + t, count, t % 2 == 0); });
	for (auto &t : all)
		t.join();
	assert_int_equal(bad.load(), 0);
}

static void test_threads(void **)
{
	in_threads(1, programs * usdma::test::scale());
}

/* Different programs for a given time; each round opens and closes the device. */
static void test_for_a_given_time(void **)
{
	constexpr unsigned count = 50;
	usdma::test::soak timer("acl-programs");
	std::uint64_t first = 1, operations = 0;

	for (; !timer.over(operations); first += threads, operations += count * threads * ops_in_program)
		in_threads(first, count);
	timer.finish(operations);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_one_thread),
		cmocka_unit_test(test_threads),
	};
	const CMUnitTest long_ones[] = {cmocka_unit_test(test_for_a_given_time)};

	usdma::test::seed();
	if (usdma::test::soak::wanted())
		return cmocka_run_group_tests(long_ones, nullptr, nullptr);
	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
