/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/shares.h"

#include "driver/base/error.h"

#include <algorithm>

namespace usdma::sim {

/* Below, the device's work for each request counts more than that for its bytes. */
static constexpr u64 least_bytes = 4096;

void shares::set_limits(const share_limits &l)
{
	std::lock_guard guard(lock_);

	limits_ = l;
}

share_limits shares::limits()
{
	std::lock_guard guard(lock_);

	return limits_;
}

u64 shares::mapped()
{
	std::lock_guard guard(lock_);

	return mapped_;
}

/* With the lock: the user's, else a free one; nullptr: there is none. */
shares::user *shares::find(u32 number)
{
	user *unused = nullptr;

	for (user &u : users_) {
		if (u.clients && u.number == number)
			return &u;
		if (!u.clients && !unused)
			unused = &u;
	}
	return unused;
}

int shares::enter(u32 number, u32 weight, member *m)
{
	std::lock_guard guard(lock_);
	user *const u = find(number);

	if (!u)
		return fail(EBUSY, "clients of %u users are served", most_users);
	if (u->clients >= limits_.user_clients)
		return fail(EBUSY, "user %u has %u clients, of at most %u", number, u->clients, limits_.user_clients);
	if (!u->clients)
		*u = {.number = number, .weight = weight};
	u->clients++;
	*m = {.of = u};
	return 0;
}

void shares::leave(member *m)
{
	std::lock_guard guard(lock_);

	count(m, 0);
	m->of->clients--;
}

static int refuse(const char *what, u64 more, u64 mapped, u64 most, const char *setting)
{
	return fail(ENOSPC, "DMA_MAP: %llu bytes in addition to %llu that %s has mapped exceed the limit of %llu%s",
		    static_cast<unsigned long long>(more), static_cast<unsigned long long>(mapped), what,
		    static_cast<unsigned long long>(most), setting);
}

static bool exceeds(u64 more, u64 mapped, u64 most)
{
	return more > most || mapped > most - more;
}

int shares::reserve(member *m, u64 bytes, const char *device)
{
	std::lock_guard guard(lock_);

	if (exceeds(bytes, m->mapped, limits_.client_bytes))
		return refuse("the client", bytes, m->mapped, limits_.client_bytes, " (setting \"share\")");
	if (exceeds(bytes, m->of->mapped, limits_.user_bytes))
		return refuse("the user", bytes, m->of->mapped, limits_.user_bytes, " (setting \"user-share\")");
	if (exceeds(bytes, mapped_, limits_.all_bytes))
		return refuse(device, bytes, mapped_, limits_.all_bytes, "");
	m->mapped += bytes;
	m->of->mapped += bytes;
	mapped_ += bytes;
	return 0;
}

void shares::release(member *m, u64 bytes)
{
	std::lock_guard guard(lock_);

	m->mapped -= bytes;
	m->of->mapped -= bytes;
	mapped_ -= bytes;
}

/* With the lock: the client counts with this weight among those of its user; 0: it has no work. */
void shares::count(member *m, u32 weight)
{
	user &u = *m->of;
	const u32 active = u.active - m->counted + weight, of_user = active ? u.weight : 0;

	m->counted = weight;
	store_relaxed(&active_, active_ - u.counted + of_user);
	u.counted = of_user;
	store_relaxed(&u.active, active);
}

void shares::update(member *m, const u32 *working)
{
	std::lock_guard guard(lock_);

	count(m, load_acquire(working) ? m->weight : 0);
}

void shares::set_weight(member *m, u32 weight)
{
	std::lock_guard guard(lock_);

	store_relaxed(&m->weight, weight);
	if (m->counted)
		count(m, weight);
}

void shares::set_user_weight(u32 number, u32 weight)
{
	std::lock_guard guard(lock_);

	for (user &u : users_)
		if (u.clients && u.number == number) {
			const u32 now = u.counted ? weight : 0;

			store_relaxed(&u.weight, weight);
			store_relaxed(&active_, active_ - u.counted + now);
			u.counted = now;
		}
}

/* Sums change while it reads: the part is wrong once. */
share_part shares::part_of(const member &m) const
{
	const u64 weight = load_relaxed(&m.weight), among = std::max<u64>(load_relaxed(&m.of->active), weight);
	const u64 user = load_relaxed(&m.of->weight), all = std::max<u64>(load_relaxed(&active_), user);
	const auto part = [&](u64 one, u64 whole) { return std::min(one * user, whole * user / all) * weight / among; };

	return {std::max<u64>(part(each.requests, ring_), 1), std::max(part(each.bytes, all_bytes), least_bytes)};
}

} // namespace usdma::sim
