/* SPDX-License-Identifier: BSD-3-Clause */
/* A job of several processes at the same time. Each opens the device itself, as separate programs do. */
#include "driver/base/unique_fd.h"
#include "tools/interrupt.h"
#include "tools/perf/api.h"
#include "tools/perf/worker.h"

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

namespace usdma::perf {

namespace {

/* Where all processes wait for each other; in memory that they share. */
class meeting {
public:
	explicit meeting(unsigned n)
	{
		pthread_barrierattr_t shared;
		void *p = mmap(nullptr, sizeof(*at_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			throw std::runtime_error("no memory for a barrier of processes");
		at_ = static_cast<pthread_barrier_t *>(p);
		pthread_barrierattr_init(&shared);
		pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
		pthread_barrier_init(at_, &shared, n);
	}
	/* Not destroyed: that would wait for processes that were killed in it. */
	~meeting() { munmap(at_, sizeof(*at_)); }
	meeting(const meeting &) = delete;

	void wait() const { pthread_barrier_wait(at_); }

private:
	pthread_barrier_t *at_;
};

/* ---- what a process reports ------------------------------------------------------------------------- */

class packer {
public:
	template <class T> void put(const std::vector<T> &v)
	{
		const u64 n = v.size();

		raw(&n, sizeof(n));
		raw(v.data(), n * sizeof(T));
	}
	std::string text;

private:
	void raw(const void *from, size_t n) { text.append(static_cast<const char *>(from), n); }
};

class unpacker {
public:
	explicit unpacker(const std::string &text) : text_(text) {}
	template <class T> std::vector<T> get()
	{
		u64 n;

		raw(&n, sizeof(n));
		if (n > text_.size() / sizeof(T))
			throw std::runtime_error("a process reported half a result");
		std::vector<T> v(n);
		raw(v.data(), n * sizeof(T));
		return v;
	}

private:
	void raw(void *to, size_t n)
	{
		if (n > text_.size() - at_)
			throw std::runtime_error("a process reported half a result");
		memcpy(to, text_.data() + at_, n);
		at_ += n;
	}
	const std::string &text_;
	size_t at_ = 0;
};

std::string packed(const taken &t)
{
	packer out;

	out.put<u64>({t.area});
	out.put(t.engine_ns);
	for (const auto &thread : t.shares)
		for (const share &s : thread) {
			out.put(s.latency.v);
			out.put(s.submit.v);
			out.put<u64>({s.copies, s.ns, s.cpu_ns});
		}
	return out.text;
}

/* Adds the threads of one process to those of all. */
void unpack(const std::string &text, const job &j, taken &all)
{
	unpacker in(text);

	all.area = in.get<u64>().at(0);
	const std::vector<u64> engines = in.get<u64>();
	all.engine_ns.resize(engines.size());
	std::transform(engines.begin(), engines.end(), all.engine_ns.begin(), all.engine_ns.begin(), std::plus<>());
	for (unsigned k = 0; k < j.threads; k++) {
		auto &thread = all.shares.emplace_back(j.repeats + 1);

		for (share &s : thread) {
			s.latency.v = in.get<u64>();
			s.submit.v = in.get<u64>();
			const std::vector<u64> sums = in.get<u64>();
			s.copies = sums.at(0), s.ns = sums.at(1), s.cpu_ns = sums.at(2);
		}
	}
}

/* ---- processes -------------------------------------------------------------------------------------- */

constexpr char worked = '+', failed = '-';

void write_all(int fd, const std::string &text)
{
	for (size_t at = 0; at < text.size();) {
		const ssize_t n = write(fd, text.data() + at, text.size() - at);

		if (n < 0 && errno != EINTR)
			return; /* the parent finds half a result */
		at += size_t(std::max<ssize_t>(n, 0));
	}
}

/* A child and what it has reported so far; it is killed if it still runs at the end. */
struct child {
	child() = default;
	child(child &&o) noexcept : pid(std::exchange(o.pid, 0)), from(std::move(o.from)), said(std::move(o.said)) {}
	~child()
	{
		if (pid <= 0)
			return;
		kill(pid, SIGKILL);
		waitpid(pid, nullptr, 0);
	}
	child(const child &) = delete;

	pid_t pid = 0;
	unique_fd from;
	std::string said;
};

template <class F> [[noreturn]] void child_main(pid_t parent, int to, const F &work)
{
	std::string out;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	try {
		out = worked + work();
	} catch (const std::exception &e) {
		out = failed + std::string(e.what());
	}
	write_all(to, out);
	_exit(0);
}

template <class F> child start_child(const F &work)
{
	const pid_t parent = getpid();
	int fds[2];
	child c;

	if (pipe2(fds, O_CLOEXEC))
		throw std::runtime_error(fmt::format("a pipe for a process: {}", strerror(errno)));
	c.from.reset(fds[0]);
	const unique_fd to(fds[1]);
	c.pid = fork();
	if (!c.pid)
		child_main(parent, to.get(), work);
	if (c.pid < 0)
		throw std::runtime_error(fmt::format("a process for --processes: {}", strerror(errno)));
	return c;
}

/* Throws if the child failed. */
void end_child(child &c)
{
	int status = 0;

	c.from.reset();
	waitpid(std::exchange(c.pid, 0), &status, 0);
	if (WIFSIGNALED(status))
		throw std::runtime_error(
			fmt::format("a process of --processes was ended by signal {}", WTERMSIG(status)));
	if (c.said.empty() || c.said[0] != worked)
		throw std::runtime_error(c.said.size() > 1 ? c.said.substr(1) : "a process of --processes failed");
}

void read_some(child &c)
{
	char buf[1 << 16];
	const ssize_t n = read(c.from.get(), buf, sizeof(buf));

	if (n > 0)
		c.said.append(buf, size_t(n));
	else if (n == 0 || errno != EINTR)
		end_child(c);
}

/* A signal to this process only is for all of them. */
void forward_interrupt(const std::vector<child> &all, bool *forwarded)
{
	if (!tool::interrupted() || std::exchange(*forwarded, true))
		return;
	for (const child &c : all)
		if (c.pid > 0)
			kill(c.pid, SIGTERM);
}

/* Until all have ended; throws when the first one fails. */
void collect(std::vector<child> &all)
{
	constexpr int recheck_ms = 200; /* a signal may come just before poll() */
	bool forwarded = false;

	for (;;) {
		std::vector<pollfd> fds;

		fds.reserve(all.size());
		for (const child &c : all)
			fds.push_back({c.from.get(), POLLIN, 0});
		if (std::all_of(all.begin(), all.end(), [](const child &c) { return !c.from.valid(); }))
			return;
		forward_interrupt(all, &forwarded);
		if (poll(fds.data(), fds.size(), recheck_ms) <= 0)
			continue;
		for (size_t i = 0; i < all.size(); i++)
			if (fds[i].revents)
				read_some(all[i]);
	}
}

/* work(k): the result of process k, with which the process exits. */
std::vector<std::string> in_processes(unsigned n, const std::function<std::string(unsigned)> &work)
{
	std::vector<std::string> out;
	std::vector<child> all;

	all.reserve(n);
	out.reserve(n);
	for (unsigned k = 0; k < n; k++)
		all.push_back(start_child([&] { return work(k); }));
	collect(all);
	for (const child &c : all)
		out.push_back(c.said.substr(1));
	return out;
}

} // namespace

outcome measure_in_processes(unsigned device, size_t cold_bytes, const job &j)
{
	const meeting all(j.processes);
	taken sum;

	const auto said = in_processes(j.processes, [&](unsigned k) {
		bench_device dev(device, cold_bytes);
		job mine = j;

		mine.process = k;
		return packed(take({{mine, &dev}}, [&all] { all.wait(); })[0]);
	});
	for (const std::string &text : said)
		unpack(text, j, sum);
	return sum_up(j, std::move(sum));
}

void check_in_process(unsigned device)
{
	in_processes(1, [device](unsigned) {
		usdma_device *dev;

		must(usdma_open_index(device, &dev), "device");
		usdma_close(dev);
		return std::string();
	});
}

} // namespace usdma::perf
