/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random collective operations: each element of every result is compared with what plain loops over all ranks' data
 * say, and so are the bytes that no operation may touch. Over processes, processes with several ranks, and threads; in
 * the whole group and in a part of it; recorded in a graph and replayed. USDMA_TEST_OPERATIONS: how many each.
 */
#include "tests/integration/hccl/group.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace {

using values = std::vector<int64_t>;
constexpr int64_t untouched = -1;
constexpr size_t guard = 64, most = 1 << 20; /* bytes */

/* ---- elements ------------------------------------------------------------------------------------------ */

constexpr HcclDataType reducible[] = {
	HCCL_DATA_TYPE_INT8,   HCCL_DATA_TYPE_INT16,  HCCL_DATA_TYPE_INT32,   HCCL_DATA_TYPE_INT64,
	HCCL_DATA_TYPE_UINT8,  HCCL_DATA_TYPE_UINT16, HCCL_DATA_TYPE_UINT32,  HCCL_DATA_TYPE_UINT64,
	HCCL_DATA_TYPE_FP16,   HCCL_DATA_TYPE_BFP16,  HCCL_DATA_TYPE_FP32,    HCCL_DATA_TYPE_FP64,
	HCCL_DATA_TYPE_INT128, HCCL_DATA_TYPE_HIF8,   HCCL_DATA_TYPE_FP8E4M3, /* these are only copied */
};
constexpr size_t reduced_types = 12;

size_t size_of(HcclDataType type)
{
	static constexpr size_t sizes[] = {1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2, 16, 0, 1, 1, 1, 1};

	return sizes[type];
}

void store(HcclDataType type, uint8_t *at, int64_t v)
{
	const float f = float(v);
	const double d = double(v);
	const aclFloat16 half = aclFloatToFloat16(f);

	if (v == untouched)
		memset(at, 0xa5, size_of(type));
	else if (type == HCCL_DATA_TYPE_FP16)
		memcpy(at, &half, 2);
	else if (type == HCCL_DATA_TYPE_BFP16)
		memcpy(at, reinterpret_cast<const char *>(&f) + 2, 2);
	else if (type == HCCL_DATA_TYPE_FP32)
		memcpy(at, &f, 4);
	else if (type == HCCL_DATA_TYPE_FP64)
		memcpy(at, &d, 8);
	else
		memcpy(at, &v, std::min<size_t>(size_of(type), 8)); /* integers wrap */
}

std::vector<uint8_t> encode(HcclDataType type, const values &v)
{
	std::vector<uint8_t> bytes(v.size() * size_of(type) + 2 * guard, 0xa5);

	for (size_t i = 0; i < v.size(); i++) {
		uint8_t *at = &bytes[guard + i * size_of(type)];

		if (type == HCCL_DATA_TYPE_INT128 && v[i] != untouched)
			memset(at, 0, 16);
		store(type, at, v[i]);
	}
	return bytes;
}

int64_t combine(HcclReduceOp op, int64_t a, int64_t b)
{
	switch (op) {
	case HCCL_REDUCE_SUM:
		return a + b;
	case HCCL_REDUCE_PROD:
		return a * b;
	case HCCL_REDUCE_MAX:
		return std::max(a, b);
	default:
		return std::min(a, b);
	}
}

/* ---- plans: the same on each rank ------------------------------------------------------------------------ */

enum kind {
	all_reduce,
	reduce_scatter,
	reduce_scatter_v,
	all_gather,
	all_gather_v,
	broadcast,
	scatter,
	reduce,
	all_to_all,
	all_to_all_v,
	all_to_all_vc,
	batch,
	send_recv,
	grouped,
	barrier,
	kinds
};

struct send {
	uint32_t from, to;
	size_t count;
};

struct plan {
	uint64_t number;
	kind what;
	HcclDataType type;
	HcclReduceOp op;
	uint32_t size, root;
	size_t count;
	bool aliased, other_stream;
	std::vector<uint64_t> counts[64], offsets[2][64]; /* by sender and receiver; by arrays: row 0 */
	std::vector<send> sends;
};

bool reduces(kind k)
{
	return k == all_reduce || k == reduce_scatter || k == reduce_scatter_v || k == reduce;
}

