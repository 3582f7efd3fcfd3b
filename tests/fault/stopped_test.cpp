/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device process that hangs until the library counts it as lost, and then goes on with what it was told (SIGSTOP,
 * SIGCONT).  Two other devices, one of each kind, are at work all the while with memory of the same kinds: not one
 * byte of theirs may change.  (Embedded ones that hang and go on: random-faults.)
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
static constexpr size_t most = 1536 * KiB; /* bytes of one copy */
static constexpr size_t pool_size = 4 * MiB;
static constexpr unsigned other_process = 1, other_embedded = 2;

static std::string folder;
static pid_t victim_sim, other_sim;
static std::vector<u8> pool; /* random bytes: all that is copied comes from here */

/* ---- what is wrong, from any thread ------------------------------------------------------------------ */

static std::atomic<unsigned> wrong{0};
static std::atomic<u64> compared{0}, losses{0}, kept_registrations{0}, other_rounds{0};
static std::atomic<u64> most_kept{0};

[[gnu::format(printf, 1, 2)]] static void complain(const char *format, ...)
{
	va_list args;

	if (wrong++ >= 20)
		return;
	va_start(args, format);
	vprint_error(format, args);
	va_end(args);
}

static bool same(const u8 *got, const u8 *want, size_t len, const char *what)
{
	compared += len;
	if (!memcmp(got, want, len))
		return true;
	size_t n = 0;
	for (size_t i = 0; i < len; i++)
		n += got[i] != want[i];
	complain("%s: %zu of %zu bytes are wrong\n", what, n, len);
	return false;
}

static bool all_are(const u8 *got, u8 value, size_t len, const char *what)
{
	const auto n = size_t(std::count_if(got, got + len, [=](u8 b) { return b != value; }));

	compared += len;
	if (n)
		complain("%s: %zu of %zu bytes were written\n", what, n, len);
	return !n;
}

/* What a call on a device that may be lost is allowed to return. */
static bool worked(int err, const char *call)
{
	if (err && err != -ENODEV)
		complain("%s: %d (%s)\n", call, err, usdma_error_text());
	return !err;
}

/* … and one on a device that is not. */
static bool must(int err, const char *call)
{
	if (err)
		complain("%s, of another device: %d (%s)\n", call, err, usdma_error_text());
	return !err;
}

/* ---- the others -------------------------------------------------------------------------------------- */

struct piece {
	size_t from, len;
};

static piece some(std::mt19937_64 &gen)
{
	const size_t len = 1 + gen() % most;

	return {gen() % (pool_size - len), len};
}

/* Memory of a kind, got and given back by calls that are counted. */
class memory {
public:
	memory(kind k, size_t len) : kind_(k)
	{
		void *p = nullptr;

		if (k == kind::pinned)
			must(usdma_host_alloc(nullptr, len, &p), "host_alloc");
		else
			p = aligned_alloc(4096, (len + 4095) / 4096 * 4096);
		p_ = static_cast<u8 *>(p);
		if (k == kind::registered)
			registered_ = must(usdma_host_register(p, len, 0), "host_register");
	}
	memory(const memory &) = delete;
	~memory()
	{
		if (kind_ == kind::pinned)
			must(usdma_host_free(p_), "host_free");
		else if (!registered_ || give_back())
			free(p_);
	}
	u8 *data() const { return p_; }

private:
	/* It was mapped into the one that hangs: then it is kept, and so is the memory. */
	bool give_back()
	{
		const int err = usdma_host_unregister(p_);

		if (err != -EBUSY)
			return must(err, "host_unregister");
		kept_registrations++;
		std::lock_guard guard(kept_lock);
		kept.push_back(p_);
		return false;
	}

public:
	static std::mutex kept_lock;
	static std::vector<u8 *> kept;

private:
	kind kind_;
	u8 *p_ = nullptr;
	bool registered_ = false;
};
std::mutex memory::kept_lock;
std::vector<u8 *> memory::kept;

