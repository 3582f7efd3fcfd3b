/* SPDX-License-Identifier: BSD-3-Clause */
/* Every failing call of a scenario in lib/core: open, pin, register, copy, waits for words, host functions, close. */
#include "driver/base/clock.h"
#include "lib/core/copy/copy.h"
#include "lib/core/stream/event.h"
#include "tests/fault/failing.h"
#include "tests/support/core.h"

#include <cstdlib>
#include <cstring>

using namespace usdma;
using namespace usdma::core;
using test::ptr;
using namespace test::failing;

static constexpr u64 size = 16 * KiB;
static constexpr u64 timeout_ms = 20000;

/* The data that each run copies; created once, for all children, too. */
static std::vector<u8> own_bytes, plain_bytes;

struct objects {
	device *dev = nullptr;
	stream *s = nullptr;
	event *e = nullptr;
	void *pinned = nullptr;
	u64 mem = 0;
	bool registered = false;
	u8 *own = static_cast<u8 *>(aligned_alloc(4096, size)); /* is registered */
	u8 *plain = static_cast<u8 *>(malloc(size));            /* stays pageable */

	~objects()
	{
		free(own);
		free(plain);
	}
};

static int set_up(objects *t)
{
	stream_options opt;
	int err = device_get(0, &t->dev);

	opt.wait = int(wait_mode::interrupt);
	if (!err)
		err = stream_create(t->dev, opt, &t->s);
	if (!err)
		err = host_alloc(size, -1, &t->pinned);
	if (!err)
		err = host_register(t->own, size, 0);
	t->registered = !err;
	if (!err)
		err = event_create(t->dev, event_timing, &t->e);
	if (!err)
		err = device_alloc(t->dev, size, page_policy::normal_only, &t->mem);
	return err;
}

static const u64 open_gate = 1;

static void no_call(void *) {}

/* own → device → pinned with a sleeping wait; then plain → device → own. */
static int copies(objects *t)
{
	const deadline until = deadline::in_ms(timeout_ms);
	int err = copy_async(t->s, ptr(t->mem), t->own, size);

	if (!err)
		err = event_record(t->e, t->s);
	if (!err)
		err = stream_wait_word(t->s, &open_gate, dma::compare::eq, 1, until);
	if (!err)
		err = stream_host_func(t->s, no_call, nullptr, true);
	if (!err)
		err = copy_async(t->s, t->pinned, ptr(t->mem), size);
	const int end = stream_sync(t->s, until);
	err = err ? err : end;
	if (!err)
		assert_memory_equal(t->pinned, t->own, size);
	if (!err)
		err = copy_sync(t->dev, ptr(t->mem), t->plain, size, until);
	if (!err)
		err = copy_sync(t->dev, t->own, ptr(t->mem), size, until);
	if (!err)
		assert_memory_equal(t->plain, t->own, size);
	return err;
}

static int destroy(objects *t)
{
	int err = 0;
	auto note_error = [&err](int e) { err = err ? err : e; };

	if (t->e)
		note_error(event_destroy(t->e));
	if (t->mem)
		note_error(device_free(t->mem));
	if (t->registered)
		note_error(host_unregister(t->own));
	if (t->pinned)
		note_error(host_free(t->pinned));
	if (t->s)
		note_error(stream_destroy(t->s));
	if (t->dev)
		device_put(t->dev);
	return err;
}

/* Returns the first error; all objects are destroyed in any case. */
static int core_scenario(call c, long n)
{
	objects t;

	memcpy(t.own, own_bytes.data(), size);
	memcpy(t.plain, plain_bytes.data(), size);
	error_clear();
	arm(c, n);
	int err = set_up(&t);
	if (!err)
		err = copies(&t);
	if (err && !*error_text())
		print_error("error %d without a text\n", err);
	assert_true(!err || *error_text());
	assert_true(err <= 0);
	const int end = destroy(&t);
	disarm();
	return err ? err : end;
}

int main()
{
	own_bytes = random_bytes(size, 5);
	plain_bytes = random_bytes(size, 6);
	return main_with("failing calls", core_scenario);
}
