/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/test.h"

#include "driver/base/bits.h"
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/futex_lock.h"
#include "driver/base/log.h"
#include "driver/base/printable.h"
#include "driver/base/thread.h"
#include "driver/base/thread_end.h"
#include "driver/base/unique_fd.h"
#include "driver/base/words.h"

#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace usdma;

static void words_numbers(void **)
{
	static constexpr const char *bad[] = {"",
					      " ",
					      "x",
					      "0x",
					      "-",
					      "-1",
					      "+1",
					      "1 ",
					      " 1",
					      "1x",
					      "0xg",
					      "0x-1",
					      "1.5",
					      "18446744073709551616",
					      "0x10000000000000000"};
	u64 v = 42;
	s64 n = 42;

	for (const char *text : bad)
		assert_false(number_parse(text, &v));
	assert_false(number_parse("9", &v, 10, 20) || number_parse("21", &v, 10, 20));
	assert_int_equal(v, 42);
	assert_true(number_parse("010", &v, 10, 10) && v == 10); /* not octal */
	assert_true(number_parse("18446744073709551615", &v) && v == ~u64(0));
	assert_true(number_parse("0xffffFFFFffffFFFF", &v) && v == ~u64(0));
	assert_false(number_parse_signed("--1", &n) || number_parse_signed("-", &n) ||
		     number_parse_signed("-2", &n, -1, 1));
	assert_false(number_parse_signed("9223372036854775808", &n));
	assert_int_equal(n, 42);
	assert_true(number_parse_signed("-1", &n, -1, 1) && n == -1);
	assert_true(number_parse_signed("0x10", &n) && n == 16);
}

static void words_sizes(void **)
{
	static constexpr const char *bad[] = {"", "K", "1KK", "1Q", "-1K", "16777216T", "1 K"};
	std::string_view rest = "12-ff,";
	u64 v = 42;

	for (const char *text : bad)
		assert_false(size_parse(text, &v));
	assert_false(size_parse("1K", &v, 1025) || size_parse("1K", &v, 0, 1023));
	assert_int_equal(v, 42);
	assert_true(size_parse("64k", &v, 65536, 65536) && v == 65536);
	assert_true(size_parse("16777215T", &v) && v == u64(16777215) << 40);
	assert_true(number_take(&rest, &v) && v == 12 && rest == "-ff,");
	assert_false(number_take(&rest, &v));
	rest.remove_prefix(1);
	assert_true(number_take(&rest, &v, 16) && v == 0xff && rest == ",");
}

static void types_ranges(void **)
{
	assert_true(range_within(0, 10, 10));
	assert_true(range_within(10, 0, 10));
	assert_false(range_within(11, 0, 10));
	assert_false(range_within(5, 6, 10));
	assert_false(range_within(5, ~u64(0) - 2, 10)); /* wraps */
	assert_int_equal(align_up(u64(4097), u64(4096)), 8192);
	assert_int_equal(align_down(u64(4097), u64(4096)), 4096);
	assert_false(is_pow2(0));
	assert_true(is_pow2(bit(40)));
	assert_false(is_pow2(bit(40) + 1));
}

static void error_texts(void **)
{
	error_clear();
	assert_string_equal(error_text(), "");
	assert_int_equal(fail(EINVAL, "length %d", 7), -EINVAL);
	assert_string_equal(error_text(), "length 7");
	assert_int_equal(fail_in(-EINVAL, "copy %d", 3), -EINVAL);
	assert_string_equal(error_text(), "copy 3: length 7");
	errno = ENOENT;
	assert_int_equal(fail_errno("open %s", "x"), -ENOENT);
	assert_string_equal(error_text(), "open x: No such file or directory");
	errno = 0;
	assert_int_equal(fail_errno("nothing"), -EIO);
}

static void error_long_texts(void **)
{
	const std::string big(2000, 'a');

	assert_int_equal(fail(EIO, "%s", big.c_str()), -EIO);
	const size_t limit = strlen(error_text());
	assert_true(limit > 100 && limit < big.size());
	errno = EPERM;
	assert_int_equal(fail_errno("%s", big.c_str()), -EPERM);
	assert_int_equal(strlen(error_text()), limit);
	for (size_t n = limit - 8; n < limit + 8; n++) {
		fail(EIO, "inner");
		assert_int_equal(fail_in(-EIO, "%.*s", int(n), big.c_str()), -EIO);
		assert_true(strlen(error_text()) <= limit);
	}
}

static void error_is_per_thread(void **)
{
	std::string other;

	fail(EIO, "mine");
	std::thread([&] {
		other = error_text();
		fail(EIO, "theirs");
	}).join();
	assert_string_equal(other.c_str(), "");
	assert_string_equal(error_text(), "mine");
}

/* At thread exit a TLS destructor fails once more: the error text is created again, and freed again. */
static void errors_at_thread_exit(void **)
{
	static std::string seen;
	pthread_key_t key;

	assert_int_equal(pthread_key_create(&key,
					    [](void *) {
						    fail(EIO, "at the end");
						    seen = error_text();
					    }),
			 0);
	for (unsigned i = 0; i < 100; i++) {
		std::thread([key] {
			fail(EIO, "before");
			pthread_setspecific(key, &seen);
		}).join();
		assert_string_equal(seen.c_str(), "at the end");
		seen.clear();
	}
	pthread_key_delete(key);
}

