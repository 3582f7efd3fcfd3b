/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device process hangs (SIGSTOP) until the library counts it as lost; then it resumes (SIGCONT) and executes the
 * descriptors that it still has.  Meanwhile two other devices, one embedded and one in a process, copy memory of the
 * same kinds: none of their bytes may change.  (Embedded devices that hang and resume: random-faults.)
 * Run as: stopped_test (USDMA_SIM names the device program).
 */
#include "lib/core/memory/retire.h"
#include "lib/core/memory/memory.h"
#include "tests/integration/native.h"
#include "tests/support/sim_process.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <string>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

using u8 = unsigned char;
using u64 = unsigned long long;

static constexpr size_t KiB = 1024, MiB = 1024 * KiB;
static constexpr size_t max_copy = 1536 * KiB;
static constexpr size_t pool_size = 4 * MiB;
static constexpr unsigned other_process = 1, other_embedded = 2;

static std::string folder;
static pid_t victim_sim, other_sim;
static std::vector<u8> pool; /* random bytes, the source of all copies */

/* ---- failures, counted by any thread ----------------------------------------------------------------- */

static std::atomic<unsigned> failures{0};
static std::atomic<u64> compared{0}, losses{0}, pending_unregisters{0}, bystander_rounds{0};
static std::atomic<u64> max_retained{0};

[[gnu::format(printf, 1, 2)]] static void report_failure(const char *format, ...)
{
	va_list args;

	if (failures++ >= 20)
		return;
	va_start(args, format);
	vprint_error(format, args);
	va_end(args);
}

static bool check_same(const u8 *got, const u8 *want, size_t len, const char *what)
{
	compared += len;
	if (!memcmp(got, want, len))
		return true;
	size_t n = 0;
	for (size_t i = 0; i < len; i++)
		n += got[i] != want[i];
	report_failure("%s: %zu of %zu bytes are wrong\n", what, n, len);
	return false;
}

static bool all_are(const u8 *got, u8 value, size_t len, const char *what)
{
	const auto n = size_t(std::count_if(got, got + len, [=](u8 b) { return b != value; }));

	compared += len;
	if (n)
		report_failure("%s: %zu of %zu bytes were written\n", what, n, len);
	return !n;
}

/* A call on a device that may be lost returns 0 or -ENODEV. */
static bool works_or_lost(int err, const char *call)
{
	if (err && err != -ENODEV)
		report_failure("%s: %d (%s)\n", call, err, usdma_error_text());
	return !err;
}

/* A call on another device must succeed. */
static bool must_work(int err, const char *call)
{
	if (err)
		report_failure("%s, of another device: %d (%s)\n", call, err, usdma_error_text());
	return !err;
}

/* ---- the other devices ------------------------------------------------------------------------------- */

struct piece {
	size_t from, len;
};

static piece random_piece(std::mt19937_64 &gen)
{
	const size_t len = 1 + gen() % max_copy;

	return {gen() % (pool_size - len), len};
}

/* Memory of one kind; a failed allocation or release is reported. */
class memory {
public:
	memory(kind k, size_t len) : kind_(k)
	{
		void *p = nullptr;

		if (k == kind::pinned)
			must_work(usdma_host_alloc(nullptr, len, &p), "host_alloc");
		else
			p = aligned_alloc(4096, (len + 4095) / 4096 * 4096);
		p_ = static_cast<u8 *>(p);
		if (k == kind::registered)
			registered_ = must_work(usdma_host_register(p, len, 0), "host_register");
	}
	memory(const memory &) = delete;
	~memory()
	{
		if (kind_ == kind::pinned)
			must_work(usdma_host_free(p_), "host_free");
		else if (!registered_ || unregister())
			free(p_);
	}
	u8 *data() const { return p_; }

private:
	/* -EBUSY: it was mapped for the device that hangs.  It is unregistered again later. */
	bool unregister()
	{
		const int err = usdma_host_unregister(p_);

		if (err != -EBUSY)
			return must_work(err, "host_unregister");
		pending_unregisters++;
		std::lock_guard guard(still_mapped_lock);
		still_mapped.push_back(p_);
		return false;
	}

public:
	static std::mutex still_mapped_lock;
	static std::vector<u8 *> still_mapped;

private:
	kind kind_;
	u8 *p_ = nullptr;
	bool registered_ = false;
};
std::mutex memory::still_mapped_lock;
std::vector<u8 *> memory::still_mapped;