static bool batch(usdma_stream *s, u8 *dst, const u8 *src, size_t len)
{
	std::vector<usdma_copy_item> items;
	size_t done;

	for (size_t at = 0; at < len; at += 64 * KiB)
		items.push_back({dst + at, src + at, std::min(len - at, 64 * KiB)});
	return must(usdma_copy_batch(s, items.data(), items.size(), &done), "copy_batch");
}

/* Into the device and back, by new memory of this kind each time. */
static void there_and_back(usdma_stream *s, u8 *mem, kind k, std::mt19937_64 &gen)
{
	const piece p = some(gen);
	memory from(k, p.len), to(k, p.len);

	if (!from.data() || !to.data())
		return;
	memcpy(from.data(), &pool[p.from], p.len);
	memset(to.data(), 0x11, p.len);
	if (gen() % 2)
		batch(s, mem, from.data(), p.len);
	else
		must(usdma_copy(s, mem, from.data(), p.len), "copy in");
	must(usdma_copy(s, to.data(), mem, p.len), "copy out");
	must(usdma_stream_sync(s, long_ms), "stream_sync");
	same(from.data(), &pool[p.from], p.len, "source of another device's copy");
	same(to.data(), &pool[p.from], p.len, "another device's copy");
}

struct others {
	std::atomic<bool> stop{false};
	std::vector<std::thread> threads;

	void work(unsigned slot, unsigned n)
	{
		auto gen = rng(100 + slot * 10 + n);
		usdma_device *dev;
		usdma_stream *s;
		void *mem;

		if (!must(usdma_open_index(slot, &dev), "open") ||
		    !must(usdma_stream_create(dev, nullptr, &s), "stream_create") ||
		    !must(usdma_device_alloc(dev, most, &mem), "device_alloc"))
			return;
		/*
		 * A process reaches registered memory by messages: one thread's, for both directions at once
		 * are another matter.
		 */
		static constexpr kind kinds[] = {kind::pinned, kind::pageable, kind::pageable, kind::registered};
		const size_t most_kinds = std::size(kinds) - (slot == other_process && n);
		while (!stop && !wrong) {
			there_and_back(s, static_cast<u8 *>(mem), kinds[gen() % most_kinds], gen);
			other_rounds++;
		}
		must(usdma_stream_destroy(s), "stream_destroy");
		must(usdma_device_free(mem), "device_free");
		must(usdma_close(dev), "close");
	}
	others()
	{
		for (unsigned slot : {other_process, other_embedded})
			for (unsigned n = 0; n < 2; n++)
				threads.emplace_back([=, this] { work(slot, n); });
	}
	~others()
	{
		stop = true;
		for (std::thread &t : threads)
			t.join();
	}
};

/* A few rounds of theirs, while things are as they are now. */
static void others_work(u64 n)
{
	const u64 until = other_rounds + n;

	while (other_rounds < until && !wrong)
		std::this_thread::yield();
}

/* ---- who hangs -------------------------------------------------------------------------------- */

/* What the process that hangs has open: its end of the connection to us, if we may have it. */
static int connection_of(pid_t pid)
{
	const int process = int(syscall(SYS_pidfd_open, pid, 0));
	int found = -1;

	for (int fd = 3; fd < 64 && process >= 0 && found < 0; fd++) {
		const int mine = int(syscall(SYS_pidfd_getfd, process, fd, 0));
		sockaddr_un peer, own = {};
		socklen_t len = sizeof(peer), own_len = sizeof(own);

		/* Of the socket at a path: a client's. */
		if (mine >= 0 && !getpeername(mine, reinterpret_cast<sockaddr *>(&peer), &len) &&
		    !getsockname(mine, reinterpret_cast<sockaddr *>(&own), &own_len) && own.sun_path[0])
			found = mine;
		else if (mine >= 0)
			close(mine);
	}
	if (process >= 0)
		close(process);
	return found;
}

/* Two ways to lose it: by a word that makes no sense, as if it had said that last; or by its silence. */
struct victim {
	usdma_device *dev = nullptr;
	bool cut;

