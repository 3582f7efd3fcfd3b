/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How ranks meet. The process that made the root info listens on an abstract socket; where all ranks know the socket's
 * name beforehand (a rank table, a group's part), rank 0 does. One rank of that process accepts the others: it collects
 * what each has for its peers, and sends each of them its part. Then all import, and the accepting rank confirms when
 * all have. The sockets stay open: a closed one is a lost rank (monitor.cpp).
 */
#include "driver/base/clock.h"
#include "driver/base/fd.h"
#include "driver/base/words.h"
#include "lib/core/config/config.h"
#include "lib/share/fabric.h"
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

constexpr char root_magic[8] = "usdmaR2";
constexpr u64 connect_s = 120, hello_ms = 5000;
constexpr int retry_ms = 10, remote_retry_ms = 200;

/* The first message of a rank. */
struct hello {
	char magic[8];
	u8 cookie[16];
	u32 size;
	rank_info rank;
};

/* ---- root infos that no rank has joined yet --------------------------------------------------------------- */

/* Sockets for ranks of this machine, and for those of others (remote.h), if such may come. */
struct listening {
	unique_fd here, remote;
};

struct listener {
	root_info root = {};
	listening at;
	u64 made = 0;  /* in the order of */
	pid_t pid = 0; /* of the process: a child of it has a copy */
};

constexpr unsigned max_listeners = 64;
constinit std::mutex lock;
constinit listener listeners[max_listeners];
constinit u64 last_made = 0;

int address_of(const root_info &root, sockaddr_un *at)
{
	*at = {};
	at->sun_family = AF_UNIX;
	/* The byte before the name stays 0: an abstract name. */
	const size_t len = strnlen(root.name, sizeof(root.name));

	memcpy(at->sun_path + 1, root.name, len);
	return int(offsetof(sockaddr_un, sun_path) + 1 + len);
}

/* 0 or -errno. */
int listen_at(const root_info &root, unique_fd *out)
{
	sockaddr_un at;
	const int len = address_of(root, &at);
	unique_fd fd(fd_above_stdio(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));

	if (!fd.valid() || bind(fd.get(), reinterpret_cast<sockaddr *>(&at), socklen_t(len)) ||
	    listen(fd.get(), max_ranks))
		return -errno;
	*out = std::move(fd);
	return 0;
}

HcclResult no_listener(int err)
{
	return because(HCCL_E_SYSCALL, "no socket to listen on: %s", strerrordesc_np(-err));
}

/* For a fixed name: another group that has it, of an earlier call, may be meeting just now. */
HcclResult listen_fixed(const root_info &root, unique_fd *out, deadline until)
{
	int err;

	while ((err = listen_at(root, out)) == -EADDRINUSE && !until.passed())
		poll(nullptr, 0, retry_ms);
	if (err == -EADDRINUSE)
		return because(HCCL_E_TIMEOUT, "another process is rank 0 of a group of this rank table or name");
	return err ? no_listener(err) : HCCL_SUCCESS;
}

/* The listener of a root info of this process, once. */
listening take_listener(const root_info &root)
{
	const std::lock_guard hold(lock);

	for (listener &l : listeners)
		if (l.at.here.valid() && l.pid == getpid() && !memcmp(&l.root, &root, sizeof(root)))
			return std::move(l.at);
	return {};
}

bool is_here(const root_info &root)
{
	u8 here[16];

	core::fabric_boot_id(here);
	return !memcmp(root.boot_id, here, sizeof(here));
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
		for (slot_info &s : pairs[r].slots)
			s.arrived_key[key_len - 1] = s.taken_key[key_len - 1] = 0;
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

/*
 * Another program's connection is dropped, a rank that does not fit is answered. HCCL_E_REMOTE: a connection ended
 * before it said what it is: a rank, most likely.
 */
HcclResult take_in(comm *c, const root_info &root, unique_fd fd, bool remote, roll *all, deadline until)
{
	hello h;

	if (!remote && !same_user(fd.get()))
		return HCCL_SUCCESS;
	until = deadline::sooner(until, deadline::in_ms(hello_ms)); /* one that is silent does not stop the others */
	if (HcclResult ret = get(fd.get(), &h, 1, until))
		return ret == HCCL_E_TIMEOUT ? HCCL_SUCCESS : because(ret, "a rank ended while it joined");
	if (memcmp(h.magic, root_magic, sizeof(h.magic)) || memcmp(h.cookie, root.cookie, sizeof(h.cookie)))
		return HCCL_SUCCESS;
	if (h.size != c->size || h.rank.rank >= c->size || h.rank.rank == c->rank || c->sockets[h.rank.rank].valid()) {
		log_warn("hccl: rank %u of %u: there is such a rank, or the group has %u", h.rank.rank, h.size,
			 c->size);
		put_result(fd.get(), HCCL_E_PARA, until);
		return HCCL_SUCCESS;
	}
	all->ranks[h.rank.rank] = h.rank;
	c->sockets[h.rank.rank] = std::move(fd);
	return HCCL_SUCCESS;
}

u32 missing(const comm *c)
{
	u32 n = 0;

	for (u32 r = 0; r < c->size; r++)
		n += r != c->rank && !c->sockets[r].valid();
	return n;
}

/* A rank that has joined sends nothing until all have: its socket is readable when it has ended. */
HcclResult check_ended(const pollfd *fds, u32 n)
{
	for (u32 r = 0; r < n; r++)
		if (fds[r].fd >= 0 && fds[r].revents)
			return because(HCCL_E_REMOTE, "rank %u joined and ended", r);
	return HCCL_SUCCESS;
}

HcclResult take_local(comm *c, const root_info &root, int listening, roll *all, deadline until)
{
	unique_fd fd(fd_above_stdio(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC)));

	return fd.valid() ? take_in(c, root, std::move(fd), false, all, until) : HCCL_SUCCESS;
}

HcclResult take_remote(comm *c, const root_info &root, int listening, roll *all, deadline until)
{
	unique_fd fd;

	if (HcclResult ret = remote_accept(listening, &fd))
		return ret;
	return fd.valid() ? take_in(c, root, std::move(fd), true, all, until) : HCCL_SUCCESS;
}

HcclResult collect(comm *c, const root_info &root, const listening &at, roll *all, deadline until)
{
	pollfd fds[max_ranks + 2];

	while (const u32 n = missing(c)) {
		if (until.passed())
			return because(HCCL_E_TIMEOUT, "%u of %u ranks have not joined within HCCL_CONNECT_TIMEOUT", n,
				       c->size);
		for (u32 r = 0; r < c->size; r++)
			fds[r] = {c->sockets[r].get(), POLLIN, 0};
		fds[c->size] = {at.here.get(), POLLIN, 0};
		fds[c->size + 1] = {at.remote.get(), POLLIN, 0};
		if (poll(fds, c->size + 2, until.left_ms(1000)) <= 0)
			continue;
		HcclResult ret = check_ended(fds, c->size);
		if (!ret && fds[c->size].revents)
			ret = take_local(c, root, at.here.get(), all, until);
		if (!ret && fds[c->size + 1].revents)
			ret = take_remote(c, root, at.remote.get(), all, until);
		if (ret)
			return ret;
	}
	return HCCL_SUCCESS;
}

/* Each rank gets all ranks, and sends what it has for each. */
HcclResult meet_all(comm *c, roll *all, pair_info *own, deadline until)
{
	for (u32 r = 0; r < c->size; r++) {
		HcclResult ret = r == c->rank ? HCCL_SUCCESS : put_result(c->sockets[r].get(), HCCL_SUCCESS, until);
		ret = ret || r == c->rank ? ret : put(c->sockets[r].get(), all->ranks.get(), c->size, until);
		if (ret)
			return because(ret, "rank %u ended while it joined", r);
	}
	if (HcclResult ret = export_pairs(c, all->ranks.get(), own))
		return ret;
	for (u32 r = 0; r < c->size; r++) {
		pair_info *row = &all->pairs[r * c->size];

		if (r == c->rank)
			memcpy(row, own, c->size * sizeof(*own));
		else if (HcclResult ret = get(c->sockets[r].get(), row, c->size, until))
			return because(ret, "rank %u failed or ended while it joined", r);
	}
	return HCCL_SUCCESS;
}

/* Each rank gets what all have for it. */
HcclResult hand_out(comm *c, const roll &all, pair_info *own, deadline until)
{
	pair_info column[max_ranks];

	for (u32 r = 0; r < c->size; r++) {
		for (u32 from = 0; from < c->size; from++)
			(r == c->rank ? own : column)[from] = all.pairs[from * c->size + r];
		if (r == c->rank)
			continue;
		if (HcclResult ret = put(c->sockets[r].get(), column, c->size, until))
			return because(ret, "rank %u ended while it joined", r);
	}
	return HCCL_SUCCESS;
}

/* The first error of all ranks, the own one included, is everybody's. */
HcclResult agree(comm *c, HcclResult own, deadline until)
{
	for (u32 r = 0; r < c->size; r++) {
		const HcclResult theirs = r == c->rank ? HCCL_SUCCESS : get_result(c->sockets[r].get(), until);

		if (theirs)
			because(theirs, "rank %u could not join: %d", r, theirs);
		own = own ? own : theirs;
	}
	for (u32 r = 0; r < c->size; r++)
		if (r != c->rank)
			put_result(c->sockets[r].get(), own ? HCCL_E_REMOTE : HCCL_SUCCESS, until);
	return own;
}

HcclResult accept_all(comm *c, const root_info &root, listening at, pair_info *mine, deadline until)
{
	roll all = {std::unique_ptr<rank_info[]>(new (std::nothrow) rank_info[c->size]),
		    std::unique_ptr<pair_info[]>(new (std::nothrow) pair_info[size_t(c->size) * c->size])};

	c->sockets.reset(new (std::nothrow) unique_fd[c->size]);
	if (!all.ranks || !all.pairs || !c->sockets)
		return HCCL_E_MEMORY;
	c->socket_count = c->size;
	all.ranks[c->rank] = c->own;
	if (HcclResult ret = collect(c, root, at, &all, until))
		return ret;
	at = {}; /* before any rank goes on: it may connect to the next group of that name */
	if (HcclResult ret = meet_all(c, &all, mine, until))
		return ret;
	if (HcclResult ret = hand_out(c, all, mine, until))
		return ret;
	terminate(all.ranks.get(), mine, c->size);
	return agree(c, import_peers(c, all.ranks.get(), mine), until);
}

/* ---- the other ranks -------------------------------------------------------------------------------------- */

/* 0 or -errno. */
int connect_once(const root_info &root, unique_fd *out)
{
	sockaddr_un at;
	const int len = address_of(root, &at);
	const timeval limit = {connect_s, 0};
	unique_fd fd(fd_above_stdio(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));

	if (!fd.valid() || setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) ||
	    connect(fd.get(), reinterpret_cast<sockaddr *>(&at), socklen_t(len)))
		return -errno;
	*out = std::move(fd);
	return 0;
}

