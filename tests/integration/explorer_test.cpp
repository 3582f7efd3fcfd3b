/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small random programs of several threads over streams, events and two devices,
 * with faults, aborts and ends at any place, each run with delays of its own
 * between the calls.  A model knows what each call may return, and what a copy must
 * have seen: each stream stores 1, 2, 3, ... in a word of its own, any stream
 * copies any word, and vector clocks over streams, events and host threads say
 * which number was there at the latest.
 *
 * USDMA_TEST_SECONDS=N: for N seconds; USDMA_TEST_SEED and a program's number repeat it.
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

TEST_TSAN_SUPPRESSIONS(TEST_MOVES_IN_ANY_ORDER TEST_STALE_HANDLES TEST_RINGS_OF_THREADS)

using namespace usdma::test;

static constexpr int n_streams = 4, n_events = 3, n_threads = 3, most_looks = 256;
static constexpr uint64_t not_seen = ~uint64_t(0);

namespace {

using stamps = std::array<uint64_t, n_streams>;

void join(stamps *to, const stamps &from)
{
	for (int i = 0; i < n_streams; i++)
		(*to)[i] = std::max((*to)[i], from[i]);
}

/* What holds of an object; a call that begins after `since` was set must be told of it. */
struct life {
	std::atomic<bool> aborting{false}, aborted{false}, ending{false}, ended{false};
};

struct model_stream : life {
	usdma_stream *h;
	int dev;
	std::mutex lock;
	stamps known{};      /* of each word, what work submitted from now on sees at least; under the lock */
	uint64_t errors = 0; /* when it was destroyed, or at the end */
	std::atomic<uint64_t> told{0};
};

struct model_event {
	usdma_event *h;
	std::mutex lock;
	stamps known{}; /* at its latest record; under the lock */
	bool recorded = false;
};

/* One copy of a word. */
struct look {
	int by, of;
	uint64_t least;
};

struct program {
	uint64_t number;
	bool faults, aborts, ends;
	usdma_device *dev[2];
	model_stream stream[n_streams];
	model_event event[n_events];
	char *words;    /* in the first device's memory, 64 bytes apart */
	uint64_t *seen; /* pinned; what each look saw */
	std::vector<look> looks[n_threads];
	std::vector<std::string> trace[n_threads];
	std::atomic<int> wrong{0};
	std::atomic<uint64_t> calls_accepted{0}, calls_run{0};

	void *word(int s) const { return words + s * 64; }
};

/* What the flags were when a call began. */
struct before_call {
	bool aborted, ended;
	explicit before_call(const model_stream &s) : aborted(s.aborted), ended(s.ended) {}
};

class actor {
public:
	actor(program &p, int number) : p_(p), me_(number), gen_(rng(p.number * 16 + unsigned(number))) {}
	void run()
	{
		for (uint64_t i = 5 + gen_() % 20; i && !p_.wrong; i--) {
			linger();
			step();
		}
	}

private:
	/* Anything between nothing and the loss of the CPU. */
	void linger()
	{
		if (gen_() % 4 == 0)
			std::this_thread::yield();
		for (uint64_t n = gen_() % (gen_() % 8 ? 200 : 20000); n--;)
			std::atomic_signal_fence(std::memory_order_seq_cst);
	}
	void note(const char *call, int object, long ret)
	{
		p_.trace[me_].push_back(std::string(call) + " " + std::to_string(object) + " = " + std::to_string(ret));
	}
	void bad(const char *call, int object, long ret, const char *why)
	{
		if (!p_.wrong++)
			print_error("program %" PRIu64 ", thread %d: %s %d = %ld (%s): %s\n", p_.number, me_, call,
				    object, ret, usdma_error_text(), why);
	}
	/* True: it was done. */
	bool judge(const char *call, int at, long ret, const before_call &b, bool limited = false)
	{
		model_stream &s = p_.stream[at];

		note(call, at, ret);
		if (b.ended && ret != -EBADF)
			bad(call, at, ret, "the stream was destroyed before");
		else if (b.aborted && ret != -EBADF && ret != -ECANCELED)
			bad(call, at, ret, "the stream was aborted before");
		else if (ret == -EBADF     ? !s.ending :
			 ret == -ECANCELED ? !s.aborting :
			 ret == -ETIMEDOUT ? !limited :
			 ret == -EIO       ? !p_.faults :
					     ret < 0)
			bad(call, at, ret, "nothing is there that says so");
		return ret >= 0 || ret == -EIO;
	}
	void step();
	void store(int at);
	void look_at(int at);
	void record(int at, int ev);
	void await_event(int at, int ev);
	void sync(int at);
	void query(int at);
	void sync_event(int ev);
	void sync_device(int d);
	void call(int at);
	void abort(int at);
	void destroy(int at);
	/* Each stream has one thread that submits to it: its order is known. */
	int own() { return me_ + n_threads < n_streams && gen_() % 2 ? me_ + n_threads : me_; }

