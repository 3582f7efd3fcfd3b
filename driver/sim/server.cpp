/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection: messages in and out, and the engines' accesses to the client's memory. */
#include "driver/sim/server.h"

#include "driver/base/await_fds.h"
#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/base/log.h"
#include "driver/sim/signal_fd.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace usdma::sim {

namespace proto = vfio::proto;

/* Timeout to receive or to send a message once it has begun. */
static constexpr u64 message_ms = 4000;
/* Timeout for VERSION after a client connects. */
static constexpr u64 hello_ms = 3000;
/* The reply to a reset waits at most this long for earlier accesses: a client may answer those only after it. */
static constexpr u64 held_ms = 1000;
static constexpr int held_poll_ms = 2;
/* How often memory that could not be released is tried again. */
static constexpr int again_ms = 1000;

server::server(unique_fd sock, device_model &model) : sock_(std::move(sock)), model_(model), wake_(eventfd_make()) {}

int server::serve(int stop_fd)
{
	int err = wake_.valid() ? 0 : fail(EMFILE, "vfio-user server: cannot create an eventfd");

	model_.connect(this);
	hello_ = deadline::in_ms(hello_ms);
	while (!err)
		err = turn(stop_fd);
	const saved_error why;
	finish_serving(stop_fd);
	return why.again(err == -ENODEV || err == -ECANCELED ? 0 : err);
}

int server::poll_ms() const
{
	const deadline until = deadline::sooner(out_.until(), hello_);

	if (held_)
		return until.left_ms(held_poll_ms);
	return until.is_never() ? -1 : until.left_ms(INT_MAX);
}

/*
 * Waits for one event and handles it. Keeps reading while replies wait behind a partly sent access: a client that
 * is sending the reply to a large read reads nothing until that is sent.
 */
int server::turn(int stop_fd)
{
	const short in = !replies_.full() ? POLLIN : 0, out = out_.empty() ? 0 : POLLOUT;
	pollfd p[3] = {{sock_.get(), short(in | out), 0}, {stop_fd, POLLIN, 0}, {wake_.get(), POLLIN, 0}};

	if (await_fds(p, 3, poll_ms()) < 0)
		return 0;
	if (p[1].revents)
		return -ECANCELED;
	if (p[2].revents && woken())
		return -ECANCELED;
	if (const int err = answer_held())
		return err;
	if (const int err = flush())
		return err;
	if (p[0].revents & (POLLIN | POLLHUP | POLLERR) && !replies_.full())
		return step();
	return hello_.passed() ? fail(ETIMEDOUT, "a vfio-user client has said nothing for %llu ms",
				      static_cast<unsigned long long>(hello_ms)) :
				 0;
}

/* True: an engine requested the end of the connection. */
bool server::woken()
{
	eventfd_take(wake_.get());
	std::lock_guard guard(lock_);

	return hang_up_;
}

/* In this order: no new access begins, the engines end, the client sees end of file. */
void server::finish_serving(int stop_fd)
{
	pollfd p = {stop_fd, POLLIN, 0};

	fail_all();
	model_.quiesce();
	if (model_.is_accessed())
		log_error("a client's memory may still be accessed: its connection stays open until it is not");
	while (model_.is_accessed() && await_fds(&p, 1, again_ms) <= 0)
		model_.quiesce();
	if (model_.is_accessed()) {
		sock_.release();
		return;
	}
	/* Unread input would turn the end of file into a reset. */
	shutdown(sock_.get(), SHUT_RDWR);
	sock_.reset();
}

int server::step()
{
	vfio::user_message m;
	const int err = vfio::user_recv(sock_.get(), deadline::in_ms(message_ms), message_ms, &m);

	/* Another thread of ours, or a signal, may have consumed what poll reported. */
	if (err && err != -ENOMEM && err != -EMFILE)
		return err == -ETIMEDOUT ? 0 : err;
	if ((m.head.flags & proto::flag_type_mask) == proto::type_reply)
		return take_reply(m, !err);
	if ((m.head.flags & proto::flag_type_mask) != proto::type_command)
		return fail(EPROTO, "vfio-user client: a message that is neither command nor reply (flags 0x%x)",
			    m.head.flags);
	return answer_command(m, err);
}