	explicit victim(bool cut_link) : cut(cut_link) {}
	void open() { WORKS(usdma_open_index(0, &dev)); }
	void stop() const
	{
		static const char garbage[] = "this is no vfio-user message";

		stop_sim(victim_sim);
		const int fd = cut ? connection_of(victim_sim) : -1;
		if (fd < 0)
			return;
		assert_int_equal(send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL), sizeof(garbage));
		close(fd);
	}
	static void go_on() { continue_sim(victim_sim); }
};

/* ---- its work ---------------------------------------------------------------------------------------- */

/* Each way of copying goes on until the device is lost, in a thread and stream of its own. */
struct load {
	usdma_device *dev;
	u8 *mem; /* in the device: the beginning of the pool */
	usdma_stream *s = nullptr;
	std::vector<u8 *> pinned;
	u8 *own = nullptr; /* registered */
	bool registered = false;
	std::thread thread;

	static constexpr size_t size = MiB, blocks = 12;

	load(usdma_device *d, u8 *m) : dev(d), mem(m) { WORKS(usdma_stream_create(dev, nullptr, &s)); }
	load(load &&) = default;

	bool pageable(std::mt19937_64 &gen)
	{
		const piece p = some(gen);
		std::vector<u8> plain(p.len);

		if (!worked(usdma_copy(s, plain.data(), mem + p.from, p.len), "pageable copy out"))
			return false;
		same(plain.data(), &pool[p.from], p.len, "a copy out of the device that is to be lost");
		return worked(usdma_copy(s, mem + p.from, &pool[p.from], p.len), "pageable copy in");
	}
	/* Much at a time: it is in the ring when the device hangs. */
	bool many(u8 *const *to, size_t n)
	{
		for (unsigned again = 0; again < 4; again++)
			for (size_t i = 0; i < n; i++)
				if (!worked(usdma_copy(s, to[i], mem + i * 64 * KiB, size), "copy out"))
					return false;
		if (!worked(usdma_stream_sync(s, -1), "stream_sync"))
			return false;
		for (size_t i = 0; i < n; i++)
			same(to[i], &pool[i * 64 * KiB], size, "a pinned copy out of the device that is to be lost");
		return true;
	}
	bool in_pinned(std::mt19937_64 &gen)
	{
		while (pinned.size() < blocks) {
			void *p;

			if (!must(usdma_host_alloc(dev, size, &p), "host_alloc"))
				return false;
			pinned.push_back(static_cast<u8 *>(p));
		}
		if (!many(pinned.data(), pinned.size()))
			return false;
		must(usdma_host_free(pinned.back()), "host_free");
		pinned.pop_back();
		(void)gen;
		return true;
	}
	bool in_batch(std::mt19937_64 &gen)
	{
		std::vector<usdma_copy_item> items;
		size_t done;

		for (u8 *p : pinned)
			items.push_back({p, mem + gen() % MiB, size / 2});
		return worked(usdma_copy_batch(s, items.data(), items.size(), &done), "copy_batch") && in_pinned(gen);
	}
	bool in_own(std::mt19937_64 &gen)
	{
		if (!own) {
			own = static_cast<u8 *>(aligned_alloc(4096, size));
			registered = must(usdma_host_register(own, size, 0), "host_register");
		}
		return registered && many(&own, 1) && gen();
	}
	void run(unsigned way, u64 seed)
	{
		std::mt19937_64 gen(seed);

		for (bool on = true; on;)
			on = way == 0 ? pageable(gen) :
			     way == 1 ? in_pinned(gen) :
			     way == 2 ? in_batch(gen) :
					in_own(gen);
	}
	void free_pinned()
	{
		for (u8 *p : pinned)
			must(usdma_host_free(p), "host_free of a lost device's block");
		pinned.clear();
	}
	/* True: the memory is the program's own again. */
	bool take_back()
	{
		if (!registered)
			return own;
		const int err = usdma_host_unregister(own);

		if (err && err != -EBUSY)
			complain("host_unregister: %d (%s)\n", err, usdma_error_text());
		kept_registrations += err == -EBUSY;
		registered = err != 0;
		return !err;
	}
	void end()
	{
		const int err = usdma_stream_destroy(s);

		/* What went on and was cut off, or found its memory taken away, failed. */
		if (err && err != -ENODEV && err != -EIO && err != -EFAULT)
			complain("stream_destroy: %d (%s)\n", err, usdma_error_text());
	}
};

