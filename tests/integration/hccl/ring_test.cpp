/* SPDX-License-Identifier: BSD-3-Clause */
/* Ring all-reduce and all-gather: every type and operation, 2 to 8 devices, sizes that do not divide. */
#include "docs/examples/hccl/ring.h"
#include "tests/support/test.h"

#include <cstring>
#include <thread>

namespace {

constexpr unsigned max_ranks = 8;
constexpr u64 max_count = 20011;

struct word {
	HcclDataType type;
	bool whole; /* an integer: any bits are valid */
};

constexpr word words[] = {
	{HCCL_DATA_TYPE_INT8, true},   {HCCL_DATA_TYPE_INT16, true},  {HCCL_DATA_TYPE_INT32, true},
	{HCCL_DATA_TYPE_INT64, true},  {HCCL_DATA_TYPE_UINT8, true},  {HCCL_DATA_TYPE_UINT16, true},
	{HCCL_DATA_TYPE_UINT32, true}, {HCCL_DATA_TYPE_UINT64, true}, {HCCL_DATA_TYPE_FP16, false},
	{HCCL_DATA_TYPE_BFP16, false}, {HCCL_DATA_TYPE_FP32, false},  {HCCL_DATA_TYPE_FP64, false},
};
constexpr HcclReduceOp ops[] = {HCCL_REDUCE_SUM, HCCL_REDUCE_PROD, HCCL_REDUCE_MAX, HCCL_REDUCE_MIN};

/* A float that every type represents exactly, with all sums and products of eight of them. */
double small(std::mt19937_64 &gen, HcclReduceOp op)
{
	static constexpr double factors[] = {1, -1, 2, 0.5, 1, -2};

	return op == HCCL_REDUCE_PROD ? factors[gen() % 6] : double(int(gen() % 17) - 8);
}

void store(HcclDataType type, u8 *at, double v)
{
	float f = float(v);
	u32 bits;
	aclFloat16 half = aclFloatToFloat16(f);

	std::memcpy(&bits, &f, sizeof(bits));
	u16 upper = u16(bits >> 16);
	switch (type) {
	case HCCL_DATA_TYPE_FP16:
		std::memcpy(at, &half, 2);
		break;
	case HCCL_DATA_TYPE_BFP16:
		std::memcpy(at, &upper, 2);
		break;
	case HCCL_DATA_TYPE_FP32:
		std::memcpy(at, &f, 4);
		break;
	default:
		std::memcpy(at, &v, 8);
	}
}

double load(HcclDataType type, const u8 *at)
{
	u16 half;
	float f;
	double v;

	std::memcpy(&half, at, 2);
	u32 bits = u32(half) << 16;
	switch (type) {
	case HCCL_DATA_TYPE_FP16:
		return double(aclFloat16ToFloat(half));
	case HCCL_DATA_TYPE_BFP16:
		std::memcpy(&f, &bits, 4);
		return double(f);
	case HCCL_DATA_TYPE_FP32:
		std::memcpy(&f, at, 4);
		return double(f);
	default:
		std::memcpy(&v, at, 8);
		return v;
	}
}

template <class V> V combine(HcclReduceOp op, V x, V y)
{
	if (op == HCCL_REDUCE_MAX)
		return x > y ? x : y;
	if (op == HCCL_REDUCE_MIN)
		return x < y ? x : y;
	if constexpr (std::is_integral_v<V>) /* wraps */
		return op == HCCL_REDUCE_SUM ? V(u64(x) + u64(y)) : V(u64(x) * u64(y));
	else
		return op == HCCL_REDUCE_SUM ? x + y : x * y;
}

template <class V> void combine_as(HcclReduceOp op, u8 *into, const u8 *from)
{
	V x, y;

	std::memcpy(&x, into, sizeof(V));
	std::memcpy(&y, from, sizeof(V));
	x = combine(op, x, y);
	std::memcpy(into, &x, sizeof(V));
}

void combine_word(const word &w, HcclReduceOp op, u8 *into, const u8 *from)
{
	switch (w.type) {
	case HCCL_DATA_TYPE_INT8:
		return combine_as<int8_t>(op, into, from);
	case HCCL_DATA_TYPE_INT16:
		return combine_as<int16_t>(op, into, from);
	case HCCL_DATA_TYPE_INT32:
		return combine_as<int32_t>(op, into, from);
	case HCCL_DATA_TYPE_INT64:
		return combine_as<int64_t>(op, into, from);
	case HCCL_DATA_TYPE_UINT8:
		return combine_as<uint8_t>(op, into, from);
	case HCCL_DATA_TYPE_UINT16:
		return combine_as<uint16_t>(op, into, from);
	case HCCL_DATA_TYPE_UINT32:
		return combine_as<uint32_t>(op, into, from);
	case HCCL_DATA_TYPE_UINT64:
		return combine_as<uint64_t>(op, into, from);
	default:
		return store(w.type, into, combine(op, load(w.type, into), load(w.type, from)));
	}
}

using data = std::vector<u8>;

data make(const word &w, HcclReduceOp op, u64 count, std::mt19937_64 &gen)
{
	const size_t each = element_bytes(w.type);
	data d(count * each);

	if (w.whole)
		usdma::test::fill_random(d.data(), d.size(), gen);
	for (u64 i = 0; !w.whole && i < count; i++)
		store(w.type, &d[i * each], small(gen, op));
	return d;
}

/* The expected result: one rank after the other. */
data plain(const word &w, HcclReduceOp op, u64 count, const std::vector<data> &inputs)
{
	const size_t each = element_bytes(w.type);
	data all = inputs[0];

	for (size_t r = 1; r < inputs.size(); r++) {
		for (u64 i = 0; i < count; i++)
			combine_word(w, op, &all[i * each], &inputs[r][i * each]);
	}
	return all;
}

struct round {
	word w;
	HcclReduceOp op;
	u64 count;
	bool gather;
	std::vector<data> inputs;
	data expected;
};

HcclResult put(rank &r, const data &in)
{
	if (in.empty() || !aclrtMemcpy(r.data(), in.size(), in.data(), in.size(), ACL_MEMCPY_HOST_TO_DEVICE))
		return HCCL_SUCCESS;
	return HCCL_E_RUNTIME;
}

HcclResult play(rank &r, const round &now, unsigned index, data *got)
{
	const data &in = now.inputs[index];
	HcclResult ret = now.gather ? r.all_gather(now.count, now.w.type) : r.all_reduce(now.count, now.w.type, now.op);
	if (ret != HCCL_SUCCESS)
		return ret;
	ret = r.wait();
	got->resize(in.size());
	if (!in.empty() && aclrtMemcpy(got->data(), in.size(), r.data(), in.size(), ACL_MEMCPY_DEVICE_TO_HOST))
		return HCCL_E_RUNTIME;
	return ret;
}

/* All rounds over one ring; the threads compare, the main thread asserts. */
void play_all(unsigned n, const std::vector<round> &rounds)
{
	ring all(n);
	std::vector<HcclResult> results(n, HCCL_SUCCESS);
	std::vector<size_t> wrong(n, SIZE_MAX);
	std::vector<std::thread> threads;

	for (unsigned i = 0; i < n; i++) {
		threads.emplace_back([&, i] {
			rank r(all, i);
			data got;

			results[i] = r.open(s32(i), max_count * 8);
			for (size_t k = 0; k < rounds.size() && results[i] == HCCL_SUCCESS; k++) {
				HcclResult ret = put(r, rounds[k].inputs[i]);
				all.meet.arrive_and_wait(); /* all ranks have stored their input */
				if (ret == HCCL_SUCCESS)
					ret = play(r, rounds[k], i, &got);
				all.meet.arrive_and_wait(); /* all ranks have read their result */
				if (ret != HCCL_SUCCESS || all.failed)
					results[i] = ret == HCCL_SUCCESS ? HCCL_E_REMOTE : ret;
				if (results[i] == HCCL_SUCCESS && got != rounds[k].expected)
					wrong[i] = std::min(wrong[i], k);
			}
			all.meet.arrive_and_wait(); /* neighbours' notifies live until here */
		});
	}
	for (std::thread &t : threads)
		t.join();
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(results[i], HCCL_SUCCESS);
		if (wrong[i] != SIZE_MAX)
			print_error("rank %u: type %d, op %d, %llu elements: wrong\n", i, rounds[wrong[i]].w.type,
				    rounds[wrong[i]].op, rounds[wrong[i]].count);
		assert_int_equal(wrong[i], SIZE_MAX);
	}
}