/* As connect_to(). */
HcclResult connect_remote(const root_info &root, unique_fd *out, deadline until)
{
	HcclResult ret;
	bool later;

	while ((ret = remote_connect(root, out, &later)) && later && root.fixed_name && !until.passed())
		poll(nullptr, 0, remote_retry_ms);
	if (!ret || !later)
		return ret;
	return root.fixed_name ?
		       because(HCCL_E_TIMEOUT, "rank 0 (host %s) has not joined within HCCL_CONNECT_TIMEOUT",
			       remote_address(root.at).text) :
		       because(ret, "the process of HcclGetRootInfo (host %s) has ended, or the group has met already",
			       remote_address(root.at).text);
}

HcclResult connect_to(const root_info &root, unique_fd *out, deadline until)
{
	int err;

	if (!is_here(root))
		return connect_remote(root, out, until);

	/* With a fixed name rank 0 may come later; a root info is made before the others know it. */
	while ((err = connect_once(root, out)) == -ECONNREFUSED && root.fixed_name && !until.passed())
		poll(nullptr, 0, retry_ms);
	if (err && root.fixed_name)
		return because(HCCL_E_TIMEOUT, "rank 0 has not joined within HCCL_CONNECT_TIMEOUT: %s",
			       strerrordesc_np(-err));
	if (err)
		return because(HCCL_E_TCP_CONNECT,
			       "the process of HcclGetRootInfo has ended, or is in another network namespace: %s",
			       strerrordesc_np(-err));
	return HCCL_SUCCESS;
}

