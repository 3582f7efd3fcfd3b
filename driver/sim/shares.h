/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the users of a shared device may have (usdma-sim --backend): memory and connections of a user together, and work
 * in flight. The device runs what is in flight in order, so it is divided by what is: among the users that have work
 * by their weights, and a user's part among those of its clients that have some.
 */
#pragma once

#include "driver/base/barrier.h"
#include "driver/base/types.h"

#include <mutex>

#pragma GCC visibility push(default)
namespace usdma::sim {

struct share_limits {
	u64 client_bytes = ~u64(0), user_bytes = ~u64(0), all_bytes = ~u64(0); /* mapped at a time */
	u32 user_clients = 32;
};

/* In flight; bytes are of copies, requests of the device's rings. */
struct share_part {
	u64 requests, bytes;
};

class shares {
public:
	static constexpr u32 most_users = 64, most_weight = 64;
	/* At most, for a weight of 1; and of all users together. */
	static constexpr share_part each = {32, 2 * MiB};
	static constexpr u64 all_bytes = 16 * MiB;

	struct user {
		u32 number = 0, weight = 1, clients = 0;
		u64 mapped = 0;
		u32 active = 0;  /* atomic: sum of the weights of its clients that have work */
		u32 counted = 0; /* its own weight among those that have */
	};

	/* A client of a user; of a class that knows what it has in flight. */
	struct member {
		user *of = nullptr;
		u32 weight = 1, counted = 0;
		u64 mapped = 0;
	};

	/* Before any client: the requests that the device's rings take. */
	void set_ring(u64 requests) { ring_ = requests; }
	void set_limits(const share_limits &l);
	share_limits limits();
	u64 mapped();

	/* -EBUSY: the user has as many clients as it may, or there are too many users. */
	int enter(u32 number, u32 weight, member *m);
	/* With nothing mapped and no work. */
	void leave(member *m);
	/* Before it is mapped; -ENOSPC with a text. */
	int reserve(member *m, u64 bytes, const char *device);
	void release(member *m, u64 bytes);

	/* After a change of *working, atomic: the client has work, or 0: none. */
	void update(member *m, const u32 *working);
	void set_weight(member *m, u32 weight);
	void set_user_weight(u32 number, u32 weight);

	/* Any thread, between enter() and leave(): what the client may have in flight now. */
	share_part part_of(const member &m) const;

	/* f(user) for each that has clients. */
	template <class F> void each_user(const F &f)
	{
		std::lock_guard guard(lock_);

		for (const user &u : users_)
			if (u.clients)
				f(u);
	}

private:
	user *find(u32 number);
	void count(member *m, u32 weight);

	std::mutex lock_; /* protects what follows, but for loads of part_of() */
	share_limits limits_;
	user users_[most_users];
	u64 mapped_ = 0, ring_ = 256;
	u32 active_ = 0; /* atomic: sum of the weights of users that have work */
};

} // namespace usdma::sim
#pragma GCC visibility pop
