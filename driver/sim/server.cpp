/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection: messages in and out, and the units' accesses to the client's memory. */
#include "driver/sim/server.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/sim/signal_fd.h"

#include <algorithm>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace usdma::sim {

namespace proto = vfio::proto;

/* A message that has begun must be whole, and one that we send taken, within … */
static constexpr u64 message_ms = 4000;

int server::serve(int stop_fd, int drop_fd)
{
	int err = 0;

	model_.connect(this);
	while (!err) {
		pollfd p[3] = {{sock_.get(), POLLIN, 0}, {stop_fd, POLLIN, 0}, {drop_fd, POLLIN, 0}};

		if (poll(p, 3, -1) < 0 && errno != EINTR)
			err = fail_errno("vfio-user server: poll");
		else if (p[1].revents || p[2].revents)
			err = -ECANCELED;
		else if (p[0].revents)
			err = step();
	}
	fail_all();
	/* Units that are about to send find a closed socket, not another connection. */
	shutdown(sock_.get(), SHUT_RDWR);
	return err == -ENODEV || err == -ECANCELED ? 0 : err;
}

int server::step()
{
	vfio::user_message m;
	const int err = vfio::user_recv(sock_.get(), deadline::in_ms(message_ms), message_ms, &m);

	/* Another thread of ours, or a signal, may have taken what poll saw. */
	if (err && err != -ENOMEM)
		return err == -ETIMEDOUT ? 0 : err;
	if ((m.head.flags & proto::flag_type_mask) == proto::type_reply)
		return take_reply(m, !err);
	if ((m.head.flags & proto::flag_type_mask) != proto::type_command)
		return fail(EPROTO, "vfio-user client: a message that is neither command nor reply (flags 0x%x)",
			    m.head.flags);
	return answer_command(m, !err);
}

int server::send(const proto_header &head, std::span<const iovec> parts, std::span<const int> fds)
{
	std::lock_guard guard(send_lock_);

	return vfio::user_send(sock_.get(), head, parts, fds, deadline::in_ms(message_ms));
}

/* whole: with its body; else there was no memory for it. */
int server::answer_command(vfio::user_message &m, bool whole)
{
	answer a;
	int err = whole ? handle(m, &a) : -ENOMEM;

	if (!err && a.body.cut())
		err = no_memory("an answer to the vfio-user client");

	/* What the model did not take is closed before the client hears of the end. */
	m.fds.clear();
	proto::header h = {m.head.id, m.head.cmd, 0, proto::type_reply, 0};

	if (err) {
		log_info("vfio-user client: command %u: %s", m.head.cmd, error_text());
		h.flags |= proto::flag_error;
		h.error = u32(-err);
		a.body.clear();
		a.n_fds = 0;
	}
	if (m.head.flags & proto::flag_no_reply)
		return 0;
	if (const reply_fault f = model_.next_reply(); unlikely(f != reply_fault::none))
		return answer_wrongly(f, h, a);
	const iovec part = {a.body.data(), a.body.size()};
	return send(h, {&part, a.body.empty() ? 0u : 1u}, {a.fds, a.n_fds});
}

/* As a test asked (fault_plan.h). */
int server::answer_wrongly(reply_fault how, proto_header h, answer &a)
{
	static const char garbage[] = "this is no vfio-user message at all";

	switch (how) {
	case reply_fault::drop:
		return 0;
	case reply_fault::close:
		return fail(EPROTO, "connection closed, as a test asked");
	case reply_fault::cut_short:
		(void)a.body.resize(a.body.size() / 2);
		break;
	case reply_fault::too_long:
		for (const u64 zero = 0; int i : {1, 2, 3, 4, 5, 6, 7, 8})
			a.body.append(&zero, sizeof(zero)), (void)i;
		break;
	case reply_fault::wrong_id:
		h.id = u16(h.id ^ 0x5a5a);
		break;
	default: {
		std::lock_guard guard(send_lock_);

		return ::send(sock_.get(), garbage, sizeof(garbage), MSG_NOSIGNAL) < 0 ? fail_errno("send") : 0;
	}
	}
	const iovec part = {a.body.data(), a.body.size()};
	return send(h, {&part, a.body.empty() ? 0u : 1u}, {a.fds, a.n_fds});
}

/* ---- the units' side ----------------------------------------------------------------------------- */

int server::begin(remote_access *a)
{
	proto::header h = {0, u16(a->write ? proto::command::dma_write : proto::command::dma_read), 0, proto::type_command, 0};
	proto::dma_access_head body = {a->address, a->len};
	const iovec parts[] = {{&body, sizeof(body)}, {a->buf, a->len}};

	{
		std::lock_guard guard(lock_);

		if (closed_)
			return fail(ENODEV, "the vfio-user client is gone");
		const remote_access *same;
		do {
			h.id = next_id_++;
			for (same = pending_; same && same->id != h.id; same = same->next)
				;
		} while (same);
		a->id = h.id;
		a->next = pending_;
		pending_ = a;
	}
	const int err = send(h, {parts, a->write ? 2u : 1u}, {});
	if (err)
		end(a);
	return err;
}

void server::end(remote_access *a)
{
	std::lock_guard guard(lock_);

	for (remote_access **at = &pending_; *at; at = &(*at)->next)
		if (*at == a) {
			*at = a->next;
			break;
		}
}

/* With the lock held: it is under way no more. */
remote_access *server::take_pending(u16 id)
{
	for (remote_access **at = &pending_; *at; at = &(*at)->next)
		if (remote_access *a = *at; a->id == id) {
			*at = a->next;
			return a;
		}
	return nullptr;
}

/* The thread that serves sees the end of the connection and leaves. */
void server::hang_up()
{
	shutdown(sock_.get(), SHUT_RDWR);
}

bool server::reply_fits(const vfio::user_message &m, const remote_access &a) const
{
	const size_t head = sizeof(proto::dma_access_head);
	const auto cmd = a.write ? proto::command::dma_write : proto::command::dma_read;

	return m.head.cmd == u16(cmd) && m.body.size() == head + (a.write ? 0 : a.len);
}

static void finish(remote_access *a, int result)
{
	store_release(&a->result, s32(result));
	signal_eventfd(a->wake_fd);
}

int server::take_reply(const vfio::user_message &m, bool whole)
{
	std::lock_guard guard(lock_);
	remote_access *a = take_pending(m.head.id);

	/* The unit gave up on it: late, not wrong. */
	if (!a)
		return 0;
	if (m.head.flags & proto::flag_error) {
		finish(a, -EIO);
	} else if (!whole) {
		finish(a, -ENOMEM);
	} else if (!reply_fits(m, *a)) {
		finish(a, -EPROTO);
	} else {
		if (!a->write)
			memcpy(a->buf, m.body.data() + sizeof(proto::dma_access_head), a->len);
		finish(a, 0);
	}
	return 0;
}

void server::fail_all()
{
	std::lock_guard guard(lock_);

	closed_ = true;
	/* Off the list first: whoever it is finished for may be gone then. */
	while (remote_access *a = pending_) {
		pending_ = a->next;
		finish(a, -ENODEV);
	}
}

} // namespace usdma::sim