static bool batch(usdma_stream *s, u8 *dst, const u8 *src, size_t len)
{
	std::vector<usdma_copy_item> items;
	size_t done;

	for (size_t at = 0; at < len; at += 64 * KiB)
		items.push_back({dst + at, src + at, std::min(len - at, 64 * KiB)});
	return must_work(usdma_copy_batch(s, items.data(), items.size(), &done), "copy_batch");
}

/* Copies into the device and back, with new memory of this kind each time. */
static void round_trip(usdma_stream *s, u8 *mem, kind k, std::mt19937_64 &gen)
{
	const piece p = random_piece(gen);
	memory from(k, p.len), to(k, p.len);

	if (!from.data() || !to.data())
		return;
	memcpy(from.data(), &pool[p.from], p.len);
	memset(to.data(), 0x11, p.len);
	if (gen() % 2)
		batch(s, mem, from.data(), p.len);
	else
		must_work(usdma_copy(s, mem, from.data(), p.len), "copy in");
	must_work(usdma_copy(s, to.data(), mem, p.len), "copy out");
	must_work(usdma_stream_sync(s, long_ms), "stream_sync");
	check_same(from.data(), &pool[p.from], p.len, "source of another device's copy");
	check_same(to.data(), &pool[p.from], p.len, "another device's copy");
}

struct bystanders {
	std::atomic<bool> stop{false};
	std::vector<std::thread> threads;

	void work(unsigned slot, unsigned n)
	{
		auto gen = rng(100 + slot * 10 + n);
		usdma_device *dev;
		usdma_stream *s;
		void *mem;

		if (!must_work(usdma_open_index(slot, &dev), "open") ||
		    !must_work(usdma_stream_create(dev, nullptr, &s), "stream_create") ||
		    !must_work(usdma_device_alloc(dev, max_copy, &mem), "device_alloc"))
			return;
		/* A device process accesses registered memory by messages: only one thread uses it. */
		static constexpr kind kinds[] = {kind::pinned, kind::pageable, kind::pageable, kind::registered};
		const size_t kind_count = std::size(kinds) - (slot == other_process && n);
		while (!stop && !failures) {
			round_trip(s, static_cast<u8 *>(mem), kinds[gen() % kind_count], gen);
			bystander_rounds++;
		}
		must_work(usdma_stream_destroy(s), "stream_destroy");
		must_work(usdma_device_free(mem), "device_free");
		must_work(usdma_close(dev), "close");
	}
	bystanders()
	{
		for (unsigned slot : {other_process, other_embedded})
			for (unsigned n = 0; n < 2; n++)
				threads.emplace_back([=, this] { work(slot, n); });
	}
	~bystanders()
	{
		stop = true;
		for (std::thread &t : threads)
			t.join();
	}
};

/* Waits until the other devices have done n more rounds. */
static void wait_bystander_rounds(u64 n)
{
	const u64 until = bystander_rounds + n;

	while (bystander_rounds < until && !failures)
		std::this_thread::yield();
}

/* ---- the device that hangs ---------------------------------------------------------------------------- */

/* A duplicate of the process's client socket; -1: this process may not duplicate it. */
static int connection_of(pid_t pid)
{
	const int process = int(syscall(SYS_pidfd_open, pid, 0));
	int found = -1;

	for (int fd = 3; fd < 64 && process >= 0 && found < 0; fd++) {
		const int copied_fd = int(syscall(SYS_pidfd_getfd, process, fd, 0));
		sockaddr_un peer, own = {};
		socklen_t len = sizeof(peer), own_len = sizeof(own);

		/* A socket bound to a path is a client's connection. */
		if (copied_fd >= 0 && !getpeername(copied_fd, reinterpret_cast<sockaddr *>(&peer), &len) &&
		    !getsockname(copied_fd, reinterpret_cast<sockaddr *>(&own), &own_len) && own.sun_path[0])
			found = copied_fd;
		else if (copied_fd >= 0)
			close(copied_fd);
	}
	if (process >= 0)
		close(process);
	return found;
}

/* It is lost after an invalid message in its name, or because it does not reply. */
struct victim {
	usdma_device *dev = nullptr;
	bool send_garbage;

	explicit victim(bool garbage) : send_garbage(garbage) {}
	void open() { WORKS(usdma_open_index(0, &dev)); }
	void stop() const
	{
		static const char bad_message[] = "this is no vfio-user message";

		stop_sim(victim_sim);
		const int fd = send_garbage ? connection_of(victim_sim) : -1;
		if (fd < 0)
			return;
		assert_int_equal(send(fd, bad_message, sizeof(bad_message), MSG_NOSIGNAL), sizeof(bad_message));
		close(fd);
	}
	static void resume() { continue_sim(victim_sim); }
};