void reduce_on(unsigned n)
{
	auto gen = usdma::test::rng(n);
	const u64 sizes[] = {1, n - 1, n + 1, 1009, max_count - gen() % 100};
	std::vector<round> rounds;

	for (const word &w : words) {
		for (HcclReduceOp op : ops) {
			round now = {w, op, sizes[rounds.size() % 5], false, {}, {}};

			for (unsigned r = 0; r < n; r++)
				now.inputs.push_back(make(w, op, now.count, gen));
			now.expected = plain(w, op, now.count, now.inputs);
			rounds.push_back(std::move(now));
		}
	}
	play_all(n, rounds);
}

void gather_on(unsigned n)
{
	auto gen = usdma::test::rng(100 + n);
	std::vector<round> rounds;

	for (u64 count : {u64(1), u64(n), u64(1009), max_count}) {
		const word &w = words[gen() % std::size(words)];
		const u64 each = (count + n - 1) / n * element_bytes(w.type);
		round now = {w, HCCL_REDUCE_SUM, count, true, {}, {}};

		for (unsigned r = 0; r < n; r++)
			now.inputs.push_back(make(w, HCCL_REDUCE_SUM, count, gen));
		now.expected = now.inputs[0];
		for (u64 b = 0; b < now.expected.size(); b++)
			now.expected[b] = now.inputs[b / each][b];
		rounds.push_back(std::move(now));
	}
	play_all(n, rounds);
}

template <unsigned N> void test_all_reduce(void **)
{
	reduce_on(N);
}

template <unsigned N> void test_all_gather(void **)
{
	gather_on(N);
}

int setup(void **)
{
	uint32_t devices = 0;

	return aclInit(nullptr) || aclrtGetDeviceCount(&devices) || devices < max_ranks;
}

int teardown(void **)
{
	return aclFinalize();
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_all_reduce<2>), cmocka_unit_test(test_all_reduce<3>),
		cmocka_unit_test(test_all_reduce<4>), cmocka_unit_test(test_all_reduce<8>),
		cmocka_unit_test(test_all_gather<2>), cmocka_unit_test(test_all_gather<3>),
		cmocka_unit_test(test_all_gather<4>), cmocka_unit_test(test_all_gather<8>),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