HcclResult say_hello(const comm *c, const root_info &root, deadline until)
{
	const int fd = c->sockets[0].get();
	hello h{};

	if (is_here(root) && !same_user(fd))
		return because(HCCL_E_TCP_CONNECT, "the root info's process is another user's");
	memcpy(h.magic, root_magic, sizeof(h.magic));
	memcpy(h.cookie, root.cookie, sizeof(h.cookie));
	h.size = c->size;
	h.rank = c->own;
	const HcclResult ret = put(fd, &h, 1, until);
	return ret ? ret : get_result(fd, until);
}

/* Again, if the name was still that of an earlier group. */
HcclResult connect_and_greet(comm *c, const root_info &root, deadline until)
{
	HcclResult ret;

	do {
		if ((ret = connect_to(root, &c->sockets[0], until)))
			return ret;
		ret = say_hello(c, root, until);
	} while (ret == HCCL_E_REMOTE && root.fixed_name && !until.passed() && poll(nullptr, 0, retry_ms) >= 0);
	if (ret == HCCL_E_PARA)
		because(ret, "there is a rank %u, or the group has not %u ranks", c->rank, c->size);
	else if (ret)
		because(ret, ret == HCCL_E_TIMEOUT ? "not all ranks have joined within HCCL_CONNECT_TIMEOUT" :
						     "another rank failed to join");
	return ret;
}

