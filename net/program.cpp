/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/program.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/futex_lock.h"
#include "driver/base/printable.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace usdma::net {

using namespace core;

static_assert(helper_part == part_most && helper_key == key_length);
static constexpr u64 number_mark = u64(1) << 62; /* not a ping's, nor a measurement's */
static constexpr u64 begin_ms = 10000, late_ms = 5000;
static constexpr u32 at_a_time = 64; /* requests before others have their turn */
static constexpr size_t listeners_most = 1024, sendings_most = 1 << 16;

/* ---- the socket ----------------------------------------------------------------------------------------- */

/* At most two descriptors come with a message; more of them the kernel closes. */
static void take_descriptors(msghdr *m, unique_fd fds[2])
{
	for (cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < 2 && CMSG_LEN((i + 1) * sizeof(int)) <= c->cmsg_len; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			fds[i].reset(fd);
		}
	}
}

int program::receive(helper_request *r, unique_fd fds[2], ssize_t *length)
{
	alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
	iovec to = {r, sizeof(*r)};
	msghdr m = {};

	m.msg_iov = &to;
	m.msg_iovlen = 1;
	m.msg_control = control;
	m.msg_controllen = sizeof(control);
	*length = recvmsg(fd_, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (*length < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : fail_errno("the program's socket");
	take_descriptors(&m, fds);
	if (!*length)
		return fail(ECANCELED, "the program has ended");
	return *length == ssize_t(sizeof(*r)) && !(m.msg_flags & MSG_TRUNC) ? 0 : fail(EPROTO, "a malformed request");
}

static int map_shared(int fd, u64 size, mapping *out)
{
	struct stat st;
	const int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || u64(st.st_size) != size)
		return fail(EPROTO, "the program's memory is not what it should be");
	void *const p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return fail_errno("mapping the program's memory");
	*out = mapping(p, size);
	return 0;
}

int program::begin()
{
	pollfd p = {fd_, POLLIN, 0};
	helper_request r;
	unique_fd fds[2];
	ssize_t length;

	if (poll(&p, 1, int(begin_ms)) != 1)
		return fail(ETIMEDOUT, "the program has not said what it wants");
	if (const int err = receive(&r, fds, &length))
		return err;
	if (r.op != u32(helper_op::begin) || r.id != helper_version || !fds[0].valid())
		return fail(EPROTONOSUPPORT, "usdma-net and the program are of different releases of usdma: install "
					     "the same one of both");
	life_ = std::move(fds[1]);
	return map_shared(fds[0].get(), helper_memory, &memory_);
}

int program::attach()
{
	const int err = node_.set_source(
		fd_, [](void *arg) { static_cast<program *>(arg)->on_readable(); }, this);

	node_.ucx().set_receiver(this);
	return err || !life_.valid() ? err : node_.add_end(life_.get());
}

void program::on_readable()
{
	for (u32 i = 0; i < at_a_time && !ended_; i++) {
		helper_request r;
		unique_fd fds[2];
		ssize_t length;
		const int err = receive(&r, fds, &length);

		if (!err && length < 0)
			return;
		ended_ = err || take(r, std::move(fds[0]));
	}
}

/* A request that waits for data of a peer that has left is over as soon as UCX does not write there any more. */
int program::tick()
{
	fetch_add_relaxed(&page()->beat, 1u);
	for (const request &q : requests_)
		if (q.busy && q.lost && now_ns() - q.lost_at > late_ms * ns_per_ms)
			return fail(EIO, "UCX does not give memory back");
	return ended_ ? fail(ECANCELED, "the program has ended") : 0;
}

/* ---- results --------------------------------------------------------------------------------------------- */

u8 *program::part(const request &q) const
{
	return memory_.data() + helper_head + u64(&q - requests_) * helper_part;
}

/* Either this sees the sleeper, or that sees the number changed. */
void program::ring()
{
	fetch_add_seq_cst(&page()->rings, 1u);
	if (load_seq_cst(&page()->sleepers))
		futex_wake_shared(&page()->rings, INT_MAX);
}

void program::finish(request &q, int status, const char *text, u64 id, u64 size)
{
	helper_slot *const s = &page()->slots[&q - requests_];

	q.busy = q.sends = q.receives = q.answered = false;
	q.number = 0;
	q.lost = 0;
	q.to.reset();
	s->status = status;
	s->id = id;
	s->size = size;
	snprintf(s->text, sizeof(s->text), "%s", status ? printable(text).c_str() : "");
	store_release(&s->state, u32(slot_state::done));
	ring();
}

/* The peer has left, or is about to. */
void program::finish_lost(request &q)
{
	finish(q, q.lost ? q.lost : -ECONNRESET, q.lost ? q.why : "the peer is gone");
}

/* With the latest error's text. */
void program::fail_request(request &q, int err)
{
	finish(q, err, error_text());
}

/* ---- requests -------------------------------------------------------------------------------------------- */

static bool is_move(const helper_request &r)
{
	return r.op == u32(helper_op::fill) ? fill_fits(r.length, r.pattern_size) : r.length && r.length <= part_most;
}

static bytes key_of(const helper_request &r)
{
	return {reinterpret_cast<const u8 *>(r.key), helper_key};
}

/* Of work with a peer, however UCX says it. */
static int lost_error(int err)
{
	return err == -ETIMEDOUT ? -ENOLINK : -ECONNRESET;
}

/* What has no slot. An error ends this process: the program does not keep to the rules. */
int program::take_other(const helper_request &r, const unique_fd &fd, bool *other)
{
	*other = true;
	switch (helper_op(r.op)) {
	case helper_op::withdraw:
		exports_.remove(key_of(r));
		std::erase_if(listeners_, [&](const listener &l) { return equal(l.name, key_of(r)); });
		return 0;
	case helper_op::close:
		close(r.id);
		return 0;
	case helper_op::send:
		return send_data(r);
	case helper_op::bell:
		return take_bell(r, fd);
	default:
		*other = false;
		return 0;
	}
}

/* As take_other(). */
int program::take(const helper_request &r, unique_fd fd)
{
	bool moves = false, other = false;
	const int failed = take_other(r, fd, &other);

	if (other)
		return failed;
	switch (helper_op(r.op)) {
	case helper_op::put:
	case helper_op::get:
	case helper_op::fill:
		moves = is_move(r);
		if (!moves)
			return fail(EPROTO, "a malformed request");
		break;
	case helper_op::offer:
	case helper_op::open:
	case helper_op::listen:
	case helper_op::dial:
		break;
	default:
		return fail(EPROTO, "an unknown request");
	}
	if (r.slot >= helper_slots || requests_[r.slot].busy)
		return fail(EPROTO, "a request for a slot that is not free");
	requests_[r.slot] = {};
	requests_[r.slot].r = r;
	requests_[r.slot].busy = true;
	if (const int err = start(r, std::move(fd)))
		fail_request(requests_[r.slot], moves ? lost_error(err) : err);
	return 0;
}

int program::start(const helper_request &r, unique_fd fd)
{
	switch (helper_op(r.op)) {
	case helper_op::offer:
		return start_offer(r, std::move(fd));
	case helper_op::open:
		return start_open(r);
	case helper_op::listen:
		return start_listen(r, std::move(fd));
	case helper_op::dial:
		return start_dial(r, std::move(fd));
	default:
		return start_move(r);
	}
}

int program::start_offer(const helper_request &r, unique_fd fd)
{
	u64 number = 0;
	const int err = exports_.add(key_of(r), std::move(fd), r.offset, r.length, r.open, &number);

	if (!err)
		finish(requests_[r.slot], 0, "", number);
	return err;
}

int program::send(request &q, u32 slot, message kind, const message_header &h, const void *data)
{
	message_header m = h;

	q.peer = slot;
	q.number = m.number = number_mark | ++last_number_;
	if (!data)
		return node_.ucx().send(slot, kind, m);
	q.sends = true;
	const int err = node_.ucx().send(slot, kind, m, data, [this, &q](bool done) { on_sent(q, done); });
	if (err)
		q.sends = false;
	return err;
}

/* A peer may answer before UCX has read all of the data: until then they are not to be changed. */
void program::on_sent(request &q, bool done)
{
	q.sends = false;
	if (q.lost || !done)
		finish_lost(q);
	else if (q.answered)
		finish_answered(q);
}

/* ---- memory of peers --------------------------------------------------------------------------------------- */

static sockaddr_storage address_of(const net_address &at, u16 port)
{
	sockaddr_storage a = {};

	if (at.family == 6) {
		a.ss_family = AF_INET6;
		memcpy(&reinterpret_cast<sockaddr_in6 &>(a).sin6_addr, at.address, sizeof(in6_addr));
	} else {
		a.ss_family = AF_INET;
		memcpy(&reinterpret_cast<sockaddr_in &>(a).sin_addr, at.address, sizeof(in_addr));
	}
	port_set(&a, port);
	return a;
}

static bool is_same(const net_address &a, const net_address &b)
{
	return a.family == b.family && a.port == b.port && !memcmp(a.address, b.address, sizeof(a.address));
}

int program::find_link(const helper_request &r, link **out)
{
	const auto it = std::find_if(links_.begin(), links_.end(), [&](const link &l) { return is_same(l.at, r.at); });
	u32 slot;

	if (it != links_.end()) {
		*out = &*it;
		return 0;
	}
	if (const int err = node_.connect_begin(address_of(r.at, r.at.port), &slot))
		return err;
	links_.push_back({r.at, slot, false});
	*out = &links_.back();
	return 0;
}

int program::start_open(const helper_request &r)
{
	request &q = requests_[r.slot];
	link *l;

	if (!r.at.port || (r.at.family != 4 && r.at.family != 6))
		return fail(EINVAL, "no address");
	if (const int err = find_link(r, &l))
		return err;
	q.peer = l->slot;
	if (l->ready)
		send_open(q);
	return 0;
}

/* The key lies in the request, which stays. */
void program::send_open(request &q)
{
	message_header h = {};

	h.length = key_length;
	if (const int err = send(q, q.peer, message::open, h, q.r.key))
		fail_request(q, err);
}

void program::peer_came(u32 slot, const u8 host[id_len])
{
	const auto l = std::find_if(links_.begin(), links_.end(), [=](const link &k) { return k.slot == slot; });

	if (l == links_.end())
		return;
	l->ready = true;
	for (request &q : requests_) {
		if (!q.busy || q.peer != slot || q.number || q.r.op != u32(helper_op::open))
			continue;
		if (memcmp(q.r.host, host, id_len) != 0)
			finish(q, -ENOENT, "another machine has this address now, or this one was restarted");
		else
			send_open(q);
	}
}

/* A message of send() is over. */
void program::count(const std::shared_ptr<u8> &from)
{
	fetch_add_release(reinterpret_cast<u64 *>(from.get()), u64(1));
	ring();
}

void program::peer_gone(u32 slot, int err)
{
	std::erase_if(links_, [=](const link &l) { return l.slot == slot; });
	for (const auto &[id, o] : opened_)
		if (o.slot == slot)
			note_lost(o, lost_error(err));
	std::erase_if(opened_, [=](const auto &o) { return o.second.slot == slot; });
	std::erase_if(sendings_, [=, this](const auto &s) {
		if (s.second.slot == slot)
			count(s.second.from);
		return s.second.slot == slot;
	});
	exports_.peer_left(slot);
	for (request &q : requests_) {
		if (!q.busy || q.peer != slot || q.r.op == u32(helper_op::offer))
			continue;
		q.number = 0;
		/* No program there waits for it, or none listens at that port. */
		if (q.r.op == u32(helper_op::dial)) {
			if ((err != -ENOENT && err != -ECONNREFUSED) || q.r.at.port || dial(q, q.port + 1))
				fail_request(q, err);
			continue;
		}
		if (q.sends || q.receives) {
			q.lost = lost_error(err);
			snprintf(q.why, sizeof(q.why), "%s", error_text());
			q.lost_at = now_ns();
		} else
			fail_request(q, q.r.op == u32(helper_op::open) ? err : lost_error(err));
	}
}

int program::start_move(const helper_request &r)
{
	static constexpr struct {
		helper_op op;
		message kind;
	} kinds[] = {{helper_op::put, message::put}, {helper_op::get, message::get}, {helper_op::fill, message::fill}};
	request &q = requests_[r.slot];
	const auto it = opened_.find(r.id);
	const auto *k = std::find_if(kinds, std::end(kinds), [&](const auto &one) { return u32(one.op) == r.op; });
	const bool puts = k->op == helper_op::put;
	message_header h = {};

	if (it == opened_.end())
		return fail(ECONNRESET, "the connection to the machine with this memory was lost");
	h.id = it->second.id;
	h.offset = r.offset;
	h.length = puts ? r.length : 0;
	h.value = puts ? 0 : r.length;
	h.pattern = r.pattern;
	h.pattern_size = puts ? 0 : r.pattern_size;
	return send(q, it->second.slot, k->kind, h, puts ? part(q) : nullptr);
}

void program::close(u64 id)
{
	const auto it = opened_.find(id);
	message_header h = {};

	if (it == opened_.end())
		return;
	h.id = it->second.id;
	node_.ucx().send(it->second.slot, message::close, h);
	opened_.erase(it);
}

/* ---- data and words -------------------------------------------------------------------------------------- */

int program::take_bell(const helper_request &r, const unique_fd &fd)
{
	const u64 size = u64(sysconf(_SC_PAGESIZE));

	if (r.offset % sizeof(u32) || !range_within(r.offset, sizeof(u32), size))
		return fail(EPROTO, "a malformed bell");
	if (const int err = map_shared(fd.get(), size, &bell_))
		return err;
	bell_count_ = reinterpret_cast<u32 *>(bell_.data() + r.offset);
	return 0;
}

void program::ring_bell()
{
	if (!bell_count_)
		return;
	fetch_add_seq_cst(bell_count_, 1u);
	futex_wake_shared(bell_count_, INT_MAX);
}

void program::note_lost(const opened &o, int err)
{
	if (!o.lost)
		return;
	store_release(reinterpret_cast<u64 *>(o.lost.get()), u64(s64(err)));
	ring_bell();
}

/* Of a peer that is gone the program hears by its word. */
int program::send_data(const helper_request &r)
{
	const auto it = opened_.find(r.id);
	message_header h = {};
	u64 size = 0;

	const std::shared_ptr<u8> from = exports_.own(r.local, &size);
	/* It was withdrawn: nobody counts. */
	if (!from)
		return 0;
	if (size < sizeof(u64) || r.length > part_most || !range_within(r.local_offset, r.length, size) ||
	    r.signal % sizeof(u64) || sendings_.size() >= sendings_most)
		return fail(EPROTO, "malformed data to be sent");
	if (it == opened_.end()) {
		count(from);
		return 0;
	}
	h.id = it->second.id;
	h.offset = r.offset;
	h.length = r.length;
	h.pattern = r.signal;
	h.pattern_size = sizeof(u64);
	h.number = number_mark | ++last_number_;
	const u8 *const data = r.length ? from.get() + r.local_offset : nullptr;
	/* A failure is the peer's end. */
	if (node_.ucx().send(it->second.slot, message::put, h, data, [from](bool) {}))
		count(from);
	else
		sendings_[h.number] = {it->second.slot, r.id, from};
	return 0;
}

/* True: it was one. */
bool program::on_sent_ack(const incoming &in)
{
	const auto s = sendings_.find(in.h.number);

	if (in.kind != message::ack || s == sendings_.end() || s->second.slot != in.slot)
		return false;
	if (const auto o = opened_.find(s->second.opened); in.h.status && o != opened_.end())
		note_lost(o->second, in.h.status);
	count(s->second.from);
	sendings_.erase(s);
	return true;
}

/* ---- connections between programs ------------------------------------------------------------------------ */

/* Without waiting: who does not take it has no use for it. */
static int pass_on(int to, const unique_fd &fd)
{
	alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
	const int number = fd.get();
	char one = 1;
	iovec from = {&one, sizeof(one)};
	msghdr m = {};

	m.msg_iov = &from;
	m.msg_iovlen = 1;
	m.msg_control = control;
	m.msg_controllen = sizeof(control);
	cmsghdr *const c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &number, sizeof(number));
	return sendmsg(to, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? fail_errno("a connection for the program") : 0;
}

/* The program does not wait any more. */
template <class L> static bool is_closed(const L &l)
{
	pollfd p = {l.to.get(), 0, 0};

	return poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR);
}