/* Until the library counts it as lost: it does not answer, or makes no progress. */
static void until_lost(usdma_device *dev, usdma_stream *s, bool by_hang)
{
	if (by_hang) {
		worked(usdma_stream_sync(s, -1), "stream_sync of what hangs");
		return;
	}
	for (void *p; !(flags_of(dev) & USDMA_DEVICE_LOST);) {
		if (must(usdma_host_alloc(nullptr, 20 * MiB, &p), "host_alloc that asks"))
			must(usdma_host_free(p), "host_free");
	}
}

/* Pinned memory as it was freed just now, in the hands of somebody else. */
struct hunters {
	std::vector<u8 *> blocks;

	explicit hunters(size_t n)
	{
		for (void *p; blocks.size() < n && must(usdma_host_alloc(nullptr, load::size, &p), "host_alloc");) {
			blocks.push_back(static_cast<u8 *>(p));
			memset(p, 0x22, load::size);
		}
	}
	~hunters()
	{
		for (u8 *p : blocks) {
			all_are(p, 0x22, load::size, "pinned memory that was allocated after the loss");
			must(usdma_host_free(p), "host_free");
		}
	}
};

static void pause_some(std::mt19937_64 &gen, unsigned most_us)
{
	const timespec t = {0, long(gen() % most_us * 1000)};

	nanosleep(&t, nullptr);
}

static void until_quiet(usdma_device *dev)
{
	const u64 until = u64(time(nullptr)) + u64(long_ms) / 1000;
	const auto over = [&] {
		return dev ? !(flags_of(dev) & USDMA_DEVICE_MAY_WRITE) : !usdma::core::retired_get().devices;
	};

	while (!over()) {
		std::this_thread::yield();
		if (u64(time(nullptr)) > until) {
			complain("the device that went on and ended is not known to be quiet\n");
			return;
		}
	}
}

static void note_kept()
{
	const u64 kept = usdma::core::retired_get().bytes;

	if (kept > most_kept)
		most_kept = kept;
}

static void leave(std::vector<load> &loads, u8 *mem, usdma_device *dev)
{
	for (load &l : loads)
		l.end();
	must(usdma_device_free(mem), "device_free");
	must(usdma_close(dev), "close of a lost device");
}

/* One device that is lost while it hangs, and its memory in others' hands when it goes on. */
static void one_round(victim &v, std::mt19937_64 &gen)
{
	const bool by_hang = gen() % 16 == 0, free_first = gen() % 2, close_first = gen() % 4;
	std::vector<load> loads;
	void *p;

	v.open();
	WORKS(usdma_device_alloc(v.dev, pool_size, &p));
	u8 *mem = static_cast<u8 *>(p);
	WORKS(usdma_copy_sync(v.dev, mem, pool.data(), pool_size, long_ms));
	for (unsigned way = 0; way < 4; way++)
		loads.emplace_back(v.dev, mem);
	for (unsigned way = 0; way < 4; way++)
		loads[way].thread = std::thread([&l = loads[way], way, seed = gen()] { l.run(way, seed); });
	pause_some(gen, 20000);
	v.stop();
	until_lost(v.dev, loads[1].s, by_hang);
	losses++;
	for (load &l : loads)
		l.thread.join();
	if (!(flags_of(v.dev) & USDMA_DEVICE_MAY_WRITE))
		complain("a device that hangs is said to be quiet\n");
	for (load &l : loads)
		if (free_first)
			l.free_pinned();
	if (close_first)
		leave(loads, mem, v.dev);
	for (load &l : loads)
		if (l.own && l.take_back())
			memset(l.own, 0x33, load::size);
	for (load &l : loads)
		l.free_pinned();
	note_kept();
	{
		hunters h(2 * load::blocks);

		others_work(2);
		pause_some(gen, 3000);
		v.go_on();
		until_quiet(close_first ? nullptr : v.dev);
		others_work(1);
	}
	if (!close_first)
		leave(loads, mem, v.dev);
	until_quiet(nullptr);
	for (load &l : loads) {
		if (!l.own)
			continue;
		if (!l.registered)
			all_are(l.own, 0x33, load::size, "memory after host_unregister");
		else if (!l.take_back())
			complain("host_unregister after the device's end: %s\n", usdma_error_text());
		free(l.own);
	}
}

