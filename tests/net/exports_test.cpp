/* SPDX-License-Identifier: BSD-3-Clause */
/* Exported memory, by messages between two workers of one process: what a peer that has the job's key may do, and not.
 */
#include "tests/support/test.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/mapping.h"
#include "driver/base/memfd.h"
#include "net/exports.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

using namespace usdma;
using namespace usdma::net;

static constexpr u64 patience = 20000, part_size = 3 * MiB, part_at = 4096, file_size = 4 * MiB;

static std::mt19937_64 &gen()
{
	static std::mt19937_64 g = test::rng();

	return g;
}

/* Requests. */
struct client final : receiver {
	worker w;
	incoming last = {};
	std::vector<u8> data;
	u64 answers = 0;

	void on_message(const incoming &in) override
	{
		last = in;
		if (in.kind != message::data) {
			answers++;
			return;
		}
		data.resize(in.h.length);
		w.receive(in, data.data(), [this](bool done) { answers += done; });
	}
};

/* Answers. */
struct server final : receiver {
	worker w;
	u64 signals = 0;
	exports all{w, [this] { signals++; }};

	void on_message(const incoming &in) override { all.serve(in); }
};

struct pair {
	client a;
	server b;
	u32 slots = 0;
	u64 number = 0;
	unique_fd fd;
	mapping mem;
	u8 key[key_length];

	pair()
	{
		assert_int_equal(a.w.open() | b.w.open(), 0);
		a.w.set_receiver(&a);
		b.w.set_receiver(&b);
		assert_int_equal(memfd_make("test", file_size, 0, &fd), 0);
		mem = mapping(mmap(nullptr, file_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), file_size);
		test::fill_random(mem.data(), file_size, gen());
		test::fill_random(key, sizeof(key), gen());
		offer(true);
	}
	void offer(bool open)
	{
		assert_int_equal(b.all.add(key, unique_fd(dup(fd.get())), part_at, part_size, open), 0);
	}
	/* One more connection between the two: the slots of both. */
	std::pair<u32, u32> meet()
	{
		const u8 *token_a, *token_b;
		u32 at_a, at_b;

		assert_int_equal(a.w.slot_take(&at_a, &token_a) | b.w.slot_take(&at_b, &token_b), 0);
		assert_int_equal(b.w.slot_connect(at_b, a.w.address(), token_a), 0);
		assert_int_equal(a.w.slot_connect(at_a, b.w.address(), token_b), 0);
		return {at_a, at_b};
	}
	template <class F> void until(F &&f)
	{
		const deadline end = deadline::in_ms(test::patience_ms(patience));

		while (!f()) {
			a.w.progress();
			b.w.progress();
			assert_false(end.passed());
		}
	}
	/* The answer's status. */
	int request(u32 slot, message kind, message_header h, const void *data = nullptr)
	{
		const u64 before = a.answers;

		h.number = ++number;
		assert_int_equal(a.w.send(slot, kind, h, data), 0);
		/* Answers to what a test has not waited for may come first. */
		until([&] { return a.answers > before && a.last.h.number == number; });
		return a.last.h.status;
	}
	int open(u32 slot, u64 *id)
	{
		message_header h = {};

		h.length = key_length;
		const int err = request(slot, message::open, h, key);
		*id = a.last.h.id;
		assert_true(err || a.last.h.value == part_size);
		return err;
	}
	/* word: which is set afterwards; -1: none. */
	int put(u32 slot, u64 id, u64 offset, const std::vector<u8> &what, s64 word = -1)
	{
		message_header h = {};

		h.id = id;
		h.offset = offset;
		h.length = what.size();
		h.pattern = word < 0 ? 0 : u64(word);
		h.pattern_size = word < 0 ? 0 : 8;
		return request(slot, message::put, h, what.data());
	}
	int get(u32 slot, u64 id, u64 offset, u64 n)
	{
		message_header h = {};

		h.id = id;
		h.offset = offset;
		h.value = n;
		return request(slot, message::get, h);
	}
	int fill(u32 slot, u64 id, u64 offset, u64 n, u64 pattern, u32 size)
	{
		message_header h = {};

		h.id = id;
		h.offset = offset;
		h.value = n;
		h.pattern = pattern;
		h.pattern_size = size;
		return request(slot, message::fill, h);
	}
	std::vector<u8> file() const { return {mem.data(), mem.data() + file_size}; }
};

