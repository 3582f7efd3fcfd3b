/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions in a ring, beside what the machine allows: a bare thread that copies the same bytes and writes an
 *eventfd, and a ring that reads it. One table: latency from the submission to the CQE, CPU time of both threads, system
 *calls of the whole process.
 *
 *	bench-completions [ROUNDS]       CLIENT_CPU, DEVICE_CPU: default 0, 1
 *
 * System calls are counted by the kernel's tracepoint, which needs root; else "-".
 */
#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "usdma/uring.h"
#include "usdma/usdma.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <liburing.h>
#include <linux/perf_event.h>
#include <memory>
#include <sched.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma;

static constexpr size_t size = 4096, most_depth = 256;
static constexpr u64 spin_ns = 50 * ns_per_us; /* as the engine's */

static void need(long err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "%s: %ld %s\n", what, err, usdma_error_text());
	exit(1);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(unsigned(cpu), &set);
	need(-sched_setaffinity(0, sizeof(set), &set), "affinity");
}

static int number_of(const char *name, int otherwise)
{
	const char *text = getenv(name);

	return text ? atoi(text) : otherwise;
}

/* ---- figures ------------------------------------------------------------------------------------------- */

class syscall_count {
public:
	syscall_count()
	{
		perf_event_attr a = {};
		FILE *id = fopen("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id", "re");
		int number = 0;

		if (!id)
			return;
		if (fscanf(id, "%d", &number) == 1) {
			a.type = PERF_TYPE_TRACEPOINT;
			a.size = sizeof(a);
			a.config = u64(number);
			a.inherit = 1; /* of threads that are made later */
			fd_ = int(syscall(SYS_perf_event_open, &a, 0, -1, -1, 0));
		}
		fclose(id);
	}
	bool counts() const { return fd_ >= 0; }
	u64 now() const
	{
		u64 n = 0;

		return fd_ >= 0 && read(fd_, &n, sizeof(n)) == ssize_t(sizeof(n)) ? n : 0;
	}

private:
	int fd_ = -1;
};

