/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs small random programs: several threads use streams, events and two devices, with
 * faults, aborts, destroyed streams and random delays between the calls.  A model checks
 * what each call returns and what each copy reads: each stream stores 1, 2, 3, ... in its
 * own word, and any stream copies any word.  Vector clocks of streams, events and host
 * threads give the smallest value that a copy may read.
 *
 * USDMA_TEST_SECONDS=N runs for N seconds; USDMA_TEST_SEED and the program's number repeat a program.
 */
#include "tests/integration/faults.h"
#include "tests/support/sanitizer.h"

#include <array>
#include <atomic>
#include <cinttypes>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

TEST_TSAN_SUPPRESSIONS(TEST_UNORDERED_COPIES TEST_STALE_HANDLES TEST_RINGS_OF_THREADS)

using namespace usdma::test;

static constexpr int n_streams = 4, n_events = 3, n_threads = 3, max_samples = 256;
static constexpr uint64_t not_copied = ~uint64_t(0);

namespace {

using vector_clock = std::array<uint64_t, n_streams>;

void join(vector_clock *to, const vector_clock &from)
{
	for (int i = 0; i < n_streams; i++)
		(*to)[i] = std::max((*to)[i], from[i]);
}

/* A stream's state; a call that begins after a flag was set must return the error for it. */
struct stream_state {
	std::atomic<bool> aborting{false}, aborted{false}, destroying{false}, destroyed{false};
};

struct model_stream : stream_state {
	usdma_stream *h;
	int dev;
	std::mutex lock;
	vector_clock vclock{}; /* smallest value of each word that new work may read; under the lock */
	uint64_t errors = 0;   /* when it was destroyed, or at the end */
	std::atomic<uint64_t> reports{0};
};

struct model_event {
	usdma_event *h;
	std::mutex lock;
	vector_clock vclock{}; /* at its latest record; under the lock */
	bool recorded = false;
};

/* One copy of a word, and the smallest value that it may read. */
struct sample {
	int stream, word;
	uint64_t least;
};

struct program {
	uint64_t number;
	bool faults, aborts, destroys;
	usdma_device *dev[2];
	model_stream stream[n_streams];
	model_event event[n_events];
	char *words;    /* in the first device's memory, one word per 64 bytes */
	uint64_t *seen; /* pinned; the value that each sample read */
	std::vector<sample> samples[n_threads];
	std::vector<std::string> trace[n_threads];
	std::atomic<int> wrong{0};
	std::atomic<uint64_t> calls_accepted{0}, calls_run{0};

	void *word(int s) const { return words + s * 64; }
};

/* The flags when a call began. */
struct before_call {
	bool aborted, destroyed;
	explicit before_call(const model_stream &s) : aborted(s.aborted), destroyed(s.destroyed) {}
};

class actor {
public:
	actor(program &p, int number) : p_(p), index_(number), gen_(rng(p.number * 16 + unsigned(number))) {}
	void run()
	{
		for (uint64_t i = 5 + gen_() % 20; i && !p_.wrong; i--) {
			random_delay();
			step();
		}
	}

private:
	/* From no delay to a yield of the CPU. */
	void random_delay()
	{
		if (gen_() % 4 == 0)
			std::this_thread::yield();
		for (uint64_t n = gen_() % (gen_() % 8 ? 200 : 20000); n--;)
			std::atomic_signal_fence(std::memory_order_seq_cst);
	}
	void trace_call(const char *call, int object, long ret)
	{
		p_.trace[index_].push_back(std::string(call) + " " + std::to_string(object) + " = " +
					   std::to_string(ret));
	}
	void report(const char *call, int object, long ret, const char *why)
	{
		if (!p_.wrong++)
			print_error("program %" PRIu64 ", thread %d: %s %d = %ld (%s): %s\n", p_.number, index_, call,
				    object, ret, usdma_error_text(), why);
	}
	/* Returns true if the request was submitted. */
	bool check_return(const char *call, int at, long ret, const before_call &b, bool limited = false)
	{
		model_stream &s = p_.stream[at];

		trace_call(call, at, ret);
		if (b.destroyed && ret != -EBADF)
			report(call, at, ret, "the stream was destroyed before");
		else if (b.aborted && ret != -EBADF && ret != -ECANCELED)
			report(call, at, ret, "the stream was aborted before");
		else if (ret == -EBADF     ? !s.destroying :
			 ret == -ECANCELED ? !s.aborting :
			 ret == -ETIMEDOUT ? !limited :
			 ret == -EIO       ? !p_.faults :
					     ret < 0)
			report(call, at, ret, "unexpected error code");
		return ret >= 0 || ret == -EIO;
	}
	void step();
	void store(int at);
	void copy_word(int at);
	void record(int at, int ev);
	void await_event(int at, int ev);
	void sync(int at);
	void query(int at);
	void sync_event(int ev);
	void sync_device(int d);
	void call(int at);
	void abort(int at);
	void destroy(int at);
	/* Only one thread submits to each stream, so that the order of its work is defined. */
	int own_stream() { return index_ + n_threads < n_streams && gen_() % 2 ? index_ + n_threads : index_; }

