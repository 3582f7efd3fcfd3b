/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How ranks meet. The process that made the root info listens on an abstract socket. One rank of that process accepts
 * the others: it collects what each has for its peers, and sends each of them its part. Then all import, and the
 * accepting rank confirms when all have. The sockets stay open: a closed one is a lost rank (monitor.cpp).
 */
#include "driver/base/clock.h"
#include "driver/base/fd.h"
#include "driver/base/words.h"
#include "lib/core/config/config.h"
#include "lib/core/ipc/fabric.h"
#include "lib/hccl_comm/comm.h"

#include <cstdio>
#include <cstring>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace usdma::hccl_comm {
namespace {

constexpr char root_magic[8] = "usdmaR1";
constexpr u64 connect_s = 120, hello_ms = 5000;

/* The first message of a rank; size pair_infos follow it. */
struct hello {
	char magic[8];
	u8 cookie[16];
	u32 size;
	rank_info rank;
};

/* ---- root infos that no rank has joined yet --------------------------------------------------------------- */

struct listener {
	root_info root = {};
	unique_fd fd;
};

constexpr unsigned max_listeners = 64;
constinit std::mutex lock;
constinit listener listeners[max_listeners];

int address_of(const root_info &root, sockaddr_un *at)
{
	*at = {};
	at->sun_family = AF_UNIX;
	/* The byte before the name stays 0: an abstract name. */
	const size_t len = strnlen(root.name, sizeof(root.name));

	memcpy(at->sun_path + 1, root.name, len);
	return int(offsetof(sockaddr_un, sun_path) + 1 + len);
}

HcclResult listen_at(const root_info &root, unique_fd *out)
{
	sockaddr_un at;
	const int len = address_of(root, &at);
	unique_fd fd(fd_above_stdio(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));

	if (!fd.valid() || bind(fd.get(), reinterpret_cast<sockaddr *>(&at), socklen_t(len)) ||
	    listen(fd.get(), max_ranks)) {
		log_warn("hccl: no socket to listen on: %s", strerrordesc_np(errno));
		return HCCL_E_SYSCALL;
	}
	*out = std::move(fd);
	return HCCL_SUCCESS;
}

/* The listener of a root info of this process, once. */
unique_fd take_listener(const root_info &root)
{
	const std::lock_guard hold(lock);

	for (listener &l : listeners)
		if (l.fd.valid() && !memcmp(&l.root, &root, sizeof(root)))
			return std::move(l.fd);
	return unique_fd();
}

/* ---- messages ------------------------------------------------------------------------------------------ */

/* All of it until the deadline. */
HcclResult transmit(int fd, void *data, size_t len, bool out, deadline until)
{
	auto *at = static_cast<char *>(data);

	while (len) {
		const ssize_t n = out ? send(fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL) :
					recv(fd, at, len, MSG_DONTWAIT);
		pollfd p = {fd, short(out ? POLLOUT : POLLIN), 0};

		if (n > 0) {
			at += n;
			len -= size_t(n);
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			return HCCL_E_REMOTE;
		} else if (until.passed()) {
			return HCCL_E_TIMEOUT;
		} else {
			poll(&p, 1, until.left_ms(1000));
		}
	}
	return HCCL_SUCCESS;
}

template <class T> HcclResult put(int fd, const T *data, size_t count, deadline until)
{
	return transmit(fd, const_cast<T *>(data), count * sizeof(T), true, until);
}

template <class T> HcclResult get(int fd, T *data, size_t count, deadline until)
{
	return transmit(fd, data, count * sizeof(T), false, until);
}

/* A result as a word; an error of the transmission comes first. */
HcclResult get_result(int fd, deadline until)
{
	u32 word = HCCL_E_REMOTE;

	if (HcclResult ret = get(fd, &word, 1, until))
		return ret;
	return word <= HCCL_E_RESERVED ? HcclResult(word) : HCCL_E_REMOTE;
}

HcclResult put_result(int fd, HcclResult result, deadline until)
{
	const u32 word = result;

	return put(fd, &word, 1, until);
}

/* Texts of another process end. */
void terminate(rank_info *all, pair_info *pairs, u32 size)
{
	for (u32 r = 0; r < size; r++) {
		all[r].key[key_len - 1] = 0;
		pairs[r].arrived_key[key_len - 1] = pairs[r].taken_key[key_len - 1] = 0;
	}
}

bool same_user(int fd)
{
	ucred who{};
	socklen_t len = sizeof(who);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) && who.uid == geteuid();
}

/* ---- the rank that accepts ------------------------------------------------------------------------------- */

