/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/listener.h"

#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/sim/fault_plan.h"
#include "driver/sim/server.h"
#include "driver/vfio_user/socket.h"

namespace usdma::sim {

namespace proto = vfio::proto;

/* -ECANCELED: stop_fd is readable. */
int listener::wait_client(int stop_fd, console *control, unique_fd *out)
{
	for (;;) {
		pollfd p[2 + console::poll_fds] = {{socket_.fd(), POLLIN, 0}, {stop_fd, POLLIN, 0}};

		if (const int err = wait_any(p, 2, control, deadline::never()))
			return err;
		if (p[1].revents)
			return -ECANCELED;
		if (!p[0].revents)
			continue;
		const int err = socket_.accept(out, 0, [](int sock) { reject(sock, EACCES); });
		if (err && err != -EAGAIN)
			return err;
		/* The device has vanished: closes the connection rather than let the client wait. */
		if (!err && control && !control->client_comes())
			out->reset();
		else if (!err)
			return 0;
	}
}

/* A client sends VERSION first; one that does not in time is disconnected without a reply. */
void listener::reject(int client, int err)
{
	static constexpr u64 patience_ms = 1000;
	vfio::user_message m;

	if (vfio::user_recv(client, deadline::in_ms(patience_ms), patience_ms, &m))
		return;
	vfio::user_send(client, {m.head.id, m.head.cmd, 0, proto::type_reply | proto::flag_error, u32(err)}, {}, {},
			deadline::in_ms(patience_ms));
}

/* A resource shortage rejects this client only: the next one may succeed. */
static int refuse(int client, int err)
{
	if (err != -ENOMEM && err != -EMFILE && err != -ENFILE && err != -EAGAIN && err != -ENOSPC)
		return err;
	log_warn_limited("client rejected: %s", error_text());
	listener::reject(client, -err);
	return 0;
}

int listener::serve(unique_fd client, const config &cfg, int stop_fd, faults *wrong)
{
	fault_plan plan(true);

	/* For each client the rules count from their beginning. */
	if (cfg.faulty && !wrong) {
		if (const int err = plan.set(cfg.faults))
			return err;
		wrong = &plan;
	}
	auto model = make_model(cfg, wrong);
	if (const int err = model ? model->start() : no_memory("a device"))
		return refuse(client.get(), err);
	server link(std::move(client), *model);
	if (link.serve(stop_fd))
		log_warn_limited("client dropped: %s", error_text());
	if (model->is_accessed())
		(void)model.release();
	/* Engines first: they use the link until they end. */
	model.reset();
	return 0;
}

} // namespace usdma::sim