	program &p_;
	int me_;
	std::mt19937_64 gen_;
	stamps known_{}; /* what this thread knows to be in the words */
};

void actor::store(int at)
{
	model_stream &s = p_.stream[at];
	const before_call b(s);
	std::lock_guard guard(s.lock);
	const long ret = usdma_write_value(s.h, p_.word(at), s.known[size_t(at)] + 1);

	join(&s.known, known_);
	if (judge("write_value", at, ret, b))
		s.known[size_t(at)]++;
}

void actor::look_at(int at)
{
	model_stream &s = p_.stream[at];
	const int of = int(gen_() % n_streams);
	const before_call b(s);
	const size_t slot = size_t(me_) * most_looks + p_.looks[me_].size();
	std::lock_guard guard(s.lock);

	join(&s.known, known_);
	if (judge("copy", at, usdma_copy(s.h, &p_.seen[slot], p_.word(of), 8), b))
		p_.looks[me_].push_back({at, of, s.known[size_t(of)]});
}

void actor::record(int at, int ev)
{
	model_stream &s = p_.stream[at];
	model_event &e = p_.event[ev];
	const before_call b(s);
	std::lock_guard guard(s.lock);

	join(&s.known, known_);
	if (!judge("event_record", at, usdma_event_record(e.h, s.h), b))
		return;
	std::lock_guard also(e.lock);
	e.known = s.known;
	e.recorded = true;
}

void actor::await_event(int at, int ev)
{
	model_stream &s = p_.stream[at];
	model_event &e = p_.event[ev];
	const before_call b(s);
	stamps known;
	{
		std::lock_guard guard(e.lock);
		known = e.known;
	}
	std::lock_guard guard(s.lock);
	join(&s.known, known_);
	if (judge("stream_wait_event", at, usdma_stream_wait_event(s.h, e.h), b))
		join(&s.known, known);
}

static stamps known_of(model_stream &s)
{
	std::lock_guard guard(s.lock);

	return s.known;
}

void actor::sync(int at)
{
	model_stream &s = p_.stream[at];
	const int limit = gen_() % 2 ? -1 : int(gen_() % 3);
	const before_call b(s);
	const stamps known = known_of(s);
	const long ret = usdma_stream_sync(s.h, limit);

	s.told += ret == -EIO;
	if (judge("stream_sync", at, ret, b, limit >= 0))
		join(&known_, known);
}

void actor::query(int at)
{
	model_stream &s = p_.stream[at];
	const bool ended = s.ended;
	const stamps known = known_of(s);
	const long ret = usdma_stream_query(s.h);

	note("stream_query", at, ret);
	if (ended ? ret != -EBADF : ret < 0 && !(ret == -EBADF && s.ending))
		bad("stream_query", at, ret, "nothing is there that says so");
	if (ret == 1)
		join(&known_, known);
}

void actor::sync_event(int ev)
{
	model_event &e = p_.event[ev];
	const int limit = gen_() % 2 ? -1 : int(gen_() % 3);
	stamps known;
	{
		std::lock_guard guard(e.lock);
		known = e.known;
	}
	const long ret = gen_() % 2 ? usdma_event_sync(e.h, limit) : usdma_event_query(e.h) - 1;

	note("event_sync", ev, ret);
	if (ret == -EIO ? !p_.faults : ret == -ECANCELED ? !p_.aborts : ret < 0 && ret != -ETIMEDOUT && ret != -1)
		bad("event_sync", ev, ret, "nothing is there that says so");
	if (ret == -EIO)
		for (auto &s : p_.stream)
			s.told++; /* of one of them */
	if (ret == 0 || ret == -EIO)
		join(&known_, known);
}

void actor::sync_device(int d)
{
	const int limit = gen_() % 2 ? -1 : int(gen_() % 3);
	stamps known{};

	for (auto &s : p_.stream)
		if (s.dev == d)
			join(&known, known_of(s));
	const long ret = usdma_device_sync(p_.dev[d], limit);
	note("device_sync", d, ret);
	if (ret && !(ret == -ETIMEDOUT && limit >= 0))
		bad("device_sync", d, ret, "it takes no stream's error");
	if (!ret)
		join(&known_, known);
}

void actor::call(int at)
{
	model_stream &s = p_.stream[at];
	const before_call b(s);
	std::lock_guard guard(s.lock);
	const long ret = usdma_stream_call(
		s.h, [](void *p) { ++static_cast<program *>(p)->calls_run; }, &p_, gen_() % 2);

	p_.calls_accepted += ret == 0;
	judge("stream_call", at, ret, b);
}

void actor::abort(int at)
{
	model_stream &s = p_.stream[at];
	before_call b(s);

	b.aborted = false; /* twice is once */
	s.aborting = true;
	const long ret = usdma_stream_abort(s.h);
	judge("stream_abort", at, ret, b);
	if (!ret)
		s.aborted = true;
}

void actor::destroy(int at)
{
	model_stream &s = p_.stream[at];
	before_call b(s);
	const stamps known = known_of(s);

	b.aborted = false; /* that it was is no failure */
	s.ending = true;
	const long ret = usdma_stream_destroy(s.h);
	judge("stream_destroy", at, ret, b);
	s.told += ret == -EIO;
	if (ret == -EBADF)
		return;
	join(&known_, known);
	s.ended = true;
}

void actor::step()
{
	const int any = int(gen_() % n_streams), ev = int(gen_() % n_events);

	switch (gen_() % 16) {
	case 0:
	case 1:
	case 2:
		return store(own());
	case 3:
	case 4:
	case 5:
		return look_at(own());
	case 6:
	case 7:
		/* Each event is recorded on one stream: its later records know more. */
		return record(me_, me_ % n_events);
	case 8:
	case 9:
		return await_event(own(), ev);
	case 10:
		return sync(any);
	case 11:
		return query(any);
	case 12:
		return sync_event(ev);
	case 13:
		return sync_device(int(gen_() % 2));
	case 14:
		return call(own());
	default:
		if (p_.aborts && gen_() % 4 == 0)
			return abort(any);
		if (p_.ends && gen_() % 3 == 0)
			return destroy(any);
	}
}

/* ---- a program -------------------------------------------------------------------------------------- */

void set_up(program *p)
{
	memset(p->seen, 0xff, n_threads * most_looks * sizeof(*p->seen));
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

/* All that failed was told of, to somebody. */
void end_stream(program *p, model_stream *s, int at)
{
	usdma_stream_stats st = {sizeof(st), 0, 0, 0, 0};

	if (s->ended)
		return;
	const int ret = usdma_stream_sync(s->h, long_ms);
	WORKS(usdma_stream_get_stats(s->h, &st));
	s->errors = st.errors;
	s->told += ret == -EIO;
	if (!s->aborted && !s->aborting && (ret ? ret != -EIO || !p->faults : false))
		p->wrong++, print_error("program %" PRIu64 ": last stream_sync %d = %d\n", p->number, at, ret);
	if (!s->aborting && (st.errors ? !s->told : s->told && !p->faults))
		p->wrong++,
			print_error("program %" PRIu64 ": stream %d: %" PRIu64 " failures, told %" PRIu64 " times\n",
				    p->number, at, st.errors, s->told.load());
	const int last = usdma_stream_destroy(s->h);
	if (last && !(last == -EIO && s->aborting && p->faults))
		p->wrong++, print_error("program %" PRIu64 ": last stream_destroy %d = %d\n", p->number, at, last);
	s->ended = true;
}

void check_look(program *p, const look &l, uint64_t saw)
{
	const uint64_t most = p->stream[l.of].known[size_t(l.of)];

	/* What failed was not stored, or not copied. */
	if (p->faults ? saw != not_seen && saw > most : saw < l.least || saw > most) {
		p->wrong++;
		print_error("program %" PRIu64 ": stream %d saw %" PRIu64 " in word %d, not %" PRIu64 " to %" PRIu64
			    "\n",
			    p->number, l.by, saw, l.of, l.least, most);
	}
}

void check(program *p)
{
	const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(long_ms);

	while (p->calls_run != p->calls_accepted && std::chrono::steady_clock::now() < end)
		std::this_thread::yield();
	if (p->calls_run != p->calls_accepted)
		p->wrong++, print_error("program %" PRIu64 ": a call was not made\n", p->number);
	/* What was aborted may have been done, or not. */
	for (int t = 0; t < n_threads && !p->aborts; t++)
		for (size_t i = 0; i < p->looks[t].size(); i++)
			check_look(p, p->looks[t][i],
				   __atomic_load_n(&p->seen[size_t(t) * most_looks + i], __ATOMIC_ACQUIRE));
	if (!p->wrong)
		return;
	for (int t = 0; t < n_threads; t++)
		for (const auto &line : p->trace[t])
			print_error("  thread %d: %s\n", t, line.c_str());
}

int play(uint64_t number, usdma_device *const dev[2], char *words, uint64_t *seen)
{
	auto p = std::make_unique<program>();
	auto gen = rng(number * 16 + 15);
	std::vector<std::thread> all;

	p->number = number;
	p->faults = gen() % 3 == 0;
	p->aborts = gen() % 4 == 0;
	p->ends = gen() % 3 == 0;
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
		end_stream(p.get(), &p->stream[i], i);
	for (auto &e : p->event)
		WORKS(usdma_event_destroy(e.h));
	check(p.get());
	return p->wrong;
}

} // namespace

static void explore(void **)
{
	const char *given = getenv("USDMA_TEST_SECONDS");
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(given ? atoi(given) : 0);
	uint64_t number = 0;
	void *words, *seen;
	device stays;

	WORKS(usdma_device_alloc(stays, 4096, &words));
	WORKS(usdma_host_alloc(nullptr, n_threads * most_looks * 8, &seen));
	do {
		device comes_and_goes(1);
		usdma_device *const dev[2] = {stays, comes_and_goes};

		for (int i = 0; i < 20; i++)
			assert_int_equal(play(++number, dev, static_cast<char *>(words), static_cast<uint64_t *>(seen)),
					 0);
	} while (std::chrono::steady_clock::now() < end || number < 100);
	print_message("# %" PRIu64 " programs\n", number);
	WORKS(usdma_device_free(words));
	WORKS(usdma_host_free(seen));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(explore),
	};

	return cmocka_run_group_tests_name("explorer", tests, nullptr, nullptr);
}