/* What all ranks have sent: rank r for rank p at pairs[r * size + p]. */
struct roll {
	std::unique_ptr<rank_info[]> ranks;
	std::unique_ptr<pair_info[]> pairs;
};

/* Another program's connection is dropped, a rank that does not fit is answered. */
void take_in(comm *c, const root_info &root, unique_fd fd, roll *all, deadline until)
{
	hello h;

	until = deadline::sooner(until, deadline::in_ms(hello_ms)); /* one that is silent does not stop the others */
	if (!same_user(fd.get()) || get(fd.get(), &h, 1, until) || memcmp(h.magic, root_magic, sizeof(h.magic)) ||
	    memcmp(h.cookie, root.cookie, sizeof(h.cookie)))
		return;
	if (h.size != c->size || h.rank.rank >= c->size || h.rank.rank == c->rank || c->sockets[h.rank.rank].valid()) {
		log_warn("hccl: rank %u of %u: there is such a rank, or the group has %u", h.rank.rank, h.size,
			 c->size);
		put_result(fd.get(), HCCL_E_PARA, until);
		return;
	}
	if (get(fd.get(), &all->pairs[h.rank.rank * c->size], c->size, until))
		return;
	all->ranks[h.rank.rank] = h.rank;
	c->sockets[h.rank.rank] = std::move(fd);
}

u32 missing(const comm *c)
{
	u32 n = 0;

	for (u32 r = 0; r < c->size; r++)
		n += r != c->rank && !c->sockets[r].valid();
	return n;
}

HcclResult collect(comm *c, const root_info &root, int listening, roll *all, deadline until)
{
	while (const u32 n = missing(c)) {
		pollfd p = {listening, POLLIN, 0};

		if (until.passed()) {
			log_warn("hccl: %u of %u ranks have not joined", n, c->size);
			return HCCL_E_TIMEOUT;
		}
		if (poll(&p, 1, until.left_ms(1000)) <= 0)
			continue;
		unique_fd fd(fd_above_stdio(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC)));
		if (fd.valid())
			take_in(c, root, std::move(fd), all, until);
	}
	return HCCL_SUCCESS;
}

/* Each rank gets all ranks, and what each has for it. */
HcclResult hand_out(comm *c, const roll &all, pair_info *own, deadline until)
{
	pair_info column[max_ranks];

	for (u32 r = 0; r < c->size; r++) {
		for (u32 from = 0; from < c->size; from++)
			(r == c->rank ? own : column)[from] = all.pairs[from * c->size + r];
		if (r == c->rank)
			continue;
		const int fd = c->sockets[r].get();
		HcclResult ret = put_result(fd, HCCL_SUCCESS, until);
		ret = ret ? ret : put(fd, all.ranks.get(), c->size, until);
		ret = ret ? ret : put(fd, column, c->size, until);
		if (ret)
			return ret;
	}
	return HCCL_SUCCESS;
}

/* The first error of all ranks, the own one included, is everybody's. */
HcclResult agree(comm *c, HcclResult own, deadline until)
{
	for (u32 r = 0; r < c->size; r++) {
		const HcclResult theirs = r == c->rank ? HCCL_SUCCESS : get_result(c->sockets[r].get(), until);

		own = own ? own : theirs;
	}
	for (u32 r = 0; r < c->size; r++)
		if (r != c->rank)
			put_result(c->sockets[r].get(), own ? HCCL_E_REMOTE : HCCL_SUCCESS, until);
	return own;
}

HcclResult accept_all(comm *c, const root_info &root, int listening, pair_info *mine, deadline until)
{
	roll all = {std::unique_ptr<rank_info[]>(new (std::nothrow) rank_info[c->size]),
		    std::unique_ptr<pair_info[]>(new (std::nothrow) pair_info[size_t(c->size) * c->size])};

	c->sockets.reset(new (std::nothrow) unique_fd[c->size]);
	if (!all.ranks || !all.pairs || !c->sockets)
		return HCCL_E_MEMORY;
	c->socket_count = c->size;
	all.ranks[c->rank] = c->own;
	memcpy(&all.pairs[c->rank * c->size], mine, c->size * sizeof(*mine));
	if (HcclResult ret = collect(c, root, listening, &all, until))
		return ret;
	if (HcclResult ret = hand_out(c, all, mine, until))
		return ret;
	terminate(all.ranks.get(), mine, c->size);
	return agree(c, import_peers(c, all.ranks.get(), mine), until);
}

/* ---- the other ranks -------------------------------------------------------------------------------------- */