HcclResult connect_and_meet(comm *c, const root_info &root, pair_info *mine, deadline until)
{
	rank_info all[max_ranks];

	c->sockets.reset(new (std::nothrow) unique_fd[1]);
	if (!c->sockets)
		return HCCL_E_MEMORY;
	c->socket_count = 1;
	if (HcclResult ret = connect_and_greet(c, root, until))
		return ret;
	const int fd = c->sockets[0].get();
	HcclResult ret = get(fd, all, c->size, until);
	ret = ret ? ret : export_pairs(c, all, mine);
	ret = ret ? ret : put(fd, mine, c->size, until);
	ret = ret ? ret : get(fd, mine, c->size, until);
	if (ret)
		return because(ret, "the accepting rank failed to join");
	terminate(all, mine, c->size);
	const HcclResult own = import_peers(c, all, mine), sent = put_result(fd, own, until);
	const HcclResult go = sent ? sent : get_result(fd, until);
	if (!own && go)
		because(go, "another rank failed to join");
	return own ? own : go;
}

/* For one more; of 64 that wait the oldest is closed: no rank will join it. */
listener *free_listener()
{
	listener *oldest = listeners;

	for (listener &l : listeners) {
		if (!l.at.here.valid())
			return &l;
		oldest = l.made < oldest->made ? &l : oldest;
	}
	return oldest;
}

void start_root(root_info *root)
{
	memcpy(root->magic, root_magic, sizeof(root->magic));
	core::fabric_boot_id(root->boot_id);
}

/* The name of the socket, by the cookie. */
void name_root(root_info *root, const char *kind, int number)
{
	const u8 *c = root->cookie;

	snprintf(root->name, sizeof(root->name), "usdma-hccl-%s%d-%02x%02x%02x%02x%02x%02x%02x%02x", kind, number, c[0],
		 c[1], c[2], c[3], c[4], c[5], c[6], c[7]);
}

HcclResult listen_remote(root_info *root, listening *at)
{
	const HcclResult ret = remote_here(&root->at);

	return ret ? ret : remote_listen(*root, &at->remote);
}

/* FNV-1a with 64 bits, from a start of its own for each half of the cookie. */
u64 hash(u64 h, const void *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ static_cast<const u8 *>(data)[i]) * 0x100000001b3;
	return h;
}

} // namespace

