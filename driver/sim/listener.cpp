/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/listener.h"

#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/sim/fault_plan.h"
#include "driver/sim/sdma_model.h"
#include "driver/sim/server.h"

#include <poll.h>

namespace usdma::sim {

/* -ECANCELED: told to stop. */
int listener::wait_client(int stop_fd, console *desk, unique_fd *out)
{
	for (;;) {
		pollfd p[2] = {{door_.fd(), POLLIN, 0}, {stop_fd, POLLIN, 0}};

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return fail_errno("poll");
		if (p[1].revents)
			return -ECANCELED;
		if (!p[0].revents)
			continue;
		const int err = door_.accept(out);
		if (err && err != -EAGAIN)
			return err;
		/* A device that has vanished: the client hears the end of the connection, not silence. */
		if (!err && desk && !desk->client_comes())
			out->reset();
		else if (!err)
			return 0;
	}
}

/* What is wanting now may be there for the next client: that ends nobody but this one. */
static int refuse(int err, console *desk)
{
	if (desk)
		desk->client_left();
	if (err != -ENOMEM && err != -EMFILE && err != -ENFILE && err != -EAGAIN)
		return err;
	log_warn("client turned away: %s", error_text());
	return 0;
}

int listener::serve(unique_fd client, const config &cfg, int stop_fd, faults *wrong, console *desk)
{
	fault_plan plan(true);

	/* Each client meets the rules from their beginning. */
	if (desk) {
		wrong = &desk->plan();
	} else if (cfg.faulty && !wrong) {
		if (const int err = plan.set(cfg.faults))
			return err;
		wrong = &plan;
	}
	auto model = try_unique<sdma_model>(cfg, wrong);
	if (const int err = model ? model->start() : no_memory("a device"))
		return refuse(err, desk);
	server link(std::move(client), *model);
	if (link.serve(stop_fd, desk ? desk->drop_fd() : -1))
		log_warn("client dropped: %s", error_text());
	/* Units first: they use the link until they end. */
	model.reset();
	if (desk)
		desk->client_left();
	return 0;
}

int listener::run(const config &cfg, int stop_fd, bool once, faults *wrong, console *desk)
{
	for (int err = 0; !err;) {
		unique_fd client;

		err = wait_client(stop_fd, desk, &client);
		if (!err)
			err = serve(std::move(client), cfg, stop_fd, wrong, desk);
		if (err || once)
			return err == -ECANCELED ? 0 : err;
	}
	return 0;
}

} // namespace usdma::sim