static std::vector<u8> random_bytes_of(u64 n)
{
	std::vector<u8> out(n);

	test::fill_random(out.data(), n, gen());
	return out;
}

static void every_size(void **)
{
	pair p;
	const u32 slot = p.meet().first;
	u64 id;

	assert_int_equal(p.open(slot, &id), 0);
	for (const u64 n : {u64(1), u64(63), 4 * KiB + 1, 64 * KiB, MiB - 1, MiB}) {
		const std::vector<u8> what = random_bytes_of(n);

		for (const u64 at : {u64(0), gen()() % (part_size - n), part_size - n}) {
			std::vector<u8> want = p.file();

			std::copy(what.begin(), what.end(), want.begin() + part_at + at);
			assert_int_equal(p.put(slot, id, at, what), 0);
			assert_memory_equal(p.mem.data(), want.data(), file_size);
			assert_int_equal(p.get(slot, id, at, n), 0);
			assert_true(p.a.data == what);
		}
	}
	for (const u32 size : {1u, 4u, 8u}) {
		std::vector<u8> want = p.file();
		const u64 pattern = 0x1122334455667788;

		for (u64 i = 0; i < MiB; i++)
			want[part_at + 16 + i] = u8(pattern >> i % size * 8);
		assert_int_equal(p.fill(slot, id, 16, MiB, pattern, size), 0);
		assert_memory_equal(p.mem.data(), want.data(), file_size);
	}
}

/* Data, then a word of 8 bytes: within the memory, at a multiple of 8. Data may be none. */
static void words(void **)
{
	pair p;
	const u32 slot = p.meet().first;
	const u64 one = 1;
	u64 id, signals = 0;

	assert_int_equal(p.open(slot, &id), 0);
	for (const u64 n : {u64(0), u64(1), 100 * KiB, MiB}) {
		const std::vector<u8> what = random_bytes_of(n);
		std::vector<u8> want = p.file();

		std::copy(what.begin(), what.end(), want.begin() + part_at + 64);
		memcpy(&want[part_at + 2 * MiB], &one, 8);
		assert_int_equal(p.put(slot, id, 64, what, 2 * MiB), 0);
		assert_memory_equal(p.mem.data(), want.data(), file_size);
		assert_int_equal(p.b.signals, ++signals);
		memset(p.mem.data() + part_at + 2 * MiB, 0, 8);
	}
	const std::vector<u8> before = p.file(), what = random_bytes_of(100);
	for (const u64 word : {part_size, part_size - 7, ~u64(7) >> 1})
		assert_true(p.put(slot, id, 0, what, s64(word)) < 0);
	for (const u64 word : {1, 4, 12})
		assert_int_equal(p.put(slot, id, 0, what, s64(word)), -EINVAL);
	assert_int_equal(p.put(slot, id, part_size - 99, what, 0), -EFAULT);
	assert_int_equal(p.put(slot, id + 1, 0, what, 0), -ENOENT);
	assert_memory_equal(p.mem.data(), before.data(), file_size);
	assert_int_equal(p.b.signals, signals);
}