/* The access must be off the list: its owner may free it once it has completed. */
static void finish(remote_access *a, int result)
{
	store_release(&a->result, s32(result));
	eventfd_add(a->wake_fd);
}

/* ---- sending ------------------------------------------------------------------------------------- */

int server::queue_reply(const proto_header &head, answer &a)
{
	const iovec part = {a.body.data(), a.body.size()};

	if (const int err = replies_.put(head, {&part, a.body.empty() ? 0u : 1u}, {a.fds, a.n_fds},
					 deadline::in_ms(message_ms)))
		return err;
	return flush();
}

/* Sends as much as possible without blocking. */
int server::flush()
{
	for (;;) {
		if (out_.empty() && !next_out())
			return 0;
		const int err = out_.push(sock_.get());
		if (err == -EAGAIN)
			return out_.until().passed() ? send_is_late() : 0;
		if (err)
			return err;
	}
}

/* False: there is nothing to send. */
bool server::next_out()
{
	out_is_access_ = false;
	if (!replies_.empty()) {
		replies_.take(&out_);
		return true;
	}
	std::lock_guard guard(lock_);

	while (remote_access *a = first_unsent()) {
		const int err = put_access(*a);

		a->sent = true;
		if (!err)
			return true;
		finish(take_pending(a->id), err);
	}
	return false;
}

/* Caller holds lock_, as for put_access(). */
remote_access *server::first_unsent() const
{
	remote_access *a = pending_;

	while (a && a->sent)
		a = a->next;
	return a;
}

int server::put_access(const remote_access &a)
{
	const auto cmd = a.write ? proto::command::dma_write : proto::command::dma_read;
	proto::dma_access_head body = {a.address, a.len};
	const iovec parts[] = {{&body, sizeof(body)}, {a.buf, a.len}};
	const int err = out_.put({a.id, u16(cmd), 0, proto::type_command, 0}, {parts, a.write ? 2u : 1u}, {},
				 deadline::in_ms(message_ms));

	out_is_access_ = !err;
	out_id_ = a.id;
	return err;
}

/*
 * A partly sent message must be completed before anything else: the connection fails. An access of which nothing
 * was sent is dropped.
 */
int server::send_is_late()
{
	if (!out_is_access_ || out_.begun())
		return fail(EPROTO, "the vfio-user client does not read its socket");
	out_.drop();
	std::lock_guard guard(lock_);
	if (remote_access *a = take_pending(out_id_))
		finish(a, -ETIMEDOUT);
	return 0;
}

/* err: no memory for the message's body (-ENOMEM), or no free descriptor for its own (-EMFILE). */
int server::answer_command(vfio::user_message &m, int err)
{
	answer a;

	if (!err)
		err = handle(m, &a);

	if (!err && a.body.truncated())
		err = no_memory("an answer to the vfio-user client");

	/* Closes what the model did not take before the client gets the reply. */
	m.fds.clear();
	proto::header h = {m.head.id, m.head.cmd, 0, proto::type_reply, 0};

	if (err) {
		log_info("vfio-user client: command %u: %s", m.head.cmd, error_text());
		h.flags |= proto::flag_error;
		h.error = u32(-err);
		a.body.clear();
		a.n_fds = 0;
	}
	if (m.head.flags & proto::flag_no_reply || (!err && hold(h)))
		return 0;
	if (const reply_fault f = model_.next_reply(); unlikely(f != reply_fault::none))
		return answer_wrongly(f, h, a);
	return queue_reply(h, a);
}

/* True: the reply is delayed. One at a time: clients wait for the reply to a reset. */
bool server::hold(const proto_header &head)
{
	if (held_ || head.cmd != u16(proto::command::device_reset) || !model_.is_resetting())
		return false;
	held_ = true;
	held_head_ = head;
	delayed_until_ = deadline::in_ms(held_ms);
	return true;
}

int server::answer_held()
{
	if (!held_ || replies_.full() || (model_.is_resetting() && !delayed_until_.passed()))
		return 0;
	held_ = false;
	return replies_.put(held_head_, {}, {}, deadline::in_ms(message_ms));
}