int program::start_listen(const helper_request &r, unique_fd fd)
{
	const bytes name = key_of(r);

	if (!fd.valid())
		return fail(EINVAL, "no socket for connections");
	std::erase_if(listeners_, is_closed<listener>);
	if (listens(name))
		return fail(EADDRINUSE, "a connection by this name is waited for already");
	if (listeners_.size() >= listeners_most)
		return fail(ENOSPC, "too many connections are waited for");
	listeners_.push_back({{name.begin(), name.end()}, std::move(fd)});
	finish(requests_[r.slot], 0, "");
	return 0;
}

bool program::listens(bytes name) const
{
	return std::any_of(listeners_.begin(), listeners_.end(),
			   [=](const auto &l) { return equal(l.name, name) && !is_closed(l); });
}

int program::start_dial(const helper_request &r, unique_fd fd)
{
	request &q = requests_[r.slot];

	if (!fd.valid() || (r.at.family != 4 && r.at.family != 6))
		return fail(EINVAL, "no address, or no socket");
	q.to = std::move(fd);
	return dial(q, r.at.port ? r.at.port : node_.local().first);
}

/* One port, or from that on the next one to which there is a connection. -ENOENT: there is none. */
int program::dial(request &q, u32 first)
{
	const u32 last = q.r.at.port ? q.r.at.port : node_.local().control_last();
	int err = -ENOENT;

	for (q.port = first; q.port <= last; q.port++) {
		err = node_.connect_begin(address_of(q.r.at, u16(q.port)), &q.peer, key_of(q.r));
		if (err != -ECONNREFUSED)
			break;
	}
	return err;
}