static u64 cpu_time_ns()
{
	rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u64(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * ns_per_s +
	       u64(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * ns_per_us;
}

class row {
public:
	row(const syscall_count &calls, const char *name, unsigned depth, const char *how, unsigned rounds)
		: calls_(calls), name_(name), how_(how), depth_(depth)
	{
		times_.reserve(rounds);
	}
	void begin()
	{
		times_.clear();
		calls_before_ = calls_.now();
		cpu_before_ = cpu_time_ns();
		begun_ = now_ns();
	}
	void done(u64 since) { times_.push_back(now_ns() - since); }
	void print(double *p50)
	{
		const double n = double(times_.size());
		const u64 took = now_ns() - begun_, cpu = cpu_time_ns() - cpu_before_,
			  calls = calls_.now() - calls_before_;
		char text[16] = "-";

		std::sort(times_.begin(), times_.end());
		if (calls_.counts())
			snprintf(text, sizeof(text), "%.2f", double(calls) / n);
		*p50 = double(times_[times_.size() / 2]) / 1e3;
		printf("%-12s %5u  %-9s %9.2f %9.2f %9.2f %9.2f %9s\n", name_, depth_, how_, *p50,
		       double(times_[times_.size() * 99 / 100]) / 1e3, double(took) / n / 1e3, double(cpu) / n / 1e3,
		       text);
	}

private:
	const syscall_count &calls_;
	const char *name_, *how_;
	unsigned depth_;
	std::vector<u64> times_;
	u64 calls_before_ = 0, cpu_before_ = 0, begun_ = 0;
};

/* ---- the ring ------------------------------------------------------------------------------------------ */

class ring {
public:
	explicit ring(bool polls) : polls_(polls)
	{
		need(io_uring_queue_init(2 * most_depth, &r_,
					 polls ? 0 : IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN),
		     "a ring");
	}
	~ring() { io_uring_queue_exit(&r_); }
	ring(const ring &) = delete;
	io_uring_sqe *sqe() { return io_uring_get_sqe(&r_); }
	void submit() { need(io_uring_submit(&r_), "submit"); }
	/* Submits; on return there is a CQE. */
	void wait()
	{
		io_uring_cqe *cqe;

		if (!polls_) {
			need(io_uring_submit_and_wait(&r_, 1), "a wait");
			return;
		}
		if (io_uring_sq_ready(&r_))
			submit();
		while (io_uring_peek_cqe(&r_, &cqe))
			cpu_relax();
	}
	template <class F> void take(F each)
	{
		unsigned head, n = 0;
		io_uring_cqe *cqe;

		io_uring_for_each_cqe(&r_, head, cqe)
		{
			need(cqe->res, "a CQE");
			each(cqe->user_data);
			n++;
		}
		io_uring_cq_advance(&r_, n);
	}

private:
	io_uring r_;
	const bool polls_;
};

/* ---- what the machine allows --------------------------------------------------------------------------- */

/* Copies and signals as the engine does, and sleeps as it does. */
struct bare {
	alignas(128) std::atomic<u64> posted{0};
	alignas(128) std::atomic<u32> asleep{0};
	std::atomic<bool> over{false};
	int wake = eventfd(0, EFD_CLOEXEC), signal = eventfd(0, EFD_CLOEXEC);
	std::vector<char> from = std::vector<char>(size, 1), to = std::vector<char>(size);

	bool has(u64 n) const { return posted.load(std::memory_order_acquire) != n || over; }
	void sleep(u64 n)
	{
		u64 v;

		asleep = 1;
		if (!has(n) && read(wake, &v, sizeof(v)) < 0)
			exit(1);
		asleep = 0;
	}
	void run(int cpu)
	{
		const u64 one = 1;

		pin(cpu);
		for (u64 n = 0; !over;) {
			for (const u64 from_ns = now_ns(); !has(n);)
				if (now_ns() - from_ns > spin_ns)
					sleep(n);
			if (over)
				return;
			memcpy(to.data(), from.data(), size);
			n++;
			if (write(signal, &one, sizeof(one)) < 0)
				exit(1);
		}
	}
	void post()
	{
		const u64 one = 1;

		posted.fetch_add(1);
		if (asleep.load() && asleep.exchange(0) && write(wake, &one, sizeof(one)) < 0)
			exit(1);
	}
	~bare()
	{
		close(wake);
		close(signal);
	}
};

static double measure_limit(const syscall_count &calls, unsigned rounds, bool polls, int cpu)
{
	row out(calls, "limit", 1, polls ? "poll" : "interrupt", rounds);
	ring r(polls);
	bare b;
	std::thread other([&] { b.run(cpu); });
	u64 got;
	double p50;

	for (unsigned i = 0; i < rounds + rounds / 10; i++) {
		if (i == rounds / 10)
			out.begin();
		const u64 at = now_ns();
		b.post();
		io_uring_prep_read(r.sqe(), b.signal, &got, sizeof(got), 0);
		r.wait();
		r.take([&](u64) { out.done(at); });
	}
	out.print(&p50);
	b.over = true;
	const u64 one = 1;
	if (write(b.wake, &one, sizeof(one)) < 0)
		exit(1);
	other.join();
	return p50;
}

/* ---- ours ------------------------------------------------------------------------------------------------ */

struct bench {
	usdma_device *dev;
	usdma_stream *s;
	void *host, *mem;

	explicit bench(int cpu)
	{
		const std::string spec = "sim:mem=64M:engines=1:cpus=" + std::to_string(cpu);

		need(usdma_open(spec.c_str(), &dev), "usdma_open");
		need(usdma_stream_create(dev, nullptr, &s), "usdma_stream_create");
		need(usdma_host_alloc(dev, size, &host), "usdma_host_alloc");
		need(usdma_device_alloc(dev, size, &mem), "usdma_device_alloc");
	}
	~bench()
	{
		need(usdma_device_free(mem), "usdma_device_free");
		need(usdma_host_free(host), "usdma_host_free");
		need(usdma_stream_destroy(s), "usdma_stream_destroy");
		need(usdma_close(dev), "usdma_close");
	}
	void copy() { need(usdma_copy(s, mem, host, size), "usdma_copy"); }
};

static void completions(const syscall_count &calls, bench &b, unsigned rounds, unsigned depth, bool polls, double limit)
{
	row out(calls, "completion", depth, polls ? "poll" : "interrupt", rounds);
	std::vector<usdma_completion *> all(depth);
	std::vector<u64> since(depth);
	unsigned sent = 0, ended = 0;
	double p50;
	ring r(polls);
	const auto next = [&](u64 i) {
		since[i] = now_ns();
		b.copy();
		need(usdma_prep_completion(all[i], b.s, r.sqe(), i), "usdma_prep_completion");
		sent++;
	};

	for (usdma_completion *&c : all)
		need(usdma_completion_create(&c), "usdma_completion_create");
	out.begin();
	for (unsigned i = 0; i < depth; i++)
		next(i);
	while (ended < sent) {
		r.wait();
		r.take([&](u64 i) {
			need(usdma_completion_finish(all[i]), "usdma_completion_finish");
			out.done(since[i]);
			if (ended++, sent < rounds)
				next(i);
		});
	}
	out.print(&p50);
	if (depth == 1)
		printf("%42s %.2f x limit\n", "", p50 / limit);
	for (usdma_completion *c : all)
		need(usdma_completion_destroy(c), "usdma_completion_destroy");
}

static void sets(const syscall_count &calls, bench &b, unsigned rounds, unsigned depth, bool polls, double limit)
{
	row out(calls, "set", depth, polls ? "poll" : "interrupt", rounds);
	usdma_completion_set *set;
	std::vector<u64> since(depth);
	usdma_completed got[64];
	unsigned sent = 0, ended = 0;
	double p50;
	ring r(false);
	const auto next = [&](u64 i) {
		since[i] = now_ns();
		b.copy();
		need(usdma_completion_mark(set, i), "usdma_completion_mark");
		sent++;
	};

	need(usdma_completion_set_create(b.s, &set), "usdma_completion_set_create");
	if (!polls)
		need(usdma_prep_completion_set(set, r.sqe(), 0), "usdma_prep_completion_set");
	out.begin();
	for (unsigned i = 0; i < depth; i++)
		next(i);
	while (ended < sent) {
		if (!polls) {
			r.wait();
			r.take([](u64) {});
		}
		for (int n; (n = usdma_completion_finish_many(set, got, 64)) > 0;)
			for (int k = 0; k < n; k++) {
				need(got[k].error, "a copy");
				out.done(since[got[k].user_data]);
				if (ended++, sent < rounds)
					next(got[k].user_data);
			}
	}
	out.print(&p50);
	if (depth == 1)
		printf("%42s %.2f x limit\n", "", p50 / limit);
	need(usdma_completion_set_destroy(set), "usdma_completion_set_destroy");
}

static void sleeping_syncs(const syscall_count &calls, bench &b, unsigned rounds)
{
	usdma_stream_options opt = {.struct_size = sizeof(opt), .wait_mode = USDMA_WAIT_INTERRUPT};
	row out(calls, "stream_sync", 1, "interrupt", rounds);
	usdma_stream *s;
	double p50;

	need(usdma_stream_create(b.dev, &opt, &s), "usdma_stream_create");
	out.begin();
	for (unsigned i = 0; i < rounds; i++) {
		const u64 at = now_ns();

		need(usdma_copy(s, b.mem, b.host, size), "usdma_copy");
		need(usdma_stream_sync(s, -1), "usdma_stream_sync");
		out.done(at);
	}
	out.print(&p50);
	need(usdma_stream_destroy(s), "usdma_stream_destroy");
}

static void table(const syscall_count &calls, unsigned rounds, int client, int engine)
{
	printf("\n4 KiB, client on CPU %d, engine on CPU %d\n", client, engine);
	printf("%-12s %5s  %-9s %9s %9s %9s %9s %9s\n", "", "depth", "waits by", "p50 us", "p99 us", "us each",
	       "CPU us", "calls");
	for (const bool polls : {false, true}) {
		if (polls && client == engine)
			continue;
		const double limit = measure_limit(calls, rounds, polls, engine);
		bench b(engine);

		if (!polls)
			sleeping_syncs(calls, b, rounds);
		for (const unsigned depth : {1u, 8u, 64u, 256u})
			completions(calls, b, rounds, depth, polls, limit);
		for (const unsigned depth : {1u, 8u, 64u, 256u})
			sets(calls, b, rounds, depth, polls, limit);
	}
}

int main(int argc, char **argv)
{
	const unsigned rounds = argc > 1 ? unsigned(atoi(argv[1])) : 20000;
	const int client = number_of("CLIENT_CPU", 0), engine = number_of("DEVICE_CPU", 1);
	const syscall_count calls;

	pin(client);
	table(calls, rounds, client, engine);
	table(calls, rounds, client, client);
	return 0;
}