static void callbacks_at_thread_exit(void **)
{
	struct counted {
		thread_end end;
		std::atomic<int> *left;
	};
	std::atomic<int> left{0};

	std::thread([&left] {
		for (int i = 0; i < 10; i++) {
			auto *c = new counted{{}, &left};

			left++;
			c->end.run = [](thread_end *e) {
				auto *self = reinterpret_cast<counted *>(e);

				(*self->left)--;
				delete self;
			};
			at_thread_end(&c->end);
		}
	}).join();
	assert_int_equal(left, 0);
}

/* Control sequences in each encoding are replaced; printable text is unchanged. */
static void texts_for_terminals(void **)
{
	static constexpr struct {
		const char *in, *out;
	} cases[] = {
		{"plain ~", "plain ~"},
		{"\033]0;owned\007", "?]0;owned?"},
		{"\033[2J\033[H\033[31m", "?[2J?[H?[31m"},
		{"two\nlines\r\tand\b\177", "two?lines??and??"},
		{"C1 \xc2\x9b"
		 "31m",
		 "C1 ?31m"}, /* CSI in UTF-8 */
		{"C1 \x9b"
		 "31m",
		 "C1 ?31m"}, /* CSI as a single byte */
		{"Prüfung 设备 …", "Prüfung 设备 …"},
		{"\xc0\x9b \xc1\xbf", "?? ??"}, /* overlong encodings */
		{"\xe0\x82\x9b", "???"},
		{"\xed\xa0\x80", "???"}, /* half a surrogate pair */
		{"\xf4\x90\x80\x80", "????"},
		{"short \xe8\xae", "short ??"},
		{"a\xe2\x80\xae"
		 "b",
		 "a?b"}, /* right-to-left override */
		{"a\xe2\x80\x8b"
		 "b",
		 "a?b"},
		{"a\xe2\x80\xa8"
		 "b",
		 "a?b"}, /* line separator */
	};

	for (const auto &c : cases)
		assert_string_equal(printable(c.in).c_str(), c.out);
	assert_string_equal(printable(std::string_view("a\0b", 3)).c_str(), "a?b");
	assert_string_equal(quoted("\033[2J").c_str(), "\"?[2J\"");
	assert_string_equal(quoted(std::string(70, 'x')).c_str(), ("\"" + std::string(60, 'x') + "…\"").c_str());
	assert_string_equal(usdma::quoted(std::string(59, 'x') + "ü").c_str(),
			    ("\"" + std::string(59, 'x') + "…\"").c_str());
}

/* Random input: the output has no control sequences, and is never longer. */
static void random_texts(void **)
{
	auto gen = test::rng(2);

	for (int i = 0; i < 20000; i++) {
		std::string in(gen() % 24, ' ');

		for (char &ch : in)
			ch = char(gen() % 3 ? "\033\x9b\xc2\xe2\x80\xae\n\x7f"[gen() % 8] : int(gen()));
		const std::string out = printable(in);
		assert_true(out.size() <= in.size());
		assert_string_equal(printable(out).c_str(), out.c_str());
		for (size_t k = 0; k < out.size(); k++) {
			assert_true(u8(out[k]) >= 0x20 && u8(out[k]) != 0x7f);
			assert_false(u8(out[k]) == 0xc2 && u8(out[k + 1]) < 0xa0);
		}
	}
}

static void errors_and_logs_for_terminals(void **)
{
	std::string line;

	fail(EIO, "server says \033[2J%s", "\nfine");
	assert_string_equal(error_text(), "server says ?[2J?fine");
	fail_in(-EIO, "%s", "\033c");
	assert_string_equal(error_text(), "?c: server says ?[2J?fine");
	errno = EIO;
	fail_errno("open %s", "\033]0;x\007");
	assert_string_equal(error_text(), "open ?]0;x?: Input/output error");
	log_set_sink([](log_level, const char *text, void *arg) { *static_cast<std::string *>(arg) = text; }, &line);
	log_error("%s", "a\033[2J\nusdma: error: forged");
	log_set_sink(nullptr, nullptr);
	assert_string_equal(line.c_str(), "a?[2J?usdma: error: forged");
}

static void log_levels(void **)
{
	std::vector<std::string> lines;
	const log_level before = log_get_level();

	log_set_sink([](log_level, const char *text,
			void *arg) { static_cast<std::vector<std::string> *>(arg)->push_back(text); },
		     &lines);
	log_set_level(log_level::warn);
	log_info("suppressed");
	log_warn("printed %d", 1);
	log_set_level(log_level::none);
	log_error("suppressed too");
	log_set_sink(nullptr, nullptr);
	log_set_level(before);
	assert_int_equal(lines.size(), 1);
	assert_string_equal(lines[0].c_str(), "printed 1");
}