u64 connect_seconds()
{
	const char *text = core::config_env("HCCL_CONNECT_TIMEOUT");
	u64 s = connect_s;

	if (text && *text && !number_parse(text, &s, 1, 7200))
		log_warn("hccl: HCCL_CONNECT_TIMEOUT=%s: it takes seconds from 1 to 7200", text);
	return s;
}

root_info fixed_root(std::initializer_list<std::pair<const void *, size_t>> parts)
{
	u64 halves[2] = {0xcbf29ce484222325, 0x84222325cbf29ce4};
	root_info root{};

	for (u64 &h : halves)
		for (const auto &[data, len] : parts)
			h = hash(hash(h, &len, sizeof(len)), data, len);
	start_root(&root);
	static_assert(sizeof(halves) == sizeof(root.cookie));
	memcpy(root.cookie, halves, sizeof(halves));
	root.fixed_name = true;
	name_root(&root, "user", int(geteuid())); /* names are the whole host's */
	return root;
}

HcclResult make_root(HcclRootInfo *out, bool remote)
{
	root_info root{};
	listening at;

	start_root(&root);
	if (getrandom(root.cookie, sizeof(root.cookie), 0) != ssize_t(sizeof(root.cookie)))
		return because(HCCL_E_SYSCALL, "no random numbers: %s", strerrordesc_np(errno));
	name_root(&root, "", getpid());
	if (int err = listen_at(root, &at.here))
		return no_listener(err);
	if (HcclResult ret = remote && core::net_is_on() ? listen_remote(&root, &at) : HCCL_SUCCESS)
		return ret;
	const std::lock_guard hold(lock);
	listener *l = free_listener();
	l->root = root;
	l->pid = getpid();
	l->at = std::move(at);
	l->made = ++last_made;
	memset(out, 0, sizeof(*out));
	memcpy(out, &root, sizeof(root));
	return HCCL_SUCCESS;
}

HcclResult find_root(const comm *c, const u32 *ranks, u32 count, root_info *root)
{
	const peer &first = c->peers[ranks[0]];
	bool remote = false;

	for (u32 i = 0; i < count; i++)
		remote |= c->peers[ranks[i]].remote;
	if (ranks[0] == c->rank)
		return remote ? remote_here(&root->at) : HCCL_SUCCESS;
	memcpy(root->boot_id, first.is.host, sizeof(root->boot_id));
	root->at = first.at;
	return HCCL_SUCCESS;
}

HcclResult find_root(const comm *c, root_info *root)
{
	if (!c->rank)
		return c->remote_slot ? remote_here(&root->at) : HCCL_SUCCESS;
	memcpy(root->boot_id, c->first_host, sizeof(root->boot_id));
	root->at = c->first_at;
	return HCCL_SUCCESS;
}

static void note_first(comm *c)
{
	if (!c->rank)
		return;
	memcpy(c->first_host, c->peers[0].is.host, sizeof(c->first_host));
	c->first_at = c->peers[0].at;
}

HcclResult join(comm *c, const root_info &root)
{
	const deadline until = deadline::in_ms(connect_seconds() * 1000);
	pair_info mine[max_ranks] = {};

	if (memcmp(root.magic, root_magic, sizeof(root.magic)))
		return because(HCCL_E_PARA, "it is no root info of HcclGetRootInfo");
	/* First: if this rank fails, it is closed, and the others fail at once. */
	listening at = take_listener(root);
	if (root.fixed_name && !c->rank && c->size > 1) {
		HcclResult ret = listen_fixed(root, &at.here, until);
		ret = ret || !root.at.family ? ret : remote_listen(root, &at.remote);
		if (ret)
			return ret;
	} else if (HcclResult ret = is_here(root) ? HCCL_SUCCESS : remote_possible(root)) {
		return ret;
	}
	if (HcclResult ret = make_resources(c))
		return ret;
	const bool accepts = at.here.valid() || (root.fixed_name && !c->rank);
	const HcclResult ret = accepts ? accept_all(c, root, std::move(at), mine, until) :
					 connect_and_meet(c, root, mine, until);
	if (!ret)
		note_first(c);
	return ret;
}

} // namespace usdma::hccl_comm