void program::stream_came(u32 slot, side me, bytes name, unique_fd fd)
{
	if (me == side::server) {
		/* One that does not take them now loses this one only. */
		std::erase_if(listeners_, [&](const listener &l) {
			const int err = equal(l.name, name) ? pass_on(l.to.get(), fd) : 0;

			return err && err != -EAGAIN;
		});
		return;
	}
	for (request &q : requests_) {
		if (!q.busy || q.peer != slot || q.r.op != u32(helper_op::dial))
			continue;
		const int err = pass_on(q.to.get(), fd);

		if (err)
			fail_request(q, err);
		else
			finish(q, 0, "");
		return;
	}
}

/* ---- answers --------------------------------------------------------------------------------------------- */

program::request *program::request_of(const incoming &in)
{
	for (request &q : requests_)
		if (q.busy && q.number && q.number == in.h.number && q.peer == in.slot)
			return &q;
	return nullptr;
}

void program::on_message(const incoming &in)
{
	if (in.kind != message::ack && in.kind != message::data) {
		exports_.serve(in);
		return;
	}
	if (on_sent_ack(in))
		return;
	request *const q = request_of(in);
	if (!q || q->receives)
		return;
	if (in.kind == message::ack)
		on_ack(*q, in);
	else
		on_data(*q, in);
}