constexpr uint64_t fixed_plans = 100; /* numbers below do not depend on the seed, and have elements */

/* Mostly small, sometimes many pieces, sometimes none. */
size_t random_count(std::mt19937_64 &gen, const plan &p)
{
	const size_t limit = (most - 4096) / 16 / (p.size * p.size);

	switch (p.number < fixed_plans ? 2 : gen() % 8) {
	case 0:
		return 0;
	case 1:
		return gen() % sized(limit, 500);
	default:
		return 1 + gen() % 100;
	}
}

/* Parts of counts with gaps between them. */
void lay_out(std::mt19937_64 &gen, const std::vector<uint64_t> &counts, bool gaps, std::vector<uint64_t> *offsets)
{
	uint64_t at = 0;

	for (uint64_t n : counts) {
		at += gaps ? gen() % 4 : 0;
		offsets->push_back(at);
		at += n;
	}
}

void plan_matrix(std::mt19937_64 &gen, plan *p)
{
	const bool gaps = p->what == all_to_all_v || p->what == reduce_scatter_v || p->what == all_gather_v;

	for (uint32_t a = 0; a < p->size; a++)
		for (uint32_t b = 0; b < p->size; b++)
			p->counts[a].push_back(p->what == all_to_all ? p->count : random_count(gen, *p));
	for (uint32_t a = 0; a < p->size; a++) {
		std::vector<uint64_t> column;

		for (uint32_t b = 0; b < p->size; b++)
			column.push_back(p->counts[b][a]);
		lay_out(gen, p->counts[a], gaps, &p->offsets[0][a]);
		lay_out(gen, column, gaps, &p->offsets[1][a]);
	}
}

/* HcclSend() does not send to the own rank. */
plan make_plan(uint64_t number, uint32_t size, kind what)
{
	auto gen = number < fixed_plans ? std::mt19937_64(number) : rng(number);
	plan p{number, what, {}, {}, size, 0, 0, false, false, {}, {}, {}};

	p.type = reducible[gen() % (reduces(what) ? reduced_types : std::size(reducible))];
	p.op = HcclReduceOp(gen() % 4);
	p.root = uint32_t(gen() % size);
	p.count = random_count(gen, p);
	p.aliased = gen() % 3 == 0;
	p.other_stream = gen() % 4 == 0;
	plan_matrix(gen, &p);
	for (uint64_t n = 1 + gen() % 6; n; n--)
		p.sends.push_back({uint32_t(gen() % size), uint32_t(gen() % size), random_count(gen, p)});
	if (what == barrier)
		p.sends.clear();
	if (what == send_recv)
		std::erase_if(p.sends, [](const send &s) { return s.from == s.to; });
	return p;
}

/* Element j of a rank: small, so that all types hold all sums and products. */
int64_t element(const plan &p, uint32_t rank, uint64_t j)
{
	uint64_t x = (p.number * 64 + rank) * 0x9e3779b97f4a7c15 + j * 0xbf58476d1ce4e5b9;

	x = (x ^ x >> 29) * 0x94d049bb133111eb;
	x ^= x >> 32;
	return p.op == HCCL_REDUCE_PROD ? int64_t(1 << x % (p.size > 4 ? 2 : 3)) : int64_t(x % 7);
}

int64_t reduced(const plan &p, uint64_t j)
{
	int64_t v = element(p, 0, j);

	for (uint32_t s = 1; s < p.size; s++)
		v = combine(p.op, v, element(p, s, j));
	return v;
}

/* ---- what a rank gives and gets --------------------------------------------------------------------------- */

/* Both buffers before, and after; `at`: where in the sending buffer (in place) the receiving one is. */
struct picture {
	values give, take, want_give, want_take;
	bool aliased = false;
	size_t at = 0;
};

size_t end_of(const std::vector<uint64_t> &counts, const std::vector<uint64_t> &offsets)
{
	return counts.empty() ? 0 : counts.back() + offsets.back();
}

values elements(const plan &p, uint32_t rank, size_t from, size_t n)
{
	values v;

	for (size_t j = from; j < from + n; j++)
		v.push_back(element(p, rank, j));
	return v;
}

