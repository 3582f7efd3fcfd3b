/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/paths.h"

#include "tests/support/core.h"

#include <cstring>

namespace usdma::test {

using namespace core;

/* More than an arena (USDMA_TEST_HOST_ARENA=1M), so that each device has to map it. */
static constexpr u64 own_size = 4 * MiB;

void set_up(setting *t, unsigned slot, unsigned peer, wait_mode mode)
{
	stream_options opt;

	opt.wait = int(mode);
	t->mode = mode;
	ok(device_get(slot, &t->dev));
	ok(stream_create(t->dev, opt, &t->s));
	ok(host_alloc(path_size, -1, reinterpret_cast<void **>(&t->in)));
	ok(host_alloc(path_size, -1, reinterpret_cast<void **>(&t->out)));
	ok(device_alloc(t->dev, path_size, page_policy::normal_only, &t->d));
	ok(device_alloc(t->dev, path_size, page_policy::normal_only, &t->d2));
	ok(device_get(peer, &t->peer));
	ok(device_alloc(t->peer, path_size, page_policy::normal_only, &t->p));
	ok(device_alloc(t->dev, 64, page_policy::normal_only, &t->desc));
	t->pageable.resize(path_size);
	auto gen = rng(7);
	fill_random(t->in, path_size, gen);
	memset(t->out, 0, path_size);
}

void tear_down(setting *t)
{
	const int end = stream_destroy(t->s);

	assert_true(!end || (end == -ENODEV && t->dev->lost()));
	ok(host_free(t->in));
	ok(host_free(t->out));
	for (u64 a : {t->d, t->d2, t->desc, t->p})
		ok(device_free(a));
	device_put(t->peer);
	device_put(t->dev);
}

bool is_whole(const setting *t)
{
	return !memcmp(t->in, t->out, path_size);
}

/* The sync reports errors that the calls could not report. */
static int sync_result(setting *t, int err)
{
	const int end = stream_sync(t->s, soon());

	return err ? err : end;
}

static int pinned(setting *t)
{
	int err = copy_async(t->s, ptr(t->d), t->in, path_size);

	if (!err)
		err = copy_async(t->s, t->out, ptr(t->d), path_size);
	return sync_result(t, err);
}

static int pageable(setting *t)
{
	int err;

	memcpy(t->pageable.data(), t->in, path_size);
	err = copy_async(t->s, ptr(t->d), t->pageable.data(), path_size);
	memset(t->pageable.data(), 0, path_size);
	if (!err)
		err = copy_async(t->s, t->pageable.data(), ptr(t->d), path_size);
	if (!err)
		memcpy(t->out, t->pageable.data(), path_size);
	return err;
}

static int batch(setting *t)
{
	std::vector<copy_item> items;
	size_t done;
	int err;

	/* Backwards: an item that continued the one before would share its request. */
	for (u64 off = path_size; off; off -= 4096)
		items.push_back({ptr(t->d + off - 4096), t->in + off - 4096, 4096});
	err = copy_submit(t->s, items.data(), items.size(), nullptr, &done);
	items.clear();
	for (u64 off = path_size; off; off -= 4096)
		items.push_back({t->out + off - 4096, ptr(t->d + off - 4096), 4096});
	if (!err)
		err = copy_submit(t->s, items.data(), items.size(), nullptr, &done);
	return sync_result(t, err);
}

static int descriptor(setting *t)
{
	u32 block[8] = {0, 0, 0, u32(path_size)};
	int err;

	memcpy(&block[4], &t->d, 8);
	memcpy(&block[6], &t->d2, 8);
	err = copy_async(t->s, ptr(t->d), t->in, path_size);
	if (!err)
		err = copy_async(t->s, ptr(t->desc), block, sizeof(block));
	if (!err)
		err = copy_indirect_async(t->s, ptr(t->desc));
	if (!err)
		err = copy_async(t->s, t->out, ptr(t->d2), path_size);
	return sync_result(t, err);
}

static int peer(setting *t)
{
	int err = copy_async(t->s, ptr(t->d), t->in, path_size);

	if (!err)
		err = copy_async(t->s, ptr(t->p), ptr(t->d), path_size);
	if (!err)
		err = copy_async(t->s, t->out, ptr(t->p), path_size);
	return sync_result(t, err);
}

const path paths[path_count] = {{"pinned", pinned, true},
				{"pageable", pageable, false},
				{"batch", batch, true},
				{"descriptor", descriptor, true},
				{"peer", peer, true}};

/* own: the memory to use; nullptr: that of the setting. */
static int run_in(setting *t, const path &p, u8 *own)
{
	setting mine = *t;
	stream_options opt;

	opt.wait = int(t->mode);
	if (const int err = stream_create(t->dev, opt, &mine.s))
		return err;
	if (own) {
		mine.in = own;
		mine.out = own + own_size / 2;
		memcpy(mine.in, t->in, path_size);
	}
	const int err = p.run(&mine);
	if (own)
		memcpy(t->out, mine.out, path_size);
	stream_destroy(mine.s); /* the run has reported its errors */
	return err;
}

int run_anew(setting *t, const path &p)
{
	u8 *own = nullptr;

	if (p.maps)
		if (const int err = host_alloc(own_size, -1, reinterpret_cast<void **>(&own)))
			return err;
	const int err = run_in(t, p, own);
	if (own)
		ok(host_free(own));
	return err;
}

} // namespace usdma::test