/* ---- the load on it ---------------------------------------------------------------------------------- */

/* Copies of one kind until the device is lost, in its own thread and stream. */
struct load {
	usdma_device *dev;
	u8 *mem; /* device memory with a copy of the pool */
	usdma_stream *s = nullptr;
	std::vector<u8 *> pinned;
	u8 *user_mem = nullptr; /* allocated by the program, registered */
	bool registered = false;
	std::thread thread;

	static constexpr size_t size = MiB, blocks = 12;

	load(usdma_device *d, u8 *m) : dev(d), mem(m) { WORKS(usdma_stream_create(dev, nullptr, &s)); }
	load(load &&) = default;

	bool pageable_copies(std::mt19937_64 &gen)
	{
		const piece p = random_piece(gen);
		std::vector<u8> plain(p.len);

		if (!works_or_lost(usdma_copy(s, plain.data(), mem + p.from, p.len), "pageable copy out"))
			return false;
		check_same(plain.data(), &pool[p.from], p.len, "a pageable copy out of the device under test");
		return works_or_lost(usdma_copy(s, mem + p.from, &pool[p.from], p.len), "pageable copy in");
	}
	/* Many copies at a time, so that some are in the ring when the device hangs. */
	bool copy_out_many(u8 *const *to, size_t n)
	{
		for (unsigned again = 0; again < 4; again++)
			for (size_t i = 0; i < n; i++)
				if (!works_or_lost(usdma_copy(s, to[i], mem + i * 64 * KiB, size), "copy out"))
					return false;
		if (!works_or_lost(usdma_stream_sync(s, -1), "stream_sync"))
			return false;
		for (size_t i = 0; i < n; i++)
			check_same(to[i], &pool[i * 64 * KiB], size, "a pinned copy out of the device under test");
		return true;
	}
	bool pinned_copies(std::mt19937_64 &gen)
	{
		while (pinned.size() < blocks) {
			void *p;

			if (!must_work(usdma_host_alloc(dev, size, &p), "host_alloc"))
				return false;
			pinned.push_back(static_cast<u8 *>(p));
		}
		if (!copy_out_many(pinned.data(), pinned.size()))
			return false;
		must_work(usdma_host_free(pinned.back()), "host_free");
		pinned.pop_back();
		(void)gen;
		return true;
	}
	bool batch_copies(std::mt19937_64 &gen)
	{
		std::vector<usdma_copy_item> items;
		size_t done;

		for (u8 *p : pinned)
			items.push_back({p, mem + gen() % MiB, size / 2});
		return works_or_lost(usdma_copy_batch(s, items.data(), items.size(), &done), "copy_batch") &&
		       pinned_copies(gen);
	}
	bool registered_copies(std::mt19937_64 &gen)
	{
		if (!user_mem) {
			user_mem = static_cast<u8 *>(aligned_alloc(4096, size));
			registered = must_work(usdma_host_register(user_mem, size, 0), "host_register");
		}
		return registered && copy_out_many(&user_mem, 1) && gen();
	}
	void run(unsigned mode, u64 seed)
	{
		std::mt19937_64 gen(seed);

		for (bool alive = true; alive;)
			alive = mode == 0 ? pageable_copies(gen) :
				mode == 1 ? pinned_copies(gen) :
				mode == 2 ? batch_copies(gen) :
					    registered_copies(gen);
	}
	void free_pinned()
	{
		for (u8 *p : pinned)
			must_work(usdma_host_free(p), "host_free of a lost device's block");
		pinned.clear();
	}
	/* True: the library does not use user_mem any more. */
	bool unregister()
	{
		if (!registered)
			return user_mem;
		const int err = usdma_host_unregister(user_mem);

		if (err && err != -EBUSY)
			report_failure("host_unregister: %d (%s)\n", err, usdma_error_text());
		pending_unregisters += err == -EBUSY;
		registered = err != 0;
		return !err;
	}
	void end()
	{
		const int err = usdma_stream_destroy(s);

		/* Copies that were aborted, or whose memory was unregistered, have failed. */
		if (err && err != -ENODEV && err != -EIO && err != -EFAULT)
			report_failure("stream_destroy: %d (%s)\n", err, usdma_error_text());
	}
};

/* Waits until the library counts it as lost: it does not reply, or makes no progress. */
static void wait_lost(usdma_device *dev, usdma_stream *s, bool by_hang)
{
	if (by_hang) {
		works_or_lost(usdma_stream_sync(s, -1), "stream_sync of a device that hangs");
		return;
	}
	for (void *p; !(flags_of(dev) & USDMA_DEVICE_LOST);) {
		if (must_work(usdma_host_alloc(nullptr, 20 * MiB, &p), "host_alloc that sends a request"))
			must_work(usdma_host_free(p), "host_free");
	}
}