/* Injects a reply fault (fault_plan.h). */
int server::answer_wrongly(reply_fault how, proto_header h, answer &a)
{
	static const char garbage[] = "this is no vfio-user message at all";

	switch (how) {
	case reply_fault::drop:
		return 0;
	case reply_fault::close:
		return fail(EPROTO, "connection closed by an injected fault");
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
	default:
		return ::send(sock_.get(), garbage, sizeof(garbage), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ?
			       fail_errno("send") :
			       0;
	}
	return queue_reply(h, a);
}

/* ---- the engines' side ----------------------------------------------------------------------------- */

/* Appends to the list; the server's thread sends it. */
int server::begin(remote_access *a)
{
	{
		std::lock_guard guard(lock_);
		remote_access **last = &pending_;
		const remote_access *same;

		if (closed_)
			return fail(ENODEV, "the vfio-user client has disconnected");
		do {
			a->id = next_id_++;
			for (same = pending_; same && same->id != a->id; same = same->next)
				;
		} while (same);
		while (*last)
			last = &(*last)->next;
		a->next = nullptr;
		a->sent = false;
		*last = a;
	}
	eventfd_add(wake_.get());
	return 0;
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

bool server::take_back(remote_access *a)
{
	std::lock_guard guard(lock_);

	return !a->sent && take_pending(a->id) == a;
}

/* Caller holds lock_. Removes the access from the list. */
remote_access *server::take_pending(u16 id)
{
	for (remote_access **at = &pending_; *at; at = &(*at)->next)
		if (remote_access *a = *at; a->id == id) {
			*at = a->next;
			return a;
		}
	return nullptr;
}

/* Called by an engine: only a request, as the connection is closed after the engines have ended. */
void server::hang_up()
{
	{
		std::lock_guard guard(lock_);

		hang_up_ = true;
	}
	eventfd_add(wake_.get());
}

/*
 * Offset of a reply's data, or -EPROTO. The specification's table defines the count as 64 bits and as 32: the
 * length of the reply shows which. A client that writes 32 bits but uses the length of 64 has its data shifted by
 * four bytes: the first four are in the upper half of the count. The reply to a write may be a bare header, which
 * is accepted only from a client that has been shown not to be such: from those, the last four bytes of a read are
 * zeros.
 */
int server::reply_data(const vfio::user_message &m, const remote_access &a)
{
	static constexpr size_t narrow = 12, wide = sizeof(proto::dma_access_head);
	const auto cmd = a.write ? proto::command::dma_write : proto::command::dma_read;
	const size_t len = a.write ? 0 : a.len, size = m.body.size();
	proto::dma_access_head h = {};

	if (m.head.cmd != u16(cmd))
		return fail(EPROTO, "vfio-user client: a reply to command %u says command %u", unsigned(cmd),
			    m.head.cmd);
	if (!size && a.write && counts_right_)
		return 0;
	if (size != narrow + len && size != wide + len)
		return fail(EPROTO, "vfio-user client: a reply of %zu bytes to an access of %u", size, a.len);
	const size_t head = size - len;
	memcpy(&h, m.body.data(), head);
	if (h.address != a.address || h.count != a.len)
		return fail(EPROTO, "vfio-user client: its reply names another access (0x%llx, %llu bytes)",
			    static_cast<unsigned long long>(h.address), static_cast<unsigned long long>(h.count));
	const size_t n = std::min(len, sizeof(u32));
	u32 last = 0;

	memcpy(&last, m.body.data() + size - n, n);
	/* Before the access completes, so that its engine sees it. */
	if (a.write || head == narrow || last)
		store_relaxed(&counts_right_, 1u);
	return int(head);
}

int server::take_reply(const vfio::user_message &m, bool whole)
{
	std::lock_guard guard(lock_);
	remote_access *a = take_pending(m.head.id);

	/* The engine has given up: a late reply, not an error. */
	if (!a)
		return 0;
	if (m.head.flags & proto::flag_error) {
		finish(a, -EIO);
	} else if (!whole) {
		finish(a, -ENOMEM);
	} else {
		const int at = reply_data(m, *a);

		if (at < 0)
			log_info("%s", error_text());
		else if (!a->write)
			memcpy(a->buf, m.body.data() + at, a->len);
		finish(a, at < 0 ? at : 0);
	}
	return 0;
}

void server::fail_all()
{
	std::lock_guard guard(lock_);

	closed_ = true;
	while (remote_access *a = pending_) {
		pending_ = a->next;
		finish(a, -ENODEV);
	}
}

} // namespace usdma::sim