/* Writes to the receiving buffer's picture, wherever that is. */
void want(picture *pic, size_t at, int64_t v)
{
	(pic->aliased ? pic->want_give : pic->want_take)[pic->at + at] = v;
}

void see_reduction(const plan &p, picture *pic, size_t parts, size_t from, size_t n, bool mine)
{
	pic->want_give = pic->give;
	pic->take = values(parts, untouched);
	pic->want_take = pic->take;
	for (size_t j = 0; mine && j < n; j++)
		want(pic, j, reduced(p, from + j));
}

picture see(const plan &p, uint32_t r)
{
	const size_t n = p.count, all = n * p.size;
	const auto &counts = p.counts[0], &offsets = p.offsets[0][0];
	picture pic;

	switch (p.what) {
	case all_reduce:
	case reduce:
		pic.aliased = p.aliased;
		pic.give = elements(p, r, 0, n);
		see_reduction(p, &pic, n, 0, n, p.what == all_reduce || r == p.root);
		break;
	case reduce_scatter:
		pic.aliased = p.aliased;
		pic.at = p.aliased ? n * r : 0;
		pic.give = elements(p, r, 0, all);
		see_reduction(p, &pic, n, n * r, n, true);
		break;
	case reduce_scatter_v:
		pic.give = elements(p, r, 0, end_of(counts, offsets));
		see_reduction(p, &pic, counts[r], offsets[r], counts[r], true);
		break;
	case all_gather:
	case all_gather_v: {
		const bool v = p.what == all_gather_v;
		const auto count = [&](uint32_t s) { return v ? counts[s] : n; };
		const auto offset = [&](uint32_t s) { return v ? offsets[s] : n * s; };

		pic.take = values(v ? end_of(counts, offsets) : all, untouched);
		if (p.aliased)
			for (size_t j = 0; j < count(r); j++)
				pic.take[offset(r) + j] = element(p, r, j);
		else
			pic.give = elements(p, r, 0, count(r));
		pic.want_give = pic.give;
		pic.want_take = pic.take;
		for (uint32_t s = 0; s < p.size; s++)
			for (size_t j = 0; j < count(s); j++)
				pic.want_take[offset(s) + j] = element(p, s, j);
		break;
	}
	case broadcast:
		pic.take = r == p.root ? elements(p, r, 0, n) : values(n, untouched);
		pic.want_take = elements(p, p.root, 0, n);
		break;
	case scatter:
		pic.aliased = p.aliased && r == p.root;
		pic.at = pic.aliased ? n * r : 0;
		if (r == p.root)
			pic.give = elements(p, r, 0, all);
		pic.want_give = pic.give;
		pic.take = pic.want_take = values(n, untouched);
		for (size_t j = 0; j < n; j++)
			want(&pic, j, element(p, p.root, n * r + j));
		break;
	case all_to_all:
	case all_to_all_v:
	case all_to_all_vc:
		pic.give = pic.want_give = elements(p, r, 0, end_of(p.counts[r], p.offsets[0][r]));
		for (uint32_t s = 0; s < p.size; s++)
			pic.take.resize(std::max<size_t>(pic.take.size(), p.offsets[1][r][s] + p.counts[s][r]),
					untouched);
		pic.want_take = pic.take;
		for (uint32_t s = 0; s < p.size; s++)
			for (size_t j = 0; j < p.counts[s][r]; j++)
				pic.want_take[p.offsets[1][r][s] + j] = element(p, s, p.offsets[0][s][r] + j);
		break;
	default:
		for (size_t k = 0; k < p.sends.size(); k++) {
			const send &s = p.sends[k];
			const values v = elements(p, s.from, 1000 * k, s.count);

			if (s.from == r)
				pic.give.insert(pic.give.end(), v.begin(), v.end());
			if (s.to == r)
				pic.want_take.insert(pic.want_take.end(), v.begin(), v.end());
		}
		pic.want_give = pic.give;
		pic.take = values(pic.want_take.size(), untouched);
	}
	return pic;
}

/* ---- the calls -------------------------------------------------------------------------------------------- */

struct where {
	HcclComm comm;
	aclrtStream stream;
	char *give, *take;
};