HcclResult connect_to(const root_info &root, unique_fd *out)
{
	sockaddr_un at;
	const int len = address_of(root, &at);
	unique_fd fd(fd_above_stdio(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));

	const timeval limit = {connect_s, 0};

	if (!fd.valid() || setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)))
		return HCCL_E_SYSCALL;
	if (connect(fd.get(), reinterpret_cast<sockaddr *>(&at), socklen_t(len))) {
		log_warn("hccl: the process of HcclGetRootInfo has ended, or is in another network namespace: %s",
			 strerrordesc_np(errno));
		return HCCL_E_TCP_CONNECT;
	}
	*out = std::move(fd);
	return HCCL_SUCCESS;
}

HcclResult meet(comm *c, const root_info &root, pair_info *mine, rank_info *all, deadline until)
{
	const int fd = c->sockets[0].get();
	hello h{};

	if (!same_user(fd))
		return HCCL_E_TCP_CONNECT;

	memcpy(h.magic, root_magic, sizeof(h.magic));
	memcpy(h.cookie, root.cookie, sizeof(h.cookie));
	h.size = c->size;
	h.rank = c->own;
	HcclResult ret = put(fd, &h, 1, until);
	ret = ret ? ret : put(fd, mine, c->size, until);
	ret = ret ? ret : get_result(fd, until);
	ret = ret ? ret : get(fd, all, c->size, until);
	return ret ? ret : get(fd, mine, c->size, until);
}

HcclResult connect_and_meet(comm *c, const root_info &root, pair_info *mine, deadline until)
{
	rank_info all[max_ranks];

	c->sockets.reset(new (std::nothrow) unique_fd[1]);
	if (!c->sockets)
		return HCCL_E_MEMORY;
	if (HcclResult ret = connect_to(root, &c->sockets[0]))
		return ret;
	c->socket_count = 1;
	if (HcclResult ret = meet(c, root, mine, all, until))
		return ret;
	terminate(all, mine, c->size);
	const int fd = c->sockets[0].get();
	const HcclResult own = import_peers(c, all, mine), sent = put_result(fd, own, until);
	const HcclResult go = sent ? sent : get_result(fd, until);
	return own ? own : go;
}

u64 connect_seconds()
{
	const char *text = core::config_env("HCCL_CONNECT_TIMEOUT");
	u64 s = connect_s;

	if (text && !number_parse(text, &s, 1, 7200))
		log_warn("hccl: HCCL_CONNECT_TIMEOUT=%s: it takes seconds from 1 to 7200", text);
	return s;
}

} // namespace

HcclResult make_root(HcclRootInfo *out)
{
	root_info root{};
	unique_fd fd;

	memcpy(root.magic, root_magic, sizeof(root.magic));
	core::fabric_boot_id(root.boot_id);
	if (getrandom(root.cookie, sizeof(root.cookie), 0) != ssize_t(sizeof(root.cookie)))
		return HCCL_E_SYSCALL;
	snprintf(root.name, sizeof(root.name), "usdma-hccl-%d-%02x%02x%02x%02x%02x%02x%02x%02x", getpid(),
		 root.cookie[0], root.cookie[1], root.cookie[2], root.cookie[3], root.cookie[4], root.cookie[5],
		 root.cookie[6], root.cookie[7]);
	if (HcclResult ret = listen_at(root, &fd))
		return ret;
	const std::lock_guard hold(lock);
	for (listener &l : listeners) {
		if (l.fd.valid())
			continue;
		l.root = root;
		l.fd = std::move(fd);
		memset(out, 0, sizeof(*out));
		memcpy(out, &root, sizeof(root));
		return HCCL_SUCCESS;
	}
	log_warn("hccl: %u root infos of this process wait for ranks", max_listeners);
	return HCCL_E_UNAVAIL;
}

HcclResult join(comm *c, const root_info &root, u64 bytes)
{
	const deadline until = deadline::in_ms(connect_seconds() * 1000);
	pair_info mine[max_ranks] = {};
	u8 here[16];

	core::fabric_boot_id(here);
	if (memcmp(root.magic, root_magic, sizeof(root.magic)))
		return HCCL_E_PARA;
	if (memcmp(root.boot_id, here, sizeof(here))) {
		log_warn("hccl: the root info is of another host");
		return HCCL_E_NOT_SUPPORT;
	}
	/* First: if this rank fails, it is closed, and the others fail at once. */
	const unique_fd listening = take_listener(root);
	if (HcclResult ret = make_resources(c, bytes, mine))
		return ret;
	return listening.valid() ? accept_all(c, root, listening.get(), mine, until) :
				   connect_and_meet(c, root, mine, until);
}

} // namespace usdma::hccl_comm