/* Nothing is read or written outside of what was opened, nor by who has not opened it. */
static void what_is_refused(void **)
{
	pair p;
	const u32 mine = p.meet().first, other = p.meet().first;
	const std::vector<u8> one(1), all(MiB);
	const std::vector<u8> before = p.file();
	u64 id, id2;

	assert_int_equal(p.open(mine, &id), 0);
	for (const u64 at : {part_size, part_size + 1, ~u64(0), ~u64(0) - MiB + 1, u64(1) << 63}) {
		assert_int_equal(p.put(mine, id, at, one), -EFAULT);
		assert_int_equal(p.put(mine, id, at, all), -EFAULT);
		assert_int_equal(p.get(mine, id, at, 1), -EFAULT);
		assert_int_equal(p.get(mine, id, at, MiB), -EFAULT);
		assert_int_equal(p.fill(mine, id, at, 8, 0, 8), -EFAULT);
	}
	assert_int_equal(p.put(mine, id, part_size - MiB + 1, all), -EFAULT);
	/* That of another peer, and none. */
	for (const u64 wrong : {id, id + 1, u64(0), ~id}) {
		assert_int_equal(p.put(other, wrong, 0, one), -ENOENT);
		assert_int_equal(p.get(other, wrong, 0, 1), -ENOENT);
		assert_int_equal(p.fill(other, wrong, 0, 8, 0, 8), -ENOENT);
	}
	p.key[5] ^= 1;
	assert_int_equal(p.open(mine, &id2), -ENOENT);
	assert_int_equal(p.b.all.add(p.key, unique_fd(), 0, part_size, false), 0);
	assert_int_equal(p.open(mine, &id2), -EACCES);
	/* Allowed to all later. */
	p.offer(true);
	assert_int_equal(p.open(mine, &id2), 0);
	assert_memory_equal(p.mem.data(), before.data(), file_size);
}

/* A request that is malformed is answered, too: who sent it waits. */
static void malformed(void **)
{
	pair p;
	const u32 slot = p.meet().first;
	const std::vector<u8> before = p.file();
	message_header h = {};
	u64 id;

	assert_int_equal(p.open(slot, &id), 0);
	for (const auto &[n, size] : {std::pair{9u, 8u}, {3u, 4u}, {4u, 3u}, {8u, 0u}, {0u, 1u}})
		assert_int_equal(p.fill(slot, id, 0, n, 0, size), -EINVAL);
	assert_int_equal(p.fill(slot, id, 0, fill_most + 1, 0, 1), -EINVAL);
	for (const u64 n : {u64(0), MiB + 1})
		assert_int_equal(p.get(slot, id, 0, n), -EINVAL);
	assert_int_equal(p.request(slot, message::put, h), -EINVAL);
	h.length = key_length - 1;
	assert_int_equal(p.request(slot, message::open, h, p.key), -EINVAL);
	assert_memory_equal(p.mem.data(), before.data(), file_size);
}

/* A peer that announces data and does not send them is lost, before it costs much; others go on. */
static void announces_only(void **)
{
	pair p;
	const u32 stays = p.meet().first;
	const auto [mine, there] = p.meet();
	const std::vector<u8> all(MiB);
	const deadline end = deadline::in_ms(test::patience_ms(patience));
	message_header h = {};
	u64 id, id2;

	assert_int_equal(p.open(stays, &id) | p.open(mine, &id2), 0);
	assert_int_equal(p.put(mine, id2, 0, all), 0);
	h.id = id2;
	h.length = all.size();
	for (u32 i = 0; i <= in_flight_most; i++) {
		assert_int_equal(p.a.w.send(mine, message::put, h, all.data()), 0);
		p.b.w.progress();
	}
	while (!p.b.w.slot_error(there)) {
		p.b.w.progress();
		assert_false(end.passed());
	}
	p.b.all.peer_left(there);
	p.b.w.slot_give(there);
	p.a.w.slot_give(mine);
	assert_int_equal(p.put(stays, id, 0, all), 0);
}

/* Who has it open uses it until it closes it or leaves. */
static void withdrawn(void **)
{
	pair p;
	const auto [mine, mine_there] = p.meet();
	const auto [other, other_there] = p.meet();
	const std::vector<u8> one(1);
	message_header h = {};
	u64 id, id2, id3;

	assert_int_equal(p.open(mine, &id) | p.open(other, &id2), 0);
	p.b.all.remove(p.key);
	assert_int_equal(p.open(mine, &id3), -ENOENT);
	assert_int_equal(p.put(mine, id, 0, one) | p.get(other, id2, 0, 1), 0);
	h.id = id;
	assert_int_equal(p.a.w.send(other, message::close, h), 0);
	assert_int_equal(p.get(other, id2, 0, 1), 0);
	assert_int_equal(p.put(mine, id, 0, one), 0);
	assert_int_equal(p.a.w.send(mine, message::close, h), 0);
	assert_int_equal(p.put(mine, id, 0, one), -ENOENT);
	p.b.all.peer_left(other_there);
	assert_int_equal(p.get(other, id2, 0, 1), -ENOENT);
	(void)mine_there;
}