/* HcclSend() and HcclRecv() in the order of the sends; all at once: a batch, or a group. */
bool transfer(const rank_of &r, const plan &p, uint32_t own, const where &at)
{
	std::vector<HcclSendRecvItem> items;
	char *give = at.give, *take = at.take;

	for (const send &s : p.sends) {
		const size_t bytes = s.count * size_of(p.type);

		if (s.from == own)
			items.push_back({HCCL_SEND, std::exchange(give, give + bytes), s.count, p.type, s.to});
		if (s.to == own)
			items.push_back({HCCL_RECV, std::exchange(take, take + bytes), s.count, p.type, s.from});
	}
	if (p.what == batch) {
		if (items.empty())
			return true;
		GOOD(HcclBatchSendRecv(items.data(), uint32_t(items.size()), at.comm, at.stream));
		return true;
	}
	if (p.what == grouped)
		GOOD(HcclGroupStart());
	for (const HcclSendRecvItem &i : items)
		if (i.sendRecvType == HCCL_SEND)
			GOOD(HcclSend(i.buf, i.count, i.dataType, i.remoteRank, at.comm, at.stream));
		else
			GOOD(HcclRecv(i.buf, i.count, i.dataType, i.remoteRank, at.comm, at.stream));
	if (p.what == grouped)
		GOOD(HcclGroupEnd());
	return true;
}

HcclResult call(const plan &p, uint32_t r, const where &at)
{
	const HcclComm c = at.comm;
	const aclrtStream s = at.stream;
	const bool root = r == p.root;
	std::vector<uint64_t> matrix, column;

	for (uint32_t a = 0; a < p.size; a++) {
		matrix.insert(matrix.end(), p.counts[a].begin(), p.counts[a].end());
		column.push_back(p.counts[a][r]);
	}
	switch (p.what) {
	case all_reduce:
		return HcclAllReduce(at.give, at.take, p.count, p.type, p.op, c, s);
	case reduce:
		return HcclReduce(at.give, root ? at.take : nullptr, p.count, p.type, p.op, p.root, c, s);
	case reduce_scatter:
		return HcclReduceScatter(at.give, at.take, p.count, p.type, p.op, c, s);
	case reduce_scatter_v:
		return HcclReduceScatterV(at.give, p.counts[0].data(), p.offsets[0][0].data(), at.take, p.counts[0][r],
					  p.type, p.op, c, s);
	case all_gather:
		return HcclAllGather(at.give, at.take, p.count, p.type, c, s);
	case all_gather_v:
		return HcclAllGatherV(at.give, p.counts[0][r], at.take, p.counts[0].data(), p.offsets[0][0].data(),
				      p.type, c, s);
	case broadcast:
		return HcclBroadcast(at.take, p.count, p.type, p.root, c, s);
	case scatter:
		return HcclScatter(root ? at.give : nullptr, at.take, p.count, p.type, p.root, c, s);
	case all_to_all:
		return HcclAlltoAll(at.give, p.count, p.type, at.take, p.count, p.type, c, s);
	case all_to_all_v:
		return HcclAlltoAllV(at.give, p.counts[r].data(), p.offsets[0][r].data(), p.type, at.take,
				     column.data(), p.offsets[1][r].data(), p.type, c, s);
	case all_to_all_vc:
		return HcclAlltoAllVC(at.give, matrix.data(), p.type, at.take, p.type, c, s);
	default:
		return HcclBarrier(c, s);
	}
}

/* ---- a rank ------------------------------------------------------------------------------------------------ */

struct arena {
	char *give = nullptr, *take = nullptr;
	arena()
	{
		for (char **at : {&give, &take})
			if (aclrtMalloc(reinterpret_cast<void **>(at), most, ACL_MEM_MALLOC_NORMAL_ONLY))
				*at = nullptr;
	}
	~arena()
	{
		aclrtFree(give);
		aclrtFree(take);
	}
	arena(const arena &) = delete;
	arena &operator=(const arena &) = delete;
};

bool fill(const rank_of &r, char *at, const std::vector<uint8_t> &bytes)
{
	MUST(bytes.size() <= most);
	GOOD(aclrtMemcpy(at, most, bytes.data(), bytes.size(), ACL_MEMCPY_HOST_TO_DEVICE));
	return true;
}

