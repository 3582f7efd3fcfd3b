/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clients of a device that usdma-sim shares among them (--backend). A process for each, as without it, would need
 * the device itself: they are threads, and the sandbox of the process is all that an attacker of it is in.
 *
 * Commands of the control socket (usdmactl share):
 *   state             the device and its clients
 *   drain             new clients are refused
 *   return            they are served again
 *   weight USER N     this user has this weight, also with the clients that are there; 1: as all others
 *   client NUMBER N   this client has this weight among those of its user
 *   reload OPTION …   the options of the command line that are share_settings, from now on; those that are not
 *                     named have their defaults again. Limits hold for what is mapped, and who comes, later
 *   help              these words
 */
#pragma once

#include "driver/sim/backend.h"
#include "driver/sim/listener.h"

#include <mutex>
#include <string_view>

namespace usdma::tool {

/* Weights of users (numbers), 1 but for these. */
class user_weights {
public:
	/* -EINVAL with a text. */
	int set(std::string_view user, std::string_view weight);
	u32 of(u32 user) const;

private:
	static constexpr u32 most = 64;
	struct {
		u32 user, weight;
	} list_[most];
	u32 count_ = 0;
};

/* What can be changed while it runs. */
struct share_settings {
	sim::share_limits limits;
	u64 hang_ms = 10000;
	u32 channels = 16;
	user_weights weights;

	/* An option's name without dashes, and its value. -ENOENT: it is another one; -EINVAL with a text. */
	int set(std::string_view name, std::string_view value);
};

class shared_clients {
public:
	static constexpr u32 most = 64;

	/* control: nullptr: none. */
	shared_clients(sim::listener &socket, const sim::config &cfg, sim::backend &device,
		       const share_settings &settings, const share_settings &defaults, sim::console *control);

	/*
	 * Serves until stop_fd becomes readable, or one client only; on return of 0 no client is served any more. -EIO:
	 * one does not leave.
	 */
	int run(int stop_fd, bool once);

private:
	struct client {
		shared_clients *all = nullptr; /* nullptr: none is served here */
		unique_fd sock;
		sim::backend_client *work = nullptr; /* while it is served */
		u32 number = 0, user = 0;
		int pid = 0;
		u64 since_ns = 0;
	};

	static void *thread_main(void *arg);
	int serve(unique_fd sock);
	client *take(unique_fd *sock);
	void give_back(client *c);
	int wait_all(u64 ms);
	static std::string answer(void *arg, std::string_view line);
	std::string execute(std::string_view line);
	int set_weight(std::string_view user, std::string_view weight);
	int set_client(std::string_view number, std::string_view weight);
	void set_draining(bool on);
	std::string state();
	std::string users();
	std::string device();
	int reload(std::string_view options, std::string *others);
	void apply(const share_settings &s);
	int begin(client *c, sim::config *cfg, sim::backend_client *work);

	sim::listener &socket_;
	const sim::config &cfg_;
	sim::backend &device_;
	sim::console *control_;
	int stop_fd_ = -1;
	u32 serving_ = 0; /* atomic; a futex */

	std::mutex lock_; /* protects what follows */
	share_settings settings_;
	const share_settings defaults_;
	client clients_[most];
	u64 copies_ = 0, bytes_ = 0, failed_ = 0, refused_ = 0; /* of clients that have left; who was not served */
	u32 served_ = 0;                                        /* ever */
	bool draining_ = false;
};

} // namespace usdma::tool
