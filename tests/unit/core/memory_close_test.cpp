/* SPDX-License-Identifier: BSD-3-Clause */
/* A device is closed while other threads send messages to it, and while other devices access its memory. */
#include "tests/unit/core/memory_rig.h"
#include "lib/core/memory/memory.h"
#include "tests/support/preempt.h"

#include <semaphore>
#include <thread>

using namespace usdma;
using namespace usdma::core;
using test::attached;
using test::fake;
using test::hook_locks;
using test::lock_hooks;
using test::on_device;
using test::own_memory;
using test::pages;

/* ---- messages to a device that is detached ------------------------------------------------------------ */

namespace {

constexpr unsigned slot = 1;

/* A thread that unregisters memory, and the one that detaches a device. */
struct two_threads {
	u8 *mem = pages(1);
	std::binary_semaphore is_there{0}, go_on{0};
	bool sends = false;   /* the first one has found the device, and has not finished with it */
	bool waiting = false; /* the second one waits for that */
	unsigned locks = 0;   /* of the memory lock by the second one */
	std::thread first;

	~two_threads() { munmap(mem, os_page_size()); }
	void unregister();
	void detach(attached *f, unsigned at);
};

bool is_messages(const void *m)
{
	return m == &mem_state().messages[slot];
}

} // namespace

/* Stops where it has found the device: it has the lock of its messages, and has left the memory lock. */
void two_threads::unregister()
{
	bool messages = false, stopped = false;
	const lock_hooks hooks = {[&](const void *m) { messages |= is_messages(m); },
				  [&](const void *m) {
					  messages &= !is_messages(m);
					  sends &= messages;
					  if (!messages || stopped || m != &mem_state().lock ||
					      !mem_state().attached[slot])
						  return;
					  sends = stopped = true;
					  is_there.release();
					  go_on.acquire();
				  }};

	hook_locks(&hooks);
	assert_int_equal(host_unregister(mem), 0);
	hook_locks(nullptr);
	if (!stopped)
		is_there.release();
}

/* Before its at-th time in the memory lock the other thread runs, until it stops. */
void two_threads::detach(attached *f, unsigned at)
{
	bool messages = false;
	const lock_hooks hooks = {[&](const void *m) {
					  messages |= is_messages(m);
					  if (m == &mem_state().lock && ++locks >= at && !first.joinable() &&
					      !messages) {
						  first = std::thread([this] { unregister(); });
						  is_there.acquire();
					  }
					  if (is_messages(m) && sends && !std::exchange(waiting, true))
						  go_on.release();
				  },
				  [&](const void *m) { messages &= !is_messages(m); }};

	hook_locks(&hooks);
	f->detach();
	hook_locks(nullptr);
}

/* At each step of the detach. */
static void none_is_sent_to_a_freed_device(void **)
{
	attached other(0);
	bool more = true;

	for (unsigned at = 1; more; at++) {
		attached f(slot);
		two_threads t;

		assert_int_equal(host_register(t.mem, os_page_size(), host_reg_charged), 0);
		t.detach(&f, at);
		const bool freed_too_early = t.sends && !t.waiting;
		if (freed_too_early)
			t.go_on.release();
		more = t.first.joinable();
		if (more)
			t.first.join();
		else
			assert_int_equal(host_unregister(t.mem), 0);
		if (freed_too_early)
			print_error("the other thread ran before lock %u\n", at);
		assert_false(freed_too_early);
		/* Attach, end, the heap, two ranges, the end. */
		assert_true(more || at > 8);
	}
}

/* ---- memory that other devices access ------------------------------------------------------------------ */

namespace {

struct shared_engine : test::fake_engine {
	u8 *const mem = pages(own_memory / os_page_size());

	shared_engine() : fake_engine(own_memory) {}
	~shared_engine() override { munmap(mem, own_memory); }
	u8 *memory() override { return mem; }
};

/* A device whose memory other devices map. */
struct shared : fake {
	shared() : fake(slot, own_memory)
	{
		dev.eng = std::make_unique<shared_engine>();
		assert_int_equal(memory_attach(&dev), 0);
	}
	/* As device_close(). */
	void close()
	{
		memory_wipe(&dev);
		memory_end(&dev);
		memory_detach(&dev);
		memory_forget(&dev);
	}
};

const test::fake_device *peer_device;
unsigned fills;
size_t reached; /* by the other device while it is cleared */

int zero(device *, u64, u64)
{
	fills++;
	reached += peer_device->count();
	return 0;
}

u64 in_peer(attached *peer, u64 addr)
{
	translation p = translate(addr);

	assert_int_equal(peer_translate(&peer->dev, &p), 0);
	return p.dma;
}

} // namespace

static void it_is_cleared_after_they_have_lost_it(void **)
{
	attached peer(0);
	shared f;

	peer_device = &peer.vfio();
	test::on_zero = zero;
	const u64 addr = on_device(f, 2 * MiB);
	assert_int_equal(fills, 1);
	assert_non_null(peer.vfio().reach(in_peer(&peer, addr)));
	f.close();
	test::on_zero = nullptr;
	assert_int_equal(fills, 2);
	assert_int_equal(reached, 0);
}

/* Work of the other device may still use the address of the memory. */
static void its_address_is_not_used_again_during_their_work(void **)
{
	attached peer(0);
	shared f;
	u8 *const mem = pages(own_memory / os_page_size());

	const u64 at = in_peer(&peer, on_device(f, 2 * MiB));
	peer.post(1);
	f.close();
	assert_int_equal(host_register(mem, own_memory, host_reg_charged), 0);
	assert_null(peer.vfio().reach(at));
	assert_int_equal(host_unregister(mem), 0);
	peer.complete();
	memory_reclaim();
	assert_int_equal(host_register(mem, own_memory, host_reg_charged), 0);
	assert_non_null(peer.vfio().reach(at));
	assert_int_equal(host_unregister(mem), 0);
	munmap(mem, own_memory);
}

/* By a copy that had found it before the close, and by one after. */
static void it_is_not_found_any_more(void **)
{
	attached peer(0);
	shared f;
	const u64 addr = on_device(f, 2 * MiB);
	translation p = translate(addr);

	memory_wipe(&f.dev);
	assert_false(is_current(p));
	assert_int_equal(translate(addr).size, 0);
	assert_int_equal(peer_translate(&peer.dev, &p), -EFAULT);
	f.close();
	assert_int_equal(peer_translate(&peer.dev, &p), -EFAULT);
}

static int set_up(void **)
{
	test::plain_settings();
	return 0;
}

int main()
{
	const CMUnitTest tests[] = {
		unit(none_is_sent_to_a_freed_device),
		unit(it_is_cleared_after_they_have_lost_it),
		unit(its_address_is_not_used_again_during_their_work),
		unit(it_is_not_found_any_more),
	};

	return cmocka_run_group_tests_name("memory of a device that is closed", tests, set_up, nullptr);
}
