/* SPDX-License-Identifier: BSD-3-Clause */
/* A device is closed while other threads send messages to it. */
#include "tests/unit/core/memory_rig.h"
#include "lib/core/memory/memory.h"
#include "tests/support/preempt.h"

#include <semaphore>
#include <thread>

using namespace usdma;
using namespace usdma::core;
using test::attached;
using test::lock_hooks;
using test::pages;
using test::watch_locks;

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

	watch_locks(&hooks);
	assert_int_equal(host_unregister(mem), 0);
	watch_locks(nullptr);
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

	watch_locks(&hooks);
	f->detach();
	watch_locks(nullptr);
}

/* At each place of the detach. */
static void none_is_sent_to_a_freed_device(void **)
{
	attached other(0);
	bool more = true;

	for (unsigned at = 1; more; at++) {
		attached f(slot);
		two_threads t;

		assert_int_equal(host_register(t.mem, os_page_size(), 0), 0);
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

static int set_up(void **)
{
	test::plain_settings();
	return 0;
}

int main()
{
	const CMUnitTest tests[] = {
		unit(none_is_sent_to_a_freed_device),
	};

	return cmocka_run_group_tests_name("memory of a device that is closed", tests, set_up, nullptr);
}