/* What others had registered beside the device that hung. */
static void kept_comes_back()
{
	std::lock_guard guard(memory::kept_lock);

	for (u8 *p : memory::kept) {
		must(usdma_host_unregister(p), "host_unregister, once more");
		free(p);
	}
	memory::kept.clear();
}

/* ---- the tests --------------------------------------------------------------------------------------- */

static void report(unsigned n)
{
	fprintf(stderr,
		"# %u stops, %llu losses; %llu rounds of the other devices, %llu MiB compared; "
		"%llu registrations kept for a while, at most %llu KiB kept of a closed device\n",
		n, losses.load(), other_rounds.load(), compared.load() / MiB, kept_registrations.load(),
		most_kept.load() / KiB);
}

static void a_process_goes_on(void **)
{
	const unsigned rounds = 3 * scale();
	auto gen = rng(1);
	{
		others o;

		others_work(4); /* all of them have begun */
		for (unsigned i = 0; i < rounds && !wrong; i++) {
			victim v(gen() % 16);

			one_round(v, gen);
			kept_comes_back();
			if (i % 50 == 49)
				fprintf(stderr, "# %u rounds\n", i + 1);
		}
	}
	report(rounds);
	assert_int_equal(wrong, 0);
	assert_int_equal(usdma::core::retired_get().devices, 0);
}

static std::atomic<unsigned> told;

/* What never goes on keeps what it had, is told of once, and counted for as long as it is there. */
static void one_never_goes_on(void **)
{
	victim v(true);
	void *p;

	usdma_log_set_callback(
		[](int, const char *text, void *) { told += strstr(text, "may still write:") != nullptr; }, nullptr);
	usdma_log_set_level(USDMA_LOG_WARN);
	{
		v.open();
		stream s(v.dev);
		const block host(v.dev, kind::pinned, most);
		WORKS(usdma_device_alloc(v.dev, MiB, &p));
		v.stop();
		until_lost(v.dev, s, false);
		WORKS(usdma_device_free(p));
		assert_true(flags_of(v.dev) & USDMA_DEVICE_MAY_WRITE);
	}
	WORKS(usdma_close(v.dev));
	for (unsigned i = 0; i < 3; i++) { /* others come and go */
		device other(other_embedded);
		block host(other, kind::pinned, most), mem(other, kind::device, most);
		stream s(other);

		memcpy(host.data(), pool.data(), most);
		WORKS(usdma_copy(s, mem.data(), host.data(), most));
		WORKS(usdma_stream_sync(s, long_ms));
	}
	assert_int_equal(usdma::core::retired_get().devices, 1);
	assert_true(usdma::core::retired_get().bytes > 0);
	assert_int_equal(told, 1);
	const std::vector<pid_t> children = children_of(victim_sim);
	end_sim(victim_sim);
	for (pid_t child : children) /* stopped, too: one that outlives its parent ends by itself */
		kill(child, SIGCONT);
	device other(other_embedded); /* its opening looks for those that ended */
	for (time_t until = time(nullptr) + long_ms / 1000;
	     usdma::core::retired_get().devices && time(nullptr) < until;)
		device again(other_embedded), look(other_process);
	assert_int_equal(usdma::core::retired_get().devices, 0);
	assert_int_equal(usdma::core::retired_get().bytes, 0);
	assert_int_equal(told, 1);
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
		cmocka_unit_test(a_process_goes_on),
		cmocka_unit_test(one_never_goes_on),
	};

	setenv("USDMA_LOG", "none", 0);
	/* As it is by itself: a healthy server of a very busy machine has taken more than 2 s. */
	setenv("USDMA_REPLY_MS", "5000", 0);
	setenv("USDMA_HANG_MS", "5000", 0);
	alarm(100 + 180 * scale()); /* a call that hangs */
	return cmocka_run_group_tests_name("stopped", tests, set_up, tear_down);
}
