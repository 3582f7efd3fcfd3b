/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/stream/listen.h"
#include "lib/core/stream/task.h"

#include <mutex>
#include <utility>

namespace usdma::core {

static constinit std::mutex hooks_lock;
static pass_hook *hooks;
static u32 n_hooks, n_polling; /* atomic; those that run included */

static void add_hook(pass_hook *h)
{
	std::lock_guard guard(hooks_lock);

	h->next = std::exchange(hooks, h);
}

bool hooks_any()
{
	return load_acquire(&n_hooks);
}

bool hooks_poll()
{
	return load_acquire(&n_polling);
}

/* One that returns false may be freed, or is in the list again. */
void hooks_run()
{
	if (likely(!hooks_any()))
		return;
	hooks_lock.lock();
	pass_hook *now = std::exchange(hooks, nullptr);
	hooks_lock.unlock();

	while (pass_hook *h = now) {
		const u32 polls = h->polls;

		now = h->next;
		if (h->run(h->arg)) {
			add_hook(h);
			continue;
		}
		fetch_sub_release(&n_polling, polls);
		fetch_sub_release(&n_hooks, 1);
	}
}

void progress_hook_add(pass_hook *h)
{
	fetch_add_relaxed(&n_polling, u32(h->polls));
	fetch_add_relaxed(&n_hooks, 1);
	add_hook(h);
}

int progress_hook(pass_hook *h)
{
	if (const int err = progress_start())
		return err;
	progress_hook_add(h);
	progress_kick();
	return 0;
}

} // namespace usdma::core
