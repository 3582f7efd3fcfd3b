/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio_user/link.h"

#include "driver/base/await_fds.h"
#include "driver/base/barrier.h"
#include "driver/base/cancel.h"
#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/base/log.h"
#include "driver/base/thread.h"
#include "driver/vfio/device.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace usdma::vfio {

static constexpr u64 end_ms = 1000;

/* A pending call, on its caller's stack. state is the futex word; all else is protected by wait_lock_. */
struct user_link::pending {
	enum : u32 { waits, answered, no_space, no_fds, link_lost };

	pending *next = nullptr;
	u16 id = 0;
	u16 cmd = 0;
	u32 state = waits;
	user_message *reply = nullptr;
};

static int no_link()
{
	return fail(ENODEV, "the vfio-user server is lost; the device cannot be used any more");
}

static const char *command_name(proto::command cmd)
{
	static const char *const names[] = {
		"?",
		"VERSION",
		"DMA_MAP",
		"DMA_UNMAP",
		"DEVICE_GET_INFO",
		"DEVICE_GET_REGION_INFO",
		"DEVICE_GET_REGION_IO_FDS",
		"DEVICE_GET_IRQ_INFO",
		"DEVICE_SET_IRQS",
		"REGION_READ",
		"REGION_WRITE",
		"DMA_READ",
		"DMA_WRITE",
		"DEVICE_RESET",
	};

	return size_t(cmd) < std::size(names) ? names[size_t(cmd)] : "?";
}

int user_link::start(unique_fd sock, u64 timeout_ms, const user_link_ops *ops, void *arg)
{
	int err;

	lost_fd_.reset(eventfd_make());
	if (!lost_fd_.valid())
		return fail_errno("eventfd");
	sock_ = std::move(sock);
	timeout_ms_ = timeout_ms;
	ops_ = ops;
	arg_ = arg;
	err = thread_start(&thread_, "usdma-vfio-user", thread_main, this);
	running_ = err == 0;
	return err;
}

void user_link::stop()
{
	if (!running_)
		return;
	store_seq_cst(&stopping_, true);
	/* Else its thread would not see the end: a filter of system calls may forbid it. */
	if (shutdown(sock_.get(), SHUT_RDWR))
		eventfd_write(lost_fd_.get(), 1);
	pthread_join(thread_, nullptr);
	running_ = false;
	user_hang_up(std::move(sock_));
}

void user_link::give_up()
{
	if (!lost())
		log_warn("vfio-user: connection ended: %s", error_text());
	mark_lost();
	shutdown(sock_.get(), SHUT_WR);
}

void user_link::set_deadline(u64 ms)
{
	store_relaxed(&total_ms_, ms);
	store_relaxed(&total_ns_, ms ? deadline::in_ms(ms).at() : ~u64(0));
}

static u64 this_thread()
{
	return u64(pthread_self());
}

/* No thread-local word: those of libraries that are loaded at run time confuse LeakSanitizer. */
void user_link::limit_wait(u64 ms)
{
	store_relaxed(&limit_ms_, ms);
	store_release(&limited_, ms ? this_thread() : 0);
}

u64 user_link::wait_ms() const
{
	if (load_acquire(&limited_) != this_thread())
		return timeout_ms_;
	return std::min(load_relaxed(&limit_ms_), timeout_ms_);
}

deadline user_link::reply_deadline() const
{
	const deadline until = deadline::in_ms(wait_ms());
	const u64 all = load_relaxed(&total_ns_);

	return all < until.at() ? deadline::at_ns(all) : until;
}

/* A server that missed the total deadline gets no further requests: each would wait for its own timeout. */
int user_link::too_late(proto::command cmd, deadline until)
{
	const u64 ms = load_relaxed(&total_ms_);

	if (!ms || until.at() != load_relaxed(&total_ns_))
		return fail(ETIMEDOUT, "the vfio-user server did not answer %s within %llu ms", command_name(cmd),
			    static_cast<unsigned long long>(wait_ms()));
	const int err = fail(ETIMEDOUT,
			     "the vfio-user server is too slow: opening or closing got no further than %s in %llu ms; "
			     "reply_ms (USDMA_REPLY_MS) gives it more time",
			     command_name(cmd), static_cast<unsigned long long>(ms));
	give_up();
	return err;
}