static const char *status_text(int status)
{
	switch (-status) {
	case ENOENT:
		return "the memory is not exported there (any more)";
	case EACCES:
		return "the memory was exported for a list of processes of its own machine: export it for all "
		       "(ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION)";
	case EFAULT:
		return "the range is not within the memory there";
	case ENOSPC:
		return "the machine there has opened as much memory for others as it does";
	default:
		return strerror(-status);
	}
}

void program::on_ack(request &q, const incoming &in)
{
	q.answered = true;
	q.number = 0;
	/* Data are no ack's to promise. */
	q.status = in.h.status || q.r.op != u32(helper_op::get) ? in.h.status : -EPROTO;
	q.id = in.h.id;
	q.size = in.h.value;
	if (!q.sends)
		finish_answered(q);
}

void program::finish_answered(request &q)
{
	const bool opens = !q.status && q.r.op == u32(helper_op::open);
	std::shared_ptr<u8> lost;
	u64 size;

	if (opens && q.r.local)
		lost = exports_.own(q.r.local, &size);
	if (lost && range_within(q.r.local_offset, sizeof(u64), size) && q.r.local_offset % sizeof(u64) == 0)
		lost = {lost, lost.get() + q.r.local_offset};
	else
		lost.reset();
	if (opens)
		opened_[++last_id_] = {q.peer, q.id, std::move(lost)};
	finish(q, q.status, status_text(q.status), opens ? last_id_ : 0, opens ? q.size : 0);
}

void program::on_data(request &q, const incoming &in)
{
	if (q.r.op != u32(helper_op::get) || in.h.length != q.r.length || in.h.status) {
		finish(q, -EPROTO, "the peer's answer is malformed");
		return;
	}
	q.receives = true;
	node_.ucx().receive(in, part(q), [this, &q](bool done) {
		q.receives = false;
		if (q.lost || !done)
			finish_lost(q);
		else
			finish(q, 0, "");
	});
}

} // namespace usdma::net