/* Pinned memory that was just freed, allocated again: nothing may write to it. */
struct reallocated {
	std::vector<u8 *> blocks;

	explicit reallocated(size_t n)
	{
		for (void *p;
		     blocks.size() < n && must_work(usdma_host_alloc(nullptr, load::size, &p), "host_alloc");) {
			blocks.push_back(static_cast<u8 *>(p));
			memset(p, 0x22, load::size);
		}
	}
	~reallocated()
	{
		for (u8 *p : blocks) {
			all_are(p, 0x22, load::size, "pinned memory that was allocated after the loss");
			must_work(usdma_host_free(p), "host_free");
		}
	}
};

static void random_pause(std::mt19937_64 &gen, unsigned max_us)
{
	const timespec t = {0, long(gen() % max_us * 1000)};

	nanosleep(&t, nullptr);
}

static void wait_quiesced(usdma_device *dev)
{
	const u64 until = u64(time(nullptr)) + u64(long_ms) / 1000;
	const auto quiesced = [&] {
		return dev ? !(flags_of(dev) & USDMA_DEVICE_MAY_WRITE) : !usdma::core::retired_get().devices;
	};

	while (!quiesced()) {
		std::this_thread::yield();
		if (u64(time(nullptr)) > until) {
			report_failure("the device that resumed and ended is not reported as quiesced\n");
			return;
		}
	}
}

static void note_retained()
{
	const u64 retained = usdma::core::retired_get().bytes;

	if (retained > max_retained)
		max_retained = retained;
}

static void close_lost(std::vector<load> &loads, u8 *mem, usdma_device *dev)
{
	for (load &l : loads)
		l.end();
	must_work(usdma_device_free(mem), "device_free");
	must_work(usdma_close(dev), "close of a lost device");
}

/* A device is lost while it hangs; its memory has other owners when it resumes. */
static void one_round(victim &v, std::mt19937_64 &gen)
{
	const bool by_hang = gen() % 16 == 0, free_first = gen() % 2, close_first = gen() % 4;
	std::vector<load> loads;
	void *p;

	v.open();
	WORKS(usdma_device_alloc(v.dev, pool_size, &p));
	u8 *mem = static_cast<u8 *>(p);
	WORKS(usdma_copy_sync(v.dev, mem, pool.data(), pool_size, long_ms));
	for (unsigned i = 0; i < 4; i++)
		loads.emplace_back(v.dev, mem);
	for (unsigned i = 0; i < 4; i++)
		loads[i].thread = std::thread([&l = loads[i], i, seed = gen()] { l.run(i, seed); });
	random_pause(gen, 20000);
	v.stop();
	wait_lost(v.dev, loads[1].s, by_hang);
	losses++;
	for (load &l : loads)
		l.thread.join();
	if (!(flags_of(v.dev) & USDMA_DEVICE_MAY_WRITE))
		report_failure("a device that hangs is reported as quiesced\n");
	for (load &l : loads)
		if (free_first)
			l.free_pinned();
	if (close_first)
		close_lost(loads, mem, v.dev);
	for (load &l : loads)
		if (l.user_mem && l.unregister())
			memset(l.user_mem, 0x33, load::size);
	for (load &l : loads)
		l.free_pinned();
	note_retained();
	{
		reallocated r(2 * load::blocks);

		wait_bystander_rounds(2);
		random_pause(gen, 3000);
		v.resume();
		wait_quiesced(close_first ? nullptr : v.dev);
		wait_bystander_rounds(1);
	}
	if (!close_first)
		close_lost(loads, mem, v.dev);
	wait_quiesced(nullptr);
	for (load &l : loads) {
		if (!l.user_mem)
			continue;
		if (!l.registered)
			all_are(l.user_mem, 0x33, load::size, "memory after host_unregister");
		else if (!l.unregister())
			report_failure("host_unregister after the device's end: %s\n", usdma_error_text());
		free(l.user_mem);
	}
}

/* Memory of the other devices that was still mapped for the device that hung. */
static void unregister_still_mapped()
{
	std::lock_guard guard(memory::still_mapped_lock);

	for (u8 *p : memory::still_mapped) {
		must_work(usdma_host_unregister(p), "second host_unregister");
		free(p);
	}
	memory::still_mapped.clear();
}

/* ---- the tests --------------------------------------------------------------------------------------- */