/* Ends pending calls; later ones do not start, because lost_ is already set. */
void user_link::end_pending()
{
	std::lock_guard guard(wait_lock_);

	for (pending *p = waiting_; p; p = p->next) {
		if (p->state != pending::waits)
			continue;
		store_release(&p->state, u32(pending::link_lost));
		futex_wake(&p->state, INT_MAX);
	}
}

void user_link::mark_lost()
{
	if (load_seq_cst(&stopping_))
		return;
	if (!set_lost(&lost_))
		return;
	/* Not shared with the server, and signalled first: a call that fails with -ENODEV finds it signalled. */
	eventfd_write(lost_fd_.get(), 1);
	end_pending();
	ops_->lost(arg_);
}

int user_link::send(proto::header head, std::span<const iovec> parts, std::span<const int> fds, deadline until)
{
	/* Another thread's message may wait for the server until that one's deadline, which is not this one's. */
	if (!send_lock_.lock_until(until.at()))
		return fail(ETIMEDOUT, "the vfio-user peer does not read its socket");
	const std::lock_guard guard(send_lock_, std::adopt_lock);
	int err;

	if (lost())
		return no_link();
	err = user_send(sock_.get(), head, parts, fds, until);
	/* A partial message was sent: anything after it would be parsed as its rest. */
	if (err == -EPROTO)
		give_up();
	return err;
}

int user_link::enter(pending *p)
{
	std::lock_guard guard(wait_lock_);
	bool taken;

	if (lost())
		return no_link();
	do {
		p->id = next_id_++;
		taken = false;
		for (const pending *q = waiting_; q; q = q->next)
			taken |= q->id == p->id;
	} while (taken);
	p->next = waiting_;
	waiting_ = p;
	return 0;
}

void user_link::leave(pending *p)
{
	std::lock_guard guard(wait_lock_);
	pending **at = &waiting_;

	while (*at && *at != p)
		at = &(*at)->next;
	if (*at)
		*at = p->next;
}

/* Sleeps until the state changes or the deadline passes. */
static void wait_state(u32 *state, deadline until)
{
	while (load_acquire(state) == 0 && !until.passed())
		futex_wait_until(state, 0, until.at());
}

static int server_error(proto::command cmd, u32 error)
{
	const int err = error > 0 && error < 4096 ? int(error) : EIO;
	const char *what = strerrordesc_np(err);

	if (err == EMFILE)
		return fail(err,
			    "the vfio-user server refuses %s: its process has no descriptor left (RLIMIT_NOFILE, "
			    "ulimit -n)",
			    command_name(cmd));
	return fail(err, "the vfio-user server refuses %s: %s", command_name(cmd), what ? what : "unknown error");
}

int user_link::call(proto::command cmd, std::span<const iovec> parts, std::span<const int> fds, user_message *reply)
{
	const no_cancel scope;
	const deadline until = reply_deadline();
	pending p;
	int err;

	p.cmd = u16(cmd);
	p.reply = reply;
	err = enter(&p);
	if (err)
		return err;
	err = send({p.id, p.cmd, 0, proto::type_command, 0}, parts, fds, until);
	if (!err)
		wait_state(&p.state, until);
	/* Afterwards no other thread accesses p; the state is final. */
	leave(&p);
	if (err == -ETIMEDOUT)
		return too_late(cmd, until);
	if (err)
		return err == -EPROTO ? no_link() : err;
	if (p.state == pending::link_lost)
		return no_link();
	if (p.state == pending::no_space)
		return no_memory("the vfio-user server's reply");
	if (p.state == pending::no_fds)
		return no_fds_free();
	if (p.state == pending::waits)
		return too_late(cmd, until);
	return reply->head.flags & proto::flag_error ? server_error(cmd, reply->head.error) : 0;
}