	program &p_;
	int index_;
	std::mt19937_64 gen_;
	vector_clock vclock_{}; /* smallest value of each word that this thread may read */
};

void actor::store(int at)
{
	model_stream &s = p_.stream[at];
	const before_call b(s);
	std::lock_guard guard(s.lock);
	const long ret = usdma_write_value(s.h, p_.word(at), s.vclock[size_t(at)] + 1);

	join(&s.vclock, vclock_);
	if (check_return("write_value", at, ret, b))
		s.vclock[size_t(at)]++;
}

void actor::copy_word(int at)
{
	model_stream &s = p_.stream[at];
	const int word = int(gen_() % n_streams);
	const before_call b(s);
	const size_t slot = size_t(index_) * max_samples + p_.samples[index_].size();
	std::lock_guard guard(s.lock);

	join(&s.vclock, vclock_);
	if (check_return("copy", at, usdma_copy(s.h, &p_.seen[slot], p_.word(word), 8), b))
		p_.samples[index_].push_back({at, word, s.vclock[size_t(word)]});
}

void actor::record(int at, int ev)
{
	model_stream &s = p_.stream[at];
	model_event &e = p_.event[ev];
	const before_call b(s);
	std::lock_guard guard(s.lock);

	join(&s.vclock, vclock_);
	if (!check_return("event_record", at, usdma_event_record(e.h, s.h), b))
		return;
	std::lock_guard also(e.lock);
	e.vclock = s.vclock;
	e.recorded = true;
}

void actor::await_event(int at, int ev)
{
	model_stream &s = p_.stream[at];
	model_event &e = p_.event[ev];
	const before_call b(s);
	vector_clock vclock;
	{
		std::lock_guard guard(e.lock);
		vclock = e.vclock;
	}
	std::lock_guard guard(s.lock);
	join(&s.vclock, vclock_);
	if (check_return("stream_wait_event", at, usdma_stream_wait_event(s.h, e.h), b))
		join(&s.vclock, vclock);
}

static vector_clock vclock_of(model_stream &s)
{
	std::lock_guard guard(s.lock);

	return s.vclock;
}

void actor::sync(int at)
{
	model_stream &s = p_.stream[at];
	const int limit = gen_() % 2 ? -1 : int(gen_() % 3);
	const before_call b(s);
	const vector_clock vclock = vclock_of(s);
	const long ret = usdma_stream_sync(s.h, limit);

	s.reports += ret == -EIO;
	if (check_return("stream_sync", at, ret, b, limit >= 0))
		join(&vclock_, vclock);
}

void actor::query(int at)
{
	model_stream &s = p_.stream[at];
	const bool destroyed = s.destroyed;
	const vector_clock vclock = vclock_of(s);
	const long ret = usdma_stream_query(s.h);

	trace_call("stream_query", at, ret);
	if (destroyed ? ret != -EBADF : ret < 0 && !(ret == -EBADF && s.destroying))
		report("stream_query", at, ret, "unexpected error code");
	if (ret == 1)
		join(&vclock_, vclock);
}

void actor::sync_event(int ev)
{
	model_event &e = p_.event[ev];
	const int limit = gen_() % 2 ? -1 : int(gen_() % 3);
	vector_clock vclock;
	{
		std::lock_guard guard(e.lock);
		vclock = e.vclock;
	}
	const long ret = gen_() % 2 ? usdma_event_sync(e.h, limit) : usdma_event_query(e.h) - 1;

	trace_call("event_sync", ev, ret);
	if (ret == -EIO ? !p_.faults : ret == -ECANCELED ? !p_.aborts : ret < 0 && ret != -ETIMEDOUT && ret != -1)
		report("event_sync", ev, ret, "unexpected error code");
	if (ret == -EIO)
		for (auto &s : p_.stream)
			s.reports++; /* the event does not say which stream failed */
	if (ret == 0 || ret == -EIO)
		join(&vclock_, vclock);
}

void actor::sync_device(int d)
{
	const int limit = gen_() % 2 ? -1 : int(gen_() % 3);
	vector_clock vclock{};

	for (auto &s : p_.stream)
		if (s.dev == d)
			join(&vclock, vclock_of(s));
	const long ret = usdma_device_sync(p_.dev[d], limit);
	trace_call("device_sync", d, ret);
	if (ret && !(ret == -ETIMEDOUT && limit >= 0))
		report("device_sync", d, ret, "device_sync must not return a stream's error");
	if (!ret)
		join(&vclock_, vclock);
}

void actor::call(int at)
{
	model_stream &s = p_.stream[at];
	const before_call b(s);
	std::lock_guard guard(s.lock);
	const long ret = usdma_stream_call(
		s.h, [](void *p) { ++static_cast<program *>(p)->calls_run; }, &p_, gen_() % 2);

	p_.calls_accepted += ret == 0;
	check_return("stream_call", at, ret, b);
}

void actor::abort(int at)
{
	model_stream &s = p_.stream[at];
	before_call b(s);

	b.aborted = false; /* aborting again is allowed */
	s.aborting = true;
	const long ret = usdma_stream_abort(s.h);
	check_return("stream_abort", at, ret, b);
	if (!ret)
		s.aborted = true;
}

void actor::destroy(int at)
{
	model_stream &s = p_.stream[at];
	before_call b(s);
	const vector_clock vclock = vclock_of(s);

	b.aborted = false; /* destroying an aborted stream is allowed */
	s.destroying = true;
	const long ret = usdma_stream_destroy(s.h);
	check_return("stream_destroy", at, ret, b);
	s.reports += ret == -EIO;
	if (ret == -EBADF)
		return;
	join(&vclock_, vclock);
	s.destroyed = true;
}

void actor::step()
{
	const int any = int(gen_() % n_streams), ev = int(gen_() % n_events);

	switch (gen_() % 16) {
	case 0:
	case 1:
	case 2:
		return store(own_stream());
	case 3:
	case 4:
	case 5:
		return copy_word(own_stream());
	case 6:
	case 7:
		/* Each event is recorded on one stream only, so that its vector clock never goes back. */
		return record(index_, index_ % n_events);
	case 8:
	case 9:
		return await_event(own_stream(), ev);
	case 10:
		return sync(any);
	case 11:
		return query(any);
	case 12:
		return sync_event(ev);
	case 13:
		return sync_device(int(gen_() % 2));
	case 14:
		return call(own_stream());
	default:
		if (p_.aborts && gen_() % 4 == 0)
			return abort(any);
		if (p_.destroys && gen_() % 3 == 0)
			return destroy(any);
	}
}

/* ---- a program -------------------------------------------------------------------------------------- */

void set_up(program *p)
{
	memset(p->seen, 0xff, n_threads * max_samples * sizeof(*p->seen));
	WORKS(usdma_fill_sync(p->dev[0], p->words, 0, 8, n_streams * 64, long_ms));
	for (int i = 0; i < n_streams; i++) {
		p->stream[i].dev = i % 2;
		WORKS(usdma_stream_create(p->dev[i % 2], nullptr, &p->stream[i].h));
	}
	for (auto &e : p->event)
		WORKS(usdma_event_create(p->dev[0], 0, &e.h));
	for (unsigned d = 0; d < 2; d++)
		set_faults(p->dev[d], d, p->faults ? "fail~15000" : "");
}

/* Each failure must have been reported by some call. */
void finish_stream(program *p, model_stream *s, int at)
{
	usdma_stream_stats st = {sizeof(st), 0, 0, 0, 0};

	if (s->destroyed)
		return;
	const int ret = usdma_stream_sync(s->h, long_ms);
	WORKS(usdma_stream_get_stats(s->h, &st));
	s->errors = st.errors;
	s->reports += ret == -EIO;
	if (!s->aborted && !s->aborting && (ret ? ret != -EIO || !p->faults : false))
		p->wrong++, print_error("program %" PRIu64 ": last stream_sync %d = %d\n", p->number, at, ret);
	if (!s->aborting && (st.errors ? !s->reports : s->reports && !p->faults))
		p->wrong++, print_error("program %" PRIu64 ": stream %d: %" PRIu64 " failures, reported %" PRIu64
					" times\n",
					p->number, at, st.errors, s->reports.load());
	const int last = usdma_stream_destroy(s->h);
	if (last && !(last == -EIO && s->aborting && p->faults))
		p->wrong++, print_error("program %" PRIu64 ": last stream_destroy %d = %d\n", p->number, at, last);
	s->destroyed = true;
}

void check_sample(program *p, const sample &l, uint64_t value)
{
	const uint64_t most = p->stream[l.word].vclock[size_t(l.word)];

	/* With faults a value may be missing: its store or its copy failed. */
	if (p->faults ? value != not_copied && value > most : value < l.least || value > most) {
		p->wrong++;
		print_error("program %" PRIu64 ": stream %d read %" PRIu64 " from word %d, expected %" PRIu64
			    " to %" PRIu64 "\n",
			    p->number, l.stream, value, l.word, l.least, most);
	}
}

void check(program *p)
{
	const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(long_ms);

	while (p->calls_run != p->calls_accepted && std::chrono::steady_clock::now() < end)
		std::this_thread::yield();
	if (p->calls_run != p->calls_accepted)
		p->wrong++, print_error("program %" PRIu64 ": a stream_call function did not run\n", p->number);
	/* Aborted work may have run or not, so there is nothing to compare. */
	for (int t = 0; t < n_threads && !p->aborts; t++)
		for (size_t i = 0; i < p->samples[t].size(); i++)
			check_sample(p, p->samples[t][i],
				     __atomic_load_n(&p->seen[size_t(t) * max_samples + i], __ATOMIC_ACQUIRE));
	if (!p->wrong)
		return;
	for (int t = 0; t < n_threads; t++)
		for (const auto &line : p->trace[t])
			print_error("  thread %d: %s\n", t, line.c_str());
}

int run_program(uint64_t number, usdma_device *const dev[2], char *words, uint64_t *seen)
{
	auto p = std::make_unique<program>();
	auto gen = rng(number * 16 + 15);
	std::vector<std::thread> all;

	p->number = number;
	p->faults = gen() % 3 == 0;
	p->aborts = gen() % 4 == 0;
	p->destroys = gen() % 3 == 0;
	p->dev[0] = dev[0];
	p->dev[1] = dev[1];
	p->words = words;
	p->seen = seen;
	set_up(p.get());
	for (int i = 0; i < n_threads; i++)
		all.emplace_back([&, i] { actor(*p, i).run(); });
	for (auto &t : all)
		t.join();
	for (unsigned d = 0; d < 2; d++)
		set_faults(p->dev[d], d, "");
	for (int i = 0; i < n_streams; i++)
		finish_stream(p.get(), &p->stream[i], i);
	for (auto &e : p->event)
		WORKS(usdma_event_destroy(e.h));
	check(p.get());
	return p->wrong;
}

} // namespace

static void random_programs(void **)
{
	const char *given = getenv("USDMA_TEST_SECONDS");
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(given ? atoi(given) : 0);
	uint64_t number = 0;
	void *words, *seen;
	device first;

	WORKS(usdma_device_alloc(first, 4096, &words));
	WORKS(usdma_host_alloc(nullptr, n_threads * max_samples * 8, &seen));
	do {
		device reopened(1);
		usdma_device *const dev[2] = {first, reopened};

		for (int i = 0; i < 20; i++)
			assert_int_equal(
				run_program(++number, dev, static_cast<char *>(words), static_cast<uint64_t *>(seen)),
				0);
	} while (std::chrono::steady_clock::now() < end || number < 100);
	print_message("# %" PRIu64 " programs\n", number);
	WORKS(usdma_device_free(words));
	WORKS(usdma_host_free(seen));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(random_programs),
	};

	return cmocka_run_group_tests_name("explorer", tests, nullptr, nullptr);
}