bool compare(const rank_of &r, const plan &p, const char *name, const char *at, const std::vector<uint8_t> &want)
{
	std::vector<uint8_t> got(want.size());

	GOOD(aclrtMemcpy(got.data(), got.size(), at, got.size(), ACL_MEMCPY_DEVICE_TO_HOST));
	if (got == want)
		return true;
	const auto wrong = std::mismatch(got.begin(), got.end(), want.begin());
	fprintf(stderr,
		"# rank %u, operation %llu: kind %d of %u ranks, type %d, op %d, root %u, count %zu, in place %d: "
		"%s differs at byte %td of %zu: %02x, not %02x\n",
		r.rank, static_cast<unsigned long long>(p.number), p.what, p.size, p.type, p.op, p.root, p.count,
		p.aliased, name, wrong.first - got.begin() - long(guard), got.size() - 2 * guard, *wrong.first,
		*wrong.second);
	return false;
}

bool run_plan(const rank_of &r, const plan &p, HcclComm comm, uint32_t own, const arena &mem)
{
	const picture pic = see(p, own);
	where at = {comm, p.other_stream ? r.other : r.stream, mem.give + guard, mem.take + guard};
	const bool gathers = p.what == all_gather || p.what == all_gather_v;
	const size_t part = p.what == all_gather ? p.count * own : p.offsets[0][0].empty() ? 0 : p.offsets[0][0][own];

	MUST(fill(r, mem.give, encode(p.type, pic.give)));
	MUST(fill(r, mem.take, encode(p.type, pic.take)));
	if (pic.aliased)
		at.take = at.give + pic.at * size_of(p.type);
	if (gathers && p.aliased)
		at.give = at.take + part * size_of(p.type);
	if (p.what == batch || p.what == send_recv || p.what == grouped)
		MUST(transfer(r, p, own, at));
	else
		GOOD(call(p, own, at));
	GOOD(aclrtSynchronizeStreamWithTimeout(at.stream, 60000));
	return compare(r, p, "sendBuf", mem.give, encode(p.type, pic.want_give)) &&
	       compare(r, p, "recvBuf", mem.take, encode(p.type, pic.want_take));
}

unsigned operations()
{
	const char *text = getenv("USDMA_TEST_OPERATIONS");

	return text ? unsigned(atoi(text)) : unsigned(sized(75, 15));
}

/* A part: the ranks of a random set, of which there are at least two. */
bool make_part(const rank_of &r, std::vector<uint32_t> *part, HcclComm *comm)
{
	auto gen = rng(1);
	HcclCommConfig config;
	HcclComm all = r.comm;

	HcclCommConfigInit(&config);
	config.hcclBufferSize = 2;
	for (uint32_t i = 0; i < ranks; i++)
		if (gen() % 2 || ranks - i <= 2 - std::min<size_t>(part->size(), 2))
			part->push_back(i);
	const auto own = std::find(part->begin(), part->end(), r.rank);
	if (own == part->end())
		GOOD(HcclCreateSubCommConfig(&all, 0, nullptr, 0xffffffff, 0, &config, comm));
	else
		GOOD(HcclCreateSubCommConfig(&all, uint32_t(part->size()), part->data(), 7,
					     uint32_t(own - part->begin()), &config, comm));
	MUST((*comm != nullptr) == (own != part->end()));
	return true;
}

/* Each collective of the whole group. */
bool fixed_operations(rank_of &r)
{
	const arena mem;

	MUST(mem.give && mem.take);
	for (int k = 0; k < kinds; k++)
		MUST(run_plan(r, make_plan(uint64_t(k), ranks, kind(k)), r.comm, r.rank, mem));
	return true;
}

bool random_operations(rank_of &r)
{
	const arena mem;
	std::vector<uint32_t> part;
	HcclComm sub = nullptr;

	MUST(mem.give && mem.take);
	MUST(make_part(r, &part, &sub));
	const uint32_t own = uint32_t(std::find(part.begin(), part.end(), r.rank) - part.begin());
	for (unsigned i = 0; i < operations(); i++) {
		const bool in_part = rng(5000000 + i)() % 4 == 0;
		const plan p = make_plan(1000 + i, in_part ? uint32_t(part.size()) : ranks, kind(i % kinds));

		if (!in_part)
			MUST(run_plan(r, p, r.comm, r.rank, mem));
		else if (sub)
			MUST(run_plan(r, p, sub, own, mem));
	}
	if (sub)
		GOOD(HcclCommDestroy(sub));
	return true;
}