int user_link::post(proto::command cmd, std::span<const iovec> parts)
{
	const no_cancel scope;
	const deadline until = reply_deadline();
	u16 id;
	{
		std::lock_guard guard(wait_lock_);

		id = next_id_++;
	}
	const int err = send({id, u16(cmd), 0, u32(proto::type_command | proto::flag_no_reply), 0}, parts, {}, until);
	return err == -ETIMEDOUT ? too_late(cmd, until) : err == -EPROTO ? no_link() : err;
}

/* err: -ENOMEM, -EMFILE: only the header was received. */
int user_link::handle_reply(user_message *m, int err)
{
	std::lock_guard guard(wait_lock_);
	pending *p = waiting_;

	while (p && (p->id != m->head.id || p->state != pending::waits))
		p = p->next;
	if (!p) {
		log_debug("vfio-user: reply %u without a waiter (any more)", m->head.id);
		return 0;
	}
	if (p->cmd != m->head.cmd)
		return fail(EPROTO, "vfio-user reply to command %u names command %u", p->cmd, m->head.cmd);
	*p->reply = std::move(*m);
	store_release(&p->state, u32(!err ? pending::answered : err == -EMFILE ? pending::no_fds : pending::no_space));
	futex_wake(&p->state, INT_MAX);
	return 0;
}

int user_link::send_reply(const user_message &to, int err, const message_body &body)
{
	proto::header head = {to.head.id, to.head.cmd, 0, proto::type_reply, 0};
	const iovec part = {const_cast<u8 *>(body.data()), err ? 0 : body.size()};

	if (to.head.flags & proto::flag_no_reply)
		return 0;
	if (err) {
		head.flags |= proto::flag_error;
		head.error = u32(-err);
	}
	return send(head, {&part, 1}, {}, deadline::in_ms(timeout_ms_));
}

int user_link::handle_command(const user_message &m)
{
	message_body body;
	const int err = ops_->serve(arg_, m, &body);

	return err == -EPROTO ? err : send_reply(m, err, body);
}

/* A message whose body or descriptors could not be received. */
int user_link::handle_bodyless(user_message *m, int err)
{
	if ((m->head.flags & proto::flag_type_mask) == proto::type_reply)
		return handle_reply(m, err);
	return send_reply(*m, err, m->body);
}

int user_link::handle(user_message *m)
{
	switch (m->head.flags & proto::flag_type_mask) {
	case proto::type_reply:
		return handle_reply(m, 0);
	case proto::type_command:
		return handle_command(*m);
	default:
		return fail(EPROTO, "vfio-user message of type %u", m->head.flags & proto::flag_type_mask);
	}
}

void user_link::receive()
{
	pollfd p[2] = {{sock_.get(), POLLIN, 0}, {lost_fd_.get(), POLLIN, 0}};
	int err = 0;

	while (!err && !lost() && !load_seq_cst(&stopping_)) {
		user_message m;

		if (await_fds(p, 2, -1) < 0 || !p[0].revents)
			continue;
		err = user_recv(sock_.get(), deadline::in_ms(0), timeout_ms_, &m);
		if (err == -ETIMEDOUT)
			err = 0;
		else if (err == -ENOMEM || err == -EMFILE)
			err = handle_bodyless(&m, err);
		else if (!err)
			err = handle(&m);
	}
	if (!load_seq_cst(&stopping_) && !lost())
		give_up();
	if (!load_seq_cst(&stopping_))
		await_end();
}

/* Reads and discards, so that a server which blocks in a send can continue to its end. */
void user_link::await_end()
{
	bool closed = false;

	/* With a limit, as stop() may be unable to shut the socket down. */
	while (!closed && !load_seq_cst(&stopping_))
		closed = user_await_end(sock_.get(), deadline::in_ms(end_ms));
	/* Release: the server's last writes are visible before the memory is reused. */
	if (!load_seq_cst(&stopping_) && closed)
		store_release(&ended_, true);
}

void *user_link::thread_main(void *arg)
{
	static_cast<user_link *>(arg)->receive();
	return nullptr;
}

} // namespace usdma::vfio