static void report(unsigned n)
{
	fprintf(stderr,
		"# %u stops, %llu losses; %llu rounds of the other devices, %llu MiB compared; "
		"%llu registrations released late, at most %llu KiB retained of a closed device\n",
		n, losses.load(), bystander_rounds.load(), compared.load() / MiB, pending_unregisters.load(),
		max_retained.load() / KiB);
}

static void process_resumes(void **)
{
	const unsigned rounds = 3 * scale();
	auto gen = rng(1);
	{
		bystanders running;

		wait_bystander_rounds(4); /* all have started */
		for (unsigned i = 0; i < rounds && !failures; i++) {
			victim v(gen() % 16);

			one_round(v, gen);
			unregister_still_mapped();
			if (i % 50 == 49)
				fprintf(stderr, "# %u rounds\n", i + 1);
		}
	}
	report(rounds);
	assert_int_equal(failures, 0);
	assert_int_equal(usdma::core::retired_get().devices, 0);
}

static std::atomic<unsigned> warnings;

/* A device that never resumes retains its memory, is reported once, and is counted until its process has ended. */
static void process_never_resumes(void **)
{
	victim v(true);
	void *p;

	usdma_log_set_callback(
		[](int, const char *text, void *) { warnings += strstr(text, "may still write:") != nullptr; },
		nullptr);
	usdma_log_set_level(USDMA_LOG_WARN);
	{
		v.open();
		stream s(v.dev);
		const block host(v.dev, kind::pinned, max_copy);
		WORKS(usdma_device_alloc(v.dev, MiB, &p));
		v.stop();
		wait_lost(v.dev, s, false);
		WORKS(usdma_device_free(p));
		assert_true(flags_of(v.dev) & USDMA_DEVICE_MAY_WRITE);
	}
	WORKS(usdma_close(v.dev));
	for (unsigned i = 0; i < 3; i++) { /* other devices are opened and closed */
		device other(other_embedded);
		block host(other, kind::pinned, max_copy), mem(other, kind::device, max_copy);
		stream s(other);

		memcpy(host.data(), pool.data(), max_copy);
		WORKS(usdma_copy(s, mem.data(), host.data(), max_copy));
		WORKS(usdma_stream_sync(s, long_ms));
	}
	assert_int_equal(usdma::core::retired_get().devices, 1);
	assert_true(usdma::core::retired_get().bytes > 0);
	assert_int_equal(warnings, 1);
	const std::vector<pid_t> children = children_of(victim_sim);
	end_sim(victim_sim);
	for (pid_t child : children) /* stopped, too; it ends by itself when its parent is dead */
		kill(child, SIGCONT);
	device other(other_embedded); /* each open checks for processes that ended */
	for (time_t until = time(nullptr) + long_ms / 1000;
	     usdma::core::retired_get().devices && time(nullptr) < until;)
		device again(other_embedded), process(other_process);
	assert_int_equal(usdma::core::retired_get().devices, 0);
	assert_int_equal(usdma::core::retired_get().bytes, 0);
	assert_int_equal(warnings, 1);
}

/* ---- main -------------------------------------------------------------------------------------------- */

static pid_t serve(const char *name)
{
	const pid_t pid = start_sim(getenv("USDMA_SIM"), folder + "/" + name,
				    {"--engines", "2", "--channels", "16", "--mem", "64M"});

	assert_true(pid > 0);
	return pid;
}

static int set_up(void **)
{
	char name[] = "/tmp/usdma-stopped-XXXXXX";
	auto gen = rng(0);

	assert_non_null(mkdtemp(name));
	folder = name;
	victim_sim = serve("victim");
	other_sim = serve("other");
	setenv("USDMA_DEVICES",
	       ("vfio-user:" + folder + "/victim,vfio-user:" + folder + "/other,sim:mem=64M:engines=1:channels=8")
		       .c_str(),
	       1);
	pool.resize(pool_size);
	fill_random(pool.data(), pool.size(), gen);
	return 0;
}

static int tear_down(void **)
{
	end_sim(victim_sim);
	end_sim(other_sim);
	unlink((folder + "/victim").c_str());
	unlink((folder + "/other").c_str());
	return rmdir(folder.c_str());
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(process_resumes),
		cmocka_unit_test(process_never_resumes),
	};

	setenv("USDMA_LOG", "none", 0);
	/* The default: a healthy server on a very busy machine has taken more than 2 s. */
	setenv("USDMA_REPLY_MS", "5000", 0);
	setenv("USDMA_HANG_MS", "5000", 0);
	alarm(100 + 180 * scale()); /* a call that hangs */
	return cmocka_run_group_tests_name("stopped", tests, set_up, tear_down);
}