/* Operations in two streams are ordered without an event of the caller. */
bool streams(rank_of &r)
{
	const size_t n = 5000;
	const arena mem;
	std::vector<int32_t> got(n, 1);

	GOOD(aclrtMemcpy(mem.give, most, got.data(), n * 4, ACL_MEMCPY_HOST_TO_DEVICE));
	for (int i = 0; i < 3; i++)
		GOOD(HcclAllReduce(mem.give, mem.give, n, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, r.comm,
				   i % 2 ? r.other : r.stream));
	GOOD(HcclBarrier(r.comm, r.other));
	GOOD(aclrtSynchronizeStreamWithTimeout(r.other, 60000));
	GOOD(aclrtMemcpy(got.data(), n * 4, mem.give, n * 4, ACL_MEMCPY_DEVICE_TO_HOST));
	MUST(got == std::vector<int32_t>(n, int32_t(ranks * ranks * ranks)));
	return true;
}

/* ---- graphs ------------------------------------------------------------------------------------------------ */

/* Sums and products, of types that aclrtReduceAsync has not, too; a copy of the program between them. */
bool record(const rank_of &r, const arena &mem, aclmdlRI *graph)
{
	char *const second = mem.take + most / 2;

	GOOD(aclmdlRICaptureBegin(r.stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	GOOD(HcclAllReduce(mem.give, mem.take, 1000, HCCL_DATA_TYPE_INT64, HCCL_REDUCE_SUM, r.comm, r.stream));
	GOOD(aclrtMemcpyAsync(second, 8000, mem.take, 8000, ACL_MEMCPY_DEVICE_TO_DEVICE, r.stream));
	GOOD(HcclAllReduce(second, second, 1000, HCCL_DATA_TYPE_INT64, HCCL_REDUCE_PROD, r.comm, r.stream));
	GOOD(HcclAllReduce(mem.take, mem.take, 20000, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_MAX, r.comm, r.stream));
	GOOD(aclmdlRICaptureEnd(r.stream, graph));
	return true;
}

/* Only kernels can be in a task group. */
bool fails_to_record(const rank_of &r, const arena &mem)
{
	aclmdlRI graph = nullptr;
	aclrtTaskGrp group;

	GOOD(aclmdlRICaptureBegin(r.stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	GOOD(aclmdlRICaptureTaskGrpBegin(r.stream));
	MUST(HcclAllReduce(mem.give, mem.take, 1000, HCCL_DATA_TYPE_INT64, HCCL_REDUCE_SUM, r.comm, r.stream) ==
	     HCCL_E_RUNTIME);
	MUST(aclmdlRICaptureTaskGrpEnd(r.stream, &group) == ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
	MUST(aclmdlRICaptureEnd(r.stream, &graph) == ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
	return true;
}

bool replay(const rank_of &r, const arena &mem, aclmdlRI graph, int64_t turn)
{
	std::vector<int64_t> v(1000, turn % 3 + r.rank), got(1000);
	int64_t sum = 0, product = 1;

	for (uint32_t s = 0; s < ranks; s++)
		sum += turn % 3 + s;
	for (uint32_t s = 0; s < ranks; s++)
		product *= sum;
	GOOD(aclrtMemcpy(mem.give, most, v.data(), 8000, ACL_MEMCPY_HOST_TO_DEVICE));
	GOOD(aclmdlRIExecuteAsync(graph, turn % 2 ? r.other : r.stream));
	if (turn % 4 == 0) /* an operation of no graph follows in order */
		GOOD(HcclAllReduce(mem.take, mem.take, 1000, HCCL_DATA_TYPE_INT64, HCCL_REDUCE_MIN, r.comm, r.stream));
	GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	GOOD(aclrtSynchronizeStreamWithTimeout(r.other, 60000));
	GOOD(aclrtMemcpy(got.data(), 8000, mem.take, 8000, ACL_MEMCPY_DEVICE_TO_HOST));
	MUST(got == std::vector<int64_t>(1000, sum));
	GOOD(aclrtMemcpy(got.data(), 8000, mem.take + most / 2, 8000, ACL_MEMCPY_DEVICE_TO_HOST));
	MUST(got == std::vector<int64_t>(1000, product));
	return true;
}

bool graphs(rank_of &r)
{
	const arena mem;
	aclmdlRI graph = nullptr;

	GOOD(aclrtMemset(mem.take, most, 0, most));
	MUST(fails_to_record(r, mem) && record(r, mem, &graph));
	for (unsigned turn = 0; turn < operations() / 10 + 1; turn++)
		MUST(replay(r, mem, graph, turn));
	GOOD(HcclBarrier(r.comm, r.stream));
	GOOD(aclrtSynchronizeStreamWithTimeout(r.stream, 60000));
	GOOD(aclmdlRIDestroy(graph));
	return true;
}

/* A graph cannot record operations of a group on several machines: the capture fails, the group works. */
bool graphs_refused(rank_of &r)
{
	const arena mem;
	aclmdlRI graph = nullptr;

	GOOD(aclmdlRICaptureBegin(r.stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	MUST(HcclAllReduce(mem.give, mem.take, 1000, HCCL_DATA_TYPE_INT64, HCCL_REDUCE_SUM, r.comm, r.stream) ==
	     HCCL_E_NOT_SUPPORT);
	MUST(strstr(HcclGetErrorString(HCCL_E_NOT_SUPPORT), "several machines"));
	MUST(aclmdlRICaptureEnd(r.stream, &graph) == ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
	return streams(r);
}

bool everything(rank_of &r)
{
	return fixed_operations(r) && random_operations(r) && streams(r) &&
	       (hosts_given() ? graphs_refused(r) : graphs(r));
}

/* ---- groups -------------------------------------------------------------------------------------------------- */

void in_processes(void **)
{
	in_group(everything);
}

/* Two processes with two ranks each: each device has its own imports. */
bool two_members(uint32_t first)
{
	bool second = false;
	std::thread thread([&] { second = member(first + 1, everything, 1); });
	const bool both = member(first, everything);

	thread.join();
	return both && second;
}

void in_two_processes(void **)
{
	std::vector<pid_t> pids;

	if (hosts_given() && ranks == 2)
		skip(); /* one process, so one machine */
	common->rooted = 0;
	for (uint32_t i = 0; i < ranks; i += 2)
		pids.push_back(start(devices.at(i) + "," + devices.at(i + 1),
				     [=] { return enter_host(i) && two_members(i); }));
	for (pid_t pid : pids)
		assert_int_equal(status_of(pid), 0);
}

void in_threads(void **)
{
	if (hosts_given())
		skip(); /* of one process, so of one machine */
	std::vector<int32_t> numbers(ranks);
	std::vector<HcclComm> comms(ranks);
	std::vector<std::thread> threads;
	std::vector<char> done(ranks);

	setenv("USDMA_DEVICES", all_devices().c_str(), 1);
	for (uint32_t i = 0; i < ranks; i++)
		numbers[i] = int32_t(i);
	assert_int_equal(aclInit(nullptr), 0);
	assert_int_equal(HcclCommInitAll(ranks, numbers.data(), comms.data()), 0);
	for (uint32_t i = 0; i < ranks; i++)
		threads.emplace_back([&, i] {
			rank_of r{i, int32_t(i), comms[i]};

			done[i] = open_rank(r) && everything(r) && close_rank(r);
		});
	for (std::thread &t : threads)
		t.join();
	for (uint32_t i = 0; i < ranks; i++) {
		assert_true(done[i]);
		assert_int_equal(HcclCommDestroy(comms[i]), 0);
	}
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {cmocka_unit_test(in_processes), cmocka_unit_test(in_two_processes),
				    /* From here on this process uses the library, and must not fork. */
				    cmocka_unit_test(in_threads)};

	prepare_ranks();
	return cmocka_run_group_tests_name("hccl_collectives", tests, nullptr, nullptr);
}