/* A peer leaves while its data come and go: nothing of it is used afterwards, and others go on. */
static void leaves(void **)
{
	pair p;
	const u32 stays = p.meet().first;
	const std::vector<u8> all(MiB);
	u64 id;

	assert_int_equal(p.open(stays, &id), 0);
	for (int i = 0; i < 20; i++) {
		const auto [mine, there] = p.meet();
		message_header h = {};
		u64 mine_id;

		assert_int_equal(p.open(mine, &mine_id), 0);
		h.id = mine_id;
		h.length = MiB;
		assert_int_equal(p.a.w.send(mine, message::put, h, all.data()), 0);
		h.length = 0;
		h.value = MiB;
		assert_int_equal(p.a.w.send(mine, message::get, h), 0);
		for (u64 n = gen()() % 200; n; n--) {
			p.a.w.progress();
			p.b.w.progress();
		}
		p.b.all.peer_left(there);
		p.b.w.slot_give(there);
		p.a.w.slot_give(mine);
		assert_int_equal(p.put(stays, id, 0, all), 0);
	}
}

/* A file that could become shorter, or is too short, is not offered. */
static void files(void **)
{
	pair p;
	const unique_fd plain(memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));

	assert_int_equal(ftruncate(plain.get(), MiB), 0);
	assert_int_equal(p.b.all.add(p.key, unique_fd(dup(plain.get())), 0, MiB, true), -EINVAL);
	for (const auto &[at, n] :
	     {std::pair{u64(0), file_size + 1}, {file_size, u64(1)}, {~u64(0), u64(2)}, {u64(0), u64(0)}})
		assert_int_equal(p.b.all.add(p.key, unique_fd(dup(p.fd.get())), at, n, true), -EINVAL);
}

/* Any messages of a peer that has the key: nothing outside of the part changes, and the next one is answered. */
static void random_messages(void **)
{
	pair p;
	const u32 mine = p.meet().first, other = p.meet().first;
	const std::vector<u8> data = random_bytes_of(MiB), before = p.file();
	u64 id;

	assert_int_equal(p.open(mine, &id), 0);
	for (unsigned round = 0; round < 300 * test::scale(); round++) {
		const message kind = message(gen()() % message_kinds + 1);
		const u64 ids[] = {id, 0, id + 1, gen()()};
		const u64 at[] = {0, gen()() % part_size, part_size - 1, part_size, gen()()};
		const u64 sizes[] = {1, 8, gen()() % MiB + 1, MiB, gen()()};
		message_header h = {};

		h.number = gen()();
		h.id = ids[gen()() % std::size(ids)];
		h.offset = at[gen()() % std::size(at)];
		h.value = sizes[gen()() % std::size(sizes)];
		h.pattern = gen()();
		h.pattern_size = u32(gen()() % 9);
		h.status = -s32(gen()() % 5000);
		h.length = kind == message::put || kind == message::data ? gen()() % MiB + 1 :
			   kind == message::open                         ? key_length :
									   gen()() % 2;
		p.a.w.send(gen()() % 4 ? mine : other, kind, h, data.data());
		p.a.w.progress();
		p.b.w.progress();
	}
	/* Closed by one of them, perhaps. */
	assert_int_equal(p.open(other, &id), 0);
	assert_int_equal(p.put(other, id, 0, {1}), 0);
	assert_memory_equal(p.mem.data(), before.data(), part_at);
	assert_memory_equal(p.mem.data() + part_at + part_size, before.data() + part_at + part_size,
			    file_size - part_at - part_size);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(every_size),      cmocka_unit_test(words),     cmocka_unit_test(what_is_refused),
		cmocka_unit_test(withdrawn),       cmocka_unit_test(leaves),    cmocka_unit_test(files),
		cmocka_unit_test(random_messages), cmocka_unit_test(malformed), cmocka_unit_test(announces_only),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