/* The number of log lines that a peer can cause is limited. */
static void log_limits(void **)
{
	std::vector<std::string> lines;

	log_set_sink([](log_level, const char *text,
			void *arg) { static_cast<std::vector<std::string> *>(arg)->push_back(text); },
		     &lines);
	for (int i = 0; i < 1000; i++)
		log_warn_limited("client %d", i);
	log_set_sink(nullptr, nullptr);
	assert_int_equal(lines.size(), log_limit::lines);
	assert_string_equal(lines.back().c_str(), "client 9");
}

static void log_limit_windows(void **)
{
	log_limit l;
	u32 left_out = 0;
	u64 now = 5;

	for (u32 i = 0; i < log_limit::lines; i++)
		assert_true(log_may(&l, now, &left_out) && !left_out);
	for (u32 i = 0; i < 3; i++)
		assert_false(log_may(&l, now + log_limit::window_ns - 1, &left_out));
	now += log_limit::window_ns;
	assert_true(log_may(&l, now, &left_out));
	assert_int_equal(left_out, 3);
	assert_true(log_may(&l, now, &left_out));
	assert_int_equal(left_out, 0);
}

static void lock_excludes(void **)
{
	constexpr int threads = 4, turns = 20000;
	futex_lock lock;
	u64 sum = 0; /* not atomic: concurrent increments lose counts, and TSan reports them */
	std::vector<std::thread> all;

	for (int t = 0; t < threads; t++) {
		all.emplace_back([&] {
			for (int i = 0; i < turns; i++) {
				std::lock_guard guard(lock);
				sum++;
				if (i % 1024 == 0)
					std::this_thread::yield(); /* makes other threads sleep on the lock */
			}
		});
	}
	for (std::thread &t : all)
		t.join();
	assert_int_equal(sum, threads * turns);
}

static void lock_tries(void **)
{
	futex_lock lock;
	bool got = true;

	assert_true(lock.try_lock());
	std::thread([&] { got = lock.try_lock(); }).join();
	assert_false(got);
	lock.unlock();
	assert_true(lock.try_lock());
	lock.unlock();
}

static void futex_waits(void **)
{
	u32 word = 5;
	const u64 start = now_ns();

	assert_int_equal(futex_wait_until(&word, 4, ~u64(0)), -EAGAIN);
	assert_int_equal(futex_wait_until(&word, 5, start + 2 * ns_per_ms), -ETIMEDOUT);
	assert_true(now_ns() >= start + 2 * ns_per_ms);
	std::thread waker([&] {
		__atomic_store_n(&word, 6u, __ATOMIC_RELEASE);
		futex_wake(&word, 1);
	});
	while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 5)
		futex_wait_until(&word, 5, now_ns() + ns_per_s);
	waker.join();
}

static void deadlines(void **)
{
	const deadline expired = deadline::in_ns(0), later = deadline::in_ms(100000);

	assert_true(expired.passed());
	assert_int_equal(expired.left_ns(), 0);
	assert_int_equal(expired.left_ms(1000), 0);
	assert_false(later.passed());
	assert_int_equal(later.left_ms(1000), 1000);
	assert_true(later.left_ms(1000000) > 90000);
	assert_true(deadline::sooner(later, expired).at() == expired.at());
	assert_true(deadline::sooner(expired, later).at() == expired.at());
}

static void deadlines_without_limit(void **)
{
	assert_true(deadline::never().is_never());
	assert_false(deadline::never().passed());
	assert_int_equal(deadline::never().left_ms(77), 77);
	/* A time that overflows 64 bits is never reached. */
	assert_true(deadline::in_ms(~u64(0)).is_never());
	assert_true(deadline::in_ms(~u64(0) / 1000).is_never());
	assert_true(deadline::in_ns(~u64(0) - 1).is_never());
}

static void fds_are_owned(void **)
{
	const int raw = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(raw >= 0);
	{
		unique_fd a(raw), b(std::move(a));

		assert_false(a.valid());
		assert_int_equal(b.get(), raw);
		a = std::move(b);
		assert_int_equal(a.get(), raw);
	}
	assert_int_equal(fcntl(raw, F_GETFD), -1);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(types_ranges),
		cmocka_unit_test(words_numbers),
		cmocka_unit_test(words_sizes),
		cmocka_unit_test(error_texts),
		cmocka_unit_test(error_long_texts),
		cmocka_unit_test(error_is_per_thread),
		cmocka_unit_test(errors_at_thread_exit),
		cmocka_unit_test(callbacks_at_thread_exit),
		cmocka_unit_test(texts_for_terminals),
		cmocka_unit_test(random_texts),
		cmocka_unit_test(errors_and_logs_for_terminals),
		cmocka_unit_test(log_levels),
		cmocka_unit_test(lock_excludes),
		cmocka_unit_test(log_limits),
		cmocka_unit_test(log_limit_windows),
		cmocka_unit_test(lock_tries),
		cmocka_unit_test(futex_waits),
		cmocka_unit_test(deadlines),
		cmocka_unit_test(deadlines_without_limit),
		cmocka_unit_test(fds_are_owned),
	};

	return cmocka_run_group_tests_name("base", tests, nullptr, nullptr);
}
